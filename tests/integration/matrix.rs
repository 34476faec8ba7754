//! The agent in Matrix: the real program between the real daemon and a real homeserver (Synapse), and people whose client
//! (matrix-nio) has an encryption of its own. `.ci/run` installs both into `target/ci-tools`.
#![allow(
    clippy::print_stdout,
    clippy::needless_pass_by_value,
    reason = "a test that is skipped says so, and writes its JSON where it is needed"
)]

mod attacks;
mod faults;
mod house;
mod kills;
mod moves;
mod previews;
mod trust;

use serde_json::{Value, json};

use crate::support::{Reply, wait_for};
use house::{ADA, House, Proxy, SOON, installed, script};
pub(crate) use house::{AGENT, Homeserver, Person, program, tools};

#[test]
fn a_direct_room_is_answered_in_it_encrypted() {
    let Some(house) = House::open() else {
        return;
    };
    let house = house.settle(ADA, "");
    let process = house.start();
    let ada = Person::signed_in(&house.server, "ada");
    let room = ada.room(true, &[AGENT]);
    // Said before the agent is there: it has the key all the same, or says so.
    ada.wait_entered(&room);
    let asked = ada.says(&room, "[[say The disk is **half** full.]]");
    let answer = ada.hears("half");
    assert_eq!(answer["encrypted"], true, "{answer}");
    assert_eq!(answer["content"]["body"], "The disk is **half** full.");
    assert!(
        answer["content"]["formatted_body"]
            .as_str()
            .is_some_and(|html| html.contains("<strong>half</strong>"))
    );
    ada.sees("that it was read", |line| {
        line["event"] == "receipt" && line["id"] == asked.as_str()
    });
    // Programs are not heard, and neither is what the homeserver could have written.
    ada.sends(
        &room,
        json!({"msgtype": "m.notice", "body": "[[say leak-notice]]"}),
    );
    ada.sends_plain(
        &room,
        "m.room.message",
        json!({"msgtype": "m.text", "body": "[[say leak-plain]]"}),
    );
    ada.says(&room, "[[say Second.]]");
    ada.hears("Second.");
    assert!(
        !ada.heard()
            .iter()
            .any(|line| line.to_string().contains("leak-")),
        "{:?}",
        ada.heard()
    );
    assert!(
        process
            .said()
            .1
            .contains("the homeserver could have written it"),
        "{:?}",
        process.said()
    );
    let status = house.sandbox.send(&["--status", "--json"]).json();
    assert_eq!(status["channels"][0]["state"], "ok", "{status}");
    // A message of the agent's own beginning finds the room of the person.
    assert_eq!(
        house
            .sandbox
            .send(&["--raw", "--to", "matrix:@ada:home.test", "News."])
            .code,
        0
    );
    assert_eq!(ada.hears("News.")["room"], room.as_str());
    assert_eq!(house.model.requests().len(), 2);
}

#[test]
fn files_go_both_ways_and_an_edit_counts_only_of_its_author() {
    let Some(house) = House::open() else {
        return;
    };
    let agent = format!("{ADA}[tools.exec]\npolicy = \"ask\"\n");
    let house = house.settle(&agent, "reactions = true\n");
    let process = house.start();
    let ada = Person::signed_in(&house.server, "ada");
    let room = ada.room(true, &[AGENT]);
    ada.wait_entered(&room);
    let file = |name: &str, text: &[u8]| {
        let hex: String = text.iter().map(|byte| format!("{byte:02x}")).collect();
        let sent = ada.does(json!({"do": "upload", "encrypted": true, "hex": hex, "name": name}));
        let mut content = json!({"msgtype": "m.file", "body": "[[say Got it.]]", "filename": name,
            "info": {"size": text.len(), "mimetype": "text/plain"}});
        content
            .as_object_mut()
            .expect("an object")
            .extend(sent["source"].as_object().expect("a source").clone());
        content
    };
    ada.sends(&room, file("notes.txt", b"remember the milk"));
    ada.hears("Got it.");
    let request = house.model.requests()[0].to_string();
    assert!(request.contains("notes.txt"), "{request}");
    // What is said of a size is not believed.
    let large = ada
        .does(json!({"do": "upload", "encrypted": true, "size": 21_000_000, "name": "large.bin"}));
    let mut content = json!({"msgtype": "m.file", "body": "[[say Too large.]]", "filename": "large.bin", "info": {"size": 7}});
    content
        .as_object_mut()
        .expect("an object")
        .extend(large["source"].as_object().expect("a source").clone());
    ada.sends(&room, content);
    ada.hears("Too large.");
    let request = house.model.requests()[1].to_string();
    assert!(request.contains("large.bin (21 MB, more than"), "{request}");
    // A file of the agent's own, and a reaction to it.
    house
        .sandbox
        .put("workspace/outbox/report.csv", b"a,b\n1,2\n");
    let say = json!({"paths": ["outbox/report.csv"], "caption": "The report."});
    house.model.push(Reply::Tool("send_media".to_owned(), say));
    ada.says(&room, "the report, please");
    let sent = ada.sees("the report", |line| {
        line["content"]["filename"] == "report.csv"
    });
    // SHA-256 of its bytes.
    assert_eq!(
        sent["sha256"], "492d5ea496056f1a6a6592241032fab764c321596317930b4fa0e1e8bc3b7470",
        "{sent}"
    );
    let reaction =
        json!({"m.relates_to": {"rel_type": "m.annotation", "event_id": sent["id"], "key": "👍"}});
    ada.sends_plain(&room, "m.reaction", reaction);
    wait_for("the reaction", SOON, || {
        let requests = house.model.requests();
        let request = requests.last().expect("a request").to_string();
        request.contains("reaction 👍").then_some(())
    });
    it_reacts_and_edits(&house, &ada, &room);
    drop(process);
}

