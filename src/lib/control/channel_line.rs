//! The lines of a channel that is a separate process: messages from people, and delivery results.
//!
//! ```text
//! {"v":1,"id":"m-17","cmd":"user","channel":"matrix","chat":"!r:example.org","sender":{"id":"@ada:example.org","name":"Ada"},
//!  "message_id":"$e1","text":"how full is the disk?"}
//! {"v":1,"id":"d-9","cmd":"delivered","channel":"matrix","key":"1764093200123-42","message_id":"$e2"}
//! {"v":1,"id":"d-10","cmd":"delivered","channel":"matrix","key":"1764093200124-43","error":"slow down","retry_after":30}
//! ```

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::Attachment;
use crate::message::{MAX_ID, is_channel_name, is_id};
use crate::text;

/// The longest text of a message, characters: some ten times what Telegram's longest messages come to together.
const MAX_TEXT: usize = 200_000;
/// The longest name of a person or a group that is kept, characters; the rest is cut.
const MAX_NAME: usize = 200;
/// The longest error of a delivery that is kept, characters; the rest is cut.
const MAX_ERROR: usize = 500;
/// The longest pause that a channel may ask for: a chat is not to be silenced permanently by a wrong number.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Something that a person wrote, or a button that they pressed, on a channel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Heard {
    /// The channel, as `[channels.NAME]` calls it.
    pub channel: String,
    /// Where.
    #[serde(deserialize_with = "id")]
    pub chat: String,
    /// The thread or topic of the chat: a separate conversation.
    #[serde(
        deserialize_with = "optional_id",
        skip_serializing_if = "Option::is_none"
    )]
    pub thread: Option<String>,
    /// The name of the group; absent where only the sender and the agent read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Whether it speaks to the agent, in a group.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mentioned: bool,
    /// Who wrote.
    pub sender: Person,
    /// The channel's id of the message: the same channel, chat and id are the same message.
    #[serde(deserialize_with = "id")]
    pub message_id: String,
    /// The words.
    pub text: String,
    /// A replacement for the text of a message without text: `location 52.52, 13.40`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The message that it answers.
    #[serde(deserialize_with = "answered", skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<Answered>,
    /// Files that came along.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// Whether this is a new text of an earlier message.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
    /// Whether somebody else wrote the text, and the sender forwards it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forwarded: bool,
    /// Who, when that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarded_from: Option<String>,
    /// When it was written, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<String>,
    /// The `data` of a button that was pressed; `message_id` is then an id of the press.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub button: Option<String>,
}

/// A person on a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "an object with `id`")]
pub struct Person {
    /// Their id there, which never changes and nobody else can have.
    #[serde(deserialize_with = "id")]
    pub id: String,
    /// What they call themselves.
    pub name: String,
    /// Whether the sender is unverified: the id is valid for this message only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
}

/// A message that is answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answered {
    /// Its id.
    #[serde(deserialize_with = "id")]
    pub message_id: String,
    /// Its words, when the channel knows them; those of the agent's own messages are known here.
    pub text: String,
    /// Who sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<Person>,
    /// Whether somebody else wrote it, and its sender forwarded it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forwarded: bool,
    /// Who, when that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarded_from: Option<String>,
}

/// The result of a message that a channel had to send.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Receipt {
    /// The channel.
    pub channel: String,
    /// The message, by the name of its file.
    #[serde(deserialize_with = "id")]
    pub key: String,
    /// It arrived, under this id.
    #[serde(
        deserialize_with = "optional_id",
        skip_serializing_if = "Option::is_none"
    )]
    pub message_id: Option<String>,
    /// It did not, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Seconds after which it is to be tried again; without it, it never arrives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<f64>,
    /// Whether it may have arrived nevertheless: it is sent once more, marked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
}

/// How a channel's try to send ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It arrived, under this id.
    Arrived(String),
    /// It surely did not: again after this time.
    Again(String, Duration),
    /// Nobody can say.
    Unknown(String),
    /// It never will.
    Never(String),
}

