//! Splits text into comparable words: without case and accents, with irregular forms and endings normalized (`Bought` and
//! `buying` are `buy`).
//!
//! The stem is Porter's for Latin letters, Snowball's for Cyrillic, Greek and Arabic. Scripts without spaces (Chinese,
//! Japanese, Thai, Lao, Khmer, Burmese) give pairs of letters, and so does Korean, whose words take their endings without a
//! space. What is indexed gives these letters also alone, so that a word of one letter is found. Emoji are a word each.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{decompose_canonical, is_combining_mark};

use super::stop_words;

/// Raised when the same text no longer gives the same words: then everything is indexed again.
pub(crate) const VERSION: u32 = 2;
/// Longer ones (keys, data) are cut: nobody types them.
const MAX_LETTERS: usize = 40;
/// What is remembered of words seen; a book has fewer.
const MAX_KNOWN: usize = 100_000;

/// A word as it is compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Word {
    /// The stem: letters and digits, lower case.
    pub text: Arc<str>,
    /// Stands for it in the rows of the database.
    pub code: u32,
}

/// By the code of a word; and codes.
pub(crate) type ByCode<V> = HashMap<u32, V, BuildHasherDefault<AsItIs>>;
pub(crate) type Codes = HashSet<u32, BuildHasherDefault<AsItIs>>;

/// Hashes what is a hash already.
#[derive(Default)]
pub(crate) struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes
            .iter()
            .fold(self.0, |hash, byte| hash << 8 | u64::from(*byte));
    }

    fn write_u32(&mut self, code: u32) {
        // A table looks at the highest bits, too.
        self.0 = u64::from(code).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Takes texts apart. Remembers the stems of the words it has seen.
pub(crate) struct Words {
    latin: Stemmer,
    cyrillic: Stemmer,
    greek: Stemmer,
    arabic: Stemmer,
    known: HashMap<String, Word, BuildHasherDefault<Fnv>>,
}

impl Words {
    pub(crate) fn new() -> Self {
        Self {
            latin: Stemmer::create(Algorithm::English),
            cyrillic: Stemmer::create(Algorithm::Russian),
            greek: Stemmer::create(Algorithm::Greek),
            arabic: Stemmer::create(Algorithm::Arabic),
            known: HashMap::default(),
        }
    }

    /// Returns the words of `text`, which is searched, in order.
    pub(crate) fn of(&mut self, text: &str) -> Vec<Word> {
        let mut words = Vec::new();
        split(text, Letters::Also, |word| words.push(self.stem(word)));
        words
    }

    /// Returns the stems of the words that say what `text` is about, in order, also twice.
    pub(crate) fn telling(&mut self, text: &str) -> Vec<Arc<str>> {
        let mut stems = Vec::new();
        each_word(text, |word| {
            if !stop_words::is_stop(word) {
                stems.push(self.stem(word).text);
            }
        });
        stems
    }

    /// Returns the words of a question that say what it is about, each once. All of them when there
    /// are no others.
    pub(crate) fn of_query(&mut self, text: &str) -> Vec<Word> {
        self.of_question(text)
            .into_iter()
            .map(|(_, word)| word)
            .collect()
    }

    /// Returns the same with each word as it is there, folded.
    pub(crate) fn of_question(&mut self, text: &str) -> Vec<(String, Word)> {
        let (mut telling, mut all) = (Vec::new(), Vec::new());
        each_word(text, |word| {
            let stem = self.stem(word);
            let is_new = |words: &[(String, Word)]| words.iter().all(|(_, known)| *known != stem);
            if !stop_words::is_stop(word) && is_new(&telling) {
                telling.push((word.to_owned(), stem.clone()));
            }
            if is_new(&all) {
                all.push((word.to_owned(), stem));
            }
        });
        if telling.is_empty() { all } else { telling }
    }

    fn stem(&mut self, raw: &str) -> Word {
        if let Some(word) = self.known.get(raw) {
            return word.clone();
        }
        let text = self.stem_of(raw);
        let code = fnv(&text);
        let word = Word {
            text: text.into(),
            code,
        };
        if self.known.len() < MAX_KNOWN {
            self.known.insert(raw.to_owned(), word.clone());
        }
        word
    }

    fn stem_of(&self, raw: &str) -> String {
        let stemmer = match raw.chars().next() {
            Some('a'..='z') if raw.len() < 3 => return raw.to_owned(),
            Some('a'..='z') => &self.latin,
            Some('\u{400}'..='\u{52f}') => &self.cyrillic,
            Some('\u{370}'..='\u{3ff}') => &self.greek,
            Some('\u{600}'..='\u{6ff}') => &self.arabic,
            _ => return raw.to_owned(),
        };
        let base = stop_words::base_of(raw).unwrap_or(raw);
        let stem = stemmer.stem(base);
        if stem.is_empty() {
            base.to_owned()
        } else {
            stem.into_owned()
        }
    }
}

/// Whether letters of scripts that give pairs are words, too, where there is a pair.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Letters {
    Also,
    InPairs,
}

/// Gives `each` the words of `text` as they are there, folded.
pub(crate) fn each_word(text: &str, each: impl FnMut(&str)) {
    split(text, Letters::InPairs, each);
}

