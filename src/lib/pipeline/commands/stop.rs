//! To cancel (`/stop`): ends running and waiting turns, of one conversation, of all, or of one message.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::clock;
use crate::control;
use crate::control::replies::{Reply, STOPPED};
use crate::message::{Envelope, Route, SessionKey};
use crate::pipeline::persist::{Recorded, Unrecorded};
use crate::pipeline::turn::outcome::refused;
use crate::pipeline::{Pipeline, Run, Signal};
use crate::queue::{Stop, Stopped};

/// What is said in a chat whose message was stopped from elsewhere.
const STOPPED_ELSEWHERE: &str =
    "Stopped, on the machine where I run: there is no answer to what you wrote last.";

impl Pipeline {
    /// Stops what runs; `None` when the answer is recorded already, or the daemon ends.
    pub(super) async fn stop_text(
        self: &Arc<Self>,
        seq: i64,
        envelope: &Envelope,
        all: bool,
    ) -> Option<String> {
        let stop = if all {
            Stop::All { before: seq }
        } else {
            Stop::Session {
                before: seq,
                key: envelope.session_key.clone(),
            }
        };
        let ended = match self.end(stop).await {
            Ok((stopped, count)) => {
                // A stop that came from the chat is answered there.
                if !envelope.source.is_chat() {
                    self.tell_stopped(&envelope.id, &stopped).await;
                }
                Ok(count)
            }
            Err(why) => Err(why),
        };
        match ended {
            Err(Unrecorded::Ending) => return None,
            Err(Unrecorded::Failed(why)) => self.fail_one(envelope, &why).await,
            Ok(0) => match self.names_no_session(envelope).filter(|_| !all) {
                Some(why) => self.finish_one(envelope, refused(envelope, &why)).await,
                None => return Some("Nothing is running.".to_owned()),
            },
            Ok(1) => return Some("Stopped.".to_owned()),
            Ok(count) => return Some(format!("Stopped {count} messages.")),
        }
        None
    }

    /// Says in each chat that an answer does not come, because of the order `id` from elsewhere.
    async fn tell_stopped(self: &Arc<Self>, id: &str, stopped: &[Stopped]) {
        let mut told: Vec<&Route> = Vec::new();
        for one in stopped {
            let Some(route) = one.chat.as_ref().filter(|route| !told.contains(route)) else {
                continue;
            };
            told.push(route);
            let key = format!("stopped:{id}/{}", told.len());
            let said = self.tell_owner(key, "stop", STOPPED_ELSEWHERE.to_owned(), route);
            if let Err(error) = said.await {
                tracing::error!(%error, "a chat is not told that its message was stopped");
            }
        }
    }

    /// Ends what is meant, and returns how many inputs that were.
    pub(in crate::pipeline) async fn stop(self: &Arc<Self>, stop: Stop) -> Recorded<usize> {
        self.end(stop).await.map(|(_, count)| count)
    }

    /// Ends what is meant, and returns the inputs that had no answer yet, and how many ended in all.
    async fn end(self: &Arc<Self>, stop: Stop) -> Recorded<(Vec<Stopped>, usize)> {
        let now = clock::now_ms();
        // First the record, then the end: a run that ends now finds that it has nothing to say.
        let stopped = self
            .persist("a stop", || self.queue.stop(stop.clone(), now))
            .await?;
        let ids: Vec<String> = stopped.iter().map(|one| one.inbox_id.clone()).collect();
        let runs: Vec<Run> = self.runs().values().cloned().collect();
        let mut afterwards = 0;
        for run in runs
            .iter()
            .filter(|run| run.inputs.came_before(stop.before()))
        {
            let is_stopped = run.inputs.envelopes().any(|input| ids.contains(&input.id));
            let is_meant = match &stop {
                Stop::All { .. } => true,
                Stop::Session { key, .. } => run.inputs.key() == key,
                Stop::Message { id } => run.inputs.envelopes().any(|input| input.id == *id),
            };
            // What it still does after its answer has no record in the queue.
            let works_on = run.answered.load(Ordering::Relaxed) && is_meant;
            if is_stopped || works_on {
                run.cancel.cancel();
            }
            afterwards += usize::from(works_on);
        }
        // What waits ends at once, too.
        self.hide_notices(&ids);
        let lanes: HashSet<&SessionKey> = stopped.iter().map(|one| &one.session_key).collect();
        for key in lanes {
            let _ = self.signals.send(Signal::Wake(key.clone()));
        }
        for one in stopped.iter().filter(|one| one.wants_reply) {
            self.answer(&Reply::error(&one.inbox_id, STOPPED));
        }
        let count = stopped.len() + afterwards;
        Ok((stopped, count))
    }

    /// Ends this message and the sub-agents of its run; nothing when it has ended already.
    pub async fn stop_message(self: &Arc<Self>, id: &control::Id) {
        let message = Stop::Message { id: id.to_string() };
        if let Err(Unrecorded::Failed(why)) = self.stop(message).await {
            tracing::error!(why, id = id.as_str(), "a message could not be stopped");
        }
    }
}
