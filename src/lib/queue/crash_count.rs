//! Turns that were running in a crash: how often, the pause before the next retry, and when a turn is given up.

use crate::db::Statements;
use rusqlite::Connection;

/// How long a turn is suspended after its first death, its second …, milliseconds.
const AFTER_DEATH: [i64; 6] = [0, 0, 5_000, 30_000, 120_000, 600_000];
/// A turn is given up after so many deaths as the only one that ran,
const MOST_DEATHS: i64 = 6;
/// when they are spread over more than this, milliseconds.
const SPREAD_MS: i64 = 600_000;

/// How often a turn died with the daemon.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deaths {
    /// In all.
    pub count: i64,
    /// As the only turn that worked.
    pub alone: i64,
    /// For the first time, milliseconds since 1970 UTC.
    pub first_at: Option<i64>,
}

impl Deaths {
    /// Returns true when it is the turn itself that ends the daemon.
    pub fn is_crash_loop(self, now: i64) -> bool {
        let spread = self.first_at.map_or(0, |first| now - first);
        self.alone >= MOST_DEATHS && spread > SPREAD_MS
    }
}

/// What runs, in words that the index of the open inputs is found by: a start does not read all that was ever answered.
const RUNNING: &str = "state = 'running' AND state IN ('pending', 'running')";

/// Turns what ran into deaths: each is suspended, for longer each time.
pub(super) fn note_deaths(connection: &Connection, now: i64) -> rusqlite::Result<()> {
    let runs: i64 = connection.query_row(
        &format!(
            "SELECT count(DISTINCT coalesce(run_id, id)) FROM inbox WHERE {RUNNING} AND idle = 0"
        ),
        [],
        |row| row.get(0),
    )?;
    let sql = format!(
        "SELECT id, deaths + 1, deaths_alone + ?1, coalesce(first_death_at, ?2) FROM inbox WHERE {RUNNING} AND idle = 0"
    );
    let dead: Vec<(String, Deaths)> = connection.all(&sql, (i64::from(runs == 1), now), |row| {
        let deaths = Deaths {
            count: row.get(1)?,
            alone: row.get(2)?,
            first_at: row.get(3)?,
        };
        Ok((row.get(0)?, deaths))
    })?;
    for (id, deaths) in dead {
        let at = usize::try_from(deaths.count - 1).unwrap_or(0);
        let pause = match AFTER_DEATH.get(at).copied() {
            // Its sender is told at once.
            _ if deaths.is_crash_loop(now) => 0,
            Some(pause) => pause,
            None => 600_000,
        };
        let Deaths {
            count,
            alone,
            first_at,
        } = deaths;
        let sql = "UPDATE inbox SET deaths = ?2, deaths_alone = ?3, first_death_at = ?4, wake_at = ?5, suspended = json_set(suspended, '$.on', 'time') WHERE id = ?1";
        connection.run(sql, (id, count, alone, first_at, now + pause))?;
    }
    connection
        .execute(
            &format!("UPDATE inbox SET state = 'pending', idle = 0 WHERE {RUNNING}"),
            [],
        )
        .map(drop)
}
