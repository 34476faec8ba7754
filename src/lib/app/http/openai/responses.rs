//! Responses: the newer form, in which a request names the answer that it follows.
//!
//! `input` is the message, or a list of messages as in a completion; `instructions` are its context. With
//! `previous_response_id` the conversation of that answer continues. `store` has no effect: all conversations are stored.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Raw, ignores_tools, is_empty, is_free, message, refuse, tokens, waiting};
use crate::app::documents;
use crate::app::http::body::Named;
use crate::app::http::error::ApiError;
use crate::app::http::stream;
use crate::app::http::stream::Piece;
use crate::app::http::wait::{Answer, ReplyWatch, outcome};
use crate::app::http::{Api, body};
use crate::clock;
use crate::control::Id;
#[cfg(any(test, fuzzing))]
use crate::text;

/// What the id of an answer begins with.
const PREFIX: &str = "resp_";

/// The body of a request.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with `model` and `input`")]
pub(super) struct Asked {
    model: String,
    input: Value,
    instructions: Option<String>,
    stream: Option<bool>,
    user: Option<String>,
    previous_response_id: Option<String>,
    conversation: Option<Value>,
    background: Option<bool>,
    prompt: Option<Value>,
    tools: Option<Value>,
    tool_choice: Option<Value>,
    text: Option<Value>,
}

impl Asked {
    fn check(&self, ignores_tools: bool) -> Result<(), ApiError> {
        let format = self.text.as_ref().and_then(|text| text.get("format"));
        refuse(&[
            ("tools", ignores_tools || is_empty(self.tools.as_ref())),
            ("tool_choice", is_free(self.tool_choice.as_ref())),
            (
                "text.format",
                format.is_none_or(|format| format.is_null() || format["type"] == "text"),
            ),
            ("conversation", self.conversation.is_none()),
            ("prompt", self.prompt.is_none()),
            ("background", self.background != Some(true)),
        ])
    }

    /// Returns the input as messages of a completion.
    ///
    /// # Errors
    /// 400 for an item or a part that the agent cannot take.
    fn messages(&self) -> Result<Vec<Value>, ApiError> {
        let instructions = self.instructions.iter();
        let mut messages: Vec<Value> = instructions
            .map(|text| json!({"role": "system", "content": text}))
            .collect();
        match &self.input {
            Value::String(text) => messages.push(json!({"role": "user", "content": text})),
            Value::Array(items) => {
                for item in items {
                    messages.extend(message_of(item)?);
                }
            }
            _ => return Err(ApiError::bad("`input` must be a string or a list of items")),
        }
        Ok(messages)
    }
}

/// Returns an item as a message of a completion; `None` for what a model thought, which the agent does not need.
fn message_of(item: &Value) -> Result<Option<Value>, ApiError> {
    let kind = item.get("type").and_then(Value::as_str);
    match kind {
        None | Some("message") => {}
        Some("reasoning") => return Ok(None),
        Some(kind) => {
            let words = format!("an item of the type {kind:?} cannot be taken");
            return Err(ApiError::bad(words).hint(
                "messages can; the agent uses its own tools, so it asks for no results of any",
            ));
        }
    }
    let content = match item.get("content") {
        Some(Value::Array(parts)) => {
            Value::Array(parts.iter().map(part_of).collect::<Result<_, _>>()?)
        }
        other => other.cloned().unwrap_or_default(),
    };
    Ok(Some(
        json!({"role": item.get("role").unwrap_or(&Value::Null), "content": content}),
    ))
}

fn part_of(part: &Value) -> Result<Value, ApiError> {
    let text = |name: &str| part.get(name).cloned().unwrap_or_default();
    Ok(match part.get("type").and_then(Value::as_str) {
        Some("input_text" | "output_text" | "text") => {
            json!({"type": "text", "text": text("text")})
        }
        Some("refusal") => json!({"type": "text", "text": text("refusal")}),
        Some("input_image") => {
            json!({"type": "image_url", "image_url": {"url": text("image_url")}})
        }
        Some("input_file") => {
            json!({"type": "file", "file": {"file_data": text("file_data"), "filename": text("filename")}})
        }
        Some("input_audio") => part.clone(),
        _ => {
            return Err(ApiError::bad(
                "a part must be of the type input_text, output_text, input_image, input_file or input_audio",
            ));
        }
    })
}

