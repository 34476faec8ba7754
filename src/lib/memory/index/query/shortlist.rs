//! The chunks to examine line by line: those found by words, and those found by vectors.

use std::collections::HashMap;
use std::thread;

use rusqlite::{Connection, OptionalExtension};

use super::candidates;
use super::candidates::{Term, Totals};
use super::query_vector::QueryVector;
use super::request::{Query, Strategy};
use crate::language::tokenize::Word;
use crate::memory::index::chunk_columns;
use crate::memory::index::chunk_columns::Blocks;
use crate::memory::index::vector_bytes;
use crate::memory::sources::Source;

/// Chunks whose vectors are compared exactly, of those that point nearly the same way: enough that the nearest
/// are among them (measured).
const COMPARED: usize = 200;
/// From so many chunks on finding those takes longer than telling another core to.
const MANY: usize = 32_768;
/// The share of the vectors in a score, and the chunks that are looked at closely because they are the nearest: by the
/// table, which knows little that the words do not say, and by a model. Measured, see docs/memory.md.
const BY_TABLE: (f32, usize) = (0.1, 20);
const BY_MODEL: (f32, usize) = (0.3, 30);

/// How many chunks are looked at closely.
pub(crate) struct Wanted {
    /// For their words; 0 where these do not count.
    pub by_words: usize,
    /// Because they are near; 0 without vectors.
    pub near: usize,
    /// The share of the vectors in a score.
    pub share: f32,
}

impl Wanted {
    pub(crate) fn of(query: &Query, vector: Option<&QueryVector<'_>>) -> Self {
        let most = query.candidates.max(query.k * 4);
        let by_words = query.strategy != Strategy::Vector;
        let (share, near) = match vector {
            None => (0.0, 0),
            Some(_) if !by_words => (1.0, most),
            Some(QueryVector { table: Some(_), .. }) => {
                (query.share.unwrap_or(BY_TABLE.0), BY_TABLE.1)
            }
            Some(_) => (query.share.unwrap_or(BY_MODEL.0), BY_MODEL.1),
        };
        Self {
            by_words: if by_words { most } else { 0 },
            near,
            share,
        }
    }
}

/// What was found.
pub(crate) struct Shortlist {
    pub terms: Vec<Term>,
    /// Chunks.
    pub ids: Vec<i64>,
    /// How near those are that vectors found.
    pub cosines: HashMap<i64, f32>,
    /// The share of the vectors in a score.
    pub share: f32,
}

/// Returns the chunks that words find, and those that vectors do.
pub(crate) fn shortlist(
    view: &Connection,
    blocks: &Blocks,
    words: Vec<(String, Word)>,
    query: &Query,
    vector: Option<&QueryVector<'_>>,
    totals: Totals,
) -> rusqlite::Result<Shortlist> {
    let (allowed, is_fact) = (blocks.allowed(&query.filter), blocks.facts());
    let wanted = Wanted::of(query, vector);
    let code = vector.map(|vector| chunk_columns::code(&vector.numbers));
    // Short texts are the nearest to everything: facts are found by their words, and by the words that state them.
    let only_facts = query.filter.sources.as_deref() == Some(&[Source::Fact]);
    let may_be_near = |id| allowed(id) && (only_facts || !is_fact(id));
    let by_codes = || {
        code.as_ref()
            .map(|code| blocks.nearest(code, COMPARED.max(wanted.near * 4), may_be_near))
    };
    let (near, found) = both(code.is_some() && blocks.len() >= MANY, by_codes, || {
        candidates::find(
            view,
            words,
            blocks,
            (&allowed, &is_fact),
            totals,
            wanted.by_words,
        )
    });
    let (terms, mut ids) = found?;
    let mut cosines = HashMap::new();
    if let (Some(vector), Some(near)) = (vector, near) {
        let mut near = cosines_of(view, near.into_iter(), &vector.numbers)?;
        near.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
        near.truncate(wanted.near);
        ids.extend(near.iter().map(|(id, _)| *id));
        cosines.extend(near);
        ids.sort_unstable();
        ids.dedup();
    }
    Ok(Shortlist {
        terms,
        ids,
        cosines,
        share: wanted.share,
    })
}

/// Returns what both return; `one` is done on another core where that `pays`, and there is a thread to be had.
fn both<A: Send, B>(pays: bool, one: impl Fn() -> A + Sync, other: impl FnOnce() -> B) -> (A, B) {
    thread::scope(|scope| {
        let one_there = pays
            .then(|| thread::Builder::new().spawn_scoped(scope, &one).ok())
            .flatten();
        let other = other();
        (
            one_there
                .and_then(|one| one.join().ok())
                .unwrap_or_else(&one),
            other,
        )
    })
}

/// Returns the cosines of chunks and `vector`; none for a chunk that has no vector of that model.
pub(crate) fn cosines_of(
    view: &Connection,
    ids: impl Iterator<Item = i64>,
    vector: &[f32],
) -> rusqlite::Result<Vec<(i64, f32)>> {
    let mut query = view.prepare_cached("SELECT numbers FROM vectors WHERE chunk = ?1")?;
    let mut found = Vec::new();
    for id in ids {
        let cosine = query
            .query_row([id], |row| {
                Ok(vector_bytes::cosine(row.get_ref(0)?.as_blob()?, vector))
            })
            .optional()?;
        found.extend(cosine.flatten().map(|cosine| (id, cosine)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_things_are_done_on_two_cores_only_where_that_pays() {
        let here = || thread::current().id();
        let (one, other) = both(true, here, here);
        assert!(one != other && other == here());
        assert_eq!(both(false, here, here), (here(), here()));
    }
}
