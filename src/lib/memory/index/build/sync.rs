//! Brings the index up to date with the files: one walk over them that writes or, in a dry run, only counts.

use std::collections::{BTreeMap, HashMap, HashSet};

use rusqlite::{Connection, TransactionBehavior};

use super::fact_lines;
use super::rows;
use super::rows::{FileRow, Text, Writer};
use super::vectors;
use super::vectors::{Forecast, Made};
use crate::config::Home;
use crate::embedding::Embedder;
use crate::language::tokenize::Words;
use crate::memory::Progress;
use crate::memory::index::{Error, Place, damage_note, schema, status};
use crate::memory::session_prefix::SessionPrefixes;
use crate::memory::sources;
use crate::memory::sources::{Candidate, Reader, Skipped, Stamp, Unread};
use crate::sys::lock;
use crate::{clock, db};

/// Chunks after which a run commits, so that an interrupted run keeps its work.
const COMMIT_AFTER: i64 = 4000;

/// What is to be done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mode {
    /// Index every file again, changed or not.
    pub full: bool,
    /// Change nothing, only report what would change.
    pub dry_run: bool,
    /// Make no vectors: the next run does.
    pub without_vectors: bool,
}

/// What was done, or would be.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// New files.
    pub added: usize,
    /// Changed files.
    pub changed: usize,
    /// Files that are gone.
    pub removed: usize,
    /// Files that are as they were.
    pub unchanged: usize,
    /// Chunks written.
    pub chunks: usize,
    /// The vectors that were made.
    pub vectors: Made,
    /// Of a dry run: what the missing vectors would cost, US dollars; `None` when the price is unknown.
    pub cost_usd: Option<f64>,
    /// Files that could not be read.
    pub skipped: Vec<Skipped>,
    /// True when everything was indexed again, by request or because the rules have changed.
    pub full: bool,
    /// True when the index was damaged and was rebuilt.
    pub was_damaged: bool,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It did its work.
    Done(Report),
    /// Another process is indexing: its id.
    Busy(i32),
}

