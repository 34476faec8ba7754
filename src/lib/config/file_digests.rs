//! Detects whether a settings file has changed since it was read.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::home::Home;
use crate::sys::atomic;
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
    /// SHA-256 of `.env`, in the memory of who read it alone.
    #[serde(skip)]
    env: Option<String>,
    /// Whether the main one sets anything, where it was read.
    #[serde(skip)]
    pub(super) is_set: bool,
}

impl FileDigests {
    /// Returns those of the files that are there now and can be read.
    pub fn of(home: &Home) -> Self {
        let main = home.config_file();
        let main = std::path::absolute(main).unwrap_or_else(|_| main.to_owned());
        Self {
            env: sha256(&home.env_file()),
            ..Self::with(main, home)
        }
    }

    fn with(main: PathBuf, home: &Home) -> Self {
        let mut files = sha256_of(&main, home);
        if let Some(stamp) = stamp(home) {
            files.insert(name(&home.env_file()), stamp);
        }
        Self {
            main,
            files,
            env: None,
            is_set: false,
        }
    }

    /// Takes the time of `.env` as it is now, when it was written again with the same content.
    pub fn renew(&mut self, home: &Home) {
        let (name, now) = (name(&home.env_file()), stamp(home));
        if now.as_ref() == self.files.get(&name) || self.env.is_none() {
            return;
        }
        if let Some(now) = now
            && sha256(&home.env_file()) == self.env
        {
            self.files.insert(name, now);
        }
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
    paths
        .filter_map(|path| Some((name(&path), sha256(&path)?)))
        .collect()
}

/// Of a file only: who reads a FIFO may wait forever.
fn sha256(path: &Path) -> Option<String> {
    Some(sha256_hex(&atomic::read(path).ok()??))
}

/// Returns the time and the size of `.env`.
fn stamp(home: &Home) -> Option<String> {
    let file = std::fs::metadata(home.env_file()).ok()?;
    Some(format!(
        "{}.{:09} {}",
        file.mtime(),
        file.mtime_nsec(),
        file.len()
    ))
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_env_file_that_is_written_again_as_it_was_has_not_changed_and_no_digest_of_it_is_stored() {
        let dir = tempfile::tempdir().expect("dir");
        let home = Home::at(dir.path());
        let put = |text: &[u8], at: u64| {
            atomic::write(&home.env_file(), text, atomic::Durability::Rename).expect("write");
            let file = std::fs::File::options().append(true).open(home.env_file());
            let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(at);
            file.and_then(|file| file.set_modified(at))
                .expect("own file");
        };
        put(b"KEY=a\n", 1);
        let mut digests = FileDigests::of(&home);
        put(b"KEY=a\n", 2);
        assert_eq!(digests.changed(&home), [".env"], "by its time");
        digests.renew(&home);
        assert_eq!(digests.changed(&home), [] as [&str; 0]);
        put(b"KEY=b\n", 3);
        digests.renew(&home);
        assert_eq!(digests.changed(&home), [".env"]);
        let stored = serde_json::to_string(&digests).expect("plain data");
        assert!(!stored.contains(&sha256_hex(b"KEY=a\n")), "{stored}");
        let mut read: FileDigests = serde_json::from_str(&stored).expect("as it was");
        read.renew(&home);
        assert_eq!(read.changed(&home), [".env"]);
    }
}
