//! Answers to questions: relevant lines of the memory, quoted with their places.

use std::sync::Arc;

use super::intent::{self, Intent};
use super::remember::{self, Note};
use super::request::{Turn, own_words};
use super::search_hits::{self, Hit, Speaker};
use crate::language::tokenize::Words;
use crate::text;

/// Quotations in an answer.
const MAX_QUOTES: usize = 3;
/// Characters of one.
const MAX_QUOTE_CHARS: usize = 300;
/// Below this score (percent) a hit is offered with doubt.
const SURE_PERCENT: u32 = 35;
/// A line with less of the question in it (percent) is about something else.
const MIN_COVERED: u32 = 30;
/// One with less is offered with doubt.
const SURE_COVERED: u32 = 34;
/// Stems of words that say what kind of answer is wanted more than what it is about; they count a third.
const WEAK: [&str; 11] = [
    "name", "call", "number", "time", "day", "thing", "old", "say", "know", "tell", "ask",
];

pub(super) const QUOTED: &str =
    "quotations, found by their words; without a language model I do not understand them";
const SURE: &str = "This is what I find";
const UNSURE: &str = "I am not sure that this is what you ask for";
pub(super) const NOTHING: &str =
    "I found nothing about that in my memory. I go by words, so try others.";
pub(super) const ONLY_ASKED: &str = "I found only that this was asked before, and no answer to it.";

/// The stems of a text, each once.
type Stems = Vec<Arc<str>>;

/// A line that may be quoted.
#[derive(Default)]
struct Candidate {
    words: String,
    place: String,
    score: u32,
    is_sure: bool,
    stems: Stems,
    /// Of equals the newest comes first: the day of its file, then its place in it.
    age: (String, usize, usize),
}

/// Returns the answer to `question` out of what `memory_search` gave, what the person said
/// earlier in this conversation, and the facts that memory put before the message.
pub(super) fn answer(question: &str, found: &str, turn: &Turn<'_>) -> String {
    let mut search = Search::new(question);
    for hit in &search_hits::read(found) {
        search.hit(hit);
    }
    search.said_here(turn);
    search.facts(turn);
    let mut candidates = search.candidates;
    candidates.sort_by(|a, b| (b.score, &b.age).cmp(&(a.score, &a.age)));
    let floor = candidates.first().map_or(0, |best| best.score * 6 / 10);
    let mut quotes: Vec<&Candidate> = Vec::new();
    for candidate in candidates.iter().filter(|one| one.score >= floor) {
        // What a better line has said already is not said again.
        let says_all = |quote: &&Candidate| {
            candidate
                .stems
                .iter()
                .all(|stem| quote.stems.contains(stem))
        };
        if quotes.len() < MAX_QUOTES && !quotes.iter().any(says_all) {
            quotes.push(candidate);
        }
    }
    let Some(best) = quotes.first() else {
        return if search.was_asked {
            ONLY_ASKED
        } else {
            NOTHING
        }
        .to_owned();
    };
    let opening = if best.is_sure { SURE } else { UNSURE };
    let explained = match turn.has_said(QUOTED) {
        true => String::new(),
        false => format!(" ({QUOTED})"),
    };
    let quote = |quote: &&Candidate| format!("> {}\n— {}", quote.words, quote.place);
    let quotes: Vec<String> = quotes.iter().map(quote).collect();
    format!("{opening}{explained}:\n\n{}", quotes.join("\n\n"))
}

struct Search {
    words: Words,
    wanted: Stems,
    candidates: Vec<Candidate>,
    /// The question itself was found.
    was_asked: bool,
}

impl Search {
    fn new(question: &str) -> Self {
        let mut words = Words::new();
        let wanted = stems(&mut words, question);
        Self {
            words,
            wanted,
            candidates: Vec::new(),
            was_asked: false,
        }
    }

    /// Returns the stems of a line; of an order to remember those of what is to be kept.
    fn stems_of(&mut self, line: &str) -> Stems {
        match remember::read(line) {
            Some(Note::Keep(note)) => stems(&mut self.words, &note),
            Some(Note::Secret | Note::Empty) | None => stems(&mut self.words, line),
        }
    }

    /// Returns how many percent of the question are in `found`.
    fn covered(&self, found: &[Arc<str>]) -> u32 {
        let weight = |stem: &Arc<str>| if WEAK.contains(&&**stem) { 1 } else { 3 };
        let all: u32 = self.wanted.iter().map(weight).sum();
        let both = self.wanted.iter().filter(|stem| found.contains(stem));
        both.map(weight).sum::<u32>() * 100 / all.max(1)
    }

    /// Scores a line: the share of the question in it, then who says it, then how well it was found.
    fn add(&mut self, speaker: Speaker, percent: u32, covered: u32, candidate: Candidate) {
        let by = match speaker {
            Speaker::Person => 100,
            Speaker::File => 110,
            Speaker::Agent => 0,
        };
        // What has every word is as good as anything; how rare its words are no longer matters.
        let found = if covered == 100 { 100 } else { percent };
        let is_about = covered >= SURE_COVERED || self.wanted.is_empty();
        self.candidates.push(Candidate {
            score: covered * 10 + by + found,
            is_sure: percent >= SURE_PERCENT && is_about,
            words: shown(&candidate.words),
            ..candidate
        });
    }

