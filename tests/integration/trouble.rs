//! Things that are broken before the agent touches them: files, disks, clocks. Each is named, with the next
//! step and the right exit code, and nothing is lost.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test breaks files plainly, and says when it is skipped"
)]

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        net::UnixDatagram,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{FakeModel, FakeTelegram, Fault, FaultKind, Reply, Sandbox, bin, wait_for};

/// Long against everything that happens here, short against the patience of a reader.
const SOON: Duration = Duration::from_secs(20);

/// Checks that the daemon does not start, and that it says what is wrong and what to do.
fn check_refused(sandbox: &Sandbox, code: i32, says: &[&str]) -> String {
    let told = sandbox.run("agent-daemon", &[], "");
    assert_eq!((told.code, told.stdout.as_str()), (code, ""), "{told:?}");
    for word in says {
        assert!(
            told.stderr.contains(word),
            "{word:?} is not named: {}",
            told.stderr
        );
    }
    assert!(told.stderr.contains("agent-daemon: "), "{}", told.stderr);
    assert!(
        told.stderr.contains("\nhint: "),
        "there is no next step: {}",
        told.stderr
    );
    told.stderr
}

/// Returns the names beside `below` that begin like it and were set aside.
fn set_aside(sandbox: &Sandbox, below: &str) -> Vec<PathBuf> {
    let path = sandbox.path(below);
    let name = format!(
        "{}.corrupt-",
        path.file_name().expect("a file").to_string_lossy()
    );
    let entries = fs::read_dir(path.parent().expect("a directory"))
        .expect("it is there")
        .flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name()
                .is_some_and(|found| found.to_string_lossy().starts_with(&name))
        })
        .collect()
}

