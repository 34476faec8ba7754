//! Search: a question in, passages out.

use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;

use chrono::NaiveDate;
use rusqlite::Connection;

use super::candidates;
use super::candidates::Term;
use super::line_signals::Cues;
use super::passage;
use super::passage::{Passage, Seed, Want};
use super::query_vector::{Ask, Vector};
use super::rank;
use super::rank::{Chunk, Mix, Ranked};
use super::semantic::Meaning;
use super::shortlist::{Gathered, cosines_of, gather};
use super::{date_mentions, evidence};
use crate::db;
use crate::language::tokenize::{Word, Words};
use crate::memory::index::blocks;
use crate::memory::index::blocks::Blocks;
use crate::memory::index::schema;
use crate::memory::index::{Error, Place};
use crate::memory::sources::Source;

/// Chunks that are looked at closely for their words.
const CANDIDATES: usize = 80;
/// Results by words with which [`Strategy::FtsFirst`] is content (specification §12).
const CONTENT: usize = 3;
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Whose they are: `owner`, `person:<id>`, `chat:<key>`.
    pub scopes: Option<Vec<String>>,
    /// What they come from.
    pub sources: Option<Vec<Source>>,
    /// Of which days, counted from 1970-01-01: the date in the name of the file, else of its last change; of a fact
    /// since when it holds, of a summary when it was written.
    pub days: RangeInclusive<u16>,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            scopes: None,
            sources: None,
            days: 0..=u16::MAX,
        }
    }
}

impl Filter {
    /// Returns the days from `after` to `before`, both with a part in it.
    pub fn days(after: Option<NaiveDate>, before: Option<NaiveDate>) -> RangeInclusive<u16> {
        let day = |date: NaiveDate| u16::try_from(date.to_epoch_days().max(0)).unwrap_or(u16::MAX);
        after.map_or(0, day)..=before.map_or(u16::MAX, day)
    }

    pub(crate) fn lets_through(&self, scope: &str, source: &str) -> bool {
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

/// What is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The question, in anybody's words.
    pub text: String,
    /// Results at most.
    pub k: usize,
    /// Chunks that are looked at closely for their words; never fewer than four a result.
    pub candidates: usize,
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
    /// The asker's day, by which `yesterday` is understood; `None` for nothing of the kind.
    pub today: Option<NaiveDate>,
}

impl Query {
    /// Returns a query for six results without any limit.
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
            today: None,
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
    /// The cosine of its best line, 0–1; `None` where no vector had a part.
    pub vector_score: Option<f32>,
    /// How much of the query's words it has, see `rank.rs`; `None` where words had no part.
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
    /// Why vectors had no part although they were wanted.
    pub without_vectors: Option<String>,
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
    ask: Ask,
    open: Option<Open>,
}

/// An open database, and which file it is: device and number.
struct Open {
    connection: Connection,
    identity: (u64, u64),
    blocks: Blocks,
}

impl Searcher {
    /// Returns a searcher; the database need not be there yet.
    pub fn new(place: &Place) -> Self {
        Self {
            place: place.clone(),
            words: Words::new(),
            ask: Ask::new(place),
            open: None,
        }
    }

    /// Returns what `query` finds. An index that is not there finds nothing. Damage is noted for the next run.
    ///
    /// # Errors
    /// [`Error::NoVectors`] for [`Strategy::Vector`] where there are none, else when the database is damaged.
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
        let Self {
            words: known,
            ask,
            open,
            ..
        } = self;
        let Some(open) = open else {
            return Ok(Found::default());
        };
        let failed = |error| Error::from(db::Error::of(&path, error));
        if rules_differ(&open.connection).map_err(failed)? {
            return Ok(Found::default());
        }
        let mut wish = query.strategy;
        if wish == Strategy::FtsFirst {
            let found = look(open, known, words.clone(), query, None).map_err(failed)?;
            if found.hits.len() >= CONTENT {
                return Ok(found);
            }
            wish = Strategy::Hybrid;
        }
        let model = blocks::state(&open.connection).map_err(failed)?.model;
        let vector = match wish {
            Strategy::Fts => Ok(None),
            Strategy::Hybrid | Strategy::FtsFirst | Strategy::Vector => {
                ask.vector(&query.text, &model).map(Some)
            }
        };
        match vector {
            Err(why) if wish == Strategy::Vector => Err(Error::NoVectors(why)),
            Err(why) => {
                let found = look(open, known, words, query, None).map_err(failed)?;
                Ok(Found {
                    without_vectors: Some(why),
                    ..found
                })
            }
            Ok(vector) => look(open, known, words, query, vector).map_err(failed),
        }
    }

