//! A file that is checked and then changed: its directory is held open meanwhile, so that the decision and the change are
//! about the same file.
//!
//! A directory on the way that becomes a symlink after [`Root::target`] changes nothing: the descriptor is
//! of the directory that was there. What is made below it is made name by name, never through a link.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, unlinkat};

use super::{BeneathError, Kind, Root, by_descriptor, error, fill, io};
use crate::sandbox::syscalls;
use crate::sys::Version;

/// A name in a directory that is held open, whether something is there or not.
#[derive(Debug)]
pub struct Target {
    given: PathBuf,
    /// The nearest directory that is there.
    dir: OwnedFd,
    /// The directories between it and the name, outermost first: they are made by a write.
    missing: Vec<OsString>,
    name: OsString,
    /// Where it really is, relative to the root and without symlinks.
    pub real: PathBuf,
}

/// The regular file that is at a place.
#[derive(Debug)]
pub struct Existing {
    fd: OwnedFd,
    /// What is known about it.
    pub metadata: Metadata,
}

impl Existing {
    /// Opens it for reading.
    ///
    /// # Errors
    /// When it may not be read.
    pub fn open(&self) -> std::io::Result<File> {
        File::open(by_descriptor(&self.fd))
    }
}

impl Root {
    /// Returns the place that `path` means. Symlinks in its directories are followed while they stay
    /// inside; a symlink that is its last name is not.
    ///
    /// # Errors
    /// When it leads outside, or names no file.
    pub fn target(&self, path: &Path) -> Result<Target, BeneathError> {
        let relative = self.relative(path)?;
        let Some(Component::Normal(name)) = relative.components().next_back() else {
            return Err(BeneathError::IsDirectory(path.to_owned()));
        };
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(BeneathError::IsDirectory(path.to_owned()));
        }
        let mut there = relative.parent().unwrap_or(Path::new("")).to_owned();
        let mut missing = Vec::new();
        loop {
            match self.open_relative(&there, OFlag::O_RDONLY | OFlag::O_DIRECTORY) {
                Ok(dir) => {
                    missing.reverse();
                    let real = self.real_of(&dir, path)?;
                    let real = missing
                        .iter()
                        .fold(real, |at, name| at.join(name))
                        .join(name);
                    return Ok(Target {
                        given: path.to_owned(),
                        dir,
                        missing,
                        name: name.to_owned(),
                        real,
                    });
                }
                Err(Errno::ENOENT) => match (there.file_name(), there.parent()) {
                    (Some(name), Some(parent)) => {
                        missing.push(name.to_owned());
                        there = parent.to_owned();
                    }
                    _ => return Err(BeneathError::NotFound(path.to_owned())),
                },
                Err(errno) => return Err(error(path, errno)),
            }
        }
    }
}

impl Target {
    /// Returns the directories that a write makes, as [`Target::real`] has it, outermost first.
    pub fn to_be_made(&self) -> Vec<PathBuf> {
        let mut dirs: Vec<PathBuf> = self
            .real
            .ancestors()
            .skip(1)
            .take(self.missing.len())
            .map(Path::to_owned)
            .collect();
        dirs.reverse();
        dirs
    }

    /// Returns the regular file that is there; `None` when nothing is.
    ///
    /// # Errors
    /// When something else is there: a directory, a symlink, a device.
    pub fn existing(&self) -> Result<Option<Existing>, BeneathError> {
        if !self.missing.is_empty() {
            return Ok(None);
        }
        let Some((fd, metadata)) = self.look(&self.dir)? else {
            return Ok(None);
        };
        match Kind::of(metadata.file_type()) {
            Kind::File => Ok(Some(Existing { fd, metadata })),
            Kind::Symlink => Err(BeneathError::IsSymlink(self.given.clone())),
            Kind::Directory => Err(BeneathError::IsDirectory(self.given.clone())),
            Kind::Other => Err(BeneathError::NotRegular(self.given.clone())),
        }
    }

    /// Puts `bytes` there instead of `old`, whole or not at all, and returns when they are on disk.
    /// Missing directories are made (0700). A file that was there keeps its permissions, its attributes and, where we may give
    /// it away, its owner; a new one has `mode`; neither has set-id bits.
    ///
    /// # Errors
    /// [`BeneathError::Changed`] when something else than `old` is there now.
    pub fn write(
        &self,
        bytes: &[u8],
        old: Option<&Existing>,
        mode: u32,
    ) -> Result<(), BeneathError> {
        self.put(bytes, old, mode, true)
    }

    /// As [`Target::write`], whatever file is there when it comes to it.
    pub(super) fn overwrite(&self, bytes: &[u8], mode: u32) -> Result<(), BeneathError> {
        self.put(bytes, self.existing()?.as_ref(), mode, false)
    }

