//! Checks the integrity and the schema of a database, for doctor. Changes nothing.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use super::read_only::open_read_within;
use super::{Error, Statements, schema};

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// There is no such file, or nothing was ever written to it.
    Empty,
    /// Whole, and its schema is known.
    Sound,
    /// Too large to be read in the time given; what was read is whole.
    Unfinished,
    /// Pages do not fit together; carries SQLite's words, ten lines at most.
    Damaged(Vec<String>),
}

/// Reads the database at `path` with `PRAGMA quick_check`, for at most about `patience`.
///
/// # Errors
/// See [`Error`]; a file that is not a database at all is [`Error::Damaged`].
pub fn examine(path: &Path, migrations: &[&str], patience: Duration) -> Result<Health, Error> {
    let Some(connection) = open_read_within(path, patience)? else {
        return Ok(Health::Empty);
    };
    let fail = |source| Error::of(path, source);
    let found = schema(&connection, path)?;
    let known = i64::try_from(migrations.len()).unwrap_or(i64::MAX);
    if found > known {
        return Err(Error::Newer {
            path: path.to_owned(),
            found,
            known,
        });
    }
    match within(patience, &connection, quick_check) {
        Ok(lines) if lines != ["ok"] => Ok(Health::Damaged(lines)),
        Ok(_) if found == 0 => Ok(Health::Empty),
        Ok(_) => Ok(Health::Sound),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
            Ok(Health::Unfinished)
        }
        Err(error) => Err(fail(error)),
    }
}

pub(super) fn quick_check(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = "PRAGMA quick_check(10)";
    connection.all(sql, [], |row| row.get(0))
}

/// Runs `work` and interrupts it when the time is over.
fn within<T>(
    patience: Duration,
    connection: &Connection,
    work: impl FnOnce(&Connection) -> T,
) -> T {
    let handle = connection.get_interrupt_handle();
    let (done, over) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut pause = patience;
            // An interrupt that comes before a statement runs is lost.
            while over.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                handle.interrupt();
                pause = Duration::from_millis(10);
            }
        });
        let result = work(connection);
        drop(done);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::open;
    use crate::sys::atomic;

    const SCHEMA: &[&str] = &["CREATE TABLE t(a TEXT, b BLOB) STRICT; CREATE INDEX t_a ON t(a);"];
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A database of some pages, closed cleanly.
    fn filled(path: &Path, rows: i64) {
        let connection = open(path, SCHEMA).expect("open");
        connection
            .execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                 INSERT INTO t SELECT 'name ' || i, zeroblob(2000) FROM n",
                [rows],
            )
            .expect("insert");
    }

    #[test]
    fn a_database_is_absent_empty_sound_or_newer() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("queue.db");
        assert_eq!(
            examine(&path, SCHEMA, PATIENCE).expect("examined"),
            Health::Empty
        );
        atomic::write(&path, b"", atomic::Durability::Rename).expect("write");
        assert_eq!(
            examine(&path, SCHEMA, PATIENCE).expect("examined"),
            Health::Empty
        );
        filled(&path, 100);
        assert_eq!(
            examine(&path, SCHEMA, PATIENCE).expect("examined"),
            Health::Sound
        );
        assert!(matches!(
            examine(&path, &[], PATIENCE),
            Err(Error::Newer {
                found: 1,
                known: 0,
                ..
            })
        ));
    }

    #[test]
    fn damage_inside_and_a_file_that_is_no_database_are_found_and_left_alone() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("queue.db");
        filled(&path, 100);
        let mut bytes = std::fs::read(&path).expect("read");
        let middle = bytes.len() / 2;
        bytes
            .iter_mut()
            .skip(middle)
            .take(3000)
            .for_each(|byte| *byte = 7);
        atomic::write(&path, &bytes, atomic::Durability::Rename).expect("write");
        let damaged = matches!(
            examine(&path, SCHEMA, PATIENCE),
            Ok(Health::Damaged(_)) | Err(Error::Damaged { .. })
        );
        assert!(damaged);
        assert_eq!(std::fs::read(&path).expect("read"), bytes);
        atomic::write(&path, &[7; 5000], atomic::Durability::Rename).expect("write");
        assert!(matches!(
            examine(&path, SCHEMA, PATIENCE),
            Err(Error::Damaged { .. })
        ));
    }

    #[test]
    fn a_large_one_is_not_read_for_ever() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("queue.db");
        filled(&path, 20_000);
        assert_eq!(
            examine(&path, SCHEMA, Duration::from_millis(1)).expect("examined"),
            Health::Unfinished
        );
    }

    #[test]
    fn a_log_that_a_crash_left_stays_as_it_is() {
        let dir = tempfile::tempdir().expect("dir");
        let (path, copy) = (dir.path().join("queue.db"), dir.path().join("copy.db"));
        let writer = open(&path, SCHEMA).expect("open");
        writer
            .execute("INSERT INTO t VALUES ('x', x'00')", [])
            .expect("insert");
        for suffix in ["", "-wal"] {
            std::fs::copy(
                dir.path().join(format!("queue.db{suffix}")),
                dir.path().join(format!("copy.db{suffix}")),
            )
            .expect("copy");
        }
        let log = std::fs::read(dir.path().join("copy.db-wal")).expect("there is a log");
        assert_eq!(
            examine(&copy, SCHEMA, PATIENCE).expect("examined"),
            Health::Sound
        );
        assert_eq!(
            std::fs::read(dir.path().join("copy.db-wal")).expect("it is still there"),
            log
        );
    }
}
