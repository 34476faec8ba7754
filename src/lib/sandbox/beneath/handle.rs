//! What a path leads to, held without being opened: what it is and where it really is are known before a
//! byte is read, and a FIFO or a device is never opened at all.

use std::fs::{File, Metadata};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use super::{BeneathError, Entry, Kind, Root, by_descriptor};

/// What a path leads to, whatever it is.
#[derive(Debug)]
pub struct Found {
    given: PathBuf,
    fd: OwnedFd,
    real: PathBuf,
    /// What is known about it.
    pub metadata: Metadata,
}

impl Root {
    /// Returns what `path` leads to; symlinks are followed while they stay inside.
    ///
    /// # Errors
    /// When nothing is there or it leads outside.
    pub fn find(&self, path: &Path) -> Result<Found, BeneathError> {
        let file = File::from(self.resolve(path, OFlag::O_PATH)?);
        let metadata = file.metadata().map_err(|source| BeneathError::Io {
            path: path.to_owned(),
            source,
        })?;
        if metadata.nlink() == 0 {
            // It has no place any more by which rules could speak of it.
            return Err(BeneathError::NotFound(path.to_owned()));
        }
        let fd = OwnedFd::from(file);
        let real = self.real_of(&fd, path)?;
        Ok(Found {
            given: path.to_owned(),
            fd,
            real,
            metadata,
        })
    }
}

impl Found {
    /// Returns where it really is, relative to the root and without symlinks.
    pub fn real(&self) -> &Path {
        &self.real
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// When it is something else, or may not be read.
    pub fn open(&self) -> Result<File, BeneathError> {
        match () {
            () if self.metadata.is_dir() => Err(BeneathError::IsDirectory(self.given.clone())),
            () if !self.metadata.is_file() => Err(BeneathError::NotRegular(self.given.clone())),
            () => self.again(),
        }
    }

    /// Returns what a directory holds, sorted by name, with the sizes of its files; when there is more, any
    /// `max` entries of it and true.
    ///
    /// # Errors
    /// When it is no directory or may not be read.
    pub fn list(&self, max: usize) -> Result<(Vec<(Entry, u64)>, bool), BeneathError> {
        let io = |source| BeneathError::Io {
            path: self.given.clone(),
            source,
        };
        let mut names = std::fs::read_dir(by_descriptor(&self.fd)).map_err(io)?;
        let mut entries = Vec::new();
        for entry in names.by_ref().take(max) {
            let entry = entry.map_err(io)?;
            let kind = entry.file_type().map_or(Kind::Other, Kind::of);
            // It may be gone by now.
            let size = entry.metadata().map_or(0, |metadata| metadata.len());
            entries.push((
                Entry {
                    name: entry.file_name().to_string_lossy().into_owned(),
                    kind,
                },
                size,
            ));
        }
        entries.sort_by(|a, b| a.0.name.cmp(&b.0.name));
        Ok((entries, names.next().is_some()))
    }

    fn again(&self) -> Result<File, BeneathError> {
        File::open(by_descriptor(&self.fd)).map_err(|source| BeneathError::Io {
            path: self.given.clone(),
            source,
        })
    }
}