impl Heard {
    /// Checks what types cannot say, and cuts names.
    ///
    /// # Errors
    /// A sentence that names the field.
    pub fn checked(mut self) -> Result<Self, String> {
        channel_fits(&self.channel)?;
        for (name, value) in [
            ("chat", Some(&self.chat)),
            ("thread", self.thread.as_ref()),
            ("message_id", Some(&self.message_id)),
            ("sender.id", Some(&self.sender.id)),
            (
                "reply_to",
                self.reply_to.as_ref().map(|one| &one.message_id),
            ),
        ] {
            id_fits(name, value)?;
        }
        if self.text.chars().count() > MAX_TEXT {
            return Err(format!(
                "the field `text` has more than {MAX_TEXT} characters"
            ));
        }
        if self.button.as_ref().is_some_and(|data| data.len() > 64) {
            return Err("the field `button` has more than 64 bytes".to_owned());
        }
        let short = |name: &mut String| *name = text::shorten(&text::visible(name), MAX_NAME);
        if self.sender.name.trim().is_empty() {
            self.sender.name.clone_from(&self.sender.id);
        }
        short(&mut self.sender.name);
        for name in [&mut self.group, &mut self.forwarded_from, &mut self.kind] {
            name.iter_mut().for_each(short);
            // A name of nothing is none.
            name.take_if(|name| name.trim().is_empty());
        }
        if let Some(quoted) = &mut self.reply_to {
            let names = quoted.sender.as_mut().map(|person| &mut person.name);
            names.into_iter().for_each(short);
            quoted.forwarded_from.iter_mut().for_each(short);
            quoted.forwarded_from.take_if(|name| name.trim().is_empty());
        }
        let is_empty = self.text.trim().is_empty() && self.attachments.is_empty();
        if is_empty && self.kind.is_none() && self.button.is_none() {
            return Err(
                "the message says nothing: one of `text`, `kind`, `attachments` or `button`"
                    .to_owned(),
            );
        }
        Ok(self)
    }
}

impl Receipt {
    /// Checks what types cannot say.
    ///
    /// # Errors
    /// A sentence that names the field.
    pub fn checked(self) -> Result<Self, String> {
        channel_fits(&self.channel)?;
        id_fits("key", Some(&self.key))?;
        id_fits(
            "message_id",
            self.message_id.as_ref().filter(|id| !id.is_empty()),
        )?;
        let seconds = self.retry_after.unwrap_or_default();
        if !seconds.is_finite() || seconds < 0.0 {
            return Err("the field `retry_after` is no number of seconds".to_owned());
        }
        match (&self.message_id, &self.error) {
            (Some(_), Some(_)) => {
                Err("it either arrived (`message_id`) or did not (`error`)".to_owned())
            }
            (None, None) => {
                Err("missing field `message_id` (it arrived) or `error` (it did not)".to_owned())
            }
            _ => Ok(self),
        }
    }

    /// Returns how the try ended.
    pub fn outcome(&self) -> Outcome {
        let why = text::shorten(
            &text::visible(self.error.as_deref().unwrap_or_default()),
            MAX_ERROR,
        );
        match (&self.message_id, self.retry_after) {
            (Some(id), _) => Outcome::Arrived(id.clone()),
            (None, _) if self.unknown => Outcome::Unknown(why),
            (None, Some(seconds)) => {
                let pause = Duration::try_from_secs_f64(seconds).unwrap_or(MAX_RETRY_AFTER);
                Outcome::Again(why, pause.min(MAX_RETRY_AFTER))
            }
            (None, None) => Outcome::Never(why),
        }
    }
}

/// Returns why a line is not read, with the field that is wrong in what a channel writes: every field may be absent there,
/// and without this one something else is wrong, or nothing.
pub(super) fn in_field(line: &Value, why: &serde_json::Error) -> String {
    let why = why.to_string();
    let is_heard = match line["cmd"].as_str() {
        Some("user") if line.get("channel").is_some() => true,
        Some("delivered") => false,
        _ => return why,
    };
    let is_other = |line: &Value| {
        let other = match is_heard {
            true => Heard::deserialize(line).err(),
            false => Receipt::deserialize(line).err(),
        };
        other.is_none_or(|other| other.to_string() != why)
    };
    match wrong_field(line, "", &is_other) {
        Some(at) => {
            let name = at.trim_start_matches('/').replace('/', ".");
            format!("the field `{name}`: {why}")
        }
        None => why,
    }
}

