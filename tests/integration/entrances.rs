//! The daemon is killed at random moments while messages come in by every door at once: chats, the shell, the spool, the
//! FIFO, HTTP, jobs, approvals, sub-agents; and plans of a persona. Nothing is lost, nothing is doubled without a mark.
//!
//! `KILLS=1000` sets the number of kills and `KILLS_SEED` chooses their moments; add `-- --nocapture` to see the figures.
#![allow(clippy::print_stdout, reason = "a run says what it did")]
#![allow(clippy::disallowed_methods, reason = "a test writes files plainly")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::OpenOptionsExt as _,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use nix::libc::O_NONBLOCK;
use rusqlite::types::Value as Sql;
use serde_json::{Value, json};

use crate::{
    crash::{GAVE_UP, MAYBE, RESENT, Random, let_live},
    support::{FakeModel, FakeTelegram, OnDrop, Sandbox, Sent, wanted},
};

/// Kills of a run, unless `KILLS` says otherwise.
const KILLS: usize = 30;
const PLANNED: usize = 30;
/// Approvals are asked for in the first chat of the owner, sub-agents are sent in the second: each is a lane of its own.
const ASKS: i64 = 1001;
const SENDS: i64 = 1005;
const GUESTS: [i64; 2] = [1002, 1003];
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// A yes that was used up when a kill came is not used twice.
const NOT_RUN: &str = "this was not run: the owner's yes was used up";
/// So is a command told that could not even begin.
const NOT_BEGUN: &str = "the command was not run";
/// Jobs that wait for their time.
const JOBS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Door {
    Chat(i64),
    Approval,
    SubAgent,
    Shell,
    Spool,
    Fifo,
    Event,
    Caller,
    Job,
    Plan(i64),
}

#[derive(Clone, Debug)]
struct Said {
    door: Door,
    /// A word that stands in no other input.
    marker: String,
    /// The message's id in its chat.
    message: Option<i64>,
}

pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    pub(crate) telegram: FakeTelegram,
    _model: FakeModel,
    port: u16,
    said: Mutex<Vec<Said>>,
    wrong: Mutex<Vec<String>>,
    over: AtomicBool,
    /// Nobody who is not heard comes again.
    settled: AtomicBool,
    /// Whether more may fail than the daemon's life: then a door may say why it takes nothing.
    pub(crate) machine_fails: bool,
    /// The longest pause before something is said, milliseconds.
    pub(crate) pause_ms: u64,
    turned_away: Mutex<BTreeSet<String>>,
    /// Inputs that were given in a second time, since nobody had said that they were taken.
    again: AtomicUsize,
}

#[test]
fn kills_while_messages_come_by_every_door_lose_nothing() {
    let guests = GUESTS.map(Door::Chat);
    let others = [
        Door::Approval,
        Door::SubAgent,
        Door::Shell,
        Door::Spool,
        Door::Fifo,
        Door::Event,
        Door::Caller,
        Door::Job,
    ];
    let doors: Vec<Door> = guests.into_iter().chain(others).collect();
    survives(KILLS, "", &doors);
}

#[test]
fn kills_while_plans_are_carried_out_lose_nothing() {
    let config = "[agent]\nmode = \"plan\"\nplan_pause_ms = 0\n[agent.typing]\nstart_delay_secs = 0.0\nchars_per_sec = 0.0\nsticker_delay_secs = 0.0";
    survives(PLANNED, config, &[1001, 1002, 1003, 1005].map(Door::Plan));
}

