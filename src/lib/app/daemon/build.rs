//! Builds the components of the daemon from the settings.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, broadcast};

use crate::agent::{Agent, Limits, Registry, Rules, Tool};
use crate::app::cli;
use crate::app::cli::Failure;
use crate::app::llm_client;
use crate::audit;
use crate::auth::{Keys, Renewals};
use crate::channel::Channel;
use crate::channel::process::Process;
use crate::channel::telegram::Telegram;
use crate::clock;
use crate::config;
use crate::config::{Config, Environment, Home, Loaded, Models, SearchEngine, Secrets};
use crate::cost::Ledger;
use crate::llm::{Client, Outages};
use crate::mcp::Servers;
use crate::media::{Films, Pictures};
use crate::memory::Memory;
use crate::message::AgentEvent;
use crate::net::Callback;
use crate::pipeline::Live;
use crate::sandbox::{Program, Root};
use crate::secret::Secret;
use crate::skills::Skills;
use crate::tools;
use crate::tools::{ExecSettings, Needs, Speaker, Web};
use crate::undo;
use crate::workspace::{Marks, PathPolicy};

/// What outlasts a reload.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) ledger: Ledger,
    /// What earlier settings found out about their providers.
    pub(crate) outages: Outages,
    pub(crate) events: broadcast::Sender<AgentEvent>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) skills: Arc<Skills>,
    pub(crate) undo: Arc<undo::Store>,
    pub(crate) renewals: Renewals,
    pub(crate) servers: Arc<Servers>,
    pub(crate) audit: audit::Log,
}

/// Returns the settings with the loop built from them.
pub(crate) fn live(
    home: &Home,
    env: &Environment,
    loaded: Loaded,
    kept: Kept,
) -> Result<Live, Failure> {
    let (memory, servers, audit) = (kept.memory, kept.servers, kept.audit);
    let keys = Arc::new(Keys::sharing(home, env, kept.renewals)?);
    let server_settings = super::mcp_servers::settings(home, env, &loaded.config, keys.secrets());
    let secret_names = names_of_secrets(&loaded.config, &loaded.models);
    let client = llm_client::build(&loaded, &keys, kept.ledger)?.with_outages(kept.outages);
    let (config, settings_files) = (loaded.config, loaded.files);
    let root = Root::open(home.workspace()).map_err(|error| {
        Failure::io(error.to_string())
            .hint("the workspace must be a directory that the agent may read")
    })?;
    let root = Arc::new(root);
    let path_policy = Arc::new(path_policy(home, &config, root.clone()));
    let files = tools::ChangedFiles::new(home.workspace(), kept.undo.clone());
    let client = Arc::new(client);
    let speaker = speaker(home, env, &config, &client);
    let needs = Needs {
        root,
        path_policy: path_policy.clone(),
        undo: kept.undo,
        memory: memory.clone(),
        skills: kept.skills,
        zone: config.agent.timezone.0,
        windows: client
            .models()
            .all()
            .map(|model| (model.name.clone(), model.context_window))
            .collect(),
        exec: exec_settings(home, env, &config, &secret_names),
        web: Arc::new(web(&config, keys.secrets())?),
        search: config.memory.clone(),
        subagents: config.subagents.clone(),
        stickers: stickers_of_tools(&config),
        speaker: speaker.clone(),
        digests: tools::FileDigests::default(),
        owners: config.owners(),
        episodes: Mutex::default(),
        audit: audit.clone(),
    };
    check_policies(&config)?;
    memory.share(&config.memory.collections, keys.secrets());
    let tools = tools::all(needs);
    servers.set(server_settings, tools::names_taken(&tools));
    let registry = registry(&config, tools).with_changing(Arc::new({
        let (audit, client, downloads) = (audit.clone(), client.clone(), home.downloads());
        move || tools::of_servers(&servers, &files, (&audit, &client, &downloads))
    }));
    let limits = limits(&config);
    let callback = callback(&config, keys.secrets())?;
    let pictures = Pictures::new(home.downloads());
    let (listener, films) = listener_and_films(home, env, &config);
    let agent = Agent::new(
        client,
        registry,
        limits,
        config.compaction.clone(),
        kept.events,
        pictures,
        memory,
    );
    let agent = agent.with_audit(audit).in_zone(config.agent.timezone.0);
    Ok(Live {
        agent,
        config,
        settings_files,
        listener,
        films,
        speaker,
        path_policy,
        callback,
    })
}

