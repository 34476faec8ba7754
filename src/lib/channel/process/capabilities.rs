//! `channel.json`: the capabilities of a channel, as its process declares them; others are absent.

use serde::{Deserialize, Serialize};

use crate::channel::{Rendered, split_markdown, split_plain};
use crate::text;

/// The largest `channel.json`, bytes.
pub(super) const MAX_FILE: u64 = 64 << 10;
/// The length of a message where a channel says nothing.
const LENGTH: usize = 4_000;
/// Shorter ones would be parts of sentences; longer ones nobody needs.
const LENGTHS: std::ops::RangeInclusive<usize> = 100..=1_000_000;
/// How a text may be written.
const FORMATS: [&str; 3] = ["markdown", "html", "plain"];
/// What is shown of a problem, bytes.
const PROBLEM: usize = 300;
/// Stands before a message that may have arrived already.
pub(super) const MARK: &str = "(resent)\n";

/// What a channel can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// The longest message; what is below 100 or above a million counts as that.
    pub length: usize,
    /// What `length` counts.
    pub length_unit: Unit,
    /// How `text` may be written, the best first: `markdown`, `html`, `plain`.
    pub formats: Vec<String>,
    /// Whether messages can be changed.
    pub edits: bool,
    /// Whether an emoji can be put on a message.
    pub reactions: bool,
    /// Whether files can be sent.
    pub files: bool,
    /// Whether a chat has threads.
    pub threads: bool,
    /// Whether buttons can be below a message.
    pub buttons: bool,
    /// Why the process cannot work until a person acts, in its words.
    pub problem: Option<String>,
}

/// What a length counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Characters.
    #[default]
    Chars,
    /// Units of UTF-16.
    Utf16,
    /// Bytes of UTF-8.
    Bytes,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            length: LENGTH,
            length_unit: Unit::Chars,
            formats: vec!["plain".to_owned()],
            edits: false,
            reactions: false,
            files: false,
            threads: false,
            buttons: false,
            problem: None,
        }
    }
}

impl Capabilities {
    /// Reads what a process wrote.
    ///
    /// # Errors
    /// A sentence with what is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut read: Self = text::json::parse(bytes).map_err(|error| error.to_string())?;
        read.problem = read
            .problem
            .map(|words| text::shorten(&text::one_line(&words), PROBLEM));
        Ok(read)
    }

    /// Returns what of it does not count, a sentence.
    pub(super) fn fault(&self) -> Option<String> {
        let least = *LENGTHS.start();
        if self.length < least {
            let length = self.length;
            return Some(format!(
                "`length` is {length} and must be at least {least}; {least} counts"
            ));
        }
        let unknown = self.formats.iter().find(|name| !is_format(name))?;
        let shown = text::shorten(&text::visible(unknown), 40);
        Some(format!(
            "`formats` has {shown:?}, which does not count: {}",
            FORMATS.join(", ")
        ))
    }

    /// Returns how many units of UTF-16 surely fit: a character has one or two of them, and a unit at most three bytes.
    fn units(&self) -> usize {
        let length = self.length.clamp(*LENGTHS.start(), *LENGTHS.end());
        let room = length.saturating_sub(MARK.len());
        match self.length_unit {
            Unit::Chars | Unit::Utf16 => room,
            Unit::Bytes => room / 3,
        }
    }

    /// Turns the agent's Markdown into messages.
    pub fn render(&self, markdown: &str) -> Vec<Rendered> {
        let best = self.formats.iter().find(|name| is_format(name));
        let html = best.is_some_and(|best| best == "html");
        split_markdown(markdown, self.units())
            .into_iter()
            .map(|part| Rendered {
                markup: part.markup.filter(|_| html),
                plain: part.plain,
            })
            .collect()
    }

    /// Turns a text into messages that show it as it is.
    pub fn plain(&self, text: &str) -> Vec<Rendered> {
        split_plain(text, self.units())
    }
}

fn is_format(name: &str) -> bool {
    FORMATS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_cannot_be_done_and_a_length_stays_sensible() {
        assert_eq!(Capabilities::parse(b"{}"), Ok(Capabilities::default()));
        let read = |json: &str| Capabilities::parse(json.as_bytes());
        for (length, units, fault) in [
            (0, 91, true),
            (99, 91, true),
            (100, 91, false),
            (2_000_000_000, 999_991, false),
        ] {
            let one = read(&format!(r#"{{"length":{length}}}"#)).expect("read");
            assert_eq!((one.units(), one.fault().is_some()), (units, fault));
        }
        assert!(read(r#"{"length":-1}"#).is_err() && read("[").is_err());
        assert!(read(r#"{"edits":true,"later":[1]}"#).is_ok_and(|one| one.edits && !one.files));
    }

    #[test]
    fn a_format_that_is_none_is_named_and_the_next_one_counts() {
        let check = |formats: &str, fault: Option<&str>, html: bool| {
            let json = format!(r#"{{"formats":{formats}}}"#);
            let one = Capabilities::parse(json.as_bytes()).expect("read");
            let told = one.fault();
            assert_eq!(told.is_some(), fault.is_some(), "{told:?}");
            let says = |words: &str| told.as_ref().is_some_and(|told| told.contains(words));
            assert!(fault.is_none_or(says), "{told:?}");
            let parts = one.render("**bold**");
            assert_eq!(parts[0].markup.is_some(), html, "{formats}");
        };
        check(r#"["html","plain"]"#, None, true);
        check("[]", None, false);
        check(
            r#"["bogus"]"#,
            Some("`formats` has \"bogus\", which does not count"),
            false,
        );
        check(r#"["bogus","html"]"#, Some("bogus"), true);
    }

    #[test]
    fn no_part_is_longer_than_the_channel_takes_and_none_is_lost() {
        let said = "Some **bold** words and ünïcode 😀.\n\n".repeat(60);
        for (unit, length) in [(Unit::Chars, 120), (Unit::Utf16, 120), (Unit::Bytes, 300)] {
            let channel = Capabilities {
                length,
                length_unit: unit,
                ..Capabilities::default()
            };
            let parts = channel.render(&said);
            assert!(parts.len() > 5 && parts.iter().all(|part| part.markup.is_none()));
            for part in &parts {
                let text = format!("{MARK}{}", part.plain);
                let long = match unit {
                    Unit::Chars => text.chars().count(),
                    Unit::Utf16 => text.encode_utf16().count(),
                    Unit::Bytes => text.len(),
                };
                assert!(long <= length, "{long} {unit:?}: {text}");
            }
            let all: String = parts.iter().map(|part| part.plain.as_str()).collect();
            assert_eq!(all.matches("bold").count(), 60);
        }
    }
}
