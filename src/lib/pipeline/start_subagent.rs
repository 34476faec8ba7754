//! Sub-agents: a turn starts them, each works in a separate lane, and the turn is informed once of their end: by the result
//! of the call that waits for it, or by an input when the last one of a run has ended.

use std::sync::Arc;
use std::time::Duration;

use super::Pipeline;
use super::persist::Recorded;
use super::schedule::slots::Handle;
use crate::agent::{Sent, SubagentRequest, SubagentSpawner};
use crate::message::{Bounds, Envelope, Sender, SessionKey, Source, Task, Trust};
use crate::provider::BoxFuture;
use crate::queue::{Ending, Subagent};
use crate::{clock, text};

/// Sub-agents of one run that may work at once.
const MOST: i64 = 8;
/// Characters of an answer that the parent of a sub-agent reads.
const ANSWER: usize = 12_000;
/// How often ended sub-agents are checked for, in addition to notifications.
const LOOK: Duration = Duration::from_secs(2);

/// Sends the sub-agents of one turn.
pub(super) struct Sending {
    pipeline: Arc<Pipeline>,
    /// What the turn answers.
    envelope: Envelope,
    run_id: String,
    /// The model of the turn, which continues with their results.
    model: String,
    /// Whether the turn may see what is the owner's alone.
    owners_alone: bool,
    /// The slot of the turn, lent while it waits for an answer.
    slot: Handle,
}

impl SubagentSpawner for Sending {
    fn send<'a>(&'a self, request: SubagentRequest) -> BoxFuture<'a, Result<Sent, String>> {
        Box::pin(async move {
            let id = format!("sub:{}", request.key);
            let label = request.label.clone();
            // Nobody comes back to a shell or a script later.
            let waits = request.wait || self.envelope.route.is_none() || !self.is_a_chat();
            self.accept(&id, request, waits).await?;
            if waits {
                return self.answer(&id).await;
            }
            Ok(Sent {
                text: format!("The sub-agent {label:?} works; you are told when it has ended."),
                untrusted: false,
            })
        })
    }
}

impl Sending {
    pub(super) fn new(
        pipeline: Arc<Pipeline>,
        envelope: Envelope,
        run_id: &str,
        (model, owners_alone): (&str, bool),
        slot: Handle,
    ) -> Self {
        let (run_id, model) = (run_id.to_owned(), model.to_owned());
        Self {
            pipeline,
            envelope,
            run_id,
            model,
            owners_alone,
            slot,
        }
    }

    fn is_a_chat(&self) -> bool {
        self.envelope.source.is_chat() || self.envelope.source == Source::Report
    }

    /// Makes a request an input, unless it is one already.
    async fn accept(&self, id: &str, request: SubagentRequest, waits: bool) -> Result<(), String> {
        let queue = &self.pipeline.queue;
        let failed = |error: crate::db::Error| format!("no sub-agent was sent: {error}");
        if queue.subagent(id).await.map_err(failed)?.is_some() {
            return Ok(());
        }
        if queue.working_for(&self.run_id).await.map_err(failed)? >= MOST {
            return Err(format!(
                "no sub-agent was sent: {MOST} of yours work already; wait for them"
            ));
        }
        let live = self.pipeline.live();
        let models = live.agent.client().models();
        if let Some(name) = &request.model {
            models
                .get(name, "the sub-agent's model")
                .map_err(|error| error.to_string())?;
        }
        let now = clock::now_ms();
        let envelope = self.envelope(id, request, waits, now);
        let accepted = self.pipeline.accept_once(envelope).await;
        accepted.map(drop).map_err(failed)
    }