/// Returns who is told what each message came to; `None` when nobody is.
fn callback(config: &Config, secrets: &Secrets) -> Result<Option<Callback>, Failure> {
    let config::Callback { url, token_env } = &config.callback;
    if url.is_empty() {
        return Ok(None);
    }
    let token = match token_env.as_str() {
        "" => None,
        name => Some(secrets.get(name)?.ok_or_else(|| {
            Failure::config(format!("[callback] token_env: {name} is not set"))
                .hint(format!("put {name}=… into .env (mode 0600)"))
        })?),
    };
    let callback = Callback::start(url.clone(), token);
    callback
        .map(Some)
        .map_err(|error| Failure::failed(error.without_url().to_string()))
}

/// Returns what speaks; `None` when neither a model nor a program does.
fn speaker(
    home: &Home,
    env: &Environment,
    config: &Config,
    client: &Arc<Client>,
) -> Option<Arc<Speaker>> {
    let media = &config.media;
    let speaker = Arc::new(Speaker {
        client: client.clone(),
        program: (!media.speak.is_empty())
            .then(|| program((home, env, config), &media.speak, &media.speak_reads)),
        scratch: home.downloads(),
    });
    speaker.can_speak().then_some(speaker)
}

fn registry(config: &Config, tools: Vec<Arc<dyn Tool>>) -> Registry {
    let (enabled, policies) = (&config.tools.enabled, &config.tools.policies);
    Registry::new(tools, enabled.as_deref(), policies.clone()).with_rules(Rules {
        denied: config.subagents.deny.clone(),
        max_output: config.tools.max_output,
    })
}

fn limits(config: &Config) -> Limits {
    Limits {
        max_turns: config.agent.max_turns,
        max_turns_for: config.agent.max_turns_for.clone(),
        run_timeout: Duration::from_secs(config.agent.run_timeout_secs),
    }
}

/// Refuses an entry of `[tools.policies]` that speaks of nothing.
pub(super) fn check_policies(config: &Config) -> Result<(), Failure> {
    match policy_without_effect(config) {
        None => Ok(()),
        Some((key, why)) => {
            let what = format!("agent.toml: tools.policies.{key} has no effect: {why}");
            Err(Failure::config(what).hint(
                "agent-send --mcp list shows the tools of servers; agent.toml(5) has the others",
            ))
        }
    }
}

/// Returns a key of `[tools.policies]` that speaks of no call, and why.
pub(crate) fn policy_without_effect(config: &Config) -> Option<(String, String)> {
    let servers: Vec<&str> = config.mcp.servers.keys().map(String::as_str).collect();
    config::without_effect(&config.tools, &servers, &tools::NAMES)
}

/// Returns where file tools work.
pub(crate) fn path_policy(home: &Home, config: &Config, workspace: Arc<Root>) -> PathPolicy {
    let own = [home.config_dir(), home.state()]
        .into_iter()
        .chain(home.credentials_dir());
    let file = home.config_is_named().then(|| home.config_file());
    PathPolicy::new(
        workspace,
        config.tools.allowed_paths.clone(),
        own.chain(file).map(std::path::Path::to_owned).collect(),
    )
}

/// Returns what runs changed in files.
pub(crate) fn undo(home: &Home) -> undo::Store {
    undo::Store::new(home.undo(), Marks::new(&home.untrusted()))
}

/// Returns the stickers that the tool `sticker` sends; a persona's are tasks of its plans.
pub(crate) fn stickers_of_tools(config: &Config) -> config::Stickers {
    match config.agent.mode {
        config::Mode::Tools => config.agent.stickers.clone(),
        config::Mode::Plan => config::Stickers::default(),
    }
}

