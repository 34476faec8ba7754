//! agent-consolidate: what becomes a fact and what does not, where it comes from, and what interrupts, damage
//! and a second run do to it.
#![allow(clippy::disallowed_methods, reason = "a test reads and breaks files plainly")]

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

use agent_toolkit::sys::lock;
use rusqlite::types::Value as Sql;
use serde_json::{Value, json};

use crate::support::{OnDrop, Output, Reply, Sandbox, bin, wait_for};

fn consolidate(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    sandbox.run("agent-consolidate", arguments, "")
}

/// Runs it and expects what cron expects: nothing.
fn run(sandbox: &Sandbox) {
    let told = consolidate(sandbox, &[]);
    assert_eq!((told.code, told.stdout.as_str(), told.stderr.as_str()), (0, "", ""));
}

fn facts(sandbox: &Sandbox, arguments: &[&str]) -> Vec<Value> {
    let told = consolidate(sandbox, &[&["facts", "--json"], arguments].concat());
    assert_eq!((told.code, told.stderr.as_str()), (0, ""), "{told:?}");
    told.json()["facts"].as_array().expect("facts is a list").clone()
}

/// Returns `attribute: value path:line` of each fact.
fn shown(sandbox: &Sandbox, arguments: &[&str]) -> Vec<String> {
    let text = |fact: &Value, name: &str| fact[name].as_str().expect("text").to_owned();
    let line = |fact: &Value| {
        format!("{}: {} {}:{}", text(fact, "attribute"), text(fact, "value"), text(fact, "source"), fact["source_line"])
    };
    let mut lines: Vec<String> = facts(sandbox, arguments).iter().map(line).collect();
    lines.sort();
    lines
}

fn number(sandbox: &Sandbox, sql: &str) -> i64 {
    match sandbox.query("memory", sql).first().and_then(|row| row.first().cloned()) {
        Some(Sql::Integer(number)) => number,
        other => panic!("{sql}: {other:?}"),
    }
}

/// Returns the transcript of a conversation; each line is who speaks, whose words it is, and the words.
fn transcript(id: &str, said: &[(&str, &str, &str)]) -> String {
    let line = |seq: usize, more: Value| {
        let mut event = json!({"v": 1, "ts": format!("2026-05-04T10:00:{:02}.000Z", seq % 60), "seq": seq});
        event.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        format!("{event}\n")
    };
    let head = json!({"type": "session", "session_id": id, "key": "cli:ada", "contact": "Ada", "created_at": "x"});
    let said = (2..).zip(said).map(|(seq, (role, trust, text))| {
        let content = json!([{"type": "context", "text": "I live in Context."}, {"type": "text", "text": text}]);
        let mut message = json!({"type": "message", "role": role, "run_id": format!("r{}", seq / 2), "content": content});
        if !trust.is_empty() {
            message["trust"] = json!(trust);
        }
        line(seq, message)
    });
    std::iter::once(line(1, head)).chain(said).collect()
}

const TALK: [(&str, &str, &str); 4] = [
    ("user", "owner", "Hello. My sister is Ana."),
    ("assistant", "", "I live in Silicon."),
    ("user", "owner", "thanks"),
    ("assistant", "", "ok"),
];

// ------------------------------------------------------------------ files

#[test]
fn a_fact_knows_its_line_and_follows_it() {
    let sandbox = Sandbox::new();
    sandbox.put("workspace/USER.md", b"# Me\n\n- Birthday: 3 May\n- Dog: Rex\n");
    sandbox.put("workspace/memory/people/1002.md", b"- Birthday: 9 June\n");
    run(&sandbox);
    let all = facts(&sandbox, &["3", "may"]);
    let fact = all[0].as_object().expect("an object");
    let fields: Vec<&str> = fact.keys().map(String::as_str).collect();
    let expected = [
        "id",
        "entity",
        "attribute",
        "value",
        "confidence",
        "source",
        "source_line",
        "valid_from",
        "valid_to",
        "superseded_by",
        "scope",
    ];
    assert_eq!((all.len(), fields), (1, expected.to_vec()));
    assert_eq!(
        (&fact["source"], &fact["source_line"], &fact["scope"]),
        (&json!("workspace/USER.md"), &json!(3), &json!("owner"))
    );
    assert_eq!((&fact["valid_to"], &fact["superseded_by"]), (&Value::Null, &Value::Null));
    assert!(fact["valid_from"].as_str().is_some_and(|at| at.ends_with('Z')));
    assert_eq!(facts(&sandbox, &["9 june"])[0]["scope"], "person:1002");

    // A line above, one corrected, one deleted.
    sandbox.put("workspace/USER.md", b"# Me\n\nHello.\n- Birthday: 4 May\n");
    run(&sandbox);
    let expected = ["birthday: 4 May workspace/USER.md:4", "birthday: 9 June workspace/memory/people/1002.md:1"];
    assert_eq!(shown(&sandbox, &[]), expected);
    let old = &facts(&sandbox, &["3 may", "--all"])[0];
    assert_eq!((&old["superseded_by"], old["valid_to"].is_string()), (&facts(&sandbox, &["4 may"])[0]["id"], true));
    let gone = &facts(&sandbox, &["rex", "--all"])[0];
    assert_eq!((&gone["superseded_by"], gone["valid_to"].is_string()), (&Value::Null, true));
    fs::remove_file(sandbox.path("workspace/memory/people/1002.md")).expect("it is there");
    run(&sandbox);
    assert_eq!(shown(&sandbox, &[]), ["birthday: 4 May workspace/USER.md:4"]);
}

