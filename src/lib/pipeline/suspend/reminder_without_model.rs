//! Sends the text of a reminder unchanged at its time when the model is unavailable or failed.

use std::sync::Arc;

use crate::clock;
use crate::message::{Command, Envelope, SessionKey, Source};
use crate::pipeline::Pipeline;

impl Pipeline {
    /// Sends the words of a reminder that has to wait, or failed, as they are: an owner who is to be reminded learns of it in
    /// time. Once, also over a restart; one that waits still continues later. To others the agent alone speaks: the words may
    /// say what they are not to hear.
    pub(in crate::pipeline) async fn remind_without_model(
        self: &Arc<Self>,
        envelope: &Envelope,
        why: &str,
    ) {
        let is_heard = envelope.route.is_some() && !envelope.heard_by_others;
        let job = (envelope.source == Source::Job && is_heard)
            .then(|| self.job_of_run(&envelope.id))
            .flatten();
        if !job.is_some_and(|job| job.is_reminder()) {
            return;
        }
        let now = clock::now_ms();
        let due = envelope.overdue(now).map_or_else(String::new, |at| {
            let zone = self.live().config.agent.timezone.0;
            format!(" It was due {}.", clock::local_text(at, zone))
        });
        let words = Envelope {
            id: format!("words:{}", envelope.id),
            session_key: SessionKey("alert:job".to_owned()),
            command: Some(Command::Deliver { emoji: None }),
            text: format!(
                "{}\n\n⏳ This is the text of the job itself. {why}.{due}",
                envelope.text
            ),
            received_at: now,
            ..envelope.clone()
        };
        if let Err(error) = self.accept_once(words).await {
            tracing::warn!(%error, "the text of a waiting job is sent at its next attempt");
        }
    }
}
