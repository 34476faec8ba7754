//! The rounds: one task a tick, one conversation after the other. A tick is an event or the due time of a task; without due
//! tasks nothing happens.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::clock;
use crate::config::Voice;
use crate::message::{Route, SessionKey};
use crate::pipeline::Pipeline;
use crate::pipeline::persist::Unrecorded;
use crate::queue::ReadyTask;

/// Telegram shows "typing" for 5 s.
const PULSE_MS: i64 = 4_000;
/// The longest sleep; the clock on the wall may be set.
const LOOK: Duration = Duration::from_secs(60);
/// How long a queue that cannot be read is left alone.
const PAUSE: Duration = Duration::from_secs(10);

/// Carries out the tasks of plans until the daemon closes.
pub async fn carry_out(pipeline: Arc<Pipeline>) {
    let mut rounds = Rounds::default();
    let mut slow = JoinSet::new();
    loop {
        let news = pipeline.plan_news.notified();
        tokio::pin!(news);
        news.as_mut().enable();
        // Set before: what is cancelled while they are read is read again.
        pipeline.plans_open.store(true, Ordering::Relaxed);
        let read = pipeline.persist("the tasks of plans", || pipeline.queue.ready_tasks());
        let ready = match pipeline.closing.run_until_cancelled(read).await {
            None | Some(Err(Unrecorded::Ending)) => break,
            Some(Ok(ready)) => ready,
            Some(Err(Unrecorded::Failed(_))) => {
                let pause = tokio::time::sleep(PAUSE);
                if pipeline.closing.run_until_cancelled(pause).await.is_none() {
                    break;
                }
                continue;
            }
        };
        pipeline
            .plans_open
            .store(!ready.is_empty(), Ordering::Relaxed);
        let now = clock::now_ms();
        if let Some(task) = rounds.next(&ready, now) {
            let task = task.clone();
            let work = pipeline.clone().perform(task.clone());
            let speaks = pipeline.live().config.agent.voice != Voice::Never;
            if is_slow(&task.kind) || (task.kind == "send" && speaks) {
                rounds.busy.insert(task.seq);
                slow.spawn(async move {
                    work.await;
                    task.seq
                });
            } else {
                work.await;
            }
            continue;
        }
        for route in rounds.typing(&ready, now) {
            pipeline.show_typing(route);
        }
        let wait = rounds.wait(&ready, now);
        tokio::select! {
            () = pipeline.closing.cancelled() => break,
            () = news => {}
            Some(done) = slow.join_next() => match done {
                Ok(seq) => { rounds.busy.remove(&seq); }
                // It cannot panic; were it cancelled, its task would stay until the next start.
                Err(error) => tracing::error!(%error, "a task of a plan was interrupted"),
            },
            () = sleep(wait) => {}
        }
    }
}

/// Waits for something that is due, or forever.
async fn sleep(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait.min(LOOK)).await,
        None => std::future::pending().await,
    }
}

/// Returns true for what waits for somebody else: it does not hold up the rounds.
fn is_slow(kind: &str) -> bool {
    matches!(
        kind,
        "sticker" | "send_media" | "xsend" | "block" | "unblock"
    )
}

#[derive(Default)]
struct Rounds {
    /// The conversation of the last task.
    last: Option<SessionKey>,
    /// Tasks that are being carried out.
    busy: HashSet<i64>,
    /// The task for which "typing" is shown, and when it is shown again: a message that arrives ends it.
    pulses: HashMap<Route, (i64, i64)>,
}

