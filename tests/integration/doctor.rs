//! `agent-daemon doctor`: for each finding a home that provokes it, and the command that was printed makes it go
//! away. A healthy home has none.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test breaks files plainly, and says what it skips"
)]

mod broken;
mod files;
mod machine;
mod rare;
mod running;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{Output, Sandbox, bin};

/// Returns `$PATH` with the programs in it.
fn path() -> String {
    let ours = bin("agent-send")
        .parent()
        .expect("a program is in a directory")
        .to_owned();
    format!(
        "{}:{}",
        ours.display(),
        std::env::var("PATH").unwrap_or_default()
    )
}

/// A home with only its settings, and the programs in `$PATH`.
fn settings_only() -> Sandbox {
    Sandbox::new().env("PATH", &path()).env("TZ", "UTC")
}

/// A new home in which nothing is wrong.
fn healthy() -> Sandbox {
    let sandbox = settings_only();
    init(&sandbox);
    assert_eq!(ids(&sandbox), [] as [&str; 0]);
    sandbox
}

fn init(sandbox: &Sandbox) {
    let told = sandbox.run("agent-daemon", &["init", "-q"], "");
    assert_eq!(told.code, 0, "{told:?}");
}

fn doctor(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    let arguments: Vec<&str> = ["doctor"].iter().chain(arguments).copied().collect();
    let told = sandbox.run("agent-daemon", &arguments, "");
    assert!(!told.stderr.contains("panicked"), "{told:?}");
    told
}

/// Returns the findings; the exit code says whether there are any.
fn findings(sandbox: &Sandbox) -> Vec<Value> {
    listed(&doctor(sandbox, &["--json", "-q"]))
}

fn listed(told: &Output) -> Vec<Value> {
    let document = told.json();
    let findings = document["findings"].as_array().expect("a list").clone();
    assert_eq!(told.code, i32::from(!findings.is_empty()), "{told:?}");
    for finding in &findings {
        let keys: Vec<&String> = finding
            .as_object()
            .expect("a finding is a table")
            .keys()
            .collect();
        assert_eq!(keys, ["id", "level", "evidence", "command"], "{finding}");
        assert!(
            matches!(finding["level"].as_str(), Some("error" | "warning")),
            "{finding}"
        );
        assert!(
            finding["evidence"]
                .as_str()
                .is_some_and(|text| text.len() > 10),
            "{finding}"
        );
        assert!(
            finding["command"]
                .as_str()
                .is_some_and(|text| !text.is_empty() && !text.contains('\n')),
            "{finding}"
        );
    }
    findings
}

fn ids(sandbox: &Sandbox) -> Vec<String> {
    findings(sandbox)
        .iter()
        .map(|finding| finding["id"].as_str().expect("text").to_owned())
        .collect()
}

/// Returns the one finding there is.
fn only(sandbox: &Sandbox, id: &str, level: &str) -> Value {
    let findings = findings(sandbox);
    let found: Vec<&Value> = findings.iter().map(|finding| &finding["id"]).collect();
    assert_eq!(found, [&json!(id)], "{findings:#?}");
    assert_eq!(findings[0]["level"], level, "{findings:#?}");
    findings[0].clone()
}

fn command(finding: &Value) -> String {
    finding["command"].as_str().expect("text").to_owned()
}

/// Pastes a command into a shell. Its editor does `edit` to the file, which is the last argument.
fn paste(sandbox: &Sandbox, line: &str, edit: &str) {
    let editor = sandbox.home().with_file_name("editor");
    fs::write(&editor, format!("#!/bin/bash\nfile=${{@: -1}}\n{edit}\n"))
        .expect("the sandbox is writable");
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o700)).expect("own file");
    let like = sandbox.command("agent-daemon");
    // Who is root needs no sudo, and may not have it.
    let line = if nix::unistd::geteuid().is_root() {
        line.trim_start_matches("sudo ")
    } else {
        line
    };
    let output = Command::new("bash")
        .args(["-c", line])
        .env_clear()
        .envs(
            like.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env("EDITOR", &editor)
        .current_dir(sandbox.home().parent().expect("it is in a directory"))
        .stdin(Stdio::null())
        .output()
        .expect("bash is installed");
    assert!(output.status.success(), "{line}: {output:?}");
}

