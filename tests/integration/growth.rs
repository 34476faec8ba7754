//! What a message takes in a home of years: a queue of many answered messages, the ledger of five years, many sessions, people
//! and jobs. Counted on the path, not timed; `scripts/bench growth` prints it with `GROWTH_ROWS` and others of its own.
#![allow(clippy::print_stdout, reason = "what was counted is printed")]

use std::{env, fs, time::Duration};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::unistd::Pid;
use rusqlite::Connection;

use serde_json::json;

use crate::support::{FakeModel, FakeTelegram, Sandbox, Sent};

const SOON: Duration = Duration::from_secs(60);
/// Messages that are counted, at a distance that lets what is done after each be done.
const MESSAGES: u64 = 20;
const PAUSE: Duration = Duration::from_millis(150);
/// A figure of the grown home is at most so much of that of the empty one, and this much more.
const FACTOR: f64 = 1.5;
/// People, by their ids from here on, who write once a start: their conversations are not among those in memory.
const OTHERS: std::ops::Range<i64> = 200_000..200_020;
/// Clock ticks of CPU time for all messages: one is 10 ms.
const TICKS: f64 = 6.0;

fn size(name: &str, usual: u64) -> u64 {
    env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

/// What a process took so far.
#[derive(Debug, Clone, Copy)]
struct Took {
    /// Clock ticks, user and system.
    cpu: u64,
    /// Bytes of read(2) and write(2) and their like.
    read: u64,
    written: u64,
}

impl Took {
    fn of(pid: Pid) -> Self {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
        // The name before may contain anything; utime and stime are fields 14 and 15 (proc_pid_stat(5)).
        let (_, fields) = stat.rsplit_once(") ").expect("a name");
        let ticks = fields.split(' ').skip(11).take(2);
        let io = fs::read_to_string(format!("/proc/{pid}/io")).expect("it runs");
        let of = |name: &str| {
            let line = io.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|text| text.trim().parse().ok())
                .expect("a number")
        };
        Self {
            cpu: ticks.map(|text| text.parse::<u64>().expect("ticks")).sum(),
            read: of("rchar:"),
            written: of("wchar:"),
        }
    }
}

/// What tells whether somebody read the list of the files in a directory.
struct Listings(Inotify);

impl Listings {
    fn of(dir: &std::path::Path) -> Self {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK).expect("inotify");
        inotify
            .add_watch(dir, AddWatchFlags::IN_ACCESS)
            .expect("watched");
        Self(inotify)
    }

    /// Returns whether it was read since the last look.
    fn any(&self) -> bool {
        let mut any = false;
        while let Ok(events) = self.0.read_events() {
            any |= events
                .iter()
                .any(|event| event.name.is_none() && event.mask.contains(AddWatchFlags::IN_ISDIR));
        }
        any
    }
}

fn say(telegram: &FakeTelegram, person: i64, words: &str) {
    let (_, id) = telegram.say(person, person, words);
    let is_answer = |sent: &Sent| sent.chat == person && sent.reply_to == Some(id);
    telegram.wait_sent(is_answer, SOON);
}

/// Starts the daemon, lets each of the [`OTHERS`] say something once, and returns during how many of their messages the
/// directory of all conversations was read.
fn listings(sandbox: &Sandbox, telegram: &FakeTelegram) -> usize {
    let daemon = sandbox.ready();
    // What a start does once is over.
    say(telegram, 1001, "warm");
    std::thread::sleep(Duration::from_secs(2));
    let listings = Listings::of(&sandbox.path("state/sessions"));
    let read = OTHERS
        .filter(|person| {
            say(telegram, *person, "how are you");
            listings.any()
        })
        .count();
    assert_eq!(daemon.term(), 0);
    read
}

/// Starts the daemon, talks, and returns what that took: the start, and a message.
fn talk(sandbox: &Sandbox, telegram: &FakeTelegram) -> (Took, Took) {
    let daemon = sandbox.ready();
    let start = Took::of(daemon.pid());
    let say = |words: String| {
        say(telegram, 1001, &words);
        std::thread::sleep(PAUSE);
    };
    (0..5).for_each(|number| say(format!("warm {number}")));
    std::thread::sleep(Duration::from_secs(2));
    let before = Took::of(daemon.pid());
    (0..MESSAGES).for_each(|number| say(format!("message {number}")));
    let after = Took::of(daemon.pid());
    assert_eq!(daemon.term(), 0);
    let message = Took {
        cpu: after.cpu - before.cpu,
        read: (after.read - before.read) / MESSAGES,
        written: (after.written - before.written) / MESSAGES,
    };
    (start, message)
}

