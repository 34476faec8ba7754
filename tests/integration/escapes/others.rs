//! In a conversation that others read, a command does not see the owner's memory, and what it says while it
//! runs is shown to nobody there.

use std::time::Duration;

use serde_json::json;

use super::CANARY;
use crate::support::{House, Reply, wait_for};

const SOON: Duration = Duration::from_secs(30);
const OWNER: i64 = 1001;
const GROUP: i64 = -100_500;
const CONFIG: &str = "[telegram.groups.\"-100500\"]\nallow_from = [1001, 1002]";

#[test]
fn a_command_in_a_group_sees_no_memory_and_one_in_the_owners_chat_does() {
    let house = House::with(CONFIG);
    for file in [
        "memory/people/ada.md",
        "memory/2026-01-01.md",
        "MEMORY.md",
        "USER.md",
    ] {
        house.sandbox.put(
            &format!("workspace/{file}"),
            format!("- {CANARY}\n").as_bytes(),
        );
    }
    house.sandbox.put("workspace/notes.md", b"free to read\n");
    let bot = format!("@{}", house.telegram.username());
    let command = "cat memory/people/ada.md memory/*.md MEMORY.md USER.md | sed 's/canary/bird/'; cat notes.md; cp -r memory copy; cat copy/* | wc -c";
    let results = |chat: i64, text: &str| {
        house
            .model
            .push(Reply::Tool("exec".to_owned(), json!({"command": command})));
        house.model.push(Reply::Text(format!("done in {chat}")));
        let asked = house.telegram.say(chat, OWNER, text).1;
        house.telegram.wait_sent(
            |sent| sent.chat == chat && sent.reply_to == Some(asked),
            SOON,
        );
        let request = house.model.requests().pop().expect("a request");
        request["messages"]
            .as_array()
            .and_then(|messages| messages.last())
            .expect("a message")
            .to_string()
    };
    let told = results(GROUP, &format!("{bot} what do you know?"));
    assert!(
        told.contains("free to read") && !told.contains("bird sings"),
        "{told}"
    );
    let _ = std::fs::remove_dir_all(house.sandbox.path("workspace/copy"));
    let told = results(OWNER, "what do you know?");
    assert_eq!(told.matches("bird sings").count(), 4, "{told}");
}

#[test]
fn the_owner_sees_what_a_command_says_while_it_runs_and_a_group_does_not() {
    let house = House::with(CONFIG);
    let bot = format!("@{}", house.telegram.username());
    let command = json!({"command": "for i in 1 2 3 4 5 6 7 8; do echo step $i sk-mock-not-a-key; sleep 1; done"});
    house
        .model
        .push(Reply::Tool("exec".to_owned(), command.clone()));
    let asked = house.telegram.say(OWNER, OWNER, "work").1;
    let lane = wait_for("the monitor", SOON, || {
        let document = house.sandbox.read_json("state/monitor.json")?;
        document["lanes"][0]["tool_tail"]
            .as_str()
            .map(str::to_owned)
    });
    assert!(
        lane.starts_with("step ") && lane.ends_with(" [redacted]"),
        "{lane}"
    );
    let shown = wait_for("the line", SOON, || {
        house
            .telegram
            .shown(OWNER)
            .into_iter()
            .find(|text| text.starts_with("Running command: step "))
    });
    assert!(shown.ends_with(" [redacted]"), "{shown}");
    house
        .telegram
        .wait_sent(|sent| sent.reply_to == Some(asked), SOON);

    house.model.push(Reply::Tool("exec".to_owned(), command));
    let asked = house.telegram.say(GROUP, OWNER, &format!("{bot} work")).1;
    let answer = house.telegram.wait_sent(
        |sent| sent.chat == GROUP && sent.reply_to == Some(asked),
        SOON,
    );
    let told: Vec<String> = house
        .telegram
        .calls()
        .into_iter()
        .filter(|call| call.params["chat_id"] == GROUP)
        .map(|call| call.params["text"].as_str().unwrap_or_default().to_owned())
        .filter(|text| *text != answer.text)
        .collect();
    assert!(
        told.iter().any(|text| text == "Running command"),
        "{told:?}: {answer:?}"
    );
    assert!(
        !told.iter().any(|text| text.starts_with("Running command:")),
        "{told:?}"
    );
}
