//! `sessions_spawn`: starts a sub-agent.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Needs;
use super::typed::{About, Property, TypedTool};
use crate::agent::{Context, Reach, SubagentRequest, ToolOutput};
use crate::text::{sha256_hex, shorten, visible};
use crate::trust::Provenance;

/// The longest task, bytes.
const MAX_TASK: usize = 50_000;
/// Characters of a label.
const LABEL: usize = 60;

pub(super) struct Spawn(pub(super) Arc<Needs>);

#[derive(Serialize, Deserialize, JsonSchema)]
pub(super) struct Args {
    task: String,
    label: Option<String>,
    model: Option<String>,
    #[serde(default)]
    tools: Vec<String>,
    max_turns: Option<u64>,
    timeout_secs: Option<u64>,
    budget_usd: Option<f64>,
    #[serde(default)]
    wait: bool,
}

impl Args {
    fn label(&self) -> String {
        let label = self.label.as_ref().filter(|label| !label.trim().is_empty());
        shorten(&visible(label.unwrap_or(&self.task).trim()), LABEL)
    }

    /// Returns what identifies the call, the same after a restart. Models use the same call ids in every answer.
    fn key(&self, context: &Context) -> String {
        let args = serde_json::to_string(self).expect("plain data with string keys");
        let call = format!("{}\n{}\n{args}", context.run_id, context.call_id);
        sha256_hex(call.as_bytes()).chars().take(16).collect()
    }
}

impl TypedTool for Spawn {
    type Args = Args;

    const ABOUT: About = About {
        name: "sessions_spawn",
        description: "Send a sub-agent that knows only its task; several in one step run at once. \
                      You are told when it has ended; with wait the result is its answer.",
        properties: &[
            Property::RareWhereDear,
            Property::Parallel,
            Property::Resumable,
        ],
    };

    /// The calls of the sub-agent pass the tool policy themselves; what is the owner's in its task stays that there.
    fn reach(&self, args: &Args, _context: &Context) -> Reach {
        Reach::Tells(args.task.clone())
    }

    fn receipt(&self, args: &Args, _result: &str) -> Option<String> {
        Some(format!("sent the sub-agent {:?}", args.label()))
    }

    async fn run(&self, args: Args, context: &Context) -> ToolOutput {
        let Some(spawner) = &context.spawner else {
            return ToolOutput::error("no sub-agent can be sent here");
        };
        let limits = &self.0.subagents;
        let task = args.task.trim();
        if task.is_empty() || task.len() > MAX_TASK {
            return ToolOutput::error(format!(
                "`task` must say something, in at most {MAX_TASK} bytes"
            ));
        }
        if args.budget_usd.is_some_and(|usd| usd <= 0.0) {
            return ToolOutput::error("`budget_usd` must be more than 0");
        }
        // It has bounds of its own.
        let _lasting = context.others_time.begin();
        let sent = spawner.send(SubagentRequest {
            key: args.key(context),
            task: task.to_owned(),
            label: args.label(),
            model: args.model.filter(|name| !name.is_empty()),
            tools: args.tools,
            max_turns: args
                .max_turns
                .map(|turns| u32::try_from(turns).unwrap_or(u32::MAX).max(1))
                .map_or(limits.max_turns, |turns| turns.min(limits.max_turns))
                .into(),
            timeout_secs: args
                .timeout_secs
                .unwrap_or(limits.timeout_secs)
                .clamp(1, limits.max_timeout_secs.max(1)),
            budget_usd: args.budget_usd,
            wait: args.wait,
            untrusted: context.untrusted,
            private_words: context.private_words.clone(),
        });
        match sent.await {
            Ok(sent) => {
                ToolOutput::ok(sent.text).marked(sent.untrusted.then_some(Provenance::Model))
            }
            Err(why) => ToolOutput::error(why),
        }
    }
}
