//! The digest that decides whether a command with a known id is the same.

use serde_json::Value;

use super::Command;
use crate::text;

/// Returns the digest of what a command says at a `door`: verb, words, whom and what they mean, and the bytes of
/// its files. How its answer is read does not count, nor where its files were when it was sent.
pub fn digest(door: &str, command: &Command) -> String {
    let mut said = serde_json::to_value(command).unwrap_or_default();
    if let Value::Object(fields) = &mut said {
        fields.remove("stream");
        fields.retain(|_, value| !value.is_null());
        let files = fields.get_mut("attachments").and_then(Value::as_array_mut);
        for file in files.into_iter().flatten().filter_map(Value::as_object_mut) {
            if file.contains_key("sha256") {
                file.remove("path");
            }
        }
    }
    text::sha256_hex(format!("{door} {said}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::decode;

    #[test]
    fn the_same_words_are_the_same_and_anything_else_is_not() {
        let of = |line: &str| digest("cli", &decode(line.as_bytes()).expect("a command").command);
        let first = of(r#"{"cmd":"user","text":"a"}"#);
        for same in [
            r#"{"cmd":"user","id":"x","text":"a","sender":"cli"}"#,
            r#"{"cmd":"user","text":"a","stream":true,"session":null}"#,
        ] {
            assert_eq!(of(same), first, "{same}");
        }
        for other in [
            r#"{"cmd":"user","text":"b"}"#,
            r#"{"cmd":"system","text":"a"}"#,
            r#"{"cmd":"user","text":"a","session":"s"}"#,
            r#"{"cmd":"user","text":"a","untrusted":true}"#,
            r#"{"cmd":"user","text":"a","attachments":[{"path":"/x"}]}"#,
        ] {
            assert_ne!(of(other), first, "{other}");
        }
        let file = |path: &str, sum: &str| {
            of(&format!(
                r#"{{"cmd":"user","text":"a","attachments":[{{"path":"{path}","sha256":"{sum}"}}]}}"#
            ))
        };
        assert_eq!(file("1-a", "00"), file("2-a", "00"));
        assert_ne!(file("1-a", "00"), file("1-a", "11"));
        let command = decode(br#"{"cmd":"stop"}"#).expect("a command").command;
        assert_ne!(digest("cli", &command), digest("http", &command));
    }
}