/// Returns what puts recordings into words, when a program is configured for it, and what looks into films.
fn listener_and_films(home: &Home, env: &Environment, config: &Config) -> (Option<Program>, Films) {
    let (media, own) = (&config.media, (home, env, config));
    let listener = (!media.transcribe.is_empty())
        .then(|| program(own, &media.transcribe, &media.transcribe_reads));
    let films = Films {
        scratch: home.downloads(),
        walls: program(own, &[], &[]),
    };
    (listener, films)
}

/// Returns a program that works on files in a separate directory.
fn program(
    (home, env, config): (&Home, &Environment, &Config),
    argv: &[String],
    reads: &[PathBuf],
) -> Program {
    let search_path = env.get("PATH").and_then(|path| path.into_string().ok());
    Program {
        argv: argv.to_vec(),
        reads: reads.to_vec(),
        hidden: [home.config_dir(), home.state(), home.workspace()]
            .map(std::path::Path::to_owned)
            .to_vec(),
        search_path: search_path.unwrap_or_default(),
        off: config.tools.exec.sandbox == config::Sandbox::Off,
    }
}

/// Returns the variables that hold secrets: no command sees them, whatever the settings say.
pub(crate) fn names_of_secrets(config: &Config, models: &Models) -> Vec<String> {
    let keys = models
        .providers()
        .filter_map(|provider| provider.api_key_env.clone());
    let servers = config
        .mcp
        .servers
        .values()
        .flat_map(|server| [server.token_env.clone(), server.client_secret_env.clone()]);
    let hooks = config.http.hooks.iter();
    let hooks = hooks.map(|(name, hook)| hook.secret_name(name));
    keys.chain(servers)
        .chain(
            [
                &config.telegram.token_env,
                &config.http.token_env,
                &config.tools.web.search_key_env,
                &config.callback.token_env,
            ]
            .map(String::clone),
        )
        .chain(hooks)
        .collect()
}

/// Returns the names under which a secret is looked up, or would be for another vendor.
pub(crate) fn known_secrets(loaded: &Loaded) -> Vec<String> {
    let mut names = names_of_secrets(&loaded.config, &loaded.models);
    names.extend(
        config::VENDORS
            .iter()
            .map(|vendor| vendor.variable.to_owned()),
    );
    names
}

/// Returns the web; without its key nobody searches there.
pub(crate) fn web(config: &Config, secrets: &Secrets) -> Result<Web, Failure> {
    let settings = &config.tools.web;
    // Read even where it is not needed: what is known is kept out of every text.
    let key = secrets.get(&settings.search_key_env)?;
    if settings.search == SearchEngine::Brave && key.is_none() {
        let name = &settings.search_key_env;
        tracing::warn!(name, "there is no web_search: the key for Brave is not set");
    }
    Ok(Web::new(settings, key).trusting(&config.tools.trusted_hosts))
}

/// Returns the user's own home, which no command sees.
pub(crate) fn home_of_user(env: &Environment) -> Option<PathBuf> {
    env.get("HOME")
        .map(PathBuf::from)
        .filter(|dir| dir.is_absolute() && dir.parent().is_some())
}

/// Returns how commands run; `None` when they do not.
pub(crate) fn exec_settings(
    home: &Home,
    env: &Environment,
    config: &Config,
    secrets: &[String],
) -> Option<ExecSettings> {
    let exec = &config.tools.exec;
    if !exec.runs() {
        return None;
    }
    let mut hidden = vec![home.config_dir().to_owned(), home.state().to_owned()];
    hidden.extend(home_of_user(env));
    let path = env.get("PATH").unwrap_or_default();
    let has_path = exec.env.iter().any(|name| name == "PATH");
    let programs = match has_path {
        true => tools::known_programs(&path.to_string_lossy(), &hidden),
        false => Vec::new(),
    };
    Some(ExecSettings {
        workspace: home.workspace().to_owned(),
        hidden,
        rules: exec.clone(),
        trusted_hosts: config.tools.trusted_hosts.clone(),
        off: exec.sandbox == config::Sandbox::Off,
        env: tools::environment(env, &exec.env, secrets),
        reserve_mb: config.media.reserve_mb,
        programs,
    })
}

