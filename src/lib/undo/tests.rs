//! What an undo restores, what it leaves unchanged, and what a crash leaves behind.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::sandbox::Root;
use crate::sys::atomic;
use crate::workspace::{Marking, Marks, PathPolicy};

fn by(run: &str) -> Marking<'_> {
    let (asked, at) = (false, 0);
    Marking { run, asked, at }
}

struct House {
    dir: tempfile::TempDir,
    path_policy: PathPolicy,
    store: Store,
}

fn house() -> House {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("work")).unwrap();
    let root = Arc::new(Root::open(&dir.path().join("work")).unwrap());
    let path_policy = PathPolicy::new(root, Vec::new(), vec![dir.path().to_owned()]);
    let store = Store::new(
        dir.path().join("undo"),
        Marks::new(&dir.path().join("untrusted.json")),
    );
    House {
        dir,
        path_policy,
        store,
    }
}

impl House {
    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join("work").join(path)
    }

    fn put(&self, path: &str, text: &str) {
        atomic::write(&self.at(path), text.as_bytes(), atomic::Durability::Rename).unwrap();
    }

    fn is(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.at(path)).ok()
    }

    fn mode(&self, path: &str) -> u32 {
        std::fs::metadata(self.at(path))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777
    }

    /// A change as the tools make it, or only what comes before it.
    fn change_in(&self, run: &str, path: &str, text: Option<&str>, dies: bool) {
        let target = self.path_policy.write_target(path).unwrap();
        let old = target.file.existing().unwrap();
        let mut source = old.as_ref().map(|old| old.open().unwrap());
        let mode = old
            .as_ref()
            .map_or(0, |old| old.metadata.permissions().mode());
        let change = Change {
            run,
            conversation: "cli:ada",
            key: path,
            old: source
                .as_mut()
                .map(|source| (source as &mut dyn std::io::Read, mode)),
            new: text.map(str::as_bytes),
            made: target.to_be_made(),
        };
        self.store.record(change).unwrap();
        if !dies {
            target
                .file
                .write(text.unwrap().as_bytes(), old.as_ref(), 0o600)
                .unwrap();
        }
    }

    fn change(&self, run: &str, path: &str, text: &str) {
        self.change_in(run, path, Some(text), false);
    }

    fn undo(&self, run: &str) -> Vec<String> {
        self.store.undo(run, "u", &self.path_policy).unwrap().files
    }
}

#[test]
fn a_run_that_only_ran_commands_is_known_and_has_nothing_that_can_be_taken_back() {
    let house = house();
    let store = &house.store;
    for (run, conversation) in [("r1", "cli:ada"), ("r1", "cli:ada"), ("r2", "cli:eve")] {
        store.note_command(run, conversation);
    }
    assert_eq!((store.runs(), store.newest(None)), (vec![], None));
    let undone = store.undo("r1", "u", &house.path_policy).unwrap();
    assert_eq!(
        (undone.commands, undone.had_files, undone.files.as_slice()),
        (2, false, &[] as &[String])
    );
    let newest = |key| store.newest_commands(key).map(|(run, _)| run);
    assert_eq!(newest(Some("cli:ada")).as_deref(), Some("r1"));
    assert_eq!(newest(Some("cli:bob")), None);
}

#[test]
fn what_was_done_beside_files_is_known_by_its_conversation_and_its_time() {
    let house = house();
    let store = &house.store;
    house.change("r1", "a", "one");
    assert_eq!(store.newest_deed("cli:ada"), None);
    store.note_deed("r2", "cli:ada", Deed::Job);
    store.note_deed("r3", "cli:eve", Deed::Forgot);
    let deed = |key: &str| {
        let newest = store.newest_deed(key);
        newest.map(|(run, at, deed)| (run, at > 0, deed))
    };
    assert_eq!(deed("cli:ada"), Some(("r2".to_owned(), true, Deed::Job)));
    assert_eq!(deed("cli:eve"), Some(("r3".to_owned(), true, Deed::Forgot)));
    // It is no run whose files can be taken back.
    let newest = store.newest(Some("cli:ada")).map(|run| run.run);
    assert_eq!(newest.as_deref(), Some("r1"));
    let refused = store.undo("r2", "u", &house.path_policy);
    assert!(matches!(refused, Err(Error::Unknown(_))), "{refused:?}");
    assert_eq!(house.undo("r1"), ["a: removed"]);
}

