//! The newest exchanges of a conversation: where somebody who takes it up again was.

use std::ops::ControlFlow;

use super::History;
use crate::message::{Block, Role};
use crate::session::{Event, Kind, Spoken};
use crate::sys;
use crate::sys::jsonl;

/// What a person said, and what became of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// When it was said, RFC 3339 UTC.
    pub at: String,
    /// The input that it came with.
    pub inbox_id: String,
    pub words: String,
    /// The agent's words; empty while there are none.
    pub answer: String,
    /// Why there is no answer, when the turn failed or was stopped.
    pub error: Option<String>,
}

impl History {
    /// Returns the newest `count` exchanges in order. The transcript is read from its end.
    pub(crate) fn exchanges(&self, count: usize) -> Result<Vec<Exchange>, sys::Error> {
        let mut found: Vec<Exchange> = Vec::new();
        let mut open = Exchange::default();
        for file in self.events.files.iter().rev() {
            let flow = jsonl::newest_lines(file, |line| {
                if let Ok(event) = serde_json::from_slice::<Event>(line)
                    && let Some(whole) = take(event, &mut open)
                {
                    found.push(whole);
                }
                if found.len() < count {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            if flow.is_break() {
                break;
            }
        }
        found.reverse();
        Ok(found)
    }
}

/// Puts an event before what is known of an exchange; returns it with the words that began it.
fn take(event: Event, open: &mut Exchange) -> Option<Exchange> {
    match event.kind {
        Kind::Message(spoken) if spoken.role == Role::Assistant => {
            let words = said(&spoken);
            if !words.is_empty() {
                let gap = if open.answer.is_empty() { "" } else { "\n\n" };
                open.answer.insert_str(0, &format!("{words}{gap}"));
            }
            None
        }
        Kind::Message(spoken) => {
            let words = said(&spoken);
            let inbox_id = spoken.inbox_id?;
            Some(Exchange {
                at: event.ts,
                inbox_id,
                words,
                ..std::mem::take(open)
            })
        }
        Kind::Error { text, .. } => {
            open.error.get_or_insert(text);
            None
        }
        _ => None,
    }
}

fn said(spoken: &Spoken) -> String {
    let texts = spoken.content.iter().filter_map(Block::words);
    texts
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join("\n\n")
}
