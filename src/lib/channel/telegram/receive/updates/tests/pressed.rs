//! Buttons that are pressed.

use proptest::prelude::*;

use super::*;
use crate::message::Approval;

/// Returns an update: Ada pressed a button below a message of ours in our chat.
fn query(data: &Value) -> Value {
    let mut query = private(&json!({}))["message"].take();
    let message = with(
        query.clone(),
        &json!({"text": "May I?", "from": us_as_user()}),
    );
    query["id"] = json!("4382bfdwdsb323b2d9");
    query["message"] = message;
    query["data"] = data.clone();
    json!({"update_id": 7, "callback_query": query})
}

fn approval(verdict: Approval) -> Option<Command> {
    Some(Command::Approval {
        id: "k3f9w2".to_owned(),
        verdict,
        why: None,
    })
}

#[test]
fn who_pressed_is_the_sender_and_the_message_tells_where() {
    let expected = Incoming {
        text: String::new(),
        command: approval(Approval::Approve),
        press: Some("4382bfdwdsb323b2d9".into()),
        // The date is that of our message.
        sent_at: None,
        ..plain()
    };
    assert_eq!(read(&query(&json!("a:y:k3f9w2"))), expected);
    for (data, verdict) in [
        ("a:s:k3f9w2", Approval::Session),
        ("a:n:k3f9w2", Approval::Deny),
    ] {
        let pressed = Incoming {
            command: approval(verdict),
            ..expected.clone()
        };
        assert_eq!(read(&query(&json!(data))), pressed);
    }
    let mut in_topic = query(&json!("a:y:k3f9w2"));
    let message = &mut in_topic["callback_query"]["message"];
    message["chat"] = json!({"id": -100_500, "type": "supergroup", "title": "Family"});
    message["message_thread_id"] = json!(9);
    message["is_topic_message"] = json!(true);
    let in_family = Incoming {
        chat: ChatRef {
            chat: "-100500".into(),
            topic: Some("9".into()),
        },
        group: Some("Family".into()),
        ..expected.clone()
    };
    assert_eq!(read(&in_topic), in_family);
    // Of an old message only this is left ("inaccessible message").
    let mut old = query(&json!("a:y:k3f9w2"));
    old["callback_query"]["message"] =
        json!({"chat": {"id": 1001, "type": "private"}, "message_id": 5, "date": 0});
    assert_eq!(read(&old), expected);
}

#[test]
fn a_press_of_anything_else_is_only_answered() {
    let odd = [
        "x",
        "a:y:\u{202e}k3f9w",
        "/stop",
        &"😀".repeat(16),
        &"\0".repeat(64),
    ];
    let odd = odd.iter().map(|data| json!(data));
    for data in odd.chain([json!(5), Value::Null, json!({"a": "y"})]) {
        let incoming = read(&query(&data));
        assert!(
            incoming.command.is_none() && incoming.press.is_some(),
            "{data}"
        );
    }
}

#[test]
fn what_does_not_say_who_where_or_which_is_left() {
    for (path, value) in [
        ("/from", json!([1])),
        ("/from", Value::Null),
        ("/message", json!([1])),
        ("/message", Value::Null),
        ("/id", json!([1])),
        ("/id", Value::Null),
        ("/id", json!("x".repeat(65))),
        ("/from/is_bot", json!(true)),
        ("/from/is_bot", json!("no")),
        ("/from/id", json!(u64::MAX)),
        ("/message/chat/id", json!(1.5e300)),
        ("/message/message_id", Value::Null),
    ] {
        let mut update = query(&json!("a:y:k3f9w2"));
        let place = update["callback_query"].pointer_mut(path);
        *place.expect("a path") = value;
        assert_eq!(incoming(&update, &us()), None, "{update}");
    }
    let mut update = query(&json!("a:y:k3f9w2"));
    update["callback_query"]["sender_chat"] = json!({"id": -1, "title": "A group"});
    assert_eq!(incoming(&update, &us()), None);
    let mut update = query(&json!("a:y:k3f9w2"));
    update["callback_query"]["id"] = json!(i64::MIN);
    assert_eq!(read(&update).press, Some(i64::MIN.to_string()));
    // A message in the same update would be another one's words.
    update["message"] = private(&json!({"text": "/status"}))["message"].take();
    assert_eq!(read(&update).command, approval(Approval::Approve));
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
            prop_assert!(incoming.command.is_none() || incoming.command == approval(Approval::Approve));
        }
    }
}
