//! Everybody at once on one home while files change, and kills at random moments: nobody reads of a lock,
//! every answer is whole, and in the end the index says what one made from nothing says.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::types::Value as Sql;
use serde_json::{Value, json};

use super::rows::{self, Rows};
use super::{put, sync};
use crate::support::{FakeModel, OnDrop, Running, Sandbox};

/// How long they are at it.
const LONG: Duration = Duration::from_secs(10);
/// Files that come, change and go.
const FILES: u64 = 60;
/// Words they are made of; none has an ending to take off.
const WORDS: u64 = 40;
/// What is said of a lock or a busy database, in anybody's words.
const LOCKED: [&str; 4] = ["locked", "busy", "another process", "could not be used"];

/// Xorshift64: a seed gives the same moments again, nearly.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn millis(&mut self, limit: u64) -> Duration {
        Duration::from_millis(self.below(limit))
    }
}

fn word(number: u64) -> String {
    format!("b{number}")
}

/// A word that stands in one file only.
fn own_word(file: u64) -> String {
    format!("m{file}")
}

/// A name, or a town, of letters alone: one of a line that states a fact.
fn name(begin: &str, number: u64) -> String {
    let letters =
        [number / 26, number % 26].map(|at| char::from(b'a' + u8::try_from(at).expect("small")));
    format!("{begin}{}{}", letters[0], letters[1])
}

/// What they do to one home, and what went wrong.
struct House<'a> {
    sandbox: &'a Sandbox,
    over: AtomicBool,
    wrong: Mutex<Vec<String>>,
    kills: AtomicUsize,
    answers: AtomicUsize,
}

