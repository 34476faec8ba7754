use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::message::{StopReason, Usage};
use crate::net::Timeouts;
use crate::provider::http::Answer;
use crate::provider::test_server::{
    End, Recorded, Reply, Server, assistant, attempt, call, client, message, request, user,
    with_wrong_node, wrong_value,
};
use crate::secret::Secret;

/// A text answer as the documentation records it.
const HELLO: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_01","type":"message","role":"assistant","content":[],"model":"test-model","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":7,"cache_read_input_tokens":1000,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Grüße"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":", 世界 👨‍👩‍👧!"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":15}}

event: message_stop
data: {"type":"message_stop"}

"#;

/// Thinking, text and two calls, the second with broken input.
const CALLS: &str = r#"event: message_start
data: {"type":"message_start","message":{"usage":{"input_tokens":472,"output_tokens":2}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I look."}}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_01","name":"exec","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"command\":"}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":" \"ls\"}"}}

event: content_block_start
data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_02","name":"read","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"path\": \"/x"}}

event: content_block_start
data: {"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_03","name":"now","input":{}}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":89}}

event: message_stop
data: {"type":"message_stop"}

"#;

fn provider(server: &Server) -> Anthropic {
    let mut provider = Anthropic::new(
        client(),
        &server.url,
        Some(Secret::new("sk-ant-test-0123456789")),
    );
    provider.endpoint.timeouts = Timeouts {
        head: Duration::from_secs(5),
        first: Duration::from_secs(5),
        between: Duration::from_secs(2),
    };
    provider
}

async fn exchange(reply: Reply, request: &Request) -> (Result<Response, Error>, String, Recorded) {
    let server = Server::start([reply]).await;
    let (result, streamed) = attempt(&provider(&server), request).await;
    (result, streamed, server.request())
}

/// Asks "hi" and returns the answer.
async fn answer(reply: Reply) -> Result<Response, Error> {
    exchange(reply, &request(vec![user("hi")])).await.0
}

async fn failure(reply: Reply) -> Error {
    answer(reply).await.expect_err("an error")
}

fn error_body(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
}

