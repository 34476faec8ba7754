//! `history`: the events of a conversation, also of an archived one, read from its transcript line by line, because a
//! conversation of years may not fit into memory.

use std::ops::ControlFlow;
use std::path::PathBuf;

use serde::ser::{Error as _, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

pub(crate) use exchanges::Exchange;

use crate::app::cli::Failure;
use crate::config;
use crate::config::{Environment, Home};
use crate::message::{Block, Role};
use crate::people::People;
use crate::session;
use crate::session::{Event, Head, Index, Kind};
use crate::sys;
use crate::sys::jsonl;
use crate::text;

/// Characters that are shown of words, and of what tools are asked and answer.
const SHORT: (usize, usize) = (2000, 300);
/// The same where a person reads along: words are whole.
const LONG: (usize, usize) = (usize::MAX, 4000);

/// `history`.
#[derive(Debug, Serialize)]
pub(crate) struct History {
    /// The session; what was asked for when there is none.
    pub session_id: String,
    /// Its key, when it is known.
    pub key: Option<String>,
    /// Whom we talk to, when it is known.
    pub contact: Option<String>,
    /// What happened, in order.
    pub events: Events,
    /// When nothing was found: the archived sessions that may be meant, the oldest first.
    #[serde(skip)]
    pub archived: Vec<Head>,
}

/// The events of a transcript; as JSON a list.
#[derive(Debug)]
pub(crate) struct Events {
    files: Vec<PathBuf>,
    /// Where they go when the conversation starts over.
    archive: PathBuf,
    /// Everything as it is there, and not only the conversation.
    full: bool,
}

/// Returns the history of the session that `target` means: its id or key, a contact, an @username. No
/// events when there is no such session.
pub(crate) fn history(
    home: &Home,
    env: &Environment,
    target: &str,
    full: bool,
) -> Result<History, Failure> {
    let index = Index::read(&home.sessions_index(), &home.sessions())?;
    // Settings that cannot be read join nobody.
    let links = config::load(home, env, &[])
        .map(|loaded| loaded.config.session)
        .unwrap_or_default();
    let people = People::read(&home.people())?.knowing(links);
    let found = if target.is_empty() {
        Vec::new()
    } else {
        index.find(&people, target)
    };
    let session_id = match found.as_slice() {
        [] => target,
        [key] => index.id_of(key).unwrap_or(target),
        several => {
            let keys: Vec<String> = several.iter().map(|key| text::visible(key)).collect();
            return Err(Failure::usage(format!(
                "{} may mean {} conversations",
                text::visible(target),
                keys.len()
            ))
            .hint(format!(
                "name one: agent-send --history KEY, KEY being {}",
                keys.join(" or ")
            )));
        }
    };
    let files = session::transcript_files(&home.sessions(), &home.archive(), session_id)?;
    // A file that cannot be read is told before the first line is printed. One that is moved just now is read
    // where it goes.
    for file in &files {
        match std::fs::File::open(file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(sys::Error::at("open", file)(error).into());
            }
            _ => {}
        }
    }
    let head = files.first().map(|file| session::head(file));
    let head = head.and_then(|head| head.ok().flatten());
    let nothing = files.is_empty() && !target.is_empty();
    let archived = if nothing {
        session::archived(&home.archive(), &people, target)
    } else {
        Vec::new()
    };
    let (key, contact) = head.map(|head| (head.key, head.contact)).unzip();
    Ok(History {
        session_id: session_id.to_owned(),
        key,
        contact,
        events: Events {
            files,
            archive: home.archive(),
            full,
        },
        archived,
    })
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shown {
    Known(Box<Event>),
    Unknown(Map<String, Value>),
}

impl Events {
    /// Returns true when there is no transcript.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns true when everything is shown, and not only the conversation.
    pub(crate) fn full(&self) -> bool {
        self.full
    }

    /// Calls `each` with every event, in order, until it breaks off. Damaged lines are passed over.
    pub(crate) fn each<B>(
        &self,
        mut each: impl FnMut(Shown) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, sys::Error> {
        self.each_line(|line| match self.shown(line) {
            Some(event) => each(event),
            None => ControlFlow::Continue(()),
        })
    }

    fn each_line<B>(
        &self,
        mut each: impl FnMut(&[u8]) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, sys::Error> {
        for file in &self.files {
            let mut is_empty = true;
            let mut read = |file: &std::path::Path| {
                jsonl::try_for_each_line(file, 0, |line, _| {
                    is_empty = false;
                    each(line)
                })
            };
            let mut flow = read(file)?;
            if is_empty && !file.exists() {
                flow = jsonl::try_for_each_line(
                    &self.archive.join(file.file_name().unwrap_or_default()),
                    0,
                    |line, _| each(line),
                )?;
            }
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn shown(&self, line: &[u8]) -> Option<Shown> {
        match serde_json::from_slice::<Event>(line) {
            Ok(event) if !self.full => Some(Event {
                kind: short(event.kind, SHORT)?,
                ..event
            }),
            Ok(event) if event.kind != Kind::Unknown => Some(event),
            _ if self.full => return serde_json::from_slice(line).ok().map(Shown::Unknown),
            _ => None,
        }
        .map(|event| Shown::Known(Box::new(event)))
    }

    fn add<S: SerializeSeq>(&self, list: &mut S, line: &[u8]) -> Result<(), S::Error> {
        if self.full {
            return match serde_json::from_slice::<Map<String, Value>>(line) {
                Ok(line) => list.serialize_element(&line),
                Err(_) => Ok(()),
            };
        }
        match self.shown(line) {
            Some(Shown::Known(event)) => list.serialize_element(&event),
            Some(Shown::Unknown(_)) | None => Ok(()),
        }
    }
}

impl Serialize for Events {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let flow = self.each_line(|line| match self.add(&mut list, line) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        });
        match flow.map_err(S::Error::custom)? {
            ControlFlow::Continue(()) => list.end(),
            ControlFlow::Break(error) => Err(error),
        }
    }
}

/// Returns what a reader wants to see of an event; `None` for what is not a conversation.
fn short(mut kind: Kind, limits: (usize, usize)) -> Option<Kind> {
    match &mut kind {
        Kind::Message(spoken) => {
            let blocks = std::mem::take(&mut spoken.content).into_iter();
            let short = |block| short_block(block, limits);
            spoken.content = blocks.filter_map(short).collect();
            let is_said = spoken.role == Role::Assistant || spoken.inbox_id.is_some();
            if spoken.content.is_empty() && !is_said {
                return None;
            }
        }
        Kind::ToolResult { result, .. } => result.text = text::shorten(&result.text, limits.1),
        Kind::Error { .. }
        | Kind::Compaction(_)
        | Kind::Flush { .. }
        | Kind::Pin { .. }
        | Kind::Unpin { .. }
        | Kind::Setting { .. } => {}
        Kind::Session(_)
        | Kind::Prompt(_)
        | Kind::ToolCall { .. }
        | Kind::Forgotten { .. }
        | Kind::Unknown => return None,
    }
    Some(kind)
}

fn short_block(block: Block, limits: (usize, usize)) -> Option<Block> {
    match block {
        Block::Text { text } => Some(Block::Text {
            text: text::shorten(&text, limits.0),
        }),
        Block::Context { .. } | Block::Thinking(_) => None,
        Block::Image { .. } => Some(block),
        Block::ToolCall(mut call) => {
            shorten_texts(&mut call.input, limits.1);
            Some(Block::ToolCall(call))
        }
        Block::ToolResult(mut result) => {
            result.text = text::shorten(&result.text, limits.1);
            Some(Block::ToolResult(result))
        }
    }
}

fn shorten_texts(value: &mut Value, most: usize) {
    match value {
        Value::String(text) => *text = text::shorten(text, most),
        Value::Array(items) => items.iter_mut().for_each(|item| shorten_texts(item, most)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| shorten_texts(field, most)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

mod exchanges;
mod newest;
#[cfg(test)]
mod tests;
