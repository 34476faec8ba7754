//! Skills that the agent proposes. A draft is a file that its owner reads; what makes it a proposal is the hash in
//! state/learned.json, which no tool reaches: a draft that is another one than was proposed counts for nothing.
//!
//! ```text
//! workspace/skills-proposed/NAME/SKILL.md       the draft
//! workspace/skills-proposed/NAME/before.md      what the last accepted change replaced
//! ```
//! Written down in this order: the draft, its record; then the skill, then the end of its record. A crash between the
//! last two leaves a proposal that says what is there already, and [`Skills::proposals`] ends it.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;

use super::counts::{A_DAY, Counts, Event, LearnedFile, Record, What};
use super::draft::Draft;
use super::places::{before_of, draft_of, put, remove, remove_draft, skill_of, text_at};
use super::{SkillCatalog, Skills, front_matter};
use crate::config::Home;
use crate::sandbox;
use crate::sandbox::{BeneathError, Root};
use crate::sys;
use crate::sys::atomic::Durability;
use crate::sys::{atomic, lock};
use crate::text::{line_diff, sha256_hex};
use crate::trust::approved_hashes::Decision;

/// Drafts that wait at one time.
const MAX_WAITING: usize = 10;

/// Why a proposal is not taken, or not accepted.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The text is not a skill, or is one that may not be.
    #[error("{0}")]
    Wrong(String),
    /// A skill that comes with the programs has the name.
    #[error("{0} is an included skill: choose another name")]
    Ships(String),
    /// Something else is in its place.
    #[error("{0}")]
    Taken(String),
    /// It says what is there.
    #[error("the skill {0} already has exactly this text")]
    Same(String),
    /// The owner was asked about it.
    #[error("the owner rejected exactly this text")]
    SaidNo,
    /// The owner would be asked too often.
    #[error("{0}")]
    Often(String),
    /// Nothing of the kind was proposed.
    #[error("no skill {0} is proposed")]
    Unknown(String),
    /// It is another text than the one that was proposed or shown.
    #[error("{0}")]
    Changed(String),
    /// A file could not be used.
    #[error(transparent)]
    Beneath(#[from] BeneathError),
    /// A file of the state could not be used.
    #[error(transparent)]
    State(#[from] sys::Error),
}

/// What waits for the owner's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// Its name.
    pub name: String,
    /// The hash of the draft as it was proposed.
    pub sha256: String,
    /// The hash of what it would replace.
    pub before: Option<String>,
    /// When it was proposed, milliseconds since 1970 UTC.
    pub at: i64,
    /// The run that proposed it.
    pub run: String,
    /// What it would change, line by line.
    pub diff: String,
    /// The hash of the draft as it is now; `None` when it cannot be read.
    pub now: Option<String>,
    /// Whether it is a skill that the owner removed: it is kept, and nobody is asked about it.
    pub shelved: bool,
}

/// What the owner accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accept<'a> {
    /// The text that was proposed.
    AsProposed,
    /// The text whose hash begins so: they have read it.
    Exactly(&'a str),
}

/// The proposals and counts of one home.
#[derive(Debug)]
pub struct Learned {
    workspace: PathBuf,
    state: PathBuf,
}

impl Learned {
    pub(super) fn new(home: &Home) -> Self {
        Self {
            workspace: home.workspace().to_owned(),
            state: home.learned_skills(),
        }
    }

    /// Returns true when nothing was ever proposed or counted: then there is nothing to ask about.
    pub fn is_blank(&self) -> bool {
        matches!(self.state.try_exists(), Ok(false))
    }

    /// Returns how often a skill was of use. Blocks.
    pub fn counts(&self, name: &str) -> Counts {
        self.all_counts().remove(name).unwrap_or_default()
    }

    /// Returns how often each skill was of use that was read or learned. Blocks.
    pub fn all_counts(&self) -> BTreeMap<String, Counts> {
        self.book().skills
    }

    /// Returns what became of skills, the oldest first. Blocks.
    pub fn events(&self) -> Vec<Event> {
        self.book().events
    }

    /// Returns the skill that a run proposed, while it waits. Blocks.
    pub fn proposed_in(&self, run: &str) -> Option<String> {
        let mut proposals = self.book().proposals.into_iter();
        let found = proposals.find(|(_, record)| record.run == run);
        found.map(|(name, _)| name)
    }

