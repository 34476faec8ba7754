//! The search index: what stands in memory files and ended conversations, found by its words.
//!
//! ```text
//! MEMORY.md, memory/**/*.md, sessions/archive/*.jsonl
//!   → sources (which files, changed?) → document (lines, headings, who spoke)
//!   → chunk (1,600 characters) → words (stems) → state/index.db
//! query → words → candidates (chunks_fts) → rank (line, neighbourhood, chunk, file) → passage → Hit
//! ```
//! `index.db` is made from those files alone: it may be deleted at any time, also while somebody
//! searches. Its tables stand in `schema.rs`. `index.lock` is held while it is brought up to date.

mod candidates;
mod chunk;
pub(super) mod document;
mod passage;
mod rank;
mod rows;
mod schema;
mod search;
mod status;
mod stop;
mod sync;
pub(super) mod words;

pub use super::sources::Source;
pub use passage::MAX_CHARS;
pub(super) use rows::{document_of, scope_of};
pub use search::{Filter, Found, Hit, Query, Searcher, Strategy, search};
pub use status::{Status, examine, status};
pub use sync::{Mode, Outcome, Report, sync};

use std::path::PathBuf;

use crate::config::Home;
use crate::{db, sys};

/// Where the index and its sources lie.
#[derive(Debug, Clone)]
pub struct Place {
    home: Home,
}

impl Place {
    /// Returns the place of the index of `home`.
    pub fn of(home: &Home) -> Self {
        Self { home: home.clone() }
    }

    /// Returns the database.
    pub fn database(&self) -> PathBuf {
        self.home.state().join("index.db")
    }

    /// Returns the file that is locked while the index is brought up to date.
    pub fn lock(&self) -> PathBuf {
        self.home.state().join("index.lock")
    }
}

/// The index cannot be used or brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database; what it holds can always be made again.
    #[error(transparent)]
    Database(#[from] db::Error),
    /// A file or directory.
    #[error(transparent)]
    File(#[from] sys::Error),
    /// There are no vectors to search by.
    #[error("this build has no vectors to search by")]
    NoVectors,
}

impl Error {
    /// Returns true when making the index anew helps.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Database(db::Error::Damaged { .. } | db::Error::Newer { .. }) => true,
            Self::Database(db::Error::Failed { source, .. }) => is_torn(source),
            Self::Database(_) | Self::File(_) | Self::NoVectors => false,
        }
    }
}

/// Returns true for what SQLite does not call damage, and nothing else explains in this database: less
/// than a page where there should be one (its log or its file was taken away below a process that has
/// it open), a table or a value that is not of ours.
fn is_torn(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, QueryReturnedNoRows};
    use rusqlite::ErrorCode::{SchemaChanged, Unknown};
    match error {
        rusqlite::Error::SqliteFailure(code, _) => {
            code.extended_code == rusqlite::ffi::SQLITE_IOERR_SHORT_READ || matches!(code.code, Unknown | SchemaChanged)
        }
        rusqlite::Error::SqlInputError { .. } => true,
        error => matches!(
            error,
            InvalidColumnType(..) | FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | QueryReturnedNoRows
        ),
    }
}
