//! Text that the agent writes together with tool calls ("I will look that up"), sent as a separate message before they run.
//! After a crash it may be missing; it is never sent twice.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::run::TurnContext;
use crate::clock;
use crate::message::{Command, Envelope, Sender, SessionKey, Source, Trust};
use crate::pipeline::Pipeline;

impl Pipeline {
    /// Returns where such words go, in order, and whether they rest on untrusted ones; `None` when the settings or the source of the turn want none.
    pub(crate) fn interim(
        self: &Arc<Self>,
        context: &TurnContext<'_>,
    ) -> Option<mpsc::UnboundedSender<(String, bool)>> {
        let envelope = context.envelope;
        let route = envelope.route.clone()?;
        let is_on = context.live.config.display(&route.channel).interim;
        if !is_on || !envelope.source.is_person() {
            return None;
        }
        let (sender, mut waiting) = mpsc::unbounded_channel::<(String, bool)>();
        // A lane of its own: that of the turn is busy.
        let key = SessionKey(format!("said:{}", context.run_id));
        let pipeline = self.clone();
        let run_id = context.run_id.to_owned();
        tokio::spawn(async move {
            let mut number = 0;
            while let Some((words, untrusted)) = waiting.recv().await {
                number += 1;
                let id = format!("{run_id}/said-{number}");
                let agent = Sender::new("agent", "agent");
                let now = clock::now_ms();
                let said = Envelope {
                    from_owner: true,
                    trust: Trust::of(untrusted),
                    route: Some(route.clone()),
                    command: Some(Command::Deliver { emoji: None }),
                    ..Envelope::new(id, Source::System, agent, key.clone(), words, now)
                };
                if let Err(error) = pipeline.accept_once(said).await {
                    tracing::warn!(%error, "cannot send the text of a tool call");
                }
            }
        });
        Some(sender)
    }
}
