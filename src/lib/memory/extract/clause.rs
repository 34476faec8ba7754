//! The parts of a statement: clauses with a subject of their own, predicates of one subject, and
//! what a correction ("not 3 May but 4 May") leaves.

use super::subject::relation;
use super::vocabulary as v;
use super::words::{Word, base, phrase_at};

/// Returns the words behind `verbs`, which are in their base form, when `words` begin with them.
pub(super) fn verb_end(words: &[Word], verbs: &str) -> Option<usize> {
    let mut next = 0;
    for verb in verbs.split(' ') {
        while next > 0
            && words
                .get(next)
                .is_some_and(|word| v::among(v::ADVERBS, &word.low))
        {
            next += 1;
        }
        let word = words.get(next)?;
        if base(&word.low) != verb || word.low == ":" {
            return None;
        }
        next += 1;
    }
    Some(next)
}

/// "a nurse", "a nurse at …", "a nurse in Porto"; not "a nurse by training" or "a doctor in the game".
pub(super) fn ends_with_job(words: &[Word], small: bool) -> bool {
    let Some(job) = words.iter().position(|word| v::among(v::JOBS, &word.low)) else {
        return false;
    };
    let last = words
        .iter()
        .skip(job)
        .take_while(|word| v::among(v::JOBS, &word.low))
        .count()
        + job;
    match words.get(last) {
        None => true,
        Some(next) if next.is_mark() || matches!(next.low.as_str(), "at" | "for" | "and") => true,
        Some(next) if matches!(next.low.as_str(), "in" | "from") => {
            small || words.get(last + 1).is_some_and(Word::is_capital)
        }
        Some(next) => v::among(v::CUTS, &next.low),
    }
}

/// "29", "from Cork", "a nurse", "living in Lyon": goes on after "I'm Hannah".
pub(super) fn describes(words: &[Word]) -> bool {
    let next = words.get(1);
    match words.first().map_or("", |word| word.low.as_str()) {
        "from" => next.is_some_and(|word| word.is_capital()),
        "living" | "working" | "a" | "an" => true,
        age => {
            age.parse::<u8>().is_ok()
                && next.is_none_or(|word| {
                    word.is_mark() || matches!(word.low.as_str(), "and" | "years")
                })
        }
    }
}

pub(super) fn skip_adverbs(words: &[Word]) -> &[Word] {
    let end = words
        .iter()
        .position(|word| !v::among(v::ADVERBS, &word.low))
        .unwrap_or(words.len());
    words.get(end..).unwrap_or(&[])
}

/// "not 3 May but 4 May", "not Bob, it is Ada": what is right.
pub(super) fn corrected(words: &[Word]) -> &[Word] {
    if words.first().is_none_or(|word| word.low != "not") {
        return words;
    }
    let Some(at) = words
        .iter()
        .position(|word| matches!(word.low.as_str(), "but" | ","))
    else {
        return words;
    };
    let mut next = at + 1;
    while words.get(next).is_some_and(|word| {
        matches!(
            word.low.as_str(),
            "but" | "it" | "he" | "she" | "'s" | "is" | "in" | "at" | "on"
        )
    }) {
        next += 1;
    }
    words.get(next..).unwrap_or(&[])
}

/// "do not live in Porto but in Rome" is "live in", and "Rome" instead of what follows it.
pub(super) fn not_but(words: &[Word]) -> (&[Word], Option<&[Word]>) {
    let denied = words.first().is_some_and(|word| base(&word.low) == "do")
        && words.get(1).is_some_and(|word| word.low == "not");
    let Some(but) = words
        .iter()
        .position(|word| word.low == "but")
        .filter(|_| denied)
    else {
        return (words, None);
    };
    match (words.get(3), words.get(but + 1)) {
        (Some(then), Some(now))
            if then.low == now.low && matches!(now.low.as_str(), "in" | "at" | "for" | "as") =>
        {
            (words.get(2..).unwrap_or(&[]), words.get(but + 2..))
        }
        _ => (words, None),
    }
}

