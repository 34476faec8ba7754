//! What the prompt of `agent-send --chat` knows beside lines: what the agent does meanwhile, questions, files, and where the
//! conversation was.

use serde_json::json;

use super::{SOON, no_terminal, on_terminal};
use crate::support::{Daemon, FakeModel, Reply, Running, Sandbox, wait_for};

const ASKS: &str = "[tools.exec]\npolicy = \"ask\"";

/// A prompt that waits for words, and what is around it.
struct Talk {
    sandbox: Sandbox,
    model: FakeModel,
    _daemon: Daemon,
    chat: Running,
}

impl Talk {
    /// Begins it, with more settings; `None` where no terminal can be had.
    fn begin(settings: &str) -> Option<Self> {
        if no_terminal() {
            return None;
        }
        let (model, sandbox) = Sandbox::with_model();
        let sandbox = sandbox.config(settings);
        let daemon = sandbox.ready();
        let chat = on_terminal(&sandbox, &[], "agent-send --chat");
        at_prompt(&chat);
        Some(Self {
            sandbox,
            model,
            _daemon: daemon,
            chat,
        })
    }
}

/// Waits until `words` stood on the terminal so often.
fn said(chat: &Running, words: &str, count: usize) {
    wait_for(words, SOON, || {
        (chat.said().0.matches(words).count() >= count).then_some(())
    });
}

/// Waits for an empty prompt, as the line editor draws it.
fn at_prompt(chat: &Running) {
    wait_for("the prompt", SOON, || {
        chat.said()
            .0
            .ends_with("> \r\u{1b}[2C\u{1b}[?2026l")
            .then_some(())
    });
}

fn leave(chat: Running) {
    at_prompt(&chat);
    chat.write("\u{4}");
    let told = chat.end();
    assert_eq!(told.code, 0, "{told:?}");
}

#[test]
fn what_the_agent_does_is_told_between_its_words_and_how_it_ended() {
    let Some(Talk {
        sandbox,
        model,
        _daemon,
        chat,
    }) = Talk::begin("")
    else {
        return;
    };
    let wait = "while test ! -e go; do sleep 0.05; done; echo \u{1b}[2J >&2; exit 3";
    model.push(Reply::Tool("exec".to_owned(), json!({"command": wait})));
    model.push(Reply::Tool("read".to_owned(), json!({"path": "none.txt"})));
    model.push(Reply::Text("that is all".to_owned()));
    chat.write("look\r");
    said(&chat, "· exec: while test", 1);
    said(&chat, "running exec", 1);
    sandbox.put("workspace/go", b"");
    said(&chat, "that is all\r\n", 1);
    let shown = chat.said().0;
    let at = |words: &str| {
        shown
            .find(words)
            .unwrap_or_else(|| panic!("{words}: {shown}"))
    };
    assert!(at("· exec: while") < at("· read: none.txt"), "{shown}");
    assert!(at("· read: none.txt") < at("that is all"), "{shown}");
    assert!(shown.contains("  read failed after "), "{shown}");
    assert!(shown.contains("echo \\u{1b}[2J"), "escaped: {shown}");
    leave(chat);
}

#[test]
fn what_was_typed_before_a_question_is_no_answer_to_it() {
    let Some(Talk {
        sandbox,
        model,
        _daemon,
        chat,
    }) = Talk::begin(ASKS)
    else {
        return;
    };
    chat.write("[[sleep 1500]] [[tool exec {\"command\":\"echo done > made\"}]]\r");
    model.wait_requests(1, SOON);
    chat.write("y\r");
    let id = sandbox.wait_asked();
    said(&chat, "  or here: y, or n WHY", 1);
    let shown = chat.said().0;
    let exact = |line: &str| line.starts_with("  | ") && line.contains("echo done > made");
    assert!(shown.lines().any(exact), "the exact call: {shown}");
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(sandbox.wait_asked(), id, "it still waits");
    assert_eq!(sandbox.read("workspace/made"), None);
    chat.write("y\r");
    said(&chat, "approved: ", 1);
    said(&chat, "result: ", 1);
    assert_eq!(sandbox.read("workspace/made").as_deref(), Some("done\n"));
    // What was typed before stands at the prompt, and is said when Enter is pressed.
    wait_for("the typed letter", SOON, || {
        chat.said()
            .0
            .ends_with("\u{1b}[3C\u{1b}[?2026l")
            .then_some(())
    });
    chat.write("\u{15}\u{4}");
    let told = chat.end();
    assert_eq!(told.code, 0, "{told:?}");
    assert_eq!(model.requests().len(), 2);
}

