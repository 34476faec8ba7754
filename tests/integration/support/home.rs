//! A throw-away `AGENT_HOME` with the configuration that outside tests use, pointed at the fakes, and the
//! programs run in it with nothing else in their environment.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, types::Value as SqlValue};
use serde_json::Value;
use tempfile::TempDir;
use toml::Table;

use super::{
    Clock, Disk, Power,
    daemon::Daemon,
    model::FakeModel,
    program::{self, Output, Running, bin},
    telegram::{FakeTelegram, Polls},
    wait::wait_for,
};

/// No channel, no key, no network; the rest as outside tests set it.
const BASE: &str = r#"
[agent]
name = "agent"
mode = "tools"
timezone = "UTC"
max_concurrent_runs = 4
[pipeline]
debounce_ms = 0
on_busy = "queue"
[providers]
load = ["offline"]
[tools.exec]
policy = "sandboxed"
[cost]
day_usd = 0.0
"#;

/// The home; dropping it removes everything. Daemons must go first, or they outlive their files.
pub(crate) struct Sandbox {
    root: TempDir,
    agent: Table,
    providers: BTreeMap<String, Table>,
    environment: BTreeMap<String, String>,
    polls: Option<Polls>,
}

impl Sandbox {
    /// Makes a home whose only model is the offline one.
    pub(crate) fn new() -> Self {
        let sandbox = Self {
            root: TempDir::with_prefix("agent-test-").expect("the temporary directory is writable"),
            agent: parse(BASE),
            providers: BTreeMap::new(),
            environment: BTreeMap::new(),
            polls: None,
        };
        sandbox.write();
        sandbox
    }

    /// Makes a model and a home that knows it as its primary one.
    pub(crate) fn with_model() -> (FakeModel, Self) {
        let model = FakeModel::start();
        let sandbox = Self::new().with_anthropic(&model);
        (model, sandbox)
    }

    /// Turns Telegram on: owner 1001, and 1002 may write too.
    pub(crate) fn with_telegram(mut self, telegram: &FakeTelegram) -> Self {
        self.polls = Some(telegram.polls());
        self.env("TELEGRAM_BOT_TOKEN", telegram.token())
            .config(&format!(
                r#"
            [telegram]
            enabled = true
            owner = [1001]
            api_url = "{}"
            token_env = "TELEGRAM_BOT_TOKEN"
            dm_policy = "allowlist"
            allow_from = [1001, 1002]
            stream = "off"
            "#,
                telegram.url()
            ))
    }

    /// Returns whether everything that came is answered.
    pub(crate) fn is_idle(&self, telegram: &FakeTelegram) -> bool {
        let open = "SELECT 1 FROM inbox WHERE state IN ('pending', 'running')
             UNION ALL SELECT 1 FROM outbox WHERE state IN ('pending', 'sending', 'unknown')";
        telegram.pending_updates() == 0 && self.query("queue", open).is_empty()
    }

    /// Makes `model`, spoken to as Anthropic, the primary model.
    pub(crate) fn with_anthropic(self, model: &FakeModel) -> Self {
        self.with_provider("mock", "anthropic", model, "primary")
    }

    /// Makes `model`, spoken to as OpenAI, the primary model.
    pub(crate) fn with_openai(self, model: &FakeModel) -> Self {
        self.with_provider("mock", "openai", model, "primary")
    }

    /// Adds a provider of type `kind` with one model called `model_name`, say for fallbacks.
    pub(crate) fn with_provider(
        self,
        name: &str,
        kind: &str,
        model: &FakeModel,
        model_name: &str,
    ) -> Self {
        let source = format!(
            r#"
            type = "{kind}"
            base_url = "{}"
            api_key_env = "MOCK_KEY"
            [models.{model_name}]
            model = "mock-model"
            max_tokens = 8192
            context_window = 200000
            cost_per_mtok = [3.0, 15.0, 0.3, 3.75]
            "#,
            model.url()
        );
        self.env("MOCK_KEY", "sk-mock-not-a-key")
            .provider_config(name, &source)
    }

    /// Lays TOML over `providers.d/<name>.toml` and loads that provider.
    pub(crate) fn provider_config(mut self, name: &str, source: &str) -> Self {
        lay_over(
            self.providers.entry(name.to_owned()).or_default(),
            parse(source),
        );
        let names: Vec<String> = self
            .providers
            .keys()
            .map(|name| format!("\"{name}\""))
            .collect();
        self.config(&format!("[providers]\nload = [{}]", names.join(", ")))
    }

    /// Lays TOML over `agent.toml`: tables merge key by key, everything else is replaced.
    pub(crate) fn config(mut self, source: &str) -> Self {
        self.reconfigure(source);
        self
    }

    /// Does what `config` does to a home in use, say before a SIGHUP.
    pub(crate) fn reconfigure(&mut self, source: &str) {
        lay_over(&mut self.agent, parse(source));
        self.write();
    }

    /// Sets a variable for every program started from now on.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Lets all programs of it go by a clock that can be set ahead.
    pub(crate) fn with_clock(self) -> (Self, Clock) {
        let clock = Clock::new(&self.home().with_file_name("clock"));
        let environment = clock.environment().into_iter();
        let sandbox = environment.fold(self, |sandbox, (name, value)| sandbox.env(name, &value));
        (sandbox, clock)
    }

