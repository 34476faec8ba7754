//! What every kind of update becomes, in the form core.telegram.org/bots/api documents them.

mod addressed;
mod hostile;
mod pressed;

use serde_json::{Value, json};

use super::*;
use crate::message::{Command, Media, MediaKind, Quoted, Sender};

const BOT: i64 = 42;

fn us() -> Identity {
    Identity {
        id: BOT,
        username: Some("our_bot".to_owned()),
        aliases: vec!["Robo".to_owned(), "小助".to_owned()],
    }
}

/// Returns an update with a message of Ada's in private that also has the fields of `extra`.
fn private(extra: &Value) -> Value {
    let message = json!({
        "message_id": 5, "date": 1_700_000_000,
        "chat": {"id": 1001, "type": "private", "first_name": "Ada", "last_name": "L", "username": "ada"},
        "from": {"id": 1001, "is_bot": false, "first_name": "Ada", "last_name": "L", "username": "ada", "language_code": "en"}
    });
    json!({"update_id": 7, "message": with(message, extra)})
}

/// The same in a group.
fn group(extra: &Value) -> Value {
    let mut update = private(extra);
    update["message"]["chat"] =
        json!({"id": -100_500, "type": "supergroup", "title": "Family", "is_forum": true});
    update
}

fn with(mut message: Value, extra: &Value) -> Value {
    for (name, value) in extra.as_object().expect("an object") {
        message[name.as_str()] = value.clone();
    }
    message
}

fn read(update: &Value) -> Incoming {
    incoming(update, &us()).unwrap_or_else(|| panic!("nothing came of {update}"))
}

#[test]
fn a_text_keeps_who_where_and_what() {
    let plain = Incoming {
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
        text: "/status".into(),
        kind: None,
        media: Vec::new(),
        album: None,
        quoted: None,
        command: Some(Command::Status),
        press: None,
        forwarded: false,
        forwarded_from: None,
        edited: false,
    };
    assert_eq!(read(&private(&json!({"text": "/status"}))), plain);
    let mut edit = private(&json!({"text": "/status", "edit_date": 1_700_000_009}));
    edit["edited_message"] = edit["message"].take();
    assert_eq!(
        read(&edit),
        Incoming {
            edited: true,
            ..plain
        }
    );
}

#[test]
fn an_edit_without_words_is_no_message() {
    for (extra, heard) in [
        (
            json!({"location": {"latitude": 1.0, "longitude": 2.0, "live_period": 60}}),
            false,
        ),
        (json!({"photo": [size("a", 9, 9)]}), false),
        (
            json!({"photo": [size("a", 9, 9)], "caption": "better"}),
            true,
        ),
    ] {
        let mut edit = private(&extra);
        edit["edited_message"] = edit["message"].take();
        assert_eq!(incoming(&edit, &us()).is_some(), heard, "{extra}");
    }
}

fn size(id: &str, width: u32, height: u32) -> Value {
    json!({"file_id": id, "file_unique_id": "u", "width": width, "height": height, "file_size": 1000 + width})
}

fn media(kind: MediaKind, handle: &str, bytes: u64) -> Media {
    Media {
        kind,
        handle: handle.into(),
        filename: None,
        content_type: None,
        bytes: Some(bytes),
        seconds: None,
    }
}

#[test]
fn files_keep_their_handle_and_what_the_sender_says_of_them() {
    let file = json!({"file_id": "f", "file_unique_id": "u", "width": 3, "height": 3, "length": 3, "duration": 8, "file_size": 77,
        "file_name": "a\nb.pdf", "mime_type": "x/y", "is_animated": false, "is_video": false, "emoji": "😀", "set_name": "Cats"});
    let all = |kind| Media {
        filename: Some("a\\u{a}b.pdf".into()),
        content_type: Some("x/y".into()),
        seconds: Some(8),
        ..media(kind, "f", 77)
    };
    let photo = json!([size("s", 90, 60), size("l", 1280, 853), size("m", 320, 213)]);
    for (extra, expected, kind) in [
        (
            json!({"photo": photo}),
            vec![media(MediaKind::Photo, "l", 2280)],
            None,
        ),
        (
            json!({"photo": photo, "live_photo": file}),
            vec![media(MediaKind::Photo, "l", 2280)],
            None,
        ),
        (json!({"voice": file}), vec![all(MediaKind::Voice)], None),
        (json!({"audio": file}), vec![all(MediaKind::Audio)], None),
        (json!({"video": file}), vec![all(MediaKind::Video)], None),
        (
            json!({"video_note": file}),
            vec![all(MediaKind::VideoNote)],
            None,
        ),
        (
            json!({"document": file}),
            vec![all(MediaKind::Document)],
            None,
        ),
        (
            json!({"animation": file, "document": file}),
            vec![all(MediaKind::Animation)],
            None,
        ),
        (
            json!({"sticker": file}),
            vec![all(MediaKind::Sticker)],
            Some("sticker 😀 of Cats"),
        ),
        (
            json!({"sticker": {"file_id": "f", "is_animated": true, "emoji": "😀"}}),
            vec![],
            Some("animated sticker 😀"),
        ),
        (
            json!({"sticker": {"file_id": "f", "is_video": true, "set_name": "Cats"}}),
            vec![],
            Some("video sticker of Cats"),
        ),
        // Without a handle there is nothing to fetch; it is still named.
        (json!({"voice": {"duration": 3}}), vec![], Some("voice")),
        (json!({"photo": []}), vec![], Some("photo")),
    ] {
        let incoming = read(&private(&extra));
        assert_eq!(
            (incoming.media, incoming.kind.as_deref()),
            (expected, kind),
            "{extra}"
        );
    }
}

