//! Matches the words to be erased against a text in any format.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use unicode_normalization::UnicodeNormalization;

use crate::memory::facts;
use crate::text;

/// Bytes of a word that is not met by chance among some 100 MB of numbers: 26 letters in two cases, 256 values each.
const NO_CHANCE: usize = 6;

/// A sentence of so many words is said of nothing else, whatever is next to it.
const LONG: usize = 6;

/// What is to be erased, all of it squeezed.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Names and ids: they count where they are no part of a longer word, see [`is_named`].
    names: Vec<String>,
    /// Sentences: they count wherever they are, in notes only where they are alone.
    quotes: Vec<String>,
    /// Sentences that state something else: what is in them does not count.
    others: Vec<String>,
    /// Runs in which something was said, and what: its answers say it in other words.
    runs: Vec<String>,
    value: String,
    /// Words that say the same when they all are in one line: the value, the attribute, and of whom, unless of the owner.
    parts: Vec<String>,
    /// Names of downloads that belong to what is erased.
    downloads: Vec<String>,
    met: Mutex<BTreeSet<String>>,
}

impl Words {
    /// Returns those of somebody.
    pub(super) fn of_person<'a>(names: impl Iterator<Item = &'a String>) -> Self {
        Self {
            names: names
                .map(|name| squeezed(name))
                .filter(|name| !name.trim().is_empty())
                .collect(),
            ..Self::default()
        }
    }

    /// Returns those of a fact: what states it, its value in the runs where that was said, and its parts together.
    pub(super) fn of_fact<'a>(
        quotes: impl Iterator<Item = &'a String>,
        runs: Vec<String>,
        fact: [&str; 3],
    ) -> Self {
        let quotes = quotes
            .map(|quote| whole(quote))
            .filter(|quote| !quote.is_empty())
            .collect();
        let [entity, attribute, value] =
            fact.map(|part| squeezed(part.trim().trim_end_matches('.')));
        let whom = Some(entity).filter(|entity| entity != "user");
        let parts = [value.clone(), attribute]
            .into_iter()
            .chain(whom)
            .filter(|part| !part.is_empty())
            .collect();
        Self {
            quotes,
            runs,
            value,
            parts,
            ..Self::default()
        }
    }

    /// Returns it with what else is called by its words.
    pub(super) fn named<'a>(self, names: impl Iterator<Item = &'a str>) -> Self {
        Self {
            names: names.map(squeezed).collect(),
            ..self
        }
    }

    /// Returns it without what is in sentences that state something else.
    pub(super) fn but<'a>(self, others: impl Iterator<Item = &'a String>) -> Self {
        let is_another = |other: &String| {
            let has_it = text::has_word(other, &self.value)
                || self
                    .quotes
                    .iter()
                    .any(|quote| other.contains(quote.as_str()));
            has_it
                && !self
                    .quotes
                    .iter()
                    .any(|quote| quote.contains(other.as_str()))
        };
        Self {
            others: others
                .map(|other| whole(other))
                .filter(is_another)
                .collect(),
            ..self
        }
    }

    /// Returns it with names of downloads that are looked for in what is erased.
    pub(super) fn noting(self, downloads: Vec<String>) -> Self {
        Self { downloads, ..self }
    }

    /// Returns true when a name or a sentence of it is in `text`.
    pub(super) fn stand_in(&self, text: &str) -> bool {
        self.stand_in_squeezed(text, &self.without_others(squeezed(text)))
    }

    fn stand_in_squeezed(&self, text: &str, squeezed: &str) -> bool {
        self.names.iter().any(|name| is_named(name, text, squeezed))
            || self
                .quotes
                .iter()
                .any(|words| text::has_word(squeezed, words))
    }

    /// As [`Words::stand_in`], where somebody keeps notes: a short sentence may be a part of one that says something else.
    pub(super) fn stand_alone_in(&self, text: &str) -> bool {
        self.are_alone_in(text, |_| true)
    }

    /// As [`Words::stand_alone_in`], for what is numbers, mostly: there short words stand by chance.
    pub(super) fn stand_in_numbers(&self, text: &str) -> bool {
        self.are_alone_in(text, |word| word.len() >= NO_CHANCE)
    }

    fn are_alone_in(&self, text: &str, wanted: impl Fn(&str) -> bool) -> bool {
        let lines = lines_squeezed(text);
        let squeezed = self.without_others(lines.replace('\n', " "));
        let stands_alone = |quote: &str| {
            let is_long = quote.split(' ').count() >= LONG;
            squeezed
                .match_indices(quote)
                .any(|(at, _)| is_long || is_alone(&lines, at, at + quote.len()))
        };
        self.names
            .iter()
            .filter(|name| wanted(name))
            .any(|name| is_named(name, text, &squeezed))
            || self
                .quotes
                .iter()
                .filter(|quote| wanted(quote))
                .any(|quote| text::has_word(&squeezed, quote) && stands_alone(quote))
    }

    /// Returns true when something of it is in `text`: an event, a row, a line.
    pub(super) fn are_in(&self, text: &str) -> bool {
        let squeezed = self.without_others(squeezed(text));
        let is_hit = self.stand_in_squeezed(text, &squeezed)
            || (!self.parts.is_empty()
                && self
                    .parts
                    .iter()
                    .all(|part| text::has_word(&squeezed, part)))
            || (self.runs.iter().any(|run| text.contains(run.as_str()))
                && text::has_word(&squeezed, &self.value));
        if is_hit {
            let met = self
                .downloads
                .iter()
                .filter(|name| text.contains(name.as_str()))
                .cloned();
            self.met.lock().extend(met);
        }
        is_hit
    }

    /// Returns `squeezed` with as many other bytes where something else is stated.
    fn without_others(&self, squeezed: String) -> String {
        self.others.iter().fold(squeezed, |text, other| {
            match text.contains(other.as_str()) {
                true => text.replace(other.as_str(), &"\0".repeat(other.len())),
                false => text,
            }
        })
    }

    /// Returns true when something of it is in bytes that may be anything.
    pub(super) fn are_in_bytes(&self, bytes: &[u8]) -> bool {
        self.are_in(&String::from_utf8_lossy(bytes))
    }

    /// Returns true when the value of a fact is in `bytes`, whoever it is of and in whatever words.
    pub(super) fn have_value_in(&self, bytes: &[u8]) -> bool {
        !self.value.is_empty()
            && text::has_word(&squeezed(&String::from_utf8_lossy(bytes)), &self.value)
    }

    /// Returns the names that are words of every day, too: in small letters they are taken for those.
    pub(super) fn words_too(&self) -> impl Iterator<Item = &String> {
        self.names.iter().filter(|name| facts::is_word_too(name))
    }

    /// Returns true when the download `name` belongs to what was found.
    pub(super) fn have_met(&self, name: &str) -> bool {
        self.met.lock().contains(name)
    }
}