/// Returns whether the directory `dir` itself was opened, as it is to be synced, while `act` ran.
fn is_synced(dir: &std::path::Path, act: impl FnOnce()) -> bool {
    use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK).unwrap();
    inotify.add_watch(dir, AddWatchFlags::IN_OPEN).unwrap();
    act();
    let events = inotify.read_events().unwrap_or_default();
    // What is opened in it has a name.
    events.iter().any(|event| event.name.is_none())
}

#[test]
fn a_journal_that_a_command_began_is_on_the_disk_before_a_change_is_written_into_it() {
    let house = house();
    let undo = house.dir.path().join("undo");
    let note = |run: &str| house.store.note_command(run, "cli:ada");
    assert!(is_synced(house.dir.path(), || note("r1")), "undo/");
    assert!(is_synced(&undo, || note("r2")), "undo/r2/");
    std::fs::create_dir(undo.join("r3")).unwrap();
    assert!(is_synced(&undo.join("r3"), || note("r3")), "the journal");
    assert!(!is_synced(&undo.join("r3"), || note("r3")), "once");
    house.change("r3", "new", "x");
    assert_eq!(house.undo("r3"), ["new: removed"]);
}

#[test]
fn a_run_is_taken_back_byte_for_byte_and_brought_back() {
    let house = house();
    house.put("a", "one");
    std::fs::set_permissions(house.at("a"), PermissionsExt::from_mode(0o640)).unwrap();
    house.put("b", "\u{0}bytes");
    house.change("r", "a", "two");
    house.change("r", "b", "x");
    house.change("r", "new/dir/c", "c");
    house.change("r", "a", "three");
    let undone = house.store.undo("r", "u1", &house.path_policy).unwrap();
    assert_eq!(
        undone.files,
        ["a: as it was", "new/dir/c: removed", "b: as it was"]
    );
    assert_eq!(undone.back.as_deref(), Some("undo-r"));
    assert_eq!(
        (house.store.asked("u1").as_deref(), house.store.asked("u2")),
        (Some("r"), None)
    );
    assert_eq!(
        (
            house.is("a").as_deref(),
            house.mode("a"),
            house.is("b").as_deref()
        ),
        (Some("one"), 0o640, Some("\u{0}bytes"))
    );
    assert!(!house.at("new").exists(), "directories that it made go too");
    assert_eq!(
        house.undo("r"),
        [] as [String; 0],
        "again: nothing is left to do"
    );

    assert_eq!(
        house.undo("undo-r"),
        ["b: as it was", "new/dir/c: as it was", "a: as it was"]
    );
    assert_eq!(
        (house.is("a").as_deref(), house.is("new/dir/c").as_deref()),
        (Some("three"), Some("c"))
    );
    assert_eq!((house.mode("a"), house.mode("new/dir/c")), (0o640, 0o600));
    assert_eq!(house.undo("r").len(), 3);
    assert_eq!(house.is("a").as_deref(), Some("one"));
    assert_eq!(house.undo("undo-r").len(), 3);
    assert_eq!(house.is("a").as_deref(), Some("three"));
}

