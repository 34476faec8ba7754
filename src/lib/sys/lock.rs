//! Locks that die with their process: open-file-description locks, never the existence of a file.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};

use super::Error;

/// A lock that is held until this value is dropped or the process ends.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock on `path` again where the file was removed or replaced; false when another process has it now.
    ///
    /// # Errors
    /// As [`try_lock()`].
    pub fn keep(&mut self, path: &Path) -> Result<bool, Error> {
        let held = self.file.metadata().map_err(Error::at("read", path))?;
        let is_there = std::fs::metadata(path)
            .is_ok_and(|there| (there.dev(), there.ino()) == (held.dev(), held.ino()));
        if is_there {
            return Ok(true);
        }
        let Some(lock) = try_lock(path)? else {
            return Ok(false);
        };
        *self = lock;
        Ok(true)
    }
}

/// Takes the lock on `path` (created 0600) and writes our process id into it; `None` when
/// another process holds it.
///
/// # Errors
/// When the file cannot be opened or the file system has no locks.
pub fn try_lock(path: &Path) -> Result<Option<Lock>, Error> {
    let mut file = open(path)?;
    match fcntl(&file, FcntlArg::F_OFD_SETLK(&whole(libc::F_WRLCK))) {
        Ok(_) => {
            // The number is for people; the lock itself is the truth.
            let _ = file
                .set_len(0)
                .and_then(|()| writeln!(file, "{}", std::process::id()));
            Ok(Some(Lock { file }))
        }
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(None),
        Err(error) => Err(Error::at("lock", path)(error)),
    }
}

/// How often a lock that another process holds is asked for.
const PAUSE: Duration = Duration::from_millis(20);

/// As [`try_lock()`], and waits for `patience` at most.
///
/// # Errors
/// As [`try_lock()`].
pub fn try_lock_for(path: &Path, patience: Duration) -> Result<Option<Lock>, Error> {
    let until = Instant::now() + patience;
    loop {
        let lock = try_lock(path)?;
        if lock.is_some() || Instant::now() >= until {
            return Ok(lock);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Waits for the lock on `path`: for short read-change-write sections of a shared file.
///
/// # Errors
/// When the file cannot be opened or the file system has no locks.
pub fn lock(path: &Path) -> Result<Lock, Error> {
    let file = open(path)?;
    loop {
        match fcntl(&file, FcntlArg::F_OFD_SETLKW(&whole(libc::F_WRLCK))) {
            Ok(_) => return Ok(Lock { file }),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(Error::at("lock", path)(error)),
        }
    }
}

/// As [`lock()`], on the file with the extension `lock` beside `path`, a file that several processes change.
///
/// # Errors
/// As [`lock()`].
pub fn lock_beside(path: &Path) -> Result<Lock, Error> {
    lock(&path.with_extension("lock"))
}

/// Returns the process id written by the holder of the lock on `path`, `None` when nobody holds
/// it. Takes nothing, so it never disturbs a daemon that is starting.
///
/// # Errors
/// When the file exists and cannot be opened (`EACCES`: somebody else's daemon).
pub fn holder(path: &Path) -> Result<Option<i32>, Error> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::at("open", path)(error)),
    };
    let mut probe = whole(libc::F_RDLCK);
    fcntl(&file, FcntlArg::F_OFD_GETLK(&mut probe)).map_err(Error::at("probe", path))?;
    if i32::from(probe.l_type) == libc::F_UNLCK {
        return Ok(None);
    }
    let mut text = String::new();
    let _ = file.read_to_string(&mut text);
    Ok(Some(text.trim().parse().unwrap_or(0)))
}

fn open(path: &Path) -> Result<File, Error> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(Error::at("open", path))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the constants are small; libc types them c_int, the struct c_short"
)]
fn whole(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_taker_is_refused_until_the_first_lets_go() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("daemon.lock");
        assert_eq!(holder(&path).expect("probe"), None);
        let first = try_lock(&path).expect("lock").expect("free");
        assert!(try_lock(&path).expect("lock").is_none());
        assert!(try_lock_for(&path, PAUSE).expect("lock").is_none());
        assert_eq!(
            holder(&path).expect("probe"),
            i32::try_from(std::process::id()).ok()
        );
        let later = std::thread::spawn(move || {
            std::thread::sleep(PAUSE);
            drop(first);
        });
        assert!(
            try_lock_for(&path, Duration::from_secs(60))
                .expect("lock")
                .is_some()
        );
        later.join().expect("it ends");
        // A program that another test starts holds it, too, until it is itself.
        let until = Instant::now() + Duration::from_secs(60);
        while holder(&path).expect("probe").is_some() {
            assert!(Instant::now() < until, "it is held for ever");
            std::thread::sleep(PAUSE);
        }
    }
}
