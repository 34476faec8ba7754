//! The number of facts and the pending work, for people and for doctor.

use chrono_tz::Tz;
use rusqlite::Connection;

use super::{Error, Means, Options, Outcome, lock_file, run};
use crate::config::Home;
use crate::db::Statements;
use crate::memory::facts;
use crate::sys;
use crate::sys::lock;
use crate::{clock, db};

/// What there is and what waits.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Status {
    /// The numbers of current and of former facts.
    pub facts: i64,
    pub former: i64,
    /// Files and conversations that would be read now.
    pub pending_files: usize,
    pub pending_sessions: usize,
    /// Open commitments.
    pub commitments: i64,
    pub episodes: i64,
    /// Spans of conversations that no model could read.
    pub parked: Vec<Parked>,
    /// When the last run began, and when something was read last, RFC 3339 UTC.
    pub last_run_at: Option<String>,
    pub last_work_at: Option<String>,
    /// Files and spans of conversations that were read, ever.
    pub spans: i64,
    /// The process that is at it now.
    pub running: Option<i32>,
}

/// A span that a model failed at three times. Rules read it.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Parked {
    pub session_id: String,
    /// Its first and last event.
    pub first: i64,
    pub last: i64,
    /// How the last try failed.
    pub why: String,
    /// RFC 3339 UTC.
    pub at: String,
}

/// Returns what there is and what waits.
///
/// # Errors
/// When the database is damaged or cannot be read.
pub fn status(home: &Home) -> Result<Status, Error> {
    let path = facts::database(home);
    let lock_file = lock_file(home);
    let dry_run = Options {
        dry_run: true,
        ..Options::default()
    };
    let mut status = Status {
        running: lock::holder(&lock_file)?,
        last_run_at: sys::modified_at(&lock_file).map(clock::rfc3339),
        ..Status::default()
    };
    if let Outcome::Done(planned) = run(home, Means::rules(Tz::UTC), dry_run, &mut |_| {})? {
        (status.pending_files, status.pending_sessions) = (planned.files, planned.sessions);
    }
    let Some(connection) = facts::open_read(&path)? else {
        return Ok(status);
    };
    let sql =
        "SELECT (SELECT count(*) FROM facts WHERE valid_to IS NULL), (SELECT count(*) FROM facts WHERE valid_to IS NOT NULL),
                 (SELECT count(*) FROM spans), (SELECT max(at) FROM spans),
                 (SELECT count(*) FROM commitments WHERE status = 'open'), (SELECT count(*) FROM episodes)";
    let read = connection.query_row(sql, [], |row| {
        status.last_work_at = row.get::<_, Option<i64>>(3)?.map(clock::rfc3339);
        (status.facts, status.former, status.spans) = (row.get(0)?, row.get(1)?, row.get(2)?);
        (status.commitments, status.episodes) = (row.get(4)?, row.get(5)?);
        Ok(())
    });
    read.map_err(|error| db::Error::of(&path, error))?;
    status.parked = parked_in(&connection).map_err(|error| db::Error::of(&path, error))?;
    Ok(status)
}

/// Returns the spans that no model could read, the newest first.
///
/// # Errors
/// When the database is damaged or cannot be read.
pub fn parked(home: &Home) -> Result<Vec<Parked>, Error> {
    let path = facts::database(home);
    let Some(connection) = facts::open_read(&path)? else {
        return Ok(Vec::new());
    };
    Ok(parked_in(&connection).map_err(|error| db::Error::of(&path, error))?)
}

fn parked_in(connection: &Connection) -> rusqlite::Result<Vec<Parked>> {
    let sql = "SELECT session_id, first, last, why, at FROM parked ORDER BY at DESC";
    let read = |row: &rusqlite::Row<'_>| {
        let at = clock::rfc3339(row.get(4)?);
        Ok(Parked {
            session_id: row.get(0)?,
            first: row.get(1)?,
            last: row.get(2)?,
            why: row.get(3)?,
            at,
        })
    };
    connection.all(sql, [], read)
}
