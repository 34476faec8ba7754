//! Why an answer came as it did: from a message to its waits, prompt, memories, calls, approvals, cost and delivery,
//! with a daemon and without, for every way in which a turn can end.

use std::{collections::BTreeSet, time::Duration};

use rusqlite::{Connection, types::Value as Sql};
use serde_json::{Value, json};

use crate::support::{Daemon, FakeModel, House, Reply, Running, Sandbox, wait_for};

const SOON: Duration = Duration::from_secs(30);
const OWNER: i64 = 1001;
const GUEST: i64 = 1002;
/// What every document has, whatever it explains.
const KEYS: [&str; 25] = [
    // Appendix B of the specification.
    "run_id",
    "message",
    "received_at",
    "waits",
    "prompt_blocks",
    "memories",
    "steps",
    "approvals",
    "cost_usd",
    "deliveries",
    "state",
    "text",
    "inputs",
    "source",
    "session_key",
    "session_id",
    "archived",
    "model",
    "started_at",
    "finished_at",
    "attempts",
    "cache_read_ratio",
    "unpriced_calls",
    "receipts",
    "tainted",
];

fn explain(sandbox: &Sandbox, id: &str) -> Value {
    let told = sandbox.send(&["--json", "--explain", id]);
    assert_eq!(told.code, 0, "{id}: {told:?}");
    told.json()
}

/// Waits until what is explained has this state.
fn explained(sandbox: &Sandbox, id: &str, state: &str) -> Value {
    wait_for(&format!("{id} to be {state}"), SOON, || {
        let told = sandbox.send(&["--json", "--explain", id]);
        (told.code == 0)
            .then(|| told.json())
            .filter(|document| document["state"] == state)
    })
}

fn keys(object: &Value) -> BTreeSet<&str> {
    object
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect()
}

fn word(sandbox: &Sandbox, sql: &str) -> String {
    match sandbox
        .query("queue", sql)
        .first()
        .and_then(|row| row.first())
    {
        Some(Sql::Text(text)) => text.clone(),
        other => panic!("{sql}: {other:?}"),
    }
}

/// Returns `model` or the tool of each step, with its state.
fn steps(document: &Value) -> Vec<String> {
    let steps = document["steps"].as_array().expect("a list").iter();
    let step = |step: &Value| match step["tool"].as_str() {
        Some(tool) => format!("{tool} {}", step["state"].as_str().expect("a state")),
        None => format!("model {}", step["ok"]),
    };
    steps.map(step).collect()
}

fn blocks(document: &Value) -> Vec<(&str, bool)> {
    let blocks = document["prompt_blocks"].as_array().expect("a list").iter();
    blocks
        .map(|block| {
            (
                block["name"].as_str().expect("a name"),
                block["cached"] == true,
            )
        })
        .collect()
}

fn waited(document: &Value, wait: &str) -> i64 {
    document["waits"][wait]
        .as_i64()
        .unwrap_or_else(|| panic!("{wait}: {document:#}"))
}

/// Answers what the agent asks for, once it does.
fn answer(sandbox: &Sandbox, asking: Running, verb: &[&str]) {
    let id = wait_for("a request", SOON, || {
        let waiting = sandbox.send(&["--queue", "--json"]).json();
        waiting["approvals"][0]["id"].as_str().map(str::to_owned)
    });
    let words: Vec<&str> = std::iter::once(verb[0])
        .chain([id.as_str()])
        .chain(verb[1..].iter().copied())
        .collect();
    assert_eq!(sandbox.send(&words).code, 0);
    assert_eq!(asking.end().code, 0);
}

