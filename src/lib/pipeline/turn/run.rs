//! Step 3, turn: one input, from its start to the transaction that marks it done and stores the reply.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::describe::Budget;
use super::outcome::{Outcome, Saying, event_text, said};
use super::progress::Progress;
use super::record_message::{Message, Unwritten};
use super::stream::Stream;
use super::transcribe::Waits;
use super::withhold_secrets;
use crate::agent::{Ended as TurnEnd, Form, Order, Owner, SubagentSpawner, Written};
use crate::config::DmPolicy;
use crate::control::replies::{Reply, STOPPED, Status};
use crate::llm::Unavailable;
use crate::memory::{JOINED, MAIN, Scope, Viewer};
use crate::message::{Address, Block, Envelope, Source, ToolCall};
use crate::people::People;
use crate::pipeline::approvals::Asking;
use crate::pipeline::commands::lane::Step;
use crate::pipeline::persist::{Recorded, Unrecorded};
use crate::pipeline::plan;
use crate::pipeline::plan::instructions::PlanForm;
use crate::pipeline::schedule::debounce::TurnInputs;
use crate::pipeline::schedule::renew_session::Fresh;
use crate::pipeline::schedule::slots::Handle;
use crate::pipeline::start_subagent::Sending;
use crate::pipeline::suspend::Denied;
use crate::pipeline::{Live, Pipeline, Run};
use crate::prompt::Section;
use crate::provider::SystemBlock;
use crate::queue::{Ended, Ending, Heard, Started};
use crate::session::{Entry, Kind, Session};
use crate::{agent, clock};

/// Characters that the notice of a message that was given up quotes.
const QUOTED: usize = 300;

/// Runs a turn. One that is `superseded` is only written down: a newer message of its conversation is answered.
pub(crate) async fn run(
    pipeline: Arc<Pipeline>,
    inputs: TurnInputs,
    slot: Handle,
    superseded: bool,
) {
    let new_id = uuid::Uuid::now_v7().to_string();
    if inputs.deaths().is_crash_loop(clock::now_ms()) {
        let run_id = inputs.run_id().unwrap_or(&new_id);
        return pipeline.give_up(&inputs, run_id).await;
    }
    let run = Run::new(inputs.clone(), slot);
    // Known before it is recorded, so that a stop finds it at every moment.
    pipeline.runs().insert(inputs.key().clone(), run.clone());
    pipeline.waiting.lock().remove(inputs.key());
    let ids = inputs.ids();
    let start = || pipeline.queue.start_run(&new_id, inputs.key(), &ids);
    let (run_id, inputs, heard) = match pipeline.persist("the start of a turn", start).await {
        Ok(Started::Run {
            run_id,
            inbox_ids,
            heard,
        }) => match inputs.only(&inbox_ids) {
            Some(inputs) => (run_id, inputs, heard),
            None => return,
        },
        Ok(Started::Gone) => {
            if let (Some(_), Some(run_id)) = (inputs.suspended(), inputs.run_id()) {
                pipeline.end_suspended(&inputs, run_id).await;
            }
            return;
        }
        Err(Unrecorded::Ending) => return,
        Err(Unrecorded::Failed(why)) => {
            let outcome = pipeline.failed(inputs.leader(), &why, &[]);
            return pipeline.finish(&inputs, &new_id, outcome).await;
        }
    };
    let given = Given { heard, superseded };
    let (outcome, was_turn) = match pipeline.answer_bundle(&inputs, &run_id, &run, given).await {
        Ok(Answered::Over(outcome, was_turn)) => (*outcome, was_turn),
        Ok(Answered::Gone) | Err(Unrecorded::Ending) => return,
        Err(Unrecorded::Failed(why)) => {
            let outcome = pipeline.failed(inputs.leader(), &why, &[]);
            // How far it came nobody can tell.
            (outcome.untrusted(true), false)
        }
    };
    // What fails now would fail again, and be paid for.
    let is_answered = was_turn && outcome.is_answer();
    if is_answered {
        pipeline.end_troubles(&inputs.key().0);
    }
    pipeline.finish(&inputs, &run_id, outcome).await;
    if was_turn && inputs.leader().from_owner {
        pipeline.ask_about_skills(Some(inputs.leader()));
    }
    // A crash or a failure before the end of this leaves the conversation as it is.
    if inputs.leader().task.is_some() {
        let _ = pipeline.archive(inputs.key()).await;
    } else if is_answered {
        run.answered.store(true, Ordering::Relaxed);
        let _ = pipeline
            .make_room(inputs.leader(), &run_id, &run, false)
            .await;
    }
}

