//! Search: turns a query into ranked passages.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;

use chrono::NaiveDate;
use rusqlite::Connection;

use super::candidates;
use super::candidates::{Term, Totals};
use super::line_signals::LineSignals;
use super::passage;
use super::passage::{Limits, Passage, Seed};
use super::query_vector::{QueryEmbedder, QueryVector};
use super::rank;
use super::rank::{Chunk, Mix, Ranked};
use super::request::{Filter, Query, Strategy};
use super::semantic::Meaning;
use super::shortlist::{Shortlist, cosines_of, shortlist};
use super::{date_mentions, evidence};
use crate::db;
use crate::db::Statements;
use crate::language::tokenize::{Word, Words};
use crate::memory::index::chunk_columns;
use crate::memory::index::chunk_columns::Blocks;
use crate::memory::index::schema;
use crate::memory::index::{Error, Place};
use crate::memory::sources::Source;

/// Keyword hits with which [`Strategy::FtsFirst`] needs no vectors (specification §12).
pub(crate) const ENOUGH: usize = 3;

/// A passage that was found.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Hit {
    /// Its file: `workspace/…` or `state/…`.
    pub path: String,
    /// Its first line, from 1.
    pub start_line: u32,
    /// Its last line.
    pub end_line: u32,
    /// Its source.
    pub source: String,
    /// Its relevance, 0–1; comparable across queries.
    pub score: f32,
    /// The cosine of its best line, 0–1; `None` without vectors.
    pub vector_score: Option<f32>,
    /// How much of the query's words it has, see `rank.rs`.
    pub text_score: Option<f32>,
    /// Its text.
    pub text: String,
    /// Its scope.
    #[serde(skip)]
    pub scope: String,
    /// The type that its front matter names; empty without one.
    #[serde(skip)]
    pub kind: String,
    /// When it was written, milliseconds since 1970 UTC; 0 when nobody knows.
    #[serde(skip)]
    pub time: i64,
    /// The words of the query in it, stemmed.
    #[serde(skip)]
    pub matched: Vec<String>,
}

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// The best first.
    pub hits: Vec<Hit>,
    /// The words that were searched for, stemmed, with their weights.
    pub words: Vec<(String, f32)>,
    /// False when nothing was ever indexed.
    pub indexed: bool,
    /// Why vectors were not used, although the strategy uses them.
    pub without_vectors: Option<String>,
}

/// Searches once.
///
/// # Errors
/// As [`Searcher::search`].
pub fn search(place: &Place, query: &Query) -> Result<Found, Error> {
    Searcher::new(place).search(query)
}

/// Keeps the database open between searches, and opens it again when it was rebuilt.
pub struct Searcher {
    place: Place,
    words: Words,
    embedder: QueryEmbedder,
    open: Option<Open>,
}

/// An open database, and which file it is: device and number.
struct Open {
    connection: Connection,
    identity: (u64, u64),
    blocks: Blocks,
}

impl Searcher {
    /// Returns a searcher; the database need not exist yet.
    pub fn new(place: &Place) -> Self {
        Self {
            place: place.clone(),
            words: Words::new(),
            embedder: QueryEmbedder::new(place),
            open: None,
        }
    }

    /// Returns what `query` finds; nothing without an index. Damage is noted for the next run of the index.
    ///
    /// # Errors
    /// [`Error::NoVectors`] for [`Strategy::Vector`] without vectors, else when the database is damaged.
    pub fn search(&mut self, query: &Query) -> Result<Found, Error> {
        self.find(query).inspect_err(|error| {
            if error.is_damage() {
                self.place.doubt();
            }
        })
    }

    fn find(&mut self, query: &Query) -> Result<Found, Error> {
        let path = self.place.database();
        let words = self.words.of_question(&query.text);
        self.open()?;
        let Some(open) = &mut self.open else {
            return Ok(Found::default());
        };
        let failed = |error| Error::from(db::Error::of(&path, error));
        if format_differs(&open.connection).map_err(failed)? {
            return Ok(Found::default());
        }
        let mut strategy = query.strategy;
        if strategy == Strategy::FtsFirst {
            let found = run(open, &mut self.words, words.clone(), query, None).map_err(failed)?;
            if found.hits.len() >= ENOUGH {
                return Ok(found);
            }
            strategy = Strategy::Hybrid;
        }
        let model = chunk_columns::state(&open.connection)
            .map_err(failed)?
            .model;
        let vector = match strategy {
            Strategy::Fts => Ok(None),
            Strategy::Hybrid | Strategy::FtsFirst | Strategy::Vector => {
                self.embedder.vector(&query.text, &model).map(Some)
            }
        };
        match vector {
            Err(why) if strategy == Strategy::Vector => Err(Error::NoVectors(why)),
            Err(why) => {
                let found = run(open, &mut self.words, words, query, None).map_err(failed)?;
                Ok(Found {
                    without_vectors: Some(why),
                    ..found
                })
            }
            Ok(vector) => run(open, &mut self.words, words, query, vector).map_err(failed),
        }
    }

