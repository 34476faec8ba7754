//! What `agent-send` promises to scripts whatever the verb: exit codes, one document in JSON, and readers that
//! leave early.
#![allow(clippy::disallowed_methods, reason = "a test breaks files plainly")]

use std::{fs, os::unix::ffi::OsStrExt as _, time::Duration};

use crate::support::{Reply, Sandbox, wait_for};

/// Long against everything that happens here, short against the patience of a reader.
const SOON: Duration = Duration::from_secs(20);

/// One of every kind that needs no queries of later builds.
const VERBS: [&[&str]; 14] = [
    &["hello"],
    &["--wait", "hello"],
    &["--stream", "hello"],
    &["--system", "hello"],
    &["--notify", "--source", "x", "hello"],
    &["--raw", "--to", "1001", "hello"],
    &["--session", "x", "--tier", "full", "hello"],
    &["--attach", "/etc/hostname", "hello"],
    &["--result", "nobody"],
    &["--stop"],
    &["--reset", "nobody"],
    &["--pair", "list"],
    &["--status"],
    &["--queue"],
];

#[test]
fn every_verb_gives_one_document_in_json_and_a_word_for_every_failure() {
    let (_model, sandbox) = Sandbox::with_model();
    for with_daemon in [false, true] {
        let _daemon = with_daemon.then(|| sandbox.ready());
        for verb in VERBS.iter().filter(|verb| verb[0] != "--stream") {
            let told = sandbox.send(&[verb, &["--json"][..]].concat());
            let document = told.json();
            assert_eq!(told.stderr, "", "{verb:?}: stdout has it all");
            // A failure is always the object, whoever found it.
            if document.get("error").is_some() {
                for field in ["code", "message", "hint"] {
                    assert!(
                        document["error"][field]
                            .as_str()
                            .is_some_and(|text| !text.is_empty()),
                        "{verb:?}: {document}"
                    );
                }
            }
            let expected = match (verb[0], with_daemon) {
                ("--stop", false) => vec![69],
                ("--status", false) => vec![69],
                ("--pair" | "--queue", _) => vec![0],
                ("--result", _) => vec![1],
                ("--reset", true) => vec![1],
                ("--raw" | "--notify", _) => vec![1],
                (_, true) => vec![0],
                (_, false) => vec![75],
            };
            assert!(
                expected.contains(&told.code),
                "{verb:?}, daemon {with_daemon}: {told:?}"
            );
        }
    }
}

#[test]
fn a_reader_that_leaves_is_no_error_for_any_verb() {
    let (_model, sandbox) = Sandbox::with_model();
    for with_daemon in [false, true] {
        let _daemon = with_daemon.then(|| sandbox.ready());
        for verb in VERBS.iter().copied().chain([
            &["--help"][..],
            &["--version"],
            &["--no-such-flag"],
            &["--json", "--nonsense"],
        ]) {
            let words: Vec<String> = verb.iter().map(|word| format!("'{word}'")).collect();
            let alone = sandbox.bash(&format!("agent-send {} >/dev/null", words.join(" ")));
            let told = sandbox.bash(&format!(
                "agent-send {} | true; exit ${{PIPESTATUS[0]}}",
                words.join(" ")
            ));
            assert_eq!(
                (told.code, told.stdout.as_str()),
                (alone.code, ""),
                "{verb:?}: {told:?}"
            );
            for word in ["panic", "roken pipe", "RUST_BACKTRACE"] {
                assert!(!told.stderr.contains(word), "{verb:?}: {told:?}");
            }
        }
    }
}

#[test]
fn arguments_that_are_no_text_numbers_without_end_and_closed_ends_break_nothing() {
    let (model, sandbox) = Sandbox::with_model();
    let bad = std::ffi::OsStr::from_bytes(b"caf\xe9");
    for flag in [
        "",
        "--from",
        "--session",
        "--id",
        "--tier",
        "--model",
        "--reset",
        "--result",
    ] {
        let mut command = sandbox.command("agent-send");
        let output = if flag.is_empty() {
            command.arg(bad)
        } else {
            command.arg(flag).arg(bad)
        };
        let output = output.output().expect("it runs");
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            (output.status.code(), output.stdout.as_slice()),
            (Some(2), &b""[..]),
            "{flag}: {talk}"
        );
        assert!(
            talk.contains("UTF-8") && !talk.contains("panicked"),
            "{flag}: {talk}"
        );
    }
    // A file may be called so.
    let path = sandbox.home().join(bad);
    fs::write(&path, "inside").expect("the sandbox is writable");
    let daemon = sandbox.ready();
    let status = sandbox
        .command("agent-send")
        .args(["--wait", "--attach"])
        .arg(&path)
        .arg("look")
        .status()
        .expect("it runs");
    assert_eq!(status.code(), Some(0));
    assert!(
        model.requests()[0]
            .to_string()
            .contains("file caf\u{fffd}, 6 bytes")
    );

    for forever in ["--wait=18446744073709551615", "--wait=9223372036854775807"] {
        assert_eq!(
            sandbox.send(&[forever, "hello"]).stdout,
            "echo: hello\n",
            "{forever}"
        );
    }
    for wrong in [
        "--wait=-1",
        "--wait=1.5",
        "--wait=",
        "--wait=18446744073709551616",
    ] {
        assert_eq!(sandbox.send(&[wrong, "hello"]).code, 2, "{wrong}");
    }
    for (script, code) in [
        ("agent-send --wait hello <&- >&- 2>&-", 0),
        ("agent-send --wait hello 2>&- >/dev/null", 0),
        ("agent-send --wait --json hello >&-", 0),
        ("agent-send - <&-", 2),
        ("agent-send --wait hello >/dev/full", 74),
        ("agent-send --stream hello >/dev/full", 74),
        ("agent-send --status >/dev/full 2>/dev/full", 74),
    ] {
        let told = sandbox.bash(script);
        assert_eq!(told.code, code, "{script}: {told:?}");
    }
    assert_eq!(daemon.term(), 0);
}

