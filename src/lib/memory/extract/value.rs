//! What a value may look like. A value that does not look like what its attribute wants is none.

use super::vocabulary as v;
use super::words::{Word, phrase_at};

const MAX_CHARS: usize = 80;

/// What an attribute wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One name: "Ana", "Dr. Weber", "Rui da Costa".
    Name,
    /// One or several names.
    Names,
    /// "Porto", "the Netherlands", "Porto, Portugal".
    Place,
    /// A day: "3 May", "May 3rd 1990", "3.5.1990".
    Date,
    /// "Siemens", "a bakery", "the Ministry of Health".
    Employer,
    /// "nurse", "primary school teacher", after "works as".
    Job,
    /// A job that is on the list, after "is a".
    KnownJob,
    /// "jazz", "long walks by the sea".
    Thing,
    /// At most three words: "pork", "shellfish".
    Food,
    /// Names of languages.
    Languages,
    /// Something one studies.
    Subject,
    /// "two cats", "a garden": a thing on the list.
    Possession,
    /// An instrument or a game on the list.
    Played,
    Email,
    Phone,
    /// 1 to 120.
    Age,
    /// Has a digit: a street, a size.
    Numbered,
    /// Begins with a capital letter: a product.
    Proper,
    /// "A positive", "0+".
    BloodType,
    /// A few plain words.
    Short,
}

/// Returns the value `words` begin with, as it is written in `text`, when it is one of `kind`.
/// `small` says that the sentence is written without capital letters.
pub(super) fn value(text: &str, words: &[Word], kind: Kind, small: bool) -> Option<String> {
    let words = cut(words, kind);
    let words = strip_article(words, kind);
    let (first, last) = (words.first()?, words.last()?);
    let raw = text.get(first.start..last.end)?;
    let raw = raw.trim_matches(|c: char| {
        !(c.is_alphanumeric() || matches!(c, '+' | '#') || kind == Kind::BloodType && c == '-')
    });
    let count = words.iter().filter(|word| !word.is_mark()).count();
    if raw.is_empty() || raw.chars().count() > MAX_CHARS || count > 8 || super::gate::has_hole(raw)
    {
        return None;
    }
    let odd = raw
        .chars()
        .any(|c| matches!(c, '{' | '}' | '<' | '>' | '=' | '|' | '\\' | '$' | '%'));
    let dependent = words
        .iter()
        .any(|word| v::among(v::NO_VALUE, &word.low) && !(word.low == "may" && kind == Kind::Date));
    let possessive = words
        .iter()
        .all(|word| word.low == "'s" || !v::among(v::NO_VALUE, &word.low));
    let allowed =
        !dependent || possessive && matches!(kind, Kind::Employer | Kind::Place | Kind::Short);
    (!odd && allowed && is_kind(words, raw, kind, small)).then(|| raw.to_owned())
}

/// Cuts off what only says when, why or how much.
fn cut(words: &[Word], kind: Kind) -> &[Word] {
    let lists = matches!(
        kind,
        Kind::Thing
            | Kind::Food
            | Kind::Languages
            | Kind::Names
            | Kind::Date
            | Kind::Place
            | Kind::Numbered
    );
    let more: &str = match kind {
        Kind::Job | Kind::KnownJob | Kind::Subject => "at in for from on near by to and",
        Kind::Possession | Kind::Played => "in at from for called that on to and",
        Kind::Name | Kind::Proper | Kind::BloodType => "at in for from on and as",
        Kind::Names => "at in for from on as",
        Kind::Place => "for on as near to from at by and in with",
        Kind::Employer => "as on to from until and near in",
        Kind::Date => "for so at and",
        Kind::Email | Kind::Phone | Kind::Age | Kind::Numbered => "and or for",
        Kind::Thing | Kind::Short | Kind::Food | Kind::Languages => "",
    };
    // "for five years"
    let lasts = |at: usize| {
        words
            .iter()
            .skip(at + 1)
            .take(4)
            .any(|word| v::among("years year months weeks decades ages while", &word.low))
    };
    let ends = |at: usize| {
        let word = &words[at];
        let name_goes_on = word.low == "and"
            && matches!(kind, Kind::Employer)
            && words.get(at + 1).is_some_and(Word::is_capital);
        match word.low.as_str() {
            ";" | ":" | "–" => true,
            "," => !lists || !comma_goes_on(words, at, kind),
            low => {
                at > 0 && v::among(v::CUTS, low)
                    || low == "for" && lasts(at)
                    || v::among(more, low) && !name_goes_on
                    || v::CUT_PHRASES
                        .split('|')
                        .any(|phrase| phrase_at(words, at, phrase).is_some())
            }
        }
    };
    let end = (0..words.len()).find(|at| ends(*at)).unwrap_or(words.len());
    words.get(..end).unwrap_or(words)
}

