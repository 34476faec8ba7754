//! The parts of a statement: clauses with their own subject, predicates of one subject, and the result of a correction
//! ("not 3 May but 4 May").

use super::subject::relation;
use super::words::{Word, any_of, base, between, is_capital, low, opens, phrase_at, tail};
use crate::language::pack::{Pack, english};

/// "a nurse", "a nurse at …", "a nurse in Porto"; not "a nurse by training" or "a doctor in the game".
pub(super) fn ends_with_job(words: &[Word], small: bool) -> bool {
    let is_job = |word: &Word| english().facts.jobs.has(&word.low);
    let Some(job) = words.iter().position(is_job) else {
        return false;
    };
    let last = job
        + tail(words, job)
            .iter()
            .take_while(|word| is_job(word))
            .count();
    match low(words, last) {
        "" | "," | ";" | ":" | "–" | "at" | "for" | "and" => true,
        "in" | "from" => small || is_capital(words, last + 1),
        next => english().values.cuts.has(next),
    }
}

/// "29", "from Cork", "a nurse", "living in Lyon": continues after "I'm Hannah".
pub(super) fn describes(words: &[Word]) -> bool {
    match low(words, 0) {
        "from" => is_capital(words, 1),
        "living" | "working" | "a" | "an" => true,
        age => {
            let ends = matches!(low(words, 1), "" | "," | ";" | ":" | "–" | "and" | "years");
            age.parse::<u8>().is_ok() && ends
        }
    }
}

pub(super) fn skip_adverbs<'a>(words: &'a [Word], pack: &Pack) -> &'a [Word] {
    let is_adverb = |word: &&Word| pack.facts.adverbs.has(&word.low);
    tail(words, words.iter().take_while(is_adverb).count())
}

/// "not 3 May but 4 May", "not Bob, it is Ada": what is right.
pub(super) fn corrected(words: &[Word]) -> &[Word] {
    let turns = words.iter().position(|word| word.is(&["but", ","]));
    let Some(at) = turns.filter(|_| low(words, 0) == "not") else {
        return words;
    };
    let joins = ["but", "it", "he", "she", "'s", "is", "in", "at", "on"];
    let right = tail(words, at + 1);
    tail(
        right,
        right.iter().take_while(|word| word.is(&joins)).count(),
    )
}

/// "not Bob but Ada", "Ada, not Bob", "not Bob": what is wrong.
pub(super) fn denied(words: &[Word]) -> &[Word] {
    let is_turn = |word: &Word| word.is(&["but", ","]);
    let from = match words.iter().position(is_turn) {
        _ if low(words, 0) == "not" => 1,
        Some(at) if low(words, at + 1) == "not" => at + 2,
        _ => words.len(),
    };
    let wrong = tail(words, from);
    wrong.split(is_turn).next().unwrap_or_default()
}

/// "do not live in Porto but in Rome" is "live in", and "Rome" instead of what follows it.
pub(super) fn not_but(words: &[Word]) -> (&[Word], Option<&[Word]>) {
    let is_denied = base(english(), low(words, 0)) == "do" && low(words, 1) == "not";
    let but = words.iter().position(|word| word.low == "but");
    match but.filter(|_| is_denied) {
        Some(but)
            if low(words, 3) == low(words, but + 1)
                && matches!(low(words, 3), "in" | "at" | "for" | "as") =>
        {
            (tail(words, 2), Some(tail(words, but + 2)))
        }
        _ => (words, None),
    }
}

/// "no longer work at Siemens", "do not work at Siemens any more", "used to work at Siemens": what is over, and true.
/// Not to eat something any more is how it is now: false. `None` where nothing is over.
pub(super) fn ended(words: &[Word]) -> Option<(Vec<Word>, bool)> {
    let words = skip_adverbs(words, english());
    let is_be = base(english(), low(words, 0)) == "be";
    let verb = usize::from(is_be);
    let end = ["any more", "anymore", "any longer"]
        .into_iter()
        .find_map(|phrase| (0..words.len()).find_map(|at| Some(at..phrase_at(words, at, phrase)?)));
    let begins = match (low(words, verb), low(words, verb + 1)) {
        ("no", "longer") => verb + 2,
        ("used", "to") if !is_be => 2,
        ("not", _) if is_be && end.is_some() => 2,
        (verb, "not") if !is_be && base(english(), verb) == "do" && end.is_some() => 2,
        _ => return None,
    };
    let is_over = |at: &usize| end.as_ref().is_none_or(|end| !end.contains(at));
    let kept = (0..verb).chain((begins..words.len()).filter(is_over));
    let mut left: Vec<Word> = kept.filter_map(|at| words.get(at).cloned()).collect();
    let first = left.first()?.clone();
    if !first.is(&["eat", "eats", "drink", "drinks"]) {
        return Some((left, true));
    }
    let word = |low: &str| Word {
        low: low.to_owned(),
        ..first.clone()
    };
    let bare = first.low.trim_end_matches('s');
    left.splice(..1, ["do", "not", bare].map(word));
    Some((left, false))
}

