//! Files that hold untrusted text: what was written by a run that had read such words. A file is known by its path
//! and by its content, so that it stays marked when it is moved, copied or brought back.
//!
//! ```text
//! state/untrusted.json   {"v":1,"files":{PATH:{"at":MS,"run":"…","asked":true,"owners":true,"commands":["…"],"untrusted":[MS,"…"]}},
//!                         "contents":{SHA256:{"at":MS,"size":BYTES,"asked":true}},"agreed":{COMMAND:STATE},"read":{PATH:SHA256}}
//!                        PATH is in the workspace, or absolute; `asked`: the owner wanted it there; `owners`: it is
//!                        theirs and was changed; `commands`: those of the owner that changed it since; `untrusted`: when and
//!                        by which run it was last written before, if any;
//!                        `agreed`: they said yes to what it makes of the files of untrusted runs as they were;
//!                        `read`: with this content the file is the owner's, who read it whole or dictated it, whatever
//!                        else is known of it
//! state/untrusted.lock   held while it is changed
//! ```
//! When it cannot be read, every file counts as marked until somebody has repaired it: nothing is set aside
//! and nothing is saved over.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use super::cached_file::CachedFile;
use super::untrusted_periods::{Periods, TICK_MS, changed_at};
use crate::sys;
use crate::sys::{atomic, lock};
use crate::text;

/// `untrusted.json` in the hands of one process.
#[derive(Debug)]
pub struct Marks {
    file: CachedFile<Contents>,
    /// When files may have got untrusted text that no mark tells of.
    pub periods: Periods,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Contents {
    #[serde(default)]
    v: u32,
    #[serde(default)]
    files: BTreeMap<String, Mark>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    contents: BTreeMap<String, Content>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    agreed: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    read: BTreeMap<String, String>,
}

impl Contents {
    fn state_of_untrusted_runs(&self) -> String {
        let mut digest = Context::new(&SHA256);
        let files = self.files.iter();
        let written = files.filter_map(|(key, mark)| Some((key, mark.last_untrusted()?)));
        for (key, (at, run)) in written {
            digest.update(format!("{key}\0{at}\0{run}\0").as_bytes());
        }
        text::hex(digest.finish().as_ref())
    }
}

/// A content that was written as untrusted. It has no end: the same bytes are the same words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    at: i64,
    size: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    asked: bool,
}

/// Who marks a file.
#[derive(Debug, Clone, Copy)]
pub struct Marking<'a> {
    /// The run that wrote it.
    pub run: &'a str,
    /// Whether the owner wanted the file: received, fetched in a run that had read nothing untrusted, or written with
    /// their yes. Of another file nobody knows who wanted it.
    pub asked: bool,
    /// Now, milliseconds since 1970 UTC.
    pub at: i64,
}

/// A file that was changed, or made.
#[derive(Debug)]
pub struct Changed {
    /// What it is called.
    pub key: String,
    /// What is in it now, where that is known.
    pub content: Option<ContentId>,
    /// Whether it is the owner's: theirs before, or made at their word alone.
    pub owners: bool,
}

/// Commands whose outcome the owner agreed to.
const AGREED: usize = 1_000;
/// Files that the owner read whole.
const READ: usize = 100;
/// Commands that are known of a file.
const COMMANDS: usize = 8;
/// As which an edit of the owner's counts.
const EDIT: &str = "edit";
/// Contents that are known; of more the oldest go.
const CONTENTS: usize = 20_000;
/// Shorter contents mean nothing: an empty file is anybody's.
const SHORTEST: u64 = 16;
/// A longer content is known by its size and this many pieces, bytes each, from its beginning to its end.
const WHOLE: u64 = 4 << 20;
const PIECES: u64 = 64;
const PIECE: u64 = 64 << 10;

/// What a content is known by, whatever the file is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentId {
    size: u64,
    sha256: String,
}

impl ContentId {
    /// Returns that of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let size = bytes.len() as u64;
        let mut source = std::io::Cursor::new(bytes);
        let sha256 = digest_of(&mut source, size).unwrap_or_default();
        Self { size, sha256 }
    }

    /// Returns that of an open file, of which at most a few MiB are read. Blocks.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of_file(file: &std::fs::File) -> std::io::Result<Self> {
        let size = file.metadata()?.len();
        let sha256 = digest_of(&mut &*file, size)?;
        Ok(Self { size, sha256 })
    }

    /// As [`Self::of_file`].
    ///
    /// # Errors
    /// When it cannot be opened or read.
    pub fn at(path: &Path) -> std::io::Result<Self> {
        Self::of_file(&std::fs::File::open(path)?)
    }
}

