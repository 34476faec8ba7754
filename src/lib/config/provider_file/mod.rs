//! `providers.d/NAME.toml`: a model server, and its models by name.
//!
//! ```toml
//! type = "anthropic"
//! api_key_env = "ANTHROPIC_API_KEY"
//! [models.primary]
//! model = "…"
//! max_tokens = 8192
//! context_window = 200000
//! cost_per_mtok = [3.0, 15.0, 0.3, 3.75]
//! ```

mod parse;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::error::Error;
use super::home::Home;
use super::key_names;
use super::key_names::UnknownKey;
use super::types::{Config, Embeddings};
use super::validate::Warning;

/// A server of models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// Its name in `providers.load`.
    pub name: String,
    /// The protocol it speaks.
    pub kind: ProviderType,
    /// Where it is, without a slash at the end; empty for `offline`.
    pub base_url: String,
    /// The name of the variable, credential or `.env` entry with its key; `None` = no key.
    pub api_key_env: Option<String>,
    /// How to sign in there, if it offers that.
    pub oauth: Option<OAuth>,
    /// `offline` only: a directory of scripted turns.
    pub scripts_dir: Option<PathBuf>,
    /// Its file; `None` for the built-in `offline`.
    pub file: Option<PathBuf>,
}

/// How to sign in at a provider that offers OAuth 2.0 to everybody: `[oauth]` in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuth {
    /// Where the browser is sent; https, or http on this machine. It may have a query.
    pub authorize_url: String,
    /// Where tokens are got; https, or http on this machine.
    pub token_url: String,
    /// Who we are there: what the user was given when they registered their own application.
    pub client_id: String,
    /// The requested scope, words separated by spaces.
    pub scope: Option<String>,
    /// The port of 127.0.0.1 that the issuer sends the browser back to; `None` = any.
    pub redirect_port: Option<u16>,
}

/// The protocol of a provider: `type` in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderType {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's chat completions and what is compatible.
    Openai,
    /// Google's generateContent.
    Gemini,
    /// ElevenLabs' text to speech, and nothing else.
    Elevenlabs,
    /// No model at all.
    Offline,
}

impl ProviderType {
    /// Returns the word in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Openai => "openai",
            Self::Gemini => "gemini",
            Self::Elevenlabs => "elevenlabs",
            Self::Offline => "offline",
        }
    }
}

/// A model by the name the user gave it.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// The name: NAME of `[models.NAME]`.
    pub name: String,
    /// Who serves it.
    pub provider: Arc<Provider>,
    /// The provider's id of it.
    pub model: String,
    /// The most tokens an answer may have; default 8192.
    pub max_tokens: u32,
    /// Tokens of question and answer together; default 200,000.
    pub context_window: u64,
    /// The size at which a conversation with it is compacted, tokens; 0 = what `[compaction]` says.
    pub compact_at: u64,
    /// US dollars a million tokens: input, output, cache read, cache write; `None` = unpriced.
    pub rates: Option<[f64; 4]>,
    /// US dollars a minute of sound; `None` = not stated.
    pub cost_per_minute: Option<f64>,
    /// US dollars a million characters that are spoken; `None` = not stated.
    pub cost_per_mchar: Option<f64>,
    /// The voice that speaks; `None` = the vendor's usual one.
    pub voice: Option<String>,
    /// US dollars a request in addition to that; `None` = not stated.
    pub cost_per_request: Option<f64>,
    /// Whether prompt-cache breakpoints are set; default true.
    pub cache: bool,
    /// How long the vendor keeps what is before a breakpoint: tools and stable files, semi-stable files, the
    /// conversation; default five minutes each.
    pub cache_ttl: [Ttl; 3],
    /// Whether it sees images; default false.
    pub vision: bool,
    /// Whether it is asked to think before it answers; default false.
    pub thinking: bool,
    /// Whether it can call tools; default true. If not, earlier tool calls are shown to it as text.
    pub tools: bool,
    /// Models to try in order when it fails; default none.
    pub fallbacks: Vec<String>,
}

