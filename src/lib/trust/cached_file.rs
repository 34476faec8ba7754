//! A JSON file that is read again only when it has changed. While it is unreadable its content is unknown, so it is neither
//! moved aside nor overwritten.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use crate::sys::{Version, atomic};

/// The file in the hands of one process.
#[derive(Debug)]
pub(super) struct CachedFile<T> {
    path: PathBuf,
    cached: Mutex<Option<(Version, Option<Arc<T>>)>>,
}

impl<T: Default + DeserializeOwned> CachedFile<T> {
    /// Returns the one at `path`, which need not exist.
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            cached: Mutex::default(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the contents; `None` when the file cannot be read.
    pub(super) fn read(&self) -> Option<Arc<T>> {
        let version = match std::fs::metadata(&self.path) {
            Ok(metadata) => Version::of(&metadata),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Some(Arc::default());
            }
            Err(_) => return None,
        };
        let mut cached = self.cached.lock();
        if let Some((_, contents)) = cached.as_ref().filter(|(seen, _)| *seen == version) {
            return contents.clone();
        }
        let contents = self.load().map(Arc::new);
        if let Err(error) = &contents {
            tracing::error!(%error, "{} is unreadable; all workspace files are treated as untrusted; repair or delete it", self.path.display());
        }
        cached.insert((version, contents.ok())).1.clone()
    }

    /// Reads the file again, past the cache.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub(super) fn load(&self) -> std::io::Result<T> {
        match atomic::read(&self.path) {
            Ok(None) => Ok(T::default()),
            Ok(Some(bytes)) => serde_json::from_slice(&bytes).map_err(std::io::Error::from),
            Err(error) => Err(std::io::Error::other(error)),
        }
    }
}
