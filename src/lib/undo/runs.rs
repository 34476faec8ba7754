//! The runs that changed files, and the retention of their records.

use std::time::Duration;

use super::journal::{Deed, Entry, Record, Store, entry_of};
use super::{Error, UNDO};
use crate::sys;

/// How long a run can be taken back: as long as its messages are kept.
pub const KEEP: Duration = Duration::from_secs(14 * 24 * 3600);
/// The most bytes that all runs together keep; beyond it the oldest go, and the newest stays in any case.
pub const MAX_BYTES: u64 = 256 << 20;

/// A run that changed files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunInfo {
    /// Its id.
    pub run: String,
    /// The key of its conversation.
    pub conversation: String,
    /// When it last changed one, milliseconds since 1970 UTC.
    pub at: i64,
    /// The files whose changes were not taken back, in the order of their first change.
    pub files: Vec<String>,
    /// Whether nobody has tried to take it back since it changed something.
    pub is_fresh: bool,
}

impl Store {
    /// Returns the runs whose changes can be taken back, the newest first.
    pub fn runs(&self) -> Vec<RunInfo> {
        let mut runs: Vec<RunInfo> = self
            .names()
            .filter_map(|run| self.run(&run))
            .filter(|run| !run.files.is_empty())
            .collect();
        runs.sort_by(|a, b| b.at.cmp(&a.at).then_with(|| b.run.cmp(&a.run)));
        runs
    }

    /// Returns the run whose undo the input `by` has begun already.
    pub fn asked(&self, by: &str) -> Option<String> {
        let is_it = |line: &Record| matches!(line, Record::Asked { by: input, .. } if input == by);
        self.names()
            .find(|run| self.lines(run).is_ok_and(|lines| lines.iter().any(is_it)))
    }

    fn names(&self) -> impl Iterator<Item = String> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok())
    }

    /// Returns what is known of a run; `None` when it changed no files.
    pub fn run(&self, run: &str) -> Option<RunInfo> {
        let lines = self.lines(run).ok()?;
        let newest = lines.iter().filter_map(entry_of).next_back()?;
        let last_change = lines
            .iter()
            .rposition(|line| matches!(line, Record::Change(_)))?;
        let is_fresh = !lines
            .iter()
            .skip(last_change)
            .any(|line| matches!(line, Record::Over { .. }));
        let mut files: Vec<String> = Vec::new();
        for entry in open(&lines) {
            if !files.contains(&entry.path) {
                files.push(entry.path.clone());
            }
        }
        Some(RunInfo {
            run: run.to_owned(),
            conversation: newest.conversation.clone(),
            at: newest.at,
            files,
            is_fresh,
        })
    }

    /// Returns the newest run that changed files, of one conversation or of all, that was not taken back and
    /// is not an undo itself.
    pub fn newest(&self, conversation: Option<&str>) -> Option<RunInfo> {
        let is_meant = |run: &RunInfo| {
            run.is_fresh
                && !run.run.starts_with(UNDO)
                && conversation.is_none_or(|key| key == run.conversation)
        };
        self.runs().into_iter().find(is_meant)
    }

    /// Returns the newest run of a conversation, or of all, that ran commands, and when it ran the last one,
    /// milliseconds since 1970 UTC.
    pub fn newest_commands(&self, conversation: Option<&str>) -> Option<(String, i64)> {
        let of_run = |run: String| {
            let lines = self.lines(&run).ok()?;
            let (at, key) = lines.iter().rev().find_map(command_of)?;
            conversation
                .is_none_or(|wanted| wanted == key)
                .then_some((run, at))
        };
        self.names().filter_map(of_run).max_by_key(|(_, at)| *at)
    }

    /// Returns the newest thing beside changes of files that was done in a conversation: the run, when, milliseconds since
    /// 1970 UTC, and what.
    pub fn newest_deed(&self, conversation: &str) -> Option<(String, i64, Deed)> {
        let deed_of = |line: &Record| match line {
            Record::Deed {
                at,
                conversation: key,
                deed,
            } if key == conversation => Some((*at, *deed)),
            _ => None,
        };
        let of_run = |run: String| {
            let lines = self.lines(&run).ok()?;
            let (at, deed) = lines.iter().rev().find_map(deed_of)?;
            Some((run, at, deed))
        };
        self.names().filter_map(of_run).max_by_key(|(_, at, _)| *at)
    }

    /// Removes what is older than `keep`, and the oldest runs while all take more than `max` bytes.
    ///
    /// # Errors
    /// When a directory cannot be removed.
    pub fn prune(&self, keep: Duration, max: u64) -> Result<(), sys::Error> {
        let _busy = self.busy.lock();
        let mut runs = Vec::new();
        for entry in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let dir = entry.path();
            let journal = dir
                .join("journal.jsonl")
                .metadata()
                .or_else(|_| entry.metadata());
            let Ok(age) = journal
                .and_then(|meta| meta.modified())
                .map(|time| time.elapsed().unwrap_or_default())
            else {
                continue;
            };
            let files = std::fs::read_dir(&dir).into_iter().flatten().flatten();
            let bytes: u64 = files
                .filter_map(|file| file.metadata().ok())
                .map(|meta| meta.len())
                .sum();
            runs.push((age, dir, bytes));
        }
        runs.sort_by_key(|(age, ..)| *age);
        let mut total = 0_u64;
        for (number, (age, dir, bytes)) in runs.into_iter().enumerate() {
            total = total.saturating_add(bytes);
            if age > keep || (number > 0 && total > max) {
                std::fs::remove_dir_all(&dir).map_err(sys::Error::at("remove", &dir))?;
            }
        }
        Ok(())
    }

    /// Returns the journal of a run that is known.
    pub(super) fn known(&self, run: &str) -> Result<Vec<Record>, Error> {
        let lines = self.lines(run)?;
        if lines.is_empty() {
            Err(Error::Unknown(crate::text::visible(run)))
        } else {
            Ok(lines)
        }
    }
}

/// Returns when a command ran, and the key of its conversation.
pub(super) fn command_of(line: &Record) -> Option<(i64, &str)> {
    match line {
        Record::Command { at, conversation } => Some((*at, conversation)),
        Record::Change(_)
        | Record::Deed { .. }
        | Record::Asked { .. }
        | Record::Undone { .. }
        | Record::Over { .. } => None,
    }
}

/// Returns the changes that were not taken back, in their order.
pub(super) fn open(lines: &[Record]) -> Vec<&Entry> {
    let undone: Vec<u32> = lines
        .iter()
        .flat_map(|line| match line {
            Record::Undone { of, .. } => of.as_slice(),
            Record::Change(_)
            | Record::Command { .. }
            | Record::Deed { .. }
            | Record::Asked { .. }
            | Record::Over { .. } => &[],
        })
        .copied()
        .collect();
    lines
        .iter()
        .filter_map(entry_of)
        .filter(|entry| !undone.contains(&entry.n))
        .collect()
}
