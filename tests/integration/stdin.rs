//! Lines of standard input: `agent-daemon --channel cli`, `--once`, and `agent-send --chat` in a pipe.

use std::{
    io::Read as _,
    process::Stdio,
    time::{Duration, Instant},
};

use nix::sys::signal::{Signal, kill};

use crate::support::{FakeTelegram, Fault, FaultKind, Reply, Running, Sandbox, wait_for};

/// Long against everything that happens here, short against the patience of a reader.
const SOON: Duration = Duration::from_secs(20);
const OWNER: i64 = 1001;

fn cli(sandbox: &Sandbox) -> Running {
    sandbox.starting("agent-daemon", &["--channel", "cli"])
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

// ------------------------------------------------------------------ --channel cli

#[test]
fn lines_are_answered_in_order_and_the_end_of_input_is_the_end() {
    let (model, sandbox) = Sandbox::with_model();
    let input: String = (0..30).map(|number| format!("line {number}\n\n")).collect();
    let told = sandbox.run(
        "agent-daemon",
        &["--channel", "cli"],
        &(input + "[[say no newline at its end]]"),
    );
    let mut expected: Vec<String> = (0..30)
        .map(|number| format!("echo: line {number}"))
        .collect();
    expected.push("no newline at its end".to_owned());
    assert_eq!(
        (told.code, lines(&told.stdout)),
        (0, expected.iter().map(String::as_str).collect()),
        "{told:?}"
    );
    assert_eq!(model.requests().len(), 31, "an empty line is no message");
    assert_eq!(
        model.requests()[30]["messages"].as_array().map(Vec::len),
        Some(61),
        "one conversation"
    );
    // Nothing to say is nothing on stdout; a turn that fails says so and the next line is answered.
    model.push(Reply::Text("NO_REPLY".to_owned()));
    model.push(Reply::Status(400, None));
    let told = sandbox.run(
        "agent-daemon",
        &["run", "--channel", "cli"],
        "quiet\nbroken\n/new\nhi\n",
    );
    let said = lines(&told.stdout);
    assert_eq!((told.code, said.last()), (0, Some(&"echo: hi")), "{told:?}");
    assert!(
        said.len() > 2 && !told.stdout.contains("NO_REPLY"),
        "{told:?}"
    );
    let told = sandbox.run("agent-daemon", &["--channel=cli"], "");
    assert_eq!((told.code, told.stdout.as_str()), (0, ""), "{told:?}");
}

#[test]
fn what_is_no_text_is_a_message_too_and_a_long_line_stays_one() {
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.provider_config(
        "mock",
        "[models.primary]\ncontext_window = 2000000\ncompact_at = 1900000",
    );
    let script = "printf 'caf\\351\\r\\n' | agent-daemon --channel cli";
    let told = sandbox.bash(script);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "echo: caf\u{fffd}\n"),
        "{told:?}"
    );
    let long = "x".repeat(300_000);
    let told = sandbox.run(
        "agent-daemon",
        &["--channel", "cli"],
        &format!("{long}\nshort\n"),
    );
    assert_eq!(
        (told.code, told.stdout),
        (0, format!("echo: {long}\necho: short\n"))
    );
    assert_eq!(model.requests().len(), 3);
}

#[test]
fn the_other_doors_are_closed_and_the_spool_is_open() {
    let telegram = FakeTelegram::start();
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.with_telegram(&telegram);
    telegram.say(OWNER, OWNER, "not today");
    let daemon = cli(&sandbox);
    daemon.write("one\n");
    assert_eq!(daemon.wait_said("\n"), "echo: one\n");
    assert_eq!(
        sandbox.send(&["--wait", "--from", "ada", "two"]).stdout,
        "echo: two\n"
    );
    let told = daemon.end();
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "echo: one\n"),
        "{told:?}"
    );
    assert_eq!((telegram.pending_updates(), telegram.calls().len()), (1, 0));
    assert_eq!(model.requests().len(), 2);
    // Both doors.
    let daemon = sandbox.starting("agent-daemon", &["--channel", "telegram,cli"]);
    daemon.write("three\n");
    daemon.wait_said("echo: three\n");
    telegram.wait_sent(|sent| sent.text == "echo: not today", SOON);
    assert_eq!(daemon.end().code, 0);
}

