//! The providers that a home loads without `load` in its settings: those with credentials from `agent-daemon login`, else
//! the first vendor whose key is set. A file in `providers.d` alone loads nothing: it may be a draft, and a start must not
//! begin to pay a vendor that nobody chose. Of `state/auth.json` only the names are read here.

use std::path::Path;

use serde_json::Value;

use super::error::Error;
use super::home::Home;
use super::load::{LOAD, Origin};
use super::provider_file;
use super::secrets::{SecretOrigin, Secrets};
use super::validate::Warning;
use super::vendors::{VENDORS, Vendor};
use crate::sys::atomic;

/// What a home loads by itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chosen {
    /// The providers, and why; `None` when nothing is to be loaded.
    pub(super) load: Option<(Vec<String>, Origin)>,
    /// The model that puts recordings into words, and why.
    pub(super) speech: Option<(String, Origin)>,
    /// Who was left out, and why.
    pub(super) warnings: Vec<Warning>,
}

/// The provider whose key also pays for speech to text, and what its model for that is called.
const LISTENER: (&str, &str) = ("openai", "whisper");

/// Returns the providers with an entry in auth.json, oldest entry first, so that a working setup keeps
/// working. Without an entry it is the first vendor whose key is set. OpenAI's key also enables its transcription model.
/// Without a model `primary` nothing is loaded. Broken files are included: the loader reports what is wrong with them.
///
/// # Errors
/// [`Error::Io`] when auth.json is there and cannot be read.
pub(super) fn choose(home: &Home, secrets: &Secrets) -> Result<Chosen, Error> {
    let path = home.auth();
    let mut chosen = Chosen::default();
    let mut warn = |message: String| {
        chosen.warnings.push(Warning {
            origin: path.display().to_string(),
            key: LOAD.to_owned(),
            message,
        });
    };
    let stored = match home.config_file().exists() {
        true => names(&path)?,
        // Without settings only environment keys count, not an auth.json that happens to be there.
        false => Some(Vec::new()),
    };
    let names = stored.unwrap_or_else(|| {
        warn("is not set, and this file, which lists the signed-in providers, is malformed: no provider in it is loaded".to_owned());
        Vec::new()
    });
    let mut signed_in: Vec<String> = names
        .into_iter()
        .filter(|name| is_known(home, name))
        .collect();
    if !signed_in.is_empty() && !has_primary(home, &signed_in) {
        warn(format!(
            "is not set, and {} is left out: no model there is called `primary`; add [models.primary] to \
             providers.d/{}.toml",
            signed_in.join(", "),
            signed_in.first().map_or("NAME", String::as_str)
        ));
        signed_in.clear();
    }
    let keyed: Vec<(&str, Origin)> = VENDORS
        .iter()
        .filter_map(|vendor| key(home, secrets, vendor))
        .collect();
    let first = keyed
        .iter()
        .find(|(name, _)| has_primary(home, &[(*name).to_owned()]));
    chosen.load = match (signed_in.is_empty(), first) {
        (false, _) => Some((signed_in, Origin::SignedIn(path))),
        (true, Some((name, origin))) => Some((vec![(*name).to_owned()], origin.clone())),
        (true, None) => None,
    };
    if let Some((names, origin)) = &mut chosen.load {
        let of_key = keyed.into_iter().find(|(name, _)| *name == LISTENER.0);
        let is_loaded = names.iter().any(|name| name == LISTENER.0);
        let why = of_key
            .map(|(_, origin)| origin)
            .or_else(|| is_loaded.then(|| origin.clone()));
        if let Some(why) = why.filter(|_| listens(home)) {
            if !is_loaded {
                names.push(LISTENER.0.to_owned());
            }
            chosen.speech = Some((LISTENER.1.to_owned(), why));
        }
    }
    Ok(chosen)
}

/// Returns the vendor's name when its key is set, under the name that its provider file gives it, and where.
fn key(home: &Home, secrets: &Secrets, vendor: &Vendor) -> Option<(&'static str, Origin)> {
    let provider = provider_file::provider(home, vendor.name).ok().flatten();
    let variable = match provider {
        Some(provider) => provider.api_key_env.clone()?,
        // Its file is broken.
        None => vendor.variable.to_owned(),
    };
    let (_, place): (_, SecretOrigin) = secrets.find(&variable).ok().flatten()?;
    Some((vendor.name, Origin::Key(variable, place)))
}

fn is_known(home: &Home, name: &str) -> bool {
    !matches!(provider_file::models_of(home, name), Ok(None))
}

/// Returns whether one of these providers has a model `primary`, or is broken, so that nobody can tell.
fn has_primary(home: &Home, names: &[String]) -> bool {
    names
        .iter()
        .any(|name| match provider_file::models_of(home, name) {
            Ok(models) => models.iter().flatten().any(|model| model == "primary"),
            Err(_) => true,
        })
}

fn listens(home: &Home) -> bool {
    let models = provider_file::models_of(home, LISTENER.0).ok().flatten();
    models.iter().flatten().any(|model| model == LISTENER.1)
}

/// Returns the names in auth.json in the order in which they came there; `None` when it makes no sense.
fn names(path: &Path) -> Result<Option<Vec<String>>, Error> {
    // A FIFO in its place must not hold us.
    if !path.is_file() {
        return Ok(Some(Vec::new()));
    }
    let bytes = atomic::read(path).map_err(|error| Error::io("read", path)(error.source))?;
    let bytes = bytes.unwrap_or_default();
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Some(Vec::new()));
    }
    let Ok(Value::Object(root)) = serde_json::from_slice(&bytes) else {
        return Ok(None);
    };
    Ok(match root.get("providers") {
        None => Some(Vec::new()),
        Some(Value::Object(entries)) => {
            let stored = entries
                .iter()
                .filter(|(_, entry)| is_usable(&entry["api_key"]) || !entry["oauth"].is_null());
            Some(stored.map(|(name, _)| name.clone()).collect())
        }
        Some(_) => None,
    })
}

/// An agent that works must not be switched over to a key that nobody could try.
fn is_usable(key: &Value) -> bool {
    !key.is_null() && key["unverified"] != true
}

#[cfg(test)]
mod tests;
