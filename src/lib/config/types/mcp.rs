//! `[mcp]`: tool servers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Network;

/// `[mcp]`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Mcp {
    /// Tool servers by name: a letter, then letters, digits or `_`, at most 24; default none.
    pub servers: BTreeMap<String, McpServer>,
}

/// `[mcp.servers.NAME]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct McpServer {
    /// The program that is started, and its arguments; default none. A server has this or `url`.
    pub command: Vec<String>,
    /// The address of a server that runs elsewhere; default none.
    pub url: String,
    /// Names of variables, or of secrets in `.env`, that the program is given in addition to
    /// `PATH LANG LC_ALL TZ TERM USER LOGNAME`; default none.
    pub env: Vec<String>,
    /// The variable, or the secret in `.env`, with the token for `url`; default none.
    pub token_env: String,
    /// Who we are where one signs in for `url` (`agent-send --mcp login NAME`); default none, so that we register there.
    pub client_id: String,
    /// The variable, or the secret in `.env`, with the secret of `client_id`, where it has one; default none.
    pub client_secret_env: String,
    /// The port of 127.0.0.1 that the browser comes back to, when `client_id` was made with one; default any.
    pub redirect_port: u16,
    /// The authorization server for `url`, if the server does not announce it or its address is not public; default none.
    pub issuer: String,
    /// The hosts to which the program may connect, as in `tools.exec.network`; default none.
    pub network: Network,
    /// Files and directories in addition to the system's that the program may read, absolute paths; default none.
    pub reads: Vec<PathBuf>,
    /// Files and directories in addition to its own that the program may change, absolute paths; default none.
    pub writes: Vec<PathBuf>,
    /// What is trusted: the hash of what it offers; default none, so that it is off until `agent-send --mcp trust`.
    pub trust: String,
    /// Seconds a call may take, 1 to 3600; default 120.
    pub timeout_secs: u64,
    /// Whether the server may have a model say something while a call of it runs; default off.
    pub sampling: Sampling,
    /// The most tokens of such an answer, 1 to 100000; default 1000.
    pub sampling_tokens: u32,
    /// The most that such answers may cost in one message, US dollars; default 0.05.
    pub sampling_usd: f64,
}

/// Whether a tool server may use a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// Never.
    #[default]
    Off,
    /// When the owner says yes.
    Ask,
    /// Without a question.
    Allow,
}

impl Default for McpServer {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            url: String::new(),
            env: Vec::new(),
            token_env: String::new(),
            client_id: String::new(),
            client_secret_env: String::new(),
            redirect_port: 0,
            issuer: String::new(),
            network: Network::Closed,
            reads: Vec::new(),
            writes: Vec::new(),
            trust: String::new(),
            timeout_secs: 120,
            sampling: Sampling::Off,
            sampling_tokens: 1000,
            sampling_usd: 0.05,
        }
    }
}
