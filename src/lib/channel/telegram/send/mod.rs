//! To Telegram: sends messages, files, previews, reactions and buttons, paced, and classifies every failure.

pub(crate) mod api;
mod buttons;
mod call;
pub(crate) mod classify_error;
mod files;
pub(crate) mod format;
mod messages;
mod moved_chats;
pub(crate) mod pace;
mod preview;
pub(crate) mod split;
pub(crate) mod stickers;
pub(crate) mod upload;

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use teloxide::payloads::{AnswerCallbackQuery, DeleteMessage, EditMessageText, SendChatAction};
use teloxide::types::{CallbackQueryId, ChatAction, MessageEntity};

use super::Telegram;
use crate::channel::{Channel, FetchError, Health, Outgoing, Rendered, SendError, SendFuture};
use crate::message::{ChatRef, Media, OutFile, Sticker};
use crate::provider::BoxFuture;
use api::{Error, Request};
use call::{Target, Turn};
use classify_error::{classify, repeatable};
use messages::{message, no_link_preview, reaction};
use preview::{PREVIEW, QUICK, SIGN, fit, quick};

/// Telegram's limit for a message, UTF-16 units after parsing.
const MESSAGE: usize = 4096;
/// The longest answer to a press (core.telegram.org/bots/api#answercallbackquery).
const PRESS_ANSWER: usize = 200;
/// Who pressed a button waits this long at most.
const PRESS_TIMEOUT: Duration = Duration::from_secs(5);
/// Stands before a message that may have arrived already; rendered messages leave room for it.
const MARK: &str = "(resent)\n";

impl Channel for Telegram {
    fn name(&self) -> &'static str {
        "telegram"
    }

    fn render(&self, markdown: &str) -> Vec<Rendered> {
        let parts = format::render(markdown, MESSAGE - MARK.len()).into_iter();
        let rendered = parts.map(|part| Rendered {
            markup: Some(part.html),
            plain: part.plain,
        });
        rendered.collect()
    }

    fn plain(&self, text: &str) -> Vec<Rendered> {
        plain(text, MESSAGE - MARK.len()).collect()
    }

    fn caption(&self, text: &str) -> Option<Rendered> {
        let mut parts = plain(text, files::CAPTION - MARK.len());
        parts.next().filter(|_| parts.next().is_none())
    }

    fn albums(&self, files: Vec<OutFile>) -> Vec<Vec<OutFile>> {
        files::albums(files)
    }

    fn ready<'a>(&'a self, chat: &'a ChatRef) -> BoxFuture<'a, ()> {
        Box::pin(async {
            if let Ok(chat) = chat.chat.parse() {
                self.pace.ready(chat).await;
            }
        })
    }

    fn send<'a>(&'a self, message: Outgoing<'a>) -> SendFuture<'a, String> {
        match message.reaction {
            Some(emoji) => Box::pin(self.react(message, emoji)),
            None if message.files.is_empty() => Box::pin(self.send_text(message)),
            None => Box::pin(self.send_files(message)),
        }
    }

    fn sticker<'a>(
        &'a self,
        set: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Sticker>, FetchError>> {
        Box::pin(self.sticker_of(set, name))
    }

    fn stickers<'a>(&'a self, set: &'a str) -> BoxFuture<'a, Result<Vec<Sticker>, FetchError>> {
        Box::pin(self.sticker_set(set))
    }

    fn fetch<'a>(
        &'a self,
        media: &'a Media,
        to: &'a Path,
        max: u64,
    ) -> BoxFuture<'a, Result<(), FetchError>> {
        Box::pin(self.download(media, to, max))
    }

    fn mark<'a>(&'a self, chat: &'a ChatRef, message: &'a str, emoji: &'a str) -> SendFuture<'a> {
        Box::pin(async move {
            let target = Target::about(chat, message)?;
            let request = |to| quick(reaction(to, emoji)?);
            self.show_sign(target, request).await
        })
    }

    fn show<'a>(&'a self, chat: &'a ChatRef, text: &'a str) -> SendFuture<'a, String> {
        Box::pin(async move {
            let (target, text) = (Target::new(chat, None)?, fit(text, MESSAGE)?);
            let request = |to| {
                let mut message = message(to, &text);
                message.disable_notification = Some(true);
                quick(message)
            };
            let shown = self.call_in_chat(target, PREVIEW, request).await;
            message_id(&shown.map_err(|error| classify(&error, false))?)
        })
    }

    fn change<'a>(&'a self, chat: &'a ChatRef, id: &'a str, text: &'a str) -> SendFuture<'a> {
        Box::pin(self.edit(chat, id, text, PREVIEW, |_| None))
    }

    fn remove<'a>(&'a self, chat: &'a ChatRef, id: &'a str) -> SendFuture<'a> {
        Box::pin(async move {
            let target = Target::about(chat, id)?;
            // Nobody comes after it: it waits for its turn.
            let request = |to: Target| quick(DeleteMessage::new(to.id(), to.message()?));
            let removed = self.call_in_chat(target, Turn::Wait, request).await;
            repeatable(removed, Some("message to delete not found"))
        })
    }

    fn close<'a>(&'a self, chat: &'a ChatRef, message: &'a str, text: &'a str) -> SendFuture<'a> {
        // As code, so that no word in it becomes a link, a command or a mention.
        let code = |text: &str| Some(vec![MessageEntity::code(0, split::units(text))]);
        Box::pin(self.edit(chat, message, text, Turn::Wait, code))
    }

    fn answer_press<'a>(&'a self, press: &'a str, text: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut answer = AnswerCallbackQuery::new(CallbackQueryId(press.to_owned()));
            answer.text = fit(text, PRESS_ANSWER).ok();
            let answer = Request::from(answer).within(QUICK);
            match tokio::time::timeout(PRESS_TIMEOUT, self.call(answer)).await {
                Ok(Ok(_)) => {}
                // Telegram forgets a press within a minute; after a restart it may be an old one.
                Ok(Err(error @ Error::Refused { status: 400, .. })) => {
                    tracing::info!(%error, "the press of a button was not answered")
                }
                Ok(Err(error)) => tracing::warn!(%error, "the press of a button was not answered"),
                Err(_) => tracing::warn!("the press of a button was not answered in time"),
            }
        })
    }

    fn draft<'a>(&'a self, chat: &'a ChatRef, number: i64, text: &'a str) -> SendFuture<'a> {
        Box::pin(async move {
            let target = Target::new(chat, None)?;
            if target.chat < 0 {
                return Err(unsendable("drafts are shown in private chats only"));
            }
            // Without text it is a sign that something will come.
            let text = match split::is_blank(text) {
                true => String::new(),
                false => fit(text, MESSAGE)?,
            };
            // teloxide does not know the method (Bot API 9.3); 0 is no number of a draft.
            let request = |to: Target| {
                let parameters = json!({
                    "chat_id": to.chat, "message_thread_id": to.topic(),
                    "draft_id": number.max(1), "text": text,
                });
                quick(Request::new("sendMessageDraft", parameters))
            };
            repeatable(self.call_in_chat(target, PREVIEW, request).await, None)
        })
    }

    fn typing<'a>(&'a self, chat: &'a ChatRef) -> SendFuture<'a> {
        Box::pin(async move {
            let target = Target::new(chat, None)?;
            let request = |to: Target| {
                let mut typing = SendChatAction::new(to.id(), ChatAction::Typing);
                typing.message_thread_id = to.topic();
                quick(typing)
            };
            self.show_sign(target, request).await
        })
    }

    fn health(&self) -> Health {
        self.health.read()
    }
}

