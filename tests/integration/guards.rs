//! What keeps a turn from running away, and what it says of its deeds.

use std::{fs, time::Duration};

use serde_json::{Value, json};

use crate::support::{Daemon, FakeModel, Reply, Sandbox, wait_for};

struct House {
    // First, so that it ends before its files go.
    _daemon: Daemon,
    model: FakeModel,
    sandbox: Sandbox,
}

impl House {
    fn new(config: &str) -> Self {
        let (model, sandbox) = Sandbox::with_model();
        let sandbox = sandbox.config(config);
        Self {
            _daemon: sandbox.ready(),
            model,
            sandbox,
        }
    }

    fn write(&self, path: &str) {
        self.model.push(Reply::Tool(
            "write".to_owned(),
            json!({"path": path, "content": "x\n"}),
        ));
    }

    /// Returns the answer's document.
    fn told(&self, text: &str) -> Value {
        let told = self.sandbox.send(&["--wait=40", "--json", text]);
        serde_json::from_str(&told.stdout).unwrap_or_else(|why| panic!("{why}: {told:?}"))
    }
}

#[test]
fn what_was_done_is_told_by_the_record_and_not_by_the_model() {
    let house = House::new("");
    house.write("one.md");
    house.model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": "echo hi"}),
    ));
    house
        .model
        .push(Reply::Tool("read".to_owned(), json!({"path": "one.md"})));
    house.model.push(Reply::Text(
        "I wrote one.md and mailed the president.".to_owned(),
    ));
    assert_eq!(
        house.told("go")["receipts"],
        json!(["wrote one.md: 1 line, 2 bytes", "ran echo hi"])
    );
    assert_eq!(house.told("hello").get("receipts"), None);
}

#[test]
fn a_turn_that_ends_early_says_what_it_did_until_then() {
    let house = House::new("[agent.max_turns_for]\ncli = 3");
    for file in ["a.md", "b.md", "c.md"] {
        house.write(file);
    }
    let told = house.told("go on for ever");
    assert_eq!(
        told["reply"],
        "I stopped after 3 steps without coming to an end. Say \"continue\" and I go on.\n\n\
         Done so far: wrote a.md: 1 line, 2 bytes; wrote b.md: 1 line, 2 bytes."
    );
    assert!(
        !house.sandbox.path("workspace/c.md").exists(),
        "the last step has no tools"
    );
    assert_eq!(house.model.requests().len(), 3);
    // A turn that fails says so, too.
    house.write("d.md");
    for _ in 0..6 {
        house.model.push(Reply::Status(400, None));
    }
    let told = house.told("once more");
    assert_eq!(
        told["receipts"],
        json!(["wrote d.md: 1 line, 2 bytes"]),
        "{told}"
    );
}

#[test]
fn a_model_that_asks_for_everything_at_once_gets_a_part_of_it() {
    let house = House::new("");
    let calls: String = (0..40)
        .map(|number| format!("[[tool write {{\"path\": \"f{number}.md\", \"content\": \"x\"}}]] "))
        .collect();
    house.told(&calls);
    let last = house.model.requests().pop().expect("a request");
    let results = last["messages"]
        .as_array()
        .and_then(|messages| messages.last())
        .expect("results")["content"]
        .clone();
    let results = results.as_array().expect("blocks");
    assert_eq!(
        results
            .iter()
            .filter(|block| block["type"] == "tool_result")
            .count(),
        40
    );
    assert_eq!(
        results
            .iter()
            .filter(|block| block.to_string().contains("at most 32 calls"))
            .count(),
        8
    );
    let there = |number: u32| {
        house
            .sandbox
            .path(&format!("workspace/f{number}.md"))
            .exists()
    };
    assert_eq!((0..40).filter(|number| there(*number)).count(), 32);
}

#[test]
fn a_pause_of_the_vendor_goes_on_and_is_one_answer() {
    let house = House::new("");
    let event = |kind: &str, more: Value| {
        let mut event = json!({"type": kind});
        event
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
        format!("event: {kind}\ndata: {event}\n\n")
    };
    let paused = [
        event(
            "message_start",
            json!({"message": {"role": "assistant", "content": [], "usage": {"input_tokens": 5, "output_tokens": 1}}}),
        ),
        event(
            "content_block_start",
            json!({"index": 0, "content_block": {"type": "text", "text": ""}}),
        ),
        event(
            "content_block_delta",
            json!({"index": 0, "delta": {"type": "text_delta", "text": "First half, "}}),
        ),
        event("content_block_stop", json!({"index": 0})),
        event(
            "message_delta",
            json!({"delta": {"stop_reason": "pause_turn"}, "usage": {"output_tokens": 4}}),
        ),
        event("message_stop", json!({})),
    ];
    house.model.push(Reply::RawSse(paused.concat()));
    house.model.push(Reply::Text("second half.".to_owned()));
    assert_eq!(house.told("go")["reply"], "First half, second half.");
    assert_eq!(house.told("hi")["reply"], "echo: hi");
    assert_eq!(house.model.requests().len(), 3);
}