/// "no longer work at Siemens", "do not work at Siemens any more", "used to work at Siemens": what is over, and true.
/// Not to eat something any more is how it is now: false. `None` where nothing is over.
pub(super) fn ended(words: &[Word]) -> Option<(Vec<Word>, bool)> {
    let words = skip_adverbs(words);
    let low = |at: usize| words.get(at).map_or("", |word| word.low.as_str());
    let is_be = base(low(0)) == "be";
    let verb = usize::from(is_be);
    let tail = ["any more", "anymore", "any longer"]
        .into_iter()
        .find_map(|phrase| {
            let at = (0..words.len()).find(|at| phrase_at(words, *at, phrase).is_some())?;
            Some(at..phrase_at(words, at, phrase)?)
        });
    let begins = match (low(verb), low(verb + 1)) {
        ("no", "longer") => verb + 2,
        ("used", "to") if !is_be => 2,
        ("not", _) if is_be && tail.is_some() => 2,
        (verb, "not") if !is_be && base(verb) == "do" && tail.is_some() => 2,
        _ => return None,
    };
    let over = |at: &usize| tail.as_ref().is_none_or(|tail| !tail.contains(at));
    let left = (begins..words.len())
        .filter(over)
        .filter_map(|at| words.get(at).cloned());
    let mut left: Vec<Word> = words.iter().take(verb).cloned().chain(left).collect();
    let first = left.first()?.clone();
    let is_food = matches!(first.low.as_str(), "eat" | "eats" | "drink" | "drinks");
    if is_food {
        let word = |low: &str| Word {
            raw: low.to_owned(),
            low: low.to_owned(),
            ..first.clone()
        };
        left.splice(
            ..1,
            [
                word("do"),
                word("not"),
                word(first.low.trim_end_matches('s')),
            ],
        );
    }
    Some((left, !is_food))
}

/// Returns where "remember that" ends that stands at `at`, else `at`.
fn wrapper_end(words: &[Word], at: usize) -> usize {
    v::WRAPPERS
        .split('|')
        .find_map(|wrapper| phrase_at(words, at, wrapper))
        .unwrap_or(at)
}

/// Cuts a statement where another subject begins.
pub(super) fn clauses(words: &[Word]) -> Vec<&[Word]> {
    let begins = |at: usize| {
        let low = |at: usize| words.get(at).map_or("", |word| word.low.as_str());
        let named = words.get(at).is_some_and(Word::is_capital)
            && (v::among(v::THIRD, low(at + 1)) || low(at + 1) == "'s" && !low(at + 2).is_empty());
        matches!(low(at), "i" | "my" | "we" | "our" | "user")
            || low(at) == "the" && low(at + 1) == "user"
            || named
    };
    let mut cuts = vec![0];
    for (at, word) in words.iter().enumerate().skip(1) {
        let after_correction = words
            .iter()
            .take(at)
            .skip(at.saturating_sub(6))
            .any(|word| word.low == "not")
            && word.low == "but";
        let cut = match word.low.as_str() {
            ";" | "–" | "because" | "although" | "whereas" | "which" | "who" => true,
            "but" if describes(words.get(at + 1..).unwrap_or(&[])) => false,
            "but" => !after_correction || begins(at + 1),
            // "Ana, my sister, lives": the comma is not the end of the subject.
            "," => {
                begins(at + 1)
                    && !(words.get(at + 1).is_some_and(|word| word.low == "my")
                        && relation(words, at + 2).is_some_and(|(_, end)| {
                            words.get(end).is_some_and(|word| word.low == ",")
                        }))
            }
            // "…, and note that my dog …"
            "and" | "so" | "since" | "while" | "though" => begins(wrapper_end(words, at + 1)),
            ":" => begins(at + 1),
            _ => false,
        };
        if cut {
            cuts.push(at + 1);
        }
    }
    let ends: Vec<usize> = cuts
        .iter()
        .skip(1)
        .map(|cut| cut - 1)
        .chain([words.len()])
        .collect();
    let part = |(from, to): (&usize, &usize)| {
        let mut part = words.get(*from..*to).unwrap_or(&[]);
        part = part.get(wrapper_end(part, 0)..).unwrap_or(&[]);
        // ", and my dog …", "because actually I …"
        while let Some((first, rest)) = part.split_first() {
            if !first.is_mark() && v::STARTERS.split('|').all(|starter| starter != first.low) {
                break;
            }
            part = rest;
        }
        part
    };
    cuts.iter()
        .zip(&ends)
        .map(part)
        .filter(|part| !part.is_empty())
        .collect()
}

/// Cuts what is said of one subject: "live in Porto | work at Siemens", "am Hannah | 29 | from Cork | living in Lyon".
pub(super) fn predicates(words: &[Word]) -> Vec<&[Word]> {
    let is_be = words.first().is_some_and(|word| base(&word.low) == "be");
    let goes_on = |at: usize| {
        let rest = skip_adverbs(words.get(at..).unwrap_or(&[]));
        rest.first().is_some_and(|word| {
            word.low != "'s" && word.low != ":" && v::among(v::GOES_ON, base(&word.low))
        }) || is_be && describes(rest)
    };
    let mut parts = Vec::new();
    let mut start = 0;
    for at in 1..words.len() {
        if matches!(words[at].low.as_str(), "and" | "," | "but") && goes_on(at + 1) {
            parts.push(&words[start..at]);
            start = at + 1;
        }
    }
    parts.push(&words[start.min(words.len())..]);
    parts
}
