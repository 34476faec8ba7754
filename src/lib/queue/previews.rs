//! Messages that are shown while a turn runs. They are recorded, so that a "Thinking" message is removed after a crash, except
//! when the crash comes before the record is on disk.

use super::{Store, route};
use crate::db;
use crate::db::Statements;
use crate::message::Route;

impl Store {
    /// Notes that message `id` is to be removed from `route` again.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn shows(&self, route: &Route, id: &str) -> Result<(), db::Error> {
        self.shows_for(route, id, None).await
    }

    /// Notes the same of a message that stays while the turn of `inbox_id` is suspended, also over a restart.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn shows_for(
        &self,
        route: &Route,
        id: &str,
        inbox_id: Option<&str>,
    ) -> Result<(), db::Error> {
        let (route, id) = (route.clone(), id.to_owned());
        let inbox_id = inbox_id.map(str::to_owned);
        let sql = "INSERT OR IGNORE INTO shown(channel, chat, topic, message_id, inbox_id) VALUES (?1, ?2, ?3, ?4, ?5)";
        self.writer
            .write_lazily(move |connection| {
                connection.run(
                    sql,
                    (
                        route.channel,
                        route.chat.chat,
                        route.chat.topic,
                        id,
                        inbox_id,
                    ),
                )
            })
            .await
    }

    /// Notes that it was removed.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn hides(&self, route: &Route, id: &str) -> Result<(), db::Error> {
        let (route, id) = (route.clone(), id.to_owned());
        let sql = "DELETE FROM shown WHERE channel = ?1 AND chat = ?2 AND message_id = ?3";
        self.writer
            .write_lazily(move |connection| {
                connection.run(sql, (route.channel, route.chat.chat, id))
            })
            .await
    }

    /// Returns what is still shown, each with the input for which it stays.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn shown(&self) -> Result<Vec<(Route, String, Option<String>)>, db::Error> {
        let sql = "SELECT channel, chat, topic, message_id, (SELECT id FROM inbox WHERE id = inbox_id AND state = 'pending'
             AND suspended IS NOT NULL) FROM shown";
        self.writer
            .read(move |connection| {
                connection.all(sql, [], |row| {
                    Ok((route(row, 0)?, row.get(3)?, row.get(4)?))
                })
            })
            .await
    }
}