fn last_error(sandbox: &Sandbox) -> String {
    sandbox.send(&["--status", "--json"]).json()["last_error"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

// ------------------------------------------------------------------ settings

#[test]
fn a_setting_that_cannot_be_is_named_with_its_file() {
    for (source, says) in [
        ("[agent\nname = 1", &["agent.toml:1:", "[agent"][..]),
        (
            "[agent]\nmax_turns = \"many\"",
            &["agent.toml:2", "max_turns"],
        ),
        (
            "[agent]\ntimezone = \"Mars/Olympus\"",
            &["agent.toml:2", "timezone", "Mars/Olympus"],
        ),
        (
            "[pipeline]\non_busy = \"panic\"",
            &["agent.toml:2", "on_busy", "panic", "queue"],
        ),
        (
            "[providers]\nload = [\"nobody\"]",
            &["nobody.toml", "providers.load"],
        ),
        (
            "[routing]\ncli = \"no-such-model\"",
            &["agent.toml", "routing", "no-such-model", "offline"],
        ),
        (
            "[telegram]\nenabled = true",
            &["telegram", "TELEGRAM_BOT_TOKEN"],
        ),
        ("agent = 5", &["agent.toml", "agent"]),
    ] {
        let sandbox = Sandbox::new();
        sandbox.put("agent.toml", source.as_bytes());
        check_refused(&sandbox, 78, says);
        let told = sandbox.run("agent-daemon", &["check"], "");
        assert_eq!(told.code, 78, "{source}: {told:?}");
        let told = sandbox.run("agent-daemon", &["check", "--json"], "");
        assert_eq!(
            (told.code, &told.json()["error"]["code"]),
            (78, &json!("configuration")),
            "{source}"
        );
        assert_eq!(
            sandbox.read("agent.toml").as_deref(),
            Some(source),
            "it is never renamed or rewritten"
        );
    }
}

#[test]
fn a_file_of_settings_that_is_no_text_is_named() {
    let sandbox = Sandbox::new();
    sandbox.put("agent.toml", b"[agent]\nname = \"\xff\xfe\"\n");
    check_refused(&sandbox, 78, &["agent.toml"]);
    let (_model, sandbox) = Sandbox::with_model();
    sandbox.put("providers.d/mock.toml", b"type = \"telepathy\"");
    check_refused(&sandbox, 78, &["mock.toml", "telepathy", "anthropic"]);
}

#[test]
fn secrets_that_others_can_read_are_refused() {
    let (_model, sandbox) = Sandbox::with_model();
    sandbox.put(".env", b"MOCK_KEY=sk-canary\n");
    fs::set_permissions(sandbox.path(".env"), fs::Permissions::from_mode(0o644)).expect("own file");
    let told = check_refused(&sandbox, 78, &[".env", "0644", "chmod 600"]);
    assert!(!told.contains("sk-canary"), "{told}");
    fs::set_permissions(sandbox.path(".env"), fs::Permissions::from_mode(0o600)).expect("own file");
    sandbox.ready();
}

#[test]
fn a_missing_key_is_named_with_the_file_that_wants_it() {
    let model = FakeModel::start();
    let sandbox = Sandbox::new()
        .with_anthropic(&model)
        .provider_config("mock", "api_key_env = \"NO_SUCH_KEY\"");
    check_refused(&sandbox, 78, &["NO_SUCH_KEY", "mock.toml", ".env"]);
}

#[test]
fn a_reload_takes_what_is_valid_and_refuses_the_rest() {
    let (model, mut sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    let failing = |sandbox: &Sandbox| {
        model.push(Reply::Status(400, None));
        sandbox.send(&["--wait", "fail"])
    };
    assert_eq!(sandbox.send(&["--wait", "hello"]).code, 0);

    // Broken: what runs goes on as it was, and says so.
    let good = sandbox.read("agent.toml").expect("it is there");
    sandbox.put("agent.toml", b"[agent\n");
    daemon.signal(Signal::SIGHUP);
    wait_for("the status to say so", SOON, || {
        last_error(&sandbox).contains("agent.toml").then_some(())
    });
    let check = sandbox.run("agent-monitor", &["--check"], "");
    assert!(
        check.code == 1 && check.stdout.contains("agent.toml:1:"),
        "{check:?}"
    );
    assert_eq!(
        sandbox.send(&["--wait", "still here?"]).stdout,
        "echo: still here?\n"
    );
    sandbox.put("agent.toml", good.as_bytes());

    // Valid, by signal: a cap that no call fits under.
    sandbox.reconfigure("[cost]\nday_usd = 0.0001");
    daemon.signal(Signal::SIGHUP);
    wait_for("the cap", SOON, || {
        sandbox
            .send(&["--wait", "hello"])
            .stderr
            .contains("day_usd = 0.00")
            .then_some(())
    });
    wait_for("the old trouble to go", SOON, || {
        let told = last_error(&sandbox);
        (told.contains("day's limit is spent") && !told.contains("was not read again"))
            .then_some(())
    });
    let check = sandbox.run("agent-monitor", &["--check"], "");
    assert!(!check.stdout.contains("agent.toml"), "{check:?}");
    // Valid, by the FIFO.
    sandbox.reconfigure("[cost]\nday_usd = 0.0\n[agent]\nname = \"renamed\"");
    let reload = "echo '{\"cmd\":\"reload\"}' > state/control.fifo";
    let told = Command::new("sh")
        .args(["-c", reload])
        .current_dir(sandbox.home())
        .status()
        .expect("there is a shell");
    assert!(told.success());
    wait_for("the cap to be gone", SOON, || {
        (sandbox.send(&["--wait", "hello"]).code == 0).then_some(())
    });
    wait_for("the status to be clear", SOON, || {
        last_error(&sandbox).is_empty().then_some(())
    });
    assert!(
        model.requests().last().expect("a request")["system"]
            .to_string()
            .contains("You are renamed")
    );
    assert_eq!(failing(&sandbox).code, 1);
    assert_eq!(daemon.term(), 0);
}

#[test]
fn a_reload_while_the_settings_are_gone_or_no_file_keeps_those_in_force() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model);
    let daemon = sandbox.ready();
    let path = sandbox.path("agent.toml");
    let good = sandbox.read("agent.toml").expect("it is there");
    let make_fifo = || {
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    };
    let gone = "agent.toml is missing or empty";
    let in_the_way: [(&str, &dyn Fn()); 3] = [
        (gone, &|| {}),
        (gone, &|| drop(sandbox.put("agent.toml", b"# nothing\n"))),
        ("agent.toml: it is no regular file", &make_fifo),
    ];
    for (number, (says, put)) in (1..).zip(in_the_way) {
        fs::remove_file(&path).expect("own file");
        put();
        daemon.signal(Signal::SIGHUP);
        wait_for("the status to say so", SOON, || {
            last_error(&sandbox).contains(says).then_some(())
        });
        telegram.say(1001, 1001, &format!("still mine, {number}"));
        let answer = format!("echo: still mine, {number}");
        telegram.wait_sent(|sent| sent.text == answer, SOON);
        fs::remove_file(&path).ok();
        sandbox.put("agent.toml", good.as_bytes());
        daemon.signal(Signal::SIGHUP);
        wait_for("the trouble to go", SOON, || {
            (!last_error(&sandbox).contains("agent.toml")).then_some(())
        });
    }
    assert_eq!(daemon.term(), 0);
}

#[test]
fn a_new_error_message_is_said_from_the_next_failure_on() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let mut sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .config("[agent]\nerror_message = \"Alas.\"");
    let daemon = sandbox.ready();
    model.push(Reply::Status(400, None));
    telegram.say(1002, 1002, "one");
    assert_eq!(
        telegram.wait_sent(|sent| sent.chat == 1002, SOON).text,
        "Alas.",
        "a guest is not told why"
    );
    sandbox.reconfigure("[agent]\nerror_message = \"Oh dear.\"");
    daemon.signal(Signal::SIGHUP);
    wait_for("the new words", SOON, || {
        model.push(Reply::Status(400, None));
        let (_, id) = telegram.say(1001, 1001, "two");
        let sent = telegram.wait_sent(|sent| (sent.chat, sent.reply_to) == (1001, Some(id)), SOON);
        sent.text.starts_with("Oh dear.\n").then_some(())
    });
}

