//! Untrusted files of the workspace in a command of a turn that read nothing untrusted.
//!
//! | file | for the command |
//! |---|---|
//! | received, fetched or written at the owner's wish | open; when it is opened, the output and all changes are untrusted |
//! | written by an untrusted run, a document | the same |
//! | written by an untrusted run, any other: it may be run | closed without approval; the owner is asked when the command names it, or wrote it |
//!
//! Approval of a command covers the files that the question names, in their current content, and what this command produces
//! from documents of untrusted runs while these are unchanged.
//! In a run that has read untrusted text it covers the files alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::files_in_command;
use crate::agent::NAMED;
use crate::config;
use crate::sys::OpenedFiles;
use crate::text::{argv, sha256_hex};
use crate::tools::changed_files::{Change, ChangedFiles, Inode, inode, words_of};
use crate::trust::says_nothing;
use crate::undo;
use crate::workspace::{ContentId, Marks, Period};

/// Endings of documents, pictures and recordings, which nothing runs by itself.
const DOCUMENTS: [&str; 38] = [
    "md", "txt", "csv", "tsv", "log", "html", "htm", "pdf", "rtf", "docx", "xlsx", "pptx", "odt",
    "ods", "odp", "epub", "ics", "vcf", "eml", "bib", "srt", "gpx", "geojson", "png", "jpg",
    "jpeg", "gif", "webp", "bmp", "tiff", "mp3", "ogg", "oga", "wav", "m4a", "mp4", "webm", "mov",
];
/// What is in the paths of texts that programs obey; `pytest` runs what is in `test*.txt`.
const OBEYED: [&str; 6] = [
    "requirements",
    "constraints",
    "cmakelists",
    "meson_options",
    "conanfile",
    "entry_points",
];

/// What a pattern of the shell begins with.
const PATTERN: [char; 3] = ['*', '?', '['];
/// Entries of a directory that are held against a pattern.
const MATCHING: usize = 10_000;

/// Hexadecimal digits of what a command is known by.
const COMMAND_ID: usize = 16;

/// The untrusted files that are there when a command begins.
pub(super) struct MarkedFiles {
    /// Those that it cannot open.
    pub(super) closed: Vec<PathBuf>,
    /// The others.
    open: Vec<PathBuf>,
    /// Whether nobody can tell which files are untrusted.
    pub(super) is_damaged: bool,
    /// Whether it is seen which of them the command opens.
    pub(super) is_watched: bool,
    /// What was marked when it began.
    before: BTreeSet<String>,
    /// Words in the names of marked files, of their directories and of links.
    words: BTreeSet<String>,
    /// The marked files that were there.
    inodes: BTreeMap<PathBuf, Inode>,
    /// What is known of the command for those that it changes.
    pub(super) change: Change,
    /// To what the owner agreed.
    pub(super) agreed: Option<Agreed>,
    /// The files that they said yes to by name, in a run that had read untrusted text.
    pub(super) named: Option<Named>,
}

/// Files that the owner was asked about by name, and said yes to, as they are then.
pub(super) struct Named {
    files: Vec<String>,
    state: Option<String>,
}

impl Named {
    /// Returns `files`, when the question named all of them. Blocks a little.
    pub(super) fn of(files: Option<Vec<String>>, marks: &Marks) -> Option<Self> {
        let files = files.filter(|files| (1..=NAMED).contains(&files.len()))?;
        let state = state_of(&files, marks);
        Some(Self { files, state })
    }

    /// Notes that the owner wants them, when none was written meanwhile: nobody read what is in them now. What the command
    /// made is another matter, for others than the owner may have chosen the command. Blocks.
    pub(super) fn agree(&self, marks: &Marks) {
        if self.state != state_of(&self.files, marks) {
            return;
        }
        if let Err(error) = marks.agree_to(&self.files, None) {
            tracing::error!(%error, "cannot record an approval of files: the owner will be asked again");
        }
    }
}

fn state_of(files: &[String], marks: &Marks) -> Option<String> {
    marks.state_of(|key| files.iter().any(|file| file == key))
}

