//! What the owner said about skills: `state/skills.json`, written by `agent-send --skill` under its lock.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::sys;
use crate::sys::{atomic, lock};

/// The owner's word about skills, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trusted {
    v: u32,
    /// By name.
    pub skills: BTreeMap<String, Word>,
}

/// What was said about one skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word {
    /// The hash that is trusted; `None`: none is.
    pub sha256: Option<String>,
    /// When, milliseconds since 1970 UTC.
    pub at: i64,
}

/// What the owner says about a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Says {
    /// It is good while its hash is this one.
    Trust(String),
    /// It is not to be used.
    Distrust,
    /// Nothing: it is used when nobody else could have written it.
    Nothing,
}

/// The file.
#[derive(Debug, Clone)]
pub struct Trust {
    path: PathBuf,
}

impl Trust {
    /// Returns the file at `path`, which need not exist.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// Returns where it lies.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what was said. A file that cannot be read is left where it is: whoever was distrusted in it
    /// must not come back.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub(super) fn read(&self) -> Result<Trusted, String> {
        let bytes = atomic::read(&self.path).map_err(|error| error.to_string())?;
        let Some(bytes) = bytes else {
            return Ok(Trusted::default());
        };
        serde_json::from_slice(&bytes).map_err(|error| {
            format!(
                "state/skills.json cannot be read ({error}), so no skill of the workspace is used"
            )
        })
    }

    /// Writes a word about the skill `name` down. A damaged file is set aside first, and what it said is
    /// lost.
    ///
    /// # Errors
    /// When it cannot be locked, read or written.
    pub fn say(&self, name: &str, says: Says, now: i64) -> Result<(), sys::Error> {
        let _lock = lock::lock(&self.path.with_extension("lock"))?;
        let mut trusted: Trusted = atomic::read_json(&self.path)?.unwrap_or_default();
        trusted.v = 1;
        match says {
            Says::Trust(sha256) => trusted.skills.insert(
                name.to_owned(),
                Word {
                    sha256: Some(sha256),
                    at: now,
                },
            ),
            Says::Distrust => trusted.skills.insert(
                name.to_owned(),
                Word {
                    sha256: None,
                    at: now,
                },
            ),
            Says::Nothing => trusted.skills.remove(name),
        };
        let bytes = serde_json::to_vec_pretty(&trusted).expect("plain data with string keys");
        atomic::write(&self.path, &bytes, atomic::Durability::Full)
    }
}
