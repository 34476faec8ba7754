//! `queue.db`: accepted messages and pending replies, the record of the message path.
//!
//! | table | content |
//! |---|---|
//! | `seen` | keys of known inputs, for 14 days (of reminders of promises for good), so that a repeated input is one; of a command also the digest of its content |
//! | `offsets` | where the next poll of a bot begins |
//! | `inbox` | accepted inputs: `pending → running → done \| dead`; one that is suspended is `pending` until `wake_at` |
//! | `notes` | context notes of a session, read by its next turn |
//! | `routes` | the chat in which the people of a session wrote last |
//! | `continued` | conversations that the owner continued in another place, see `/continue` |
//! | `shown` | messages to be removed again: progress, previews |
//! | `approvals` | requests to the owner: `pending → approved → used`, or `denied`, `expired`, `withdrawn` |
//! | `grants` | what the owner allowed for the rest of a conversation |
//! | `tasks` | tasks of plans: `blocked → ready → done \| dead \| cancelled` |
//! | `outbox` | rendered parts: `pending → sending → sent`, `unknown` when the outcome is unknown, `dead` |
//!
//! Each step is one transaction: accept (key + input + offset), start (run + attempt), finish
//! (done + parts to send), sending, sent. Rows in state `dead` are the dead letters.

mod after_takeover;
mod approvals;
mod context_notes;
mod continued_conversations;
mod conversation_by_answers;
mod crash_count;
mod dead_letters;
mod dedup;
mod erase;
mod inbox;
mod outbox;
mod previews;
mod prune;
mod routes;
mod schema;
mod subagents;
mod suspend;
mod tasks;
mod trace;
mod view;

pub use after_takeover::doubt;
pub use approvals::{
    BESIDE_TURNS, Decided, PATIENCE_MS, PlainWord, PutDown, Request, Shown, Standing, Written,
    approvals, ending,
};
pub use context_notes::{Heard, Note};
pub use continued_conversations::{conversation_of, places};
pub use conversation_by_answers::Exchange;
pub use crash_count::Deaths;
pub use dead_letters::Which;
pub use dedup::{Known, command_key};
pub use erase::erase;
pub use inbox::{Accepted, Arrival, Ended, Finish, Progress, Started, Stop, Stopped, Verdict};
pub use outbox::{Aftermath, NewPart, Part};
pub use routes::LastRoute;
#[cfg(test)]
use schema::MIGRATIONS;
pub use schema::migrate;
pub use subagents::{Ending, Subagent};
pub use suspend::{Suspended, WaitsOn};
pub use tasks::{AfterFailure, NewTask, Postponed, ReadyTask, Told, call_id};
pub use trace::{Asking, Delivery, Meant, Trace, Traced, meant, trace};
pub use view::{
    Dead, Fate, Listing, Open, clash, counts, downloads_in_use, examine, fates, knows, listing,
    newest, result, results,
};

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, Row};

use crate::db;
use crate::db::Statements;
use crate::message::{ChatRef, Route};

/// How long keys of inputs and finished rows are kept (specification §3).
pub const KEEP: Duration = Duration::from_secs(14 * 24 * 3600);
/// How long dead letters are kept: a quarter of a year, so that people who look rarely still see them.
const KEEP_DEAD_MS: i64 = 90 * 24 * 3_600_000;
/// The queue, for the one process that owns it.
#[derive(Clone)]
pub struct Store {
    writer: db::Writer,
}

/// What was open when the daemon last ended.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Inputs not yet answered, oldest first.
    pub inbox: Vec<Accepted>,
    /// Parts not yet sent, oldest first.
    pub outbox: Vec<Part>,
    /// The newest row of the inbox and when it was received, milliseconds since 1970 UTC; zeros when there is none.
    pub newest: (i64, i64),
    /// What to say of rows that could not be read and are dead letters now.
    pub unreadable: Vec<String>,
}

