//! Would the daemon start with these settings, and mean what their author meant?

use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::patient::{Patient, blocks, quote};
use super::{Finding, Level, service};
use crate::app::daemon::{backup, build};
use crate::app::llm_client;
use crate::audit;
use crate::auth;
use crate::auth::Keys;
use crate::config;
use crate::config::{DmPolicy, Error, Loaded, Sandbox, Secrets, UnknownKey, Warning};
use crate::memory::Memory;
use crate::people::People;
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
        Err(Error::UnknownKeys(keys)) => {
            return keys.iter().map(|key| unknown(patient, key)).collect();
        }
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
            let mut misplaced = keys.secrets().misplaced_settings();
            misplaced.extend(keys.secrets().misspelt(&build::known_secrets(loaded)));
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
    findings.extend(beyond_start(patient, loaded));
    findings.extend(marks(patient));
    findings
}

/// What a daemon starts with and should not have.
pub(super) fn beyond_start(patient: &Patient, loaded: &Loaded) -> Vec<Finding> {
    let mut findings = allowed_paths(patient, loaded);
    findings.extend(owner(patient, loaded));
    findings.extend(model_names(patient, loaded));
    findings.extend(tool_names(patient, loaded));
    findings.extend(dead_policy(patient, loaded));
    findings.extend(unused_keys(patient, loaded));
    findings.extend(shell_only(patient, loaded));
    findings.extend(backup_program(patient, loaded));
    findings.extend(backup_recipient(patient, loaded));
    findings
}

/// Backups are to be encrypted, and nothing can.
fn backup_program(patient: &Patient, loaded: &Loaded) -> Option<Finding> {
    let settings = &loaded.config.backup;
    let (key, program, package) = match (settings.age.is_empty(), settings.gpg.is_empty()) {
        (false, _) => ("backup.age", "age", "age"),
        (true, false) => ("backup.gpg", "gpg", "gnupg"),
        (true, true) => return None,
    };
    let is_there = patient.on_path(program).is_some();
    (!is_there).then(|| {
        let evidence = format!(
            "`{key}` names who can read the backups, and {program} is not installed: no backup can be made"
        );
        Finding::warning("backup-program-missing", evidence, format!("apt-get install {package}"))
    })
}

/// A misspelt recipient or a key that has expired: every backup fails, at night. The keyring of somebody else is not looked
/// into.
fn backup_recipient(patient: &Patient, loaded: &Loaded) -> Option<Finding> {
    let settings = &loaded.config.backup;
    if patient.is_foreign() && !settings.gpg.is_empty() {
        return None;
    }
    let why = backup::refused_recipients(settings)?;
    let evidence = format!("no backup can be made: {}", crate::text::visible(&why));
    let edit = patient.edit(patient.home.config_file(), None);
    Some(Finding::warning("backup-recipient", evidence, edit))
}

/// The model hangs on a variable of this shell, and systemd is to start the daemon.
fn shell_only(patient: &Patient, loaded: &Loaded) -> Option<Finding> {
    let config::Origin::Key(name, config::SecretOrigin::Environment) =
        loaded.origin("providers.load")
    else {
        return None;
    };
    let provider = loaded.config.providers.load.first()?;
    (service::unit(patient).is_some() && patient.pid().is_none()).then(|| {
        let evidence = format!(
            "{name} is set in this shell; a daemon that systemd starts has no model unless its unit or {} has it too",
            patient.home.env_file().display()
        );
        Finding::warning("key-shell-only", evidence, patient.agent(&format!("login {provider}")))
    })
}

/// A bot to which nobody is the owner answers nobody, and nobody can let others in.
fn owner(patient: &Patient, loaded: &Loaded) -> Option<Finding> {
    let telegram = &loaded.config.telegram;
    if !telegram.enabled || !telegram.owners().is_empty() || telegram.dm_policy != DmPolicy::Pairing
    {
        return None;
    }
    // A list that cannot be read is told with the databases.
    let path = Some(patient.home.people()).filter(|path| !blocks(path))?;
    let people = People::read(&path).ok()?;
    people.first_owner(&loaded.config).is_none().then(|| {
        let evidence = "[telegram] is enabled, and the bot has no owner: it answers nobody";
        Finding::warning(
            "owner-missing",
            evidence,
            patient.program("agent-send", "--pair owner"),
        )
    })
}

/// A model's id with a space or an end of a line in it, which no vendor has: a slip of the clipboard.
fn model_names(patient: &Patient, loaded: &Loaded) -> Vec<Finding> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control();
    let odd = loaded
        .models
        .all()
        .filter(|model| model.model.contains(is_odd));
    let finding = |model: &Arc<config::Model>| {
        let evidence = format!(
            "the model `{}` is called {:?} at {}, with a space in it: no vendor has such a name",
            model.name, model.model, model.provider.name
        );
        let edit = patient.edit_provider(&model.provider);
        Finding::warning("model-name", evidence, edit)
    };
    odd.map(finding).collect()
}

