//! The programs as a shell script sees them: flags, exit codes, what stands on stdout and what on stderr, the
//! spool and the FIFO.

mod interrupts;

use std::{
    fs,
    io::Write as _,
    thread,
    time::{Duration, Instant},
};

use rusqlite::types::Value as SqlValue;
use serde_json::{Value, json};

use crate::support::{FakeModel, Output, Reply, Sandbox, wait_for};

/// Long against everything that happens here, short against the patience of a reader.
const SOON: Duration = Duration::from_secs(20);

// ------------------------------------------------------------------ with a daemon

#[test]
fn a_reply_is_data_and_everything_else_is_talk() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();

    let told = sandbox.send(&["--wait", "hello"]);
    assert_eq!(
        (told.code, told.stdout.as_str(), told.stderr.as_str()),
        (0, "echo: hello\n", "")
    );

    let told = sandbox.send(&["--wait", "--json", "--id", "my-id", "hello again"]);
    let document = told.json();
    assert_eq!(
        (
            told.code,
            &document["v"],
            &document["id"],
            &document["status"]
        ),
        (0, &json!(1), &json!("my-id"), &json!("done"))
    );
    assert_eq!(document["reply"], "echo: hello again");
    assert!(
        document["tokens"].as_u64().is_some_and(|tokens| tokens > 0),
        "{document}"
    );
    assert!(
        document["cost_usd"].as_f64().is_some_and(|cost| cost > 0.0),
        "{document}"
    );
    assert!(
        document["session_id"].is_string() && document["run_id"].is_string(),
        "{document}"
    );

    let told = sandbox.send(&["fire and forget"]);
    assert_eq!(
        (told.code, told.stdout.as_str(), told.stderr.as_str()),
        (0, "", "")
    );
    let told = sandbox.send(&["--json", "fire and forget"]);
    assert_eq!((told.code, &told.json()["status"]), (0, &json!("accepted")));
    let id = told.json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(
        sandbox.send(&["--result", &id, "--wait"]).stdout,
        "echo: fire and forget\n"
    );

    let told = sandbox.send(&["--wait", "[[say NO_REPLY]]"]);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, ""),
        "silence is an answer"
    );
    let told = sandbox.send(&["--wait", "--json", "[[say NO_REPLY]]"]);
    assert_eq!((told.code, &told.json()["silent"]), (0, &json!(true)));

    model.push(Reply::Status(400, None));
    let told = sandbox.send(&["--wait", "fail"]);
    assert_eq!((told.code, told.stdout.as_str()), (1, ""), "{told:?}");
    assert!(
        told.stderr.starts_with("agent-send: ") && told.stderr.contains("\nhint: "),
        "{told:?}"
    );
    model.push(Reply::Status(400, None));
    let told = sandbox.send(&["--wait", "--json", "fail"]);
    assert_eq!((told.code, &told.json()["status"]), (1, &json!("error")));
}

#[test]
fn the_same_id_is_the_same_message_and_the_same_reply() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    let first = sandbox.send(&["--wait", "--id", "night-42", "report"]);
    assert_eq!((first.code, first.stdout.as_str()), (0, "echo: report\n"));
    let again = sandbox.send(&["--wait", "--id", "night-42", "report"]);
    assert_eq!((again.code, again.stdout.as_str()), (0, "echo: report\n"));
    for other in [
        &["something else"][..],
        &["--attach", "/etc/hostname", "report"],
        &["--session", "other", "report"],
        &["--system", "report"],
    ] {
        let arguments = [&["--wait", "--id", "night-42"][..], other].concat();
        let told = sandbox.send(&arguments);
        assert_eq!((told.code, told.stdout.as_str()), (65, ""), "{told:?}");
        assert!(told.stderr.contains("first: cli \"report\""), "{told:?}");
        let now = other.last().expect("words");
        assert!(told.stderr.contains(&format!("{now:?}")), "{told:?}");
    }
    // Two at one time are one, too.
    let answers: Vec<Output> = thread::scope(|scope| {
        let both = [(); 2].map(|()| {
            scope.spawn(|| sandbox.send(&["--wait", "--id", "twice", "[[sleep 100]] both"]))
        });
        both.map(|one| one.join().expect("agent-send ran")).into()
    });
    assert!(
        answers
            .iter()
            .all(|told| told.code == 0 && told.stdout == "echo: [[sleep 100]] both\n"),
        "{answers:?}"
    );
    assert_eq!(model.requests().len(), 2);
    assert_eq!(sandbox.spooled(), [] as [String; 0]);
}

