//! The memory flush: before the older part of a conversation is summarized, the model may save important points
//! of it, in a side conversation of at most eight steps on a copy of the history. Nothing of it is sent to anyone.

use crate::agent::followed::Before;
use crate::agent::more_tools;
use crate::agent::permission::Decision;
use crate::agent::tool::ToolOutput;
use crate::agent::turn_loop::{Break, Running};
use crate::config::Thresholds;
use crate::llm::Prompt;
use crate::message::{Block, Message, Role, StopReason, ToolCall, ToolResult};
use crate::provider::repair;
use crate::session::{Kind, cut_blocks};

/// Model calls of a flush (specification §11).
const STEPS: usize = 8;
/// Tools that keep something, or show what is kept already.
const KEEPING: [&str; 8] = [
    "memory_write",
    "remember",
    "memory_search",
    "memory_get",
    "memory_read",
    "read",
    "write",
    "edit",
];

const REQUEST: &str = "⟦The older part of this conversation will soon be summed up and no longer be shown to you. Before that, keep what \
    should outlast it and is not in your memory yet: facts, decisions, promises, open tasks, each once, with its date. Use \
    memory_write, or add to the day's file memory/YYYY-MM-DD.md. Nobody reads what you say now; keep nothing if nothing \
    matters, and answer NO_REPLY.⟧";

/// Calls of one step that are run.
const CALLS: usize = 8;
/// Characters of the longest texts of a conversation that is too large to be read whole, at first and at last.
const LONGEST: usize = 16_000;
const SHORTEST: usize = 250;

/// The result of a flush.
#[derive(Debug, Default)]
struct Flushed {
    /// Answers of the model.
    answers: usize,
    /// What was kept.
    receipts: Vec<String>,
    /// Whether it was stopped.
    stopped: bool,
}

