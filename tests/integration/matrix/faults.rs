//! A homeserver that asks for pauses, hangs up, ends the session or is late with keys: nothing is lost, nothing goes out
//! twice. And one that lies.

use std::time::Duration;

use serde_json::{Value, json};

use crate::matrix::{ADA, AGENT, House, Person, Proxy, SOON};
use crate::support::{Running, wait_for};

/// What the agent sends, and nobody else.
const SENDING: &str = "PUT .*/send/m.room.encrypted/agent-";

fn house() -> Option<(Proxy, House)> {
    let mut house = House::open()?;
    let proxy = Proxy::before(&house.server);
    house.url = proxy.url();
    Some((proxy, house))
}

fn refuse(proxy: &Proxy, what: &str, times: usize, status: u16, body: Value) {
    proxy.rule(
        json!({"match": what, "act": "refuse", "times": times, "status": status, "body": body}),
    );
}

fn problem(house: &House) -> String {
    let said = house
        .sandbox
        .read_json("state/channels/matrix/channel.json")
        .expect("channel.json");
    said["problem"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_homeserver_that_asks_for_pauses_hangs_up_or_ends_the_session_costs_no_message_and_no_double() {
    let Some((proxy, house)) = house() else {
        return;
    };
    let house = house.settle(ADA, "");
    let mut process = house.start();
    let ada = Person::with_client(&proxy.url(), "ada");
    ada.does(json!({"do": "register", "user": "ada", "password": "pw-ada"}));
    ada.signs_in("ada");
    let room = ada.room(true, &[AGENT]);
    ada.wait_entered(&room);
    ada.says(&room, "[[say Hello.]]");
    ada.hears("Hello.");

    let limit = json!({"errcode": "M_LIMIT_EXCEEDED", "error": "slow down", "retry_after_ms": 700});
    refuse(&proxy, SENDING, 3, 429, limit.clone());
    refuse(&proxy, "GET .*/sync.*timeout=30000", 1, 429, limit);
    ada.says(&room, "[[say Limited.]]");
    ada.hears("Limited.");
    assert_eq!(
        (proxy.did("refuse", "/send/"), proxy.did("refuse", "/sync")),
        (3, 1)
    );
    // The homeserver has it, and the answer is lost.
    proxy.rule(json!({"match": SENDING, "act": "swallow", "times": 1}));
    ada.says(&room, "[[say Swallowed.]]");
    ada.hears("Swallowed.");
    wait_for("the answer to be acknowledged", SOON, || {
        let open = "SELECT count(*) FROM outbox WHERE state NOT IN ('sent')";
        (crate::channels::count(&house.sandbox, open) == 0).then_some(())
    });

    // A key that is late, and comes to the next process.
    proxy.rule(json!({"match": "PUT .*/sendToDevice/m.room.encrypted", "act": "hold"}));
    ada.does(json!({"do": "renew", "room": room}));
    ada.says(&room, "[[say Late.]]");
    wait_for("it to be missed", SOON, || {
        process
            .said()
            .1
            .contains("the key of a message has not arrived")
            .then_some(())
    });
    process.kill9();
    proxy.says("forget", "\"forgot\"");
    let process = house.start();
    proxy.says("release", "\"released\"");
    ada.hears("Late.");

    // The session ends softly: the device and its keys stay, and what was said meanwhile is answered.
    let device = house
        .sandbox
        .read_json("state/channels/matrix/secret/session.json")
        .expect("a session")["device_id"]
        .clone();
    let soft = json!({"errcode": "M_UNKNOWN_TOKEN", "error": "expired", "soft_logout": true});
    refuse(&proxy, "GET .*/sync.*timeout=30000", 1, 401, soft.clone());
    ada.says(&room, "[[say one last]]");
    let done = process.end();
    assert_eq!(done.code, 77, "{done:?}");
    assert!(
        problem(&house).contains("agent-channel-matrix login"),
        "{}",
        problem(&house)
    );
    ada.says(&room, "[[say Meanwhile.]]");
    refuse(&proxy, "GET .*/account/whoami", 1, 401, soft);
    let again = house.run(&["login"], "");
    let same = format!("on the device {}.", device.as_str().expect("a device"));
    assert!(
        again.code == 0 && again.stdout.contains(&same) && !again.stdout.contains("not signed"),
        "{again:?}"
    );
    let _process = house.start();
    ada.hears("Meanwhile.");
    assert_eq!(problem(&house), "");
    for words in ["Limited.", "Swallowed.", "Late.", "Meanwhile."] {
        assert_eq!(ada.heard_times(words), 1, "{words}: {:?}", ada.heard());
    }
}

#[test]
fn a_homeserver_that_lies_is_believed_in_nothing_that_could_be_known() {
    let Some((proxy, house)) = house() else {
        return;
    };
    let house = house.settle(ADA, "");
    let process: Running = house.start();
    let logs = |words: &str| {
        wait_for(words, SOON, || {
            process.said().1.contains(words).then_some(())
        })
    };
    let (ada, bob) = (
        Person::signed_in(&house.server, "ada"),
        Person::signed_in(&house.server, "bob"),
    );
    let room = ada.room(true, &[AGENT]);
    let strange = bob.room(true, &[AGENT]);
    ada.wait_entered(&room);
    bob.wait_entered(&strange);
    bob.says(&strange, "[[say leak-stranger]]");
    bob.hears("agent-send --pair approve");
    // What a stranger wrote is the owner's, it says.
    let words = json!({"\"sender\":\\s*\"@bob:home.test\"": "\"sender\":\"@ada:home.test\""});
    proxy.rule(json!({"match": "GET .*/sync", "act": "change", "words": words}));
    bob.says(&strange, "[[say leak-forged]]");
    logs("the key is another person's than the message");
    proxy.says("forget", "\"forgot\"");

    files_lead_nowhere(&proxy, &house, &ada, &room);
    floods_and_broken_events_hold_nobody_up(&proxy, &ada, [&room, &strange], &process);
    drop(process);
    proxy.rule(json!({"match": "whoami", "act": "change", "words": {"@agent:home.test": "@eve:home.test"}}));
    let status = house.run(&["status"], "");
    assert!(
        status.code == 69 && status.stderr.contains("@eve:home.test"),
        "{status:?}"
    );
    let all = format!("{:?}{:?}", ada.heard(), bob.heard());
    assert!(!all.contains("leak-"), "{all}");
    assert_eq!(house.model.requests().len(), 4);
}

/// Addresses that lead elsewhere, names that do, an answer that sends on.
fn files_lead_nowhere(proxy: &Proxy, house: &House, ada: &Person, room: &str) {
    let file = |url: &str, name: &str, say: &str| json!({"msgtype": "m.file", "body": format!("[[say {say}]]"), "filename": name, "url": url, "info": {"size": 7}});
    ada.sends(
        room,
        file("mxc://../../account/whoami", "a.txt", "Nowhere."),
    );
    ada.hears("Nowhere.");
    let place = json!({"Location": format!("{}/_matrix/client/v3/account/whoami", proxy.url())});
    proxy.rule(json!({"match": "media/download", "act": "refuse", "status": 302, "body": {}, "headers": place}));
    ada.sends(room, file("mxc://home.test/abc", "b.txt", "Not sent on."));
    ada.hears("Not sent on.");
    proxy.says("forget", "\"forgot\"");
    let sent = ada.does(json!({"do": "upload", "hex": "6d696c6b", "name": "x"}));
    let name = "../../../../workspace/SOUL.md\u{0}\n.sh";
    ada.sends(
        room,
        file(
            sent["source"]["url"].as_str().expect("a URL"),
            name,
            "Named.",
        ),
    );
    ada.hears("Named.");
    let requests = house.model.requests();
    let told = |number: usize| requests[number].to_string();
    assert!(
        told(0).contains("its address is not understood"),
        "{}",
        told(0)
    );
    assert!(told(1).contains("could not be fetched: 302"), "{}", told(1));
    let found = house.sandbox.bash(
        "grep -rl '^milk$' . | grep -v -e '^./workspace/inbox/' -e '^./state/downloads/' || true",
    );
    assert_eq!(found.stdout, "", "{found:?}");
}

/// Invitations without end, events of a megabyte and of any shape.
fn floods_and_broken_events_hold_nobody_up(
    proxy: &Proxy,
    ada: &Person,
    [room, strange]: [&String; 2],
    process: &Running,
) {
    let member = json!({"type": "m.room.member", "state_key": AGENT, "sender": "@eve:home.test", "content": {"membership": "invite", "is_direct": true}});
    let invited: serde_json::Map<String, Value> = (0..200)
        .map(|n| {
            (
                format!("!flood{n}:home.test"),
                json!({"invite_state": {"events": [member]}}),
            )
        })
        .collect();
    let event = |n: usize, content: Value| json!({"type": "m.room.message", "event_id": format!("$bad{n}"), "sender": "@bob:home.test", "origin_server_ts": -1, "content": content});
    let large = json!({"msgtype": "m.text", "body": "leak".repeat(250_000)});
    let deep = (0..120).fold(json!("leak"), |inner, _| json!([inner]));
    let round = json!({"msgtype": "m.text", "body": "leak", "m.relates_to": {"rel_type": "m.replace", "event_id": "$bad4"}});
    let events: Vec<Value> = [
        large,
        deep,
        json!(["leak"]),
        json!({"msgtype": ["leak"]}),
        round,
    ]
    .into_iter()
    .enumerate()
    .map(|(n, content)| event(n, content))
    .collect();
    let more = json!({"rooms": {"invite": invited, "join": {strange.as_str(): {"timeline": {"events": events}}}}});
    proxy.rule(json!({"match": "POST .*/join", "act": "refuse", "status": 403, "body": {"errcode": "M_FORBIDDEN", "error": "no"}}));
    proxy.rule(
        json!({"match": "GET .*/sync.*timeout=30000", "act": "merge", "times": 1, "with": more}),
    );
    ada.says(room, "[[say Still here.]]");
    ada.hears("Still here.");
    wait_for("an end of the invitations", Duration::from_secs(60), || {
        process
            .said()
            .1
            .contains("an invitation waits")
            .then_some(())
    });
    assert!(
        proxy.did("refuse", "/join") <= 3,
        "{}",
        proxy.did("refuse", "/join")
    );
}
