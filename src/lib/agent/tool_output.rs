//! Truncation of a tool's output: what of a long tool result reaches the model, with the secrets redacted.

use crate::secret;
use crate::text;

/// The share of the head in what is kept of a text, in percent; see [`text::head_and_tail`].
const HEAD: usize = 70;

/// Returns `text` without known secrets and cut to at most `max` characters: its head and its tail, with a mark between
/// that says how much was left out.
pub(super) fn redact_and_truncate(text: &str, max: usize) -> String {
    // First redact, then cut: a secret cut in two would be known to nobody.
    text::head_and_tail(&secret::redact(text), max, HEAD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    #[test]
    fn a_secret_is_redacted_before_the_cut_divides_it() {
        let secret = Secret::new(format!("sk-truncate-{}", "0123456789".repeat(200)));
        let text = format!("{}{}{}", "a".repeat(600), secret.expose(), "b".repeat(600));
        let cut = redact_and_truncate(&text, 1_000);
        assert!(cut.chars().count() <= 1_000, "{}", cut.chars().count());
        assert!(!cut.contains("012345"), "{cut}");
        assert!(cut.starts_with("aaa") && cut.ends_with("bbb"), "{cut}");
        assert_eq!(redact_and_truncate("short", 1_000), "short");
    }
}