/// The agent's own reaction, and what it changes of its own.
fn it_reacts_and_edits(house: &House, ada: &Person, room: &str) {
    house
        .model
        .push(Reply::Tool("react".to_owned(), json!({"emoji": "🎉"})));
    let said = ada.says(room, "party");
    let reaction = ada.sees("a reaction", |line| {
        line["type"] == "m.reaction" && line["sender"] == AGENT
    });
    let relation = &reaction["content"]["m.relates_to"];
    assert_eq!(
        (&relation["event_id"], &relation["key"]),
        (&json!(said), &json!("🎉")),
        "{reaction}"
    );
    // The reaction goes out before the turn is at its end: what the model says next is for that turn.
    wait_for("the model to hear of the reaction", SOON, || {
        let requests = house.model.requests();
        let last = requests.last().expect("a request").to_string();
        last.contains("🎉").then_some(())
    });
    house.model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": "touch one"}),
    ));
    ada.says(room, "make it");
    let question = ada.hears("/approve");
    let id = house.sandbox.wait_asked();
    ada.says(room, &format!("/approve {id}"));
    let edit = ada.sees("an edit", |line| {
        line["content"]["m.relates_to"]["rel_type"] == "m.replace"
    });
    let relation = &edit["content"]["m.relates_to"];
    assert_eq!(
        (&relation["event_id"], &edit["encrypted"]),
        (&question["id"], &json!(true)),
        "{edit}"
    );
    assert!(
        edit["content"]["m.new_content"]["body"].is_string(),
        "{edit}"
    );
}

#[test]
fn a_group_is_heard_when_it_speaks_to_the_agent_and_threads_are_conversations() {
    let Some(house) = House::open() else {
        return;
    };
    let (ada, bob) = (
        Person::signed_in(&house.server, "ada"),
        Person::signed_in(&house.server, "bob"),
    );
    let club = ada.room(false, &["@bob:home.test"]);
    bob.sees("the club", |line| {
        line["event"] == "joined" && line["room"] == club.as_str()
    });
    let settings = format!(
        "{ADA}[channels.matrix.groups.\"{club}\"]\nallow_from = [\"@ada:home.test\", \"@bob:home.test\"]\n"
    );
    let house = house.settle(&settings, "invite_from = [\"@ada:home.test\"]\n");
    let process = house.start();
    let invited = ada.does(json!({"do": "invite", "room": club, "user": AGENT}));
    assert_eq!(invited, json!({}));
    ada.wait_entered(&club);
    bob.says(&club, "[[say leak-unasked]]");
    let to_agent = |text: &str, relation: Value| {
        let mut content = json!({"msgtype": "m.text", "body": format!("agent: {text}"), "m.mentions": {"user_ids": [AGENT]}});
        if relation.is_object() {
            content["m.relates_to"] = relation;
        }
        content
    };
    let asked = bob.sends(&club, to_agent("[[say Hello Bob.]]", Value::Null));
    let answer = bob.hears("Hello Bob.");
    assert_eq!(
        (&answer["room"], &answer["encrypted"]),
        (&json!(club), &json!(true)),
        "{answer}"
    );
    assert_eq!(
        answer["content"]["m.relates_to"]["m.in_reply_to"]["event_id"],
        asked.as_str(),
        "{answer}"
    );
    // A thread is a conversation of its own, and answered in it.
    let thread = json!({"rel_type": "m.thread", "event_id": asked, "is_falling_back": true, "m.in_reply_to": {"event_id": asked}});
    ada.sends(&club, to_agent("[[say In the thread.]]", thread));
    let answer = ada.hears("In the thread.");
    assert_eq!(
        answer["content"]["m.relates_to"]["rel_type"], "m.thread",
        "{answer}"
    );
    assert_eq!(
        answer["content"]["m.relates_to"]["event_id"],
        asked.as_str(),
        "{answer}"
    );
    assert!(
        !bob.heard()
            .iter()
            .any(|line| line.to_string().contains("leak-")),
        "{:?}",
        bob.heard()
    );
    let sessions = house
        .sandbox
        .query("queue", "SELECT DISTINCT session_key FROM inbox");
    assert_eq!(sessions.len(), 2, "{sessions:?}");
    drop(process);
}
