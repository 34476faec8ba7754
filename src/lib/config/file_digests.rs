//! What tells whether a settings file is still the one that was read.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::home::Home;
use crate::text::sha256_hex;

/// The settings files, each as it was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileDigests {
    /// Where the main one is: agent.toml, or what `--config` named.
    main: PathBuf,
    /// By name those that are there: SHA-256 of the main one and the provider files, time and size of `.env`, so that
    /// nobody can guess its keys from it.
    files: BTreeMap<String, String>,
}

impl FileDigests {
    /// Returns those of the files that are there now and can be read.
    pub fn of(home: &Home) -> Self {
        let main = home.config_file();
        let main = std::path::absolute(main).unwrap_or_else(|_| main.to_owned());
        Self::with(main, home)
    }

    fn with(main: PathBuf, home: &Home) -> Self {
        let mut files = sha256_of(&main, home);
        if let Ok(file) = std::fs::metadata(home.env_file()) {
            let stamp = format!("{}.{:09} {}", file.mtime(), file.mtime_nsec(), file.len());
            files.insert(name(&home.env_file()), stamp);
        }
        Self { main, files }
    }

    /// Returns the names of the files that are not as they were when these were taken: changed, new, or gone.
    pub fn changed(&self, home: &Home) -> Vec<String> {
        let now = Self::with(self.main.clone(), home);
        let names = self.files.keys().chain(now.files.keys());
        let mut changed: Vec<String> = names
            .filter(|name| self.files.get(*name) != now.files.get(*name))
            .cloned()
            .collect();
        changed.sort();
        changed.dedup();
        changed
    }
}

/// Returns the SHA-256 of agent.toml and of each provider file that can be read, by its name: what `sha256sum` says of it.
pub fn settings_files(home: &Home) -> BTreeMap<String, String> {
    sha256_of(home.config_file(), home)
}

fn sha256_of(main: &Path, home: &Home) -> BTreeMap<String, String> {
    let providers = std::fs::read_dir(home.providers_dir())
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "toml"));
    let paths = std::iter::once(main.to_owned()).chain(providers);
    let digest = |path: &Path| Some(sha256_hex(&std::fs::read(path).ok()?));
    paths
        .filter_map(|path| Some((name(&path), digest(&path)?)))
        .collect()
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
