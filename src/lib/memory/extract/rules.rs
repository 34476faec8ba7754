//! The table of what a verb says about its subject, and how a statement is read by it.

use super::Voice;
use super::clause::{
    clauses, corrected, describes, ended, ends_with_job, not_but, predicates, skip_adverbs,
    verb_end,
};
use super::gate::{Statement, passes, poisons};
use super::subject::{Role, Subject, USER, name_end, relation, subject};
use super::value::{Kind, value};
use super::vocabulary as v;
use super::words::{Word, base, phrase_at};

/// What was found: entity, attribute, value and how far it is to be trusted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub entity: String,
    pub attribute: String,
    pub value: String,
    pub ended: bool,
    pub confidence: f64,
}

/// The verb in its base form, the attribute it states, what that wants.
const RULES: &[(&str, &str, Kind)] = &[
    ("live in", "lives in", Kind::Place),
    ("be live in", "lives in", Kind::Place),
    ("have been live in", "lives in", Kind::Place),
    ("have lived in", "lives in", Kind::Place),
    ("move to", "lives in", Kind::Place),
    ("have move to", "lives in", Kind::Place),
    ("live at", "address", Kind::Numbered),
    ("work as", "works as", Kind::Job),
    ("work at", "works at", Kind::Employer),
    ("work for", "works at", Kind::Employer),
    ("have worked at", "works at", Kind::Employer),
    ("have worked for", "works at", Kind::Employer),
    ("have been work at", "works at", Kind::Employer),
    ("have been work for", "works at", Kind::Employer),
    ("have been work as", "works as", Kind::Job),
    ("work in", "works in", Kind::Place),
    ("study at", "studies at", Kind::Employer),
    ("study", "studies", Kind::Subject),
    ("be from", "from", Kind::Place),
    ("come from", "from", Kind::Place),
    ("was born in", "born in", Kind::Place),
    ("was born on", "birthday", Kind::Date),
    ("be born on", "birthday", Kind::Date),
    ("speak only", "speaks", Kind::Languages),
    ("speak", "speaks", Kind::Languages),
    ("play", "plays", Kind::Played),
    ("like", "likes", Kind::Thing),
    ("love", "likes", Kind::Thing),
    ("enjoy", "likes", Kind::Thing),
    ("adore", "likes", Kind::Thing),
    ("do like", "likes", Kind::Thing),
    ("be fond of", "likes", Kind::Thing),
    ("prefer", "prefers", Kind::Thing),
    ("do prefer", "prefers", Kind::Thing),
    ("hate", "dislikes", Kind::Thing),
    ("dislike", "dislikes", Kind::Thing),
    ("detest", "dislikes", Kind::Thing),
    ("can not stand", "dislikes", Kind::Thing),
    ("can not bear", "dislikes", Kind::Thing),
    ("do not like", "dislikes", Kind::Thing),
    ("do not enjoy", "dislikes", Kind::Thing),
    ("do not eat", "does not eat", Kind::Food),
    ("do not drink", "does not drink", Kind::Food),
    ("be allergic to", "allergic to", Kind::Food),
    ("be married to", "spouse", Kind::Name),
    ("have get", "has", Kind::Possession),
    ("have got", "has", Kind::Possession),
    ("have", "has", Kind::Possession),
    ("drive", "car", Kind::Proper),
];

/// Trust in what is said plainly about oneself, and about others: a name at the beginning of a
/// sentence may be a thing, and what one says about others changes behind one's back.
pub(super) const PLAIN: f64 = 0.8;
pub(super) const OTHER: f64 = 0.7;
/// Trust in what was marked as to be kept.
pub(super) const EXPLICIT: f64 = 0.9;
/// What is lost when names cannot be told from words by their capital.
const SMALL: f64 = 0.1;

/// Returns what `statement`, made of `text`, says.
pub(super) fn read(text: &str, statement: &Statement, voice: Voice) -> Vec<Found> {
    let mut found = Vec::new();
    let speaks_of_self = statement
        .words
        .first()
        .is_some_and(|word| matches!(word.low.as_str(), "i" | "we" | "my" | "our"));
    let mut reader = Reader {
        text,
        statement,
        voice,
        ending: false,
        found: &mut found,
    };
    for (at, clause) in clauses(&statement.words).into_iter().enumerate() {
        if poisons(clause) || at == 0 && !opens_well(clause, voice) {
            break;
        }
        reader.clause(clause);
        if speaks_of_self && voice.first_person {
            reader.mentions(clause);
        }
    }
    found
}

