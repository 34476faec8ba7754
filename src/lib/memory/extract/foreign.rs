//! Facts in German, Spanish and French: fewer than in English, by tables of whole sentences.
//!
//! A statement is read where a sentence, or what follows a comma or "and", is exactly a row of the tables: subject, verb,
//! value, and nothing that is not understood behind it.

use super::gate::Statement;
use super::rules::{EXPLICIT, Found, OTHER, PLAIN};
use super::subject::USER;
use super::tongues::{Row, TONGUES, Tongue};
use super::value::{Kind, name_word, value};
use super::vocabulary as v;
use super::words::{Word, has_any, phrase_at, without_elision};

/// Returns what `statement`, made of `text`, says in one of the languages.
pub(super) fn read(text: &str, statement: &Statement) -> Vec<Found> {
    let words = without_elision(&statement.words);
    let is_spoken = |tongue: &&Tongue| {
        let verb = |word: &Word| {
            tongue.rows.iter().any(|(row, ..)| {
                row.split(' ')
                    .next()
                    .is_some_and(|one| is_form(one, &word.low, true))
            })
        };
        let own = |word: &Word| word.low == tongue.i || v::among(tongue.my, &word.low);
        words
            .iter()
            .any(|word| own(word) || tongue.may_leave_out_i && verb(word))
    };
    let read = |tongue| Reader::new(text, tongue, &words, statement).read();
    TONGUES
        .iter()
        .filter(is_spoken)
        .map(read)
        .find(|found| !found.is_empty())
        .unwrap_or_default()
}

struct Reader<'a> {
    text: &'a str,
    tongue: &'static Tongue,
    words: Vec<Word>,
    explicit: bool,
    /// What is said is over: "nicht mehr".
    ended: bool,
    found: Vec<Found>,
}

