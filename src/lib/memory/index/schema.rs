//! The tables of `index.db`, and a chunk as a row.
//!
//! ```text
//! files       a text each: a file's own, and under the same path a summary in it, or the facts stated on one
//!             of its lines. Path as printed, scope, stamp and hash, number of lines and words, the type and the
//!             tags (each between two line feeds) of its front matter
//! chunks      1,600 characters each, in order; `units` is their words line by line, see [`pack`]
//! chunks_fts  the words of each chunk, without its text
//! groups, blocks   see `chunk_columns.rs`
//! vectors     of a chunk, see `vector_bytes.rs`; empty for a text without known words
//! embedding_cache   vectors that cost a call, by the SHA-256 of model and text: kept when the rest is rebuilt
//! question_cache    the same of questions, the newest of them
//! totals      one row: counts for averages (facts count among the chunks only), the rules of the rows, the model of
//!             the vectors, why some are missing, the stamp of `memory.db`
//! ```

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::build::chunk::{CHUNK, OVERLAP, Unit};
use super::{Error, Place};
use crate::db;
use crate::language::tokenize;
use crate::language::tokenize::Word;
use crate::sys;

/// One migration forever: another schema rebuilds the index.
pub(crate) const MIGRATIONS: &[&str] = &[TABLES];

const TABLES: &str = "
CREATE TABLE files(
  id INTEGER PRIMARY KEY, path TEXT NOT NULL, source TEXT NOT NULL, scope TEXT NOT NULL,
  size INTEGER NOT NULL, mtime INTEGER NOT NULL, ctime INTEGER NOT NULL, sha256 BLOB NOT NULL,
  time INTEGER NOT NULL, units INTEGER NOT NULL, words INTEGER NOT NULL, kind TEXT NOT NULL, tags TEXT NOT NULL) STRICT;
CREATE INDEX files_path ON files(path);
CREATE TABLE groups(id INTEGER PRIMARY KEY, scope TEXT NOT NULL, source TEXT NOT NULL, UNIQUE(scope, source)) STRICT;
CREATE TABLE chunks(
  id INTEGER PRIMARY KEY, file INTEGER NOT NULL REFERENCES files(id),
  start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, units BLOB NOT NULL, text TEXT NOT NULL) STRICT;
CREATE INDEX chunks_file ON chunks(file);
CREATE VIRTUAL TABLE chunks_fts USING fts5(words, content='', contentless_delete=1, detail=none, tokenize='ascii');
CREATE TABLE blocks(id INTEGER PRIMARY KEY, version INTEGER NOT NULL, entries BLOB NOT NULL, codes BLOB NOT NULL) STRICT;
CREATE TABLE vectors(chunk INTEGER PRIMARY KEY, numbers BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS embedding_cache(key BLOB PRIMARY KEY, numbers BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS question_cache(id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, numbers BLOB NOT NULL) STRICT;
CREATE TABLE totals(
  rules TEXT NOT NULL, indexed_at INTEGER NOT NULL DEFAULT 0, files INTEGER NOT NULL DEFAULT 0, chunks INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER NOT NULL DEFAULT 0, units INTEGER NOT NULL DEFAULT 0, words INTEGER NOT NULL DEFAULT 0,
  made INTEGER NOT NULL DEFAULT 0, version INTEGER NOT NULL DEFAULT 0,
  facts INTEGER NOT NULL DEFAULT 0, facts_seen TEXT NOT NULL DEFAULT '',
  model TEXT NOT NULL DEFAULT '', dims INTEGER NOT NULL DEFAULT 0, vectors INTEGER NOT NULL DEFAULT 0,
  lacking TEXT NOT NULL DEFAULT '') STRICT;
INSERT INTO totals(rules) VALUES ('');
";

/// Recreates the tables, empty except for the caches of vectors; readers see the old ones until the commit.
pub(crate) fn recreate(connection: &Connection, now: i64) -> rusqlite::Result<()> {
    for table in [
        "chunks_fts",
        "vectors",
        "blocks",
        "chunks",
        "groups",
        "files",
        "totals",
    ] {
        connection.execute_batch(&format!("DROP TABLE IF EXISTS {table}"))?;
    }
    connection.execute_batch(TABLES)?;
    connection.execute("UPDATE totals SET made = ?1, version = ?1", [now])?;
    Ok(())
}

/// The format of the rows; the end of the rules.
pub(crate) const ROWS: &str = "rows 6";

/// Returns the rules by which files become rows. A change of them rebuilds the index.
pub(crate) fn rules() -> String {
    format!(
        "chunk {CHUNK}/{OVERLAP}, words {}, totals 2, heads 3, {ROWS}",
        tokenize::VERSION
    )
}

/// Opens the index for writing; it does not wait for `fsync`, because it can be rebuilt from the files.
pub(crate) fn open(place: &Place) -> Result<Connection, Error> {
    let path = place.database();
    let connection = db::open(&path, MIGRATIONS)?;
    connection
        .execute_batch(
            "PRAGMA synchronous=NORMAL; PRAGMA cache_size=-16384; PRAGMA foreign_keys=OFF;",
        )
        .map_err(|error| db::Error::of(&path, error))?;
    Ok(connection)
}

/// Removes the database: it can be rebuilt from the files.
pub(crate) fn remove(path: &Path) -> Result<(), sys::Error> {
    // The log first: it must not become that of the next database.
    let beside = db::BESIDE.map(|end| db::beside(path, end));
    for file in beside.iter().map(PathBuf::as_path).chain([path]) {
        std::fs::remove_file(file).or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(sys::Error::at("remove", file)(error)),
        })?;
    }
    Ok(())
}