    /// Counts that a run read a skill. Blocks. What cannot be counted is not.
    pub fn used(&self, name: &str, run: &str, now: i64) {
        self.count(|book| {
            book.used(name, run, now);
            true
        });
    }

    /// Counts that a run failed. Blocks.
    pub fn failed(&self, run: &str) {
        // Most turns read no skill, and leave the file alone.
        if self
            .book()
            .skills
            .values()
            .any(|counts| counts.last_run.as_deref() == Some(run))
        {
            self.count(|book| book.failed(run));
        }
    }

    fn count(&self, change: impl FnOnce(&mut LearnedFile) -> bool) {
        let counted = self.change(Durability::Rename, |book| Ok(change(book)));
        if let Err(error) = counted {
            tracing::warn!(%error, "cannot record the use of a skill");
        }
    }

    /// Returns the file. One that cannot be read is as good as none: it allows nothing.
    pub(super) fn book(&self) -> LearnedFile {
        let book = atomic::read_valid_json(&self.state).ok().flatten();
        book.unwrap_or_default()
    }

    /// Changes the file under its lock; it is written when `change` says that it changed something.
    pub(super) fn change(
        &self,
        durability: Durability,
        change: impl FnOnce(&mut LearnedFile) -> Result<bool, Refused>,
    ) -> Result<(), Refused> {
        let _lock = lock::lock_beside(&self.state)?;
        let mut book: LearnedFile = atomic::read_json(&self.state)?.unwrap_or_default();
        if change(&mut book)? {
            atomic::write_json(&self.state, &book, durability)?;
        }
        Ok(())
    }

    fn root(&self) -> Result<Root, Refused> {
        Ok(Root::open(&self.workspace)?)
    }
}

impl Skills {
    /// Writes a draft down, and that it was proposed. Blocks.
    ///
    /// # Errors
    /// Why it is not proposed, in words for the model.
    pub fn propose(&self, draft: &Draft, run: &str, now: i64) -> Result<Proposal, Refused> {
        let file = draft.text().map_err(Refused::Wrong)?;
        let (name, sha256) = (&draft.name, sha256_hex(file.as_bytes()));
        let (learned, root) = (self.learned(), self.learned().root()?);
        self.may_be(&self.catalog(), name)?;
        let current = text_at(&root, &skill_of(name))?;
        if current.as_ref() == Some(&file) {
            return Err(Refused::Same(name.clone()));
        }
        let record = Record {
            sha256: sha256.clone(),
            before: current.as_ref().map(|text| sha256_hex(text.as_bytes())),
            run: run.to_owned(),
            at: now,
            shelved: false,
        };
        learned.change(Durability::Full, |book| {
            if book.was_rejected(name, &sha256) {
                return Err(Refused::SaidNo);
            }
            let others = book.proposals.iter().filter(|(other, _)| *other != name);
            let waiting = others.clone().filter(|(_, one)| !one.shelved).count();
            if others.clone().any(|(_, one)| one.run == run) {
                return Err(Refused::Often("one skill is proposed in a turn".to_owned()));
            }
            if waiting >= MAX_WAITING {
                return Err(Refused::Often(format!(
                    "{waiting} proposals wait for the owner: agent-send --skill list"
                )));
            }
            if book.proposed_lately(now) >= A_DAY {
                return Err(Refused::Often(format!(
                    "{A_DAY} skills were proposed within a day, which is enough"
                )));
            }
            // The draft first: a record without one would be a proposal that nobody can read.
            put(&root, &draft_of(name), &file)?;
            book.proposals.insert(name.clone(), record.clone());
            book.note(now, name, What::Proposed, Some(&sha256));
            Ok(true)
        })?;
        Ok(proposal(name, &record, Some(&file), current.as_deref()))
    }

