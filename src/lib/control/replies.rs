//! Answers to commands: `replies/<id>.json`, rewritten as a whole when the command progresses. For streaming there is
//! `replies/<id>.part` next to it: plain text that grows while the reply is written, and is removed when it is complete.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Id;
use crate::message::Wanted;
use crate::sys::{Error, HeldDir, atomic};

/// The error of a command that was stopped.
pub const STOPPED: &str = "stopped";

/// How far a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It is in `queue.db`.
    Accepted,
    /// Its turn runs.
    Running,
    /// It is answered.
    Done,
    /// It failed; `error` says why.
    Error,
}

/// The answer to a command. Absent fields are not known yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// 1.
    pub v: u32,
    /// The command's id.
    pub id: String,
    /// How far it is.
    pub status: Status,
    /// The agent's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
    /// The session it was answered in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The run that answered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// All tokens of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Those of them that the model wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// US dollars of the run; absent when a call was unpriced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// True when the agent chose to say nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent: Option<bool>,
    /// What the tools of the run did in the world, by the record and not by the agent's words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub receipts: Vec<String>,
    /// What waits for the owner's word while it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<Ask>,
    /// What its turn waits for, in words for its sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// What an order about a job made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<serde_json::Value>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A call that needs the owner's approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// By what it is approved or denied.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// What would be done. The text may be untrusted: escape it when it is shown.
    pub text: String,
    /// Why it is asked.
    pub why: String,
    /// When it counts as denied, RFC 3339 UTC.
    pub expires_at: String,
    /// What may be allowed for the rest of the conversation or always; absent where only this once may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The expected answer, if it is a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Wanted>,
}

impl Reply {
    /// Returns an answer that knows only how far the command is.
    pub fn new(id: &str, status: Status) -> Self {
        Self {
            v: 1,
            id: id.to_owned(),
            status,
            reply: None,
            session_id: None,
            run_id: None,
            tokens: None,
            output_tokens: None,
            cost_usd: None,
            silent: None,
            receipts: Vec::new(),
            asks: Vec::new(),
            waits_for: None,
            job: None,
            error: None,
        }
    }

    /// Returns an answer that says why the command failed.
    pub fn error(id: &str, reason: impl Into<String>) -> Self {
        Self {
            error: Some(reason.into()),
            ..Self::new(id, Status::Error)
        }
    }

    /// Returns true when nothing more will come.
    pub fn is_final(&self) -> bool {
        matches!(self.status, Status::Done | Status::Error)
    }
}

/// A reply while it is written. The file goes when this is dropped.
#[derive(Debug)]
pub struct Part {
    file: File,
    path: PathBuf,
}

impl Part {
    /// Begins the file of command `id`, empty. One that a crash left is another file: a process that reads
    /// along has come somewhere in that, and can tell by its inode.
    ///
    /// # Errors
    /// When the directory is missing, not writable or full.
    pub fn begin(dir: &Path, id: &str) -> Result<Self, Error> {
        let path = part_path(dir, id);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::at("replace", &path)(error));
            }
            Ok(()) | Err(_) => {}
        }
        let mut options = OpenOptions::new();
        let file = options
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(Error::at("open", &path))?;
        Ok(Self { file, path })
    }

    /// Appends words.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn append(&mut self, words: &str) -> Result<(), Error> {
        self.file
            .write_all(words.as_bytes())
            .map_err(Error::at("write", &self.path))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It is pruned with the old answers, if it stays.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns the file of a reply that is being written.
pub fn part_path(dir: &Path, id: &str) -> PathBuf {
    dir.join(format!("{id}.part"))
}

/// Returns the file of an answer.
pub fn path(dir: &Path, id: &str) -> PathBuf {
    dir.join(format!("{id}.json"))
}

/// Writes an answer; a reader sees the old one or the new one.
///
/// # Errors
/// When the directory is missing, not writable or full.
pub fn write(dir: &Path, reply: &Reply) -> Result<(), Error> {
    let bytes = serde_json::to_vec(reply).unwrap_or_default();
    // In a channel's directory its process makes of the name `replies` what it likes.
    let name = path(Path::new(""), &reply.id);
    HeldDir::open(dir, 1)?.with(name, |path| {
        atomic::write(path, &bytes, atomic::Durability::Rename)
    })
}

/// Reads an answer; `None` when there is none.
///
/// # Errors
/// When it cannot be read or is not an answer.
pub fn read(dir: &Path, id: &Id) -> Result<Option<Reply>, Error> {
    let path = path(dir, id.as_str());
    let Some(bytes) = atomic::read(&path)? else {
        return Ok(None);
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| Error::at("read", &path)(std::io::Error::from(error)))
}

/// Removes answers older than `keep` and returns how many.
///
/// # Errors
/// When the directory cannot be read.
pub fn prune(dir: &Path, keep: Duration) -> Result<usize, Error> {
    let entries = std::fs::read_dir(dir).map_err(Error::at("read", dir))?;
    let old = entries.flatten().filter(|entry| {
        let age = entry
            .metadata()
            .and_then(|meta| meta.modified())
            .ok()
            .and_then(|time| time.elapsed().ok());
        age.is_some_and(|age| age > keep)
    });
    Ok(old
        .filter(|entry| std::fs::remove_file(entry.path()).is_ok())
        .count())
}
