//! Inline keyboards, as the service takes them, and the answers to presses.

use serde_json::Value;

use super::{State, api::Refusal, params::Params};

/// The longest answer to a press (core.telegram.org/bots/api#answercallbackquery).
const ANSWER_MAX: usize = 200;
/// The most bytes of a button (core.telegram.org/bots/api#inlinekeyboardbutton).
const DATA_MAX: usize = 64;

/// Returns a keyboard that the service takes; `Null` when there is none.
pub(super) fn checked(markup: Value) -> Result<Value, Refusal> {
    if markup.is_null() {
        return Ok(markup);
    }
    let rows = markup["inline_keyboard"]
        .as_array()
        .ok_or_else(|| Refusal::bad("object expected as reply markup"))?;
    for button in rows
        .iter()
        .flat_map(|row| row.as_array().into_iter().flatten())
    {
        if button["text"]
            .as_str()
            .is_none_or(|text| text.trim().is_empty())
        {
            return Err(Refusal::bad(
                "can't parse inline keyboard button: Field \"text\" must be non-empty",
            ));
        }
        if button["callback_data"]
            .as_str()
            .is_none_or(|data| !(1..=DATA_MAX).contains(&data.len()))
        {
            return Err(Refusal::bad("BUTTON_DATA_INVALID"));
        }
    }
    Ok(markup)
}

/// Returns the buttons of a keyboard, as (label, data) in order.
pub(super) fn of(markup: &Value) -> Vec<(String, String)> {
    let rows = markup["inline_keyboard"].as_array().into_iter().flatten();
    let buttons = rows.flat_map(|row| row.as_array().into_iter().flatten());
    let text = |button: &Value, name: &str| button[name].as_str().unwrap_or_default().to_owned();
    buttons
        .map(|button| (text(button, "text"), text(button, "callback_data")))
        .collect()
}

/// Answers a press, once: it is forgotten then.
pub(super) fn answer(state: &mut State, params: &Params) -> Result<Value, Refusal> {
    if params.text("text").encode_utf16().count() > ANSWER_MAX {
        return Err(Refusal::bad("MESSAGE_TOO_LONG"));
    }
    match state.presses.get_mut(params.text("callback_query_id")) {
        Some(said @ None) => {
            *said = Some(params.text("text").to_owned());
            Ok(Value::Bool(true))
        }
        _ => Err(Refusal::bad(
            "query is too old and response timeout expired or query ID is invalid",
        )),
    }
}
