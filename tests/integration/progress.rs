//! What a chat shows while the agent works, as the person sees it: a sign, a line, the words as they come;
//! and nothing of it once the answer stands, whatever happened between.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Call, Fault, FaultKind, House, Reply, wait_for};

/// Long against everything that happens here, short against the patience of a reader.
const SOON: Duration = Duration::from_secs(20);
const OWNER: i64 = 1001;
const TEXT: &str = "It is five o'clock, ünd two mönths later it will be six.";

fn say(house: &House, text: &str) -> i64 {
    house.telegram.say(OWNER, OWNER, text).1
}

/// Waits for the answer to a message and returns its words.
fn answer(house: &House, message_id: i64) -> String {
    house
        .telegram
        .wait_sent(|sent| sent.reply_to == Some(message_id), SOON)
        .text
}

/// Waits until a text that `wanted` takes stands in the owner's chat.
fn wait_shown(house: &House, wanted: impl Fn(&str) -> bool) -> String {
    wait_for("a text in the chat", SOON, || {
        house
            .telegram
            .shown(OWNER)
            .into_iter()
            .find(|text| wanted(text))
    })
}

/// Returns what was called in the chat, but for typing, with the words.
fn calls(house: &House) -> Vec<String> {
    let of_chat = |call: &Call| call.params["chat_id"] == OWNER && call.method != "sendChatAction";
    let words = |call: Call| {
        format!(
            "{} {}",
            call.method,
            call.params["text"].as_str().unwrap_or_default()
        )
        .trim()
        .to_owned()
    };
    house
        .telegram
        .calls()
        .into_iter()
        .filter(of_chat)
        .map(words)
        .collect()
}

/// Waits until nothing is written down as shown.
fn wait_forgotten(house: &House) {
    wait_for("what was shown to be forgotten", SOON, || {
        house
            .sandbox
            .query("queue", "SELECT 1 FROM shown")
            .is_empty()
            .then_some(())
    });
}

#[test]
fn a_quick_answer_comes_alone_and_a_slow_one_after_a_line_that_is_gone_by_then() {
    let house = House::new();
    assert_eq!(answer(&house, say(&house, "quick")), "echo: quick");
    assert_eq!(
        (
            calls(&house),
            house.telegram.calls_of("sendChatAction").len()
        ),
        (vec!["sendMessage echo: quick".to_owned()], 0)
    );

    let slow = say(
        &house,
        "[[tool exec {\"command\": \"sleep 5.8; printf 42\"}]]",
    );
    wait_shown(&house, |text| text == "Running command");
    wait_for(
        "it to be written down, for a crash",
        Duration::from_millis(500),
        || (house.sandbox.query("queue", "SELECT 1 FROM shown").len() == 1).then_some(()),
    );
    assert_eq!(answer(&house, slow), "result: 42");
    // Where the next step takes long, the line says so, too.
    let shown: Vec<String> = calls(&house)
        .into_iter()
        .filter(|call| call != "editMessageText Thinking (step 2)")
        .collect();
    assert_eq!(
        shown[1..],
        [
            "sendMessage Running command",
            "deleteMessage",
            "sendMessage result: 42"
        ]
    );
    let signs: Vec<Instant> = house
        .telegram
        .calls_of("sendChatAction")
        .iter()
        .map(|call| call.at)
        .collect();
    assert!(signs.len() >= 2, "after 250 ms and 4 s later");
    assert!(
        signs
            .windows(2)
            .all(|two| two[1] - two[0] >= Duration::from_millis(3900)),
        "{signs:?}"
    );
    let line = &house.telegram.calls_of("sendMessage")[1].params;
    assert_eq!(line["disable_notification"], true);
    wait_forgotten(&house);
}

#[test]
fn a_line_that_may_not_be_edited_now_is_edited_later_and_a_stop_removes_it() {
    let house = House::new();
    house.model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": "sleep 5.3"}),
    ));
    house.model.push(Reply::Hang);
    house.telegram.fault(Fault {
        method: "editMessageText",
        kind: FaultKind::Status(429),
        count: 1,
    });
    say(&house, "think for ever");
    wait_shown(&house, |text| text == "Thinking (step 2)");
    // The text stands in the chat a moment before the status of its call is noted.
    let edits = wait_for("the edit to be answered", SOON, || {
        let edits = house.telegram.calls_of("editMessageText");
        edits.iter().all(|call| call.status != 0).then_some(edits)
    });
    assert_eq!(
        edits.iter().map(|call| call.status).collect::<Vec<_>>(),
        [429, 200]
    );
    assert!(
        edits[1].at - edits[0].at >= Duration::from_millis(990),
        "retry_after is 1 s"
    );
    let stop = say(&house, "/stop");
    assert_eq!(answer(&house, stop), "Stopped.");
    wait_for("the line to go", SOON, || {
        (!house.telegram.calls_of("deleteMessage").is_empty()).then_some(())
    });
    wait_forgotten(&house);
    assert_eq!(
        house
            .telegram
            .shown(OWNER)
            .iter()
            .filter(|text| text.starts_with("Thinking"))
            .count(),
        0
    );
    assert_eq!(answer(&house, say(&house, "go on")), "echo: go on");
    assert_eq!(
        house.telegram.calls_of("editMessageText").len(),
        2,
        "nothing is edited after the end"
    );
}

