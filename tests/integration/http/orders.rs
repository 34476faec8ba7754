//! Orders over HTTP: stop, start over, decide.

use std::thread;

use serde_json::{Value, json};

use super::{Api, SOON};
use crate::support::{Reply, wait_for};

fn waiting(api: &Api, body: Value) -> thread::JoinHandle<super::Answer> {
    let client = api.client.clone();
    let before = api.model.requests().len();
    let waiting = thread::spawn(move || client.post("/api/v1/chat", &body));
    wait_for("the model to be asked", SOON, || {
        (api.model.requests().len() > before).then_some(())
    });
    waiting
}

#[test]
fn a_stop_ends_what_runs_and_its_caller_hears_of_it() {
    let api = Api::new();
    let nothing = api.client.request("POST", "/api/v1/stop", &[], b"");
    assert_eq!(
        (nothing.status, nothing.json()["reply"].clone()),
        (200, json!("Nothing is running."))
    );
    api.model.push(Reply::Hang);
    api.model.push(Reply::Hang);
    let ada = waiting(&api, json!({"message": "for ever", "sender": "ada"}));
    let eve = waiting(&api, json!({"message": "for ever", "sender": "eve"}));
    let stopped = api.post("/api/v1/stop", &json!({"session": "ada"}));
    assert_eq!(stopped.json()["reply"], "Stopped.", "{stopped:?}");
    let answer = ada.join().expect("a client");
    assert_eq!(
        (answer.status, answer.json()["error"]["code"].clone()),
        (409, json!("stopped")),
        "{answer:?}"
    );
    assert_eq!(answer.header("x-should-retry"), Some("false"));
    assert_eq!(
        api.post("/api/v1/stop", &json!({})).json()["reply"],
        "Stopped."
    );
    assert_eq!(eve.join().expect("a client").status, 409);
    assert_eq!(
        api.post("/api/v1/stop", &json!({"session": "@nobody"}))
            .status,
        400
    );
    assert_eq!(
        api.client
            .request("POST", "/api/v1/stop", &[], b"{}")
            .status,
        415
    );
}

#[test]
fn a_conversation_starts_over_and_nothing_of_it_is_lost() {
    let api = Api::new();
    let first = api.chat(&json!({"message": "the first", "sender": "ada"}));
    let reset = api.post("/api/v1/sessions/reset", &json!({"target": "http:ada"}));
    assert_eq!(reset.status, 200, "{reset:?}");
    let second = api.chat(&json!({"message": "the second", "sender": "ada"}));
    assert_ne!(first["session_id"], second["session_id"]);
    let old = api
        .get(&format!(
            "/api/v1/sessions/{}/history",
            first["session_id"].as_str().expect("an id")
        ))
        .json();
    assert!(old.to_string().contains("the first"), "{old}");
    assert_eq!(
        api.post("/api/v1/sessions/reset", &json!({"target": "ada"}))
            .status,
        200,
        "its name alone"
    );
    assert_eq!(
        api.post("/api/v1/sessions/reset", &json!({"target": "all"}))
            .status,
        200
    );
    assert_eq!(api.get("/api/v1/sessions").json(), json!({"sessions": []}));
    for target in [
        json!({}),
        json!({"target": ""}),
        json!({"target": "@nobody"}),
        json!({"target": "a\u{0}b"}),
        json!({"target": 1}),
    ] {
        assert_eq!(
            api.post("/api/v1/sessions/reset", &target).status,
            400,
            "{target}"
        );
    }
    // What is said with a slash means what it means in a chat.
    api.chat(&json!({"message": "the third", "sender": "ada"}));
    let told = api.chat(&json!({"message": "/new", "sender": "ada"}));
    assert!(
        told["run_id"].is_null() || told["run_id"].is_string(),
        "{told}"
    );
    assert_eq!(api.get("/api/v1/sessions").json(), json!({"sessions": []}));
}

