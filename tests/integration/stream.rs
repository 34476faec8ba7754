//! `agent-send --stream`: a reply that is read while it is written.

use std::{fs, os::unix::fs::PermissionsExt as _, time::Duration};

use serde_json::json;

use crate::support::{FakeModel, Reply, Sandbox, wait_for};

/// Long against everything that happens here, short against the patience of a reader.
const SOON: Duration = Duration::from_secs(20);

/// Returns the file in which the reply to `id` grows.
fn part(id: &str) -> String {
    format!("state/replies/{id}.part")
}

#[test]
fn a_streamed_reply_arrives_before_its_end_and_is_the_reply() {
    for wire in ["anthropic", "openai"] {
        let model = FakeModel::start();
        let sandbox = match wire {
            "openai" => Sandbox::new().with_openai(&model),
            _ => Sandbox::new().with_anthropic(&model),
        };
        let _daemon = sandbox.ready();
        let text = "It is five o'clock, ünd two mönths later it will be six.\n\n- one\n- two";
        model.push(Reply::Held(text.to_owned()));
        let sending = sandbox.sending(&["--stream", "--id", "s1", "what time is it?"]);
        assert_eq!(sending.wait_said("It is five o"), "It is five o", "{wire}");
        let mode = fs::metadata(sandbox.path(&part("s1")))
            .expect("it grows")
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o600);
        let answer = sandbox
            .read_json("state/replies/s1.json")
            .expect("an answer file");
        assert_eq!(answer["status"], "running", "{wire}: {answer}");
        model.go_on();
        let told = sending.end();
        assert_eq!(
            (told.code, told.stdout, told.stderr.as_str()),
            (0, format!("{text}\n"), ""),
            "{wire}"
        );
        assert_eq!(
            sandbox.send(&["--result", "s1"]).stdout,
            format!("{text}\n")
        );
        assert!(
            !sandbox.path(&part("s1")).exists(),
            "the reply itself is there now"
        );
        // A second look at the same message is the same reply, whole.
        assert_eq!(
            sandbox
                .send(&["--stream", "--id", "s1", "what time is it?"])
                .stdout,
            format!("{text}\n")
        );
        assert_eq!(model.requests().len(), 1);
    }
}

#[test]
fn what_is_said_before_a_tool_is_shown_and_parted_from_the_reply() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    let events = |block: &str| {
        format!(
            "event: message_start\ndata: {{\"type\":\"message_start\",\"message\":{{\"id\":\"m\",\"type\":\"message\",\"role\":\
             \"assistant\",\"model\":\"x\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{{\"input_tokens\":\
             1,\"output_tokens\":1}}}}}}\n\n{block}event: message_stop\ndata: {{\"type\":\"message_stop\"}}\n\n"
        )
    };
    let event = |value: serde_json::Value| {
        format!(
            "event: {}\ndata: {value}\n\n",
            value["type"].as_str().expect("a type")
        )
    };
    let say_and_call = [
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Let me look."}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block":
            {"type": "tool_use", "id": "toolu_1", "name": "exec", "input": {}}}),
        json!({"type": "content_block_delta", "index": 1, "delta":
            {"type": "input_json_delta", "partial_json": "{\"command\": \"printf 42\"}"}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 9}}),
    ];
    model.push(Reply::RawSse(events(&say_and_call.map(event).concat())));
    let told = sandbox.send(&["--stream", "--id", "t1", "how much?"]);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "Let me look.\n\nresult: 42\n"),
        "{told:?}"
    );
    assert_eq!(
        sandbox.send(&["--result", "t1"]).stdout,
        "result: 42\n",
        "the reply is the last word"
    );
    // Without --stream nothing else is printed either.
    assert_eq!(
        sandbox
            .send(&["--wait", "[[tool exec {\"command\": \"printf 7\"}]]"])
            .stdout,
        "result: 7\n"
    );
}

#[test]
fn a_stream_that_breaks_and_is_tried_again_ends_with_the_whole_reply() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    model.push(Reply::Disconnect);
    let told = sandbox.send(&["--stream", "--id", "r1", "hello"]);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(told.stdout.ends_with("\n\necho: hello\n"), "{told:?}");
    assert_eq!(told.stdout.matches("echo: hello").count(), 1, "{told:?}");
    assert_eq!(sandbox.send(&["--result", "r1"]).stdout, "echo: hello\n");
    assert_eq!(model.requests().len(), 2);
}

