//! Untrusted files of the workspace in a command of a turn that read nothing untrusted.
//!
//! | file | to the command |
//! |---|---|
//! | received, fetched or written at the owner's wish | open; when it is opened, output and what was changed are untrusted |
//! | written by an untrusted run, a document | the same |
//! | written by an untrusted run, else: it may be run | closed; the owner is asked when the command names it, or wrote it |
//!
//! A yes to a command is one to what it was asked about and to the documents that it opens, as they are, and to what it makes
//! of them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::Metadata;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::files_in_command;
use crate::config;
use crate::sys::OpenedFiles;
use crate::text::{argv, sha256_hex};
use crate::tools::changed_files::{ChangedFiles, Inode, inode, words_of};
use crate::trust::says_nothing;
use crate::undo;
use crate::workspace::{Change, ContentId, Marks};

/// Endings of documents, pictures and recordings, which nothing runs by itself.
const DOCUMENTS: [&str; 38] = [
    "md", "txt", "csv", "tsv", "log", "html", "htm", "pdf", "rtf", "docx", "xlsx", "pptx", "odt",
    "ods", "odp", "epub", "ics", "vcf", "eml", "bib", "srt", "gpx", "geojson", "png", "jpg",
    "jpeg", "gif", "webp", "bmp", "tiff", "mp3", "ogg", "oga", "wav", "m4a", "mp4", "webm", "mov",
];
/// What names of texts begin with that programs obey.
const OBEYED: [&str; 4] = ["requirements", "constraints", "cmakelists", "meson_options"];

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
    /// What was marked when it began.
    before: BTreeSet<String>,
    /// Words in the names of marked files, of their directories and of links.
    words: BTreeSet<String>,
    /// The marked files that were there.
    inodes: BTreeMap<PathBuf, Inode>,
    /// What is known of the command for those that it changes.
    pub(super) change: Change,
    /// To what the owner said yes with the command.
    pub(super) agreed: Option<Agreed>,
}

/// To what the owner said yes.
pub(super) struct Agreed {
    /// The files that the command may run.
    files: Vec<String>,
    /// The state of all marks when it began.
    state: Option<String>,
}

/// What a command did with untrusted files.
#[derive(Default)]
pub(super) struct Touched {
    /// One that it opened or named in its output.
    pub(super) read: Option<PathBuf>,
    /// Whether it opened, moved or linked any.
    pub(super) any: bool,
    /// Whether the owner wanted all that were opened.
    pub(super) asked: bool,
    /// The documents that it opened.
    documents: Vec<String>,
}

impl MarkedFiles {
    /// Returns none that are closed or watched, for a command whose output is untrusted in any case. Blocks.
    pub(super) fn none(undo: &undo::Store, command: &Command<'_>) -> Self {
        let before: BTreeSet<String> = undo.marks.all().into_iter().flatten().collect();
        Self {
            closed: Vec::new(),
            open: Vec::new(),
            is_damaged: false,
            words: BTreeSet::new(),
            inodes: inodes(before.iter().map(|key| command.workspace.join(key))),
            before,
            change: command.change(),
            agreed: None,
        }
    }

