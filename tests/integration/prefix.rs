//! The beginning of a request stays the same, byte by byte, so that vendors read it from their cache: tools, system
//! text and all earlier messages, over many turns, days and a restart.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Clock, FakeModel, House, Met, Reply, Sandbox, wait_for};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);
const TURNS: usize = 50;

fn skill(name: &str, more: &str, body: &str) -> String {
    format!("---\nname: {name}\ndescription: How to make a {name}.\n{more}---\n{body}\n")
}

/// A home as `init` makes it, with two skills, whose clock is ours.
fn home(model: &FakeModel) -> (Sandbox, Clock) {
    let sandbox = Sandbox::new().with_anthropic(model);
    assert_eq!(sandbox.run("agent-daemon", &["init", "--yes"], "").code, 0);
    sandbox.put(
        "workspace/skills/backup/SKILL.md",
        skill("backup", "", "Copy, then compare.").as_bytes(),
    );
    sandbox.put(
        "workspace/skills/tone/SKILL.md",
        skill("tone", "always_on: true\n", &"Be brief. ".repeat(200)).as_bytes(),
    );
    sandbox.with_clock()
}

/// What is said in a turn: words, tools of every kind, several at once, questions that something is recalled for.
fn words(turn: usize) -> String {
    let tools = [
        r#"[[tool memory_write {"type": "note", "content": "My sister Ana lives in Porto."}]]"#,
        r#"[[tool load_skill {"name": "backup"}]]"#,
        r#"[[tool write {"path": "notes.md", "content": "one\ntwo"}]] [[tool session_status {}]]"#,
        r#"[[tool read {"path": "notes.md"}]] [[tool read {"path": "absent.md"}]]"#,
        r#"[[tool memory_search {"query": "sister"}]]"#,
    ];
    match turn % 5 {
        0 => format!("number {turn}: {}", tools[turn / 5 % tools.len()]),
        3 => format!("number {turn}: Where does my sister Ana live?"),
        _ => format!(
            "number {turn}: {}",
            "something to talk about ".repeat(turn % 7 + 1)
        ),
    }
}

/// Takes the marks off, which move on with every request.
fn unmarked(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.remove("cache_control");
            fields
                .values_mut()
                .for_each(|field| *field = unmarked(field.take()));
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| *item = unmarked(item.take())),
        _ => {}
    }
    value
}

/// Checks that `after` begins with all of `before`.
fn check_continues(number: usize, before: &Value, after: &Value) {
    let [before, after] = [before, after].map(|body| unmarked(body.clone()));
    for part in ["model", "tools", "system", "tool_choice"] {
        assert_eq!(
            before[part].to_string(),
            after[part].to_string(),
            "request {number}: {part}"
        );
    }
    let messages = |body: &Value| {
        body["messages"]
            .as_array()
            .expect("messages")
            .iter()
            .map(Value::to_string)
            .collect::<Vec<_>>()
    };
    let (before, after) = (messages(&before), messages(&after));
    assert!(
        after.len() > before.len(),
        "request {number} says nothing new"
    );
    assert_eq!(
        before,
        after[..before.len()],
        "request {number}: its messages"
    );
}

/// Of the input of these requests, how much was read from the cache.
fn ratio(met: &[Met]) -> f64 {
    let sum = |of: fn(&Met) -> u64| met.iter().map(of).sum::<u64>();
    let share = |part: u64, whole: u64| {
        f64::from(u32::try_from(part).expect("few")) / f64::from(u32::try_from(whole).expect("few"))
    };
    share(
        sum(|met| met.read),
        sum(|met| met.read + met.written + met.rest),
    )
}