#[test]
fn silence_is_never_shown_not_even_its_first_letters() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    for token in ["NO_REPLY", "HEARTBEAT_OK"] {
        let before = model.requests().len();
        model.push(Reply::Held(format!("{token}\n")));
        let sending = sandbox.sending(&["--stream", "anything new?"]);
        model.wait_requests(before + 1, SOON);
        model.go_on();
        let told = sending.end();
        assert_eq!(
            (told.code, told.stdout.as_str(), told.stderr.as_str()),
            (0, "", ""),
            "{token}"
        );
    }
    // What only begins like it is shown in the end.
    model.push(Reply::Text("NO_REPLY is a token".to_owned()));
    assert_eq!(
        sandbox.send(&["--stream", "what is NO_REPLY?"]).stdout,
        "NO_REPLY is a token\n"
    );
    model.push(Reply::Text("NO".to_owned()));
    assert_eq!(sandbox.send(&["--stream", "yes or no?"]).stdout, "NO\n");
}

#[test]
fn a_failed_turn_is_1_and_its_half_sentence_ends_with_a_newline() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    model.push(Reply::Status(400, None));
    let told = sandbox.send(&["--stream", "--id", "f1", "fail"]);
    assert_eq!((told.code, told.stdout.as_str()), (1, ""), "{told:?}");
    assert!(
        told.stderr.starts_with("agent-send: ") && told.stderr.contains("\nhint: "),
        "{told:?}"
    );
    assert!(!sandbox.path(&part("f1")).exists());

    for _ in 0..3 {
        model.push(Reply::Disconnect);
    }
    // A model that is away costs no message: each try is shown, and the last one answers.
    let told = sandbox.send(&["--stream", "fail later"]);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(
        told.stdout.starts_with("this sentence ") && told.stdout.ends_with("\necho: fail later\n"),
        "{told:?}"
    );

    model.push(Reply::Held("I am thinking about it".to_owned()));
    let told = sandbox.send(&["--stream", "--wait=1", "--id", "slow", "hello"]);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (75, "I am thinkin\nslow\n"),
        "the id stands on its own line"
    );
    model.go_on();
    assert_eq!(
        sandbox.send(&["--result", "slow", "--wait"]).stdout,
        "I am thinking about it\n"
    );
}

#[test]
fn a_daemon_killed_in_the_middle_of_a_stream_gives_the_whole_reply_later() {
    let (model, sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    model.push(Reply::Held("The first daemon says this.".to_owned()));
    let sending = sandbox.sending(&["--stream", "--id", "k1", "hello"]);
    sending.wait_said("The first da");
    daemon.kill9();
    assert!(
        sandbox.path(&part("k1")).exists(),
        "it had no time to tidy up"
    );
    wait_for("the sender to notice", SOON, || {
        sending.said().1.contains("not running").then_some(())
    });

    model.push(Reply::Held(
        "Ümläute and other words of the second one.".to_owned(),
    ));
    let _daemon = sandbox.ready();
    sending.wait_said("Ümläute and ");
    model.go_on();
    let told = sending.end();
    let expected = "The first da\n\nÜmläute and other words of the second one.\n";
    assert_eq!((told.code, told.stdout.as_str()), (0, expected), "{told:?}");
    assert!(!sandbox.path(&part("k1")).exists());
    assert_eq!(
        sandbox.send(&["--stream", "--id", "k1", "hello"]).stdout,
        "Ümläute and other words of the second one.\n"
    );
}

#[test]
fn many_streams_at_once_do_not_mix() {
    let model = FakeModel::start();
    let sandbox = Sandbox::new()
        .with_anthropic(&model)
        .config("[agent]\nmax_concurrent_runs = 12");
    let _daemon = sandbox.ready();
    let sendings: Vec<_> = (0..12)
        .map(|number| {
            let (name, text) = (format!("s{number}"), format!("[[long {}]]", 2000 + number));
            sandbox.sending(&["--stream", "--from", &name, &text])
        })
        .collect();
    for (number, sending) in sendings.into_iter().enumerate() {
        let told = sending.end();
        assert_eq!(
            (told.code, told.stdout.trim_end_matches('\n').len()),
            (0, 2000 + number),
            "{number}"
        );
        assert!(
            told.stdout.starts_with("w0001 w0002 "),
            "{number}: {told:?}"
        );
    }
    let left = fs::read_dir(sandbox.path("state/replies"))
        .expect("replies")
        .flatten();
    let parts: Vec<_> = left
        .filter(|entry| entry.file_name().to_string_lossy().ends_with(".part"))
        .collect();
    assert!(parts.is_empty(), "{parts:?}");
}

#[test]
fn a_stream_that_cannot_be_written_costs_only_the_reading_along() {
    let (model, sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    // Something stands in its place.
    fs::create_dir(sandbox.path(&part("d1"))).expect("the sandbox is writable");
    let told = sandbox.send(&["--stream", "--id", "d1", "hello"]);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "echo: hello\n"),
        "{told:?}"
    );
    assert_eq!(model.requests().len(), 1);
    assert_eq!(daemon.term(), 0);
}
