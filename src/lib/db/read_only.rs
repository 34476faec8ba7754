//! Opens a database for reading, whoever owns it and on whatever disk it is.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::{BUSY, Error, beside, patiently};
use crate::{sys, text};

/// Opens a database for reading only; `None` when it does not exist yet, or its owner is just making
/// its tables.
///
/// # Errors
/// See [`Error`].
pub fn open_read(path: &Path) -> Result<Option<Connection>, Error> {
    open_read_within(path, BUSY)
}

/// Returns what `query` reads in the database at `path`; `None` when [`open_read`] finds none.
///
/// # Errors
/// See [`Error`].
pub fn read<T>(
    path: &Path,
    query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Result<Option<T>, Error> {
    let connection = open_read(path)?;
    let found = connection.map(|connection| query(&connection)).transpose();
    found.map_err(|error| Error::of(path, error))
}

/// Opens like [`open_read`], waiting for no longer than `patience`.
pub(super) fn open_read_within(
    path: &Path,
    patience: Duration,
) -> Result<Option<Connection>, Error> {
    // Not `exists`: a directory that may not be searched is not one without a database.
    if !path.try_exists().map_err(sys::Error::at("open", path))? {
        return Ok(None);
    }
    super::must_be_file(path)?;
    patiently(patience, || open_read_once(path, patience))
}

fn open_read_once(path: &Path, busy: Duration) -> Result<Option<Connection>, Error> {
    let fail = |source| Error::of(path, source);
    let log = std::fs::metadata(beside(path, "-wal"));
    let has_log = log.is_ok();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // Read-write, because a reader of a WAL database must be able to make its -shm file; the
    // pragma then keeps it from changing anything.
    let connection = Connection::open_with_flags(path, flags)
        .or_else(|_| {
            Connection::open_with_flags(
                path,
                OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
            )
        })
        .map_err(fail)?;
    let version = |connection: &Connection| -> rusqlite::Result<i64> {
        connection.busy_timeout(busy)?;
        connection.execute_batch("PRAGMA query_only=ON;")?;
        connection.query_row("PRAGMA user_version", [], |row| row.get(0))
    };
    let (connection, schema) = match version(&connection) {
        Ok(schema) => (connection, schema),
        // Its -shm file cannot be made: the disk is full or only read. Without a log the file is all there is.
        Err(error) if is_no_room(&error) && log.map_or(true, |log| log.len() == 0) => {
            let connection = open_alone(path).map_err(|_| fail(error))?;
            let schema = version(&connection).map_err(fail)?;
            (connection, schema)
        }
        Err(error) => return Err(fail(error)),
    };
    // What a crash left in the log is put in its place by the daemon. The last reader to close would
    // do it too, and a reader changes nothing.
    if has_log {
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map_err(fail)?;
    }
    Ok((schema > 0).then_some(connection))
}

pub(super) fn is_no_room(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, DiskFull, ReadOnly, SystemIoFailure};
    error
        .sqlite_error_code()
        .is_some_and(|code| [CannotOpen, DiskFull, ReadOnly, SystemIoFailure].contains(&code))
}

/// Opens a database as a file that nobody changes meanwhile.
fn open_alone(path: &Path) -> rusqlite::Result<Connection> {
    let path = text::percent_encoded(path.as_os_str().as_bytes(), "/.-_");
    let uri = format!("file:{path}?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(uri, flags)
}
