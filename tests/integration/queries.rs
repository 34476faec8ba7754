//! What `agent-send` can be asked, with a daemon and without: text for people, the documents of the specification
//! for programs, the right exit code, and numbers that are those of the ledger and of the model's own count.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test breaks files plainly, and says when it is skipped"
)]

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use rusqlite::types::Value as SqlValue;
use serde_json::{Value, json};

use crate::support::{Daemon, FakeModel, Reply, Sandbox, bin, wait_for};

/// Long against everything that happens here, short against the patience of a reader.
const SOON: Duration = Duration::from_secs(20);
/// Every question, with the code it ends with when no daemon runs.
const QUESTIONS: [(&[&str], i32); 14] = [
    (&["--status"], 69),
    (&["--queue"], 0),
    (&["--monitor"], 0),
    (&["--sessions"], 0),
    (&["--history", "cli:ada"], 0),
    (&["--history", "cli:ada", "--full"], 0),
    (&["--log"], 0),
    (&["--log", "3"], 0),
    (&["--log", "--audit", "3"], 0),
    (&["--log", "--verify"], 0),
    (&["--cost"], 0),
    (&["--cost", "week", "--by", "model"], 0),
    (&["--cost", "month", "--by", "day"], 0),
    (&["--cost", "all", "--by", "session"], 0),
];

fn house() -> (FakeModel, Sandbox) {
    let model = FakeModel::start();
    let sandbox = Sandbox::new().with_anthropic(&model);
    (model, sandbox)
}

fn ready(sandbox: &Sandbox) -> Daemon {
    let mut daemon = sandbox.daemon();
    daemon.wait_ready();
    daemon
}

/// Says something as `name` by the FIFO, and returns the reply document when it is final.
fn say(sandbox: &Sandbox, name: &str, text: &str) -> Value {
    let id = tell(sandbox, name, text);
    let told = sandbox.send(&["--result", &id, "--wait=20", "--json"]);
    assert_eq!(told.code, 0, "{told:?}");
    told.json()
}

/// Says something and returns its id.
fn tell(sandbox: &Sandbox, name: &str, text: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let id = format!("said-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let line =
        json!({"v": 1, "id": id, "cmd": "user", "sender": name, "text": text}).to_string() + "\n";
    let mut fifo = fs::OpenOptions::new()
        .write(true)
        .open(sandbox.path("state/control.fifo"))
        .expect("the daemon listens");
    fifo.write_all(line.as_bytes()).expect("the daemon reads");
    id
}

fn ask(sandbox: &Sandbox, question: &[&str]) -> Value {
    let with_json: Vec<&str> = question.iter().copied().chain(["--json"]).collect();
    let told = sandbox.send(&with_json);
    assert!(matches!(told.code, 0 | 69), "{with_json:?}: {told:?}");
    told.json()
}

fn keys(object: &Value) -> BTreeSet<&str> {
    object
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect()
}

fn set<'a>(keys: &[&'a str]) -> BTreeSet<&'a str> {
    keys.iter().copied().collect()
}

fn put(sandbox: &Sandbox, below: &str, text: &str) {
    let path = sandbox.path(below);
    fs::create_dir_all(path.parent().expect("it is below the home"))
        .expect("the sandbox is writable");
    fs::write(&path, text).expect("the sandbox is writable");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("own file");
}

/// Returns the words of a history, in order.
fn words(history: &Value) -> Vec<&str> {
    let blocks = history["events"]
        .as_array()
        .expect("a list")
        .iter()
        .flat_map(|event| event["content"].as_array());
    blocks
        .flatten()
        .filter_map(|block| block["text"].as_str())
        .collect()
}

/// Returns everything below the home, to see that nobody wrote.
fn everything(sandbox: &Sandbox) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut open = vec![sandbox.home()];
    while let Some(dir) = open.pop() {
        for path in fs::read_dir(dir)
            .expect("own directory")
            .map(|entry| entry.expect("own entry").path())
        {
            let name = path.display().to_string();
            if path.is_dir() {
                open.push(path);
            } else if path.is_file() && !name.ends_with("-shm") {
                files.push((name, fs::read(&path).expect("own file")));
            }
        }
    }
    files.sort();
    files
}

// ------------------------------------------------------------------ all of them

