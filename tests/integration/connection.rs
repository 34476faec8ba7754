//! The line to Telegram, broken in every way: the daemon says what is wrong, serves everybody else, and
//! is back when the line is.

use std::{
    thread,
    time::{Duration, Instant},
};

use agent_toolkit::sys::atomic;

use crate::support::{
    Daemon, FakeTelegram, Fault, FaultKind, House, Nasty, Sandbox, Way, wait_for,
};

const SOON: Duration = Duration::from_secs(20);
const OWNER: i64 = 1001;
const TOKEN: &str = "7000001:local-stand-in-for-a-token-000";

fn state(sandbox: &Sandbox) -> String {
    sandbox.send(&["--status", "--json"]).json()["channels"][0]["state"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn wait_state(sandbox: &Sandbox, wanted: &str) {
    let mut last = String::new();
    let seen = wait_or(SOON, || {
        last = state(sandbox);
        last.contains(wanted)
    });
    assert!(seen, "the state is not `{wanted}` but `{last}`");
}

fn wait_or(timeout: Duration, mut probe: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + timeout;
    while Instant::now() < until {
        if probe() {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

/// A home whose bot lives at `url`, polled with the shortest timeout.
fn at(url: &str) -> Sandbox {
    Sandbox::new()
        .env("TELEGRAM_BOT_TOKEN", TOKEN)
        .config(&format!("[telegram]\nenabled = true\nowner = [{OWNER}]\napi_url = \"{url}\"\npoll_timeout_secs = 1"))
}

fn started(sandbox: &Sandbox) -> Daemon {
    let mut daemon = sandbox.daemon();
    daemon.wait_ready();
    daemon
}

/// Starts a daemon with a server that behaves like this, sees what is said of it, and that it goes away.
fn check(way: Way, scheme: &str, says: &str) {
    let server = Nasty::start(way);
    let sandbox = at(&format!("{scheme}://127.0.0.1:{}", server.port()));
    let _daemon = started(&sandbox);
    let began = Instant::now();
    wait_state(&sandbox, says);
    assert!(
        began.elapsed() < Duration::from_secs(9),
        "{way:?}: seen after {:?}",
        began.elapsed()
    );
    wait_for("a second connection", SOON, || {
        (server.polls() >= 2).then_some(())
    });
    // It is no reason to spin, and nobody else suffers.
    let (polls, since) = (server.polls(), Instant::now());
    assert_eq!(sandbox.send(&["--wait", "hello"]).code, 0, "{way:?}");
    thread::sleep(Duration::from_millis(1500));
    let rate = (server.polls() - polls) as f64 / since.elapsed().as_secs_f64();
    assert!(rate < 4.0, "{way:?}: {rate} polls a second");
    assert!(
        server.most() < 100 << 20,
        "{way:?}: {} bytes were read",
        server.most()
    );
    if scheme == "http" {
        server.turn(Way::Well);
        wait_state(&sandbox, "ok");
    }
}

#[test]
fn a_server_that_does_wrong_is_named_and_left_and_found_again() {
    let checks: [(Way, &str, &str); 10] = [
        (
            Way::Silent,
            "http",
            "no answer to the last poll for 2 s: reconnecting",
        ),
        (
            Way::Dribble,
            "http",
            "no answer to the last poll for 2 s: reconnecting",
        ),
        (Way::HeaderOnly, "http", "no answer from Telegram"),
        (Way::Reset, "http", "no answer from Telegram"),
        (Way::Huge, "http", "larger than 32 MB"),
        (Way::NoJson, "http", "no JSON"),
        (Way::NoCode, "http", "Telegram answered 200: no description"),
        (Way::AtOnce, "http", "ok"),
        (
            Way::Silent,
            "https",
            "no answer to the last poll for 2 s: reconnecting",
        ),
        (Way::NoJson, "https", "Telegram cannot be reached"),
    ];
    thread::scope(|scope| {
        for (way, scheme, says) in checks {
            scope.spawn(move || check(way, scheme, says));
        }
    });
}

#[test]
fn nobody_there_is_named_and_found_when_it_comes() {
    let nowhere = at("http://nowhere.invalid");
    let port = std::net::TcpListener::bind(("127.0.0.1", 0))
        .expect("a port")
        .local_addr()
        .expect("it has one")
        .port();
    let refused = at(&format!("http://127.0.0.1:{port}"));
    let _daemons = [started(&nowhere), started(&refused)];
    for sandbox in [&nowhere, &refused] {
        wait_state(sandbox, "Telegram cannot be reached");
        assert_eq!(sandbox.send(&["--wait", "hello"]).code, 0);
    }
}

#[test]
fn a_conflict_is_waited_out_and_a_webhook_that_is_in_the_way_is_removed_once() {
    let (telegram, model) = (FakeTelegram::start(), crate::support::FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .config("[telegram]\npoll_timeout_secs = 1");
    telegram.set_webhook("https://example.org/somebody");
    let house = House::of(sandbox, telegram, model);
    let (_, id) = house.telegram.say(OWNER, OWNER, "in spite of it");
    house
        .telegram
        .wait_sent(|sent| sent.reply_to == Some(id), SOON);
    assert_eq!(house.telegram.webhook(), "");
    let removed = house.telegram.calls_of("deleteWebhook");
    assert_eq!(
        (
            removed.len(),
            removed[0].params["drop_pending_updates"].to_string()
        ),
        (1, "false".to_owned())
    );
    // Who sets it again is not fought.
    house.telegram.set_webhook("https://example.org/somebody");
    wait_state(&house.sandbox, "conflict: a webhook is set for this bot");
    wait_for("two more polls", SOON, || {
        let refused = house
            .telegram
            .calls_of("getUpdates")
            .iter()
            .filter(|call| call.status == 409)
            .count();
        (refused >= 3).then_some(())
    });
    assert_eq!(house.telegram.calls_of("deleteWebhook").len(), 1);
    let polls: Vec<Instant> = house
        .telegram
        .calls_of("getUpdates")
        .iter()
        .filter(|call| call.status == 409)
        .map(|call| call.at)
        .collect();
    assert!(
        polls[2] - polls[1] >= Duration::from_millis(990),
        "{:?}",
        polls[2] - polls[1]
    );
    house.telegram.set_webhook("");
    wait_state(&house.sandbox, "ok");
}

#[test]
fn a_wrong_token_is_asked_about_once_and_logged_once() {
    let telegram = FakeTelegram::start();
    telegram.fault(Fault {
        method: "getUpdates",
        kind: FaultKind::Status(401),
        count: 1000,
    });
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .config("[telegram]\npoll_timeout_secs = 1");
    let daemon = sandbox.ready();
    wait_state(&sandbox, "unauthorized: the bot token is wrong");
    thread::sleep(Duration::from_secs(2));
    assert_eq!(
        telegram.calls_of("getUpdates").len(),
        1,
        "only a person can mend it"
    );
    assert_eq!(
        daemon.log().matches("unauthorized").count(),
        1,
        "{}",
        daemon.log()
    );
}

#[test]
fn one_daemon_of_a_machine_polls_and_the_next_takes_over() {
    let telegram = FakeTelegram::start();
    let sandbox = || {
        Sandbox::new()
            .with_telegram(&telegram)
            .config("[telegram]\npoll_timeout_secs = 1")
    };
    let (first, second) = (sandbox(), sandbox());
    let one = first.ready();
    wait_state(&first, "ok");
    let mut two = second.daemon();
    let sentence = format!(
        "conflict: another agent-daemon (pid {}) on this machine uses this token",
        one.pid()
    );
    wait_state(&second, &sentence);
    two.wait_ready();
    // Sending works, and does not look like receiving.
    let (_, id) = telegram.say(OWNER, OWNER, "to the first");
    telegram.wait_sent(|sent| sent.reply_to == Some(id), SOON);
    assert_eq!(second.send(&["--wait", "hello"]).code, 0);
    assert_eq!(state(&second), sentence);
    assert!(
        telegram
            .calls_of("getUpdates")
            .iter()
            .all(|call| call.status != 409),
        "they never met"
    );

    let third = sandbox();
    let once = third.run("agent-daemon", &["run", "--once"], "");
    assert_eq!(once.code, 75, "{once:?}");
    assert!(once.stderr.contains(&sentence), "{once:?}");

    one.kill9();
    wait_state(&second, "ok");
    let (_, id) = telegram.say(OWNER, OWNER, "to the second");
    telegram.wait_sent(|sent| sent.reply_to == Some(id), SOON);
    assert_eq!(
        second
            .query("queue", "SELECT 1 FROM inbox WHERE state = 'done'")
            .len(),
        2
    );
    assert_eq!(two.term(), 0);
}

/// Returns libfaketime, where it is installed.
fn faketime() -> Option<std::path::PathBuf> {
    let places = std::fs::read_dir("/usr/lib")
        .ok()?
        .flatten()
        .map(|entry| entry.path().join("faketime/libfaketime.so.1"));
    places
        .chain([std::path::PathBuf::from(
            "/usr/lib/faketime/libfaketime.so.1",
        )])
        .find(|path| path.exists())
}

#[test]
fn a_machine_that_slept_reconnects_at_once_and_a_clock_that_jumps_breaks_nothing() {
    let Some(library) = faketime() else { return };
    let (telegram, model) = (FakeTelegram::start(), crate::support::FakeModel::start());
    let place = tempfile::tempdir().expect("the temporary directory is writable");
    let offset = place.path().join("offset");
    let set = |to: &str| {
        atomic::write(&offset, to.as_bytes(), atomic::Durability::Rename).expect("own directory");
    };
    set("+0");
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .env("LD_PRELOAD", &library.display().to_string())
        .env("FAKETIME_TIMESTAMP_FILE", &offset.display().to_string())
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    let house = House::of(sandbox, telegram, model);
    let answered = |text: &str| {
        let (_, id) = house.telegram.say(OWNER, OWNER, text);
        house
            .telegram
            .wait_sent(|sent| sent.reply_to == Some(id), SOON);
    };
    answered("before");
    wait_for("the next poll", SOON, || {
        let last = house.telegram.calls_of("getUpdates").pop()?;
        (last.status == 0).then_some(())
    });
    let polls = house.telegram.calls_of("getUpdates").len();
    set("+10h");
    // A poll waits for 50 s; this is noticed within 5 s.
    wait_for("a new poll", Duration::from_secs(9), || {
        (house.telegram.calls_of("getUpdates").len() > polls).then_some(())
    });
    answered("after ten hours");
    for jump in ["+3650d", "-7300d", "+0"] {
        set(jump);
        answered(jump);
    }
    assert_eq!(house.telegram.sent().len(), 5, "each is answered once");
    assert!(
        house.daemon.log().contains("the machine slept for 3"),
        "{}",
        house.daemon.log()
    );
}