    fn open(&mut self) -> Result<(), Error> {
        let path = self.place.database();
        let identity = db::identity(&path)?;
        if self.open.as_ref().map(|open| open.identity) != identity {
            // Its log and the next one's have the same name.
            self.open
                .take()
                .into_iter()
                .for_each(|stale| db::abandon(stale.connection));
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

/// What is known of a text.
pub(crate) struct File {
    pub path: String,
    pub source: String,
    pub scope: String,
    pub time: i64,
}

impl File {
    /// Returns true when it comes from `source`.
    pub(crate) fn is(&self, source: Source) -> bool {
        self.source == source.as_str()
    }
}

fn look(
    open: &mut Open,
    known: &mut Words,
    words: Vec<(String, Word)>,
    query: &Query,
    vector: Option<Vector<'_>>,
) -> rusqlite::Result<Found> {
    let Open {
        connection, blocks, ..
    } = open;
    // One view of the database, whoever writes meanwhile.
    let view = connection.unchecked_transaction()?;
    blocks.refresh(&view)?;
    let totals = candidates::totals(&view)?;
    let (allowed, is_fact) = (blocks.allowed(&query.filter), blocks.facts());
    let Gathered {
        terms,
        mut ids,
        mut cosines,
        share,
    } = gather(&view, blocks, words, query, vector.as_ref(), totals)?;
    // Where words do not count, those that are near to them do not either.
    let mut meaning = vector.map(|vector| {
        Meaning::new(
            vector,
            if query.strategy == Strategy::Vector {
                &[]
            } else {
                &terms
            },
        )
    });
    let mut chunks = load(&view, &ids)?;
    let (mut files, mut lengths) = (HashMap::new(), HashMap::new());
    describe(&view, &chunks, &mut files, &mut lengths)?;
    let mut stating = evidence::of_facts(&view, &chunks, &files)?;
    stating.retain(|id| !ids.contains(id) && usize::try_from(*id).is_ok_and(&allowed));
    chunks.extend(load(&view, &stating)?);
    describe(&view, &chunks, &mut files, &mut lengths)?;
    ids.extend(stating);
    if let Some(meaning) = meaning.as_ref().filter(|meaning| !meaning.knows_lines()) {
        // Those that were found by their words.
        let others: Vec<i64> = ids
            .iter()
            .copied()
            .filter(|id| !cosines.contains_key(id))
            .collect();
        cosines.extend(cosines_of(&view, others.into_iter(), meaning.vector())?);
    }
    let mut mix = Mix {
        meaning: meaning.as_mut(),
        share,
        cosines: &cosines,
        stated: evidence::settle(&mut chunks, &files),
        cues: (Cues::of(&query.text), known),
        looked: HashMap::new(),
    };
    let days = query
        .today
        .and_then(|today| date_mentions::days(&query.text, today));
    let mut ranked = rank::rank(chunks.iter(), &terms, totals, &lengths, &mut mix);
    let mut first = rank::closely(ranked.clone(), &terms, &mut mix);
    reorder(&mut first, &files, days.as_ref());
    let seeds = passage::seeds(&first, |file| order_of(&files, file));
    // What stands beside the best, so that they can grow: other lines of their files are worth something else then.
    let mut beside = beside(&first, &seeds, query.k, &chunks);
    beside.retain(|id| usize::try_from(*id).is_ok_and(|id| allowed(id) && !is_fact(id)));
    let beside = load(&view, &beside)?;
    describe(&view, &beside, &mut files, &mut lengths)?;
    let changed: BTreeSet<i64> = beside.iter().map(|chunk| chunk.file).collect();
    let changed = chunks
        .iter()
        .chain(&beside)
        .filter(|chunk| changed.contains(&chunk.file));
    ranked.extend(rank::rank(changed, &terms, totals, &lengths, &mut mix));
    let mut ranked = rank::closely(ranked, &terms, &mut mix);
    reorder(&mut ranked, &files, days.as_ref());
    let mut seeds = passage::seeds(&ranked, |file| order_of(&files, file));
    seeds.retain(|seed| best_score(&ranked, seed) >= query.min_score);
    let passages = passage::passages(&ranked, &seeds, want(query));
    let words = terms
        .iter()
        .map(|term| (term.word.text.to_string(), term.weight))
        .collect();
    let hits = passages
        .iter()
        .filter_map(|passage| hit(passage, &ranked, &files, &terms))
        .collect();
    Ok(Found {
        hits,
        words,
        indexed: true,
        without_vectors: None,
    })
}

/// Gives lines what they are worth more or less for what they stand in.
fn reorder(
    ranked: &mut Ranked<'_>,
    files: &HashMap<i64, File>,
    days: Option<&RangeInclusive<NaiveDate>>,
) {
    evidence::step_back(ranked, files);
    if let Some(days) = days {
        date_mentions::favour(
            ranked,
            files,
            &Filter::days(Some(*days.start()), Some(*days.end())),
        );
    }
}

/// Returns the better of the words' score and the score of both, as they are shown.
fn best_score(ranked: &Ranked<'_>, seed: &Seed) -> f32 {
    let line = ranked.get(&seed.file).and_then(|lines| lines.get(&seed.at));
    line.map_or(0.0, |line| line.score.max(line.text_score).sqrt())
}

fn rules_differ(view: &Connection) -> rusqlite::Result<bool> {
    // Rows of another version are searched until there are new ones, if they can be.
    let rules: String = view.query_row("SELECT rules FROM totals", [], |row| row.get(0))?;
    Ok(!rules.ends_with(schema::ROWS))
}

fn order_of(files: &HashMap<i64, File>, file: i64) -> (i64, &str) {
    files
        .get(&file)
        .map_or((0, ""), |file| (file.time, &file.path))
}

fn want(query: &Query) -> Want {
    let want = match query.max_tokens {
        None => Want::plain(query.k),
        Some(tokens) => Want::within(query.k, tokens.saturating_mul(CHARS_PER_TOKEN)),
    };
    Want {
        each: want.each.min(query.max_chars),
        ..want
    }
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
    let wanted: BTreeSet<i64> = best
        .into_iter()
        .flat_map(|id| [id - 1, id + 1])
        .filter(|id| !there.contains(id))
        .collect();
    wanted.into_iter().collect()
}

fn load(view: &Connection, ids: &[i64]) -> rusqlite::Result<Vec<Chunk>> {
    let mut query = view.prepare_cached("SELECT file, units, text FROM chunks WHERE id = ?1")?;
    let mut chunks = Vec::with_capacity(ids.len());
    for id in ids {
        let mut rows = query.query([id])?;
        if let Some(row) = rows.next()? {
            let packed = schema::unpack(row.get_ref(1)?.as_blob()?);
            chunks.push(Chunk {
                id: *id,
                file: row.get(0)?,
                packed,
                text: row.get(2)?,
            });
        }
    }
    Ok(chunks)
}

#[expect(clippy::cast_precision_loss, reason = "words of a file")]
fn describe(
    view: &Connection,
    chunks: &[Chunk],
    files: &mut HashMap<i64, File>,
    lengths: &mut HashMap<i64, f32>,
) -> rusqlite::Result<()> {
    let mut query =
        view.prepare_cached("SELECT path, source, scope, time, words FROM files WHERE id = ?1")?;
    for chunk in chunks {
        if files.contains_key(&chunk.file) {
            continue;
        }
        let mut rows = query.query([chunk.file])?;
        if let Some(row) = rows.next()? {
            lengths.insert(chunk.file, row.get::<_, i64>(4)? as f32);
            let file = File {
                path: row.get(0)?,
                source: row.get(1)?,
                scope: row.get(2)?,
                time: row.get(3)?,
            };
            files.insert(chunk.file, file);
        }
    }
    Ok(())
}

fn hit(
    passage: &Passage,
    ranked: &Ranked<'_>,
    files: &HashMap<i64, File>,
    terms: &[Term],
) -> Option<Hit> {
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
    let shown = |score: f32| score.sqrt().min(1.0);
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
        matched: (0..)
            .zip(terms)
            .filter(|(bit, _)| words >> bit & 1 == 1)
            .map(|(_, term)| term.word.text.to_string())
            .collect(),
    })
}

#[cfg(test)]
mod tests;
