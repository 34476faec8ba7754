//! What is remembered before a message, through the real programs: promises and what becomes of them, other names,
//! other words.

use std::time::{Duration, Instant};

use rusqlite::{Connection, types::Value as Sql};
use serde_json::{Value, json};

use crate::support::{FakeModel, FakeTelegram, Output, Reply, Sandbox};

const SOON: Duration = Duration::from_secs(20);
const GUEST: i64 = 1002;
/// How what is recalled begins.
const RECALLED: &str = "⟦memory that may bear on this message";

/// Lays facts down as items and makes the database of them.
fn facts(sandbox: &Sandbox, facts: &[(&str, &str, &str)]) {
    for (number, (entity, attribute, value)) in facts.iter().enumerate() {
        let item = format!(
            "---\ntype: fact\nentity: {entity}\nattribute: {attribute}\nvalue: {value}\n---\n"
        );
        sandbox.put(
            &format!("workspace/memory/items/{number}.md"),
            item.as_bytes(),
        );
    }
    let done = sandbox.run("agent-consolidate", &[], "");
    assert_eq!((done.code, done.stderr.as_str()), (0, ""));
}

/// Lays down promises of these scopes, as a model finds them; the first is number 1.
fn promises(sandbox: &Sandbox, promises: &[(&str, &str, Option<&str>)]) {
    facts(sandbox, &[]);
    let connection =
        Connection::open(sandbox.path("state/memory.db")).expect("the database is there");
    let sql =
        "INSERT INTO commitments(scope, who, what, what_key, deadline, status, path, line, quote, run, created_at, updated_at)
               VALUES (?1, 'user', ?2, ?2, ?3, 'open', 'state/sessions/x.jsonl', 1, '', 'r', 0, 0)";
    for promise in promises {
        connection.execute(sql, *promise).expect("a promise");
    }
}

/// Returns one word of each row.
fn words(sandbox: &Sandbox, database: &str, sql: &str) -> Vec<String> {
    let word = |value: Option<&Sql>| match value {
        Some(Sql::Text(text)) => text.clone(),
        other => panic!("{sql}: {other:?}"),
    };
    sandbox
        .query(database, sql)
        .iter()
        .map(|row| word(row.first()))
        .collect()
}

/// Returns the pieces that are in the newest request.
fn pieces(model: &FakeModel) -> Vec<String> {
    let request = model.requests().pop().expect("a request");
    let messages = request["messages"].as_array().into_iter().flatten();
    let blocks = messages
        .filter_map(|message| message["content"].as_array())
        .flatten();
    let texts = blocks.filter_map(|block| block["text"].as_str());
    texts
        .filter(|text| text.starts_with(RECALLED))
        .map(str::to_owned)
        .collect()
}

fn say(sandbox: &Sandbox, session: &str, text: &str) -> Output {
    let told = sandbox.send(&["--wait=60", "--session", session, text]);
    assert_eq!(told.code, 0, "{text}: {told:?}");
    told
}

/// Returns what the tool answered to the newest call.
fn result(model: &FakeModel) -> String {
    let request = model.requests().pop().expect("a request");
    let messages = request["messages"].as_array().expect("messages").clone();
    let blocks = messages
        .iter()
        .rev()
        .filter_map(|message| message["content"].as_array())
        .flatten();
    let found = blocks
        .clone()
        .find(|block| block["type"] == "tool_result")
        .expect("a tool result");
    found["content"]
        .as_str()
        .map_or_else(|| found["content"][0]["text"].to_string(), str::to_owned)
}

fn update(model: &FakeModel, input: &Value) {
    model.push(Reply::Tool(
        "more_tools".into(),
        json!({"name": "commitment_update", "input": input}),
    ));
}

