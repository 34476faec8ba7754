//! Extracts facts from notes and conversations, each span once.
//!
//! ```text
//! notes      stamp, hash → changed? ──────────────────────→ extract → restate (commit) → facts, sources, hash
//! sessions   watermark → next span  ──→ claim (commit) ───→ extract → restate (commit) → facts, sources, watermark,
//!                                                                                        release: all or nothing
//! ```
//! Notes and conversations are read by rules. The model of `[routing] consolidation` (unless it is `offline`) adds facts that
//! the rules do not find; in notes only if the settings say so. After three malformed answers the span is parked: the results
//! of the rules stay, and no model is asked again.
//!
//! Nothing is extracted inside a transaction. The last commit checks that the claim is still ours, and that the file is still
//! the one that was read: a killed run may extract a span twice, but commits it once. `consolidate.lock` prevents two runs
//! at the same time.

mod forget;
mod lease;
mod maintain;
mod metered_model;
mod model_reader;
mod notes;
mod run;
mod status;
mod transcripts;
mod undo;
mod watermarks;

pub use super::facts::{Change, Error};
pub use super::sources::Skipped;
pub use forget::{forget, vacuum};
pub use maintain::{Conflict, maintain};
pub use metered_model::{MeteredModel, estimate_usd, reader};
pub use model_reader::{Model, NoAnswer};
pub use status::{parked, status};
pub use undo::{runs, undo};

use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono_tz::Tz;
use rusqlite::Connection;

use super::Progress;
use super::facts;
use crate::config::Home;
use crate::sys::lock;
use crate::sys::lock::Lock;
use crate::{db, sys};

/// What is to be done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options<'a> {
    /// Read this conversation alone, and no notes.
    pub session: Option<&'a str>,
    /// Read everything again, as if nothing had been read. Facts that still follow from
    /// their sources stay as they are. A damaged database is set aside and made again.
    pub backfill: bool,
    /// Write nothing, only report what would change.
    pub dry_run: bool,
    /// Have the model read notes, too, when they changed.
    pub notes_by_model: bool,
    /// Have the rules read what a conversation that continues said last, too, and all of it again later.
    pub to_the_end: bool,
}

/// With what it is done.
pub struct Means<'a> {
    /// The agent's zone, for days that are named.
    pub zone: Tz,
    /// The model that reads conversations in addition to the rules.
    pub model: Option<&'a mut dyn Model>,
    /// When it is asked.
    pub asks: Asks,
}

/// When a model is asked about a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// As soon as there is enough to read.
    Now,
    /// When it has ended: a model would be called again and again for an open one.
    AtTheEnd,
    /// In another run.
    Later,
}

impl Means<'_> {
    /// Returns the readers that cost nothing.
    pub fn rules(zone: Tz) -> Self {
        Self {
            zone,
            model: None,
            asks: Asks::Later,
        }
    }
}

/// What was done, or would be.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// How the current facts changed, in the order in which it happened.
    pub changes: Vec<Change>,
    /// Facts that were stated once more.
    pub touched: usize,
    /// Files that were read, gone ones too.
    pub files: usize,
    /// Files and conversations in which there was nothing to do.
    pub unchanged: usize,
    /// Spans of conversations that were read, and the conversations that they are of.
    pub spans: usize,
    pub sessions: usize,
    /// Files and spans that another run is at, or did meanwhile.
    pub left: usize,
    /// Commitments that are new.
    pub promises: usize,
    /// Spans that a model was asked about, or would be, and, of a dry run, about what that would cost, US dollars; `None`
    /// when nobody knows.
    pub asked: usize,
    pub cost_usd: Option<f64>,
    /// Conversations that wait because no model could be asked, or none answered well, and why.
    pub waits: Vec<Skipped>,
    /// Conversations of which a span was left to the rules, because a model failed three times, and why.
    pub parked: Vec<Skipped>,
    /// What could not be read.
    pub skipped: Vec<Skipped>,
    /// Where a database was put that could not be used.
    pub set_aside: Option<PathBuf>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Done(Report),
    /// Another process is at it: its id.
    Busy(i32),
}

/// How other work on the facts ended: done, or not begun because a process, whose id it is, is at it.
pub type Ended<T> = Result<T, i32>;

/// How long others wait for a run: one by rules is over by then.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the file that is locked by a run.
pub fn lock_file(home: &Home) -> PathBuf {
    home.state().join("consolidate.lock")
}

/// Waits until no run is at it, a moment at most: somebody waits for what comes then.
///
/// # Errors
/// When the file system has no locks.
pub fn alone(home: &Home) -> Result<Ended<Lock>, sys::Error> {
    let lock_file = lock_file(home);
    match lock::try_lock_for(&lock_file, LOCK_TIMEOUT)? {
        Some(lock) => Ok(Ok(lock)),
        None => Ok(Err(lock::holder(&lock_file)?.unwrap_or(0))),
    }
}

/// Does `work` as the only process that writes facts.
fn with_lock<T>(
    home: &Home,
    work: impl FnOnce(&mut Connection, &Path) -> Result<T, Error>,
) -> Result<Ended<T>, Error> {
    let _lock = match alone(home)? {
        Ok(lock) => lock,
        Err(pid) => return Ok(Err(pid)),
    };
    let path = facts::database(home);
    work(&mut facts::open(&path)?, &path).map(Ok)
}

/// Brings the facts up to date with notes and conversations. Blocking; the directory of the state must
/// be there, except in a dry run, which works on a copy in memory. `each` is told after every file and conversation.
///
/// # Errors
/// When the lock or the database cannot be used. What cannot be read of notes and conversations is in
/// the report, and stops nothing. A damaged database stays as it is, except with `backfill`.
pub fn run(
    home: &Home,
    means: Means<'_>,
    options: Options<'_>,
    each: &mut dyn FnMut(Progress),
) -> Result<Outcome, Error> {
    let (path, lock_file) = (facts::database(home), lock_file(home));
    let _lock = match options.dry_run {
        true => None,
        false => match lock::try_lock(&lock_file)? {
            None => return Ok(Outcome::Busy(lock::holder(&lock_file)?.unwrap_or(0))),
            held => held,
        },
    };
    let Means {
        zone,
        mut model,
        asks,
    } = means;
    let mut work = |connection: Result<Connection, db::Error>| {
        // Again and again, for a database that is rebuilt.
        let model = model.as_mut().map(|model| &mut **model as &mut dyn Model);
        run::all(
            home,
            connection?,
            Means { zone, model, asks },
            options,
            each,
        )
    };
    let first = work(if options.dry_run {
        facts::memory_copy(&path)
    } else {
        facts::open(&path)
    });
    match first {
        Err(error) if error.is_damage() && options.backfill && options.dry_run => {
            work(facts::in_memory()).map(Outcome::Done)
        }
        Err(error) if error.is_damage() && options.backfill => {
            let set_aside = Some(db::set_aside(&path)?);
            let report = work(facts::open(&path))?;
            Ok(Outcome::Done(Report {
                set_aside,
                ..report
            }))
        }
        done => done.map(Outcome::Done),
    }
}

#[cfg(test)]
mod tests;
