//! Redaction: removes every known secret from a text, in each form in which it may occur.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use parking_lot::RwLock;

/// Shorter values are not redacted: they would blank out ordinary words. In base64 the same holds of what is certain.
const MIN_REDACTED_LEN: usize = 8;

const REDACTED: &str = "[redacted]";

static KNOWN: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// Remembers a secret in each of the forms that [`redact`] finds.
pub(super) fn remember(value: &str) {
    let quoted = serde_json::to_string(value).unwrap_or_default();
    let escaped = quoted
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .unwrap_or_default();
    let mut forms = vec![value.to_owned(), escaped.to_owned()];
    if value.len() >= MIN_REDACTED_LEN {
        let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
        forms.extend([hex, in_an_address(value)]);
        forms.extend(in_base64(value.as_bytes()));
    }
    forms.iter().for_each(|form| remember_form(form));
}

fn remember_form(value: &str) {
    if value.len() < MIN_REDACTED_LEN {
        return;
    }
    let value = value.to_ascii_lowercase();
    let mut known = KNOWN.write();
    if !known.contains(&value) {
        known.push(value);
        known.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }
}

/// Returns a value as it stands in the query of an address (RFC 3986).
fn in_an_address(value: &str) -> String {
    let letter = |byte: u8| match byte {
        b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    value.bytes().map(letter).collect()
}

/// Returns what of a value's base64 is the same whatever stands before and after it: in both alphabets, at each of the
/// three places where it may begin.
fn in_base64(value: &[u8]) -> Vec<String> {
    let mut forms = Vec::new();
    for before in 0..3 {
        let bytes = [&[0; 3][..before], value].concat();
        // A letter holds six bits: those that others share are left out.
        let (first, last) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
        for text in [
            STANDARD_NO_PAD.encode(&bytes),
            URL_SAFE_NO_PAD.encode(&bytes),
        ] {
            forms.extend(text.get(first..last).map(str::to_owned));
        }
    }
    forms
}

/// Returns `text` with every known secret replaced by `[redacted]`, in any letter case, and over the ends of lines, where
/// programs break base64.
pub fn redact(text: &str) -> String {
    let known = KNOWN.read();
    let mut out = broken_redacted(&known, text).unwrap_or_else(|| text.to_owned());
    let mut folded = out.to_ascii_lowercase();
    for secret in known.iter() {
        if !folded.contains(secret.as_str()) {
            continue;
        }
        let mut rest = String::with_capacity(out.len());
        let mut from = 0;
        for (at, _) in folded.match_indices(secret.as_str()) {
            rest.push_str(out.get(from..at).unwrap_or_default());
            rest.push_str(REDACTED);
            from = at + secret.len();
        }
        rest.push_str(out.get(from..).unwrap_or_default());
        out = rest;
        folded = out.to_ascii_lowercase();
    }
    out
}

/// Returns a text without the secrets that the end of a line divides; `None` when there are none.
fn broken_redacted(known: &[String], text: &str) -> Option<String> {
    let is_break = |byte: u8| matches!(byte, b'\n' | b'\r');
    if !text.bytes().any(is_break) {
        return None;
    }
    let joined: String = text.split(['\n', '\r']).collect();
    let joined = joined.to_ascii_lowercase();
    let found: Vec<&String> = known
        .iter()
        .filter(|secret| joined.contains(secret.as_str()))
        .collect();
    if found.is_empty() {
        return None;
    }
    // Where each byte of the joined text stands.
    let places: Vec<usize> = text
        .bytes()
        .enumerate()
        .filter(|(_, byte)| !is_break(*byte))
        .map(|(at, _)| at)
        .collect();
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for secret in found {
        let whole = joined.match_indices(secret.as_str());
        spans.extend(whole.filter_map(|(at, secret)| {
            let (first, last) = (places.get(at)?, places.get(at + secret.len() - 1)?);
            Some((*first, last + 1))
        }));
    }
    spans.sort_unstable();
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for (start, end) in spans {
        if start >= from {
            out.push_str(text.get(from..start)?);
            out.push_str(REDACTED);
        }
        from = from.max(end);
    }
    out.push_str(text.get(from..)?);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    #[test]
    fn a_secret_that_lines_divide_is_found() {
        let secret = Secret::new(format!("long-canary-{}-end", "0123456789".repeat(12)));
        let encoded = STANDARD_NO_PAD.encode(format!("KEY={}\nX=1\n", secret.expose()));
        for (width, end) in [(76, "\n"), (64, "\r\n")] {
            let lines: Vec<&str> = encoded
                .as_bytes()
                .chunks(width)
                .map(|line| std::str::from_utf8(line).expect("base64"))
                .collect();
            let text = format!("é before\n{}\nafter", lines.join(end));
            let redacted = redact(&text);
            assert_eq!(redacted.matches(REDACTED).count(), 1, "{redacted}");
            let (before, after) = redacted.split_once(REDACTED).expect("one");
            assert!(
                before.starts_with("é before\nS0VZ") && after.ends_with("\nafter"),
                "{redacted}"
            );
            assert!(before.len() + after.len() < 60, "{redacted}");
        }
    }

    #[test]
    fn a_known_secret_is_found_in_other_clothes() {
        let secret = Secret::new("Tok/en+canary-98765");
        let check = |text: &str| assert_eq!(redact(text).matches(REDACTED).count(), 1, "{text}");
        for pad in ["", "a", "ab", "user:"] {
            let words = format!("{pad}{}{pad}", secret.expose());
            check(&STANDARD_NO_PAD.encode(&words));
            check(&URL_SAFE_NO_PAD.encode(&words));
        }
        check("key=TOK/EN+CANARY-98765");
        check("key=Tok%2Fen%2Bcanary-98765&a=b");
        check("key=tok%2fen%2bcanary-98765");
        check("546f6b2f656e2b63616e6172792d3938373635");
        check("546F6B2F656E2B63616E6172792D3938373635");
        assert_eq!(redact("token canary 98765"), "token canary 98765");
    }

    #[test]
    fn a_known_secret_never_leaves() {
        let secret = Secret::new("sk-canary-0123456789");
        assert_eq!(
            redact("GET /botsk-canary-0123456789/getMe"),
            "GET /bot[redacted]/getMe"
        );
        assert!(!format!("{secret:?}").contains("canary"));
        let _quoted = Secret::new("pass\"word-0123");
        assert_eq!(
            redact(r#"{"key":"pass\"word-0123"}"#),
            r#"{"key":"[redacted]"}"#
        );
    }
}
