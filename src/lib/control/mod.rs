//! The protocol between the processes: commands in, answers out.
//!
//! A command is one JSON object. `agent-send` writes it to `spool/tmp/<id>.json`, fsyncs, renames
//! it into `spool/new/` and wakes the daemon through the FIFO; the daemon commits it to `queue.db` and unlinks it.
//! A script may also write a whole command (at most 4096 bytes with the newline) to the FIFO.
//!
//! ```text
//! shell   → control.fifo   {"v":1,"cmd":"user","id":"disk-1","text":"how full is the disk?","sender":"cron"}
//! daemon  → replies/disk-1.json   {"v":1,"id":"disk-1","status":"accepted"}
//!                                 {"v":1,"id":"disk-1","status":"running","session_id":"…","run_id":"…"}
//!                                 {"v":1,"id":"disk-1","status":"done","reply":"…","tokens":812,"cost_usd":0.0031, …}
//! ```
//!
//! | `cmd` | fields in addition to `id` | result |
//! |---|---|---|
//! | `user` | `text`, `sender?`, `session?`, `context?`, `tier?`, `model?`, `untrusted?`, `stream?`, `attachments?` | a turn; its reply goes to the caller |
//! | `user` with `channel` | `chat`, `thread?`, `group?`, `mentioned?`, `sender`, `message_id`, `text`, `reply_to?`, `attachments?`, `edited?`, `button?` … | a turn; its reply goes to that channel |
//! | `delivered` | `channel`, `key`, `message_id` or `error`, `retry_after?`, `unknown?` | the record of what that channel sent |
//! | `system` | `text`, `source?`, `tier?`, `model?`, `untrusted?` | a turn on an event; nobody else learns of it |
//! | `notify` | `text`, `source`, `ref?`, `data?`, `tier?`, `model?`, `untrusted?`, `attachments?` | a turn on an event; its reply goes to the owner |
//! | `raw` | `to`, `text` | the text is sent to a chat, without a model |
//! | `reset` | `target` | the session is archived |
//! | `stop` | `session?` | runs are stopped |
//! | `approval` | `request?`, `verdict`, `why?` | a request is approved or denied; without `request`, `id` is that of the request |
//! | `job` | `op` = `add` (and the fields of `jobs::Ask`), `remove`, `run`, `pause`, `resume`; `job` | a job is added, changed, removed |
//! | `heartbeat` | | the agent wakes, if there is a reason to |
//! | `reload`, `spool` | | the configuration, or the spool, is read |

pub mod attachments;
mod channel_line;
mod command;
mod digest;
pub mod replies;
pub mod spool;

pub use channel_line::{Answered, Heard, Outcome, Person, Receipt};
pub use command::{Attachment, Command, Words};
pub use digest::digest;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::text;

/// The largest command: a spool file above it is refused (the model's window is smaller anyway).
pub const MAX_COMMAND: u64 = 8 << 20;

/// An id of a command: `[A-Za-z0-9_-]{1,64}`, so that it is a safe file name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Id(String);

impl TryFrom<String> for Id {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("the id must match [A-Za-z0-9_-]{1,64}")
    }
}

impl Id {
    /// Returns the id, or `None` when `text` is not of the form.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=64).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        fits.then(|| Self(text.to_owned()))
    }

    /// Returns a new id that sorts by time (UUIDv7).
    pub fn new() -> Self {
        Self(uuid::Uuid::now_v7().to_string())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name of what is made under this id and has none: of a UUID, which is too long to type, its
    /// last eight digits (32 random bits); else the id.
    pub fn short(&self) -> String {
        match uuid::Uuid::parse_str(&self.0) {
            Ok(uuid) => uuid.simple().to_string().chars().skip(24).collect(),
            Err(_) => self.0.clone(),
        }
    }
}

impl Default for Id {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A decoded line.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// The id it is remembered and answered by; a new one when the line had none.
    pub id: Id,
    /// Whether the line named the id: only then is an answer file written.
    pub answer: bool,
    /// What to do.
    pub command: Command,
}

impl Order {
    /// Returns a command that is answered.
    pub fn new(id: Id, command: Command) -> Self {
        Self {
            id,
            answer: true,
            command,
        }
    }
}

/// A line that is not a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Bad {
    /// The id, when the line had a valid one: the answer goes there.
    pub id: Option<Id>,
    /// What is wrong with it.
    pub reason: String,
}