/// Makes `rows` answered messages of the last 13 days out of the newest one, and as many calls of the last five years.
fn grow_databases(sandbox: &Sandbox, rows: u64) {
    const COUNT: &str =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)";
    let open = |name: &str| {
        let database = Connection::open(sandbox.path(&format!("state/{name}.db"))).expect("open");
        database
            .execute_batch("PRAGMA synchronous=OFF; PRAGMA cache_size=-65536;")
            .expect("set");
        database
    };
    let copy = |database: &Connection, table: &str, of: &str, changed: &[(&str, &str)]| {
        let mut columns = database
            .prepare(&format!("SELECT name FROM pragma_table_info('{table}')"))
            .expect("SQL");
        let columns: Vec<String> = columns
            .query_map([], |row| row.get(0))
            .expect("columns")
            .map(|name| name.expect("a name"))
            .collect();
        let values = columns.iter().map(|column| {
            let new = changed.iter().find(|(name, _)| name == column);
            new.map_or_else(|| format!("t.{column}"), |(_, sql)| (*sql).to_owned())
        });
        let sql = format!(
            "{COUNT} INSERT INTO {table}({}) SELECT {} FROM n, (SELECT * FROM {table} {of} LIMIT 1) t",
            columns.join(", "),
            values.collect::<Vec<_>>().join(", ")
        );
        let made = database
            .execute(&sql, [i64::try_from(rows).expect("few")])
            .expect("grown");
        assert_eq!(made as u64, rows, "{table}");
    };
    // Spread over the time before the row that is copied.
    let days = |column: &str, days: u64| {
        format!("t.{column} - 60000 - CAST((?1 - i) * 1.0 / ?1 * {days} * 86400000 AS INTEGER)")
    };
    let queue = open("queue");
    let (came, ended) = (days("received_at", 13), days("finished_at", 13));
    let many = "'agent:agent:telegram:dm:' || (100000 + i % 10000)";
    let inbox = [
        ("seq", "(SELECT max(seq) FROM inbox) + i"),
        ("id", "'grown-' || i"),
        ("session_key", many),
        ("run_id", "'run-' || i"),
        ("received_at", came.as_str()),
        ("finished_at", ended.as_str()),
    ];
    copy(&queue, "inbox", "WHERE state = 'done'", &inbox);
    let (made, sent) = (days("created_at", 13), days("sent_at", 13));
    let outbox = [
        ("id", "(SELECT max(id) FROM outbox) + i"),
        ("inbox_id", "'grown-' || i"),
        ("run_id", "'run-' || i"),
        ("message_id", "1000000 + i"),
        ("created_at", made.as_str()),
        ("sent_at", sent.as_str()),
    ];
    copy(&queue, "outbox", "WHERE state = 'sent'", &outbox);
    let at = days("at", 13);
    copy(&queue, "seen", "", &[("key", "'grown-' || i"), ("at", &at)]);
    let ts = days("ts", 5 * 365);
    let costs = [
        ("call_id", "'grown-' || i"),
        ("run_id", "'run-' || i"),
        ("ts", ts.as_str()),
    ];
    copy(&open("cost"), "costs", "", &costs);
}

/// Makes `count` sessions like the only one there is, in which nothing was said: what is new in a conversation is
/// consolidated once, in the background.
fn grow_sessions(sandbox: &Sandbox, count: u64) {
    let dir = sandbox.path("state/sessions");
    let names = || fs::read_dir(&dir).expect("read").flatten();
    let file = names()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .find(|name| name.ends_with(".jsonl"))
        .expect("a transcript");
    let (id, day) = file.split_once('.').expect("an id");
    let text = fs::read_to_string(dir.join(&file)).expect("read");
    let head = text.lines().next().expect("a head").to_owned() + "\n";
    for number in 0..count {
        // Older than the one there is: ids sort by time.
        let new = format!("00000000-0000-7000-8000-{number:012x}");
        let text = head
            .replace(id, &new)
            .replace("dm:1001", &format!("dm:{}", 200_000 + number));
        sandbox.put(&format!("state/sessions/{new}.{day}"), text.as_bytes());
    }
}

