//! Regular maintenance of the facts.

use std::path::Path;

use chrono_tz::Tz;
use rusqlite::Connection;

use super::{Ended, undo, with_lock};
use crate::clock;
use crate::config::Home;
use crate::db;
use crate::db::Statements;
use crate::memory::facts;
use crate::memory::facts::commitments;
use crate::memory::facts::commitments::Commitment;
use crate::memory::facts::{Error, Fact, Filter};

/// How long it is known that a run was there: 90 days.
const KEEP_SPANS_MS: i64 = 90 * 24 * 3600 * 1000;

/// What was put in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Upkeep {
    /// Commitments whose time is over.
    pub expired: Vec<Commitment>,
    /// Facts for which a note still states another value: the newer one is used, the older line is wrong.
    pub conflicts: Vec<Conflict>,
    /// Rows about old runs that were deleted.
    pub pruned: usize,
}

/// Two values in two notes.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict {
    /// The current value.
    pub current: Fact,
    /// What another line says still.
    pub other: Fact,
}

/// Lets overdue commitments expire, forgets what no longer helps, and finds notes that contradict each other.
///
/// # Errors
/// As [`super::run()`].
pub fn maintain(home: &Home, zone: Tz) -> Result<Ended<Upkeep>, Error> {
    with_lock(home, |connection, path| {
        let now = clock::now_ms();
        let (expired, pruned) = facts::transact(connection, path, |connection| {
            let expired = commitments::expire(connection, path, zone, now)?;
            let pruned = prune(connection, now).map_err(|error| db::Error::of(path, error))?;
            Ok((expired, pruned))
        })?;
        let conflicts = conflicts(connection, path)?;
        Ok(Upkeep {
            expired,
            conflicts,
            pruned,
        })
    })
}

fn prune(connection: &Connection, now: i64) -> rusqlite::Result<usize> {
    let logged = connection.execute(
        "DELETE FROM source_log WHERE at < ?1 AND run <> ?2",
        (now - undo::KEEP_MS, facts::UNDONE),
    )?;
    // The last of each source is what an undo looks at.
    let spans =
        "DELETE FROM spans WHERE at < ?1 AND id NOT IN (SELECT max(id) FROM spans GROUP BY source)";
    Ok(logged + connection.execute(spans, [now - KEEP_SPANS_MS])?)
}

/// A conversation is not corrected; a note should be.
fn conflicts(connection: &Connection, path: &Path) -> Result<Vec<Conflict>, Error> {
    let sql = "SELECT DISTINCT old.id, new.id FROM facts old JOIN facts new ON new.scope = old.scope
                 AND new.entity_key = old.entity_key AND new.attribute_key = old.attribute_key AND new.valid_to IS NULL
               JOIN fact_sources s ON s.fact = old.id AND s.session_id IS NULL
               WHERE old.valid_to IS NOT NULL AND old.value_key <> new.value_key ORDER BY new.id, old.id";
    let pairs: Vec<(i64, i64)> = connection
        .all(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .map_err(|error| db::Error::of(path, error))?;
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
        let (current, other) = (fact(current)?, fact(other)?);
        Some(Conflict { current, other })
    };
    Ok(pairs.into_iter().filter_map(conflict).collect())
}