pub(in crate::app::http) async fn respond(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Response, ApiError> {
    let raw = Raw::of(request).await?;
    let asked: Asked = body::parse(&raw.bytes)?;
    asked.check(ignores_tools(&api))?;
    let messages = asked.messages()?;
    let continued = match &asked.previous_response_id {
        None => None,
        Some(previous) => Some(conversation(&api, previous).await?),
    };
    let (model, stream) = (asked.model, asked.stream == Some(true));
    let message = message(&api, &model, &messages, asked.user, continued).await?;
    let id = raw.take_in(&api, "response", message, stream).await?;
    let form = Events::new(id.clone(), model, asked.previous_response_id);
    if stream {
        let form = stream::Form::Response(Box::new(form));
        return Ok(stream::events(api, id, form));
    }
    let answer = outcome(ReplyWatch::new(&api, &id).end().await?)?;
    Ok(Json(form.whole(&answer)).into_response())
}

/// Returns an answer again.
pub(in crate::app::http) async fn retrieve(
    State(api): State<Arc<Api>>,
    Named(name): Named,
) -> Result<Json<Value>, ApiError> {
    let id = id_of(&name)?;
    let session = api.pipeline.session_of_request(&id).await;
    session
        .map_err(ApiError::not_stored)?
        .ok_or_else(|| unknown("no such response"))?;
    let (home, wanted) = (api.home.clone(), id.clone());
    let reply = crate::sys::blocking(move || documents::reply(&home, &wanted))
        .await?
        .ok_or_else(|| unknown("no such response"))?;
    let form = Events::new(id, super::AGENT.to_owned(), None);
    Ok(Json(match reply.is_final() {
        true => form.whole(&outcome(reply)?),
        false => form.document("in_progress"),
    }))
}

/// Returns the conversation in which an answer was given.
async fn conversation(api: &Api, previous: &str) -> Result<String, ApiError> {
    let session = api.pipeline.session_of_request(&id_of(previous)?).await;
    session
        .map_err(ApiError::not_stored)?
        .ok_or_else(|| unknown("no answer has the id of `previous_response_id`"))
}

fn id_of(name: &str) -> Result<Id, ApiError> {
    name.strip_prefix(PREFIX)
        .and_then(Id::parse)
        .ok_or_else(|| unknown("ids of responses begin with resp_"))
}

fn unknown(words: &str) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "response_not_found", words)
}

/// One answer as a response: whole, or as the events of a stream.
pub(in crate::app::http) struct Events {
    id: Id,
    created: i64,
    model: String,
    previous: Option<String>,
    /// The number of the next event.
    sequence: u64,
    /// What has come, without the message that is being written.
    output: Vec<Value>,
    /// Whether the message has begun.
    is_open: bool,
}

impl Events {
    fn new(id: Id, model: String, previous: Option<String>) -> Self {
        Self {
            id,
            created: clock::now_ms() / 1000,
            model,
            previous,
            sequence: 0,
            output: Vec::new(),
            is_open: false,
        }
    }

    fn whole(&self, answer: &Answer) -> Value {
        let (read, written) = tokens(answer);
        let mut document = self.document("completed");
        let message = self.message("completed", Some(&answer.reply));
        let output = self.output.iter().cloned().chain([message]);
        document["output"] = output.collect();
        document["usage"] = json!({
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": read + written,
        });
        document
    }

    fn document(&self, status: &str) -> Value {
        json!({
            "id": format!("{PREFIX}{}", self.id),
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": null,
            "incomplete_details": null,
            "instructions": null,
            "metadata": {},
            "model": self.model,
            "output": self.output,
            "parallel_tool_calls": false,
            "previous_response_id": self.previous,
            "temperature": null,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": null,
            "usage": null,
        })
    }

    fn message(&self, status: &str, text: Option<&str>) -> Value {
        let content: Vec<Value> = text.map(part).into_iter().collect();
        json!({"id": self.message_id(), "type": "message", "status": status, "role": "assistant", "content": content})
    }

    fn message_id(&self) -> String {
        format!("msg_{}", self.id)
    }

