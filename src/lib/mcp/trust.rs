//! Which tool servers the owner trusts, and what the servers were when the daemon asked them last.
//!
//! ```text
//! state/mcp-trust.json  see `trust/approved_hashes.rs`                      agent-send --mcp, under its lock
//! state/mcp.json        {"v":1,"servers":{NAME:{"identity":…,"offer":…,"broken":…}}}   the daemon, by rename
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Offer;
use crate::sys;
use crate::sys::atomic;
use crate::trust::approved_hashes::{Approved, ApprovedHashes, Subject};

/// Returns the owner's file at `path`, which need not exist.
pub fn approved_hashes(path: &Path) -> ApprovedHashes {
    ApprovedHashes::new(path, Subject::Servers)
}

/// Returns whether the owner said that a server is not to be used, whatever it offers.
pub(super) fn is_distrusted(approved: &Approved, name: &str) -> bool {
    let approval = approved.get(name);
    approval.is_some_and(|approval| approval.sha256.is_none())
}

/// Returns why what a server offers is off, if it is; `written` is its `trust` in agent.toml.
pub(super) fn check(
    approved: &Approved,
    name: &str,
    written: &str,
    sha256: &str,
) -> Result<(), Off> {
    if is_distrusted(approved, name) {
        return Err(Off::Distrusted);
    }
    let approval = approved.get(name);
    let hashes = approval.and_then(|approval| approval.sha256.as_deref());
    let mut hashes = hashes.into_iter().chain(written.strip_prefix("sha256:"));
    if hashes.clone().any(|hash| hash.eq_ignore_ascii_case(sha256)) {
        Ok(())
    } else if hashes.next().is_some() {
        Err(Off::Changed)
    } else {
        Err(Off::Unasked)
    }
}

/// What all servers were when they were asked last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Seen {
    v: u32,
    /// By name.
    pub servers: BTreeMap<String, SeenServer>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SeenServer {
    /// Its command or address then.
    pub identity: String,
    /// What it offered, if it answered.
    pub offer: Option<Offer>,
    /// Why it does not work, if it does not.
    pub broken: Option<String>,
    /// Its last failure, whether it works again or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<Failure>,
}

/// A failure of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// When, milliseconds since 1970 UTC.
    pub at: i64,
    pub why: String,
}

impl Seen {
    /// Reads the daemon's file; one that is missing or damaged counts as empty, and the daemon writes it again.
    pub fn read(path: &Path) -> Self {
        let seen = atomic::read_valid_json(path).ok().flatten();
        seen.unwrap_or_default()
    }

    /// Writes the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn write(mut self, path: &Path) -> Result<(), sys::Error> {
        self.v = 1;
        let bytes = serde_json::to_vec(&self).expect("plain data with string keys");
        atomic::write(path, &bytes, atomic::Durability::Rename)
    }
}

/// What the owner sees of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerStatus {
    pub name: String,
    /// Why none of its tools is offered; `None` when they are.
    pub off: Option<Off>,
    /// Why it does not work now, trusted or not.
    pub broken: Option<String>,
    /// Its last failure, whether it works again or not.
    pub last_failure: Option<Failure>,
    /// What it offers, as far as that is known.
    pub offer: Option<Offer>,
}

/// Why a server's tools are not offered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Off {
    #[error("off until you trust what it offers")]
    Unasked,
    #[error("its tools have changed since you trusted it")]
    Changed,
    #[error("you do not trust it")]
    Distrusted,
    /// No daemon has asked it since it was written into agent.toml.
    #[error("no daemon has fetched its tool list yet")]
    Unseen,
    /// The owner's file cannot be read. Carries why.
    #[error("{0}")]
    Unknown(String),
}

/// Returns the status of a server; `identity` and `written` are its command or address and its `trust` in
/// agent.toml.
pub fn status(
    (name, identity, written): (&str, &str, &str),
    seen: &Seen,
    approved: &Result<Approved, String>,
) -> ServerStatus {
    let seen = seen.servers.get(name);
    let SeenServer {
        offer,
        broken,
        last_failure,
        ..
    } = seen
        .filter(|seen| seen.identity == identity)
        .cloned()
        .unwrap_or_default();
    let on = match (&offer, approved) {
        (_, Err(why)) => Err(Off::Unknown(why.clone())),
        (None, Ok(_)) => Err(Off::Unseen),
        (Some(offer), Ok(approved)) => check(approved, name, written, &offer.sha256),
    };
    ServerStatus {
        name: name.to_owned(),
        off: on.err(),
        broken,
        last_failure,
        offer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::approved_hashes::Decision;

    #[test]
    fn what_is_trusted_is_one_hash_and_distrust_is_stronger() {
        let dir = tempfile::tempdir().expect("dir");
        let file = approved_hashes(&dir.path().join("mcp-trust.json"));
        let decide = |decision| file.decide("a", decision, 1).expect("written");
        let checked =
            |written: &str, hash: &str| check(&file.read().expect("readable"), "a", written, hash);
        assert_eq!(checked("", "11"), Err(Off::Unasked));
        assert_eq!(checked("sha256:11", "11"), Ok(()));
        assert_eq!(checked("sha256:11", "22"), Err(Off::Changed));
        decide(Decision::Trust("22".to_owned()));
        assert_eq!(checked("", "22"), Ok(()));
        assert_eq!(checked("", "33"), Err(Off::Changed));
        assert_eq!(checked("sha256:33", "33"), Ok(()));
        decide(Decision::Distrust);
        assert_eq!(checked("", "22"), Err(Off::Distrusted));
        assert_eq!(checked("sha256:22", "22"), Err(Off::Distrusted));
    }

    #[test]
    fn a_damaged_file_trusts_nobody_and_a_server_with_another_command_was_never_seen() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("mcp-trust.json");
        atomic::write(&path, b"{", atomic::Durability::Rename).expect("written");
        let seen = SeenServer {
            identity: "x".to_owned(),
            offer: Some(Offer::default()),
            broken: None,
            last_failure: None,
        };
        let seen = Seen {
            v: 1,
            servers: [("a".to_owned(), seen)].into(),
        };
        let off = |identity, approved| status(("a", identity, ""), &seen, &approved).off;
        assert!(matches!(
            off("x", approved_hashes(&path).read()),
            Some(Off::Unknown(_))
        ));
        assert_eq!(off("x", Ok(Approved::default())), Some(Off::Unasked));
        assert_eq!(off("new", Ok(Approved::default())), Some(Off::Unseen));
    }
}
