//! Files of the workspace by their content: those that a command or a tool server has changed, and those whose content was
//! marked under another name.

use std::collections::{BTreeSet, HashSet};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::clock;
use crate::sandbox::Root;
use crate::trust::says_nothing;
use crate::undo;
use crate::workspace::{Changed, ContentId, Marking, Period, SERVER, changed_at};

/// Entries that are looked at: some seconds.
const ENTRIES: usize = 500_000;
/// Files that are marked by content, too, at one go, and what is read of them, bytes; more are marked by name, and by when
/// they were changed.
const BY_CONTENT: usize = 10_000;
const TOGETHER: u64 = 512 << 20;
const OF_ONE: u64 = 4 << 20;

/// The files of the owner that were there before something changed files: their names, and which they were.
#[derive(Debug, Default)]
pub(super) struct There {
    names: HashSet<String>,
    inodes: HashSet<Inode>,
}

/// What is known of a command or of the call of a tool server that changes files.
#[derive(Debug, Default)]
pub(super) struct Change {
    /// What was the owner's before; `None` when all that it changes is theirs.
    pub(super) there: Option<There>,
    /// By what the command is known, when it is the owner's.
    pub(super) command: Option<String>,
    /// Whether they want all that it changes.
    pub(super) agreed: bool,
}

impl Change {
    /// Returns whether the file called `key`, which was changed, is the owner's.
    fn was_theirs(&self, key: &str, metadata: &Metadata) -> bool {
        self.there.as_ref().is_none_or(|there| {
            there.names.contains(key) || there.inodes.contains(&inode(metadata))
        })
    }
}

/// The files of one workspace, with their marks.
#[derive(Clone)]
pub struct ChangedFiles {
    workspace: PathBuf,
    undo: Arc<undo::Store>,
    /// How many entries are looked at.
    entries: usize,
}

impl ChangedFiles {
    /// Returns those of `workspace`, whose marks `undo` has.
    pub fn new(workspace: &Path, undo: Arc<undo::Store>) -> Self {
        Self {
            workspace: workspace.to_owned(),
            undo,
            entries: ENTRIES,
        }
    }

    /// Returns the files that are there and not marked. Blocks.
    pub(super) fn there(&self) -> There {
        let mut there = There::default();
        let marked: HashSet<String> = self.undo.marks.all().into_iter().flatten().collect();
        self.walk(&mut |path, metadata| {
            let is_one = metadata.is_file() || metadata.is_symlink();
            let key = self.key(path).filter(|key| is_one && !marked.contains(key));
            there.inodes.extend(key.as_ref().map(|_| inode(metadata)));
            there.names.extend(key);
        });
        there
    }

    /// Marks every file that `change` changed, made or moved since `began_ms` as untrusted. Where that is not possible, what
    /// was changed from then until now counts as marked. Blocks.
    pub(super) fn mark_since(&self, began_ms: i64, by: Marking<'_>, change: &Change) {
        let id = format!("{}-{}", by.run, uuid::Uuid::new_v4().simple());
        let period = self.period(id, began_ms, by);
        if !self.mark_in(&period, by.at, change) {
            self.cover_rest(period);
        }
    }

    /// Marks what `change` changed since `began_ms` where doubted tool servers may write: it was not they. Blocks.
    pub(super) fn mark_beside_servers(&self, began_ms: i64, by: Marking<'_>, change: &Change) {
        for server in self.undo.marks.periods.doubted_servers() {
            let period = Period {
                below: server.below,
                ..self.period(by.run.to_owned(), began_ms, by)
            };
            self.mark_in(&period, by.at, change);
        }
    }

    /// Marks what doubted tool servers may have changed, and nobody has marked since, as what nobody wanted. Blocks.
    pub(super) fn settle_servers(&self) {
        for period in self.undo.marks.periods.doubted_servers() {
            // What is not marked now stays doubtful.
            self.mark_in(&period, clock::now_ms(), &Change::default());
        }
    }

    /// Returns a time from `since` on in which `by` may change files.
    pub(super) fn period(&self, id: String, since: i64, by: Marking<'_>) -> Period {
        Period {
            id,
            since,
            until: None,
            run: by.run.to_owned(),
            asked: by.asked,
            below: Vec::new(),
        }
    }

