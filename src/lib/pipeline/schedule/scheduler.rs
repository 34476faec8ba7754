//! Step 2, lanes: each session's turns one after the other, sessions side by side.
//!
//! [`Lanes`] decides and does nothing else; [`drive`] does what it decides.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::debounce;
use super::debounce::{Bundle, Gather};
use crate::config::OnBusy;
use crate::message::{Command, Envelope, SessionKey, Trust};
use crate::pipeline::{Pipeline, Signal};
use crate::queue::Accepted;

/// Who may start next.
#[derive(Debug, Default)]
struct Lanes {
    waiting: HashMap<SessionKey, VecDeque<Bundle>>,
    /// Sessions with waiting inputs, in the order of their next turn.
    round: VecDeque<SessionKey>,
    running: HashSet<SessionKey>,
    /// Those of them that wait for the owner's word and take no place.
    parked: HashSet<SessionKey>,
    /// Those that want their place back.
    returning: VecDeque<(SessionKey, oneshot::Sender<()>)>,
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

    /// Returns the next turn while fewer than `limit` lanes run; each session in its order, people
    /// before events. An event never takes the last free place, unless there is only one. With
    /// `collect` everything of one person that waits in the lane is one turn.
    fn next(&mut self, limit: usize, collect: bool) -> Option<Bundle> {
        let free = limit.saturating_sub(self.places());
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
        Some(bundle)
    }

    /// Returns the places that are taken.
    fn places(&self) -> usize {
        self.running.len().saturating_sub(self.parked.len())
    }

    /// Gives places back to turns that waited, before any new one begins.
    fn give_back(&mut self, limit: usize) {
        while self.places() < limit
            && let Some((key, place)) = self.returning.pop_front()
        {
            self.parked.remove(&key);
            // A turn that was stopped meanwhile wants none.
            let _ = place.send(());
        }
    }

    fn is_busy(&self, key: &SessionKey) -> bool {
        self.running.contains(key)
    }

    fn ended(&mut self, key: &SessionKey) {
        self.running.remove(key);
        self.parked.remove(key);
        self.returning.retain(|(returning, _)| returning != key);
        match self.waiting.get(key) {
            Some(lane) if !lane.is_empty() => self.round.push_back(key.clone()),
            _ => {
                self.waiting.remove(key);
            }
        }
    }
}

/// One turn, and the word to the lanes that it is over.
async fn work_on(pipeline: Arc<Pipeline>, bundle: Bundle) {
    // A task of its own, so that a panic ends this turn and nothing else.
    let turn = tokio::spawn(crate::pipeline::turn::run::run(
        pipeline.clone(),
        bundle.clone(),
    ));
    if let Err(panic) = AbortOnDropHandle::new(turn).await {
        tracing::error!(%panic, session = %bundle.key(), "a turn broke down");
        pipeline.broke_down(&bundle).await;
    }
    pipeline.runs().remove(bundle.key());
    let _ = pipeline.signals.send(Signal::Ended(bundle.key().clone()));
}

