//! What the owner said about servers, and what the servers were when the daemon asked them last.
//!
//! ```text
//! state/mcp-trust.json  {"v":1,"servers":{NAME:{"sha256":"…"|null,"at":ms}}}   agent-send --mcp, under its lock
//! state/mcp.json        {"v":1,"servers":{NAME:{"identity":…,"offer":…,"broken":…}}}   the daemon, by rename
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Offer;
use crate::sys;
use crate::sys::{atomic, lock};

/// The owner's word about servers, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trusted {
    v: u32,
    servers: BTreeMap<String, Word>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Word {
    /// The hash that is trusted; `None`: none is, whatever agent.toml says.
    sha256: Option<String>,
    /// When, milliseconds since 1970 UTC.
    at: i64,
}

/// The file with the owner's word.
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

    /// Returns what was said. A file that cannot be read is left where it is: whoever was distrusted in it
    /// must not come back.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub fn read(&self) -> Result<Trusted, String> {
        let Some(bytes) = atomic::read(&self.path).map_err(|error| error.to_string())? else {
            return Ok(Trusted::default());
        };
        serde_json::from_slice(&bytes).map_err(|error| {
            format!("state/mcp-trust.json cannot be read ({error}), so no tool server is used")
        })
    }

    /// Writes a word about the server `name` down: the hash that is trusted, or that none is. A damaged file
    /// is set aside first, and what it said is lost.
    ///
    /// # Errors
    /// When it cannot be locked, read or written.
    pub fn say(&self, name: &str, sha256: Option<String>, now: i64) -> Result<(), sys::Error> {
        let _lock = lock::lock(&self.path.with_extension("lock"))?;
        let mut trusted: Trusted = atomic::read_json(&self.path)?.unwrap_or_default();
        trusted.v = 1;
        trusted
            .servers
            .insert(name.to_owned(), Word { sha256, at: now });
        let bytes = serde_json::to_vec_pretty(&trusted).expect("plain data with string keys");
        atomic::write(&self.path, &bytes, atomic::Durability::Full)
    }
}

impl Trusted {
    /// Returns whether the owner said that a server is not to be used, whatever it offers.
    pub fn distrusts(&self, name: &str) -> bool {
        self.servers
            .get(name)
            .is_some_and(|word| word.sha256.is_none())
    }

    /// Returns how what a server offers stands; `written` is its `trust` in agent.toml.
    pub fn verdict(&self, name: &str, written: &str, sha256: &str) -> Verdict {
        let word = self.servers.get(name);
        let hashes = || {
            word.and_then(|word| word.sha256.as_deref())
                .into_iter()
                .chain(written.strip_prefix("sha256:"))
        };
        if self.distrusts(name) {
            Verdict::Distrusted
        } else if hashes().any(|hash| hash.eq_ignore_ascii_case(sha256)) {
            Verdict::Trusted
        } else if hashes().next().is_some() {
            Verdict::Changed
        } else {
            Verdict::Unasked
        }
    }
}

/// What the owner's word means for what is offered now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is what they trusted.
    Trusted,
    /// They trusted something else.
    Changed,
    /// They do not trust it.
    Distrusted,
    /// They have said nothing.
    Unasked,
}

/// What all servers were when they were asked last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Seen {
    v: u32,
    /// By name.
    pub servers: BTreeMap<String, SeenServer>,
}

/// What one server was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SeenServer {
    /// Its command or address then.
    pub identity: String,
    /// What it offered, if it answered.
    pub offer: Option<Offer>,
    /// Why it does not work, if it does not.
    pub broken: Option<String>,
}

impl Seen {
    /// Reads the daemon's file; one that is missing or damaged says nothing, and the daemon writes it anew.
    pub fn read(path: &Path) -> Self {
        let bytes = atomic::read(path).ok().flatten();
        bytes
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    /// Writes it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn write(&self, path: &Path) -> Result<(), sys::Error> {
        let seen = Self {
            v: 1,
            servers: self.servers.clone(),
        };
        let bytes = serde_json::to_vec(&seen).expect("plain data with string keys");
        atomic::write(path, &bytes, atomic::Durability::Rename)
    }
}