/// To what the owner agreed when the command began.
pub(super) struct Agreed {
    /// The files that the question named; none when they agreed before.
    files: Vec<String>,
    /// The state of all marks, and of what untrusted runs wrote.
    all: Option<String>,
    untrusted: Option<String>,
}

impl Agreed {
    /// Returns that of `command`, which is about to run, after a yes about `files` that the question named all, or one before
    /// since which no untrusted run wrote anything; `None` without. Blocks a little.
    pub(super) fn of(
        command: &str,
        files: Option<Vec<String>>,
        undo: &undo::Store,
    ) -> Option<Self> {
        let marks = &undo.marks;
        let files = match files {
            Some(files) => Some(files).filter(|files| files.len() <= NAMED),
            None => marks.is_agreed(command).then(Vec::new),
        };
        Some(Self {
            files: files?,
            all: marks.state_of(|_| true),
            untrusted: marks.state_of_untrusted_runs(),
        })
    }
}

/// What a command did with untrusted files.
#[derive(Default)]
pub(super) struct Touched {
    /// One that it opened or named in its output.
    pub(super) read: Option<PathBuf>,
    /// Whether it opened, moved or linked any.
    pub(super) any: bool,
    /// Whether the owner wanted all of them.
    pub(super) asked: bool,
}

impl MarkedFiles {
    /// Returns none that are closed or watched, for a command whose output is untrusted in any case. Blocks.
    pub(super) fn none(undo: &undo::Store, workspace: &Path) -> Self {
        let before: BTreeSet<String> = undo.marks.all().into_iter().flatten().collect();
        Self {
            closed: Vec::new(),
            open: Vec::new(),
            is_damaged: false,
            is_watched: false,
            words: BTreeSet::new(),
            inodes: inodes(before.iter().map(|key| workspace.join(key))),
            before,
            change: Change::default(),
            agreed: None,
            named: None,
        }
    }

    /// Looks for them; `opens` says of a file that may be run, and whether the command names it, whether it may. Blocks.
    pub(super) fn find(
        files: &ChangedFiles,
        undo: &undo::Store,
        command: &Command<'_>,
        opens: &dyn Fn(&str, bool) -> bool,
    ) -> Self {
        let marks = undo.marks.all();
        let is_damaged = marks.is_none();
        let before: BTreeSet<String> = marks.into_iter().flatten().collect();
        let mut there: Vec<PathBuf> = before
            .iter()
            .map(|key| command.workspace.join(key))
            .filter(|path| is_file(path))
            .collect();
        let words = words(command.workspace, before.iter());
        let inodes = inodes(there.iter().cloned());
        let (by_content, is_whole) = files.marked_by_content();
        there.extend(by_content);
        there.sort();
        there.dedup();
        let named = command.named();
        let (closed, open) = there.into_iter().partition(|path| {
            let key = key_of(command.workspace, path);
            may_be_run(undo, command.workspace, path) && !opens(&key, command.reaches(&named, path))
        });
        Self {
            closed,
            open,
            is_damaged: is_damaged || !is_whole,
            is_watched: true,
            before,
            words,
            inodes,
            change: Change::default(),
            agreed: None,
            named: None,
        }
    }

    /// Carries the marks of files over that lie elsewhere by now, alone or with a directory. Blocks.
    pub(super) fn carry(&self, files: &ChangedFiles, undo: &undo::Store, workspace: &Path) {
        let is_gone = |path: &Path, before: Inode| {
            let now = path.symlink_metadata();
            !now.is_ok_and(|metadata| inode(&metadata) == before)
        };
        let gone = self.inodes.iter();
        let gone: BTreeMap<Inode, &PathBuf> = gone
            .filter(|(path, inode)| is_gone(path, **inode))
            .map(|(path, inode)| (*inode, path))
            .collect();
        if gone.is_empty() {
            return;
        }
        let found = files.of_inodes(&gone.keys().copied().collect()).into_iter();
        let moved =
            found.filter_map(|(inode, key)| Some((key_of(workspace, gone.get(&inode)?), key)));
        if let Err(error) = undo.marks.carry(&moved.collect::<Vec<_>>()) {
            tracing::error!(%error, "files that a command moved could not be marked as untrusted");
        }
    }

