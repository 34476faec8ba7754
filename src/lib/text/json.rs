//! JSON from outside, with limited depth. JSON that is deeper than serde_json can read would be accepted once and never be
//! readable again, so every interface checks the depth of the bytes first.

use std::borrow::Cow;

use serde::de::{DeserializeOwned, Error};

/// Levels of lists and objects in JSON that somebody sent. serde_json stops at 128, counting what we put around it.
pub(crate) const MAX_DEPTH: usize = 32;

/// Reads JSON that somebody sent.
///
/// # Errors
/// When it is not JSON, not of this type, or deeper than [`MAX_DEPTH`].
pub(crate) fn parse<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    if is_too_deep(json) {
        let why = format!("lists and objects are nested more than {MAX_DEPTH} deep");
        return Err(serde_json::Error::custom(why));
    }
    serde_json::from_slice(json)
}

/// Returns true when lists and objects are nested more than [`MAX_DEPTH`] deep.
pub(crate) fn is_too_deep(json: &[u8]) -> bool {
    let mut level = Level::default();
    json.iter().any(|byte| {
        level.step(*byte);
        level.depth > MAX_DEPTH
    })
}

/// Returns `json` with `null` for every list and object that is deeper than [`MAX_DEPTH`].
pub(crate) fn pruned(json: &str) -> Cow<'_, str> {
    if !is_too_deep(json.as_bytes()) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len());
    let mut level = Level::default();
    // Every byte that changes the level is a character of its own.
    for c in json.chars() {
        let before = level.depth;
        level.step(u8::try_from(c).unwrap_or(u8::MAX));
        match (before, level.depth) {
            (..=MAX_DEPTH, ..=MAX_DEPTH) => out.push(c),
            (..=MAX_DEPTH, _) => out.push_str("null"),
            _ => {}
        }
    }
    Cow::Owned(out)
}

/// Where a scan of JSON stands.
#[derive(Debug, Default)]
struct Level {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Level {
    fn step(&mut self, byte: u8) {
        if self.in_string {
            self.in_string = self.escaped || byte != b'"';
            self.escaped = !self.escaped && byte == b'\\';
            return;
        }
        match byte {
            b'"' => self.in_string = true,
            b'[' | b'{' => self.depth += 1,
            b']' | b'}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn nested(levels: usize, inside: &str) -> String {
        format!("{}{inside}{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn brackets_in_strings_are_no_depth() {
        let text = format!(r#"["{}\"{}"]"#, "[{".repeat(40), "[{".repeat(40));
        assert!(parse::<Value>(text.as_bytes()).is_ok());
        assert!(parse::<Value>(nested(MAX_DEPTH, "1").as_bytes()).is_ok());
        let error = parse::<Value>(nested(MAX_DEPTH + 1, "").as_bytes()).expect_err("too deep");
        assert_eq!(
            error.to_string(),
            "lists and objects are nested more than 32 deep"
        );
    }

    #[test]
    fn what_is_too_deep_is_null_and_its_neighbours_stay() {
        let text = format!(r#"{{"a":{},"b":"é]"}}"#, nested(100_000, r#""]""#));
        let value: Value = serde_json::from_str(&pruned(&text)).expect("JSON");
        assert_eq!(value["b"], "é]");
        let deepest = (1..MAX_DEPTH).fold(&value["a"], |value, _| &value[0]);
        assert_eq!(deepest, &Value::Null);
    }

    #[test]
    fn an_escape_ends_with_a_character_of_any_alphabet() {
        let text = format!(r#"{{"a":"\ю"{}"#, "[".repeat(MAX_DEPTH));
        assert!(is_too_deep(text.as_bytes()));
        assert!(!is_too_deep(pruned(&text).as_bytes()));
    }

    proptest! {
        #[test]
        fn what_is_read_again_is_what_was_there(text in r#"[\[\]{}",:a1\\ ]{0,40}"#) {
            if let Ok(value) = serde_json::from_str::<Value>(&text) {
                prop_assert_eq!(serde_json::from_str::<Value>(&pruned(&text)).ok(), Some(value));
            }
        }
    }
}
