//! agent-consolidate: what becomes a fact and what does not, where it comes from, and what interrupts, damage
//! and a second run do to it.
#![allow(
    clippy::disallowed_methods,
    reason = "a test reads and breaks files plainly"
)]

mod kills;
mod model;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    process::{Command, Stdio},
    time::Duration,
};

use agent_toolkit::sys::lock;
use rusqlite::types::Value as Sql;
use serde_json::{Value, json};

use crate::support::{Output, Sandbox, bin, wait_for};

fn consolidate(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    sandbox.run("agent-consolidate", arguments, "")
}

/// Runs it and expects what cron expects: nothing.
fn run(sandbox: &Sandbox) {
    let told = consolidate(sandbox, &[]);
    assert_eq!(
        (told.code, told.stdout.as_str(), told.stderr.as_str()),
        (0, "", "")
    );
}

fn facts(sandbox: &Sandbox, arguments: &[&str]) -> Vec<Value> {
    let told = consolidate(sandbox, &[&["facts", "--json"], arguments].concat());
    assert_eq!((told.code, told.stderr.as_str()), (0, ""), "{told:?}");
    told.json()["facts"]
        .as_array()
        .expect("facts is a list")
        .clone()
}

/// Returns `attribute: value path:line` of each fact.
fn shown(sandbox: &Sandbox, arguments: &[&str]) -> Vec<String> {
    let text = |fact: &Value, name: &str| fact[name].as_str().expect("text").to_owned();
    let line = |fact: &Value| {
        format!(
            "{}: {} {}:{}",
            text(fact, "attribute"),
            text(fact, "value"),
            text(fact, "source"),
            fact["source_line"]
        )
    };
    let mut lines: Vec<String> = facts(sandbox, arguments).iter().map(line).collect();
    lines.sort();
    lines
}

fn number(sandbox: &Sandbox, sql: &str) -> i64 {
    match sandbox
        .query("memory", sql)
        .first()
        .and_then(|row| row.first().cloned())
    {
        Some(Sql::Integer(number)) => number,
        other => panic!("{sql}: {other:?}"),
    }
}

