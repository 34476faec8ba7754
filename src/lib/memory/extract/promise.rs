//! Promises of the speaker and requests for reminders: "I'll send Bob the report by Friday".
//!
//! "I'll", "I must" and "I'm going to" are promises only with a day and a verb of action: "I'll be late tomorrow" is none.
//! "Remind me to" and "I promised to" need neither. A negated sentence is not a promise, and a choice of days
//! ("Friday or Saturday") is not a deadline.

use chrono::NaiveDateTime;

use super::SPEECH;
use super::dates::{self, Deadline};
use super::sentence::{HOLE, Sentence};
use super::statement::{is_addressed, statement};
use super::subject::{Role, USER, subject};
use super::words::{
    Word, any_of, between, has_any, is_capital, low, opens, phrase_at, tail, without_elision,
};
use crate::language::pack::{Pack, Phrases, Promises, english, packs};

/// Something that somebody is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commitment {
    /// Who: `user`, a name, or `user's sister`.
    pub who: String,
    /// What, without the day: `send Bob the report`; the verb in its base form, at most 120 characters.
    pub what: String,
    /// The deadline, if it was stated clearly.
    pub deadline: Option<Deadline>,
    /// The line of the text where its sentence begins, from 0.
    pub line: u32,
    /// The sentence on one line, at most 300 characters.
    pub quote: String,
}

const MAX_CHARS: usize = 120;

/// Who promises what by when.
type Promise = (String, String, Option<Deadline>);

/// Where a promise begins, and how it is made.
struct Opening {
    who: String,
    /// Where what is to be done begins.
    end: usize,
    needs_day: bool,
    needs_doing: bool,
    /// The verb of "ich schicke", in its base form.
    verb: Option<String>,
}

/// Returns what `sentence` promises, said at `now`.
pub(super) fn read(sentence: &Sentence, words: &[Word], now: NaiveDateTime) -> Vec<Commitment> {
    // "Could you remind me to …?" asks, and means it; "Don't let me forget to …" begins as a question would.
    let polite = opens(words, 0, &english().promises.polite).unwrap_or(0);
    let asked = match phrase_at(words, 0, "do not let me forget to") {
        Some(_) => 2,
        None if low(words, polite) == "remind" => polite,
        None => 0,
    };
    let asks = asked > 0 || matches!(low(words, 0), "kannst" | "könntest");
    let text = sentence.text.replace('!', ".");
    let text = if asks { text.replace('?', ".") } else { text };
    let Some(statement) = statement(&text, tail(words, asked)) else {
        return Vec::new();
    };
    let promises = |pack: &'static Pack| {
        let mut words = without_elision(&statement.words);
        let is_order = statement.explicit && pack.promises.orders;
        if is_order && low(&words, 0) == "to" {
            words.remove(0);
        }
        let speaker = Speaker {
            pack,
            promises: &pack.promises,
            text: &sentence.text,
            words,
            is_order,
            now,
        };
        speaker.all()
    };
    let mut found = packs().iter().map(promises);
    let found = found.find(|found| !found.is_empty()).unwrap_or_default();
    let whole = |(who, what, deadline)| Commitment {
        who,
        what,
        deadline,
        line: sentence.line,
        quote: sentence.quote.clone(),
    };
    found.into_iter().map(whole).collect()
}

/// The words of a statement in one language.
struct Speaker<'a> {
    pack: &'static Pack,
    promises: &'static Promises,
    text: &'a str,
    words: Vec<Word>,
    /// "Remember to call …": only what is wrapped may be a bare order.
    is_order: bool,
    now: NaiveDateTime,
}

