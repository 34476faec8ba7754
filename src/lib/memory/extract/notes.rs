//! Memory files: prose about the user, and lines of the form `key: value`.

use super::calendar;
use super::subject::{Role, USER, relation, subject};
use super::value::{Kind, value};
use super::vocabulary as v;
use super::words::words;
use super::{Voice, gate};

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

const USER_HEADINGS: &str = "user,the user,about the user,about me,me,owner,your owner,my owner,the owner,about my owner,user profile,profile,personal,\
    personal details,personal information,personal info,preferences,user preferences,my preferences,basics,about";
const PLAIN_HEADINGS: &str = "memory,memories,notes,facts,key facts,long-term memory,lasting facts,family,health,home,food,work,pets,important dates,dates,\
    contact,contacts,birthdays,people,likes,dislikes,likes and dislikes,diary,journal,log,week,daily notes,daily log,today,tagebuch,notizen,diario,notas";

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

/// Returns whom something is about, by what stands above it; by nothing, `Other` when `other` says so.
pub(super) fn about<'a>(headings: impl IntoIterator<Item = &'a str>, other: bool) -> About {
    let mut about = if other { About::Other } else { About::Anyone };
    for heading in headings {
        let low = heading
            .trim_matches(|c: char| matches!(c, '*' | '_' | ':') || c.is_whitespace())
            .to_lowercase();
        let undated = undated_heading(&low);
        let plain = |known: &str| {
            known == low || known == undated || low.strip_prefix("my ") == Some(known)
        };
        let is_user = |known: &str| {
            known == low || known.starts_with("about ") && low.ends_with(&format!(" {known}"))
        };
        about = if USER_HEADINGS.split(',').any(is_user) {
            About::User
        } else if undated.is_empty() || PLAIN_HEADINGS.split(',').any(plain) {
            about
        } else {
            About::Other
        };
    }
    about
}

/// Returns the heading without the day in it: "diary, 4 May" is "diary", "Monday" nothing. "June" may be somebody.
fn undated_heading(low: &str) -> String {
    let calendars = [
        calendar::ENGLISH,
        calendar::GERMAN,
        calendar::SPANISH,
        calendar::FRENCH,
    ];
    let is_weekday = |part: &str| {
        calendars
            .iter()
            .any(|calendar| calendar.weekdays.split([' ', '|']).any(|day| day == part))
    };
    let is_number = |part: &str| {
        part.trim_end_matches(char::is_alphabetic)
            .parse::<u32>()
            .is_ok()
    };
    let is_day = |part: &str| {
        is_number(part)
            || is_weekday(part)
            || v::is_month(part)
            || v::among("of de the el le am", part)
    };
    let parts: Vec<&str> = low
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|part| !part.is_empty())
        .collect();
    if !parts
        .iter()
        .any(|part| is_number(part) || part.chars().count() > 4 && is_weekday(part))
    {
        return low.to_owned();
    }
    parts
        .into_iter()
        .filter(|part| !is_day(part))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns true for "Birthday:", which waits for its value; "Sister:" names whom the next lines are about.