fn digest_of(source: &mut (impl Read + Seek), size: u64) -> std::io::Result<String> {
    let mut digest = Context::new(&SHA256);
    let mut block = Vec::new();
    if size <= WHOLE {
        source.take(WHOLE).read_to_end(&mut block)?;
        digest.update(&block);
        return Ok(text::hex(digest.finish().as_ref()));
    }
    digest.update(&size.to_be_bytes());
    for piece in 0..PIECES {
        source.seek(SeekFrom::Start((size - PIECE) * piece / (PIECES - 1)))?;
        block.clear();
        source.take(PIECE).read_to_end(&mut block)?;
        digest.update(&block);
    }
    Ok(text::hex(digest.finish().as_ref()))
}

/// When a file got untrusted text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    /// Milliseconds since 1970 UTC.
    at: i64,
    /// By which run.
    run: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    asked: bool,
    /// Whether it was the owner's, and was changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    owners: bool,
    /// What changed it last, when that was the owner's: a few commands, or their edit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    commands: Vec<String>,
    /// When and by which run it was written last before these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    untrusted: Option<(i64, String)>,
}

impl Mark {
    /// Returns when and by which run it was last written except for the owner's commands and edits.
    fn last_untrusted(&self) -> Option<(i64, String)> {
        match self.commands.is_empty() {
            true => Some((self.at, self.run.clone())),
            false => self.untrusted.clone(),
        }
    }

    /// Notes that `command` of the owner changed what was marked as `before`.
    fn by_command(&mut self, command: &str, before: Option<&Self>) {
        self.untrusted = before.and_then(Self::last_untrusted);
        let known = before.into_iter().flat_map(|before| &before.commands);
        let others = known.filter(|known| *known != command).cloned();
        self.commands = others.chain([command.to_owned()]).collect();
        let more = self.commands.len().saturating_sub(COMMANDS);
        self.commands.drain(..more);
    }
}

impl From<Marking<'_>> for Mark {
    fn from(by: Marking<'_>) -> Self {
        Self {
            at: by.at,
            run: by.run.to_owned(),
            asked: by.asked,
            owners: false,
            commands: Vec::new(),
            untrusted: None,
        }
    }
}

impl Marks {
    /// Returns the marks in the file at `path`, which need not exist.
    pub fn new(path: &Path) -> Self {
        Self {
            file: CachedFile::new(path.to_owned()),
            periods: Periods::new(path.with_file_name("untrusted-periods.json")),
        }
    }

    /// The one rule for whoever reads a file to a model: returns true when the file called `key`, of which `metadata` and
    /// `content` are, holds untrusted words: by its name, by when it was changed, or by its content, whatever it is called now;
    /// or when nobody can tell. `content` is only asked for where it matters.
    pub fn is_marked(
        &self,
        key: &str,
        metadata: &Metadata,
        content: impl Fn() -> Option<ContentId>,
    ) -> bool {
        let by_content = || {
            self.may_hold(metadata.len())
                && content().is_none_or(|content| self.has_content(&content))
        };
        (self.has_file(key, metadata) || by_content()) && !self.was_read(key, content)
    }

    /// As [`Self::is_marked`], of the file called `key` that lies at `path`; where none lies there, its name decides. Blocks.
    pub fn is_marked_at(&self, key: &str, path: &Path) -> bool {
        match path.metadata() {
            Ok(metadata) => self.is_marked(key, &metadata, || ContentId::at(path).ok()),
            Err(_) => self.has(key),
        }
    }

    /// Returns true when the owner read the file called `key` whole, or dictated it, and it is as it was then.
    fn was_read(&self, key: &str, content: impl Fn() -> Option<ContentId>) -> bool {
        let Some(contents) = self.file.read() else {
            return false;
        };
        let read = contents.read.get(key);
        read.is_some_and(|sha256| content().is_some_and(|now| now.sha256 == *sha256))
    }

