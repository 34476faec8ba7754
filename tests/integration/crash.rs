//! The daemon is killed, at random and at chosen moments: what it accepted is answered, what it said is not
//! said twice without a mark, and what a tool did is not done again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rusqlite::types::Value as Sql;
use serde_json::{Value, json};

use crate::support::{
    Clock, Daemon, FakeModel, FakeTelegram, Forgets, OnDrop, Reply, Sandbox, Sent, wait_for, wanted,
};

/// Long against everything that happens here, short against the patience of a reader.
const SOON: Duration = Duration::from_secs(20);
/// Stands before a message that may have arrived already.
pub(crate) const RESENT: &str = "(resent)";
/// What the model is told of a command that a crash interrupted.
pub(crate) const MAYBE: &str = "may or may not have happened";
/// What the person reads when a turn died too often.
pub(crate) const GAVE_UP: &str = "gave it up";
/// So many deaths of a turn alone, this far apart, are more than ten minutes.
pub(crate) const DEATHS: usize = 6;
pub(crate) const BETWEEN: Duration = Duration::from_secs(130);

// ------------------------------------------------------------------ random moments, under load

/// Kills of the run at random moments, and cuts of the power, unless `KILLS` says otherwise.
const KILLS: usize = 200;
const CUTS: usize = 100;
/// Chats that write all the time; the first is the owner's.
const CHATS: [i64; 4] = [1001, 1002, 1003, 1004];
/// Names under which scripts write all the time.
const SCRIPTS: [&str; 2] = ["cron", "backup"];
/// Unanswered inputs of a chat or script at which it waits.
const IMPATIENCE: usize = 2;

#[test]
fn two_hundred_kills_at_random_moments_lose_nothing_and_double_only_what_is_marked() {
    survives(KILLS, false);
}

/// What was not synced is gone after each, or a part of it is.
#[test]
fn a_hundred_power_cuts_at_random_moments_lose_nothing_and_double_only_what_is_marked() {
    survives(CUTS, true);
}

/// Ends the daemon `deaths` times under load, by a kill or by a power cut, and looks at what is left.
#[allow(clippy::print_stdout, reason = "a run says what it did")]
fn survives(deaths: usize, by_power: bool) {
    let deaths = wanted("KILLS").map_or(deaths, |kills: u64| {
        usize::try_from(kills).expect("a number of kills")
    });
    let seed = wanted("KILLS_SEED").unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0);
    println!("seed {seed}");
    let telegram = FakeTelegram::start();
    let model = FakeModel::start();
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        // Nothing is summed up however long it takes: the fake would obey the old words in a summary once more.
        .provider_config("mock", "[models.primary]\ncontext_window = 100000000")
        .config(
            "[telegram]\nallow_from = [1001, 1002, 1003, 1004]\n[agent]\nmax_concurrent_runs = 3",
        );
    let (mut sandbox, mut clock) = sandbox.with_clock();
    let mut power = None;
    if by_power {
        let (cut, with) = sandbox.with_power();
        (power, sandbox) = (Some(cut), with);
    }
    let load = Load {
        sandbox: &sandbox,
        telegram: &telegram,
        said: Mutex::default(),
        over: AtomicBool::new(false),
        writes: RwLock::default(),
    };

    let started = Instant::now();
    let mut kills = Kills::default();
    thread::scope(|scope| {
        scope.spawn(|| load.chat(Random(seed ^ 1)));
        for (number, script) in (2..).zip(SCRIPTS) {
            let load = &load;
            scope.spawn(move || load.script(script, Random(seed ^ number)));
        }
        // Ends the load also when a kill panics, or the scope would wait for ever.
        let _over = OnDrop(|| load.over.store(true, Ordering::Relaxed));
        let mut random = Random(seed);
        for _ in 0..deaths {
            let mut daemon = sandbox.daemon();
            let_live(load.telegram, &mut daemon, &mut random);
            daemon.kill9();
            if let Some(power) = &power {
                let _nobody = load.writes.write().expect("nobody panics with it");
                kills.forgotten += power.cut(Forgets::choose(random.below(1000)));
            }
            kills.note(&sandbox);
        }
    });
    let killed = started.elapsed();

    // What died with the daemon several times rests up to ten minutes before it is tried again.
    clock.later(Duration::from_secs(601));
    let daemon = sandbox.ready();
    wait_for("everything to be handled", Duration::from_secs(60), || {
        load.is_worked_off().then_some(())
    });
    let leaks = sandbox.leaks(&daemon, &telegram, &[]);
    assert_eq!(leaks, [] as [String; 0], "seed {seed}");
    assert_eq!(daemon.term(), 0);
    let verdict = Verdict::of(&load, &kills);
    println!("{} in {killed:.1?}", verdict.summary(&kills));
    assert_eq!(verdict.wrong, [] as [String; 0], "seed {seed}");
    assert!(
        !kills.sending.is_empty(),
        "no kill fell into a send: this run proved too little"
    );
    assert_eq!(kills.forgotten > deaths, by_power, "what was forgotten");
}

