//! `more_tools`: descriptions of rarely needed tools, on request of the model. Until then they cost nothing, and
//! the request before the conversation stays the same.

use serde_json::{Value, json};

use super::tool::ToolOutput;
use crate::message::ToolCall;
use crate::provider::ToolSpec;
use crate::text;

/// What the model calls it.
pub(super) const NAME: &str = "more_tools";
/// Names that are in its description; the rest is listed when it is asked.
const NAMES: usize = 40;
/// Characters of a description in a list.
const BRIEF: usize = 120;

/// Returns how it is offered; `None` when there is nothing more.
pub(super) fn spec(rare: &[ToolSpec]) -> Option<ToolSpec> {
    let names: Vec<&str> = rare
        .iter()
        .take(NAMES)
        .map(|spec| spec.name.as_ref())
        .collect();
    let rest = rare.len().saturating_sub(NAMES);
    let rest = if rest > 0 {
        format!(" and {rest} more")
    } else {
        String::new()
    };
    (!names.is_empty()).then(|| ToolSpec {
        name: NAME.into(),
        description: format!(
            "More tools: {}{rest}. With name alone: how it is used. With input: use it.",
            names.join(", ")
        )
        .into(),
        schema: json!({
            "type": "object",
            "properties": {"name": {"type": "string"}, "input": {"type": "object"}}
        })
        .into(),
    })
}

/// Returns the call that is meant by `call`: with an input, that of the tool it names.
pub(super) fn meant(call: ToolCall) -> ToolCall {
    let name = call
        .input
        .get("name")
        .and_then(Value::as_str)
        .filter(|name| *name != NAME);
    let (Some(name), Some(input), NAME) = (name, call.input.get("input"), call.name.as_str())
    else {
        return call;
    };
    ToolCall {
        id: call.id,
        name: name.to_owned(),
        input: input.clone(),
    }
}

/// Answers how a tool is used, or which there are.
pub(super) fn describe(rare: &[ToolSpec], input: &Value) -> ToolOutput {
    let name = input
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if let Some(spec) = rare.iter().find(|spec| spec.name == name) {
        return ToolOutput::ok(format!(
            "{}: {}\ninput: {}",
            spec.name, spec.description, spec.schema
        ));
    }
    let line =
        |spec: &ToolSpec| format!("{}: {}", spec.name, text::shorten(&spec.description, BRIEF));
    let list = rare.iter().map(line).collect::<Vec<String>>().join("\n");
    match name {
        "" => ToolOutput::ok(list),
        name => ToolOutput::error(format!(
            "no such tool is called {:?}; there are:\n{list}",
            text::shorten(name, 80)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rare() -> Vec<ToolSpec> {
        vec![ToolSpec {
            name: "a".into(),
            description: "Does a.".into(),
            schema: json!({"type": "object"}).into(),
        }]
    }

    #[test]
    fn a_call_through_it_is_the_tools_own() {
        let call = |name: &str, input: Value| ToolCall {
            id: "1".into(),
            name: name.into(),
            input,
        };
        assert_eq!(
            meant(call(NAME, json!({"name": "a", "input": {"x": 1}}))),
            call("a", json!({"x": 1}))
        );
        for same in [
            call(NAME, json!({"name": "a"})),
            call("exec", json!({"name": "a", "input": {}})),
            call(NAME, json!({"name": NAME, "input": {}})),
        ] {
            assert_eq!(meant(same.clone()), same);
        }
    }

    #[test]
    fn it_says_what_there_is_and_how_it_is_used() {
        assert_eq!(spec(&[]), None);
        assert_eq!(
            describe(&rare(), &json!({"name": "a"})),
            ToolOutput::ok("a: Does a.\ninput: {\"type\":\"object\"}")
        );
        assert_eq!(describe(&rare(), &json!({})), ToolOutput::ok("a: Does a."));
        assert_eq!(
            describe(&rare(), &json!({"name": "b"})),
            ToolOutput::error("no such tool is called \"b\"; there are:\na: Does a.")
        );
    }
}
