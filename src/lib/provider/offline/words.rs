//! Words as they are compared: phrases at the beginning of a text, stems, marks of a question.

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_segmentation::UnicodeSegmentation;

/// Returns what follows `phrase` (lower case, words with a space between) at the beginning of
/// `text`, in any letter case.
pub(super) fn after<'a>(text: &'a str, phrase: &str) -> Option<&'a str> {
    let mut rest = text;
    for expected in phrase.split(' ') {
        let (word, next) = first_word(rest)?;
        if !lower(word).eq(expected.chars()) {
            return None;
        }
        rest = next;
    }
    Some(rest)
}

/// Returns what follows the first of `phrases` (with `|` between) that `text` begins with.
pub(super) fn after_any<'a>(text: &'a str, phrases: &str) -> Option<&'a str> {
    phrases.split('|').find_map(|phrase| after(text, phrase))
}

/// Returns true when `text` is one of `phrases` (with `|` between).
pub(super) fn is_one_of(text: &str, phrases: &str) -> bool {
    phrases.split('|').any(|phrase| phrase == text)
}

/// Returns the first word and what follows it.
pub(super) fn first_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
    let end = text
        .find(|c: char| !c.is_alphanumeric() && !matches!(c, '\'' | '’'))
        .unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
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
        .split(|c: char| !c.is_alphanumeric() && !matches!(c, '\'' | '’'))
        .filter(|word| !word.is_empty());
    words
        .map(|word| lower(word).collect::<String>())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns `text` without the marks that stand between an introduction and what it introduces.
pub(super) fn trim_lead(text: &str) -> &str {
    let mark = |c: char| c.is_whitespace() || matches!(c, ':' | ',');
    let rest = text.trim_start_matches(mark);
    let dashless = rest.trim_start_matches(['-', '–', '—']);
    // On a line of its own a dash is the mark of a list.
    let listed = text.chars().take_while(|c| mark(*c)).any(|c| c == '\n');
    if dashless.starts_with(char::is_whitespace) && !listed {
        dashless.trim_start()
    } else {
        rest
    }
}

/// Returns true when `text` ends as a question does, in any script.
pub(super) fn asks(text: &str) -> bool {
    let closing = |c: char| {
        c.is_whitespace()
            || matches!(
                c,
                '"' | '\'' | '”' | '’' | '»' | ')' | ']' | '!' | '.' | '…'
            )
            || ('\u{1f300}'..='\u{1faff}').contains(&c)
    };
    match text.trim_end_matches(closing).chars().next_back() {
        Some('?' | '？' | '؟' | '\u{37e}' | '⸮' | '፧' | '՞') => true,
        // The Greek mark becomes a semicolon in most keyboards and in NFC.
        Some(';') => text
            .chars()
            .rev()
            .take(200)
            .any(|c| ('\u{370}'..='\u{3ff}').contains(&c)),
        _ => false,
    }
}

/// Takes words apart and off their endings.
pub(super) struct Words {
    latin: Stemmer,
    cyrillic: Stemmer,
}

impl Words {
    pub(super) fn new() -> Self {
        Self {
            latin: Stemmer::create(Algorithm::English),
            cyrillic: Stemmer::create(Algorithm::Russian),
        }
    }

    /// Returns the stems of the words that say what `text` is about, in order, also twice.
    pub(super) fn telling(&self, text: &str) -> Vec<String> {
        let words = text.unicode_words().map(|word| {
            let folded: String = word
                .nfkd()
                .filter(|c| !is_combining_mark(*c))
                .flat_map(char::to_lowercase)
                .take(40)
                .collect();
            folded.replace('’', "'")
        });
        words
            .filter(|word| !is_stop(word))
            .map(|word| self.stem(&word))
            .collect()
    }

    fn stem(&self, word: &str) -> String {
        let word = word.strip_suffix("'s").unwrap_or(word);
        match word.chars().next() {
            Some('a'..='z') if word.len() > 2 => self.latin.stem(word).into_owned(),
            Some('\u{400}'..='\u{52f}') => self.cyrillic.stem(word).into_owned(),
            _ => word.to_owned(),
        }
    }
}

fn is_stop(word: &str) -> bool {
    const STOP: &str = " a about above after again all also am an and any are as at be because been before being below between both \
        but by can could did do does doing don't down during each few for from further had has have having he her here hers him his how \
        i i'm i've i'd if in into is isn't it it's its itself just let many may me might more most much must my myself no nor not now of \
        off on once only or other our ours out over own same she should so some such than that that's the their them then there these \
        they this those through to too under until up us very was we were what what's when when's where where's which while who who's \
        whom whose why will with would you you're your yours know tell remember please find search look show say said ask asked \
        aber als auch auf aus bei bin bis das dass dem den der des die dir du ein eine einem einen einer er es habe hat ich ihr im ist \
        kann mein meine mich mir mit nicht noch oder sich sie sind und uns von vor wann warum war was wenn wer wie wir wo zu zum zur \
        au aux avec ce ces cette dans de du elle en est et il ils je la le les leur ma mes mon ne nous ou par pas pour que qui sa se \
        ses son sont sur tu un une vous como con cual cuando del donde el ella es esta este la las lo los mi mis no para pero por \
        porque quien si sin su sus un una y yo che chi di e gli il nel non per sono aan als bij dat de een en het hoe ik is je met mijn \
        niet of om op te van voor waar wat wie zijn ";
    word.len() <= 10 && STOP.contains(&format!(" {word} "))
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
            "wann? ",
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

    #[test]
    fn what_is_compared_are_stems_without_small_words() {
        assert_eq!(
            Words::new().telling("When is my sister's café's Birthday? birthdays"),
            ["sister", "cafe", "birthday", "birthday"]
        );
        assert_eq!(
            Words::new().telling("собаки, собака 東京"),
            ["собак", "собак", "東", "京"]
        );
    }
}
