//! The valid forms of values: a value that does not fit its attribute is not accepted.

use super::words::{Word, any_of, is_capital, low, opens, tail};
use crate::language::pack::{ValueKind, english, is_month};

const MAX_CHARS: usize = 80;
const MAX_WORDS: usize = 8;

/// Returns the value `words` begin with, as it is written in `text`, when it is one of `kind`.
/// `small` says that the sentence is written without capital letters.
pub(super) fn value(text: &str, words: &[Word], kind: ValueKind, small: bool) -> Option<String> {
    let pack = english();
    let rules = pack.values.kinds.get(&kind)?;
    let words = without_end(words, kind);
    let articles = words
        .iter()
        .take_while(|word| rules.articles.has(&word.low));
    let words = tail(words, articles.count());
    let (first, last) = (words.first()?, words.last()?);
    let own = |c: char| c.is_alphanumeric() || matches!(c, '+' | '#');
    let raw = text.get(first.start..last.end)?;
    let raw = raw.trim_matches(|c: char| !own(c) && (c != '-' || kind != ValueKind::BloodType));
    let count = words.iter().filter(|word| !word.is_mark()).count();
    let odd = [
        '{',
        '}',
        '<',
        '>',
        '=',
        '|',
        '\\',
        '$',
        '%',
        super::sentence::HOLE,
    ];
    if raw.is_empty() || raw.chars().count() > MAX_CHARS || count > MAX_WORDS || raw.contains(odd) {
        return None;
    }
    let is_free = words.iter().all(|word| match word.low.as_str() {
        "'s" => matches!(
            kind,
            ValueKind::Employer | ValueKind::Place | ValueKind::Short
        ),
        "may" => kind == ValueKind::Date,
        low => !pack.values.no_value.has(low),
    });
    let has_letter = |word: &Word| word.is_mark() || word.raw.chars().any(char::is_alphabetic);
    let fits = is_free
        && (rules.max_words == 0 || words.len() <= rules.max_words)
        && (!rules.plain || words.iter().all(has_letter))
        && (!rules.no_digit || !words.iter().any(Word::has_digit))
        && (!rules.thing || !pack.values.no_thing.has(&first.low))
        && (!rules.not_state || !pack.values.states.has(&last.low))
        && !rules.not_first.has(&first.low)
        && !rules.not_last.has(&last.low);
    (fits && is_kind(words, raw, kind, small)).then(|| raw.to_owned())
}

/// Cuts off what only says when, why or how much.
fn without_end(words: &[Word], kind: ValueKind) -> &[Word] {
    let values = &english().values;
    let Some(rules) = values.kinds.get(&kind) else {
        return words;
    };
    // "for five years"
    let lasts = |at: usize| {
        any_of(
            words.get(at..words.len().min(at + 5)).unwrap_or(&[]),
            &values.lasting,
        )
    };
    let ends = |at: usize| {
        let is_name = kind == ValueKind::Employer && is_capital(words, at + 1);
        match low(words, at) {
            ";" | ":" | "–" => true,
            "," => !rules.list || !comma_belongs(words, at, kind),
            "for" if lasts(at) => true,
            "and" if is_name => false,
            low => {
                at > 0 && values.cuts.has(low)
                    || rules.cut.has(low)
                    || opens(words, at, &values.cut_phrases).is_some()
            }
        }
    };
    let end = (0..words.len()).find(|at| ends(*at));
    words.get(..end.unwrap_or(words.len())).unwrap_or(words)
}

/// "Porto, Portugal", "May 3, 1990", "jazz, blues and soul": the comma belongs to the value.
fn comma_belongs(words: &[Word], at: usize, kind: ValueKind) -> bool {
    let values = &english().values;
    let rest = tail(words, at + 1);
    let next: Vec<&Word> = rest.iter().take_while(|word| word.low != ",").collect();
    let few = (1..=3).contains(&next.len());
    match kind {
        ValueKind::Date => next.len() == 1 && next[0].low.chars().all(|c| c.is_ascii_digit()),
        ValueKind::Place => {
            few && next.iter().all(|word| word.is_capital()) && !values.no_names.has(&next[0].low)
        }
        ValueKind::Numbered => {
            few && next
                .iter()
                .all(|word| word.is_capital() || word.has_digit())
        }
        // Only a list that ends in "and" is a list; "coffee, thanks" is not.
        _ => {
            let is_plain =
                |word: &Word| !values.cuts.has(&word.low) && !values.no_value.has(&word.low);
            rest.iter().any(|word| word.low == "and") && rest.iter().all(is_plain)
        }
    }
}