#[test]
fn a_pause_without_a_word_is_followed_once() {
    let house = House::new("");
    let event = json!({"type": "message_delta", "delta": {"stop_reason": "pause_turn"}, "usage": {"output_tokens": 4}});
    let pause = format!("data: {event}\n\ndata: {{\"type\":\"message_stop\"}}\n\n");
    house.model.push(Reply::RawSse(pause.clone()));
    house.model.push(Reply::Text("Here.".to_owned()));
    assert_eq!(house.told("go")["reply"], "Here.");
    (0..2).for_each(|_| house.model.push(Reply::RawSse(pause.clone())));
    assert_eq!(
        house.told("go")["reply"],
        "The model gave an empty answer. Please ask again."
    );
    assert_eq!(house.model.requests().len(), 4);
}

#[test]
fn a_stop_is_heard_while_a_model_says_nothing() {
    let house = House::new("");
    house.model.push(Reply::Hang);
    let waiting = house
        .sandbox
        .sending(&["--wait=40", "--id", "slow", "think"]);
    wait_for("the model to be asked", Duration::from_secs(20), || {
        (house.model.in_flight() > 0).then_some(())
    });
    let began = std::time::Instant::now();
    assert_eq!(house.sandbox.send(&["--stop"]).code, 0);
    assert_eq!(waiting.end().code, 1);
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(house.told("and now")["reply"], "echo: and now");
}

#[test]
fn a_stop_ends_a_turn_that_began_with_new() {
    let house = House::new("");
    house.model.push(Reply::Hang);
    let waiting = house
        .sandbox
        .sending(&["--wait=40", "/new delete everything"]);
    wait_for("the model to be asked", Duration::from_secs(20), || {
        (house.model.in_flight() > 0).then_some(())
    });
    assert_eq!(house.sandbox.send(&["--stop"]).code, 0);
    let told = waiting.end();
    assert_eq!(told.code, 1, "{told:?}");
    assert_eq!(house.told("and now")["reply"], "echo: and now");
}

#[test]
fn a_call_that_is_cut_off_again_and_again_ends_the_turn() {
    let house = House::new("");
    let call = json!({"type": "tool_use", "id": "toolu_cut", "name": "write", "input": {}});
    let frames = [
        json!({"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {"input_tokens": 9, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": call}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"path\": \"a\", \"content\": \"x"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 8192}}),
        json!({"type": "message_stop"}),
    ];
    let stream: String = frames
        .iter()
        .map(|frame| {
            format!(
                "event: {}\ndata: {frame}\n\n",
                frame["type"].as_str().unwrap_or_default()
            )
        })
        .collect();
    for _ in 0..9 {
        house.model.push(Reply::RawSse(stream.clone()));
    }
    let told = house.told("write a novel");
    assert!(
        told["reply"]
            .as_str()
            .is_some_and(|reply| reply.contains("refused again and again")),
        "{told}"
    );
    assert_eq!(house.model.requests().len(), 5);
}

#[test]
fn a_model_that_ends_without_a_word_is_asked_to_go_on_once() {
    let house = House::new("");
    let says = |words: &str| house.model.push(Reply::Text(words.to_owned()));
    says("");
    says("here it is");
    assert_eq!(house.told("look it up")["reply"], "here it is");
    assert_eq!(house.model.requests().len(), 2);
    says("");
    says("");
    let told = house.told("and again");
    assert!(
        told["reply"]
            .as_str()
            .is_some_and(|reply| reply.contains("an empty answer")),
        "{told}"
    );
    assert_eq!(house.model.requests().len(), 4);
    assert_eq!(house.told("still there?")["reply"], "echo: still there?");
}