#[test]
fn every_question_has_an_answer_with_a_daemon_without_one_and_without_anything() {
    let (_model, sandbox) = house();
    let all = |code_of: &dyn Fn(i32) -> i32| {
        for (question, without) in QUESTIONS {
            let told = sandbox.send(question);
            // A conversation that never was has no text; as a document it is empty.
            let unknown = question[0] == "--history" && !sandbox.path("state").exists();
            let code = if unknown { 1 } else { code_of(without) };
            assert_eq!(told.code, code, "{question:?}: {told:?}");
            let quiet: Vec<&str> = question.iter().copied().chain(["-q"]).collect();
            let silent = sandbox.send(&quiet);
            assert_eq!(
                (silent.code, silent.stderr.is_empty()),
                (told.code, !unknown),
                "{quiet:?}"
            );
            assert!(!told.stdout.contains("panic"), "{question:?}: {told:?}");
            assert!(ask(&sandbox, question).is_object(), "{question:?}");
        }
    };
    all(&|without| without);
    assert!(!sandbox.path("state").exists(), "a question makes nothing");

    let daemon = ready(&sandbox);
    say(&sandbox, "ada", "hello");
    all(&|_| 0);
    assert_eq!(daemon.term(), 0);
    all(&|without| without);
}

#[test]
fn questions_change_nothing() {
    let (_model, sandbox) = house();
    let daemon = ready(&sandbox);
    say(&sandbox, "ada", "hello");
    assert_eq!(daemon.term(), 0);
    for (below, text) in [
        ("state/sessions/sessions.json", "{ torn"),
        ("state/people.json", "[1, 2"),
        ("state/monitor.json", "\u{0}"),
        ("state/logs/2020-01-01.jsonl", "{ torn"),
    ] {
        put(&sandbox, below, text);
    }
    let snapshot = fs::read_dir(sandbox.path("state/sessions"))
        .expect("sessions")
        .flatten();
    for entry in
        snapshot.filter(|entry| entry.file_name().to_string_lossy().ends_with(".state.json"))
    {
        fs::write(entry.path(), "{}").expect("the sandbox is writable");
    }
    let SqlValue::Text(id) = sandbox.query("queue", "SELECT id FROM inbox")[0][0].clone() else {
        panic!("an id is a text")
    };
    let before = everything(&sandbox);
    for (question, code) in QUESTIONS {
        assert_eq!(sandbox.send(question).code, code, "{question:?}");
    }
    assert_eq!(ask(&sandbox, &["--explain", &id])["text"], "hello");
    assert_eq!(
        ask(&sandbox, &["--sessions"])["sessions"][0]["message_count"],
        2,
        "what is torn is made from the transcript"
    );
    let after = everything(&sandbox);
    let names = |files: &[(String, Vec<u8>)]| {
        files
            .iter()
            .map(|(name, _)| name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&after), names(&before));
    assert!(after == before, "a file was written");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let (_model, sandbox) = house();
    let _daemon = ready(&sandbox);
    say(&sandbox, "ada", "[[long 300000]]");
    let programs = bin("agent-send")
        .parent()
        .expect("a program is in a directory")
        .to_owned();
    for (question, _) in QUESTIONS {
        for json in ["", " --json"] {
            let script = format!(
                "{}/agent-send {}{json} | head -c0; exit ${{PIPESTATUS[0]}}",
                programs.display(),
                question.join(" ")
            );
            let ran = Command::new("bash")
                .args(["-c", &script])
                .env("AGENT_HOME", sandbox.home())
                .env("MOCK_KEY", "k")
                .output();
            let ran = ran.expect("bash is installed");
            let talk = String::from_utf8_lossy(&ran.stderr);
            assert_eq!(ran.status.code(), Some(0), "{script}: {talk}");
            assert!(
                !talk.contains("roken pipe") && !talk.contains("panic"),
                "{script}: {talk}"
            );
        }
    }
    let full = Command::new(bin("agent-send"))
        .args(["--sessions", "--json"])
        .env("AGENT_HOME", sandbox.home())
        .stdout(
            fs::OpenOptions::new()
                .write(true)
                .open("/dev/full")
                .expect("Linux has it"),
        )
        .output()
        .expect("it runs");
    assert_eq!(full.status.code(), Some(74));
}

