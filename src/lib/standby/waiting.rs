//! [`Standby`]: a home that waits. It looks at what the primary pushes, proves a copy every hour, says both, and takes
//! over when it is promoted (failover).
//!
//! | a kill of a promotion after | leaves |
//! |---|---|
//! | the copy | a standby |
//! | the role is *promoting* | no agent starts here; the promotion is begun again, from a new copy |
//! | the generation is in the replica | the same; the primary, should it live, runs no more |
//! | the files are in their places | the same |
//! | the role is *primary* | the primary |

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::copy::{self, Copy};
use super::needed;
use super::rsync::Rsync;
use super::{
    BEACON, Beacon, EVERY_MS, Error, Record, Role, TakeOver, Whole, make_dir, own_dir, read_json,
};
use crate::config::{Environment, Home};
use crate::sys::atomic::{Durability, write_json};
use crate::sys::lock::{self, Lock};
use crate::{clock, queue};

/// Between two proofs, and after one that failed.
const PROOF: Duration = Duration::from_secs(3600);
const PROOF_AGAIN: Duration = Duration::from_secs(60);
/// A promotion waits for a proof that is under way.
const PATIENCE: Duration = Duration::from_secs(600);
/// After its last push a primary may have lived until the next, and so long more, milliseconds.
const SLACK_MS: i64 = 60_000;

/// A home that waits. No daemon runs in it.
pub struct Standby {
    home: Home,
    env: Environment,
    rsync: Rsync,
    record: Record,
    tried: Option<Instant>,
    /// What was wrong with the last copy.
    unproved: Option<String>,
}

/// What became of a promotion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promotion {
    /// The new generation.
    pub generation: u64,
    /// How it came about.
    pub taken_over: TakeOver,
    /// Inputs and parts of answers that the other machine may have answered and sent.
    pub doubtful: usize,
}

impl Standby {
    /// Takes the home, which must have no agent, or be a standby already. Without `replica` the one that is known.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Role`], [`Error::Occupied`], [`Error::Nothing`] when there is no replica.
    pub fn open(home: &Home, env: &Environment, replica: Option<&Path>) -> Result<Self, Error> {
        let fresh = || Record::new(Role::Standby, String::new());
        let known = super::read(home)?.unwrap_or_else(fresh).replica;
        let replica = replica.unwrap_or(Path::new(&known));
        let replica = std::path::absolute(replica).unwrap_or_default();
        if !replica.is_dir() {
            return Err(Error::Nothing(replica));
        }
        let _locks = locks(home, PATIENCE)?;
        let mut record = super::read(home)?.unwrap_or_else(fresh);
        match record.role {
            Role::Promoting => {}
            Role::Standby => vacant(home)?,
            role => return Err(Error::Role { role }),
        }
        record.replica = replica.display().to_string();
        make_dir(&own_dir(home))?;
        record.write(home, Durability::Full)?;
        Ok(Self {
            home: home.clone(),
            env: env.clone(),
            rsync: Rsync::of(env),
            record,
            tried: None,
            unproved: None,
        })
    }

    /// Returns what this home knows of itself and the primary.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Looks at the replica, proves a copy when it is time, and ends a promotion that was broken off. What is wrong is in the
    /// record. Blocking.
    ///
    /// # Errors
    /// When the record or the beacon cannot be written; [`Error::Busy`] while a promotion is under way.
    pub fn step(&mut self) -> Result<(), Error> {
        let locks = self.take(Duration::ZERO)?;
        let before = self.record.clone();
        match self.record.role {
            Role::Standby => {}
            Role::Promoting => {
                drop(locks);
                return self.end_promotion();
            }
            _ => return Ok(()),
        }
        let trouble = self.look().err().map(|error| error.to_string());
        let pause = match self.unproved {
            Some(_) => PROOF_AGAIN,
            None => PROOF,
        };
        if trouble.is_none() && self.tried.is_none_or(|at| at.elapsed() >= pause) {
            self.prove();
        }
        self.record.trouble = trouble.or(self.unproved.clone());
        if self.record != before {
            self.record.write(&self.home, Durability::Rename)?;
            self.say(None)?;
        }
        Ok(())
    }