/// What was written to the agent while it was killed again and again.
struct Load<'a> {
    sandbox: &'a Sandbox,
    telegram: &'a FakeTelegram,
    said: Mutex<Vec<Said>>,
    over: AtomicBool,
    /// Held by whoever runs a program, so that none writes while the power is cut.
    writes: RwLock<()>,
}

#[derive(Clone, Debug)]
struct Said {
    /// A word that stands in no other input: `m00042`; of a command also its id.
    marker: String,
    kind: Kind,
    /// The chat and the message's id there; `None` for a command.
    place: Option<(i64, i64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Answered with the marker.
    Plain,
    /// Answered in two messages, `<marker>.1` and `<marker>.2`.
    Long,
    /// A file is read.
    Read,
    /// The marker is appended to `ran.log` by a command.
    Exec,
}

/// Returns at the random moment at which the daemon is to die: while it starts, some time after, or when
/// it got some work done, however slow the machine.
pub(crate) fn let_live(telegram: &FakeTelegram, daemon: &mut Daemon, random: &mut Random) {
    let choice = random.below(5);
    if choice > 0 {
        daemon.wait_ready();
    }
    if choice > 2 {
        let enough = telegram.sent().len() + usize::try_from(1 + random.below(5)).expect("small");
        let deadline = Instant::now() + Duration::from_secs(1);
        while telegram.sent().len() < enough && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
    }
    let limit = [80, 300, 300, 40, 40][usize::try_from(choice).expect("small")];
    thread::sleep(Duration::from_millis(random.below(limit)));
}

impl Load<'_> {
    fn chat(&self, mut random: Random) {
        let mut mine: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
        for number in 0.. {
            thread::sleep(Duration::from_millis(random.below(12)));
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            let chat = CHATS[usize::try_from(random.below(4)).expect("small")];
            let answered: BTreeSet<(i64, i64)> = self
                .telegram
                .sent()
                .iter()
                .filter_map(|sent| Some((sent.chat, sent.reply_to?)))
                .collect();
            let mine = mine.entry(chat).or_default();
            mine.retain(|place| !answered.contains(place));
            if mine.len() >= IMPATIENCE {
                continue;
            }
            let marker = format!("m{number:05}");
            let kind = Kind::choose(&mut random, chat == CHATS[0]);
            let (_, message_id) = self
                .telegram
                .say(chat, chat, &kind.text(&marker, &mut random));
            mine.push((chat, message_id));
            self.note(Said {
                marker,
                kind,
                place: Some((chat, message_id)),
            });
        }
    }

    fn script(&self, name: &str, mut random: Random) {
        let mut mine: Vec<String> = Vec::new();
        for number in 0.. {
            thread::sleep(Duration::from_millis(random.below(60)));
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            mine.retain(|id| self.answer(id).is_none());
            if mine.len() >= IMPATIENCE {
                continue;
            }
            let marker = format!("{name}{number:05}");
            let kind = Kind::choose(&mut random, true);
            let _writes = self.writes.read().expect("nobody panics with it");
            let sent = self.sandbox.send(&[
                "--id",
                &marker,
                "--from",
                name,
                &kind.text(&marker, &mut random),
            ]);
            assert!(
                sent.code == 0 || sent.code == 75,
                "agent-send neither handed it over nor queued it: {sent:?}"
            );
            mine.push(marker.clone());
            self.note(Said {
                marker,
                kind,
                place: None,
            });
        }
    }