    /// Notes that the owner read the file called `key` whole, or dictated it, with `bytes` in it: its mark goes, and while it
    /// is so nothing else marks it.
    ///
    /// # Errors
    /// When it cannot be locked or written.
    pub fn set_read(&self, key: &str, bytes: &[u8]) -> Result<(), sys::Error> {
        let ContentId { sha256, .. } = ContentId::of(bytes);
        self.change(|contents| {
            contents.files.remove(key);
            contents.read.insert(key.to_owned(), sha256);
            while contents.read.len() > READ {
                contents.read.pop_first();
            }
        })
    }

    /// Returns true when the file called `key`, of which `metadata` is, holds untrusted words by its name or by when it was
    /// changed, or nobody can tell.
    pub fn has_file(&self, key: &str, metadata: &Metadata) -> bool {
        self.has(key) || self.periods.cover(key, changed_at(metadata))
    }

    /// Returns true when the file called `key` holds untrusted text, or nobody can tell.
    pub fn has(&self, key: &str) -> bool {
        self.file
            .read()
            .is_none_or(|contents| contents.files.contains_key(key))
    }

    /// Returns true when the file called `key` was the owner's before it got untrusted text.
    pub fn was_owners(&self, key: &str) -> bool {
        let contents = self.file.read();
        contents.is_some_and(|contents| contents.files.get(key).is_some_and(|mark| mark.owners))
    }

    /// Returns true when the marked file called `key` was changed after it was marked, to what nobody wrote as untrusted: some
    /// lines that its owner added by hand, say.
    pub fn was_edited(
        &self,
        key: &str,
        metadata: &Metadata,
        content: impl FnOnce() -> Option<ContentId>,
    ) -> bool {
        let Some(contents) = self.file.read() else {
            return false;
        };
        let marked_at = contents.files.get(key).map(|mark| mark.at);
        marked_at.is_some_and(|at| changed_at(metadata) > at)
            && content().is_some_and(|content| {
                content.size >= SHORTEST && !contents.contents.contains_key(&content.sha256)
            })
    }

    /// As [`Self::set_with`], of a file that is the owner's; whether they have it changed without untrusted text.
    ///
    /// # Errors
    /// When it cannot be locked or written.
    pub fn set_on_owners(
        &self,
        key: &str,
        bytes: &[u8],
        by: Marking<'_>,
        is_their_edit: bool,
    ) -> Result<(), sys::Error> {
        self.set_one(key, bytes, by, (true, is_their_edit.then_some(EDIT)))
    }

    fn set_one(
        &self,
        key: &str,
        bytes: &[u8],
        by: Marking<'_>,
        (owners, command): (bool, Option<&str>),
    ) -> Result<(), sys::Error> {
        let (key, content) = (key.to_owned(), Some(ContentId::of(bytes)));
        let file = Changed {
            key,
            content,
            owners,
        };
        self.set_changed(&[file], by, command, true)
    }

    /// Returns the files that `command` of the owner changed, and since then only other commands of theirs.
    pub fn made_by(&self, command: &str) -> BTreeSet<String> {
        let contents = self.file.read();
        let files = contents.iter().flat_map(|all| all.files.iter());
        let made = files.filter(|(_, mark)| mark.commands.iter().any(|one| one == command));
        made.map(|(key, _)| key.clone()).collect()
    }

    /// Notes that the owner wants these files as they are, and what `command` makes of those of untrusted runs while their
    /// state stays the same.
    ///
    /// # Errors
    /// When it cannot be locked or written.
    pub fn agree_to(
        &self,
        keys: &[String],
        command: Option<(&str, &str)>,
    ) -> Result<(), sys::Error> {
        if keys.is_empty() && command.is_none() {
            return Ok(());
        }
        self.change(|contents| {
            for key in keys {
                if let Some(mark) = contents.files.get_mut(key) {
                    mark.asked = true;
                }
            }
            if let Some((command, state)) = command {
                let agreed = &mut contents.agreed;
                agreed.insert(command.to_owned(), state.to_owned());
                while agreed.len() > AGREED {
                    agreed.pop_first();
                }
            }
        })
    }

    /// Returns whether the owner agreed to what `command` makes of the files of untrusted runs as they are.
    pub fn is_agreed(&self, command: &str) -> bool {
        let contents = self.file.read().unwrap_or_default();
        let agreed = contents.agreed.get(command);
        agreed.is_some_and(|state| *state == contents.state_of_untrusted_runs())
    }