impl Speaker<'_> {
    fn all(&self) -> Vec<Promise> {
        let words = &self.words;
        let mut found = Vec::new();
        let mut at = 0;
        while at < words.len() {
            let is_free = at == 0 || self.is_joint(at - 1);
            at = match is_free.then(|| self.opening(at)).flatten() {
                None => at + 1,
                Some((lead, opening)) => self.read(at, lead, &opening, &mut found),
            };
        }
        let is_hedged = !found.is_empty()
            && (has_any(words, &self.promises.hedges) || any_of(words, &self.pack.calendar.every));
        if is_hedged { Vec::new() } else { found }
    }

    fn is_joint(&self, at: usize) -> bool {
        self.promises.joints.has(low(&self.words, at))
    }

    fn opened(&self, words: &[Word], at: usize, patterns: &Phrases) -> Option<usize> {
        patterns
            .iter()
            .find_map(|pattern| opened(self.promises, words, at, pattern))
    }

    /// Returns what a promise at `at` opens with, behind a day that may be before it.
    fn opening(&self, at: usize) -> Option<(Option<Deadline>, Opening)> {
        let (promises, words) = (self.promises, tail(&self.words, at));
        let lead = dates::at_start(words, self.pack, self.now);
        let start = lead.map_or(0, |(end, _)| end + usize::from(low(words, end) == ","));
        let lead = lead.map(|(_, deadline)| deadline);
        let opening = |who: &str, end, needs_day, needs_doing| Opening {
            who: who.to_owned(),
            end: at + end,
            needs_day,
            needs_doing,
            verb: None,
        };
        let ways = [
            (&promises.asked, false, false),
            (&promises.about, true, false),
            (&promises.will, true, true),
        ];
        let mut ways = ways
            .into_iter()
            .filter_map(|(patterns, needs_day, needs_doing)| {
                let end = self.opened(words, start, patterns)?;
                Some(opening(USER, end, needs_day, needs_doing))
            });
        if let Some(found) = ways.next() {
            return Some((lead, found));
        }
        if at == 0 && start == 0 && self.is_order {
            return Some((lead, opening(USER, 0, true, true)));
        }
        if promises.verb_last {
            // "Ich schicke Bob morgen den Bericht", "Morgen rufe ich Mama an"
            let verb = match (low(words, start), low(words, start + 1)) {
                (i, verb) if i == self.pack.facts.i => verb,
                (verb, i) if i == self.pack.facts.i && lead.is_some() => verb,
                _ => return None,
            };
            let mut found = opening(USER, start + 2, true, true);
            found.verb = Some(format!("{verb}n"));
            return Some((lead, found));
        }
        let (subject, next) = subject(tail(words, start), SPEECH, self.pack)?;
        let end = self.opened(words, start + next, &promises.promised)?;
        let is_other = matches!(subject.role, Role::Other(_));
        is_other.then(|| (lead, opening(&subject.entity, end, false, false)))
    }

    /// Reads one promise and returns where the next may begin.
    fn read(
        &self,
        at: usize,
        lead: Option<Deadline>,
        opening: &Opening,
        found: &mut Vec<Promise>,
    ) -> usize {
        let (promises, words) = (self.promises, &self.words);
        let mut from = opening.end;
        while let Some(end) = opens(words, from, &promises.fillers) {
            from = end;
        }
        let is_next = |at: &usize| self.is_joint(*at) && self.opening(at + 1).is_some();
        let end = (from..words.len()).find(is_next).unwrap_or(words.len());
        if dates::wavers(between(words, at, end), self.pack, self.now) {
            return end + 1;
        }
        let rest = between(words, from, end);
        let day = dates::first(rest, self.pack, self.now);
        // "Remind me tomorrow to …"
        let head = || dates::first(between(words, at, opening.end), self.pack, self.now);
        let date = |(_, day): (_, Deadline)| day;
        let deadline = day.clone().map(date).or(lead).or_else(|| head().map(date));
        let (first, second) = match &day {
            Some((range, _)) => (between(rest, 0, range.start), tail(rest, range.end)),
            None => (rest, &[] as &[Word]),
        };
        let ends = |word: &Word| word.is_mark() && word.low != "," || promises.cuts.has(&word.low);
        let first = first.split(ends).next().unwrap_or(&[]);
        // Behind the day a comma or "and" begins something else, unless nothing was said before it.
        let ends = |word: &Word| ends(word) || !first.is_empty() && promises.joints.has(&word.low);
        let second = second.split(ends).next().unwrap_or(&[]);
        if deadline.is_some() || !opening.needs_day {
            let parts = [self.trimmed(first), self.trimmed(second)];
            let what = self.what(parts, opening, deadline.is_some());
            found.extend(what.map(|what| (opening.who.clone(), what, deadline)));
        }
        end + 1
    }

    fn trimmed(&self, words: &[Word]) -> Vec<Word> {
        let is_empty = |word: &&Word| word.is_mark() || self.promises.fillers.contains(&word.low);
        let end = words
            .iter()
            .rposition(|word| !word.is_mark())
            .map_or(0, |at| at + 1);
        between(words, 0, end)
            .iter()
            .skip_while(is_empty)
            .cloned()
            .collect()
    }

    /// What is to be done, from the words before the day and those behind it.
    fn what(&self, mut parts: [Vec<Word>; 2], opening: &Opening, is_dated: bool) -> Option<String> {
        let promises = self.promises;
        let mut verb_at_end = opening.verb.clone();
        if let Some(last) = parts.iter_mut().rev().find(|part| !part.is_empty()) {
            if let Some(verb) = &mut verb_at_end {
                // "rufe … an"
                let prefix = last.last().map_or("", |word| &word.low).to_owned();
                if promises.prefixes.contains(&prefix) {
                    verb.insert_str(0, &prefix);
                    last.pop();
                }
            } else if promises.verb_last && !opening.needs_day {
                // "… zu schicken", "… anzurufen"
                verb_at_end = Some(infinitive(last, &promises.prefixes)?);
            }
        }
        let all = parts.concat();
        let verb = match &verb_at_end {
            Some(verb) => verb.as_str(),
            None if promises.verb_last && opening.needs_doing => all.last()?.low.as_str(),
            None => all.first()?.low.as_str(),
        };
        let marks = all.iter().filter(|word| word.is_mark()).count();
        let count = all.len() - marks + usize::from(verb_at_end.is_some());
        let is_nothing = opening.needs_doing && (!promises.doing.has(verb) || count < 2)
            || promises.negations.has(verb)
            || verb == "always"
            || verb == "be" && !is_dated;
        let is_vague = opening.needs_day && any_of(&all, &promises.vague);
        // "… Bob nicht anzurufen": there it stands anywhere before the verb.
        let is_negated = promises.verb_last && any_of(&all, &promises.negations);
        // "Recuérdame que …" is followed by no verb in its base form.
        let ends = |end: &String| verb.ends_with(end.as_str());
        let is_verb = promises.infinitives.is_empty() || promises.infinitives.iter().any(ends);
        let is_told = promises.orders && is_addressed(&all, self.pack);
        if is_nothing || is_vague || is_negated || !is_verb || is_told {
            return None;
        }
        let written = |words: &Vec<Word>| {
            let text = self.text.get(words.first()?.start..words.last()?.end)?;
            Some(text.trim_end_matches('.').to_owned())
        };
        let what: Vec<String> = parts
            .iter()
            .filter_map(written)
            .chain(verb_at_end)
            .collect();
        let what = what.join(" ");
        let is_plain = what.chars().any(char::is_alphabetic) && !what.contains(HOLE);
        (is_plain && what.chars().count() <= MAX_CHARS).then_some(what)
    }
}

