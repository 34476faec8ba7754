//! What SQLite drops without a word: the end of a log that is damaged, gone or an old one. The owner is told.
#![allow(clippy::disallowed_methods, reason = "a test breaks files plainly")]

use std::{fs, path::Path, time::Duration};

use rusqlite::types::Value as SqlValue;
use serde_json::Value;

use crate::support::{Daemon, FakeModel, FakeTelegram, Reply, Sandbox, wait_for};

const SOON: Duration = Duration::from_secs(20);
const OWNER: i64 = 1001;
/// In the first page of the log of a database whose pages are of 4,096 bytes.
const FIRST_PAGE: usize = 32 + 24 + 100;

fn newest(sandbox: &Sandbox) -> i64 {
    let state = fs::read(sandbox.path("state/monitor.json")).unwrap_or_default();
    let state: Value = serde_json::from_slice(&state).unwrap_or_default();
    state["newest_input"][0].as_i64().unwrap_or_default()
}

/// Has four messages answered and waits until monitor.json knows the last.
fn converse(sandbox: &Sandbox, telegram: &FakeTelegram, first: i32) {
    for n in first..first + 4 {
        let (_, asked) = telegram.say(OWNER, OWNER, &format!("message {n}"));
        telegram.wait_sent(|sent| sent.reply_to == Some(asked), SOON);
    }
    wait_for("the newest input", SOON, || {
        let rows = sandbox.query("queue", "SELECT max(seq) FROM inbox");
        (rows == [[SqlValue::Integer(newest(sandbox))]]).then_some(())
    });
}

/// Kills the daemon, does `harm` to the log, and starts another.
fn harmed(sandbox: &Sandbox, daemon: Daemon, harm: impl FnOnce(&Path)) -> Daemon {
    daemon.kill9();
    harm(&sandbox.path("state/queue.db-wal"));
    let _ = fs::remove_file(sandbox.path("state/queue.db-shm"));
    sandbox.ready()
}

fn check_told(harm: impl FnOnce(&Path, Vec<u8>), expected: &str) {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model);
    let daemon = sandbox.ready();
    converse(&sandbox, &telegram, 1);
    let old = fs::read(sandbox.path("state/queue.db-wal")).expect("the log of a daemon that runs");
    converse(&sandbox, &telegram, 5);
    let daemon = harmed(&sandbox, daemon, |log| harm(log, old));
    let notice = telegram
        .wait_sent(|sent| sent.text.starts_with("⚠️"), SOON)
        .text;
    assert!(notice.contains(expected), "{notice}");
    assert!(daemon.log().contains(expected), "{}", daemon.log());
    wait_for("the report in the status", SOON, || {
        let status = sandbox.send(&["--status", "--json"]).json();
        let told = status["last_error"].as_str().unwrap_or_default();
        told.contains(expected).then_some(())
    });
    converse(&sandbox, &telegram, 9);
    // A later kill finds nothing more.
    let daemon = harmed(&sandbox, daemon, |_| ());
    converse(&sandbox, &telegram, 13);
    let log = daemon.log();
    assert_eq!(log.matches("to be sent again").count(), 1, "{log}");
    let told = telegram.sent();
    assert_eq!(
        told.iter()
            .filter(|sent| sent.text.starts_with("⚠️"))
            .count(),
        1,
        "{told:?}"
    );
}

#[test]
fn damage_in_the_log_of_the_queue_is_told_once() {
    let flip = |log: &Path, _| {
        let mut bytes = fs::read(log).expect("the log of a daemon that was killed");
        bytes[FIRST_PAGE] ^= 1;
        fs::write(log, bytes).expect("write");
    };
    check_told(flip, "queue.db-wal was damaged");
}

#[test]
fn a_log_of_the_queue_that_is_gone_is_told_once() {
    check_told(
        |log, _| fs::remove_file(log).expect("remove"),
        "that had been accepted",
    );
}

#[test]
fn an_old_log_of_the_queue_is_told_once() {
    check_told(
        |log, old| fs::write(log, old).expect("write"),
        "that had been accepted",
    );
}