    fn note(&self, said: Said) {
        self.said.lock().expect("nobody panics with it").push(said);
    }

    fn said(&self) -> Vec<Said> {
        self.said.lock().expect("nobody panics with it").clone()
    }

    /// Returns the final answer to a command.
    fn answer(&self, id: &str) -> Option<Value> {
        let reply = self.sandbox.read(&format!("state/replies/{id}.json"))?;
        // A power cut may leave an empty file, which the next start replaces.
        let reply: Value = serde_json::from_str(&reply).ok()?;
        (reply["status"] == "done" || reply["status"] == "error").then_some(reply)
    }

    fn is_worked_off(&self) -> bool {
        let waiting = std::fs::read_dir(self.sandbox.path("state/spool/new"))
            .expect("the spool is there")
            .count();
        let open = "SELECT (SELECT count(*) FROM inbox WHERE state IN ('pending', 'running'))
             + (SELECT count(*) FROM outbox WHERE state IN ('pending', 'sending', 'unknown'))";
        waiting == 0 && self.telegram.pending_updates() == 0 && count(self.sandbox, open) == 0
    }
}

impl Kind {
    fn choose(random: &mut Random, owner: bool) -> Self {
        match random.below(10) {
            0 => Kind::Long,
            1 if owner => Kind::Read,
            2 | 3 if owner => Kind::Exec,
            _ => Kind::Plain,
        }
    }

    fn text(self, marker: &str, random: &mut Random) -> String {
        let sleep = random.below(30);
        match self {
            Kind::Plain => format!("{marker} [[sleep {sleep}]]"),
            Kind::Long => format!(
                "[[say {marker}.1 {}\n\n{marker}.2 {}]]",
                "one ".repeat(800),
                "two ".repeat(800)
            ),
            Kind::Read => {
                format!("{marker} [[sleep {sleep}]] [[tool read {{\"path\": \"{marker}\"}}]]")
            }
            Kind::Exec => {
                let call = json!({"command": format!("echo {marker} | tee -a ran.log")});
                format!("[[sleep {sleep}]] [[tool exec {call}]]")
            }
        }
    }
}

/// What stood in the queue when the daemon was dead.
#[derive(Default)]
struct Kills {
    count: usize,
    /// Changes of files that power cuts took back.
    forgotten: usize,
    /// Sends (outbox row, attempt) that a kill found between `sending` and `sent`. A daemon that is killed
    /// before it looked at the queue leaves the same ones to the next kill.
    sending: BTreeSet<(i64, i64)>,
}

impl Kills {
    fn note(&mut self, sandbox: &Sandbox) {
        self.count += 1;
        if sandbox.path("state/queue.db").exists()
            && count(
                sandbox,
                "SELECT count(*) FROM sqlite_schema WHERE name = 'outbox'",
            ) == 1
        {
            let rows = sandbox.query(
                "queue",
                "SELECT id, attempts FROM outbox WHERE state = 'sending'",
            );
            self.sending
                .extend(rows.iter().map(|row| (int(&row[0]), int(&row[1]))));
        }
    }
}

/// What became of it all.
#[derive(Default)]
struct Verdict {
    said: usize,
    answered: usize,
    resent: usize,
    dead: usize,
    interrupted: usize,
    buried: usize,
    wrong: Vec<String>,
}

impl Verdict {
    fn of(load: &Load<'_>, kills: &Kills) -> Self {
        let said = load.said();
        let mut verdict = Verdict {
            said: said.len(),
            ..Verdict::default()
        };
        let copies = verdict.copies(load, &said);
        verdict.inputs(load, &said, &copies);
        verdict.marks(load, kills, &copies);
        verdict.order(load);
        verdict.stores(load);
        verdict
    }

    /// The databases are whole, and the audit log is a chain.
    fn stores(&mut self, load: &Load<'_>) {
        for name in ["queue", "cost", "memory", "index"] {
            if load.sandbox.path(&format!("state/{name}.db")).exists() {
                let found = load.sandbox.query(name, "PRAGMA integrity_check");
                if found != [[Sql::Text("ok".to_owned())]] {
                    self.wrong(format!("{name}.db: {found:?}"));
                }
            }
        }
        let told = load.sandbox.send(&["--log", "--verify"]);
        if told.code != 0 {
            self.wrong(format!("the audit log: {told:?}"));
        }
    }

