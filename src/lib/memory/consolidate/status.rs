//! What there is and what waits, for people and doctors.

use super::{Error, Options, Outcome, lock_file, run};
use crate::config::Home;
use crate::memory::facts;
use crate::sys::{self, lock};
use crate::{clock, db};

/// What there is and what waits.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Status {
    /// Current facts.
    pub facts: i64,
    /// Facts that held once.
    pub former: i64,
    /// Files that would be worked through now.
    pub pending_files: usize,
    /// Conversations that would be.
    pub pending_sessions: usize,
    /// When the last run began, RFC 3339 UTC.
    pub last_run_at: Option<String>,
    /// When something was worked through last, RFC 3339 UTC.
    pub last_work_at: Option<String>,
    /// Files and spans of conversations that were worked through, ever.
    pub spans: i64,
    /// The process that is at it now.
    pub running: Option<i32>,
}

/// Returns what there is and what waits.
///
/// # Errors
/// When the database is damaged or cannot be read.
pub fn status(home: &Home) -> Result<Status, Error> {
    let path = facts::database(home);
    let lock_file = lock_file(home);
    let running = lock::holder(&lock_file)?;
    let last_run_at = sys::modified_at(&lock_file).map(clock::rfc3339);
    let Outcome::Done(planned) = run(home, Options { dry_run: true, backfill: false }, &mut |_| {})? else {
        return Ok(Status { running, last_run_at, ..Status::default() });
    };
    let mut status =
        Status { pending_files: planned.files, pending_sessions: planned.sessions, last_run_at, running, ..Status::default() };
    let Some(connection) = facts::open_read(&path)? else { return Ok(status) };
    let sql =
        "SELECT (SELECT count(*) FROM facts WHERE valid_to IS NULL), (SELECT count(*) FROM facts WHERE valid_to IS NOT NULL),
                 (SELECT count(*) FROM spans), (SELECT max(at) FROM spans)";
    let read = connection.query_row(sql, [], |row| {
        (status.facts, status.former, status.spans) = (row.get(0)?, row.get(1)?, row.get(2)?);
        status.last_work_at = row.get::<_, Option<i64>>(3)?.map(clock::rfc3339);
        Ok(())
    });
    read.map_err(|error| db::Error::of(&path, error))?;
    Ok(status)
}