    /// Returns what waits for the owner's word, by name. Blocks.
    pub fn proposals(&self) -> Vec<Proposal> {
        let records = self.learned().book().proposals;
        // This is looked at after every turn of the owner, and nearly always nothing waits.
        if records.is_empty() {
            return Vec::new();
        }
        let Ok(root) = self.learned().root() else {
            return Vec::new();
        };
        let mut proposals = Vec::new();
        let mut done = Vec::new();
        for (name, record) in records {
            let draft = text_at(&root, &draft_of(&name)).ok().flatten();
            let current = text_at(&root, &skill_of(&name)).ok().flatten();
            let is_there = current
                .as_ref()
                .is_some_and(|text| sha256_hex(text.as_bytes()) == record.sha256);
            if is_there {
                done.push((name, record));
                continue;
            }
            let (draft, current) = (draft.as_deref(), current.as_deref());
            proposals.push(proposal(&name, &record, draft, current));
        }
        for (name, record) in done {
            let ended = self.end(&root, &name, &record, record.at);
            ended.unwrap_or_else(
                |error| tracing::warn!(%error, "could not close an applied skill proposal"),
            );
        }
        proposals
    }

    /// Activates a proposal. Blocks.
    ///
    /// # Errors
    /// When it is not what the owner read, or may not be a skill any more; nothing is changed then.
    pub fn accept(&self, name: &str, what: Accept<'_>, now: i64) -> Result<(), Refused> {
        let learned = self.learned();
        let record = learned.book().proposals.remove(name);
        let record = record.ok_or_else(|| Refused::Unknown(crate::text::visible(name)))?;
        let root = learned.root()?;
        let changed = |what: &str| Refused::Changed(format!("{what}; nothing was changed"));
        let draft = text_at(&root, &draft_of(name))?
            .ok_or_else(|| changed("its draft is not there any more"))?;
        let sha256 = sha256_hex(draft.as_bytes());
        let is_meant = match what {
            Accept::AsProposed => sha256 == record.sha256,
            Accept::Exactly(digits) => sha256.starts_with(digits),
        };
        if !is_meant {
            return Err(changed("its draft is another one than that"));
        }
        front_matter::parse(draft.as_bytes(), name)
            .map_err(|why| Refused::Wrong(why.to_string()))?;
        let catalog = self.catalog();
        self.may_be(&catalog, name)?;
        let current = text_at(&root, &skill_of(name))?;
        let before = current.as_ref().map(|text| sha256_hex(text.as_bytes()));
        if before != record.before {
            return Err(changed("the skill has changed since it was proposed"));
        }
        if let Some(current) = &current {
            put(&root, &before_of(name), current)?;
        }
        let path = skill_of(name);
        sandbox::will_write(&root.dir().join(&path), draft.as_bytes());
        put(&root, &path, &draft)?;
        self.trust_accepted(name, now)?;
        let record = Record { sha256, ..record };
        self.end(&root, name, &record, now)
    }

    /// Drops a proposal: just this text is not proposed again. Blocks.
    ///
    /// # Errors
    /// When there is none, or a file cannot be written.
    pub fn reject(&self, name: &str, now: i64) -> Result<(), Refused> {
        let root = self.learned().root()?;
        self.learned().change(Durability::Full, |book| {
            let record = book.proposals.remove(name);
            let record = record.ok_or_else(|| Refused::Unknown(crate::text::visible(name)))?;
            book.note(now, name, What::Rejected, Some(&record.sha256));
            Ok(true)
        })?;
        remove_draft(&root, name);
        Ok(())
    }

    /// Takes a learned skill out of use: it becomes a draft that can be accepted again. Blocks.
    ///
    /// # Errors
    /// When it is not one of those, or cannot be moved.
    pub fn retire(&self, name: &str, now: i64) -> Result<(), Refused> {
        let learned = self.learned();
        let root = learned.root()?;
        let book = learned.book();
        if book
            .skills
            .get(name)
            .is_none_or(|counts| counts.learned_at.is_none())
        {
            let shown = crate::text::visible(name);
            return Err(Refused::Taken(format!(
                "{shown} was not learned: what you made yourself is yours to remove, in workspace/skills"
            )));
        }
        if book.proposals.contains_key(name) {
            return Err(Refused::Taken(format!(
                "a change of {name} waits: accept or reject it first"
            )));
        }
        let text =
            text_at(&root, &skill_of(name))?.ok_or_else(|| Refused::Unknown(name.to_owned()))?;
        let mut statuses = self.statuses().into_iter();
        let status = statuses.find(|status| status.name == name);
        if status.is_none_or(|status| status.files != ["SKILL.md"]) {
            return Err(Refused::Taken(format!(
                "workspace/skills/{name} has more files than its SKILL.md: move it yourself"
            )));
        }
        let record = Record {
            sha256: sha256_hex(text.as_bytes()),
            before: None,
            run: String::new(),
            at: now,
            shelved: true,
        };
        learned.change(Durability::Full, |book| {
            put(&root, &draft_of(name), &text)?;
            book.note(now, name, What::Removed, Some(&record.sha256));
            book.proposals.insert(name.to_owned(), record);
            book.skills.remove(name);
            Ok(true)
        })?;
        // A crash before this leaves a draft that says what is there: it stays active.
        remove(&root, &skill_of(name))
    }

