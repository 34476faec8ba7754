//! Usage counts of skills, and the proposals of the agent.
//!
//! ```text
//! state/learned.json   {"v":1,
//!   "skills":{NAME:{"used":3,"failed":1,"corrected":1,"last_used_at":MS,"last_run":ID,"learned_at":MS,"offered_at":MS}},
//!   "proposals":{NAME:{"sha256":"…","before":"…"|null,"run":ID,"at":MS,"shelved":false}},
//!   "events":[{"at":MS,"skill":NAME,"what":"proposed","sha256":"…"}]}
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A skill that did not help for so long is offered for removal, milliseconds.
pub(super) const IDLE_MS: i64 = 60 * DAY_MS;
const DAY_MS: i64 = 24 * 3_600_000;
/// Proposals within a day: each is a question that the owner reads.
pub(super) const A_DAY: usize = 5;
/// Skills that are counted; of more those go that were used least lately.
const MAX_SKILLS: usize = 1_000;
/// Events that are kept.
const MAX_EVENTS: usize = 500;

/// How often a skill was of use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Turns that read it.
    pub used: u64,
    /// Of these, turns that failed.
    pub failed: u64,
    /// Changes of it that the owner accepted.
    pub corrected: u64,
    /// When it was read last, milliseconds since 1970 UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_run: Option<String>,
    /// When the owner accepted it first; `None` for one that was not learned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learned_at: Option<i64>,
    /// When its removal was offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) offered_at: Option<i64>,
}

/// What became of a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The agent proposed it.
    Proposed,
    /// The owner accepted it.
    Learned,
    /// The owner accepted a change of it.
    Improved,
    /// The owner said no to a proposal.
    Rejected,
    /// The owner removed it.
    Removed,
}

impl What {
    /// Returns it as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Proposed => "proposed",
            Self::Learned => "learned",
            Self::Improved => "improved",
            Self::Rejected => "rejected",
            Self::Removed => "removed",
        }
    }
}

/// A line of what was learned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, milliseconds since 1970 UTC.
    pub at: i64,
    /// The skill.
    pub skill: String,
    /// What became of it.
    pub what: What,
    /// The text that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// A proposal as it was made: its draft is good while it is this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) sha256: String,
    /// What it would replace.
    pub(super) before: Option<String>,
    pub(super) run: String,
    pub(super) at: i64,
    /// Whether it is a skill that was removed: nobody is asked about it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) shelved: bool,
}

/// The file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct LearnedFile {
    v: u32,
    pub(super) skills: BTreeMap<String, Counts>,
    pub(super) proposals: BTreeMap<String, Record>,
    pub(super) events: Vec<Event>,
}

impl LearnedFile {
    pub(super) fn note(&mut self, at: i64, skill: &str, what: What, sha256: Option<&str>) {
        self.v = 1;
        self.events.push(Event {
            at,
            skill: skill.to_owned(),
            what,
            sha256: sha256.map(str::to_owned),
        });
        let surplus = self.events.len().saturating_sub(MAX_EVENTS);
        self.events.drain(..surplus);
    }

    pub(super) fn used(&mut self, skill: &str, run: &str, now: i64) {
        self.v = 1;
        let counts = self.skills.entry(skill.to_owned()).or_default();
        // A turn that reads it again uses it once.
        if counts.last_run.as_deref() != Some(run) {
            counts.used += 1;
        }
        counts.last_run = Some(run.to_owned());
        counts.last_used_at = Some(now);
        while self.skills.len() > MAX_SKILLS {
            let oldest = self
                .skills
                .iter()
                .min_by_key(|(_, counts)| counts.last_used_at);
            let Some(name) = oldest.map(|(name, _)| name.clone()) else {
                return;
            };
            self.skills.remove(&name);
        }
    }

    /// Counts that a turn failed which had read skills; false when it had read none.
    pub(super) fn failed(&mut self, run: &str) -> bool {
        let of_run = |counts: &&mut Counts| counts.last_run.as_deref() == Some(run);
        let mut any = false;
        for counts in self.skills.values_mut().filter(of_run) {
            counts.failed += 1;
            // Counted once, whatever else is said of the run.
            counts.last_run = None;
            any = true;
        }
        any
    }

    /// Returns how many were proposed within a day before `now`.
    pub(super) fn proposed_lately(&self, now: i64) -> usize {
        let is_late = |event: &&Event| {
            event.what == What::Proposed && (0..DAY_MS).contains(&(now - event.at))
        };
        self.events.iter().filter(is_late).count()
    }

    /// Returns whether the owner said no to this text.
    pub(super) fn was_rejected(&self, skill: &str, sha256: &str) -> bool {
        self.events.iter().any(|event| {
            event.what == What::Rejected
                && event.skill == skill
                && event.sha256.as_deref() == Some(sha256)
        })
    }

    /// Returns whether a skill was learned and did not help for long, and nobody was asked about that lately.
    pub(super) fn is_idle(&self, skill: &str, now: i64) -> bool {
        let Some(counts) = self.skills.get(skill) else {
            return false;
        };
        let Some(learned_at) = counts.learned_at else {
            return false;
        };
        let last = [counts.last_used_at, counts.offered_at]
            .into_iter()
            .flatten()
            .fold(learned_at, i64::max);
        now - last >= IDLE_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_counts_once_and_fails_once() {
        let mut book = LearnedFile::default();
        book.used("a", "r1", 1);
        book.used("a", "r1", 2);
        book.used("b", "r1", 2);
        book.used("a", "r2", 3);
        assert!(book.failed("r2") && !book.failed("r2") && !book.failed("r9"));
        let of = |name: &str| {
            let counts = &book.skills[name];
            (counts.used, counts.failed, counts.last_used_at)
        };
        assert_eq!((of("a"), of("b")), ((2, 1, Some(3)), (1, 0, Some(2))));
        for number in 0..1_100 {
            book.used(&format!("s{number}"), "r3", 10 + number);
        }
        assert_eq!(book.skills.len(), MAX_SKILLS);
        assert!(!book.skills.contains_key("a") && book.skills.contains_key("s1099"));
    }

    #[test]
    fn what_was_learned_and_did_not_help_for_sixty_days_is_idle() {
        let mut book = LearnedFile::default();
        let check = |book: &LearnedFile, now: i64, expected: bool| {
            assert_eq!(book.is_idle("a", now), expected, "{now}");
        };
        book.used("a", "r1", 0);
        check(&book, IDLE_MS, false);
        book.skills.get_mut("a").expect("it is there").learned_at = Some(5);
        check(&book, 5 + IDLE_MS - 1, false);
        check(&book, 5 + IDLE_MS, true);
        book.used("a", "r2", 10);
        check(&book, 5 + IDLE_MS, false);
        book.skills.get_mut("a").expect("it is there").offered_at = Some(20 + IDLE_MS);
        check(&book, 10 + IDLE_MS + 30, false);
        check(&book, 20 + 2 * IDLE_MS, true);
    }

    #[test]
    fn events_are_bounded_and_those_of_a_day_are_counted() {
        let mut book = LearnedFile::default();
        for at in 0..1_000 {
            book.note(at, "a", What::Proposed, Some("s"));
        }
        assert_eq!(book.events.len(), MAX_EVENTS);
        assert_eq!(book.proposed_lately(1_000), MAX_EVENTS);
        assert_eq!(book.proposed_lately(DAY_MS + 998), 1);
        book.note(2_000, "a", What::Rejected, Some("s"));
        assert!(book.was_rejected("a", "s"));
        assert!(!book.was_rejected("b", "s") && !book.was_rejected("a", "t"));
    }
}