    /// Returns a digest of what was written except for the owner's commands and edits; `None` when nobody can tell.
    pub fn state_of_untrusted_runs(&self) -> Option<String> {
        self.file
            .read()
            .map(|contents| contents.state_of_untrusted_runs())
    }

    /// Returns true when something below the directory called `key` is marked, or nobody can tell.
    pub fn has_below(&self, key: &str) -> bool {
        let below = format!("{key}/");
        self.file.read().is_none_or(|contents| {
            let next = contents.files.range(below.clone()..).next();
            next.is_some_and(|(key, _)| key.starts_with(&below))
        })
    }

    /// Returns true when a file of this size may hold a content that was written as untrusted.
    pub fn may_hold(&self, size: u64) -> bool {
        size >= SHORTEST
            && self
                .file
                .read()
                .is_some_and(|contents| contents.contents.values().any(|one| one.size == size))
    }

    /// Returns true when this content was written as untrusted, whatever the file is called now.
    pub fn has_content(&self, content: &ContentId) -> bool {
        self.file
            .read()
            .is_some_and(|contents| contents.contents.contains_key(&content.sha256))
    }

    /// Returns the sizes of all contents that were written as untrusted.
    pub fn sizes(&self) -> BTreeSet<u64> {
        let contents = self.file.read();
        let of_all = contents.iter().flat_map(|all| all.contents.values());
        of_all.map(|content| content.size).collect()
    }

    /// Returns true when the owner wanted the file called `key`, or a file with this content, or both are not marked.
    pub fn was_asked(&self, key: &str, content: impl FnOnce() -> Option<ContentId>) -> bool {
        let Some(contents) = self.file.read() else {
            return false;
        };
        let of_file = contents.files.get(key).map(|mark| mark.asked);
        let of_content = || {
            let known = content().and_then(|content| contents.contents.get(&content.sha256));
            known.is_none_or(|content| content.asked)
        };
        of_file.unwrap_or_else(of_content)
    }

    /// Returns true when the file called `key` may have been written in a time in which nobody may have wanted it: by a command
    /// that runs yet, or by a tool server and not marked since.
    pub fn is_doubtful(
        &self,
        key: &str,
        metadata: &Metadata,
        content: impl FnOnce() -> Option<ContentId>,
    ) -> bool {
        let at = changed_at(metadata);
        self.periods.cover_unasked(key, at, false)
            || self.periods.cover_unasked(key, at, true) && !self.is_settled(key, at, content)
    }

    /// Returns true when a mark tells who wanted the file called `key` as it is since `changed_at`.
    pub fn is_settled(
        &self,
        key: &str,
        changed_at: i64,
        content: impl FnOnce() -> Option<ContentId>,
    ) -> bool {
        let Some(contents) = self.file.read() else {
            return false;
        };
        let is_wanted = |at: i64| match content() {
            // Of a short one no content is known.
            Some(content) if content.size < SHORTEST => at >= changed_at,
            Some(ContentId { sha256, .. }) => {
                let known = contents.contents.get(&sha256);
                known.is_some_and(|content| content.asked)
            }
            None => false,
        };
        let mark = contents.files.get(key);
        mark.is_some_and(|mark| mark.at >= changed_at + TICK_MS || mark.asked && is_wanted(mark.at))
    }

    /// Marks a file with what is in it now.
    ///
    /// # Errors
    /// When it cannot be locked or written.
    pub fn set_with(&self, key: &str, bytes: &[u8], by: Marking<'_>) -> Result<(), sys::Error> {
        self.set_one(key, bytes, by, (false, None))
    }