impl Rounds {
    /// Returns the next task that is due: the earliest of the conversation whose turn it is.
    fn next<'a>(&mut self, ready: &'a [ReadyTask], now: i64) -> Option<&'a ReadyTask> {
        let is_due = |task: &&ReadyTask| task.due_at <= now && !self.busy.contains(&task.seq);
        let mut keys: Vec<&SessionKey> = ready
            .iter()
            .filter(is_due)
            .map(|task| &task.session_key)
            .collect();
        keys.sort();
        keys.dedup();
        let after = self.last.as_ref();
        let key = keys
            .iter()
            .find(|key| after.is_none_or(|last| **key > last))
            .or(keys.first())?;
        let task = ready
            .iter()
            .filter(is_due)
            .find(|task| task.session_key == **key)?;
        self.last = Some(task.session_key.clone());
        Some(task)
    }

    /// Returns where "typing" is to be shown now.
    fn typing(&mut self, ready: &[ReadyTask], now: i64) -> Vec<Route> {
        let mut routes: HashMap<Route, (i64, i64)> = HashMap::new();
        for task in ready
            .iter()
            .filter(|task| is_typed(task) && task.due_at > now)
        {
            if let Some(route) = &task.envelope.route {
                let known = self.pulses.get(route).filter(|(seq, _)| *seq == task.seq);
                routes
                    .entry(route.clone())
                    .or_insert_with(|| known.copied().unwrap_or((task.seq, now)));
            }
        }
        let mut due = Vec::new();
        for (route, (_, next)) in &mut routes {
            if *next <= now {
                *next = now + PULSE_MS;
                due.push(route.clone());
            }
        }
        self.pulses = routes;
        due
    }

    /// Returns how long nothing is to be done; `None` when that is for ever.
    fn wait(&self, ready: &[ReadyTask], now: i64) -> Option<Duration> {
        let due = ready
            .iter()
            .filter(|task| !self.busy.contains(&task.seq))
            .map(|task| task.due_at);
        let next = due
            .chain(self.pulses.values().map(|(_, next)| *next))
            .min()?;
        Some(Duration::from_millis((next - now).max(1).unsigned_abs()))
    }
}

fn is_typed(task: &ReadyTask) -> bool {
    matches!(task.kind.as_str(), "send" | "sticker")
}

impl Pipeline {
    /// Shows for some seconds that something is being written.
    fn show_typing(self: &Arc<Self>, route: Route) {
        let Some(channel) = self.channels.get(route.channel.as_str()).cloned() else {
            return;
        };
        self.previews.spawn(async move {
            if let Err(error) = channel.typing(&route.chat).await {
                tracing::debug!(%error, "\"typing\" could not be shown");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{ChatRef, Envelope, Sender, Source};

    fn task(seq: i64, key: &str, kind: &str, due_at: i64) -> ReadyTask {
        let sender = Sender {
            id: key.into(),
            name: key.into(),
            username: None,
        };
        let session_key = SessionKey(key.into());
        let mut envelope = Envelope::new(
            key.into(),
            Source::Telegram,
            sender,
            session_key.clone(),
            String::new(),
            0,
        );
        envelope.route = Some(Route {
            channel: "telegram".into(),
            chat: ChatRef {
                chat: key.into(),
                topic: None,
            },
        });
        ReadyTask {
            seq,
            session_key,
            envelope,
            run_id: format!("run-{key}"),
            id: seq.to_string(),
            kind: kind.into(),
            task: String::new(),
            due_at,
            is_stored: false,
        }
    }

    #[test]
    fn conversations_take_turns_and_each_is_in_its_order() {
        let mut ready = vec![
            task(1, "a", "send", 0),
            task(2, "a", "send", 0),
            task(3, "b", "send", 0),
            task(4, "c", "send", 0),
            task(5, "b", "send", 99),
        ];
        let mut rounds = Rounds::default();
        let mut order = Vec::new();
        while let Some(seq) = rounds.next(&ready, 10).map(|task| task.seq) {
            ready.retain(|task| task.seq != seq);
            order.push(seq);
        }
        assert_eq!(order, [1, 3, 4, 2]);
        assert_eq!(rounds.wait(&ready, 10), Some(Duration::from_millis(89)));
        assert_eq!(
            rounds.wait(&[], 10),
            None,
            "nothing is due, nothing is done"
        );
    }

    #[test]
    fn typing_is_shown_while_a_message_is_written_and_not_after_it_was_cancelled() {
        let ready = [task(1, "a", "send", 9_000), task(2, "b", "wait", 9_000)];
        let mut rounds = Rounds::default();
        assert_eq!(rounds.typing(&ready, 0).len(), 1);
        assert_eq!(rounds.typing(&ready, 3_000).len(), 0);
        assert_eq!(
            rounds.wait(&ready, 3_000),
            Some(Duration::from_millis(1_000))
        );
        assert_eq!(rounds.typing(&ready, 4_000).len(), 1);
        let next = [task(3, "a", "send", 9_000)];
        assert_eq!(rounds.typing(&next, 4_500).len(), 1, "of the next message");
        assert_eq!(rounds.typing(&[], 5_000).len(), 0);
        assert_eq!(rounds.wait(&[], 5_000), None);
    }
}