fn survives(kills: usize, config: &str, doors: &[Door]) {
    let kills = wanted("KILLS").map_or(kills, |kills| {
        usize::try_from(kills).expect("a number of kills")
    });
    let seed = wanted("KILLS_SEED").unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0);
    println!("seed {seed}");
    let (world, mut clock) = World::new(|sandbox| sandbox.config(config).with_clock());
    let started = Instant::now();
    // Scripts that write into the spool find one.
    world.sandbox.ready().kill9();
    thread::scope(|scope| {
        // End the threads also when something panics, or the scope would wait for ever.
        let over = OnDrop(|| world.over.store(true, Ordering::Relaxed));
        let _settled = OnDrop(|| world.settled.store(true, Ordering::Relaxed));
        let mut talking = Vec::new();
        for (number, door) in (1..).zip(doors) {
            let world = &world;
            talking.push(scope.spawn(move || world.talk(*door, Random(seed ^ number))));
        }
        scope.spawn(|| world.approve());
        let mut random = Random(seed);
        for _ in 0..kills {
            let mut daemon = world.sandbox.daemon();
            let_live(&world.telegram, &mut daemon, &mut random);
            daemon.kill9();
        }
        drop(over);
        // What died with the daemon several times rests up to ten minutes before it is tried again.
        clock.later(Duration::from_secs(601));
        let daemon = world.sandbox.ready();
        // Callers and those at the FIFO come again until they are heard.
        talking
            .into_iter()
            .for_each(|talk| talk.join().expect("no door panics"));
        // The deaths that this start noted rest once more.
        let mut open = wait_until(Duration::from_secs(30), || world.open());
        for _ in 0..3 {
            if !open.is_empty() {
                clock.later(Duration::from_secs(601));
                open = wait_until(Duration::from_secs(30), || world.open());
            }
        }
        assert_eq!(open, [] as [String; 0], "seed {seed}: never answered");
        let leaks = world.sandbox.leaks(&daemon, &world.telegram, &[]);
        assert_eq!(leaks, [] as [String; 0], "seed {seed}");
        assert_eq!(daemon.term(), 0);
    });
    let told = world.verdict(doors);
    println!("kills {kills}, {told} in {:.0?}", started.elapsed());
    assert_eq!(world.take_wrong(), [] as [String; 0], "seed {seed}");
}

