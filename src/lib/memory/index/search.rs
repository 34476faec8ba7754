//! Search: a question in, passages out.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

use rusqlite::Connection;

use super::super::sources::Source;
use super::candidates::{self, Term};
use super::passage::{self, Passage, Seed, Want};
use super::rank::{self, Chunk, Ranked};
use super::schema;
use super::words::Words;
use super::{Error, Place};
use crate::db;

/// Chunks that are looked at closely.
const CANDIDATES: usize = 80;
/// Characters of a token, for `max_tokens`.
const CHARS_PER_TOKEN: usize = 4;

/// By what it is searched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Words and vectors; words alone where there are no vectors.
    #[default]
    Hybrid,
    /// Words, vectors only when they find little.
    FtsFirst,
    /// Words alone.
    Fts,
    /// Vectors alone.
    Vector,
}

/// Which chunks may be found at all; `None` is no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Whose they are: `owner`, `person:<id>`, `chat:<key>`.
    pub scopes: Option<Vec<String>>,
    /// What they come from.
    pub sources: Option<Vec<Source>>,
}

impl Filter {
    pub(super) fn lets_through(&self, scope: &str, source: &str) -> bool {
        let by_scope = self.scopes.as_ref().is_none_or(|scopes| scopes.iter().any(|one| one == scope));
        by_scope && self.sources.as_ref().is_none_or(|sources| sources.iter().any(|one| one.as_str() == source))
    }
}

/// What is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The question, in anybody's words.
    pub text: String,
    /// Results at most.
    pub k: usize,
    /// Tokens of all results together at most, four characters each.
    pub max_tokens: Option<usize>,
    /// Characters of one result at most; it grows around the line that was found, so that one is in it.
    pub max_chars: usize,
    /// Results below this score are left out.
    pub min_score: f32,
    /// Which chunks may be found.
    pub filter: Filter,
    /// By what it is searched.
    pub strategy: Strategy,
}

impl Query {
    /// Returns a query for six results without any limit.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            k: 6,
            max_tokens: None,
            max_chars: passage::MAX_CHARS,
            min_score: 0.0,
            filter: Filter::default(),
            strategy: Strategy::default(),
        }
    }
}

/// A passage that was found.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Hit {
    /// Its file: `workspace/…` or `state/…`.
    pub path: String,
    /// Its first line, from 1.
    pub start_line: u32,
    /// Its last line.
    pub end_line: u32,
    /// What it comes from.
    pub source: String,
    /// How good it is, 0–1; means the same in every query.
    pub score: f32,
    /// How near its vector is; none in this build.
    pub vector_score: Option<f32>,
    /// How much of the query's words it has, see `rank.rs`.
    pub text_score: Option<f32>,
    /// What stands there.
    pub text: String,
    /// Whose it is.
    #[serde(skip)]
    pub scope: String,
    /// The words of the query that stand in it, as they are compared.
    #[serde(skip)]
    pub matched: Vec<String>,
}

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// The best first.
    pub hits: Vec<Hit>,
    /// The words that were searched for, with their weights, as they are compared.
    pub words: Vec<(String, f32)>,
    /// False when nothing was ever indexed.
    pub indexed: bool,
}

/// Searches once.
///
/// # Errors
/// As [`Searcher::search`].
pub fn search(place: &Place, query: &Query) -> Result<Found, Error> {
    Searcher::new(place).search(query)
}

/// Searches again and again. Keeps the database open, and opens it anew when it was made anew.
pub struct Searcher {
    place: Place,
    words: Words,
    open: Option<(Connection, Identity)>,
}

/// Which file it is: device and number.
type Identity = (u64, u64);

impl Searcher {
    /// Returns a searcher; the database need not be there yet.
    pub fn new(place: &Place) -> Self {
        Self { place: place.clone(), words: Words::new(), open: None }
    }

    /// Returns what `query` finds. An index that is not there finds nothing.
    ///
    /// # Errors
    /// [`Error::NoVectors`] for [`Strategy::Vector`], else when the database is damaged.
    pub fn search(&mut self, query: &Query) -> Result<Found, Error> {
        if query.strategy == Strategy::Vector {
            return Err(Error::NoVectors);
        }
        let path = self.place.database();
        let words = self.words.of_query(&query.text);
        let Some(connection) = self.connection()? else { return Ok(Found::default()) };
        look(connection, words, query).map_err(|error| db::Error::of(&path, error).into())
    }

    fn connection(&mut self) -> Result<Option<&Connection>, Error> {
        let path = self.place.database();
        let identity = db::identity(&path)?;
        if self.open.as_ref().map(|(_, open)| *open) != identity {
            // Its log and the next one's have the same name.
            self.open.take().into_iter().for_each(|(stale, _)| db::abandon(stale));
        }
        if self.open.is_none()
            && let Some(identity) = identity
            && let Some(connection) = db::open_read(&path)?
        {
            self.open = Some((connection, identity));
        }
        Ok(self.open.as_ref().map(|(connection, _)| connection))
    }
}

/// What is known of a file.
struct File {
    path: String,
    source: String,
    scope: String,
    time: i64,
}

