//! Conversations that grow: summed up, cut, stopped and killed in the middle, and never forgetting their rules.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Daemon, FakeModel, Output, Reply, Sandbox, wait_for};

const SOON: Duration = Duration::from_secs(20);
const SUMMARY: &str = "[Previous conversation summary]";
const FLUSH: &str = "will soon be summed up";
const RULE: &str = "Mail nobody before I approve it, ever.";

/// A daemon with one model that answers and another that sums up.
struct House {
    daemon: Option<Daemon>,
    model: FakeModel,
    summer: FakeModel,
    sandbox: Sandbox,
}

impl House {
    fn new(compact_at: u64, config: &str) -> Self {
        Self::with(
            &format!("[models.primary]\ncompact_at = {compact_at}"),
            config,
        )
    }

    /// Makes one whose model has these settings.
    fn with(provider: &str, config: &str) -> Self {
        let (model, summer) = (FakeModel::start(), FakeModel::start());
        let sandbox = Sandbox::new()
            .with_anthropic(&model)
            .with_provider("other", "openai", &summer, "summer");
        let sandbox = sandbox
            .provider_config("mock", provider)
            .config("[routing]\ncompaction = \"summer\"")
            .config(config);
        sandbox.put(
            "workspace/AGENTS.md",
            b"# Rules\n\nRULE-SEVEN: never delete anything.\n",
        );
        let daemon = Some(sandbox.ready());
        Self {
            daemon,
            model,
            summer,
            sandbox,
        }
    }

    fn ask(&self, text: &str) -> Output {
        self.sandbox.send(&["--wait=60", text])
    }

    fn reply(&self, text: &str) -> String {
        let told = self.ask(text);
        assert_eq!(told.code, 0, "{text}: {told:?}");
        told.stdout.trim_end().to_owned()
    }

    /// Returns the kinds of all events of the one conversation.
    fn events(&self) -> Vec<Value> {
        let told = self.sandbox.send(&["--history", "cli", "--full", "--json"]);
        assert_eq!(told.code, 0, "{told:?}");
        let history: Value = serde_json::from_str(&told.stdout).expect("JSON");
        history["events"].as_array().expect("events").clone()
    }

    fn of_kind(&self, kind: &str) -> Vec<Value> {
        self.events()
            .into_iter()
            .filter(|event| event["type"] == kind)
            .collect()
    }

    fn monitored(&self) -> String {
        self.sandbox
            .read_json("state/monitor.json")
            .map_or_else(String::new, |monitor| {
                monitor["state"].as_str().unwrap_or_default().to_owned()
            })
    }

    fn at_rest(&self) {
        wait_for("an idle daemon", SOON, || {
            (self.monitored() == "idle").then_some(())
        });
    }
}

/// Returns the text of a block or a list of blocks.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        blocks => blocks
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|block| block["text"].as_str())
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

fn first_words(request: &Value) -> String {
    text(&request["messages"][0]["content"])
}

fn is_flush(request: &Value) -> bool {
    request["messages"]
        .as_array()
        .and_then(|messages| messages.last())
        .is_some_and(|last| text(&last["content"]).contains(FLUSH))
}

