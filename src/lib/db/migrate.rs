//! The migration runner: brings the schema of a database up to that of this build, and keeps a copy of what was there.
//!
//! `user_version` is the number of migrations that a database has had.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, TransactionBehavior};

use super::{Error, beside, open, open_read, snapshot};
use crate::sys;

/// What a migration found and left: the numbers of the schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// Before.
    pub from: i64,
    /// Now.
    pub to: i64,
}

/// Returns how many migrations the database has seen.
///
/// # Errors
/// See [`Error`].
pub(crate) fn schema(connection: &Connection, path: &Path) -> Result<i64, Error> {
    connection
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(|source| Error::of(path, source))
}

/// Brings the database at `path` up to `migrations`; `None` when there is none.
///
/// # Errors
/// See [`Error`].
pub fn bring_up(path: &Path, migrations: &[&str]) -> Result<Option<Migrated>, Error> {
    let Some(before) = open_read(path)? else {
        return Ok(None);
    };
    let from = schema(&before, path)?;
    drop(before);
    let to = schema(&open(path, migrations)?, path)?;
    Ok(Some(Migrated { from, to }))
}

/// Returns the path of the copy of the database at `path` with schema `schema`.
pub fn old_copy(path: &Path, schema: i64) -> PathBuf {
    beside(path, &format!(".schema-{schema}"))
}

/// Copies a database that is about to be migrated; a copy that is there already is older and stays.
///
/// # Errors
/// See [`Error`].
pub(super) fn keep_old(
    connection: &Connection,
    path: &Path,
    migrations: &[&str],
) -> Result<(), Error> {
    let found = schema(connection, path)?;
    let known = i64::try_from(migrations.len()).unwrap_or(i64::MAX);
    let to = old_copy(path, found);
    if found == 0 || found >= known || to.exists() {
        return Ok(());
    }
    remove_left_drafts(&to);
    let draft = draft_of(&to, std::process::id());
    let copied = copy(path, &draft, &to);
    if copied.is_err() {
        // A disk that is full must not stay so because of it.
        remove_with_journal(&draft);
    }
    copied
}

fn copy(path: &Path, draft: &Path, to: &Path) -> Result<(), Error> {
    remove_with_journal(draft);
    snapshot(path, draft)?;
    std::fs::File::open(draft)
        .and_then(|file| file.sync_all())
        .and_then(|()| std::fs::rename(draft, to))
        .and_then(|()| sys::atomic::sync_parent(to))
        .map_err(sys::Error::at("write", to))?;
    Ok(())
}

/// Returns where the process `pid` writes what becomes the copy `to`.
fn draft_of(to: &Path, pid: u32) -> PathBuf {
    to.with_file_name(format!("{}{pid}", draft_name(to)))
}

/// What the names of the drafts of `to` begin with; the number of the process follows.
fn draft_name(to: &Path) -> String {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    format!(".{name}.tmp-")
}

/// Removes the drafts of `to` of processes that were killed: each is as large as the database, and every start would leave
/// another one.
fn remove_left_drafts(to: &Path) {
    let dir = to.parent().unwrap_or(to);
    let begin = draft_name(to);
    let shown = begin.trim_start_matches('.');
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| {
            // Version 0.1.0 hid none of them.
            let rest = name.strip_prefix(&begin).or(name.strip_prefix(shown));
            rest?.parse::<u32>().ok()
        });
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            remove_with_journal(&entry.path());
        }
    }
}

fn remove_with_journal(draft: &Path) {
    for end in ["", "-journal", "-wal", "-shm"] {
        // Most of them are not there; what cannot be removed is in nobody's way.
        let _ = std::fs::remove_file(beside(draft, end));
    }
}

/// Runs the migrations that the database at `path` has not seen, in one transaction.
///
/// # Errors
/// [`Error::Newer`] when a later version of this program wrote it; else see [`Error`].
pub(crate) fn migrate(
    connection: &mut Connection,
    path: &Path,
    migrations: &[&str],
) -> Result<(), Error> {
    let fail = |source| Error::of(path, source);
    let known = i64::try_from(migrations.len()).unwrap_or(i64::MAX);
    let found = schema(connection, path)?;
    if found > known {
        return Err(Error::Newer {
            path: path.to_owned(),
            found,
            known,
        });
    }
    if found == known {
        return Ok(());
    }
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(fail)?;
    // Another process may have migrated while we waited for the lock.
    let found = usize::try_from(schema(&transaction, path)?).unwrap_or(0);
    for sql in migrations.iter().skip(found) {
        transaction.execute_batch(sql).map_err(fail)?;
    }
    transaction
        .pragma_update(None, "user_version", known)
        .map_err(fail)?;
    transaction.commit().map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &[&str] = &["CREATE TABLE n(value INTEGER UNIQUE) STRICT;"];

    #[test]
    fn a_database_is_kept_as_it_was_before_a_migration() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("queue.db");
        let all = [SCHEMA[0], "DROP TABLE n;"];
        let old = open(&path, SCHEMA).expect("old");
        old.execute("INSERT INTO n VALUES (7)", []).expect("row");
        drop(old);
        assert!(!old_copy(&path, 1).exists());
        drop(open(&path, &all).expect("migrated"));
        let kept = open(&old_copy(&path, 1), SCHEMA).expect("the copy");
        let value: i64 = kept
            .query_row("SELECT value FROM n", [], |row| row.get(0))
            .expect("value");
        assert_eq!(value, 7);
        assert!(!old_copy(&path, 0).exists() && !old_copy(&path, 2).exists());
    }

    fn drafts(dir: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(dir).expect("dir").flatten();
        let paths = entries.map(|entry| entry.path());
        paths
            .filter(|path| path.display().to_string().contains(".tmp-"))
            .collect()
    }

    #[test]
    fn what_a_killed_process_had_copied_is_removed_by_the_next_one() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("queue.db");
        drop(open(&path, SCHEMA).expect("old"));
        let to = old_copy(&path, 1);
        // No process has a number so high (proc(5): at most 2^22).
        let killed = draft_of(&to, u32::MAX);
        let of_another = draft_of(&to, 1);
        let of_older_program = beside(&to, &format!(".tmp-{}", u32::MAX));
        let journal = beside(&killed, "-journal");
        for left in [&killed, &journal, &of_another, &of_older_program] {
            sys::atomic::write(left, b"a part", sys::atomic::Durability::Rename).expect("write");
        }
        drop(open(&path, &[SCHEMA[0], "DROP TABLE n;"]).expect("migrated"));
        assert!(to.exists());
        assert_eq!(drafts(dir.path()), [of_another]);
    }

    #[test]
    fn a_copy_that_fails_leaves_nothing_behind() {
        use std::os::unix::fs::FileExt;
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("queue.db");
        let old = open(&path, SCHEMA).expect("old");
        old.execute_batch(
            "INSERT INTO n WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 20000) SELECT x FROM c;",
        )
        .expect("rows");
        drop(old);
        let file = std::fs::File::options()
            .write(true)
            .open(&path)
            .expect("open");
        file.write_all_at(&[0xff; 4096], 10 * 4096)
            .expect("damaged");
        let migrated = open(&path, &[SCHEMA[0], "DROP TABLE n;"]);
        assert!(matches!(migrated, Err(Error::Damaged { .. })));
        assert_eq!(drafts(dir.path()), [] as [PathBuf; 0]);
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("queue.db");
        open(&path, &["SELECT 1;", "SELECT 1;"]).expect("two");
        assert!(matches!(
            open(&path, &["SELECT 1;"]),
            Err(Error::Newer {
                found: 2,
                known: 1,
                ..
            })
        ));
    }
}
