//! Too much, too slow, too late.

use std::{io::Write as _, thread, time::Duration};

use serde_json::json;

use super::{Api, SOON, client::Answer};
use crate::support::{Reply, wait_for};

#[test]
fn a_body_is_limited_whatever_it_says_of_its_length() {
    let api = Api::new();
    let json = ("content-type", "application/json");
    // Not even read.
    let answer = api.client.send(
        &api.client.head(
            "POST",
            "/api/v1/chat",
            &[json, ("content-length", "10485761")],
            0,
        ),
        b"",
    );
    assert_eq!(
        (answer.status, answer.json()["error"]["code"].clone()),
        (413, json!("too_large")),
        "{answer:?}"
    );
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20));
    let answer = api.client.request(
        "POST",
        "/api/v1/chat",
        &[json, ("transfer-encoding", "chunked")],
        chunk.repeat(11).as_bytes(),
    );
    assert_eq!(answer.status, 413, "{answer:?}");
    // The largest one that is let in.
    let words = "y".repeat((10 << 20) - r#"{"message":""}"#.len());
    let answer = api.client.request(
        "POST",
        "/api/v1/notify",
        &[json],
        format!(r#"{{"message":"{words}"}}"#).as_bytes(),
    );
    assert_eq!(answer.status, 202, "{answer:?}");
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    let api = Api::new();
    let mut stream = api.client.connect();
    let head = api.client.head(
        "POST",
        "/api/v1/chat",
        &[("content-type", "application/json")],
        100,
    );
    stream
        .write_all((head + "{\"mess").as_bytes())
        .expect("open");
    let answer = Answer::read(&mut stream);
    assert_eq!(
        (answer.status, answer.json()["error"]["code"].clone()),
        (408, json!("timeout")),
        "{answer:?}"
    );
    assert_eq!(
        api.sandbox.query("queue", "SELECT id FROM inbox"),
        Vec::<Vec<_>>::new()
    );
}

#[test]
fn reads_and_writes_have_a_measure_each() {
    let api = Api::with("[http]\nreads_per_minute = 30\nwrites_per_minute = 6");
    let until_refused = |ask: &dyn Fn() -> Answer| {
        (1..100)
            .map(|_| ask())
            .find(|answer| answer.status == 429)
            .expect("refused")
    };
    let refused = until_refused(&|| api.post("/api/v1/stop", &json!({})));
    assert_eq!(refused.json()["error"]["code"], "too_many_requests");
    let wait: u64 = refused
        .header("retry-after")
        .and_then(|seconds| seconds.parse().ok())
        .expect("seconds");
    assert!((1..=11).contains(&wait), "{wait}");
    assert_eq!(
        api.get("/api/v1/queue").status,
        200,
        "reads are counted by themselves"
    );
    assert_eq!(until_refused(&|| api.get("/api/v1/queue")).status, 429);
    // Strangers take nothing of it, and are still strangers.
    let stranger = super::Client::tcp(api.port, None);
    assert_eq!(
        (
            stranger.get("/api/v1/status").status,
            stranger.get("/api/v1/queue").status
        ),
        (200, 401)
    );
    // The shell does not mind.
    assert_eq!(api.sandbox.send(&["--wait", "hello"]).code, 0);
}

#[test]
fn a_daemon_that_ends_lets_who_waits_have_the_answer_and_takes_nothing_new() {
    let api = Api::new();
    api.model.push(Reply::Held("the last words".to_owned()));
    let client = api.client.clone();
    let waiting =
        thread::spawn(move || client.post("/api/v1/chat", &json!({"message": "before the end"})));
    wait_for("the model to be asked", SOON, || {
        (api.model.in_flight() > 0).then_some(())
    });
    api.daemon.signal(nix::sys::signal::Signal::SIGTERM);
    wait_for("the end to begin", SOON, || {
        (api.get("/api/v1/queue").status == 503).then_some(())
    });
    let refused = api.post("/api/v1/chat", &json!({"message": "too late"}));
    assert_eq!(
        (refused.status, refused.json()["error"]["code"].clone()),
        (503, json!("closing")),
        "{refused:?}"
    );
    api.model.go_on();
    assert_eq!(
        waiting.join().expect("a client").json()["reply"],
        "the last words"
    );
    let Api { daemon, .. } = api;
    assert_eq!(daemon.wait_exit(Duration::from_secs(35)), 0);
}

#[test]
fn who_waits_longer_than_the_daemon_is_told_where_the_answer_will_be() {
    let mut api = Api::new();
    api.model.push(Reply::Hang);
    let client = api.client.clone();
    let headers = [
        ("content-type", "application/json"),
        ("idempotency-key", "after-1"),
    ];
    let waiting = thread::spawn(move || {
        client.request(
            "POST",
            "/api/v1/chat",
            &headers,
            br#"{"message":"for a long time"}"#,
        )
    });
    wait_for("the model to be asked", SOON, || {
        (api.model.in_flight() > 0).then_some(())
    });
    api.daemon.signal(nix::sys::signal::Signal::SIGTERM);
    let answer = waiting.join().expect("a client");
    let error = answer.json()["error"].clone();
    assert_eq!(
        (answer.status, &error["code"], &error["id"]),
        (503, &json!("closing"), &json!("after-1")),
        "{answer:?}"
    );
    wait_for("the end", SOON, || api.daemon.has_ended().then_some(()));
    api.daemon = api.sandbox.daemon();
    api.daemon.wait_ready();
    let reply = || api.get("/api/v1/replies/after-1").json();
    let done = wait_for("the answer", SOON, || {
        Some(reply()).filter(|reply| reply["status"] == "done")
    });
    assert_eq!(done["reply"], "echo: for a long time");
}
