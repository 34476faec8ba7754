//! Checks whether the daemon could start with these settings, and finds probable mistakes in them.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::context::{DoctorContext, blocks, quote};
use super::{Finding, Level, service};
use crate::app::daemon::{backup, build};
use crate::app::llm_client;
use crate::audit;
use crate::auth;
use crate::auth::Keys;
use crate::config;
use crate::config::{DmPolicy, Error, Loaded, Sandbox, Secrets, UnknownKey, Warning};
use crate::memory::Memory;
use crate::message::Address;
use crate::monitor_state::State;
use crate::people::People;
use crate::sandbox;
use crate::sandbox::Root;
use crate::skills::Skills;
use crate::tools;
use crate::tools::Needs;

pub(super) fn check(context: &DoctorContext) -> Vec<Finding> {
    let loaded = match &context.settings {
        Ok(loaded) => loaded,
        // What is no file is told with the other places.
        Err(_) if blocks(context.home.config_file()) => return Vec::new(),
        Err(Error::UnknownKeys(keys)) => {
            return keys.iter().map(|key| unknown(context, key)).collect();
        }
        Err(error) => return vec![invalid(context, error)],
    };
    let mut findings: Vec<Finding> = loaded
        .warnings
        .iter()
        .filter_map(|warning| doubtful(context, warning))
        .collect();
    let keys = (!blocks(&context.home.env_file())).then(|| Keys::open(&context.home, &context.env));
    match keys.transpose() {
        Ok(None) => {}
        Ok(Some(keys)) => {
            let mut misplaced = keys.secrets().misplaced_settings();
            misplaced.extend(keys.secrets().misspelt(&build::known_secrets(loaded)));
            findings.extend(
                misplaced
                    .iter()
                    .filter_map(|warning| doubtful(context, warning)),
            );
            findings.extend(secrets(context, loaded, &Arc::new(keys)));
        }
        // Its mode is told with the other modes.
        Err(Error::EnvFileMode { .. }) => {}
        Err(error) => findings.push(invalid(context, &error)),
    }
    findings.extend(wall(context, loaded));
    findings.extend(beyond_start(context, loaded));
    findings.extend(marks(context));
    findings
}

/// What a daemon starts with and should not have.
pub(super) fn beyond_start(context: &DoctorContext, loaded: &Loaded) -> Vec<Finding> {
    let mut findings = allowed_paths(context, loaded);
    findings.extend(owner(context, loaded));
    findings.extend(model_names(context, loaded));
    findings.extend(misspelt_models(context, loaded));
    findings.extend(tool_names(context, loaded));
    findings.extend(dead_policy(context, loaded));
    findings.extend(unused_keys(context, loaded));
    findings.extend(shell_only(context, loaded));
    findings.extend(backup_program(context, loaded));
    findings.extend(backup_recipient(context, loaded));
    findings
}

/// Backups are to be encrypted, and nothing can.
fn backup_program(context: &DoctorContext, loaded: &Loaded) -> Option<Finding> {
    let settings = &loaded.config.backup;
    let (key, program, package) = match (settings.age.is_empty(), settings.gpg.is_empty()) {
        (false, _) => ("backup.age", "age", "age"),
        (true, false) => ("backup.gpg", "gpg", "gnupg"),
        (true, true) => return None,
    };
    let is_there = context.on_path(program).is_some();
    (!is_there).then(|| {
        let evidence = format!(
            "`{key}` names who can read the backups, and {program} is not installed: no backup can be made"
        );
        Finding::warning("backup-program-missing", evidence, format!("apt-get install {package}"))
    })
}

/// A misspelt recipient or a key that has expired: every backup fails, at night. The keyring of somebody else is not looked
/// into.
fn backup_recipient(context: &DoctorContext, loaded: &Loaded) -> Option<Finding> {
    let settings = &loaded.config.backup;
    if context.is_foreign() && !settings.gpg.is_empty() {
        return None;
    }
    let why = backup::refused_recipients(settings)?;
    let evidence = format!("no backup can be made: {}", crate::text::visible(&why));
    let edit = context.edit(context.home.config_file(), None);
    Some(Finding::warning("backup-recipient", evidence, edit))
}

