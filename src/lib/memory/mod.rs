//! What the agent remembers.
//!
//! ```text
//! workspace/MEMORY.md, memory/**/*.md, transcripts   the truth: plain files
//!   → index/        state/index.db, the search over them; may be deleted at any time
//!   → extract/, consolidate/ → facts/   state/memory.db, what they state, each with its place
//! ```
//! Every memory has a [`Scope`], and a turn sees only those of its [`Viewer`]. [`Memory`] is what the
//! daemon holds of all this.

pub mod consolidate;
pub mod embedder;
pub mod extract;
pub mod facts;
pub mod get;
pub mod index;
pub mod items;
pub mod recall;
mod scope;
mod sources;

pub use scope::{JOINED, Scope, Viewer};

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use index::{Filter, Found, Place, Query, Searcher};
use recall::Facts;

use crate::config::Home;
use crate::embed::Opener;
use crate::message::{Role, Trust};
use crate::session::{Kind, Spoken};

/// The configured name of the provider without a model. What it says are quotations and phrases of its
/// own: found again, they would be taken for knowledge.
const WITHOUT_MODEL: &str = "offline";

/// Returns true for the call with which an order to remember becomes a note where no model has a part:
/// the whole message is the note then, and who corrects the note has corrected it.
fn keeps_a_note(spoken: &Spoken) -> bool {
    spoken.model.as_deref() == Some(WITHOUT_MODEL) && spoken.tool_calls().any(|call| call.name == "memory_write")
}

/// Returns true for what the owner said.
fn is_the_owners(spoken: &Spoken) -> bool {
    spoken.role == Role::User && spoken.about.is_none() && spoken.trust == Some(Trust::Owner)
}

/// What becomes of the words of single runs, when a transcript is gone through.
#[derive(Debug, Default)]
struct Runs {
    /// Others' words are in them: what was said there is not the owner's.
    of_others: HashSet<String>,
    /// Somebody else's words were read in them: what the agent said there is not the owner's.
    read_others: HashSet<String>,
    /// They became a note, which says it, and may be corrected or deleted.
    noted: HashSet<String>,
    /// Whether the owner spoke in any.
    owner_spoke: bool,
}

impl Runs {
    /// Takes in an event, in order.
    fn take(&mut self, kind: &Kind) {
        match kind {
            Kind::Message(spoken) => {
                self.owner_spoke |= is_the_owners(spoken);
                if spoken.trust == Some(Trust::Other) {
                    self.of_others.insert(spoken.run_id.clone());
                }
                if keeps_a_note(spoken) {
                    self.noted.insert(spoken.run_id.clone());
                }
            }
            Kind::ToolResult { run_id, result, .. } if result.is_error || result.untrusted => {
                if result.untrusted {
                    self.read_others.insert(run_id.clone());
                }
                if result.is_error {
                    self.noted.remove(run_id);
                }
            }
            Kind::Session(_)
            | Kind::ToolCall { .. }
            | Kind::ToolResult { .. }
            | Kind::Compaction(_)
            | Kind::Flush { .. }
            | Kind::Pin { .. }
            | Kind::Unpin { .. }
            | Kind::Setting { .. }
            | Kind::Error { .. }
            | Kind::Unknown => {}
        }
    }
}

/// How far a run over the memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Files, or files and conversations, that were looked at.
    pub done: usize,
    /// All of them.
    pub total: usize,
}

/// Passages that are recalled at most.
const RECALLED: usize = 5;
/// Characters of one at most: what is needed in full is read by its path.
const MAX_RECALLED: usize = 600;
/// Passages below this score are not recalled (specification §12).
const MIN_SCORE: f32 = 0.35;
/// A passage without any word of the message is recalled from this cosine on.
const ALONE: f32 = 0.6;
/// Characters of a message that are searched for.
const MAX_QUERY: usize = 1_000;

/// The memory of one agent, for a process that stays. All its work is blocking.
pub struct Memory {
    place: Place,
    searcher: Mutex<Searcher>,
    facts: Mutex<Facts>,
    wake: tokio::sync::Notify,
}