impl Running<'_> {
    /// Lets the model keep what matters, unless that was done since the last compaction. Once
    /// an answer came it is done, whatever fails afterwards, so that it is not paid for again.
    pub(in crate::agent) async fn flush_once(&mut self, at: Thresholds) -> Result<(), Break> {
        let can_keep = ["memory_write", "write"]
            .iter()
            .any(|tool| self.offer.get(tool).is_some());
        if !self.agent.compaction.flush
            || self.session.state().flushed
            || !can_keep
            || !self.has_a_model()
        {
            return Ok(());
        }
        let Some(messages) = self.that_fit(at) else {
            return Ok(());
        };
        let flushed = self.flush(messages).await;
        // Where no answer came at all nothing was paid for, and the next time may be better.
        if flushed.answers > 0 {
            let run_id = self.order.run_id.to_owned();
            self.session
                .append(
                    vec![Kind::Flush {
                        run_id,
                        receipts: flushed.receipts,
                    }],
                    true,
                )
                .await?;
        }
        if flushed.stopped {
            Err(Break::Stopped)
        } else {
            Ok(())
        }
    }

    /// Returns the conversation without untrusted text (what is kept is kept permanently, and nobody is asked), or with the middle of its longest texts left out when the model could not read
    /// it otherwise; `None` when even that is too much.
    fn that_fit(&self, at: Thresholds) -> Option<Vec<Message>> {
        let state = self.session.state();
        // The request for it, its calls and their results.
        let most = at.room.saturating_sub(at.room / 20);
        let size = self.size();
        if size < most {
            return Some(state.messages_without_untrusted());
        }
        let tokens = |messages: &[Message]| -> u64 {
            messages.iter().map(Message::tokens).sum::<u64>().max(1)
        };
        let whole = tokens(&state.messages_without_untrusted());
        let mut longest = LONGEST;
        while longest >= SHORTEST {
            let mut messages = state.messages_without_untrusted();
            for message in &mut messages {
                cut_blocks(message, longest);
            }
            // What a vendor counts for one estimated token is the same for the rest.
            let left = u128::from(size) * u128::from(tokens(&messages)) / u128::from(whole);
            if left < u128::from(most) {
                return Some(messages);
            }
            longest /= 2;
        }
        None
    }

    async fn flush(&self, mut messages: Vec<Message>) -> Flushed {
        let mut flushed = Flushed::default();
        messages.push(Message {
            role: Role::User,
            content: vec![Block::Context {
                text: REQUEST.to_owned(),
            }],
        });
        let mut has_read = false;
        for step in 1..=STEPS {
            let prompt = Prompt {
                system: self.order.system.clone(),
                tools: self.offer.specs.clone(),
                may_call: step < STEPS,
                // As in a turn, or nothing of it comes from the vendor's cache.
                messages: self.with_pictures(repair(messages.clone())).await.into(),
                schema: None,
            };
            let (answer, stop) = match self.ask_for_room(self.order.model, &prompt).await {
                Err(Break::Stopped) => {
                    return Flushed {
                        stopped: true,
                        ..flushed
                    };
                }
                Err(_) => break,
                Ok(Ok(paid)) => (paid.response.message, paid.response.stop),
                Ok(Err(error)) => {
                    tracing::warn!(%error, session = self.session.id(), "the memory flush before compaction ended early");
                    break;
                }
            };
            flushed.answers += 1;
            let calls: Vec<ToolCall> = answer.tool_calls().take(CALLS).cloned().collect();
            messages.push(answer);
            if calls.is_empty()
                || step == STEPS
                || matches!(stop, StopReason::MaxTokens | StopReason::Refusal)
            {
                break;
            }
            let Some(results) = self.results(calls, &mut has_read, &mut flushed).await else {
                return Flushed {
                    stopped: true,
                    ..flushed
                };
            };
            messages.push(Message {
                role: Role::User,
                content: results,
            });
        }
        flushed
    }

    /// Runs the calls of one step; `None` when the turn was stopped.
    async fn results(
        &self,
        calls: Vec<ToolCall>,
        has_read: &mut bool,
        flushed: &mut Flushed,
    ) -> Option<Vec<Block>> {
        let mut results = Vec::new();
        let untrusted = *has_read;
        for call in calls.into_iter().map(more_tools::meant) {
            let output = tokio::select! {
                biased;
                () = self.order.cancel.cancelled() => return None,
                output = self.keep(&call, untrusted) => output,
            };
            *has_read |= output.from.is_some();
            flushed.receipts.extend(output.receipt);
            let ToolOutput {
                text,
                is_error,
                from,
                ..
            } = output;
            results.push(Block::ToolResult(ToolResult {
                id: call.id,
                text,
                is_error,
                from,
                pictures: Vec::new(),
            }));
        }
        Some(results)
    }

    async fn keep(&self, call: &ToolCall, untrusted: bool) -> ToolOutput {
        let path = call
            .input
            .get("path")
            .and_then(serde_json::Value::as_str)
            .unwrap_or_default();
        let in_memory = path.starts_with("memory/") && !path.split('/').any(|part| part == "..");
        let changes_files = matches!(call.name.as_str(), "write" | "edit");
        if !KEEPING.contains(&call.name.as_str()) || (changes_files && !in_memory) {
            return ToolOutput::error(
                "not now: only memory_write, remember and files of memory/ keep something",
            );
        }
        // What keeps something follows no address.
        match self.decide(call, untrusted, Before::default()) {
            Decision::Run => {
                let record = self.agent.audit.begin(self.audited(call), &call.input);
                let context = crate::agent::Context {
                    untrusted,
                    ..self.context.clone()
                };
                let output = self.offer.run(&call.name, &call.input, &context).await;
                record.end(output.is_error, &output.text);
                output
            }
            // Nobody is asked in the middle of it.
            Decision::Ask { why, .. } | Decision::Refuse(why) => {
                ToolOutput::error(format!("not now: {why}"))
            }
        }
    }
}
