//! Messages out, and who we are.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use teloxide::payloads::{
    GetMe, SendMessage, SendMessageSetters, SetMessageReaction, SetMessageReactionSetters,
    SetMyCommands, SetMyCommandsSetters,
};
use teloxide::types::{
    BotCommandScope, ChatId, InlineKeyboardMarkup, LinkPreviewOptions, ParseMode, ReactionType,
};
use tokio::sync::Notify;

use super::api::{Api, Error, refused};
use super::classify_error::{classify, classify_repeatable, is_about_buttons, says};
use super::pacing::Pace;
use super::transport::To;
use super::{buttons, format, media};
use crate::channel::telegram::receive::slash_commands;
use crate::channel::telegram::receive::update::Identity;
use crate::channel::telegram::receive::webhook::{Hook, Told};
use crate::channel::{Channel, FetchError, Health, Outgoing, Pulse, Rendered, SendError};
use crate::config;
use crate::message::{ChatRef, Media, OutFile};
use crate::provider::BoxFuture;
use crate::secret::Secret;

/// Telegram's limit is 4096 UTF-16 units; a part leaves room for the mark of a second try.
const LIMIT: usize = 4096 - MARK.len();
/// The same for words below a file.
const CAPTION: usize = media::CAPTION - MARK.len();
/// Stands before a message that may have arrived already.
pub(crate) const MARK: &str = "(resent)\n";
/// A send that takes longer is given up as unknown.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The server whose limits we keep by ourselves.
const PACED: &str = "api.telegram.org";

/// The Telegram channel.
pub struct Telegram {
    pub(crate) api: Api,
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) username: Mutex<Option<String>>,
    pub(crate) poll_timeout: Duration,
    pub(crate) hook: Option<Hook>,
    /// Set while messages are brought to us.
    pub(crate) told: Mutex<Option<Told>>,
    aliases: Vec<String>,
    pub(crate) pace: Pace,
    /// The new ids of groups, by the old ones.
    pub(crate) moved: Mutex<HashMap<i64, i64>>,
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
        let official =
            reqwest::Url::parse(&config.api_url).is_ok_and(|url| url.host_str() == Some(PACED));
        let hook = Hook::new(config, http);
        Ok(Self {
            api: Api::new(&config.api_url, token)?,
            pulse: Arc::new(Pulse::new(
                if hook.is_some() { "webhook" } else { "polling" },
                changed,
            )),
            hook,
            told: Mutex::default(),
            username: Mutex::default(),
            poll_timeout: Duration::from_secs(config.poll_timeout_secs),
            aliases: config.aliases.clone(),
            pace: Pace::new(config.pace.unwrap_or(official)),
            moved: Mutex::default(),
        })
    }

    /// Returns the bot's numeric id.
    pub fn bot_id(&self) -> i64 {
        self.api.bot_id()
    }

    /// Returns by what the bot is known now.
    pub(crate) fn identity(&self) -> Identity {
        let username = self.username.lock().clone();
        Identity {
            bot: self.bot_id(),
            username,
            aliases: self.aliases.clone(),
        }
    }

    /// Learns the bot's name, when it is not known yet.
    ///
    /// # Errors
    /// When Telegram does not say.
    pub(crate) async fn learn_name(&self) -> Result<(), Error> {
        if self.identity().username.is_some() {
            return Ok(());
        }
        let me = self.in_turn(&GetMe::new(), TIMEOUT).await?;
        let name = me
            .get("username")
            .and_then(Value::as_str)
            .map(str::to_owned);
        *self.username.lock() = name;
        Ok(())
    }

    /// Learns the bot's name and shows its commands, to the `owners` those that are theirs. Nothing
    /// waits for it.
    pub async fn introduce(&self, owners: &[i64]) {
        if let Err(error) = self.learn_name().await {
            tracing::warn!(%error, "the bot's name is not known yet");
        }
        for (owner, menu) in menus(owners) {
            match self.in_turn(&menu, TIMEOUT).await {
                Ok(_) => {}
                Err(error) if owner.is_some() && says(&error, "chat not found") => {
                    tracing::debug!(
                        owner,
                        "an owner who has not written yet sees the menu of everybody"
                    );
                }
                Err(error) => tracing::warn!(%error, owner, "the command menu could not be set"),
            }
        }
    }

    async fn send_message(&self, message: Outgoing<'_>) -> Result<String, SendError> {
        match message.reaction {
            Some(emoji) => self.react(&message, emoji).await,
            None if message.files.is_empty() => self.send_words(message).await,
            None => self.send_files(message).await,
        }
    }

    async fn send_words(&self, message: Outgoing<'_>) -> Result<String, SendError> {
        let marked_up = message.markup.is_some();
        let words = message.markup.unwrap_or(message.plain);
        let words = &if message.resent {
            format!("{MARK}{words}")
        } else {
            words.to_owned()
        };
        let send = |to: To, buttons: Option<InlineKeyboardMarkup>| async move {
            let mut payload = SendMessage::new(to.id(), words).link_preview_options(no_preview());
            if marked_up {
                payload = payload.parse_mode(ParseMode::Html);
            }
            if let Some(topic) = to.topic() {
                payload = payload.message_thread_id(topic);
            }
            if let Some(reply) = to.reply() {
                payload = payload.reply_parameters(reply);
            }
            if let Some(buttons) = buttons {
                payload = payload.reply_markup(buttons);
            }
            self.api.call(&payload, TIMEOUT).await
        };
        let to = To::new(message.chat, message.reply_to)?;
        let buttons = buttons::keyboard(message.buttons);
        let mut sent = self.reach(to, |to| send(to, buttons.clone())).await;
        if let Err(error) = &sent
            && buttons.is_some()
            && is_about_buttons(error)
        {
            tracing::error!(%error, "a message goes out without its buttons");
            sent = self.reach(to, |to| send(to, None)).await;
        }
        message_id(&sent.map_err(|error| classify(&error, marked_up))?)
    }

    /// Puts an emoji on the message that is answered, an empty one takes ours away, and returns the id
    /// of that message.
    async fn react(&self, message: &Outgoing<'_>, emoji: &str) -> Result<String, SendError> {
        let emoji = plain_emoji(emoji);
        let reactions = Some(ReactionType::Emoji {
            emoji: emoji.clone(),
        })
        .filter(|_| !emoji.is_empty());
        let to = To::new(message.chat, message.reply_to)?;
        let Some(id) = to.message() else {
            return Err(unsendable("a reaction needs a message that it is put on"));
        };
        let call = |to: To| {
            let payload = to
                .message()
                .map(|id| SetMessageReaction::new(to.id(), id).reaction(reactions.clone()));
            async move {
                match payload {
                    Some(payload) => self.api.call(&payload, TIMEOUT).await,
                    None => Err(refused(
                        400,
                        "the message is in a group that has a new id, and has another one there",
                    )),
                }
            }
        };
        match self.reach(to, call).await {
            Ok(_) => Ok(id.0.to_string()),
            Err(error) if says(&error, "reaction_invalid") => Err(unsendable(&format!(
                "Telegram has no reaction {emoji:?}; it has 👍 👎 ❤ 🔥 🎉 👏 😁 🤔 👀 🙏 👌 💯 and some more"
            ))),
            Err(error) => Err(classify_repeatable(&error)),
        }
    }
}

