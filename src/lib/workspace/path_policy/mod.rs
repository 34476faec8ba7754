//! Path policy: which files the tools may use, in the workspace and in the directories of `[tools] allowed_paths`.
//! It decides what a path means, how the file is named, and which rules apply to it, for tools and for an undo.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::protected_files::{fold, is_memory, is_protected};
use crate::sandbox::{BeneathError, Found, Root, Target};
use crate::text;

/// Why a path is not used. What is said of it is one line, without hidden characters.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing can be done with it.
    #[error("{}", words(.0))]
    Beneath(#[from] BeneathError),
    /// It lies neither in the workspace nor in a directory that the settings allow.
    #[error("{} is outside the workspace{}", text::visible(.path), beside(.allowed))]
    Outside {
        /// The path as it was given.
        path: String,
        /// What the settings allow.
        allowed: Vec<PathBuf>,
    },
    /// It is the agent's own settings or state.
    #[error("{} belongs to the agent's own settings and state, which no tool may use", text::visible(.0))]
    Hidden(String),
    /// Nothing is changed by way of a link: what was agreed to would hang on where it leads.
    #[error("{} leads to {} through a link, and nothing is changed that way: name that path itself", text::visible(.path), text::visible(.key))]
    Link {
        /// The path as it was given.
        path: String,
        /// Where it leads.
        key: String,
    },
}

fn beside(allowed: &[PathBuf]) -> String {
    let name = |dir: &PathBuf| text::visible(&dir.display().to_string());
    let names: Vec<String> = allowed.iter().map(name).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(" and of {} ([tools] allowed_paths)", names.join(", ")),
    }
}

fn words(error: &BeneathError) -> String {
    text::visible(&match error {
        BeneathError::Io { source, .. } => format!("{error}: {source}"),
        error => error.to_string(),
    })
}

/// The workspace and the directories in addition to it that tools may use, and those they may never use.
#[derive(Debug)]
pub struct PathPolicy {
    workspace: Arc<Root>,
    allowed: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
}

/// A file that would be changed.
#[derive(Debug)]
pub struct WriteTarget {
    /// The file, its directory held open.
    pub file: Target,
    /// What it is called wherever it is written down: its path in the workspace, or an absolute one; without
    /// links.
    pub key: String,
    inside: bool,
    root: PathBuf,
}

impl WriteTarget {
    /// Returns where it is.
    pub fn path(&self) -> PathBuf {
        self.root.join(&self.key)
    }

    /// Returns true for what shapes the agent itself.
    pub fn is_protected(&self) -> bool {
        self.inside && is_protected(Path::new(&self.key))
    }

    /// Returns true for the owner's memory.
    pub fn is_memory(&self) -> bool {
        self.inside && is_memory(Path::new(&self.key))
    }

    /// Returns true when it is in the workspace.
    pub fn is_inside(&self) -> bool {
        self.inside
    }

    /// Returns the keys of the directories that a write makes, outermost first.
    pub fn to_be_made(&self) -> Vec<String> {
        let key = |dir: &PathBuf| match self.inside {
            true => lossy(dir),
            false => lossy(&self.root.join(dir)),
        };
        self.file.to_be_made().iter().map(key).collect()
    }
}

/// What a path leads to, for reading.
#[derive(Debug)]
pub struct ReadTarget {
    /// What is there, held.
    pub found: Found,
    /// What it is called, as [`WriteTarget::key`]; the workspace itself is the empty name.
    pub key: String,
    inside: bool,
}

impl ReadTarget {
    /// Returns true for the owner's memory.
    pub fn is_memory(&self) -> bool {
        self.inside && is_memory(Path::new(&self.key))
    }

    /// Returns what an entry of this directory is called.
    pub fn key_of(&self, name: &str) -> String {
        lossy(&Path::new(&self.key).join(name))
    }
}

impl PathPolicy {
    /// Returns the workspace.
    pub fn workspace(&self) -> &Arc<Root> {
        &self.workspace
    }

    /// Returns the path policy of a workspace and the additionally `allowed` directories, which need not exist
    /// yet. Nothing in the directories `hidden` is ever used, except for the workspace.
    pub fn new(workspace: Arc<Root>, allowed: Vec<PathBuf>, hidden: Vec<PathBuf>) -> Self {
        let real = |dir: PathBuf| dir.canonicalize().unwrap_or(dir);
        Self {
            workspace,
            allowed,
            hidden: hidden.into_iter().map(real).collect(),
        }
    }

    /// Returns the file that `path` means, for a change. Nothing is made yet.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn write_target(&self, path: &str) -> Result<WriteTarget, Error> {
        let root = self.root_of(path)?;
        let file = root.target(Path::new(path))?;
        let (key, inside) = self.name(&root, &file.real, path)?;
        if folded(&straight(&root.relative(Path::new(path))?)) != folded(&file.real) {
            return Err(Error::Link {
                path: path.to_owned(),
                key,
            });
        }
        Ok(WriteTarget {
            file,
            key,
            inside,
            root: root.dir().to_owned(),
        })
    }

    /// Returns what `path` leads to, for reading.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn read_target(&self, path: &str) -> Result<ReadTarget, Error> {
        let root = self.root_of(path)?;
        let found = root.find(Path::new(path))?;
        let (key, inside) = self.name(&root, &found.real, path)?;
        Ok(ReadTarget { found, key, inside })
    }

    /// A relative path is always the workspace's.
    fn root_of(&self, path: &str) -> Result<Arc<Root>, Error> {
        if self.workspace.relative(Path::new(path)).is_ok() {
            return Ok(self.workspace.clone());
        }
        let holds = |dir: &&PathBuf| {
            let is_below = |dir: PathBuf| Path::new(path).starts_with(dir);
            Path::new(path).starts_with(dir) || dir.canonicalize().is_ok_and(is_below)
        };
        let holding = self.allowed.iter().filter(holds);
        // The innermost; of equals the first.
        match holding.min_by_key(|dir| std::cmp::Reverse(dir.components().count())) {
            // Opened again each time: it may be a disk that comes and goes.
            Some(dir) => Ok(Arc::new(Root::open(dir)?)),
            None => Err(Error::Outside {
                path: path.to_owned(),
                allowed: self.allowed.clone(),
            }),
        }
    }

    /// Returns the name of what really is at `real` below `root`, and whether that is in the workspace.
    fn name(&self, root: &Root, real: &Path, path: &str) -> Result<(String, bool), Error> {
        let real = root.dir().join(real);
        // Joining nothing leaves a slash at the end.
        let real: PathBuf = real.components().collect();
        if let Ok(below) = real.strip_prefix(self.workspace.dir()) {
            return Ok((lossy(below), true));
        }
        let at = folded(&real);
        if self.hidden.iter().any(|dir| at.starts_with(folded(dir))) {
            return Err(Error::Hidden(path.to_owned()));
        }
        Ok((lossy(&real), false))
    }
}

/// Returns a relative path without `.` and `..`, as it is when no link is in it.
fn straight(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut at, part| {
        match part {
            Component::ParentDir => drop(at.pop()),
            Component::Normal(name) => at.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
        at
    })
}

/// Some file systems ignore the case of letters.
fn folded(path: &Path) -> PathBuf {
    path.components()
        .map(|part| fold(&part.as_os_str().to_string_lossy()))
        .collect()
}

fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
