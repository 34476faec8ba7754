//! Tests of the three tools with real directories.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::fcntl::{RenameFlags, renameat2};
use tokio_util::sync::CancellationToken;

use super::render::Window;
use super::write_edit::{Edit, EditArgs, Write, WriteArgs};
use super::*;
use crate::agent::{Context, Reach};
use crate::memory::Viewer;
use crate::message::{Envelope, Sender, SessionKey, Source};
use crate::sandbox::Root;
use crate::sys::atomic;
use crate::tools::typed::TypedTool as _;
use crate::trust::untrusted_periods::{Period, SERVER};
use crate::workspace::{Marking, Marks};

fn by(run: &str) -> Marking<'_> {
    let (asked, at) = (false, 0);
    Marking { run, asked, at }
}

struct House {
    dir: tempfile::TempDir,
    files: Files,
}

fn house() -> House {
    let dir = tempfile::tempdir().unwrap();
    for name in ["home/workspace/skills", "home/state", "mine"] {
        std::fs::create_dir_all(dir.path().join(name)).unwrap();
    }
    let at = |name: &str| dir.path().join(name);
    let workspace = Arc::new(Root::open(&at("home/workspace")).unwrap());
    let path_policy = Arc::new(PathPolicy::new(
        workspace,
        vec![at("mine")],
        vec![at("home")],
    ));
    let undo = Arc::new(undo::Store::new(
        at("home/state/undo"),
        Marks::new(&at("home/state/untrusted.json")),
    ));
    House {
        files: Files { path_policy, undo },
        dir,
    }
}

pub(in crate::tools) fn context() -> Context {
    let sender = Sender {
        id: "cli".into(),
        name: "cli".into(),
        username: None,
    };
    let key = SessionKey("cli:cli".into());
    let envelope = Envelope::new(
        "1".into(),
        Source::Cli,
        sender,
        key.clone(),
        String::new(),
        0,
    );
    Context {
        call_id: String::new(),
        spawner: None,
        run_id: "run".into(),
        session_id: "s".into(),
        session: crate::session::IndexEntry::default(),
        conversation: key,
        person: "cli".into(),
        of_others: false,
        viewer: Viewer::of(
            &Envelope {
                from_owner: true,
                ..envelope
            },
            &|_| true,
        ),
        route: None,
        message_id: None,
        pins: Vec::new(),
        approved: None,
        untrusted: false,
        private_words: Vec::new(),
        ask_owner: Default::default(),
        others_time: Default::default(),
        progress: crate::agent::tool::Progress::default(),
        cancel: CancellationToken::new(),
    }
}

impl House {
    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join("home/workspace").join(path)
    }

    fn put(&self, path: &str, bytes: &[u8]) {
        atomic::write(&self.at(path), bytes, atomic::Durability::Rename).unwrap();
    }

    fn is(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.at(path)).ok()
    }

    fn said(&self, output: impl Into<ToolOutput>) -> String {
        let output = output.into();
        let error = if output.is_error { "error: " } else { "" };
        format!("{error}{}", output.text).replace(&self.dir.path().display().to_string(), "~")
    }

    fn path(&self, path: &str) -> String {
        path.replace('~', &self.dir.path().display().to_string())
    }

    fn read(&self, path: &str) -> String {
        self.lines(path, 1, 2000)
    }

    fn lines(&self, path: &str, first: u64, lines: u64) -> String {
        self.said(
            self.files
                .read(&self.path(path), Window { first, lines }, true, &|| false),
        )
    }

    fn write(&self, path: &str, content: &str) -> String {
        self.write_in(path, content, &context())
    }

    fn write_in(&self, path: &str, content: &str, context: &Context) -> String {
        self.said(self.files.write(&self.path(path), content, context))
    }

    fn edit(&self, path: &str, old: &str, new: &str) -> String {
        self.said(self.edit_in(path, old, new, &context()))
    }

    fn edit_in(&self, path: &str, old: &str, new: &str, context: &Context) -> ToolOutput {
        let args = EditArgs {
            path: self.path(path),
            old_string: old.into(),
            new_string: new.into(),
            replace_all: false,
        };
        self.files.edit(&args, context)
    }
}

// ── reading ──