    /// Returns a piece as server-sent events.
    pub(in crate::app::http) fn piece(&mut self, piece: &Piece<'_>) -> String {
        match piece {
            Piece::Step(_) => String::new(),
            Piece::Accepted(_) => {
                let document = self.document("in_progress");
                let created = self.event("response.created", json!({"response": document}));
                created + &self.event("response.in_progress", json!({"response": document}))
            }
            Piece::Delta(text) => {
                let open = self.open();
                open + &self.of_message(
                    "response.output_text.delta",
                    json!({"delta": text, "logprobs": []}),
                )
            }
            Piece::Ask(asked) => self.thought(&waiting(asked)),
            Piece::Done(answer) => self.end(answer),
            Piece::Failed(refusal) => {
                let error = &refusal.document()["error"];
                let (code, message) = (error["code"].clone(), error["message"].clone());
                let told = json!({"code": code, "message": message, "param": null});
                let mut document = self.document("failed");
                document["error"] = json!({"code": "server_error", "message": message});
                let error = self.event("error", told);
                error + &self.event("response.failed", json!({"response": document}))
            }
        }
    }

    /// The message begins, if it has not.
    fn open(&mut self) -> String {
        if std::mem::replace(&mut self.is_open, true) {
            return String::new();
        }
        let item = self.message("in_progress", None);
        let index = self.output.len();
        let added = json!({"output_index": index, "item": item});
        let item = self.event("response.output_item.added", added);
        item + &self.of_message("response.content_part.added", json!({"part": part("")}))
    }

    fn end(&mut self, answer: &Answer) -> String {
        let mut events = self.open();
        let text = answer.reply.as_str();
        events += &self.of_message(
            "response.output_text.done",
            json!({"text": text, "logprobs": []}),
        );
        events += &self.of_message("response.content_part.done", json!({"part": part(text)}));
        let item = self.message("completed", Some(text));
        let done = json!({"output_index": self.output.len(), "item": item});
        events += &self.event("response.output_item.done", done);
        let whole = self.whole(answer);
        events + &self.event("response.completed", json!({"response": whole}))
    }

    /// Something that clients show next to the answer. Once the message has begun it is in no item of its own,
    /// for items come one after the other: then it is a comment, which SDKs pass over.
    fn thought(&mut self, text: &str) -> String {
        if self.is_open {
            return format!(": {text}\n\n");
        }
        let index = self.output.len();
        let id = format!("rs_{}_{index}", self.id);
        let summary = json!({"type": "summary_text", "text": text});
        let item = json!({"id": id, "type": "reasoning", "summary": [summary]});
        let empty = json!({"id": id, "type": "reasoning", "summary": []});
        let place = json!({"item_id": id, "output_index": index, "summary_index": 0});
        let with = |name: &str, value: Value| {
            let mut fields = place.clone();
            fields[name] = value;
            fields
        };
        let told = [
            (
                "response.output_item.added",
                json!({"output_index": index, "item": empty}),
            ),
            (
                "response.reasoning_summary_part.added",
                with("part", json!({"type": "summary_text", "text": ""})),
            ),
            (
                "response.reasoning_summary_text.delta",
                with("delta", json!(text)),
            ),
            (
                "response.reasoning_summary_text.done",
                with("text", json!(text)),
            ),
            (
                "response.reasoning_summary_part.done",
                with("part", summary.clone()),
            ),
            (
                "response.output_item.done",
                json!({"output_index": index, "item": item}),
            ),
        ];
        self.output.push(item.clone());
        told.into_iter()
            .map(|(kind, fields)| self.event(kind, fields))
            .collect()
    }

    /// An event of the message's only part.
    fn of_message(&mut self, kind: &str, mut fields: Value) -> String {
        fields["item_id"] = json!(self.message_id());
        fields["output_index"] = json!(self.output.len());
        fields["content_index"] = json!(0);
        self.event(kind, fields)
    }

    fn event(&mut self, kind: &str, mut fields: Value) -> String {
        fields["type"] = json!(kind);
        fields["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        format!("event: {kind}\ndata: {fields}\n\n")
    }
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

#[cfg(any(test, fuzzing))]
pub(super) fn check_body(bytes: &[u8]) {
    if let Ok(asked) = text::json::parse::<Asked>(bytes)
        && asked.check(false).is_ok()
        && let Ok(messages) = asked.messages()
    {
        let _ = super::said(&messages);
    }
}