#[test]
fn without_a_daemon_the_first_of_an_id_stays_and_the_spool_keeps_the_order() {
    let (model, sandbox) = Sandbox::with_model();
    let file = sandbox.put("report.txt", b"one");
    let attach = ["--attach", file.to_str().expect("a path")];
    let first = [&["--id", "zzz", "the backup FAILED"][..], &attach].concat();
    for _ in 0..2 {
        let told = sandbox.send(&first);
        assert_eq!((told.code, told.stdout.as_str()), (75, "zzz\n"), "{told:?}");
    }
    let told = sandbox.send(&["--id", "zzz", "all fine"]);
    assert_eq!((told.code, told.stdout.as_str()), (65, ""), "{told:?}");
    for words in ["the backup FAILED", "all fine"] {
        assert!(told.stderr.contains(words), "{told:?}");
    }
    // The same words about another file are another message; what it brought is gone again.
    sandbox.put("report.txt", b"two");
    assert_eq!(sandbox.send(&first).code, 65);
    let files = std::fs::read_dir(sandbox.path("state/spool/new/zzz.d")).expect("files");
    assert_eq!(files.count(), 1);
    for id in ["mmm", "aaa"] {
        assert_eq!(sandbox.send(&["--id", id, id]).code, 75);
    }
    let _daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--result", "aaa", "--wait=20"]).code, 0);
    let order = sandbox.query("queue", "SELECT id FROM inbox ORDER BY seq");
    assert_eq!(
        order.concat(),
        ["zzz", "mmm", "aaa"].map(|id| SqlValue::Text(id.to_owned()))
    );
    let asked = model.requests()[0].to_string();
    assert!(asked.contains("the backup FAILED") && !asked.contains("all fine"));
}

#[test]
fn words_are_messages_slips_are_asked_about_and_help_is_help() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    for word in ["status", "stop", "list", "exit"] {
        let told = sandbox.send(&["--wait", word]);
        assert_eq!(told.stdout, format!("echo: {word}\n"), "{told:?}");
    }
    let asked = model.requests().len();
    let told = sandbox.send(&["--wait", "/stauts"]);
    assert_eq!((told.code, told.stdout.as_str()), (1, ""), "{told:?}");
    let says = "Unknown command /stauts; did you mean /status?";
    assert!(told.stderr.contains(says), "{told:?}");
    let help = sandbox.send(&["help"]);
    assert_eq!((help.code, help.stderr.as_str()), (0, ""), "{help:?}");
    assert!(help.stdout.ends_with("agent-send -- help\n"), "{help:?}");
    assert!(sandbox.send(&["-h"]).stdout.lines().count() <= 20);
    assert_eq!(model.requests().len(), asked, "no model was asked");
    let told = sandbox.send(&["--wait", "--", "help"]);
    assert_eq!(told.stdout, "echo: help\n", "{told:?}");
    let dead = sandbox.query("queue", "SELECT id FROM inbox WHERE state = 'dead'");
    assert!(
        dead.is_empty(),
        "a slip that was answered is no dead letter: {dead:?}"
    );
    for program in [
        "agent-daemon",
        "agent-monitor",
        "agent-index",
        "agent-consolidate",
    ] {
        let told = sandbox.run(program, &["help"], "");
        assert!(
            told.code == 0 && told.stdout.contains("Usage: "),
            "{program}: {told:?}"
        );
    }
}

#[test]
fn a_home_that_is_not_there_is_an_error_and_nothing_is_created() {
    let sandbox = Sandbox::new();
    let nowhere = sandbox.path("nowhere");
    let empty = sandbox.path("empty");
    fs::create_dir(&empty).expect("the sandbox is writable");
    for home in [&nowhere, &empty] {
        let name = home.to_str().expect("a path");
        for (program, words) in [
            ("agent-send", &["hello"][..]),
            ("agent-send", &["--pair", "owner"]),
            ("agent-send", &["--status"]),
            ("agent-send", &["--job", "list"]),
            ("agent-index", &["sync"]),
            ("agent-consolidate", &["run"]),
            ("agent-monitor", &[]),
        ] {
            let told = sandbox.run(program, &[&["--home", name][..], words].concat(), "");
            assert_eq!(
                (told.code, told.stdout.as_str()),
                (78, ""),
                "{program} {words:?}: {told:?}"
            );
            assert!(told.stderr.contains("there is no agent"), "{told:?}");
        }
    }
    assert!(!nowhere.exists());
    assert_eq!(fs::read_dir(&empty).expect("empty").count(), 0);
}

#[test]
fn a_slip_in_the_name_of_an_instance_names_those_there_are() {
    let sandbox = Sandbox::new();
    let base = sandbox.path("mine");
    let base = base.to_str().expect("a path");
    for instance in [&[][..], &["--instance", "work"]] {
        let init = [&["--home", base][..], instance, &["init", "-q"]].concat();
        assert_eq!(sandbox.run("agent-daemon", &init, "").code, 0);
    }
    let slip = ["--home", base, "--instance", "wrok"];
    for (program, words) in [
        ("agent-send", &["hello"][..]),
        ("agent-daemon", &["check"]),
        ("agent-monitor", &[]),
    ] {
        let told = sandbox.run(program, &[&slip[..], words].concat(), "");
        assert_eq!(told.code, 78, "{told:?}");
        let there = "there are: the one without --instance, --instance work; ";
        assert!(
            told.stderr.contains("no agent called wrok") && told.stderr.contains(there),
            "{told:?}"
        );
    }
    assert!(!sandbox.path("mine-wrok").exists());
    // A first start makes one, and says that it is new.
    let started = sandbox.run("agent-daemon", &[&slip[..], &["--once"]].concat(), "");
    assert_eq!(started.code, 0, "{started:?}");
    assert!(
        started.stderr.contains("a new agent") && started.stderr.contains("--instance work"),
        "{started:?}"
    );
}

