//! Chaos between the daemon and those it talks to: proxies before Telegram and the model lose requests and answers, delay
//! them past each other, break them off, bring old ones again and put bytes into them that are none of theirs. Each
//! message is answered, in the order of its chat, once or marked.
//!
//! The gate runs some seconds. `CHAOS_SECONDS=3600` is the full size: 5 messages a second from 50 people, with figures of
//! the daemon each minute; `CHAOS_SEED` chooses what goes wrong.
#![allow(clippy::print_stdout, reason = "a run says what it did")]

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    crash::{RESENT, Random},
    support::{Daemon, FakeModel, FakeTelegram, Figures, Sandbox, wait_for, wanted},
};

/// Unless `CHAOS_SECONDS` says otherwise.
const SECONDS: u64 = 8;
const PEOPLE: std::ops::Range<i64> = 1001..1051;
/// Between two messages: 5 a second.
const PAUSE: Duration = Duration::from_millis(200);
/// Unanswered messages of one person at which they wait.
const IMPATIENCE: usize = 2;
/// A conversation starts over after so many messages: the model is sent all of it each time.
const CONVERSATION: usize = 20;
/// It stands in no JSON and in no head of HTTP.
const FOREIGN: u8 = 1;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Passes,
    /// It comes late, perhaps after others that were sent later.
    Late(u64),
    /// It is lost on its way.
    Lost,
    /// Its answer is.
    Unanswered,
    /// Its answer breaks off.
    Torn,
    /// There is a byte in its answer that is not the server's.
    Spoilt,
    /// The answer to an earlier poll comes once more.
    Again,
}

/// One line, to one server.
struct Line {
    /// Where it leads: host and port.
    to: String,
    calm: AtomicBool,
    seed: u64,
    requests: AtomicU64,
    fates: Mutex<BTreeMap<String, u64>>,
    /// The newest answer to a poll that brought something.
    poll: Mutex<Option<Vec<u8>>>,
}

impl Line {
    /// Opens a line to `url`; returns it and the address to call instead.
    fn open(url: &str, seed: u64) -> (Arc<Self>, String) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a loopback port is free");
        let port = listener.local_addr().expect("it has one").port();
        let line = Arc::new(Self {
            to: url
                .trim_start_matches("http://")
                .trim_end_matches('/')
                .to_owned(),
            calm: AtomicBool::new(false),
            seed,
            requests: AtomicU64::new(0),
            fates: Mutex::default(),
            poll: Mutex::default(),
        });
        let serving = Arc::clone(&line);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let line = Arc::clone(&serving);
                // Whoever hangs up, or is hung up on, ends its thread.
                thread::spawn(move || line.serve(client));
            }
        });
        (line, format!("http://127.0.0.1:{port}"))
    }

    fn choose(&self, is_poll: bool) -> Fate {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        if self.calm.load(Ordering::Relaxed) {
            return Fate::Passes;
        }
        let mut random = Random(self.seed ^ (number << 8));
        match random.below(100) {
            0..12 => Fate::Late(random.below(600)),
            12..16 => Fate::Lost,
            16..20 => Fate::Unanswered,
            20..24 => Fate::Torn,
            24..28 => Fate::Spoilt,
            28..34 if is_poll => Fate::Again,
            _ => Fate::Passes,
        }
    }

    fn serve(&self, mut client: TcpStream) -> Option<()> {
        let request = read_request(&mut client)?;
        let is_poll = request.windows(11).any(|word| word == b"/getUpdates");
        let fate = self.choose(is_poll);
        let name = format!("{fate:?}");
        let name = name.split('(').next().unwrap_or_default().to_owned();
        *self
            .fates
            .lock()
            .expect("nobody panics with it")
            .entry(name)
            .or_default() += 1;
        match fate {
            Fate::Lost => return None,
            Fate::Late(ms) => thread::sleep(Duration::from_millis(ms)),
            Fate::Again => {
                let old = self.poll.lock().expect("nobody panics with it").clone();
                if let Some(old) = old {
                    return client.write_all(&old).ok();
                }
            }
            _ => {}
        }
        let mut server = TcpStream::connect(&self.to).ok()?;
        server.write_all(&request).ok()?;
        if fate == Fate::Unanswered {
            // The server has it, and works on it to its end.
            thread::sleep(Duration::from_millis(50));
            return None;
        }
        let mut answer = Vec::new();
        let mut chunk = [0; 16 << 10];
        let whole = fate == Fate::Torn || fate == Fate::Spoilt || is_poll;
        while let Ok(size @ 1..) = server.read(&mut chunk) {
            let chunk = chunk.get(..size)?;
            answer.extend_from_slice(chunk);
            if !whole {
                client.write_all(chunk).ok()?;
            }
        }
        if is_poll && answer.windows(11).any(|word| word == b"\"update_id\"") {
            *self.poll.lock().expect("nobody panics with it") = Some(answer.clone());
        }
        let mut random = Random(answer.len() as u64);
        let at = usize::try_from(random.below(answer.len().max(1) as u64)).unwrap_or(0);
        match fate {
            Fate::Torn => answer.truncate(at),
            Fate::Spoilt => {
                if let Some(byte) = answer.get_mut(at) {
                    *byte = FOREIGN;
                }
            }
            _ => {}
        }
        if whole {
            client.write_all(&answer).ok()?;
        }
        client.shutdown(Shutdown::Both).ok()
    }
}

/// Reads a request and asks for one answer only; `None` when the client hangs up.
fn read_request(client: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 << 10];
    loop {
        let end = bytes.windows(4).position(|word| word == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(bytes.get(..end)?).to_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.map_or(Some(0), |length| length.trim().parse().ok())?;
            if bytes.len() >= end + 4 + length {
                bytes.splice(end..end, b"\r\nconnection: close".iter().copied());
                return Some(bytes);
            }
        }
        match client.read(&mut chunk) {
            Ok(size @ 1..) => bytes.extend_from_slice(chunk.get(..size)?),
            _ => return None,
        }
    }
}

