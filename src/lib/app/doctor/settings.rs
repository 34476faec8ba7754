//! Would the daemon start with these settings, and mean what their author meant?

use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::subject::{Patient, blocks, quote};
use super::{Finding, Level, service};
use crate::app::daemon::build;
use crate::app::llm_client;
use crate::auth;
use crate::auth::Keys;
use crate::config;
use crate::config::{Error, Loaded, Sandbox, Secrets, Warning};
use crate::memory::Memory;
use crate::sandbox;
use crate::sandbox::Root;
use crate::skills::Skills;
use crate::tools;
use crate::tools::Needs;

pub(super) fn check(patient: &Patient) -> Vec<Finding> {
    let loaded = match &patient.settings {
        Ok(loaded) => loaded,
        // What is no file is told with the other places.
        Err(_) if blocks(patient.home.config_file()) => return Vec::new(),
        Err(error) => return vec![invalid(patient, error)],
    };
    let mut findings: Vec<Finding> = loaded
        .warnings
        .iter()
        .filter_map(|warning| doubtful(patient, warning))
        .collect();
    let keys = (!blocks(&patient.home.env_file())).then(|| Keys::open(&patient.home, &patient.env));
    match keys.transpose() {
        Ok(None) => {}
        Ok(Some(keys)) => {
            let misplaced = keys.secrets().misplaced_settings();
            findings.extend(
                misplaced
                    .iter()
                    .filter_map(|warning| doubtful(patient, warning)),
            );
            findings.extend(secrets(patient, loaded, &Arc::new(keys)));
        }
        // Its mode is told with the other modes.
        Err(Error::EnvFileMode { .. }) => {}
        Err(error) => findings.push(invalid(patient, &error)),
    }
    findings.extend(wall(patient, loaded));
    findings.extend(tool_names(patient, loaded));
    findings.extend(allowed_paths(patient, loaded));
    findings.extend(marks(patient));
    findings
}

/// An error of the settings, with an editor at its line.
fn invalid(patient: &Patient, error: &Error) -> Finding {
    let command = match error {
        Error::Syntax { file, line, .. } => patient.edit(file, Some(*line)),
        Error::EnvFileLine { path, line, .. } => patient.edit(path, Some(*line)),
        Error::Value { origin, .. } => match place(origin) {
            Some((file, line)) => patient.edit(&file, Some(line)),
            None => patient.agent("check --show-origin"),
        },
        Error::NoProviderFile { file, .. } => missing_provider(patient, file),
        Error::NoPrimary { file, .. } | Error::DuplicateModel { second: file, .. } => {
            patient.edit(file, None)
        }
        Error::Io { path, .. } => format!("ls -ld {}", quote(path)),
        _ => patient.agent("check"),
    };
    Finding::error("config-invalid", error.to_string(), command)
}

/// `init` leaves an example beside most provider files.
fn missing_provider(patient: &Patient, file: &std::path::Path) -> String {
    let mut example = file.as_os_str().to_owned();
    example.push(".example");
    let example = PathBuf::from(example);
    if example.exists() {
        format!("{}cp {} {}", patient.sudo(), quote(&example), quote(file))
    } else {
        patient.edit(patient.home.config_file(), None)
    }
}

/// A probable mistake. That there is no wall is told in other words.
fn doubtful(patient: &Patient, warning: &Warning) -> Option<Finding> {
    if warning.key == "tools.exec.sandbox" {
        return None;
    }
    let unknown = warning.message.starts_with("is no known key");
    let command = match place(&warning.origin) {
        Some((file, line)) => patient.edit(&file, Some(line)),
        None => patient.agent("check --show-origin"),
    };
    let id = if unknown {
        "config-unknown-key"
    } else {
        "config-doubtful"
    };
    Some(Finding::warning(id, warning.to_string(), command))
}

/// Reads `FILE:LINE`.
fn place(origin: &str) -> Option<(PathBuf, usize)> {
    let (file, line) = origin.rsplit_once(':')?;
    Some((PathBuf::from(file), line.parse().ok()?))
}

