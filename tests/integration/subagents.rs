//! Sub-agents: sent by a turn, working side by side, heard of once.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{FakeModel, House, Reply, Sandbox, wait_for};

const SOON: Duration = Duration::from_secs(30);
const OWNER: i64 = 1001;
const GROUP: i64 = -100_500;

/// Returns words that send a sub-agent for each task.
fn send(tasks: &[Value]) -> String {
    tasks
        .iter()
        .map(|task| format!("[[tool sessions_spawn {task}]] "))
        .collect()
}

/// Returns the text of the newest user message of every request whose newest words contain `words`.
fn requests_with(model: &FakeModel, words: &str) -> Vec<Value> {
    let newest = |request: &Value| {
        request["messages"]
            .as_array()
            .and_then(|messages| messages.last().cloned())
            .unwrap_or_default()
    };
    model
        .requests()
        .into_iter()
        .filter(|request| newest(request).to_string().contains(words))
        .collect()
}

/// Returns what whoever sent sub-agents heard of their end, once for each time they did.
fn reports(model: &FakeModel) -> Vec<String> {
    let told = requests_with(model, "the sub-agents you sent have ended");
    let words = |request: &Value| {
        request["messages"]
            .as_array()
            .and_then(|all| all.last())
            .expect("a message")
            .to_string()
    };
    told.iter().map(words).collect()
}

impl House {
    fn said_to(&self, chat: i64) -> Vec<String> {
        self.telegram
            .sent()
            .into_iter()
            .filter(|sent| sent.chat == chat)
            .map(|sent| sent.text)
            .collect()
    }

    fn wait_report(&self) -> String {
        wait_for("a report", SOON, || reports(&self.model).pop())
    }

    /// Returns how the sub-agents ended, by the record.
    fn endings(&self) -> Vec<(String, String)> {
        let sql = "SELECT envelope ->> '$.task.label', state || coalesce(' ' || reason, '') FROM inbox WHERE id LIKE 'sub:%' ORDER BY seq";
        let text = |value: &rusqlite::types::Value| match value {
            rusqlite::types::Value::Text(text) => text.clone(),
            other => format!("{other:?}"),
        };
        self.sandbox
            .query("queue", sql)
            .iter()
            .map(|row| (text(&row[0]), text(&row[1])))
            .collect()
    }
}

#[test]
fn two_sub_agents_work_side_by_side_and_are_heard_of_once() {
    let house = House::new();
    house.sandbox.put("workspace/USER.md", b"canary-user");
    let tasks = [
        json!({"task": "[[sleep 1500]] find A", "label": "A"}),
        json!({"task": "[[sleep 1500]] find B", "label": "B"}),
    ];
    house.telegram.say(OWNER, OWNER, &send(&tasks));
    // The one who sent them answers at once, and the conversation goes on.
    house
        .telegram
        .wait_sent(|sent| sent.text.contains("The sub-agent \"A\" works"), SOON);
    let lane = wait_for("sub-agents below their sender", SOON, || {
        let shown: Value =
            serde_json::from_str(&house.sandbox.monitor(&["--json"]).stdout).expect("a document");
        let lanes = shown["lanes"].as_array().cloned().unwrap_or_default();
        lanes.into_iter().find(|lane| {
            lane["children"]
                .as_array()
                .is_some_and(|children| !children.is_empty())
        })
    });
    assert!(
        lane["session"]
            .as_str()
            .is_some_and(|key| key.ends_with(":dm:1001")),
        "{lane}"
    );
    assert!(
        lane["children"][0]["session"]
            .as_str()
            .is_some_and(|key| key.starts_with("subagent:")),
        "{lane}"
    );
    let report = house.wait_report();
    assert!(
        report.contains("sub-agent \\\"A\\\" (ok):")
            && report.contains("sub-agent \\\"B\\\" (ok):"),
        "{report}"
    );
    house.telegram.wait_sent(
        |sent| sent.chat == OWNER && sent.text.contains("find "),
        SOON,
    );
    assert!(house.model.most_in_flight() >= 2, "they work at once");
    assert_eq!(reports(&house.model).len(), 1);

    // What they are given is their task, and no hands that speak or send.
    let request = requests_with(&house.model, "find A")
        .into_iter()
        .find(|request| request.to_string().contains("you are a sub-agent"));
    let request = request.expect("the sub-agent's");
    assert!(!request["system"].to_string().contains("canary-user"));
    let tools = request["tools"].to_string();
    assert!(
        tools.contains("\"read\"")
            && !tools.contains("\"message\"")
            && !tools.contains("sessions_spawn")
            && !tools.contains("schedule_message"),
        "{tools}"
    );
    let sessions = house.sandbox.send(&["--sessions", "--json"]).stdout;
    assert!(
        !sessions.contains("subagent:"),
        "they leave no conversation behind: {sessions}"
    );
}