// ------------------------------------------------------------------ files in the way

#[test]
fn what_stands_at_the_place_of_the_fifo_is_not_touched() {
    let make: [fn(&Path); 3] = [
        |path| fs::write(path, "precious").expect("the sandbox is writable"),
        |path| symlink("/dev/null", path).expect("the sandbox is writable"),
        |path| fs::create_dir(path).expect("the sandbox is writable"),
    ];
    for make in make {
        let (_model, sandbox) = Sandbox::with_model();
        fs::create_dir_all(sandbox.path("state")).expect("the sandbox is writable");
        let path = sandbox.path("state/control.fifo");
        make(&path);
        let before = fs::symlink_metadata(&path).expect("it is there");
        check_refused(&sandbox, 74, &["control.fifo"]);
        let after = fs::symlink_metadata(&path).expect("it is there still");
        // The mode may be made private, as that of everything below state/.
        assert_eq!(
            (before.file_type(), before.len()),
            (after.file_type(), after.len())
        );
    }
}

#[test]
fn a_second_daemon_ends_with_75_and_the_first_does_not_notice() {
    let (_model, sandbox) = Sandbox::with_model();
    let first = sandbox.ready();
    let pid = first.pid().to_string();
    let told = check_refused(&sandbox, 75, &["another daemon", &pid]);
    assert!(told.contains("state"), "{told}");
    assert_eq!(sandbox.send(&["--wait", "hello"]).stdout, "echo: hello\n");
    assert_eq!(first.term(), 0);
    // A lock dies with its holder, however it died.
    let second = sandbox.ready();
    second.kill9();
    assert_eq!(sandbox.ready().term(), 0);
}

#[test]
fn a_daemon_whose_lock_is_removed_takes_it_again_or_ends_when_another_has_the_home() {
    let (_model, sandbox) = Sandbox::with_model();
    let first = sandbox.ready();
    let lock = sandbox.path("state/daemon.lock");
    fs::remove_file(&lock).expect("own file");
    wait_for("the lock to be there again", SOON, || {
        lock.exists().then_some(())
    });
    let pid = first.pid().to_string();
    check_refused(&sandbox, 75, &["another daemon", &pid]);
    // As another daemon that was quicker.
    let theirs = sandbox.path("state/theirs.lock");
    let _held = agent_toolkit::sys::lock::try_lock(&theirs).expect("a lock");
    fs::rename(&theirs, &lock).expect("own file");
    assert_eq!(first.wait_exit(SOON), 75);
}

