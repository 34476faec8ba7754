//! SQLite for all rooms: one way to open, one migration runner, and one writing thread for each database, which groups
//! commits that arrive together.
//!
//! Each database has one [`Writer`] in a process. Jobs are closures over a transaction. Waiting jobs share one
//! `BEGIN IMMEDIATE … COMMIT` (and so one fsync), each in its own savepoint, so that a failing one does not affect the
//! others.

mod erase;
mod foreign;
mod integrity;
mod log_check;
mod migrate;
pub mod postgres;
mod quarantine;
mod read_only;
mod snapshot;
mod statements;
mod writer;

pub use erase::{Hit, count_rows, define_is_hit, erase_rows, vacuum};
pub use foreign::foreign_rows;
pub use integrity::{Health, examine};
pub use log_check::{empty_log, lost_transactions};
pub use migrate::{Migrated, bring_up, old_copy};
pub(crate) use migrate::{migrate, schema};
pub use quarantine::{BESIDE, beside, set_aside};
pub use read_only::{open_read, read};
pub use snapshot::{size, snapshot};
pub use statements::Statements;
pub use writer::{Writer, commits};

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::sys;

/// SQLite before this version can corrupt a WAL database that has several connections
/// (the "WAL-reset" fix of 3.51.3).
const OLDEST: i32 = 3_051_003;
/// Statements that stay prepared: the queue alone has 51, where rusqlite keeps 16, and each transaction up to 4.
const STATEMENTS: usize = 64;
/// How long a writer waits for another process's transaction.
const BUSY: Duration = Duration::from_secs(30);
/// Between two tries to open a database that is busy.
const PAUSE: Duration = Duration::from_millis(20);

/// A database that cannot be used, or an operation on it that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The linked SQLite has a known corruption bug.
    #[error("the linked SQLite {0} is too old, 3.51.3 is the oldest safe one")]
    TooOld(&'static str),
    /// The file is not a database or is damaged.
    #[error("{} is damaged: {source}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// SQLite's words.
        source: rusqlite::Error,
    },
    /// It was written by a newer version of this program.
    #[error("{} has schema {found}, this build supports {known}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema number.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// A statement failed: full disk, read-only file system, busy for too long.
    #[error("{}: {source}", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// SQLite's words.
        source: rusqlite::Error,
    },
    /// The file system does not let us at it.
    #[error(transparent)]
    File(#[from] sys::Error),
    /// The writing thread is gone; only at the end of the process.
    #[error("{} is closed", .0.display())]
    Closed(PathBuf),
}

impl Error {
    /// Returns the error for a failed operation on the database at `path`.
    pub fn of(path: &Path, source: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{
            CannotOpen, DatabaseCorrupt, NotADatabase, ReadOnly, SystemIoFailure,
        };
        match source.sqlite_error_code() {
            Some(DatabaseCorrupt | NotADatabase) => Error::Damaged {
                path: path.to_owned(),
                source,
            },
            // A directory can be opened for reading, and not be read.
            Some(CannotOpen | ReadOnly | SystemIoFailure) => match refusal(path) {
                Some(errno) => Error::File(sys::Error::at("open", path)(errno)),
                None => Error::Failed {
                    path: path.to_owned(),
                    source,
                },
            },
            _ => Error::Failed {
                path: path.to_owned(),
                source,
            },
        }
    }
}

/// Returns why a database cannot be opened, which SQLite does not say. Opening the file ourselves to find
/// out would take its locks away. A reader writes, too: the file next to it that readers share.
fn refusal(path: &Path) -> Option<Errno> {
    if path.is_dir() {
        return Some(Errno::EISDIR);
    }
    if path.is_symlink() && !path.exists() {
        return Some(Errno::ENOENT);
    }
    let beside = path.parent().unwrap_or(path);
    let asked = [
        (path, AccessFlags::R_OK),
        (path, AccessFlags::W_OK),
        (beside, AccessFlags::W_OK),
    ];
    asked
        .into_iter()
        .filter_map(|(path, right)| access(path, right).err())
        .find(|e| matches!(e, Errno::EACCES | Errno::EROFS))
}

