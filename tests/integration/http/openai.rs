//! The facade, as programs use it that speak OpenAI's chat completions.

use serde_json::{Value, json};

use super::Api;
use crate::support::Reply;

#[test]
fn a_completion_is_a_turn_of_the_agent() {
    let api = Api::new();
    let messages = json!([
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "what was said before"},
        {"role": "assistant", "content": "and answered"},
        {"role": "user", "content": "hello"},
    ]);
    let answer = api.post(
        "/v1/chat/completions",
        &json!({"model": "agent", "messages": messages, "user": "ada", "temperature": 0.2, "n": 3, "tools": []}),
    );
    let document = answer.json();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(
        (&document["object"], &document["model"]),
        (&json!("chat.completion"), &json!("agent"))
    );
    let choice = &document["choices"][0];
    assert_eq!(
        (&choice["message"]["content"], &choice["finish_reason"]),
        (&json!("echo: hello"), &json!("stop"))
    );
    let number = |name: &str| document["usage"][name].as_u64().unwrap_or_default();
    assert!(
        number("prompt_tokens") > 0 && number("completion_tokens") > 0,
        "{document}"
    );
    assert_eq!(
        number("total_tokens"),
        number("prompt_tokens") + number("completion_tokens")
    );
    let read = api.model.requests().pop().expect("a request").to_string();
    assert!(
        read.contains("Be short.")
            && read.contains("ada from HTTP")
            && !read.contains("and answered"),
        "{read}"
    );
    // The agent remembers the conversation by itself.
    api.post(
        "/v1/chat/completions",
        &json!({"model": "primary", "messages": [{"role": "user", "content": "again"}], "user": "ada"}),
    );
    assert!(
        api.model
            .requests()
            .pop()
            .expect("a request")
            .to_string()
            .contains("echo: hello")
    );
    assert_eq!(
        api.get("/api/v1/sessions").json()["sessions"][0]["key"],
        "http:ada"
    );
    let models: Vec<Value> = api.get("/v1/models").json()["data"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|model| model["id"].clone())
        .collect();
    assert_eq!(models, ["agent", "primary"]);
    assert_eq!(api.get("/v1/models/primary").json()["object"], "model");
}

#[test]
fn a_stream_is_chunks_and_ends_as_it_should() {
    let api = Api::new();
    let body = json!({"model": "agent", "stream": true, "stream_options": {"include_usage": true}, "messages": [{"role": "user", "content": "hello"}]});
    let answer = api.post("/v1/chat/completions", &body);
    assert_eq!(
        answer.header("content-type"),
        Some("text/event-stream; charset=utf-8")
    );
    let mut events: Vec<Value> = answer
        .events()
        .into_iter()
        .map(|(name, data)| {
            assert_eq!(name, "");
            data
        })
        .collect();
    assert_eq!(events.pop(), Some(json!("[DONE]")));
    let usage = events.pop().expect("usage");
    assert!(
        usage["choices"] == json!([])
            && usage["usage"]["total_tokens"]
                .as_u64()
                .is_some_and(|total| total > 0),
        "{usage}"
    );
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(
        events.last().expect("chunks")["choices"][0]["finish_reason"],
        "stop"
    );
    let words: String = events
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(words, "echo: hello");
    assert!(
        events
            .iter()
            .all(|chunk| chunk["object"] == "chat.completion.chunk"
                && chunk["id"] == events[0]["id"])
    );
    api.model.push(Reply::Status(400, None));
    let failed = api.post("/v1/chat/completions", &body).events();
    assert_eq!(
        failed.last().expect("an event").1["error"]["code"],
        "failed"
    );
}

#[test]
fn odd_requests_are_refused_and_never_our_fault() {
    let api = Api::new();
    let user = |content: Value| json!({"model": "agent", "messages": [{"role": "user", "content": content}]});
    for (body, status) in [
        (
            json!({"model": "gpt-4", "messages": [{"role": "user", "content": "x"}]}),
            404,
        ),
        (json!({"model": 1, "messages": []}), 400),
        (json!({"messages": [{"role": "user", "content": "x"}]}), 400),
        (json!({"model": "agent", "messages": "x"}), 400),
        (json!({"model": "agent", "messages": []}), 400),
        (json!({"model": "agent", "messages": [null]}), 400),
        (
            json!({"model": "agent", "messages": [{"role": "assistant", "content": "x"}]}),
            400,
        ),
        (
            json!({"model": "agent", "messages": [{"role": "user", "content": "x"}], "user": "a\nb"}),
            400,
        ),
        (
            json!({"model": "agent", "messages": [{"role": "user", "content": "x"}], "stream": "yes"}),
            400,
        ),
        (user(json!(null)), 400),
        (user(json!("")), 400),
        (user(json!({})), 400),
        (
            user(
                json!([{"type": "image_url", "image_url": {"url": "http://169.254.169.254/latest"}}]),
            ),
            400,
        ),
        (
            user(json!([{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}])),
            400,
        ),
        (
            user(json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,%%%"}}])),
            400,
        ),
        (
            user(
                json!([{"type": "file", "file": {"file_data": "data:text/plain;base64,aGVsbG8=", "filename": "../a.txt"}}, {"type": "text", "text": "what is it?"}]),
            ),
            200,
        ),
        (
            user(
                json!([{"type": "input_audio", "input_audio": {"data": "aGVsbG8=", "format": "wav"}}]),
            ),
            200,
        ),
    ] {
        let answer = api.post("/v1/chat/completions", &body);
        assert_eq!(answer.status, status, "{body}: {answer:?}");
    }
    assert!(api.model.requests()[0].to_string().contains("hello"));
}
