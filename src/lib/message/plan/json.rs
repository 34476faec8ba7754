//! Plans as JSON: an array of tasks, an object that holds one, or tasks one after the other.

use serde_json::Value;

use super::{Act, Deed, Draft, addresses, seconds, tamed_text};

/// No foreign JSON may be deeper.
const MAX_DEPTH: usize = 32;
/// Places at which JSON is looked for in a text.
const LOOKS: usize = 64;
/// Places at which JSON begins that does not end: each of them is looked for to the end of the text.
const UNCLOSED: usize = 8;

/// What there is of a plan in a text.
pub(super) enum Found {
    /// Tasks; or why one of them is none.
    Tasks(Result<Vec<Draft>, String>),
    /// JSON that is not a plan.
    Broken(String),
    /// No JSON.
    Nothing,
}

/// Looks for a plan in a text: at its beginning, else at the first place where one can be read.
pub(super) fn find(text: &str) -> Found {
    let at_start = text.starts_with(['[', '{']);
    if at_start && looks_like_json(text) {
        return match value(text) {
            Ok((value, rest)) => match tasks_of(&value) {
                Some(Value::Array(tasks)) => Found::Tasks(drafts(tasks)),
                _ if is_task(&value) => Found::Tasks(several(value.clone(), rest)),
                _ => Found::Broken("the JSON is no array of tasks with a \"kind\"".to_owned()),
            },
            Err(why) => Found::Broken(why),
        };
    }
    let places = text
        .char_indices()
        .filter(|(_, c)| matches!(c, '[' | '{'))
        .map(|(at, _)| at);
    let (mut over, mut looks, mut unclosed) = (0, 0, 0);
    for at in places {
        if at < over || looks >= LOOKS || unclosed >= UNCLOSED {
            continue;
        }
        let Some(rest) = text.get(at..).filter(|rest| looks_like_json(rest)) else {
            continue;
        };
        looks += 1;
        if end(rest).is_err() {
            unclosed += 1;
            continue;
        }
        if let Ok((value, after)) = value(rest) {
            if let Some(Value::Array(tasks)) = tasks_of(&value) {
                return Found::Tasks(drafts(tasks));
            }
            if is_task(&value) {
                return Found::Tasks(several(value, after));
            }
            over = text.len() - after.len();
        }
    }
    if names_a_kind(text) || unclosed > 0 {
        Found::Broken("the JSON cannot be read".to_owned())
    } else {
        Found::Nothing
    }
}

/// Returns all objects in a text that can be read, however broken the rest is.
pub(super) fn objects(text: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let (mut over, mut looks, mut unclosed) = (0, 0, 0);
    for (at, _) in text.char_indices().filter(|(_, c)| *c == '{') {
        if at < over || looks >= LOOKS || unclosed >= UNCLOSED {
            continue;
        }
        looks += 1;
        let rest = text.get(at..).unwrap_or_default();
        if end(rest).is_err() {
            unclosed += 1;
        } else if let Ok((value, after)) = value(rest) {
            over = text.len() - after.len();
            found.push(value);
        }
    }
    found
}

/// Returns true for a text that begins as JSON does, and not as a link or a remark in brackets.
fn looks_like_json(text: &str) -> bool {
    let mut chars = text.chars().filter(|c| !c.is_whitespace());
    match (chars.next(), chars.next()) {
        (Some('['), Some(next)) => matches!(next, '{' | '[' | ']' | '"'),
        (Some('{'), Some(next)) => matches!(next, '"' | '}' | '\''),
        _ => false,
    }
}

/// Returns true when the text mentions `"kind":`, as only a plan does.
pub(super) fn names_a_kind(text: &str) -> bool {
    kinds(text).next().is_some()
}

/// Returns true for a plan without tasks, and nothing beside it.
pub(super) fn is_silence(text: &str) -> bool {
    let written = text.split_whitespace().collect::<String>();
    written == "[]" || written == "{\"plan\":[]}"
}

/// Returns true when a text names one of `kinds` as the kind of something.
pub(super) fn names_one_of(kinds: &[&str], text: &str) -> bool {
    self::kinds(text).any(|rest| {
        let named = rest.trim_start().trim_start_matches(['"', '\'']);
        let named = named.split(['"', '\'']).next().unwrap_or_default();
        kinds.contains(&named)
    })
}

/// Returns what follows each `"kind":` in a text.
fn kinds(text: &str) -> impl Iterator<Item = &str> {
    ["\"kind\"", "'kind'"].into_iter().flat_map(move |word| {
        text.match_indices(word)
            .filter_map(|(at, word)| text.get(at + word.len()..)?.trim_start().strip_prefix(':'))
    })
}