/// Keys and tokens that are not there. A daemon that runs has them, from wherever it was started.
fn secrets(patient: &Patient, loaded: &Loaded, keys: &Arc<Keys>) -> Vec<Finding> {
    let mut findings = signed_in(patient, loaded, keys);
    if patient.pid().is_some() {
        return findings;
    }
    let env_file = patient.home.env_file();
    let edit = patient.edit(&env_file, None);
    let mut seen = Vec::new();
    for model in loaded.models.all() {
        let provider = &model.provider;
        if seen.contains(&provider.name) {
            continue;
        }
        seen.push(provider.name.clone());
        if let Err(auth::Error::Absent { .. }) = keys.check(provider) {
            let file = provider
                .file
                .as_ref()
                .map_or_else(String::new, |file| format!(" ({})", file.display()));
            let what = provider
                .api_key_env
                .as_ref()
                .map_or_else(|| "a sign-in".to_owned(), |name| format!("the key {name}"));
            let name = &provider.name;
            let evidence = format!(
                "{what} of the provider {name}{file} is neither in state/auth.json nor in the environment nor in {}",
                env_file.display()
            );
            findings.push(Finding::error(
                "provider-key-missing",
                evidence,
                patient.agent(&format!("login {name}")),
            ));
        }
    }
    let secrets = keys.secrets();
    findings.extend(token(loaded, secrets, &env_file, &edit));
    findings.extend(search_key(loaded, secrets, &env_file, &edit));
    if service::installed(patient) {
        for finding in findings
            .iter_mut()
            .filter(|finding| finding.id.ends_with("-missing"))
        {
            finding.level = Level::Warning;
            finding
                .evidence
                .push_str("; the unit of systemd may have it");
        }
    }
    if findings.is_empty() && keys.store().read().is_ok() {
        let built = llm_client::check(&loaded.models, keys)
            .and_then(|()| build::telegram(&loaded.config, secrets, Arc::default()).map(drop));
        findings.extend(built.err().map(|failure| {
            Finding::error("config-invalid", failure.message, patient.agent("check"))
        }));
    }
    findings
}

/// What is wrong with what `login` stored.
fn signed_in(patient: &Patient, loaded: &Loaded, keys: &Keys) -> Vec<Finding> {
    let path = keys.store().path();
    let contents = match keys.store().read() {
        Ok(contents) => contents,
        // Its mode is told with the other modes.
        Err(auth::Error::Mode { .. }) => return Vec::new(),
        Err(error) => {
            let command = format!("{}ls -l {}", patient.sudo(), quote(path));
            return vec![Finding::error(
                "auth-unreadable",
                error.to_string(),
                command,
            )];
        }
    };
    if let auth::State::Corrupt { reason } = contents.state {
        let evidence =
            format!("state/auth.json cannot be used: {reason}; no key and no sign-in in it counts");
        let command = format!("{}${{EDITOR:-vi}} {}", patient.sudo(), quote(path));
        return vec![Finding::error("auth-unreadable", evidence, command)];
    }
    let loaded: Vec<&str> = loaded
        .models
        .all()
        .map(|model| model.provider.name.as_str())
        .collect();
    let now = crate::clock::now_ms();
    let ended = contents
        .entries
        .iter()
        .filter_map(|(name, entry)| Some((name, entry.tokens.as_ref()?.ended(now)?)));
    ended
        .filter(|(name, _)| loaded.contains(&name.as_str()))
        .map(|(name, reason)| {
            let evidence = format!("the sign-in at {name} has ended: {reason}");
            Finding::error(
                "signed-out",
                evidence,
                patient.agent(&format!("login {name} --oauth")),
            )
        })
        .collect()
}

fn token(
    loaded: &Loaded,
    secrets: &Secrets,
    env_file: &std::path::Path,
    edit: &str,
) -> Option<Finding> {
    let telegram = &loaded.config.telegram;
    let name = &telegram.token_env;
    match secrets.get(name) {
        _ if !telegram.enabled => None,
        Ok(Some(token)) if build::is_bot_token(&token) => None,
        Ok(Some(_)) => {
            let evidence = format!(
                "{name} is no bot token: one looks like 123456789:AAF… (copy it whole from @BotFather)"
            );
            Some(Finding::error("bot-token-malformed", evidence, edit))
        }
        Ok(None) | Err(_) => {
            let evidence = format!(
                "[telegram] is enabled, and the bot token {name} is neither in the environment nor in {}",
                env_file.display()
            );
            Some(Finding::error("bot-token-missing", evidence, edit))
        }
    }
}

/// A search that has no key.
fn search_key(
    loaded: &Loaded,
    secrets: &Secrets,
    env_file: &std::path::Path,
    edit: &str,
) -> Option<Finding> {
    let web = &loaded.config.tools.web;
    let missing = web.search == config::SearchEngine::Brave
        && !matches!(secrets.get(&web.search_key_env), Ok(Some(_)));
    missing.then(|| {
        let evidence = format!(
            "[tools.web] search = \"brave\", and the key {} is neither in the environment nor in {}: there is no web_search",
            web.search_key_env,
            env_file.display()
        );
        Finding::warning("search-key-missing", evidence, edit)
    })
}

