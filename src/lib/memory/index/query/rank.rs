//! Scores every line by how much of the query is in it and in three larger texts around it.
//!
//! ```text
//! part(text)  = Σ weight·tf / (tf + k1·(1 − b + b·length/average)) / Σ weight      over the query's words
//! text(line)  = ¼ part(line) + ¼ part(best three lines with it) + 0.3 part(best chunk with it) + ⅕ part(its file)
//! score       = text, mixed with the cosine of its vector by the strength of the model
//! rank        = score + bonuses; only the order depends on these
//! ```
//! `part` is BM25 divided by what a text could reach at most, so it is between 0 and 1 and means the
//! same in every query: the share of the query that was found. A similar word counts a part of the word itself
//! (`semantic.rs`). A score is shown as its square root, which spreads it: about 0.67 where each word occurs once,
//! 0.35 where a quarter of the weight does. Several sizes find more than one (measured): a line has the answer, its
//! surroundings the topic.

use std::collections::{BTreeMap, HashMap};

use super::candidates::{MAX_WORDS, Term, Totals};
use super::evidence::Stated;
use super::line_signals::LineSignals;
use super::search::Files;
use super::semantic::Meaning;
use crate::language::tokenize::Words;
use crate::memory::index::schema::Packed;

/// BM25: saturation of repeated words, and normalisation by length.
const K1: f32 = 1.2;
const B: f32 = 0.4;
/// The weights of line, three lines, chunk and file.
const WEIGHTS: [f32; 4] = [0.25, 0.25, 0.3, 0.2];
/// Lines before and after a line that are its neighbourhood.
const BESIDE: usize = 1;
/// From this share on a vector alone makes a result.
const STRONG: f32 = 0.3;
/// Lines that are reranked: those that may become results.
const RERANKED: usize = 200;
/// A chunk repeats a part of the one before.
const REPEATED: f32 = 1.2;

/// A chunk as it was read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chunk {
    pub id: i64,
    pub file: i64,
    pub packed: Packed,
    pub text: String,
}

/// A line, or a piece of one, with its score.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line<'a> {
    /// Its number in the file.
    pub number: u32,
    /// Ends with a newline when the line does.
    pub text: &'a str,
    /// Between 0 and 1.
    pub score: f32,
    /// The score of its words, and the cosine of its vector.
    pub text_score: f32,
    pub vector_score: Option<f32>,
    /// The score and its bonuses: what it is sorted by.
    pub rank: f32,
    /// True when it may be a result: a word of the query, or a similar one, is in it or next to it, or a strong model
    /// finds it similar.
    pub is_result: bool,
    /// Which words of the query are in it, a bit a word.
    pub words: u32,
    /// A chunk that holds it.
    pub chunk: i64,
}

/// Lines by file and position.
pub(crate) type Ranked<'a> = BTreeMap<i64, BTreeMap<usize, Line<'a>>>;

/// What scores depend on in addition to the words of the query.
pub(crate) struct Mix<'a, 'm> {
    /// The meaning of the query; `None` for keywords alone.
    pub meaning: Option<&'a mut Meaning<'m>>,
    /// The share of the vectors, 0–1.
    pub share: f32,
    /// The cosines of chunks that were looked up.
    pub cosines: &'a HashMap<i64, f32>,
    /// The words of facts that lines state.
    pub stated: Stated,
    /// The bonuses of lines, and the tokenizer for them.
    pub signals: (LineSignals, &'a mut Words),
    /// The cosine and the bonus of the lines that were reranked, by file and position.
    pub examined: HashMap<(i64, usize), (Option<f32>, f32)>,
}

/// Returns the lines of `chunks` with their scores; the best are to be reranked by [`rerank`].
pub(crate) fn score_lines<'a>(
    chunks: impl Iterator<Item = &'a Chunk>,
    terms: &[Term],
    totals: Totals,
    files: &Files,
    mix: &mut Mix<'_, '_>,
) -> Ranked<'a> {
    let scale = Scale::new(terms, totals);
    let mut by_file: BTreeMap<i64, Vec<&Chunk>> = BTreeMap::new();
    for chunk in chunks {
        by_file.entry(chunk.file).or_default().push(chunk);
    }
    by_file
        .into_iter()
        .map(|(file, chunks)| {
            (
                file,
                lines(
                    &chunks,
                    &scale,
                    files.get(&file).map(|file| file.words),
                    mix,
                ),
            )
        })
        .collect()
}