/// Decodes one line of the FIFO or one spool file. Unknown fields are ignored, null ones count as
/// absent.
///
/// # Errors
/// When it is no JSON object, its version or command is unknown, a field is missing or wrong, or it brings no words and no
/// files where it should.
pub fn decode(line: &[u8]) -> Result<Order, Bad> {
    let bad = |reason: String| Bad { id: None, reason };
    let value: Value = text::json::parse(line).map_err(|error| bad(format!("no JSON: {error}")))?;
    let Value::Object(mut fields) = value else {
        return Err(bad("no JSON object".to_owned()));
    };
    fields.retain(|_, value| !value.is_null());
    let id = match fields.get("id") {
        None => None,
        Some(id) => {
            let id = id.as_str().and_then(Id::parse);
            Some(id.ok_or_else(|| bad("the id must match [A-Za-z0-9_-]{1,64}".to_owned()))?)
        }
    };
    let wrong = |reason: String| Bad {
        id: id.clone(),
        reason,
    };
    match fields.get("v") {
        None => {}
        Some(v) if v.as_i64() == Some(1) => {}
        Some(v) => return Err(wrong(format!("version {v} is not known, 1 is"))),
    }
    name_after_line(&mut fields, id.as_ref());
    let of_channel = is_of_channel(&fields);
    let line = Value::Object(fields);
    let command = match of_channel {
        true => Heard::deserialize(&line).map(|heard| Command::Heard(Box::new(heard))),
        false => Command::deserialize(&line),
    };
    let in_field = |why: serde_json::Error| wrong(channel_line::in_field(&line, &why));
    let command = match command.map_err(in_field)? {
        Command::Heard(heard) => Command::Heard(Box::new(heard.checked().map_err(wrong)?)),
        Command::Delivered(receipt) => Command::Delivered(receipt.checked().map_err(wrong)?),
        command if command.says_nothing() => return Err(wrong("the text is empty".to_owned())),
        command => command,
    };
    Ok(Order {
        answer: id.is_some(),
        id: id.unwrap_or_default(),
        command,
    })
}

/// What `user` with `channel` is called in here: its fields are others.
const OF_CHANNEL: &str = "user_of_channel";

fn is_of_channel(fields: &Map<String, Value>) -> bool {
    fields.get("cmd").and_then(Value::as_str) == Some("user") && fields.contains_key("channel")
}

/// Completes what a line may leave to its own id: the approval request it decides, or the name of
/// the job it adds (the short form of a UUID, which nobody wants to type).
fn name_after_line(fields: &mut Map<String, Value>, id: Option<&Id>) {
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let (field, value) = match (text("cmd"), text("op"), id) {
        (Some("approval"), _, Some(id)) => ("request", id.as_str().to_owned()),
        (Some("job"), Some("add"), Some(id)) => ("job", id.short()),
        (Some("job"), Some("add"), None) => ("job", Id::new().short()),
        _ => return,
    };
    fields.entry(field).or_insert(value.into());
}

