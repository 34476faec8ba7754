//! The meaning of failures, for all vendors; tested with Anthropic's provider.

use serde_json::json;

use super::*;
use crate::provider::Request;
use crate::provider::anthropic::Anthropic;
use crate::provider::test_server::{End, Reply, Server, attempt, client, request, user};

/// Asks "hi" and returns the failure.
async fn failure(reply: Reply) -> Error {
    let server = Server::start([reply]).await;
    let provider = Anthropic::new(
        client(),
        &server.url,
        Some(Secret::new("sk-ant-test-0123456789")),
    );
    attempt(&provider, &request(vec![user("hi")]))
        .await
        .0
        .expect_err("an error")
}

fn error_body(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
}

#[tokio::test]
async fn statuses_become_typed_errors() {
    let reply = |status, kind: &str, words: &str| Reply::json(status, &error_body(kind, words));
    for status in [401, 403] {
        let error = failure(reply(status, "authentication_error", "invalid x-api-key")).await;
        assert!(
            matches!(&error, Error::Auth { status: s, message, .. } if *s == status && message == "invalid x-api-key"),
            "{error}"
        );
    }
    for status in [408, 409, 425, 429, 500, 502, 503, 504, 529] {
        let error = failure(reply(status, "api_error", "later")).await;
        assert!(
            matches!(&error, Error::Busy { status: s, retry_after: None, .. } if *s == status),
            "{error}"
        );
        assert!(error.retryable());
        // Behind a gateway that gave up waiting the server may have answered.
        assert_eq!(error.may_be_charged(), matches!(status, 408 | 504));
    }
    for status in [400, 422] {
        let error = failure(reply(status, "invalid_request_error", "no")).await;
        assert!(
            matches!(&error, Error::Rejected { status: s, .. } if *s == status),
            "{error}"
        );
        assert!(!error.retryable());
    }
    let error = failure(reply(
        400,
        "invalid_request_error",
        "messages: at least one message is required",
    ))
    .await;
    assert!(
        matches!(&error, Error::Rejected { status: 400, .. }),
        "{error}"
    );
    for (status, kind, words) in [
        (
            400,
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
        ),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        ),
        (413, "request_too_large", "Request exceeds the maximum size"),
        (
            400,
            "",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        ),
        (
            429,
            "tokens",
            "Request too large for gpt-4.1 in organization org-1 on tokens per min (TPM): Limit 30000, Requested 37313. The input or output tokens must be reduced in order to run successfully.",
        ),
        (
            400,
            "invalid_request_error",
            "Invalid request: Your request exceeded model token limit: 262144",
        ),
        (400, "1261", "Prompt exceeds max length"),
        (400, "1210", "prompt too long, please reduce it"),
        (
            400,
            "",
            "length of prompt_tokens (40000) must be less than max_seq_len: more than max tokens allowed",
        ),
        (
            400,
            "InvalidParameter",
            "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
        ),
    ] {
        let error = failure(reply(status, kind, words)).await;
        assert!(
            matches!(&error, Error::ContextOverflow { message } if message == words),
            "{error}"
        );
    }
}

/// The variant, whether to try again, and the wait in milliseconds.
fn sort(error: &Error) -> (&'static str, bool, Option<u128>) {
    let name = match error {
        Error::Unreachable { .. } => "unreachable",
        Error::Busy { .. } => "busy",
        Error::Auth { .. } => "auth",
        Error::ContextOverflow { .. } => "overflow",
        Error::Exhausted { .. } => "exhausted",
        Error::Missing { .. } => "missing",
        Error::WebPage { .. } => "page",
        Error::Rejected { .. } => "rejected",
        Error::Interrupted { .. } => "interrupted",
    };
    (
        name,
        error.retryable(),
        error.retry_after().map(|wait| wait.as_millis()),
    )
}