/// The context with which a turn begins, in addition to its messages.
struct Given {
    heard: Heard,
    /// A newer message is answered instead.
    superseded: bool,
}

/// How far answering a message came.
enum Answered {
    /// To its end; with true when the agent answered.
    Over(Box<Outcome>, bool),
    /// It was stopped, or continues later: both are recorded.
    Gone,
}

/// What a turn's order is made of.
pub(crate) struct TurnContext<'a> {
    pub(crate) live: &'a Live,
    pub(crate) envelope: &'a Envelope,
    pub(crate) run_id: &'a str,
    pub(crate) run: &'a Run,
    pub(crate) viewer: Viewer,
    /// The ids that are the sender's as well.
    pub(crate) same_person: Vec<String>,
    pub(crate) model: String,
    pub(crate) system: Vec<SystemBlock>,
    /// What the system text is made of.
    pub(crate) sections: Vec<Section>,
    /// The looks at pictures that are left for the message.
    pub(crate) looks: Budget,
}

/// Returns what is told below the answer: that the model is another one, that it read only a part of the message.
async fn remarks(live: &Live, envelope: &Envelope, session: &mut Session) -> Vec<String> {
    let model_left = leave_gone_model(live, envelope, session).await;
    model_left
        .into_iter()
        .chain(left_out(envelope, session))
        .collect()
}

/// Characters by which a message may be shorter as it is read: a secret that was kept out, blanks at its ends.
const BESIDE: usize = 4_000;

/// Returns that the middle of a message was left out, because the model's window has no room for it.
fn left_out(envelope: &Envelope, session: &Session) -> Option<String> {
    let state = session.state();
    let turn = state.turn.as_ref()?;
    let entry = state
        .entries
        .iter()
        .find(|entry| entry.seq == turn.user_seq)?;
    let length = |block: &Block| match block {
        Block::Text { text } | Block::Context { text } => text.chars().count(),
        _ => 0,
    };
    let read: usize = entry.message.content.iter().map(length).sum();
    let sent = envelope.text.chars().count();
    (read + BESIDE < sent).then(|| {
        format!("your message has {sent} characters and is too long for the model: it read about {read} of them, the beginning and the end")
    })
}

/// Adds that something was kept out of the request, if it was, and `remarks`.
fn noting(inputs: &TurnInputs, remarks: &[String], outcome: Outcome) -> Outcome {
    let mut messages = inputs.messages().into_iter();
    let outcome = match messages.any(|mut message| withhold_secrets::withhold(&mut message)) {
        true => outcome.noting(withhold_secrets::NOTE),
        false => outcome,
    };
    remarks
        .iter()
        .fold(outcome, |outcome, remark| outcome.noting(remark))
}

