//! Secrets that cannot be printed, and the redaction of those we know from any text.
//!
//! A [`Secret`] has no `Display` and no `Serialize`; its `Debug` shows dots. Every secret is remembered for the life of the
//! process, so that [`redact()`] can remove it from log lines, errors of libraries and the output of tools.

mod lookalikes;
mod redact;

pub use lookalikes::withhold;
pub use redact::redact;

/// A key or token.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a value out of sight and remembers it for [`redact()`]: as it is, and as it stands in JSON, in an address, in
    /// hexadecimal digits and in base64 beside other bytes.
    pub fn new(value: impl Into<String>) -> Self {
        let value = value.into();
        redact::remember(&value);
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
