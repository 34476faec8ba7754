//! One request to the Bot API, and the classification of its failures.

use std::time::Duration;

use parking_lot::RwLock;
use reqwest::{Response, Url};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use teloxide::requests::Payload;

use super::upload::{Progress, Upload, time_for};
use crate::channel::telegram::receive::repair_json;
use crate::secret::{Secret, redact};
use crate::{net, text};

/// No answer is longer: a hundred updates with the longest texts have a tenth of it.
const MAX_ANSWER: usize = 32 << 20;
/// However long a server wants us to wait, it is asked again after this: a slip in a number must not close a chat for good.
const LONGEST_REST: Duration = Duration::from_secs(3600);

/// The Bot API server with our token.
pub(crate) struct Api {
    client: RwLock<reqwest::Client>,
    base: String,
    token: Secret,
}

/// What is asked of the Bot API.
pub(crate) struct Request {
    pub(super) method: &'static str,
    parameters: Value,
    /// Files by the names of their form fields; with files the request is a form, else JSON.
    files: Vec<(String, Upload)>,
    timeout: Option<Duration>,
}

impl Request {
    /// Returns a request of these parameters; null ones are left out.
    pub(crate) fn new(method: &'static str, mut parameters: Value) -> Self {
        if let Some(fields) = parameters.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        Self {
            method,
            parameters,
            files: Vec::new(),
            timeout: None,
        }
    }

    pub(crate) fn with_files(self, files: Vec<(String, Upload)>) -> Self {
        Self { files, ..self }
    }

    /// Sets how long it may take; otherwise 30 s and what its files need.
    pub(crate) fn within(self, timeout: Duration) -> Self {
        Self {
            timeout: Some(timeout),
            ..self
        }
    }
}

impl<P: Payload + Serialize> From<P> for Request {
    fn from(payload: P) -> Self {
        // A payload of teloxide's is plain data.
        Self::new(P::NAME, serde_json::to_value(payload).unwrap_or_default())
    }
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// The request was never written, or surely not to its end.
    #[error("Telegram cannot be reached: {0}")]
    Unreachable(String),
    /// Telegram answered with an error.
    #[error("Telegram answered {status}: {description}")]
    Refused {
        status: u16,
        description: String,
        retry_after: Option<Duration>,
        /// The new id of the group that was asked for.
        moved_to: Option<i64>,
    },
    /// The request was written and no answer came.
    #[error("no answer from Telegram: {0}")]
    Lost(String),
    /// A request that can be left out was not made: the chat takes no more now.
    #[error("too many calls in this chat now")]
    NoRoom,
}

#[derive(Deserialize)]
struct Answer {
    ok: bool,
    #[serde(default)]
    result: Value,
    error_code: Option<u16>,
    description: Option<String>,
    parameters: Option<Parameters>,
}

#[derive(Default, Deserialize)]
struct Parameters {
    retry_after: Option<u64>,
    migrate_to_chat_id: Option<i64>,
}

impl Answer {
    /// Returns the error that it is, with the HTTP status `status`.
    fn into_refusal(self, status: u16) -> Error {
        let description = self.description.as_deref().unwrap_or("no description");
        let parameters = self.parameters.unwrap_or_default();
        let rest = parameters.retry_after.map(Duration::from_secs);
        Error::Refused {
            status: self.error_code.unwrap_or(status),
            description: text::shorten(&redact(description), 300),
            retry_after: rest.map(|rest| rest.min(LONGEST_REST)),
            moved_to: parameters.migrate_to_chat_id,
        }
    }
}

impl Api {
    pub(crate) fn new(base: &str, token: Secret) -> Result<Self, reqwest::Error> {
        Ok(Self {
            client: RwLock::new(net::client()?),
            base: base.trim_end_matches('/').to_owned(),
            token,
        })
    }

    /// Drops all connections: a black-holed one must not be used again.
    pub(crate) fn reconnect(&self) {
        match net::client() {
            Ok(client) => *self.client.write() = client,
            Err(error) => {
                tracing::error!(error = %error.without_url(), "cannot open a new connection to Telegram")
            }
        }
    }