impl Telegram {
    /// Makes a call that is left out without room.
    async fn show_sign(
        &self,
        target: Target,
        request: impl Fn(Target) -> Result<Request, Error>,
    ) -> Result<(), SendError> {
        match self.call_in_chat(target, SIGN, request).await {
            Err(Error::NoRoom) => Ok(()),
            result => repeatable(result, None),
        }
    }

    /// Changes the text of a message, and takes its buttons away.
    async fn edit(
        &self,
        chat: &ChatRef,
        message: &str,
        text: &str,
        turn: Turn,
        entities: impl Fn(&str) -> Option<Vec<MessageEntity>>,
    ) -> Result<(), SendError> {
        let (target, text) = (Target::about(chat, message)?, fit(text, MESSAGE)?);
        let entities = entities(&text);
        let request = |to: Target| {
            let mut edit = EditMessageText::new(to.id(), to.message()?, &text);
            edit.entities = entities.clone();
            edit.link_preview_options = Some(no_link_preview());
            quick(edit)
        };
        let edited = self.call_in_chat(target, turn, request).await;
        repeatable(edited, Some("message is not modified"))
    }
}

/// Returns the messages that show `text` as it is.
fn plain(text: &str, limit: usize) -> impl Iterator<Item = Rendered> {
    let parts = format::plain(text, limit).into_iter();
    parts.map(|plain| Rendered {
        markup: None,
        plain,
    })
}

/// Returns the id of a message that was sent. Without one it did arrive, and nobody can say as what.
fn message_id(sent: &Value) -> Result<String, SendError> {
    let id = sent.get("message_id").and_then(Value::as_i64);
    id.map(|id| id.to_string())
        .ok_or_else(|| SendError::Unknown("the answer names no message id".to_owned()))
}

/// What cannot be sent at all, no matter who tries.
fn unsendable(reason: &str) -> SendError {
    SendError::Never {
        reason: reason.to_owned(),
        chat_is_there: true,
    }
}