/// Adds the vectors of the lines themselves and their bonuses to the best lines.
pub(crate) fn rerank<'a>(
    mut ranked: Ranked<'a>,
    terms: &[Term],
    mix: &mut Mix<'_, '_>,
) -> Ranked<'a> {
    let lines = ranked
        .iter_mut()
        .flat_map(|(file, lines)| lines.iter_mut().map(|(at, line)| ((*file, *at), line)));
    let mut best: Vec<((i64, usize), &mut Line<'_>)> =
        lines.filter(|(_, line)| line.score > 0.0).collect();
    if best.len() > RERANKED {
        best.select_nth_unstable_by(RERANKED, |(_, a), (_, b)| b.score.total_cmp(&a.score));
        best.truncate(RERANKED);
    }
    let Mix {
        meaning,
        signals: (signals, words),
        examined,
        ..
    } = mix;
    for (place, line) in best {
        let (cosine, bonus) = examined.entry(place).or_insert_with(|| {
            let cosine = meaning
                .as_deref_mut()
                .and_then(|meaning| meaning.cosine(line.text));
            (cosine, signals.bonus(words, line.text, terms))
        });
        if let Some(cosine) = cosine {
            line.set_vector(mix.share, *cosine);
        }
        line.rank = line.score + *bonus;
    }
    ranked
}

impl Line<'_> {
    fn set_vector(&mut self, share: f32, cosine: f32) {
        let cosine = cosine.clamp(0.0, 1.0);
        self.vector_score = Some(cosine);
        self.score = (1.0 - share) * self.text_score + share * cosine;
        self.rank = self.score;
    }
}

/// How often each word of the query occurs in a text, and the length of the text.
#[derive(Debug, Clone, Copy)]
struct Counted {
    times: [f32; MAX_WORDS],
    length: f32,
}

impl Counted {
    const NOTHING: Self = Self {
        times: [0.0; MAX_WORDS],
        length: 0.0,
    };

    /// Returns which words occur, a bit a word.
    fn bits(&self) -> u32 {
        self.times
            .iter()
            .rev()
            .fold(0, |bits, times| bits << 1 | u32::from(*times > 0.0))
    }

    #[expect(clippy::cast_precision_loss, reason = "words of a chunk")]
    fn add_words(&mut self, words: &[u32], codes: &[u32]) {
        self.length += words.len() as f32;
        for word in words {
            for (times, code) in self.times.iter_mut().zip(codes) {
                if word == code {
                    *times += 1.0;
                }
            }
        }
    }

    /// Counts similar words, or those of a fact that the line states, where the word itself is missing.
    fn add_near(&mut self, near: &[f32; MAX_WORDS]) {
        self.times
            .iter_mut()
            .zip(near)
            .for_each(|(times, near)| *times = times.max(*near));
    }

    fn add(&mut self, other: &Self) {
        self.length += other.length;
        self.times
            .iter_mut()
            .zip(&other.times)
            .for_each(|(times, more)| *times += more);
    }
}

/// The words of a query and the average lengths of texts.
struct Scale {
    codes: Vec<u32>,
    weights: Vec<f32>,
    /// The average length of line, three lines, chunk and file.
    averages: [f32; 4],
}

impl Scale {
    fn new(terms: &[Term], totals: Totals) -> Self {
        let line = totals.words / totals.units.max(1.0);
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let averages = [
            line,
            line * (2 * BESIDE + 1) as f32,
            totals.words * REPEATED / totals.chunks.max(1.0),
            totals.words / totals.files.max(1.0),
        ];
        Self {
            codes: terms.iter().map(|term| term.word.code).collect(),
            weights: terms.iter().map(|term| term.weight).collect(),
            averages: averages.map(|average| average.max(1.0)),
        }
    }

    /// Returns the share of the query in a text of the given size, 0–1.
    fn part(&self, counted: &Counted, size: usize) -> f32 {
        let average = self.averages.get(size).copied().unwrap_or(1.0);
        let damp = K1 * (1.0 - B + B * counted.length / average);
        let found: f32 = counted
            .times
            .iter()
            .zip(&self.weights)
            .map(|(times, weight)| weight * times / (times + damp))
            .sum();
        let all: f32 = self.weights.iter().sum();
        if all > 0.0 { found / all } else { 0.0 }
    }
}

/// A line of a file while it is scored.
struct Unscored<'a> {
    /// Its position in the file.
    at: usize,
    line: Line<'a>,
    counted: Counted,
    /// The share of the query in the best chunk with it, and the best cosine of these chunks.
    in_chunk: f32,
    cosine: Option<f32>,
}

/// The lines of one file, as they come out of its chunks.
struct FileLines<'a> {
    /// In order of their positions.
    places: Vec<Unscored<'a>>,
    whole: Counted,
}

fn lines<'a>(
    chunks: &[&'a Chunk],
    scale: &Scale,
    length: Option<f32>,
    mix: &mut Mix<'_, '_>,
) -> BTreeMap<usize, Line<'a>> {
    let mut file = FileLines {
        places: Vec::new(),
        whole: Counted::NOTHING,
    };
    for chunk in chunks {
        file.add(chunk, scale, mix);
    }
    file.whole.length = length.unwrap_or(file.whole.length);
    let of_file = scale.part(&file.whole, 3);
    let near = file.neighbourhoods(scale);
    file.places
        .into_iter()
        .zip(near)
        .map(|(place, near)| (place.at, place.scored(near, of_file, scale, mix)))
        .collect()
}

