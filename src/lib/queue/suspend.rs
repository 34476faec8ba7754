//! Suspended turns: they have no task and no slot, only a row with the time at which they continue (`wake_at`). The code that
//! suspended them may wake them earlier.
//!
//! A turn that died with the daemon is suspended as well, see [`super::crash_count`].

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::{Store, to_json};
use crate::db;
use crate::db::Statements;

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
    /// When it is woken, milliseconds since 1970 UTC.
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
                let suspend = "UPDATE inbox SET state = 'pending', attempts = max(attempts - 1, 0), wake_at = ?2, suspended = ?3
                     WHERE id = ?1 AND state = 'running'";
                let mut count = 0;
                for id in &inbox_ids {
                    count += connection.change(suspend, (id, suspended.wake_at, &text))?;
                }
                Ok(count > 0)
            })
            .await
    }

    /// Lets turns that wait for a model be tried at `now`, whatever they found out before: of a daemon that ends when it has
    /// nothing to do, a start is the next try.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn try_models_at(&self, now: i64) -> Result<(), db::Error> {
        let sql = "UPDATE inbox SET wake_at = ?1, suspended = json_set(suspended, '$.wake_at', ?1)
             WHERE state = 'pending' AND wake_at > ?1 AND suspended ->> '$.on.model' IS NOT NULL";
        self.writer
            .write(move |connection| connection.run(sql, [now]))
            .await
    }

    /// Notes that a running turn only waits for somebody, or works again. A crash may lose it.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn idles(&self, inbox_id: &str, idle: bool) -> Result<(), db::Error> {
        let inbox_id = inbox_id.to_owned();
        let sql = "UPDATE inbox SET idle = ?2 WHERE state = 'running' AND run_id = (SELECT run_id FROM inbox WHERE id = ?1)";
        self.writer
            .write_lazily(move |connection| connection.run(sql, (inbox_id, idle)))
            .await
    }
}

/// Returns the column that says what the turn of an input waits for; a queue that an older release left has none.
pub(super) fn column(connection: &Connection) -> rusqlite::Result<&'static str> {
    or_null(
        connection,
        "CASE WHEN wake_at IS NOT NULL THEN suspended END",
    )
}

/// Returns the column that says since when it had to wait, also when it waits no longer.
pub(super) fn column_since(connection: &Connection) -> rusqlite::Result<&'static str> {
    or_null(connection, "suspended ->> '$.since'")
}

fn or_null(connection: &Connection, column: &'static str) -> rusqlite::Result<&'static str> {
    let is_known = connection.column_exists(None, "inbox", "suspended")?;
    Ok(if is_known { column } else { "NULL" })
}
