//! The text of a message, and what is marked in it.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::fields::Fields;

/// A text and its `MessageEntity` list.
#[derive(Debug, Default)]
pub(super) struct MessageText<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) entities: Cow<'a, [Value]>,
}

/// Returns the text of a message, its caption, or what a rich message says.
pub(super) fn of(message: &Value) -> MessageText<'_> {
    let plain = |text: &str, entities: &str| {
        Some(MessageText {
            text: message.text(text)?.into(),
            entities: message.list(entities).into(),
        })
    };
    let rich = || message.object("rich_message").map(flatten);
    plain("text", "entities")
        .or_else(|| plain("caption", "caption_entities"))
        .or_else(rich)
        .unwrap_or_default()
}

/// Returns every block of a rich message, also those inside others.
pub(super) fn rich_blocks(message: &Value) -> Vec<&Value> {
    let mut found: Vec<&Value> = message.list("blocks").iter().collect();
    let mut at = 0;
    while let Some(block) = found.get(at).copied() {
        at += 1;
        found.extend(block.list("blocks").iter().chain(block.list("items")));
    }
    found
}

/// Returns the text of a rich message, which is spread over its blocks: paragraphs, tables, captions.
fn flatten(message: &Value) -> MessageText<'static> {
    let mut flat = Flat::default();
    let blocks = message.list("blocks");
    blocks.iter().for_each(|block| flat.block(block));
    MessageText {
        text: flat.text.trim_end().to_owned().into(),
        entities: flat.entities.into(),
    }
}

#[derive(Default)]
struct Flat {
    text: String,
    units: usize,
    entities: Vec<Value>,
}

impl Flat {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.units += text.encode_utf16().count();
    }

    fn end_line(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.push("\n");
        }
    }

    /// Writes the `RichText`s in these fields, each on a separate line.
    fn lines(&mut self, block: &Value, fields: &[&str]) {
        for text in fields.iter().filter_map(|field| block.field(field)) {
            self.inline(text);
            self.end_line();
        }
    }

    /// Writes a `RichBlock`, one of its list items or a row of its table, each on a separate line.
    fn block(&mut self, block: &Value) {
        for (at, cell) in block.as_array().into_iter().flatten().enumerate() {
            self.push(if at == 0 { "" } else { " | " });
            self.inline(cell);
        }
        let start = self.units;
        if let Some(label) = block.text("label") {
            self.push(&format!("{label} "));
        }
        self.lines(block, &["summary", "text", "expression"]);
        for field in ["blocks", "items", "cells"] {
            block.list(field).iter().for_each(|inner| self.block(inner));
        }
        self.lines(block, &["caption", "credit"]);
        let mark = match block.text("type") {
            Some("pre") => Some("pre"),
            Some("blockquote" | "pullquote") => Some("blockquote"),
            _ => None,
        };
        let length = self.units - start;
        let entity = |mark| json!({"type": mark, "offset": start, "length": length});
        self.entities.extend(mark.map(entity));
        self.end_line();
    }

    /// Writes a `RichText`: a string, a list of such, or a mark around one.
    fn inline(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.push(text),
            Value::Array(parts) => parts.iter().for_each(|part| self.inline(part)),
            Value::Object(mark) => {
                let start = self.units;
                for field in ["text", "alternative_text", "expression", "credit"] {
                    self.inline(&value[field]);
                }
                self.entities.push(json!({
                    "type": mark.get("type"),
                    "offset": start,
                    "length": self.units - start,
                    "user": mark.get("user"),
                    "url": mark.get("url"),
                }));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}
