//! Answers to questions: lines of the memory that bear on them, quoted, each with its place.

use std::sync::Arc;

use super::intent::{self, Intent};
use super::remember::{self, Note};
use super::request::{Turn, own_words};
use super::search_hits::{self, Hit, Line, Speaker};
use super::words::asks;
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
    /// A number is the better answer.
    wants_number: bool,
    candidates: Vec<Candidate>,
    /// The question itself was found.
    was_asked: bool,
}

impl Search {
    fn new(question: &str) -> Self {
        let mut words = Words::new();
        let wanted = stems(&mut words, question);
        let low = text::head(question, 40).to_lowercase();
        let numbers = ["when", "how m", "what time", "how old"];
        Self {
            words,
            wanted,
            wants_number: numbers.iter().any(|start| low.starts_with(start)),
            candidates: Vec::new(),
            was_asked: false,
        }
    }

    /// Returns the stems of a line; of an order to remember those of what is to be kept.
    fn stems_of(&mut self, bare: &str) -> Stems {
        match remember::read(bare) {
            Some(Note::Keep(note)) => stems(&mut self.words, &note),
            Some(Note::Secret | Note::Empty) | None => stems(&mut self.words, bare),
        }
    }

    /// Returns how many percent of the question are in `found`.
    fn covered(&self, found: &[Arc<str>]) -> u32 {
        let weight = |stem: &Arc<str>| if WEAK.contains(&&**stem) { 1 } else { 3 };
        let all: u32 = self.wanted.iter().map(weight).sum();
        let both = self.wanted.iter().filter(|stem| found.contains(stem));
        both.map(weight).sum::<u32>() * 100 / all.max(1)
    }

    /// Returns what speaks for a line: the share of the question in it, then who says it, then how well it was found.
    fn score(&self, covered: u32, text: &str, speaker: Speaker, percent: u32) -> u32 {
        let by = match speaker {
            Speaker::Person => 100,
            Speaker::File => 110,
            Speaker::Agent => 0,
        };
        let has_number = self.wants_number && text.contains(|c: char| c.is_ascii_digit());
        // What has every word is as good as anything; how rare its words are no longer matters.
        let percent = if covered == 100 { 100 } else { percent };
        covered * 10 + by + percent + if has_number { 60 } else { 0 }
    }

    fn hit(&mut self, hit: &Hit<'_>) {
        let lines = hit.place.rsplit(':').next().unwrap_or("");
        let start = lines.split('-').next().and_then(|line| line.parse().ok());
        let day = day(hit.place).to_owned();
        let candidate = |line: &Line<'_>, words: &str, stems, at| Candidate {
            words: shown(words),
            place: place(hit.place, line.speaker),
            score: hit.percent,
            is_sure: false,
            stems,
            age: (day.clone(), start.unwrap_or(0), at),
        };
        for (at, line) in hit.lines.iter().enumerate() {
            let bare = line.bare();
            let stems = self.stems_of(bare);
            let own = self.covered(&stems);
            let intent = intent::read(bare, None);
            let is_small_talk =
                line.speaker != Speaker::File && matches!(intent, Intent::SmallTalk(_));
            if asks(bare)
                || matches!(
                    intent,
                    Intent::Command(_) | Intent::Question(_) | Intent::Summary(_)
                )
            {
                self.was_asked |= own > 0;
                continue;
            }
            let heading = self::stems(&mut self.words, line.heading);
            let under = self.covered(&[stems.as_slice(), &heading].concat());
            let covered = own.max((under + own) / 2);
            let asks_anything = self.wanted.is_empty() && line.speaker != Speaker::Agent;
            if is_small_talk || covered < MIN_COVERED && !asks_anything {
                continue;
            }
            let words = match line.speaker {
                Speaker::Person => bare,
                Speaker::Agent | Speaker::File => line.text,
            };
            self.candidates.push(Candidate {
                score: self.score(covered, line.text, line.speaker, hit.percent),
                is_sure: hit.percent >= SURE_PERCENT && (covered >= 34 || self.wanted.is_empty()),
                ..candidate(line, words, stems, at)
            });
        }
        // Found by another form of its words. Of several lines nobody can say which one it is.
        if let (true, false, [line]) = (self.candidates.is_empty(), self.was_asked, &hit.lines[..])
            && !remember::is_secret(line.bare())
        {
            let stems = self.stems_of(line.bare());
            self.candidates.push(candidate(line, line.text, stems, 0));
        }
    }

    /// Adds what the person said in this conversation: the index has only what has ended.
    fn said_here(&mut self, turn: &Turn<'_>) {
        let said = turn
            .earlier
            .iter()
            .filter_map(own_words)
            .flat_map(str::lines);
        for (at, line) in said
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .enumerate()
        {
            let stems = self.stems_of(line);
            let covered = self.covered(&stems);
            let intent = intent::read(line, None);
            let is_statement = matches!(intent, Intent::Statement | Intent::SmallTalk(_));
            if covered >= 34 && is_statement && !asks(line) {
                self.candidates.push(Candidate {
                    words: shown(line),
                    place: "earlier in this conversation".to_owned(),
                    score: self.score(covered, line, Speaker::File, SURE_PERCENT),
                    is_sure: covered >= 50,
                    stems,
                    // After everything that has ended.
                    age: ("~".to_owned(), at, 0),
                });
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
                self.candidates.push(Candidate {
                    words: shown(&words),
                    place,
                    score: covered * 10 + 100,
                    is_sure: covered >= 50,
                    stems,
                    age: Default::default(),
                });
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