/// A message: its place, and a word of it; none for an order to start over.
type Said = (i64, i64, Option<String>);

#[test]
fn chaos_on_both_lines_costs_no_message() {
    let seconds = wanted("CHAOS_SECONDS").unwrap_or(SECONDS);
    let seed = wanted("CHAOS_SEED").unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0);
    println!("seed {seed}");
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let (to_telegram, telegram_url) = Line::open(telegram.url(), seed ^ 1);
    let (to_model, model_url) = Line::open(model.url(), seed ^ 2);
    let people: Vec<i64> = PEOPLE.collect();
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .provider_config("mock", &format!("base_url = \"{model_url}\""))
        .config(&format!(
            "[telegram]\napi_url = \"{telegram_url}\"\npoll_timeout_secs = 1\nallow_from = {people:?}\n[agent]\nmax_concurrent_runs = 8"
        ));
    let daemon = sandbox.ready();
    let said = talk(
        &telegram,
        &daemon,
        &sandbox,
        Duration::from_secs(seconds),
        seed,
    );
    to_telegram.calm.store(true, Ordering::Relaxed);
    to_model.calm.store(true, Ordering::Relaxed);
    wait_for("everything to be handled", Duration::from_secs(180), || {
        sandbox.is_idle(&telegram).then_some(())
    });
    let log = daemon.log();
    let leaks = sandbox.leaks(&daemon, &telegram, &[]);
    assert_eq!(leaks, [] as [String; 0], "seed {seed}");
    assert_eq!(daemon.term(), 0);
    let fates = |line: &Line| format!("{:?}", line.fates.lock().expect("nobody panics with it"));
    let (marked, mut wrong) = verdict(&telegram, &said);
    let dead = sandbox.query("queue", "SELECT id, reason FROM inbox WHERE state = 'dead'");
    wrong.extend(dead.iter().map(|row| format!("a dead letter: {row:?}")));
    println!(
        "{} messages of {} people in {seconds} s, {marked} copies marked; Telegram {}; model {}; {} bytes logged",
        said.len(),
        people.len(),
        fates(&to_telegram),
        fates(&to_model),
        log.len()
    );
    assert_eq!(wrong, [] as [String; 0], "seed {seed}");
}

/// Lets people talk for `time`.
fn talk(
    telegram: &FakeTelegram,
    daemon: &Daemon,
    sandbox: &Sandbox,
    time: Duration,
    seed: u64,
) -> Vec<Said> {
    let mut random = Random(seed);
    let (mut said, mut counts): (Vec<Said>, BTreeMap<i64, usize>) = Default::default();
    let mut open: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    let (started, mut told, mut seen) = (Instant::now(), 0, 0);
    while started.elapsed() < time {
        thread::sleep(PAUSE);
        let sent = telegram.sent();
        for sent in sent.iter().skip(seen) {
            if let (Some(id), Some(mine)) = (sent.reply_to, open.get_mut(&sent.chat)) {
                mine.retain(|other| *other != id);
            }
        }
        seen = sent.len();
        let chat = PEOPLE.start + i64::try_from(random.below(50)).expect("small");
        let mine = open.entry(chat).or_default();
        if mine.len() < IMPATIENCE {
            let count = counts.entry(chat).or_default();
            *count += 1;
            let marker = (*count % CONVERSATION != 0).then(|| format!("w{chat}x{count}"));
            let sleep = random.below(100);
            let text = marker.as_ref().map_or("/new".to_owned(), |marker| {
                format!("{marker} [[sleep {sleep}]]")
            });
            let (_, id) = telegram.say(chat, chat, &text);
            mine.push(id);
            said.push((chat, id, marker));
        }
        if started.elapsed().as_secs() / 60 >= told {
            told += 1;
            let figures = Figures::of(daemon, sandbox);
            println!(
                "{:>5} s: {} messages, {figures}",
                started.elapsed().as_secs(),
                said.len()
            );
        }
    }
    said
}

/// Returns how many marked copies came, and what is wrong.
fn verdict(telegram: &FakeTelegram, said: &[Said]) -> (usize, Vec<String>) {
    let (mut marked, mut wrong) = (0, Vec::new());
    let mut by_place: BTreeMap<(i64, i64), Vec<String>> = BTreeMap::new();
    let mut order: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for sent in telegram.sent() {
        let Some(id) = sent.reply_to else { continue };
        by_place.entry((sent.chat, id)).or_default().push(sent.text);
        order.entry(sent.chat).or_default().push(id);
    }
    for (chat, id, marker) in said {
        let copies = by_place.remove(&(*chat, *id)).unwrap_or_default();
        let unmarked = copies
            .iter()
            .filter(|text| !text.starts_with(RESENT))
            .count();
        marked += copies.len() - unmarked;
        let fits = |text: &String| marker.as_ref().is_none_or(|marker| text.contains(marker));
        if copies.is_empty() || unmarked > 1 || !copies.iter().all(fits) {
            wrong.push(format!("{marker:?} of {chat} was answered {copies:?}"));
        }
    }
    wrong.extend(
        by_place
            .into_iter()
            .map(|(place, copies)| format!("{place:?} got {copies:?}")),
    );
    for (chat, mut ids) in order {
        let mut first = BTreeSet::new();
        ids.retain(|id| first.insert(*id));
        if !ids.is_sorted() {
            wrong.push(format!("{chat} was answered out of order: {ids:?}"));
        }
    }
    (marked, wrong)
}
