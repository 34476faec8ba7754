//! The files that shape the agent itself, which a tool changes only with the owner's approval (specification §22), and the
//! memory, which only the owner's own conversations see.

use std::fs::{DirBuilder, OpenOptions};
use std::io::ErrorKind;
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
/// A directory that this build does not use yet; no tool may fill it before.
const RESERVED_DIR: &str = "cron";
/// What only the owner's own conversations see.
const MEMORY: [&str; 3] = ["MEMORY.md", "USER.md", "memory"];

/// Returns the protected files and directories of the workspace `dir`.
pub fn protected_paths(dir: &Path) -> Vec<PathBuf> {
    let names = FILES.iter().chain(&DIRS);
    names.map(|name| dir.join(name)).collect()
}

/// Makes those that are missing, empty: a command could create what is not there, for only what
/// is there can be closed to it.
///
/// # Errors
/// When one can neither be found nor made.
pub fn create_protected(dir: &Path) -> std::io::Result<()> {
    let mut new_file = OpenOptions::new();
    new_file.write(true).create_new(true).mode(0o600);
    for path in protected_paths(dir) {
        let made = match DIRS.iter().any(|name| path.ends_with(name)) {
            true => DirBuilder::new().mode(0o700).create(&path),
            false => new_file.open(&path).map(drop),
        };
        match made {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Returns true when `path`, relative to the workspace and without links, is one of them or
/// inside one. Letter case does not matter: some file systems ignore it.
pub fn is_protected(path: &Path) -> bool {
    let is_file = path.components().count() == 1 && starts_with_one_of(path, &FILES);
    is_file || starts_with_one_of(path, &DIRS) || starts_with_one_of(path, &[RESERVED_DIR])
}

/// Returns true when `path`, relative to the workspace and without links, is what only the owner's own
/// conversations see, no matter who speaks.
pub fn is_memory(path: &Path) -> bool {
    starts_with_one_of(path, &MEMORY)
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

fn starts_with_one_of(path: &Path, names: &[&str]) -> bool {
    path.components().next().is_some_and(|first| {
        let first = fold(&first.as_os_str().to_string_lossy());
        names.iter().any(|name| fold(name) == first)
    })
}

/// Returns a name as file systems compare it that ignore the case of letters: some letters beyond ASCII
/// are the other case of one in it (ſ, K).
pub(super) fn fold(name: &str) -> String {
    name.to_uppercase().to_lowercase()
}
