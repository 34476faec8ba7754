//! How much of a query stands where: the score of every line, from four sizes of text around it.
//!
//! ```text
//! part(text)  = Σ weight·tf / (tf + k1·(1 − b + b·length/average)) / Σ weight      over the query's words
//! text(line)  = ¼ part(line) + ¼ part(best three lines with it) + 0.3 part(best chunk with it) + ⅕ part(its file)
//! score       = text, mixed with the cosine of its vector by the strength of the model
//! ```
//! `part` is BM25 divided by what a text could reach at most, so it lies between 0 and 1 and means the
//! same in every query: the share of the query that was found. A word that means nearly the same counts a
//! part of the word itself (`meaning.rs`). A score is shown as its root, which spreads it: about 0.67 where
//! each word stands once, 0.35 where a quarter of the weight does. Several sizes find more than one
//! (measured): a line says exactly what was asked, its surroundings what it is about.

use std::collections::{BTreeMap, HashMap};

use super::candidates::{MAX_WORDS, Term, Totals};
use super::evidence::Stated;
use super::line_signals::Cues;
use super::semantic::Meaning;
use crate::language::tokenize::Words;
use crate::memory::index::schema::Packed;

/// How soon a word said again says nothing more, and how much long texts are held back.
const K1: f32 = 1.2;
const B: f32 = 0.4;
/// What line, three lines, chunk and file count.
const WEIGHTS: [f32; 4] = [0.25, 0.25, 0.3, 0.2];
/// Lines beside a line that count as its neighbourhood.
const BESIDE: usize = 1;
/// From this share on a vector alone makes a result.
const STRONG: f32 = 0.3;
/// Lines whose own vectors and cues are looked at: those that may become results.
const CLOSELY: usize = 200;
/// Chunks repeat a part of the one before.
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
    /// What of that the words are worth, and the vector.
    pub text_score: f32,
    pub vector_score: Option<f32>,
    /// What it is worth in the order: the score and what else speaks for it.
    pub rank: f32,
    /// True when it may be a result: a word of the query, or one near to it, stands in it or beside it, or a
    /// strong model thinks so.
    pub is_result: bool,
    /// Which words of the query stand in it, a bit a word.
    pub words: u32,
    /// A chunk that holds it.
    pub chunk: i64,
}

/// Lines by file and place.
pub(crate) type Ranked<'a> = BTreeMap<i64, BTreeMap<usize, Line<'a>>>;

/// How vectors have a part in it.
pub(crate) struct Mix<'a> {
    /// What the query means; `None` for words alone.
    pub meaning: Option<&'a mut Meaning<'a>>,
    /// The share of the vectors, 0–1.
    pub share: f32,
    /// The cosines of chunks that were looked up.
    pub cosines: &'a HashMap<i64, f32>,
    /// Words of facts that lines state.
    pub stated: Stated,
    /// What else a line may have for it, and the words to find that out.
    pub cues: (Cues, &'a mut Words),
    /// What was found by a close look at a line, by file and place: its cosine, and what it gains.
    pub looked: HashMap<(i64, usize), (Option<f32>, f32)>,
}

/// Returns the lines of `chunks` by file and place, each with its score. `lengths` are the words of
/// each file. The best of all are worth a [`closely`] after that.
pub(crate) fn rank<'a>(
    chunks: impl Iterator<Item = &'a Chunk>,
    terms: &[Term],
    totals: Totals,
    lengths: &HashMap<i64, f32>,
    mix: &mut Mix<'_>,
) -> Ranked<'a> {
    let scale = Scale::new(terms, totals);
    let mut files: BTreeMap<i64, Vec<&Chunk>> = BTreeMap::new();
    for chunk in chunks {
        files.entry(chunk.file).or_default().push(chunk);
    }
    files
        .into_iter()
        .map(|(file, chunks)| {
            (
                file,
                lines(&chunks, &scale, lengths.get(&file).copied(), mix),
            )
        })
        .collect()
}