/// Of whom something is said.
struct Subject {
    entity: String,
    /// The relation of the speaker that it is, where it has no name.
    label: Option<String>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, tongue: &'static Tongue, words: &[Word], statement: &Statement) -> Self {
        let mut words = words.to_vec();
        let mut explicit = statement.explicit;
        loop {
            let wrapper = tongue
                .wrappers
                .split('|')
                .find_map(|wrapper| phrase_at(&words, 0, wrapper));
            let is_starter = words
                .first()
                .is_some_and(|word| v::among(tongue.starters, &word.low));
            explicit |= wrapper.is_some();
            let Some(end) = wrapper.or_else(|| is_starter.then_some(1)) else {
                break;
            };
            words.drain(..end);
        }
        Self {
            text,
            tongue,
            words,
            explicit,
            ended: false,
            found: Vec::new(),
        }
    }

    fn read(mut self) -> Vec<Found> {
        if has_any(&self.words, self.tongue.doubts) {
            return Vec::new();
        }
        let words = std::mem::take(&mut self.words);
        let is_joint = |at: &usize| {
            words
                .get(*at)
                .is_some_and(|word| v::among(self.tongue.joints, &word.low))
        };
        let end_of = |at: usize| (at..words.len()).find(is_joint).unwrap_or(words.len());
        let (mut goes_on, mut at) = (self.tongue.may_leave_out_i, 0);
        while at < words.len() {
            let mut end = end_of(at);
            // "Nüsse und Soja"
            if words.get(end).is_some_and(|word| !word.is_mark()) && end_of(end + 1) == end + 2 {
                end += 2;
            }
            let clause = words.get(at..end).unwrap_or(&[]);
            if clause
                .iter()
                .any(|word| v::among(self.tongue.you, &word.low))
            {
                break;
            }
            let clause = self.over(clause);
            // "Ich wohne in Kiel und arbeite …"
            goes_on = self.clause(&clause, goes_on) || self.tongue.may_leave_out_i;
            at = end + 1;
        }
        self.found
    }

    /// Returns the clause without "nicht mehr", and notes that it was there.
    fn over(&mut self, clause: &[Word]) -> Vec<Word> {
        let (first, second) = self.tongue.over;
        let has = |list: &str| clause.iter().any(|word| v::among(list, &word.low));
        self.ended = has(first) && has(second);
        let keeps = |word: &&Word| {
            !self.ended || !v::among(first, &word.low) && !v::among(second, &word.low)
        };
        clause.iter().filter(keeps).cloned().collect()
    }

    /// Reads a clause; `goes_on` says that "I" may be left out. Returns whether it spoke of "I".
    fn clause(&mut self, clause: &[Word], goes_on: bool) -> bool {
        let tongue = self.tongue;
        let user = Subject {
            entity: USER.to_owned(),
            label: None,
        };
        // "Bei Bosch arbeite ich" is "ich arbeite bei Bosch".
        if let Some(at) = clause
            .iter()
            .position(|word| word.low == tongue.i)
            .filter(|at| *at > 1)
        {
            let (verb, before, behind) = (
                clause.get(at - 1..at),
                clause.get(..at - 1),
                clause.get(at + 1..),
            );
            let words = [verb, before, behind]
                .map(Option::unwrap_or_default)
                .concat();
            self.rows(&user, tongue.rows, &words, true);
            return true;
        }
        let Some(first) = clause.first() else {
            return goes_on;
        };
        if first.low == tongue.i {
            self.rows(&user, tongue.rows, clause.get(1..).unwrap_or(&[]), true);
            return true;
        }
        if !v::among(tongue.my, &first.low) {
            return goes_on && self.rows(&user, tongue.rows, clause, true);
        }
        let rest = clause.get(1..).unwrap_or(&[]);
        if !self.rows(&user, tongue.own, rest, true) {
            self.relation(rest);
        }
        false
    }

    /// "Schwester heißt Ana", "Schwester Ana wohnt in Rom".
    fn relation(&mut self, words: &[Word]) {
        let known = |(label, names): &(&str, &str)| {
            words
                .first()
                .filter(|word| v::among(names, &word.low))
                .map(|_| (*label).to_owned())
        };
        let Some(label) = self.tongue.relations.iter().find_map(known) else {
            return;
        };
        let rest = words.get(1..).unwrap_or(&[]);
        let unnamed = Subject {
            entity: format!("{USER}'s {label}"),
            label: Some(label.clone()),
        };
        if self.rows(&unnamed, self.tongue.rows, rest, false) {
            return;
        }
        let verb = |word: &Word| {
            self.tongue
                .rows
                .iter()
                .any(|(row, ..)| row.split(' ').any(|token| is_form(token, &word.low, false)))
        };
        let Some(name) = rest.first().filter(|word| name_word(word)) else {
            return;
        };
        if rest.get(1).is_none_or(|next| !verb(next)) {
            return;
        }
        let name = name.raw.clone();
        self.add(USER, &label, name.clone(), OTHER);
        self.rows(
            &Subject {
                entity: name,
                label: None,
            },
            self.tongue.rows,
            rest.get(1..).unwrap_or(&[]),
            false,
        );
    }

    /// Adds what the first row that fits says of `subject`; false when none fits.
    fn rows(&mut self, subject: &Subject, rows: &[Row], words: &[Word], is_first: bool) -> bool {
        let tongue = self.tongue;
        let found = rows.iter().find_map(|(row, attribute, kind)| {
            let words = between(row, words, is_first, tongue)?;
            let article = |word: &Word| v::among(tongue.articles, &word.low);
            let rest = words.iter().skip_while(|word| article(word)).count();
            let bare = words.get(words.len() - rest..)?;
            let (attribute, value) = self.said(attribute, *kind, bare, bare.len() < words.len())?;
            Some((attribute.to_owned(), value))
        });
        let Some((attribute, value)) = found else {
            return false;
        };
        let sure = if is_first { PLAIN } else { OTHER };
        match (attribute.as_str(), &subject.label) {
            ("", Some(label)) => self.add(USER, &label.clone(), value, sure),
            ("", None) if is_first => self.add(USER, "name", value, sure),
            ("", None) => return false,
            _ => self.add(&subject.entity, &attribute, value, sure),
        }
        true
    }

    /// Returns the value that `words` are, and what it is of.
    fn said<'b>(
        &self,
        attribute: &'b str,
        kind: Kind,
        words: &[Word],
        is_definite: bool,
    ) -> Option<(&'b str, String)> {
        let tongue = self.tongue;
        let no_value = |word: &Word| v::among(tongue.no_value, &word.low);
        let first = words.first()?;
        let article = |word: &Word| v::among("ein eine un una une", &word.low);
        if attribute == "is" {
            let words = if article(first) {
                words.get(1..)?
            } else {
                words
            };
            let [word] = words else { return None };
            let attribute = if v::among(tongue.jobs, &word.low) {
                "works as"
            } else if v::among(tongue.traits, &word.low) {
                "is"
            } else {
                return None;
            };
            return Some((attribute, word.raw.trim_end_matches('.').to_owned()));
        }
        if words.iter().any(no_value) {
            return None;
        }
        let fits = match kind {
            Kind::Languages => words.iter().all(|word| {
                v::among(tongue.languages, &word.low) || v::among(tongue.joints, &word.low)
            }),
            Kind::Thing => {
                !is_definite
                    && words.len() <= 3
                    && words
                        .iter()
                        .all(|word| word.is_capital() || v::among(tongue.joints, &word.low))
            }
            Kind::Short | Kind::Food => words.len() <= 3,
            Kind::Place => !is_definite || v::among(tongue.places, &first.low),
            // "arbeite als Letzter", "trabajo como nunca"
            Kind::Job => v::among(tongue.jobs, &words.last()?.low),
            _ => true,
        };
        let kind = if kind == Kind::Languages {
            Kind::Short
        } else {
            kind
        };
        // What stood in two places has something else between.
        let value = value(self.text, words, kind, false)
            .filter(|value| fits && value.split_whitespace().count() <= words.len())?;
        Some((attribute, value))
    }

    fn add(&mut self, entity: &str, attribute: &str, value: String, sure: f64) {
        let confidence = if self.explicit { EXPLICIT } else { sure };
        let (entity, attribute, ended) = (entity.to_owned(), attribute.to_owned(), self.ended);
        self.found.push(Found {
            entity,
            attribute,
            value,
            ended,
            confidence,
        });
    }
}

