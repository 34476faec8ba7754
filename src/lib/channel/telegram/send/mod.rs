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

use serde_json::Value;
use teloxide::payloads::AnswerCallbackQuery;
use teloxide::types::{CallbackQueryId, MessageEntity};

use super::Telegram;
use crate::channel::{Channel, FetchError, Health, Outgoing, Rendered, SendError, SendFuture};
use crate::message::{ChatRef, Media, OutFile, Sticker};
use crate::provider::BoxFuture;
use api::{Error, Request};
use call::Turn;
use preview::{PREVIEW, QUICK, fit};

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
        split_markdown(markdown, MESSAGE - MARK.len())
    }

    fn plain(&self, text: &str) -> Vec<Rendered> {
        split_plain(text, MESSAGE - MARK.len())
    }

    fn caption(&self, text: &str) -> Option<Rendered> {
        let mut parts = split_plain(text, files::CAPTION - MARK.len()).into_iter();
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
        Box::pin(self.show_mark(chat, message, emoji))
    }

    fn show<'a>(&'a self, chat: &'a ChatRef, text: &'a str) -> SendFuture<'a, String> {
        Box::pin(self.show_preview(chat, text))
    }

    fn change<'a>(&'a self, chat: &'a ChatRef, id: &'a str, text: &'a str) -> SendFuture<'a> {
        Box::pin(self.edit(chat, id, text, PREVIEW, |_| None))
    }

    fn remove<'a>(&'a self, chat: &'a ChatRef, id: &'a str) -> SendFuture<'a> {
        Box::pin(self.remove_preview(chat, id))
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
        Box::pin(self.show_draft(chat, number, text))
    }

    fn typing<'a>(&'a self, chat: &'a ChatRef) -> SendFuture<'a> {
        Box::pin(self.show_typing(chat))
    }

    fn health(&self) -> Health {
        self.health.read()
    }
}

/// Splits Markdown into messages of at most `limit` units of UTF-16; their markup is HTML, their plain text the source.
pub(crate) fn split_markdown(markdown: &str, limit: usize) -> Vec<Rendered> {
    let parts = format::render(markdown, limit).into_iter();
    let rendered = parts.map(|part| Rendered {
        markup: Some(part.html),
        plain: part.plain,
    });
    rendered.collect()
}

/// Splits a text into messages of at most `limit` units of UTF-16 that show it as it is.
pub(crate) fn split_plain(text: &str, limit: usize) -> Vec<Rendered> {
    let parts = format::plain(text, limit).into_iter();
    let rendered = parts.map(|plain| Rendered {
        markup: None,
        plain,
    });
    rendered.collect()
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