#[test]
fn a_shell_hears_the_answer_itself_also_where_there_is_one_place() {
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.config("[agent]\nmax_concurrent_runs = 1\n");
    let _daemon = sandbox.ready();
    let words = send(&[
        json!({"task": "count the files"}),
        json!({"task": "name the files", "tools": ["read"]}),
    ]);
    let told = sandbox.send(&["--wait", &words]);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(
        told.stdout
            .contains("sub-agent \"count the files\" (ok):\necho: count the files"),
        "{told:?}"
    );
    assert!(told.stdout.contains("echo: name the files"), "{told:?}");
    assert_eq!(reports(&model), [] as [&str; 0], "nothing is told twice");
    let bounded = requests_with(&model, "name the files")
        .into_iter()
        .find(|request| request.to_string().contains("you are a sub-agent"));
    let tools: Vec<Value> = bounded.expect("the second")["tools"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    assert_eq!(
        tools
            .iter()
            .map(|tool| tool["name"].clone())
            .collect::<Vec<_>>(),
        ["read"]
    );
}

#[test]
fn the_settings_say_which_model_sub_agents_are() {
    let (model, sandbox) = Sandbox::with_model();
    let spare = "[models.small]\nmodel = \"small-model\"\ncost_per_mtok = [1.0, 2.0, 0.0, 0.0]\n";
    let sandbox = sandbox
        .config("[routing]\nsubagent = \"small\"\n")
        .provider_config("mock", spare);
    let _daemon = sandbox.ready();
    let words = send(&[
        json!({"task": "count the files"}),
        json!({"task": "name the files", "model": "primary"}),
    ]);
    let told = sandbox.send(&["--wait", &words]);
    assert_eq!(told.code, 0, "{told:?}");
    let asked = |task: &str| {
        let request = requests_with(&model, task)
            .into_iter()
            .find(|request| request.to_string().contains("you are a sub-agent"));
        request.expect("it was sent")["model"].clone()
    };
    assert_eq!(asked("count the files"), "small-model");
    assert_eq!(
        asked("name the files"),
        "mock-model",
        "an errand may name its own"
    );
}

#[test]
fn what_a_sub_agent_may_not_do_it_cannot() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    for tool in ["cron", "message", "sessions_spawn", "schedule_message"] {
        model.push(Reply::Tool(
            "sessions_spawn".into(),
            json!({"task": format!("try {tool}")}),
        ));
        model.push(Reply::Tool(
            tool.into(),
            json!({"op": "list", "task": "x", "to": "owner", "text": "x", "at": "2030-01-01T00:00"}),
        ));
        let told = sandbox.send(&["--wait", "go"]);
        assert!(
            told.stdout
                .contains(&format!("no tool is called \"{tool}\"")),
            "{told:?}"
        );
    }
}

#[test]
fn the_end_of_a_sub_agent_outlives_the_daemon() {
    let House {
        daemon,
        telegram,
        model,
        sandbox,
    } = House::new();
    model.push(Reply::Tool(
        "sessions_spawn".into(),
        json!({"task": "dig deep", "label": "digger"}),
    ));
    model.push_to_sub_agent(Reply::Hang);
    telegram.say(OWNER, OWNER, "dig");
    wait_for("the sub-agent", SOON, || {
        (model.requests().len() == 3).then_some(())
    });
    daemon.kill9();
    let house = House::of(sandbox, telegram, model);
    let report = house.wait_report();
    assert!(
        report.contains("sub-agent \\\"digger\\\" (ok):\\necho: dig deep"),
        "{report}"
    );
    wait_for("the answer", SOON, || {
        house
            .said_to(OWNER)
            .iter()
            .any(|text| text.contains("dig deep"))
            .then_some(())
    });
    let house = house.killed();
    house
        .sandbox
        .send(&["--wait", "--raw", "--to", &OWNER.to_string(), "mark"]);
    assert_eq!(reports(&house.model).len(), 1);
    assert_eq!(house.endings(), [("digger".to_owned(), "done".to_owned())]);
}