#[test]
fn a_question_that_ends_elsewhere_is_told_and_the_rest_goes_on() {
    let Some(Talk {
        sandbox,
        model,
        _daemon,
        chat,
    }) = Talk::begin(ASKS)
    else {
        return;
    };
    chat.write("[[tool exec {\"command\":\"date\"}]]\r");
    let id = sandbox.wait_asked();
    said(&chat, "  or here: ", 1);
    // What may be allowed for longer is offered with what it is.
    said(&chat, "c (in this conversation), a (always)", 1);
    assert_eq!(sandbox.send(&["--deny", &id, "not", "now"]).code, 0);
    said(&chat, "agent-send: the question is closed", 1);
    said(&chat, "result: ", 1);
    // Once for the conversation, it is not asked again.
    at_prompt(&chat);
    chat.write("[[tool exec {\"command\":\"date\"}]]\r");
    said(&chat, "  or here: ", 2);
    chat.write("c\r");
    said(&chat, "approved for this conversation: ", 1);
    said(&chat, "result: ", 2);
    at_prompt(&chat);
    chat.write("[[tool exec {\"command\":\"date\"}]]\r");
    said(&chat, "result: ", 3);
    assert_eq!(chat.said().0.matches("  or here: ").count(), 2);
    assert_eq!(model.requests().len(), 6);
    leave(chat);
}

#[test]
fn files_go_with_the_words_that_name_them_and_with_a_text_of_many_lines_only_after_a_yes() {
    let Some(Talk {
        sandbox,
        model,
        _daemon,
        chat,
    }) = Talk::begin("")
    else {
        return;
    };
    sandbox.put("notes.txt", b"the code is 4711\n");
    let attached = || {
        let request = model.requests().pop().expect("a request").to_string();
        request.matches("the code is 4711").count()
    };
    chat.write("[[say it is read]] what is in @not\t?\r");
    said(&chat, "attached: notes.txt", 1);
    said(&chat, "it is read\r\n", 1);
    assert_eq!(attached(), 1);
    at_prompt(&chat);
    chat.write("write to me@notes.txt, or @nobody\r");
    said(&chat, "echo: write to me@notes.txt, or @nobody\r\n", 1);
    assert_eq!(attached(), 1, "a mail address is none");
    at_prompt(&chat);
    // What is pasted may be somebody else's.
    for (answer, count) in [("n\r", 1), ("y\r", 2)] {
        chat.write("\u{1b}[200~[[say so be it]] somebody wrote:\r@notes.txt\u{1b}[201~\r");
        said(&chat, "attach notes.txt? [y/N] ", count);
        chat.write(answer);
        said(&chat, "so be it\r\n", count);
        at_prompt(&chat);
        assert_eq!(attached(), count);
    }
    leave(chat);
}

#[test]
fn a_prompt_that_was_closed_amid_an_answer_goes_on_with_it() {
    if no_terminal() {
        return;
    }
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    let mut chat = on_terminal(&sandbox, &[], "agent-send --chat");
    at_prompt(&chat);
    model.push(Reply::Held("a long story that goes on".to_owned()));
    chat.write("tell me\r");
    said(&chat, "a long story", 1);
    chat.kill9();
    drop(chat);
    let again = on_terminal(&sandbox, &[], "agent-send --chat");
    said(&again, "> tell me", 1);
    said(
        &again,
        "agent-send: your last message is still being answered",
        1,
    );
    said(&again, "a long story", 1);
    model.go_on();
    said(&again, "a long story that goes on\r\n", 1);
    leave(again);
    assert_eq!(model.requests().len(), 1);
}

#[test]
fn a_daemon_that_dies_amid_an_answer_is_told_on_a_line_of_its_own_and_the_answer_comes_after_its_return()
 {
    if no_terminal() {
        return;
    }
    let (model, sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    let chat = on_terminal(&sandbox, &[], "agent-send --chat");
    at_prompt(&chat);
    model.push(Reply::Held("a long story that goes on".to_owned()));
    chat.write("tell me\r");
    said(&chat, "a long story", 1);
    daemon.kill9();
    said(&chat, "\r\nagent-send: the daemon is not running", 1);
    let _daemon = sandbox.ready();
    said(&chat, "echo: tell me\r\n", 1);
    leave(chat);
}

#[test]
fn the_tab_key_completes_commands_and_what_they_take() {
    let Some(Talk {
        sandbox: _sandbox,
        model,
        _daemon,
        chat,
    }) = Talk::begin("")
    else {
        return;
    };
    chat.write("/\t");
    said(&chat, "/compact       sum up what was said so far", 1);
    chat.write("\u{15}/stat\t\r");
    said(&chat, "I am not working on anything of yours.", 1);
    leave(chat);
    assert_eq!(model.requests().len(), 0);
}
