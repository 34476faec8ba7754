//! What is remembered, before a turn: it stands in the message, as it was sent, and nothing before that changes.

use super::run::Setting;
use crate::clock;
use crate::memory::recall::{HEAD, Recalled, Request};
use crate::message::{Block, Envelope};
use crate::pipeline::Pipeline;
use crate::session::Session;

impl Pipeline {
    /// Returns what is remembered that bears on a person's message and is not in the conversation yet, and the overdue
    /// commitments that are brought up by it.
    pub(crate) async fn recall(
        &self,
        messages: &[Envelope],
        setting: &Setting<'_>,
        session: &Session,
    ) -> Option<Recalled> {
        let envelope = messages.first()?;
        if !envelope.source.is_person()
            || envelope.tier.as_deref().is_some_and(|tier| tier != "full")
        {
            return None;
        }
        let blocks = session
            .state()
            .entries
            .iter()
            .flat_map(|entry| &entry.message.content);
        let told: Vec<String> = blocks
            .filter_map(|block| match block {
                Block::Context { text } if text.starts_with(HEAD) => Some(text.clone()),
                _ => None,
            })
            .collect();
        let first = session.state().entries.is_empty();
        let words: Vec<&str> = messages
            .iter()
            .map(|message| message.text.as_str())
            .collect();
        let (memory, viewer, words) = (
            self.memory.clone(),
            setting.viewer.clone(),
            words.join("\n"),
        );
        let (id, zone) = (
            session.id().to_owned(),
            setting.live.config.agent.timezone.0,
        );
        let work = move || {
            let asked = Request {
                words: &words,
                first,
                session: &id,
                now: clock::now_ms(),
                zone,
            };
            memory.recall(&viewer, &asked, &told)
        };
        let recalled = tokio::task::spawn_blocking(work)
            .await
            .unwrap_or_else(|error| {
                // The same message would meet the same bug again: better answered without its memories.
                tracing::error!(%error, "nothing was recalled");
                None
            });
        let recalled = recalled?;
        let (client, synthesis) = (
            setting.live.agent.client(),
            setting.live.config.memory.recall.synthesis,
        );
        let retell = self.memory.retell(
            client,
            synthesis,
            recalled.clone(),
            (setting.run_id, session.id()),
        );
        Some(
            setting
                .run
                .cancel
                .run_until_cancelled(retell)
                .await
                .unwrap_or(recalled),
        )
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
