//! Splits text into the word pieces that a model of the BERT family knows, in lower case and without accents.
//!
//! A word that is not in the vocabulary is cut into the longest pieces that are; a piece that continues a word
//! is written `##ing`. The rules are those of the uncased `BertTokenizer`.

use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// A longer word is unknown.
const MAX_LETTERS: usize = 100;

/// The pieces that a model knows, numbered from 0. Built in less than a millisecond: a program that
/// answers one question builds one, too.
#[derive(Debug, Clone, Default)]
pub(super) struct Vocabulary {
    /// All pieces, one behind the other, and where each begins; the last entry is the end.
    text: String,
    starts: Vec<u32>,
    /// Hash table of pieces with open addressing: hashes and numbers, [`FREE`] where there is none. Its length is
    /// a power of two.
    slots: Vec<(u32, u32)>,
    /// Bloom filter over the hashes: most non-pieces are recognised without a look at the slots (which saves a third
    /// of the time).
    filter: Vec<u64>,
    /// Bytes of the longest piece.
    longest: usize,
}

const FREE: u32 = u32::MAX;

impl Vocabulary {
    /// Returns the vocabulary of `pieces`; the first has number 0. Of equals the first counts.
    pub(super) fn new<'a>(pieces: impl Iterator<Item = &'a str>) -> Self {
        let mut all = Self {
            starts: vec![0],
            filter: vec![0; FILTER_BITS / 64],
            ..Self::default()
        };
        for piece in pieces {
            all.text.push_str(piece);
            all.starts
                .push(u32::try_from(all.text.len()).unwrap_or(u32::MAX));
            all.longest = all.longest.max(piece.len());
        }
        all.slots = vec![(0, FREE); (all.len() * 2).next_power_of_two()];
        for number in 0..u32::try_from(all.len()).unwrap_or(0) {
            let piece = all.piece(number).as_bytes();
            let hash = hash(BASIS, piece);
            if let Err(free) = all.find(hash, piece, &[]) {
                let (word, bit) = filter_bit(hash);
                all.slots[free] = (hash, number);
                all.filter[word] |= bit;
            }
        }
        all
    }

    /// Returns how many pieces there are.
    pub(super) fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Returns the number of the piece that is `begin` and `end` together; `hash` is that of both.
    fn number(&self, hash: u32, begin: &[u8], end: &[u8]) -> Option<u32> {
        let (word, bit) = filter_bit(hash);
        self.filter.get(word).filter(|bits| *bits & bit != 0)?;
        self.find(hash, begin, end).ok()
    }

    fn piece(&self, number: u32) -> &str {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let bound = |at: usize| usize::try_from(*self.starts.get(at)?).ok();
        let bounds = bound(at).zip(bound(at.saturating_add(1)));
        bounds
            .and_then(|(start, end)| self.text.get(start..end))
            .unwrap_or_default()
    }

    /// Returns the number of that piece, else the slot that is free for it.
    fn find(&self, hash: u32, begin: &[u8], end: &[u8]) -> Result<u32, usize> {
        let mask = self.slots.len() - 1;
        let mut slot = usize::try_from(hash ^ hash >> 15).unwrap_or(0) & mask;
        loop {
            let (other, number) = self.slots.get(slot).copied().unwrap_or((0, FREE));
            if number == FREE {
                return Err(slot);
            }
            if other == hash
                && self
                    .piece(number)
                    .as_bytes()
                    .strip_prefix(begin)
                    .is_some_and(|rest| rest == end)
            {
                return Ok(number);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Calls `each` with the words of `text` in order, as the vocabulary writes them; punctuation is a word.
    pub(super) fn words(&self, text: &str, mut each: impl FnMut(&str)) {
        let mut word = String::new();
        if text.is_ascii() {
            return ascii_words(text, &mut word, &mut each);
        }
        let letters = text.chars().filter(|c| !is_invisible(*c));
        for c in letters.nfd().filter(|c| !is_accent(*c)) {
            for c in c.to_lowercase() {
                let is_alone = is_punctuation(c) || is_han(c);
                if !is_alone && !c.is_whitespace() {
                    word.push(c);
                    continue;
                }
                end(&mut word, &mut each);
                if is_alone {
                    each(c.encode_utf8(&mut [0; 4]));
                }
            }
        }
        end(&mut word, &mut each);
    }

    /// Calls `each` with the pieces of one word that is written as the vocabulary writes it; `None` for an unknown word.
    pub(super) fn word(&self, word: &str, each: &mut impl FnMut(Option<u32>)) {
        if word.is_empty() {
            return;
        }
        if let Some(piece) = self.number(hash(BASIS, word.as_bytes()), word.as_bytes(), &[]) {
            return each(Some(piece));
        }
        let (mut found, mut hashes) = (Vec::new(), Vec::new());
        let mut start = 0;
        while start < word.len() {
            let begin: &[u8] = if start == 0 { b"" } else { b"##" };
            let rest = word.as_bytes().get(start..).unwrap_or_default();
            let most = rest.len().min(self.longest.saturating_sub(begin.len()));
            hashes.clear();
            hashes.extend(
                rest.iter()
                    .take(most)
                    .scan(hash(BASIS, begin), |sum, byte| {
                        *sum = step(*sum, *byte);
                        Some(*sum)
                    }),
            );
            let fitting = (1..=most)
                .rev()
                .zip(hashes.iter().rev())
                .find_map(|(length, hash)| {
                    let piece = rest
                        .get(..length)
                        .filter(|_| word.is_char_boundary(start + length))?;
                    Some((start + length, self.number(*hash, begin, piece)?))
                });
            let Some((end, number)) = fitting.filter(|_| word.chars().count() <= MAX_LETTERS)
            else {
                return each(None);
            };
            found.push(number);
            start = end;
        }
        found.into_iter().for_each(|number| each(Some(number)));
    }
}

/// Does the same as [`Vocabulary::words`], three times as fast.
fn ascii_words(text: &str, word: &mut String, each: &mut impl FnMut(&str)) {
    for c in text.bytes() {
        match c {
            b'\t' | b'\n' | b'\r' | b' ' => end(word, each),
            c if c.is_ascii_punctuation() => {
                end(word, each);
                each(char::from(c).encode_utf8(&mut [0; 4]));
            }
            c if c.is_ascii_control() => {}
            c => word.push(char::from(c.to_ascii_lowercase())),
        }
    }
    end(word, each);
}

fn end(word: &mut String, each: &mut impl FnMut(&str)) {
    if !word.is_empty() {
        each(word);
        word.clear();
    }
}

/// FNV-1a: of what comes before, and of one byte more.
const BASIS: u32 = 0x811c_9dc5;

fn step(sum: u32, byte: u8) -> u32 {
    (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
}

/// Bits of [`Vocabulary::filter`]: a tenth of them are set for 30,000 pieces, and they fit into the nearest memory.
const FILTER_BITS: usize = 1 << 18;

fn filter_bit(hash: u32) -> (usize, u64) {
    let bit = usize::try_from(hash.wrapping_mul(0x9e37_79b1) >> 14).unwrap_or(0);
    (bit / 64, 1 << (bit % 64))
}

fn hash(before: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(before, |sum, byte| step(sum, *byte))
}

/// Returns true for punctuation: in ASCII every symbol is.
fn is_punctuation(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_punctuation();
    }
    c.general_category_group() == GeneralCategoryGroup::Punctuation
}

/// Returns true for Chinese characters, each of which is a word by itself.
fn is_han(c: char) -> bool {
    matches!(
        u32::from(c),
        0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x2_0000..=0x2_a6df | 0x2_a700..=0x2_ceaf | 0x2_f800..=0x2_fa1f
    )
}

fn is_accent(c: char) -> bool {
    !c.is_ascii() && c.general_category() == GeneralCategory::NonspacingMark
}

/// Returns true for control, format and private characters, which are dropped.
fn is_invisible(c: char) -> bool {
    use GeneralCategory::{Control, Format, PrivateUse};
    match c {
        '\t' | '\n' | '\r' => false,
        '\u{fffd}' => true,
        _ if c.is_ascii() => c.is_ascii_control(),
        _ => matches!(c.general_category(), Control | Format | PrivateUse),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_the_longest_pieces_that_are_known() {
        let vocabulary = Vocabulary::new(
            ["the", "cat", "##s", "play", "##ing", "!", "cafe", "東", "'"].into_iter(),
        );
        let check = |text: &str, expected: &[Option<u32>]| {
            let mut found = Vec::new();
            vocabulary.words(text, |word| {
                vocabulary.word(word, &mut |piece| found.push(piece))
            });
            assert_eq!(found, expected, "{text}");
        };
        check("The cats", &[Some(0), Some(1), Some(2)]);
        check("playing!the", &[Some(3), Some(4), Some(5), Some(0)]);
        check("CAFÉ\n東東", &[Some(6), Some(7), Some(7)]);
        check("dog cat dogs", &[None, Some(1), None]);
        check("", &[]);
        check(" \t\0\u{fffd}\u{301}", &[]);
        check(&"cat".repeat(50), &[None]);
        check("c\u{ad}a\u{200b}t\0s", &[Some(1), Some(2)]);
    }

    #[test]
    fn characters_are_classed_as_the_models_tokenizer_does() {
        let check = |yes: fn(char) -> bool, these: &str, not: &str| {
            these.chars().for_each(|c| assert!(yes(c), "{c:?}"));
            not.chars().for_each(|c| assert!(!yes(c), "{c:?}"));
        };
        check(
            |c| is_punctuation(c) || is_han(c),
            "!$`~\u{a1}\u{2014}\u{2026}\u{3001}\u{3400}\u{9fff}\u{ff01}\u{10100}",
            "aZ0 \u{a0}\u{a2}\u{e9}\u{20ac}\u{3042}\u{1f600}",
        );
        check(
            is_accent,
            "\u{300}\u{36f}\u{93c}\u{fe0f}\u{e01ef}",
            "a\u{2ff}\u{370}\u{93e}\u{20dd}\u{1f3fb}",
        );
        check(
            is_invisible,
            "\0\u{7f}\u{85}\u{ad}\u{200d}\u{feff}\u{fffd}\u{e000}\u{10fffd}",
            "\t\n\r a\u{a0}\u{2028}",
        );
    }
}
