//! Text files for the prompt, read again only when they have changed: for an unchanged file a turn costs one lstat(2).

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::OFlag;

use crate::sandbox::{BeneathError, Root};
use crate::sys::Version;
use crate::text;

/// Characters of a file that go into a prompt; of a longer one the first 70 % and the last 20 %
/// (SPEC.md §9).
pub(crate) const MAX_CHARS: usize = 20_000;

/// Nothing longer is read: a log copied to MEMORY.md must not fill the memory of the daemon. 50
/// times what is used of it.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// What was read of files, by their paths.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    cache: Mutex<HashMap<PathBuf, Cached>>,
}

#[derive(Debug, Clone)]
struct Cached {
    version: Version,
    text: Option<Arc<str>>,
}

impl Texts {
    /// Returns the text of a file, at most [`MAX_CHARS`] characters and a marker; `None` when there is no
    /// file or nothing in it.
    pub(crate) fn of_file(&self, path: &Path) -> Result<Option<Arc<str>>> {
        // lstat, O_NOFOLLOW: a link could lead out of the workspace.
        self.cached(path, std::fs::symlink_metadata(path), || {
            open(path, OFlag::O_NOFOLLOW)
        })
    }

    /// As [`Texts::of_file`], for a file that its owner may have linked from elsewhere.
    pub(crate) fn of_own(&self, path: &Path) -> Result<Option<Arc<str>>> {
        self.cached(path, std::fs::metadata(path), || open(path, OFlag::empty()))
    }

    /// As [`Texts::of_file`], for a file that must lie beneath `root`, whatever links lead there.
    pub(crate) fn beneath(&self, root: &Root, path: &Path) -> Result<Option<Arc<str>>> {
        let metadata = root.metadata(path).map_err(|error| match error {
            BeneathError::NotFound(_) | BeneathError::NotDirectory(_) => {
                Error::new(ErrorKind::NotFound, error)
            }
            error => Error::other(error),
        });
        self.cached(path, metadata, || {
            Ok((root.read(path, MAX_BYTES).map_err(Error::other)?, None))
        })
    }

    /// Reads when the version is another one.
    fn cached(
        &self,
        path: &Path,
        metadata: Result<Metadata>,
        read: impl FnOnce() -> Result<(Vec<u8>, Option<Metadata>)>,
    ) -> Result<Option<Arc<str>>> {
        let metadata = match metadata {
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            metadata => metadata?,
        };
        let mut cache = self.cache.lock();
        if let Some(cached) = cache
            .get(path)
            .filter(|cached| cached.version == Version::of(&metadata))
        {
            return Ok(cached.text.clone());
        }
        // What changes from here on has another version than the one that is kept.
        let (bytes, opened) = read()?;
        let text = prompt_text(&bytes);
        let version = Version::of(&opened.unwrap_or(metadata));
        cache.insert(
            path.to_owned(),
            Cached {
                version,
                text: text.clone(),
            },
        );
        Ok(text)
    }
}

fn open(path: &Path, links: OFlag) -> Result<(Vec<u8>, Option<Metadata>)> {
    // O_NONBLOCK: a FIFO must not hold us.
    let flags = links | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file: File = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok((bytes, Some(metadata)))
}

fn prompt_text(bytes: &[u8]) -> Option<Arc<str>> {
    let whole = String::from_utf8_lossy(bytes);
    let used = whole.trim_start_matches('\u{feff}').trim();
    (!used.is_empty()).then(|| text::head_and_tail(used, MAX_CHARS, 70).into())
}
