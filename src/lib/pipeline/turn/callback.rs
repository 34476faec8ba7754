//! The document that `[callback]` sends at the end of a message.

use serde_json::json;

use crate::control::replies::Reply;
use crate::message::Envelope;
use crate::pipeline::Pipeline;
use crate::{clock, secret};

impl Pipeline {
    /// Returns what is told; `None` where nobody is, and for what is not a message: a command, a part of another one's work.
    pub(super) fn callback_of(
        &self,
        envelope: &Envelope,
        run_id: &str,
        reply: &Reply,
    ) -> Option<String> {
        let is_message = envelope.command.is_none() && envelope.task.is_none();
        self.live().callback.as_ref().filter(|_| is_message)?;
        let about = envelope.about.as_ref();
        let document = json!({
            "v": 1,
            "id": envelope.id,
            "run_id": run_id,
            "session": envelope.session_key.0,
            "source": envelope.source,
            "sender": {"id": envelope.sender.id, "name": envelope.sender.name},
            "from_owner": envelope.from_owner,
            "reply": reply.reply,
            "silent": reply.silent.unwrap_or(false),
            "error": reply.error,
            "tokens": reply.tokens,
            "cost_usd": reply.cost_usd,
            "notify": about.map(|about| json!({
                "source": about.source, "ref": about.reference, "data": about.data
            })),
            "at": clock::rfc3339(clock::now_ms()),
        });
        Some(secret::redact(&document.to_string()))
    }

    /// Tells it.
    pub(super) fn call_back(&self, told: Option<String>) {
        if let (Some(callback), Some(told)) = (&self.live().callback, told) {
            callback.tell(told);
        }
    }
}