impl TurnContext<'_> {
    /// Returns what of the system text is the owner's alone.
    fn own_words(&self) -> String {
        let words = self
            .sections
            .iter()
            .map(|section| section.own_words.as_str());
        words
            .filter(|words| !words.is_empty())
            .collect::<Vec<&str>>()
            .join("\n")
    }

    pub(crate) fn order<'a>(
        &'a self,
        owner: &'a dyn Owner,
        reader: &'a (dyn Fn(Written<'_>) + Send + Sync),
    ) -> Order<'a> {
        let envelope = self.envelope;
        Order {
            run_id: self.run_id,
            inbox_id: &envelope.id,
            person: &envelope.sender.id,
            person_name: &envelope.sender.name,
            from_owner: envelope.from_owner,
            viewer: &self.viewer,
            route: envelope.route.as_ref(),
            message_id: envelope.reply_to.as_deref(),
            source: envelope.source,
            paying_run: envelope.paid_by().unwrap_or(self.run_id),
            // A sub-agent's own budget is a share of what its sender may cost.
            budget_usd: envelope
                .task
                .as_ref()
                .map_or(envelope.budget_usd, |task| task.report.budget_usd),
            share_usd: envelope.task.as_ref().and(envelope.budget_usd),
            bounds: envelope.task.as_ref().map(|task| &task.bounds),
            spawner: None,
            model: &self.model,
            system: self.system.clone(),
            own_words: self.own_words(),
            cancel: &self.run.cancel,
            interrupted: &self.run.interrupted,
            owner,
            reader,
            form: None,
        }
    }
}

impl Pipeline {
    /// Carries out a lane command or lets the agent answer.
    async fn answer_bundle(
        self: &Arc<Self>,
        inputs: &TurnInputs,
        run_id: &str,
        run: &Run,
        given: Given,
    ) -> Recorded<Answered> {
        Ok(match self.between(inputs, run_id, run).await? {
            Step::Turn(said) => match self.converse(&said, run_id, run, given).await? {
                Some(outcome) => Answered::Over(Box::new(outcome), true),
                None => Answered::Gone,
            },
            Step::Done(outcome) => Answered::Over(outcome, false),
            Step::Stopped => Answered::Gone,
        })
    }

    /// Ends a turn in its transcript that will not be gone on with. Returns whether it had read untrusted text, or nobody
    /// can tell.
    pub(crate) async fn close_turn(
        &self,
        envelope: &Envelope,
        run_id: &str,
        reason: &str,
        keep: bool,
    ) -> bool {
        let Ok(mut session) = self.take_session(envelope).await else {
            return true;
        };
        let turn = session.state().turn.as_ref();
        let untrusted = turn.is_some_and(|turn| turn.inbox_id == envelope.id && turn.untrusted);
        if let Err(error) =
            agent::break_off(&mut session, run_id, &envelope.id, reason.to_owned(), keep).await
        {
            tracing::error!(%error, session = session.id(), "the end of a turn could not be recorded");
        }
        self.sessions.put(session);
        untrusted
    }

    /// Notes that what the run of inputs said, which were stopped or interrupted, rests on nothing untrusted.
    pub(crate) async fn note_clean(&self, inbox_ids: &[String]) {
        if let Err(error) = self.queue.was_clean(inbox_ids).await {
            tracing::warn!(%error, "cannot update the transcript of a stopped turn; its text stays marked as untrusted");
        }
    }

    /// Gives a message up that died with the daemon too often.
    async fn give_up(self: &Arc<Self>, inputs: &TurnInputs, run_id: &str) {
        let deaths = inputs.deaths();
        let reason = format!("interrupted by {} restarts", deaths.count);
        let text = format!(
            "I was restarted {} times while working on this message, {} times on nothing else, and gave it up.",
            deaths.count, deaths.alone
        );
        self.bury(inputs, run_id, reason, text).await;
    }

