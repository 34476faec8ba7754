//! Who may not, and what must not be believed.

use std::time::Duration;

use serde_json::{Value, json};

use crate::matrix::{ADA, AGENT, House, Person, SOON};
use crate::support::{Running, wait_for};

#[test]
fn a_stranger_is_told_a_code_once_and_brings_the_agent_into_no_group() {
    let Some(house) = House::open() else {
        return;
    };
    let house = house.settle(ADA, "");
    let process = house.start();
    let bob = Person::signed_in(&house.server, "bob");
    let group = bob.does(json!({"do": "create", "encrypted": true, "name": "club", "invite": [AGENT, "@carol:home.test"]}));
    let room = bob.room(true, &[AGENT]);
    bob.wait_entered(&room);
    bob.says(&room, "[[say leak-one]]");
    bob.hears("agent-send --pair approve");
    bob.says(&room, "[[say leak-two]]");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(bob.heard().len(), 1, "{:?}", bob.heard());
    let there = bob.does(json!({"do": "members", "room": group["room"]}));
    assert_eq!(there["members"], json!(["@bob:home.test"]));
    assert!(
        process
            .said()
            .1
            .contains("invite_from does not name its sender"),
        "{:?}",
        process.said()
    );
    assert_eq!(house.model.requests().len(), 0);
    // A third person in a direct room makes it a group, which is not heard.
    let ada = Person::signed_in(&house.server, "ada");
    let direct = ada.room(true, &[AGENT]);
    ada.wait_entered(&direct);
    ada.says(&direct, "[[say Between us.]]");
    ada.hears("Between us.");
    ada.does(json!({"do": "invite", "room": direct, "user": "@bob:home.test"}));
    bob.sees("the invitation", |line| {
        line["event"] == "joined" && line["room"] == direct.as_str()
    });
    ada.says(&direct, "[[say leak-three]]");
    std::thread::sleep(Duration::from_secs(3));
    let all = [ada.heard(), bob.heard()].concat();
    assert!(
        !all.iter().any(|line| line.to_string().contains("leak-")),
        "{all:?}"
    );
}

#[test]
fn nobody_edits_what_another_wrote() {
    let Some(house) = House::open() else {
        return;
    };
    let (ada, bob) = (
        Person::signed_in(&house.server, "ada"),
        Person::signed_in(&house.server, "bob"),
    );
    let club = ada.room(false, &["@bob:home.test", AGENT]);
    bob.sees("the club", |line| {
        line["event"] == "joined" && line["room"] == club.as_str()
    });
    let settings = format!(
        "{ADA}[channels.matrix.groups.\"{club}\"]\nrequire_mention = false\nallow_from = [\"@ada:home.test\", \"@bob:home.test\"]\n"
    );
    let house = house.settle(&settings, "invite_from = [\"@ada:home.test\"]\n");
    let process = house.start();
    ada.wait_entered(&club);
    let said = ada.says(&club, "[[say First.]]");
    bob.hears("First.");
    let edit = |words: &str| {
        json!({"msgtype": "m.text", "body": format!("* {words}"), "m.new_content": {"msgtype": "m.text", "body": words},
            "m.relates_to": {"rel_type": "m.replace", "event_id": said}})
    };
    bob.sends(&club, edit("[[say leak-edit]]"));
    bob.says(&club, "[[say Second.]]");
    bob.hears("Second.");
    assert!(
        process
            .said()
            .1
            .contains("an edit of a message that its sender did not write"),
        "{:?}",
        process.said()
    );
    let requests: String = house
        .model
        .requests()
        .iter()
        .map(Value::to_string)
        .collect();
    assert!(!requests.contains("leak-edit"));
}

#[test]
fn a_session_that_was_ended_is_said_and_not_tried_for_ever() {
    let Some(house) = House::open() else {
        return;
    };
    let house = house.settle(ADA, "");
    let mut process = house.start();
    let session = house
        .sandbox
        .read_json("state/channels/matrix/secret/session.json")
        .expect("a session");
    let token = session["access_token"].as_str().expect("a token");
    // What is kept is nobody else's to read.
    use std::os::unix::fs::PermissionsExt;
    let path = house
        .sandbox
        .path("state/channels/matrix/secret/session.json");
    assert_eq!(
        std::fs::metadata(path)
            .expect("a file")
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    let url = format!("{}/_matrix/client/v3/logout", house.server.url());
    let ended = house.sandbox.bash(&format!(
        "curl -sS -X POST -H 'Authorization: Bearer {token}' {url}"
    ));
    assert_eq!(ended.stdout.trim(), "{}", "{ended:?}");
    wait_for("the process to end", SOON, || {
        process.has_ended().then_some(())
    });
    let done = process.end();
    assert_eq!(done.code, 77, "{done:?}");
    assert!(
        done.stderr.contains("agent-channel-matrix login"),
        "{done:?}"
    );
    wait_for("the status to say so", SOON, || {
        let status = house.sandbox.send(&["--status", "--json"]).json();
        let state = status["channels"][0]["state"].as_str()?.to_owned();
        state.contains("agent-channel-matrix login").then_some(())
    });
    // Signing in again is a new device, and all is well.
    let again = house.run(&["login", "--reset-identity"], "");
    assert_eq!(again.code, 0, "{again:?}");
    let _process = house.start();
    let ada = Person::signed_in(&house.server, "ada");
    let room = ada.room(true, &[AGENT]);
    ada.wait_entered(&room);
    ada.says(&room, "[[say Back.]]");
    ada.hears("Back.");
}

#[test]
fn a_message_whose_key_does_not_come_is_told_once() {
    let Some(house) = House::open() else {
        return;
    };
    let house = house.settle(ADA, "");
    let process: Running = house.start();
    let ada = Person::signed_in(&house.server, "ada");
    let room = ada.room(true, &[AGENT]);
    ada.wait_entered(&room);
    ada.says(&room, "[[say Hello.]]");
    ada.hears("Hello.");
    ada.does(json!({"do": "withhold", "room": room, "user": AGENT}));
    for text in ["[[say leak-one]]", "[[say leak-two]]"] {
        ada.says(&room, text);
    }
    ada.hears("I cannot read your last message");
    std::thread::sleep(Duration::from_secs(5));
    let told = ada
        .heard()
        .iter()
        .filter(|line| line.to_string().contains("cannot read"))
        .count();
    assert_eq!(told, 1, "{:?}", ada.heard());
    assert!(
        process
            .said()
            .1
            .contains("the key of a message has not arrived"),
        "{:?}",
        process.said()
    );
    assert_eq!(house.model.requests().len(), 1);
}