    fn summary(&self, kills: &Kills) -> String {
        let Self {
            said,
            answered,
            resent,
            dead,
            interrupted,
            buried,
            ..
        } = self;
        let sending = kills.sending.len();
        format!(
            "kills {}, changes forgotten {}, said {said}, answered {answered}, resent {resent}, sending at a kill {sending}, \
             tools interrupted {interrupted}, dead {dead}, sends given up {buried}",
            kills.count, kills.forgotten
        )
    }

    fn wrong(&mut self, what: String) {
        self.wrong.push(what);
    }

    /// Returns what each part of an answer in Telegram looked like each time it came.
    fn copies(&mut self, load: &Load<'_>, said: &[Said]) -> BTreeMap<String, Vec<Sent>> {
        let by_place: BTreeMap<_, _> = said
            .iter()
            .filter_map(|said| Some((said.place?, said)))
            .collect();
        let mut copies: BTreeMap<String, Vec<Sent>> = BTreeMap::new();
        for sent in load.telegram.sent() {
            let question = sent.reply_to.and_then(|id| by_place.get(&(sent.chat, id)));
            let is_part = |word: &&str| {
                word.split_once('.')
                    .is_some_and(|(marker, part)| is_marker(marker) && !part.is_empty())
            };
            // Who was given up is told with the words of the question.
            let gave_up = sent.text.contains(GAVE_UP);
            let part = sent.text.split_whitespace().find(is_part);
            let part = part.filter(|_| !gave_up);
            let key = match (part, question) {
                (Some(part), _) => part.to_owned(),
                (None, Some(question)) => question.marker.clone(),
                (None, None) if sent.text.contains("may not have reached you") => continue,
                (None, None) => {
                    self.wrong(format!("a message that answers nothing: {sent:?}"));
                    continue;
                }
            };
            copies.entry(key).or_default().push(sent);
        }
        copies
    }

    /// Every input was handled, once.
    fn inputs(&mut self, load: &Load<'_>, said: &[Said], copies: &BTreeMap<String, Vec<Sent>>) {
        let sql = "SELECT envelope, state, attempts FROM inbox";
        let mut rows: BTreeMap<String, Vec<(String, i64)>> = BTreeMap::new();
        for row in load.sandbox.query("queue", sql) {
            let marker = words(&text(&row[0]))
                .find(|word| is_marker(word))
                .unwrap_or_default()
                .to_owned();
            rows.entry(marker)
                .or_default()
                .push((text(&row[1]), int(&row[2])));
        }
        let ran = load.sandbox.read("workspace/ran.log").unwrap_or_default();
        for said in said {
            let marker = &said.marker;
            let (state, attempts) = match rows.get(marker).map(Vec::as_slice) {
                Some([row]) => row.clone(),
                Some(rows) => {
                    return self.wrong(format!("{marker} was accepted {} times", rows.len()));
                }
                None => {
                    self.wrong(format!(
                        "{marker} was lost before it was accepted: {said:?}"
                    ));
                    continue;
                }
            };
            let keys = match said.kind {
                Kind::Long if state != "dead" && said.place.is_some() => {
                    vec![format!("{marker}.1"), format!("{marker}.2")]
                }
                _ => vec![marker.clone()],
            };
            let answer = match said.place {
                Some(_) => keys
                    .iter()
                    .map(|key| self.once(key, copies.get(key)))
                    .collect::<Vec<_>>()
                    .join("\n"),
                None => match load.answer(marker) {
                    Some(reply) => reply["reply"]
                        .as_str()
                        .or(reply["error"].as_str())
                        .unwrap_or_default()
                        .to_owned(),
                    None => {
                        self.wrong(format!("{marker} was never answered"));
                        continue;
                    }
                },
            };
            self.answered += 1;
            let runs = ran.lines().filter(|line| *line == marker).count();
            if runs > 1 {
                self.wrong(format!("the command of {marker} ran {runs} times"));
            }
            let interrupted =
                matches!(said.kind, Kind::Read | Kind::Exec) && answer.contains(MAYBE);
            self.interrupted += usize::from(interrupted);
            if state == "dead" {
                self.dead += 1;
                if attempts < 6 || !answer.contains(GAVE_UP) {
                    self.wrong(format!(
                        "{marker} is dead after {attempts} attempts and was told {answer:?}"
                    ));
                }
                continue;
            }
            let right = match said.kind {
                Kind::Plain | Kind::Long | Kind::Read => {
                    interrupted || answer.contains(marker.as_str())
                }
                Kind::Exec => interrupted || (answer.contains(marker.as_str()) && runs == 1),
            };
            if !right {
                self.wrong(format!("{marker} ({state}, {attempts} attempts, ran {runs} times) was answered {answer:?}"));
            }
        }
    }