/// How a server stands, for the owner.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// Its name.
    pub name: String,
    /// Why none of its tools is offered; `None` when they are.
    pub off: Option<Off>,
    /// Why it does not work now, trusted or not.
    pub broken: Option<String>,
    /// What it offers, as far as that is known.
    pub offer: Option<Offer>,
}

/// Why a server's tools are not offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Off {
    /// The owner has not said that they trust it.
    Unasked,
    /// It is not what the owner trusted.
    Changed,
    /// The owner does not trust it.
    Distrusted,
    /// No daemon has asked it since it was written into agent.toml.
    Unseen,
    /// Nobody knows what the owner said. Carries why.
    Unknown(String),
}

impl std::fmt::Display for Off {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Unasked => "off until you trust what it offers",
            Self::Changed => "it offers something else than you trusted",
            Self::Distrusted => "you do not trust it",
            Self::Unseen => "no daemon has asked it yet what it offers",
            Self::Unknown(why) => why,
        })
    }
}

/// Returns how a server stands; `identity` and `written` are its command or address and its `trust` in
/// agent.toml.
pub fn standing(
    (name, identity, written): (&str, &str, &str),
    seen: &Seen,
    trusted: &Result<Trusted, String>,
) -> Standing {
    let seen = seen
        .servers
        .get(name)
        .filter(|seen| seen.identity == identity);
    let broken = seen.and_then(|seen| seen.broken.clone());
    let offer = seen.and_then(|seen| seen.offer.clone());
    let off = match (&offer, trusted) {
        (_, Err(why)) => Some(Off::Unknown(why.clone())),
        (None, Ok(_)) => Some(Off::Unseen),
        (Some(offer), Ok(trusted)) => match trusted.verdict(name, written, &offer.sha256) {
            Verdict::Trusted => None,
            Verdict::Changed => Some(Off::Changed),
            Verdict::Distrusted => Some(Off::Distrusted),
            Verdict::Unasked => Some(Off::Unasked),
        },
    };
    Standing {
        name: name.to_owned(),
        off,
        broken,
        offer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_trusted_is_one_hash_and_distrust_is_stronger() {
        let dir = tempfile::tempdir().expect("dir");
        let trust = Trust::new(&dir.path().join("mcp-trust.json"));
        let verdict =
            |written: &str, hash: &str| trust.read().expect("readable").verdict("a", written, hash);
        assert_eq!(
            (
                verdict("", "11"),
                verdict("sha256:11", "11"),
                verdict("sha256:11", "22")
            ),
            (Verdict::Unasked, Verdict::Trusted, Verdict::Changed)
        );
        trust.say("a", Some("22".to_owned()), 1).expect("written");
        assert_eq!(
            (
                verdict("", "22"),
                verdict("", "33"),
                verdict("sha256:33", "33")
            ),
            (Verdict::Trusted, Verdict::Changed, Verdict::Trusted)
        );
        trust.say("a", None, 2).expect("written");
        assert_eq!(
            (verdict("", "22"), verdict("sha256:22", "22")),
            (Verdict::Distrusted, Verdict::Distrusted)
        );
    }

    #[test]
    fn a_damaged_file_trusts_nobody() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("mcp-trust.json");
        atomic::write(&path, b"{", atomic::Durability::Rename).expect("written");
        let trusted = Trust::new(&path).read();
        let offer = Offer {
            sha256: "11".to_owned(),
            tools: Vec::new(),
        };
        let seen = SeenServer {
            identity: "x".to_owned(),
            offer: Some(offer),
            broken: None,
        };
        let seen = Seen {
            v: 1,
            servers: [("a".to_owned(), seen)].into(),
        };
        let standing = standing(("a", "x", "sha256:11"), &seen, &trusted);
        assert!(
            matches!(standing.off, Some(Off::Unknown(_))),
            "{standing:?}"
        );
    }

    #[test]
    fn a_server_with_another_command_was_never_seen() {
        let seen = SeenServer {
            identity: "old".to_owned(),
            offer: Some(Offer::default()),
            broken: None,
        };
        let seen = Seen {
            v: 1,
            servers: [("a".to_owned(), seen)].into(),
        };
        assert_eq!(
            standing(("a", "new", ""), &seen, &Ok(Trusted::default())).off,
            Some(Off::Unseen)
        );
        assert_eq!(
            standing(("a", "old", ""), &seen, &Ok(Trusted::default())).off,
            Some(Off::Unasked)
        );
    }
}