    /// Ends a promotion that was broken off.
    fn end_promotion(&mut self) -> Result<(), Error> {
        if self.tried.is_some_and(|at| at.elapsed() < PROOF_AGAIN) {
            return Ok(());
        }
        self.tried = Some(Instant::now());
        if let Err(error) = self.promote(false) {
            let _locks = self.take(Duration::ZERO)?;
            self.record.trouble = Some(error.to_string());
            self.record.write(&self.home, Durability::Rename)?;
        }
        Ok(())
    }

    /// Hears what the primary says.
    fn look(&mut self) -> Result<(), Error> {
        let (whole, arrived_at) = copy::sealed(&self.replica())?;
        self.record.copied_at = Some(arrived_at);
        self.own(&whole)
    }

    /// Checks that a push is of the agent that this home waits for.
    fn own(&mut self, whole: &Whole) -> Result<(), Error> {
        if self.record.agent.is_empty() {
            self.record.agent.clone_from(&whole.agent);
        }
        match self.record.agent == whole.agent {
            true => Ok(()),
            false => Err(Error::Foreign(self.record.replica.clone())),
        }
    }

    fn prove(&mut self) {
        let proved = self.copy().and_then(|copy| {
            let kept = own_dir(&self.home).join("proven");
            copy::remove(&kept)?;
            let moved = std::fs::rename(&copy.dir, &kept);
            moved.map_err(crate::sys::Error::at("move", &copy.dir))?;
            let names = &copy.whole.secrets;
            let lacking = needed::lacking(names, &self.home, &copy::home_of(&kept)?, &self.env);
            Ok(lacking.into_iter().chain(copy.warnings))
        });
        self.tried = Some(Instant::now());
        self.unproved = match proved {
            Ok(mut warnings) => {
                self.record.proven_at = Some(clock::now_ms());
                warnings.next()
            }
            Err(error) => Some(error.to_string()),
        };
    }

    /// Makes a proved copy. One try more: a push may have come in between.
    fn copy(&self) -> Result<Copy, Error> {
        let dir = own_dir(&self.home).join("next");
        let copy = || copy::make(&self.rsync, &self.env, &self.replica(), &dir);
        copy().or_else(|_| copy())
    }

    /// Takes over. `last_proven` takes the last copy that was proved, when the replica itself has become unusable. Blocking.
    ///
    /// # Errors
    /// As long as there is no proved copy, nothing is changed; afterwards it is to be repeated. [`Error::Replaced`] when another
    /// home took over from this replica.
    pub fn promote(&mut self, last_proven: bool) -> Result<Promotion, Error> {
        let _locks = self.take(PATIENCE)?;
        if !matches!(self.record.role, Role::Standby | Role::Promoting) {
            let role = self.record.role;
            return Err(Error::Role { role });
        }
        let copy = match last_proven {
            true => copy::prove(&self.env, &own_dir(&self.home).join("proven"))?,
            false => self.copy()?,
        };
        self.own(&copy.whole)?;
        self.claim(&copy.whole)?;
        let now = clock::now_ms();
        // The primary lived when the last push came in, whichever copy is taken.
        let arrivals = [self.record.copied_at, copy::last_arrival(&self.replica())];
        let arrivals = arrivals.into_iter().flatten();
        let lived_at = arrivals.fold(copy.arrived_at, i64::max);
        let taken_over = TakeOver {
            at: now,
            copied_at: copy.whole.pushed_at.min(copy.arrived_at),
            handed_over: copy.whole.handed_over && lived_at == copy.arrived_at,
        };
        let mut doubtful = 0;
        if !taken_over.handed_over {
            let until = now.min(lived_at + EVERY_MS + SLACK_MS);
            doubtful = queue::doubt(&copy::home_of(&copy.dir)?.queue_db(), until)?;
        }
        copy::install(&self.rsync, &self.home, &copy.dir)?;
        let record = &mut self.record;
        record.role = Role::Primary;
        record.replica.clear();
        record.trouble = None;
        record.taken_over = Some(taken_over.clone());
        record.write(&self.home, Durability::Full)?;
        for name in ["next", "proven"] {
            copy::remove(&own_dir(&self.home).join(name))?;
        }
        Ok(Promotion {
            generation: self.record.generation,
            taken_over,
            doubtful,
        })
    }

