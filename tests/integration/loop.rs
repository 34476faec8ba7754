//! The loop of model and tools as the model's server sees it: what is asked, in which form, how often, and
//! what it is paid for.

use std::{
    fs,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use rusqlite::types::Value as Sql;
use serde_json::{Value, json};

use crate::support::{
    Daemon, FakeModel, FakeTelegram, Fault, FaultKind, Output, Reply, Sandbox, wait_for,
};

/// Long against everything that happens here, short against the patience of a reader.
const SOON: Duration = Duration::from_secs(20);
/// Nano US dollars for a token in and out, by the rates of the sandbox's model.
const RATES: (u64, u64) = (3_000, 15_000);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    Anthropic,
    OpenAi,
}

struct House {
    // First, so that it ends before its files go.
    _daemon: Daemon,
    model: FakeModel,
    sandbox: Sandbox,
}

impl House {
    fn new() -> Self {
        Self::with(Wire::Anthropic, "")
    }

    fn with(wire: Wire, config: &str) -> Self {
        let model = FakeModel::start();
        let sandbox = match wire {
            Wire::Anthropic => Sandbox::new().with_anthropic(&model),
            Wire::OpenAi => Sandbox::new().with_openai(&model),
        };
        let sandbox = sandbox.config(config);
        let daemon = sandbox.ready();
        Self {
            _daemon: daemon,
            model,
            sandbox,
        }
    }

    fn ask(&self, text: &str) -> Output {
        self.sandbox.send(&["--wait=40", text])
    }

    /// Asks and returns the reply; panics when there is none.
    fn reply(&self, text: &str) -> String {
        let told = self.ask(text);
        assert_eq!(told.code, 0, "{text}: {told:?}");
        told.stdout.trim_end().to_owned()
    }

    fn last_request(&self) -> Value {
        self.model.requests().pop().expect("a request")
    }

    fn tool(&self, name: &str, input: Value) {
        self.model.push(Reply::Tool(name.to_owned(), input));
    }
}

/// Returns (id of the call, text, whether it is an error) of every tool result in a request.
fn results(wire: Wire, request: &Value) -> Vec<(String, String)> {
    let messages = request["messages"].as_array().expect("messages");
    let text = |content: &Value| match content {
        Value::String(text) => text.clone(),
        blocks => blocks
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|block| block["text"].as_str())
            .collect(),
    };
    match wire {
        Wire::OpenAi => messages
            .iter()
            .filter(|message| message["role"] == "tool")
            .map(|message| {
                (
                    message["tool_call_id"]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned(),
                    text(&message["content"]),
                )
            })
            .collect(),
        Wire::Anthropic => messages
            .iter()
            .flat_map(|message| message["content"].as_array().into_iter().flatten())
            .filter(|block| block["type"] == "tool_result")
            .map(|block| {
                (
                    block["tool_use_id"].as_str().unwrap_or_default().to_owned(),
                    text(&block["content"]),
                )
            })
            .collect(),
    }
}

