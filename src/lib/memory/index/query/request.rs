//! A search request: the question, its filter and its limits.

use std::ops::RangeInclusive;

use chrono::NaiveDate;

use super::passage;
use crate::config;
use crate::config::SearchStrategy;
use crate::memory::sources::Source;

/// Chunks that are scored for their words.
const CANDIDATES: usize = 80;
/// What a search uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Keywords and vectors; keywords alone without vectors.
    #[default]
    Hybrid,
    /// Keywords, and vectors only when these find little.
    FtsFirst,
    /// Keywords alone.
    Fts,
    /// Vectors alone.
    Vector,
}

/// Which chunks may be found; `None` is not a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Their scopes: `owner`, `person:<id>`, `chat:<key>`.
    pub scopes: Option<Vec<String>>,
    /// Their sources.
    pub sources: Option<Vec<Source>>,
    /// The type that the front matter of their file names.
    pub kind: Option<String>,
    /// One of the tags there.
    pub tag: Option<String>,
    /// Their days, counted from 1970-01-01: the date in the name of the file, else its last change; since when a fact
    /// holds; when a summary was written.
    pub days: RangeInclusive<u16>,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            scopes: None,
            sources: None,
            kind: None,
            tag: None,
            days: 0..=u16::MAX,
        }
    }
}

impl Filter {
    /// Returns the days from `after` to `before`, inclusive.
    pub fn days(after: Option<NaiveDate>, before: Option<NaiveDate>) -> RangeInclusive<u16> {
        let day = |date: NaiveDate| u16::try_from(date.to_epoch_days().max(0)).unwrap_or(u16::MAX);
        after.map_or(0, day)..=before.map_or(u16::MAX, day)
    }

    pub(crate) fn allows(&self, scope: &str, source: &str) -> bool {
        let by_scope = self
            .scopes
            .as_ref()
            .is_none_or(|scopes| scopes.iter().any(|one| one == scope));
        by_scope
            && self
                .sources
                .as_ref()
                .is_none_or(|sources| sources.iter().any(|one| one.as_str() == source))
    }
}

impl Strategy {
    /// Returns that of the settings; by themselves those who pay for each vector ask for one only when words do not
    /// suffice.
    pub fn of(memory: &config::Memory) -> Self {
        match (memory.strategy, memory.embeddings.server()) {
            (SearchStrategy::FtsFirst, _) | (SearchStrategy::Auto, Some(_)) => Self::FtsFirst,
            (SearchStrategy::Hybrid, _) | (SearchStrategy::Auto, None) => Self::Hybrid,
        }
    }
}

/// A search.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The question, or keywords.
    pub text: String,
    /// Results at most.
    pub k: usize,
    /// Chunks that are scored for their words; at least four a result.
    pub candidates: usize,
    /// Tokens of all results together at most, four characters each.
    pub max_tokens: Option<usize>,
    /// Characters of one result at most; it grows around the best line.
    pub max_chars: usize,
    /// Results below this score are left out.
    pub min_score: f32,
    /// Which chunks may be found.
    pub filter: Filter,
    /// What it uses.
    pub strategy: Strategy,
    /// The share of the vectors in a score, 0–1; `None` is the measured one of the embedder.
    pub share: Option<f32>,
    /// The asker's day, for words such as `yesterday`; `None` ignores them.
    pub today: Option<NaiveDate>,
}

impl Query {
    /// Returns a query for six results without limits.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            k: 6,
            candidates: CANDIDATES,
            max_tokens: None,
            max_chars: passage::MAX_CHARS,
            min_score: 0.0,
            filter: Filter::default(),
            strategy: Strategy::default(),
            share: None,
            today: None,
        }
    }
}
