//! Periods in which files may have received untrusted text without being marked yet: while a command runs that may fetch such
//! text, while a tool server runs that may write, and when not all files could be checked afterwards. A file that was changed
//! in such a period counts as marked. Periods survive a kill; files of one that is open at a start are checked then.
//!
//! ```text
//! state/untrusted-periods.json   {"v":1,"periods":[{"id":ID,"since":MS,"until":MS,"run":RUN,"asked":true,"below":[PATH]}]}
//!                                no `until`: it goes on; `below`: only there, else everywhere in the workspace
//! state/untrusted-periods.lock   held while it is changed
//! ```

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::cached_file::CachedFile;
use crate::sys;
use crate::sys::atomic::Durability;
use crate::sys::{atomic, lock};

/// The clock of a file system is so far behind ours at most.
pub(super) const TICK_MS: i64 = 10;
/// How the ids of those of tool servers begin.
pub const SERVER: &str = "server-";
/// Ended ones that are kept; of more the oldest become one.
const MOST: usize = 64;

/// One such time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Period {
    /// What it goes by.
    pub id: String,
    /// Its beginning, milliseconds since 1970 UTC.
    pub since: i64,
    /// Its end; `None` = it is open, or was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
    /// The run.
    pub run: String,
    /// Whether the owner wanted what is written in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked: bool,
    /// The files and directories that it is about, as marks name them; none = all of the workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<String>,
}

impl Period {
    /// Returns true when the file called `key`, which was last changed at `changed_at`, may have been changed in it.
    pub fn covers(&self, key: &str, changed_at: i64) -> bool {
        let key = Path::new(key);
        let is_there = match self.below.is_empty() {
            true => key.is_relative(),
            false => self.below.iter().any(|dir| key.starts_with(dir)),
        };
        is_there
            && changed_at + TICK_MS >= self.since
            && self.until.is_none_or(|until| changed_at <= until)
    }
}

impl Period {
    /// Returns true for that of a tool server, which lasts as long as it lives.
    pub fn is_of_server(&self) -> bool {
        self.id.starts_with(SERVER)
    }

    /// Returns true for that of a tool server since an untrusted run called it.
    pub fn is_doubted_server(&self) -> bool {
        self.is_of_server() && !self.asked
    }
}

/// Returns when anything of a file was last changed, milliseconds since 1970 UTC: a rename counts, and no program sets it back.
pub fn changed_at(metadata: &Metadata) -> i64 {
    metadata.ctime() * 1000 + metadata.ctime_nsec() / 1_000_000
}

/// The file of them in the hands of one process.
#[derive(Debug)]
pub struct Periods(CachedFile<Contents>);

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Contents {
    v: u32,
    periods: Vec<Period>,
}

impl Periods {
    /// Returns those in the file at `path`, which need not exist.
    pub(super) fn new(path: PathBuf) -> Self {
        Self(CachedFile::new(path))
    }

    /// Begins one; one that goes by the same id continues. With `durable` a power cut leaves it, too.
    ///
    /// # Errors
    /// When it cannot be locked, read or written: then what it is about must not begin.
    pub fn begin(&self, period: &Period, durable: bool) -> Result<(), sys::Error> {
        let known = |one: &Period| one.id == period.id;
        if self
            .0
            .read()
            .is_some_and(|all| all.periods.iter().any(known))
        {
            return Ok(());
        }
        let durability = match durable {
            true => Durability::Full,
            false => Durability::Rename,
        };
        self.change(durability, |periods| {
            if !periods.iter().any(known) {
                periods.push(period.clone());
            }
            merge(periods);
        })
    }

    /// Ends one: all that was changed in it is marked.
    ///
    /// # Errors
    /// When the file cannot be locked, read or written: then the period stays open.
    pub fn end(&self, id: &str) -> Result<(), sys::Error> {
        let known = |one: &Period| one.id == id;
        if self
            .0
            .read()
            .is_some_and(|all| !all.periods.iter().any(known))
        {
            return Ok(());
        }
        self.change(Durability::Rename, |periods| {
            periods.retain(|one| !known(one));
        })
    }

    /// Returns why the file cannot be used; `None` when it can.
    pub fn damage(&self) -> Option<String> {
        self.0.load().err().map(|error| error.to_string())
    }

    /// Returns those that continue, or were cut off.
    pub fn open(&self) -> Vec<Period> {
        let all = self.0.read().unwrap_or_default();
        let open = all.periods.iter().filter(|period| period.until.is_none());
        open.cloned().collect()
    }

    /// Returns true when there is none.
    pub fn is_empty(&self) -> bool {
        self.0.read().is_some_and(|all| all.periods.is_empty())
    }

    /// Returns true when the file called `key`, which was last changed at `changed_at`, may hold untrusted text that no mark
    /// tells of, or nobody can tell.
    pub fn cover(&self, key: &str, changed_at: i64) -> bool {
        let covers = |period: &Period| period.covers(key, changed_at);
        self.0
            .read()
            .is_none_or(|all| all.periods.iter().any(covers))
    }

