//! An index that was damaged in any way is said to be, answers go on without it, and the next run rebuilds
//! it from the files.

use std::fs::{self, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};

use super::rows::{self, Rows};
use super::{fill, index, put, sync};
use crate::support::{FakeModel, Sandbox, wait_for};

type Damage = fn(&Sandbox);

/// What may happen to it: the name, and how.
const DAMAGES: [(&str, Damage); 6] = [
    ("half of its pages overwritten", overwritten),
    ("cut in half", cut),
    ("the table of texts dropped", |sandbox| {
        drop_table(sandbox, "chunks")
    }),
    ("the table of words dropped", |sandbox| {
        drop_table(sandbox, "chunks_fts")
    }),
    ("the table of files dropped", |sandbox| {
        drop_table(sandbox, "files")
    }),
    ("the averages dropped", |sandbox| {
        drop_table(sandbox, "totals")
    }),
];

fn overwritten(sandbox: &Sandbox) {
    let mut file = OpenOptions::new()
        .write(true)
        .open(sandbox.path("state/index.db"))
        .expect("it is there");
    let size = file.metadata().expect("a file").len();
    file.seek(SeekFrom::Start(size / 4)).expect("a file");
    file.write_all(&vec![0x5a; usize::try_from(size / 2).expect("small")])
        .expect("the sandbox is writable");
}

fn cut(sandbox: &Sandbox) {
    let file = OpenOptions::new()
        .write(true)
        .open(sandbox.path("state/index.db"))
        .expect("it is there");
    file.set_len(file.metadata().expect("a file").len() / 2)
        .expect("the sandbox is writable");
}

fn drop_table(sandbox: &Sandbox, table: &str) {
    let connection = Connection::open(sandbox.path("state/index.db")).expect("open");
    connection
        .execute_batch(&format!("PRAGMA foreign_keys=OFF; DROP TABLE {table};"))
        .expect("drop");
}

/// What the tests of damage search for.
fn words() -> Vec<String> {
    ["gannet", "file", "weight", "7"]
        .map(str::to_owned)
        .to_vec()
}

fn finding(sandbox: &Sandbox) -> Option<Value> {
    let document = sandbox
        .run("agent-daemon", &["doctor", "--json", "-q"], "")
        .json();
    let findings = document["findings"].as_array().expect("a list").clone();
    findings
        .into_iter()
        .find(|finding| finding["id"] == "index-damaged")
}

