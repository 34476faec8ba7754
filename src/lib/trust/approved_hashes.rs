//! What the owner trusts, by hash: one file for skills (`state/skills.json`), one for tool servers
//! (`state/mcp-trust.json`), each written by `agent-send` under its lock.
//!
//! ```text
//! {"v":1,"skills":{NAME:{"sha256":"…"|null,"at":MS}}}      "servers" in the other file
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::sys;
use crate::sys::{atomic, lock};

/// By name what the owner trusts.
pub(crate) type Approved = BTreeMap<String, Approval>;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Approval {
    /// The hash that is trusted; `None`: the owner distrusts it, whatever its hash.
    pub(crate) sha256: Option<String>,
    /// When, milliseconds since 1970 UTC.
    at: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Trust it while its hash is this one.
    Trust(String),
    Distrust,
    /// Forget what was decided.
    Forget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    Skills,
    Servers,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Contents {
    #[serde(alias = "skills", alias = "servers")]
    approved: Approved,
}

/// A file of decisions.
#[derive(Debug, Clone)]
pub(crate) struct ApprovedHashes {
    path: PathBuf,
    subject: Subject,
}

impl ApprovedHashes {
    /// Returns the file at `path`, which need not exist.
    pub(crate) fn new(path: &Path, subject: Subject) -> Self {
        Self {
            path: path.to_owned(),
            subject,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what was decided. A file that cannot be read is left where it is: what was distrusted in it
    /// must not come back.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub(crate) fn read(&self) -> Result<Approved, String> {
        let bytes = atomic::read(&self.path).map_err(|error| error.to_string())?;
        let Some(bytes) = bytes else {
            return Ok(Approved::default());
        };
        let contents: Contents = serde_json::from_slice(&bytes).map_err(|error| {
            let (file, so) = match self.subject {
                Subject::Skills => ("skills.json", "no skill is used"),
                Subject::Servers => ("mcp-trust.json", "no tool server is used"),
            };
            format!("state/{file} cannot be read ({error}), so {so}")
        })?;
        Ok(contents.approved)
    }

    /// Writes a decision about `name`. In a damaged file nothing is decided: the decisions in it would be lost unseen.
    ///
    /// # Errors
    /// When it cannot be locked, read or written.
    pub(crate) fn decide(
        &self,
        name: &str,
        decision: Decision,
        now: i64,
    ) -> Result<(), sys::Error> {
        let _lock = lock::lock_beside(&self.path)?;
        let damaged = |why: String| {
            let why = format!("{why}; mend it, or move it away and decide again");
            sys::Error::at("read", &self.path)(std::io::Error::other(why))
        };
        let mut approved = self.read().map_err(damaged)?;
        let approval = |sha256| Approval { sha256, at: now };
        match decision {
            Decision::Trust(sha256) => approved.insert(name.to_owned(), approval(Some(sha256))),
            Decision::Distrust => approved.insert(name.to_owned(), approval(None)),
            Decision::Forget => approved.remove(name),
        };
        let file = match self.subject {
            Subject::Skills => json!({"v": 1, "skills": approved}),
            Subject::Servers => json!({"v": 1, "servers": approved}),
        };
        atomic::write_json(&self.path, &file, atomic::Durability::Full)
    }
}
