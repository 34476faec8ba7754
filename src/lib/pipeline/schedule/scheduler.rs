//! Step 2, lanes: each session's turns one after the other, sessions side by side.
//!
//! [`Lanes`] only decides; [`drive`] acts on its decisions. A panic in a turn or a command ends only that one.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::debounce;
use super::debounce::{Gather, TurnInputs};
use super::lanes::Lanes;
use super::slots::Slot;
use crate::clock::Alarm;
use crate::config::OnBusy;
use crate::message::{Command, Route, SessionKey, Source, Trust};
use crate::pipeline::commands::immediate;
use crate::pipeline::persist::{Unrecorded, isolated};
use crate::pipeline::{Live, Pipeline, Run, Signal, Waiting};
use crate::pipeline::{plan, turn};
use crate::queue::Accepted;

/// How often the scheduler looks while a turn waits: a machine that slept is noticed.
const LOOK: Duration = Duration::from_secs(30);
/// The same while nobody waits.
const IDLE: Duration = Duration::from_secs(3600);
/// No turn waits longer than this before it is tried.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// A turn in its lane. However it ends, its slot is released and its lane continues.
struct LaneTurn {
    pipeline: Arc<Pipeline>,
    key: SessionKey,
    slot: Option<Slot>,
}

impl Drop for LaneTurn {
    fn drop(&mut self) {
        self.pipeline.runs().remove(&self.key);
        drop(self.slot.take());
        let _ = self.pipeline.signals.send(Signal::Ended(self.key.clone()));
    }
}

/// Runs one turn. A panic ends this turn and nothing else; its person is told.
async fn run_turn(pipeline: Arc<Pipeline>, inputs: TurnInputs, slot: Slot, superseded: bool) {
    let handle = slot.handle();
    let _turn = LaneTurn {
        pipeline: pipeline.clone(),
        key: inputs.key().clone(),
        slot: Some(slot),
    };
    let turn = turn::run::run(pipeline.clone(), inputs.clone(), handle, superseded);
    if isolated(turn).await.is_ok() {
        return;
    }
    let (told, broken) = (pipeline.clone(), inputs.clone());
    // What is said about it may meet the same bug.
    if isolated(async move { told.broke_down(&broken).await })
        .await
        .is_err()
    {
        pipeline
            .dead_letter_inputs(inputs.leader(), inputs.ids())
            .await;
    }
}

/// Carries out a command that does not wait for its lane. One that panics becomes a dead letter.
async fn run_command(pipeline: Arc<Pipeline>, row: Accepted) {
    let envelope = row.envelope.clone();
    if isolated(immediate::at_once(pipeline.clone(), row))
        .await
        .is_err()
    {
        let ids = vec![envelope.id.clone()];
        pipeline.dead_letter_inputs(&envelope, ids).await;
    }
}

/// As many lines of commands for chats there are: each has a task, and a home may have ten thousand chats.
const LINES: u64 = 64;

/// Carries out the commands whose order matters, one after the other.
async fn run_in_order(pipeline: Arc<Pipeline>, mut commands: mpsc::UnboundedReceiver<Accepted>) {
    while let Some(row) = commands.recv().await {
        run_command(pipeline.clone(), row).await;
    }
}