#[test]
fn a_caption_is_the_words_of_its_item_of_an_album() {
    let item = |extra: Value| {
        let update = private(&with(
            extra,
            &json!({"photo": [size("a", 9, 9)], "media_group_id": "139", "message_id": 6}),
        ));
        let Incoming {
            text,
            album,
            kind,
            command,
            ..
        } = read(&update);
        (text, album, kind, command)
    };
    let album = Some("139".to_owned());
    assert_eq!(
        item(json!({"caption": "the beach"})),
        ("the beach".into(), album.clone(), None, None)
    );
    assert_eq!(item(json!({})), (String::new(), album.clone(), None, None));
    // Only a text is a command.
    assert_eq!(
        item(json!({"caption": "/new"})),
        ("/new".into(), album, None, None)
    );
}

#[test]
fn what_is_neither_text_nor_file_is_said_in_words() {
    let place = json!({"latitude": 52.52, "longitude": 13.405});
    let live =
        json!({"latitude": 52.520_000_4, "longitude": -0.1, "live_period": 900, "heading": 9});
    let options = json!([{"persistent_id": "0", "text": "a", "voter_count": 3}, {"text": "b\n", "voter_count": 0}, {"text": "c"}]);
    let poll = json!({"id": "1", "question": "Q?", "options": options, "is_closed": false, "type": "regular", "total_voter_count": 3});
    let long = "x".repeat(5000);
    for (extra, expected) in [
        (json!({"location": place}), "location 52.52, 13.405"),
        (json!({"location": live}), "live location 52.52, -0.1"),
        (
            json!({"location": {"latitude": "52.52", "longitude": "13.405"}}),
            "location 52.52, 13.405",
        ),
        (
            json!({"location": {"latitude": 1e300, "longitude": 0}}),
            "location",
        ),
        (
            json!({"location": place, "venue": {"location": place, "title": "Café", "address": "Main St 1"}}),
            "venue Café, Main St 1 (52.52, 13.405)",
        ),
        (
            json!({"contact": {"phone_number": "+49 151", "first_name": "Ana", "last_name": "Lopez"}}),
            "contact Ana Lopez, +49 151",
        ),
        (
            json!({"contact": {"phone_number": "+49", "first_name": "Ana", "user_id": 9}}),
            "contact Ana, +49, user 9",
        ),
        (json!({"poll": poll}), "poll \"Q?\": a | b | c"),
        (
            json!({"poll": with(poll.clone(), &json!({"is_closed": true}))}),
            "closed poll \"Q?\": a (3) | b (0) | c",
        ),
        (
            json!({"poll": with(poll.clone(), &json!({"type": "quiz", "correct_option_ids": [1, 9, -1]}))}),
            "quiz \"Q?\": a | b | c; right: b",
        ),
        (
            json!({"poll": with(poll.clone(), &json!({"type": "quiz", "correct_option_id": 0}))}),
            "quiz \"Q?\": a | b | c; right: a",
        ),
        (json!({"dice": {"emoji": "🎲", "value": 5}}), "dice 🎲 5"),
        (
            json!({"game": {"title": "Chess", "description": "x", "photo": []}}),
            "game \"Chess\"",
        ),
        (
            json!({"checklist": {"title": "Buy", "tasks": [{"id": 1, "text": "milk", "completion_date": 17}, {"id": 2, "text": "tea"}]}}),
            "checklist \"Buy\": [x] milk | [ ] tea",
        ),
        (
            json!({"story": {"chat": {"id": 3, "type": "private", "first_name": "Eve"}, "id": 1}}),
            "story of Eve",
        ),
        (
            json!({"paid_media": {"star_count": 5, "paid_media": []}}),
            "paid media",
        ),
        (json!({"giveaway": {"winner_count": 1}}), "giveaway"),
        (
            json!({"invention_of_2031": {"x": 1}, "flag": true}),
            "invention_of_2031",
        ),
        (json!({"invention_of_2032": 1}), "invention_of_2032"),
        (json!({}), "message without content"),
        (
            json!({"contact": {"phone_number": "1", "first_name": "a\nb\u{202e}"}}),
            "contact a\\u{a}b\\u{202e}, 1",
        ),
        (
            json!({"game": {"title": long}}),
            &format!("game \"{}…\"", "x".repeat(120)),
        ),
    ] {
        let incoming = read(&private(&extra));
        assert_eq!(
            (incoming.kind.as_deref(), incoming.text.as_str()),
            (Some(expected), ""),
            "{extra}"
        );
    }
    let wide = json!({"poll": {"question": long, "options": vec![json!({"text": long}); 99]}});
    assert_eq!(
        read(&private(&wide)).kind.expect("a poll").chars().count(),
        601
    );
}