/// Returns true when `name` is in `text`, which is `squeezed`. One that is a word of every day counts as it does where it
/// is only to count no more.
fn is_named(name: &str, text: &str, squeezed: &str) -> bool {
    text::has_word(squeezed, name)
        && (!facts::is_word_too(name) || facts::names_by_word(&as_written(text), name))
}

/// Returns a sentence without its end, squeezed; of one that was cut, its beginning.
fn whole(quote: &str) -> String {
    squeezed(quote.trim_end_matches(['…', '.']))
        .trim()
        .to_owned()
}

/// Returns true when nothing is next to `lines[from..to]` in its line but marks, or another sentence.
fn is_alone(lines: &str, from: usize, to: usize) -> bool {
    let (before, after) = (
        lines.get(..from).unwrap_or_default(),
        lines.get(to..).unwrap_or_default(),
    );
    let ends =
        |letter: char| letter == '\n' || (!letter.is_alphanumeric() && !",|'’&/".contains(letter));
    before
        .trim_end_matches(' ')
        .chars()
        .next_back()
        .is_none_or(ends)
        && after
            .trim_start_matches(' ')
            .chars()
            .next()
            .is_none_or(ends)
}

/// Returns `text` in lower case with one space for all space between words, and with what JSON writes as `\n` or `\"` as it
/// is; JSON in a string of JSON, too.
pub(super) fn squeezed(text: &str) -> String {
    lines_squeezed(text).replace('\n', " ")
}

