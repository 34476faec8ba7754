//! Messages out.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use teloxide::payloads::{GetMe, SendChatAction, SendChatActionSetters, SendMessage, SendMessageSetters, SetMyCommands};
use teloxide::types::{ChatAction, ChatId, LinkPreviewOptions, MessageId, ParseMode, ReplyParameters, ThreadId};
use tokio::sync::Notify;

use super::api::{Api, Error};
use super::{commands, format};
use crate::channel::{Channel, Health, Outgoing, Pulse, Rendered, SendError};
use crate::config;
use crate::message::ChatRef;
use crate::provider::BoxFuture;
use crate::secret::Secret;

/// Telegram's limit is 4096 UTF-16 units; a part leaves room for the mark of a second try.
const LIMIT: usize = 4096 - MARK.len();
/// Stands before a message that may have arrived already.
const MARK: &str = "(resent)\n";
/// A send that takes longer is given up as unknown.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The Telegram channel.
pub struct Telegram {
    pub(super) api: Api,
    pub(super) pulse: Pulse,
    pub(super) username: Mutex<Option<String>>,
    pub(super) poll_timeout: Duration,
}

impl Telegram {
    /// Returns the channel for the bot of `token`; `changed` is notified when its health changes.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new(config: &config::Telegram, token: Secret, changed: Arc<Notify>) -> Result<Self, reqwest::Error> {
        Ok(Self {
            api: Api::new(&config.api_url, token)?,
            pulse: Pulse::new(changed),
            username: Mutex::default(),
            poll_timeout: Duration::from_secs(config.poll_timeout_secs),
        })
    }

    /// Returns the bot's numeric id.
    pub fn bot_id(&self) -> i64 {
        self.api.bot_id()
    }

    /// Learns the bot's name and shows its commands. Nothing waits for it.
    pub async fn introduce(&self) {
        match self.api.call(&GetMe::new(), TIMEOUT).await {
            Ok(me) => {
                let name = me.get("username").and_then(Value::as_str).map(str::to_owned);
                *self.username.lock().unwrap_or_else(PoisonError::into_inner) = name;
            }
            Err(error) => tracing::warn!(%error, "the bot's name is not known yet"),
        }
        if let Err(error) = self.api.call(&SetMyCommands::new(commands::menu()), TIMEOUT).await {
            tracing::warn!(%error, "the command menu could not be set");
        }
    }

    async fn send_message(&self, message: Outgoing<'_>) -> Result<String, SendError> {
        let chat = chat_id(message.chat)?;
        let words = message.markup.unwrap_or(message.plain);
        let words = if message.resent { format!("{MARK}{words}") } else { words.to_owned() };
        let mut payload = SendMessage::new(chat, words);
        if message.markup.is_some() {
            payload = payload.parse_mode(ParseMode::Html);
        }
        // A link in an answer is fetched by nobody: a preview could carry words out of the house.
        payload = payload.link_preview_options(LinkPreviewOptions {
            is_disabled: true,
            url: None,
            prefer_small_media: false,
            prefer_large_media: false,
            show_above_text: false,
        });
        if let Some(topic) = topic(message.chat) {
            payload = payload.message_thread_id(topic);
        }
        if let Some(id) = message.reply_to.and_then(|id| id.parse().ok()) {
            payload = payload.reply_parameters(ReplyParameters::new(MessageId(id)).allow_sending_without_reply());
        }
        let result = self.api.call(&payload, TIMEOUT).await.map_err(|error| classify(&error, message.markup.is_some()))?;
        self.pulse.ok();
        match result.get("message_id").and_then(Value::as_i64) {
            Some(id) => Ok(id.to_string()),
            None => Err(SendError::Unknown("the answer names no message id".to_owned())),
        }
    }

    async fn show_typing(&self, chat: &ChatRef) -> Result<(), SendError> {
        let mut payload = SendChatAction::new(chat_id(chat)?, ChatAction::Typing);
        if let Some(topic) = topic(chat) {
            payload = payload.message_thread_id(topic);
        }
        self.api.call(&payload, Duration::from_secs(10)).await.map(drop).map_err(|error| classify(&error, false))
    }
}

impl Channel for Telegram {
    fn name(&self) -> &'static str {
        "telegram"
    }

    fn render(&self, markdown: &str) -> Vec<Rendered> {
        format::render(markdown, LIMIT).into_iter().map(|part| Rendered { markup: Some(part.html), plain: part.plain }).collect()
    }

    fn plain(&self, text: &str) -> Vec<Rendered> {
        format::plain(text, LIMIT).into_iter().map(|plain| Rendered { markup: None, plain }).collect()
    }

    fn send<'a>(&'a self, message: Outgoing<'a>) -> BoxFuture<'a, Result<String, SendError>> {
        Box::pin(self.send_message(message))
    }

    fn typing<'a>(&'a self, chat: &'a ChatRef) -> BoxFuture<'a, Result<(), SendError>> {
        Box::pin(self.show_typing(chat))
    }

    fn health(&self) -> Health {
        self.pulse.read()
    }
}

fn chat_id(chat: &ChatRef) -> Result<ChatId, SendError> {
    chat.chat
        .parse()
        .map(ChatId)
        .map_err(|_| SendError::Never { reason: format!("{} is no chat id", chat.chat), chat_is_there: false })
}

fn topic(chat: &ChatRef) -> Option<ThreadId> {
    // The General topic is addressed without its id.
    chat.topic.as_deref().filter(|topic| *topic != "1")?.parse().ok().map(|id| ThreadId(MessageId(id)))
}

/// What a failed send means for the message. Any error status is a plain retry, but for those
/// that will never go away.
fn classify(error: &Error, marked_up: bool) -> SendError {
    let reason = error.to_string();
    match *error {
        Error::Unreachable(_) => SendError::NotSent { reason, retry_after: None },
        Error::Lost(_) => SendError::Unknown(reason),
        Error::Refused { status: 400, .. } if marked_up => SendError::Markup(reason),
        Error::Refused { status: 400, .. } => SendError::Never { reason, chat_is_there: true },
        Error::Refused { status: 403, .. } => SendError::Never { reason, chat_is_there: false },
        // The token or the address is wrong: nothing is lost, a person must act.
        Error::Refused { status: 401 | 404, .. } => SendError::NotSent { reason, retry_after: Some(Duration::from_secs(60)) },
        Error::Refused { retry_after, .. } => SendError::NotSent { reason, retry_after },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_failure_means_for_the_message() {
        let refused = |status| Error::Refused { status, description: String::new(), retry_after: None };
        assert!(matches!(classify(&Error::Lost("x".into()), true), SendError::Unknown(_)));
        assert!(matches!(classify(&Error::Unreachable("x".into()), true), SendError::NotSent { .. }));
        assert!(matches!(classify(&refused(400), true), SendError::Markup(_)));
        assert!(matches!(classify(&refused(400), false), SendError::Never { chat_is_there: true, .. }));
        assert!(matches!(classify(&refused(403), true), SendError::Never { chat_is_there: false, .. }));
        assert!(matches!(classify(&refused(404), true), SendError::NotSent { .. }));
        assert!(matches!(classify(&refused(429), true), SendError::NotSent { .. }));
        assert!(matches!(classify(&refused(502), true), SendError::NotSent { .. }));
    }
}
