use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;
use crate::workspace::{Marking, Period, SERVER};

fn put(dir: &Path, name: &str, text: &[u8]) {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(dir.join(name))
        .expect("open");
    file.write_all(text).expect("write");
}

fn read(files: &Files) -> Vec<(String, String)> {
    files
        .stable()
        .into_iter()
        .chain(files.semi_stable())
        .map(|file| (file.name, file.text.to_string()))
        .collect()
}

#[test]
fn files_come_in_order_and_missing_and_blank_ones_are_skipped() {
    let dir = tempfile::tempdir().expect("dir");
    put(dir.path(), "USER.md", b"user\n");
    put(dir.path(), "SOUL.md", b"\n soul \n");
    put(dir.path(), "TOOLS.md", b" \n");
    put(dir.path(), "MEMORY.md", b"memory");
    put(dir.path(), "HEARTBEAT.md", b"- item");
    let files = Files::new(dir.path());
    assert_eq!(
        read(&files),
        [
            ("SOUL.md", "soul"),
            ("USER.md", "user"),
            ("MEMORY.md", "memory")
        ]
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
    );
}

#[test]
fn what_only_tells_the_owner_to_fill_it_in_is_not_told() {
    let dir = tempfile::tempdir().expect("dir");
    for name in ["SOUL.md", "USER.md", "TOOLS.md", "MEMORY.md"] {
        put(dir.path(), name, template(name).as_bytes());
    }
    let files = Files::new(dir.path());
    let names = || read(&files).into_iter().map(|(name, _)| name);
    assert_eq!(names().collect::<Vec<_>>(), ["SOUL.md"]);
    let filled = format!("{}\nAda, Berlin.\n", template("USER.md"));
    put(dir.path(), "USER.md", filled.as_bytes());
    assert_eq!(names().collect::<Vec<_>>(), ["SOUL.md", "USER.md"]);
}

#[test]
fn what_may_be_somebody_elses_words_is_left_out() {
    let dir = tempfile::tempdir().expect("dir");
    put(dir.path(), "SOUL.md", b"the soul");
    put(dir.path(), "MEMORY.md", b"the memory of the owner");
    std::fs::create_dir(dir.path().join("notes")).expect("dir");
    put(dir.path(), "notes/ops.md", b"how things are run here");
    let marks = || Marks::new(&dir.path().join("state/untrusted.json"));
    std::fs::create_dir(dir.path().join("state")).expect("dir");
    let files = Files::new(dir.path()).without(marks());
    let check = |expected: &[&str]| {
        let tier = files.at(&["notes/ops.md".to_owned()]);
        let all = files.stable().into_iter().chain(files.semi_stable());
        let names: Vec<String> = all.chain(tier).map(|file| file.name).collect();
        assert_eq!(names, expected);
        let is_out = !expected.contains(&"MEMORY.md");
        assert_eq!(!files.marked().is_empty(), is_out);
    };
    check(&["SOUL.md", "MEMORY.md", "notes/ops.md"]);
    let (run, asked, at) = ("r", false, 5);
    let by = Marking { run, asked, at };
    // By content: it was moved there.
    let moved = marks().set_with("report.md", b"how things are run here", by);
    moved.expect("marked");
    check(&["SOUL.md", "MEMORY.md"]);
    marks().set("MEMORY.md", by).expect("marked");
    check(&["SOUL.md"]);
    let read = marks().set_read("MEMORY.md", b"the memory of the owner");
    read.expect("written");
    check(&["SOUL.md", "MEMORY.md"]);
    // By when it was changed: a tool server lives that may write there.
    put(dir.path(), "notes/ops.md", b"other words");
    check(&["SOUL.md", "MEMORY.md", "notes/ops.md"]);
    let lives = Period {
        id: format!("{SERVER}s"),
        since: 0,
        until: None,
        run: "the tool server s".to_owned(),
        asked: true,
        below: Vec::new(),
    };
    marks().periods.begin(&lives, false).expect("begun");
    check(&["SOUL.md", "MEMORY.md"]);
    put(dir.path(), "MEMORY.md", b"the words of the server");
    check(&["SOUL.md"]);
}

#[test]
fn a_change_is_seen_and_no_change_is_not_read() {
    let dir = tempfile::tempdir().expect("dir");
    put(dir.path(), "SOUL.md", b"one");
    let files = Files::new(dir.path());
    let first = files.stable();
    assert!(
        Arc::ptr_eq(&first[0].text, &files.stable()[0].text),
        "read again without a change"
    );
    put(dir.path(), "SOUL.md", b"three");
    assert_eq!(&*files.stable()[0].text, "three");
    put(dir.path(), "new", b"3hree");
    std::fs::rename(dir.path().join("new"), dir.path().join("SOUL.md")).expect("rename");
    assert_eq!(&*files.stable()[0].text, "3hree");
    std::fs::remove_file(dir.path().join("SOUL.md")).expect("remove");
    assert_eq!(files.stable(), []);
}