#[test]
fn a_conversation_keeps_its_rules_through_ten_compactions() {
    let house = House::new(5_000, "");
    // Not as an order in the message: that is recalled one day, and the stand-in would obey it again.
    house
        .model
        .push(Reply::Tool("pin".to_owned(), json!({"text": RULE})));
    house.reply("keep to one rule");
    let filler = "A long story about the harbour and its boats. ".repeat(30);
    let mut turns = 0;
    while house.of_kind("compaction").len() < 10 {
        turns += 1;
        assert!(turns < 100, "no ten compactions in {turns} turns");
        let said = house.reply(&format!("{filler}\nturn {turns}"));
        assert_eq!(said, format!("echo: turn {turns}"));
        house.at_rest();
    }
    assert_eq!(house.reply("and now?"), "echo: and now?");
    let last = house.model.requests().pop().expect("a request");
    let first = first_words(&last);
    assert!(first.starts_with(SUMMARY), "{first}");
    assert_eq!(first.matches(RULE).count(), 1, "{first}");
    assert!(
        text(&last["system"]).contains("RULE-SEVEN"),
        "the rules of AGENTS.md are in every request"
    );
    let messages = last["messages"].as_array().expect("messages").len();
    assert!(messages < 30, "{messages} messages are still sent");
    // Each summary knows the one before it, and what was said is still there to be read.
    let summaries = wait_for("one summary a compaction", SOON, || {
        let (asked, made) = (house.summer.requests(), house.of_kind("compaction").len());
        (asked.len() == made && house.monitored() == "idle").then_some(asked)
    });
    let made = summaries.len();
    assert!(
        summaries
            .iter()
            .skip(1)
            .all(|request| request.to_string().contains("summary so far"))
    );
    let history = house.sandbox.send(&["--history", "cli", "--full"]).stdout;
    assert!(
        (1..=turns).all(|turn| history.contains(&format!("echo: turn {turn}"))),
        "{history}"
    );
    // What matters may be kept once before each, and no word of that is in the conversation.
    let flushes = house
        .model
        .requests()
        .iter()
        .filter(|request| is_flush(request))
        .count();
    assert_eq!(flushes, house.of_kind("flush").len());
    assert!((made..=made + 1).contains(&flushes), "{flushes} of {made}");
    assert!(
        house
            .model
            .requests()
            .iter()
            .filter(|request| !is_flush(request))
            .all(|request| !request.to_string().contains(FLUSH))
    );
    let compactions = house.of_kind("compaction");
    for compaction in &compactions {
        let (before, after) = (
            compaction["tokens"][0].as_u64().expect("before"),
            compaction["tokens"][1].as_u64().expect("after"),
        );
        assert!(after < before, "{before} tokens became {after}");
        assert_eq!(compaction["by"], "model");
    }
    let sessions = house.sandbox.send(&["--sessions", "--json"]).stdout;
    let sessions: Value = serde_json::from_str(&sessions).expect("JSON");
    assert_eq!(sessions["sessions"][0]["compaction_count"], made);
    // Every call of it is in the ledger.
    let paid = house.sandbox.query(
        "cost",
        "SELECT count(*) FROM costs WHERE source = 'compaction'",
    );
    assert_eq!(
        paid,
        [[rusqlite::types::Value::Integer(
            i64::try_from(flushes + made).expect("few")
        )]]
    );
}

#[test]
fn what_is_kept_before_a_compaction_is_kept_by_the_models_own_hands() {
    let house = House::new(2_000, "");
    house.model.push(Reply::Text("noted".to_owned()));
    let keep = |path: &str| json!({"path": path, "content": "- we met at the harbour\n"});
    house.model.push(Reply::Tool(
        "write".to_owned(),
        keep("memory/2026-01-02.md"),
    ));
    house
        .model
        .push(Reply::Tool("write".to_owned(), keep("notes.md")));
    house.model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": "touch made-by-exec"}),
    ));
    house.model.push(Reply::Text("NO_REPLY".to_owned()));
    assert_eq!(house.reply(&"We met at the harbour. ".repeat(300)), "noted");
    let flushes = wait_for("the record of it", SOON, || {
        Some(house.of_kind("flush")).filter(|flushes| !flushes.is_empty())
    });
    assert_eq!(
        house
            .sandbox
            .read("workspace/memory/2026-01-02.md")
            .as_deref(),
        Some("- we met at the harbour\n")
    );
    assert_eq!(house.sandbox.read("workspace/notes.md"), None);
    assert_eq!(house.sandbox.read("workspace/made-by-exec"), None);
    assert_eq!(flushes.len(), 1);
    assert_eq!(
        flushes[0]["receipts"],
        json!(["wrote memory/2026-01-02.md: 1 line, 24 bytes"])
    );
    assert!(
        house.of_kind("tool_call").is_empty(),
        "its calls are no part of the conversation"
    );
}

#[test]
fn a_turn_that_outgrows_the_window_goes_on_with_its_question() {
    let house = House::with(
        "[models.primary]\nmax_tokens = 1000\ncontext_window = 16000",
        "[compaction]\nflush = false",
    );
    for _ in 0..9 {
        house.model.push(Reply::Tool(
            "exec".to_owned(),
            json!({"command": "head -c 15000 /dev/urandom | base64 | head -c 15000"}),
        ));
    }
    house
        .model
        .push(Reply::Text("all nine are read".to_owned()));
    assert_eq!(
        house.reply("Read the NINE files, please"),
        "all nine are read"
    );
    let requests = house.model.requests();
    let largest = requests
        .iter()
        .map(|request| request.to_string().len() as u64 / 4)
        .max()
        .expect("requests");
    assert!(largest <= 16_000, "{largest} tokens were sent");
    let compactions = house.of_kind("compaction");
    assert!(!compactions.is_empty());
    assert!(
        compactions
            .iter()
            .all(|compaction| compaction["question"].is_u64()),
        "{compactions:?}"
    );
    let last = requests.last().expect("a request");
    assert!(
        first_words(last).starts_with(SUMMARY)
            && last["messages"].to_string().contains("Read the NINE files"),
        "{last}"
    );
}

