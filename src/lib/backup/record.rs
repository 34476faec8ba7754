//! [`Record`]: when a backup was made last, and why the last try failed, in `state/backup.json`. A timer fails where nobody
//! looks; doctor reads this. No backup has it, nor a standby.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Error;
use crate::config::Home;
use crate::sys;
use crate::sys::atomic;

/// Regular backups are late after so long: a machine may be off over a weekend.
const LATE_MS: i64 = 3 * 86_400_000;
/// Or after so many of their usual pauses, where that is longer.
const MISSED: i64 = 3;

/// What is known of the backups of a home; times are milliseconds since 1970 UTC.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// When the last backup was made.
    pub made_at: Option<i64>,
    /// The last of the backups of which the newest are kept, as timers make them.
    pub regular: Option<Regular>,
    /// The last try, when it failed.
    pub failed: Option<Failed>,
    /// The last try, when nothing is known of its end: it is under way, or was killed.
    pub began: Option<Began>,
}

/// Backups that are made repeatedly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Regular {
    /// When the last one was made.
    pub at: i64,
    /// How long after the one before; 0 for the first.
    pub pause_ms: i64,
    /// What made it, behind the name of the program.
    pub command: String,
}

/// A backup that was not made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// When.
    pub at: i64,
    /// Why not.
    pub why: String,
    /// What makes it again, behind the name of the program.
    pub command: String,
}

/// A backup that began to be written into a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Began {
    /// When.
    pub at: i64,
    /// What is written meanwhile.
    pub draft: PathBuf,
    /// What makes it again, behind the name of the program.
    pub command: String,
}

impl Record {
    /// Returns what is known; nothing of a home that never had a backup.
    ///
    /// # Errors
    /// When the file cannot be read, or is no such record.
    pub fn read(home: &Home) -> Result<Self, Error> {
        let path = path(home);
        let Some(bytes) = atomic::read(&path)? else {
            return Ok(Self::default());
        };
        serde_json::from_slice(&bytes).map_err(|error| Error::Damaged {
            path,
            why: error.to_string(),
        })
    }

    /// Notes that `command` made a backup, which is one of many when it `is_regular`.
    pub fn made(&mut self, command: String, is_regular: bool, now: i64) {
        self.made_at = Some(now);
        (self.failed, self.began) = (None, None);
        if is_regular {
            let before = self.regular.as_ref().map_or(now, |regular| regular.at);
            self.regular = Some(Regular {
                at: now,
                pause_ms: (now - before).max(0),
                command,
            });
        }
    }

    /// Notes that `command` made none.
    pub fn failed(&mut self, command: String, why: String, now: i64) {
        self.began = None;
        self.failed = Some(Failed {
            at: now,
            why,
            command,
        });
    }

    /// Returns the last try, when it was killed and has left its draft.
    pub fn killed(&self, home: &Home) -> Option<&Began> {
        let left = self.began.as_ref().filter(|began| began.draft.exists());
        left.filter(|_| !super::is_under_way(home))
    }

    /// Returns the regular backups when they stay away, or when the last one is of a time that is far from coming: a clock
    /// was wrong, and nobody knows how old it is.
    pub fn late(&self, now: i64) -> Option<&Regular> {
        let late = |regular: &&Regular| {
            let longest = LATE_MS.max(regular.pause_ms.saturating_mul(MISSED));
            now - regular.at > longest || regular.at - now > LATE_MS
        };
        self.regular.as_ref().filter(late)
    }

    /// Writes it down.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, home: &Home) -> Result<(), sys::Error> {
        atomic::write_json(&path(home), self, atomic::Durability::Full)
    }
}

fn path(home: &Home) -> PathBuf {
    home.state().join("backup.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 86_400_000;

    #[test]
    fn regular_backups_that_stay_away_are_late_and_a_single_one_never_is() {
        let check = |made: &[(i64, bool)], day: i64, expected: bool| {
            let mut record = Record::default();
            for (day, is_regular) in made {
                record.made("backup".to_owned(), *is_regular, day * DAY_MS);
            }
            let late = record.late(day * DAY_MS).is_some();
            assert_eq!(late, expected, "{made:?}, day {day}");
        };
        // Every night.
        check(&[(0, true), (1, true)], 4, false);
        check(&[(0, true), (1, true)], 5, true);
        check(&[(0, true)], 4, true);
        // Every week.
        check(&[(0, true), (7, true)], 28, false);
        check(&[(0, true), (7, true)], 29, true);
        // By hand.
        check(&[], 400, false);
        check(&[(0, false)], 400, false);
        check(&[(0, true), (20, false)], 20, true);
        // By a clock that was wrong.
        check(&[(5_000, true)], 1, true);
        check(&[(5_000, true), (2, true)], 5, false);
    }

    #[test]
    fn a_failure_holds_until_a_backup_is_made() {
        let dir = tempfile::tempdir().expect("dir");
        let home = Home::at(dir.path());
        std::fs::create_dir_all(home.state()).expect("own directory");
        assert_eq!(Record::read(&home).expect("none"), Record::default());
        let mut record = Record::default();
        record.made("backup --keep 14 /b".to_owned(), true, 1);
        record.failed("backup /b".to_owned(), "the disk is full".to_owned(), 2);
        record.write(&home).expect("written");
        assert_eq!(Record::read(&home).expect("read"), record);
        assert!(record.failed.is_some() && record.made_at == Some(1));
        record.made("backup /b".to_owned(), false, 3);
        assert!(record.failed.is_none() && record.made_at == Some(3));
    }
}
