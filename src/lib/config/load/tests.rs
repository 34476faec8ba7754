use std::io::Write;
use std::path::Path;

use super::*;
use crate::config::home::HomeFlags;
use crate::config::types::{Group, Level, Members, Mode, OnBusy};

/// A home in a throw-away directory.
struct Place(tempfile::TempDir);

impl Place {
    fn new(agent_toml: &str) -> Self {
        let place = Self(tempfile::tempdir().expect("dir"));
        place.put("agent.toml", agent_toml);
        place
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("dir");
        std::fs::File::create_new(path)
            .expect("create")
            .write_all(text.as_bytes())
            .expect("write");
    }

    fn home(&self) -> Home {
        let flags = HomeFlags {
            home: Some(self.0.path().to_owned()),
            ..HomeFlags::default()
        };
        let credentials = self.0.path().join("credentials");
        Home::resolve(flags, &|name| {
            (name == "CREDENTIALS_DIRECTORY").then(|| credentials.clone().into())
        })
        .expect("home")
    }

    fn load(&self, env: &[(&str, &str)]) -> Result<Loaded, Error> {
        load(&self.home(), &Environment::of(env), &[])
    }

    /// `text` with the directory cut out.
    fn short(&self, text: &impl ToString) -> String {
        text.to_string()
            .replace(&format!("{}/", self.0.path().display()), "")
    }
}

#[test]
fn a_model_that_costs_without_a_file_that_could_limit_it_is_told() {
    let told = |text: &str, env: &[(&str, &str)]| {
        let loaded = Place::new(text).load(env).expect("good");
        let of_cost = |warning: &&Warning| warning.key == "cost.day_usd";
        loaded.warnings.iter().filter(of_cost).count()
    };
    let key = [("ANTHROPIC_API_KEY", "sk-not-a-key")];
    assert_eq!(told("# nothing\n", &key), 1);
    assert_eq!(told("", &[]), 0, "offline costs nothing");
    assert_eq!(told("[cost]\nday_usd = 1.0\n", &key), 0);
    assert_eq!(told("[agent]\nname = \"Ada\"\n", &key), 0, "their wish");
}

#[test]
fn a_file_that_is_gone_or_empty_while_its_settings_are_in_force_is_an_error() {
    let place = Place::new("[agent]\nname = \"Ada\"\n");
    let path = place.0.path().join("agent.toml");
    let again = |running: &FileDigests, text: Option<&str>| {
        match text {
            Some(text) => {
                atomic::write(&path, text.as_bytes(), atomic::Durability::Rename).expect("write")
            }
            None => std::fs::remove_file(&path).expect("own file"),
        }
        let loaded = load_after(running, &place.home(), &Environment::of(&[]), &[]);
        loaded.map(|loaded| loaded.files)
    };
    let running = place.load(&[]).expect("good").files;
    for text in ["", " \n\t\n", "# [agent]\n", "\u{feff}"] {
        let error = again(&running, Some(text)).expect_err(text);
        assert!(matches!(error, Error::Emptied(_)), "{text:?}: {error}");
        assert_eq!(error.kind(), crate::config::Kind::Config);
    }
    let error = again(&running, None).expect_err("gone");
    let told = "agent.toml is missing or empty, and was not when it was read before";
    assert_eq!(place.short(&error), told);
    let started = place
        .load(&[])
        .expect("a start takes what is built in")
        .files;
    let some = "[agent]\nname = \"Ada\"\n";
    again(&running, Some(some)).expect("it is back");
    let empty = again(&started, Some("# later\n")).expect("nothing was set before");
    let set = again(&empty, Some(some)).expect("set now");
    again(&set, None).expect_err("gone");
}

