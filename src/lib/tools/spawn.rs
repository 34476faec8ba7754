//! `sessions_spawn`: send a sub-agent.

use serde_json::{Value, json};

use super::{number, text};
use crate::agent::{Context, Errand, Reach, Rights, Tool, ToolOutput};
use crate::provider::{BoxFuture, ToolSpec};

/// The longest task, bytes.
const MAX_TASK: usize = 50_000;
/// Seconds that a sub-agent may take when nothing is said of it, and at most: a run's own limit.
const TIME: (u64, u64) = (600, 1800);
/// Characters of a label.
const LABEL: usize = 60;

pub(super) struct Spawn;

impl Tool for Spawn {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "sessions_spawn".into(),
            description: "Send a sub-agent that works beside you on one task and knows nothing but the task: give it all it needs. \
                          Call it several times in one step for several at once. You are told when they have ended; with `wait` the \
                          answer is the result of the call."
                .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "task": {"type": "string"},
                    "label": {"type": "string", "description": "two or three words"},
                    "model": {"type": "string"},
                    "tools": {"type": "array", "items": {"type": "string"}, "description": "the only tools it may use"},
                    "max_turns": {"type": "integer"},
                    "timeout_secs": {"type": "integer"},
                    "budget_usd": {"type": "number"},
                    "wait": {"type": "boolean"}
                },
                "required": ["task"]
            }),
        }
    }

    fn read_only(&self) -> bool {
        false
    }

    fn is_rare(&self) -> bool {
        true
    }

    fn goes_beside_others(&self) -> bool {
        true
    }

    /// The sub-agent of a call is found again by it.
    fn is_resumable(&self) -> bool {
        true
    }

    fn rights(&self) -> Rights {
        Rights::Owner
    }

    /// What it does passes its own gate.
    fn reach(&self, _input: &Value, _context: &Context) -> Reach {
        Reach::Free
    }

    fn receipt(&self, input: &Value, _answer: &str) -> Option<String> {
        Some(format!("sent the sub-agent {:?}", label(input)))
    }

    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let Some(team) = &context.team else {
                return ToolOutput::error("no sub-agent can be sent here");
            };
            let task = text(input, "task").trim();
            if task.is_empty() || task.len() > MAX_TASK {
                return ToolOutput::error(format!(
                    "`task` must say something, in at most {MAX_TASK} bytes"
                ));
            }
            let budget_usd = input.get("budget_usd").and_then(Value::as_f64);
            if budget_usd.is_some_and(|usd| usd <= 0.0) {
                return ToolOutput::error("`budget_usd` must be more than 0");
            }
            let tools = input
                .get("tools")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            let errand = Errand {
                key: key(context, input),
                task: task.to_owned(),
                label: label(input),
                model: input
                    .get("model")
                    .and_then(Value::as_str)
                    .filter(|name| !name.is_empty())
                    .map(str::to_owned),
                tools: tools.filter_map(Value::as_str).map(str::to_owned).collect(),
                max_turns: number(input, "max_turns")
                    .map(|turns| u32::try_from(turns).unwrap_or(u32::MAX).max(1)),
                timeout_secs: number(input, "timeout_secs")
                    .unwrap_or(TIME.0)
                    .clamp(1, TIME.1),
                budget_usd,
                wait: input.get("wait").and_then(Value::as_bool).unwrap_or(false),
                tainted: context.tainted,
            };
            match team.send(errand).await {
                Ok(sent) => ToolOutput {
                    untrusted: sent.untrusted,
                    ..ToolOutput::ok(sent.text)
                },
                Err(why) => ToolOutput::error(why),
            }
        })
    }
}

fn label(input: &Value) -> String {
    let label = input
        .get("label")
        .and_then(Value::as_str)
        .filter(|label| !label.trim().is_empty());
    crate::text::shorten(
        &crate::text::visible(label.unwrap_or_else(|| text(input, "task")).trim()),
        LABEL,
    )
}

/// Returns what names the call: the same after a restart. Models number their calls anew in every answer.
fn key(context: &Context, input: &Value) -> String {
    let named = format!("{}\n{}\n{input}", context.run_id, context.call_id);
    let digest = ring::digest::digest(&ring::digest::SHA256, named.as_bytes());
    digest
        .as_ref()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
