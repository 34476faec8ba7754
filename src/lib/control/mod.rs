//! How the processes talk: commands in, answers out. This is the whole protocol.
//!
//! A command is one JSON object. `agent-send` writes it to `spool/tmp/<id>.json`, fsyncs, renames
//! it into `spool/new/` and rings the FIFO; the daemon commits it to `queue.db` and unlinks it.
//! A script may also write a whole command (at most 4096 bytes with the newline) to the FIFO.
//!
//! ```text
//! shell   → control.fifo   {"v":1,"cmd":"user","id":"disk-1","text":"the disk is full","sender":"cron"}
//! daemon  → replies/disk-1.json   {"v":1,"id":"disk-1","status":"accepted"}
//!                                 {"v":1,"id":"disk-1","status":"running","session_id":"…","run_id":"…"}
//!                                 {"v":1,"id":"disk-1","status":"done","reply":"…","tokens":812,"cost_usd":0.0031, …}
//! ```

pub mod replies;
pub mod spool;

use serde_json::{Map, Value};

/// The largest command: a spool file above it is refused (the model's window is smaller anyway).
pub const MAX_COMMAND: u64 = 8 << 20;
const VERBS_OF_LATER_BUILDS: &[&str] =
    &["system", "notify", "raw", "compact", "undo", "forget", "heartbeat", "job", "pair", "approval"];

/// An id of a command: `[A-Za-z0-9_-]{1,64}`, so that it is a safe file name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id(String);

impl Id {
    /// Returns the id, or `None` when `text` is not of the form.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
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

/// What the daemon is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A message for the agent.
    User {
        /// The words.
        text: String,
        /// Who says them; `cli` when absent.
        sender: String,
        /// The session key to speak in; the sender's own when absent.
        session: Option<String>,
        /// The configured model to use.
        model: Option<String>,
        /// True when the words are not the owner's own.
        untrusted: bool,
    },
    /// Stop the run of a session, or all runs.
    Stop {
        /// A session key; all runs when absent.
        session: Option<String>,
    },
    /// Archive a session.
    Reset {
        /// A session key or a session id.
        target: String,
    },
    /// Read the configuration again.
    Reload,
    /// Look at this spooled command.
    Spool {
        /// Its id.
        id: Id,
    },
}

/// A decoded line.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    let bad = |id: Option<&Id>, reason: String| Bad { id: id.cloned(), reason };
    let value: Value = serde_json::from_slice(line).map_err(|error| bad(None, format!("no JSON: {error}")))?;
    let Value::Object(fields) = value else { return Err(bad(None, "no JSON object".to_owned())) };
    let named = match fields.get("id") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => {
            Some(Id::parse(text).ok_or_else(|| bad(None, "the id must match [A-Za-z0-9_-]{1,64}".to_owned()))?)
        }
        Some(_) => return Err(bad(None, "the id must be a string".to_owned())),
    };
    let wrong = |reason: String| bad(named.as_ref(), reason);
    match fields.get("v") {
        None => {}
        Some(v) if v.as_i64() == Some(1) => {}
        Some(v) => return Err(wrong(format!("version {v} is not known, 1 is"))),
    }
    let verb = text(&fields, "cmd").map_err(&wrong)?.ok_or_else(|| wrong("the field \"cmd\" is missing".to_owned()))?;
    let command = command(&verb, &fields, named.as_ref()).map_err(&wrong)?;
    let answer = named.is_some();
    Ok(Order { id: named.unwrap_or_default(), answer, command })
}

fn command(verb: &str, fields: &Map<String, Value>, id: Option<&Id>) -> Result<Command, String> {
    let required = |name: &str| text(fields, name)?.ok_or_else(|| format!("the field {name:?} is missing"));
    match verb {
        "user" => Ok(Command::User {
            text: required("text")?,
            sender: text(fields, "sender")?.unwrap_or_else(|| "cli".to_owned()),
            session: text(fields, "session")?,
            model: text(fields, "model")?,
            untrusted: matches!(fields.get("untrusted"), Some(Value::Bool(true))),
        }),
        "stop" => Ok(Command::Stop { session: text(fields, "session")? }),
        "reset" => Ok(Command::Reset { target: required("target")? }),
        "reload" => Ok(Command::Reload),
        "spool" => Ok(Command::Spool { id: id.cloned().ok_or("the field \"id\" is missing")? }),
        other if VERBS_OF_LATER_BUILDS.contains(&other) => Err(format!("the command {other:?} is not in this build")),
        other => Err(format!("the command {:?} is not known", crate::text::shorten(other, 40))),
    }
}

/// A string field: absent and null are `None`.
fn text(fields: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("the field {name:?} must be a string")),
    }
}

/// Encodes an order as the one line that [`decode`] reads.
pub fn encode(id: &Id, command: &Command) -> String {
    let mut fields = Map::new();
    fields.insert("v".to_owned(), 1.into());
    fields.insert("id".to_owned(), id.as_str().into());
    let mut put = |name: &str, value: Value| {
        if !value.is_null() && value != Value::Bool(false) {
            fields.insert(name.to_owned(), value);
        }
    };
    match command {
        Command::User { text, sender, session, model, untrusted } => {
            put("cmd", "user".into());
            put("text", text.as_str().into());
            put("sender", sender.as_str().into());
            put("session", session.clone().into());
            put("model", model.clone().into());
            put("untrusted", (*untrusted).into());
        }
        Command::Stop { session } => {
            put("cmd", "stop".into());
            put("session", session.clone().into());
        }
        Command::Reset { target } => {
            put("cmd", "reset".into());
            put("target", target.as_str().into());
        }
        Command::Reload => put("cmd", "reload".into()),
        Command::Spool { id } => {
            put("cmd", "spool".into());
            put("id", id.as_str().into());
        }
    }
    Value::Object(fields).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reason(line: &str) -> String {
        decode(line.as_bytes()).expect_err("bad").reason
    }

    #[test]
    fn a_bad_line_says_what_is_wrong() {
        assert!(reason("hello").starts_with("no JSON"));
        assert_eq!(reason("[1]"), "no JSON object");
        assert_eq!(reason(r#"{"cmd":"user"}"#), "the field \"text\" is missing");
        assert_eq!(reason(r#"{"cmd":"user","text":1}"#), "the field \"text\" must be a string");
        assert_eq!(reason(r#"{"cmd":"dance"}"#), "the command \"dance\" is not known");
        assert_eq!(reason(r#"{"cmd":"job"}"#), "the command \"job\" is not in this build");
        assert_eq!(reason(r#"{"v":2,"cmd":"reload"}"#), "version 2 is not known, 1 is");
        assert_eq!(reason(r#"{"id":"../x","cmd":"reload"}"#), "the id must match [A-Za-z0-9_-]{1,64}");
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
        assert_eq!(
            order.command,
            Command::User { text: "hi".into(), sender: "cli".into(), session: None, model: None, untrusted: false }
        );
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(text in "\\PC*", sender in "\\PC*", session in proptest::option::of("\\PC*"), untrusted: bool) {
            let id = Id::new();
            let command = Command::User { text, sender, session, model: None, untrusted };
            let order = decode(encode(&id, &command).as_bytes()).expect("order");
            prop_assert_eq!(order, Order { id, answer: true, command });
        }
    }
}
