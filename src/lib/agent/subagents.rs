//! Sub-agents: the task of one, and the interface that starts it.

use std::fmt;

use crate::provider::BoxFuture;

/// What a sub-agent is sent for.
#[derive(Debug, Clone, PartialEq)]
pub struct SubagentRequest {
    /// The same for the same call, also after a restart: one call sends one sub-agent.
    pub key: String,
    /// What it is to do, in full: it knows nothing else.
    pub task: String,
    /// What it is called.
    pub label: String,
    /// The configured model; that of the role `subagent` when absent.
    pub model: Option<String>,
    /// The tools it may use; empty: all that a sub-agent may.
    pub tools: Vec<String>,
    /// Model calls it may make.
    pub max_turns: Option<u32>,
    /// Seconds it may take.
    pub timeout_secs: u64,
    /// The most it may cost, US dollars.
    pub budget_usd: Option<f64>,
    /// Whether its answer is waited for.
    pub wait: bool,
    /// Whether untrusted text may be in `task`.
    pub untrusted: bool,
    /// Words of `task` that a search may not say unasked.
    pub private_words: Vec<String>,
}

/// What is known of a sub-agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// For the model: that it is working, or its result.
    pub text: String,
    /// Whether that may hold untrusted text.
    pub untrusted: bool,
}

/// Sends sub-agents for one turn.
pub trait SubagentSpawner: Send + Sync {
    /// Sends one, or finds the one that was sent for this request before; with `wait` its end is waited for.
    /// The error says why none was sent.
    fn send<'a>(&'a self, request: SubagentRequest) -> BoxFuture<'a, Result<Sent, String>>;
}

impl fmt::Debug for dyn SubagentSpawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SubagentSpawner")
    }
}
