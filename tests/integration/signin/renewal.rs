//! Tokens that end and are renewed: once, whoever asks.

use nix::sys::signal::{Signal, kill};

use super::{house, last_key, no_canary, no_secret_in_files, sign_in};
use crate::support::{FakeIssuer, FakeModel, Renewal, Reply, Running};

/// Returns the stored tokens.
fn access(sandbox: &crate::support::Sandbox) -> String {
    let stored = sandbox.read_json("state/auth.json").expect("stored");
    stored["providers"]["house"]["oauth"]["access"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// A home that is signed in with a token that has ended.
fn ended(issuer: &FakeIssuer, model: &FakeModel) -> crate::support::Sandbox {
    let sandbox = house(issuer, model);
    sign_in(&sandbox);
    let text = sandbox.read("state/auth.json").expect("stored");
    let mut stored: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    stored["providers"]["house"]["oauth"]["expires_at"] = "2001-01-01T00:00:00.000Z".into();
    stored["providers"]["house"]["oauth"]["obtained_at"] = "2000-12-31T23:00:00.000Z".into();
    stored["note"] = "by hand".into();
    sandbox.put("state/auth.json", stored.to_string().as_bytes());
    sandbox
}

#[test]
fn many_processes_that_want_a_token_at_once_make_one_request() {
    let (issuer, model) = (FakeIssuer::start(), FakeModel::start());
    let sandbox = ended(&issuer, &model);
    issuer.push(Renewal::Held);
    let check = || sandbox.starting("agent-daemon", &["auth", "--check"]);
    let first = check();
    issuer.wait_renewed(1);
    let others: Vec<Running> = (0..5).map(|_| check()).collect();
    // Their second thread is there just before they ask for the lock that the first one holds.
    crate::support::wait_for("five that ask", super::SOON, || {
        let threads = |running: &Running| {
            std::fs::read_dir(format!("/proc/{}/task", running.pid())).map_or(0, Iterator::count)
        };
        others
            .iter()
            .all(|running| threads(running) > 1)
            .then_some(())
    });
    issuer.go_on();
    for running in std::iter::once(first).chain(others) {
        let told = running.end();
        assert_eq!(told.code, 0, "{told:?}");
        no_canary("auth --check", &told);
    }
    assert_eq!(
        (issuer.renewed(), access(&sandbox).as_str()),
        (1, "access-canary-3")
    );
    let stored = sandbox.read_json("state/auth.json").expect("stored");
    assert_eq!(
        (
            &stored["note"],
            &stored["providers"]["house"]["oauth"]["refresh"]
        ),
        (&"by hand".into(), &"refresh-canary-3".into())
    );
}

#[test]
fn a_daemon_renews_before_the_end_and_once_after_a_refusal() {
    let (issuer, model) = (FakeIssuer::start(), FakeModel::start());
    let sandbox = ended(&issuer, &model);
    let daemon = sandbox.ready();
    let say = |text: &str| sandbox.send(&["--wait", text]);
    assert_eq!(say("one").stdout, "echo: one\n");
    assert_eq!(
        (issuer.renewed(), last_key(&model).as_str()),
        (1, "Bearer access-canary-3")
    );
    assert_eq!(say("two").stdout, "echo: two\n");
    assert_eq!(issuer.renewed(), 1, "it is fresh");
    // Taken back by the issuer before its time.
    model.push(Reply::Status(401, None));
    assert_eq!(say("three").stdout, "echo: three\n");
    assert_eq!(
        (issuer.renewed(), last_key(&model).as_str()),
        (2, "Bearer access-canary-4")
    );
    // A server that refuses everything costs no renewal a message.
    let before = model.requests().len();
    model.push(Reply::Status(401, None));
    let told = say("four");
    assert_eq!(told.code, 1, "{told:?}");
    no_canary("a refused turn", &told);
    assert_eq!((issuer.renewed(), model.requests().len() - before), (2, 1));
    assert!(!daemon.log().contains("canary"), "{}", daemon.log());
    assert_eq!(daemon.term(), 0);
    no_secret_in_files(&sandbox);
}

#[test]
fn a_sign_in_that_was_taken_back_says_what_to_do() {
    let (issuer, model) = (FakeIssuer::start(), FakeModel::start());
    let sandbox = ended(&issuer, &model);
    issuer.revoke();
    let daemon = sandbox.ready();
    for _ in 0..2 {
        let told = sandbox.send(&["--wait", "hello"]);
        assert_eq!(told.code, 1, "{told:?}");
        assert!(
            told.stderr.contains("agent-daemon login house --oauth"),
            "{told:?}"
        );
    }
    assert_eq!(
        (issuer.renewed(), model.requests().len()),
        (1, 0),
        "a sign-in that has ended is not tried again"
    );
    let row = &sandbox.run("agent-daemon", &["auth", "--json"], "").json()["providers"][0];
    assert_eq!(
        (&row["in_force"], &row["signed_out"]),
        (
            &serde_json::Value::Null,
            &"invalid_grant: the token was taken back".into()
        )
    );
    let ids = sandbox
        .run("agent-daemon", &["doctor", "--json"], "")
        .stdout;
    assert!(
        ids.contains("\"signed-out\"") && ids.contains("login house --oauth"),
        "{ids}"
    );
    // The issuer's word keeps no daemon from starting.
    assert_eq!(daemon.term(), 0);
    let told = sandbox.run("agent-daemon", &["check"], "");
    assert_eq!(told.code, 0, "{told:?}");
    assert!(
        told.stderr
            .contains("warning: the sign-in to house has expired: invalid_grant"),
        "{told:?}"
    );
    let daemon = sandbox.ready();
    let status = sandbox.send(&["--status"]);
    assert!(
        format!("{status:?}").contains("the sign-in to house has expired"),
        "{status:?}"
    );
    // A new sign-in is used at once, without a restart.
    sign_in(&sandbox);
    let told = sandbox.send(&["--wait", "again"]);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "echo: again\n"),
        "{told:?}"
    );
    assert_eq!(daemon.term(), 0);
}

