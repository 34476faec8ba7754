//! The paths of a proposal and its skill. Commands of the agent may write next to the drafts, so nothing here is read, written
//! or removed through a link.

use std::path::{Path, PathBuf};

use super::MAX_FILE;
use super::learned::Refused;
use crate::sandbox::{BeneathError, Root, Target};

/// Permissions of a new file.
const MODE: u32 = 0o600;

/// Returns the draft of a skill, below the workspace.
pub(super) fn draft_of(name: &str) -> PathBuf {
    Path::new("skills-proposed").join(name).join("SKILL.md")
}

/// Returns where what its last change replaced is kept.
pub(super) fn before_of(name: &str) -> PathBuf {
    draft_of(name).with_file_name("before.md")
}

/// Returns the skill.
pub(super) fn skill_of(name: &str) -> PathBuf {
    Path::new("skills").join(name).join("SKILL.md")
}

fn target(root: &Root, path: &Path) -> Result<Target, Refused> {
    let target = root.target(path)?;
    if target.real == path {
        return Ok(target);
    }
    let shown = path.display();
    Err(Refused::Taken(format!(
        "{shown} leads elsewhere through a link: remove the link first"
    )))
}

/// Returns the text that is there; `None` when nothing is.
pub(super) fn text_at(root: &Root, path: &Path) -> Result<Option<String>, Refused> {
    if target(root, path)?.existing()?.is_none() {
        return Ok(None);
    }
    let text = String::from_utf8(root.read(path, MAX_FILE)?);
    let no_text = |_| Refused::Taken(format!("{} is no text in UTF-8", path.display()));
    text.map(Some).map_err(no_text)
}

/// Puts a text there, whole or not at all; it is on disk when this returns.
pub(super) fn put(root: &Root, path: &Path, text: &str) -> Result<(), Refused> {
    let target = target(root, path)?;
    let old = target.existing()?;
    Ok(target.write(text.as_bytes(), old.as_ref(), MODE)?)
}

/// Removes a file, and its directory when nothing else is in it.
pub(super) fn remove(root: &Root, path: &Path) -> Result<(), Refused> {
    let file = target(root, path)?;
    if let Some(old) = file.existing()? {
        file.remove(&old)?;
    }
    if let Some(dir) = path.parent() {
        target(root, dir)?.remove_empty_directory();
    }
    Ok(())
}

/// Removes a draft. A draft that could not be removed is not a proposal without its record.
pub(super) fn remove_draft(root: &Root, name: &str) {
    match remove(root, &draft_of(name)) {
        Ok(()) | Err(Refused::Beneath(BeneathError::NotFound(_))) => {}
        Err(error) => tracing::warn!(%error, "could not remove a skill draft"),
    }
}