/// Brings the index up to date. Blocking; the state directory must exist. `each` is called after every file.
///
/// An interrupted run leaves a usable index, and the next run continues. During a full run readers have the old
/// index until the new one is complete.
///
/// # Errors
/// When the lock or the database cannot be used. A damaged database is removed and rebuilt.
pub fn sync(place: &Place, mode: Mode, each: &mut dyn FnMut(Progress)) -> Result<Outcome, Error> {
    if mode.dry_run {
        let open = db::open_read(&place.database()).map_err(Error::from);
        let report = open.and_then(|open| dry_run(place, open.as_ref(), mode, each));
        return match report {
            // It would be rebuilt.
            Err(error) if error.is_damage() => dry_run(place, None, mode, each),
            report => report,
        }
        .map(Outcome::Done);
    }
    let Some(_lock) = lock::try_lock(&place.lock())? else {
        return Ok(Outcome::Busy(lock::holder(&place.lock())?.unwrap_or(0)));
    };
    let examine = mode.full || damage_note::is_there(place);
    let first = if examine && status::is_damaged(&place.database())? {
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

fn dry_run(
    place: &Place,
    connection: Option<&Connection>,
    mode: Mode,
    each: &mut dyn FnMut(Progress),
) -> Result<Report, Error> {
    let embedder = place.embedder().ok().flatten();
    let forecast = match &embedder {
        Some(Embedder::Model(model)) => Some(Forecast::new(&**model, connection)),
        Some(Embedder::Table(_)) | None => None,
    };
    let run = || -> rusqlite::Result<Report> {
        let rebuild = connection.map(needs_rebuild).transpose()?;
        let full = mode.full || rebuild == Some(true);
        let (known, known_facts) = match connection.filter(|_| !full) {
            Some(connection) => (rows::known(connection)?, rows::known_facts(connection)?),
            None => Default::default(),
        };
        let target = Target::DryRun {
            words: Words::new(),
            forecast,
            removed: HashSet::new(),
        };
        let (files, skipped) = sources::list(&place.home);
        let mut walk = Walk::new(&place.home, &files, known, target);
        (walk.report.skipped, walk.report.full) = (skipped, full);
        walk.files(&files, each)?;
        walk.facts(known_facts)?;
        let mut report = walk.report;
        report.cost_usd = Some(0.0);
        if let Target::DryRun {
            forecast: Some(mut forecast),
            removed,
            ..
        } = walk.target
        {
            if !full {
                forecast.add_missing(&removed)?;
            }
            report.cost_usd = forecast.usd()?;
        }
        Ok(report)
    };
    Ok(run().map_err(|error| db::Error::of(&place.database(), error))?)
}

/// Returns true when the rows are to be replaced as a whole, whatever changed.
fn needs_rebuild(connection: &Connection) -> rusqlite::Result<bool> {
    Ok(rows::rules(connection)? != schema::rules() || rows::is_sparse(connection)?)
}

fn work(place: &Place, mode: Mode, each: &mut dyn FnMut(Progress)) -> Result<Report, Error> {
    let mut connection = schema::open(place)?;
    let now = clock::now_ms();
    let mut report = update_rows(place, &mut connection, mode.full, now, each)
        .map_err(|error| db::Error::of(&place.database(), error))?;
    if !mode.without_vectors {
        report.vectors = vectors::make(place, &mut connection, now, each)?;
    }
    Ok(report)
}

fn update_rows(
    place: &Place,
    connection: &mut Connection,
    full: bool,
    now: i64,
    each: &mut dyn FnMut(Progress),
) -> rusqlite::Result<Report> {
    let full = full || needs_rebuild(connection)?;
    let known = if full {
        BTreeMap::new()
    } else {
        rows::known(connection)?
    };
    let (files, skipped) = sources::list(&place.home);
    let (facts_stamp, settled_stamp) = fact_lines::stamp(&place.home, now);
    let same_facts = !full && rows::facts_seen(connection)? == facts_stamp;
    let is_same = |file: &Candidate| {
        let row = known.get(&file.shown);
        row.is_some_and(|row| row.stamp == file.stamp)
    };
    if same_facts && files.len() == known.len() && files.iter().all(is_same) {
        return Ok(Report {
            unchanged: files.len(),
            skipped,
            ..Report::default()
        });
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if full {
        schema::recreate(&transaction, now)?;
    }
    let writer = Writer::new(&transaction, now)?;
    let mut walk = Walk::new(&place.home, &files, known, Target::Index(writer));
    (walk.report.skipped, walk.report.full, walk.now) = (skipped, full, now);
    walk.files(&files, each)?;
    // A conversation that ended has another path, and so have the facts that it states.
    let facts_seen = if same_facts && walk.report.added + walk.report.removed == 0 {
        facts_stamp
    } else if walk.facts(rows::known_facts(&transaction)?)? {
        settled_stamp
    } else {
        String::new()
    };
    let Walk { target, report, .. } = walk;
    if let Target::Index(mut writer) = target {
        writer.total(&facts_seen)?;
    }
    transaction.commit()?;
    Ok(report)
}

/// Where a walk puts what it found.
enum Target<'a> {
    Index(Writer<'a>),
    DryRun {
        words: Words,
        /// What new vectors cost; `None` when they cost nothing.
        forecast: Option<Forecast<'a>>,
        /// Rows of `files` that would go.
        removed: HashSet<i64>,
    },
}

impl Target<'_> {
    /// Adds texts and returns how many chunks were written.
    fn add(&mut self, texts: &[Text], stamp: Stamp, sha256: &[u8]) -> rusqlite::Result<usize> {
        match self {
            Self::Index(writer) => return writer.add(texts, stamp, sha256),
            Self::DryRun {
                words,
                forecast: Some(forecast),
                ..
            } => {
                for text in texts {
                    rows::texts_of_chunks(words, text)
                        .into_iter()
                        .try_for_each(|chunk| forecast.add(chunk))?;
                }
            }
            Self::DryRun { .. } => {}
        }
        Ok(0)
    }

    /// Removes a file with its summaries.
    fn remove_file(&mut self, path: &str, row: &FileRow) -> rusqlite::Result<()> {
        match self {
            Self::Index(writer) => writer.remove_file(path),
            Self::DryRun { removed, .. } => {
                removed.insert(row.id);
                Ok(())
            }
        }
    }
}

/// A walk over the files and facts.
struct Walk<'a> {
    home: &'a Home,
    reader: Reader<'a>,
    prefixes: SessionPrefixes<'a>,
    changed_sessions: HashSet<String>,
    /// The rows of files that were not visited yet.
    known: BTreeMap<String, FileRow>,
    now: i64,
    target: Target<'a>,
    report: Report,
}

impl<'a> Walk<'a> {
    fn new(
        home: &'a Home,
        files: &[Candidate],
        known: BTreeMap<String, FileRow>,
        target: Target<'a>,
    ) -> Self {
        Self {
            home,
            reader: Reader::new(home),
            prefixes: SessionPrefixes::new(home),
            changed_sessions: changed_sessions(files, &known),
            known,
            now: 0,
            target,
            report: Report::default(),
        }
    }

    fn files(
        &mut self,
        files: &[Candidate],
        each: &mut dyn FnMut(Progress),
    ) -> rusqlite::Result<()> {
        for (done, file) in files.iter().enumerate() {
            each(Progress {
                done,
                total: files.len(),
            });
            self.file(file)?;
            // A full run commits once: new tables replace the old ones as a whole.
            if let Target::Index(writer) = &mut self.target
                && !self.report.full
                && writer.uncommitted() >= COMMIT_AFTER
            {
                writer.commit()?;
            }
        }
        for (path, row) in std::mem::take(&mut self.known) {
            let is_hidden = |skipped: &Skipped| skipped.hides(&path);
            if !self.report.skipped.iter().any(is_hidden) {
                self.target.remove_file(&path, &row)?;
                self.report.removed += 1;
            }
        }
        Ok(())
    }

    fn file(&mut self, file: &Candidate) -> rusqlite::Result<()> {
        let row = self.known.remove(&file.shown);
        let in_changed_session = sources::session_of(&file.shown)
            .is_some_and(|session| self.changed_sessions.contains(session));
        if row.as_ref().is_some_and(|row| row.stamp == file.stamp) && !in_changed_session {
            self.report.unchanged += 1;
            return Ok(());
        }
        let bytes = match self.reader.read(file) {
            Ok(bytes) => bytes,
            // Its old text can still be found.
            Err(Unread::Failed(skipped)) => {
                self.report.skipped.push(skipped);
                return Ok(());
            }
            Err(Unread::Gone) => {
                self.report.removed += usize::from(row.is_some());
                return row.map_or(Ok(()), |row| self.target.remove_file(&file.shown, &row));
            }
        };
        let before = self.prefixes.before(file, &bytes);
        let (sha256, stamp) = (file.sha256(&bytes, before), file.stamp.settled(self.now));
        match row {
            Some(row) if row.sha256 == sha256 => {
                self.report.unchanged += 1;
                return match &mut self.target {
                    Target::Index(writer) => writer.restamp(row.id, file, stamp),
                    Target::DryRun { .. } => Ok(()),
                };
            }
            Some(row) => {
                self.target.remove_file(&file.shown, &row)?;
                self.report.changed += 1;
            }
            None => self.report.added += 1,
        }
        let texts = rows::texts_of(file, &bytes, before);
        self.report.chunks += self.target.add(&texts, stamp, &sha256)?;
        Ok(())
    }

    /// Indexes the facts that hold now instead of those that are `known`; false when they cannot be read: then the
    /// old ones are still found.
    fn facts(&mut self, mut known: HashMap<Vec<u8>, i64>) -> rusqlite::Result<bool> {
        let stated = match fact_lines::read(self.home) {
            Ok(stated) => stated,
            Err(error) => {
                let why = format!(
                    "{error}; searches find the earlier facts; agent-daemon doctor shows the repair"
                );
                let path = fact_lines::SHOWN.to_owned();
                self.report.skipped.push(Skipped::new(path, why));
                return Ok(false);
            }
        };
        for (sha256, text) in stated {
            if known.remove(&sha256).is_none() {
                self.report.chunks += self.target.add(&[text], Stamp::default(), &sha256)?;
            }
        }
        if let Target::Index(writer) = &mut self.target {
            known.into_values().try_for_each(|id| writer.remove(id))?;
        }
        Ok(true)
    }
}

/// Returns the conversations of which a file came, went or changed: they decide what a summary in another file of
/// theirs may say.
fn changed_sessions(files: &[Candidate], known: &BTreeMap<String, FileRow>) -> HashSet<String> {
    let there: HashSet<&str> = files.iter().map(|file| file.shown.as_str()).collect();
    let is_changed = |file: &&Candidate| {
        let row = known.get(&file.shown);
        row.is_none_or(|row| row.stamp != file.stamp)
    };
    let changed = files.iter().filter(is_changed);
    let gone = known.keys().map(String::as_str);
    changed
        .map(|file| file.shown.as_str())
        .chain(gone.filter(|path| !there.contains(path)))
        .filter_map(sources::session_of)
        .map(str::to_owned)
        .collect()
}
