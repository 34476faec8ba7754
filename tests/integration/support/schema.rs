//! Holds documents against the JSON Schemas in `share/schemas`: the keywords that stand in them, and no others.

use std::path::PathBuf;

use serde_json::Value;

/// A schema of the project.
pub(crate) struct Schema(Value);

impl Schema {
    /// Reads `share/schemas/NAME.schema.json`.
    pub(crate) fn read(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join(format!("share/schemas/{name}.schema.json"));
        let text = std::fs::read_to_string(&path).expect("a schema");
        Self(serde_json::from_str(&text).expect("JSON"))
    }

    /// Returns what is wrong with a document.
    pub(crate) fn trouble(&self, document: &Value) -> Option<String> {
        self.check(&self.0, document, "").err()
    }

    fn check(&self, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("{place}: {what}: {value:.200}"));
        for (keyword, wanted) in schema.as_object().expect("an object") {
            let text = value.as_str();
            let length = text.map(|text| text.chars().count() as u64);
            let fits = match keyword.as_str() {
                "$schema" | "title" | "description" | "$defs" => true,
                "$ref" => {
                    let path = wanted.as_str().and_then(|path| path.strip_prefix('#'));
                    let found = self.0.pointer(path.expect("a place")).expect("it is there");
                    self.check(found, value, place)?;
                    true
                }
                "const" => value == wanted,
                "enum" => wanted.as_array().expect("a list").contains(value),
                "type" => match wanted {
                    Value::Array(types) => types.iter().any(|one| is_a(value, one)),
                    one => is_a(value, one),
                },
                "minLength" => length.is_none_or(|length| Some(length) >= wanted.as_u64()),
                "maxLength" => length.is_none_or(|length| Some(length) <= wanted.as_u64()),
                "minimum" => value
                    .as_f64()
                    .is_none_or(|number| Some(number) >= wanted.as_f64()),
                "maximum" => value
                    .as_f64()
                    .is_none_or(|number| Some(number) <= wanted.as_f64()),
                "pattern" => {
                    let fits = pattern(wanted.as_str().expect("a pattern"));
                    text.is_none_or(fits)
                }
                "maxItems" => value
                    .as_array()
                    .is_none_or(|items| Some(items.len() as u64) <= wanted.as_u64()),
                "required" => {
                    let names = wanted.as_array().expect("a list").iter();
                    let missing: Vec<&str> = names
                        .filter_map(Value::as_str)
                        .filter(|name| value.is_object() && value.get(name).is_none())
                        .collect();
                    if !missing.is_empty() {
                        return wrong(&format!("{missing:?} is missing"));
                    }
                    true
                }
                "properties" => {
                    for (name, schema) in wanted.as_object().expect("an object") {
                        if let Some(field) = value.get(name) {
                            self.check(schema, field, &format!("{place}/{name}"))?;
                        }
                    }
                    true
                }
                "items" => {
                    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(wanted, item, &format!("{place}/{at}"))?;
                    }
                    true
                }
                "anyOf" => {
                    let all = wanted.as_array().expect("a list").iter();
                    let troubles: Vec<String> = all
                        .clone()
                        .filter_map(|one| self.check(one, value, place).err())
                        .collect();
                    if troubles.len() == all.len() {
                        return wrong(&format!("none of {troubles:?}"));
                    }
                    true
                }
                other => panic!("the keyword {other} is not known here"),
            };
            if !fits {
                return wrong(&format!("{keyword} {wanted:.100}"));
            }
        }
        Ok(())
    }
}

fn is_a(value: &Value, name: &Value) -> bool {
    match name.as_str().expect("a type") {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no type {other}"),
    }
}

/// Returns what matches a pattern; there are three.
fn pattern(pattern: &str) -> fn(&str) -> bool {
    match pattern {
        "^[A-Za-z0-9_-]{1,64}$" => |text| {
            (1..=64).contains(&text.len())
                && text
                    .bytes()
                    .all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-')
        },
        "^[a-z][a-z0-9_-]*$" => |text| {
            text.starts_with(|c: char| c.is_ascii_lowercase())
                && text
                    .bytes()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_' || c == b'-')
        },
        "^[^\\u0000-\\u001f\\u007f-\\u009f]+$" => {
            |text| !text.is_empty() && !text.contains(char::is_control)
        }
        other => panic!("the pattern {other} is not known here"),
    }
}