/// Returns the ids of the tool calls in a request, in order.
fn calls(wire: Wire, request: &Value) -> Vec<String> {
    let messages = request["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .filter(|message| message["role"] == "assistant");
    let calls = messages.flat_map(|message| match wire {
        Wire::OpenAi => message["tool_calls"].as_array().into_iter().flatten(),
        Wire::Anthropic => message["content"].as_array().into_iter().flatten(),
    });
    calls
        .filter(|call| call["type"] != "text")
        .filter_map(|call| call["id"].as_str().map(str::to_owned))
        .collect()
}

// ------------------------------------------------------------------ rounds

#[test]
fn a_tool_round_trip_works_on_both_wires() {
    for wire in [Wire::Anthropic, Wire::OpenAi] {
        let house = House::with(wire, "");
        let call = json!({"path": "notes/a.txt", "content": "first line\nsecond line\n"});
        assert_eq!(
            house.reply(&format!("[[tool write {call}]]")),
            "result: wrote notes/a.txt: 2 lines, 23 bytes"
        );
        assert_eq!(
            house.sandbox.read("workspace/notes/a.txt").as_deref(),
            Some("first line\nsecond line\n")
        );
        let call = json!({"path": "notes/a.txt", "offset": 2});
        assert_eq!(
            house.reply(&format!("[[tool read {call}]]")),
            "result: 2\tsecond line"
        );
        let call = json!({"path": "notes/a.txt", "old_string": "first", "new_string": "1st"});
        assert!(
            house
                .reply(&format!("[[tool edit {call}]]"))
                .starts_with("result: edited"),
            "{wire:?}"
        );
        let call = json!({"command": "cat notes/a.txt; echo oops >&2; exit 3"});
        assert_eq!(
            house.reply(&format!("[[tool exec {call}]]")),
            "result: 1st line\nsecond line\noops\n[exit 3]"
        );
        let request = house.last_request();
        assert_eq!(
            calls(wire, &request).len(),
            4,
            "{wire:?}: the whole conversation is there"
        );
        assert_eq!(
            results(wire, &request)
                .into_iter()
                .map(|(id, _)| id)
                .collect::<Vec<_>>(),
            calls(wire, &request)
        );
        let path = &house.model.exchanges()[0].path;
        assert!(
            path.ends_with(if wire == Wire::OpenAi {
                "/chat/completions"
            } else {
                "/messages"
            }),
            "{path}"
        );
    }
}

#[test]
fn several_calls_in_one_reply_are_answered_in_their_order() {
    for wire in [Wire::Anthropic, Wire::OpenAi] {
        let house = House::with(wire, "");
        let one = json!({"command": "sleep 0.3; echo one >> order.txt; echo one"});
        let two = json!({"command": "echo two >> order.txt; echo two"});
        let reply = house.reply(&format!(
            "[[tool exec {one}]] [[tool exec {two}]] [[tool no_such_tool]] [[say never]]"
        ));
        // The script refuses what is not on offer, so the unknown tool is a test of its own.
        assert!(
            reply.starts_with("no tool no_such_tool on offer"),
            "{reply}"
        );
        let reply = house.reply(&format!("[[tool exec {one}]] [[tool exec {two}]]"));
        assert_eq!(
            reply
                .lines()
                .filter(|line| !line.is_empty())
                .collect::<Vec<_>>(),
            ["result: one", "two"],
            "{wire:?}"
        );
        assert_eq!(
            house.sandbox.read("workspace/order.txt").as_deref(),
            Some("one\ntwo\n"),
            "one after the other"
        );
        let request = house.last_request();
        assert_eq!(
            results(wire, &request)
                .into_iter()
                .map(|(id, _)| id)
                .collect::<Vec<_>>(),
            calls(wire, &request)
        );
    }
}

#[test]
fn a_tool_that_is_unknown_or_called_wrongly_is_an_error_for_the_model_and_the_loop_goes_on() {
    let house = House::new();
    for (tool, input, says) in [
        (
            "teleport",
            json!({"to": "Mars"}),
            "no tool is called \"teleport\"",
        ),
        ("exec", json!({"comand": "date"}), "command"),
        ("exec", json!({"command": 7}), "command"),
        ("read", json!({"path": "no/such/file"}), "no/such/file"),
        ("read", json!({"path": "../agent.toml"}), "../agent.toml"),
    ] {
        house.tool(tool, input);
        let reply = house.reply("go on");
        assert!(
            reply.starts_with("result: ") && reply.contains(says),
            "{tool}: {reply}"
        );
        let last = house.last_request()["messages"]
            .as_array()
            .and_then(|messages| messages.last().cloned())
            .expect("messages");
        assert_eq!(last["content"][0]["is_error"], true, "{tool}: {last}");
    }
    assert_eq!(house.model.requests().len(), 10);
}

#[test]
fn a_turn_that_finds_no_end_is_ended_with_a_sentence() {
    let house = House::with(Wire::Anthropic, "[agent]\nmax_turns = 4");
    for number in 0..9 {
        house.tool("exec", json!({"command": format!("echo {number}")}));
    }
    let reply = house.reply("for ever");
    assert!(reply.contains("4 steps"), "{reply}");
    let requests = house.model.requests();
    assert_eq!(requests.len(), 4);
    assert!(
        requests[2].to_string().contains("steps are left"),
        "it is reminded: {}",
        requests[2]["messages"]
    );
    let offers = |request: &Value| {
        request["tools"]
            .as_array()
            .is_some_and(|tools| !tools.is_empty())
            && request["tool_choice"]["type"] != "none"
    };
    assert!(
        offers(&requests[2]) && !offers(&requests[3]),
        "the last step has no tools: {:#}",
        requests[3]["tool_choice"]
    );
}

#[test]
fn the_same_call_again_and_again_ends_the_turn() {
    let house = House::new();
    for _ in 0..9 {
        house.tool("exec", json!({"command": "echo same"}));
    }
    let reply = house.reply("go");
    assert!(reply.contains("again and again"), "{reply}");
    assert_eq!(house.model.requests().len(), 5);
    assert!(
        house
            .last_request()
            .to_string()
            .contains("try something else"),
        "it was warned"
    );
}

#[test]
fn a_call_that_was_cut_off_is_not_run() {
    let house = House::new();
    let frames = [
        json!({"type": "message_start", "message": {"id": "msg_cut", "type": "message", "role": "assistant", "model": "mock-model",
            "content": [], "stop_reason": null, "usage": {"input_tokens": 9, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "tool_use", "id": "toolu_cut", "name": "exec", "input": {}}}),
        json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": "{\"command\": \"touch cut-off\"}"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 8192}}),
        json!({"type": "message_stop"}),
    ];
    let stream: String = frames
        .iter()
        .map(|frame| {
            format!(
                "event: {}\ndata: {frame}\n\n",
                frame["type"].as_str().unwrap_or_default()
            )
        })
        .collect();
    house.model.push(Reply::RawSse(stream));
    let reply = house.reply("write a novel");
    assert!(
        reply.starts_with("result: ") && reply.contains("cut off"),
        "{reply}"
    );
    assert!(!house.sandbox.path("workspace/cut-off").exists());
}