    fn hit(&mut self, hit: &Hit<'_>) {
        let lines = hit.place.rsplit(':').next().unwrap_or("");
        let start = lines.split('-').next().and_then(|line| line.parse().ok());
        for (at, line) in hit.lines.iter().enumerate() {
            let bare = line.bare();
            let stems = self.stems_of(bare);
            let own = self.covered(&stems);
            let is_talk = line.speaker != Speaker::File;
            let is_told = match intent::read(bare, None) {
                Intent::Command(_) | Intent::Question(_) | Intent::Summary(_) => {
                    self.was_asked |= own > 0;
                    false
                }
                Intent::SmallTalk(_) => !is_talk,
                Intent::Remember(_) | Intent::Statement | Intent::Nothing => true,
            };
            let heading = self::stems(&mut self.words, line.heading);
            let under = self.covered(&[stems.as_slice(), &heading].concat());
            let covered = own.max((under + own) / 2);
            let asks_anything = self.wanted.is_empty() && line.speaker != Speaker::Agent;
            if !is_told || covered < MIN_COVERED && !asks_anything {
                continue;
            }
            let words = match line.speaker {
                Speaker::Person => bare,
                Speaker::Agent | Speaker::File => line.text,
            };
            let candidate = Candidate {
                words: words.to_owned(),
                place: place(hit.place, line.speaker),
                stems,
                age: (day(hit.place).to_owned(), start.unwrap_or(0), at),
                ..Candidate::default()
            };
            self.add(line.speaker, hit.percent, covered, candidate);
        }
    }

    /// Adds what the person said in this conversation: the index has only what has ended.
    fn said_here(&mut self, turn: &Turn<'_>) {
        let said = turn
            .earlier
            .iter()
            .filter_map(own_words)
            .flat_map(str::lines);
        for (at, line) in said.map(str::trim).enumerate() {
            let stems = self.stems_of(line);
            let covered = self.covered(&stems);
            let intent = intent::read(line, None);
            let is_told = matches!(intent, Intent::Statement | Intent::SmallTalk(_));
            if is_told && covered >= SURE_COVERED {
                let candidate = Candidate {
                    words: line.to_owned(),
                    place: "earlier in this conversation".to_owned(),
                    stems,
                    // After everything that has ended.
                    age: ("~".to_owned(), at, 0),
                    ..Candidate::default()
                };
                self.add(Speaker::File, SURE_PERCENT, covered, candidate);
            }
        }
    }

    /// Adds the facts that memory put before the message; of equals the line itself is better.
    fn facts(&mut self, turn: &Turn<'_>) {
        for fact in &turn.facts {
            let parts = fact
                .strip_suffix(')')
                .and_then(|fact| fact.rsplit_once(" ("));
            let Some((fact, source)) = parts else {
                continue;
            };
            let words = match fact.strip_prefix("user: ") {
                Some(what) => format!("you: {what}"),
                None => fact.to_owned(),
            };
            let place = match source.strip_prefix("said ") {
                Some(day) => format!("said on {day}"),
                None => code(source),
            };
            let stems = stems(&mut self.words, &words);
            let covered = self.covered(&stems);
            // Its line was found and may have been corrected since.
            let is_found = self
                .candidates
                .iter()
                .any(|one| one.place.starts_with(&place));
            if covered >= MIN_COVERED && !is_found {
                let candidate = Candidate {
                    words,
                    place,
                    stems,
                    ..Candidate::default()
                };
                self.add(Speaker::Agent, 100, covered, candidate);
            }
        }
    }
}

fn stems(words: &mut Words, text: &str) -> Stems {
    let mut stems = words.telling(text);
    stems.sort_unstable();
    stems.dedup();
    stems
}

/// Returns `PATH:7-7` as `PATH:7`, and before the name of a transcript, which says little to a reader, the
/// day.
fn place(place: &str, speaker: Speaker) -> String {
    let is_one_line = |(start, end): &(&str, &str)| start.rsplit(':').next() == Some(end);
    let one = place.rsplit_once('-').filter(is_one_line);
    let path = code(one.map_or(place, |(start, _)| start));
    let day = day(place);
    if !place.starts_with("state/sessions/") || day.is_empty() {
        return path;
    }
    let said = match speaker {
        Speaker::Agent => "I said",
        Speaker::Person | Speaker::File => "said",
    };
    format!("{said} on {day}: {path}")
}

/// Returns the last `2026-11-22` in the name of a file, empty when there is none.
fn day(place: &str) -> &str {
    let is_day = |part: &&str| {
        part.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
    };
    let mut parts = (0..place.len())
        .rev()
        .filter_map(|at| place.get(at..at + 10));
    parts.find(is_day).unwrap_or("")
}

fn code(path: &str) -> String {
    format!("`{}`", shown(path).replace('`', "'"))
}

fn shown(line: &str) -> String {
    text::shorten(&text::visible(line), MAX_QUOTE_CHARS)
}