    /// Returns whether it may open any, or nobody can tell.
    pub(super) fn are_there(&self) -> bool {
        self.is_damaged || !self.open.is_empty()
    }

    /// Begins to watch those that are open. Blocks.
    pub(super) fn watch(&self) -> OpenedFiles {
        OpenedFiles::watch(&self.open)
    }

    /// Returns what the command did that printed `output`. Blocks.
    pub(super) fn touched(
        &self,
        watch: OpenedFiles,
        undo: &undo::Store,
        workspace: &Path,
        output: &str,
    ) -> Touched {
        let happened = watch.take();
        // Marked while it ran, by another run.
        let now = undo.marks.all().unwrap_or_default().into_iter();
        let new = now.filter(|key| !self.before.contains(key));
        let new: BTreeSet<String> = new.collect();
        let new_words = words(workspace, new.iter());
        let new = new.iter().map(|key| workspace.join(key));
        let new: Vec<PathBuf> = new.filter(|path| is_file(path)).collect();
        let opened: Vec<&PathBuf> = happened.opened.iter().chain(&new).collect();
        let is_named = |path: &&PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy());
            name.is_some_and(|name| output.contains(&*name))
        };
        let by_name = || self.closed.iter().chain(&self.open).find(is_named).cloned();
        let by_word = || {
            let mut words = self.words.iter().chain(&new_words);
            words
                .find(|words| output.contains(*words))
                .map(PathBuf::from)
        };
        let is_asked = |path: &&PathBuf| is_asked(undo, workspace, path);
        let touched = || opened.iter().copied().chain(&happened.moved);
        Touched {
            read: opened
                .first()
                .copied()
                .cloned()
                .or_else(by_name)
                .or_else(by_word),
            any: touched().next().is_some(),
            asked: touched().all(|path| is_asked(&path)),
        }
    }

    /// Returns whether the owner wants what the command changed, whatever it opened: they agreed, and no others marked files
    /// meanwhile, or may have. Blocks.
    pub(super) fn is_agreed(&self, undo: &undo::Store, own: &Period) -> bool {
        let marks = &undo.marks;
        let is_other = |period: &Period| period.run != own.run && !period.is_of_server();
        let is_same = |agreed: &Agreed| {
            marks.state_of(|_| true) == agreed.all && !marks.periods.open().iter().any(is_other)
        };
        !self.is_damaged && self.agreed.as_ref().is_some_and(is_same)
    }

    /// Notes that they did, when it is news. Blocks.
    pub(super) fn agree(&self, undo: &undo::Store) {
        let (Some(agreed), Some(command)) = (&self.agreed, &self.change.command) else {
            return;
        };
        if agreed.files.is_empty() {
            return;
        }
        let state = agreed.untrusted.as_deref();
        let noted = undo
            .marks
            .agree_to(&agreed.files, state.map(|state| (command.as_str(), state)));
        if let Err(error) = noted {
            tracing::error!(%error, "cannot record an approval of files: the owner will be asked again");
        }
    }
}

fn is_file(path: &Path) -> bool {
    let metadata = path.symlink_metadata();
    metadata.is_ok_and(|metadata| metadata.is_file())
}

/// Returns what may be an order in the names of the directories of marked files, of marked directories, and in marked links.
fn words<'a>(workspace: &Path, keys: impl Iterator<Item = &'a String>) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for key in keys {
        let Ok(metadata) = workspace.join(key).symlink_metadata() else {
            continue;
        };
        if !metadata.is_file() {
            words.extend(words_of(&workspace.join(key), &metadata));
        }
        let directories = Path::new(key).parent().into_iter().flatten();
        let names = directories.map(|name| name.to_string_lossy().into_owned());
        words.extend(names.filter(|name| !says_nothing(name)));
    }
    words
}