    /// Makes a request and returns its `result`. It stays JSON: a field that teloxide does not know
    /// yet must not make a delivered message look lost. A form whose last byte was not even read from
    /// the disk fails as [`Error::Unreachable`].
    pub(crate) async fn call(&self, request: impl Into<Request>) -> Result<Value, Error> {
        let request: Request = request.into();
        let progress = Progress::of(&request.files);
        let url = format!(
            "{}/bot{}/{}",
            self.base,
            self.token.expose(),
            request.method
        );
        let post = self.client().post(url);
        let post = post.timeout(request.timeout.unwrap_or_else(|| time_for(progress.total)));
        let post = if request.files.is_empty() {
            post.json(&request.parameters)
        } else {
            let mut form = reqwest::multipart::Form::new();
            for (name, value) in request.parameters.as_object().into_iter().flatten() {
                let text = value.as_str().map(str::to_owned);
                form = form.text(name.clone(), text.unwrap_or_else(|| value.to_string()));
            }
            for (name, file) in request.files {
                form = form.part(name, file.into_part(&progress));
            }
            post.multipart(form)
        };
        let result = match post.send().await {
            Ok(response) => answer(response).await,
            Err(error) => Err(failed(error, true)),
        };
        match result {
            // Half a form is not a message.
            Err(Error::Lost(reason)) if !progress.finished() => Err(Error::Unreachable(reason)),
            result => result,
        }
    }

    /// Begins to fetch a file that the server names `path` and returns the answer, whose body is the
    /// file; any other answer is an error. The caller bounds the time.
    pub(crate) async fn file(&self, path: &[&str]) -> Result<Response, Error> {
        let mut url =
            Url::parse(&self.base).map_err(|error| Error::Unreachable(error.to_string()))?;
        let token = format!("bot{}", self.token.expose());
        url.path_segments_mut()
            .map_err(|()| Error::Unreachable("api_url is no address".to_owned()))?
            .pop_if_empty()
            .extend(["file", &token])
            .extend(path);
        let response = self.client().get(url).send().await;
        let response = response.map_err(|error| failed(error, false))?;
        let status = response.status().as_u16();
        if status == 200 {
            return Ok(response);
        }
        match answer(response).await {
            Ok(_) => Err(refused(status, "no description")),
            Err(error) => Err(error),
        }
    }

    fn client(&self) -> reqwest::Client {
        self.client.read().clone()
    }

    /// Returns 16 hex digits that are the same for everybody with this token at this server, and do
    /// not give the token away.
    pub(crate) fn fingerprint(&self) -> String {
        let text = format!("{}\n{}", self.base, self.token.expose());
        text::head(&text::sha256_hex(text.as_bytes()), 16).to_owned()
    }

    /// Returns the bot's id: the number its token begins with.
    pub(crate) fn bot_id(&self) -> i64 {
        let id = self.token.expose().split(':').next();
        id.and_then(|id| id.parse().ok()).unwrap_or(0)
    }
}

/// Reads a body of at most [`MAX_ANSWER`] bytes.
async fn read(response: &mut Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(reason)? {
        if body.len() + part.len() > MAX_ANSWER {
            return Err(format!("the answer is larger than {} MB", MAX_ANSWER >> 20));
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}

/// Returns what an answer says.
async fn answer(mut response: Response) -> Result<Value, Error> {
    let status = response.status().as_u16();
    // An error status is an answer, whatever became of its body.
    let unreadable = |reason: &str, known: &str| match status {
        200 => Error::Lost(reason.to_owned()),
        _ => refused(status, known),
    };
    let body = read(&mut response)
        .await
        .map_err(|reason| unreadable(&reason, &reason))?;
    let answer: Answer = repair_json::parse(&body)
        .map_err(|_| unreadable("the answer is no JSON", "no description"))?;
    if answer.ok {
        return Ok(answer.result);
    }
    Err(answer.into_refusal(status))
}

pub(crate) fn refused(status: u16, description: &str) -> Error {
    Error::Refused {
        status,
        description: description.to_owned(),
        retry_after: None,
        moved_to: None,
    }
}

/// Returns what a request that got no answer means; one that changes nothing is never lost.
fn failed(error: reqwest::Error, changes: bool) -> Error {
    if changes && !error.is_connect() && !error.is_builder() {
        Error::Lost(reason(error))
    } else {
        Error::Unreachable(reason(error))
    }
}

/// Returns the innermost cause, which says most.
pub(crate) fn reason(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    text::shorten(&redact(&cause.to_string()), 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_server_closes_a_chat_for_longer_than_an_hour() {
        for (asked, expected) in [(7, 7), (3600, 3600), (86_400_000, 3600), (u64::MAX, 3600)] {
            let answer = serde_json::json!({
                "ok": false, "error_code": 429, "parameters": {"retry_after": asked},
            });
            let answer: Answer = serde_json::from_value(answer).expect("an answer");
            let Error::Refused { retry_after, .. } = answer.into_refusal(429) else {
                panic!("not refused");
            };
            assert_eq!(retry_after, Some(Duration::from_secs(expected)), "{asked}");
        }
    }
}