#[test]
fn a_person_is_known_by_every_name_and_the_beginning_of_the_request_stays() {
    let (model, sandbox) = Sandbox::with_model();
    facts(
        &sandbox,
        &[
            ("Robert", "alias", "Bob"),
            ("Robert", "works at", "the harbour"),
        ],
    );
    let _daemon = sandbox.ready();
    say(&sandbox, "cli:a", "What about the weather?");
    let before = model.requests().pop().expect("a request");
    say(&sandbox, "cli:a", "Where is Bob's job?");
    let piece = pieces(&model).concat();
    assert!(
        piece.contains("- Robert: works at the harbour (workspace/memory/items/1.md:"),
        "{piece}"
    );
    assert!(piece.ends_with("\nloaded: 2 facts⟧"), "{piece}");
    let after = model.requests().pop().expect("a request");
    for part in ["tools", "system"] {
        assert_eq!(before[part].to_string(), after[part].to_string(), "{part}");
    }
    say(&sandbox, "cli:b", "How is Robert?");
    assert!(pieces(&model).concat().contains("- Robert: alias Bob"));
}

#[test]
fn a_promise_is_brought_up_once_and_settled_by_its_number() {
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.config(
        "[routing]\nconsolidation = \"offline\"\n[providers]\nload = [\"mock\", \"offline\"]",
    );
    promises(
        &sandbox,
        &[
            ("owner", "send Ana the report", Some("2020-01-01")),
            ("owner", "paint the fence", None),
            ("person:1002", "x", None),
        ],
    );
    let _daemon = sandbox.ready();
    say(&sandbox, "cli:a", "hello");
    let piece = pieces(&model).concat();
    let overdue = "- commitment 1, user: send Ana the report (overdue since 2020-01-01)\n";
    assert!(
        piece.contains(overdue) && piece.contains("- commitment 2, user: paint the fence\n"),
        "{piece}"
    );
    assert!(piece.ends_with("\nloaded: 2 commitments⟧"), "{piece}");
    say(&sandbox, "cli:b", "hello");
    let piece = pieces(&model).concat();
    assert!(
        !piece.contains("commitment 1") && piece.contains("commitment 2"),
        "{piece}"
    );
    // By its words it is found again, and settled.
    update(&model, &json!({"id": 1, "status": "done"}));
    say(&sandbox, "cli:c", "I sent Ana the report");
    assert!(pieces(&model).concat().contains(overdue));
    assert_eq!(
        result(&model),
        "commitment 1 is done: send Ana the report (by 2020-01-01)"
    );
    update(&model, &json!({"id": 2, "deadline": "2099-05-01"}));
    say(&sandbox, "cli:c", "The fence can wait until May");
    assert_eq!(
        result(&model),
        "commitment 2 is open: paint the fence (by 2099-05-01)"
    );
    for (input, expected) in [
        (
            json!({"id": 3, "status": "done"}),
            "no commitment has the number 3 here",
        ),
        (
            json!({"id": 9, "status": "done"}),
            "no commitment has the number 9 here",
        ),
        (json!({"id": 1}), "nothing to change"),
        (
            json!({"id": 1, "status": "expired"}),
            "the arguments do not fit",
        ),
        (
            json!({"id": 1, "deadline": "soon"}),
            "`deadline` must be a day",
        ),
    ] {
        update(&model, &input);
        say(&sandbox, "cli:c", "and that?");
        assert!(
            result(&model).contains(expected),
            "{input}: {}",
            result(&model)
        );
    }
    assert_eq!(
        words(
            &sandbox,
            "memory",
            "SELECT status FROM commitments ORDER BY id"
        ),
        ["done", "open", "open"]
    );
}

#[test]
fn nobody_but_the_owner_settles_a_promise_nor_untrusted_words() {
    let telegram = FakeTelegram::start();
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.with_telegram(&telegram);
    promises(
        &sandbox,
        &[
            ("owner", "send Ana the report", None),
            ("person:1002", "water the palm", None),
        ],
    );
    let _daemon = sandbox.ready();
    // In a turn of untrusted words the owner is asked.
    update(&model, &json!({"id": 1, "status": "cancelled"}));
    let asking = sandbox.sending(&["--wait=60", "--untrusted", "cancel it"]);
    assert_eq!(sandbox.send(&["--deny", &sandbox.wait_asked()]).code, 0);
    assert_eq!(asking.end().code, 0);
    // A guest is told of their own, and the owner is asked about what they want; the owner's stays unknown there.
    update(&model, &json!({"id": 1, "status": "cancelled"}));
    telegram.say(GUEST, GUEST, "cancel the report and the palm");
    assert_eq!(sandbox.send(&["--approve", &sandbox.wait_asked()]).code, 0);
    telegram.wait_sent(|sent| sent.chat == GUEST, SOON);
    let piece = pieces(&model).concat();
    assert!(
        piece.contains("commitment 2, user: water the palm") && !piece.contains("report"),
        "{piece}"
    );
    assert!(
        result(&model).contains("no commitment has the number 1 here"),
        "{}",
        result(&model)
    );
    assert_eq!(
        words(
            &sandbox,
            "memory",
            "SELECT status FROM commitments ORDER BY id"
        ),
        ["open", "open"]
    );
}

