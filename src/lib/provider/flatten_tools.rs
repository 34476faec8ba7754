//! Flattens tool calls and results into text, for a model that has no tools.

use super::wire;
use crate::message::{Block, Message, Role};

/// Returns `messages` with calls and their results as plain text, which every server takes. Without it
/// a server that knows no tools refuses each conversation that ever used one.
pub fn without_tools(messages: &[Message]) -> Vec<Message> {
    let flattened = |message: &Message| {
        let blocks = message.content.iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(Block::text(format!(
                "[I used the tool {}: {}]",
                call.name, call.input
            ))),
            Block::ToolResult(result) => {
                let answered = if result.is_error {
                    "the tool failed"
                } else {
                    "the tool answered"
                };
                Some(Block::context(format!(
                    "[{answered}:]\n{}",
                    wire::result_text(&result.text)
                )))
            }
            // It led to calls that are text now.
            Block::Thinking(_) => None,
            Block::Text { .. } | Block::Context { .. } | Block::Image { .. } => Some(block.clone()),
        });
        Message::new(message.role, blocks.collect())
    };
    let mut messages: Vec<Message> = messages.iter().map(flattened).collect();
    messages.retain(|message| message.role == Role::User || !message.content.is_empty());
    messages
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::provider::test_server::{call, message, result, said, user};

    #[test]
    fn calls_and_results_become_words_and_the_rest_stays() {
        let told = without_tools(&[
            user("List them."),
            message(
                Role::Assistant,
                [
                    said("I look."),
                    call("t1", "exec", json!({"command": "ls"})),
                    call("t2", "read", json!({})),
                ],
            ),
            message(
                Role::User,
                [
                    result("t1", "a.txt", false),
                    result("t2", "no such file", true),
                ],
            ),
        ]);
        let context = |text: &str| Block::Context {
            text: text.to_owned(),
        };
        let expected = [
            user("List them."),
            message(
                Role::Assistant,
                [
                    said("I look."),
                    said("[I used the tool exec: {\"command\":\"ls\"}]"),
                    said("[I used the tool read: {}]"),
                ],
            ),
            message(
                Role::User,
                [
                    context("[the tool answered:]\na.txt"),
                    context("[the tool failed:]\nno such file"),
                ],
            ),
        ];
        assert_eq!(told, expected);
        assert_eq!(without_tools(&expected), expected);
    }
}
