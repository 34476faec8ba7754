//! Buttons that are pressed.

use proptest::prelude::*;

use super::*;
use crate::message::Approval;

/// Returns an update: Ada pressed a button below a message of ours in our chat.
fn query(data: &Value) -> Value {
    let from = json!({"id": 1001, "is_bot": false, "first_name": "Ada", "last_name": "L", "username": "ada"});
    let message = json!({
        "message_id": 5, "date": 1_700_000_000, "text": "May I?",
        "from": {"id": BOT, "is_bot": true, "first_name": "Us"}, "chat": {"id": 1001, "type": "private", "first_name": "Ada"},
    });
    json!({"update_id": 7, "callback_query": {"id": "4382bfdwdsb323b2d9", "from": from, "message": message, "chat_instance": "1", "data": data}})
}

fn approval(id: &str, verdict: Approval) -> Option<Command> {
    Some(Command::Approval {
        id: id.to_owned(),
        verdict,
        why: None,
    })
}

#[test]
fn who_pressed_is_the_sender_and_the_message_tells_where() {
    let expected = Incoming {
        key: "tg:42:7".into(),
        sender: Some(Sender {
            id: "1001".into(),
            name: "Ada L".into(),
            username: Some("ada".into()),
        }),
        chat: ChatRef {
            chat: "1001".into(),
            topic: None,
        },
        group: None,
        addressed: true,
        message_id: "5".into(),
        text: String::new(),
        kind: None,
        media: Vec::new(),
        album: None,
        quoted: None,
        command: approval("k3f9w2", Approval::Approve),
        press: Some("4382bfdwdsb323b2d9".into()),
        forwarded: false,
        forwarded_from: None,
        edited: false,
    };
    assert_eq!(read(&query(&json!("a:y:k3f9w2"))), expected);
    for (data, command) in [
        ("a:s:k3f9w2", approval("k3f9w2", Approval::Session)),
        ("a:n:k3f9w2", approval("k3f9w2", Approval::Deny)),
    ] {
        assert_eq!(
            read(&query(&json!(data))),
            Incoming {
                command,
                ..expected.clone()
            }
        );
    }
    let mut in_topic = query(&json!("a:y:k3f9w2"));
    let chat = json!({"id": -100_500, "type": "supergroup", "title": "Family", "is_forum": true});
    for (name, value) in [
        ("chat", chat),
        ("message_thread_id", json!(9)),
        ("is_topic_message", json!(true)),
    ] {
        in_topic["callback_query"]["message"][name] = value;
    }
    let chat = ChatRef {
        chat: "-100500".into(),
        topic: Some("9".into()),
    };
    assert_eq!(
        read(&in_topic),
        Incoming {
            chat,
            group: Some("Family".into()),
            ..expected.clone()
        }
    );
    // Of an old message only this is left ("inaccessible message").
    let mut old = query(&json!("a:y:k3f9w2"));
    old["callback_query"]["message"] =
        json!({"chat": {"id": 1001, "type": "private"}, "message_id": 5, "date": 0});
    assert_eq!(read(&old), expected);
}

#[test]
fn a_press_of_anything_else_is_only_answered() {
    let odd = "\u{1f600}".repeat(16);
    for data in [
        json!("x"),
        json!(odd),
        json!("a:y:\u{202e}k3f9w"),
        json!("\0".repeat(64)),
        json!("/stop"),
        json!(5),
        Value::Null,
        json!({"a": "y"}),
    ] {
        let incoming = read(&query(&data));
        assert_eq!(
            (incoming.command, incoming.press.as_deref()),
            (None, Some("4382bfdwdsb323b2d9")),
            "{data}"
        );
    }
}

#[test]
fn what_does_not_say_who_where_or_which_is_left() {
    let check = |change: &dyn Fn(&mut Value)| {
        let mut update = query(&json!("a:y:k3f9w2"));
        change(&mut update["callback_query"]);
        assert_eq!(incoming(&update, &us()), None, "{update}");
    };
    for field in ["from", "message", "id"] {
        check(&|query| drop(query.as_object_mut().unwrap().remove(field)));
        check(&|query| query[field] = json!([1]));
    }
    check(&|query| query["from"]["is_bot"] = json!(true));
    check(&|query| query["from"]["is_bot"] = json!("no"));
    check(&|query| query["from"]["id"] = json!(u64::MAX));
    check(&|query| query["message"]["chat"]["id"] = json!(1.5e300));
    check(&|query| query["message"]["message_id"] = json!(null));
    check(&|query| query["id"] = json!("x".repeat(65)));
    check(&|query| query["sender_chat"] = json!({"id": -1, "title": "A group"}));
    check(&|query| {
        query["inline_message_id"] = json!("AgAAAH8");
        query.as_object_mut().unwrap().remove("message");
    });
    let mut update = query(&json!("a:y:k3f9w2"));
    update["callback_query"]["id"] = json!(i64::MIN);
    assert_eq!(read(&update).press, Some(i64::MIN.to_string()));
    // A message in the same update would be another one's words.
    update["message"] = private(&json!({"text": "/status"}))["message"].clone();
    assert_eq!(read(&update).command, approval("k3f9w2", Approval::Approve));
}

proptest! {
    #[test]
    fn a_press_never_says_words_and_never_another_than_ours(
        changes in prop::collection::vec((any::<prop::sample::Index>(), hostile::any_json()), 0..5),
    ) {
        let mut update = query(&json!("a:y:k3f9w2"));
        for (at, value) in changes {
            let mut found = Vec::new();
            hostile::paths(&update["callback_query"], "/callback_query", &mut found);
            if found.is_empty() {
                break;
            }
            *update.pointer_mut(&found[at.index(found.len())]).expect("a path") = value;
        }
        if let Some(incoming) = incoming(&update, &us()) {
            prop_assert_eq!((incoming.text.as_str(), incoming.forwarded, incoming.media.len()), ("", false, 0));
            prop_assert!(incoming.press.is_some_and(|press| press.len() <= 64));
            prop_assert!(incoming.command.is_none_or(|command| command == approval("k3f9w2", Approval::Approve).unwrap()));
        }
    }
}