    /// Marks what was changed in times that nobody saw the end of: the daemon was killed. Blocks.
    pub fn mark_unended(&self) {
        let mut open = self.undo.marks.periods.open();
        // The doubted ones first: what another has marked is in doubt no more.
        open.sort_by_key(|period| period.asked);
        for period in open {
            tracing::warn!(
                run = period.run,
                "files that this run changed before the agent ended are marked as untrusted"
            );
            let id = period.id.clone();
            // Nobody knows what was there before.
            if !self.mark_in(&period, clock::now_ms(), &Change::default()) {
                self.cover_rest(period);
            }
            self.end(&id);
        }
    }

    /// Notes that the tool server `name` may change these files and directories at any time since `since`. Blocks when it was
    /// not noted before.
    pub(super) fn note_server(&self, name: &str, since: i64, writes: &[PathBuf]) {
        // The owner let it write there.
        self.note_server_as((name, format!("{SERVER}{name}")), true, since, writes);
    }

    /// Notes that a run to which nobody said yes calls the tool server `name`: since then nobody may want what it changes,
    /// within its calls or later. Blocks when it was not noted before.
    pub(super) fn doubt_server(&self, name: &str, since: i64, writes: &[PathBuf]) {
        // No server is called so.
        self.note_server_as((name, format!("{SERVER}{name}!")), false, since, writes);
    }

    fn note_server_as(
        &self,
        (name, id): (&str, String),
        asked: bool,
        since: i64,
        writes: &[PathBuf],
    ) {
        let marks = &self.undo.marks;
        if marks.periods.open().iter().any(|period| period.id == id) {
            return;
        }
        let workspace = self.workspace.canonicalize();
        let below = writes.iter().map(|path| {
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            let key = workspace
                .as_ref()
                .map(|workspace| real.strip_prefix(workspace));
            let key = match key {
                Ok(Ok(below)) => below,
                _ => real.as_path(),
            };
            key.to_string_lossy().into_owned()
        });
        let period = Period {
            id,
            since,
            until: None,
            run: format!("the tool server {name}"),
            asked,
            below: below.collect(),
        };
        if let Err(error) = marks.periods.begin(&period, false) {
            tracing::error!(%error, "files that the tool server {name} changes outside its calls are not marked as untrusted; repair state/untrusted-periods.json and restart the daemon");
        }
    }

    /// Records that all files changed in a period are marked. Blocks.
    pub(super) fn end(&self, id: &str) {
        if let Err(error) = self.undo.marks.periods.end(id) {
            tracing::error!(%error, "state/untrusted-periods.json could not be updated: all workspace files changed from now on are treated as untrusted; make it writable and restart the daemon");
        }
    }

    /// Marks what `change` changed in `period`; returns whether that was all of it.
    fn mark_in(&self, period: &Period, at: i64, change: &Change) -> bool {
        let marks = &self.undo.marks;
        let mut changed = Vec::new();
        let mut left = TOGETHER;
        let by = Marking {
            run: &period.run,
            asked: period.asked,
            at,
        };
        // What is next to the workspace is not walked through.
        let mut is_known = period.below.iter().all(|dir| Path::new(dir).is_relative());
        let is_whole = self.walk(&mut |path, metadata| {
            // Also moved ones: a rename changes the time of the inode.
            let (key, is_file) = (self.key(path), metadata.is_file());
            let counts = is_file || words_of(path, metadata).is_some();
            if counts && key.is_some_and(|key| period.covers(&key, changed_at(metadata))) {
                let is_read = is_file && changed.len() < BY_CONTENT && left > 0;
                is_known &= is_read || !is_file;
                let content = is_read.then(|| ContentId::at(path).ok()).flatten();
                let is_settled = |key: &String| {
                    let content = || content.clone();
                    period.is_doubted_server()
                        && marks.is_settled(key, changed_at(metadata), content)
                };
                if self.key(path).as_ref().is_some_and(is_settled) {
                    return;
                }
                left = left.saturating_sub(metadata.len().min(OF_ONE));
                changed.extend(self.key(path).map(|key| {
                    let owners = change.was_theirs(&key, metadata);
                    Changed {
                        key,
                        content,
                        owners,
                    }
                }));
            }
        });
        let command = change.command.as_deref();
        let marked = marks.set_changed(&changed, by, command, change.agreed);
        if let Err(error) = &marked {
            tracing::error!(%error, "files that a command changed could not be marked as untrusted");
        }
        is_whole && is_known && marked.is_ok()
    }

