//! Memory files: prose about the user, and lines of the form `key: value`.

use super::facts::EXPLICIT;
use super::never_remembered::may_keep;
use super::sentence::MAX_QUOTE;
use super::statement::passes;
use super::subject::{Role, USER, name_kind, relation, subject};
use super::value::value;
use super::words::{has_any, words};
use super::{Claim, Voice};
use crate::language::pack::{ValueKind, any_has, english, is_month, packs};
use crate::text;

/// Whom the lines below a heading are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// The heading says that it is the user.
    User,
    /// No heading, or one that names no one.
    Anyone,
    /// Somebody or something else: the agent, a person, a project.
    Other,
}

/// Returns the text behind the frontmatter, how many lines that has, and whether it says that the
/// file is about somebody else.
pub(super) fn frontmatter(markdown: &str) -> (&str, u32, bool) {
    let Some(rest) = markdown
        .strip_prefix("---\n")
        .or_else(|| markdown.strip_prefix("---\r\n"))
    else {
        return (markdown, 0, false);
    };
    let (mut lines, mut length, mut other) = (1, markdown.len() - rest.len(), false);
    for line in rest.split_inclusive('\n') {
        lines += 1;
        length += line.len();
        let line = line.trim();
        if line == "---" {
            return (markdown.get(length..).unwrap_or(""), lines, other);
        }
        other |= matches!(
            line.to_lowercase().as_str(),
            "type: person" | "type: contact" | "type: agent" | "type: project" | "kind: person"
        );
    }
    // It never ends: then it is none, but a rule, and what follows is text.
    (markdown, 0, false)
}

/// Returns whom something is about, by what is above it; by nothing, `Other` when `other` says so.
pub(super) fn about<'a>(headings: impl IntoIterator<Item = &'a str>, other: bool) -> About {
    let mut about = if other { About::Other } else { About::Anyone };
    for heading in headings {
        let low = heading
            .trim_matches(|c: char| matches!(c, '*' | '_' | ':') || c.is_whitespace())
            .to_lowercase();
        let undated = undated_heading(&low);
        let bare = low.strip_prefix("my ").unwrap_or(&low);
        let is_plain = |heading| any_has(|pack| &pack.notes.plain_headings, heading);
        let is_user = |known: &String| {
            known == &low || known.starts_with("about ") && low.ends_with(&format!(" {known}"))
        };
        about = if english().notes.user_headings.iter().any(is_user) {
            About::User
        } else if undated.is_empty() || is_plain(bare) || is_plain(&undated) {
            about
        } else {
            About::Other
        };
    }
    about
}

/// Returns the heading without the day in it: "diary, 4 May" is "diary", "Monday" nothing. "June" may be somebody.
fn undated_heading(low: &str) -> String {
    let is_weekday = |part: &str| packs().iter().any(|pack| pack.weekday(part).is_some());
    let is_number = |part: &str| {
        let digits = part.trim_end_matches(char::is_alphabetic);
        digits.parse::<u32>().is_ok()
    };
    let is_day = |part: &&str| {
        let joins = ["of", "de", "the", "el", "le", "am"];
        is_number(part) || is_weekday(part) || is_month(part) || joins.contains(part)
    };
    let parts = low.split(|c: char| !c.is_alphanumeric() && c != '\'');
    let mut parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    let dates = |part: &&str| is_number(part) || part.chars().count() > 4 && is_weekday(part);
    if !parts.iter().any(dates) {
        return low.to_owned();
    }
    parts.retain(|part| !is_day(part));
    parts.join(" ")
}

/// Returns true for "Birthday:", which waits for its value; "Sister:" names whom the next lines are about.
pub(super) fn is_empty_key(line: &str) -> bool {
    let key = line.trim_end_matches([':', ' ']);
    key != line && relation(&words(key), 0, english()).is_none() && plain_key(key).is_some()
}

/// Returns the line without the date it begins with.
pub(super) fn undated(line: &str) -> &str {
    let rest =
        line.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '-' | '[' | ']' | ' '));
    if line.len() - rest.len() < 8 {
        line
    } else {
        rest.trim_start_matches([':', ',', '–', '—', ' '])
    }
}

