//! The search index: what stands in memory files and ended conversations, found by its words.
//!
//! ```text
//! MEMORY.md, memory/**/*.md, sessions/archive/*.jsonl
//!   → sources (which files, changed?) → document (lines, headings, who spoke)
//!   → chunk (1,600 characters) → words (stems) → state/index.db
//!   → vectors (missing ones are made)
//! query → words, ask (its vector) → candidates (chunks_fts, blocks) → rank (line, neighbourhood, chunk, file; words
//!   that mean the same: meaning; who speaks and when: cues) → passage → Hit
//! ```
//! `index.db` is made from those files alone: it may be deleted at any time, also while somebody
//! searches. Its tables stand in `schema.rs`. `index.lock` is held while it is brought up to date;
//! `index.doubt` says that a reader met damage.

mod blocks;
pub mod build;
mod damage_note;
mod erase;
pub mod query;
mod schema;
mod status;
mod vector_bytes;

pub use super::sources::Source;
pub(crate) use build::rows::{Text, texts_of};
pub use build::sync::{Mode, Outcome, Report, sync};
pub use build::vectors::Made;
pub use erase::{holds, remove};
pub use query::passage::MAX_CHARS;
pub use query::request::{Filter, Query, Strategy};
pub use query::search::{Found, Hit, Searcher, search};
pub use status::{Status, examine, lack, status};

use std::path::PathBuf;

use crate::config::Home;
use crate::embedding;
use crate::embedding::{Embedder, Opener};
use crate::{db, sys};

/// Where the index and its sources lie, and what makes vectors of them.
#[derive(Clone)]
pub struct Place {
    home: Home,
    opener: Option<Opener>,
}

impl Place {
    /// Returns the place of the index of `home`, which is searched by words alone.
    pub fn of(home: &Home) -> Self {
        Self {
            home: home.clone(),
            opener: None,
        }
    }

    /// Returns it with what makes vectors.
    pub fn with(self, opener: Opener) -> Self {
        Self {
            opener: Some(opener),
            ..self
        }
    }

    /// Returns whose index it is.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Returns what makes vectors, `None` for nothing.
    fn embedder(&self) -> Result<Option<Embedder>, embedding::Error> {
        self.opener.as_ref().map_or(Ok(None), |open| open())
    }

    /// Returns the database.
    pub fn database(&self) -> PathBuf {
        self.home.state().join("index.db")
    }

    /// Returns the file that is locked while the index is brought up to date.
    pub fn lock(&self) -> PathBuf {
        self.home.state().join("index.lock")
    }

    /// Notes that a reader met damage: the next run reads the index through and makes it anew.
    pub fn doubt(&self) {
        damage_note::leave(self);
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
    /// There are no vectors to search by: why.
    #[error("there are no vectors to search by: {0}")]
    NoVectors(String),
}

impl Error {
    /// Returns true when making the index anew helps.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Database(db::Error::Damaged { .. } | db::Error::Newer { .. }) => true,
            Self::Database(db::Error::Failed { source, .. }) => is_torn(source),
            Self::Database(_) | Self::File(_) | Self::NoVectors(_) => false,
        }
    }
}

/// Returns true for what SQLite does not call damage, and nothing else explains in this database: less
/// than a page where there should be one (its log or its file was taken away below a process that has
/// it open), a table or a value that is not of ours.
fn is_torn(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{
        FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, QueryReturnedNoRows,
    };
    use rusqlite::ErrorCode::{SchemaChanged, Unknown};
    match error {
        rusqlite::Error::SqliteFailure(code, _) => {
            code.extended_code == rusqlite::ffi::SQLITE_IOERR_SHORT_READ
                || matches!(code.code, Unknown | SchemaChanged)
        }
        rusqlite::Error::SqlInputError { .. } => true,
        error => matches!(
            error,
            InvalidColumnType(..)
                | FromSqlConversionFailure(..)
                | IntegralValueOutOfRange(..)
                | QueryReturnedNoRows
        ),
    }
}