#[test]
fn what_is_no_file_in_the_place_of_settings_holds_nobody_up() {
    let mode = nix::sys::stat::Mode::S_IRWXU;
    let place = Place::new("[providers]\nload = [\"a\"]\n");
    std::fs::create_dir(place.0.path().join("providers.d")).expect("dir");
    let env = Environment::of(&[]);
    let told = |name: &str| {
        let path = place.0.path().join(name);
        nix::unistd::mkfifo(&path, mode).expect("a FIFO");
        let error = match name {
            ".env" => Secrets::open(&place.home(), &env).map(|_| ()),
            _ => load(&place.home(), &env, &[]).map(|_| ()),
        };
        let told = place.short(&error.expect_err(name));
        std::fs::remove_file(&path).expect("own file");
        told
    };
    for name in ["providers.d/a.toml", ".env"] {
        let expected = format!("cannot read {name}: it is no regular file");
        assert_eq!(told(name), expected);
    }
    let path = place.0.path().join("agent.toml");
    std::fs::remove_file(&path).expect("own file");
    let expected = "cannot read agent.toml: it is no regular file";
    assert_eq!(told("agent.toml"), expected);
    std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let error = load(&place.home(), &env, &[]).expect_err("a socket");
    assert_eq!(place.short(&error), expected);
    // A link to a file is one.
    std::fs::remove_file(&path).expect("own file");
    place.put("settings.toml", "[agent]\nname = \"Ada\"\n");
    std::os::unix::fs::symlink("settings.toml", &path).expect("a link");
    let loaded = load(&place.home(), &env, &[]).expect("good");
    assert!(loaded.origins.contains_key("agent.name"));
}

fn loaded(agent_toml: &str, env: &[(&str, &str)]) -> Loaded {
    Place::new(agent_toml).load(env).expect("load")
}

/// Message and hint of what `agent_toml` and `env` are refused with.
fn refused(agent_toml: &str, env: &[(&str, &str)]) -> (String, String) {
    let place = Place::new(agent_toml);
    let error = place.load(env).expect_err(agent_toml);
    (place.short(&error), place.short(&error.hint()))
}

#[test]
fn without_any_file_the_offline_model_answers_and_the_doors_are_closed() {
    let dir = tempfile::tempdir().expect("dir");
    let home = Home::resolve(
        HomeFlags {
            home: Some(dir.path().join("none")),
            ..HomeFlags::default()
        },
        &|_| None,
    )
    .expect("home");
    let loaded = load(&home, &Environment::default(), &[]).expect("load");
    assert_eq!(loaded.config, Config::default());
    assert_eq!(
        (loaded.config.telegram.enabled, loaded.config.http.enabled),
        (false, false)
    );
    assert_eq!((loaded.warnings, loaded.notes), (vec![], vec![]));
    assert_eq!(
        loaded.models.get("primary", "test").expect("primary").name,
        "offline"
    );
}

#[test]
fn each_layer_covers_the_one_below_and_is_named_as_origin() {
    let toml =
        "[agent]\nname = \"file\"\nmax_turns = 1\nmax_concurrent_runs = 1\ncall_timeout_secs = 1\n";
    let place = Place::new(toml);
    place.put("credentials/AGENT_AGENT__MAX_CONCURRENT_RUNS", "3\n");
    place.put("credentials/AGENT_AGENT__CALL_TIMEOUT_SECS", "3\n");
    let env = Environment::of(&[
        ("AGENT_AGENT__MAX_TURNS", "2"),
        ("AGENT_AGENT__MAX_CONCURRENT_RUNS", "2"),
        ("AGENT_AGENT__CALL_TIMEOUT_SECS", "2"),
    ]);
    let flags = [("agent.call_timeout_secs".to_owned(), "4".to_owned())];
    let loaded = load(&place.home(), &env, &flags).expect("load");
    let shown = |key: &str| {
        let setting = loaded
            .settings()
            .into_iter()
            .find(|setting| setting.key == key)
            .expect(key);
        (setting.value, place.short(&setting.origin))
    };
    assert_eq!(
        shown("agent.mode"),
        ("\"tools\"".to_owned(), "default".to_owned())
    );
    assert_eq!(
        shown("agent.name"),
        ("\"file\"".to_owned(), "agent.toml:2".to_owned())
    );
    assert_eq!(
        shown("agent.max_turns"),
        ("2".to_owned(), "$AGENT_AGENT__MAX_TURNS".to_owned())
    );
    assert_eq!(
        shown("agent.max_concurrent_runs"),
        (
            "3".to_owned(),
            "credential AGENT_AGENT__MAX_CONCURRENT_RUNS".to_owned()
        )
    );
    assert_eq!(
        shown("agent.call_timeout_secs"),
        ("4".to_owned(), "flag".to_owned())
    );
    assert_eq!(
        shown("telegram.pace"),
        ("unset".to_owned(), "default".to_owned())
    );
}