impl Error {
    /// Returns true when the same operation may succeed later: the disk is full, the database busy, the call
    /// interrupted, the device failed once, or what shared its commit failed.
    pub fn is_retryable(&self) -> bool {
        use rusqlite::ErrorCode::{
            DatabaseBusy, DatabaseLocked, DiskFull, OperationAborted, OperationInterrupted,
            SystemIoFailure,
        };
        match self {
            Error::Failed { source, .. } => matches!(
                source.sqlite_error_code(),
                Some(
                    DatabaseBusy
                        | DatabaseLocked
                        | DiskFull
                        | OperationAborted
                        | OperationInterrupted
                        | SystemIoFailure
                )
            ),
            Error::File(error) => error.is_retryable(),
            _ => false,
        }
    }

    /// Returns true when another process did not let go of the database in time.
    pub fn is_busy(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
        match self {
            Error::Failed { source, .. } => matches!(
                source.sqlite_error_code(),
                Some(DatabaseBusy | DatabaseLocked)
            ),
            _ => false,
        }
    }
}

/// Returns the version of the linked SQLite.
pub fn version() -> &'static str {
    rusqlite::version()
}

/// Opens (or creates, 0600) a database for reading and writing and brings its schema up to
/// `migrations.len()`.
///
/// # Errors
/// See [`Error`].
pub fn open(path: &Path, migrations: &[&str]) -> Result<Connection, Error> {
    if rusqlite::version_number() < OLDEST {
        return Err(Error::TooOld(rusqlite::version()));
    }
    must_be_file(path)?;
    patiently(BUSY, || open_once(path, migrations))
}

/// Refuses what an open would wait for: a FIFO, or a device.
fn must_be_file(path: &Path) -> Result<(), Error> {
    let Ok(kind) = std::fs::metadata(path).map(|meta| meta.file_type()) else {
        return Ok(());
    };
    // A directory is refused by SQLite.
    if kind.is_file() || kind.is_dir() {
        return Ok(());
    }
    let why = std::io::Error::other("it is not a regular file");
    Err(sys::Error::at("open", path)(why).into())
}