#[test]
fn an_empty_workspace_is_no_reason_to_forget() {
    let sandbox = Sandbox::new();
    let notes = sandbox.put("workspace/MEMORY.md", b"- Birthday: 3 May\n");
    run(&sandbox);
    fs::remove_file(&notes).expect("it is there");
    let told = consolidate(&sandbox, &[]);
    assert!(told.code == 0 && told.stderr.starts_with("agent-consolidate: left out workspace: it is empty"), "{told:?}");
    assert_eq!(facts(&sandbox, &[]).len(), 1);
    sandbox.put("workspace/SOUL.md", b"");
    run(&sandbox);
    assert_eq!(facts(&sandbox, &[]), [] as [Value; 0]);
}

#[test]
fn what_has_not_changed_is_not_gone_through_again() {
    let sandbox = Sandbox::new();
    sandbox.put("workspace/MEMORY.md", b"- Birthday: 3 May\n");
    sandbox.put("state/sessions/s1.2026-05-04.jsonl", transcript("s1", &TALK).as_bytes());
    let spans = || number(&sandbox, "SELECT count(*) FROM spans");
    run(&sandbox);
    assert_eq!(spans(), 2);
    run(&sandbox);
    // Touched, and the same.
    sandbox.put("workspace/MEMORY.md", b"- Birthday: 3 May\n");
    run(&sandbox);
    let told = consolidate(&sandbox, &["--json"]).json();
    assert_eq!((spans(), &told["unchanged"], &told["changes"]), (2, &json!(2), &json!([])));
    let before = facts(&sandbox, &["--all"]);
    assert_eq!(consolidate(&sandbox, &["--backfill"]).code, 0);
    assert_eq!((spans(), facts(&sandbox, &["--all"])), (4, before));
    let status = consolidate(&sandbox, &["status", "--json"]).json();
    assert_eq!((&status["facts"], &status["pending_files"], &status["pending_sessions"]), (&json!(2), &json!(0), &json!(0)));
}

#[test]
fn an_item_is_the_fact_that_its_head_says() {
    let sandbox = Sandbox::new();
    let item = "---\nid: i1\ntype: fact\ntags: [\"x\"]\ncreated_at: 2026-01-01T00:00:00Z\nentity: \"Ana\"\nattribute: city\nvalue: \"Ŝanghajo\"\n---\n- Birthday: 3 May\n";
    sandbox.put("workspace/memory/items/i1.md", item.as_bytes());
    run(&sandbox);
    let all = facts(&sandbox, &[]);
    let told = ["entity", "attribute", "value", "source_line", "confidence"].map(|name| all[0][name].clone());
    assert_eq!((all.len(), told), (1, [json!("Ana"), json!("city"), json!("Ŝanghajo"), json!(8), json!(1.0)]));
}

#[test]
fn links_strange_bytes_and_what_init_writes_state_nothing() {
    let sandbox = Sandbox::new();
    sandbox.put("secret.md", b"- Birthday: 3 May\n");
    fs::create_dir_all(sandbox.path("workspace/memory")).expect("the sandbox is writable");
    symlink(sandbox.path("secret.md"), sandbox.path("workspace/memory/link.md")).expect("link");
    symlink(sandbox.path("secret.md"), sandbox.path("workspace/USER.md")).expect("link");
    sandbox.put("workspace/memory/bytes.md", b"- Birthd\xffay: \xfe\0\n\x1b[31m\n");
    sandbox.put("state/sessions/broken.2026-05-04.jsonl", b"{ torn\n\xff\n{}\nno end");
    sandbox.put("state/sessions/strange.jsonl", b"");
    assert_eq!(sandbox.run("agent-daemon", &["init", "--yes"], "").code, 0);
    run(&sandbox);
    assert!(shown(&sandbox, &["3 may"]).is_empty());
    let from_templates = facts(&sandbox, &["--all"]);
    assert!(!from_templates.iter().any(|fact| fact["source"] != "workspace/memory/bytes.md"), "{from_templates:?}");
}

