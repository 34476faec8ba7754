//! `!exec …`, `!read …`, `!search …`: the person's own orders to a tool, and its answer as it is.

use serde_json::json;

use super::request::Turn;
use super::{Act, quote, say};
use crate::message::ToolResult;

/// Results of `!search` and of a question.
pub(super) const MAX_RESULTS: u32 = 6;

/// Turns an order into a call, or says why not.
pub(super) fn act(words: &str, turn: &Turn<'_>) -> Act {
    let (word, argument) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
    let argument = argument.trim();
    let (tool, what, input) = match word {
        "!exec" => ("exec", "COMMAND", json!({"command": argument})),
        "!read" => ("read", "FILE", json!({"path": argument})),
        "!search" => (
            "memory_search",
            "WORDS",
            json!({"query": super::query(argument), "max_results": MAX_RESULTS}),
        ),
        _ => {
            return say(format!(
                "I do not know `{}`. {}",
                quote(word).replace('`', "'"),
                super::small_talk::introduction(turn)
            ));
        }
    };
    if argument.is_empty() {
        return say(format!("Something is missing: write `{word} {what}`."));
    }
    super::call(turn, tool, input)
}

/// Returns the results as they are.
pub(super) fn report(results: &[&ToolResult]) -> String {
    let reports: Vec<String> = results
        .iter()
        .map(|result| match (result.is_error, result.text.trim_end()) {
            (true, "") => "That did not work; the tool gave no reason.".to_owned(),
            (true, why) => format!("That did not work:\n{}", fenced(why)),
            (false, "") => "Done; there was no output.".to_owned(),
            (false, output) => fenced(output),
        })
        .collect();
    reports.join("\n\n")
}

/// Returns `text` in a code block whose fence is longer than any in it.
pub(super) fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(3.max(longest + 1));
    format!("{fence}\n{text}\n{fence}")
}