/// Tries again while the database is busy. SQLite waits by itself ([`BUSY`]), but not where waiting
/// could be forever: when two make the same database at once, or one opens it while the last other
/// closes it.
fn patiently<T>(patience: Duration, open: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    let until = Instant::now() + patience;
    loop {
        match open() {
            Err(error) if error.is_busy() && Instant::now() < until => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
}

fn open_once(path: &Path, migrations: &[&str]) -> Result<Connection, Error> {
    let fail = |source| Error::of(path, source);
    let mut connection = Connection::open(path).map_err(fail)?;
    connection.busy_timeout(BUSY).map_err(fail)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Else a statement whose plan may depend on its values is parsed again whenever they change.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map_err(fail)?;
    connection
        .execute_batch("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA cache_size=-512; PRAGMA journal_size_limit=8388608;")
        .map_err(fail)?;
    migrate::keep_old(&connection, path, migrations)?;
    migrate(&mut connection, path, migrations)?;
    Ok(connection)
}

/// Returns which file stands at `path`, by device and number; `None` when there is none.
///
/// # Errors
/// When that cannot be told.
pub fn identity(path: &Path) -> Result<Option<(u64, u64)>, Error> {
    match std::fs::metadata(path) {
        Ok(meta) => Ok(Some((meta.dev(), meta.ino()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(sys::Error::at("open", path)(error).into()),
    }
}

/// Closes a connection whose file was taken away or replaced. SQLite would put its log in its place and
/// remove it, by name: that may be the log of the file which is there now.
pub fn abandon(connection: Connection) {
    // Without it the worst is a log that is lost, as it may be anyway.
    let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    drop(connection);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const SCHEMA: &[&str] = &["CREATE TABLE n(value INTEGER UNIQUE) STRICT;"];

    #[test]
    fn what_may_pass_is_tried_again_and_nothing_else() {
        use rusqlite::ffi;
        let failed = |code| {
            let source = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            Error::of(Path::new("/nowhere/queue.db"), source).is_retryable()
        };
        for code in [
            ffi::SQLITE_FULL,
            ffi::SQLITE_BUSY,
            ffi::SQLITE_LOCKED,
            ffi::SQLITE_INTERRUPT,
            ffi::SQLITE_IOERR,
            ffi::SQLITE_ABORT,
        ] {
            assert!(failed(code), "{code}");
        }
        for code in [
            ffi::SQLITE_ERROR,
            ffi::SQLITE_CORRUPT,
            ffi::SQLITE_NOTADB,
            ffi::SQLITE_CONSTRAINT,
            ffi::SQLITE_READONLY,
        ] {
            assert!(!failed(code), "{code}");
        }
        let file = |errno: i32| {
            let source = std::io::Error::from_raw_os_error(errno);
            Error::File(sys::Error::at("write", Path::new("f"))(source)).is_retryable()
        };
        assert!(
            [Errno::ENOSPC, Errno::EIO, Errno::EINTR]
                .iter()
                .all(|one| file(*one as i32))
        );
        assert!(
            ![Errno::EACCES, Errno::EROFS, Errno::ENOENT]
                .iter()
                .any(|one| file(*one as i32))
        );
    }

    #[tokio::test]
    async fn a_failing_job_takes_nothing_of_its_neighbours() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("test.db");
        let writer = Writer::start(&path, SCHEMA).expect("start");
        let insert =
            |value: i64| writer.write(move |t| t.execute("INSERT INTO n VALUES (?1)", [value]));
        let results = tokio::join!(insert(1), insert(2), insert(1), insert(3));
        assert!(results.0.is_ok() && results.1.is_ok() && results.2.is_err() && results.3.is_ok());
        let reader = open_read(&path).expect("open").expect("exists");
        let sum: i64 = reader
            .query_row("SELECT sum(value) FROM n", [], |row| row.get(0))
            .expect("sum");
        assert_eq!(sum, 6);
    }

    #[tokio::test]
    async fn a_lone_job_that_fails_leaves_nothing_and_ties_no_hands() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("test.db");
        let writer = Writer::start(&path, SCHEMA).expect("start");
        let before = commits();
        let half = writer.write(|c| {
            c.execute("INSERT INTO n VALUES (1)", [])?;
            c.execute("INSERT INTO n VALUES (1)", [])
        });
        assert!(half.await.is_err());
        for value in [2, 3] {
            let insert = move |c: &Connection| c.execute("INSERT INTO n VALUES (?1)", [value]);
            writer.write_lazily(insert).await.expect("written");
        }
        assert!(commits() >= before + 3, "a reader of the count sees each");
        let reader = open_read(&path).expect("open").expect("exists");
        let sum: i64 = reader
            .query_row("SELECT sum(value) FROM n", [], |row| row.get(0))
            .expect("sum");
        assert_eq!(sum, 5);
    }

    #[tokio::test]
    async fn a_commit_waits_for_the_disk_when_one_of_its_group_asks_for_it() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("test.db");
        let writer = Writer::start(&path, SCHEMA).expect("start");
        // 1 NORMAL, 2 FULL.
        let level =
            |c: &Connection| c.query_row("PRAGMA synchronous", [], |row| row.get::<_, i64>(0));
        assert_eq!(writer.write(level).await.expect("asked"), 2);
        for _ in 0..2 {
            assert_eq!(writer.write_lazily(level).await.expect("asked"), 1);
            assert_eq!(writer.write(level).await.expect("asked"), 2);
            assert_eq!(writer.write(level).await.expect("asked"), 2);
        }
    }

    #[test]
    fn a_database_without_its_tables_is_not_there_yet() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("test.db");
        assert!(open_read(&path).expect("open").is_none());
        let new = Connection::open(&path).expect("make");
        new.execute_batch("PRAGMA journal_mode=WAL;")
            .expect("a file");
        assert!(path.exists() && open_read(&path).expect("open").is_none());
        drop(Writer::start(&path, SCHEMA).expect("start"));
        assert!(open_read(&path).expect("open").is_some());
    }

    #[tokio::test]
    async fn a_full_disk_splits_no_group() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("test.db");
        let writer = Writer::start(&path, &["CREATE TABLE t(name TEXT, bytes BLOB) STRICT;"])
            .expect("start");
        writer
            .write(|connection| connection.pragma_update(None, "max_page_count", 20))
            .await
            .expect("limit");
        let (go, wait) = mpsc::channel::<()>();
        // While the first job waits, the three others gather into one group.
        let first = writer.write(move |_| {
            // Either word will do: continue, or the sender is gone.
            let _ = wait.recv();
            Ok(())
        });
        let put = |name: &'static str, size: usize| {
            writer.write(move |c| {
                c.execute(
                    "INSERT INTO t VALUES (?1, zeroblob(?2))",
                    (name, i64::try_from(size).unwrap_or(0)),
                )
            })
        };
        let release = async {
            tokio::task::yield_now().await;
            go.send(())
        };
        let (_, a, b, c, _) = tokio::join!(
            first,
            put("a", 10),
            put("b", 1_000_000),
            put("c", 10),
            release
        );
        let reader = open_read(&path).expect("open").expect("exists");
        let names: Vec<String> = reader
            .prepare("SELECT name FROM t")
            .and_then(|mut query| query.query_map([], |row| row.get(0))?.collect())
            .expect("names");
        let told: Vec<&str> = [("a", &a), ("b", &b), ("c", &c)]
            .iter()
            .filter(|(_, told)| told.is_ok())
            .map(|(name, _)| *name)
            .collect();
        assert_eq!(names, told, "what is told is what is there");
        assert!(b.is_err());
    }

    #[test]
    fn a_damaged_file_is_named_and_left_alone() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("queue.db");
        crate::sys::atomic::write(&path, &[7; 5000], crate::sys::atomic::Durability::Rename)
            .expect("write");
        assert!(matches!(open(&path, SCHEMA), Err(Error::Damaged { .. })));
        assert_eq!(std::fs::read(&path).expect("read"), vec![7; 5000]);
    }

    #[test]
    fn a_fifo_is_refused_and_not_waited_for() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("queue.db");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let _ = tell.send((open_read(&path).map(drop), open(&path, SCHEMA).map(drop)));
        });
        let (read, write) = told.recv_timeout(Duration::from_secs(10)).expect("no wait");
        for refused in [read, write] {
            let why = refused.expect_err("refused").to_string();
            assert!(why.contains("it is not a regular file"), "{why}");
        }
    }

    #[test]
    fn what_was_never_written_to_is_not_there_yet() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("queue.db");
        assert!(open_read(&path).expect("no file").is_none());
        crate::sys::atomic::write(&path, b"", crate::sys::atomic::Durability::Rename)
            .expect("write");
        assert!(open_read(&path).expect("no schema").is_none());
        open(&path, SCHEMA).expect("open");
        assert!(open_read(&path).expect("a schema").is_some());
    }

    #[test]
    fn a_path_that_leads_nowhere_is_no_missing_database() {
        let dir = tempfile::tempdir().expect("dir");
        let file = dir.path().join("state");
        crate::sys::atomic::write(&file, b"", crate::sys::atomic::Durability::Rename)
            .expect("write");
        assert!(matches!(
            open_read(&file.join("queue.db")),
            Err(Error::File(_))
        ));
        assert!(matches!(open_read(dir.path()), Err(Error::File(_))));
    }

    #[test]
    fn a_log_that_a_long_reader_let_grow_shrinks_again() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("queue.db");
        let connection = open(&path, &["CREATE TABLE t(bytes BLOB) STRICT;"]).expect("open");
        let write = |bytes: u32| {
            let insert = "INSERT INTO t VALUES (zeroblob(?1))";
            connection.execute(insert, [bytes]).expect("written");
        };
        let length = || {
            let log = std::fs::metadata(beside(&path, "-wal"));
            log.expect("the log").len()
        };
        let reader = open_read(&path).expect("open").expect("there");
        reader.execute_batch("BEGIN").expect("begun");
        let count = "SELECT count(*) FROM t";
        let seen: i64 = reader.query_row(count, [], |row| row.get(0)).expect("read");
        for _ in 0..12 {
            write(1 << 20);
        }
        assert!(seen == 0 && length() > 12 << 20, "{}", length());
        drop(reader);
        for _ in 0..3 {
            write(1);
        }
        assert!(length() <= 8 << 20, "{}", length());
    }
}
