//! The ground: files that survive a crash, locks, names that one process holds, the FIFO, a word to
//! systemd, and whether the clock may be believed.

pub mod atomic;
mod blocking;
pub mod clock_check;
mod dir_watch;
pub mod fifo;
mod file_stamp;
mod file_watcher;
mod foreign_file;
mod free_space;
mod held_dir;
pub mod jsonl;
pub mod lock;
pub mod machine_lock;
mod opened_files;
mod quarantine_file;
pub mod release_memory;
mod scratch_dir;
pub mod sd_notify;

pub use blocking::blocking;
pub use dir_watch::DirWatch;
pub use file_stamp::Version;
pub use file_watcher::{file_watcher, watch_changes};
pub use foreign_file::read_foreign;
pub use free_space::{free_space, is_full};
pub use held_dir::HeldDir;
pub use opened_files::OpenedFiles;
pub use quarantine_file::{is_being_written, newest_quarantined, quarantine_file};
pub use scratch_dir::ScratchDir;

use std::path::{Path, PathBuf};

/// A file operation that failed, with what was tried and where.
#[derive(Debug, thiserror::Error)]
#[error("cannot {op} {}: {source}", path.display())]
pub struct Error {
    /// What was tried: `write`, `read`, `lock` …
    pub op: &'static str,
    /// On which file.
    pub path: PathBuf,
    /// Why it failed.
    #[source]
    pub source: std::io::Error,
}

/// Returns when the content of a file was changed last, milliseconds since 1970 UTC; `None` when that
/// cannot be told.
pub fn modified_at(path: &Path) -> Option<i64> {
    let since = std::fs::metadata(path)
        .ok()?
        .modified()
        .ok()?
        .duration_since(std::time::UNIX_EPOCH)
        .ok()?;
    i64::try_from(since.as_millis()).ok()
}

/// Returns true when nothing more can be written there: the disk or a quota is full, or the file system is only read.
pub fn is_no_room(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(
        error.kind(),
        StorageFull | QuotaExceeded | ReadOnlyFilesystem
    )
}

impl Error {
    /// Returns true when the same operation may succeed later: the disk or a quota is full, files are busy or too
    /// many are open, the call was interrupted, the device failed once.
    pub fn is_retryable(&self) -> bool {
        use std::io::ErrorKind::{
            Interrupted, OutOfMemory, QuotaExceeded, ResourceBusy, StorageFull, TimedOut,
            WouldBlock,
        };
        let transient = [nix::libc::EIO, nix::libc::EMFILE, nix::libc::ENFILE];
        matches!(
            self.source.kind(),
            Interrupted
                | OutOfMemory
                | QuotaExceeded
                | ResourceBusy
                | StorageFull
                | TimedOut
                | WouldBlock
        ) || self
            .source
            .raw_os_error()
            .is_some_and(|code| transient.contains(&code))
    }

    /// Returns a function that wraps an I/O error with `op` and `path`.
    pub fn at<E: Into<std::io::Error>>(op: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        move |source| Self {
            op,
            path: path.to_owned(),
            source: source.into(),
        }
    }
}