/// The model hangs on a variable of this shell, and systemd is to start the daemon, or started it without.
fn shell_only(context: &DoctorContext, loaded: &Loaded) -> Option<Finding> {
    let config::Origin::Key(name, config::SecretOrigin::Environment) =
        loaded.origin("providers.load")
    else {
        return None;
    };
    let provider = loaded.config.providers.load.first()?;
    let lacks_it = |state: &State| !state.providers.iter().any(|one| one.name == *provider);
    let is_without = match context.pid() {
        Some(_) => context.live().is_some_and(lacks_it),
        None => service::unit(context).is_some(),
    };
    is_without.then(|| {
        let evidence = format!(
            "{name} is set in this shell; a daemon that systemd starts has no model unless its unit or {} has it too",
            context.home.env_file().display()
        );
        Finding::warning("key-shell-only", evidence, context.agent(&format!("login {provider}")))
    })
}

/// A bot to which nobody is the owner answers nobody, and nobody can let others in.
fn owner(context: &DoctorContext, loaded: &Loaded) -> Option<Finding> {
    let telegram = &loaded.config.telegram;
    // A group's id, which is negative, makes nobody the owner.
    let is_named = telegram.owners().iter().any(|id| *id > 0);
    if !telegram.enabled || is_named || telegram.dm_policy != DmPolicy::Pairing {
        return None;
    }
    // A list that cannot be read is told with the databases.
    let path = Some(context.home.people()).filter(|path| !blocks(path))?;
    let people = People::read(&path).ok()?;
    let others = loaded
        .config
        .owners()
        .into_iter()
        .chain(people.owners.iter().map(|one| one.id.clone()));
    let is_person = |one: &Address| !matches!(one, Address::Number(id) if *id <= 0);
    (!others.into_iter().any(|one| is_person(&one))).then(|| {
        let evidence = "[telegram] is enabled, and the bot has no owner: it answers nobody";
        Finding::warning(
            "owner-missing",
            evidence,
            context.program("agent-send", "--pair owner"),
        )
    })
}

/// A model's id with a word that is nearly one of the vendors' own, at a server of the internet.
fn misspelt_models(context: &DoctorContext, loaded: &Loaded) -> Vec<Finding> {
    let finding = |model: &Arc<config::Model>| {
        let provider = &model.provider;
        let (word, meant) = config::misspelt_word(&model.model)
            .filter(|_| provider.base_url.starts_with("https://"))?;
        let evidence = format!(
            "the model `{}` is called {:?} at {}; did you mean `{meant}` instead of `{word}`?",
            model.name, model.model, provider.name
        );
        let edit = context.edit_provider(provider);
        Some(Finding::warning("model-name", evidence, edit))
    };
    loaded.models.all().filter_map(finding).collect()
}

/// A model's id with a space or an end of a line in it, which no vendor has: a slip of the clipboard.
fn model_names(context: &DoctorContext, loaded: &Loaded) -> Vec<Finding> {
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
        let edit = context.edit_provider(&model.provider);
        Finding::warning("model-name", evidence, edit)
    };
    odd.map(finding).collect()
}

/// A vendor's key that is set, perhaps for this agent, and that no loaded provider uses.
fn unused_keys(context: &DoctorContext, loaded: &Loaded) -> Vec<Finding> {
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
            context.edit(context.home.config_file(), line),
        )
    };
    unused.map(finding).collect()
}

/// An error of the settings, with an editor at its line.
fn invalid(context: &DoctorContext, error: &Error) -> Finding {
    let command = match error {
        Error::Syntax { file, line, .. }
        | Error::Twice {
            file, second: line, ..
        } => context.edit(file, Some(*line)),
        Error::EnvFileLine { path, line, .. } => context.edit(path, Some(*line)),
        Error::Value { origin, .. } => context.edit_at(origin),
        Error::NoProviderFile { .. } => context.edit(context.home.config_file(), None),
        Error::NoPrimary { file, .. } => context.edit(file, None),
        Error::Io { path, .. } => format!("ls -ld {}", quote(path)),
        _ => context.agent("check"),
    };
    Finding::error("config-invalid", error.to_string(), command)
}