/// "Porto, Portugal", "May 3, 1990", "jazz, blues and soul": the comma belongs to the value.
fn comma_goes_on(words: &[Word], at: usize, kind: Kind) -> bool {
    let next: Vec<&Word> = words
        .iter()
        .skip(at + 1)
        .take_while(|word| word.low != ",")
        .collect();
    let Some(first) = next.first() else {
        return false;
    };
    match kind {
        Kind::Date => next.len() == 1 && first.low.chars().all(|c| c.is_ascii_digit()),
        Kind::Place => {
            next.len() <= 3
                && next.iter().all(|word| word.is_capital())
                && !v::among(v::NO_NAMES, &first.low)
        }
        Kind::Numbered => {
            next.len() <= 3
                && next
                    .iter()
                    .all(|word| word.is_capital() || word.low.chars().any(|c| c.is_ascii_digit()))
        }
        // Only a list that ends in "and" is a list; "coffee, thanks" is not.
        _ => {
            let rest = words.get(at + 1..).unwrap_or(&[]);
            let known = |word: &Word| {
                word.low == "and"
                    || !v::among(v::CUTS, &word.low) && !v::among(v::NO_VALUE, &word.low)
            };
            rest.iter().any(|word| word.low == "and")
                && rest.iter().all(|word| word.is_mark() || known(word))
        }
    }
}

fn strip_article(words: &[Word], kind: Kind) -> &[Word] {
    let strip = matches!(
        kind,
        Kind::Job | Kind::KnownJob | Kind::Subject | Kind::Date | Kind::Numbered | Kind::Age
    );
    match words.split_first() {
        Some((first, rest)) if strip && matches!(first.low.as_str(), "a" | "an" | "the" | "on") => {
            strip_article(rest, kind)
        }
        Some((first, rest))
            if kind == Kind::Proper && matches!(first.low.as_str(), "a" | "an" | "the") =>
        {
            rest
        }
        Some((first, rest))
            if kind == Kind::Languages
                && v::among("fluent some good native basic a little", &first.low) =>
        {
            strip_article(rest, kind)
        }
        Some((first, rest))
            if kind == Kind::Food && matches!(first.low.as_str(), "any" | "all" | "eating") =>
        {
            rest
        }
        _ => words,
    }
}

fn is_kind(words: &[Word], raw: &str, kind: Kind, small: bool) -> bool {
    let (Some(first), Some(last)) = (words.first(), words.last()) else {
        return false;
    };
    let digit = raw.chars().any(|c| c.is_ascii_digit());
    let plain = || {
        words
            .iter()
            .all(|word| word.raw.chars().any(char::is_alphabetic) || word.is_mark())
    };
    match kind {
        Kind::Name => is_name(words) || small && words.len() == 1 && is_small_name(first),
        Kind::Names => words
            .split(|word| word.is_mark() || word.low == "and")
            .filter(|part| !part.is_empty())
            .all(is_name),
        Kind::Place => is_place(words, small),
        Kind::Date => is_date(words),
        Kind::Employer => is_employer(words) && !digit,
        Kind::Job => {
            words.len() <= 5
                && plain()
                && !digit
                && !v::among(
                    "team group unit whole one charm intended expected usual result such well",
                    &last.low,
                )
        }
        Kind::KnownJob => {
            words.len() <= 5
                && v::among(v::JOBS, &last.low)
                && plain()
                && !v::among(DEGRADING, &first.low)
        }
        Kind::Thing => {
            plain()
                && !digit
                && !v::among(v::NO_THING, &first.low)
                && !is_vague_verb(words)
                && !is_ironic(words)
        }
        Kind::Food => {
            words.len() <= 6
                && plain()
                && !digit
                && !v::among(v::NO_THING, &first.low)
                && !v::among(NO_FOOD, &first.low)
        }
        Kind::Languages => words.iter().all(|word| {
            word.is_mark()
                || word.low == "and"
                || v::among(v::NATIONS, &word.low) && word.is_capital()
        }),
        Kind::Subject => {
            words.len() <= 4
                && plain()
                && !digit
                && !v::among(v::NO_THING, &first.low)
                && !v::among(NO_SUBJECT, &first.low)
        }
        Kind::Possession => is_possession(words),
        Kind::Played => {
            words.len() <= 3
                && v::among(v::PLAYED, &last.low)
                && words.iter().rev().skip(1).all(|word| {
                    v::among(
                        "the a electric acoustic bass table beach classical",
                        &word.low,
                    )
                })
        }
        Kind::Email => words.len() == 1 && is_email(raw),
        Kind::Phone => is_phone(raw),
        Kind::Age => is_age(words),
        Kind::Numbered => digit && words.len() <= 8,
        Kind::Proper => {
            words.len() <= 5
                && first.is_capital()
                && !v::among(v::NO_NAMES, &first.low)
                && !v::among(STATES, &last.low)
        }
        Kind::BloodType => is_blood_type(raw),
        Kind::Short => {
            words.len() <= 6 && !v::among(v::NO_THING, &first.low) && !v::among(STATES, &last.low)
        }
    }
}

