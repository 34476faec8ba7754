//! Reads the newest entries.

use std::ops::ControlFlow;

use serde_json::{Map, Value, json};

use super::Place;
use super::entry::Entry;
use crate::sys;
use crate::sys::jsonl;

/// Returns the newest `count` entries as they were written, oldest first; of a line that is none, or was
/// changed, `kind` is `unreadable` and `line` what is there, at most 200 characters.
///
/// # Errors
/// When the log cannot be read.
pub fn newest(place: &Place, count: usize) -> Result<Vec<Map<String, Value>>, sys::Error> {
    let mut entries = Vec::new();
    if count > 0 {
        let _: ControlFlow<()> = jsonl::newest_lines(&place.log, |line| {
            entries.push(read(line));
            if entries.len() == count {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
    }
    entries.reverse();
    Ok(entries)
}

fn read(line: &[u8]) -> Map<String, Value> {
    let entry = Entry::parse(line)
        .ok()
        .and_then(|_| serde_json::from_slice(line).ok());
    entry.unwrap_or_else(|| {
        let text: String = String::from_utf8_lossy(line).chars().take(200).collect();
        json!({"kind": "unreadable", "line": text})
            .as_object()
            .cloned()
            .unwrap_or_default()
    })
}
