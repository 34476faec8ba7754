//! Messages that belong together are one turn, and what comes while the agent works is not lost.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{House, Reply, wait_for};

const SOON: Duration = Duration::from_secs(20);
const OWNER: i64 = 1001;

fn say(house: &House, text: &str) -> i64 {
    house.telegram.say(OWNER, OWNER, text).1
}

/// Returns the text of the newest user message of a request, blocks joined by a space.
fn asked(request: &Value) -> String {
    let message = request["messages"]
        .as_array()
        .and_then(|messages| messages.last())
        .expect("a message");
    let blocks = message["content"].as_array().expect("blocks");
    blocks
        .iter()
        .filter_map(|block| block["text"].as_str())
        .collect::<Vec<_>>()
        .join(" ")
}

fn answered(house: &House, message: i64) -> String {
    house
        .telegram
        .wait_sent(|sent| sent.reply_to == Some(message), SOON)
        .text
}

fn rows(house: &House) -> Vec<(String, String)> {
    let text = |value: &rusqlite::types::Value| match value {
        rusqlite::types::Value::Text(text) => text.clone(),
        other => format!("{other:?}"),
    };
    let sql = "SELECT state, coalesce(reason, '') FROM inbox ORDER BY seq";
    house
        .sandbox
        .query("queue", sql)
        .iter()
        .map(|row| (text(&row[0]), text(&row[1])))
        .collect()
}

#[test]
fn short_messages_in_a_row_are_one_question() {
    let house = House::with("[pipeline]\ndebounce_ms = 700");
    let first = say(&house, "what is");
    say(&house, "the capital of");
    say(&house, "Portugal?");
    answered(&house, first);
    let requests = house.model.requests();
    assert_eq!(requests.len(), 1);
    assert!(
        asked(&requests[0]).ends_with("what is\nthe capital of\nPortugal?"),
        "{}",
        asked(&requests[0])
    );
    assert_eq!(house.telegram.sent().len(), 1);
    wait_for("three inputs to be done", SOON, || {
        (rows(&house) == vec![("done".to_owned(), String::new()); 3]).then_some(())
    });
}

#[test]
fn a_text_that_the_app_cut_in_two_is_whole() {
    let house = House::new();
    let head = format!("{}[[say ", "word ".repeat(818));
    assert!((4000..=4096).contains(&head.len()));
    let first = say(&house, &head);
    say(&house, "whole again]]");
    assert_eq!(answered(&house, first), "whole again");
    assert_eq!(house.model.requests().len(), 1);
}

#[test]
fn what_comes_while_the_agent_works_is_collected_and_marked_as_heard() {
    let house = House::with("[pipeline]\non_busy = \"collect\"");
    house.model.push(Reply::Held("the first answer".to_owned()));
    let first = say(&house, "one");
    house.model.wait_requests(1, SOON);
    let second = say(&house, "two");
    let third = say(&house, "three");
    wait_for("both to be marked", SOON, || {
        (house.telegram.calls_of("setMessageReaction").len() == 2).then_some(())
    });
    house.model.go_on();
    assert_eq!(answered(&house, first), "the first answer");
    answered(&house, second);
    let requests = house.model.requests();
    assert_eq!(requests.len(), 2);
    assert!(
        asked(&requests[1]).ends_with("two\nthree"),
        "{}",
        asked(&requests[1])
    );
    assert!(
        !house
            .telegram
            .sent()
            .iter()
            .any(|sent| sent.reply_to == Some(third)),
        "one answer for both"
    );
    let mut marked: Vec<i64> = house
        .telegram
        .calls_of("setMessageReaction")
        .iter()
        .filter_map(|call| call.params["message_id"].as_i64())
        .collect();
    marked.sort_unstable();
    assert_eq!(marked, [second, third]);
}

#[test]
fn a_message_that_interrupts_ends_the_turn_and_the_words_before_it_stay() {
    let house = House::with("[pipeline]\non_busy = \"interrupt\"");
    house.model.push(Reply::Hang);
    say(&house, "write me a novel");
    house.model.wait_requests(1, SOON);
    let second = say(&house, "no, a haiku");
    answered(&house, second);
    let request = house.model.requests().pop().expect("a request");
    let all = request["messages"].to_string();
    assert!(
        all.contains("write me a novel") && asked(&request).contains("no, a haiku"),
        "{all}"
    );
    assert_eq!(house.telegram.sent().len(), 1);
    assert_eq!(
        rows(&house)[0],
        ("done".to_owned(), "interrupted".to_owned())
    );
}

#[test]
fn joined_messages_stay_one_turn_over_a_crash() {
    let mut house = House::with("[pipeline]\ndebounce_ms = 400");
    house.model.push(Reply::Hang);
    let first = say(&house, "one");
    say(&house, "two");
    house.model.wait_requests(1, SOON);
    house.daemon.kill9();
    house.daemon = house.sandbox.ready();
    answered(&house, first);
    let requests = house.model.requests();
    assert_eq!(requests.len(), 2);
    assert!(
        asked(&requests[1]).ends_with("one\ntwo"),
        "{}",
        asked(&requests[1])
    );
    let said = requests[1]["messages"].to_string();
    assert_eq!(said.matches("one\\ntwo").count(), 1, "{said}");
    assert_eq!(house.telegram.sent().len(), 1);
}

#[test]
fn a_stop_ends_what_still_waits_for_more() {
    let house = House::with("[pipeline]\ndebounce_ms = 3000");
    say(&house, "never mind");
    let stop = say(&house, "/stop");
    assert_eq!(answered(&house, stop), "Stopped.");
    std::thread::sleep(Duration::from_millis(3500));
    assert_eq!(house.model.requests().len(), 0);
    assert_eq!(rows(&house)[0], ("done".to_owned(), "stopped".to_owned()));
}

#[test]
fn an_edit_is_heard_as_one_and_one_that_changes_nothing_is_not() {
    let house = House::new();
    let first = say(&house, "[[say one]]");
    assert_eq!(answered(&house, first), "one");
    let edited = |text: &str| {
        json!({"edited_message": {
            "message_id": first, "date": 1_700_000_000, "edit_date": 1_700_000_001, "text": text,
            "from": {"id": OWNER, "is_bot": false, "first_name": "Ada"},
            "chat": {"id": OWNER, "type": "private", "first_name": "Ada"},
        }})
    };
    house.telegram.inject(edited("[[say one]]"));
    house.telegram.inject(edited("[[say two]]"));
    house.telegram.wait_sent(|sent| sent.text == "two", SOON);
    let requests = house.model.requests();
    assert_eq!(requests.len(), 2);
    assert!(
        asked(&requests[1]).contains("edited: it replaces what they wrote before"),
        "{}",
        asked(&requests[1])
    );
}
