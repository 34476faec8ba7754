//! Checks a tool's arguments against the part of JSON Schema that tool descriptions use:
//! `type`, `properties`, `required`, `enum`, `minimum`, `items`, `additionalProperties: false`.

use serde_json::Value;

use crate::message::RAW_INPUT;
use crate::text;

/// Checks `value` against `schema`. When `closed`, it has no other fields than those that the schema names.
///
/// # Errors
/// The first thing that does not fit, naming the field.
pub(super) fn check(schema: &Value, value: &Value, closed: bool) -> Result<(), String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let is_meant = properties.is_some_and(|known| known.contains_key(RAW_INPUT));
    if let Some(written) = value.get(RAW_INPUT).filter(|_| !is_meant) {
        return Err(malformed(written));
    }
    if let Some(fields) = value.as_object().filter(|_| closed) {
        let is_known = |name: &&String| properties.is_some_and(|known| known.contains_key(*name));
        if let Some(name) = fields.keys().find(|name| !is_known(name)) {
            return Err(unknown(name, properties));
        }
    }
    at(schema, value, "")
}

/// Says why what a model wrote as arguments is not an object: too long an answer ends in the middle of one.
fn malformed(written: &Value) -> String {
    let why = match written.as_str().map(serde_json::from_str::<Value>) {
        Some(Err(error)) => text::visible(&error.to_string()),
        Some(Ok(_)) | None => "it is another type of JSON".to_owned(),
    };
    format!("they must be a JSON object, and are not ({why}); write the whole call again")
}

fn unknown(name: &str, known: Option<&serde_json::Map<String, Value>>) -> String {
    let known: Vec<&str> = known
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    let there = match known.is_empty() {
        true => "it takes none".to_owned(),
        false => format!("there are: {}", known.join(", ")),
    };
    format!("there is no field {name:?}; {there}")
}

fn at(schema: &Value, value: &Value, path: &str) -> Result<(), String> {
    let name = if path.is_empty() {
        "the arguments"
    } else {
        path
    };
    if let Some(wanted) = schema.get("type").and_then(Value::as_str)
        && !is_of(wanted, value)
    {
        return Err(format!(
            "{name} must be of type {wanted}, not {}",
            kind(value)
        ));
    }
    if let Some(choices) = schema.get("enum").and_then(Value::as_array)
        && !choices.contains(value)
    {
        let choices: Vec<String> = choices.iter().map(Value::to_string).collect();
        return Err(format!("{name} must be one of {}", choices.join(", ")));
    }
    if let (Some(minimum), Some(number)) = (
        schema.get("minimum").and_then(Value::as_f64),
        value.as_f64(),
    ) && number < minimum
    {
        return Err(format!("{name} must be at least {minimum}"));
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        for (number, value) in values.iter().enumerate() {
            at(items, value, &format!("{path}[{number}]"))?;
        }
    }
    match value {
        Value::Object(fields) => object(schema, fields, path),
        _ => Ok(()),
    }
}

fn object(
    schema: &Value,
    fields: &serde_json::Map<String, Value>,
    path: &str,
) -> Result<(), String> {
    let inside = |name: &str| {
        if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        }
    };
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            return Err(format!("the field {:?} is missing", inside(name)));
        }
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, value) in fields {
        match properties.and_then(|properties| properties.get(name)) {
            // Models write null for an optional field they leave out.
            Some(_) if value.is_null() => {}
            Some(schema) => at(schema, value, &inside(name))?,
            None if schema.get("additionalProperties") == Some(&Value::Bool(false)) => {
                return Err(unknown(&inside(name), properties));
            }
            None => {}
        }
    }
    Ok(())
}

fn is_of(wanted: &str, value: &Value) -> bool {
    match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        _ => true,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn verdict(value: &Value) -> Result<(), String> {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "limit": {"type": "integer", "minimum": 1},
                "op": {"enum": ["add", "list"]},
                "tags": {"type": "array", "items": {"type": "string"}}
            },
            "required": ["path"],
            "additionalProperties": false
        });
        check(&schema, value, false)
    }

    #[test]
    fn a_closed_schema_has_no_other_fields_and_says_which_there_are() {
        let schema = json!({"type": "object", "properties": {"query": {"type": "string"}}});
        let value = json!({"query": "x", "limit": 3});
        assert_eq!(check(&schema, &value, false), Ok(()));
        let why = check(&schema, &value, true).expect_err("unknown");
        assert_eq!(why, "there is no field \"limit\"; there are: query");
        let none = json!({"type": "object", "properties": {}});
        let why = check(&none, &value, true).expect_err("unknown");
        assert_eq!(why, "there is no field \"query\"; it takes none");
    }

    #[test]
    fn what_is_not_an_object_is_told_as_such_and_not_as_a_missing_field() {
        let any = json!({"type": "object", "properties": {"path": {"type": "string"}}});
        let why = |written: Value| {
            check(&any, &json!({ RAW_INPUT: written }), false).expect_err("malformed")
        };
        let torn = why(json!("{\"path\": \"a"));
        let expected = "they must be a JSON object, and are not (EOF while parsing a string at line 1 column 11); write the whole call again";
        assert_eq!(torn, expected);
        assert!(why(json!("[1]")).contains("another type of JSON"));
        assert!(why(json!([1])).contains("another type of JSON"));
        let own = json!({"type": "object", "properties": {RAW_INPUT: {"type": "string"}}});
        assert_eq!(check(&own, &json!({ RAW_INPUT: "x" }), true), Ok(()));
    }

    #[test]
    fn the_error_names_the_field() {
        assert_eq!(
            verdict(&json!({"path": "a", "limit": 2, "op": "add", "tags": ["x"]})),
            Ok(())
        );
        assert_eq!(verdict(&json!({"path": "a", "limit": null})), Ok(()));
        let error = |value| verdict(&value).expect_err("does not fit");
        assert_eq!(error(json!({})), "the field \"path\" is missing");
        assert_eq!(
            error(json!([])),
            "the arguments must be of type object, not array"
        );
        assert_eq!(
            error(json!({"path": 1})),
            "path must be of type string, not number"
        );
        assert_eq!(
            error(json!({"path": "a", "limit": 0})),
            "limit must be at least 1"
        );
        assert_eq!(
            error(json!({"path": "a", "op": "dance"})),
            "op must be one of \"add\", \"list\""
        );
        assert_eq!(
            error(json!({"path": "a", "tags": [1]})),
            "tags[0] must be of type string, not number"
        );
        assert_eq!(
            error(json!({"path": "a", "lines": 3})),
            "there is no field \"lines\"; there are: path, limit, op, tags"
        );
    }
}
