//! OpenAI's chat completions, and every server that speaks them: OpenRouter, Ollama, llama-server, vLLM.
//!
//! Written after <https://platform.openai.com/docs/api-reference/chat> (read 2026-11) and what the
//! compatible servers leave out of it.

mod reasoning;
mod response;
mod think_tags;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::api_key::Key;
use super::http::{Answer, Endpoint};
use super::json::{Json, object};
use super::wire;
use super::wire::Turn;
use super::{BoxFuture, Error, OnText, Provider, Request, Response, ToolSpec};
use crate::message::{Block, Role, ToolCall, ToolResult};
use crate::text;
pub(super) use response::Completion;

/// What Gemini's server for this protocol says with a call and requires back: the signature of the thoughts before
/// it (its guide "Thought signatures", read 2026-11).
const EXTRA_CONTENT: &str = "extra_content";

/// The field that asks for thinking.
const EFFORT: &str = "reasoning_effort";

/// What is between texts that are joined into one.
const BETWEEN: &str = "\n\n";

/// The chat completions of one server.
#[derive(Debug, Clone)]
pub struct OpenAi {
    endpoint: Endpoint,
    dialect: Dialect,
    /// The dialects of models that refused a request in that of the server, by the vendor's id. In memory only: after a
    /// restart the vendor may think otherwise.
    learned: Arc<Mutex<HashMap<String, Dialect>>>,
}

/// Where servers differ in what they take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    /// What the field for the longest answer is called.
    pub limit: LimitField,
    /// How thinking is asked for.
    pub effort: EffortField,
    /// Whether Claude's prompt cache is asked for.
    pub cache: CacheField,
    /// Which ids of calls it takes.
    pub ids: CallIds,
}

/// What every compatible server takes.
#[cfg(test)]
pub(super) const PLAIN: Dialect = Dialect {
    limit: LimitField::MaxTokens,
    effort: EffortField::ReasoningEffort,
    cache: CacheField::None,
    ids: CallIds::Any,
};

/// How a server is asked for thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffortField {
    /// `reasoning_effort`: OpenAI, and most that are compatible.
    ReasoningEffort,
    /// `reasoning_effort`, which is `none` whatever is asked for: of OpenAI's models from GPT-5.5 on, those that take tools
    /// here at all take them only so.
    None,
    /// `reasoning: {enabled}`: OpenRouter, which finds the form for each model itself.
    Reasoning,
}

/// How a server is asked to cache a prompt of Claude, which does not do so by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheField {
    /// Not at all.
    None,
    /// `cache_control` of the whole request: OpenRouter (its guide "Prompt Caching", read 2026-11).
    CacheControl,
}

/// Which ids of calls a server takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallIds {
    /// Any.
    Any,
    /// Nine letters or digits: Mistral refuses others.
    Nine,
}

impl CallIds {
    /// Returns `id` as it is sent.
    fn sent(self, id: &str) -> Cow<'_, str> {
        let fits = id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric());
        match self {
            Self::Nine if !fits => text::head(&text::sha256_hex(id.as_bytes()), 9)
                .to_owned()
                .into(),
            Self::Any | Self::Nine => id.into(),
        }
    }
}

/// What the field for the longest answer is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitField {
    /// `max_tokens`: the name every compatible server knows.
    MaxTokens,
    /// `max_completion_tokens`: OpenAI's own models refuse the old name.
    MaxCompletionTokens,
}

impl Dialect {
    /// Returns the dialect that a refusal in these words asks for; `None` when it asks for no other.
    fn after_refusal(self, words: &str) -> Option<Self> {
        let mut wanted = self;
        if words.contains("max_completion_tokens") {
            wanted.limit = LimitField::MaxCompletionTokens;
        }
        if self.effort == EffortField::ReasoningEffort && words.contains(EFFORT) {
            wanted.effort = EffortField::None;
        }
        (wanted != self).then_some(wanted)
    }
}

impl OpenAi {
    /// Returns a provider that posts to `{base_url}/chat/completions`. A `base_url` without a path
    /// gets `/v1`, where nearly all servers have it (Ollama and llama-server are configured by host
    /// and port); one with a path is taken as it is, because some have none
    /// (`…/v1beta/openai`, `…/api/paas/v4`). `client` should follow no redirects.
    pub fn new(client: reqwest::Client, base_url: &str, key: impl Into<Key>) -> Self {
        let endpoint = endpoint(client, base_url, "chat/completions", key.into());
        let host = endpoint.host_name();
        let is_own = host == "api.openai.com"
            || [".api.openai.com", ".openai.azure.com"]
                .iter()
                .any(|domain| host.ends_with(domain));
        let limit = if is_own {
            LimitField::MaxCompletionTokens
        } else {
            LimitField::MaxTokens
        };
        let (effort, cache) = if host == "openrouter.ai" {
            (EffortField::Reasoning, CacheField::CacheControl)
        } else {
            (EffortField::ReasoningEffort, CacheField::None)
        };
        let ids = if host == "api.mistral.ai" {
            CallIds::Nine
        } else {
            CallIds::Any
        };
        let dialect = Dialect {
            limit,
            effort,
            cache,
            ids,
        };
        Self {
            endpoint,
            dialect,
            learned: Arc::default(),
        }
    }

