//! Repairs nearly valid JSON: one impossible character must not make a whole batch of messages unreadable, because the
//! same batch would be delivered again and again.

use serde::de::DeserializeOwned;

use crate::text::json;

/// Reads JSON, repaired where it has to be.
///
/// # Errors
/// When it is not JSON beyond that, or not of this type.
pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> serde_json::Result<T> {
    json::parse(body).or_else(|_| serde_json::from_str(&json::pruned(&repaired(body))))
}

/// Returns `body` with what no text can hold, half a surrogate pair or a byte that is not UTF-8, as U+FFFD.
fn repaired(body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    let mut out = String::with_capacity(body.len());
    let mut rest = body.as_ref();
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let follows = || {
            after
                .get(5..)
                .and_then(|next| unit(next.strip_prefix('\\')?))
        };
        let taken = match unit(after) {
            Some(0xd800..=0xdbff) if matches!(follows(), Some(0xdc00..=0xdfff)) => 11,
            Some(0xd800..=0xdfff) => 0,
            _ => after.chars().next().map_or(0, char::len_utf8),
        };
        let lone = taken == 0 && !after.is_empty();
        let (escape, behind) = after
            .split_at_checked(if lone { 5 } else { taken })
            .unwrap_or((after, ""));
        out.push('\\');
        out.push_str(if lone { "ufffd" } else { escape });
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// Returns the UTF-16 unit of an escape, without its backslash.
fn unit(escape: &str) -> Option<u16> {
    u16::from_str_radix(escape.strip_prefix('u')?.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn half_a_pair_is_a_replacement_and_all_else_stays() {
        for (json, repaired_json) in [
            (r#""a\ud83d\ude00b""#, r#""a\ud83d\ude00b""#),
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\ude00\ud83dx""#, r#""\ufffd\ufffdx""#),
            (r#""\uD83D\uD83D\uDE00""#, r#""\ufffd\uD83D\uDE00""#),
            (r#""\ud83d\n\u0041""#, r#""\ufffd\n\u0041""#),
            (r#""\\ud83d \\\ud83d""#, r#""\\ud83d \\\ufffd""#),
            (r#""é\"\u00e9\é""#, r#""é\"\u00e9\é""#),
            (r"\", r"\"),
            (r"\ud8", r"\ud8"),
            (r"\udfff\", r"\ufffd\"),
        ] {
            assert_eq!(repaired(json.as_bytes()), repaired_json);
        }
        assert_eq!(repaired(b"\"a\xffb\""), "\"a\u{fffd}b\"");
    }

    #[test]
    fn one_update_that_is_too_deep_does_not_hide_the_others() {
        let deep = format!("{}{}", "[".repeat(9_000), "]".repeat(9_000));
        let body = format!(
            r#"{{"ok":true,"result":[{{"update_id":1,"x":{deep}}},{{"update_id":2,"message":{{"text":"\ud83d"}}}}]}}"#
        );
        let answer: Value = parse(body.as_bytes()).unwrap();
        assert_eq!(answer["result"][0]["update_id"], 1);
        assert_eq!(answer["result"][1]["message"]["text"], "\u{fffd}");
    }

    proptest! {
        #[test]
        fn what_is_right_stays_and_any_units_become_a_text(words in any::<String>(), units in prop::collection::vec(0xd7f0_u16..0xe00f, 0..9)) {
            let right = serde_json::to_string(&words).unwrap();
            prop_assert_eq!(repaired(right.as_bytes()), right);
            let escaped: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let text: Value = serde_json::from_str(&repaired(format!("\"{escaped}\"").as_bytes())).unwrap();
            prop_assert_eq!(text, Value::from(String::from_utf16_lossy(&units)));
        }
    }
}
