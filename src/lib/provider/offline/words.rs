//! Words at the beginning and at the end of a text: phrases, introductions, marks of a question.

use crate::language::pack::Phrases;
pub(super) use crate::language::summary::asks;

/// Returns what follows `phrase` (lower case, words with a space between) at the beginning of
/// `text`, in any letter case.
pub(super) fn after<'a>(text: &'a str, phrase: &str) -> Option<&'a str> {
    phrase.split(' ').try_fold(text, |rest, expected| {
        let (word, next) = first_word(rest)?;
        lower(word).eq(expected.chars()).then_some(next)
    })
}

/// Returns what follows the longest of `phrases` that `text` begins with.
pub(super) fn after_any<'a>(text: &'a str, phrases: &Phrases) -> Option<&'a str> {
    let rests = phrases.iter().filter_map(|phrase| after(text, phrase));
    rests.min_by_key(|rest| rest.len())
}

/// Returns true when `text` is one of `phrases`.
pub(super) fn is_one_of(text: &str, phrases: &Phrases) -> bool {
    phrases.iter().any(|phrase| phrase == text)
}

/// Returns the first word and what follows it.
pub(super) fn first_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ',' | ';'));
    let end = text.find(|c| !is_letter(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '\'' | '’')
}

/// Returns the letters of `word` as phrases have them.
fn lower(word: &str) -> impl Iterator<Item = char> {
    word.chars()
        .map(|c| if c == '’' { '\'' } else { c })
        .flat_map(char::to_lowercase)
}

/// Returns the words of a short text in lower case with a space between, without punctuation.
pub(super) fn plain(text: &str) -> String {
    let words = text
        .split(|c| !is_letter(c))
        .filter(|word| !word.is_empty());
    let words: Vec<String> = words.map(|word| lower(word).collect()).collect();
    words.join(" ")
}

/// Returns `text` without the marks that are between an introduction and what it introduces.
pub(super) fn trim_lead(text: &str) -> &str {
    let is_mark = |c: char| c.is_whitespace() || matches!(c, ':' | ',');
    let rest = text.trim_start_matches(is_mark);
    let dashless = rest.trim_start_matches(['-', '–', '—']);
    // On a separate line a dash is the mark of a list.
    let is_listed = text.chars().take_while(|c| is_mark(*c)).any(|c| c == '\n');
    if dashless.starts_with(char::is_whitespace) && !is_listed {
        dashless.trim_start()
    } else {
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phrase_is_whole_words_in_any_case() {
        let check = |text: &str, phrase: &str, expected: Option<&str>| {
            assert_eq!(after(text, phrase), expected, "{text}")
        };
        check("Remember  THAT I am", "remember that", Some(" I am"));
        check("Don’t forget: x", "don't forget", Some(": x"));
        check("please, remember x", "please remember", Some(" x"));
        check("rememberthat", "remember", None);
        check("", "remember", None);
    }

    #[test]
    fn a_question_is_known_by_its_mark() {
        for text in [
            "when?",
            "什么时候？",
            "متى؟",
            "Πότε;",
            "Πότε\u{37e}",
            "“why?”",
            "really?!",
            "where? 😀",
        ] {
            assert!(asks(text), "{text}");
        }
        for text in ["", "no.", "a; b;", "https://x/?q=1"] {
            assert!(!asks(text), "{text}");
        }
    }
}
