//! The reading of every kind of update, in the form that core.telegram.org/bots/api documents.

mod addressed;
mod hostile;
mod pressed;

use serde::de::DeserializeOwned;
use serde_json::json;

use super::*;
use crate::message::{Command, FileIdentity, Media, MediaKind};

const BOT: i64 = 42;

fn us() -> Identity {
    Identity {
        id: BOT,
        username: Some("our_bot".to_owned()),
        aliases: vec!["Robo".to_owned(), "小助".to_owned()],
    }
}

fn us_as_user() -> Value {
    json!({"id": BOT, "is_bot": true, "first_name": "Us"})
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

fn edited(extra: &Value) -> Value {
    let mut update = private(extra);
    update["edited_message"] = update["message"].take();
    update
}

fn read(update: &Value) -> Incoming {
    incoming(update, &us()).unwrap_or_else(|| panic!("nothing came of {update}"))
}

/// Returns what becomes of a private message without content.
fn plain() -> Incoming {
    Incoming {
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
        addressed: true,
        message_id: "5".into(),
        sent_at: Some(1_700_000_000_000),
        ..Incoming::default()
    }
}

fn size(id: &str, width: u32, height: u32) -> Value {
    json!({"file_id": id, "file_unique_id": "u", "width": width, "height": height, "file_size": 1000 + width})
}

/// Each line of `cases.jsonl` has the fields of a private message, and what differs then from [`plain`],
/// null when nothing comes of it.
#[test]
fn every_case_becomes_what_it_names() {
    fn field<T: DeserializeOwned + Default>(want: &Value, name: &str) -> T {
        serde_json::from_value(want[name].clone()).unwrap_or_default()
    }
    let mut count = 0;
    for line in include_str!("cases.jsonl").lines() {
        let case: Value = serde_json::from_str(line).expect("a case");
        let want = &case["want"];
        let expected = want.is_object().then(|| Incoming {
            text: field(want, "text"),
            kind: field(want, "kind"),
            media: field(want, "media"),
            quoted: field(want, "quoted"),
            forwarded: field(want, "forwarded"),
            forwarded_from: field(want, "forwarded_from"),
            ..plain()
        });
        let update = private(&case["message"]);
        assert_eq!(incoming(&update, &us()), expected, "{line}");
        count += 1;
    }
    assert_eq!(count, 79);
}

#[test]
fn a_text_may_be_a_command_and_an_edit_without_text_is_no_message() {
    let status = Incoming {
        text: "/status".into(),
        command: Some(Command::Status),
        ..plain()
    };
    assert_eq!(read(&private(&json!({"text": "/status"}))), status);
    let edit = edited(&json!({"text": "/status", "edit_date": 1_700_000_009}));
    let expected = Incoming {
        edited: true,
        ..status
    };
    assert_eq!(read(&edit), expected);
    let place = json!({"latitude": 1.0, "longitude": 2.0, "live_period": 60});
    for (extra, heard) in [
        (json!({"location": place}), false),
        (json!({"photo": [size("a", 9, 9)]}), false),
        (json!({"photo": [size("a", 9, 9)], "caption": "x"}), true),
    ] {
        let read = incoming(&edited(&extra), &us());
        assert_eq!(read.is_some(), heard, "{extra}");
    }
}

#[test]
fn a_caption_is_the_text_of_its_item_of_an_album_and_no_command() {
    for (extra, text) in [
        (json!({"caption": "/new", "media_group_id": "139"}), "/new"),
        (json!({"media_group_id": 139}), ""),
    ] {
        let read = read(&private(&with(extra, &json!({"photo": [size("a", 9, 9)]}))));
        assert_eq!(
            (read.text.as_str(), read.kind, read.command),
            (text, None, None)
        );
        assert_eq!(read.album.as_deref(), Some("139"));
    }
}

#[test]
fn what_strangers_wrote_is_cut() {
    let long = "x".repeat(5000);
    let title = read(&private(&json!({"game": {"title": long}}))).kind;
    assert_eq!(title, Some(format!("game \"{}…\"", "x".repeat(120))));
    let poll = json!({"poll": {"question": long, "options": vec![json!({"text": long}); 99]}});
    let poll = read(&private(&poll)).kind.expect("a poll");
    assert_eq!(poll.chars().count(), 601);
}

#[test]
fn a_text_stays_a_text_whatever_comes_with_it() {
    let odd = json!({"text": "hi", "novelty": {"x": 1}, "new_chat_title": "odd"});
    assert_eq!(read(&private(&odd)).kind, None);
    let odd = read(&private(&json!({"caption": "hi", "hologram": {"x": 1}})));
    assert_eq!(
        (odd.text.as_str(), odd.kind.as_deref()),
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
    let text = "Plan\nfor @our_bot\n1. eat\na | b\nc | d\nT\nus (Bob)\nRobo";
    assert_eq!((incoming.text.as_str(), incoming.addressed), (text, true));
    let photo = Media {
        kind: MediaKind::Photo,
        handle: "p".into(),
        filename: None,
        content_type: None,
        bytes: Some(1009),
        seconds: None,
        identity: Some(FileIdentity {
            unique_id: "u".into(),
            thumbnail: None,
            sticker: None,
        }),
    };
    assert_eq!((incoming.media, incoming.kind), (vec![photo], None));
    let code = json!([{"type": "pre", "text": "Robo"}, {"type": "paragraph", "text": "hi"}]);
    assert!(!read(&group(&json!({"rich_message": {"blocks": code}}))).addressed);
}

#[test]
fn other_updates_bring_nothing() {
    let poll = json!({"update_id": 9, "poll_of_the_future": {}});
    for update in [poll, json!({"nonsense": true}), json!([1]), json!(null)] {
        assert_eq!(incoming(&update, &us()), None, "{update}");
    }
}

#[test]
fn a_post_is_the_channels_own_word() {
    let channel = json!({"id": -100_700, "type": "channel", "title": "News"});
    let post = json!({"update_id": 7, "channel_post": {
        "message_id": 5, "date": 1, "chat": channel, "sender_chat": channel, "text": "Rain today."}});
    let read = incoming(&post, &us()).expect("a post");
    let sender = read.sender.expect("the channel");
    assert_eq!(
        (sender.id.as_str(), sender.name.as_str()),
        ("-100700", "News")
    );
    assert_eq!((read.text.as_str(), read.addressed), ("Rain today.", false));
    assert!(is_of_group(&post));
}

#[test]
fn only_people_are_senders() {
    for (extra, expected) in [
        (json!({}), Some(("1001", "Ada L"))),
        (
            json!({"sender_chat": {"id": -100_500, "type": "supergroup"}}),
            None,
        ),
        (
            json!({"sender_chat": {"id": -5, "type": "channel", "title": "News"}}),
            None,
        ),
        (
            json!({"from": {"id": 5, "is_bot": true, "first_name": "Other"}}),
            None,
        ),
        (
            json!({"from": {"id": 5, "is_bot": "true", "first_name": "Other"}}),
            None,
        ),
        (json!({"from": null}), None),
        (json!({"from": {"id": "5"}}), Some(("5", "5"))),
        (
            json!({"from": {"id": 5, "username": "eve"}}),
            Some(("5", "@eve")),
        ),
    ] {
        let read = read(&group(&with(json!({"text": "hi"}), &extra)));
        let sender = read.sender.map(|sender| (sender.id, sender.name));
        let expected = expected.map(|(id, name)| (id.to_owned(), name.to_owned()));
        assert_eq!(sender, expected, "{extra}");
    }
}

#[test]
fn a_topic_is_a_place_and_its_beginning_no_question() {
    let message = |id: i64| json!({"message_id": id, "date": 1, "from": us_as_user()});
    let root = with(
        message(77),
        &json!({"forum_topic_created": {"name": "Food"}}),
    );
    let topic = json!({"is_topic_message": true, "message_thread_id": 77});
    let reply = |to: Value| with(topic.clone(), &json!({"reply_to_message": to}));
    for (extra, expected) in [
        (topic.clone(), (Some("77"), false)),
        (reply(root), (Some("77"), false)),
        (reply(message(77)), (Some("77"), false)),
        (reply(message(78)), (Some("77"), true)),
        // A thread of replies is not a topic, and the General topic has no id.
        (
            json!({"message_thread_id": 77, "reply_to_message": message(77)}),
            (None, true),
        ),
        (
            json!({"message_thread_id": 1, "is_topic_message": true}),
            (None, false),
        ),
    ] {
        let read = read(&group(&with(json!({"text": "soup?"}), &extra)));
        let (topic, answers) = expected;
        assert_eq!(read.chat.topic.as_deref(), topic, "{extra}");
        assert_eq!(
            (read.quoted.is_some(), read.addressed),
            (answers, answers),
            "{extra}"
        );
    }
    let own = private(&with(json!({"text": "x"}), &topic));
    assert_eq!(read(&own).chat.topic.as_deref(), Some("77"));
}

#[test]
fn of_what_a_message_answers_300_characters_are_kept() {
    let kept = |original: &str| {
        let answered = json!({"message_id": 4, "date": 1, "from": us_as_user(), "text": original});
        let update = private(&json!({"text": "and?", "reply_to_message": answered}));
        read(&update).quoted.expect("a quote").text
    };
    let (whole, longer) = ("ä".repeat(300), "ä".repeat(301));
    assert_eq!(kept(&whole), whole);
    assert_eq!(kept(&longer), format!("{whole}…"));
}

#[test]
fn the_address_behind_a_linked_word_is_part_of_the_text() {
    let link = |offset, length, url| json!({"type": "text_link", "offset": offset, "length": length, "url": url});
    let text = |text: &str, entities: &[Value]| {
        read(&private(&json!({"text": text, "entities": entities}))).text
    };
    // Offsets are UTF-16 units.
    let found = text(
        "😀 read this, sum it up",
        &[link(8, 4, "https://example.org/a")],
    );
    assert_eq!(found, "😀 read this (https://example.org/a), sum it up");
    // Nothing is said twice, and what is no link of this text is left out.
    let shown = text("example.org/a", &[link(0, 13, "https://example.org/a/")]);
    assert_eq!(shown, "example.org/a");
    assert_eq!(text("short", &[link(3, 9, "https://example.org")]), "short");
    let both = text(
        "a b",
        &[
            link(2, 1, "https://b.example"),
            link(0, 1, "https://a.example"),
        ],
    );
    assert_eq!(both, "a (https://a.example) b (https://b.example)");
    let caption =
        json!({"caption": "see here", "caption_entities": [link(4, 4, "https://example.org")]});
    assert_eq!(
        read(&private(&caption)).text,
        "see here (https://example.org)"
    );
    // What it says in words commands nothing else.
    let command = json!({"text": "/new", "entities": [link(0, 4, "https://example.org")]});
    assert_eq!(read(&private(&command)).command, Some(Command::NEW));
}
