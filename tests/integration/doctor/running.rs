//! Daemons that do not run, hang, or cannot do their work.

use std::{
    fs,
    time::{Duration, SystemTime},
};

use agent_toolkit::{
    clock,
    monitor_state::{self, ChannelState, ProviderState, State},
    sys::{fifo, lock},
};
use nix::sys::signal::Signal;
use rusqlite::Connection;

use super::*;
use crate::support::{FakeTelegram, Fault, FaultKind, wait_for};

const SOON: Duration = Duration::from_secs(20);

fn minutes_ago(minutes: u64) -> SystemTime {
    let now = u64::try_from(clock::now_ms()).expect("after 1970");
    SystemTime::UNIX_EPOCH + Duration::from_millis(now) - Duration::from_secs(60 * minutes)
}

fn text_minutes_ago(minutes: i64) -> String {
    clock::rfc3339(clock::now_ms() - minutes * 60_000)
}

/// What looks like a running daemon, and is this test: it holds the lock and the FIFO and wrote `monitor.json`.
struct Pretender {
    sandbox: Sandbox,
    _lock: lock::Lock,
    fifo: Option<fs::File>,
    state: State,
}

impl Pretender {
    fn new() -> Self {
        let sandbox = healthy();
        let lock = lock::try_lock(&sandbox.path("state/daemon.lock"))
            .expect("own file")
            .expect("nobody else has it");
        let fifo = Some(fifo::open(&sandbox.path("state/control.fifo")).expect("a FIFO"));
        let state = State {
            state: "idle".to_owned(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: text_minutes_ago(60),
            updated_at: text_minutes_ago(0),
            ..State::default()
        };
        let pretender = Self {
            sandbox,
            _lock: lock,
            fifo,
            state,
        };
        pretender.show(|_| {});
        assert_eq!(ids(&pretender.sandbox), [] as [&str; 0]);
        pretender
    }

    /// Writes `monitor.json` with changes.
    fn show(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.clone();
        change(&mut state);
        monitor_state::write(&self.sandbox.path("state/monitor.json"), &state)
            .expect("the sandbox is writable");
    }

    fn check(&self, id: &str, level: &str, says: &[&str]) -> String {
        let finding = only(&self.sandbox, id, level);
        for word in says {
            assert!(
                finding["evidence"]
                    .as_str()
                    .is_some_and(|text| text.contains(word)),
                "{word:?}: {finding:#}"
            );
        }
        command(&finding)
    }
}

#[test]
fn a_daemon_that_works_leaves_nothing_to_say() {
    let sandbox = healthy();
    let mut daemon = sandbox.daemon();
    daemon.wait_ready();
    assert_eq!(sandbox.send(&["--wait", "hello"]).code, 0);
    assert_eq!(ids(&sandbox), [] as [&str; 0]);
    let told = doctor(&sandbox, &["--fix"]);
    assert_eq!((told.code, told.stdout.as_str()), (0, ""), "{told:?}");
}

#[test]
fn a_daemon_that_ran_and_does_not_is_missed_the_more_when_something_waits() {
    let sandbox = healthy();
    let told = sandbox.send(&["hello"]);
    assert_eq!(told.code, 75, "{told:?}");
    let finding = only(&sandbox, "daemon-not-running", "error");
    assert_eq!(
        finding["evidence"],
        "no daemon is running; waiting for it: 1 command in the spool"
    );
    assert_eq!(command(&finding), "agent-daemon run");
    let mut daemon = sandbox.daemon_with(&["run"]);
    daemon.wait_ready();
    wait_for("the command to be taken in", SOON, || {
        ids(&sandbox).is_empty().then_some(())
    });
    assert_eq!(daemon.term(), 0);
    let finding = only(&sandbox, "daemon-not-running", "warning");
    assert!(
        finding["evidence"]
            .as_str()
            .expect("text")
            .contains("the last one was seen"),
        "{finding}"
    );
}

#[test]
fn a_daemon_that_was_stopped_is_continued() {
    let sandbox = healthy();
    let mut daemon = sandbox.daemon();
    daemon.wait_ready();
    daemon.signal(Signal::SIGSTOP);
    let stopped = || {
        let found = findings(&sandbox);
        found
            .first()
            .filter(|finding| finding["id"] == "daemon-stale")
            .cloned()
    };
    let finding = wait_for("the doctor to see it", SOON, stopped);
    assert_eq!(command(&finding), format!("kill -CONT {}", daemon.pid()));
    paste(&sandbox, &command(&finding), "");
    wait_for("the daemon to move", SOON, || {
        ids(&sandbox).is_empty().then_some(())
    });
}

#[test]
fn a_daemon_that_hangs_is_told_by_its_silence() {
    let pretender = Pretender::new();
    pretender.show(|state| state.updated_at = text_minutes_ago(5));
    let line = pretender.check("daemon-stale", "error", &["5 minutes", "it hangs"]);
    assert_eq!(
        line,
        format!("kill -9 {}; agent-daemon run", std::process::id())
    );
    // What another daemon wrote says nothing about one that is just starting.
    pretender.show(|state| (state.pid, state.updated_at) = (1, text_minutes_ago(5)));
    assert_eq!(ids(&pretender.sandbox), [] as [&str; 0]);
    let file = fs::OpenOptions::new()
        .write(true)
        .open(pretender.sandbox.path("state/daemon.lock"))
        .expect("own file");
    file.set_modified(minutes_ago(7)).expect("own file");
    pretender.check("daemon-stale", "error", &["7 minutes"]);
}

#[test]
fn a_daemon_of_another_version_is_named() {
    let pretender = Pretender::new();
    pretender.show(|state| state.version = "0.0.1".to_owned());
    let line = pretender.check(
        "daemon-outdated",
        "warning",
        &["0.0.1", env!("CARGO_PKG_VERSION")],
    );
    assert!(
        line.ends_with("agent-daemon run") || line.contains("systemctl"),
        "{line}"
    );
}

#[test]
fn what_the_daemon_before_wrote_is_not_said_of_the_one_that_starts() {
    let pretender = Pretender::new();
    pretender.show(|state| {
        state.pid = 1;
        state.version = "0.0.1".to_owned();
        state.last_error = Some(format!("{} the disk was full", text_minutes_ago(1)));
        state.channels = vec![ChannelState {
            name: "telegram".to_owned(),
            state: "unauthorized".to_owned(),
            ..ChannelState::default()
        }];
    });
    assert_eq!(ids(&pretender.sandbox), [] as [&str; 0]);
}

#[test]
fn a_fifo_that_nobody_hears_is_named() {
    let mut pretender = Pretender::new();
    pretender.fifo = None;
    // Programs that other tests start have it until they run.
    let fifo = pretender.sandbox.path("state/control.fifo");
    wait_for("a FIFO that nobody has open", SOON, || {
        matches!(fifo::is_heard(&fifo), Ok(false)).then_some(())
    });
    pretender.check("fifo-unheard", "warning", &["was replaced"]);
    // One that is ending has closed it; of one that is starting nothing is known yet.
    pretender.show(|state| state.stopping = true);
    pretender.check("daemon-ending", "warning", &["is ending"]);
    pretender.show(|state| state.pid = 1);
    assert_eq!(ids(&pretender.sandbox), [] as [&str; 0]);
    pretender.show(|_| {});
    fs::remove_file(pretender.sandbox.path("state/control.fifo")).expect("own file");
    pretender.check("fifo-unheard", "warning", &["is gone"]);

    // The command that is printed for a real one helps.
    let sandbox = healthy();
    let mut daemon = sandbox.daemon();
    daemon.wait_ready();
    fs::remove_file(sandbox.path("state/control.fifo")).expect("own file");
    let line = command(&only(&sandbox, "fifo-unheard", "warning"));
    let (end, start) = line.split_once("; ").expect("two commands");
    assert_eq!(
        end,
        format!("kill {0} && tail --pid={0} -f /dev/null", daemon.pid())
    );
    assert_eq!(start, "agent-daemon run");
}

#[test]
fn settings_that_were_changed_are_not_taken_for_those_in_force() {
    let sandbox = healthy();
    let mut daemon = sandbox.daemon();
    daemon.wait_ready();
    let pid = daemon.pid();
    let all = || -> Vec<String> {
        let run = |program, arguments: &[&str]| sandbox.run(program, arguments, "").stdout;
        vec![
            run("agent-send", &["--status"]),
            run("agent-send", &["--cost"]),
            run("agent-monitor", &[]),
        ]
    };
    let words = "agent.toml was changed since the daemon read the settings";
    for told in all() {
        assert!(!told.contains("was changed"), "{told}");
    }
    let settings = sandbox.read("agent.toml").expect("own file");
    put(
        &sandbox,
        "agent.toml",
        format!("{settings}\n# a remark\n").as_bytes(),
    );
    for told in all() {
        assert!(told.contains(words), "{told}");
    }
    let line = command(&only(&sandbox, "settings-unread", "warning"));
    assert_eq!(line, format!("kill -HUP {pid}"));
    paste(&sandbox, &line, "");
    wait_for("the reload", SOON, || {
        ids(&sandbox).is_empty().then_some(())
    });
    for told in all() {
        assert!(!told.contains("was changed"), "{told}");
    }
    // Secrets that were written again as they were are still those in force, once the daemon has looked.
    let secrets = sandbox.read(".env").expect("own file");
    put(&sandbox, ".env", secrets.as_bytes());
    assert_eq!(sandbox.send(&["--wait", "hello"]).code, 0);
    wait_for("the daemon to see that", SOON, || {
        ids(&sandbox).is_empty().then_some(())
    });
    put(&sandbox, ".env", format!("{secrets}A=b\n").as_bytes());
    only(&sandbox, "settings-unread", "warning");
}

#[test]
fn a_provider_that_is_down_is_named() {
    let pretender = Pretender::new();
    pretender.show(|shown| {
        shown.providers = vec![ProviderState {
            name: "claude".to_owned(),
            state: "down".to_owned(),
            since: Some(text_minutes_ago(5)),
            retry_at: Some(text_minutes_ago(4)),
            last_error: Some("api.anthropic.com answered 529: Overloaded".to_owned()),
        }];
    });
    let evidence = ["claude: down for 5 minutes; api.anthropic.com answered 529: Overloaded"];
    assert_eq!(
        pretender.check("provider-down", "warning", &evidence),
        "agent-monitor"
    );
}

#[test]
fn a_channel_in_trouble_is_named() {
    let pretender = Pretender::new();
    let channel = |state: &str, last: Option<i64>| {
        pretender.show(|shown| {
            shown.channels = vec![ChannelState {
                name: "telegram".to_owned(),
                state: state.to_owned(),
                last_ok_at: last.map(text_minutes_ago),
                ..ChannelState::default()
            }];
        });
    };
    channel("unauthorized: the bot token is wrong", None);
    let line = pretender.check(
        "channel-trouble",
        "error",
        &["telegram: unauthorized", "never succeeded"],
    );
    assert!(
        line.starts_with("${EDITOR:-vi} ") && line.ends_with("/.env"),
        "{line}"
    );
    channel(
        "conflict: another program polls with the same token, or a webhook is set",
        Some(3),
    );
    assert_eq!(
        pretender.check("channel-trouble", "error", &["conflict", "3 minutes"]),
        "pgrep -af agent-daemon"
    );
    channel(
        "conflict: another agent-daemon (pid 7) on this machine uses this token",
        Some(3),
    );
    assert_eq!(
        pretender.check("channel-trouble", "error", &["(pid 7)"]),
        "pgrep -af agent-daemon"
    );
    for state in [
        "conflict: a webhook is set for this bot, so that nothing can be fetched",
        "webhook: cannot listen on 1.2.3.4:5: no",
    ] {
        channel(state, None);
        let line = pretender.check("channel-trouble", "error", &[state]);
        assert!(
            line.starts_with("${EDITOR:-vi} ") && line.ends_with("/agent.toml"),
            "{line}"
        );
    }
    channel("no answer to the last poll for 60 s: reconnecting", Some(3));
    assert_eq!(
        pretender.check("channel-trouble", "error", &["for 60 s"]),
        "curl -sS -m 10 -o /dev/null -w '%{http_code}\\n' https://api.telegram.org"
    );
    channel("connecting", None);
    assert_eq!(
        pretender.check("channel-trouble", "error", &["connecting"]),
        "agent-monitor"
    );
    channel("ok", Some(9));
    pretender.check("channel-trouble", "error", &["telegram: ok", "9 minutes"]);
    channel("ok", Some(1));
    assert_eq!(ids(&pretender.sandbox), [] as [&str; 0]);
}

#[test]
fn a_token_that_telegram_refuses_is_seen_from_outside() {
    let telegram = FakeTelegram::start();
    telegram.fault(Fault {
        method: "getUpdates",
        kind: FaultKind::Status(401),
        count: 1000,
    });
    let sandbox = settings_only().with_telegram(&telegram);
    init(&sandbox);
    let mut daemon = sandbox.daemon();
    daemon.wait_ready();
    let seen = wait_for("the doctor to see it", SOON, || {
        let found = findings(&sandbox);
        found.into_iter().find(|finding| {
            finding["id"] == "channel-trouble" && finding.to_string().contains("unauthorized")
        })
    });
    assert!(command(&seen).ends_with("/.env"), "{seen}");
}

#[test]
fn a_new_trouble_is_told_and_an_old_one_is_history() {
    let pretender = Pretender::new();
    pretender.show(|state| {
        state.last_error = Some(format!("{} the model said no", text_minutes_ago(10)))
    });
    let line = pretender.check(
        "daemon-trouble",
        "warning",
        &["10 minutes ago: the model said no"],
    );
    assert!(
        line.starts_with("tail -n 20 ") && line.ends_with("/state/logs/*.jsonl"),
        "{line}"
    );
    pretender.show(|state| {
        state.last_error = Some(format!("{} the model said no", text_minutes_ago(100)))
    });
    assert_eq!(ids(&pretender.sandbox), [] as [&str; 0]);
}

#[test]
fn commands_that_are_not_taken_in_are_named() {
    let pretender = Pretender::new();
    put(&pretender.sandbox, "state/spool/new/fresh.json", b"{}");
    assert_eq!(ids(&pretender.sandbox), [] as [&str; 0]);
    put(&pretender.sandbox, "state/spool/new/old.json", b"{}");
    let file = fs::OpenOptions::new()
        .write(true)
        .open(pretender.sandbox.path("state/spool/new/old.json"))
        .expect("own file");
    file.set_modified(minutes_ago(4)).expect("own file");
    pretender.check(
        "spool-stuck",
        "error",
        &["1 command is", "old.json", "4 minutes"],
    );
}

#[test]
fn a_file_in_the_spool_that_is_no_command_is_named() {
    let sandbox = healthy();
    put(&sandbox, "state/spool/new/my job.json", b"{}");
    fs::create_dir(sandbox.path("state/spool/new/a.d")).expect("own directory");
    chmod(&sandbox, "state/spool/new/a.d", 0o700);
    let finding = only(&sandbox, "spool-ignored", "warning");
    assert!(
        finding["evidence"]
            .as_str()
            .expect("text")
            .contains("my job.json"),
        "{finding}"
    );
    paste(&sandbox, &command(&finding), "");
}

#[test]
fn rows_that_are_stuck_and_dead_letters_are_named() {
    let mut sandbox = healthy();
    let mut daemon = sandbox.daemon();
    daemon.wait_ready();
    assert_eq!(daemon.term(), 0);
    sandbox.reconfigure("[agent]\nrun_timeout_secs = 60");
    let queue = Connection::open(sandbox.path("state/queue.db")).expect("a database");
    let inbox = |id: &str, state: &str, minutes: i64| {
        let sql = "INSERT INTO inbox(id, session_key, envelope, state, received_at, reason) VALUES (?1, 'cli:ada', '{}', ?2, ?3, 'it never ends')";
        queue
            .execute(sql, (id, state, clock::now_ms() - minutes * 60_000))
            .expect("a row");
    };
    inbox("young", "running", 3);
    let finding = only(&sandbox, "daemon-not-running", "error");
    assert!(
        finding["evidence"]
            .as_str()
            .expect("text")
            .contains("1 message unanswered"),
        "{finding}"
    );
    let _lock = lock::try_lock(&sandbox.path("state/daemon.lock"))
        .expect("own file")
        .expect("nobody else has it");
    let _fifo = fifo::open(&sandbox.path("state/control.fifo")).expect("a FIFO");
    assert_eq!(ids(&sandbox), [] as [&str; 0]);
    inbox("old", "running", 10);
    inbox("older", "pending", 11);
    let finding = only(&sandbox, "queue-stuck", "warning");
    let evidence = finding["evidence"].as_str().expect("text");
    assert_eq!(
        evidence,
        "older (cli:ada) is unanswered for 11 minutes, tried 0 times (and 1 more)"
    );
    paste(&sandbox, &command(&finding), "");
    queue
        .execute("DELETE FROM inbox WHERE id LIKE 'old%'", [])
        .expect("rows");
    inbox("forgotten", "dead", 20 * 24 * 60);
    assert_eq!(
        ids(&sandbox),
        [] as [&str; 0],
        "after two weeks the rest is forgotten, too"
    );
    inbox("lost", "dead", 5);
    let finding = only(&sandbox, "dead-letters", "warning");
    assert_eq!(
        finding["evidence"],
        "1 dead letter of the last two weeks; the newest, 5 minutes ago: it never ends"
    );
    paste(&sandbox, &command(&finding), "");
}

#[test]
fn a_lock_that_cannot_be_asked_is_named() {
    let Some(nobody) = Nobody::new() else { return };
    fs::write(nobody.path("house/home/state/daemon.lock"), "").expect("root may");
    nobody.give(&nobody.path("house/home/state/daemon.lock"), NOBODY);
    nobody.chmod("house/home/state/daemon.lock", 0);
    let found: Vec<Value> = listed(&nobody.run(&["doctor", "--json"]))
        .into_iter()
        .map(|finding| finding["id"].clone())
        .collect();
    assert_eq!(found, [json!("lock-unusable"), json!("state-modes")]);
    assert_eq!(nobody.run(&["doctor", "--fix", "-q"]).code, 0);
}