// ------------------------------------------------------------------ conversations

#[test]
fn a_conversation_is_gone_through_span_by_span_and_found_in_the_archive() {
    let sandbox = Sandbox::new();
    let name = "s1.2026-05-04.jsonl";
    sandbox.put(&format!("state/sessions/{name}"), transcript("s1", &TALK[..3]).as_bytes());
    run(&sandbox);
    assert!(shown(&sandbox, &[]).is_empty(), "too few, and the last is not answered");
    sandbox.put(&format!("state/sessions/{name}"), transcript("s1", &TALK).as_bytes());
    run(&sandbox);
    assert_eq!(shown(&sandbox, &[]), [format!("sister: Ana state/sessions/{name}:2")]);
    let more = [&TALK[..], &[("user", "owner", "I live in Berlin.")]].concat();
    fs::remove_file(sandbox.path(&format!("state/sessions/{name}"))).expect("it is there");
    sandbox.put(&format!("state/sessions/archive/{name}"), transcript("s1", &more).as_bytes());
    run(&sandbox);
    let moved = format!("state/sessions/archive/{name}");
    let places: Vec<(Value, Value)> =
        facts(&sandbox, &[]).iter().map(|fact| (fact["source"].clone(), fact["source_line"].clone())).collect();
    assert_eq!(places.len(), 2);
    assert!(places.contains(&(json!(moved), json!(2))) && places.contains(&(json!(moved), json!(6))), "{places:?}");
    let told = consolidate(&sandbox, &["why", "sister", "--json"]).json();
    let source = &told["sources"][0];
    assert_eq!((&told["fact"]["value"], &source["path"], &source["line"]), (&json!("Ana"), &json!(moved), &json!(2)));
    assert_eq!((&source["session_id"], &source["seq"], &source["quote"]), (&json!("s1"), &json!(2), &json!("My sister is Ana.")));
    let spans = sandbox.query("memory", "SELECT first, last FROM spans WHERE source = 's1' ORDER BY id");
    assert_eq!(spans, [[Sql::Integer(1), Sql::Integer(5)], [Sql::Integer(6), Sql::Integer(6)]]);
}

#[test]
fn words_of_others_are_nobodys_facts() {
    let sandbox = Sandbox::new();
    let strangers =
        [("user", "other", "My sister is Eve."), ("assistant", "", "ok"), ("user", "other", "x"), ("assistant", "", "ok")];
    sandbox.put("state/sessions/archive/s1.2026-05-04.jsonl", transcript("s1", &strangers).as_bytes());
    // In one run with what somebody else wrote: the second message has the run of the first.
    let mixed =
        [("user", "owner", "My sister is Eve."), ("user", "other", "x"), ("user", "owner", "hello"), ("assistant", "", "ok")];
    sandbox.put("state/sessions/archive/s2.2026-05-04.jsonl", transcript("s2", &mixed).as_bytes());
    run(&sandbox);
    assert!(facts(&sandbox, &["--all"]).is_empty());
    assert_eq!(number(&sandbox, "SELECT count(*) FROM spans WHERE source = 's1'"), 0);
}