#[test]
fn what_matters_is_kept_also_when_one_result_jumps_past_the_limit() {
    let house = House::with(
        "[models.primary]\nmax_tokens = 1000\ncontext_window = 9000",
        "",
    );
    let long = "head -c 29000 /dev/zero | tr '\\0' x";
    let call = Reply::Tool("exec".to_owned(), json!({"command": long}));
    house.model.push(call);
    house.model.push(Reply::Text("NO_REPLY".to_owned()));
    house.model.push(Reply::Text("it is long".to_owned()));
    assert_eq!(house.reply("What does it print?"), "it is long");
    assert_eq!(house.of_kind("flush").len(), 1);
    assert!(!house.of_kind("compaction").is_empty());
    let requests = house.model.requests();
    assert!(is_flush(&requests[1]), "it comes first: {}", requests[1]);
    let largest = requests.iter().map(|request| request.to_string().len() / 4);
    assert!(largest.max().expect("requests") <= 9_000);
}

#[test]
fn of_a_message_that_is_too_long_as_much_is_read_as_fits_and_it_is_said() {
    let house = House::with(
        "[models.primary]\nmax_tokens = 1000\ncontext_window = 24000",
        "",
    );
    let words = format!("BEGINNING {} END", "some words ".repeat(11_000));
    let told = house.reply(&words);
    let length = words.len();
    assert!(
        told.contains(&format!("has {length} characters and is too long")),
        "{told}"
    );
    let requests = house.model.requests();
    let read = requests.last().expect("a request")["messages"].to_string();
    assert!(read.contains("BEGINNING") && read.contains(" END"));
    assert!((20_000..80_000).contains(&read.len()), "{}", read.len());
    let message = house.of_kind("message").pop().expect("an answer");
    let run = message["run_id"].as_str().expect("a run");
    let explained = house.sandbox.send(&["--json", "--explain", run]).json();
    let parts = explained["prompt_blocks"].as_array().expect("a list");
    let message = parts.iter().find(|part| part["name"] == "message");
    let message = message.expect("a message");
    assert_eq!(message["cut"], true, "{message}");
    let tokens = message["tokens"].as_u64().expect("tokens");
    let messages = &requests.last().expect("a request")["messages"];
    let last = messages.as_array().and_then(|all| all.last()).expect("one");
    let length = text(&last["content"]).len();
    let sent = u64::try_from(length * 3 / 10).expect("tokens");
    assert!(tokens.abs_diff(sent) < 100, "{sent}: {message}");
    // One that fits is not spoken of.
    let told = house.reply("and now?");
    assert!(!told.contains("too long"), "{told}");
}

#[test]
fn an_overflow_the_vendor_reports_is_answered_by_one_compaction() {
    let house = House::new(0, "");
    for turn in 0..6 {
        house.reply(&format!("turn {turn} {}", "and more words ".repeat(40)));
    }
    let overflow = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 210000 tokens > 200000 maximum\"}}\n\n";
    house.model.push(Reply::RawSse(overflow.to_owned()));
    assert_eq!(house.reply("do you hear me?"), "echo: do you hear me?");
    assert_eq!(house.of_kind("compaction").len(), 1);
    // One that no cut helps ends the turn with words, and the next one begins as if nothing had been.
    house.model.push(Reply::RawSse(overflow.to_owned()));
    // What matters is kept first.
    house.model.push(Reply::Text("NO_REPLY".to_owned()));
    house.model.push(Reply::RawSse(overflow.to_owned()));
    let told = house.ask("and now?");
    assert_eq!(told.code, 1, "{told:?}");
    assert!(
        told.stderr.contains("does not fit the model's window"),
        "{told:?}"
    );
    assert_eq!(house.reply("hello again"), "echo: hello again");
}

#[test]
fn a_request_too_large_for_a_minute_is_answered_by_one_compaction() {
    let house = House::new(0, "");
    for turn in 0..6 {
        house.reply(&format!("turn {turn} {}", "and more words ".repeat(40)));
    }
    let words = "Request too large for gpt-4.1 in organization org-1 on tokens per min (TPM): Limit 30000, Requested 37313. The input or output tokens must be reduced in order to run successfully.";
    let event = json!({"type": "error", "error": {"type": "rate_limit_error", "message": words}});
    let limited = format!("event: error\ndata: {event}\n\n");
    house.model.push(Reply::RawSse(limited));
    assert_eq!(house.reply("do you hear me?"), "echo: do you hear me?");
    assert_eq!(house.of_kind("compaction").len(), 1);
}

