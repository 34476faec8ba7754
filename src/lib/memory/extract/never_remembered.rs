//! What is never stored as a fact: secrets and permissions. Permissions are settings.

use super::words::{Word, has_any, low, words};
use crate::language::pack::packs;
use crate::language::service_keys::looks_like_key;

/// Returns true for words that may be remembered: they are about no secret, and not about what somebody may do.
pub fn may_be_kept(text: &str) -> bool {
    may_keep(text, &words(text))
}

pub(super) fn may_keep(text: &str, words: &[Word]) -> bool {
    let is_named = packs().iter().map(|pack| &pack.statements).any(|pack| {
        let odd = |word: &Word| pack.secrets.has(&word.low) || pack.rights.has(&word.low);
        words.iter().any(odd)
            || has_any(words, &pack.secret_phrases)
            || has_any(words, &pack.rights_phrases)
    });
    let administers = |at: usize| {
        let job = ["system", "systems", "database", "network", "office"];
        low(words, at).starts_with("administ") && (at == 0 || !words[at - 1].is(&job))
    };
    !is_named
        && !(0..words.len()).any(administers)
        && !text.split_whitespace().any(looks_secret)
        && !has_long_number(text)
}

/// Keys and tokens: long, letters and digits mixed; or with a well-known beginning.
fn looks_secret(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    let is_mixed =
        word.chars().any(|c| c.is_ascii_digit()) && word.chars().any(char::is_alphabetic);
    looks_like_key(word) || word.chars().count() >= 16 && is_mixed && !word.contains(['@', '/'])
}

/// Cards have 13 to 19 digits, an IBAN more than 13; a telephone number has at most 12 in use.
/// "123-45-6789" is how a social security number is written.
fn has_long_number(text: &str) -> bool {
    let runs = text.split(|c: char| !c.is_ascii_digit() && c != ' ' && c != '-');
    runs.into_iter().any(|run| {
        let digits = run.chars().filter(char::is_ascii_digit).count();
        let is_social = |part: &str| part.split('-').map(str::len).eq([3, 2, 4]);
        digits >= 13 || run.split(' ').any(is_social)
    })
}
