//! From settings to the things that work with them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, broadcast};

use super::super::cli::{Exit, Failure};
use crate::agent::{Agent, Limits, Registry};
use crate::channel::telegram::Telegram;
use crate::config::{self, Config, Environment, ExecPolicy, Home, Loaded, Models, ProviderType, Secrets};
use crate::cost::{Client, Ledger};
use crate::media::Pictures;
use crate::memory::Memory;
use crate::message::AgentEvent;
use crate::net;
use crate::pipeline::{Listener, Live};
use crate::provider::Provider;
use crate::provider::anthropic::Anthropic;
use crate::provider::offline::Offline;
use crate::provider::openai::OpenAi;
use crate::provider::transcription::Transcriptions;
use crate::sandbox::Root;
use crate::secret::Secret;
use crate::tools::{self, ExecSettings, Needs};

/// Returns the settings with the loop built from them.
pub(super) fn live(
    home: &Home,
    env: &Environment,
    loaded: Loaded,
    ledger: Ledger,
    events: broadcast::Sender<AgentEvent>,
    memory: Arc<Memory>,
) -> Result<Live, Failure> {
    let secrets = Secrets::open(home, env)?;
    let Servers { chat, speech } = providers(&loaded.models, &secrets)?;
    let config = loaded.config;
    let secret_names = names_of_secrets(&config, &loaded.models);
    let call_timeout = Duration::from_secs(config.agent.call_timeout_secs);
    let client = Client::new(ledger, chat, loaded.models, config.cost.clone(), call_timeout).with_speech(speech);
    let root = Root::open(home.workspace()).map_err(|error| {
        Failure::new(Exit::Io, error.to_string()).hint("the workspace must be a directory that the agent may read")
    })?;
    let needs = Needs {
        root: Arc::new(root),
        memory,
        zone: config.agent.timezone.0,
        windows: client.models().all().map(|model| (model.name.clone(), model.context_window)).collect(),
        exec: exec_settings(home, env, &config, &secret_names),
        episodes: Mutex::default(),
    };
    let registry = Registry::new(tools::all(needs), config.tools.enabled.as_deref());
    let limits = Limits { max_turns: config.agent.max_turns, run_timeout: Duration::from_secs(config.agent.run_timeout_secs) };
    let pictures = Pictures::new(home.downloads());
    let listener = listener(home, env, &config);
    Ok(Live { agent: Agent::new(Arc::new(client), registry, limits, events, pictures), config, listener })
}

/// Returns the program that puts recordings into words; `None` when none is configured.
fn listener(home: &Home, env: &Environment, config: &Config) -> Option<Listener> {
    let media = &config.media;
    (!media.transcribe.is_empty()).then(|| Listener {
        argv: media.transcribe.clone(),
        reads: media.transcribe_reads.clone(),
        hidden: [home.config_dir(), home.state(), home.workspace()].map(std::path::Path::to_owned).to_vec(),
        search_path: env.get("PATH").and_then(|path| path.into_string().ok()).unwrap_or_default(),
        off: config.tools.exec.sandbox == config::Sandbox::Off,
    })
}

/// Returns the variables that hold secrets: no command sees them, whatever the settings say.
pub(super) fn names_of_secrets(config: &Config, models: &Models) -> Vec<String> {
    let keys = models.all().filter_map(|model| model.provider.api_key_env.clone());
    keys.chain([config.telegram.token_env.clone(), config.http.token_env.clone()]).collect()
}

/// Returns how commands run; `None` when they do not.
pub(super) fn exec_settings(home: &Home, env: &Environment, config: &Config, secrets: &[String]) -> Option<ExecSettings> {
    let exec = &config.tools.exec;
    // Nobody can be asked in this build, so what wants a yes is not offered.
    if matches!(exec.policy, ExecPolicy::Off | ExecPolicy::Ask) {
        return None;
    }
    let variable = |name: &String| Some((name.clone(), env.get(name)?.into_string().ok()?));
    let mut hidden = vec![home.config_dir().to_owned(), home.state().to_owned()];
    hidden.extend(env.get("HOME").map(std::path::PathBuf::from).filter(|dir| dir.is_absolute() && dir.parent().is_some()));
    Some(ExecSettings {
        workspace: home.workspace().to_owned(),
        hidden,
        network: exec.network,
        off: exec.sandbox == config::Sandbox::Off,
        env: exec.env.iter().filter(|name| !secrets.contains(name)).filter_map(variable).collect(),
        timeout_secs: exec.timeout_secs,
        max_timeout_secs: exec.max_timeout_secs,
    })
}

