//! Words, reactions, what is shown for a while, and where a call ends up.

use std::time::{Duration, Instant};

use agent_toolkit::channel::{Channel as _, Outgoing, SendError};
use serde_json::{Value, json};

use super::{Line, chat, words};
use crate::support::{Fault, FaultKind};

#[tokio::test]
async fn a_reaction_is_put_on_the_message_that_is_answered() {
    let line = Line::new();
    let (_, asked) = line.fake.say(7, 7, "hello");
    let (to, id) = (chat("7", None), asked.to_string());
    let react = |emoji| {
        line.telegram.send(Outgoing {
            reply_to: Some(&id),
            reaction: Some(emoji),
            ..words(&to, "")
        })
    };
    assert_eq!(react("❤️").await.unwrap(), id);
    assert_eq!(line.fake.reaction(7, asked).as_deref(), Some("❤"));
    let reason =
        "Telegram has no reaction \"🦀\"; it has 👍 👎 ❤ 🔥 🎉 👏 😁 🤔 👀 🙏 👌 💯 and some more";
    assert_eq!(
        react("🦀").await,
        Err(SendError::Never {
            reason: reason.to_owned(),
            chat_is_there: true
        })
    );
    line.fake.fault(Fault {
        method: "setMessageReaction",
        kind: FaultKind::DropAfter,
        count: 1,
    });
    assert!(
        matches!(react("👍").await, Err(SendError::NotSent { .. })),
        "to put it there twice is no harm"
    );
    react("").await.unwrap();
    assert_eq!(line.fake.reaction(7, asked), None);
    let nowhere = line
        .telegram
        .send(Outgoing {
            reaction: Some("👍"),
            ..words(&to, "")
        })
        .await;
    assert!(matches!(
        nowhere,
        Err(SendError::Never {
            chat_is_there: true,
            ..
        })
    ));
    assert_eq!(
        line.fake.calls()[0].params,
        json!({"chat_id": 7, "message_id": asked, "reaction": [{"type": "emoji", "emoji": "❤"}]})
    );
}

#[tokio::test]
async fn what_is_shown_for_a_while_is_changed_and_removed() {
    let line = Line::new();
    let to = chat("7", Some("3"));
    let id = line.telegram.show(&to, "Thinking").await.unwrap();
    line.telegram.change(&to, &id, "Reading").await.unwrap();
    line.telegram.change(&to, &id, "Reading").await.unwrap();
    assert_eq!(line.fake.shown(7), ["Reading"]);
    line.telegram
        .change(&to, &id, &"x".repeat(5000))
        .await
        .unwrap();
    assert_eq!(line.fake.shown(7), [format!("{}…", "x".repeat(4095))]);
    line.telegram.remove(&to, &id).await.unwrap();
    line.telegram.remove(&to, &id).await.unwrap();
    assert!(line.fake.shown(7).is_empty());
    let gone = line.telegram.change(&to, &id, "more").await;
    assert!(
        matches!(
            gone,
            Err(SendError::Never {
                chat_is_there: true,
                ..
            })
        ),
        "{gone:?}"
    );
    let shown = &line.fake.calls()[0].params;
    assert_eq!(
        (&shown["disable_notification"], &shown["message_thread_id"]),
        (&json!(true), &json!(3))
    );
    assert_eq!(shown["link_preview_options"], json!({"is_disabled": true}));
}

#[tokio::test]
async fn a_preview_of_a_group_that_moved_is_left_and_no_other_message_is_changed_for_it() {
    let line = Line::new();
    for (chat_id, method) in [("-5", "editMessageText"), ("-6", "deleteMessage")] {
        let to = chat(chat_id, None);
        line.fake.fault(Fault {
            method,
            kind: FaultKind::MovedTo(-100_500),
            count: 1,
        });
        let id = line.telegram.show(&to, "Thinking").await.unwrap();
        for _ in 0..2 {
            let moved = match method {
                "deleteMessage" => line.telegram.remove(&to, &id).await,
                _ => line.telegram.change(&to, &id, "Reading").await,
            };
            assert!(
                matches!(
                    moved,
                    Err(SendError::Never {
                        chat_is_there: true,
                        ..
                    })
                ),
                "{moved:?}"
            );
        }
        assert_eq!(line.fake.calls_of(method).len(), 1);
    }
}

#[tokio::test]
async fn a_draft_is_shown_in_private_only() {
    let line = Line::new();
    line.telegram
        .draft(&chat("7", Some("3")), 5, "so far")
        .await
        .unwrap();
    line.telegram.draft(&chat("7", None), 0, " ").await.unwrap();
    let drafts: Vec<Value> = line
        .fake
        .calls_of("sendMessageDraft")
        .into_iter()
        .map(|call| call.params)
        .collect();
    assert_eq!(
        drafts,
        [
            json!({"chat_id": 7, "message_thread_id": 3, "draft_id": 5, "text": "so far"}),
            json!({"chat_id": 7, "draft_id": 1, "text": ""})
        ]
    );
    let group = line.telegram.draft(&chat("-7", None), 5, "so far").await;
    assert!(matches!(
        group,
        Err(SendError::Never {
            chat_is_there: true,
            ..
        })
    ));
    assert_eq!(line.methods().len(), 2);
}

