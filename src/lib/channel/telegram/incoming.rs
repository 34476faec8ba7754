//! An update as [`Incoming`]. What has no words is at least named, by the field it comes in.

use serde_json::Value;
use teloxide::types::Message;

use super::commands;
use crate::channel::Incoming;
use crate::message::{ChatRef, Sender};

/// Fields of a message that do not say what kind it is.
const COMMON: &[&str] = &[
    "message_id",
    "message_thread_id",
    "from",
    "sender_chat",
    "sender_boost_count",
    "sender_business_bot",
    "business_connection_id",
    "date",
    "chat",
    "forward_origin",
    "forward_from",
    "forward_from_chat",
    "forward_date",
    "forward_sender_name",
    "forward_from_message_id",
    "forward_signature",
    "is_topic_message",
    "is_automatic_forward",
    "reply_to_message",
    "external_reply",
    "quote",
    "reply_to_story",
    "via_bot",
    "edit_date",
    "has_protected_content",
    "is_from_offline",
    "is_paid_post",
    "media_group_id",
    "author_signature",
    "text",
    "entities",
    "link_preview_options",
    "effect_id",
    "caption",
    "caption_entities",
    "show_caption_above_media",
    "has_media_spoiler",
    "reply_markup",
];

/// Returns the id of an update, `None` when it is none.
pub(super) fn update_id(raw: &Value) -> Option<i64> {
    raw.get("update_id").and_then(Value::as_i64)
}

/// Returns what an update brings; `None` for what is not a new message of a person.
pub(super) fn incoming(raw: &Value, bot: i64, username: Option<&str>) -> Option<Incoming> {
    let key = format!("tg:{bot}:{}", update_id(raw)?);
    let raw = raw.get("message")?;
    // teloxide's `Update` borrows its keys and so cannot be read from a `Value`; its `Message` can.
    match serde_json::from_value::<Message>(raw.clone()) {
        Ok(message) => Some(from_message(key, &message, raw, username)),
        Err(error) => {
            tracing::warn!(%error, key, "a message of a shape that teloxide does not know");
            from_unknown(key, raw)
        }
    }
}

/// Reads the little that is needed to answer at all.
fn from_unknown(key: String, raw: &Value) -> Option<Incoming> {
    let number = |value: &Value| value.as_i64().map(|number| number.to_string());
    let word = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let from = raw.get("from")?;
    let chat = raw.get("chat")?;
    let words = raw.get("text").or_else(|| raw.get("caption")).and_then(Value::as_str);
    Some(Incoming {
        key,
        sender: Some(Sender { id: number(from.get("id")?)?, name: word(from, "first_name"), username: None }),
        chat: ChatRef { chat: number(chat.get("id")?)?, topic: None },
        private: word(chat, "type") == "private",
        message_id: number(raw.get("message_id")?)?,
        text: words.unwrap_or_default().to_owned(),
        kind: kind(raw).map(str::to_owned),
        // Whose words they are cannot be told: they move no hands.
        command: None,
        forwarded: true,
    })
}

fn from_message(key: String, message: &Message, raw: &Value, username: Option<&str>) -> Incoming {
    // What another bot wrote for the sender is not the sender's own words either.
    let forwarded = message.forward_origin().is_some() || raw.get("forward_date").is_some() || message.via_bot.is_some();
    Incoming {
        key,
        sender: message.from.as_ref().filter(|user| !user.is_bot).map(|user| Sender {
            id: user.id.0.to_string(),
            name: user.full_name(),
            username: user.username.clone(),
        }),
        chat: ChatRef {
            chat: message.chat.id.0.to_string(),
            topic: message.thread_id.filter(|_| message.is_topic_message).map(|thread| thread.0.0.to_string()),
        },
        private: message.chat.is_private(),
        message_id: message.id.0.to_string(),
        text: message.text().or_else(|| message.caption()).unwrap_or_default().to_owned(),
        kind: kind(raw).map(str::to_owned),
        // Somebody else's words command nothing.
        command: message.text().filter(|_| !forwarded).and_then(|text| commands::parse(text, username)),
        forwarded,
    }
}

