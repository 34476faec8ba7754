//! Brings the index up to date with the files.

use std::collections::BTreeMap;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::super::Progress;
use super::super::sources::{self, Candidate, Reader, Skipped, Unread};
use super::rows::{self, Row, Writer};
use super::vectors::{self, Made};
use super::{Error, Place, doubt, schema, status};
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
    /// Of a dry run: what the vectors of all that would cost, US dollars; `None` when nobody knows.
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
    let is_doubted = mode.full || doubt::is_there(place);
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
            Report { was_damaged: true, ..work(place, mode, each)? }
        }
    };
    doubt::clear(place);
    Ok(Outcome::Done(report))
}

/// Returns what a run would do.
fn compare(place: &Place, connection: Option<&Connection>, mode: Mode, each: &mut dyn FnMut(Progress)) -> Result<Report, Error> {
    let fail = |error| db::Error::of(&place.database(), error);
    let mut known = BTreeMap::new();
    let mut full = mode.full;
    if let Some(connection) = connection {
        full |= rows::rules(connection).map_err(fail)? != schema::rules();
        known = rows::known(connection).map_err(fail)?;
    }
    let (files, skipped) = sources::list(&place.home);
    let mut report = Report { skipped, full, ..Report::default() };
    let reader = Reader::new(&place.home);
    let embedder = place.embedder().ok().flatten();
    let mut cost = Some(0.0);
    let mut pay = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let more = embedder.as_ref().map_or(Some(0.0), |embedder| embedder.cost_usd(&[&text]));
        cost = cost.zip(more).map(|(cost, more)| cost + more);
    };
    for (done, file) in files.iter().enumerate() {
        each(Progress { done, total: files.len() });
        let row = known.remove(&file.shown);
        if let Some(row) = &row
            && row.stamp == file.stamp
        {
            report.unchanged += 1;
            continue;
        }
        match (reader.read(file), row) {
            (Ok(bytes), Some(row)) if row.sha256 == file.sha256(&bytes) => report.unchanged += 1,
            (Ok(bytes), Some(_)) => {
                pay(&bytes);
                report.changed += 1;
            }
            (Ok(bytes), None) => {
                pay(&bytes);
                report.added += 1;
            }
            (Err(Unread::Failed(skipped)), _) => report.skipped.push(skipped),
            (Err(Unread::Gone), row) => report.removed += usize::from(row.is_some()),
        }
    }
    report.removed += known.keys().filter(|path| !report.is_hidden(path)).count();
    Ok(Report { cost_usd: cost, ..report })
}

impl Report {
    /// Returns true when `path` could not be looked at this time: then nobody knows that it is gone.
    fn is_hidden(&self, path: &str) -> bool {
        self.skipped.iter().any(|skipped| skipped.hides(path))
    }
}

fn work(place: &Place, mode: Mode, each: &mut dyn FnMut(Progress)) -> Result<Report, Error> {
    let mut connection = schema::open(place)?;
    let path = place.database();
    let fail = |error| db::Error::of(&path, error);
    let full = mode.full || rows::rules(&connection).map_err(fail)? != schema::rules();
    let known = if full { BTreeMap::new() } else { rows::known(&connection).map_err(fail)? };
    let (files, skipped) = sources::list(&place.home);
    let report = Report { skipped, full, ..Report::default() };
    let is_same = |file: &Candidate| known.get(&file.shown).is_some_and(|row| row.stamp == file.stamp);
    let now = clock::now_ms();
    let mut report = if !full && files.len() == known.len() && files.iter().all(is_same) {
        Report { unchanged: files.len(), ..report }
    } else {
        let mut run = Run { reader: Reader::new(&place.home), writer: Writer::new(), known, now, report };
        run.all(&mut connection, &files, each).map_err(fail)?;
        run.report
    };
    report.vectors = vectors::make(place, &mut connection, now, each)?;
    Ok(report)
}

/// One run at work.
struct Run<'a> {
    reader: Reader<'a>,
    writer: Writer,
    /// The rows of files that were not met yet.
    known: BTreeMap<String, Row>,
    now: i64,
    report: Report,
}

impl Run<'_> {
    fn all(&mut self, connection: &mut Connection, files: &[Candidate], each: &mut dyn FnMut(Progress)) -> rusqlite::Result<()> {
        let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if self.report.full {
            schema::make_anew(&transaction, self.now)?;
        }
        self.writer.begin(&transaction)?;
        let mut removed = 0;
        for (done, file) in files.iter().enumerate() {
            each(Progress { done, total: files.len() });
            self.one(&transaction, file)?;
            // New tables take the place of the old ones as a whole.
            if !self.report.full && self.writer.since_commit() >= COMMIT_AFTER {
                self.writer.total(&transaction, self.now)?;
                transaction.commit()?;
                transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                self.writer.begin(&transaction)?;
            }
        }
        for (_, row) in self.known.iter().filter(|(path, _)| !self.report.is_hidden(path)) {
            self.writer.remove(&transaction, row.id)?;
            removed += 1;
        }
        self.report.removed += removed;
        self.writer.total(&transaction, self.now)?;
        transaction.commit()
    }

    fn one(&mut self, transaction: &Transaction<'_>, file: &Candidate) -> rusqlite::Result<()> {
        let row = self.known.remove(&file.shown);
        if row.as_ref().is_some_and(|row| row.stamp == file.stamp) {
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
                return row.map_or(Ok(()), |row| self.writer.remove(transaction, row.id));
            }
        };
        let (sha256, stamp) = (file.sha256(&bytes), file.stamp.settled(self.now));
        match row {
            Some(row) if row.sha256 == sha256 => {
                self.report.unchanged += 1;
                return self.writer.restamp(transaction, row.id, file, stamp);
            }
            Some(row) => {
                self.writer.remove(transaction, row.id)?;
                self.report.changed += 1;
            }
            None => self.report.added += 1,
        }
        self.report.chunks += self.writer.add(transaction, file, stamp, &sha256, &bytes)?;
        Ok(())
    }
}
