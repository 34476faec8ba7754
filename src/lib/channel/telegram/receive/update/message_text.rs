//! The words of a message, and what is marked in them.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::json_fields::Fields;

/// Words, and their `MessageEntity` list.
#[derive(Debug, Default)]
pub(super) struct Words<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) entities: Cow<'a, [Value]>,
}

/// Returns the text of a message, its caption, or what a rich message says.
pub(super) fn words(message: Fields<'_>) -> Words<'_> {
    let plain = [("text", "entities"), ("caption", "caption_entities")];
    let plain = plain.into_iter().find_map(|(text, entities)| {
        Some(Words {
            text: message.text(text)?.into(),
            entities: message.list(entities).into(),
        })
    });
    plain
        .or_else(|| message.object("rich_message").map(rich))
        .unwrap_or_default()
}

/// What is said in a rich message is spread over its blocks: paragraphs, tables, captions. Its files
/// are found by [`blocks`].
fn rich(message: Fields<'_>) -> Words<'static> {
    let mut flat = Flat::default();
    for block in message.list("blocks") {
        flat.block(block);
    }
    Words {
        text: flat.text.trim_end().to_owned().into(),
        entities: flat.entities.into(),
    }
}

/// Returns every block of a rich message, those inside others too.
pub(super) fn blocks(message: Fields<'_>) -> Vec<Fields<'_>> {
    let mut found: Vec<Fields<'_>> = message.objects("blocks").collect();
    let mut at = 0;
    while let Some(block) = found.get(at).copied() {
        at += 1;
        found.extend(block.objects("blocks").chain(block.objects("items")));
    }
    found
}

#[derive(Default)]
struct Flat {
    text: String,
    units: usize,
    entities: Vec<Value>,
}

impl Flat {
    fn say(&mut self, words: &str) {
        self.text.push_str(words);
        self.units += words.encode_utf16().count();
    }

    fn end_line(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.say("\n");
        }
    }

    /// A `RichBlock`, one of its list items or a row of its table: each on a line of its own.
    fn block(&mut self, value: &Value) {
        if let Value::Array(cells) = value {
            for (at, cell) in cells.iter().enumerate() {
                self.say(if at == 0 { "" } else { " | " });
                self.inline(cell);
            }
            return self.end_line();
        }
        let Some(block) = Fields::of(value) else {
            return;
        };
        let start = self.units;
        if let Some(label) = block.text("label") {
            self.say(label);
            self.say(" ");
        }
        for field in ["summary", "text", "expression"] {
            if let Some(words) = block.get(field) {
                self.inline(words);
                self.end_line();
            }
        }
        for field in ["blocks", "items", "cells"] {
            block.list(field).iter().for_each(|inner| self.block(inner));
        }
        for field in ["caption", "credit"] {
            if let Some(words) = block.get(field) {
                self.inline(words);
                self.end_line();
            }
        }
        let mark = match block.text("type") {
            Some("pre") => "pre",
            Some("blockquote" | "pullquote") => "blockquote",
            _ => return self.end_line(),
        };
        self.entities
            .push(json!({"type": mark, "offset": start, "length": self.units - start}));
        self.end_line();
    }

    /// A `RichText`: words, a list of such, or a mark around one.
    fn inline(&mut self, value: &Value) {
        match value {
            Value::String(words) => self.say(words),
            Value::Array(parts) => parts.iter().for_each(|part| self.inline(part)),
            Value::Object(mark) => {
                let start = self.units;
                for field in ["text", "alternative_text", "expression", "credit"] {
                    if let Some(inner) = mark.get(field) {
                        self.inline(inner);
                    }
                }
                let length = self.units - start;
                self.entities
                    .push(json!({"type": mark.get("type"), "offset": start, "length": length, "user": mark.get("user")}));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}