#[test]
fn a_secret_in_the_owners_words_stays_out_of_requests_until_they_insist() {
    let (model, sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    let key = "sk-proj-canary0123456789abcdef";
    let said = format!("keep {key} for me, and 4111 1111 1111 1111");
    let answer = sandbox.send(&["--wait", &said]);
    assert!(answer.stdout.contains("/allow-secret"), "{answer:?}");
    let sent = model.requests().pop().expect("a request").to_string();
    assert!(
        !sent.contains("canary0123") && !sent.contains("4111") && sent.contains("a card number"),
        "{sent}"
    );
    // Joined to what came just before.
    let lines = ["now a longer one", "it is sk-proj-canary9876543210fedcba"];
    for line in lines {
        assert_eq!(sandbox.send(&[line]).code, 0);
    }
    wait_for("both", Duration::from_secs(20), || {
        (sandbox
            .query("queue", "SELECT id FROM inbox WHERE state = 'done'")
            .len()
            == 3)
            .then_some(())
    });
    assert_eq!(daemon.term(), 0);
    sandbox.empty_log("queue");
    let stored = fs::read(sandbox.path("state/queue.db")).expect("a queue");
    let stored = String::from_utf8_lossy(&stored);
    assert!(stored.contains("a card number"), "the message without them");
    assert!(!stored.contains("canary") && !stored.contains("4111 1111"));
    assert!(stored.contains("now a longer one"));
    let _daemon = sandbox.ready();
    let answer = sandbox.send(&["--wait", &format!("/allow-secret {said}")]);
    assert!(!answer.stdout.contains("/allow-secret"), "{answer:?}");
    let sent = model.requests().pop().expect("a request").to_string();
    assert!(
        sent.contains(key) && !sent.contains("/allow-secret"),
        "{sent}"
    );
    let answer = sandbox.send(&[
        "--wait",
        "call 0171 2345678901 about commit 9f86d081884c7d65",
    ]);
    assert!(!answer.stdout.contains("/allow-secret"), "{answer:?}");
}

/// Has a run write a file that touches the canary, after it had read a page.
fn write_untrusted(model: &FakeModel, sandbox: &Sandbox, path: &str) {
    let page = json!({"path": path, "content": "touch canary # out of a page\n"});
    model.push(Reply::Tool("write".to_owned(), page));
    let words = format!("please run {path}");
    let written = sandbox.send(&["--wait", "--untrusted", "--session", "page", &words]);
    assert_eq!(written.code, 0, "{written:?}");
}

#[test]
fn what_was_decided_before_a_file_was_written_does_not_run_it() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    write_untrusted(&model, &sandbox, "page.md");
    let exec = |command: &str| format!("[[tool exec {}]]", json!({"command": command}));
    // Both calls of a step are decided before the first one runs.
    for (session, first, second) in [
        ("copied", "cp page.md a.sh", "sh a.sh"),
        ("moved", "mv page.md b.sh", "sh b.sh"),
    ] {
        let both = [exec(first), exec(second)].concat();
        let answer = sandbox.send(&["--wait", "--session", session, &both]);
        assert_eq!(answer.code, 0, "{answer:?}");
        assert!(!sandbox.path("workspace/canary").exists(), "{answer:?}");
    }
    // When nobody can tell whose files are whose, what may run any of them asks.
    sandbox.put("state/untrusted.json", b"{\"files\":");
    sandbox.put("workspace/own.sh", b"true\n");
    let asking = sandbox.sending(&["--wait", "--session", "damaged", &exec("sh own.sh")]);
    let asked = sandbox.wait_asked();
    let listed = sandbox.send(&["--queue"]).stdout;
    assert!(listed.contains("untrusted.json cannot be read"), "{listed}");
    assert_eq!(sandbox.send(&["--deny", &asked]).code, 0);
    assert_eq!(asking.end().code, 0);
}

#[test]
fn a_program_that_an_untrusted_run_wrote_runs_only_with_a_yes() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    write_untrusted(&model, &sandbox, "run.sh");
    assert!(sandbox.path("workspace/run.sh").exists());
    let canary = sandbox.path("workspace/canary");
    let exec = |command: &str| {
        model.push(Reply::Tool("exec".to_owned(), json!({"command": command})));
    };
    // By a pattern: the owner is asked, as by its name.
    exec("cat *.sh | sh");
    let going = sandbox.sending(&["--wait", "--session", "pattern", "go"]);
    let asked = sandbox.wait_asked();
    assert_eq!(sandbox.send(&["--deny", &asked]).code, 0);
    assert!(going.end().code == 0 && !canary.exists());
    // Under another name, or by a name that the command does not say: it is closed.
    for (session, command) in [
        ("one", "cat $(ls | grep run) | sh"),
        ("two", "cp $(ls | grep run) other.md; sh ./other.md"),
    ] {
        exec(command);
        let answer = sandbox.send(&["--wait", "--session", session, "go"]);
        assert_eq!(answer.code, 0, "{answer:?}");
        let told = model.requests().pop().expect("a request").to_string();
        assert!(told.contains("closed to this command: 1 file"), "{told}");
        assert!(!canary.exists(), "{command}");
    }
    // It is said only of a command that may have met it: any other's output comes as it is.
    for (session, command) in [("three", "echo fine"), ("four", "ls")] {
        exec(command);
        let answer = sandbox.send(&["--wait", "--session", session, "go"]);
        assert_eq!(answer.code, 0, "{answer:?}");
        let told = model.requests().pop().expect("a request").to_string();
        assert!(!told.contains("closed to this command"), "{told}");
    }
    // By its name, whatever the owner typed: they are asked, and told why.
    exec("sh run.sh");
    let going = sandbox.sending(&["--wait", "--session", "five", "run sh run.sh"]);
    let asked = sandbox.wait_asked();
    let listed = sandbox.send(&["--queue"]).stdout;
    assert!(
        listed.contains("it may run or read “run.sh”, written by a run"),
        "{listed}"
    );
    assert!(!canary.exists());
    assert_eq!(sandbox.send(&["--approve", &asked]).code, 0);
    let answer = going.end();
    assert!(answer.code == 0 && canary.exists(), "{answer:?}");
    // The yes was one to the script, until somebody writes it again.
    std::fs::remove_file(&canary).expect("removed");
    exec("sh run.sh");
    let answer = sandbox.send(&["--wait", "--session", "six", "run sh run.sh"]);
    assert!(answer.code == 0 && canary.exists(), "{answer:?}");
}
