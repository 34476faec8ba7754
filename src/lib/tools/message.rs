//! `message`: write to somebody now, beside the answer.

use std::sync::Arc;

use serde_json::{Value, json};

use super::send_command::post;
use super::{Needs, output, text};
use crate::agent::{Context, Reach, Rights, Tool, ToolOutput};
use crate::control::Command;
use crate::provider::{BoxFuture, ToolSpec};

/// The longest message, bytes: some dozen parts of Telegram.
const MAX_TEXT: usize = 50_000;

pub(super) struct Message(pub Arc<Needs>);

impl Tool for Message {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "message".into(),
            description:
                "Send a text to somebody else now. Your answer to this conversation needs no tool."
                    .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "to": {"type": "string", "description": "owner, a chat id, @username or a known name"},
                    "text": {"type": "string"}
                },
                "required": ["to", "text"]
            }),
        }
    }

    fn read_only(&self) -> bool {
        false
    }

    fn rights(&self) -> Rights {
        Rights::Owner
    }

    /// Who reads the answer anyway, or owns the agent, is nobody new.
    fn reach(&self, input: &Value, context: &Context) -> Reach {
        let to = text(input, "to").trim();
        let is_here = context
            .route
            .as_ref()
            .is_some_and(|route| route.chat.chat == to);
        if to == "owner" || is_here {
            Reach::Free
        } else {
            Reach::Acts
        }
    }

    fn receipt(&self, input: &Value, answer: &str) -> Option<String> {
        let to = crate::text::shorten(&crate::text::visible(text(input, "to")), 60);
        Some(format!(
            "wrote to {to}: {}",
            crate::text::shorten(answer, 80)
        ))
    }

    fn run<'a>(&'a self, input: &'a Value, _context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        let (to, words) = (
            text(input, "to").trim().to_owned(),
            text(input, "text").to_owned(),
        );
        Box::pin(async move { output(self.send(to, words).await) })
    }
}

impl Message {
    async fn send(&self, to: String, words: String) -> Result<String, String> {
        if to.is_empty() || words.trim().is_empty() || words.len() > MAX_TEXT {
            return Err(format!(
                "`to` and `text` must say something, and the text at most {MAX_TEXT} bytes"
            ));
        }
        post(self.0.memory.home(), Command::raw(to, words), Vec::new()).await
    }
}
