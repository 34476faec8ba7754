//! The text of an answer for people. A persona answers with a plan, as JSON; only its messages are text, and neither thoughts
//! nor JSON must be searchable or remembered.

use std::borrow::Cow;

use crate::message::plan;

/// Returns the words of an answer for those who read it: of a plan the texts of its messages; empty when it has none.
pub fn said(answer: &str) -> Cow<'_, str> {
    plan::said(answer).map_or(Cow::Borrowed(answer), Cow::Owned)
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
            r#"[{"kind":"think","text":"secret"},{"kind":"send","text":"Hi"#,
            "Hi",
        );
        check("[]", "");
        check(
            r#"[{"kind":"think","text":"secret"},{"kind":"send","text":"Hi."},{"kind":"wait","delay":3},{"kind":"send","text":"Bye."}]"#,
            "Hi.\n\nBye.",
        );
        check(r#"{"plan":[{"kind":"xsend","to":"1","text":"psst"}]}"#, "");
        let fenced = "Sure:\n```json\n[{\"kind\": \"think\", \"text\": \"secret\"}, {\"kind\": \"send\", \"text\": \"Hi.\"}]\n```";
        check(fenced, "Hi.");
        check("# think\nsecret\n# send\nHi.", "Hi.");
        check("# think\nsecret\n# wait\nfor ever\n# send\nHi.", "Hi.");
        check(r#"[{"kind":"think","text":"secret"},{"kind":"se"#, "");
        // Words of an agent without plans.
        for words in [
            "# Recipe\n\nBoil it.\n\n# Plan\n\nEat it.",
            "Write:\n```json\n{\"kind\": \"Pod\", \"spec\": [1]}\n```",
            r#"{"kind": "Deployment"}"#,
            "- [ ] milk\n- [ ] eggs",
            "Write `let x = [];` and `tags: []`.",
            "# Remember\n\nBuy milk.",
            "# Send\n\nTo whom?",
        ] {
            check(words, words);
        }
    }
}
