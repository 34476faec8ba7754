//! The words that are to be erased, and whether they stand in a text, whatever that text is written in.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::text;

/// Bytes of a word that is not met by chance among some 100 MB of numbers: 26 letters in two cases, 256 values each.
const NO_CHANCE: usize = 6;

/// What is to be erased, all of it squeezed.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Names and ids: they count where they are no part of a longer word.
    names: Vec<String>,
    /// Sentences: they count wherever they stand.
    quotes: Vec<String>,
    /// Runs in which something was said, and what: its answers say it in other words.
    runs: Vec<String>,
    value: String,
    /// Words that say the same when they all stand in one line: the value, the attribute, and of whom, unless of the owner.
    parts: Vec<String>,
    /// Names of downloads that belong to what is erased.
    downloads: Vec<String>,
    met: Mutex<BTreeSet<String>>,
}

impl Words {
    /// Returns those of somebody.
    pub(super) fn of_person<'a>(names: impl Iterator<Item = &'a String>) -> Self {
        Self { names: names.map(|name| squeezed(name)).filter(|name| !name.trim().is_empty()).collect(), ..Self::default() }
    }

    /// Returns those of a fact: what states it, its value in the runs where that was said, and its parts together.
    pub(super) fn of_fact<'a>(quotes: impl Iterator<Item = &'a String>, runs: Vec<String>, fact: [&str; 3]) -> Self {
        let whole = |quote: &String| squeezed(quote.trim_end_matches('…')).trim().to_owned();
        let quotes = quotes.map(whole).filter(|quote| !quote.is_empty()).collect();
        let [entity, attribute, value] = fact.map(|part| squeezed(part.trim().trim_end_matches('.')));
        let whom = Some(entity).filter(|entity| entity != "user");
        let parts = [value.clone(), attribute].into_iter().chain(whom).filter(|part| !part.is_empty()).collect();
        Self { quotes, runs, value, parts, ..Self::default() }
    }

    /// Returns it with names of downloads that are looked for in what is erased.
    pub(super) fn noting(self, downloads: Vec<String>) -> Self {
        Self { downloads, ..self }
    }

    /// Returns true when a name or a sentence of it stands in `text`.
    pub(super) fn stand_in(&self, text: &str) -> bool {
        self.stand_in_squeezed(&squeezed(text))
    }

    fn stand_in_squeezed(&self, squeezed: &str) -> bool {
        self.names.iter().any(|name| text::has_word(squeezed, name))
            || self.quotes.iter().any(|quote| squeezed.contains(quote.as_str()))
    }

    /// As [`Words::stand_in`], for what is numbers, mostly: there short words stand by chance.
    pub(super) fn stand_in_numbers(&self, text: &str) -> bool {
        let squeezed = squeezed(text);
        let long = |word: &&String| word.len() >= NO_CHANCE;
        self.names.iter().filter(long).any(|name| text::has_word(&squeezed, name))
            || self.quotes.iter().filter(long).any(|quote| squeezed.contains(quote.as_str()))
    }

    /// Returns true when something of it stands in `text`: an event, a row, a line.
    pub(super) fn are_in(&self, text: &str) -> bool {
        let squeezed = squeezed(text);
        let is_hit = self.stand_in_squeezed(&squeezed)
            || (!self.parts.is_empty() && self.parts.iter().all(|part| text::has_word(&squeezed, part)))
            || (self.runs.iter().any(|run| text.contains(run.as_str())) && text::has_word(&squeezed, &self.value));
        if is_hit {
            let met = self.downloads.iter().filter(|name| text.contains(name.as_str())).cloned();
            self.met.lock().unwrap_or_else(PoisonError::into_inner).extend(met);
        }
        is_hit
    }

    /// Returns true when something of it is in bytes that may be anything.
    pub(super) fn are_in_bytes(&self, bytes: &[u8]) -> bool {
        self.are_in(&String::from_utf8_lossy(bytes))
    }

    /// Returns true when the download `name` belongs to what was found.
    pub(super) fn have_met(&self, name: &str) -> bool {
        self.met.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }
}

/// Returns `text` in lower case with one space for all space between words, and with what JSON writes as `\n` or `\"` as it
/// is; JSON in a string of JSON, too.
pub(super) fn squeezed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let letter = if letter == '\\' { unescaped(&mut letters) } else { letter };
        if letter.is_whitespace() {
            if !out.ends_with(' ') {
                out.push(' ');
            }
        } else {
            out.extend(letter.to_lowercase());
        }
    }
    out
}

fn unescaped(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> char {
    while letters.next_if_eq(&'\\').is_some() {}
    match letters.peek().copied() {
        Some('n' | 't' | 'r') => {
            letters.next();
            ' '
        }
        Some(sign @ ('"' | '/')) => {
            letters.next();
            sign
        }
        Some('u') => {
            let digits: String = letters.clone().skip(1).take(4).collect();
            let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4).and_then(char::from_u32);
            if code.is_some() {
                letters.nth(4);
            }
            code.unwrap_or('\\')
        }
        _ => '\\',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_in_json_and_in_other_letters_and_not_in_other_words() {
        let names = ["Bob Smith".to_owned(), "jürgen".to_owned(), "1002".to_owned()];
        let words = Words::of_person(names.iter());
        let found = [
            "call BOB  smith!",
            r#"{"text":"dear\nBob\nSmith"}"#,
            r#"{"a":"{\"b\":\"x\\nbob smith\"}"}"#,
            "J\u{dc}RGEN",
            r"J\u00fcrgen",
            "agent:a:telegram:dm:1002",
        ];
        found.iter().for_each(|text| assert!(words.are_in(text), "{text}"));
        ["bob", "bobsmith", "bob smithson", "Jürgens", "11002", r"\u12"]
            .iter()
            .for_each(|text| assert!(!words.are_in(text), "{text}"));
        assert!(words.are_in_bytes(b"\xff\x00bob smith\xfe"));
    }

    #[test]
    fn a_sentence_is_found_anywhere_and_its_value_where_it_was_said() {
        let quotes = ["My dog \"Rex\" is".to_owned()];
        let words =
            Words::of_fact(quotes.iter(), vec!["run-1".to_owned()], ["Ann", "dog", "Rex."]).noting(vec!["file-7".to_owned()]);
        assert!(words.are_in(r#"x{"t":"My dog \"rex\" is old"}"#));
        assert!(words.are_in(r#"{"run_id":"run-1","text":"Rex, then.","path":"downloads/file-7/a"}"#));
        assert!(words.are_in("the dog of Ann: rex"));
        assert!(!words.are_in("my dog is rex") && !words.stand_in("the dog of Ann: rex"));
        assert!(!words.are_in(r#"{"run_id":"run-2","text":"Rex"}"#) && !words.are_in("run-1: Rexona"));
        assert!(words.have_met("file-7") && !words.have_met("file-8"));
    }
}
