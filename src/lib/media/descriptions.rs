//! What pictures, stickers and films appear as, in words: written by hand, or by a model once and kept.
//!
//! ```text
//! <config_path>/agents/<name>/media/<unique_id>.json   written by hand, for one agent; earlier directories win
//! <config_path>/media/<unique_id>.json                 written by hand, for all agents
//! state/media/<unique_id>.json                         by a model; kept until it is removed
//! ```
//! Each is a [`Record`]; by hand only `description` is needed. `unique_id` is the channel's id of a file, the same
//! wherever it is sent.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::sys::atomic;
use crate::{clock, text};

/// The longest description that is used, characters.
const MAX_CHARS: usize = 1000;
/// The largest file that is read as a record.
const MAX_BYTES: u64 = 64 << 10;
const NO_NAME: &str = "the id is no name of a file";
/// Before the first retry after a failure that may pass, and the longest pause.
const BACKOFF_MS: (i64, i64) = (60_000, 24 * 3_600_000);

/// What is known of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// The channel's id of the file.
    pub unique_id: String,
    /// `photo`, `sticker` …
    pub kind: String,
    /// The set of a sticker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sticker_set_name: Option<String>,
    /// Its name in the set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sticker_name: Option<String>,
    /// What it appears as.
    pub description: Option<String>,
    /// How it came to this.
    pub status: Status,
    /// Why there is no description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// What its bytes are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The picture that was looked at, below `state/downloads`, which keeps it for 14 days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub picture: Option<String>,
    /// When, RFC 3339 UTC.
    pub ts: String,
    /// Failures in a row that may pass.
    #[serde(skip_serializing_if = "is_zero")]
    pub failures: u32,
}

/// How a record came to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Somebody wrote it.
    #[default]
    Curated,
    /// A model did.
    Generated,
    /// Nobody can look at such a file.
    Unsupported,
    /// It failed, and may succeed later.
    TemporaryFailure,
    /// It will always fail.
    PermanentFailure,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Record {
    /// Returns the description, short and without marks of the system.
    pub fn words(&self) -> Option<String> {
        let words = self.description.as_deref()?.trim();
        (!words.is_empty()).then(|| text::shorten(words, MAX_CHARS))
    }

    /// Returns true when it is worth another try at `now`.
    pub fn may_be_tried(&self, now: i64) -> bool {
        if self.status != Status::TemporaryFailure {
            return false;
        }
        let (first, most) = BACKOFF_MS;
        let pause = first
            .saturating_mul(1 << self.failures.saturating_sub(1).min(20))
            .min(most);
        clock::parse_rfc3339(&self.ts).is_none_or(|at| now >= at + pause)
    }
}

/// Where records lie.
#[derive(Debug, Clone)]
pub struct Descriptions {
    /// Directories with those written by hand, the first wins.
    pub curated: Vec<PathBuf>,
    /// The directory of the others.
    pub cache: PathBuf,
}

impl Descriptions {
    /// Returns what is known of a file. A record that cannot be read is none. Blocks on disk.
    pub fn known(&self, unique_id: &str) -> Option<Record> {
        let name = file_name(unique_id)?;
        let curated = self.curated.iter().map(|dir| dir.join(&name));
        let by_hand = curated.filter_map(|path| read(&path));
        let mut by_hand = by_hand.filter(|record| record.words().is_some());
        by_hand.next().or_else(|| read(&self.cache.join(&name)))
    }

    /// Returns all that is known, of each file the record that counts, in no order. Blocks on disk.
    pub fn all(&self) -> Vec<Record> {
        let dirs = self.curated.iter().chain([&self.cache]);
        let files = dirs.flat_map(|dir| dir.read_dir().into_iter().flatten().flatten());
        let ids: BTreeSet<String> = files
            .filter_map(|file| {
                let name = file.file_name().into_string().ok()?;
                name.strip_suffix(".json").map(str::to_owned)
            })
            .collect();
        let record = |id: &String| {
            Some(Record {
                unique_id: id.clone(),
                ..self.known(id)?
            })
        };
        ids.iter().filter_map(record).collect()
    }

    /// Keeps a record in the cache. Blocks on disk.
    ///
    /// # Errors
    /// Why it is not kept.
    pub fn keep(&self, record: &Record) -> Result<(), String> {
        write(&self.cache, record, 0o700)
    }

