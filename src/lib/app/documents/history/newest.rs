//! The newest events of a conversation, for live views: a conversation of years is neither sent as a whole nor kept in
//! memory.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::{History, LONG, short};
use crate::message::Block;
use crate::pipeline;
use crate::session::{Event, Kind};
use crate::sys;

/// Lines that are looked through for each event that is asked for: what a turn began with is not a conversation.
const LINES_FOR_ONE: usize = 4;

/// The end of a `history`.
#[derive(Debug, Serialize)]
pub(crate) struct Newest {
    session_id: String,
    key: Option<String>,
    contact: Option<String>,
    /// In order; words are whole, what tools were asked and answered is cut at 4,000 characters.
    events: Vec<Read>,
    /// Whether there are older ones.
    more: bool,
}

/// An event, and the files that came with it.
#[derive(Debug, Serialize)]
struct Read {
    #[serde(flatten)]
    event: Event,
    /// Paths below the workspace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<String>,
}

#[derive(Deserialize)]
struct Numbered {
    seq: u64,
}

impl History {
    /// Returns the newest `count` events, of those `before` a number if there is one.
    pub(crate) fn newest(self, count: usize, before: Option<u64>) -> Result<Newest, sys::Error> {
        let most = count.saturating_mul(LINES_FOR_ONE);
        let mut lines: VecDeque<Vec<u8>> = VecDeque::new();
        let mut more = false;
        let read = self.events.each_line(|line| {
            if let Some(before) = before
                && serde_json::from_slice::<Numbered>(line).is_ok_and(|line| line.seq >= before)
            {
                return ControlFlow::Break(());
            }
            if lines.len() == most {
                lines.pop_front();
                more = true;
            }
            lines.push_back(line.to_vec());
            ControlFlow::Continue(())
        });
        let _: ControlFlow<()> = read?;
        let mut events = VecDeque::with_capacity(count.min(lines.len()));
        while let Some(line) = lines.pop_back() {
            let Ok(event) = serde_json::from_slice::<Event>(&line) else {
                continue;
            };
            let files = files(&event.kind);
            let Some(kind) = short(event.kind, LONG) else {
                continue;
            };
            if events.len() == count {
                more = true;
                break;
            }
            let event = Event { kind, ..event };
            events.push_front(Read { event, files });
        }
        Ok(Newest {
            session_id: self.session_id,
            key: self.key,
            contact: self.contact,
            events: events.into(),
            more,
        })
    }
}

fn files(kind: &Kind) -> Vec<String> {
    let Kind::Message(spoken) = kind else {
        return Vec::new();
    };
    let heads = spoken.content.iter().filter_map(|block| match block {
        Block::Context { text } => Some(text.as_str()),
        _ => None,
    });
    heads
        .flat_map(pipeline::kept_files)
        .map(str::to_owned)
        .collect()
}
