//! What is written so far, in a room: one message, whose place the answer takes.

use std::fs;

use serde_json::json;

use crate::matrix::{ADA, AGENT, House, Person, SOON};
use crate::support::{Reply, wait_for};

/// Returns the ids of what the agent said that is no edit, and that nobody removed.
fn messages(ada: &Person, room: &str) -> Vec<String> {
    let is_first = |line: &serde_json::Value| {
        line["room"] == room && line["content"]["m.relates_to"]["rel_type"] != "m.replace"
    };
    let heard = ada.heard().into_iter().filter(is_first);
    let mut ids: Vec<String> = Vec::new();
    // A client that was not there when a message came lists it again.
    for id in heard.filter_map(|line| line["id"].as_str().map(str::to_owned)) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids.retain(|id| {
        let path = format!("/_matrix/client/v3/rooms/{room}/event/{id}");
        let event = ada.asks("GET", &path, json!(null));
        event["unsigned"].get("redacted_because").is_none()
    });
    ids
}

fn answers_in_place(ada: &Person, preview: &str, words: &str) {
    let edit = ada.sees(words, |line| {
        line["sender"] == AGENT && line["content"]["m.new_content"]["body"] == words
    });
    let relation = &edit["content"]["m.relates_to"];
    assert_eq!(
        (&relation["event_id"], &edit["encrypted"]),
        (&json!(preview), &json!(true)),
        "{edit}"
    );
}

#[test]
fn an_answer_takes_the_place_of_its_preview_also_over_a_kill_and_none_is_left() {
    let Some(house) = House::open() else {
        return;
    };
    let mut house = house.settle(&format!("{ADA}stream = \"edit\"\n"), "previews = true\n");
    let mut process = house.start();
    let ada = Person::signed_in(&house.server, "ada");
    let room = ada.room(true, &[AGENT]);
    ada.wait_entered(&room);
    let preview = |before: &[&String]| {
        wait_for("a preview", SOON, || {
            let is_new = |id: &String| !before.contains(&id);
            messages(&ada, &room).into_iter().find(is_new)
        })
    };
    house
        .model
        .push(Reply::Held("The disk is half full.".to_owned()));
    ada.says(&room, "how full is the disk?");
    let first = preview(&[]);
    house.model.go_on();
    answers_in_place(&ada, &first, "The disk is half full.");

    // Killed in between: the answer comes to the same place.
    house
        .model
        .push(Reply::Held("And the other one, too.".to_owned()));
    ada.says(&room, "and the other one?");
    let second = preview(&[&first]);
    let kept = || fs::read_to_string(house.sandbox.path("state/channels/matrix/previews.json"));
    wait_for("the preview to be known", SOON, || {
        kept().ok()?.contains(&second).then_some(())
    });
    process.kill9();
    process = house.start();
    house.model.go_on();
    answers_in_place(&ada, &second, "And the other one, too.");

    // The daemon dies: what stood there goes or becomes the answer.
    house.model.push(Reply::Held("Lost words.".to_owned()));
    ada.says(&room, "and the third?");
    preview(&[&first, &second]);
    drop(house.daemon.take());
    house.model.push(Reply::Text("Said again.".to_owned()));
    house.daemon = Some(house.sandbox.ready());
    ada.hears("Said again.");
    wait_for("nothing but answers in the room", SOON, || {
        (messages(&ada, &room).len() == 3).then_some(())
    });
    let kept = fs::read_to_string(house.sandbox.path("state/channels/matrix/previews.json"));
    assert!(!kept.expect("it is kept").contains("\"ended\""));
    drop(process);
}