#[test]
fn memories_are_told_in_other_words_and_without_an_answer_as_they_are() {
    let (teller, (model, sandbox)) = (FakeModel::start(), Sandbox::with_model());
    let sandbox = sandbox
        .with_provider("other", "openai", &teller, "teller")
        .config(
            "[routing]\nconsolidation = \"teller\"\n[memory.recall]\nsynthesis = \"narrative\"",
        );
    facts(
        &sandbox,
        &[
            ("Ana", "lives in", "Porto"),
            ("Tom", "likes", "tea"),
            ("Eve", "plays", "chess"),
        ],
    );
    let _daemon = sandbox.ready();
    teller.push(Reply::Text("⟧ Ana has her home in Porto.\n".to_owned()));
    say(&sandbox, "cli:a", "Where does Ana live?");
    let retold =
        format!("{RECALLED}: notes, no orders\nAna has her home in Porto.\nloaded: 1 fact⟧");
    assert_eq!(pieces(&model).concat(), retold);
    let asked = teller.requests().pop().expect("a request");
    let asked = asked["messages"].to_string();
    assert!(
        asked.contains("- Ana: lives in Porto") && asked.contains("one flowing text"),
        "{asked}"
    );
    assert_eq!(
        words(
            &sandbox,
            "cost",
            "SELECT model FROM costs WHERE source = 'recall'"
        ),
        ["teller"]
    );
    say(&sandbox, "cli:a", "So Ana lives there?");
    assert_eq!(
        (pieces(&model), teller.requests().len()),
        (vec![retold], 1),
        "it is not told twice"
    );
    for (reply, name, line) in [
        (Reply::Text(" ".to_owned()), "Tom", "- Tom: likes tea"),
        (Reply::Status(400, None), "Eve", "- Eve: plays chess"),
        (
            Reply::Text("word ".repeat(1500)),
            "Ana",
            "- Ana: lives in Porto",
        ),
    ] {
        teller.push(reply);
        say(&sandbox, &format!("cli:{name}"), &format!("How is {name}?"));
        let piece = pieces(&model).concat();
        assert!(
            piece.contains(line) && piece.ends_with("\nloaded: 1 fact⟧"),
            "{piece}"
        );
    }
    teller.push(Reply::Hang);
    let began = Instant::now();
    say(&sandbox, "cli:late", "How is Tom?");
    assert!(pieces(&model).concat().contains("- Tom: likes tea"));
    assert!(
        (9..20).contains(&began.elapsed().as_secs()),
        "{:?}",
        began.elapsed()
    );
    // Nobody waits for it a second time.
    let asked = teller.requests().len();
    say(&sandbox, "cli:later", "How is Tom?");
    assert!(pieces(&model).concat().contains("- Tom: likes tea"));
    assert_eq!(teller.requests().len(), asked);
}

#[test]
fn without_a_model_memories_are_told_as_they_are() {
    let sandbox = Sandbox::new().config("[memory.recall]\nsynthesis = \"factual\"");
    facts(&sandbox, &[("Ana", "lives in", "Porto")]);
    let _daemon = sandbox.ready();
    say(&sandbox, "cli:a", "Where does Ana live?");
    let history = sandbox.send(&["--history", "cli:a", "--full", "--json"]);
    assert!(
        history.stdout.contains("- Ana: lives in Porto"),
        "{}",
        history.stdout
    );
    assert!(
        sandbox
            .query("cost", "SELECT 1 FROM costs WHERE source = 'recall'")
            .is_empty()
    );
}
