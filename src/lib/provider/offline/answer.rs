//! Answers to questions: lines of the memory that bear on them, quoted, each with its place.

use super::hits::{self, Hit, Line, Speaker};
use super::remember::{self, Note};
use super::turn::{Turn, own_words};
use super::wish::{self, Wish};
use super::words::{Words, asks};
use crate::text;

/// Quotations in an answer.
const MAX_QUOTES: usize = 3;
/// Characters of one.
const MAX_QUOTE_CHARS: usize = 300;
/// Below this score (percent) a hit is offered with doubt.
const SURE_PERCENT: u32 = 35;

pub(super) const QUOTED: &str = "quotations, found by their words; without a language model I do not understand them";
const SURE: &str = "This is what I find";
const UNSURE: &str = "I am not sure that this is what you ask for";
pub(super) const NOTHING: &str = "I found nothing about that in my memory. I go by words, so try others. What was just said or written into a file \
    can be found once `agent-index` has run; an ended conversation (`/new`) too.";
pub(super) const ONLY_ASKED: &str = "I found only that this was asked before, and no answer to it.";

/// A line that may be quoted.
struct Candidate {
    words: String,
    place: String,
    score: u32,
    sure: bool,
    key: Vec<String>,
}

/// Returns the answer to `question` out of what `memory_search` gave and what the person said
/// earlier in this conversation.
pub(super) fn answer(question: &str, found: &str, turn: &Turn<'_>) -> String {
    let words = Words::new();
    let mut wanted = words.telling(question);
    wanted.sort_unstable();
    wanted.dedup();
    let hits = hits::read(found);
    let (mut candidates, mut asked) = (Vec::new(), false);
    for hit in &hits {
        consider(hit, question, &wanted, &words, &mut candidates, &mut asked);
    }
    said_here(turn, question, &wanted, &words, &mut candidates);
    // The sort is stable: of equals the better hit stays first.
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.score));
    let mut quotes: Vec<&Candidate> = Vec::new();
    let floor = candidates.first().map_or(0, |best| best.score * 6 / 10);
    for candidate in candidates.iter().filter(|candidate| candidate.score >= floor) {
        if quotes.len() < MAX_QUOTES && quotes.iter().all(|quote| quote.key != candidate.key) {
            quotes.push(candidate);
        }
    }
    let Some(best) = quotes.first() else { return if asked { ONLY_ASKED } else { NOTHING }.to_owned() };
    let opening = if best.sure { SURE } else { UNSURE };
    let quotes: Vec<String> = quotes.iter().map(|quote| format!("> {}\n— {}", quote.words, quote.place)).collect();
    format!("{opening} ({QUOTED}):\n\n{}", quotes.join("\n\n"))
}

fn consider(hit: &Hit<'_>, question: &str, wanted: &[String], words: &Words, into: &mut Vec<Candidate>, asked: &mut bool) {
    for line in &hit.lines {
        let (bare, key) = substance(line, words);
        if asks(bare) || matches!(wish::read(bare, None), Wish::Order(_) | Wish::Question(_) | Wish::Summary(_) | Wish::Myself(_))
        {
            *asked |= share(wanted, &key) > 0;
            continue;
        }
        if line.speaker != Speaker::File && matches!(wish::read(bare, None), Wish::Small(_)) {
            continue;
        }
        let under = words.telling(&line.headings);
        let covered =
            share(wanted, &key).max((share(wanted, &[key.as_slice(), under.as_slice()].concat()) + share(wanted, &key)) / 2);
        if covered == 0 && !(wanted.is_empty() && line.speaker != Speaker::Agent) {
            continue;
        }
        let score = covered * 10 + worth(line, question) + hit.percent;
        into.push(Candidate {
            words: shown(if line.speaker == Speaker::Person { bare } else { line.text }),
            place: place(hit.place),
            score,
            sure: hit.percent >= SURE_PERCENT && (covered >= 34 || wanted.is_empty()),
            key,
        });
    }
    // Found by something else than words: the line that a reader would begin with.
    if let (true, Some(line)) = (into.is_empty() && !*asked, hit.lines.first()) {
        let (bare, key) = substance(line, words);
        if !asks(bare) {
            into.push(Candidate { words: shown(line.text), place: place(hit.place), score: hit.percent, sure: false, key });
        }
    }
}

/// Adds what the person said in this conversation: the index has only what has ended.
fn said_here(turn: &Turn<'_>, question: &str, wanted: &[String], words: &Words, into: &mut Vec<Candidate>) {
    for said in turn.earlier.iter().filter_map(own_words).flat_map(str::lines).filter(|line| !line.trim().is_empty()) {
        let line = Line { text: said.trim(), speaker: Speaker::File, headings: String::new() };
        let (bare, key) = substance(&line, words);
        let covered = share(wanted, &key);
        let statement = || matches!(wish::read(bare, None), Wish::Statement | Wish::Small(_));
        if covered >= 34 && !asks(bare) && statement() {
            let score = covered * 10 + worth(&line, question) + SURE_PERCENT;
            into.push(Candidate {
                words: shown(bare),
                place: "earlier in this conversation".to_owned(),
                score,
                sure: covered >= 50,
                key,
            });
        }
    }
}

/// Returns a line without its speaker and without the order to remember it, and its words.
fn substance<'a>(line: &Line<'a>, words: &Words) -> (&'a str, Vec<String>) {
    let bare = hits::bare(line);
    let mut key = match remember::read(bare) {
        Some(Note::Keep(note)) => words.telling(&note),
        Some(Note::Secret | Note::Empty) | None => words.telling(bare),
    };
    key.sort_unstable();
    key.dedup();
    (bare, key)
}

/// Returns how many percent of `wanted` are in `found`.
fn share(wanted: &[String], found: &[String]) -> u32 {
    let both = wanted.iter().filter(|word| found.contains(word)).count();
    u32::try_from(both * 100 / wanted.len().max(1)).unwrap_or(0)
}

/// Returns what speaks for a line beside its words: less than a shared word.
fn worth(line: &Line<'_>, question: &str) -> u32 {
    let speaker = match line.speaker {
        Speaker::Person => 100,
        Speaker::File => 110,
        Speaker::Agent => 0,
    };
    let lower = question.get(..question.len().min(40)).unwrap_or("").to_lowercase();
    let number =
        lower.starts_with("when") || lower.starts_with("how m") || lower.starts_with("what time") || lower.starts_with("how old");
    speaker + if number && line.text.contains(|c: char| c.is_ascii_digit()) { 60 } else { 0 }
}

/// Returns `PATH:7-7` as `PATH:7`.
fn place(place: &str) -> String {
    let one = place.rsplit_once('-').filter(|(start, end)| start.rsplit(':').next() == Some(end));
    format!("`{}`", text::shorten(&text::visible(one.map_or(place, |(start, _)| start)), 300).replace('`', "'"))
}

fn shown(line: &str) -> String {
    text::shorten(&text::visible(line), MAX_QUOTE_CHARS)
}