/// Returns the field below `at` without which a line `is_other`; both are JSON pointers.
fn wrong_field(line: &Value, at: &str, is_other: &dyn Fn(&Value) -> bool) -> Option<String> {
    line.pointer(at)?.as_object()?.keys().find_map(|name| {
        let mut without = line.clone();
        without.pointer_mut(at)?.as_object_mut()?.remove(name);
        let field = format!("{at}/{name}");
        is_other(&without).then(|| wrong_field(line, &field, is_other).unwrap_or(field))
    })
}

fn channel_fits(channel: &str) -> Result<(), String> {
    if is_channel_name(channel) {
        return Ok(());
    }
    let shown = text::shorten(&text::visible(channel), 40);
    Err(format!(
        "the field `channel`: {shown:?} is no name of a channel"
    ))
}

fn id_fits(name: &str, value: Option<&String>) -> Result<(), String> {
    match value {
        Some(value) if value.is_empty() => Err(format!("missing field `{name}`")),
        Some(value) if !is_id(value) => Err(format!(
            "the field `{name}` is no id: expected 1 to {MAX_ID} bytes without control characters"
        )),
        _ => Ok(()),
    }
}

/// An id, which many programs write as a number.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected an id: a text or a whole number")]
enum WrittenId {
    Text(String),
    Number(i64),
}

impl From<WrittenId> for String {
    fn from(id: WrittenId) -> Self {
        match id {
            WrittenId::Text(text) => text,
            WrittenId::Number(number) => number.to_string(),
        }
    }
}

fn id<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Option::<WrittenId>::deserialize(from).map(|id| id.map(String::from).unwrap_or_default())
}

fn optional_id<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Option::<WrittenId>::deserialize(from).map(|id| id.map(String::from))
}