#[test]
fn twenty_thousand_characters_go_in_whole_and_one_more_is_cut() {
    let dir = tempfile::tempdir().expect("dir");
    put(dir.path(), "SOUL.md", "ä".repeat(20_000).as_bytes());
    put(dir.path(), "USER.md", "ä".repeat(20_001).as_bytes());
    let files = Files::new(dir.path()).stable();
    assert_eq!(files[0].text.chars().count(), 20_000);
    assert!(
        files[1].text.contains("characters left out") && files[1].text.chars().count() < 18_100
    );
}

#[test]
fn bytes_that_are_no_text_do_not_hide_the_rest() {
    let dir = tempfile::tempdir().expect("dir");
    put(dir.path(), "SOUL.md", b"a\xffb");
    assert_eq!(&*Files::new(dir.path()).stable()[0].text, "a\u{fffd}b");
}

#[test]
fn links_fifos_and_directories_are_left_out_and_the_others_stay() {
    let dir = tempfile::tempdir().expect("dir");
    let outside = tempfile::tempdir().expect("outside");
    put(outside.path(), "secret", b"hidden");
    symlink(outside.path().join("secret"), dir.path().join("SOUL.md")).expect("link");
    nix::unistd::mkfifo(
        &dir.path().join("IDENTITY.md"),
        nix::sys::stat::Mode::S_IRUSR,
    )
    .expect("fifo");
    std::fs::create_dir(dir.path().join("AGENTS.md")).expect("dir");
    put(dir.path(), "USER.md", b"user");
    assert_eq!(
        read(&Files::new(dir.path())),
        [("USER.md".to_owned(), "user".to_owned())]
    );
}

#[test]
fn a_tier_has_files_of_the_workspace_and_no_link_leads_out() {
    let dir = tempfile::tempdir().expect("dir");
    let outside = tempfile::tempdir().expect("outside");
    put(outside.path(), "secret", b"hidden");
    std::fs::create_dir(dir.path().join("notes")).expect("dir");
    put(dir.path(), "notes/ops.md", b"ops");
    put(dir.path(), "MEMORY.md", b"memory");
    put(dir.path(), "blank.md", b" \n");
    symlink("../MEMORY.md", dir.path().join("notes/m.md")).expect("link");
    symlink(outside.path(), dir.path().join("out")).expect("link");
    symlink(outside.path().join("secret"), dir.path().join("secret")).expect("link");
    nix::unistd::mkfifo(&dir.path().join("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("fifo");
    let files = Files::new(dir.path());
    let paths = [
        "notes/ops.md",
        "blank.md",
        "none.md",
        "out/secret",
        "secret",
        "../x",
        "fifo",
        "notes",
        "notes/m.md",
    ];
    let found: Vec<(String, bool)> = files
        .at(&paths.map(str::to_owned))
        .into_iter()
        .map(|file| (file.name.clone(), file.is_the_owners()))
        .collect();
    assert_eq!(
        found,
        [
            ("notes/ops.md".to_owned(), false),
            ("MEMORY.md".to_owned(), true)
        ]
    );
    put(dir.path(), "notes/ops.md", b"more");
    assert_eq!(&*files.at(&["notes/ops.md".to_owned()])[0].text, "more");
}

#[test]
fn an_agents_own_prompt_goes_before_the_one_of_all_and_earlier_places_before_later() {
    let dir = tempfile::tempdir().expect("dir");
    let [workspace, first, second] = ["w", "1", "2"].map(|name| dir.path().join(name));
    for place in [
        "w/prompts",
        "1/prompts",
        "1/agents/ada/prompts",
        "2/prompts",
        "2/agents/ada/prompts",
    ] {
        std::fs::create_dir_all(dir.path().join(place)).expect("dir");
    }
    let files = Files::new(&workspace);
    let dirs = prompt_dirs(&workspace, &[first, second], "ada");
    let found = || {
        files
            .prompt(&dirs, "Memory")
            .map(|prompt| prompt.text.to_string())
    };
    assert_eq!(found(), None);
    for place in [
        "w/prompts",
        "2/prompts",
        "1/prompts",
        "2/agents/ada/prompts",
        "1/agents/ada/prompts",
    ] {
        put(dir.path(), &format!("{place}/Memory.md"), place.as_bytes());
        assert_eq!(found().as_deref(), Some(place));
    }
    // The owner says that there is none.
    put(dir.path(), "1/agents/ada/prompts/Memory.md", b"\n");
    assert_eq!(found(), None);
}
