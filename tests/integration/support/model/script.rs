//! What the fake model answers when the test queued nothing: a small script in the user's own words.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Output, Wire, check::blocks};

/// What stands after the last assistant message, whatever the wire format, and the tools on offer.
struct Turn {
    user: String,
    results: Vec<String>,
    tools: Vec<String>,
}

/// Returns how long to think and what to say. The newest user text decides:
/// tool results → `result: <their text>` · `[[tool NAME JSON]]` (several: parallel calls) → those calls ·
/// `[[say TEXT]]` → TEXT · `[[long N]]` → N characters of numbered words · a conversation to be read for facts → none ·
/// else `echo: <last line>`.
/// `[[sleep MS]]` waits first and combines with any of them.
pub(super) fn plan(wire: Wire, body: &Value) -> (Duration, Output) {
    let turn = Turn::read(wire, body);
    if !turn.results.is_empty() {
        return (
            Duration::ZERO,
            Output::Text(format!("result: {}", turn.results.join("\n"))),
        );
    }
    let sleep = directive(&turn.user, "sleep")
        .and_then(|ms| ms.parse().ok())
        .map_or(Duration::ZERO, Duration::from_millis);
    (sleep, turn.answer())
}

/// Returns true when a conversation is to be read for facts: nobody in it waits for that.
pub(super) fn is_reading(wire: Wire, body: &Value) -> bool {
    Turn::read(wire, body).user.starts_with("⟦conversation\n")
}

impl Turn {
    fn read(wire: Wire, body: &Value) -> Self {
        let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
        let since = messages
            .iter()
            .rposition(|message| message["role"] == "assistant")
            .map_or(0, |last| last + 1);
        let (mut user, mut results) = (String::new(), Vec::new());
        for message in messages.iter().skip(since) {
            match message["role"].as_str() {
                Some("tool") => results.push(text(&message["content"])),
                Some("user") => {
                    results.extend(
                        blocks(message, "tool_result").map(|block| text(&block["content"])),
                    );
                    user = text(&message["content"]);
                }
                _ => {}
            }
        }
        let tools = body["tools"].as_array().into_iter().flatten();
        let name = |tool: &Value| match wire {
            Wire::Anthropic => tool["name"].as_str().map(str::to_owned),
            Wire::OpenAi => tool["function"]["name"].as_str().map(str::to_owned),
        };
        let mut offered: Vec<String> = tools.clone().filter_map(name).collect();
        // Those that are described when they are asked for are named.
        let description = |tool: &Value| match wire {
            Wire::Anthropic => tool["description"].as_str().map(str::to_owned),
            Wire::OpenAi => tool["function"]["description"].as_str().map(str::to_owned),
        };
        let more = tools
            .filter_map(description)
            .find_map(|text| text.strip_prefix("More tools: ").map(str::to_owned));
        let names = more
            .as_deref()
            .and_then(|text| text.split_once('.'))
            .map_or("", |(names, _)| names);
        offered.extend(names.split(", ").map(str::to_owned));
        Self {
            user,
            results,
            tools: offered,
        }
    }

    fn answer(&self) -> Output {
        let calls = tool_calls(&self.user);
        if let Some((name, _)) = calls.iter().find(|(name, _)| !self.tools.contains(name)) {
            return Output::Text(format!(
                "no tool {name} on offer, only: {}",
                self.tools.join(", ")
            ));
        }
        if !calls.is_empty() {
            return Output::Tools(calls);
        }
        if let Some(said) = directive(&self.user, "say") {
            return Output::Text(said.to_owned());
        }
        if let Some(length) = directive(&self.user, "long").and_then(|length| length.parse().ok()) {
            return Output::Text(numbered_words(length));
        }
        // It reads a conversation for facts, and finds none.
        if self.user.starts_with("⟦conversation\n") {
            return Output::Text("{\"facts\": [], \"episode\": null}".to_owned());
        }
        let last = self
            .user
            .lines()
            .rfind(|line| !line.trim().is_empty() && !line.starts_with('⟦'))
            .unwrap_or_default();
        Output::Text(format!("echo: {}", last.trim()))
    }
}

/// Returns the argument of the last `[[name argument]]`.
fn directive<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, after) = text.rsplit_once(&format!("[[{name} "))?;
    Some(after.split_once("]]")?.0)
}

/// Returns every `[[tool NAME JSON]]`; the JSON may hold `]]` itself and is `{}` when absent.
fn tool_calls(source: &str) -> Vec<(String, Value)> {
    let parse = |call: &str| {
        let end = call.find([' ', ']'])?;
        let (name, arguments) = call.split_at(end);
        let first = serde_json::Deserializer::from_str(arguments)
            .into_iter()
            .next();
        Some((
            name.to_owned(),
            first
                .and_then(Result::ok)
                .filter(Value::is_object)
                .unwrap_or_else(|| json!({})),
        ))
    };
    source.split("[[tool ").skip(1).filter_map(parse).collect()
}

/// Returns exactly `length` ASCII characters, `w0001 w0002 …` in lines of ten, so that a test can tell which are missing.
fn numbered_words(length: usize) -> String {
    let words = (1_usize..).map(|n| format!("w{n:04}{}", if n % 10 == 0 { '\n' } else { ' ' }));
    words
        .flat_map(|word| word.into_bytes())
        .map(char::from)
        .take(length)
        .collect()
}

/// Returns the text of a content value: a string, or the text blocks of a list, a line each.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks
            .iter()
            .filter_map(|block| block["text"].as_str())
            .collect::<Vec<_>>()
            .join("\n"),
        _ => String::new(),
    }
}