    /// Notes that what was changed in a period until now counts as marked, as not all of it could be looked at.
    fn cover_rest(&self, period: Period) {
        tracing::warn!(
            "not all changes of a command could be checked: files changed meanwhile are treated as untrusted"
        );
        let rest = Period {
            id: format!("{}-{}-rest", period.id, period.since),
            until: Some(clock::now_ms()),
            ..period
        };
        if let Err(error) = self.undo.marks.periods.begin(&rest, true) {
            tracing::error!(%error, "files that a command changed are not marked as untrusted");
        }
    }

    /// Returns the files of these inodes (device and number), with their keys. Blocks.
    pub(super) fn of_inodes(&self, inodes: &BTreeSet<Inode>) -> Vec<(Inode, String)> {
        let mut found = Vec::new();
        self.walk(&mut |path, metadata| {
            let inode = inode(metadata);
            if metadata.is_file() && inodes.contains(&inode) {
                found.extend(self.key(path).map(|key| (inode, key)));
            }
        });
        found
    }

    /// Writes a file that came from outside, and marks it. Blocks.
    pub(super) fn keep(&self, path: &Path, bytes: &[u8], by: Marking<'_>) -> Result<(), String> {
        let root = Root::open(&self.workspace).map_err(|error| error.to_string())?;
        // Marked first: a crash in between leaves a mark without a file, not the other way round.
        let key = path.to_string_lossy();
        let marked = self.undo.marks.set_with(&key, bytes, by);
        marked.map_err(|error| error.to_string())?;
        root.write_atomic(path, bytes)
            .map_err(|error| error.to_string())
    }

    /// Returns how many bytes the files in this folder of the workspace have. Blocks.
    pub(super) fn size_of(&self, folder: &Path) -> u64 {
        let entries = std::fs::read_dir(self.workspace.join(folder));
        let files = entries.into_iter().flatten().flatten();
        let sizes = files.filter_map(|entry| entry.metadata().ok());
        sizes.map(|metadata| metadata.len()).sum()
    }

    /// Returns the files that count as marked by their content, whatever they are called now, or by when they were changed;
    /// and whether all could be looked at. Blocks.
    pub(super) fn marked_by_content(&self) -> (Vec<PathBuf>, bool) {
        let marks = &self.undo.marks;
        let (sizes, has_periods) = (marks.sizes(), !marks.periods.is_empty());
        let mut found = Vec::new();
        if sizes.is_empty() && !has_periods {
            return (found, true);
        }
        let is_whole = self.walk(&mut |path, metadata| {
            if !metadata.is_file() {
                return;
            }
            let by_time = || {
                let key = self.key(path).filter(|_| has_periods);
                key.is_some_and(|key| marks.periods.cover(&key, changed_at(metadata)))
            };
            let by_content =
                || ContentId::at(path).is_ok_and(|content| marks.has_content(&content));
            if sizes.contains(&metadata.len()) && by_content() || by_time() {
                found.push(path.to_owned());
            }
        });
        (found, is_whole)
    }

    fn key(&self, path: &Path) -> Option<String> {
        let below = path.strip_prefix(&self.workspace).ok()?;
        Some(below.to_string_lossy().into_owned())
    }

