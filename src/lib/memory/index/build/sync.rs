//! Brings the index up to date with the files.

use std::collections::{BTreeMap, HashMap, HashSet};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::fact_lines;
use super::rows;
use super::rows::{Row, Writer};
use super::vectors;
use super::vectors::{Forecast, Made};
use crate::config::Home;
use crate::embedding::Embedder;
use crate::language::tokenize::Words;
use crate::memory::index::{Error, Place, damage_note, schema, status};
use crate::memory::session_prefix::Pasts;
use crate::memory::sources;
use crate::memory::sources::{Candidate, Reader, Skipped, Stamp, Unread};
use crate::memory::{Progress, facts};
use crate::sys::lock;
use crate::{clock, db};

/// Chunks after which what is there is committed, so that an interrupted run has not worked in vain.
const COMMIT_AFTER: i64 = 4000;

/// What is to be done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mode {
    /// Index every file again, changed or not.
    pub full: bool,
    /// Change nothing, only say what would change.
    pub dry_run: bool,
}

/// What was done, or would be.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Files that are new.
    pub added: usize,
    /// Files that changed.
    pub changed: usize,
    /// Files that are no more.
    pub removed: usize,
    /// Files that are as they were.
    pub unchanged: usize,
    /// Chunks written.
    pub chunks: usize,
    /// What became of the vectors.
    pub vectors: Made,
    /// Of a dry run: what the vectors that are missing then would cost, US dollars; `None` when nobody knows.
    pub cost_usd: Option<f64>,
    /// What could not be read.
    pub skipped: Vec<Skipped>,
    /// True when everything was indexed again, wanted or because the rules have changed.
    pub full: bool,
    /// True when the index there was could not be used and was thrown away.
    pub was_damaged: bool,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It did its work.
    Done(Report),
    /// Another process is at it: its id.
    Busy(i32),
}

/// Brings the index up to date. Blocking; the directory of the state must be there. `each` is told
/// after every file.
///
/// A run that is interrupted leaves an index that can be used and the next run goes on. When all is
/// indexed again, readers have the old index until the new one is whole.
///
/// # Errors
/// When the lock or the database cannot be used. A damaged database is thrown away and made anew.
pub fn sync(place: &Place, mode: Mode, each: &mut dyn FnMut(Progress)) -> Result<Outcome, Error> {
    if mode.dry_run {
        let done = match db::open_read(&place.database()) {
            Ok(connection) => compare(place, connection.as_ref(), mode, each),
            Err(error) => Err(error.into()),
        };
        return match done {
            // It would be made anew.
            Err(error) if error.is_damage() => compare(place, None, mode, each),
            done => done,
        }
        .map(Outcome::Done);
    }
    let Some(_lock) = lock::try_lock(&place.lock())? else {
        return Ok(Outcome::Busy(lock::holder(&place.lock())?.unwrap_or(0)));
    };
    let is_doubted = mode.full || damage_note::is_there(place);
    let first = if is_doubted && status::is_damaged(&place.database())? {
        None
    } else {
        match work(place, mode, each) {
            Err(error) if error.is_damage() => None,
            done => Some(done?),
        }
    };
    let report = match first {
        Some(report) => report,
        None => {
            schema::remove(&place.database())?;
            Report {
                was_damaged: true,
                ..work(place, mode, each)?
            }
        }
    };
    damage_note::clear(place);
    Ok(Outcome::Done(report))
}