#[test]
fn tools_system_and_all_earlier_messages_stay_the_same_over_fifty_turns() {
    let model = FakeModel::start();
    let (sandbox, mut clock) = home(&model);
    model.caches();
    let mut daemon = sandbox.ready();
    let mut after_a_pause = Vec::new();
    for turn in 0..TURNS {
        // A minute or three between messages, thrice some days, once a restart.
        let pause = if turn % 17 == 16 {
            DAY * 2
        } else {
            MINUTE * (1 + u32::try_from(turn % 3).expect("small"))
        };
        if pause > MINUTE * 5 {
            after_a_pause.push(model.requests().len());
        }
        clock.later(pause);
        model.later(pause);
        if turn == 30 {
            daemon.kill9();
            daemon = sandbox.ready();
        }
        let said = sandbox.send(&["--wait", &words(turn)]);
        assert_eq!(said.code, 0, "{said:?}");
    }
    let requests = model.requests();
    assert!(
        requests.len() >= TURNS + TURNS / 5,
        "{} requests",
        requests.len()
    );
    for (number, pair) in requests.windows(2).enumerate() {
        check_continues(number + 1, &pair[0], &pair[1]);
    }
    let all = Value::Array(requests.clone()).to_string();
    for part in [
        "memory that may bear on this message",
        "lives in Porto",
        "<name>backup</name>",
        "# Skill tone",
        "Copy, then compare.",
        "prompts/Memory.md",
    ] {
        assert!(all.contains(part), "no request has {part:?}");
    }

    // Everything that was sent in the last five minutes is read; what was not cannot be.
    let met = model.met();
    let missed: Vec<(usize, &Met)> = met
        .iter()
        .enumerate()
        .filter(|(_, met)| met.read != met.best)
        .collect();
    assert_eq!(missed, [], "requests that read less than they could");
    let unbroken: Vec<Met> = met
        .iter()
        .enumerate()
        .skip(1)
        .filter(|(at, _)| !after_a_pause.contains(at))
        .map(|(_, met)| *met)
        .collect();
    let (with_pauses, without) = (ratio(&met[1..]), ratio(&unbroken));
    println!(
        "{} requests; read from the cache: {with_pauses:.3}, without the {} after days: {without:.3}",
        met.len(),
        after_a_pause.len()
    );
    assert!(without >= 0.95, "{without}");
    assert!(with_pauses >= 0.90, "{with_pauses}");

    // The owner is told the same.
    let cost = sandbox.send(&["--cost", "all", "--json"]).json();
    let of_all = cost["cache_read_ratio"].as_f64().expect("a number");
    assert!(
        (of_all - ratio(&met)).abs() < 0.001,
        "{of_all} {}",
        ratio(&met)
    );

    // A new line of MEMORY.md changes the second system block and nothing before it or behind.
    let memory = sandbox.read("workspace/MEMORY.md").expect("it is there");
    sandbox.put(
        "workspace/MEMORY.md",
        format!("{memory}\n- new\n").as_bytes(),
    );
    sandbox.send(&["--wait", "and now?"]);
    let [before, after] = [
        &requests[requests.len() - 1],
        model.requests().last().expect("one more"),
    ]
    .map(|body| unmarked(body.clone()));
    assert_eq!(
        (&before["tools"], &before["system"][0]),
        (&after["tools"], &after["system"][0])
    );
    assert_ne!(before["system"][1], after["system"][1]);
    let earlier = before["messages"].as_array().expect("messages");
    assert_eq!(
        earlier[..],
        after["messages"].as_array().expect("messages")[..earlier.len()]
    );
}

/// A mark looks back 20 blocks (see the fake): one step of 9 calls and their results is bridged.
#[test]
fn nine_calls_at_once_are_a_step_that_the_cache_bridges() {
    let model = FakeModel::start();
    let (sandbox, _clock) = home(&model);
    model.caches();
    let _daemon = sandbox.ready();
    let met = |words: &str| {
        sandbox.send(&["--wait", words]);
        model.met().last().copied().expect("a request")
    };
    met(&"something to talk about ".repeat(200));
    let calls = |count: usize| r#"[[tool session_status {}]] "#.repeat(count);
    let few = met(&calls(9));
    assert_eq!(few.read, few.best, "{few:?}");
    // More than that is rewritten; what stands before the conversation is read all the same.
    let many = met(&calls(15));
    println!("15 calls: {many:?}");
    assert!(many.read > 1_500, "{many:?}");
}

#[test]
fn a_persona_is_told_the_same_before_each_newest_message() {
    const ANA: i64 = 1002;
    let house = House::with(
        "[agent]\nmode = \"plan\"\nplan_pause_ms = 50\n\
         [agent.typing]\nstart_delay_secs = 0.0\nchars_per_sec = 0.0\n",
    );
    for turn in 0..4 {
        let mut tasks = vec![json!({"kind": "send", "text": format!("Answer {turn}.")})];
        if turn == 0 {
            // What is noted of a guest stands in a fence.
            tasks.push(json!({"kind": "remember", "text": "likes tea"}));
        }
        house.model.push(Reply::Text(json!(tasks).to_string()));
        house.telegram.say(ANA, ANA, &format!("message {turn}"));
        house
            .telegram
            .wait_sent(|sent| sent.text == format!("Answer {turn}."), MINUTE);
        let open = "SELECT 1 FROM tasks WHERE state IN ('blocked', 'ready')";
        wait_for("the plan to end", MINUTE, || {
            house.sandbox.query("queue", open).is_empty().then_some(())
        });
    }
    let requests = house.model.requests();
    assert_eq!(requests.len(), 4);
    assert!(requests[1]["system"].to_string().contains("likes tea"));
    // The first was made before the note.
    for (number, pair) in requests.windows(2).enumerate().skip(1) {
        check_continues(number, &pair[0], &pair[1]);
    }
}
