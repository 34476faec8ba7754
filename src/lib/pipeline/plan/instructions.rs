//! A persona's input in addition to its prompts: the answer format, memories of its partner and the kind of chat.
//!
//! The time and the id of the message to answer are in notes of that message: here they would change the system text with
//! every message, and the vendor's cache would never be read.

use std::sync::Arc;

use serde_json::Value;

use super::history::History;
use crate::memory::person_profile::Known;
use crate::message::plan;
use crate::message::{Envelope, Trust};
use crate::pipeline::Pipeline;
use crate::pipeline::persist::Recorded;
use crate::pipeline::turn::run::TurnContext;
use crate::prompt::Section;
use crate::provider::{SystemBlock, Tier};
use crate::session::Session;
use crate::text::{estimate_tokens, shorten, visible};
use crate::trust::fence;

/// The maximum number of characters about the partner, as for any file of a prompt.
const MEMORY: usize = 20_000;

/// What a turn needs for a plan.
pub(crate) struct PlanForm {
    pub history: History,
    pub schema: Arc<Value>,
}

impl Pipeline {
    /// Adds what a persona is told to the system text of a turn, and returns the form of its answer.
    pub(crate) async fn form(
        self: &Arc<Self>,
        context: &mut TurnContext<'_>,
        session: &Session,
    ) -> Recorded<PlanForm> {
        let key = &context.envelope.session_key;
        let told = self
            .persist("what was done of plans", || self.queue.told_tasks(key))
            .await?;
        let config = &context.live.config;
        let partner = match self.partner(context) {
            None => None,
            Some(partner) => {
                let (memory, name) = (self.memory.clone(), partner.named());
                let known = crate::sys::blocking(move || memory.all_of(&partner, MEMORY)).await;
                Some((name, known))
            }
        };
        let stickers = self.sticker_lines(context, session.id()).await;
        let known = Circumstances {
            stickers: &stickers,
            partner,
            // That of a run would change the system text with every message.
            marker: (context.envelope.trust != Trust::Owner).then(|| fence::marker(session.id())),
        };
        let text = text(context.envelope, &known);
        context.sections.push(Section {
            name: "how a persona answers".to_owned(),
            tier: Tier::SemiStable,
            tokens: estimate_tokens(&text),
            cut: false,
            own_words: String::new(),
        });
        context.system.push(SystemBlock {
            tier: Tier::SemiStable,
            text,
        });
        Ok(PlanForm {
            history: History::new(
                session.id(),
                told,
                config.agent.history_size,
                config.agent.timezone.0,
            ),
            schema: Arc::new(plan::schema()),
        })
    }
}

/// How the model answers.
const FORM: &str = "# How you answer

You take part in a chat. You answer with a plan: a JSON array of tasks and nothing else. A task is an object with \"kind\", \
and may have \"id\", \"depends_on\" (the ids of the tasks before it; without it, it follows the task before it) and \"reply_to\" (the id of a message).
- {\"kind\": \"think\", \"text\"}: a thought that nobody reads; begin with one
- {\"kind\": \"send\", \"text\"}: words for the chat; several short ones are better than a long one
- {\"kind\": \"wait\", \"delay\"}: a pause, seconds
- {\"kind\": \"react\", \"emoji\", \"reply_to\"}: an emoji on a message
- {\"kind\": \"sticker\", \"set\", \"name\"}: one of the stickers that you may send
- {\"kind\": \"send_media\", \"path\"}: a file of outbox/
- {\"kind\": \"remember\", \"text\"}: something about your partner, kept for good
- {\"kind\": \"retrieve\", \"urls\"}: read up to 3 pages; you plan again when you have read them
- {\"kind\": \"xsend\", \"to\", \"text\"}: words for another chat
- {\"kind\": \"block\"}, {\"kind\": \"unblock\"}: your partner is answered no more, or again
- {\"kind\": \"clear\"}: forget this conversation
An empty array is silence. The newest note names the message to respond to. When a new message comes, what you have not done yet is cancelled, and you plan again. \
Never write ⟦ or ⟧: the lines in them are notes of the system.";

/// The context in addition to the prompts.
struct Circumstances<'a> {
    /// The stickers that may be sent, one a line.
    pub stickers: &'a [String],
    /// Of whom something is remembered, and what.
    pub partner: Option<(String, Known)>,
    /// The marker of an untrusted conversation: what was noted may be untrusted text.
    pub marker: Option<String>,
}

/// Returns the last part of the system text.
fn text(envelope: &Envelope, known: &Circumstances<'_>) -> String {
    let mut parts = vec![FORM.to_owned()];
    if !known.stickers.is_empty() {
        parts.push(format!(
            "# Stickers you may send\n\n{}",
            known.stickers.join("\n")
        ));
    }
    if let Some((name, Known { curated, noted, .. })) = &known.partner {
        let noted = match &known.marker {
            Some(marker) if !noted.is_empty() => {
                fence::around(marker, "what you noted in earlier conversations", noted)
            }
            _ => noted.clone(),
        };
        let memory: Vec<&str> = [curated.as_str(), &noted]
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect();
        if !memory.is_empty() {
            parts.push(format!(
                "# What you remember of {name}\n\n{}",
                memory.join("\n\n")
            ));
        }
    }
    let place = match &envelope.group {
        // Its members choose the title, and the owner's words act.
        Some(_) if envelope.trust == Trust::Owner => "A group chat.".to_owned(),
        Some(group) => format!("A group chat, \"{}\".", named(group)),
        None => format!("A direct chat with {}.", named(&envelope.sender.name)),
    };
    parts.push(format!("# Chat type\n\n{place}"));
    parts.join("\n\n")
}

/// Returns a name that its owner chose, short and on one line.
fn named(name: &str) -> String {
    shorten(&visible(&name.replace(['⟦', '⟧', '"'], "")), 80)
}
