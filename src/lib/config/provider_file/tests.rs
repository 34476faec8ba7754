use std::io::Write;

use super::*;
use crate::config::{Environment, HomeFlags, Loaded};

/// Loads a home with these provider files; `extra` is more of agent.toml.
fn loaded(files: &[(&str, &str)], extra: &str) -> Result<Loaded, String> {
    let dir = tempfile::tempdir().expect("dir");
    let put = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("dir");
        std::fs::File::create_new(path)
            .expect("create")
            .write_all(text.as_bytes())
            .expect("write");
    };
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    put(
        "agent.toml",
        &format!("[providers]\nload = {names:?}\n{extra}"),
    );
    files
        .iter()
        .filter(|(_, text)| !text.is_empty())
        .for_each(|(name, text)| put(&format!("providers.d/{name}.toml"), text));
    let home = Home::resolve(
        HomeFlags {
            home: Some(dir.path().to_owned()),
            ..HomeFlags::default()
        },
        &|_| None,
    )
    .expect("home");
    let short = |text: String| text.replace(&format!("{}/", dir.path().display()), "");
    crate::config::load(&home, &Environment::default(), &[])
        .map_err(|error| short(format!("{error} | {}", error.hint())))
}

fn models(files: &[(&str, &str)], extra: &str) -> Models {
    loaded(files, extra).expect("load").models
}

fn refused(files: &[(&str, &str)], extra: &str, expected: &str) {
    assert_eq!(loaded(files, extra).expect_err(expected), expected);
}

const ANTHROPIC: &str = "type = \"anthropic\"\n[models.primary]\nmodel = \"m\"\n";

#[test]
fn a_short_file_has_the_vendors_defaults() {
    let primary = models(&[("a", ANTHROPIC)], "")
        .get("primary", "test")
        .expect("primary");
    let provider = &primary.provider;
    assert_eq!(
        (provider.kind, provider.base_url.as_str()),
        (ProviderType::Anthropic, "https://api.anthropic.com")
    );
    assert_eq!(provider.api_key_env.as_deref(), Some("ANTHROPIC_API_KEY"));
    assert_eq!(
        (
            primary.max_tokens,
            primary.context_window,
            primary.rates,
            primary.cache
        ),
        (8192, 200_000, None, true)
    );
}

#[test]
fn a_server_of_ones_own_needs_no_key() {
    let file = "type = \"openai\"\nbase_url = \"http://localhost:11434/v1/\"\n[models.primary]\nmodel = \"m\"\ncost_per_mtok = [0, 0, 0, 0]\n";
    let primary = models(&[("o", file)], "")
        .get("primary", "test")
        .expect("primary");
    assert_eq!(
        (
            primary.provider.base_url.as_str(),
            &primary.provider.api_key_env
        ),
        ("http://localhost:11434/v1", &None)
    );
    assert_eq!(primary.rates, Some([0.0; 4]));
}

#[test]
fn tools_are_read_cheaply_by_a_large_model_whose_cached_words_cost_a_quarter_at_most() {
    let check = |settings: &str, expected: bool| {
        let file = format!("type = \"openai\"\n[models.primary]\nmodel = \"m\"\n{settings}");
        let primary = models(&[("o", file.as_str())], "")
            .get("primary", "test")
            .expect("primary");
        assert_eq!(primary.reads_tools_cheaply(), expected, "{settings}");
    };
    check("cost_per_mtok = [2.0, 8.0, 0.5]", true);
    check("cost_per_mtok = [2.0, 8.0, 0.6]", false);
    check("cost_per_mtok = [0, 0, 0, 0]", false);
    check("", false);
    check(
        "context_window = 32000\ncost_per_mtok = [2.0, 8.0, 0.5]",
        false,
    );
    check(
        "cache_control = false\ncost_per_mtok = [2.0, 8.0, 0.5]",
        false,
    );
}

