//! What the agent did and who allowed it: the record is there after the fact, whole, without a word of anybody.

use std::{fs, time::Duration};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{FakeModel, House, Reply, Sandbox, wait_for};

const SOON: Duration = Duration::from_secs(20);

fn entries(sandbox: &Sandbox) -> Vec<Value> {
    sandbox.send(&["--log", "--audit", "1000", "--json"]).json()["entries"]
        .as_array()
        .expect("entries")
        .clone()
}

fn of_kind(sandbox: &Sandbox, kind: &str) -> Vec<Value> {
    entries(sandbox)
        .into_iter()
        .filter(|entry| entry["kind"] == kind)
        .collect()
}

/// Fails unless the record is whole; returns the document.
fn whole(sandbox: &Sandbox) -> Value {
    let told = sandbox.send(&["--log", "--verify", "--json"]);
    let document = told.json();
    assert_eq!(
        (told.code, &document["whole"], &document["damage"]),
        (0, &json!(true), &Value::Null),
        "{document}"
    );
    document
}

#[test]
fn a_night_can_be_read_afterwards_and_tells_no_words() {
    let house = House::new();
    house.model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": "echo sesame-$((40 + 2))"}),
    ));
    house
        .model
        .push(Reply::Tool("sing".to_owned(), json!({"song": "lullaby"})));
    house
        .model
        .push(Reply::Text("The password is swordfish.".to_owned()));
    let (_, id) = house.telegram.say(1001, 1001, "open the grotto");
    let sent = house
        .telegram
        .wait_sent(|sent| sent.reply_to == Some(id), SOON);
    assert!(sent.text.contains("swordfish"), "{sent:?}");
    let send = wait_for("the send to be recorded", SOON, || {
        of_kind(&house.sandbox, "send").pop()
    });
    assert_eq!(
        (&send["channel"], &send["chat"], &send["outcome"]),
        (&json!("telegram"), &json!("1001"), &json!("sent"))
    );
    let calls = of_kind(&house.sandbox, "tool_call");
    let results = of_kind(&house.sandbox, "tool_result");
    let pairs: Vec<(&Value, &Value)> = calls
        .iter()
        .map(|call| (&call["tool"], &call["verdict"]))
        .collect();
    assert_eq!(
        pairs,
        [
            (&json!("exec"), &json!("run")),
            (&json!("unknown"), &json!("run"))
        ]
    );
    let outcomes: Vec<&Value> = results.iter().map(|result| &result["outcome"]).collect();
    assert_eq!(outcomes, ["ok", "error"]);
    assert_eq!(
        (&calls[0]["call"], &calls[0]["run"]),
        (&results[0]["call"], &results[0]["run"])
    );

    // The settings are read again, wrong ones too.
    house.daemon.signal(Signal::SIGHUP);
    wait_for("the reload to be recorded", SOON, || {
        of_kind(&house.sandbox, "config").get(1).cloned()
    });
    let config = of_kind(&house.sandbox, "config").remove(0);
    let sum = house.sandbox.bash(&format!(
        "sha256sum < {}",
        house.sandbox.path("agent.toml").display()
    ));
    let sum = sum.stdout.split(' ').next().map(str::to_owned);
    assert_eq!(
        (
            config["at"].as_str(),
            config["files"]["agent.toml"].as_str().map(str::to_owned)
        ),
        (Some("start"), sum)
    );
    let toml = fs::read_to_string(house.sandbox.path("agent.toml")).expect("settings");
    house.sandbox.put("agent.toml", b"[agent");
    house.daemon.signal(Signal::SIGHUP);
    let refused = wait_for("the refusal", SOON, || {
        of_kind(&house.sandbox, "config").get(2).cloned()
    });
    assert_eq!(refused["outcome"], "refused");
    house.sandbox.put("agent.toml", toml.as_bytes());

    let told = house.sandbox.send(&["--log", "--audit"]);
    assert!(
        told.stdout.contains("  call      exec  run  session=")
            && told.stdout.contains("  send      telegram 1001  sent"),
        "{told:?}"
    );
    whole(&house.sandbox);
    let House {
        daemon,
        sandbox,
        telegram,
        model,
    } = house;
    assert_eq!(daemon.term(), 0);
    assert_eq!(whole(&sandbox)["notes"], json!([]));
    let kinds: Vec<Value> = entries(&sandbox)
        .into_iter()
        .map(|entry| entry["kind"].clone())
        .collect();
    assert_eq!(
        (kinds.first(), kinds.last()),
        (Some(&json!("start")), Some(&json!("stop")))
    );
    let text = sandbox.read("state/audit.jsonl").expect("the record");
    for word in [
        "sesame",
        "grotto",
        "swordfish",
        "lullaby",
        "sing",
        "password",
        "echo",
    ] {
        assert!(!text.contains(word), "{word}: {text}");
    }
    let mode = |name: &str| {
        let meta = fs::metadata(sandbox.path(name)).expect("a file");
        std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o777
    };
    assert_eq!(
        ["state/audit.jsonl", "state/audit.head", "state/audit.key"].map(mode),
        [0o600; 3]
    );
    drop((telegram, model));
}