/// Returns true when a statement may begin like that: with somebody, and what they do. After
/// "Make a page, …" or "As of June, …" the rest hangs on what is not understood.
fn opens_well(clause: &[Word], voice: Voice) -> bool {
    let called = clause.iter().take(4).any(|word| word.low == "me");
    let Some((subject, next)) = subject(clause, voice) else {
        return called;
    };
    let named = subject.role == Role::Other(None) && subject.related.is_none();
    let goes_on = |word: &Word| {
        word.is_mark()
            || word.low == "'s"
            || v::among(v::THIRD, &word.low)
            || v::among(v::ADVERBS, &word.low)
    };
    !named || called || clause.get(next).is_none_or(goes_on)
}

struct Reader<'a> {
    text: &'a str,
    statement: &'a Statement,
    voice: Voice,
    /// What is read was so and is no longer.
    ending: bool,
    found: &'a mut Vec<Found>,
}

impl Reader<'_> {
    fn add(&mut self, entity: &str, attribute: &str, value: String, sure: f64) {
        let sure = if self.statement.small {
            sure - SMALL
        } else {
            sure
        };
        let confidence = if self.statement.explicit {
            EXPLICIT
        } else {
            sure
        };
        let (entity, attribute, ended) = (entity.to_owned(), attribute.to_owned(), self.ending);
        if !self
            .found
            .iter()
            .any(|one| one.entity == entity && one.attribute == attribute && one.value == value)
        {
            self.found.push(Found {
                entity,
                attribute,
                value,
                ended,
                confidence,
            });
        }
    }

    fn value(&self, words: &[Word], kind: Kind) -> Option<String> {
        value(self.text, words, kind, self.statement.small)
    }

    fn clause(&mut self, clause: &[Word]) {
        self.calls_me(clause);
        let Some((subject, next)) = subject(clause, self.voice) else {
            return;
        };
        let rest = clause.get(next..).unwrap_or(&[]);
        if let Some((owner, label, name)) = &subject.related {
            self.add(owner, label, name.clone(), OTHER);
        }
        if let Role::Attribute(attribute, kind) = &subject.role {
            return self.attribute(&subject.entity, attribute, *kind, rest);
        }
        let before = self.found.len();
        let mut was_over = false;
        for (number, predicate) in predicates(rest).into_iter().enumerate() {
            let over = ended(predicate);
            // "I used to work at Aldi and live in Ulm": that, too, or now?
            let is_now = predicate
                .first()
                .is_some_and(|word| v::among("now currently nowadays", &word.low));
            if was_over && over.is_none() && !is_now {
                break;
            }
            was_over |= over.is_some();
            self.ending = over.as_ref().is_some_and(|(_, over)| *over);
            let predicate = over.as_ref().map_or(predicate, |(words, _)| words);
            // What cannot be read makes the rest doubtful.
            let read = !passes(predicate)
                && (self.predicate(&subject, predicate)
                    || number > 0 && self.description(&subject, predicate)
                    || self.found.len() > before);
            self.ending = false;
            if !read {
                break;
            }
        }
    }

    /// "is 3 May", "is not 3 May but 4 May".
    fn attribute(&mut self, entity: &str, attribute: &str, kind: Kind, words: &[Word]) {
        let Some((verb, rest)) = words.split_first() else {
            return;
        };
        let rest = corrected(skip_adverbs(rest));
        if base(&verb.low) != "be" || passes(rest) {
            return;
        }
        let sure = if entity == USER { PLAIN } else { OTHER };
        if let Some(value) = self.value(rest, kind) {
            self.add(entity, attribute, value, sure);
        }
    }

    fn predicate(&mut self, subject: &Subject, words: &[Word]) -> bool {
        let words = skip_adverbs(words);
        let Some(verb) = words.first() else {
            return false;
        };
        // A name before a bare verb may be an order: "Max likes", never "Max like".
        let bare = verb.low == base(&verb.low) && !matches!(verb.low.as_str(), "was" | "can");
        let named = matches!(subject.role, Role::Other(None));
        if named && bare && !self.ending && !subject.entity.contains("'s ") {
            return false;
        }
        if base(&verb.low) == "be" && self.being(subject, words.get(1..).unwrap_or(&[])) {
            return true;
        }
        if base(&verb.low) == "have" && self.having(subject, words.get(1..).unwrap_or(&[])) {
            return true;
        }
        if self.left(subject, words) {
            return true;
        }
        let (words, instead) = not_but(words);
        let Some((attribute, kind, end)) = RULES.iter().find_map(|(verbs, attribute, kind)| {
            Some((*attribute, *kind, verb_end(words, verbs)?))
        }) else {
            return false;
        };
        if subject.role == Role::We && attribute != "lives in"
            || attribute == "car" && subject.role != Role::First
        {
            return false;
        }
        let rest = instead.unwrap_or_else(|| corrected(words.get(end..).unwrap_or(&[])));
        // "Docker works as a sandbox."
        let kind = if attribute == "works as" && named {
            Kind::KnownJob
        } else {
            kind
        };
        let lived = words
            .iter()
            .any(|word| matches!(word.low.as_str(), "lived" | "worked"));
        if lived
            && !rest
                .iter()
                .any(|word| matches!(word.low.as_str(), "for" | "since"))
        {
            return false;
        }
        let year = |words: &[Word]| {
            words
                .first()
                .is_some_and(|word| word.low.len() == 4 && word.low.parse::<u16>().is_ok())
        };
        let Some(value) = (if attribute == "born in" && year(rest) {
            rest.first().map(|word| word.low.clone())
        } else {
            self.value(rest, kind)
        }) else {
            return false;
        };
        if attribute == "prefers"
            && rest
                .iter()
                .any(|word| v::among("if when unless", &word.low))
        {
            return false;
        }
        let sure = self.sure(subject) - if verb.low == "moved" { 0.1 } else { 0.0 };
        self.add(&subject.entity, attribute, value, sure);
        self.place_of_work(subject, attribute, rest);
        true
    }

    /// What goes on after "I'm Hannah": ", 29", ", from Cork", ", a nurse".
    fn description(&mut self, subject: &Subject, words: &[Word]) -> bool {
        match words.split_first() {
            Some((first, rest)) if first.low == "from" => {
                let place = self.value(rest, Kind::Place);
                place
                    .map(|place| self.add(&subject.entity, "from", place, self.sure(subject)))
                    .is_some()
            }
            Some(_) if describes(words) => self.being(subject, words),
            _ => false,
        }
    }

    /// "left Siemens", "quit my job at Siemens", "moved away from Rome": it is over, if it was so. "Left Siemens at six"
    /// is not.
    fn left(&mut self, subject: &Subject, words: &[Word]) -> bool {
        let ways = [
            (
                "quit my job at|left my job at|have quit my job at|have left my job at|left|quit|have left|have quit|got fired from",
                "works at",
            ),
            (
                "moved away from|have moved away from|moved out of|have moved out of",
                "lives in",
            ),
        ];
        let way = |(ways, attribute): (&str, &'static str)| {
            Some((
                ways.split('|').find_map(|way| phrase_at(words, 0, way))?,
                attribute,
            ))
        };
        let Some((end, attribute)) = ways.into_iter().find_map(way) else {
            return false;
        };
        let rest = words.get(end..).unwrap_or(&[]);
        let for_a_day = rest
            .iter()
            .any(|word| matches!(word.low.as_str(), "at" | "for" | "early" | "late"));
        let kind = if attribute == "works at" {
            Kind::Employer
        } else {
            Kind::Place
        };
        let Some(value) = self.value(rest, kind).filter(|_| !for_a_day) else {
            return false;
        };
        self.ending = true;
        self.add(&subject.entity, attribute, value, self.sure(subject));
        true
    }

    /// "works as a nurse at Saint Mary's", "works at Saint Mary's as a nurse", "studies law at Coimbra".
    fn place_of_work(&mut self, subject: &Subject, attribute: &str, rest: &[Word]) {
        let wanted = match attribute {
            "works as" => "works at",
            "studies" => "studies at",
            "works at" => {
                let begins = |at: &usize| {
                    ["as a", "as an"]
                        .into_iter()
                        .any(|phrase| phrase_at(rest, *at, phrase).is_some())
                };
                let job = (0..rest.len())
                    .find(begins)
                    .and_then(|at| self.value(rest.get(at + 1..)?, Kind::Job));
                return job.into_iter().for_each(|job| {
                    self.add(&subject.entity, "works as", job, self.sure(subject))
                });
            }
            _ => return,
        };
        let Some(at) = rest
            .iter()
            .position(|word| matches!(word.low.as_str(), "at" | "for"))
        else {
            return;
        };
        if let Some(value) = self.value(rest.get(at + 1..).unwrap_or(&[]), Kind::Employer) {
            self.add(&subject.entity, wanted, value, self.sure(subject));
        }
    }

    /// What follows "is": a name, an age, a profession, a trait. Returns whether it was one.
    fn being(&mut self, subject: &Subject, words: &[Word]) -> bool {
        let words = corrected(skip_adverbs(words));
        let Some(first) = words.first() else {
            return false;
        };
        let sure = self.sure(subject);
        let entity = &subject.entity;
        if subject.role == Role::We {
            return false;
        }
        if first.low == "called" {
            return self.naming(subject, words.get(1..).unwrap_or(&[]), sure);
        }
        // "Ana is my sister"
        if first.low == "my" && matches!(subject.role, Role::Other(None)) && self.voice.first_person
        {
            let Some((label, end)) = relation(words, 1) else {
                return false;
            };
            let ends = words
                .get(end)
                .is_none_or(|word| word.is_mark() || v::among("and who", &word.low));
            if ends && !entity.contains("'s ") {
                self.add(USER, &label, entity.clone(), OTHER);
            }
            return ends;
        }
        let tall = words.iter().any(|word| word.low == "tall");
        if tall {
            let value = self
                .value(words, Kind::Numbered)
                .and_then(|value| value.strip_suffix(" tall").map(str::to_owned));
            return value
                .map(|value| self.add(entity, "height", value, sure))
                .is_some();
        }
        if first.low.parse::<u8>().is_ok() {
            let Some(age) = self.value(words, Kind::Age) else {
                return false;
            };
            let years = age.split(' ').next().unwrap_or("").to_owned();
            self.add(entity, "age", years, sure);
            return true;
        }
        if let Some(job) = self
            .value(words, Kind::KnownJob)
            .filter(|_| matches!(first.low.as_str(), "a" | "an" | "the"))
        {
            if first.low == "the" || !ends_with_job(words, self.statement.small) {
                return false;
            }
            self.add(entity, "works as", job, sure);
            self.place_of_work(subject, "works as", words);
            return true;
        }
        if let Some(what) = self.trait_of(words) {
            self.add(entity, "is", what, sure);
            return true;
        }
        // "I am Ada", "my sister is Ana": nothing may follow the name.
        let alone = name_end(words, 0).is_some_and(|end| words.get(end).is_none_or(Word::is_mark));
        // "My husband is CEO", "My wife is Boss."
        let is_short = first.low.len() > 1
            && first
                .raw
                .chars()
                .all(|c| c.is_ascii_uppercase() || c == '.');
        let is_noun = [v::JOBS, v::RELATIONS]
            .iter()
            .any(|list| v::among(list, &first.low));
        let alone = alone && !is_short && !is_noun;
        // In notes "I am …" may be the agent that writes them.
        let writer = self.voice.about_user && subject.role == Role::First;
        alone && !writer && self.naming(subject, words, OTHER)
    }

    fn naming(&mut self, subject: &Subject, words: &[Word], sure: f64) -> bool {
        let (entity, attribute, kind) = match &subject.role {
            Role::First => (USER, "name", Kind::Name),
            Role::Other(Some((owner, label))) if v::among(v::PLURAL, label) => {
                (owner.as_str(), label.as_str(), Kind::Names)
            }
            Role::Other(Some((owner, label))) => (owner.as_str(), label.as_str(), Kind::Name),
            Role::Other(None) | Role::We | Role::Attribute(..) => return false,
        };
        let Some(name) = self.value(words, kind) else {
            return false;
        };
        self.add(entity, attribute, name, sure);
        true
    }

    /// "vegetarian", "a morning person", "Portuguese".
    fn trait_of(&self, words: &[Word]) -> Option<String> {
        let plain = self.value(words, Kind::Short);
        let nation = |value: &String| {
            v::among(v::NATIONS, &value.to_lowercase())
                && words.first().is_some_and(Word::is_capital)
        };
        if let Some(value) = plain.filter(|value| {
            v::TRAITS
                .split('|')
                .any(|known| known == value.to_lowercase())
                || nation(value)
        }) {
            return Some(value);
        }
        let article = words
            .first()
            .is_some_and(|word| matches!(word.low.as_str(), "a" | "an"));
        let kind = self.value(words, Kind::Job).filter(|_| article)?;
        let low = kind.to_lowercase();
        let last = low.rsplit(' ').next().unwrap_or("");
        let phrases = [
            "morning person",
            "night owl",
            "early bird",
            "dog person",
            "cat person",
            "native speaker",
            "early riser",
        ];
        let few = low.split(' ').count() <= 2;
        (few && v::among(v::KINDS, last) || phrases.contains(&low.as_str())).then_some(kind)
    }

    /// "have a dog called Rex", "have a brother named Rui". What else one has is in the table.
    fn having(&mut self, subject: &Subject, words: &[Word]) -> bool {
        let got = usize::from(words.first().is_some_and(|word| word.low == "got"));
        let counted = |word: &Word| {
            matches!(word.low.as_str(), "a" | "an") || v::among(v::NUMBERS, &word.low)
        };
        let article = got + usize::from(words.get(got).is_some_and(counted));
        let Some((label, end)) = relation(words, article) else {
            return false;
        };
        let from = match words.get(end).map(|word| word.low.as_str()) {
            Some(",") if words.get(end + 1).is_some_and(Word::is_capital) => end + 1,
            Some("called" | "named") => end + 1,
            _ => return false,
        };
        let kind = if v::among(v::PLURAL, &label) {
            Kind::Names
        } else {
            Kind::Name
        };
        let entity = if subject.role == Role::We {
            USER
        } else {
            &subject.entity
        };
        let Some(name) = self.value(words.get(from..).unwrap_or(&[]), kind) else {
            return false;
        };
        self.add(entity, &label, name, self.sure(subject));
        true
    }

    /// "Call me Addie", "My friends call me Addie".
    fn calls_me(&mut self, clause: &[Word]) {
        let Some(at) = clause.iter().position(|word| word.low == "me") else {
            return;
        };
        let call = at.checked_sub(1).and_then(|before| clause.get(before));
        let who = clause.get(..at.saturating_sub(1)).unwrap_or(&[]);
        let known = who.is_empty()
            || who.len() == 1 && v::among("people everyone everybody friends they", &who[0].low);
        let rest = clause.get(at + 1..).unwrap_or(&[]);
        let ends = name_end(rest, 0)
            .is_some_and(|end| end <= 2 && rest.get(end).is_none_or(Word::is_mark));
        if known
            && ends
            && self.voice.first_person
            && call.is_some_and(|word| matches!(word.low.as_str(), "call" | "calls"))
            && let Some(name) = self.value(rest, Kind::Name)
        {
            self.add(USER, "nickname", name, OTHER);
        }
    }

    /// "… with my sister Ana …": who she is, wherever it is said.
    fn mentions(&mut self, clause: &[Word]) {
        for (at, _) in clause
            .iter()
            .enumerate()
            .filter(|(_, word)| matches!(word.low.as_str(), "my" | "our"))
        {
            let Some((label, next)) = relation(clause, at + 1) else {
                continue;
            };
            let Some(end) = name_end(clause, next) else {
                continue;
            };
            let Some(name) = self.value(clause.get(next..end).unwrap_or(&[]), Kind::Name) else {
                continue;
            };
            if !v::among(v::PLURAL, &label) {
                self.add(USER, &label, name, OTHER);
            }
        }
    }

    fn sure(&self, subject: &Subject) -> f64 {
        if subject.entity == USER && subject.role == Role::First {
            PLAIN
        } else {
            OTHER
        }
    }
}
