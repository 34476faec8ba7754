//! The agent in Matrix: the real program between the real daemon and a real homeserver (Synapse), and people whose client
//! (matrix-nio) has an encryption of its own. `.ci/run` installs both into `target/ci-tools`.
#![allow(
    clippy::print_stdout,
    clippy::needless_pass_by_value,
    reason = "a test that is skipped says so, and writes its JSON where it is needed"
)]

mod attacks;
mod kills;

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::shipped_skills::free_port;
use crate::support::{Daemon, FakeModel, Output, Reply, Running, Sandbox, bin, wait_for};

/// A machine that builds beside is slow.
const SOON: Duration = Duration::from_secs(60);
pub(crate) const AGENT: &str = "@agent:home.test";
const ADA: &str = "[channels.matrix]\nenabled = true\nowner = [\"@ada:home.test\"]\n";

/// Returns the program that `scripts/check` builds; `None`, and says so, where it was not built.
pub(crate) fn program() -> Option<PathBuf> {
    let target = bin("agent-daemon");
    let target = target.ancestors().nth(2).expect("target/debug");
    let program = target.join("matrix/debug/agent-channel-matrix");
    missing(
        &program,
        "cargo build --manifest-path channels/matrix/Cargo.toml --target-dir target/matrix",
    )?;
    Some(program)
}

/// Returns where `.ci/run` installs something.
fn installed(name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target"),
        PathBuf::from,
    );
    target.join("ci-tools").join(name)
}

pub(crate) fn tools(name: &str) -> Option<PathBuf> {
    let place = installed(name);
    missing(&place, ".ci/run installs it")?;
    Some(place)
}

fn missing(path: &Path, hint: &str) -> Option<()> {
    if path.exists() {
        return Some(());
    }
    let what = format!("{} is not there ({hint})", path.display());
    assert!(std::env::var_os("CI").is_none(), "{what}");
    println!("skipped: {what}");
    None
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/integration/matrix")
        .join(name)
}

/// A homeserver.
pub(crate) struct Homeserver {
    place: tempfile::TempDir,
    port: u16,
    python: PathBuf,
    running: Option<Running>,
}

impl Homeserver {
    pub(crate) fn open() -> Option<Self> {
        let (python, place, port) = (
            tools("synapse")?,
            tempfile::tempdir().expect("dir"),
            free_port(),
        );
        let dir = place.path().display().to_string();
        let settings = std::fs::read_to_string(script("homeserver.yaml")).expect("settings");
        let settings = settings
            .replace("DIR", &dir)
            .replace("PORT", &port.to_string());
        super::channels::write(place.path().join("homeserver.yaml"), settings);
        let log = "version: 1\nhandlers: {err: {class: logging.StreamHandler}}\nroot: {level: ERROR, handlers: [err]}\n";
        super::channels::write(place.path().join("log.yaml"), log);
        let mut server = Self {
            place,
            port,
            python,
            running: None,
        };
        let made = Running::start(server.command().arg("--generate-keys")).end();
        assert_eq!(made.code, 0, "{made:?}");
        server.start();
        Some(server)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("python3");
        command
            .env("PYTHONPATH", &self.python)
            .args(["-m", "synapse.app.homeserver", "--config-path"])
            .arg(self.place.path().join("homeserver.yaml"));
        command
    }

    fn start(&mut self) {
        self.running = Some(Running::start(&mut self.command()));
        let address = ("127.0.0.1", self.port);
        wait_for("the homeserver", SOON, || {
            std::net::TcpStream::connect(address).ok()
        });
    }