/// As [`squeezed`], byte for byte, with line feeds where lines end.
fn lines_squeezed(text: &str) -> String {
    folded(as_written(text).to_lowercase())
}

/// As [`lines_squeezed`], in the letters in which it is written.
fn as_written(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let letter = if letter == '\\' {
            unescaped(&mut letters)
        } else {
            letter
        };
        if letter.is_whitespace() {
            let space = if letter == '\n' { '\n' } else { ' ' };
            match out.chars().next_back() {
                Some(' ') if space == '\n' => drop(out.pop().map(|_| out.push('\n'))),
                Some(' ' | '\n') => {}
                _ => out.push(space),
            }
        } else {
            out.push(letter);
        }
    }
    out
}

/// Returns text without differences that nobody sees: compatibility forms (NFKC), then the case of letters.
fn folded(text: String) -> String {
    if text.is_ascii() {
        return text;
    }
    let lower = text.nfkc().flat_map(char::to_lowercase);
    let mut out = String::with_capacity(text.len());
    for letter in lower {
        match letter {
            'ß' => out.push_str("ss"),
            'ς' => out.push('σ'),
            // I is small ı in Turkish, and İ small i: here all are one letter.
            'ı' => out.push('i'),
            '\u{307}' if out.ends_with('i') => {}
            letter => out.push(letter),
        }
    }
    out.nfkc().collect()
}

