//! An entry of the chain: its content, its form as a line, and the check of a line.

use std::collections::BTreeMap;

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use crate::{clock, text::hex};

/// The hash before the first entry.
pub(super) const NOTHING: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// `,"hash":"` + 64 digits + `"}`.
const SEAL: usize = 9 + 64 + 2;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Event {
    /// The daemon began.
    Start { version: String, pid: u32 },
    /// It ended by itself.
    Stop { exit: u8 },
    /// Settings were activated, or refused.
    Config {
        at: &'static str,
        outcome: &'static str,
        sandbox: String,
        files: BTreeMap<String, String>,
    },
    /// A call is about to run, or is refused.
    ToolCall {
        session: String,
        run: String,
        call: String,
        tool: String,
        args: String,
        verdict: &'static str,
    },
    /// What became of a call that ran.
    ToolResult {
        session: String,
        run: String,
        call: String,
        tool: String,
        outcome: &'static str,
        ms: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<String>,
    },
    /// What a call connected to, or was refused.
    Connection {
        session: String,
        run: String,
        call: String,
        tool: String,
        host: String,
        port: u16,
        verdict: &'static str,
        sent: u64,
        received: u64,
    },
    /// A request for the owner's word, or what became of one.
    Approval {
        id: String,
        verdict: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        who: Option<String>,
        #[serde(flatten)]
        of: Option<Asked>,
    },
    /// A part of an answer left for a chat, or was given up.
    Send {
        channel: String,
        chat: String,
        outbox: i64,
        outcome: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// A crash left these bytes, no whole entry, in front of this one.
    Torn { bytes: u64, sha256: String },
    /// At a start the log did not go as far as its head says, or not the same way.
    Damage {
        why: &'static str,
        head: Option<Head>,
        bytes: u64,
        sha256: String,
    },
    /// So many entries before this one could not be written.
    Gap { missing: u64 },
}

/// What an approval is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Asked {
    pub(super) session: String,
    pub(super) run: String,
    pub(super) call: String,
    pub(super) tool: String,
    pub(super) bound: String,
}

/// An entry that is surely on disk: `audit.head`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) seq: u64,
    pub(super) hash: String,
}

impl Head {
    /// Returns the head of a chain without entries.
    pub(super) fn none() -> Self {
        Self {
            seq: 0,
            hash: NOTHING.to_owned(),
        }
    }

    /// Makes this the entry that the next line follows, and returns that line.
    pub(super) fn next(&mut self, at_ms: i64, event: &Event) -> String {
        #[derive(Serialize)]
        struct Line<'a> {
            v: u8,
            seq: u64,
            ts: String,
            #[serde(flatten)]
            event: &'a Event,
            prev: &'a str,
        }
        let line = Line {
            v: 1,
            seq: self.seq + 1,
            ts: clock::rfc3339(at_ms),
            event,
            prev: &self.hash,
        };
        let mut line = serde_json::to_string(&line).expect("strings and numbers");
        let hash = hash(&self.hash, line.as_bytes());
        line.truncate(line.len() - 1);
        line.push_str(&format!(",\"hash\":\"{hash}\"}}\n"));
        *self = Self {
            seq: self.seq + 1,
            hash,
        };
        line
    }
}

/// A line that is an entry, and whose content has the hash it names.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Entry {
    pub(super) seq: u64,
    pub(super) ts: String,
    pub(super) kind: String,
    pub(super) prev: String,
    #[serde(default)]
    pub(super) hash: String,
    #[serde(default)]
    pub(super) bytes: u64,
    #[serde(default)]
    pub(super) sha256: String,
    #[serde(default)]
    pub(super) missing: u64,
    #[serde(default)]
    pub(super) why: String,
    #[serde(default)]
    pub(super) head: Option<Head>,
}

/// Why a line is not an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfit {
    /// It has not the form of one.
    Alien,
    /// Its content has another hash than it says.
    Changed,
}

impl Entry {
    /// Reads a line, without its newline.
    pub(super) fn parse(line: &[u8]) -> Result<Self, Unfit> {
        let (body, seal) = line
            .split_at_checked(line.len().wrapping_sub(SEAL))
            .ok_or(Unfit::Alien)?;
        let seal = std::str::from_utf8(seal).map_err(|_| Unfit::Alien)?;
        let hash = seal
            .strip_prefix(",\"hash\":\"")
            .and_then(|seal| seal.strip_suffix("\"}"))
            .ok_or(Unfit::Alien)?;
        let mut body = body.to_vec();
        body.push(b'}');
        let entry: Self = serde_json::from_slice(&body).map_err(|_| Unfit::Alien)?;
        if super::entry::hash(&entry.prev, &body) != hash {
            return Err(Unfit::Changed);
        }
        Ok(Self {
            hash: hash.to_owned(),
            ..entry
        })
    }

    /// Returns the entry as the one that others follow.
    pub(super) fn as_head(&self) -> Head {
        Head {
            seq: self.seq,
            hash: self.hash.clone(),
        }
    }

    /// Returns whether it is the one after `head`.
    pub(super) fn follows(&self, head: &Head) -> bool {
        self.seq == head.seq + 1 && self.prev == head.hash
    }
}

fn hash(prev: &str, body: &[u8]) -> String {
    let mut context = Context::new(&SHA256);
    context.update(prev.as_bytes());
    context.update(body);
    hex(context.finish().as_ref())
}