/// Gives the best lines what their own vectors and what speaks for them is worth.
pub(crate) fn closely<'a>(mut ranked: Ranked<'a>, terms: &[Term], mix: &mut Mix<'_>) -> Ranked<'a> {
    let lines = ranked
        .iter_mut()
        .flat_map(|(file, lines)| lines.iter_mut().map(|(at, line)| ((*file, *at), line)));
    let mut best: Vec<((i64, usize), &mut Line<'_>)> =
        lines.filter(|(_, line)| line.score > 0.0).collect();
    if best.len() > CLOSELY {
        best.select_nth_unstable_by(CLOSELY, |(_, a), (_, b)| b.score.total_cmp(&a.score));
        best.truncate(CLOSELY);
    }
    let Mix {
        meaning,
        cues: (cues, words),
        looked,
        ..
    } = mix;
    for (place, line) in best {
        let (cosine, gain) = looked.entry(place).or_insert_with(|| {
            let cosine = meaning
                .as_deref_mut()
                .and_then(|meaning| meaning.cosine(line.text));
            (cosine, cues.gain(words, line.text, terms))
        });
        if let Some(cosine) = cosine {
            line.set_vector(mix.share, *cosine);
        }
        line.rank = line.score + *gain;
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

/// How often each word of the query stands in a text, and how long it is.
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

    /// Returns which words stand there, a bit a word.
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

    /// Lets words that are near, or stated by the line, count where the word itself does not stand.
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

/// What a query is measured by.
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

    /// Returns what a text of the given size has of the query.
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

/// A line of a file with what counts for it.
struct Place<'a> {
    /// Where it stands in the file.
    at: usize,
    line: Line<'a>,
    counted: Counted,
    /// What the best chunk with it has of the query, and the best cosine of those.
    in_chunk: f32,
    cosine: Option<f32>,
}

fn lines<'a>(
    chunks: &[&'a Chunk],
    scale: &Scale,
    length: Option<f32>,
    mix: &mut Mix<'_>,
) -> BTreeMap<usize, Line<'a>> {
    let mut places: Vec<Place<'_>> = Vec::new();
    let mut file = Counted::NOTHING;
    for chunk in chunks {
        let mut whole = Counted::NOTHING;
        whole.add_words(&chunk.packed.context, &scale.codes);
        let mut rest = chunk.text.as_str();
        for (at, line) in (chunk.packed.first..).zip(&chunk.packed.lines) {
            let Some((text, after)) = rest.split_at_checked(line.bytes) else {
                break;
            };
            rest = after;
            match places.binary_search_by_key(&at, |place| place.at) {
                Ok(there) => places
                    .get(there)
                    .into_iter()
                    .for_each(|place| whole.add(&place.counted)),
                Err(free) => {
                    let mut counted = Counted::NOTHING;
                    counted.add_words(&line.words, &scale.codes);
                    let words = counted.bits();
                    if let Some(meaning) = mix.meaning.as_deref_mut() {
                        counted.add_near(&meaning.of_line(text, &line.words));
                    }
                    if let Some(words) = mix.stated.get(&(chunk.file, at)) {
                        let mut stated = Counted::NOTHING;
                        stated.add_words(words, &scale.codes);
                        counted.add_near(&stated.times);
                    }
                    whole.add(&counted);
                    file.add(&counted);
                    let line = Line {
                        number: line.number,
                        text,
                        score: 0.0,
                        text_score: 0.0,
                        vector_score: None,
                        rank: 0.0,
                        words,
                        is_result: false,
                        chunk: chunk.id,
                    };
                    places.insert(
                        free,
                        Place {
                            at,
                            line,
                            counted,
                            in_chunk: 0.0,
                            cosine: None,
                        },
                    );
                }
            }
        }
        let (part, cosine) = (scale.part(&whole, 2), mix.cosines.get(&chunk.id).copied());
        let (first, end) = (
            chunk.packed.first,
            chunk.packed.first + chunk.packed.lines.len(),
        );
        let start = places.partition_point(|place| place.at < first);
        for place in places
            .iter_mut()
            .skip(start)
            .take_while(|place| place.at < end)
        {
            place.in_chunk = place.in_chunk.max(part);
            if let Some(cosine) = cosine {
                place.cosine = Some(place.cosine.unwrap_or_default().max(cosine));
            }
        }
    }
    file.length = length.unwrap_or(file.length);
    let of_file = scale.part(&file, 3);
    // The neighbourhood of a line, then the best of those it is in.
    let beside =
        |number: usize| number.saturating_sub(BESIDE)..(number + BESIDE + 1).min(places.len());
    let is_near = |one: &Place<'_>, other: &Place<'_>| one.at.abs_diff(other.at) <= BESIDE;
    let around = places.iter().enumerate().map(|(number, place)| {
        let mut near = Counted::NOTHING;
        let others = places.get(beside(number)).unwrap_or_default().iter();
        others
            .filter(|other| is_near(place, other))
            .for_each(|other| near.add(&other.counted));
        scale.part(&near, 1)
    });
    let around: Vec<f32> = around.collect();
    let near = places.iter().enumerate().map(|(number, place)| {
        let others = beside(number).filter(|other| {
            places
                .get(*other)
                .is_some_and(|other| is_near(place, other))
        });
        others
            .filter_map(|other| around.get(other).copied())
            .fold(0.0, f32::max)
    });
    let near: Vec<f32> = near.collect();
    let [w_line, w_near, w_chunk, w_file] = WEIGHTS;
    let scored = places.into_iter().zip(near).map(|(place, near)| {
        let Place {
            at,
            mut line,
            counted,
            in_chunk,
            cosine,
        } = place;
        line.text_score = w_line * scale.part(&counted, 0)
            + w_near * near
            + w_chunk * in_chunk
            + w_file * of_file;
        line.score = line.text_score;
        line.rank = line.text_score;
        // Of the chunk that it stands in, as long as it has none of its own.
        match cosine {
            Some(cosine) => line.set_vector(mix.share, cosine),
            None if mix.share > 0.0 && mix.meaning.is_some() => line.score *= 1.0 - mix.share,
            None => {}
        }
        line.is_result = near > 0.0 || (mix.share >= STRONG && line.vector_score.is_some());
        (at, line)
    });
    scored.collect()
}