#[test]
fn the_documents_have_their_fields() {
    let (_model, sandbox) = house();
    let _daemon = ready(&sandbox);
    say(&sandbox, "ada", "hello");
    assert_eq!(
        keys(&ask(&sandbox, &["--sessions"])["sessions"][0]),
        set(&[
            "session_id",
            "key",
            "contact",
            "created_at",
            "updated_at",
            "model",
            "message_count",
            "compaction_count",
            "context_tokens",
            "context_pct",
            "cost_usd",
            "log_files",
            "log_bytes"
        ])
    );
    let numbers = [
        "calls",
        "unpriced_calls",
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "cost_usd",
    ];
    let cost = ask(&sandbox, &["--cost"]);
    let fields = [
        "period",
        "since",
        "total_cost_usd",
        "estimated_usd",
        "cache_read_ratio",
        "forecast_usd",
        "calls",
        "unpriced_calls",
        "later_calls",
        "models",
        "caps",
    ];
    assert_eq!(keys(&cost), set(&fields));
    assert_eq!(
        keys(&cost["models"][0]),
        set(&[&numbers[..], &["model"]].concat())
    );
    assert_eq!(
        keys(&cost["caps"]),
        set(&["day_usd", "month_usd", "day_left_usd", "month_left_usd"])
    );
    for (by, more) in [
        ("model", &["name"][..]),
        ("source", &["name"]),
        ("day", &["name"]),
        ("session", &["name", "key", "contact"]),
    ] {
        let cost = ask(&sandbox, &["--cost", "--by", by]);
        assert_eq!(keys(&cost), set(&[&fields[..], &["by", "groups"]].concat()));
        assert_eq!(
            keys(&cost["groups"][0]),
            set(&[&numbers[..], more].concat()),
            "{by}"
        );
    }
    let history = ask(&sandbox, &["--history", "ada"]);
    assert_eq!(
        keys(&history),
        set(&["session_id", "key", "contact", "events"])
    );
    assert_eq!(keys(&ask(&sandbox, &["--log"])), set(&["entries"]));
    assert_eq!(
        keys(&ask(&sandbox, &["--queue"])),
        set(&["inbox", "outbox", "dead", "approvals"])
    );
    let monitor = sandbox.monitor(&["--json"]).json();
    assert_eq!(keys(&ask(&sandbox, &["--monitor"])), keys(&monitor));
    assert_eq!(ask(&sandbox, &["--monitor"])["pid"], monitor["pid"]);
    assert!(
        sandbox
            .send(&["--monitor"])
            .stdout
            .contains(&monitor["pid"].to_string())
    );
}

// ------------------------------------------------------------------ money

