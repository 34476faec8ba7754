//! Recall before a turn: memories are inserted into the message as it is sent, and nothing before it changes.

use super::run::TurnContext;
use crate::clock;
use crate::memory::index::Strategy;
use crate::memory::person_profile;
use crate::memory::person_profile::{Partner, Told};
use crate::memory::recall::{HEAD, Recalled, Request};
use crate::message::{Block, Envelope, Trust};
use crate::pipeline::Pipeline;
use crate::pipeline::plan::is_planned;
use crate::session::Session;

impl Pipeline {
    /// Returns with whom the agent speaks; `None` for what is no message of a person.
    pub(crate) fn partner(&self, context: &TurnContext<'_>) -> Option<Partner> {
        let envelope = context.envelope;
        if !brings_memories(envelope) {
            return None;
        }
        let config = &context.live.config;
        let mut ids = vec![envelope.sender.id.clone()];
        ids.extend_from_slice(&context.same_person);
        let dirs = self.prompt.config_path(config);
        let dirs = dirs
            .iter()
            .map(|dir| dir.join("agents").join(&config.agent.name).join("memory"));
        Some(Partner {
            name: envelope.sender.name.clone(),
            ids,
            group: envelope
                .group
                .is_some()
                .then(|| envelope.session_key.clone()),
            dirs: dirs.collect(),
            // Nothing in the owner's turn would tell marked words from the owner's own.
            shows_marked: envelope.trust != Trust::Owner,
        })
    }

    /// Returns what is known of the one who speaks, and what is remembered that bears on a person's message with the
    /// overdue commitments that are brought up by it. What is in the conversation already is left out; but of a
    /// persona's partner all is known, because it is in the system text.
    pub(crate) async fn recall(
        &self,
        messages: &[Envelope],
        context: &TurnContext<'_>,
        session: &Session,
    ) -> (Option<Told>, Option<Recalled>) {
        let Some(partner) = self.partner(context) else {
            return (None, None);
        };
        let known_before = match is_planned(context.live, context.envelope) {
            true => Vec::new(),
            false => told(session, person_profile::HEAD),
        };
        let mut told = told(session, HEAD);
        let first = session.state().entries.is_empty();
        let words: Vec<&str> = messages
            .iter()
            .map(|message| message.text.as_str())
            .collect();
        let (memory, viewer, words) = (
            self.memory.clone(),
            context.viewer.clone(),
            words.join("\n"),
        );
        let (id, zone) = (
            session.id().to_owned(),
            context.live.config.agent.timezone.0,
        );
        let memory_settings = &context.live.config.memory;
        let (strategy, share) = (Strategy::of(memory_settings), memory_settings.vector_weight);
        let settings = memory_settings.recall.clone();
        let work = move || {
            let known = memory.known_of(&partner, &known_before);
            told.extend(known.as_ref().map(|known| known.text.clone()));
            let asked = Request {
                strategy,
                share,
                settings: &settings,
                words: &words,
                first,
                session: &id,
                now: clock::now_ms(),
                zone,
            };
            let recalled = memory.recall(&viewer, &asked, &told);
            (known, recalled)
        };
        let (known, recalled) = tokio::task::spawn_blocking(work)
            .await
            .unwrap_or_else(|error| {
                // The same message would meet the same bug again: better answered without its memories.
                tracing::error!(%error, "recall failed");
                (None, None)
            });
        let Some(recalled) = recalled else {
            return (known, None);
        };
        let (client, settings) = (
            context.live.agent.client(),
            &context.live.config.memory.recall,
        );
        let retell = self.memory.retell(
            client,
            settings,
            recalled.clone(),
            (context.run_id, session.id()),
            !context.envelope.from_owner,
        );
        let retold = context.run.cancel.run_until_cancelled(retell).await;
        (known, Some(retold.unwrap_or(recalled)))
    }

    /// Notes that overdue commitments were brought up, once the message stands in the transcript.
    pub(crate) async fn brought_up(&self, overdue: Vec<i64>) {
        if !overdue.is_empty() {
            let memory = self.memory.clone();
            // A bug there is in the log, and they are brought up again.
            let _ = tokio::task::spawn_blocking(move || memory.brought_up(&overdue)).await;
        }
    }
}

/// Returns true for a message of a person with all of the context.
fn brings_memories(envelope: &Envelope) -> bool {
    envelope.source.is_person() && envelope.tier.as_deref().is_none_or(|tier| tier == "full")
}

/// Returns the texts next to messages of a conversation that begin with `head`.
fn told(session: &Session, head: &str) -> Vec<String> {
    let blocks = session
        .state()
        .entries
        .iter()
        .flat_map(|entry| &entry.message.content);
    blocks
        .filter_map(|block| match block {
            Block::Context { text } if text.starts_with(head) => Some(text.clone()),
            _ => None,
        })
        .collect()
}