/// Returns what a run would do.
fn compare(
    place: &Place,
    connection: Option<&Connection>,
    mode: Mode,
    each: &mut dyn FnMut(Progress),
) -> Result<Report, Error> {
    let fail = |error| db::Error::of(&place.database(), error);
    let (mut known, mut known_facts) = (BTreeMap::new(), HashMap::new());
    let mut full = mode.full;
    if let Some(connection) = connection {
        full |= rows::rules(connection).map_err(fail)? != schema::rules();
        if !full {
            known = rows::known(connection).map_err(fail)?;
            known_facts = rows::known_facts(connection).map_err(fail)?;
        }
    }
    let (files, skipped) = sources::list(&place.home);
    let mut report = Report {
        skipped,
        full,
        ..Report::default()
    };
    let (reader, mut pasts, stirred) = (
        Reader::new(&place.home),
        Pasts::new(&place.home),
        stirred(&files, &known),
    );
    let embedder = place.embedder().ok().flatten();
    let mut forecast = match &embedder {
        Some(Embedder::Model(model)) => Some(Forecast::new(&**model, connection)),
        Some(Embedder::Table(_)) | None => None,
    };
    let (mut words, mut gone) = (Words::new(), HashSet::new());
    for (done, file) in files.iter().enumerate() {
        each(Progress {
            done,
            total: files.len(),
        });
        let row = known.remove(&file.shown);
        if row.as_ref().is_some_and(|row| is_same(row, file, &stirred)) {
            report.unchanged += 1;
            continue;
        }
        match (reader.read(file), row) {
            (Ok(bytes), Some(row))
                if row.sha256 == file.sha256(&bytes, pasts.before(file, &bytes)) =>
            {
                report.unchanged += 1
            }
            (Ok(bytes), row) => {
                match row {
                    Some(_) => report.changed += 1,
                    None => report.added += 1,
                }
                gone.extend(row.map(|row| row.id));
                for text in rows::texts_of(file, &bytes, pasts.before(file, &bytes)) {
                    add_to(&mut forecast, rows::texts_of_chunks(&mut words, &text))
                        .map_err(fail)?;
                }
            }
            (Err(Unread::Failed(skipped)), _) => report.skipped.push(skipped),
            (Err(Unread::Gone), row) => {
                report.removed += usize::from(row.is_some());
                gone.extend(row.map(|row| row.id));
            }
        }
    }
    let others: Vec<i64> = known
        .iter()
        .filter(|(path, _)| !report.is_hidden(path))
        .map(|(_, row)| row.id)
        .collect();
    report.removed += others.len();
    gone.extend(others);
    match fact_lines::read(&place.home) {
        Ok(stated) => {
            for (_, text) in stated
                .iter()
                .filter(|(sha256, _)| !known_facts.contains_key(sha256))
            {
                add_to(&mut forecast, rows::texts_of_chunks(&mut words, text)).map_err(fail)?;
            }
        }
        Err(error) => report.skip_facts(&error),
    }
    report.cost_usd = match forecast {
        Some(mut forecast) => {
            if !full {
                forecast.lacking(&gone).map_err(fail)?;
            }
            forecast.usd().map_err(fail)?
        }
        None => Some(0.0),
    };
    Ok(report)
}

/// Adds what vectors of `chunks` would cost.
fn add_to(forecast: &mut Option<Forecast<'_>>, chunks: Vec<String>) -> rusqlite::Result<()> {
    forecast.as_mut().map_or(Ok(()), |forecast| {
        chunks.into_iter().try_for_each(|text| forecast.add(text))
    })
}

/// Returns the conversations of which a file came, went or changed: what a summary in another one may say
/// depends on it.
fn stirred(files: &[Candidate], known: &BTreeMap<String, Row>) -> HashSet<String> {
    let there: HashSet<&str> = files.iter().map(|file| file.shown.as_str()).collect();
    let is_new = |file: &&Candidate| {
        known
            .get(&file.shown)
            .is_none_or(|row| row.stamp != file.stamp)
    };
    let changed = files.iter().filter(is_new).map(|file| file.shown.as_str());
    let gone = known
        .keys()
        .map(String::as_str)
        .filter(|path| !there.contains(path));
    changed
        .chain(gone)
        .filter_map(sources::session_of)
        .map(str::to_owned)
        .collect()
}

fn is_same(row: &Row, file: &Candidate, stirred: &HashSet<String>) -> bool {
    row.stamp == file.stamp
        && !sources::session_of(&file.shown).is_some_and(|id| stirred.contains(id))
}

impl Report {
    /// Returns true when `path` could not be looked at this time: then nobody knows that it is gone.
    fn is_hidden(&self, path: &str) -> bool {
        self.skipped.iter().any(|skipped| skipped.hides(path))
    }

    fn skip_facts(&mut self, error: &facts::Error) {
        let why =
            format!("{error}; facts are found as they were; agent-daemon doctor says what helps");
        self.skipped.push(Skipped {
            path: fact_lines::SHOWN.to_owned(),
            why,
        });
    }
}

fn work(place: &Place, mode: Mode, each: &mut dyn FnMut(Progress)) -> Result<Report, Error> {
    let mut connection = schema::open(place)?;
    let path = place.database();
    let fail = |error| db::Error::of(&path, error);
    let full = mode.full || rows::rules(&connection).map_err(fail)? != schema::rules();
    let known = if full {
        BTreeMap::new()
    } else {
        rows::known(&connection).map_err(fail)?
    };
    let (files, skipped) = sources::list(&place.home);
    let report = Report {
        skipped,
        full,
        ..Report::default()
    };
    let as_it_was = |file: &Candidate| {
        known
            .get(&file.shown)
            .is_some_and(|row| row.stamp == file.stamp)
    };
    let now = clock::now_ms();
    let (looks, settled) = fact_lines::look(&place.home, now);
    let same_facts = !full && rows::facts_seen(&connection).map_err(fail)? == looks;
    let mut report = if same_facts && files.len() == known.len() && files.iter().all(as_it_was) {
        Report {
            unchanged: files.len(),
            ..report
        }
    } else {
        let mut run = Run {
            home: &place.home,
            reader: Reader::new(&place.home),
            pasts: Pasts::new(&place.home),
            writer: Writer::new(),
            stirred: stirred(&files, &known),
            known,
            facts_seen: if same_facts { looks } else { String::new() },
            now,
            report,
        };
        run.all(&mut connection, &files, settled, each)
            .map_err(fail)?;
        run.report
    };
    report.vectors = vectors::make(place, &mut connection, now, each)?;
    Ok(report)
}