/// Returns the transcript of a conversation; each line is who speaks, whose words it is, and the words.
fn transcript(id: &str, said: &[(&str, &str, &str)]) -> String {
    let line = |seq: usize, more: Value| {
        let mut event =
            json!({"v": 1, "ts": format!("2026-05-04T10:00:{:02}.000Z", seq % 60), "seq": seq});
        event
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
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
    sandbox.put(
        "workspace/USER.md",
        b"# Me\n\n- Birthday: 3 May\n- Dog: Rex\n",
    );
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
    assert_eq!(
        (&fact["valid_to"], &fact["superseded_by"]),
        (&Value::Null, &Value::Null)
    );
    assert!(
        fact["valid_from"]
            .as_str()
            .is_some_and(|at| at.ends_with('Z'))
    );
    assert_eq!(facts(&sandbox, &["9 june"])[0]["scope"], "person:1002");

    // A line above, one corrected, one deleted.
    sandbox.put("workspace/USER.md", b"# Me\n\nHello.\n- Birthday: 4 May\n");
    run(&sandbox);
    let expected = [
        "birthday: 4 May workspace/USER.md:4",
        "birthday: 9 June workspace/memory/people/1002.md:1",
    ];
    assert_eq!(shown(&sandbox, &[]), expected);
    let old = &facts(&sandbox, &["3 may", "--all"])[0];
    assert_eq!(
        (&old["superseded_by"], old["valid_to"].is_string()),
        (&facts(&sandbox, &["4 may"])[0]["id"], true)
    );
    let gone = &facts(&sandbox, &["rex", "--all"])[0];
    assert_eq!(
        (&gone["superseded_by"], gone["valid_to"].is_string()),
        (&Value::Null, true)
    );
    fs::remove_file(sandbox.path("workspace/memory/people/1002.md")).expect("it is there");
    run(&sandbox);
    assert_eq!(
        shown(&sandbox, &[]),
        ["birthday: 4 May workspace/USER.md:4"]
    );
}

#[test]
fn an_empty_workspace_is_no_reason_to_forget() {
    let sandbox = Sandbox::new();
    let notes = sandbox.put("workspace/MEMORY.md", b"- Birthday: 3 May\n");
    run(&sandbox);
    fs::remove_file(&notes).expect("it is there");
    let told = consolidate(&sandbox, &[]);
    assert!(
        told.code == 0
            && told
                .stderr
                .starts_with("agent-consolidate: left out workspace: it is empty"),
        "{told:?}"
    );
    assert_eq!(facts(&sandbox, &[]).len(), 1);
    sandbox.put("workspace/SOUL.md", b"");
    run(&sandbox);
    assert_eq!(facts(&sandbox, &[]), [] as [Value; 0]);
}

#[test]
fn what_has_not_changed_is_not_gone_through_again() {
    let sandbox = Sandbox::new();
    sandbox.put("workspace/MEMORY.md", b"- Birthday: 3 May\n");
    sandbox.put(
        "state/sessions/s1.2026-05-04.jsonl",
        transcript("s1", &TALK).as_bytes(),
    );
    let spans = || number(&sandbox, "SELECT count(*) FROM spans");
    run(&sandbox);
    assert_eq!(spans(), 2);
    run(&sandbox);
    // Touched, and the same.
    sandbox.put("workspace/MEMORY.md", b"- Birthday: 3 May\n");
    run(&sandbox);
    let told = consolidate(&sandbox, &["--json"]).json();
    assert_eq!(
        (spans(), &told["unchanged"], &told["changes"]),
        (2, &json!(2), &json!([]))
    );
    let before = facts(&sandbox, &["--all"]);
    assert_eq!(consolidate(&sandbox, &["--backfill"]).code, 0);
    assert_eq!((spans(), facts(&sandbox, &["--all"])), (4, before));
    let status = consolidate(&sandbox, &["status", "--json"]).json();
    assert_eq!(
        (
            &status["facts"],
            &status["pending_files"],
            &status["pending_sessions"]
        ),
        (&json!(2), &json!(0), &json!(0))
    );
}

#[test]
fn an_item_is_the_fact_that_its_head_says() {
    let sandbox = Sandbox::new();
    let item = "---\nid: i1\ntype: fact\ntags: [\"x\"]\ncreated_at: 2026-01-01T00:00:00Z\nentity: \"Ana\"\nattribute: city\nvalue: \"Ŝanghajo\"\n---\n- Birthday: 3 May\n";
    sandbox.put("workspace/memory/items/i1.md", item.as_bytes());
    run(&sandbox);
    let all = facts(&sandbox, &[]);
    let told = ["entity", "attribute", "value", "source_line", "confidence"]
        .map(|name| all[0][name].clone());
    assert_eq!(
        (all.len(), told),
        (
            1,
            [
                json!("Ana"),
                json!("city"),
                json!("Ŝanghajo"),
                json!(8),
                json!(1.0)
            ]
        )
    );
}

#[test]
fn links_strange_bytes_and_what_init_writes_state_nothing() {
    let sandbox = Sandbox::new();
    sandbox.put("secret.md", b"- Birthday: 3 May\n");
    fs::create_dir_all(sandbox.path("workspace/memory")).expect("the sandbox is writable");
    symlink(
        sandbox.path("secret.md"),
        sandbox.path("workspace/memory/link.md"),
    )
    .expect("link");
    symlink(sandbox.path("secret.md"), sandbox.path("workspace/USER.md")).expect("link");
    sandbox.put(
        "workspace/memory/bytes.md",
        b"- Birthd\xffay: \xfe\0\n\x1b[31m\n",
    );
    sandbox.put(
        "state/sessions/broken.2026-05-04.jsonl",
        b"{ torn\n\xff\n{}\nno end",
    );
    sandbox.put("state/sessions/strange.jsonl", b"");
    assert_eq!(sandbox.run("agent-daemon", &["init", "--yes"], "").code, 0);
    run(&sandbox);
    assert!(shown(&sandbox, &["3 may"]).is_empty());
    let from_templates = facts(&sandbox, &["--all"]);
    assert!(
        !from_templates
            .iter()
            .any(|fact| fact["source"] != "workspace/memory/bytes.md"),
        "{from_templates:?}"
    );
}

// ------------------------------------------------------------------ conversations

#[test]
fn a_conversation_is_gone_through_span_by_span_and_found_in_the_archive() {
    let sandbox = Sandbox::new();
    let name = "s1.2026-05-04.jsonl";
    sandbox.put(
        &format!("state/sessions/{name}"),
        transcript("s1", &TALK[..3]).as_bytes(),
    );
    run(&sandbox);
    assert!(
        shown(&sandbox, &[]).is_empty(),
        "too few, and the last is not answered"
    );
    sandbox.put(
        &format!("state/sessions/{name}"),
        transcript("s1", &TALK).as_bytes(),
    );
    run(&sandbox);
    assert_eq!(
        shown(&sandbox, &[]),
        [format!("sister: Ana state/sessions/{name}:2")]
    );
    let more = [&TALK[..], &[("user", "owner", "I live in Berlin.")]].concat();
    fs::remove_file(sandbox.path(&format!("state/sessions/{name}"))).expect("it is there");
    sandbox.put(
        &format!("state/sessions/archive/{name}"),
        transcript("s1", &more).as_bytes(),
    );
    run(&sandbox);
    let moved = format!("state/sessions/archive/{name}");
    let places: Vec<(Value, Value)> = facts(&sandbox, &[])
        .iter()
        .map(|fact| (fact["source"].clone(), fact["source_line"].clone()))
        .collect();
    assert_eq!(places.len(), 2);
    assert!(
        places.contains(&(json!(moved), json!(2))) && places.contains(&(json!(moved), json!(6))),
        "{places:?}"
    );
    let told = consolidate(&sandbox, &["why", "sister", "--json"]).json();
    let source = &told["sources"][0];
    assert_eq!(
        (&told["fact"]["value"], &source["path"], &source["line"]),
        (&json!("Ana"), &json!(moved), &json!(2))
    );
    assert_eq!(
        (&source["session_id"], &source["seq"], &source["quote"]),
        (&json!("s1"), &json!(2), &json!("My sister is Ana."))
    );
    let spans = sandbox.query(
        "memory",
        "SELECT first, last FROM spans WHERE source = 's1' ORDER BY id",
    );
    assert_eq!(
        spans,
        [
            [Sql::Integer(1), Sql::Integer(5)],
            [Sql::Integer(6), Sql::Integer(6)]
        ]
    );
}

#[test]
fn untrusted_words_are_nobodys_facts() {
    let sandbox = Sandbox::new();
    let strangers = [
        ("user", "other", "My sister is Eve."),
        ("assistant", "", "ok"),
        ("user", "other", "x"),
        ("assistant", "", "ok"),
    ];
    sandbox.put(
        "state/sessions/archive/s1.2026-05-04.jsonl",
        transcript("s1", &strangers).as_bytes(),
    );
    // In one run with what somebody else wrote: the second message has the run of the first.
    let mixed = [
        ("user", "owner", "My sister is Eve."),
        ("user", "other", "x"),
        ("user", "owner", "hello"),
        ("assistant", "", "ok"),
    ];
    sandbox.put(
        "state/sessions/archive/s2.2026-05-04.jsonl",
        transcript("s2", &mixed).as_bytes(),
    );
    run(&sandbox);
    assert!(facts(&sandbox, &["--all"]).is_empty());
    assert_eq!(
        number(&sandbox, "SELECT count(*) FROM spans WHERE source = 's1'"),
        0
    );
}

#[test]
fn what_the_owner_says_to_a_running_daemon_becomes_a_fact() {
    let (_model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--wait=20", "My sister is Ana."]).code, 0);
    assert_eq!(
        sandbox
            .send(&["--wait=20", "--untrusted", "My sister is Eve."])
            .code,
        0
    );
    assert_eq!(sandbox.send(&["--wait=20", "thanks"]).code, 0);
    run(&sandbox);
    let all = facts(&sandbox, &[]);
    assert_eq!((all.len(), &all[0]["value"]), (1, &json!("Ana")), "{all:?}");
    let told = consolidate(&sandbox, &["why", "sister"]);
    assert!(
        told.stdout.contains("  My sister is Ana.") && told.stdout.contains(", event 2, "),
        "{told:?}"
    );
}

// ------------------------------------------------------------------ the shell

#[test]
fn a_dry_run_shows_the_diff_and_writes_nothing() {
    let sandbox = Sandbox::new();
    sandbox.put("workspace/MEMORY.md", b"- Birthday: 3 May\n- Dog: Rex\n");
    let told = consolidate(&sandbox, &["--dry-run"]);
    let expected = "+ user birthday: 3 May  (workspace/MEMORY.md:1)\n+ user dog: Rex  (workspace/MEMORY.md:2)\n";
    assert_eq!(
        (
            told.code,
            told.stdout.replace("Birthday", "birthday").as_str()
        ),
        (0, expected),
        "{told:?}"
    );
    assert!(!sandbox.path("state").exists(), "not even the directory");
    run(&sandbox);
    sandbox.put("workspace/MEMORY.md", b"- Birthday: 4 May\n");
    let listing = || -> BTreeMap<String, (Vec<u8>, u64)> {
        let entries = fs::read_dir(sandbox.path("state"))
            .expect("it is there")
            .flatten()
            .filter(|entry| entry.path().is_file());
        entries
            .map(|entry| {
                let bytes = fs::read(entry.path()).expect("readable");
                (
                    entry.file_name().to_string_lossy().into_owned(),
                    (bytes.clone(), bytes.len() as u64),
                )
            })
            .collect()
    };
    let before = listing();
    let told = consolidate(&sandbox, &["run", "--dry-run", "-q"]);
    let expected = "~ user birthday: 3 May → 4 May  (workspace/MEMORY.md:1)\n- user dog: Rex  (was in workspace/MEMORY.md:2)\n";
    assert_eq!(
        (told.code, told.stdout.as_str(), told.stderr.as_str()),
        (0, expected, "")
    );
    assert_eq!(
        consolidate(&sandbox, &["status", "--json"]).json()["pending_files"],
        1
    );
    assert!(listing() == before, "not a byte has changed");
    assert_eq!(
        shown(&sandbox, &["birthday"]),
        ["birthday: 3 May workspace/MEMORY.md:1"]
    );
}

#[test]
fn mistakes_have_their_exit_codes_and_nothing_is_an_answer() {
    let sandbox = Sandbox::new();
    assert_eq!(facts(&sandbox, &[]), [] as [Value; 0]);
    let told = consolidate(&sandbox, &["facts"]);
    assert_eq!(
        (told.code, told.stdout.as_str(), told.stderr.as_str()),
        (0, "", "agent-consolidate: no facts yet\n")
    );
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
        assert_eq!(
            (told.code, told.stdout.as_str()),
            (code, ""),
            "{arguments:?}: {told:?}"
        );
        let told = consolidate(&sandbox, &[arguments, &["--json"]].concat());
        assert_eq!(
            (told.code, &told.json()["error"]["code"]),
            (code, &json!(word)),
            "{arguments:?}: {told:?}"
        );
    }
    let told = consolidate(&sandbox, &["why", "user"]);
    assert!(
        told.stderr.contains("3 May") && told.stderr.contains("Rex"),
        "{told:?}"
    );
    for one in ["1", "#1", "birthday", "MAY birth"] {
        assert_eq!(
            consolidate(&sandbox, &["why", one, "--json"]).json()["fact"]["value"],
            "3 May",
            "{one}"
        );
    }
    let told = sandbox.run("agent-consolidate", &["--home", "/nonexistent/agent"], "");
    assert_eq!(told.code, 78, "{told:?}");
    assert!(
        told.stderr
            .contains("hint: agent-daemon --home /nonexistent/agent init"),
        "{told:?}"
    );
}

#[test]
fn cron_has_a_home_and_nothing_else() {
    let sandbox = Sandbox::new();
    let home = sandbox.path("user");
    sandbox.put(
        "user/.local/share/agent/workspace/MEMORY.md",
        b"- Birthday: 3 May\n",
    );
    let run = |arguments: &[&str]| {
        let mut command = Command::new(bin("agent-consolidate"));
        command
            .env_clear()
            .env("HOME", &home)
            .args(arguments)
            .current_dir("/")
            .stdin(Stdio::null());
        command.output().expect("it runs")
    };
    for arguments in [&[][..], &["--quiet"]] {
        let told = run(arguments);
        assert_eq!(
            (told.status.code(), told.stdout, told.stderr),
            (Some(0), vec![], vec![])
        );
    }
    let found: Value = serde_json::from_slice(&run(&["facts", "--json"]).stdout).expect("JSON");
    assert_eq!(found["facts"][0]["source"], "workspace/MEMORY.md");
}

#[test]
fn a_second_run_ends_at_once_and_says_so_only_when_asked() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("state")).expect("the sandbox is writable");
    sandbox.put("workspace/MEMORY.md", b"- Birthday: 3 May\n");
    let held = lock::try_lock(&sandbox.path("state/consolidate.lock"))
        .expect("lock")
        .expect("free");
    run(&sandbox);
    assert!(!sandbox.path("state/memory.db").exists());
    let told = consolidate(&sandbox, &["-v"]);
    let expected = format!(
        "agent-consolidate: already running (pid {})\n",
        std::process::id()
    );
    assert_eq!(
        (told.code, told.stdout.as_str(), told.stderr),
        (0, "", expected)
    );
    drop(held);
    // Another test may be starting a program just now, which holds the lock until it is that program.
    wait_for("the lock to be free", Duration::from_secs(20), || {
        run(&sandbox);
        (facts(&sandbox, &[]).len() == 1).then_some(())
    });
}