#[test]
fn an_issuer_in_trouble_is_no_sign_out() {
    let (issuer, model) = (FakeIssuer::start(), FakeModel::start());
    let sandbox = ended(&issuer, &model);
    issuer.push(Renewal::Status(503));
    let told = sandbox.run("agent-daemon", &["auth", "--check", "--json"], "");
    assert_eq!(
        (
            told.code,
            &told.json()["providers"][0]["checked"]["verdict"]
        ),
        (0, &"unknown".into()),
        "{told:?}"
    );
    let told = sandbox.run("agent-daemon", &["auth", "--check", "--json"], "");
    assert_eq!(
        (issuer.renewed(), access(&sandbox).as_str()),
        (2, "access-canary-3"),
        "{told:?}"
    );
}

#[test]
fn a_renewal_that_is_killed_leaves_a_whole_file_and_no_lock() {
    let (issuer, model) = (FakeIssuer::start(), FakeModel::start());
    let sandbox = ended(&issuer, &model);
    issuer.push(Renewal::Held);
    let running = sandbox.starting("agent-daemon", &["auth", "--check"]);
    issuer.wait_renewed(1);
    kill(running.pid(), Signal::SIGKILL).expect("own child");
    assert_eq!(running.end().code, -9);
    issuer.go_on();
    // The issuer has used the old token up and this one does not take it twice: nobody can help that, and
    // it is said. One that does goes on.
    let told = sandbox.run("agent-daemon", &["auth", "--check"], "");
    assert_eq!((told.code, issuer.renewed()), (1, 2), "{told:?}");
    assert!(
        told.stdout
            .contains("an earlier renewal was cut off before its answer was written down"),
        "{told:?}"
    );
    assert!(
        told.stdout.contains("agent-daemon login house --oauth"),
        "{told:?}"
    );
    sign_in(&sandbox);
    assert_eq!(sandbox.run("agent-daemon", &["check"], "").code, 0);
}

#[test]
fn a_renewal_that_is_killed_before_the_issuer_heard_of_it_costs_nothing() {
    let (issuer, model) = (FakeIssuer::start(), FakeModel::start());
    let sandbox = ended(&issuer, &model);
    let mut stored = sandbox.read_json("state/auth.json").expect("stored");
    // As a process leaves it that died between its mark and its request.
    stored["providers"]["house"]["oauth"]["renewing_at"] = "2026-01-01T00:00:00.000Z".into();
    sandbox.put("state/auth.json", stored.to_string().as_bytes());
    sandbox.run("agent-daemon", &["auth", "--check"], "");
    let stored = sandbox.read_json("state/auth.json").expect("stored");
    let oauth = &stored["providers"]["house"]["oauth"];
    assert_eq!(
        (&oauth["access"], &oauth["renewing_at"]),
        (&"access-canary-3".into(), &serde_json::Value::Null)
    );
}
