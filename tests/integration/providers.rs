//! What providers need beyond one exchange: a model's thinking through a whole turn, and servers that are
//! down.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{FakeModel, Reply, Sandbox, wait_for};

const SOON: Duration = Duration::from_secs(20);

/// Returns a stream of Anthropic's events.
fn stream(events: &[Value]) -> Reply {
    let event = |event: &Value| {
        format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().expect("a type")
        )
    };
    Reply::RawSse(events.iter().map(event).collect())
}

/// A thought, signed, and a call of `exec`.
fn thinks_and_calls(id: &str) -> Reply {
    stream(&[
        json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "x",
            "content": [], "stop_reason": null, "usage": {"input_tokens": 9, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "canary-thought"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": id, "name": "exec", "input": {}}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"command\": \"printf 42\"}"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ])
}

#[test]
fn a_models_thinking_goes_back_to_it_and_is_shown_to_nobody() {
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.provider_config("mock", "[models.primary]\nthinking = true");
    let daemon = sandbox.ready();
    model.push(thinks_and_calls("toolu_1"));
    let told = sandbox.send(&["--stream", "--id", "t1", "how much?"]);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "result: 42\n"),
        "{told:?}"
    );
    let thought = json!({"type": "thinking", "thinking": "canary-thought", "signature": "c2ln"});
    let sent = model.requests();
    assert_eq!(
        sent[0]["thinking"],
        json!({"type": "enabled", "budget_tokens": 4096})
    );
    assert_eq!(
        (&sent[1]["thinking"], &sent[1]["messages"][1]["content"][0]),
        (&sent[0]["thinking"], &thought)
    );
    // After a restart it comes out of the transcript.
    assert_eq!(daemon.term(), 0);
    let _daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--wait", "and now?"]).code, 0);
    let last = model.requests().pop().expect("a request");
    assert_eq!(last["messages"][1]["content"][0], thought);
    for told in [
        sandbox.send(&["--history", "cli"]),
        sandbox.send(&["--history", "cli", "--json"]),
        sandbox.monitor(&["--json"]),
    ] {
        assert!(!told.stdout.contains("canary-thought"), "{told:?}");
    }
}

#[test]
fn a_result_that_the_server_refuses_twice_does_not_end_the_turn() {
    let (model, sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": "echo poison"}),
    ));
    (0..2).for_each(|_| model.push(Reply::Status(400, None)));
    let told = sandbox.send(&["--wait=40", "go"]);
    let left_out = "⟦left out: the server of the model primary refuses a request with it⟧";
    assert_eq!(
        (told.code, told.stdout),
        (0, format!("result: {left_out}\n"))
    );
    let sent = model.requests();
    assert_eq!(
        sent.iter()
            .map(|request| request.to_string().contains("poison\\n"))
            .collect::<Vec<_>>(),
        [false, true, true, false]
    );
    assert!(
        daemon
            .log()
            .contains("without the newest result, file or picture"),
        "{}",
        daemon.log()
    );
    // The transcript has it all the same, and the next message goes without it at once.
    assert_eq!(
        sandbox.send(&["--wait=40", "and now?"]).stdout,
        "echo: and now?\n"
    );
    assert!(!model.requests()[4].to_string().contains("poison\\n"));
}

#[test]
fn a_provider_that_is_down_is_shown_and_passed_over_and_known_after_a_reload() {
    let model = FakeModel::start();
    let sandbox = Sandbox::new().with_provider("spare", "openai", &model, "spare");
    // Nobody listens at the discard port.
    let sandbox = sandbox.provider_config(
        "gone",
        "type = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\n[models.primary]\nmodel = \"m\"\nfallbacks = [\"spare\"]\n\
         cost_per_mtok = [0, 0, 0, 0]",
    );
    let daemon = sandbox.ready();
    let providers = || sandbox.send(&["--status", "--json"]).json()["providers"].clone();
    let fine = |name: &str| json!({"name": name, "state": "ok", "since": null, "retry_at": null, "last_error": null});
    assert_eq!(providers(), json!([fine("gone"), fine("spare")]));
    let ask = |text: &str| {
        let begun = Instant::now();
        let told = sandbox.send(&["--wait=40", text]);
        assert_eq!((told.code, told.stdout), (0, format!("echo: {text}\n")));
        begun.elapsed()
    };
    ask("one");
    wait_for("what is down to be shown", SOON, || {
        let gone = providers()[0].clone();
        let error = gone["last_error"].as_str().unwrap_or_default();
        (gone["state"] == "down"
            && error.starts_with("127.0.0.1:9 cannot be reached")
            && gone["since"].is_string())
        .then_some(())
    });
    let frame = sandbox.monitor(&[]).stdout;
    assert!(frame.contains("provider  gone is down for "), "{frame}");
    assert!(ask("two") < Duration::from_secs(2), "it is passed over");
    daemon.signal(Signal::SIGHUP);
    wait_for("the reload", SOON, || {
        daemon
            .log()
            .contains("configuration reloaded")
            .then_some(())
    });
    assert!(
        ask("three") < Duration::from_secs(2),
        "it is known after a reload"
    );
    let told = daemon.log();
    assert_eq!(told.matches("the provider is down").count(), 1, "{told}");
}

#[test]
fn what_the_vendor_declines_is_left_out_of_the_conversation() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    model.push(stream(&[
        json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "x",
            "content": [], "stop_reason": null, "usage": {"input_tokens": 9, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "I can"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "refusal"}, "usage": {"output_tokens": 2}}),
        json!({"type": "message_stop"}),
    ]));
    let told = sandbox.send(&["--wait=40", "canary-question"]);
    assert!(
        told.code == 0
            && told.stdout.starts_with("The model declined to answer this")
            && !told.stdout.contains("I can"),
        "{told:?}"
    );
    assert_eq!(
        sandbox.send(&["--wait=40", "and now?"]).stdout,
        "echo: and now?\n"
    );
    let sent = model.requests();
    let shown = |at: usize| sent[at]["messages"].to_string();
    assert!(shown(0).contains("canary-question"));
    assert!(
        shown(1).contains("the model's vendor declined to answer this")
            && !shown(1).contains("canary-question")
            && !shown(1).contains("I can"),
        "{}",
        shown(1)
    );
    let history = sandbox.send(&["--history", "cli"]).stdout;
    assert!(history.contains("canary-question"), "{history}");
}

#[test]
fn a_call_that_the_server_could_not_read_is_asked_for_once_more() {
    let model = FakeModel::start();
    let sandbox = Sandbox::new().with_openai(&model);
    let _daemon = sandbox.ready();
    let piece = json!({"choices": [{"delta": {"content": "I look"}}]});
    let error = json!({"error": {"type": "invalid_request_error", "code": "tool_use_failed", "message": "Failed to call a function."}});
    model.push(Reply::RawSse(format!("data: {piece}\n\ndata: {error}\n\n")));
    model.push(Reply::Text("There it is.".to_owned()));
    let told = sandbox.send(&["--wait=40", "look"]);
    assert_eq!((told.code, told.stdout.as_str()), (0, "There it is.\n"));
    assert_eq!(model.requests().len(), 2);
    let providers = sandbox.send(&["--status", "--json"]).json()["providers"].clone();
    assert_eq!(providers[0]["state"], "ok");
}
