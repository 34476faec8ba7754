//! Similarity in meaning: which words of a line are similar to a word of the question, and how similar the whole line is.
//! Only the table is fast enough for this.

use super::candidates::{MAX_WORDS, Term};
use super::query_vector::QueryVector;
use crate::embedding::dot;
use crate::embedding::similar_words::SimilarWords;
use crate::language::stop_words;
use crate::language::tokenize::{ByCode, each_word};

/// A word is near from this cosine on, and one that is nevertheless counts this share of the word itself.
/// Both measured, see docs/memory.md.
const NEAR: f32 = 0.3;
const COUNTS: f32 = 0.4;
/// Shorter words are near to everything.
const LETTERS: usize = 3;

/// How near each word of the question is to one word: between 0 and [`COUNTS`].
pub(crate) type Nearness = [f32; MAX_WORDS];

/// What a question means.
pub(crate) struct Meaning<'a> {
    /// Of the question, of length 1.
    vector: Vec<f32>,
    /// Compares with the question's words, in the order of its terms.
    near: Option<SimilarWords<'a>>,
    /// By the code of a word, what was found out about it; `None` for one that is near to nothing.
    known: ByCode<Option<Box<Nearness>>>,
}

impl<'a> Meaning<'a> {
    /// Returns what `vector` and the words behind `terms`, as they are in `text`, mean.
    pub(crate) fn new(vector: QueryVector<'a>, terms: &[Term]) -> Self {
        let near = vector.table.map(|table| {
            let is_word = |raw: &&str| raw.chars().count() >= LETTERS && !table.is_data(raw);
            let words = terms.iter().map(|term| term.raw.as_str());
            let words: Vec<_> = words.map(|raw| Some(raw).filter(is_word)).collect();
            SimilarWords::new(table, words.into_iter())
        });
        Self {
            vector: vector.numbers,
            near,
            known: ByCode::default(),
        }
    }

    /// Returns true where every line has a vector of its own.
    pub(crate) fn knows_lines(&self) -> bool {
        self.near.is_some()
    }

    /// Returns the vector of the question.
    pub(crate) fn vector(&self) -> &[f32] {
        &self.vector
    }

    /// Returns how near the words of a line are to those of the question: of each the nearest. `codes` are
    /// those of the words, in their order.
    pub(crate) fn of_line(&mut self, text: &str, codes: &[u32]) -> Nearness {
        let mut best = [0.0; MAX_WORDS];
        let Some(near) = self.near.as_mut().filter(|near| !near.is_empty()) else {
            return best;
        };
        let mut take = |near: &Nearness| {
            best.iter_mut()
                .zip(near)
                .for_each(|(best, near)| *best = best.max(*near))
        };
        // Where one of them is new, those before it are taken twice, which changes nothing.
        let mut known = |code| {
            self.known
                .get(code)
                .map(|near| near.as_deref().into_iter().for_each(&mut take))
        };
        if codes.iter().all(|code| known(code).is_some()) {
            return best;
        }
        let mut codes = codes.iter();
        for token in text.split_whitespace() {
            // Some piece of a key is near to every word.
            let is_data = near.is_data(token);
            each_word(token, |word| {
                let Some(code) = codes.next().filter(|_| !is_data) else {
                    return;
                };
                let is_telling =
                    || word.chars().nth(LETTERS - 1).is_some() && !stop_words::is_stop(word);
                let known = self.known.entry(*code);
                let known = known.or_insert_with(|| {
                    near.cosines(word, NEAR)
                        .filter(|_| is_telling())
                        .map(nearness)
                });
                known.as_deref().into_iter().for_each(&mut take);
            });
        }
        best
    }

    /// Returns the cosine of the question and a line; `None` where lines have no vectors of their own.
    pub(crate) fn cosine(&mut self, text: &str) -> Option<f32> {
        let line = self.near.as_mut()?.text(text)?;
        Some(dot(&line, &self.vector))
    }
}

fn nearness(cosines: &[f32]) -> Box<Nearness> {
    let mut near = [0.0; MAX_WORDS];
    for (near, cosine) in near.iter_mut().zip(cosines) {
        *near = ((cosine - NEAR) / (1.0 - NEAR)).clamp(0.0, 1.0) * COUNTS;
    }
    Box::new(near)
}