impl Channel for Telegram {
    fn name(&self) -> &'static str {
        "telegram"
    }

    fn render(&self, markdown: &str) -> Vec<Rendered> {
        format::render(markdown, LIMIT)
            .into_iter()
            .map(|part| Rendered {
                markup: Some(part.html),
                plain: part.plain,
            })
            .collect()
    }

    fn plain(&self, text: &str) -> Vec<Rendered> {
        format::plain(text, LIMIT)
            .into_iter()
            .map(|plain| Rendered {
                markup: None,
                plain,
            })
            .collect()
    }

    fn caption(&self, text: &str) -> Option<Rendered> {
        let mut parts = format::plain(text, CAPTION).into_iter();
        parts
            .next()
            .filter(|_| parts.next().is_none())
            .map(|plain| Rendered {
                markup: None,
                plain,
            })
    }

    fn albums(&self, files: Vec<OutFile>) -> Vec<Vec<OutFile>> {
        media::albums(files)
    }

    fn ready<'a>(&'a self, chat: &'a ChatRef) -> BoxFuture<'a, ()> {
        Box::pin(async {
            if let Ok(chat) = chat.chat.parse() {
                self.pace.room(chat).await;
            }
        })
    }

    fn send<'a>(&'a self, message: Outgoing<'a>) -> BoxFuture<'a, Result<String, SendError>> {
        Box::pin(self.send_message(message))
    }

    fn fetch<'a>(
        &'a self,
        media: &'a Media,
        to: &'a Path,
        max: u64,
    ) -> BoxFuture<'a, Result<(), FetchError>> {
        Box::pin(self.fetch_file(media, to, max))
    }

    fn mark<'a>(
        &'a self,
        chat: &'a ChatRef,
        message: &'a str,
        emoji: &'a str,
    ) -> BoxFuture<'a, Result<(), SendError>> {
        Box::pin(self.mark_message(chat, message, emoji))
    }

    fn show<'a>(
        &'a self,
        chat: &'a ChatRef,
        text: &'a str,
    ) -> BoxFuture<'a, Result<String, SendError>> {
        Box::pin(self.show_words(chat, text))
    }

    fn change<'a>(
        &'a self,
        chat: &'a ChatRef,
        id: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), SendError>> {
        Box::pin(self.change_words(chat, id, text))
    }

    fn remove<'a>(
        &'a self,
        chat: &'a ChatRef,
        id: &'a str,
    ) -> BoxFuture<'a, Result<(), SendError>> {
        Box::pin(self.remove_words(chat, id))
    }

    fn close<'a>(
        &'a self,
        chat: &'a ChatRef,
        message: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), SendError>> {
        Box::pin(self.close_message(chat, message, text))
    }

    fn answer_press<'a>(&'a self, press: &'a str, text: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(self.answer_query(press, text))
    }

    fn draft<'a>(
        &'a self,
        chat: &'a ChatRef,
        number: i64,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), SendError>> {
        Box::pin(self.show_draft(chat, number, text))
    }

    fn typing<'a>(&'a self, chat: &'a ChatRef) -> BoxFuture<'a, Result<(), SendError>> {
        Box::pin(self.show_typing(chat))
    }

    fn health(&self) -> Health {
        self.pulse.read()
    }
}

