//! The runs of the last 30 days, and undoing one.

use super::{Ended, with_lock};
use crate::config::Home;
use crate::db::Statements;
use crate::memory::facts;
use crate::memory::facts::store::Applied;
use crate::memory::facts::{Change, Error};
use crate::{clock, db};

/// How long a run can be undone: 30 days.
pub(super) const KEEP_MS: i64 = 30 * 24 * 3600 * 1000;
/// Runs that are listed.
const MAX_RUNS: i64 = 20;

/// A run that can be undone.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Run {
    pub run: String,
    /// When it ended, RFC 3339 UTC.
    pub at: String,
    /// Lines that state a fact which it took in, and those that it took out.
    pub put_in: i64,
    pub taken_out: i64,
    /// Commitments it found that are open.
    pub promised: i64,
    /// Episodes it tells of.
    pub episodes: i64,
}

/// What undoing a run changed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Undone {
    /// How the current facts changed.
    pub changes: Vec<Change>,
    /// Open commitments that are cancelled.
    pub commitments: usize,
    /// Episodes that are gone.
    pub episodes: usize,
}

/// Returns the runs that can be undone, the newest first.
///
/// # Errors
/// When the database is damaged or cannot be read.
pub fn runs(home: &Home) -> Result<Vec<Run>, Error> {
    let path = facts::database(home);
    let Some(connection) = facts::open_read(&path)? else {
        return Ok(Vec::new());
    };
    let read = || -> rusqlite::Result<Vec<Run>> {
        // A run's name begins with its time.
        // What is kept of undone runs is none.
        let sql = "SELECT run, max(at), sum(put_in), sum(taken_out), sum(promised), sum(episodes) FROM (
                     SELECT run, at, put_in, NOT put_in AS taken_out, 0 AS promised, 0 AS episodes FROM source_log
                     UNION ALL SELECT run, created_at, 0, 0, 1, 0 FROM commitments WHERE status = 'open'
                     UNION ALL SELECT run, created_at, 0, 0, 0, 1 FROM episodes)
                   WHERE at >= ?2 AND run <> ?3 GROUP BY run ORDER BY run DESC LIMIT ?1";
        let since = clock::now_ms() - KEEP_MS;
        connection.all(sql, (MAX_RUNS, since, facts::UNDONE), |row| {
            Ok(Run {
                run: row.get(0)?,
                at: clock::rfc3339(row.get(1)?),
                put_in: row.get(2)?,
                taken_out: row.get(3)?,
                promised: row.get(4)?,
                episodes: row.get(5)?,
            })
        })
    };
    Ok(read().map_err(|error| db::Error::of(&path, error))?)
}

/// Takes back what `run` did, see [`facts::undo`]; `None` when nothing of it is known.
///
/// # Errors
/// As [`super::run()`].
pub fn undo(home: &Home, run: &str) -> Result<Ended<Option<Undone>>, Error> {
    with_lock(home, |connection, path| {
        facts::transact(connection, path, |connection| {
            let work = || {
                let now = clock::now_ms();
                // What is settled is not promised again by the lines that it was found in.
                let sql =
                    "UPDATE commitments SET status = 'cancelled', updated_at = max(updated_at, ?2)
                           WHERE run = ?1 AND status = 'open'";
                Ok((
                    facts::undo(connection, run, now)?,
                    connection.execute(sql, (run, now))?,
                    connection.execute("DELETE FROM episodes WHERE run = ?1", [run])?,
                ))
            };
            let (applied, commitments, episodes) =
                work().map_err(|error| db::Error::of(path, error))?;
            let is_known = applied.is_some() || commitments + episodes > 0;
            let Applied { changes, .. } = applied.unwrap_or_default();
            Ok(is_known.then_some(Undone {
                changes,
                commitments,
                episodes,
            }))
        })
    })
}