#[test]
fn a_queue_that_is_damaged_while_the_daemon_runs_ends_it_so_that_the_next_start_heals_it() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model);
    let daemon = sandbox.ready();
    converse(&sandbox, &telegram, 1);
    assert_eq!(daemon.term(), 0);
    let path = sandbox.path("state/queue.db");
    // A daemon that ends before its last connection closed leaves everything in the log, and the file alone holds nothing to lose.
    sandbox.empty_log("queue");
    let daemon = sandbox.ready();
    let length = fs::metadata(&path).expect("a database").len();
    let noise = vec![7_u8; usize::try_from(length).expect("small")];
    // In its place: the daemon has the same file open.
    fs::write(&path, noise).expect("written");
    telegram.say(OWNER, OWNER, "is anybody there?");
    let code = daemon.wait_exit(SOON * 3);
    assert_eq!(code, 74, "what its units restart");
    let daemon = sandbox.ready();
    let notice = telegram.wait_sent(|sent| sent.text.starts_with("⚠️"), SOON);
    assert!(
        notice.text.contains("it was moved aside as"),
        "{}",
        notice.text
    );
    converse(&sandbox, &telegram, 5);
    assert_eq!(daemon.term(), 0);
}

#[test]
fn a_row_that_cannot_be_read_is_a_dead_letter_and_keeps_nobody_waiting() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model);
    let daemon = sandbox.ready();
    model.push(Reply::Held("never read".to_owned()));
    telegram.say(OWNER, OWNER, "first");
    wait_for("the model to be asked", SOON, || {
        (model.in_flight() > 0).then_some(())
    });
    for words in ["second", "third", "torn", "fourth"] {
        telegram.say(OWNER, OWNER, words);
    }
    let rows = "SELECT seq FROM inbox WHERE state IN ('pending', 'running')";
    wait_for("five messages", SOON, || {
        (sandbox.query("queue", rows).len() == 5).then_some(())
    });
    daemon.kill9();
    model.go_on();
    let queue = rusqlite::Connection::open(sandbox.path("state/queue.db")).expect("open");
    let deep = format!("{{\"v\":{}{}}}", "[".repeat(200), "]".repeat(200));
    for (words, damaged) in [("second", "{\"v\":1}"), ("third", deep.as_str())] {
        let changed = queue.execute(
            "UPDATE inbox SET envelope = ?2 WHERE instr(envelope, ?1)",
            (format!("\"{words}\""), damaged),
        );
        assert_eq!(changed.expect("a row"), 1, "{words}");
    }
    drop(queue);
    sandbox.empty_log("queue");
    tear(&sandbox.path("state/queue.db"), "\"torn\"");
    let _daemon = sandbox.ready();
    for words in ["first", "fourth"] {
        telegram.wait_sent(|sent| sent.text == format!("echo: {words}"), SOON);
    }
    wait_for("three notices", SOON, || {
        let told = telegram.sent();
        let told = told
            .iter()
            .filter(|sent| sent.text.contains("cannot be read in queue.db"));
        (told.count() == 3).then_some(())
    });
    let dead = sandbox.query("queue", "SELECT id FROM inbox WHERE state = 'dead'");
    assert_eq!(dead.len(), 3);
    for query in ["--queue", "--status"] {
        assert_eq!(sandbox.send(&[query]).code, 0, "{query}");
    }
    let told = sandbox.run("agent-daemon", &["doctor"], "").stdout;
    assert!(
        told.contains("3 dead letters") && !told.contains("database-damaged"),
        "{told}"
    );
    assert_eq!(sandbox.send(&["--queue", "drop", "all"]).code, 0);
}

/// Takes the JSON of a row apart, as a disk does: in the file, so that no index follows.
fn tear(database: &Path, words: &str) {
    let mut bytes = fs::read(database).expect("a database");
    let at = bytes
        .windows(words.len())
        .position(|window| window == words.as_bytes())
        .expect("the row is in the file");
    bytes[at] = b'x';
    fs::write(database, bytes).expect("write");
}
