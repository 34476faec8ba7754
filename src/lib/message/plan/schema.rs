//! The JSON Schema of a plan, for vendors that enforce one.

use serde_json::{Value, json};

/// Returns the schema: an object with the array `plan`, because no vendor takes an array alone.
pub fn schema() -> Value {
    let text = json!({"type": "string"});
    let kinds = [
        ("think", vec![("text", text.clone())]),
        ("send", vec![("text", text.clone())]),
        (
            "wait",
            vec![("delay", json!({"type": "number", "description": "seconds"}))],
        ),
        ("remember", vec![("text", text.clone())]),
        ("react", vec![("emoji", text.clone())]),
        (
            "sticker",
            vec![("set", text.clone()), ("name", text.clone())],
        ),
        ("send_media", vec![("path", text.clone())]),
        ("xsend", vec![("to", text.clone()), ("text", text.clone())]),
        (
            "retrieve",
            vec![("urls", json!({"type": "array", "items": text}))],
        ),
        ("block", vec![]),
        ("unblock", vec![]),
        ("clear", vec![]),
    ];
    let tasks: Vec<Value> = kinds
        .into_iter()
        .map(|(kind, fields)| task(kind, fields))
        .collect();
    json!({
        "type": "object",
        "properties": {"plan": {"type": "array", "items": {"anyOf": tasks}}},
        "required": ["plan"],
        "additionalProperties": false,
    })
}

/// Every field is required, as the strict form of the vendors wants it.
fn task(kind: &str, fields: Vec<(&str, Value)>) -> Value {
    let mut properties = json!({
        "kind": {"type": "string", "enum": [kind]},
        "id": {"type": "string"},
        "depends_on": {"type": "array", "items": {"type": "string"}},
        "reply_to": {"type": ["string", "null"]},
    });
    let mut required = vec!["kind", "id", "depends_on", "reply_to"];
    for (name, schema) in fields {
        properties[name] = schema;
        required.push(name);
    }
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}
