//! `/continue`: which conversation messages in a place belong to, when a conversation was continued in another place.
//!
//! A place is named by the conversation that it has by default. Only messages of an owner go to another conversation: a person
//! who is no longer an owner has their own again, and no place continues a conversation that no longer belongs to the owner
//! alone.

use std::path::Path;

use rusqlite::Connection;

use super::{Store, route};
use crate::db;
use crate::db::Statements;
use crate::message::{Command, Envelope, Route, SessionKey};

impl Store {
    /// Returns where the person of this place was last heard there; `None` for a place without a way back.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn route_of(&self, place: &SessionKey) -> Result<Option<Route>, db::Error> {
        let place = place.0.clone();
        let sql = "SELECT channel, chat, topic FROM routes WHERE session_key = ?1";
        self.writer
            .read(move |connection| connection.first(sql, [place], |row| route(row, 0)))
            .await
    }

    /// Gives the places back their own conversations where `may` is false of them or of the one in which they continue. Returns
    /// whether any continues in another one still.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn part(
        &self,
        may: impl Fn(&SessionKey) -> bool + Send + 'static,
    ) -> Result<bool, db::Error> {
        self.writer
            .write_lazily(move |connection| {
                let all: Vec<[SessionKey; 2]> =
                    connection.all("SELECT place, session_key FROM continued", [], |row| {
                        Ok([SessionKey(row.get(0)?), SessionKey(row.get(1)?)])
                    })?;
                let (kept, parted): (Vec<_>, Vec<_>) =
                    all.into_iter().partition(|both| both.iter().all(&may));
                for [place, _] in &parted {
                    unbind(connection, &place.0)?;
                }
                Ok(!kept.is_empty())
            })
            .await
    }
}

/// Returns the places that continue in another conversation, the newest first, from the file at `path`.
///
/// # Errors
/// See [`db::Error`].
pub fn places(path: &Path) -> Result<Vec<SessionKey>, db::Error> {
    let read = db::read(path, |connection| {
        let sql = "SELECT place FROM continued ORDER BY at DESC";
        connection.all(sql, [], |row| Ok(SessionKey(row.get(0)?)))
    });
    Ok(read?.unwrap_or_default())
}

/// Returns the conversation that what is said in `place` belongs to, from the file at `path`.
///
/// # Errors
/// See [`db::Error`].
pub fn conversation_of(path: &Path, place: &str) -> Result<String, db::Error> {
    let place = place.to_owned();
    let read = db::read(path, |connection| {
        // A file of an earlier version, before the next start of the daemon.
        if !connection.table_exists(None, "continued")? {
            return Ok(None);
        }
        goes_on(connection, &place)
    });
    Ok(read?.flatten().unwrap_or(place))
}

/// Puts an input of the owner where it belongs, and carries out `/continue` and `/new`, in the transaction that takes it in:
/// what comes right after them is in the right conversation already.
pub(super) fn place(connection: &Connection, envelope: &mut Envelope) -> rusqlite::Result<()> {
    let is_private = envelope.from_owner && envelope.group.is_none();
    if !is_private || !envelope.source.is_person() || names_another(envelope) {
        return Ok(());
    }
    let own = envelope.session_key.0.clone();
    match &mut envelope.command {
        Some(Command::Continue { among, with, .. }) => {
            let now = goes_on(connection, &own)?.unwrap_or_else(|| own.clone());
            for one in among {
                // Back to the place's own, or to what is said in another place.
                let other = match goes_on(connection, &one.0)? {
                    Some(other) if one.0 != own => other,
                    _ => one.0.clone(),
                };
                if other != now {
                    bind(connection, &own, &other, envelope.received_at)?;
                    *with = Some(SessionKey(other));
                    break;
                }
            }
        }
        // The new conversation is this place's own.
        Some(Command::New { .. }) => unbind(connection, &own)?,
        _ => {}
    }
    if let Some(other) = goes_on(connection, &own)? {
        envelope.session_key = SessionKey(other);
    }
    Ok(())
}

/// Returns true for an input of a shell or the HTTP API that names a conversation of another place: that one is meant, and
/// not where it continues.
fn names_another(envelope: &Envelope) -> bool {
    let key = &envelope.session_key;
    let is_own = |_: &str| key.0.split(':').next() == Some(envelope.source.as_str());
    !envelope.source.is_chat() && (key.address().is_some() || !key.own_name().is_none_or(is_own))
}

fn goes_on(connection: &Connection, place: &str) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT session_key FROM continued WHERE place = ?1";
    connection.first(sql, [place], |row| row.get(0))
}

fn bind(connection: &Connection, place: &str, other: &str, at: i64) -> rusqlite::Result<()> {
    if place == other {
        return unbind(connection, place);
    }
    let sql = "INSERT OR REPLACE INTO continued(place, session_key, at) VALUES (?1, ?2, ?3)";
    connection.run(sql, (place, other, at))
}

fn unbind(connection: &Connection, place: &str) -> rusqlite::Result<()> {
    let sql = "DELETE FROM continued WHERE place = ?1";
    connection.run(sql, [place])
}
