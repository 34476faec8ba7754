//! The primary dies under load at random moments, and so does a promotion: what is lost, what is doubled.

#![allow(clippy::print_stdout, reason = "a run says what it measured")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, thread,
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::{OWNER, Pair, SOON};
use crate::crash::{RESENT, Random};
use crate::support::{wait_for, wanted};

/// Deaths, unless `KILLS` says otherwise.
const DEATHS: u64 = 3;
/// A push takes that long at most on a busy machine; the interval is 1 s.
const MOST_LOST: Duration = Duration::from_secs(10);

/// What one death cost.
#[derive(Debug, Default)]
struct Cost {
    said: usize,
    lost: usize,
    /// From the first lost message to the death.
    window: Duration,
    marked: usize,
    unmarked: usize,
    takeover: Duration,
}

#[test]
fn a_sudden_death_loses_the_last_seconds_and_doubles_only_what_is_marked() {
    let deaths = wanted("KILLS").unwrap_or(DEATHS);
    let seed = wanted("KILLS_SEED").unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0);
    println!("seed {seed}");
    let mut all = Vec::new();
    for number in 0..deaths {
        let mut random = Random(seed ^ number);
        let Some(pair) = Pair::new() else { return };
        let cost = die(&pair, &mut random);
        println!("{cost:?}");
        assert_eq!(cost.unmarked, 0, "seed {seed}, death {number}: {cost:?}");
        assert!(
            cost.window < MOST_LOST,
            "seed {seed}, death {number}: {cost:?}"
        );
        all.push(cost);
    }
    let sum = |of: fn(&Cost) -> usize| all.iter().map(of).sum::<usize>();
    let most = |of: fn(&Cost) -> Duration| all.iter().map(of).max().unwrap_or_default();
    println!(
        "{deaths} deaths: said {}, lost {}, window at most {:.1?}, doubled and marked {}, takeover at most {:.1?}",
        sum(|cost| cost.said),
        sum(|cost| cost.lost),
        most(|cost| cost.window),
        sum(|cost| cost.marked),
        most(|cost| cost.takeover)
    );
}

fn die(pair: &Pair, random: &mut Random) -> Cost {
    let daemon = pair.sandbox.ready();
    let mut pushing = pair.pushing();
    pair.wait_pushed();
    // Two chats, each of which waits for its answer.
    let mut said: Vec<(i64, i64, Instant)> = Vec::new();
    let until = Instant::now() + Duration::from_millis(1500 + random.below(3000));
    while Instant::now() < until {
        let chat = OWNER + i64::try_from(random.below(2)).expect("small");
        let text = format!("m{:05} [[sleep {}]]", said.len(), random.below(30));
        let (_, id) = pair.telegram.say(chat, chat, &text);
        said.push((chat, id, Instant::now()));
        thread::sleep(Duration::from_millis(20 + random.below(80)));
    }
    daemon.kill9();
    pushing.kill9();
    let dead = Instant::now();
    let before: BTreeSet<(i64, i64)> = answered(pair).into_keys().collect();
    let promoted = pair.there(&["standby", &pair.text("replica"), "--promote"]);
    assert_eq!(promoted.code, 0, "{promoted:?}");
    let mut agent = pair.daemon_there(&["run"]);
    agent.wait_ready();
    let takeover = dead.elapsed();
    wait_for("everything to be handled", SOON, || {
        is_idle(pair).then_some(())
    });
    assert_eq!(agent.term(), 0);

    let answers = answered(pair);
    let mut cost = Cost {
        said: said.len(),
        takeover,
        ..Cost::default()
    };
    for (chat, id, at) in said {
        match answers.get(&(chat, id)) {
            None => {
                cost.lost += 1;
                cost.window = cost.window.max(dead - at);
            }
            Some(copies) if copies.len() > 1 => {
                let unmarked = copies
                    .iter()
                    .filter(|text| !text.starts_with(RESENT))
                    .count();
                cost.marked += usize::from(unmarked <= 1);
                cost.unmarked += usize::from(unmarked > 1);
            }
            Some(_) => {}
        }
    }
    // An answer that was there is there once more at most.
    assert!(
        before.iter().all(|place| answers[place].len() <= 2),
        "{answers:?}"
    );
    cost
}

