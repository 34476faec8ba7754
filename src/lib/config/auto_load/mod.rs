//! Which providers a home loads whose settings do not say: those that `agent-daemon login` was told of.
//! A file in `providers.d` alone loads nothing: it may be a draft, and a start must not begin to pay a
//! vendor that nobody chose. Of `state/auth.json` only the names are read here.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::error::Error;
use super::home::Home;
use super::load::LOAD;
use super::provider_file;
use super::validate::Warning;

/// What a home loads by itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chosen {
    /// The providers; empty when nothing is to be loaded.
    pub(super) names: Vec<String>,
    /// Who was left out, and why.
    pub(super) warnings: Vec<Warning>,
}

/// Returns the providers that have both an entry in auth.json and a file, the one that was first there
/// first: what worked goes on working. One that defines a model which an earlier one has is left out;
/// without a model `primary` nothing is loaded. Broken files stay in: who loads them says what is wrong.
///
/// # Errors
/// [`Error::Io`] when auth.json is there and cannot be read.
pub(super) fn choose(home: &Home) -> Result<Chosen, Error> {
    let path = home.auth();
    let mut chosen = Chosen::default();
    let mut warn = |message: String| {
        chosen.warnings.push(Warning {
            origin: path.display().to_string(),
            key: LOAD.to_owned(),
            message,
        });
    };
    let names = match names(&path)? {
        Some(names) => names,
        None => {
            warn("is not set, and this file, which says who is signed in, makes no sense: no provider is loaded".to_owned());
            Vec::new()
        }
    };
    let (mut taken, mut models, mut broken) = (Vec::new(), BTreeSet::new(), false);
    for name in names {
        let own = match provider_file::models_of(home, &name) {
            Ok(Some(own)) => own,
            Ok(None) => continue,
            Err(_) => {
                broken = true;
                taken.push(name);
                continue;
            }
        };
        if let Some(twice) = own.iter().find(|model| models.contains(*model)) {
            warn(format!(
                "is not set, and `{name}` is left out: its model `{twice}` has the name of another's; rename it in \
                 providers.d/{name}.toml, or say load = [\"{name}\"] in [providers]"
            ));
            continue;
        }
        models.extend(own);
        taken.push(name);
    }
    if !taken.is_empty() && !broken && !models.contains("primary") {
        warn(format!(
            "is not set, and {} is left out: no model there is called `primary`; add [models.primary] to \
             providers.d/{}.toml",
            taken.join(", "),
            taken.first().map_or("NAME", String::as_str)
        ));
        taken.clear();
    }
    chosen.names = taken;
    Ok(chosen)
}

/// Returns the names in auth.json in the order in which they came there; `None` when it makes no sense.
fn names(path: &Path) -> Result<Option<Vec<String>>, Error> {
    // A FIFO in its place must not hold us.
    if !path.is_file() {
        return Ok(Some(Vec::new()));
    }
    let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
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
                .filter(|(_, entry)| !entry["api_key"].is_null() || !entry["oauth"].is_null());
            Some(stored.map(|(name, _)| name.clone()).collect())
        }
        Some(_) => None,
    })
}

#[cfg(test)]
mod tests;
