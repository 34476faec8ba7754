//! The one thread that writes into a database: jobs that arrive together share a commit.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::{Notify, oneshot};

use super::{Error, log_check, open, read};

/// The most jobs that share one commit.
const GROUP: usize = 128;
/// A commit that takes longer waits for another program.
const HELD: Duration = Duration::from_secs(10);
/// How often it is looked whether the file can be opened: pages that SQLite has in memory hide the damage of a file.
const LOOK: Duration = Duration::from_secs(30);
/// Between two looks at a file that is damaged in parts.
const PAUSE: Duration = Duration::from_secs(1);

/// Tells a waiting caller, once the shared commit succeeded or failed.
type Tell = Box<dyn FnOnce(Result<(), Error>) + Send>;
/// Runs inside its savepoint, or is told that there is none. `None` means it failed, was told
/// so, and its savepoint is to be rolled back.
type Job = Box<dyn FnOnce(Result<&Connection, Error>) -> Option<Tell> + Send>;

struct Task {
    job: Job,
    needs: Needs,
}

/// What a job needs in addition to the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Needs {
    /// Nothing: it only reads.
    Reading,
    /// A transaction.
    Commit,
    /// A transaction that is on disk before anybody learns of it.
    Sync,
}

/// The one writer of a database in this process. Clones share the thread, which ends with the
/// last of them.
#[derive(Clone)]
pub struct Writer {
    path: PathBuf,
    tasks: mpsc::Sender<Task>,
    /// Notified when a job met damage.
    damage: Arc<Notify>,
    wait: Arc<Mutex<Wait>>,
}

/// Whether another program keeps the thread from writing.
#[derive(Debug, Clone, Copy, Default)]
struct Wait {
    /// Since when the commit runs that runs now.
    since: Option<Instant>,
    /// Whether the last one was given up for it.
    was_busy: bool,
}

