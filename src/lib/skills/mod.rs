//! Skills: how-to texts that the model reads when it needs them.
//!
//! ```text
//! workspace/skills/…/NAME/SKILL.md     the owner's; one wins over a bundled one of its name
//! share/skills/…/NAME/SKILL.md         come with the programs
//! workspace/skills-proposed/NAME/SKILL.md   what the agent proposes, see `learned`
//! state/skills.json                    {"v":1,"skills":{NAME:{"sha256":"…"|null,"at":MS}}}: what the owner
//!                                      trusts as it is now, or (null) never
//!
//! ---
//! name: backup                         the name of its directory, [a-z0-9-], at most 64
//! description: Make a backup and …     when to use it, at most 1,024 characters
//! always_on: false                     true: the whole text is in every prompt
//! brief: false                         true: the prompt lists the name only; needs: see `needs`
//! ---
//! # The text
//! ```
//! Nothing in a skill is run, and no link is followed. A skill of the workspace is the owner's when nobody else could have
//! written it; any other is disabled until the owner trusts its current content, and again when that changes.

mod catalog;
mod counts;
mod draft;
mod erase;
mod find;
mod front_matter;
mod hash;
mod learned;
mod needs;
mod ownership;
mod places;
mod trust;

pub use catalog::{SkillStatus, Skills};
pub use counts::{Counts, Event, What};
pub use draft::{Draft, Example};
pub use erase::{DRAFTS, LearnedWords};
pub use learned::{Accept, Learned, Proposal, Refused};
pub use needs::{Needs, Surroundings};

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::text;
use crate::text::hidden_chars::Hidden;

/// The largest SKILL.md, bytes.
pub const MAX_FILE: u64 = 64 * 1024;

/// A skill that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// Its name, `[a-z0-9-]{1,64}`.
    pub name: String,
    /// When to use it, one line of at most 1,024 characters.
    pub description: String,
    /// Whether its text is in every prompt.
    pub always_on: bool,
    /// Whether the prompt lists its name only.
    pub brief: bool,
    /// What it needs to work.
    pub needs: Needs,
    /// What it should be able to do, at most three.
    pub examples: Vec<Example>,
    /// What its head says and is not read, a phrase each.
    pub mistakes: Vec<String>,
    /// Whether it comes with the programs: everybody may know its text.
    pub ships: bool,
    /// Where its SKILL.md lies, as the model is told: `skills/NAME/SKILL.md` of the workspace, or
    /// `share/skills/…`.
    pub location: String,
    /// The text below its head.
    pub body: Arc<str>,
}

/// The skills that are there: those that may be used, and those that are off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillCatalog {
    /// What may be used, by name.
    pub skills: Vec<Skill>,
    /// What is off, and why.
    pub off: Vec<Off>,
}

impl SkillCatalog {
    /// Returns the skill called `name`.
    pub fn get(&self, name: &str) -> Option<&Skill> {
        self.skills
            .binary_search_by(|skill| skill.name.as_str().cmp(name))
            .ok()
            .map(|at| &self.skills[at])
    }
}

/// A skill that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Off {
    /// What it is called: its directory.
    pub name: String,
    /// Its SKILL.md, or what else is in the way.
    pub path: PathBuf,
    /// Why it is off.
    pub why: Why,
}

/// Why a skill is not used, by what helps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// It is written wrong.
    #[error("{0}")]
    Wrong(String),
    /// It has characters that nobody sees.
    #[error("it has hidden characters: {}", places(.0))]
    Hidden(Vec<Hidden>),
    /// Another one of its name goes before it.
    #[error("{0} has this name already")]
    Taken(String),
    /// Somebody else could have written it.
    #[error("{0}, so it may not be yours")]
    Untrusted(String),
    /// It is another one than the owner trusted.
    #[error("it changed since you trusted it")]
    Changed,
    /// The owner does not want it.
    #[error("you distrusted it")]
    Distrusted,
    /// Nobody knows whom to trust.
    #[error("{0}")]
    Unknown(String),
}

impl Why {
    /// Returns true when the owner's word would help.
    pub fn is_about_trust(&self) -> bool {
        matches!(self, Self::Untrusted(_) | Self::Changed | Self::Distrusted)
    }

    /// Returns which kind of reason it is, without the words of its author: what a model may read.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Wrong(_) => "it cannot be used as it is",
            Self::Hidden(_) => "it has hidden characters",
            Self::Taken(_) => "another one has its name",
            Self::Untrusted(_) => "somebody else could have written it",
            Self::Changed => "it changed since the owner trusted it",
            Self::Distrusted => "the owner distrusted it",
            Self::Unknown(_) => "it is unknown whom to trust",
        }
    }
}

/// Makes the name of a file fit for a terminal: the author of the file chose it.
fn shown(name: impl AsRef<Path>) -> String {
    text::shorten(&text::visible(&name.as_ref().to_string_lossy()), 80)
}

fn places(hidden: &[Hidden]) -> String {
    let first: Vec<String> = hidden.iter().take(3).map(ToString::to_string).collect();
    let more = if hidden.len() > first.len() {
        " and more"
    } else {
        ""
    };
    format!("{}{more}", first.join("; "))
}

/// Returns whether this can be the name of a skill.
pub fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests;