#[test]
fn a_reader_that_is_slow_holds_up_nothing_else_and_one_that_left_is_no_error() {
    let (model, sandbox) = Sandbox::with_model();
    let mut command = sandbox.command("agent-daemon");
    command
        .args(["--channel", "cli"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    let mut input = child.stdin.take().expect("piped");
    // More than a pipe holds, and nobody reads.
    std::io::Write::write_all(&mut input, b"[[long 200000]]\n[[long 200001]]\nlast\n")
        .expect("it reads");
    drop(input);
    model.wait_requests(2, SOON);
    assert_eq!(
        sandbox
            .send(&["--wait", "--from", "ada", "meanwhile"])
            .stdout,
        "echo: meanwhile\n"
    );
    assert!(
        child.try_wait().expect("a child").is_none(),
        "it is not done"
    );
    let mut said = String::new();
    child
        .stdout
        .take()
        .expect("piped")
        .read_to_string(&mut said)
        .expect("text");
    assert_eq!(said.len(), 200_000 + 1 + 200_001 + 1 + "echo: last\n".len());
    assert!(said.ends_with("\necho: last\n"));
    assert_eq!(child.wait().expect("a child").code(), Some(0));

    let started = Instant::now();
    let told = sandbox.bash("for i in 1 2 3; do echo \"[[long 100000]] $i\"; done | agent-daemon --channel cli | head -c 3");
    assert_eq!((told.code, told.stdout.as_str()), (0, "w00"), "{told:?}");
    let told = sandbox.bash("echo hello | agent-daemon --channel cli >&-");
    assert_eq!(told.code, 0, "{told:?}");
    assert!(started.elapsed() < SOON);
    assert_eq!(
        sandbox.send(&["--queue", "--json"]).json()["outbox"],
        serde_json::json!([])
    );
}

#[test]
fn a_daemon_whose_reader_sleeps_ends_when_it_is_told_to() {
    let (model, sandbox) = Sandbox::with_model();
    let mut command = sandbox.command("agent-daemon");
    command
        .args(["--channel", "cli"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    let mut input = child.stdin.take().expect("piped");
    std::io::Write::write_all(&mut input, b"[[long 200000]]\n").expect("it reads");
    model.wait_requests(1, SOON);
    kill(
        nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a pid")),
        Signal::SIGTERM,
    )
    .expect("own child");
    let ended = wait_for("it to end", Duration::from_secs(30), || {
        child.try_wait().expect("a child")
    });
    assert_eq!(ended.code(), Some(0));
}

#[test]
fn killed_in_the_middle_and_started_again_each_line_is_answered_once() {
    let (model, sandbox) = Sandbox::with_model();
    model.push(Reply::Text("the first answer".to_owned()));
    model.push(Reply::Hang);
    let daemon = cli(&sandbox);
    daemon.write("one\ntwo\nthree\n");
    model.wait_requests(2, SOON);
    let said = daemon.wait_said("the first answer\n");
    wait_for("all to be taken in", SOON, || {
        (sandbox.query("queue", "SELECT id FROM inbox").len() == 3).then_some(())
    });
    wait_for("the answer to be known as sent", SOON, || {
        (sandbox
            .query("queue", "SELECT id FROM outbox WHERE state = 'sent'")
            .len()
            == 1)
            .then_some(())
    });
    kill(daemon.pid(), Signal::SIGKILL).expect("own child");
    drop(daemon);
    assert_eq!(said, "the first answer\n");
    // Without that door they wait, and nothing is answered into nowhere.
    let other = sandbox.ready();
    assert_eq!(sandbox.send(&["--wait", "--from", "ada", "hello"]).code, 0);
    assert_eq!(
        sandbox.send(&["--queue", "--json"]).json()["inbox"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
    assert_eq!(other.term(), 0);
    let told = sandbox.run("agent-daemon", &["--channel", "cli"], "four\n");
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "echo: two\necho: three\necho: four\n"),
        "{told:?}"
    );
    assert_eq!(
        sandbox
            .query("queue", "SELECT id FROM inbox WHERE state = 'done'")
            .len(),
        5
    );
}

// ------------------------------------------------------------------ --once

#[test]
fn once_handles_what_waits_and_ends() {
    let (model, sandbox) = Sandbox::with_model();
    let started = Instant::now();
    let told = sandbox.run("agent-daemon", &["--once"], "");
    assert_eq!((told.code, told.stdout.as_str()), (0, ""), "{told:?}");
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "nothing waited, and it took {:?}",
        started.elapsed()
    );
    for number in 0..70 {
        assert_eq!(
            sandbox
                .send(&[
                    "--id",
                    &format!("o{number:02}"),
                    &format!("message {number}")
                ])
                .code,
            75
        );
    }
    let told = sandbox.run("agent-daemon", &["run", "--once"], "");
    assert_eq!((told.code, told.stdout.as_str()), (0, ""), "{told:?}");
    for number in 0..70 {
        assert_eq!(
            sandbox.send(&["--result", &format!("o{number:02}")]).stdout,
            format!("echo: message {number}\n")
        );
    }
    assert_eq!((model.requests().len(), sandbox.spooled()), (70, vec![]));
    // Both: what waits, then the lines.
    assert_eq!(sandbox.send(&["--id", "p", "waited"]).code, 75);
    let told = sandbox.run("agent-daemon", &["--once", "--channel", "cli"], "a line\n");
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "echo: a line\n"),
        "{told:?}"
    );
    assert_eq!(sandbox.send(&["--result", "p"]).stdout, "echo: waited\n");
    for usage in [
        &["--channel", "smoke"][..],
        &["--channel"],
        &["--once", "check"],
        &["--channel", "cli", "init"],
    ] {
        let told = sandbox.run("agent-daemon", usage, "");
        assert_eq!(
            (told.code, told.stdout.as_str()),
            (2, ""),
            "{usage:?}: {told:?}"
        );
    }
    assert_eq!(sandbox.ready().term(), 0);
}

#[test]
fn once_takes_what_waits_at_telegram_and_is_75_when_that_cannot_be_asked() {
    let telegram = FakeTelegram::start();
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.with_telegram(&telegram);
    for number in 0..5 {
        telegram.say(OWNER, OWNER, &format!("message {number}"));
    }
    let told = sandbox.run("agent-daemon", &["--once"], "");
    assert_eq!(told.code, 0, "{told:?}");
    let heard: Vec<String> = telegram.sent().into_iter().map(|sent| sent.text).collect();
    assert_eq!(
        heard,
        (0..5)
            .map(|number| format!("echo: message {number}"))
            .collect::<Vec<String>>()
    );
    assert_eq!(telegram.pending_updates(), 0, "they are confirmed");
    assert_eq!(sandbox.run("agent-daemon", &["--once"], "").code, 0);
    assert_eq!(telegram.sent().len(), 5);

    // Words for people wait with it; what needs no Telegram is done.
    assert_eq!(
        sandbox
            .send(&["--id", "r1", "--raw", "--to", "owner", "late"])
            .code,
        75
    );
    assert_eq!(sandbox.send(&["--id", "u1", "hello"]).code, 75);
    telegram.fault(Fault {
        method: "*",
        kind: FaultKind::Status(502),
        count: u32::MAX,
    });
    let started = Instant::now();
    let told = sandbox.run("agent-daemon", &["--once"], "");
    assert_eq!(told.code, 75, "{told:?}");
    assert!(started.elapsed() < SOON, "it took {:?}", started.elapsed());
    assert_eq!(sandbox.send(&["--result", "u1"]).stdout, "echo: hello\n");
    telegram.heal();
    assert_eq!(sandbox.run("agent-daemon", &["--once"], "").code, 0);
    assert_eq!(
        telegram
            .sent()
            .last()
            .map(|sent| sent.text.clone())
            .as_deref(),
        Some("late")
    );
    assert_eq!(telegram.sent().len(), 6);
    assert_eq!(model.requests().len(), 6);
}

#[test]
fn a_message_of_a_channel_that_is_off_today_is_answered_when_it_is_on_again() {
    let telegram = FakeTelegram::start();
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.with_telegram(&telegram);
    let daemon = sandbox.ready();
    model.push(Reply::Hang);
    telegram.say(OWNER, OWNER, "important");
    model.wait_requests(1, SOON);
    daemon.kill9();
    for arguments in [&["--once", "--channel", "cli"][..], &["--channel", "cli"]] {
        assert_eq!(
            sandbox.run("agent-daemon", arguments, "").code,
            0,
            "{arguments:?}"
        );
        assert_eq!(
            sandbox.send(&["--queue", "--json"]).json()["inbox"]
                .as_array()
                .map(Vec::len),
            Some(1)
        );
    }
    let _daemon = sandbox.ready();
    telegram.wait_sent(|sent| sent.text == "echo: important", SOON);
}

// ------------------------------------------------------------------ --chat in a pipe

#[test]
fn lines_of_a_pipe_are_answered_in_order_and_a_failure_is_1_at_the_end() {
    let (model, sandbox) = Sandbox::with_model();
    let chat = |arguments: &[&str], input: &str| {
        sandbox.run("agent-send", &[&["--chat"], arguments].concat(), input)
    };
    let told = chat(&[], "hello\n");
    assert_eq!((told.code, told.stdout.as_str()), (69, ""), "{told:?}");
    let daemon = sandbox.ready();
    let told = chat(&[], "one\n\n  \ntwo\\\nand a half\nthree");
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "echo: one\necho: and a half\necho: three\n"),
        "{told:?}"
    );
    assert_eq!(told.stderr, "", "a pipe is not greeted");
    assert!(model.requests()[1].to_string().contains("two\\nand a half"));
    assert_eq!(
        sandbox.read("state/chat_history"),
        None,
        "what a script says is not remembered"
    );
    model.push(Reply::Status(400, None));
    let told = chat(&[], "broken\nnext\n/quit\nnever\n");
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (1, "echo: next\n"),
        "{told:?}"
    );
    assert!(told.stderr.starts_with("agent-send: "), "{told:?}");
    let told = chat(&["--from", "ada", "--tier", "operational"], "who?\n/new\n");
    assert_eq!((told.code, lines(&told.stdout).len()), (0, 2), "{told:?}");
    assert_eq!(chat(&[], "").code, 0);
    // The daemon goes while the prompt waits.
    let waiting = sandbox.starting("agent-send", &["--chat"]);
    waiting.write("hello\n");
    waiting.wait_said("echo: hello\n");
    assert_eq!(daemon.term(), 0);
    waiting.write("anybody?\n");
    let told = waiting.end();
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (75, "echo: hello\n"),
        "{told:?}"
    );
    assert!(told.stderr.contains("\nhint: "), "{told:?}");
    assert_eq!(sandbox.spooled().len(), 1, "it is not lost");
}

#[test]
fn what_is_no_text_ends_a_chat_with_65_after_what_came_before() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    let told = sandbox.bash("printf 'good\\nb\\377d\\nnever\\n' | agent-send --chat");
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (65, "echo: good\n"),
        "{told:?}"
    );
    assert!(
        told.stderr.contains("UTF-8") && told.stderr.contains("\nhint: "),
        "{told:?}"
    );
    assert_eq!(model.requests().len(), 1);
}
