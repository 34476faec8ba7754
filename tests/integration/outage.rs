//! The model is away: what was accepted waits, its sender is told once, and it is answered when the model is back.

use std::time::Duration;

use rusqlite::types::Value as SqlValue;

use crate::support::{FakeModel, FakeTelegram, House, Reply, Sandbox, wait_for};

/// Long against everything that happens here, short against the patience of a reader.
const SOON: Duration = Duration::from_secs(40);
/// Longer than between two looks at what waits, 30 s.
const LATER: Duration = Duration::from_secs(120);
const OWNER: i64 = 1001;
/// An answer of four tokens.
const DEAR: &str = "sixteen letters!";

/// Lets the model answer every call with this status until [`FakeModel::forget`].
fn goes_away(model: &FakeModel, status: u16) {
    for _ in 0..1000 {
        model.push(Reply::Status(status, None));
    }
}

fn waits(telegram: &FakeTelegram) -> Vec<String> {
    let shown = telegram.shown(OWNER).into_iter();
    shown.filter(|text| text.starts_with('⏳')).collect()
}

/// Waits until the sender is told what their message waits for.
fn wait_told(telegram: &FakeTelegram) -> String {
    wait_for("the notice", SOON, || waits(telegram).pop())
}

/// Returns how often a message was sent that begins so.
fn sent(telegram: &FakeTelegram, start: &str) -> usize {
    let sent = telegram.sent();
    sent.iter()
        .filter(|sent| sent.text.starts_with(start))
        .count()
}

/// Returns a home whose limit of the day is spent by an answer of [`DEAR`]: two of nine dollars, where the next call may
/// cost eight.
fn under_a_limit(telegram: &FakeTelegram, model: &FakeModel) -> Sandbox {
    let prices = "[models.primary]\nmax_tokens = 16\ncost_per_mtok = [0.0, 500000.0, 0.0, 0.0]";
    Sandbox::new()
        .with_telegram(telegram)
        .with_anthropic(model)
        .provider_config("mock", prices)
        .config("[cost]\nday_usd = 9.0")
}

#[test]
fn a_model_that_is_away_costs_no_message_also_over_a_kill() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model);
    let daemon = sandbox.ready();
    goes_away(&model, 529);
    let (_, first) = telegram.say(OWNER, OWNER, "one");
    let notice = wait_told(&telegram);
    assert!(notice.contains("The model is overloaded"), "{notice}");
    let (_, second) = telegram.say(OWNER, OWNER, "two");
    wait_for("both to be accepted", SOON, || {
        let rows = sandbox.query("queue", "SELECT id FROM inbox WHERE state = 'pending'");
        (rows.len() == 2).then_some(())
    });
    daemon.kill9();
    let _daemon = sandbox.ready();
    for query in ["--queue", "--status"] {
        wait_for("what is waited for", SOON, || {
            let told = sandbox.send(&[query]).stdout;
            told.contains("The model is overloaded").then_some(())
        });
    }
    model.forget();
    for asked in [first, second] {
        telegram.wait_sent(|sent| sent.reply_to == Some(asked), SOON);
    }
    wait_for("the notice to go", SOON, || {
        waits(&telegram).is_empty().then_some(())
    });
    let shown = telegram.shown(OWNER);
    assert_eq!(shown, ["one", "two", "echo: one", "echo: two"]);
    assert_eq!(sent(&telegram, "⏳"), 1, "told once");
    let dead = sandbox.query("queue", "SELECT id FROM inbox WHERE state != 'done'");
    assert!(dead.is_empty(), "{dead:?}");
}

#[test]
fn stop_ends_the_wait_and_the_lane_goes_on() {
    let house = House::new();
    goes_away(&house.model, 500);
    house.telegram.say(OWNER, OWNER, "one");
    let notice = wait_told(&house.telegram);
    assert!(notice.contains("has a fault"), "{notice}");
    house.telegram.say(OWNER, OWNER, "/stop");
    house
        .telegram
        .wait_sent(|sent| sent.text == "Stopped.", SOON);
    wait_for("the notice to go", SOON, || {
        waits(&house.telegram).is_empty().then_some(())
    });
    house.model.forget();
    let (_, second) = house.telegram.say(OWNER, OWNER, "two");
    let answer = house
        .telegram
        .wait_sent(|sent| sent.reply_to == Some(second), SOON);
    assert_eq!(answer.text, "echo: two");
    let asked = house.model.requests().pop().expect("a request");
    assert!(!asked["messages"].to_string().contains("one"), "{asked}");
}