    /// Returns the input that a sub-agent is. The report of its end goes to whoever sent it.
    fn envelope(&self, id: &str, request: SubagentRequest, waits: bool, now: i64) -> Envelope {
        let of_parent = &self.envelope;
        let report = Envelope {
            source: Source::Report,
            text: String::new(),
            trust: Trust::Owner,
            kind: None,
            media: Vec::new(),
            album: None,
            quoted: None,
            forwarded_from: None,
            edited: false,
            about: None,
            attachments: Vec::new(),
            command: None,
            press: None,
            wants_reply: false,
            stream: false,
            task: None,
            paying_run: Some(of_parent.paid_by().unwrap_or(&self.run_id).to_owned()),
            model: Some(self.model.clone()),
            heard_by_others: !self.owners_alone,
            ..of_parent.clone()
        };
        let bounds = Bounds {
            parent: of_parent.session_key.clone(),
            tools: request.tools,
            max_turns: request.max_turns,
            timeout_secs: request.timeout_secs,
            private_words: request.private_words,
        };
        let task = Task {
            report,
            run_id: self.run_id.clone(),
            label: request.label.clone(),
            waits,
            bounds,
        };
        let own = format!("subagent:{}", request.key);
        let sender = Sender::new(own.clone(), request.label);
        Envelope {
            from_owner: of_parent.from_owner,
            trust: Trust::of(request.untrusted),
            model: request.model,
            budget_usd: request.budget_usd,
            task: Some(Box::new(task)),
            ..Envelope::new(
                id.to_owned(),
                Source::Subagent,
                sender,
                SessionKey(own),
                request.task,
                now,
            )
        }
    }

    /// Waits for the end of a sub-agent; the turn lends its slot meanwhile.
    async fn answer(&self, id: &str) -> Result<Sent, String> {
        let wait = self.slot.wait();
        self.pipeline.idles(&self.envelope, true).await;
        let ended = self.end_of(id).await;
        wait.reclaim().await;
        self.pipeline.idles(&self.envelope, false).await;
        let ended = ended?;
        Ok(Sent {
            text: told(&ended),
            untrusted: ended.tainted,
        })
    }

    async fn end_of(&self, id: &str) -> Result<Subagent, String> {
        loop {
            let news = self.pipeline.ended.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            let found = self.pipeline.queue.subagent(id).await;
            match found.map_err(|error| error.to_string())? {
                Some(found) if found.ending.is_some() => return Ok(found),
                Some(_) => {}
                None => return Err("what became of the sub-agent is not known".to_owned()),
            }
            tokio::select! {
                () = news => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }
}

impl Pipeline {
    /// Marks the quotes of our own answers that rest on untrusted text. Of one that nobody knows any more,
    /// nobody can tell.
    pub(super) async fn mark_quotes(&self, messages: &mut [Envelope]) -> Recorded<()> {
        for message in messages {
            let (Some(quoted), Some(route)) = (&mut message.quoted, &message.route) else {
                continue;
            };
            let Some(id) = quoted.message_id.clone().filter(|_| quoted.own) else {
                continue;
            };
            let read = || self.queue.is_untrusted(route.clone(), id.clone());
            let known = self.persist("an answer that is quoted", read).await?;
            // The name of a file is somebody else's, no matter who sends it.
            quoted.untrusted |= known.unwrap_or(true);
        }
        Ok(())
    }

    /// Puts into a report what it tells of; any other message stays as it is.
    pub(super) async fn fill_report(&self, messages: &mut [Envelope]) -> Recorded<()> {
        for message in messages
            .iter_mut()
            .filter(|message| message.source == Source::Report)
        {
            let ended = self
                .persist("what sub-agents brought", || {
                    self.queue.reported(&message.id)
                })
                .await?;
            message.text = ended.iter().map(told).collect::<Vec<String>>().join("\n\n");
            if ended.iter().any(|one| one.tainted) {
                message.trust = Trust::Other;
            }
        }
        Ok(())
    }
}

/// Returns what the parent of a sub-agent reads of its end.
fn told(subagent: &Subagent) -> String {
    let label = subagent
        .envelope
        .task
        .as_ref()
        .map(|task| task.label.as_str())
        .unwrap_or_default();
    let ending = subagent.ending.map_or("working", Ending::as_str);
    let words = text::head_and_tail(subagent.words.trim(), ANSWER, 70);
    format!(
        "sub-agent {label:?} ({ending}):\n{}",
        if words.is_empty() {
            "(it said nothing)"
        } else {
            &words
        }
    )
}
