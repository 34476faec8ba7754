//! Read access to `queue.db` for any process, without the daemon.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::dedup::{Known, command_key, known};
use super::inbox;
use super::suspend;
use super::suspend::Suspended;
use super::{Store, json};
use crate::control::replies::Reply;
use crate::db;
use crate::db::Statements;
use crate::message::Envelope;

/// How many rows are open or dead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Inputs not yet answered.
    pub inbox: i64,
    /// Parts not yet sent.
    pub outbox: i64,
    /// Dead letters of both kinds.
    pub dead: i64,
}

/// All open and dead rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Inputs not yet answered, oldest first.
    pub inbox: Vec<Open>,
    /// Parts not yet sent, oldest first.
    pub outbox: Vec<Open>,
    /// Dead letters, oldest first.
    pub dead: Vec<Dead>,
}

/// An open row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// The inbox id, or the outbox row as `out-<n>`.
    pub id: String,
    /// The session or the chat.
    pub place: String,
    /// Its state.
    pub state: String,
    /// How often it was tried.
    pub attempts: i64,
    /// Since when, milliseconds since 1970 UTC.
    pub created_at: i64,
    /// What its turn waits for, while it is suspended.
    pub suspended: Option<Suspended>,
}

/// A dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dead {
    /// The inbox id, or the outbox row as `out-<n>`.
    pub id: String,
    /// `inbox` or `outbox`.
    pub kind: String,
    /// Since when, milliseconds since 1970 UTC.
    pub created_at: i64,
    /// How often it was tried.
    pub attempts: i64,
    /// Why it was given up.
    pub reason: String,
}

impl Store {
    /// Returns the counts.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn counts(&self) -> Result<Counts, db::Error> {
        self.writer.read(count).await
    }
}

/// Returns the counts; zeros when there is no queue yet.
///
/// # Errors
/// See [`db::Error`].
pub fn counts(path: &Path) -> Result<Counts, db::Error> {
    db::read(path, count).map(Option::unwrap_or_default)
}

fn count(connection: &Connection) -> rusqlite::Result<Counts> {
    let sql = "SELECT (SELECT count(*) FROM inbox WHERE state IN ('pending', 'running')),
           (SELECT count(*) FROM outbox WHERE state IN ('pending', 'sending', 'unknown')),
           (SELECT count(*) FROM inbox WHERE state = 'dead') + (SELECT count(*) FROM outbox WHERE state = 'dead')";
    connection.one(sql, [], |row| {
        let (inbox, outbox, dead) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Counts {
            inbox,
            outbox,
            dead,
        })
    })
}

/// Returns the newest input and when it was received, milliseconds since 1970 UTC; zeros when there is none.
///
/// # Errors
/// See [`db::Error`].
pub fn newest(path: &Path) -> Result<(i64, i64), db::Error> {
    db::read(path, inbox::newest).map(Option::unwrap_or_default)
}

/// Returns all open and dead rows.
///
/// # Errors
/// See [`db::Error`].
pub fn listing(path: &Path) -> Result<Listing, db::Error> {
    let open = |connection: &Connection, sql: &str| -> rusqlite::Result<Vec<Open>> {
        connection.all(sql, [], |row| {
            Ok(Open {
                id: row.get(0)?,
                place: row.get(1)?,
                state: row.get(2)?,
                attempts: row.get(3)?,
                created_at: row.get(4)?,
                suspended: json(row, 5)?,
            })
        })
    };
    db::read(path, |connection| {
        let suspended = suspend::column(connection)?;
        let inbox = format!(
            "SELECT id, session_key, state, attempts, received_at, {suspended} FROM inbox
             WHERE state IN ('pending', 'running') ORDER BY seq"
        );
        Ok(Listing {
            inbox: open(connection, &inbox)?,
            outbox: open(
                connection,
                "SELECT 'out-' || id, channel || ':' || chat, state, attempts, created_at, NULL FROM outbox
                 WHERE state IN ('pending', 'sending', 'unknown') ORDER BY outbox.id",
            )?,
            dead: connection.all(
                "SELECT id, 'inbox', received_at, attempts, coalesce(reason, '') FROM inbox WHERE state = 'dead'
                 UNION ALL
                 SELECT 'out-' || id, 'outbox', created_at, attempts, coalesce(reason, '') FROM outbox WHERE state = 'dead'
                 ORDER BY 3",
                [],
                |row| {
                    Ok(Dead { id: row.get(0)?, kind: row.get(1)?, created_at: row.get(2)?, attempts: row.get(3)?, reason: row.get(4)? })
                },
            )?,
        })
    })
    .map(Option::unwrap_or_default)
}

