//! Backup and restore of a home, while its daemon runs.
//!
//! ```text
//! agent-backup/README.txt       how to read the file without this program
//! agent-backup/state/…          databases by SQLite's backup API, transcripts up to their last whole line
//! agent-backup/workspace/…      every file
//! agent-backup/agent.toml, providers.d/   and .env, channels/ with secrets
//! agent-backup/MANIFEST.json    every file with its size and SHA-256
//! agent-backup/END              SHA-256 of all bytes before it
//! ```
//! It is a plain tar, so that tar, jq and sha256sum can read it in ten years. The stores are read in an order that gives a
//! state as after a crash: what refers to something is read before it, memory.db before the queue, the spool and the jobs
//! before the queue, the queue before the transcripts. An interrupted turn is resumed after a restore as after a crash. A
//! home on a full or read-only disk can be backed up, too: copies are then made next to the backup or in the directory for
//! temporary files.

mod archive;
mod collect;
mod generations;
mod prove;
mod record;
mod restore;
mod scratch;

pub use archive::Contents;
pub use collect::{LEFT, OF_CHANNEL, Options, Report, SECRETS, write};
pub use generations::{DRAFT, new_path, newest, prune};
pub use prove::{Proof, open_all, prove};
pub use record::{Began, Record};
pub use restore::restore;
pub use scratch::is_under_way;

use std::path::{Path, PathBuf};

use crate::memory::index;
use crate::{config, db, sys};

/// A backup cannot be made, read or put back.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    File(#[from] sys::Error),
    #[error(transparent)]
    Home(#[from] config::Error),
    #[error(transparent)]
    Database(#[from] db::Error),
    #[error(transparent)]
    Index(#[from] index::Error),
    /// Another backup of this home is being made.
    #[error("another backup of this agent is being made")]
    Busy,
    /// The file is not a backup, or not as it was written.
    #[error("{}: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
    /// A newer version wrote it.
    #[error("{} has format {found}; this version reads format {known}", path.display())]
    Newer {
        path: PathBuf,
        found: u64,
        known: u64,
    },
    /// The home to restore into holds something.
    #[error("there is an agent already: {}", .0.display())]
    Occupied(PathBuf),
    /// A file changed each time it was read.
    #[error("{} keeps changing", .0.display())]
    Restless(PathBuf),
    /// What was restored does not work.
    #[error("the restored agent is incomplete: {0}")]
    Unproved(String),
}

impl Error {
    /// Returns it as one about the backup at `path`, of which another file is a copy.
    pub fn about(mut self, path: &Path) -> Self {
        if let Self::Damaged { path: copy, .. } | Self::Newer { path: copy, .. } = &mut self {
            path.clone_into(copy);
        }
        self
    }
}
