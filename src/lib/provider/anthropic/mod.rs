//! Anthropic's Messages API, and servers that speak it (llama.cpp, proxies).
//!
//! Written after <https://platform.claude.com/docs/en/api/messages>, …/build-with-claude/streaming,
//! …/prompt-caching and …/thinking-tool-workflows, API version 2023-06-01, read 2026-11.

mod response;
mod thinking;

use serde_json::json;

use super::api_key::Key;
use super::http::{Answer, Endpoint};
use super::json::{Json, object};
use super::wire;
use super::wire::Turn;
use super::{BoxFuture, Error, OnText, Provider, Request, Response, Tier, ToolSpec};
use crate::config::Ttl;
use crate::message::{Block, Role};
pub(super) use response::MessageAnswer;
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
/// call (the messages) is last.
///
/// With `request.cache` at most four blocks are marked for the prompt cache: the last tool, the last
/// system block of each tier, and the last block of all, which lets the next call read everything
/// before its own addition. After a step of many blocks, where the last call ended is marked instead
/// of the last tool. Marks are set again each time, so none is left in the history.
pub fn body(request: &Request) -> Json<'_> {
    let mut turns = wire::turns(MessageAnswer::PROTOCOL, request);
    let mode = Mode::of(request, &turns);
    if !mode.takes_blocks() {
        turns.iter_mut().for_each(|turn| {
            turn.blocks
                .retain(|block| !matches!(block, Block::Thinking(_)))
        });
        turns.retain(|turn| !turn.blocks.is_empty());
    }
    let mut tools: Vec<Json<'_>> = request.tools.iter().map(tool).collect();
    let [stable, semi_stable, conversation] = request.cache_ttl;
    let mut system: Vec<Json<'_>> = Vec::new();
    let mut blocks = request
        .system
        .iter()
        .filter(|block| !block.text.trim().is_empty())
        .peekable();
    while let Some(block) = blocks.next() {
        let mut value = text(&block.text);
        if request.cache && blocks.peek().is_none_or(|next| next.tier != block.tier) {
            let ttl = match block.tier {
                Tier::Stable => stable,
                Tier::SemiStable => semi_stable,
            };
            mark(&mut value, ttl);
        }
        system.push(value);
    }
    let mut messages: Vec<Json<'_>> = turns.iter().map(message).collect();
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

    let mut body = object([
        ("model", request.model.as_str().into()),
        ("max_tokens", request.max_tokens.into()),
        ("stream", true.into()),
    ]);
    let withdrawn = tools.is_empty();
    if withdrawn {
        tools = withdrawn_tools(&turns);
    }
    if !tools.is_empty() && (withdrawn || !request.may_call) {
        body.add("tool_choice", json!({"type": "none"}));
    }
    if let Some(thinking) = mode.value(request.max_tokens) {
        body.add("thinking", thinking);
    }
    if let Some(schema) = &request.schema {
        let format = object([
            ("type", "json_schema".into()),
            ("schema", schema.as_ref().into()),
        ]);
        body.add("output_config", object([("format", format)]));
    }
    if !tools.is_empty() {
        body.add("tools", tools);
    }
    if !system.is_empty() {
        body.add("system", system);
    }
    body.add("messages", messages);
    body
}

fn text(text: &str) -> Json<'_> {
    object([("type", "text".into()), ("text", text.into())])
}

fn mark(block: &mut Json<'_>, ttl: Ttl) {
    let value = wire::cache_control(ttl);
    match block.field("cache_control") {
        Some(mark) => *mark = value.into(),
        None => block.add("cache_control", value),
    }
}

/// Marks the last block of a message; a user's never ends on thinking, which takes no mark.
fn mark_end(messages: &mut [Json<'_>], at: usize, ttl: Ttl) {
    let content = messages
        .get_mut(at)
        .and_then(|message| message.field("content"));
    if let Some(block) = content.and_then(Json::last) {
        mark(block, ttl);
    }
}

/// Returns how many blocks are after the user turn with which the last call ended.
fn added(turns: &[Turn<'_>]) -> usize {
    turns
        .iter()
        .rev()
        .take(2)
        .map(|turn| turn.blocks.len())
        .sum()
}

fn tool(spec: &ToolSpec) -> Json<'_> {
    object([
        ("name", wire::safe_name(&spec.name).into()),
        ("description", spec.description.as_ref().into()),
        ("input_schema", Json::Raw(spec.schema.raw())),
    ])
}

/// Returns bare definitions of the tools that `turns` mention. A call without tools is refused when
/// the history has any ("Requests which include `tool_use` or `tool_result` blocks must define
/// tools", anthropic-sdk-python#494), so they are named and forbidden.
fn withdrawn_tools<'a>(turns: &[Turn<'a>]) -> Vec<Json<'a>> {
    let mut names: Vec<_> = Vec::new();
    for call in turns.iter().flat_map(Turn::calls) {
        let name = wire::safe_name(&call.name);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let bare = |name| {
        object([
            ("name", Json::Text(name)),
            ("description", "Not available now.".into()),
            ("input_schema", json!({"type": "object"}).into()),
        ])
    };
    names.into_iter().map(bare).collect()
}

fn message<'a>(turn: &Turn<'a>) -> Json<'a> {
    let role = match turn.role {
        Role::Assistant => "assistant",
        Role::User => "user",
    };
    // A user's results must come first; only a user has any.
    let is_result = |block: &Block| matches!(block, Block::ToolResult(_));
    let all = || turn.blocks.iter().copied();
    let results = all().filter(|block| is_result(block));
    let others = all().filter(|block| !is_result(block));
    let content: Vec<Json<'_>> = results.chain(others).map(block).collect();
    object([("role", role.into()), ("content", content.into())])
}

fn block(block: &Block) -> Json<'_> {
    match block {
        Block::Image {
            content_type,
            data: Some(data),
            ..
        } => {
            let source = object([
                ("type", "base64".into()),
                ("media_type", content_type.as_str().into()),
                ("data", data.as_ref().into()),
            ]);
            object([("type", "image".into()), ("source", source)])
        }
        Block::Image { data: None, .. } => text(wire::NO_PICTURE),
        Block::Text { text: words } | Block::Context { text: words } => text(words),
        Block::Thinking(thinking) => (&thinking.data).into(),
        Block::ToolCall(call) => object([
            ("type", "tool_use".into()),
            ("id", wire::safe_id(&call.id).into()),
            ("name", wire::safe_name(&call.name).into()),
            ("input", wire::input_object(&call.input).into()),
        ]),
        Block::ToolResult(result) => {
            let mut value = object([
                ("type", "tool_result".into()),
                ("tool_use_id", wire::safe_id(&result.id).into()),
                ("content", wire::result_text(&result.text).into()),
            ]);
            if result.is_error {
                value.add("is_error", true);
            }
            value
        }
    }
}

#[cfg(test)]
mod body_tests;
#[cfg(test)]
mod tests;
