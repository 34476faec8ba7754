//! Plan mode: what a person in a chat with a persona sees.

use std::time::{Duration, Instant};

use rusqlite::types::Value as SqlValue;
use serde_json::{Value, json};

use crate::support::{
    FakeModel, FakeTelegram, Fault, FaultKind, House, Pages, Reply, Sandbox, wait_for,
};

const SOON: Duration = Duration::from_secs(30);
const OWNER: i64 = 1001;
const ANA: i64 = 1002;
const GROUP: i64 = -100_500;

/// A persona that types at once and waits a moment for more messages.
const QUICK: &str = "[agent]\nmode = \"plan\"\nplan_pause_ms = 300\n[agent.typing]\nstart_delay_secs = 0.0\nchars_per_sec = 0.0\nsticker_delay_secs = 0.0\n";

fn house(more: &str) -> House {
    House::with(&format!("{QUICK}{more}"))
}

fn plan(tasks: &Value) -> Reply {
    Reply::Text(tasks.to_string())
}

fn texts(house: &House, chat: i64) -> Vec<String> {
    let sent = house.telegram.sent().into_iter();
    sent.filter(|sent| sent.chat == chat)
        .map(|sent| sent.text)
        .collect()
}

fn system(request: &Value) -> String {
    let blocks = request["system"].as_array().expect("blocks");
    blocks
        .iter()
        .filter_map(|block| block["text"].as_str())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Waits until no task is open.
fn settled(sandbox: &Sandbox) {
    let open = "SELECT 1 FROM tasks WHERE state IN ('blocked', 'ready')";
    wait_for("the plan to end", SOON, || {
        sandbox.query("queue", open).is_empty().then_some(())
    });
}

/// Waits until the model was asked `count` times and no task is open.
fn settled_after(house: &House, count: usize) {
    house.model.wait_requests(count, SOON);
    let open = "SELECT 1 FROM inbox WHERE state IN ('pending', 'running')";
    wait_for("the answer", SOON, || {
        house.sandbox.query("queue", open).is_empty().then_some(())
    });
    settled(&house.sandbox);
}

#[test]
fn a_plan_is_carried_out_and_the_next_one_sees_what_was_said() {
    let house = house("");
    house.model.push(plan(&json!([
        {"kind": "think", "text": "a secret thought"},
        {"kind": "remember", "text": "likes tea"},
        {"kind": "send", "id": "a", "text": "Hello Ana."},
        {"kind": "react", "id": "b", "depends_on": ["a"], "emoji": "👍"},
        {"kind": "wait", "id": "c", "depends_on": ["b"], "delay": 0.2},
        {"kind": "send", "id": "d", "depends_on": ["c"], "text": "How are you?"}
    ])));
    let asked = house.telegram.say(ANA, ANA, "hi").1;
    house
        .telegram
        .wait_sent(|sent| sent.text == "How are you?", SOON);
    assert_eq!(texts(&house, ANA), ["Hello Ana.", "How are you?"]);
    wait_for("the reaction", SOON, || {
        house
            .telegram
            .reaction(ANA, asked)
            .filter(|emoji| emoji == "👍")
    });
    let notes = house
        .sandbox
        .read("workspace/memory/people/1002.episodes.md")
        .expect("a note");
    assert!(notes.contains("likes tea"), "{notes}");

    let request = house.model.requests().pop().expect("a request");
    let told = system(&request);
    let said = request["messages"].to_string();
    let target = format!("Consider responding to message with message_id {asked}.");
    assert!(said.contains(&target), "{said}");
    assert!(told.contains("A direct chat with"), "{told}");
    assert_eq!(request["output_config"]["format"]["type"], "json_schema");

    house
        .model
        .push(plan(&json!([{"kind": "send", "text": "Good."}])));
    house.telegram.say(ANA, ANA, "fine");
    house.telegram.wait_sent(|sent| sent.text == "Good.", SOON);
    let request = house.model.requests().pop().expect("a request");
    assert_eq!(
        request.to_string().matches("likes tea").count(),
        1,
        "{request:#}"
    );
    let told = system(&request);
    assert!(told.contains("likes tea"), "{told}");
    let all = request["messages"].to_string();
    assert!(
        all.contains("Hello Ana.")
            && all.contains("you reacted 👍")
            && !all.contains("secret thought"),
        "{all}"
    );
    assert!(
        !all.contains("\\\"kind\\\""),
        "the plan itself is not shown: {all}"
    );
}

#[test]
fn a_note_that_cannot_be_kept_and_a_wait_of_years_keep_nobody_waiting() {
    let house = house("");
    // Where the notes of a person lie is no directory.
    house.sandbox.put("workspace/memory/people", b"in the way");
    house.model.push(plan(&json!([
        {"kind": "remember", "text": "likes tea"},
        {"kind": "send", "id": "a", "text": "Hello all the same."},
        {"kind": "wait", "id": "b", "depends_on": ["a"], "delay": 1e300},
        {"kind": "send", "id": "c", "depends_on": ["b"], "text": "in another life"}
    ])));
    house.telegram.say(ANA, ANA, "hi");
    house
        .telegram
        .wait_sent(|sent| sent.text == "Hello all the same.", SOON);
    // Whatever became of that wait, the next message is answered.
    house
        .model
        .push(plan(&json!([{"kind": "send", "text": "Still here."}])));
    house.telegram.say(ANA, ANA, "are you there?");
    house
        .telegram
        .wait_sent(|sent| sent.text == "Still here.", SOON);
    settled(&house.sandbox);
    let said = texts(&house, ANA);
    assert!(
        !said.iter().any(|text| text.contains("another life")),
        "{said:?}"
    );
    let log = house.sandbox.bash("cat $AGENT_HOME/state/logs/*");
    assert!(
        log.stdout.contains("memory/people"),
        "the failure is logged: {log:?}"
    );
}

#[test]
fn ten_quick_messages_cost_one_call_and_cancel_what_was_planned() {
    let house = house("");
    house.model.push(plan(&json!([
        {"kind": "send", "text": "One moment."},
        {"kind": "wait", "delay": 3600},
        {"kind": "send", "text": "never said"}
    ])));
    house.telegram.say(ANA, ANA, "hi");
    house
        .telegram
        .wait_sent(|sent| sent.text == "One moment.", SOON);
    house
        .model
        .push(plan(&json!([{"kind": "send", "text": "Ten!"}])));
    let ids: Vec<i64> = (1..=10)
        .map(|n| house.telegram.say(ANA, ANA, &format!("word {n}")).1)
        .collect();
    house.telegram.wait_sent(|sent| sent.text == "Ten!", SOON);
    settled(&house.sandbox);
    assert_eq!(texts(&house, ANA), ["One moment.", "Ten!"]);
    let requests = house.model.requests();
    assert_eq!(requests.len(), 2);
    let last = requests.last().expect("a request");
    let all = last["messages"].to_string();
    let newest = ids.last().expect("an id");
    assert!(
        all.contains(&format!("message_id {newest}.⟧")),
        "the newest is answered: {all}"
    );
    assert!(
        (1..=10).all(|n| all.contains(&format!("word {n}"))) && !all.contains("never said"),
        "{all}"
    );
}

#[test]
fn what_is_no_plan_is_repaired_once_and_never_shown() {
    let house = house("");
    let broken =
        r#"[{"kind":"think","text":"secret"},{"kind":"send","text":"Hi there"},{"kind":"se"#;
    house.model.push(Reply::Text(broken.into()));
    house.model.push(Reply::Text("# send\nRepaired.".into()));
    house.telegram.say(ANA, ANA, "one");
    house
        .telegram
        .wait_sent(|sent| sent.text == "Repaired.", SOON);
    house.model.push(Reply::Text(broken.into()));
    house.model.push(Reply::Text(broken.into()));
    house.telegram.say(ANA, ANA, "two");
    house
        .telegram
        .wait_sent(|sent| sent.text == "Hi there", SOON);
    house.model.push(Reply::Text(r#"{"mood":"bad"}"#.into()));
    house.model.push(Reply::Text(r#"{"mood":"bad"}"#.into()));
    house.telegram.say(ANA, ANA, "three");
    house
        .telegram
        .wait_sent(|sent| sent.text.starts_with("Sorry"), SOON);
    house.model.push(Reply::Text("Just words.".into()));
    house.telegram.say(ANA, ANA, "four");
    house
        .telegram
        .wait_sent(|sent| sent.text == "Just words.", SOON);
    assert_eq!(house.model.requests().len(), 7);
    for text in texts(&house, ANA) {
        assert!(
            !text.contains("kind")
                && !text.contains("secret")
                && !text.contains('{')
                && !text.contains('#'),
            "{text}"
        );
    }
}

#[test]
fn chatter_in_a_group_cancels_nothing_and_a_callout_does() {
    let house = house("[telegram.groups.\"-100500\"]\nallow_from = [1001, 1002]\n");
    let bot = format!("@{}", house.telegram.username());
    house.model.push(plan(&json!([
        {"kind": "send", "text": "First."},
        {"kind": "wait", "delay": 3600},
        {"kind": "send", "text": "never said"}
    ])));
    house.telegram.say(GROUP, ANA, &format!("{bot} hello"));
    house.telegram.wait_sent(|sent| sent.text == "First.", SOON);
    house.telegram.say(GROUP, OWNER, "shall we eat?");
    let noted = "SELECT 1 FROM notes";
    wait_for("the chatter", SOON, || {
        (!house.sandbox.query("queue", noted).is_empty()).then_some(())
    });
    // It begins when "First." has been recorded as sent.
    let open = "SELECT 1 FROM tasks WHERE state = 'ready'";
    wait_for("the wait to go on", SOON, || {
        (house.sandbox.query("queue", open).len() == 1).then_some(())
    });
    assert_eq!(house.model.requests().len(), 1);
    house
        .model
        .push(plan(&json!([{"kind": "send", "text": "Second."}])));
    house.telegram.say(GROUP, OWNER, &format!("{bot} well?"));
    house
        .telegram
        .wait_sent(|sent| sent.text == "Second.", SOON);
    settled(&house.sandbox);
    assert_eq!(texts(&house, GROUP), ["First.", "Second."]);
}

#[test]
fn a_sticker_goes_out_by_the_id_of_its_file_and_its_set_is_asked_for_once() {
    let house = house(
        "[agent.stickers]\nsets = [\"Cats\", \"AnimatedEmojies\"]\nstickers = [\"Dogs :: 🐶\"]\n",
    );
    house.telegram.offer_stickers("Cats", &["😿", "😺"]);
    house.telegram.offer_stickers("Strange", &["😈"]);
    house.model.push(plan(&json!([
        {"kind": "sticker", "set": "Strange", "name": "😈"},
        {"kind": "sticker", "set": "Strange", "name": "[{}]"},
        {"kind": "sticker", "set": "Cats", "name": "😺"},
        {"kind": "sticker", "set": "Cats", "name": "👽"},
        {"kind": "send", "text": "Done."}
    ])));
    house.telegram.say(ANA, ANA, "hi");
    house.telegram.wait_sent(|sent| sent.text == "Done.", SOON);
    let sent: Vec<Value> = house
        .telegram
        .calls_of("sendSticker")
        .into_iter()
        .map(|call| call.params["sticker"].clone())
        .collect();
    assert_eq!(sent, [json!("Cats-2")]);
    assert_eq!(
        texts(&house, ANA)
            .iter()
            .filter(|text| *text == "👽")
            .count(),
        1,
        "no such sticker: its emoji"
    );
    assert_eq!(
        texts(&house, ANA).concat(),
        "😈👽Done.",
        "nobody else's stickers"
    );
    house.model.push(plan(
        &json!([{"kind": "sticker", "set": "AnimatedEmojies", "name": "😺"}]),
    ));
    house.telegram.say(ANA, ANA, "and?");
    settled_after(&house, 2);
    let asked = house.telegram.calls_of("getStickerSet").into_iter();
    let asked: Vec<Value> = asked.map(|call| call.params["name"].clone()).collect();
    assert_eq!(
        asked,
        [json!("Cats"), json!("AnimatedEmojies"), json!("Dogs")],
        "once each"
    );
    let told = system(&house.model.requests()[0]);
    assert!(
        told.contains("Cats :: 😿") && told.contains("Dogs :: 🐶"),
        "{told}"
    );
}

#[test]
fn a_persona_takes_its_time_and_a_new_message_stops_it() {
    let house = House::with("[agent]\nmode = \"plan\"\nplan_pause_ms = 100\n");
    house
        .model
        .push(plan(&json!([{"kind": "send", "text": &"x".repeat(30)}])));
    let asked = Instant::now();
    house.telegram.say(ANA, ANA, "hi");
    house.telegram.wait_sent(|sent| sent.chat == ANA, SOON);
    assert!(
        asked.elapsed() >= Duration::from_millis(2500),
        "2 s and half a second for 30 signs"
    );
    assert!(!house.telegram.calls_of("sendChatAction").is_empty());
    house
        .model
        .push(plan(&json!([{"kind": "send", "text": &"y".repeat(6000)}])));
    house.telegram.say(ANA, ANA, "a story!");
    house.model.wait_requests(2, SOON);
    let typed = "SELECT 1 FROM tasks WHERE state = 'ready'";
    wait_for("the plan", SOON, || {
        (!house.sandbox.query("queue", typed).is_empty()).then_some(())
    });
    house
        .model
        .push(plan(&json!([{"kind": "send", "text": "Fine."}])));
    house.telegram.say(ANA, ANA, "no, stop");
    house.telegram.wait_sent(|sent| sent.text == "Fine.", SOON);
    assert_eq!(texts(&house, ANA).len(), 2);
}

#[test]
fn a_killed_daemon_does_every_task_once() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .config(QUICK);
    let count = 8;
    let tasks: Vec<Value> = (1..=count)
        .flat_map(|n| {
            [
                json!({"kind": "send", "text": format!("part {n}")}),
                json!({"kind": "wait", "delay": 0.05}),
            ]
        })
        .collect();
    model.push(plan(&json!(tasks)));
    let mut daemon = sandbox.ready();
    telegram.say(ANA, ANA, "go");
    for kill in 1..count {
        telegram.wait_sent(|sent| sent.text.contains(&format!("part {kill}")), SOON);
        daemon.kill9();
        daemon = sandbox.ready();
    }
    telegram.wait_sent(|sent| sent.text.contains(&format!("part {count}")), SOON);
    let plain: Vec<String> = telegram
        .sent()
        .into_iter()
        .map(|sent| sent.text)
        .filter(|text| !text.contains("(resent)"))
        .collect();
    let expected: Vec<String> = (1..=count).map(|n| format!("part {n}")).collect();
    assert_eq!(plain, expected, "a second copy is marked");
    assert_eq!(model.requests().len(), 1);
    drop(daemon);
}

#[test]
fn what_acts_beyond_the_chat_asks_the_owner_and_blocks_nothing() {
    let house = house("[telegram]\nallow_from = [1002, 1003]\n");
    for (who, count) in [(OWNER, 1), (1003, 2)] {
        house.telegram.say(who, who, "hello");
        house.telegram.wait_sent(|sent| sent.chat == who, SOON);
        settled_after(&house, count);
    }
    house.model.push(plan(&json!([
        {"kind": "xsend", "id": "x", "depends_on": [], "to": "1003", "text": "psst"},
        {"kind": "block", "id": "y", "depends_on": []},
        {"kind": "send", "id": "z", "depends_on": [], "text": "Told them."},
        {"kind": "send", "id": "w", "depends_on": ["z"], "text": "Bye."}
    ])));
    house.telegram.say(ANA, ANA, "write to 1003, and block me");
    house.telegram.wait_sent(|sent| sent.text == "Bye.", SOON);
    let asked = |word: &'static str| {
        house.telegram.wait_sent(
            move |sent| sent.chat == OWNER && sent.text.contains(word),
            SOON,
        )
    };
    asked("psst");
    asked("block");
    assert_eq!(texts(&house, 1003).len(), 1, "nothing but the greeting");
    let people = house.sandbox.read("state/people.json").unwrap_or_default();
    assert!(!people.contains("blocked"), "{people}");
    // What the owner was asked waits for them, whatever its partner writes meanwhile.
    house.model.push(plan(&json!([
        {"kind": "xsend", "to": "1003", "text": "hist"},
        {"kind": "send", "text": "Wait."}
    ])));
    house.telegram.say(ANA, ANA, "and?");
    house.telegram.wait_sent(|sent| sent.text == "Wait.", SOON);
    for (words, verdict) in [
        ("psst", "--approve"),
        ("block", "--deny"),
        ("hist", "--deny"),
    ] {
        let ids = format!("SELECT id FROM approvals WHERE question LIKE '%{words}%'");
        let rows = house.sandbox.query("queue", &ids);
        let id = match rows.first().and_then(|row| row.first()) {
            Some(SqlValue::Text(id)) => id.clone(),
            other => panic!("{words}: {other:?}"),
        };
        let decided = house.sandbox.send(&[verdict, &id]);
        assert_eq!(decided.code, 0, "{decided:?}");
    }
    house
        .telegram
        .wait_sent(|sent| sent.chat == 1003 && sent.text == "psst", SOON);
    let people = house.sandbox.read("state/people.json").unwrap_or_default();
    assert!(!people.contains("blocked"), "{people}");
    settled(&house.sandbox);
}

#[test]
fn pages_are_read_and_a_new_plan_follows() {
    let pages = Pages::start();
    pages.put("/page", 200, "text/plain", "The answer is 4711.");
    let house = house(&format!("[tools.web]\nallow = [\"{}\"]\n", pages.host()));
    let url = pages.url("/page");
    house.model.push(plan(&json!([
        {"kind": "send", "text": "Let me look."},
        {"kind": "retrieve", "urls": [url]}
    ])));
    house
        .model
        .push(plan(&json!([{"kind": "send", "text": "It says 4711."}])));
    house
        .telegram
        .say(OWNER, OWNER, &format!("what does {url} say?"));
    house
        .telegram
        .wait_sent(|sent| sent.text == "It says 4711.", SOON);
    assert_eq!(texts(&house, OWNER), ["Let me look.", "It says 4711."]);
    assert!(
        house.model.requests()[1]
            .to_string()
            .contains("The answer is 4711.")
    );
}

#[test]
fn a_task_that_fails_for_now_is_tried_again_after_a_pause() {
    let house = house("[agent.stickers]\nstickers = [\"Cats :: 😿\"]\n");
    house.telegram.offer_stickers("Cats", &["😿"]);
    // The prompt asks for the set first.
    house.telegram.fault(Fault {
        method: "getStickerSet",
        kind: FaultKind::Status(502),
        count: 2,
    });
    house.model.push(plan(&json!([{"kind": "sticker", "set": "Cats", "name": "😿"}, {"kind": "send", "text": "There."}])));
    house.telegram.say(ANA, ANA, "hi");
    house.telegram.wait_sent(|sent| sent.text == "There.", SOON);
    assert_eq!(house.telegram.calls_of("sendSticker").len(), 1);
    let retries = house.sandbox.query(
        "queue",
        "SELECT 1 FROM tasks WHERE id LIKE 'retry-%' AND state = 'done'",
    );
    assert_eq!(retries.len(), 1);
}

#[test]
fn a_caller_who_waits_reads_the_words_of_the_plan() {
    let house = house("");
    house.model.push(plan(&json!([
        {"kind": "think", "text": "secret"},
        {"kind": "send", "text": "Hello."},
        {"kind": "wait", "delay": 60},
        {"kind": "send", "text": "World."}
    ])));
    let output = house.sandbox.send(&["--wait", "hi"]);
    assert_eq!(output.stdout.trim(), "Hello.\n\nWorld.");
}