    /// Shows each file, directory and link below the workspace; no link is followed. Returns whether that was all of them.
    fn walk(&self, visit: &mut dyn FnMut(&Path, &Metadata)) -> bool {
        let mut directories = vec![self.workspace.clone()];
        let mut left = self.entries;
        let mut is_whole = true;
        while let Some(directory) = directories.pop() {
            let Ok(entries) = std::fs::read_dir(&directory) else {
                is_whole &= !can_be_opened(&directory);
                continue;
            };
            for entry in entries.flatten() {
                if left == 0 {
                    tracing::warn!(
                        "the workspace has too many files: not all were checked for changes"
                    );
                    return false;
                }
                left -= 1;
                let Ok(metadata) = entry.metadata() else {
                    continue;
                };
                if metadata.is_dir() {
                    directories.push(entry.path());
                }
                visit(&entry.path(), &metadata);
            }
        }
        is_whole
    }
}

/// Device and number of an inode: what is the same file under another name.
pub(super) type Inode = (u64, u64);

pub(super) fn inode(metadata: &Metadata) -> Inode {
    (metadata.dev(), metadata.ino())
}

/// Returns the words that a process that lists a directory or a link reads of it: its name, or where it leads; `None` when they can
/// be no order.
pub(super) fn words_of(path: &Path, metadata: &Metadata) -> Option<String> {
    let says = |name: &Path| {
        let parts = name.to_string_lossy();
        let mut parts = parts
            .split('/')
            .filter(|part| !["", ".", ".."].contains(part));
        parts.any(|part| !says_nothing(part))
    };
    let name = path.file_name().map(PathBuf::from);
    let leads_to = metadata.is_symlink().then(|| std::fs::read_link(path).ok());
    let mut words = name.into_iter().chain(leads_to.flatten());
    let words = words.find(|words| says(words))?;
    Some(words.to_string_lossy().into_owned())
}