    /// Returns the words of a part that came; more than one unmarked copy is wrong.
    fn once(&mut self, key: &str, copies: Option<&Vec<Sent>>) -> String {
        let copies = copies.map(Vec::as_slice).unwrap_or_default();
        let unmarked = copies
            .iter()
            .filter(|sent| !sent.text.starts_with(RESENT))
            .count();
        match (unmarked, copies) {
            (_, []) => {
                self.wrong(format!("{key} was never sent"));
                String::new()
            }
            (2.., _) => {
                self.wrong(format!("{key} was sent {unmarked} times without a mark"));
                String::new()
            }
            (_, [first, ..]) => first.text.clone(),
        }
    }

    /// A mark stands where, and only where, a kill fell into the send.
    fn marks(&mut self, load: &Load<'_>, kills: &Kills, copies: &BTreeMap<String, Vec<Sent>>) {
        let marked = |sent: &&Sent| sent.text.starts_with(RESENT);
        self.resent = copies.values().flatten().filter(marked).count();
        let sql = "SELECT o.id, o.unknowns, o.state, o.part, o.parts, i.envelope FROM outbox o JOIN inbox i ON i.id = o.inbox_id";
        for row in load.sandbox.query("queue", sql) {
            let killed = kills
                .sending
                .iter()
                .filter(|(id, _)| *id == int(&row[0]))
                .count();
            let envelope = text(&row[5]);
            let marker = words(&envelope)
                .find(|word| is_marker(word))
                .unwrap_or_default();
            let key = if int(&row[4]) > 1 {
                format!("{marker}.{}", int(&row[3]))
            } else {
                marker.to_owned()
            };
            let came = copies
                .get(&key)
                .into_iter()
                .flatten()
                .filter(marked)
                .count();
            // Three kills in one and the same send: nobody can say whether it came, and the chat is told so.
            let buried = text(&row[2]) == "dead" && killed >= 3;
            // A second kill in the same send may come before or after its marked copy left; of one that is buried each may have come before.
            let expected = usize::from(killed > 0 && !buried)..=killed;
            self.buried += usize::from(buried);
            let is_settled = text(&row[2]) == "sent" || buried;
            if int(&row[1]) != i64::try_from(killed).expect("small")
                || !is_settled
                || !expected.contains(&came)
            {
                self.wrong(format!(
                    "{key}: {killed} kills fell into its send, {came} marked copies came; its row says {} with {} unknowns",
                    text(&row[2]),
                    int(&row[1])
                ));
            }
        }
    }

    /// What was said first is answered first: in a chat, and in a session.
    fn order(&mut self, load: &Load<'_>) {
        for chat in CHATS {
            let mut answered: Vec<i64> = load
                .telegram
                .sent()
                .iter()
                .filter(|sent| sent.chat == chat)
                .filter_map(|sent| sent.reply_to)
                .collect();
            let mut seen = BTreeSet::new();
            answered.retain(|id| seen.insert(*id));
            if !answered.is_sorted() {
                self.wrong(format!(
                    "chat {chat} was answered out of order: {answered:?}"
                ));
            }
        }
        let sql = "SELECT count(*) FROM inbox a JOIN inbox b ON b.session_key = a.session_key
             WHERE b.seq > a.seq AND b.finished_at < a.finished_at";
        match count(load.sandbox, sql) {
            0 => {}
            pairs => self.wrong(format!(
                "{pairs} pairs of inputs of one session ended out of order"
            )),
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric())
}

fn is_marker(word: &str) -> bool {
    let digits = word.trim_start_matches(|letter: char| letter.is_ascii_lowercase());
    digits.len() >= 5
        && digits.len() < word.len()
        && digits.bytes().all(|digit| digit.is_ascii_digit())
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, and good enough to choose moments.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }
}