#[test]
fn a_reply_in_a_chat_leads_back_to_all_it_came_from() {
    let house = House::new();
    house.model.caches();
    let (update, heard) = house.telegram.say(OWNER, OWNER, "hello there");
    let first = house
        .telegram
        .wait_sent(|sent| sent.text == "echo: hello there", SOON);
    house.telegram.say(OWNER, OWNER, "and again");
    let second = house
        .telegram
        .wait_sent(|sent| sent.text == "echo: and again", SOON);
    let document = wait_for("its delivery", SOON, || {
        let found = explain(&house.sandbox, &first.message_id.to_string());
        Some(found).filter(|found| found["deliveries"][0]["state"] == "sent")
    });
    let expected: BTreeSet<&str> = KEYS
        .into_iter()
        .chain(["reply", "children", "gone"])
        .collect();
    assert_eq!(keys(&document), expected);
    let waits = [
        "gather_ms",
        "queue_ms",
        "prepare_ms",
        "approvals_ms",
        "subagents_ms",
        "retries_ms",
    ];
    assert_eq!(keys(&document["waits"]), waits.into_iter().collect());
    assert_eq!(
        keys(&document["prompt_blocks"][0]),
        ["name", "tier", "tokens", "cached", "cut"]
            .into_iter()
            .collect()
    );
    let message = document["message"].as_str().expect("an id");
    assert!(
        message.starts_with("tg:") && message.ends_with(&format!(":{update}")),
        "{message}"
    );
    assert_eq!(document["text"], "hello there");
    assert_eq!(
        (document["state"].as_str(), document["source"].as_str()),
        (Some("done"), Some("telegram"))
    );
    let delivery = &document["deliveries"][0];
    assert_eq!(
        (
            delivery["attempt"].as_i64(),
            delivery["message_id"].as_str()
        ),
        (Some(1), Some(first.message_id.to_string().as_str()))
    );
    assert_eq!(steps(&document), ["model true"]);
    assert!(
        document["steps"][0]["duration_ms"].is_i64()
            && document["steps"][0]["input_tokens"].as_u64() > Some(0),
        "{document:#}"
    );
    let first_blocks = blocks(&document);
    assert_eq!(
        (first_blocks.first(), first_blocks.last()),
        (Some(&("tools", false)), Some(&("message", false))),
        "{document:#}"
    );

    // The second request has the same beginning.
    let later = wait_for("its delivery", SOON, || {
        let found = explain(&house.sandbox, &format!("{OWNER}/{}", second.message_id));
        Some(found).filter(|found| found["deliveries"][0]["state"] == "sent")
    });
    let later_blocks = blocks(&later);
    assert!(
        later_blocks.contains(&("tools", true)) && later_blocks.contains(&("instructions", true)),
        "{later:#}"
    );
    assert!(
        later_blocks.iter().any(|(name, _)| *name == "conversation"),
        "{later:#}"
    );
    assert_eq!(later_blocks.last(), Some(&("message", false)));
    assert!(later["cache_read_ratio"].as_f64() > Some(0.5), "{later:#}");

    // By its run, by its input, by the message it answers; and when no daemon runs.
    let run = document["run_id"].as_str().expect("a run");
    let House {
        daemon, sandbox, ..
    } = house;
    assert_eq!(daemon.term(), 0);
    for id in [
        run,
        message,
        &format!("{OWNER}/{heard}"),
        &first.message_id.to_string(),
    ] {
        assert_eq!(explain(&sandbox, id), document, "{id}");
    }
    let shown = sandbox.send(&["--explain", run]);
    assert!(
        shown.stdout.contains("hello there") && shown.stdout.contains("sent to telegram 1001"),
        "{shown:?}"
    );
    assert!(shown.stdout.lines().count() <= 40, "{shown:?}");

    // It knows the run again from what stays when the queue has forgotten it.
    let queue = Connection::open(sandbox.path("state/queue.db")).expect("the queue");
    queue
        .execute_batch("DELETE FROM inbox; DELETE FROM outbox; DELETE FROM approvals")
        .expect("pruned");
    for id in [run, message] {
        let left = explain(&sandbox, id);
        for same in [
            "run_id",
            "message",
            "received_at",
            "text",
            "state",
            "session_id",
            "prompt_blocks",
            "steps",
            "cost_usd",
            "model",
        ] {
            assert_eq!(left[same], document[same], "{same} of {id}");
        }
        assert_eq!(
            (&left["deliveries"], &left["attempts"]),
            (&json!([]), &Value::Null)
        );
        assert!(
            left["gone"][0]
                .as_str()
                .is_some_and(|gone| gone.contains("kept 14 days")),
            "{left:#}"
        );
    }
}