#[test]
fn a_record_that_was_touched_is_65_with_the_line_and_what_it_means() {
    let (_model, sandbox) = Sandbox::with_model();
    let told = sandbox.send(&["--log", "--verify"]);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "0 entries, whole\n"),
        "{told:?}"
    );
    assert_eq!(sandbox.ready().term(), 0);
    let text = sandbox.read("state/audit.jsonl").expect("the record");
    let check = |text: &str, words: &str| {
        sandbox.put("state/audit.jsonl", text.as_bytes());
        let told = sandbox.send(&["--log", "--verify"]);
        assert!(
            told.code == 65 && told.stdout.contains(words) && told.stderr.contains("hint: "),
            "{told:?}"
        );
        let told = sandbox.send(&["--log", "--verify", "--json"]);
        assert_eq!(
            (told.code, &told.json()["whole"]),
            (65, &json!(false)),
            "{told:?}"
        );
    };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    assert_eq!(lines.len(), 3, "start, config, stop: {text}");
    check(
        &text.replace("in force", "in farce"),
        "line 2: its content is not what it was written with",
    );
    check(
        &[lines[0], lines[2]].concat(),
        "line 2: entry 2 is missing before it",
    );
    check(
        &[lines[0], lines[2], lines[1]].concat(),
        "line 2: entry 3 is before entry 2",
    );
    check(
        &[lines[0], lines[1]].concat(),
        "line 3: the log ends after entry 2, and it had 3 at least",
    );
    sandbox.put("state/audit.jsonl", text.as_bytes());
    whole(&sandbox);
    fs::remove_file(sandbox.path("state/audit.jsonl")).expect("own file");
    assert_eq!(sandbox.send(&["--log", "--verify"]).code, 65);
    // And a start makes nothing of it good.
    assert_eq!(sandbox.ready().term(), 0);
    let told = sandbox.send(&["--log", "--verify"]);
    assert!(
        told.code == 65 && told.stdout.contains("line 1: when the daemon started at"),
        "{told:?}"
    );
}

#[test]
fn killed_in_the_middle_of_calls_it_stays_whole() {
    let model = FakeModel::start();
    let sandbox = Sandbox::new().with_anthropic(&model);
    for round in 0..3 {
        let daemon = sandbox.ready();
        model.push(Reply::Tool(
            "write".to_owned(),
            json!({"path": "a.md", "content": "x"}),
        ));
        model.push(Reply::Tool(
            "exec".to_owned(),
            json!({"command": "sleep 30"}),
        ));
        let id = format!("m{round}");
        assert_eq!(sandbox.send(&["--id", &id, "work"]).code, 0);
        let began = |entry: &Value| entry["kind"] == "tool_call" && entry["tool"] == "exec";
        wait_for("the call", SOON, || {
            (entries(&sandbox)
                .iter()
                .filter(|entry| began(entry))
                .count()
                > round)
                .then_some(())
        });
        whole(&sandbox);
        daemon.kill9();
        whole(&sandbox);
        // What a power cut may leave.
        if round == 1 {
            let text = sandbox.read("state/audit.jsonl").expect("the record");
            sandbox.put(
                "state/audit.jsonl",
                format!("{text}{{\"v\":1,\"seq\":").as_bytes(),
            );
            assert_eq!(whole(&sandbox)["notes"].as_array().map(Vec::len), Some(1));
        }
    }
    assert_eq!(sandbox.ready().term(), 0);
    assert_eq!(whole(&sandbox)["notes"].as_array().map(Vec::len), Some(1));
    let starts = entries(&sandbox)
        .iter()
        .filter(|entry| entry["kind"] == "start")
        .count();
    let stops = entries(&sandbox)
        .iter()
        .filter(|entry| entry["kind"] == "stop")
        .count();
    assert_eq!(
        (starts, stops),
        (4, 1),
        "who reads it sees that it died three times"
    );
}
