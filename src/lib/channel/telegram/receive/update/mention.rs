//! Whether words in a group are meant for us.
//!
//! Only what Telegram marked as a mention is one: `@name` also stands in addresses, in code and in
//! what people quote. A name by which we are called (`[telegram] aliases`) is looked for outside of
//! those.

use serde_json::Value;
use unicode_segmentation::UnicodeSegmentation;

use super::Identity;
use super::json_fields::Fields;
use super::message_text::Words;
use crate::message::Command;

/// Marks whose words do not speak to anybody, or to somebody else.
const DEAF: &[&str] = &[
    "blockquote",
    "bot_command",
    "cashtag",
    "code",
    "email",
    "email_address",
    "expandable_blockquote",
    "hashtag",
    "mention",
    "phone_number",
    "pre",
    "pullquote",
    "text_mention",
    "url",
];

/// More than Telegram puts on one message (100), few enough for any sender.
const MARKS_MAX: usize = 1000;

/// Who words call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// Nobody, or nobody we know.
    Nobody,
    /// Us.
    Us,
    /// Us, by a command at the beginning.
    Command,
    /// Another bot, by a command at the beginning.
    Other,
}

/// Returns who `words` call.
pub(super) fn call(words: &Words<'_>, us: &Identity) -> Call {
    let marks = marks(words);
    let is_us = |name: &str| {
        us.username
            .as_deref()
            .is_some_and(|own| own.eq_ignore_ascii_case(name))
    };
    for mark in &marks {
        let calls = match mark.kind {
            "mention" => mark.text.strip_prefix('@').is_some_and(is_us),
            "text_mention" => mark.user == Some(us.bot),
            "bot_command" => match (
                mark.text.trim_start_matches('/').split_once('@'),
                mark.start,
            ) {
                (Some((_, to)), 0) => {
                    return if is_us(to) {
                        Call::Command
                    } else {
                        Call::Other
                    };
                }
                (Some((_, to)), _) => is_us(to),
                // Without a name it is meant for every bot that knows it.
                (None, 0) if Command::spoken(mark.text.trim_start_matches('/'), "").is_some() => {
                    return Call::Command;
                }
                (None, _) => false,
            },
            _ => false,
        };
        if calls {
            return Call::Us;
        }
    }
    if is_named(words, &marks, &us.aliases) {
        Call::Us
    } else {
        Call::Nobody
    }
}

/// A marked stretch of the words.
#[derive(Debug)]
struct Mark<'a> {
    kind: &'a str,
    /// Where it begins and ends, bytes.
    start: usize,
    end: usize,
    text: &'a str,
    user: Option<i64>,
}

/// Returns the marks by where they begin; those that lie outside of the words, or cut a letter, are
/// left out.
fn marks<'a>(words: &'a Words<'_>) -> Vec<Mark<'a>> {
    // Telegram counts UTF-16 units: where each begins, in bytes; none begins inside of a pair.
    let mut bytes: Vec<Option<usize>> = Vec::new();
    for (at, c) in words.text.char_indices() {
        bytes.push(Some(at));
        bytes.resize(bytes.len() + c.len_utf16() - 1, None);
    }
    bytes.push(Some(words.text.len()));
    let at = |unit: i64| {
        usize::try_from(unit)
            .ok()
            .and_then(|unit| bytes.get(unit).copied().flatten())
    };
    let mark = |value: &'a Value| {
        let fields = Fields::of(value)?;
        let offset = fields.number("offset")?;
        let (start, end) = (
            at(offset)?,
            at(offset.checked_add(fields.number("length")?)?)?,
        );
        let user = fields.object("user").and_then(|user| user.number("id"));
        Some(Mark {
            kind: fields.text("type")?,
            start,
            end,
            text: words.text.get(start..end)?,
            user,
        })
    };
    let mut marks: Vec<Mark<'_>> = words
        .entities
        .iter()
        .take(MARKS_MAX)
        .filter_map(mark)
        .collect();
    marks.sort_by_key(|mark| mark.start);
    marks
}

/// Returns true when one of `names` stands in what is said, as a whole word, in any letter case.
fn is_named(words: &Words<'_>, marks: &[Mark<'_>], names: &[String]) -> bool {
    let names: Vec<String> = names
        .iter()
        .map(|name| name.trim().to_lowercase())
        .filter(|name| !name.is_empty())
        .collect();
    if names.is_empty() {
        return false;
    }
    // The marks come in order: what stands between the deaf ones is heard.
    let mut heard = String::with_capacity(words.text.len());
    let mut at = 0;
    for mark in marks.iter().filter(|mark| DEAF.contains(&mark.kind)) {
        heard.push_str(words.text.get(at..mark.start).unwrap_or_default());
        // Nothing is spelt across it.
        heard.push('\u{fffc}');
        at = at.max(mark.end);
    }
    heard.push_str(words.text.get(at..).unwrap_or_default());
    let heard = heard.to_lowercase();
    let mut ends: Vec<usize> = heard.split_word_bound_indices().map(|(at, _)| at).collect();
    ends.push(heard.len());
    names.iter().any(|name| {
        heard.match_indices(name.as_str()).any(|(start, _)| {
            let end = start + name.len();
            let before = heard.get(..start).and_then(|text| text.chars().next_back());
            let after = heard.get(end..).and_then(|text| text.chars().next());
            let ends_at = |at: usize, beside: Option<char>| {
                beside.is_some_and(is_gap) || ends.binary_search(&at).is_ok()
            };
            ends_at(start, before) && ends_at(end, after)
        })
    })
}

/// Returns true for what may stand inside of a word by the rules of Unicode and ends one for us:
/// `Ada:yes`, `Ada's`. All else they know better, in scripts without spaces too.
fn is_gap(c: char) -> bool {
    c == '\u{2019}' || c.is_ascii_punctuation() && c != '_'
}
