//! Several backups in one directory: their names sort by time, and the oldest are removed. A clock may have been wrong.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Error;
use super::scratch::ELSEWHERE;
use crate::{clock, sys};

const BEFORE: &str = "agent-";
const AFTER: &str = ".tar";
/// Clocks of machines that write into one directory differ by less.
const SKEW_MS: i64 = 86_400_000;
/// What follows the name when a program encrypted it.
const ENCRYPTED: [&str; 2] = [".age", ".gpg"];

/// Returns the name of a new backup in `dir`, such as `agent-2026-11-24T031500Z.tar` and `suffix`.
pub fn new_path(dir: &Path, now: i64, suffix: &str) -> PathBuf {
    let time = clock::rfc3339(now).replace(':', "");
    let seconds = time.split('.').next().unwrap_or_default();
    dir.join(format!("{BEFORE}{seconds}Z{AFTER}{suffix}"))
}

/// The newest backup in a directory.
#[derive(Debug, PartialEq, Eq)]
pub struct Newest {
    /// `None` when there is none.
    pub path: Option<PathBuf>,
    /// Those whose names say a time that has not come, the oldest first.
    pub passed_over: Vec<PathBuf>,
}

/// Finds the newest backup in `dir`.
///
/// # Errors
/// When the directory cannot be read.
pub fn newest(dir: &Path, now: i64) -> Result<Newest, Error> {
    let Generations { mut past, future } = Generations::read(dir, now)?;
    Ok(Newest {
        path: past.pop(),
        passed_over: future,
    })
}

/// Removes all except the newest `keep` backups in `dir` and returns what was removed. The one that was just `written` stays
/// whatever its name says, and counts; so do, uncounted, those whose time has not come: their clock was wrong, or ours is.
/// What runs left that were killed a day ago goes, too. Other files stay.
///
/// # Errors
/// When one cannot be removed.
pub fn prune(dir: &Path, keep: usize, written: &Path, now: i64) -> Result<Vec<PathBuf>, Error> {
    remove_left_behind(dir);
    let mut gone = Generations::read(dir, now)?.past;
    gone.retain(|path| path != written);
    gone.truncate((gone.len() + 1).saturating_sub(keep.max(1)));
    for path in &gone {
        std::fs::remove_file(path).map_err(sys::Error::at("remove", path))?;
    }
    Ok(gone)
}

/// The backups in a directory, each the oldest first.
struct Generations {
    past: Vec<PathBuf>,
    /// By a clock that was wrong.
    future: Vec<PathBuf>,
}

impl Generations {
    fn read(dir: &Path, now: i64) -> Result<Self, Error> {
        let entries = std::fs::read_dir(dir).map_err(sys::Error::at("read", dir))?;
        let mut all: Vec<PathBuf> = entries
            .flatten()
            .filter(|entry| entry.file_name().to_str().is_some_and(is_ours))
            .map(|entry| entry.path())
            .collect();
        all.sort();
        let latest = new_path(dir, now + SKEW_MS, "");
        let future = all.split_off(all.partition_point(|path| *path <= latest));
        Ok(Self { past: all, future })
    }
}

/// What follows the name while a backup is written.
pub const DRAFT: &str = ".part";
/// A draft that was not touched for so long is of a run that was killed.
const LEFT_BEHIND: Duration = Duration::from_secs(86_400);

/// Returns true for what is a backup by its name, or the draft of one.
pub(super) fn is_backup(name: &str) -> bool {
    is_ours(name.strip_suffix(DRAFT).unwrap_or(name))
}

/// Returns what runs left in `dir` which were killed: drafts, and directories of copies.
fn left_behind(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let left = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        let is_draft = name.strip_suffix(DRAFT).is_some_and(is_ours);
        let age = entry.metadata().and_then(|meta| meta.modified());
        let is_old = age.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > LEFT_BEHIND));
        (is_draft || name.starts_with(ELSEWHERE)) && is_old
    });
    left.map(|entry| entry.path()).collect()
}

fn remove_left_behind(dir: &Path) {
    for path in left_behind(dir) {
        // The next backup tries again.
        let _ = match path.is_dir() {
            true => std::fs::remove_dir_all(&path),
            false => std::fs::remove_file(&path),
        };
    }
}

fn is_ours(name: &str) -> bool {
    let plain = ENCRYPTED.iter().find_map(|end| name.strip_suffix(end));
    let time = plain
        .unwrap_or(name)
        .strip_prefix(BEFORE)
        .and_then(|rest| rest.strip_suffix(AFTER));
    time.is_some_and(|time| {
        time.len() == "2026-11-24T031500Z".len()
            && time
                .chars()
                .all(|c| c.is_ascii_digit() || ['-', 'T', 'Z'].contains(&c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::atomic;

    const DAY_MS: i64 = 86_400_000;

    fn put(path: &Path) {
        atomic::write(path, b"x", atomic::Durability::Rename).expect("write");
    }

    #[test]
    fn the_newest_stay_and_files_of_others_are_left_alone() {
        let dir = tempfile::tempdir().expect("dir");
        let at = |day: i64| new_path(dir.path(), day * DAY_MS, if day == 0 { ".age" } else { "" });
        for day in 0..5 {
            put(&at(day));
        }
        put(&dir.path().join("agent-of-mine.tar"));
        let (now, last) = (4 * DAY_MS, at(4));
        assert_eq!(
            prune(dir.path(), 2, &last, now).expect("pruned"),
            [at(0), at(1), at(2)]
        );
        let found = newest(dir.path(), now).expect("read");
        assert_eq!(
            (found.path, found.passed_over),
            (Some(last.clone()), vec![])
        );
        assert_eq!(
            prune(dir.path(), 0, &last, now).expect("pruned"),
            [at(3)],
            "one stays"
        );
        assert!(dir.path().join("agent-of-mine.tar").exists());
    }

    #[test]
    fn a_wrong_clock_makes_no_backup_the_newest_and_removes_none_that_was_just_made() {
        let dir = tempfile::tempdir().expect("dir");
        let at = |day: i64| new_path(dir.path(), day * DAY_MS, "");
        for day in [10, 11, 12, 500, 501] {
            put(&at(day));
        }
        let (future, now) = ([at(500), at(501)], 12 * DAY_MS);
        let found = newest(dir.path(), now).expect("read");
        assert_eq!(found.path, Some(at(12)));
        assert_eq!(found.passed_over, future);
        // They take no place of one that is kept.
        let gone = prune(dir.path(), 2, &at(12), now).expect("pruned");
        assert_eq!(gone, [at(10)]);
        // A clock that went back, by some hours and by years.
        put(&at(10));
        let gone = prune(dir.path(), 2, &at(10), 11 * DAY_MS).expect("pruned");
        assert_eq!(gone, [at(11)]);
        put(&at(1));
        let gone = prune(dir.path(), 1, &at(1), DAY_MS).expect("pruned");
        assert_eq!(gone, [] as [PathBuf; 0]);
        for path in [at(1), at(10), at(12)].iter().chain(&future) {
            assert!(path.exists(), "{}", path.display());
        }
    }
}