#[test]
fn what_the_owner_says_to_a_running_daemon_becomes_a_fact() {
    let (_model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--wait=20", "My sister is Ana."]).code, 0);
    assert_eq!(sandbox.send(&["--wait=20", "--untrusted", "My sister is Eve."]).code, 0);
    assert_eq!(sandbox.send(&["--wait=20", "thanks"]).code, 0);
    run(&sandbox);
    let all = facts(&sandbox, &[]);
    assert_eq!((all.len(), &all[0]["value"]), (1, &json!("Ana")), "{all:?}");
    let told = consolidate(&sandbox, &["why", "sister"]);
    assert!(told.stdout.contains("  My sister is Ana.") && told.stdout.contains(", event 2, "), "{told:?}");
}

// ------------------------------------------------------------------ the shell

#[test]
fn a_dry_run_shows_the_diff_and_writes_nothing() {
    let sandbox = Sandbox::new();
    sandbox.put("workspace/MEMORY.md", b"- Birthday: 3 May\n- Dog: Rex\n");
    let told = consolidate(&sandbox, &["--dry-run"]);
    let expected = "+ user birthday: 3 May  (workspace/MEMORY.md:1)\n+ user dog: Rex  (workspace/MEMORY.md:2)\n";
    assert_eq!((told.code, told.stdout.replace("Birthday", "birthday").as_str()), (0, expected), "{told:?}");
    assert!(!sandbox.path("state").exists(), "not even the directory");
    run(&sandbox);
    sandbox.put("workspace/MEMORY.md", b"- Birthday: 4 May\n");
    let listing = || -> BTreeMap<String, (Vec<u8>, u64)> {
        let entries = fs::read_dir(sandbox.path("state")).expect("it is there").flatten().filter(|entry| entry.path().is_file());
        entries
            .map(|entry| {
                let bytes = fs::read(entry.path()).expect("readable");
                (entry.file_name().to_string_lossy().into_owned(), (bytes.clone(), bytes.len() as u64))
            })
            .collect()
    };
    let before = listing();
    let told = consolidate(&sandbox, &["run", "--dry-run", "-q"]);
    let expected = "~ user birthday: 3 May → 4 May  (workspace/MEMORY.md:1)\n- user dog: Rex  (stood in workspace/MEMORY.md:2)\n";
    assert_eq!((told.code, told.stdout.as_str(), told.stderr.as_str()), (0, expected, ""));
    assert_eq!(consolidate(&sandbox, &["status", "--json"]).json()["pending_files"], 1);
    assert!(listing() == before, "not a byte has changed");
    assert_eq!(shown(&sandbox, &["birthday"]), ["birthday: 3 May workspace/MEMORY.md:1"]);
}

#[test]
fn mistakes_have_their_exit_codes_and_nothing_is_an_answer() {
    let sandbox = Sandbox::new();
    assert_eq!(facts(&sandbox, &[]), [] as [Value; 0]);
    let told = consolidate(&sandbox, &["facts"]);
    assert_eq!((told.code, told.stdout.as_str(), told.stderr.as_str()), (0, "", "agent-consolidate: there are no facts yet\n"));
    sandbox.put("workspace/MEMORY.md", b"- Birthday: 3 May\n- Dog: Rex\n");
    run(&sandbox);
    for (arguments, code, word) in [
        (&["why"][..], 2, "usage"),
        (&["why", "user"], 2, "usage"),
        (&["why", "cat"], 1, "failed"),
        (&["why", "99"], 1, "failed"),
        (&["nonsense"], 2, "usage"),
        (&["--backfill", "facts"], 2, "usage"),
        (&["undo", "none"], 1, "failed"),
        (&["commitments", "--dry-run"], 2, "usage"),
    ] {
        let told = consolidate(&sandbox, arguments);
        assert_eq!((told.code, told.stdout.as_str()), (code, ""), "{arguments:?}: {told:?}");
        let told = consolidate(&sandbox, &[arguments, &["--json"]].concat());
        assert_eq!((told.code, &told.json()["error"]["code"]), (code, &json!(word)), "{arguments:?}: {told:?}");
    }
    let told = consolidate(&sandbox, &["why", "user"]);
    assert!(told.stderr.contains("3 May") && told.stderr.contains("Rex"), "{told:?}");
    for one in ["1", "#1", "birthday", "MAY birth"] {
        assert_eq!(consolidate(&sandbox, &["why", one, "--json"]).json()["fact"]["value"], "3 May", "{one}");
    }
    let told = sandbox.run("agent-consolidate", &["--home", "/nonexistent/agent"], "");
    assert_eq!(told.code, 78, "{told:?}");
    assert!(told.stderr.contains("hint: agent-daemon init"), "{told:?}");
}

#[test]
fn cron_has_a_home_and_nothing_else() {
    let sandbox = Sandbox::new();
    let home = sandbox.path("user");
    sandbox.put("user/.local/share/agent/workspace/MEMORY.md", b"- Birthday: 3 May\n");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(bin("agent-consolidate"));
        command.env_clear().env("HOME", &home).args(arguments).current_dir("/").stdin(Stdio::null());
        command.output().expect("it runs")
    };
    for arguments in [&[][..], &["--quiet"]] {
        let told = run(arguments);
        assert_eq!((told.status.code(), told.stdout, told.stderr), (Some(0), vec![], vec![]));
    }
    let found: Value = serde_json::from_slice(&run(&["facts", "--json"]).stdout).expect("JSON");
    assert_eq!(found["facts"][0]["source"], "workspace/MEMORY.md");
}

