use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::app::cli::Exit;
use crate::sys::atomic;

fn env() -> crate::config::Environment {
    crate::config::Environment::default()
}

fn home(dir: &Path) -> Home {
    Home::at(dir)
}

fn put(path: &Path, lines: &[Value]) {
    std::fs::create_dir_all(path.parent().expect("parent")).expect("dir");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    atomic::write(path, text.as_bytes(), atomic::Durability::Rename).expect("write");
}

fn head_line(id: &str, key: &str, contact: &str) -> Value {
    let ts = "2025-11-20T10:00:00.000Z";
    json!({"v": 1, "ts": ts, "seq": 1, "type": "session", "session_id": id, "key": key, "contact": contact, "created_at": ts})
}

fn error_line(seq: u64, text: &str) -> Value {
    json!({"v": 1, "ts": "2025-11-20T10:00:01.000Z", "seq": seq, "type": "error", "run_id": "r", "text": text})
}

/// Two of Ada's sessions, one of Bob's, and an archived one of Cleo's in two files.
fn house() -> (tempfile::TempDir, Home) {
    let dir = tempfile::tempdir().expect("dir");
    let home = home(dir.path());
    let (live, archive) = (home.sessions(), home.archive());
    put(
        &live.join("s1.2025-11-20.jsonl"),
        &[head_line("s1", "cli:ada", "Ada"), error_line(2, "one")],
    );
    put(
        &live.join("s2.2025-11-20.jsonl"),
        &[
            head_line("s2", "agent:agent:telegram:dm:1001", "Ada"),
            error_line(2, "two"),
        ],
    );
    put(
        &live.join("s3.2025-11-20.jsonl"),
        &[head_line("s3", "cli:bob", "bob"), error_line(2, "three")],
    );
    put(
        &archive.join("s0.2025-11-18.jsonl"),
        &[head_line("s0", "cli:cleo", "cleo"), error_line(2, "old")],
    );
    put(
        &archive.join("s0.2025-11-18.1.jsonl"),
        &[head_line("s0", "cli:cleo", "cleo"), error_line(4, "older")],
    );
    // A reset that was broken off.
    put(
        &live.join("s0.2025-11-19.jsonl"),
        &[error_line(5, "not yet moved")],
    );
    put(
        &home.people(),
        &[json!({"contacts": [{"id": 1001, "name": "Ada L.", "username": "ada_l"}]})],
    );
    (dir, home)
}