fn inodes(paths: impl Iterator<Item = PathBuf>) -> BTreeMap<PathBuf, Inode> {
    let of_path = |path: PathBuf| {
        let inode = inode(&path.symlink_metadata().ok()?);
        Some((path, inode))
    };
    paths.filter_map(of_path).collect()
}

/// A command, as far as it says which files it is about.
pub(super) struct Command<'a> {
    pub(super) line: &'a str,
    pub(super) cwd: &'a Path,
    pub(super) workspace: &'a Path,
}

impl Command<'_> {
    /// Returns the files and directories below the workspace that it names, the one where it starts among them.
    pub(super) fn named(&self) -> Vec<PathBuf> {
        let Ok(workspace) = self.workspace.canonicalize() else {
            return Vec::new();
        };
        let words = argv::plain(self.line).unwrap_or_default();
        let names = files_in_command::names(self.line).into_iter();
        let names = names.chain(words.iter().map(String::as_str));
        let named = names.flat_map(|name| match has_pattern(name) {
            true => self.matching(name),
            false => vec![self.cwd.join(name)],
        });
        let paths = named.filter_map(|path| path.canonicalize().ok());
        let inside = |path: &PathBuf| path.starts_with(&workspace) && *path != workspace;
        let cwd = self.cwd.canonicalize().ok();
        paths.chain(cwd).filter(inside).collect()
    }

    /// Returns what the shell may put in the place of a word with `*`, `?` or `[…]`, down to the first part of the path that
    /// has one.
    fn matching(&self, word: &str) -> Vec<PathBuf> {
        let (before, rest) = word.split_at(word.find(PATTERN).unwrap_or(word.len()));
        let (dir, begin) = match before.rfind('/') {
            Some(at) => before.split_at(at + 1),
            None => ("", before),
        };
        let part = rest.split('/').next().unwrap_or_default();
        let is_end = |c: char| PATTERN.contains(&c) || c == ']';
        let end = part.rsplit(is_end).next().unwrap_or_default();
        let entries = self.cwd.join(dir).read_dir().into_iter().flatten();
        let entries = entries.flatten().take(MATCHING);
        let fits = |name: &str| {
            // No pattern stands for a dot in front.
            name.starts_with(begin)
                && name.ends_with(end)
                && (!begin.is_empty() || !name.starts_with('.'))
        };
        let found = entries.filter(|entry| fits(&entry.file_name().to_string_lossy()));
        found.map(|entry| entry.path()).collect()
    }

    /// Returns what it is known by.
    pub(super) fn id(&self) -> String {
        let id = sha256_hex(format!("{}\0{}", self.cwd.display(), self.line).as_bytes());
        id.chars().take(COMMAND_ID).collect()
    }

    /// Returns the files that this very command was the last to change.
    fn made(&self, undo: &undo::Store) -> BTreeSet<String> {
        undo.marks.made_by(&self.id())
    }

    fn reaches(&self, named: &[PathBuf], file: &Path) -> bool {
        let Ok(file) = file.canonicalize() else {
            return false;
        };
        named.iter().any(|path| file.starts_with(path))
    }

    /// Returns the files that it names or wrote, and may run, and that nobody wanted: the owner is asked about them.
    /// Blocks a little.
    pub(super) fn unasked(&self, undo: &undo::Store) -> Vec<String> {
        let (named, made) = (self.named(), self.made(undo));
        if named.is_empty() && made.is_empty() {
            return Vec::new();
        }
        let by_name = undo.marks.all().unwrap_or_default().into_iter();
        let by_name = by_name.map(|key| self.workspace.join(key));
        // Under another name by now.
        let moved = named
            .iter()
            .filter(|path| holds_marked(undo, path))
            .cloned();
        let mut found: Vec<PathBuf> = by_name.chain(moved).collect();
        found.retain(|path| {
            let is_own = || made.contains(&key_of(self.workspace, path));
            is_file(path) && (self.reaches(&named, path) || is_own())
        });
        found.retain(|path| may_be_run(undo, self.workspace, path));
        let mut names: Vec<String> = found
            .iter()
            .filter_map(|path| path.canonicalize().ok())
            .map(|path| key_of(self.workspace, &path))
            .collect();
        names.sort();
        names.dedup();
        names
    }
}

