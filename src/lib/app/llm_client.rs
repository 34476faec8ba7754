//! The metered client, from the settings: for every program that asks a model.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::cli;
use super::cli::Failure;
use crate::auth;
use crate::auth::{Keys, ProviderKey};
use crate::config;
use crate::config::{Loaded, Models, ProviderType};
use crate::cost::Ledger;
use crate::llm::Client;
use crate::provider::anthropic::Anthropic;
use crate::provider::gemini::Gemini;
use crate::provider::offline::Offline;
use crate::provider::openai::OpenAi;
use crate::provider::speech::Voices;
use crate::provider::transcription::Transcriptions;
use crate::provider::{Key, Provider};

/// Returns the client that asks the models of `loaded` and pays from `ledger`.
pub(super) fn build(loaded: &Loaded, keys: &Arc<Keys>, ledger: Ledger) -> Result<Client, Failure> {
    let Vendors {
        chat,
        speech,
        voices,
    } = providers(&loaded.models, keys)?;
    let call_timeout = Duration::from_secs(loaded.config.agent.call_timeout_secs);
    Ok(Client::new(
        ledger,
        chat,
        loaded.models.clone(),
        loaded.config.cost.clone(),
        call_timeout,
    )
    .with_speech(speech)
    .with_voices(voices))
}

/// Returns why models could not be asked: each provider whose key is missing or cannot be used.
pub(super) fn check(models: &Models, keys: &Arc<Keys>) -> Vec<Failure> {
    let mut failures: Vec<Failure> = models
        .providers()
        .filter_map(|provider| usable(keys, provider).err())
        .collect();
    if failures.is_empty() {
        failures.extend(providers(models, keys).err());
    }
    failures
}

/// Checks that there is a key for a provider that wants one.
fn usable(keys: &Keys, provider: &config::Provider) -> Result<(), Failure> {
    match keys.check(provider) {
        // The issuer's word, and none of ours: the daemon starts and says so, see `signed_out`.
        Ok(()) | Err(auth::Error::SignedOut { .. }) => Ok(()),
        Err(error) => Err(without_key(provider, error)),
    }
}

/// The servers of the loaded providers, by the provider's name.
#[derive(Default)]
struct Vendors {
    /// Who answers.
    chat: HashMap<String, Arc<dyn Provider>>,
    /// Who listens.
    speech: HashMap<String, Transcriptions>,
    /// Who speaks.
    voices: HashMap<String, Voices>,
}

/// Returns the servers of the loaded providers. Their keys are looked up at each request: a sign-in
/// needs no restart.
fn providers(models: &Models, keys: &Arc<Keys>) -> Result<Vendors, Failure> {
    let http = cli::http_client()?;
    let mut servers = Vendors::default();
    for model in models.all() {
        let provider = &model.provider;
        if servers.chat.contains_key(&provider.name) {
            continue;
        }
        usable(keys, provider)?;
        let key = Key::From(Arc::new(ProviderKey::new(
            keys.clone(),
            provider.clone(),
            http.clone(),
        )));
        let built: Arc<dyn Provider> = match provider.kind {
            ProviderType::Anthropic => {
                Arc::new(Anthropic::new(http.clone(), &provider.base_url, key))
            }
            ProviderType::Openai => {
                let listens = Transcriptions::new(http.clone(), &provider.base_url, key.clone());
                servers.speech.insert(provider.name.clone(), listens);
                let speaks = Voices::openai(http.clone(), &provider.base_url, key.clone());
                servers.voices.insert(provider.name.clone(), speaks);
                Arc::new(OpenAi::new(http.clone(), &provider.base_url, key))
            }
            ProviderType::Elevenlabs => {
                let speaks = Voices::elevenlabs(http.clone(), &provider.base_url, key);
                servers.voices.insert(provider.name.clone(), speaks);
                continue;
            }
            ProviderType::Offline => Arc::new(Offline::new()),
            ProviderType::Gemini => Arc::new(Gemini::new(http.clone(), &provider.base_url, key)),
        };
        servers.chat.insert(provider.name.clone(), built);
    }
    Ok(servers)
}

/// Says what is missing, and the command that helps.
fn without_key(provider: &config::Provider, error: auth::Error) -> Failure {
    let auth::Error::Absent { .. } = error else {
        return error.into();
    };
    let name = &provider.name;
    let file = provider
        .file
        .as_ref()
        .map_or_else(String::new, |file| format!(" ({})", file.display()));
    match &provider.api_key_env {
        Some(key) => Failure::config(format!(
            "the key {key} of the provider {name}{file} is not set"
        ))
        .hint(format!(
            "{}, or put {key}=… into .env (mode 0600) or into the environment of the daemon",
            cli::command("agent-daemon", &format!("login {name}"))
        )),
        None => Failure::config(format!("not signed in to the provider {name}{file}")).hint(
            cli::command("agent-daemon", &format!("login {name} --oauth")),
        ),
    }
}
