//! The messages of the protocol: JSON-RPC 2.0, one JSON object a message. Pure.
//!
//! ```text
//! → {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}
//! ← {"jsonrpc":"2.0","id":1,"result":{"tools":[…]}}         or "error":{"code":-32601,"message":"…"}
//! ← {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}     no id, no answer
//! ```

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::Error;
use super::address;
use super::address::Address;
use crate::text;

/// The largest message taken, bytes.
pub(super) const MAX_MESSAGE: usize = 4 * 1024 * 1024;

/// The version of the protocol that we ask for.
pub(super) const VERSION: &str = "2025-11-25";

/// The versions that we understand: what we use of them is the same.
pub(super) const UNDERSTOOD: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// What the server says when its tools are others now.
const LIST_CHANGED: &str = "notifications/tools/list_changed";
/// How far a call is, and what the server would log.
const PROGRESS: &str = "notifications/progress";
const LOGGED: &str = "notifications/message";
/// It takes a question of its own back.
const CANCELLED: &str = "notifications/cancelled";
/// What the caller answers, see `server_requests.rs`.
const OF_CALLERS: [&str; 2] = ["elicitation/create", "sampling/createMessage"];

#[derive(Debug)]
pub(super) enum Message {
    /// The answer to our request of this number.
    Answer(u64, Result<Value, Error>),
    /// It asks something; carries its id, the method and the parameters.
    Request(Value, String, Value),
    Notice(Notice),
}

/// What a server says without being asked.
#[derive(Debug, PartialEq)]
pub(super) enum Notice {
    /// Its tools are others now.
    ToolsChanged,
    /// The call of this number continues, and how it says so.
    Progress(u64, String),
    /// Words for a log.
    Logged(String),
    /// Its own question of this id is no longer asked.
    TakenBack(Value),
    /// Anything else.
    Other,
}

impl Notice {
    fn of(method: &str, params: &Value) -> Self {
        let words = |value: &Value| match value {
            Value::String(words) => crate::net::server_text(words),
            Value::Null => String::new(),
            other => crate::net::server_text(&other.to_string()),
        };
        match method {
            LIST_CHANGED => Self::ToolsChanged,
            PROGRESS => {
                let Some(call) = params["progressToken"].as_u64() else {
                    return Self::Other;
                };
                let told = words(&params["message"]);
                let so_far = match (params["progress"].as_f64(), params["total"].as_f64()) {
                    (Some(now), Some(all)) => format!("{now} of {all}"),
                    (Some(now), None) => now.to_string(),
                    _ => String::new(),
                };
                let parts = [so_far, told];
                let told: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
                Self::Progress(call, told.join(": "))
            }
            LOGGED => Self::Logged(words(&params["data"])),
            CANCELLED => Self::TakenBack(params["requestId"].clone()),
            _ => Self::Other,
        }
    }
}

/// Reads a message; `None` when it is none.
pub(super) fn read(bytes: &[u8]) -> Option<Message> {
    if text::json::is_too_deep(bytes) {
        return too_deep(bytes);
    }
    let Value::Object(mut message) = serde_json::from_slice(bytes).ok()? else {
        return None;
    };
    let id = message.remove("id").filter(|id| !id.is_null());
    match (message.remove("method"), id) {
        (Some(Value::String(method)), Some(id)) => {
            let params = message.remove("params").unwrap_or_default();
            Some(Message::Request(id, method, params))
        }
        (Some(Value::String(method)), None) => {
            let params = message.remove("params").unwrap_or_default();
            Some(Message::Notice(Notice::of(&method, &params)))
        }
        (None, Some(id)) => {
            let answer = match (message.remove("result"), message.remove("error")) {
                (Some(result), None) => Ok(result),
                (_, Some(error)) => Err(refused(&error)),
                (None, None) => return None,
            };
            Some(Message::Answer(id.as_u64()?, answer))
        }
        _ => None,
    }
}

/// Reads of a message that is nested too deep what it answers: who asked is told why, and does not wait in vain.
fn too_deep(bytes: &[u8]) -> Option<Message> {
    /// All else is passed over, however deep it is.
    #[derive(Deserialize)]
    struct Head {
        id: u64,
        method: Option<IgnoredAny>,
    }
    let head: Head = serde_json::from_slice(bytes).ok()?;
    let why = format!(
        "its answer is nested more than {} levels deep",
        text::json::MAX_DEPTH
    );
    let answer = Message::Answer(head.id, Err(Error::Protocol(why)));
    head.method.is_none().then_some(answer)
}

