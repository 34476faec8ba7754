//! Normalizes the words of facts for comparison: without letter case, character width and white space.

use unicode_normalization::UnicodeNormalization;

use crate::memory::extract::holds_many;
use crate::memory::scope::Scope;

/// What a fact is about. There is one current value for each; of what people have several of (likes,
/// friends) each value is about something of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub scope: String,
    pub entity: String,
    pub attribute: String,
}

impl Key {
    pub(crate) fn new(scope: &Scope, entity: &str, attribute: &str, value: &str) -> Self {
        let mut attribute = folded(attribute);
        if holds_many(&attribute) {
            attribute = format!("{attribute}={}", value_key(value));
        }
        Self {
            scope: scope.to_string(),
            entity: folded(entity),
            attribute,
        }
    }
}

/// Returns the form in which entities, attributes and words of a query are compared.
pub(crate) fn folded(text: &str) -> String {
    let lower: String = text
        .nfkc()
        .flat_map(char::to_lowercase)
        .map(|c| if c == '_' { ' ' } else { c })
        .collect();
    crate::text::one_line(&lower)
}

/// Returns the form in which values are compared: the dot at the end of a sentence is not a part of it.
pub(crate) fn value_key(text: &str) -> String {
    let folded = folded(text);
    let bare = folded.trim_end_matches(['.', ',', ';', '!']).trim_end();
    // A value that is nothing but such signs is what it is.
    if bare.is_empty() {
        folded
    } else {
        bare.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lives_in_one_place_and_likes_many_things() {
        let key = |attribute: &str, value: &str| Key::new(&Scope::Owner, "user", attribute, value);
        assert_eq!(key("Lives in", "Rome"), key("lives in", "Porto"));
        assert_eq!(key("Likes", "Jazz."), key("likes", "jazz"));
        assert_ne!(key("likes", "jazz"), key("likes", "blues"));
    }

    #[test]
    fn case_space_and_the_last_dot_do_not_matter() {
        let check = |text: &str, expected: &str| assert_eq!(value_key(text), expected, "{text:?}");
        check("  New\u{a0}York. ", "new york");
        check("STRASSE", "strasse");
        check("Ａｎａ", "ana");
        check("3.14", "3.14");
        check("...", "...");
        assert_eq!(folded("Favourite_Colour"), "favourite colour");
    }
}
