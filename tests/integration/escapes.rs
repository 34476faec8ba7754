//! Hostile commands, run by the real daemon because its model asks for them. What counts is the world
//! afterwards, never what the command says: no secret came in, nothing outside was changed, nobody was
//! connected to, no process is left, the daemon lives. Each way out has its name.
//!
//! Everything is tried behind both walls: namespaces, and Landlock alone, in a daemon that may make no
//! namespaces (`walls.c`). That the checks can fail is shown where there is no wall.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test writes files plainly, and says what it skips"
)]

mod files;
mod kernel;
mod limits;
mod network;
mod others;
mod processes;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::{Daemon, FakeModel, Reply, Sandbox, build, build_program, wait_for};

/// Stands in every file that no command may read. No secret by its form: nothing takes it out of an answer.
const CANARY: &str = "the canary sings at dawn";

/// The wall of a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wall {
    Namespaces,
    Landlock,
    Off,
}

/// A daemon with secrets around it, its model, and what was there before.
struct Jail {
    daemon: Daemon,
    model: FakeModel,
    sandbox: Sandbox,
    before: BTreeMap<PathBuf, (u32, u64, Vec<u8>)>,
}

/// Makes a jail; `None` where this machine has no such wall.
fn jail(wall: Wall) -> Option<Jail> {
    jail_with(wall, "")
}

fn jail_with(wall: Wall, config: &str) -> Option<Jail> {
    let (model, mut sandbox) = Sandbox::with_model();
    let home = sandbox_home(&sandbox);
    sandbox = sandbox
        .config(config)
        .env("EXTRA_TOKEN", CANARY)
        .env("HOME", &home);
    match wall {
        Wall::Namespaces => {}
        Wall::Landlock => {
            static WALLS: OnceLock<PathBuf> = OnceLock::new();
            sandbox = sandbox.env(
                "LD_PRELOAD",
                &WALLS.get_or_init(|| build("walls")).display().to_string(),
            );
        }
        Wall::Off => {
            sandbox = sandbox.config("[tools.exec]\nsandbox = \"off\"\npolicy = \"allow\"")
        }
    }
    for file in [
        ".env",
        "auth.json",
        "state/sessions/other.jsonl",
        "state/downloads/x/doc.txt",
        "workspace/link-target",
    ] {
        let words = if file == ".env" {
            format!("EXTRA_NOTE=\"{CANARY}, always\"")
        } else {
            CANARY.to_owned()
        };
        let words = if file == "auth.json" {
            "{}".to_owned()
        } else {
            words
        };
        sandbox.put(file, words.as_bytes());
    }
    fs::remove_file(sandbox.path("workspace/link-target")).expect("own file");
    let mine = PathBuf::from(sandbox_home(&sandbox));
    for file in [".ssh/id_ed25519", ".bashrc", ".git-credentials"] {
        let path = mine.join(file);
        fs::create_dir_all(path.parent().expect("below")).expect("the sandbox is writable");
        fs::write(&path, CANARY).expect("the sandbox is writable");
    }
    let daemon = sandbox.ready();
    fs::copy(doors(), sandbox.path("workspace/doors")).expect("the sandbox is writable");
    fs::set_permissions(
        sandbox.path("workspace/doors"),
        fs::Permissions::from_mode(0o755),
    )
    .expect("own file");
    let level = wait_for("the level", Duration::from_secs(20), || {
        Some(
            sandbox.read_json("state/monitor.json")?["sandbox"]
                .as_str()?
                .to_owned(),
        )
        .filter(|level| !level.is_empty())
    });
    let expected = match wall {
        Wall::Namespaces => "namespaces",
        Wall::Landlock => "landlock",
        Wall::Off => "off",
    };
    if !level.starts_with(expected) && level.starts_with("refused")
        || (wall == Wall::Namespaces && level.starts_with("landlock"))
    {
        eprintln!("skipped: this machine has no {expected}: {level}");
        return None;
    }
    assert!(level.starts_with(expected), "{level}");
    let mut jail = Jail {
        daemon,
        model,
        sandbox,
        before: BTreeMap::new(),
    };
    jail.before = jail.outside();
    Some(jail)
}

