//! Buttons: how they stand below a message, what a press of one is answered, and how a message is
//! closed when it needs none any more.

use std::time::Duration;

use teloxide::payloads::{
    AnswerCallbackQuery, AnswerCallbackQuerySetters, EditMessageText, EditMessageTextSetters,
};
use teloxide::types::{CallbackQueryId, InlineKeyboardButton, InlineKeyboardMarkup, MessageEntity};

use super::api::{Error, refused};
use super::classify_error::{classify_repeatable, says};
use super::messages::{no_preview, unsendable};
use super::preview::{LIMIT, cut};
use super::split::units;
use super::transport::To;
use crate::channel::SendError;
use crate::channel::telegram::Telegram;
use crate::message::{Button, ChatRef};
use crate::text;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Who pressed a button looks at it for so long at most.
const PROMPT: Duration = Duration::from_secs(5);
/// The longest answer to a press (core.telegram.org/bots/api#answercallbackquery).
const ANSWER: usize = 200;
/// The most bytes a button brings back (core.telegram.org/bots/api#inlinekeyboardbutton).
const DATA: usize = 64;
/// A longer label is cut by every screen.
const LABEL: usize = 64;
/// Buttons in a row and in a message: more are refused (tried in 2026, written down nowhere).
const MOST: (usize, usize) = (8, 100);

/// Returns the buttons as Telegram takes them, `None` when there are none. One that it would refuse is
/// left out: the message goes without it.
pub(crate) fn keyboard(rows: &[Vec<Button>]) -> Option<InlineKeyboardMarkup> {
    let (in_row, mut left) = MOST;
    let one = |button: &Button| {
        let label = text::shorten(text::visible(&button.label).trim(), LABEL);
        let fits = !label.is_empty() && (1..=DATA).contains(&button.data.len());
        if !fits {
            tracing::error!(
                label,
                bytes = button.data.len(),
                "a button that Telegram does not take is left out"
            );
        }
        fits.then(|| InlineKeyboardButton::callback(label, button.data.clone()))
    };
    let mut keyboard = Vec::with_capacity(rows.len());
    for row in rows {
        let row: Vec<InlineKeyboardButton> =
            row.iter().filter_map(one).take(in_row.min(left)).collect();
        left -= row.len();
        if !row.is_empty() {
            keyboard.push(row);
        }
    }
    (!keyboard.is_empty()).then(|| InlineKeyboardMarkup::new(keyboard))
}

impl Telegram {
    /// Makes a message say `text`, without buttons. As code: no word in it becomes a link, a command or
    /// a mention.
    pub(crate) async fn close_message(
        &self,
        chat: &ChatRef,
        message: &str,
        text: &str,
    ) -> Result<(), SendError> {
        let text = cut(text, LIMIT)?;
        let code = [MessageEntity::code(0, units(&text))];
        let to = To::new(chat, Some(message))?;
        if to.message().is_none() {
            return Err(unsendable(&format!("{message} is no message id")));
        }
        let call = |to: To| {
            let payload = to.message().map(|id| {
                EditMessageText::new(to.id(), id, text.clone())
                    .entities(code.clone())
                    .link_preview_options(no_preview())
            });
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
            Err(error) if !says(&error, "message is not modified") => {
                Err(classify_repeatable(&error))
            }
            _ => Ok(()),
        }
    }

    /// Answers a press, once: it is worth nothing later.
    pub(crate) async fn answer_query(&self, press: &str, text: &str) {
        let mut payload = AnswerCallbackQuery::new(CallbackQueryId(press.to_owned()));
        if let Ok(text) = cut(text, ANSWER) {
            payload = payload.text(text);
        }
        match tokio::time::timeout(PROMPT, self.in_turn(&payload, TIMEOUT)).await {
            Ok(Ok(_)) => {}
            // Telegram forgets a press within a minute; after a restart it is told of an old one.
            Ok(Err(error @ Error::Refused { status: 400, .. })) => {
                tracing::info!(%error, "the press of a button was not answered")
            }
            Ok(Err(error)) => tracing::warn!(%error, "the press of a button was not answered"),
            Err(_) => tracing::warn!("the press of a button was not answered in time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(rows: &[Vec<Button>]) -> Value {
        keyboard(rows).map_or(Value::Null, |keyboard| {
            serde_json::to_value(keyboard).unwrap()
        })
    }

    fn button(label: &str, data: &str) -> Button {
        Button {
            label: label.to_owned(),
            data: data.to_owned(),
        }
    }

    #[test]
    fn rows_stay_rows() {
        let rows = [
            vec![
                button("Approve", "a:y:k3f9w2"),
                button("Deny", "a:n:k3f9w2"),
            ],
            vec![button("😀", "x")],
        ];
        let key = |text: &str, data: &str| json!({"text": text, "callback_data": data});
        let expected = json!([
            [key("Approve", "a:y:k3f9w2"), key("Deny", "a:n:k3f9w2")],
            [key("😀", "x")]
        ]);
        assert_eq!(shown(&rows), json!({"inline_keyboard": expected}));
    }

    #[test]
    fn what_telegram_refuses_is_left_out_and_the_rest_stays() {
        assert_eq!(
            [
                shown(&[]),
                shown(&[vec![]]),
                shown(&[vec![button(" ", "x"), button("x", "")]])
            ],
            [Value::Null, Value::Null, Value::Null]
        );
        let (most, more) = ("ü".repeat(32), format!("{}x", "ü".repeat(32)));
        let rows = [
            vec![button("no", &more)],
            vec![
                button("yes", &most),
                button(&"l".repeat(70), "x"),
                button("a\u{202e}b\n", "y"),
            ],
        ];
        let labels = [
            ("yes", most.as_str()),
            (&format!("{}…", "l".repeat(64)), "x"),
            ("a\\u{202e}b\\u{a}", "y"),
        ];
        let keys: Vec<Value> = labels
            .map(|(text, data)| json!({"text": text, "callback_data": data}))
            .to_vec();
        assert_eq!(shown(&rows), json!({"inline_keyboard": [keys]}));
        let many = shown(&vec![vec![button("x", "x"); 9]; 20]);
        let rows: Vec<usize> = many["inline_keyboard"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row.as_array().unwrap().len())
            .collect();
        assert_eq!(
            (rows.len(), rows.iter().sum::<usize>(), rows[0], rows[12]),
            (13, 100, 8, 4)
        );
    }
}