/// A vendor's key that is set, perhaps for this agent, and that no loaded provider uses.
fn unused_keys(patient: &Patient, loaded: &Loaded) -> Vec<Finding> {
    let unused = loaded.keys.iter().filter(|key| key.provider.is_none());
    let (line, why) = match loaded.origin("providers.load") {
        config::Origin::File { line, .. } => (Some(line), "[providers] load"),
        config::Origin::SignedIn(_) => (None, "agent-daemon login"),
        config::Origin::Key(..) => (None, "the order in which keys are looked at"),
        _ => (None, "providers.load"),
    };
    let finding = |key: &config::KeyInUse| {
        let evidence = format!(
            "{} is set ({}) and not used: {why} chooses {}",
            key.variable,
            key.place,
            loaded.config.providers.load.join(", ")
        );
        Finding::warning(
            "key-unused",
            evidence,
            patient.edit(patient.home.config_file(), line),
        )
    };
    unused.map(finding).collect()
}

/// An error of the settings, with an editor at its line.
fn invalid(patient: &Patient, error: &Error) -> Finding {
    let command = match error {
        Error::Syntax { file, line, .. }
        | Error::Twice {
            file, second: line, ..
        } => patient.edit(file, Some(*line)),
        Error::EnvFileLine { path, line, .. } => patient.edit(path, Some(*line)),
        Error::Value { origin, .. } => patient.edit_at(origin),
        Error::NoProviderFile { .. } => patient.edit(patient.home.config_file(), None),
        Error::NoPrimary { file, .. } => patient.edit(file, None),
        Error::Io { path, .. } => format!("ls -ld {}", quote(path)),
        _ => patient.agent("check"),
    };
    Finding::error("config-invalid", error.to_string(), command)
}

/// A probable mistake. That there is no wall is told in other words.
fn doubtful(patient: &Patient, warning: &Warning) -> Option<Finding> {
    if warning.key == "tools.exec.sandbox" {
        return None;
    }
    let command = patient.edit_at(&warning.origin);
    let evidence = warning.to_string();
    Some(Finding::warning("config-doubtful", evidence, command))
}

/// A key or section that no setting has: the daemon does not start with it.
fn unknown(patient: &Patient, key: &UnknownKey) -> Finding {
    Finding::error(
        "config-unknown-key",
        key.to_string(),
        patient.edit_at(&key.origin),
    )
}

/// Keys and tokens that are not there.
fn secrets(patient: &Patient, loaded: &Loaded, keys: &Arc<Keys>) -> Vec<Finding> {
    let mut findings = signed_in(patient, loaded, keys);
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
    // What the daemon was started with is its own; a bot that runs has a token.
    let elsewhere = match patient.pid() {
        Some(_) => Some("the running daemon may have it"),
        None => service::unit(patient)
            .is_some()
            .then_some("the unit of systemd may have it"),
    };
    if let Some(elsewhere) = elsewhere {
        findings.retain(|finding| !has_it(patient, finding));
        // A bot that the running daemon does not have is surely without a token.
        let is_sure =
            |finding: &Finding| finding.id == "bot-token-missing" && patient.pid().is_some();
        let missing = findings
            .iter_mut()
            .filter(|finding| finding.id.ends_with("-missing") && !is_sure(finding));
        for finding in missing {
            finding.level = Level::Warning;
            finding.evidence.push_str(&format!("; {elsewhere}"));
        }
    }
    if findings.is_empty() && patient.pid().is_none() && keys.store().read().is_ok() {
        let mut failures = llm_client::check(&loaded.models, keys);
        failures.extend(build::telegram(&loaded.config, secrets, Arc::default()).err());
        findings.extend(failures.into_iter().map(|failure| {
            Finding::error("config-invalid", failure.message, patient.agent("check"))
        }));
    }
    findings
}

/// Returns whether a running daemon surely has the secret that is missing here: its bot runs, or its provider answered.
fn has_it(patient: &Patient, finding: &Finding) -> bool {
    let Some(state) = patient.monitor.as_ref().filter(|_| patient.pid().is_some()) else {
        return false;
    };
    match finding.id {
        "bot-token-missing" => state
            .channels
            .iter()
            .any(|channel| channel.name == "telegram"),
        // A daemon without a key of a loaded provider does not start.
        "provider-key-missing" | "search-key-missing" => true,
        _ => false,
    }
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
        let command = patient.edit(path, None);
        return vec![Finding::error("auth-unreadable", evidence, command)];
    }
    let untested = contents
        .entries
        .iter()
        .filter(|(_, entry)| entry.unverified);
    let mut findings: Vec<Finding> = untested
        .map(|(name, _)| {
            let evidence = format!(
                "the key of {name} was stored and could not be verified; it is not used until it is"
            );
            Finding::warning("key-unverified", evidence, patient.agent("auth --check"))
        })
        .collect();
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
    let ended = ended
        .filter(|(name, _)| loaded.contains(&name.as_str()))
        .map(|(name, reason)| {
            let evidence = format!("the sign-in at {name} has ended: {reason}");
            Finding::error(
                "signed-out",
                evidence,
                patient.agent(&format!("login {name} --oauth")),
            )
        });
    findings.extend(ended);
    findings
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