impl House<'_> {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    fn wrong(&self, what: String) {
        self.wrong.lock().expect("nobody panics with it").push(what);
    }

    /// Lets `program` live for at most `most`, then kills it; true when it ended by itself before.
    fn let_live(&self, program: &mut Running, most: Duration) -> bool {
        let until = Instant::now() + most;
        while Instant::now() < until {
            if program.has_ended() {
                return true;
            }
            thread::sleep(Duration::from_millis(1));
        }
        program.kill9();
        self.kills.fetch_add(1, Ordering::Relaxed);
        false
    }

    /// Indexes again and again; every third run is killed.
    fn index(&self, verbs: &[&str], mut random: Random) {
        while self.goes_on() {
            let verb = verbs[usize::try_from(random.below(verbs.len() as u64)).expect("small")];
            let mut program = self.sandbox.starting("agent-index", &[verb]);
            let patience = if random.below(3) == 0 {
                random.millis(60)
            } else {
                Duration::from_secs(30)
            };
            let ended = self.let_live(&mut program, patience);
            let told = program.end();
            if !told.stderr.is_empty() || !told.stdout.is_empty() || (ended && told.code != 0) {
                self.wrong(format!("agent-index {verb}: {told:?}"));
            }
        }
    }

    /// Draws facts again and again; every third run is killed.
    fn consolidate(&self, mut random: Random) {
        while self.goes_on() {
            let mut program = self.sandbox.starting("agent-consolidate", &[]);
            let patience = if random.below(3) == 0 {
                random.millis(60)
            } else {
                Duration::from_secs(30)
            };
            let ended = self.let_live(&mut program, patience);
            let told = program.end();
            if !told.stderr.is_empty() || (ended && told.code != 0) {
                self.wrong(format!("agent-consolidate: {told:?}"));
            }
            thread::sleep(random.millis(200));
        }
    }

    /// Asks again and again, and looks at every line that was said to its end.
    fn ask(&self, mut random: Random) {
        while self.goes_on() {
            let mut program = self.sandbox.starting("agent-index", &["batch"]);
            let count = 1 + random.below(60);
            for id in 0..count {
                program.write(&format!(
                    "{}\n",
                    json!({"id": id, "query": format!("{} {}", word(random.below(WORDS)), own_word(id)), "k": 20})
                ));
                thread::sleep(random.millis(8));
            }
            let is_killed = random.below(3) == 0;
            if is_killed {
                program.kill9();
                self.kills.fetch_add(1, Ordering::Relaxed);
            }
            let told = program.end();
            let whole = told
                .stdout
                .rfind('\n')
                .map_or("", |end| told.stdout.split_at(end).0);
            for (id, line) in (0_u64..).zip(whole.lines()) {
                match serde_json::from_str::<Value>(line) {
                    Ok(answer) if answer["id"] == id && answer["results"].is_array() => {
                        self.answers.fetch_add(
                            answer["results"].as_array().map_or(0, Vec::len).min(1),
                            Ordering::Relaxed,
                        );
                    }
                    _ => self.wrong(format!("an answer: {line}")),
                }
            }
            let is_all = whole.lines().count() as u64 == count;
            if !told.stderr.is_empty() || (!is_killed && (told.code, is_all) != (0, true)) {
                self.wrong(format!("agent-index batch: {} {}", told.code, told.stderr));
            }
        }
    }

    /// Brings it up to date at each start, in its own process.
    fn serve(&self, mut random: Random) {
        while self.goes_on() {
            let mut daemon = self.sandbox.daemon();
            if random.below(3) > 0 {
                daemon.wait_ready();
            }
            thread::sleep(random.millis(400));
            daemon.kill9();
            self.kills.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes files and takes them away, one at a time and directories of them.
    fn change(&self, mut random: Random) {
        while self.goes_on() {
            let file = random.below(FILES);
            let below = format!("workspace/memory/d{}/f{file}.md", file % 5);
            let dir = self
                .sandbox
                .path(&format!("workspace/memory/d{}", file % 5));
            let aside = self.sandbox.path("workspace/memory/aside");
            match random.below(20) {
                0..3 => drop(fs::remove_file(self.sandbox.path(&below))),
                3 if aside.exists() => drop(fs::remove_dir_all(&aside)),
                3 => drop(fs::rename(&dir, &aside)),
                _ => put(self.sandbox, &below, &text(file, &mut random)),
            }
            thread::sleep(random.millis(12));
        }
    }
}

fn text(file: u64, random: &mut Random) -> String {
    let lines = 1 + random.below(80);
    let line = |random: &mut Random| {
        (0..9)
            .map(|_| word(random.below(WORDS)))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let stated = format!(
        "{} lives in {}.\n\n",
        name("Mar", file),
        name("Ton", random.below(WORDS))
    );
    let said =
        (0..lines).map(|number| format!("Line {number} of {}: {}\n", own_word(file), line(random)));
    std::iter::once(stated).chain(said).collect()
}

#[test]
fn everybody_at_once_and_kills_leave_an_index_as_made_from_nothing() {
    let seed = uuid::Uuid::new_v4().as_u64_pair().0 | 1;
    println!("seed {seed:#018x}");
    let model = FakeModel::start();
    let sandbox = Sandbox::new().with_anthropic(&model);
    let mut random = Random(seed);
    for file in 0..FILES {
        put(
            &sandbox,
            &format!("workspace/memory/d{}/f{file}.md", file % 5),
            &text(file, &mut random),
        );
    }
    let house = House {
        sandbox: &sandbox,
        over: AtomicBool::new(false),
        wrong: Mutex::default(),
        kills: AtomicUsize::new(0),
        answers: AtomicUsize::new(0),
    };
    thread::scope(|scope| {
        // Ends the others also when one panics, or the scope would wait for ever.
        let _over = OnDrop(|| house.over.store(true, Ordering::Relaxed));
        let mut own = || Random(random.below(u64::MAX) | 1);
        let seeds = [own(), own(), own(), own(), own(), own()];
        let [first, second, third, fourth, fifth, sixth] = seeds;
        let house = &house;
        scope.spawn(move || house.index(&["sync"], first));
        // Seldom, or nothing would be left of what went wrong before.
        scope.spawn(move || {
            house.index(
                &[
                    "sync", "sync", "sync", "sync", "sync", "sync", "sync", "rebuild",
                ],
                second,
            )
        });
        scope.spawn(move || house.ask(third));
        scope.spawn(move || house.serve(fourth));
        scope.spawn(move || house.change(fifth));
        scope.spawn(move || house.consolidate(sixth));
        thread::sleep(LONG);
    });
    let log = fs::read_to_string(sandbox.path("../daemon.log")).unwrap_or_default();
    let said: Vec<&str> = log
        .lines()
        .filter(|line| LOCKED.iter().any(|word| line.contains(word)))
        .collect();
    assert_eq!(said, [] as [&str; 0], "seed {seed:#018x}");
    assert_eq!(
        house.wrong.into_inner().expect("nobody panicked"),
        [] as [String; 0],
        "seed {seed:#018x}"
    );
    let (kills, answers) = (house.kills.into_inner(), house.answers.into_inner());
    println!("{kills} kills, {answers} answers with something found");
    assert!(
        kills >= 10 && answers >= 20,
        "{kills} kills and {answers} answers prove too little"
    );

    assert_eq!(sandbox.run("agent-consolidate", &[], "").code, 0);
    sync(&sandbox);
    rows::check_whole(&sandbox);
    let facts = sandbox.query("index", "SELECT facts FROM totals");
    assert!(
        matches!(facts.as_slice(), [row] if matches!(row[..], [Sql::Integer(10..)])),
        "{facts:?} facts prove too little"
    );
    let words: Vec<String> = (0..WORDS).map(word).collect();
    let (lived, answers) = (Rows::of(&sandbox, &words), answers_to_all(&sandbox));
    for end in ["", "-wal", "-shm"] {
        // The log and its index are gone when nobody has the database open.
        let _ = fs::remove_file(sandbox.path(&format!("state/index.db{end}")));
    }
    sync(&sandbox);
    let (files, chunks, postings) = lived.counts();
    assert!(
        files > 10 && chunks > files && postings > 100,
        "{files} files, {chunks} chunks, {postings} postings"
    );
    assert_eq!(
        lived.difference(&Rows::of(&sandbox, &words)),
        None,
        "from nothing comes another index: seed {seed:#018x}"
    );
    assert_eq!(answers, answers_to_all(&sandbox), "seed {seed:#018x}");
}

/// Returns what is found of each file, by a word of its own: of many passages that are equally good others
/// may be found, once the rows have other numbers.
fn answers_to_all(sandbox: &Sandbox) -> Vec<Value> {
    let asked: String = (0..FILES)
        .map(|file| {
            format!(
                "{}\n",
                json!({"query": own_word(file), "k": 20, "strategy": "fts"})
            )
        })
        .collect();
    let told = sandbox.run("agent-index", &["batch"], &asked);
    assert_eq!((told.code, told.stderr.as_str()), (0, ""));
    told.stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .collect()
}
