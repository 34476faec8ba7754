//! Step 2, lanes: each session's inputs one after the other, sessions side by side.
//!
//! [`Lanes`] decides and does nothing else; [`drive`] does what it decides.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use super::{Pipeline, Signal};
use crate::message::{Command, SessionKey};
use crate::queue::Accepted;

/// Who may start next.
#[derive(Debug, Default)]
struct Lanes {
    waiting: HashMap<SessionKey, VecDeque<Accepted>>,
    /// Sessions with waiting inputs, in the order of their next turn.
    round: VecDeque<SessionKey>,
    running: HashSet<SessionKey>,
}

impl Lanes {
    fn push(&mut self, row: Accepted) {
        let key = row.envelope.session_key.clone();
        let lane = self.waiting.entry(key.clone()).or_default();
        lane.push_back(row);
        if lane.len() == 1 && !self.running.contains(&key) {
            self.round.push_back(key);
        }
    }

    /// Returns the next input to work on while fewer than `limit` lanes run; each session in its
    /// turn, people before events. An event never takes the last free place, unless there is only
    /// one.
    fn next(&mut self, limit: usize) -> Option<Accepted> {
        let free = limit.saturating_sub(self.running.len());
        if free == 0 {
            return None;
        }
        // Also when an event stands before the person in their own lane.
        let of_person =
            |key: &SessionKey| self.waiting.get(key).is_some_and(|lane| lane.iter().any(|row| row.envelope.source.is_person()));
        let person = self.round.iter().position(of_person);
        let at = person.or_else(|| (free > 1 || limit == 1).then_some(0))?;
        let key = self.round.remove(at)?;
        let row = self.waiting.get_mut(&key)?.pop_front()?;
        self.running.insert(key);
        Some(row)
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

/// One turn, and the word to the lanes that it is over.
async fn work_on(pipeline: Arc<Pipeline>, row: Accepted) {
    let envelope = row.envelope.clone();
    // A task of its own, so that a panic ends this turn and nothing else.
    let turn = tokio::spawn(super::turn::run(pipeline.clone(), row));
    if let Err(panic) = AbortOnDropHandle::new(turn).await {
        tracing::error!(%panic, session = %envelope.session_key, "a turn broke down");
        pipeline.broke_down(&envelope).await;
    }
    pipeline.runs().remove(&envelope.session_key);
    let _ = pipeline.signals.send(Signal::Ended(envelope.session_key));
}

/// Works off the queue until the daemon closes; then lets running turns end.
///
/// A turn that has not ended when `patience` is over is broken off; it goes on after the restart,
/// and that is no death of its.
pub async fn drive(pipeline: Arc<Pipeline>, mut signals: mpsc::UnboundedReceiver<Signal>, patience: std::time::Duration) {
    let mut lanes = Lanes::default();
    let mut turns = JoinSet::new();
    let (deliver, mut ready) = mpsc::unbounded_channel::<Accepted>();
    let own = pipeline.clone();
    turns.spawn(async move {
        while let Some(row) = ready.recv().await {
            super::commands::at_once(own.clone(), row).await;
        }
    });
    loop {
        while let Some(row) = lanes.next(pipeline.live().config.agent.max_concurrent_runs) {
            turns.spawn(work_on(pipeline.clone(), row));
        }
        tokio::select! {
            biased;
            () = pipeline.closing.cancelled() => break,
            Some(signal) = signals.recv() => match signal {
                Signal::Ended(key) => lanes.ended(&key),
                Signal::Accepted(rows) => {
                    for row in rows {
                        match &row.envelope.command {
                            // Words for people go out in the order in which they came.
                            Some(Command::Deliver) => drop(deliver.send(row)),
                            Some(command) if command.at_once() => {
                                tokio::spawn(super::commands::at_once(pipeline.clone(), row));
                            }
                            _ => lanes.push(row),
                        }
                    }
                }
            },
            Some(_) = turns.join_next() => {}
        }
    }
    drop(deliver);
    let all_ended = async { while turns.join_next().await.is_some() {} };
    if tokio::time::timeout(patience, all_ended).await.is_err() {
        turns.abort_all();
        while turns.join_next().await.is_some() {}
        let broken: Vec<String> = pipeline.runs().values().map(|run| run.inbox_id.clone()).collect();
        for inbox_id in broken {
            if let Err(error) = pipeline.queue.release_run(&inbox_id).await {
                tracing::error!(%error, inbox_id, "a broken off turn counts as a death");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Envelope, Sender, Source};

    fn row(session: &str, seq: i64) -> Accepted {
        row_from(Source::Cli, session, seq)
    }

    fn row_from(source: Source, session: &str, seq: i64) -> Accepted {
        Accepted {
            seq,
            attempts: 0,
            envelope: Envelope::new(
                seq.to_string(),
                source,
                Sender { id: session.into(), name: session.into(), username: None },
                SessionKey(session.into()),
                String::new(),
                0,
            ),
        }
    }

    fn started(lanes: &mut Lanes, limit: usize) -> Vec<i64> {
        std::iter::from_fn(|| lanes.next(limit)).map(|row| row.seq).collect()
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
        assert_eq!(started(&mut one, 1), [1], "the only place is not kept free for ever");
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
