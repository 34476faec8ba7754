//! The state of the index, for `agent-index status` and the doctor.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::build::{fact_lines, rows};
use super::{Error, Place, Source, schema};
use crate::clock;
use crate::db;
use crate::db::Health;
use crate::db::Statements;
use crate::sys::lock;

/// The content of the index.
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
    /// The model of the vectors, `None` when there are none.
    pub model: Option<String>,
    /// Chunks that have been through it.
    pub vectors: i64,
    /// Why not all of them, as the last run found.
    pub lacking: Option<String>,
    /// Bytes of the database.
    pub index_bytes: u64,
    /// Files of each source, summaries, and facts.
    pub sources: BTreeMap<String, i64>,
    /// Why facts are found as they were before: `memory.db` cannot be read.
    pub facts_unread: Option<String>,
    /// The process that is indexing now.
    pub running: Option<i32>,
}

/// A run checks for damage at most this long, which is enough for a million chunks.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Checks the database at `path` for damage, for at most about `timeout`. Missing tables are damage too, unless it was
/// made by another version.
///
/// # Errors
/// See [`db::Error`].
pub fn examine(path: &Path, timeout: Duration) -> Result<Health, db::Error> {
    let health = db::examine(path, schema::MIGRATIONS, timeout)?;
    if matches!(health, Health::Damaged(_) | Health::Empty) {
        return Ok(health);
    }
    let missing = db::read(path, missing)?.flatten();
    Ok(missing.map_or(health, |table| {
        Health::Damaged(vec![format!("the table {table} is missing")])
    }))
}

/// Returns a table that should be there and is not.
fn missing(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let tables = |connection: &Connection| -> rusqlite::Result<BTreeSet<String>> {
        let sql = "SELECT name FROM sqlite_schema";
        connection.all(sql, [], |row| row.get(0))
    };
    let there = tables(connection)?;
    if there.contains("totals") && rows::rules(connection)? != schema::rules() {
        return Ok(None);
    }
    let whole = Connection::open_in_memory()?;
    schema::MIGRATIONS
        .iter()
        .try_for_each(|sql| whole.execute_batch(sql))?;
    Ok(tables(&whole)?.difference(&there).next().cloned())
}

/// Returns true when the database at `path` must be rebuilt.
pub(super) fn is_damaged(path: &Path) -> Result<bool, Error> {
    match examine(path, TIMEOUT).map_err(Error::from) {
        Ok(health) => Ok(matches!(health, Health::Damaged(_))),
        Err(error) if error.is_damage() => Ok(true),
        Err(error) => Err(error),
    }
}

/// Returns the content of the index.
///
/// # Errors
/// When the database is damaged or cannot be read.
pub fn status(place: &Place) -> Result<Status, Error> {
    let path = place.database();
    let running = lock::holder(&place.lock())?;
    let index_bytes = std::fs::metadata(&path).map_or(0, |meta| meta.len());
    let status = db::read(&path, |connection| {
        // A fact is a line of what is stated in one place.
        let sql = "SELECT source, CASE source WHEN 'fact' THEN sum(units) ELSE count(*) END FROM files GROUP BY source";
        let sources: BTreeMap<String, i64> =
            connection.all(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let no_files = [Source::Summary, Source::Fact].map(Source::as_str);
        let files = sources
            .iter()
            .filter(|(source, _)| !no_files.contains(&source.as_str()))
            .map(|(_, count)| count)
            .sum();
        connection.query_row("SELECT * FROM totals", [], |row| {
            let at: i64 = row.get("indexed_at")?;
            Ok(Status {
                indexed: at > 0,
                current: row.get::<_, String>("rules")? == schema::rules(),
                indexed_at: (at > 0).then(|| clock::rfc3339(at)),
                files,
                source_bytes: row.get("bytes")?,
                chunks: row.get("chunks")?,
                model: Some(row.get::<_, String>("model")?).filter(|model| !model.is_empty()),
                vectors: row.get("vectors")?,
                // Other rules have no such column.
                lacking: row
                    .get::<_, String>("lacking")
                    .ok()
                    .filter(|why| !why.is_empty()),
                index_bytes,
                sources: sources.clone(),
                facts_unread: fact_lines::read(&place.home)
                    .err()
                    .map(|error| error.to_string()),
                running,
            })
        })
    })?;
    Ok(status.unwrap_or_else(|| Status {
        running,
        ..Status::default()
    }))
}

/// Returns why vectors are missing, if the config wants any.
///
/// # Errors
/// As [`status`].
pub fn lack(place: &Place) -> Result<Option<String>, Error> {
    let status = status(place)?;
    // A running process makes them.
    if !status.indexed || status.running.is_some() {
        return Ok(None);
    }
    let there = status.model.as_deref().unwrap_or("nothing");
    Ok(match place.embedder() {
        Err(error) => Some(error.to_string()),
        Ok(None) => None,
        Ok(Some(embedder)) if there != embedder.name() => Some(format!(
            "its vectors are of {there}, and the settings name {}",
            embedder.name()
        )),
        Ok(Some(_)) => {
            let missing = status.chunks - status.vectors;
            let why = status
                .lacking
                .map(|why| format!(": {why}"))
                .unwrap_or_default();
            (missing > 0).then(|| {
                format!(
                    "{missing} of {} chunks have no vector yet{why}",
                    status.chunks
                )
            })
        }
    })
}