#[test]
fn the_sums_are_those_of_the_ledger_and_of_the_model() {
    let (model, sandbox) = house();
    let daemon = ready(&sandbox);
    for (name, text) in [
        ("ada", "one"),
        ("bob", "two"),
        ("ada", "[[tool exec {\"command\": \"true\"}]]"),
    ] {
        say(&sandbox, name, text);
    }
    let check = || {
        let ledger = sandbox.query(
            "cost",
            "SELECT count(*), sum(cost_nano_usd), sum(input_tokens), sum(output_tokens) FROM costs",
        );
        let [
            SqlValue::Integer(calls),
            SqlValue::Integer(nano),
            SqlValue::Integer(input),
            SqlValue::Integer(output),
        ] = ledger[0][..]
        else {
            panic!("{ledger:?}");
        };
        let served = model.tokens_served();
        assert_eq!(
            (calls, input, output),
            (
                4,
                i64::try_from(served.input).expect("few"),
                i64::try_from(served.output).expect("few")
            )
        );
        // 3 and 15 dollars a million tokens.
        assert_eq!(nano, input * 3000 + output * 15_000);
        let exact = |value: &Value| (value.as_f64().expect("a number") * 1e9).round();
        for period in ["today", "week", "month", "all"] {
            for by in [
                None,
                Some("model"),
                Some("session"),
                Some("source"),
                Some("day"),
            ] {
                let question: Vec<&str> = ["--cost", period]
                    .into_iter()
                    .chain(by.iter().flat_map(|by| ["--by", by]))
                    .collect();
                let cost = ask(&sandbox, &question);
                assert_eq!(
                    (&cost["period"], &cost["calls"], &cost["unpriced_calls"]),
                    (&json!(period), &json!(calls), &json!(0))
                );
                for lines in [&cost["models"], &cost["groups"]] {
                    let Some(lines) = lines.as_array() else {
                        continue;
                    };
                    let sum = |field: &str| {
                        lines
                            .iter()
                            .map(|line| line[field].as_i64().expect("a number"))
                            .sum::<i64>()
                    };
                    assert_eq!(
                        (sum("calls"), sum("input_tokens"), sum("output_tokens")),
                        (calls, input, output),
                        "{question:?}"
                    );
                    let dollars: f64 = lines.iter().map(|line| exact(&line["cost_usd"])).sum();
                    assert_eq!(dollars, exact(&cost["total_cost_usd"]), "{question:?}");
                }
                assert_eq!(
                    exact(&cost["total_cost_usd"]),
                    exact(&json!(nano)) / 1e9,
                    "{question:?}"
                );
            }
        }
        let groups = |by: &str, field: &str| -> BTreeSet<String> {
            let cost = ask(&sandbox, &["--cost", "--by", by]);
            cost["groups"]
                .as_array()
                .expect("groups")
                .iter()
                .map(|group| group[field].as_str().expect("text").to_owned())
                .collect()
        };
        assert_eq!(
            groups("session", "key"),
            ["cli:ada", "cli:bob"].map(str::to_owned).into()
        );
        assert_eq!(groups("source", "name"), ["cli".to_owned()].into());
        assert_eq!(groups("model", "name"), ["primary".to_owned()].into());
    };
    check();
    let told = sandbox.send(&["--cost", "all", "--by", "session"]);
    let lines: Vec<&str> = told.stdout.lines().collect();
    assert!(
        lines[0].starts_with("SESSION ")
            && lines[1].starts_with("cli:ada ")
            && lines[3].starts_with("total "),
        "{told:?}"
    );
    assert_eq!(daemon.term(), 0);
    check();
    let sessions = ask(&sandbox, &["--sessions"]);
    let total: f64 = sessions["sessions"]
        .as_array()
        .expect("sessions")
        .iter()
        .map(|one| one["cost_usd"].as_f64().expect("cost"))
        .sum();
    assert!(
        (total
            - ask(&sandbox, &["--cost", "all"])["total_cost_usd"]
                .as_f64()
                .expect("cost"))
        .abs()
            < 1e-12
    );
}

#[test]
fn what_a_limit_leaves_is_told_and_a_call_without_a_price_is_named() {
    let (_model, mut sandbox) = house();
    sandbox.reconfigure("[cost]\nday_usd = 2.0\nmonth_usd = 3.5");
    assert_eq!(
        sandbox.send(&["--cost"]).stdout,
        "nothing spent today\nlimit today: $2.00, $2.0000 left\nlimit this month: $3.50, $3.5000 left\n"
    );
    let daemon = ready(&sandbox);
    say(&sandbox, "ada", "hello");
    let cost = ask(&sandbox, &["--cost", "all"]);
    let spent = cost["total_cost_usd"].as_f64().expect("cost");
    let left = cost["caps"]["day_left_usd"].as_f64().expect("left");
    assert!(spent > 0.0 && (left + spent - 2.0).abs() < 1e-9, "{cost}");
    assert_eq!(
        (&cost["caps"]["day_usd"], &cost["caps"]["month_usd"]),
        (&json!(2.0), &json!(3.5))
    );
    assert_eq!(daemon.term(), 0);

    let free = FakeModel::start();
    let sandbox = Sandbox::new().env("MOCK_KEY", "sk-mock-not-a-key").provider_config(
        "mock",
        &format!(
            "type = \"anthropic\"\nbase_url = \"{}\"\napi_key_env = \"MOCK_KEY\"\n[models.primary]\nmodel = \"m\"",
            free.url()
        ),
    );
    let _daemon = ready(&sandbox);
    say(&sandbox, "ada", "hello");
    let cost = ask(&sandbox, &["--cost"]);
    assert_eq!(
        (
            &cost["calls"],
            &cost["unpriced_calls"],
            &cost["total_cost_usd"]
        ),
        (&json!(1), &json!(1), &json!(0.0))
    );
    let told = sandbox.send(&["--cost"]);
    assert!(
        told.stdout.contains("unpriced") && told.stdout.contains("no price: 1 call of primary"),
        "{told:?}"
    );
}

// ------------------------------------------------------------------ conversations

