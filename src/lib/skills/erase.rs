//! For `forget --hard`: which skills are the agent's own text, and removing the names of deleted ones.

use std::path::Path;

use super::Learned;
use super::counts::{LearnedFile, What};
use super::learned::Refused;
use super::places::draft_of;
use crate::config::Home;
use crate::sys;
use crate::sys::atomic;
use crate::sys::atomic::Durability;
use crate::text::sha256_hex;
use crate::trust::approved_hashes::{ApprovedHashes, Decision, Subject};

/// Where drafts lie, below the workspace.
pub const DRAFTS: &str = "skills-proposed/";

/// The learned skills of a home, as somebody looks at them who erases words.
pub struct LearnedWords {
    learned: Learned,
    book: LearnedFile,
    approved: ApprovedHashes,
}

impl LearnedWords {
    /// Returns those of `home`. Blocks.
    pub fn of(home: &Home) -> Self {
        let learned = Learned::new(home);
        Self {
            book: learned.book(),
            learned,
            approved: ApprovedHashes::new(&home.trusted_skills(), Subject::Skills),
        }
    }

    /// Returns whether the file at `path`, called `shown` below the workspace, is a skill as the agent wrote it and its
    /// owner accepted it: one that they wrote or changed themselves is theirs. Blocks.
    pub fn has(&self, path: &Path, shown: &str) -> bool {
        let name = shown.strip_prefix("skills/");
        let Some(name) = name.and_then(|name| name.strip_suffix("/SKILL.md")) else {
            return false;
        };
        let mut events = self.book.events.iter().rev();
        let last = events.find(|event| {
            event.skill == name && matches!(event.what, What::Learned | What::Improved)
        });
        let accepted = last.and_then(|event| event.sha256.as_deref());
        let is_as_accepted = |accepted: &str| {
            let bytes = atomic::read(path).ok().flatten();
            bytes.is_some_and(|bytes| sha256_hex(&bytes) == accepted)
        };
        accepted.is_some_and(is_as_accepted)
    }

    /// Counts what is kept of skills whose name `is_meant`, and with `erase` takes it out, with what is kept of proposals
    /// whose draft is gone. Blocks.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn erase(
        &self,
        is_meant: &dyn Fn(&str) -> bool,
        workspace: &Path,
        erase: bool,
    ) -> Result<usize, sys::Error> {
        let without = |book: &mut LearnedFile| {
            let count =
                |book: &LearnedFile| book.skills.len() + book.proposals.len() + book.events.len();
            let before = count(book);
            book.skills.retain(|name, _| !is_meant(name));
            book.proposals.retain(|name, _| !is_meant(name));
            book.events.retain(|event| !is_meant(&event.skill));
            before - count(book)
        };
        let mut gone = without(&mut self.book.clone());
        let approved = self.approved.read().unwrap_or_default();
        let names = approved.keys().filter(|name| is_meant(name));
        for name in names {
            gone += 1;
            if erase {
                self.approved.decide(name, Decision::Forget, 0)?;
            }
        }
        if erase {
            let changed = self.learned.change(Durability::Full, |book| {
                let is_there = |name: &str| workspace.join(draft_of(name)).is_file();
                let before = book.proposals.len();
                book.proposals.retain(|name, _| is_there(name));
                let gone = before - book.proposals.len() + without(book);
                Ok(gone > 0)
            });
            changed.or_else(|error| match error {
                Refused::State(error) => Err(error),
                // Nothing of it refuses.
                _ => Ok(()),
            })?;
        }
        Ok(gone)
    }
}
