//! Answers that are read while they are written.

use std::io::{Read as _, Write as _};

use serde_json::json;

use super::{Api, SOON, client::Answer};
use crate::support::{Reply, wait_for};

#[test]
fn words_come_while_they_are_written_and_the_document_in_the_end() {
    let api = Api::new();
    let text = "It is five o'clock, ünd two mönths later it will be six.";
    api.model.push(Reply::Held(text.to_owned()));
    let body = json!({"message": "what time is it?"}).to_string();
    let mut stream = api.client.connect();
    let head = api.client.head(
        "POST",
        "/api/v1/chat/stream",
        &[("content-type", "application/json")],
        body.len(),
    );
    stream.write_all((head + &body).as_bytes()).expect("open");
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    while !String::from_utf8_lossy(&bytes).contains("event: delta") {
        let count = stream.read(&mut chunk).expect("more");
        assert!(count > 0, "{}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&chunk[..count]);
    }
    assert!(!String::from_utf8_lossy(&bytes).contains("event: done"));
    api.model.go_on();
    stream.read_to_end(&mut bytes).expect("an end");
    let answer = Answer::parse(&bytes);
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("text/event-stream; charset=utf-8"))
    );
    let events = answer.events();
    assert_eq!(
        events.first().map(|(name, _)| name.as_str()),
        Some("accepted")
    );
    let words: String = events
        .iter()
        .filter(|(name, _)| name == "delta")
        .filter_map(|(_, data)| data["text"].as_str())
        .collect();
    assert_eq!(words, text);
    let (name, done) = events.last().expect("events");
    assert_eq!((name.as_str(), &done["reply"]), ("done", &json!(text)));
    assert_eq!(events[0].1["id"], done["id"]);
    let document = api
        .get(&format!(
            "/api/v1/replies/{}",
            done["id"].as_str().expect("an id")
        ))
        .json();
    assert_eq!(
        (&document["reply"], &document["run_id"]),
        (&done["reply"], &done["run_id"])
    );
}

#[test]
fn silence_is_not_shown_and_failures_are_the_last_event() {
    let api = Api::new();
    let stream = |message: &str| {
        api.post("/api/v1/chat/stream", &json!({"message": message}))
            .events()
    };
    let events = stream("[[say NO_REPLY]]");
    assert!(events.iter().all(|(name, _)| name != "delta"), "{events:?}");
    assert_eq!(
        events.last().map(|(_, done)| done["silent"].clone()),
        Some(json!(true))
    );
    api.model.push(Reply::Status(400, None));
    let events = stream("fail");
    let (name, error) = events.last().expect("events");
    assert_eq!(
        (name.as_str(), &error["error"]["code"]),
        ("error", &json!("failed")),
        "{events:?}"
    );
    // A command never reaches the model, and its answer comes all the same.
    let events = stream("/status");
    assert!(
        events.iter().any(|(name, data)| name == "delta"
            && data["text"]
                .as_str()
                .is_some_and(|text| text.contains("Runs:"))),
        "{events:?}"
    );
}

#[test]
fn a_reader_who_leaves_takes_nothing_along() {
    let api = Api::new();
    api.model.push(Reply::Held("nobody reads along".to_owned()));
    let body = br#"{"message":"read along"}"#;
    let headers = [
        ("content-type", "application/json"),
        ("idempotency-key", "reader-1"),
    ];
    let mut stream = api.client.connect();
    stream
        .write_all(
            api.client
                .head("POST", "/api/v1/chat/stream", &headers, body.len())
                .as_bytes(),
        )
        .expect("open");
    stream.write_all(body).expect("open");
    wait_for("the model to be asked", SOON, || {
        (api.model.in_flight() > 0).then_some(())
    });
    drop(stream);
    api.model.go_on();
    let reply = || api.get("/api/v1/replies/reader-1").json();
    let done = wait_for("the answer", SOON, || {
        Some(reply()).filter(|reply| reply["status"] == "done")
    });
    assert_eq!(done["reply"], "nobody reads along");
    let again = api
        .client
        .request("POST", "/api/v1/chat/stream", &headers, body)
        .events();
    assert_eq!(
        again.last().map(|(_, done)| done["reply"].clone()),
        Some(json!("nobody reads along"))
    );
    assert_eq!(api.model.requests().len(), 1);
}