const DEGRADING: &str = "bad terrible horrible lousy great good frustrated failed would-be";
const NO_FOOD: &str = "out up on in much enough here there breakfast dinner lunch well alone often early late today again outside anymore yet properly regularly \
    mondays work people stupid silly commitment nonsense bullshit responsibility responsibilities housework exercise effort meetings emails maths math \
    fun idiots stupidity bureaucracy paperwork deadlines";
const NO_SUBJECT: &str =
    "every hard alone here there late early together daily all each full-time online abroad";
const STATES: &str = "broken dead slow wrong bad boring missing gone late unknown changing changed secret complicated fine ok okay next full empty hard easy soon \
    tomorrow important coming over up down off away none nothing";

/// "to know", "to hear that" is liked only as a way to speak; "to swim" is liked.
fn is_vague_verb(words: &[Word]) -> bool {
    let hobby = words
        .get(1)
        .is_some_and(|word| v::among(v::HOBBIES, &word.low));
    words.first().is_some_and(|word| word.low == "to") && !hobby
}

/// "waiting in the rain" is liked in irony; "cooking" and "playing chess" are not.
fn is_ironic(words: &[Word]) -> bool {
    let does = words
        .first()
        .and_then(|word| word.low.strip_suffix("ing"))
        .filter(|does| does.len() > 2);
    let known = |does: &str| {
        v::HOBBIES
            .split_whitespace()
            .any(|hobby| does.starts_with(hobby.trim_end_matches('e')))
    };
    words.len() > 1
        && does.is_some_and(|does| {
            !known(does) && !matches!(does, "play" | "watch" | "listen" | "collect" | "learn")
        })
}

pub(super) fn is_name(words: &[Word]) -> bool {
    let particle = |word: &Word| {
        v::among(
            "de da do dos das di del della du van von den der ten ter bin bint al el la le y e af zu",
            &word.low,
        )
    };
    let (Some(first), Some(last)) = (words.first(), words.last()) else {
        return false;
    };
    words.len() <= 4
        && name_word(first)
        && name_word(last)
        && words.iter().all(|word| name_word(word) || particle(word))
        && !v::among(v::NATIONS, &first.low)
}

pub(super) fn name_word(word: &Word) -> bool {
    let letters = word.raw.chars().filter(|c| c.is_alphabetic()).count();
    let shouted = letters > 3 && word.raw.chars().all(|c| !c.is_lowercase()) && word.raw.is_ascii();
    word.is_capital()
        && !shouted
        && !v::among(v::NO_NAMES, &word.low)
        && !v::among(v::BRANDS, &word.low)
        && word.raw.chars().all(|c| {
            c.is_alphabetic() || matches!(c, '-' | '\'' | '’' | '.' | '\u{300}'..='\u{36f}' | '·')
        })
}

fn is_small_name(word: &Word) -> bool {
    let known = [
        v::NO_NAMES,
        v::NO_VALUE,
        v::NO_THING,
        v::CUTS,
        v::ADVERBS,
        v::NATIONS,
        v::JOBS,
        STATES,
    ];
    let letters = word.raw.chars().count();
    let inflected = word.low.ends_with("ed") || word.low.ends_with("ing");
    (2..=15).contains(&letters)
        && !inflected
        && word.raw.chars().all(char::is_alphabetic)
        && !known.iter().any(|list| v::among(list, &word.low))
}

fn is_place(words: &[Word], small: bool) -> bool {
    let words = if words.first().is_some_and(|word| word.low == "the") {
        words.get(1..).unwrap_or(&[])
    } else {
        words
    };
    let Some(first) = words.first() else {
        return false;
    };
    if [v::NO_PLACES, v::NO_NAMES, v::BRANDS]
        .iter()
        .any(|list| v::among(list, &first.low))
    {
        return false;
    }
    let inner = |word: &Word| {
        word.is_mark()
            || v::among(
                "of and de do da del la le les upon am an der the el sur",
                &word.low,
            )
    };
    let capitals = words
        .iter()
        .all(|word| word.is_capital() || word.low == "'s" || inner(word))
        && first.is_capital();
    let plain = words.iter().all(|word| {
        !word
            .raw
            .chars()
            .any(|c| c.is_ascii_digit() || matches!(c, '@' | '_' | '/'))
    });
    plain && words.len() <= 6 && (capitals || small && words.len() == 1 && is_small_name(first))
}

