//! The journal of a run: the old content of each changed file, recorded before the change.

use parking_lot::Mutex;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Error, MAX_OLD, is_run};
use crate::clock;
use crate::sys;
use crate::sys::{atomic, jsonl};
use crate::text;
use crate::text::sha256_hex;
use crate::workspace::Marks;

/// The journals of all runs, and the marks on files that go with them.
#[derive(Debug)]
pub struct Store {
    pub(super) dir: PathBuf,
    /// The files that hold untrusted text.
    pub marks: Marks,
    /// Held while a journal is written or read for an undo.
    pub(super) busy: Mutex<()>,
}

/// A change that is about to be made.
pub struct Change<'a> {
    /// The run.
    pub run: &'a str,
    /// The key of its conversation.
    pub conversation: &'a str,
    /// The file, see [`crate::workspace::WriteTarget::key`].
    pub key: &'a str,
    /// What is in it now, and its permissions; `None` when it is not there.
    pub old: Option<(&'a mut dyn Read, u32)>,
    /// What will be in it; `None` when it is removed.
    pub new: Option<&'a [u8]>,
    /// The directories that are made for it, outermost first.
    pub made: Vec<String>,
}

/// What a run did beside changes of files: there is another way to take it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deed {
    /// It added, changed or removed a job.
    Job,
    /// It noted something in the memory.
    Noted,
    /// It let something count no more.
    Forgot,
}

/// A line of a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(super) enum Record {
    /// A file is about to be changed.
    Change(Entry),
    /// A command is about to run: what it changes in files is not kept.
    Command {
        /// When, milliseconds since 1970 UTC.
        at: i64,
        /// The key of the conversation.
        conversation: String,
    },
    /// Something else was done, which no undo takes back.
    Deed {
        /// When, milliseconds since 1970 UTC.
        at: i64,
        /// The key of the conversation.
        conversation: String,
        /// What.
        deed: Deed,
    },
    /// An undo begins.
    Asked {
        /// When, milliseconds since 1970 UTC.
        at: i64,
        /// The input that asks for it: after a crash it means the same run.
        by: String,
    },
    /// These changes were taken back.
    Undone {
        /// When, milliseconds since 1970 UTC.
        at: i64,
        /// Their numbers.
        of: Vec<u32>,
    },
    /// An undo of the run came to its end; what it left stays.
    Over {
        /// When, milliseconds since 1970 UTC.
        at: i64,
    },
}

/// One change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Its number in the run, from 1, and the name of the file with what was there before.
    pub(super) n: u32,
    /// When, milliseconds since 1970 UTC.
    pub(super) at: i64,
    /// The conversation.
    pub(super) conversation: String,
    /// The file.
    pub(super) path: String,
    /// What was there; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<Old>,
    /// The SHA-256 of what was written; absent: it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<String>,
    /// Directories that were made for it, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) made: Vec<String>,
    /// Whether it held untrusted text before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) marked: bool,
}

/// What was in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Old {
    pub(super) sha256: String,
    /// Permissions.
    pub(super) mode: u32,
}

impl Store {
    /// Returns the journals in `dir`, which need not exist, with the marks of the same state.
    pub fn new(dir: PathBuf, marks: Marks) -> Self {
        Self {
            dir,
            marks,
            busy: Mutex::default(),
        }
    }

    /// Writes down what a change will replace. When it returns that is on disk, and the change may be
    /// made. Nothing is written when it would change nothing: then false.
    ///
    /// # Errors
    /// See [`Error`]; the change must not be made.
    pub fn record(&self, change: Change<'_>) -> Result<bool, Error> {
        let _busy = self.busy.lock();
        self.record_now(change)
    }

    /// Notes that `run` runs a command: so an undo can say what it does not take back. It waits for the disk only where it makes
    /// the journal, which a change relies on later; one that cannot be noted runs nevertheless.
    pub fn note_command(&self, run: &str, conversation: &str) {
        self.note(
            run,
            &Record::Command {
                at: clock::now_ms(),
                conversation: conversation.to_owned(),
            },
        );
    }

    /// Notes what `run` did beside changes of files: so an undo takes nothing older for the last thing that was done.
    pub fn note_deed(&self, run: &str, conversation: &str, deed: Deed) {
        self.note(
            run,
            &Record::Deed {
                at: clock::now_ms(),
                conversation: conversation.to_owned(),
                deed,
            },
        );
    }

    fn note(&self, run: &str, line: &Record) {
        let _busy = self.busy.lock();
        let noted = || -> Result<(), Error> {
            let journal = self.make_dir_of(run)?.join("journal.jsonl");
            Ok(append(&journal, line, false)?)
        };
        if let Err(error) = noted() {
            tracing::warn!(%error, "the undo record of the run is incomplete");
        }
    }

