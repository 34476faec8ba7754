//! Copies a database while others read and write it.

use std::ffi::c_int;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::Backup;
use rusqlite::ffi;

use super::read_only::is_no_room;
use super::{Error, beside, integrity, open_read};
use crate::sys;

/// Between two tries while the database is busy.
const PAUSE: Duration = Duration::from_millis(20);

/// Copies the database at `from` into a new file at `to`, as it is at one moment; writers are not held up. Returns
/// false when there is none.
///
/// # Errors
/// [`Error::Damaged`] when the copy is not whole: then the original is not.
pub fn snapshot(from: &Path, to: &Path) -> Result<bool, Error> {
    let fail = |error| Error::of(from, error);
    let original = match open_read(from) {
        Ok(None) => return Ok(false),
        Ok(original) => original,
        // Where the file that readers share cannot be made nobody writes either: what a crash left in the log is copied with it.
        Err(error) if has_no_room(&error) && has_log(from) => {
            for end in ["", "-wal"] {
                std::fs::copy(beside(from, end), beside(to, end))
                    .map_err(sys::Error::at("copy", from))?;
            }
            None
        }
        Err(error) => return Err(error),
    };
    let mut copy = Connection::open(to).map_err(|error| Error::of(to, error))?;
    // A caller that wants it on disk syncs it when it is complete.
    copy.execute_batch("PRAGMA synchronous=OFF;")
        .map_err(fail)?;
    if let Some(original) = original {
        // In one step: in several, a writer would make it start over each time.
        Backup::new(&original, &mut copy)
            .and_then(|backup| backup.run_to_completion(c_int::MAX, PAUSE, None))
            .map_err(fail)?;
    }
    let lines = integrity::quick_check(&copy).map_err(fail)?;
    if lines != ["ok"] {
        let code = ffi::Error::new(ffi::SQLITE_CORRUPT);
        return Err(fail(rusqlite::Error::SqliteFailure(
            code,
            lines.into_iter().next(),
        )));
    }
    Ok(true)
}

fn has_no_room(error: &Error) -> bool {
    match error {
        Error::Failed { source, .. } => is_no_room(source),
        Error::File(error) => sys::is_no_room(&error.source),
        _ => false,
    }
}

fn has_log(path: &Path) -> bool {
    std::fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0)
}

/// Returns the bytes of the database at `path` and of its log: a copy has no more.
pub fn size(path: &Path) -> u64 {
    [path.to_owned(), beside(path, "-wal")]
        .iter()
        .map(|path| path.metadata().map_or(0, |meta| meta.len()))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::open;

    const SCHEMA: &[&str] = &["CREATE TABLE t(a INTEGER) STRICT;"];

    #[test]
    fn a_copy_is_of_one_moment_and_disturbs_no_writer() {
        let dir = tempfile::tempdir().expect("dir");
        let (from, to) = (dir.path().join("queue.db"), dir.path().join("copy"));
        assert!(!snapshot(&from, &to).expect("nothing"));
        let mut writer = open(&from, SCHEMA).expect("open");
        writer.execute("INSERT INTO t VALUES (1)", []).expect("row");
        let open_transaction = writer.transaction().expect("begin");
        open_transaction
            .execute("INSERT INTO t VALUES (2)", [])
            .expect("row");
        assert!(snapshot(&from, &to).expect("copied"));
        open_transaction.commit().expect("commit");
        let copy = Connection::open(&to).expect("open");
        let sum: i64 = copy
            .query_row("SELECT sum(a) FROM t", [], |row| row.get(0))
            .expect("sum");
        assert_eq!(sum, 1, "what was committed, and nothing else");
    }
}
