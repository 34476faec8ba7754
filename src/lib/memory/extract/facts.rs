//! Facts of a statement: clauses, their subjects, and the rows of a language pack that give verbs their meanings.
//!
//! English is read by subjects and predicates (`english`). In the other languages a clause is read if it matches a row
//! exactly: subject, verb, value, and nothing after it that is not understood.

use super::clause::{corrected, denied, simple_clauses, skip_adverbs};
use super::statement::{Statement, passes, stripped};
use super::subject::{Role, Subject, USER, name_kind, relation, subject};
use super::value::value;
use super::words::{Word, any_of, base, between, has_any, low, tail, without_elision};
use super::{Voice, holds_many};
use crate::language::pack::{Pack, ValueKind, english, packs};

/// What was found: entity, attribute, value and how far it is to be trusted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub entity: String,
    pub attribute: String,
    pub value: String,
    pub ended: bool,
    pub confidence: f64,
}

/// Trust in what is said plainly about oneself, and about others: a name at the beginning of a
/// sentence may be a thing, and what one says about others changes behind one's back.
const PLAIN: f64 = 0.8;
pub(super) const OTHER: f64 = 0.7;
/// Trust in what was marked as to be kept.
pub(super) const EXPLICIT: f64 = 0.9;
/// What is lost when names cannot be distinguished from words by their capital.
const SMALL: f64 = 0.1;

/// Returns what `statement`, made of `text`, says in one of the languages.
pub(super) fn read(text: &str, statement: &Statement, voice: Voice) -> Vec<Found> {
    let mut reader = Reader::new(text, english(), statement, voice);
    reader.english(&statement.words);
    if !reader.found.is_empty() || !voice.first_person {
        return reader.found;
    }
    let words = without_elision(&statement.words);
    let read = |pack: &'static Pack| {
        let (words, explicit) = stripped(&words, pack);
        let mut reader = Reader::new(text, pack, statement, voice);
        reader.explicit |= explicit;
        reader.small = false;
        if is_spoken(words, pack) && !has_any(words, &pack.statements.hedges) {
            reader.other(words);
        }
        reader.found
    };
    let mut others = packs().iter().skip(1).map(read);
    others.find(|found| !found.is_empty()).unwrap_or_default()
}

/// Returns true when somebody speaks of themselves in that language.
fn is_spoken(words: &[Word], pack: &Pack) -> bool {
    let facts = &pack.facts;
    let is_verb = |word: &Word| {
        let verbs = facts
            .rows
            .iter()
            .filter_map(|(row, ..)| row.split(' ').next());
        facts.pro_drop
            && verbs
                .into_iter()
                .any(|verb| is_form(pack, verb, &word.low, true))
    };
    words
        .iter()
        .any(|word| word.low == facts.i || facts.my.has(&word.low) || is_verb(word))
}