/// Returns the user's home, which is beside the agent's.
fn sandbox_home(sandbox: &Sandbox) -> String {
    sandbox.home().with_file_name("mine").display().to_string()
}

fn doors() -> &'static Path {
    static DOORS: OnceLock<PathBuf> = OnceLock::new();
    DOORS.get_or_init(|| build_program("doors"))
}

impl Jail {
    fn workspace(&self) -> PathBuf {
        self.sandbox.path("workspace")
    }

    fn pid(&self) -> i32 {
        self.daemon.pid().as_raw()
    }

    /// Has the model ask for a tool, and returns what it was told.
    fn tool(&self, name: &str, input: Value) -> String {
        self.model.push(Reply::Tool(name.to_owned(), input));
        self.turn()
    }

    /// Has the agent work off what its model is to say, and returns what the model was told of it.
    fn turn(&self) -> String {
        let before = self.model.requests().len();
        self.model.push(Reply::Text("done".to_owned()));
        let told = self.sandbox.send(&["--wait=60", "go on"]);
        assert_eq!(told.code, 0, "{told:?}\n{}", self.daemon.log());
        let last = |request: &Value| {
            request["messages"]
                .as_array()
                .and_then(|messages| messages.last())
                .map(Value::to_string)
        };
        self.model
            .requests()
            .iter()
            .skip(before + 1)
            .filter_map(last)
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Runs a command; what it prints is kept in the workspace too, where nothing is taken out of it.
    fn run(&self, command: &str) -> String {
        self.tool("exec", self.input(command))
    }

    fn input(&self, command: &str) -> Value {
        json!({"command": format!("( {command}\n) >loot 2>&1; cat loot"), "timeout_secs": 20})
    }

    /// Tries a way out and looks at the world.
    fn attempt(&mut self, cause: &str, command: &str) {
        let told = self.run(command);
        let broken = self.broken(&told);
        assert!(
            broken.is_empty(),
            "{cause}: {}\n{command}\n{told}",
            broken.join("; ")
        );
    }

    /// Tries ways out, each by its cause. `@HOME`, `@WORKSPACE`, `@MINE` and `@PID` stand for what they say.
    fn attempts(&mut self, attempts: &[(&str, &str)]) {
        for (_, command) in attempts {
            self.model.push(Reply::Tool(
                "exec".to_owned(),
                self.input(&self.filled(command)),
            ));
        }
        let told = self.turn();
        let broken = self.broken(&told);
        let causes: Vec<&str> = attempts.iter().map(|(cause, _)| *cause).collect();
        assert!(
            broken.is_empty(),
            "one of {}: {}\n{told}",
            causes.join(", "),
            broken.join("; ")
        );
    }

    fn filled(&self, command: &str) -> String {
        command
            .replace("@HOME", &self.sandbox.home().display().to_string())
            .replace("@WORKSPACE", &self.workspace().display().to_string())
            .replace("@MINE", &sandbox_home(&self.sandbox))
            .replace("@PID", &self.pid().to_string())
    }

    /// Returns what is not as it should be.
    fn broken(&mut self, told: &str) -> Vec<String> {
        let mut broken = Vec::new();
        if told.contains(CANARY) {
            broken.push("the model was told a secret".to_owned());
        }
        walk(&self.workspace(), &mut |path| {
            let is_file = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
            if is_file && fs::read(path).is_ok_and(|bytes| contains(&bytes, CANARY.as_bytes())) {
                broken.push(format!("a secret is in {}", path.display()));
            }
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if name.starts_with("opened-") {
                broken.push(name);
            }
        });
        let after = self.outside();
        for (path, was) in &self.before {
            if after.get(path) != Some(was) {
                broken.push(format!("{} was changed", path.display()));
            }
        }
        broken.extend(
            after
                .keys()
                .filter(|path| !self.before.contains_key(*path))
                .map(|path| format!("{} is new", path.display())),
        );
        if self.daemon.has_ended() {
            broken.push(format!("the daemon ended:\n{}", self.daemon.log()));
        }
        if let Some(process) = self.left() {
            broken.push(format!("a process is left: {process}"));
        }
        broken
    }

    /// Returns all files around the workspace that only the owner changes: mode, owner, words.
    fn outside(&self) -> BTreeMap<PathBuf, (u32, u64, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let own = [self.workspace(), self.sandbox.path("state")];
        let mut note = |path: &Path| {
            if own.iter().any(|own| path.starts_with(own) && path != own)
                || path.ends_with("daemon.log")
            {
                return;
            }
            let Ok(meta) = fs::symlink_metadata(path) else {
                return;
            };
            let bytes = if meta.is_file() {
                fs::read(path).unwrap_or_default()
            } else {
                Vec::new()
            };
            found.insert(path.to_owned(), (meta.mode(), u64::from(meta.uid()), bytes));
        };
        walk(
            self.sandbox
                .home()
                .parent()
                .expect("a home is in a directory"),
            &mut note,
        );
        for name in [
            "SOUL.md",
            "AGENTS.md",
            "skills",
            "prompts",
            "state/sessions/other.jsonl",
        ] {
            note(&self.sandbox.path("workspace").join(name));
        }
        found
    }

    /// Returns a process of a command that is still there after a second.
    fn left(&self) -> Option<String> {
        let workspace = self.workspace();
        let of_a_command = |entry: fs::DirEntry| {
            let cwd = fs::read_link(entry.path().join("cwd")).ok()?;
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            cwd.starts_with(&workspace)
                .then(|| String::from_utf8_lossy(&line).replace('\0', " "))
        };
        let mut found = None;
        for _ in 0..200 {
            found = fs::read_dir("/proc")
                .expect("proc")
                .flatten()
                .find_map(of_a_command);
            found.as_ref()?;
            std::thread::sleep(Duration::from_millis(5));
        }
        found
    }

    /// Tries doors of `doors.c`.
    fn doors(&mut self, names: &[&str]) {
        let command = format!("./doors {} {}", self.pid(), names.join(" "));
        self.attempt("a door", &command);
    }
}

fn contains(bytes: &[u8], words: &[u8]) -> bool {
    bytes.windows(words.len()).any(|window| window == words)
}

/// Visits everything at and below `path`, following nothing.
fn walk(path: &Path, visit: &mut dyn FnMut(&Path)) {
    visit(path);
    if fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir()) {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            walk(&entry.path(), visit);
        }
    }
}

