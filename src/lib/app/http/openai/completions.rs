//! Chat completions.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Raw, ignores_tools, is_empty, is_free, message, refuse, tokens, waiting};
use crate::app::http::error::ApiError;
use crate::app::http::stream;
use crate::app::http::stream::Piece;
use crate::app::http::wait::{Answer, ReplyWatch, outcome};
use crate::app::http::{Api, body};
use crate::clock;
#[cfg(any(test, fuzzing))]
use crate::text;

/// The body of a completion.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with `model` and `messages`")]
pub(super) struct Completion {
    model: String,
    messages: Vec<Value>,
    stream: Option<bool>,
    stream_options: Option<Value>,
    user: Option<String>,
    tools: Option<Value>,
    functions: Option<Value>,
    tool_choice: Option<Value>,
    response_format: Option<Value>,
}

impl Completion {
    fn check(&self, ignores_tools: bool) -> Result<(), ApiError> {
        let form = self.response_format.as_ref();
        refuse(&[
            ("tools", ignores_tools || is_empty(self.tools.as_ref())),
            (
                "functions",
                ignores_tools || is_empty(self.functions.as_ref()),
            ),
            ("tool_choice", is_free(self.tool_choice.as_ref())),
            (
                "response_format",
                form.is_none_or(|form| form["type"] == "text"),
            ),
        ])
    }
}

pub(in crate::app::http) async fn complete(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Response, ApiError> {
    let raw = Raw::of(request).await?;
    let completion: Completion = body::parse(&raw.bytes)?;
    completion.check(ignores_tools(&api))?;
    let (model, messages) = (completion.model, completion.messages);
    let message = message(&api, &model, &messages, completion.user, None).await?;
    let stream = completion.stream == Some(true);
    let options = completion.stream_options.unwrap_or_default();
    let with_usage = options["include_usage"] == true;
    let id = raw.take_in(&api, "completion", message, stream).await?;
    let chunks = Chunks {
        id: format!("chatcmpl-{id}"),
        created: clock::now_ms() / 1000,
        model,
        with_usage,
    };
    if stream {
        return Ok(stream::events(api, id, stream::Form::Completion(chunks)));
    }
    let answer = outcome(ReplyWatch::new(&api, &id).end().await?)?;
    Ok(Json(chunks.whole(&answer)).into_response())
}

/// One answer in OpenAI's form, whole or in chunks.
pub(in crate::app::http) struct Chunks {
    id: String,
    created: i64,
    model: String,
    with_usage: bool,
}

impl Chunks {
    fn whole(&self, answer: &Answer) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": answer.reply, "refusal": null},
                "logprobs": null,
                "finish_reason": "stop",
            }],
            "usage": usage(answer),
        })
    }

    /// Returns a piece as server-sent events.
    pub(in crate::app::http) fn piece(&self, piece: &Piece<'_>) -> String {
        match piece {
            Piece::Step(_) => String::new(),
            Piece::Accepted(_) => self.chunk(&json!({"role": "assistant", "content": ""}), None),
            Piece::Delta(text) => self.chunk(&json!({"content": text}), None),
            // The OpenAI protocol has no event for it. Clients show this next to the answer, and SDKs pass over it.
            Piece::Ask(asked) => {
                let text = waiting(asked) + "\n";
                self.chunk(&json!({"reasoning_content": text}), None)
            }
            Piece::Done(answer) => {
                let mut last = self.chunk(&json!({}), Some("stop"));
                if self.with_usage {
                    let mut chunk = self.head();
                    chunk["choices"] = json!([]);
                    chunk["usage"] = usage(answer);
                    last.push_str(&data(&chunk));
                }
                last.push_str("data: [DONE]\n\n");
                last
            }
            Piece::Failed(refusal) => data(&refusal.document()),
        }
    }

    fn chunk(&self, delta: &Value, finish: Option<&str>) -> String {
        let mut chunk = self.head();
        chunk["choices"] =
            json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);
        data(&chunk)
    }

    fn head(&self) -> Value {
        json!({"id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model})
    }
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn usage(answer: &Answer) -> Value {
    let (read, written) = tokens(answer);
    json!({"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written})
}

#[cfg(any(test, fuzzing))]
pub(super) fn check_body(bytes: &[u8]) {
    if let Ok(body) = text::json::parse::<Completion>(bytes)
        && body.check(false).is_ok()
    {
        let _ = super::said(&body.messages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_change_the_form_of_the_answer_is_refused_by_name() {
        let check = |more: Value, refused: Option<&str>| {
            let mut body = json!({"model": "agent", "messages": []});
            body.as_object_mut()
                .expect("an object")
                .extend(more.as_object().expect("an object").clone());
            let completion: Completion = serde_json::from_value(body).expect("a completion");
            let message = completion
                .check(false)
                .err()
                .map(|error| error.document()["error"]["message"].to_string());
            assert_eq!(message.is_some(), refused.is_some(), "{more}");
            assert!(message.is_none_or(|message| message.contains(refused.unwrap_or_default())));
        };
        check(
            json!({"tools": [], "tool_choice": "auto", "response_format": {"type": "text"}}),
            None,
        );
        check(
            json!({"tools": null, "tool_choice": "none", "temperature": 0}),
            None,
        );
        check(json!({"tools": [{"type": "function"}]}), Some("`tools`"));
        check(json!({"functions": [{"name": "f"}]}), Some("`functions`"));
        check(json!({"tool_choice": "required"}), Some("`tool_choice`"));
        check(
            json!({"response_format": {"type": "json_schema"}}),
            Some("`response_format`"),
        );
    }
}
