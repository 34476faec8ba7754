//! The control FIFO: opened only if it really is our FIFO, and without blocking a writer. The daemon reads it in
//! `app/daemon/command_intake.rs`.
//!
//! Facts it rests on: writes of at most PIPE_BUF (4096) bytes are atomic, longer ones tear;
//! opening for writing without a reader gives ENXIO; a reader that opens read-write never sees
//! end-of-file when the last writer leaves; unread bytes vanish with the reader.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::stat::Mode;

use super::Error;

/// The longest line that arrives whole, newline included (PIPE_BUF on Linux).
pub const MAX_LINE: usize = 4096;

/// What happened to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rung {
    /// A reader has it in its pipe.
    Heard,
    /// A reader is there but its pipe is full: it will look anyway.
    Full,
    /// Nobody listens.
    NoReader,
}

/// Opens the FIFO at `path` for reading, creating it 0600 when absent. The descriptor is
/// read-write and non-blocking.
///
/// # Errors
/// When something else is at `path`, or a FIFO that is not ours alone.
pub fn open(path: &Path) -> Result<File, Error> {
    match nix::unistd::mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR) {
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(error) => return Err(Error::at("create", path)(error)),
    }
    let foreign = |why: &str| {
        Error::at("use", path)(std::io::Error::new(
            std::io::ErrorKind::AlreadyExists,
            why.to_owned(),
        ))
    };
    let before = std::fs::symlink_metadata(path).map_err(Error::at("open", path))?;
    if !before.file_type().is_fifo() {
        return Err(foreign("it is no FIFO"));
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)
        .map_err(Error::at("open", path))?;
    let meta = file.metadata().map_err(Error::at("open", path))?;
    if !meta.file_type().is_fifo() || meta.uid() != nix::unistd::geteuid().as_raw() {
        return Err(foreign("it is a FIFO of another user"));
    }
    if meta.permissions().mode() & 0o777 != 0o600 {
        return Err(foreign("its mode is not 0600"));
    }
    Ok(file)
}

/// Writes one line (without its newline) into the FIFO at `path`, without ever waiting.
///
/// # Errors
/// When the line is longer than [`MAX_LINE`], the path is not a FIFO, or we may not write (EACCES).
pub fn ring(path: &Path, line: &str) -> Result<Rung, Error> {
    if line.len() + 1 > MAX_LINE {
        return Err(Error::at("write", path)(std::io::Error::from(
            std::io::ErrorKind::FileTooLarge,
        )));
    }
    let mut options = OpenOptions::new();
    options
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_CLOEXEC);
    let mut file = match options.open(path) {
        Ok(file) => file,
        Err(error)
            if error.raw_os_error() == Some(libc::ENXIO)
                || error.kind() == std::io::ErrorKind::NotFound =>
        {
            return Ok(Rung::NoReader);
        }
        Err(error) => return Err(Error::at("open", path)(error)),
    };
    if !file.metadata().is_ok_and(|meta| meta.file_type().is_fifo()) {
        return Err(Error::at("use", path)(std::io::Error::new(
            std::io::ErrorKind::AlreadyExists,
            "it is no FIFO",
        )));
    }
    match file.write_all(format!("{line}\n").as_bytes()) {
        Ok(()) => Ok(Rung::Heard),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(Rung::Full),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Rung::NoReader),
        Err(error) => Err(Error::at("write", path)(error)),
    }
}

/// Returns whether somebody reads the FIFO at `path`. Nothing is written.
///
/// # Errors
/// When it is not there, or we may not write to it.
pub fn is_heard(path: &Path) -> Result<bool, Error> {
    match OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)
    {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(false),
        Err(error) => Err(Error::at("open", path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn nobody_listening_is_an_answer_not_an_error() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("control.fifo");
        assert_eq!(ring(&path, "{}").expect("ring"), Rung::NoReader);
        assert!(is_heard(&path).is_err());
        let mut reader = open(&path).expect("open");
        assert!(is_heard(&path).expect("it is there"));
        assert_eq!(ring(&path, "{}").expect("ring"), Rung::Heard);
        let mut bytes = [0; 8];
        assert_eq!(reader.read(&mut bytes).expect("read"), 3);
        drop(reader);
        assert!(!is_heard(&path).expect("it is there"));
        assert_eq!(ring(&path, "{}").expect("ring"), Rung::NoReader);
    }

    #[test]
    fn a_foreign_file_is_never_used() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("control.fifo");
        crate::sys::atomic::write(&path, b"precious", crate::sys::atomic::Durability::Rename)
            .expect("write");
        assert!(open(&path).is_err() && ring(&path, "{}").is_err());
        assert_eq!(std::fs::read(&path).expect("read"), b"precious");
    }

    #[test]
    fn fifty_writers_of_whole_lines_never_mix() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("control.fifo");
        let mut reader = open(&path).expect("open");
        let writers: Vec<_> = (0..50)
            .map(|writer: u32| {
                let path = path.clone();
                let line = format!("{writer:04}").repeat(1000);
                std::thread::spawn(move || while ring(&path, &line).expect("ring") == Rung::Full {})
            })
            .collect();
        let mut all = Vec::new();
        let mut chunk = [0; 65536];
        while all.iter().filter(|byte| **byte == b'\n').count() < 50 {
            match reader.read(&mut chunk) {
                Ok(count) => all.extend_from_slice(chunk.get(..count).unwrap_or_default()),
                Err(_) => std::thread::yield_now(),
            }
        }
        for writer in writers {
            writer.join().expect("writer");
        }
        let text = String::from_utf8(all).expect("text");
        assert!(
            text.lines()
                .all(|line| line.get(..4).is_some_and(|name| line == name.repeat(1000)))
        );
    }
}