/// The id of the message alone, or what is known of it.
fn answered<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Answered>, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "expected the id of a message, or an object with `message_id`, `text` and `sender`, which is an object"
    )]
    enum Written {
        Id(WrittenId),
        Whole(Answered),
    }
    Ok(match Option::<Written>::deserialize(from)? {
        None => None,
        Some(Written::Id(id)) => Some(Answered {
            message_id: id.into(),
            ..Answered::default()
        }),
        Some(Written::Whole(whole)) => Some(whole),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Command, decode};

    const SAID: &str = r#""cmd":"user","channel":"sms","chat":5,"sender":{"id":7},"message_id":1"#;

    fn read(line: &str) -> Result<Command, String> {
        decode(line.as_bytes())
            .map(|order| order.command)
            .map_err(|bad| bad.reason)
    }

    #[test]
    fn ids_may_be_numbers_and_a_reply_an_id_alone() {
        let Ok(Command::Heard(heard)) = read(&format!(
            r#"{{{SAID},"text":"hi","reply_to":3,"thread":null}}"#
        )) else {
            panic!("a message")
        };
        let person = Person {
            id: "7".into(),
            name: "7".into(),
            ..Person::default()
        };
        assert_eq!(
            (heard.chat.as_str(), heard.message_id.as_str(), heard.sender),
            ("5", "1", person)
        );
        assert_eq!(
            heard.reply_to.map(|one| one.message_id).as_deref(),
            Some("3")
        );
        assert_eq!(heard.thread, None);
    }

    #[test]
    fn what_is_wrong_with_a_line_names_the_field() {
        for (line, expected) in [
            (format!("{{{SAID}}}"), "says nothing"),
            (
                r#"{"cmd":"user","channel":"sms","text":"hi"}"#.to_owned(),
                "missing field `chat`",
            ),
            (
                r#"{"cmd":"user","channel":"sms","chat":"c","message_id":"1","text":"x"}"#
                    .to_owned(),
                "missing field `sender.id`",
            ),
            (
                r#"{"cmd":"user","channel":"Sms/..","chat":"c","message_id":"1","text":"x"}"#
                    .to_owned(),
                "no name of a channel",
            ),
            (
                r#"{"cmd":"user","channel":"telegram","chat":"c","message_id":"1","text":"x"}"#
                    .to_owned(),
                "no name of a channel",
            ),
            (
                format!(r#"{{{SAID},"text":"hi","edited":"yes"}}"#),
                "the field `edited`: invalid type: string \"yes\", expected a boolean",
            ),
            (
                format!(r#"{{{SAID},"text":"hi","reply_to":true}}"#),
                "the field `reply_to`: expected the id of a message, or an object",
            ),
            (
                format!(r#"{{{SAID},"text":"hi","reply_to":{{"message_id":"1","sender":"Bob"}}}}"#),
                "expected the id of a message, or an object with `message_id`, `text` and `sender`, which is an object",
            ),
            (
                format!(r#"{{{SAID},"text":"hi","thread":[1]}}"#),
                "the field `thread`: expected an id: a text or a whole number",
            ),
            (
                format!(r#"{{{SAID},"text":"hi","edited":1,"thread":[1]}}"#),
                "the field `",
            ),
            (
                r#"{"cmd":"user","channel":"sms","chat":5,"sender":{"id":{}},"text":"x"}"#
                    .to_owned(),
                "the field `sender.id`: expected an id",
            ),
            (
                r#"{"cmd":"user","channel":"sms","chat":5,"sender":"ada","text":"x"}"#.to_owned(),
                "the field `sender`: invalid type: string \"ada\", expected an object with `id`",
            ),
            (
                r#"{"cmd":"delivered","channel":"sms","key":{}}"#.to_owned(),
                "the field `key`: expected an id",
            ),
            (
                format!(r#"{{{SAID},"text":"{}"}}"#, "x".repeat(MAX_TEXT + 1)),
                "`text` has more than",
            ),
            (
                format!(
                    r#"{{{SAID},"text":"x","thread":"{}"}}"#,
                    "x".repeat(MAX_ID + 1)
                ),
                "`thread` is no id",
            ),
            (
                format!(r#"{{{SAID},"text":"x","thread":"a\nb"}}"#),
                "`thread` is no id",
            ),
            (
                r#"{"cmd":"delivered","channel":"sms","key":"1-1"}"#.to_owned(),
                "missing field `message_id`",
            ),
            (
                r#"{"cmd":"delivered","channel":"sms","key":"1-1","message_id":"2","error":"x"}"#
                    .to_owned(),
                "either arrived",
            ),
            (
                r#"{"cmd":"delivered","channel":"sms","key":"1-1","error":"x","retry_after":-1}"#
                    .to_owned(),
                "`retry_after`",
            ),
        ] {
            let reason = read(&line).expect_err("bad");
            assert!(reason.contains(expected), "{line}: {reason}");
        }
    }

    #[test]
    fn a_receipt_says_what_is_to_be_done() {
        let outcome = |fields: &str| {
            let line = format!(r#"{{"cmd":"delivered","channel":"sms","key":"1-1",{fields}}}"#);
            match read(&line) {
                Ok(Command::Delivered(receipt)) => receipt.outcome(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(outcome(r#""message_id":9"#), Outcome::Arrived("9".into()));
        assert_eq!(outcome(r#""error":"no""#), Outcome::Never("no".into()));
        assert_eq!(
            outcome(r#""error":"no","unknown":true"#),
            Outcome::Unknown("no".into())
        );
        let after = |secs| Outcome::Again("no".into(), Duration::from_secs(secs));
        assert_eq!(outcome(r#""error":"no","retry_after":0"#), after(0));
        // Nobody silences a chat for ever.
        assert_eq!(
            outcome(r#""error":"no","retry_after":1e300"#),
            after(24 * 3600)
        );
    }
}
