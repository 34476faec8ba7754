//! What the index holds, for people and doctors.

use std::path::Path;
use std::time::Duration;

use super::{Error, Place, schema};
use crate::sys::lock;
use crate::{clock, db};

/// What the index holds.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Status {
    /// False when nothing was ever indexed.
    pub indexed: bool,
    /// True when the rows were made by the rules of this build.
    pub current: bool,
    /// When it was last changed, RFC 3339 UTC.
    pub indexed_at: Option<String>,
    /// Files.
    pub files: i64,
    /// Their bytes.
    pub source_bytes: i64,
    /// Chunks.
    pub chunks: i64,
    /// Bytes of the database.
    pub index_bytes: u64,
    /// Files of each source.
    pub sources: std::collections::BTreeMap<String, i64>,
    /// The process that is indexing now.
    pub running: Option<i32>,
}

/// Reads the database at `path` through, for at most about `patience`.
///
/// # Errors
/// See [`db::Error`].
pub fn examine(path: &Path, patience: Duration) -> Result<db::Health, db::Error> {
    db::examine(path, schema::MIGRATIONS, patience)
}

/// Returns what the index holds.
///
/// # Errors
/// When the database is damaged or cannot be read.
pub fn status(place: &Place) -> Result<Status, Error> {
    let path = place.database();
    let running = lock::holder(&place.lock())?;
    let index_bytes = std::fs::metadata(&path).map_or(0, |meta| meta.len());
    let Some(connection) = db::open_read(&path)? else { return Ok(Status { running, ..Status::default() }) };
    let read = || -> rusqlite::Result<Status> {
        let mut query = connection.prepare("SELECT source, count(*) FROM files GROUP BY source")?;
        let sources = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
        connection.query_row("SELECT rules, indexed_at, files, bytes, chunks FROM totals", [], |row| {
            let at: i64 = row.get(1)?;
            Ok(Status {
                indexed: at > 0,
                current: row.get::<_, String>(0)? == schema::rules(),
                indexed_at: (at > 0).then(|| clock::rfc3339(at)),
                files: row.get(2)?,
                source_bytes: row.get(3)?,
                chunks: row.get(4)?,
                index_bytes,
                sources,
                running,
            })
        })
    };
    Ok(read().map_err(|error| db::Error::of(&path, error))?)
}
