//! The API for OpenAI clients: chat completions, responses, embeddings, models.
//!
//! ```text
//! completions   POST /v1/chat/completions   (platform.openai.com/docs/api-reference/chat)
//! responses     POST /v1/responses          (platform.openai.com/docs/api-reference/responses)
//! embeddings    POST /v1/embeddings         (platform.openai.com/docs/api-reference/embeddings)
//! ```
//! The agent stores its conversations itself. So only the last user message of a request is used as the message; `system`
//! and `developer` messages are its context, as is what a client inserted into the message ([`inserted`]); the others are
//! ignored, because the agent remembers them. `user` names the sender and thereby the conversation. Without it each chat of
//! the client is a separate conversation: a request continues the conversation whose messages and answers its own messages
//! end with; otherwise it begins a new one, with its earlier messages as context. `model` is `agent`, or a configured
//! model's name. Parameters of the model (`temperature` …) have no effect; parameters that would change the form of the
//! answer (`tools`, `response_format` …) are refused.
//!
//! The SDKs of OpenAI repeat a request, without an idempotency key, when its answer takes too long. A repeated body joins
//! the run that it started while that runs; with the SDKs' retry header, for an hour.

pub(super) mod completions;
mod conversation;
pub(super) mod embeddings;
mod inserted;
pub(super) mod responses;

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use hyper::StatusCode;
use serde_json::{Value, json};

use conversation::{Earlier, conversation};

use super::body::Named;
use super::chat::{DEFAULT_SENDER, Message};
use super::error::ApiError;
use super::files;
use super::files::File;
use super::wait::Answer;
use super::{Api, body, chat, idempotency_key};
use crate::control::replies::Ask;
use crate::control::{Id, Words};
use crate::{clock, text};

/// The model name for the configured routing.
const AGENT: &str = "agent";
/// How long a retry of a client joins the run that its first attempt began: SDKs wait ten minutes for an answer
/// and send a request at most twice again.
const RETRY_WINDOW_MS: i64 = 3_600_000;

/// A request as it came.
struct Raw {
    key: Option<Id>,
    is_retry: bool,
    bytes: Vec<u8>,
}

impl Raw {
    /// # Errors
    /// When its key or its body cannot be.
    async fn of(request: Request) -> Result<Self, ApiError> {
        Ok(Self {
            key: idempotency_key::key(request.headers())?,
            is_retry: idempotency_key::is_retry(request.headers()),
            bytes: body::bytes(request).await?,
        })
    }

    /// Takes the message in as a run, or joins the one that this request began before. `route` keeps the same bytes on
    /// two routes apart.
    ///
    /// # Errors
    /// When it cannot be accepted.
    async fn take_in(
        self,
        api: &Api,
        route: &str,
        message: Message,
        stream: bool,
    ) -> Result<Id, ApiError> {
        let digest = text::sha256_hex(&[route.as_bytes(), b" ", &self.bytes].concat());
        // Of two requests at one time one begins the run, and the other finds it.
        let _one = api.joins[usize::from(digest.as_bytes()[0]) % api.joins.len()]
            .lock()
            .await;
        let since = clock::now_ms() - RETRY_WINDOW_MS;
        let joined = match self.key {
            Some(id) => Some(id),
            None => api
                .pipeline
                .said_already(&digest, since, self.is_retry)
                .await
                .map_err(ApiError::not_stored)?,
        };
        let (order, files) = message.order(joined.unwrap_or_default(), stream);
        let id = order.id.clone();
        chat::take_as(api, order, &digest, files).await?;
        Ok(id)
    }
}

/// Returns what is said, and in which conversation: the one of `user`, the one that is `continued`, or that which the
/// earlier messages belong to.
///
/// # Errors
/// When there is nothing to say, or no such model.
async fn message(
    api: &Api,
    model: &str,
    messages: &[Value],
    user: Option<String>,
    continued: Option<String>,
) -> Result<Message, ApiError> {
    let Said {
        mut words,
        files,
        before,
    } = said(messages)?;
    // Clients that know of nobody send an empty name, too.
    let user = user.filter(|user| !user.is_empty());
    let session = match (continued, &user) {
        (Some(session), _) => Some(session),
        (None, Some(_)) => None,
        (None, None) => Some(conversation(api, &before, &mut words).await?),
    };
    let words = Words {
        model: configured(api, model)?,
        ..words
    };
    Message {
        words,
        sender: user.unwrap_or_else(|| DEFAULT_SENDER.to_owned()),
        session,
        files: files::decode(files)?,
    }
    .checked()
}

/// Returns whether the owner said that clients may offer tools which are never called.
fn ignores_tools(api: &Api) -> bool {
    api.pipeline.live().config.http.ignore_tools
}

/// Returns true for a list that is not there or has nothing in it.
fn is_empty(list: Option<&Value>) -> bool {
    list.is_none_or(|list| list.is_null() || list.as_array().is_some_and(Vec::is_empty))
}

