//! The intent of a message: phrases of the English language pack; a question mark in any language.

use super::remember::{self, Note};
use super::words::{after, after_any, asks, first_word, is_one_of, plain, trim_lead};
use crate::language::pack::{SmallTalk, english};
use crate::text;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Intent<'a> {
    /// Words that begin with `!`.
    Command(&'a str),
    /// Keep something.
    Remember(Note),
    /// Summarise something.
    Summary(Subject<'a>),
    /// Something with an answer of its own.
    SmallTalk(&'static SmallTalk),
    /// Something to look up; the words to look for.
    Question(&'a str),
    /// Anything else.
    Statement,
    /// No words at all.
    Nothing,
}

/// What is to be summarised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject<'a> {
    /// This text.
    Text(&'a str),
    /// A file of the workspace.
    File(&'a str),
    /// The files that came with the words.
    Attached,
    /// What has been said.
    Conversation,
    /// Nothing that we have.
    Unknown,
}

/// Returns what `text` asks for. `name` is what the agent is called.
pub(super) fn read<'a>(text: &'a str, name: Option<&str>) -> Intent<'a> {
    if text.starts_with('!') {
        return Intent::Command(text);
    }
    let text = text.trim();
    if text.is_empty() {
        return Intent::Nothing;
    }
    let bare = without_greeting(text, name);
    let said = plain(text::head(bare, 120));
    let whole = plain(text::head(text, 120));
    let begins = |talk: &SmallTalk| {
        [&said, &whole].into_iter().any(|said| {
            let is_phrase = |phrase: &String| after(said, phrase).is_some();
            said.split(' ').count() <= talk.max_words && talk.phrases.iter().any(is_phrase)
        })
    };
    let small_talk = &english().requests.small_talk;
    let exact = || {
        small_talk
            .iter()
            .find(|talk| is_one_of(&said, &talk.phrases))
    };
    remember::read(bare)
        .map(Intent::Remember)
        .or_else(|| subject(bare).map(Intent::Summary))
        .or_else(|| exact().map(Intent::SmallTalk))
        .or_else(|| question(bare).map(Intent::Question))
        .or_else(|| {
            small_talk
                .iter()
                .find(|talk| begins(talk))
                .map(Intent::SmallTalk)
        })
        .unwrap_or(Intent::Statement)
}

/// Takes off greetings, the agent's name and words of courtesy, as long as something is left.
fn without_greeting<'a>(text: &'a str, name: Option<&str>) -> &'a str {
    let is_mark = |c: char| c.is_whitespace() || matches!(c, ',' | '.' | '!' | ':' | ';' | '…');
    let name = name.map(plain).filter(|name| !name.is_empty());
    let mut bare = text;
    loop {
        let next = after_any(bare, &english().requests.polite)
            .or_else(|| after(bare, name.as_deref()?))
            .map(|next| next.trim_start_matches(is_mark));
        match next.filter(|next| next.contains(char::is_alphanumeric)) {
            Some(next) => bare = next,
            None => return bare,
        }
    }
}

fn subject(text: &str) -> Option<Subject<'_>> {
    let pack = &english().requests;
    let order = after_any(text, &pack.asks_us).unwrap_or(text);
    let Some(rest) = after_any(order, &pack.summarise) else {
        let said = plain(text::head(text, 60));
        let said = without_end(&said);
        return is_one_of(said, &pack.talked_about).then_some(Subject::Conversation);
    };
    let is_introduced = |rest: &str| rest.trim_start().starts_with([':', '\n']);
    let colon = is_introduced(rest);
    let rest = trim_lead(rest).trim();
    let what = plain(text::head(rest, 60));
    let is_short = what.split(' ').count() <= 5;
    if what.is_empty() || is_short && what.split(' ').all(|word| pack.attached.has(word)) {
        return Some(Subject::Attached);
    }
    if !colon && rest.chars().count() <= 60 && is_one_of(without_end(&what), &pack.conversation) {
        return Some(Subject::Conversation);
    }
    // “summarise this:” is followed by the text.
    let this = after_any(rest, &pack.following).filter(|rest| is_introduced(rest));
    let text = this.map_or(rest, trim_lead);
    let named = after_any(text, &pack.file);
    let path = named
        .unwrap_or(text)
        .trim()
        .trim_end_matches(['?', '.'])
        .trim_matches(['`', '"', '\'', '“', '”']);
    let is_path = path.contains(['/', '.']) || named.is_some();
    if is_path && !path.contains(char::is_whitespace) && (1..=500).contains(&path.len()) {
        return Some(Subject::File(path));
    }
    let is_text = colon || this.is_some() || text.split_whitespace().nth(12).is_some();
    Some(if is_text {
        Subject::Text(text)
    } else {
        Subject::Unknown
    })
}

/// “this conversation so far”
fn without_end(said: &str) -> &str {
    let mut ends = [" so far", " today", " just now", " please"].into_iter();
    ends.find_map(|end| said.strip_suffix(end)).unwrap_or(said)
}

/// Returns what is asked about.
fn question(text: &str) -> Option<&str> {
    let pack = &english().requests;
    let looked_up = after_any(text, &pack.look_up).map(trim_lead);
    if let Some(rest) = looked_up.filter(|rest| rest.contains(char::is_alphanumeric)) {
        return Some(rest);
    }
    // In a long text a mark somewhere inside is not the point of it; the mark in a URL makes no question.
    let is_marked = |word: &str| word.ends_with(['?', '？', '؟']);
    let is_short = text.chars().nth(1000).is_none();
    if asks(text) || is_short && text.split_whitespace().any(is_marked) {
        return Some(text);
    }
    let (first, rest) = first_word(text)?;
    let first = plain(first);
    let second = first_word(rest)
        .map(|(word, _)| plain(word))
        .unwrap_or_default();
    let is_auxiliary = pack.auxiliaries.has(&second);
    let is_subject = pack.subjects.has(&second);
    let is_question = match first.as_str() {
        // "What a nice day", "When I was young", "How nice of you"
        "what" => !matches!(second.as_str(), "a" | "an" | ""),
        "when" | "where" => is_auxiliary,
        "how" => !second.is_empty() && !pack.praise.has(&second),
        // "have a nice day", "will do"
        "is" | "are" | "was" | "were" | "does" | "did" | "has" => !second.is_empty(),
        "do" => matches!(second.as_str(), "i" | "you" | "we" | "they"),
        first => {
            pack.asking.has(first) && !second.is_empty()
                || pack.auxiliaries.has(first) && is_subject
        }
    };
    is_question.then_some(text)
}

#[cfg(test)]
mod tests;