#[test]
fn a_torn_transcript_keeps_every_whole_line() {
    let (model, sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--wait", "one"]).code, 0);
    assert_eq!(daemon.term(), 0);
    let sessions = sandbox.path("state/sessions");
    let files: Vec<PathBuf> = fs::read_dir(&sessions)
        .expect("there is a session")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    for path in &files {
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if name.ends_with(".jsonl") {
            let mut transcript = fs::read(path).expect("own file");
            transcript.extend_from_slice(
                b"{\"v\":1,\"ts\":\"2026-01-01T00:00:00Z\",\"seq\":99,\"type\":\"mess",
            );
            fs::write(path, transcript).expect("own file");
        } else if name.ends_with(".state.json") {
            fs::write(path, "{\"v\":1,\"last_").expect("own file");
        }
    }
    let daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--wait", "two"]).stdout, "echo: two\n");
    let messages = &model.requests()[1]["messages"];
    assert_eq!(messages.as_array().map(Vec::len), Some(3), "{messages}");
    assert!(messages.to_string().contains("echo: one"), "{messages}");
    assert_eq!(daemon.term(), 0);
    for path in files.iter().filter(|path| {
        path.extension()
            .is_some_and(|extension| extension == "jsonl")
    }) {
        let transcript = fs::read_to_string(path).expect("own file");
        assert!(
            transcript
                .lines()
                .all(|line| serde_json::from_str::<Value>(line).is_ok()),
            "{transcript}"
        );
    }
}

#[test]
fn a_damaged_queue_is_set_aside_and_reported() {
    let (_model, sandbox) = Sandbox::with_model();
    assert_eq!(sandbox.ready().term(), 0);
    for extra in ["-wal", "-shm"] {
        let _ = fs::remove_file(sandbox.path(&format!("state/queue.db{extra}")));
    }
    sandbox.put("state/queue.db", &b"garbage ".repeat(900));
    let daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--wait", "hello"]).stdout, "echo: hello\n");
    wait_for("the report", SOON, || {
        last_error(&sandbox).contains("queue.db").then_some(())
    });
    assert!(daemon.log().contains("queue.db"), "{}", daemon.log());
    let aside = set_aside(&sandbox, "state/queue.db");
    assert_eq!(aside.len(), 1, "{aside:?}");
    assert_eq!(
        fs::read(&aside[0]).expect("own file"),
        b"garbage ".repeat(900),
        "it is kept as it was"
    );
}

#[test]
fn a_queue_that_is_removed_while_the_daemon_runs_is_named_until_it_is_back() {
    let (_model, sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    let (path, aside) = (sandbox.path("state/queue.db"), sandbox.path("queue.db"));
    fs::rename(&path, &aside).expect("own file");
    let is_named = || last_error(&sandbox).contains("queue.db was removed or replaced");
    wait_for("the trouble", SOON, || is_named().then_some(()));
    assert!(daemon.log().contains("queue.db was removed"));
    fs::rename(&aside, &path).expect("own file");
    wait_for("its end", SOON, || (!is_named()).then_some(()));
}

#[test]
fn a_damaged_ledger_stops_the_daemon_only_when_there_is_a_limit_to_keep() {
    let (_model, mut sandbox) = Sandbox::with_model();
    sandbox.put("state/cost.db", &b"garbage ".repeat(900));
    sandbox.reconfigure("[cost]\nday_usd = 5.0");
    check_refused(&sandbox, 65, &["cost.db"]);
    assert_eq!(set_aside(&sandbox, "state/cost.db"), [] as [PathBuf; 0]);
    assert_eq!(
        fs::read(sandbox.path("state/cost.db"))
            .expect("own file")
            .len(),
        7200,
        "it is not touched"
    );

    sandbox.reconfigure("[cost]\nday_usd = 0.0");
    let daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--wait", "hello"]).stdout, "echo: hello\n");
    assert_eq!(set_aside(&sandbox, "state/cost.db").len(), 1);
    assert!(daemon.log().contains("cost.db"), "{}", daemon.log());
    wait_for("the report", SOON, || {
        last_error(&sandbox).contains("cost.db").then_some(())
    });
}

#[test]
fn a_damaged_list_of_people_lets_nobody_in_but_the_owner() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .config("[telegram]\ndm_policy = \"pairing\"\nallow_from = []");
    sandbox.put("state/people.json", b"{\"allowed\": [{\"id\": 5005, \"na");
    let _daemon = sandbox.ready();
    telegram.say(5005, 5005, "[[say I am in]]");
    telegram.say(1001, 1001, "me");
    telegram.wait_sent(|sent| sent.text == "echo: me", SOON);
    assert!(
        telegram.sent().iter().all(|sent| sent.text != "I am in"),
        "{:?}",
        telegram.sent()
    );
    assert_eq!(model.requests().len(), 1);
}

#[test]
fn spool_files_that_make_no_sense_are_set_aside_and_the_rest_is_done() {
    let (model, sandbox) = Sandbox::with_model();
    assert_eq!(sandbox.send(&["--id", "zz-good", "good"]).code, 75);
    sandbox.put(
        "state/spool/new/a-garbage.json",
        b"{\"v\":1,\"id\":\"a-garbage\",\"cmd\":\"us",
    );
    sandbox.put(
        "state/spool/new/b-latin1.json",
        b"{\"v\":1,\"id\":\"b-latin1\",\"cmd\":\"user\",\"text\":\"caf\xe9\"}",
    );
    sandbox.put(
        "state/spool/new/c-other.json",
        b"{\"v\":1,\"id\":\"somebody\",\"cmd\":\"user\",\"text\":\"x\"}",
    );
    sandbox.put("state/spool/new/notes.txt", b"mine");
    fs::create_dir(sandbox.path("state/spool/new/d-dir.json")).expect("the sandbox is writable");
    symlink("/etc/passwd", sandbox.path("state/spool/new/e-link.json"))
        .expect("the sandbox is writable");
    let daemon = sandbox.ready();
    assert_eq!(
        sandbox.send(&["--result", "zz-good", "--wait=20"]).stdout,
        "echo: good\n"
    );
    for id in ["a-garbage", "b-latin1", "c-other"] {
        let told = sandbox.send(&["--result", id, "--wait=10"]);
        assert_eq!((told.code, told.stdout.as_str()), (1, ""), "{id}: {told:?}");
        assert!(
            !sandbox.path(&format!("state/spool/new/{id}.json")).exists(),
            "{id} would be tried for ever"
        );
    }
    assert_eq!(
        sandbox.read("state/spool/new/notes.txt").as_deref(),
        Some("mine")
    );
    assert!(!daemon.log().contains("root:"), "a link is not followed");
    assert_eq!(model.requests().len(), 1);
    assert_eq!(
        sandbox.send(&["--wait", "still here?"]).stdout,
        "echo: still here?\n"
    );
}

// ------------------------------------------------------------------ disks

/// A daemon in a mount namespace of its own, whose state lies on a small disk.
struct OnSmallDisk {
    child: Child,
    log: PathBuf,
}

impl OnSmallDisk {
    /// Starts one; `None`, with a word why, where this machine does not let us.
    fn start(sandbox: &Sandbox, mount: &str) -> Option<Self> {
        let possible = Command::new("unshare")
            .args(["-m", "sh", "-c", "mount -t tmpfs -o size=64k tmpfs /mnt"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !possible {
            println!("skipped: no mount namespaces here (unshare -m needs root)");
            return None;
        }
        fs::create_dir_all(sandbox.path("state")).expect("the sandbox is writable");
        let log = sandbox.home().with_file_name("small-disk.log");
        let file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .expect("the sandbox is writable");
        let like = sandbox.command("agent-daemon");
        let mut command = Command::new("unshare");
        command
            .args(["-m", "sh", "-c", &format!("{mount} && exec \"$1\""), "sh"])
            .arg(bin("agent-daemon"))
            .env_clear()
            .envs(
                like.get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a file descriptor is free"))
            .stderr(file);
        Some(Self {
            child: command.spawn().expect("unshare starts"),
            log,
        })
    }

    /// Returns a path of the home as the daemon sees it.
    fn path(&self, sandbox: &Sandbox, below: &str) -> PathBuf {
        let home = sandbox.path(below);
        Path::new("/proc")
            .join(self.child.id().to_string())
            .join("root")
            .join(home.strip_prefix("/").expect("absolute"))
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for OnSmallDisk {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_full_disk_delays_what_comes_and_loses_nothing() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model);
    let mount = "mount -t tmpfs -o size=4m,mode=0700 tmpfs \"$AGENT_HOME/state\"";
    let Some(daemon) = OnSmallDisk::start(&sandbox, mount) else {
        return;
    };
    let (_, before) = telegram.say(1001, 1001, "before");
    telegram.wait_sent(|sent| sent.reply_to == Some(before), SOON);

    // Fill it to the last byte.
    let ballast = daemon.path(&sandbox, "state/ballast");
    let filled = Command::new("dd")
        .arg(format!("of={}", ballast.display()))
        .args(["if=/dev/zero", "bs=4k"])
        .stderr(Stdio::null())
        .status();
    assert!(
        !filled.expect("dd is installed").success(),
        "the disk is full: {}",
        daemon.log()
    );
    let ids: Vec<i64> = (0..3)
        .map(|number| {
            telegram
                .say(1001, 1001, &format!("into the void {number}"))
                .1
        })
        .collect();
    wait_for("the daemon to notice", SOON, || {
        daemon.log().contains("full").then_some(())
    });
    assert!(
        telegram
            .sent()
            .iter()
            .all(|sent| !sent.text.starts_with("echo: into")),
        "what is not stored is not answered"
    );
    let inside = |program: &str, arguments: &[&str]| {
        Command::new("nsenter")
            .args(["-t", &daemon.child.id().to_string(), "-m"])
            .arg(bin(program))
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("AGENT_HOME", sandbox.home())
            .output()
            .expect("nsenter comes with unshare")
    };
    for (program, arguments, code, says) in [
        (
            "agent-monitor",
            &[][..],
            1,
            "cannot write  the disk is full",
        ),
        (
            "agent-monitor",
            &["--check"],
            2,
            "AGENT CRITICAL - cannot write, the disk is full",
        ),
        (
            "agent-send",
            &["--status"],
            0,
            "is full: nothing can be stored",
        ),
    ] {
        let told = inside(program, arguments);
        let stdout = String::from_utf8_lossy(&told.stdout);
        assert!(
            told.status.code() == Some(code) && stdout.contains(says),
            "{program}: {told:?}"
        );
    }
    let told = inside("agent-send", &["--id", "no-room", "hello"]);
    let stderr = String::from_utf8_lossy(&told.stderr).into_owned();
    assert_eq!(
        (told.status.code(), told.stdout.as_slice()),
        (Some(74), &b""[..]),
        "{stderr}"
    );
    assert!(
        stderr.contains("spool") && stderr.contains("\nhint: make room"),
        "{stderr}"
    );

    fs::remove_file(&ballast).expect("own file");
    for (number, id) in ids.iter().enumerate() {
        let sent = telegram.wait_sent(|sent| sent.reply_to == Some(*id), Duration::from_secs(40));
        assert_eq!(
            sent.text,
            format!("echo: into the void {number}"),
            "{}",
            daemon.log()
        );
    }
    wait_for("the updates to be confirmed", SOON, || {
        (telegram.pending_updates() == 0).then_some(())
    });
    let texts: Vec<String> = telegram.sent().into_iter().map(|sent| sent.text).collect();
    assert_eq!(
        texts,
        [
            "echo: before",
            "echo: into the void 0",
            "echo: into the void 1",
            "echo: into the void 2"
        ]
    );
}

/// systemd does not start a unit again that failed ten times in ten minutes.
#[test]
fn a_start_on_a_full_disk_waits_for_room_where_systemd_waits_for_it() {
    let (_model, sandbox) = Sandbox::with_model();
    let notify = sandbox.home().with_file_name("notify");
    let systemd = UnixDatagram::bind(&notify).expect("the sandbox is writable");
    let sandbox = sandbox.env("NOTIFY_SOCKET", &notify.display().to_string());
    let mount = "mount -t tmpfs -o size=4m,mode=0700 tmpfs \"$AGENT_HOME/state\" \
                 && { dd if=/dev/zero of=\"$AGENT_HOME/state/ballast\" bs=4k 2>/dev/null || true; }";
    let Some(daemon) = OnSmallDisk::start(&sandbox, mount) else {
        return;
    };
    systemd
        .set_read_timeout(Some(Duration::from_millis(200)))
        .expect("not zero");
    let hear = |begin: &str| {
        wait_for(begin, Duration::from_secs(40), || {
            let mut bytes = [0; 4096];
            let count = systemd.recv(&mut bytes).ok()?;
            let said = String::from_utf8_lossy(&bytes[..count]).into_owned();
            said.contains(begin).then_some(())
        });
    };
    hear("is full: waiting for room");
    hear("is full: waiting for room");
    assert!(
        daemon.log().contains("tried again until there is room"),
        "{}",
        daemon.log()
    );
    fs::remove_file(daemon.path(&sandbox, "state/ballast")).expect("own file");
    hear("READY=1");
}

#[test]
fn a_read_only_home_is_named_and_nothing_is_pretended() {
    let (_model, sandbox) = Sandbox::with_model();
    // What is tried in the daemon's place sees the same disk.
    let mount =
        "mount --bind \"$AGENT_HOME\" \"$AGENT_HOME\" && mount -o remount,bind,ro \"$AGENT_HOME\"";
    let Some(mut daemon) = OnSmallDisk::start(&sandbox, mount) else {
        return;
    };
    let status = wait_for("the daemon to end", SOON, || {
        daemon.child.try_wait().expect("own child")
    });
    assert_eq!(status.code(), Some(74), "{}", daemon.log());
    let home = sandbox.home().display().to_string();
    assert!(
        daemon.log().contains(&home) && daemon.log().contains("\nhint: "),
        "{}",
        daemon.log()
    );
    let told = Command::new("unshare")
        .args([
            "-m",
            "sh",
            "-c",
            &format!("{mount} && exec \"$1\" hello"),
            "sh",
        ])
        .arg(bin("agent-send"))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("AGENT_HOME", sandbox.home())
        .output()
        .expect("unshare starts");
    let stderr = String::from_utf8_lossy(&told.stderr).into_owned();
    assert_eq!(
        (told.status.code(), told.stdout.as_slice()),
        (Some(74), &b""[..]),
        "{stderr}"
    );
    assert!(
        stderr.contains(&home) && stderr.contains("\nhint: "),
        "{stderr}"
    );
}

// ------------------------------------------------------------------ memory

/// A control group of this machine, for what may not have more memory.
struct Confined(PathBuf);

impl Confined {
    /// Makes one; `None`, with a word why, where this machine does not let us.
    fn to(bytes: u64) -> Option<Self> {
        let name = format!("agent-test-{}", std::process::id());
        for (below, limit) in [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ] {
            let group = Path::new(below).join(&name);
            if fs::create_dir(&group).is_err() {
                continue;
            }
            let group = Self(group);
            if fs::write(group.0.join(limit), bytes.to_string()).is_ok() {
                return Some(group);
            }
        }
        println!("skipped: no control group of memory can be made here");
        None
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        // It is gone when the last process in it is.
        let until = std::time::Instant::now() + SOON;
        while fs::remove_dir(&self.0).is_err() && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn with_48_mb_of_memory_everything_is_answered() {
    let Some(group) = Confined::to(48 << 20) else {
        return;
    };
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model);
    let join = format!("echo $$ > {}/cgroup.procs", group.0.display());
    let Some(mut daemon) = OnSmallDisk::start(&sandbox, &join) else {
        return;
    };
    let long = "much to say ".repeat(300);
    let ask = |number: i64| {
        let chat = 1001 + number % 2;
        let text = match number % 10 {
            9 if chat == 1001 => format!(
                "[[tool exec {}]]",
                serde_json::json!({"command": "seq 1 20000; echo done"})
            ),
            _ => format!("{number} {long}"),
        };
        (chat, telegram.say(chat, chat, &text).1)
    };
    let asked: Vec<(i64, i64)> = (0..60).map(ask).collect();
    for (chat, id) in asked {
        telegram.wait_sent(
            |sent| sent.chat == chat && sent.reply_to == Some(id),
            Duration::from_secs(60),
        );
    }
    let ended = daemon.child.try_wait().expect("own child");
    assert_eq!(ended, None, "{}", daemon.log());
    assert!(!daemon.log().contains("ERROR"), "{}", daemon.log());
}

// ------------------------------------------------------------------ beginnings

#[test]
fn a_question_in_a_group_that_waited_for_the_start_is_answered_whatever_getme_says() {
    for fault in [None, Some(FaultKind::Drop), Some(FaultKind::Status(502))] {
        let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
        let group = "[telegram.groups.\"-1001\"]\nrequire_mention = true";
        let sandbox = Sandbox::new()
            .with_telegram(&telegram)
            .with_anthropic(&model)
            .config(group);
        let (_, id) = telegram.say(
            -1001,
            1001,
            &format!("@{} what is it?", telegram.username()),
        );
        if let Some(kind) = fault {
            // Who the bot is, is asked for at the start and with the first message.
            telegram.fault(Fault {
                method: "getMe",
                kind,
                count: 2,
            });
        }
        let _daemon = sandbox.ready();
        let sent = telegram.wait_sent(|sent| sent.reply_to == Some(id), SOON);
        assert!(sent.text.ends_with("what is it?"), "{fault:?}: {sent:?}");
    }
}

// ------------------------------------------------------------------ clocks

#[test]
fn a_clock_that_jumps_disturbs_nothing() {
    let library = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib",
    ]
    .map(|directory| format!("{directory}/faketime/libfaketime.so.1"))
    .into_iter()
    .find(|path| Path::new(path).exists());
    let Some(library) = library else {
        println!("skipped: libfaketime is not installed");
        return;
    };
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let clock = tempfile::NamedTempFile::new().expect("the temporary directory is writable");
    let set = |offset: &str| fs::write(clock.path(), offset).expect("own file");
    set("+0");
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .env("LD_PRELOAD", &library)
        .env(
            "FAKETIME_TIMESTAMP_FILE",
            &clock.path().display().to_string(),
        )
        .env("FAKETIME_NO_CACHE", "1")
        // What time passes is not what time it is.
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .env("DONT_FAKE_MONOTONIC", "1");
    let daemon = sandbox.ready();
    for (number, offset) in ["+0", "-3h", "+40d", "-400d", "+3650d", "-3650d", "+0"]
        .into_iter()
        .enumerate()
    {
        set(offset);
        let (_, id) = telegram.say(1001, 1001, &format!("jump {number}"));
        let sent = telegram.wait_sent(|sent| sent.reply_to == Some(id), SOON);
        assert_eq!(sent.text, format!("echo: jump {number}"), "{offset}");
        let told = sandbox.send(&["--wait=20", &format!("shell {number}")]);
        assert_eq!(
            (told.code, told.stdout),
            (0, format!("echo: shell {number}\n")),
            "{offset}"
        );
    }
    assert_eq!(telegram.sent().len(), 7);
    let request = model
        .requests()
        .into_iter()
        .rfind(|body| body.to_string().contains("jump"))
        .expect("a request");
    assert_eq!(
        request["messages"].as_array().map(Vec::len),
        Some(13),
        "the conversation is whole, in order"
    );
    assert_eq!(daemon.term(), 0);
}
