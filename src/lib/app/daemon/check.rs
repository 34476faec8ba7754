//! `agent-daemon check`: would the daemon start, and with what?

use std::sync::Arc;

use super::build;
use crate::app::cli;
use crate::app::cli::{Exit, Failure, Shared};
use crate::app::http;
use crate::app::llm_client;
use crate::auth::Keys;
use crate::config;
use crate::prompt;
use crate::skills::Skills;

pub(super) fn check(shared: &Shared, show_origin: bool, json: bool) -> Result<Exit, Failure> {
    let (env, home) = shared.home()?;
    let loaded = config::load(&home, &env, &[])?;
    let keys = Arc::new(Keys::open(&home, &env)?);
    llm_client::check(&loaded.models, &keys)?;
    let secrets = keys.secrets();
    build::telegram(&loaded.config, secrets, Arc::default())?;
    let api = http::settings(&loaded.config, secrets)?;
    let mut warnings: Vec<String> = loaded
        .warnings
        .iter()
        .chain(&secrets.misplaced_settings())
        .map(ToString::to_string)
        .collect();
    let skills = Skills::new(&home, config::share_dir(&env).as_deref());
    let sources = prompt::Sources::new(&home, Arc::new(skills));
    warnings.extend(
        prompt::survey(&sources, &loaded)
            .into_iter()
            .map(|remark| remark.words),
    );
    warnings.extend(api.and_then(|settings| settings.warning));
    warnings.extend(build::signed_out(&loaded.models, &keys));
    let notes: Vec<String> = loaded.notes.iter().map(ToString::to_string).collect();
    if json {
        let settings: Vec<_> = loaded
            .settings()
            .iter()
            .filter(|_| show_origin)
            .map(|setting| serde_json::json!({"key": setting.key, "value": setting.value, "origin": setting.origin.to_string()}))
            .collect();
        cli::json(
            &serde_json::json!({"ok": true, "warnings": warnings, "notes": notes, "settings": settings}),
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
    for warning in &warnings {
        cli::err(&format!("warning: {warning}"));
    }
    for note in &notes {
        cli::err(&format!("note: {note}"));
    }
    if !shared.quiet {
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
