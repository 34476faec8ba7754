//! The provider without a network: the embedded default, for a first start with no key.
//!
//! It has no language model and says so. It drives the real agent loop all the same: an owner's
//! `!exec` and `!read` become tool calls that pass the normal policy. Deterministic.

#[cfg(test)]
mod tests;

use serde_json::json;

use super::wire::estimate_output;
use super::{BoxFuture, Error, OnText, Provider, Request, Response};
use crate::message::{Block, Message, Role, StopReason, ToolCall, ToolResult, Usage};
use crate::text;

const NO_MODEL: &str = "No language model is configured, so I can only do simple things:\n\
- `!exec COMMAND` runs a command\n\
- `!read FILE` shows a file\n\n\
To give me a model, describe it in a file in `providers.d/` and name that file in `[providers] load` of `agent.toml`.";

/// The most characters of a message that are quoted back.
const MAX_QUOTE_CHARS: usize = 200;

/// A provider that needs no network and no key.
#[derive(Debug, Clone, Copy, Default)]
pub struct Offline;

impl Offline {
    /// Returns the provider.
    pub fn new() -> Self {
        Self
    }
}

impl Provider for Offline {
    fn complete<'a>(&'a self, request: &'a Request, on_text: OnText<'a>) -> BoxFuture<'a, Result<Response, Error>> {
        Box::pin(async move {
            let block = reply(request);
            if let Block::Text { text } = &block {
                text.split_inclusive('\n').for_each(on_text);
            }
            let stop = if matches!(block, Block::ToolCall(_)) { StopReason::ToolUse } else { StopReason::EndTurn };
            let message = Message { role: Role::Assistant, content: vec![block] };
            let usage = Usage {
                input_tokens: estimate_input(request),
                output_tokens: estimate_output(&message),
                estimated: true,
                ..Usage::default()
            };
            Ok(Response { message, stop, usage })
        })
    }
}

fn reply(request: &Request) -> Block {
    let Some(newest) = request.messages.last() else { return say(NO_MODEL) };
    let words = newest.content.iter().rev().find_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        Block::Context { .. } | Block::ToolCall(_) | Block::ToolResult(_) => None,
    });
    let results: Vec<&ToolResult> = newest
        .content
        .iter()
        .filter_map(|block| match block {
            Block::ToolResult(result) => Some(result),
            Block::Text { .. } | Block::Context { .. } | Block::ToolCall(_) => None,
        })
        .collect();
    // Only a person's message has a context head; beside results, text without one is the loop's.
    let from_a_person = newest.content.iter().any(|block| matches!(block, Block::Context { .. }));
    match words {
        _ if !results.is_empty() && !from_a_person => say(&report(&results)),
        Some(words) if words.starts_with('!') => order(words, request),
        Some(words) if !words.trim().is_empty() => say(&format!("Hello! {NO_MODEL}\n\nYour message arrived: “{}”", quote(words))),
        Some(_) | None => say(&format!("Hello! {NO_MODEL}")),
    }
}

fn say(text: &str) -> Block {
    Block::Text { text: text.to_owned() }
}

fn quote(words: &str) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    text::shorten(&text::visible(&words.join(" ")), MAX_QUOTE_CHARS)
}

/// Turns `!exec …` and `!read …` into a call, or says why not.
fn order(words: &str, request: &Request) -> Block {
    let (word, argument) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
    let argument = argument.trim();
    let (tool, input) = match word {
        "!exec" => ("exec", json!({"command": argument})),
        "!read" => ("read", json!({"path": argument})),
        _ => return say(&format!("I do not know `{}`. {NO_MODEL}", quote(word).replace('`', "'"))),
    };
    if argument.is_empty() {
        let what = if tool == "exec" { "COMMAND" } else { "FILE" };
        return say(&format!("Something is missing: write `{word} {what}`."));
    }
    if !request.tools.iter().any(|spec| spec.name == tool) {
        return say(&format!(
            "I cannot use `{tool}` here. It is offered only where every word is my owner's (`/new` begins such a conversation), and not at all when the configuration switches it off."
        ));
    }
    Block::ToolCall(ToolCall { id: unused_id(request), name: tool.to_owned(), input })
}

fn unused_id(request: &Request) -> String {
    let taken = |id: &String| request.messages.iter().flat_map(Message::tool_calls).any(|call| call.id == *id);
    let mut ids = (request.messages.len()..).map(|n| format!("offline_{n}"));
    ids.find(|id| !taken(id)).expect("the numbers do not run out")
}

fn report(results: &[&ToolResult]) -> String {
    let reports: Vec<String> = results
        .iter()
        .map(|result| match (result.is_error, result.text.trim_end()) {
            (true, "") => "That did not work; the tool gave no reason.".to_owned(),
            (true, why) => format!("That did not work:\n{}", fenced(why)),
            (false, "") => "Done; there was no output.".to_owned(),
            (false, output) => fenced(output),
        })
        .collect();
    reports.join("\n\n")
}

/// Returns `text` in a code block whose fence is longer than any in it.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(3.max(longest + 1));
    format!("{fence}\n{text}\n{fence}")
}

fn estimate_input(request: &Request) -> u64 {
    let system: u64 = request.system.iter().map(|block| text::estimate_tokens(&block.text)).sum();
    let tools: u64 = request
        .tools
        .iter()
        .map(|spec| text::estimate_tokens(spec.description) + text::estimate_tokens(&spec.schema.to_string()))
        .sum();
    let blocks = request.messages.iter().flat_map(|message| &message.content);
    let said: u64 = blocks
        .map(|block| match block {
            Block::Text { text } | Block::Context { text } => text::estimate_tokens(text),
            Block::ToolCall(call) => text::estimate_tokens(&call.input.to_string()),
            Block::ToolResult(result) => text::estimate_tokens(&result.text),
        })
        .sum();
    system + tools + said
}