/// Returns true when `token` of a row ("wohne/lebe:wohnt/lebt") has `low`.
fn is_form(token: &str, low: &str, is_first: bool) -> bool {
    let (first, third) = token.split_once(':').unwrap_or((token, token));
    (if is_first { first } else { third })
        .split('/')
        .any(|form| form == low)
}

/// Returns the words that stand for the `*` of `row`, when `words` are such a row from beginning to end.
fn between<'b>(
    row: &str,
    words: &'b [Word],
    is_first: bool,
    tongue: &Tongue,
) -> Option<&'b [Word]> {
    let (before, behind) = row.split_once('*')?;
    let mut at = 0;
    for token in before.split_whitespace() {
        while words
            .get(at)
            .is_some_and(|word| v::among(tongue.adverbs, &word.low))
        {
            at += 1;
        }
        if is_form(token, &words.get(at)?.low, is_first) {
            at += 1;
        } else if !token.ends_with('/') {
            // "el/" may be missing.
            return None;
        }
    }
    while words
        .get(at)
        .is_some_and(|word| v::among(tongue.adverbs, &word.low))
    {
        at += 1;
    }
    let behind: Vec<&str> = behind.split_whitespace().collect();
    let rest = words.get(at..)?;
    if behind.is_empty() {
        let joint = |word: &Word| v::among(tongue.joints, &word.low);
        let end = rest
            .iter()
            .position(|word| v::among(tongue.cuts, &word.low) && !joint(word))
            .unwrap_or(rest.len());
        return rest.get(..end).filter(|words| !words.is_empty());
    }
    // What stands behind the value ends the clause, but for what says why.
    let ends = |start: &usize| {
        let all = behind
            .iter()
            .zip(rest.get(*start..).unwrap_or(&[]))
            .all(|(token, word)| is_form(token, &word.low, is_first));
        let next = rest.get(start + behind.len());
        all && start + behind.len() <= rest.len()
            && next.is_none_or(|word| v::among(tongue.cuts, &word.low))
    };
    let start = (1..rest.len()).find(ends)?;
    rest.get(..start)
}
