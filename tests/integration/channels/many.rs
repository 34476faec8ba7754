//! So much waits at one channel that nobody can look at all of it at once: lines in its spool, answers that nobody fetches.
//!
//! The gate takes a few thousand; `MANY=100000` with `--nocapture` is the size that docs/guarantees.md tells of.
#![allow(clippy::print_stdout, reason = "it says what it measured")]

use std::collections::BTreeSet;
use std::time::Instant;

use rusqlite::Connection;

use super::*;
use crate::support::{Figures, wanted};

/// Unless `MANY` says otherwise.
const MANY: u64 = 1_500;

fn many() -> u64 {
    wanted("MANY").unwrap_or(MANY)
}

/// Returns how long it took until Ada was answered on the other channel.
fn answered(wire: &Wire, id: &str) -> Duration {
    let began = Instant::now();
    wire.say("ada", id, &format!("[[say answer-{id}-end]]"));
    wire.deliver(&format!("answer-{id}-end"));
    began.elapsed()
}

/// Returns how much of one processor the daemon uses while nothing happens.
fn idle(daemon: &Daemon) -> f64 {
    let ticks = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", daemon.pid())).expect("it runs");
        let (_, fields) = stat.rsplit_once(')').expect("proc(5)");
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let time = |at: usize| fields[at].parse::<u32>().expect("a number");
        time(11) + time(12)
    };
    let (before, time) = (ticks(), Duration::from_secs(5));
    std::thread::sleep(time);
    f64::from(ticks() - before) / 100.0 / time.as_secs_f64()
}

fn left(dir: &std::path::Path) -> usize {
    fs::read_dir(dir).expect("a directory").count()
}

/// Holds the lock of a channel, as its process does.
fn lock(wire: &Wire) -> nix::fcntl::Flock<fs::File> {
    let lock = file(&wire.path("lock"));
    nix::fcntl::Flock::lock(lock, nix::fcntl::FlockArg::LockExclusive).expect("locked")
}

/// Sends what is offered; returns the chats and words of it.
fn deliver_all(wire: &Wire) -> Vec<(String, String)> {
    let out = wire.path("out");
    let names = fs::read_dir(&out).expect("out").flatten();
    let mut names: Vec<std::ffi::OsString> = names.map(|entry| entry.file_name()).collect();
    names.sort();
    let mut sent = Vec::new();
    for name in names
        .iter()
        .filter(|name| name.to_string_lossy().ends_with(".json"))
    {
        let claimed = wire.path("sending").join(name);
        if fs::rename(out.join(name), &claimed).is_err() {
            continue;
        }
        let message: Value =
            serde_json::from_slice(&fs::read(claimed).expect("ours")).expect("json");
        assert_eq!(message["resent"], false, "{message}");
        let of = |field: &str| message[field].as_str().expect("words").to_owned();
        sent.push((of("chat"), of("text")));
        wire.acknowledge(&message, "m");
    }
    sent
}

#[test]
fn lines_that_lie_there_at_the_start_hold_up_nobody_and_keep_their_order() {
    let (_model, sandbox) = start();
    let sandbox = sandbox.config(
        "[channels.irc]\nenabled = true\nowner = [\"root\"]\nallow_from = [\"bot\", \"eve\"]",
    );
    sandbox.ready().kill9();
    let (sms, irc) = (Wire::new(&sandbox, "sms"), Wire::new(&sandbox, "irc"));
    let (many, began) = (many(), Instant::now());
    for number in 0..many {
        irc.say(
            "bot",
            &format!("{number:06}"),
            &format!("[[say a{number:06}-end]]"),
        );
    }
    let (written, started) = (began.elapsed(), Instant::now());
    let daemon = sandbox.ready();
    let (started, first) = (started.elapsed(), answered(&sms, "1"));
    // Somebody else on the same channel, behind all of it.
    let _lock = lock(&irc);
    let asked = Instant::now();
    irc.say("eve", "1", "[[say eve-is-heard]]");
    let (mut order, mut eve) = (Vec::new(), None);
    wait_for(
        "eve and some of the others",
        Duration::from_secs(120 + many / 100),
        || {
            for (_, text) in deliver_all(&irc) {
                if text == "eve-is-heard" {
                    eve = Some(asked.elapsed());
                } else {
                    order.push(text);
                }
            }
            (eve.is_some() && order.len() >= 30).then_some(())
        },
    );
    let last = answered(&sms, "2");
    let left = left(&irc.path("spool/new"));
    println!(
        "{many} lines written in {written:.0?}; ready in {started:.1?}; another channel answered in {first:.1?} and {last:.1?}, \
         eve on the same in {:.1?}; {} answered in order, {left} left; {}",
        eve.expect("heard"),
        order.len(),
        Figures::of(&daemon, &sandbox)
    );
    let expected: Vec<String> = (0..order.len())
        .map(|number| format!("a{number:06}-end"))
        .collect();
    assert_eq!(order, expected);
    assert!(
        first.max(last) < Duration::from_secs(15),
        "{first:?} {last:?}"
    );
    // None went: what is not in the queue lies in the spool.
    daemon.kill9();
    let taken = count(
        &sandbox,
        "SELECT count(*) FROM inbox WHERE session_key LIKE '%irc:dm:bot'",
    );
    let names = fs::read_dir(irc.path("spool/new"))
        .expect("spool")
        .flatten();
    let texts = names.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let waits = texts.filter(|text| text.contains("dm-bot")).count();
    assert_eq!(taken.unsigned_abs() + waits as u64, many);
}

