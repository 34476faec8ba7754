//! Calls that the owner's own words of this turn spell out: every argument stands there, so nobody else chose
//! one.

use chrono::{NaiveDate, NaiveDateTime};
use serde_json::Value;

/// Returns true when every argument in `input` stands in the `typed` words of the owner, and at least one does.
/// A date or time may be worked out, a switch set, a choice of the schema made: they say nothing by themselves.
pub(super) fn spell_out(typed: &str, input: &Value, schema: &Value) -> bool {
    let mut found = false;
    !typed.trim().is_empty() && holds(typed, input, schema, &mut found) && found
}

fn holds(typed: &str, value: &Value, schema: &Value, found: &mut bool) -> bool {
    match value {
        Value::Null | Value::Bool(_) => true,
        Value::Number(number) => {
            let stands = stands(typed, &number.to_string());
            *found |= stands;
            stands
        }
        Value::String(text) if text.trim().is_empty() || is_time(text) => true,
        Value::String(text) => {
            let choices = schema.get("enum").and_then(Value::as_array);
            if choices.is_some_and(|choices| choices.contains(value)) {
                return true;
            }
            let stands = stands(typed, text.trim());
            *found |= stands;
            stands
        }
        Value::Array(items) => {
            let of_item = schema.get("items").unwrap_or(&Value::Null);
            items.iter().all(|item| holds(typed, item, of_item, found))
        }
        Value::Object(fields) => fields.iter().all(|(name, field)| {
            let of_field = &schema["properties"][name.as_str()];
            holds(typed, field, of_field, found)
        }),
    }
}

/// Returns true when `words` stand in `typed`, not as a part of a longer word; the case of the first letter does
/// not matter.
fn stands(typed: &str, words: &str) -> bool {
    let mut rest = words.chars();
    let Some(first) = rest.next() else {
        return false;
    };
    let rest = rest.as_str();
    let other = if first.is_uppercase() {
        first.to_lowercase().to_string()
    } else {
        first.to_uppercase().to_string()
    };
    [first.to_string(), other].iter().any(|first| {
        let words = format!("{first}{rest}");
        typed.match_indices(&words).any(|(at, _)| {
            let before = typed.get(..at).and_then(|text| text.chars().next_back());
            let after = typed
                .get(at + words.len()..)
                .and_then(|text| text.chars().next());
            let bounds = |edge: Option<char>, inner: Option<char>| {
                let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
                !(is_word(edge) && is_word(inner))
            };
            bounds(before, words.chars().next()) && bounds(after, words.chars().next_back())
        })
    })
}

fn is_time(text: &str) -> bool {
    let text = text.trim();
    let formats = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"];
    text.parse::<NaiveDate>().is_ok()
        || chrono::DateTime::parse_from_rfc3339(text).is_ok()
        || formats
            .iter()
            .any(|format| NaiveDateTime::parse_from_str(text, format).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_argument_stands_in_the_words_of_the_owner() {
        let schema = json!({"properties": {"op": {"enum": ["add", "list"]}}});
        let check = |typed: &str, input: Value, expected: bool| {
            assert_eq!(
                spell_out(typed, &input, &schema),
                expected,
                "{typed}: {input}"
            );
        };
        check(
            "please run `make test` now",
            json!({"command": "make test"}),
            true,
        );
        check(
            "tell Ana I am late",
            json!({"to": "Ana", "text": "I am late"}),
            true,
        );
        check(
            "remind me tomorrow at 9 to call mum",
            json!({"op": "add", "at": "2026-11-25T09:00", "text": "Call mum", "deliver": true}),
            true,
        );
        check(
            "pay 20 to Bob",
            json!({"to": "Bob", "amount": 20, "tags": ["pay"]}),
            true,
        );
        check("pay 20 to Bob", json!({"to": "Bob", "amount": 2}), false);
        check("pay 20 to Bob", json!({"to": "Bo", "amount": 20}), false);
        check("thanks", json!({"command": "curl http://a.example"}), false);
        check("run it", json!({}), false);
        check("run it", json!({"at": "2026-11-25"}), false);
        check("", json!({"text": ""}), false);
    }
}