    /// Returns the learned skills that did not help for long and whose removal was not offered lately. Blocks.
    pub fn idle(&self, now: i64) -> Vec<String> {
        let book = self.learned().book();
        let names = book.skills.keys().filter(|name| book.is_idle(name, now));
        let mut names: Vec<String> = names.cloned().collect();
        if !names.is_empty() {
            let catalog = self.catalog();
            names.retain(|name| catalog.get(name).is_some());
        }
        names
    }

    /// Notes that the removal of a skill was offered. Blocks.
    pub fn offered(&self, name: &str, now: i64) {
        self.learned().count(|book| {
            let counts = book.skills.get_mut(name);
            counts.map(|counts| counts.offered_at = Some(now)).is_some()
        });
    }

    /// Checks that a learned skill may have this name: it hides nothing.
    fn may_be(&self, catalog: &SkillCatalog, name: &str) -> Result<(), Refused> {
        let at = format!("skills/{name}/SKILL.md");
        let taken = |what: String| Err(Refused::Taken(what));
        match catalog.get(name) {
            Some(skill) if skill.location.starts_with("share/") => {
                return Err(Refused::Ships(name.to_owned()));
            }
            Some(skill) if skill.location != at => {
                return taken(format!("the skill {name} is in {}", skill.location));
            }
            Some(_) => return Ok(()),
            None => {}
        }
        if catalog.off.iter().any(|off| off.name == name) {
            return taken(format!("a skill {name} is there and off"));
        }
        if self.bundled_has(name) {
            return Err(Refused::Ships(name.to_owned()));
        }
        let dir = self.learned().workspace.join("skills").join(name);
        match dir.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            _ => taken(format!("skills/{name} is there already")),
        }
    }

    /// Trusts what the owner has just read, where somebody else could have written it.
    fn trust_accepted(&self, name: &str, now: i64) -> Result<(), Refused> {
        let mut statuses = self.statuses().into_iter();
        let Some(status) = statuses.find(|status| status.name == name) else {
            return Ok(());
        };
        // Of what is next to it they have read nothing.
        let is_alone = status.files == ["SKILL.md"];
        match status.sha256 {
            Ok(sha256) if status.is_untrusted && is_alone => {
                self.approved().decide(name, Decision::Trust(sha256), now)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Notes that a proposal is active.
    fn end(&self, root: &Root, name: &str, record: &Record, now: i64) -> Result<(), Refused> {
        self.learned().change(Durability::Full, |book| {
            if book.proposals.remove(name).is_none() {
                return Ok(false);
            }
            let what = match record.before {
                Some(_) => What::Improved,
                None => What::Learned,
            };
            book.note(now, name, what, Some(&record.sha256));
            let counts = book.skills.entry(name.to_owned()).or_default();
            match what {
                What::Improved => counts.corrected += 1,
                _ => counts.learned_at = Some(now),
            }
            Ok(true)
        })?;
        remove_draft(root, name);
        Ok(())
    }
}

fn proposal(name: &str, record: &Record, draft: Option<&str>, current: Option<&str>) -> Proposal {
    let current = current.unwrap_or_default();
    Proposal {
        name: name.to_owned(),
        sha256: record.sha256.clone(),
        before: record.before.clone(),
        at: record.at,
        run: record.run.clone(),
        diff: draft.map_or_else(String::new, |draft| line_diff(current, draft)),
        now: draft.map(|draft| sha256_hex(draft.as_bytes())),
        shelved: record.shelved,
    }
}

#[cfg(test)]
mod tests;