#[test]
fn what_somebody_else_changed_since_is_left_and_named() {
    let house = house();
    for name in ["a", "b", "c"] {
        house.put(name, "old");
        house.change("r", name, "new");
    }
    house.change("r", "d", "new");
    house.put("a", "mine");
    house.put("d", "mine");
    std::fs::remove_file(house.at("b")).unwrap();
    assert_eq!(
        house.undo("r"),
        [
            "d was changed since: left as it is; it was not there before",
            "c: as it was",
            "b was removed since: left as it is; its old text is state/undo/r/2",
            "a was changed since: left as it is; its old text is state/undo/r/1",
        ]
    );
    assert_eq!(
        (
            house.is("a").as_deref(),
            house.is("b"),
            house.is("d").as_deref()
        ),
        (Some("mine"), None, Some("mine"))
    );
    assert_eq!(
        std::fs::read_to_string(house.dir.path().join("undo/r/1")).unwrap(),
        "old"
    );
    // Their words between two changes are kept: as far back as nobody else's go.
    house.put("e", "1");
    house.change("s", "e", "2");
    house.put("e", "mine");
    house.change("s", "e", "3");
    assert_eq!(
        house.undo("s"),
        [
            "e: the newest changes are undone; before them somebody else changed it: its old text is state/undo/s/1"
        ]
    );
    assert_eq!(house.is("e").as_deref(), Some("mine"));
}

#[test]
fn a_crash_before_the_change_leaves_nothing_to_take_back() {
    let house = house();
    house.put("a", "one");
    house.change("r", "a", "two");
    house.change_in("r", "a", Some("three"), true);
    house.change_in("r", "new", Some("x"), true);
    assert_eq!(
        house.undo("r"),
        ["new: is not there, as before", "a: as it was"]
    );
    assert_eq!(house.is("a").as_deref(), Some("one"));
}

#[test]
fn a_crash_in_the_middle_of_an_undo_is_made_good_by_another() {
    let house = house();
    house.put("a", "one");
    house.put("b", "one");
    house.change("r", "a", "two");
    house.change("r", "b", "two");
    // It died when it had journalled that `b` goes back; and when `b` had gone back, unrecorded.
    house.change_in("undo-r", "b", Some("one"), true);
    assert_eq!(house.undo("r"), ["b: as it was", "a: as it was"]);
    house.change("s", "b", "two");
    house.change("undo-s", "b", "one");
    let undone = house.store.undo("s", "u", &house.path_policy).unwrap();
    assert_eq!(undone.files, ["b: as it was"]);
    assert!(undone.is_taken_back());
    assert_eq!(undone.back.as_deref(), Some("undo-s"));
    assert_eq!(house.undo("undo-r"), ["a: as it was", "b: as it was"]);
    assert_eq!(
        (house.is("a").as_deref(), house.is("b").as_deref()),
        (Some("two"), Some("two"))
    );
}

