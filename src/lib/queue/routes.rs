//! The chat in which the people of each session wrote last.

use rusqlite::Connection;

use super::{Store, route};
use crate::db;
use crate::db::Statements;
use crate::message::{Envelope, Route, SessionKey, Source};

/// Where somebody was last heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastRoute {
    /// The conversation, which may have begun in another place.
    pub session_key: SessionKey,
    /// Who wrote, the channel's id of them.
    pub sender: String,
    /// Where.
    pub route: Route,
}

impl Store {
    /// Returns where people were last heard, newest first.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn routes(&self) -> Result<Vec<LastRoute>, db::Error> {
        let sql = "SELECT coalesce(continued.session_key, routes.session_key), sender, channel, chat, topic
             FROM routes LEFT JOIN continued ON continued.place = routes.session_key ORDER BY routes.at DESC";
        self.writer
            .read(move |connection| {
                connection.all(sql, [], |row| {
                    Ok(LastRoute {
                        session_key: SessionKey(row.get(0)?),
                        sender: row.get(1)?,
                        route: route(row, 2)?,
                    })
                })
            })
            .await
    }
}

/// Notes where a person was heard, by the conversation `place` that this would be by itself, in the transaction that takes
/// their words in. A terminal is not a place to find them later, and a group is not the way to one of its members.
pub(super) fn note(
    connection: &Connection,
    place: &SessionKey,
    envelope: &Envelope,
) -> rusqlite::Result<()> {
    let Some(route) = envelope
        .route
        .as_ref()
        .filter(|_| {
            envelope.source.is_person()
                && !matches!(envelope.source, Source::Cli | Source::Http)
                && envelope.group.is_none()
        })
        // Who presses a button says nothing, and an old message no longer tells its topic.
        .filter(|_| envelope.press.is_none())
    else {
        return Ok(());
    };
    let sql = "INSERT INTO routes(session_key, sender, channel, chat, topic, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT(session_key) DO UPDATE SET sender = ?2, channel = ?3, chat = ?4, topic = ?5, at = ?6";
    connection.run(
        sql,
        (
            &place.0,
            &envelope.sender.id,
            &route.channel,
            &route.chat.chat,
            &route.chat.topic,
            envelope.received_at,
        ),
    )
}