#[test]
fn a_second_run_ends_at_once_and_says_so_only_when_asked() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("state")).expect("the sandbox is writable");
    sandbox.put("workspace/MEMORY.md", b"- Birthday: 3 May\n");
    let held = lock::try_lock(&sandbox.path("state/consolidate.lock")).expect("lock").expect("free");
    run(&sandbox);
    assert!(!sandbox.path("state/memory.db").exists());
    let told = consolidate(&sandbox, &["-v"]);
    let expected = format!("agent-consolidate: already running (pid {})\n", std::process::id());
    assert_eq!((told.code, told.stdout.as_str(), told.stderr), (0, "", expected));
    drop(held);
    // Another test may be starting a program just now, which holds the lock until it is that program.
    wait_for("the lock to be free", Duration::from_secs(20), || {
        run(&sandbox);
        (facts(&sandbox, &[]).len() == 1).then_some(())
    });
}

#[test]
fn a_damaged_database_is_left_alone_until_it_is_made_anew() {
    let sandbox = Sandbox::new();
    sandbox.put("workspace/MEMORY.md", b"- Birthday: 3 May\n");
    run(&sandbox);
    let before = shown(&sandbox, &[]);
    sandbox.put("state/memory.db", &[7; 9000]);
    for arguments in [&[][..], &["--dry-run"], &["facts"], &["why", "1"], &["status"]] {
        let told = consolidate(&sandbox, &[arguments, &["--json"]].concat());
        assert_eq!((told.code, &told.json()["error"]["code"]), (65, &json!("bad_data")), "{arguments:?}: {told:?}");
        assert!(
            told.json()["error"]["hint"].as_str().is_some_and(|hint| hint.starts_with("agent-consolidate --backfill")),
            "{told:?}"
        );
    }
    assert_eq!(fs::read(sandbox.path("state/memory.db")).expect("it is there"), [7; 9000]);
    let told = consolidate(&sandbox, &["--backfill"]);
    assert_eq!((told.code, told.stderr.lines().count()), (0, 1), "{told:?}");
    assert!(told.stderr.contains("state/memory.db could not be used: it is now state/memory.db.corrupt-"), "{told:?}");
    assert_eq!(shown(&sandbox, &[]), before);
}

#[test]
fn what_a_newer_version_wrote_is_neither_shown_nor_changed() {
    let sandbox = Sandbox::new();
    sandbox.put("workspace/MEMORY.md", b"- Birthday: 3 May\n");
    run(&sandbox);
    let database = rusqlite::Connection::open(sandbox.path("state/memory.db")).expect("open");
    database.pragma_update(None, "user_version", 99).expect("update");
    drop(database);
    for arguments in [&[][..], &["--dry-run"], &["--backfill"], &["facts"], &["why", "1"], &["status"]] {
        let told = consolidate(&sandbox, &[arguments, &["--json"]].concat());
        assert_eq!((told.code, &told.json()["error"]["code"]), (65, &json!("bad_data")), "{arguments:?}: {told:?}");
        assert!(told.json()["error"]["hint"].as_str().is_some_and(|hint| hint.starts_with("use the newer version")), "{told:?}");
    }
}

#[test]
fn a_pipe_among_the_transcripts_is_not_waited_for() {
    let sandbox = Sandbox::new();
    sandbox.put("state/sessions/s1.2026-05-04.jsonl", transcript("s1", &TALK).as_bytes());
    let pipe = sandbox.path("state/sessions/s2.2026-05-04.jsonl");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("the sandbox is writable");
    run(&sandbox);
    assert_eq!(facts(&sandbox, &[]).len(), 1);
}

// ------------------------------------------------------------------ a model