/// Looks until nothing is open, or `patience` is over; returns what is.
fn wait_until(patience: Duration, open: impl Fn() -> Vec<String>) -> Vec<String> {
    let deadline = Instant::now() + patience;
    loop {
        let left = open();
        if left.is_empty() || Instant::now() > deadline {
            return left;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

impl World {
    /// Makes the home, which `with` may change, and everybody around it.
    pub(crate) fn new<T>(with: impl FnOnce(Sandbox) -> (Sandbox, T)) -> (Self, T) {
        let (model, telegram) = (FakeModel::start(), FakeTelegram::start());
        let port = crate::http::free_port();
        let sandbox = Sandbox::new()
            .with_telegram(&telegram)
            .with_anthropic(&model)
            .env("AGENT_HTTP_TOKEN", TOKEN)
            .config(&format!(
                "[telegram]\nowner = [{ASKS}, {SENDS}]\nallow_from = [1002, 1003]\n[agent]\nmax_concurrent_runs = 4\n\
                 [tools.exec]\npolicy = \"ask\"\n[http]\nenabled = true\nlisten = \"127.0.0.1:{port}\"\nwrites_per_minute = 6000\nreads_per_minute = 6000"
            ))
            // A job that a kill made late waits at night for the morning.
            .config("[heartbeat]\nactive_start = \"00:00\"\nactive_end = \"23:59\"");
        let (sandbox, made) = with(sandbox);
        let world = Self {
            sandbox,
            telegram,
            _model: model,
            port,
            said: Mutex::default(),
            wrong: Mutex::default(),
            over: AtomicBool::new(false),
            settled: AtomicBool::new(false),
            machine_fails: false,
            pause_ms: 20,
            turned_away: Mutex::default(),
            again: AtomicUsize::new(0),
        };
        (world, made)
    }

    /// Nobody says more from now on.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Relaxed)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn wrong(&self, what: String) {
        self.wrong.lock().expect("nobody panics with it").push(what);
    }

    pub(crate) fn take_wrong(&self) -> Vec<String> {
        std::mem::take(&mut self.wrong.lock().expect("nobody panics with it"))
    }

    /// Nobody comes again from now on who was not heard.
    pub(crate) fn settle(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    fn said(&self) -> Vec<Said> {
        self.said.lock().expect("nobody panics with it").clone()
    }

    /// Says one thing after the other by a door, each when what came before is answered.
    pub(crate) fn talk(&self, door: Door, mut random: Random) {
        let mut mine: Vec<Said> = Vec::new();
        let most = if door == Door::Job { JOBS } else { 1 };
        for number in 0.. {
            while !self.is_over() && mine.len() >= most {
                thread::sleep(Duration::from_millis(10));
                mine.retain(|said| !self.is_answered(said));
            }
            thread::sleep(Duration::from_millis(random.below(self.pause_ms)));
            if self.is_over() {
                return;
            }
            let marker = format!("{}{number:05}", door.letters());
            let sleep = random.below(30);
            let message = self.give(door, &marker, sleep);
            let said = Said {
                door,
                marker,
                message,
            };
            mine.push(said.clone());
            self.said.lock().expect("nobody panics with it").push(said);
        }
    }

    /// Says one thing by a door; returns when it is accepted, or answered where the door waits for that.
    pub(crate) fn say(&self, door: Door) {
        let marker = format!("{}1", door.letters());
        let message = self.give(door, &marker, 0);
        let said = Said {
            door,
            marker,
            message,
        };
        self.said.lock().expect("nobody panics with it").push(said);
    }

    /// Gives one input in, until the daemon or the disk has it.
    fn give(&self, door: Door, marker: &str, sleep: u64) -> Option<i64> {
        let text = format!("[[sleep {sleep}]] [[say {marker}]]");
        match door {
            Door::Chat(chat) => return Some(self.telegram.say(chat, chat, &text).1),
            Door::Plan(chat) => {
                let plan = json!([
                    {"kind": "send", "id": "a", "text": format!("{marker}.1")},
                    {"kind": "wait", "id": "b", "depends_on": ["a"], "delay": 0.05},
                    {"kind": "send", "id": "c", "depends_on": ["b"], "text": format!("{marker}.2")},
                ]);
                let plan = plan.to_string();
                let plan = plan.trim_end_matches(']');
                let text = format!("[[sleep {sleep}]] [[say {plan} ] ]]");
                return Some(self.telegram.say(chat, chat, &text).1);
            }
            Door::Approval => {
                let call = json!({"command": format!("echo {marker} | tee -a ran.log")});
                let text = format!("[[sleep {sleep}]] [[tool exec {call}]]");
                return Some(self.telegram.say(ASKS, ASKS, &text).1);
            }
            Door::SubAgent => {
                let call = json!({"task": format!("{text} {marker}"), "label": "helper"});
                let text = format!("[[tool sessions_spawn {call}]]");
                return Some(self.telegram.say(SENDS, SENDS, &text).1);
            }
            Door::Shell => self.shell(marker, &["--id", marker, "--from", "cron", &text]),
            Door::Job => self.job(marker, &text),
            Door::Spool => {
                let command =
                    json!({"v": 1, "cmd": "user", "id": marker, "text": text, "sender": "script"});
                let draft = self.sandbox.put(
                    &format!("state/spool/tmp/{marker}.json"),
                    command.to_string().as_bytes(),
                );
                let place = self.sandbox.path(&format!("state/spool/new/{marker}.json"));
                fs::rename(draft, place).expect("the spool is there");
            }
            Door::Fifo => self.fifo(marker, &text),
            Door::Event | Door::Caller => self.http(door, marker, &text),
        }
        None
    }

    fn shell(&self, marker: &str, arguments: &[&str]) {
        let sent = self.sandbox.send(arguments);
        if self.machine_fails && sent.stderr.contains("os error") {
            let mut away = self.turned_away.lock().expect("nobody panics with it");
            away.insert(marker.to_owned());
        } else if sent.code != 0 && sent.code != 75 {
            self.wrong(format!("{arguments:?}: {sent:?}"));
        }
    }

    fn job(&self, marker: &str, text: &str) {
        let at = chrono::Utc::now() + chrono::TimeDelta::seconds(5);
        let at = at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
        let arguments = [
            "--job",
            "add",
            "--id",
            marker,
            "--name",
            marker,
            "--at",
            &at,
            "--text",
            text,
            "--deliver",
        ];
        self.shell(marker, &arguments);
    }

    /// Nobody has a line of the FIFO before its answer says so: who gets none comes again, with the same id.
    fn fifo(&self, marker: &str, text: &str) {
        let mut line = json!({"v": 1, "cmd": "user", "id": marker, "text": text}).to_string();
        line.push('\n');
        let heard = || {
            self.sandbox
                .path(&format!("state/replies/{marker}.json"))
                .exists()
        };
        let mut tries = 0;
        while !heard() && !self.settled.load(Ordering::Relaxed) {
            let mut options = fs::OpenOptions::new();
            let fifo = options
                .write(true)
                .custom_flags(O_NONBLOCK)
                .open(self.sandbox.path("state/control.fifo"));
            let written = fifo.and_then(|mut fifo| fifo.write_all(line.as_bytes()));
            if written.is_ok() {
                tries += 1;
                let _ = wait_until(Duration::from_millis(700), || {
                    if heard() {
                        Vec::new()
                    } else {
                        vec![String::new()]
                    }
                });
            } else {
                thread::sleep(Duration::from_millis(10));
            }
        }
        self.again
            .fetch_add(usize::from(tries > 1), Ordering::Relaxed);
    }

    /// A caller comes again, with the same key, until there is an answer.
    fn http(&self, door: Door, marker: &str, text: &str) {
        let path = if door == Door::Event {
            "notify"
        } else {
            "chat"
        };
        let body = json!({"message": text, "sender": format!("http-{path}")}).to_string();
        let mut tries = 0;
        while !self.settled.load(Ordering::Relaxed) {
            let answer = self.post(path, marker, &body);
            tries += 1;
            match answer {
                Ok((202, _)) if door == Door::Event => break,
                Ok((200, said)) if door == Door::Caller => {
                    if !said.contains(marker) && !said.contains(GAVE_UP) {
                        self.wrong(format!("the caller {marker} was answered {said}"));
                    }
                    break;
                }
                Ok((429 | 500.., _)) | Err(_) => thread::sleep(Duration::from_millis(20)),
                Ok((status, said)) => {
                    self.wrong(format!("{marker} got {status}: {said}"));
                    break;
                }
            }
        }
        self.again
            .fetch_add(usize::from(tries > 1), Ordering::Relaxed);
    }

    fn post(&self, path: &str, key: &str, body: &str) -> std::io::Result<(u16, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let head = format!(
            "POST /api/v1/{path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\nauthorization: Bearer {TOKEN}\r\n\
             content-type: application/json\r\nidempotency-key: {key}\r\ncontent-length: {}\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
        let torn = || std::io::Error::other("the answer broke off");
        let (_, said) = answer.split_once("\r\n\r\n").ok_or_else(torn)?;
        Ok((status.ok_or_else(torn)?, said.to_owned()))
    }

    /// Says yes to whatever is asked, until all is over.
    pub(crate) fn approve(&self) {
        while !self.settled.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(30));
            if !self.sandbox.path("state/queue.db").exists() {
                continue;
            }
            let known = "SELECT count(*) FROM sqlite_schema WHERE name = 'approvals'";
            if self.sandbox.query("queue", known) != [[Sql::Integer(1)]] {
                continue;
            }
            let asked = "SELECT id FROM approvals WHERE state = 'pending'";
            for row in self.sandbox.query("queue", asked) {
                if let Some(Sql::Text(id)) = row.first() {
                    self.sandbox.send(&["--approve", id]);
                }
            }
        }
    }

    fn reply(&self, id: &str) -> Option<Value> {
        let reply = self.sandbox.read(&format!("state/replies/{id}.json"))?;
        let reply: Value = serde_json::from_str(&reply).ok()?;
        (reply["status"] == "done" || reply["status"] == "error").then_some(reply)
    }

    /// Returns what came of it in chats, by what is to come once.
    fn copies(&self, said: &Said, sent: &[Sent]) -> Vec<(String, Vec<Sent>)> {
        let marker = said.marker.as_str();
        let part = |part: &str| {
            let word = format!("{marker}{part}");
            // Who is told that it was given up reads the words that were to be said.
            let is = |one: &str| one.trim_end_matches(']') == word;
            let has = |sent: &&Sent| sent.text.split_whitespace().any(is);
            (word.clone(), sent.iter().filter(has).cloned().collect())
        };
        let answers = |chat: i64| {
            let is = |sent: &&Sent| sent.chat == chat && sent.reply_to == said.message;
            (marker.to_owned(), sent.iter().filter(is).cloned().collect())
        };
        match said.door {
            Door::Chat(chat) => vec![answers(chat)],
            Door::Approval => vec![answers(ASKS)],
            // The report is an answer to the same message.
            Door::SubAgent => {
                let (key, mut first) = answers(SENDS);
                first.retain(|sent| !sent.text.contains(marker));
                vec![(key, first), part("")]
            }
            Door::Plan(_) => vec![part(".1"), part(".2")],
            Door::Event | Door::Job => vec![part("")],
            Door::Shell | Door::Spool | Door::Fifo | Door::Caller => Vec::new(),
        }
    }

    fn is_answered(&self, said: &Said) -> bool {
        match said.door {
            Door::Shell | Door::Spool | Door::Fifo => self.reply(&said.marker).is_some(),
            Door::Caller => true,
            _ => {
                let sent = self.telegram.sent();
                let copies = self.copies(said, &sent);
                copies.iter().all(|(_, copies)| !copies.is_empty())
                    || self.refused(said)
                    || self.machine_fails && copies.iter().any(|(_, copies)| is_unsent(copies))
                    || sent.iter().any(|sent| gave_up_on(sent, said))
            }
        }
    }

    /// Returns true for a job whose time had passed when the daemon came to read of it, or that could not be kept.
    fn refused(&self, said: &Said) -> bool {
        let away = self.turned_away.lock().expect("nobody panics with it");
        away.contains(&said.marker)
            || said.door == Door::Job
                && self
                    .reply(&said.marker)
                    .is_some_and(|reply| reply["status"] == "error")
    }

    pub(crate) fn open(&self) -> Vec<String> {
        let open = |said: &Said| !self.is_answered(said);
        let said = self.said().into_iter();
        let mut left: Vec<String> = said.filter(open).map(|said| format!("{said:?}")).collect();
        let rows = "SELECT id FROM inbox WHERE state IN ('pending', 'running') UNION ALL
             SELECT 'part ' || id FROM outbox WHERE state IN ('pending', 'sending', 'unknown')";
        let rows = self.sandbox.query("queue", rows);
        left.extend(rows.into_iter().flatten().map(|id| format!("{id:?}")));
        left
    }

    /// Looks at what became of everything; returns the figures.
    pub(crate) fn verdict(&self, doors: &[Door]) -> String {
        let (sent, said) = (self.telegram.sent(), self.said());
        let ran = self.sandbox.read("workspace/ran.log").unwrap_or_default();
        let (mut by_door, mut marked, mut gave_up, mut maybe, mut late) =
            (BTreeMap::<Door, usize>::new(), 0, 0, 0, 0);
        for one in &said {
            *by_door.entry(one.door).or_default() += 1;
            late += usize::from(self.refused(one));
            let mut words = String::new();
            for (key, copies) in self.copies(one, &sent) {
                let unmarked = copies.iter().filter(|sent| !sent.text.starts_with(RESENT));
                let unmarked = unmarked.count();
                marked += copies.len() - unmarked;
                if unmarked > 1 {
                    self.wrong(format!(
                        "{key} came {unmarked} times without a mark: {copies:?}"
                    ));
                }
                words.extend(copies.into_iter().map(|sent| sent.text));
            }
            if let Some(reply) = self.reply(&one.marker).filter(|_| one.door != Door::Job) {
                words.push_str(&reply.to_string());
                if !words.contains(&one.marker) {
                    self.wrong(format!("{one:?} was answered {words}"));
                }
            }
            let buried = sent.iter().any(|sent| gave_up_on(sent, one));
            gave_up += usize::from(buried || words.contains(GAVE_UP));
            maybe += usize::from(words.contains(MAYBE));
            let runs = ran.lines().filter(|line| *line == one.marker).count();
            let is_told = buried
                || [MAYBE, GAVE_UP, NOT_RUN, NOT_BEGUN]
                    .iter()
                    .any(|told| words.contains(told));
            if one.door == Door::Approval && (runs > 1 || runs == 0 && !is_told) {
                self.wrong(format!(
                    "the command of {} ran {runs} times: {words}",
                    one.marker
                ));
            }
        }
        for door in doors {
            if !by_door.contains_key(door) {
                self.wrong(format!(
                    "nothing came by {door:?}: this run proved too little"
                ));
            }
        }
        // Only after six deaths, and never in silence.
        let dead = "SELECT id FROM inbox WHERE state = 'dead'";
        let dead = self.sandbox.query("queue", dead);
        if dead.len() > gave_up {
            self.wrong(format!("{gave_up} were told of {dead:?}"));
        }
        let early = "SELECT id, reason FROM inbox WHERE state = 'dead' AND attempts < 6";
        for row in self.sandbox.query("queue", early) {
            self.wrong(format!("a dead letter: {row:?}"));
        }
        for name in ["queue", "cost", "memory", "index"] {
            if self.sandbox.path(&format!("state/{name}.db")).exists() {
                let found = self.sandbox.query(name, "PRAGMA integrity_check");
                if found != [[Sql::Text("ok".to_owned())]] {
                    self.wrong(format!("{name}.db: {found:?}"));
                }
            }
        }
        let audit = self.sandbox.send(&["--log", "--verify"]);
        if audit.code != 0 {
            self.wrong(format!("the audit log: {audit:?}"));
        }
        format!(
            "said {} {by_door:?}, marked {marked}, given up {gave_up}, may or may not {maybe}, jobs too late {late}, given in again {}",
            said.len(),
            self.again.load(Ordering::Relaxed)
        )
    }
}

/// Returns true when a sub-agent could not even be written down, and its sender was told.
fn is_unsent(copies: &[Sent]) -> bool {
    copies
        .iter()
        .any(|sent| sent.text.contains("no sub-agent was sent"))
}

/// Returns true for the notice that this was given up, which quotes it.
fn gave_up_on(sent: &Sent, said: &Said) -> bool {
    sent.text.contains(GAVE_UP) && sent.text.contains(&said.marker)
}

impl Door {
    fn letters(self) -> String {
        match self {
            Self::Chat(chat) => format!("chat{chat}x"),
            Self::Plan(chat) => format!("plan{chat}x"),
            Self::Approval => "asks".to_owned(),
            Self::SubAgent => "sub".to_owned(),
            Self::Shell => "shell".to_owned(),
            Self::Spool => "spool".to_owned(),
            Self::Fifo => "fifo".to_owned(),
            Self::Event => "event".to_owned(),
            Self::Caller => "caller".to_owned(),
            Self::Job => "job".to_owned(),
        }
    }
}
