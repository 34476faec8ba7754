//! Calls that the owner's own words of this turn spell out: every argument stands there, so nobody else chose
//! one.

use chrono::{NaiveDate, NaiveDateTime};
use serde_json::Value;

/// Choices of a schema that take nothing away from anybody, as servers and our own tools call them.
const HARMLESS: [&str; 9] = [
    "add", "create", "new", "list", "get", "read", "show", "search", "status",
];

/// Names of fields in which a date or time may be worked out, as they or as their last word: `due_at`, `startTime`.
const TIMES: [&str; 16] = [
    "at", "on", "date", "day", "time", "datetime", "start", "end", "begin", "due", "until", "when",
    "since", "from", "to", "deadline",
];

/// Returns true when every argument in `input` stands in the `typed` words of the owner, and at least one does.
/// A date or time may be worked out where one is wanted, and a switch set. What is left empty says nothing where the schema
/// lets it be left out (an empty text would empty a file), and a choice where it is the usual one or takes nothing away.
pub(super) fn spell_out(typed: &str, input: &Value, schema: &Value) -> bool {
    let mut found = false;
    !typed.trim().is_empty() && holds(typed, input, (schema, Field::default()), &mut found) && found
}

/// Where in its object a value stands.
#[derive(Clone, Copy, Default)]
struct Field<'a> {
    name: &'a str,
    is_required: bool,
}

impl Field<'_> {
    fn wants_time(self) -> bool {
        let last = self
            .name
            .rsplit(|c: char| c == '_' || c == '-' || c.is_whitespace());
        let last = last.map(str::to_ascii_lowercase).next().unwrap_or_default();
        let is_time = |word: &&str| last == **word || self.name.ends_with(&capitalised(word));
        TIMES.iter().any(is_time)
    }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn holds(typed: &str, value: &Value, (schema, field): (&Value, Field), found: &mut bool) -> bool {
    match value {
        Value::Null | Value::Bool(_) => true,
        Value::Number(number) => {
            let stands = stands(typed, &number.to_string());
            *found |= stands;
            stands
        }
        Value::String(text) if text.trim().is_empty() => !field.is_required,
        Value::String(text) if field.wants_time() && is_time(text) => true,
        Value::String(text) => {
            let choices = schema.get("enum").and_then(Value::as_array);
            let is_usual =
                HARMLESS.contains(&text.as_str()) || schema.get("default") == Some(value);
            if is_usual && choices.is_some_and(|choices| choices.contains(value)) {
                return true;
            }
            let stands = stands(typed, text.trim());
            *found |= stands;
            stands
        }
        Value::Array(items) => {
            let of_item = schema.get("items").unwrap_or(&Value::Null);
            items
                .iter()
                .all(|item| holds(typed, item, (of_item, field), found))
        }
        Value::Object(fields) => {
            let required = schema.get("required").and_then(Value::as_array);
            fields.iter().all(|(name, value)| {
                let is_required = required.is_some_and(|names| names.iter().any(|one| one == name));
                let of_field = &schema["properties"][name.as_str()];
                holds(typed, value, (of_field, Field { name, is_required }), found)
            })
        }
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
        let schema = json!({
            "properties": {
                "op": {"enum": ["add", "list", "remove"]},
                "who": {"enum": ["me", "everybody"], "default": "me"},
            },
            "required": ["op", "content"],
        });
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
        let notes = "compare notes.md with http://a.example";
        check(notes, json!({"path": "notes.md", "content": ""}), false);
        check(notes, json!({"path": "notes.md", "content": " \n"}), false);
        check(
            notes,
            json!({"path": "notes.md", "content": "2026-11-25"}),
            false,
        );
        check(notes, json!({"path": "notes.md", "note": ""}), true);
        let backup = "how is my job backup? and read http://a.example";
        check(backup, json!({"op": "list", "id": "backup"}), true);
        check(backup, json!({"op": "remove", "id": "backup"}), false);
        check(
            "remove the job backup",
            json!({"op": "remove", "id": "backup"}),
            true,
        );
        check(notes, json!({"path": "notes.md", "who": "me"}), true);
        check(
            notes,
            json!({"path": "notes.md", "who": "everybody"}),
            false,
        );
        for name in ["start", "due_at", "startTime", "end_date"] {
            check(notes, json!({"path": "notes.md", name: "2026-11-25"}), true);
        }
    }
}
