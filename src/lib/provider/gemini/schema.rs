//! The part of JSON Schema that Gemini's function declarations accept.
//!
//! Their `Schema` (<https://ai.google.dev/api/caching#Schema>, read 2026-11) is a part of OpenAPI 3.0: with one unknown word
//! in one tool, such as `additionalProperties`, every request is refused. What is left out here is still enforced: the
//! arguments are checked against the tool's own schema before it runs.

use serde_json::{Map, Value, json};

/// The words that are taken as they are.
const KEPT: [&str; 15] = [
    "title",
    "description",
    "nullable",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "default",
    "example",
    "propertyOrdering",
];

/// Returns the schema of a function's parameters; `None` when it has none.
pub(super) fn parameters(schema: &Value) -> Option<Value> {
    schema["properties"]
        .as_object()
        .filter(|properties| !properties.is_empty())?;
    Some(plain(schema))
}

fn plain(schema: &Value) -> Value {
    let mut kept = Map::new();
    for key in KEPT {
        if let Some(value) = schema.get(key) {
            kept.insert(key.to_owned(), value.clone());
        }
    }
    let (kind, nullable) = kind(&schema["type"]);
    if nullable {
        kept.insert("nullable".to_owned(), json!(true));
    }
    let choices = schema["enum"]
        .as_array()
        .cloned()
        .or_else(|| schema.get("const").map(|value| vec![value.clone()]));
    // Only words can be chosen from.
    if let Some(choices) = choices.filter(|choices| choices.iter().all(Value::is_string)) {
        kept.insert("enum".to_owned(), Value::Array(choices));
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(choices) = schema[key].as_array() {
            kept.insert("anyOf".to_owned(), choices.iter().map(plain).collect());
        }
    }
    match kind {
        Some("object") => {
            if let Some(properties) = schema["properties"].as_object() {
                let required = schema["required"].as_array().into_iter().flatten();
                let known: Vec<&Value> = required
                    .filter(|name| {
                        name.as_str()
                            .is_some_and(|name| properties.contains_key(name))
                    })
                    .collect();
                if !known.is_empty() {
                    kept.insert("required".to_owned(), json!(known));
                }
                let properties: Map<String, Value> = properties
                    .iter()
                    .map(|(name, value)| (name.clone(), plain(value)))
                    .collect();
                kept.insert("properties".to_owned(), Value::Object(properties));
            }
        }
        Some("array") => {
            let items = schema.get("items").filter(|items| items.is_object());
            kept.insert(
                "items".to_owned(),
                items.map_or_else(|| json!({"type": "string"}), plain),
            );
        }
        Some("string") if matches!(schema["format"].as_str(), Some("date-time" | "enum")) => {
            kept.insert("format".to_owned(), schema["format"].clone());
        }
        Some(_) => {}
        None if kept.contains_key("anyOf") => return Value::Object(kept),
        None => {}
    }
    kept.insert("type".to_owned(), json!(kind.unwrap_or("string")));
    Value::Object(kept)
}

/// Returns the one type of a schema, and whether it may be null next to that.
fn kind(value: &Value) -> (Option<&str>, bool) {
    match value {
        Value::Array(kinds) => {
            let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            (
                kinds.iter().copied().find(|kind| *kind != "null"),
                kinds.contains(&"null"),
            )
        }
        value => (value.as_str(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gemini_does_not_know_is_left_out_and_the_rest_stays() {
        let schema = json!({
            "$schema": "x", "type": "object", "additionalProperties": false, "required": ["path", "gone"],
            "properties": {
                "path": {"type": "string", "format": "uri", "description": "Where.", "minLength": 1},
                "lines": {"type": ["integer", "null"], "exclusiveMinimum": 0, "maximum": 9},
                "how": {"const": "fast"},
                "level": {"enum": [1, 2], "type": "integer"},
                "tags": {"type": "array"},
                "either": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}}]},
                "free": {"type": "object"},
            },
        });
        let expected = json!({
            "type": "object", "required": ["path"],
            "properties": {
                "path": {"type": "string", "description": "Where.", "minLength": 1},
                "lines": {"type": "integer", "nullable": true, "maximum": 9},
                "how": {"type": "string", "enum": ["fast"]},
                "level": {"type": "integer"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "either": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}}]},
                "free": {"type": "object"},
            },
        });
        assert_eq!(parameters(&schema), Some(expected));
        assert_eq!(
            parameters(&json!({"type": "object", "properties": {}})),
            None
        );
    }
}