fn split(text: &str, single: Letters, mut each: impl FnMut(&str)) {
    if text.is_ascii() {
        return each_ascii_word(text, each);
    }
    let mut word = String::new();
    let mut letters = 0;
    let mut unspaced = Vec::new();
    let mut put = |c: char| {
        if is_unspaced(c) {
            end(&mut word, &mut letters, &mut each);
            unspaced.push(c);
            return;
        }
        end_unspaced(&mut unspaced, single, &mut each);
        if c.is_alphanumeric() || (letters > 0 && is_combining_mark(c)) {
            if letters < MAX_LETTERS {
                word.push(c);
            }
            letters += 1;
        } else if is_picture(c) {
            end(&mut word, &mut letters, &mut each);
            each(c.encode_utf8(&mut [0; 4]));
        } else if !is_joint(c) {
            end(&mut word, &mut letters, &mut each);
        }
    };
    text.nfkc()
        .flat_map(char::to_lowercase)
        .map(plain)
        .for_each(&mut put);
    put(' ');
}

/// Does the same, several times as fast.
fn each_ascii_word(text: &str, mut each: impl FnMut(&str)) {
    let mut lower = String::new();
    for word in text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        let word = word.get(..MAX_LETTERS).unwrap_or(word);
        if word.bytes().any(|byte| byte.is_ascii_uppercase()) {
            lower.clear();
            lower.push_str(word);
            lower.make_ascii_lowercase();
            each(&lower);
        } else {
            each(word);
        }
    }
}

fn end(word: &mut String, letters: &mut usize, each: &mut impl FnMut(&str)) {
    if !word.is_empty() {
        each(word);
        word.clear();
        *letters = 0;
    }
}

fn end_unspaced(letters: &mut Vec<char>, single: Letters, each: &mut impl FnMut(&str)) {
    for pair in letters.windows(2) {
        each(&pair.iter().collect::<String>());
    }
    if letters.len() == 1 || single == Letters::Also {
        for letter in letters.iter().filter(|letter| letter.is_alphanumeric()) {
            each(letter.encode_utf8(&mut [0; 4]));
        }
    }
    letters.clear();
}

/// Takes the accents off Latin and Greek letters, and the dots off ё; й is a letter of its own.
fn plain(c: char) -> char {
    let mut base = c;
    if matches!(c, '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1fff}' | '\u{370}'..='\u{3ff}' | 'ё') {
        let mut first = None;
        decompose_canonical(c, |part| {
            first.get_or_insert(part);
        });
        base = first.unwrap_or(c);
    }
    base
}

/// Scripts that put no space between words or before endings.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e01}'..='\u{e4e}' | '\u{e81}'..='\u{ece}' | '\u{edc}'..='\u{edf}'
        | '\u{1000}'..='\u{103f}' | '\u{1050}'..='\u{108f}' | '\u{1780}'..='\u{17d3}' | '\u{ac00}'..='\u{d7af}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

fn is_picture(c: char) -> bool {
    matches!(c, '\u{2600}'..='\u{27bf}' | '\u{1f300}'..='\u{1faff}')
}

/// Marks inside a word or a picture that nobody sees: soft hyphen, joiners, variation selectors.
fn is_joint(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{fe00}'..='\u{fe0f}')
}

/// FNV-1a, 64 bits: a third of the time of the usual hash for a word, and nobody gains by making them collide in his
/// own notes.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |sum, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// FNV-1a, 32 bits: the same in every version and on every machine.
fn fnv(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let words: Vec<Arc<str>> = Words::new()
            .of(text)
            .into_iter()
            .map(|word| word.text)
            .collect();
        assert_eq!(words.join(" "), expected, "{text}");
    }

    #[test]
    fn words_are_compared_without_case_accents_and_endings() {
        check("Painting PAINTED, paints!", "paint paint paint");
        check("Café naïve Straße", "cafe naiv straße");
        check(
            "I bought two mice; they went home",
            "i buy two mous they go home",
        );
        check("well-known o'clock don't", "well know o clock don t");
        check("2023-05-08 v1.2", "2023 05 08 v1 2");
        check("собаки собака", "собак собак");
        check("東京タワー x", "東京 京タ タワ ワー 東 京 タ ワ ー x");
        check("東", "東");
        check("서울에서 집", "서울 울에 에서 서 울 에 서 집");
        check("🎉 party👨‍👩‍👧", "🎉 parti 👨 👩 👧");
        check("co\u{ad}operate", "cooper");
        check("\"'*()-^:{} \t", "");
    }

    #[test]
    fn a_question_is_about_its_telling_words() {
        let check = |text: &str, expected: &str| {
            let words: Vec<Arc<str>> = Words::new()
                .of_query(text)
                .into_iter()
                .map(|word| word.text)
                .collect();
            assert_eq!(words.join(" "), expected, "{text}");
        };
        check("When did I buy the new car, and which car?", "buy new car");
        check("to be or not to be", "to be or not");
        check("Was kostet eine Wohnung?", "kostet wohnung");
        check("東京タワー", "東京 京タ タワ ワー");
        check("집", "집");
        check("ตลาด", "ตล ลา าด");
        check("", "");
    }

    #[test]
    fn a_word_without_end_is_cut() {
        check(&"x".repeat(5000), &"x".repeat(MAX_LETTERS));
    }
}
