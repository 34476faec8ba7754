//! Stop words, and irregular forms that stemming does not cover.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::pack::small_words;

/// Returns true for a word that is left out of questions; `word` is lower case, without accents.
pub(crate) fn is_stop(word: &str) -> bool {
    static STOP: LazyLock<HashSet<&str>> = LazyLock::new(|| {
        small_words()
            .iter()
            .flat_map(|words| words.stop_words.iter())
            .collect()
    });
    STOP.contains(word)
}

/// Returns the base form of an irregular English one: `bought` is `buy`.
pub(crate) fn base_of(word: &str) -> Option<&'static str> {
    static BASES: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
        let families = small_words().iter().flat_map(|words| &words.irregular);
        let forms = families.filter_map(|family| {
            let mut words = family.split_whitespace();
            let base = words.next()?;
            Some(words.map(move |word| (word, base)))
        });
        forms.flatten().collect()
    });
    BASES.get(word).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_as_words_are_compared() {
        let irregular = small_words().iter().flat_map(|words| &words.irregular);
        let stop = small_words()
            .iter()
            .flat_map(|words| words.stop_words.iter());
        for word in stop.chain(irregular.flat_map(|family| family.split(' '))) {
            let is_plain = |c: char| c.is_lowercase() && !"äöüßéèáíóúñçё".contains(c);
            assert!(word.chars().all(is_plain), "{word}");
        }
        let known = [base_of("bought"), base_of("buy")];
        assert_eq!(known, [Some("buy"), None]);
        assert!(is_stop("the") && !is_stop("car"));
    }
}
