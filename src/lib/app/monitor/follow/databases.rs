//! Reading the databases, each only when it has changed: a monitor that is looked at all day must cost
//! nothing.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::snapshot::{Costs, Databases, Loaded, Memory};
use crate::app::cli::Failure;
use crate::app::documents;
use crate::app::documents::cost::Period;
use crate::app::monitor::next_job;
use crate::config::{Environment, Home};
use crate::memory::{facts, index};
use crate::secret;
use crate::sys::Version;

/// What did not change is read again after this nevertheless: a new day begins, a question expires.
const AGAIN: Duration = Duration::from_secs(60);

type Seen = (Vec<Option<Version>>, Instant);

pub(super) struct Reader {
    home: Home,
    env: Environment,
    databases: Databases,
    /// As the files were when they were read, and when that was.
    read: [Option<Seen>; 4],
}

impl Reader {
    pub(super) fn new(home: Home, env: Environment) -> Self {
        Self {
            home,
            env,
            databases: Databases::default(),
            read: [None, None, None, None],
        }
    }

    pub(super) fn databases(&self) -> &Databases {
        &self.databases
    }

    /// Reads what has changed; false when nothing has.
    pub(super) fn look(&mut self) -> bool {
        let Self {
            home,
            env,
            databases,
            read,
        } = self;
        let database = |path: PathBuf| {
            let wal = path.with_extension("db-wal");
            [path, wal]
        };
        let queue: Vec<PathBuf> = database(home.queue_db())
            .into_iter()
            .chain([home.spool_new()])
            .collect();
        let costs: Vec<PathBuf> = database(home.cost_db())
            .into_iter()
            .chain([home.config_file().to_owned()])
            .collect();
        let index = index::Place::of(home);
        let memory: Vec<PathBuf> = database(facts::database(home))
            .into_iter()
            .chain(database(index.database()))
            .chain([index.lock()])
            .collect();
        let [of_queue, of_costs, of_memory, of_jobs] = read;
        let mut news = false;
        if has_changed(of_queue, &queue) {
            databases.queue = part(documents::queue(home));
            news = true;
        }
        if has_changed(of_costs, &costs) {
            databases.costs = part(read_costs(home, env));
            news = true;
        }
        if has_changed(of_memory, &memory) {
            databases.memory = part(read_memory(home, &index));
            news = true;
        }
        if has_changed(of_jobs, &[home.jobs()]) {
            databases.next_job = next_job(home);
            news = true;
        }
        news
    }
}

/// Returns true when one of the files is not as it was, and keeps how it is.
fn has_changed(read: &mut Option<Seen>, files: &[PathBuf]) -> bool {
    let now: Vec<_> = files.iter().map(|path| Version::at(path)).collect();
    if read
        .as_ref()
        .is_some_and(|(before, at)| *before == now && at.elapsed() < AGAIN)
    {
        return false;
    }
    *read = Some((now, Instant::now()));
    true
}

fn part<T>(read: Result<T, Failure>) -> Loaded<T> {
    match read {
        Ok(read) => Loaded::Read(read),
        Err(failure) => Loaded::Failed(secret::redact(&failure.message)),
    }
}

fn read_costs(home: &Home, env: &Environment) -> Result<Costs, Failure> {
    let of = |period| documents::cost(home, env, period, None);
    Ok(Costs {
        today: of(Period::Today)?,
        month: of(Period::Month)?,
    })
}

fn read_memory(home: &Home, index: &index::Place) -> Result<Memory, Failure> {
    let path = facts::database(home);
    let failed = |error: facts::Error| Failure::data(error.to_string());
    Ok(Memory {
        facts: facts::list(&path, &facts::Filter::default())
            .map_err(failed)?
            .len(),
        episodes: facts::episodes::list(&path).map_err(failed)?.len(),
        commitments: facts::commitments::list(&path, false).map_err(failed)?,
        index: index::status(index).map_err(|error| Failure::data(error.to_string()))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::sys::atomic;

    #[test]
    fn what_did_not_change_is_not_read_again() {
        let dir = tempfile::tempdir().expect("dir");
        let file = dir.path().join("a.db");
        let files = [file.clone(), dir.path().join("none")];
        let mut read = None;
        assert!(has_changed(&mut read, &files), "the first time");
        assert!(!has_changed(&mut read, &files));
        atomic::write(&file, b"x", atomic::Durability::Rename).expect("write");
        assert!(has_changed(&mut read, &files));
        assert!(!has_changed(&mut read, &files));
        let long_ago = Instant::now()
            .checked_sub(AGAIN)
            .expect("the machine runs for more than a minute");
        read.as_mut().expect("it was read").1 = long_ago;
        assert!(has_changed(&mut read, &files), "a new day may have begun");
    }

    #[test]
    fn a_home_without_databases_is_empty_and_a_damaged_one_says_so() {
        let dir = tempfile::tempdir().expect("dir");
        let home = Home::at(dir.path());
        let mut reader = Reader::new(home.clone(), Environment::default());
        assert!(reader.look() && !reader.look());
        let databases = reader.databases();
        assert!(
            databases
                .queue
                .read()
                .is_some_and(|queue| queue.inbox.is_empty() && queue.approvals.is_empty())
        );
        assert!(
            databases
                .memory
                .read()
                .is_some_and(|memory| memory.facts == 0 && !memory.index.indexed)
        );
        assert!(
            databases
                .costs
                .read()
                .is_some_and(|costs| costs.today.calls == 0),
            "{:?}",
            databases.costs
        );
        home.create().expect("create");
        atomic::write(&home.queue_db(), &[b'x'; 4096], atomic::Durability::Rename).expect("write");
        assert!(reader.look());
        assert!(
            matches!(&reader.databases().queue, Loaded::Failed(why) if why.contains("queue.db")),
            "{:?}",
            reader.databases().queue
        );
    }
}
