//! One call of the Bot API, and what is known when it fails.

use std::sync::RwLock;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use teloxide::requests::Payload;

use crate::secret::{Secret, redact};
use crate::{net, text};

/// The Bot API server with our token.
pub(super) struct Api {
    client: RwLock<reqwest::Client>,
    base: String,
    token: Secret,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    /// The request was never written.
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

#[derive(Deserialize)]
struct Parameters {
    retry_after: Option<u64>,
}

impl Api {
    pub(super) fn new(base: &str, token: Secret) -> Result<Self, reqwest::Error> {
        Ok(Self { client: RwLock::new(net::client()?), base: base.trim_end_matches('/').to_owned(), token })
    }

    /// Forgets all connections: a black-holed one must not be used again.
    pub(super) fn reconnect(&self) {
        match net::client() {
            Ok(client) => *self.client.write().unwrap_or_else(std::sync::PoisonError::into_inner) = client,
            Err(error) => tracing::error!(error = %error.without_url(), "no new connection to Telegram"),
        }
    }

    /// Makes one call and returns its `result`. It stays JSON: a field that teloxide does not
    /// know yet must not make a delivered message look lost.
    pub(super) async fn call<P: Payload + Serialize>(&self, payload: &P, timeout: Duration) -> Result<Value, Error> {
        let url = format!("{}/bot{}/{}", self.base, self.token.expose(), P::NAME);
        let client = self.client.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let sent = client.post(url).timeout(timeout).json(payload).send().await;
        let response = sent.map_err(|error| {
            let connect = error.is_connect() || error.is_builder();
            let reason = reason(&error.without_url());
            if connect { Error::Unreachable(reason) } else { Error::Lost(reason) }
        })?;
        let status = response.status().as_u16();
        let body = response.bytes().await.map_err(|error| {
            let reason = reason(&error.without_url());
            // An error status is an answer, whatever became of its body.
            if status == 200 { Error::Lost(reason) } else { refused(status, &reason, None) }
        })?;
        match serde_json::from_slice::<Answer>(&body) {
            Ok(answer) if answer.ok => Ok(answer.result),
            Ok(answer) => Err(refused(
                answer.error_code.unwrap_or(status),
                &redact(&answer.description.unwrap_or_default()),
                answer.parameters.and_then(|parameters| parameters.retry_after).map(Duration::from_secs),
            )),
            Err(_) if status == 200 => Err(Error::Lost("the answer is no JSON".to_owned())),
            Err(_) => Err(refused(status, "no description", None)),
        }
    }

    /// Returns the bot's id: the number its token begins with.
    pub(super) fn bot_id(&self) -> i64 {
        self.token.expose().split(':').next().and_then(|id| id.parse().ok()).unwrap_or(0)
    }
}

fn refused(status: u16, description: &str, retry_after: Option<Duration>) -> Error {
    Error::Refused { status, description: text::shorten(description, 300), retry_after }
}

/// The innermost cause says most.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    text::shorten(&redact(&cause.to_string()), 200)
}