    /// Returns true when one covers it in which nobody wanted what is written, or nobody can tell; `servers`: of those of tool
    /// servers, else of the others.
    pub(super) fn cover_unasked(&self, key: &str, changed_at: i64, servers: bool) -> bool {
        let covers = |period: &Period| {
            !period.asked && period.is_of_server() == servers && period.covers(key, changed_at)
        };
        self.0
            .read()
            .is_none_or(|all| all.periods.iter().any(covers))
    }

    /// Returns those of the tool servers of which nobody may want what they change now.
    pub fn doubted_servers(&self) -> Vec<Period> {
        let mut open = self.open();
        open.retain(Period::is_doubted_server);
        open
    }

    fn change(
        &self,
        durability: Durability,
        change: impl FnOnce(&mut Vec<Period>),
    ) -> Result<(), sys::Error> {
        let _lock = lock::lock_beside(self.0.path())?;
        let contents = self.0.load();
        let mut contents = contents.map_err(sys::Error::at("read", self.0.path()))?;
        change(&mut contents.periods);
        contents.v = 1;
        let bytes = serde_json::to_vec(&contents).expect("plain data with string keys");
        atomic::write(self.0.path(), &bytes, durability)
    }
}

/// Makes one of the two oldest that have ended and are about the same, while there are too many.
fn merge(periods: &mut Vec<Period>) {
    loop {
        let ended = periods.iter().filter(|period| period.until.is_some());
        let ended: Vec<Period> = ended.cloned().collect();
        let like = |(number, first): (usize, &Period)| {
            let mut later = ended.iter().skip(number + 1);
            let second = later.find(|later| later.below == first.below)?;
            Some((first.clone(), second.clone()))
        };
        let pair = ended.iter().enumerate().find_map(like);
        let Some((first, second)) = pair.filter(|_| ended.len() > MOST) else {
            return;
        };
        let whole = Period {
            since: first.since.min(second.since),
            until: first.until.max(second.until),
            asked: first.asked && second.asked,
            ..second.clone()
        };
        periods.retain(|one| one.id != first.id && one.id != second.id);
        periods.insert(0, whole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(id: &str, since: i64, until: Option<i64>) -> Period {
        Period {
            id: id.to_owned(),
            since,
            until,
            run: "r1".to_owned(),
            asked: false,
            below: Vec::new(),
        }
    }

    #[test]
    fn what_was_changed_in_a_period_counts_also_after_a_kill() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("untrusted-periods.json");
        let periods = Periods::new(path.clone());
        assert!(!periods.cover("a.md", 2_000) && periods.is_empty());
        periods.begin(&period("c1", 1_000, None), false).unwrap();
        let check = |key: &str, at: i64, expected: bool| {
            let after_a_kill = Periods::new(path.clone());
            let covered = (periods.cover(key, at), after_a_kill.cover(key, at));
            assert_eq!(covered, (expected, expected), "{key} {at}");
        };
        check("a.md", 1_000, true);
        check("a.md", 2_000, true);
        check("a.md", 900, false);
        check("/elsewhere/a.md", 2_000, false);
        assert_eq!(periods.open(), [period("c1", 1_000, None)]);
        periods.end("c1").unwrap();
        check("a.md", 2_000, false);
        let of_server = Period {
            below: vec!["notes".to_owned(), "/elsewhere".to_owned()],
            ..period("s", 1_000, Some(3_000))
        };
        periods.begin(&of_server, true).unwrap();
        check("notes/a.md", 2_000, true);
        check("/elsewhere/a.md", 2_000, true);
        check("notes/a.md", 3_001, false);
        check("notes.md", 2_000, false);
        assert!(periods.open().is_empty());
    }

    #[test]
    fn many_that_ended_become_fewer_and_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let periods = Periods::new(dir.path().join("untrusted-periods.json"));
        for number in 0..100 {
            let one = period(
                &number.to_string(),
                number * 1_000,
                Some(number * 1_000 + 10),
            );
            periods.begin(&one, false).unwrap();
        }
        assert!((0..100).all(|number| periods.cover("a", number * 1_000 + 5)));
        assert!(!periods.cover("a", 99_500));
        assert!(periods.0.read().unwrap().periods.len() <= MOST);
        // What was asked for covers nothing that was not.
        for number in 100..300 {
            let asked = Period {
                asked: true,
                ..period(
                    &number.to_string(),
                    number * 1_000,
                    Some(number * 1_000 + 10),
                )
            };
            periods.begin(&asked, false).unwrap();
        }
        assert!((0..100).all(|number| periods.cover_unasked("a", number * 1_000 + 5, false)));
    }

    #[test]
    fn when_nobody_can_tell_all_files_count_and_nothing_begins() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("untrusted-periods.json");
        atomic::write(&path, b"{\"periods\":", Durability::Rename).unwrap();
        let periods = Periods::new(path);
        assert!(periods.cover("a", 5) && !periods.is_empty() && periods.damage().is_some());
        assert!(periods.begin(&period("c1", 1, None), false).is_err());
    }
}