/// Checks that there is this one finding and that its command makes it go away.
fn check_cured(sandbox: &Sandbox, id: &str, level: &str, says: &[&str], edit: &str) {
    let finding = only(sandbox, id, level);
    for word in says {
        assert!(
            finding["evidence"]
                .as_str()
                .is_some_and(|text| text.contains(word)),
            "{word:?}: {finding:#}"
        );
    }
    paste(sandbox, &command(&finding), edit);
    assert_eq!(ids(sandbox), [] as [&str; 0], "{finding:#}");
}

fn put(sandbox: &Sandbox, below: &str, bytes: &[u8]) {
    let path = sandbox.path(below);
    fs::create_dir_all(path.parent().expect("it is below the home"))
        .expect("the sandbox is writable");
    fs::write(&path, bytes).expect("the sandbox is writable");
    chmod(sandbox, below, 0o600);
}

fn chmod(sandbox: &Sandbox, below: &str, mode: u32) {
    fs::set_permissions(sandbox.path(below), fs::Permissions::from_mode(mode)).expect("own file");
}

fn mode(sandbox: &Sandbox, below: &str) -> u32 {
    fs::metadata(sandbox.path(below))
        .expect("it is there")
        .mode()
        & 0o777
}

/// Returns every file below the home with its owner, mode, time and content.
fn everything(sandbox: &Sandbox) -> BTreeMap<PathBuf, (u32, u32, i64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut open = vec![sandbox.home()];
    while let Some(path) = open.pop() {
        let Ok(meta) = fs::symlink_metadata(&path) else {
            continue;
        };
        let mut bytes = Vec::new();
        if meta.is_dir() {
            open.extend(
                fs::read_dir(&path)
                    .expect("own directory")
                    .flatten()
                    .map(|entry| entry.path()),
            );
        } else if meta.is_file() {
            bytes = fs::read(&path).expect("own file");
        }
        // The index of a log is SQLite's scratch pad: a reader notes there what it reads. And who
        // opens and closes a database touches its directory.
        if !path.to_string_lossy().ends_with("-shm") {
            let time = if meta.is_dir() {
                0
            } else {
                meta.mtime_nsec() + meta.mtime() * 1_000_000_000
            };
            found.insert(path, (meta.uid(), meta.mode(), time, bytes));
        }
    }
    found
}

// ------------------------------------------------------------------ homes

#[test]
fn a_new_home_is_healthy_and_says_so_on_stderr() {
    let sandbox = healthy();
    let told = doctor(&sandbox, &[]);
    assert_eq!((told.code, told.stdout.as_str()), (0, ""), "{told:?}");
    assert!(told.stderr.starts_with("nothing is wrong\n"), "{told:?}");
    let told = doctor(&sandbox, &["-q"]);
    assert_eq!(
        (told.code, told.stdout.as_str(), told.stderr.as_str()),
        (0, "", "")
    );
    let told = doctor(&sandbox, &["--json"]);
    assert_eq!((told.code, &told.json()["findings"]), (0, &json!([])));
    assert!(
        told.json()["sandbox"].is_string() && told.json()["sandbox_risk"].is_string(),
        "{told:?}"
    );
    // Only of a daemon that runs it is known whether it has control groups.
    assert!(told.json()["sandbox_memory"].is_null(), "{told:?}");
}