#[test]
fn silence_is_the_tool_or_the_exact_word() {
    let telegram = FakeTelegram::start();
    let model = FakeModel::start();
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model);
    let _daemon = sandbox.ready();
    let say = |text: &str| telegram.say(1001, 1001, text).1;
    say("[[say NO_REPLY]]");
    say("[[tool silent {}]]");
    say("[[say HEARTBEAT_OK]]");
    say("[[say NO_REPLY, he said]]");
    let last = say("loud");
    telegram.wait_sent(|sent| sent.reply_to == Some(last), SOON);
    let texts: Vec<String> = telegram.sent().into_iter().map(|sent| sent.text).collect();
    assert_eq!(texts, ["NO_REPLY, he said", "echo: loud"]);
    assert_eq!(model.requests().len(), 5, "silence costs no second call");
}

#[test]
fn a_turn_that_failed_leaves_no_orphan_in_the_next_request() {
    for wire in [Wire::Anthropic, Wire::OpenAi] {
        let house = House::with(wire, "");
        assert_eq!(house.reply("one"), "echo: one");
        house.model.push(Reply::Status(400, None));
        let told = house.ask("two is lost");
        assert_eq!((told.code, told.stdout.as_str()), (1, ""), "{told:?}");
        assert_eq!(house.reply("three"), "echo: three");
        let request = house.last_request();
        assert!(
            !request.to_string().contains("two is lost"),
            "{wire:?}: {}",
            request["messages"]
        );

        // When tools ran, what they did stays known, and the turn is closed.
        house.tool("exec", json!({"command": "echo done | tee done.txt"}));
        // Refused as it is, with less, and without the result.
        (0..3).for_each(|_| house.model.push(Reply::Status(400, None)));
        assert_eq!(house.ask("four").code, 1);
        assert_eq!(
            house.reply("five"),
            "echo: five",
            "the result is not taken for a part of this question"
        );
        let request = house.last_request();
        assert_eq!(
            results(wire, &request).len(),
            1,
            "{wire:?}: {}",
            request["messages"]
        );
    }
}