#[tokio::test]
async fn a_group_that_moved_is_followed_and_the_old_message_is_not_answered_there() {
    let line = Line::new();
    let to = chat("-5", Some("4"));
    line.fake.fault(Fault {
        method: "sendMessage",
        kind: FaultKind::MovedTo(-100_500),
        count: 1,
    });
    for text in ["one", "two"] {
        line.telegram
            .send(Outgoing {
                reply_to: Some("1001"),
                ..words(&to, text)
            })
            .await
            .unwrap();
    }
    let sent: Vec<_> = line
        .fake
        .sent()
        .iter()
        .map(|sent| (sent.chat, sent.text.clone(), sent.reply_to))
        .collect();
    assert_eq!(
        sent,
        [
            (-100_500, "one".to_owned(), None),
            (-100_500, "two".to_owned(), None)
        ]
    );
    let asked: Vec<Value> = line
        .fake
        .calls()
        .into_iter()
        .map(|call| call.params["chat_id"].clone())
        .collect();
    assert_eq!(
        asked,
        [json!(-5), json!(-100_500), json!(-100_500)],
        "the second goes there at once"
    );
    // Sent in a circle, it ends.
    line.fake.fault(Fault {
        method: "sendMessage",
        kind: FaultKind::MovedTo(-6),
        count: 1,
    });
    line.fake.fault(Fault {
        method: "sendMessage",
        kind: FaultKind::MovedTo(-7),
        count: 1,
    });
    line.fake.fault(Fault {
        method: "sendMessage",
        kind: FaultKind::MovedTo(-6),
        count: 9,
    });
    let lost = line.telegram.send(words(&chat("-6", None), "x")).await;
    assert!(
        matches!(
            lost,
            Err(SendError::Never {
                chat_is_there: false,
                ..
            })
        ),
        "{lost:?}"
    );
    line.fake.heal();
}

#[tokio::test]
async fn what_was_for_a_topic_that_is_gone_goes_to_its_chat() {
    let line = Line::new();
    let gone = FaultKind::Says(400, "Bad Request: message thread not found");
    line.fake.fault(Fault {
        method: "sendMessage",
        kind: gone,
        count: 1,
    });
    line.telegram
        .send(words(&chat("-5", Some("4")), "still here"))
        .await
        .unwrap();
    let topics: Vec<Value> = line
        .fake
        .calls()
        .into_iter()
        .map(|call| call.params["message_thread_id"].clone())
        .collect();
    assert_eq!(topics, [json!(4), Value::Null]);
    assert_eq!(line.fake.shown(-5), ["still here"]);
}

#[tokio::test]
async fn who_was_too_fast_is_quiet_in_that_chat_until_the_time_is_over() {
    let line = Line::new();
    let (mine, other) = (chat("7", None), chat("8", None));
    line.fake.fault(Fault {
        method: "sendMessage",
        kind: FaultKind::Status(429),
        count: 1,
    });
    let begun = Instant::now();
    let refused = line.telegram.send(words(&mine, "one")).await;
    let wait = Some(Duration::from_secs(1));
    assert!(
        matches!(refused, Err(SendError::NotSent { retry_after, .. }) if retry_after == wait),
        "{refused:?}"
    );
    line.telegram.typing(&mine).await.unwrap();
    assert_eq!(
        line.methods(),
        ["sendMessage"],
        "a sign of life is left out"
    );
    line.telegram.send(words(&other, "two")).await.unwrap();
    assert!(
        begun.elapsed() < Duration::from_millis(900),
        "another chat does not wait"
    );
    line.telegram.send(words(&mine, "three")).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(1));
    line.telegram.typing(&mine).await.unwrap();
    assert_eq!(
        line.methods(),
        [
            "sendMessage",
            "sendMessage",
            "sendMessage",
            "sendChatAction"
        ]
    );
}

#[tokio::test]
async fn owners_have_a_menu_of_their_own_once_they_have_written() {
    let line = Line::new();
    line.fake.say(7, 7, "hello");
    line.telegram.introduce(&[7, 8]).await;
    let menus: Vec<_> = line
        .fake
        .calls_of("setMyCommands")
        .into_iter()
        .map(|call| (call.params["scope"].clone(), call.status))
        .collect();
    let of = |owner: i64| json!({"type": "chat", "chat_id": owner});
    assert_eq!(menus, [(Value::Null, 200), (of(7), 200), (of(8), 400)]);
}