/// Lets `count` people in, each of whom is in the address book.
fn grow_people(sandbox: &Sandbox, count: u64) {
    let ids = || (0..count).map(|number| (200_000 + number).to_string());
    let known = |id: String| json!({"id": format!("telegram:{id}"), "name": format!("Person {id}"), "username": format!("user{id}"), "since": 1});
    let people: Vec<_> = ids().map(known).collect();
    let mut file = sandbox.read_json("state/people.json").expect("people");
    for list in ["allowed", "contacts"] {
        let all = file[list].as_array_mut().expect("a list");
        all.extend(people.iter().cloned());
    }
    sandbox.put("state/people.json", file.to_string().as_bytes());
}

/// Makes `count` jobs that are far from due.
fn grow_jobs(sandbox: &Sandbox, count: u64) {
    let job = |number| json!({"id": format!("job-{number}"), "schedule": {"cron": "0 9 1 1 *"}, "text": "look at the year"});
    let jobs: Vec<_> = (0..count).map(job).collect();
    let file = json!({"jobs": jobs}).to_string();
    sandbox.put("state/cron/jobs.json", file.as_bytes());
}

#[test]
fn a_message_takes_no_more_in_a_home_of_years() {
    let (rows, sessions) = (size("GROWTH_ROWS", 5_000), size("GROWTH_SESSIONS", 2_000));
    let (people, jobs) = (size("GROWTH_PEOPLE", 2_000), size("GROWTH_JOBS", 200));
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model);
    talk(&sandbox, &telegram);
    let (small_start, small) = talk(&sandbox, &telegram);
    grow_databases(&sandbox, rows);
    grow_sessions(&sandbox, sessions);
    grow_people(&sandbox, people);
    grow_jobs(&sandbox, jobs);
    // Adopts the sessions, which no index has.
    talk(&sandbox, &telegram);
    // A file that was written within the last two seconds may have changed again and is read at each look.
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    let (grown_start, grown) = talk(&sandbox, &telegram);
    let file = sandbox.path("state/queue.db");
    let megabytes = fs::metadata(file).expect("there").len() >> 20;
    println!(
        "{rows} answered messages ({megabytes} MB) and calls, {sessions} sessions, {people} people, {jobs} jobs"
    );
    for (what, small, grown) in [
        ("start", small_start, grown_start),
        ("message", small, grown),
    ] {
        println!("{what}: {small:?}\n  grown: {grown:?}");
    }
    let is_more = |small: f64, grown: f64, slack: f64| grown > small * FACTOR + slack;
    let [small_cpu, grown_cpu] = [small.cpu, grown.cpu].map(|ticks| ticks as f64);
    assert!(
        !is_more(small_cpu, grown_cpu, TICKS),
        "{small:?}, then {grown:?}"
    );
    // All people, jobs and the index of all sessions are read; of what was answered and paid for a few pages.
    let known = [
        "state/people.json",
        "state/cron/jobs.json",
        "state/sessions/sessions.json",
    ]
    .map(|name| fs::metadata(sandbox.path(name)).expect("there").len())
    .iter()
    .sum::<u64>();
    let most = 4 * known + 2_000_000;
    let read = grown_start.read;
    assert!(
        read < most,
        "{read} bytes were read at the start, {most} are allowed"
    );
    // The index of all sessions is written now and then.
    let index = fs::metadata(sandbox.path("state/sessions/sessions.json")).expect("there");
    let [small, grown] = [small.written, grown.written].map(|bytes| bytes as f64);
    let slack = 2.0 * index.len() as f64 / MESSAGES as f64;
    assert!(
        !is_more(small, grown, slack),
        "{small} bytes written, then {grown}"
    );
    // The conversations are known to no index yet, then by name.
    let (unknown, known) = (listings(&sandbox, &telegram), listings(&sandbox, &telegram));
    println!("the directory of all conversations is read by {unknown} messages, later by {known}");
    assert_eq!(unknown, OTHERS.count(), "the watch sees it");
    // What goes on in the background may read it, too.
    assert!(known * 2 < OTHERS.count(), "{known} messages read it");
}