// ------------------------------------------------------------------ chosen moments

/// A chat, a model and the home between them.
struct House {
    telegram: FakeTelegram,
    model: FakeModel,
    sandbox: Sandbox,
}

impl House {
    fn new() -> Self {
        let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
        let sandbox = Sandbox::new()
            .with_telegram(&telegram)
            .with_anthropic(&model);
        Self {
            telegram,
            model,
            sandbox,
        }
    }

    fn with_clock() -> (Self, Clock) {
        let house = Self::new();
        let (sandbox, clock) = house.sandbox.with_clock();
        (Self { sandbox, ..house }, clock)
    }

    fn daemon(&self) -> Daemon {
        self.sandbox.ready()
    }

    /// Lets the time pass for which a turn rests after its death, which the next start notes: the first two it does
    /// not rest, nor when it is given up.
    fn rests(&self, death: usize, goes_on: bool, clock: &mut Clock) {
        clock.later(BETWEEN);
        if death > 2 && goes_on {
            self.kill(self.daemon());
            clock.later(Duration::from_secs(600));
        }
    }

    fn say(&self, text: &str) -> i64 {
        self.telegram.say(1001, 1001, text).1
    }

    /// Kills it; nothing may be on its way out at that moment.
    fn kill(&self, daemon: Daemon) {
        daemon.kill9();
        assert_eq!(
            count(
                &self.sandbox,
                "SELECT count(*) FROM outbox WHERE state = 'sending'"
            ),
            0,
            "the kill came too late"
        );
    }

    /// Returns the answer to a message, once the daemon has nothing more to do, when it came once.
    fn only_answer(&self, message_id: i64) -> String {
        self.telegram
            .wait_sent(|sent| sent.reply_to == Some(message_id), SOON);
        let open = "SELECT (SELECT count(*) FROM inbox WHERE state IN ('pending', 'running'))
             + (SELECT count(*) FROM outbox WHERE state IN ('pending', 'sending', 'unknown'))";
        wait_for("an empty queue", SOON, || {
            (count(&self.sandbox, open) == 0).then_some(())
        });
        let answers: Vec<Sent> = self
            .telegram
            .sent()
            .into_iter()
            .filter(|sent| sent.reply_to == Some(message_id))
            .collect();
        assert_eq!(answers.len(), 1, "{answers:#?}");
        assert!(!answers[0].text.starts_with(RESENT), "{answers:#?}");
        answers[0].text.clone()
    }

    fn ran(&self) -> String {
        self.sandbox.read("workspace/ran.log").unwrap_or_default()
    }
}

#[test]
fn kills_outside_a_send_double_nothing_and_mark_nothing() {
    let house = House::new();
    let mut daemon = house.daemon();
    for round in 0..5 {
        // Just accepted: its turn has hardly begun.
        let before = count(&house.sandbox, "SELECT count(*) FROM inbox");
        let id = house.say(&format!("accepted {round} [[sleep 400]]"));
        wait_for("the row", SOON, || {
            (count(&house.sandbox, "SELECT count(*) FROM inbox") > before).then_some(())
        });
        house.kill(daemon);
        daemon = house.daemon();
        assert_eq!(
            house.only_answer(id),
            format!("echo: accepted {round} [[sleep 400]]")
        );

        // While the model thinks.
        let asked = house.model.requests().len();
        let id = house.say(&format!("thinking {round} [[sleep 400]]"));
        house.model.wait_requests(asked + 1, SOON);
        house.kill(daemon);
        daemon = house.daemon();
        assert_eq!(
            house.only_answer(id),
            format!("echo: thinking {round} [[sleep 400]]")
        );

        // While a command runs.
        let ran = house.ran().len();
        let call = json!({"command": format!("echo {round} >> ran.log; sleep 20")});
        let id = house.say(&format!("[[tool exec {call}]]"));
        wait_for("the command", SOON, || {
            (house.ran().len() > ran).then_some(())
        });
        house.kill(daemon);
        daemon = house.daemon();
        assert!(house.only_answer(id).contains(MAYBE));
    }
    assert_eq!(house.ran(), "0\n1\n2\n3\n4\n");
    assert!(
        house
            .telegram
            .sent()
            .iter()
            .all(|sent| !sent.text.contains(RESENT))
    );
    assert_eq!(
        count(
            &house.sandbox,
            "SELECT count(*) FROM outbox WHERE unknowns > 0 OR state != 'sent'"
        ),
        0
    );
}

