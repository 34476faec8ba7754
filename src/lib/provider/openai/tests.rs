use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::config::Ttl;
use crate::message::{Message, StopReason};
use crate::net::Timeouts;
use crate::provider::http::Answer;
use crate::provider::partial_message::Received;
use crate::provider::test_server::{
    End, Recorded, Reply, Server, attempt, call, client, message, request, result, round_trip,
    said, system, thought, tools, user, with_wrong_node, wrong_value,
};
use crate::secret::Secret;

/// A text answer as OpenAI streams it with `include_usage`.
const HELLO: &str = r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"test-model","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Grüße"},"finish_reason":null}],"usage":null}

: keep-alive

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":", 世界 👨‍👩‍👧!"},"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":1219,"completion_tokens":15,"total_tokens":1234,"prompt_tokens_details":{"cached_tokens":1024},"completion_tokens_details":{"reasoning_tokens":0}}}

data: [DONE]

"#;

/// Two parallel calls, their pieces interleaved.
const CALLS: &str = r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"I look."},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"exec","arguments":""}}]},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"read","arguments":"{\"pa"}}]},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"command\":"}}]},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"ls\"}"}},{"index":1,"function":{"arguments":"th\":\"/x\"}"}}]},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":30,"completion_tokens":40}}

data: [DONE]

"#;