#[test]
fn a_model_reads_what_was_said_and_is_paid_for_it() {
    let (model, sandbox) = Sandbox::with_model();
    let said = [
        ("user", "owner", "We have settled down in Porto at last, Rita and me, and I owe her mother the photos by 8 May."),
        ("assistant", "", "Lovely!"),
        ("user", "owner", "And everybody calls Robert Bob, by the way."),
        ("assistant", "", "I see."),
    ];
    sandbox.put("state/sessions/s1.2026-05-04.jsonl", transcript("s1", &said).as_bytes());
    let told = consolidate(&sandbox, &["--dry-run"]);
    assert!(told.stderr.contains("a model would read 1 of the conversations' spans") && told.stderr.contains("$0.0"), "{told:?}");
    assert_eq!(model.readings().len(), 0, "a dry run asks nobody");
    let answer = json!({
        "facts": [{"entity": "user", "attribute": "lives in", "value": "Porto", "confidence": 1, "line": 1},
                  {"entity": "Bob", "attribute": "is", "value": "called so by everybody", "confidence": 1, "line": 3},
                  {"entity": "user", "attribute": "is", "value": "an admin", "confidence": 1, "line": 2}],
        "aliases": [{"alias": "Bob", "name": "Robert", "line": 3}],
        "commitments": [{"who": "user", "what": "send the photos to Rita's mother", "deadline": "2026-05-08", "line": 1}],
        "episode": {"summary": "The user told that they settled down in Porto with Rita.", "topics": ["Porto"]},
    });
    model.push_found(Reply::Text(format!("```json\n{answer}\n```")));
    run(&sandbox);
    let asked = model.readings()[0].to_string();
    assert!(asked.contains("[1] user: We have settled down") && !asked.contains("Nowhere"), "{asked}");
    let path = "state/sessions/s1.2026-05-04.jsonl";
    let expected =
        [format!("alias: Bob {path}:4"), format!("is: called so by everybody {path}:4"), format!("lives in: Porto {path}:2")];
    assert_eq!(shown(&sandbox, &[]), expected);
    assert!(facts(&sandbox, &["called"])[0]["entity"] == "Robert");
    let promised = &consolidate(&sandbox, &["commitments", "--json"]).json()["commitments"][0];
    assert_eq!((&promised["deadline"], &promised["source_line"]), (&json!("2026-05-08"), &json!(2)));
    assert!(consolidate(&sandbox, &["commitments"]).stdout.contains("overdue"));
    assert!(consolidate(&sandbox, &["episodes", "porto"]).stdout.contains("settled down in Porto with Rita"));
    let cost = sandbox.send(&["--cost", "all", "--by", "source", "--json"]).json();
    assert!(cost["groups"].as_array().is_some_and(|all| all.iter().any(|one| one["name"] == "consolidation")), "{cost}");

    // What it knows by now goes with the next question.
    let more = ["I met Bob again and he told me about Rome, which was nice to hear", "ok", "and so on", "ok"];
    let more: Vec<(&str, &str, &str)> = more
        .iter()
        .enumerate()
        .map(|(at, text)| if at % 2 == 0 { ("user", "owner", *text) } else { ("assistant", "", *text) })
        .collect();
    sandbox.put("state/sessions/s2.2026-05-04.jsonl", transcript("s2", &more).as_bytes());
    run(&sandbox);
    assert!(model.readings()[1].to_string().contains("Known names: Robert (also Bob)"), "{}", model.readings()[1]);

    // It expires unseen after a week, and the run can be taken back.
    let told = consolidate(&sandbox, &["maintain", "-v"]);
    assert!(told.stdout.contains("expired  user: send the photos"), "{told:?}");
    let runs = consolidate(&sandbox, &["undo", "--json"]).json();
    let told = consolidate(&sandbox, &["undo", runs["runs"][0]["run"].as_str().expect("an id")]);
    assert!(told.stdout.contains("- user lives in: Porto") && told.code == 0, "{told:?}");
    assert_eq!(shown(&sandbox, &[]), [] as [&str; 0]);
    run(&sandbox);
    assert_eq!((shown(&sandbox, &[]).len(), model.readings().len()), (0, 2), "it is not read again");
}

#[test]
fn no_money_and_no_key_leave_a_conversation_to_the_rules_until_there_is_some() {
    let (model, sandbox) = Sandbox::with_model();
    let mut sandbox = sandbox.config("[cost]\nday_usd = 0.000001");
    let said = [("user", "owner", "My sister is Ana, and she has lived in Porto for a long time now.")];
    let talk = [&said[..], &TALK[1..]].concat();
    sandbox.put("state/sessions/s1.2026-05-04.jsonl", transcript("s1", &talk).as_bytes());
    run(&sandbox);
    assert_eq!(shown(&sandbox, &["sister"]), ["sister: Ana state/sessions/s1.2026-05-04.jsonl:2"], "rules read it");
    let told = consolidate(&sandbox, &["-v"]);
    assert!(told.stderr.contains("[cost] day_usd = 0.00") || told.stderr.contains("day_usd"), "{told:?}");
    assert_eq!(model.readings().len(), 0);
    sandbox.reconfigure("[cost]\nday_usd = 0.0");
    let fact = json!({"entity": "user", "attribute": "sister", "value": "Ana", "confidence": 1, "line": 1});
    model.push_found(Reply::Text(json!({"facts": [fact]}).to_string()));
    run(&sandbox);
    assert_eq!((shown(&sandbox, &["sister"]).len(), model.readings().len()), (1, 1));
}

// ------------------------------------------------------------------ kills