    /// Makes a message a dead letter. Its sender is told, with the words it had.
    async fn bury(
        self: &Arc<Self>,
        inputs: &TurnInputs,
        run_id: &str,
        reason: String,
        text: String,
    ) {
        let envelope = inputs.leader();
        let untrusted = self.close_turn(envelope, run_id, &reason, false).await;
        let quoted = crate::text::shorten(envelope.text.trim(), QUOTED);
        let quoted: Vec<String> = quoted.lines().map(|line| format!("> {line}")).collect();
        let text = format!("{text}\n\n{}", quoted.join("\n"));
        let reply = Reply {
            run_id: Some(run_id.to_owned()),
            ..Reply::error(&envelope.id, text.clone())
        };
        let text = match envelope.source {
            Source::Notify => Some(Saying::Plain(event_text(envelope))),
            Source::Heartbeat => None,
            // Nobody there asked for it, and what the agent was told is not theirs to read.
            Source::Job if envelope.heard_by_others => None,
            _ => Some(Saying::Markdown(text)),
        };
        let outcome = Outcome::new(Ended::Dead(reason), reply, text)
            .about(format!("in-{}", inputs.seq()))
            .untrusted(untrusted);
        self.finish(inputs, run_id, outcome).await;
    }

    /// Tells the person that a turn ended in a bug of ours. It is not tried again: it would end
    /// there again.
    pub(crate) async fn broke_down(self: &Arc<Self>, inputs: &TurnInputs) {
        let run_id = uuid::Uuid::now_v7().to_string();
        let leader = inputs.leader();
        let untrusted = self.close_turn(leader, &run_id, "a bug", false).await;
        let outcome = self.failed(
            inputs.leader(),
            "a bug of the agent itself; its log has the place",
            &[],
        );
        let outcome = outcome.untrusted(untrusted).mapped(|reply| Reply {
            run_id: Some(run_id.clone()),
            ..reply
        });
        self.finish(inputs, &run_id, outcome).await;
    }

    /// Deletes the group context up to the note `newest`: a turn has received it.
    async fn forget_heard(&self, envelope: &Envelope, newest: Option<i64>) {
        if let Some(newest) = newest
            && let Err(error) = self.queue.forget_notes(&envelope.session_key, newest).await
        {
            tracing::warn!(%error, "group context could not be marked as read; it will be included again");
        }
    }

    /// Runs the agent; `None` when it was stopped.
    async fn converse(
        self: &Arc<Self>,
        inputs: &TurnInputs,
        run_id: &str,
        run: &Run,
        Given { heard, superseded }: Given,
    ) -> Recorded<Option<Outcome>> {
        let began_at = clock::now_ms();
        let live = self.live();
        let envelope = inputs.leader();
        let Fresh {
            mut session,
            carried,
        } = self.take_fresh(&live, inputs).await?;
        let mut context = self
            .turn_context(&live, envelope, run_id, run, &session)
            .await;
        let target = inputs.newest().reply_to.clone();
        let planned = plan::is_planned(&live, envelope);
        let watched = (!planned).then(|| self.progress(&live, envelope, run_id));
        let progress = watched.flatten();
        let session_id = session.id().to_owned();
        let named = |reply| Reply {
            session_id: Some(session_id.clone()),
            run_id: Some(run_id.to_owned()),
            ..reply
        };
        if envelope.wants_reply {
            self.answer(&named(Reply::new(&envelope.id, Status::Running)));
        }
        let message = Message {
            inputs,
            began_at,
            carried,
            heard,
            only_written: superseded,
        };
        let heard = match self.hear(&context, &mut session, message).await? {
            Ok(newest) => newest,
            Err(why) => {
                self.sessions.put(session);
                return self.not_written(inputs, run_id, &context.model, why).await;
            }
        };
        if superseded {
            self.sessions.put(session);
            self.forget_heard(envelope, heard).await;
            return Ok(Some(said(envelope, "", None).mapped(named)));
        }
        let form = if planned {
            Some(Box::pin(self.form(&mut context, &session)).await?)
        } else {
            None
        };
        let ended = self
            .run_agent(&context, &mut session, progress.as_ref(), form.as_ref())
            .await;
        if let Some(progress) = progress {
            progress.end().await;
        }
        // A turn that failed or was stopped may be forgotten with all it heard.
        if matches!(ended, TurnEnd::Reply(_)) {
            self.forget_heard(envelope, heard).await;
        }
        let untrusted = (session.state().turn.as_ref()).is_none_or(|turn| turn.untrusted);
        if let TurnEnd::Waits(away) = &ended {
            self.sessions.put(session);
            return self.wait_or_end(inputs, run_id, &context.model, away).await;
        }
        let outcome = match ended {
            TurnEnd::Reply(reply) => Some(
                Box::pin(self.outcome_of_plan(&context, &session, target.as_deref(), &reply)).await,
            ),
            ended => self.outcome(envelope, &session_id, ended),
        };
        let remarks = remarks(&live, envelope, &mut session).await;
        self.sessions.put(session);
        if outcome.is_none() && !untrusted {
            self.note_clean(&inputs.ids()).await;
        }
        let Some(outcome) = outcome else {
            return Ok(None);
        };
        let outcome = outcome.mapped(named).untrusted(untrusted);
        let outcome = noting(inputs, &remarks, outcome);
        Ok(Some(self.noting_proposal(envelope, run_id, outcome).await))
    }