#[test]
fn a_command_behind_a_turn_that_waits_is_told_so_and_carried_out_after_it() {
    let house = House::new();
    goes_away(&house.model, 529);
    house.telegram.say(OWNER, OWNER, "one");
    wait_told(&house.telegram);
    house.telegram.say(OWNER, OWNER, "/new");
    let notice = wait_for("what it waits for", SOON, || {
        let mut told = waits(&house.telegram).into_iter();
        told.find(|text| text.contains("comes after an earlier message"))
    });
    assert!(
        notice.contains("The model is overloaded") && notice.contains("/stop"),
        "{notice}"
    );
    house.model.forget();
    house
        .telegram
        .wait_sent(|sent| sent.text.starts_with("New conversation"), SOON);
    wait_for("the notices to go", SOON, || {
        waits(&house.telegram).is_empty().then_some(())
    });
    let shown = house.telegram.shown(OWNER);
    assert_eq!(shown[..3], ["one", "/new", "echo: one"], "{shown:?}");
}

#[test]
fn a_daemon_of_a_pipe_ends_also_when_a_line_waits_behind_one_that_waits_for_the_model() {
    let (model, sandbox) = Sandbox::with_model();
    goes_away(&model, 529);
    for line in ["first\n", "second\n", ""] {
        let told = sandbox.run("agent-daemon", &["--channel", "cli"], line);
        assert_eq!((told.code, told.stdout.as_str()), (75, ""), "{told:?}");
    }
    model.forget();
    let told = sandbox.run("agent-daemon", &["--channel", "cli"], "");
    let answers: Vec<&str> = told.stdout.lines().collect();
    assert_eq!(told.code, 0, "{told:?}");
    assert!(
        told.stdout.contains("first") && told.stdout.contains("second"),
        "{answers:?}"
    );
}

#[test]
fn many_that_wait_for_one_model_ask_it_one_at_a_time() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    goes_away(&model, 503);
    for number in 0..30 {
        let id = format!("m{number}");
        let told = sandbox.send(&["--from", &id, "--id", &id, "hello"]);
        assert_eq!(told.code, 0, "{told:?}");
    }
    let suspended = "SELECT id FROM inbox WHERE state = 'pending' AND suspended IS NOT NULL";
    wait_for("all to wait", SOON, || {
        (sandbox.query("queue", suspended).len() == 30).then_some(())
    });
    // The slots of the first turns, before anybody knew; then a call after each rest.
    let asked = model.requests().len();
    assert!(asked <= 4 + 6, "{asked} calls");
    model.forget();
    wait_for("all to be answered", SOON, || {
        let done = sandbox.query("queue", "SELECT id FROM inbox WHERE state = 'done'");
        (done.len() == 30).then_some(())
    });
}

#[test]
fn another_model_answers_what_waits_and_a_wrong_key_ends_at_once() {
    let (telegram, away, other) = (
        FakeTelegram::start(),
        FakeModel::start(),
        FakeModel::start(),
    );
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&away)
        .with_provider("other", "openai", &other, "spare");
    let _daemon = sandbox.ready();
    goes_away(&away, 529);
    let (_, first) = telegram.say(OWNER, OWNER, "one");
    wait_told(&telegram);
    telegram.say(OWNER, OWNER, "/model spare");
    let answer = telegram.wait_sent(|sent| sent.reply_to == Some(first), SOON);
    assert_eq!(answer.text, "echo: one");
    other.push(Reply::Status(401, None));
    let (_, second) = telegram.say(OWNER, OWNER, "two");
    let answer = telegram.wait_sent(|sent| sent.reply_to == Some(second), SOON);
    assert!(answer.text.contains("agent-daemon login"), "{answer:?}");
}

#[test]
fn a_turn_that_waits_for_a_time_goes_on_when_the_machine_slept_until_then() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let (sandbox, mut clock) = under_a_limit(&telegram, &model).with_clock();
    let _daemon = sandbox.ready();
    let mut sleeps = |words: &str, why: &str, time: Duration| {
        let (_, asked) = telegram.say(OWNER, OWNER, words);
        wait_for("the notice", SOON, || {
            let mut told = waits(&telegram).into_iter();
            told.find(|text| text.contains(why))
        });
        // The wall clock goes on while the timers stand still.
        clock.later(time);
        telegram.wait_sent(|sent| sent.reply_to == Some(asked), LATER)
    };
    model.push(Reply::Status(429, Some(3000)));
    model.push(Reply::Text(DEAR.to_owned()));
    let hour = Duration::from_secs(3600);
    let answer = sleeps("one", "rate limit is reached", hour);
    assert_eq!(answer.text, DEAR);
    let answer = sleeps("two", "The budget is spent", 24 * hour);
    assert_eq!(answer.text, "echo: two");
}

