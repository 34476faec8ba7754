//! Reads the database of another program without changing its files.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::{Error, beside};
use crate::sys;

/// Returns the rows that `sql` finds in the database `path`, each value as text. It is copied to `scratch` first, a directory
/// that is made and removed: any process that opens an SQLite database may write next to it.
///
/// # Errors
/// When the file cannot be copied, is not a database, or has no such tables.
pub fn foreign_rows(path: &Path, scratch: &Path, sql: &str) -> Result<Vec<Vec<String>>, Error> {
    // What a killed run left.
    let _ = std::fs::remove_dir_all(scratch);
    std::fs::create_dir_all(scratch).map_err(sys::Error::at("make", scratch))?;
    let rows = copied(path, scratch).and_then(|copy| {
        let rows = Connection::open(&copy).and_then(|database| rows(&database, sql));
        rows.map_err(|error| Error::of(path, error))
    });
    // It is in nobody's way.
    let _ = std::fs::remove_dir_all(scratch);
    rows
}

fn copied(path: &Path, scratch: &Path) -> Result<std::path::PathBuf, Error> {
    let to = scratch.join("copy.db");
    let log = beside(path, "-wal");
    std::fs::copy(path, &to).map_err(sys::Error::at("read", path))?;
    if log.exists() {
        std::fs::copy(&log, beside(&to, "-wal")).map_err(sys::Error::at("read", &log))?;
    }
    Ok(to)
}

fn rows(database: &Connection, sql: &str) -> rusqlite::Result<Vec<Vec<String>>> {
    let mut statement = database.prepare(sql)?;
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        (0..columns)
            .map(|column| row.get_ref(column).map(text))
            .collect()
    })?;
    rows.collect()
}

fn text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        ValueRef::Null | ValueRef::Blob(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_and_nothing_is_written_beside_the_database() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("other.db");
        let other = Connection::open(&path).expect("a database");
        other
            .execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE said(id INTEGER, words TEXT, at REAL); INSERT INTO said VALUES (1, 'hello', 1.5), (2, NULL, 2)")
            .expect("tables");
        let before = std::fs::read_dir(dir.path()).expect("read").count();
        let scratch = dir.path().join("scratch");
        let sql = "SELECT id, words, at FROM said ORDER BY id";
        assert_eq!(
            foreign_rows(&path, &scratch, sql).expect("rows"),
            [["1", "hello", "1.5"], ["2", "", "2"]]
        );
        assert_eq!(std::fs::read_dir(dir.path()).expect("read").count(), before);
        assert!(foreign_rows(&path, &scratch, "SELECT x FROM nothing").is_err());
        assert!(foreign_rows(&dir.path().join("none"), &scratch, sql).is_err());
    }
}