#[test]
fn without_a_model_it_waits_as_long_as_there_is_room_and_then_counts_and_quotes() {
    let house = House::with(
        "[models.primary]\nmax_tokens = 500\ncontext_window = 8000\ncompact_at = 3500",
        "[compaction]\nflush = false",
    );
    for _ in 0..40 {
        house.summer.push(Reply::Status(400, None));
    }
    let words = "and more words ".repeat(40);
    let mut turn = 0;
    while house.of_kind("compaction").is_empty() {
        turn += 1;
        assert!(turn < 40, "no compaction");
        assert_eq!(
            house.reply(&format!("{words}\nturn {turn}")),
            format!("echo: turn {turn}")
        );
    }
    assert!(house.summer.requests().len() > 1, "it was tried before");
    let compactions = house.of_kind("compaction");
    assert_eq!(
        (compactions.len(), &compactions[0]["by"]),
        (1, &json!("statistics"))
    );
    assert!(
        compactions[0]["tokens"][0].as_u64() > Some(7_000),
        "{compactions:?}"
    );
    assert!(
        first_words(&house.model.requests().pop().expect("a request"))
            .contains("No model summed this up")
    );
    wait_for("the trouble in the status", SOON, || {
        let status = house.sandbox.send(&["--status"]).stdout;
        status
            .contains("without a summary by a model")
            .then_some(())
    });
    // Whoever asks for it is told why not, and loses nothing.
    let told = house.sandbox.send(&["--compact", "cli", "--wait=30"]);
    assert!(told.stderr.contains("nothing was changed"), "{told:?}");
    assert_eq!(house.of_kind("compaction").len(), 1);
}

/// A summary that was not made is never made up for: a message that finds its conversation full has it summed up by the
/// model that answers there while the other is away. When that one is away as well it waits, and nothing is cut meanwhile.
#[test]
fn a_full_conversation_is_summed_up_by_its_own_model_while_the_other_is_away_or_waits_for_either() {
    let away = |model: &FakeModel| {
        for _ in 0..1000 {
            model.push(Reply::Status(503, None));
        }
    };
    let house = || {
        let house = House::with(
            "[models.primary]\nmax_tokens = 500\ncontext_window = 8000",
            "[compaction]\nflush = false",
        );
        away(&house.summer);
        house
    };
    let words = "and more words ".repeat(40);
    let message = |turn: usize| format!("{words}\nturn {turn}");
    let own = house();
    let mut turns = 0;
    while own.of_kind("compaction").is_empty() {
        turns += 1;
        assert!(turns < 60, "no compaction");
        assert_eq!(own.reply(&message(turns)), format!("echo: turn {turns}"));
    }
    let by = |compactions: &[Value]| compactions[0]["by"].clone();
    assert_eq!(by(&own.of_kind("compaction")), "model");
    let is_summary = |request: &Value| first_words(request).contains("⟦conversation⟧");
    assert!(own.model.requests().iter().any(is_summary));
    drop(own);

    let house = house();
    // Well before it is full, and then well over it.
    (1..turns - 1).for_each(|turn| drop(house.reply(&message(turn))));
    let states = |which: &str| {
        let query = format!("SELECT id FROM inbox WHERE {which}");
        house.sandbox.query("queue", &query).len()
    };
    away(&house.model);
    let long = format!("{}{}", words.repeat(3), message(turns));
    assert_eq!(house.sandbox.send(&[&long]).code, 0);
    wait_for("a wait", SOON, || {
        (states("state = 'pending' AND suspended IS NOT NULL") > 0).then_some(())
    });
    assert!(house.of_kind("compaction").is_empty());
    house.model.forget();
    house.summer.forget();
    wait_for("the answer", Duration::from_secs(90), || {
        (states("state != 'done'") == 0).then_some(())
    });
    let compactions = house.of_kind("compaction");
    assert_eq!((compactions.len(), by(&compactions)), (1, json!("model")));
    let last = house.model.requests().pop().expect("a request");
    assert!(!last.to_string().contains("No model summed this up"));
}

