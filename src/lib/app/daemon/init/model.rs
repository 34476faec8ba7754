//! The step that selects a model: a vendor's, with a key that is tested at once, or one on this machine.

use std::path::Path;
use std::time::Duration;

use toml::de::DeTable;

use super::ask::Stop;
use super::{Setup, ask, local, settings_file};
use crate::app::cli;
use crate::app::cli::Failure;
use crate::app::daemon::tell_to_reload;
use crate::app::systemd_unit::Unit;
use crate::auth;
use crate::auth::{Keys, Verdict, probe};
use crate::config;
use crate::config::{ProviderType, VENDORS, Vendor};
use crate::provider::Credential;
use crate::secret::Secret;
use crate::sys;
use crate::sys::lock;

/// The longest a vendor may take to list its models.
const LIMIT: Duration = Duration::from_secs(15);
/// More models than this are not listed; they can be typed.
const MOST: usize = 20;

pub(super) fn step(setup: &Setup<'_>) -> Result<(), Stop> {
    if let Some(now) = in_use(setup) {
        cli::err(&format!("  {now}"));
        if ask::yes("Keep it?", true)? {
            return keep_key(setup);
        }
    }
    let servers = setup.runtime.block_on(local::find());
    let vendors = VENDORS
        .iter()
        .map(|vendor| format!("{} (API key)", vendor.name));
    let own = servers.iter().map(|server| {
        format!(
            "{} on this machine ({})",
            server.name,
            crate::text::counted(server.models.len(), "model")
        )
    });
    let choices: Vec<String> = own.chain(vendors).collect();
    cli::err(
        "  a server that is not in this list: s, then its file providers.d/NAME.toml (man agent.toml)",
    );
    let chosen = ask::one_of("Which", &choices, 0).inspect_err(|stop| {
        if matches!(stop, Stop::Skipped) {
            cli::err(
                "  without a model the agent keeps notes, searches them and runs your ! commands",
            );
        }
    })?;
    match servers.get(chosen) {
        Some(server) => of_server(setup, server),
        None => match VENDORS.get(chosen - servers.len()) {
            Some(vendor) => of_vendor(setup, vendor),
            None => Err(Stop::Skipped),
        },
    }
}

/// Returns who answers now; `None` when nobody does.
fn in_use(setup: &Setup<'_>) -> Option<String> {
    let loaded = setup.loaded().ok()?;
    let model = loaded.models.for_role("cli")?;
    let provider = &model.provider;
    let why = loaded.origin("providers.load");
    (provider.kind != ProviderType::Offline)
        .then(|| format!("{} of {} answers ({why})", model.model, provider.name))
}

/// Offers to store a key that only this shell knows: a daemon that systemd starts has another environment.
fn keep_key(setup: &Setup<'_>) -> Result<(), Stop> {
    let loaded = setup.loaded()?;
    let origin = loaded.origin("providers.load");
    let config::Origin::Key(name, config::SecretOrigin::Environment) = origin else {
        return Ok(());
    };
    let is_known = Unit::of(&setup.env, &setup.home).is_some();
    let provider = loaded.config.providers.load.first();
    let (Some(provider), Some(key), true) = (provider, setup.env.get(&name), is_known) else {
        return Ok(());
    };
    cli::err(&format!(
        "  {name} is set in this shell alone; a daemon that systemd starts does not know it"
    ));
    if ask::yes("Store the key for it?", true)? {
        let keys = Keys::open(&setup.home, &setup.env)?;
        let secret = Secret::new(key.to_string_lossy().into_owned());
        keys.store().put_key(provider, &secret)?;
        tell_to_reload(&setup.home, lock::holder(&setup.home.lock())?);
    }
    Ok(())
}

fn of_vendor(setup: &Setup<'_>, vendor: &Vendor) -> Result<(), Stop> {
    let home = &setup.home;
    let name = vendor.name;
    let provider = config::provider(home, name)?
        .ok_or_else(|| Failure::bug(format!("{name} is built in and was not found")))?;
    let keys = Keys::open(home, &setup.env)?;
    let http = cli::http_client()?;
    cli::err(&format!("  keys are made at {}", vendor.key_page));
    let (given, verdict) = loop {
        let typed = ask::hidden("API key")?;
        let given = Credential {
            secret: Secret::new(typed),
            is_token: false,
        };
        match setup.runtime.block_on(probe(&http, &provider, &given)) {
            Verdict::Refused(why) => cli::err(&format!("  the key is refused: {why}; try again")),
            verdict => break (given, verdict),
        }
    };
    keys.store().put_key(name, &given.secret)?;
    match &verdict {
        Verdict::Good(found) => cli::err(&format!("  the key is good: {found}")),
        Verdict::Unknown(why) | Verdict::Refused(why) => {
            cli::err(&format!("  Key saved but not verified: {why}"));
            // The person was asked and chose it: it is used at once.
        }
    }
    choose_provider(setup, name)?;
    let mut chosen = Ok(());
    if matches!(verdict, Verdict::Good(_)) {
        match setup
            .runtime
            .block_on(auth::models(&http, &provider, Some(&given), LIMIT))
        {
            Ok(models) => chosen = choose_model(setup, vendor, &models),
            Err(why) => cli::err(&format!("  its models are not known: {why}")),
        }
    }
    // The key counts also for who ends here.
    tell_to_reload(home, lock::holder(&home.lock())?);
    cli::err(&format!("  {}", in_use(setup).unwrap_or_default()));
    chosen
}