/// Returns the answers to each message.
fn answered(pair: &Pair) -> BTreeMap<(i64, i64), Vec<String>> {
    let mut answers: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for sent in pair.telegram.sent() {
        if let Some(id) = sent.reply_to {
            answers.entry((sent.chat, id)).or_default().push(sent.text);
        }
    }
    answers
}

fn is_idle(pair: &Pair) -> bool {
    let sql = "SELECT (SELECT count(*) FROM inbox WHERE state IN ('pending', 'running'))
         + (SELECT count(*) FROM outbox WHERE state IN ('pending', 'sending', 'unknown'))";
    let open: Result<i64, _> = Connection::open(pair.path("home/state/queue.db"))
        .and_then(|queue| queue.query_row(sql, [], |row| row.get(0)));
    pair.telegram.pending_updates() == 0 && open == Ok(0)
}

/// A promotion is killed at random moments until one comes through; then everything is there.
#[test]
fn a_promotion_that_is_killed_is_repeated() {
    let Some(pair) = Pair::new() else { return };
    let daemon = pair.sandbox.ready();
    assert!(!pair.ask("the boat lies in Lisbon").is_empty());
    assert_eq!(daemon.term(), 0);
    pair.sandbox.put("workspace/large.bin", &vec![7; 8 << 20]);
    let pushed = pair.push_once();
    assert_eq!(pushed.code, 0, "{pushed:?}");
    let seed = wanted("KILLS_SEED").unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0);
    let mut random = Random(seed);
    let (replica, home) = (pair.text("replica"), pair.text("home"));
    let mut roles = BTreeSet::new();
    let (measure, other) = (pair.text("measure"), pair.text("replica-too"));
    let copied = std::process::Command::new("cp")
        .args(["-a", &replica, &other])
        .status();
    assert!(copied.is_ok_and(|status| status.success()));
    let started = Instant::now();
    let measured = pair.here(&["--home", &measure, "standby", &other, "--promote"]);
    assert_eq!(measured.code, 0, "{measured:?}");
    let takes = u64::try_from(started.elapsed().as_millis()).expect("short");
    for _ in 0..wanted("KILLS").unwrap_or(12) {
        let arguments = ["--home", &home, "standby", &replica, "--promote"];
        let mut promoting = pair.sandbox.starting("agent-daemon", &arguments);
        thread::sleep(Duration::from_millis(random.below(takes)));
        promoting.kill9();
        drop(promoting);
        let role = pair
            .record()
            .map(|record| record["role"].as_str().unwrap_or_default().to_owned());
        if role.as_deref() == Some("primary") {
            break;
        }
        if role.as_deref() == Some("promoting") {
            let refused = pair.there(&["run"]);
            assert_eq!(refused.code, 78, "seed {seed}: {refused:?}");
        }
        roles.extend(role);
    }
    println!("seed {seed}: {roles:?}");
    // A standby that runs ends what was begun, and is the agent then.
    let agent = pair.waiting();
    if !roles.contains("promoting") {
        let promoted = pair.there(&["standby", &replica, "--promote"]);
        assert_eq!(promoted.code, 0, "seed {seed}: {promoted:?}");
    }
    wait_for("the end of the promotion", SOON, || {
        (pair.record()?["role"] == "primary").then_some(())
    });
    assert!(!pair.ask("again").is_empty());
    assert_eq!(
        fs::read(pair.path("home/workspace/large.bin"))
            .expect("read")
            .len(),
        8 << 20
    );
    assert_eq!(agent.term(), 0);
}