/// The words of a line, or of a piece of one, as a row of `chunks` has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
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
pub(crate) fn pack<'a>(
    first: usize,
    context: &[Word],
    units: impl Iterator<Item = (&'a Unit, &'a [Word])>,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let number = |bytes: &mut Vec<u8>, value: usize| {
        bytes.extend(u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes());
    };
    let list = |bytes: &mut Vec<u8>, words: &[Word]| {
        number(bytes, words.len());
        words
            .iter()
            .for_each(|word| bytes.extend(word.code.to_le_bytes()));
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
pub(crate) struct Packed {
    /// The place of the first line in the file, from 0; pieces of lines count too.
    pub first: usize,
    /// Words that belong to the chunk without standing in it.
    pub context: Vec<u32>,
    pub lines: Vec<Line>,
}

/// Returns what [`pack`] packed. Damaged bytes give what is whole of them.
pub(crate) fn unpack(bytes: &[u8]) -> Packed {
    let mut numbers = bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|four| u32::from_le_bytes(*four));
    let size = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let first = numbers.next().map_or(0, size);
    let count = numbers.next().map_or(0, size);
    let context: Vec<u32> = numbers.by_ref().take(count).collect();
    let mut lines = Vec::new();
    while let (Some(number), Some(bytes), Some(count)) =
        (numbers.next(), numbers.next(), numbers.next())
    {
        lines.push(Line {
            number,
            bytes: size(bytes),
            words: numbers.by_ref().take(size(count)).collect(),
        });
    }
    Packed {
        first,
        context,
        lines,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let word = |code| Word {
            text: "".into(),
            code,
        };
        let units = [
            Unit {
                line: 7,
                text: "ab\n".into(),
            },
            Unit {
                line: 8,
                text: "\n".into(),
            },
        ];
        let words = [vec![word(1), word(u32::MAX)], vec![]];
        let bytes = pack(
            3,
            &[word(9)],
            units.iter().zip(words.iter().map(Vec::as_slice)),
        );
        let lines = vec![
            Line {
                number: 7,
                bytes: 3,
                words: vec![1, u32::MAX],
            },
            Line {
                number: 8,
                bytes: 1,
                words: vec![],
            },
        ];
        assert_eq!(
            unpack(&bytes),
            Packed {
                first: 3,
                context: vec![9],
                lines
            }
        );
        assert_eq!(unpack(&[]), Packed::default());
        assert_eq!(unpack(&[255; 9]).lines, []);
    }

    #[test]
    fn the_tables_can_be_recreated_in_one_transaction() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("index.db");
        let mut connection = db::open(&path, MIGRATIONS).expect("open");
        connection
            .execute(
                "INSERT INTO chunks_fts(rowid, words) VALUES (1, 'apple äpfel')",
                [],
            )
            .expect("insert");
        let count = |connection: &Connection| -> i64 {
            connection
                .query_row(
                    "SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH '\"äpfel\"'",
                    [],
                    |row| row.get(0),
                )
                .expect("count")
        };
        let transaction = connection.transaction().expect("begin");
        recreate(&transaction, 1).expect("recreated");
        assert_eq!(
            count(&db::open_read(&path).expect("open").expect("there")),
            1
        );
        assert_eq!(count(&transaction), 0);
        transaction.rollback().expect("rollback");
        assert_eq!(count(&connection), 1);
    }
}
