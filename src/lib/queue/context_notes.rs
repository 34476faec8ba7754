//! Context notes for the next turn of a session: group messages that were not addressed to us, and answers that were lost.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::{Store, json, to_json};
use crate::db;
use crate::db::Statements;
use crate::message::SessionKey;

/// Notes a session keeps (specification §6); older ones go.
const KEEP: i64 = 50;

/// One thing that was heard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Who said it, by the name they show; `None` when it is the daemon's own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// Their id on the channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// The id of the message on the channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// Whether they are the owner's own words.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_owner: bool,
    /// When, milliseconds since 1970 UTC.
    pub at: i64,
    /// What.
    pub text: String,
}

/// What a conversation heard since its last turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heard {
    /// Oldest first.
    pub notes: Vec<Note>,
    /// The number of the newest; `None` when there are none.
    pub newest: Option<i64>,
}

impl Store {
    /// Forgets what `session` heard up to `newest`: its transcript has it now. A crash before this is on
    /// the disk shows it once more.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn forget_notes(&self, session: &SessionKey, newest: i64) -> Result<(), db::Error> {
        let key = session.0.clone();
        let sql = "DELETE FROM notes WHERE session_key = ?1 AND id <= ?2";
        self.writer
            .write_lazily(move |connection| connection.run(sql, (key, newest)))
            .await
    }
}

/// Returns what `session` heard since its last turn.
pub(super) fn of(connection: &Connection, session: &SessionKey) -> rusqlite::Result<Heard> {
    let sql = "SELECT id, note FROM notes WHERE session_key = ?1 ORDER BY id";
    let rows: Vec<(i64, Note)> =
        connection.all(sql, [&session.0], |row| Ok((row.get(0)?, json(row, 1)?)))?;
    Ok(Heard {
        newest: rows.last().map(|(id, _)| *id),
        notes: rows.into_iter().map(|(_, note)| note).collect(),
    })
}

pub(super) fn insert(
    connection: &Connection,
    session: &SessionKey,
    note: &Note,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO notes(session_key, at, note) VALUES (?1, ?2, ?3)";
    connection.run(sql, (&session.0, note.at, to_json(note)?))?;
    let sql = "DELETE FROM notes WHERE session_key = ?1 AND id <=
           (SELECT id FROM notes WHERE session_key = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)";
    connection.run(sql, (&session.0, KEEP))
}
