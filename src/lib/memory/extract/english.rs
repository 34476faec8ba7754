//! English sentences: clauses, their subjects, and what each predicate says.

use super::Voice;
use super::clause::{
    clauses, corrected, describes, ended, ends_with_job, not_but, predicates, skip_adverbs,
};
use super::facts::{OTHER, Reader, of_row};
use super::statement::{is_addressed, passes};
use super::subject::{Role, Subject, USER, name_end, name_kind, relation, subject};
use super::words::{Word, any_of, base, between, is_capital, is_end, low, opens, phrase_at, tail};
use crate::language::pack::{ValueKind, english};

/// For so long holds what passes, when it is said of the present.
const PASSING_TIMES: &[&str] = &[
    "days", "week", "weeks", "month", "months", "summer", "winter",
];

/// Whom one no longer has when they died, and how that is said.
const PETS: &[&str] = &[
    "dog", "cat", "hamster", "rabbit", "horse", "parrot", "budgie",
];
const DEATHS: &[&str] = &["died", "passed away", "put down", "put to sleep"];

impl Reader<'_> {
    pub(super) fn english(&mut self, words: &[Word]) {
        let of_self = matches!(low(words, 0), "i" | "we" | "my" | "our");
        for (at, clause) in clauses(words).into_iter().enumerate() {
            if is_addressed(clause, self.pack) || at == 0 && !opens_well(clause, self.voice) {
                break;
            }
            self.calls_me(clause);
            self.clause(clause);
            if of_self && self.voice.first_person {
                self.mentions(clause);
            }
        }
    }

    fn clause(&mut self, clause: &[Word]) {
        let Some((subject, next)) = subject(clause, self.voice, self.pack) else {
            return;
        };
        let rest = tail(clause, next);
        if let Some((owner, label, name)) = &subject.related {
            // "My dog Rex died"; who somebody's mother was, she is.
            let dies = |at| {
                DEATHS
                    .iter()
                    .any(|said| phrase_at(rest, at, said).is_some())
            };
            self.ending = PETS.contains(&label.as_str()) && (0..rest.len()).any(dies);
            self.add(owner, label, name.clone(), OTHER);
            self.ending = false;
        }
        if let Role::Attribute(attribute, kind) = &subject.role {
            self.attribute(&subject.entity, attribute, *kind, rest);
            return;
        }
        let before = self.found.len();
        let mut was_over = false;
        for (number, predicate) in predicates(rest).into_iter().enumerate() {
            let over = ended(predicate);
            // "I used to work at Aldi and live in Ulm": that, too, or now?
            let is_now = matches!(low(predicate, 0), "now" | "currently" | "nowadays");
            if was_over && over.is_none() && !is_now {
                break;
            }
            was_over |= over.is_some();
            self.ending = over.as_ref().is_some_and(|(_, over)| *over);
            let predicate = over.as_ref().map_or(predicate, |(words, _)| words);
            // What cannot be read makes the rest doubtful.
            let passes = passes(predicate);
            let is_read = !passes
                && (self.predicate(&subject, predicate)
                    || number > 0 && self.description(&subject, predicate));
            self.ending = false;
            let is_denied = !passes && !is_read && self.denial(&subject, predicate);
            was_over |= is_denied;
            if passes || !is_read && !is_denied && self.found.len() == before {
                break;
            }
        }
    }

    fn predicate(&mut self, subject: &Subject, words: &[Word]) -> bool {
        let words = skip_adverbs(words, self.pack);
        let verb = low(words, 0);
        let base = base(self.pack, verb);
        // A name before a bare verb may be an order: "Max likes", never "Max like".
        let is_bare = verb == base && !matches!(verb, "was" | "can");
        let named = subject.is_named();
        if verb.is_empty() || named && is_bare && !self.ending && !subject.entity.contains("'s ") {
            return false;
        }
        if base == "be" && self.being(subject, tail(words, 1))
            || base == "have" && self.having(subject, tail(words, 1))
            || self.left(subject, words)
        {
            return true;
        }
        let (words, instead) = not_but(words);
        let rows = &self.pack.facts.rows;
        let Some((attribute, kind, rest)) = rows.iter().find_map(|(row, attribute, kind)| {
            Some((
                attribute.as_str(),
                *kind,
                of_row(self.pack, row, words, true)?,
            ))
        }) else {
            return false;
        };
        let rest = instead.unwrap_or_else(|| corrected(rest));
        let has = |words: &[Word], any: &[&str]| words.iter().any(|word| word.is(any));
        let is_odd = subject.role == Role::We && attribute != "lives in"
            || attribute == "car" && subject.role != Role::First
            || attribute == "prefers" && has(rest, &["if", "when", "unless"])
            || has(words, &["lived", "worked"]) && !has(rest, &["for", "since"])
            // "living in Rome for two weeks" passes.
            || base != "have" && has(rest, &["for"]) && has(rest, PASSING_TIMES);
        // "Docker works as a sandbox."
        let kind = if attribute == "works as" && named {
            ValueKind::KnownJob
        } else {
            kind
        };
        let year = low(rest, 0);
        let is_year = attribute == "born in" && year.len() == 4 && year.parse::<u16>().is_ok();
        let value = match is_year {
            true => Some(year.to_owned()),
            false => self.value(rest, kind),
        };
        let Some(value) = value.filter(|_| !is_odd) else {
            return false;
        };
        let sure = self.sure(subject) - if verb == "moved" { 0.1 } else { 0.0 };
        self.add(&subject.entity, attribute, value, sure);
        self.place_of_work(subject, attribute, rest);
        true
    }

    /// "am not a nurse", "do not live in Kiel": what was known as that is over, or was never so. Nothing may follow the
    /// value: who does not work at Siemens on Fridays works there.
    fn denial(&mut self, subject: &Subject, words: &[Word]) -> bool {
        let words = skip_adverbs(words, self.pack);
        let said = words.split(Word::is_mark).next().unwrap_or_default();
        let verb = match (base(self.pack, low(said, 0)), low(said, 1)) {
            ("be", "not") => between(said, 0, 1),
            ("do", "not") => &[],
            _ => return false,
        };
        // "I don't always work at Siemens"
        if any_of(said, &self.pack.facts.adverbs) {
            return false;
        }
        let before = self.found.len();
        self.ending = true;
        self.predicate(subject, &[verb, tail(said, 2)].concat());
        self.ending = false;
        let last = said.last().map_or("", |word| &word.raw);
        let last = last.trim_end_matches('.');
        let mut denied = self.found.iter().skip(before);
        let is_whole = denied.any(|one| one.value.ends_with(last) || one.attribute.ends_with(last));
        if !is_whole {
            self.found.truncate(before);
        }
        is_whole
    }

    /// What continues after "I'm Hannah": ", 29", ", from Cork", ", a nurse".
    fn description(&mut self, subject: &Subject, words: &[Word]) -> bool {
        if low(words, 0) == "from" {
            return self.state(subject, "from", tail(words, 1), ValueKind::Place);
        }
        describes(words) && self.being(subject, words)
    }

    /// "left Siemens", "quit my job at Siemens", "moved away from Rome": it is over, if it was so. "Left Siemens at six"
    /// is not.
    fn left(&mut self, subject: &Subject, words: &[Word]) -> bool {
        let facts = &self.pack.facts;
        let ways = [
            (&facts.left_job, "works at", ValueKind::Employer),
            (&facts.left_home, "lives in", ValueKind::Place),
        ];
        ways.into_iter().any(|(phrases, attribute, kind)| {
            let Some(end) = opens(words, 0, phrases) else {
                return false;
            };
            let rest = tail(words, end);
            let for_a_day = rest
                .iter()
                .any(|word| word.is(&["at", "for", "early", "late"]));
            self.ending = true;
            !for_a_day && self.state(subject, attribute, rest, kind)
        })
    }

    /// "works as a nurse at Saint Mary's", "works at Saint Mary's as a nurse", "studies law at Coimbra".
    fn place_of_work(&mut self, subject: &Subject, attribute: &str, rest: &[Word]) {
        let find = |any: &[&str]| rest.iter().position(|word| word.is(any));
        let (at, wanted, kind) = match attribute {
            "works as" => (find(&["at", "for"]), "works at", ValueKind::Employer),
            "studies" => (find(&["at", "for"]), "studies at", ValueKind::Employer),
            "works at" => {
                let is_article = |at: &usize| matches!(low(rest, at + 1), "a" | "an");
                (find(&["as"]).filter(is_article), "works as", ValueKind::Job)
            }
            _ => return,
        };
        if let Some(at) = at {
            self.state(subject, wanted, tail(rest, at + 1), kind);
        }
    }

    /// What follows "is": a name, an age, a profession, a trait. Returns whether it was one.
    fn being(&mut self, subject: &Subject, words: &[Word]) -> bool {
        let said = skip_adverbs(words, self.pack);
        let words = corrected(said);
        let Some(first) = words.first().filter(|_| subject.role != Role::We) else {
            return false;
        };
        if first.low == "called" {
            return self.naming(subject, tail(words, 1), self.sure(subject));
        }
        // "Ana is my sister"
        if first.low == "my" && subject.is_named() && self.voice.first_person {
            let Some((label, end)) = relation(words, 1, self.pack) else {
                return false;
            };
            let ends = is_end(words, end) || matches!(low(words, end), "and" | "who");
            if ends && !subject.entity.contains("'s ") {
                self.add(USER, &label, subject.entity.clone(), OTHER);
            }
            return ends;
        }
        if words.iter().any(|word| word.low == "tall") {
            let value = self.value(words, ValueKind::Numbered);
            let height = value.and_then(|value| value.strip_suffix(" tall").map(str::to_owned));
            return height
                .map(|value| self.add(&subject.entity, "height", value, self.sure(subject)))
                .is_some();
        }
        if first.low.parse::<u8>().is_ok() {
            let Some(age) = self.value(words, ValueKind::Age) else {
                return false;
            };
            let years = age.split(' ').next().unwrap_or("").to_owned();
            self.add(&subject.entity, "age", years, self.sure(subject));
            return true;
        }
        let article = matches!(first.low.as_str(), "a" | "an");
        if (article || first.low == "the") && self.value(words, ValueKind::KnownJob).is_some() {
            if !article || !ends_with_job(words, self.small) {
                return false;
            }
            self.state(subject, "works as", words, ValueKind::KnownJob);
            self.place_of_work(subject, "works as", words);
            return true;
        }
        if let Some(what) = self.trait_of(words) {
            self.add(&subject.entity, "is", what, self.sure(subject));
            return true;
        }
        // "I am Ada", "my sister is Ana": nothing may follow the name.
        let is_alone = name_end(words, 0).is_some_and(|end| is_end(words, end));
        // "My husband is CEO", "My wife is Boss."
        let is_capitals = |c: char| c.is_ascii_uppercase() || c == '.';
        let is_short = first.low.len() > 1 && first.raw.chars().all(is_capitals);
        let facts = &self.pack.facts;
        let is_noun = facts.jobs.has(&first.low) || facts.relation_words.has(&first.low);
        // In notes "I am …" may be the agent that writes them.
        let is_writer = self.voice.about_user && subject.role == Role::First;
        is_alone && !is_short && !is_noun && !is_writer && self.naming(subject, said, OTHER)
    }

    /// "vegetarian", "a morning person", "Portuguese".
    fn trait_of(&self, words: &[Word]) -> Option<String> {
        let facts = &self.pack.facts;
        let is_trait = |value: &String| {
            let low = value.to_lowercase();
            facts.traits.has(&low) || facts.languages.has(&low) && is_capital(words, 0)
        };
        let plain = self.value(words, ValueKind::Short).filter(is_trait);
        if plain.is_some() {
            return plain;
        }
        let article = matches!(low(words, 0), "a" | "an");
        let kind = self.value(words, ValueKind::Job).filter(|_| article)?;
        let low = kind.to_lowercase();
        let last = low.rsplit(' ').next().unwrap_or("");
        let is_few = low.split(' ').count() <= 2;
        (is_few && facts.trait_nouns.has(last) || facts.trait_phrases.has(&low)).then_some(kind)
    }

    /// "have a dog called Rex", "have a brother named Rui". What else one has is in the rows.
    fn having(&mut self, subject: &Subject, words: &[Word]) -> bool {
        let got = usize::from(low(words, 0) == "got");
        let count = low(words, got);
        let is_counted = matches!(count, "a" | "an") || self.pack.facts.numbers.has(count);
        let Some((label, end)) = relation(words, got + usize::from(is_counted), self.pack) else {
            return false;
        };
        let is_named = match low(words, end) {
            "," => is_capital(words, end + 1),
            join => matches!(join, "called" | "named"),
        };
        let name = self.value(tail(words, end + 1), name_kind(&label));
        let Some(name) = name.filter(|_| is_named) else {
            return false;
        };
        let entity = match subject.role {
            Role::We => USER,
            _ => &subject.entity,
        };
        self.add(entity, &label, name, self.sure(subject));
        true
    }

    /// "Call me Addie", "They call me Addie".
    fn calls_me(&mut self, clause: &[Word]) {
        let Some(at) = clause
            .iter()
            .position(|word| word.low == "me")
            .filter(|at| *at > 0)
        else {
            return;
        };
        let who = ["people", "everyone", "everybody", "friends", "they"];
        let is_known = at == 1 || at == 2 && clause[0].is(&who);
        let rest = tail(clause, at + 1);
        let ends = name_end(rest, 0).is_some_and(|end| end <= 2 && is_end(rest, end));
        let calls = matches!(low(clause, at - 1), "call" | "calls");
        if is_known
            && ends
            && calls
            && self.voice.first_person
            && let Some(name) = self.value(rest, ValueKind::Name)
        {
            self.add(USER, "nickname", name, OTHER);
        }
    }

    /// "… with my sister Ana …": who she is, wherever it is said.
    fn mentions(&mut self, clause: &[Word]) {
        let owners = (0..clause.len()).filter(|at| matches!(low(clause, *at), "my" | "our"));
        for at in owners {
            let Some((label, next)) = relation(clause, at + 1, self.pack) else {
                continue;
            };
            let end = name_end(clause, next).unwrap_or(next);
            let name = self.value(between(clause, next, end), ValueKind::Name);
            if let Some(name) = name.filter(|_| name_kind(&label) == ValueKind::Name) {
                self.add(USER, &label, name, OTHER);
            }
        }
    }
}

/// Returns true when a statement may begin like that: with somebody, and what they do. After
/// "Make a page, …" or "As of June, …" the rest hangs on what is not understood.
fn opens_well(clause: &[Word], voice: Voice) -> bool {
    let facts = &english().facts;
    let calls_me = clause.iter().take(4).any(|word| word.low == "me");
    let Some((subject, next)) = subject(clause, voice, english()) else {
        return calls_me;
    };
    let verb = low(clause, next);
    let continues =
        is_end(clause, next) || verb == "'s" || facts.third.has(verb) || facts.adverbs.has(verb);
    !subject.is_named() || subject.related.is_some() || calls_me || continues
}