/// A home whose settings name its providers loads only those. Nobody signs in at a server without a key: the settings must
/// name it in any case.
fn choose_provider(setup: &Setup<'_>, name: &str) -> Result<(), Failure> {
    let (wanted, origin) = config::providers_wanted(&setup.home, &setup.env)?;
    let is_named = matches!(origin, config::Origin::File { .. });
    let is_alone = !is_named && wanted.iter().all(|other| other == "offline");
    let is_first = wanted.first().is_some_and(|first| first == name);
    if is_first || (is_alone && config::vendor(name).is_some()) {
        return Ok(());
    }
    let mut load = vec![name.to_owned()];
    load.extend(
        wanted
            .into_iter()
            .filter(|other| other != name && other != "offline"),
    );
    let load = format!("{load:?}");
    if !settings_file::set(&setup.home, "providers", "load", &load)? {
        let file = setup.home.config_file().display();
        cli::err(&format!(
            "  write `load = {load}` below [providers] in {file}"
        ));
    }
    Ok(())
}

/// Offers another model than the usual one. Its price is asked for: without one a capped agent refuses to call it.
fn choose_model(setup: &Setup<'_>, vendor: &Vendor, models: &[String]) -> Result<(), Stop> {
    let loaded = setup.loaded()?;
    let Some(usual) = loaded
        .models
        .for_role("cli")
        .map(|model| model.model.clone())
    else {
        return Ok(());
    };
    let few: Vec<&str> = models.iter().take(MOST).map(String::as_str).collect();
    let more = if models.len() > MOST { ", …" } else { "" };
    cli::err(&format!("  models: {}{more}", few.join(", ")));
    let model = loop {
        match ask::line("Model", &usual) {
            Ok(model) if models.contains(&model) || model == usual => break model,
            Ok(model) => {
                cli::err(&format!(
                    "  {} has no model {}",
                    vendor.name,
                    crate::text::visible(&model)
                ));
            }
            Err(Stop::Skipped) => return Ok(()),
            Err(stop) => return Err(stop),
        }
    };
    if model == usual {
        return Ok(());
    }
    let rates = loop {
        let question = "Its price, US dollars a million tokens: input output (for example 3 15)";
        match ask::line(question, "") {
            Ok(words) => match prices(&words) {
                Some(rates) => break rates,
                None => cli::err("  expected two numbers"),
            },
            Err(stop) => {
                cli::err(&format!("  without a price {usual} stays"));
                return match stop {
                    Stop::Skipped => Ok(()),
                    stop => Err(stop),
                };
            }
        }
    };
    let path = setup
        .home
        .providers_dir()
        .join(format!("{}.toml", vendor.name));
    let text = text_of(&path)?.unwrap_or_else(|| vendor.text.to_owned());
    match with_model(&text, &model, Some(rates)) {
        Some(text) => {
            settings_file::write(&path, &text)?;
            cli::err(&format!("  written to {}", path.display()));
        }
        None => say_model(
            &path,
            &model,
            &format!("`cost_per_mtok = {}`", rates_of(rates)),
        ),
    }
    Ok(())
}

/// Returns what is in a provider file; `None` where there is none.
fn text_of(path: &Path) -> Result<Option<String>, Failure> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        text => Ok(Some(text.map_err(sys::Error::at("read", path))?)),
    }
}

fn say_model(path: &Path, model: &str, other: &str) {
    let model = quoted(model);
    cli::err(&format!(
        "  write `model = {model}` and {other} in {}",
        path.display()
    ));
}

fn prices(words: &str) -> Option<[f64; 2]> {
    let numbers: Vec<f64> = words
        .split([' ', ','])
        .filter(|word| !word.is_empty())
        .map(|word| {
            word.parse()
                .ok()
                .filter(|price: &f64| price.is_finite() && *price >= 0.0)
        })
        .collect::<Option<_>>()?;
    <[f64; 2]>::try_from(numbers).ok()
}

