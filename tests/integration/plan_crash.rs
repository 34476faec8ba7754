//! The daemon is killed before every call of the disk while it carries out a plan. Whichever it was: each message of the
//! plan is said once, in order (a second copy is marked), and nothing of it is left open.
//!
//! The gate runs a sample; `SWEEP=all` runs every call.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::support::{Action, Calls, Daemon, FakeModel, FakeTelegram, Plan, Reply, Sandbox};

const ANA: i64 = 1002;
const SOON: Duration = Duration::from_secs(20);
/// Homes that are tried side by side: a run mostly waits.
const BESIDE: usize = 4;
/// Runs of the gate.
const SAMPLE: usize = 12;

const SETTINGS: &str = "[agent]\nmode = \"plan\"\nplan_pause_ms = 50\n[agent.typing]\nstart_delay_secs = 0.0\nchars_per_sec = 0.0\n";
const SAID: [&str; 3] = ["one", "two", "three"];
const OPEN: &str = "SELECT (SELECT count(*) FROM inbox WHERE state IN ('pending', 'running'))
    + (SELECT count(*) FROM tasks WHERE state IN ('blocked', 'ready'))
    + (SELECT count(*) FROM outbox WHERE state IN ('pending', 'sending', 'unknown')), (SELECT count(*) FROM tasks)";

/// Kills the daemon before the call `number`; returns what is wrong then, and how many calls there were.
fn play(action: Action, number: i32) -> (Vec<String>, i32) {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let (sandbox, disk) = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .config(SETTINGS)
        .with_disk();
    let plan = json!([
        {"kind": "think", "text": "a secret"},
        {"kind": "remember", "text": "likes tea"},
        {"kind": "send", "text": SAID[0]},
        {"kind": "react", "emoji": "👍"},
        {"kind": "wait", "delay": 0.05},
        {"kind": "send", "text": SAID[1]},
        {"kind": "send", "text": SAID[2]}
    ]);
    // A call that a crash broke off is made again.
    (0..3).for_each(|_| model.push(Reply::Text(plan.to_string())));
    let mut daemon = sandbox.ready();
    disk.arm(Plan {
        calls: Calls::Any,
        action,
        from: number,
        until: number,
    });
    let asked = telegram.say(ANA, ANA, "hi").1;
    let mut wrong = Vec::new();
    wrong.extend(worked_off(&sandbox, &telegram, &mut daemon, "at first"));
    let count = disk.count();
    daemon.kill9();
    disk.heal();
    let mut daemon = sandbox.ready();
    wrong.extend(worked_off(
        &sandbox,
        &telegram,
        &mut daemon,
        "after the restart",
    ));
    let texts: Vec<String> = telegram.sent().into_iter().map(|sent| sent.text).collect();
    let plain: Vec<&String> = texts
        .iter()
        .filter(|text| !text.starts_with("(resent)"))
        .collect();
    let mut heard = BTreeSet::new();
    let first: Vec<&str> = texts
        .iter()
        .map(|text| text.trim_start_matches("(resent)\n"))
        .filter(|text| heard.insert(*text))
        .collect();
    if first != SAID || plain.len() > SAID.len() || texts.len() > SAID.len() + 1 {
        wrong.push(format!("said were {texts:?}"));
    }
    if telegram.reaction(ANA, asked).as_deref() != Some("👍") {
        wrong.push("there is no reaction".to_owned());
    }
    let notes = sandbox
        .read("workspace/memory/people/1002.episodes.md")
        .unwrap_or_default();
    if !notes.contains("likes tea") {
        wrong.push(format!("nothing was noted: {notes}"));
    }
    if model.requests().len() > 2 {
        wrong.push(format!(
            "the model was asked {} times",
            model.requests().len()
        ));
    }
    (wrong, count)
}

/// Waits until all is done, or the daemon is dead; says what is open when neither comes.
fn worked_off(
    sandbox: &Sandbox,
    telegram: &FakeTelegram,
    daemon: &mut Daemon,
    when: &str,
) -> Option<String> {
    let until = Instant::now() + SOON;
    let is_done = || {
        let rows = sandbox.query("queue", OPEN);
        telegram.pending_updates() == 0
            && rows.first().is_some_and(|row| {
                use rusqlite::types::Value::Integer;
                matches!(row.as_slice(), [Integer(0), Integer(tasks)] if *tasks > 0)
            })
    };
    while !daemon.has_ended() && !is_done() {
        if Instant::now() > until {
            let tasks = sandbox.query("queue", "SELECT id, kind, state, due_at, reason FROM tasks");
            let inbox = sandbox.query("queue", "SELECT id, state FROM inbox");
            return Some(format!("open {when}: {tasks:?} {inbox:?}"));
        }
        thread::sleep(Duration::from_millis(10));
    }
    None
}

#[test]
fn whenever_the_daemon_is_killed_a_plan_is_carried_out_once() {
    let (wrong, count) = play(Action::Pass, 1);
    assert_eq!(wrong, [] as [String; 0], "without a fault");
    let all = std::env::var("SWEEP").is_ok_and(|wanted| wanted == "all");
    let step = match all {
        true => 1,
        false => usize::try_from(count).expect("a count").div_ceil(SAMPLE),
    };
    let numbers: Vec<i32> = (1..=count).step_by(step).collect();
    let (queue, wrong) = (Mutex::new(numbers.iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..BESIDE {
            scope.spawn(|| {
                loop {
                    let Some(number) = queue.lock().expect("nobody panics with it").next() else {
                        return;
                    };
                    let run = catch_unwind(AssertUnwindSafe(|| play(Action::Kill, *number).0));
                    let found = run.unwrap_or_else(|panic| {
                        vec![panic.downcast_ref::<String>().cloned().unwrap_or_default()]
                    });
                    let named = found
                        .into_iter()
                        .map(|what| format!("call {number}: {what}"));
                    wrong.lock().expect("nobody panics with it").extend(named);
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("nobody panics with it");
    assert!(wrong.is_empty(), "{count} calls:\n{}", wrong.join("\n"));
}
