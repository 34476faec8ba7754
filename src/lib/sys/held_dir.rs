//! A directory in which another process may replace anything by a link. Operations through a [`HeldDir`] stay inside it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::Mode;

use super::Error;

/// A directory that is held open: its name may be given to something else meanwhile.
#[derive(Debug)]
pub struct HeldDir {
    dir: OwnedFd,
    /// How it was called.
    shown: PathBuf,
}

impl HeldDir {
    /// Opens the directory at `path`, of which the last `foreign` names may be somebody else's doing: no link is followed there.
    ///
    /// # Errors
    /// When it is not there, or a link or no directory is there (`NotADirectory`).
    pub fn open(path: &Path, foreign: usize) -> Result<Self, Error> {
        let names: Vec<_> = path.components().collect();
        let (base, below) = names.split_at(names.len().saturating_sub(foreign));
        let base: PathBuf = base.iter().collect();
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let base = openat(AT_FDCWD, &base, flags, Mode::empty());
        let opened = below.iter().fold(base, |dir, name| {
            let flags = flags | OFlag::O_NOFOLLOW;
            openat(&dir?, name.as_os_str(), flags, Mode::empty())
        });
        let dir = opened.map_err(Error::at("open", path))?;
        let shown = path.to_owned();
        Ok(Self { dir, shown })
    }

    /// Returns a way to it (proc_pid_fd(5)), good as long as it is held.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.dir.as_raw_fd()))
    }

    /// Returns a way to what is called `name` in it, good as long as it is held. That may be a link.
    pub fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// Returns what is in it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self) -> Result<std::fs::ReadDir, Error> {
        std::fs::read_dir(self.path()).map_err(Error::at("read", &self.shown))
    }

    /// Does something to `name` in it; an error calls it by the name that people know.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn with<T>(
        &self,
        name: impl AsRef<Path>,
        work: impl FnOnce(&Path) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let called = |error| Error {
            path: self.shown.join(&name),
            ..error
        };
        work(&self.at(&name)).map_err(called)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_link_is_followed_in_names_that_others_may_have_made_and_later_ones_change_nothing() {
        let home = tempfile::tempdir().expect("a directory");
        let real = home.path().join("real");
        std::fs::create_dir_all(real.join("spool/new")).expect("directories");
        symlink(&real, home.path().join("own")).expect("a link");
        // The user's own link is followed, that of a process is not, wherever it is.
        let path = home.path().join("own/spool/new");
        let held = HeldDir::open(&path, 2).expect("a directory");
        HeldDir::open(&path, 3).expect_err("a link");
        std::fs::rename(real.join("spool"), real.join("other")).expect("moved");
        symlink(home.path(), real.join("spool")).expect("a link");
        std::fs::create_dir(home.path().join("new")).expect("a directory");
        let error = HeldDir::open(&path, 2).expect_err("a link");
        assert_eq!(error.source.kind(), std::io::ErrorKind::NotADirectory);
        assert_eq!(error.path, path);
        std::fs::create_dir(held.at("a")).expect("made");
        assert!(real.join("other/new/a").is_dir());
        assert_eq!(held.read().expect("read").count(), 1);
        let missing = HeldDir::open(&home.path().join("none"), 1).expect_err("nothing");
        assert_eq!(missing.source.kind(), std::io::ErrorKind::NotFound);
    }
}
