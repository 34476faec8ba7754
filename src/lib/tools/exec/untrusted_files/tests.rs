use super::*;
use crate::sys::atomic;
use crate::workspace::{Changed, Marking};
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
            let (run, at) = ("r", 5);
            self.mark(name, words, Marking { run, asked, at });
        }
    }

    fn mark(&self, name: &str, words: &str, by: Marking<'_>) {
        let marked = self.undo.marks.set_with(name, words.as_bytes(), by);
        marked.expect("mark");
    }

    /// Writes it as another run does that had read a page.
    fn write_untrusted(&self, name: &str, words: &str) {
        self.put(name, words, None);
        let (run, asked, at) = ("another", false, 6);
        self.mark(name, words, Marking { run, asked, at });
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
        // With a yes to what is asked about.
        let yes = command.unasked(&house.undo);
        let found = MarkedFiles::find(&files, &house.undo, &command, &|key, _| {
            yes.iter().any(|one| one == key)
        });
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
    check("rm *.sh", "", &both[1..], &["run.sh"]);
    check("rm r[a-z]n* s*/Makefile", "", &[], &both);
    check("rm *.zip", "", &both, &[]);
    check("[ -f own.sh ] && rm own.*", "", &both, &[]);
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
    // Runs it: it reads the document and writes a program. Returns whether the owner wants that.
    let run = |files_agreed: Option<&[&str]>, words: &str| {
        let mut found = MarkedFiles::find(&files, &house.undo, &command, &|key, _| {
            files_agreed.is_some_and(|files| files.contains(&key))
        });
        assert!(!found.closed.iter().any(|path| path.ends_with("app")));
        let began = crate::clock::now_ms();
        let list = files_agreed.map(|files| files.iter().map(|file| (*file).to_owned()));
        let list = list.map(Iterator::collect);
        found.agreed = Agreed::of(&command.id(), list, &house.undo);
        found.change.command = Some(command.id());
        let watch = found.watch();
        drop(std::fs::read(house.workspace.join("notes.md")));
        house.put("app", words, None);
        let touched = found.touched(watch, &house.undo, &house.workspace, "");
        found.change.agreed = found.is_agreed(&house.undo, &period(&files, "own"));
        let (run, asked) = ("own", touched.asked || found.change.agreed);
        let by = Marking {
            run,
            asked,
            at: began,
        };
        files.mark_since(began, by, &found.change);
        if found.change.agreed {
            found.agree(&house.undo);
        }
        found.change.agreed
    };
    assert_eq!(command.unasked(&house.undo), [""; 0]);
    assert!(!run(None, "made of a page the first time"));
    // Other commands still cannot open it, and this one asks.
    assert_eq!(command.unasked(&house.undo), ["app"]);
    let other = house.command("make -j2", &house.workspace);
    let found = MarkedFiles::find(&files, &house.undo, &other, &|_, _| false);
    assert_eq!(found.closed, [house.workspace.join("app")]);
    assert!(run(Some(&["app"]), "made of a page the second time"));
    for words in ["the third time", "the fourth time"] {
        assert_eq!(command.unasked(&house.undo), [""; 0]);
        assert!(run(None, &format!("made of a page {words}")));
    }
    // The yes was for the documents as they were, and for this command: a command of the owner that touches one that
    // another run wrote makes it none that they know.
    assert_eq!(found.closed, [house.workspace.join("app")]);
    house.write_untrusted("notes.md", "found on another page by another run");
    let touch = Changed {
        key: "notes.md".to_owned(),
        content: None,
        owners: true,
    };
    let (run_id, asked, at) = ("touch", true, 7);
    let by = Marking {
        run: run_id,
        asked,
        at,
    };
    let marks = &house.undo.marks;
    marks
        .set_changed(&[touch], by, Some("chmod"), false)
        .expect("mark");
    assert!(!run(None, "made of another page"));
    assert_eq!(command.unasked(&house.undo), ["app"]);
}

