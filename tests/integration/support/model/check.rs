//! The checks by which the real services refuse a malformed conversation, so that no test passes on one:
//! every tool call is answered right after it, no result stands alone, no text is empty.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Wire;

/// Checks one request body.
///
/// # Errors
/// The sentence for the 400.
pub(super) fn check(wire: Wire, body: &Value) -> Result<(), String> {
    if body["model"].as_str().is_none_or(str::is_empty) {
        return Err("model: field required".to_owned());
    }
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    if messages.is_empty() {
        return Err("messages: at least one is required".to_owned());
    }
    if wire == Wire::Anthropic {
        check_anthropic(body, messages)?;
    }
    check_tool_calls(wire, messages)
}

/// Returns the content blocks of one type; none when the content is a string.
pub(super) fn blocks<'a>(message: &'a Value, kind: &str) -> impl Iterator<Item = &'a Value> {
    all_blocks(message).filter(move |block| block["type"] == kind)
}

fn all_blocks(message: &Value) -> impl Iterator<Item = &Value> {
    message["content"].as_array().into_iter().flatten()
}

/// What only Anthropic refuses.
fn check_anthropic(body: &Value, messages: &[Value]) -> Result<(), String> {
    if body["max_tokens"].as_u64().is_none_or(|tokens| tokens == 0) {
        return Err("max_tokens: field required".to_owned());
    }
    if messages.first().is_some_and(|first| first["role"] != "user") {
        return Err("messages: first message must use the \"user\" role".to_owned());
    }
    for (index, message) in messages.iter().enumerate() {
        if message["role"] != "user" && message["role"] != "assistant" {
            return Err(format!("messages.{index}: unexpected role {}", message["role"]));
        }
        let is_empty = |text: &Value| text.as_str().is_none_or(|text| text.trim().is_empty());
        if message["content"] == "" || blocks(message, "text").any(|block| is_empty(&block["text"])) {
            return Err(format!("messages.{index}: text content must be non-empty"));
        }
        let mut after_results = all_blocks(message).skip_while(|block| block["type"] == "tool_result");
        if after_results.any(|block| block["type"] == "tool_result") {
            return Err(format!("messages.{index}: tool_result blocks must come first"));
        }
    }
    Ok(())
}

fn check_tool_calls(wire: Wire, messages: &[Value]) -> Result<(), String> {
    let (mut seen, mut asked) = (BTreeSet::new(), BTreeSet::new());
    for (index, message) in messages.iter().enumerate() {
        let (calls, answers) = ids(wire, message);
        if let Some(id) = answers.iter().find(|id| !asked.remove(*id)) {
            return Err(format!("messages.{index}: result {id} answers no tool call just before it"));
        }
        // OpenAI has a message for each result, Anthropic one for all.
        let more_may_follow = wire == Wire::OpenAi && message["role"] == "tool";
        if let Some(id) = asked.first().filter(|_| !more_may_follow) {
            return Err(format!("messages.{index}: tool call {id} has no result right after it"));
        }
        for id in calls {
            if id.is_empty() || !seen.insert(id.clone()) {
                return Err(format!("messages.{index}: tool call ids must be unique, \"{id}\" is not"));
            }
            asked.insert(id);
        }
    }
    asked.first().map_or(Ok(()), |id| Err(format!("messages: tool call {id} has no result")))
}

/// Returns the ids of the calls and of the results in one message; a missing id is the empty one.
fn ids(wire: Wire, message: &Value) -> (Vec<String>, Vec<String>) {
    let id = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match wire {
        Wire::Anthropic => (
            blocks(message, "tool_use").map(|block| id(&block["id"])).collect(),
            blocks(message, "tool_result").map(|block| id(&block["tool_use_id"])).collect(),
        ),
        Wire::OpenAi => {
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            let answer = (message["role"] == "tool").then(|| id(&message["tool_call_id"]));
            (calls.map(|call| id(&call["id"])).collect(), answer.into_iter().collect())
        }
    }
}
