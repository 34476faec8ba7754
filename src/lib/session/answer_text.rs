//! The text of an answer for people. A persona answers with a plan, as JSON; only its messages are text, and neither thoughts
//! nor JSON must be searchable or remembered.

use std::borrow::Cow;

use serde_json::Value;

/// Returns the words of an answer for those who read it: of a plan the texts of its messages, one a line; empty when it
/// has none.
pub fn said(answer: &str) -> Cow<'_, str> {
    match messages(answer) {
        Some(messages) => Cow::Owned(messages.join("\n")),
        None => Cow::Borrowed(answer),
    }
}

/// Returns the messages of a plan; `None` for what is not a plan.
fn messages(answer: &str) -> Option<Vec<String>> {
    if !answer.trim_start().starts_with(['[', '{']) {
        return None;
    }
    let value: Value = serde_json::from_str(answer.trim()).ok()?;
    let tasks = value.as_array().or_else(|| value["plan"].as_array())?;
    let kind = |task: &Value| task["kind"].as_str().map(str::to_owned);
    let kinds: Vec<String> = tasks.iter().map(kind).collect::<Option<_>>()?;
    let said = tasks.iter().zip(kinds).filter(|(_, kind)| kind == "send");
    let texts = said.filter_map(|(task, _)| task["text"].as_str().map(str::to_owned));
    Some(texts.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_plan_only_the_messages_are_said() {
        let check = |answer: &str, expected: &str| assert_eq!(said(answer), expected, "{answer}");
        check("Hello [1].", "Hello [1].");
        check("[1, 2]", "[1, 2]");
        check(r#"{"a": 1}"#, r#"{"a": 1}"#);
        check(
            r#"[{"kind":"send","text":"Hi"#,
            r#"[{"kind":"send","text":"Hi"#,
        );
        check("[]", "");
        check(
            r#"[{"kind":"think","text":"secret"},{"kind":"send","text":"Hi."},{"kind":"wait","delay":3},{"kind":"send","text":"Bye."}]"#,
            "Hi.\nBye.",
        );
        check(r#"{"plan":[{"kind":"xsend","to":"1","text":"psst"}]}"#, "");
    }
}