/// Cuts a statement where another subject begins.
pub(super) fn clauses(words: &[Word]) -> Vec<&[Word]> {
    let (facts, statements) = (&english().facts, &english().statements);
    let begins = |at: usize| {
        let next = low(words, at + 1);
        let is_owner = next == "'s" && at + 2 < words.len();
        matches!(low(words, at), "i" | "my" | "we" | "our" | "user")
            || low(words, at) == "the" && next == "user"
            || is_capital(words, at) && (facts.third.has(next) || is_owner)
    };
    let unwrapped = |at: usize| opens(words, at, &statements.wrappers).unwrap_or(at);
    let cuts = |at: usize| match low(words, at) {
        ";" | "–" | "because" | "although" | "whereas" | "which" | "who" => true,
        "but" if describes(tail(words, at + 1)) => false,
        "but" => {
            let before = between(words, at.saturating_sub(6), at);
            begins(at + 1) || !before.iter().any(|word| word.low == "not")
        }
        // "Ana, my sister, lives": the comma is not the end of the subject.
        "," => {
            let apposition = || {
                let end = relation(words, at + 2, english()).map(|(_, end)| end);
                low(words, at + 1) == "my" && end.is_some_and(|end| low(words, end) == ",")
            };
            begins(at + 1) && !apposition()
        }
        // "…, and note that my dog …"
        "and" | "so" | "since" | "while" | "though" => begins(unwrapped(at + 1)),
        ":" => begins(at + 1),
        _ => false,
    };
    let mut parts = Vec::new();
    let mut start = 0;
    for end in (1..=words.len()).filter(|at| *at == words.len() || cuts(*at)) {
        let mut part = between(words, unwrapped(start).min(end), end);
        // ", and my dog …", "because actually I …"
        while let Some((first, rest)) = part.split_first() {
            if !first.is_mark() && !statements.starters.contains(&first.low) {
                break;
            }
            part = rest;
        }
        parts.push(part);
        start = end + 1;
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Cuts what is said of one subject: "live in Porto | work at Siemens", "am Hannah | 29 | from Cork | living in Lyon".
pub(super) fn predicates(words: &[Word]) -> Vec<&[Word]> {
    let pack = english();
    let is_be = base(pack, low(words, 0)) == "be";
    let continues = |at: usize| {
        let rest = skip_adverbs(tail(words, at), pack);
        let verb = low(rest, 0);
        let is_verb = verb != "'s" && verb != ":" && pack.facts.continues.has(base(pack, verb));
        is_verb || is_be && describes(rest)
    };
    let joins = |at: usize| words[at].is(&["and", ",", "but"]) && continues(at + 1);
    let mut parts = Vec::new();
    let mut start = 0;
    for end in (1..=words.len()).filter(|at| *at == words.len() || joins(*at)) {
        parts.push(between(words, start, end));
        start = end + 1;
    }
    parts
}

/// Cuts a statement in another language: where a joint is, except for a list of two ("Nüsse und Soja"). What is said
/// to the agent, and what follows it, is left out.
pub(super) fn simple_clauses<'a>(words: &'a [Word], pack: &Pack) -> Vec<&'a [Word]> {
    let is_joint = |at: &usize| pack.facts.joints.has(low(words, *at));
    let end_of = |at: usize| (at..words.len()).find(is_joint).unwrap_or(words.len());
    let mut parts = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let mut end = end_of(at);
        if words.get(end).is_some_and(|word| !word.is_mark()) && end_of(end + 1) == end + 2 {
            end += 2;
        }
        let part = between(words, at, end);
        if any_of(part, &pack.statements.addressed) {
            break;
        }
        parts.push(part);
        at = end + 1;
    }
    parts
}
