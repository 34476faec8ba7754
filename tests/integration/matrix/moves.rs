//! Rooms that move to another one (room upgrades), and rooms that say they did.

use serde_json::{Value, json};

use crate::matrix::{ADA, AGENT, House, Person, SOON};
use crate::support::{Running, wait_for};

fn logs(process: &Running, words: &str) {
    wait_for(words, SOON, || {
        process.said().1.contains(words).then_some(())
    });
}

/// Returns a room that everybody may enter, with a predecessor or none.
fn open_room(person: &Person, predecessor: Option<&str>) -> String {
    let mut made = json!({"preset": "public_chat"});
    if let Some(old) = predecessor {
        made["creation_content"] = json!({"predecessor": {"room_id": old, "event_id": "$x"}});
    }
    let made = person.asks("POST", "/_matrix/client/v3/createRoom", made);
    made["room_id"]
        .as_str()
        .unwrap_or_else(|| panic!("{made}"))
        .to_owned()
}

fn moves(person: &Person, old: &str, new: &str) {
    let path = format!("/_matrix/client/v3/rooms/{old}/state/m.room.tombstone/");
    let content = json!({"body": "moved", "replacement_room": new});
    let put = person.asks("PUT", &path, content);
    assert!(put["event_id"].is_string(), "{put}");
}

fn is_there(person: &Person, room: &str) -> bool {
    let there = person.does(json!({"do": "members", "room": room}));
    there["members"]
        .as_array()
        .is_some_and(|members| members.contains(&json!(AGENT)))
}

#[test]
fn a_room_that_moves_is_followed_and_one_that_only_says_so_is_not() {
    let Some(house) = House::open() else {
        return;
    };
    let house = house.settle(ADA, "");
    let process = house.start();
    let ada = Person::signed_in(&house.server, "ada");
    let old = ada.room(true, &[AGENT]);
    ada.wait_entered(&old);
    ada.says(&old, "[[say Before.]]");
    ada.hears("Before.");
    let path = format!("/_matrix/client/v3/rooms/{old}/upgrade");
    let upgraded = ada.asks("POST", &path, json!({"new_version": "10"}));
    let new = upgraded["replacement_room"]
        .as_str()
        .unwrap_or_else(|| panic!("{upgraded}"))
        .to_owned();
    // Only who is invited may enter, and what is said meanwhile waits for it.
    logs(
        &process,
        "cannot join the new one until somebody invites it",
    );
    let sent = house
        .sandbox
        .send(&["--raw", "--to", &format!("matrix:{old}"), "On the way."]);
    assert_eq!(sent.code, 0, "{sent:?}");
    ada.does(json!({"do": "invite", "room": new, "user": AGENT}));
    ada.wait_entered(&new);
    ada.says(&new, "[[say After.]]");
    assert_eq!(ada.hears("After.")["room"], new.as_str());
    assert_eq!(ada.hears("On the way.")["room"], new.as_str());
    for to in ["@ada:home.test", old.as_str()] {
        let sent = house.sandbox.send(&[
            "--raw",
            "--to",
            &format!("matrix:{to}"),
            &format!("To {to}."),
        ]);
        assert_eq!(sent.code, 0, "{sent:?}");
        assert_eq!(ada.hears(&format!("To {to}."))["room"], new.as_str());
    }
    let sessions = house.sandbox.query(
        "queue",
        "SELECT DISTINCT session_key FROM inbox WHERE session_key LIKE 'agent:%ada%'",
    );
    assert_eq!(sessions.len(), 1, "{sessions:?}");

    // A stranger's room that ours says nothing of is an invitation like others.
    let bob = Person::signed_in(&house.server, "bob");
    let claim = open_room(&bob, Some(&new));
    bob.does(json!({"do": "invite", "room": claim, "user": AGENT}));
    logs(&process, "invite_from does not name its sender");
    // A room that does not say where it comes from, and one where others read along.
    let direct = bob.room(true, &[AGENT]);
    bob.wait_entered(&direct);
    let unsaid = open_room(&bob, None);
    moves(&bob, &direct, &unsaid);
    logs(&process, "it does not confirm that it replaces the old one");
    let crowd = open_room(&bob, Some(&direct));
    let joined: Value = ada.asks(
        "POST",
        &format!("/_matrix/client/v3/join/{crowd}"),
        json!({}),
    );
    assert_eq!(joined["room_id"], crowd.as_str(), "{joined}");
    moves(&bob, &direct, &crowd);
    logs(&process, "it has other readers");
    for room in [&claim, &unsaid, &crowd] {
        wait_for("the agent to be gone", SOON, || {
            (!is_there(&bob, room)).then_some(())
        });
    }
    assert!(is_there(&ada, &new) && is_there(&bob, &direct));
    assert_eq!(house.model.requests().len(), 2);
}