#[test]
fn the_checks_see_an_escape_where_there_is_no_wall() {
    let mut jail = jail(Wall::Off).expect("no wall is always to be had");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("own socket");
    let port = listener.local_addr().expect("own socket").port();
    for (command, seen) in [
        (
            "cat ../state/sessions/other.jsonl | tr a-z a-z",
            "the model was told a secret",
        ),
        (
            "cat @MINE/.ssh/id_ed25519 >/dev/null; cp @MINE/.ssh/id_ed25519 kept",
            "a secret is in",
        ),
        (
            "rm kept; echo x >>@HOME/agent.toml",
            "agent.toml was changed",
        ),
        ("touch @HOME/new", "is new"),
        ("./doors @PID signal limits-of", "opened-signal"),
        (
            "rm opened-*; setsid sleep 20 >/dev/null 2>&1 & sleep 0.3",
            "a process is left",
        ),
        (
            &format!(
                "/usr/bin/python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'"
            ),
            "",
        ),
    ] {
        let told = jail.run(&jail.filled(command));
        let broken = jail.broken(&told).join("; ");
        assert!(broken.contains(seen), "{command}: {seen}: {broken}");
    }
    if Path::new("/usr/bin/python3").exists() {
        assert!(listener.accept().is_ok(), "a connection is seen");
    }
}

/// Makes a test of each wall.
macro_rules! behind_each_wall {
    ($($name:ident),* $(,)?) => {
        mod namespaces {
            $(#[test] fn $name() { if let Some(jail) = crate::escapes::jail(crate::escapes::Wall::Namespaces) { super::$name(jail) } })*
        }
        mod landlock {
            $(#[test] fn $name() { if let Some(jail) = crate::escapes::jail(crate::escapes::Wall::Landlock) { super::$name(jail) } })*
        }
    };
}
use behind_each_wall;
