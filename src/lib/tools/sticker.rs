//! `sticker`: sends one of `[agent.stickers]` to the current chat.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::Needs;
use super::media::{NO_CHAT, to_chat};
use super::send_command::post;
use super::typed::{About, Property, TypedTool};
use crate::agent::{Context, Reach, ToolOutput};
use crate::control::Command;
use crate::text::shorten;

/// Characters of the list of stickers in the description.
const LISTED: usize = 400;

pub(super) struct SendSticker(pub(super) Arc<Needs>);

#[derive(Deserialize, JsonSchema)]
pub(super) struct Args {
    set: String,
    /// its emoji, with its number where several have the same
    name: String,
}

impl TypedTool for SendSticker {
    type Args = Args;

    const ABOUT: About = About {
        name: "sticker",
        description: "Send a sticker into this chat. You still answer, unless you use silent.",
        properties: &[Property::Anybody],
    };

    /// Which there are is the owner's choice.
    fn description(&self) -> Cow<'static, str> {
        let stickers = &self.0.stickers;
        let mut there = stickers.stickers.clone();
        if !stickers.sets.is_empty() {
            there.insert(0, format!("all of the sets {}", stickers.sets.join(", ")));
        }
        let there = shorten(&there.join("; "), LISTED);
        format!("{} There are: {there}.", Self::ABOUT.description).into()
    }

    fn reach(&self, _args: &Args, _context: &Context) -> Reach {
        Reach::Free
    }

    fn receipt(&self, args: &Args, _result: &str) -> Option<String> {
        let sticker = format!("{} :: {}", args.set, args.name);
        Some(format!("sent the sticker {}", shorten(&sticker, 80)))
    }

    async fn run(&self, args: Args, context: &Context) -> ToolOutput {
        let (set, name) = (args.set.trim(), args.name.trim());
        if set.is_empty() || name.is_empty() {
            return ToolOutput::error("a sticker needs its `set` and its `name`");
        }
        let Some(route) = context.route.clone() else {
            return ToolOutput::error(NO_CHAT);
        };
        let mut command = to_chat(route, String::new(), None, context.untrusted);
        if let Command::Raw { sticker, .. } = &mut command {
            *sticker = Some(format!("{set} :: {name}"));
        }
        post(self.0.memory.home(), command, Vec::new()).await.into()
    }
}
