//! Warm standby and its failover: a second machine keeps a checked copy of this home and takes over when it is told to.
//!
//! The primary pushes with rsync; the replica is a directory on the standby:
//!
//! ```text
//! state/ workspace/   files, as they are
//! push/               config/, spools/ (messages that wait), one consistent copy of each database, and whole.json, which seals
//!                     a push
//! places/             how far each channel has read
//! standby.json        written by the standby: its last proof, and the generation it took over with
//! ```
//! In the state of both homes `standby.json` is the [`Record`]; `standby/` has what is about to be pushed, and on a standby the
//! last copy that was proved.
//!
//! A push copies the databases aside first and sends them last: the transcripts in a replica are as new as its queue or newer,
//! as after a crash. How far channels have read is copied before them, then what waits in spools, and sent behind them: no
//! message falls between the two. A copy of a replica is made in the same order. Not by Litestream 0.5: next to SQLite's automatic checkpoints it loses rows of its replica permanently
//! (docs/howto/backup.md has figures).
//!
//! A promotion writes its generation into the replica before it changes anything: a primary that reads a newer one than its own
//! has been replaced and does not run.

mod copy;
mod needed;
mod primary;
mod record;
mod rsync;
mod waiting;

pub use primary::{Primary, check_successor};
pub use record::{Record, Role, TakeOver, may_run, read};
pub use waiting::{Promotion, Standby};

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::Home;
use crate::sys::atomic;
use crate::{backup, config, db, sys};

/// Those that are not made again from the rest.
const DATABASES: [&str; 3] = ["queue.db", "cost.db", "memory.db"];
const PUSH: &str = "push";
const PLACES: &str = "places";
const SPOOLS: &str = "spools";
const WHOLE: &str = "whole.json";
const BEACON: &str = "standby.json";
/// The longest time between two pushes, milliseconds.
const EVERY_MS: i64 = 60_000;

/// What seals a push.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Whole {
    /// The id of the agent, the same on all its machines.
    agent: String,
    generation: u64,
    /// When the push began, by the primary's clock, milliseconds since 1970 UTC: what was on its disk then is in the replica.
    pushed_at: i64,
    /// Whether it is the last one: the primary has handed over.
    handed_over: bool,
    /// The names of the secrets that the primary has for its settings; a program of before said none.
    #[serde(default)]
    secrets: Vec<String>,
    /// In a copy on the standby: when the push had come in, by its clock, milliseconds since 1970 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    arrived_at: Option<i64>,
}

/// What the standby says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beacon {
    /// The id of the agent; empty before the first push.
    pub agent: String,
    /// Its machine.
    pub host: String,
    /// The generation with which it took over.
    pub promoted: Option<u64>,
    /// When a copy was last proved, by its clock, milliseconds since 1970 UTC.
    pub proven_at: Option<i64>,
    /// What is wrong.
    pub trouble: Option<String>,
}

/// A copy cannot be made, or this home may not do what it is asked to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    File(#[from] sys::Error),
    #[error(transparent)]
    Home(#[from] config::Error),
    #[error(transparent)]
    Database(#[from] db::Error),
    #[error(transparent)]
    Backup(#[from] backup::Error),
    #[error("rsync is not installed")]
    NoRsync,
    #[error("rsync: {0}")]
    Rsync(String),
    #[error("`{0}` is not a valid place for a replica")]
    NoPlace(String),
    /// The home has a standby already: two could both take over.
    #[error("the standby of this home is {0}")]
    Elsewhere(String),
    #[error("{0} runs in this home")]
    Busy(&'static str),
    /// Another machine took over.
    #[error(
        "{host} has taken over this agent (generation {generation}): a second one would answer everything twice"
    )]
    Replaced { host: String, generation: u64 },
    /// The home has another role.
    #[error("this home is {}", role.words())]
    Role { role: Role },
    #[error("the replica {0} belongs to another agent")]
    Foreign(String),
    /// The home of the standby holds an agent.
    #[error("there is an agent already: {}", .0.display())]
    Occupied(PathBuf),
    /// No push into the replica was complete.
    #[error("{}: no complete push yet", .0.display())]
    Nothing(PathBuf),
    #[error("{}: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
}

/// Returns where this room keeps its own files in the state.
fn own_dir(home: &Home) -> PathBuf {
    home.state().join("standby")
}

fn make_dir(dir: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = std::fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(dir);
    Ok(made.map_err(sys::Error::at("make", dir))?)
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let bytes = atomic::read(path)?;
    let parsed = bytes.map(|bytes| serde_json::from_slice(&bytes));
    parsed.transpose().map_err(|error| Error::Damaged {
        path: path.to_owned(),
        why: error.to_string(),
    })
}
