//! Years of use in minutes: the clock is set ahead, the daemon restarted and the programs of cron run, again and again.
//! What is kept for a time is kept no longer; what is kept for good grows by what was said, and no faster.
//!
//! `YEARS_STEPS=400` makes it longer (a step is five days); `-- --nocapture` prints what each place holds.
#![allow(clippy::print_stdout, reason = "a run says what it measured")]

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use rusqlite::types::Value as Sql;
use serde_json::json;

use crate::support::{FakeModel, FakeTelegram, Fault, FaultKind, Sandbox, wait_for};

const SOON: Duration = Duration::from_secs(30);
const DAY: Duration = Duration::from_secs(24 * 3600);
const STEPS: usize = 40;
const DAYS_A_STEP: u32 = 5;
const OWNER: i64 = 1001;
const STRANGER: i64 = 4001;

/// Files that are kept for a time: how many there are depends on the days, not on the years.
const KEPT_FOR_A_TIME: [&str; 7] = [
    "state/replies",
    "state/downloads",
    "state/logs",
    "state/undo",
    "state/spool",
    "state/media",
    "workspace/inbox",
];

#[test]
fn what_is_kept_for_a_time_does_not_grow_over_the_years() {
    let steps = std::env::var("YEARS_STEPS")
        .map_or(STEPS, |steps| steps.parse().expect("a number of steps"));
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .config("[tools.exec]\npolicy = \"sandboxed\"\n[media]\ninbox_days = 20");
    let (sandbox, mut clock) = sandbox.with_clock();
    let mut half = BTreeMap::new();
    for step in 0..steps {
        live(&sandbox, &telegram, step);
        clock.later(DAY * DAYS_A_STEP);
        if step + 1 == steps / 2 {
            half = measure(&sandbox);
        }
    }
    let whole = measure(&sandbox);
    for (place, now) in &whole {
        let before = half.get(place).copied().unwrap_or_default();
        println!("{place:40} {before:>10} {now:>10}");
    }
    let grown: Vec<_> = whole
        .iter()
        .filter(|(place, now)| {
            let before = half.get(*place).copied().unwrap_or_default();
            let is_for_good = place.ends_with(" bytes");
            // For good: as much again in the second half, with room for a page or two. For a time: the same, but for
            // what the last step leaves.
            let most = if is_for_good {
                before * 2 + before / 5 + 65_536
            } else {
                before + before / 4 + 3
            };
            **now > most
        })
        .collect();
    assert_eq!(grown, [], "half of the time: {half:?}");
}

/// A day of use, from the start of the daemon to its end, and the night's programs.
fn live(sandbox: &Sandbox, telegram: &FakeTelegram, step: usize) {
    let daemon = sandbox.ready();
    let ask = |text: &str| {
        let id = telegram.say(OWNER, OWNER, text).1;
        telegram.wait_sent(|sent| sent.reply_to == Some(id), SOON);
    };
    ask(&format!(
        "remember that the boat number {step} lies in Lisbon"
    ));
    let write =
        json!({"path": format!("notes/{}.md", step % 10), "content": format!("step {step}\n")});
    ask(&format!("[[tool write {write}]]"));
    let run = json!({"command": format!("echo {step} >> notes/log.txt")});
    ask(&format!("[[tool exec {run}]]"));
    let file = telegram.offer_file(format!("%PDF-1.4 {step}").as_bytes());
    let id = telegram.next_id(OWNER);
    telegram.inject(json!({"message": {
        "message_id": id, "date": 1_700_000_000, "chat": {"id": OWNER, "type": "private"},
        "from": {"id": OWNER, "is_bot": false, "first_name": "Ada"}, "caption": "what is this",
        "document": {"file_id": file, "file_unique_id": format!("u{step}"), "file_name": format!("{step}.bin"), "file_size": 12},
    }}));
    telegram.wait_sent(|sent| sent.reply_to == Some(id), SOON);
    telegram.say(
        STRANGER + i64::try_from(step).expect("few steps"),
        STRANGER,
        "let me in",
    );
    let told = sandbox.send(&[
        "--wait=30",
        "--id",
        &format!("script-{step}"),
        "and from the shell",
    ]);
    assert_eq!(told.code, 0, "{told:?}");
    // One answer that Telegram refuses for good: a dead letter.
    telegram.fault(Fault {
        method: "sendMessage",
        kind: FaultKind::Status(400),
        count: 9,
    });
    telegram.say(OWNER, OWNER, "this is never heard");
    wait_for("the end of it", SOON, || {
        let open = "SELECT 1 FROM inbox WHERE state IN ('pending', 'running') UNION ALL SELECT 1 FROM outbox WHERE state IN ('pending', 'sending')";
        sandbox.query("queue", open).is_empty().then_some(())
    });
    telegram.heal();
    ask("/new");
    assert_eq!(daemon.term(), 0);
    for program in ["agent-index", "agent-consolidate"] {
        let arguments: &[&str] = if program == "agent-index" {
            &["sync"]
        } else {
            &[]
        };
        let ran = sandbox.run(program, arguments, "");
        assert_eq!(ran.code, 0, "{program}: {ran:?}");
    }
}

/// Returns the number of files in each place that keeps them for a time, of rows in each table of the queue, and the
/// bytes of what is kept for good.
fn measure(sandbox: &Sandbox) -> BTreeMap<String, u64> {
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for place in KEPT_FOR_A_TIME {
        found.insert(place.to_owned(), size(&sandbox.path(place)).0);
    }
    // What a run changes depends on what it recalls, whose calls the fake model makes again: so the runs are counted.
    let runs = fs::read_dir(sandbox.path("state/undo")).map_or(0, Iterator::count);
    found.insert("state/undo".to_owned(), runs as u64);
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    for row in sandbox.query("queue", tables) {
        let Some(Sql::Text(table)) = row.first() else {
            continue;
        };
        let count = sandbox.query("queue", &format!("SELECT count(*) FROM \"{table}\""));
        if let Some(Sql::Integer(rows)) = count.first().and_then(|row| row.first()) {
            found.insert(format!("queue.db {table}"), rows.unsigned_abs());
        }
    }
    let here = fs::read_dir(sandbox.path("state")).expect("the home is there");
    found.insert(
        "files in state".to_owned(),
        u64::try_from(here.count()).expect("few"),
    );
    for place in [
        "state/sessions",
        "state/queue.db",
        "state/cost.db",
        "state/memory.db",
        "state/index.db",
        "state/audit.jsonl",
        "state/people.json",
        "workspace/memory",
    ] {
        found.insert(format!("{place} bytes"), size(&sandbox.path(place)).1);
    }
    found
}

/// Returns how many files lie at or below `path`, and their bytes.
fn size(path: &Path) -> (u64, u64) {
    let Ok(meta) = path.symlink_metadata() else {
        return (0, 0);
    };
    if !meta.is_dir() {
        return (1, meta.len());
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .map(|entry| size(&entry.path()))
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}