/// A probable mistake. That there is no wall is told in other words.
fn doubtful(context: &DoctorContext, warning: &Warning) -> Option<Finding> {
    if warning.key == "tools.exec.sandbox" {
        return None;
    }
    let command = context.edit_at(&warning.origin);
    let evidence = warning.to_string();
    Some(Finding::warning("config-doubtful", evidence, command))
}

/// A key or section that no setting has: the daemon does not start with it.
fn unknown(context: &DoctorContext, key: &UnknownKey) -> Finding {
    Finding::error(
        "config-unknown-key",
        key.to_string(),
        context.edit_at(&key.origin),
    )
}

/// Keys and tokens that are not there.
fn secrets(context: &DoctorContext, loaded: &Loaded, keys: &Arc<Keys>) -> Vec<Finding> {
    let mut findings = signed_in(context, loaded, keys);
    let env_file = context.home.env_file();
    let edit = context.edit(&env_file, None);
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
                context.agent(&format!("login {name}")),
            ));
        }
    }
    let secrets = keys.secrets();
    findings.extend(token(loaded, secrets, &env_file, &edit));
    findings.extend(search_key(loaded, secrets, &env_file, &edit));
    // What the daemon was started with is its own; a bot that runs has a token.
    let elsewhere = match context.pid() {
        Some(_) => Some("the running daemon may have it"),
        None => service::unit(context)
            .is_some()
            .then_some("the unit of systemd may have it"),
    };
    if let Some(elsewhere) = elsewhere {
        findings.retain(|finding| !has_it(context, finding));
        // A bot that the running daemon does not have is surely without a token.
        let is_sure =
            |finding: &Finding| finding.id == "bot-token-missing" && context.pid().is_some();
        let missing = findings
            .iter_mut()
            .filter(|finding| finding.id.ends_with("-missing") && !is_sure(finding));
        for finding in missing {
            finding.level = Level::Warning;
            finding.evidence.push_str(&format!("; {elsewhere}"));
        }
    }
    if findings.is_empty() && context.pid().is_none() && keys.store().read().is_ok() {
        let mut failures = llm_client::check(&loaded.models, keys);
        failures.extend(build::telegram(&loaded.config, secrets, Arc::default()).err());
        findings.extend(failures.into_iter().map(|failure| {
            Finding::error("config-invalid", failure.message, context.agent("check"))
        }));
    }
    findings
}