#[test]
fn a_variable_is_read_as_the_type_of_its_key() {
    let env = [
        ("AGENT_AGENT__NAME", "123"),
        ("AGENT_AGENT__ERROR_MESSAGE", "true"),
        ("AGENT_COST__DAY_USD", "5"),
        ("AGENT_TELEGRAM__OWNER", "1001, 1002"),
        ("AGENT_TELEGRAM__ALLOW_FROM", "[7]"),
        ("AGENT_TELEGRAM__PACE", "false"),
        ("AGENT_TOOLS__ENABLED", "read,silent"),
        ("AGENT_LOG__LEVEL", "debug"),
        ("AGENT_PIPELINE__ON_BUSY", "\"collect\""),
        ("AGENT_TELEGRAM__API_URL", "http://127.0.0.1:8081"),
    ];
    let config = loaded("", &env).config;
    assert_eq!(
        (
            config.agent.name.as_str(),
            config.agent.error_message.as_str()
        ),
        ("123", "true")
    );
    assert!((config.cost.day_usd - 5.0).abs() < f64::EPSILON);
    assert_eq!(
        (config.telegram.owner, config.telegram.allow_from),
        (vec![1001, 1002], vec![7])
    );
    assert_eq!(
        (config.telegram.pace, config.telegram.api_url.as_str()),
        (Some(false), "http://127.0.0.1:8081")
    );
    assert_eq!(
        config.tools.enabled,
        Some(vec!["read".to_owned(), "silent".to_owned()])
    );
    assert_eq!(
        (config.log.level, config.pipeline.on_busy),
        (Level::Debug, OnBusy::Collect)
    );
}

#[test]
fn variables_that_are_no_settings_are_left_alone() {
    let env = [
        ("AGENT_HOME", "/x"),
        ("AGENT_INSTANCE", "x"),
        ("AGENT_SHARE", "/x"),
        ("AGENT_HTTP_TOKEN", "secret"),
        ("AGENT_QUUX", "1"),
        ("LOG__LEVEL", "x"),
    ];
    let loaded = loaded("", &env);
    assert_eq!(
        (loaded.config, loaded.warnings),
        (Config::default(), vec![])
    );
}

#[test]
fn every_unknown_key_is_told_with_its_place_and_the_nearest_name() {
    let place = Place::new(
        "[telegram]\napi_ulr = \"x\"\n[agnet]\nname = \"a\"\n[cost]\nquux = 1\n[routing]\ntelegramm = \"primary\"\n\
         [telegram.groups.\"-1\"]\nrequire_mentions = true\n",
    );
    place.put(
        "providers.d/a.toml",
        "type = \"offline\"\n[models.primary]\nmodle = \"m\"\n",
    );
    let env = [
        ("AGENT_AGENT__TIMEZON", "UTC"),
        ("AGENT_PROVIDERS__LOAD", "a"),
    ];
    let error = place.load(&env).expect_err("unknown keys");
    let told = place.short(&error);
    let expected = [
        "agent.toml:3: unknown section [agnet]; did you mean [agent]?",
        "agent.toml:6: unknown key `quux` in [cost]",
        "agent.toml:2: unknown key `api_ulr` in [telegram]; did you mean `api_url`?",
        "agent.toml:10: unknown key `require_mentions` in [telegram.groups.-1]; did you mean `require_mention`?",
        "$AGENT_AGENT__TIMEZON: unknown key `timezon` in [agent]; did you mean `timezone`?",
        "agent.toml:8: unknown key `telegramm` in [routing]; did you mean `telegram`?",
        "providers.d/a.toml:3: unknown key `modle` in [models.primary]; did you mean `model`?",
    ];
    assert_eq!(told.lines().collect::<Vec<_>>(), expected);
    assert_eq!(error.kind(), crate::config::Kind::Config);
}

#[test]
fn a_typo_lifts_no_limit() {
    let told = |toml: &str| refused(toml, &[]).0;
    assert_eq!(
        told("[cost]\nday_usdd = 5.0\n"),
        "agent.toml:2: unknown key `day_usdd` in [cost]; did you mean `day_usd`?"
    );
    assert_eq!(
        told("[costs]\nday_usd = 5.0\n"),
        "agent.toml:1: unknown section [costs]; did you mean [cost]?"
    );
    let place = Place::new("[costs]\nday_usd = 5.0\n");
    assert!(load_config(&place.home(), &Environment::default()).is_err());
}

