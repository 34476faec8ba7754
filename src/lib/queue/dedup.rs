//! Deduplication of inputs, which makes accepting them idempotent: the keys of accepted and refused inputs are stored, so that a
//! repeated input has no effect.

use rusqlite::Connection;

use super::Store;
use crate::db;
use crate::db::Statements;

/// What is known of a key and a digest, for deduplication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// The key is new.
    New,
    /// It is the same command.
    Same,
    /// The key is that of another command.
    Other,
}

/// Returns the key by which the command with this id is remembered.
pub fn command_key(id: &str) -> String {
    format!("cmd:{id}")
}

impl Store {
    /// Returns true when an input with this key was taken in, or refused, already.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn knows(&self, key: &str) -> Result<bool, db::Error> {
        let key = key.to_owned();
        let sql = "SELECT EXISTS (SELECT 1 FROM seen WHERE key = ?1)";
        self.writer
            .read(move |connection| connection.one(sql, [key], |row| row.get(0)))
            .await
    }

    /// Returns whether a command with this key was taken in, and whether it said the same. One whose digest was not
    /// kept counts as the same.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn known(&self, key: &str, digest: &str) -> Result<Known, db::Error> {
        let (key, digest) = (key.to_owned(), digest.to_owned());
        self.writer
            .read(move |connection| known(connection, &key, &digest))
            .await
    }
}

/// See [`Store::known`].
pub(super) fn known(connection: &Connection, key: &str, digest: &str) -> rusqlite::Result<Known> {
    let sql = "SELECT digest FROM seen WHERE key = ?1";
    let kept: Option<Option<String>> = connection.first(sql, [key], |row| row.get(0))?;
    Ok(match kept {
        None => Known::New,
        Some(kept) if kept.as_deref().is_none_or(|kept| kept == digest) => Known::Same,
        Some(_) => Known::Other,
    })
}

/// Returns true when `key` was new and is remembered now.
pub(super) fn remember(
    connection: &Connection,
    key: &str,
    digest: Option<&str>,
    now: i64,
) -> rusqlite::Result<bool> {
    let sql = "INSERT OR IGNORE INTO seen(key, at, digest) VALUES (?1, ?2, ?3)";
    connection
        .change(sql, (key, now, digest))
        .map(|rows| rows == 1)
}