#[test]
fn a_text_stays_a_text_whatever_comes_with_it() {
    let incoming = read(&private(
        &json!({"text": "hi", "novelty": {"x": 1}, "new_chat_title": "odd"}),
    ));
    assert_eq!((incoming.text.as_str(), incoming.kind), ("hi", None));
    let incoming = read(&private(&json!({"caption": "hi", "hologram": {"x": 1}})));
    assert_eq!(
        (incoming.text.as_str(), incoming.kind.as_deref()),
        ("hi", Some("hologram"))
    );
}

#[test]
fn a_rich_message_is_read_block_by_block() {
    let blocks = json!([
        {"type": "heading", "text": "Plan", "size": 1},
        {"type": "paragraph", "text": ["for ", {"type": "bold", "text": {"type": "mention", "text": "@our_bot", "username": "our_bot"}}]},
        {"type": "list", "items": [{"label": "1.", "blocks": [{"type": "paragraph", "text": "eat"}]}]},
        {"type": "table", "cells": [[{"text": "a"}, {"text": "b"}], [{"text": "c"}, {"text": "d"}]], "caption": "T"},
        {"type": "photo", "photo": [size("p", 9, 9)], "caption": {"text": "us", "credit": " (Bob)"}},
        {"type": "pre", "text": "Robo"}
    ]);
    let incoming = read(&group(&json!({"rich_message": {"blocks": blocks}})));
    assert_eq!(
        incoming.text,
        "Plan\nfor @our_bot\n1. eat\na | b\nc | d\nT\nus (Bob)\nRobo"
    );
    assert_eq!(
        (incoming.media, incoming.kind, incoming.addressed),
        (vec![media(MediaKind::Photo, "p", 1009)], None, true)
    );
    let code = json!([{"type": "pre", "text": "Robo"}, {"type": "paragraph", "text": "hi"}]);
    assert!(!read(&group(&json!({"rich_message": {"blocks": code}}))).addressed);
}

#[test]
fn what_only_tells_what_happened_is_no_message() {
    let ada = json!({"id": 9, "is_bot": false, "first_name": "Eve"});
    for extra in [
        json!({"new_chat_members": [ada], "new_chat_member": ada, "new_chat_participant": ada}),
        json!({"left_chat_member": ada}),
        json!({"new_chat_title": "x"}),
        json!({"new_chat_photo": [size("p", 9, 9)]}),
        json!({"delete_chat_photo": true}),
        json!({"group_chat_created": true}),
        json!({"migrate_to_chat_id": -1_002_222_222_222_i64}),
        json!({"migrate_from_chat_id": -5}),
        json!({"pinned_message": {"message_id": 1, "date": 0, "chat": {"id": 1, "type": "group"}}}),
        json!({"forum_topic_created": {"name": "t", "icon_color": 1}, "is_topic_message": true, "message_thread_id": 5}),
        json!({"video_chat_started": {}}),
        json!({"message_auto_delete_timer_changed": {"message_auto_delete_time": 60}}),
    ] {
        assert_eq!(incoming(&group(&extra), &us()), None, "{extra}");
    }
    for update in [
        json!({"update_id": 9, "poll_of_the_future": {}}),
        json!({"nonsense": true}),
        json!([1]),
        json!(null),
    ] {
        assert_eq!(incoming(&update, &us()), None, "{update}");
    }
    let mut post = private(&json!({"text": "news"}));
    post["channel_post"] = post["message"].take();
    assert_eq!(incoming(&post, &us()), None);
}

