//! The one thread that writes into a database: jobs that arrive together share a commit.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{Error, open};

/// The most jobs that share one commit.
const GROUP: usize = 128;

/// Tells a waiting caller, once the shared commit succeeded or failed.
type Tell = Box<dyn FnOnce(Result<(), Error>) + Send>;
/// Runs inside its savepoint, or is told that there is none. `None` means it failed, was told
/// so, and its savepoint is to be rolled back.
type Job = Box<dyn FnOnce(Result<&Connection, Error>) -> Option<Tell> + Send>;

struct Task {
    job: Job,
    needs: Needs,
}

/// What a job needs beside the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Needs {
    /// Nothing: it only reads.
    Reading,
    /// A transaction.
    Commit,
    /// A transaction that is on the disk before anybody hears of it.
    Sync,
}

/// The one writer of a database in this process. Clones share the thread, which ends with the
/// last of them.
#[derive(Clone)]
pub struct Writer {
    path: PathBuf,
    tasks: mpsc::Sender<Task>,
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
        std::thread::Builder::new()
            .name(format!("{name}-db"))
            .stack_size(1 << 19)
            .spawn(move || serve(connection, &thread_path, &inbox))
            .map_err(|_| Error::Closed(path.to_owned()))?;
        Ok(Self {
            path: path.to_owned(),
            tasks,
        })
    }

    /// Runs `job` in a transaction and returns its value once the commit is on the disk.
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

    /// Like [`Writer::write`] but returns when the commit is in the log, not on the disk: a
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
        result.await.map_err(|_| closed())?
    }
}

fn serve(connection: Connection, path: &Path, inbox: &mpsc::Receiver<Task>) {
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
        committer.commit(path, group);
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
    /// Does the tasks of `group` in one transaction and tells each what became of it.
    fn commit(&mut self, path: &Path, group: Vec<Task>) {
        let needs = group.iter().map(|task| task.needs).max();
        let mut tasks = group.into_iter();
        if needs.is_none_or(|needs| needs == Needs::Reading) {
            for task in tasks {
                if let Some(tell) = (task.job)(Ok(&self.connection)) {
                    tell(Ok(()));
                }
            }
            return;
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
            // itself. The next savepoint would then be a transaction of its own, and commit.
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