impl Writer {
    /// Opens the database and starts its thread.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn start(path: &Path, migrations: &[&str]) -> Result<Self, Error> {
        Self::over(open(path, migrations)?, path)
    }

    /// Starts the thread of a database that is open.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn over(connection: Connection, path: &Path) -> Result<Self, Error> {
        let (tasks, inbox) = mpsc::channel();
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let thread_path = path.to_owned();
        let wait = Arc::<Mutex<Wait>>::default();
        let shown = wait.clone();
        std::thread::Builder::new()
            .name(format!("{name}-db"))
            .stack_size(1 << 19)
            .spawn(move || serve(connection, (&thread_path, &shown), &inbox))
            .map_err(|_| Error::Closed(path.to_owned()))?;
        Ok(Self {
            path: path.to_owned(),
            tasks,
            damage: Arc::default(),
            wait,
        })
    }

    /// Runs `job` in a transaction and returns its value once the commit is on disk.
    ///
    /// # Errors
    /// When the job or the commit failed; nothing of the job is then kept.
    pub async fn write<T, F>(&self, job: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.run(Needs::Sync, job).await
    }

    /// Like [`Writer::write`] but returns when the commit is in the log, not on disk: a
    /// power cut may take it back, a crash of the process may not.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub async fn write_lazily<T, F>(&self, job: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.run(Needs::Commit, job).await
    }

    /// Does [`Writer::write`] when `durable`, else [`Writer::write_lazily`].
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub async fn write_if<T, F>(&self, durable: bool, job: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let needs = if durable { Needs::Sync } else { Needs::Commit };
        self.run(needs, job).await
    }

    /// Runs `job`, which changes nothing, behind what was asked for before. Its statements may see different moments.
    ///
    /// # Errors
    /// When the job failed, or the commit that it shared.
    pub async fn read<T, F>(&self, job: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.run(Needs::Reading, job).await
    }

    async fn run<T, F>(&self, needs: Needs, job: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (answer, result) = oneshot::channel::<Result<T, Error>>();
        let path = self.path.clone();
        let job: Job = Box::new(move |connection| {
            let outcome = connection
                .and_then(|connection| job(connection).map_err(|error| Error::of(&path, error)));
            match outcome {
                // A caller that no longer waits needs no answer.
                Ok(value) => Some(Box::new(move |commit| {
                    drop(answer.send(commit.map(|()| value)))
                })),
                Err(error) => {
                    drop(answer.send(Err(error)));
                    None
                }
            }
        });
        let closed = || Error::Closed(self.path.clone());
        self.tasks.send(Task { job, needs }).map_err(|_| closed())?;
        let result = result.await.map_err(|_| closed())?;
        if matches!(result, Err(Error::Damaged { .. })) {
            self.damage.notify_one();
        }
        result
    }

    /// Moves the log into the file when all is written, unless another program reads it. The last connection does so when it is
    /// closed, but the process may end before its thread.
    pub async fn checkpoint(&self) {
        let at_once = |connection: &Connection| {
            connection.busy_timeout(Duration::ZERO)?;
            log_check::checkpoint(connection)
        };
        if let Err(error) = self.read(at_once).await {
            tracing::debug!(%error, "the log of a database stays for the next start");
        }
    }

    /// Returns true while another program holds the database, so that nothing can be written: the last commit was given up, or the
    /// one that runs has waited for 10 s.
    pub fn is_held(&self) -> bool {
        let wait = *self.wait.lock();
        wait.was_busy || wait.since.is_some_and(|since| since.elapsed() > HELD)
    }

    /// Waits until the database is damaged beyond use, so that nobody could open the file any more: within [`LOOK`], or once a job
    /// met damage. Damage that leaves the rest usable is no end.
    pub async fn lost(&self) {
        loop {
            drop(tokio::time::timeout(LOOK, self.damage.notified()).await);
            let path = self.path.clone();
            if crate::sys::blocking(move || is_lost(&path)).await {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Returns whether the database at `path` cannot be opened, or is emptied.
fn is_lost(path: &Path) -> bool {
    let count: Result<Option<i64>, Error> = read(path, |connection| {
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
    });
    match count {
        Ok(Some(count)) => count == 0,
        Ok(None) => path.exists(),
        Err(Error::Damaged { .. }) => true,
        // Somebody else holds it, or it cannot be read now.
        Err(_) => false,
    }
}

fn serve(
    connection: Connection,
    (path, wait): (&Path, &Mutex<Wait>),
    inbox: &mpsc::Receiver<Task>,
) {
    let mut committer = Committer {
        connection,
        is_durable: None,
    };
    while let Ok(first) = inbox.recv() {
        let mut group = vec![first];
        while group.len() < GROUP {
            let Ok(task) = inbox.try_recv() else { break };
            group.push(task);
        }
        if group.iter().all(|task| task.needs == Needs::Reading) {
            committer.commit(path, group);
            continue;
        }
        wait.lock().since = Some(Instant::now());
        let was_busy = committer.commit(path, group);
        *wait.lock() = Wait {
            since: None,
            was_busy,
        };
    }
}

/// Commits of all writers of this process so far.
static COMMITS: AtomicU64 = AtomicU64::new(0);

/// Returns a number that changes whenever this process may have changed a database, before the one who asked for the
/// change is told.
pub fn commits() -> u64 {
    COMMITS.load(Ordering::SeqCst)
}

/// The connection of a writing thread.
struct Committer {
    connection: Connection,
    /// Whether its commits wait for the disk; `None` when that is not known.
    is_durable: Option<bool>,
}

impl Committer {
    /// Does the tasks of `group` in one transaction and tells each what became of it; returns whether another program kept it from
    /// that.
    fn commit(&mut self, path: &Path, group: Vec<Task>) -> bool {
        let needs = group.iter().map(|task| task.needs).max();
        let mut tasks = group.into_iter();
        if needs.is_none_or(|needs| needs == Needs::Reading) {
            for task in tasks {
                if let Some(tell) = (task.job)(Ok(&self.connection)) {
                    tell(Ok(()));
                }
            }
            return false;
        }
        let durable = needs == Some(Needs::Sync);
        let mut told: Vec<Tell> = Vec::with_capacity(tasks.len());
        let result = self
            .sync(durable)
            .and_then(|()| self.transact(&mut tasks, &mut told));
        COMMITS.fetch_add(1, Ordering::SeqCst);
        for tell in told {
            tell(
                result
                    .as_ref()
                    .copied()
                    .map_err(|error| Error::of(path, copy(error))),
            );
        }
        if let Err(error) = &result {
            for task in tasks {
                (task.job)(Err(Error::of(path, copy(error))));
            }
        }
        result.is_err_and(|error| Error::of(path, error).is_busy())
    }

    /// Has commits wait for the disk, or not. SQLite does what this pragma says while it parses it: it cannot be kept
    /// prepared, and is left out where nothing changes.
    fn sync(&mut self, durable: bool) -> rusqlite::Result<()> {
        if self.is_durable == Some(durable) {
            return Ok(());
        }
        self.is_durable = None;
        let level = if durable { "FULL" } else { "NORMAL" };
        self.connection.pragma_update(None, "synchronous", level)?;
        self.is_durable = Some(durable);
        Ok(())
    }

    /// Runs `tasks` and commits. A task that is alone needs no savepoint: when it fails, nothing is left of the
    /// transaction.
    fn transact(
        &self,
        tasks: &mut std::vec::IntoIter<Task>,
        told: &mut Vec<Tell>,
    ) -> rusqlite::Result<()> {
        let connection = &self.connection;
        step(connection, "BEGIN IMMEDIATE")?;
        let open = OpenTransaction(connection);
        if tasks.len() == 1 {
            let done = tasks.next().and_then(|task| (task.job)(Ok(connection)));
            let Some(tell) = done else { return Ok(()) };
            told.push(tell);
        }
        for task in tasks.by_ref() {
            step(connection, "SAVEPOINT task")?;
            match (task.job)(Ok(connection)) {
                Some(tell) => {
                    told.push(tell);
                    step(connection, "RELEASE task")?;
                }
                // When that fails, so does what comes next.
                None => drop(connection.execute_batch("ROLLBACK TO task; RELEASE task")),
            }
            // A full disk (an I/O error, no memory) makes SQLite roll the whole transaction back by
            // itself. The next savepoint would then be a separate transaction, and commit.
            if connection.is_autocommit() {
                return Err(rolled_back());
            }
        }
        step(connection, "COMMIT")?;
        drop(open);
        Ok(())
    }
}

/// Runs a statement that stays prepared: each is needed several times a message.
fn step(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

/// A transaction that is rolled back unless it was committed.
struct OpenTransaction<'c>(&'c Connection);

impl Drop for OpenTransaction<'_> {
    fn drop(&mut self) {
        if !self.0.is_autocommit() {
            // When that fails, so does the next transaction, and says why.
            let _ = self.0.execute_batch("ROLLBACK");
        }
    }
}

fn rolled_back() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ABORT);
    rusqlite::Error::SqliteFailure(
        code,
        Some("the group was rolled back when one of it failed".to_owned()),
    )
}