/// Works off the queue until the daemon closes; then lets running turns end.
///
/// A turn that has not ended when `patience` is over is broken off; it resumes after the restart,
/// and that is not a death of its.
pub async fn drive(pipeline: Arc<Pipeline>, patience: Duration) {
    let signals = pipeline.scheduled.lock().take();
    let mut signals = signals.expect("the path has one scheduler");
    let mut scheduler = Scheduler {
        gather: Gather::default(),
        lanes: Lanes::default(),
        tasks: JoinSet::new(),
        in_order: HashMap::new(),
        decisions: Vec::new(),
        pipeline: pipeline.clone(),
    };
    let slots = scheduler.lanes.slots();
    loop {
        let live = pipeline.live();
        let (outages, settles) = (live.agent.client().outages(), live.agent.client().settled());
        let mut news = pin!(outages.changed().notified());
        let mut settled = pin!(settles.notified());
        news.as_mut().enable();
        settled.as_mut().enable();
        scheduler.start_turns(&live);
        let due = scheduler
            .gather
            .due()
            .into_iter()
            .chain(scheduler.lanes.due());
        let look = if scheduler.lanes.somebody_waits() {
            LOOK
        } else {
            IDLE
        };
        let due = due.fold(Instant::now() + look, Instant::min);
        tokio::select! {
            biased;
            () = pipeline.closing.cancelled() => break,
            Some(signal) = signals.recv() => scheduler.take(signal).await,
            () = slots.changed() => {}
            () = news => {}
            () = settled => scheduler.lanes.budget_changed(),
            Some(_) = scheduler.tasks.join_next() => {}
            () = tokio::time::sleep_until(due) => scheduler.enter_gathered().await,
        }
    }
    scheduler.drain(patience).await;
}

struct Scheduler {
    pipeline: Arc<Pipeline>,
    gather: Gather,
    lanes: Lanes,
    tasks: JoinSet<()>,
    /// Commands whose order matters: those for chats, which share [`LINES`], and those about jobs.
    in_order: HashMap<Option<u64>, mpsc::UnboundedSender<Accepted>>,
    /// What the owner decided and is being written down.
    decisions: Vec<JoinHandle<()>>,
}

impl Scheduler {
    /// Starts what may start.
    fn start_turns(&mut self, live: &Live) {
        let client = live.agent.client();
        self.lanes
            .wake_due(Instant::now(), &|model| client.answers(model));
        let limit = live.config.agent.max_concurrent_runs;
        let collect = live.config.pipeline.on_busy != OnBusy::Queue;
        self.lanes.slots().give_back(limit);
        while let Some((inputs, slot)) = self.lanes.next(limit, collect) {
            let (key, leader) = (inputs.key(), inputs.leader());
            // Of several messages only the newest is answered with a plan.
            let superseded = plan::is_planned(live, leader)
                && debounce::is_chat_message(leader)
                && (self.lanes.is_superseded(key) || self.gather.waits(key));
            self.tasks
                .spawn(run_turn(self.pipeline.clone(), inputs, slot, superseded));
        }
    }

    async fn take(&mut self, signal: Signal) {
        match signal {
            Signal::Ended(key) => self.lanes.ended(&key),
            Signal::Suspended(inputs) => self.suspend(inputs),
            Signal::Wake(key) => self.lanes.wake(&key),
            Signal::Reloaded => self.lanes.settings_changed(),
            Signal::Recovered(turns) => {
                for inputs in turns {
                    if inputs.wake_at().is_none() {
                        self.lanes.push(inputs);
                        continue;
                    }
                    if let Some(suspended) = inputs.suspended() {
                        self.pipeline.recall_outage(suspended);
                    }
                    self.suspend(inputs);
                }
            }
            Signal::Accepted(rows) => {
                if let Some(newest) = rows.iter().max_by_key(|row| row.seq) {
                    self.pipeline.note_newest(newest);
                }
                for row in rows {
                    self.accept(row).await;
                }
            }
        }
    }

    fn suspend(&mut self, inputs: TurnInputs) {
        let wait = inputs.wake_at().unwrap_or(0) - crate::clock::now_ms();
        let wait = Duration::from_millis(u64::try_from(wait).unwrap_or(0));
        // A clock that was set back does not make a turn wait for years.
        let wait = wait.min(LONGEST);
        if let (Some(run_id), Some(suspended)) = (inputs.run_id(), inputs.suspended()) {
            let waiting = Waiting {
                session: inputs.key().clone(),
                run_id: run_id.to_owned(),
                suspended: suspended.clone(),
            };
            self.pipeline
                .waiting
                .lock()
                .insert(inputs.key().clone(), waiting);
            self.pipeline.changed.notify_one();
        }
        let key = inputs.key().clone();
        self.lanes.suspend(inputs, Alarm::at(Instant::now() + wait));
        self.tell_those_behind(&key);
    }

