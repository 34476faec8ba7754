//! `agent-monitor`: what it shows and says to scripts, of daemons that are idle, busy, stale, starting,
//! stopping, dead, or never were.
#![allow(
    clippy::disallowed_methods,
    reason = "a test writes files plainly, to see what is made of them"
)]

use std::{collections::BTreeSet, fs, io::Write as _, process::Stdio, thread, time::Duration};

use nix::{
    fcntl::{FcntlArg, fcntl},
    libc,
    sys::signal::Signal,
};
use serde_json::{Value, json};

use crate::support::{FakeModel, Output, Reply, Sandbox, wait_for};

/// Long against everything that happens here, short against the patience of a reader.
const SOON: Duration = Duration::from_secs(20);
const FILE: &str = "state/monitor.json";
/// Runs until the test lets it go on.
const UNTIL_GO: &str = "touch started; while test ! -e go; do sleep 0.05; done";

/// Lets the agent run a command that lasts until [`go`], and waits until it does.
fn busy(sandbox: &Sandbox, model: &FakeModel, from: &str) {
    model.push(Reply::Tool("exec".to_owned(), json!({"command": UNTIL_GO})));
    assert_eq!(sandbox.send(&["--from", from, "work"]).code, 0);
    wait_for("a running tool", SOON, || {
        Some(file(sandbox)).filter(|file| file["state"] == "tools")
    });
}

fn go(sandbox: &Sandbox) {
    fs::write(sandbox.path("workspace/go"), "").expect("the sandbox is writable");
}

/// Returns monitor.json; panics when it is torn.
fn file(sandbox: &Sandbox) -> Value {
    sandbox.read_json(FILE).expect("the daemon has written it")
}

/// Writes monitor.json as it is now, changed.
fn rewrite(sandbox: &Sandbox, change: impl FnOnce(&mut Value)) {
    let mut document = file(sandbox);
    change(&mut document);
    fs::write(sandbox.path(FILE), document.to_string()).expect("the sandbox is writable");
}