#[test]
fn what_the_owner_was_asked_stands_there_with_their_word() {
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.config("[tools.exec]\npolicy = \"ask\"");
    let _daemon = sandbox.ready();
    model.push(Reply::Tool("exec".into(), json!({"command": "echo hi"})));
    answer(
        &sandbox,
        sandbox.sending(&["--id", "yes-1", "--wait=30", "do it"]),
        &["--approve"],
    );
    let document = explain(&sandbox, "yes-1");
    assert_eq!(steps(&document), ["model true", "exec done", "model true"]);
    let asked = &document["approvals"][0];
    assert_eq!(
        (asked["state"].as_str(), asked["tool"].as_str()),
        (Some("used"), Some("exec"))
    );
    assert!(
        asked["text"]
            .as_str()
            .is_some_and(|text| text.contains("echo hi"))
            && asked["waited_ms"].is_i64(),
        "{asked}"
    );
    assert_eq!(
        waited(&document, "approvals_ms"),
        asked["waited_ms"].as_i64().expect("a number")
    );
    assert_eq!(document["steps"][1]["input"], "echo hi");

    model.push(Reply::Tool(
        "exec".into(),
        json!({"command": "rm -rf x\u{1b}[2J"}),
    ));
    answer(
        &sandbox,
        sandbox.sending(&["--id", "no-1", "--wait=30", "do that"]),
        &["--deny", "not today"],
    );
    let document = explain(&sandbox, "no-1");
    assert_eq!(
        steps(&document),
        ["model true", "exec not_run", "model true"]
    );
    let asked = &document["approvals"][0];
    assert_eq!(
        (asked["state"].as_str(), asked["answer"].as_str()),
        (Some("denied"), Some("not today"))
    );
    let shown = sandbox.send(&["--explain", "no-1"]);
    assert!(
        shown.stdout.contains("denied (“not today”)") && !shown.stdout.contains('\u{1b}'),
        "{shown:?}"
    );
}

#[test]
fn a_memory_is_named_by_its_place_and_its_score() {
    let (_model, sandbox) = Sandbox::with_model();
    let item = "---\ntype: fact\nentity: Ana\nattribute: lives in\nvalue: Porto\n---\n";
    sandbox.put("workspace/memory/items/1.md", item.as_bytes());
    assert_eq!(sandbox.run("agent-consolidate", &[], "").code, 0);
    let _daemon = sandbox.ready();
    assert_eq!(
        sandbox
            .send(&["--id", "ana-1", "--wait", "Where does Ana live?"])
            .code,
        0
    );
    let document = explain(&sandbox, "ana-1");
    let memory = document["memories"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|memory| memory["kind"] == "fact")
        .expect("the fact");
    assert!(
        memory["place"]
            .as_str()
            .is_some_and(|place| place.starts_with("workspace/memory/items/1.md:")),
        "{memory}"
    );
    assert!(memory["score"].as_f64() > Some(0.0), "{memory}");
    assert!(blocks(&document).contains(&("memories", false)));
    let noted = sandbox
        .send(&["--history", "cli:cli", "--full", "--json"])
        .json();
    let noted = noted["events"]
        .as_array()
        .expect("events")
        .iter()
        .find(|event| event["type"] == "prompt")
        .expect("the note");
    assert!(
        !noted.to_string().contains("Porto") && !noted.to_string().contains("Where does"),
        "no words stand there: {noted}"
    );
}

#[test]
fn a_time_of_a_job_is_explained_by_its_key() {
    let house = House::new();
    let added = house.sandbox.send(&[
        "--job",
        "add",
        "--id",
        "brief",
        "--name",
        "Brief",
        "--every",
        "9h",
        "--text",
        "what is on?",
        "--deliver",
    ]);
    assert_eq!(added.code, 0, "{added:?}");
    assert_eq!(house.sandbox.send(&["--job", "run", "brief"]).code, 0);
    house
        .telegram
        .wait_sent(|sent| sent.text == "echo: what is on?", SOON);
    let id = word(
        &house.sandbox,
        "SELECT id FROM inbox WHERE id LIKE 'job:brief:%'",
    );
    let document = explained(&house.sandbox, &id, "done");
    assert_eq!(
        (document["job"]["id"].as_str(), document["source"].as_str()),
        (Some("brief"), Some("job"))
    );
    assert!(
        document["job"]["at"].is_string() && document["prompt_blocks"][0]["name"] == "tools",
        "{document:#}"
    );
    assert_eq!(document["deliveries"][0]["chat"], OWNER.to_string());
}