/// The servers of the loaded providers, by the provider's name.
#[derive(Default)]
pub(super) struct Servers {
    /// Who answers.
    chat: HashMap<String, Arc<dyn Provider>>,
    /// Who listens.
    speech: HashMap<String, Transcriptions>,
}

/// Returns the servers of the loaded providers.
pub(super) fn providers(models: &Models, secrets: &Secrets) -> Result<Servers, Failure> {
    let http =
        net::client().map_err(|error| Failure::new(Exit::Failed, format!("TLS cannot be set up: {}", error.without_url())))?;
    let mut servers = Servers::default();
    for model in models.all() {
        let provider = &model.provider;
        if servers.chat.contains_key(&provider.name) {
            continue;
        }
        let key = match &provider.api_key_env {
            Some(name) => Some(secrets.get(name)?.ok_or_else(|| {
                let file = provider.file.as_ref().map_or_else(String::new, |file| format!(" ({})", file.display()));
                Failure::new(Exit::Config, format!("the key {name} of the provider {}{file} is not set", provider.name))
                    .hint(format!("put {name}=… into .env (mode 0600) or into the environment of the daemon"))
            })?),
            None => None,
        };
        let built: Arc<dyn Provider> = match provider.kind {
            ProviderType::Anthropic => Arc::new(Anthropic::new(http.clone(), &provider.base_url, key)),
            ProviderType::Openai => {
                let listens = Transcriptions::new(http.clone(), &provider.base_url, key.clone());
                servers.speech.insert(provider.name.clone(), listens);
                Arc::new(OpenAi::new(http.clone(), &provider.base_url, key))
            }
            ProviderType::Offline => Arc::new(Offline::new()),
            ProviderType::Gemini => {
                return Err(Failure::new(
                    Exit::Config,
                    format!("the provider {} is of type gemini, which is not in this build", provider.name),
                )
                .hint("use type = \"openai\" with Gemini's OpenAI-compatible address"));
            }
        };
        servers.chat.insert(provider.name.clone(), built);
    }
    Ok(servers)
}

/// Returns the Telegram channel when it is on; `changed` is notified when its health changes.
pub(super) fn telegram(config: &Config, secrets: &Secrets, changed: Arc<Notify>) -> Result<Option<Arc<Telegram>>, Failure> {
    let telegram = &config.telegram;
    if !telegram.enabled {
        return Ok(None);
    }
    let token = secrets.get(&telegram.token_env)?.ok_or_else(|| {
        Failure::new(Exit::Config, format!("[telegram] is enabled and the bot token {} is not set", telegram.token_env))
            .hint(format!("get a token from @BotFather and put {}=… into .env (mode 0600)", telegram.token_env))
    })?;
    if !is_bot_token(&token) {
        return Err(Failure::new(Exit::Config, format!("the bot token {} is no bot token", telegram.token_env))
            .hint("a token looks like 123456789:AAF… ; copy it whole from @BotFather"));
    }
    let channel = Telegram::new(telegram, &config.http, token, changed)
        .map_err(|error| Failure::new(Exit::Failed, format!("TLS cannot be set up: {}", error.without_url())))?;
    Ok(Some(Arc::new(channel)))
}

/// Returns whether it has the form of a token: `123456789:AAF…`.
pub(super) fn is_bot_token(token: &Secret) -> bool {
    token.expose().split_once(':').is_some_and(|(id, rest)| id.parse::<i64>().is_ok() && rest.len() >= 20)
}