    /// Makes an attempt, and another at once when the model refuses a field by name and wants another in its place.
    async fn attempt(&self, request: &Request, on_text: OnText<'_>) -> Result<Response, Error> {
        let known = self.learned.lock().get(&request.model).copied();
        let mut dialect = known.unwrap_or(self.dialect);
        let mut before = None;
        loop {
            let body = body(request, dialect);
            let answer = self
                .endpoint
                .complete::<Completion>(request, &body, on_text)
                .await;
            let error = match answer {
                Ok(response) => {
                    if dialect != self.dialect {
                        let model = request.model.clone();
                        self.learned.lock().insert(model, dialect);
                    }
                    return Ok(response);
                }
                Err(error) => error,
            };
            let (Error::Rejected { message, .. } | Error::Missing { message, .. }) = &error else {
                return Err(error);
            };
            let Some(wanted) = dialect.after_refusal(message) else {
                // That `none` is refused, too, says less than why it was sent.
                let is_about_effort = message.contains(EFFORT);
                return Err(before.filter(|_| is_about_effort).unwrap_or(error));
            };
            tracing::warn!(model = request.model, %error, "retrying the refused request with another field");
            (dialect, before) = (wanted, Some(error));
        }
    }
}

/// Returns `path` of the server at `base_url`; of that and the key see [`OpenAi::new`].
pub(super) fn endpoint(client: reqwest::Client, base_url: &str, path: &str, key: Key) -> Endpoint {
    Endpoint::new(client, base_url, path, |path| !path.is_empty()).with_key(
        "authorization",
        "Bearer ",
        key,
    )
}

impl Provider for OpenAi {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        on_text: OnText<'a>,
    ) -> BoxFuture<'a, Result<Response, Error>> {
        Box::pin(self.attempt(request, on_text))
    }
}

/// Returns the request as sent: the same request gives the same bytes, and what changes from call to
/// call (the messages) is last. Prompt caching needs no marks here, except for Claude at OpenRouter; the servers
/// find the longest known prefix themselves.
pub fn body(request: &Request, dialect: Dialect) -> Json<'_> {
    let mut messages = Vec::new();
    let system: Vec<&str> = wire::system_texts(request).collect();
    if !system.is_empty() {
        messages.push(said("system", system.join(BETWEEN)));
    }
    let mut calls: Vec<&ToolCall> = Vec::new();
    for turn in &wire::turns(Completion::PROTOCOL, request) {
        match turn.role {
            Role::Assistant => {
                calls = turn.calls().collect();
                messages.push(assistant(turn, dialect.ids));
            }
            Role::User => {
                let calls = std::mem::take(&mut calls);
                user(turn, &calls, dialect.ids, &mut messages);
            }
        }
    }

    let limit = match dialect.limit {
        LimitField::MaxTokens => "max_tokens",
        LimitField::MaxCompletionTokens => "max_completion_tokens",
    };
    let mut body = object([
        ("model", request.model.as_str().into()),
        (limit, request.max_tokens.into()),
        ("stream", true.into()),
        ("stream_options", json!({"include_usage": true}).into()),
    ]);
    match dialect.effort {
        EffortField::None => body.add(EFFORT, "none"),
        EffortField::ReasoningEffort if request.thinking => body.add(EFFORT, "medium"),
        EffortField::Reasoning if request.thinking => {
            body.add("reasoning", json!({"enabled": true}));
        }
        EffortField::ReasoningEffort | EffortField::Reasoning => {}
    }
    let is_claude = request.model.starts_with("anthropic/");
    if request.cache && is_claude && dialect.cache == CacheField::CacheControl {
        // It covers all up to the newest message.
        let [.., conversation] = request.cache_ttl;
        body.add("cache_control", wire::cache_control(conversation));
    }
    if let Some(schema) = &request.schema {
        let format = object([
            ("name", "answer".into()),
            ("strict", true.into()),
            ("schema", schema.as_ref().into()),
        ]);
        let format = object([("type", "json_schema".into()), ("json_schema", format)]);
        body.add("response_format", format);
    }
    if !request.tools.is_empty() {
        body.add("tools", request.tools.iter().map(tool).collect::<Vec<_>>());
        if !request.may_call {
            body.add("tool_choice", "none");
        }
    }
    body.add("messages", messages);
    body
}