#[test]
fn a_variable_that_names_a_table_is_pointed_out() {
    let warnings = loaded("", &[("AGENT_LOG", "debug")]).warnings;
    let told: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        ["$AGENT_LOG: `log` is a table and not a setting; a setting is `AGENT_LOG__…`"]
    );
    let variables = [("AGENT_COST_DAY_USD", "5"), ("AGENT_HTTP_TOKEN", "t")];
    let warnings = loaded("", &variables).warnings;
    let told: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "$AGENT_COST_DAY_USD: `cost_day_usd` is not a setting; with two underscores it is: `AGENT_COST__DAY_USD`"
        ]
    );
}

#[test]
fn a_vendors_key_alone_loads_its_provider_with_prices_and_eyes() {
    for vendor in &crate::config::VENDORS {
        let loaded = loaded("", &[(vendor.variable, "sk-not-a-key")]);
        let primary = loaded.models.get("primary", "test").expect("primary");
        assert_eq!(primary.provider.name, vendor.name);
        assert!(primary.vision && primary.rates.is_some(), "{}", vendor.name);
        let origin = loaded.origin("providers.load").to_string();
        assert_eq!(origin, format!("{} is set (environment)", vendor.variable));
        let speech = loaded
            .models
            .for_role("speech_to_text")
            .map(|model| model.name.clone());
        let expected = (vendor.name == "openai").then(|| "whisper".to_owned());
        assert_eq!(speech, expected, "{}", vendor.name);
        // Without a file nothing limits what it costs.
        let warned: Vec<&str> = (loaded.warnings.iter())
            .map(|warning| warning.key.as_str())
            .collect();
        assert_eq!(warned, ["cost.day_usd"]);
    }
}

#[test]
fn of_several_keys_the_first_answers_openai_listens_and_the_others_are_unused() {
    let all = crate::config::VENDORS.map(|vendor| (vendor.variable, "sk-not-a-key"));
    let loaded = loaded("", &all);
    assert_eq!(loaded.config.providers.load, ["anthropic", "openai"]);
    assert!(loaded.models.names().eq(["openai/primary", "primary"]));
    let used = |role: &str| {
        loaded
            .models
            .for_role(role)
            .map(|model| model.provider.name.clone())
    };
    assert_eq!(used("telegram").as_deref(), Some("anthropic"));
    assert_eq!(used("speech_to_text").as_deref(), Some("openai"));
    let unused = loaded.keys.iter().filter(|key| key.provider.is_none());
    let unused: Vec<&str> = unused.map(|key| key.variable).collect();
    assert_eq!(unused, ["GEMINI_API_KEY", "OPENROUTER_API_KEY"]);
}

#[test]
fn what_is_named_wins_over_a_key_that_is_set() {
    let key = ("OPENAI_API_KEY", "sk-not-a-key");
    let loaded = loaded("[providers]\nload = [\"offline\"]\n", &[key]);
    assert_eq!(loaded.config.providers.load, ["offline"]);
    assert!(loaded.models.for_role("speech_to_text").is_none());
    let key = loaded.keys.first().expect("it is set");
    assert_eq!((key.variable, &key.provider), ("OPENAI_API_KEY", &None));
}

#[test]
fn a_key_in_env_file_or_credential_counts_and_its_own_file_goes_before_what_is_built_in() {
    let place = Place::new("");
    place.put("credentials/GEMINI_API_KEY", "k\n");
    let loaded = place.load(&[]).expect("load");
    assert_eq!(loaded.config.providers.load, ["gemini"]);
    place.put(
        "providers.d/gemini.toml",
        "type = \"gemini\"\napi_key_env = \"MY_KEY\"\n[models.primary]\nmodel = \"m\"\n",
    );
    let loaded = place.load(&[]).expect("load");
    assert_eq!(
        loaded.config.providers.load,
        ["offline"],
        "its key is another"
    );
    let loaded = place.load(&[("MY_KEY", "k")]).expect("load");
    let primary = loaded.models.get("primary", "test").expect("primary");
    assert_eq!(primary.model, "m");
}