/// Returns the line as prose, without Markdown; in a section about the user
/// "Likes jazz" is "User likes jazz".
pub(super) fn prose(line: &str, about: About) -> String {
    let text = ["**", "__", "[[", "]]"]
        .iter()
        .fold(line.to_owned(), |text, mark| text.replace(mark, ""));
    let first = text.split(' ').next().unwrap_or("").to_lowercase();
    let is_allergy = text.to_lowercase().starts_with("allergic to ");
    match about {
        About::User if is_allergy => format!("User is {}", lower_first(&text)),
        About::User if english().notes.verbs.has(&first) => format!("User {}", lower_first(&text)),
        _ => text,
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map(|first| first.to_lowercase().chain(chars).collect())
        .unwrap_or_default()
}

/// Returns whether `line` is a `key: value`, and what it states when it is one about somebody known.
pub(super) fn key_value(line: &str, about: About) -> Option<Option<(String, String, String)>> {
    let line = line.replace("**", "").replace("__", "");
    let (key, rest) = line.split_once(':')?;
    let key_words = words(key);
    let is_key = (1..=5).contains(&key_words.len()) && (rest.is_empty() || rest.starts_with(' '));
    if !is_key || key_words[0].is(&["remember", "note", "fyi", "my"]) {
        return None;
    }
    let rest = rest.trim().trim_matches('*').trim();
    let rest_words = words(rest);
    let is_placeholder = rest.starts_with(['(', '<', '[', '_', '{', '?', '…', '.', '-']);
    let is_unclear = rest.contains(['?', '!', '"', '“', '`'])
        || has_any(&rest_words, &english().statements.hedges)
        || passes(&rest_words);
    if rest.is_empty() || is_placeholder || is_unclear || !may_keep(&line, &words(&line)) {
        return Some(None);
    }
    let plain = || {
        let (attribute, kind) = plain_key(key).filter(|_| about != About::Other)?;
        Some((USER.to_owned(), attribute, kind))
    };
    let Some((entity, attribute, kind)) = named_key(key).or_else(plain) else {
        return Some(None);
    };
    let kind = match kind {
        ValueKind::Thing if rest_words.len() == 1 => ValueKind::Short,
        kind => kind,
    };
    Some(value(rest, &rest_words, kind, false).map(|value| (entity, attribute, value)))
}

/// Returns the claim of a `key: value`: entity, attribute, value.
pub(super) fn claim(stated: (String, String, String), line: &str, number: u32) -> Claim {
    let (entity, attribute, value) = stated;
    let quote = line.split_whitespace().collect::<Vec<_>>().join(" ");
    Claim {
        entity,
        attribute,
        value,
        ended: false,
        confidence: EXPLICIT,
        line: number,
        quote: text::head(&quote, MAX_QUOTE).to_owned(),
    }
}

/// "Birthday", "Favourite colour", "Sister".
fn plain_key(key: &str) -> Option<(String, ValueKind)> {
    let low = key.trim().to_lowercase();
    let mut keys = english().notes.keys.iter();
    if let Some((_, attribute, kind)) = keys.find(|(known, ..)| *known == low) {
        return Some((attribute.clone(), *kind));
    }
    let (_, attribute, kind) = named_key(&format!("User's {low}"))?;
    Some((attribute, kind))
}

/// "Ana's birthday", "User's sister", "My sister's birthday".
fn named_key(key: &str) -> Option<(String, String, ValueKind)> {
    let key = key.trim();
    let key = key.trim_start_matches("The ").trim_start_matches("the ");
    // Behind the key a verb is expected.
    let line = words(&format!("{key} is"));
    let owned = line.iter().position(|word| word.low == "'s");
    if let Some((label, end)) = owned.and_then(|at| relation(&line, at + 1, english()))
        && end + 1 == line.len()
        && key.to_lowercase().starts_with("user's")
    {
        let kind = name_kind(&label);
        return Some((USER.to_owned(), label, kind));
    }
    let line = match relation(&line, 0, english()) {
        Some(_) => words(&format!("My {} is", lower_first(key))),
        None => line,
    };
    let voice = Voice {
        first_person: true,
        about_user: true,
    };
    let (found, end) = subject(&line, voice, english())?;
    match found.role {
        Role::Attribute(attribute, kind) if end + 1 == line.len() => {
            Some((found.entity, attribute, kind))
        }
        _ => None,
    }
}