    /// Writes a record down as one that somebody wrote, and clears that of the cache. Blocks on disk.
    ///
    /// # Errors
    /// Why it is not written.
    pub fn curate(&self, dir: &Path, record: Record) -> Result<(), String> {
        let record = Record {
            status: Status::Curated,
            failure_reason: None,
            failures: 0,
            ts: clock::rfc3339(clock::now_ms()),
            ..record
        };
        write(dir, &record, 0o755)?;
        self.clear(&record.unique_id)
    }

    /// Removes a record from the cache: the file is described again when it comes. Blocks on disk.
    ///
    /// # Errors
    /// Why it stays.
    pub fn clear(&self, unique_id: &str) -> Result<(), String> {
        let name = file_name(unique_id).ok_or(NO_NAME)?;
        match std::fs::remove_file(self.cache.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.to_string()),
            _ => Ok(()),
        }
    }
}

fn write(dir: &Path, record: &Record, mode: u32) -> Result<(), String> {
    let name = file_name(&record.unique_id).ok_or(NO_NAME)?;
    DirBuilder::new()
        .mode(mode)
        .recursive(true)
        .create(dir)
        .map_err(|error| error.to_string())?;
    atomic::write_json(&dir.join(name), record, atomic::Durability::Rename)
        .map_err(|error| error.to_string())
}

/// Returns the name of a record's file; `None` for an id that leads elsewhere.
fn file_name(unique_id: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let is_id = (1..=128).contains(&unique_id.len()) && unique_id.chars().all(fits);
    is_id.then(|| format!("{unique_id}.json"))
}

fn read(path: &Path) -> Option<Record> {
    let bytes = match std::fs::metadata(path) {
        Ok(metadata) if metadata.len() <= MAX_BYTES => std::fs::read(path),
        Ok(_) => Err(std::io::Error::other("it is too large")),
        Err(error) => Err(error),
    };
    let read = bytes.and_then(|bytes| Ok(serde_json::from_slice(&bytes)?));
    match read {
        Ok(record) => Some(record),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a description cannot be read");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(description: Option<&str>, status: Status) -> Record {
        Record {
            unique_id: "AgAD".into(),
            kind: "sticker".into(),
            description: description.map(str::to_owned),
            status,
            ts: clock::rfc3339(0),
            failures: u32::from(status == Status::TemporaryFailure),
            ..Record::default()
        }
    }

    #[test]
    fn what_is_written_by_hand_wins_and_the_first_directory_does() {
        let dir = tempfile::tempdir().expect("dir");
        let (own, all) = (dir.path().join("own"), dir.path().join("all"));
        let known = Descriptions {
            curated: vec![own.clone(), all.clone()],
            cache: dir.path().join("cache"),
        };
        assert_eq!(known.known("AgAD"), None);
        known
            .keep(&record(Some("by a model"), Status::Generated))
            .expect("kept");
        let words = || known.known("AgAD").and_then(|record| record.words());
        assert_eq!(words().as_deref(), Some("by a model"));
        for (dir, text) in [(&all, "for all"), (&own, "for one")] {
            std::fs::create_dir_all(dir).expect("dir");
            let json = format!("{{\"description\": \"{text}\"}}");
            atomic::write(
                &dir.join("AgAD.json"),
                json.as_bytes(),
                atomic::Durability::Rename,
            )
            .expect("written");
            assert_eq!(words().as_deref(), Some(text));
        }
        assert_eq!(known.all().len(), 1, "of each file one");
        let corrected = record(Some("corrected"), Status::Generated);
        known.curate(&own, corrected).expect("written");
        assert_eq!(words().as_deref(), Some("corrected"));
        assert!(!known.cache.join("AgAD.json").exists());
        assert_eq!(known.known("../AgAD"), None);
        assert!(known.clear("../AgAD").is_err() && known.clear("gone").is_ok());
        assert!(known.keep(&Record::default()).is_err());
    }

    #[test]
    fn only_what_may_pass_is_tried_again_and_later_each_time() {
        let mut failed = record(None, Status::TemporaryFailure);
        assert!(!failed.may_be_tried(59_999) && failed.may_be_tried(60_000));
        failed.failures = 3;
        assert!(!failed.may_be_tried(239_999) && failed.may_be_tried(240_000));
        failed.failures = 99;
        assert!(failed.may_be_tried(24 * 3_600_000));
        for status in [
            Status::Generated,
            Status::Unsupported,
            Status::PermanentFailure,
        ] {
            assert!(!record(None, status).may_be_tried(i64::MAX));
        }
    }
}