    /// Lets calls of the daemon fail when they are told to.
    pub(crate) fn with_disk(self) -> (Self, Disk) {
        let disk = Disk::new(&self.home().with_file_name("disk"));
        let environment = disk.environment(&self.home()).into_iter();
        let sandbox = environment.fold(self, |sandbox, (name, value)| sandbox.env(name, &value));
        (sandbox, disk)
    }

    /// Lets the disk below `state/` forget at a power cut what was not synced.
    pub(crate) fn with_power(self) -> (Power, Self) {
        let power = Power::new(
            &self.home().with_file_name("power"),
            &self.home().join("state"),
        );
        let (environment, library) = power.environment();
        // Beside a clock, if there is one.
        let preloaded = match self.environment.get("LD_PRELOAD") {
            Some(other) => format!("{other}:{library}"),
            None => library,
        };
        let sandbox = self.env("LD_PRELOAD", &preloaded);
        let sandbox = environment
            .into_iter()
            .fold(sandbox, |sandbox, (name, value)| sandbox.env(name, &value));
        (power, sandbox)
    }

    /// Returns the home.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// Returns a path below the home, such as `state/monitor.json`.
    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.home().join(below)
    }

    /// Returns a file's text, `None` when it is not there.
    pub(crate) fn read(&self, below: &str) -> Option<String> {
        fs::read_to_string(self.path(below)).ok()
    }

    /// Returns a JSON file, `None` when it is not there; panics when it is there and torn.
    pub(crate) fn read_json(&self, below: &str) -> Option<Value> {
        let text = self.read(below)?;
        match serde_json::from_str(&text) {
            Ok(document) => Some(document),
            Err(why) => panic!("{below}: {why}: {text}"),
        }
    }

    /// Writes a file of mode 0600, and the directories it stands in.
    pub(crate) fn put(&self, below: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(below);
        fs::create_dir_all(path.parent().expect("it is below the home"))
            .expect("the sandbox is writable");
        let mut options = fs::OpenOptions::new();
        let mut file = options
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .expect("the sandbox is writable");
        file.write_all(bytes).expect("the sandbox is writable");
        // By the handle: a daemon may have taken it already.
        file.set_permissions(fs::Permissions::from_mode(0o600))
            .expect("own file");
        path
    }

    /// Returns the keys and tokens of its environment.
    pub(super) fn secrets(&self) -> Vec<&String> {
        let is_secret = |name: &str| name.ends_with("_KEY") || name.ends_with("_TOKEN");
        let secrets = self.environment.iter().filter(|(name, _)| is_secret(name));
        secrets.map(|(_, value)| value).collect()
    }

    /// Starts the daemon and waits until it serves.
    pub(crate) fn ready(&self) -> Daemon {
        let mut daemon = self.daemon();
        daemon.wait_ready();
        daemon
    }

    /// Starts the daemon; it may not be ready yet, see [`Daemon::wait_ready`].
    pub(crate) fn daemon(&self) -> Daemon {
        self.daemon_with(&[])
    }

    /// Starts the daemon with arguments.
    pub(crate) fn daemon_with(&self, arguments: &[&str]) -> Daemon {
        let mut command = self.command("agent-daemon");
        Daemon::start(
            command.args(arguments),
            &self.home(),
            &self.root.path().join("daemon.log"),
            self.polls.clone(),
        )
    }

    /// Runs `agent-send` to its end.
    pub(crate) fn send(&self, arguments: &[&str]) -> Output {
        self.run("agent-send", arguments, "")
    }

    /// Starts `agent-send` and lets it run.
    pub(crate) fn sending(&self, arguments: &[&str]) -> Running {
        self.starting("agent-send", arguments)
    }

    /// Starts any of the five and lets it run.
    pub(crate) fn starting(&self, name: &str, arguments: &[&str]) -> Running {
        Running::start(self.command(name).args(arguments))
    }

    /// Runs `agent-monitor` to its end.
    pub(crate) fn monitor(&self, arguments: &[&str]) -> Output {
        self.run("agent-monitor", arguments, "")
    }

    /// Runs any of the five to its end with `stdin`, say `agent-daemon --channel cli`.
    pub(crate) fn run(&self, name: &str, arguments: &[&str], stdin: &str) -> Output {
        program::run(self.command(name).args(arguments), stdin)
    }

    /// Runs a bash script in the home, with the programs in its `PATH`.
    pub(crate) fn bash(&self, script: &str) -> Output {
        program::run(
            self.shell().args(["-c", script]).current_dir(self.home()),
            "",
        )
    }

    /// Checks that `agent-send` fails, as a person sees it and as a program does: the code, the words, the
    /// next step. `name` is the code's word in JSON.
    pub(crate) fn check_failure(&self, arguments: &[&str], code: i32, name: &str, says: &str) {
        let told = self.send(arguments);
        assert_eq!(
            (told.code, told.stdout.as_str()),
            (code, ""),
            "{arguments:?}: {told:?}"
        );
        assert!(told.stderr.contains(says), "{arguments:?}: {told:?}");
        let with_json: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        let told = self.send(&with_json);
        let error = &told.json()["error"];
        assert_eq!(
            (told.code, error["code"].as_str()),
            (code, Some(name)),
            "{with_json:?}: {told:?}"
        );
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|message| !message.is_empty()),
            "{told:?}"
        );
        assert!(
            error["hint"].as_str().is_some_and(|hint| !hint.is_empty()),
            "{told:?}"
        );
    }

    /// Checks that the daemon answers a command with a failure whose reason contains one of `words`.
    pub(crate) fn check_failure_of_reply(&self, arguments: &[&str], words: &[&str]) {
        let told = self.send(arguments);
        assert_eq!(
            (told.code, told.stdout.as_str()),
            (1, ""),
            "{arguments:?}: {told:?}"
        );
        assert!(
            words.iter().any(|word| told.stderr.contains(word)),
            "{arguments:?}: {told:?}"
        );
        assert!(
            told.stderr.starts_with("agent-send: ") && told.stderr.contains("\nhint: "),
            "{told:?}"
        );
        let with_json: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        let told = self.send(&with_json);
        assert_eq!(
            (told.code, &told.json()["status"]),
            (1, &Value::from("error")),
            "{with_json:?}: {told:?}"
        );
    }

    /// Waits until the owner is asked something and returns its id.
    pub(crate) fn wait_asked(&self) -> String {
        wait_for("a question for the owner", Duration::from_secs(30), || {
            let asked = self.query("queue", "SELECT id FROM approvals WHERE state = 'pending'");
            match asked.first()?.first()? {
                SqlValue::Text(id) => Some(id.clone()),
                other => panic!("{other:?}"),
            }
        })
    }

    /// Returns the names of what waits in the spool for the daemon, in order.
    pub(crate) fn spooled(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path("state/spool/new")) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Returns the command for bash, as [`Sandbox::command`] does, with the programs in its `PATH`.
    pub(crate) fn shell(&self) -> Command {
        let mut command = self.environed("bash".into());
        let programs = bin("agent-send")
            .parent()
            .expect("a program is in a directory")
            .display()
            .to_string();
        command.env(
            "PATH",
            format!("{programs}:{}", std::env::var("PATH").unwrap_or_default()),
        );
        command
    }

    /// Returns the command for a program with the sandbox's environment and nothing else.
    pub(crate) fn command(&self, name: &str) -> Command {
        self.environed(bin(name))
    }

    fn environed(&self, program: PathBuf) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("AGENT_HOME", self.home())
            .envs(&self.environment)
            .current_dir(self.root.path());
        command
    }

    /// Returns the rows of a query on `state/<database>.db` (`queue`, `cost`), read-only, daemon or not.
    pub(crate) fn query(&self, database: &str, sql: &str) -> Vec<Vec<SqlValue>> {
        let read_only = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let mut rows = self.try_query(database, sql, read_only);
        // A power cut can leave a journal that has to be rolled back first.
        if rows
            .as_ref()
            .is_err_and(|why| why.sqlite_error_code() == Some(rusqlite::ErrorCode::ReadOnly))
        {
            rows = self.try_query(database, sql, OpenFlags::SQLITE_OPEN_READ_WRITE);
        }
        rows.unwrap_or_else(|why| panic!("{database}.db: {why}: {sql}"))
    }

    /// Moves all of `state/<database>.db`, which nobody has open, out of its log into the file.
    pub(crate) fn empty_log(&self, database: &str) {
        let path = self.path(&format!("state/{database}.db"));
        let connection = Connection::open(path).expect("a database");
        let held: i64 = connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
            .expect("all in the file");
        assert_eq!(held, 0, "somebody has {database}.db open");
    }

    fn try_query(
        &self,
        database: &str,
        sql: &str,
        access: OpenFlags,
    ) -> rusqlite::Result<Vec<Vec<SqlValue>>> {
        let path = self.path(&format!("state/{database}.db"));
        let connection =
            Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.busy_timeout(Duration::from_secs(5))?;
        let mut statement = connection.prepare(sql)?;
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| {
            (0..columns).map(|column| row.get(column)).collect()
        })?;
        rows.collect()
    }

    fn write(&self) {
        let directory = self.path("providers.d");
        fs::create_dir_all(&directory).expect("the sandbox is writable");
        write_private(&self.path("agent.toml"), &self.agent);
        for (name, provider) in &self.providers {
            write_private(&directory.join(format!("{name}.toml")), provider);
        }
    }
}

fn write_private(path: &Path, table: &Table) {
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .expect("the sandbox is writable");
    file.write_all(table.to_string().as_bytes())
        .expect("the sandbox is writable");
}

fn parse(source: &str) -> Table {
    match source.parse() {
        Ok(table) => table,
        Err(why) => panic!("the test's own TOML does not parse: {why}"),
    }
}

fn lay_over(base: &mut Table, top: Table) {
    for (key, value) in top {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) => lay_over(below, above),
            (_, value) => drop(base.insert(key, value)),
        }
    }
}