#[test]
fn with_stream_edit_the_answer_is_read_while_it_is_written_and_then_stands_alone() {
    let house = House::with("[telegram]\nstream = \"edit\"");
    assert_eq!(answer(&house, say(&house, "quick")), "echo: quick");
    house.model.push(Reply::Held(TEXT.to_owned()));
    let asked = say(&house, "what time is it?");
    let preview = wait_shown(&house, |text| text.starts_with("It"));
    assert!(
        TEXT.starts_with(&preview) && preview.len() < TEXT.len(),
        "{preview}"
    );
    house.model.go_on();
    assert_eq!(answer(&house, asked), TEXT);
    let expected = [
        "sendMessage echo: quick",
        &format!("sendMessage {preview}"),
        "deleteMessage",
        &format!("sendMessage {TEXT}"),
    ];
    assert_eq!(calls(&house), expected);
    assert_eq!(
        house.telegram.shown(OWNER),
        ["quick", "echo: quick", "what time is it?", TEXT]
    );
    wait_forgotten(&house);

    // Silence is never shown, not even its first letters.
    house.model.push(Reply::Held("NO_REPLY".to_owned()));
    let before = calls(&house);
    say(&house, "psst");
    house.model.wait_requests(3, SOON);
    // Words would be shown after a second.
    std::thread::sleep(Duration::from_millis(1500));
    house.model.go_on();
    wait_for("the end of the silent turn", SOON, || {
        house
            .sandbox
            .query("queue", "SELECT 1 FROM inbox WHERE state != 'done'")
            .is_empty()
            .then_some(())
    });
    assert_eq!(answer(&house, say(&house, "and now")), "echo: and now");
    assert_eq!(calls(&house)[before.len()..], ["sendMessage echo: and now"]);
}

#[test]
fn with_stream_draft_the_answer_is_read_in_a_draft_that_nobody_removes() {
    let house = House::with("[telegram]\nstream = \"draft\"");
    house.model.push(Reply::Held(TEXT.to_owned()));
    let asked = say(&house, "what time is it?");
    wait_for("a draft", SOON, || {
        house
            .telegram
            .calls_of("sendMessageDraft")
            .into_iter()
            .find(|call| call.status == 200)
    });
    house.model.go_on();
    assert_eq!(answer(&house, asked), TEXT);
    let methods: Vec<String> = calls(&house)
        .iter()
        .filter_map(|call| call.split(' ').next().map(str::to_owned))
        .collect();
    assert_eq!(methods, ["sendMessageDraft", "sendMessage"]);
    assert!(
        house
            .sandbox
            .query("queue", "SELECT 1 FROM shown")
            .is_empty()
    );
}

#[test]
fn what_a_killed_daemon_left_in_the_chat_is_removed_by_the_next() {
    let House {
        daemon,
        telegram,
        model,
        sandbox,
    } = House::with("[telegram]\nstream = \"edit\"");
    model.push(Reply::Held(TEXT.to_owned()));
    telegram.say(OWNER, OWNER, "what time is it?");
    wait_for("the preview", SOON, || {
        (telegram.shown(OWNER).len() == 2
            && sandbox.query("queue", "SELECT 1 FROM shown").len() == 1)
            .then_some(())
    });
    daemon.kill9();
    // One try each, whatever becomes of it.
    telegram.fault(Fault {
        method: "deleteMessage",
        kind: FaultKind::Delay(Duration::from_millis(300)),
        count: 1,
    });
    let house = House::of(sandbox, telegram, model);
    wait_forgotten(&house);
    wait_for("the answer alone", SOON, || {
        (house.telegram.shown(OWNER) == ["what time is it?", "echo: what time is it?"])
            .then_some(())
    });
    assert_eq!(house.telegram.calls_of("deleteMessage").len(), 1);
}

#[test]
fn a_daemon_that_is_told_to_end_takes_its_line_with_it() {
    let House {
        daemon,
        telegram,
        model,
        sandbox,
    } = House::with("[telegram]\nstream = \"edit\"");
    model.push(Reply::Held(TEXT.to_owned()));
    telegram.say(OWNER, OWNER, "what time is it?");
    wait_for("the preview", SOON, || {
        (telegram.shown(OWNER).len() == 2).then_some(())
    });
    telegram.fault(Fault {
        method: "deleteMessage",
        kind: FaultKind::Delay(Duration::from_millis(1500)),
        count: 1,
    });
    model.go_on();
    telegram.wait_sent(|sent| sent.text == TEXT, SOON);
    assert_eq!(daemon.term(), 0);
    assert_eq!(telegram.shown(OWNER), ["what time is it?", TEXT]);
    assert!(sandbox.query("queue", "SELECT 1 FROM shown").is_empty());
}