#[test]
fn every_damage_is_said_and_the_next_run_or_a_rebuild_heals_it() {
    let sandbox = Sandbox::new();
    fill(&sandbox, 120);
    sync(&sandbox);
    let whole = Rows::of(&sandbox, &words());
    for (name, damage) in DAMAGES {
        for verb in ["sync", "rebuild"] {
            damage(&sandbox);
            let found =
                finding(&sandbox).unwrap_or_else(|| panic!("doctor finds nothing wrong: {name}"));
            assert!(
                found["evidence"]
                    .as_str()
                    .is_some_and(|why| why.contains("state/index.db is damaged: ")),
                "{found}"
            );
            for asked in [&["search", "gannet", "--json"][..], &["status", "--json"]] {
                let told = index(&sandbox, asked);
                assert_eq!(
                    (told.code, &told.json()["error"]["code"]),
                    (65, &json!("bad_data")),
                    "{name}, {asked:?}: {told:?}"
                );
                let hint = told.json()["error"]["hint"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                assert!(
                    hint.starts_with("agent-index rebuild"),
                    "{name}, {asked:?}: {hint}"
                );
            }
            let told = index(&sandbox, &[verb]);
            assert_eq!(
                (told.code, told.stdout.as_str()),
                (0, ""),
                "{name}, {verb}: {told:?}"
            );
            let said =
                "agent-index: state/index.db could not be used and was rebuilt from the files\n";
            assert_eq!(told.stderr, said, "{name}, {verb}");
            rows::check_whole(&sandbox);
            assert_eq!(
                Rows::of(&sandbox, &words()).difference(&whole),
                None,
                "{name}, {verb}"
            );
            assert_eq!(finding(&sandbox), None, "{name}, {verb}");
            // Once is enough.
            sync(&sandbox);
        }
    }
}

#[test]
fn a_rebuild_trusts_nothing_that_nobody_complained_of() {
    let sandbox = Sandbox::new();
    fill(&sandbox, 120);
    sync(&sandbox);
    let whole = Rows::of(&sandbox, &words());
    overwritten(&sandbox);
    let told = index(&sandbox, &["rebuild"]);
    assert_eq!((told.code, told.stderr.lines().count()), (0, 1), "{told:?}");
    rows::check_whole(&sandbox);
    assert_eq!(Rows::of(&sandbox, &words()).difference(&whole), None);
}

#[test]
fn messages_are_answered_while_the_index_is_damaged() {
    let model = FakeModel::start();
    let sandbox = Sandbox::new().with_anthropic(&model);
    fill(&sandbox, 120);
    sync(&sandbox);
    let daemon = sandbox.ready();
    for (name, damage) in DAMAGES {
        damage(&sandbox);
        let told = sandbox.send(&["--wait", "What of the gannet and other words of no weight?"]);
        assert_eq!((told.code, told.stderr.as_str()), (0, ""), "{name}");
        // What it could not recall it has noted, unless it healed it already.
        assert_eq!(index(&sandbox, &[]).code, 0, "{name}");
        rows::check_whole(&sandbox);
    }
    assert_eq!(daemon.term(), 0);
}

#[test]
fn a_log_taken_away_under_a_reader_costs_at_most_an_answer() {
    let sandbox = Sandbox::new();
    fill(&sandbox, 60);
    sync(&sandbox);
    let batch = sandbox.starting("agent-index", &["batch"]);
    let mut asked = 0;
    let mut ask = |query: &str| -> Value {
        asked += 1;
        batch.write(&format!(
            "{}\n",
            json!({"id": asked, "query": query, "strategy": "fts"})
        ));
        let line = wait_for("an answer", Duration::from_secs(20), || {
            let said = batch.said().0;
            said.split_inclusive('\n')
                .nth(asked - 1)
                .filter(|line| line.ends_with('\n'))
                .map(str::to_owned)
        });
        serde_json::from_str(&line).expect("JSON")
    };
    assert!(
        ask("gannet")["results"]
            .as_array()
            .is_some_and(|hits| !hits.is_empty())
    );
    for round in 0..3 {
        put(
            &sandbox,
            "workspace/MEMORY.md",
            &format!("The heron{round} stands by the pond.\n"),
        );
        sync(&sandbox);
        fs::remove_file(sandbox.path("state/index.db-wal")).expect("the reader keeps it");
        // Whole, whatever it says.
        ask("heron");
        put(
            &sandbox,
            "workspace/MEMORY.md",
            &format!("The bittern{round} stands by the pond.\n"),
        );
        assert_eq!(index(&sandbox, &[]).code, 0, "{round}");
        assert_eq!(index(&sandbox, &[]).code, 0, "{round}");
        assert_eq!(
            ask(&format!("bittern{round}"))["results"]
                .as_array()
                .map(Vec::len),
            Some(1),
            "{round}"
        );
        assert_eq!(
            ask(&format!("heron{round}"))["results"],
            json!([]),
            "{round}"
        );
    }
    assert_eq!(batch.end().code, 0);
    let lived = Rows::of(&sandbox, &words());
    rows::check_whole(&sandbox);
    assert_eq!(index(&sandbox, &["rebuild"]).code, 0);
    assert_eq!(lived.difference(&Rows::of(&sandbox, &words())), None);
}

#[test]
fn numbers_of_chunks_that_nothing_is_behind_are_given_again() {
    let sandbox = Sandbox::new();
    fill(&sandbox, 30);
    sync(&sandbox);
    let newest = || -> i64 {
        Connection::open(sandbox.path("state/index.db"))
            .and_then(|index| index.query_row("SELECT max(id) FROM chunks", [], |row| row.get(0)))
            .expect("a number")
    };
    // As after years of rewriting a file.
    Connection::open(sandbox.path("state/index.db"))
        .expect("open")
        .execute(
            "UPDATE chunks SET id = 500000 WHERE id = (SELECT max(id) FROM chunks)",
            [],
        )
        .expect("update");
    assert_eq!(newest(), 500_000);
    let told = index(&sandbox, &["--json"]).json();
    assert_eq!(told["full"], true, "{told}");
    assert!(newest() < 1000, "{}", newest());
    rows::check_whole(&sandbox);
    assert_eq!(index(&sandbox, &["--json"]).json()["full"], false);
}
