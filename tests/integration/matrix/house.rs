//! A homeserver, an agent with an account there, and people with a client of their own.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::shipped_skills::free_port;
use crate::support::{Daemon, FakeModel, Output, Running, Sandbox, bin, wait_for};

/// A machine that builds beside is slow.
pub(crate) const SOON: Duration = Duration::from_secs(60);
pub(crate) const AGENT: &str = "@agent:home.test";
pub(crate) const ADA: &str = "[channels.matrix]\nenabled = true\nowner = [\"@ada:home.test\"]\n";

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
pub(crate) fn installed(name: &str) -> PathBuf {
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

pub(crate) fn missing(path: &Path, hint: &str) -> Option<()> {
    if path.exists() {
        return Some(());
    }
    let what = format!("{} is not there ({hint})", path.display());
    assert!(std::env::var_os("CI").is_none(), "{what}");
    println!("skipped: {what}");
    None
}

pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/integration/matrix")
        .join(name)
}

/// A homeserver.
pub(crate) struct Homeserver {
    pub(crate) place: tempfile::TempDir,
    pub(crate) port: u16,
    pub(crate) python: PathBuf,
    pub(crate) running: Option<Running>,
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
        crate::channels::write(place.path().join("homeserver.yaml"), settings);
        let log = "version: 1\nhandlers: {err: {class: logging.StreamHandler}}\nroot: {level: ERROR, handlers: [err]}\n";
        crate::channels::write(place.path().join("log.yaml"), log);
        let mut server = Self {
            place,
            port,
            python,
            running: None,
        };
        // Any 32 bytes are a key; to have them made takes a start of Synapse.
        let key = format!("ed25519 a_test {}\n", "A".repeat(43));
        crate::channels::write(server.place.path().join("signing.key"), key);
        server.start();
        Some(server)
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new("python3");
        command
            .env("PYTHONPATH", &self.python)
            .args(["-m", "synapse.app.homeserver", "--config-path"])
            .arg(self.place.path().join("homeserver.yaml"));
        command
    }

    pub(crate) fn start(&mut self) {
        self.running = Some(Running::start(&mut self.command()));
        let address = ("127.0.0.1", self.port);
        wait_for("the homeserver", SOON, || {
            std::net::TcpStream::connect(address).ok()
        });
    }

    pub(crate) fn stop(&mut self) {
        self.running = None;
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// Somebody with a client of their own.
pub(crate) struct Person {
    pub(crate) process: Running,
    pub(crate) asked: Cell<usize>,
    /// How much of what it printed is read, and the lines of that.
    read: RefCell<(usize, Vec<Value>)>,
    pub(crate) _store: tempfile::TempDir,
}

impl Person {
    /// An account that is new, and not signed in yet.
    pub(crate) fn new(server: &Homeserver, name: &str) -> Self {
        let person = Self::with_client(&server.url(), name);
        person.does(json!({"do": "register", "user": name, "password": format!("pw-{name}")}));
        person
    }

    /// Somebody whose account is there, with one client more.
    pub(crate) fn with_client(url: &str, name: &str) -> Self {
        let store = tempfile::tempdir().expect("dir");
        let mut command = Command::new("python3");
        command
            .env("PYTHONPATH", tools("nio").expect("nio lies beside synapse"))
            .arg(script("person.py"))
            .arg(url)
            .arg(format!("@{name}:home.test"))
            .arg(store.path());
        Self {
            process: Running::start(&mut command),
            asked: Cell::new(0),
            read: RefCell::default(),
            _store: store,
        }
    }

    pub(crate) fn signed_in(server: &Homeserver, name: &str) -> Self {
        let person = Self::new(server, name);
        person.signs_in(name);
        person
    }

    pub(crate) fn signs_in(&self, name: &str) {
        self.does(json!({"do": "login", "password": format!("pw-{name}")}));
    }

    /// Asks the homeserver past the client, and returns its answer.
    pub(crate) fn asks(&self, method: &str, path: &str, body: Value) -> Value {
        self.does(json!({"do": "raw", "method": method, "path": path, "body": body}))
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
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
    pub(crate) fn does(&self, command: Value) -> Value {
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

    pub(crate) fn sends(&self, room: &str, content: Value) -> String {
        let sent =
            self.does(json!({"do": "send", "room": room, "encrypted": true, "content": content}));
        sent["id"]
            .as_str()
            .unwrap_or_else(|| panic!("{sent}"))
            .to_owned()
    }

    /// Past the encryption.
    pub(crate) fn sends_plain(&self, room: &str, kind: &str, content: Value) -> String {
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
    pub(crate) fn hears(&self, words: &str) -> Value {
        wait_for(words, SOON, || {
            let says = |line: &Value| {
                line["content"]["body"]
                    .as_str()
                    .is_some_and(|body| body.contains(words))
            };
            self.heard().into_iter().find(says)
        })
    }

    /// Returns how many messages of the agent's have `words`.
    pub(crate) fn heard_times(&self, words: &str) -> usize {
        let has = |line: &&Value| {
            line["content"]["body"]
                .as_str()
                .is_some_and(|body| body.contains(words))
        };
        let heard = self.heard();
        let ids = heard.iter().filter(has).map(|line| line["id"].to_string());
        ids.collect::<BTreeSet<_>>().len()
    }

    pub(crate) fn sees(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        wait_for(what, SOON, || self.lines().into_iter().find(&is_it))
    }
}

/// An agent with an account.
pub(crate) struct House {
    pub(crate) model: FakeModel,
    pub(crate) sandbox: Sandbox,
    pub(crate) program: PathBuf,
    pub(crate) server: Homeserver,
    pub(crate) daemon: Option<Daemon>,
    /// Where the agent finds its homeserver.
    pub(crate) url: String,
    /// What `login` showed.
    pub(crate) recovery_key: String,
}

impl House {
    /// `None` where there is no homeserver; the agent has an account, and neither it nor its daemon runs yet.
    pub(crate) fn open() -> Option<Self> {
        let (program, _) = (program()?, tools("nio")?);
        let server = Homeserver::open()?;
        drop(Person::new(&server, "agent"));
        let (model, sandbox) = Sandbox::with_model();
        Some(Self {
            model,
            sandbox,
            program,
            url: server.url(),
            server,
            daemon: None,
            recovery_key: String::new(),
        })
    }

    /// Starts the daemon and signs in.
    pub(crate) fn settle(mut self, agent: &str, matrix: &str) -> Self {
        self.sandbox = self.sandbox.config(agent);
        self.set(matrix);
        self.daemon = Some(self.sandbox.ready());
        let done = self.run(&["login"], "");
        assert_eq!(done.code, 0, "{done:?}");
        assert!(
            done.stdout.contains("Recovery key") && !done.stdout.contains("not signed"),
            "{done:?}"
        );
        let key = done.stdout.lines().find_map(|line| line.strip_prefix("  "));
        self.recovery_key = key.expect("a recovery key").to_owned();
        self
    }

    /// Writes the settings of the channel.
    pub(crate) fn set(&self, matrix: &str) {
        let settings = format!(
            "user = \"{AGENT}\"\nhomeserver = \"{}\"\npassword = \"pw-agent\"\n{matrix}",
            self.url
        );
        self.sandbox
            .put("channels/matrix.toml", settings.as_bytes());
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().env("AGENT_HOME", self.sandbox.home());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str], input: &str) -> Output {
        let process = Running::start(self.command().args(arguments));
        process.write(input);
        process.end()
    }

    pub(crate) fn start(&self) -> Running {
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

/// A homeserver that does what it should not.
pub(crate) struct Proxy {
    process: Running,
    url: String,
}

impl Proxy {
    pub(crate) fn before(server: &Homeserver) -> Self {
        let port = free_port();
        let mut command = Command::new("python3");
        command
            .env("PYTHONPATH", tools("nio").expect("nio lies beside synapse"))
            .arg(script("proxy.py"))
            .arg(port.to_string())
            .arg(server.url());
        let process = Running::start(&mut command);
        process.wait_said("\"ready\"");
        let url = format!("http://127.0.0.1:{port}");
        Self { process, url }
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// Makes a rule, which counts when this returns.
    pub(crate) fn rule(&self, rule: Value) {
        let count = || self.process.said().0.matches("\"rule\"").count();
        let before = count();
        self.process.write(&format!("{rule}\n"));
        wait_for("the rule", SOON, || (count() > before).then_some(()));
    }

    pub(crate) fn says(&self, act: &str, answer: &str) {
        self.process.write(&format!("{}\n", json!({"act": act})));
        self.process.wait_said(answer);
    }

    /// Returns how often a rule was followed whose requests have `part`.
    pub(crate) fn did(&self, act: &str, part: &str) -> usize {
        let act = format!("\"did\": \"{act}\"");
        let (out, _) = self.process.said();
        out.lines()
            .filter(|line| line.contains(&act) && line.contains(part))
            .count()
    }
}