pub(super) fn is_empty_key(line: &str) -> bool {
    let key = line.trim_end_matches([':', ' ']);
    key != line && relation(&words(key), 0).is_none() && plain_key(key).is_some()
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
    let text = line
        .replace("**", "")
        .replace("__", "")
        .replace("[[", "")
        .replace("]]", "");
    let first = text.split(' ').next().unwrap_or("").to_lowercase();
    let verbs = "lives works studies likes loves enjoys prefers hates dislikes speaks plays";
    let bare = v::among(verbs, &first) || text.to_lowercase().starts_with("allergic to ");
    match about {
        About::User if bare => format!(
            "User {}{}",
            if first == "allergic" { "is " } else { "" },
            lower_first(&text)
        ),
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

/// Keys that are verbs or are said differently in a list.
const KEYS: &[(&str, &str, Kind)] = &[
    ("lives in", "lives in", Kind::Place),
    ("lives", "lives in", Kind::Place),
    ("location", "lives in", Kind::Place),
    ("city", "lives in", Kind::Place),
    ("home", "lives in", Kind::Place),
    ("works at", "works at", Kind::Employer),
    ("works as", "works as", Kind::Job),
    ("job", "works as", Kind::Job),
    ("role", "works as", Kind::Job),
    ("from", "from", Kind::Place),
    ("born", "birthday", Kind::Date),
    ("born in", "born in", Kind::Place),
    ("studies", "studies", Kind::Subject),
    ("likes", "likes", Kind::Thing),
    ("loves", "likes", Kind::Thing),
    ("dislikes", "dislikes", Kind::Thing),
    ("hates", "dislikes", Kind::Thing),
    ("prefers", "prefers", Kind::Thing),
    ("allergies", "allergic to", Kind::Food),
    ("allergy", "allergic to", Kind::Food),
    ("allergic to", "allergic to", Kind::Food),
    ("speaks", "speaks", Kind::Languages),
    ("languages", "speaks", Kind::Languages),
    ("language", "speaks", Kind::Languages),
    ("diet", "is", Kind::Short),
];

/// Returns whether `line` is a `key: value`, and what it states when it is one about somebody known.
pub(super) fn key_value(line: &str, about: About) -> Option<Option<(String, String, String)>> {
    let line = line.replace("**", "").replace("__", "");
    let (key, rest) = line.split_once(':')?;
    let key_words = words(key);
    let whole =
        key_words.len() <= 5 && !key.is_empty() && (rest.is_empty() || rest.starts_with(' '));
    if !whole
        || key_words
            .first()
            .is_some_and(|word| matches!(word.low.as_str(), "remember" | "note" | "fyi" | "my"))
    {
        return None;
    }
    let rest = rest.trim().trim_matches('*').trim();
    let rest_words = words(rest);
    let placeholder = rest.starts_with(['(', '<', '[', '_', '{', '?', '…', '.', '-']);
    let unclear =
        rest.contains(['?', '!', '"', '“', '`']) || super::words::has_any(&rest_words, v::HEDGES);
    if rest.is_empty()
        || placeholder
        || unclear
        || !gate::may_be_kept(&line, &words(&line))
        || gate::passes(&rest_words)
    {
        return Some(None);
    }
    let (entity, attribute, kind) = match named_key(key) {
        Some(named) => named,
        None if about == About::Other => return Some(None),
        None => match plain_key(key) {
            Some((attribute, kind)) => (USER.to_owned(), attribute, kind),
            None => return Some(None),
        },
    };
    let whole = if rest_words.len() == 1 && kind == Kind::Thing {
        Kind::Short
    } else {
        kind
    };
    Some(value(rest, &rest_words, whole, false).map(|value| (entity, attribute, value)))
}

/// "Birthday", "Favourite colour", "Sister".
fn plain_key(key: &str) -> Option<(String, Kind)> {
    let low = key.trim().to_lowercase();
    if let Some((_, attribute, kind)) = KEYS.iter().find(|(known, ..)| *known == low) {
        return Some(((*attribute).to_owned(), *kind));
    }
    let (_, attribute, kind) = named_key(&format!("User's {low}"))?;
    Some((attribute, kind))
}

/// "Ana's birthday", "User's sister", "My sister's birthday".
fn named_key(key: &str) -> Option<(String, String, Kind)> {
    let key = key
        .trim()
        .trim_start_matches("The ")
        .trim_start_matches("the ");
    // Behind the key a verb is expected.
    let line = words(&format!("{key} is"));
    if let Some((label, end)) = line
        .iter()
        .position(|word| word.low == "'s")
        .and_then(|at| relation(&line, at + 1))
        && end + 1 == line.len()
        && key.to_lowercase().starts_with("user's")
    {
        let kind = if v::among(v::PLURAL, &label) {
            Kind::Names
        } else {
            Kind::Name
        };
        return Some((USER.to_owned(), label, kind));
    }
    let key = if relation(&line, 0).is_some() {
        format!("My {} is", lower_first(key))
    } else {
        format!("{key} is")
    };
    let line = words(&key);
    let voice = Voice {
        first_person: true,
        about_user: true,
    };
    let (found, end) = subject(&line, voice)?;
    match found.role {
        Role::Attribute(attribute, kind) if end + 1 == line.len() => {
            Some((found.entity, attribute, kind))
        }
        _ => None,
    }
}