    /// Waits for what keeps a message out of its transcript, or ends its turn.
    async fn not_written(
        self: &Arc<Self>,
        inputs: &TurnInputs,
        run_id: &str,
        model: &str,
        why: Unwritten,
    ) -> Recorded<Option<Outcome>> {
        match why {
            Unwritten::Waits(waits) => {
                let Waits { model, away } = *waits;
                self.wait_or_end(inputs, run_id, &model, &away).await
            }
            Unwritten::Failed(error) => {
                tracing::error!(%error, "cannot write a message to its transcript");
                if !error.is_retryable() {
                    let outcome = self.failed(inputs.leader(), &error.to_string(), &[]);
                    return Ok(Some(outcome));
                }
                let away = Unavailable::disk(&error);
                self.wait_or_end(inputs, run_id, model, &away).await
            }
        }
    }

    /// Suspends a turn, or ends it when waiting cannot help; `None` when all is recorded.
    async fn wait_or_end(
        self: &Arc<Self>,
        inputs: &TurnInputs,
        run_id: &str,
        model: &str,
        away: &Unavailable,
    ) -> Recorded<Option<Outcome>> {
        let envelope = inputs.leader();
        match self.suspend(inputs, run_id, model, away).await? {
            Ok(()) => Ok(None),
            Err(Denied::AtOnce(reason)) => {
                let untrusted = self.close_turn(envelope, run_id, &reason, false).await;
                self.remind_without_model(envelope, away.cause.words())
                    .await;
                let outcome = self.failed(envelope, &reason, &[]).untrusted(untrusted);
                // Limits are told when they are reached, outages are in the status: every run of every job would say it again.
                let is_known = envelope.source == Source::Job;
                Ok(Some(if is_known { outcome.unsaid() } else { outcome }))
            }
            Err(Denied::Late(reason)) => {
                let text = format!("{}. I gave this message up.", away.cause.words());
                self.bury(inputs, run_id, reason, text).await;
                Ok(None)
            }
        }
    }

