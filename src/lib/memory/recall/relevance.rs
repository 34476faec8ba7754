//! What bears on a message: facts about those it names, promises that are due or that it speaks of, what happened.

use std::collections::HashSet;

use chrono::NaiveDate;
use chrono_tz::Tz;

use super::Asked;
use super::entities::{Filed, Near, USER};
use crate::config::Home;
use crate::language::tokenize::{ByCode, Codes, Words};
use crate::memory::facts;
use crate::memory::facts::Fact;
use crate::memory::facts::commitments::Commitment;
use crate::memory::facts::episodes::Episode;
use crate::memory::scope::Viewer;
use crate::{clock, text};

/// Facts at most, and episodes (specification §13).
pub(super) const MAX_FACTS: usize = 20;
const MAX_EPISODES: usize = 3;
/// Facts about the person at the beginning of a conversation, whatever it is about.
const AT_FIRST: usize = 8;
/// What an older fact or episode loses a day (specification §13). Half of it lasts: who lives somewhere is seldom said
/// again.
const DECAY_A_DAY: f64 = 0.03;
const LASTS: f64 = 0.5;
/// Promises with a deadline so near are brought up by themselves.
const SOON_MS: i64 = 3 * DAY_MS;
const DAY_MS: i64 = 24 * 3600 * 1000;
/// Who asks for these asks for what was promised.
const OF_PROMISES: &str = "promise commitment deadline overdue due todo task";
/// An episode bears on a message with a third of its words in it, or with two of them and this part.
const THIRD: f64 = 0.33;
const WITH_TWO: f64 = 0.15;
/// Words of greeting, thanks and assent.
const SMALL_TALK: [&str; 29] = [
    "hello", "hi", "hey", "again", "thanks", "thank", "thx", "please", "ok", "okay", "yes", "no",
    "sure", "great", "good", "fine", "nice", "morning", "evening", "night", "bye", "well",
    "welcome", "hallo", "danke", "bitte", "merci", "hola", "gracias",
];

/// What bears on a message, what matters most first.
#[derive(Default)]
pub(crate) struct Bearing<'a> {
    pub(super) commitments: Vec<Line>,
    /// Each with its score.
    pub(super) facts: Vec<(f64, &'a Fact)>,
    pub(super) episodes: Vec<Line>,
}

/// Something as it is said.
#[derive(Default)]
pub(super) struct Line {
    pub(super) text: String,
    /// What it goes by.
    pub(super) place: String,
    /// How near it is to the message; `None` for what comes up by its time.
    pub(super) score: Option<f64>,
    /// Its number when it is brought up because its time is over.
    pub(super) overdue: Option<i64>,
}

/// What is known, ready to be compared with messages.
pub(crate) struct Recall {
    reader: facts::Reader,
    words: Words,
    facts: Filed,
    /// Each with its words.
    commitments: Vec<(Commitment, Codes)>,
    episodes: Vec<Episode>,
    /// Word → episodes that have it.
    told: ByCode<Vec<usize>>,
    of_promises: Codes,
}

impl Recall {
    pub(crate) fn new(home: &Home) -> Self {
        let mut words = Words::new();
        Self {
            reader: facts::Reader::new(facts::database(home)),
            of_promises: codes(&mut words, OF_PROMISES),
            words,
            facts: Filed::default(),
            commitments: Vec::new(),
            episodes: Vec::new(),
            told: ByCode::default(),
        }
    }

