//! `agent-daemon standby`: two homes with the real rsync between them; the first dies, or hands over, and the second goes on.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test spoils files plainly, and says what it skips"
)]

mod attacks;
mod deaths;
mod lost_seconds;

use std::{fs, path::PathBuf, process::Command, time::Duration};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Daemon, FakeModel, FakeTelegram, Output, Running, Sandbox, wait_for};

const SOON: Duration = Duration::from_secs(60);
const OWNER: i64 = 1001;

/// Two machines: the home of the primary, and a directory for that of the standby and the replica.
struct Pair {
    sandbox: Sandbox,
    telegram: FakeTelegram,
    _model: FakeModel,
    dir: TempDir,
}

impl Pair {
    /// `None`, said by name, where a program is missing.
    fn new() -> Option<Self> {
        if Command::new("rsync").arg("--version").output().is_err() {
            assert!(std::env::var_os("CI").is_none(), "rsync is not installed");
            eprintln!("skipped: rsync is not installed");
            return None;
        }
        let telegram = FakeTelegram::start();
        let model = FakeModel::start();
        let sandbox = Sandbox::new()
            .with_telegram(&telegram)
            .with_anthropic(&model);
        Some(Self {
            sandbox,
            telegram,
            _model: model,
            dir: TempDir::with_prefix("agent-standby-")
                .expect("the temporary directory is writable"),
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_owned()
    }

    /// Runs a verb of the primary.
    fn here(&self, arguments: &[&str]) -> Output {
        self.sandbox.run("agent-daemon", arguments, "")
    }

    /// Runs a verb of the standby.
    fn there(&self, arguments: &[&str]) -> Output {
        let home = self.text("home");
        self.here(&[&["--home", &home], arguments].concat())
    }

    /// What a monitoring system hears of the standby.
    fn check_there(&self) -> Output {
        let home = self.text("home");
        let arguments = ["--home", &home, "--check"];
        self.sandbox.run("agent-monitor", &arguments, "")
    }

    /// Starts what pushes.
    fn pushing(&self) -> Running {
        let to = self.text("replica");
        self.sandbox
            .starting("agent-daemon", &["standby", "--to", &to])
    }

    /// Starts the daemon of the other home, as `verb` says.
    fn daemon_there(&self, verb: &[&str]) -> Daemon {
        let home = self.text("home");
        self.sandbox
            .daemon_with(&[&["--home", &home], verb].concat())
    }

    /// Starts what waits, which is the agent when it has taken over.
    fn waiting(&self) -> Daemon {
        self.daemon_there(&["standby", &self.text("replica")])
    }

    fn push_once(&self) -> Output {
        self.here(&["standby", "--to", &self.text("replica"), "--once"])
    }

    fn record(&self) -> Option<Value> {
        let bytes = fs::read(self.path("home/state/standby.json")).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Waits for the first whole push.
    fn wait_pushed(&self) {
        let whole = self.path("replica/push/whole.json");
        wait_for("a replica", SOON, || whole.exists().then_some(()));
    }

    /// Says something and waits for the answer; returns what the chat then shows of it.
    fn ask(&self, words: &str) -> String {
        let (_, id) = self.telegram.say(OWNER, OWNER, words);
        self.telegram
            .wait_sent(|sent| sent.reply_to == Some(id), SOON)
            .text
    }
}

#[test]
fn a_standby_takes_over_and_the_other_machine_does_not_come_back() {
    let Some(pair) = Pair::new() else { return };
    let daemon = pair.sandbox.ready();
    assert!(pair.ask("the boat lies in Lisbon").contains("Lisbon"));
    let pushed = pair.push_once();
    assert_eq!(pushed.code, 0, "{pushed:?}");
    let status = pair.here(&["standby", "--status"]);
    assert!(
        status.code == 0 && status.stdout.contains("not seen yet"),
        "{status:?}"
    );
    let mut pushing = pair.pushing();
    let waiting = pair.waiting();
    wait_for("a proof", SOON, || pair.record()?["proven_at"].as_i64());
    // While it waits there is no agent in it, and nothing makes one.
    for verb in [&["run"][..], &["init", "--yes"], &["check"]] {
        let refused = pair.there(verb);
        let promote = format!(
            "agent-daemon --home {} standby --promote",
            pair.text("home")
        );
        assert!(
            refused.code == 75 || refused.stderr.contains(&promote),
            "{refused:?}"
        );
        assert!(
            refused.code == 75 || refused.code == 78 && refused.stderr.contains("a standby"),
            "{refused:?}"
        );
    }
    let status = pair.there(&["standby", "--status", "--json"]);
    assert_eq!(status.code, 0, "{status:?}");
    assert_eq!(status.json()["role"], "standby");
    let doctor = pair.there(&["doctor", "--json"]);
    assert!(!doctor.stdout.contains("standby-trouble"), "{doctor:?}");
    let check = pair.check_there();
    assert!(
        check.code == 0 && check.stdout.contains("a standby"),
        "{check:?}"
    );
    let status = pair.here(&["standby", "--status"]);
    assert!(
        status.code == 0 && status.stdout.contains("the primary"),
        "{status:?}"
    );

    daemon.kill9();
    pushing.kill9();
    let promoted = pair.there(&["standby", "--promote"]);
    assert!(
        promoted.code == 0 && promoted.stdout.contains("generation 2"),
        "{promoted:?}"
    );
    assert!(!pair.ask("hello again").is_empty());
    let transcripts = fs::read_dir(pair.path("home/state/sessions"))
        .expect("read")
        .flatten();
    let has_it = |path: PathBuf| {
        fs::read_to_string(path)
            .is_ok_and(|text| text.contains("Lisbon") && text.contains("hello again"))
    };
    assert!(
        transcripts.map(|entry| entry.path()).any(has_it),
        "the conversation goes on"
    );
    pair.telegram.wait_sent(
        |sent| sent.chat == OWNER && sent.text.contains("this machine took over"),
        SOON,
    );
    let again = pair.there(&["standby", "--promote"]);
    assert!(
        again.code == 0 && again.stdout.contains("already"),
        "{again:?}"
    );

    // The first machine is switched on again.
    let back = pair.sandbox.daemon();
    let log = pair
        .sandbox
        .home()
        .parent()
        .expect("it lies in a directory")
        .join("daemon.log");
    assert_eq!(back.wait_exit(SOON), 78);
    let told = fs::read_to_string(log).expect("the log");
    assert!(told.contains("has taken over this agent"), "{told}");
    for verb in [&["run"][..], &["standby", "--to", &pair.text("replica")]] {
        let refused = pair.here(verb);
        assert!(
            refused.code == 78 && refused.stderr.contains("replaced"),
            "{refused:?}"
        );
    }
    // Nobody here would ever take it.
    let message = pair.sandbox.run("agent-send", &["good morning"], "");
    assert!(
        message.code == 78 && message.stderr.contains("replaced"),
        "{message:?}"
    );
    let doctor = pair.here(&["doctor", "--json"]);
    assert!(
        doctor.code == 1 && doctor.stdout.contains("standby-trouble"),
        "{doctor:?}"
    );
    // The other one is the agent also after a restart.
    assert_eq!(waiting.term(), 0);
    let mut agent = pair.waiting();
    agent.wait_ready();
    assert!(!pair.ask("and now").is_empty());
    assert_eq!(agent.term(), 0);
    // And it has a standby of its own, in a directory that is not there yet.
    let back = pair.text("back/replica");
    let pushed = pair.there(&["standby", "--to", &back, "--once"]);
    assert_eq!(pushed.code, 0, "{pushed:?}");
    let status = pair.there(&["standby", "--status", "--json"]);
    assert!(
        status.code == 0 && status.json()["generation"] == 2,
        "{status:?}"
    );
}

/// The recipe of docs/howto/backup.md: the machine that is pushed to has no agent, and the copy is brought to a third.
#[test]
fn a_copy_on_a_machine_without_the_agent_becomes_a_home_again() {
    let Some(pair) = Pair::new() else { return };
    let daemon = pair.sandbox.ready();
    pair.ask("remember that the boat lies in Lisbon");
    let pushed = pair.push_once();
    assert_eq!(pushed.code, 0, "{pushed:?}");
    daemon.kill9();
    let (from, to) = (pair.text("replica"), pair.text("brought"));
    let copied = Command::new("rsync")
        .args(["-a", &format!("{from}/"), &to])
        .status();
    assert!(copied.expect("it starts").success());
    let taken = pair.there(&["standby", &to, "--promote"]);
    assert!(
        taken.code == 0 && taken.stdout.contains("taken over"),
        "{taken:?}"
    );
    let _daemon = pair.daemon_there(&["run"]);
    let transcripts = fs::read_dir(pair.path("home/state/sessions")).expect("sessions");
    let mut texts =
        transcripts.filter_map(|file| fs::read_to_string(file.expect("a file").path()).ok());
    assert!(texts.any(|text| text.contains("Lisbon")));
    pair.ask("are you there?");
}

#[test]
fn a_home_whose_state_lies_on_another_disk_is_pushed() {
    let Some(pair) = Pair::new() else { return };
    let daemon = pair.sandbox.ready();
    assert!(pair.ask("the boat lies in Lisbon").contains("Lisbon"));
    assert_eq!(daemon.term(), 0);
    let (state, disk) = (pair.sandbox.path("state"), pair.path("disk"));
    fs::rename(&state, &disk).expect("the state elsewhere");
    std::os::unix::fs::symlink(&disk, &state).expect("a link");
    let pushed = pair.push_once();
    assert_eq!(pushed.code, 0, "{pushed:?}");
    assert!(pair.path("replica/push/whole.json").exists());
}

#[test]
fn a_proof_names_the_secrets_that_the_standby_lacks() {
    let Some(pair) = Pair::new() else { return };
    // Not of the environment, which both homes of this test have.
    let collection = "[memory.collections.docs]\nurl = \"postgres://a@127.0.0.1:1/x\"\npassword_env = \"DOCS_PASSWORD\"\n";
    let file = pair.sandbox.path("agent.toml");
    let before = fs::read_to_string(&file).unwrap_or_default();
    fs::write(&file, format!("{before}{collection}")).expect("writable");
    pair.sandbox.put(".env", b"DOCS_PASSWORD=x\nUNUSED=y\n");
    let daemon = pair.sandbox.ready();
    let pushed = pair.push_once();
    assert_eq!(pushed.code, 0, "{pushed:?}");
    let (replica, home) = (pair.text("replica"), pair.path("home"));
    let proof = || pair.there(&["standby", &replica, "--once"]);
    let told = proof();
    let all = format!("{}{}", told.stdout, told.stderr);
    assert!(
        told.code == 1
            && all.contains("secrets that are not here: DOCS_PASSWORD; write them in")
            && !all.contains("UNUSED"),
        "{told:?}"
    );
    assert!(pair.record().expect("a record")["proven_at"].is_i64());
    fs::write(home.join(".env"), "DOCS_PASSWORD=x\n").expect("writable");
    let told = proof();
    assert_eq!(told.code, 0, "{told:?}");
    drop(daemon);
}

#[test]
fn a_planned_switch_loses_nothing_and_can_be_taken_back() {
    let Some(pair) = Pair::new() else { return };
    let daemon = pair.sandbox.ready();
    assert!(!pair.ask("one").is_empty());
    let replica = pair.text("replica");
    let over = ["standby", "--to", &replica, "--hand-over"];
    let busy = pair.here(&over);
    assert!(
        busy.code == 75 && busy.stderr.contains("a daemon runs"),
        "{busy:?}"
    );
    assert_eq!(daemon.term(), 0);
    // Said while nobody is there: Telegram keeps it.
    let (_, waits) = pair.telegram.say(OWNER, OWNER, "two");
    let handed = pair.here(&over);
    assert_eq!(handed.code, 0, "{handed:?}");
    let refused = pair.here(&["run"]);
    assert!(
        refused.code == 78 && refused.stderr.contains("handed over"),
        "{refused:?}"
    );
    let message = pair.sandbox.run("agent-send", &["good morning"], "");
    assert!(
        message.code == 78 && message.stderr.contains("handed over"),
        "{message:?}"
    );
    let doctor = pair.here(&["doctor"]);
    let monitor = pair.sandbox.run("agent-monitor", &[], "");
    for told in [doctor, monitor] {
        let words = ["handed over", "standby --promote", "take it back"];
        assert!(
            words.iter().all(|word| told.stdout.contains(word))
                && !told.stdout.contains("start it")
                && !told.stdout.contains("daemon-not-running"),
            "{told:?}"
        );
    }
    let back = pair.here(&["standby", "--promote"]);
    assert!(
        back.code == 0 && back.stdout.contains("taken back"),
        "{back:?}"
    );
    let handed = pair.here(&over);
    assert_eq!(handed.code, 0, "{handed:?}");

    let promoted = pair.there(&["standby", &replica, "--promote"]);
    assert!(
        promoted.code == 0
            && promoted.stdout.contains("generation 2")
            && promoted.stdout.contains("nothing is missing"),
        "{promoted:?}"
    );
    let refused = pair.here(&["standby", "--promote"]);
    assert!(
        refused.code == 78 && refused.stderr.contains("has taken over"),
        "{refused:?}"
    );
    let mut agent = pair.daemon_there(&["run"]);
    agent.wait_ready();
    let answer = pair
        .telegram
        .wait_sent(|sent| sent.reply_to == Some(waits), SOON);
    assert!(!answer.text.starts_with("(resent)"), "{answer:?}");
    let count = pair
        .telegram
        .sent()
        .iter()
        .filter(|sent| sent.reply_to.is_some())
        .count();
    assert_eq!(count, 2, "each once");
    assert_eq!(agent.term(), 0);
}

#[test]
fn a_primary_that_lives_ends_when_its_standby_takes_over() {
    let Some(pair) = Pair::new() else { return };
    let daemon = pair.sandbox.ready();
    let pushing = pair.pushing();
    pair.wait_pushed();
    let promoted = pair.there(&["standby", &pair.text("replica"), "--promote"]);
    assert_eq!(promoted.code, 0, "{promoted:?}");
    // The next push sees it; it comes when something changes, or within a minute.
    pair.telegram.say(OWNER, OWNER, "are you there");
    let ended = pushing.end();
    assert!(
        ended.code == 78 && ended.stderr.contains("has taken over this agent"),
        "{ended:?}"
    );
    assert_eq!(daemon.wait_exit(SOON), 0, "as it ends when it is told to");
    assert_eq!(pair.here(&["run"]).code, 78);
}

#[test]
fn one_replica_has_one_primary_and_one_successor() {
    let Some(pair) = Pair::new() else { return };
    let daemon = pair.sandbox.ready();
    assert!(!pair.ask("hello").is_empty());
    assert_eq!(daemon.term(), 0);
    let pushed = pair.push_once();
    assert_eq!(pushed.code, 0, "{pushed:?}");
    // A second standby could take over as well, and the generation would be written to the last one alone.
    let refused = pair.here(&["standby", "--to", &pair.text("second"), "--once"]);
    assert!(
        refused.code == 78 && refused.stderr.contains("the standby of this home is"),
        "{refused:?}"
    );
    let replica = pair.text("replica");
    let promoted = pair.there(&["standby", &replica, "--promote"]);
    assert_eq!(promoted.code, 0, "{promoted:?}");
    let third = pair.text("third");
    let refused = pair.here(&["--home", &third, "standby", &replica, "--promote"]);
    assert!(
        refused.code == 78 && refused.stderr.contains("has taken over"),
        "{refused:?}"
    );
    assert!(!pair.path("third/state/queue.db").exists());
}

#[test]
fn a_wrong_clock_of_the_primary_marks_no_later_message() {
    let Some(pair) = Pair::new() else { return };
    let daemon = pair.sandbox.ready();
    assert!(!pair.ask("hello").is_empty());
    assert_eq!(daemon.term(), 0);
    let pushed = pair.push_once();
    assert_eq!(pushed.code, 0, "{pushed:?}");
    let path = pair.path("replica/push/whole.json");
    let mut whole: Value = serde_json::from_slice(&fs::read(&path).expect("read")).expect("JSON");
    whole["pushed_at"] = 4_102_444_800_000_i64.into();
    fs::write(&path, whole.to_string()).expect("write");
    let promoted = pair.there(&["standby", &pair.text("replica"), "--promote"]);
    assert!(
        promoted.code == 0 && !promoted.stdout.contains("after 2100-"),
        "{promoted:?}"
    );
    // Telegram's times are whole seconds.
    std::thread::sleep(Duration::from_millis(1100));
    let mut agent = pair.daemon_there(&["run"]);
    agent.wait_ready();
    let answer = pair.ask("later");
    assert!(!answer.starts_with("(resent)"), "{answer}");
    assert_eq!(agent.term(), 0);
}

#[test]
fn a_primary_without_sight_of_its_replica_goes_on_and_says_so() {
    let Some(pair) = Pair::new() else { return };
    let pushed = pair.push_once();
    assert_eq!(pushed.code, 0, "{pushed:?}");
    fs::rename(pair.path("replica"), pair.path("away")).expect("own directory");
    let daemon = pair.sandbox.ready();
    assert!(!pair.ask("hello").is_empty());
    assert!(
        daemon
            .log()
            .contains("it is unknown whether the standby has taken over"),
        "{}",
        daemon.log()
    );
    assert_eq!(daemon.term(), 0);
}