#[test]
fn unknown_names_fail_at_once_with_one_sentence() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    for wait in [&[][..], &["--wait"]] {
        for (flags, code, says) in [
            (&["--model", "nosuch"][..], 1, "no model \"nosuch\""),
            (&["--tier", "nosuch"], 1, "no tier \"nosuch\""),
            (&["--session", ""], 2, "--session takes 1 to 200"),
            (&["--session", "@nosuch"], 1, "no contact \"@nosuch\""),
        ] {
            let told = sandbox.send(&[wait, flags, &["hello"]].concat());
            assert_eq!((told.code, told.stdout.as_str()), (code, ""), "{told:?}");
            assert!(told.stderr.contains(says), "{told:?}");
        }
    }
    for (words, says) in [
        (&["--job", "remove", "nosuch"][..], "no job \"nosuch\""),
        (&["--skill", "trust", "nosuch"], "no skill \"nosuch\""),
        (&["--mcp", "trust", "nosuch"], "no tool server \"nosuch\""),
        (&["--reset", "nosuch"], "no session \"cli:nosuch\""),
        (&["--stop", "nosuch"], "no session \"cli:nosuch\""),
        (&["--compact", "nosuch"], "no session \"cli:nosuch\""),
        (&["--undo", "nosuch"], "no run \"nosuch\""),
        (&["--queue", "drop", "nosuch"], "no dead letter \"nosuch\""),
        (&["--pair", "approve", "nosuch"], "no request \"nosuch\""),
        (&["--pair", "revoke", "nosuch"], "no person \"nosuch\""),
        (&["--history", "nosuch"], "no session \"nosuch\""),
        (&["--explain", "nosuch"], "no run or message \"nosuch\""),
        (&["--result", "nosuch"], "no message \"nosuch\""),
    ] {
        let told = sandbox.send(words);
        assert_eq!((told.code, told.stdout.as_str()), (1, ""), "{told:?}");
        assert!(told.stderr.contains(says), "{told:?}");
    }
    for flag in ["--job", "--pair", "--skill", "--mcp"] {
        let (bare, list) = (sandbox.send(&[flag]), sandbox.send(&[flag, "list"]));
        assert_eq!(
            (bare.code, &bare.stdout, &bare.stderr),
            (0, &list.stdout, &list.stderr)
        );
    }
    assert_eq!(model.requests().len(), 0);
}

#[test]
fn unknown_names_fail_without_a_daemon_unless_something_waits_for_one() {
    let sandbox = Sandbox::new();
    for (words, says) in [
        (&["--job", "pause", "nosuch"][..], "no job \"nosuch\""),
        (&["--reset", "nosuch"], "no session \"nosuch\""),
    ] {
        let told = sandbox.send(words);
        assert_eq!((told.code, told.stdout.as_str()), (1, ""), "{told:?}");
        assert!(told.stderr.contains(says), "{told:?}");
    }
    assert!(sandbox.spooled().is_empty());
    // What waits may make it.
    let add = ["--job", "add", "look", "--name", "nosuch", "--every", "1h"];
    assert_eq!(sandbox.send(&add).code, 75);
    assert_eq!(sandbox.send(&["--job", "pause", "nosuch"]).code, 75);
    let _daemon = sandbox.ready();
    wait_for("the paused job", SOON, || {
        let jobs = sandbox.send(&["--job", "--json"]).stdout;
        (jobs.contains("nosuch") && jobs.contains("false")).then_some(())
    });
}

#[test]
fn status_shows_the_models_of_a_reload_at_once() {
    let model = FakeModel::start();
    let mut sandbox = Sandbox::new();
    let daemon = sandbox.ready();
    let models = |sandbox: &Sandbox| sandbox.send(&["--status", "--json"]).json()["models"].clone();
    assert_eq!(models(&sandbox), json!(["offline"]));
    sandbox = sandbox.provider_config(
        "mock",
        &format!(
            r#"
            type = "openai"
            base_url = "{}"
            [models.primary]
            model = "mock-model"
            max_tokens = 8192
            context_window = 200000
            cost_per_mtok = [3.0, 15.0, 0.3, 3.75]
            "#,
            model.url()
        ),
    );
    daemon.signal(nix::sys::signal::Signal::SIGHUP);
    // The file is written every 15 s, whatever happens.
    wait_for("the new models", Duration::from_secs(8), || {
        (models(&sandbox) == json!(["primary"])).then_some(())
    });
}

