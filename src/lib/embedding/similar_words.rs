//! Which words are near to those of a question. A question meets thousands of words, but of fewer pieces: what
//! the pieces have to do with the question is added up, and no vector is made of a word. Only its length is needed
//! beside that, where it may be near.

use super::dot;
use super::static_table::Table;

/// A word whose pieces point against each other is shorter than they are side by side; its length squared is taken
/// for at least this share of the sum of theirs: of 34,000 words, made up or English, none is shorter.
const SHORTEST: f32 = 0.7;
/// What the largest number of a word's vector becomes: a sum of 4,096 products fits into 32 bits. A cosine is
/// off by less than 0.0002.
const ROUNDED: f32 = 4095.0;

/// Some words that others are compared with.
pub struct Near<'a> {
    table: &'a mut Table,
    words: Vec<Word>,
    /// By piece, where its row begins, and the rows: its product with each of the words, then its length squared.
    places: Vec<u32>,
    rows: Vec<f32>,
    /// The numbers of the piece whose row is made.
    numbers: Vec<i16>,
    /// Of the word that was looked at last.
    cosines: Vec<f32>,
}

struct Word {
    /// Of length 1.
    vector: Vec<f32>,
    /// The same as whole numbers, and what they are multiplied with.
    rounded: Vec<i16>,
    scale: f32,
}

const NONE: u32 = u32::MAX;

impl<'a> Near<'a> {
    /// Begins with some words; one that is `None` or unknown is near to nothing.
    pub fn new<'b>(table: &'a mut Table, words: impl Iterator<Item = Option<&'b str>>) -> Self {
        let words: Vec<Word> = words
            .map(|word| Word::new(word.and_then(|word| table.word(word)).unwrap_or_default()))
            .collect();
        let places = vec![NONE; table.len()];
        Self {
            table,
            words,
            places,
            rows: Vec::new(),
            numbers: Vec::new(),
            cosines: Vec::new(),
        }
    }

    /// Returns true when there are no words to compare with.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the vector of a text, see [`Table::text`].
    pub fn text(&mut self, text: &str) -> Option<Vec<f32>> {
        self.table.text(text)
    }

    /// Returns the cosines of `word` and each of the words; `None` when none of them is `least`, or the word is
    /// unknown.
    pub fn cosines(&mut self, word: &str, least: f32) -> Option<&[f32]> {
        let cut = *self.table.cut(word);
        self.cosines.clear();
        let Some(pieces) = cut.pieces() else {
            let vector = self.table.word(word)?;
            self.cosines
                .extend(self.words.iter().map(|word| dot(&word.vector, &vector)));
            return self.reached(least);
        };
        let (first, others) = pieces.split_first()?;
        let width = self.words.len() + 1;
        let place = self.row(*first);
        self.cosines
            .extend_from_slice(self.rows.get(place..place.saturating_add(width))?);
        for piece in others {
            let place = self.row(*piece);
            self.cosines
                .iter_mut()
                .zip(self.rows.get(place..)?)
                .for_each(|(sum, x)| *sum += x);
        }
        let squares = self.cosines.pop()?;
        let shortest = if cut.length > 0.0 {
            cut.length
        } else {
            (SHORTEST * squares).sqrt()
        };
        self.reached(least * shortest)?;
        let length = if cut.length > 0.0 {
            cut.length
        } else {
            self.table.length(&cut)
        };
        if length < 1e-6 {
            return None;
        }
        self.table.cut(word).length = length;
        self.cosines.iter_mut().for_each(|cosine| *cosine /= length);
        self.reached(least)
    }

    fn reached(&self, least: f32) -> Option<&[f32]> {
        self.cosines
            .iter()
            .any(|cosine| *cosine >= least)
            .then_some(&*self.cosines)
    }

    /// Returns where the row of a piece begins.
    fn row(&mut self, piece: u16) -> usize {
        let Some(place) = self.places.get_mut(usize::from(piece)) else {
            return usize::MAX;
        };
        if *place == NONE {
            *place = u32::try_from(self.rows.len()).unwrap_or(NONE);
            let (scale, _, bytes) = self.table.piece(u32::from(piece)).unwrap_or_default();
            let Self {
                words,
                rows,
                numbers,
                ..
            } = self;
            numbers.clear();
            numbers.extend(bytes.iter().map(|number| i16::from(number.cast_signed())));
            rows.extend(
                words
                    .iter()
                    .map(|word| scale * word.scale * product(numbers, &word.rounded)),
            );
            rows.push(scale * scale * product(numbers, numbers));
        }
        usize::try_from(*place).unwrap_or(usize::MAX)
    }
}

/// Returns the sum of the products; of whole numbers of this size the compiler multiplies eight at once.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn product(numbers: &[i16], others: &[i16]) -> f32 {
    numbers
        .iter()
        .zip(others)
        .map(|(number, other)| i32::from(*number) * i32::from(*other))
        .sum::<i32>() as f32
}

impl Word {
    fn new(vector: Vec<f32>) -> Self {
        let scale = vector.iter().fold(0.0_f32, |most, x| most.max(x.abs())) / ROUNDED;
        #[expect(clippy::cast_possible_truncation, reason = "4,095 at most")]
        let rounded = vector
            .iter()
            .map(|x| {
                if scale > 0.0 {
                    (x / scale).round() as i16
                } else {
                    0
                }
            })
            .collect();
        Self {
            vector,
            rounded,
            scale,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::embedding::static_table::FILE;

    #[test]
    fn words_are_as_near_as_their_vectors_say_however_often_they_come() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("share")
            .join(FILE);
        let (mut table, mut other) = (
            Table::open(&path).expect("a table"),
            Table::open(&path).expect("a table"),
        );
        let question = ["garden", "unbelievably", "zugzwang", "bought"]
            .map(|word| table.word(word).expect("a vector"));
        let mut words: Vec<String> = ["tree", "gardener", "purchase", "incredible", "🦔", "garden"]
            .map(str::to_owned)
            .into();
        let parts = [
            "gar", "plo", "shea", "ntu", "bel", "wouk", "sterd", "xq", "ing",
        ];
        words.extend(
            parts
                .iter()
                .flat_map(|a| parts.iter().map(move |b| format!("{a}{b}"))),
        );
        // More pieces than are kept of a word.
        words.extend(
            parts
                .iter()
                .map(|part| format!("{}{part}", "xqz".repeat(9))),
        );
        let given = ["garden", "unbelievably", "zugzwang", "bought"]
            .map(Some)
            .into_iter()
            .chain([None, Some("🦔")]);
        let mut near = Near::new(&mut table, given);
        let (least, mut found) = (0.3, 0);
        for word in words.iter().chain(&words) {
            let exact = other.word(word).map_or([0.0; 4], |vector| {
                question.each_ref().map(|word| dot(word, &vector))
            });
            let best = exact.iter().fold(0.0_f32, |best, x| best.max(*x));
            let cosines = near.cosines(word, least);
            assert!(
                cosines.is_some() == (best >= least) || (best - least).abs() < 2e-4,
                "{word} {best}"
            );
            if let Some(cosines) = cosines {
                found += 1;
                assert!(
                    cosines
                        .iter()
                        .zip(&exact)
                        .all(|(a, b)| (a - b).abs() < 2e-4),
                    "{word} {cosines:?} {exact:?}"
                );
                assert_eq!(cosines.get(4..), Some(&[0.0, 0.0][..]), "{word}");
            }
        }
        assert!(found >= 16 && found < words.len() * 2, "{found}");
    }
}
