//! Decides whether a group message is addressed to the agent.
//!
//! Only what Telegram marked as a mention is one: `@name` is also found in addresses, in code and in
//! what people quote. A name by which we are called (`[telegram] aliases`) is looked for outside of
//! those.

use serde_json::Value;
use unicode_segmentation::UnicodeSegmentation;

use super::Identity;
use super::fields::Fields;
use super::text::MessageText;
use crate::message::Command;

/// Marks whose text does not speak to anybody, or to somebody else.
const NOT_SPEECH: &str = "blockquote bot_command cashtag code email email_address \
    expandable_blockquote hashtag mention phone_number pre pullquote text_mention url";

/// More than Telegram puts on one message (100), few enough for any sender.
const ENTITIES_MAX: usize = 1000;

/// Bytes of the longest address that is written behind its words; browsers take about as many.
const URL_MAX: usize = 2048;

/// Who a text calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// Nobody, or nobody we know.
    Nobody,
    Us,
    /// Us, by a command at the beginning.
    Command,
    /// Another bot, by a command at the beginning.
    Other,
}

/// Returns who `text` calls.
pub(super) fn call(text: &MessageText<'_>, bot: &Identity) -> Call {
    let entities = entities(text);
    let is_us = |name: &str| {
        let own = bot.username.as_deref();
        own.is_some_and(|own| own.eq_ignore_ascii_case(name))
    };
    for entity in &entities {
        let command = entity.text.trim_start_matches('/');
        let calls = match (entity.kind, command.split_once('@'), entity.start) {
            ("mention", ..) => entity.text.strip_prefix('@').is_some_and(is_us),
            ("text_mention", ..) => entity.user == Some(bot.id),
            ("bot_command", Some((_, to)), 0) if is_us(to) => return Call::Command,
            ("bot_command", Some(_), 0) => return Call::Other,
            ("bot_command", Some((_, to)), _) => is_us(to),
            // Without a name it is meant for every bot that knows it.
            ("bot_command", None, 0) if Command::spoken(command, "").is_some() => {
                return Call::Command;
            }
            _ => false,
        };
        if calls {
            return Call::Us;
        }
    }
    if is_named(text, &entities, &bot.aliases) {
        Call::Us
    } else {
        Call::Nobody
    }
}

/// A marked stretch of the text.
#[derive(Debug)]
struct Entity<'a> {
    kind: &'a str,
    /// Where it begins and ends, bytes.
    start: usize,
    end: usize,
    text: &'a str,
    user: Option<i64>,
    /// Where a `text_link` leads.
    url: Option<&'a str>,
}

/// Returns the text with the address behind each word that is a link: what a reader can click, the model can read.
pub(super) fn with_links(text: &MessageText<'_>) -> String {
    let mut written = String::with_capacity(text.text.len());
    let mut from = 0;
    let mut links: Vec<(usize, &str)> = entities(text)
        .iter()
        .filter_map(|entity| {
            Some((
                entity.end,
                entity.url.filter(|url| is_hidden(url, entity.text))?,
            ))
        })
        .collect();
    links.sort_by_key(|(end, _)| *end);
    for (end, url) in links {
        written.extend(text.text.get(from..end));
        written.push_str(&format!(" ({url})"));
        from = end;
    }
    written.extend(text.text.get(from..));
    written
}

/// Returns true when `shown` does not show the address `url` itself.
fn is_hidden(url: &str, shown: &str) -> bool {
    let bare = |address: &str| {
        let address = address.trim();
        let address = address.split_once("://").map_or(address, |(_, rest)| rest);
        address.trim_end_matches('/').to_lowercase()
    };
    url.len() <= URL_MAX && bare(url) != bare(shown)
}

/// Returns the entities by where they begin; those that are outside of the text, or cut a letter, are
/// left out.
fn entities<'a>(text: &'a MessageText<'_>) -> Vec<Entity<'a>> {
    // Telegram counts UTF-16 units: where each begins, in bytes; none begins inside of a pair.
    let mut bytes: Vec<Option<usize>> = Vec::new();
    for (at, c) in text.text.char_indices() {
        bytes.push(Some(at));
        bytes.resize(bytes.len() + c.len_utf16() - 1, None);
    }
    bytes.push(Some(text.text.len()));
    let at = |unit: i64| *bytes.get(usize::try_from(unit).ok()?)?;
    let entity = |value: &'a Value| {
        let offset = value.number("offset")?;
        let start = at(offset)?;
        let end = at(offset.checked_add(value.number("length")?)?)?;
        Some(Entity {
            kind: value.text("type")?,
            start,
            end,
            text: text.text.get(start..end)?,
            user: value.object("user").and_then(|user| user.number("id")),
            url: value.text("url"),
        })
    };
    let known = text.entities.iter().take(ENTITIES_MAX);
    let mut entities: Vec<Entity<'_>> = known.filter_map(entity).collect();
    entities.sort_by_key(|entity| entity.start);
    entities
}

/// Returns true when one of `names` is in what is said, as a whole word, in any letter case.
fn is_named(text: &MessageText<'_>, entities: &[Entity<'_>], names: &[String]) -> bool {
    let mut speech = String::with_capacity(text.text.len());
    let mut at = 0;
    let is_skipped = |entity: &&Entity<'_>| NOT_SPEECH.split(' ').any(|kind| kind == entity.kind);
    for entity in entities.iter().filter(is_skipped) {
        speech.push_str(text.text.get(at..entity.start).unwrap_or_default());
        // No name is spelt across it.
        speech.push('\u{fffc}');
        at = at.max(entity.end);
    }
    speech.push_str(text.text.get(at..).unwrap_or_default());
    let speech = speech.to_lowercase();
    let starts = speech.split_word_bound_indices().map(|(at, _)| at);
    let bounds: Vec<usize> = starts.chain([speech.len()]).collect();
    let is_bound = |at: usize, beside: Option<char>| {
        beside.is_some_and(ends_word) || bounds.binary_search(&at).is_ok()
    };
    let is_word = |(start, name): (usize, &str)| {
        let (before, rest) = speech.split_at_checked(start).unwrap_or_default();
        let after = rest.get(name.len()..).unwrap_or_default();
        is_bound(start, before.chars().next_back())
            && is_bound(start + name.len(), after.chars().next())
    };
    let names = names.iter().map(|name| name.trim().to_lowercase());
    let mut names = names.filter(|name| !name.is_empty());
    names.any(|name| speech.match_indices(name.as_str()).any(is_word))
}

/// Returns true for what may be inside of a word by the rules of Unicode and ends one for us:
/// `Ada:yes`, `Ada's`. All else they know better, in scripts without spaces too.
fn ends_word(c: char) -> bool {
    c == '\u{2019}' || c.is_ascii_punctuation() && c != '_'
}
