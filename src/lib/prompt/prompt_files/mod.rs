//! The files of the prompt: convention files, files of configured tiers, role prompts.

pub(crate) mod load;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::sandbox::Root;
use crate::workspace::{Marks, is_memory, is_protected, template};
use load::Texts;

const STABLE: [&str; 5] = ["SOUL.md", "IDENTITY.md", "AGENTS.md", "USER.md", "TOOLS.md"];
const SEMI_STABLE: [&str; 1] = ["MEMORY.md"];
/// Of these a new home has only what tells the owner to fill them in.
const TO_BE_FILLED: [&str; 4] = ["IDENTITY.md", "USER.md", "TOOLS.md", "MEMORY.md"];
/// Why a file is left out that holds untrusted words.
const MARKED: &str = "it holds words that may be somebody else's: a run that had read such words, a command or a tool server \
    changed it, or it was brought here; have the agent write it again whole";
const OPERATIONAL: [&str; 3] = ["SOUL.md", "AGENTS.md", "HEARTBEAT.md"];

/// A file as it goes into the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PromptFile {
    /// What it is called in the prompt: its path in the workspace, or `prompts/NAME.md`.
    pub name: String,
    /// Where it lies.
    pub path: PathBuf,
    /// Its text, at most [`load::MAX_CHARS`] characters and a marker; never blank.
    pub text: Arc<str>,
}

impl PromptFile {
    /// Returns true for what only the owner's own conversations see.
    pub(crate) fn is_the_owners(&self) -> bool {
        is_memory(Path::new(&self.name))
    }
}

/// Reads the files of one workspace, again only when they changed.
#[derive(Debug)]
pub(crate) struct Files {
    dir: PathBuf,
    texts: Texts,
    /// Which files hold untrusted text: no tier shows them.
    marks: Option<Marks>,
}