// ------------------------------------------------------------------ money

fn ledger(sandbox: &Sandbox) -> Vec<Vec<Sql>> {
    sandbox.query(
        "cost",
        "SELECT cost_nano_usd, input_tokens, output_tokens, ok, estimated FROM costs ORDER BY ts",
    )
}

#[test]
fn the_ledger_has_what_was_served_to_the_nano_dollar() {
    for wire in [Wire::Anthropic, Wire::OpenAi] {
        let house = House::with(wire, "");
        house.reply("hello");
        house.reply(&format!("[[tool exec {}]]", json!({"command": "echo hi"})));
        house.reply("[[long 5000]]");
        let served = house.model.tokens_served();
        let expected = served.input * RATES.0 + served.output * RATES.1;
        let sums = "SELECT sum(input_tokens), sum(output_tokens), sum(cost_nano_usd), count(*), min(ok), max(estimated) FROM costs";
        let number = |number: u64| Sql::Integer(i64::try_from(number).expect("small"));
        let row = vec![
            number(served.input),
            number(served.output),
            number(expected),
            number(4),
            number(1),
            number(0),
        ];
        wait_for("the ledger to be settled", SOON, || {
            (house.sandbox.query("cost", sums) == [row.clone()]).then_some(())
        });
        let document = house.sandbox.send(&["--status", "--json"]).json();
        let today = document["today_cost_usd"].as_f64().expect("a number");
        let exact = dollars(expected);
        assert!(
            (today - exact).abs() < 1e-9,
            "{wire:?}: {today} for {exact}"
        );
    }
}

/// Returns nano US dollars as US dollars.
fn dollars(nano: u64) -> f64 {
    Duration::from_nanos(nano).as_secs_f64()
}

#[test]
fn a_call_that_may_exceed_the_cap_is_not_made() {
    // 8192 tokens out cost 0.12288 dollars at most: the first call fits, the second does not.
    let house = House::with(Wire::Anthropic, "[cost]\nday_usd = 0.2");
    house.reply("hello");
    let house_keeps = |house: &House| house.model.requests().len();
    assert_eq!(house_keeps(&house), 1);
    let told = wait_for("the cap to be reached", SOON, || {
        Some(house.ask("[[long 36000]]")).filter(|told| told.code != 0)
    });
    assert_eq!((told.code, told.stdout.as_str()), (1, ""), "{told:?}");
    for part in ["day", "0.20", "[cost] day_usd", "agent.toml"] {
        assert!(
            told.stderr.contains(part),
            "{part:?} is not named: {}",
            told.stderr
        );
    }
    let before = house_keeps(&house);
    assert_eq!(house.ask("and now?").code, 1);
    assert_eq!(house_keeps(&house), before, "no call is made");
    let spent: u64 = ledger(&house.sandbox)
        .iter()
        .map(|row| match row[0] {
            Sql::Integer(nano) => u64::try_from(nano).expect("not negative"),
            _ => panic!("every call has a price: {row:?}"),
        })
        .sum();
    assert!(spent <= 200_000_000, "{spent} nano dollars");
}

