//! Draws facts from notes and conversations, and keeps each span from being worked through twice.
//!
//! ```text
//! notes      stamp, hash → changed? ┐                                              ┌ facts, sources,
//! sessions   watermark → next span  ┴→ claim (commit) → extract → restate (commit) ┤ watermark or hash,
//!                                                                                  └ release: all or nothing
//! ```
//! Notes are read by rules, and so are conversations; the model of `[routing] consolidation`, where that is one
//! (`offline` is none), adds what they do not see. After three answers that are none the span is parked: what the
//! rules found stays, and nothing is tried for ever.
//!
//! Nothing is extracted inside a transaction. The second commit checks that the claim is still ours: a
//! run that is killed anywhere may extract a span twice, and commits it once. `consolidate.lock` keeps
//! two runs from doing the same work side by side; the claims keep them apart even without it.

mod claim;
mod forget;
mod maintain;
mod metered_model;
mod model_reader;
mod notes;
mod run;
mod status;
mod transcripts;
mod watermarks;

pub use super::facts::{Change, Error};
pub use super::sources::Skipped;
pub use forget::{Named, forget, named, wring_out};
pub use maintain::{Conflict, Ended, Run, Undone, Upkeep, alone, maintain, runs, undo};
pub use metered_model::{Paid, estimate_usd, reader};
pub use model_reader::{Model, Trouble};
pub use status::{Parked, Status, parked, status};

use std::path::PathBuf;

use chrono_tz::Tz;

use super::Progress;
use super::facts;
use crate::config::Home;
use crate::db;
use crate::sys::lock;

/// What is to be done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options<'a> {
    /// Go through this conversation alone, and not through notes.
    pub session: Option<&'a str>,
    /// Go through everything again, as if nothing had been worked through. Facts that still follow from
    /// their sources stay as they are. A damaged database is set aside and made anew.
    pub backfill: bool,
    /// Write nothing, only say what would change.
    pub dry_run: bool,
    /// Have the rules read what a conversation that goes on said last, too, and all of it again later.
    pub to_the_end: bool,
}

/// With what it is done.
pub struct Means<'a> {
    /// The agent's zone, for days that are named.
    pub zone: Tz,
    /// Who reads conversations beside the rules.
    pub model: Option<&'a mut dyn Model>,
    /// When it is asked.
    pub asks: Asks,
}

/// When a model is asked about a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// As soon as there is enough to read.
    Now,
    /// When it has ended: one that goes on would be asked about again and again.
    AtTheEnd,
    /// In another run.
    Later,
}

impl Means<'_> {
    /// Returns those that cost nothing.
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
    /// Files that were worked through, gone ones too.
    pub files: usize,
    /// Files and conversations in which there was nothing to do.
    pub unchanged: usize,
    /// Spans of conversations that were worked through.
    pub spans: usize,
    /// Conversations that they are of.
    pub sessions: usize,
    /// Files and spans that another run is at, or did meanwhile.
    pub left: usize,
    /// Commitments that are new.
    pub promises: usize,
    /// Spans that a model was asked about, or would be, and about what that would cost, US dollars; `None` when nobody knows.
    pub asked: usize,
    /// See `asked`; only a dry run adds it up.
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
    /// It did its work.
    Done(Report),
    /// Another process is at it: its id.
    Busy(i32),
}

/// Returns the file that is locked by a run.
pub fn lock_file(home: &Home) -> PathBuf {
    home.state().join("consolidate.lock")
}

/// Brings the facts up to date with notes and conversations. Blocking; the directory of the state must
/// be there, except in a dry run. `each` is told after every file and conversation.
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
    if options.dry_run {
        return try_out(home, means, options, each).map(Outcome::Done);
    }
    let lock_file = lock_file(home);
    let Some(_lock) = lock::try_lock(&lock_file)? else {
        return Ok(Outcome::Busy(lock::holder(&lock_file)?.unwrap_or(0)));
    };
    let path = facts::database(home);
    let Means {
        zone,
        mut model,
        asks,
    } = means;
    let mut work = |each: &mut dyn FnMut(Progress)| -> Result<Report, Error> {
        // Again and again, for a database that is made anew.
        let model = model.as_mut().map(|model| &mut **model as &mut dyn Model);
        run::all(
            home,
            facts::open(&path)?,
            Means { zone, model, asks },
            options,
            each,
        )
    };
    match work(each) {
        Err(error) if error.is_damage() && options.backfill => {
            let aside = db::set_aside(&path)?;
            let report = work(each)?;
            Ok(Outcome::Done(Report {
                set_aside: Some(aside),
                ..report
            }))
        }
        done => done.map(Outcome::Done),
    }
}

/// Works on a copy in memory; no model is asked.
fn try_out(
    home: &Home,
    means: Means<'_>,
    options: Options<'_>,
    each: &mut dyn FnMut(Progress),
) -> Result<Report, Error> {
    let copy = match facts::memory_copy(&facts::database(home)).map_err(Error::from) {
        // It would be set aside.
        Err(error) if error.is_damage() && options.backfill => facts::in_memory()?,
        copy => copy?,
    };
    run::all(home, copy, means, options, each)
}

#[cfg(test)]
mod tests;