fn secs_ago(secs: i64) -> String {
    (chrono::Utc::now() - chrono::Duration::seconds(secs))
        .to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

/// Holds the daemon's lock as a daemon would.
fn hold_lock(sandbox: &Sandbox) -> fs::File {
    let small = |constant: i32| i16::try_from(constant).expect("lock constants fit their field");
    let mut file =
        fs::File::create(sandbox.path("state/daemon.lock")).expect("the sandbox is writable");
    let lock = libc::flock {
        l_type: small(libc::F_WRLCK),
        l_whence: small(libc::SEEK_SET),
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    fcntl(&file, FcntlArg::F_OFD_SETLK(&lock)).expect("nobody else holds it");
    writeln!(file, "{}", std::process::id()).expect("the sandbox is writable");
    file
}

/// Checks the exit code and the first words of the frame, and returns the frame.
fn check(sandbox: &Sandbox, code: i32, begins: &str) -> String {
    let told = sandbox.monitor(&[]);
    assert_eq!(
        (told.code, told.stderr.as_str()),
        (code, ""),
        "{}",
        told.stdout
    );
    assert!(told.stdout.starts_with(begins), "{begins}: {}", told.stdout);
    told.stdout
}

fn has(frame: &str, words: &[&str]) {
    for word in words {
        assert!(frame.contains(word), "{word:?} is not in\n{frame}");
    }
}

// ------------------------------------------------------------------ a living daemon

#[test]
fn the_state_goes_from_thinking_to_tools_to_thinking_to_idle() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    let mut seen = json!("idle");
    let mut next = || {
        let document = wait_for("another state", SOON, || {
            let told = sandbox.monitor(&["--json"]);
            assert_eq!(told.code, 0, "{told:?}");
            Some(told.json()).filter(|document| document["state"] != seen)
        });
        seen = document["state"].clone();
        document
    };
    let order = format!(
        "[[sleep 1500]] [[tool exec {}]]",
        json!({"command": UNTIL_GO})
    );
    assert_eq!(sandbox.send(&["--from", "ada", &order]).code, 0);
    let document = next();
    assert_eq!(
        (&document["state"], &document["lanes"][0]["turn"]),
        (&json!("thinking"), &json!(1)),
        "{document}"
    );
    let document = next();
    let lane = &document["lanes"][0];
    assert_eq!(document["state"], "tools", "{document}");
    assert_eq!(
        (&lane["contact"], &lane["session"]),
        (&json!("ada"), &json!("cli:ada")),
        "{document}"
    );
    assert_eq!(
        (&lane["tools_in_flight"], &lane["model"]),
        (&json!(["exec"]), &json!("primary")),
        "{document}"
    );
    assert_eq!(lane["turns"][0]["stop_reason"], "tool_use", "{document}");
    assert_eq!(lane["turns"][0]["tokens"], lane["tokens"], "{document}");
    let frame = check(&sandbox, 0, "running tools  pid ");
    has(&frame, &["1 to answer", "who  doing", "ada  running exec"]);
    model.push(Reply::Hang);
    go(&sandbox);
    let document = next();
    assert_eq!(
        (&document["state"], &document["lanes"][0]["turn"]),
        (&json!("thinking"), &json!(2)),
        "{document}"
    );
    assert_eq!(sandbox.send(&["--stop"]).code, 0);
    let document = next();
    assert_eq!(
        (&document["state"], &document["lanes"]),
        (&json!("idle"), &json!([])),
        "{document}"
    );
}

#[test]
fn a_turn_that_asks_waits_for_the_owner_and_runs_nothing() {
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.config("[tools.exec]\npolicy = \"ask\"");
    let _daemon = sandbox.ready();
    model.push(Reply::Tool("exec".to_owned(), json!({"command": UNTIL_GO})));
    assert_eq!(sandbox.send(&["--from", "ada", "work"]).code, 0);
    let seen = |state: &str, of_lane: &str| {
        wait_for(of_lane, SOON, || {
            let file = file(&sandbox);
            let lane = file["lanes"][0]["state"].as_str().unwrap_or_default();
            (file["state"] == state && lane == of_lane).then_some(())
        });
    };
    seen("tools", "asking");
    has(
        &check(&sandbox, 0, "waiting for your answer  pid "),
        &["1 question for you", "ada  waiting for your answer"],
    );
    let queue = sandbox.send(&["--queue", "--json"]).json();
    let id = queue["approvals"][0]["id"].as_str().expect("a question");
    assert_eq!(sandbox.send(&["--approve", id]).code, 0);
    seen("tools", "tools");
    has(
        &check(&sandbox, 0, "running tools  pid "),
        &["ada  running exec"],
    );
    go(&sandbox);
    seen("idle", "");
}

#[test]
fn a_call_that_is_tried_again_says_why() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    model.push(Reply::Status(529, Some(20)));
    assert_eq!(sandbox.send(&["--from", "ada", "hello"]).code, 0);
    wait_for("a lane that waits", SOON, || {
        Some(file(&sandbox)).filter(|file| file["state"] == "retry_wait")
    });
    has(
        &check(&sandbox, 0, "waiting to retry  pid "),
        &["ada  waiting to retry", "\n  because: ", "529"],
    );
}