#[test]
fn an_unpriced_model_is_refused_under_a_cap_and_told_how_to_price_it() {
    let model = FakeModel::start();
    let provider = format!(
        "type = \"anthropic\"\nbase_url = \"{}\"\napi_key_env = \"MOCK_KEY\"\n[models.primary]\nmodel = \"mock-model\"\n\
         max_tokens = 8192\ncontext_window = 200000",
        model.url()
    );
    let sandbox = Sandbox::new()
        .env("MOCK_KEY", "sk-mock")
        .provider_config("free", &provider)
        .config("[cost]\nday_usd = 1.0");
    let daemon = sandbox.ready();
    let status = || sandbox.send(&["--status"]).stdout;
    // Nobody has asked it anything yet.
    wait_for("the trouble of the start", SOON, || {
        status().contains("has no price").then_some(())
    });
    let told = sandbox.send(&["--wait", "hello"]);
    assert_eq!(told.code, 1, "{told:?}");
    assert!(
        told.stderr.contains("cost_per_mtok = [0, 0, 0, 0]"),
        "{told:?}"
    );
    assert_eq!(model.requests().len(), 0);
    daemon.kill9();

    // A reload says what a start says.
    let capped = sandbox.read("agent.toml").expect("the settings");
    sandbox.put(
        "agent.toml",
        capped.replace("day_usd = 1.0", "day_usd = 0.0").as_bytes(),
    );
    let daemon = sandbox.ready();
    assert!(!status().contains("has no price"), "{}", status());
    sandbox.put("agent.toml", capped.as_bytes());
    daemon.signal(nix::sys::signal::Signal::SIGHUP);
    wait_for("the trouble of the reload", SOON, || {
        status().contains("has no price").then_some(())
    });
}

// ------------------------------------------------------------------ trouble with the model

#[test]
fn passing_trouble_is_tried_again_and_nobody_notices() {
    for wire in [Wire::Anthropic, Wire::OpenAi] {
        let house = House::with(wire, "");
        for (number, trouble) in [
            Reply::Status(529, None),
            Reply::Status(500, None),
            Reply::Status(503, None),
            Reply::Disconnect,
        ]
        .into_iter()
        .enumerate()
        {
            house.model.push(trouble.clone());
            assert_eq!(
                house.reply(&format!("try {number}")),
                format!("echo: try {number}"),
                "{wire:?} {trouble:?}"
            );
        }
        assert_eq!(house.model.requests().len(), 8);
    }
}

#[test]
fn retry_after_is_obeyed() {
    let house = House::new();
    house.model.push(Reply::Status(429, Some(3)));
    house.reply("patience");
    let exchanges = house.model.exchanges();
    let waited = exchanges[1].at - exchanges[0].at;
    assert!(
        (Duration::from_millis(2990)..Duration::from_secs(6)).contains(&waited),
        "{waited:?}"
    );
}

#[test]
fn a_key_that_is_refused_is_not_tried_again_and_is_named() {
    let house = House::new();
    house.model.push(Reply::Status(401, None));
    let started = Instant::now();
    let told = house.ask("hello");
    assert_eq!(told.code, 1, "{told:?}");
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "it took {:?}",
        started.elapsed()
    );
    assert_eq!(house.model.requests().len(), 1);
    assert!(
        told.stderr.contains("key") || told.stderr.contains("401"),
        "{told:?}"
    );
}

#[test]
fn a_model_that_is_down_gives_way_to_its_fallback() {
    let (down, up) = (FakeModel::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_anthropic(&down)
        .with_provider("other", "openai", &up, "spare")
        .provider_config("mock", "[models.primary]\nfallbacks = [\"spare\"]");
    let _daemon = sandbox.ready();
    down.push(Reply::Status(500, Some(60)));
    let told = sandbox.send(&["--wait=60", "hello"]);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "echo: hello\n"),
        "{told:?}"
    );
    assert_eq!((down.requests().len(), up.requests().len()), (1, 1));
    // The first is left alone for a while.
    assert_eq!(sandbox.send(&["--wait", "again"]).stdout, "echo: again\n");
    assert_eq!((down.requests().len(), up.requests().len()), (1, 2));
}