#[test]
fn a_sub_agent_and_whoever_sent_it_name_each_other() {
    let (_model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    let words = format!(
        "[[tool sessions_spawn {}]]",
        json!({"task": "count the files", "label": "counter"})
    );
    assert_eq!(
        sandbox
            .send(&["--id", "sender-1", "--wait=30", &words])
            .code,
        0
    );
    let parent = explain(&sandbox, "sender-1");
    let child = &parent["children"][0];
    assert_eq!(
        (child["label"].as_str(), child["state"].as_str()),
        (Some("counter"), Some("done"))
    );
    assert!(
        child["cost_usd"].is_f64() && waited(&parent, "subagents_ms") > 0,
        "{parent:#}"
    );
    assert_eq!(
        steps(&parent),
        ["model true", "sessions_spawn done", "model true"]
    );

    let id = child["message"].as_str().expect("its input");
    let own = explain(&sandbox, id);
    assert_eq!(
        (&own["parent"]["run_id"], own["source"].as_str()),
        (&parent["run_id"], Some("subagent"))
    );
    assert_eq!(
        (steps(&own), own["archived"].as_bool()),
        (vec!["model true".to_owned()], Some(true))
    );
    assert!(
        own["cost_usd"].as_f64() <= parent["cost_usd"].as_f64(),
        "{own:#}"
    );
    assert_eq!(
        explain(&sandbox, child["run_id"].as_str().expect("its run")),
        own
    );
    let shown = sandbox.send(&["--explain", "sender-1"]).stdout;
    assert!(shown.contains("sub-agents counter done in "), "{shown}");
}

/// Asks a model that refuses, and returns how that is explained.
fn refused(model: &FakeModel, sandbox: &Sandbox) -> Value {
    model.push(Reply::Status(400, None));
    assert_eq!(
        sandbox
            .send(&["--id", "failed-1", "--wait=30", "to no avail"])
            .code,
        1
    );
    explain(sandbox, "failed-1")
}

#[test]
fn a_turn_that_failed_one_that_runs_one_that_waits_and_one_that_was_stopped() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    let failed = refused(&model, &sandbox);
    assert_eq!(
        (failed["state"].as_str(), steps(&failed)),
        (Some("failed"), vec!["model false".to_owned()])
    );
    assert!(
        failed["reason"]
            .as_str()
            .is_some_and(|why| why.contains("400")),
        "{failed:#}"
    );

    model.push(Reply::Hang);
    sandbox.send(&["--id", "running-1", "take your time"]);
    model.wait_requests(2, SOON);
    let running = explained(&sandbox, "running-1", "running");
    assert_eq!(
        (steps(&running), &running["finished_at"]),
        (vec!["model null".to_owned()], &Value::Null)
    );
    assert_eq!(
        (
            running["prompt_blocks"][0]["name"].as_str(),
            &running["prompt_blocks"][0]["cached"]
        ),
        (Some("tools"), &Value::Null)
    );
    sandbox.send(&["--id", "waiting-1", "the next"]);
    let waiting = explained(&sandbox, "waiting-1", "waiting");
    assert_eq!(
        (
            &waiting["run_id"],
            waiting["prompt_blocks"].as_array().map(Vec::len)
        ),
        (&Value::Null, Some(0))
    );
    assert!(
        waited(&waiting, "queue_ms") >= 0
            && sandbox
                .send(&["--explain", "waiting-1"])
                .stdout
                .contains("none yet")
    );

    assert_eq!(sandbox.send(&["--stop"]).code, 0);
    let stopped = explained(&sandbox, "running-1", "stopped");
    assert_eq!(stopped["attempts"], 1);
    assert_eq!(explained(&sandbox, "waiting-1", "stopped")["attempts"], 0);

    // What is archived stays explained.
    assert_eq!(sandbox.send(&["--reset", "cli:cli", "--wait=30"]).code, 0);
    let archived = explain(&sandbox, "failed-1");
    assert_eq!(
        (archived["archived"].as_bool(), &archived["prompt_blocks"]),
        (Some(true), &failed["prompt_blocks"])
    );
    assert_eq!(archived["session_id"], failed["session_id"]);
}

/// Starts a daemon and kills it while its model is asked for the `number`th time.
fn killed(sandbox: &Sandbox, model: &FakeModel, number: usize) {
    let daemon: Daemon = sandbox.ready();
    model.wait_requests(number, SOON);
    daemon.kill9();
}

#[test]
fn a_restart_counts_as_an_attempt_and_the_sixth_death_alone_is_the_end() {
    let (model, sandbox) = Sandbox::with_model();
    let (sandbox, mut clock) = sandbox.with_clock();
    for _ in 0..4 {
        model.push(Reply::Hang);
    }
    assert_eq!(sandbox.send(&["--id", "again-1", "once more"]).code, 75);
    let queued = explain(&sandbox, "again-1");
    assert_eq!(
        (queued["state"].as_str(), &queued["run_id"]),
        (Some("queued"), &Value::Null)
    );
    killed(&sandbox, &model, 1);
    let shown = sandbox.send(&["--explain", "again-1"]);
    assert!(shown.stderr.contains("no daemon is running"), "{shown:?}");
    let cut_off = explain(&sandbox, "again-1");
    assert_eq!(
        (cut_off["attempts"].as_i64(), steps(&cut_off)),
        (Some(1), vec!["model null".to_owned()])
    );
    model.forget();
    let daemon = sandbox.ready();
    let done = explained(&sandbox, "again-1", "done");
    assert_eq!(
        (done["attempts"].as_i64(), &done["run_id"]),
        (Some(2), &cut_off["run_id"])
    );
    assert_eq!(steps(&done), ["model null", "model true"]);
    assert!(
        sandbox
            .send(&["--explain", "again-1"])
            .stdout
            .contains("begun 2 times")
    );
    assert_eq!(daemon.term(), 0);

    for _ in 0..6 {
        model.push(Reply::Hang);
    }
    assert_eq!(sandbox.send(&["--id", "poison-1", "poison"]).code, 75);
    for death in 1..=6 {
        killed(&sandbox, &model, 2 + death);
        clock.later(Duration::from_secs(130));
        if (3..6).contains(&death) {
            // This start notes the death, and that the turn rests.
            sandbox.ready().kill9();
            clock.later(Duration::from_secs(600));
        }
    }
    let _daemon = sandbox.ready();
    let dead = explained(&sandbox, "poison-1", "dead");
    assert_eq!(
        (dead["attempts"].as_i64(), dead["reason"].as_str()),
        (Some(6), Some("interrupted by 6 restarts"))
    );
    assert_eq!(dead["prompt_blocks"][0]["name"], "tools");
}