/// How long a vendor keeps what it read of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Ttl {
    /// Five minutes.
    #[default]
    #[serde(rename = "5m")]
    Minutes5,
    /// An hour.
    #[serde(rename = "1h")]
    Hour,
}

/// A window that a longer list of tools hardly fills, tokens.
const LARGE_WINDOW: u64 = 100_000;

impl Model {
    /// Returns true where nothing is paid: its prices are zeros, or no vendor serves it.
    pub fn is_free(&self) -> bool {
        self.rates == Some([0.0; 4]) || self.provider.kind == ProviderType::Offline
    }

    /// Returns true where a longer list of tools costs next to nothing: the model is not a small one, and what it read
    /// before is cached at a quarter of the price or less.
    pub fn reads_tools_cheaply(&self) -> bool {
        let is_cached =
            |[input, _, cache_read, _]: [f64; 4]| input > 0.0 && cache_read * 4.0 <= input;
        self.cache && self.context_window >= LARGE_WINDOW && self.rates.is_some_and(is_cached)
    }
}

/// The loaded providers, their models, and what `[routing]` makes of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Models {
    providers: BTreeMap<String, Arc<Provider>>,
    by_name: BTreeMap<String, Arc<Model>>,
    routing: BTreeMap<String, String>,
    primary: String,
}

impl Models {
    /// Returns the model called `name`; `primary` is always one.
    ///
    /// # Errors
    /// [`Error::UnknownModel`] with the names there are; `asked_by` is the setting or flag named in
    /// it.
    pub fn get(&self, name: &str, asked_by: &str) -> Result<Arc<Model>, Error> {
        self.named(name).cloned().ok_or_else(|| {
            let known = self.names().collect::<Vec<_>>().join(", ");
            Error::UnknownModel {
                origin: asked_by.to_owned(),
                name: crate::text::visible(&crate::text::shorten(name, 64)),
                known,
            }
        })
    }

    /// Returns the model for a source or role: what `[routing]` says, else `primary`; speech and the
    /// description of pictures are off without routing.
    pub fn for_role(&self, role: &str) -> Option<Arc<Model>> {
        let is_off = matches!(role, "speech_to_text" | "text_to_speech" | "vision");
        let name = match self.routing.get(role) {
            Some(name) => name,
            None if is_off => return None,
            None => &self.primary,
        };
        self.named(name).cloned()
    }

    fn named(&self, name: &str) -> Option<&Arc<Model>> {
        let name = match name {
            "primary" => self.primary.as_str(),
            name => name,
        };
        self.by_name.get(name)
    }

    /// Returns the names of the models that can answer, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let answers = self.by_name.values().filter(|model| !model.is_for_speech());
        answers.map(|model| model.name.as_str())
    }

    /// Returns the models in use: `primary`, those of `[routing]`, and their fallbacks.
    pub fn in_use(&self) -> impl Iterator<Item = &Arc<Model>> {
        let mut names = vec![self.primary.clone()];
        names.extend(self.routing.values().cloned());
        let mut at = 0;
        while let Some(name) = names.get(at) {
            let model = self.named(name);
            for fallback in model.map_or(&[][..], |model| &model.fallbacks) {
                if !names.contains(fallback) {
                    names.push(fallback.clone());
                }
            }
            at += 1;
        }
        let is_used = move |model: &&Arc<Model>| names.contains(&model.name);
        self.by_name.values().filter(is_used)
    }

    /// Returns true for one of [`Self::in_use`].
    pub fn is_in_use(&self, model: &Model) -> bool {
        self.in_use().any(|used| used.name == model.name)
    }

    /// Returns the loaded providers, sorted by name; one may have no models, and serve embeddings only.
    pub fn providers(&self) -> impl Iterator<Item = &Arc<Provider>> {
        self.providers.values()
    }

    /// Returns the loaded provider called `name`.
    pub fn provider(&self, name: &str) -> Option<&Arc<Provider>> {
        self.providers.get(name)
    }

    /// Returns the models, sorted by name.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.by_name.values()
    }
}

