//! A conversation for people: time, author and text; a line for each tool call.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use chrono_tz::Tz;

use super::Context;
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::app::documents::history::{History, Shown};
use crate::config;
use crate::message::{Block, Role, Trust};
use crate::session::{Compaction, Event, Kind, Spoken};
use crate::{clock, cost, text};

const LINE: usize = 160;

pub(crate) fn history(context: &Context<'_>, history: &History) -> Result<Exit, Failure> {
    // As a document an unknown session is an empty list.
    if !context.json && history.archived.is_empty() && history.events.is_empty() {
        let what = format!("no session {:?}", text::visible(&history.session_id));
        return Err(Failure::failed(what).hint("agent-send --sessions lists them"));
    }
    if context.json {
        cli::json(history);
    } else {
        print(context, history)?;
    }
    if !history.archived.is_empty() {
        context.note(&archived(history));
    }
    Ok(Exit::Ok)
}

fn archived(history: &History) -> String {
    let target = text::visible(&history.session_id);
    let ids: Vec<String> = history
        .archived
        .iter()
        .map(|head| {
            format!(
                "{} (of {})",
                head.session_id,
                text::head(&head.created_at, 10)
            )
        })
        .collect();
    format!(
        "{target} has no conversation now, but archived ones; agent-send --history ID, ID being {}",
        ids.join(" or ")
    )
}

/// Prints piece by piece: a long transcript is not held in memory, and a reader that has seen enough
/// ends it.
fn print(context: &Context<'_>, history: &History) -> Result<(), Failure> {
    if history.events.is_empty() {
        return Ok(());
    }
    let agent = config::load_config(context.home, context.env)
        .map_or_else(|_| "agent".to_owned(), |config| config.agent.name);
    let person = history.contact.clone().unwrap_or_default();
    let mut page = Page {
        zone: context.zone(),
        person,
        agent,
        full: history.events.full(),
        began: false,
        speaking: None,
    };
    let mut read = Ok(());
    cli::stream(|out| {
        let flow = history
            .events
            .each(|shown| match out.write_all(page.piece(shown).as_bytes()) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            });
        match flow {
            Ok(ControlFlow::Break(error)) => return Err(error),
            Ok(ControlFlow::Continue(())) => {}
            Err(error) => read = Err(error),
        }
        Ok(())
    });
    Ok(read?)
}

struct Page {
    zone: Tz,
    person: String,
    agent: String,
    full: bool,
    began: bool,
    speaking: Option<(String, String)>,
}

impl Page {
    fn piece(&mut self, shown: Shown) -> String {
        let event = match shown {
            Shown::Known(event) => event,
            Shown::Unknown(line) => {
                return format!(
                    "{}\n",
                    text::visible(&serde_json::Value::Object(line).to_string())
                );
            }
        };
        let mut piece = String::new();
        self.draw(&event, &mut piece);
        self.began = true;
        cli::harmless(&piece)
    }

