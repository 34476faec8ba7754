//! Messages that are shown while a turn runs. They are written down so that a daemon that dies leaves
//! no "Thinking" behind for ever; a crash before this is on the disk may.

use super::Store;
use crate::db;
use crate::message::{ChatRef, Route};

impl Store {
    /// Notes that message `id` is to be removed from `route` again.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn shows(&self, route: &Route, id: &str) -> Result<(), db::Error> {
        let (route, id) = (route.clone(), id.to_owned());
        self.writer
            .write_lazily(move |connection| {
                connection
                    .prepare_cached("INSERT OR IGNORE INTO shown(channel, chat, topic, message_id) VALUES (?1, ?2, ?3, ?4)")?
                    .execute((route.channel, route.chat.chat, route.chat.topic, id))
                    .map(drop)
            })
            .await
    }

    /// Notes that it was removed.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn hides(&self, route: &Route, id: &str) -> Result<(), db::Error> {
        let (route, id) = (route.clone(), id.to_owned());
        self.writer
            .write_lazily(move |connection| {
                connection
                    .prepare_cached(
                        "DELETE FROM shown WHERE channel = ?1 AND chat = ?2 AND message_id = ?3",
                    )?
                    .execute((route.channel, route.chat.chat, id))
                    .map(drop)
            })
            .await
    }

    /// Returns what is still shown.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn shown(&self) -> Result<Vec<(Route, String)>, db::Error> {
        self.writer
            .write_lazily(|connection| {
                connection
                    .prepare_cached("SELECT channel, chat, topic, message_id FROM shown")?
                    .query_map([], |row| {
                        let chat = ChatRef {
                            chat: row.get(1)?,
                            topic: row.get(2)?,
                        };
                        Ok((
                            Route {
                                channel: row.get(0)?,
                                chat,
                            },
                            row.get(3)?,
                        ))
                    })?
                    .collect()
            })
            .await
    }
}