#[test]
fn lines_are_numbered_and_the_rest_is_announced() {
    let house = house();
    house.put("a", b"a\nb\nc\n");
    house.put("empty", b"");
    assert_eq!(house.read("a"), "1\ta\n2\tb\n3\tc\n");
    assert_eq!(
        house.lines("a", 2, 1),
        "2\tb\n[lines 2 to 2 of 3; go on with offset 3]"
    );
    assert_eq!(house.lines("a", 9, 1), "(the file has only 3 lines)");
    assert_eq!(house.read("empty"), "(the file is empty)");
    assert_eq!(
        house.read("gone\n\u{200b}"),
        "error: gone\\u{a}\\u{200b} is not found"
    );
}

#[test]
fn a_page_ends_before_the_answer_would_be_cut_and_a_long_line_is_shortened() {
    let house = house();
    house.put(
        "wide",
        format!("{}\n", "x".repeat(99)).repeat(1000).as_bytes(),
    );
    let page = house.read("wide");
    assert!(page.chars().count() < 29_000, "{}", page.len());
    assert!(
        page.ends_with("[lines 1 to 270 of 1000; go on with offset 271]"),
        "{}",
        crate::text::tail(&page, 80)
    );
    assert!(house.lines("wide", 271, 5).starts_with("271\tx"));
    house.put("long", format!("{}\nend", "ä".repeat(2500)).as_bytes());
    assert_eq!(
        house.read("long"),
        format!(
            "1\t{} [… 1000 bytes of this line left out]\n2\tend\n",
            "ä".repeat(2000)
        )
    );
}

#[test]
fn a_large_file_is_read_by_lines() {
    let house = house();
    let line = "0123456789".repeat(10);
    house.put("log", format!("{line}\n").repeat(60_000).as_bytes());
    assert_eq!(
        house.lines("log", 59_999, 5),
        format!("59999\t{line}\n60000\t{line}\n")
    );
    let first = house.lines("log", 1, 1);
    assert_eq!(
        first,
        format!("1\t{line}\n[lines 1 to 1 of many, the file has 6.0MB; go on with offset 2]")
    );
    assert_eq!(
        house.lines("log", 60_001, 1),
        "(the file has only 60000 lines)"
    );
    house.put("one", "y".repeat(5 << 20).as_bytes());
    let rest = (5 << 20) - 2000;
    assert_eq!(
        house.read("one"),
        format!(
            "1\t{} [… {rest} bytes of this line left out]\n",
            "y".repeat(2000)
        )
    );
    // The bound of a line goes through a letter of two bytes.
    house.put("torn", format!("a{}", "ä".repeat(3 << 20)).as_bytes());
    let torn = house.read("torn");
    assert!(
        torn.starts_with("1\taää"),
        "{}",
        crate::text::head(&torn, 9)
    );
    let stopped = house.files.read(
        "log",
        Window {
            first: 50_000,
            lines: 1,
        },
        true,
        &|| true,
    );
    assert_eq!(
        house.said(stopped),
        "error: log cannot be read: the run was stopped"
    );
}

#[test]
fn what_is_no_text_is_named_and_other_encodings_are_read() {
    let house = house();
    house.put("a.png", b"\x89PNG\r\n\x1a\n\0\0\0");
    house.put("a.bin", b"ab\0cd");
    house.put("utf16", b"\xff\xfeG\0r\0\xfc\0\n\0");
    house.put("latin", b"Gr\xfc\xdfe\n");
    house.put("big", &vec![0_u8; 5 << 20]);
    assert_eq!(
        house.read("a.png"),
        "a.png is a picture (image/png), 11 bytes: its bytes are not shown"
    );
    assert_eq!(
        house.read("a.bin"),
        "a.bin is no text, 5 bytes: its bytes are not shown"
    );
    assert_eq!(
        house.read("utf16"),
        "[the file is in UTF-16, not UTF-8]\n1\tGrü\n"
    );
    assert_eq!(
        house.read("latin"),
        "[the file is not in UTF-8; it is read as Windows-1252]\n1\tGrüße\n"
    );
    assert!(house.read("big").starts_with("big is no text"));
    assert!(
        house
            .edit("latin", "e", "x")
            .starts_with("error: latin is no text in UTF-8")
    );
}