    fn stop(&mut self) {
        self.running = None;
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// Somebody with a client of their own.
pub(crate) struct Person {
    process: Running,
    asked: Cell<usize>,
    /// How much of what it printed is read, and the lines of that.
    read: RefCell<(usize, Vec<Value>)>,
    _store: tempfile::TempDir,
}

impl Person {
    /// An account that is new, and not signed in yet.
    pub(crate) fn new(server: &Homeserver, name: &str) -> Self {
        let store = tempfile::tempdir().expect("dir");
        let mut command = Command::new("python3");
        command
            .env("PYTHONPATH", tools("nio").expect("nio lies beside synapse"))
            .arg(script("person.py"))
            .arg(server.url())
            .arg(format!("@{name}:home.test"))
            .arg(store.path());
        let person = Self {
            process: Running::start(&mut command),
            asked: Cell::new(0),
            read: RefCell::default(),
            _store: store,
        };
        person.does(json!({"do": "register", "user": name, "password": format!("pw-{name}")}));
        person
    }

    pub(crate) fn signed_in(server: &Homeserver, name: &str) -> Self {
        let person = Self::new(server, name);
        person.does(json!({"do": "login", "password": format!("pw-{name}")}));
        person
    }

    fn lines(&self) -> Vec<Value> {
        let (out, _) = self.process.said();
        let (read, lines) = &mut *self.read.borrow_mut();
        let whole = out.rfind('\n').map_or(0, |end| end + 1);
        let new = out.get(*read..whole).unwrap_or_default();
        lines.extend(
            new.lines()
                .filter_map(|line| serde_json::from_str(line).ok()),
        );
        *read = whole;
        lines.clone()
    }

    /// Does something and returns what came of it.
    fn does(&self, command: Value) -> Value {
        self.process.write(&format!("{command}\n"));
        let number = self.asked.get();
        self.asked.set(number + 1);
        let answer = wait_for("the client of a person", SOON, || {
            let is_answer =
                |line: &Value| line.get("answer").is_some() || line.get("error").is_some();
            self.lines()
                .into_iter()
                .filter(|line| line.get("event").is_none() && is_answer(line))
                .nth(number)
        });
        assert!(answer.get("error").is_none(), "{command}: {answer}");
        answer["answer"].clone()
    }

    /// Makes an encrypted room with `invited`.
    pub(crate) fn room(&self, is_direct: bool, invited: &[&str]) -> String {
        let made = self.does(json!({"do": "create", "encrypted": true, "direct": is_direct, "invite": invited, "name": null}));
        made["room"].as_str().expect("a room").to_owned()
    }

    /// Returns when the agent is in a room, and this client has its keys.
    pub(crate) fn wait_entered(&self, room: &str) {
        wait_for("the agent to enter", SOON, || {
            let there = self.does(json!({"do": "knows", "room": room, "user": AGENT}));
            (there["knows"] == true).then_some(())
        });
    }

    /// Says something in an encrypted room, and returns its id.
    pub(crate) fn says(&self, room: &str, text: &str) -> String {
        self.sends(room, json!({"msgtype": "m.text", "body": text}))
    }

    fn sends(&self, room: &str, content: Value) -> String {
        let sent =
            self.does(json!({"do": "send", "room": room, "encrypted": true, "content": content}));
        sent["id"]
            .as_str()
            .unwrap_or_else(|| panic!("{sent}"))
            .to_owned()
    }

    /// Past the encryption.
    fn sends_plain(&self, room: &str, kind: &str, content: Value) -> String {
        let sent = self.does(
            json!({"do": "send", "room": room, "plain": true, "type": kind, "content": content}),
        );
        sent["event_id"]
            .as_str()
            .unwrap_or_else(|| panic!("{sent}"))
            .to_owned()
    }

    /// Returns what the agent said, the oldest first.
    pub(crate) fn heard(&self) -> Vec<Value> {
        self.lines()
            .into_iter()
            .filter(|line| {
                let is_said = line["event"] == "message" && line["type"] == "m.room.message";
                is_said && line["sender"] == AGENT
            })
            .collect()
    }

    /// Waits for something of the agent's with `words`.
    fn hears(&self, words: &str) -> Value {
        wait_for(words, SOON, || {
            let says = |line: &Value| {
                line["content"]["body"]
                    .as_str()
                    .is_some_and(|body| body.contains(words))
            };
            self.heard().into_iter().find(says)
        })
    }

    fn sees(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        wait_for(what, SOON, || self.lines().into_iter().find(&is_it))
    }
}

/// An agent with an account.
struct House {
    model: FakeModel,
    sandbox: Sandbox,
    program: PathBuf,
    server: Homeserver,
    daemon: Option<Daemon>,
}

impl House {
    /// `None` where there is no homeserver; the agent has an account, and neither it nor its daemon runs yet.
    fn open() -> Option<Self> {
        let (program, _) = (program()?, tools("nio")?);
        let server = Homeserver::open()?;
        drop(Person::new(&server, "agent"));
        let (model, sandbox) = Sandbox::with_model();
        Some(Self {
            model,
            sandbox,
            program,
            server,
            daemon: None,
        })
    }

    /// Starts the daemon and signs in.
    fn settle(mut self, agent: &str, matrix: &str) -> Self {
        self.sandbox = self.sandbox.config(agent);
        let settings = format!(
            "user = \"{AGENT}\"\nhomeserver = \"{}\"\npassword = \"pw-agent\"\n{matrix}",
            self.server.url()
        );
        self.sandbox
            .put("channels/matrix.toml", settings.as_bytes());
        self.daemon = Some(self.sandbox.ready());
        let done = self.run(&["login"], "");
        assert_eq!(done.code, 0, "{done:?}");
        assert!(
            done.stdout.contains("Recovery key") && !done.stdout.contains("not signed"),
            "{done:?}"
        );
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().env("AGENT_HOME", self.sandbox.home());
        command
    }

    fn run(&self, arguments: &[&str], input: &str) -> Output {
        let process = Running::start(self.command().args(arguments));
        process.write(input);
        process.end()
    }

    fn start(&self) -> Running {
        let process = Running::start(&mut self.command());
        wait_for("the homeserver to answer", SOON, || {
            process
                .said()
                .1
                .contains("the homeserver answers")
                .then_some(())
        });
        process
    }
}

#[test]
fn a_direct_room_is_answered_in_it_encrypted() {
    let Some(house) = House::open() else {
        return;
    };
    let house = house.settle(ADA, "");
    let process = house.start();
    let ada = Person::signed_in(&house.server, "ada");
    let room = ada.room(true, &[AGENT]);
    // Said before the agent is there: it has the key all the same, or says so.
    ada.wait_entered(&room);
    let asked = ada.says(&room, "[[say The disk is **half** full.]]");
    let answer = ada.hears("half");
    assert_eq!(answer["encrypted"], true, "{answer}");
    assert_eq!(answer["content"]["body"], "The disk is **half** full.");
    assert!(
        answer["content"]["formatted_body"]
            .as_str()
            .is_some_and(|html| html.contains("<strong>half</strong>"))
    );
    ada.sees("that it was read", |line| {
        line["event"] == "receipt" && line["id"] == asked.as_str()
    });
    // Programs are not heard, and neither is what the homeserver could have written.
    ada.sends(
        &room,
        json!({"msgtype": "m.notice", "body": "[[say leak-notice]]"}),
    );
    ada.sends_plain(
        &room,
        "m.room.message",
        json!({"msgtype": "m.text", "body": "[[say leak-plain]]"}),
    );
    ada.says(&room, "[[say Second.]]");
    ada.hears("Second.");
    assert!(
        !ada.heard()
            .iter()
            .any(|line| line.to_string().contains("leak-")),
        "{:?}",
        ada.heard()
    );
    assert!(
        process
            .said()
            .1
            .contains("the homeserver could have written it"),
        "{:?}",
        process.said()
    );
    let status = house.sandbox.send(&["--status", "--json"]).json();
    assert_eq!(status["channels"][0]["state"], "ok", "{status}");
    // A message of the agent's own beginning finds the room of the person.
    assert_eq!(
        house
            .sandbox
            .send(&["--raw", "--to", "matrix:@ada:home.test", "News."])
            .code,
        0
    );
    assert_eq!(ada.hears("News.")["room"], room.as_str());
    assert_eq!(house.model.requests().len(), 2);
}

#[test]
fn files_go_both_ways_and_an_edit_counts_only_of_its_author() {
    let Some(house) = House::open() else {
        return;
    };
    let house = house.settle(ADA, "reactions = true\n");
    let process = house.start();
    let ada = Person::signed_in(&house.server, "ada");
    let room = ada.room(true, &[AGENT]);
    ada.wait_entered(&room);
    let file = |name: &str, text: &[u8]| {
        let hex: String = text.iter().map(|byte| format!("{byte:02x}")).collect();
        let sent = ada.does(json!({"do": "upload", "encrypted": true, "hex": hex, "name": name}));
        let mut content = json!({"msgtype": "m.file", "body": "[[say Got it.]]", "filename": name,
            "info": {"size": text.len(), "mimetype": "text/plain"}});
        content
            .as_object_mut()
            .expect("an object")
            .extend(sent["source"].as_object().expect("a source").clone());
        content
    };
    ada.sends(&room, file("notes.txt", b"remember the milk"));
    ada.hears("Got it.");
    let request = house.model.requests()[0].to_string();
    assert!(request.contains("notes.txt"), "{request}");
    // What is said of a size is not believed.
    let large = ada
        .does(json!({"do": "upload", "encrypted": true, "size": 21_000_000, "name": "large.bin"}));
    let mut content = json!({"msgtype": "m.file", "body": "[[say Too large.]]", "filename": "large.bin", "info": {"size": 7}});
    content
        .as_object_mut()
        .expect("an object")
        .extend(large["source"].as_object().expect("a source").clone());
    ada.sends(&room, content);
    ada.hears("Too large.");
    let request = house.model.requests()[1].to_string();
    assert!(request.contains("large.bin (21 MB, more than"), "{request}");
    // A file of the agent's own, and a reaction to it.
    house
        .sandbox
        .put("workspace/outbox/report.csv", b"a,b\n1,2\n");
    let say = json!({"paths": ["outbox/report.csv"], "caption": "The report."});
    house.model.push(Reply::Tool("send_media".to_owned(), say));
    ada.says(&room, "the report, please");
    let sent = ada.sees("the report", |line| {
        line["content"]["filename"] == "report.csv"
    });
    // SHA-256 of its bytes.
    assert_eq!(
        sent["sha256"], "492d5ea496056f1a6a6592241032fab764c321596317930b4fa0e1e8bc3b7470",
        "{sent}"
    );
    let reaction =
        json!({"m.relates_to": {"rel_type": "m.annotation", "event_id": sent["id"], "key": "👍"}});
    ada.sends_plain(&room, "m.reaction", reaction);
    wait_for("the reaction", SOON, || {
        let requests = house.model.requests();
        let request = requests.last().expect("a request").to_string();
        request.contains("reaction 👍").then_some(())
    });
    drop(process);
}

#[test]
fn a_group_is_heard_when_it_speaks_to_the_agent_and_threads_are_conversations() {
    let Some(house) = House::open() else {
        return;
    };
    let (ada, bob) = (
        Person::signed_in(&house.server, "ada"),
        Person::signed_in(&house.server, "bob"),
    );
    let club = ada.room(false, &["@bob:home.test"]);
    bob.sees("the club", |line| {
        line["event"] == "joined" && line["room"] == club.as_str()
    });
    let settings = format!(
        "{ADA}[channels.matrix.groups.\"{club}\"]\nallow_from = [\"@ada:home.test\", \"@bob:home.test\"]\n"
    );
    let house = house.settle(&settings, "invite_from = [\"@ada:home.test\"]\n");
    let process = house.start();
    let invited = ada.does(json!({"do": "invite", "room": club, "user": AGENT}));
    assert_eq!(invited, json!({}));
    ada.wait_entered(&club);
    bob.says(&club, "[[say leak-unasked]]");
    let to_agent = |text: &str, relation: Value| {
        let mut content = json!({"msgtype": "m.text", "body": format!("agent: {text}"), "m.mentions": {"user_ids": [AGENT]}});
        if relation.is_object() {
            content["m.relates_to"] = relation;
        }
        content
    };
    let asked = bob.sends(&club, to_agent("[[say Hello Bob.]]", Value::Null));
    let answer = bob.hears("Hello Bob.");
    assert_eq!(
        (&answer["room"], &answer["encrypted"]),
        (&json!(club), &json!(true)),
        "{answer}"
    );
    assert_eq!(
        answer["content"]["m.relates_to"]["m.in_reply_to"]["event_id"],
        asked.as_str(),
        "{answer}"
    );
    // A thread is a conversation of its own, and answered in it.
    let thread = json!({"rel_type": "m.thread", "event_id": asked, "is_falling_back": true, "m.in_reply_to": {"event_id": asked}});
    ada.sends(&club, to_agent("[[say In the thread.]]", thread));
    let answer = ada.hears("In the thread.");
    assert_eq!(
        answer["content"]["m.relates_to"]["rel_type"], "m.thread",
        "{answer}"
    );
    assert_eq!(
        answer["content"]["m.relates_to"]["event_id"],
        asked.as_str(),
        "{answer}"
    );
    assert!(
        !bob.heard()
            .iter()
            .any(|line| line.to_string().contains("leak-")),
        "{:?}",
        bob.heard()
    );
    let sessions = house
        .sandbox
        .query("queue", "SELECT DISTINCT session_key FROM inbox");
    assert_eq!(sessions.len(), 2, "{sessions:?}");
    drop(process);
}

#[test]
fn emoji_are_compared_in_the_shell() {
    let modules = installed("matrix-js");
    if !modules.exists() {
        println!(
            "skipped: matrix-js-sdk is not installed (.ci/run installs it where there is node)"
        );
        return;
    }
    let Some(house) = House::open() else {
        return;
    };
    let house = house.settle(ADA, "require_verified = true\n");
    let running = house.start();
    // Two processes with the same keys would ruin them.
    let refused = house.run(&["verify"], "");
    let hint = "systemctl --user stop agent-channel@matrix";
    assert!(
        refused.code == 75 && refused.stderr.contains(hint),
        "{refused:?}"
    );
    drop(Person::new(&house.server, "ada"));
    let mut command = Command::new("node");
    command.arg(script("element.mjs")).arg(modules).args([
        &house.server.url(),
        "@ada:home.test",
        "pw-ada",
        AGENT,
    ]);
    // The client that most people have is built on this library.
    let element = Running::start(&mut command);
    element.wait_said("\"joined\"");
    // Nobody is heard who was not verified.
    wait_for("her words not to be believed", SOON, || {
        let (_, log) = running.said();
        log.contains("the sender's device is not verified")
            .then_some(())
    });
    drop(running);
    for (round, answer, word) in [(1, "n\n", "cancelled"), (2, "y\n", "verified")] {
        let process = Running::start(house.command().arg("verify"));
        process.wait_said("Waiting.");
        element.write("verify\n");
        let shown = process.wait_said("Is it the same?");
        let mark = format!("{{\"round\":{round},");
        let theirs = element.wait_said(&mark);
        let theirs = theirs.lines().find(|line| line.starts_with(&mark));
        let theirs = theirs.expect("a line");
        let theirs: Value = serde_json::from_str(theirs).expect("json");
        for emoji in theirs["emoji"].as_array().expect("emoji") {
            assert!(
                shown.contains(emoji.as_str().expect("an emoji")),
                "{theirs}: {shown}"
            );
        }
        if word == "verified" {
            element.write("confirm\n");
        }
        process.write(answer);
        element.wait_said(&format!("\"{word}\""));
        let done = process.end();
        let is_verified = word == "verified";
        let says_so = done.stdout.contains("@ada:home.test is verified.");
        assert_eq!(
            (says_so, done.code == 0),
            (is_verified, is_verified),
            "{done:?}"
        );
    }
    let status = house.run(&["status"], "");
    assert!(
        status
            .stdout
            .contains("@ada:home.test, verified; encrypted"),
        "{status:?}"
    );
}
