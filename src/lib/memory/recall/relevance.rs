//! Selects what is relevant to a message: facts about people it names, commitments that are due or mentioned, episodes.

use std::cmp::Reverse;
use std::collections::HashSet;

use chrono::NaiveDate;
use chrono_tz::Tz;

use super::Request;
use super::fact_index::{FactIndex, FactMatch, USER};
use crate::clock;
use crate::config::{FactFormat, Home};
use crate::language::stop_words::is_stop;
use crate::language::tokenize::{ByCode, Codes, Words, each_word};
use crate::memory::facts;
use crate::memory::facts::Fact;
use crate::memory::facts::commitments::Commitment;
use crate::memory::facts::episodes::Episode;
use crate::memory::scope::{Scope, Viewer};

/// Facts about the user at the beginning of a conversation, whatever its topic.
const AT_FIRST: usize = 8;
/// The share of the score of a fact or episode that no time takes: where somebody lives is seldom said again.
const STAYS: f64 = 0.5;
/// Commitments are relevant so long before their deadline, whatever the message says.
const SOON_MS: i64 = 3 * DAY_MS;
const DAY_MS: i64 = 24 * 3600 * 1000;
/// Words that ask for commitments.
const COMMITMENT_WORDS: &str = "promise commitment deadline overdue due todo task";
/// An episode is relevant with a third of the message's words, or with two of them that are this share.
const THIRD: f64 = 0.33;
const WITH_TWO: f64 = 0.15;
/// Words of greeting, thanks and assent.
const SMALL_TALK: &str = "hello hi hey again thanks thank thx please ok okay yes no sure great good fine nice morning \
    evening night bye well welcome hallo danke bitte merci hola gracias";

/// What is relevant to a message, the most relevant first.
#[derive(Clone, Default)]
pub(crate) struct Relevant<'a> {
    pub(super) commitments: Vec<Line>,
    /// With their scores.
    pub(super) facts: Vec<(f64, &'a Fact)>,
    pub(super) episodes: Vec<Line>,
    /// In which the days of facts are told: the agent's; `None` is UTC.
    pub(super) zone: Option<Tz>,
}

/// A memory as a line of text.
#[derive(Clone, Default)]
pub(super) struct Line {
    pub(super) text: String,
    /// Its path and lines, or its kind and number.
    pub(super) place: String,
    /// Whose it is.
    pub(super) scope: Option<Scope>,
    /// Its relevance; `None` for what is relevant by its time.
    pub(super) score: Option<f64>,
    /// Its number, for a commitment that is overdue and was not brought up yet.
    pub(super) overdue: Option<i64>,
}

/// What `memory.db` states, indexed by words.
pub(crate) struct Recall {
    reader: facts::Reader,
    words: Words,
    facts: FactIndex,
    /// With their words.
    commitments: Vec<(Commitment, Codes)>,
    episodes: Vec<Episode>,
    /// Word → episodes with it.
    by_word: ByCode<Vec<usize>>,
    commitment_words: Codes,
}

impl Recall {
    pub(crate) fn new(home: &Home) -> Self {
        let mut words = Words::new();
        Self {
            reader: facts::Reader::new(facts::database(home)),
            commitment_words: codes(&mut words, COMMITMENT_WORDS),
            words,
            facts: FactIndex::default(),
            commitments: Vec::new(),
            episodes: Vec::new(),
            by_word: ByCode::default(),
        }
    }

