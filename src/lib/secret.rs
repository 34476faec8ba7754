//! Secrets that cannot be printed, and the redaction of those we know from any text.
//!
//! A [`Secret`] has no `Display` and no `Serialize`; its `Debug` shows dots. Every secret that is
//! made is remembered for the life of the process, so that [`redact`] can take it out of a log
//! line, an error of a library or the output of a tool.

use parking_lot::RwLock;

/// Shorter values are not redacted: they would blank out ordinary words.
const MIN_REDACTED_LEN: usize = 8;

static KNOWN: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// A key or token.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a value out of sight and remembers it for [`redact`], as it is and as it stands in JSON.
    pub fn new(value: impl Into<String>) -> Self {
        let value = value.into();
        let quoted = serde_json::to_string(&value).unwrap_or_default();
        let escaped = quoted
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .unwrap_or_default();
        remember(&value);
        remember(escaped);
        Self(value)
    }

    /// Returns the value, for the one header or URL that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(••••)")
    }
}

fn remember(value: &str) {
    if value.len() < MIN_REDACTED_LEN {
        return;
    }
    let mut known = KNOWN.write();
    if !known.iter().any(|secret| secret == value) {
        known.push(value.to_owned());
        known.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }
}

/// Returns `text` with every known secret replaced by `[redacted]`.
pub fn redact(text: &str) -> String {
    let known = KNOWN.read();
    let mut out = text.to_owned();
    for secret in known.iter() {
        if out.contains(secret.as_str()) {
            out = out.replace(secret.as_str(), "[redacted]");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

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
