//! `monitor.json`: what the daemon is doing right now, for `watch agent-monitor`.
//!
//! A [`State`] is folded from [`AgentEvent`]s by the daemon, written whole with a rename, and
//! read by anybody. Whether the daemon lives is told by its lock, never by this file's age.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::message::{AgentEvent, Step};
use crate::sys::{self, atomic};

/// Model calls shown of a running turn.
const SHOWN_TURNS: usize = 20;

/// The whole document.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// `idle`, `thinking`, `tools` or `retry_wait`; of several lanes the busiest.
    pub state: String,
    /// The daemon's process id.
    pub pid: u32,
    /// This boot of the machine, so that an old file is known as such.
    pub boot_id: String,
    /// The daemon's version.
    pub version: String,
    /// When it started, RFC 3339 UTC.
    pub started_at: String,
    /// When this was written, RFC 3339 UTC.
    pub updated_at: String,
    /// Turns that run now.
    pub lanes: Vec<Lane>,
    /// Open and dead rows.
    pub queue: Queue,
    /// The channels.
    pub channels: Vec<ChannelState>,
    /// Configured models.
    pub models: Vec<String>,
    /// Sessions there are.
    pub active_sessions: usize,
    /// US dollars since the local midnight.
    pub today_cost_usd: f64,
    /// The wall around `exec`.
    pub sandbox: String,
    /// What a hostile command could still do behind it.
    pub sandbox_risk: String,
    /// The newest trouble, if any.
    pub last_error: Option<String>,
}

/// A turn that runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lane {
    /// The session's key.
    pub session: String,
    /// The run.
    pub run_id: String,
    /// Whom we talk to.
    pub contact: String,
    /// The configured model.
    pub model: String,
    /// `thinking`, `tools` or `retry_wait`.
    pub state: String,
    /// Model calls begun.
    pub turn: u32,
    /// When it began, RFC 3339 UTC.
    pub started_at: String,
    /// Tools that run now.
    pub tools_in_flight: Vec<String>,
    /// Model calls made, the newest last.
    pub turns: Vec<TurnLine>,
}

/// A model call that was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnLine {
    /// How long it took.
    pub duration_ms: u64,
    /// All its tokens.
    pub tokens: u64,
    /// Why it stopped.
    pub stop_reason: String,
    /// The tools it asked for.
    pub tools: Vec<String>,
}

/// Depths of the queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Queue {
    /// Inputs not yet answered.
    pub inbox: i64,
    /// Parts not yet sent.
    pub outbox: i64,
    /// Dead letters.
    pub dead: i64,
}

/// How a channel is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChannelState {
    /// Its name.
    pub name: String,
    /// `connecting`, `ok`, or what is wrong.
    pub state: String,
    /// Its last success, RFC 3339 UTC.
    pub last_ok_at: Option<String>,
}

impl State {
    /// Takes in what happened in a run.
    pub fn apply(&mut self, event: &AgentEvent) {
        let at = self.lanes.iter().position(|lane| lane.run_id == event.run_id);
        match (&event.step, at) {
            (Step::Started { contact, model }, _) => self.lanes.push(Lane {
                session: event.session.0.clone(),
                run_id: event.run_id.clone(),
                contact: contact.clone(),
                model: model.clone(),
                state: "thinking".to_owned(),
                started_at: clock::rfc3339(clock::now_ms()),
                ..Lane::default()
            }),
            (Step::Ended, Some(at)) => {
                self.lanes.remove(at);
            }
            (step, Some(at)) => {
                if let Some(lane) = self.lanes.get_mut(at) {
                    lane.apply(step);
                }
            }
            (_, None) => {}
        }
        self.settle();
    }

    /// Sets the daemon's state to that of its busiest lane.
    pub fn settle(&mut self) {
        self.state = ["tools", "thinking", "retry_wait"]
            .into_iter()
            .find(|state| self.lanes.iter().any(|lane| lane.state == *state))
            .unwrap_or("idle")
            .to_owned();
    }
}

impl Lane {
    fn apply(&mut self, step: &Step) {
        match step {
            Step::Thinking { turn } => {
                self.turn = *turn;
                self.state = "thinking".to_owned();
            }
            Step::RetryWait { .. } => self.state = "retry_wait".to_owned(),
            Step::Answered { duration_ms, usage, stop, tools } => {
                let stop_reason =
                    serde_json::to_value(stop).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
                self.turns.push(TurnLine { duration_ms: *duration_ms, tokens: usage.total(), stop_reason, tools: tools.clone() });
                let surplus = self.turns.len().saturating_sub(SHOWN_TURNS);
                self.turns.drain(..surplus);
            }
            Step::ToolStarted { name } => {
                self.tools_in_flight.push(name.clone());
                self.state = "tools".to_owned();
            }
            Step::ToolDone { name, .. } => {
                if let Some(at) = self.tools_in_flight.iter().position(|tool| tool == name) {
                    self.tools_in_flight.remove(at);
                }
                if self.tools_in_flight.is_empty() {
                    self.state = "thinking".to_owned();
                }
            }
            Step::Started { .. } | Step::Ended => {}
        }
    }
}

/// Returns the id of this boot of the machine, empty where the kernel has none.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// Writes the document; a reader sees the old or the new one.
///
/// # Errors
/// When the state directory is not writable or full.
pub fn write(path: &Path, state: &State) -> Result<(), sys::Error> {
    let text = serde_json::to_string(state).unwrap_or_default();
    atomic::write(path, crate::secret::redact(&text).as_bytes(), atomic::Durability::Rename)
}

/// Reads the document; `None` when there is none or it is unreadable.
///
/// # Errors
/// When it exists and may not be read.
pub fn read(path: &Path) -> Result<Option<State>, sys::Error> {
    Ok(atomic::read(path)?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{SessionKey, StopReason, Usage};

    #[test]
    fn a_turn_goes_from_thinking_to_tools_and_back_to_idle() {
        let mut state = State::default();
        let mut after = |step: Step| {
            state.apply(&AgentEvent { run_id: "r".into(), session: SessionKey("cli:ada".into()), step });
            state.state.clone()
        };
        let answered =
            Step::Answered { duration_ms: 5, usage: Usage::default(), stop: StopReason::ToolUse, tools: vec!["exec".into()] };
        assert_eq!(after(Step::Started { contact: "ada".into(), model: "primary".into() }), "thinking");
        assert_eq!(after(Step::Thinking { turn: 1 }), "thinking");
        assert_eq!(after(answered), "thinking");
        assert_eq!(after(Step::ToolStarted { name: "exec".into() }), "tools");
        assert_eq!(after(Step::ToolDone { name: "exec".into(), duration_ms: 1, is_error: false }), "thinking");
        assert_eq!(after(Step::RetryWait { reason: "busy".into() }), "retry_wait");
        assert_eq!(after(Step::Ended), "idle");
    }
}