#[test]
fn a_command_that_a_kill_interrupted_is_reported_and_not_run_again() {
    let house = House::new();
    let daemon = house.daemon();
    let call = json!({"command": "echo once >> ran.log; sleep 20; echo twice >> ran.log"});
    let id = house.say(&format!("[[tool exec {call}]]"));
    wait_for("the command", SOON, || {
        (!house.ran().is_empty()).then_some(())
    });
    house.kill(daemon);

    let _daemon = house.daemon();
    assert!(house.only_answer(id).contains(MAYBE));
    assert_eq!(house.ran(), "once\n");
    let requests = house.model.requests();
    assert_eq!(requests.len(), 2, "{requests:#?}");
    let results = results(&requests[1]);
    assert_eq!(results.len(), 1, "{results:#?}");
    assert_eq!(results[0]["is_error"], true);
    assert!(results[0].to_string().contains(MAYBE), "{results:#?}");
}

#[test]
fn a_command_that_ended_before_the_kill_is_not_run_again() {
    let house = House::new();
    let daemon = house.daemon();
    house.model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": "echo once | tee -a ran.log"}),
    ));
    house.model.push(Reply::Hang);
    let id = house.say("do it");
    house.model.wait_requests(2, SOON);
    house.kill(daemon);

    let _daemon = house.daemon();
    assert_eq!(house.only_answer(id), "result: once");
    assert_eq!(house.ran(), "once\n");
    let requests = house.model.requests();
    assert_eq!(requests.len(), 3);
    assert_eq!(
        requests[2]["messages"], requests[1]["messages"],
        "the turn goes on with what it had"
    );
}

#[test]
fn an_answer_that_stands_in_the_transcript_is_sent_without_asking_the_model_again() {
    for with_snapshot in [true, false] {
        let house = House::new();
        let daemon = house.daemon();
        let first = house.say("what is it?");
        assert_eq!(house.only_answer(first), "echo: what is it?");
        assert_eq!(daemon.term(), 0);
        // The moment between the last line of the transcript and the end of the turn in the queue.
        let queue = rusqlite::Connection::open(house.sandbox.path("state/queue.db"))
            .expect("the queue opens");
        queue
            .execute_batch(
                "DELETE FROM outbox;
                 UPDATE inbox SET state = 'running', finished_at = NULL, result = NULL;",
            )
            .expect("the queue is ours");
        drop(queue);
        if !with_snapshot {
            for entry in std::fs::read_dir(house.sandbox.path("state/sessions"))
                .expect("there is a session")
                .flatten()
            {
                if entry.file_name().to_string_lossy().ends_with(".state.json") {
                    std::fs::remove_file(entry.path()).expect("the sandbox is writable");
                }
            }
        }

        let _daemon = house.daemon();
        wait_for("the answer once more", SOON, || {
            (house.telegram.sent().len() == 2).then_some(())
        });
        let sent = house.telegram.sent();
        assert_eq!(
            (sent[1].text.as_str(), sent[1].reply_to),
            ("echo: what is it?", Some(first))
        );
        assert_eq!(
            house.model.requests().len(),
            1,
            "with snapshot: {with_snapshot}"
        );
        let next = house.say("go on");
        assert_eq!(house.only_answer(next), "echo: go on");
        let asked = house.model.requests();
        let roles: Vec<&Value> = asked[1]["messages"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|message| &message["role"])
            .collect();
        assert_eq!(
            roles,
            ["user", "assistant", "user"],
            "the transcript has the turn once"
        );
    }
}