#[test]
fn a_turn_that_waits_for_a_sub_agent_goes_on_with_the_same_after_a_crash() {
    let (model, sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    model.push(Reply::Tool(
        "sessions_spawn".into(),
        json!({"task": "dig deep"}),
    ));
    model.push(Reply::Hang);
    let asking = sandbox.send(&["--id", "ask-1", "go"]);
    assert_eq!(asking.code, 0, "{asking:?}");
    model.wait_requests(2, SOON);
    daemon.kill9();
    let _daemon = sandbox.ready();
    let told = sandbox.send(&["--result", "ask-1", "--wait"]);
    assert!(
        told.stdout.contains("(ok):\necho: dig deep") && !told.stdout.contains("may or may not"),
        "{told:?}"
    );
    assert_eq!(
        requests_with(&model, "you are a sub-agent").len(),
        2,
        "the call in flight is made again, and no other"
    );
    assert_eq!(
        sandbox
            .query("queue", "SELECT id FROM inbox WHERE id LIKE 'sub:%'")
            .len(),
        1
    );
}

#[test]
fn a_stop_stops_them_and_their_sender_knows() {
    let house = House::new();
    let tasks = [json!({"task": "[[sleep 60000]] dig", "label": "slow", "wait": true})];
    // The words of the one who sends would sleep too: they come from the queue of replies.
    house
        .model
        .push(Reply::Tool("sessions_spawn".into(), tasks[0].clone()));
    house.telegram.say(OWNER, OWNER, "dig");
    wait_for("the sub-agent", SOON, || {
        (house.model.requests().len() == 2).then_some(())
    });
    house.telegram.say(OWNER, OWNER, "/stop");
    house
        .telegram
        .wait_sent(|sent| sent.text.starts_with("Stopped"), SOON);
    wait_for("its end", SOON, || {
        (house.endings() == [("slow".to_owned(), "done stopped".to_owned())]).then_some(())
    });
    wait_for("the call to end", SOON, || {
        (house.model.in_flight() == 0).then_some(())
    });
    house.telegram.say(OWNER, OWNER, "and?");
    house
        .telegram
        .wait_sent(|sent| sent.text == "echo: and?", SOON);
    let request = house.model.requests().pop().expect("a request").to_string();
    assert!(
        request.contains("a sub-agent of yours was stopped before it had answered (killed)"),
        "{request}"
    );
    assert_eq!(
        reports(&house.model),
        [] as [&str; 0],
        "nobody is woken for what they stopped"
    );
}

#[test]
fn time_money_and_failures_are_told_as_what_they_are() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    model.push(Reply::Tool(
        "sessions_spawn".into(),
        json!({"task": "hang", "timeout_secs": 1}),
    ));
    model.push(Reply::Hang);
    let told = sandbox.send(&["--wait", "go"]);
    assert!(
        told.stdout
            .contains("sub-agent \"hang\" (timeout):\nit took longer than its 1 s"),
        "{told:?}"
    );
    let told = sandbox.send(&[
        "--wait",
        &send(&[json!({"task": "think", "budget_usd": 0.000_001})]),
    ]);
    assert!(
        told.stdout.contains("sub-agent \"think\" (error):")
            && told.stdout.contains("limit is reached"),
        "{told:?}"
    );
    let told = sandbox.send(&[
        "--wait",
        &send(&[json!({"task": "think", "model": "nobody"})]),
    ]);
    assert!(told.stdout.contains("nobody"), "{told:?}");
    wait_for("rest", SOON, || {
        let status: Value =
            serde_json::from_str(&sandbox.monitor(&["--json"]).stdout).expect("a document");
        (status["lanes"] == json!([])).then_some(())
    });
}

