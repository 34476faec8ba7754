//! Records the file changes of runs, so that they can be undone, and their other actions, which cannot be undone: commands,
//! and changes of jobs or the memory.
//!
//! ```text
//! state/undo/<run>/journal.jsonl   one line for each change, for each undo, and for each command or other action
//! state/undo/<run>/<n>             the content of the file before change n
//! ```
//! A line and its old content are on disk before the file is changed. So a crash leaves at most a line for a change that was
//! not made: then the file is as before, and there is nothing to undo.
//!
//! The changes of an undo of `RUN` are journalled, too, as the run `undo-RUN`; undoing that is again a change of `RUN`.
//! Nothing is overwritten that somebody else has changed since.

mod journal;
mod restore;
mod runs;

pub use journal::{Change, Deed, Store};
pub use restore::Undone;
pub use runs::{KEEP, MAX_BYTES, RunInfo};

use crate::sys;

/// The largest file whose old text is kept, bytes; a larger one is not changed.
pub const MAX_OLD: u64 = 64 << 20;

/// What is before the id of a run in the id of its undo.
const UNDO: &str = "undo-";

/// Why nothing was written down, or taken back.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk.
    #[error(transparent)]
    Io(#[from] sys::Error),
    /// The file is too large to be kept.
    #[error("it is larger than {} MB, too large for an undo record; move it away first", MAX_OLD >> 20)]
    TooLarge,
    /// The file cannot be read, so it could not be brought back.
    #[error("its content cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    /// There is no such run, or it changed no files.
    #[error("no run is called {0}, or it changed no files that can be brought back")]
    Unknown(String),
}

/// Returns the id of the run in which an undo of `run` is journalled.
fn counterpart(run: &str) -> String {
    run.strip_prefix(UNDO)
        .map_or_else(|| format!("{UNDO}{run}"), str::to_owned)
}

/// Returns true for what can be the name of a run's directory.
fn is_run(run: &str) -> bool {
    (1..=128).contains(&run.len())
        && run
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

#[cfg(test)]
mod tests;