fn provider(server: &Server) -> OpenAi {
    let mut provider = OpenAi::new(
        client(),
        &server.url,
        Some(Secret::new("sk-openai-test-0123456789")),
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

/// Returns a stream of these chunks, which say nothing of usage, and `[DONE]`.
fn stream(choices: &[Value]) -> Reply {
    let chunks: String = choices
        .iter()
        .map(|choice| format!("data: {}\n\n", json!({"choices": [choice]})))
        .collect();
    Reply::events(&format!("{chunks}data: [DONE]\n\n"))
}

fn two_calls(first: &str, second: &str) -> Message {
    let second = call(second, "read", json!({"path": "/x"}));
    message(
        Role::Assistant,
        [
            said("I look."),
            call(first, "exec", json!({"command": "ls"})),
            second,
        ],
    )
}

#[tokio::test]
async fn calls_without_index_or_with_index_0_each_are_told_apart() {
    let function = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    let exec = function("exec", json!({"command": "ls"})); // an object, where a string belongs
    let read = function("read", json!("{\"path\":\"/x\"}"));
    let delta = |calls: Value| json!({"delta": {"content": "I look.", "tool_calls": calls}, "finish_reason": "stop"});
    for calls in [
        json!([{"id": "a", "function": exec}, {"id": "b", "function": read}]),
        json!([{"index": 0, "id": "a", "function": exec}, {"index": 0, "id": "b", "function": read}]),
    ] {
        let response = answer(stream(&[delta(calls)])).await.unwrap();
        assert_eq!(response.message, two_calls("a", "b"));
        assert_eq!(response.stop, StopReason::ToolUse, "although it said stop");
        assert!(
            response.usage.estimated
                && response.usage.input_tokens > 0
                && response.usage.output_tokens > 0
        );
    }
}

#[tokio::test]
async fn missing_ids_and_broken_arguments_are_mended() {
    let calls = json!([
        {"function": {"name": "exec", "arguments": "{\"command\": \"l"}},
        {"id": null, "function": {"name": "exec", "arguments": null}},
        {"function": {"name": "exec", "arguments": "[1]"}},
    ]);
    let response = answer(stream(&[
        json!({"delta": {"content": null, "tool_calls": calls}, "finish_reason": "length"}),
    ]))
    .await
    .unwrap();
    assert_eq!(response.stop, StopReason::MaxTokens);
    let calls: Vec<_> = response.message.tool_calls().collect();
    let inputs: Vec<&Value> = calls.iter().map(|call| &call.input).collect();
    assert_eq!(
        inputs,
        [
            &json!({"_raw": "{\"command\": \"l"}),
            &json!({}),
            &json!({"_raw": "[1]"})
        ]
    );
    assert!(
        calls
            .iter()
            .all(|call| call.id.starts_with("call_") && call.id.len() <= 40)
    );
    assert!(calls[0].id != calls[1].id && calls[1].id != calls[2].id);
}

#[tokio::test]
async fn finish_reasons() {
    for (theirs, ours) in [
        ("stop", StopReason::EndTurn),
        ("tool_calls", StopReason::EndTurn), // without a call there is nothing to run
        ("eos", StopReason::EndTurn),
        ("length", StopReason::MaxTokens),
        ("content_filter", StopReason::Refusal),
    ] {
        let events = HELLO.replace(
            r#""finish_reason":"stop""#,
            &format!(r#""finish_reason":"{theirs}""#),
        );
        assert_eq!(
            answer(Reply::events(&events)).await.unwrap().stop,
            ours,
            "{theirs}"
        );
    }
}

#[tokio::test]
async fn either_a_finish_reason_or_done_ends_an_answer() {
    let without_done = HELLO.replace("data: [DONE]\n\n", "");
    let (without_usage, _) = HELLO
        .split_once(
            "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[],",
        )
        .unwrap();
    let without_reason = HELLO.replace(r#""finish_reason":"stop""#, r#""finish_reason":null"#);
    for (reply, estimated) in [
        (Reply::events(&without_done), false),
        (Reply::events(&without_reason), false),
        (Reply::events(without_usage), true),
        (Reply::events(without_usage).end(End::Disconnect), true),
        (Reply::events(without_usage).end(End::Stall), true),
    ] {
        let response = answer(reply).await.unwrap();
        assert_eq!(
            (
                response.message.plain_text().as_str(),
                response.usage.estimated
            ),
            ("Grüße, 世界 👨‍👩‍👧!", estimated)
        );
    }
}

#[tokio::test]
async fn a_broken_answer_is_interrupted_and_may_be_charged() {
    let (start, _) = HELLO
        .split_once("data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},")
        .unwrap();
    let gave_up = json!({"choices": [{"delta": {}, "finish_reason": "error"}]});
    for (reply, reason) in [
        (
            Reply::events(start),
            "the stream ended in the middle of the answer",
        ),
        (Reply::events(start).end(End::Disconnect), "EOF"),
        (Reply::events(start).end(End::Stall), "no data for 2 s"),
        (
            Reply::events(&HELLO.replace(r#"{"content":"Grüße"}"#, r#"{"content":"#)),
            "malformed JSON in the stream",
        ),
        (Reply::events(&format!("data: {gave_up}\n\n")), "gave up"),
        (
            Reply::json(200, &json!({"choices": []})),
            "the answer has no choices",
        ),
    ] {
        let error = failure(reply).await;
        assert!(
            matches!(&error, Error::Interrupted { reason: r, .. } if r.contains(reason)),
            "{reason}: {error}"
        );
        assert!(error.may_be_charged());
    }
}

#[tokio::test]
async fn errors_are_typed_wherever_they_stand() {
    let error = |code: Value, kind: &str, words: &str| json!({"error": {"message": words, "type": kind, "param": null, "code": code}});
    let overflow = error(
        json!("context_length_exceeded"),
        "invalid_request_error",
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
    );
    assert!(matches!(
        failure(Reply::json(400, &overflow)).await,
        Error::ContextOverflow { .. }
    ));
    let llama = error(
        json!(400),
        "exceed_context_size_error",
        "the request exceeds the available context size, try increasing it",
    );
    for reply in [
        Reply::json(400, &llama),
        Reply::events(&format!("data: {llama}\n\n")),
        Reply::json(200, &llama),
    ] {
        assert!(matches!(
            failure(reply).await,
            Error::ContextOverflow { .. }
        ));
    }
    let slow = error(
        json!("rate_limit_exceeded"),
        "requests",
        "Rate limit reached",
    );
    for reply in [
        Reply::json(429, &slow).header("retry-after", "20"),
        Reply::events(&format!("data: {slow}\n\n")),
    ] {
        assert!(matches!(
            failure(reply).await,
            Error::Busy { status: 429, .. }
        ));
    }
    let key = error(
        json!("invalid_api_key"),
        "invalid_request_error",
        "Incorrect API key provided",
    );
    for reply in [
        Reply::json(401, &key),
        Reply::events(&format!("data: {key}\n\n")),
    ] {
        assert!(matches!(
            failure(reply).await,
            Error::Auth { status: 401, .. }
        ));
    }
    let echo = json!({"detail": "field required", "input": {"messages": "my essay on the context window"}});
    let echoes = json!({"detail": [{"type": "missing", "msg": "field required", "input": "my essay on the context window"}]});
    for (reply, status, words) in [
        (
            Reply::json(400, &json!([{"error": {"code": 400, "message": "bad"}}])),
            400,
            "bad",
        ),
        (Reply::json(422, &echo), 422, "field required"),
        (Reply::json(422, &echoes), 422, "field required"),
        (
            Reply::raw(410, "text/plain", "410 it\nis gone"),
            410,
            "410 it is gone",
        ),
        (Reply::raw(400, "text/plain", ""), 400, "(no explanation)"),
    ] {
        let error = failure(reply).await;
        assert!(
            matches!(&error, Error::Rejected { status: s, message, .. } if *s == status && message == words),
            "{error}"
        );
    }
    let drop = error(json!("server_error"), "", "Provider disconnected");
    assert!(matches!(
        failure(Reply::events(&format!("data: {drop}\n\n"))).await,
        Error::Busy { status: 500, .. }
    ));
}

#[test]
fn v1_is_added_only_to_an_address_without_path() {
    for (base, expected) in [
        (
            "https://api.openai.com",
            "https://api.openai.com/v1/chat/completions",
        ),
        (
            "https://api.openai.com/v1/",
            "https://api.openai.com/v1/chat/completions",
        ),
        (
            "http://127.0.0.1:11434/",
            "http://127.0.0.1:11434/v1/chat/completions",
        ),
        (
            "https://openrouter.ai/api/v1",
            "https://openrouter.ai/api/v1/chat/completions",
        ),
        (
            "https://host.example/v1beta/openai/",
            "https://host.example/v1beta/openai/chat/completions",
        ),
    ] {
        assert_eq!(
            OpenAi::new(client(), base, None).endpoint.url(),
            expected,
            "{base}"
        );
    }
}

#[test]
fn openai_itself_gets_the_new_name_of_the_limit() {
    for (base, limit) in [
        ("https://api.openai.com/v1", LimitField::MaxCompletionTokens),
        (
            "https://eu.api.openai.com/v1",
            LimitField::MaxCompletionTokens,
        ),
        (
            "https://name.openai.azure.com/openai/v1",
            LimitField::MaxCompletionTokens,
        ),
        ("https://notapi.openai.com/v1", LimitField::MaxTokens),
        ("https://api.openai.com.example/v1", LimitField::MaxTokens),
        ("http://127.0.0.1:1", LimitField::MaxTokens),
    ] {
        assert_eq!(
            OpenAi::new(client(), base, None).dialect.limit,
            limit,
            "{base}"
        );
    }
    let sent = body(
        &request(vec![user("hi")]),
        Dialect {
            limit: LimitField::MaxCompletionTokens,
            ..PLAIN
        },
    )
    .to_value();
    assert_eq!(
        (&sent["max_completion_tokens"], &sent["max_tokens"]),
        (&json!(1024), &Value::Null)
    );
}

const NO_TOOLS_WITH_EFFORT: &str = "Function tools with reasoning_effort are not supported for gpt-5.6-terra in \
    /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.";

#[tokio::test]
async fn what_a_model_refuses_by_name_is_sent_as_it_wants_from_then_on() {
    let refusal = |words: &str| {
        let error =
            json!({"message": words, "type": "invalid_request_error", "param": null, "code": null});
        Reply::json(400, &json!({"error": error}))
    };
    let effort = refusal(NO_TOOLS_WITH_EFFORT);
    let limit = refusal(
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    );
    let new = "max_completion_tokens";
    for (refusals, thinking, expected) in [
        (vec![effort.clone()], false, ("max_tokens", json!("none"))),
        (vec![effort.clone()], true, ("max_tokens", json!("none"))),
        (vec![limit.clone()], true, (new, json!("medium"))),
        (vec![limit, effort], false, (new, json!("none"))),
    ] {
        let answers = [Reply::events(HELLO), Reply::events(HELLO)];
        let server = Server::start(refusals.iter().cloned().chain(answers)).await;
        let provider = provider(&server);
        let mut asked = request(vec![user("hi")]);
        (asked.tools, asked.thinking) = (tools(), thinking);
        for calls in 1..=2 {
            let (answer, _) = attempt(&provider, &asked).await;
            assert!(answer.is_ok(), "{answer:?}");
            let sent = server.requests();
            assert_eq!(sent.len(), refusals.len() + calls);
            let last: Value = serde_json::from_str(&sent[sent.len() - 1].body).unwrap();
            let (limit, effort) = &expected;
            assert_eq!(
                (&last[limit], &last["reasoning_effort"]),
                (&json!(1024), effort)
            );
        }
    }
}

#[tokio::test]
async fn a_model_that_takes_tools_elsewhere_alone_is_missing_here() {
    let refusal = |words: &str| Reply::json(400, &json!({"error": {"message": words}}));
    let no_none = "Unsupported value: 'reasoning_effort' does not support 'none' with this model. Supported values are: 'low', 'medium', and 'high'.";
    let server = Server::start([refusal(NO_TOOLS_WITH_EFFORT), refusal(no_none)]).await;
    let mut asked = request(vec![user("hi")]);
    asked.tools = tools();
    let error = attempt(&provider(&server), &asked).await.0.unwrap_err();
    assert!(
        matches!(&error, Error::Missing { status: 400, message, .. } if message == NO_TOOLS_WITH_EFFORT),
        "{error}"
    );
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_call_that_the_server_could_not_read_is_a_pause() {
    let error = json!({"error": {"message": "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.",
        "type": "invalid_request_error", "code": "tool_use_failed", "failed_generation": "<function=exec"}});
    let after = |words: &str| {
        let piece = json!({"choices": [{"delta": {"content": words}}]});
        Reply::events(&format!("data: {piece}\n\ndata: {error}\n\n"))
    };
    for reply in [
        after("I look."),
        after("<thi"),
        Reply::events(&format!("data: {error}\n\n")),
        Reply::json(200, &error),
    ] {
        let response = answer(reply).await.unwrap();
        assert_eq!(
            (response.message.content, response.stop),
            (Vec::new(), StopReason::Pause)
        );
        assert!(response.usage.estimated);
    }
    // As a status nothing of the conversation is to blame either.
    assert!(failure(Reply::json(400, &error)).await.retryable());
}

#[test]
fn nothing_stands_before_the_output_of_a_command_that_failed() {
    let of = |text: &str| {
        let result = ToolResult {
            id: "t".into(),
            text: text.into(),
            is_error: true,
            from: None,
            pictures: Vec::new(),
        };
        tool_message(&result, CallIds::Any).to_value()["content"].clone()
    };
    assert_eq!(of("oops\n[exit 3]"), "oops\n[exit 3]");
    assert_eq!(of("no such file"), "Error: no such file");
}

#[test]
fn what_is_appended_leaves_the_bytes_before_it_unchanged() {
    let mut asked = request(Vec::new());
    asked.system = system();
    asked.tools = tools();
    let mut before: Option<String> = None;
    // A first user message may grow, so each step ends a turn.
    for end in [1, 3, 5, 6, 8] {
        asked.messages = round_trip().into_iter().take(end).collect();
        let text = body(&asked, PLAIN).to_value().to_string();
        assert_eq!(
            text,
            body(&asked.clone(), PLAIN).to_value().to_string(),
            "the same request gives the same bytes"
        );
        if let Some(before) = before {
            assert!(
                text.starts_with(before.trim_end_matches([']', '}', '"'])),
                "{before}\n{text}"
            );
        }
        before = Some(text);
    }
}

proptest! {
    #[test]
    fn a_wrong_value_anywhere_is_survived(at in 0usize..120, wrong in wrong_value()) {
        let asked = request(vec![user("hi")]);
        for events in [HELLO, CALLS] {
            let mut answer = Completion::default();
            for data in with_wrong_node(events, at, &wrong) {
                // Whether it is taken or refused, it must not panic.
                let _ = answer.event(&data, &|_: &str| {});
            }
            let response = answer.into_received().finish(Completion::PROTOCOL, &asked, &body(&asked, PLAIN).to_bytes());
            prop_assert!(response.usage.total() > 0);
        }
    }
}

#[tokio::test]
async fn the_bytes_of_a_picture_are_no_words_when_a_server_counts_nothing() {
    let picture = Block::Image {
        file: "x".into(),
        content_type: "image/png".into(),
        data: Some("A".repeat(1_000_000).into()),
    };
    let asked = request(vec![Message {
        role: Role::User,
        content: vec![picture],
    }]);
    let body = body(&asked, PLAIN).to_bytes();
    let usage = Received::default().finish("openai", &asked, &body).usage;
    assert!(
        usage.estimated && (1600..2000).contains(&usage.input_tokens),
        "{usage:?}"
    );
}

#[tokio::test]
async fn reasoning_that_only_the_total_has_is_counted() {
    for (completion, total, expected) in [
        (1_499, 14_428, 4_308),
        (1_499, 11_619, 1_499),
        (1_499, 0, 1_499),
    ] {
        let usage = json!({"prompt_tokens": 10_120, "completion_tokens": completion, "total_tokens": total});
        let choices = json!([{"message": {"content": "Hi"}, "finish_reason": "stop"}]);
        let reply = Reply::json(200, &json!({"choices": choices, "usage": usage}));
        let usage = answer(reply).await.unwrap().usage;
        assert_eq!(
            (usage.input_tokens, usage.output_tokens),
            (10_120, expected)
        );
    }
}

#[tokio::test]
async fn thinking_in_the_text_is_neither_shown_nor_kept() {
    for (pieces, expected) in [
        (vec!["<th", "ink>a</think>\n\nHi"], "Hi"),
        (vec!["<thin air"], "<thin air"),
        (vec!["<thin"], "<thin"),
        (vec!["<think>and no end"], ""),
    ] {
        let pieces = pieces
            .iter()
            .map(|piece| json!({"delta": {"content": piece}}));
        let end = json!({"delta": {}, "finish_reason": "stop"});
        let choices: Vec<Value> = pieces.chain([end]).collect();
        let (result, streamed, _) = exchange(stream(&choices), &request(vec![user("hi")])).await;
        let text = result.unwrap().message.plain_text();
        assert_eq!((text.as_str(), streamed.as_str()), (expected, expected));
    }
    let choices = json!([{"message": {"content": "<think>a</think>Hi"}, "finish_reason": "stop"}]);
    let whole = answer(Reply::json(200, &json!({"choices": choices})))
        .await
        .unwrap();
    assert_eq!(whole.message.plain_text(), "Hi");
}

#[tokio::test]
async fn what_gemini_says_with_a_call_is_sent_back_with_it() {
    let extra = json!({"google": {"thought_signature": "sig"}});
    let function = json!({"name": "exec", "arguments": "{}"});
    let calls = json!([
        {"index": 0, "id": "a", "function": function, "extra_content": extra},
        {"index": 1, "id": "b", "function": function},
    ]);
    let choice = json!({"delta": {"tool_calls": calls}, "finish_reason": "tool_calls"});
    let said = answer(stream(&[choice])).await.unwrap().message;
    let kept = json!({"extra_content": extra});
    let made = |id: &str| call(id, "exec", json!({}));
    assert_eq!(
        said.content,
        [thought("openai:test-model", kept), made("a"), made("b")]
    );
    let results = message(
        Role::User,
        [result("a", "x", false), result("b", "x", false)],
    );
    let asked = request(vec![user("hi"), said, results]);
    let sent = body(&asked, PLAIN).to_value();
    let calls = &sent["messages"][1]["tool_calls"];
    assert_eq!(calls[0]["extra_content"], extra);
    assert_eq!(calls[1]["extra_content"], Value::Null);
}

#[test]
fn mistral_gets_ids_of_nine_letters_and_digits() {
    let ids = ["call_0123456789abcdef", "abcDEF123", "functions.exec:0"];
    let calls = ids.map(|id| call(id, "exec", json!({})));
    let results = ids.map(|id| result(id, "x", false));
    let asked = request(vec![
        user("hi"),
        message(Role::Assistant, calls),
        message(Role::User, results),
    ]);
    let sent = |base: &str| {
        let dialect = OpenAi::new(client(), base, None).dialect;
        let sent = body(&asked, dialect).to_value();
        [0, 1, 2].map(|at: usize| {
            let id = sent["messages"][1]["tool_calls"][at]["id"].clone();
            assert_eq!(sent["messages"][at + 2]["tool_call_id"], id);
            id.as_str().unwrap().to_owned()
        })
    };
    assert_eq!(sent("https://api.openai.com/v1"), ids);
    let sent = sent("https://api.mistral.ai/v1");
    let fits = |id: &String| id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric());
    assert!(sent.iter().all(fits), "{sent:?}");
    assert!(sent[1] == ids[1] && sent[0] != sent[2], "{sent:?}");
}

#[tokio::test]
async fn only_claude_at_openrouter_is_asked_to_cache() {
    let (claude, router) = (
        "anthropic/claude-sonnet-4.5",
        "https://openrouter.ai/api/v1",
    );
    let hour = json!({"type": "ephemeral", "ttl": "1h"});
    let five = json!({"type": "ephemeral"});
    for (base, model, cache, ttl, expected) in [
        (router, claude, true, Ttl::Minutes5, five),
        (router, claude, true, Ttl::Hour, hour),
        (router, claude, false, Ttl::Minutes5, Value::Null),
        (router, "openai/gpt-5", true, Ttl::Minutes5, Value::Null),
        (
            "http://127.0.0.1:1",
            claude,
            true,
            Ttl::Minutes5,
            Value::Null,
        ),
    ] {
        let asked = Request {
            model: model.to_owned(),
            cache,
            cache_ttl: [Ttl::Hour, Ttl::Minutes5, ttl],
            ..request(vec![user("hi")])
        };
        let dialect = OpenAi::new(client(), base, None).dialect;
        let sent = body(&asked, dialect).to_value();
        assert_eq!(sent["cache_control"], expected, "{base} {model}");
    }
    let details = json!({"cached_tokens": 20, "cache_write_tokens": 70});
    let usage =
        json!({"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": details});
    let choices = json!([{"message": {"content": "Hi"}, "finish_reason": "stop"}]);
    let reply = Reply::json(200, &json!({"choices": choices, "usage": usage}));
    let usage = answer(reply).await.unwrap().usage;
    let counted = (
        usage.input_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
    );
    assert_eq!(counted, (10, 20, 70));
}
