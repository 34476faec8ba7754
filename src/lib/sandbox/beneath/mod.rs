//! Opens files that must stay inside one directory, despite symlinks and races.
//!
//! Every path is resolved by the kernel with `openat2(RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)`
//! from a descriptor of the directory: there is no moment between check and use. Where that call is
//! refused, `walk` does the same step by step. Symlinks that stay inside are followed, but nothing
//! is written through one that is the last component.

mod handle;
mod target;
mod walk;

pub use handle::Found;
pub use target::{Existing, Target};

use std::fs::{File, FileType, Metadata};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{Mode, fchmod};

/// How often is tried what something that was renamed (openat2(2), EAGAIN) or removed meanwhile defeats.
const RACE_ATTEMPTS: u32 = 16;

/// Why a path inside the directory cannot be used. Each carries the path as it was given.
#[derive(Debug, thiserror::Error)]
pub enum BeneathError {
    /// It leads out of the directory.
    #[error("{} is outside the workspace", .0.display())]
    Outside(PathBuf),
    /// There is nothing.
    #[error("{} is not found", .0.display())]
    NotFound(PathBuf),
    /// A file was wanted.
    #[error("{} is a directory", .0.display())]
    IsDirectory(PathBuf),
    /// It, or what should be its parent, is not a directory.
    #[error("{} is not a directory", .0.display())]
    NotDirectory(PathBuf),
    /// It is a device, FIFO or socket.
    #[error("{} is not a regular file", .0.display())]
    NotRegular(PathBuf),
    /// Nothing is written through a symlink.
    #[error("{} is a symbolic link", .0.display())]
    IsSymlink(PathBuf),
    /// Something else is there than what was looked at.
    #[error("{} was changed by another process at the same time", .0.display())]
    Changed(PathBuf),
    /// It has more bytes than the caller takes.
    #[error("{} is too large ({size} bytes, at most {max} are read)", .path.display())]
    TooLarge {
        /// The path.
        path: PathBuf,
        /// Its size; when it grew while it was read, what was read of it.
        size: u64,
        /// The caller's bound.
        max: u64,
    },
    /// Anything else the system says.
    #[error("cannot use {}: {source}", .path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What it says.
        #[source]
        source: std::io::Error,
    },
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symlink, followed only when it stays inside.
    Symlink,
    /// A device, FIFO or socket, which is never opened.
    Other,
}

impl Kind {
    fn of(kind: FileType) -> Self {
        match () {
            () if kind.is_file() => Kind::File,
            () if kind.is_dir() => Kind::Directory,
            () if kind.is_symlink() => Kind::Symlink,
            () => Kind::Other,
        }
    }
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Without any directory; bytes that are no UTF-8 replaced.
    pub name: String,
    /// What it stands for.
    pub kind: Kind,
    /// Its size in bytes; 0 when it went away meanwhile.
    pub size: u64,
}

/// A directory that cannot be left. Paths are relative to it, or absolute and written as inside it.
#[derive(Debug)]
pub struct Root {
    dir: OwnedFd,
    given: PathBuf,
    real: PathBuf,
    /// Whether openat2(2) is to be had.
    by_kernel: bool,
}

impl Root {
    /// Opens the directory at `path`, an absolute path of the configuration.
    ///
    /// # Errors
    /// When it is not there or no directory.
    pub fn open(path: &Path) -> Result<Self, BeneathError> {
        let failed = |e: Errno| error(path, e);
        let dir = openat(
            AT_FDCWD,
            path,
            OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
            Mode::empty(),
        )
        .map_err(failed)?;
        let real = path.canonicalize().map_err(io(path))?;
        let answer = resolved_by_kernel(&dir, Path::new("."), OFlag::O_PATH);
        // Old seccomp profiles of containers say EPERM to what they do not know.
        let by_kernel = !matches!(answer, Err(Errno::ENOSYS | Errno::EPERM));
        Ok(Self {
            dir,
            given: path.to_owned(),
            real,
            by_kernel,
        })
    }

    /// Returns the contents of a regular file.
    ///
    /// # Errors
    /// When it has more than `max` bytes, is not a regular file, leads outside or cannot be read.
    pub fn read(&self, path: &Path, max: u64) -> Result<Vec<u8>, BeneathError> {
        Self::read_found(&self.find(path)?, path, max)
    }

    /// As [`Self::read`], but no link is followed on the way.
    ///
    /// # Errors
    /// As [`Self::read`], and when there is a link.
    pub fn read_plain(&self, path: &Path, max: u64) -> Result<Vec<u8>, BeneathError> {
        Self::read_found(&self.find_plain(path)?, path, max)
    }