fn is_employer(words: &[Word]) -> bool {
    let Some(first) = words.first() else {
        return false;
    };
    let article = matches!(first.low.as_str(), "a" | "an" | "the");
    let names = words
        .get(usize::from(article))
        .is_some_and(|word| word.is_capital() && !v::among(v::NO_NAMES, &word.low));
    let house = || {
        let head: Vec<&Word> = words
            .iter()
            .take_while(|word| !v::among("of in near for on", &word.low))
            .collect();
        head.last()
            .is_some_and(|word| v::among(v::WORKPLACES, &word.low))
    };
    words.len() <= 6 && (names || article && house())
}

pub(super) fn is_date(words: &[Word]) -> bool {
    let number = |word: &Word, most: u32| {
        let digits = word
            .low
            .trim_end_matches(|c: char| c.is_alphabetic() || c == '.');
        let rest = word.low.get(digits.len()..).unwrap_or("");
        digits
            .parse::<u32>()
            .is_ok_and(|number| (1..=most).contains(&number))
            && matches!(rest, "" | "st" | "nd" | "rd" | "th" | "er" | ".")
    };
    let year = |word: &&Word| word.low.len() == 4 && number(word, 2100);
    let parts: Vec<&Word> = words
        .iter()
        .filter(|word| {
            !word.is_mark() && !matches!(word.low.as_str(), "of" | "the" | "in" | "on" | "de")
        })
        .collect();
    match parts.as_slice() {
        [one] => {
            let fields: Vec<&str> = one
                .low
                .split(['.', '/', '-'])
                .filter(|field| !field.is_empty())
                .collect();
            (2..=3).contains(&fields.len())
                && fields
                    .iter()
                    .all(|field| field.len() <= 4 && field.parse::<u32>().is_ok())
        }
        [a, b, rest @ ..] => {
            let day_month =
                number(a, 31) && v::is_month(&b.low) || v::is_month(&a.low) && number(b, 31);
            day_month && rest.len() <= 1 && rest.iter().all(year)
        }
        [] => false,
    }
}

fn is_possession(words: &[Word]) -> bool {
    let Some((last, before)) = words.split_last() else {
        return false;
    };
    let first = words.first().map_or("", |word| word.low.as_str());
    let illness = v::among(
        "asthma diabetes adhd arthritis epilepsy dyslexia migraines endometriosis eczema",
        &last.low,
    );
    let counted = matches!(first, "a" | "an")
        || v::among(v::NUMBERS, first)
        || first.parse::<u8>().is_ok_and(|number| number > 0);
    let plain = before
        .iter()
        .all(|word| !v::among("problem new nice great lot bit question bug", &word.low));
    words.len() <= 5 && plain && v::among(v::POSSESSIONS, &last.low) && (counted || illness)
}

fn is_email(raw: &str) -> bool {
    let Some((name, host)) = raw.split_once('@') else {
        return false;
    };
    !name.is_empty()
        && host.contains('.')
        && !host.contains('@')
        && raw
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '@' | '.' | '-' | '_' | '+'))
}

fn is_blood_type(raw: &str) -> bool {
    let low = raw.to_lowercase();
    let factor = ["+", "-", " positive", " negative", " rh+", " rh-"]
        .into_iter()
        .find_map(|end| low.strip_suffix(end));
    matches!(factor.unwrap_or(&low).trim(), "a" | "b" | "ab" | "o" | "0")
}

fn is_phone(raw: &str) -> bool {
    let digits = raw.chars().filter(char::is_ascii_digit).count();
    (7..=12).contains(&digits)
        && raw
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '+' | ' ' | '-' | '/' | '.'))
}

/// "34", "34 years old", "34 years of age".
pub(super) fn is_age(words: &[Word]) -> bool {
    let Some((first, rest)) = words.split_first() else {
        return false;
    };
    let rest: Vec<&str> = rest.iter().map(|word| word.low.as_str()).collect();
    first
        .low
        .parse::<u8>()
        .is_ok_and(|age| (1..=120).contains(&age))
        && matches!(
            rest.as_slice(),
            [] | ["years", "old"] | ["years", "of", "age"]
        )
}