/// Every waiting caller gets the one failure of the shared commit.
fn copy(error: &rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, text) => {
            rusqlite::Error::SqliteFailure(*code, text.clone())
        }
        other => rusqlite::Error::ToSqlConversionFailure(other.to_string().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_database_that_is_damaged_while_it_is_open_is_known_to_be_lost() {
        let dir = tempfile::tempdir().expect("dir");
        for damage in [&[7_u8; 20_000][..], &[]] {
            let path = dir.path().join(format!("{}.db", damage.len()));
            let schema = &["CREATE TABLE t(a TEXT) STRICT"];
            let writer = Writer::start(&path, schema).expect("start");
            let insert = |c: &Connection| c.execute("INSERT INTO t VALUES ('a')", []);
            writer.write(insert).await.expect("written");
            let checkpoint = |c: &Connection| c.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
            writer.read(checkpoint).await.expect("done");
            // Pages that SQLite still has are not read again.
            let shrink = |c: &Connection| c.execute_batch("PRAGMA shrink_memory");
            writer.read(shrink).await.expect("done");
            let soon = Duration::from_millis(200);
            assert!(tokio::time::timeout(soon, writer.lost()).await.is_err());
            // In its place: the file is the same.
            let mut file = std::fs::OpenOptions::new()
                .write(true)
                .truncate(true)
                .open(&path)
                .expect("open");
            std::io::Write::write_all(&mut file, damage).expect("written");
            let failed = writer.write(insert).await;
            assert!(matches!(failed, Err(Error::Damaged { .. })), "{failed:?}");
            let lost = tokio::time::timeout(Duration::from_secs(10), writer.lost()).await;
            assert!(lost.is_ok(), "{}", damage.len());
        }
    }

    #[tokio::test]
    async fn a_database_that_another_program_holds_is_known_to_be_held_until_a_write_succeeds() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("cost.db");
        let schema = &["CREATE TABLE t(a TEXT) STRICT"];
        let connection = open(&path, schema).expect("open");
        connection
            .busy_timeout(Duration::from_millis(10))
            .expect("set");
        let writer = Writer::over(connection, &path).expect("start");
        let insert = |c: &Connection| c.execute("INSERT INTO t VALUES ('a')", []);
        writer.write(insert).await.expect("written");
        assert!(!writer.is_held());
        let other = Connection::open(&path).expect("open");
        other.execute_batch("BEGIN IMMEDIATE").expect("held");
        assert!(writer.write(insert).await.is_err());
        // The thread notes it after it told.
        let deadline = Instant::now() + Duration::from_secs(5);
        while !writer.is_held() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(writer.is_held());
        // Who only reads changes nothing of it.
        let count = |c: &Connection| c.query_row("SELECT count(*) FROM t", [], |row| row.get(0));
        let count: i64 = writer.read(count).await.expect("read");
        assert_eq!(count, 1);
        assert!(writer.is_held());
        other.execute_batch("ROLLBACK").expect("let go");
        writer.write(insert).await.expect("written");
        let deadline = Instant::now() + Duration::from_secs(5);
        while writer.is_held() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(!writer.is_held());
    }
}