fn unescaped(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> char {
    while letters.next_if_eq(&'\\').is_some() {}
    match letters.peek().copied() {
        Some(sign @ ('n' | 't' | 'r')) => {
            letters.next();
            if sign == 'n' { '\n' } else { ' ' }
        }
        Some(sign @ ('"' | '/')) => {
            letters.next();
            sign
        }
        Some('u') => {
            let digits: String = letters.clone().skip(1).take(4).collect();
            let code = u32::from_str_radix(&digits, 16)
                .ok()
                .filter(|_| digits.len() == 4)
                .and_then(char::from_u32);
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
        let names = [
            "Bob Smith".to_owned(),
            "jürgen".to_owned(),
            "1002".to_owned(),
        ];
        let words = Words::of_person(names.iter());
        let found = [
            "call BOB  smith!",
            r#"{"text":"dear\nBob\nSmith"}"#,
            r#"{"a":"{\"b\":\"x\\nbob smith\"}"}"#,
            "J\u{dc}RGEN",
            r"J\u00fcrgen",
            "agent:a:telegram:dm:1002",
        ];
        found
            .iter()
            .for_each(|text| assert!(words.are_in(text), "{text}"));
        [
            "bob",
            "bobsmith",
            "bob smithson",
            "Jürgens",
            "11002",
            r"\u12",
        ]
        .iter()
        .for_each(|text| assert!(!words.are_in(text), "{text}"));
        assert!(words.are_in_bytes(b"\xff\x00bob smith\xfe"));
    }

    #[test]
    fn a_name_that_is_a_word_of_every_day_counts_with_a_capital_or_alone() {
        let names = ["will".to_owned(), "may".to_owned()];
        let words = Words::of_person(names.iter());
        [
            "I met Will.",
            r#"{"text":"so\nWill came"}"#,
            "scope\nwill\n",
            "person:will\nuser",
            "workspace/memory/people/will.md",
            "May called",
        ]
        .iter()
        .for_each(|text| assert!(words.are_in(text) && words.stand_in(text), "{text}"));
        [
            "it will help",
            r#"{"text":"so\nwill they"}"#,
            "- Birthday: 3 May",
            "I may",
        ]
        .iter()
        .for_each(|text| assert!(!words.are_in(text) && !words.stand_alone_in(text), "{text}"));
        assert!(words.stand_alone_in("- Will: Faro"));
        assert_eq!(words.words_too().count(), 2);
    }

    #[test]
    fn a_name_is_found_where_no_space_stands_beside_it() {
        let names = ["李明".to_owned(), "민수".to_owned()];
        let words = Words::of_person(names.iter());
        [
            "我的朋友李明喜欢茶。",
            r#"{"text":"\u674e\u660e来了"}"#,
            "- 민수는 내일 온다",
        ]
        .iter()
        .for_each(|text| assert!(words.are_in(text) && words.stand_alone_in(text), "{text}"));
        assert!(!words.are_in("李小明"));
    }

    #[test]
    fn what_states_something_else_is_left_alone() {
        let own = ["Birthday: 3 May".to_owned()];
        let others = [
            "Ana's birthday: 3 May".to_owned(),
            "Birthday: 3 May".to_owned(),
            "a dog".to_owned(),
        ];
        let words = Words::of_fact(own.iter(), Vec::new(), ["user", "birthday", "3 May"])
            .but(others.iter());
        [
            "- Birthday: 3 May\n",
            "x\nBirthday: 3  May\ny",
            "As I said. Birthday:\n3 May. Then",
        ]
        .iter()
        .for_each(|text| assert!(words.stand_alone_in(text) && words.are_in(text), "{text}"));
        [
            "- Ana's birthday: 3 May",
            "- Birthday: 3 May 1990",
            "| Tom | Birthday: 3 May |",
            "- Birthdays: 3 May",
        ]
        .iter()
        .for_each(|text| assert!(!words.stand_alone_in(text), "{text}"));
        assert!(
            !words.are_in("- Ana's birthday: 3 May")
                && words.are_in("echo: Ana's birthday: 3 May. Your birthday: 3 May")
        );
        let long = ["we moved to a house in Porto".to_owned()];
        let words = Words::of_fact(long.iter(), Vec::new(), ["user", "lives in", "Porto"]);
        assert!(words.stand_alone_in("yes, we moved to a house in Porto and like it"));
    }

    #[test]
    fn a_sentence_is_found_anywhere_and_its_value_where_it_was_said() {
        let quotes = ["My dog \"Rex\" is".to_owned()];
        let words = Words::of_fact(
            quotes.iter(),
            vec!["run-1".to_owned()],
            ["Ann", "dog", "Rex."],
        )
        .noting(vec!["file-7".to_owned()]);
        assert!(words.are_in(r#"x{"t":"My dog \"rex\" is old"}"#));
        assert!(
            words.are_in(r#"{"run_id":"run-1","text":"Rex, then.","path":"downloads/file-7/a"}"#)
        );
        assert!(words.are_in("the dog of Ann: rex"));
        assert!(!words.are_in("my dog is rex") && !words.stand_in("the dog of Ann: rex"));
        assert!(
            !words.are_in(r#"{"run_id":"run-2","text":"Rex"}"#) && !words.are_in("run-1: Rexona")
        );
        assert!(words.have_met("file-7") && !words.have_met("file-8"));
    }

    #[test]
    fn what_looks_the_same_is_the_same() {
        let check = |one: &str, other: &str| assert_eq!(squeezed(one), squeezed(other), "{one}");
        check("Zoë", "Zoe\u{308}");
        check("Ｚｏë", "zoë");
        check("STRASSE", "Straße");
        check("IŞIL", "Işıl");
        check("ışıl", "Işıl");
        check("İBRAHİM", "İbrahim");
        check("ibrahim", "İbrahim");
        check("ΟΔΟΣ", "οδος");
        check("ﬁle", "FILE");
    }
}
