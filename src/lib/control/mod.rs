//! How the processes talk: commands in, answers out. This is the whole protocol.
//!
//! A command is one JSON object. `agent-send` writes it to `spool/tmp/<id>.json`, fsyncs, renames
//! it into `spool/new/` and rings the FIFO; the daemon commits it to `queue.db` and unlinks it.
//! A script may also write a whole command (at most 4096 bytes with the newline) to the FIFO.
//!
//! ```text
//! shell   → control.fifo   {"v":1,"cmd":"user","id":"disk-1","text":"how full is the disk?","sender":"cron"}
//! daemon  → replies/disk-1.json   {"v":1,"id":"disk-1","status":"accepted"}
//!                                 {"v":1,"id":"disk-1","status":"running","session_id":"…","run_id":"…"}
//!                                 {"v":1,"id":"disk-1","status":"done","reply":"…","tokens":812,"cost_usd":0.0031, …}
//! ```
//!
//! | `cmd` | fields beside `id` | what comes of it |
//! |---|---|---|
//! | `user` | `text`, `sender?`, `session?`, `context?`, `tier?`, `model?`, `untrusted?`, `stream?`, `attachments?` | a turn; its reply goes to the caller |
//! | `system` | `text`, `source?`, `tier?`, `model?`, `untrusted?` | a turn on an event; nobody else hears of it |
//! | `notify` | `text`, `source`, `ref?`, `data?`, `tier?`, `model?`, `untrusted?`, `attachments?` | a turn on an event; its reply goes to the owner |
//! | `raw` | `to`, `text` | the text goes to a chat, no model is asked |
//! | `reset` | `target` | the session is archived |
//! | `stop` | `session?` | runs end |
//! | `approval` | `request?`, `verdict`, `why?` | what the agent asked for is done, or not; alone, `id` is the request's |
//! | `job` | `op` = `add` (and what `jobs::Ask` names), `remove`, `run`, `pause`, `resume`; `job` | a job is added, changed, taken out |
//! | `heartbeat` | | the agent wakes, if there is a reason to |
//! | `reload`, `spool` | | the configuration, the spool are read |

pub mod attachments;
mod command;
pub mod replies;
pub mod spool;

pub use command::{Attachment, Command, Words};

use serde_json::{Map, Value};

use command::Fields;

/// The largest command: a spool file above it is refused (the model's window is smaller anyway).
pub const MAX_COMMAND: u64 = 8 << 20;

/// An id of a command: `[A-Za-z0-9_-]{1,64}`, so that it is a safe file name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id(String);

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

/// A line that is no command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Bad {
    /// The id, when the line had a valid one: the answer goes there.
    pub id: Option<Id>,
    /// What is wrong with it.
    pub reason: String,
}

/// Decodes one line of the FIFO or one spool file.
///
/// # Errors
/// When it is no JSON object, its version or verb is unknown, or a field is missing.
pub fn decode(line: &[u8]) -> Result<Order, Bad> {
    let bad = |id: Option<&Id>, reason: String| Bad {
        id: id.cloned(),
        reason,
    };
    let value: Value =
        serde_json::from_slice(line).map_err(|error| bad(None, format!("no JSON: {error}")))?;
    let Value::Object(fields) = value else {
        return Err(bad(None, "no JSON object".to_owned()));
    };
    let named = match fields.get("id") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(
            Id::parse(text)
                .ok_or_else(|| bad(None, "the id must match [A-Za-z0-9_-]{1,64}".to_owned()))?,
        ),
        Some(_) => return Err(bad(None, "the id must be a string".to_owned())),
    };
    let wrong = |reason: String| bad(named.as_ref(), reason);
    match fields.get("v") {
        None => {}
        Some(v) if v.as_i64() == Some(1) => {}
        Some(v) => return Err(wrong(format!("version {v} is not known, 1 is"))),
    }
    let fields = Fields(&fields);
    let verb = fields
        .text("cmd")
        .map_err(&wrong)?
        .ok_or_else(|| wrong("the field \"cmd\" is missing".to_owned()))?;
    let command = fields.command(&verb, named.as_ref()).map_err(&wrong)?;
    let answer = named.is_some();
    Ok(Order {
        id: named.unwrap_or_default(),
        answer,
        command,
    })
}

/// Encodes an order as the one line that [`decode`] reads.
pub fn encode(id: &Id, command: &Command) -> String {
    let (verb, fields) = command.fields();
    let head = [
        ("v", Value::from(1)),
        ("cmd", verb.into()),
        ("id", id.as_str().into()),
    ];
    let mut line = Map::from_iter(head.map(|(name, value)| (name.to_owned(), value)));
    line.extend(
        fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.to_owned(), value)),
    );
    Value::Object(line).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Approval, JobOrder};
    use proptest::prelude::*;

    fn reason(line: &str) -> String {
        decode(line.as_bytes()).expect_err("bad").reason
    }

    #[test]
    fn a_bad_line_says_what_is_wrong() {
        assert!(reason("hello").starts_with("no JSON"));
        assert_eq!(reason("[1]"), "no JSON object");
        assert_eq!(reason(r#"{"cmd":"user"}"#), "the field \"text\" is missing");
        assert_eq!(
            reason(r#"{"cmd":"user","text":1}"#),
            "the field \"text\" must be a string"
        );
        assert_eq!(
            reason(r#"{"cmd":"dance"}"#),
            "the command \"dance\" is not known"
        );
        assert_eq!(
            reason(r#"{"cmd":"pair"}"#),
            "the command \"pair\" is not in this build"
        );
        assert_eq!(
            reason(r#"{"cmd":"job","op":"dance"}"#),
            "the field \"op\" must be add, remove, run, pause or resume"
        );
        assert_eq!(
            reason(r#"{"cmd":"job","op":"run"}"#),
            "the field \"job\" is missing"
        );
        assert_eq!(
            reason(r#"{"cmd":"job","op":"add","job":"../x"}"#),
            "the field \"job\" must match [A-Za-z0-9_-]{1,64}"
        );
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
        assert_eq!(
            reason(r#"{"cmd":"approval","verdict":"approve"}"#),
            "the field \"id\" is missing"
        );
        assert_eq!(
            reason(r#"{"cmd":"approval","id":"k3f9w2"}"#),
            "the field \"verdict\" is missing"
        );
        for verdict in ["yes", "Approve", "approve ", "", "true"] {
            let line = serde_json::json!({"cmd": "approval", "id": "k3f9w2", "verdict": verdict})
                .to_string();
            assert_eq!(
                reason(&line),
                "the field \"verdict\" must be approve, session or deny"
            );
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
        ("\\PC*", name(), name(), name(), any::<bool>()).prop_map(
            |(text, context, tier, model, untrusted)| Words {
                text,
                context,
                tier,
                model,
                untrusted,
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
            });
        let files = proptest::collection::vec(files, 0..3);
        let raw = ("\\PC*", "\\PC*", files.clone(), name(), name(), name()).prop_map(
            |(to, text, attachments, topic, reply_to, emoji)| Command::Raw {
                to,
                text,
                attachments,
                topic,
                reply_to,
                emoji,
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
        prop_oneof![
            user,
            notify,
            system,
            raw,
            stop,
            reset,
            compact,
            approval,
            job,
            Just(Command::Heartbeat)
        ]
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(command in commands()) {
            let id = Id::new();
            let order = decode(encode(&id, &command).as_bytes()).expect("order");
            prop_assert_eq!(order, Order { id, answer: true, command });
        }
    }
}