/// Returns true when a `tool_choice` leaves the choice to the agent.
fn is_free(choice: Option<&Value>) -> bool {
    choice.is_none_or(|choice| matches!(choice.as_str(), Some("none" | "auto")))
}

/// Returns how a stream says that the owner is asked.
fn waiting(asked: &Ask) -> String {
    format!(
        "Waiting for approval of {}, until {}.",
        asked.tool, asked.expires_at
    )
}

/// Refuses the first field that is not fine: a caller who relies on it must not be ignored.
///
/// # Errors
/// 400, naming the field.
fn refuse(fields: &[(&str, bool)]) -> Result<(), ApiError> {
    match fields.iter().find(|(_, is_fine)| !is_fine) {
        None => Ok(()),
        Some((field, _)) => Err(ApiError::bad(format!("`{field}` is not supported"))
            .hint("the agent uses its own tools and answers in text; leave the field out, or, for a client that can do \
                   without its tools, set `[http] ignore_tools = true` in agent.toml")),
    }
}

/// Returns the configured model of this name; `None` for the configured routing.
fn configured(api: &Api, model: &str) -> Result<Option<String>, ApiError> {
    if model == AGENT {
        return Ok(None);
    }
    let live = api.pipeline.live();
    if live
        .agent
        .client()
        .models()
        .names()
        .any(|name| name == model)
    {
        return Ok(Some(model.to_owned()));
    }
    Err(unknown_model())
}

fn unknown_model() -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        "model_not_found",
        "no model has this name",
    )
    .hint("GET /v1/models")
}

/// The message of a request, with its files.
#[derive(Debug, Default)]
struct Said {
    words: Words,
    files: Vec<File>,
    before: Vec<Earlier>,
}