#[tokio::test]
async fn what_no_retry_helps_is_told_from_what_one_does() {
    let openai = |kind: &str, code: &str, message: &str| json!({"error": {"message": message, "type": kind, "code": code}});
    let google = |status: &str, message: &str, details: Value| json!({"error": {"code": 0, "message": message, "status": status, "details": details}});
    let quota = "You exceeded your current quota, please check your plan and billing details.";
    let retry = json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"});
    let day = json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}]});
    let wrong_key =
        json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"});
    for (status, body, expected) in [
        (
            429,
            openai("requests", "rate_limit_exceeded", "Rate limit reached"),
            ("busy", true, None),
        ),
        (
            429,
            openai("insufficient_quota", "insufficient_quota", quota),
            ("exhausted", false, None),
        ),
        (
            429,
            google("RESOURCE_EXHAUSTED", quota, json!([retry])),
            ("busy", true, Some(34_500)),
        ),
        (
            429,
            google("RESOURCE_EXHAUSTED", quota, json!([day, retry])),
            ("exhausted", false, None),
        ),
        (
            402,
            openai("", "402", "Insufficient credits"),
            ("exhausted", false, None),
        ),
        (
            400,
            error_body(
                "invalid_request_error",
                "Your credit balance is too low to access the API",
            ),
            ("exhausted", false, None),
        ),
        (
            400,
            google("INVALID_ARGUMENT", "API key not valid.", json!([wrong_key])),
            ("auth", false, None),
        ),
        (
            400,
            google(
                "FAILED_PRECONDITION",
                "User location is not supported for the API use.",
                json!([]),
            ),
            ("auth", false, None),
        ),
        (
            400,
            google(
                "INVALID_ARGUMENT",
                "Request contains an invalid argument.",
                json!([]),
            ),
            ("rejected", false, None),
        ),
        (
            404,
            google(
                "NOT_FOUND",
                "models/x is not found for API version v1beta",
                json!([]),
            ),
            ("missing", false, None),
        ),
        (
            404,
            error_body("not_found_error", "model: x"),
            ("missing", false, None),
        ),
        (
            400,
            openai("", "400", "x/y is not a valid model ID"),
            ("missing", false, None),
        ),
        (
            400,
            openai(
                "invalid_request_error",
                "tool_use_failed",
                "Failed to call a function. Please adjust your prompt.",
            ),
            ("busy", true, None),
        ),
        (
            403,
            openai("", "403", "Your input was flagged"),
            ("rejected", false, None),
        ),
        (
            503,
            google("UNAVAILABLE", "The model is overloaded.", json!([])),
            ("busy", true, None),
        ),
        (
            529,
            error_body("overloaded_error", "Overloaded"),
            ("busy", true, None),
        ),
    ] {
        let error = failure(Reply::json(status, &body)).await;
        assert_eq!(sort(&error), expected, "{status} {body}");
    }
}