    /// Says the words of reminders that wait behind a turn that waits, and tells the first person there what it waits for
    /// when no person wrote it: of that nobody was told.
    fn tell_those_behind(&self, key: &SessionKey) {
        let Some(before) = self.lanes.suspended(key) else {
            return;
        };
        let is_job = |inputs: &&TurnInputs| inputs.leader().source == Source::Job;
        if let Some(suspended) = before.suspended() {
            for inputs in self.lanes.behind(key).filter(is_job) {
                let (pipeline, why) = (self.pipeline.clone(), suspended.waits_for.clone());
                let reminder = inputs.leader().clone();
                tokio::spawn(async move { pipeline.remind_without_model(&reminder, &why).await });
            }
        }
        if let Some(first) = self.lanes.first_person(key)
            && !before.leader().source.is_person()
        {
            self.pipeline.tell_behind(first.leader(), before);
        }
    }

    async fn accept(&mut self, mut row: Accepted) {
        if let Some(answer) = self.pipeline.plain_answer(&row.envelope).await {
            row.envelope.command = Some(answer);
        }
        match &row.envelope.command {
            // Words for people go out, and jobs are changed, in the order in which they came.
            Some(Command::Deliver { .. } | Command::Sticker { .. }) => {
                self.in_order(row.envelope.route.clone(), row)
            }
            Some(Command::Job(_)) => self.in_order(None, row),
            Some(command) if command.at_once() => {
                let is_decision = matches!(command, Command::Approval { .. });
                let running = tokio::spawn(run_command(self.pipeline.clone(), row));
                if is_decision {
                    self.decisions.retain(|decision| !decision.is_finished());
                    self.decisions.push(running);
                }
            }
            _ => self.gather(row).await,
        }
    }

    /// Has a command carried out after those that came before it for the same chat: hardly a chat waits for another.
    fn in_order(&mut self, chat: Option<Route>, row: Accepted) {
        let number = chat.map(|chat| {
            let mut hasher = DefaultHasher::new();
            chat.hash(&mut hasher);
            hasher.finish() % LINES
        });
        let line = self.in_order.entry(number).or_insert_with(|| {
            let (line, commands) = mpsc::unbounded_channel();
            self.tasks
                .spawn(run_in_order(self.pipeline.clone(), commands));
            line
        });
        drop(line.send(row));
    }

    async fn gather(&mut self, row: Accepted) {
        let key = row.envelope.session_key.clone();
        if self.lanes.is_busy(&key) {
            mark_as_heard(&self.pipeline, &row);
        }
        let waits = self.pipeline.runs().get(&key).is_some_and(Run::waits);
        if waits && may_answer(&row) {
            // A yes that came before these words stands.
            for decision in self.decisions.drain(..) {
                let _ = decision.await;
            }
            self.pipeline.leave_unanswered(&key).await;
        }
        let live = self.pipeline.live();
        let pause = if plan::is_planned(&live, &row.envelope) {
            live.config.agent.plan_pause_ms
        } else {
            0
        };
        let debounce = Duration::from_millis(live.config.pipeline.debounce_ms.max(pause));
        for inputs in self.gather.push(row, debounce, Instant::now()) {
            self.enter(inputs).await;
        }
    }

    async fn enter_gathered(&mut self) {
        for inputs in self.gather.ready(Instant::now()) {
            self.enter(inputs).await;
        }
    }