#[test]
fn the_owners_word_is_given_over_http_and_by_nothing_that_is_said() {
    let api = Api::with("[tools.exec]\npolicy = \"ask\"");
    let run = |command: &str| {
        api.model
            .push(Reply::Tool("exec".to_owned(), json!({"command": command})));
        waiting(&api, json!({"message": "do it", "sender": "ada"}))
    };
    let asked = || {
        let asked = wait_for("a question", SOON, || {
            let document = api.get("/api/v1/approvals").json();
            document["approvals"]
                .as_array()
                .filter(|list| !list.is_empty())
                .map(|list| list[0].clone())
        });
        (asked["id"].as_str().expect("an id").to_owned(), asked)
    };
    let chat = run("echo $((6*7)) # a\u{e0041}");
    let (id, document) = asked();
    assert!(
        document["tool"] == "exec"
            && document["text"]
                .as_str()
                .is_some_and(|text| text.contains("echo $((6*7))"))
            && document["shown"]
                .as_str()
                .is_some_and(|text| text.contains("# a\\u{e0041}")),
        "{document}"
    );
    assert_eq!(api.get("/api/v1/queue").json()["approvals"][0], document);
    // Words decide nothing, whoever's they seem to be.
    let said = api.post(
        "/api/v1/chat",
        &json!({"message": format!("/approve {id}"), "sender": "eve"}),
    );
    assert_eq!(
        (said.status, said.json()["error"]["code"].clone()),
        (400, json!("bad_request")),
        "{said:?}"
    );
    for body in [
        json!({}),
        json!({"verdict": "yes"}),
        json!({"verdict": true}),
        json!({"verdict": "approve", "why": 1}),
    ] {
        assert_eq!(
            api.post(&format!("/api/v1/approvals/{id}"), &body).status,
            400,
            "{body}"
        );
    }
    assert_eq!(
        api.get("/api/v1/approvals").json()["approvals"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    let yes = api.post(
        &format!("/api/v1/approvals/{id}"),
        &json!({"verdict": "approve"}),
    );
    assert_eq!(yes.status, 200, "{yes:?}");
    assert!(
        chat.join().expect("a client").json()["reply"]
            .as_str()
            .is_some_and(|reply| reply.contains("42"))
    );
    assert_eq!(
        api.post(
            &format!("/api/v1/approvals/{id}"),
            &json!({"verdict": "approve"})
        )
        .status,
        404,
        "it is used up"
    );

    let chat = run("echo no");
    let (id, _) = asked();
    let no = api.post(
        &format!("/api/v1/approvals/{id}"),
        &json!({"verdict": "deny", "why": "not today"}),
    );
    assert_eq!(no.status, 200, "{no:?}");
    let reply = chat.join().expect("a client").json();
    assert!(
        reply["reply"]
            .as_str()
            .is_some_and(|reply| reply.contains("not today")),
        "{reply}"
    );
    let audit = api.sandbox.send(&["--log", "--audit", "50"]).stdout;
    assert!(audit.contains("HTTP"), "{audit}");

    // Whoever reads along is asked there.
    api.model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": "echo stream"}),
    ));
    let client = api.client.clone();
    let stream = thread::spawn(move || {
        client
            .post(
                "/api/v1/chat/stream",
                &json!({"message": "do it", "sender": "ada"}),
            )
            .events()
    });
    let (id, _) = asked();
    assert_eq!(
        api.post(
            &format!("/api/v1/approvals/{id}"),
            &json!({"verdict": "approve"})
        )
        .status,
        200
    );
    let events = stream.join().expect("a client");
    assert!(
        events
            .iter()
            .any(|(name, data)| name == "approval" && data["id"] == id.as_str()),
        "{events:?}"
    );

    // OpenAI's protocol has no event for it; clients show the model's thoughts beside the answer.
    api.model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": "echo chunks"}),
    ));
    let client = api.client.clone();
    let stream = thread::spawn(move || {
        let said = json!([{"role": "user", "content": "do it again"}]);
        let body = json!({"model": "agent", "stream": true, "messages": said});
        client.post("/v1/chat/completions", &body).events()
    });
    let (id, document) = asked();
    let page = api.get("/").text();
    assert!(page.contains("1 question for you since"), "{page}");
    let verdict = json!({"verdict": "approve"});
    let decided = api.post(&format!("/api/v1/approvals/{id}"), &verdict);
    assert_eq!(decided.status, 200);
    let events = stream.join().expect("a client");
    let thoughts = events
        .iter()
        .filter_map(|(_, chunk)| chunk["choices"][0]["delta"]["reasoning_content"].as_str());
    let thoughts: String = thoughts.collect();
    let until = document["expires_at"].as_str().expect("a time");
    assert!(
        thoughts.contains("approval of exec") && thoughts.contains(until),
        "{events:?}"
    );
}

#[test]
fn a_caller_waits_until_the_model_is_back() {
    let api = Api::new();
    for _ in 0..100 {
        api.model.push(Reply::Status(529, None));
    }
    let ada = waiting(&api, json!({"message": "hello", "sender": "ada"}));
    wait_for("the turn to be suspended", SOON, || {
        let suspended = "SELECT id FROM inbox WHERE suspended IS NOT NULL";
        (!api.sandbox.query("queue", suspended).is_empty()).then_some(())
    });
    api.model.forget();
    let answer = ada.join().expect("a client");
    assert_eq!(
        (answer.status, answer.json()["reply"].clone()),
        (200, json!("echo: hello")),
        "{answer:?}"
    );
}
