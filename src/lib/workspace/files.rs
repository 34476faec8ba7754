//! The convention files, as they go into the prompt.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use nix::fcntl::OFlag;

use crate::text;

/// Characters of a file that go into a prompt; of a longer one the first 70 % and the last 20 %
/// (SPEC.md §9).
pub const MAX_CHARS: usize = 20_000;

const STABLE: [&str; 5] = ["SOUL.md", "IDENTITY.md", "AGENTS.md", "USER.md", "TOOLS.md"];
const SEMI_STABLE: [&str; 1] = ["MEMORY.md"];
const OPERATIONAL: [&str; 3] = ["SOUL.md", "AGENTS.md", "HEARTBEAT.md"];

/// Nothing longer is read: a log copied to MEMORY.md must not fill the memory of the daemon. 50
/// times what is used of it.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// A file as it goes into the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConventionFile {
    /// Its name.
    pub name: &'static str,
    /// Its text, at most [`MAX_CHARS`] characters and a marker; never blank.
    pub text: Arc<str>,
}

/// Reads the convention files of one workspace, again only when they changed.
#[derive(Debug)]
pub struct ConventionFiles {
    dir: PathBuf,
    cache: Mutex<HashMap<&'static str, Cached>>,
}

#[derive(Debug, Clone)]
struct Cached {
    version: Version,
    text: Option<Arc<str>>,
}

/// What changes when a file does: time of modification in nanoseconds, size, inode.
type Version = (i64, i64, u64, u64);

impl ConventionFiles {
    /// Returns the files of the workspace `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), cache: Mutex::default() }
    }

    /// Returns SOUL, IDENTITY, AGENTS, USER, TOOLS, those that exist and are not blank.
    pub fn stable(&self) -> Vec<ConventionFile> {
        self.read(&STABLE)
    }

    /// Returns MEMORY, if it exists and is not blank. It is the owner's: not for other people's
    /// turns.
    pub fn semi_stable(&self) -> Vec<ConventionFile> {
        self.read(&SEMI_STABLE)
    }

    /// Returns SOUL, AGENTS, HEARTBEAT, those that exist and are not blank.
    pub fn operational(&self) -> Vec<ConventionFile> {
        self.read(&OPERATIONAL)
    }

    /// A file that cannot be read is logged and left out; the others are not affected.
    fn read(&self, names: &[&'static str]) -> Vec<ConventionFile> {
        let text_of = |name: &'static str| match self.text(name) {
            Ok(text) => Some(ConventionFile { name, text: text? }),
            Err(error) => {
                tracing::warn!(file = name, %error, "a workspace file is left out of the prompt");
                None
            }
        };
        names.iter().copied().filter_map(text_of).collect()
    }

    fn text(&self, name: &'static str) -> std::io::Result<Option<Arc<str>>> {
        let path = self.dir.join(name);
        // lstat: as long as the version is the known one, the file is not opened.
        let metadata = match std::fs::symlink_metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            metadata => metadata?,
        };
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = cache.get(name).filter(|cached| cached.version == version(&metadata)) {
            return Ok(cached.text.clone());
        }
        // O_NOFOLLOW: a link could lead out of the workspace. O_NONBLOCK: a FIFO must not hold us.
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(&path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(std::io::Error::other("it is not a regular file"));
        }
        let text = prompt_text(file)?;
        cache.insert(name, Cached { version: version(&metadata), text: text.clone() });
        Ok(text)
    }
}

fn version(metadata: &Metadata) -> Version {
    (metadata.mtime(), metadata.mtime_nsec(), metadata.size(), metadata.ino())
}

fn prompt_text(file: File) -> std::io::Result<Option<Arc<str>>> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    let whole = String::from_utf8_lossy(&bytes);
    let used = whole.trim_start_matches('\u{feff}').trim();
    Ok((!used.is_empty()).then(|| text::head_and_tail(used, MAX_CHARS, 70).into()))
}