#[test]
fn who_gives_up_waiting_gets_the_id_and_the_answer_later() {
    let (model, sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    let started = Instant::now();
    let told = sandbox.send(&["--wait=1", "--id", "slow", "[[sleep 2500]] done"]);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (75, "slow\n"),
        "{told:?}"
    );
    assert!(told.stderr.contains("--result slow"), "{told:?}");
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "it waited {:?}",
        started.elapsed()
    );

    let home = sandbox.home().display().to_string();
    let told = sandbox.send(&["--home", &home, "--result", "slow"]);
    assert_eq!((told.code, told.stdout.as_str()), (75, ""), "{told:?}");
    // The command in a hint leads to the same agent.
    let again = format!("agent-send --home {home} --result slow --wait");
    assert!(told.stderr.contains(&again), "{told:?}");
    assert_eq!(
        sandbox
            .send(&["--result", "slow", "--wait=0", "--json"])
            .json()["id"],
        "slow"
    );
    let told = sandbox.send(&["--result", "slow", "--wait"]);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "echo: [[sleep 2500]] done\n")
    );
    assert_eq!(daemon.term(), 0);
    // Replies are files: no daemon is needed to read one, and the queue has it when the file is gone.
    assert_eq!(sandbox.send(&["--result", "slow"]).stdout, told.stdout);
    fs::remove_file(sandbox.path("state/replies/slow.json")).expect("the sandbox is writable");
    assert_eq!(sandbox.send(&["--result", "slow"]).stdout, told.stdout);
    assert_eq!(model.requests().len(), 1);

    sandbox.check_failure(
        &["--result", "never-heard-of"],
        1,
        "failed",
        "never-heard-of",
    );
}

#[test]
fn every_name_is_a_session_of_its_own_and_untrusted_words_move_no_hands() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    for (name, text) in [("alice", "one"), ("bob", "two"), ("alice", "three")] {
        assert_eq!(sandbox.send(&["--wait", "--from", name, text]).code, 0);
    }
    let requests = model.requests();
    let messages: Vec<usize> = requests
        .iter()
        .map(|request| request["messages"].as_array().map_or(0, Vec::len))
        .collect();
    assert_eq!(messages, [1, 1, 3], "bob does not hear what alice said");
    let third = requests[2]["messages"].to_string();
    assert!(third.contains("one") && !third.contains("two"), "{third}");

    model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": "touch owned"}),
    ));
    let waiting = sandbox.sending(&["--wait", "--from", "mallory", "--untrusted", "now!"]);
    assert_eq!(sandbox.send(&["--deny", &sandbox.wait_asked()]).code, 0);
    let told = waiting.end();
    assert!(
        told.stdout
            .starts_with("result: this was not run: the owner said no"),
        "{told:?}"
    );
    assert!(!sandbox.path("workspace/owned").exists());
}

#[test]
fn stop_ends_what_runs_and_its_caller_is_told() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    let told = sandbox.send(&["--stop"]);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "Nothing is running.\n"),
        "{told:?}"
    );

    for target in [None, Some("cli:worker")] {
        model.push(Reply::Hang);
        let before = model.requests().len();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| sandbox.send(&["--wait", "--from", "worker", "dig"]));
            model.wait_requests(before + 1, SOON);
            let started = Instant::now();
            if target.is_some() {
                let told = sandbox.send(&["--stop", "cli:someone-else"]);
                assert_eq!((told.code, told.stdout.as_str()), (1, ""), "{told:?}");
            }
            let told = sandbox.send(&["--stop"].into_iter().chain(target).collect::<Vec<&str>>());
            assert_eq!(
                (told.code, told.stdout.as_str()),
                (0, "Stopped.\n"),
                "{told:?}"
            );
            let told = waiting.join().expect("agent-send ran");
            assert!(
                started.elapsed() < Duration::from_secs(2),
                "stopping took {:?}",
                started.elapsed()
            );
            assert_eq!((told.code, told.stdout.as_str()), (1, ""), "{told:?}");
            assert!(told.stderr.contains("stopped"), "{told:?}");
        });
        wait_for("the model's connection to be closed", SOON, || {
            (model.in_flight() == 0).then_some(())
        });
    }
    assert_eq!(
        sandbox
            .send(&["--wait", "--from", "worker", "still here?"])
            .stdout,
        "echo: still here?\n"
    );
}

// ------------------------------------------------------------------ without a daemon

#[test]
fn a_message_without_a_daemon_waits_in_the_spool_and_is_answered_later() {
    let (model, sandbox) = Sandbox::with_model();
    let told = sandbox.send(&["first"]);
    assert_eq!(told.code, 75, "{told:?}");
    assert!(
        told.stderr.contains("queued") && told.stderr.ends_with("starts: agent-daemon run\n"),
        "{told:?}"
    );
    let first = told.stdout.trim().to_owned();
    assert_eq!(first.len(), 36, "the id is a UUID: {told:?}");
    assert_eq!(sandbox.spooled(), [format!("{first}.json")]);

    // Also with --wait, at once; and the same id is one file.
    let started = Instant::now();
    for text in ["second", "second"] {
        let told = sandbox.send(&["--wait", "--id", "zz-second", text]);
        assert_eq!(
            (told.code, told.stdout.as_str()),
            (75, "zz-second\n"),
            "{told:?}"
        );
    }
    assert!(started.elapsed() < SOON);
    let told = sandbox.send(&["--json", "--id", "zz-third", "third"]);
    assert_eq!(
        (told.code, &told.json()["id"], &told.json()["status"]),
        (75, &json!("zz-third"), &json!("queued"))
    );
    assert_eq!(sandbox.spooled().len(), 3);
    let told = sandbox.send(&["--result", "zz-second"]);
    assert_eq!((told.code, told.stdout.as_str()), (75, ""), "{told:?}");

    let _daemon = sandbox.ready();
    for (id, reply) in [
        (first.as_str(), "echo: first\n"),
        ("zz-second", "echo: second\n"),
        ("zz-third", "echo: third\n"),
    ] {
        let told = sandbox.send(&["--result", id, "--wait=20"]);
        assert_eq!((told.code, told.stdout.as_str()), (0, reply), "{told:?}");
    }
    assert_eq!(model.requests().len(), 3);
    assert_eq!(sandbox.spooled(), [] as [String; 0]);
}