/// Puts `rows` into the queue as an agent would leave them whose channel is gone, in so many chats.
fn leave(sandbox: &Sandbox, rows: u64, chats: u64) {
    let queue = Connection::open(sandbox.path("state/queue.db")).expect("the queue");
    let sql = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1)
         INSERT INTO outbox(channel, chat, part, parts, plain, created_at)
         SELECT 'irc', 'chat' || (i % ?2), 1, 1, printf('answer %06d ', i) || printf('%.*c', 200, 'x'), 1764000000000 + i FROM n";
    queue
        .execute(sql, (rows.cast_signed(), chats.cast_signed()))
        .expect("rows");
}

/// Answers wait for a channel whose process is gone; then it comes back, and sends at least `sends` of them.
fn waits(rows: u64, chats: u64, sends: u64) {
    let (_model, sandbox) = start();
    let sandbox = sandbox.config("[channels.irc]\nenabled = true\nowner = [\"root\"]");
    sandbox.ready().kill9();
    let (sms, irc) = (Wire::new(&sandbox, "sms"), Wire::new(&sandbox, "irc"));
    leave(&sandbox, rows, chats);
    let began = Instant::now();
    let daemon = sandbox.ready();
    let (started, first) = (began.elapsed(), answered(&sms, "1"));
    let offered = wait_for("the offers to settle", SOON, || {
        let before = left(&irc.path("out"));
        std::thread::sleep(Duration::from_secs(1));
        (left(&irc.path("out")) == before).then_some(before)
    });
    let (second, busy) = (answered(&sms, "2"), idle(&daemon));
    let figures = Figures::of(&daemon, &sandbox);
    // The most chats whose messages are offered at once.
    assert_eq!(offered as u64, chats.min(1_000));
    assert!(
        first.max(second) < Duration::from_secs(15),
        "{first:?} {second:?}"
    );
    assert!(busy < 0.5, "{busy} of a processor");
    let _lock = lock(&irc);
    let (back, mut sent) = (Instant::now(), BTreeSet::new());
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    wait_for("the answers to go out", Duration::from_secs(900), || {
        for (chat, text) in deliver_all(&irc) {
            let before = last.insert(chat, text.clone());
            assert!(
                before.is_none_or(|before| before < text),
                "out of order: {text}"
            );
            assert!(sent.insert(text));
        }
        (sent.len() as u64 >= sends).then_some(())
    });
    println!(
        "{rows} answers in {chats} chats: ready in {started:.1?}, another channel answered in {first:.1?} and {second:.1?}, {offered} offered, \
         {:.1} % of a processor, {figures}; {} sent in {:.0?} when the process was back",
        busy * 100.0,
        sent.len(),
        back.elapsed()
    );
}

#[test]
fn answers_in_many_chats_wait_for_a_channel_that_is_gone() {
    waits(many(), many(), many());
}

#[test]
fn answers_in_one_chat_wait_for_a_channel_that_is_gone() {
    waits(many(), 1, 30);
}
