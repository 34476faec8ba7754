//! The examples of the pages, pasted into a shell: one daemon with the offline provider and a bot, and the
//! home where a user has it.

use std::{fs, os::unix::fs::symlink, path::PathBuf, process::Stdio, time::Duration};

use super::page::{Block, Page};
use crate::support::{FakeTelegram, Output, Sandbox, wait_for};

/// A user with a home directory, whose agent is the sandbox's.
pub(super) struct User {
    pub(super) sandbox: Sandbox,
    _telegram: FakeTelegram,
}

impl User {
    pub(super) fn new() -> Self {
        let telegram = FakeTelegram::start();
        let sandbox = Sandbox::new().with_telegram(&telegram);
        let user = Self {
            sandbox,
            _telegram: telegram,
        };
        let places = [
            (".config", ".", "agent"),
            (".local/state", "state", "agent"),
            (".local/share/agent", "workspace", "workspace"),
        ];
        for (dir, target, name) in places {
            let dir = user.home().join(dir);
            fs::create_dir_all(&dir).expect("the sandbox is writable");
            fs::create_dir_all(user.sandbox.path(target)).expect("the sandbox is writable");
            symlink(user.sandbox.path(target), dir.join(name)).expect("the sandbox is writable");
        }
        user
    }

    fn home(&self) -> PathBuf {
        self.sandbox.path("../user")
    }

    /// Runs a script as if it were pasted, in the home directory.
    pub(super) fn paste(&self, script: &str) -> Output {
        // `watch` wants a terminal; what it watches is run.
        let script = script.replace("watch -c -n1 ", "");
        let mut shell = self.sandbox.shell();
        let output = shell
            .args(["-c", "exec timeout 60 bash -c \"$0\"", &script])
            .env_remove("AGENT_HOME")
            .env("HOME", self.home())
            .env("TMPDIR", self.home())
            .env("TERM", "dumb")
            .current_dir(self.home())
            .stdin(Stdio::null())
            .output()
            .expect("bash and timeout are installed");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Output {
            code: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Returns what is wrong with the examples of a page, of those that are shell.
    fn try_examples(&self, page: &Page) -> Vec<String> {
        let mut wrong = Vec::new();
        for block in examples(page).filter(|block| file_of(block).is_none()) {
            let told = self.paste(&block.text);
            let failed = told.code != 0
                || ["hint: ", "error: ", "not found", "usage:"]
                    .iter()
                    .any(|word| told.stderr.contains(word));
            if failed {
                wrong.push(format!(
                    "man/{}:{}: this does not work when pasted:\n{}\n{told:#?}",
                    page.file, block.line, block.text
                ));
            }
        }
        wrong
    }
}

/// Fails with all of `wrong`, one a line.
fn report(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// Returns what is to be pasted. Single lines (`.Dl`) are for a machine with systemd or cron and not tried.
fn examples(page: &Page) -> impl Iterator<Item = &Block> {
    page.blocks
        .iter()
        .filter(|block| block.section == "EXAMPLES")
}

/// Returns the file that a block is the content of: its first line says so.
fn file_of(block: &Block) -> Option<&str> {
    let name = block.text.lines().next()?.strip_prefix("# ")?;
    (name == ".env" || name.ends_with(".toml")).then_some(name)
}

fn check(file: &str) {
    let user = User::new();
    let _daemon = user.sandbox.ready();
    // While the daemon indexes for the first time, `agent-index` leaves it to it.
    wait_for("the first index", Duration::from_secs(20), || {
        let status = user
            .sandbox
            .run("agent-index", &["status", "--json"], "")
            .json();
        (status["indexed"] == true && status["running"].is_null()).then_some(())
    });
    let page = Page::read(file);
    assert!(examples(&page).count() > 0, "man/{file} has no examples");
    report(&user.try_examples(&page));
}

#[test]
fn the_examples_of_agent_send_work() {
    check("agent-send.1");
}

#[test]
fn the_examples_of_agent_daemon_work() {
    check("agent-daemon.1");
}

#[test]
fn the_examples_of_agent_monitor_work() {
    check("agent-monitor.1");
}

#[test]
fn the_examples_of_agent_index_and_agent_consolidate_work() {
    check("agent-index.1");
    check("agent-consolidate.1");
}

#[test]
fn the_example_of_agent_toml_is_accepted_without_a_warning_and_a_note() {
    let user = User::new();
    let page = Page::read("agent.toml.5");
    let files: Vec<(&str, &Block)> = examples(&page)
        .filter_map(|block| Some((file_of(block)?, block)))
        .collect();
    for name in ["agent.toml", ".env"] {
        assert!(
            files.iter().any(|(file, _)| *file == name),
            "man/agent.toml.5: no example begins with `# {name}`"
        );
    }
    for (name, block) in &files {
        user.sandbox.put(name, block.text.as_bytes());
    }
    let told = user.paste("unset TELEGRAM_BOT_TOKEN; agent-daemon check --json");
    assert_eq!(told.code, 0, "{told:#?}");
    let document = told.json();
    assert_eq!(
        (&document["warnings"], &document["notes"]),
        (&serde_json::json!([]), &serde_json::json!([])),
        "{told:#?}"
    );
    report(&user.try_examples(&page));
}

#[test]
fn the_fields_of_the_answers_are_those_of_agent_send_1() {
    let user = User::new();
    let _daemon = user.sandbox.ready();
    assert_eq!(user.paste("agent-send --id hello-1 --wait hello").code, 0);
    let page = Page::read("agent-send.1");
    let mut asked = 0;
    for item in &page.items {
        let Some(question) = item.head.strip_prefix("Sy --") else {
            continue;
        };
        asked += 1;
        let more = match question {
            "cost" => " --by day",
            "history" => " cli:cli",
            "explain" => " hello-1",
            _ => "",
        };
        let command = format!("agent-send --{question}{more} --json");
        let output = user.paste(&command);
        let document: serde_json::Value = serde_json::from_str(&output.stdout).unwrap_or_default();
        let fields = item
            .text
            .lines()
            .filter_map(|line| line.strip_prefix(".Ql "));
        for field in fields.filter_map(|field| field.split(' ').next()) {
            assert!(
                document.get(field).is_some(),
                "man/{}:{}: `{command}` has no {field}: {output:?}",
                page.file,
                item.line
            );
        }
    }
    assert!(asked >= 8, "JSON DOCUMENTS has a list of the questions");
}

#[test]
fn literal_lines_fit_a_terminal() {
    let mut wrong = Vec::new();
    for file in [
        "agent-daemon.1",
        "agent-send.1",
        "agent-monitor.1",
        "agent-index.1",
        "agent-consolidate.1",
        "agent.toml.5",
        "agent-channel.7",
    ] {
        let page = Page::read(file);
        for block in &page.blocks {
            // 80 columns less the indent of a section and of a display.
            let long = block.text.lines().filter(|line| line.chars().count() > 69);
            wrong.extend(
                long.map(|line| format!("man/{file}:{}: more than 69 columns: {line}", block.line)),
            );
        }
    }
    report(&wrong);
}
