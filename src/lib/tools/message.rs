//! `message`: write to somebody now, beside the answer.

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::Needs;
use super::media::post_files;
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
    #[serde(default)]
    text: String,
    #[serde(default)]
    files: Vec<PathBuf>,
}

impl TypedTool for Message {
    type Args = Args;

    const ABOUT: About = About {
        name: "message",
        description: "Send text or files of outbox/ to somebody else now. Your answer here needs no tool.",
        properties: &[],
    };

    /// Who reads the answer anyway, or owns the agent, is nobody new.
    fn reach(&self, args: &Args, context: &Context) -> Reach {
        let to = args.to.trim();
        let route = context.route.as_ref();
        let is_here = route.is_some_and(|route| route.chat.chat == to);
        if to == "owner" || is_here {
            match args.files.is_empty() {
                true => Reach::Free,
                false => Reach::Shows,
            }
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
        let is_empty = args.text.trim().is_empty() && args.files.is_empty();
        if to.is_empty() || is_empty || args.text.len() > MAX_TEXT {
            return ToolOutput::error(format!(
                "`to` and `text` or `files` must say something, and the text at most {MAX_TEXT} bytes"
            ));
        }
        let command = Command::raw(to, args.text);
        post_files(&self.0, command, args.files).await.into()
    }
}
