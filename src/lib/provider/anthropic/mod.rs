//! Anthropic's Messages API, and servers that speak it (llama.cpp, proxies).
//!
//! Written after <https://platform.claude.com/docs/en/api/messages>, …/build-with-claude/streaming,
//! …/prompt-caching and …/thinking-tool-workflows, API version 2023-06-01, read 2026-11.

mod response;
mod thinking;

use serde_json::{Value, json};

use super::api_key::Key;
use super::http::{Answer, Endpoint};
use super::wire;
use super::wire::Turn;
use super::{BoxFuture, Error, OnText, Provider, Request, Response, Tier, ToolSpec};
use crate::config::Ttl;
use crate::message::{Block, Role};
use response::MessageAnswer;
use thinking::Mode;

/// From a mark the cache looks back over 20 blocks for what it knows (its guide, "Prompt caching"); a
/// step with more of them after the last call's mark gets a second mark there.
const LOOK_BACK: usize = 18;

/// The Messages API of one server.
#[derive(Debug, Clone)]
pub struct Anthropic {
    endpoint: Endpoint,
}

impl Anthropic {
    /// Returns a provider that posts to `{base_url}/v1/messages`; `base_url` may end in `/v1` or a
    /// slash. `client` should follow no redirects: they would carry the key elsewhere.
    pub fn new(client: reqwest::Client, base_url: &str, key: impl Into<Key>) -> Self {
        let endpoint = Endpoint::new(client, base_url, "messages", |path| path.ends_with("/v1"))
            .with("anthropic-version", "2023-06-01")
            .with_key("x-api-key", "", key.into());
        Self { endpoint }
    }
}

impl Provider for Anthropic {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        on_text: OnText<'a>,
    ) -> BoxFuture<'a, Result<Response, Error>> {
        Box::pin(async move {
            let body = body(request);
            self.endpoint
                .complete::<MessageAnswer>(request, &body, on_text)
                .await
        })
    }
}

/// Returns the request as sent: the same request gives the same bytes, and what changes from call to
/// call (the messages) stands last.
///
/// With `request.cache` at most four blocks are marked for the prompt cache: the last tool, the last
/// system block of each tier, and the last block of all, which lets the next call read everything
/// before its own addition. After a step of many blocks, where the last call ended is marked instead
/// of the last tool. Marks are set afresh each time, so none is left in the history.
pub fn body(request: &Request) -> Value {
    let mut turns = wire::turns(MessageAnswer::PROTOCOL, request);
    let mode = Mode::of(request, &turns);
    if !mode.takes_blocks() {
        turns.iter_mut().for_each(|turn| {
            turn.blocks
                .retain(|block| !matches!(block, Block::Thinking(_)))
        });
        turns.retain(|turn| !turn.blocks.is_empty());
    }
    let mut tools: Vec<Value> = request.tools.iter().map(tool).collect();
    let [stable, semi_stable, conversation] = request.cache_ttl;
    let mut system: Vec<Value> = Vec::new();
    let mut blocks = request
        .system
        .iter()
        .filter(|block| !block.text.trim().is_empty())
        .peekable();
    while let Some(block) = blocks.next() {
        let mut value = json!({"type": "text", "text": block.text});
        if request.cache && blocks.peek().is_none_or(|next| next.tier != block.tier) {
            let ttl = match block.tier {
                Tier::Stable => stable,
                Tier::SemiStable => semi_stable,
            };
            mark(&mut value, ttl);
        }
        system.push(value);
    }
    let mut messages: Vec<Value> = turns.iter().map(message).collect();
    if request.cache {
        let last_call = messages
            .len()
            .checked_sub(3)
            .filter(|_| added(&turns) > LOOK_BACK);
        match last_call {
            Some(at) => mark_end(&mut messages, at, conversation),
            None => drop(tools.last_mut().map(|tool| mark(tool, stable))),
        }
        let end = messages.len().saturating_sub(1);
        mark_end(&mut messages, end, conversation);
    }

    let mut body =
        json!({"model": request.model, "max_tokens": request.max_tokens, "stream": true});
    let withdrawn = tools.is_empty();
    if withdrawn {
        tools = withdrawn_tools(&turns);
    }
    if !tools.is_empty() && (withdrawn || !request.may_call) {
        body["tool_choice"] = json!({"type": "none"});
    }
    if let Some(thinking) = mode.value(request.max_tokens) {
        body["thinking"] = thinking;
    }
    if let Some(schema) = &request.schema {
        body["output_config"] = json!({"format": {"type": "json_schema", "schema": **schema}});
    }
    if !tools.is_empty() {
        body["tools"] = Value::Array(tools);
    }
    if !system.is_empty() {
        body["system"] = Value::Array(system);
    }
    body["messages"] = Value::Array(messages);
    body
}

