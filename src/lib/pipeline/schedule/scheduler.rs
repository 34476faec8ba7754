//! Step 2, lanes: each session's turns one after the other, sessions side by side.
//!
//! [`Lanes`] decides and does nothing else; [`drive`] does what it decides. A panic in a turn or a command ends
//! that one alone.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::debounce;
use super::debounce::{Bundle, Gather};
use super::slots::{Slot, Slots};
use crate::config::OnBusy;
use crate::message::{Command, SessionKey, Trust};
use crate::pipeline::commands::immediate;
use crate::pipeline::retry::{Unrecorded, isolated};
use crate::pipeline::{Pipeline, Run, Signal};
use crate::pipeline::{plan, turn};
use crate::queue::Accepted;

/// Who may start next.
#[derive(Debug, Default)]
struct Lanes {
    waiting: HashMap<SessionKey, VecDeque<Bundle>>,
    /// Sessions with waiting inputs, in the order of their next turn.
    round: VecDeque<SessionKey>,
    running: HashSet<SessionKey>,
    slots: Slots,
}

impl Lanes {
    fn push(&mut self, bundle: Bundle) {
        let key = bundle.key().clone();
        let lane = self.waiting.entry(key.clone()).or_default();
        lane.push_back(bundle);
        if lane.len() == 1 && !self.running.contains(&key) {
            self.round.push_back(key);
        }
    }

    /// Returns the next turn and its slot while fewer than `limit` are in use; each session in its order, people
    /// before events. An event never takes the last free place, unless there is only one. With
    /// `collect` everything of one person that waits in the lane is one turn.
    fn next(&mut self, limit: usize, collect: bool) -> Option<(Bundle, Slot)> {
        let free = limit.saturating_sub(self.slots.used());
        if free == 0 {
            return None;
        }
        // Also when an event stands before the person in their own lane.
        let of_person = |key: &SessionKey| {
            self.waiting
                .get(key)
                .is_some_and(|lane| lane.iter().any(|bundle| bundle.leader().source.is_person()))
        };
        let person = self.round.iter().position(of_person);
        let at = person.or_else(|| (free > 1 || limit == 1).then_some(0))?;
        let key = self.round.remove(at)?;
        let lane = self.waiting.get_mut(&key)?;
        let mut bundle = lane.pop_front()?;
        while collect && let Some(more) = lane.pop_front() {
            if let Err(other) = bundle.join(more) {
                lane.push_front(other);
                break;
            }
        }
        self.running.insert(key);
        Some((bundle, self.slots.take()))
    }

    /// Returns true when a newer message waits behind the turn of `key` that starts.
    fn is_superseded(&self, key: &SessionKey) -> bool {
        let lane = self.waiting.get(key);
        lane.is_some_and(|lane| lane.iter().any(|bundle| plan::gives_way(bundle.leader())))
    }

    fn is_busy(&self, key: &SessionKey) -> bool {
        self.running.contains(key)
    }

