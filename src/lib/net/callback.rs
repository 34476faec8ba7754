//! Sends results to another program, at an address that the owner wrote. Nothing waits for it, and nothing is kept across a
//! restart; the API has every result.

use std::time::Duration;

use reqwest::StatusCode;
use tokio::sync::mpsc;

use super::client;
use crate::secret::Secret;

/// What may wait to be told; more is dropped.
const MAX_WAITING: usize = 256;
/// How long the program may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The pauses before each try.
const PAUSES: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_secs(1),
    Duration::from_secs(10),
];

/// A program that is told, in order. Dropping it ends it once what waits is told.
#[derive(Debug, Clone)]
pub struct Callback {
    waiting: mpsc::Sender<String>,
}

struct Teller {
    client: reqwest::Client,
    url: String,
    token: Option<Secret>,
}

impl Callback {
    /// Returns one for the program at `url`, which is shown `token`.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn start(url: String, token: Option<Secret>) -> Result<Self, reqwest::Error> {
        let teller = Teller {
            client: client()?,
            url,
            token,
        };
        let (waiting, mut to_tell) = mpsc::channel::<String>(MAX_WAITING);
        tokio::spawn(async move {
            while let Some(body) = to_tell.recv().await {
                teller.tell(&body).await;
            }
        });
        Ok(Self { waiting })
    }

    /// Tells this JSON document later.
    pub fn tell(&self, document: String) {
        if self.waiting.try_send(document).is_err() {
            tracing::warn!("a callback was dropped: {MAX_WAITING} wait already");
        }
    }
}

impl Teller {
    /// Tries a few times; that it failed is logged without the address, which may hold a secret.
    async fn tell(&self, body: &str) {
        let mut why = String::new();
        for pause in PAUSES {
            tokio::time::sleep(pause).await;
            match self.post(body).await {
                Ok(status) if status.is_success() => return,
                Ok(status) => {
                    why = format!("it answered {status}");
                    if !is_passing(status) {
                        break;
                    }
                }
                Err(error) => why = error.without_url().to_string(),
            }
        }
        let about: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
        let id = about["id"].as_str().unwrap_or("?");
        tracing::warn!(id, why, "a callback could not be delivered");
    }

    async fn post(&self, body: &str) -> Result<StatusCode, reqwest::Error> {
        let request = self
            .client
            .post(&self.url)
            .header("Content-Type", "application/json")
            .timeout(TIMEOUT)
            .body(body.to_owned());
        let request = match &self.token {
            Some(token) => request.bearer_auth(token.expose()),
            None => request,
        };
        Ok(request.send().await?.status())
    }
}

/// Returns true for an answer that may be another one later.
fn is_passing(status: StatusCode) -> bool {
    status.is_server_error()
        || [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(&status)
}