/// The offline model's summary of two messages is longer than they are, and a model that is away makes none: whoever
/// asks is told so, nothing is cut, and nothing is wrong with the agent.
#[test]
fn a_request_that_cannot_be_met_cuts_nothing_and_is_no_trouble() {
    let trouble = |sandbox: &Sandbox| {
        let told = sandbox.run("agent-daemon", &["doctor", "--json"], "");
        told.stdout.contains("daemon-trouble")
    };
    let sandbox = Sandbox::new();
    let daemon = sandbox.ready();
    for words in ["hello", "well met"] {
        assert_eq!(sandbox.send(&["--wait=60", words]).code, 0);
    }
    let told = sandbox.send(&["--wait=60", "/compact"]);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "There is nothing to summarize yet.\n"),
        "{told:?}"
    );
    let told = sandbox.send(&["--compact", "--wait=60"]);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(!trouble(&sandbox));
    assert_eq!(daemon.term(), 0);

    let house = House::new(0, "");
    for turn in 0..6 {
        house.reply(&format!("turn {turn} {}", "and more words ".repeat(40)));
    }
    house.summer.push(Reply::Status(400, None));
    let told = house.ask("/compact");
    assert_eq!(told.code, 1, "{told:?}");
    assert!(
        told.stderr.contains("was not summarized") && told.stderr.contains("nothing was changed"),
        "{told:?}"
    );
    assert!(house.of_kind("compaction").is_empty());
    assert!(!trouble(&house.sandbox));
}

#[test]
fn a_stop_ends_a_compaction_within_two_seconds_and_a_kill_leaves_none_or_one() {
    let mut house = House::new(2_000, "[compaction]\nflush = false");
    for _ in 0..9 {
        house.summer.push(Reply::Hang);
    }
    let words = "and more words ".repeat(500);
    house.reply("one");
    house.reply("two");
    house.reply(&words);
    wait_for("a compaction", SOON, || {
        (house.summer.in_flight() > 0).then_some(())
    });
    wait_for("its state", SOON, || {
        (house.monitored() == "compacting").then_some(())
    });
    let began = Instant::now();
    let told = house.sandbox.send(&["--stop"]);
    assert_eq!(told.code, 0, "{told:?}");
    house.at_rest();
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    assert!(house.of_kind("compaction").is_empty());
    // The next turn is answered, and tries again; there it is killed.
    house.reply(&format!("once more {words}"));
    wait_for("the next try", SOON, || {
        (house.summer.in_flight() > 0).then_some(())
    });
    house.daemon.take().expect("a daemon").kill9();
    assert!(house.of_kind("compaction").is_empty());
    // Replies that were queued for it stay queued: they are for the killed one's successors, so it gets a new server.
    let summer = FakeModel::start();
    let House {
        daemon: _,
        model,
        sandbox,
        ..
    } = house;
    let mut house = House {
        daemon: None,
        model,
        sandbox: sandbox.with_provider("other", "openai", &summer, "summer"),
        summer,
    };
    house.sandbox.reconfigure("");
    house.daemon = Some(house.sandbox.ready());
    house.reply("still there?");
    wait_for("the compaction", SOON, || {
        (house.of_kind("compaction").len() == 1).then_some(())
    });
    house.reply("and now?");
    assert_eq!(house.of_kind("compaction").len(), 1);
    assert_eq!(house.summer.requests().len(), 1);
}

/// What a model refuses to sum up is not summed up, and no summary is asked for again after every turn.
#[test]
fn a_refusal_is_no_summary_and_is_not_paid_for_after_every_turn() {
    let house = House::new(3_000, "[compaction]\nflush = false");
    let chunk = |choice: Value| {
        let chunk = json!({"id": "x", "object": "chat.completion.chunk", "model": "summer", "choices": [choice]});
        format!("data: {chunk}\n\n")
    };
    let refusal = [
        chunk(
            json!({"index": 0, "delta": {"role": "assistant", "content": "I cannot help with that."}}),
        ),
        chunk(json!({"index": 0, "delta": {}, "finish_reason": "content_filter"})),
        "data: [DONE]\n\n".to_owned(),
    ];
    for _ in 0..20 {
        house.summer.push(Reply::RawSse(refusal.concat()));
    }
    let asked_for = |count: usize| {
        wait_for("a request for a summary", SOON, || {
            (house.summer.requests().len() == count).then_some(())
        });
        house.at_rest();
    };
    let long = "and more words ".repeat(400);
    house.reply("one");
    house.reply(&format!("two {long}"));
    asked_for(1);
    // It has not grown since.
    for turn in 0..2 {
        house.reply(&format!("turn {turn}"));
        house.at_rest();
    }
    house.reply(&format!("more {long}"));
    asked_for(2);
    let told = |event: &Value| event["summary"].to_string().contains("cannot help");
    assert!(!house.of_kind("compaction").iter().any(told));
}
