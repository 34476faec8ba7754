//! Vectors that a server makes are paid: forecast, set aside, booked and shown; a limit stops them, and nothing else.

use std::time::Duration;

use rusqlite::types::Value as SqlValue;
use serde_json::{Value, json};

use super::{index, put, sync};
use crate::support::{FakeModel, Output, Reply, Sandbox, wait_for};

/// Long against everything that happens here, short against the patience of a reader.
const SOON: Duration = Duration::from_secs(20);

/// A home whose vectors `model` makes, a dollar for a thousand tokens.
fn priced(model: &FakeModel) -> Sandbox {
    let vectors = "[models.vectors]\nmodel = \"embed-1\"\ncost_per_mtok = [1000.0, 0, 0]";
    let settings = "[memory.embeddings]\nprovider = \"mock\"\nmodel = \"embed-1\"";
    Sandbox::new()
        .with_openai(model)
        .provider_config("mock", vectors)
        .config(settings)
}

fn rows(sandbox: &Sandbox) -> Vec<(String, i64, Option<i64>)> {
    let sql = "SELECT source, cost_nano_usd, ok FROM costs WHERE kind = 'embedding' AND model = 'vectors' AND run_id = ''
               ORDER BY call_id";
    let row = |row: Vec<SqlValue>| match row.as_slice() {
        [
            SqlValue::Text(source),
            SqlValue::Integer(cost),
            SqlValue::Integer(ok),
        ] => (source.clone(), *cost, Some(*ok)),
        [
            SqlValue::Text(source),
            SqlValue::Integer(cost),
            SqlValue::Null,
        ] => (source.clone(), *cost, None),
        row => panic!("{row:?}"),
    };
    sandbox.query("cost", sql).into_iter().map(row).collect()
}

fn usd(document: &Value) -> f64 {
    document["cost_usd"]
        .as_f64()
        .unwrap_or_else(|| panic!("{document}"))
}

fn search(sandbox: &Sandbox, question: &str) -> Output {
    index(sandbox, &["search", question, "--explain", "--json"])
}

#[test]
fn what_vectors_cost_is_forecast_booked_and_shown_and_nothing_is_paid_twice() {
    let model = FakeModel::start();
    let sandbox = priced(&model);
    let long: String = (0..30)
        .map(|line| format!("Line {line} says that my bike number {line} stands in the shed.\n"))
        .collect();
    put(&sandbox, "workspace/MEMORY.md", &long);
    put(&sandbox, "workspace/memory/a.md", "My bike is red.\n");
    put(&sandbox, "workspace/memory/b.md", "My bike is red.\n");
    let forecast = index(&sandbox, &["sync", "--dry-run", "--json"]).json();
    assert!(
        usd(&forecast) > 0.1 && !sandbox.path("state/cost.db").exists(),
        "{forecast}"
    );
    let done = index(&sandbox, &["sync", "--json"]).json();
    let booked = rows(&sandbox);
    let [(source, nano, Some(1))] = booked.as_slice() else {
        panic!("{booked:?}")
    };
    assert_eq!((source.as_str(), usd(&done)), ("index", usd(&forecast)));
    assert_eq!(agent_toolkit::cost::usd(*nano), usd(&forecast));
    assert_eq!(model.requests().len(), 1);

    // Files that changed, and a chunk that was made a vector before.
    put(&sandbox, "workspace/memory/a.md", "My bike is blue.\n");
    put(&sandbox, "workspace/memory/c.md", "My bike is red.\n");
    let forecast = index(&sandbox, &["sync", "--dry-run", "--json"]).json();
    // 17 letters are six tokens.
    assert_eq!(usd(&forecast), 0.006, "{forecast}");
    assert_eq!(usd(&index(&sandbox, &["sync", "--json"]).json()), 0.006);
    std::fs::remove_file(sandbox.path("state/cost.db")).expect("it is there");
    for verb in ["sync", "rebuild"] {
        let done = index(&sandbox, &[verb, "--json"]).json();
        assert_eq!(
            (usd(&done), &done["vectors"]["failed"]),
            (0.0, &Value::Null),
            "{done}"
        );
    }
    assert_eq!(
        usd(&index(&sandbox, &["--full", "--dry-run", "--json"]).json()),
        0.0
    );
    assert!(
        !sandbox.path("state/cost.db").exists(),
        "who pays nothing opens nothing"
    );

    let found = search(&sandbox, "bicycle").json();
    assert!(
        found["results"][0]["vector_score"]
            .as_f64()
            .is_some_and(|cosine| cosine > 0.9),
        "{found}"
    );
    // 7 letters, 3 tokens.
    assert_eq!(rows(&sandbox), [("search".to_owned(), 3_000_000, Some(1))]);
    let cost = sandbox.send(&["--cost", "--by", "source", "--json"]).json();
    assert_eq!(
        (&cost["models"][0]["model"], &cost["groups"][0]["name"]),
        (&json!("vectors"), &json!("search"))
    );
    assert_eq!(
        (usd(&cost["groups"][0]), &cost["cache_read_ratio"]),
        (0.003, &Value::Null)
    );
    let shown = sandbox.send(&["--cost"]).stdout;
    assert!(
        shown.contains("vectors") && shown.contains("$0.003"),
        "{shown}"
    );
}

