//! Cosines between the words of a question and thousands of other words, by the pieces of the words.
//!
//! The product of each piece with the question's words is computed once and added up for a word; its own vector is
//! never made. Its length is computed only for words that may be similar enough.

use super::dot;
use super::static_table::Table;

/// A lower bound: the squared length of a word's vector is at least this share of the sum of those of its pieces (of
/// 34,000 words, made up or English, none is shorter).
const SHORTEST: f32 = 0.7;
/// The largest number of a word's vector in whole numbers: a sum of 4,096 products fits into 32 bits. The error of a
/// cosine is below 0.0002.
const ROUNDED: f32 = 4095.0;

/// The words of a question, ready to be compared with others.
pub struct SimilarWords<'a> {
    table: &'a mut Table,
    words: Vec<Word>,
    /// For each piece where its row starts in `rows`; the row has its product with each of the words, then its squared
    /// length.
    row_starts: Vec<u32>,
    rows: Vec<f32>,
    /// Scratch space: the numbers of a piece, and the cosines of the last word.
    numbers: Vec<i16>,
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

impl<'a> SimilarWords<'a> {
    /// Takes the words to compare with; one that is `None` or unknown is similar to nothing.
    pub fn new<'b>(table: &'a mut Table, words: impl Iterator<Item = Option<&'b str>>) -> Self {
        let words: Vec<Word> = words
            .map(|word| Word::new(word.and_then(|word| table.word(word)).unwrap_or_default()))
            .collect();
        let row_starts = vec![NONE; table.len()];
        Self {
            table,
            words,
            row_starts,
            rows: Vec::new(),
            numbers: Vec::new(),
            cosines: Vec::new(),
        }
    }

    /// Returns true without words to compare with.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the vector of a text, see [`Table::text`].
    pub fn text(&mut self, text: &str) -> Option<Vec<f32>> {
        self.table.text(text)
    }

    /// Returns true for data, see [`Table::is_data`].
    pub fn is_data(&self, token: &str) -> bool {
        self.table.is_data(token)
    }

    /// Returns the cosines of `word` with each of the words; `None` when all are below `least`, or `word` is unknown.
    pub fn cosines(&mut self, word: &str, least: f32) -> Option<&[f32]> {
        let split = *self.table.split(word);
        self.cosines.clear();
        let Some(pieces) = split.pieces() else {
            let vector = self.table.word(word)?;
            self.cosines
                .extend(self.words.iter().map(|word| dot(&word.vector, &vector)));
            return self.reached(least);
        };
        let (first, others) = pieces.split_first()?;
        let width = self.words.len() + 1;
        let start = self.row(*first);
        self.cosines
            .extend_from_slice(self.rows.get(start..start.saturating_add(width))?);
        for piece in others {
            let start = self.row(*piece);
            self.cosines
                .iter_mut()
                .zip(self.rows.get(start..)?)
                .for_each(|(sum, x)| *sum += x);
        }
        let squares = self.cosines.pop()?;
        let shortest = if split.length > 0.0 {
            split.length
        } else {
            (SHORTEST * squares).sqrt()
        };
        self.reached(least * shortest)?;
        let length = if split.length > 0.0 {
            split.length
        } else {
            self.table.length(&split)
        };
        if length < 1e-6 {
            return None;
        }
        self.table.split(word).length = length;
        self.cosines.iter_mut().for_each(|cosine| *cosine /= length);
        self.reached(least)
    }

    fn reached(&self, least: f32) -> Option<&[f32]> {
        self.cosines
            .iter()
            .any(|cosine| *cosine >= least)
            .then_some(&*self.cosines)
    }

    /// Returns where the row of a piece starts in `rows`.
    fn row(&mut self, piece: u16) -> usize {
        let Some(start) = self.row_starts.get_mut(usize::from(piece)) else {
            return usize::MAX;
        };
        if *start == NONE {
            *start = u32::try_from(self.rows.len()).unwrap_or(NONE);
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
        usize::try_from(*start).unwrap_or(usize::MAX)
    }
}

/// Returns the dot product; of whole numbers of this size the compiler multiplies eight at once.
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
        let mut near = SimilarWords::new(&mut table, given);
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