    fn read_found(found: &Found, path: &Path, max: u64) -> Result<Vec<u8>, BeneathError> {
        let too_large = |size| BeneathError::TooLarge {
            path: path.to_owned(),
            size,
            max,
        };
        let file = found.open()?;
        if found.metadata.len() > max {
            return Err(too_large(found.metadata.len()));
        }
        let mut bytes = Vec::new();
        file.take(max.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(io(path))?;
        match bytes.len() as u64 {
            size if size > max => Err(too_large(size)),
            _ => Ok(bytes),
        }
    }

    /// Returns at most the first `max` bytes of the regular file `path`.
    ///
    /// # Errors
    /// As [`Self::read`], except for its size.
    pub fn read_head(&self, path: &Path, max: u64) -> Result<Vec<u8>, BeneathError> {
        let mut bytes = Vec::new();
        let file = self.find(path)?.open()?;
        file.take(max).read_to_end(&mut bytes).map_err(io(path))?;
        Ok(bytes)
    }

    /// Puts `bytes` at `path`, whole or not at all, and returns when they are on disk. Missing
    /// parents are made (0700); a new file has mode 0600, an existing one keeps its own.
    ///
    /// # Errors
    /// When what is there is a symlink or no regular file, or the path leads outside.
    pub fn write_atomic(&self, path: &Path, bytes: &[u8]) -> Result<(), BeneathError> {
        let write = || self.target(path)?.overwrite(bytes, 0o600);
        let mut written = write();
        // A directory that was just made is empty, and may be removed before the file is in it.
        for _ in 1..RACE_ATTEMPTS {
            match written {
                Err(BeneathError::NotFound(_)) => written = write(),
                _ => break,
            }
        }
        written
    }

    /// Returns what a directory holds, sorted by name; when there is more, any `max` entries of it.
    ///
    /// # Errors
    /// When it is not a directory, leads outside or cannot be read.
    pub fn list(&self, path: &Path, max: usize) -> Result<Vec<Entry>, BeneathError> {
        Ok(self.find(path)?.list(max)?.0)
    }

    /// Returns what is known about a file or directory without opening it; symlinks are followed.
    ///
    /// # Errors
    /// When nothing is there or it leads outside.
    pub fn metadata(&self, path: &Path) -> Result<Metadata, BeneathError> {
        Ok(self.find(path)?.metadata)
    }

    /// Returns where `path` really is, relative to the directory and without symlinks, for rules
    /// that speak of places (`skills/` needs approval).
    ///
    /// # Errors
    /// When nothing is there or it leads outside.
    pub fn real(&self, path: &Path) -> Result<PathBuf, BeneathError> {
        Ok(self.find(path)?.real)
    }

    /// Returns the directory itself, without symlinks.
    pub fn dir(&self) -> &Path {
        &self.real
    }

    /// Returns where an open descriptor is, relative to the directory.
    fn real_of(&self, fd: &OwnedFd, path: &Path) -> Result<PathBuf, BeneathError> {
        let real = std::fs::read_link(by_descriptor(fd)).map_err(io(path))?;
        let inside = real
            .strip_prefix(&self.real)
            .map_err(|_| BeneathError::Outside(path.to_owned()))?;
        Ok(inside.to_owned())
    }

    /// Opens `path` beneath the directory.
    fn resolve(&self, path: &Path, flags: OFlag) -> Result<OwnedFd, BeneathError> {
        self.open_relative(&self.relative(path)?, flags)
            .map_err(|e| error(path, e))
    }

    fn open_relative(&self, relative: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
        let relative = if relative.as_os_str().is_empty() {
            Path::new(".")
        } else {
            relative
        };
        let open = if self.by_kernel {
            resolved_by_kernel
        } else {
            walk::open
        };
        let mut result = open(&self.dir, relative, flags);
        for _ in 1..RACE_ATTEMPTS {
            match result {
                Err(Errno::EAGAIN) => result = open(&self.dir, relative, flags),
                _ => break,
            }
        }
        result
    }

    /// Returns `path` relative to the directory; nothing is looked up.
    ///
    /// # Errors
    /// When it is absolute and not written as inside.
    pub fn relative(&self, path: &Path) -> Result<PathBuf, BeneathError> {
        if path.is_relative() {
            return Ok(path.to_owned());
        }
        let inside = path
            .strip_prefix(&self.given)
            .or_else(|_| path.strip_prefix(&self.real));
        inside
            .map(Path::to_owned)
            .map_err(|_| BeneathError::Outside(path.to_owned()))
    }
}

fn resolved_by_kernel(dir: &OwnedFd, relative: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
    let how = OpenHow::new()
        .flags(flags | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    openat2(dir, relative, how)
}

fn fill(mut file: File, bytes: &[u8], mode: Mode) -> std::io::Result<()> {
    file.write_all(bytes)?;
    fchmod(file.as_fd(), mode)?;
    file.sync_all()
}

/// Returns the name under which the kernel shows an open descriptor; it cannot be redirected.
fn by_descriptor(fd: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> BeneathError {
    move |source| BeneathError::Io {
        path: path.to_owned(),
        source,
    }
}

fn error(path: &Path, errno: Errno) -> BeneathError {
    let path = path.to_owned();
    match errno {
        // EXDEV: `..`, an absolute or escaping symlink; ELOOP: also a magic link.
        Errno::EXDEV | Errno::ELOOP => BeneathError::Outside(path),
        Errno::ENOENT => BeneathError::NotFound(path),
        Errno::ENOTDIR => BeneathError::NotDirectory(path),
        Errno::EISDIR => BeneathError::IsDirectory(path),
        // A socket, or a FIFO opened for writing.
        Errno::ENXIO => BeneathError::NotRegular(path),
        errno => BeneathError::Io {
            path,
            source: errno.into(),
        },
    }
}

#[cfg(test)]
mod tests;