impl<'a> FileLines<'a> {
    /// Adds the lines of a chunk; lines that an earlier chunk held already only get its share.
    fn add(&mut self, chunk: &'a Chunk, scale: &Scale, mix: &mut Mix<'_, '_>) {
        let mut whole = Counted::NOTHING;
        whole.add_words(&chunk.packed.context, &scale.codes);
        let mut rest = chunk.text.as_str();
        for (at, packed) in (chunk.packed.first..).zip(&chunk.packed.lines) {
            let Some((text, after)) = rest.split_at_checked(packed.bytes) else {
                break;
            };
            rest = after;
            match self.places.binary_search_by_key(&at, |place| place.at) {
                Ok(there) => self
                    .places
                    .get(there)
                    .into_iter()
                    .for_each(|place| whole.add(&place.counted)),
                Err(free) => {
                    let mut counted = Counted::NOTHING;
                    counted.add_words(&packed.words, &scale.codes);
                    let words = counted.bits();
                    if let Some(meaning) = mix.meaning.as_deref_mut() {
                        counted.add_near(&meaning.of_line(text, &packed.words));
                    }
                    if let Some(words) = mix.stated.get(&(chunk.file, at)) {
                        let mut stated = Counted::NOTHING;
                        stated.add_words(words, &scale.codes);
                        counted.add_near(&stated.times);
                    }
                    whole.add(&counted);
                    self.whole.add(&counted);
                    let line = Line {
                        number: packed.number,
                        text,
                        score: 0.0,
                        text_score: 0.0,
                        vector_score: None,
                        rank: 0.0,
                        words,
                        is_result: false,
                        chunk: chunk.id,
                    };
                    let place = Unscored {
                        at,
                        line,
                        counted,
                        in_chunk: 0.0,
                        cosine: None,
                    };
                    self.places.insert(free, place);
                }
            }
        }
        let (first, end) = (
            chunk.packed.first,
            chunk.packed.first + chunk.packed.lines.len(),
        );
        let start = self.places.partition_point(|place| place.at < first);
        let held = self.places.iter_mut().skip(start);
        let (part, cosine) = (scale.part(&whole, 2), mix.cosines.get(&chunk.id).copied());
        for place in held.take_while(|place| place.at < end) {
            place.in_chunk = place.in_chunk.max(part);
            if let Some(cosine) = cosine {
                place.cosine = Some(place.cosine.unwrap_or_default().max(cosine));
            }
        }
    }

    /// Returns, line by line, the share of the query in the best neighbourhood that the line is in.
    fn neighbourhoods(&self, scale: &Scale) -> Vec<f32> {
        let beside = |number: usize| {
            number.saturating_sub(BESIDE)..(number + BESIDE + 1).min(self.places.len())
        };
        let is_near =
            |one: &Unscored<'_>, other: &Unscored<'_>| one.at.abs_diff(other.at) <= BESIDE;
        let around = self.places.iter().enumerate().map(|(number, place)| {
            let mut near = Counted::NOTHING;
            let others = self.places.get(beside(number)).unwrap_or_default().iter();
            others
                .filter(|other| is_near(place, other))
                .for_each(|other| near.add(&other.counted));
            scale.part(&near, 1)
        });
        let around: Vec<f32> = around.collect();
        let best = self.places.iter().enumerate().map(|(number, place)| {
            let others = beside(number).filter(|other| {
                self.places
                    .get(*other)
                    .is_some_and(|other| is_near(place, other))
            });
            others
                .filter_map(|other| around.get(other).copied())
                .fold(0.0, f32::max)
        });
        best.collect()
    }
}

impl<'a> Unscored<'a> {
    /// Returns the line with its score; `near` and `of_file` are the shares of its neighbourhood and its file.
    fn scored(self, near: f32, of_file: f32, scale: &Scale, mix: &Mix<'_, '_>) -> Line<'a> {
        let [w_line, w_near, w_chunk, w_file] = WEIGHTS;
        let mut line = self.line;
        line.text_score = w_line * scale.part(&self.counted, 0)
            + w_near * near
            + w_chunk * self.in_chunk
            + w_file * of_file;
        line.score = line.text_score;
        line.rank = line.text_score;
        // Of the chunk that it is in, as long as it has none of its own.
        match self.cosine {
            Some(cosine) => line.set_vector(mix.share, cosine),
            None if mix.share > 0.0 && mix.meaning.is_some() => line.score *= 1.0 - mix.share,
            None => {}
        }
        line.is_result = near > 0.0 || (mix.share >= STRONG && line.vector_score.is_some());
        line
    }
}