impl Store {
    /// Opens `queue.db` and starts its writing thread.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub fn start(path: &Path) -> Result<Self, db::Error> {
        Ok(Self {
            writer: db::Writer::over(schema::open(path)?, path)?,
        })
    }

    /// Completes the file of the database before the process ends, see [`db::Writer::checkpoint`].
    pub async fn checkpoint(&self) {
        self.writer.checkpoint().await;
    }

    /// Waits until the database is damaged beyond use, see [`db::Writer::lost`].
    pub async fn lost(&self) {
        self.writer.lost().await;
    }

    /// Returns what was open when the daemon last ended. Parts that were being sent become
    /// `unknown`: nobody can say whether they arrived; except for those `in_hand` (row, time of storing, channel), of which
    /// their channel can. Turns that ran died once more.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn recover(
        &self,
        in_hand: Vec<(i64, i64, String)>,
        now: i64,
    ) -> Result<Recovered, db::Error> {
        self.writer
            .write(move |connection| {
                let known = "UPDATE outbox SET state = 'pending' WHERE id = ?1 AND created_at = ?2 AND channel = ?3 AND state = 'sending'";
                for part in &in_hand {
                    connection.run(known, (part.0, part.1, &part.2))?;
                }
                let mut unreadable = inbox::bury_unreadable(connection, now)?;
                unreadable.extend(outbox::bury_unreadable(connection)?);
                // The second condition is that of the index of the open parts.
                connection.execute(
                    "UPDATE outbox SET state = 'unknown', unknowns = unknowns + 1
                     WHERE state = 'sending' AND state IN ('pending', 'sending', 'unknown')",
                    [],
                )?;
                crash_count::note_deaths(connection, now)?;
                Ok(Recovered {
                    inbox: inbox::open(connection)?,
                    outbox: outbox::open(connection)?,
                    newest: inbox::newest(connection)?,
                    unreadable,
                })
            })
            .await
    }

    /// Returns the update id where the next poll of `bot` begins and when it was last moved.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn offset(&self, bot: i64) -> Result<Option<(i64, i64)>, db::Error> {
        let sql = "SELECT next_update_id, updated_at FROM offsets WHERE bot = ?1";
        self.writer
            .read(move |connection| {
                connection.first(sql, [bot], |row| Ok((row.get(0)?, row.get(1)?)))
            })
            .await
    }

    /// Returns how many inputs are not answered, and how many parts not sent, of what needs no channel
    /// but these. Inputs that are suspended beyond `soon` (milliseconds since 1970 UTC) are not counted, nor what cannot begin
    /// before them: all that waits behind them in their lane but a choice of the model.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn unfinished(
        &self,
        channels: Vec<String>,
        soon: i64,
    ) -> Result<(i64, i64), db::Error> {
        self.writer
            .read(move |connection| {
                let inputs = "SELECT count(*) FROM inbox i WHERE state IN ('pending', 'running')
                     AND coalesce(envelope ->> '$.route.channel', '') = ?1 AND coalesce(wake_at, 0) <= ?2
                     AND NOT (state = 'pending' AND coalesce(envelope ->> '$.command.name', '') <> 'model' AND EXISTS
                         (SELECT 1 FROM inbox ahead WHERE ahead.state = 'pending' AND ahead.wake_at > ?2
                              AND ahead.session_key = i.session_key))";
                let mut inbox = connection.one(inputs, ("", soon), |row| row.get::<_, i64>(0))?;
                let parts = "SELECT count(*) FROM outbox WHERE state IN ('pending', 'sending', 'unknown') AND channel = ?1";
                let tasks = "SELECT count(*) FROM tasks t JOIN inbox i ON i.id = t.inbox_id
                     WHERE t.state IN ('blocked', 'ready') AND i.envelope ->> '$.route.channel' = ?1";
                let mut outbox = 0;
                for channel in channels {
                    outbox += connection.one(tasks, [&channel], |row| row.get::<_, i64>(0))?;
                    inbox += connection.one(inputs, (&channel, soon), |row| row.get::<_, i64>(0))?;
                    outbox += connection.one(parts, [&channel], |row| row.get::<_, i64>(0))?;
                }
                Ok((inbox, outbox))
            })
            .await
    }

    /// Returns how many inputs of `channel` are not answered.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn unanswered(&self, channel: String) -> Result<i64, db::Error> {
        let sql = "SELECT count(*) FROM inbox WHERE state IN ('pending', 'running') AND envelope ->> '$.route.channel' = ?1";
        self.writer
            .read(move |connection| connection.one(sql, [channel], |row| row.get(0)))
            .await
    }

    /// Forgets keys and finished rows older than [`KEEP`].
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn prune(&self, now: i64) -> Result<(), db::Error> {
        self.writer
            .write_lazily(move |connection| prune::prune(connection, now))
            .await
    }
}

/// Returns the first column of each row that `read` cannot make sense of, and why.
fn unreadable(
    connection: &Connection,
    sql: &str,
    read: impl Fn(&Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<Vec<(i64, String)>> {
    use rusqlite::Error::{FromSqlConversionFailure, InvalidColumnType};
    let mut found = Vec::new();
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        match read(row) {
            Err(error @ (FromSqlConversionFailure(..) | InvalidColumnType(..))) => {
                found.push((row.get(0)?, error.to_string()));
            }
            done => done?,
        }
    }
    Ok(found)
}

/// Reads a channel, a chat and its topic, from the column `first` on.
fn route(row: &Row<'_>, first: usize) -> rusqlite::Result<Route> {
    Ok(Route {
        channel: row.get(first)?,
        chat: ChatRef {
            chat: row.get(first + 1)?,
            topic: row.get(first + 2)?,
        },
    })
}

/// Reads JSON that we wrote ourselves out of a column; NULL is JSON's null.
fn json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str_or_null()?;
    serde_json::from_str(text.unwrap_or("null")).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(
            column,
            rusqlite::types::Type::Text,
            Box::new(error),
        )
    })
}

fn to_json<T: serde::Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

#[cfg(test)]
mod tests;