    fn put(
        &self,
        bytes: &[u8],
        old: Option<&Existing>,
        mode: u32,
        only_old: bool,
    ) -> Result<(), BeneathError> {
        use std::os::unix::fs::PermissionsExt as _;
        let failed = |errno: Errno| error(&self.given, errno);
        let (dir, parents) = self.make_directories()?;
        let mode = old.map_or(mode, |old| old.metadata.permissions().mode()) & 0o777;
        let temporary = PathBuf::from(format!(".agent-{}.tmp", uuid::Uuid::new_v4().simple()));
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file =
            openat(&dir, &temporary, flags, Mode::S_IRUSR | Mode::S_IWUSR).map_err(failed)?;
        if let Some(old) = old {
            keep_owner(&file, &old.metadata);
            syscalls::copy_attributes(&by_descriptor(&old.fd), file.as_fd());
        }
        // Only now: an empty directory may be removed while the disk takes its time.
        let synced = parents.iter().try_for_each(nix::unistd::fsync);
        let moved = synced
            .map_err(failed)
            .and_then(|()| {
                fill(File::from(file), bytes, Mode::from_bits_truncate(mode))
                    .map_err(io(&self.given))
            })
            .and_then(|()| match old {
                None if only_old => self.move_where_nothing_is(&dir, &temporary),
                Some(old) if only_old => self
                    .is_still(&dir, old)
                    .and_then(|()| self.rename(&dir, &temporary)),
                _ => self.rename(&dir, &temporary),
            });
        let written = moved.and_then(|()| nix::unistd::fsync(&dir).map_err(failed));
        written.inspect_err(|_| {
            let _ = unlinkat(&dir, &temporary, UnlinkatFlags::NoRemoveDir);
        })
    }

    /// Removes the file `old`, and returns when that is on disk.
    ///
    /// # Errors
    /// [`BeneathError::Changed`] when something else is there now.
    pub fn remove(&self, old: &Existing) -> Result<(), BeneathError> {
        self.is_still(&self.dir, old)?;
        unlinkat(&self.dir, self.name.as_os_str(), UnlinkatFlags::NoRemoveDir)
            .and_then(|()| nix::unistd::fsync(&self.dir))
            .map_err(|errno| error(&self.given, errno))
    }

    /// Removes the directory that is there; false when there is none or something is in it.
    pub fn remove_empty_directory(&self) -> bool {
        self.missing.is_empty()
            && unlinkat(&self.dir, self.name.as_os_str(), UnlinkatFlags::RemoveDir).is_ok()
    }

    /// What is there without following a link.
    fn look(&self, dir: &OwnedFd) -> Result<Option<(OwnedFd, Metadata)>, BeneathError> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let fd = match openat(dir, self.name.as_os_str(), flags, Mode::empty()) {
            Err(Errno::ENOENT) => return Ok(None),
            fd => fd.map_err(|errno| error(&self.given, errno))?,
        };
        let file = File::from(fd);
        let metadata = file.metadata().map_err(io(&self.given))?;
        Ok(Some((file.into(), metadata)))
    }

    fn is_still(&self, dir: &OwnedFd, old: &Existing) -> Result<(), BeneathError> {
        let now = self.look(dir)?.map(|(_, metadata)| Version::of(&metadata));
        if now == Some(Version::of(&old.metadata)) {
            Ok(())
        } else {
            Err(BeneathError::Changed(self.given.clone()))
        }
    }

    fn move_where_nothing_is(&self, dir: &OwnedFd, temporary: &Path) -> Result<(), BeneathError> {
        match syscalls::rename_if_absent(dir, temporary, Path::new(&self.name)) {
            Err(Errno::EEXIST) => Err(BeneathError::Changed(self.given.clone())),
            // Not every file system can.
            Err(Errno::EINVAL | Errno::ENOSYS) => match self.look(dir)? {
                None => self.rename(dir, temporary),
                Some(_) => Err(BeneathError::Changed(self.given.clone())),
            },
            moved => moved.map_err(|errno| error(&self.given, errno)),
        }
    }

    fn rename(&self, dir: &OwnedFd, temporary: &Path) -> Result<(), BeneathError> {
        renameat(dir, temporary, dir, self.name.as_os_str())
            .map_err(|errno| error(&self.given, errno))
    }

    /// Makes what is missing, never through a link. Returns the directory of the name, and those that got a new one and
    /// are to be synced.
    fn make_directories(&self) -> Result<(OwnedFd, Vec<OwnedFd>), BeneathError> {
        let failed = |errno: Errno| match errno {
            // Something came in its place: what was decided was about another place.
            Errno::ELOOP | Errno::ENOTDIR => BeneathError::Changed(self.given.clone()),
            errno => error(&self.given, errno),
        };
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut at = self
            .dir
            .as_fd()
            .try_clone_to_owned()
            .map_err(io(&self.given))?;
        let mut parents = Vec::new();
        for name in &self.missing {
            let made = mkdirat(&at, name.as_os_str(), Mode::S_IRWXU);
            let below = match made {
                Ok(()) | Err(Errno::EEXIST) => openat(&at, name.as_os_str(), flags, Mode::empty()),
                Err(errno) => Err(errno),
            };
            let parent = std::mem::replace(&mut at, below.map_err(failed)?);
            if made.is_ok() {
                parents.push(parent);
            }
        }
        Ok((at, parents))
    }
}

/// Gives a new file to whom the old one belonged. Only root may give one to another user, and others to a group of theirs.
fn keep_owner(file: &OwnedFd, old: &Metadata) {
    use std::os::unix::fs::MetadataExt as _;
    let (user, group) = (Uid::from_raw(old.uid()), Gid::from_raw(old.gid()));
    let given = fchown(file, Some(user), Some(group));
    let _ = given.or_else(|_| fchown(file, None, Some(group)));
}
