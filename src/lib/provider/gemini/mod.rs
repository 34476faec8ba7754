//! Google's generateContent, always streamed.
//!
//! Written after <https://ai.google.dev/api/generate-content>, …/gemini-api/docs/function-calling,
//! …/thinking and …/thought-signatures, API version v1beta, read 2026-11.

mod response;
mod schema;

use serde_json::json;

use super::api_key::Key;
use super::http::{Answer, Endpoint};
use super::json::{Json, object};
use super::partial_message::is_made_id;
use super::wire;
use super::wire::Turn;
use super::{BoxFuture, Error, OnText, Provider, Request, Response, ToolSpec};
use crate::message::{Block, Role, ToolCall, ToolResult};
pub(super) use response::Candidate;

/// Where a part keeps what the model wants to see again with it.
const SIGNATURE: &str = "thoughtSignature";

/// Stands for the signature of a call that has none, because another model made it: Gemini 3 and later
/// refuse such a call without (the guide's questions and answers).
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The models of one server.
#[derive(Debug, Clone)]
pub struct Gemini {
    endpoint: Endpoint,
}

impl Gemini {
    /// Returns a provider that posts to `{base_url}/v1beta/models/MODEL:streamGenerateContent`;
    /// `base_url` may end in its version or a slash. The key goes into a header, never into the URL.
    /// `client` should follow no redirects.
    pub fn new(client: reqwest::Client, base_url: &str, key: impl Into<Key>) -> Self {
        Self {
            endpoint: models(client, base_url, key.into()),
        }
    }

    fn endpoint(&self, model: &str) -> Endpoint {
        let method = format!("{}:streamGenerateContent", bare(model));
        self.endpoint.below(&method, Some("alt=sse"))
    }
}

/// Returns the models of the server at `base_url`; of that and the key see [`Gemini::new`].
pub(super) fn models(client: reqwest::Client, base_url: &str, key: Key) -> Endpoint {
    let base = base_url.trim().trim_end_matches('/');
    let versioned = ["/v1beta", "/v1alpha", "/v1"]
        .iter()
        .any(|version| base.ends_with(version));
    let base = if versioned {
        base.to_owned()
    } else {
        format!("{base}/v1beta")
    };
    Endpoint::new(client, &base, "models", |_| true).with_key("x-goog-api-key", "", key)
}

/// Returns a model's name without the collection that some lists write before it.
pub(super) fn bare(model: &str) -> &str {
    model.strip_prefix("models/").unwrap_or(model)
}

impl Provider for Gemini {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        on_text: OnText<'a>,
    ) -> BoxFuture<'a, Result<Response, Error>> {
        Box::pin(async move {
            let body = body(request);
            self.endpoint(&request.model)
                .complete::<Candidate>(request, &body, on_text)
                .await
        })
    }
}

/// Returns the request as sent: the same request gives the same bytes, and what changes from call to
/// call (the contents) is last. Prompt caching needs no marks; the server finds the longest known
/// prefix itself.
pub fn body(request: &Request) -> Json<'_> {
    let mut body = object([]);
    let system: Vec<Json<'_>> = wire::system_texts(request).map(text).collect();
    if !system.is_empty() {
        body.add("system_instruction", object([("parts", system.into())]));
    }
    if !request.tools.is_empty() {
        let declarations: Vec<Json<'_>> = request.tools.iter().map(declaration).collect();
        let tools = vec![object([("functionDeclarations", declarations.into())])];
        body.add("tools", tools);
        if !request.may_call {
            body.add(
                "toolConfig",
                json!({"functionCallingConfig": {"mode": "NONE"}}),
            );
        }
    }
    let old = is_old(&request.model);
    let mut config = object([("maxOutputTokens", request.max_tokens.into())]);
    if request.thinking {
        // Up to 2.5 a budget, -1 = as much as it takes; from 3 on a level.
        let thinking = if old {
            json!({"thinkingBudget": -1})
        } else {
            json!({"thinkingLevel": "high"})
        };
        config.add("thinkingConfig", thinking);
    }
    // Together with tools it is refused up to 2.5.
    if let Some(schema) = request
        .schema
        .as_ref()
        .filter(|_| request.tools.is_empty() || !old)
    {
        config.add("responseMimeType", "application/json");
        config.add("responseJsonSchema", schema.as_ref());
    }
    body.add("generationConfig", config);
    let turns = wire::turns(Candidate::PROTOCOL, request);
    body.add("contents", contents(&turns, !old));
    body
}