#[test]
fn a_listing_is_right_as_soon_as_the_answer_is_there() {
    let (model, sandbox) = house();
    let _daemon = ready(&sandbox);
    for (number, name) in ["ada", "bob", "ada", "ada"].into_iter().enumerate() {
        let reply = say(&sandbox, name, "hello");
        let sessions = ask(&sandbox, &["--sessions"]);
        let newest = &sessions["sessions"][0];
        assert_eq!(
            (&newest["key"], &newest["session_id"]),
            (&json!(format!("cli:{name}")), &reply["session_id"]),
            "{number}"
        );
        let messages = [2, 2, 4, 6][number];
        assert_eq!(
            (
                &newest["message_count"],
                &newest["model"],
                &newest["contact"]
            ),
            (&json!(messages), &json!("primary"), &json!(name))
        );
        assert_eq!(
            (&newest["log_files"], &newest["compaction_count"]),
            (&json!(1), &json!(0))
        );
        let tokens = newest["context_tokens"].as_f64().expect("tokens");
        assert_eq!(
            newest["context_pct"],
            json!((tokens / 200.0).round() / 10.0),
            "of 200,000 tokens: {newest}"
        );
        let log = fs::read_dir(sandbox.path("state/sessions"))
            .expect("sessions")
            .flatten()
            .find(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                name.starts_with(newest["session_id"].as_str().expect("an id"))
                    && name.ends_with(".jsonl")
            });
        assert_eq!(
            newest["log_bytes"],
            json!(
                log.expect("its transcript")
                    .metadata()
                    .expect("own file")
                    .len()
            )
        );
    }
    assert_eq!(model.requests().len(), 4);
    let told = sandbox.send(&["--sessions"]);
    assert!(
        told.stdout.lines().all(|line| line.chars().count() <= 80),
        "{told:?}"
    );
    assert!(
        told.stdout
            .lines()
            .nth(1)
            .is_some_and(|line| line.starts_with("cli:ada ")),
        "{told:?}"
    );
}

#[test]
fn a_turn_that_runs_is_in_the_listing_already() {
    let (model, sandbox) = house();
    let _daemon = ready(&sandbox);
    say(&sandbox, "ada", "hello");
    model.push(Reply::Hang);
    tell(&sandbox, "ada", "again");
    model.wait_requests(2, SOON);
    assert_eq!(
        ask(&sandbox, &["--sessions"])["sessions"][0]["message_count"],
        3
    );
    let said = ask(&sandbox, &["--history", "ada"]);
    assert_eq!(words(&said), ["hello", "echo: hello", "again"]);
}

#[test]
fn a_history_has_what_was_said_in_order_and_in_full_everything() {
    let (model, sandbox) = house();
    let _daemon = ready(&sandbox);
    say(&sandbox, "ada", "one");
    model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": "printf '\\033[31mred\\a'; seq 200"}),
    ));
    say(&sandbox, "ada", "two");
    let short = ask(&sandbox, &["--history", "cli:ada"]);
    let kinds: Vec<&str> = short["events"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|event| event["type"].as_str())
        .collect();
    assert_eq!(
        kinds,
        [
            "message",
            "message",
            "message",
            "message",
            "tool_result",
            "message"
        ]
    );
    assert_eq!(words(&short)[..3], ["one", "echo: one", "two"]);
    assert!(!short.to_string().contains('⟦'), "{short}");

    let full = ask(&sandbox, &["--history", "cli:ada", "--full"]);
    let id = full["session_id"].as_str().expect("an id");
    let log = fs::read_dir(sandbox.path("state/sessions"))
        .expect("sessions")
        .flatten()
        .map(|entry| entry.path());
    let log = log
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jsonl")
        })
        .last()
        .expect("a transcript");
    let lines: Vec<Value> = fs::read_to_string(log)
        .expect("own file")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(full["events"], Value::Array(lines), "as it stands there");

    for target in [id, "ada", "ADA", "cli:ada"] {
        assert_eq!(ask(&sandbox, &["--history", target]), short, "{target}");
    }
    for arguments in [&["--history", "ada"][..], &["--history", "ada", "--full"]] {
        let told = sandbox.send(arguments);
        assert_eq!((told.code, told.stderr.as_str()), (0, ""), "{told:?}");
        assert!(!told.stdout.contains(['\u{1b}', '\u{7}']), "{told:?}");
        assert!(
            told.stdout.contains("  ada\n") && told.stdout.contains("\n  echo: one\n"),
            "{told:?}"
        );
        assert!(told.stdout.contains("    → exec "), "{told:?}");
    }
}

