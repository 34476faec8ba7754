//! How many addresses and searches were chosen by models that had read untrusted words: each choice says something. A run
//! and its sub-agents share one count, which ends with the process.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::permission::Reach;
use crate::session::addresses;

/// Addresses and searches of one run and its sub-agents that nobody is asked about.
const MOST: usize = 12;
/// Runs that are remembered; their ids sort by time, and the oldest is forgotten first.
const RUNS: usize = 1_000;

/// The counts, by the run that pays.
#[derive(Debug, Default)]
pub(super) struct Followed(Mutex<BTreeMap<String, Count>>);

/// One count. What is decided meanwhile may read files, and only those of the same run wait for it.
type Count = Arc<Mutex<usize>>;

impl Followed {
    /// Lets `work` read and raise the count of a run, with nobody beside it. `begin` says where that of an unknown run
    /// begins.
    pub(super) fn with<T>(
        &self,
        run: &str,
        begin: impl FnOnce() -> usize,
        work: impl FnOnce(&mut usize) -> T,
    ) -> T {
        let known = self.0.lock().get(run).cloned();
        let count = known.unwrap_or_else(|| self.begin(run, begin()));
        let mut count = count.lock();
        work(&mut count)
    }

    fn begin(&self, run: &str, begin: usize) -> Count {
        let mut counts = self.0.lock();
        if counts.len() >= RUNS && !counts.contains_key(run) {
            counts.pop_first();
        }
        let count = counts.entry(run.to_owned());
        count.or_insert_with(|| Arc::new(Mutex::new(begin))).clone()
    }
}

/// What the calls count that stand before one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Before {
    /// Addresses and searches that were followed, in this step, too.
    pub(super) followed: usize,
    /// Addresses in the tasks of sub-agents of this step. They are counted when they are followed.
    pub(super) told: usize,
}

impl Before {
    /// Returns true while so many more may be followed.
    pub(super) fn leaves(self, more: usize) -> bool {
        more == 0 || self.followed + self.told + more <= MOST
    }

    /// Returns it with a call that runs and reaches this.
    pub(super) fn and(self, reach: &Reach) -> Self {
        match reach {
            Reach::Carries(_) | Reach::CarriesInside(_) | Reach::Opens(_) | Reach::Searches(_) => {
                Self {
                    followed: self.followed + 1,
                    ..self
                }
            }
            Reach::Tells(task) => Self {
                told: self.told + addresses(task).count(),
                ..self
            },
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_counted_on_and_the_oldest_is_forgotten() {
        let followed = Followed::default();
        let add = |run: usize, begin: usize| {
            followed.with(
                &format!("{run:05}"),
                || begin,
                |count| {
                    *count += 1;
                    *count
                },
            )
        };
        assert_eq!([add(1, 4), add(1, 0), add(2, 0)], [5, 6, 1]);
        (3..=RUNS + 1).for_each(|run| assert_eq!(add(run, 0), 1));
        assert_eq!([add(1, 0), add(RUNS + 1, 0)], [1, 2]);
    }

    #[test]
    fn what_is_followed_and_what_is_told_leave_less() {
        let page = Reach::Carries("https://a.example/".to_owned());
        let task = Reach::Tells("read https://a.example/1 and https://a.example/2".to_owned());
        let eleven = Before {
            followed: MOST - 1,
            told: 0,
        };
        assert!(eleven.leaves(1) && !eleven.leaves(2));
        assert!(!eleven.and(&page).leaves(1) && !eleven.and(&task).leaves(1));
        let over = eleven.and(&page).and(&page);
        assert!(over.leaves(0) && eleven.and(&Reach::Free).leaves(1));
    }
}
