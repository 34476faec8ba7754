//! The audit log: what the agent did and who allowed it, in `state/audit.jsonl`, a chain of entries.
//!
//! | file | holds |
//! |---|---|
//! | `audit.jsonl` | an entry a line, about 300 bytes each; nothing takes lines out, so it grows |
//! | `audit.head` | number and hash of an entry that is on disk: the log has at least these |
//! | `audit.key` | 32 random bytes, for the digests of arguments and results |
//!
//! ```text
//! {"v":1,"seq":7,"ts":"…","kind":"tool_call","session":"…","run":"…","call":"…","tool":"exec",
//!  "args":"<digest>","verdict":"run","prev":"<hash of the line before>","hash":"<hash>"}
//! ```
//! `hash` is the SHA-256 of `prev` and the line without `,"hash":"…"`. No entry contains text of people, models or pages.
//! The digests of such text are keyed, so that a short command cannot be found by guessing; the chain is not keyed, so
//! that it can be verified without the key.
//!
//! The chain reveals changes made by hand or by mistake. Anyone who can write the file and knows the format can rewrite it
//! from any entry on; a copy of the last hash in another place reveals that (at the level `debug` the daemon logs it at each
//! start).

mod chain;
mod digest_key;
mod entry;
mod log;
mod recent;
mod verify;
mod writer;

pub use log::{Call, Connected, Log};
pub use recent::newest;
pub use verify::{Report, verify};

use std::path::PathBuf;

use crate::config::Home;

/// The paths of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The chain.
    pub log: PathBuf,
    /// How far it surely goes.
    pub head: PathBuf,
    /// The key of the digests.
    pub key: PathBuf,
}

impl Place {
    /// Returns the place in a home.
    pub fn of(home: &Home) -> Self {
        Self {
            log: home.audit_log(),
            head: home.audit_head(),
            key: home.audit_key(),
        }
    }
}

#[cfg(test)]
mod tests;
