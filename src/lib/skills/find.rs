//! Lists a directory of skills without following links or opening files.

use std::ffi::OsStr;
use std::fs::{DirEntry, Metadata};
use std::path::{Path, PathBuf};

use super::shown;
use crate::sys::Version;

/// How deep skills may lie.
const MAX_DEPTH: usize = 8;
/// The most that is looked at below one directory.
const MAX_ENTRIES: usize = 10_000;

/// What the file of a skill is called.
const SKILL_FILE: &str = "SKILL.md";
/// Where git keeps what files were before.
const HISTORY: &str = ".git";

/// Something that is there.
#[derive(Debug)]
pub(super) struct Entry {
    pub path: PathBuf,
    pub metadata: Metadata,
}

/// Everything below a directory, itself first, each directory before what is in it, names in order.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub entries: Vec<Entry>,
    /// What could not be listed, or was too much.
    pub trouble: Vec<(PathBuf, String)>,
}

impl Tree {
    /// Looks at `dir`; nothing there is an empty tree.
    pub(super) fn of(dir: &Path) -> Self {
        let mut tree = Self::default();
        match dir.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => tree.enter(dir.to_owned(), metadata, 0),
            Ok(metadata) => {
                tree.trouble.push((
                    dir.to_owned(),
                    "it is no directory, and links are not followed".to_owned(),
                ));
                tree.entries.push(Entry {
                    path: dir.to_owned(),
                    metadata,
                });
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => tree.trouble.push((dir.to_owned(), error.to_string())),
        }
        tree
    }

    /// Returns every SKILL.md, the least deep first; what is in a history is none.
    pub(super) fn skill_files(&self) -> Vec<&Entry> {
        let is_skill = |entry: &&Entry| {
            entry.path.file_name() == Some(OsStr::new(SKILL_FILE)) && !self.is_history(&entry.path)
        };
        let mut files: Vec<&Entry> = self.entries.iter().filter(is_skill).collect();
        files.sort_by_key(|entry| entry.path.components().count());
        files
    }

    /// Returns the files that would be a skill's if their names were in capitals: `skill.md`, which nobody reads.
    pub(super) fn misspelt_skill_files(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| {
            let name = entry.path.file_name().unwrap_or_default();
            name != SKILL_FILE
                && name.eq_ignore_ascii_case(SKILL_FILE)
                && !entry.path.with_file_name(SKILL_FILE).exists()
                && !self.is_history(&entry.path)
        })
    }

    fn is_history(&self, path: &Path) -> bool {
        let top = self.entries.first().map_or(Path::new(""), |top| &top.path);
        let below = path.strip_prefix(top).unwrap_or(path);
        below.iter().any(|part| part == HISTORY)
    }

    /// Returns what is below `dir`, in order.
    pub(super) fn below<'a>(&'a self, dir: &'a Path) -> impl Iterator<Item = &'a Entry> {
        // A walk that takes names in order visits paths in their order.
        let first = self
            .entries
            .partition_point(|entry| entry.path.as_path() <= dir);
        self.entries[first..]
            .iter()
            .take_while(move |entry| entry.path.starts_with(dir))
    }

    /// Returns why nobody can say what is in `dir` or below it: something there was not looked at.
    pub(super) fn unseen(&self, dir: &Path) -> Option<String> {
        let (path, why) = self
            .trouble
            .iter()
            .find(|(path, _)| path.starts_with(dir))?;
        let below = path
            .strip_prefix(dir)
            .ok()
            .filter(|below| !below.as_os_str().is_empty());
        Some(below.map_or_else(|| why.clone(), |below| format!("{}: {why}", shown(below))))
    }

    /// Returns the directories on the way to `dir`, itself last.
    pub(super) fn way<'a>(&'a self, dir: &Path) -> Vec<&'a Entry> {
        let at = |path: &Path| {
            self.entries
                .binary_search_by(|entry| entry.path.as_path().cmp(path))
                .ok()
        };
        let mut way: Vec<&Entry> = dir
            .ancestors()
            .map_while(at)
            .map(|at| &self.entries[at])
            .collect();
        way.reverse();
        way
    }

    /// Returns what is to be the same so that nothing has changed.
    pub(super) fn versions(&self) -> impl Iterator<Item = (PathBuf, Option<Version>)> {
        self.entries
            .iter()
            .map(|entry| (entry.path.clone(), Some(Version::of(&entry.metadata))))
    }

    fn enter(&mut self, dir: PathBuf, metadata: Metadata, depth: usize) {
        let listed =
            std::fs::read_dir(&dir).and_then(Iterator::collect::<std::io::Result<Vec<DirEntry>>>);
        self.entries.push(Entry {
            path: dir.clone(),
            metadata,
        });
        // The history of all skills is part of none; that of one could be read and run like its other files.
        let is_part = |path: &PathBuf| depth > 0 || !path.ends_with(HISTORY);
        let mut found: Vec<PathBuf> = match listed {
            Ok(entries) => entries.iter().map(DirEntry::path).filter(is_part).collect(),
            Err(error) => return self.trouble.push((dir, error.to_string())),
        };
        found.sort();
        for path in found {
            if self.entries.len() >= MAX_ENTRIES {
                if self
                    .trouble
                    .last()
                    .is_none_or(|(_, why)| !why.starts_with("more than"))
                {
                    self.trouble.push((
                        path,
                        format!("more than {MAX_ENTRIES} files and directories lie here; the rest is not looked at"),
                    ));
                }
                return;
            }
            let metadata = match path.symlink_metadata() {
                Ok(metadata) => metadata,
                // What vanished meanwhile is not there.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => {
                    self.trouble.push((path, error.to_string()));
                    continue;
                }
            };
            if !metadata.is_dir() {
                self.entries.push(Entry { path, metadata });
            } else if depth < MAX_DEPTH {
                self.enter(path, metadata, depth + 1);
            } else {
                self.trouble.push((
                    path,
                    format!("it is more than {MAX_DEPTH} directories deep"),
                ));
            }
        }
    }
}
