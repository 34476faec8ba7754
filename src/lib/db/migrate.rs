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
    let draft = beside(&to, &format!(".tmp-{}", std::process::id()));
    // One that a killed run left behind is not whole.
    let _ = std::fs::remove_file(&draft);
    snapshot(path, &draft)?;
    std::fs::File::open(&draft)
        .and_then(|file| file.sync_all())
        .and_then(|()| std::fs::rename(&draft, &to))
        .and_then(|()| sys::atomic::sync_parent(&to))
        .map_err(sys::Error::at("write", &to))?;
    Ok(())
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
