//! `[tools]`: what the agent may do. `[media]`: the programs that listen for it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[tools]`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Tools {
    /// The tools on offer, by name; default: all that work here.
    pub enabled: Option<Vec<String>>,
    /// Directories beside the workspace that file tools may use, absolute paths; default none.
    pub allowed_paths: Vec<PathBuf>,
    /// Commands.
    pub exec: Exec,
}

/// `[tools.exec]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Exec {
    /// Whether commands run; default `sandboxed`.
    pub policy: ExecPolicy,
    /// The wall around a command; default `auto`.
    pub sandbox: Sandbox,
    /// Whether a command may use the network; default false.
    pub network: bool,
    /// Seconds a command may take when the model names no limit, at least 1; default 120.
    pub timeout_secs: u64,
    /// The longest limit the model may name, seconds; default 600.
    pub max_timeout_secs: u64,
    /// The variables of our environment that a command sees; secrets are never among them;
    /// default `PATH LANG LC_ALL TZ TERM USER LOGNAME`.
    pub env: Vec<String>,
}

impl Default for Exec {
    fn default() -> Self {
        Self {
            policy: ExecPolicy::Sandboxed,
            sandbox: Sandbox::Auto,
            network: false,
            timeout_secs: 120,
            max_timeout_secs: 600,
            env: ["PATH", "LANG", "LC_ALL", "TZ", "TERM", "USER", "LOGNAME"].map(str::to_owned).to_vec(),
        }
    }
}

/// Whether commands run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecPolicy {
    /// Yes, behind the wall.
    #[default]
    Sandboxed,
    /// Each after the owner's yes.
    Ask,
    /// Yes.
    Allow,
    /// No.
    Off,
}

/// The wall around a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sandbox {
    /// The strongest this machine has; none at all means that commands are refused.
    #[default]
    Auto,
    /// bubblewrap.
    Bubblewrap,
    /// None: a command may do what you may do.
    Off,
}

/// `[media]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Media {
    /// The program that puts a recording into words, and its arguments: `{file}` in them is the
    /// recording, standard output is the words. It goes before the model of
    /// `routing.speech_to_text`; default none.
    pub transcribe: Vec<String>,
    /// Files and directories beside the system's that this program may read, absolute paths; default
    /// none.
    pub transcribe_reads: Vec<PathBuf>,
}
