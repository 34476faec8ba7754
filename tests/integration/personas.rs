//! Plan mode when things go wrong, and several personas on one machine.

use std::os::unix::fs::symlink;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    Clock, Daemon, FakeModel, FakeTelegram, Fault, FaultKind, House, Reply, Sandbox, wait_for,
};

const SOON: Duration = Duration::from_secs(30);
const OWNER: i64 = 1001;
const ANA: i64 = 1002;
/// A group that nobody let in: what is said there only wakes the daemon.
const ELSEWHERE: i64 = -100_600;
/// A persona that types at once and waits a moment for more messages.
const QUICK: &str = "[agent]\nmode = \"plan\"\nplan_pause_ms = 100\n[agent.typing]\nstart_delay_secs = 0.0\nchars_per_sec = 0.0\nsticker_delay_secs = 0.0\n";

fn plan(tasks: &Value) -> Reply {
    Reply::Text(tasks.to_string())
}

fn texts(telegram: &FakeTelegram, chat: i64) -> Vec<String> {
    let sent = telegram.sent().into_iter();
    sent.filter(|sent| sent.chat == chat)
        .map(|sent| sent.text)
        .collect()
}

fn with_clock() -> (House, Clock) {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let (sandbox, clock) = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .config(QUICK)
        .with_clock();
    let house = House::of(sandbox, telegram, model);
    (house, clock)
}

/// Waits until Telegram was asked `count` times to send.
fn tried(house: &House, count: usize) {
    wait_for("the next try", SOON, || {
        (house.telegram.calls_of("sendMessage").len() >= count).then_some(())
    });
}

/// Waits until the message that was refused waits for its next try.
fn held(house: &House, retry: usize) {
    let pause = format!("SELECT 1 FROM tasks WHERE id LIKE 'retry-%-{retry}' AND state = 'ready'");
    wait_for("the pause", SOON, || {
        (!house.sandbox.query("queue", &pause).is_empty()).then_some(())
    });
}

#[test]
fn what_is_refused_ten_times_more_drops_the_plan_and_the_next_message_is_planned_anew() {
    let (house, mut clock) = with_clock();
    house.telegram.fault(Fault {
        method: "sendMessage",
        kind: FaultKind::Status(502),
        count: 100,
    });
    house.model.push(plan(&json!([
        {"kind": "send", "text": "Hello?"},
        {"kind": "send", "text": "never said"}
    ])));
    house.telegram.say(ANA, ANA, "hi");
    for retry in 1..=10 {
        held(&house, retry);
        assert_eq!(
            house.telegram.calls_of("sendMessage").len(),
            retry,
            "one try in ten seconds"
        );
        clock.later(Duration::from_secs(10));
        house.telegram.say(ELSEWHERE, 77, "wake up");
        tried(&house, retry + 1);
    }
    let dead = wait_for("the dead letter", SOON, || {
        let told = house.sandbox.send(&["--queue", "--json"]).json();
        let letters = told["dead"].as_array().cloned().unwrap_or_default();
        (!letters.is_empty()).then_some(letters)
    });
    assert_eq!(dead.len(), 1, "{dead:?}");
    let open = "SELECT 1 FROM tasks WHERE state IN ('blocked', 'ready')";
    assert!(house.sandbox.query("queue", open).is_empty());
    house.telegram.heal();
    house
        .model
        .push(plan(&json!([{"kind": "send", "text": "I am back."}])));
    house.telegram.say(ANA, ANA, "are you there?");
    house
        .telegram
        .wait_sent(|sent| sent.text == "I am back.", SOON);
    assert_eq!(texts(&house.telegram, ANA), ["I am back."]);
    let request = house.model.requests().pop().expect("a request").to_string();
    assert!(
        !request.contains("never said") && request.contains("did not arrive"),
        "the persona knows what was not read: {request}"
    );
}

#[test]
fn a_message_that_could_not_go_out_yet_is_dropped_by_a_newer_one() {
    let (house, mut clock) = with_clock();
    house.telegram.fault(Fault {
        method: "sendMessage",
        kind: FaultKind::Status(502),
        count: 1,
    });
    house
        .model
        .push(plan(&json!([{"kind": "send", "text": "too late"}])));
    house.telegram.say(ANA, ANA, "hi");
    held(&house, 1);
    house
        .model
        .push(plan(&json!([{"kind": "send", "text": "Fine."}])));
    house.telegram.say(ANA, ANA, "never mind. how are you?");
    house.telegram.wait_sent(|sent| sent.text == "Fine.", SOON);
    clock.later(Duration::from_secs(60));
    house.telegram.say(ELSEWHERE, 77, "wake up");
    house
        .model
        .push(plan(&json!([{"kind": "send", "text": "Bye."}])));
    house.telegram.say(ANA, ANA, "bye");
    house.telegram.wait_sent(|sent| sent.text == "Bye.", SOON);
    assert_eq!(texts(&house.telegram, ANA), ["Fine.", "Bye."]);
}

/// A persona among several: its bot, its model, its home.
struct Persona {
    _daemon: Daemon,
    telegram: FakeTelegram,
    model: FakeModel,
    sandbox: Sandbox,
}