/// Returns true for a word that the shell may put other words in the place of.
fn has_pattern(word: &str) -> bool {
    let is_set = || {
        word.split_once('[')
            .is_some_and(|(_, rest)| rest.contains(']'))
    };
    word.contains(['*', '?']) || is_set()
}

fn holds_marked(undo: &undo::Store, path: &Path) -> bool {
    let size = path.metadata().ok().filter(Metadata::is_file);
    size.is_some_and(|metadata| undo.marks.may_hold(metadata.len()))
        && ContentId::at(path).is_ok_and(|content| undo.marks.has_content(&content))
}

/// Returns a digest of the untrusted files that `command` may run, named or not: a Makefile, a module, and of a shell text or
/// a program that runs others, which hide what they name, documents as well. Untrusted runs may change them while the
/// owner thinks about it.
pub(super) fn state(command: &str, marks: &Marks) -> Option<String> {
    let is_plain = argv::plain(command).is_some_and(|argv| !config::runs_others(&argv));
    marks.state_of(|key| {
        let ending = key.rsplit_once('.').map_or("", |(_, ending)| ending);
        !is_plain || !DOCUMENTS.contains(&ending.to_lowercase().as_str())
    })
}

/// Returns true for a file that an untrusted run wrote, and that is not a document.
fn may_be_run(undo: &undo::Store, workspace: &Path, path: &Path) -> bool {
    let is_asked = || is_asked(undo, workspace, path) && !is_being_written(undo, workspace, path);
    !is_document(path) && !is_git_data(path) && !is_asked()
}

/// Returns true for what git keeps in a repository and nothing runs: `git add` of one untrusted file writes the index.
fn is_git_data(path: &Path) -> bool {
    const DATA: [&str; 11] = [
        "index",
        "objects",
        "logs",
        "refs",
        "HEAD",
        "ORIG_HEAD",
        "FETCH_HEAD",
        "MERGE_HEAD",
        "COMMIT_EDITMSG",
        "MERGE_MSG",
        "packed-refs",
    ];
    let mut names = path.iter();
    let is_in_git = names.any(|name| name == ".git");
    is_in_git
        && names
            .next()
            .is_some_and(|name| DATA.iter().any(|data| name == *data))
}

fn is_asked(undo: &undo::Store, workspace: &Path, path: &Path) -> bool {
    let key = key_of(workspace, path);
    undo.marks.was_asked(&key, || ContentId::at(path).ok())
}

/// Returns true for a file that a command which runs yet, or a tool server, may have written, and that nobody may have wanted.
fn is_being_written(undo: &undo::Store, workspace: &Path, path: &Path) -> bool {
    let key = key_of(workspace, path);
    let is_covered = |metadata: &Metadata| {
        undo.marks
            .is_doubtful(&key, metadata, || ContentId::at(path).ok())
    };
    path.symlink_metadata()
        .is_ok_and(|metadata| is_covered(&metadata))
}

fn key_of(workspace: &Path, path: &Path) -> String {
    let below = path.strip_prefix(workspace).ok().map(Path::to_owned);
    let real = || {
        Some(
            path.strip_prefix(workspace.canonicalize().ok()?)
                .ok()?
                .to_owned(),
        )
    };
    below
        .or_else(real)
        .unwrap_or_else(|| path.to_owned())
        .to_string_lossy()
        .into_owned()
}

fn is_document(path: &Path) -> bool {
    let Ok(metadata) = path.metadata() else {
        return false;
    };
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let whole = path.to_string_lossy().to_lowercase();
    let mut head = [0; 2];
    let is_script = std::fs::File::open(path)
        .and_then(|mut file| file.read_exact(&mut head))
        .is_ok_and(|()| head == *b"#!");
    metadata.is_file()
        && metadata.permissions().mode() & 0o111 == 0
        && DOCUMENTS.contains(&ending)
        && !OBEYED.iter().any(|part| whole.contains(part))
        && !(ending == "txt" && name.starts_with("test"))
        && !is_script
}

#[cfg(test)]
mod tests;
