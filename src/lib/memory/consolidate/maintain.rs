//! What keeps the facts in order from day to day, and what takes a run back.

use std::time::Duration;

use chrono_tz::Tz;
use rusqlite::{Connection, TransactionBehavior};

use super::lock_file;
use crate::config::Home;
use crate::memory::facts;
use crate::memory::facts::commitments;
use crate::memory::facts::commitments::Commitment;
use crate::memory::facts::store::Applied;
use crate::memory::facts::{Change, Error, Fact, Filter};
use crate::sys::lock;
use crate::sys::lock::Lock;
use crate::{clock, db, sys};

/// How long a run can be undone, and how long it is known that one was there (30 and 90 days).
const KEEP_LOG_MS: i64 = 30 * 24 * 3600 * 1000;
const KEEP_SPANS_MS: i64 = 90 * 24 * 3600 * 1000;
/// A run by rules is over by then.
const PATIENCE: Duration = Duration::from_secs(5);
/// Runs that are listed.
const MAX_RUNS: i64 = 20;

/// What was put in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Upkeep {
    /// Commitments whose time is over.
    pub expired: Vec<Commitment>,
    /// Facts beside which a note still states another value: the newer one counts, the older line is wrong.
    pub conflicts: Vec<Conflict>,
    /// Rows about old runs that were deleted.
    pub pruned: usize,
}

/// Two values in two notes.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict {
    /// What holds.
    pub current: Fact,
    /// What another line says still.
    pub other: Fact,
}

/// A run that can be undone.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Run {
    /// Its id.
    pub run: String,
    /// When it ended, RFC 3339 UTC.
    pub at: String,
    /// Lines that state a fact which it took in.
    pub put_in: i64,
    /// Those that it took out.
    pub taken_out: i64,
    /// Commitments it found that are open.
    pub promised: i64,
    /// Episodes it tells of.
    pub episodes: i64,
}

/// What came of undoing a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Undone {
    /// How the current facts changed.
    pub changes: Vec<Change>,
    /// Open commitments that are gone.
    pub commitments: usize,
    /// Episodes that are gone.
    pub episodes: usize,
}

/// How it ended: with the work done, or because another process, whose id it is, is at it.
pub type Ended<T> = Result<T, i32>;

/// Lets overdue commitments expire, forgets what no longer helps, and finds notes that contradict each other.
///
/// # Errors
/// As [`super::run()`].
pub fn maintain(home: &Home, zone: Tz) -> Result<Ended<Upkeep>, Error> {
    let path = facts::database(home);
    with_lock(home, |connection| {
        let now = clock::now_ms();
        let expired = commitments::expire(connection, &path, zone, now)?;
        let pruned = prune(connection, now).map_err(|error| db::Error::of(&path, error))?;
        let conflicts = conflicts(connection, &path)?;
        Ok(Upkeep {
            expired,
            conflicts,
            pruned,
        })
    })
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
        let sql = "SELECT run, max(at), sum(put_in), sum(taken_out), sum(promised), sum(episodes) FROM (
                     SELECT run, at, put_in, NOT put_in AS taken_out, 0 AS promised, 0 AS episodes FROM source_log
                     UNION ALL SELECT run, created_at, 0, 0, 1, 0 FROM commitments WHERE status = 'open'
                     UNION ALL SELECT run, created_at, 0, 0, 0, 1 FROM episodes)
                   WHERE at >= ?2 GROUP BY run ORDER BY run DESC LIMIT ?1";
        let mut query = connection.prepare(sql)?;
        let rows = query.query_map([MAX_RUNS, clock::now_ms() - KEEP_LOG_MS], |row| {
            let at = clock::rfc3339(row.get(1)?);
            let (put_in, taken_out, promised, episodes) =
                (row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?);
            Ok(Run {
                run: row.get(0)?,
                at,
                put_in,
                taken_out,
                promised,
                episodes,
            })
        })?;
        rows.collect()
    };
    Ok(read().map_err(|error| db::Error::of(&path, error))?)
}

/// Takes back what `run` did, see [`facts::undo`]; `None` when nothing of it is known.
///
/// # Errors
/// As [`super::run()`].
pub fn undo(home: &Home, run: &str) -> Result<Ended<Option<Undone>>, Error> {
    let path = facts::database(home);
    with_lock(home, |connection| {
        let work = |connection: &mut Connection| -> rusqlite::Result<Option<Undone>> {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let applied = facts::undo(&transaction, run, clock::now_ms())?;
            let commitments = transaction.execute(
                "DELETE FROM commitments WHERE run = ?1 AND status = 'open'",
                [run],
            )?;
            let episodes = transaction.execute("DELETE FROM episodes WHERE run = ?1", [run])?;
            transaction.commit()?;
            let is_known = applied.is_some() || commitments + episodes > 0;
            let Applied { changes, .. } = applied.unwrap_or_default();
            Ok(is_known.then_some(Undone {
                changes,
                commitments,
                episodes,
            }))
        };
        Ok(work(connection).map_err(|error| db::Error::of(&path, error))?)
    })
}

/// Waits until no run is at it, a moment at most: somebody waits for what comes then.
///
/// # Errors
/// When the file system has no locks.
pub fn alone(home: &Home) -> Result<Ended<Lock>, sys::Error> {
    let lock_file = lock_file(home);
    let lock = lock::try_lock_for(&lock_file, PATIENCE)?;
    lock.map_or_else(
        || Ok(Err(lock::holder(&lock_file)?.unwrap_or(0))),
        |lock| Ok(Ok(lock)),
    )
}

/// Does `work` as the only process that writes facts.
pub(super) fn with_lock<T>(
    home: &Home,
    work: impl FnOnce(&mut Connection) -> Result<T, Error>,
) -> Result<Ended<T>, Error> {
    let _lock = match alone(home)? {
        Ok(lock) => lock,
        Err(pid) => return Ok(Err(pid)),
    };
    let mut connection = facts::open(&facts::database(home))?;
    work(&mut connection).map(Ok)
}

fn prune(connection: &Connection, now: i64) -> rusqlite::Result<usize> {
    let logged = connection.execute("DELETE FROM source_log WHERE at < ?1", [now - KEEP_LOG_MS])?;
    // The last of each source is what an undo looks at.
    let spans =
        "DELETE FROM spans WHERE at < ?1 AND id NOT IN (SELECT max(id) FROM spans GROUP BY source)";
    Ok(logged + connection.execute(spans, [now - KEEP_SPANS_MS])?)
}

/// A conversation is not corrected; a note should be.
fn conflicts(connection: &Connection, path: &std::path::Path) -> Result<Vec<Conflict>, Error> {
    let sql = "SELECT DISTINCT old.id, new.id FROM facts old JOIN facts new ON new.scope = old.scope
                 AND new.entity_key = old.entity_key AND new.attribute_key = old.attribute_key AND new.valid_to IS NULL
               JOIN fact_sources s ON s.fact = old.id AND s.session_id IS NULL
               WHERE old.valid_to IS NOT NULL AND old.value_key <> new.value_key ORDER BY new.id, old.id";
    let read = || {
        connection
            .prepare(sql)?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<Vec<(i64, i64)>>>()
    };
    let pairs = read().map_err(|error| db::Error::of(path, error))?;
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    let all = facts::list(
        path,
        &Filter {
            all: true,
            ..Filter::default()
        },
    )?;
    let fact = |id: i64| all.iter().find(|fact| fact.id == id).cloned();
    let conflict = |(other, current)| {
        Some(Conflict {
            current: fact(current)?,
            other: fact(other)?,
        })
    };
    Ok(pairs.into_iter().filter_map(conflict).collect())
}
