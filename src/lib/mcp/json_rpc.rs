//! The messages of the protocol: JSON-RPC 2.0, one JSON object a message. Pure.
//!
//! ```text
//! → {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}
//! ← {"jsonrpc":"2.0","id":1,"result":{"tools":[…]}}         or "error":{"code":-32601,"message":"…"}
//! ← {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}     no id, no answer
//! ```

use serde_json::{Value, json};

use super::Error;
use crate::text;

/// The largest message taken, bytes.
pub(super) const MAX_MESSAGE: usize = 4 * 1024 * 1024;

/// The version of the protocol that we ask for.
pub(super) const VERSION: &str = "2025-06-18";

/// The versions that we understand: what we use of them is the same.
pub(super) const UNDERSTOOD: [&str; 4] = ["2025-06-18", "2025-11-25", "2025-03-26", "2024-11-05"];

/// What the server says when its tools are others now.
pub(super) const LIST_CHANGED: &str = "notifications/tools/list_changed";

#[derive(Debug)]
pub(super) enum Message {
    /// The answer to our request of this number.
    Answer(u64, Result<Value, Error>),
    /// It asks something; carries its id and the method.
    Request(Value, String),
    Notice(String),
}

/// Reads a message; `None` when it is none.
pub(super) fn read(bytes: &[u8]) -> Option<Message> {
    let Value::Object(mut message) = text::json::parse(bytes).ok()? else {
        return None;
    };
    let id = message.remove("id").filter(|id| !id.is_null());
    match (message.remove("method"), id) {
        (Some(Value::String(method)), Some(id)) => Some(Message::Request(id, method)),
        (Some(Value::String(method)), None) => Some(Message::Notice(method)),
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

fn refused(error: &Value) -> Error {
    Error::Refused {
        code: error["code"].as_i64().unwrap_or_default(),
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

/// Returns our answer to a request of the server: we are alive, and offer it nothing: no models, no
/// directories, no questions to the owner.
pub(super) fn answer(id: &Value, method: &str) -> Value {
    match method {
        "ping" => json!({"jsonrpc": "2.0", "id": id, "result": {}}),
        _ => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "not offered by this client"}})
        }
    }
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
                Some(r#"Request(String("x"), "ping")"#),
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/message"}"#,
                Some(r#"Notice("notifications/message")"#),
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
    fn the_server_is_told_that_we_live_and_nothing_else() {
        assert_eq!(
            answer(&json!("a"), "ping"),
            json!({"jsonrpc": "2.0", "id": "a", "result": {}})
        );
        assert_eq!(
            answer(&json!(1), "sampling/createMessage")["error"]["code"],
            -32601
        );
    }
}