#[test]
fn a_cache_of_an_hour_is_written_at_twice_the_price() {
    let of = |settings: &str| {
        let file = format!(
            "type = \"anthropic\"\n[models.primary]\nmodel = \"m\"\ncost_per_mtok = [3.0, 15.0, 0.3]\n{settings}"
        );
        let primary = models(&[("a", file.as_str())], "")
            .get("primary", "test")
            .expect("primary");
        (primary.cache_ttl, primary.rates.map(|[.., write]| write))
    };
    let (short, hour) = (Ttl::Minutes5, Ttl::Hour);
    assert_eq!(of(""), ([short; 3], Some(3.75)));
    assert_eq!(
        of("cache_ttl = [\"1h\", \"1h\", \"5m\"]"),
        ([hour, hour, short], Some(6.0))
    );
}

#[test]
fn an_hour_that_is_priced_as_five_minutes_is_a_warning() {
    let of = |kind: &str, settings: &str| {
        let file = format!(
            "type = \"{kind}\"\n[models.primary]\nmodel = \"m\"\ncost_per_mtok = {settings}"
        );
        let loaded = loaded(&[("a", file.as_str())], "").expect("load");
        loaded
            .warnings
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let hour = "cache_ttl = [\"1h\", \"5m\", \"5m\"]";
    let told = of("anthropic", &format!("[3, 15, 0.3, 3.75]\n{hour}"));
    assert!(
        told.len() == 1
            && told[0].contains("a.toml:4: `models.primary.cost_per_mtok` has too low a price"),
        "{told:?}"
    );
    let none: [String; 0] = [];
    for (kind, settings) in [
        ("anthropic", format!("[3, 15, 0.3, 6]\n{hour}")),
        ("anthropic", format!("[3, 15, 0.3]\n{hour}")),
        (
            "anthropic",
            format!("[3, 15, 0.3, 3.75]\n{hour}\ncache_control = false"),
        ),
        ("anthropic", "[3, 15, 0.3, 3.75]".to_owned()),
        ("gemini", format!("[3, 15, 0.3, 3]\n{hour}")),
    ] {
        assert_eq!(of(kind, &settings), none, "{kind} {settings}");
    }
}

#[test]
fn gemini_has_its_own_address_and_key() {
    let file = "type = \"gemini\"\n[models.primary]\nmodel = \"gemini-3-pro\"\ncost_per_mtok = [2, 12, 0.2]\n";
    let primary = models(&[("g", file)], "")
        .get("primary", "test")
        .expect("primary");
    let Provider {
        kind,
        base_url,
        api_key_env,
        ..
    } = &*primary.provider;
    assert_eq!(
        (*kind, base_url.as_str()),
        (
            ProviderType::Gemini,
            "https://generativelanguage.googleapis.com"
        )
    );
    assert_eq!(
        (api_key_env.as_deref(), primary.rates),
        (Some("GEMINI_API_KEY"), Some([2.0, 12.0, 0.2, 2.0]))
    );
}

#[test]
fn rates_are_three_or_four_numbers_none_negative() {
    let with = |kind: &str, rates: &str| {
        loaded(
            &[(
                "a",
                &format!(
                    "type = \"{kind}\"\n[models.primary]\nmodel = \"m\"\ncost_per_mtok = {rates}\n"
                ),
            )],
            "",
        )
    };
    let rates = |kind, text| {
        with(kind, text)
            .expect("load")
            .models
            .get("primary", "test")
            .expect("primary")
            .rates
    };
    assert_eq!(
        rates("anthropic", "[4, 15, 0.3]"),
        Some([4.0, 15.0, 0.3, 5.0])
    );
    assert_eq!(rates("openai", "[4, 15, 0.3]"), Some([4.0, 15.0, 0.3, 5.0]));
    assert_eq!(rates("gemini", "[4, 15, 0.3]"), Some([4.0, 15.0, 0.3, 4.0]));
    assert_eq!(rates("openai", "[1, 2, 3, 4]"), Some([1.0, 2.0, 3.0, 4.0]));
    for bad in [
        "[1, 2]",
        "[1, 2, 3, 4, 5]",
        "[1, -2, 3]",
        "[nan, 1, 1]",
        "[1, inf, 1]",
    ] {
        let message = with("openai", bad).expect_err(bad);
        assert!(
            message.starts_with(
                "providers.d/a.toml:4: `models.primary.cost_per_mtok`: expected [input, output"
            ),
            "{message}"
        );
    }
}

#[test]
fn the_offline_model_is_primary_when_it_is_alone() {
    let alone = models(&[("offline", "")], "");
    assert_eq!(alone.for_role("cli").expect("model").name, "offline");
    assert_eq!(alone.for_role("cli").expect("model").rates, Some([0.0; 4]));
    let both = models(
        &[("offline", ""), ("a", ANTHROPIC)],
        "[routing]\nsystem = \"offline\"\n",
    );
    assert_eq!(both.names().collect::<Vec<_>>(), ["offline", "primary"]);
    assert_eq!(
        (
            both.for_role("cli").expect("model").name.as_str(),
            both.for_role("system").expect("model").name.as_str()
        ),
        ("primary", "offline")
    );
    assert_eq!(both.for_role("speech_to_text"), None);
}

#[test]
fn an_offline_file_can_name_models_and_scripts() {
    let models = models(
        &[(
            "offline",
            "type = \"offline\"\nscripts_dir = \"/s\"\n[models.primary]\n[models.small]\n",
        )],
        "",
    );
    let small = models.get("small", "test").expect("small");
    assert_eq!(
        (
            small.model.as_str(),
            small.rates,
            small.provider.scripts_dir.as_deref()
        ),
        ("small", Some([0.0; 4]), Some(std::path::Path::new("/s")))
    );
}

#[test]
fn of_two_models_with_one_name_the_first_loaded_has_it_and_the_other_its_providers_name_before_it()
{
    let small = "[models.small]\nmodel = \"s\"\n";
    let second = format!("{ANTHROPIC}fallbacks = [\"small\"]\n{small}");
    let first = format!("{ANTHROPIC}{small}");
    let models = models(
        &[("a", &first), ("b", &second)],
        "[routing]\ncli = \"b/primary\"\n",
    );
    assert!(
        models
            .names()
            .eq(["b/primary", "b/small", "primary", "small"])
    );
    let primary = models.get("primary", "test").expect("primary");
    assert_eq!(primary.provider.name, "a");
    let other = models.for_role("cli").expect("cli");
    assert_eq!(
        (other.provider.name.as_str(), other.fallbacks.as_slice()),
        ("b", ["b/small".to_owned()].as_slice())
    );
    assert!(models.in_use().map(|model| model.name.as_str()).eq([
        "b/primary",
        "b/small",
        "primary"
    ]));
}

#[test]
fn a_missing_file_and_a_missing_primary_name_the_next_step() {
    refused(
        &[("a", "")],
        "",
        "providers.d/a.toml: the provider file is missing (`providers.load` names `a`) | \
         create providers.d/a.toml (examples are next to it), or remove `a` from `providers.load`",
    );
    refused(
        &[("antropic", "")],
        "",
        "providers.d/antropic.toml: the provider file is missing (`providers.load` names `antropic`; did you mean `anthropic`?) | \
         write `anthropic` instead of `antropic` in `providers.load`, then `agent-daemon check`",
    );
    let other = ANTHROPIC.replace("primary", "other");
    refused(
        &[("a", &other)],
        "",
        "no loaded provider defines the model `primary` (loaded: a) | add a table [models.primary] to providers.d/a.toml",
    );
}

#[test]
fn a_provider_name_is_no_path() {
    assert!(
        loaded(&[("../agent", "")], "")
            .expect_err("path")
            .contains("is missing")
    );
}

#[test]
fn unknown_models_in_routing_and_fallbacks_are_refused() {
    let hint = "correct the name, or define [models.gone] in a loaded providers.d file";
    refused(
        &[("a", ANTHROPIC)],
        "[routing]\ncli = \"gone\"\n",
        &format!(
            "agent.toml:4: routing.cli: no model is called `gone` (there are: primary) | {hint}"
        ),
    );
    let file = format!("{ANTHROPIC}fallbacks = [\"gone\"]\n");
    refused(
        &[("a", &file)],
        "",
        &format!(
            "providers.d/a.toml: models.primary.fallbacks: no model is called `gone` (there are: primary) | {hint}"
        ),
    );
}

#[test]
fn wrong_values_name_file_line_and_key() {
    let check = |file: &str, expected: &str| {
        let message = loaded(&[("a", file)], "").expect_err(expected);
        assert!(message.starts_with(expected), "{message}");
    };
    check(
        "type = \"claude\"\n",
        "providers.d/a.toml:1: `type`: unknown variant `claude`, expected one of `anthropic`, `openai`, `gemini`, `elevenlabs`, `offline`",
    );
    check(
        "base_url = \"x\"\n",
        "providers.d/a.toml: the key `type` is missing | correct providers.d/a.toml, then",
    );
    check(
        "type = \"openai\"\nbase_url = \"localhost\"\n",
        "providers.d/a.toml:2: `base_url`: expected an address",
    );
    check(
        "type = \"openai\"\napi_key_env = \"sk-canary\"\n",
        "providers.d/a.toml:2: `api_key_env`: expected the NAME of a variable",
    );
    check(
        "type = \"openai\"\n[models.primary]\n",
        "providers.d/a.toml:2: `models.primary`: has no `model`",
    );
    check(
        "type = \"openai\"\n[models.primary]\nmodel = \"m\"\nmax_tokens = 9\ncontext_window = 9\n",
        "providers.d/a.toml:5: `models.primary.context_window`",
    );
    check("type = \"openai\n", "providers.d/a.toml:1:");
}

#[test]
fn what_a_model_cannot_be_asked_for_is_a_warning_and_off() {
    let file = "type = \"anthropic\"\n[models.primary]\nmodel = \"m\"\nmax_tokens = 2000\nthinking = true\ncompact_at = 999\n";
    let loaded = loaded(&[("a", file)], "").expect("load");
    let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
    let says = [
        "a.toml:5: `models.primary.thinking` is off: `max_tokens` is less than 2048",
        "a.toml:6: `models.primary.compact_at` is ignored: expected at least 1000 tokens",
    ];
    assert!(
        warnings.len() == 2
            && warnings
                .iter()
                .zip(says)
                .all(|(warning, says)| warning.contains(says)),
        "{warnings:?}"
    );
    let primary = loaded.models.get("primary", "test").expect("primary");
    assert_eq!(
        (primary.thinking, primary.compact_at, primary.max_tokens),
        (false, 0, 2000)
    );
}

#[test]
fn unknown_keys_are_errors_and_known_ones_are_read() {
    let typo = format!("{ANTHROPIC}contxt_window = 1\n");
    let told = loaded(&[("a", &typo)], "").expect_err("a typo");
    let expected = "providers.d/a.toml:4: unknown key `contxt_window` in [models.primary]; did you mean `context_window`?";
    assert!(told.starts_with(expected), "{told}");
    let loaded = loaded(
        &[("a", &format!("{ANTHROPIC}thinking = true\ntools = false\n"))],
        "",
    )
    .expect("load");
    assert_eq!(loaded.notes, []);
    let primary = loaded.models.get("primary", "test").expect("primary");
    assert_eq!((primary.thinking, primary.tools), (true, false));
}

#[test]
fn a_sign_in_has_two_addresses_that_nobody_reads_along_and_a_client_of_ones_own() {
    let with = |table: &str| loaded(&[("a", &format!("{ANTHROPIC}[oauth]\n{table}"))], "");
    let good = "authorize_url = \"https://id.example/a?x=y\"\ntoken_url = \"http://127.0.0.1:1/t\"\nclient_id = \"me\"\n";
    let provider = with(good)
        .expect("load")
        .models
        .get("primary", "test")
        .expect("primary")
        .provider
        .clone();
    let expected = OAuth {
        authorize_url: "https://id.example/a?x=y".to_owned(),
        token_url: "http://127.0.0.1:1/t".to_owned(),
        client_id: "me".to_owned(),
        scope: None,
        redirect_port: None,
    };
    assert_eq!(provider.oauth, Some(expected));
    let typo = with(&format!("{good}redirect_prot = 1\n")).expect_err("a typo");
    assert!(
        typo.contains("unknown key `redirect_prot` in [oauth]; did you mean `redirect_port`?"),
        "{typo}"
    );
    for host in [
        "http://id.example/t",
        "http://localhost:x@id.example/t",
        "http://localhost.id.example/t",
        "ftp://localhost/t",
        "",
    ] {
        let error = with(&good.replace("http://127.0.0.1:1/t", host)).expect_err(host);
        assert!(
            error.contains("`oauth.token_url`: expected an address with https://"),
            "{host}: {error}"
        );
    }
    for own in [
        "http://localhost/t",
        "http://[::1]:8080/t",
        "http://127.0.0.1/t",
    ] {
        with(&good.replace("http://127.0.0.1:1/t", own)).expect(own);
    }
    assert!(
        with(&good.replace("\"me\"", "\" \""))
            .expect_err("no client")
            .contains("an application of your own")
    );
    let based = |url: &str| {
        loaded(
            &[(
                "a",
                &format!("base_url = \"{url}\"\n{ANTHROPIC}[oauth]\n{good}"),
            )],
            "",
        )
    };
    assert!(
        based("http://models.example")
            .expect_err("open")
            .contains("`base_url`: expected https://")
    );
    for own in ["https://models.example", "http://127.0.0.1:1"] {
        based(own).expect(own);
    }
}

#[test]
fn embeddings_come_from_a_loaded_provider_that_has_some() {
    let server = "type = \"openai\"\nbase_url = \"http://localhost:1\"\n";
    let with = |provider: &str| format!("[memory.embeddings]\nprovider = {provider:?}\n");
    let models = models(&[("a", ANTHROPIC), ("vec", server)], &with("vec"));
    assert_eq!(
        models
            .providers()
            .map(|provider| provider.name.as_str())
            .collect::<Vec<_>>(),
        ["a", "vec"]
    );
    assert_eq!(
        models.provider("vec").map(|provider| provider.kind),
        Some(ProviderType::Openai),
        "it needs no model"
    );
    for own in ["local", "none"] {
        loaded(&[("a", ANTHROPIC)], &with(own)).expect(own);
    }
    refused(
        &[("a", ANTHROPIC)],
        &with("vec"),
        "agent.toml:4: memory.embeddings.provider: no loaded provider is called `vec` (there are: a) | write `local` or `none` \
         there, or correct the name, or put `vec` into `providers.load`",
    );
    refused(
        &[("a", ANTHROPIC)],
        &with("a"),
        "agent.toml:4: `memory.embeddings.provider`: the provider `a` is of type `anthropic`, which has no embeddings: expected \
         `local`, `none`, or a loaded provider of type `openai` or `gemini` | correct `memory.embeddings.provider` in \
         agent.toml:4, then `agent-daemon check`",
    );
}

#[test]
fn a_model_in_a_directory_is_refused_with_the_servers_that_run_it() {
    let with = |settings: &str| {
        loaded(
            &[("a", ANTHROPIC)],
            &format!("[memory.embeddings]\n{settings}\n"),
        )
    };
    for model in ["/srv/model", "bge-m3"] {
        let error = with(&format!("model = {model:?}")).expect_err("a directory");
        let says =
            "agent.toml:4: `memory.embeddings.model`: expected nothing: `local` is the table";
        assert!(
            error.starts_with(says) && error.contains("(Ollama, llama-server, vLLM"),
            "{error}"
        );
    }
    let error = with("dims = 16385").expect_err("too many");
    assert!(
        error.starts_with("agent.toml:4: `memory.embeddings.dims`: expected 0"),
        "{error}"
    );
}

#[test]
fn the_address_of_an_endpoint_is_refused_with_that_of_the_server() {
    for (path, written) in [
        ("/v1/chat/completions", "/v1"),
        ("/v1/messages/", "/v1"),
        ("//responses", ""),
    ] {
        let file = format!(
            "type = \"openai\"\nbase_url = \"https://x.example{path}\"\n[models.primary]\nmodel = \"m\"\n"
        );
        let error = loaded(&[("a", &file)], "").expect_err(path);
        let write = format!("write base_url = \"https://x.example{written}\"");
        assert!(
            error.starts_with("providers.d/a.toml:2: `base_url`: ") && error.contains(&write),
            "{error}"
        );
    }
}

#[test]
fn a_built_in_provider_is_named_by_its_own_name() {
    let text = "[models.\"openai/primary\"]\nmodel = \"m\"\n[models.primary]\nmodel = \"m\"\n";
    let file = format!("type = \"openai\"\n{text}");
    let error = loaded(&[("mine", &file), ("openai", "")], "").expect_err("twice");
    assert!(error.contains("the built-in provider `openai`"), "{error}");
}
