//! The other way in: Telegram brings messages to a public address, and a web server there passes them on
//! to us ([`serve`]). Here it is told to, and watched.

mod serve;

use std::time::Duration;

use serde_json::Value;
use teloxide::payloads::GetWebhookInfo;
use tokio::sync::mpsc;

use crate::channel::Batch;
use crate::channel::telegram::health::Line;
use crate::channel::telegram::send::api::Error;
use crate::channel::telegram::send::calls::SetWebhook;
use crate::channel::telegram::send::messages::Telegram;
use crate::config;
use crate::config::Listen;
use crate::net;
use crate::net::Listener;
use crate::secret::Secret;
use crate::{clock, text};

/// Of a socket: the web server before us is another user, of our group.
const MODE: u32 = 0o660;
const TIMEOUT: Duration = Duration::from_secs(30);
/// Between tries to listen.
const BIND: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Where messages are brought to.
#[derive(Debug, Clone)]
pub(crate) struct Hook {
    /// The public address.
    url: String,
    /// Its path: the only one that is answered.
    path: String,
    /// `None` when the HTTP API listens, and brings what comes at the path.
    listen: Option<Listen>,
}

/// What those who bring messages must know, and where these go.
#[derive(Clone)]
pub(crate) struct Told {
    secret: Secret,
    batches: mpsc::Sender<Batch>,
}

impl Hook {
    /// Returns the webhook of the settings, if there is one.
    pub(crate) fn new(telegram: &config::Telegram, http: &config::Http) -> Option<Self> {
        let path = telegram.webhook_path()?.to_owned();
        let listen = http.address()?;
        Some(Self {
            url: telegram.webhook.clone(),
            path,
            listen: (!http.enabled).then_some(listen),
        })
    }
}

impl Telegram {
    /// Is told messages until nobody takes them.
    pub(crate) async fn be_told(&self, hook: &Hook, batches: &mpsc::Sender<Batch>) {
        let Some(secret) = new_secret() else {
            return self
                .pulse
                .wrong("webhook: this machine gives no random numbers");
        };
        let told = Told {
            secret: secret.clone(),
            batches: batches.clone(),
        };
        *self.told.lock() = Some(told);
        let open = async {
            match &hook.listen {
                Some(listen) => self.listen(hook, listen, &secret, batches).await,
                None => self.keep_hooked(hook, &secret).await,
            }
        };
        tokio::select! {
            () = open => {}
            () = batches.closed() => {}
        }
    }

    async fn listen(
        &self,
        hook: &Hook,
        listen: &Listen,
        secret: &Secret,
        batches: &mpsc::Sender<Batch>,
    ) {
        let mut tries = 0;
        let listener = loop {
            match Listener::bind(listen, MODE).await {
                Ok(listener) => break listener,
                Err(error) => {
                    let state =
                        format!("webhook: cannot listen on {}: {error}", listen_text(listen));
                    if self.pulse.read().state != state {
                        tracing::error!("{state}");
                    }
                    self.pulse.wrong(&state);
                    tokio::time::sleep(net::backoff(tries, BIND.0, BIND.1)).await;
                    tries = tries.saturating_add(1);
                }
            }
        };
        tracing::info!(
            listen = listen_text(listen),
            path = hook.path,
            "listening for Telegram's messages"
        );
        tokio::join!(
            serve::serve(self, listener, &hook.path, secret, batches),
            self.keep_hooked(hook, secret)
        );
    }

    /// Tells Telegram where to bring messages, again when somebody told it otherwise, and looks now and
    /// then whether it can.
    async fn keep_hooked(&self, hook: &Hook, secret: &Secret) {
        let mut line = Line::default();
        let (mut set_at, pause) = (None, self.poll_timeout);
        loop {
            let Some(since) = set_at else {
                match self
                    .api
                    .call(&SetWebhook::new(&hook.url, secret.expose()), TIMEOUT)
                    .await
                {
                    Ok(_) => {
                        line.works(&self.pulse);
                        set_at = Some(clock::now_ms());
                    }
                    Err(error) => self.wait_after(&mut line, error).await,
                }
                continue;
            };
            tokio::time::sleep(pause).await;
            match self.api.call(&GetWebhookInfo::new(), TIMEOUT).await {
                Ok(info) if info.get("url").and_then(Value::as_str) != Some(&hook.url) => {
                    tracing::warn!("somebody changed the bot's webhook; it is set again");
                    set_at = None;
                    // Whoever it is shall not be fought.
                    tokio::time::sleep(pause).await;
                }
                Ok(info) => match undelivered(
                    &info,
                    since.max(self.pulse.read().last_update_at.unwrap_or(0)),
                ) {
                    None => line.works(&self.pulse),
                    Some(state) => {
                        if self.pulse.read().state != state {
                            tracing::warn!("{state}");
                        }
                        self.pulse.wrong(&state);
                    }
                },
                Err(error) => self.wait_after(&mut line, error).await,
            }
        }
    }

    async fn wait_after(&self, line: &mut Line, error: Error) {
        let trouble = error.into();
        let wait = line.fails(&trouble, self.poll_timeout, &self.pulse);
        if trouble.needs_new_connection() {
            self.api.reconnect();
        }
        tokio::time::sleep(wait).await;
    }
}

/// Returns what hinders Telegram from bringing what waits: an error that came after `since`, the last time
/// that we know of something better.
fn undelivered(info: &Value, since: i64) -> Option<String> {
    let at = info.get("last_error_date").and_then(Value::as_i64)?;
    let waiting = info
        .get("pending_update_count")
        .and_then(Value::as_i64)
        .unwrap_or(0);
    // It counts whole seconds.
    if waiting == 0 || at.saturating_mul(1000).saturating_add(999) < since {
        return None;
    }
    let words = info
        .get("last_error_message")
        .and_then(Value::as_str)
        .unwrap_or("no reason named");
    Some(format!(
        "webhook: Telegram cannot bring what waits: {}",
        text::shorten(words, 200)
    ))
}

fn listen_text(listen: &Listen) -> String {
    match listen {
        Listen::Tcp(address) => address.clone(),
        Listen::Unix(path) => path.display().to_string(),
    }
}

/// Returns 32 random bytes in hex.
fn new_secret() -> Option<Secret> {
    let random = ring::rand::generate::<[u8; 32]>(&ring::rand::SystemRandom::new()).ok()?;
    Some(Secret::new(
        random
            .expose()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>(),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_error_counts_while_something_waits_and_nothing_better_came_since() {
        let info = |waiting: i64| json!({"url": "u", "pending_update_count": waiting, "last_error_date": 1000, "last_error_message": "Connection refused"});
        let words =
            Some("webhook: Telegram cannot bring what waits: Connection refused".to_owned());
        assert_eq!(undelivered(&info(2), 900_000), words);
        assert_eq!(undelivered(&info(2), 1_000_900), words);
        assert_eq!(undelivered(&info(2), 1_001_000), None);
        assert_eq!(undelivered(&info(0), 900_000), None);
        assert_eq!(
            undelivered(&json!({"url": "u", "pending_update_count": 3}), 0),
            None
        );
    }

    #[test]
    fn a_secret_is_new_each_time_and_made_of_what_telegram_takes() {
        let (one, two) = (new_secret().expect("random"), new_secret().expect("random"));
        assert!(
            one != two
                && one.expose().len() == 64
                && one.expose().bytes().all(|byte| byte.is_ascii_hexdigit())
        );
    }
}