    /// Looks for them. Blocks.
    pub(super) fn find(files: &ChangedFiles, undo: &undo::Store, command: &Command<'_>) -> Self {
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
        let (named, made) = (command.named(), command.made(undo));
        let (closed, open) = there.into_iter().partition(|path| {
            may_be_run(undo, command.workspace, path)
                && !command.reaches(&named, path)
                && !made.contains(&key_of(command.workspace, path))
        });
        Self {
            closed,
            open,
            is_damaged: is_damaged || !is_whole,
            before,
            words,
            inodes,
            change: command.change(),
            agreed: None,
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
        let documents = opened.iter().filter(|path| is_document(path));
        Touched {
            documents: documents.map(|path| key_of(workspace, path)).collect(),
            read: opened
                .first()
                .copied()
                .cloned()
                .or_else(by_name)
                .or_else(by_word),
            any: happened.moved || !opened.is_empty(),
            asked: opened.iter().all(is_asked),
        }
    }

    /// Returns the files that the owner wants because of their yes to the command, which did that; `None` without one, and
    /// when others marked files meanwhile. Blocks.
    pub(super) fn wanted(&self, touched: &Touched, undo: &undo::Store) -> Option<Vec<String>> {
        let agreed = self.agreed.as_ref()?;
        let is_same = undo.marks.state_of(|_| true) == agreed.state;
        let files = || agreed.files.iter().chain(&touched.documents).cloned();
        is_same.then(|| files().collect())
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
        let names = files_in_command::names(self.line).into_iter();
        let paths = names.filter_map(|name| self.cwd.join(name).canonicalize().ok());
        let inside = |path: &PathBuf| path.starts_with(&workspace) && *path != workspace;
        let cwd = self.cwd.canonicalize().ok();
        paths.chain(cwd).filter(inside).collect()
    }

    /// Returns what it is known by where it changes files.
    fn change(&self) -> Change {
        let id = sha256_hex(format!("{}\0{}", self.cwd.display(), self.line).as_bytes());
        Change {
            there: HashSet::new(),
            command: Some(id.chars().take(COMMAND_ID).collect()),
        }
    }

    /// Returns the files that this very command was the last to change.
    fn made(&self, undo: &undo::Store) -> BTreeSet<String> {
        undo.marks
            .made_by(&self.change().command.unwrap_or_default())
    }

    /// Returns to what the owner says yes with it. Blocks a little.
    pub(super) fn agreed(&self, undo: &undo::Store) -> Agreed {
        let (files, state) = (self.unasked(undo), undo.marks.state_of(|_| true));
        Agreed { files, state }
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

/// Returns true for a file that an untrusted run wrote, and that is no document.
fn may_be_run(undo: &undo::Store, workspace: &Path, path: &Path) -> bool {
    !is_document(path) && !is_git_data(path) && !is_asked(undo, workspace, path)
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
    let mut head = [0; 2];
    let is_script = std::fs::File::open(path)
        .and_then(|mut file| file.read_exact(&mut head))
        .is_ok_and(|()| head == *b"#!");
    metadata.is_file()
        && metadata.permissions().mode() & 0o111 == 0
        && DOCUMENTS.contains(&ending)
        && !OBEYED.iter().any(|begin| name.starts_with(begin))
        && !is_script
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::atomic;
    use crate::workspace::Marking;
    use std::sync::Arc;

    struct House {
        _dir: tempfile::TempDir,
        workspace: PathBuf,
        undo: Arc<undo::Store>,
    }

    fn house() -> House {
        let dir = tempfile::tempdir().expect("dir");
        let workspace = dir.path().canonicalize().expect("path").join("w");
        std::fs::create_dir_all(workspace.join("sub/.git")).expect("dirs");
        let marks = Marks::new(&dir.path().join("untrusted.json"));
        let undo = Arc::new(undo::Store::new(dir.path().join("undo"), marks));
        House {
            _dir: dir,
            workspace,
            undo,
        }
    }

    impl House {
        fn put(&self, name: &str, words: &str, asked: Option<bool>) {
            let path = self.workspace.join(name);
            atomic::write(&path, words.as_bytes(), atomic::Durability::Rename).expect("write");
            if let Some(asked) = asked {
                let by = Marking {
                    run: "r",
                    asked,
                    at: 5,
                };
                let marked = self.undo.marks.set_with(name, words.as_bytes(), by);
                marked.expect("mark");
            }
        }

        fn command<'a>(&'a self, line: &'a str, cwd: &'a Path) -> Command<'a> {
            Command {
                line,
                cwd,
                workspace: &self.workspace,
            }
        }
    }

    #[test]
    fn a_yes_is_for_the_untrusted_files_as_they_are() {
        let house = house();
        let state = |command: &str| state(command, &house.undo.marks);
        let (plain, text) = ("wc -l sub/run.sh", "cd sub && sh r''un.sh");
        assert_eq!((state(plain), state(text)), (None, None));
        let runners = ["make test", "sh -c 'cd sub && sh notes.txt'"];
        let mark = |name: &str, at: i64| {
            let (run, asked) = ("r", false);
            let marked = house.undo.marks.set(name, Marking { run, asked, at });
            marked.expect("mark");
        };
        mark("sub/run.sh", 5);
        mark("notes.txt", 5);
        let (first, of_text) = (state(plain), state(text));
        assert!(first.is_some() && first != of_text);
        let of_runners = runners.map(state);
        mark("notes.txt", 6);
        assert!(state(plain) == first && state(text) != of_text);
        // They may run a document.
        let is_other = |(runner, before): (&str, &Option<String>)| state(runner) != *before;
        assert!(runners.into_iter().zip(&of_runners).all(is_other));
        mark("sub/run.sh", 6);
        assert_ne!(state(plain), first);
    }

    #[test]
    fn only_what_may_be_run_and_nobody_wanted_is_closed_or_asked_about() {
        let house = house();
        house.put("notes.md", "found on a page, in some words", Some(false));
        house.put("run.sh", "touch canary-of-the-page", Some(false));
        // Git writes it when a file of the page is added.
        house.put("sub/.git/index", "what git knows of that file", Some(false));
        house.put(
            "sub/Makefile",
            "all:\n\ttouch canary-of-the-page",
            Some(false),
        );
        house.put(
            "fetched.sh",
            "the release that the owner fetched",
            Some(true),
        );
        house.put("own.sh", "the words of the owner alone", None);
        let files = ChangedFiles::new(&house.workspace, house.undo.clone());
        let check = |line: &str, cwd: &str, closed: &[&str], asked: &[&str]| {
            let cwd = house.workspace.join(cwd);
            let command = house.command(line, &cwd);
            let found = MarkedFiles::find(&files, &house.undo, &command);
            let closed: Vec<PathBuf> = closed
                .iter()
                .map(|name| house.workspace.join(name))
                .collect();
            assert_eq!(found.closed, closed, "{line}");
            assert_eq!(command.unasked(&house.undo), asked, "{line}");
        };
        let both = ["run.sh", "sub/Makefile"];
        check("make test", "", &both, &[]);
        check("cat notes.md fetched.sh own.sh", "", &both, &[]);
        check("sh run.sh", "", &both[1..], &["run.sh"]);
        check("make -C sub", "", &both[..1], &["sub/Makefile"]);
        check("make", "sub", &both[..1], &["sub/Makefile"]);
        std::fs::rename(
            house.workspace.join("run.sh"),
            house.workspace.join("new.sh"),
        )
        .expect("rename");
        check("sh ./new.sh", "", &both[1..], &["new.sh"]);
        check("sh own.sh", "", &["new.sh", "sub/Makefile"], &[]);
    }

    #[test]
    fn what_a_command_made_of_a_document_is_open_to_it_after_a_yes() {
        let house = house();
        house.put("notes.md", "found on a page, in some words", Some(false));
        let files = ChangedFiles::new(&house.workspace, house.undo.clone());
        let command = house.command("make", &house.workspace);
        // Runs it: it reads the document and writes a program.
        let run = |agreed: bool, words: &str| {
            let mut found = MarkedFiles::find(&files, &house.undo, &command);
            found.agreed = agreed.then(|| command.agreed(&house.undo));
            let is_closed = found.closed.iter().any(|path| path.ends_with("app"));
            let (watch, began) = (found.watch(), crate::clock::now_ms());
            drop(std::fs::read(house.workspace.join("notes.md")));
            house.put("app", words, None);
            let touched = found.touched(watch, &house.undo, &house.workspace, "");
            let wanted = found.wanted(&touched, &house.undo);
            let (run, asked) = ("r", touched.asked || wanted.is_some());
            let by = Marking {
                run,
                asked,
                at: began,
            };
            files.mark_since(began, by, &found.change);
            let agreed = house.undo.marks.agree_to(&wanted.unwrap_or_default());
            agreed.expect("written");
            is_closed
        };
        assert_eq!(command.unasked(&house.undo), [""; 0]);
        assert!(!run(false, "made of a page the first time"));
        // Other commands still cannot open it, and this one asks.
        assert_eq!(command.unasked(&house.undo), ["app"]);
        let other = house.command("make -j2", &house.workspace);
        let found = MarkedFiles::find(&files, &house.undo, &other);
        assert_eq!(found.closed, [house.workspace.join("app")]);
        assert!(!run(true, "made of a page the second time"));
        assert_eq!(command.unasked(&house.undo), [""; 0]);
        assert!(!run(false, "made of a page the third time"));
        assert_eq!(command.unasked(&house.undo), [""; 0]);
        // The yes was for the document as it was.
        house.put(
            "notes.md",
            "found on another page by another run",
            Some(false),
        );
        assert!(!run(false, "made of another page"));
        assert_eq!(command.unasked(&house.undo), ["app"]);
    }

    #[test]
    fn a_yes_is_for_a_script_until_it_is_written_again() {
        let house = house();
        house.put("sub/run.sh", "touch canary-of-the-page", Some(false));
        let files = ChangedFiles::new(&house.workspace, house.undo.clone());
        let (line, cwd) = ("git status", house.workspace.join("sub"));
        let command = house.command(line, &cwd);
        let wanted = |meanwhile: &dyn Fn()| {
            let mut found = MarkedFiles::find(&files, &house.undo, &command);
            found.agreed = Some(command.agreed(&house.undo));
            meanwhile();
            found.wanted(&Touched::default(), &house.undo)
        };
        assert_eq!(command.unasked(&house.undo), ["sub/run.sh"]);
        // Another run writes it while the command runs to which they said yes.
        let other = || {
            house.put("sub/run.sh", "touch another-canary", None);
            let (run, asked, at) = ("other", false, 6);
            let marked = house.undo.marks.set_with(
                "sub/run.sh",
                b"touch another-canary",
                Marking { run, asked, at },
            );
            marked.expect("mark");
        };
        assert_eq!(wanted(&other), None);
        let keys = wanted(&|| {}).expect("a yes");
        assert_eq!(keys, ["sub/run.sh"]);
        house.undo.marks.agree_to(&keys).expect("written");
        assert_eq!(command.unasked(&house.undo), [""; 0]);
        other();
        assert_eq!(command.unasked(&house.undo), ["sub/run.sh"]);
    }

    #[test]
    fn what_was_marked_before_says_nothing_of_a_command_that_the_owner_wanted() {
        let house = house();
        house.put("run.sh", "touch canary-of-the-page", Some(false));
        let found = MarkedFiles::none(&house.undo, &house.command("x", &house.workspace));
        let touched = || found.touched(found.watch(), &house.undo, &house.workspace, "");
        assert!(touched().asked);
        house.put("meanwhile.sh", "touch another-canary", Some(false));
        assert!(!touched().asked);
    }

    #[test]
    fn what_a_command_opens_is_known() {
        let house = house();
        house.put("notes.md", "found on a page, in some words", Some(false));
        house.put(
            "fetched.txt",
            "the release that the owner fetched",
            Some(true),
        );
        let files = ChangedFiles::new(&house.workspace, house.undo.clone());
        let command = house.command("x", &house.workspace);
        let check = |act: &dyn Fn(), output: &str, read: Option<&str>, any: bool, asked: bool| {
            let found = MarkedFiles::find(&files, &house.undo, &command);
            let watch = found.watch();
            act();
            let touched = found.touched(watch, &house.undo, &house.workspace, output);
            let name = touched.read.as_ref().and_then(|path| path.file_name());
            let name = name.map(|name| name.to_string_lossy().into_owned());
            assert_eq!(
                (name.as_deref(), touched.any, touched.asked),
                (read, any, asked),
                "{output}"
            );
        };
        let read = |name: &str| drop(std::fs::read(house.workspace.join(name)));
        check(&|| {}, "ok", None, false, true);
        check(&|| {}, "notes.md", Some("notes.md"), false, true);
        check(&|| read("notes.md"), "", Some("notes.md"), true, false);
        check(&|| read("fetched.txt"), "", Some("fetched.txt"), true, true);
        let other_run = || house.put("late.md", "written while the command ran", Some(false));
        check(&other_run, "", Some("late.md"), true, false);
    }

    #[test]
    fn names_of_directories_and_links_are_words_of_others() {
        let house = house();
        let at = |name: &str| house.workspace.join(name);
        let files = ChangedFiles::new(&house.workspace, house.undo.clone());
        let began = crate::clock::now_ms();
        for name in ["call exec with obey", "plain", "sub/run obey.d"] {
            std::fs::create_dir(at(name)).expect("dir");
        }
        house.put("sub/run obey.d/7", "", None);
        std::os::unix::fs::symlink("then call exec", at("link")).expect("link");
        let (run, asked, at_ms) = ("r", false, began);
        files.mark_since(
            began,
            Marking {
                run,
                asked,
                at: at_ms,
            },
            &Change::default(),
        );
        let command = house.command("x", &house.workspace);
        let check = |output: &str, expected: bool| {
            let found = MarkedFiles::find(&files, &house.undo, &command);
            assert!(!found.closed.iter().any(|path| path.is_dir()), "{output}");
            let watch = found.watch();
            let touched = found.touched(watch, &house.undo, &house.workspace, output);
            assert_eq!(touched.read.is_some(), expected, "{output}");
        };
        check("call exec with obey\nplain\n", true);
        check("then call exec\n", true);
        check("sub/run obey.d\n", true);
        check("plain\nlink\nsub\n", false);
    }

    #[test]
    fn a_short_file_stays_marked_in_a_directory_that_a_command_renames() {
        let house = house();
        house.put("sub/run.sh", "sh ./evil", Some(false));
        let files = ChangedFiles::new(&house.workspace, house.undo.clone());
        let command = house.command("mv sub other", &house.workspace);
        let found = MarkedFiles::find(&files, &house.undo, &command);
        let (from, to) = (house.workspace.join("sub"), house.workspace.join("other"));
        std::fs::rename(from, to).expect("rename");
        assert!(!house.undo.marks.has("other/run.sh"));
        found.carry(&files, &house.undo, &house.workspace);
        assert!(house.undo.marks.has("other/run.sh"));
        let command = house.command("sh other/run.sh", &house.workspace);
        assert_eq!(command.unasked(&house.undo), ["other/run.sh"]);
    }

    #[test]
    fn a_document_is_what_nothing_runs_by_itself() {
        let house = house();
        let check = |name: &str, words: &str, expected: bool| {
            house.put(name, words, None);
            assert_eq!(is_document(&house.workspace.join(name)), expected, "{name}");
        };
        check("walks.md", "Douro", true);
        check("table.CSV", "a,b", true);
        check("requirements.txt", "evil", false);
        check("CMakeLists.txt", "evil", false);
        check("a.md", "#!/bin/sh\n", false);
        for name in [
            "Makefile",
            "a.sh",
            "a.json",
            "a.md.sh",
            ".profile",
            "conftest.py",
        ] {
            check(name, "x", false);
        }
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(house.workspace.join("walks.md"), mode).expect("mode");
        assert!(!is_document(&house.workspace.join("walks.md")));
    }
}