fn text(text: &str) -> Json<'_> {
    object([("text", text.into())])
}

/// Returns true for Gemini 1 and 2. Names without a number (`gemini-flash-latest`) are newer ones.
fn is_old(model: &str) -> bool {
    let major = model
        .split_once("gemini-")
        .and_then(|(_, version)| version.split(['.', '-']).next()?.parse::<u32>().ok());
    major.is_some_and(|major| major < 3) || !model.contains("gemini")
}

fn declaration(spec: &ToolSpec) -> Json<'_> {
    let mut value = object([
        ("name", wire::safe_name(&spec.name).into()),
        ("description", spec.description.as_ref().into()),
    ]);
    // An object without properties is refused; a function without parameters is not.
    if let Some(parameters) = schema::parameters(&spec.schema) {
        value.add("parameters", parameters);
    }
    value
}

/// Returns the turns as contents; `signed` says whether every step's first call must have a signature.
fn contents<'a>(turns: &[Turn<'a>], signed: bool) -> Vec<Json<'a>> {
    let mut calls: Vec<&ToolCall> = Vec::new();
    let mut contents = Vec::new();
    for turn in turns {
        let (role, parts) = match turn.role {
            Role::Assistant => {
                calls = turn.calls().collect();
                ("model", model(turn, signed))
            }
            Role::User => ("user", user(turn, &std::mem::take(&mut calls))),
        };
        contents.push(object([("role", role.into()), ("parts", parts.into())]));
    }
    contents
}

/// Returns the parts of a model's turn, each with the signature that is before it.
fn model<'a>(turn: &Turn<'a>, signed: bool) -> Vec<Json<'a>> {
    let (mut parts, mut signature): (Vec<Json<'_>>, Option<Json<'_>>) = (Vec::new(), None);
    let mut first_call = true;
    for block in &turn.blocks {
        let mut part = match block {
            Block::Thinking(thinking) => {
                signature = thinking.data.get(SIGNATURE).map(Json::from);
                continue;
            }
            Block::ToolCall(call) => {
                let must = std::mem::take(&mut first_call) && signed;
                signature = signature.or_else(|| must.then(|| NO_SIGNATURE.into()));
                let mut value = object([
                    ("name", wire::safe_name(&call.name).into()),
                    ("args", wire::input_object(&call.input).into()),
                ]);
                name_call(&mut value, &call.id);
                object([("functionCall", value)])
            }
            block => spoken(block),
        };
        if let Some(signature) = signature.take() {
            part.add(SIGNATURE, signature);
        }
        parts.push(part);
    }
    parts
}

/// Returns the parts of a user turn: first the results, in the order of `calls`, because Gemini pairs
/// what has no id by its place, then the rest.
fn user<'a>(turn: &Turn<'a>, calls: &[&'a ToolCall]) -> Vec<Json<'a>> {
    let results = turn.results(calls).into_iter().map(|result| {
        let call = calls.iter().find(|call| call.id == result.id);
        response(result, call.map_or("unnamed", |call| &call.name))
    });
    let rest = turn
        .blocks
        .iter()
        .filter(|block| !matches!(block, Block::ToolResult(_)));
    results.chain(rest.map(|block| spoken(block))).collect()
}

fn response<'a>(result: &'a ToolResult, name: &'a str) -> Json<'a> {
    let key = if result.is_error { "error" } else { "result" };
    let said = object([(key, wire::result_text(&result.text).into())]);
    let mut value = object([("name", wire::safe_name(name).into()), ("response", said)]);
    name_call(&mut value, &result.id);
    object([("functionResponse", value)])
}

/// Adds the id that the model gave a call; one that we made says nothing to it, and older servers know
/// no such field.
fn name_call<'a>(value: &mut Json<'a>, id: &'a str) {
    if !is_made_id(id) {
        value.add("id", wire::safe_id(id));
    }
}

fn spoken(block: &Block) -> Json<'_> {
    match block {
        Block::Text { text: words } | Block::Context { text: words } => text(words),
        // It takes no GIF.
        Block::Image {
            content_type,
            data: Some(data),
            ..
        } if content_type != "image/gif" => {
            let bytes = object([
                ("mimeType", content_type.as_str().into()),
                ("data", data.as_ref().into()),
            ]);
            object([("inlineData", bytes)])
        }
        _ => text(wire::NO_PICTURE),
    }
}

#[cfg(test)]
mod tests;