impl Files {
    /// Returns the files of the workspace `dir`.
    pub(crate) fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            texts: Texts::default(),
            marks: None,
        }
    }

    /// Leaves out of the tiers what `marks` marks.
    pub(crate) fn without(self, marks: Marks) -> Self {
        Self {
            marks: Some(marks),
            ..self
        }
    }

    /// Returns SOUL, IDENTITY, AGENTS, USER, TOOLS, those that exist and are not blank.
    pub(crate) fn stable(&self) -> Vec<PromptFile> {
        self.convention(&STABLE)
    }

    /// Returns MEMORY, if it exists and is not blank. It is the owner's: not for other people's
    /// turns.
    pub(crate) fn semi_stable(&self) -> Vec<PromptFile> {
        self.convention(&SEMI_STABLE)
    }

    /// Returns SOUL, AGENTS, HEARTBEAT, those that exist and are not blank.
    pub(crate) fn operational(&self) -> Vec<PromptFile> {
        self.convention(&OPERATIONAL)
    }

    /// Returns the files at these paths of the workspace, those that exist and are not blank. No link
    /// leads out of it, and what is the owner's memory is it under any other name, too.
    pub(crate) fn at(&self, paths: &[String]) -> Vec<PromptFile> {
        let found = paths.iter().map(|path| (path, self.beneath(path)));
        found
            .filter_map(|(path, file)| file.unwrap_or_else(|error| left_out(path, &error)))
            .filter(|file| !is_unfilled(&file.name, &file.text))
            .collect()
    }

    /// Returns the file at a path of the workspace; `None` when it is not there or blank.
    ///
    /// # Errors
    /// When it leads outside, is not a regular file or cannot be read.
    pub(crate) fn beneath(&self, path: &str) -> std::io::Result<Option<PromptFile>> {
        let root = Root::open(&self.dir).map_err(std::io::Error::other)?;
        let Some(text) = self.texts.beneath(&root, Path::new(path))? else {
            return Ok(None);
        };
        // The name that rules about places know.
        let real = root.real(Path::new(path)).map_err(std::io::Error::other)?;
        if self.is_marked(&real) {
            return Err(std::io::Error::other(MARKED));
        }
        let name = if is_memory(&real) {
            real.to_string_lossy().into_owned()
        } else {
            path.to_owned()
        };
        Ok(Some(PromptFile {
            name,
            path: self.dir.join(path),
            text,
        }))
    }

    /// Returns the first prompt called `name` that `dirs` have, earlier ones first; a blank one is none
    /// and hides those after it.
    pub(crate) fn prompt(&self, dirs: &[PathBuf], name: &str) -> Option<PromptFile> {
        let file = format!("{name}.md");
        let there = dirs
            .iter()
            .map(|dir| dir.join(&file))
            .find(|path| path.symlink_metadata().is_ok())?;
        self.prompt_at(there, &file)
    }

    /// As [`Files::prompt`], for the first of `names` that there is a prompt of, in any case of letters:
    /// `Gemini.md` is that of `gemini`.
    pub(crate) fn prompt_like(&self, dirs: &[PathBuf], names: &[String]) -> Option<PromptFile> {
        let listed: Vec<(&PathBuf, Vec<String>)> =
            dirs.iter().map(|dir| (dir, prompts_in(dir))).collect();
        let (dir, file) = names.iter().find_map(|name| {
            listed.iter().find_map(|(dir, files)| {
                let is_it = |file: &&String| {
                    file.strip_suffix(".md")
                        .is_some_and(|stem| stem.to_lowercase() == name.to_lowercase())
                };
                Some((dir, files.iter().find(is_it)?))
            })
        })?;
        self.prompt_at(dir.join(file), file)
    }

    fn prompt_at(&self, there: PathBuf, file: &str) -> Option<PromptFile> {
        // Nobody but the owner writes there: what is linked is theirs.
        let text = match self.texts.of_own(&there) {
            Ok(text) => text?,
            Err(error) => return left_out(&there.display().to_string(), &error),
        };
        Some(PromptFile {
            name: format!("prompts/{file}"),
            path: there,
            text,
        })
    }

    /// Returns true for a file of the workspace, by its path there without links, that holds untrusted words. What is protected
    /// changes only at the owner's word, or by their hand: they may write there while a command or a tool server does elsewhere.
    fn is_marked(&self, path: &Path) -> bool {
        let is_marked =
            |marks: &Marks| marks.is_marked_at(&path.to_string_lossy(), &self.dir.join(path));
        !is_protected(path) && self.marks.as_ref().is_some_and(is_marked)
    }

    /// Returns those of the files for every turn that are left out because they hold untrusted words, and why.
    pub(crate) fn marked(&self) -> Vec<(&'static str, &'static str)> {
        let is_there = |name: &&str| self.dir.join(name).is_file();
        let names = SEMI_STABLE.into_iter().filter(is_there);
        let marked = names.filter(|name| self.is_marked(Path::new(name)));
        marked.map(|name| (name, MARKED)).collect()
    }

    /// A file that cannot be read, or that holds untrusted words, is logged and left out; the others are not affected.
    fn convention(&self, names: &[&str]) -> Vec<PromptFile> {
        let file_of = |name: &&str| {
            let path = self.dir.join(name);
            match self.texts.of_file(&path) {
                Ok(text) => {
                    let text = text.filter(|text| !is_unfilled(name, text))?;
                    // A mark comes before the words.
                    if self.is_marked(Path::new(name)) {
                        return left_out(name, &std::io::Error::other(MARKED));
                    }
                    Some(PromptFile {
                        name: (*name).to_owned(),
                        path,
                        text,
                    })
                }
                Err(error) => left_out(name, &error),
            }
        };
        names.iter().filter_map(file_of).collect()
    }
}

fn is_unfilled(name: &str, text: &str) -> bool {
    TO_BE_FILLED.contains(&name) && text == template(name).trim()
}

fn left_out(file: &str, error: &std::io::Error) -> Option<PromptFile> {
    tracing::warn!(file, %error, "a file is left out of the prompt");
    None
}

/// Returns the names of the files in a directory, sorted; none when it cannot be listed.
fn prompts_in(dir: &Path) -> Vec<String> {
    let entries = dir.read_dir().into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Returns where the prompts of the agent called `name` are looked for, the first place first: its own
/// in `config_path`, those of all agents there, then those of the workspace.
pub(crate) fn prompt_dirs(workspace: &Path, config_path: &[PathBuf], name: &str) -> Vec<PathBuf> {
    let own = config_path
        .iter()
        .map(|dir| dir.join("agents").join(name).join("prompts"));
    let global = config_path.iter().map(|dir| dir.join("prompts"));
    own.chain(global)
        .chain([workspace.join("prompts")])
        .collect()
}

#[cfg(test)]
mod tests;
