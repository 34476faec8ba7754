use super::*;
use crate::provider::loopback::{attempt, call, message, request, result, said, tools, user};

/// Checks what the provider says to `messages` with `exec` and `read` on offer.
async fn check(messages: Vec<Message>, expected: Block) {
    let mut asked = request(messages);
    asked.tools = tools();
    let (response, streamed) = attempt(&Offline::new(), &asked).await;
    let response = response.unwrap();
    assert_eq!(response.message, message(Role::Assistant, [expected.clone()]));
    assert_eq!(streamed, response.message.plain_text());
    let is_call = matches!(expected, Block::ToolCall(_));
    assert_eq!(response.stop, if is_call { StopReason::ToolUse } else { StopReason::EndTurn });
    assert!(response.usage.estimated && response.usage.input_tokens > 0 && response.usage.output_tokens > 0);
}

/// Returns the words said to `text`.
async fn words(text: &str) -> String {
    attempt(&Offline::new(), &request(vec![user(text)])).await.1
}

fn head() -> Block {
    Block::Context { text: "[Monday 09:00]".to_owned() }
}

/// A finished round of `!exec`.
fn round(output: Block) -> Vec<Message> {
    vec![
        message(Role::User, [head(), said("!exec ls")]),
        message(Role::Assistant, [call("offline_1", "exec", json!({"command": "ls"}))]),
        message(Role::User, [output]),
    ]
}

#[tokio::test]
async fn an_order_becomes_a_call() {
    check(
        vec![message(Role::User, [head(), said("!exec ls -l\ndate ")])],
        call("offline_1", "exec", json!({"command": "ls -l\ndate"})),
    )
    .await;
    check(vec![user("!read  notes/a b.md")], call("offline_1", "read", json!({"path": "notes/a b.md"}))).await;
}

#[tokio::test]
async fn the_result_is_shown_in_a_fence_longer_than_any_inside() {
    check(round(result("offline_1", "a.txt\nb.txt\n", false)), said("```\na.txt\nb.txt\n```")).await;
    check(round(result("offline_1", "x\n````\ny", false)), said("`````\nx\n````\ny\n`````")).await;
    check(round(result("offline_1", "\n", false)), said("Done; there was no output.")).await;
}

#[tokio::test]
async fn a_failure_is_told_plainly() {
    check(round(result("offline_1", "exit status 1", true)), said("That did not work:\n```\nexit status 1\n```")).await;
    check(round(result("offline_1", "", true)), said("That did not work; the tool gave no reason.")).await;
}

#[tokio::test]
async fn a_reminder_of_the_loop_beside_a_result_is_no_order() {
    let mut messages = round(result("offline_1", "ok", false));
    messages[2].content.push(said("!exec this is the loop's text"));
    check(messages, said("```\nok\n```")).await;
}

#[tokio::test]
async fn a_new_order_after_an_interrupted_call_is_followed_with_a_new_id() {
    let mut messages = round(result("offline_1", "interrupted", true));
    messages[2].content.extend([head(), said("!exec date")]);
    check(messages, call("offline_3", "exec", json!({"command": "date"}))).await;
}

#[tokio::test]
async fn an_order_without_its_tool_is_explained() {
    assert_eq!(
        words("!exec ls").await,
        "I cannot use `exec` here. It is offered only where every word is my owner's (`/new` begins such a conversation), and not at all when the configuration switches it off."
    );
}

#[tokio::test]
async fn an_incomplete_or_unknown_order_is_explained() {
    check(vec![user("!exec")], said("Something is missing: write `!exec COMMAND`.")).await;
    check(vec![user("!read ")], said("Something is missing: write `!read FILE`.")).await;
    assert!(words("!dance now").await.starts_with("I do not know `!dance`. No language model is configured"));
}

#[tokio::test]
async fn only_the_newest_message_gives_orders() {
    for text in ["so !exec ls", " !exec ls"] {
        assert!(words(text).await.starts_with("Hello! No language model is configured"), "{text}");
    }
    let old = vec![user("!exec ls"), Message::text(Role::Assistant, "done"), user("thanks")];
    let (_, said) = attempt(&Offline::new(), &request(old)).await;
    assert!(said.ends_with("Your message arrived: “thanks”"), "{said}");
}

#[tokio::test]
async fn anything_else_is_answered_honestly_and_quoted_short() {
    assert_eq!(
        words("Grüß\n dich").await,
        "Hello! No language model is configured, so I can only do simple things:\n\
         - `!exec COMMAND` runs a command\n- `!read FILE` shows a file\n\n\
         To give me a model, describe it in a file in `providers.d/` and name that file in `[providers] load` of `agent.toml`.\n\n\
         Your message arrived: “Grüß dich”"
    );
    assert!(words(&"x".repeat(500)).await.ends_with(&format!("“{}…”", "x".repeat(200))));
}

#[tokio::test]
async fn the_same_request_gets_the_same_answer() {
    let asked = request(vec![user("!read x")]);
    let (first, second) = (attempt(&Offline, &asked).await.0.unwrap(), attempt(&Offline, &asked).await.0.unwrap());
    assert_eq!(first, second);
}