pub(super) struct Reader<'a> {
    text: &'a str,
    pub(super) pack: &'static Pack,
    pub(super) voice: Voice,
    pub(super) small: bool,
    explicit: bool,
    /// What is read was so and is no longer.
    pub(super) ending: bool,
    pub(super) found: Vec<Found>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, pack: &'static Pack, statement: &Statement, voice: Voice) -> Self {
        Self {
            text,
            pack,
            voice,
            small: statement.small,
            explicit: statement.explicit,
            ending: false,
            found: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, entity: &str, attribute: &str, value: String, sure: f64) {
        let sure = sure - if self.small { SMALL } else { 0.0 };
        let found = Found {
            entity: entity.to_owned(),
            attribute: attribute.to_owned(),
            value,
            ended: self.ending,
            confidence: if self.explicit { EXPLICIT } else { sure },
        };
        let is_same = |one: &Found| {
            (&one.entity, &one.attribute, &one.value)
                == (&found.entity, &found.attribute, &found.value)
        };
        if !self.found.iter().any(is_same) {
            self.found.push(found);
        }
    }

    pub(super) fn value(&self, words: &[Word], kind: ValueKind) -> Option<String> {
        value(self.text, words, kind, self.small)
    }

    /// "is 3 May", "is not 3 May but 4 May". Returns whether it said what it is.
    pub(super) fn attribute(
        &mut self,
        entity: &str,
        attribute: &str,
        kind: ValueKind,
        words: &[Word],
    ) -> bool {
        let is_be = |word: &&Word| base(self.pack, &word.low) == "be";
        let verbs = words.iter().take_while(is_be).count();
        if verbs == 0 {
            return false;
        }
        let said = skip_adverbs(tail(words, verbs), self.pack);
        let value = |words: &[Word]| {
            let articles = |word: &&Word| self.pack.facts.before_value.has(&word.low);
            let words = tail(words, words.iter().take_while(articles).count());
            let value = self.value_of(attribute, words, kind, false);
            value.filter(|_| !passes(words)).map(|(_, value)| value)
        };
        let (right, wrong) = (value(corrected(said)), value(denied(said)));
        let sure = if entity == USER { PLAIN } else { OTHER };
        self.add_corrected((entity, attribute), right, wrong, sure)
    }

    /// Adds what is `right`, and, where that does not take its place, that what is `wrong` is so no longer. Returns whether
    /// there was anything.
    fn add_corrected(
        &mut self,
        (entity, attribute): (&str, &str),
        right: Option<String>,
        wrong: Option<String>,
        sure: f64,
    ) -> bool {
        let stays = right.is_none() || holds_many(attribute);
        let is_one = right.is_some() || wrong.is_some();
        if let Some(value) = wrong.filter(|_| stays) {
            let before = std::mem::replace(&mut self.ending, true);
            self.add(entity, attribute, value, sure);
            self.ending = before;
        }
        if let Some(value) = right {
            self.add(entity, attribute, value, sure);
        }
        is_one
    }

    /// Adds what `words` are for `subject`, if they are of that kind.
    pub(super) fn state(
        &mut self,
        subject: &Subject,
        attribute: &str,
        words: &[Word],
        kind: ValueKind,
    ) -> bool {
        let value = self.value(words, kind);
        value
            .map(|value| self.add(&subject.entity, attribute, value, self.sure(subject)))
            .is_some()
    }

    pub(super) fn naming(&mut self, subject: &Subject, words: &[Word], sure: f64) -> bool {
        let (entity, attribute, kind) = match &subject.role {
            Role::First => (USER, "name", ValueKind::Name),
            Role::Other(Some((owner, label))) => (owner.as_str(), label.as_str(), name_kind(label)),
            Role::Other(None) | Role::We | Role::Attribute(..) => return false,
        };
        let [right, wrong] = [corrected(words), denied(words)].map(|name| self.value(name, kind));
        self.add_corrected((entity, attribute), right, wrong, sure)
    }

    pub(super) fn sure(&self, subject: &Subject) -> f64 {
        if subject.entity == USER && subject.role == Role::First {
            PLAIN
        } else {
            OTHER
        }
    }

    /// Reads a statement in another language than English.
    fn other(&mut self, words: &[Word]) {
        let facts = &self.pack.facts;
        let mut continues = facts.pro_drop;
        for clause in simple_clauses(words, self.pack) {
            // "nicht mehr": both stand somewhere, and what is said is over.
            self.ending = facts.over.iter().all(|list| any_of(clause, list));
            let is_kept = |word: &&Word| !facts.over.iter().any(|list| list.has(&word.low));
            let clause: Vec<Word> = match self.ending {
                true => clause.iter().filter(is_kept).cloned().collect(),
                false => clause.to_vec(),
            };
            // "Ich wohne in Kiel und arbeite …"
            let (before, went_on) = (self.found.len(), continues);
            continues = self.other_clause(&clause, went_on) || facts.pro_drop;
            // "Ich wohne nicht in Kiel"; not what is "nicht sehr" so.
            let not = &self.pack.calendar.not;
            let is_denied = any_of(&clause, not) && !any_of(&clause, &facts.adverbs);
            if is_denied && self.found.len() == before {
                self.ending = true;
                let is_said = |word: &&Word| is_kept(word) && !not.has(&word.low);
                let said: Vec<Word> = clause.iter().filter(is_said).cloned().collect();
                self.other_clause(&said, went_on);
                // "Meine Tochter heißt Mia, nicht Maja"
                let last = self
                    .found
                    .last()
                    .filter(|last| self.found.len() == before && holds_many(&last.attribute));
                if let Some((last, wrong)) = last.cloned().zip(self.value(&said, ValueKind::Short))
                {
                    let of = (last.entity.as_str(), last.attribute.as_str());
                    self.add_corrected(of, None, Some(wrong), last.confidence);
                }
            }
        }
    }

    /// Reads a clause; `continues` says that "I" may be left out. Returns whether it spoke of "I".
    fn other_clause(&mut self, clause: &[Word], continues: bool) -> bool {
        let facts = &self.pack.facts;
        let user = Subject::new(USER, Role::First);
        // "Bei Bosch arbeite ich" is "ich arbeite bei Bosch".
        let i = clause.iter().position(|word| word.low == facts.i);
        if let Some(at) = i {
            let verb = at.max(1) - 1;
            let words = [
                between(clause, verb, at),
                between(clause, 0, verb),
                tail(clause, at + 1),
            ];
            self.row(&user, &words.concat());
            return true;
        }
        if !facts.my.has(low(clause, 0)) {
            return continues && self.row(&user, clause);
        }
        // "Mein Hund Waldi heißt": the name is a value.
        if let Some((label, end)) = relation(clause, 1, self.pack) {
            let role = Role::Other(Some((USER.to_owned(), label.clone())));
            let unnamed = Subject::new(&format!("{USER}'s {label}"), role);
            if self.row(&unnamed, tail(clause, end)) {
                return false;
            }
        }
        let Some((subject, next)) = subject(clause, self.voice, self.pack) else {
            return false;
        };
        let rest = tail(clause, next);
        if let Role::Attribute(attribute, kind) = &subject.role {
            self.attribute(USER, attribute, *kind, rest);
        } else if subject.is_named() && self.row(&subject, rest) {
            let (owner, label, name) = subject.related.expect("a name stands behind its relation");
            self.add(&owner, &label, name, OTHER);
            // Who they are comes first.
            let last = self.found.len() - 2;
            if let Some(found) = self.found.get_mut(last..) {
                found.rotate_right(1);
            }
        }
        false
    }

    /// Adds what the first row that fits says of `subject`; false when none fits.
    fn row(&mut self, subject: &Subject, words: &[Word]) -> bool {
        let facts = &self.pack.facts;
        let is_first = subject.role == Role::First;
        let found = facts.rows.iter().find_map(|(row, attribute, kind)| {
            let words = of_row(self.pack, row, words, is_first)?;
            let articles = words
                .iter()
                .take_while(|word| facts.articles.has(&word.low))
                .count();
            self.value_of(attribute, tail(words, articles), *kind, articles > 0)
        });
        let Some((attribute, value)) = found else {
            return false;
        };
        let sure = self.sure(subject);
        match (attribute, &subject.role) {
            ("", Role::Other(Some((owner, label)))) => self.add(owner, label, value, sure),
            ("", Role::First) => self.add(USER, "name", value, sure),
            ("", _) => return false,
            _ => self.add(&subject.entity, attribute, value, sure),
        }
        true
    }

    /// Returns the value that `words` are, and of what; `is_definite` says that an article stood before them.
    fn value_of<'b>(
        &self,
        attribute: &'b str,
        words: &[Word],
        kind: ValueKind,
        is_definite: bool,
    ) -> Option<(&'b str, String)> {
        let facts = &self.pack.facts;
        if facts.joints.is_empty() {
            return Some((attribute, self.value(words, kind)?));
        }
        let (first, last) = (words.first()?, words.last()?);
        if attribute == "is" {
            let words = tail(words, usize::from(facts.indefinite.has(&first.low)));
            let attribute = match words {
                [word] if facts.jobs.has(&word.low) => "works as",
                [word] if facts.traits.has(&word.low) => "is",
                _ => return None,
            };
            return Some((attribute, words[0].raw.trim_end_matches('.').to_owned()));
        }
        let is_joint = |word: &Word| facts.joints.has(&word.low);
        let is_few = words.len() <= 3;
        let (fits, kind) = match kind {
            ValueKind::Languages => (
                words
                    .iter()
                    .all(|word| facts.languages.has(&word.low) || is_joint(word)),
                ValueKind::Short,
            ),
            ValueKind::Thing => {
                let is_noun = |word: &Word| word.is_capital() || is_joint(word);
                (!is_definite && is_few && words.iter().all(is_noun), kind)
            }
            ValueKind::Short | ValueKind::Food => (is_few, kind),
            ValueKind::Place => (!is_definite || facts.places.has(&first.low), kind),
            // "arbeite als Letzter", "trabajo como nunca"
            ValueKind::Job => (facts.jobs.has(&last.low), kind),
            _ => (true, kind),
        };
        // What stood in two places has something else between.
        let value = self.value(words, kind).filter(|value| {
            fits && !any_of(words, &facts.no_value)
                && value.split_whitespace().count() <= words.len()
        })?;
        Some((attribute, value))
    }
}