#[test]
fn the_time_of_a_sub_agent_is_not_that_of_who_waits_for_it() {
    let house = House::with("[agent]\nrun_timeout_secs = 2\n");
    house.model.push(Reply::Tool(
        "sessions_spawn".into(),
        json!({"task": "[[say All is well.]]", "label": "look", "wait": true}),
    ));
    // The model is away while the sub-agent works, and its turn waits for it.
    for _ in 0..1000 {
        house.model.push_to_sub_agent(Reply::Status(529, None));
    }
    let (_, id) = house.telegram.say(OWNER, OWNER, "how is it?");
    wait_for("the sub-agent to wait", SOON, || {
        let waits = "SELECT id FROM inbox WHERE id LIKE 'sub:%' AND wake_at IS NOT NULL";
        (house.sandbox.query("queue", waits).len() == 1).then_some(())
    });
    std::thread::sleep(Duration::from_secs(4));
    house.model.forget();
    let answer = house
        .telegram
        .wait_sent(|sent| sent.reply_to == Some(id), 3 * SOON);
    assert!(answer.text.contains("All is well."), "{answer:?}");
}

#[test]
fn a_sub_agent_whose_sender_gave_up_is_reported() {
    let House {
        daemon,
        telegram,
        model,
        sandbox,
    } = House::with("[pipeline]\non_busy = \"interrupt\"\n");
    model.push(Reply::Tool(
        "sessions_spawn".into(),
        json!({"task": "[[sleep 4000]] [[say All is well.]]", "label": "look", "wait": true}),
    ));
    telegram.say(OWNER, OWNER, "how is it?");
    model.wait_requests(2, SOON);
    telegram.say(OWNER, OWNER, "[[say Wait.]] never mind");
    telegram.wait_sent(|sent| sent.text == "Wait.", SOON);
    let house = House {
        daemon,
        telegram,
        model,
        sandbox,
    };
    let report = house.wait_report();
    assert!(report.contains("All is well."), "{report}");
}

#[test]
fn a_sub_agent_sees_no_more_than_who_sent_it() {
    let house = House::with(&format!(
        "[telegram.groups.\"{GROUP}\"]\nrequire_mention = false\nallow_from = [{OWNER}]\n"
    ));
    let told = house.sandbox.send(&[
        "--wait",
        r#"[[tool memory_write {"type": "note", "content": "the canary-safe opens with 1234"}]]"#,
    ]);
    assert_eq!(told.code, 0, "{told:?}");
    let search = |sender: &dyn Fn()| {
        house.model.push(Reply::Tool(
            "sessions_spawn".into(),
            json!({"task": "spy", "wait": true}),
        ));
        house.model.push(Reply::Tool(
            "memory_search".into(),
            json!({"query": "canary-safe"}),
        ));
        sender();
    };
    search(&|| {
        house.telegram.say(GROUP, OWNER, "who knows?");
    });
    let told = house.telegram.wait_sent(
        |sent| sent.chat == GROUP && sent.text.contains("sub-agent"),
        SOON,
    );
    assert!(
        told.text.contains("(ok)") && !told.text.contains("1234"),
        "{told:?}"
    );
    // The owner alone may.
    wait_for("the owner's own", SOON, || {
        let told = std::cell::RefCell::new(String::new());
        search(&|| *told.borrow_mut() = house.sandbox.send(&["--wait", "who knows?"]).stdout);
        told.into_inner().contains("1234").then_some(())
    });
}

#[test]
fn untrusted_words_that_a_sub_agent_met_are_none_of_the_owners() {
    let house = House::new();
    let pages = house.sandbox.put("workspace/notes.txt", b"nothing");
    assert!(pages.exists());
    // Forwarded words are somebody else's; whoever is sent because of them is not the owner's voice either.
    let sandbox: &Sandbox = &house.sandbox;
    let told = sandbox.send(&[
        "--wait",
        "--untrusted",
        &send(&[json!({"task": "[[tool exec {\"command\": \"touch stolen\"}]]"})]),
    ]);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(!sandbox.path("workspace/stolen").exists(), "{told:?}");
}