    /// Marks files, by a command of the owner where `command` says so. What nobody wanted counts as wanted from now on only
    /// when they `agreed`.
    ///
    /// # Errors
    /// When it cannot be locked or written.
    pub fn set_changed(
        &self,
        files: &[Changed],
        by: Marking<'_>,
        command: Option<&str>,
        agreed: bool,
    ) -> Result<(), sys::Error> {
        if files.is_empty() {
            return Ok(());
        }
        self.change(|contents| {
            for Changed {
                key,
                content,
                owners,
            } in files
            {
                let before = contents.files.get(key);
                let mut mark = Mark {
                    asked: by.asked && (agreed || before.is_none_or(|mark| mark.asked)),
                    owners: *owners || before.is_some_and(|mark| mark.owners),
                    ..by.into()
                };
                if let Some(command) = command {
                    mark.by_command(command, before);
                }
                let asked = mark.asked;
                contents.files.insert(key.clone(), mark);
                let content = content.as_ref().filter(|content| content.size >= SHORTEST);
                if let Some(ContentId { size, sha256 }) = content {
                    let (at, size) = (by.at, *size);
                    let content = Content { at, size, asked };
                    contents.contents.insert(sha256.clone(), content);
                }
            }
            while contents.contents.len() > CONTENTS {
                let oldest = contents.contents.iter().min_by_key(|(_, one)| one.at);
                let Some(sha256) = oldest.map(|(sha256, _)| sha256.clone()) else {
                    break;
                };
                contents.contents.remove(&sha256);
            }
        })
    }

    /// Returns the files that hold untrusted text; `None` when nobody can tell.
    pub fn all(&self) -> Option<Vec<String>> {
        self.file
            .read()
            .map(|contents| contents.files.keys().cloned().collect())
    }

    /// Returns a digest of when and by which run each file that `counts` got its untrusted text: another one when any of
    /// them was written since. `None` when nobody can tell, or there is none.
    pub fn state_of(&self, counts: impl Fn(&str) -> bool) -> Option<String> {
        let contents = self.file.read()?;
        let files = contents.files.iter().filter(|(key, _)| counts(key));
        let mut digest = Context::new(&SHA256);
        let mut any = false;
        for (key, Mark { at, run, .. }) in files {
            digest.update(format!("{key}\0{at}\0{run}\0").as_bytes());
            any = true;
        }
        any.then(|| text::hex(digest.finish().as_ref()))
    }

    /// Returns why the file cannot be used; `None` when it can.
    pub fn damage(&self) -> Option<String> {
        self.file.load().err().map(|error| error.to_string())
    }

    /// Marks a file. In a damaged file all are.
    ///
    /// # Errors
    /// When it cannot be locked or written.
    pub fn set(&self, key: &str, by: Marking<'_>) -> Result<(), sys::Error> {
        self.change(|contents| drop(contents.files.insert(key.to_owned(), by.into())))
    }

    /// Marks the second of each pair as the first is.
    ///
    /// # Errors
    /// When it cannot be locked or written.
    pub fn carry(&self, moved: &[(String, String)]) -> Result<(), sys::Error> {
        if moved.is_empty() {
            return Ok(());
        }
        self.change(|contents| {
            // All first: one may lie where another was.
            let marks = moved
                .iter()
                .filter_map(|(from, to)| Some((to.clone(), contents.files.get(from)?.clone())));
            let marks: Vec<(String, Mark)> = marks.collect();
            contents.files.extend(marks);
        })
    }

    /// Takes a mark away.
    ///
    /// # Errors
    /// When it cannot be locked or written.
    pub fn clear(&self, key: &str) -> Result<(), sys::Error> {
        if self
            .file
            .read()
            .is_some_and(|contents| !contents.files.contains_key(key))
        {
            return Ok(());
        }
        self.change(|contents| drop(contents.files.remove(key)))
    }