/// Returns whether a running daemon surely has the secret that is missing here: its bot runs, or its provider answered.
fn has_it(context: &DoctorContext, finding: &Finding) -> bool {
    let Some(state) = context.live() else {
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
fn signed_in(context: &DoctorContext, loaded: &Loaded, keys: &Keys) -> Vec<Finding> {
    let path = keys.store().path();
    let contents = match keys.store().read() {
        Ok(contents) => contents,
        // Its mode is told with the other modes.
        Err(auth::Error::Mode { .. }) => return Vec::new(),
        Err(error) => {
            let command = format!("{}ls -l {}", context.sudo(), quote(path));
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
        let command = context.edit(path, None);
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
            Finding::warning("key-unverified", evidence, context.agent("auth --check"))
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
            let evidence = format!("the sign-in to {name} has expired: {reason}");
            Finding::error(
                "signed-out",
                evidence,
                context.agent(&format!("login {name} --oauth")),
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
fn wall(context: &DoctorContext, loaded: &Loaded) -> Option<Finding> {
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
        let command = context.edit_at(&origin.to_string());
        Finding::warning("sandbox-off", evidence, command)
    })
}

/// Nobody can tell which files hold untrusted words.
fn marks(context: &DoctorContext) -> Vec<Finding> {
    let marks = build::undo(&context.home).marks;
    let files = [
        ("untrusted.json", marks.damage()),
        ("untrusted-periods.json", marks.periods.damage()),
    ];
    let finding = |(name, damage): (&str, Option<String>)| {
        let path = context.home.untrusted().with_file_name(name);
        let evidence = format!(
            "state/{name} is unreadable: {}; all workspace files are treated as untrusted until it is repaired or deleted",
            damage?
        );
        let edit = context.edit(&path, None);
        Some(Finding::error("untrusted-unreadable", evidence, edit))
    };
    files.into_iter().filter_map(finding).collect()
}

/// Directories that file tools may use and cannot.
fn allowed_paths(context: &DoctorContext, loaded: &Loaded) -> Vec<Finding> {
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
        let command = context.edit_at(&origin.to_string());
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
fn tool_names(context: &DoctorContext, loaded: &Loaded) -> Option<Finding> {
    let enabled = loaded.config.tools.enabled.as_ref()?;
    let known = known_tools(context, loaded)?;
    let absent = enabled.iter().filter(|name| !known.contains(name));
    let absent: Vec<&str> = absent.map(String::as_str).collect();
    (!absent.is_empty()).then(|| {
        let origin = loaded.origin("tools.enabled");
        let evidence = format!(
            "tools.enabled ({origin}) names {}, which this agent does not have; it has {}",
            absent.join(", "),
            known.join(", ")
        );
        let command = context.edit_at(&origin.to_string());
        Finding::warning("tool-unknown", evidence, command)
    })
}

/// A policy that speaks of no call: the daemon does not start with it.
fn dead_policy(context: &DoctorContext, loaded: &Loaded) -> Option<Finding> {
    let (key, why) = build::policy_without_effect(&loaded.config)?;
    let origin = loaded.origin(&format!("tools.policies.{key}"));
    let evidence = format!("tools.policies.{key} ({origin}) has no effect: {why}");
    let command = context.edit_at(&origin.to_string());
    Some(Finding::error("tool-unknown", evidence, command))
}

/// Returns the names of the tools that this agent has with these settings.
fn known_tools(context: &DoctorContext, loaded: &Loaded) -> Option<Vec<String>> {
    let root = Arc::new(Root::open(context.home.workspace()).ok()?);
    let path_policy = build::path_policy(&context.home, &loaded.config, root.clone());
    let secrets = Secrets::open(&context.home, &context.env).ok()?;
    let needs = Needs {
        path_policy: Arc::new(path_policy),
        undo: Arc::new(build::undo(&context.home)),
        root,
        memory: Arc::new(Memory::new(&context.home)),
        skills: Arc::new(Skills::new(&context.home, None)),
        zone: loaded.config.agent.timezone.0,
        windows: HashMap::new(),
        exec: build::exec_settings(&context.home, &context.env, &loaded.config, &[]),
        web: Arc::new(build::web(&loaded.config, &secrets).ok()?),
        search: loaded.config.memory.clone(),
        subagents: loaded.config.subagents.clone(),
        stickers: build::stickers_of_tools(&loaded.config),
        speaker: None,
        digests: tools::FileDigests::default(),
        owners: Vec::new(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::atomic;

    #[test]
    fn a_group_is_no_owner() {
        let missing = |owner: &str| {
            let dir = tempfile::tempdir().expect("dir");
            let settings = format!("[telegram]\nenabled = true\nowner = [{owner}]\n");
            let file = dir.path().join("agent.toml");
            atomic::write(&file, settings.as_bytes(), atomic::Durability::Rename)
                .expect("the settings");
            let context = DoctorContext::of(dir.path(), &[]);
            let loaded = context.settings.as_ref().expect("settings");
            super::owner(&context, loaded).map(|finding| finding.id)
        };
        assert_eq!(missing("-1001234567890"), Some("owner-missing"));
        assert_eq!(missing("7"), None);
    }
}
