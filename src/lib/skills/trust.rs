//! Decides whether a SKILL.md may be used: its required form, and who must trust it.

use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use super::find::{Entry, Tree};
use super::{MAX_FILE, Why, front_matter, hash, ownership, shown};
use crate::trust::approved_hashes::Approved;

/// One SKILL.md with everything that was found out about it.
pub(super) struct Candidate<'a> {
    pub(super) tree: &'a Tree,
    pub(super) entry: &'a Entry,
    pub(super) bundled: bool,
    pub(super) name: String,
    pub(super) dir: PathBuf,
}

impl Candidate<'_> {
    /// Returns what a SKILL.md says, when it may be used.
    pub(super) fn judge(
        &self,
        workspace: &Path,
        trusted: &Result<Approved, String>,
    ) -> Result<front_matter::Contents, Why> {
        let Self { tree, dir, .. } = self;
        let top = tree.entries.first().map_or(dir, |top| &top.path);
        if top == dir {
            return Err(Why::Wrong(
                "it needs a directory of its own, skills/NAME/SKILL.md".to_owned(),
            ));
        }
        // The model is told the path: it must not be able to say anything.
        if let Some(part) = dir
            .strip_prefix(top)
            .unwrap_or(dir)
            .iter()
            .find(|part| !is_plain(part))
        {
            return Err(Why::Wrong(format!(
                "{} in its path is not 1 to 64 of A-Z, a-z, 0-9, `.`, `_` and `-`",
                shown(part)
            )));
        }
        let bytes = read(self.entry)?;
        let contents = front_matter::parse(&bytes, &self.name)?;
        let word = match trusted {
            Ok(trusted) => trusted.get(&self.name),
            // Any of them may be one that the owner distrusted.
            Err(why) => return Err(Why::Unknown(why.clone())),
        };
        match word.map(|word| &word.sha256) {
            Some(None) => return Err(Why::Distrusted),
            // What comes with the programs changes with them.
            _ if self.bundled => return Ok(contents),
            _ => {}
        }
        // The owner's word would be about less than what is there.
        if let Some(why) = tree.unseen(dir) {
            return Err(Why::Wrong(why));
        }
        match word.and_then(|word| word.sha256.as_ref()) {
            Some(sha256) => match hash::of(tree, dir, &bytes) {
                Ok((now, _)) if now == *sha256 => Ok(contents),
                Ok(_) => Err(Why::Changed),
                Err(why) => Err(Why::Wrong(why)),
            },
            None => match self.untrusted(workspace) {
                Some(why) => Err(Why::Untrusted(why)),
                None => Ok(contents),
            },
        }
    }

    /// Returns why somebody else than the owner of the workspace could have written it.
    pub(super) fn untrusted(&self, workspace: &Path) -> Option<String> {
        let metadata = workspace.metadata().ok()?;
        let mut way: Vec<(&Path, &Metadata)> = vec![(workspace, &metadata)];
        way.extend(
            self.tree
                .way(&self.dir)
                .into_iter()
                .map(|entry| (entry.path.as_path(), &entry.metadata)),
        );
        ownership::untrusted(&way, self.tree, &self.dir, metadata.uid())
    }
}

/// Returns every SKILL.md in the order in which they win: ours before bundled ones, the least deep first.
pub(super) fn candidates<'a>(own: &'a Tree, bundled: &'a Tree) -> Vec<Candidate<'a>> {
    let of = |tree: &'a Tree, bundled: bool| {
        let candidate = move |entry: &'a Entry| {
            let dir = entry.path.parent().unwrap_or(&entry.path).to_owned();
            let name = dir
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            Candidate {
                tree,
                entry,
                bundled,
                name,
                dir,
            }
        };
        tree.skill_files().into_iter().map(candidate)
    };
    of(own, false).chain(of(bundled, true)).collect()
}

/// Returns whether a name is nothing but a name, wherever it is written.
fn is_plain(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    (1..=64).contains(&bytes.len())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte))
}

/// Reads a SKILL.md that was seen.
pub(super) fn read(entry: &Entry) -> Result<Vec<u8>, Why> {
    let too_large =
        |size: u64| Why::Wrong(format!("it has {size} bytes, at most {MAX_FILE} are read"));
    if entry.metadata.is_symlink() {
        return Err(Why::Wrong(
            "it is a link, and links are not followed".to_owned(),
        ));
    }
    if !entry.metadata.is_file() {
        return Err(Why::Wrong("it is not a regular file".to_owned()));
    }
    if entry.metadata.size() > MAX_FILE {
        return Err(too_large(entry.metadata.size()));
    }
    let mut bytes = Vec::new();
    let read = open(&entry.path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes));
    match read {
        Ok(size) if size as u64 > MAX_FILE => Err(too_large(size as u64)),
        Ok(_) => Ok(bytes),
        Err(error) => Err(Why::Wrong(error.to_string())),
    }
}

/// Opens a regular file: no link, and no FIFO that nobody writes to.
pub(super) fn open(path: &Path) -> std::io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(std::io::Error::other("it is not a regular file"))
    }
}