/// Works off the queue until the daemon closes; then lets running turns end.
///
/// A turn that has not ended when `patience` is over is broken off; it goes on after the restart,
/// and that is no death of its.
pub async fn drive(
    pipeline: Arc<Pipeline>,
    mut signals: mpsc::UnboundedReceiver<Signal>,
    patience: Duration,
) {
    let (mut gather, mut lanes) = (Gather::default(), Lanes::default());
    let mut turns = JoinSet::new();
    let (deliver, mut ready) = mpsc::unbounded_channel::<Accepted>();
    let own = pipeline.clone();
    turns.spawn(async move {
        while let Some(row) = ready.recv().await {
            crate::pipeline::commands::immediate::at_once(own.clone(), row).await;
        }
    });
    loop {
        let live = pipeline.live();
        let on_busy = live.config.pipeline.on_busy;
        lanes.give_back(live.config.agent.max_concurrent_runs);
        while let Some(bundle) = lanes.next(
            live.config.agent.max_concurrent_runs,
            on_busy != OnBusy::Queue,
        ) {
            turns.spawn(work_on(pipeline.clone(), bundle));
        }
        let whole = match gather.due() {
            Some(due) => tokio::time::sleep_until(due),
            None => tokio::time::sleep(Duration::from_secs(3600)),
        };
        tokio::select! {
            biased;
            () = pipeline.closing.cancelled() => break,
            Some(signal) = signals.recv() => match signal {
                Signal::Ended(key) => lanes.ended(&key),
                Signal::Parked(key) => {
                    if lanes.is_busy(&key) {
                        lanes.parked.insert(key);
                    }
                }
                Signal::Returning(key, place) => lanes.returning.push_back((key, place)),
                Signal::Recovered(bundles) => bundles.into_iter().for_each(|bundle| lanes.push(bundle)),
                Signal::Accepted(rows) => {
                    let debounce = Duration::from_millis(live.config.pipeline.debounce_ms);
                    for row in rows {
                        match &row.envelope.command {
                            // Words for people go out, and jobs are changed, in the order in which they came.
                            Some(Command::Deliver { .. } | Command::Job(_)) => drop(deliver.send(row)),
                            Some(command) if command.at_once() => {
                                tokio::spawn(crate::pipeline::commands::immediate::at_once(pipeline.clone(), row));
                            }
                            _ => {
                                if lanes.is_busy(&row.envelope.session_key) {
                                    heard(&pipeline, &row);
                                }
                                if answers_otherwise(&lanes, &row) {
                                    pipeline.deny_parked(&row.envelope.session_key).await;
                                }
                                for bundle in gather.push(row, debounce, Instant::now()) {
                                    enter(&pipeline, &mut lanes, bundle, on_busy).await;
                                }
                            }
                        }
                    }
                }
            },
            Some(_) = turns.join_next() => {}
            () = whole => {
                for bundle in gather.ready(Instant::now()) {
                    enter(&pipeline, &mut lanes, bundle, on_busy).await;
                }
            }
        }
    }
    drop(deliver);
    // What waits for the owner goes on waiting after the next start.
    let all_ended = async {
        while pipeline.runs().len() > pipeline.parked().len() {
            tokio::select! {
                ended = turns.join_next() => if ended.is_none() { return },
                () = tokio::time::sleep(Duration::from_millis(20)) => {}
            }
        }
        if pipeline.parked().is_empty() {
            while turns.join_next().await.is_some() {}
        }
    };
    let is_late = tokio::time::timeout(patience, all_ended).await.is_err();
    if is_late || !pipeline.parked().is_empty() {
        turns.abort_all();
        while turns.join_next().await.is_some() {}
        let broken: Vec<Vec<String>> = pipeline
            .runs()
            .values()
            .map(|run| run.bundle.ids())
            .collect();
        for ids in broken {
            if let Err(error) = pipeline.queue.release_run(&ids).await {
                tracing::error!(%error, ?ids, "a broken off turn counts as a death");
            }
        }
    }
}

/// Puts a turn into its lane; one that interrupts ends the turn that runs there.
async fn enter(pipeline: &Arc<Pipeline>, lanes: &mut Lanes, bundle: Bundle, on_busy: OnBusy) {
    let running = pipeline.runs().get(bundle.key()).cloned();
    if let Some(run) = running
        .filter(|run| {
            on_busy == OnBusy::Interrupt
                && debounce::go_together(run.bundle.leader(), bundle.leader())
        })
        // One that has answered gives way to nobody: it makes room for this very message.
        .filter(|run| !run.answered.load(Ordering::Relaxed))
    {
        let ids = run.bundle.ids();
        // First the record, then the end: a run that ends now finds that it has nothing to say.
        if pipeline
            .persist("an interruption", || {
                pipeline.queue.interrupt(&ids, crate::clock::now_ms())
            })
            .await
            .is_none()
        {
            return;
        }
        run.interrupted.store(true, Ordering::Relaxed);
        run.cancel.cancel();
    }
    lanes.push(bundle);
}

/// Returns true for the owner's own words in a conversation that waits for their yes: they are an answer.
fn answers_otherwise(lanes: &Lanes, row: &Accepted) -> bool {
    let Envelope {
        session_key,
        from_owner,
        trust,
        source,
        ..
    } = &row.envelope;
    lanes.parked.contains(session_key)
        && *from_owner
        && *trust == Trust::Owner
        && source.is_person()
}

/// Shows the sender of a message that waits behind a turn that it was heard.
fn heard(pipeline: &Arc<Pipeline>, row: &Accepted) {
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
    use crate::message::{Sender, Source};

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

    fn started(lanes: &mut Lanes, limit: usize) -> Vec<i64> {
        std::iter::from_fn(|| lanes.next(limit, false))
            .map(|bundle| bundle.leader().id.parse().expect("a number"))
            .collect()
    }

    #[test]
    fn a_session_is_in_order_and_never_beside_itself() {
        let mut lanes = Lanes::default();
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
        assert!(lanes.waiting.is_empty() && lanes.running.is_empty() && lanes.round.is_empty());
    }

    #[test]
    fn a_talkative_session_does_not_hold_the_others_up() {
        let mut lanes = Lanes::default();
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
        let mut lanes = Lanes::default();
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
        let mut one = Lanes::default();
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
        let mut lanes = Lanes::default();
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
        let mut lanes = Lanes::default();
        for seq in 1..=6 {
            lanes.push(row(&seq.to_string(), seq));
        }
        assert_eq!(started(&mut lanes, 4), [1, 2, 3, 4]);
        lanes.ended(&SessionKey("2".into()));
        assert_eq!(started(&mut lanes, 4), [5]);
    }
}
