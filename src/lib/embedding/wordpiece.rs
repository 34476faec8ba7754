//! Words as the pieces that a model of the BERT family knows; mostly in lower case and without accents.
//!
//! A word that is not in the vocabulary is cut into the longest pieces that are; those that go on
//! are written `##ing`. The rules are those of the `BertTokenizer`; by default the uncased one.

use unicode_normalization::UnicodeNormalization;

use super::char_class::{is_accent, is_alone, is_nothing};

/// A longer word is none that the vocabulary was made of.
const MAX_LETTERS: usize = 100;

/// The pieces that a model knows, each with its number. Made in less than a millisecond: a program that
/// answers one question has one, too.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary {
    /// All pieces, one behind the other, and where each begins; the last entry is the end.
    text: String,
    starts: Vec<u32>,
    /// Hashes and numbers of pieces, each near the place of its hash; [`FREE`] where there is none. As many as
    /// a power of two.
    slots: Vec<(u32, u32)>,
    /// A bit for each piece at a place that its hash gives: most of what is no piece is known for that at once,
    /// without a look at the slots (a third of the time of cutting a word).
    there: Vec<u64>,
    /// The numbers that others know them by, where those are not 0, 1, 2, ….
    numbers: Option<Vec<u32>>,
    /// Bytes of the longest piece.
    longest: usize,
    spelling: Spelling,
}

const FREE: u32 = u32::MAX;

/// How the pieces are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spelling {
    /// In lower case.
    pub lower: bool,
    /// Without accents.
    pub plain: bool,
}

impl Default for Spelling {
    fn default() -> Self {
        Self {
            lower: true,
            plain: true,
        }
    }
}