/// Returns true when `token` of a row ("wohne/lebe:wohnt/lebt") has `word`, or its base form.
fn is_form(pack: &Pack, token: &str, word: &str, is_first: bool) -> bool {
    let (first, third) = token.split_once(':').unwrap_or((token, token));
    let forms = if is_first { first } else { third };
    word != ":"
        && forms
            .split('/')
            .any(|form| form == word || form == base(pack, word))
}

/// Returns the words that stand for the `*` of `row`, when `words` are such a row from beginning to end.
pub(super) fn of_row<'b>(
    pack: &Pack,
    row: &str,
    words: &'b [Word],
    is_first: bool,
) -> Option<&'b [Word]> {
    let (before, behind) = row.split_once('*')?;
    let mut rest = words;
    for token in before.split_whitespace() {
        rest = skip_adverbs(rest, pack);
        if is_form(pack, token, low(rest, 0), is_first) {
            rest = tail(rest, 1);
        } else {
            return None;
        }
    }
    let rest = if behind.is_empty() && pack.facts.joints.is_empty() {
        rest
    } else {
        skip_adverbs(rest, pack)
    };
    let behind: Vec<&str> = behind.split_whitespace().collect();
    let is_cut = |at: usize| pack.facts.cuts.has(low(rest, at));
    // What is behind the value ends the clause, except for what says why.
    let ends = |start: &usize| {
        let mut tokens = behind.iter().zip(*start..);
        let next = start + behind.len();
        tokens.all(|(token, at)| is_form(pack, token, low(rest, at), is_first))
            && (next == rest.len()
                || is_cut(next) && (!behind.is_empty() || !pack.facts.joints.has(low(rest, next))))
    };
    let end = (1..=rest.len()).find(ends)?;
    Some(between(rest, 0, end))
}