    fn open(&mut self) -> Result<(), Error> {
        let path = self.place.database();
        let identity = db::identity(&path)?;
        if self.open.as_ref().map(|open| open.identity) != identity {
            // Its log has the same name as the next one's.
            if let Some(stale) = self.open.take() {
                db::abandon(stale.connection);
            }
        }
        if self.open.is_none()
            && let Some(identity) = identity
            && let Some(connection) = db::open_read(&path)?
        {
            candidates::prepare(&connection).map_err(|error| db::Error::of(&path, error))?;
            self.open = Some(Open {
                connection,
                identity,
                blocks: Blocks::default(),
            });
        }
        Ok(())
    }
}

/// A row of `files`.
pub(crate) struct File {
    pub path: String,
    pub source: String,
    pub scope: String,
    pub time: i64,
    pub kind: String,
    /// How many it has.
    pub words: f32,
}

impl File {
    /// Returns true when it comes from `source`.
    pub(crate) fn is(&self, source: Source) -> bool {
        self.source == source.as_str()
    }
}

/// The files of the chunks that were loaded, by id.
pub(crate) type Files = HashMap<i64, File>;

fn run(
    open: &mut Open,
    known: &mut Words,
    words: Vec<(String, Word)>,
    query: &Query,
    vector: Option<QueryVector<'_>>,
) -> rusqlite::Result<Found> {
    // One view of the database, whoever writes meanwhile.
    let view = open.connection.unchecked_transaction()?;
    let blocks = &mut open.blocks;
    blocks.refresh(&view)?;
    blocks.choose(&view, &query.filter)?;
    let totals = candidates::totals(&view)?;
    let (allowed, is_fact) = (blocks.allowed(&query.filter), blocks.facts());
    let found = shortlist(&view, blocks, words, query, vector.as_ref(), totals)?;
    let mut source = Rows {
        view: &view,
        allowed: |id: i64| usize::try_from(id).is_ok_and(&allowed),
        is_fact: |id: i64| usize::try_from(id).is_ok_and(&is_fact),
    };
    examine(found, totals, query, (vector, known), &mut source)
}

/// Where chunks are read from, whatever database that is.
pub(crate) trait ChunkSource {
    type Error;

    /// Returns these chunks, and those that belong to them, and adds their files.
    fn chunks(&mut self, ids: &[i64], files: &mut Files) -> Result<Vec<Chunk>, Self::Error>;

    /// Returns those of the chunks that may be found because they are next to others, and adds their files.
    fn beside(&mut self, ids: Vec<i64>, files: &mut Files) -> Result<Vec<Chunk>, Self::Error>;

    /// Returns the cosines of chunks and `vector`; none for a chunk without a vector.
    fn cosines(&mut self, ids: &[i64], vector: &[f32]) -> Result<Vec<(i64, f32)>, Self::Error>;
}

/// The rows of the own index.
struct Rows<'a, A, F> {
    view: &'a Connection,
    allowed: A,
    is_fact: F,
}

impl<A: Fn(i64) -> bool, F: Fn(i64) -> bool> ChunkSource for Rows<'_, A, F> {
    type Error = rusqlite::Error;

    fn chunks(&mut self, ids: &[i64], files: &mut Files) -> rusqlite::Result<Vec<Chunk>> {
        let mut chunks = load(self.view, ids, files)?;
        let mut stating = evidence::stating_chunks(self.view, &chunks, files)?;
        stating.retain(|id| !ids.contains(id) && (self.allowed)(*id));
        chunks.extend(load(self.view, &stating, files)?);
        Ok(chunks)
    }

    fn beside(&mut self, mut ids: Vec<i64>, files: &mut Files) -> rusqlite::Result<Vec<Chunk>> {
        ids.retain(|id| (self.allowed)(*id) && !(self.is_fact)(*id));
        load(self.view, &ids, files)
    }

    fn cosines(&mut self, ids: &[i64], vector: &[f32]) -> rusqlite::Result<Vec<(i64, f32)>> {
        cosines_of(self.view, ids.iter().copied(), vector)
    }
}