#[test]
fn who_wants_no_queue_gets_69_and_leaves_nothing() {
    let (_model, sandbox) = Sandbox::with_model();
    sandbox.check_failure(&["--no-queue", "hello"], 69, "not_running", "control.fifo");
    sandbox.check_failure(
        &["--no-queue", "--wait", "hello"],
        69,
        "not_running",
        "control.fifo",
    );
    sandbox.check_failure(&["--stop"], 69, "not_running", "control.fifo");
    sandbox.check_failure(&["--stop", "cli:cli"], 69, "not_running", "control.fifo");
    assert_eq!(sandbox.spooled(), [] as [String; 0]);
    // A daemon that was killed leaves its FIFO, and nobody reads it.
    sandbox.ready().kill9();
    sandbox.check_failure(&["--no-queue", "hello"], 69, "not_running", "control.fifo");
    assert_eq!(sandbox.send(&["hello"]).code, 75);
    assert_eq!(sandbox.spooled().len(), 1);
}

#[test]
fn the_status_is_a_document_with_a_daemon_and_without() {
    let (_model, sandbox) = Sandbox::with_model();
    let told = sandbox.send(&["--status", "--json"]);
    assert_eq!(
        (told.code, &told.json()["running"], &told.json()["pid"]),
        (69, &json!(false), &Value::Null)
    );
    let told = sandbox.send(&["--status"]);
    assert_eq!(told.code, 69);
    assert!(told.stdout.starts_with("not running\n"), "{told:?}");

    let daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--wait", "hello"]).code, 0);
    let status = wait_for("the status to know of the call", SOON, || {
        let status = sandbox.send(&["--status", "--json"]);
        assert_eq!(status.code, 0, "{status:?}");
        Some(status.json())
            .filter(|status| status["today_cost_usd"] != 0.0 && status["active_sessions"] == 1)
    });
    assert_eq!(
        (&status["running"], status["pid"].as_i64()),
        (&json!(true), Some(i64::from(daemon.pid().as_raw())))
    );
    for field in [
        "version",
        "uptime_secs",
        "channels",
        "models",
        "queue",
        "sandbox",
    ] {
        assert!(!status[field].is_null(), "{field}: {status}");
    }
    assert!(status.get("last_error").is_some(), "{status}");
    assert_eq!(status["queue"], json!({"inbox": 0, "outbox": 0, "dead": 0}));
    assert_eq!(status["models"], json!(["primary"]));

    daemon.kill9();
    assert_eq!(
        sandbox.send(&["--status", "--json"]).json()["running"],
        false
    );
}

// ------------------------------------------------------------------ command lines that make no sense

#[test]
fn command_lines_that_make_no_sense_are_refused_with_2() {
    let sandbox = Sandbox::new();
    for arguments in [
        &[][..],
        &[""],
        &["   "],
        &["--id", "../etc", "hello"],
        &["--id", "", "hello"],
        &["--result", "no such/id"],
        &["--approve", "K3!"],
        &["--deny", "../x", "no"],
        &["--for-session", "hello"],
        &["--pair", "marry"],
        &["--pair", "approve"],
    ] {
        sandbox.check_failure(arguments, 2, "usage", "agent-send");
    }
    for arguments in [
        &["--status", "hello"][..],
        &["--stop", "--status"],
        &["--approve", "k3f9w2", "hello"],
        &["--approve", "k3f9w2", "--deny", "k3f9w2"],
        &["--deny", "k3f9w2", "--for-session"],
        &["--wait=soon", "hello"],
        &["--teleport"],
        &["hello", "world"],
        &["--result", "a", "hello"],
    ] {
        let told = sandbox.send(arguments);
        assert_eq!(
            (told.code, told.stdout.as_str()),
            (2, ""),
            "{arguments:?}: {told:?}"
        );
        assert!(told.stderr.contains("--help"), "{arguments:?}: {told:?}");
        let with_json: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        let told = sandbox.send(&with_json);
        assert_eq!(
            (told.code, &told.json()["error"]["code"]),
            (2, &json!("usage")),
            "{with_json:?}"
        );
    }
    assert_eq!(sandbox.spooled(), [] as [String; 0]);
}

