//! What tells whether a settings file is still the one that was read.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::home::Home;
use crate::text::sha256_hex;

/// The settings files that are there, by name, each as it was: SHA-256 of agent.toml and the provider files (what
/// `sha256sum` says), time and size of `.env`, whose words nobody is to guess from it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileDigests(BTreeMap<String, String>);

impl FileDigests {
    /// Returns those of the files that are there now and can be read.
    pub fn of(home: &Home) -> Self {
        let mut digests = Self::without_secrets(home);
        if let Ok(file) = std::fs::metadata(home.env_file()) {
            let stamp = format!("{}.{:09} {}", file.mtime(), file.mtime_nsec(), file.len());
            digests.0.insert(name(&home.env_file()), stamp);
        }
        digests
    }

    /// Returns those of agent.toml and the provider files.
    pub fn without_secrets(home: &Home) -> Self {
        let providers = std::fs::read_dir(home.providers_dir())
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "toml"));
        let paths = std::iter::once(home.config_file().to_owned()).chain(providers);
        let digest = |path: &Path| Some(sha256_hex(&std::fs::read(path).ok()?));
        let digests = paths.filter_map(|path| Some((name(&path), digest(&path)?)));
        Self(digests.collect())
    }

    /// Returns the names of the files that are not as they were when these were taken: changed, new, or gone.
    pub fn changed(&self, home: &Home) -> Vec<String> {
        let now = Self::of(home);
        let names = self.0.keys().chain(now.0.keys());
        let mut changed: Vec<String> = names
            .filter(|name| self.0.get(*name) != now.0.get(*name))
            .cloned()
            .collect();
        changed.sort();
        changed.dedup();
        changed
    }
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