#[test]
fn somebody_elses_words_name_them_and_command_nothing() {
    let user = json!({"id": 3, "is_bot": false, "first_name": "Eve", "last_name": "M"});
    let chat = json!({"id": -3, "type": "channel", "title": "News"});
    for (extra, from) in [
        (
            json!({"forward_origin": {"type": "user", "date": 1, "sender_user": user}}),
            Some("Eve M"),
        ),
        (
            json!({"forward_origin": {"type": "hidden_user", "date": 1, "sender_user_name": "Eve"}}),
            Some("Eve"),
        ),
        (
            json!({"forward_origin": {"type": "chat", "date": 1, "sender_chat": chat}}),
            Some("News"),
        ),
        (
            json!({"forward_origin": {"type": "channel", "date": 1, "chat": chat, "author_signature": "Bob"}}),
            Some("News (Bob)"),
        ),
        (json!({"forward_origin": {"type": "of the future"}}), None),
        (json!({"forward_origin": 3}), None),
        (json!({"forward_date": 1}), None),
        (
            json!({"forward_from": user, "forward_date": 1}),
            Some("Eve M"),
        ),
        (
            json!({"forward_sender_name": "Eve", "forward_date": 1}),
            Some("Eve"),
        ),
        (
            json!({"forward_from_chat": chat, "forward_signature": "Bob", "forward_from_message_id": 3}),
            Some("News (Bob)"),
        ),
        (
            json!({"via_bot": {"id": 5, "is_bot": true, "first_name": "Gifs", "username": "gif"}}),
            Some("Gifs"),
        ),
    ] {
        let incoming = read(&private(&with(json!({"text": "/new"}), &extra)));
        assert_eq!(
            (
                incoming.forwarded,
                incoming.forwarded_from.as_deref(),
                incoming.command
            ),
            (true, from, None),
            "{extra}"
        );
    }
}

#[test]
fn only_people_are_senders() {
    let sender = |extra: &Value| {
        read(&group(&with(json!({"text": "hi"}), extra)))
            .sender
            .map(|sender| (sender.id, sender.name))
    };
    let stand_in = json!({"id": 1_087_968_824, "is_bot": true, "first_name": "Group", "username": "GroupAnonymousBot"});
    let channel = json!({"id": -1_001_234, "type": "channel", "title": "News"});
    assert_eq!(sender(&json!({})), Some(("1001".into(), "Ada L".into())));
    assert_eq!(
        sender(&json!({"from": stand_in, "sender_chat": {"id": -100_500, "type": "supergroup"}})),
        None
    );
    assert_eq!(
        sender(
            &json!({"from": {"id": 777_000, "is_bot": false, "first_name": "Telegram"}, "sender_chat": channel})
        ),
        None
    );
    assert_eq!(
        sender(&json!({"from": {"id": 5, "is_bot": true, "first_name": "Other"}})),
        None
    );
    assert_eq!(
        sender(&json!({"from": {"id": 5, "is_bot": "true", "first_name": "Other"}})),
        None
    );
    assert_eq!(sender(&json!({"from": null})), None);
    assert_eq!(
        sender(&json!({"from": {"id": "5"}})),
        Some(("5".into(), "5".into()))
    );
    assert_eq!(
        sender(&json!({"from": {"id": 5, "username": "eve"}})),
        Some(("5".into(), "@eve".into()))
    );
}