#[test]
fn pairing_words_work_without_a_daemon() {
    let sandbox = Sandbox::new();
    let told = sandbox.send(&["--pair", "list"]);
    assert_eq!((told.code, told.stdout.as_str()), (0, ""), "{told:?}");
    let told = sandbox.send(&["--pair", "owner"]);
    assert_eq!((told.code, told.stdout.trim().len()), (0, 16), "{told:?}");
    assert!(told.stderr.contains("10 minutes"), "{told:?}");
    assert!(
        !sandbox
            .send(&["--pair", "list", "--json"])
            .stdout
            .contains(told.stdout.trim()),
        "the code is shown once"
    );
    sandbox.check_failure(&["--pair", "approve", "AAAAAAAA"], 1, "failed", "AAAAAAAA");
    sandbox.check_failure(&["--pair", "revoke", "77"], 1, "failed", "77");
    let told = sandbox.send(&["--pair", "unblock", "77"]);
    assert_eq!(told.stdout, "nothing changed: 77 is unblocked already\n");
    let owner = r#"{"version":1,"owners":[{"id":77,"name":"Ada","since":1}]}"#;
    sandbox.put("state/people.json", owner.as_bytes());
    let listed = sandbox.send(&["--pair", "list", "--json"]).json();
    assert_eq!(listed["owners"][0]["since"], "1970-01-01T00:00:00.001Z");
    let told = sandbox.send(&["--pair", "revoke", "77"]);
    assert!(
        told.code == 0
            && told
                .stdout
                .ends_with("make an owner: agent-send --pair owner\n"),
        "{told:?}"
    );
}

// ------------------------------------------------------------------ standard input, pipes

#[test]
fn standard_input_is_a_message_when_it_is_text() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    let told = sandbox.bash("printf 'one\\ntwo' | agent-send --wait -");
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "echo: two\n"),
        "{told:?}"
    );
    assert!(model.requests()[0].to_string().contains("one\\ntwo"));

    // It is a file, too, where the words stand on the command line; and nothing otherwise.
    let told = sandbox.bash("printf 'the diff' | agent-send --wait --attach - 'review this'");
    assert_eq!(told.code, 0, "{told:?}");
    let asked = model.requests()[1].to_string();
    assert!(
        asked.contains("the diff") && asked.contains("stdin.txt"),
        "{asked}"
    );
    let told = sandbox.bash("printf 'both' | agent-send --attach - -");
    assert_eq!(told.code, 2, "{told:?}");
    let told = sandbox.bash("printf 'ab\\377cd' | agent-send --wait -");
    assert_eq!((told.code, told.stdout.as_str()), (65, ""), "{told:?}");
    assert!(
        told.stderr.contains("not valid UTF-8 (byte 2)") && told.stderr.contains("\nhint: "),
        "{told:?}"
    );
    let told = sandbox.bash("printf 'ab\\377cd' | agent-send --json -");
    assert_eq!(
        (told.code, &told.json()["error"]["code"]),
        (65, &json!("bad_data"))
    );
    assert_eq!(sandbox.bash("agent-send - </dev/null").code, 2);
    assert_eq!(
        model.requests().len(),
        2,
        "what was refused did not reach the model"
    );
    assert_eq!(sandbox.spooled(), [] as [String; 0]);
}

/// A window that a megabyte fits into.
const WIDE: &str = "[models.primary]\ncontext_window = 2000000\ncompact_at = 1900000";