    fn draw(&mut self, event: &Event, piece: &mut String) {
        match &event.kind {
            Kind::Message(spoken) => self.draw_message(event, spoken, piece),
            Kind::Prompt(prompt) => line(
                piece,
                "·",
                &format!(
                    "prompt of {} blocks; agent-send --explain {}",
                    prompt.blocks.len(),
                    text::visible(&prompt.run_id)
                ),
            ),
            Kind::ToolCall { name, .. } => line(piece, "·", &format!("{name} begins")),
            Kind::ToolResult {
                name,
                duration_ms,
                result,
                ..
            } => {
                let failed = if result.is_error { ", failed" } else { "" };
                let head = format!("{name}, {duration_ms} ms{failed}:");
                if self.full {
                    line(piece, "←", &head);
                    indented(piece, "      ", &result.text);
                } else {
                    line(piece, "←", &self.short(&format!("{head} {}", result.text)));
                }
            }
            Kind::Compaction(Compaction {
                summary,
                tokens: (before, after),
                ..
            }) => {
                let head = format!(
                    "older messages were summarized, {} tokens became {}:",
                    text::count(*before),
                    text::count(*after)
                );
                if self.full {
                    line(piece, "≡", &head);
                    indented(piece, "      ", summary);
                } else {
                    line(piece, "≡", &self.short(&format!("{head} {summary}")));
                }
            }
            Kind::Flush { receipts, .. } => line(
                piece,
                "≡",
                &self.short(&format!("kept before that: {}", receipts.join("; "))),
            ),
            Kind::Pin { text, .. } => line(piece, "≡", &self.short(&format!("pinned: {text}"))),
            Kind::Unpin { text, .. } => line(
                piece,
                "≡",
                &self.short(&format!("no longer pinned: {text}")),
            ),
            Kind::Setting { model } => {
                line(
                    piece,
                    "≡",
                    &text::visible(&format!(
                        "model: {}",
                        model.as_deref().unwrap_or("the usual one")
                    )),
                );
            }
            Kind::Error { text, .. } => line(piece, "!", &text::visible(text)),
            Kind::Session(head) => {
                let words = format!("{}  {}  {}", head.session_id, head.key, head.contact);
                piece.push_str(&format!(
                    "{}  begins: {}\n",
                    self.time(event),
                    text::visible(&words)
                ));
            }
            Kind::Forgotten { .. } => line(piece, "≡", "[forgotten]"),
            Kind::Unknown => {}
        }
    }

    fn draw_message(&mut self, event: &Event, spoken: &Spoken, piece: &mut String) {
        let who = match (spoken.role, spoken.inbox_id.is_some(), spoken.trust) {
            (Role::Assistant, ..) => self.agent.clone(),
            (Role::User, true, Some(Trust::Other)) => format!("{} (no orders)", self.person),
            (Role::User, true, _) => self.person.clone(),
            (Role::User, false, _) => "system".to_owned(),
        };
        let speaking = Some((who, spoken.run_id.clone()));
        if self.speaking != speaking {
            let who = speaking
                .as_ref()
                .map(|(who, _)| text::visible(who))
                .unwrap_or_default();
            let gap = if self.began { "\n" } else { "" };
            piece.push_str(&format!("{gap}{}  {who}\n", self.time(event)));
            self.speaking = speaking;
        }
        for block in &spoken.content {
            match block {
                Block::Text { text } | Block::Context { text } => indented(piece, "  ", text),
                Block::Image { file, .. } => line(piece, "▣", &format!("state/downloads/{file}")),
                Block::Thinking(_) => {}
                Block::ToolCall(call) => {
                    line(
                        piece,
                        "→",
                        &self.short(&format!("{} {}", call.name, call.input)),
                    );
                }
                Block::ToolResult(result) => line(piece, "←", &self.short(&result.text)),
            }
        }
        if self.full
            && let Some(usage) = spoken.usage
        {
            let model = spoken.model.as_deref().unwrap_or("?");
            let price = spoken.cost_nano_usd.map_or_else(
                || "unpriced".to_owned(),
                |nano| format!("${:.6}", cost::usd(nano)),
            );
            line(
                piece,
                "·",
                &format!("{model}, {} tokens, {price}", usage.total()),
            );
        }
    }

    /// Returns words for one line; in the short form not more of them than are read.
    fn short(&self, words: &str) -> String {
        if self.full {
            return text::visible(words);
        }
        let one_line = text::one_line(words);
        text::visible(&text::shorten(&one_line, LINE))
    }

    fn time(&self, event: &Event) -> String {
        clock::parse_rfc3339(&event.ts).map_or_else(
            || text::visible(&event.ts),
            |at| clock::local_stamp(at, self.zone),
        )
    }
}

fn line(piece: &mut String, sign: &str, words: &str) {
    // A String takes everything.
    let _ = writeln!(piece, "    {sign} {words}");
}

fn indented(piece: &mut String, by: &str, words: &str) {
    for line in words.trim_end().lines() {
        let _ = writeln!(piece, "{}", format!("{by}{line}").trim_end());
    }
}

#[cfg(test)]
mod tests;
