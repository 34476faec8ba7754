//! The checks by which the real services refuse a malformed conversation, so that no test passes on one:
//! every tool call is answered right after it, no result stands alone, no text is empty.

use std::collections::BTreeSet;

use base64::Engine as _;
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
    check_pictures(wire, messages)?;
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
    if messages
        .first()
        .is_some_and(|first| first["role"] != "user")
    {
        return Err("messages: first message must use the \"user\" role".to_owned());
    }
    for (index, message) in messages.iter().enumerate() {
        if message["role"] != "user" && message["role"] != "assistant" {
            return Err(format!(
                "messages.{index}: unexpected role {}",
                message["role"]
            ));
        }
        let is_empty = |text: &Value| text.as_str().is_none_or(|text| text.trim().is_empty());
        if message["content"] == "" || blocks(message, "text").any(|block| is_empty(&block["text"]))
        {
            return Err(format!("messages.{index}: text content must be non-empty"));
        }
        let mut after_results =
            all_blocks(message).skip_while(|block| block["type"] == "tool_result");
        if after_results.any(|block| block["type"] == "tool_result") {
            return Err(format!(
                "messages.{index}: tool_result blocks must come first"
            ));
        }
    }
    Ok(())
}

/// Pictures: in a user's message, of a type that is shown, base64 of at most 5 MiB that is what it says.
fn check_pictures(wire: Wire, messages: &[Value]) -> Result<(), String> {
    for (index, message) in messages.iter().enumerate() {
        for block in all_blocks(message) {
            let (media_type, data) = match (wire, block["type"].as_str()) {
                (Wire::Anthropic, Some("image")) if block["source"]["type"] == "base64" => (
                    block["source"]["media_type"].as_str(),
                    block["source"]["data"].as_str(),
                ),
                (Wire::OpenAi, Some("image_url")) => {
                    let url = block["image_url"]["url"]
                        .as_str()
                        .and_then(|url| url.strip_prefix("data:"));
                    url.and_then(|url| url.split_once(";base64,")).unzip()
                }
                (Wire::Anthropic, Some("text" | "thinking" | "tool_use" | "tool_result"))
                | (Wire::OpenAi, Some("text")) => {
                    continue;
                }
                _ => {
                    return Err(format!(
                        "messages.{index}: unexpected content {}",
                        block["type"]
                    ));
                }
            };
            if message["role"] != "user" {
                return Err(format!("messages.{index}: only the user sends images"));
            }
            let data = data.unwrap_or_default();
            if data.len() > 5 << 20 {
                return Err(format!("messages.{index}: image exceeds 5 MB maximum"));
            }
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(data)
                .unwrap_or_default();
            let real = match bytes.get(..4) {
                Some(b"\x89PNG") => Some("image/png"),
                Some([0xff, 0xd8, 0xff, _]) => Some("image/jpeg"),
                Some(b"GIF8") => Some("image/gif"),
                Some(b"RIFF") => Some("image/webp"),
                _ => None,
            };
            if real.is_none() || real != media_type {
                return Err(format!("messages.{index}: Could not process image"));
            }
        }
    }
    Ok(())
}

fn check_tool_calls(wire: Wire, messages: &[Value]) -> Result<(), String> {
    let (mut seen, mut asked) = (BTreeSet::new(), BTreeSet::new());
    for (index, message) in messages.iter().enumerate() {
        let (calls, answers) = ids(wire, message);
        if let Some(id) = answers.iter().find(|id| !asked.remove(*id)) {
            return Err(format!(
                "messages.{index}: result {id} answers no tool call just before it"
            ));
        }
        // OpenAI has a message for each result, Anthropic one for all.
        let more_may_follow = wire == Wire::OpenAi && message["role"] == "tool";
        if let Some(id) = asked.first().filter(|_| !more_may_follow) {
            return Err(format!(
                "messages.{index}: tool call {id} has no result right after it"
            ));
        }
        for id in calls {
            if id.is_empty() || !seen.insert(id.clone()) {
                return Err(format!(
                    "messages.{index}: tool call ids must be unique, \"{id}\" is not"
                ));
            }
            asked.insert(id);
        }
    }
    asked.first().map_or(Ok(()), |id| {
        Err(format!("messages: tool call {id} has no result"))
    })
}

/// Returns the ids of the calls and of the results in one message; a missing id is the empty one.
fn ids(wire: Wire, message: &Value) -> (Vec<String>, Vec<String>) {
    let id = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match wire {
        Wire::Anthropic => (
            blocks(message, "tool_use")
                .map(|block| id(&block["id"]))
                .collect(),
            blocks(message, "tool_result")
                .map(|block| id(&block["tool_use_id"]))
                .collect(),
        ),
        Wire::OpenAi => {
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            let answer = (message["role"] == "tool").then(|| id(&message["tool_call_id"]));
            (
                calls.map(|call| id(&call["id"])).collect(),
                answer.into_iter().collect(),
            )
        }
    }
}
