//! The calls of a step: run, guarded, written down.

use std::time::Instant;

use super::end_turn::{INTERRUPTED, not_run};
use super::loop_detector;
use super::tool::{Context, Effect, ToolOutput};
use super::tool_policy::{Asked, Decision, Verdict};
use super::turn_loop::{Break, Running};
use serde_json::Value;

use crate::audit;
use crate::message::{Step, StopReason, ToolCall};
use crate::session::Kind;
use crate::trust::fence;

/// What stands in the transcript when the agent chose to say nothing.
const SILENT: &str = "NO_REPLY";
/// Calls of one step that are run; a model that asks for more has lost its way.
const MOST: usize = 32;

/// What becomes of a call.
enum Fate {
    /// It runs; with the owner's yes, and what that is bound to, or without a need for one.
    Runs { approved: Option<Value> },
    /// It does not, and this is its answer.
    Refused(ToolOutput),
}

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
            StopReason::MaxTokens => {
                "the answer was cut off at the token limit, so this was not run; ask again with less"
            }
            StopReason::Refusal => "this was not run: the vendor refused the answer it stands in",
            StopReason::EndTurn | StopReason::ToolUse | StopReason::Pause => {
                let surplus = calls.split_off(MOST.min(calls.len()));
                let calls = calls
                    .into_iter()
                    .map(|call| self.offer.meant(call))
                    .collect();
                let refused = surplus.iter().map(|call| {
                    self.result(
                        call,
                        0,
                        not_run(&format!(
                            "this was not run: at most {MOST} calls run in one step"
                        )),
                    )
                });
                // At once: after a crash nothing of it is open.
                let events: Vec<Kind> = std::iter::once(spoken).chain(refused).collect();
                return self.run_calls(events, calls).await;
            }
        };
        let mut events = vec![spoken];
        events.extend(
            calls
                .iter()
                .map(|call| self.result(call, 0, not_run(refusal))),
        );
        events.extend(self.reminder());
        self.session.append(events, true).await?;
        // A model that writes the same too long call again learns nothing from it.
        let verdicts: Vec<loop_detector::Verdict> = calls
            .iter()
            .map(|call| self.guard.note(&call.name, &Value::Null, refusal))
            .collect();
        if verdicts.contains(&loop_detector::Verdict::End) {
            let text = format!(
                "I stopped because what I wanted to do was refused again and again: {refusal}."
            );
            return self.conclude_with_receipts(text).await.map(Some);
        }
        Ok(None)
    }

    /// Runs the calls that a crash left without a result.
    pub(super) async fn run_open_calls(
        &mut self,
        open: Vec<(ToolCall, bool)>,
    ) -> Result<Option<String>, Break> {
        // What finds out by itself whether it happened is simply called again.
        let again = |call: &ToolCall| {
            self.offer
                .get(&call.name)
                .is_some_and(|tool| tool.is_resumable())
        };
        let open: Vec<(ToolCall, bool)> = open
            .into_iter()
            .map(|(call, began)| {
                let lost = began && !again(&call);
                (call, lost)
            })
            .collect();
        let lost = open
            .iter()
            .filter(|(_, lost)| *lost)
            .map(|(call, _)| self.result(call, 0, not_run(INTERRUPTED)));
        let events: Vec<Kind> = lost.collect();
        let calls = open
            .into_iter()
            .filter(|(_, lost)| !lost)
            .map(|(call, _)| self.offer.meant(call))
            .collect();
        self.is_exposed = self.session.state().last_answer_is_untrusted();
        self.run_calls(events, calls).await
    }

    /// Asks the owner about those of `calls` that need a yes, and returns what becomes of each. All of a step are asked about together. What the model has said (`events`) is on
    /// the disk before: a restart asks again, and the owner's answer is not lost.
    async fn pass_the_gate(
        &mut self,
        events: &mut Vec<Kind>,
        calls: &[ToolCall],
    ) -> Result<Vec<Fate>, Break> {
        let decide = |call| self.decide(call, self.is_exposed);
        let decisions: Vec<Decision> = calls.iter().map(decide).collect();
        let ask = |(call, decision): (&ToolCall, &Decision)| match decision {
            Decision::Ask { why, .. } => Some(Asked {
                call_id: call.id.clone(),
                tool: call.name.clone(),
                question: self.offer.question(call, &self.context),
                why: why.clone(),
            }),
            Decision::Run | Decision::Refuse(_) => None,
        };
        let questions: Vec<Asked> = calls.iter().zip(&decisions).filter_map(ask).collect();
        let mut verdicts = Vec::new();
        if !questions.is_empty() {
            self.session.append(std::mem::take(events), true).await?;
            self.emit(Step::Asking);
            verdicts = self.without_hurry(self.order.owner.ask(&questions)).await?;
        }
        let mut bound = questions
            .into_iter()
            .zip(&verdicts)
            .filter(|(_, verdict)| **verdict == Verdict::Yes)
            .map(|(asked, _)| asked.question.bound_to);
        let mut verdicts = verdicts.iter();
        let fate = |decision: Decision| match decision {
            Decision::Run => Fate::Runs { approved: None },
            Decision::Refuse(why) => Fate::Refused(not_run(&why)),
            Decision::Ask { .. } => match verdicts.next() {
                Some(Verdict::Yes) => Fate::Runs {
                    approved: bound.next(),
                },
                Some(Verdict::No(why)) => Fate::Refused(not_run(why)),
                None => Fate::Refused(not_run(
                    "this was not run: it needs the owner's yes, and nobody answered",
                )),
            },
        };
        Ok(decisions.into_iter().map(fate).collect())
    }

    /// Runs `calls`; `events` go into the transcript together with the first beginning. Read-only
    /// calls run at once, others one after the other; results stand in the order of the calls.
    async fn run_calls(
        &mut self,
        mut events: Vec<Kind>,
        calls: Vec<ToolCall>,
    ) -> Result<Option<String>, Break> {
        let mut silent = false;
        let mut enough = None;
        let fates = self.pass_the_gate(&mut events, &calls).await?;
        self.context.untrusted = self.is_exposed;
        let at_once = calls.len() > 1
            && calls.iter().all(|call| {
                self.offer
                    .get(&call.name)
                    .is_some_and(|tool| tool.goes_beside_others())
            });
        // Each with its own fate: a model may give two calls one id.
        let calls: Vec<(ToolCall, Fate)> = calls.into_iter().zip(fates).collect();
        let groups: Vec<Vec<(ToolCall, Fate)>> = if at_once {
            vec![calls]
        } else {
            calls.into_iter().map(|call| vec![call]).collect()
        };
        for group in groups {
            let runs = group
                .iter()
                .filter(|(_, fate)| matches!(fate, Fate::Runs { .. }));
            let begin: Vec<Kind> = runs.map(|(call, _)| self.beginning(call)).collect();
            if !begin.is_empty() {
                events.extend(begin);
                self.session
                    .append(std::mem::take(&mut events), true)
                    .await?;
            }
            self.context.pins.clone_from(&self.session.state().pins);
            let running = futures_util::future::join_all(
                group.iter().map(|(call, fate)| self.run_call(call, fate)),
            );
            let outputs = self.in_time(running).await?;
            for ((call, _), (mut output, duration_ms)) in group.iter().zip(outputs) {
                match self.guard.note(&call.name, &call.input, &output.text) {
                    loop_detector::Verdict::Fine => {}
                    loop_detector::Verdict::Warn(times) => {
                        output
                            .text
                            .push_str(&format!("\n[this same call gave this same result {times} times; try something else]"));
                    }
                    loop_detector::Verdict::End => enough = Some(call.name.clone()),
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
                let text = format!(
                    "I stopped because {tool} gave me the same result again and again. Tell me how to go on."
                );
                self.conclude_with_receipts(text).await.map(Some)
            }
            None => Ok(None),
        }
    }

    async fn run_call(&self, call: &ToolCall, fate: &Fate) -> (ToolOutput, u64) {
        let approved = match fate {
            Fate::Refused(why) => {
                self.agent.audit.refuse(self.audited(call), &call.input);
                return (why.clone(), 0);
            }
            Fate::Runs { approved: None } => false,
            Fate::Runs {
                approved: Some(bound_to),
            } if *bound_to == self.offer.question(call, &self.context).bound_to => true,
            Fate::Runs { approved: Some(_) } => {
                self.agent.audit.refuse(self.audited(call), &call.input);
                return (
                    not_run(
                        "this was not run: what the owner said yes to has changed since; call it again",
                    ),
                    0,
                );
            }
        };
        let record = self.agent.audit.begin(self.audited(call), &call.input);
        self.emit(Step::ToolStarted {
            name: call.name.clone(),
        });
        let started = Instant::now();
        let mut output = self
            .offer
            .run(
                &call.name,
                &call.input,
                &Context {
                    approved,
                    call_id: call.id.clone(),
                    ..self.context.clone()
                },
            )
            .await;
        if output.from.is_some() {
            output.text =
                fence::around(&fence::marker(self.order.run_id), &call.name, &output.text);
        }
        record.end(output.is_error, &output.text);
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.emit(Step::ToolDone {
            name: call.name.clone(),
            duration_ms,
            is_error: output.is_error,
        });
        (output, duration_ms)
    }

    /// Returns a call as the audit log names it.
    pub(super) fn audited<'a>(&'a self, call: &'a ToolCall) -> audit::Call<'a> {
        let (session, run) = (self.session.id(), self.order.run_id);
        audit::Call {
            session,
            run,
            id: &call.id,
            tool: self.offer.known(&call.name),
        }
    }

    fn beginning(&self, call: &ToolCall) -> Kind {
        Kind::ToolCall {
            run_id: self.order.run_id.to_owned(),
            id: call.id.clone(),
            name: call.name.clone(),
        }
    }

    fn result(&self, call: &ToolCall, duration_ms: u64, output: ToolOutput) -> Kind {
        super::end_turn::result(self.order.run_id, call, duration_ms, output)
    }
}
