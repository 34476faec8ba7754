//! What a person at a terminal sees, and what nobody else does: a spinner, a prompt with a history. The
//! terminal is a pseudo terminal of script(1); without it these tests say so and pass.
#![allow(clippy::print_stdout, reason = "a test says when it is skipped")]

mod prompt;

use std::{os::unix::fs::PermissionsExt as _, process::Command, time::Duration};

use crate::support::{FakeModel, Reply, Running, Sandbox, wait_for};

/// Long against everything that happens here, short against the patience of a reader.
const SOON: Duration = Duration::from_secs(20);

pub(crate) fn no_terminal() -> bool {
    let missing = Command::new("script").arg("--version").output().is_err();
    if missing {
        println!("skipped: script(1) is not installed (bsdutils)");
    }
    missing
}

/// Runs a line of sh, one command, on a terminal of its own, whose lines end with `\r\n`.
pub(crate) fn on_terminal(sandbox: &Sandbox, environment: &[(&str, &str)], line: &str) -> Running {
    let mut shell = sandbox.shell();
    shell
        .current_dir(sandbox.home())
        .env("TERM", "xterm")
        .envs(environment.iter().copied())
        .env("LINE", line);
    // The shell only finds script(1), which has no better way to be given a command.
    Running::start(shell.args(["-c", "exec script -qec \"exec $LINE\" /dev/null"]))
}

/// Starts a line of the shell on a terminal of its own; `None` where script(1) is absent.
pub(crate) fn shell_on_terminal(sandbox: &Sandbox, line: &str) -> Option<Running> {
    Command::new("script").arg("--version").output().ok()?;
    let mut shell = sandbox.shell();
    shell
        .current_dir(sandbox.home())
        .env("TERM", "xterm")
        .env("LINE", line);
    Some(Running::start(
        shell.args(["-c", "exec script -qec \"$LINE\" /dev/null"]),
    ))
}

/// Waits for an answer that takes a moment and returns what stood on the terminal.
fn watched(
    model: &FakeModel,
    sandbox: &Sandbox,
    environment: &[(&str, &str)],
    line: &str,
) -> String {
    let before = model.requests().len();
    model.push(Reply::Text("the answer".to_owned()));
    let running = on_terminal(sandbox, environment, line);
    model.wait_requests(before + 1, SOON);
    let told = running.end();
    assert_eq!(told.code, 0, "{line}: {told:?}");
    told.stdout
}

#[test]
fn a_spinner_says_what_the_agent_does_and_leaves_the_answer_alone() {
    if no_terminal() {
        return;
    }
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    for flag in ["--wait", "--stream"] {
        model.push(Reply::Tool(
            "exec".to_owned(),
            serde_json::json!({"command": "while test ! -e go; do sleep 0.05; done"}),
        ));
        model.push(Reply::Text("the answer".to_owned()));
        let running = on_terminal(&sandbox, &[], &format!("agent-send {flag} hello"));
        running.wait_said("running exec");
        sandbox.put("workspace/go", b"");
        let told = running.end();
        assert_eq!(told.code, 0, "{told:?}");
        let (_, last) = told
            .stdout
            .rsplit_once("\u{1b}[2K")
            .expect("the spinner's line is cleared");
        assert_eq!(last, "the answer\r\n", "{flag}");
        std::fs::remove_file(sandbox.path("workspace/go")).expect("the sandbox is writable");
    }
}

#[test]
fn where_there_is_no_terminal_or_no_wish_there_is_no_spinner_and_no_escape_code() {
    if no_terminal() {
        return;
    }
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    let slow = "agent-send --wait \"[[sleep 900]] hello\"";
    let answer = "echo: [[sleep 900]] hello";
    let see = |environment: &[(&str, &str)], line: &str| {
        let told = on_terminal(&sandbox, environment, line).end();
        assert_eq!(
            (told.code, told.stderr.as_str()),
            (0, ""),
            "{line}: {told:?}"
        );
        told.stdout
    };
    assert!(see(&[], slow).contains("thinking"), "the terminal is one");
    assert_eq!(see(&[("NO_COLOR", "1")], slow), format!("{answer}\r\n"));
    assert_eq!(see(&[("TERM", "dumb")], slow), format!("{answer}\r\n"));
    assert_eq!(see(&[], &format!("{slow} 2>talk")), format!("{answer}\r\n"));
    assert_eq!(sandbox.read("talk").as_deref(), Some(""));
    assert_eq!(see(&[], &format!("{slow} -q")), format!("{answer}\r\n"));
    // The answer goes into a file, the spinner stays on the terminal.
    assert!(see(&[], &format!("{slow} >data")).contains("thinking"));
    assert_eq!(sandbox.read("data"), Some(format!("{answer}\n")));
    // A quick answer shows nothing; on a disk that stalls one of a few is quick.
    let quick = || watched(&model, &sandbox, &[], "agent-send --wait hello") == "the answer\r\n";
    assert!((0..5).any(|_| quick()));
}

#[test]
fn what_the_agent_says_cannot_command_the_terminal() {
    if no_terminal() {
        return;
    }
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2Jtext\u{9b}1m\ttab\n";
    for (line, seen) in [
        ("agent-send --wait hi", "]0;owned[2Jtext1m\ttab\r\n\r\n"),
        ("agent-send --stream hi", "]0;owned[2Jtext1m\ttab\r\n"),
    ] {
        model.push(Reply::Text(evil.to_owned()));
        let told = on_terminal(&sandbox, &[], line).end().stdout;
        // What the line of a slow answer showed is gone from the screen.
        let left = told.rsplit("\r\u{1b}[2K").next();
        assert_eq!(left, Some(seen), "{line}");
    }
    model.push(Reply::Text(evil.to_owned()));
    assert_eq!(
        sandbox.send(&["--wait", "hi"]).stdout,
        format!("{evil}\n"),
        "in a pipe data is data"
    );
}