#[test]
fn broken_toml_is_shown_where_it_breaks() {
    let (message, hint) = refused("[agent]\nname = \"ä\" 3\n", &[]);
    assert_eq!(
        message,
        "agent.toml:2:12: unexpected key or value, expected newline, `#`\n  2 | name = \"ä\" 3"
    );
    assert_eq!(
        hint,
        "correct line 2 of agent.toml, then `agent-daemon check`"
    );
}

#[test]
fn a_value_of_the_wrong_type_names_file_key_and_what_was_expected() {
    let check = |toml: &str, expected: &str| assert_eq!(refused(toml, &[]).0, expected);
    check(
        "[agent]\nmax_turns = \"many\"\n",
        "agent.toml:2: `agent.max_turns`: invalid type: string \"many\", expected a whole number, 0 or more",
    );
    check(
        "[tools.exec]\npolicy = \"yes\"\n",
        "agent.toml:2: `tools.exec.policy`: unknown variant `yes`, expected one of `sandboxed`, `ask`, `allow`, `deny`, `off`",
    );
    check(
        "[memory.recall]\nsynthesis = \"poetic\"\n",
        "agent.toml:2: `memory.recall.synthesis`: unknown variant `poetic`, expected one of `structured`, `narrative`, `factual`",
    );
    check(
        "[memory.recall]\nfact_format = \"long\"\n",
        "agent.toml:2: `memory.recall.fact_format`: unknown variant `long`, expected `natural` or `compact`",
    );
    check(
        "[memory.recall]\nepisode_header = \"two\\nlines\"\n",
        "agent.toml:2: `memory.recall.episode_header`: expected one line of at most 100 characters",
    );
    check(
        "[telegram]\nowner = [\n  1,\n  \"@ada\",\n]\n",
        "agent.toml:2: `telegram.owner`: invalid type: string \"@ada\", expected a whole number",
    );
    check(
        "telegram = 3\n",
        "agent.toml:1: `telegram`: invalid type: integer `3`, expected a table",
    );
    check(
        "[agent]\ntimezone = \"Mars\"\n",
        "agent.toml:2: `agent.timezone`: no time zone is called `Mars`, expected an IANA name such as `Europe/Berlin` or `UTC`",
    );
    check(
        "[agent]\ntimezone = \"europe/berlin\"\n",
        "agent.toml:2: `agent.timezone`: no time zone is called `europe/berlin`; did you mean `Europe/Berlin`?",
    );
    let (message, hint) = refused("", &[("AGENT_TELEGRAM__ENABLED", "yes")]);
    assert_eq!(
        message,
        "$AGENT_TELEGRAM__ENABLED: `telegram.enabled`: invalid type: string \"yes\", expected a boolean"
    );
    assert_eq!(
        hint,
        "correct `telegram.enabled` in $AGENT_TELEGRAM__ENABLED, then `agent-daemon check`"
    );
}

#[test]
fn a_socket_in_reach_of_commands_is_refused() {
    let check = |more: &str, dir: &str, expected: bool| {
        let place = Place::new("");
        let home = place.home();
        std::fs::create_dir_all(home.workspace().join("sub")).expect("dir");
        let listen = home.workspace().join(dir).join("a.sock");
        let text = format!("[http]\nlisten = \"unix:{}\"\n{more}", listen.display());
        let text = text.replace("HOME", &home.config_dir().display().to_string());
        std::fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(home.config_file())
            .expect("open")
            .write_all(text.as_bytes())
            .expect("write");
        assert_eq!(place.load(&[]).is_ok(), expected, "{text}");
    };
    let server = "[mcp.servers.a]\ncommand = [\"x\"]\nwrites = [\"HOME\"]";
    check("", "sub", false);
    check("", ".", false);
    check("", "sub/../..", true);
    check(server, "..", false);
}

#[test]
fn values_out_of_range_are_refused() {
    let check = |toml: &str, expected: &str| assert_eq!(refused(toml, &[]).0, expected);
    check(
        "[cost]\nday_usd = -1\n",
        "agent.toml:2: `cost.day_usd`: expected US dollars, 0 or more (0 = no cap)",
    );
    check(
        "[cost]\nmonth_usd = nan\n",
        "agent.toml:2: `cost.month_usd`: expected US dollars, 0 or more (0 = no cap)",
    );
    check(
        "[agent]\nname = \"a:b\"\n",
        "agent.toml:2: `agent.name`: expected 1 to 64 letters, digits, `_` or `-`",
    );
    check(
        "[tools]\nallowed_paths = [\"x\"]\n",
        "agent.toml:2: `tools.allowed_paths`: expected absolute paths",
    );
}