fn look(connection: &Connection, words: Vec<super::words::Word>, query: &Query) -> rusqlite::Result<Found> {
    // One view of the database, whoever writes meanwhile.
    let view = connection.unchecked_transaction()?;
    if rules_differ(&view)? {
        return Ok(Found::default());
    }
    let totals = candidates::totals(&view)?;
    let limit = CANDIDATES.max(query.k * 4);
    let (terms, ids) = candidates::find(&view, words, &query.filter, totals, limit)?;
    let mut chunks: Vec<Chunk> = Vec::new();
    load(&view, &ids, &mut chunks)?;
    let (mut files, mut lengths) = (HashMap::new(), HashMap::new());
    describe(&view, &chunks, &mut files, &mut lengths)?;
    let ranked = rank::rank(&chunks, &terms, totals, &lengths);
    let seeds = passage::seeds(&ranked, |file| time_of(&files, file));
    // What stands beside the best, so that they can grow.
    let beside = beside(&ranked, &seeds, query.k, &chunks);
    load(&view, &beside, &mut chunks)?;
    describe(&view, &chunks, &mut files, &mut lengths)?;
    chunks.retain(|chunk| files.get(&chunk.file).is_some_and(|file| query.filter.lets_through(&file.scope, &file.source)));
    let ranked = rank::rank(&chunks, &terms, totals, &lengths);
    let mut seeds = passage::seeds(&ranked, |file| time_of(&files, file));
    seeds.retain(|seed| seed.score.sqrt() >= query.min_score);
    let passages = passage::passages(&ranked, &seeds, want(query));
    let words = terms.iter().map(|term| (term.word.text.to_string(), term.weight)).collect();
    let hits = passages.iter().filter_map(|passage| hit(passage, &ranked, &files, &terms)).collect();
    Ok(Found { hits, words, indexed: true })
}

fn rules_differ(view: &Connection) -> rusqlite::Result<bool> {
    // Rows of another version are searched until there are new ones, if they can be.
    let rules: String = view.query_row("SELECT rules FROM totals", [], |row| row.get(0))?;
    Ok(!rules.ends_with(schema::ROWS))
}

fn time_of(files: &HashMap<i64, File>, file: i64) -> i64 {
    files.get(&file).map_or(0, |file| file.time)
}

fn want(query: &Query) -> Want {
    let want = match query.max_tokens {
        None => Want::plain(query.k),
        Some(tokens) => Want::within(query.k, tokens.saturating_mul(CHARS_PER_TOKEN)),
    };
    Want { each: want.each.min(query.max_chars), ..want }
}

/// Returns the chunks beside those of the best lines.
fn beside(ranked: &Ranked<'_>, seeds: &[Seed], k: usize, chunks: &[Chunk]) -> Vec<i64> {
    let there: BTreeSet<i64> = chunks.iter().map(|chunk| chunk.id).collect();
    let mut best: Vec<i64> = Vec::new();
    for seed in seeds {
        if best.len() > k * 2 {
            break;
        }
        if let Some(line) = ranked.get(&seed.file).and_then(|lines| lines.get(&seed.at))
            && !best.contains(&line.chunk)
        {
            best.push(line.chunk);
        }
    }
    let wanted: BTreeSet<i64> = best.into_iter().flat_map(|id| [id - 1, id + 1]).filter(|id| !there.contains(id)).collect();
    wanted.into_iter().collect()
}

fn load(view: &Connection, ids: &[i64], into: &mut Vec<Chunk>) -> rusqlite::Result<()> {
    let mut query = view.prepare_cached("SELECT file, units, text FROM chunks WHERE id = ?1")?;
    for id in ids {
        let mut rows = query.query([id])?;
        if let Some(row) = rows.next()? {
            let packed = schema::unpack(row.get_ref(1)?.as_blob()?);
            into.push(Chunk { id: *id, file: row.get(0)?, packed, text: row.get(2)? });
        }
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "words of a file")]
fn describe(
    view: &Connection,
    chunks: &[Chunk],
    files: &mut HashMap<i64, File>,
    lengths: &mut HashMap<i64, f32>,
) -> rusqlite::Result<()> {
    let mut query = view.prepare_cached("SELECT path, source, scope, time, words FROM files WHERE id = ?1")?;
    for chunk in chunks {
        if files.contains_key(&chunk.file) {
            continue;
        }
        let mut rows = query.query([chunk.file])?;
        if let Some(row) = rows.next()? {
            lengths.insert(chunk.file, row.get::<_, i64>(4)? as f32);
            let file = File { path: row.get(0)?, source: row.get(1)?, scope: row.get(2)?, time: row.get(3)? };
            files.insert(chunk.file, file);
        }
    }
    Ok(())
}

fn hit(passage: &Passage, ranked: &Ranked<'_>, files: &HashMap<i64, File>, terms: &[Term]) -> Option<Hit> {
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
    let text: String = lines.range(first..=last).map(|(_, line)| line.text).collect();
    let score = passage.score.sqrt().min(1.0);
    let words = lines.range(first..=last).fold(0, |words, (_, line)| words | line.words);
    Some(Hit {
        path: file.path.clone(),
        start_line: lines.get(&first)?.number,
        end_line: lines.get(&last)?.number,
        source: file.source.clone(),
        score,
        vector_score: None,
        text_score: Some(score),
        text: text.trim_end_matches('\n').to_owned(),
        scope: file.scope.clone(),
        matched: (0..).zip(terms).filter(|(bit, _)| words >> bit & 1 == 1).map(|(_, term)| term.word.text.to_string()).collect(),
    })
}