#[test]
fn what_is_unknown_or_may_mean_several_says_what_to_try() {
    let house = House::new();
    for chat in [OWNER, GUEST] {
        house.telegram.say(chat, chat, "hi\u{202e}\u{1b}[2J");
    }
    let sent = [OWNER, GUEST].map(|chat| {
        house
            .telegram
            .wait_sent(|sent| sent.chat == chat, SOON)
            .message_id
            .to_string()
    });
    assert_eq!(sent[0], sent[1], "each chat counts its own");
    let told = wait_for("both deliveries", SOON, || {
        Some(house.sandbox.send(&["--explain", &sent[0]])).filter(|told| told.code == 2)
    });
    for chat in [OWNER, GUEST] {
        assert!(
            told.stderr.contains(&format!("{chat}/{}", sent[0])),
            "{told:?}"
        );
        let document = explain(&house.sandbox, &format!("{chat}/{}", sent[0]));
        assert!(
            document["session_key"]
                .as_str()
                .is_some_and(|key| key.ends_with(&format!(":{chat}"))),
            "{document:#}"
        );
    }
    let shown = house
        .sandbox
        .send(&["--explain", &format!("{OWNER}/{}", sent[0])])
        .stdout;
    assert!(
        shown.contains("\\u{202e}") && !shown.contains('\u{1b}') && !shown.contains('\u{202e}'),
        "{shown}"
    );
    for id in [
        "nothing",
        "",
        "99999",
        "1001/99999",
        "-100500/7",
        "tg:1:1",
        "..",
        "\"",
        "\u{1b}[2J",
        "job:x:1",
        "message",
    ] {
        let told = house.sandbox.send(&[&format!("--explain={id}")]);
        assert_eq!(told.code, 1, "{id:?}: {told:?}");
        assert!(
            told.stdout.is_empty()
                && told.stderr.contains("hint: ")
                && !told.stderr.contains('\u{1b}'),
            "{id:?}: {told:?}"
        );
    }
}

#[test]
fn commands_and_raw_words_have_no_prompt_and_are_explained_as_far_as_there_is_anything() {
    let house = House::new();
    house.telegram.say(OWNER, OWNER, "hi");
    house
        .telegram
        .wait_sent(|sent| sent.text == "echo: hi", SOON);
    assert_eq!(
        house
            .sandbox
            .send(&[
                "--id",
                "raw-1",
                "--raw",
                "--to",
                "owner",
                "the backup is done",
                "--wait=30"
            ])
            .code,
        0
    );
    let raw = wait_for("its delivery", SOON, || {
        Some(explain(&house.sandbox, "raw-1"))
            .filter(|found| found["deliveries"][0]["state"] == "sent")
    });
    assert_eq!(raw["gone"], json!([]));
    assert_eq!(
        (
            raw["state"].as_str(),
            raw["prompt_blocks"].as_array().map(Vec::len)
        ),
        (Some("done"), Some(0))
    );
    house.telegram.say(OWNER, OWNER, "/status");
    let told = house
        .telegram
        .wait_sent(|sent| sent.text.contains("Conversations: 1."), SOON);
    let status = wait_for("its record", SOON, || {
        let told = house.sandbox.send(&[
            "--json",
            "--explain",
            &format!("{OWNER}/{}", told.message_id),
        ]);
        (told.code == 0).then(|| told.json())
    });
    assert_eq!(
        (
            status["steps"].as_array().map(Vec::len),
            status["gone"].as_array().map(Vec::len)
        ),
        (Some(0), Some(0)),
        "{status:#}"
    );
}