#[test]
fn a_token_written_where_its_name_belongs_is_not_repeated() {
    let (message, hint) = refused("[telegram]\ntoken_env = \"123456:canary-token\"\n", &[]);
    assert!(
        !message.contains("canary") && !hint.contains("canary"),
        "{message} {hint}"
    );
    assert!(
        message.contains("the secret itself belongs in .env"),
        "{message}"
    );
}

/// The files of SPEC.md, appendix A.
const APPENDIX_A: &str = r#"
[agent]
name = "agent"
mode = "tools"                       # or "plan"
timezone = "UTC"
max_concurrent_runs = 4
[pipeline]
debounce_ms = 0
on_busy = "queue"
[telegram]
enabled = true
owner = [1001]
api_url = "http://127.0.0.1:8081"    # default https://api.telegram.org
token_env = "TELEGRAM_BOT_TOKEN"
dm_policy = "allowlist"
allow_from = [1001, 1002]
stream = "off"
[telegram.groups."-100500"]          # a chat that is allowed
require_mention = true
allow_from = [1001]
[http]
enabled = true
listen = "127.0.0.1:8100"            # or "unix:/path"
token_env = "AGENT_HTTP_TOKEN"
[providers]
load = ["mock"]
[tools.exec]
policy = "sandboxed"
[cost]
day_usd = 0.0                        # 0 = no cap
[memory.embeddings]
provider = "local"                   # default; "none", or the name of a loaded provider
model = ""                           # default: the table that ships with the project
dims = 0                             # 0 = the model's own
"#;
const APPENDIX_A_MOCK: &str = r#"
type = "anthropic"                   # or "openai", "gemini"
base_url = "http://127.0.0.1:8082"
api_key_env = "MOCK_KEY"
[models.primary]
model = "mock-model"
max_tokens = 8192
context_window = 200000
cost_per_mtok = [3.0, 15.0, 0.3, 3.75]
"#;

#[test]
fn the_appendix_loads_without_a_word() {
    let place = Place::new(APPENDIX_A);
    place.put("providers.d/mock.toml", APPENDIX_A_MOCK);
    let loaded = place
        .load(&[
            ("TELEGRAM_BOT_TOKEN", "x"),
            ("MOCK_KEY", "x"),
            ("AGENT_HTTP_TOKEN", "x"),
        ])
        .expect("load");
    assert_eq!(loaded.warnings, []);
    assert_eq!(loaded.notes, []);
    let group = Group {
        require_mention: true,
        allow_from: Some(vec![1001]),
        members: Members::Allowed,
    };
    assert_eq!(
        loaded.config.telegram.groups,
        BTreeMap::from([("-100500".to_owned(), group)])
    );
    let primary = loaded.models.get("primary", "test").expect("primary");
    assert_eq!(
        (primary.model.as_str(), primary.rates),
        ("mock-model", Some([3.0, 15.0, 0.3, 3.75]))
    );
}

#[test]
fn what_is_active_and_not_built_is_noted() {
    let toml = "[agent]\nmode = \"plan\"\n[pipeline]\non_busy = \"replan\"\n[tools.exec]\nsandbox = \"bubblewrap\"\n\
                [telegram]\nenabled = true\nowner = [1]\n[mcp.servers.x]\ncommand = [\"y\"]\n";
    let loaded = loaded(toml, &[]);
    assert_eq!(
        (loaded.config.agent.mode, &loaded.warnings),
        (Mode::Plan, &vec![])
    );
    let notes: Vec<&str> = loaded.notes.iter().map(|note| note.key.as_str()).collect();
    assert_eq!(notes, ["tools.exec.sandbox"]);
}

#[test]
fn a_bot_that_nobody_may_write_to_is_a_warning() {
    let warnings = loaded(
        "[telegram]\nenabled = true\ndm_policy = \"allowlist\"\n",
        &[],
    )
    .warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(
        loaded("[telegram]\nenabled = true\nallow_from = [7, 8]\n", &[])
            .config
            .telegram
            .owners(),
        [7]
    );
}