    /// Runs the loop of model and tools.
    async fn run_agent(
        self: &Arc<Self>,
        context: &TurnContext<'_>,
        session: &mut Session,
        progress: Option<&Progress>,
        form: Option<&PlanForm>,
    ) -> TurnEnd {
        let TurnContext {
            envelope,
            run_id,
            run,
            ..
        } = *context;
        let stream =
            (envelope.stream && form.is_none()).then(|| Stream::begin(&self.replies, &envelope.id));
        let ids = [envelope.id.clone()];
        let interim = self.interim(context).filter(|_| form.is_none());
        let reader = |written: Written<'_>| {
            if matches!(written, Written::Text(_)) {
                self.hide_notices(&ids);
            }
            if let (Written::Beside(words, untrusted), Some(interim)) = (written, &interim) {
                let _ = interim.send((words.to_owned(), untrusted));
            }
            stream.iter().for_each(|stream| stream.write(written));
            progress.iter().for_each(|progress| progress.write(written));
        };
        let compactions = session.state().compaction_count;
        let asking = Asking::new(
            self.clone(),
            envelope.clone(),
            (run_id, session.id()),
            run.slot.clone(),
        );
        let owners_alone = context.viewer.may_see(&Scope::Owner);
        let spawner: Arc<dyn SubagentSpawner> = Arc::new(Sending::new(
            self.clone(),
            envelope.clone(),
            run_id,
            (&context.model, owners_alone),
            run.slot.clone(),
        ));
        let history =
            |entries: &[Entry]| form.map_or_else(Vec::new, |form| form.history.shown(entries));
        let rounds = AtomicU32::new(0);
        let next = |answer: &str| plan::answer::next(answer, &rounds);
        // Where others are spoken with nobody is kept waiting for the owner.
        let may_wait = |call: &ToolCall| owners_alone && !plan::answer::is_retrieve(call);
        let order = Order {
            spawner: Some(spawner),
            form: form.map(|form| Form {
                history: &history,
                next: &next,
                may_wait: &may_wait,
                failed: &plan::answer::failed,
                schema: &form.schema,
            }),
            ..context.order(&asking, &reader)
        };
        let ended = context.live.agent.run(session, order).await;
        // Whatever is still asked of this turn is asked no more.
        asking.end().await;
        if !matches!(ended, TurnEnd::Waits(_)) {
            self.hide_notices(&ids);
        }
        if matches!(ended, TurnEnd::Failed { .. }) {
            self.count_failure(run_id).await;
        }
        let state = session.state();
        let is_new = state.compaction_count > compactions;
        if let Some(newest) = state.compacted.as_ref().filter(|_| is_new) {
            self.note_summary(newest.by);
        }
        ended
    }

    /// Returns what is to be recorded of a turn that ended so; `None` when it was stopped.
    fn outcome(&self, envelope: &Envelope, session_id: &str, ended: TurnEnd) -> Option<Outcome> {
        match ended {
            TurnEnd::Reply(reply) => Some(said(envelope, &reply.text, Some(&reply))),
            TurnEnd::Waits(_) => None,
            TurnEnd::Stopped => {
                // The code that stopped it has recorded the end already; its answer file may have been
                // written over by the "running" of this turn.
                if envelope.wants_reply {
                    self.answer(&Reply::error(&envelope.id, STOPPED));
                }
                None
            }
            TurnEnd::Failed {
                reason,
                timed_out,
                receipts,
            } => {
                tracing::error!(reason, session = session_id, "a turn failed");
                let ending = if timed_out {
                    Ending::Timeout
                } else {
                    Ending::Error
                };
                let outcome = self.failed(envelope, &reason, &receipts);
                Some(outcome.ending_in(ending))
            }
        }
    }

    pub(crate) async fn turn_context<'a>(
        &self,
        live: &'a Arc<Live>,
        envelope: &'a Envelope,
        run_id: &'a str,
        run: &'a Run,
        session: &Session,
    ) -> TurnContext<'a> {
        let people = self.people.read().unwrap_or_default();
        let same_person = same_person(live, &people, envelope);
        let viewer = Viewer::of(envelope, &|id: &str| self.is_owner(live, id))
            .and_persons(same_person.clone());
        let model = model_for(live, envelope, session);
        let (system, sections) = {
            let (context, live, model, envelope) = (
                self.prompt.clone(),
                live.clone(),
                model.clone(),
                envelope.clone(),
            );
            let owners_alone = viewer.may_see(&Scope::Owner);
            // Many files may be looked at, and skills hashed.
            let work = move || {
                context.sections(
                    &live.config,
                    live.agent.client().models(),
                    &model,
                    &envelope,
                    owners_alone,
                )
            };
            crate::sys::blocking(work).await
        };
        TurnContext {
            live,
            envelope,
            run_id,
            run,
            viewer,
            same_person,
            model,
            system,
            sections,
            looks: Budget::default(),
        }
    }

    /// Returns true for the id of an owner; while people.json cannot be read, for those alone whom the
    /// configuration names.
    pub(crate) fn is_owner(&self, live: &Live, id: &str) -> bool {
        if id == MAIN {
            let config = &live.config;
            let mut channels = config.open_channels();
            // While nobody can tell who may talk, somebody else may.
            return !channels.any(|channel| config.dm_policy(channel) == DmPolicy::Open)
                && self
                    .people
                    .read()
                    .is_ok_and(|people| people.guests(config).next().is_none());
        }
        let people = self.people.read().unwrap_or_default();
        if let Some(person) = id.strip_prefix(JOINED) {
            // Anyone who has one of the ids can read all of it.
            let session = &live.config.session;
            let is_known = session.identity_links.contains_key(person);
            let links = session.identity_links.get(person).into_iter().flatten();
            // Names in the shell and over HTTP are the owner's anyway.
            let mut ids = links.filter_map(|link| Address::parse(link));
            return is_known && ids.all(|id| people.is_owner(&live.config, &id));
        }
        Address::parse(id).is_some_and(|id| people.is_owner(&live.config, &id))
    }
}