impl Memory {
    /// Returns the memory of `home`; nothing of it need be there yet.
    pub fn new(home: &Home) -> Self {
        let place = Place::of(home);
        Self {
            searcher: Mutex::new(Searcher::new(&place)),
            place,
            facts: Mutex::new(Facts::new(home)),
            wake: tokio::sync::Notify::new(),
        }
    }

    /// Returns it with what makes vectors; without, it is searched by words alone.
    #[must_use]
    pub fn with(self, opener: Opener) -> Self {
        let place = self.place.with(opener);
        Self { searcher: Mutex::new(Searcher::new(&place)), place, ..self }
    }

    /// Returns whose memory it is.
    pub fn home(&self) -> &Home {
        self.place.home()
    }

    /// Returns what `query` finds of what `viewer` may see.
    ///
    /// # Errors
    /// As [`Searcher::search`].
    pub fn search(&self, viewer: &Viewer, query: Query) -> Result<Found, index::Error> {
        let scopes = viewer.scopes().iter().map(Scope::to_string).collect();
        let query = Query { filter: Filter { scopes: Some(scopes), ..query.filter }, ..query };
        self.searcher.lock().unwrap_or_else(PoisonError::into_inner).search(&query)
    }

    /// Returns what goes before a message that says `words`; `first` is true when it begins a
    /// conversation, and `known` says what that has already. Trouble is logged: nobody waits for an
    /// answer because the memory is ill.
    pub fn recall(&self, viewer: &Viewer, words: &str, first: bool, known: impl Fn(&str) -> bool) -> Option<String> {
        let words = crate::text::head(words, MAX_QUERY);
        if words.trim().is_empty() {
            return None;
        }
        let tokens = usize::try_from(recall::BUDGET).unwrap_or(usize::MAX);
        let query = Query {
            k: RECALLED,
            min_score: MIN_SCORE,
            max_tokens: Some(tokens),
            max_chars: MAX_RECALLED,
            ..Query::new(recall::telling(words))
        };
        let mut found = self.search(viewer, query).unwrap_or_else(|error| {
            tracing::warn!(%error, "nothing was recalled");
            Found::default()
        });
        // Nobody asked for these: what only resembles the message stays away.
        found.hits.retain(|hit| !hit.matched.is_empty() || hit.vector_score.is_some_and(|cosine| cosine >= ALONE));
        let facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner).bearing_on(words, first, viewer);
        let facts = facts.unwrap_or_else(|error| {
            tracing::warn!(%error, "no fact was recalled");
            Vec::new()
        });
        recall::compose(&facts, &found.hits, known)
    }

    /// Brings the index up to date; false when another process is at it, and may have missed
    /// something.
    pub fn refresh(&self) -> bool {
        match index::sync(&self.place, index::Mode::default(), &mut |_| {}) {
            Ok(index::Outcome::Done(report)) => {
                if let Some(why) = report.vectors.failed {
                    tracing::warn!(why, "not everything in the index has a vector");
                }
                for skipped in report.skipped {
                    tracing::warn!(path = skipped.path, why = skipped.why, "a memory file was left out of the index");
                }
            }
            Ok(index::Outcome::Busy(_)) => return false,
            Err(error) => tracing::warn!(%error, "the index is not up to date"),
        }
        true
    }

    /// Draws facts from what was written down and said; false when that did not work, or another process is at
    /// it. Trouble is logged.
    pub fn consolidate(&self) -> bool {
        match consolidate::run(self.home(), consolidate::Options::default(), &mut |_| {}) {
            Ok(outcome) => matches!(outcome, consolidate::Outcome::Done(_)),
            Err(error) => {
                tracing::warn!(%error, "no facts were drawn");
                false
            }
        }
    }

    /// Says that there is something new to be indexed and consolidated; [`Memory::news`] hears it.
    pub fn tell_news(&self) {
        self.wake.notify_one();
    }

    /// Waits for something new.
    pub async fn news(&self) {
        self.wake.notified().await;
    }
}