/// Returns the menu of everybody and that of each owner.
fn menus(owners: &[i64]) -> Vec<(Option<i64>, SetMyCommands)> {
    let everybody = (None, SetMyCommands::new(slash_commands::menu(false)));
    let scope = |owner: &i64| BotCommandScope::Chat {
        chat_id: ChatId(*owner).into(),
    };
    let theirs = owners.iter().map(|owner| {
        (
            Some(*owner),
            SetMyCommands::new(slash_commands::menu(true)).scope(scope(owner)),
        )
    });
    std::iter::once(everybody).chain(theirs).collect()
}

/// A link in an answer is fetched by nobody: a preview could carry words out of the house.
pub(crate) fn no_preview() -> LinkPreviewOptions {
    LinkPreviewOptions {
        is_disabled: true,
        url: None,
        prefer_small_media: false,
        prefer_large_media: false,
        show_above_text: false,
    }
}

/// Returns the id of a message that was sent. Without one it did arrive, and nobody can say as what.
pub(crate) fn message_id(sent: &Value) -> Result<String, SendError> {
    let id = sent.get("message_id").and_then(Value::as_i64);
    id.map(|id| id.to_string())
        .ok_or_else(|| SendError::Unknown("the answer names no message id".to_owned()))
}

/// What cannot be sent at all, whoever tries.
pub(crate) fn unsendable(reason: &str) -> SendError {
    SendError::Never {
        reason: reason.to_owned(),
        chat_is_there: true,
    }
}

/// Returns an emoji as Telegram lists its reactions: without the sign for "as a picture" and without a
/// skin tone.
pub(crate) fn plain_emoji(emoji: &str) -> String {
    emoji
        .trim()
        .chars()
        .filter(|c| !matches!(c, '\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reaction_is_written_as_telegram_lists_it() {
        for (written, listed) in [
            ("❤️", "❤"),
            (" 👍🏽 ", "👍"),
            ("🤷🏻‍♂️", "🤷‍♂"),
            ("🔥", "🔥"),
            ("", ""),
        ] {
            assert_eq!(plain_emoji(written), listed);
        }
    }

    #[test]
    fn only_the_official_server_is_paced_unless_the_settings_say_otherwise() {
        let paced = |api_url: &str, pace| {
            let config = config::Telegram {
                api_url: api_url.to_owned(),
                pace,
                ..config::Telegram::default()
            };
            Telegram::new(
                &config,
                &config::Http::default(),
                Secret::new("1:x"),
                Arc::default(),
            )
            .unwrap()
            .pace
            .is_on()
        };
        assert!(paced("https://api.telegram.org", None));
        assert!(paced("https://API.telegram.org/", None));
        assert!(!paced("http://127.0.0.1:8081", None));
        assert!(!paced("https://api.telegram.org.example", None));
        assert!(paced("http://127.0.0.1:8081", Some(true)));
        assert!(!paced("https://api.telegram.org", Some(false)));
    }

    #[test]
    fn everybody_has_a_menu_and_each_owner_one_of_their_own() {
        let sent: Vec<Value> = menus(&[7, 8])
            .iter()
            .map(|(_, menu)| serde_json::to_value(menu).unwrap()["scope"].clone())
            .collect();
        let of = |owner: i64| serde_json::json!({"type": "chat", "chat_id": owner});
        assert_eq!(sent, [Value::Null, of(7), of(8)]);
    }
}