#[tokio::test]
async fn a_plain_exchange() {
    let (result, streamed, sent) = exchange(Reply::events(HELLO), &request(vec![user("hi")])).await;
    assert_eq!(sent.path, "/v1/messages");
    assert_eq!(sent.headers["x-api-key"], "sk-ant-test-0123456789");
    assert_eq!(sent.headers["anthropic-version"], "2023-06-01");
    assert_eq!(
        sent.headers["user-agent"],
        format!("agent-toolkit/{}", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(sent.headers["content-type"], "application/json");
    assert_eq!(
        sent.body,
        r#"{"model":"test-model","max_tokens":1024,"stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}"#
    );
    let text = "Grüße, 世界 👨‍👩‍👧!";
    assert_eq!(streamed, text);
    let usage = Usage {
        input_tokens: 25,
        output_tokens: 15,
        cache_read_tokens: 1000,
        cache_write_tokens: 7,
        estimated: false,
    };
    assert_eq!(
        result.unwrap(),
        Response {
            message: assistant(text),
            stop: StopReason::EndTurn,
            usage
        }
    );
}

#[tokio::test]
async fn letters_split_over_chunks_are_whole_again() {
    for size in [1, 2, 3, 7] {
        let response = answer(Reply::events(HELLO).in_chunks_of(size))
            .await
            .unwrap();
        assert_eq!(response.message.plain_text(), "Grüße, 世界 👨‍👩‍👧!");
    }
}

#[tokio::test]
async fn ids_that_are_empty_or_in_use_are_replaced() {
    let events = CALLS
        .replace("toolu_03", "toolu_01")
        .replace("toolu_02", "");
    let old = message(Role::Assistant, [call("toolu_01", "exec", json!({}))]);
    let asked = request(vec![user("hi"), old, user("hi")]);
    let (result, _, _) = exchange(Reply::events(&events), &asked).await;
    let mut ids: Vec<String> = result
        .unwrap()
        .message
        .tool_calls()
        .map(|call| call.id.clone())
        .collect();
    assert!(
        ids.iter()
            .all(|id| id.starts_with("call_") && id.len() <= 40),
        "{ids:?}"
    );
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[tokio::test]
async fn stop_reasons() {
    for (theirs, ours) in [
        ("end_turn", StopReason::EndTurn),
        ("stop_sequence", StopReason::EndTurn),
        ("pause_turn", StopReason::Pause),
        ("something_new", StopReason::EndTurn),
        ("tool_use", StopReason::EndTurn), // without a call there is nothing to run
        ("max_tokens", StopReason::MaxTokens),
        ("model_context_window_exceeded", StopReason::MaxTokens),
        ("refusal", StopReason::Refusal),
    ] {
        assert_eq!(
            answer(Reply::events(&HELLO.replace("end_turn", theirs)))
                .await
                .unwrap()
                .stop,
            ours,
            "{theirs}"
        );
    }
    for (theirs, ours) in [
        ("end_turn", StopReason::ToolUse),
        ("something_new", StopReason::ToolUse),
        ("max_tokens", StopReason::MaxTokens),
    ] {
        let events = CALLS.replace(
            r#""stop_reason":"tool_use""#,
            &format!(r#""stop_reason":"{theirs}""#),
        );
        assert_eq!(
            answer(Reply::events(&events)).await.unwrap().stop,
            ours,
            "{theirs} with calls"
        );
    }
}

#[tokio::test]
async fn errors_in_the_stream_are_typed_too() {
    let (start, _) = HELLO.split_once("event: message_delta").unwrap();
    for (kind, status) in [
        ("overloaded_error", 529),
        ("rate_limit_error", 429),
        ("api_error", 500),
        ("new_error", 500),
    ] {
        let event = format!("event: error\ndata: {}\n\n", error_body(kind, "Overloaded"));
        let error = failure(Reply::events(&event)).await;
        assert!(
            matches!(&error, Error::Busy { status: s, message, .. } if *s == status && message == "Overloaded"),
            "{error}"
        );
        assert!(!error.may_be_charged());
        // The same in the middle of an answer: the vendor worked for it.
        let error = failure(Reply::events(&format!("{start}{event}"))).await;
        assert!(
            matches!(&error, Error::Interrupted { reason, .. } if reason.contains("Overloaded")),
            "{error}"
        );
        assert!(error.may_be_charged() && error.retryable());
    }
    let event = format!(
        "event: error\ndata: {}\n\n",
        error_body("invalid_request_error", "prompt is too long")
    );
    assert!(matches!(
        failure(Reply::events(&event)).await,
        Error::ContextOverflow { .. }
    ));
    let error = failure(Reply::json(200, &error_body("authentication_error", "no"))).await;
    assert!(matches!(error, Error::Auth { status: 401, .. }), "{error}");
}

#[tokio::test]
async fn a_broken_answer_is_interrupted_and_may_be_charged() {
    let (start, _) = HELLO.split_once("event: message_stop").unwrap();
    let malformed = HELLO.replace(
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_bl"#,
    );
    for (reply, reason) in [
        (
            Reply::events(start),
            "the stream ended in the middle of the answer",
        ),
        (
            Reply::events(HELLO.trim_end()),
            "the stream ended in the middle of the answer",
        ),
        (Reply::events(start).end(End::Disconnect), "EOF"),
        (Reply::events(start).end(End::Stall), "no data for 2 s"),
        (
            Reply::events(""),
            "the stream ended in the middle of the answer",
        ),
        (Reply::events(&malformed), "malformed JSON in the stream"),
        (
            Reply::raw(200, "application/json", "{\"cut"),
            "malformed JSON",
        ),
        (
            Reply::json(200, &json!({"ok": true})),
            "the answer has no content",
        ),
    ] {
        let error = failure(reply).await;
        assert!(
            matches!(&error, Error::Interrupted { reason: r, .. } if r.contains(reason)),
            "{reason}: {error}"
        );
        assert!(error.retryable() && error.may_be_charged());
    }
}

#[tokio::test]
async fn what_follows_the_answer_does_no_harm() {
    for end in [End::Disconnect, End::Stall] {
        assert!(
            answer(Reply::events(HELLO).end(end)).await.is_ok(),
            "{end:?}"
        );
    }
}

#[tokio::test]
async fn usage_missing_at_the_end_is_not_taken_from_the_beginning() {
    let events = HELLO.replace(r#","usage":{"output_tokens":15}"#, "");
    let usage = answer(Reply::events(&events)).await.unwrap().usage;
    let output_tokens = crate::text::estimate_tokens("Grüße, 世界 👨‍👩‍👧!");
    assert_eq!(
        usage,
        Usage {
            input_tokens: 25,
            output_tokens,
            cache_read_tokens: 1000,
            cache_write_tokens: 7,
            estimated: true
        }
    );
}

#[tokio::test]
async fn the_connection_is_used_again() {
    let server = Server::start([Reply::events(HELLO).end(End::Late), Reply::events(HELLO)]).await;
    let provider = provider(&server);
    for _ in 0..2 {
        attempt(&provider, &request(vec![user("hi")]))
            .await
            .0
            .unwrap();
    }
    let requests = server.requests();
    assert_eq!(requests[0].peer, requests[1].peer);
}

proptest! {
    #[test]
    fn a_wrong_value_anywhere_is_survived(at in 0usize..120, wrong in wrong_value()) {
        let asked = request(vec![user("hi")]);
        for events in [HELLO, CALLS] {
            let mut answer = MessageAnswer::default();
            for data in with_wrong_node(events, at, &wrong) {
                // Whether it is taken or refused, it must not panic.
                let _ = answer.event(&data, &|_: &str| {});
            }
            let response = answer.into_received().finish(MessageAnswer::PROTOCOL, &asked, &body(&asked).to_bytes());
            prop_assert!(response.usage.total() > 0);
        }
    }
}
