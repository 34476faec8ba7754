//! Messages and events: `POST /api/v1/chat`, `/chat/stream`, `/notify`. Each becomes a command like
//! those of the shell and is on disk before the answer begins.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::Posted;
use super::error::ApiError;
use super::files;
use super::files::File;
use super::wait::{Answer, ReplyWatch, outcome};
use super::{Api, stream};
use crate::control::attachments::Brought;
use crate::control::{Attachment, Command, Id, Order, Words};
use crate::message::Source;
use crate::{control, pipeline};

/// The sender when none is named.
pub(super) const DEFAULT_SENDER: &str = "http";
/// The longest names and references.
const MAX_NAME: usize = 200;

/// The body of `chat`.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with `message`")]
pub(super) struct Chat {
    #[serde(flatten)]
    said: Said,
    session: Option<String>,
    /// Whether the stream tells of each step, and not only of words.
    steps: Option<bool>,
}

/// The body of `notify`.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with `message`")]
pub(super) struct Notify {
    #[serde(flatten)]
    said: Said,
    source: Option<String>,
    #[serde(rename = "ref")]
    reference: Option<String>,
    data: Option<Value>,
}

/// What both bodies have.
#[derive(Debug, Deserialize)]
struct Said {
    message: String,
    sender: Option<String>,
    context: Option<String>,
    tier: Option<String>,
    model: Option<String>,
    untrusted: Option<bool>,
    trusted: Option<bool>,
    attachments: Option<Vec<File>>,
}

impl Said {
    /// Returns who says it, if it is named, what, and the files.
    fn parts(self) -> Result<(Option<String>, Words, Vec<Brought>), ApiError> {
        let files = files::decode(self.attachments.unwrap_or_default())?;
        let words = Words {
            text: self.message,
            context: self.context,
            tier: self.tier,
            model: self.model,
            untrusted: self.untrusted == Some(true),
            trusted: self.trusted == Some(true),
        };
        Ok((self.sender, words, files))
    }
}

/// A checked message.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) words: Words,
    pub(super) sender: String,
    pub(super) session: Option<String>,
    pub(super) files: Vec<Brought>,
}

pub(super) async fn chat(
    State(api): State<Arc<Api>>,
    Posted(id, chat): Posted<Chat>,
) -> Result<Json<Answer>, ApiError> {
    let message = Message::try_from(chat)?;
    message.take_in(&api, id.clone(), false).await?;
    outcome(ReplyWatch::new(&api, &id).end().await?).map(Json)
}

pub(super) async fn chat_stream(
    State(api): State<Arc<Api>>,
    Posted(id, chat): Posted<Chat>,
) -> Result<Response, ApiError> {
    let steps = chat.steps == Some(true);
    let message = Message::try_from(chat)?;
    message.take_in(&api, id.clone(), true).await?;
    Ok(stream::events(api, id, stream::Form::Own { steps }))
}

pub(super) async fn notify(
    State(api): State<Arc<Api>>,
    Posted(id, notice): Posted<Notify>,
) -> Result<Response, ApiError> {
    let (sender, words, files) = notice.said.parts()?;
    named("sender", sender.as_ref())?;
    let source = notice.source.or(sender);
    let source = source.unwrap_or_else(|| DEFAULT_SENDER.to_owned());
    check(&words.text, &files)?;
    named("source", Some(&source))?;
    named("ref", notice.reference.as_ref())?;
    named("tier", words.tier.as_ref())?;
    let command = Command::Notify {
        words,
        source,
        reference: notice.reference,
        data: notice.data.filter(|data| !data.is_null()),
        attachments: files.iter().map(Attachment::from).collect(),
    };
    take(&api, Order::new(id.clone(), command), files).await?;
    Ok(accepted(&id))
}

/// Returns the answer to what is stored and not done yet.
pub(super) fn accepted(id: &Id) -> Response {
    let accepted = Json(json!({"accepted": true, "id": id.as_str()}));
    (StatusCode::ACCEPTED, accepted).into_response()
}

