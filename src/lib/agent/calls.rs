//! The calls of a step: run, guarded, written down.

use std::time::Instant;

use super::broken::{INTERRUPTED, not_run};
use super::guard::Verdict;
use super::run::{Break, Running};
use super::tool::{Effect, ToolOutput};
use serde_json::Value;

use crate::message::{Step, StopReason, ToolCall};
use crate::session::Kind;

/// What stands in the transcript when the agent chose to say nothing.
const SILENT: &str = "NO_REPLY";
/// Calls of one step that are run; a model that asks for more has lost its way.
const MOST: usize = 32;

impl Running<'_> {
    /// Takes in an answer that asks for `calls`; `spoken` is the answer itself. Returns the final words when the turn ends here.
    pub(super) async fn take_calls(
        &mut self,
        spoken: Kind,
        stop: StopReason,
        mut calls: Vec<ToolCall>,
    ) -> Result<Option<String>, Break> {
        let refusal = match stop {
            // It was offered none, and nothing would read the results.
            _ if self.steps_left() <= 1 => "this was not run: the turn has no step left",
            StopReason::MaxTokens => "the answer was cut off at the token limit, so this was not run; ask again with less",
            StopReason::Refusal => "this was not run: the vendor refused the answer it stands in",
            StopReason::EndTurn | StopReason::ToolUse | StopReason::Pause => {
                let surplus = calls.split_off(MOST.min(calls.len()));
                let refused = surplus.iter().map(|call| {
                    self.result(call, 0, not_run(&format!("this was not run: at most {MOST} calls run in one step")))
                });
                // At once: after a crash nothing of it is open.
                let events: Vec<Kind> = std::iter::once(spoken).chain(refused).collect();
                return self.run_calls(events, calls).await;
            }
        };
        let mut events = vec![spoken];
        events.extend(calls.iter().map(|call| self.result(call, 0, not_run(refusal))));
        events.extend(self.reminder());
        self.session.append(events, true).await?;
        // A model that writes the same too long call again learns nothing from it.
        let verdicts: Vec<Verdict> = calls.iter().map(|call| self.guard.note(&call.name, &Value::Null, refusal)).collect();
        if verdicts.contains(&Verdict::End) {
            let text = format!("I stopped because what I wanted to do was refused again and again: {refusal}.");
            return self.conclude_with_receipts(text).await.map(Some);
        }
        Ok(None)
    }

    /// Runs the calls that a crash left without a result.
    pub(super) async fn run_open_calls(&mut self, open: Vec<(ToolCall, bool)>) -> Result<Option<String>, Break> {
        let lost = open.iter().filter(|(_, began)| *began).map(|(call, _)| self.result(call, 0, not_run(INTERRUPTED)));
        let events: Vec<Kind> = lost.collect();
        let calls = open.into_iter().filter(|(_, began)| !began).map(|(call, _)| call).collect();
        self.run_calls(events, calls).await
    }

    /// Runs `calls`; `events` go into the transcript together with the first beginning. Read-only
    /// calls run at once, others one after the other; results stand in the order of the calls.
    async fn run_calls(&mut self, mut events: Vec<Kind>, calls: Vec<ToolCall>) -> Result<Option<String>, Break> {
        let mut silent = false;
        let mut enough = None;
        let at_once = calls.len() > 1 && calls.iter().all(|call| self.offer.get(&call.name).is_some_and(|tool| tool.read_only()));
        let groups: Vec<Vec<ToolCall>> = if at_once { vec![calls] } else { calls.into_iter().map(|call| vec![call]).collect() };
        for group in groups {
            events.extend(group.iter().map(|call| self.beginning(call)));
            self.session.append(std::mem::take(&mut events), true).await?;
            self.context.pins.clone_from(&self.session.state().pins);
            let running = futures_util::future::join_all(group.iter().map(|call| self.run_call(call)));
            let outputs = self.in_time(running).await?;
            for (call, (mut output, duration_ms)) in group.iter().zip(outputs) {
                match self.guard.note(&call.name, &call.input, &output.text) {
                    Verdict::Fine => {}
                    Verdict::Warn(times) => {
                        output
                            .text
                            .push_str(&format!("\n[this same call gave this same result {times} times; try something else]"));
                    }
                    Verdict::End => enough = Some(call.name.clone()),
                }
                let run_id = self.order.run_id.to_owned();
                match output.effect.take() {
                    None => {}
                    Some(Effect::Silence) => silent = true,
                    Some(Effect::Pin(text)) => events.push(Kind::Pin { run_id, text }),
                    Some(Effect::Unpin(text)) => events.push(Kind::Unpin { run_id, text }),
                }
                events.push(self.result(call, duration_ms, output));
            }
        }
        events.extend(self.reminder());
        if !events.is_empty() {
            self.session.append(events, true).await?;
        }
        if silent {
            return self.conclude(SILENT.to_owned()).await.map(Some);
        }
        match enough {
            Some(tool) => {
                let text = format!("I stopped because {tool} gave me the same result again and again. Tell me how to go on.");
                self.conclude_with_receipts(text).await.map(Some)
            }
            None => Ok(None),
        }
    }

    async fn run_call(&self, call: &ToolCall) -> (ToolOutput, u64) {
        self.emit(Step::ToolStarted { name: call.name.clone() });
        let started = Instant::now();
        let output = self.offer.run(&call.name, &call.input, &self.context).await;
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.emit(Step::ToolDone { name: call.name.clone(), duration_ms, is_error: output.is_error });
        (output, duration_ms)
    }

    fn beginning(&self, call: &ToolCall) -> Kind {
        Kind::ToolCall { run_id: self.order.run_id.to_owned(), id: call.id.clone(), name: call.name.clone() }
    }

    fn result(&self, call: &ToolCall, duration_ms: u64, output: ToolOutput) -> Kind {
        super::broken::result(self.order.run_id, call, duration_ms, output)
    }
}
