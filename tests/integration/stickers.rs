//! Stickers in tools mode: the tool `sticker`, and `raw` with a sticker.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Fault, FaultKind, House, Reply};

const SOON: Duration = Duration::from_secs(20);
const OWNER: i64 = 1001;
const ANA: i64 = 1002;

fn house(more: &str) -> House {
    let house = House::with(&format!(
        "[agent.stickers]\nsets = [\"Cats\"]\nstickers = [\"Dogs :: 🐶\"]\n{more}"
    ));
    house.telegram.offer_stickers("Cats", &["😿", "😺"]);
    house.telegram.offer_stickers("Dogs", &["🐕", "🐶"]);
    house
}

fn call(house: &House, set: &str, name: &str) {
    let input = json!({"set": set, "name": name});
    house.model.push(Reply::Tool("sticker".into(), input));
}

/// Has the agent call the tool and answer, and returns what the tool told it.
fn sends(house: &House, who: i64, (set, name): (&str, &str), then: &str) -> String {
    call(house, set, name);
    house.model.push(Reply::Text(then.into()));
    house.telegram.say(who, who, "a sticker, please");
    house.telegram.wait_sent(|sent| sent.text == then, SOON);
    let request = house.model.requests().pop().expect("a request");
    let messages = request["messages"].as_array().expect("messages");
    messages.last().expect("a result").to_string()
}

fn stickers(house: &House) -> Vec<(Value, Value)> {
    let calls = house.telegram.calls_of("sendSticker").into_iter();
    calls
        .map(|call| {
            (
                call.params["chat_id"].clone(),
                call.params["sticker"].clone(),
            )
        })
        .collect()
}

#[test]
fn the_agent_sends_the_stickers_that_its_owner_chose_and_no_others() {
    let house = house("");
    let told = sends(&house, ANA, ("Cats", "😺"), "One.");
    assert!(told.contains("delivered as message"), "{told}");
    let told = sends(&house, OWNER, ("Dogs", "🐶"), "Two.");
    assert!(told.contains("delivered as message"), "{told}");
    let chats: Vec<String> = stickers(&house)
        .iter()
        .map(|(chat, sticker)| format!("{chat} {sticker}").replace('"', ""))
        .collect();
    assert_eq!(chats, ["1002 Cats-2", "1001 Dogs-2"]);
    for (number, (set, name)) in [
        ("Dogs", "🐕"),
        ("Cats", "👽"),
        ("Strange", "😺"),
        ("Cats", ""),
    ]
    .into_iter()
    .enumerate()
    {
        let told = sends(&house, ANA, (set, name), &format!("No {number}."));
        assert!(told.contains("\"is_error\":true"), "{set} {name}: {told}");
        assert!(!told.contains("🐕, "), "of Dogs one may be sent: {told}");
    }
    assert_eq!(stickers(&house).len(), 2);
    let spec = house.model.requests()[0]["tools"].to_string();
    assert!(spec.contains("all of the sets Cats; Dogs :: 🐶"), "{spec}");
}

#[test]
fn without_stickers_there_is_no_such_tool_and_a_persona_plans_them() {
    let names = |house: &House| {
        house.telegram.say(OWNER, OWNER, "hi");
        house.model.wait_requests(1, SOON);
        house.model.requests()[0]["tools"].to_string()
    };
    assert!(!names(&House::new()).contains("\"sticker\""));
    let persona = house("[agent]\nmode = \"plan\"\nplan_pause_ms = 0\n");
    assert!(!names(&persona).contains("\"sticker\""));
}

#[test]
fn a_script_sends_a_sticker() {
    let house = house("");
    let command = |name: &str| {
        json!({"v": 1, "cmd": "raw", "to": "1002", "text": "", "sticker": name}).to_string()
    };
    let ids = ["a", "b"].map(|id| format!("sticker-{id}"));
    for (id, name) in ids.iter().zip(["Cats :: 😿", "Strange :: 😿"]) {
        let mut line: Value = serde_json::from_str(&command(name)).expect("json");
        line["id"] = json!(id);
        house.sandbox.put(
            &format!("state/spool/new/{id}.json"),
            line.to_string().as_bytes(),
        );
    }
    house.sandbox.send(&["--status"]);
    crate::support::wait_for("the sticker", SOON, || {
        (stickers(&house).len() == 1).then_some(())
    });
    let refused = crate::support::wait_for("the refusal", SOON, || {
        house
            .sandbox
            .read_json(&format!("state/replies/{}.json", ids[1]))
            .filter(|reply| reply["status"] != "accepted")
    });
    assert_eq!(refused["status"], "error", "{refused}");
    assert_eq!(stickers(&house), [(json!(1002), json!("Cats-1"))]);
}

/// Leaves a sticker whose set nobody answers, for one chat, and words for another or the same; returns what became of
/// the sticker when the words have arrived.
fn sticker_then_words(to: [&str; 2]) -> Value {
    let house = house("");
    house.telegram.fault(Fault {
        method: "getStickerSet",
        kind: FaultKind::Hang,
        count: 100,
    });
    let sticker = json!({"text": "", "sticker": "Cats :: 😿"});
    let words = json!({"text": "the bread is done"});
    for ((id, mut line), to) in [("a", sticker), ("b", words)].into_iter().zip(to) {
        line["v"] = json!(1);
        line["id"] = json!(format!("raw-{id}"));
        line["cmd"] = json!("raw");
        line["to"] = json!(to);
        let name = format!("state/spool/new/raw-{id}.json");
        house.sandbox.put(&name, line.to_string().as_bytes());
    }
    house.sandbox.send(&["--status"]);
    let is_said = |sent: &crate::support::Sent| sent.text == "the bread is done";
    house.telegram.wait_sent(is_said, SOON);
    house
        .sandbox
        .read_json("state/replies/raw-a.json")
        .expect("an answer")
}

#[test]
fn a_set_that_is_not_answered_holds_up_no_other_words() {
    let refused = sticker_then_words(["1002", "1002"]);
    let why = refused["error"].as_str().unwrap_or_default();
    assert!(why.contains("has not answered"), "{refused}");
}

#[test]
fn no_chat_waits_for_the_sticker_of_another() {
    let waits = sticker_then_words(["1002", "1001"]);
    assert_eq!(waits["error"], Value::Null, "{waits}");
}