#[test]
fn after_a_failed_turn_it_is_idle_and_the_trouble_is_shown() {
    let (model, sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    model.push(Reply::Status(400, None));
    assert_eq!(sandbox.send(&["--wait", "hello"]).code, 1);
    // The trouble is there a moment before its lane is gone.
    let document = wait_for("the trouble, and the end of the turn", SOON, || {
        let is_over = |file: &Value| !file["last_error"].is_null() && file["state"] == "idle";
        Some(file(&sandbox)).filter(is_over)
    });
    assert_eq!(document["lanes"], json!([]), "{document}");
    let frame = check(&sandbox, 0, &format!("idle  pid {}  up ", daemon.pid()));
    has(
        &frame,
        &[
            "\ntrouble   0s ago: ",
            "400",
            "\nqueue     empty\n",
            "\nmodels    primary\n",
        ],
    );
}

#[test]
fn a_thousand_reads_during_writes_see_no_torn_document() {
    let (_model, sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    thread::scope(|scope| {
        let talk = scope.spawn(|| {
            for number in 0..20 {
                let told = sandbox.send(&[
                    "--from",
                    &format!("friend{number}"),
                    "--wait",
                    "[[tool exec {\"command\":\"true\"}]]",
                ]);
                assert_eq!(told.code, 0, "{told:?}");
            }
        });
        let (mut reads, mut written) = (0, BTreeSet::new());
        while reads < 1_000 || !talk.is_finished() {
            let document = file(&sandbox);
            assert_eq!(
                document["pid"].as_i64(),
                Some(i64::from(daemon.pid().as_raw())),
                "{document}"
            );
            written.insert(document["updated_at"].to_string());
            reads += 1;
        }
        talk.join().expect("the sender");
        assert!(
            written.len() >= 10,
            "only {} documents were written",
            written.len()
        );
    });
}

#[test]
fn a_silent_daemon_is_stale_after_a_minute() {
    let (_model, sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    daemon.signal(Signal::SIGSTOP);
    rewrite(&sandbox, |file| file["updated_at"] = json!(secs_ago(55)));
    check(&sandbox, 0, "idle  pid ");
    rewrite(&sandbox, |file| file["updated_at"] = json!(secs_ago(61)));
    let pid = daemon.pid();
    let frame = check(
        &sandbox,
        1,
        &format!("stale  nothing written for 1m 1s  pid {pid}  up "),
    );
    has(
        &frame,
        &[
            &format!("\nlook at   ps -o stat= -p {pid} "),
            "df -h ",
            "state/logs",
        ],
    );
    let told = sandbox.monitor(&["--json"]);
    assert_eq!(
        (told.code, &told.json()["state"]),
        (1, &json!("idle")),
        "{told:?}"
    );
    daemon.signal(Signal::SIGCONT);
    assert_eq!(sandbox.send(&["--wait", "hello"]).code, 0);
    wait_for("a sign of life", SOON, || {
        (sandbox.monitor(&[]).code == 0).then_some(())
    });
}

#[test]
fn a_file_of_the_daemon_before_is_not_taken_for_a_stale_one() {
    let (model, sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    busy(&sandbox, &model, "ada");
    daemon.kill9();
    rewrite(&sandbox, |file| file["updated_at"] = json!(secs_ago(3600)));
    let _lock = hold_lock(&sandbox);
    let frame = check(&sandbox, 0, "starting  for ");
    has(
        &frame,
        &[
            &format!("  pid {}\n", std::process::id()),
            "\nqueue     1 to answer\n",
        ],
    );
    assert!(!frame.contains("ada") && !frame.contains("up "), "{frame}");
    rewrite(&sandbox, |file| file["pid"] = json!(std::process::id()));
    check(&sandbox, 1, "stale  nothing written for 1h 0m");
    fs::remove_file(sandbox.path(FILE)).expect("it is there");
    check(&sandbox, 0, "starting  for ");
    fs::remove_file(sandbox.path("state/daemon.lock")).expect("it is there");
    check(&sandbox, 69, "not running  it never ran here");
}

// ------------------------------------------------------------------ one that ends, or is gone

#[test]
fn a_daemon_that_ends_says_so_and_leaves_an_idle_file() {
    let (model, sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    busy(&sandbox, &model, "ada");
    daemon.signal(Signal::SIGTERM);
    wait_for("the end to begin", SOON, || {
        Some(file(&sandbox)).filter(|file| file["stopping"] == true)
    });
    has(
        &check(&sandbox, 0, "stopping  pid "),
        &["\nit ends   as soon as ", "ada  running exec"],
    );
    go(&sandbox);
    assert_eq!(daemon.wait_exit(SOON), 0);
    let document = file(&sandbox);
    assert_eq!(
        (&document["state"], &document["lanes"]),
        (&json!("idle"), &json!([])),
        "{document}"
    );
    assert_eq!(
        (&document["stopping"], &document["ended_at"]),
        (&json!(true), &document["updated_at"]),
        "{document}"
    );
    has(
        &check(&sandbox, 69, "stopped  "),
        &[
            " ago  version ",
            "\nstart it  agent-daemon run\n",
            "\nqueue     empty\n",
        ],
    );
    // The next one has nothing of that.
    let _daemon = sandbox.ready();
    let document = file(&sandbox);
    assert_eq!(
        (&document["stopping"], &document["ended_at"]),
        (&json!(false), &Value::Null),
        "{document}"
    );
}

#[test]
fn a_killed_daemon_is_dead_and_its_lanes_do_not_run() {
    let (model, sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    busy(&sandbox, &model, "ada");
    daemon.kill9();
    let frame = check(&sandbox, 69, "dead  last seen 0s ago  version ");
    has(
        &frame,
        &[
            "\nstart it  agent-daemon run\n",
            "\nopen      ada (exec): answered after the start\n",
            "1 to answer, safe on the disk",
        ],
    );
    assert!(
        !frame.contains("running") && !frame.contains("pid"),
        "{frame}"
    );
    let told = sandbox.monitor(&["--json"]);
    assert_eq!(
        (told.code, &told.json()["state"]),
        (69, &json!("tools")),
        "{told:?}"
    );
    rewrite(&sandbox, |file| file["boot_id"] = json!("another"));
    has(
        &check(&sandbox, 69, "dead  "),
        &["the machine was restarted since"],
    );
}

#[test]
fn a_home_where_none_ever_ran_says_how_to_begin() {
    let sandbox = Sandbox::new();
    let told = sandbox.monitor(&["--json"]);
    assert_eq!((told.code, told.json()), (69, json!({"state": "unknown"})));
    has(
        &check(&sandbox, 69, "not running  it never ran here\n"),
        &["\nstart it  agent-daemon run\n"],
    );
    assert!(!sandbox.path("state").exists(), "a look makes nothing");
    let empty = sandbox.path("empty home");
    let told = sandbox.monitor(&["--home", &empty.display().to_string()]);
    assert_eq!(told.code, 78);
    let init = format!("agent-daemon --home '{}' init", empty.display());
    assert!(
        told.stderr.contains("there is no agent") && told.stderr.contains(&init),
        "{told:?}"
    );
    assert!(!empty.exists(), "a look makes nothing");
}

#[test]
fn a_file_that_cannot_be_read_is_as_old_as_it_was_written() {
    let (_model, sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    daemon.kill9();
    fs::write(sandbox.path(FILE), "{\"state\":\"idl").expect("the sandbox is writable");
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(7_200);
    let old = |below: &str, at| {
        let file = fs::File::options()
            .write(true)
            .open(sandbox.path(below))
            .expect("it is there");
        file.set_modified(at).expect("the sandbox is writable");
    };
    old("state/daemon.lock", long_ago);
    old(FILE, long_ago + Duration::from_secs(3_600));
    check(&sandbox, 69, "dead  last seen 1h 0m ago\n");
    assert_eq!(
        sandbox.monitor(&["--json"]).json(),
        json!({"state": "unknown"})
    );
}

// ------------------------------------------------------------------ --check

#[test]
fn one_line_for_nagios_says_how_bad_it_is() {
    let (model, sandbox) = Sandbox::with_model();
    let check = |sandbox: &Sandbox, code: i32, begins: &str| {
        let told = sandbox.monitor(&["--check"]);
        assert_eq!((told.code, told.stderr.as_str()), (code, ""), "{told:?}");
        assert!(
            told.stdout.starts_with(begins) && told.stdout.lines().count() == 1,
            "{begins}: {told:?}"
        );
        told.stdout
    };
    check(
        &sandbox,
        2,
        "AGENT CRITICAL - not running, it never ran here | lanes=0;;;0 ",
    );
    let daemon = sandbox.ready();
    let line = check(&sandbox, 0, "AGENT OK - idle, up ");
    has(
        &line,
        &[
            " | lanes=0;;;0 inbox=0;;;0 outbox=0;;;0 dead=0;0;;0 today_usd=",
            " age=0s;;60;0\n",
        ],
    );
    busy(&sandbox, &model, "ada");
    has(
        &check(&sandbox, 0, "AGENT OK - running tools, up "),
        &["lanes=1;", "inbox=1;"],
    );
    daemon.signal(Signal::SIGSTOP);
    rewrite(&sandbox, |file| file["updated_at"] = json!(secs_ago(61)));
    check(
        &sandbox,
        2,
        "AGENT CRITICAL - stale, nothing written for 1m 1s | ",
    );
    daemon.kill9();
    check(&sandbox, 2, "AGENT CRITICAL - dead, last seen 1m ");
    fs::remove_file(sandbox.path("state/queue.db-wal")).expect("it is there");
    fs::write(sandbox.path("state/queue.db"), "no database | at all")
        .expect("the sandbox is writable");
    let line = check(&sandbox, 3, "AGENT UNKNOWN - ");
    has(&line, &["queue.db"]);
    assert!(!line.contains('|'), "{line}");
    let told = output(
        sandbox
            .command("agent-monitor")
            .args(["--check", "--instance", "../x"])
            .env_remove("AGENT_HOME"),
    );
    assert_eq!((told.code, told.stderr.as_str()), (3, ""), "{told:?}");
    assert!(told.stdout.starts_with("AGENT UNKNOWN - "), "{told:?}");
}

// ------------------------------------------------------------------ the terminal

#[test]
fn colour_is_for_terminals_and_for_those_who_ask() {
    let (_model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    let coloured = |sandbox: &Sandbox, arguments: &[&str]| {
        let told = sandbox.monitor(arguments);
        assert_eq!(told.code, 0, "{told:?}");
        told.stdout.contains('\u{1b}')
    };
    assert!(!coloured(&sandbox, &[]), "a pipe is no terminal");
    assert!(coloured(&sandbox, &["--color=always"]));
    assert!(coloured(&sandbox, &["--color", "always"]));
    assert!(!coloured(&sandbox, &["--color=never"]));
    assert!(!coloured(&sandbox, &["--color=always", "--json"]));
    let sandbox = sandbox.env("NO_COLOR", "1").env("TERM", "dumb");
    assert!(!coloured(&sandbox, &[]));
    assert!(
        coloured(&sandbox, &["--color=always"]),
        "whoever says always means it"
    );
    let told = sandbox.monitor(&["--color=pink"]);
    assert_eq!((told.code, told.stdout.as_str()), (2, ""));
    has(&told.stderr, &["pink", "always"]);
}

#[test]
fn the_frame_is_as_large_as_watch_says_and_no_name_breaks_it() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    for name in [
        "李明李明李明李明李明",
        "\u{202e}der [31m",
        "a very long name of somebody who has many",
        "e",
    ] {
        model.push(Reply::Hang);
        assert_eq!(sandbox.send(&["--from", name, "hello"]).code, 0);
    }
    wait_for("four lanes", SOON, || {
        file(&sandbox)["lanes"]
            .as_array()
            .filter(|lanes| lanes.len() == 4)
            .map(Vec::len)
    });
    let size = |columns: &str, lines: &str| {
        let told = output(
            sandbox
                .command("agent-monitor")
                .envs([("COLUMNS", columns), ("LINES", lines)]),
        );
        assert_eq!((told.code, told.stderr.as_str()), (0, ""));
        assert!(!told.stdout.contains('\u{1b}'), "{}", told.stdout);
        let widest = told
            .stdout
            .lines()
            .map(unicode_width::UnicodeWidthStr::width)
            .max()
            .unwrap_or(0);
        (widest, told.stdout.lines().count(), told.stdout)
    };
    for (columns, lines) in [(200, 60), (80, 24), (40, 15), (40, 6), (20, 7), (3, 3)] {
        let (widest, rows, frame) = size(&columns.to_string(), &lines.to_string());
        // Two lines are the title of watch.
        assert!(
            widest <= columns && rows <= lines - 2,
            "{columns} × {lines}:\n{frame}"
        );
    }
    has(
        &size("200", "60").2,
        &[
            "李明李明李明李明李明",
            "\\u{202e}der [31m",
            "a very long name of som…",
        ],
    );
    has(&size("40", "6").2, &["… 2 more lanes: "]);
    let usual = size("80", "24").2.lines().count();
    for odd in ["", "0", "-1", "wide", "999999999999999999999"] {
        assert_eq!(size(odd, odd).2.lines().count(), usual, "{odd:?}");
    }
}

#[test]
fn a_reader_that_goes_away_hears_nothing_of_it() {
    let (_model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    for arguments in [&[][..], &["--json"], &["--color=always"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = sandbox.command("agent-monitor");
        let told = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .expect("it starts");
        assert_eq!(
            (
                told.status.code(),
                String::from_utf8_lossy(&told.stderr).as_ref()
            ),
            (Some(0), ""),
            "{arguments:?}"
        );
    }
}

fn output(command: &mut std::process::Command) -> Output {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Output {
        code: output.status.code().unwrap_or(-1),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}
