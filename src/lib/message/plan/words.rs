//! Recovers the text for the chat from an unreadable plan.

use serde_json::Value;

use super::{PRIVATE, Reading, headings, is_nearly, json, read, tamed, unfenced};

/// Returns the words for the chat in answers that are no plan, the first answer first; the next ones are what the
/// model answered when it was asked to write its plan again. Neither JSON nor headings are among them, nor what only
/// the agent itself is to read. `None` when nothing can be said.
pub fn words(answers: &[&str]) -> Option<String> {
    let prose = || {
        answers.iter().rev().find_map(|answer| match read(answer) {
            Reading::Prose(text) => Some(tamed(&text)),
            Reading::Plan(_) | Reading::Broken(_) => None,
        })
    };
    let found = answers
        .iter()
        .map(|answer| in_broken(unfenced(answer.trim())).join("\n\n"))
        .find(|text| !text.is_empty());
    found.or_else(prose).filter(|text| !text.is_empty())
}

/// Returns what an answer said to the chat, if it is a plan or was meant as one; `None` for words, such as those of an agent
/// that makes no plans: a list of its own, or a heading, is none.
pub fn said(answer: &str) -> Option<String> {
    let text = unfenced(answer.trim());
    let is_meant = json::is_silence(text)
        || json::names_one_of(&headings::KINDS, text)
        || headings::has_plain_one(text);
    match read(answer) {
        _ if !is_meant => None,
        Reading::Plan(plan) => Some(plan.said()),
        Reading::Prose(_) => None,
        Reading::Broken(_) => Some(words(&[answer]).unwrap_or_default()),
    }
}

fn in_broken(text: &str) -> Vec<String> {
    let mut in_objects: Vec<String> = json::objects(text).iter().flat_map(said_in).collect();
    in_objects.extend(cut_off(text));
    if !in_objects.is_empty() || json::names_a_kind(text) || text.starts_with(['[', '{', '⟦']) {
        return in_objects;
    }
    let sections = headings::sections(text).unwrap_or_default();
    let public = sections
        .iter()
        .filter(|section| is_public(&section.kind))
        .map(|section| tamed(section.body));
    public.filter(|text| !text.is_empty()).collect()
}

/// Returns the words in a task that nobody could read, or in the tasks of an object.
fn said_in(value: &Value) -> Vec<String> {
    if let Some(kind) = value.get("kind").and_then(Value::as_str) {
        let text = value.get("text").and_then(Value::as_str);
        let text = text.filter(|_| is_public(kind)).map(tamed);
        return text.filter(|text| !text.is_empty()).into_iter().collect();
    }
    let lists = value
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.values());
    let tasks = lists.filter_map(Value::as_array).flatten();
    tasks
        .filter(|task| task.get("kind").is_some())
        .flat_map(said_in)
        .collect()
}

/// Returns the words of a `send` that the answer breaks off in.
fn cut_off(text: &str) -> Option<String> {
    let last = text.rfind('{').and_then(|at| text.get(at..))?;
    if !json::objects(last).is_empty() {
        return None;
    }
    let after = |text: &str, name: &str| -> Option<String> {
        let rest = text.split_once(name)?.1.trim_start().strip_prefix(':')?;
        Some(rest.trim_start().strip_prefix('"')?.to_owned())
    };
    let is_send = after(last, "\"kind\"").is_some_and(|kind| kind.starts_with("send\""));
    let words = after(last, "\"text\"").filter(|_| is_send)?;
    // An escape may be cut in two.
    let whole = (0..8).find_map(|less| {
        let kept = words.len().checked_sub(less)?;
        let quoted = format!("\"{}\"", words.get(..kept)?);
        serde_json::from_str::<String>(&quoted).ok()
    })?;
    Some(tamed(&whole)).filter(|text| !text.is_empty())
}

fn is_public(kind: &str) -> bool {
    let kind = kind.trim().to_lowercase();
    let first = kind.split([' ', '_', '-']).next().unwrap_or_default();
    let is_like = |private: &str| is_nearly(private, &kind) || private == first;
    kind == "send" || !PRIVATE.iter().any(|private| is_like(private))
}
