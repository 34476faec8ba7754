//! Updates that no server should send: they are read as far as possible.

use proptest::prelude::*;

use super::*;
use crate::channel::telegram::tests::check_update;

#[test]
fn what_says_where_it_came_from_is_heard_however_odd_the_rest_is() {
    let mut odd = private(
        &json!({"text": "hi", "date": "tomorrow", "entities": {"type": 3}, "photo": "no list", "reply_to_message": []}),
    );
    odd["message"]["chat"] = json!({"id": "1001"});
    odd["message"]["from"] = json!({"id": "1001", "first_name": 5});
    odd["message"]["message_id"] = json!("5");
    odd["update_id"] = json!("7");
    let sender = Sender {
        id: "1001".into(),
        name: "1001".into(),
        username: None,
    };
    let expected = Incoming {
        text: "hi".into(),
        sender: Some(sender),
        sent_at: None,
        ..plain()
    };
    assert_eq!(read(&odd), expected);

    odd["message"]["chat"]["id"] = json!(i64::MIN);
    let incoming = read(&odd);
    assert_eq!(incoming.chat.chat, i64::MIN.to_string());
    assert_eq!(incoming.group.as_deref(), Some(""));
    odd["message"]["chat"]["id"] = json!(u64::MAX);
    assert_eq!(super::incoming(&odd, &us()), None);
}

#[test]
fn marks_that_lie_outside_or_cut_a_letter_are_left_out() {
    let mark = |offset: Value, length: Value| json!({"type": "mention", "offset": offset, "length": length});
    let addressed = |entities: &[Value]| {
        read(&group(
            &json!({"text": "😀 @our_bot 😀", "entities": entities}),
        ))
        .addressed
    };
    let mut all = vec![mark(json!(2.5), json!(null)), json!("mention")];
    let (min, max) = (i64::MIN, i64::MAX);
    let bad = [
        (1, 9),
        (4, 8),
        (0, 999),
        (max, max),
        (min, -1),
        (5, -3),
        (-1, 9),
    ];
    all.extend(bad.map(|(offset, length)| mark(json!(offset), json!(length))));
    for entity in &all {
        assert!(!addressed(std::slice::from_ref(entity)), "{entity}");
    }
    assert!(addressed(&[mark(json!(3), json!("8"))]));
    all.push(mark(json!("3"), json!(8)));
    assert!(addressed(&all));
}

#[test]
fn nuls_depth_and_size_pass_through() {
    assert_eq!(read(&private(&json!({"text": "a\0b"}))).text, "a\0b");
    let nested = format!("{}\"x\"{}", "{\"text\":[".repeat(50), "]}".repeat(50));
    let rich = format!("{{\"blocks\":[{{\"type\":\"paragraph\",\"text\":{nested}}}]}}");
    let rich: Value = serde_json::from_str(&rich).expect("below the depth that is parsed");
    assert_eq!(read(&private(&json!({"rich_message": rich}))).text, "x");
    let many = vec![json!({"type": "mention", "offset": 0, "length": 8}); 5000];
    assert!(
        read(&group(
            &json!({"text": format!("@our_bot {}", "x".repeat(100_000)), "entities": many})
        ))
        .addressed
    );
}

pub(super) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(json!("😀@our_bot")),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let key = prop_oneof![
            any::<String>(),
            Just("id".to_owned()),
            Just("text".to_owned()),
            Just("type".to_owned())
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(key, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Good updates with something of everything.
fn good() -> Vec<Value> {
    let file = json!({"file_id": "f", "width": 1, "height": 1, "duration": 3, "emoji": "😀", "set_name": "x", "file_name": "n"});
    let reply = json!({"message_id": 4, "from": {"id": BOT, "is_bot": true, "first_name": "Us"}, "caption": "c", "photo": [file]});
    let origin = json!({"type": "channel", "chat": {"id": -1, "title": "N"}, "author_signature": "B", "sender_user": {"id": 1}});
    let entities = json!([{"type": "mention", "offset": 3, "length": 8}, {"type": "text_mention", "offset": 0, "length": 2, "user": {"id": BOT}}]);
    let place = json!({"latitude": 1.0, "longitude": 2.0, "live_period": 3});
    let blocks = json!([{"type": "paragraph", "text": ["a", {"type": "code", "text": "b"}]}, {"type": "list", "items": [{"label": "1", "blocks": []}]}]);
    vec![
        group(
            &json!({"text": "😀 @our_bot Robo", "entities": entities, "reply_to_message": reply, "quote": {"text": "q"}}),
        ),
        group(
            &json!({"caption": "😀 @our_bot", "caption_entities": entities, "photo": [file, file], "media_group_id": "1"}),
        ),
        private(
            &json!({"sticker": file, "animation": file, "document": file, "forward_origin": origin, "via_bot": {"id": 1}}),
        ),
        private(
            &json!({"venue": {"location": place, "title": "t", "address": "a"}, "location": place, "external_reply": {"origin": origin, "audio": file}}),
        ),
        private(
            &json!({"poll": {"question": "q", "options": [{"text": "a", "voter_count": 1}], "is_closed": true, "correct_option_ids": [0]}}),
        ),
        private(
            &json!({"rich_message": {"blocks": blocks}, "checklist": {"title": "t", "tasks": [{"text": "x"}]}, "contact": {"first_name": "a"}}),
        ),
    ]
}

/// Returns the paths of everything inside of `value`.
pub(super) fn paths(value: &Value, at: &str, found: &mut Vec<String>) {
    let mut below = |name: &str, value: &Value| {
        let path = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
        found.push(path.clone());
        paths(value, &path, found);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| below(name, value)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(at, value)| below(&at.to_string(), value)),
        _ => {}
    }
}

proptest! {
    #[test]
    fn nothing_breaks_it_and_no_message_is_lost(
        which in 0..6_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..3_u8, any_json()), 1..6),
    ) {
        let mut update = good().swap_remove(which);
        for (at, other, how, value) in changes {
            let mut found = Vec::new();
            // The update id stays.
            paths(&update["message"], "/message", &mut found);
            if found.is_empty() {
                break;
            }
            let from = update.pointer(&found[other.index(found.len())]).cloned().expect("a path");
            let place = update.pointer_mut(&found[at.index(found.len())]).expect("a path");
            *place = match how {
                0 => Value::Null,
                1 => value,
                // Something else of the same message, in a place where it does not belong.
                _ => from,
            };
        }
        let message = &update["message"];
        let number = |value: &Value| value.as_i64().is_some();
        let told = number(&message["message_id"]) && number(&message["chat"]["id"]);
        prop_assert!(incoming(&update, &us()).is_some() || !told, "{}", update);
        check_update(&update);
    }

    #[test]
    fn anything_at_all_is_read_or_left(update in any_json()) {
        check_update(&json!({"update_id": 1, "message": update}));
        check_update(&update);
    }
}