#[test]
fn kills_at_any_moment_lose_nothing_and_do_nothing_twice() {
    const ROUNDS: u64 = 40;
    let (_model, sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    let talk = sandbox.path("../talk.txt");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for name in ["ada", "bob"] {
            let (sandbox, over) = (&sandbox, &over);
            scope.spawn(move || {
                for turn in 0.. {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    let said = format!("I live in {name}ville {turn}. My sister is Ana {turn}.");
                    assert_eq!(sandbox.send(&["--wait=30", "--from", name, &said]).code, 0);
                    if turn % 7 == 6 {
                        sandbox.send(&["--reset", &format!("cli:{name}")]);
                    }
                }
            });
        }
        for round in 0..ROUNDS {
            for file in 0..6 {
                let text = format!("- Birthday: {} May\n{}", round % 28 + 1, "- Dog: Rex\n".repeat(200));
                sandbox.put(&format!("workspace/memory/people/{file}.md"), text.as_bytes());
            }
            let start = |program: &str| {
                let log = fs::OpenOptions::new().create(true).append(true).open(&talk).expect("the sandbox is writable");
                let mut command = sandbox.command(program);
                command.stdout(log.try_clone().expect("a descriptor is free")).stderr(log).spawn().expect("it runs")
            };
            let mut children = ["agent-consolidate", "agent-consolidate", "agent-consolidate", "agent-index"].map(start);
            // There is nothing to wait for: the kills are to come at any moment.
            for child in &mut children {
                std::thread::sleep(Duration::from_millis(round * 7 % 23));
                // It may have ended by itself.
                let _ = child.kill();
                child.wait().expect("it ends");
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    // The daemon may be at it, too.
    wait_for("everything to be gone through", Duration::from_secs(30), || {
        run(&sandbox);
        let status = consolidate(&sandbox, &["status", "--json"]).json();
        let claimed = number(&sandbox, "SELECT count(*) FROM consolidation_file_hashes WHERE run IS NOT NULL");
        (status["pending_files"] == 0 && status["running"].is_null() && claimed == 0).then_some(())
    });
    assert_eq!(sandbox.run("agent-index", &[], "").stderr, "");
    assert_eq!(fs::read_to_string(&talk).expect("it is there"), "", "nobody had to say anything");
    assert!(!daemon.log().contains("locked"), "{}", daemon.log());
    for database in ["memory", "index", "queue", "cost"] {
        assert_eq!(sandbox.query(database, "PRAGMA integrity_check"), [[Sql::Text("ok".to_owned())]], "{database}");
    }
    let twice = "SELECT count(*) FROM (SELECT 1 FROM facts WHERE valid_to IS NULL GROUP BY scope, entity_key, attribute_key HAVING count(*) > 1)";
    assert_eq!(number(&sandbox, twice), 0);
    assert_eq!(number(&sandbox, "SELECT count(*) FROM consolidation_state WHERE run IS NOT NULL"), 0);
    assert_eq!(number(&sandbox, "SELECT count(*) FROM consolidation_file_hashes WHERE run IS NOT NULL"), 0);
    let gaps = "SELECT count(*) FROM (SELECT first, lag(last, 1, 0) OVER (PARTITION BY source ORDER BY id) AS before FROM spans
                WHERE source NOT LIKE 'workspace/%') WHERE first <> before + 1";
    assert_eq!(number(&sandbox, gaps), 0, "each span follows the one before it");
    assert!(number(&sandbox, "SELECT count(*) FROM spans WHERE source NOT LIKE 'workspace/%'") > 2);
    let last = format!("{} May", (ROUNDS - 1) % 28 + 1);
    let birthdays: Vec<Value> = facts(&sandbox, &["birthday"]).iter().map(|fact| fact["value"].clone()).collect();
    assert_eq!(birthdays, vec![json!(last); 6]);
}

/// Runs `arguments` of each program again and again until `over`, killing about every third; returns what
/// was printed by those that ended by themselves and should have printed nothing.
fn hammer(sandbox: &Sandbox, program: &str, arguments: &[&[&str]], over: &AtomicBool, kills: &AtomicU64) -> Vec<String> {
    let mut said = Vec::new();
    for round in 0_u64.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let which = usize::try_from(round).unwrap_or(0) % arguments.len();
        let mut command = sandbox.command(program);
        command.args(arguments[which]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        if round % 3 == 2 {
            // There is nothing to wait for: the kill is to come at any moment.
            std::thread::sleep(Duration::from_millis(round * 7 % 31));
            let _ = child.kill();
        }
        let told = child.wait_with_output().expect("it ends");
        match told.status.code() {
            None => drop(kills.fetch_add(1, Ordering::Relaxed)),
            Some(0) if told.stderr.is_empty() => {}
            code => said.push(format!("{program} {code:?}: {}", String::from_utf8_lossy(&told.stderr))),
        }
    }
    said
}

#[test]
fn what_was_kept_outlives_kills_of_every_program() {
    const KEPT: usize = 6;
    const KILLS: u64 = 60;
    #[rustfmt::skip]
    const NAMES: [&str; 24] = [
        "Ana", "Berta", "Carla", "Dora", "Elsa", "Frida", "Gerda", "Hanna", "Ida", "Jana", "Karla", "Lena",
        "Mona", "Nina", "Olga", "Paula", "Rosa", "Sara", "Tanja", "Ute", "Vera", "Wanda", "Xenia", "Yara",
    ];
    let sandbox = Sandbox::new();
    let (over, kills, sure) = (AtomicBool::new(false), AtomicU64::new(0), AtomicUsize::new(0));
    let daemons = std::sync::Mutex::new(0);
    let (kept, said) = std::thread::scope(|scope| {
        // Whatever fails here, the others end: a scope waits for all of them.
        let _over = OnDrop(|| over.store(true, Ordering::Relaxed));
        let index: &[&[&str]] = &[&[], &["rebuild"], &[]];
        let consolidate: &[&[&str]] = &[&[], &["facts"], &["--backfill"]];
        let programs = [
            ("agent-index", index),
            ("agent-index", index),
            ("agent-consolidate", consolidate),
            ("agent-consolidate", consolidate),
        ];
        let (sandbox, over, kills, sure, daemons) = (&sandbox, &over, &kills, &sure, &daemons);
        let hammers: Vec<_> = programs
            .into_iter()
            .map(|(program, arguments)| scope.spawn(move || hammer(sandbox, program, arguments, over, kills)))
            .collect();
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let daemon = sandbox.ready();
                let before = sure.load(Ordering::Relaxed);
                // Each lives until something was kept under it.
                wait_for("an answer", Duration::from_secs(40), || {
                    (over.load(Ordering::Relaxed) || sure.load(Ordering::Relaxed) > before).then_some(())
                });
                daemon.kill9();
                *daemons.lock().expect("nobody panics with it") += 1;
            }
        });
        let mut kept: Vec<(String, &str)> = Vec::new();
        for name in NAMES {
            let enough = *daemons.lock().expect("nobody panics with it") >= KEPT;
            if kept.len() >= KEPT && kills.load(Ordering::Relaxed) >= KILLS && enough {
                break;
            }
            let told = sandbox.send(&["--wait=40", &format!("remember that {name}'s dog is Rex")]);
            let path = told.stdout.split('`').nth(1).filter(|_| told.stdout.starts_with("Kept as "));
            kept.extend(path.map(|path| (path.to_owned(), name)));
            sure.fetch_add(1, Ordering::Relaxed);
        }
        // Several answers may fall into the life of one daemon, and it dies of none that comes no more.
        wait_for("enough kills", Duration::from_secs(90), || {
            let deaths = *daemons.lock().expect("nobody panics with it");
            sandbox.send(&["--wait=40", "hello"]);
            sure.fetch_add(1, Ordering::Relaxed);
            (kills.load(Ordering::Relaxed) >= KILLS && deaths >= KEPT).then_some(())
        });
        over.store(true, Ordering::Relaxed);
        let said: Vec<String> = hammers.into_iter().flat_map(|one| one.join().expect("it does not panic")).collect();
        (kept, said)
    });
    // `facts` says so while there are none.
    let trouble: Vec<&String> = said.iter().filter(|line| !line.contains("there are no facts yet")).collect();
    assert!(trouble.is_empty(), "{trouble:?}");
    assert!(kept.len() >= KEPT && *daemons.lock().expect("nobody panics with it") >= KEPT, "{kept:?}");
    run(&sandbox);
    assert_eq!(sandbox.run("agent-index", &[], "").stderr, "");
    let known = facts(&sandbox, &[]);
    for (path, name) in &kept {
        assert!(sandbox.path(path).is_file(), "{path}");
        let found = sandbox.run("agent-index", &["search", "--json", "-k", "20", &format!("{name} dog")], "").json();
        assert!(
            found["results"].as_array().is_some_and(|all| all.iter().any(|hit| hit["path"] == json!(path))),
            "{path}: {found}"
        );
        assert!(known.iter().any(|fact| fact["source"] == json!(path)), "{path}: {known:?}");
    }
    for database in ["memory", "index", "queue", "cost"] {
        assert_eq!(sandbox.query(database, "PRAGMA integrity_check"), [[Sql::Text("ok".to_owned())]], "{database}");
    }
    let index = rusqlite::Connection::open(sandbox.path("state/index.db")).expect("open");
    index.execute("INSERT INTO chunks_fts(chunks_fts) VALUES ('integrity-check')", []).expect("the words fit together");
}