/// Returns the provider file with another model as its usual one, and with its price if one is given; `None` where the
/// file has no such model, or more would change.
fn with_model(text: &str, model: &str, rates: Option<[f64; 2]>) -> Option<String> {
    let parsed = DeTable::parse(text).ok()?;
    let models = parsed.get_ref().get("models")?.get_ref().as_table()?;
    let first = models.keys().min_by_key(|name| name.span().start)?;
    let name = match models.contains_key("primary") {
        true => "primary",
        false => first.get_ref(),
    };
    let text = settings_file::with_value(text, &["models", name, "model"], &quoted(model))?;
    let Some(rates) = rates else {
        return Some(text);
    };
    let price = ["models", name, "cost_per_mtok"];
    settings_file::with_value(&text, &price, &rates_of(rates))
}

/// What is read from a cache counts as input, the most it can cost.
fn rates_of([input, output]: [f64; 2]) -> String {
    format!("[{input:?}, {output:?}, {input:?}]")
}

fn quoted(words: &str) -> String {
    toml::Value::from(words).to_string()
}

/// Returns the provider file of a model of that server: the one that is there with another model, since what the server
/// was started with was written into it by hand; `None` where that cannot be done.
fn of_local(before: Option<&str>, server: &local::Server, model: &str) -> Option<String> {
    let Some(before) = before else {
        return Some(local::file(server.base_url, model));
    };
    let text = settings_file::with_value(before, &["base_url"], &quoted(server.base_url))?;
    with_model(&text, model, None)
}

fn of_server(setup: &Setup<'_>, server: &local::Server) -> Result<(), Stop> {
    let at = ask::one_of("Model", &server.models, 0)?;
    let Some(model) = server.models.get(at) else {
        return Err(Stop::Skipped);
    };
    let home = &setup.home;
    let path = home.providers_dir().join("local.toml");
    std::fs::create_dir_all(home.providers_dir())
        .map_err(sys::Error::at("make", &home.providers_dir()))?;
    match of_local(text_of(&path)?.as_deref(), server, model) {
        Some(text) => {
            settings_file::write(&path, &text)?;
            let path = path.display();
            cli::err(&format!(
                "  written to {path}: look at context_window there"
            ));
        }
        None => say_model(
            &path,
            model,
            &format!("`base_url = {}`", quoted(server.base_url)),
        ),
    }
    choose_provider(setup, "local")?;
    tell_to_reload(home, lock::holder(&home.lock())?);
    cli::err(&format!("  {}", in_use(setup).unwrap_or_default()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_model_takes_the_place_of_the_first_with_its_price() {
        let anthropic = config::vendor("anthropic").expect("built in");
        let text = with_model(anthropic.text, "claude-opus-4-1", Some([15.0, 75.0])).expect("good");
        let table: toml::Table = text.parse().expect("TOML");
        let primary = &table["models"]["primary"];
        assert_eq!(primary["model"].as_str(), Some("claude-opus-4-1"));
        assert_eq!(primary["cost_per_mtok"].to_string(), "[15.0, 75.0, 15.0]");
        let openai = config::vendor("openai").expect("built in");
        let table: toml::Table = with_model(openai.text, "m", Some([1.0, 2.0]))
            .expect("good")
            .parse()
            .expect("TOML");
        assert_eq!(
            table["models"]["whisper"]["model"].as_str(),
            Some("whisper-1"),
            "the second stays"
        );
    }

    #[test]
    fn of_a_local_provider_that_is_there_only_the_model_is_changed() {
        let server = local::Server {
            name: "Ollama",
            base_url: "http://127.0.0.1:11434/v1",
            models: Vec::new(),
        };
        let new = of_local(None, &server, "qwen3:8b").expect("good");
        let by_hand = new
            .replace("context_window = 32768", "context_window = 131072")
            .replace("#vision", "vision");
        assert_eq!(
            of_local(Some(&by_hand), &server, "gemma3:27b"),
            Some(by_hand.replace("qwen3:8b", "gemma3:27b"))
        );
        let other = by_hand.replace("11434", "8080");
        assert_eq!(of_local(Some(&other), &server, "qwen3:8b"), Some(by_hand));
        assert_eq!(of_local(Some("type ="), &server, "qwen3:8b"), None);
    }

    #[test]
    fn a_price_of_several_lines_is_replaced_whole() {
        let text = "[models.small]\nmodel = 'a'\ncost_per_mtok = [\n  1, # in\n  2,\n]\n";
        assert_eq!(
            with_model(text, "b", Some([3.0, 4.0])).as_deref(),
            Some("[models.small]\nmodel = \"b\"\ncost_per_mtok = [3.0, 4.0, 3.0]\n")
        );
    }

    #[test]
    fn a_price_is_two_numbers() {
        assert_eq!(prices("3 15"), Some([3.0, 15.0]));
        assert_eq!(prices("0.25, 2"), Some([0.25, 2.0]));
        assert_eq!(
            [prices("3"), prices("-1 2"), prices("a b"), prices("1 2 3")],
            [None; 4]
        );
    }
}
