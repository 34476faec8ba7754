//! `message`: write to somebody now, beside the answer.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::Needs;
use super::send_command::post;
use super::typed::{About, TypedTool};
use crate::agent::{Context, Reach, ToolOutput};
use crate::control::Command;
use crate::text::{shorten, visible};

/// The longest message, bytes: some dozen parts of Telegram.
const MAX_TEXT: usize = 50_000;

pub(super) struct Message(pub(super) Arc<Needs>);

#[derive(Deserialize, JsonSchema)]
pub(super) struct Args {
    /// owner, a chat id, @username or a known name
    to: String,
    text: String,
}

impl TypedTool for Message {
    type Args = Args;

    const ABOUT: About = About {
        name: "message",
        description: "Send a text to somebody else now. Your answer to this conversation needs no tool.",
        properties: &[],
    };

    /// Who reads the answer anyway, or owns the agent, is nobody new.
    fn reach(&self, args: &Args, context: &Context) -> Reach {
        let to = args.to.trim();
        let route = context.route.as_ref();
        let is_here = route.is_some_and(|route| route.chat.chat == to);
        if to == "owner" || is_here {
            Reach::Free
        } else {
            Reach::Acts
        }
    }

    fn receipt(&self, args: &Args, result: &str) -> Option<String> {
        let to = shorten(&visible(&args.to), 60);
        Some(format!("wrote to {to}: {}", shorten(result, 80)))
    }

    async fn run(&self, args: Args, _context: &Context) -> ToolOutput {
        let to = args.to.trim().to_owned();
        if to.is_empty() || args.text.trim().is_empty() || args.text.len() > MAX_TEXT {
            return ToolOutput::error(format!(
                "`to` and `text` must say something, and the text at most {MAX_TEXT} bytes"
            ));
        }
        let command = Command::raw(to, args.text);
        post(self.0.memory.home(), command, Vec::new()).await.into()
    }
}
