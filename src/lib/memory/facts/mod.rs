//! `memory.db`: facts, their sources, and how far the sources were processed.
//!
//! | table | content |
//! |---|---|
//! | `facts` | one current value for each scope, entity and attribute; former values with their periods |
//! | `fact_sources` | where a fact was stated: file or message, line, the text |
//! | `consolidation_state` | how far each conversation was processed, and by whom it is claimed |
//! | `consolidation_file_hashes` | the content of each file when it was processed, and by whom it is claimed |
//! | `spans` | processed spans, and how many facts they changed |
//! | `parked` | spans of conversations that no model could process |
//! | `source_log` | the changes of each run to the sources, for undo; what was undone in conversations |
//! | `episodes` | what happened in a span of a conversation |
//! | `commitments` | what was promised, by whom, until when, and whether it was kept |
//! | `forgotten` | what the owner had forgotten, whatever states it |
//!
//! Facts depend on their sources: [`store::restate`] records what a file or a span of a conversation states now, and the
//! facts are derived from all sources together, see `supersede.rs`. `memory::consolidate` writes; any process may read at
//! any time.

mod aliases;
pub mod commitments;
pub mod episodes;
mod erase;
mod forgotten;
mod normalize;
mod queries;
mod rows;
mod run_log;
mod schema;
pub(crate) mod store;
mod supersede;

pub(crate) use aliases::ALIAS;
pub(crate) use erase::{Evidence, erase, evidence};
pub use forgotten::{Forgot, Person, Target};
pub(crate) use forgotten::{forget, is_word_too, names_by_word};
pub(crate) use normalize::{Key, folded, value_key};
pub use queries::{Filter, Meant, find, list, why};
pub(crate) use queries::{Places, Reader, Stated};
pub(crate) use run_log::{UNDONE, undo};
pub use schema::{examine, migrate};
pub(crate) use schema::{in_memory, memory_copy, open, open_read, transact};

use std::path::PathBuf;

use super::scope::Scope;
use crate::config::Home;
use crate::{db, sys, text};

/// Returns the database of `home`.
pub fn database(home: &Home) -> PathBuf {
    home.state().join("memory.db")
}

/// What is known of somebody or something. Times are milliseconds since 1970 UTC.
#[derive(Debug, Clone, PartialEq)]
pub struct Fact {
    /// Never used twice; 0 until it is stored.
    pub(crate) id: i64,
    pub(crate) scope: Scope,
    /// `user` is the person of the scope.
    pub(crate) entity: String,
    pub(crate) attribute: String,
    pub(crate) value: String,
    /// That of its best source, 0.6–1.
    pub(crate) confidence: f64,
    /// The file where it was stated last, as printed; where that lies now.
    pub(crate) source: String,
    /// From 1.
    pub(crate) source_line: i64,
    pub(crate) valid_from: i64,
    /// `None` for a current one.
    pub(crate) valid_to: Option<i64>,
    pub(crate) superseded_by: Option<i64>,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    /// When it was found to hold no longer.
    pub(crate) invalidated_at: Option<i64>,
    /// Whether it ended because the owner wanted it forgotten.
    pub(crate) is_forgotten: bool,
}

impl Fact {
    /// Returns what it says, for a person: `Ana birthday: 3 May`. Others may have chosen the words, so nothing of
    /// them moves a terminal.
    pub fn said(&self) -> String {
        crate::text::visible(&format!(
            "{} {}: {}",
            self.entity, self.attribute, self.value
        ))
    }

    /// Returns it as text on one line: `Ana: lives in Porto`.
    pub fn words(&self) -> String {
        let words = format!("{}: {} {}", self.entity, self.attribute, self.value);
        text::one_line(&words)
    }

    /// Returns true when it is current.
    pub fn is_current(&self) -> bool {
        self.valid_to.is_none()
    }

    /// Returns true when it says something else of what another fact is about.
    pub fn is_replaced_by(&self, entity: &str, attribute: &str, value: &str) -> bool {
        self.key() == Key::new(&self.scope, entity, attribute, value)
            && normalize::value_key(&self.value) != normalize::value_key(value)
    }

    pub(crate) fn key(&self) -> Key {
        Key::new(&self.scope, &self.entity, &self.attribute, &self.value)
    }
}

/// Where a fact was stated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file as printed; where it lies now.
    pub(crate) path: String,
    /// From 1.
    pub(crate) line: i64,
    /// The conversation, for what was said, and the event in it.
    pub(crate) session_id: Option<String>,
    pub(crate) seq: Option<i64>,
    pub(crate) quote: String,
    /// When it was first stated there, milliseconds since 1970 UTC.
    pub(crate) at: i64,
}

/// What changed among the current facts.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// There was none before.
    New(Fact),
    /// Another value took its place.
    Superseded {
        /// What was current.
        old: Box<Fact>,
        /// What is.
        new: Box<Fact>,
    },
    /// Nothing states it any more.
    Gone(Fact),
}

impl Change {
    /// Returns how many of `changes` are new, superseded and gone.
    pub(crate) fn counts(changes: &[Self]) -> [usize; 3] {
        let count = |is: fn(&Self) -> bool| changes.iter().filter(|change| is(change)).count();
        [
            count(|change| matches!(change, Self::New(_))),
            count(|change| matches!(change, Self::Superseded { .. })),
            count(|change| matches!(change, Self::Gone(_))),
        ]
    }
}

/// Facts cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database.
    #[error(transparent)]
    Database(#[from] db::Error),
    /// A file or directory.
    #[error(transparent)]
    File(#[from] sys::Error),
}

impl Error {
    /// Returns true when the database is damaged; the files it was made from are not.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Database(db::Error::Damaged { .. }))
    }
}

#[cfg(test)]
mod tests;