#[test]
fn an_undo_that_goes_on_after_a_crash_says_what_it_took_back_before() {
    let house = house();
    for name in ["a", "b"] {
        house.put(name, "one");
        house.change("r", name, "two");
    }
    house.store.undo("r", "u", &house.path_policy).unwrap();
    // It died before it came to `a`, which somebody else changed meanwhile.
    let journal = house.dir.path().join("undo/r/journal.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = text.lines().take(4).collect();
    assert!(lines[3].contains("undone"), "{text}");
    let rename = crate::sys::atomic::Durability::Rename;
    crate::sys::atomic::write(&journal, (lines.join("\n") + "\n").as_bytes(), rename).unwrap();
    house.put("a", "mine");
    let again = |by: &str| house.store.undo("r", by, &house.path_policy).unwrap();
    let undone = again("u");
    assert!(undone.files[0].starts_with("a was changed since: left as it is"));
    assert_eq!((undone.files.len(), undone.is_taken_back()), (1, true));
    // Another order took nothing back.
    assert!(!again("v").is_taken_back());
}

#[test]
fn a_torn_journal_and_a_damaged_old_text_hurt_nobody() {
    let house = house();
    house.put("a", "one");
    house.change("r", "a", "two");
    let journal = house.dir.path().join("undo/r/journal.jsonl");
    let mut bytes = std::fs::read(&journal).unwrap();
    bytes.extend(b"{\"what\":\"change\",\"n\":2,");
    atomic::write(&journal, &bytes, atomic::Durability::Rename).unwrap();
    house.change("r", "b", "x");
    atomic::write(
        &house.dir.path().join("undo/r/1"),
        b"forged",
        atomic::Durability::Rename,
    )
    .unwrap();
    assert_eq!(
        house.undo("r"),
        [
            "b: removed",
            "a: left as it is: its saved content is damaged; its old text is state/undo/r/1"
        ]
    );
    assert_eq!(house.is("a").as_deref(), Some("two"));
}

#[test]
fn an_undo_goes_through_no_link() {
    let house = house();
    std::fs::create_dir(house.at("dir")).unwrap();
    std::fs::create_dir(house.at("skills")).unwrap();
    house.put("dir/a", "one");
    house.change("r", "dir/a", "two");
    std::fs::rename(house.at("dir"), house.at("was")).unwrap();
    house.put("skills/a", "two");
    std::os::unix::fs::symlink("skills", house.at("dir")).unwrap();
    let files = house.undo("r");
    assert!(
        files[0].starts_with("dir/a: left as it is: dir/a leads to skills/a through a link"),
        "{files:?}"
    );
    assert_eq!(
        (
            house.is("skills/a").as_deref(),
            house.is("was/a").as_deref()
        ),
        (Some("two"), Some("two"))
    );
}

#[test]
fn marks_come_back_with_the_words() {
    let house = house();
    let marks = &house.store.marks;
    house.put("theirs", "1");
    marks.set("theirs", by("q")).unwrap();
    house.put("mine", "1");
    house.change("r", "theirs", "2");
    marks.clear("theirs").unwrap();
    house.change("r", "mine", "2");
    marks.set("mine", by("r")).unwrap();
    house.undo("r");
    assert_eq!((marks.has("theirs"), marks.has("mine")), (true, false));
    house.undo("undo-r");
    assert_eq!((marks.has("theirs"), marks.has("mine")), (false, true));
}

#[test]
fn the_newest_run_of_a_conversation_is_meant_and_each_only_once() {
    let house = house();
    let newest = |store: &Store, key| store.newest(key).map(|run| run.run);
    assert_eq!(
        (newest(&house.store, None), house.store.runs()),
        (None, Vec::new())
    );
    house.change("r1", "a", "1");
    std::thread::sleep(Duration::from_millis(2));
    house.change("r2", "a", "2");
    assert_eq!(newest(&house.store, Some("cli:ada")).as_deref(), Some("r2"));
    assert_eq!(newest(&house.store, Some("cli:bob")), None);
    house.put("a", "mine");
    house.undo("r2");
    // What is left as it is was tried; the next one is older.
    assert_eq!(newest(&house.store, None).as_deref(), Some("r1"));
    house.undo("r1");
    assert_eq!(newest(&house.store, None), None);
    assert!(matches!(
        house.store.undo("r9", "u", &house.path_policy),
        Err(Error::Unknown(_))
    ));
    assert!(matches!(
        house.store.undo("../r1", "u", &house.path_policy),
        Err(Error::Unknown(_))
    ));
}

#[test]
fn what_is_old_or_too_much_goes_and_the_newest_stays() {
    let house = house();
    let names = || {
        let mut names: Vec<String> = house.store.runs().into_iter().map(|run| run.run).collect();
        names.sort();
        names
    };
    for run in ["r1", "r2", "r3"] {
        house.put(run, &"x".repeat(10_000));
        house.change(run, run, "y");
        std::thread::sleep(Duration::from_millis(5));
    }
    house.store.prune(KEEP, MAX_BYTES).unwrap();
    assert_eq!(names(), ["r1", "r2", "r3"]);
    house.store.prune(KEEP, 25_000).unwrap();
    assert_eq!(names(), ["r2", "r3"]);
    house.store.prune(KEEP, 1).unwrap();
    assert_eq!(names(), ["r3"]);
    house.store.prune(Duration::ZERO, MAX_BYTES).unwrap();
    assert_eq!(names(), [] as [String; 0]);
}

#[test]
fn what_is_kept_is_nobody_elses() {
    let house = house();
    house.put("a", "one");
    house.change("r", "a", "two");
    let mode = |path: &str| {
        std::fs::metadata(house.dir.path().join(path))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777
    };
    assert_eq!(
        ["undo", "undo/r", "undo/r/1", "undo/r/journal.jsonl"].map(mode),
        [0o700, 0o700, 0o600, 0o600]
    );
}
