//! `message`: write to somebody now, in addition to the answer.

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Needs;
use super::contact_names;
use super::media::{agreed, post_files};
use super::typed::{About, TypedTool};
use crate::agent::{Context, Question, Reach, Rule, ToolOutput};
use crate::control::Command;
use crate::memory::Scope;
use crate::message::Address;
use crate::people::People;
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

impl Message {
    /// Returns why nobody is written to under the name `to`.
    fn unknown(&self, to: &str) -> Option<String> {
        let known = People::read(&self.0.memory.home().people()).ok()?;
        let is_clear = to == "owner" || Address::parse(to).is_some() && known.find(to).is_empty();
        if is_clear {
            return None;
        }
        known.find_one(to).err()
    }
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
        // Others hear the same of whom the owner knows and of whom not.
        let is_owners = context.viewer.may_see(&Scope::Owner);
        if let Some(why) = is_owners.then(|| self.unknown(to)).flatten() {
            return Reach::Refused(format!("not sent: {why}"));
        }
        // A guest's turn asks anyway, with less in the question.
        if !context.is_guest() && contact_names::unconfirmed(&self.0, to).is_some() {
            return Reach::Asks(contact_names::DOUBT.to_owned());
        }
        let route = context.route.as_ref();
        let is_here = route.is_some_and(|route| {
            let here = Address::new(&route.channel, &route.chat.chat);
            here.is_some_and(|here| here.to_string() == to)
        });
        if to == "owner" || is_here {
            match args.files.is_empty() {
                true => Reach::Free,
                false => Reach::Shows,
            }
        } else {
            Reach::Acts
        }
    }

    fn question(&self, args: &Args, input: &Value) -> Question {
        let to = args.to.trim();
        let whom = contact_names::unconfirmed(&self.0, to);
        let files = json!(self.0.digests.of(&self.0.root, &args.files));
        let question = contact_names::question("message", input, whom.as_deref(), &files);
        Question {
            rule: question.rule.map(|_| Rule::of("message", Some(("to", to)))),
            ..question
        }
    }

    fn receipt(&self, args: &Args, result: &str) -> Option<String> {
        let to = shorten(&visible(&args.to), 60);
        Some(format!("wrote to {to}: {}", shorten(result, 80)))
    }

    async fn run(&self, args: Args, context: &Context) -> ToolOutput {
        let to = args.to.trim().to_owned();
        if context.approved.is_some() {
            contact_names::confirm(&self.0, &to);
        }
        let is_empty = args.text.trim().is_empty() && args.files.is_empty();
        if to.is_empty() || is_empty || args.text.len() > MAX_TEXT {
            return ToolOutput::error(format!(
                "`to` and `text` or `files` must say something, and the text at most {MAX_TEXT} bytes"
            ));
        }
        // Until it leaves, the name may be somebody else's.
        let named = contact_names::named(&self.0, &to);
        let to = named.map_or(to, |contact| contact.id.to_string());
        let command = Command::raw(to, args.text, context.untrusted);
        post_files(&self.0, command, args.files, agreed(context))
            .await
            .into()
    }
}
