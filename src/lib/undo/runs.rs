//! Which runs changed files.

use super::journal::{Entry, Line, Store, entry_of};
use super::{Error, UNDO};

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
        let is_it = |line: &Line| matches!(line, Line::Asked { by: input, .. } if input == by);
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
            .rposition(|line| matches!(line, Line::Change(_)))?;
        let is_fresh = !lines
            .iter()
            .skip(last_change)
            .any(|line| matches!(line, Line::Over { .. }));
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
    /// is no undo itself.
    pub fn newest(&self, conversation: Option<&str>) -> Option<RunInfo> {
        let is_meant = |run: &RunInfo| {
            run.is_fresh
                && !run.run.starts_with(UNDO)
                && conversation.is_none_or(|key| key == run.conversation)
        };
        self.runs().into_iter().find(is_meant)
    }

    /// Returns the journal of a run that is known.
    pub(super) fn known(&self, run: &str) -> Result<Vec<Line>, Error> {
        let lines = self.lines(run)?;
        if lines.is_empty() {
            Err(Error::Unknown(crate::text::visible(run)))
        } else {
            Ok(lines)
        }
    }
}

/// Returns the changes that were not taken back, in their order.
pub(super) fn open(lines: &[Line]) -> Vec<&Entry> {
    let undone: Vec<u32> = lines
        .iter()
        .flat_map(|line| match line {
            Line::Undone { of, .. } => of.as_slice(),
            Line::Change(_) | Line::Asked { .. } | Line::Over { .. } => &[],
        })
        .copied()
        .collect();
    lines
        .iter()
        .filter_map(entry_of)
        .filter(|entry| !undone.contains(&entry.n))
        .collect()
}
