//! Messages of the daemon itself to the owner: without a model, each once.

use std::sync::Arc;

use crate::message::{Command, Envelope, Route, Sender, SessionKey, Source, Trust};
use crate::pipeline::Pipeline;
use crate::{clock, db};

impl Pipeline {
    /// Sends `text` to the owner by `route`, in the name of `part`. What has the same `key` is said once.
    ///
    /// # Errors
    /// See [`db::Error`]; then it is to be tried again.
    pub(crate) async fn tell_owner(
        self: &Arc<Self>,
        key: String,
        part: &str,
        text: String,
        route: &Route,
    ) -> Result<(), db::Error> {
        let now = clock::now_ms();
        let sender = Sender::new(part, part);
        let envelope = Envelope {
            from_owner: true,
            trust: Trust::Owner,
            route: Some(route.clone()),
            command: Some(Command::Deliver { emoji: None }),
            ..Envelope::new(
                key,
                Source::System,
                sender,
                SessionKey(format!("alert:{part}")),
                text,
                now,
            )
        };
        self.accept_once(envelope).await.map(drop)
    }

    /// Tells the owner that something was lost, in chat where there is a way to them, and in status and monitor.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn tell_loss(self: &Arc<Self>, loss: &str) -> Result<(), db::Error> {
        self.note_trouble(loss);
        let key = format!("loss:{}", crate::text::sha256_hex(loss.as_bytes()));
        self.tell_owner_of(key, "disk", loss).await
    }

    /// Warns the owner of `what` in chat, where there is a way to them; else see [`Self::tell_owner`].
    ///
    /// # Errors
    /// See [`db::Error`].
    pub(crate) async fn tell_owner_of(
        self: &Arc<Self>,
        key: String,
        part: &str,
        what: &str,
    ) -> Result<(), db::Error> {
        let way = self.way_to_owner(&self.live().config, &self.everybody().await?);
        let Some((_, route)) = way else {
            return Ok(());
        };
        self.tell_owner(key, part, format!("⚠️ {what}"), &route)
            .await
    }
}