fn is_kind(words: &[Word], raw: &str, kind: ValueKind, small: bool) -> bool {
    let pack = english();
    let (Some(first), Some((last, before))) = (words.first(), words.split_last()) else {
        return false;
    };
    let is_small_name = || small && words.len() == 1 && is_small_name(first);
    match kind {
        ValueKind::Name => is_name(words) || is_small_name(),
        ValueKind::Names => words
            .split(|word| word.is_mark() || word.low == "and")
            .filter(|part| !part.is_empty())
            .all(is_name),
        ValueKind::Place => is_place(words) || is_small_name() && !is_no_place(first),
        ValueKind::Date => is_date(words),
        ValueKind::Employer => is_employer(words),
        ValueKind::KnownJob => pack.facts.jobs.has(&last.low),
        ValueKind::Thing => !is_vague_verb(words) && !is_ironic(words),
        ValueKind::Languages => words.iter().all(|word| {
            let is_one = pack.facts.languages.has(&word.low) && word.is_capital();
            is_one || word.is_mark() || word.low == "and"
        }),
        ValueKind::Possession => is_possession(words),
        ValueKind::Played => {
            let may_stand_before = |word: &Word| pack.values.played_before.has(&word.low);
            pack.values.played.has(&last.low) && before.iter().all(may_stand_before)
        }
        ValueKind::Email => is_email(raw),
        ValueKind::Phone => {
            let digits = raw.chars().filter(char::is_ascii_digit).count();
            let marks = ['+', ' ', '-', '/', '.'];
            let is_part = |c: char| c.is_ascii_digit() || marks.contains(&c);
            (7..=12).contains(&digits) && raw.chars().all(is_part)
        }
        ValueKind::Age => is_age(words),
        ValueKind::Numbered => words.iter().any(Word::has_digit),
        ValueKind::Proper => first.is_capital() && !pack.values.no_names.has(&first.low),
        ValueKind::BloodType => is_blood_type(raw),
        ValueKind::Job | ValueKind::Food | ValueKind::Subject | ValueKind::Short => true,
    }
}

fn is_hobby(verb: &str) -> bool {
    let values = &english().values;
    let begins = |hobby: &str| verb.starts_with(hobby.trim_end_matches('e'));
    values.hobbies.iter().any(begins) || values.pastimes.has(verb)
}

/// "to know", "to hear that" is liked only as a way to speak; "to swim" is liked.
fn is_vague_verb(words: &[Word]) -> bool {
    low(words, 0) == "to" && !english().values.hobbies.has(low(words, 1))
}

/// "waiting in the rain" is liked in irony; "cooking" and "playing chess" are not.
fn is_ironic(words: &[Word]) -> bool {
    let verb = low(words, 0).strip_suffix("ing");
    words.len() > 1 && verb.is_some_and(|verb| verb.len() > 2 && !is_hobby(verb))
}

pub(super) fn is_name(words: &[Word]) -> bool {
    let pack = english();
    let (Some(first), Some(last)) = (words.first(), words.last()) else {
        return false;
    };
    let is_part = |word: &Word| is_name_word(word) || pack.values.name_particles.has(&word.low);
    words.len() <= 4
        && is_name_word(first)
        && is_name_word(last)
        && words.iter().all(is_part)
        && !pack.facts.languages.has(&first.low)
}

pub(super) fn is_name_word(word: &Word) -> bool {
    let values = &english().values;
    let letters = word.raw.chars().filter(|c| c.is_alphabetic()).count();
    let is_shouted =
        letters > 3 && word.raw.is_ascii() && !word.raw.chars().any(char::is_lowercase);
    let in_name = |c: char| {
        c.is_alphabetic() || matches!(c, '-' | '\'' | '’' | '.' | '\u{300}'..='\u{36f}' | '·')
    };
    word.is_capital()
        && !is_shouted
        && !values.no_names.has(&word.low)
        && !values.brands.has(&word.low)
        && word.raw.chars().all(in_name)
}

fn is_small_name(word: &Word) -> bool {
    let (facts, values) = (&english().facts, &english().values);
    let known = [
        &values.no_names,
        &values.no_value,
        &values.no_thing,
        &values.cuts,
        &values.states,
        &facts.adverbs,
        &facts.languages,
        &facts.jobs,
    ];
    let is_inflected = word.low.ends_with("ed") || word.low.ends_with("ing");
    (2..=15).contains(&word.raw.chars().count())
        && !is_inflected
        && word.raw.chars().all(char::is_alphabetic)
        && !known.iter().any(|list| list.has(&word.low))
}