    /// As [`Store::record`], for who holds the lock.
    pub(super) fn record_now(&self, change: Change<'_>) -> Result<bool, Error> {
        let dir = self.make_dir_of(change.run)?;
        let journal = dir.join("journal.jsonl");
        let lines = self.lines(change.run)?;
        let numbers = lines.iter().filter_map(entry_of).map(|entry| entry.n);
        let n = numbers.max().unwrap_or(0) + 1;
        let kept = dir.join(n.to_string());
        let old = change.old.map(|(old, mode)| {
            let sha256 = keep(old, &kept).inspect_err(|_| drop(std::fs::remove_file(&kept)))?;
            let mode = mode & 0o777;
            Ok::<_, Error>(Old { sha256, mode })
        });
        let before = old.transpose()?;
        let after = change.new.map(sha256_hex);
        if before.as_ref().map(|old| &old.sha256) == after.as_ref() {
            // Best effort: the next change has the same number.
            let _ = std::fs::remove_file(&kept);
            return Ok(false);
        }
        let entry = Entry {
            n,
            at: clock::now_ms(),
            conversation: change.conversation.to_owned(),
            path: change.key.to_owned(),
            before,
            after,
            made: change.made,
            marked: self.marks.has(change.key),
        };
        append(&journal, &Record::Change(entry), true)?;
        Ok(true)
    }

    /// Returns the lines of a run's journal; one that nobody understands is left out.
    pub(super) fn lines(&self, run: &str) -> Result<Vec<Record>, Error> {
        let mut lines = Vec::new();
        jsonl::for_each_line(&self.dir_of(run)?.join("journal.jsonl"), 0, |line, _| {
            match serde_json::from_slice(line) {
                Ok(line) => lines.push(line),
                Err(error) => {
                    tracing::error!(run, %error, "invalid line in an undo journal")
                }
            }
        })?;
        Ok(lines)
    }

    /// Makes the directory of a run, so that it outlasts a power cut.
    fn make_dir_of(&self, run: &str) -> Result<PathBuf, Error> {
        let dir = self.dir_of(run)?;
        make_dir(&self.dir)?;
        make_dir(&dir)?;
        Ok(dir)
    }

    pub(super) fn dir_of(&self, run: &str) -> Result<PathBuf, Error> {
        if is_run(run) {
            Ok(self.dir.join(run))
        } else {
            Err(Error::Unknown(crate::text::visible(run)))
        }
    }
}

pub(super) fn entry_of(line: &Record) -> Option<&Entry> {
    match line {
        Record::Change(entry) => Some(entry),
        Record::Command { .. }
        | Record::Deed { .. }
        | Record::Asked { .. }
        | Record::Undone { .. }
        | Record::Over { .. } => None,
    }
}

/// Appends a line, and waits for the disk if it is `durable`; a new journal outlasts a power cut in any case.
pub(super) fn append(journal: &Path, line: &Record, durable: bool) -> Result<(), sys::Error> {
    let mut bytes = serde_json::to_vec(line).expect("a line is plain data");
    bytes.push(b'\n');
    jsonl::Appender::open(journal)?.append(&bytes, durable)?;
    Ok(())
}

/// Returns the SHA-256 of what is read.
pub(super) fn sha256_of(source: &mut dyn Read) -> Result<String, Error> {
    text::sha256_of(source, |_| Ok(()))
}

/// Copies what is read to `target`, 0600, and returns its SHA-256 when it is on disk.
fn keep(source: &mut dyn Read, target: &Path) -> Result<String, Error> {
    let at = |error| sys::Error::at("keep the old text in", target)(error);
    // What a crash left there is in no line.
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(target)
        .map_err(|error: std::io::Error| at(error))?;
    let mut size = 0_u64;
    let sum = text::sha256_of(source, |bytes| {
        size += bytes.len() as u64;
        if size > MAX_OLD {
            return Err(Error::TooLarge);
        }
        Ok(file.write_all(bytes).map_err(at)?)
    })?;
    file.sync_all()
        .and_then(|()| atomic::sync_parent(target))
        .map_err(at)?;
    Ok(sum)
}

/// Makes a directory that outlasts a power cut; one that is there is fine.
fn make_dir(dir: &Path) -> Result<(), sys::Error> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => atomic::sync_parent(dir).map_err(sys::Error::at("sync the directory of", dir)),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(sys::Error::at("make", dir)(error)),
    }
}
