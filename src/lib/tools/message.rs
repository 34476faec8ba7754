//! `message`: write to somebody now, beside the answer.

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Needs;
use super::media::{agreed, post_files};
use super::typed::{About, TypedTool};
use crate::agent::{Context, Question, Reach, Rule, ToolOutput};
use crate::clock;
use crate::control::Command;
use crate::message::Address;
use crate::people::{Contact, People};
use crate::text::{sha256_hex, shorten, visible};
use crate::trust::standing_rules::StandingRules;

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
        if to == "owner" || Address::parse(to).is_some() {
            return None;
        }
        let known = People::read(&self.0.memory.home().people()).ok()?;
        known.find_one(to).err()
    }

    /// Returns whom a display name means, where strangers may talk, until the owner has confirmed it.
    fn unconfirmed(&self, to: &str) -> Option<String> {
        let is_name = to != "owner" && !to.starts_with('@') && Address::parse(to).is_none();
        if !self.0.open || !is_name {
            return None;
        }
        let known = People::read(&self.0.memory.home().people()).ok()?;
        let [contact]: [Contact; 1] = known.find(to).try_into().ok()?;
        let name = format!("{} is the name of {}", visible(to), contact.id);
        let rules = StandingRules::new(&self.0.memory.home().rules());
        (!rules.allows(&digest(&name))).then_some(name)
    }
}

fn digest(name: &str) -> String {
    sha256_hex(name.as_bytes())
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
        if let Some(why) = self.unknown(to) {
            return Reach::Refused(format!("not sent: {why}"));
        }
        if let Some(name) = self.unconfirmed(to) {
            return Reach::Asks(format!(
                "{name}, and everybody here chooses their own name: is it the person you mean?"
            ));
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
        // Whom a name means may change while the owner is asked.
        let whom = self.unconfirmed(to);
        Question {
            bound_to: json!([
                "message",
                input,
                whom,
                self.0.digests.of(&self.0.root, &args.files)
            ]),
            rule: Some(Rule::of("message", Some(("to", to)))),
            ..Question::of("message", input)
        }
    }

    fn confirmed(&self, args: &Args) {
        if let Some(name) = self.unconfirmed(args.to.trim()) {
            let rules = StandingRules::new(&self.0.memory.home().rules());
            // Without it the owner is asked once more.
            drop(rules.add(&digest(&name), &name, clock::now_ms()));
        }
    }

    fn receipt(&self, args: &Args, result: &str) -> Option<String> {
        let to = shorten(&visible(&args.to), 60);
        Some(format!("wrote to {to}: {}", shorten(result, 80)))
    }

    async fn run(&self, args: Args, context: &Context) -> ToolOutput {
        let to = args.to.trim().to_owned();
        if context.approved.is_some() {
            self.confirmed(&args);
        }
        let is_empty = args.text.trim().is_empty() && args.files.is_empty();
        if to.is_empty() || is_empty || args.text.len() > MAX_TEXT {
            return ToolOutput::error(format!(
                "`to` and `text` or `files` must say something, and the text at most {MAX_TEXT} bytes"
            ));
        }
        let command = Command::raw(to, args.text, context.untrusted);
        post_files(&self.0, command, args.files, agreed(context))
            .await
            .into()
    }
}