fn refused(error: &Value) -> Error {
    let code = error["code"].as_i64().unwrap_or_default();
    let wanted = match code {
        address::WANTED => Address::of_error(&error["data"]),
        _ => Vec::new(),
    };
    if !wanted.is_empty() {
        return Error::WantsOpened(wanted);
    }
    Error::Refused {
        code,
        message: crate::net::server_text(error["message"].as_str().unwrap_or("it says no more")),
    }
}

pub(super) fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub(super) fn notice(method: &str, params: Option<&Value>) -> Value {
    match params {
        Some(params) => json!({"jsonrpc": "2.0", "method": method, "params": params}),
        None => json!({"jsonrpc": "2.0", "method": method}),
    }
}

/// Returns our answer to a request of the server: we are alive, and these are the directories that it may use. `None` when
/// the caller answers it.
pub(super) fn answer(id: &Value, method: &str, roots: &[PathBuf]) -> Option<Value> {
    let root = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        json!({"uri": file_uri(path), "name": name})
    };
    Some(match method {
        _ if OF_CALLERS.contains(&method) => return None,
        "ping" => json!({"jsonrpc": "2.0", "id": id, "result": {}}),
        "roots/list" if !roots.is_empty() => {
            let roots: Vec<Value> = roots.iter().map(root).collect();
            json!({"jsonrpc": "2.0", "id": id, "result": {"roots": roots}})
        }
        _ => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "not offered by this client"}})
        }
    })
}

/// Returns a path as an address (RFC 8089).
fn file_uri(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    format!("file://{}", text::percent_encoded(bytes, "/-._~"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_an_answer_a_request_or_a_notice() {
        let shown = |line: &str| read(line.as_bytes()).map(|message| format!("{message:?}"));
        for (line, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#,
                Some(r#"Answer(7, Ok(Object {"a": Number(1)}))"#),
            ),
            (
                r#"{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no\u200b\nway"}}"#,
                Some(r#"Answer(7, Err(Refused { code: -1, message: "no\\u{200b} way" }))"#),
            ),
            (
                r#"{"jsonrpc":"2.0","id":"x","method":"ping"}"#,
                Some(r#"Request(String("x"), "ping", Null)"#),
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"a\nb"}}"#,
                Some(r#"Notice(Logged("a b"))"#),
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
                Some("Notice(ToolsChanged)"),
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":2,"total":5,"message":"on\u200b it"}}"#,
                Some(r#"Notice(Progress(7, "2 of 5: on\\u{200b} it"))"#),
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x"}}"#,
                Some("Notice(Other)"),
            ),
            (r#"{"jsonrpc":"2.0","id":"x","result":{}}"#, None),
            (r#"{"jsonrpc":"2.0","id":7}"#, None),
            ("[]", None),
            ("Listening on port 80", None),
        ] {
            assert_eq!(shown(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn an_answer_that_is_nested_too_deep_is_one_that_says_so() {
        for levels in [text::json::MAX_DEPTH, 100_000] {
            let (open, close) = ("[".repeat(levels), "]".repeat(levels));
            let answer = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{open}{close}}}"#);
            let read = read(answer.as_bytes()).map(|message| format!("{message:?}"));
            let expected =
                r#"Answer(7, Err(Protocol("its answer is nested more than 32 levels deep")))"#;
            assert_eq!(read.as_deref(), Some(expected));
            let asks =
                format!(r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{open}{close}}}"#);
            assert!(super::read(asks.as_bytes()).is_none());
        }
    }

    #[test]
    fn the_server_is_told_that_we_live_its_directories_and_nothing_else() {
        assert_eq!(
            answer(&json!("a"), "ping", &[]),
            Some(json!({"jsonrpc": "2.0", "id": "a", "result": {}}))
        );
        let answered =
            |method: &str, roots: &[PathBuf]| answer(&json!(1), method, roots).expect("an answer");
        for method in ["tasks/get", "roots/list"] {
            assert_eq!(answered(method, &[])["error"]["code"], -32601);
        }
        for method in OF_CALLERS {
            assert_eq!(answer(&json!(1), method, &[]), None);
        }
        let roots = [PathBuf::from("/srv/my notes")];
        assert_eq!(
            answered("roots/list", &roots)["result"],
            json!({"roots": [{"uri": "file:///srv/my%20notes", "name": "my notes"}]})
        );
    }
}