/// Returns the directories below `downloads` with files of open inputs, of parts not yet sent, and of dead letters.
///
/// # Errors
/// See [`db::Error`].
pub fn downloads_in_use(path: &Path) -> Result<HashSet<String>, db::Error> {
    // Each state has an index. What is damaged has no files.
    let sql = "WITH inputs(id, envelope) AS (
            SELECT id, envelope FROM inbox WHERE state IN ('pending', 'running')
            UNION ALL SELECT id, envelope FROM inbox WHERE state = 'dead'),
        parts(files) AS (
            SELECT files FROM outbox WHERE state IN ('pending', 'sending', 'unknown')
            UNION ALL SELECT files FROM outbox WHERE state = 'dead')
        SELECT id FROM inputs
        UNION SELECT file.value ->> '$.path'
            FROM inputs, json_each(iif(json_valid(envelope), envelope, '{}'), '$.attachments') AS file
        UNION SELECT file.value ->> '$.path' FROM parts, json_each(iif(json_valid(files), files, '[]')) AS file";
    let directory = |path: Option<String>| {
        let path = path.unwrap_or_default();
        let (dir, _) = path.split_once('/').unwrap_or((&path, ""));
        dir.to_owned()
    };
    db::read(path, |connection| {
        let paths: Vec<_> = connection.all(sql, [], |row| row.get(0))?;
        Ok(paths.into_iter().map(directory).collect())
    })
    .map(Option::unwrap_or_default)
}

/// Returns the kept answer of a command, when its turn has ended.
///
/// # Errors
/// See [`db::Error`].
pub fn result(path: &Path, id: &str) -> Result<Option<Reply>, db::Error> {
    db::read(path, |connection| {
        let sql = "SELECT result FROM inbox WHERE id = ?1";
        connection.first(sql, [id], |row| json(row, 0))
    })
    .map(|found| found.flatten().flatten())
}

/// Returns true when a command of this id is or was in the queue.
///
/// # Errors
/// See [`db::Error`].
pub fn knows(path: &Path, id: &str) -> Result<bool, db::Error> {
    let known = |connection: &Connection| {
        let sql = "SELECT EXISTS (SELECT 1 FROM inbox WHERE id = ?1)";
        connection.one(sql, [id], |row| row.get(0))
    };
    db::read(path, known).map(Option::unwrap_or_default)
}

/// Returns true when the id is that of a command which says something else, with what it said, as far as that is
/// kept.
///
/// # Errors
/// See [`db::Error`].
pub fn clash(
    path: &Path,
    id: &str,
    digest: &str,
) -> Result<Option<Option<Box<Envelope>>>, db::Error> {
    let first = |connection: &Connection| {
        // A file of an earlier version, before the next start of the daemon.
        if !connection.column_exists(None, "seen", "digest")? {
            return Ok(None);
        }
        if known(connection, &command_key(id), digest)? != Known::Other {
            return Ok(None);
        }
        let sql = "SELECT envelope FROM inbox WHERE id = ?1";
        connection.first(sql, [id], |row| json(row, 0)).map(Some)
    };
    db::read(path, first).map(Option::flatten)
}

/// Returns the kept answers of commands that ended since `since`.
///
/// # Errors
/// See [`db::Error`].
pub fn results(path: &Path, since: i64) -> Result<Vec<Reply>, db::Error> {
    db::read(path, |connection| {
        let sql = "SELECT result FROM inbox WHERE result IS NOT NULL AND finished_at >= ?1";
        connection.all(sql, [since], |row| json(row, 0))
    })
    .map(Option::unwrap_or_default)
}

/// Returns how the file itself is, looking for at most `patience`.
///
/// # Errors
/// See [`db::Error`].
pub fn examine(path: &Path, patience: Duration) -> Result<db::Health, db::Error> {
    db::examine(path, super::schema::MIGRATIONS, patience)
}

/// What became of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is on its way.
    OnItsWay,
    /// It arrived under this id of the channel's.
    Sent(String),
    /// It was given up, for this reason.
    Dead(String),
}

/// Returns what became of the parts that an input led to, in order.
///
/// # Errors
/// See [`db::Error`].
pub fn fates(path: &Path, inbox_id: &str) -> Result<Vec<Fate>, db::Error> {
    db::read(path, |connection| {
        let sql = "SELECT state, message_id, reason FROM outbox WHERE inbox_id = ?1 ORDER BY id";
        connection.all(sql, [inbox_id], |row| {
            let (state, id, reason): (String, Option<String>, Option<String>) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(match (state.as_str(), id) {
                ("sent", id) => Fate::Sent(id.unwrap_or_default()),
                ("dead", _) => Fate::Dead(reason.unwrap_or_default()),
                _ => Fate::OnItsWay,
            })
        })
    })
    .map(Option::unwrap_or_default)
}