/// One run at work.
struct Run<'a> {
    home: &'a Home,
    reader: Reader<'a>,
    pasts: Pasts<'a>,
    writer: Writer,
    /// See [`stirred`].
    stirred: HashSet<String>,
    /// The rows of files that were not met yet.
    known: BTreeMap<String, Row>,
    /// What `memory.db` looked like when the facts were read that are indexed; empty when it looks otherwise now.
    facts_seen: String,
    now: i64,
    report: Report,
}

impl Run<'_> {
    /// `looks` is what `memory.db` looks like, as long as that says something.
    fn all(
        &mut self,
        connection: &mut Connection,
        files: &[Candidate],
        looks: String,
        each: &mut dyn FnMut(Progress),
    ) -> rusqlite::Result<()> {
        let mut transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if self.report.full {
            schema::make_anew(&transaction, self.now)?;
        }
        self.writer.begin(&transaction)?;
        let mut removed = 0;
        for (done, file) in files.iter().enumerate() {
            each(Progress {
                done,
                total: files.len(),
            });
            self.one(&transaction, file)?;
            // New tables take the place of the old ones as a whole.
            if !self.report.full && self.writer.since_commit() >= COMMIT_AFTER {
                self.writer.total(&transaction, self.now, "")?;
                transaction.commit()?;
                transaction =
                    connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                self.writer.begin(&transaction)?;
            }
        }
        for path in self
            .known
            .keys()
            .filter(|path| !self.report.is_hidden(path))
        {
            self.writer.remove(&transaction, path)?;
            removed += 1;
        }
        self.report.removed += removed;
        // A conversation that ended lies elsewhere, and with it what it states.
        if self.facts_seen.is_empty() || self.report.added + self.report.removed > 0 {
            self.facts_seen = if self.facts(&transaction)? {
                looks
            } else {
                String::new()
            };
        }
        self.writer
            .total(&transaction, self.now, &self.facts_seen)?;
        transaction.commit()
    }

    /// Makes the facts those that hold now; false when they cannot be read: then those of before are found.
    fn facts(&mut self, transaction: &Transaction<'_>) -> rusqlite::Result<bool> {
        let stated = match fact_lines::read(self.home) {
            Ok(stated) => stated,
            Err(error) => {
                self.report.skip_facts(&error);
                return Ok(false);
            }
        };
        let mut known = rows::known_facts(transaction)?;
        for (sha256, text) in stated {
            if known.remove(&sha256).is_none() {
                self.report.chunks +=
                    self.writer
                        .add(transaction, &[text], Stamp::default(), &sha256)?;
            }
        }
        known
            .into_values()
            .try_for_each(|id| self.writer.remove_one(transaction, id))?;
        Ok(true)
    }

    fn one(&mut self, transaction: &Transaction<'_>, file: &Candidate) -> rusqlite::Result<()> {
        let row = self.known.remove(&file.shown);
        if row
            .as_ref()
            .is_some_and(|row| is_same(row, file, &self.stirred))
        {
            self.report.unchanged += 1;
            return Ok(());
        }
        let bytes = match self.reader.read(file) {
            Ok(bytes) => bytes,
            // What it said before is still searched.
            Err(Unread::Failed(skipped)) => {
                self.report.skipped.push(skipped);
                return Ok(());
            }
            Err(Unread::Gone) => {
                self.report.removed += usize::from(row.is_some());
                return self.writer.remove(transaction, &file.shown);
            }
        };
        let before = self.pasts.before(file, &bytes);
        let (sha256, stamp) = (file.sha256(&bytes, before), file.stamp.settled(self.now));
        match row {
            Some(row) if row.sha256 == sha256 => {
                self.report.unchanged += 1;
                return self.writer.restamp(transaction, row.id, file, stamp);
            }
            Some(_) => {
                self.writer.remove(transaction, &file.shown)?;
                self.report.changed += 1;
            }
            None => self.report.added += 1,
        }
        self.report.chunks += self.writer.add(
            transaction,
            &rows::texts_of(file, &bytes, before),
            stamp,
            &sha256,
        )?;
        Ok(())
    }
}