/// `sandbox = "off"` where commands or the programs of tool servers run.
fn wall(patient: &Patient, loaded: &Loaded) -> Option<Finding> {
    let config::Config { tools, mcp, .. } = &loaded.config;
    let servers = mcp.servers.iter();
    let programs = servers.filter(|(_, server)| !server.command.is_empty());
    let programs: Vec<&str> = programs.map(|(name, _)| name.as_str()).collect();
    let runs = tools.exec.runs() || !programs.is_empty();
    (runs && tools.exec.sandbox == Sandbox::Off).then(|| {
        let origin = loaded.origin("tools.exec.sandbox");
        let mut evidence = format!("tools.exec.sandbox = \"off\" ({origin}):");
        if tools.exec.runs() {
            evidence = format!("{evidence} {}", sandbox::Level::Off.remaining_risk());
        }
        if !programs.is_empty() {
            evidence = format!(
                "{evidence} The programs of tool servers ({}) can do everything the agent's user can and reach every host, \
                 whatever their network, reads and writes say: only calls of their tools are asked about.",
                programs.join(", ")
            );
        }
        let command = patient.edit_at(&origin.to_string());
        Finding::warning("sandbox-off", evidence, command)
    })
}

/// Nobody can tell which files hold untrusted words.
fn marks(patient: &Patient) -> Vec<Finding> {
    let marks = build::undo(&patient.home).marks;
    let files = [
        ("untrusted.json", marks.damage()),
        ("untrusted-periods.json", marks.periods.damage()),
    ];
    let finding = |(name, damage): (&str, Option<String>)| {
        let path = patient.home.untrusted().with_file_name(name);
        let evidence = format!(
            "state/{name} cannot be used: {}; every file counts as somebody else's words until it can",
            damage?
        );
        let edit = patient.edit(&path, None);
        Some(Finding::error("untrusted-unreadable", evidence, edit))
    };
    files.into_iter().filter_map(finding).collect()
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
        let command = patient.edit_at(&origin.to_string());
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

/// Tools that are asked for and never come.
fn tool_names(patient: &Patient, loaded: &Loaded) -> Option<Finding> {
    let enabled = loaded.config.tools.enabled.as_ref()?;
    let known = known_tools(patient, loaded)?;
    let absent = enabled.iter().filter(|name| !known.contains(name));
    let absent: Vec<&str> = absent.map(String::as_str).collect();
    (!absent.is_empty()).then(|| {
        let origin = loaded.origin("tools.enabled");
        let evidence = format!(
            "tools.enabled ({origin}) names {}, which this agent does not have; it has {}",
            absent.join(", "),
            known.join(", ")
        );
        let command = patient.edit_at(&origin.to_string());
        Finding::warning("tool-unknown", evidence, command)
    })
}

/// A policy that speaks of no call: the daemon does not start with it.
fn dead_policy(patient: &Patient, loaded: &Loaded) -> Option<Finding> {
    let (key, why) = build::policy_without_effect(&loaded.config)?;
    let origin = loaded.origin(&format!("tools.policies.{key}"));
    let evidence = format!("tools.policies.{key} ({origin}) has no effect: {why}");
    let command = patient.edit_at(&origin.to_string());
    Some(Finding::error("tool-unknown", evidence, command))
}

/// Returns the names of the tools that this agent has with these settings.
fn known_tools(patient: &Patient, loaded: &Loaded) -> Option<Vec<String>> {
    let root = Arc::new(Root::open(patient.home.workspace()).ok()?);
    let path_policy = build::path_policy(&patient.home, &loaded.config, root.clone());
    let secrets = Secrets::open(&patient.home, &patient.env).ok()?;
    let needs = Needs {
        path_policy: Arc::new(path_policy),
        undo: Arc::new(build::undo(&patient.home)),
        root,
        memory: Arc::new(Memory::new(&patient.home)),
        skills: Arc::new(Skills::new(&patient.home, None)),
        zone: loaded.config.agent.timezone.0,
        windows: HashMap::new(),
        exec: build::exec_settings(&patient.home, &patient.env, &loaded.config, &[]),
        web: Arc::new(build::web(&loaded.config, &secrets).ok()?),
        search: loaded.config.memory.clone(),
        subagents: loaded.config.subagents.clone(),
        stickers: build::stickers_of_tools(&loaded.config),
        speaker: None,
        digests: tools::FileDigests::default(),
        episodes: Mutex::default(),
        audit: audit::Log::off(),
    };
    let tools = tools::all(needs);
    Some(
        tools
            .iter()
            .map(|tool| tool.spec().name.into_owned())
            .collect(),
    )
}