#[test]
fn a_conversation_that_no_longer_fits_says_what_to_do() {
    let house = House::new();
    // The fake's words for a 400 are not a vendor's; a vendor's words are what tells an overflow.
    house.model.push(Reply::Status(413, None));
    let told = house.ask("too much");
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.stderr.contains("/new"), "{told:?}");
    // At most one more, which keeps what matters before the conversation would be cut.
    assert!(house.model.requests().len() <= 2);
}

// ------------------------------------------------------------------ secrets

#[test]
fn keys_and_tokens_are_written_nowhere_whatever_goes_wrong() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .env("MOCK_KEY", "sk-canary-93c1f0d2a7")
        .config("[telegram]\npoll_timeout_secs = 1\n[log]\nlevel = \"trace\"");
    let canaries = ["sk-canary-93c1f0d2a7", telegram.token()];
    let mut daemon = sandbox.daemon_with(&["-vv"]);
    daemon.wait_ready();
    for kind in [
        FaultKind::Status(401),
        FaultKind::Status(502),
        FaultKind::Html502,
        FaultKind::Drop,
        FaultKind::DropAfter,
    ] {
        telegram.fault(Fault {
            method: "sendMessage",
            kind,
            count: u32::from(kind != FaultKind::Status(401)),
        });
    }
    for kind in [
        FaultKind::Drop,
        FaultKind::Status(502),
        FaultKind::Status(409),
    ] {
        telegram.fault(Fault {
            method: "getUpdates",
            kind,
            count: 1,
        });
    }
    for trouble in [
        Reply::Status(500, None),
        Reply::Disconnect,
        Reply::Status(401, None),
    ] {
        model.push(trouble);
    }
    let ask = |text: &str| sandbox.send(&["--wait=40", text]);
    let mut printed = format!("{:?}", ask("what is it?"));
    // Words that hold a secret, and a command that looks for one.
    printed += &format!(
        "{:?}",
        ask(
            "[[tool exec {\"command\": \"env; cat ../.env ../agent.toml /proc/*/environ 2>/dev/null; true\"}]]"
        )
    );
    let (_, id) = telegram.say(1001, 1001, "hello");
    telegram.wait_sent(|sent| sent.reply_to == Some(id), Duration::from_secs(40));
    let origins = sandbox.run("agent-daemon", &["check", "--show-origin"], "");
    printed += &format!("{:?} {origins:?}", sandbox.send(&["--status"]));
    let leaks = sandbox.leaks(&daemon, &telegram, &[("what was printed", printed)]);
    assert_eq!(leaks, [] as [String; 0], "a secret shows");
    assert!(model.requests().iter().all(|body| {
        !canaries
            .iter()
            .any(|canary| body.to_string().contains(canary))
    }));
}

#[test]
fn a_daemon_that_crashes_leaves_no_picture_of_its_memory() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model);
    let daemon = sandbox.ready();
    let limits = fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).expect("it runs");
    let core = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max core file size"));
    let core: Vec<&str> = core.expect("a limit").split_whitespace().collect();
    assert_eq!(core[..2], ["0", "0"], "neither now nor raised later");
    let (_, id) = telegram.say(1001, 1001, "[[sleep 500]] hello");
    wait_for("the model to be asked", Duration::from_secs(20), || {
        (!model.requests().is_empty()).then_some(())
    });
    daemon.signal(Signal::SIGABRT);
    assert_eq!(daemon.wait_exit(Duration::from_secs(20)), -6);
    let daemon = sandbox.ready();
    telegram.wait_sent(|sent| sent.reply_to == Some(id), Duration::from_secs(40));
    let leaks = sandbox.leaks(&daemon, &telegram, &[]);
    assert_eq!(leaks, [] as [String; 0]);
    assert_eq!(daemon.term(), 0);
}