    /// Takes the next generation, for this home and in the replica.
    fn claim(&mut self, whole: &Whole) -> Result<(), Error> {
        // One that cannot be read holds nobody up whose other machine is dead.
        let beacon: Option<Beacon> = read_json(&self.replica().join(BEACON)).unwrap_or_default();
        let beacon = beacon.unwrap_or_default();
        let promoted = beacon.promoted.unwrap_or_default();
        let is_own = self.record.role == Role::Promoting && self.record.generation >= promoted;
        if !is_own {
            if promoted > whole.generation {
                let (host, generation) = (beacon.host, promoted);
                return Err(Error::Replaced { host, generation });
            }
            self.record.generation = promoted.max(whole.generation) + 1;
        }
        self.record.role = Role::Promoting;
        self.record.write(&self.home, Durability::Full)?;
        self.say(Some(self.record.generation))
    }

    /// Writes into the replica what this standby knows of itself, and with which generation it takes over. That is never taken
    /// back.
    fn say(&self, promoted: Option<u64>) -> Result<(), Error> {
        let path = self.replica().join(BEACON);
        let before: Option<Beacon> = read_json(&path).unwrap_or_default();
        let beacon = Beacon {
            agent: self.record.agent.clone(),
            host: host(),
            promoted: promoted.max(before.and_then(|before| before.promoted)),
            proven_at: self.record.proven_at,
            trouble: self.record.trouble.clone(),
        };
        Ok(write_json(&path, &beacon, Durability::Full)?)
    }

    fn replica(&self) -> PathBuf {
        PathBuf::from(&self.record.replica)
    }

    /// Takes the locks, and reads what another process did to the home meanwhile.
    fn take(&mut self, patience: Duration) -> Result<[Lock; 2], Error> {
        let locks = locks(&self.home, patience)?;
        if let Some(record) = super::read(&self.home)? {
            self.record = record;
        }
        Ok(locks)
    }
}

/// Takes the lock of this room.
pub(super) fn take_lock(home: &Home, patience: Duration) -> Result<Lock, Error> {
    home.create()?;
    let lock = lock::try_lock_for(&home.state().join("standby.lock"), patience)?;
    lock.ok_or(Error::Busy("agent-daemon standby"))
}

fn locks(home: &Home, patience: Duration) -> Result<[Lock; 2], Error> {
    let own = take_lock(home, patience)?;
    let daemon = lock::try_lock(&home.lock())?.ok_or(Error::Busy("a daemon"))?;
    Ok([own, daemon])
}

/// Returns the name of this machine.
fn host() -> String {
    let name = nix::unistd::gethostname().ok();
    name.and_then(|name| name.into_string().ok())
        .unwrap_or_else(|| "another machine".to_owned())
}

/// Checks that the home has no agent, whose files would mix with those of the copy.
fn vacant(home: &Home) -> Result<(), Error> {
    let queue = home.queue_db();
    if queue.exists() {
        return Err(Error::Occupied(queue));
    }
    for dir in [home.workspace().to_owned(), home.sessions()] {
        let mut entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        if let Some(entry) = entries.find(|entry| entry.file_name() != "archive") {
            return Err(Error::Occupied(entry.path()));
        }
    }
    Ok(())
}