#[test]
fn lines_typed_or_pasted_while_an_answer_is_written_are_messages_in_order() {
    if no_terminal() {
        return;
    }
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    let chat = on_terminal(&sandbox, &[], "agent-send --chat");
    chat.wait_said("> ");
    model.push(Reply::Held("a long story that goes on".to_owned()));
    chat.write("tell me\r");
    chat.wait_said("a long story");
    chat.write("one\r");
    chat.write("two\r");
    // Several lines that a terminal marks as pasted are one message, and what has no end waits for it.
    chat.write("\u{1b}[200~three\rand a half\u{1b}[201~, ");
    std::thread::sleep(Duration::from_millis(300));
    let said = chat.said().0;
    assert!(
        said.ends_with("a long story"),
        "not amid the answer: {said:?}"
    );
    model.go_on();
    wait_for("the half line to be shown", SOON, || {
        chat.said()
            .0
            .ends_with("and a half\r\u{1b}[10C\u{1b}[?2026l, ")
            .then_some(())
    });
    chat.write("I mean\r");
    chat.wait_said("echo: and a half, I mean");
    // A paste without brackets, at the prompt.
    chat.write("four\rfive\rsix\r");
    chat.wait_said("echo: six");
    chat.write("exit\r");
    assert_eq!(chat.end().code, 0);
    let asked = model.requests();
    let last: Vec<String> = asked
        .iter()
        .map(|request| {
            let messages = request["messages"].as_array().expect("messages");
            messages.last().expect("a message")["content"].to_string()
        })
        .collect();
    let words = [
        "tell me",
        "one",
        "two",
        "three\\nand a half, I mean",
        "four",
        "five",
        "six",
    ];
    assert_eq!(last.len(), words.len(), "{last:?}");
    for (said, word) in last.iter().zip(words) {
        assert!(said.contains(word), "{word}: {last:?}");
    }
}

#[test]
fn the_prompt_edits_remembers_and_survives_a_stopped_answer() {
    if no_terminal() {
        return;
    }
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    let chat = on_terminal(&sandbox, &[], "agent-send --chat");
    chat.wait_said("> ");
    let said = |chat: &Running, words: &str, count: usize| {
        wait_for(words, SOON, || {
            (chat.said().0.matches(words).count() >= count).then_some(())
        });
    };
    // An empty prompt, drawn by the line editor.
    let at_prompt = |chat: &Running| {
        wait_for("the prompt", SOON, || {
            chat.said()
                .0
                .ends_with("> \r\u{1b}[2C\u{1b}[?2026l")
                .then_some(())
        });
    };
    // The left arrow three times, then the missing letter.
    chat.write("hello wrld\u{1b}[D\u{1b}[D\u{1b}[Do\r");
    said(&chat, "echo: hello world", 1);
    // Ctrl-C while an answer is written stops it and nothing else.
    model.push(Reply::Held("a long story that never ends".to_owned()));
    at_prompt(&chat);
    chat.write("tell me\r");
    said(&chat, "a long story", 1);
    chat.write("\u{3}");
    said(&chat, "Stopped.", 1);
    wait_for("the model to be left alone", SOON, || {
        (model.in_flight() == 0).then_some(())
    });
    at_prompt(&chat);
    // A line goes on after a backslash.
    chat.write("first \\\rsecond\r");
    said(&chat, "echo: second", 1);
    assert!(
        model
            .requests()
            .pop()
            .expect("a request")
            .to_string()
            .contains("first \\nsecond")
    );
    // Alt-Enter, too.
    at_prompt(&chat);
    chat.write("one\u{1b}\rtwo\r");
    said(&chat, "echo: two", 1);
    let asked = model.requests().pop().expect("a request").to_string();
    assert!(asked.contains("one\\ntwo"), "{asked}");
    at_prompt(&chat);
    chat.write("\u{4}");
    assert_eq!(chat.end().code, 0);
    let history = std::fs::metadata(sandbox.path("state/chat_history"))
        .expect("a history")
        .permissions()
        .mode();
    assert_eq!(history & 0o7777, 0o600);

    // Another time, the lines are still there, and where the conversation was is shown: the newest two have two lines.
    let chat = on_terminal(&sandbox, &[], "agent-send --chat");
    at_prompt(&chat);
    let shown = chat.said().0;
    for line in [
        "earlier here",
        "> tell me",
        "(stopped)",
        "> one",
        "  two",
        "echo: two",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(!shown.contains("hello world"), "only the last: {shown}");
    chat.write(&"\u{1b}[A".repeat(6));
    chat.write("\r");
    said(&chat, "echo: hello world", 1);
    // What is kept out of the message is kept out of the history, too.
    at_prompt(&chat);
    let key = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0".repeat(2).split_at(36).0);
    chat.write(&format!("use {key} for it\r"));
    said(&chat, "echo: use [", 1);
    at_prompt(&chat);
    chat.write("\u{4}");
    assert_eq!(chat.end().code, 0);
    let kept = sandbox.read("state/chat_history").expect("a history");
    assert!(
        kept.contains("use [a key or token, left out] for it") && !kept.contains("ghp_"),
        "{kept}"
    );
}
