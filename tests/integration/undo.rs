//! What a run changed in files is taken back: from the chat, from the shell, over crashes and full disks, and
//! never over somebody else's changes.
#![allow(clippy::disallowed_methods, reason = "a test writes files plainly")]

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use serde_json::json;

use crate::support::{Action, Calls, Disk, FakeModel, House, Output, Plan, Sandbox, wait_for};

const SOON: Duration = Duration::from_secs(20);
const OWNER: i64 = 1001;
/// May write, owns nothing.
const GUEST: i64 = 1002;

fn ask(house: &House, person: i64, text: &str) -> String {
    let id = house.telegram.say(person, person, text).1;
    house
        .telegram
        .wait_sent(
            |sent| (sent.chat, sent.reply_to) == (person, Some(id)),
            SOON,
        )
        .text
}

/// The words that have the model call tools.
fn calls(calls: &[(&str, serde_json::Value)]) -> String {
    calls
        .iter()
        .map(|(tool, input)| format!("[[tool {tool} {input}]]"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Two files are edited and one is made.
fn work() -> String {
    calls(&[
        (
            "edit",
            json!({"path": "notes.md", "old_string": "one", "new_string": "two"}),
        ),
        ("write", json!({"path": "data.bin", "content": "text"})),
        (
            "write",
            json!({"path": "new/dir/made.md", "content": "made"}),
        ),
    ])
}

fn prepare(sandbox: &Sandbox) {
    for (name, bytes, mode) in [
        ("notes.md", &b"one\r\nend"[..], 0o640),
        ("data.bin", b"\0\xff\n", 0o600),
    ] {
        let path = sandbox.put(&format!("workspace/{name}"), bytes);
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("a mode");
    }
}

/// Returns bytes and mode of what was prepared, and whether the new directory is there.
fn state(sandbox: &Sandbox) -> (Vec<(Vec<u8>, u32)>, bool) {
    let one = |name: &str| {
        let path = sandbox.path(&format!("workspace/{name}"));
        (
            fs::read(&path).expect("it is there"),
            fs::metadata(&path)
                .expect("it is there")
                .permissions()
                .mode()
                & 0o7777,
        )
    };
    (
        ["notes.md", "data.bin"].map(one).to_vec(),
        sandbox.path("workspace/new").exists(),
    )
}

/// Returns the id of the one run that changed files.
fn only_run(sandbox: &Sandbox) -> String {
    let names = fs::read_dir(sandbox.path("state/undo"))
        .expect("a directory")
        .flatten();
    let mut names: Vec<String> = names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.retain(|name| !name.starts_with("undo-"));
    assert_eq!(names.len(), 1, "{names:?}");
    names.remove(0)
}

#[test]
fn an_owner_takes_a_run_back_byte_for_byte_in_the_chat_and_in_the_shell() {
    let house = House::new();
    let sandbox = &house.sandbox;
    prepare(sandbox);
    let before = state(sandbox);
    assert!(ask(&house, OWNER, "/undo").starts_with("There is nothing to undo"));
    let said = ask(&house, OWNER, &work());
    assert!(
        said.contains("edited notes.md: 1 replaced") && said.contains("wrote new/dir/made.md"),
        "{said}"
    );
    let after = state(sandbox);
    assert_eq!(after.0[0], (b"two\r\nend".to_vec(), 0o640));
    let run = only_run(sandbox);

    assert_eq!(ask(&house, GUEST, "/undo"), "Only my owner may ask that.");
    assert_eq!(state(sandbox), after);
    let said = ask(&house, OWNER, "/undo");
    assert!(
        said.starts_with("The run of ") && said.matches(&run).count() == 1,
        "{said}"
    );
    let end = format!(
        "new/dir/made.md: removed\ndata.bin: as it was\nnotes.md: as it was\nTo redo it: /undo undo-{run}"
    );
    assert!(said.ends_with(&end), "{said}");
    assert_eq!(state(sandbox), before);
    assert!(ask(&house, OWNER, "/undo").starts_with("There is nothing to undo"));

    // The undo is a run that can be undone; and again, and from the shell.
    let back = sandbox.send(&["--undo", &format!("undo-{run}")]);
    assert_eq!((back.code, state(sandbox) == after), (0, true), "{back:?}");
    let again = sandbox.send(&["--undo"]);
    assert_eq!(
        (again.code, state(sandbox) == before),
        (0, true),
        "{again:?}"
    );
    assert!(
        again
            .stdout
            .ends_with(&format!("To redo it: agent-send --undo undo-{run}\n")),
        "{again:?}"
    );
    let done = sandbox.send(&["--undo", &run]);
    assert_eq!(
        (done.code, done.stdout.ends_with(" is undone already.\n")),
        (0, true)
    );
    let nothing = sandbox.send(&["--undo"]);
    assert_eq!(
        (
            nothing.code,
            nothing.stderr.contains("There is nothing to undo")
        ),
        (1, true),
        "{nothing:?}"
    );
    let unknown = sandbox.send(&["--undo", "none"]);
    assert_eq!(unknown.code, 1);
    assert!(
        unknown
            .stderr
            .contains("no run \"none\" that changed files. There are:")
            && unknown.stderr.contains(&format!("undo-{run}")),
        "{unknown:?}"
    );
    let document = sandbox.send(&["--undo", &run, "--json"]);
    assert_eq!(document.json()["status"], "done");
}

#[test]
fn what_commands_changed_is_said_to_stay() {
    let house = House::new();
    let sandbox = &house.sandbox;
    prepare(sandbox);
    let command = |line: &str| calls(&[("exec", json!({"command": line}))]);
    ask(&house, OWNER, &command("echo by-hand > notes.md"));
    assert_eq!(
        sandbox.read("workspace/notes.md").as_deref(),
        Some("by-hand\n")
    );
    // The run changed files, and nobody can take it back: that it changed none would be a lie.
    for said in [
        ask(&house, OWNER, "/undo"),
        sandbox.send(&["--undo"]).stderr,
    ] {
        assert!(
            said.contains("There is nothing to undo")
                && said.contains(" ran commands: their changes to files are not recorded"),
            "{said}"
        );
    }
    let both = format!(
        "{} {}",
        calls(&[("write", json!({"path": "data.bin", "content": "text"}))]),
        command("echo again > notes.md")
    );
    ask(&house, OWNER, &both);
    let said = ask(&house, OWNER, "/undo");
    assert!(
        said.contains("data.bin: as it was\nIt also ran 1 command: their changes to files are not recorded and remain."),
        "{said}"
    );
    assert_eq!(
        sandbox.read("workspace/notes.md").as_deref(),
        Some("again\n")
    );
    // The newest run is one of commands alone: what is undone is an older one, and both are named.
    ask(
        &house,
        OWNER,
        &calls(&[("write", json!({"path": "data.bin", "content": "text"}))]),
    );
    ask(&house, OWNER, &command("echo newer > notes.md"));
    let said = ask(&house, OWNER, "/undo");
    assert!(
        said.contains("data.bin: as it was")
            && said
                .lines()
                .last()
                .is_some_and(|line| line.contains(" ran commands: ")),
        "{said}"
    );
}

#[test]
fn the_last_thing_that_was_done_is_meant_and_no_older_change_of_a_file() {
    let house = House::new();
    let sandbox = &house.sandbox;
    let eggs = || sandbox.read("workspace/eggs.md");
    let write = json!({"path": "eggs.md", "content": "- eggs"});
    ask(&house, OWNER, &calls(&[("write", write)]));
    let run = only_run(sandbox);
    let reminder = json!({"at": "2099-01-01T11:00", "text": "call the bank"});
    let note = json!({"type": "preference", "content": "likes coffee"});
    for (call, way) in [
        (("schedule_message", reminder), "/jobs"),
        (("memory_write", note), "/forget"),
    ] {
        ask(&house, OWNER, &calls(&[call]));
        let said = ask(&house, OWNER, "/undo");
        assert!(
            said.starts_with("Nothing was undone") && said.contains(way),
            "{said}"
        );
        let end = format!(": eggs.md\nTo undo that: /undo {run}");
        assert!(said.ends_with(&end), "{said}");
        assert_eq!(eggs().as_deref(), Some("- eggs"));
    }
    // It is meant by its name, and alone once it is the last thing again.
    ask(&house, OWNER, &format!("/undo {run}"));
    assert_eq!(eggs(), None);
    let milk = json!({"path": "milk.md", "content": "- milk"});
    ask(&house, OWNER, &calls(&[("write", milk)]));
    let said = ask(&house, OWNER, "/undo");
    assert!(said.contains("milk.md: removed"), "{said}");
}

#[test]
fn the_old_words_of_an_item_that_was_replaced_come_back() {
    let house = House::new();
    let sandbox = &house.sandbox;
    let item = "workspace/memory/items/list.md";
    let old = "---\nid: list\ntype: note\ntags: []\ncreated_at: 2026-01-01T00:00:00Z\n---\nten lines of mine\n";
    sandbox.put(item, old.as_bytes());
    let change = json!({"id": "list", "content": "one new sentence"});
    ask(&house, OWNER, &calls(&[("memory_write", change)]));
    let now = sandbox.read(item).expect("an item");
    assert!(
        now.contains("one new sentence") && !now.contains("ten lines"),
        "{now}"
    );
    let said = ask(&house, OWNER, "/undo");
    assert!(said.contains("memory/items/list.md: as it was"), "{said}");
    assert_eq!(sandbox.read(item).as_deref(), Some(old));
}

#[test]
fn an_owners_later_edit_survives() {
    let house = House::new();
    let sandbox = &house.sandbox;
    prepare(sandbox);
    ask(&house, OWNER, &work());
    fs::write(sandbox.path("workspace/notes.md"), "mine").expect("the sandbox is writable");
    let said = ask(&house, OWNER, "/undo");
    let run = only_run(sandbox);
    assert!(
        said.contains(&format!(
            "notes.md was changed since: left as it is; its old text is state/undo/{run}/1"
        )),
        "{said}"
    );
    assert_eq!(sandbox.read("workspace/notes.md").as_deref(), Some("mine"));
    assert_eq!(
        sandbox.read(&format!("state/undo/{run}/1")).as_deref(),
        Some("one\r\nend")
    );
    assert_eq!(
        fs::read(sandbox.path("workspace/data.bin")).expect("it is there"),
        b"\0\xff\n"
    );
}

#[test]
fn without_a_daemon_nothing_is_undone() {
    let sandbox = Sandbox::new();
    sandbox.check_failure(&["--undo"], 69, "not_running", "no daemon is listening");
    assert_eq!(sandbox.spooled(), [] as [String; 0]);
}

struct Failing {
    sandbox: Sandbox,
    disk: Disk,
    _model: FakeModel,
}

impl Failing {
    fn new() -> Self {
        let (model, sandbox) = Sandbox::with_model();
        let (sandbox, disk) = sandbox.with_disk();
        Self {
            sandbox,
            disk,
            _model: model,
        }
    }

    /// Has the daemon die before its call number `at` while it works on what `arguments` ask for, and returns
    /// whether it did; then it is done with a sound disk.
    fn killed(&self, at: i32, arguments: &[&str]) -> (bool, Output) {
        let mut daemon = self.sandbox.ready();
        self.disk.arm(Plan {
            calls: Calls::Any,
            action: Action::Kill,
            from: at,
            until: at,
        });
        let handled = || {
            self.sandbox.query(
                "queue",
                "SELECT count(*) FROM inbox WHERE state IN ('done', 'dead')",
            )
        };
        let before = handled();
        let sending = self.sandbox.sending(arguments);
        wait_for("the command or the end of the daemon", SOON, || {
            (daemon.has_ended() || handled() != before).then_some(())
        });
        let died = daemon.has_ended();
        self.disk.heal();
        let told = if died {
            drop(daemon);
            let _daemon = self.sandbox.ready();
            sending.end()
        } else {
            let told = sending.end();
            daemon.term();
            told
        };
        (died, told)
    }
}

#[test]
fn a_kill_at_any_moment_of_a_change_or_of_an_undo_leaves_it_to_be_undone() {
    let house = Failing::new();
    let sandbox = &house.sandbox;
    let write = calls(&[("write", json!({"path": "a.md", "content": "new"}))]);
    let mut deaths = 0;
    for at in (3..75).step_by(6) {
        sandbox.put("workspace/a.md", b"old");
        deaths += u32::from(house.killed(at, &["--wait=30", &write]).0);
        {
            let _daemon = sandbox.ready();
            let said = sandbox.send(&["--undo"]);
            // It may have died before it wrote anything.
            let is_told = said.code == 0 || said.stderr.contains("There is nothing to undo");
            assert_eq!(
                (is_told, sandbox.read("workspace/a.md").as_deref()),
                (true, Some("old")),
                "{at}: {said:?}"
            );
            // Nothing of it is left: the next undo means no other run.
            assert_eq!(sandbox.send(&["--wait=30", &write]).code, 0);
        }
        let before = sandbox.read("workspace/a.md");
        assert_eq!(before.as_deref(), Some("new"));
        let (died, told) = house.killed(at, &["--undo", "--wait=30"]);
        deaths += u32::from(died);
        if died && told.code != 0 && sandbox.read("workspace/a.md").as_deref() == Some("new") {
            // It died of something else before it had heard of it, and who asked was told so.
            let _daemon = sandbox.ready();
            assert_eq!(sandbox.send(&["--undo"]).code, 0, "{at}: {told:?}");
        }
        assert_eq!(
            sandbox.read("workspace/a.md").as_deref(),
            Some("old"),
            "{at}"
        );
    }
    assert!(deaths > 10, "only {deaths} deaths");
}

#[test]
fn on_a_full_disk_nothing_is_changed_that_could_not_be_taken_back() {
    let house = Failing::new();
    let sandbox = &house.sandbox;
    sandbox.put("workspace/a.md", b"old");
    let daemon = sandbox.ready();
    // The journals' directory cannot be made: the only mkdir of the turn.
    house.disk.arm(Plan {
        calls: Calls::Make,
        action: Action::Fails(nix::errno::Errno::ENOSPC),
        from: 1,
        until: i32::MAX,
    });
    let write = calls(&[("write", json!({"path": "a.md", "content": "new"}))]);
    let said = sandbox.send(&["--wait=30", &write]);
    assert!(
        said.stdout.contains("a.md was not changed: cannot make ")
            && said.stdout.contains("No space left"),
        "{said:?}"
    );
    assert_eq!(sandbox.read("workspace/a.md").as_deref(), Some("old"));
    house.disk.heal();
    assert!(
        sandbox
            .send(&["--wait=30", &write])
            .stdout
            .contains("wrote a.md")
    );
    daemon.term();
}

#[test]
fn file_tools_work_where_the_settings_allow_and_doctor_names_what_is_not_there() {
    let (_model, sandbox) = Sandbox::with_model();
    let mine = sandbox.home().with_file_name("mine");
    fs::create_dir(&mine).expect("the sandbox is writable");
    let gone = sandbox.home().with_file_name("gone");
    let sandbox = sandbox.config(&format!(
        "[tools]\nallowed_paths = [\"{}\", \"{}\"]",
        mine.display(),
        gone.display()
    ));
    let _daemon = sandbox.ready();
    let say = |words: &str| sandbox.send(&["--wait=30", words]).stdout;
    let file = mine.join("a.txt").display().to_string();
    let said = say(&calls(&[(
        "write",
        json!({"path": file, "content": "mine"}),
    )]));
    assert!(said.contains("wrote "), "{said}");
    assert_eq!(
        fs::read_to_string(mine.join("a.txt")).expect("it is there"),
        "mine"
    );
    let state = sandbox.path("state/people.json").display().to_string();
    assert!(
        say(&calls(&[(
            "write",
            json!({"path": state, "content": "{}"})
        )]))
        .contains("outside the workspace and of ")
    );
    assert_eq!(sandbox.send(&["--undo"]).code, 0);
    assert!(!mine.join("a.txt").exists());
    let doctor = sandbox
        .run("agent-daemon", &["doctor", "--json"], "")
        .json();
    let findings = doctor["findings"].as_array().expect("findings").iter();
    let named: Vec<&str> = findings
        .filter(|finding| finding["id"] == "allowed-path-missing")
        .filter_map(|finding| finding["evidence"].as_str())
        .collect();
    assert_eq!(named.len(), 1, "{doctor}");
    assert!(named[0].contains(&gone.display().to_string()), "{named:?}");
}