#[test]
fn a_message_of_a_megabyte_arrives_whole() {
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.provider_config("mock", WIDE);
    let text = format!("{}\nthe end", "0123456789abcde\n".repeat(1 << 16));
    let queued = sandbox.run("agent-send", &["--id", "big", "-"], &text);
    assert_eq!(queued.code, 75, "{queued:?}");
    let _daemon = sandbox.ready();
    let told = sandbox.send(&["--result", "big", "--wait=30"]);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "echo: the end\n"),
        "{told:?}"
    );
    let request = &model.requests()[0];
    let content = request["messages"][0]["content"]
        .as_array()
        .expect("blocks");
    assert!(
        content.iter().any(|block| block["text"]
            .as_str()
            .is_some_and(|words| words.ends_with(&text))),
        "it was changed"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let (_model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    for command in [
        "agent-send --wait '[[long 300000]]'",
        "agent-send --wait --json '[[long 300000]]'",
        "agent-send --status",
        "agent-send --help",
        "agent-send --version",
        "agent-daemon check --show-origin",
    ] {
        let told = sandbox.bash(&format!("{command} | head -c0; exit ${{PIPESTATUS[0]}}"));
        assert_eq!(
            (told.code, told.stdout.as_str()),
            (0, ""),
            "{command}: {told:?}"
        );
        assert!(
            !told.stderr.contains("roken pipe") && !told.stderr.contains("panic"),
            "{command}: {told:?}"
        );
    }
}

// ------------------------------------------------------------------ the FIFO

#[test]
fn a_script_may_echo_a_whole_command() {
    let (_model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    let script = r#"echo '{"cmd":"user","id":"echoed","sender":"script","text":"from echo","colour":"ignored"}' > state/control.fifo"#;
    assert_eq!(sandbox.bash(script).code, 0);
    assert_eq!(
        sandbox.send(&["--result", "echoed", "--wait=20"]).stdout,
        "echo: from echo\n"
    );
    // Said again under the same id it is the same command.
    assert_eq!(sandbox.bash(script).code, 0);
    assert_eq!(
        sandbox
            .bash(r#"echo '{"cmd":"user","id":"last","text":"end"}' > state/control.fifo"#)
            .code,
        0
    );
    assert_eq!(
        sandbox.send(&["--result", "last", "--wait=20"]).stdout,
        "echo: end\n"
    );
    assert_eq!(
        sandbox
            .query("queue", "SELECT id FROM inbox ORDER BY seq")
            .len(),
        2
    );
}

#[test]
fn bad_lines_are_answered_and_the_daemon_goes_on() {
    let (_model, sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    let mut fifo = fs::OpenOptions::new()
        .write(true)
        .open(sandbox.path("state/control.fifo"))
        .expect("the daemon listens");
    let mut write = |line: &[u8]| fifo.write_all(line).expect("the daemon reads");
    let refused = [
        (r#"{"id":"b1","cmd":"dance"}"#, "dance"),
        (r#"{"id":"b2","cmd":"user"}"#, "text"),
        (r#"{"id":"b3","cmd":"user","text":7}"#, "expected a string"),
        (r#"{"id":"b4","v":2,"cmd":"user","text":"x"}"#, "version 2"),
        (r#"{"id":"b5"}"#, "cmd"),
        (
            r#"{"id":"b6","cmd":"user","text":"x","model":"no-such-model"}"#,
            "no-such-model",
        ),
        (
            r#"{"id":"b7","cmd":"reset","target":"no-such-session"}"#,
            "no-such-session",
        ),
    ];
    for nameless in [
        "hello",
        "[1, 2]",
        "\"text\"",
        "{\"cmd\":\"user\"}",
        r#"{"id":"../x","cmd":"stop"}"#,
        "{}",
        "",
        "\u{0}\u{1}",
    ] {
        write(format!("{nameless}\n").as_bytes());
    }
    write(b"\xff\xfe\n");
    for (line, _) in refused {
        write(format!("{line}\n").as_bytes());
    }
    // A line that is too long is dropped, and nothing after it; who gave an id is told.
    for piece in [b"x".repeat(4096), b"y".repeat(4096), b"\n".to_vec()] {
        write(&piece);
    }
    let long = json!({"cmd": "user", "text": "long ".repeat(1_000), "id": "b8"});
    write(format!("{long}\n").as_bytes());
    write(b"{\"cmd\":\"user\",\"id\":\"good\",\"text\":\"still alive\"}\n");

    assert_eq!(
        sandbox.send(&["--result", "good", "--wait=20"]).stdout,
        "echo: still alive\n",
        "{}",
        daemon.log()
    );
    for (line, why) in refused {
        let id = line.get(7..9).expect("an id of two letters");
        let told = sandbox.send(&["--result", id]);
        assert_eq!(told.code, 1, "{line}: {told:?}");
        assert!(told.stderr.contains(why), "{line}: {told:?}");
    }
    let told = sandbox.send(&["--result", "b8"]);
    assert!(told.stderr.contains("4096 with their end"), "{told:?}");
    let replies = fs::read_dir(sandbox.path("state/replies"))
        .expect("replies")
        .count();
    assert_eq!(
        replies,
        refused.len() + 2,
        "only who gave an id is answered"
    );
    assert!(!sandbox.path("state/x.json").exists());
    assert!(daemon.log().contains("invalid command"), "{}", daemon.log());
    assert_eq!(daemon.term(), 0);
}

#[test]
fn fifty_writers_of_long_lines_do_not_mix() {
    const WRITERS: usize = 50;
    const LINE: usize = 4000;
    let model = FakeModel::start();
    let sandbox = Sandbox::new()
        .with_anthropic(&model)
        .config("[agent]\nmax_concurrent_runs = 16");
    let _daemon = sandbox.ready();
    let line = |number: usize| {
        let letter = char::from(b'a' + u8::try_from(number % 26).expect("a letter"));
        let with = |text: &str| {
            format!(
                "{{\"cmd\":\"user\",\"id\":\"w{number:02}\",\"sender\":\"w{number:02}\",\"text\":\"{text}\"}}\n"
            )
        };
        let text = format!(
            "{number:02}{}",
            letter.to_string().repeat(LINE - with("").len() - 2)
        );
        (with(&text), text)
    };
    thread::scope(|scope| {
        for number in 0..WRITERS {
            let fifo = sandbox.path("state/control.fifo");
            scope.spawn(move || {
                let (line, _) = line(number);
                assert_eq!(line.len(), LINE);
                let mut fifo = fs::OpenOptions::new()
                    .write(true)
                    .open(fifo)
                    .expect("the daemon listens");
                assert_eq!(
                    fifo.write(line.as_bytes()).expect("the daemon reads"),
                    LINE,
                    "one write, as echo does it"
                );
            });
        }
    });
    for number in 0..WRITERS {
        let told = sandbox.send(&["--result", &format!("w{number:02}"), "--wait=30"]);
        assert_eq!(
            (told.code, told.stdout),
            (0, format!("echo: {}\n", line(number).1)),
            "writer {number}"
        );
    }
    assert_eq!(model.requests().len(), WRITERS);
}

// ------------------------------------------------------------------ all five

#[test]
fn all_five_say_their_version_and_that_of_sqlite() {
    let sandbox = Sandbox::new();
    for name in [
        "agent-daemon",
        "agent-send",
        "agent-index",
        "agent-consolidate",
        "agent-monitor",
    ] {
        let told = sandbox.run(name, &["--version"], "");
        let words: Vec<&str> = told.stdout.split_whitespace().collect();
        assert_eq!(
            (told.code, words.len(), words[0], words[1]),
            (0, 4, name, env!("CARGO_PKG_VERSION")),
            "{told:?}"
        );
        assert_eq!(words[2], "(SQLite");
        let version: Vec<u32> = words[3]
            .trim_end_matches(')')
            .split('.')
            .map(|part| part.parse().expect("a number"))
            .collect();
        assert!(
            version >= vec![3, 51, 3],
            "{version:?} can corrupt a database that has several connections"
        );
        let told = sandbox.run(name, &["--help"], "");
        assert_eq!((told.code, told.stderr.as_str()), (0, ""));
        assert!(
            told.stdout.contains(name) && told.stdout.contains("--home"),
            "{told:?}"
        );
        let told = sandbox.run(name, &["--no-such-flag"], "");
        assert_eq!((told.code, told.stdout.as_str()), (2, ""));
    }
}

#[test]
fn what_the_owner_typed_runs_after_untrusted_words_and_a_stranger_commands_nothing() {
    let sandbox = Sandbox::new();
    let _daemon = sandbox.ready();
    let say = |arguments: &[&str]| sandbox.send(&[&["--wait=20"], arguments].concat()).stdout;
    say(&["--untrusted", "somebody else's words"]);
    // Every argument of the call stands in what the owner typed.
    assert_eq!(say(&["!exec echo ok"]), "```\nok\n```\n");
    assert_eq!(
        say(&["/new"]),
        "New conversation. The previous one is archived.\n"
    );
    assert_eq!(say(&["!exec echo ok"]), "```\nok\n```\n");
    assert!(
        !say(&["--untrusted", "/new"]).contains("New conversation"),
        "a stranger's word commands nothing"
    );
}

#[test]
fn data_that_cannot_be_written_is_an_error_and_a_reader_that_left_is_none() {
    let sandbox = Sandbox::new();
    let full = sandbox.bash("agent-send --status > /dev/full");
    assert_eq!(full.code, 74);
    assert!(
        full.stderr.contains("standard output could not be written"),
        "{}",
        full.stderr
    );
    let left = sandbox.bash("agent-send --status --json | head -c0; echo ${PIPESTATUS[0]}");
    assert_eq!((left.stdout.as_str(), left.stderr.as_str()), ("69\n", ""));
}

#[test]
fn a_line_without_its_end_harms_nobody_and_a_lost_fifo_loses_no_command() {
    let sandbox = Sandbox::new();
    let _daemon = sandbox.ready();
    let fifo = sandbox.path("state/control.fifo");
    let put = |text: &str| {
        fs::OpenOptions::new()
            .write(true)
            .open(&fifo)
            .and_then(|mut fifo| fifo.write_all(text.as_bytes()))
    };
    put(r#"{"cmd":"user","id":"g1","text":"no newline"}"#).expect("first");
    put("{\"cmd\":\"user\",\"id\":\"g2\",\"text\":\"good\"}\n").expect("second");
    for id in ["g1", "g2"] {
        assert_eq!(sandbox.send(&["--result", id, "--wait=20"]).code, 0, "{id}");
    }
    fs::remove_file(&fifo).expect("remove");
    assert_eq!(sandbox.send(&["--wait=20", "without a bell"]).code, 0);
    assert_eq!(sandbox.send(&["--stop"]).stdout, "Nothing is running.\n");
}

#[test]
fn the_queue_shows_what_waits() {
    let (model, sandbox) = Sandbox::with_model();
    model.push(Reply::Hang);
    assert_eq!(
        sandbox.send(&["--queue", "--json"]).json(),
        json!({"inbox": [], "outbox": [], "dead": [], "approvals": []})
    );
    let _daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--id", "slow", "hello"]).code, 0);
    let row = wait_for("the message is in the queue", SOON, || {
        sandbox.send(&["--queue", "--json"]).json()["inbox"]
            .get(0)
            .filter(|row| row["state"] == "running")
            .cloned()
    });
    assert_eq!(
        (&row["id"], &row["place"], &row["attempts"]),
        (&json!("slow"), &json!("cli:cli"), &json!(1))
    );
    assert!(sandbox.send(&["--queue"]).stdout.starts_with("running "));
}
