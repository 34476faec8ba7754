//! Merges the layers of settings, and records the origin of each value.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use super::auto_load;
use super::auto_load::Chosen;
use super::environment::Environment;
use super::error::Error;
use super::file_digests::FileDigests;
use super::home::Home;
use super::key_names;
use super::key_names::UnknownKey;
use super::provider_file;
use super::provider_file::Models;
use super::reach;
use super::secrets::{SecretOrigin, Secrets};
use super::toml_file::{TomlFile, decode_table};
use super::types::Config;
use super::validate;
use super::validate::{Note, Warning};
use super::vendors;
use super::vendors::KeyInUse;
use crate::sys::atomic;

/// Everything agent.toml, providers.d, the environment and the flags say.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// The models of the loaded providers.
    pub models: Models,
    /// The keys that do not have their built-in value, and where each came from.
    pub origins: BTreeMap<String, Origin>,
    /// What is probably a mistake.
    pub warnings: Vec<Warning>,
    /// What is set and has no effect in this build.
    pub notes: Vec<Note>,
    /// The keys of well-known vendors that are set, in the order in which they are looked at.
    pub keys: Vec<KeyInUse>,
    /// The settings files as they were when they were read.
    pub files: FileDigests,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It is built in.
    Default,
    /// A line of agent.toml.
    File {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
    },
    /// `agent-daemon login`, which stored something in this file.
    SignedIn(PathBuf),
    /// A vendor's key under this name, which is set in this place.
    Key(String, SecretOrigin),
    /// A variable.
    Environment(String),
    /// A systemd credential.
    Credential(String),
    /// A flag of the command line.
    Flag,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::SignedIn(path) => write!(f, "agent-daemon login ({})", path.display()),
            Self::Key(name, place) => write!(f, "{name} is set ({place})"),
            Self::Environment(name) => write!(f, "${name}"),
            Self::Credential(name) => write!(f, "credential {name}"),
            Self::Flag => f.write_str("flag"),
        }
    }
}

/// One line of `check --show-origin`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The path of the key.
    pub key: String,
    /// Its value as TOML, or `unset`.
    pub value: String,
    /// Where it came from.
    pub origin: Origin,
}

impl Loaded {
    /// Returns every key with its value and origin, in the order of agent.toml(5).
    pub fn settings(&self) -> Vec<Setting> {
        let value = serde_json::to_value(&self.config).unwrap_or_default();
        let setting = |(key, value): (String, Value)| {
            let origin = self.origin(&key);
            let value = if value.is_null() {
                "unset".to_owned()
            } else {
                value.to_string()
            };
            Setting { key, value, origin }
        };
        key_names::leaves(&value).into_iter().map(setting).collect()
    }

    /// Returns where the value of `key` came from.
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin::Default)
    }
}

/// Reads the settings and the provider files. `flags` are pairs of key and value, the value
/// written like a variable's.
///
/// # Errors
/// [`Error`] for anything the agent could not honestly start with, unknown keys among it.
pub fn load(home: &Home, env: &Environment, flags: &[(String, String)]) -> Result<Loaded, Error> {
    load_after(&FileDigests::default(), home, env, flags)
}

/// Does what [`load`] does where the settings of `running` are active: without a file that set anything then, the
/// built-in ones are nobody's wish. Editors, sync programs and a full disk leave such a moment.
///
/// # Errors
/// As [`load`]; [`Error::Emptied`] when agent.toml set something then and is missing or empty now.
pub fn load_after(
    running: &FileDigests,
    home: &Home,
    env: &Environment,
    flags: &[(String, String)],
) -> Result<Loaded, Error> {
    // Before they are read: what changes meanwhile is said to have changed.
    let mut files = FileDigests::of(home);
    let mut layers = layered(home, env, flags)?;
    if running.is_set && !layers.is_set {
        return Err(Error::Emptied(home.config_file().to_owned()));
    }
    files.is_set = layers.is_set;
    let is_named = layers.origins.contains_key(LOAD);
    let secrets = Secrets::lenient(home, env);
    if !is_named {
        let chosen = auto_load::choose(home, &secrets)?;
        layers.take_chosen(chosen);
    }
    let Layers {
        config,
        origins,
        mut warnings,
        mut unknown,
        ..
    } = layers;
    let origin = |key: &str| origin_text(&origins, key);
    let models = provider_file::load(home, &config, &origin, &mut unknown);
    if !unknown.is_empty() {
        return Err(Error::UnknownKeys(unknown));
    }
    validate::values(&config, &origin)?;
    reach::check_networks(&config, &origin)?;
    reach::check(&config, home.workspace(), &origin)?;
    let (models, of_models) = models?;
    let is_paid = models.all().any(|model| !model.is_free());
    // A file that is gone took its limits along.
    if is_paid && !files.is_set && !config.cost.capped() {
        warnings.push(Warning {
            origin: home.config_file().display().to_string(),
            key: "cost.day_usd".to_owned(),
            message: "is not set, because this file is missing or empty: nothing limits what models cost; \
                      write `day_usd = 5.0` below [cost] (where there is no file, `agent-daemon init` makes it so)"
                .to_owned(),
        });
    }
    warnings.extend(validate::warnings(&config, is_paid, &origin));
    warnings.extend(of_models);
    let notes = validate::notes(&config);
    let keys = vendors::keys(&models, &secrets);
    Ok(Loaded {
        config,
        models,
        origins,
        warnings,
        notes,
        keys,
        files,
    })
}

