//! Telegram through the Bot API: long polling or a webhook in, HTML messages out.
//!
//! Types and methods are teloxide's; the transport is ours (`send/api.rs`), because what became of a
//! request that failed (never written, refused, or nobody knows) decides whether a message may be
//! sent again, and teloxide's own sending hides it (and sleeps 10 s inside a call on a 5xx).

mod health;
mod receive;
mod send;
mod single_poller;
#[cfg(any(test, fuzzing))]
pub mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use teloxide::payloads::{GetMe, SetMyCommands};
use teloxide::types::{BotCommandScope, ChatId};
use tokio::sync::Notify;

use crate::config;
use crate::message::Sticker;
use crate::net;
use crate::secret::Secret;
use health::SharedHealth;
use receive::slash_commands;
use receive::updates::Identity;
use receive::webhook::{Sink, Webhook};
use send::api::{Api, Error};
use send::classify_error::says;
use send::pace::Pace;
pub(crate) use send::{split_markdown, split_plain};

/// The server whose limits we keep by ourselves.
const PACED: &str = "api.telegram.org";
/// Between tries to learn the bot's name.
const NAME_BACKOFF: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(600));

/// The Telegram channel.
pub struct Telegram {
    api: Api,
    health: SharedHealth,
    username: Mutex<Option<String>>,
    aliases: Vec<String>,
    poll_timeout: Duration,
    webhook: Option<Webhook>,
    /// Where updates of the webhook go; `None` while it is not open.
    webhook_sink: Mutex<Option<Sink>>,
    pace: Pace,
    /// The new ids of groups, by the old ones.
    moved_groups: Mutex<HashMap<i64, i64>>,
    /// The stickers of sets that were asked for, or why there are none.
    stickers: Mutex<HashMap<String, Result<Vec<Sticker>, String>>>,
}

impl Telegram {
    /// Returns the channel for the bot of `token`, which listens where `http` says when there is a
    /// webhook; `changed` is notified when its health changes.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new(
        config: &config::Telegram,
        http: &config::Http,
        token: Secret,
        changed: Arc<Notify>,
    ) -> Result<Self, reqwest::Error> {
        let webhook = Webhook::new(config, http);
        let mode = webhook.as_ref().map_or("polling", |_| "webhook");
        Ok(Self {
            api: Api::new(&config.api_url, token)?,
            health: SharedHealth::new(mode, changed),
            username: Mutex::default(),
            aliases: config.aliases.clone(),
            poll_timeout: Duration::from_secs(config.poll_timeout_secs),
            webhook,
            webhook_sink: Mutex::default(),
            pace: Pace::new(is_paced(config)),
            moved_groups: Mutex::default(),
            stickers: Mutex::default(),
        })
    }

    /// Returns the bot's numeric id.
    pub fn bot_id(&self) -> i64 {
        self.api.bot_id()
    }

    fn identity(&self) -> Identity {
        Identity {
            id: self.bot_id(),
            username: self.username.lock().clone(),
            aliases: self.aliases.clone(),
        }
    }

    /// Learns the bot's name, when it is not known yet.
    async fn learn_name(&self) -> Result<(), Error> {
        if self.username.lock().is_some() {
            return Ok(());
        }
        let me = self.call(GetMe::new()).await?;
        let name = me.get("username").and_then(Value::as_str);
        *self.username.lock() = name.map(str::to_owned);
        Ok(())
    }

    /// Returns the bot's `@username`, which proves that the token is good; `None` when nobody could say.
    ///
    /// # Errors
    /// Telegram's words when it refuses the token.
    pub async fn verify(&self) -> Result<Option<String>, String> {
        match self.learn_name().await {
            Ok(()) => Ok(self.username.lock().clone()),
            Err(Error::Refused {
                status: 401 | 404,
                description,
                ..
            }) => Err(description),
            Err(error) => {
                tracing::debug!(%error, "the token could not be verified");
                Ok(None)
            }
        }
    }

    /// Introduces the bot until its name is known: groups call it by that.
    pub async fn introduce_until_known(&self, owners: &[i64]) {
        let mut tries = 0;
        loop {
            // Why nothing can be asked is shown by the poller.
            if tries == 0 || self.health.read().state == "ok" {
                self.introduce(owners).await;
            }
            if self.username.lock().is_some() {
                return;
            }
            tokio::time::sleep(net::backoff(tries, NAME_BACKOFF.0, NAME_BACKOFF.1)).await;
            tries = tries.saturating_add(1);
        }
    }

    /// Learns the bot's name and sets the menu of its commands, for each of the `owners` one of their
    /// own. Nothing waits for it.
    pub async fn introduce(&self, owners: &[i64]) {
        if let Err(error) = self.learn_name().await {
            tracing::warn!(%error, "cannot read the bot's name yet");
        }
        for owner in std::iter::once(None).chain(owners.iter().map(Some)) {
            let mut menu = SetMyCommands::new(slash_commands::menu(owner.is_some()));
            menu.scope = owner.map(|owner| BotCommandScope::Chat {
                chat_id: ChatId(*owner).into(),
            });
            match self.call(menu).await {
                Ok(_) => {}
                Err(error) if owner.is_some() && says(&error, "chat not found") => {
                    tracing::debug!(owner, "an owner who has not written yet has no own menu");
                }
                Err(error) => tracing::warn!(%error, owner, "the command menu could not be set"),
            }
        }
    }
}

fn is_paced(config: &config::Telegram) -> bool {
    let official =
        || reqwest::Url::parse(&config.api_url).is_ok_and(|url| url.host_str() == Some(PACED));
    config.pace.unwrap_or_else(official)
}