/// Looks closely at what is on the list, and returns what of it is found.
pub(crate) fn examine<S: ChunkSource>(
    list: Shortlist,
    totals: Totals,
    query: &Query,
    (vector, known): (Option<QueryVector<'_>>, &mut Words),
    source: &mut S,
) -> Result<Found, S::Error> {
    let Shortlist {
        terms,
        ids,
        mut cosines,
        share,
    } = list;
    // Without keywords, words that are similar to them do not count either.
    let similar = match query.strategy {
        Strategy::Vector => &[],
        _ => terms.as_slice(),
    };
    let mut meaning = vector.map(|vector| Meaning::new(vector, similar));
    let mut files = Files::new();
    let chunks = source.chunks(&ids, &mut files)?;
    if let Some(meaning) = meaning.as_ref().filter(|meaning| !meaning.knows_lines()) {
        // Those that were found by keywords.
        let ids = chunks.iter().map(|chunk| chunk.id);
        let others: Vec<i64> = ids.filter(|id| !cosines.contains_key(id)).collect();
        cosines.extend(source.cosines(&others, meaning.vector())?);
    }
    let looked_at = LookedAt {
        chunks,
        files,
        terms,
        totals,
        cosines,
        share,
    };
    order(
        looked_at,
        query,
        (meaning.as_mut(), known),
        |beside, files| source.beside(beside, files),
    )
}

/// What is looked at closely.
struct LookedAt {
    chunks: Vec<Chunk>,
    files: Files,
    terms: Vec<Term>,
    totals: Totals,
    /// How near those chunks are whose vectors were looked up.
    cosines: HashMap<i64, f32>,
    /// The share of the vectors in a score.
    share: f32,
}

/// Returns what of it is found. `load_beside` reads those of the chunks that may be found, and adds their files.
fn order<E>(
    looked_at: LookedAt,
    query: &Query,
    (meaning, known): (Option<&mut Meaning<'_>>, &mut Words),
    load_beside: impl FnOnce(Vec<i64>, &mut Files) -> Result<Vec<Chunk>, E>,
) -> Result<Found, E> {
    let LookedAt {
        mut chunks,
        mut files,
        terms,
        totals,
        cosines,
        share,
    } = looked_at;
    let mut mix = Mix {
        meaning,
        share,
        cosines: &cosines,
        stated: evidence::merge_facts(&mut chunks, &files),
        signals: (LineSignals::of(&query.text), known),
        examined: HashMap::new(),
    };
    let today = query.today;
    let days = today.and_then(|today| date_mentions::days(&query.text, today));
    let scored = rank::score_lines(chunks.iter(), &terms, totals, &files, &mut mix);
    let mut scored_again = scored.clone();
    let mut ranked = rank::rerank(scored, &terms, &mut mix);
    adjust(&mut ranked, &files, days.as_ref());
    let seeds = passage::seeds(&ranked, &files);
    // The chunks next to the best, so that results can grow: they change the scores of the other lines of their files.
    let beside = chunks_beside(&ranked, &seeds, query.k, &chunks);
    let beside = load_beside(beside, &mut files)?;
    let changed: BTreeSet<i64> = beside.iter().map(|chunk| chunk.file).collect();
    let in_changed = chunks
        .iter()
        .chain(&beside)
        .filter(|chunk| changed.contains(&chunk.file));
    let rescored = rank::score_lines(in_changed, &terms, totals, &files, &mut mix);
    scored_again.extend(rescored);
    let mut ranked = rank::rerank(scored_again, &terms, &mut mix);
    adjust(&mut ranked, &files, days.as_ref());
    let mut seeds = passage::seeds(&ranked, &files);
    seeds.retain(|seed| {
        let line = ranked.get(&seed.file).and_then(|lines| lines.get(&seed.at));
        line.is_some_and(|line| shown(line.score.max(line.text_score)) >= query.min_score)
    });
    let passages = passage::passages(&ranked, &seeds, limits(query));
    let hits = passages
        .iter()
        .filter_map(|passage| hit(passage, &ranked, &files, &terms));
    Ok(found(hits.collect(), &terms))
}

fn found(hits: Vec<Hit>, terms: &[Term]) -> Found {
    let words = terms
        .iter()
        .map(|term| (term.word.text.to_string(), term.weight));
    Found {
        hits,
        words: words.collect(),
        indexed: true,
        without_vectors: None,
    }
}

/// Ranks lines lower or higher by what their text is.
fn adjust(ranked: &mut Ranked<'_>, files: &Files, days: Option<&RangeInclusive<NaiveDate>>) {
    evidence::demote_restatements(ranked, files);
    if let Some(days) = days {
        let days = Filter::days(Some(*days.start()), Some(*days.end()));
        date_mentions::boost(ranked, files, &days);
    }
}

/// Returns true when the rows have another format: they find nothing until the next run. Rows by other rules are
/// searched until then.
fn format_differs(view: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT rules FROM totals";
    let rules: String = view.one(sql, [], |row| row.get(0))?;
    Ok(!rules.ends_with(schema::ROWS))
}

fn limits(query: &Query) -> Limits {
    let limits = match query.max_tokens {
        None => Limits::plain(query.k),
        Some(tokens) => {
            Limits::within(query.k, tokens.saturating_mul(crate::text::CHARS_PER_TOKEN))
        }
    };
    Limits {
        each: limits.each.min(query.max_chars),
        ..limits
    }
}

/// Returns the chunks next to those of the best lines.
fn chunks_beside(ranked: &Ranked<'_>, seeds: &[Seed], k: usize, chunks: &[Chunk]) -> Vec<i64> {
    let there: BTreeSet<i64> = chunks.iter().map(|chunk| chunk.id).collect();
    let mut best: BTreeSet<i64> = BTreeSet::new();
    for seed in seeds {
        if best.len() > k * 2 {
            break;
        }
        let line = ranked.get(&seed.file).and_then(|lines| lines.get(&seed.at));
        best.extend(line.map(|line| line.chunk));
    }
    let beside: BTreeSet<i64> = best.into_iter().flat_map(|id| [id - 1, id + 1]).collect();
    beside.difference(&there).copied().collect()
}

/// Returns these chunks, and adds their files to `files`.
#[expect(clippy::cast_precision_loss, reason = "words of a file")]
fn load(view: &Connection, ids: &[i64], files: &mut Files) -> rusqlite::Result<Vec<Chunk>> {
    let mut query = view.prepare_cached("SELECT file, units, text FROM chunks WHERE id = ?1")?;
    let mut file_query = view
        .prepare_cached("SELECT path, source, scope, time, words, kind FROM files WHERE id = ?1")?;
    let mut chunks = Vec::with_capacity(ids.len());
    for id in ids {
        let mut rows = query.query([id])?;
        let Some(row) = rows.next()? else { continue };
        let chunk = Chunk {
            id: *id,
            file: row.get(0)?,
            packed: schema::unpack(row.get_ref(1)?.as_blob()?),
            text: row.get(2)?,
        };
        if let Entry::Vacant(vacant) = files.entry(chunk.file) {
            let mut rows = file_query.query([chunk.file])?;
            if let Some(row) = rows.next()? {
                vacant.insert(File {
                    path: row.get(0)?,
                    source: row.get(1)?,
                    scope: row.get(2)?,
                    time: row.get(3)?,
                    words: row.get::<_, i64>(4)? as f32,
                    kind: row.get(5)?,
                });
            }
        }
        chunks.push(chunk);
    }
    Ok(chunks)
}

/// Returns a score as it is shown, see `rank.rs`.
fn shown(score: f32) -> f32 {
    score.sqrt().min(1.0)
}

fn hit(passage: &Passage, ranked: &Ranked<'_>, files: &Files, terms: &[Term]) -> Option<Hit> {
    let file = files.get(&passage.file)?;
    let lines = ranked.get(&passage.file)?;
    let is_blank = |at: &usize| lines.get(at).is_none_or(|line| line.text.trim().is_empty());
    let (mut first, mut last) = (*passage.range.start(), *passage.range.end());
    while first < last && is_blank(&first) {
        first += 1;
    }
    while last > first && is_blank(&last) {
        last -= 1;
    }
    let text: String = lines
        .range(first..=last)
        .map(|(_, line)| line.text)
        .collect();
    let best = lines.get(&passage.best)?;
    let words = lines
        .range(first..=last)
        .fold(0, |words, (_, line)| words | line.words);
    Some(Hit {
        path: file.path.clone(),
        start_line: lines.get(&first)?.number,
        end_line: lines.get(&last)?.number,
        source: file.source.clone(),
        score: shown(best.score),
        vector_score: best.vector_score,
        text_score: Some(shown(best.text_score)),
        text: text.trim_end_matches('\n').to_owned(),
        scope: file.scope.clone(),
        kind: file.kind.clone(),
        time: file.time,
        matched: (0..)
            .zip(terms)
            .filter(|(bit, _)| words >> bit & 1 == 1)
            .map(|(_, term)| term.word.text.to_string())
            .collect(),
    })
}

#[cfg(test)]
mod tests;