#[test]
fn a_directory_is_listed_and_nothing_else_is_opened() {
    let house = house();
    house.put("b\n", b"12");
    symlink("gone", house.at("link")).unwrap();
    nix::unistd::mkfifo(&house.at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(
        house.read("."),
        ". is a directory, 4 entries:\nb\\u{a}  2 bytes\nlink  (a link)\npipe  (a device, FIFO or socket)\nskills/"
    );
    assert_eq!(house.read("skills"), "skills is an empty directory");
    assert_eq!(house.read("pipe"), "error: pipe is not a regular file");
    assert_eq!(house.read("link"), "error: link is not found");
    (0..600).for_each(|number| house.put(&format!("skills/{number:03}"), b""));
    let many = house.read("skills");
    assert!(
        many.starts_with("skills is a directory, 600 entries:\n000  0 bytes\n"),
        "{many}"
    );
    assert!(
        many.ends_with("499  0 bytes\n[500 of them are shown; exec has ls and find]"),
        "{many}"
    );
}

#[test]
fn the_owners_memory_is_not_shown_where_others_read() {
    let house = house();
    std::fs::create_dir(house.at("memory")).unwrap();
    house.put("memory/x.md", b"secret");
    symlink("memory", house.at("m")).unwrap();
    for path in ["memory/x.md", "memory", "m/x.md", "m"] {
        let said = house.said(house.files.read(
            path,
            Window { first: 1, lines: 1 },
            false,
            &|| false,
        ));
        assert_eq!(
            said,
            format!(
                "error: {path} is the owner's memory, and this conversation is not theirs alone"
            )
        );
    }
}

// ── changing ──

#[test]
fn files_are_written_and_edited_in_the_workspace_and_where_the_settings_allow() {
    let house = house();
    assert_eq!(house.write("a/b", "x\ny\n"), "wrote a/b: 2 lines, 4 bytes");
    assert_eq!(house.edit("a/b", "x", "z"), "edited a/b: 1 replaced");
    assert_eq!(house.is("a/b").as_deref(), Some("z\ny\n"));
    assert_eq!(
        house.write("~/mine/new/c", "c"),
        "wrote ~/mine/new/c: 1 line, 1 byte"
    );
    assert_eq!(house.read("~/mine/new/c"), "1\tc\n");
    assert_eq!(
        house.edit("~/mine/new/c", "c", "d"),
        "edited ~/mine/new/c: 1 replaced"
    );
    for path in [
        "~/home/state/people.json",
        "~/home/agent.toml",
        "/etc/hostname",
        "~/mine/../home/x",
    ] {
        assert!(house.write(path, "x").starts_with("error: "), "{path}");
        assert!(house.read(path).starts_with("error: "), "{path}");
    }
    assert_eq!(
        house.edit("gone", "a", "b"),
        "error: gone is not found; use write for a new file"
    );
}

#[test]
fn what_is_no_regular_file_is_not_replaced() {
    let house = house();
    symlink("gone", house.at("dangling")).unwrap();
    symlink("/etc/hostname", house.at("out")).unwrap();
    nix::unistd::mkfifo(&house.at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for (path, why) in [
        ("dangling", "is a symbolic link"),
        ("out", "is a symbolic link"),
        ("pipe", "is not a regular file"),
        (
            "skills",
            "shapes the agent itself, and is changed only with the owner's yes",
        ),
        ("new/", "is a directory"),
        ("", "is a directory"),
        ("pipe/x", "is not a directory"),
    ] {
        assert_eq!(house.write(path, "x"), format!("error: {path} {why}"));
    }
    assert!(!house.at("gone").exists());
}

#[test]
fn no_file_is_made_with_a_name_that_hides_something() {
    let house = house();
    for (path, shown) in [
        ("a\nb", "a\\u{a}b"),
        ("no\u{200b}tes.md", "no\\u{200b}tes.md"),
        ("x\u{202e}dm.exe", "x\\u{202e}dm.exe"),
        ("d\u{7}/a", "d\\u{7}/a"),
    ] {
        let expected = format!(
            "error: no file is made with a hidden character in its name: {shown}; choose a plain name"
        );
        assert_eq!(house.write(path, "x"), expected);
    }
    // One that is there already can be changed.
    house.put("a\nb", b"x");
    assert_eq!(house.edit("a\nb", "x", "y"), "edited a\\u{a}b: 1 replaced");
}

#[test]
fn a_change_of_what_shapes_the_agent_is_asked_about_as_a_diff_of_the_text_that_is_there() {
    let house = house();
    house.put("USER.md", b"# Owner\n\nAda, Berlin.\nLikes tea.\n");
    let edit = Edit(house.files.clone());
    let question = || {
        let args = EditArgs {
            path: "USER.md".to_owned(),
            old_string: "Berlin".to_owned(),
            new_string: "Paris".to_owned(),
            replace_all: false,
        };
        edit.question(&args, &serde_json::json!({}))
    };
    let first = question();
    assert_eq!(
        first.text,
        "edit USER.md:\n  # Owner\n  \n- Ada, Berlin.\n+ Ada, Paris.\n  Likes tea.\n"
    );
    assert_eq!(first.rule, None);
    house.put(
        "USER.md",
        b"Ada, Berlin, and a line that nobody was shown.\n",
    );
    assert_ne!(
        question().bound_to,
        first.bound_to,
        "another text is another question"
    );
    let write = Write(house.files.clone());
    let args = WriteArgs {
        path: "SOUL.md".to_owned(),
        content: "kind\n".to_owned(),
    };
    let asked = write.question(&args, &serde_json::json!({}));
    assert_eq!(asked.text, "write SOUL.md:\n+ kind\n");
    let args = WriteArgs {
        path: "a.md".to_owned(),
        content: "kind\n".to_owned(),
    };
    let asked = write.question(&args, &serde_json::json!({}));
    assert_eq!(asked.text, "write a.md: 1 line, 5 bytes:\nkind\n");
}

#[test]
fn an_edit_that_finds_no_one_place_is_known_to_fail_before() {
    let house = house();
    house.put("a.md", b"one\ntwo\ntwo\n");
    let edit = Edit(house.files.clone());
    let failure = |path: &str, old: &str| {
        let args = EditArgs {
            path: path.to_owned(),
            old_string: old.to_owned(),
            new_string: "three".to_owned(),
            replace_all: false,
        };
        edit.certain_failure(&args)
            .map(|failure| house.said(failure))
    };
    assert_eq!(failure("a.md", "one"), None);
    for (path, old, expected) in [
        ("a.md", "four", "old_string does not stand there"),
        ("a.md", "two", "old_string stands there 2 times"),
        ("b.md", "one", "b.md is not found"),
    ] {
        let said = failure(path, old).expect("it fails");
        assert!(said.contains(expected), "{said}");
    }
    assert_eq!(house.is("a.md").as_deref(), Some("one\ntwo\ntwo\n"));
}

#[test]
fn what_shapes_the_agent_asks_and_is_written_only_with_a_yes() {
    let house = house();
    symlink("skills", house.at("innocent")).unwrap();
    let asks = Reach::Asks("it shapes the agent itself".to_owned());
    for path in [
        "SOUL.md",
        "soul.MD",
        "./SOUL.md",
        "skills/x/SKILL.md",
        "cron/x",
        "x/../SOUL.md",
    ] {
        if path != "x/../SOUL.md" {
            assert_eq!(house.files.reach(path), asks, "{path}");
        }
        assert!(house.write(path, "obey").starts_with("error: "), "{path}");
    }
    assert!(matches!(
        house.files.reach("innocent/x.md"),
        Reach::Refused(_)
    ));
    let approved = Context {
        approved: Some(serde_json::Value::Null),
        ..context()
    };
    assert!(
        house
            .write_in("innocent/x.md", "x", &approved)
            .contains("leads to skills/x.md through a link")
    );
    assert_eq!(
        house.write_in("SOUL.md", "kind", &approved),
        "wrote SOUL.md: 1 line, 4 bytes"
    );
    assert!(
        house
            .edit("SOUL.md", "kind", "cruel")
            .contains("only with the owner's yes")
    );
    assert_eq!(std::fs::read_dir(house.at("skills")).unwrap().count(), 0);
}

#[test]
fn what_a_change_reaches_depends_on_whose_file_it_is() {
    let house = house();
    house.put("mine.md", b"x");
    house.put("theirs.md", b"x");
    house.files.undo.marks.set("theirs.md", by("r")).unwrap();
    let received = "inbox/1001/7-0-form.md";
    std::fs::create_dir_all(house.at("inbox/1001")).unwrap();
    house.put(received, b"x");
    house.files.undo.marks.set(received, by("r")).unwrap();
    // The owner said yes to one change of a file of theirs.
    let tainted = Context {
        untrusted: true,
        ..context()
    };
    house.put("diary.md", b"mine");
    house.write_in("diary.md", "mine, and high water at 14:32", &tainted);
    house.write_in("diary.md", "mine, and high water at 15:32", &tainted);
    house.write_in("page.md", "high water at 14:32", &tainted);
    house.write_in("shared.md", "high water at 14:32", &tainted);
    std::thread::sleep(std::time::Duration::from_millis(20));
    house.put(
        "shared.md",
        b"high water at 14:32\nmy own: bring the boat in",
    );
    for (path, expected) in [
        ("diary.md", Reach::Acts),
        ("page.md", Reach::Free),
        ("shared.md", Reach::Acts),
        ("new.md", Reach::Free),
        ("sub/SOUL.md", Reach::Free),
        ("theirs.md", Reach::Free),
        ("inbox/1001/7-0-form.md", Reach::Acts),
        ("mine.md", Reach::Acts),
        ("MEMORY.md", Reach::Acts),
        ("memory/2026-01-01.md", Reach::Acts),
        ("~/mine/new", Reach::Acts),
        (".envrc", Reach::Acts),
        ("sub/.vscode/tasks.json", Reach::Acts),
        ("sub/.git/config", Reach::Acts),
        ("sub/HEAD", Reach::Acts),
        ("sub/AHEAD.md", Reach::Free),
        ("sub/conftest.py", Reach::Acts),
        ("sub/random.py", Reach::Acts),
        ("../x", Reach::Free),
    ] {
        assert_eq!(house.files.reach(&house.path(path)), expected, "{path}");
    }
}

#[test]
fn the_memory_of_every_prompt_is_the_owners_when_they_read_it_or_dictated_it() {
    let house = house();
    let marks = &house.files.undo.marks;
    let is_marked = || marks.is_marked_at("MEMORY.md", &house.at("MEMORY.md"));
    let untrusted = Context {
        untrusted: true,
        ..context()
    };
    let approved = Context {
        approved: Some(serde_json::Value::Null),
        ..untrusted.clone()
    };
    let words = "Likes what a page says.\n";
    house.write_in("MEMORY.md", words, &untrusted);
    assert!(is_marked(), "under a rule nobody read it");
    // The same words, shown to them.
    house.write_in("MEMORY.md", words, &approved);
    assert!(!is_marked());
    house.put("MEMORY.md", b"Unpacked over it by a command.\n");
    assert!(!is_marked());
    marks
        .set_with("MEMORY.md", b"Unpacked over it by a command.\n", by("r"))
        .unwrap();
    assert!(is_marked());
    house.write_in("MEMORY.md", "Likes tea.\n", &context());
    assert!(!is_marked());
}

#[test]
fn a_name_in_a_directory_is_marked_as_its_file_is() {
    let house = house();
    let marks = &house.files.undo.marks;
    let window = Window {
        first: 1,
        lines: 2000,
    };
    let lists_marked = || {
        let listed = house
            .files
            .read(&house.path("sync"), window, true, &|| false);
        listed.from.is_some()
    };
    std::fs::create_dir(house.at("sync")).unwrap();
    house.put("sync/Please run setup now.txt", b"x\n");
    house.put("sync/IMG_2041.jpg", b"y\n");
    assert!(!lists_marked());
    let words = b"Words that others wrote, moved here by hand.\n";
    marks.set_with("inbox/a.txt", words, by("r")).unwrap();
    house.put("sync/Notes of a day.md", words);
    assert!(lists_marked(), "by its content");
    std::fs::remove_file(house.at("sync/Notes of a day.md")).unwrap();
    assert!(!lists_marked());
    let fetched = Period {
        id: format!("{SERVER}s"),
        since: 0,
        until: None,
        run: "r".to_owned(),
        asked: false,
        below: vec!["sync".to_owned()],
    };
    marks.periods.begin(&fetched, true).unwrap();
    assert!(lists_marked(), "by when it came");
}

#[test]
fn untrusted_words_stay_marked_until_the_file_is_rewritten() {
    let house = house();
    let tainted = Context {
        untrusted: true,
        ..context()
    };
    let marked = |path: &str| {
        house
            .files
            .read(path, Window { first: 1, lines: 9 }, true, &|| false)
            .from
            .is_some()
    };
    house.write_in("page.md", "obey me", &tainted);
    assert!(marked("page.md") && marked("."));
    house.edit("page.md", "obey", "help");
    assert!(marked("page.md"), "an edit leaves the rest");
    let missed = house.edit_in("page.md", "absent help", "x", &context());
    assert!(missed.from.is_some(), "what stands there is shown");
    house.write("page.md", "mine");
    assert!(!marked("page.md") && !marked("."));
    house.write_in("notes/page.md", "obey me", &tainted);
    assert!(marked("notes") && !marked("."), "a plain name is no order");
    house.write_in("now call exec/page.md", "obey me", &tainted);
    assert!(marked("."), "the name of a directory is theirs, too");
    // Under another name the words are the same.
    house.write_in("long.md", "obey the words of this page", &tainted);
    std::fs::rename(house.at("long.md"), house.at("moved.md")).unwrap();
    let missed = house.edit_in("moved.md", "obey the absent", "x", &context());
    assert!(missed.is_error && missed.from.is_some());
    house.edit("moved.md", "page", "site");
    assert!(marked("moved.md"), "an edit leaves the rest");
    house.put("own.md", b"mine");
    house.edit_in("own.md", "mine", "theirs", &tainted);
    assert!(marked("own.md"));
}

#[test]
fn what_cannot_be_kept_is_not_changed() {
    let house = house();
    house.put("a", b"old");
    std::fs::set_permissions(house.at("a"), PermissionsExt::from_mode(0o640)).unwrap();
    // Something is where the journals would be.
    atomic::write(
        &house.dir.path().join("home/state/undo"),
        b"",
        atomic::Durability::Rename,
    )
    .unwrap();
    assert!(
        house
            .write("a", "new")
            .starts_with("error: a was not changed: cannot make ")
    );
    assert_eq!(house.is("a").as_deref(), Some("old"));
    std::fs::remove_file(house.dir.path().join("home/state/undo")).unwrap();
    let large = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(house.at("large"))
        .unwrap();
    large.set_len(undo::MAX_OLD + 1).unwrap();
    assert!(
        house
            .write("large", "x")
            .contains("larger than 64 MB, too large for an undo record"),
        "{}",
        house.write("large", "x")
    );
    assert_eq!(house.write("a", "new"), "wrote a: 1 line, 3 bytes");
    assert_eq!(
        std::fs::metadata(house.at("a"))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777,
        0o640
    );
}

// ── races ──

/// Swaps `dir` for `other` all the time while `dir/new` is written, and returns what was said.
fn race(house: &House, other: &str) -> Vec<String> {
    let workspace = std::fs::File::open(house.at("")).unwrap();
    std::fs::create_dir(house.at("dir")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                renameat2(
                    &workspace,
                    "dir",
                    &workspace,
                    other,
                    RenameFlags::RENAME_EXCHANGE,
                )
                .unwrap();
            }
        });
        let (mut said, until) = (Vec::new(), Instant::now() + Duration::from_secs(10));
        let seen =
            |said: &[String], what: &str| said.iter().filter(|one| one.starts_with(what)).count();
        while (seen(&said, "wrote") < 20 || seen(&said, "error") < 20) && Instant::now() < until {
            // Whatever the tool policy saw: it is asked before each.
            let _ = house.files.reach("dir/new");
            said.push(house.write("dir/new", &format!("{}", said.len())));
            said.push(house.write("dir/sub/new", "x"));
        }
        stop.store(true, Ordering::Relaxed);
        said
    })
}

#[test]
fn a_directory_that_becomes_a_link_leads_nothing_elsewhere() {
    for (target, why) in [("skills", "through a link"), ("../../outside", "outside")] {
        let house = house();
        std::fs::create_dir(house.dir.path().join("outside")).unwrap();
        symlink(target, house.at("link")).unwrap();
        let said = race(&house, "link");
        assert!(said.iter().any(|one| one.starts_with("wrote")), "{said:?}");
        assert!(said.iter().any(|one| one.contains(why)), "{said:?}");
        let there = std::fs::read_dir(house.at(target)).unwrap();
        assert_eq!(there.count(), 0, "{target}");
    }
}