impl Vocabulary {
    /// Returns the vocabulary of `pieces`; the first has number 0. Of equals the first counts.
    pub fn new<'a>(pieces: impl Iterator<Item = &'a str>) -> Self {
        Self::made(pieces, None, Spelling::default())
    }

    /// Returns the vocabulary of `pieces` with their numbers, which are written as `spelling` says.
    pub fn numbered(pieces: impl Iterator<Item = (Box<str>, u32)>, spelling: Spelling) -> Self {
        let (pieces, numbers): (Vec<Box<str>>, Vec<u32>) = pieces.unzip();
        Self::made(pieces.iter().map(|piece| &**piece), Some(numbers), spelling)
    }

    fn made<'a>(
        pieces: impl Iterator<Item = &'a str>,
        numbers: Option<Vec<u32>>,
        spelling: Spelling,
    ) -> Self {
        let (text, starts, slots, there) =
            (String::new(), vec![0], Vec::new(), vec![0; THERE / 64]);
        let mut all = Self {
            text,
            starts,
            slots,
            there,
            numbers,
            longest: 0,
            spelling,
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
            let (at, bit) = bit_of(hash);
            if let Err(place) = all.find(hash, piece, &[]) {
                all.slots
                    .get_mut(place)
                    .into_iter()
                    .for_each(|slot| *slot = (hash, number));
                all.there
                    .get_mut(at)
                    .into_iter()
                    .for_each(|bits| *bits |= bit);
            }
        }
        all
    }

    /// Returns how many pieces there are.
    pub fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Returns the highest number of a piece.
    pub fn highest(&self) -> Option<u32> {
        let last = u32::try_from(self.len()).ok()?.checked_sub(1)?;
        self.numbers
            .as_ref()
            .map_or(Some(last), |numbers| numbers.iter().max().copied())
    }

    /// Returns the number of `piece`.
    pub fn get(&self, piece: &str) -> Option<u32> {
        self.number(hash(BASIS, piece.as_bytes()), piece.as_bytes(), &[])
    }

    /// Returns the number of the piece that is `begin` and `end` together; `hash` is that of both.
    fn number(&self, hash: u32, begin: &[u8], end: &[u8]) -> Option<u32> {
        let (place, bit) = bit_of(hash);
        self.there.get(place).filter(|bits| *bits & bit != 0)?;
        let at = self.find(hash, begin, end).ok()?;
        self.numbers.as_ref().map_or(Some(at), |numbers| {
            numbers.get(usize::try_from(at).ok()?).copied()
        })
    }

    fn piece(&self, number: u32) -> &str {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let bounds = self
            .starts
            .get(at)
            .zip(self.starts.get(at.saturating_add(1)));
        let bounds = bounds.and_then(|(start, end)| {
            Some(usize::try_from(*start).ok()?..usize::try_from(*end).ok()?)
        });
        bounds
            .and_then(|bounds| self.text.get(bounds))
            .unwrap_or_default()
    }

    /// Returns the place of that piece, else the slot that is free for it.
    fn find(&self, hash: u32, begin: &[u8], end: &[u8]) -> Result<u32, usize> {
        let mask = self.slots.len() - 1;
        let mut place = usize::try_from(hash ^ hash >> 15).unwrap_or(0) & mask;
        loop {
            let (other, number) = self.slots.get(place).copied().unwrap_or((0, FREE));
            if number == FREE {
                return Err(place);
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
            place = (place + 1) & mask;
        }
    }

    /// Gives `each` the pieces of `text` in order; `None` for a word that it has no pieces for.
    pub fn pieces(&self, text: &str, mut each: impl FnMut(Option<u32>)) {
        self.words(text, |word| self.word(word, &mut each));
    }

    /// Gives `each` the words of `text` in order, as the vocabulary writes them; what is a word by itself is one.
    pub fn words(&self, text: &str, mut each: impl FnMut(&str)) {
        let mut word = String::new();
        if text.is_ascii() && self.spelling.lower {
            return ascii_words(text, &mut word, &mut each);
        }
        let mut put = |c: char| {
            let is_alone = is_alone(c);
            if is_alone || c.is_whitespace() {
                end(&mut word, &mut each);
            } else {
                word.push(c);
            }
            if is_alone {
                each(c.encode_utf8(&mut [0; 4]));
            }
        };
        let Spelling { lower, plain } = self.spelling;
        let letters = text.chars().filter(|c| !is_nothing(*c));
        let mut spell = |c: char| {
            if lower {
                c.to_lowercase().for_each(&mut put)
            } else {
                put(c)
            }
        };
        if plain && !text.is_ascii() {
            letters
                .nfd()
                .filter(|c| !is_accent(*c))
                .for_each(&mut spell);
        } else {
            letters.for_each(&mut spell);
        }
        put(' ');
    }

    /// Gives `each` the pieces of one word that is written as the vocabulary writes it.
    pub fn word(&self, word: &str, each: &mut impl FnMut(Option<u32>)) {
        if word.is_empty() {
            return;
        }
        if let Some(piece) = self.get(word) {
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

/// Bits of [`Vocabulary::there`]: a tenth of them are set for 30,000 pieces, and they fit into the nearest memory.
const THERE: usize = 1 << 18;

fn bit_of(hash: u32) -> (usize, u64) {
    let bit = usize::try_from(hash.wrapping_mul(0x9e37_79b1) >> 14).unwrap_or(0);
    (bit / 64, 1 << (bit % 64))
}

fn hash(before: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(before, |sum, byte| step(sum, *byte))
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
            vocabulary.pieces(text, |piece| found.push(piece));
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
    fn a_vocabulary_with_capitals_or_accents_keeps_them() {
        let found = |spelling: Spelling, text: &str| {
            let pieces = ["Cafe", "café", "cafe", "CAFÉ"]
                .into_iter()
                .map(Box::from)
                .zip(0..);
            let mut found = Vec::new();
            Vocabulary::numbered(pieces, spelling).pieces(text, |piece| found.extend(piece));
            found
        };
        assert_eq!(
            found(
                Spelling {
                    lower: false,
                    plain: true
                },
                "Café"
            ),
            [0]
        );
        assert_eq!(
            found(
                Spelling {
                    lower: true,
                    plain: false
                },
                "CAFÉ"
            ),
            [1]
        );
        assert_eq!(
            found(
                Spelling {
                    lower: true,
                    plain: true
                },
                "CAFÉ"
            ),
            [2]
        );
        assert_eq!(
            found(
                Spelling {
                    lower: false,
                    plain: false
                },
                "CAFÉ"
            ),
            [3]
        );
    }
}