#[test]
fn ids_are_what_they_may_be_and_nothing_else() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    let (longest, longer) = ("x".repeat(64), "x".repeat(65));
    for good in ["a", "-", "_", "0", "--", "-rf", &longest] {
        let told = sandbox.send(&["--wait", &format!("--id={good}"), &format!("I am {good}")]);
        assert_eq!(
            (told.code, told.stdout),
            (0, format!("echo: I am {good}\n")),
            "{good}"
        );
    }
    let requests = model.requests().len();
    for bad in ["", ".", "..", "a/b", "a.json", "a b", "ä", "a\n", &longer] {
        let argument = format!("--id={bad}");
        sandbox.check_failure(&[&argument, "x"], 2, "usage", "is not a valid id");
    }
    assert_eq!(
        (model.requests().len(), sandbox.spooled()),
        (requests, vec![])
    );
}

#[test]
fn an_answer_that_cannot_be_written_down_is_found_in_the_queue() {
    let (_model, sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    let replies = sandbox.path("state/replies");
    // Not a matter of permissions: root may everything.
    fs::remove_dir_all(&replies).expect("the sandbox is writable");
    for flag in ["--wait=20", "--stream"] {
        let told = sandbox.send(&[flag, "hello"]);
        assert_eq!(
            (told.code, told.stdout.as_str()),
            (0, "echo: hello\n"),
            "{flag}: {told:?}"
        );
    }
    assert_eq!(daemon.term(), 0);
    assert_eq!(sandbox.ready().term(), 0);
    assert!(replies.is_dir(), "the next start makes it");
}

#[test]
fn a_bad_command_under_a_known_id_does_not_take_the_answer_away() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--wait", "--id", "known", "hello"]).code, 0);
    model.push(Reply::Held("still running".to_owned()));
    let running = sandbox.sending(&["--wait", "--id", "runs", "hello"]);
    model.wait_requests(2, SOON);
    for id in ["known", "runs"] {
        let bad = format!("{{\"id\":\"{id}\",\"cmd\":\"dance\"}}");
        assert_eq!(
            sandbox
                .bash(&format!("echo '{bad}' > state/control.fifo"))
                .code,
            0
        );
        sandbox.put(&format!("state/spool/new/{id}.json"), bad.as_bytes());
    }
    let aside = || {
        sandbox
            .spooled()
            .iter()
            .filter(|name| name.contains(".corrupt-"))
            .count()
            == 2
    };
    wait_for("both to be set aside", SOON, || aside().then_some(()));
    model.go_on();
    let told = running.end();
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "still running\n"),
        "{told:?}"
    );
    assert_eq!(sandbox.send(&["--result", "known"]).stdout, "echo: hello\n");
}

#[test]
fn thousands_of_spooled_messages_are_worked_off_and_strange_files_stay() {
    const COUNT: usize = 2000;
    let (_model, sandbox) = Sandbox::with_model();
    for number in 0..COUNT {
        // Ten conversations, so that no request becomes long, and a command that asks no model.
        let line = format!(
            "{{\"v\":1,\"id\":\"t{number:04}\",\"cmd\":\"user\",\"sender\":\"s{}\",\"text\":\"/help\"}}",
            number % 10
        );
        sandbox.put(
            &format!("state/spool/new/t{number:04}.json"),
            line.as_bytes(),
        );
    }
    std::os::unix::fs::symlink("/etc/passwd", sandbox.path("state/spool/new/link.json"))
        .expect("link");
    fs::create_dir(sandbox.path("state/spool/new/dir.json")).expect("dir");
    sandbox.put("state/spool/new/notes.txt", b"mine");
    let _daemon = sandbox.ready();
    let done = "SELECT count(*) FROM inbox WHERE state = 'done'";
    let all = [[rusqlite::types::Value::Integer(
        i64::try_from(COUNT).expect("few"),
    )]];
    wait_for("all to be answered", Duration::from_secs(60), || {
        (sandbox.query("queue", done) == all).then_some(())
    });
    wait_for("the spool to be empty", SOON, || {
        (!sandbox.spooled().iter().any(|name| name.starts_with('t'))).then_some(())
    });
    assert!(sandbox.spooled().contains(&"notes.txt".to_owned()));
    for id in ["link", "dir"] {
        let told = sandbox.send(&["--result", id]);
        assert_eq!(told.code, 1, "{id}: {told:?}");
        assert!(told.stderr.contains("not a regular file"), "{id}: {told:?}");
    }
    assert_eq!(sandbox.send(&["--wait=20", "hello"]).code, 0);
}