    /// Puts a turn into its lane; one that interrupts ends the turn that runs there.
    async fn enter(&mut self, inputs: TurnInputs) {
        let running = self.pipeline.runs().get(inputs.key()).cloned();
        let live = self.pipeline.live();
        let on_busy = live.config.pipeline.on_busy;
        let gives_way = |run: &Run| {
            let (before, next) = (run.inputs.leader(), inputs.leader());
            let replans = on_busy == OnBusy::Replan
                && plan::is_planned(&live, next)
                && debounce::is_chat_message(before)
                && debounce::is_chat_message(next);
            (replans || on_busy == OnBusy::Interrupt && debounce::go_together(before, next))
                // One that has answered gives way to nobody: it makes room for this very message.
                && !run.answered.load(Ordering::Relaxed)
        };
        let waiting = self.lanes.suspended(inputs.key()).filter(|waiting| {
            on_busy == OnBusy::Interrupt && debounce::go_together(waiting.leader(), inputs.leader())
        });
        let waiting = waiting.map(|waiting| (waiting.ids(), None));
        let running = running.filter(gives_way);
        let running = running.map(|run| (run.inputs.ids(), Some(run)));
        for (ids, run) in waiting.into_iter().chain(running) {
            let queue = &self.pipeline.queue;
            // First the record, then the end: a run that ends now finds that it has nothing to say.
            let interrupt = || queue.interrupt(&ids, crate::clock::now_ms());
            match self.pipeline.persist("an interruption", interrupt).await {
                Ok(()) => {
                    if let Some(run) = run {
                        run.interrupted.store(true, Ordering::Relaxed);
                        run.cancel.cancel();
                    }
                    self.lanes.wake(inputs.key());
                }
                Err(Unrecorded::Ending) => return,
                // The turn that runs ends by itself, and this one follows it.
                Err(Unrecorded::Failed(_)) => {}
            }
        }
        let (key, leader) = (inputs.key().clone(), inputs.leader());
        let is_told = (leader.command.is_some() && !inputs.is_choice()) || leader.wants_reply;
        if let Some(before) = self.lanes.suspended(&key).filter(|_| is_told) {
            self.pipeline.tell_behind(leader, before);
        }
        self.lanes.push(inputs);
        self.tell_those_behind(&key);
    }

    /// Lets running turns end, and breaks off those that take longer than `patience`. What waits for the owner
    /// continues waiting after the next start.
    async fn drain(self, patience: Duration) {
        let Self {
            pipeline,
            mut tasks,
            in_order,
            ..
        } = self;
        drop(in_order);
        let count = |waits: bool| {
            let runs = pipeline.runs();
            runs.values().filter(|run| run.waits() == waits).count()
        };
        let all_ended = async {
            while count(false) > 0 {
                tokio::select! {
                    ended = tasks.join_next() => if ended.is_none() { return },
                    () = tokio::time::sleep(Duration::from_millis(20)) => {}
                }
            }
            if count(true) == 0 {
                while tasks.join_next().await.is_some() {}
            }
        };
        let is_late = tokio::time::timeout(patience, all_ended).await.is_err();
        if !is_late && count(true) == 0 {
            return;
        }
        let broken: Vec<Vec<String>> = {
            let runs = pipeline.runs();
            runs.values().map(|run| run.inputs.ids()).collect()
        };
        tasks.abort_all();
        while tasks.join_next().await.is_some() {}
        for ids in broken {
            if let Err(error) = pipeline.queue.release_run(&ids).await {
                tracing::error!(%error, ?ids, "an interrupted turn is counted as a crash");
            }
        }
    }
}

/// Returns true for the owner's own words: in a conversation that waits for their yes they come in place of it.
fn may_answer(row: &Accepted) -> bool {
    let envelope = &row.envelope;
    envelope.from_owner && envelope.trust == Trust::Owner && envelope.source.is_person()
}

/// Shows the sender of a message that waits behind a turn that it was heard.
fn mark_as_heard(pipeline: &Arc<Pipeline>, row: &Accepted) {
    let (Some((channel, route)), Some(message)) = (
        pipeline.channel(&row.envelope),
        row.envelope.reply_to.clone(),
    ) else {
        return;
    };
    let emoji = pipeline.live().config.display(&route.channel).ack_reaction;
    if emoji.is_empty() {
        return;
    }
    tokio::spawn(async move {
        if let Err(error) = channel.mark(&route.chat, &message, &emoji).await {
            tracing::debug!(%error, "a message could not be marked as heard");
        }
    });
}