/// Returns the ids that are the sender's as well, by a code or by the settings.
fn same_person(live: &Live, people: &People, envelope: &Envelope) -> Vec<String> {
    let session = &live.config.session;
    let address = Address::parse(&envelope.sender.id).filter(|_| envelope.source.is_chat());
    let accounts = address.map_or_else(Vec::new, |id| people.accounts_of(&id));
    let mut persons: Vec<&str> = accounts
        .iter()
        .filter_map(|id| session.person_of(id.channel(), &id.id()))
        .collect();
    if accounts.is_empty() {
        persons.extend(session.person_of(envelope.source.as_str(), &envelope.sender.id));
    }
    let links = persons
        .into_iter()
        .filter_map(|person| session.identity_links.get(person))
        .flatten();
    let joined = links.filter_map(|link| match Address::parse(link) {
        Some(address) => Some(address.to_string()),
        None => link.split_once(':').map(|(_, id)| id.to_owned()),
    });
    let linked = accounts.iter().map(Address::to_string);
    let mut ids: Vec<String> = linked.filter(|id| *id != envelope.sender.id).collect();
    ids.extend(joined);
    ids
}

/// Revokes the choice of a model that is no longer configured, and returns the notice for the owner.
async fn leave_gone_model(
    live: &Live,
    envelope: &Envelope,
    session: &mut Session,
) -> Option<String> {
    let models = live.agent.client().models();
    let gone = session.state().chosen_model.clone();
    let gone = gone.filter(|name| models.get(name, "/model").is_err())?;
    let is_told = envelope.from_owner && envelope.group.is_none() && envelope.source.is_person();
    if !is_told || envelope.model.is_some() {
        return None;
    }
    let kinds = vec![Kind::Setting { model: None }];
    if let Err(error) = session.append(kinds, false).await {
        tracing::warn!(%error, "cannot record that the chosen model of a conversation is no longer configured; the notice is repeated");
    }
    let answers = model_for(live, envelope, session);
    Some(format!(
        "The model `{gone}` of this conversation is no longer configured: `{answers}` answers. /model selects another"
    ))
}

/// The model the caller named, else the one chosen for the conversation, else the one of the source, else
/// `primary`. One that is no longer configured is not asked for.
pub(crate) fn model_for(live: &Live, envelope: &Envelope, session: &Session) -> String {
    let models = live.agent.client().models();
    let chosen = session
        .state()
        .chosen_model
        .clone()
        .filter(|name| models.get(name, "/model").is_ok());
    let routed = || {
        models
            .for_role(envelope.source.role())
            .map(|model| model.name.clone())
    };
    envelope
        .model
        .clone()
        .or(chosen)
        .or_else(routed)
        .unwrap_or_else(|| "primary".to_owned())
}
