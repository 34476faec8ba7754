//! Opens `memory.db`, copies it for a dry run.

use std::path::Path;
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::db;
use crate::db::Health;

const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_facts.sql"),
    include_str!("migrations/0002_promises.sql"),
];

/// In the order in which rows may refer to each other.
const TABLES: [&str; 10] = [
    "facts",
    "fact_sources",
    "consolidation_state",
    "consolidation_file_hashes",
    "spans",
    "episodes",
    "commitments",
    "source_log",
    "parked",
    "forgotten",
];

/// Opens the database for writing: commits are on the disk when they return.
pub(crate) fn open(path: &Path) -> Result<Connection, db::Error> {
    db::open(path, MIGRATIONS)
}

/// Opens the database for reading; `None` when there is none yet. What a newer version wrote may mean
/// something else than it says.
pub(crate) fn open_read(path: &Path) -> Result<Option<Connection>, db::Error> {
    let Some(connection) = db::open_read(path)? else {
        return Ok(None);
    };
    let found = connection
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(|error| db::Error::of(path, error))?;
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    if found > known {
        return Err(db::Error::Newer {
            path: path.to_owned(),
            found,
            known,
        });
    }
    Ok(Some(connection))
}

/// Returns true when the database has the tables of the second version: who only reads does not make them.
pub(crate) fn has_promises(connection: &Connection) -> rusqlite::Result<bool> {
    connection
        .query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))
        .map(|version| version >= 2)
}

/// Returns an empty database in memory.
pub(crate) fn in_memory() -> Result<Connection, db::Error> {
    db::open(Path::new(":memory:"), MIGRATIONS)
}

/// Returns a copy in memory that may be changed without a trace; an empty one when there is nothing
/// to copy.
pub(crate) fn memory_copy(path: &Path) -> Result<Connection, db::Error> {
    let copy = in_memory()?;
    let Some(original) = open_read(path)? else {
        return Ok(copy);
    };
    let all = || -> rusqlite::Result<()> {
        // A fact may name one that comes later.
        copy.execute_batch("PRAGMA foreign_keys=OFF;")?;
        let view = original.unchecked_transaction()?;
        let target = copy.unchecked_transaction()?;
        for table in TABLES {
            // An older version has fewer tables, and fewer columns.
            if !view.table_exists(None, table)? {
                continue;
            }
            let mut read = view.prepare(&format!("SELECT * FROM {table}"))?;
            let (columns, names) = (
                read.column_count(),
                read.column_names().collect::<Vec<_>>().join(", "),
            );
            let places = vec!["?"; columns].join(", ");
            let mut write =
                target.prepare(&format!("INSERT INTO {table}({names}) VALUES ({places})"))?;
            let mut rows = read.query([])?;
            while let Some(row) = rows.next()? {
                let values = (0..columns)
                    .map(|column| row.get::<_, Value>(column))
                    .collect::<rusqlite::Result<Vec<_>>>()?;
                write.execute(params_from_iter(values))?;
            }
        }
        target.commit()
    };
    all().map_err(|error| db::Error::of(path, error))?;
    Ok(copy)
}

/// Looks at the database as a doctor does, see [`db::examine`].
///
/// # Errors
/// See [`db::Error`].
pub fn examine(path: &Path, patience: Duration) -> Result<Health, db::Error> {
    db::examine(path, MIGRATIONS, patience)
}
