//! Draws facts from notes and conversations, and keeps each span from being worked through twice.
//!
//! ```text
//! notes      stamp, hash → changed? ┐                                              ┌ facts, sources,
//! sessions   watermark → next span  ┴→ claim (commit) → extract → restate (commit) ┤ watermark or hash,
//!                                                                                  └ release: all or nothing
//! ```
//! Nothing is extracted inside a transaction. The second commit checks that the claim is still ours: a
//! run that is killed anywhere may extract a span twice, and commits it once. `consolidate.lock` keeps
//! two runs from doing the same work side by side; the claims keep them apart even without it.

mod claim;
mod notes;
mod rows;
mod run;
mod speech;
mod status;
#[cfg(test)]
mod tests;

pub use super::facts::{Change, Error};
pub use super::sources::Skipped;
pub use status::{Status, status};

use std::path::PathBuf;

use super::Progress;
use super::facts;
use crate::config::Home;
use crate::db;
use crate::sys::lock;

/// What is to be done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Go through everything again, as if nothing had been worked through. Facts that still follow from
    /// their sources stay as they are. A damaged database is set aside and made anew.
    pub backfill: bool,
    /// Write nothing, only say what would change.
    pub dry_run: bool,
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
pub fn run(home: &Home, options: Options, each: &mut dyn FnMut(Progress)) -> Result<Outcome, Error> {
    if options.dry_run {
        return try_out(home, options, each).map(Outcome::Done);
    }
    let lock_file = lock_file(home);
    let Some(_lock) = lock::try_lock(&lock_file)? else {
        return Ok(Outcome::Busy(lock::holder(&lock_file)?.unwrap_or(0)));
    };
    let path = facts::database(home);
    let work = |each: &mut dyn FnMut(Progress)| -> Result<Report, Error> { run::all(home, facts::open(&path)?, options, each) };
    match work(each) {
        Err(error) if error.is_damage() && options.backfill => {
            let aside = db::set_aside(&path)?;
            let report = work(each)?;
            Ok(Outcome::Done(Report { set_aside: Some(aside), ..report }))
        }
        done => done.map(Outcome::Done),
    }
}

/// Works on a copy in memory.
fn try_out(home: &Home, options: Options, each: &mut dyn FnMut(Progress)) -> Result<Report, Error> {
    let copy = facts::memory_copy(&facts::database(home)).map_err(Error::from);
    match copy.and_then(|copy| run::all(home, copy, options, each)) {
        // It would be set aside.
        Err(error) if error.is_damage() && options.backfill => run::all(home, facts::in_memory()?, options, each),
        done => done,
    }
}