fn period(files: &ChangedFiles, run: &str) -> Period {
    let (asked, at) = (true, 5);
    files.period("own-1".to_owned(), at, Marking { run, asked, at })
}

#[test]
fn a_yes_is_for_a_script_until_it_is_written_again() {
    let house = house();
    house.put("sub/run.sh", "touch canary-of-the-page", Some(false));
    let files = ChangedFiles::new(&house.workspace, house.undo.clone());
    let (line, cwd) = ("git status", house.workspace.join("sub"));
    let command = house.command(line, &cwd);
    let run = |meanwhile: &dyn Fn()| {
        let mut found = MarkedFiles::find(&files, &house.undo, &command, &|_, _| false);
        let list = Some(command.unasked(&house.undo));
        found.agreed = Agreed::of(&command.id(), list, &house.undo);
        found.change.command = Some(command.id());
        meanwhile();
        let is_agreed = found.is_agreed(&house.undo, &period(&files, "own"));
        if is_agreed {
            found.agree(&house.undo);
        }
        is_agreed
    };
    assert_eq!(command.unasked(&house.undo), ["sub/run.sh"]);
    // Another run writes it, or may, while the command runs to which they said yes.
    let other = || house.write_untrusted("sub/run.sh", "touch another-canary");
    assert!(!run(&other));
    let begun = || {
        let period = period(&files, "another");
        house
            .undo
            .marks
            .periods
            .begin(&period, false)
            .expect("begun");
    };
    assert!(!run(&begun));
    house.undo.marks.periods.end("own-1").expect("ended");
    assert!(run(&|| {}));
    assert_eq!(command.unasked(&house.undo), [""; 0]);
    other();
    assert_eq!(command.unasked(&house.undo), ["sub/run.sh"]);
}

#[test]
fn what_nobody_wanted_is_not_wanted_because_a_command_moved_it() {
    let house = house();
    house.put("page.txt", "found on a page, in some words", Some(false));
    let files = ChangedFiles::new(&house.workspace, house.undo.clone());
    let at = |name: &str| house.workspace.join(name);
    let check = |act: &dyn Fn(), name: &str| {
        let command = house.command("x", &house.workspace);
        let mut found = MarkedFiles::find(&files, &house.undo, &command, &|_, _| false);
        found.change.command = Some(command.id());
        let (watch, began) = (found.watch(), crate::clock::now_ms());
        act();
        let touched = found.touched(watch, &house.undo, &house.workspace, "");
        assert!(touched.any && !touched.asked, "{name}");
        found.carry(&files, &house.undo, &house.workspace);
        let (run, asked) = ("own", touched.asked);
        let by = Marking {
            run,
            asked,
            at: began,
        };
        files.mark_since(began, by, &found.change);
        let line = format!("python3 {name}");
        let runner = house.command(&line, &house.workspace);
        assert_eq!(runner.unasked(&house.undo), [name], "{name}");
    };
    let link = || std::fs::hard_link(at("page.txt"), at("link.sh")).expect("link");
    check(&link, "link.sh");
    std::fs::remove_file(at("link.sh")).expect("removed");
    let change_mode = || {
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(at("page.txt"), mode).expect("mode");
    };
    check(&change_mode, "page.txt");
    let rename = || std::fs::rename(at("page.txt"), at("setup.py")).expect("rename");
    house.put("page.txt", "found on a page, in some words", Some(false));
    check(&rename, "setup.py");
}

#[test]
fn what_was_marked_before_says_nothing_of_a_command_that_the_owner_wanted() {
    let house = house();
    house.put("run.sh", "touch canary-of-the-page", Some(false));
    let found = MarkedFiles::none(&house.undo, &house.workspace);
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
        let found = MarkedFiles::find(&files, &house.undo, &command, &|_, _| false);
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
        let found = MarkedFiles::find(&files, &house.undo, &command, &|_, _| false);
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
    let found = MarkedFiles::find(&files, &house.undo, &command, &|_, _| false);
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
    check("dev-requirements.txt", "evil", false);
    check("test_notes.txt", ">>> evil", false);
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