/// Takes the verb off the end of `words` and returns its base form.
fn infinitive(words: &mut Vec<Word>, prefixes: &Phrases) -> Option<String> {
    let last = words.pop()?.low;
    if words.pop_if(|word| word.low == "zu").is_some() {
        return Some(last);
    }
    prefixes.iter().find_map(|prefix| {
        let rest = last.strip_prefix(prefix.as_str())?.strip_prefix("zu")?;
        Some(format!("{prefix}{rest}"))
    })
}

/// Returns where `pattern` ends when it is at `at`; `*` are one to five words.
fn opened(promises: &Promises, words: &[Word], at: usize, pattern: &str) -> Option<usize> {
    let Some((before, behind)) = pattern.split_once('*') else {
        return phrase_at(words, at, pattern);
    };
    let from = phrase_at(words, at, before.trim_end())?;
    if behind.is_empty() {
        return is_capital(words, from).then_some(from + 1);
    }
    // "Remind me what I promised to do" asks, "Remind me not to call" forbids.
    let is_odd = |word: &Word| {
        word.is_mark() || promises.questions.has(&word.low) || promises.negations.has(&word.low)
    };
    let plain = tail(words, from)
        .iter()
        .take_while(|word| !is_odd(word))
        .count();
    (from + 1..=from + plain.min(5)).find_map(|at| phrase_at(words, at, behind.trim_start()))
}
