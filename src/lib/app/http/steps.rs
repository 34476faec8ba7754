//! The steps of a run while its answer is written: thinking, a tool, a retry.

use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;

use super::Api;
use crate::message::{AgentEvent, Step};

/// Steps that are kept until it is known which run answers.
const KEPT: usize = 256;

/// The steps of one run.
pub(super) struct Steps {
    events: Receiver<AgentEvent>,
    /// Those that came before the run was known.
    early: Vec<AgentEvent>,
}

impl Steps {
    /// Looks from now on.
    pub(super) fn of(api: &Api) -> Self {
        Self {
            events: api.pipeline.live().agent.events(),
            early: Vec::new(),
        }
    }

    /// Returns the new steps of `run`; none until it is known.
    pub(super) fn new_of(&mut self, run: Option<&str>) -> Vec<Value> {
        loop {
            match self.events.try_recv() {
                Ok(event) if run.is_none_or(|run| run == event.run_id) => self.early.push(event),
                // What was missed is in the transcript.
                Ok(_) | Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        let Some(run) = run else {
            let surplus = self.early.len().saturating_sub(KEPT);
            self.early.drain(..surplus);
            return Vec::new();
        };
        let new = self.early.drain(..).filter(|event| event.run_id == run);
        new.filter_map(|event| shown(&event.step)).collect()
    }
}

fn shown(step: &Step) -> Option<Value> {
    Some(match step {
        Step::Thinking { turn } => json!({"state": "thinking", "turn": turn}),
        Step::RetryWait { reason } => json!({"state": "retry_wait", "why": reason}),
        Step::Asking => json!({"state": "asking"}),
        Step::Compacting => json!({"state": "compacting"}),
        Step::ToolStarted { name } => json!({"state": "tool_started", "tool": name}),
        Step::ToolOutput { name, tail } => {
            json!({"state": "tool_output", "tool": name, "tail": tail})
        }
        Step::ToolDone {
            name,
            duration_ms,
            is_error,
        } => {
            json!({"state": "tool_ended", "tool": name, "duration_ms": duration_ms, "is_error": is_error})
        }
        Step::Started { .. } | Step::Answered { .. } | Step::Decided | Step::Ended => return None,
    })
}
