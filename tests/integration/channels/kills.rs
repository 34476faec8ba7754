//! One agent with all its channels: Telegram, the HTTP API, mail, Matrix and the script of agent-channel(7), each a real
//! program before a real server (but Telegram). Every process is killed at random moments, and started again at once.
//!
//! `CHANNEL_KILLS=600` is for how many seconds, `KILLS_SEED` chooses the moments; needs `--ignored --nocapture`.
#![allow(clippy::print_stdout, reason = "it says what it did")]

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Instant;

use nix::sys::signal::{Signal, kill, killpg};

use super::*;
use crate::crash::{GAVE_UP, RESENT, Random};
use crate::entrances::{Door, World};
use crate::mail::Mailbox;
use crate::matrix::{AGENT, Homeserver, Person};
use crate::support::{Clock, OnDrop, Running, wanted};

/// Unless `CHANNEL_KILLS` says otherwise.
const SECONDS: u64 = 600;
/// The longest pause between two kills, milliseconds.
const PAUSE_MS: u64 = 2_400;
/// Unanswered messages of one chat at which its person waits.
const IMPATIENCE: usize = 2;
const DOORS: [Door; 4] = [
    Door::Chat(1002),
    Door::Chat(1003),
    Door::Caller,
    Door::Event,
];
const CHANNELS: &str = r#"
[owner]
notify = ["telegram"]
[channels.mail]
enabled = true
owner = ["ada@example.org"]
[channels.matrix]
enabled = true
owner = ["@ada:home.test"]
[channels.line]
enabled = true
owner = ["me"]
"#;

/// A process that is started again whenever it ends.
struct Process {
    command: Box<dyn Fn() -> Command + Send + Sync>,
    /// Those before stay, for what they printed.
    running: Mutex<Vec<Running>>,
    kills: AtomicUsize,
}

impl Process {
    fn start(command: impl Fn() -> Command + Send + Sync + 'static) -> Self {
        let first = Running::start(command().process_group(0));
        Self {
            command: Box::new(command),
            running: Mutex::new(vec![first]),
            kills: AtomicUsize::new(0),
        }
    }

    /// Kills it, `with_all` with what it started, and starts it again.
    fn kill(&self, with_all: bool) {
        let mut running = self.running.lock().expect("no panic");
        let last = running.last_mut().expect("one");
        // It may have ended by itself.
        let _ = if with_all {
            killpg(last.pid(), Signal::SIGKILL)
        } else {
            kill(last.pid(), Signal::SIGKILL)
        };
        last.kill9();
        // Nobody is there any more, not even its number.
        while !last.has_ended() {
            thread::sleep(Duration::from_millis(1));
        }
        running.push(Running::start((self.command)().process_group(0)));
        self.kills.fetch_add(1, Ordering::Relaxed);
    }

    fn kills(&self) -> usize {
        self.kills.load(Ordering::Relaxed)
    }

    /// Returns what all of them printed.
    fn said(&self) -> (String, String) {
        let running = self.running.lock().expect("no panic");
        running.iter().map(Running::said).unzip()
    }

    fn write(&self, text: &str) {
        let running = self.running.lock().expect("no panic");
        running.last().expect("one").write(text);
    }
}

/// What was said in one chat and what came back, in order.
#[derive(Default)]
struct Chat {
    name: &'static str,
    said: Mutex<Vec<String>>,
    heard: Mutex<Vec<String>>,
}

impl Chat {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    fn open(&self) -> Vec<String> {
        let heard = self.heard.lock().expect("no panic");
        let said = self.said.lock().expect("no panic");
        let is_open = |marker: &&String| !heard.iter().any(|text| text.contains(*marker));
        said.iter().filter(is_open).cloned().collect()
    }

    /// Says one thing after the other until all is over, and listens until nothing is open. `say` tells whether what was
    /// said was taken.
    fn talk(
        &self,
        world: &World,
        mut random: Random,
        heard: impl Fn() -> Vec<String>,
        say: impl Fn(&str, &str) -> bool,
    ) {
        for number in 0.. {
            loop {
                *self.heard.lock().expect("no panic") = heard();
                let is_patient = world.is_over() || self.open().len() >= IMPATIENCE;
                if world.is_settled() {
                    return;
                }
                if !is_patient {
                    break;
                }
                thread::sleep(Duration::from_millis(250));
            }
            thread::sleep(Duration::from_millis(random.below(500)));
            let marker = format!("{}{number:05}", self.name);
            let sleep = random.below(60);
            if say(&marker, &format!("[[sleep {sleep}]] [[say {marker}]]")) {
                self.said.lock().expect("no panic").push(marker);
            }
        }
    }