#[test]
fn a_turn_that_was_given_up_after_its_tools_ran_is_closed_for_the_model() {
    let (house, mut clock) = House::with_clock();
    house.model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": "echo once | tee -a ran.log"}),
    ));
    for _ in 0..DEATHS {
        house.model.push(Reply::Hang);
    }
    let id = house.say("do it");
    for death in 1..=DEATHS {
        let daemon = house.daemon();
        house.model.wait_requests(1 + death, SOON);
        house.kill(daemon);
        house.rests(death, death < DEATHS, &mut clock);
    }
    let _daemon = house.daemon();
    assert!(house.only_answer(id).contains(GAVE_UP));
    let next = house.say("and now?");
    assert_eq!(
        house.only_answer(next),
        "echo: and now?",
        "the old result is not taken for a part of the new question"
    );
    assert_eq!(house.ran(), "once\n");
}

#[test]
fn a_turn_that_died_alone_for_ten_minutes_is_given_up_and_its_people_are_told() {
    let (house, mut clock) = House::with_clock();
    for _ in 0..DEATHS {
        house.model.push(Reply::Hang);
    }
    let id = house.say("poison");
    for death in 1..=DEATHS {
        let daemon = house.daemon();
        house.model.wait_requests(death, SOON);
        house.kill(daemon);
        house.rests(death, death < DEATHS, &mut clock);
    }

    let daemon = house.daemon();
    let told = house.only_answer(id);
    assert!(told.contains(GAVE_UP) && told.contains("poison"), "{told}");
    assert_eq!(
        house.model.requests().len(),
        DEATHS,
        "it is not tried again"
    );
    let rows = house.sandbox.query(
        "queue",
        "SELECT state, attempts, reason IS NOT NULL FROM inbox",
    );
    let deaths = i64::try_from(DEATHS).expect("few");
    let dead = vec![
        Sql::Text("dead".to_owned()),
        Sql::Integer(deaths),
        Sql::Integer(1),
    ];
    assert_eq!(rows, [dead]);
    assert_eq!(
        house.sandbox.send(&["--status", "--json"]).json()["queue"]["dead"],
        1
    );

    // Nothing of it stands in the way of the next message, and it does not come back.
    let next = house.say("still there?");
    assert_eq!(house.only_answer(next), "echo: still there?");
    let request = &house.model.requests()[DEATHS];
    assert!(
        !request.to_string().contains("poison"),
        "a question without an answer is no part of the next: {request:#}"
    );
    assert_eq!(daemon.term(), 0);
}

#[test]
fn turns_that_die_together_or_within_minutes_are_not_given_up() {
    let (house, mut clock) = House::with_clock();
    for _ in 0..2 * DEATHS + DEATHS {
        house.model.push(Reply::Hang);
    }
    // Two at once: nobody knows whose fault it is.
    let id = house.say("one");
    assert_eq!(house.sandbox.send(&["--id", "two", "two"]).code, 75);
    for death in 1..=DEATHS {
        let daemon = house.daemon();
        house.model.wait_requests(2 * death, SOON);
        house.kill(daemon);
        house.rests(death, true, &mut clock);
    }
    house.model.forget();
    let daemon = house.daemon();
    assert_eq!(house.only_answer(id), "echo: one");
    let reply = house.sandbox.send(&["--result", "two", "--wait=20"]);
    assert_eq!((reply.code, reply.stdout.as_str()), (0, "echo: two\n"));
    assert_eq!(daemon.term(), 0);
}

/// Returns the tool results in the last message of a request.
fn results(request: &Value) -> Vec<Value> {
    let last = request["messages"]
        .as_array()
        .and_then(|messages| messages.last())
        .expect("a request has messages");
    last["content"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|block| block["type"] == "tool_result")
        .cloned()
        .collect()
}

fn count(sandbox: &Sandbox, sql: &str) -> i64 {
    sandbox
        .query("queue", sql)
        .first()
        .map_or(0, |row| int(&row[0]))
}

fn int(value: &Sql) -> i64 {
    match value {
        Sql::Integer(number) => *number,
        other => panic!("a number was expected: {other:?}"),
    }
}

fn text(value: &Sql) -> String {
    match value {
        Sql::Text(text) => text.clone(),
        other => panic!("a text was expected: {other:?}"),
    }
}
