//! For tests: the requests that vendors refuse, by their documentation and their users' reports, in the strictest reading. A
//! request that breaks one of these rules makes a conversation fail with 400 forever.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::provider::Request;

type Verdict = Result<(), String>;

/// Checks `request` as each of the vendors would be sent it.
pub(crate) fn check(request: &Request) -> Verdict {
    let wires: [(&str, Verdict); 3] = [
        (
            "anthropic",
            anthropic(&crate::provider::anthropic::body(request).to_value()),
        ),
        (
            "gemini",
            gemini(&crate::provider::gemini::body(request).to_value()),
        ),
        (
            "openai",
            openai(
                &crate::provider::openai::body(request, crate::provider::openai::PLAIN).to_value(),
            ),
        ),
    ];
    wires
        .into_iter()
        .try_for_each(|(wire, verdict)| verdict.map_err(|why| format!("{wire}: {why}")))
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn demand(holds: bool, why: impl Into<String>) -> Verdict {
    if holds { Ok(()) } else { Err(why.into()) }
}

fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

/// Messages take turns, the first and the last are the user's.
fn alternate(messages: &[Value], user: &str, model: &str) -> Verdict {
    for (at, message) in messages.iter().enumerate() {
        let expected = if at % 2 == 0 { user } else { model };
        demand(
            message["role"] == expected,
            format!("message {at} is not of {expected}: {message}"),
        )?;
    }
    demand(
        messages.len() % 2 == 1,
        "the last message is not the user's",
    )
}

fn anthropic(body: &Value) -> Verdict {
    let messages = list(body, "messages");
    alternate(messages, "user", "assistant")?;
    demand(
        body["max_tokens"].as_u64().is_some_and(|tokens| tokens > 0),
        "max_tokens",
    )?;
    if let Some(budget) = body["thinking"]["budget_tokens"].as_u64() {
        demand(
            budget >= 1024
                && body["max_tokens"]
                    .as_u64()
                    .is_some_and(|tokens| tokens > budget),
            "the budget of thinking",
        )?;
    }
    thinking_is_sent_back(body, messages)?;
    let marks = body.to_string().matches("\"cache_control\"").count();
    demand(marks <= 4, format!("{marks} cache breakpoints"))?;
    let (mut open, mut ids): (BTreeSet<&str>, BTreeSet<&str>) = (BTreeSet::new(), BTreeSet::new());
    let mut calls = false;
    for (at, message) in messages.iter().enumerate() {
        let blocks = list(message, "content");
        demand(!blocks.is_empty(), format!("message {at} is empty"))?;
        let of_model = message["role"] == "assistant";
        let mut words = false;
        for block in blocks {
            let fits = match word(block, "type") {
                "text" => is_text(&block["text"]),
                "image" => !of_model,
                "thinking" | "redacted_thinking" => {
                    of_model && block.get("cache_control").is_none()
                }
                "tool_use" => {
                    calls = true;
                    let id = word(block, "id");
                    open.insert(id);
                    of_model
                        && is_name(word(block, "name"))
                        && block["input"].is_object()
                        && !id.is_empty()
                        && ids.insert(id)
                }
                "tool_result" => {
                    let content = &block["content"];
                    let said = is_text(content)
                        || content
                            .as_array()
                            .is_some_and(|parts| parts.iter().all(|part| is_text(&part["text"])));
                    !of_model && !words && said && open.remove(word(block, "tool_use_id"))
                }
                _ => false,
            };
            demand(fits, format!("message {at} may not have {block}"))?;
            words |= block["type"] != "tool_result";
        }
        demand(
            of_model || open.is_empty(),
            format!("message {at} leaves calls without results: {open:?}"),
        )?;
    }
    demand(
        !calls || !list(body, "tools").is_empty(),
        "calls without tools",
    )
}

/// A step that thought and called must be sent back with its thinking, while thinking with a budget is asked for; later
/// steps of the same loop need not think.
fn thinking_is_sent_back(body: &Value, messages: &[Value]) -> Verdict {
    if word(&body["thinking"], "type") != "enabled" {
        return Ok(());
    }
    let answers = |back: usize| {
        let message = messages
            .len()
            .checked_sub(back)
            .and_then(|at| messages.get(at));
        message.is_some_and(|message| {
            list(message, "content")
                .iter()
                .any(|block| block["type"] == "tool_result")
        })
    };
    let step = messages
        .len()
        .checked_sub(2)
        .and_then(|at| messages.get(at));
    let first = step.and_then(|step| list(step, "content").first());
    let thought = first.is_some_and(|block| word(block, "type").contains("thinking"));
    let (answered, thought) = (answers(1), thought || answers(3));
    demand(
        !answered || thought,
        "expected `thinking`, found `tool_use`",
    )
}

fn openai(body: &Value) -> Verdict {
    let messages = list(body, "messages");
    let (mut open, mut ids): (BTreeSet<&str>, BTreeSet<&str>) = (BTreeSet::new(), BTreeSet::new());
    for (at, message) in messages.iter().enumerate() {
        let role = word(message, "role");
        demand(
            role == "tool" || open.is_empty(),
            format!("message {at} stands before the results of {open:?}"),
        )?;
        let content = &message["content"];
        let calls = list(message, "tool_calls");
        let fits = match role {
            "system" => at == 0 && is_text(content),
            "user" => is_text(content) || content.as_array().is_some_and(|parts| !parts.is_empty()),
            "assistant" => is_text(content) || (content.is_null() && !calls.is_empty()),
            "tool" => is_text(content) && open.remove(word(message, "tool_call_id")),
            _ => false,
        };
        demand(
            fits && (role == "assistant" || calls.is_empty()),
            format!("message {at}: {message}"),
        )?;
        for call in calls {
            let arguments: Option<Value> =
                serde_json::from_str(word(&call["function"], "arguments")).ok();
            let id = word(call, "id");
            let fits = !id.is_empty() && ids.insert(id) && is_name(word(&call["function"], "name"));
            demand(
                fits && arguments.is_some_and(|value| value.is_object()),
                format!("message {at} may not have {call}"),
            )?;
            open.insert(id);
        }
    }
    demand(open.is_empty(), format!("no results of {open:?}"))?;
    let last = messages.last().map_or("", |message| word(message, "role"));
    demand(
        matches!(last, "user" | "tool"),
        "the last message is not the user's",
    )
}

fn gemini(body: &Value) -> Verdict {
    let contents = list(body, "contents");
    alternate(contents, "user", "model")?;
    let mut open: Vec<&str> = Vec::new();
    for (at, content) in contents.iter().enumerate() {
        let parts = list(content, "parts");
        demand(!parts.is_empty(), format!("content {at} is empty"))?;
        let of_model = content["role"] == "model";
        let mut answered = Vec::new();
        for part in parts {
            let fits = if let Some(call) = part.get("functionCall") {
                open.push(word(call, "name"));
                of_model && is_name(word(call, "name")) && call["args"].is_object()
            } else if let Some(response) = part.get("functionResponse") {
                answered.push(word(response, "name"));
                !of_model && response["response"].is_object()
            } else if part.get("inlineData").is_some() {
                !of_model
            } else {
                is_text(&part["text"])
            };
            demand(fits, format!("content {at} may not have {part}"))?;
        }
        if !of_model {
            demand(
                answered == open,
                format!("content {at} answers {answered:?}, not {open:?}"),
            )?;
            open.clear();
        }
    }
    demand(open.is_empty(), format!("no responses to {open:?}"))
}