#[test]
fn what_is_answered_comes_along_with_300_characters_of_it() {
    let eve = json!({"id": 3, "is_bot": false, "first_name": "Eve"});
    let bot =
        json!({"id": BOT, "is_bot": true, "first_name": "Renamed", "username": "another_name"});
    let original = |from: &Value, extra: &Value| {
        with(json!({"message_id": 4, "date": 1, "from": from}), extra)
    };
    let reply = |from: &Value, extra: Value| json!({"reply_to_message": original(from, &extra)});
    let quoted = |who: &str, own, text: &str| {
        Some(Quoted {
            who: who.into(),
            id: (who == "Eve" && text != "story").then(|| "3".into()),
            own,
            text: text.into(),
        })
    };
    let (fits, over) = ("ä".repeat(300), "ä".repeat(301));
    let cut = format!("{fits}…");
    let place = json!({"latitude": 1.5, "longitude": 2.5});
    let hidden = json!({"type": "hidden_user", "sender_user_name": "Zoe", "date": 1});
    for (extra, expected) in [
        (
            reply(&eve, json!({"text": fits})),
            quoted("Eve", false, &fits),
        ),
        (
            reply(&eve, json!({"text": over})),
            quoted("Eve", false, &cut),
        ),
        (
            reply(&eve, json!({"caption": over, "photo": [size("p", 9, 9)]})),
            quoted("Eve", false, &cut),
        ),
        (
            reply(&bot, json!({"text": "mine"})),
            quoted("Renamed", true, "mine"),
        ),
        (
            reply(&eve, json!({"photo": [size("p", 9, 9)]})),
            quoted("Eve", false, "photo"),
        ),
        (
            reply(&eve, json!({"voice": {"file_id": "f"}})),
            quoted("Eve", false, "voice message"),
        ),
        (
            reply(
                &eve,
                json!({"document": {"file_id": "f", "file_name": "a.pdf"}}),
            ),
            quoted("Eve", false, "file a.pdf"),
        ),
        (
            reply(&eve, json!({"sticker": {"file_id": "f", "emoji": "😀"}})),
            quoted("Eve", false, "sticker 😀"),
        ),
        (
            reply(&eve, json!({"location": place})),
            quoted("Eve", false, "location 1.5, 2.5"),
        ),
        (
            reply(&eve, json!({"new_chat_title": "x"})),
            quoted("Eve", false, "new_chat_title"),
        ),
        (
            reply(&json!(null), json!({})),
            quoted("somebody", false, "message"),
        ),
        (
            reply(
                &json!(null),
                json!({"sender_chat": {"id": -1, "title": "News"}, "text": "x"}),
            ),
            quoted("News", false, "x"),
        ),
        // Words that it only passed on are not its own.
        (
            reply(&bot, json!({"text": "x", "forward_origin": hidden})),
            quoted("Zoe", false, "x"),
        ),
        (
            with(
                reply(&eve, json!({"text": "a b c"})),
                &json!({"quote": {"text": "b", "position": 2, "is_manual": true}}),
            ),
            quoted("Eve", false, "b"),
        ),
        (
            json!({"external_reply": {"origin": hidden, "photo": [size("p", 9, 9)]}}),
            quoted("Zoe", false, "photo"),
        ),
        (
            json!({"external_reply": {"origin": {"type": "user", "sender_user": bot}}, "quote": {"text": over}}),
            quoted("Renamed", false, &cut),
        ),
        (
            json!({"external_reply": {}}),
            quoted("somebody", false, "message"),
        ),
        (
            json!({"reply_to_story": {"chat": {"id": 3, "first_name": "Eve"}, "id": 1}}),
            quoted("Eve", false, "story"),
        ),
        (json!({"reply_to_message": "broken"}), None),
        (json!({}), None),
    ] {
        assert_eq!(
            read(&private(&with(json!({"text": "and?"}), &extra))).quoted,
            expected,
            "{extra}"
        );
    }
}

#[test]
fn a_topic_is_a_place_and_its_beginning_no_question() {
    let root = json!({"message_id": 77, "date": 1, "from": {"id": BOT, "is_bot": true, "first_name": "Us"},
        "forum_topic_created": {"name": "Food", "icon_color": 1}});
    let moved = json!({"message_id": 77, "date": 1, "from": {"id": BOT, "is_bot": true, "first_name": "Us"}});
    let place = |extra: Value| {
        let incoming = read(&group(&with(json!({"text": "soup?"}), &extra)));
        (
            incoming.chat.topic,
            incoming.quoted.is_some(),
            incoming.addressed,
        )
    };
    let food = || Some("77".to_owned());
    let topic = json!({"is_topic_message": true, "message_thread_id": 77});
    assert_eq!(place(topic.clone()), (food(), false, false));
    assert_eq!(
        place(with(topic.clone(), &json!({"reply_to_message": root}))),
        (food(), false, false)
    );
    assert_eq!(
        place(with(topic.clone(), &json!({"reply_to_message": moved}))),
        (food(), false, false)
    );
    assert_eq!(
        place(with(
            topic,
            &json!({"reply_to_message": with(moved.clone(), &json!({"message_id": 78}))})
        )),
        (food(), true, true)
    );
    // A thread of replies is no topic, and the General topic has no id.
    assert_eq!(
        place(json!({"message_thread_id": 77, "reply_to_message": moved})),
        (None, true, true)
    );
    assert_eq!(
        place(json!({"message_thread_id": 1, "is_topic_message": true})),
        (None, false, false)
    );
    let mut own = private(&json!({"text": "x", "is_topic_message": true, "message_thread_id": 77}));
    assert_eq!(read(&own).chat.topic, food());
    own["message"]["is_topic_message"] = json!(false);
    assert_eq!(read(&own).chat.topic, None);
}
