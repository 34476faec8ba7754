//! Opens `memory.db`, copies it for a dry run.

use std::ffi::c_int;
use std::path::Path;
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, TransactionBehavior};

use super::Error;
use crate::db;
use crate::db::Health;

pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_facts.sql"),
    include_str!("migrations/0002_promises.sql"),
    include_str!("migrations/0003_said.sql"),
    include_str!("migrations/0004_names.sql"),
];

/// Opens the database for writing: commits are on disk when they return.
pub(crate) fn open(path: &Path) -> Result<Connection, db::Error> {
    db::open(path, MIGRATIONS)
}

/// Opens the database for reading; `None` when there is none yet. Of one that an older version wrote it is a copy in
/// memory with the tables of today; what a newer version wrote may mean something else than it says.
pub(crate) fn open_read(path: &Path) -> Result<Option<Connection>, db::Error> {
    let Some(connection) = db::open_read(path)? else {
        return Ok(None);
    };
    if usize::try_from(db::schema(&connection, path)?) == Ok(MIGRATIONS.len()) {
        return Ok(Some(connection));
    }
    copy_of(&connection, path).map(Some)
}

/// Returns an empty database in memory.
pub(crate) fn in_memory() -> Result<Connection, db::Error> {
    db::open(Path::new(":memory:"), MIGRATIONS)
}

/// Returns a copy in memory that may be changed without a trace; an empty one when there is nothing
/// to copy.
pub(crate) fn memory_copy(path: &Path) -> Result<Connection, db::Error> {
    match db::open_read(path)? {
        Some(original) => copy_of(&original, path),
        None => in_memory(),
    }
}

fn copy_of(original: &Connection, path: &Path) -> Result<Connection, db::Error> {
    let copy = || {
        let mut copy = Connection::open_in_memory()?;
        Backup::new(original, &mut copy)?.run_to_completion(c_int::MAX, Duration::ZERO, None)?;
        Ok(copy)
    };
    let mut copy = copy().map_err(|error| db::Error::of(path, error))?;
    db::migrate(&mut copy, path, MIGRATIONS)?;
    Ok(copy)
}

/// Does `work` in one transaction: all of it is there afterwards, or nothing. `path` is that of the database.
pub(crate) fn transact<T>(
    connection: &mut Connection,
    path: &Path,
    work: impl FnOnce(&Connection) -> Result<T, Error>,
) -> Result<T, Error> {
    let fail = |error| Error::from(db::Error::of(path, error));
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(fail)?;
    let done = work(&transaction)?;
    transaction.commit().map_err(fail)?;
    Ok(done)
}

/// Looks at the database as a doctor does, see [`db::examine`].
///
/// # Errors
/// See [`db::Error`].
pub fn examine(path: &Path, patience: Duration) -> Result<Health, db::Error> {
    db::examine(path, MIGRATIONS, patience)
}

/// Brings the database up to this version; `None` when there is none.
///
/// # Errors
/// See [`db::Error`].
pub fn migrate(path: &Path) -> Result<Option<db::Migrated>, db::Error> {
    db::bring_up(path, MIGRATIONS)
}