fn is_no_place(first: &Word) -> bool {
    let values = &english().values;
    let lists = [&values.no_places, &values.no_names, &values.brands];
    lists.iter().any(|list| list.has(&first.low))
}

fn is_place(words: &[Word]) -> bool {
    let words = tail(words, usize::from(low(words, 0) == "the"));
    let particles = &english().values.place_particles;
    let is_part = |word: &Word| {
        let is_inner = word.is_mark() || word.low == "'s" || particles.has(&word.low);
        (is_inner || word.is_capital()) && !word.has_digit() && !word.raw.contains(['@', '_', '/'])
    };
    let is_first = |word: &Word| word.is_capital() && !is_no_place(word);
    words.len() <= 6 && words.first().is_some_and(is_first) && words.iter().all(is_part)
}

fn is_employer(words: &[Word]) -> bool {
    let values = &english().values;
    let article = matches!(low(words, 0), "a" | "an" | "the");
    let first = low(words, usize::from(article));
    let is_named = is_capital(words, usize::from(article)) && !values.no_names.has(first);
    let head = words
        .iter()
        .take_while(|word| !word.is(&["of", "in", "near", "for", "on"]));
    let is_house = head
        .last()
        .is_some_and(|word| values.workplaces.has(&word.low));
    is_named || article && is_house
}

/// Returns the number that `low` begins with when it is one of `1..=most` and nothing but "rd" or the like follows.
pub(super) fn ordinal(low: &str, most: u32) -> Option<u32> {
    let digits = low.trim_end_matches(|c: char| c.is_alphabetic() || c == '.');
    let end = low.get(digits.len()..).unwrap_or("");
    let number = digits
        .parse()
        .ok()
        .filter(|number| (1..=most).contains(number))?;
    matches!(end, "" | "st" | "nd" | "rd" | "th" | "er" | ".").then_some(number)
}

pub(super) fn is_date(words: &[Word]) -> bool {
    let is_part = |word: &&Word| !word.is_mark() && !word.is(&["of", "the", "in", "on", "de"]);
    let parts: Vec<&str> = words
        .iter()
        .filter(is_part)
        .map(|word| word.low.as_str())
        .collect();
    let is_day = |low: &str| ordinal(low, 31).is_some();
    match parts.as_slice() {
        [one] => {
            let fields = one.split(['.', '/', '-']).filter(|field| !field.is_empty());
            let is_field = |field: &str| field.len() <= 4 && field.parse::<u32>().is_ok();
            (2..=3).contains(&fields.clone().count()) && fields.into_iter().all(is_field)
        }
        [a, b, rest @ ..] => {
            let is_year = |low: &&str| low.len() == 4 && ordinal(low, 2100).is_some();
            let in_year = is_day(a) && is_month(b) || is_month(a) && is_day(b);
            in_year && rest.len() <= 1 && rest.iter().all(is_year)
        }
        [] => false,
    }
}

fn is_possession(words: &[Word]) -> bool {
    let Some((last, before)) = words.split_last() else {
        return false;
    };
    let (facts, values) = (&english().facts, &english().values);
    let first = low(words, 0);
    let is_counted = matches!(first, "a" | "an")
        || facts.numbers.has(first)
        || first.parse::<u8>().is_ok_and(|number| number > 0);
    words.len() <= 5
        && !any_of(before, &values.passing_possessions)
        && values.possessions.has(&last.low)
        && (is_counted || values.illnesses.has(&last.low))
}

fn is_email(raw: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '@' | '.' | '-' | '_' | '+');
    let parts = raw.split_once('@');
    let is_address =
        |(name, host): (&str, &str)| !name.is_empty() && host.contains('.') && !host.contains('@');
    parts.is_some_and(is_address) && raw.chars().all(is_part)
}

fn is_blood_type(raw: &str) -> bool {
    let low = raw.to_lowercase();
    let factor = ["+", "-", " positive", " negative", " rh+", " rh-"]
        .into_iter()
        .find_map(|end| low.strip_suffix(end));
    matches!(factor.unwrap_or(&low).trim(), "a" | "b" | "ab" | "o" | "0")
}

/// "34", "34 years old", "34 years of age".
fn is_age(words: &[Word]) -> bool {
    let is_years = match tail(words, 1) {
        [] => true,
        [years, rest @ ..] => {
            let rest: Vec<&str> = rest.iter().map(|word| word.low.as_str()).collect();
            years.low == "years" && matches!(rest.as_slice(), ["old"] | ["of", "age"])
        }
    };
    is_years
        && low(words, 0)
            .parse::<u8>()
            .is_ok_and(|age| (1..=120).contains(&age))
}