#[test]
fn where_nothing_is_init_helps() {
    let nowhere = tempfile::tempdir().expect("the temporary directory is writable");
    for below in ["", "not/yet/there"] {
        let home = nowhere.path().join(below);
        let sandbox = settings_only().env("AGENT_HOME", &home.display().to_string());
        check_cured(
            &sandbox,
            "home-missing",
            "error",
            &["agent.toml", "state"],
            "",
        );
        assert!(home.join("agent.toml").exists());
    }
}

#[test]
fn a_home_that_was_begun_is_finished_by_init_or_by_fix() {
    check_cured(
        &settings_only(),
        "home-unfinished",
        "warning",
        &["agent.toml", "no daemon has ever run"],
        "",
    );
    let sandbox = settings_only();
    assert_eq!(doctor(&sandbox, &["--fix", "-q"]).code, 0);
    assert!(sandbox.path("state/spool/new").is_dir() && sandbox.path("workspace").is_dir());

    let sandbox = healthy();
    fs::remove_file(sandbox.path("agent.toml")).expect("own file");
    check_cured(
        &sandbox,
        "config-missing",
        "warning",
        &["agent.toml", "built-in"],
        "",
    );

    let sandbox = healthy();
    fs::remove_dir(sandbox.path("state/replies")).expect("own directory");
    fs::remove_dir(sandbox.path("state/spool/tmp")).expect("own directory");
    check_cured(
        &sandbox,
        "directories-missing",
        "warning",
        &["state/replies", "state/spool/tmp", "are missing"],
        "",
    );
}

#[test]
fn commands_carry_the_flags_that_lead_to_the_home() {
    let sandbox = settings_only();
    let home = sandbox.home().with_file_name("it's my home");
    let told = doctor(&sandbox, &["--json", "--home", &home.display().to_string()]);
    assert_eq!(listed(&told)[0]["id"], "home-missing");
    paste(&sandbox, &command(&listed(&told)[0]), "");
    assert!(home.join("agent.toml").exists(), "{told:?}");
    let told = doctor(
        &sandbox,
        &[
            "--json",
            "--home",
            &home.display().to_string(),
            "--instance",
            "work",
        ],
    );
    paste(&sandbox, &command(&listed(&told)[0]), "");
    assert!(
        sandbox
            .home()
            .with_file_name("it's my home-work")
            .join("agent.toml")
            .exists(),
        "{told:?}"
    );
    // Where $PATH does not lead to the program, its own path is printed, and how to change that.
    let sandbox = settings_only().env("PATH", "/usr/bin:/bin");
    let told = doctor(&sandbox, &["--json"]);
    paste(&sandbox, &command(&listed(&told)[0]), "");
    let told = doctor(&sandbox, &[]);
    assert_eq!((told.code, told.stdout.as_str()), (0, ""), "{told:?}");
    assert!(told.stderr.contains("export PATH="), "{told:?}");
}

#[test]
fn a_home_that_nobody_can_name_is_a_finding_and_a_wrong_flag_a_mistake() {
    let sandbox = settings_only().env("AGENT_INSTANCE", "no/name");
    assert!(
        only(&sandbox, "home-unknown", "error")["evidence"]
            .as_str()
            .expect("text")
            .contains("AGENT_INSTANCE")
    );
    let told = doctor(&settings_only(), &["--instance", "no/name", "--json"]);
    assert_eq!(
        (told.code, &told.json()["error"]["code"]),
        (2, &json!("usage")),
        "{told:?}"
    );
    let told = doctor(&settings_only(), &["--config", "no-such.toml", "--json"]);
    assert_eq!(listed(&told)[0]["id"], "config-invalid", "{told:?}");
}

