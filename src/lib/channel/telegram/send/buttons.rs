//! Buttons below a message.

use teloxide::types::{InlineKeyboardButton, InlineKeyboardMarkup};

use crate::message::Button;
use crate::text;

/// The most bytes a button brings back (core.telegram.org/bots/api#inlinekeyboardbutton).
const DATA_MAX: usize = 64;
/// A longer label is cut by every screen.
const LABEL_MAX: usize = 64;
/// More buttons are refused (tried in 2026, documented nowhere).
const MAX_IN_ROW: usize = 8;
const MAX_IN_MESSAGE: usize = 100;

/// Returns the buttons as Telegram takes them, `None` when there are none. One that it would refuse is
/// left out: the message goes without it.
pub(crate) fn keyboard(rows: &[Vec<Button>]) -> Option<InlineKeyboardMarkup> {
    let one = |button: &Button| {
        let label = text::shorten(text::visible(&button.label).trim(), LABEL_MAX);
        let bytes = button.data.len();
        if label.is_empty() || !(1..=DATA_MAX).contains(&bytes) {
            tracing::error!(
                label,
                bytes,
                "a button is left out because Telegram refuses it"
            );
            return None;
        }
        Some(InlineKeyboardButton::callback(label, button.data.clone()))
    };
    let mut left = MAX_IN_MESSAGE;
    let mut keyboard: Vec<Vec<InlineKeyboardButton>> = Vec::with_capacity(rows.len());
    for row in rows {
        let buttons = row.iter().filter_map(one);
        keyboard.push(buttons.take(MAX_IN_ROW.min(left)).collect());
        left -= keyboard.last().map_or(0, Vec::len);
    }
    keyboard.retain(|row| !row.is_empty());
    (!keyboard.is_empty()).then(|| InlineKeyboardMarkup::new(keyboard))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(rows: &[&[(&str, &str)]]) -> Value {
        let button = |(label, data): &(&str, &str)| Button {
            label: (*label).to_owned(),
            data: (*data).to_owned(),
        };
        let rows: Vec<Vec<Button>> = rows
            .iter()
            .map(|row| row.iter().map(button).collect())
            .collect();
        let keyboard = keyboard(&rows).map(|keyboard| serde_json::to_value(keyboard).unwrap());
        keyboard.map_or(Value::Null, |keyboard| keyboard["inline_keyboard"].clone())
    }

    #[test]
    fn rows_stay_rows_and_what_telegram_refuses_is_left_out() {
        let (most, more) = ("ü".repeat(32), format!("{}x", "ü".repeat(32)));
        let long = "l".repeat(70);
        let rows: &[&[(&str, &str)]] = &[
            &[("no", &more), (" ", "x"), ("x", "")],
            &[("yes", &most), (&long, "x"), ("a\u{202e}b\n", "y")],
            &[("😀", "x")],
        ];
        let key = |text: &str, data: &str| json!({"text": text, "callback_data": data});
        let long = format!("{}…", "l".repeat(64));
        let first = [
            key("yes", &most),
            key(&long, "x"),
            key("a\\u{202e}b\\u{a}", "y"),
        ];
        assert_eq!(shown(rows), json!([first, [key("😀", "x")]]));
        assert_eq!((shown(&[]), shown(&[&[]])), (Value::Null, Value::Null));
    }

    #[test]
    fn no_row_and_no_message_has_too_many() {
        let many = shown(&[[("x", "x"); 9].as_slice(); 20]);
        let rows = many.as_array().unwrap().iter();
        let rows: Vec<usize> = rows.map(|row| row.as_array().unwrap().len()).collect();
        assert_eq!(rows, [[8; 12].as_slice(), &[4]].concat());
    }
}
