//! Answers to questions: lines of the memory that bear on them, quoted, each with its place.

use super::intent;
use super::intent::Wish;
use super::remember;
use super::remember::Note;
use super::request::{Turn, own_words};
use super::search_hits;
use super::search_hits::{Hit, Line, Speaker};
use super::words::{Words, asks};
use crate::text;

/// Quotations in an answer.
const MAX_QUOTES: usize = 3;
/// Characters of one.
const MAX_QUOTE_CHARS: usize = 300;
/// Below this score (percent) a hit is offered with doubt.
const SURE_PERCENT: u32 = 35;
/// A line with less of the question in it (percent) is about something else.
const MIN_COVERED: u32 = 30;
/// Words that say what kind of answer is wanted more than what it is about; they count a third.
const WEAK: [&str; 7] = ["name", "call", "number", "time", "day", "thing", "old"];

pub(super) const QUOTED: &str =
    "quotations, found by their words; without a language model I do not understand them";
const SURE: &str = "This is what I find";
const UNSURE: &str = "I am not sure that this is what you ask for";
pub(super) const NOTHING: &str =
    "I found nothing about that in my memory. I go by words, so try others.";
pub(super) const ONLY_ASKED: &str = "I found only that this was asked before, and no answer to it.";

/// A line that may be quoted.
struct Candidate {
    words: String,
    place: String,
    score: u32,
    sure: bool,
    key: Vec<String>,
    /// Of equals the newest comes first: the day of its file, then its place in it.
    age: (String, usize, usize),
}

/// Returns the answer to `question` out of what `memory_search` gave and what the person said
/// earlier in this conversation.
pub(super) fn answer(question: &str, found: &str, turn: &Turn<'_>) -> String {
    let words = Words::new();
    let mut wanted = words.telling(question);
    wanted.sort_unstable();
    wanted.dedup();
    let hits = search_hits::read(found);
    let (mut candidates, mut asked) = (Vec::new(), false);
    for hit in &hits {
        consider(hit, question, &wanted, &words, &mut candidates, &mut asked);
    }
    said_here(turn, question, &wanted, &words, &mut candidates);
    recalled(turn, &wanted, &words, &mut candidates);
    candidates.sort_by(|a, b| (b.score, &b.age).cmp(&(a.score, &a.age)));
    let mut quotes: Vec<&Candidate> = Vec::new();
    let floor = candidates.first().map_or(0, |best| best.score * 6 / 10);
    for candidate in candidates
        .iter()
        .filter(|candidate| candidate.score >= floor)
    {
        // What a better line has said already is not said again.
        let is_new =
            |quote: &&Candidate| !candidate.key.iter().all(|word| quote.key.contains(word));
        if quotes.len() < MAX_QUOTES && quotes.iter().all(is_new) {
            quotes.push(candidate);
        }
    }
    let Some(best) = quotes.first() else {
        return if asked { ONLY_ASKED } else { NOTHING }.to_owned();
    };
    let opening = if best.sure { SURE } else { UNSURE };
    let quotes: Vec<String> = quotes
        .iter()
        .map(|quote| format!("> {}\n— {}", quote.words, quote.place))
        .collect();
    let explained = if turn.has_said(QUOTED) {
        String::new()
    } else {
        format!(" ({QUOTED})")
    };
    format!("{opening}{explained}:\n\n{}", quotes.join("\n\n"))
}

fn consider(
    hit: &Hit<'_>,
    question: &str,
    wanted: &[String],
    words: &Words,
    into: &mut Vec<Candidate>,
    asked: &mut bool,
) {
    let start = hit
        .place
        .rsplit(':')
        .next()
        .and_then(|lines| lines.split('-').next()?.parse().ok())
        .unwrap_or(0);
    for (at, line) in hit.lines.iter().enumerate() {
        let (bare, key) = substance(line, words);
        if asks(bare)
            || matches!(
                intent::read(bare, None),
                Wish::Order(_) | Wish::Question(_) | Wish::Summary(_) | Wish::Myself(_)
            )
        {
            *asked |= share(wanted, &key) > 0;
            continue;
        }
        if line.speaker != Speaker::File && matches!(intent::read(bare, None), Wish::Small(_)) {
            continue;
        }
        let under = words.telling(&line.headings);
        let covered = share(wanted, &key).max(
            (share(wanted, &[key.as_slice(), under.as_slice()].concat()) + share(wanted, &key)) / 2,
        );
        if covered < MIN_COVERED && !(wanted.is_empty() && line.speaker != Speaker::Agent) {
            continue;
        }
        // What has every word is as good as anything; how rare its words are no longer matters.
        let percent = if covered == 100 { 100 } else { hit.percent };
        let score = covered * 10 + worth(line, question) + percent;
        into.push(Candidate {
            words: shown(if line.speaker == Speaker::Person {
                bare
            } else {
                line.text
            }),
            place: place(hit.place, line.speaker),
            age: (day(hit.place).to_owned(), start, at),
            score,
            sure: hit.percent >= SURE_PERCENT && (covered >= 34 || wanted.is_empty()),
            key,
        });
    }
    // Found by another form of its words. Of several lines nobody can say which one it is.
    if let (true, false, [line]) = (into.is_empty(), *asked, hit.lines.as_slice()) {
        let (bare, key) = substance(line, words);
        if !asks(bare) && !remember::is_secret(bare) {
            let age = (day(hit.place).to_owned(), start, 0);
            let place = place(hit.place, line.speaker);
            into.push(Candidate {
                words: shown(line.text),
                place,
                score: hit.percent,
                sure: false,
                key,
                age,
            });
        }
    }
}

