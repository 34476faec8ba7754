//! `agent-daemon check`: would the daemon start, and with what?

use std::sync::Arc;

use super::build;
use crate::app::cli;
use crate::app::cli::{Exit, Failure, Shared};
use crate::app::doctor;
use crate::app::doctor::Finding;
use crate::app::http;
use crate::app::llm_client;
use crate::auth::Keys;
use crate::config;
use crate::config::{Home, Loaded, Origin};
use crate::jobs;
use crate::prompt;
use crate::skills::Skills;

/// Returns an error of the settings with which a daemon would start and not do what it is for.
fn failure(finding: &Finding) -> Failure {
    Failure::config(finding.evidence.clone()).hint(finding.command.clone())
}

/// Returns all that keeps a daemon from starting.
fn in_the_way(loaded: &Loaded, keys: &Arc<Keys>) -> Vec<Failure> {
    let secrets = keys.secrets();
    let mut failures = llm_client::check(&loaded.models, keys);
    failures.extend(build::telegram(&loaded.config, secrets, Arc::default()).err());
    failures.extend(http::faults(&loaded.config, secrets));
    failures.extend(build::check_policies(&loaded.config).err());
    failures
}

/// Tells all of it at once: nobody mends one thing, only to be told the next. Returns what is told last.
fn all_told(mut failures: Vec<Failure>, json: bool) -> Option<Failure> {
    let mut last = failures.pop()?;
    if json {
        let messages = failures.iter().map(|failure| failure.message.as_str());
        let messages: Vec<&str> = messages.chain([last.message.as_str()]).collect();
        last.message = messages.join("\n");
    } else {
        let complain = |failure| cli::complain("agent-daemon", failure);
        failures.iter().for_each(complain);
    }
    Some(last)
}

/// Says what gives the agent a model: a key that was stored and waits to be verified; a provider's file that nobody loads,
/// first one that needs nothing more; else a vendor's key.
fn no_provider(home: &Home, keys: &Keys) -> Result<String, Failure> {
    let secrets = keys.secrets();
    if !home.config_file().exists() {
        return Ok(format!(
            "no provider is set up: {} makes {}; without it only a key in the environment or in .env counts",
            cli::command("agent-daemon", "init"),
            home.config_file().display()
        ));
    }
    // What is wrong with auth.json is told elsewhere.
    let stored = keys.store().read().map(|contents| contents.entries);
    let mut stored = stored.unwrap_or_default().into_iter();
    if let Some((name, _)) = stored.find(|(_, entry)| entry.unverified) {
        return Ok(format!(
            "no provider is in use: the key of {name} is stored and not verified; with a network, {} verifies it",
            cli::command("agent-daemon", "auth --check")
        ));
    }
    let lacks = |name: &String| -> Option<String> {
        // What is wrong with a file is told when it is loaded.
        let provider = config::provider(home, name).ok().flatten()?;
        let key = provider.api_key_env.clone().unwrap_or_default();
        let is_set = key.is_empty() || matches!(secrets.get(&key), Ok(Some(_)));
        match (&provider.oauth, is_set) {
            (Some(_), _) => None,
            (None, true) => Some(String::new()),
            (None, false) => Some(format!("set {key}, and ")),
        }
    };
    let files = config::provider_files(home)?.into_iter();
    let there = files.filter_map(|name| lacks(&name).map(|lacks| (name, lacks)));
    let there = there.min_by_key(|(_, lacks)| lacks.len());
    Ok(match there {
        Some((name, lacks)) => format!(
            "no provider is set up: providers.d/{name}.toml is not loaded; {lacks}write `load = [{name:?}]` below [providers] in {}",
            home.config_file().display()
        ),
        None => format!(
            "no provider is set up: {} gives the agent a model",
            cli::command("agent-daemon", "login anthropic")
        ),
    })
}

