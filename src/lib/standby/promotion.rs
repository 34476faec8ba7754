//! Promotion of a standby (failover): it takes over from the primary.
//!
//! | a kill of a promotion after | leaves |
//! |---|---|
//! | the copy | a standby |
//! | the role is *promoting* | no agent starts here; the promotion starts again, from a new copy |
//! | the generation is in the replica | the same; the primary, if it is still running, stops |
//! | the files are in their places | the same |
//! | the role is *primary* | the primary |

use std::time::{Duration, Instant};

use super::copy;
use super::waiting::{PATIENCE, PROOF_AGAIN};
use super::{BEACON, Beacon, EVERY_MS, Error, Role, Standby, TakeOver, Whole, own_dir, read_json};
use crate::sys::atomic::Durability;
use crate::{clock, queue};

/// After its last push a primary may have lived until the next, and so long more, milliseconds.
const SLACK_MS: i64 = 60_000;

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

    /// Ends a promotion that was broken off.
    pub(super) fn end_promotion(&mut self) -> Result<(), Error> {
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
}