fn tool(spec: &ToolSpec) -> Json<'_> {
    let function = object([
        ("name", wire::safe_name(&spec.name).into()),
        ("description", spec.description.as_ref().into()),
        ("parameters", Json::Raw(spec.schema.raw())),
    ]);
    object([("type", "function".into()), ("function", function)])
}

fn said<'a>(role: &'static str, content: impl Into<Json<'a>>) -> Json<'a> {
    object([("role", role.into()), ("content", content.into())])
}

fn assistant<'a>(turn: &Turn<'a>, ids: CallIds) -> Json<'a> {
    let mut message = said("assistant", content(turn).unwrap_or(Value::Null.into()));
    let mut calls: Vec<Json<'_>> = Vec::new();
    let mut extra: Option<Json<'_>> = None;
    for block in &turn.blocks {
        match block {
            Block::Thinking(thinking) => {
                extra = thinking.data.get(EXTRA_CONTENT).map(Json::from).or(extra);
            }
            Block::ToolCall(made) => {
                let mut sent = call(made, ids);
                if let Some(extra) = extra.take() {
                    sent.add(EXTRA_CONTENT, extra);
                }
                calls.push(sent);
            }
            Block::Text { .. }
            | Block::Context { .. }
            | Block::Image { .. }
            | Block::ToolResult(_) => {}
        }
    }
    if !calls.is_empty() {
        message.add("tool_calls", calls);
        reasoning::send_back(turn, &mut message);
    }
    message
}

fn call(call: &ToolCall, ids: CallIds) -> Json<'_> {
    let arguments = wire::input_object(&call.input).to_string();
    let function = object([
        ("name", wire::safe_name(&call.name).into()),
        ("arguments", arguments.into()),
    ]);
    object([
        ("id", ids.sent(&call.id).into()),
        ("type", "function".into()),
        ("function", function),
    ])
}

/// Adds a user turn: first the results in the order of `calls`, as the role `tool`, then the rest.
fn user<'a>(turn: &Turn<'a>, calls: &[&ToolCall], ids: CallIds, messages: &mut Vec<Json<'a>>) {
    let results = turn.results(calls).into_iter();
    messages.extend(results.map(|result| tool_message(result, ids)));
    messages.extend(content(turn).map(|content| said("user", content)));
}

/// Returns the texts and pictures of a turn: joined into one string, which is understood everywhere, or a
/// list of parts where there is a picture to be shown; `None` when there is neither.
fn content<'a>(turn: &Turn<'a>) -> Option<Json<'a>> {
    let mut parts: Vec<Json<'_>> = Vec::new();
    let mut texts: Vec<&str> = Vec::new();
    let text_part = |texts: &mut Vec<&'a str>| {
        let text = joined(texts);
        texts.clear();
        (!text.is_empty()).then(|| object([("type", "text".into()), ("text", text.into())]))
    };
    for block in &turn.blocks {
        match block {
            Block::Image {
                content_type,
                data: Some(data),
                ..
            } => {
                parts.extend(text_part(&mut texts));
                let url = format!("data:{content_type};base64,{data}");
                let image = object([("url", url.into())]);
                parts.push(object([("type", "image_url".into()), ("image_url", image)]));
            }
            Block::Image { data: None, .. } => texts.push(wire::NO_PICTURE),
            Block::Text { text } | Block::Context { text } => texts.push(text),
            Block::Thinking(_) | Block::ToolCall(_) | Block::ToolResult(_) => {}
        }
    }
    if parts.is_empty() {
        let text = joined(&texts);
        return (!text.is_empty()).then(|| text.into());
    }
    parts.extend(text_part(&mut texts));
    Some(parts.into())
}

/// Returns texts as one; one alone is borrowed.
fn joined<'a>(texts: &[&'a str]) -> Cow<'a, str> {
    match texts {
        [] => Cow::Borrowed(""),
        [text] => Cow::Borrowed(*text),
        _ => Cow::Owned(texts.join(BETWEEN)),
    }
}

/// Returns a result as a message. The format has no field for failure, so the words must say it; those
/// of a command do, in their last line (`[exit 3]`), and nothing may be before its output.
fn tool_message(result: &ToolResult, ids: CallIds) -> Json<'_> {
    let text = wire::result_text(&result.text);
    let ends = text
        .lines()
        .next_back()
        .is_some_and(|last| last.starts_with('[') && last.ends_with(']'));
    let says_so = ends
        || text
            .trim_start()
            .get(..5)
            .is_some_and(|start| start.eq_ignore_ascii_case("error"));
    let content = if result.is_error && !says_so {
        Json::from(format!("Error: {text}"))
    } else {
        text.into()
    };
    object([
        ("role", "tool".into()),
        ("tool_call_id", ids.sent(&result.id).into()),
        ("content", content),
    ])
}

#[cfg(test)]
mod tests;