impl TryFrom<Chat> for Message {
    type Error = ApiError;

    fn try_from(chat: Chat) -> Result<Self, ApiError> {
        let (sender, words, files) = chat.said.parts()?;
        Self {
            words,
            sender: sender.unwrap_or_else(|| DEFAULT_SENDER.to_owned()),
            session: chat.session,
            files,
        }
        .checked()
    }
}

impl Message {
    /// Checks the fields.
    ///
    /// # Errors
    /// 400.
    pub(super) fn checked(self) -> Result<Self, ApiError> {
        check(&self.words.text, &self.files)?;
        named("sender", Some(&self.sender))?;
        named("session", self.session.as_ref())?;
        named("tier", self.words.tier.as_ref())?;
        Ok(self)
    }

    /// Stores the message; `stream`: its reply is streamed.
    ///
    /// # Errors
    /// As [`take`].
    async fn take_in(self, api: &Api, id: Id, stream: bool) -> Result<(), ApiError> {
        let (order, files) = self.order(id, stream);
        take(api, order, files).await
    }

    /// Returns the message as a command, and its files.
    pub(super) fn order(self, id: Id, stream: bool) -> (Order, Vec<Brought>) {
        let command = Command::User {
            words: self.words,
            sender: self.sender,
            session: self.session,
            stream,
            attachments: self.files.iter().map(Attachment::from).collect(),
        };
        (Order::new(id, command), self.files)
    }
}

/// Takes an order in, once: the same id again is the same order.
///
/// # Errors
/// 400 for what makes no sense, 409 for the id of another request, 503 when it cannot be stored; nothing is then.
pub(super) async fn take(api: &Api, order: Order, files: Vec<Brought>) -> Result<(), ApiError> {
    let digest = control::digest(Source::Http.as_str(), &order.command);
    take_as(api, order, &digest, files).await
}

/// The same for an order whose words have this digest.
///
/// # Errors
/// As [`take`].
pub(super) async fn take_as(
    api: &Api,
    mut order: Order,
    digest: &str,
    files: Vec<Brought>,
) -> Result<(), ApiError> {
    let refused = |refusal| {
        match refusal {
        pipeline::Refusal::Unfit(why) => ApiError::bad(why),
        pipeline::Refusal::Other => ApiError::new(
            StatusCode::CONFLICT,
            "idempotency_conflict",
            "this Idempotency-Key belongs to another request",
        )
        .hint("use a new key for a different text or route; GET /api/v1/replies/ID has the answer to the first")
        .final_word(),
        pipeline::Refusal::Store(error) => {
            tracing::error!(%error, "cannot accept a request");
            ApiError::not_stored(error)
        }
    }
    };
    // Two requests of one key bring the same files; the second finds the message that has them.
    let _one = if files.is_empty() {
        None
    } else {
        Some(api.files.lock().await)
    };
    if !files.is_empty() {
        let taken = api.pipeline.is_taken(&order, digest).await;
        if taken.map_err(refused)? {
            return Ok(());
        }
        files::take_in(api, &mut order, files).await?;
    }
    let taken = api.pipeline.take_request(&order, digest).await;
    taken.map_err(refused)
}

fn check(message: &str, files: &[Brought]) -> Result<(), ApiError> {
    if message.trim().is_empty() && files.is_empty() {
        return Err(ApiError::bad("`message` is empty"));
    }
    Ok(())
}

/// Checks what is in keys, names and heads.
fn named(field: &str, value: Option<&String>) -> Result<(), ApiError> {
    let good = |text: &String| {
        (1..=MAX_NAME).contains(&text.chars().count()) && !text.contains(char::is_control)
    };
    if value.is_none_or(good) {
        return Ok(());
    }
    Err(ApiError::bad(format!(
        "`{field}` must have 1 to {MAX_NAME} printable characters"
    )))
}