    /// Returns what is relevant to a message of what `viewer` may see.
    pub(crate) fn relevant_to(
        &mut self,
        request: &Request<'_>,
        viewer: &Viewer,
    ) -> Result<Relevant<'_>, facts::Error> {
        // When the database cannot be read, nothing old is shown.
        let changed = self
            .reader
            .changed()
            .inspect_err(|_| self.replace(facts::Stated::default()));
        if let Some(stated) = changed? {
            self.replace(stated);
        }
        let words = without_small_talk(request.words);
        let mut said = Codes::default();
        if !words.is_empty() {
            said = codes(&mut self.words, &words);
            // "What does Will like?"
            for name in capitals(&words) {
                said.extend(codes(&mut self.words, name));
            }
        }
        Ok(Relevant {
            commitments: self.commitments(request, &said, viewer),
            facts: self.facts(request, &said, viewer),
            episodes: self.episodes(request, &said, viewer),
            zone: Some(request.zone),
        })
    }

    fn replace(&mut self, stated: facts::Stated) {
        let words = &mut self.words;
        self.facts = FactIndex::new(stated.facts, words);
        let commitments = stated.commitments.into_iter().map(|one| {
            let who = if one.who == USER { "" } else { &one.who };
            let said = codes(words, &format!("{who} {}", one.what));
            (one, said)
        });
        self.commitments = commitments.collect();
        self.by_word.clear();
        for (at, one) in stated.episodes.iter().enumerate() {
            let lists = [&one.topics, &one.participants, &one.decisions]
                .map(|list| list.join(" "))
                .join(" ");
            for code in codes(words, &format!("{} {lists}", one.summary)) {
                self.by_word.entry(code).or_default().push(at);
            }
        }
        self.episodes = stated.episodes;
    }

    /// Returns the commitments that are overdue and were not brought up since, whose deadline is near or that the message
    /// mentions; at the beginning of a conversation all. The nearest deadlines first, and of those without one the newest.
    fn commitments(&self, request: &Request<'_>, said: &Codes, viewer: &Viewer) -> Vec<Line> {
        let Request {
            first, now, zone, ..
        } = *request;
        let asks_for_all = !self.commitment_words.is_disjoint(said);
        let mut near: Vec<(i64, &Commitment)> = Vec::new();
        for (one, words) in self
            .commitments
            .iter()
            .filter(|(one, _)| viewer.may_see(&one.scope))
        {
            let due = one.due_ms(zone).unwrap_or(i64::MAX);
            let comes_up = if due <= now {
                one.shown_at.is_none()
            } else {
                first || due <= now.saturating_add(SOON_MS)
            };
            if comes_up || asks_for_all || !words.is_disjoint(said) {
                near.push((due, one));
            }
        }
        near.sort_by_key(|(due, one)| (*due, Reverse(one.updated_at), one.id));
        let line = |(due, one): (i64, &Commitment)| {
            let is_new = due <= now && one.shown_at.is_none();
            Line {
                text: commitment_text(one, due <= now, zone),
                place: format!("commitment {}", one.id),
                scope: Some(one.scope.clone()),
                score: None,
                overdue: is_new.then_some(one.id),
            }
        };
        near.into_iter().map(line).collect()
    }

    /// Returns the facts about whom the message names, those about the user that it mentions, then those that have one of
    /// its words; at the beginning of a conversation also the newest about the user.
    fn facts(&self, request: &Request<'_>, said: &Codes, viewer: &Viewer) -> Vec<(f64, &Fact)> {
        let score = |fact: &Fact, weight: f64| {
            (1.0 + weight) * fact.confidence * decayed_share(request, fact.updated_at)
        };
        let by_relevance = |a: &(u8, f64, &Fact), b: &(u8, f64, &Fact)| {
            a.0.cmp(&b.0)
                .then(b.1.total_cmp(&a.1))
                .then(a.2.id.cmp(&b.2.id))
        };
        let matches = self.facts.matches(said, viewer).into_iter();
        let mut found: Vec<(u8, f64, &Fact)> = matches
            .map(
                |FactMatch {
                     fact,
                     distance,
                     weight,
                 }| (distance, score(fact, weight), fact),
            )
            .collect();
        if request.first {
            let there: HashSet<i64> = found.iter().map(|(_, _, fact)| fact.id).collect();
            let of_user = self.facts.of_user(viewer);
            let mut rest: Vec<(u8, f64, &Fact)> = of_user
                .filter(|fact| !there.contains(&fact.id))
                .map(|fact| (2, score(fact, 0.0), fact))
                .collect();
            rest.sort_by(by_relevance);
            found.extend(rest.into_iter().take(AT_FIRST));
        }
        found.sort_by(by_relevance);
        let facts = found.into_iter().map(|(_, score, fact)| (score, fact));
        facts.collect()
    }

    /// Returns the episodes that the message mentions; at the beginning of a conversation also the newest.
    fn episodes(&self, request: &Request<'_>, said: &Codes, viewer: &Viewer) -> Vec<Line> {
        let mut near: Vec<(f64, &Episode)> = Vec::new();
        for (one, common) in self.episodes.iter().zip(self.common(said)) {
            let share = share(common, said.len());
            let is_relevant = share >= THIRD || (common >= 2 && share >= WITH_TWO);
            let is_known = one.session_id == request.session;
            if (request.first || is_relevant) && !is_known && viewer.may_see(&one.scope) {
                let day = one
                    .date
                    .parse::<NaiveDate>()
                    .map_or(0, |day| clock::start_of_day(day, request.zone));
                let at_first = if request.first { THIRD } else { 0.0 };
                near.push(((share + at_first) * decayed_share(request, day), one));
            }
        }
        near.sort_by(|(a, one), (b, other)| b.total_cmp(a).then(other.id.cmp(&one.id)));
        let line = |(score, one): (f64, &Episode)| Line {
            text: episode_text(one, request.settings.show_emotional_tone),
            place: format!("episode {}", one.id),
            scope: Some(one.scope.clone()),
            score: Some(score),
            overdue: None,
        };
        near.into_iter()
            .take(request.settings.max_episodes)
            .map(line)
            .collect()
    }

    /// Returns for each episode how many of the words `said` it has.
    fn common(&self, said: &Codes) -> Vec<usize> {
        let mut common = vec![0; self.episodes.len()];
        for at in said
            .iter()
            .filter_map(|code| self.by_word.get(code))
            .flatten()
        {
            common
                .get_mut(*at)
                .into_iter()
                .for_each(|count| *count += 1);
        }
        common
    }
}

