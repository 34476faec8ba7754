//! One call of the Bot API, and what is known when it fails.

use parking_lot::RwLock;
use std::time::Duration;

use reqwest::{RequestBuilder, Response, Url};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use teloxide::requests::Payload;

use super::upload::{Progress, Upload};
use crate::channel::telegram::receive::repair_json::mended;

use crate::secret::{Secret, redact};
use crate::{net, text};

/// No answer is longer: a hundred updates with the longest texts have a tenth of it.
const MAX_ANSWER: usize = 32 << 20;

/// The Bot API server with our token.
pub(crate) struct Api {
    client: RwLock<reqwest::Client>,
    base: String,
    token: Secret,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// The request was never written, or surely not to its end.
    #[error("Telegram cannot be reached: {0}")]
    Unreachable(String),
    /// Telegram answered with an error.
    #[error("Telegram answered {status}: {description}")]
    Refused {
        /// Its error code.
        status: u16,
        /// Its words.
        description: String,
        /// When to come back.
        retry_after: Option<Duration>,
        /// The new id of the group that was asked for.
        moved_to: Option<i64>,
    },
    /// The request was written and no answer came.
    #[error("no answer from Telegram: {0}")]
    Lost(String),
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

impl Api {
    pub(crate) fn new(base: &str, token: Secret) -> Result<Self, reqwest::Error> {
        Ok(Self {
            client: RwLock::new(net::client()?),
            base: base.trim_end_matches('/').to_owned(),
            token,
        })
    }

    /// Forgets all connections: a black-holed one must not be used again.
    pub(crate) fn reconnect(&self) {
        match net::client() {
            Ok(client) => *self.client.write() = client,
            Err(error) => {
                tracing::error!(error = %error.without_url(), "no new connection to Telegram")
            }
        }
    }

    /// Makes one call and returns its `result`. It stays JSON: a field that teloxide does not
    /// know yet must not make a delivered message look lost.
    pub(crate) async fn call<P: Payload + Serialize>(
        &self,
        payload: &P,
        timeout: Duration,
    ) -> Result<Value, Error> {
        self.exchange(P::NAME, timeout, |post| post.json(payload))
            .await
    }

    /// Makes one call with files, read from the disk while they are sent, and returns its
    /// `result`. It fails as [`Error::Unreachable`] when the last byte was not even read.
    pub(crate) async fn upload(
        &self,
        method: &str,
        fields: Vec<(&'static str, String)>,
        files: Vec<(String, Upload)>,
        timeout: Duration,
    ) -> Result<Value, Error> {
        let progress = Progress::of(&files);
        let mut form = reqwest::multipart::Form::new();
        for (name, value) in fields {
            form = form.text(name, value);
        }
        for (name, file) in files {
            form = form.part(name, file.into_part(&progress));
        }
        let result = self
            .exchange(method, timeout, |post| post.multipart(form))
            .await;
        match result {
            // Half a form is no message.
            Err(Error::Lost(reason)) if !progress.finished() => Err(Error::Unreachable(reason)),
            result => result,
        }
    }

    async fn exchange(
        &self,
        method: &str,
        timeout: Duration,
        fill: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Value, Error> {
        let url = format!("{}/bot{}/{method}", self.base, self.token.expose());
        let response = fill(self.client().post(url))
            .timeout(timeout)
            .send()
            .await
            .map_err(|error| failed(error, true))?;
        answer(response).await
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
        let response = self
            .client()
            .get(url)
            .send()
            .await
            .map_err(|error| failed(error, false))?;
        match response.status().as_u16() {
            200 => Ok(response),
            status => Err(answer(response)
                .await
                .err()
                .unwrap_or_else(|| refused(status, "no description"))),
        }
    }

    fn client(&self) -> reqwest::Client {
        self.client.read().clone()
    }

    /// Returns what the token at this server is known by without giving it away: 16 hex digits.
    pub(crate) fn fingerprint(&self) -> String {
        let text = format!("{}\n{}", self.base, self.token.expose());
        let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
        digest
            .as_ref()
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// Returns the bot's id: the number its token begins with.
    pub(crate) fn bot_id(&self) -> i64 {
        self.token
            .expose()
            .split(':')
            .next()
            .and_then(|id| id.parse().ok())
            .unwrap_or(0)
    }
}

/// Reads the answer, as far as it may be one.
async fn read(response: &mut Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(part) = response
        .chunk()
        .await
        .map_err(|error| reason(&error.without_url()))?
    {
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
    let body = read(&mut response).await.map_err(|reason| {
        // An error status is an answer, whatever became of its body.
        if status == 200 {
            Error::Lost(reason)
        } else {
            refused(status, &reason)
        }
    })?;
    match serde_json::from_slice::<Answer>(&body).or_else(|_| serde_json::from_str(&mended(&body)))
    {
        Ok(answer) if answer.ok => Ok(answer.result),
        Ok(answer) => {
            let parameters = answer.parameters.unwrap_or_default();
            Err(Error::Refused {
                status: answer.error_code.unwrap_or(status),
                description: text::shorten(
                    &redact(answer.description.as_deref().unwrap_or("no description")),
                    300,
                ),
                retry_after: parameters.retry_after.map(Duration::from_secs),
                moved_to: parameters.migrate_to_chat_id,
            })
        }
        Err(_) if status == 200 => Err(Error::Lost("the answer is no JSON".to_owned())),
        Err(_) => Err(refused(status, "no description")),
    }
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
    let written = changes && !error.is_connect() && !error.is_builder();
    let reason = reason(&error.without_url());
    if written {
        Error::Lost(reason)
    } else {
        Error::Unreachable(reason)
    }
}

/// The innermost cause says most.
pub(crate) fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    text::shorten(&redact(&cause.to_string()), 200)
}