/// Says who answers and who listens, and why just these.
fn models_in_use(home: &Home, loaded: &Loaded, keys: &Keys) -> Result<Vec<String>, Failure> {
    let said = |role: &str, what: &str| {
        let model = loaded.models.for_role(role)?;
        let provider = &model.provider.name;
        Some(format!(
            "{what}: {} of {provider} (model `{}`)",
            model.model, model.name
        ))
    };
    let answers = match loaded.origin("providers.load") {
        Origin::Default => Some(no_provider(home, keys)?),
        origin => said("cli", "answers").map(|answers| {
            format!(
                "{answers}; providers.load = {:?}: {origin}",
                loaded.config.providers.load
            )
        }),
    };
    let listens = said("speech_to_text", "listens to recordings");
    Ok(answers.into_iter().chain(listens).collect())
}

pub(super) fn check(shared: &Shared, show_origin: bool, json: bool) -> Result<Exit, Failure> {
    let (env, home) = shared.home()?;
    cli::must_be_there(&home)?;
    let loaded = config::load(&home, &env, &[])?;
    let keys = Arc::new(Keys::open(&home, &env)?);
    let secrets = keys.secrets();
    let failures = in_the_way(&loaded, &keys);
    let misspelt = secrets.misspelt(&build::known_secrets(&loaded));
    if !failures.is_empty() && !json && !shared.quiet {
        let warn = |warning: &config::Warning| cli::err(&format!("warning: {warning}"));
        misspelt.iter().for_each(warn);
    }
    if let Some(failure) = all_told(failures, json) {
        return Err(failure);
    }
    let api = http::settings(&loaded.config, secrets)?;
    let mut warnings: Vec<String> = loaded
        .warnings
        .iter()
        .chain(&secrets.misplaced_settings())
        .chain(&misspelt)
        .map(ToString::to_string)
        .collect();
    let skills = Skills::new(&home, config::share_dir(&env).as_deref());
    let sources = prompt::Sources::new(&home, Arc::new(skills));
    warnings.extend(
        prompt::survey(&sources, &loaded)
            .into_iter()
            .map(|remark| remark.words),
    );
    warnings.extend(api.into_iter().flat_map(|settings| settings.warnings));
    warnings.extend(build::signed_out(&loaded.models, &keys));
    warnings.extend(jobs::set_aside(&home.jobs()));
    let (errors, doubts): (Vec<Finding>, Vec<Finding>) = doctor::of_settings(shared)?
        .into_iter()
        .partition(Finding::is_error);
    warnings.extend(doubts.into_iter().map(|finding| finding.evidence));
    if let Some(failure) = all_told(errors.iter().map(failure).collect(), json) {
        return Err(failure);
    }
    let notes: Vec<String> = loaded.notes.iter().map(ToString::to_string).collect();
    let models = models_in_use(&home, &loaded, &keys)?;
    let hooks = http::hook_lines(&loaded.config.http);
    if json {
        let settings: Vec<_> = loaded
            .settings()
            .iter()
            .filter(|_| show_origin)
            .map(|setting| serde_json::json!({"key": setting.key, "value": setting.value, "origin": setting.origin.to_string()}))
            .collect();
        cli::json(
            &serde_json::json!({"ok": true, "warnings": warnings, "notes": notes, "models": models, "hooks": hooks, "settings": settings}),
        );
        return Ok(Exit::Ok);
    }
    if show_origin {
        for setting in loaded.settings() {
            cli::out(&format!(
                "{} = {}  # {}",
                setting.key, setting.value, setting.origin
            ));
        }
    }
    if !shared.quiet {
        let say = |kind: &str, words: &String| cli::err(&format!("{kind}: {words}"));
        warnings.iter().for_each(|words| say("warning", words));
        notes.iter().for_each(|words| say("note", words));
        models.iter().chain(&hooks).for_each(|line| cli::err(line));
        let file = home.config_file();
        let what = if file.exists() {
            "the configuration is good"
        } else {
            "there is no such file; the built-in defaults are good"
        };
        cli::err(&format!("{}: {what}", file.display()));
    }
    Ok(Exit::Ok)
}