#[test]
fn what_stands_in_the_wrong_place_is_named() {
    let sandbox = healthy();
    fs::remove_dir(sandbox.path("state/replies")).expect("own directory");
    put(&sandbox, "state/replies", b"mine");
    let finding = only(&sandbox, "wrong-kind", "error");
    paste(&sandbox, &command(&finding), "");
    assert_eq!(
        sandbox.read("state/replies.aside").as_deref(),
        Some("mine"),
        "nothing is lost"
    );
    check_cured(
        &sandbox,
        "directories-missing",
        "warning",
        &["state/replies"],
        "",
    );

    // A disk that is not there.
    let sandbox = healthy();
    for below in ["workspace", "state"] {
        fs::remove_dir_all(sandbox.path(below)).expect("own directory");
        let disk = sandbox.home().with_file_name("not-mounted");
        std::os::unix::fs::symlink(&disk, sandbox.path(below)).expect("a link");
        let finding = only(&sandbox, "wrong-kind", "error");
        assert!(
            finding["evidence"]
                .as_str()
                .expect("text")
                .contains(&disk.display().to_string()),
            "{finding}"
        );
    }
    let sandbox = settings_only();
    put(&sandbox, "state", b"");
    assert_eq!(
        only(&sandbox, "wrong-kind", "error")["evidence"],
        "state is a file where a directory must be"
    );
    // A FIFO would keep its reader waiting for ever.
    for below in [
        "agent.toml",
        ".env",
        "state/people.json",
        "state/monitor.json",
    ] {
        let sandbox = healthy();
        let _ = fs::remove_file(sandbox.path(below));
        nix::unistd::mkfifo(&sandbox.path(below), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
        chmod(&sandbox, below, 0o600);
        let finding = only(&sandbox, "wrong-kind", "error");
        paste(&sandbox, &command(&finding), "");
        assert!(sandbox.path(&format!("{below}.aside")).exists() && !sandbox.path(below).exists());
    }
    let below_a_file = settings_only().env(
        "AGENT_HOME",
        &sandbox.path("agent.toml/home").display().to_string(),
    );
    only(&below_a_file, "home-unreadable", "error");
}

// ------------------------------------------------------------------ the output

#[test]
fn people_read_blocks_of_at_most_80_columns() {
    let sandbox = healthy();
    chmod(&sandbox, ".env", 0o644);
    fs::remove_dir(sandbox.path("state/replies")).expect("own directory");
    let told = doctor(&sandbox, &[]);
    assert_eq!(told.code, 1, "{told:?}");
    let home = sandbox.home().display().to_string();
    let seen = told
        .stdout
        .replace(&home, "HOME")
        .replace("\n         ", " ");
    let expected = "error    secrets-readable\n  seen   HOME/.env holds secrets, and its mode 0644 lets others read it\n  run    chmod 600 HOME/.env\n\n\
                    warning  directories-missing\n  seen   state/replies is missing\n  run    agent-daemon doctor --fix\n";
    assert_eq!(seen, expected);
    assert!(
        told.stdout
            .lines()
            .filter(|line| !line.starts_with("  run"))
            .all(|line| line.len() <= 80),
        "{told:?}"
    );
    let sums = "1 error, 1 warning\n2 of them can be repaired at once: agent-daemon doctor --fix\n";
    assert!(told.stderr.starts_with(sums), "{told:?}");
    assert_eq!(doctor(&sandbox, &["-q"]).stderr, "");
}

#[test]
fn fix_says_what_it_did_and_then_what_remains() {
    let sandbox = healthy();
    chmod(&sandbox, ".env", 0o644);
    put(&sandbox, "state/people.json", b"{ torn");
    chmod(&sandbox, "state", 0o755);
    chmod(&sandbox, "state/people.json", 0o640);
    fs::remove_dir(sandbox.path("state/replies")).expect("own directory");
    let told = doctor(&sandbox, &["--fix", "--json", "-q"]);
    let fixed: Vec<Value> = told.json()["fixed"].as_array().expect("a list").clone();
    let env = sandbox.path(".env").display().to_string();
    let expected = [
        json!({"id": "secrets-readable", "evidence": format!("chmod 600 {env}")}),
        json!({"id": "directories-missing", "evidence": "made state/replies"}),
        json!({"id": "state-modes", "evidence": "chmod 700 state, chmod 600 state/people.json"}),
    ];
    assert_eq!(fixed, expected, "{told:?}");
    assert_eq!(listed(&told).len(), 1);
    assert_eq!(listed(&told)[0]["id"], "people-damaged");
    assert_eq!(
        sandbox.read("state/people.json").as_deref(),
        Some("{ torn"),
        "what somebody wrote is not touched"
    );
    assert_eq!(
        [".env", "state", "state/people.json"].map(|below| mode(&sandbox, below)),
        [0o600, 0o700, 0o600]
    );

    let told = doctor(&sandbox, &["--fix", "--json"]);
    assert_eq!((told.code, &told.json()["fixed"]), (1, &json!([])));
    chmod(&sandbox, ".env", 0o604);
    let told = doctor(&sandbox, &["--fix"]);
    assert!(
        told.stdout
            .starts_with("fixed    secrets-readable\n  did    chmod 600 "),
        "{told:?}"
    );
    assert!(
        told.stdout.contains("\n\nerror    people-damaged\n"),
        "{told:?}"
    );
}

#[test]
fn a_closed_pipe_is_nobodys_trouble() {
    let sandbox = settings_only();
    let like = sandbox.command("agent-daemon");
    for arguments in ["doctor", "doctor --json", "doctor -q"] {
        let output = Command::new("bash")
            .args([
                "-c",
                &format!("agent-daemon {arguments} | true; echo ${{PIPESTATUS[0]}}"),
            ])
            .env_clear()
            .envs(
                like.get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .output()
            .expect("bash is installed");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "1\n",
            "{arguments}: {output:?}"
        );
        assert!(
            !String::from_utf8_lossy(&output.stderr).contains("panicked"),
            "{output:?}"
        );
    }
}

#[test]
fn looking_changes_nothing_not_even_what_a_crash_left() {
    let sandbox = healthy();
    let mut daemon = sandbox.daemon();
    daemon.wait_ready();
    assert_eq!(sandbox.send(&["--wait", "hello"]).code, 0);
    daemon.kill9();
    chmod(&sandbox, "state/queue.db", 0o644);
    fs::remove_dir_all(sandbox.path("state/replies")).expect("own directory");
    let log = fs::metadata(sandbox.path("state/queue.db-wal")).expect("a crash leaves the log");
    assert!(log.len() > 0);
    let before = everything(&sandbox);
    assert_eq!(
        ids(&sandbox),
        ["directories-missing", "state-modes", "daemon-not-running"]
    );
    let after = everything(&sandbox);
    let changed: Vec<&PathBuf> = before
        .iter()
        .filter(|(path, was)| after.get(*path) != Some(was))
        .map(|(path, _)| path)
        .collect();
    assert!(
        changed.is_empty() && before.len() == after.len(),
        "{changed:?}"
    );
}

/// Runs the doctor as `nobody` in a home of theirs: root may do everything, and so sees less.
struct Nobody {
    dir: tempfile::TempDir,
}

const NOBODY: u32 = 65534;

impl Nobody {
    /// Makes a home in which nothing is wrong; `None` when we are not root.
    fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: only root can become another user");
            return None;
        }
        let dir = tempfile::tempdir().expect("the temporary directory is writable");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("own directory");
        for name in [
            "agent-daemon",
            "agent-send",
            "agent-monitor",
            "agent-index",
            "agent-consolidate",
        ] {
            let copy = dir.path().join(name);
            fs::hard_link(bin(name), &copy)
                .or_else(|_| fs::copy(bin(name), &copy).map(drop))
                .expect("a copy");
        }
        let table = "share/embeddings/table.bin";
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join(table);
        let copy = dir.path().join(table);
        fs::create_dir_all(copy.parent().expect("a directory")).expect("own directory");
        fs::hard_link(&shipped, &copy)
            .or_else(|_| fs::copy(&shipped, &copy).map(drop))
            .expect("a copy");
        let nobody = Self { dir };
        nobody.make("house");
        let told = nobody.run(&["init", "-q"]);
        assert_eq!(told.code, 0, "{told:?}");
        assert_eq!(listed(&nobody.run(&["doctor", "--json"])), [] as [Value; 0]);
        Some(nobody)
    }

    fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    fn make(&self, below: &str) {
        fs::create_dir(self.path(below)).expect("own directory");
        self.give(&self.path(below), NOBODY);
    }

    fn give(&self, path: &Path, user: u32) {
        std::os::unix::fs::chown(path, Some(user), Some(user)).expect("root may");
    }

    fn chmod(&self, below: &str, mode: u32) {
        fs::set_permissions(self.path(below), fs::Permissions::from_mode(mode)).expect("root may");
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let program = self.path("agent-daemon").display().to_string();
        self.start(&[&[program.as_str()], arguments].concat())
    }

    fn paste(&self, line: &str) {
        let told = self.start(&["sh", "-c", line]);
        assert_eq!(told.code, 0, "{line}: {told:?}");
    }

    fn start(&self, words: &[&str]) -> Output {
        let output = Command::new("setpriv")
            .args([
                &format!("--reuid={NOBODY}"),
                &format!("--regid={NOBODY}"),
                "--clear-groups",
            ])
            .args(words)
            .env_clear()
            .env(
                "PATH",
                format!("{}:/usr/bin:/bin", self.dir.path().display()),
            )
            .env("AGENT_HOME", self.path("house/home"))
            .current_dir("/")
            .output()
            .expect("setpriv is part of util-linux");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Output {
            code: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Checks that there is this one finding, runs its command if `cure`, and returns the command.
    fn check(&self, id: &str, cure: bool) -> String {
        let findings = listed(&self.run(&["doctor", "--json"]));
        let found: Vec<&Value> = findings.iter().map(|finding| &finding["id"]).collect();
        assert_eq!(found, [&json!(id)], "{findings:#?}");
        let line = command(&findings[0]);
        if cure {
            self.paste(&line);
            assert_eq!(
                listed(&self.run(&["doctor", "--json"])),
                [] as [Value; 0],
                "{line}"
            );
        }
        line
    }
}

#[test]
fn programs_that_commands_find_are_told_to_the_owner_and_the_model() {
    let (model, sandbox) = Sandbox::with_model();
    let dir = sandbox.home().with_file_name("programs");
    fs::create_dir_all(&dir).expect("dir");
    fs::write(dir.join("pandoc"), "#!/bin/sh\n").expect("write");
    fs::set_permissions(dir.join("pandoc"), fs::Permissions::from_mode(0o755)).expect("own file");
    let mut sandbox = sandbox.env("PATH", &dir.display().to_string());
    let told = doctor(&sandbox, &["--json"]).json();
    assert_eq!(told["programs"], json!(["pandoc"]), "{told}");
    let missing = told["programs_missing"].as_array().expect("a list").clone();
    assert!(missing.contains(&json!("pdftotext")), "{told}");
    let description = |sandbox: &Sandbox| {
        let daemon = sandbox.ready();
        assert_eq!(sandbox.send(&["--wait", "hello"]).code, 0);
        drop(daemon);
        let request = model.requests().pop().expect("a request");
        let mut tools = request["tools"]
            .as_array()
            .expect("tools")
            .clone()
            .into_iter();
        let exec = tools.find(|tool| tool["name"] == "exec");
        exec.map(|tool| tool["description"].to_string())
    };
    let told = description(&sandbox).expect("it is offered");
    assert!(told.contains("Installed: pandoc."), "{told}");
    sandbox.reconfigure("[tools.exec]\npolicy = \"off\"");
    assert_eq!(description(&sandbox), None);
    assert_eq!(
        doctor(&sandbox, &["--json"]).json()["programs"],
        Value::Null
    );
}