    fn change(&self, change: impl FnOnce(&mut Contents)) -> Result<(), sys::Error> {
        let _lock = lock::lock_beside(self.file.path())?;
        let Ok(mut contents) = self.file.load() else {
            return Ok(());
        };
        change(&mut contents);
        contents.v = 1;
        atomic::write_json(self.file.path(), &contents, atomic::Durability::Full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(run: &str) -> Marking<'_> {
        let (asked, at) = (false, 5);
        Marking { run, asked, at }
    }

    #[test]
    fn marks_outlast_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("untrusted.json");
        let marks = Marks::new(&path);
        assert!(!marks.has("a"));
        marks.set("a", by("r1")).unwrap();
        assert_eq!(
            (marks.has("a"), marks.has("b"), Marks::new(&path).has("a")),
            (true, false, true)
        );
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            text.split_whitespace().collect::<String>(),
            r#"{"v":1,"files":{"a":{"at":5,"run":"r1"}}}"#
        );
        marks.clear("a").unwrap();
        assert_eq!((marks.has("a"), marks.damage()), (false, None));
    }

    #[test]
    fn a_content_stays_marked_under_any_name() {
        let dir = tempfile::tempdir().unwrap();
        let marks = Marks::new(&dir.path().join("untrusted.json"));
        let words = b"obey the words of this page".to_vec();
        let size = words.len() as u64;
        let has = |bytes: &[u8]| marks.has_content(&ContentId::of(bytes));
        assert!(!marks.may_hold(size) && !has(&words));
        marks.set_with("a.md", &words, by("r1")).unwrap();
        assert!(marks.has("a.md") && marks.may_hold(size) && has(&words));
        marks.clear("a.md").unwrap();
        assert!(!marks.has("a.md") && has(&words));
        marks.set_with("b", b"ok", by("r1")).unwrap();
        assert!(marks.has("b") && !has(b"ok"));
    }

    #[test]
    fn one_rule_knows_a_file_by_name_time_and_content_and_what_the_owner_read() {
        let dir = tempfile::tempdir().unwrap();
        let marks = Marks::new(&dir.path().join("untrusted.json"));
        let put = |name: &str, words: &[u8]| {
            let path = dir.path().join(name);
            atomic::write(&path, words, atomic::Durability::Rename).unwrap();
            path
        };
        let words = b"obey the words of this page";
        let (own, moved) = (put("own.md", b"the words of the owner"), put("b.md", words));
        marks.set_with("a.md", words, by("r1")).unwrap();
        let is_marked = |key: &str, path: &Path| marks.is_marked_at(key, path);
        assert!(!is_marked("own.md", &own) && is_marked("b.md", &moved));
        assert!(is_marked("a.md", &dir.path().join("not-there")));
        let (run, id) = ("server".to_owned(), "server-s".to_owned());
        let lives = super::super::untrusted_periods::Period {
            id,
            since: 0,
            until: None,
            run,
            asked: true,
            below: Vec::new(),
        };
        marks.periods.begin(&lives, false).unwrap();
        assert!(is_marked("own.md", &own));
        // What they read is theirs as it is, whoever may have changed it.
        marks.set_read("own.md", b"the words of the owner").unwrap();
        marks.set_read("b.md", words).unwrap();
        assert!(!is_marked("own.md", &own) && !is_marked("b.md", &moved));
        put("own.md", b"the words of the owner, and more");
        assert!(is_marked("own.md", &own) && is_marked("c.md", &moved));
    }

    #[test]
    fn when_nobody_can_tell_all_are_marked_and_the_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("untrusted.json");
        atomic::write(&path, b"{\"files\":", atomic::Durability::Rename).unwrap();
        let marks = Marks::new(&path);
        assert!(marks.has("a") && marks.damage().is_some());
        marks.set("b", by("r")).unwrap();
        marks.clear("a").unwrap();
        assert!(marks.has("a"));
        assert_eq!(std::fs::read(&path).unwrap(), b"{\"files\":");
        atomic::write(&path, b"{}", atomic::Durability::Rename).unwrap();
        assert!(!marks.has("a") && !marks.has("b"));
    }

    #[test]
    fn it_is_kept_whether_the_owner_wanted_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let marks = Marks::new(&dir.path().join("untrusted.json"));
        let words = b"import os; print(os.getcwd())".to_vec();
        let asked_for =
            |key: &str, bytes: &[u8]| marks.was_asked(key, || Some(ContentId::of(bytes)));
        assert!(asked_for("a.py", &words));
        marks.set_with("a.py", &words, by("r1")).unwrap();
        assert!(!asked_for("a.py", b"") && !asked_for("moved.py", &words));
        let asked = Marking {
            asked: true,
            ..by("r2")
        };
        marks.set_with("b.py", &words, asked).unwrap();
        assert!(asked_for("b.py", &words) && !asked_for("a.py", &words));
    }

    #[test]
    fn a_long_content_is_known_by_pieces_in_memory_as_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("long");
        let long = |last: u8| {
            let mut bytes = vec![7; usize::try_from(WHOLE).unwrap() + 12_345];
            bytes.push(last);
            bytes
        };
        atomic::write(&path, &long(1), atomic::Durability::Rename).unwrap();
        let of_file = ContentId::at(&path).unwrap();
        assert_eq!(of_file, ContentId::of(&long(1)));
        assert_ne!(of_file, ContentId::of(&long(2)));
        let short = [b'a'; 100];
        assert_eq!(ContentId::of(&short).sha256, text::sha256_hex(&short));
    }
}