    /// Returns how many copies came that are marked, and what is wrong.
    fn verdict(&self, is_in_order: bool) -> (usize, usize, Vec<String>) {
        let (said, heard) = (self.said.lock(), self.heard.lock());
        let (said, heard) = (said.expect("no panic"), heard.expect("no panic"));
        let (mut marked, mut given_up, mut wrong) = (0, 0, Vec::new());
        let mut places = Vec::new();
        for marker in &*said {
            let is_copy = |text: &&String| text.contains(marker.as_str());
            let copies: Vec<&String> = heard.iter().filter(is_copy).collect();
            given_up += copies.iter().filter(|text| text.contains(GAVE_UP)).count();
            let plain = copies.iter().filter(|text| !text.contains(RESENT)).count();
            marked += copies.len() - plain;
            if plain > 1 {
                wrong.push(format!("{marker} came {plain} times without a mark"));
            }
            match heard.iter().position(|text| text.contains(marker.as_str())) {
                Some(place) => places.push(place),
                None => wrong.push(format!("{marker} is lost")),
            }
        }
        if is_in_order && !places.is_sorted() {
            wrong.push(format!("{} was answered out of order", self.name));
        }
        (marked, given_up, wrong)
    }
}

/// Everybody around the agent.
struct Town {
    world: World,
    clock: Mutex<Clock>,
    mailbox: Mailbox,
    homeserver: Homeserver,
    seed: u64,
}