#[tokio::test]
async fn the_server_says_exactly_when_and_whether_to_come_back() {
    let with = |status, headers: &[(&'static str, &str)]| {
        let reply = Reply::json(status, &error_body("rate_limit_error", "slow down"));
        headers
            .iter()
            .fold(reply, |reply, (name, value)| reply.header(name, value))
    };
    for (reply, expected) in [
        (
            with(429, &[("retry-after-ms", "250"), ("retry-after", "1")]),
            ("busy", true, Some(250)),
        ),
        (
            with(429, &[("x-should-retry", "false"), ("retry-after", "2")]),
            ("busy", true, Some(300_000)),
        ),
        (
            with(400, &[("x-should-retry", "true"), ("retry-after", "2")]),
            ("busy", true, Some(2_000)),
        ),
        (
            with(400, &[("x-should-retry", "false")]),
            ("rejected", false, None),
        ),
    ] {
        assert_eq!(sort(&failure(reply).await), expected);
    }
}

#[tokio::test]
async fn a_server_that_does_not_begin_is_given_up_when_somebody_else_stands_ready() {
    for (reply, limit_ms, thinking, in_time) in [
        // The answer's head comes, and then nothing.
        (Reply::events("").end(End::Stall), 300, false, true),
        (Reply::events("").end(End::Stall), 300, true, false),
    ] {
        let server = Server::start([reply]).await;
        let provider = Anthropic::new(client(), &server.url, None);
        let begin_within = Some(Duration::from_millis(limit_ms));
        let asked = Request {
            begin_within,
            thinking,
            ..request(vec![user("hi")])
        };
        let answer = tokio::time::timeout(Duration::from_secs(3), attempt(&provider, &asked)).await;
        assert_eq!(answer.is_ok(), in_time);
        if let Ok((answer, _)) = answer {
            assert_eq!(
                sort(&answer.expect_err("nothing came")),
                ("interrupted", true, None)
            );
        }
    }
}

#[tokio::test]
async fn retry_after_is_read_as_seconds_and_as_date() {
    for (value, expected) in [
        ("7", Some(7_000)),
        ("1.5", Some(1_500)),
        ("-3", Some(0)),
        ("Wed, 21 Oct 2015 07:28:30 GMT", Some(30_000)),
        ("Wed, 21 Oct 2015 07:27:00 GMT", Some(0)),
        ("soon", None),
        ("inf", None),
    ] {
        let reply = Reply::json(429, &error_body("rate_limit_error", "slow down"))
            .header("date", "Wed, 21 Oct 2015 07:28:00 GMT")
            .header("retry-after", value);
        assert_eq!(
            failure(reply).await.retry_after(),
            expected.map(Duration::from_millis),
            "{value}"
        );
    }
}

#[tokio::test]
async fn a_web_page_is_a_wrong_address() {
    let error = failure(Reply::raw(
        200,
        "text/html; charset=utf-8",
        "<html>Welcome</html>",
    ))
    .await;
    assert!(
        matches!(error, Error::WebPage { status: 200, .. }),
        "{error}"
    );
    // Of a proxy, or a guard before the server: neither the key nor the model is wrong.
    for status in [403, 404] {
        let error = failure(Reply::raw(
            status,
            "text/html",
            "<html>Just a moment</html>",
        ))
        .await;
        assert!(
            matches!(error, Error::WebPage { .. }) && error.is_in_the_way(),
            "{error}"
        );
        let refusal = error_body("not_found_error", "model: x");
        let error = failure(Reply::json(status, &refusal)).await;
        assert!(!error.is_in_the_way(), "{error}");
    }
    let error = failure(Reply::raw(302, "text/html", "")).await;
    assert!(
        matches!(error, Error::Missing { status: 302, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let asked = request(vec![user("hi")]);
    let error = attempt(
        &Anthropic::new(client(), &format!("http://{address}/secret-path"), None),
        &asked,
    )
    .await
    .0
    .unwrap_err();
    let Error::Unreachable { host, reason } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(host, &address.to_string());
    assert!(
        reason.contains("refused") && !reason.contains("secret-path"),
        "{reason}"
    );
    assert!(error.retryable() && !error.may_be_charged());
    for base in ["not a url", "ftp://127.0.0.1/", "http://user:pass word@:9"] {
        let error = attempt(&Anthropic::new(client(), base, None), &asked)
            .await
            .0
            .unwrap_err();
        assert!(matches!(&error, Error::Unreachable { .. }), "{error:?}");
    }
    let key = Secret::new("sk-with\nnewline-inside");
    let error = attempt(
        &Anthropic::new(client(), "http://127.0.0.1:9", Some(key)),
        &asked,
    )
    .await
    .0
    .unwrap_err();
    assert!(
        error.to_string().contains("no header can carry") && !error.to_string().contains("sk-with"),
        "{error}"
    );
}

#[tokio::test]
async fn a_connection_cut_before_the_answer_is_interrupted() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let mut buffer = [0; 16];
            socket.readable().await.unwrap();
            let _ = socket.try_read(&mut buffer);
        }
    });
    let error = attempt(
        &Anthropic::new(client(), &url, None),
        &request(vec![user("hi")]),
    )
    .await
    .0
    .unwrap_err();
    assert!(matches!(&error, Error::Interrupted { .. }), "{error:?}");
}

#[tokio::test]
async fn errors_keep_secrets_and_stay_short() {
    let words = format!(
        "key sk-ant-test-0123456789 is\n\u{1b}[31m bad {}",
        "x".repeat(1000)
    );
    let error = failure(Reply::raw(401, "text/plain", &words))
        .await
        .to_string();
    assert!(
        !error.contains("0123456789") && error.contains("[redacted] is \\u{1b}[31m bad"),
        "{error}"
    );
    assert!(error.chars().count() < 380, "{error}");
}