#[test]
fn a_damaged_database_is_left_alone_until_it_is_rebuilt() {
    let sandbox = Sandbox::new();
    sandbox.put("workspace/MEMORY.md", b"- Birthday: 3 May\n");
    run(&sandbox);
    let before = shown(&sandbox, &[]);
    sandbox.put("state/memory.db", &[7; 9000]);
    for arguments in [
        &[][..],
        &["--dry-run"],
        &["facts"],
        &["why", "1"],
        &["status"],
    ] {
        let told = consolidate(&sandbox, &[arguments, &["--json"]].concat());
        assert_eq!(
            (told.code, &told.json()["error"]["code"]),
            (65, &json!("bad_data")),
            "{arguments:?}: {told:?}"
        );
        assert!(
            told.json()["error"]["hint"]
                .as_str()
                .is_some_and(|hint| hint.starts_with("agent-consolidate --backfill")),
            "{told:?}"
        );
    }
    assert_eq!(
        fs::read(sandbox.path("state/memory.db")).expect("it is there"),
        [7; 9000]
    );
    let told = consolidate(&sandbox, &["--backfill"]);
    assert_eq!((told.code, told.stderr.lines().count()), (0, 1), "{told:?}");
    assert!(
        told.stderr.contains(
            "state/memory.db could not be used: it was moved to state/memory.db.corrupt-"
        ),
        "{told:?}"
    );
    assert_eq!(shown(&sandbox, &[]), before);
}

