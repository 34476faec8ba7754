//! The snapshot of a session, `sessions/<sid>.state.json`: the state that its transcript adds up to, and the files that it
//! was made from. It saves reading the whole transcript again; one that does not fit the files is not used.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::state::State;
use crate::sys;
use crate::sys::{atomic, jsonl};

/// The snapshot file: a state, and the files it was made from as they were then.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Snapshot {
    pub files: Vec<Stamp>,
    #[serde(flatten)]
    pub state: State,
}

/// A transcript file at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    pub name: String,
    inode: u64,
    length: u64,
    /// When it was last written, nanoseconds since 1970.
    written: i64,
}

impl Stamp {
    pub(super) fn of(dir: &Path, name: &str) -> Option<Self> {
        let meta = std::fs::metadata(dir.join(name)).ok()?;
        let written = meta
            .mtime()
            .checked_mul(1_000_000_000)?
            .checked_add(meta.mtime_nsec())?;
        Some(Self {
            name: name.to_owned(),
            inode: meta.ino(),
            length: meta.len(),
            written,
        })
    }

    /// Returns those of the `names` that are there.
    pub(super) fn of_all(dir: &Path, names: &[String]) -> Vec<Self> {
        let stamps = names.iter().filter_map(|name| Self::of(dir, name));
        stamps.collect()
    }

    /// Returns true when the file is as it was, or (the newest one) has only grown.
    fn still(&self, dir: &Path, may_have_grown: bool) -> bool {
        Self::of(dir, &self.name).is_some_and(|now| {
            now == *self || (may_have_grown && now.inode == self.inode && now.length > self.length)
        })
    }
}

impl Snapshot {
    /// Returns the snapshot of session `id`. One that is damaged, or that an earlier version wrote otherwise, is none:
    /// the transcript has it all.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn read(dir: &Path, id: &str) -> Result<Option<Self>, sys::Error> {
        atomic::read_valid_json(&path(dir, id))
    }

    /// Returns true when the files are those it was made from, but for what was appended since:
    /// transcripts may be edited, and then they are the truth.
    pub(super) fn describes(&self, dir: &Path, files: &[String]) -> bool {
        let last = self.files.len().saturating_sub(1);
        let same = self.files.iter().enumerate().all(|(number, stamp)| {
            files.get(number) == Some(&stamp.name) && stamp.still(dir, number == last)
        });
        let end = self
            .files
            .last()
            .map(|stamp| (stamp.name.as_str(), stamp.length));
        same && end.is_some_and(|(name, length)| {
            name == self.state.position.file && length >= self.state.position.offset
        })
    }

    /// Returns the first file that is shorter `now` than it was.
    pub(super) fn shortened(&self, now: &[Stamp]) -> Option<Shortened> {
        let is_shorter = |was: &Stamp| {
            let now = now.iter().find(|now| now.name == was.name)?;
            (now.length < was.length).then(|| Shortened {
                name: was.name.clone(),
                length: now.length,
                was: was.length,
            })
        };
        self.files.iter().find_map(is_shorter)
    }

    /// Returns true when its number of the newest event is that of the line where it ends. With a lower one what it has
    /// already would come again, and new events would take numbers that were given.
    pub(super) fn is_numbered_as(&self, dir: &Path) -> bool {
        let State {
            last_seq,
            position,
            entries,
            ..
        } = &self.state;
        let line = jsonl::line_before(&dir.join(&position.file), position.offset);
        let line = line.ok().flatten().unwrap_or_default();
        entries.iter().all(|entry| entry.seq <= *last_seq)
            && serde_json::from_slice::<Numbered>(&line).is_ok_and(|line| line.seq == *last_seq)
    }
}

/// A transcript file that lost its end since the agent wrote it, or that somebody shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortened {
    /// Its name in the directory of sessions.
    pub name: String,
    /// Bytes that it has.
    pub length: u64,
    /// Bytes that it had when the agent looked last.
    pub was: u64,
}

/// Returns the first file of session `id` that is shorter than its snapshot knows it; `None` without a snapshot, too. A file that
/// is gone was deleted or archived, which is no damage.
pub fn shortened(dir: &Path, id: &str) -> Option<Shortened> {
    let snapshot = Snapshot::read(dir, id).ok().flatten()?;
    let now = snapshot
        .files
        .iter()
        .filter_map(|file| Stamp::of(dir, &file.name));
    snapshot.shortened(&now.collect::<Vec<_>>())
}

/// Of an [`super::event::Event`] its number only.
#[derive(Deserialize)]
struct Numbered {
    seq: u64,
}

/// Returns where the snapshot of session `id` stands.
pub(super) fn path(dir: &Path, id: &str) -> PathBuf {
    dir.join(format!("{id}.state.json"))
}
