//! Sends stickers: a set is fetched once in the life of the process, and its stickers are sent by their file ids. A set may
//! contain pictures (WebP), animations (TGS) and films (WebM); all are sent in the same way.

use serde_json::{Value, json};

use super::api::Request;
use super::classify_error::{classify, says};
use super::{Error, message_id};
use crate::channel::telegram::Telegram;
use crate::channel::telegram::receive::updates;
use crate::channel::telegram::send::call::{Target, Turn};
use crate::channel::{FetchError, Outgoing, SendError};
use crate::message::Sticker;

impl Telegram {
    /// Returns the stickers of a set. One that Telegram refuses is not asked for again.
    pub(crate) async fn sticker_set(&self, set: &str) -> Result<Vec<Sticker>, FetchError> {
        if let Some(known) = self.stickers.lock().get(set) {
            return known.clone().map_err(FetchError::Never);
        }
        let request = Request::new("getStickerSet", json!({"name": set}));
        let found = match self.call(request).await {
            Ok(answer) => Ok(stickers(&answer)),
            Err(error) => match &error {
                Error::Refused { status: 400, .. } if says(&error, "STICKERSET_INVALID") => {
                    Err(format!("there is no set of stickers called {set}"))
                }
                Error::Refused {
                    status: 400 | 404, ..
                } => Err(error.to_string()),
                _ => return Err(FetchError::Again(error.to_string())),
            },
        };
        let mut known = self.stickers.lock();
        known.insert(set.to_owned(), found.clone());
        found.map_err(FetchError::Never)
    }

    /// Returns a sticker; `None` when the set has none of that name.
    pub(crate) async fn sticker_of(
        &self,
        set: &str,
        name: &str,
    ) -> Result<Option<Sticker>, FetchError> {
        let stickers = self.sticker_set(set).await?;
        let wanted = plain(name);
        let number = name
            .trim()
            .parse::<usize>()
            .ok()
            .and_then(|n| n.checked_sub(1));
        let named = stickers
            .iter()
            .find(|sticker| plain(&sticker.name) == wanted);
        let found = named.or_else(|| stickers.get(number?));
        Ok(found.cloned())
    }

    /// Sends a file that Telegram has already.
    pub(crate) async fn send_handle(
        &self,
        message: Outgoing<'_>,
        (method, field, handle): (&'static str, &'static str, &str),
    ) -> Result<String, SendError> {
        let target = Target::new(message.chat, message.reply_to)?;
        let request = move |target: Target| {
            let mut parameters = json!({
                "chat_id": target.chat,
                "message_thread_id": target.topic(),
                "reply_parameters": target.reply(),
            });
            parameters[field] = json!(handle);
            Ok(Request::new(method, parameters))
        };
        let sent = self.call_in_chat(target, Turn::Wait, request).await;
        message_id(&sent.map_err(|error| classify(&error, false))?)
    }
}

/// Returns the stickers in an answer, each under a name of its own.
fn stickers(set: &Value) -> Vec<Sticker> {
    let all = set.get("stickers").and_then(Value::as_array);
    let mut found: Vec<Sticker> = Vec::new();
    for (at, sticker) in all.into_iter().flatten().enumerate() {
        let Some(media) = updates::sticker(sticker) else {
            continue;
        };
        let number = (at + 1).to_string();
        let name = match sticker.get("emoji").and_then(Value::as_str) {
            Some(emoji) if !found.iter().any(|other| plain(&other.name) == plain(emoji)) => {
                plain(emoji)
            }
            Some(emoji) => format!("{}{number}", plain(emoji)),
            None => number,
        };
        found.push(Sticker { name, media });
    }
    found
}

/// Returns an emoji without the sign that asks for colours.
fn plain(name: &str) -> String {
    name.trim().replace('\u{fe0f}', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sticker_of_a_set_has_a_name_of_its_own() {
        let set = json!({"stickers": [
            {"file_id": "a", "emoji": "❤\u{fe0f}"},
            {"file_id": "b", "emoji": "😿"},
            {"emoji": "🐈"},
            {"file_id": "c", "emoji": "❤"},
            {"file_id": "d"},
        ]});
        let names: Vec<(String, String)> = stickers(&set)
            .into_iter()
            .map(|sticker| (sticker.name, sticker.media.handle))
            .collect();
        let expected = [("❤", "a"), ("😿", "b"), ("❤4", "c"), ("5", "d")];
        assert_eq!(
            names,
            expected.map(|(name, handle)| (name.to_owned(), handle.to_owned()))
        );
        assert!(stickers(&json!({"stickers": 7})).is_empty());
    }

    #[test]
    fn pictures_drawings_and_films_are_told_apart() {
        let set = json!({"stickers": [
            {"file_id": "a", "file_unique_id": "ua", "set_name": "Cats", "emoji": "😿"},
            {"file_id": "b", "file_unique_id": "ub", "emoji": "😺", "is_animated": true, "thumbnail": {"file_id": "tb"}},
            {"file_id": "c", "emoji": "😹", "is_video": true},
        ]});
        let known: Vec<(Option<String>, Option<String>)> = stickers(&set)
            .into_iter()
            .map(|sticker| {
                let thumbnail = sticker.media.identity.and_then(|known| known.thumbnail);
                (sticker.media.filename, thumbnail)
            })
            .collect();
        let name = |name: &str| Some(name.to_owned());
        let expected = [
            (None, None),
            (name("sticker.tgs"), name("tb")),
            (name("sticker.webm"), None),
        ];
        assert_eq!(known, expected);
    }
}