/// Starts the instance `name` of the home `base`.
fn instance(base: &std::path::Path, name: &str, token: &str) -> Persona {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let personas = concat!(env!("CARGO_MANIFEST_DIR"), "/share/personas");
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .config(QUICK)
        .config(&format!(
            "[agent]\nname = \"{name}\"\nconfig_path = [\"{personas}\"]\nroles = [\"Chat\"]\n[tools.policies]\nblock = \"allow\"\n"
        ));
    let sandbox = sandbox
        .env("TELEGRAM_BOT_TOKEN", token)
        .env("AGENT_HOME", &base.display().to_string())
        .env("AGENT_INSTANCE", name);
    symlink(sandbox.home(), format!("{}-{name}", base.display())).expect("a link");
    let daemon = sandbox.ready();
    Persona {
        _daemon: daemon,
        telegram,
        model,
        sandbox,
    }
}

#[test]
fn two_personas_on_one_machine_have_each_a_bot_a_memory_and_people_of_their_own() {
    let dir = tempfile::tempdir().expect("dir");
    let base = dir.path().join("agents");
    let mira = instance(&base, "mira", "7000001:local-stand-in-for-a-token-001");
    let tom = instance(&base, "tom", "7000002:local-stand-in-for-a-token-002");
    for (persona, word) in [(&mira, "hello from mira"), (&tom, "hello from tom")] {
        persona.model.push(plan(&json!([
            {"kind": "remember", "text": format!("met by {word}")},
            {"kind": "send", "text": word}
        ])));
        persona.telegram.say(ANA, ANA, "hi");
        persona.telegram.wait_sent(|sent| sent.text == word, SOON);
        assert_eq!(texts(&persona.telegram, ANA), [word]);
        let told = persona.model.requests()[0]["system"].to_string();
        assert!(
            told.contains("You are Mira") == (word == "hello from mira"),
            "{told}"
        );
        let notes = persona
            .sandbox
            .read("workspace/memory/people/1002.episodes.md");
        let notes = notes.expect("a note");
        assert!(
            notes.contains(word) && notes.matches("met by").count() == 1,
            "{notes}"
        );
    }
    // Whom one of them blocks or mutes the other one still answers.
    let blocks = plan(&json!([{"kind": "send", "text": "Bye."}, {"kind": "block"}]));
    mira.model.push(blocks);
    mira.telegram.say(ANA, ANA, "you are stupid");
    wait_for("the block", SOON, || {
        let people = mira.sandbox.read("state/people.json")?;
        people.contains("1002").then_some(())
    });
    mira.telegram.say(ANA, ANA, "hello?");
    tom.model
        .push(plan(&json!([{"kind": "send", "text": "Still here."}])));
    tom.telegram.say(ANA, ANA, "hello?");
    tom.telegram
        .wait_sent(|sent| sent.text == "Still here.", SOON);
    wait_for("the update", SOON, || {
        (mira.telegram.pending_updates() == 0).then_some(())
    });
    assert_eq!(mira.model.requests().len(), 2);
    let muted = mira
        .sandbox
        .send(&["--instance", "tom", "--pair", "mute", "1002"]);
    assert_eq!(muted.code, 0, "{muted:?}");
    tom.telegram.say(ANA, ANA, "and now?");
    tom.telegram.say(OWNER, OWNER, "hi");
    tom.telegram.wait_sent(|sent| sent.chat == OWNER, SOON);
    assert_eq!(texts(&tom.telegram, ANA), ["hello from tom", "Still here."]);
    for name in ["mira", "tom"] {
        let status = tom
            .sandbox
            .send(&["--instance", name, "--status", "--json"]);
        assert_eq!(status.code, 0, "{status:?}");
    }
}

#[test]
fn who_is_muted_hears_nothing_more_of_a_plan_and_who_is_heard_again_does() {
    let house = House::with(QUICK);
    house.model.push(plan(&json!([
        {"kind": "send", "text": "Before."},
        {"kind": "wait", "delay": 2},
        {"kind": "send", "text": "never said"},
        {"kind": "react", "emoji": "👍"}
    ])));
    house.telegram.say(ANA, ANA, "hi");
    house
        .telegram
        .wait_sent(|sent| sent.text == "Before.", SOON);
    let pair = |verb: &str| house.sandbox.send(&["--pair", verb, "1002"]);
    assert_eq!(pair("mute").code, 0);
    let listed = house.sandbox.send(&["--pair", "list"]);
    assert!(listed.stdout.contains("muted    1002"), "{listed:?}");
    house.telegram.say(ANA, ANA, "are you there?");
    let open = "SELECT 1 FROM tasks WHERE state IN ('blocked', 'ready')";
    wait_for("the plan to end", SOON, || {
        house.sandbox.query("queue", open).is_empty().then_some(())
    });
    assert_eq!(texts(&house.telegram, ANA), ["Before."]);
    assert!(house.telegram.calls_of("setMessageReaction").is_empty());
    assert_eq!(house.model.requests().len(), 1, "nothing of hers is read");
    assert_eq!(pair("unmute").code, 0);
    house
        .model
        .push(plan(&json!([{"kind": "send", "text": "Again."}])));
    house.telegram.say(ANA, ANA, "and now?");
    house.telegram.wait_sent(|sent| sent.text == "Again.", SOON);
    let request = house.model.requests().pop().expect("a request").to_string();
    assert!(!request.contains("never said"), "{request}");
}
