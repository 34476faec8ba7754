//! Fifty senders at one time while the daemon is ended and started again and again: every message is answered
//! exactly once, with its own answer.
//!
//! `LOAD_MESSAGES=200 cargo test --release --test integration load -- --nocapture` is the full size.
#![allow(clippy::print_stdout, reason = "the figures of a measurement")]

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use rusqlite::types::Value as Sql;
use serde_json::Value;

use crate::support::{FakeModel, Sandbox, wait_for};

const SENDERS: usize = 50;
/// Messages of each sender, unless `LOAD_MESSAGES` says otherwise: the gate has no time for more.
const EACH: usize = 5;
/// Messages of one conversation: the fake keeps every request, and each has its whole conversation in it.
const CONVERSATION: usize = 10;
/// One message in so many is waited for.
const WAITED: usize = 5;
/// A daemon lives at least so long, from the moment it is ready.
const LIFE: Duration = Duration::from_millis(700);

struct Figures {
    ends: usize,
    calls: usize,
    repeated: usize,
}

fn messages() -> usize {
    std::env::var("LOAD_MESSAGES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(EACH)
}

fn id(sender: usize, number: usize) -> String {
    format!("s{sender:02}-{number:04}")
}

/// Sends everything, and meanwhile ends daemons with `end`.
fn load(gently: bool) -> Figures {
    let (each, model) = (messages(), FakeModel::start());
    let sandbox = Sandbox::new().with_anthropic(&model);
    let (started, sent, waited) = (Instant::now(), AtomicUsize::new(0), AtomicUsize::new(0));
    let mut ends = 0;
    let total = SENDERS * each;
    thread::scope(|scope| {
        let mut senders = Vec::new();
        for sender in 0..SENDERS {
            let (sandbox, sent, waited) = (&sandbox, &sent, &waited);
            senders.push(scope.spawn(move || {
                for number in 0..each {
                    let (id, name) = (
                        id(sender, number),
                        format!("s{sender}-{}", number / CONVERSATION),
                    );
                    let wait = (number % WAITED == sender % WAITED).then_some("--wait=120");
                    let arguments: Vec<&str> = wait
                        .into_iter()
                        .chain(["--id", &id, "--from", &name, &id])
                        .collect();
                    let told = sandbox.send(&arguments);
                    match (told.code, wait) {
                        // No daemon was there: it waits in the spool.
                        (75, _) => assert_eq!(told.stdout, format!("{id}\n"), "{told:?}"),
                        (0, None) => assert_eq!(told.stdout, ""),
                        (0, Some(_)) => {
                            waited.fetch_add(1, Ordering::Relaxed);
                            assert_eq!(told.stdout, format!("echo: {id}\n"), "{told:?}");
                        }
                        _ => panic!("{id}: {told:?}"),
                    }
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        // A sender that failed has failed the test, which must end for it to be seen.
        while senders.iter().any(|sender| !sender.is_finished()) {
            let daemon = sandbox.ready();
            let born = Instant::now();
            // A message that dies several times waits longer each time, so nobody dies a second time of it.
            let hurt =
                "SELECT count(*) FROM inbox WHERE attempts > 1 AND state IN ('pending', 'running')";
            let may_end =
                || born.elapsed() >= LIFE && sandbox.query("queue", hurt) == [[Sql::Integer(0)]];
            while !may_end() && sent.load(Ordering::Relaxed) < total {
                thread::sleep(Duration::from_millis(5));
            }
            ends += 1;
            if gently {
                assert_eq!(daemon.term(), 0);
            } else {
                daemon.kill9();
            }
        }
    });
    let sending = started.elapsed();
    let _daemon = sandbox.ready();
    let open = "SELECT count(*) FROM inbox WHERE state IN ('pending', 'running')";
    wait_for(
        "everything to be answered",
        Duration::from_secs(300),
        || {
            (sandbox.spooled().is_empty() && sandbox.query("queue", open) == [[Sql::Integer(0)]])
                .then_some(())
        },
    );
    check_answers(&sandbox, each);
    let (calls, repeated) = calls(&model, total);
    println!(
        "{} messages of {SENDERS} senders, {} waited for, {ends} {} ends: sent in {sending:.1?}, all answered after {:.1?}; \
         {calls} model calls, {repeated} of them repeated",
        total,
        waited.load(Ordering::Relaxed),
        if gently { "gentle" } else { "sudden" },
        started.elapsed(),
    );
    Figures {
        ends,
        calls,
        repeated,
    }
}

/// Checks that each message has one row, done, with its own answer; and that its answer file says the same.
fn check_answers(sandbox: &Sandbox, each: usize) {
    let rows = sandbox.query("queue", "SELECT id, state, result FROM inbox ORDER BY id");
    let mut expected = Vec::new();
    for sender in 0..SENDERS {
        expected.extend(
            (0..each).map(|number| (id(sender, number), format!("echo: {}", id(sender, number)))),
        );
    }
    let text = |value: &Sql| match value {
        Sql::Text(text) => text.clone(),
        other => panic!("no text: {other:?}"),
    };
    let answered: Vec<(String, String)> = rows
        .iter()
        .map(|row| {
            let (id, state) = (text(&row[0]), text(&row[1]));
            assert_eq!(state, "done", "{id}: {row:?}");
            let result: Value = serde_json::from_str(&text(&row[2])).expect("an answer");
            assert_eq!(result["status"], "done", "{id}: {result}");
            (id, result["reply"].as_str().expect("a reply").to_owned())
        })
        .collect();
    assert_eq!(answered, expected);
    for (id, reply) in expected {
        // Rewritten from the queue after a crash, in the background.
        let answer = wait_for("the answer file", Duration::from_secs(20), || {
            sandbox
                .read_json(&format!("state/replies/{id}.json"))
                .filter(|answer| answer["status"] == "done")
        });
        assert_eq!(answer["reply"], reply, "{id}");
    }
}

/// Returns how many model calls there were, and how many of them were not the first for their message.
fn calls(model: &FakeModel, total: usize) -> (usize, usize) {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for request in model.requests() {
        let message = request["messages"]
            .as_array()
            .and_then(|messages| messages.last())
            .expect("a message");
        let blocks = message["content"].as_array().expect("blocks");
        let words = blocks
            .iter()
            .rev()
            .find_map(|block| block["text"].as_str())
            .expect("words");
        *counts.entry(words.to_owned()).or_default() += 1;
    }
    assert_eq!(counts.len(), total, "each message reached the model");
    let calls = counts.values().sum();
    (calls, calls - total)
}

#[test]
fn fifty_senders_and_gentle_ends_each_message_is_one_call_and_one_answer() {
    let figures = load(true);
    assert!(figures.ends > 0);
    assert_eq!(
        (figures.calls, figures.repeated),
        (SENDERS * messages(), 0),
        "a gentle end repeats no call"
    );
}

#[test]
fn fifty_senders_and_sudden_ends_each_message_is_one_answer() {
    let figures = load(false);
    // Four runs at one time can be hit by an end.
    assert!(
        figures.repeated <= 4 * figures.ends,
        "{} calls were repeated after {} ends",
        figures.repeated,
        figures.ends
    );
}