/// Encodes a command as the one line that [`decode`] reads.
pub fn encode(id: &Id, command: &Command) -> String {
    let mut line = Map::new();
    line.insert("v".to_owned(), Value::from(1));
    if let Ok(Value::Object(fields)) = serde_json::to_value(command) {
        line.extend(fields.into_iter().filter(|(_, value)| !value.is_null()));
    }
    if line.get("cmd").and_then(Value::as_str) == Some(OF_CHANNEL) {
        line.insert("cmd".to_owned(), "user".into());
    }
    line.insert("id".to_owned(), id.as_str().into());
    Value::Object(line).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Approval, JobOrder, PeopleOrder};
    use proptest::prelude::*;

    fn reason(line: &str) -> String {
        decode(line.as_bytes()).expect_err("bad").reason
    }

    #[test]
    fn a_bad_line_says_what_is_wrong() {
        assert!(reason("hello").starts_with("no JSON"));
        assert_eq!(reason("[1]"), "no JSON object");
        for (line, expected) in [
            (r#"{"cmd":"user"}"#, "missing field `text`"),
            (r#"{"text":"hi"}"#, "missing field `cmd`"),
            (r#"{"cmd":"user","text":1}"#, "expected a string"),
            (
                r#"{"cmd":"user","text":"hi","untrusted":"yes"}"#,
                "expected a boolean",
            ),
            (r#"{"cmd":"dance"}"#, "unknown variant `dance`"),
            (
                r#"{"cmd":"job","op":"dance","job":"x"}"#,
                "unknown variant `dance`",
            ),
            (r#"{"cmd":"job","op":"run"}"#, "missing field `job`"),
            (
                r#"{"cmd":"job","op":"add","job":"../x"}"#,
                "the field `job` must match [A-Za-z0-9_-]{1,64}",
            ),
            (r#"{"cmd":"spool"}"#, "missing field `id`"),
        ] {
            assert!(reason(line).contains(expected), "{line}: {}", reason(line));
        }
        // It would be accepted, and could not be read back from the queue: no start would succeed any more.
        let (open, close) = ("[".repeat(120), "]".repeat(120));
        let deep = format!(r#"{{"cmd":"notify","text":"x","source":"s","data":{open}{close}}}"#);
        assert!(reason(&deep).contains("nested more than 32 deep"));
        assert_eq!(
            reason(r#"{"v":2,"cmd":"reload"}"#),
            "version 2 is not known, 1 is"
        );
        assert_eq!(
            reason(r#"{"id":"../x","cmd":"reload"}"#),
            "the id must match [A-Za-z0-9_-]{1,64}"
        );
    }

    #[test]
    fn the_id_of_a_line_that_approves_is_the_requests_unless_it_names_one() {
        let command = |line: &str| {
            decode(line.as_bytes())
                .map(|order| order.command)
                .map_err(|bad| bad.reason)
        };
        let approval = |request: &str, verdict, why: Option<&str>| {
            Ok(Command::Approval {
                request: request.into(),
                verdict,
                why: why.map(str::to_owned),
            })
        };
        assert_eq!(
            command(r#"{"cmd":"approval","id":"k3f9w2","verdict":"approve"}"#),
            approval("k3f9w2", Approval::Approve, None)
        );
        assert_eq!(
            command(
                r#"{"cmd":"approval","id":"x-1","request":"k3f9w2","verdict":"deny","why":"no"}"#
            ),
            approval("k3f9w2", Approval::Deny, Some("no"))
        );
        for (line, expected) in [
            (
                r#"{"cmd":"approval","verdict":"approve"}"#,
                "missing field `request`",
            ),
            (
                r#"{"cmd":"approval","id":"k3f9w2"}"#,
                "missing field `verdict`",
            ),
        ] {
            assert!(reason(line).contains(expected), "{line}: {}", reason(line));
        }
        for verdict in ["yes", "Approve", "approve ", "", "true"] {
            let line = serde_json::json!({"cmd": "approval", "id": "k3f9w2", "verdict": verdict});
            assert!(reason(&line.to_string()).starts_with("unknown variant"));
        }
    }

    #[test]
    fn a_job_is_called_as_its_line_says_or_after_the_line() {
        let job = |line: &str| match decode(line.as_bytes()).expect("an order").command {
            Command::Job(order) => order.job().to_owned(),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            job(r#"{"cmd":"job","op":"add","id":"disk","every":"1h","text":"look"}"#),
            "disk"
        );
        assert_eq!(
            job(r#"{"cmd":"job","op":"add","id":"x-1","job":"disk","every":"1h","text":"look"}"#),
            "disk"
        );
        let uuid = r#"{"cmd":"job","op":"add","id":"019aa9f2-6d4e-7c1b-9d0e-3f1a2b3c4d5e","every":"1h","text":"look"}"#;
        assert_eq!(job(uuid), "2b3c4d5e");
        assert_eq!(
            job(r#"{"cmd":"job","op":"add","every":"1h","text":"look"}"#).len(),
            8
        );
    }

    #[test]
    fn a_bad_line_with_an_id_can_be_answered() {
        let bad = decode(br#"{"id":"a1","cmd":"user"}"#).expect_err("bad");
        assert_eq!(bad.id.as_ref().map(Id::as_str), Some("a1"));
    }

    #[test]
    fn words_that_say_nothing_are_no_command_unless_something_comes_along() {
        for line in [
            r#"{"cmd":"user","text":""}"#,
            r#"{"cmd":"user","text":" \n\t"}"#,
            r#"{"cmd":"system","text":""}"#,
            r#"{"cmd":"notify","source":"s","text":" "}"#,
            r#"{"cmd":"raw","to":"owner","text":""}"#,
        ] {
            assert_eq!(reason(line), "the text is empty", "{line}");
        }
        for line in [
            r#"{"cmd":"user","text":"","attachments":[{"path":"a"}]}"#,
            r#"{"cmd":"raw","to":"owner","text":"","emoji":"x","reply_to":"1"}"#,
            r#"{"cmd":"raw","to":"owner","text":"","sticker":"a :: b"}"#,
        ] {
            assert!(decode(line.as_bytes()).is_ok(), "{line}");
        }
    }

    #[test]
    fn a_shell_script_needs_only_cmd_and_text_and_unknown_fields_are_ignored() {
        let order = decode(br#"{"cmd":"user","text":"hi","later":true}"#).expect("order");
        assert!(!order.answer);
        let words = Words {
            text: "hi".into(),
            ..Words::default()
        };
        let plain = Command::User {
            words,
            sender: "cli".into(),
            session: None,
            stream: false,
            attachments: Vec::new(),
        };
        assert_eq!(order.command, plain);
    }

    fn words() -> impl Strategy<Value = Words> {
        let name = || proptest::option::of("\\PC*");
        let flags = (any::<bool>(), any::<bool>());
        ("\\PC*", name(), name(), name(), flags).prop_map(
            |(text, context, tier, model, (untrusted, trusted))| Words {
                text,
                context,
                tier,
                model,
                untrusted,
                trusted,
            },
        )
    }

    fn commands() -> impl Strategy<Value = Command> {
        let name = || proptest::option::of("\\PC*");
        let files =
            ("\\PC*", name(), name()).prop_map(|(path, content_type, filename)| Attachment {
                path,
                content_type,
                filename,
                sha256: None,
            });
        let files = proptest::collection::vec(files, 0..3);
        let raw = (
            "\\PC*",
            "\\PC*",
            files.clone(),
            name(),
            name(),
            name(),
            any::<bool>(),
            name(),
        )
            .prop_map(
                |(to, text, attachments, topic, reply_to, emoji, untrusted, sticker)| {
                    Command::Raw {
                        to,
                        text,
                        attachments,
                        topic,
                        reply_to,
                        emoji,
                        untrusted,
                        sticker,
                    }
                },
            );
        let user = (words(), "\\PC*", name(), any::<bool>(), files.clone()).prop_map(
            |(words, sender, session, stream, attachments)| Command::User {
                words,
                sender,
                session,
                stream,
                attachments,
            },
        );
        let data = prop_oneof![
            Just(None),
            "\\PC*".prop_map(|text| Some(serde_json::json!({"a": [text, false, null]})))
        ];
        let notify = (words(), "\\PC*", name(), data, files).prop_map(
            |(words, source, reference, data, attachments)| Command::Notify {
                words,
                source,
                reference,
                data,
                attachments,
            },
        );
        let system =
            (words(), name()).prop_map(|(words, source)| Command::System { words, source });
        let stop = name().prop_map(|session| Command::Stop { session });
        let reset = "\\PC*".prop_map(|target| Command::Reset { target });
        let compact = name().prop_map(|session| Command::Compact { session });
        let verdict =
            proptest::sample::select(vec![Approval::Approve, Approval::Session, Approval::Deny]);
        let approval =
            ("\\PC*", verdict, name()).prop_map(|(request, verdict, why)| Command::Approval {
                request,
                verdict,
                why,
            });
        let ask = ("\\PC*", name(), any::<bool>()).prop_map(|(text, every, deliver)| {
            let mut ask = serde_json::json!({"text": text, "deliver": deliver});
            if let Some(every) = every {
                ask["every"] = every.into();
            }
            ask
        });
        let job = ("[A-Za-z0-9_-]{1,64}", proptest::option::of(ask)).prop_map(|(job, ask)| {
            Command::Job(ask.map_or_else(
                || JobOrder::Pause { job: job.clone() },
                |ask| JobOrder::Add {
                    job: job.clone(),
                    ask,
                },
            ))
        });
        let heard = ("[^\\p{C}]{1,20}", "\\PC+", name(), any::<bool>()).prop_filter_map(
            "a message",
            |(id, text, group, edited)| {
                let heard = Heard {
                    channel: "sms".to_owned(),
                    chat: id.clone(),
                    group,
                    sender: Person {
                        id: id.clone(),
                        unverified: edited,
                        ..Person::default()
                    },
                    message_id: id.clone(),
                    text,
                    reply_to: Some(Answered {
                        message_id: id,
                        ..Answered::default()
                    }),
                    edited,
                    ..Heard::default()
                };
                heard
                    .checked()
                    .ok()
                    .map(|heard| Command::Heard(Box::new(heard)))
            },
        );
        let delivered = ("[^\\p{C}]{1,20}", "\\PC*").prop_map(|(key, error)| {
            Command::Delivered(Receipt {
                channel: "sms".to_owned(),
                key,
                error: Some(error),
                retry_after: Some(1.5),
                ..Receipt::default()
            })
        });
        prop_oneof![
            user,
            heard,
            delivered,
            notify,
            system,
            raw,
            stop,
            reset,
            compact,
            approval,
            job,
            Just(Command::Pair(PeopleOrder::Owner)),
            name().prop_map(|person| {
                let person = person.unwrap_or_default();
                Command::Pair(PeopleOrder::Block { person })
            }),
            Just(Command::Heartbeat)
        ]
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(command in commands()) {
            let id = Id::new();
            let order = decode(encode(&id, &command).as_bytes());
            if command.says_nothing() {
                let refused = Bad { id: Some(id), reason: "the text is empty".to_owned() };
                prop_assert_eq!(order, Err(refused));
                return Ok(());
            }
            let order = order.expect("order");
            prop_assert_eq!(order, Order { id, answer: true, command });
        }
    }
}
