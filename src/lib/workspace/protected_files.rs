//! The files that shape the agent itself: the owner changes them in an editor, a tool only with
//! the owner's yes (specification §22).

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const FILES: [&str; 6] = [
    "SOUL.md",
    "IDENTITY.md",
    "AGENTS.md",
    "USER.md",
    "TOOLS.md",
    "HEARTBEAT.md",
];
const DIRS: [&str; 2] = ["skills", "prompts"];
/// What has no room in this build; a tool is not to fill it before it has.
const LATER: [&str; 1] = ["cron"];

/// Returns where they are in the workspace `dir`.
pub fn protected_paths(dir: &Path) -> Vec<PathBuf> {
    FILES
        .iter()
        .chain(&DIRS)
        .map(|name| dir.join(name))
        .collect()
}

/// Makes those that are missing, empty: a command could create what is not there, for only what
/// is there can be closed to it.
///
/// # Errors
/// When one can neither be found nor made.
pub fn create_protected(dir: &Path) -> std::io::Result<()> {
    let made = FILES.iter().map(|name| {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(dir.join(name))
            .map(drop)
    });
    let made = made.chain(
        DIRS.iter()
            .map(|name| DirBuilder::new().mode(0o700).create(dir.join(name))),
    );
    for result in made {
        match result {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Returns true when `path`, relative to the workspace and without links, is one of them or
/// inside one. Letter case does not matter: some file systems ignore it.
pub fn is_protected(path: &Path) -> bool {
    let mut names = path
        .components()
        .map(|part| fold(&part.as_os_str().to_string_lossy()));
    let Some(first) = names.next() else {
        return false;
    };
    let is = |known: &&str| fold(known) == first;
    DIRS.iter().chain(&LATER).any(is) || (names.next().is_none() && FILES.iter().any(is))
}

/// What only the owner's own conversations see.
const MEMORY: [&str; 3] = ["MEMORY.md", "USER.md", "memory"];

/// Returns true when `path`, relative to the workspace and without links, is what only the owner's own
/// conversations see, whoever speaks.
pub fn is_memory(path: &Path) -> bool {
    let first = path
        .components()
        .next()
        .map(|first| fold(&first.as_os_str().to_string_lossy()));
    first.is_some_and(|first| MEMORY.into_iter().any(|name| fold(name) == first))
}

/// Returns what of the workspace `dir` only the owner's own conversations see, in whatever letter case it is
/// there.
pub fn memory_paths(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name())
        .filter(|name| is_memory(Path::new(name)))
        .map(|name| dir.join(name))
        .collect()
}

/// Returns a name as file systems compare it that ignore the case of letters: some letters beyond ASCII
/// are the other case of one in it (ſ, K).
pub(super) fn fold(name: &str) -> String {
    name.to_uppercase().to_lowercase()
}