/// Returns the share of a score that is left of what is of the time `at`.
#[expect(clippy::cast_precision_loss, reason = "days")]
fn decayed_share(request: &Request<'_>, at: i64) -> f64 {
    let days = request.now.saturating_sub(at).max(0) as f64 / DAY_MS as f64;
    STAYS + (1.0 - STAYS) * (-request.settings.decay_per_day * days).exp()
}

#[expect(clippy::cast_precision_loss, reason = "a share")]
fn share(part: usize, all: usize) -> f64 {
    part as f64 / all.max(1) as f64
}

fn codes(words: &mut Words, text: &str) -> Codes {
    words.of_query(text).iter().map(|word| word.code).collect()
}

fn commitment_text(one: &Commitment, is_overdue: bool, zone: Tz) -> String {
    let deadline = one
        .deadline
        .as_deref()
        .map(|deadline| match clock::parse_rfc3339(deadline) {
            Some(moment) => clock::local_minute(moment, zone),
            None => deadline.to_owned(),
        });
    let until = match (deadline, is_overdue) {
        (None, _) => String::new(),
        (Some(deadline), true) => format!(" (overdue since {deadline})"),
        (Some(deadline), false) => format!(" (by {deadline})"),
    };
    format!("commitment {}, {}: {}{until}", one.id, one.who, one.what)
}

/// Returns a fact as a line, with the day of `zone` on which it was said.
pub(super) fn fact_line(fact: &Fact, score: f64, format: FactFormat, zone: Tz) -> Line {
    let stated = format!("{}: {} {}", fact.entity, fact.attribute, fact.value);
    Line {
        text: match format {
            FactFormat::Natural => format!("{stated} ({})", source(fact, zone)),
            FactFormat::Compact => stated,
        },
        place: format!("{}:{}", fact.source, fact.source_line),
        scope: Some(fact.scope.clone()),
        score: Some(score),
        overdue: None,
    }
}

/// Returns where a fact is from. The path of a transcript is longer than the fact and tells less than the day.
fn source(fact: &Fact, zone: Tz) -> String {
    match fact.source.starts_with("state/sessions/") {
        true => format!("said {}", clock::local_date(fact.valid_from, zone)),
        false => format!("{}:{}", fact.source, fact.source_line),
    }
}

/// Returns an episode as a line. Its mood is before the summary, which may be cut at its end.
fn episode_text(one: &Episode, with_tone: bool) -> String {
    let decided = if one.decisions.is_empty() {
        String::new()
    } else {
        format!("; decided: {}", one.decisions.join("; "))
    };
    let tone = match with_tone && !one.emotional_tone.is_empty() {
        true => format!(" ({})", one.emotional_tone),
        false => String::new(),
    };
    format!("{}{tone}: {}{decided}", one.date, one.summary)
}

/// Returns `message` without greetings, thanks and the like, which would find older ones; empty when nothing else is there
/// but words that say nothing ("how are you?"). A name may be one of them ("who is Will?").
pub(crate) fn without_small_talk(message: &str) -> String {
    let is_small_talk = |word: &str| {
        let bare = word
            .trim_matches(|c: char| !c.is_alphanumeric())
            .to_lowercase();
        SMALL_TALK.split(' ').any(|small| small == bare)
    };
    let words = message.split_whitespace();
    let words = words.filter(|word| !is_small_talk(word));
    let words = words.collect::<Vec<_>>().join(" ");
    let mut tells = capitals(&words).next().is_some();
    each_word(&words, |word| tells |= !is_stop(word));
    if tells { words } else { String::new() }
}

/// Returns the words behind the first that are written as names are, which may say nothing otherwise. "I'm" is none.
fn capitals(message: &str) -> impl Iterator<Item = &str> {
    message.split_whitespace().skip(1).filter(|word| {
        word.starts_with(char::is_uppercase) && word.chars().nth(1).is_some_and(char::is_alphabetic)
    })
}