#[test]
fn a_webhook_of_which_nobody_hears_is_told_with_its_line() {
    let told = |channel: &str| {
        let hook = "[http.hooks.ci]\ntemplate = \"x\"\n";
        let place = Place::new(&format!("[http]\nenabled = true\n{hook}{channel}"));
        let warnings = place.load(&[]).expect("load").warnings;
        let told: Vec<String> = warnings.iter().map(|one| place.short(one)).collect();
        told.join("\n")
    };
    let nobody = "agent.toml:4: `http.hooks.ci` reaches nobody";
    assert!(told("").starts_with(nobody), "{}", told(""));
    let by_mail = told("[channels.mail]\nenabled = true\nowner = [\"ada@example.org\"]\n");
    assert!(!by_mail.contains("reaches nobody"), "{by_mail}");
}

#[test]
fn the_file_is_never_touched() {
    let place = Place::new("[agent\n");
    place.load(&[]).expect_err("broken");
    let names: Vec<_> = std::fs::read_dir(place.0.path())
        .expect("dir")
        .map(|e| e.expect("entry").file_name())
        .collect();
    assert_eq!(names, ["agent.toml"]);
    assert_eq!(
        std::fs::read_to_string(place.0.path().join("agent.toml")).expect("file"),
        "[agent\n"
    );
}

#[test]
fn a_file_named_by_the_flag_must_exist() {
    let dir = tempfile::tempdir().expect("dir");
    let flags = HomeFlags {
        home: Some(dir.path().to_owned()),
        config: Some(dir.path().join("gone.toml")),
        ..HomeFlags::default()
    };
    let home = Home::resolve(flags, &|_| None).expect("home");
    let error = load(&home, &Environment::default(), &[]).expect_err("gone");
    assert!(error.to_string().contains("gone.toml"), "{error}");
    assert!(error.hint().contains("--config"), "{}", error.hint());
}

#[test]
fn what_could_not_be_made_is_looked_for_where_something_is() {
    let dir = tempfile::tempdir().expect("dir");
    let gone = dir.path().join("not there/home");
    let why = std::fs::create_dir(&gone).expect_err("its parent is missing");
    let hint = Error::io("create", &gone)(why).hint();
    let here = format!(
        "look at it: `ls -ld {0}` and `df {0}`",
        dir.path().display()
    );
    assert_eq!(hint, here);
}

#[test]
fn queries_still_have_their_settings_when_a_provider_is_broken() {
    let place =
        Place::new("[agent]\ntimezone = \"Europe/Berlin\"\n[providers]\nload = [\"gone\"]\n");
    place.load(&[]).expect_err("no provider");
    let config = load_config(&place.home(), &Environment::default()).expect("config");
    assert_eq!(config.agent.timezone.0, chrono_tz::Tz::Europe__Berlin);
    assert!(!Path::new(&place.home().providers_dir()).exists());
}

#[test]
fn a_home_with_settings_that_name_no_provider_loads_those_somebody_signed_in_at() {
    let file = |model: &str| format!("type = \"anthropic\"\n[models.{model}]\nmodel = \"m\"\n");
    let place = Place::new("");
    let names = |place: &Place| place.load(&[]).expect("load").config.providers.load;
    place.put("providers.d/b.toml", &file("primary"));
    place.put("providers.d/a.toml", &file("primary"));
    assert_eq!(
        (
            names(&place),
            place.load(&[]).expect("load").origin("providers.load")
        ),
        (vec!["offline".to_owned()], Origin::Default)
    );
    place.put(
        "state/auth.json",
        r#"{"version": 1, "providers": {"b": {"api_key": {"key": "k"}}}}"#,
    );
    assert_eq!(names(&place), ["b"]);
    let loaded = place.load(&[]).expect("load");
    assert_eq!(
        place.short(&loaded.origin("providers.load")),
        "agent-daemon login (state/auth.json)"
    );
    assert_eq!(
        place
            .load(&[("AGENT_PROVIDERS__LOAD", "a")])
            .expect("load")
            .config
            .providers
            .load,
        ["a"]
    );
    // No settings at all: no model, whatever is there.
    std::fs::remove_file(place.0.path().join("agent.toml")).expect("remove");
    assert_eq!(names(&place), ["offline"]);
}