/// Adds what the person said in this conversation: the index has only what has ended.
fn said_here(
    turn: &Turn<'_>,
    question: &str,
    wanted: &[String],
    words: &Words,
    into: &mut Vec<Candidate>,
) {
    let spoken = turn
        .earlier
        .iter()
        .filter_map(own_words)
        .flat_map(str::lines)
        .filter(|line| !line.trim().is_empty());
    for (at, said) in spoken.enumerate() {
        let line = Line {
            text: said.trim(),
            speaker: Speaker::File,
            headings: String::new(),
        };
        let (bare, key) = substance(&line, words);
        let covered = share(wanted, &key);
        let statement = || matches!(intent::read(bare, None), Wish::Statement | Wish::Small(_));
        if covered >= 34 && !asks(bare) && statement() {
            let percent = if covered == 100 { 100 } else { SURE_PERCENT };
            let score = covered * 10 + worth(&line, question) + percent;
            into.push(Candidate {
                words: shown(bare),
                place: "earlier in this conversation".to_owned(),
                score,
                sure: covered >= 50,
                key,
                // After everything that has ended.
                age: ("~".to_owned(), at, 0),
            });
        }
    }
}

/// Adds the facts that memory put before the message; of equals the line itself is better.
fn recalled(turn: &Turn<'_>, wanted: &[String], words: &Words, into: &mut Vec<Candidate>) {
    for fact in &turn.facts {
        let Some((fact, source)) = fact
            .strip_suffix(')')
            .and_then(|fact| fact.rsplit_once(" ("))
        else {
            continue;
        };
        let (who, what) = fact.split_once(": ").unwrap_or(("", fact));
        let who = if who == "user" { "you" } else { who };
        let mut key = words.telling(&format!("{who} {what}"));
        key.sort_unstable();
        key.dedup();
        let covered = share(wanted, &key);
        if covered >= MIN_COVERED {
            let place = match source.strip_prefix("said ") {
                Some(day) => format!("said on {day}"),
                None => format!("`{}`", shown(source).replace('`', "'")),
            };
            // Its line was found and may have been corrected since.
            if into
                .iter()
                .any(|candidate| candidate.place.starts_with(&place))
            {
                continue;
            }
            let age = (String::new(), 0, 0);
            into.push(Candidate {
                words: shown(&format!("{who}: {what}")),
                place,
                score: covered * 10 + 100,
                sure: covered >= 50,
                key,
                age,
            });
        }
    }
}

/// Returns a line without its speaker and without the order to remember it, and its words.
fn substance<'a>(line: &Line<'a>, words: &Words) -> (&'a str, Vec<String>) {
    let bare = search_hits::bare(line);
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
    let weight = |word: &&String| if WEAK.contains(&word.as_str()) { 1 } else { 3 };
    let both: usize = wanted
        .iter()
        .filter(|word| found.contains(word))
        .map(|word| weight(&word))
        .sum();
    let all: usize = wanted.iter().map(|word| weight(&word)).sum();
    u32::try_from(both * 100 / all.max(1)).unwrap_or(0)
}

/// Returns what speaks for a line beside its words: less than a shared word.
fn worth(line: &Line<'_>, question: &str) -> u32 {
    let speaker = match line.speaker {
        Speaker::Person => 100,
        Speaker::File => 110,
        Speaker::Agent => 0,
    };
    let lower = question
        .get(..question.len().min(40))
        .unwrap_or("")
        .to_lowercase();
    let number = lower.starts_with("when")
        || lower.starts_with("how m")
        || lower.starts_with("what time")
        || lower.starts_with("how old");
    speaker
        + if number && line.text.contains(|c: char| c.is_ascii_digit()) {
            60
        } else {
            0
        }
}

/// Returns `PATH:7-7` as `PATH:7`, and before the name of a transcript, which says little to a reader, the
/// day.
fn place(place: &str, speaker: Speaker) -> String {
    let one = place
        .rsplit_once('-')
        .filter(|(start, end)| start.rsplit(':').next() == Some(end));
    let path = format!(
        "`{}`",
        text::shorten(&text::visible(one.map_or(place, |(start, _)| start)), 300).replace('`', "'")
    );
    let day = day(place);
    if place.starts_with("state/sessions/") && !day.is_empty() {
        return format!(
            "{} on {day}: {path}",
            if speaker == Speaker::Agent {
                "I said"
            } else {
                "said"
            }
        );
    }
    path
}

/// Returns the last `2026-11-22` in the name of a file, empty when there is none.
fn day(place: &str) -> &str {
    let is_day = |at: &usize| {
        place.get(*at..*at + 10).is_some_and(|part| {
            part.bytes().enumerate().all(|(at, byte)| {
                if at == 4 || at == 7 {
                    byte == b'-'
                } else {
                    byte.is_ascii_digit()
                }
            })
        })
    };
    (0..place.len())
        .rev()
        .find(is_day)
        .and_then(|at| place.get(at..at + 10))
        .unwrap_or("")
}

fn shown(line: &str) -> String {
    text::shorten(&text::visible(line), MAX_QUOTE_CHARS)
}