/// Reads the settings without the provider files: what queries need (time zone, caps), and what
/// they can still have when a provider file is broken.
///
/// # Errors
/// As [`load`], without those of providers.
pub fn load_config(home: &Home, env: &Environment) -> Result<Config, Error> {
    let layers = layered(home, env, &[])?;
    if !layers.unknown.is_empty() {
        return Err(Error::UnknownKeys(layers.unknown));
    }
    validate::values(&layers.config, &|key| origin_text(&layers.origins, key))?;
    Ok(layers.config)
}

/// Returns the names of the providers that a start would load, and the reason.
///
/// # Errors
/// As [`load`], without those of providers.
pub fn providers_wanted(home: &Home, env: &Environment) -> Result<(Vec<String>, Origin), Error> {
    let mut layers = layered(home, env, &[])?;
    if !layers.origins.contains_key(LOAD) {
        layers.take_chosen(auto_load::choose(home, &Secrets::lenient(home, env))?);
    }
    let origin = layers.origins.get(LOAD).cloned().unwrap_or(Origin::Default);
    Ok((layers.config.providers.load, origin))
}

pub(super) const LOAD: &str = "providers.load";
const SPEECH: &str = "speech_to_text";

/// Returns where a key is; of a table, where one of its keys is.
fn origin_text(origins: &BTreeMap<String, Origin>, key: &str) -> String {
    let below = format!("{key}.");
    let within = || {
        let (path, origin) = origins.range(below.clone()..).next()?;
        path.starts_with(&below).then_some(origin)
    };
    let origin = origins.get(key).or_else(within);
    origin.unwrap_or(&Origin::Default).to_string()
}

struct Layers {
    config: Config,
    /// Whether agent.toml sets anything.
    is_set: bool,
    table: toml::Table,
    origins: BTreeMap<String, Origin>,
    warnings: Vec<Warning>,
    unknown: Vec<UnknownKey>,
}

fn layered(home: &Home, env: &Environment, flags: &[(String, String)]) -> Result<Layers, Error> {
    let mut layers = Layers {
        config: Config::default(),
        is_set: false,
        table: toml::Table::new(),
        origins: BTreeMap::new(),
        warnings: Vec::new(),
        unknown: Vec::new(),
    };
    match TomlFile::read(home.config_file())? {
        Some(file) => {
            layers.is_set = !file.table().is_empty();
            layers.add_file(home, &file)?;
        }
        // Built-in settings have no cap: a slip in --config must not lead to them.
        None if home.config_is_named() => {
            let missing =
                std::io::Error::new(std::io::ErrorKind::NotFound, "there is no such file");
            return Err(Error::io("read", home.config_file())(missing));
        }
        None => {}
    }
    for (name, value) in env.with_prefix("AGENT_") {
        let value = value.to_string_lossy();
        layers.add_variable(name, &value, &Origin::Environment(name.to_owned()))?;
    }
    for (name, value) in credentials(home)? {
        layers.add_variable(&name, &value, &Origin::Credential(name.clone()))?;
    }
    for (key, value) in flags {
        layers.add_text(key, value, &Origin::Flag)?;
    }
    // Every layer was decoded alone, so their sum decodes too; an error here is still an error.
    let failed = |message: String| Error::value("settings".to_owned(), "", &message);
    (layers.config, _) = decode_table(&layers.table).map_err(failed)?;
    let bad_links = validate::drop_bad_links(&mut layers.config.session, &|key| {
        origin_text(&layers.origins, key)
    });
    layers.warnings.extend(bad_links);
    let roles = validate::unknown_roles(&layers.config, &|key| origin_text(&layers.origins, key));
    layers.unknown.extend(roles);
    Ok(layers)
}

/// The credentials that are settings, by name.
fn credentials(home: &Home) -> Result<Vec<(String, String)>, Error> {
    let Some(dir) = home.credentials_dir() else {
        return Ok(Vec::new());
    };
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::io("list", dir))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry
            .map_err(Error::io("list", dir))?
            .file_name()
            .to_string_lossy()
            .into_owned();
        if name.starts_with("AGENT_") && name.contains("__") {
            let path = dir.join(&name);
            let value = atomic::open(&path).and_then(std::io::read_to_string);
            let value = value.map_err(Error::io("read", &path))?;
            found.push((name, value.trim_end_matches(['\n', '\r']).to_owned()));
        }
    }
    found.sort();
    Ok(found)
}

