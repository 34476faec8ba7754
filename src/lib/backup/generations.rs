//! Several backups in one directory: their names sort by time, and the oldest go.

use std::path::{Path, PathBuf};

use super::Error;
use crate::{clock, sys};

const BEFORE: &str = "agent-";
const AFTER: &str = ".tar";
/// What follows the name when a program encrypted it.
const ENCRYPTED: [&str; 2] = [".age", ".gpg"];

/// Returns the name of a new backup in `dir`, such as `agent-2026-11-24T031500Z.tar` and `suffix`.
pub fn new_path(dir: &Path, now: i64, suffix: &str) -> PathBuf {
    let time = clock::rfc3339(now).replace(':', "");
    let seconds = time.split('.').next().unwrap_or_default();
    dir.join(format!("{BEFORE}{seconds}Z{AFTER}{suffix}"))
}

/// Returns the newest backup in `dir`; `None` when there is none.
///
/// # Errors
/// When the directory cannot be read.
pub fn newest(dir: &Path) -> Result<Option<PathBuf>, Error> {
    Ok(generations(dir)?.pop())
}

/// Removes all but the newest `keep` backups in `dir` and returns what was removed. Other files stay.
///
/// # Errors
/// When one cannot be removed.
pub fn prune(dir: &Path, keep: usize) -> Result<Vec<PathBuf>, Error> {
    let mut gone = generations(dir)?;
    gone.truncate(gone.len().saturating_sub(keep.max(1)));
    for path in &gone {
        std::fs::remove_file(path).map_err(sys::Error::at("remove", path))?;
    }
    Ok(gone)
}

/// Returns the backups in `dir`, the oldest first.
fn generations(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = std::fs::read_dir(dir).map_err(sys::Error::at("read", dir))?;
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_ours))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    Ok(found)
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

    #[test]
    fn the_newest_stay_and_files_of_others_are_left_alone() {
        let dir = tempfile::tempdir().expect("dir");
        let at = |ms: i64| new_path(dir.path(), ms, if ms == 0 { ".age" } else { "" });
        let put =
            |path: &Path| atomic::write(path, b"x", atomic::Durability::Rename).expect("write");
        for day in 0..5 {
            put(&at(day * 86_400_000));
        }
        put(&dir.path().join("agent-of-mine.tar"));
        assert_eq!(
            prune(dir.path(), 2).expect("pruned"),
            [at(0), at(86_400_000), at(2 * 86_400_000)]
        );
        assert_eq!(newest(dir.path()).expect("read"), Some(at(4 * 86_400_000)));
        assert!(
            prune(dir.path(), 0).expect("pruned").len() == 1,
            "one stays"
        );
        assert!(dir.path().join("agent-of-mine.tar").exists());
    }
}