#[test]
fn an_archived_conversation_is_read_by_its_id_and_named_when_nothing_else_is_there() {
    let (_model, sandbox) = house();
    let daemon = ready(&sandbox);
    say(&sandbox, "ada", "before");
    let id = ask(&sandbox, &["--history", "ada"])["session_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    say(&sandbox, "ada", "/new");
    let told = sandbox.send(&["--history", "ada", "--json"]);
    assert_eq!(
        (
            told.code,
            &told.json()["events"],
            &told.json()["session_id"]
        ),
        (0, &json!([]), &json!("ada"))
    );
    assert!(told.stderr.contains(&id), "{told:?}");
    assert_eq!(sandbox.send(&["--history", "ada", "-q"]).stderr, "");
    assert_eq!(
        words(&ask(&sandbox, &["--history", &id])),
        ["before", "echo: before"]
    );

    say(&sandbox, "ada", "after");
    assert_eq!(
        words(&ask(&sandbox, &["--history", "ada"])),
        ["after", "echo: after"]
    );
    assert_eq!(
        words(&ask(&sandbox, &["--history", &id])),
        ["before", "echo: before"]
    );
    assert_eq!(daemon.term(), 0);
    assert_eq!(
        words(&ask(&sandbox, &["--history", &id])),
        ["before", "echo: before"]
    );
    let groups = ask(&sandbox, &["--cost", "--by", "session"]);
    let keys: Vec<&str> = groups["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .filter_map(|group| group["key"].as_str())
        .collect();
    assert_eq!(keys, ["cli:ada", "cli:ada"]);
}

#[test]
fn a_name_of_several_is_2_and_one_of_nobody_is_empty() {
    let (_model, sandbox) = house();
    let head = |id: &str, key: &str| {
        json!({"v": 1, "ts": "2025-11-21T10:00:00.000Z", "seq": 1, "type": "session", "session_id": id, "key": key,
            "contact": "Ada", "created_at": "2025-11-21T10:00:00.000Z"})
    };
    put(
        &sandbox,
        "state/sessions/s1.2025-11-21.jsonl",
        &format!("{}\n", head("s1", "agent:agent:telegram:dm:1001")),
    );
    put(
        &sandbox,
        "state/sessions/s2.2025-11-21.jsonl",
        &format!("{}\n", head("s2", "cli:ada")),
    );
    let told = sandbox.send(&["--history", "Ada"]);
    assert_eq!((told.code, told.stdout.as_str()), (2, ""));
    assert!(
        told.stderr.contains("agent:agent:telegram:dm:1001") && told.stderr.contains("cli:ada"),
        "{told:?}"
    );
    let told = sandbox.send(&["--history", "Ada", "--json"]);
    assert_eq!(
        (told.code, &told.json()["error"]["code"]),
        (2, &json!("usage"))
    );
    assert!(
        told.json()["error"]["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("cli:ada")),
        "{told:?}"
    );
    for nobody in [
        "nobody",
        "019aa9f2-6d4e-7c1b-9d0e-3f1a2b3c4d5e",
        "../sessions/s1",
        "@nobody",
        "",
    ] {
        let told = sandbox.send(&["--history", nobody, "--json"]);
        assert_eq!(
            (
                told.code,
                &told.json()["events"],
                &told.json()["session_id"]
            ),
            (0, &json!([]), &json!(nobody)),
            "{told:?}"
        );
        assert_eq!(sandbox.send(&["--history", nobody]).stdout, "");
    }
}

#[test]
fn a_transcript_without_its_first_line_is_still_read() {
    let (_model, sandbox) = house();
    let line = json!({"v": 1, "ts": "2025-11-21T10:00:00.000Z", "seq": 2, "type": "error", "run_id": "r", "text": "the end"});
    put(
        &sandbox,
        "state/sessions/archive/s9.2025-11-21.jsonl",
        &format!("{{\"half\n{line}\n{{\"torn"),
    );
    let history = ask(&sandbox, &["--history", "s9"]);
    assert_eq!(
        (&history["key"], &history["events"]),
        (&Value::Null, &json!([line]))
    );
    let told = sandbox.send(&["--history", "s9"]);
    assert_eq!(
        (told.stdout.as_str(), told.stderr.as_str()),
        ("    ! the end\n", "")
    );
}

#[test]
fn questions_that_make_no_sense_are_2() {
    let sandbox = Sandbox::new();
    for question in [
        &["--cost", "yesterday"][..],
        &["--cost", "--by", "colour"],
        &["--by", "day"],
        &["--history"],
        &["--full"],
        &["--log", "many"],
        &["--log", "-1"],
        &["--audit"],
        &["--verify"],
        &["--queue", "--verify"],
        &["--log", "--audit", "--verify"],
        &["--cost", "--sessions"],
        &["--sessions", "--wait"],
        &["--queue", "--no-queue"],
        &["--history", "ada", "--from", "bob"],
    ] {
        let told = sandbox.send(question);
        assert_eq!(
            (told.code, told.stdout.as_str()),
            (2, ""),
            "{question:?}: {told:?}"
        );
        let with_json: Vec<&str> = question.iter().copied().chain(["--json"]).collect();
        let told = sandbox.send(&with_json);
        assert_eq!(
            (told.code, &told.json()["error"]["code"]),
            (2, &json!("usage")),
            "{with_json:?}: {told:?}"
        );
    }
}

// ------------------------------------------------------------------ the log

#[test]
fn the_log_ends_with_what_happened_last() {
    let (model, sandbox) = house();
    let daemon = ready(&sandbox);
    model.push(Reply::Status(400, None));
    assert_eq!(sandbox.send(&["--wait=20", "fail"]).code, 1);
    let failed = |log: &Value| {
        log["entries"]
            .as_array()
            .expect("entries")
            .iter()
            .any(|entry| entry["message"] == "a turn failed")
    };
    let log = wait_for("the failure to be logged", SOON, || {
        Some(ask(&sandbox, &["--log"])).filter(failed)
    });
    assert_eq!(daemon.term(), 0);
    let entries = ask(&sandbox, &["--log", "1000"])["entries"]
        .as_array()
        .expect("entries")
        .clone();
    assert!(entries.len() > log["entries"].as_array().map_or(0, Vec::len));
    let times: Vec<&str> = entries
        .iter()
        .filter_map(|entry| entry["timestamp"].as_str())
        .collect();
    assert_eq!(times.len(), entries.len());
    // What two threads say in the same moment may stand the other way round, so the order holds by the second.
    let ms = |time: &str| {
        chrono::DateTime::parse_from_rfc3339(time)
            .expect("RFC 3339")
            .timestamp_millis()
    };
    assert!(
        times
            .windows(2)
            .all(|pair| ms(pair[0]) < ms(pair[1]) + 1000),
        "{times:?}"
    );
    let last = ask(&sandbox, &["--log", "2"]);
    assert_eq!(
        last["entries"].as_array().expect("entries").as_slice(),
        &entries[entries.len() - 2..]
    );
    assert_eq!(ask(&sandbox, &["--log", "0"]), json!({"entries": []}));

    let tomorrow = chrono::Utc::now().date_naive() + chrono::Days::new(1);
    put(
        &sandbox,
        &format!("state/logs/{tomorrow}.jsonl"),
        "not JSON\n{\"timestamp\":\"2099-01-01T00:00:00.000Z\",\"level\":\"WARN\",\"message\":\"a\\u001b[2Jb\\nc\",\"n\":1}\n{\"torn",
    );
    let told = sandbox.send(&["--log", "2"]);
    let lines: Vec<&str> = told.stdout.lines().collect();
    assert_eq!(
        (told.code, lines.len(), lines[1]),
        (0, 2, "2099-01-01 00:00:00  WARN   a\\u{1b}[2Jb\\u{a}c  n=1"),
        "{told:?}"
    );
}

#[test]
fn the_end_of_a_large_log_is_read_at_once() {
    let (_model, sandbox) = house();
    let line = format!(
        "{{\"timestamp\":\"2099-01-01T00:00:00.000Z\",\"level\":\"INFO\",\"message\":\"{}\"}}\n",
        "x".repeat(900)
    );
    put(
        &sandbox,
        "state/logs/2099-01-01.jsonl",
        &line.repeat(100_000),
    );
    let started = Instant::now();
    assert_eq!(
        ask(&sandbox, &["--log"])["entries"]
            .as_array()
            .map(Vec::len),
        Some(50)
    );
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "{:?}",
        started.elapsed()
    );
}

// ------------------------------------------------------------------ trouble

#[test]
fn files_that_cannot_be_read_are_named_with_the_next_step() {
    let (_model, sandbox) = house();
    let daemon = ready(&sandbox);
    say(&sandbox, "ada", "hello");
    assert_eq!(daemon.term(), 0);
    let check = |question: &[&str], code: i32, says: &str| {
        let told = sandbox.send(question);
        assert_eq!(
            (told.code, told.stdout.as_str()),
            (code, ""),
            "{question:?}: {told:?}"
        );
        assert!(
            told.stderr.contains(says) && told.stderr.contains("\nhint: "),
            "{question:?}: {told:?}"
        );
        let with_json: Vec<&str> = question.iter().copied().chain(["--json"]).collect();
        let told = sandbox.send(&with_json);
        assert_eq!(told.code, code, "{told:?}");
        assert!(told.json()["error"]["hint"].is_string(), "{told:?}");
    };
    let replace = |name: &str, text: &str| {
        for suffix in ["-wal", "-shm"] {
            // A clean end leaves none.
            let _ = fs::remove_file(sandbox.path(&format!("state/{name}.db{suffix}")));
        }
        put(&sandbox, &format!("state/{name}.db"), text);
    };
    replace("cost", &"garbage ".repeat(1000));
    check(&["--cost"], 65, "cost.db");
    check(&["--status"], 65, "cost.db");
    replace("queue", &"garbage ".repeat(1000));
    check(&["--queue"], 65, "queue.db");
    // One that was only just made is empty, not wrong.
    replace("cost", "");
    replace("queue", "");
    assert_eq!(ask(&sandbox, &["--cost"])["calls"], 0);
    assert_eq!(
        ask(&sandbox, &["--queue"]),
        json!({"inbox": [], "outbox": [], "dead": [], "approvals": []})
    );
    fs::remove_file(sandbox.path("state/cost.db")).expect("own file");
    fs::create_dir(sandbox.path("state/cost.db")).expect("own directory");
    check(&["--cost"], 74, "cost.db");

    // The settings: money needs them, the rest gets along.
    put(&sandbox, "agent.toml", "[agent\n");
    check(&["--cost"], 78, "agent.toml");
    assert_eq!(
        ask(&sandbox, &["--sessions"])["sessions"][0]["context_pct"],
        Value::Null
    );
    let told = sandbox.send(&["--history", "ada"]);
    assert!(
        told.code == 0 && told.stdout.contains("echo: hello") && told.stderr.contains("agent.toml"),
        "{told:?}"
    );
    let told = sandbox.send(&["--log"]);
    assert!(
        told.code == 0 && told.stdout.contains("INFO") && told.stderr.contains("UTC"),
        "{told:?}"
    );
}

#[test]
fn what_belongs_to_somebody_else_is_not_permitted_and_not_empty() {
    let (_model, sandbox) = house();
    let daemon = ready(&sandbox);
    say(&sandbox, "ada", "hello");
    assert_eq!(daemon.term(), 0);
    let root = fs::metadata("/proc/self")
        .map(|meta| std::os::unix::fs::MetadataExt::uid(&meta))
        .is_ok_and(|uid| uid == 0);
    if !root {
        println!("skipped: only root can become somebody else");
        return;
    }
    // The home can be entered, the state cannot; the programs may lie where nobody else can go.
    let parent = sandbox.home().parent().expect("a parent").to_owned();
    let (file, program) = (parent.join("agent-daemon"), parent.join("agent-send"));
    fs::copy(bin("agent-daemon"), &file).expect("the sandbox is writable");
    std::os::unix::fs::symlink(&file, &program).expect("the sandbox is writable");
    for path in [parent, sandbox.home(), file] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("own file");
    }
    fs::set_permissions(
        sandbox.path("agent.toml"),
        fs::Permissions::from_mode(0o644),
    )
    .expect("own file");
    // First the whole state is closed, then only what is in it.
    for mode in [0o700, 0o755] {
        fs::set_permissions(sandbox.path("state"), fs::Permissions::from_mode(mode))
            .expect("own directory");
        for (question, _) in QUESTIONS {
            let mut command = Command::new("setpriv");
            command
                .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
                .arg(&program)
                .args(question);
            let Ok(ran) = command.env("AGENT_HOME", sandbox.home()).output() else {
                println!("skipped: setpriv is not installed");
                return;
            };
            let talk = String::from_utf8_lossy(&ran.stderr);
            assert_eq!(ran.status.code(), Some(77), "{mode:o} {question:?}: {talk}");
            assert!(
                ran.stdout.is_empty() && talk.contains("sudo -u agent"),
                "{mode:o} {question:?}: {talk}"
            );
        }
    }
}