impl Layers {
    /// Activates what a home loads by itself, and lets the model listen that came with it.
    fn take_chosen(&mut self, chosen: Chosen) {
        self.warnings.extend(chosen.warnings);
        if let Some((names, origin)) = chosen.load {
            self.config.providers.load = names;
            self.origins.insert(LOAD.to_owned(), origin);
        }
        if let (Some((model, origin)), None) = (chosen.speech, self.config.routing.get(SPEECH)) {
            self.config.routing.insert(SPEECH.to_owned(), model);
            self.origins
                .insert(key_names::join("routing", SPEECH), origin);
        }
    }

    fn add_file(&mut self, home: &Home, file: &TomlFile) -> Result<(), Error> {
        let (_, unknown): (Config, _) = file.decode()?;
        self.unknown.extend(file.unknown(&unknown, key_names::all));
        let json = serde_json::to_value(file.table()).unwrap_or_default();
        for (key, _) in key_names::leaves(&json) {
            let line = file.line(&key).unwrap_or(1);
            self.origins.insert(
                key,
                Origin::File {
                    path: home.config_file().to_owned(),
                    line,
                },
            );
        }
        for key in unknown {
            self.origins
                .retain(|name, _| name != &key && !name.starts_with(&format!("{key}.")));
        }
        merge(&mut self.table, file.table().clone());
        Ok(())
    }

    /// `AGENT_TELEGRAM__API_URL` is `telegram.api_url`. Without `__` it is not a setting
    /// (`AGENT_HOME`, `AGENT_HTTP_TOKEN`, other people's variables).
    fn add_variable(&mut self, name: &str, value: &str, origin: &Origin) -> Result<(), Error> {
        let key = name.strip_prefix("AGENT_").unwrap_or(name).to_lowercase();
        if key.contains("__") {
            return self.add_text(&key.replace("__", "."), value, origin);
        }
        let is_meant = |known: &String| known.replace('.', "_") == key;
        let message = if key_names::sections().contains(&key) {
            format!("is a table and not a setting; a setting is `{name}__…`")
        } else if key.contains('_')
            && let Some(meant) = key_names::all().into_iter().find(is_meant)
        {
            let meant = meant.replace('.', "__").to_uppercase();
            format!("is not a setting; with two underscores it is: `AGENT_{meant}`")
        } else {
            return Ok(());
        };
        self.warnings.push(Warning {
            origin: origin.to_string(),
            key,
            message,
        });
        Ok(())
    }

    fn add_text(&mut self, key: &str, value: &str, origin: &Origin) -> Result<(), Error> {
        match typed(key, value) {
            Typed::Known(layer) => {
                self.origins.insert(key.to_owned(), origin.clone());
                merge(&mut self.table, layer);
                Ok(())
            }
            Typed::Unknown => {
                let known = key_names::all();
                self.unknown
                    .push(UnknownKey::new(origin.to_string(), key, false, &known));
                Ok(())
            }
            Typed::Wrong(message) => Err(Error::value(origin.to_string(), key, &message)),
        }
    }
}

enum Typed {
    /// A table with this one leaf.
    Known(toml::Table),
    /// No type has such a key.
    Unknown,
    /// No reading of the text has the key's type.
    Wrong(String),
}

/// Reads `text` as TOML if that has the type of `key`, else as a string, else as a list of what
/// the commas separate (`1001,1002`; `mock,offline`).
fn typed(key: &str, text: &str) -> Typed {
    let literal = |text: &str| text.trim().parse::<toml::Value>().ok();
    let items = || {
        text.split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
    };
    let readings = [
        literal(text),
        Some(toml::Value::String(text.to_owned())),
        literal(&format!("[{text}]")),
        Some(toml::Value::Array(
            items()
                .map(|item| toml::Value::String(item.to_owned()))
                .collect(),
        )),
    ];
    let mut wrong = None;
    for value in readings.into_iter().flatten() {
        let layer = one_leaf(key, value);
        match decode_table::<Config>(&layer) {
            Ok((_, unknown)) if unknown.is_empty() => return Typed::Known(layer),
            Ok(_) => return Typed::Unknown,
            Err(message) => wrong.get_or_insert(message),
        };
    }
    Typed::Wrong(wrong.unwrap_or_default())
}

fn one_leaf(key: &str, value: toml::Value) -> toml::Table {
    let (table, rest) = match key.split_once('.') {
        Some((table, rest)) => (table, toml::Value::Table(one_leaf(rest, value))),
        None => (key, value),
    };
    toml::Table::from_iter([(table.to_owned(), rest)])
}

/// Lays `upper` over `lower`: tables join, anything else is replaced.
fn merge(lower: &mut toml::Table, upper: toml::Table) {
    for (key, value) in upper {
        match (lower.get_mut(&key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) => merge(below, above),
            (_, value) => {
                lower.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests;
