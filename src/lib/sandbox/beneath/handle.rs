//! A path's target, held without being opened: its type and its real path are known before a
//! byte is read, and a FIFO or a device is never opened at all.

use std::fs::{File, Metadata};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use super::{BeneathError, Entry, Kind, Root, by_descriptor, io};

/// What a path leads to, whatever it is.
#[derive(Debug)]
pub struct Found {
    given: PathBuf,
    fd: OwnedFd,
    /// Where it really is, relative to the root and without symlinks.
    pub real: PathBuf,
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
        let metadata = file.metadata().map_err(io(path))?;
        if metadata.nlink() == 0 {
            // It has no place any more by which rules could speak of it.
            return Err(BeneathError::NotFound(path.to_owned()));
        }
        let fd = OwnedFd::from(file);
        Ok(Found {
            given: path.to_owned(),
            real: self.real_of(&fd, path)?,
            fd,
            metadata,
        })
    }

    /// As [`Self::find`], but no link is followed: neither the last name nor a directory before it.
    ///
    /// # Errors
    /// When nothing is there, or there is a link.
    pub fn find_plain(&self, path: &Path) -> Result<Found, BeneathError> {
        let found = self.find(path)?;
        match found.real == self.relative(path)? {
            true => Ok(found),
            false => Err(BeneathError::IsSymlink(path.to_owned())),
        }
    }
}

impl Found {
    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// When it is something else, or may not be read.
    pub fn open(&self) -> Result<File, BeneathError> {
        match Kind::of(self.metadata.file_type()) {
            Kind::File => File::open(by_descriptor(&self.fd)).map_err(io(&self.given)),
            Kind::Directory => Err(BeneathError::IsDirectory(self.given.clone())),
            Kind::Symlink | Kind::Other => Err(BeneathError::NotRegular(self.given.clone())),
        }
    }

    /// Returns what a directory holds, sorted by name; when there is more, any `max` entries of it and true.
    ///
    /// # Errors
    /// When it is not a directory or may not be read.
    pub fn list(&self, max: usize) -> Result<(Vec<Entry>, bool), BeneathError> {
        if !self.metadata.is_dir() {
            return Err(BeneathError::NotDirectory(self.given.clone()));
        }
        let mut names = std::fs::read_dir(by_descriptor(&self.fd)).map_err(io(&self.given))?;
        let mut entries = Vec::new();
        for entry in names.by_ref().take(max) {
            let entry = entry.map_err(io(&self.given))?;
            entries.push(Entry {
                name: entry.file_name().to_string_lossy().into_owned(),
                kind: entry.file_type().map_or(Kind::Other, Kind::of),
                size: entry.metadata().map_or(0, |metadata| metadata.len()),
            });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((entries, names.next().is_some()))
    }
}
