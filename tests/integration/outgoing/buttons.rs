//! Buttons below words, the answers to their presses, and messages that are closed.

use agent_toolkit::{
    channel::{Channel as _, Outgoing, SendError},
    message::Button,
};
use serde_json::json;

use super::{Line, chat, words};
use crate::support::{Fault, FaultKind};

fn button(label: &str, data: &str) -> Button {
    Button {
        label: label.to_owned(),
        data: data.to_owned(),
    }
}

#[tokio::test]
async fn words_go_out_with_their_buttons_and_without_those_that_are_refused() {
    let line = Line::new();
    let to = chat("7", None);
    let buttons = [
        vec![
            button("Approve", "a:y:k3f9w2"),
            button("Deny", "a:n:k3f9w2"),
        ],
        vec![button("too much", &"x".repeat(65))],
    ];
    let message = Outgoing {
        buttons: &buttons,
        resent: true,
        ..words(&to, "May I?")
    };
    let id = line.telegram.send(message).await.unwrap();
    let below = [
        ("Approve".to_owned(), "a:y:k3f9w2".to_owned()),
        ("Deny".to_owned(), "a:n:k3f9w2".to_owned()),
    ];
    assert_eq!(line.fake.buttons(7, id.parse().unwrap()), below);
    // A keyboard that nobody foresaw a reason against: the words are more than the buttons.
    line.fake.fault(Fault {
        method: "sendMessage",
        kind: FaultKind::Says(400, "Bad Request: BUTTON_DATA_INVALID"),
        count: 1,
    });
    let id = line
        .telegram
        .send(Outgoing {
            markup: Some("<b>May</b> I?"),
            ..message
        })
        .await
        .unwrap();
    assert_eq!(line.fake.buttons(7, id.parse().unwrap()), []);
    assert_eq!(
        line.fake.sent().pop().map(|sent| sent.html).as_deref(),
        Some("(resent)\n<b>May</b> I?")
    );
}

#[tokio::test]
async fn a_closed_message_has_no_buttons_and_no_word_in_it_becomes_a_link() {
    let line = Line::new();
    let to = chat("7", None);
    let buttons = [vec![button("Approve", "a:y:k3f9w2")]];
    let id = line
        .telegram
        .send(Outgoing {
            buttons: &buttons,
            ..words(&to, "May I?")
        })
        .await
        .unwrap();
    let text = "denied: curl <b>https://evil.example/?q=1&r</b> @everybody /approve 😀";
    for _ in 0..2 {
        line.telegram.close(&to, &id, text).await.unwrap();
    }
    assert_eq!(
        (
            line.fake.shown(7),
            line.fake.buttons(7, id.parse().unwrap())
        ),
        (vec![text.to_owned()], vec![])
    );
    let call = line.fake.calls_of("editMessageText").remove(0).params;
    let units = text.encode_utf16().count();
    let expected = json!({
        "chat_id": 7, "message_id": id.parse::<i64>().unwrap(), "text": text, "link_preview_options": {"is_disabled": true},
        "entities": [{"type": "code", "offset": 0, "length": units}],
    });
    assert_eq!(call, expected);
    let gone = line.telegram.close(&to, "999", "x").await;
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
    // In a group with a new id, that id is another message.
    line.fake.fault(Fault {
        method: "editMessageText",
        kind: FaultKind::MovedTo(-100_500),
        count: 1,
    });
    let moved = line.telegram.close(&chat("-5", None), &id, "x").await;
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
    assert_eq!(line.fake.calls_of("editMessageText").len(), 4);
}

#[tokio::test]
async fn a_press_is_answered_once_with_what_fits() {
    let line = Line::new();
    let id = line
        .telegram
        .send(words(&chat("7", None), "May I?"))
        .await
        .unwrap();
    let press = || line.fake.press(7, 7, id.parse().unwrap(), "x");
    let (one, two) = (press(), press());
    line.telegram.answer_press(&one, &"😀".repeat(150)).await;
    line.telegram.answer_press(&one, "again").await;
    line.telegram.answer_press(&two, "").await;
    line.telegram.answer_press("nobody's", "x").await;
    let soon = std::time::Duration::from_secs(1);
    assert_eq!(
        line.fake.wait_pressed(&one, soon),
        format!("{}…", "😀".repeat(99))
    );
    assert_eq!(line.fake.wait_pressed(&two, soon), "");
    assert_eq!(
        line.fake.calls_of("answerCallbackQuery")[2].params,
        json!({"callback_query_id": two})
    );
}