    fn ended(&mut self, key: &SessionKey) {
        self.running.remove(key);
        match self.waiting.get(key) {
            Some(lane) if !lane.is_empty() => self.round.push_back(key.clone()),
            _ => {
                self.waiting.remove(key);
            }
        }
    }
}

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
async fn run_turn(pipeline: Arc<Pipeline>, bundle: Bundle, slot: Slot, superseded: bool) {
    let handle = slot.handle();
    let _turn = LaneTurn {
        pipeline: pipeline.clone(),
        key: bundle.key().clone(),
        slot: Some(slot),
    };
    let turn = turn::run::run(pipeline.clone(), bundle.clone(), handle, superseded);
    if isolated(turn).await.is_ok() {
        return;
    }
    let (told, broken) = (pipeline.clone(), bundle.clone());
    // What is said about it may meet the same bug.
    if isolated(async move { told.broke_down(&broken).await })
        .await
        .is_err()
    {
        pipeline
            .dead_letter_inputs(bundle.leader(), bundle.ids())
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

/// Carries out the commands whose order matters, one after the other.
async fn run_in_order(pipeline: Arc<Pipeline>, mut commands: mpsc::UnboundedReceiver<Accepted>) {
    while let Some(row) = commands.recv().await {
        run_command(pipeline.clone(), row).await;
    }
}

/// Works off the queue until the daemon closes; then lets running turns end.
///
/// A turn that has not ended when `patience` is over is broken off; it resumes after the restart,
/// and that is no death of its.
pub async fn drive(pipeline: Arc<Pipeline>, patience: Duration) {
    let signals = pipeline.scheduled.lock().take();
    let mut signals = signals.expect("the path has one scheduler");
    let (in_order, commands) = mpsc::unbounded_channel::<Accepted>();
    let mut scheduler = Scheduler {
        gather: Gather::default(),
        lanes: Lanes::default(),
        tasks: JoinSet::new(),
        in_order,
        pipeline: pipeline.clone(),
    };
    scheduler
        .tasks
        .spawn(run_in_order(pipeline.clone(), commands));
    let slots = scheduler.lanes.slots.clone();
    loop {
        scheduler.start_turns();
        let due = scheduler.gather.due();
        let due = due.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
        tokio::select! {
            biased;
            () = pipeline.closing.cancelled() => break,
            Some(signal) = signals.recv() => scheduler.take(signal).await,
            () = slots.changed() => {}
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
    /// Commands whose order matters.
    in_order: mpsc::UnboundedSender<Accepted>,
}

impl Scheduler {
    /// Starts what may start.
    fn start_turns(&mut self) {
        let live = self.pipeline.live();
        let limit = live.config.agent.max_concurrent_runs;
        let collect = live.config.pipeline.on_busy != OnBusy::Queue;
        self.lanes.slots.give_back(limit);
        while let Some((bundle, slot)) = self.lanes.next(limit, collect) {
            let (key, leader) = (bundle.key(), bundle.leader());
            // Of several messages only the newest is answered with a plan.
            let superseded = plan::is_planned(&live, leader)
                && plan::gives_way(leader)
                && (self.lanes.is_superseded(key) || self.gather.waits(key));
            self.tasks
                .spawn(run_turn(self.pipeline.clone(), bundle, slot, superseded));
        }
    }

    async fn take(&mut self, signal: Signal) {
        match signal {
            Signal::Ended(key) => self.lanes.ended(&key),
            Signal::Recovered(bundles) => {
                bundles
                    .into_iter()
                    .for_each(|bundle| self.lanes.push(bundle));
            }
            Signal::Accepted(rows) => {
                for row in rows {
                    self.accept(row).await;
                }
            }
        }
    }

    async fn accept(&mut self, row: Accepted) {
        match &row.envelope.command {
            // Words for people go out, and jobs are changed, in the order in which they came.
            Some(Command::Deliver { .. } | Command::Job(_)) => drop(self.in_order.send(row)),
            Some(command) if command.at_once() => {
                tokio::spawn(run_command(self.pipeline.clone(), row));
            }
            _ => self.gather(row).await,
        }
    }

    async fn gather(&mut self, row: Accepted) {
        let key = row.envelope.session_key.clone();
        if self.lanes.is_busy(&key) {
            mark_as_heard(&self.pipeline, &row);
        }
        let waits = self.pipeline.runs().get(&key).is_some_and(Run::waits);
        if waits && may_answer(&row) {
            self.pipeline.deny_waiting(&key).await;
        }
        let live = self.pipeline.live();
        let pause = if plan::is_planned(&live, &row.envelope) {
            live.config.agent.plan_pause_ms
        } else {
            0
        };
        let debounce = Duration::from_millis(live.config.pipeline.debounce_ms.max(pause));
        for bundle in self.gather.push(row, debounce, Instant::now()) {
            self.enter(bundle).await;
        }
    }

    async fn enter_gathered(&mut self) {
        for bundle in self.gather.ready(Instant::now()) {
            self.enter(bundle).await;
        }
    }

    /// Puts a turn into its lane; one that interrupts ends the turn that runs there.
    async fn enter(&mut self, bundle: Bundle) {
        let running = self.pipeline.runs().get(bundle.key()).cloned();
        let live = self.pipeline.live();
        let on_busy = live.config.pipeline.on_busy;
        let gives_way = |run: &Run| {
            let (before, next) = (run.bundle.leader(), bundle.leader());
            let replans = on_busy == OnBusy::Replan
                && plan::is_planned(&live, next)
                && plan::gives_way(before)
                && plan::gives_way(next);
            (replans || on_busy == OnBusy::Interrupt && debounce::go_together(before, next))
                // One that has answered gives way to nobody: it makes room for this very message.
                && !run.answered.load(Ordering::Relaxed)
        };
        if let Some(run) = running.filter(gives_way) {
            let (queue, ids) = (&self.pipeline.queue, run.bundle.ids());
            // First the record, then the end: a run that ends now finds that it has nothing to say.
            let interrupt = || queue.interrupt(&ids, crate::clock::now_ms());
            match self.pipeline.persist("an interruption", interrupt).await {
                Ok(()) => {
                    run.interrupted.store(true, Ordering::Relaxed);
                    run.cancel.cancel();
                }
                Err(Unrecorded::Ending) => return,
                // The turn that runs ends by itself, and this one follows it.
                Err(Unrecorded::Failed(_)) => {}
            }
        }
        self.lanes.push(bundle);
    }

    /// Lets running turns end, and breaks off those that take longer than `patience`. What waits for the owner
    /// goes on waiting after the next start.
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
            runs.values().map(|run| run.bundle.ids()).collect()
        };
        tasks.abort_all();
        while tasks.join_next().await.is_some() {}
        for ids in broken {
            if let Err(error) = pipeline.queue.release_run(&ids).await {
                tracing::error!(%error, ?ids, "a broken off turn counts as a death");
            }
        }
    }
}

/// Returns true for the owner's own words: in a conversation that waits for their yes they are an answer.
fn may_answer(row: &Accepted) -> bool {
    let envelope = &row.envelope;
    envelope.from_owner && envelope.trust == Trust::Owner && envelope.source.is_person()
}

/// Shows the sender of a message that waits behind a turn that it was heard.
fn mark_as_heard(pipeline: &Arc<Pipeline>, row: &Accepted) {
    let emoji = pipeline.live().config.telegram.ack_reaction.clone();
    let message = row.envelope.reply_to.clone().filter(|_| !emoji.is_empty());
    let (Some((channel, route)), Some(message)) = (pipeline.channel(&row.envelope), message) else {
        return;
    };
    tokio::spawn(async move {
        if let Err(error) = channel.mark(&route.chat, &message, &emoji).await {
            tracing::debug!(%error, "a message could not be marked as heard");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Envelope, Sender, Source};

    fn row(session: &str, seq: i64) -> Bundle {
        row_from(Source::Cli, session, seq)
    }

    fn row_from(source: Source, session: &str, seq: i64) -> Bundle {
        Bundle::of(Accepted {
            seq,
            attempts: 0,
            run_id: None,
            envelope: Envelope::new(
                seq.to_string(),
                source,
                Sender {
                    id: session.into(),
                    name: session.into(),
                    username: None,
                },
                SessionKey(session.into()),
                String::new(),
                0,
            ),
        })
    }

    /// Lanes with the slots of what runs in them.
    #[derive(Default)]
    struct Running(Lanes, HashMap<SessionKey, Slot>);

    impl Running {
        fn push(&mut self, bundle: Bundle) {
            self.0.push(bundle);
        }

        fn next(&mut self, limit: usize, collect: bool) -> Option<Bundle> {
            let (bundle, slot) = self.0.next(limit, collect)?;
            self.1.insert(bundle.key().clone(), slot);
            Some(bundle)
        }

        fn ended(&mut self, key: &SessionKey) {
            self.1.remove(key);
            self.0.ended(key);
        }
    }

    fn started(lanes: &mut Running, limit: usize) -> Vec<i64> {
        std::iter::from_fn(|| lanes.next(limit, false))
            .map(|bundle| bundle.leader().id.parse().expect("a number"))
            .collect()
    }

    #[test]
    fn a_session_is_in_order_and_never_beside_itself() {
        let mut lanes = Running::default();
        for seq in 1..=3 {
            lanes.push(row("a", seq));
        }
        assert_eq!(started(&mut lanes, 4), [1]);
        lanes.push(row("a", 4));
        assert_eq!(started(&mut lanes, 4), [] as [i64; 0]);
        for seq in 2..=4 {
            lanes.ended(&SessionKey("a".into()));
            assert_eq!(started(&mut lanes, 4), [seq]);
        }
        lanes.ended(&SessionKey("a".into()));
        let Lanes {
            waiting,
            running,
            round,
            ..
        } = &lanes.0;
        assert!(waiting.is_empty() && running.is_empty() && round.is_empty());
    }

    #[test]
    fn a_talkative_session_does_not_hold_the_others_up() {
        let mut lanes = Running::default();
        for seq in 1..=10 {
            lanes.push(row("loud", seq));
        }
        lanes.push(row("quiet", 11));
        assert_eq!(started(&mut lanes, 1), [1]);
        lanes.ended(&SessionKey("loud".into()));
        assert_eq!(started(&mut lanes, 1), [11]);
    }

    #[test]
    fn people_go_before_events_which_leave_a_place_free() {
        let mut lanes = Running::default();
        for seq in 1..=3 {
            lanes.push(row_from(Source::System, &seq.to_string(), seq));
        }
        lanes.push(row("ada", 4));
        assert_eq!(started(&mut lanes, 3), [4, 1]);
        lanes.push(row("bob", 5));
        assert_eq!(started(&mut lanes, 3), [5]);
        lanes.ended(&SessionKey("ada".into()));
        assert_eq!(started(&mut lanes, 3), [] as [i64; 0]);
        lanes.ended(&SessionKey("bob".into()));
        assert_eq!(started(&mut lanes, 3), [2]);
        let mut one = Running::default();
        one.push(row_from(Source::System, "x", 1));
        assert_eq!(
            started(&mut one, 1),
            [1],
            "the only place is not kept free for ever"
        );
    }

    #[test]
    fn what_waited_meanwhile_is_collected_into_one_turn() {
        let message = |seq: i64, sender: &str| {
            let mut row = Accepted {
                seq,
                attempts: 0,
                run_id: None,
                envelope: row("a", seq).leader().clone(),
            };
            row.envelope.sender.id = sender.to_owned();
            row.envelope.reply_to = Some(seq.to_string());
            Bundle::of(row)
        };
        let mut lanes = Running::default();
        lanes.push(message(1, "ada"));
        let ids = |bundle: Option<Bundle>| bundle.map(|bundle| bundle.ids().join(" "));
        assert_eq!(ids(lanes.next(4, true)).as_deref(), Some("1"));
        for (seq, sender) in [(2, "ada"), (3, "ada"), (4, "bob"), (5, "ada")] {
            lanes.push(message(seq, sender));
        }
        let mut turns = Vec::new();
        for _ in 0..3 {
            lanes.ended(&SessionKey("a".into()));
            turns.extend(ids(lanes.next(4, true)));
        }
        assert_eq!(turns, ["2 3", "4", "5"]);
    }

    #[test]
    fn no_more_than_the_limit_run() {
        let mut lanes = Running::default();
        for seq in 1..=6 {
            lanes.push(row(&seq.to_string(), seq));
        }
        assert_eq!(started(&mut lanes, 4), [1, 2, 3, 4]);
        lanes.ended(&SessionKey("2".into()));
        assert_eq!(started(&mut lanes, 4), [5]);
    }
}