fn said(messages: &[Value]) -> Result<Said, ApiError> {
    let role = |message: &Value| {
        message
            .get("role")
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    if messages.iter().any(|message| role(message).is_none()) {
        return Err(ApiError::bad(
            "each of `messages` must be an object with `role`",
        ));
    }
    let last = messages
        .iter()
        .rposition(|message| role(message).as_deref() == Some("user"));
    if messages
        .iter()
        .rev()
        .take_while(|message| role(message).as_deref() != Some("user"))
        .any(|message| matches!(role(message).as_deref(), Some("tool" | "function")))
    {
        return Err(ApiError::bad(
            "a result of a tool cannot be the last of `messages`: the agent uses its own tools",
        ));
    }
    let last = last.ok_or_else(|| ApiError::bad("none of `messages` has the role user"))?;
    let mut said = Said::default();
    let parted = inserted::parted(&content(&messages[last], Some(&mut said.files))?);
    (said.words.text, said.words.untrusted) = (parted.typed, parted.is_mixed);
    for message in &messages[..last] {
        let role = role(message).unwrap_or_default();
        if ["user", "assistant"].contains(&role.as_str()) {
            // Files of earlier messages were read when those were sent.
            let mut text = content(message, Some(&mut Vec::new())).unwrap_or_default();
            if role == "user" {
                // As it was taken in then.
                text = inserted::parted(&text).typed;
            }
            said.before.push(Earlier { role, text });
        }
    }
    let mut given = Vec::new();
    for message in messages
        .iter()
        .filter(|message| matches!(role(message).as_deref(), Some("system" | "developer")))
    {
        given.push(content(message, None)?);
    }
    given.extend(parted.inserted);
    said.words.context = Some(given.join("\n\n")).filter(|given| !given.is_empty());
    Ok(said)
}

/// Returns the text of a message; its files are added to `files`.
fn content(message: &Value, mut files: Option<&mut Vec<File>>) -> Result<String, ApiError> {
    let parts = match message.get("content") {
        None | Some(Value::Null) => return Ok(String::new()),
        Some(Value::String(text)) => return Ok(text.clone()),
        Some(Value::Array(parts)) => parts,
        Some(_) => {
            return Err(ApiError::bad(
                "`content` must be a string or a list of parts",
            ));
        }
    };
    let mut words = Vec::new();
    for part in parts {
        let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
        let text = |path: &str| part.pointer(path).and_then(Value::as_str);
        let file = match (kind, files.is_some()) {
            ("text", _) => {
                words.push(
                    text("/text")
                        .ok_or_else(|| ApiError::bad("a part of the type text has no `text`"))?
                        .to_owned(),
                );
                continue;
            }
            ("image_url", true) => of_url(text("/image_url/url"), None)?,
            ("file", true) => of_url(text("/file/file_data"), text("/file/filename"))?,
            ("input_audio", true) => {
                let format = text("/input_audio/format").unwrap_or("wav");
                let data = text("/input_audio/data")
                    .ok_or_else(|| ApiError::bad("`input_audio` has no `data`"))?;
                let content_type = Some(format!("audio/{format}"));
                File {
                    content_type,
                    data: data.to_owned(),
                    filename: Some(format!("audio.{format}")),
                }
            }
            _ => {
                return Err(ApiError::bad(
                    "a part must be of the type text, image_url, file or input_audio",
                ));
            }
        };
        files
            .as_deref_mut()
            .into_iter()
            .for_each(|files| files.push(file.clone()));
    }
    Ok(words.join("\n"))
}

/// Reads `data:TYPE;base64,…`. Other URLs are refused: nothing is fetched for a caller.
fn of_url(url: Option<&str>, filename: Option<&str>) -> Result<File, ApiError> {
    let read = |url: &str| {
        let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
        let content_type = head
            .strip_suffix(";base64")?
            .split(';')
            .next()
            .unwrap_or_default();
        let ending = content_type
            .rsplit('/')
            .next()
            .filter(|ending| !ending.is_empty())
            .unwrap_or("bin");
        let filename = filename.map_or_else(|| format!("file.{ending}"), str::to_owned);
        let content_type = Some(content_type.to_owned()).filter(|kind| !kind.is_empty());
        Some(File {
            content_type,
            data: data.to_owned(),
            filename: Some(filename),
        })
    };
    url.and_then(read)
        .ok_or_else(|| ApiError::bad("files must come as data:TYPE;base64,… and are not fetched"))
}

/// Returns the models there are: the agent, and what is configured.
fn models_of(api: &Api) -> Vec<Value> {
    let live = api.pipeline.live();
    let names = std::iter::once(AGENT).chain(live.agent.client().models().names());
    let one = |name: &str| json!({"id": name, "object": "model", "created": 0, "owned_by": "agent-toolkit"});
    names.map(one).collect()
}

pub(super) async fn models(State(api): State<Arc<Api>>) -> Json<Value> {
    Json(json!({"object": "list", "data": models_of(&api)}))
}

pub(super) async fn model(
    State(api): State<Arc<Api>>,
    Named(name): Named,
) -> Result<Json<Value>, ApiError> {
    models_of(&api)
        .into_iter()
        .find(|model| model["id"] == name.as_str())
        .map(Json)
        .ok_or_else(unknown_model)
}

/// Returns the tokens of a run, read and written.
fn tokens(answer: &Answer) -> (u64, u64) {
    let total = answer.tokens.unwrap_or(0);
    let written = answer.output_tokens.unwrap_or(0).min(total);
    (total - written, written)
}

#[cfg(any(test, fuzzing))]
pub(super) fn check_body(bytes: &[u8]) {
    completions::check_body(bytes);
    responses::check_body(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_the_user_are_said_and_what_the_system_says_comes_with_them() {
        let messages = [
            json!({"role": "system", "content": "Be short."}),
            json!({"role": "user", "content": "before"}),
            json!({"role": "assistant", "content": "yes"}),
            json!({"role": "developer", "content": [{"type": "text", "text": "No emoji."}]}),
            json!({"role": "user", "content": [
                {"type": "text", "text": "What is"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
                {"type": "text", "text": "this?"},
            ]}),
        ];
        let said = said(&messages).expect("said");
        assert_eq!(said.words.text, "What is\nthis?");
        assert_eq!(
            said.words.context.as_deref(),
            Some("Be short.\n\nNo emoji.")
        );
        let before = ["user", "assistant"].into_iter().zip(["before", "yes"]);
        let before: Vec<Earlier> = before
            .map(|(role, text)| Earlier {
                role: role.to_owned(),
                text: text.to_owned(),
            })
            .collect();
        assert_eq!(said.before, before);
        let file = &said.files[0];
        assert_eq!(
            (
                file.content_type.as_deref(),
                file.data.as_str(),
                file.filename.as_deref()
            ),
            (Some("image/png"), "aGk=", Some("file.png"))
        );
    }

    #[test]
    fn odd_messages_are_refused_and_nothing_is_fetched() {
        for messages in [
            json!([]),
            json!([1]),
            json!([{"role": 1}]),
            json!([{"role": "assistant", "content": "x"}]),
            json!([{"role": "user", "content": "x"}, {"role": "tool", "content": "5"}]),
            json!([{"role": "user", "content": 1}]),
            json!([{"role": "user", "content": [1]}]),
            json!([{"role": "user", "content": [{"type": "text"}]}]),
            json!([{"role": "user", "content": [{"type": "tool", "text": "x"}]}]),
            json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}}]}]),
            json!([{"role": "user", "content": [{"type": "image_url", "image_url": "data:image/png;base64,aGk="}]}]),
            json!([{"role": "system", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]}, {"role": "user", "content": "x"}]),
        ] {
            assert!(
                said(messages.as_array().expect("list")).is_err(),
                "{messages}"
            );
        }
    }
}
