//! Runs the calls of a step: guarded and recorded.

use std::time::Instant;

use super::ask_owner::AskOwner;
use super::interrupted_turn::INTERRUPTED;
use super::loop_detector;
use super::more_tools;
use super::permission::{Asked, Decision, Reach, Verdict};
use super::tool::{Context, Effect, ToolOutput};
use super::turn_loop::{Break, Running};
use serde_json::Value;

use crate::audit;
use crate::message::{Step, StopReason, ToolCall};
use crate::session::Kind;
use crate::trust::fence;

/// What is in the transcript when the agent chose to say nothing.
const SILENT: &str = "NO_REPLY";
/// Calls of one step that are run; a model that asks for more has lost its way.
const MOST: usize = 32;

/// What ends the turn after a step.
#[derive(Default)]
struct Ends {
    /// The agent chose to say nothing.
    silent: bool,
    /// A tool whose call is repeated for nothing.
    enough: Option<String>,
}

/// What becomes of a call.
enum Fate {
    /// It runs; with the owner's yes or without a need for one.
    Runs { allowed: Option<Allowed> },
    /// It does not, and this is its answer.
    Refused(ToolOutput),
}

/// A yes.
struct Allowed {
    /// What it is bound to.
    bound_to: Value,
    /// Whether it was said to this very call, and not by a rule.
    is_read: bool,
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
                let calls = calls.into_iter().map(more_tools::meant).collect();
                let refused = surplus.iter().map(|call| {
                    self.result(
                        call,
                        0,
                        ToolOutput::error(format!(
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
                .map(|call| self.result(call, 0, ToolOutput::error(refusal))),
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
            .map(|(call, _)| self.result(call, 0, ToolOutput::error(INTERRUPTED)));
        let events: Vec<Kind> = lost.collect();
        let calls = open
            .into_iter()
            .filter(|(_, lost)| !lost)
            .map(|(call, _)| more_tools::meant(call))
            .collect();
        self.is_exposed = self.session.state().last_answer_is_untrusted();
        self.run_calls(events, calls).await
    }

    /// Takes the calls that come next and says what becomes of each: all up to the first that needs a yes, or all
    /// from there that need one, about which the owner is asked together. So what a question is about has not
    /// changed by an earlier call of the same step when it is asked. `told` goes on counting through the step.
    async fn next_calls(
        &mut self,
        events: &mut Vec<Kind>,
        rest: &mut Vec<ToolCall>,
        told: &mut usize,
    ) -> Result<Vec<(ToolCall, Fate)>, Break> {
        let decisions = self.decide_next(rest, told);
        let (mut settled, mut open) = (Vec::new(), Vec::new());
        for (call, decision) in rest.drain(..decisions.len()).zip(decisions) {
            let fate = match decision {
                Decision::Ask { why, .. } => {
                    let failure = self.certain_failure(&call).await;
                    if failure.is_none() {
                        open.push((call.clone(), why));
                    }
                    failure.map(Fate::Refused)
                }
                Decision::Run => Some(Fate::Runs { allowed: None }),
                Decision::Refuse(why) => Some(Fate::Refused(ToolOutput::error(why))),
            };
            settled.push((call, fate));
        }
        let answers = match open.is_empty() {
            true => Vec::new(),
            false => self.ask_about(events, open).await?,
        };
        let mut answers = answers.into_iter();
        let fates = settled.into_iter().filter_map(|(call, fate)| match fate {
            Some(fate) => Some((call, fate)),
            None => answers.next(),
        });
        Ok(fates.collect())
    }

    /// Returns the answer of a call that fails whatever the owner says: they are not asked about it. Of others nobody learns
    /// so which files there are.
    async fn certain_failure(&self, call: &ToolCall) -> Option<ToolOutput> {
        let is_the_owners_alone = self.order.from_owner && !self.others_read;
        if !is_the_owners_alone || self.order.form.is_some() {
            return None;
        }
        let failure = self.offer.certain_failure(call, &self.context).await?;
        Some(self.fenced(call, failure))
    }

    /// Returns an answer with what is untrusted of it in its fence.
    fn fenced(&self, call: &ToolCall, output: ToolOutput) -> ToolOutput {
        if output.from.is_none() {
            return output;
        }
        let marker = fence::marker(self.order.run_id);
        let text = fence::around(&marker, &call.name, &output.text);
        ToolOutput { text, ..output }
    }

    /// Asks the owner about `calls`, each for its reason. What the model has said (`events`) is on disk before: a restart asks again,
    /// and the owner's answer is not lost.
    async fn ask_about(
        &mut self,
        events: &mut Vec<Kind>,
        calls: Vec<(ToolCall, String)>,
    ) -> Result<Vec<(ToolCall, Fate)>, Break> {
        let mut questions = Vec::with_capacity(calls.len());
        for (call, why) in &calls {
            questions.push(Asked {
                call_id: call.id.clone(),
                tool: call.name.clone(),
                question: self.offer.question(call, &self.context).await,
                why: why.clone(),
                wanted: None,
            });
        }
        self.session.append(std::mem::take(events), true).await?;
        self.emit(Step::Asking);
        let verdicts = self.without_hurry(self.order.owner.ask(&questions)).await?;
        let mut verdicts = verdicts.into_iter();
        let allowed = |asked: Asked, is_read: bool| Fate::Runs {
            allowed: Some(Allowed {
                bound_to: asked.question.bound_to,
                is_read,
            }),
        };
        let fate = |asked: Asked| match verdicts.next() {
            Some(Verdict::Yes) => allowed(asked, true),
            Some(Verdict::ByRule) => allowed(asked, false),
            Some(Verdict::SaidNo(why) | Verdict::No(why)) => Fate::Refused(ToolOutput::error(why)),
            Some(Verdict::Words(_)) | None => Fate::Refused(ToolOutput::error(
                "this was not run: it needs the owner's yes, and nobody answered",
            )),
        };
        let fates: Vec<Fate> = questions.into_iter().map(fate).collect();
        let calls = calls.into_iter().map(|(call, _)| call);
        Ok(calls.zip(fates).collect())
    }

    /// Returns true when what the owner said yes to is another call now: a file that it names has changed.
    async fn has_changed(&self, call: &ToolCall, fate: &Fate) -> bool {
        match fate {
            Fate::Runs {
                allowed: Some(allowed),
            } => allowed.bound_to != self.offer.question(call, &self.context).await.bound_to,
            Fate::Runs { allowed: None } | Fate::Refused(_) => false,
        }
    }

    /// Runs `calls`; `events` go into the transcript together with the first beginning. Read-only
    /// calls run at once, others one after the other; results are in the order of the calls.
    async fn run_calls(
        &mut self,
        mut events: Vec<Kind>,
        calls: Vec<ToolCall>,
    ) -> Result<Option<String>, Break> {
        let mut ends = Ends::default();
        self.context.untrusted = self.is_exposed;
        let (mut rest, mut told) = (calls, 0);
        while !rest.is_empty() {
            let calls = self.next_calls(&mut events, &mut rest, &mut told).await?;
            let at_once = calls.len() > 1
                && calls.iter().all(|(call, _)| {
                    self.offer
                        .get(&call.name)
                        .is_some_and(|tool| tool.goes_beside_others())
                });
            let groups: Vec<Vec<(ToolCall, Fate)>> = if at_once {
                vec![calls]
            } else {
                calls.into_iter().map(|call| vec![call]).collect()
            };
            for group in groups {
                self.run_group(&mut events, group, &mut ends).await?;
            }
        }
        let Ends { silent, enough } = ends;
        events.extend(self.reminder().or_else(|| self.skill_hint()));
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

    /// Runs the calls of a group at once.
    async fn run_group(
        &mut self,
        events: &mut Vec<Kind>,
        mut group: Vec<(ToolCall, Fate)>,
        ends: &mut Ends,
    ) -> Result<(), Break> {
        // Once: the owner is not asked again and again about something that keeps changing.
        let mut has_changed = false;
        for (call, fate) in &group {
            has_changed = has_changed || self.has_changed(call, fate).await;
        }
        if has_changed {
            let changed = |(call, _)| (call, "it has changed since".to_owned());
            let calls = group.into_iter().map(changed).collect();
            group = self.ask_about(events, calls).await?;
        }
        let runs = group
            .iter()
            .filter(|(_, fate)| matches!(fate, Fate::Runs { .. }));
        let begin: Vec<Kind> = runs.map(|(call, _)| self.beginning(call)).collect();
        if !begin.is_empty() {
            events.extend(begin);
            self.session.append(std::mem::take(events), true).await?;
        }
        self.context.pins.clone_from(&self.session.state().pins);
        self.context.session = self.session.entry();
        let (ask_owner, mut questions) = AskOwner::new(self.order.owner.always());
        // Where nobody waits for the answer, nobody would see the question in time.
        let is_attended = self.order.from_owner && self.order.source.is_person();
        self.context.ask_owner = if is_attended {
            ask_owner
        } else {
            ask_owner.unattended()
        };
        let running = futures_util::future::join_all(
            group.iter().map(|(call, fate)| self.run_call(call, fate)),
        );
        let outputs = self.in_time_with_questions(running, &mut questions).await?;
        for ((call, _), (mut output, duration_ms)) in group.iter().zip(outputs) {
            match self.guard.note(&call.name, &call.input, &output.text) {
                loop_detector::Verdict::Fine => {}
                loop_detector::Verdict::Warn(times) => {
                    output.text.push_str(&format!(
                        "\n[this same call gave this same result {times} times; try something else]"
                    ));
                }
                loop_detector::Verdict::End => ends.enough = Some(call.name.clone()),
            }
            let run_id = self.order.run_id.to_owned();
            match output.effect.take() {
                None => {}
                Some(Effect::Silence) => ends.silent = true,
                Some(Effect::Pin(text)) => events.push(Kind::Pin { run_id, text }),
                Some(Effect::Unpin(text)) => events.push(Kind::Unpin { run_id, text }),
            }
            events.push(self.result(call, duration_ms, output));
        }
        Ok(())
    }

    /// Runs a call; of one that came to nothing the model reads what the form of the answer says of it.
    async fn run_call(&self, call: &ToolCall, fate: &Fate) -> (ToolOutput, u64) {
        let (mut output, duration_ms) = self.outcome_of(call, fate).await;
        if let Some(form) = self.order.form.filter(|_| output.is_error) {
            output.text = (form.failed)(call, &output.text);
        }
        (output, duration_ms)
    }

    async fn outcome_of(&self, call: &ToolCall, fate: &Fate) -> (ToolOutput, u64) {
        let has_changed = self.has_changed(call, fate).await;
        let approved = match fate {
            Fate::Refused(why) => {
                self.agent.audit.refuse(self.audited(call), &call.input);
                return (why.clone(), 0);
            }
            Fate::Runs { allowed: None } => None,
            Fate::Runs {
                allowed: Some(allowed),
            } if !has_changed => allowed.is_read.then(|| allowed.bound_to.clone()),
            Fate::Runs { allowed: Some(_) } => {
                self.agent.audit.refuse(self.audited(call), &call.input);
                return (
                    ToolOutput::error(
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
                    // What the owner typed word by word is theirs, wherever they typed it.
                    untrusted: self.is_exposed && !self.offer.is_spelled_out(call, &self.typed()),
                    private_words: self.told_words(call),
                    call_id: call.id.clone(),
                    ..self.context.clone()
                },
            )
            .await;
        output = self.fenced(call, output);
        record.end(output.is_error, &output.text);
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.emit(Step::ToolDone {
            name: call.name.clone(),
            duration_ms,
            is_error: output.is_error,
        });
        (output, duration_ms)
    }

    /// Returns the words that a call made out of untrusted text tells a sub-agent and that a search may not say unasked.
    fn told_words(&self, call: &ToolCall) -> Vec<String> {
        if !self.is_exposed {
            return Vec::new();
        }
        match self.offer.reach(call, &self.context) {
            Reach::Tells(task) => self.private_words(&task),
            _ => Vec::new(),
        }
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
        super::interrupted_turn::result(self.order.run_id, call, duration_ms, output)
    }
}