#[test]
fn a_limit_is_named_words_find_without_and_vectors_come_when_there_is_money() {
    let model = FakeModel::start();
    let mut sandbox = priced(&model).config("[cost]\nday_usd = 0.01");
    put(&sandbox, "workspace/MEMORY.md", "My bike is red.\n");
    // 17 bytes and 32 around them, at a tenth of a cent each.
    let says = "the day limit is reached: [cost] day_usd = 0.01 in agent.toml, spent or reserved 0.00, this call may cost up to 0.05 (US dollars)";
    sync(&sandbox);
    let told = index(&sandbox, &["-v"]);
    assert_eq!(
        (told.code, told.stderr.matches(says).count()),
        (0, 1),
        "{told:?}"
    );
    let status = index(&sandbox, &["status", "--json"]).json();
    assert_eq!(
        (&status["chunks"], &status["vectors"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(status["lacking"], json!(format!("mock/embed-1: {says}")));
    let told = index(&sandbox, &["status"]).stdout;
    assert!(
        told.contains(&format!(
            "lacking    1 of 1 vectors: mock/embed-1: {says}\n"
        )),
        "{told}"
    );
    let doctor = sandbox
        .run("agent-daemon", &["doctor", "--json"], "")
        .stdout;
    assert!(
        doctor.contains("index-without-vectors") && doctor.contains(says),
        "{doctor}"
    );
    let found = search(&sandbox, "bike").json();
    assert_eq!(
        found["results"][0]["path"],
        json!("workspace/MEMORY.md"),
        "{found}"
    );
    assert_eq!((rows(&sandbox).len(), model.requests().len()), (0, 0));

    sandbox.reconfigure("[cost]\nday_usd = 1.0");
    sync(&sandbox);
    let status = index(&sandbox, &["status", "--json"]).json();
    assert_eq!(
        (&status["vectors"], &status["lacking"]),
        (&json!(1), &Value::Null)
    );
    assert_eq!(rows(&sandbox), [("index".to_owned(), 5_000_000, Some(1))]);
}

#[test]
fn processes_that_search_at_once_stay_below_the_limit_and_all_find() {
    let model = FakeModel::start();
    let mut sandbox = priced(&model);
    put(&sandbox, "workspace/MEMORY.md", "My bike is red.\n");
    sync(&sandbox);
    // The text is paid: 5 tokens. Each question takes 36 at most and 2 in the end.
    sandbox.reconfigure("[cost]\nmonth_usd = 0.045");
    // Each another text: what one has paid for is no present to the next.
    let questions = [
        "bike", "Bike", "bIke", "biKe", "bikE", "BIke", "BiKe", "BikE",
    ];
    let searches: Vec<_> = questions
        .iter()
        .map(|question| {
            sandbox.starting("agent-index", &["search", question, "--explain", "--json"])
        })
        .collect();
    let found: Vec<Value> = searches
        .into_iter()
        .map(|search| search.end().json())
        .collect();
    assert!(
        found
            .iter()
            .all(|found| found["results"][0]["path"] == "workspace/MEMORY.md"),
        "{found:?}"
    );
    let refused = |found: &&Value| {
        found["without_vectors"]
            .as_str()
            .is_some_and(|why| why.contains("[cost] month_usd = 0.045"))
    };
    assert!(found.iter().any(|found| refused(&found)), "{found:?}");
    let booked = rows(&sandbox);
    // Three at most, one after another.
    assert!(
        (2..=4).contains(&booked.len())
            && booked.iter().map(|(_, nano, _)| nano).sum::<i64>() <= 45_000_000,
        "{booked:?}"
    );
}

#[test]
fn an_answer_that_comes_late_is_booked_and_kept() {
    let model = FakeModel::start();
    let sandbox = priced(&model);
    put(&sandbox, "workspace/MEMORY.md", "My bike is red.\n");
    sync(&sandbox);
    model.push(Reply::Held(String::new()));
    let batch = sandbox.starting("agent-index", &["batch"]);
    batch.write("{\"id\":1,\"query\":\"bike\"}\n");
    let said = batch.wait_said("\"id\":1");
    assert!(
        said.contains("MEMORY.md") && said.contains("\"vector_score\":null"),
        "{said}"
    );
    assert_eq!(
        rows(&sandbox)[1..],
        [("search".to_owned(), 36_000_000, None)],
        "it is set aside"
    );
    model.go_on();
    wait_for("the answer to be booked", SOON, || {
        (rows(&sandbox)[1] == ("search".to_owned(), 2_000_000, Some(1))).then_some(())
    });
    // It is booked a moment before it is kept.
    let mut id = 1;
    wait_for("what came late to be known", SOON, || {
        id += 1;
        batch.write(&format!("{{\"id\":{id},\"query\":\"bike\"}}\n"));
        let said = batch.wait_said(&format!("\"id\":{id}"));
        said.lines()
            .last()
            .is_some_and(|line| !line.contains("\"vector_score\":null"))
            .then_some(())
    });
    assert_eq!((rows(&sandbox).len(), model.requests().len()), (2, 2));
}

#[test]
fn the_daemon_pays_for_its_index_and_for_what_it_recalls_and_a_new_limit_holds_at_once() {
    let model = FakeModel::start();
    let mut sandbox = priced(&model);
    put(&sandbox, "workspace/MEMORY.md", "My bike is red.\n");
    let _daemon = sandbox.ready();
    wait_for("the index to be paid", SOON, || {
        sandbox
            .path("state/cost.db")
            .exists()
            .then(|| rows(&sandbox))
            .filter(|rows| rows.len() == 1)
    });
    wait_for("the vector", SOON, || {
        (index(&sandbox, &["status", "--json"]).json()["vectors"] == 1).then_some(())
    });
    assert_eq!(sandbox.send(&["--wait", "Which bicycle is mine?"]).code, 0);
    let sources = |sandbox: &Sandbox| {
        rows(sandbox)
            .into_iter()
            .map(|(source, ..)| source)
            .collect::<Vec<_>>()
    };
    assert_eq!(sandbox.send(&["--wait", "And which boat is mine?"]).code, 0);
    assert_eq!(sources(&sandbox), ["index", "search", "search"]);
    // For vectors at once; the conversation goes on by the settings that were read last.
    sandbox.reconfigure("[cost]\nday_usd = 0.011");
    assert_eq!(
        sandbox.send(&["--wait", "And which train is mine?"]).code,
        0
    );
    assert_eq!(sources(&sandbox), ["index", "search", "search"]);
}
