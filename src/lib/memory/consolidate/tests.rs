//! Runs side by side without the lock: the claims alone keep them apart.

use std::collections::BTreeMap;
use std::sync::Barrier;

use rusqlite::Connection;
use serde_json::json;

use super::claim::Owner;
use super::*;
use crate::config::HomeFlags;
use crate::sys::atomic;

fn home() -> (tempfile::TempDir, Home) {
    let dir = tempfile::tempdir().expect("dir");
    let flags = HomeFlags { home: Some(dir.path().to_owned()), ..HomeFlags::default() };
    let home = Home::resolve(flags, &|_| None).expect("home");
    home.create().expect("create");
    (dir, home)
}

fn put(home: &Home, below: &str, text: &str) {
    let path = home.workspace().join(below);
    std::fs::create_dir_all(path.parent().expect("below")).expect("dir");
    atomic::write(&path, text.as_bytes(), atomic::Durability::Rename).expect("write");
}

fn talk(home: &Home, id: &str, turns: u64) {
    let mut text = String::new();
    let mut line = |seq: u64, more: serde_json::Value| {
        let mut event = json!({"v": 1, "ts": format!("2026-05-04T10:{:02}:00.000Z", seq % 60), "seq": seq});
        event.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        text += &format!("{event}\n");
    };
    line(1, json!({"type": "session", "session_id": id, "key": format!("cli:{id}"), "contact": "Ada", "created_at": "x"}));
    for turn in 0..turns {
        let letters = (b'a'..=b'z').map(char::from).collect::<Vec<_>>();
        let letter = |at: u64| letters[usize::try_from(at % 26).expect("small")];
        let said = format!("{}.\n\nI live in Ana{}{}.", "x".repeat(5000), letter(turn / 26), letter(turn));
        let spoken = |role: &str, text: &str| json!({"type": "message", "role": role, "run_id": "r", "content": [{"type": "text", "text": text}]});
        let mut user = spoken("user", &said);
        user["trust"] = json!("owner");
        line(2 + turn * 2, user);
        line(3 + turn * 2, spoken("assistant", "ok"));
    }
    atomic::write(&home.sessions().join(format!("{id}.2026-05-04.jsonl")), text.as_bytes(), atomic::Durability::Rename)
        .expect("write");
}

fn connection(home: &Home) -> Connection {
    facts::open(&facts::database(home)).expect("open")
}

/// Returns the spans of each source, in order.
fn spans(home: &Home) -> BTreeMap<String, Vec<(i64, i64)>> {
    let connection = connection(home);
    let mut query = connection.prepare("SELECT source, first, last FROM spans ORDER BY first, last").expect("prepare");
    let rows = query.query_map([], |row| Ok((row.get::<_, String>(0)?, (row.get(1)?, row.get(2)?)))).expect("query");
    let mut spans: BTreeMap<String, Vec<(i64, i64)>> = BTreeMap::new();
    for row in rows {
        let (source, span) = row.expect("row");
        spans.entry(source).or_default().push(span);
    }
    spans
}

#[test]
fn two_runs_side_by_side_do_each_span_once() {
    let (_dir, home) = home();
    for number in 0..40 {
        put(&home, &format!("memory/people/{number}.md"), "- Birthday: 3 May\n");
    }
    for number in 0..6 {
        talk(&home, &format!("s{number}"), 30);
    }
    drop(connection(&home));
    let start = Barrier::new(3);
    let reports: Vec<Report> = std::thread::scope(|scope| {
        let one = || {
            start.wait();
            run::all(&home, connection(&home), Options::default(), &mut |_| {}).expect("run")
        };
        let runs: Vec<_> = (0..3).map(|_| scope.spawn(one)).collect();
        runs.into_iter().map(|run| run.join().expect("it ends")).collect()
    });
    // What one left to another that had only claimed it is done by now, or waits for nobody.
    let rest = run::all(&home, connection(&home), Options::default(), &mut |_| {}).expect("run");
    let files: usize = reports.iter().chain([&rest]).map(|report| report.files).sum();
    let current = facts::list(&facts::database(&home), &facts::Filter::default()).expect("list").len();
    assert_eq!((files, current), (40, 41));
    for (source, spans) in spans(&home) {
        let joined: Vec<i64> = spans.iter().map(|(first, _)| *first).collect();
        let ends: Vec<i64> = spans.iter().map(|(_, last)| last + 1).collect();
        assert_eq!(joined.get(1..), ends.get(..ends.len() - 1), "{source}: {spans:?}");
        assert_eq!(ends.last(), Some(&if source.starts_with('s') { 62 } else { 3 }), "{source}");
    }
}

#[test]
fn the_claim_of_a_living_run_is_respected_and_that_of_a_dead_one_is_not() {
    let (_dir, home) = home();
    put(&home, "MEMORY.md", "- Birthday: 3 May\n");
    talk(&home, "s1", 3);
    let connection = connection(&home);
    let now = crate::clock::now_ms();
    let claim = |owner: &Owner| {
        assert!(rows::claim_file(&connection, "workspace/MEMORY.md", None, owner, now).expect("claim"));
        assert!(rows::claim_span(&connection, "s1", 0, 7, owner, now).expect("claim"));
    };
    let work = || {
        let Outcome::Done(report) = super::run(&home, Options::default(), &mut |_| {}).expect("run") else { return (9, 9, 9) };
        (report.files, report.spans, report.left)
    };
    let living = Owner::new();
    claim(&living);
    assert_eq!(work(), (0, 0, 2));
    connection
        .execute_batch("UPDATE consolidation_state SET run = NULL; UPDATE consolidation_file_hashes SET run = NULL;")
        .expect("free");
    claim(&Owner { started: living.started - 1, run: "dead".to_owned(), ..living.clone() });
    assert_eq!(work(), (1, 1, 0));
    // The one that was thought dead comes back, and finds that it is not its turn any more.
    assert!(!rows::holds_span(&connection, "s1", 0, &living).expect("read"));
    assert!(!rows::claim_span(&connection, "s1", 0, 7, &living, now).expect("read"));
    assert_eq!(work(), (0, 0, 0));
}

#[test]
fn everything_again_changes_nothing_but_what_is_gone() {
    let (_dir, home) = home();
    put(&home, "MEMORY.md", "- Birthday: 3 May\n");
    talk(&home, "s1", 20);
    talk(&home, "s2", 3);
    let work = |backfill: bool| {
        let Outcome::Done(report) = super::run(&home, Options { backfill, dry_run: false }, &mut |_| {}).expect("run") else {
            return Report::default();
        };
        report
    };
    let all = || facts::list(&facts::database(&home), &facts::Filter { all: true, ..Default::default() }).expect("list");
    assert_eq!(work(false).files, 1);
    let before = all();
    let again = work(true);
    assert_eq!((again.changes, again.touched, again.files, again.sessions), (vec![], 0, 1, 2));
    assert_eq!(all(), before);
    for id in ["s1", "s2"] {
        std::fs::remove_file(home.sessions().join(format!("{id}.2026-05-04.jsonl"))).expect("it is there");
    }
    assert_eq!(work(false).changes, []);
    assert_eq!(work(true).changes, [], "with all of them gone, the disk may be");
    talk(&home, "s3", 1);
    let gone: Vec<Change> = work(true).changes.into_iter().filter(|change| matches!(change, Change::Gone(_))).collect();
    assert!(matches!(gone.as_slice(), [Change::Gone(fact)] if fact.attribute == "lives in"), "{gone:?}");
}