/// `sandbox = "off"` where commands run.
fn wall(patient: &Patient, loaded: &Loaded) -> Option<Finding> {
    let exec = &loaded.config.tools.exec;
    (exec.runs() && exec.sandbox == Sandbox::Off).then(|| {
        let origin = loaded.origin("tools.exec.sandbox");
        let evidence = format!(
            "tools.exec.sandbox = \"off\" ({origin}): {}",
            sandbox::Level::Off.remaining_risk()
        );
        let command = match origin {
            config::Origin::File { path, line } => patient.edit(&path, Some(line)),
            _ => patient.agent("check --show-origin"),
        };
        Finding::warning("sandbox-off", evidence, command)
    })
}

/// Nobody can tell which files hold words of others.
fn marks(patient: &Patient) -> Option<Finding> {
    let path = patient.home.untrusted();
    let reason = build::undo(&patient.home).marks.damage()?;
    let evidence = format!(
        "state/untrusted.json cannot be used: {reason}; every file counts as somebody else's words until it can"
    );
    Some(Finding::error(
        "untrusted-unreadable",
        evidence,
        format!("{}${{EDITOR:-vi}} {}", patient.sudo(), quote(&path)),
    ))
}

/// Directories that file tools may use and cannot.
fn allowed_paths(patient: &Patient, loaded: &Loaded) -> Vec<Finding> {
    let origin = loaded.origin("tools.allowed_paths");
    let wrong = |dir: &PathBuf| {
        let why = match dir.metadata() {
            Ok(meta) if meta.is_dir() => return None,
            Ok(_) => "it is no directory".to_owned(),
            Err(error) => error.to_string(),
        };
        let evidence = format!(
            "tools.allowed_paths ({origin}) names {}, which file tools cannot use: {why}",
            dir.display()
        );
        let command = match &origin {
            config::Origin::File { path, line } => patient.edit(path, Some(*line)),
            _ => patient.agent("check --show-origin"),
        };
        Some(Finding::warning("allowed-path-missing", evidence, command))
    };
    loaded
        .config
        .tools
        .allowed_paths
        .iter()
        .filter_map(wrong)
        .collect()
}

/// A tool that is asked for and never comes.
fn tool_names(patient: &Patient, loaded: &Loaded) -> Option<Finding> {
    let wanted = loaded.config.tools.enabled.as_ref()?;
    let root = Arc::new(Root::open(patient.home.workspace()).ok()?);
    let needs = Needs {
        path_policy: Arc::new(build::path_policy(
            &patient.home,
            &loaded.config,
            root.clone(),
        )),
        undo: Arc::new(build::undo(&patient.home)),
        root,
        memory: Arc::new(Memory::new(&patient.home)),
        skills: Arc::new(Skills::new(&patient.home, None)),
        zone: loaded.config.agent.timezone.0,
        windows: HashMap::new(),
        exec: build::exec_settings(&patient.home, &patient.env, &loaded.config, &[]),
        web: Arc::new(
            Secrets::open(&patient.home, &patient.env)
                .ok()
                .and_then(|secrets| build::web(&loaded.config, &secrets).ok())?,
        ),
        episodes: Mutex::default(),
    };
    let known: Vec<String> = tools::all(needs)
        .iter()
        .map(|tool| tool.spec().name.into_owned())
        .collect();
    let absent: Vec<&str> = wanted
        .iter()
        .filter(|name| !known.contains(name))
        .map(String::as_str)
        .collect();
    (!absent.is_empty()).then(|| {
        let origin = loaded.origin("tools.enabled");
        let evidence = format!(
            "tools.enabled ({origin}) names {}, which this agent does not have; it has {}",
            absent.join(", "),
            known.join(", ")
        );
        let command = match origin {
            config::Origin::File { path, line } => patient.edit(&path, Some(line)),
            _ => patient.agent("check --show-origin"),
        };
        Finding::warning("tool-unknown", evidence, command)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_file_and_a_line() {
        assert_eq!(
            place("/a b/agent.toml:12"),
            Some((PathBuf::from("/a b/agent.toml"), 12))
        );
        assert_eq!(
            (place("$AGENT_X"), place("flag"), place("/a:b")),
            (None, None, None)
        );
    }
}