#[test]
fn a_machine_that_slept_past_the_bound_tries_again_before_it_gives_up() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let (sandbox, mut clock) = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .with_clock();
    let _daemon = sandbox.ready();
    goes_away(&model, 529);
    let (_, asked) = telegram.say(OWNER, OWNER, "one");
    wait_told(&telegram);
    let tries = || {
        let query = "SELECT suspended ->> '$.tries' FROM inbox WHERE suspended IS NOT NULL AND state = 'pending'";
        match sandbox.query("queue", query).first()?.as_slice() {
            [SqlValue::Integer(tries)] => Some(*tries),
            _ => None,
        }
    };
    let before = wait_for("the wait", SOON, tries);
    clock.later(Duration::from_secs(25 * 3600));
    // Its network is not there at once.
    wait_for("another try that waits", LATER, || {
        tries().filter(|tries| *tries > before)
    });
    model.forget();
    let answer = telegram.wait_sent(|sent| sent.reply_to == Some(asked), LATER);
    assert_eq!(answer.text, "echo: one");
}

#[test]
fn who_waits_for_a_time_waits_no_month_when_the_clock_was_set_back() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let (sandbox, mut clock) = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .with_clock();
    let month = Duration::from_secs(30 * 24 * 3600);
    clock.later(month);
    let daemon = sandbox.ready();
    goes_away(&model, 529);
    let (_, asked) = telegram.say(OWNER, OWNER, "one");
    wait_told(&telegram);
    let waits = "SELECT 1 FROM inbox WHERE suspended IS NOT NULL AND state = 'pending'";
    wait_for("the wait", SOON, || {
        (!sandbox.query("queue", waits).is_empty()).then_some(())
    });
    daemon.kill9();
    // As after a full disk: nothing wakes it sooner.
    let queue = rusqlite::Connection::open(sandbox.path("state/queue.db")).expect("the queue");
    let on_time = "UPDATE inbox SET suspended = json_set(suspended, '$.on', 'time') WHERE suspended IS NOT NULL";
    assert_eq!(queue.execute(on_time, []).expect("the queue"), 1);
    drop(queue);
    model.forget();
    clock.earlier(month);
    let _daemon = sandbox.ready();
    clock.later(Duration::from_secs(25 * 3600));
    let answer = telegram.wait_sent(|sent| sent.reply_to == Some(asked), LATER);
    assert_eq!(answer.text, "echo: one");
}

#[test]
fn what_was_given_up_can_be_retried_and_dropped() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let (sandbox, mut clock) = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .config("[pipeline]\ngive_up_after = \"1m\"")
        .with_clock();
    let daemon = sandbox.ready();
    let mut given_up = |words: &str| {
        goes_away(&model, 529);
        let (_, asked) = telegram.say(OWNER, OWNER, words);
        wait_told(&telegram);
        clock.later(Duration::from_secs(120));
        let told = telegram.wait_sent(|sent| sent.reply_to == Some(asked), SOON);
        assert!(
            told.text.contains("gave this message up") && told.text.contains(words),
            "{told:?}"
        );
        model.forget();
        (asked, told.message_id)
    };
    let (asked, notice) = given_up("one");
    let buttons = telegram.buttons(OWNER, notice);
    let (_, retry) = buttons
        .iter()
        .find(|(label, _)| label.contains("Retry"))
        .expect("a button");
    telegram.press(OWNER, OWNER, notice, retry);
    let is_answer =
        |sent: &crate::support::Sent| sent.reply_to == Some(asked) && sent.text == "echo: one";
    telegram.wait_sent(is_answer, SOON);

    given_up("two");
    let dead = || sandbox.send(&["--status", "--json"]).json()["queue"]["dead"].clone();
    assert_eq!(dead(), 1);
    let dropped = sandbox.send(&["--queue", "drop", "all"]);
    assert_eq!((dropped.code, dead()), (0, 0.into()), "{dropped:?}");
    for wrong in [&["--queue", "retry"][..], &["--queue", "bury", "all"]] {
        assert_eq!(sandbox.send(wrong).code, 2, "{wrong:?}");
    }
    assert_eq!(daemon.term(), 0);
    assert_eq!(sandbox.send(&["--queue", "retry", "all"]).code, 75);
}