impl Town {
    fn open() -> Option<Self> {
        crate::mail::program()?;
        crate::matrix::program()?;
        crate::matrix::tools("nio")?;
        let (mailbox, homeserver) = (Mailbox::open()?, Homeserver::open()?);
        drop(Person::new(&homeserver, "agent"));
        let (mut world, clock) = World::new(|sandbox| {
            let sandbox = sandbox.config(CHANNELS);
            let limits = "answers_an_hour = 1000000\nanswers_a_thread_and_hour = 1000000\n";
            sandbox.put("channels/mail.toml", mailbox.settings(limits).as_bytes());
            let url = homeserver.url();
            let settings =
                format!("user = \"{AGENT}\"\nhomeserver = \"{url}\"\npassword = \"pw-agent\"\n");
            sandbox.put("channels/matrix.toml", settings.as_bytes());
            sandbox.put("line", script().as_bytes());
            sandbox.with_clock()
        });
        world.pause_ms = 1_500;
        let seed = wanted("KILLS_SEED").unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0);
        println!("seed {seed}");
        Some(Self {
            world,
            clock: Mutex::new(clock),
            mailbox,
            homeserver,
            seed,
        })
    }

    /// Returns how the program of a channel is started.
    fn program(&self, program: PathBuf) -> impl Fn() -> Command + Send + Sync + 'static {
        let home = self.world.sandbox.home();
        move || {
            let mut command = Command::new(&program);
            command.env_clear().env("AGENT_HOME", &home);
            command
        }
    }

    fn line(&self) -> impl Fn() -> Command + Send + Sync + 'static {
        let (home, script) = (self.world.sandbox.home(), self.world.sandbox.path("line"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        move || {
            let mut command = Command::new("bash");
            let command_ref = command.env_clear().env("PATH", &path);
            command_ref.env("AGENT_HOME", &home).arg(&script);
            command
        }
    }

    fn says_mail(&self, marker: &str, text: &str) -> bool {
        let mail = crate::mail::ada(marker, "Subject: a question\r\n", text);
        self.mailbox.arrives(marker, mail);
        true
    }

    /// Types a line; false when its reader was killed before it had it.
    fn types(&self, line: &Process, marker: &str, text: &str) -> bool {
        let before = line.kills();
        line.write(&format!("{text}\n"));
        let is_taken = || {
            let new = self.world.sandbox.path("state/channels/line/spool/new");
            let files = fs::read_dir(new).into_iter().flatten().flatten();
            let mut texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
            let row = format!("SELECT 1 FROM inbox WHERE envelope LIKE '%{marker}%' LIMIT 1");
            texts.any(|line| line.contains(marker))
                || !self.world.sandbox.query("queue", &row).is_empty()
        };
        loop {
            let was_killed = line.kills() != before;
            if was_killed {
                // What had begun to leave it is there by now.
                thread::sleep(Duration::from_millis(500));
            }
            if is_taken() {
                return true;
            }
            if was_killed || self.world.is_settled() {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// What a terminal shows, a message each; a mark stands on a line of its own.
fn printed(process: &Process) -> Vec<String> {
    let (out, _) = process.said();
    let mut messages = Vec::new();
    let mut mark = String::new();
    for line in out.lines() {
        if line == RESENT {
            mark = format!("{RESENT} ");
        } else {
            messages.push(std::mem::take(&mut mark) + line);
        }
    }
    messages
}

#[test]
#[ignore = "ten minutes; CHANNEL_KILLS=60 is one"]
fn kills_of_every_process_lose_nothing_and_double_only_what_is_marked() {
    let Some(town) = Town::open() else {
        return;
    };
    let time = Duration::from_secs(wanted("CHANNEL_KILLS").unwrap_or(SECONDS));
    let (world, seed) = (&town.world, town.seed);
    let daemon = world.sandbox.ready();
    let programs = [crate::mail::program(), crate::matrix::program()];
    let [mail, matrix] = programs.map(|program| town.program(program.expect("looked for")));
    let signed_in = Running::start(matrix().arg("login")).end();
    assert_eq!(signed_in.code, 0, "{signed_in:?}");
    let (mail, matrix, line) = (
        Process::start(mail),
        Process::start(matrix),
        Process::start(town.line()),
    );
    let ada = Person::signed_in(&town.homeserver, "ada");
    let room = ada.room(true, &[AGENT]);
    ada.wait_entered(&room);
    let chats = ["mailed", "matrix", "typed"].map(Chat::new);
    let (mut daemon, mut deaths) = (Some(daemon), 0);
    thread::scope(|scope| {
        // End the threads also when something panics, or the scope would wait for ever.
        let over = OnDrop(|| world.end());
        let settled = OnDrop(|| world.settle());
        let mut talking = Vec::new();
        for (number, door) in (1..).zip(DOORS) {
            talking.push(scope.spawn(move || world.talk(door, Random(seed ^ number))));
        }
        let (town, [mailed, in_matrix, typed]) = (&town, &chats);
        scope.spawn(|| {
            let heard = || town.mailbox.sent();
            mailed.talk(world, Random(seed ^ 101), heard, |marker, text| {
                town.says_mail(marker, text)
            });
        });
        scope.spawn(|| {
            let (ada, room) = (ada, room);
            let body = |line: &Value| line["content"]["body"].as_str().map(str::to_owned);
            let heard = || ada.heard().iter().filter_map(body).collect();
            in_matrix.talk(world, Random(seed ^ 102), heard, |_, text| {
                !ada.says(&room, text).is_empty()
            });
        });
        scope.spawn(|| {
            let heard = || printed(&line);
            typed.talk(world, Random(seed ^ 103), heard, |marker, text| {
                town.types(&line, marker, text)
            });
        });
        let mut random = Random(seed);
        let began = Instant::now();
        while began.elapsed() < time {
            thread::sleep(Duration::from_millis(random.below(PAUSE_MS)));
            match random.below(8) {
                0..=3 => {
                    daemon.take().expect("one").kill9();
                    deaths += 1;
                    daemon = Some(world.sandbox.daemon());
                }
                4 | 5 => mail.kill(true),
                6 => matrix.kill(true),
                // The half of it that prints may outlive the other.
                _ => line.kill(random.below(2) == 0),
            }
        }
        drop(over);
        if let Some(daemon) = &mut daemon {
            daemon.wait_ready();
        }
        // Callers come again until they are heard.
        let rest = |talk: thread::ScopedJoinHandle<'_, ()>| talk.join().expect("no door panics");
        talking.into_iter().for_each(rest);
        let open = wait_open(town, &chats);
        assert_eq!(open, [] as [String; 0], "seed {seed}: never answered");
        drop(settled);
    });
    report(&town, &chats, deaths, [&mail, &matrix, &line]);
    drop(daemon);
}

/// Waits until nothing is open; what died with the daemon several times rests up to ten minutes before it is tried again.
fn wait_open(town: &Town, chats: &[Chat]) -> Vec<String> {
    let open = || {
        let mut left = town.world.open();
        left.extend(chats.iter().flat_map(Chat::open));
        left
    };
    let mut left = Vec::new();
    for look in 0..4 {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            left = open();
            if left.is_empty() {
                return left;
            }
            if Instant::now() > deadline {
                break;
            }
            thread::sleep(Duration::from_millis(200));
        }
        println!("look {look}: {left:?}");
        let mut clock = town.clock.lock().expect("no panic");
        clock.later(Duration::from_secs(601));
    }
    left
}

fn report(town: &Town, chats: &[Chat; 3], deaths: usize, processes: [&Process; 3]) {
    let told = town.world.verdict(&DOORS);
    let mut wrong = town.world.take_wrong();
    println!("{deaths} kills of the daemon; {told}");
    for (chat, process) in chats.iter().zip(processes) {
        // Mails of different threads need not arrive in the order in which they were sent.
        let (marked, given_up, more) = chat.verdict(chat.name != "mailed");
        let said = chat.said.lock().expect("no panic").len();
        println!(
            "{}: {} kills, {said} messages, {marked} copies marked, {given_up} given up",
            chat.name,
            process.kills()
        );
        if said < 3 || process.kills() == 0 {
            wrong.push(format!("{}: this run proved too little", chat.name));
        }
        wrong.extend(more);
    }
    if wrong.iter().any(|why| why.contains("lost")) {
        for process in processes {
            println!("{}", process.said().1);
        }
    }
    assert_eq!(wrong, [] as [String; 0], "seed {}", town.seed);
}
