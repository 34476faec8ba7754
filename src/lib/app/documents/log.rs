//! `log`: the newest entries of the log.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::app::cli::Failure;
use crate::config::Home;
use crate::{logging, text};

/// `log` and `audit`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Entries {
    /// As they were written, oldest first.
    pub entries: Vec<Map<String, Value>>,
}

/// Returns the newest `count` entries: `timestamp`, `level`, `message` and the fields of the event; none when there is no
/// log.
pub(crate) fn log(home: &Home, count: usize) -> Result<Entries, Failure> {
    Ok(Entries {
        entries: logging::newest(&home.logs(), count)?,
    })
}

/// Returns what an entry says, on one line: its message, then the fields of the event and of its span. The
/// module it came from is left out.
pub(crate) fn log_words(entry: &Map<String, Value>) -> String {
    let mut line = text::visible(
        entry
            .get("message")
            .and_then(Value::as_str)
            .unwrap_or_default(),
    );
    let span = entry
        .get("span")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter(|(name, _)| *name != "name");
    let own = entry.iter().filter(|(name, _)| {
        !["timestamp", "level", "message", "target", "span"].contains(&name.as_str())
    });
    for (name, value) in own.chain(span) {
        let value = match value {
            Value::String(text) if !text.is_empty() && !text.contains([' ', '"', '=']) => {
                text.clone()
            }
            other => other.to_string(),
        };
        // A String takes everything.
        let _ = write!(line, "  {}={}", text::visible(name), text::visible(&value));
    }
    line
}
