//! Silence: an answer that says there is nothing to say.
//!
//! The `silent` tool is the clean way. Two tokens are accepted, too, because models were trained on them: in answers to people
//! only as the whole answer; in answers to events also at the beginning or end of a short one.

use crate::message::Source;

/// The tokens.
const TOKENS: [&str; 2] = ["NO_REPLY", "HEARTBEAT_OK"];
/// What may be next to a token in an answer to an event, characters (specification §5).
const BESIDE: usize = 300;

/// Returns what is to be said of `text`, an answer to something that came from `source`; `None`
/// when that is nothing.
pub(crate) fn spoken(text: &str, source: Source) -> Option<String> {
    let whole = if source.is_person() {
        text.trim()
    } else {
        bare(text)
    };
    if TOKENS.contains(&whole) {
        return None;
    }
    match TOKENS
        .iter()
        .find_map(|token| beside(whole, token))
        .filter(|_| !source.is_person())
    {
        Some(rest) if rest.chars().count() <= BESIDE => None,
        Some(rest) => Some(rest.to_owned()),
        None => Some(text.to_owned()),
    }
}

/// Returns true while `text` may still become a token: then it is not shown yet.
pub(crate) fn may_become(text: &str) -> bool {
    TOKENS.iter().any(|token| token.starts_with(bare(text)))
}

/// Takes markup around the whole off.
fn bare(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || "*_`~.".contains(c))
}

/// Returns what is before or after `token`, when the text begins or ends with it as a word.
fn beside<'a>(text: &'a str, token: &str) -> Option<&'a str> {
    let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let after = text
        .strip_prefix(token)
        .filter(|rest| !joins(rest.chars().next()));
    let before = || {
        text.strip_suffix(token)
            .filter(|rest| !joins(rest.chars().next_back()))
    };
    after.or_else(before).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_answered_unless_the_token_is_all_there_is() {
        let said = |text: &str| spoken(text, Source::Cli);
        for silent in ["NO_REPLY", " HEARTBEAT_OK\n"] {
            assert_eq!(said(silent), None, "{silent:?}");
        }
        for words in [
            "NO_REPLY is a token",
            "I answer with NO_REPLY",
            "",
            "no_reply",
            "NO_REPLYS",
            "**NO_REPLY**",
        ] {
            assert_eq!(said(words).as_deref(), Some(words));
        }
    }

    #[test]
    fn an_event_is_answered_only_with_more_than_a_remark_beside_the_token() {
        let said = |text: &str| spoken(text, Source::Notify);
        for silent in [
            "NO_REPLY",
            "HEARTBEAT_OK all is well",
            "Nothing new.\n\nNO_REPLY",
            "**NO_REPLY** fine",
        ] {
            assert_eq!(said(silent), None, "{silent:?}");
        }
        let limit = "x".repeat(300);
        assert_eq!(said(&format!("{limit} NO_REPLY")), None);
        assert_eq!(
            said(&format!("{limit}x NO_REPLY")),
            Some(format!("{limit}x"))
        );
        assert_eq!(
            said(&format!("NO_REPLY\n{limit}x")),
            Some(format!("{limit}x"))
        );
        for words in [
            "the token NO_REPLY stands inside",
            "NO_REPLYS",
            "A_NO_REPLY",
        ] {
            assert_eq!(said(words).as_deref(), Some(words));
        }
    }

    #[test]
    fn what_may_become_a_token_is_held_back() {
        for held in ["", "N", "NO_REP", "**NO_", "HEARTBEAT_OK"] {
            assert!(may_become(held), "{held:?}");
        }
        for shown in ["No", "NO_REPLY and", "Hello"] {
            assert!(!may_become(shown), "{shown:?}");
        }
    }
}