fn mark(block: &mut Value, ttl: Ttl) {
    block["cache_control"] = match ttl {
        Ttl::Minutes5 => json!({"type": "ephemeral"}),
        Ttl::Hour => json!({"type": "ephemeral", "ttl": "1h"}),
    };
}

/// Marks the last block of a message; a user's never ends on thinking, which takes no mark.
fn mark_end(messages: &mut [Value], at: usize, ttl: Ttl) {
    let blocks = messages
        .get_mut(at)
        .and_then(|message| message.get_mut("content")?.as_array_mut());
    if let Some(block) = blocks.and_then(|blocks| blocks.last_mut()) {
        mark(block, ttl);
    }
}

/// Returns how many blocks stand after the user turn with which the last call ended.
fn added(turns: &[Turn<'_>]) -> usize {
    turns
        .iter()
        .rev()
        .take(2)
        .map(|turn| turn.blocks.len())
        .sum()
}

fn tool(spec: &ToolSpec) -> Value {
    json!({"name": wire::safe_name(&spec.name), "description": spec.description, "input_schema": spec.schema})
}

/// Returns bare definitions of the tools that `turns` mention. A call without tools is refused when
/// the history has any ("Requests which include `tool_use` or `tool_result` blocks must define
/// tools", anthropic-sdk-python#494), so they are named and forbidden.
fn withdrawn_tools(turns: &[Turn<'_>]) -> Vec<Value> {
    let mut names: Vec<_> = Vec::new();
    for call in turns.iter().flat_map(Turn::calls) {
        let name = wire::safe_name(&call.name);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
        .iter()
        .map(|name| json!({"name": name, "description": "Not available now.", "input_schema": {"type": "object"}}))
        .collect()
}

fn message(turn: &Turn<'_>) -> Value {
    let mut blocks = turn.blocks.clone();
    let role = match turn.role {
        Role::Assistant => "assistant",
        Role::User => {
            // The results must come first; the sort is stable.
            blocks.sort_by_key(|block| !matches!(block, Block::ToolResult(_)));
            "user"
        }
    };
    json!({"role": role, "content": blocks.into_iter().map(block).collect::<Vec<Value>>()})
}

fn block(block: &Block) -> Value {
    match block {
        Block::Image {
            content_type,
            data: Some(data),
            ..
        } => {
            json!({"type": "image", "source": {"type": "base64", "media_type": content_type, "data": data.as_ref()}})
        }
        Block::Image { data: None, .. } => json!({"type": "text", "text": wire::NO_PICTURE}),
        Block::Text { text } | Block::Context { text } => json!({"type": "text", "text": text}),
        Block::Thinking(thinking) => thinking.data.clone(),
        Block::ToolCall(call) => json!({
            "type": "tool_use",
            "id": wire::safe_id(&call.id),
            "name": wire::safe_name(&call.name),
            "input": wire::input_object(&call.input),
        }),
        Block::ToolResult(result) => {
            let mut value = json!({
                "type": "tool_result",
                "tool_use_id": wire::safe_id(&result.id),
                "content": wire::result_text(&result.text),
            });
            if result.is_error {
                value["is_error"] = json!(true);
            }
            value
        }
    }
}

#[cfg(test)]
mod body_tests;
#[cfg(test)]
mod tests;