/// Reads the value at the beginning of a text; also returns what is behind it.
fn value(text: &str) -> Result<(Value, &str), String> {
    let end = end(text)?;
    let (own, rest) = text.split_at(end);
    let value = serde_json::from_str(own).map_err(|error| format!("the JSON is wrong: {error}"))?;
    Ok((value, rest))
}

/// Returns where the array or object ends that a text begins with, without reading it.
fn end(text: &str) -> Result<usize, String> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(format!("the JSON is deeper than {MAX_DEPTH}"));
                }
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Ok(at + 1);
                }
            }
            _ => {}
        }
    }
    Err("the JSON is not closed".to_owned())
}

/// Returns the array of tasks that a value is or holds.
fn tasks_of(value: &Value) -> Option<&Value> {
    let is_plan = |value: &&Value| {
        value
            .as_array()
            .is_some_and(|items| items.iter().all(Value::is_object))
    };
    match value {
        Value::Object(fields) if !is_task(value) => ["plan", "tasks", "actions"]
            .iter()
            .find_map(|name| fields.get(*name))
            .filter(is_plan),
        Value::Array(_) => Some(value).filter(is_plan),
        _ => None,
    }
}

fn is_task(value: &Value) -> bool {
    value.get("kind").is_some_and(Value::is_string)
}

/// Reads a task and those that follow it without an array around them.
fn several(first: Value, rest: &str) -> Result<Vec<Draft>, String> {
    let mut tasks = vec![first];
    let mut rest = rest;
    loop {
        rest = rest.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
        if !rest.starts_with('{') || tasks.len() > super::MAX_TASKS {
            return drafts(&tasks);
        }
        let (next, after) = value(rest)?;
        tasks.push(next);
        rest = after;
    }
}

fn drafts(tasks: &[Value]) -> Result<Vec<Draft>, String> {
    if tasks.len() > super::MAX_TASKS {
        return Err(format!("a plan has at most {} tasks", super::MAX_TASKS));
    }
    let numbered = tasks.iter().enumerate();
    numbered
        .map(|(at, task)| draft(task).map_err(|why| format!("task {}: {why}", at + 1)))
        .collect()
}

fn draft(task: &Value) -> Result<Draft, String> {
    let depends_on = match task.get("depends_on") {
        None | Some(Value::Null) => None,
        Some(Value::Array(ids)) => Some(
            ids.iter()
                .map(|id| word(id).ok_or("depends_on holds the ids of tasks"))
                .collect::<Result<Vec<String>, &str>>()?,
        ),
        Some(one) => Some(vec![word(one).ok_or("depends_on holds the ids of tasks")?]),
    };
    Ok(Draft {
        id: task.get("id").and_then(word),
        depends_on,
        reply_to: ["reply_to", "message_id"]
            .iter()
            .find_map(|name| task.get(*name).and_then(word)),
        deed: deed(task)?,
    })
}

/// Returns an id, also one that was written as a number.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn deed(task: &Value) -> Result<Deed, String> {
    let kind = task
        .get("kind")
        .and_then(Value::as_str)
        .ok_or("it has no kind")?;
    let text = |name: &str| -> Result<String, String> {
        let text = task.get(name).and_then(Value::as_str).map(str::trim);
        text.filter(|text| !text.is_empty())
            .map(str::to_owned)
            .ok_or_else(|| format!("{kind} needs the text {name:?}"))
    };
    let act = match kind {
        "think" => return Ok(Deed::Think),
        "remember" => return Ok(Deed::Remember(text("text")?)),
        "send" => Act::Send {
            text: tamed_text(&text("text")?)?,
        },
        "wait" => Act::Wait {
            delay: delay(task.get("delay"))?,
        },
        "react" => Act::React {
            emoji: text("emoji")?,
        },
        "sticker" => Act::Sticker {
            set: text("set").or_else(|_| text("sticker_set"))?,
            name: text("name")?,
        },
        "send_media" => Act::SendMedia {
            path: text("path")?,
        },
        "xsend" => Act::Xsend {
            to: text("to")?,
            text: tamed_text(&text("text")?)?,
        },
        "retrieve" => Act::Retrieve {
            urls: urls(task.get("urls"))?,
        },
        "block" => Act::Block,
        "unblock" => Act::Unblock,
        "clear" => Act::Clear,
        other => return Err(format!("no task is of the kind {other:?}")),
    };
    Ok(Deed::Act(act))
}

fn delay(value: Option<&Value>) -> Result<f64, String> {
    let given = match value {
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.trim().parse::<f64>().ok(),
        _ => None,
    };
    seconds(given)
}

fn urls(value: Option<&Value>) -> Result<Vec<String>, String> {
    let urls: Option<Vec<String>> = match value {
        Some(Value::Array(urls)) => urls.iter().map(word).collect(),
        Some(one) => word(one).map(|url| vec![url]),
        None => None,
    };
    addresses(urls.unwrap_or_default())
}
