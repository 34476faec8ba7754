//! Thinking that a server leaves in the text, `<think>…</think>` at its beginning: vLLM without a reasoning parser,
//! llama-server and LM Studio do. It is never shown and not kept.

use std::borrow::Cow;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// The beginning of an answer's text while it comes in.
#[derive(Debug, Default)]
pub(super) struct ThinkTags {
    at: At,
    /// What may be a part of a tag.
    held: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum At {
    /// The text so far may be the beginning of a tag.
    #[default]
    Begin,
    Thinking,
    /// Only white space came after the thinking.
    Behind,
    Text,
}

impl ThinkTags {
    /// Takes a piece of the text; returns what is to be shown now.
    pub(super) fn take<'a>(&mut self, piece: &'a str) -> Cow<'a, str> {
        if self.at == At::Text {
            return piece.into();
        }
        self.held.push_str(piece);
        if self.at == At::Begin {
            let words = self.held.trim_start();
            if let Some(thinking) = words.strip_prefix(OPEN) {
                (self.at, self.held) = (At::Thinking, thinking.to_owned());
            } else if !OPEN.starts_with(words) {
                return self.end().into();
            }
        }
        if self.at == At::Thinking {
            if let Some((_, rest)) = self.held.split_once(CLOSE) {
                (self.at, self.held) = (At::Behind, rest.to_owned());
            } else {
                // Only the beginning of the tag is waited with.
                let tag = self.held.rfind('<').map(|at| self.held.split_off(at));
                self.held = tag.filter(|tag| CLOSE.starts_with(tag)).unwrap_or_default();
            }
        }
        if self.at == At::Behind {
            self.held = self.held.trim_start().to_owned();
            if !self.held.is_empty() {
                return self.end().into();
            }
        }
        "".into()
    }

    /// Ends the beginning; returns what was held and is no thinking.
    pub(super) fn end(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        match std::mem::replace(&mut self.at, At::Text) {
            At::Thinking => String::new(),
            At::Begin | At::Behind | At::Text => held,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&str], expected: &[&str]) {
        let mut tags = ThinkTags::default();
        let mut shown: Vec<String> = pieces
            .iter()
            .map(|piece| tags.take(piece).into_owned())
            .collect();
        shown.push(tags.end());
        shown.retain(|piece| !piece.is_empty());
        assert_eq!(shown, expected, "{pieces:?}");
    }

    #[test]
    fn thinking_at_the_beginning_goes_and_everything_else_stays() {
        check(&["<th", "ink>a</think>\n\nHi"], &["Hi"]);
        check(
            &["\n<think>a < b </", "thi", "nk>", " \n", "Hi", " you"],
            &["Hi", " you"],
        );
        check(&["<thin", " air"], &["<thin air"]);
        check(&["  Hi <think>a</think>"], &["  Hi <think>a</think>"]);
        check(&["<thi"], &["<thi"]);
        check(&[" ", "\n"], &[" \n"]);
        check(&["<think>", "never closed"], &[]);
        check(&["<think></think>"], &[]);
    }
}
