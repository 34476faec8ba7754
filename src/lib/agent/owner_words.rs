//! Recognizes calls whose every argument occurs in the owner's own words of this turn, so that nobody else chose
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

/// Returns true when every argument in `input` is in the `typed` words of the owner, and at least one does.
/// A date or time may be worked out where one is wanted, and a switch set. What is left empty says nothing where the schema
/// lets it be left out (an empty text would empty a file), and a choice where it is the usual one or takes nothing away.
/// The name of a field that the schema does not know is an argument, too: in a map of people it is one of them.
pub(super) fn spell_out(typed: &str, input: &Value, schema: &Value) -> bool {
    let mut found = false;
    let words = Words {
        typed,
        root: schema,
    };
    !typed.trim().is_empty() && words.spell(input, (schema, Field::default()), &mut found) && found
}

/// What the owner typed, and the whole schema, to which parts of it refer.
struct Words<'a> {
    typed: &'a str,
    root: &'a Value,
}

/// How far references and alternatives of a schema are followed.
const MAX_STEPS: u32 = 8;

/// Returns what `pick` finds in a schema, in what it refers to, or in one of its alternatives.
fn within<'a>(
    root: &'a Value,
    schema: &'a Value,
    steps: u32,
    pick: &dyn Fn(&'a Value) -> Option<&'a Value>,
) -> Option<&'a Value> {
    if steps == 0 {
        return None;
    }
    let reference = schema.get("$ref").and_then(Value::as_str);
    let referred = reference.and_then(|path| root.pointer(path.strip_prefix('#')?));
    let alternatives = ["anyOf", "oneOf", "allOf"]
        .into_iter()
        .filter_map(|name| schema.get(name)?.as_array())
        .flatten();
    pick(schema).or_else(|| {
        let mut further = referred.into_iter().chain(alternatives);
        further.find_map(|schema| within(root, schema, steps - 1, pick))
    })
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

impl Words<'_> {
    fn spell(&self, value: &Value, (schema, field): (&Value, Field), found: &mut bool) -> bool {
        let typed = self.typed;
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
                let of_item = within(self.root, schema, MAX_STEPS, &|one| one.get("items"));
                let of_item = of_item.unwrap_or(&Value::Null);
                items
                    .iter()
                    .all(|item| self.spell(item, (of_item, field), found))
            }
            Value::Object(fields) => {
                let required = schema.get("required").and_then(Value::as_array);
                fields.iter().all(|(name, value)| {
                    let of_field = within(self.root, schema, MAX_STEPS, &|one| {
                        one.get("properties")?.get(name)
                    });
                    if of_field.is_none() && !(stands(typed, name) && says_something(value)) {
                        return false;
                    }
                    let is_required =
                        required.is_some_and(|names| names.iter().any(|one| one == name));
                    let of_field = of_field.unwrap_or(&Value::Null);
                    self.spell(value, (of_field, Field { name, is_required }), found)
                })
            }
        }
    }
}

/// Returns false for what sets a switch or is left empty.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::String(text) => !text.trim().is_empty(),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => true,
    }
}

/// Returns true when `words` are in `typed`, not as a part of a longer word or number; the case of the first letter
/// does not matter.
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
            let before = typed.get(..at).unwrap_or_default().chars().rev();
            let after = typed.get(at + words.len()..).unwrap_or_default().chars();
            words.chars().next().is_some_and(|c| ends_at(c, before))
                && words.chars().next_back().is_some_and(|c| ends_at(c, after))
        })
    })
}

/// Returns true when no word or number that has `edge` continues with `outside`, the characters from there on: 99 is no
/// number in 3.99.
fn ends_at(edge: char, mut outside: impl Iterator<Item = char>) -> bool {
    match outside.next() {
        Some(c) if c.is_alphanumeric() => !edge.is_alphanumeric(),
        Some('.' | ',' | '\'' | '’' | '\u{a0}' | '\u{202f}') if edge.is_numeric() => {
            !outside.next().is_some_and(char::is_numeric)
        }
        _ => true,
    }
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
                "command": {}, "to": {}, "text": {}, "at": {}, "deliver": {}, "amount": {}, "tags": {}, "path": {},
                "content": {}, "note": {}, "id": {}, "start": {}, "due_at": {}, "startTime": {}, "end_date": {},
                "users": {"additionalProperties": {"type": "boolean"}},
                "guests": {"items": {"$ref": "#/$defs/Guest"}},
                "place": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Place"}]},
            },
            "$defs": {
                "Guest": {"properties": {"email": {"type": "string"}}},
                "Place": {"properties": {"city": {"type": "string"}}, "anyOf": [{"$ref": "#/$defs/Place"}]},
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
        for (typed, amount) in [
            ("pay 3.99 to Bob", 99),
            ("pay 3.99 to Bob", 3),
            ("pay 1,000 to Bob", 1),
            ("pay 1'000 to Bob", 1),
            ("pay 20.", 0),
        ] {
            check(typed, json!({"amount": amount}), false);
        }
        check("pay 3.99", json!({"amount": 3.99}), true);
        check("pay 20, please", json!({"amount": 20}), true);
        // Whoever is named by a field is chosen as well.
        let share = "please share plan.md";
        for users in [
            json!({"eve@a.example": true}),
            json!({"eve@a.example": ""}),
            json!({"eve@a.example": null}),
            json!({"share": true}),
        ] {
            check(share, json!({"path": "plan.md", "users": users}), false);
        }
        check(share, json!({"path": "plan.md", "notify": true}), false);
        let invite = "invite bob@x.org to Rome";
        let guest = json!({"guests": [{"email": "bob@x.org"}], "place": {"city": "Rome"}});
        check(invite, guest, true);
        for other in [
            json!({"guests": [{"email": "eve@a.example"}]}),
            json!({"place": {"city": "Rome", "street": "x"}}),
        ] {
            check(invite, other, false);
        }
        check(
            "share plan.md with bob as reader",
            json!({"path": "plan.md", "users": {"bob": "reader"}}),
            true,
        );
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