    /// Returns what `viewer` may see that bears on a message.
    pub(crate) fn bearing_on(
        &mut self,
        asked: &Asked<'_>,
        viewer: &Viewer,
    ) -> Result<Bearing<'_>, facts::Error> {
        // Nothing old is shown when the reading fails.
        let changed = self
            .reader
            .changed()
            .inspect_err(|_| self.know(facts::Stated::default()));
        if let Some(stated) = changed? {
            self.know(stated);
        }
        let words = telling(asked.words);
        let said = if words.is_empty() {
            Codes::default()
        } else {
            codes(&mut self.words, &words)
        };
        Ok(Bearing {
            commitments: self.commitments(asked, &said, viewer),
            facts: self.facts(asked, &said, viewer),
            episodes: self.episodes(asked, &said, viewer),
        })
    }

    fn know(&mut self, stated: facts::Stated) {
        let words = &mut self.words;
        self.facts = Filed::new(stated.facts, words);
        let commitments = stated.commitments.into_iter().map(|one| {
            let who = if one.who == USER { "" } else { &one.who };
            let said = codes(words, &format!("{who} {}", one.what));
            (one, said)
        });
        self.commitments = commitments.collect();
        self.told.clear();
        for (at, one) in stated.episodes.iter().enumerate() {
            let lists = [&one.topics, &one.participants, &one.decisions]
                .map(|list| list.join(" "))
                .join(" ");
            for code in codes(words, &format!("{} {lists}", one.summary)) {
                self.told.entry(code).or_default().push(at);
            }
        }
        self.episodes = stated.episodes;
    }

    /// Returns promises that are overdue and were not brought up since, whose deadline is near or that the message
    /// speaks of; at the beginning of a conversation all. The nearest deadlines first.
    fn commitments(&self, asked: &Asked<'_>, said: &Codes, viewer: &Viewer) -> Vec<Line> {
        let Asked {
            first, now, zone, ..
        } = *asked;
        let asks_for_all = !self.of_promises.is_disjoint(said);
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
        near.sort_by_key(|(due, one)| (*due, one.id));
        let line = |(due, one): (i64, &Commitment)| {
            let is_new = due <= now && one.shown_at.is_none();
            let (text, place) = (
                commitment_line(one, due <= now, zone),
                format!("commitment {}", one.id),
            );
            Line {
                text,
                place,
                score: None,
                overdue: is_new.then_some(one.id),
            }
        };
        near.into_iter().map(line).collect()
    }

    /// Returns the facts of those whom the message names, those of the person that it speaks of, then those that say
    /// one of its words; at the beginning of a conversation also the newest about the person.
    fn facts(&self, asked: &Asked<'_>, said: &Codes, viewer: &Viewer) -> Vec<(f64, &Fact)> {
        let score = |fact: &Fact, weight: f64| {
            (1.0 + weight) * fact.confidence * fades(asked.now - fact.updated_at)
        };
        let mut near: Vec<(u8, f64, &Fact)> = Vec::new();
        for Near {
            fact,
            distance,
            weight,
        } in self.facts.near(said, viewer)
        {
            near.push((distance, score(fact, weight), fact));
        }
        if asked.first {
            let there: HashSet<i64> = near.iter().map(|(_, _, fact)| fact.id).collect();
            let rest = self
                .facts
                .of_user(viewer)
                .filter(|fact| !there.contains(&fact.id));
            let mut rest: Vec<(u8, f64, &Fact)> =
                rest.map(|fact| (2, score(fact, 0.0), fact)).collect();
            rest.sort_by(nearer);
            near.extend(rest.into_iter().take(AT_FIRST));
        }
        near.sort_by(nearer);
        near.into_iter()
            .map(|(_, score, fact)| (score, fact))
            .collect()
    }

    /// Returns the episodes that the message speaks of; at the beginning of a conversation also the newest.
    fn episodes(&self, asked: &Asked<'_>, said: &Codes, viewer: &Viewer) -> Vec<Line> {
        let mut near: Vec<(f64, &Episode)> = Vec::new();
        for (one, common) in self.episodes.iter().zip(self.common(said)) {
            let share = share(common, said.len());
            let bears = share >= THIRD || (common >= 2 && share >= WITH_TWO);
            let is_known = one.session_id == asked.session;
            if (asked.first || bears) && !is_known && viewer.may_see(&one.scope) {
                let day = one
                    .date
                    .parse::<NaiveDate>()
                    .map_or(0, |day| clock::start_of_day(day, asked.zone));
                let at_first = if asked.first { THIRD } else { 0.0 };
                near.push(((share + at_first) * fades(asked.now - day), one));
            }
        }
        near.sort_by(|(a, one), (b, other)| b.total_cmp(a).then(other.id.cmp(&one.id)));
        let line = |(score, one): (f64, &Episode)| Line {
            text: episode_line(one),
            place: format!("episode {}", one.id),
            score: Some(score),
            overdue: None,
        };
        near.into_iter().take(MAX_EPISODES).map(line).collect()
    }

    /// Returns for each episode how many of the words `said` it has.
    fn common(&self, said: &Codes) -> Vec<usize> {
        let mut common = vec![0; self.episodes.len()];
        for at in said.iter().filter_map(|code| self.told.get(code)).flatten() {
            common
                .get_mut(*at)
                .into_iter()
                .for_each(|count| *count += 1);
        }
        common
    }
}

fn nearer(
    (distance, score, fact): &(u8, f64, &Fact),
    (other_distance, other_score, other): &(u8, f64, &Fact),
) -> std::cmp::Ordering {
    distance
        .cmp(other_distance)
        .then(other_score.total_cmp(score))
        .then(fact.id.cmp(&other.id))
}

/// Returns what is left of a score after `ms`.
#[expect(clippy::cast_precision_loss, reason = "days")]
fn fades(ms: i64) -> f64 {
    let days = ms.max(0) as f64 / DAY_MS as f64;
    LASTS + (1.0 - LASTS) * (-DECAY_A_DAY * days).exp()
}

#[expect(clippy::cast_precision_loss, reason = "a share")]
fn share(part: usize, all: usize) -> f64 {
    part as f64 / all.max(1) as f64
}

fn codes(words: &mut Words, text: &str) -> Codes {
    words.of_query(text).iter().map(|word| word.code).collect()
}

fn commitment_line(one: &Commitment, is_overdue: bool, zone: Tz) -> String {
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

/// Returns a fact as it is shown. The name of a transcript costs more than the fact and says less than
/// the day.
pub(super) fn fact_line(fact: &Fact) -> String {
    let source = match fact.source.starts_with("state/sessions/") {
        true => format!("said {}", text::head(&clock::rfc3339(fact.valid_from), 10)),
        false => format!("{}:{}", fact.source, fact.source_line),
    };
    format!(
        "{}: {} {} ({source})",
        fact.entity, fact.attribute, fact.value
    )
}

fn episode_line(one: &Episode) -> String {
    let decided = if one.decisions.is_empty() {
        String::new()
    } else {
        format!("; decided: {}", one.decisions.join("; "))
    };
    format!("{}: {}{decided}", one.date, one.summary)
}

/// Returns `message` without what people say in passing; empty when there is nothing else: greetings
/// find older greetings.
pub(crate) fn telling(message: &str) -> String {
    let bare = |word: &str| {
        word.trim_matches(|c: char| !c.is_alphanumeric())
            .to_lowercase()
    };
    let words = message
        .split_whitespace()
        .filter(|word| !SMALL_TALK.contains(&bare(word).as_str()));
    words.collect::<Vec<_>>().join(" ")
}