/// Returns true for a directory whose modes a command of ours could change: what is in it may be opened yet.
fn can_be_opened(directory: &Path) -> bool {
    let metadata = directory.symlink_metadata();
    metadata.is_ok_and(|metadata| metadata.uid() == nix::unistd::geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Marks;

    /// A workspace with a folder, its marks and its files.
    fn files_below(dir: &Path) -> (PathBuf, Arc<undo::Store>, ChangedFiles) {
        let workspace = dir.join("w");
        std::fs::create_dir_all(workspace.join("a")).expect("dirs");
        let marks = Marks::new(&dir.join("untrusted.json"));
        let undo = Arc::new(undo::Store::new(dir.join("undo"), marks));
        let files = ChangedFiles::new(&workspace, undo.clone());
        (workspace, undo, files)
    }

    fn write(path: &Path, words: &str) {
        let durability = crate::sys::atomic::Durability::Rename;
        crate::sys::atomic::write(path, words.as_bytes(), durability).expect("write");
    }

    #[test]
    fn what_was_changed_is_marked_and_found_under_another_name() {
        let dir = tempfile::tempdir().expect("dir");
        let (workspace, undo, files) = files_below(dir.path());
        let by = |run| Marking {
            run,
            asked: true,
            at: 5,
        };
        let write = |name: &str, words: &str| write(&workspace.join(name), words);
        write("a/new.md", "words out of the network");
        write("a/long.bin", &"words out of the network ".repeat(400_000));
        files.mark_since(0, by("r1"), &Change::default());
        assert!(undo.marks.has("a/new.md") && undo.marks.has("a/long.bin"));
        std::fs::rename(workspace.join("a"), workspace.join("b")).expect("rename");
        write("own.md", "the words of the owner...");
        let (mut found, is_whole) = files.marked_by_content();
        assert!(is_whole);
        found.sort();
        assert_eq!(
            found,
            ["b/long.bin", "b/new.md"].map(|name| workspace.join(name))
        );
        files.mark_since(clock::now_ms() + 60_000, by("r2"), &Change::default());
        assert!(!undo.marks.has("own.md"));
    }

    #[test]
    fn a_file_that_was_there_stays_the_owners_whatever_a_command_does_to_it() {
        let dir = tempfile::tempdir().expect("dir");
        let (workspace, undo, files) = files_below(dir.path());
        // As `sed -i` does: the name is the same, the file another one.
        let write = |name: &str, words: &str| write(&workspace.join(name), words);
        for name in ["a/own.md", "a/moved.md"] {
            write(name, "the words of the owner...");
        }
        let (run, asked, at) = ("r1", true, 5);
        let by = Marking { run, asked, at };
        let change = Change {
            there: Some(files.there()),
            ..Change::default()
        };
        write("a/new.md", "words out of the network");
        write("a/own.md", "words out of the network");
        let at = |name: &str| workspace.join(name);
        std::fs::rename(at("a/moved.md"), at("a/other.md")).expect("rename");
        files.mark_since(0, by, &change);
        let owners = |key: &str| undo.marks.was_owners(key);
        assert!(owners("a/own.md") && owners("a/other.md") && !owners("a/new.md"));
        // What they have it add to is theirs from then on.
        files.mark_since(0, by, &Change::default());
        assert!(owners("a/new.md"));
    }

    #[test]
    fn what_was_changed_when_the_agent_was_killed_is_marked_at_its_start() {
        let dir = tempfile::tempdir().expect("dir");
        let workspace = dir.path().join("w");
        std::fs::create_dir(&workspace).expect("dir");
        let path = dir.path().join("untrusted.json");
        let files = || {
            let undo = undo::Store::new(dir.path().join("undo"), Marks::new(&path));
            ChangedFiles::new(&workspace, Arc::new(undo))
        };
        let (run, asked, at) = ("r1", false, clock::now_ms());
        let before = files();
        let period = before.period("c1".to_owned(), at, Marking { run, asked, at });
        let begun = before.undo.marks.periods.begin(&period, false);
        begun.expect("written");
        let kept = workspace.join("kept.md");
        write(&kept, "words out of the network");
        let after = files();
        let metadata = kept.metadata().expect("it is there");
        let marks = &after.undo.marks;
        assert!(!marks.has("kept.md") && marks.has_file("kept.md", &metadata));
        after.mark_unended();
        assert!(marks.has("kept.md") && marks.periods.is_empty());
    }

    #[test]
    fn what_a_tool_server_may_change_counts_as_marked_while_it_lives() {
        let dir = tempfile::tempdir().expect("dir");
        let (workspace, beside) = (dir.path().join("w"), dir.path().join("beside"));
        std::fs::create_dir_all(workspace.join("notes")).expect("dir");
        std::fs::create_dir(&beside).expect("dir");
        let marks = Marks::new(&dir.path().join("untrusted.json"));
        let undo = Arc::new(undo::Store::new(dir.path().join("undo"), marks));
        let files = ChangedFiles::new(&workspace, undo.clone());
        let is_marked = |key: &str| {
            let path = workspace.join(key);
            write(&path, "words of the server");
            let metadata = path.metadata().expect("it is there");
            undo.marks.has_file(key, &metadata)
        };
        let outside = beside.join("a.md");
        let outside = outside.to_str().expect("a plain name");
        let writes = [workspace.join("notes"), beside.clone()];
        files.note_server("s", clock::now_ms(), &writes);
        assert!(is_marked("notes/a.md") && is_marked(outside) && !is_marked("own.md"));
        // A start looks at what it changed in the workspace; of the rest the time continues to count.
        files.mark_unended();
        assert!(undo.marks.has("notes/a.md") && !undo.marks.has("own.md"));
        let metadata = Path::new(outside).metadata().expect("it is there");
        assert!(undo.marks.has_file(outside, &metadata));
        assert!(undo.marks.periods.open().is_empty());
    }

    #[test]
    fn what_a_doubted_server_writes_later_is_wanted_by_nobody() {
        let dir = tempfile::tempdir().expect("dir");
        let (workspace, undo, files) = files_below(dir.path());
        let at = |key: &str| workspace.join(key);
        let is_wanted = |key: &str| {
            let metadata = at(key).metadata().expect("it is there");
            let content = || ContentId::at(&at(key)).ok();
            undo.marks.was_asked(key, content) && !undo.marks.is_doubtful(key, &metadata, content)
        };
        let writes = [at("a")];
        let now = clock::now_ms();
        files.note_server("s", now, &writes);
        write(&at("a/clean.sh"), "echo as the owner wished");
        assert!(is_wanted("a/clean.sh"));
        std::thread::sleep(std::time::Duration::from_millis(50));
        files.doubt_server("s", clock::now_ms(), &writes);
        for key in ["a/late.sh", "a/agreed.sh", "own.sh"] {
            write(&at(key), "echo words of a page");
        }
        let wanted = |key| is_wanted(key);
        assert!(wanted("a/clean.sh") && wanted("own.sh"));
        assert!(!wanted("a/late.sh") && !wanted("a/agreed.sh"));
        std::thread::sleep(std::time::Duration::from_millis(50));
        files.settle_servers();
        // Their yes holds while it is as it was.
        undo.marks
            .agree_to(&["a/agreed.sh".to_owned()], None)
            .expect("written");
        files.settle_servers();
        assert!(!wanted("a/late.sh") && wanted("a/agreed.sh") && wanted("a/clean.sh"));
        // What a command of the owner's makes is not the server's, and what it adds to stays so.
        let (run, asked, began) = ("own", true, clock::now_ms());
        write(&at("a/made.sh"), "echo made by make");
        write(&at("a/late.sh"), "echo words of a page, and more");
        let by = Marking {
            run,
            asked,
            at: clock::now_ms(),
        };
        files.mark_beside_servers(began, by, &Change::default());
        assert!(wanted("a/made.sh") && !wanted("a/late.sh"));
        write(&at("a/agreed.sh"), "echo words of another page");
        assert!(!wanted("a/agreed.sh"));
        files.mark_unended();
        assert!(undo.marks.periods.is_empty());
        let wanted =
            ["agreed", "late", "made", "clean"].map(|key| is_wanted(&format!("a/{key}.sh")));
        assert_eq!(wanted, [false, false, true, true]);
    }

    #[test]
    fn what_could_not_be_looked_at_counts_as_marked() {
        let dir = tempfile::tempdir().expect("dir");
        let workspace = dir.path().join("w");
        std::fs::create_dir_all(workspace.join("a")).expect("dir");
        let paths: Vec<PathBuf> = (0..9)
            .map(|number| workspace.join(format!("a/{number}.md")))
            .collect();
        for path in &paths {
            let durability = crate::sys::atomic::Durability::Rename;
            crate::sys::atomic::write(path, b"words out of the net", durability).expect("write");
        }
        let marks = Marks::new(&dir.path().join("untrusted.json"));
        let undo = Arc::new(undo::Store::new(dir.path().join("undo"), marks));
        let mut files = ChangedFiles::new(&workspace, undo.clone());
        files.entries = 5;
        let (run, asked, at) = ("r1", false, clock::now_ms());
        files.mark_since(0, Marking { run, asked, at }, &Change::default());
        let named = |path: &&PathBuf| undo.marks.has(&files.key(path).expect("below"));
        assert!(paths.iter().filter(named).count() < paths.len());
        // Where a directory of it is now does not matter.
        std::fs::rename(workspace.join("a"), workspace.join("b")).expect("rename");
        for path in paths.iter().map(|path| path.file_name().expect("a name")) {
            let path = workspace.join("b").join(path);
            let (key, metadata) = (files.key(&path).expect("below"), path.metadata());
            let metadata = metadata.expect("it is there");
            assert!(undo.marks.has_file(&key, &metadata), "{key}");
        }
        assert!(!files.marked_by_content().1, "a command may open others");
    }

    #[test]
    fn of_many_files_each_is_marked() {
        let dir = tempfile::tempdir().expect("dir");
        let workspace = dir.path().join("w");
        std::fs::create_dir(&workspace).expect("dir");
        let names: Vec<String> = (0..BY_CONTENT + 5).map(|n| format!("{n}.md")).collect();
        for name in &names {
            let durability = crate::sys::atomic::Durability::Rename;
            crate::sys::atomic::write(&workspace.join(name), name.as_bytes(), durability)
                .expect("write");
        }
        let marks = Marks::new(&dir.path().join("untrusted.json"));
        let undo = Arc::new(undo::Store::new(dir.path().join("undo"), marks));
        let (run, asked, at) = ("r1", false, 5);
        ChangedFiles::new(&workspace, undo.clone()).mark_since(
            0,
            Marking { run, asked, at },
            &Change::default(),
        );
        assert!(names.iter().all(|name| undo.marks.has(name)));
    }
}