/// Returns why models that are in use will not answer, no matter who uses them: what a start and a reload tell.
pub(super) fn cannot_answer(loaded: &Loaded, keys: &Keys) -> Vec<String> {
    let mut why = signed_out(&loaded.models, keys);
    let unpriced = unpriced(loaded).into_iter();
    let used = unpriced.filter(|(model, _)| loaded.models.is_in_use(model));
    why.extend(used.map(|(_, words)| words));
    why
}

/// Returns the models that a cap refuses each time, since they have no price, and the words for it.
pub(crate) fn unpriced(loaded: &Loaded) -> Vec<(Arc<config::Model>, String)> {
    let models = loaded.models.all();
    let unpriced = models.filter(|model| model.rates.is_none() && !model.is_for_speech());
    let told = unpriced.filter(|_| loaded.config.cost.capped()).map(|model| {
        let words = format!(
            "a cap is set in [cost], and the model `{}` has no price, so each call of it is refused; a free model says cost_per_mtok = [0, 0, 0, 0]",
            model.name
        );
        (model.clone(), words)
    });
    told.collect()
}

/// Returns, of each loaded provider whose sign-in has ended, that it has, and the command that helps.
pub(crate) fn signed_out(models: &Models, keys: &Keys) -> Vec<String> {
    let ended = |provider: &config::Provider| {
        let tokens = keys.store().entry(&provider.name).ok()?.tokens?;
        let reason = tokens.ended(clock::now_ms())?;
        let name = &provider.name;
        let instead = if keys.check(provider).is_ok() && Keys::wanted(provider) {
            "; another key is used"
        } else {
            ""
        };
        Some(cli::harmless(&format!(
            "the sign-in to {name} has expired: {reason}{instead}; run: agent-daemon login {name} --oauth"
        )))
    };
    let mut said: Vec<String> = models
        .all()
        .filter_map(|model| ended(&model.provider))
        .collect();
    said.sort();
    said.dedup();
    said
}

/// Returns the Telegram channel when it is on; `changed` is notified when its health changes.
pub(crate) fn telegram(
    config: &Config,
    secrets: &Secrets,
    changed: Arc<Notify>,
) -> Result<Option<Arc<Telegram>>, Failure> {
    let telegram = &config.telegram;
    if !telegram.enabled {
        return Ok(None);
    }
    let token = secrets.get(&telegram.token_env)?.ok_or_else(|| {
        Failure::config(format!(
            "[telegram] is enabled and the bot token {} is not set",
            telegram.token_env
        ))
        .hint(format!(
            "get a token from @BotFather and put {}=… into .env (mode 0600)",
            telegram.token_env
        ))
    })?;
    if !is_bot_token(&token) {
        return Err(Failure::config(format!(
            "the value of {} is not a bot token",
            telegram.token_env
        ))
        .hint("a token looks like 123456789:AAF… ; copy it whole from @BotFather"));
    }
    let channel = Telegram::new(telegram, &config.http, token, changed).map_err(|error| {
        Failure::failed(format!("TLS cannot be set up: {}", error.without_url()))
    })?;
    Ok(Some(Arc::new(channel)))
}

/// Returns the channels that are processes of their own and are on; `changed` is notified when the health of one changes.
pub(crate) fn processes(
    home: &Home,
    config: &Config,
    changed: &Arc<Notify>,
) -> HashMap<String, Arc<dyn Channel>> {
    let open = config
        .channels
        .iter()
        .filter(|(_, settings)| settings.enabled);
    let channel = |name: &String| -> Arc<dyn Channel> {
        Arc::new(Process::new(
            name,
            home.channels().join(name),
            changed.clone(),
        ))
    };
    open.map(|(name, _)| (name.clone(), channel(name)))
        .collect()
}

/// Returns whether it has the form of a token: `123456789:AAF…`.
pub(crate) fn is_bot_token(token: &Secret) -> bool {
    token
        .expose()
        .split_once(':')
        .is_some_and(|(id, rest)| id.parse::<i64>().is_ok() && rest.len() >= 20)
}