#[test]
fn what_a_newer_version_wrote_is_neither_shown_nor_changed() {
    let sandbox = Sandbox::new();
    sandbox.put("workspace/MEMORY.md", b"- Birthday: 3 May\n");
    run(&sandbox);
    let database = rusqlite::Connection::open(sandbox.path("state/memory.db")).expect("open");
    database
        .pragma_update(None, "user_version", 99)
        .expect("update");
    drop(database);
    for arguments in [
        &[][..],
        &["--dry-run"],
        &["--backfill"],
        &["facts"],
        &["why", "1"],
        &["status"],
    ] {
        let told = consolidate(&sandbox, &[arguments, &["--json"]].concat());
        assert_eq!(
            (told.code, &told.json()["error"]["code"]),
            (65, &json!("bad_data")),
            "{arguments:?}: {told:?}"
        );
        assert!(
            told.json()["error"]["hint"]
                .as_str()
                .is_some_and(|hint| hint.starts_with("use the newer version")),
            "{told:?}"
        );
    }
}

#[test]
fn a_pipe_among_the_transcripts_is_not_waited_for() {
    let sandbox = Sandbox::new();
    sandbox.put(
        "state/sessions/s1.2026-05-04.jsonl",
        transcript("s1", &TALK).as_bytes(),
    );
    let pipe = sandbox.path("state/sessions/s2.2026-05-04.jsonl");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("the sandbox is writable");
    run(&sandbox);
    assert_eq!(facts(&sandbox, &[]).len(), 1);
}

