//! Turns that are suspended: they have no task and no slot, only a row that says when they go on. That is a
//! time (`wake_at`); whoever suspended them may know sooner that what they wait for is there.
//!
//! A turn that died with the daemon is suspended as well, for longer each time.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::{Store, from_json, to_json};
use crate::db;

/// How long a turn is suspended after its first death, its second …, milliseconds.
const AFTER_DEATH: [i64; 6] = [0, 0, 5_000, 30_000, 120_000, 600_000];
/// A turn is given up after so many deaths as the only one that ran,
const MOST_DEATHS: i64 = 6;
/// when they are spread over more than this, milliseconds.
const SPREAD_MS: i64 = 600_000;

/// What may wake a suspended turn before its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitsOn {
    /// Nothing.
    Time,
    /// This model answers somebody; of those that wait for it one at a time tries it.
    Model(String),
    /// A call settles, and leaves more of the budget.
    Budget,
    /// New settings.
    Settings,
}

/// What a suspended turn waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspended {
    /// Since when it waits, milliseconds since 1970 UTC; over all its tries.
    pub since: i64,
    /// When it goes on by itself, milliseconds since 1970 UTC.
    pub wake_at: i64,
    /// What it waits for, in plain words for its sender.
    pub waits_for: String,
    /// How the last try failed, for the owner.
    pub detail: String,
    /// What may wake it sooner.
    pub on: WaitsOn,
    /// How often it was suspended.
    pub tries: u32,
    /// How often its own call was what failed while the model answered others.
    #[serde(default)]
    pub faults: u32,
}

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
    pub fn are_its_fault(self, now: i64) -> bool {
        let spread = self.first_at.map_or(0, |first| now - first);
        self.alone >= MOST_DEATHS && spread > SPREAD_MS
    }
}

impl Store {
    /// Suspends the turn of `inbox_ids`, which keeps its attempts; false when all of it was stopped meanwhile.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn suspend(
        &self,
        inbox_ids: &[String],
        suspended: &Suspended,
    ) -> Result<bool, db::Error> {
        let (inbox_ids, suspended) = (inbox_ids.to_vec(), suspended.clone());
        self.writer
            .write(move |connection| {
                let text = to_json(&suspended)?;
                let mut suspend = connection.prepare_cached(
                    "UPDATE inbox SET state = 'pending', attempts = max(attempts - 1, 0), wake_at = ?2, suspended = ?3
                     WHERE id = ?1 AND state = 'running'",
                )?;
                let mut count = 0;
                for id in &inbox_ids {
                    count += suspend.execute((id, suspended.wake_at, &text))?;
                }
                Ok(count > 0)
            })
            .await
    }

    /// Notes that a running turn only waits for somebody, or works again. A crash may lose it.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn idles(&self, inbox_id: &str, idle: bool) -> Result<(), db::Error> {
        let inbox_id = inbox_id.to_owned();
        self.writer
            .write_lazily(move |connection| {
                connection
                    .prepare_cached(
                        "UPDATE inbox SET idle = ?2 WHERE state = 'running' AND run_id = (SELECT run_id FROM inbox WHERE id = ?1)",
                    )?
                    .execute((inbox_id, idle))
                    .map(drop)
            })
            .await
    }
}

/// Turns what ran into deaths: each is suspended, for longer each time.
pub(super) fn note_deaths(connection: &Connection, now: i64) -> rusqlite::Result<()> {
    let runs: i64 = connection.query_row(
        "SELECT count(DISTINCT coalesce(run_id, id)) FROM inbox WHERE state = 'running' AND idle = 0",
        [],
        |row| row.get(0),
    )?;
    let dead: Vec<(String, Deaths)> = connection
        .prepare(
            "SELECT id, deaths + 1, deaths_alone + ?1, coalesce(first_death_at, ?2) FROM inbox WHERE state = 'running' AND idle = 0",
        )?
        .query_map((i64::from(runs == 1), now), |row| {
            let deaths = Deaths {
                count: row.get(1)?,
                alone: row.get(2)?,
                first_at: row.get(3)?,
            };
            Ok((row.get(0)?, deaths))
        })?
        .collect::<rusqlite::Result<_>>()?;
    for (id, deaths) in dead {
        let at = usize::try_from(deaths.count - 1).unwrap_or(0);
        let pause = match AFTER_DEATH.get(at).copied() {
            // Its sender is told at once.
            _ if deaths.are_its_fault(now) => 0,
            Some(pause) => pause,
            None => 600_000,
        };
        let Deaths {
            count,
            alone,
            first_at,
        } = deaths;
        connection
            .prepare_cached(
                "UPDATE inbox SET deaths = ?2, deaths_alone = ?3, first_death_at = ?4, wake_at = ?5, suspended = json_set(suspended, '$.on', 'time') WHERE id = ?1",
            )?
            .execute((id, count, alone, first_at, now + pause))?;
    }
    connection
        .execute(
            "UPDATE inbox SET state = 'pending', idle = 0 WHERE state = 'running'",
            [],
        )
        .map(drop)
}

pub(super) fn suspended(
    text: Option<String>,
    column: usize,
) -> rusqlite::Result<Option<Suspended>> {
    text.map(|text| from_json(&text, column)).transpose()
}

/// Returns false for a queue that an older release left.
pub(super) fn is_known(connection: &Connection) -> rusqlite::Result<bool> {
    connection.column_exists(None, "inbox", "suspended")
}