/// Returns what a message is beside words: the field with its content. A text message is nothing
/// else, whatever new fields come with it.
fn kind(raw: &Value) -> Option<&str> {
    let fields = raw.as_object().filter(|fields| !fields.contains_key("text"))?;
    let content = |(name, value): &(&String, &Value)| (value.is_object() || value.is_array()) && !COMMON.contains(&name.as_str());
    fields.iter().find(content).map(|(name, _)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Command;
    use serde_json::json;

    fn message(extra: &Value) -> Value {
        let mut message = json!({
            "message_id": 5, "date": 1_700_000_000, "chat": {"id": 1001, "type": "private", "first_name": "Ada"},
            "from": {"id": 1001, "is_bot": false, "first_name": "Ada", "last_name": "L"}
        });
        for (name, value) in extra.as_object().expect("object") {
            message[name.as_str()] = value.clone();
        }
        json!({"update_id": 7, "message": message})
    }

    fn shown(extra: &Value) -> (String, Option<String>) {
        let incoming = incoming(&message(extra), 42, None).expect("incoming");
        (incoming.text, incoming.kind)
    }

    #[test]
    fn a_text_message_keeps_who_where_and_what() {
        let incoming = incoming(&message(&json!({"text": "/status"})), 42, None).expect("incoming");
        assert_eq!(incoming.key, "tg:42:7");
        assert_eq!(incoming.sender, Some(Sender { id: "1001".into(), name: "Ada L".into(), username: None }));
        assert_eq!((incoming.chat.chat.as_str(), incoming.message_id.as_str()), ("1001", "5"));
        assert_eq!((incoming.command, incoming.private, incoming.forwarded), (Some(Command::Status), true, false));
    }

    #[test]
    fn what_has_no_words_is_named() {
        let named = |name: &str| (String::new(), Some(name.to_owned()));
        assert_eq!(shown(&json!({"location": {"latitude": 1.0, "longitude": 2.0}})), named("location"));
        assert_eq!(shown(&json!({"invention_of_2031": {"x": 1}})), named("invention_of_2031"));
        let photo = json!([{"file_id": "f", "file_unique_id": "u", "width": 9, "height": 9, "file_size": 10}]);
        assert_eq!(shown(&json!({"photo": photo, "caption": "look"})), ("look".into(), Some("photo".into())));
    }

    #[test]
    fn a_text_stays_a_text_whatever_comes_with_it() {
        assert_eq!(shown(&json!({"text": "hi", "novelty": {"x": 1}})), ("hi".into(), None));
        assert_eq!(shown(&json!({"flag": true, "venue": {"title": "x"}})).1.as_deref(), Some("venue"));
    }

    #[test]
    fn a_message_of_an_unknown_shape_is_still_heard_but_moves_no_hands() {
        let mut strange = message(&json!({"text": "hi"}));
        strange["message"]["chat"]["type"] = json!("private");
        strange["message"]["date"] = json!("tomorrow");
        let incoming = incoming(&strange, 42, None).expect("incoming");
        assert_eq!((incoming.text.as_str(), incoming.private, incoming.forwarded), ("hi", true, true));
    }

    #[test]
    fn a_forwarded_command_commands_nothing() {
        let origin = json!({"type": "hidden_user", "sender_user_name": "Eve", "date": 1_700_000_000});
        let forwarded = message(&json!({"text": "/new", "forward_origin": origin}));
        let incoming = incoming(&forwarded, 42, None).expect("incoming");
        assert_eq!((incoming.command, incoming.forwarded), (None, true));
    }

    #[test]
    fn what_is_no_message_of_a_person_is_nothing() {
        assert_eq!(incoming(&json!({"update_id": 9, "poll_of_the_future": {}}), 42, None), None);
        assert_eq!(incoming(&json!({"nonsense": true}), 42, None), None);
    }
}
