//! The webhook: Telegram delivers updates to a public address, and a web server there forwards them to us ([`requests`]).
//! This file registers and monitors it.

mod requests;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use teloxide::payloads::GetWebhookInfo;
use tokio::sync::mpsc;

use super::poll::ALLOWED;
use crate::channel::Batch;
use crate::channel::telegram::Telegram;
use crate::channel::telegram::health::{Failures, PollError};
use crate::channel::telegram::send::api::{Error, Request};
use crate::config::{self, Listen};
use crate::net::{self, Listener};
use crate::secret::Secret;
use crate::{clock, text};

/// Of a socket: the web server before us is another user, of our group.
const MODE: u32 = 0o660;
/// Between tries to listen.
const BIND_BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Where updates are brought to.
#[derive(Debug, Clone)]
pub(crate) struct Webhook {
    /// The public address.
    url: String,
    /// Its path: the only one that is answered.
    path: String,
    /// `None` when the HTTP API listens, and passes on what comes to the path.
    listen: Option<Listen>,
}

/// What those who bring updates must know, and where these go.
#[derive(Clone)]
pub(crate) struct Sink {
    secret: Secret,
    batches: mpsc::Sender<Batch>,
}

impl Webhook {
    /// Returns the webhook of the settings, if there is one.
    pub(crate) fn new(telegram: &config::Telegram, http: &config::Http) -> Option<Self> {
        let listen = http.address()?;
        Some(Self {
            url: telegram.webhook.clone(),
            path: telegram.webhook_path()?.to_owned(),
            listen: (!http.enabled).then_some(listen),
        })
    }
}

impl Telegram {
    /// Receives updates until nobody takes them.
    pub(crate) async fn receive_webhook(
        self: &Arc<Self>,
        webhook: &Webhook,
        batches: &mpsc::Sender<Batch>,
    ) {
        let random = ring::rand::generate::<[u8; 32]>(&ring::rand::SystemRandom::new());
        let Ok(random) = random else {
            self.health
                .set("webhook: this machine gives no random numbers");
            return;
        };
        let secret = Secret::new(text::hex(&random.expose()));
        *self.webhook_sink.lock() = Some(Sink {
            secret: secret.clone(),
            batches: batches.clone(),
        });
        let receive = async {
            match &webhook.listen {
                Some(listen) => {
                    let listener = self.bind(listen).await;
                    let address = listener.address();
                    tracing::info!(address, path = webhook.path, "listening for the webhook");
                    tokio::join!(
                        requests::serve(self, &listener),
                        self.keep_registered(webhook, &secret)
                    );
                }
                None => self.keep_registered(webhook, &secret).await,
            }
        };
        tokio::select! {
            () = receive => {}
            () = batches.closed() => {}
        }
    }

    async fn bind(&self, listen: &Listen) -> Listener {
        let mut tries = 0;
        loop {
            let error = match Listener::bind(listen, MODE).await {
                Ok(listener) => return listener,
                Err(error) => error,
            };
            let address = match listen {
                Listen::Tcp(address) => address.clone(),
                Listen::Unix(path) => path.display().to_string(),
            };
            let state = format!("webhook: cannot listen on {address}: {error}");
            if self.health.set(&state) {
                tracing::error!("{state}");
            }
            tokio::time::sleep(net::backoff(tries, BIND_BACKOFF.0, BIND_BACKOFF.1)).await;
            tries = tries.saturating_add(1);
        }
    }

    /// Registers the webhook, again when somebody changed it, and looks from time to time whether Telegram
    /// can bring what waits.
    async fn keep_registered(&self, webhook: &Webhook, secret: &Secret) {
        let mut failures = Failures::default();
        let mut registered = None;
        loop {
            let Some(since) = registered else {
                // One connection: updates that are brought side by side have no order.
                let parameters = json!({
                    "url": webhook.url, "secret_token": secret.expose(),
                    "allowed_updates": ALLOWED, "max_connections": 1,
                });
                match self.api.call(Request::new("setWebhook", parameters)).await {
                    Ok(_) => {
                        failures.end(&self.health);
                        registered = Some(clock::now_ms());
                    }
                    Err(error) => self.wait_after(&mut failures, error).await,
                }
                continue;
            };
            tokio::time::sleep(self.poll_timeout).await;
            let info = match self.api.call(GetWebhookInfo::new()).await {
                Ok(info) => info,
                Err(error) => {
                    self.wait_after(&mut failures, error).await;
                    continue;
                }
            };
            if info.get("url").and_then(Value::as_str) != Some(&webhook.url) {
                tracing::warn!("another program changed the bot's webhook; it is set again");
                registered = None;
                // Do not fight with the other program.
                tokio::time::sleep(self.poll_timeout).await;
                continue;
            }
            let received = self.health.read().last_update_at.unwrap_or(0);
            match undelivered(&info, since.max(received)) {
                None => failures.end(&self.health),
                Some(state) if self.health.set(&state) => tracing::warn!("{state}"),
                Some(_) => {}
            }
        }
    }

    async fn wait_after(&self, failures: &mut Failures, error: Error) {
        let error = PollError::from(error);
        let wait = failures.add(&error, self.poll_timeout, &self.health);
        if error.needs_new_connection() {
            self.api.reconnect();
        }
        tokio::time::sleep(wait).await;
    }
}

/// Returns what hinders Telegram from bringing what waits: an error that came after `since`, the last time
/// that we know of something better.
fn undelivered(info: &Value, since: i64) -> Option<String> {
    let number = |name| info.get(name).and_then(Value::as_i64);
    // It counts whole seconds.
    let failed = number("last_error_date")?
        .saturating_mul(1000)
        .saturating_add(999);
    if number("pending_update_count").unwrap_or(0) == 0 || failed < since {
        return None;
    }
    let message = info.get("last_error_message").and_then(Value::as_str);
    Some(format!(
        "webhook: Telegram cannot deliver waiting messages: {}",
        text::shorten(message.unwrap_or("no reason named"), 200)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_counts_while_something_waits_and_nothing_better_came_since() {
        let info = |waiting: i64| {
            json!({
                "url": "u", "pending_update_count": waiting,
                "last_error_date": 1000, "last_error_message": "Connection refused",
            })
        };
        let state = "webhook: Telegram cannot deliver waiting messages: Connection refused";
        for (info, since, expected) in [
            (info(2), 900_000, Some(state)),
            (info(2), 1_000_900, Some(state)),
            (info(2), 1_001_000, None),
            (info(0), 900_000, None),
            (json!({"url": "u", "pending_update_count": 3}), 0, None),
        ] {
            assert_eq!(undelivered(&info, since).as_deref(), expected, "{since}");
        }
    }
}