fn words(history: &History) -> Vec<String> {
    let document = serde_json::to_value(history).expect("a document");
    let events = document["events"].as_array().expect("a list");
    events
        .iter()
        .filter_map(|event| event["text"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn a_target_is_an_id_a_key_a_name_or_a_username() {
    let (_dir, home) = house();
    for (target, id, said) in [
        ("s3", "s3", vec!["three"]),
        ("cli:bob", "s3", vec!["three"]),
        ("bob", "s3", vec!["three"]),
        ("cli:ada", "s1", vec!["one"]),
        ("@Ada_L", "s2", vec!["two"]),
        ("1001", "s2", vec!["two"]),
        ("s0", "s0", vec!["old", "older", "not yet moved"]),
        ("nobody", "nobody", vec![]),
        ("", "", vec![]),
        ("../s3", "../s3", vec![]),
    ] {
        let found = history(&home, &env(), target, false).expect(target);
        assert_eq!(
            (found.session_id.as_str(), words(&found)),
            (id, said.iter().map(|word| (*word).to_owned()).collect()),
            "{target}"
        );
    }
}

#[test]
fn a_name_of_two_is_refused_with_their_keys() {
    let (_dir, home) = house();
    let failure = history(&home, &env(), "Ada", false).expect_err("two are meant");
    assert_eq!(
        (failure.exit, failure.message.as_str()),
        (Exit::Usage, "Ada may mean 2 conversations")
    );
    let hint = failure.hint.unwrap_or_default();
    assert!(
        hint.contains("agent:agent:telegram:dm:1001 or cli:ada"),
        "{hint}"
    );
}

#[test]
fn a_name_that_was_reset_is_told_the_archived_ids() {
    let (_dir, home) = house();
    for target in ["cleo", "cli:cleo", "Cleo"] {
        let found = history(&home, &env(), target, false).expect("history");
        let ids: Vec<&str> = found
            .archived
            .iter()
            .map(|head| head.session_id.as_str())
            .collect();
        assert_eq!((words(&found), ids), (vec![], vec!["s0"]), "{target}");
    }
}

#[test]
fn looking_changes_nothing() {
    let (dir, home) = house();
    atomic::write(
        &home.sessions_index(),
        b"{ torn",
        atomic::Durability::Rename,
    )
    .expect("write");
    atomic::write(&home.people(), b"{ torn", atomic::Durability::Rename).expect("write");
    let torn = home.sessions().join("s1.2025-11-20.jsonl");
    let text = std::fs::read_to_string(&torn).expect("read") + "{\"half";
    atomic::write(&torn, text.as_bytes(), atomic::Durability::Rename).expect("write");
    let all = || {
        let mut files = Vec::new();
        let mut open = vec![dir.path().to_owned()];
        while let Some(dir) = open.pop() {
            for path in std::fs::read_dir(dir)
                .expect("dir")
                .map(|entry| entry.expect("entry").path())
            {
                if path.is_dir() {
                    open.push(path)
                } else {
                    files.push((std::fs::read(&path).expect("read"), path))
                }
            }
        }
        files.sort();
        files
    };
    let before = all();
    assert_eq!(
        words(&history(&home, &env(), "cli:ada", false).expect("history")),
        ["one"]
    );
    assert_eq!(
        crate::session::view(&home.sessions(), "s1")
            .expect("view")
            .map(|state| state.last_seq),
        Some(2)
    );
    assert!(all() == before);
}

/// What one line becomes in the document.
fn shown(full: bool, line: &Value) -> Option<Value> {
    let dir = tempfile::tempdir().expect("dir");
    let file = dir.path().join("s.2025-11-20.jsonl");
    put(&file, std::slice::from_ref(line));
    let events = serde_json::to_value(Events {
        files: vec![file],
        archive: PathBuf::new(),
        full,
    })
    .expect("plain data");
    events.as_array().expect("a list").first().cloned()
}

#[test]
fn in_full_a_line_is_as_it_stands_there() {
    let line = json!({"v": 9, "ts": "x", "type": "dream", "of": [1.5, null]});
    assert_eq!(
        (shown(true, &line), shown(false, &line)),
        (Some(line.clone()), None)
    );
    assert_eq!(shown(true, &json!([1])), None);
    let known = error_line(2, "no");
    let read = |full, line: &Value| {
        Events {
            files: Vec::new(),
            archive: PathBuf::new(),
            full,
        }
        .shown(line.to_string().as_bytes())
    };
    assert!(
        matches!(read(true, &line), Some(Shown::Unknown(_)))
            && matches!(read(true, &known), Some(Shown::Known(_)))
    );
    assert!(read(false, &line).is_none() && matches!(read(false, &known), Some(Shown::Known(_))));
}

#[test]
fn the_short_form_is_the_conversation_without_our_words_to_the_model() {
    let message = |content: Value, inbox: Option<&str>| {
        let mut line = json!({"v": 1, "ts": "t", "seq": 2, "type": "message", "role": "user", "content": content, "run_id": "r"});
        if let Some(inbox) = inbox {
            line["inbox_id"] = json!(inbox);
        }
        line
    };
    let context = json!({"type": "context", "text": "⟦time⟧"});
    let text = |words: &str| json!({"type": "text", "text": words});
    assert_eq!(
        shown(false, &message(json!([context, text("hi")]), Some("i"))),
        Some(message(json!([text("hi")]), Some("i")))
    );
    assert_eq!(shown(false, &message(json!([context]), None)), None);
    assert_eq!(
        shown(false, &message(json!([context]), Some("i"))),
        Some(message(json!([]), Some("i"))),
        "a photo without words"
    );
    let long = |count: usize| "é".repeat(count);
    let cut = |count: usize| format!("{}…", long(count));
    assert_eq!(
        shown(false, &message(json!([text(&long(2001))]), Some("i"))),
        Some(message(json!([text(&cut(2000))]), Some("i")))
    );
    let call = |content: &str| json!([{"type": "tool_call", "id": "1", "name": "write", "input": {"path": "a", "content": [content]}}]);
    assert_eq!(
        shown(false, &message(call(&long(999)), Some("i"))),
        Some(message(call(&cut(300)), Some("i")))
    );
    let result = |text: &str| {
        json!({"v": 1, "ts": "t", "seq": 3, "type": "tool_result", "run_id": "r", "name": "read", "duration_ms": 1, "id": "1",
            "text": text, "is_error": false})
    };
    assert_eq!(shown(false, &result(&long(301))), Some(result(&cut(300))));
    let began = json!({"v": 1, "ts": "t", "seq": 4, "type": "tool_call", "run_id": "r", "id": "1", "name": "read"});
    assert_eq!(
        (
            shown(false, &began),
            shown(false, &head_line("s", "k", "c"))
        ),
        (None, None)
    );
}
