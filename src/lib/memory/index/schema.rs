//! The tables of `index.db`, and a chunk as a row.
//!
//! ```text
//! files       a file each: path as printed, whose it is, what changes when it does, how many words
//! chunks      1,600 characters each, in order; `units` is their words line by line, see [`pack`]
//! chunks_fts  which words stand in which chunk, and nothing else: chunks has the text
//! totals      one row: what averages are made of, and the rules the rows were made by
//! ```

use std::path::Path;

use rusqlite::Connection;

use super::chunk::{CHUNK, OVERLAP, Unit};
use super::words::{self, Word};
use super::{Error, Place};
use crate::db;
use crate::sys;

/// One migration for ever: another schema makes the index anew.
pub(super) const MIGRATIONS: &[&str] = &[TABLES];

const TABLES: &str = "
CREATE TABLE files(
  id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, source TEXT NOT NULL, scope TEXT NOT NULL,
  size INTEGER NOT NULL, mtime INTEGER NOT NULL, ctime INTEGER NOT NULL, sha256 BLOB NOT NULL,
  time INTEGER NOT NULL, units INTEGER NOT NULL, words INTEGER NOT NULL) STRICT;
CREATE TABLE chunks(
  id INTEGER PRIMARY KEY, file INTEGER NOT NULL REFERENCES files(id), source TEXT NOT NULL, scope TEXT NOT NULL,
  start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, units BLOB NOT NULL, text TEXT NOT NULL) STRICT;
CREATE INDEX chunks_file ON chunks(file);
CREATE INDEX chunks_scope ON chunks(scope, source);
CREATE VIRTUAL TABLE chunks_fts USING fts5(words, content='', contentless_delete=1, detail=none, tokenize='ascii');
CREATE TABLE totals(
  rules TEXT NOT NULL, indexed_at INTEGER NOT NULL DEFAULT 0, files INTEGER NOT NULL DEFAULT 0, chunks INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER NOT NULL DEFAULT 0, units INTEGER NOT NULL DEFAULT 0, words INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO totals(rules) VALUES ('');
";

/// Throws every row away by making the tables anew; readers see the old ones until the commit.
pub(super) fn make_anew(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("DROP TABLE chunks_fts; DROP TABLE chunks; DROP TABLE files; DROP TABLE totals;")?;
    connection.execute_batch(TABLES)
}

/// How rows are read; the last words of the rules.
pub(super) const ROWS: &str = "rows 2";

/// Returns the rules by which files become rows; rows made by others are worth nothing.
pub(super) fn rules() -> String {
    format!("chunk {CHUNK}/{OVERLAP}, words {}, {ROWS}", words::VERSION)
}

/// Opens the index for writing; `fsync` is not waited for, the files are the truth.
pub(super) fn open(place: &Place) -> Result<Connection, Error> {
    let path = place.database();
    let connection = db::open(&path, MIGRATIONS)?;
    connection
        .execute_batch("PRAGMA synchronous=NORMAL; PRAGMA cache_size=-16384; PRAGMA foreign_keys=OFF;")
        .map_err(|error| db::Error::of(&path, error))?;
    Ok(connection)
}

/// Removes a database that cannot be used: what was in it is made again from the files.
pub(super) fn remove(path: &Path) -> Result<(), sys::Error> {
    // The log first: it must not be taken for that of the next database.
    for file in db::BESIDE.map(|end| db::beside(path, end)).iter().map(std::path::PathBuf::as_path).chain([path]) {
        match std::fs::remove_file(file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(sys::Error::at("remove", file)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The words of a line, or of a piece of one, as a row of `chunks` has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Its number in the file.
    pub number: u32,
    /// Bytes of its text in the chunk.
    pub bytes: usize,
    /// Codes of its words, see [`Word`].
    pub words: Vec<u32>,
}

/// Returns `context` and `units` with their `words` as bytes: numbers of four bytes, the lowest
/// first. First the place of the first unit in the file, then the words of the context with their
/// count before them, then for each unit its line, its bytes and its words in the same way.
pub(super) fn pack<'a>(first: usize, context: &[Word], units: impl Iterator<Item = (&'a Unit, &'a [Word])>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let number = |bytes: &mut Vec<u8>, value: usize| {
        bytes.extend(u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes());
    };
    let list = |bytes: &mut Vec<u8>, words: &[Word]| {
        number(bytes, words.len());
        words.iter().for_each(|word| bytes.extend(word.code.to_le_bytes()));
    };
    number(&mut bytes, first);
    list(&mut bytes, context);
    for (unit, words) in units {
        bytes.extend(unit.line.to_le_bytes());
        number(&mut bytes, unit.text.len());
        list(&mut bytes, words);
    }
    bytes
}

/// What [`pack`] packs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Packed {
    /// The place of the first line in the file, from 0; pieces of lines count too.
    pub first: usize,
    /// Words that belong to the chunk without standing in it.
    pub context: Vec<u32>,
    pub lines: Vec<Line>,
}

/// Returns what [`pack`] packed. Damaged bytes give what is whole of them.
pub(super) fn unpack(bytes: &[u8]) -> Packed {
    let mut numbers = bytes.as_chunks::<4>().0.iter().map(|four| u32::from_le_bytes(*four));
    let size = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let first = numbers.next().map_or(0, size);
    let count = numbers.next().map_or(0, size);
    let context: Vec<u32> = numbers.by_ref().take(count).collect();
    let mut lines = Vec::new();
    while let (Some(number), Some(bytes), Some(count)) = (numbers.next(), numbers.next(), numbers.next()) {
        lines.push(Line { number, bytes: size(bytes), words: numbers.by_ref().take(size(count)).collect() });
    }
    Packed { first, context, lines }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let word = |code| Word { text: "".into(), code };
        let units = [Unit { line: 7, text: "ab\n".into() }, Unit { line: 8, text: "\n".into() }];
        let words = [vec![word(1), word(u32::MAX)], vec![]];
        let bytes = pack(3, &[word(9)], units.iter().zip(words.iter().map(Vec::as_slice)));
        let lines = vec![Line { number: 7, bytes: 3, words: vec![1, u32::MAX] }, Line { number: 8, bytes: 1, words: vec![] }];
        assert_eq!(unpack(&bytes), Packed { first: 3, context: vec![9], lines });
        assert_eq!(unpack(&[]), Packed::default());
        assert_eq!(unpack(&[255; 9]).lines, []);
    }

    #[test]
    fn the_tables_can_be_made_anew_in_one_transaction() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("index.db");
        let mut connection = db::open(&path, MIGRATIONS).expect("open");
        connection.execute("INSERT INTO chunks_fts(rowid, words) VALUES (1, 'apple äpfel')", []).expect("insert");
        let count = |connection: &Connection| -> i64 {
            connection
                .query_row("SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH '\"äpfel\"'", [], |row| row.get(0))
                .expect("count")
        };
        let transaction = connection.transaction().expect("begin");
        make_anew(&transaction).expect("anew");
        assert_eq!(count(&db::open_read(&path).expect("open").expect("there")), 1);
        assert_eq!(count(&transaction), 0);
        transaction.rollback().expect("rollback");
        assert_eq!(count(&connection), 1);
    }
}
