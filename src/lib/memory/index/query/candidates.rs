//! Selects the chunks to examine: those with the largest share of the query's weight.
//!
//! A chunk with all words comes first, then those that lack only frequent ones: the results of "AND, else OR" in one list.

use rusqlite::Connection;
use rusqlite::functions::{Aggregate, Context, FunctionFlags};

use super::top_k::TopK;
use crate::db::Statements;
use crate::language::tokenize::Word;
use crate::memory::index::chunk_columns::Blocks;

/// More words of a query are not looked for.
pub(crate) const MAX_WORDS: usize = 32;

/// Chunks that are taken for there without any of the words: where little is remembered a word that
/// is in all of it still says something, and one that is nowhere does not say everything.
const AT_LEAST: f32 = 300.0;

/// Words of a fact.
const FACT: f32 = 8.0;

/// What the index holds of texts, for averages.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Totals {
    pub files: f32,
    pub chunks: f32,
    pub units: f32,
    pub words: f32,
}

/// A word of the query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Term {
    /// As it is in the query, folded.
    pub raw: String,
    pub word: Word,
    /// What it says: the logarithm of how rare it is among chunks.
    pub weight: f32,
}

pub(crate) fn totals(connection: &Connection) -> rusqlite::Result<Totals> {
    let sql = "SELECT files, chunks - facts, units, words FROM totals";
    let totals = connection.one(sql, [], |row| {
        Ok(Totals {
            files: row.get(0)?,
            chunks: row.get(1)?,
            units: row.get(2)?,
            words: row.get(3)?,
        })
    })?;
    // Where there is nothing but facts, a text is as long as one.
    Ok(if totals.chunks > 0.0 {
        totals
    } else {
        Totals {
            files: 1.0,
            chunks: 1.0,
            units: 1.0,
            words: FACT,
        }
    })
}

/// Returns the terms of a query, and the chunks that are `allowed`, the best first, of equals those of the latest day:
/// at most `limit`, and of facts a quarter of that, so that they take no other's place.
///
/// Words that are in more than half of all chunks find nothing alone: they only help to rank.
pub(crate) fn find(
    connection: &Connection,
    words: Vec<(String, Word)>,
    blocks: &Blocks,
    (allowed, is_fact): (impl Fn(usize) -> bool, impl Fn(usize) -> bool),
    totals: Totals,
    limit: usize,
) -> rusqlite::Result<(Vec<Term>, Vec<i64>)> {
    let mut sums = vec![0.0_f32; blocks.len()];
    let mut query = connection
        .prepare_cached("SELECT listed(rowid) FROM chunks_fts WHERE chunks_fts MATCH ?1")?;
    let mut terms = Vec::with_capacity(words.len());
    let mut frequent = Vec::new();
    for (raw, word) in words.into_iter().take(MAX_WORDS) {
        let ids: Vec<usize> = query.query_row([format!("\"{}\"", word.text)], |row| {
            Ok(unlisted(row.get_ref(0)?.as_blob()?))
        })?;
        let texts = ids.iter().filter(|id| !is_fact(**id)).count();
        let weight = weight(texts, totals.chunks);
        if is_frequent(texts, totals.chunks) {
            frequent.push((ids, weight));
        } else {
            add(&mut sums, &ids, weight);
        }
        terms.push(Term { raw, word, weight });
    }
    if frequent.len() == terms.len() {
        frequent
            .iter()
            .for_each(|(ids, weight)| add(&mut sums, ids, *weight));
    }
    let (mut texts, mut facts) = (TopK::new(limit, blocks), TopK::new(limit / 4, blocks));
    for (sum, id) in sums.into_iter().zip(0..).filter(|(sum, _)| *sum > 0.0) {
        let best = if is_fact(id) { &mut facts } else { &mut texts };
        if best.accepts(sum) && allowed(id) {
            best.push(sum, id);
        }
    }
    let best = texts.in_order().chain(facts.in_order()).collect();
    Ok((terms, best))
}

/// Makes a connection one that [`find`] can ask.
pub(crate) fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_aggregate_function("listed", 1, flags, Listed)
}

/// The aggregate `listed`: ids as bytes, four each, the lowest first. Stepping through rows takes twice as long.
struct Listed;

impl Aggregate<Vec<u8>, Vec<u8>> for Listed {
    fn init(&self, _context: &mut Context<'_>) -> rusqlite::Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn step(&self, context: &mut Context<'_>, list: &mut Vec<u8>) -> rusqlite::Result<()> {
        // No chunk has a number that four bytes cannot say: its text alone would be four terabytes.
        let id = u32::try_from(context.get::<i64>(0)?).unwrap_or(0);
        list.extend(id.to_le_bytes());
        Ok(())
    }

    fn finalize(
        &self,
        _context: &mut Context<'_>,
        list: Option<Vec<u8>>,
    ) -> rusqlite::Result<Vec<u8>> {
        Ok(list.unwrap_or_default())
    }
}

fn unlisted(bytes: &[u8]) -> Vec<usize> {
    let ids = bytes.as_chunks::<4>().0.iter();
    ids.map(|id| usize::try_from(u32::from_le_bytes(*id)).unwrap_or(0))
        .collect()
}

fn add(sums: &mut [f32], ids: &[usize], weight: f32) {
    for id in ids {
        if let Some(sum) = sums.get_mut(*id) {
            *sum += weight;
        }
    }
}

/// Returns what a word says that is in so many of all chunks.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of chunks; the weight is a logarithm of them"
)]
pub(crate) fn weight(found: usize, chunks: f32) -> f32 {
    let found = (found as f32).min(chunks);
    let chunks = chunks + AT_LEAST;
    (1.0 + (chunks - found + 0.5) / (found + 0.5)).ln()
}

/// Returns true for a word that finds nothing alone.
#[expect(clippy::cast_precision_loss, reason = "counts of chunks")]
pub(crate) fn is_frequent(found: usize, chunks: f32) -> bool {
    // In a small index every word is in half of it.
    chunks > 100.0 && found as f32 > chunks / 2.0
}