/// Returns the provider of `providers.d/NAME.toml`, or a vendor that is built in, loaded or not; `None` when there
/// is neither.
///
/// # Errors
/// As the file's would be when it is loaded.
pub fn provider(home: &Home, name: &str) -> Result<Option<Arc<Provider>>, Error> {
    match parse::exists(home, name) {
        true => parse::server(home, name).map(Some),
        false => Ok(None),
    }
}

/// Returns the names of the files in `providers.d`, sorted.
///
/// # Errors
/// [`Error::Io`] when the directory is there and cannot be listed.
pub fn present(home: &Home) -> Result<Vec<String>, Error> {
    let dir = home.providers_dir();
    let entries = match std::fs::read_dir(&dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::io("list", &dir))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(Error::io("list", &dir))?.file_name();
        let name = name.to_str().and_then(|name| name.strip_suffix(".toml"));
        names.extend(name.filter(|name| parse::is_name(name)).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// Returns the names of the models of the provider `name`; `None` when there is none.
///
/// # Errors
/// As [`load`], for this one file.
pub(super) fn models_of(home: &Home, name: &str) -> Result<Option<Vec<String>>, Error> {
    if !parse::exists(home, name) {
        return Ok(None);
    }
    let (_, models) = parse::provider(home, name, &mut Vec::new(), &mut Vec::new())?;
    Ok(Some(models.into_iter().map(|model| model.name).collect()))
}

/// Reads the files of `providers.load`; the warnings are about them, and so is what is put into `unknown`. `origin`
/// says where a setting was written.
pub(super) fn load(
    home: &Home,
    config: &Config,
    origin: &dyn Fn(&str) -> String,
    unknown: &mut Vec<UnknownKey>,
) -> Result<(Models, Vec<Warning>), Error> {
    let mut models = Models {
        routing: config.routing.clone(),
        ..Models::default()
    };
    let mut warnings = Vec::new();
    let mut loaded: Vec<&str> = Vec::new();
    for name in &config.providers.load {
        if loaded.contains(&name.as_str()) {
            continue;
        }
        loaded.push(name);
        let (provider, of_provider) = parse::provider(home, name, &mut warnings, unknown)?;
        models.providers.insert(name.clone(), provider);
        for model in of_provider {
            models.add(model)?;
        }
    }
    models.prefer_own_fallbacks();
    models.choose_primary(home, &loaded)?;
    models.check_names(origin)?;
    models.check_embeddings(&config.memory.embeddings, origin)?;
    Ok((models, warnings))
}

impl Models {
    /// Adds a model. The first loaded has its name; one of a later provider is called `PROVIDER/NAME`.
    fn add(&mut self, mut model: Model) -> Result<(), Error> {
        if self.by_name.contains_key(&model.name) {
            model.name = format!("{}/{}", model.provider.name, model.name);
        }
        if let Some(first) = self.by_name.get(&model.name) {
            return Err(Error::DuplicateModel {
                first: place(&first.provider),
                second: place(&model.provider),
                name: model.name,
            });
        }
        self.by_name.insert(model.name.clone(), Arc::new(model));
        Ok(())
    }

    /// A fallback is a model of the same file before one of another with that name.
    fn prefer_own_fallbacks(&mut self) {
        let names: Vec<String> = self.by_name.keys().cloned().collect();
        for model in self.by_name.values_mut() {
            let own = |name: &String| format!("{}/{name}", model.provider.name);
            if !model
                .fallbacks
                .iter()
                .any(|name| names.contains(&own(name)))
            {
                continue;
            }
            let fallbacks = model.fallbacks.iter().map(|name| match own(name) {
                own if names.contains(&own) => own,
                _ => name.clone(),
            });
            let fallbacks = fallbacks.collect();
            Arc::make_mut(model).fallbacks = fallbacks;
        }
    }

    fn choose_primary(&mut self, home: &Home, loaded: &[&str]) -> Result<(), Error> {
        let mut names = self.by_name.keys();
        self.primary = match (
            self.by_name.contains_key("primary"),
            names.next(),
            names.next(),
        ) {
            (true, _, _) => "primary".to_owned(),
            (false, Some(only), None) if only == "offline" => only.clone(),
            _ => {
                let file = loaded
                    .iter()
                    .find(|name| **name != "offline")
                    .unwrap_or(&"NAME");
                let file = home.providers_dir().join(format!("{file}.toml"));
                let loaded = if loaded.is_empty() {
                    "nothing".to_owned()
                } else {
                    loaded.join(", ")
                };
                return Err(Error::NoPrimary { loaded, file });
            }
        };
        Ok(())
    }

    fn check_names(&self, origin: &dyn Fn(&str) -> String) -> Result<(), Error> {
        for (role, name) in &self.routing {
            let key = key_names::join("routing", role);
            let model = self.get(name, &format!("{}: {key}", origin(&key)))?;
            let Provider {
                name: provider,
                kind,
                ..
            } = &*model.provider;
            let can = match role.as_str() {
                "speech_to_text" if *kind != ProviderType::Openai => "cannot listen",
                "text_to_speech"
                    if !matches!(kind, ProviderType::Openai | ProviderType::Elevenlabs) =>
                {
                    "cannot speak"
                }
                "speech_to_text" | "text_to_speech" => "",
                _ if *kind == ProviderType::Elevenlabs => "can only speak",
                _ => "",
            };
            if !can.is_empty() {
                let only = match can {
                    "cannot listen" => ", only `openai` has transcriptions",
                    "cannot speak" => ", only `openai` and `elevenlabs` have voices",
                    _ => "",
                };
                let message = format!(
                    "the model `{name}` {can}: its provider `{provider}` is of type `{}`{only}",
                    kind.as_str()
                );
                return Err(Error::Value {
                    origin: origin(&key),
                    key,
                    message,
                });
            }
        }
        for model in self.by_name.values() {
            for name in &model.fallbacks {
                self.get(
                    name,
                    &format!(
                        "{}: models.{}.fallbacks",
                        place(&model.provider),
                        model.name
                    ),
                )?;
            }
        }
        Ok(())
    }
}

impl Model {
    /// Returns whether it only transcribes recordings: it has a price for that and none for tokens.
    pub fn is_for_speech(&self) -> bool {
        self.rates.is_none() && self.cost_per_minute.is_some()
    }
}

impl Models {
    fn check_embeddings(
        &self,
        embeddings: &Embeddings,
        origin: &dyn Fn(&str) -> String,
    ) -> Result<(), Error> {
        let Some(name) = embeddings.server() else {
            return Ok(());
        };
        let key = "memory.embeddings.provider";
        let Some(provider) = self.provider(name) else {
            return Err(Error::UnknownProvider {
                origin: format!("{}: {key}", origin(key)),
                name: crate::text::visible(&crate::text::shorten(name, 64)),
                known: self
                    .providers
                    .keys()
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(", "),
            });
        };
        match provider.kind {
            ProviderType::Openai | ProviderType::Gemini => Ok(()),
            ProviderType::Anthropic | ProviderType::Offline | ProviderType::Elevenlabs => {
                let message = format!(
                    "the provider `{name}` is of type `{}`, which has no embeddings: expected `local`, `none`, or a loaded provider \
                     of type `openai` or `gemini`",
                    provider.kind.as_str()
                );
                Err(Error::Value {
                    origin: origin(key),
                    key: key.to_owned(),
                    message,
                })
            }
        }
    }
}

fn place(provider: &Provider) -> String {
    provider.file.as_ref().map_or_else(
        || format!("the built-in provider `{}`", provider.name),
        |file| file.display().to_string(),
    )
}

#[cfg(test)]
mod tests;
