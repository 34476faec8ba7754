//! The search index over memory files, conversations and facts.
//!
//! ```text
//! MEMORY.md, memory/**/*.md, sessions/archive/*.jsonl
//!   → build/   sync (what changed?) → document (lines, headings, speakers) → chunk (1,600 characters)
//!              → rows (stemmed words) → state/index.db → vectors (the missing ones)
//! query → query/   shortlist (chunks, by keywords: candidates, and by vectors: chunk_columns) → rank (scores of lines; similar
//!              words: semantic; bonuses: line_signals, date_mentions) → passage → Hit
//! ```
//! `index.db` is made from files alone: it may be deleted at any time, even during a search. `schema.rs` has its tables.
//! `index.lock` is held while it is brought up to date; `index.doubt` says that a reader met damage.

pub mod build;
mod chunk_columns;
mod damage_note;
mod erase;
pub mod query;
mod schema;
mod status;
mod vector_bytes;

pub use super::sources::Source;
pub(super) use build::document::Document;
pub(super) use build::rows::chunk_rows;
pub(crate) use build::rows::{Text, texts_of};
pub use build::sync::{Mode, Outcome, Report, sync};
pub use build::vectors::Made;
pub(super) use build::vectors::embed;
#[cfg(any(test, fuzzing))]
pub(crate) use chunk_columns::check_row;
pub(super) use chunk_columns::day_of;
pub use erase::{holds, remove};
pub use query::passage::MAX_CHARS;
pub use query::request::{Filter, Query, Strategy};
pub use query::search::{Found, Hit, Searcher, search};
pub(super) use schema::{ROWS, rules, unpack};
pub use status::{Status, examine, lack, status};

use std::path::PathBuf;

use crate::config::Home;
use crate::embedding;
use crate::embedding::{Embedder, Opener};
use crate::{db, sys};

/// The home of an index, and its embedder.
#[derive(Clone)]
pub struct Place {
    home: Home,
    opener: Option<Opener>,
}

impl Place {
    /// Returns the index of `home`, with keyword search only.
    pub fn of(home: &Home) -> Self {
        Self {
            home: home.clone(),
            opener: None,
        }
    }

    /// Returns it with an embedder.
    pub fn with(self, opener: Opener) -> Self {
        Self {
            opener: Some(opener),
            ..self
        }
    }

    /// Returns the home.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Opens the embedder; `None` without one.
    ///
    /// # Errors
    /// See [`embedding::Error`].
    pub(crate) fn embedder(&self) -> Result<Option<Embedder>, embedding::Error> {
        self.opener.as_ref().map_or(Ok(None), |open| open())
    }

    /// Returns the database.
    pub fn database(&self) -> PathBuf {
        self.home.state().join("index.db")
    }

    /// Returns the lock file of a run.
    pub fn lock(&self) -> PathBuf {
        self.home.state().join("index.lock")
    }

    /// Notes that a reader met damage: the next run checks the index.
    pub fn doubt(&self) {
        damage_note::leave(self);
    }
}

/// The index cannot be used or brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database, which can always be rebuilt.
    #[error(transparent)]
    Database(#[from] db::Error),
    /// A file or directory.
    #[error(transparent)]
    File(#[from] sys::Error),
    /// There are no vectors to search by, and why.
    #[error("there are no vectors to search by: {0}")]
    NoVectors(String),
}

impl Error {
    /// Returns true when rebuilding the index helps.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Database(db::Error::Damaged { .. } | db::Error::Newer { .. }) => true,
            Self::Database(db::Error::Failed { source, .. }) => is_torn(source),
            Self::Database(_) | Self::File(_) | Self::NoVectors(_) => false,
        }
    }
}

/// Returns true for errors that SQLite does not call damage but have no other cause in this database: a page is cut short
/// (its file or log was removed while it was open), or a table or value is not ours.
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