#[test]
fn facts_are_read_where_nothing_can_be_written() {
    let sandbox = Sandbox::new();
    sandbox.put("workspace/MEMORY.md", b"- Birthday: 3 May\n");
    run(&sandbox);
    let read_only =
        "mount --bind \"$AGENT_HOME\" \"$AGENT_HOME\" && mount -o remount,bind,ro \"$AGENT_HOME\"";
    let full = "mount -t tmpfs -o size=2m,mode=0700 tmpfs /mnt && cp -a \"$AGENT_HOME/.\" /mnt && AGENT_HOME=/mnt
                dd if=/dev/zero of=/mnt/ballast bs=4k 2>/dev/null";
    for disk in [read_only, full] {
        for arguments in [
            &["facts"][..],
            &["why", "birthday"],
            &["status"],
            &["commitments"],
            &["undo"],
            &["run", "--dry-run"],
        ] {
            let like = sandbox.command("agent-consolidate");
            let mut command = Command::new("unshare");
            command.args(["-m", "sh", "-c", &format!("{disk}\nexec \"$@\""), "sh"]);
            command.arg(bin("agent-consolidate")).args(arguments);
            command.env_clear().envs(
                like.get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            );
            let told = command.output().expect("unshare is there");
            let stderr = String::from_utf8_lossy(&told.stderr);
            if stderr.contains("unshare failed") {
                println!("skipped: no mount namespaces here (unshare -m needs root)");
                return;
            }
            assert_eq!(told.status.code(), Some(0), "{arguments:?}: {stderr}");
            let is_shown = String::from_utf8_lossy(&told.stdout).contains("3 May");
            assert_eq!(
                is_shown,
                ["facts", "why"].contains(&arguments[0]),
                "{arguments:?}: {told:?}"
            );
        }
    }
}

#[test]
fn a_report_is_one_document_also_when_reminders_cannot_be_ordered() {
    let sandbox = Sandbox::new().config("[telegram]\nenabled = true\n");
    sandbox.put("workspace/MEMORY.md", b"- Dog: Rex\n");
    sandbox.put("state/cron/jobs.json", b"{\"jobs\": [");
    let told = consolidate(&sandbox, &["--json"]);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(told.json()["changes"].is_array(), "{told:?}");
    assert!(
        told.stderr
            .contains("reminders of promises were not ordered")
            && told.stderr.contains("jobs.json"),
        "{told:?}"
    );
    // Who asks for the jobs themselves is told what to do with the file.
    sandbox.check_failure(&["--job", "list"], 65, "bad_data", "jobs.json");
}
