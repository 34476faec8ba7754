//! The agent's workspace: the files of a new home ([`init`]), what tools may use of it and in addition to it
//! ([`PathPolicy`]), and the protected files.
//!
//! ```text
//! SOUL.md IDENTITY.md AGENTS.md USER.md TOOLS.md    stable: in every request, in this order
//! MEMORY.md                                         semi-stable: changes now and then
//! prompts/NAME.md                                   for a model, a role or an agent
//! HEARTBEAT.md                                      read when the agent wakes by itself
//! skills/                                           see the room of that name
//! ```

mod path_policy;
mod protected_files;
mod templates;

pub use crate::trust::untrusted_files::{Changed, ContentId, Marking, Marks};
pub use crate::trust::untrusted_periods::{Period, Periods, SERVER, changed_at};
pub use path_policy::{Error as PathError, PathPolicy, ReadTarget, WriteTarget};
pub use protected_files::{
    create_protected, is_memory, is_protected, memory_paths, protected_paths,
};
pub use templates::{Created, Fate, add_provider, init, template, without_template};

use std::path::PathBuf;

/// The home could not be filled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A directory of the home cannot be used.
    #[error(transparent)]
    Home(#[from] crate::config::Error),
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
}

impl Error {
    /// Returns the next step, one line.
    pub fn hint(&self) -> String {
        match self {
            Self::Home(error) => error.hint(),
            Self::Write { path, .. } => {
                // Only what is not there is written.
                let dir = path.parent().unwrap_or(path);
                format!(
                    "look at it: `ls -ld {0}` and `df {0}`, then `agent-daemon init` again",
                    dir.display()
                )
            }
        }
    }
}
