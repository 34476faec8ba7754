//! A temporary directory for the work of one program, deleted with its content when it is dropped.

use std::fs::DirBuilder;
use std::io::{ErrorKind, Result};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The directory; removed when this is dropped, which blocks.
#[derive(Debug)]
pub struct ScratchDir(PathBuf);

impl ScratchDir {
    /// Makes `parent/NAME-ID`, mode 0700, and what is missing above it. Blocking.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make(parent: &Path, name: &str) -> Result<Self> {
        let dir = parent.join(format!("{name}-{}", uuid::Uuid::new_v4().simple()));
        DirBuilder::new().mode(0o700).recursive(true).create(&dir)?;
        Ok(Self(dir))
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        match std::fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!(%error, "could not remove scratch directory {}", self.0.display());
            }
            Ok(()) | Err(_) => {}
        }
    }
}
