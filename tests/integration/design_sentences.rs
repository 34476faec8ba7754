//! What the agent's designs say of talking, sending and searching, through the real daemon.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{House, Pages, Reply, Sandbox, result_text, wait_for};

const SOON: Duration = Duration::from_secs(20);
const OWNER: i64 = 1001;
const GUEST: i64 = 1002;

/// An answer that says something and calls a tool.
fn says_and_calls(words: &str, tool: &str, input: &Value) -> Reply {
    let events = [
        json!({"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": {"input_tokens": 9, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": words}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t1", "name": tool, "input": {}}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": input.to_string()}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ];
    let event = |event: &Value| {
        format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().unwrap_or_default()
        )
    };
    Reply::RawSse(events.iter().map(event).collect())
}

/// Says something as the owner and returns the answer.
fn ask(house: &House, text: &str) -> String {
    let id = house.telegram.say(OWNER, OWNER, text).1;
    house
        .telegram
        .wait_sent(|sent| sent.reply_to == Some(id), SOON)
        .text
}

#[test]
fn what_is_said_beside_a_call_is_a_message_of_its_own_where_the_owner_wants_it() {
    for (settings, expected) in [
        (
            "[telegram]\ninterim = true",
            vec!["I will look that up.", "Seven."],
        ),
        ("", vec!["Seven."]),
    ] {
        let house = House::with(settings);
        house.model.push(says_and_calls(
            "I will look that up.",
            "session_status",
            &json!({}),
        ));
        house.model.push(Reply::Text("Seven.".to_owned()));
        assert_eq!(ask(&house, "how many?"), "Seven.");
        let said = || -> Vec<String> {
            house
                .telegram
                .sent()
                .into_iter()
                .map(|sent| sent.text)
                .collect()
        };
        let said = wait_for("what was said", SOON, || {
            (said().len() == expected.len()).then(said)
        });
        let mut said = said;
        said.sort();
        assert_eq!(said, expected, "{settings}");
    }
}

#[test]
fn no_part_the_first_or_all_of_a_long_answer_answer_the_message_as_the_settings_say() {
    for (mode, answers) in [
        ("off", [false, false]),
        ("first", [true, false]),
        ("all", [true, true]),
    ] {
        let house = House::with(&format!("[telegram]\nreply_to_mode = \"{mode}\""));
        let words = "word ".repeat(1_200);
        let asked = house
            .telegram
            .say(OWNER, OWNER, &format!("[[say {words}]]"))
            .1;
        let sent = wait_for("two parts", SOON, || {
            let sent = house.telegram.sent();
            (sent.len() == 2).then_some(sent)
        });
        let answering: Vec<bool> = sent
            .iter()
            .map(|part| part.reply_to == Some(asked))
            .collect();
        assert_eq!(answering, answers, "{mode}");
    }
}

#[test]
fn every_tool_of_the_design_is_offered_or_named() {
    let house = House::new();
    ask(&house, "hello");
    let request = house.model.requests().pop().expect("a request");
    let offered = request["tools"].as_array().expect("tools").clone();
    let named = offered
        .iter()
        .find(|tool| tool["name"] == "more_tools")
        .map_or_else(String::new, |tool| tool["description"].to_string());
    // web_search and tts want a key and a voice: see web and voice.
    for tool in "read write edit exec web_fetch memory_search memory_get memory_read memory_write memory_forget remember \
                 commitment_update message react schedule_message list_scheduled cron session_status sessions_spawn load_skill"
        .split_whitespace()
    {
        let is_there = offered.iter().any(|one| one["name"] == tool);
        let mut words = named.split(|c: char| !c.is_alphanumeric() && c != '_');
        assert!(is_there || words.any(|word| word == tool), "{tool}: {named}");
    }
}

#[test]
fn a_post_of_a_listed_channel_is_answered_there_and_any_other_is_not() {
    let house = House::with(
        "[telegram.groups.\"-100700\"]\nallow_from = [-100700]\nrequire_mention = false",
    );
    let post = |chat: i64, text: &str| {
        let channel = json!({"id": chat, "type": "channel", "title": "News"});
        house.telegram.inject(json!({"channel_post": {
            "message_id": 5, "date": 1_800_000_000, "chat": channel, "sender_chat": channel, "text": text}}));
    };
    post(-100_800, "[[say no]]");
    post(-100_700, "[[say Take an umbrella.]]");
    let sent = house.telegram.wait_sent(|sent| sent.chat == -100_700, SOON);
    assert_eq!(sent.text, "Take an umbrella.");
    assert!(
        house
            .telegram
            .sent()
            .iter()
            .all(|sent| sent.chat != -100_800)
    );
}

#[test]
fn a_file_of_the_outbox_goes_to_somebody_else_with_words() {
    let house = House::new();
    house.sandbox.put("workspace/outbox/plan.txt", b"the plan");
    let call =
        json!({"to": GUEST.to_string(), "text": "Here it is.", "files": ["outbox/plan.txt"]});
    ask(&house, &format!("[[tool message {call}]]"));
    let sent = house
        .telegram
        .wait_sent(|sent| sent.chat == GUEST && !sent.files.is_empty(), SOON);
    assert_eq!(sent.text, "Here it is.");
}

#[test]
fn a_conversation_of_many_short_messages_is_compacted_at_its_history_size() {
    let house = House::with("[compaction]\nhistory_size = 6\nflush = false");
    for number in 0..5 {
        ask(&house, &format!("message {number}"));
    }
    wait_for("a compaction", SOON, || {
        let told = house.sandbox.send(&["--sessions", "--json"]).stdout;
        let document: Value = serde_json::from_str(&told).ok()?;
        (document["sessions"][0]["compaction_count"].as_u64()? > 0).then_some(())
    });
}

#[test]
fn a_conversation_that_only_the_owners_ids_share_keeps_the_owners_memory() {
    let shared = "[session]\ndm_scope = \"main\"\n[telegram]\nallow_from = [1001]";
    let house = House::with(shared);
    house
        .sandbox
        .put("workspace/MEMORY.md", b"The boat is called Ada.");
    ask(&house, "hello");
    let request = house.model.requests().pop().expect("a request");
    assert!(
        request["system"]
            .to_string()
            .contains("The boat is called Ada.")
    );

    let sandbox = Sandbox::new().config("[telegram]\nenabled = true\nowner = [1001]\nallow_from = [1001, 1002]\n[session]\ndm_scope = \"main\"");
    let checked = sandbox
        .env(
            "TELEGRAM_BOT_TOKEN",
            "123456789:AAFakeFakeFakeFakeFakeFakeFakeFake123",
        )
        .run("agent-daemon", &["check"], "");
    assert!(
        format!("{}{}", checked.stdout, checked.stderr).contains("dm_scope"),
        "{checked:?}"
    );
}

#[test]
fn the_memory_is_searched_by_kind_tag_and_day_and_what_no_parameter_is_called_is_refused() {
    let (model, sandbox) = Sandbox::with_model();
    let item = |id: &str, kind: &str, tag: &str, day: &str, text: &str| {
        let file = format!(
            "---\nid: {id}\ntype: {kind}\ntags: [{tag}]\ncreated_at: {day}T10:00:00Z\n---\n{text}\n"
        );
        sandbox.put(&format!("workspace/memory/items/{id}.md"), file.as_bytes());
    };
    item(
        "a1",
        "recipe",
        "food",
        "2026-03-01",
        "Pancakes need milk, eggs and flour.",
    );
    item(
        "b2",
        "decision",
        "house",
        "2026-05-01",
        "Milk is bought on Mondays.",
    );
    assert_eq!(sandbox.run("agent-index", &[], "").code, 0);
    let _daemon = sandbox.ready();
    let search = |input: Value| {
        let seen = model.requests().len();
        model.push(Reply::Tool("memory_search".to_owned(), input));
        assert_eq!(
            sandbox
                .send(&["--wait", "--session", &format!("s{seen}"), "go"])
                .code,
            0
        );
        let request = model
            .wait_requests(seen + 2, SOON)
            .pop()
            .expect("a request");
        let last = request["messages"]
            .as_array()
            .and_then(|all| all.last())
            .expect("messages");
        let blocks = last["content"].as_array().cloned().unwrap_or_default();
        let result = blocks
            .into_iter()
            .find(|block| block["type"] == "tool_result");
        result_text(&result.unwrap_or_else(|| panic!("no result: {last}")))
    };
    for (input, pancakes, mondays) in [
        (json!({"query": "milk"}), true, true),
        (json!({"query": "milk", "kind": "recipe"}), true, false),
        (json!({"query": "milk", "tag": "house"}), false, true),
        (json!({"query": "milk", "after": "2026-04-01"}), false, true),
        (
            json!({"query": "milk", "before": "2026-04-01", "source": "item"}),
            true,
            false,
        ),
        (json!({"query": "milk", "source": "fact"}), false, false),
    ] {
        let found = search(input.clone());
        let has = |words: &str| found.contains(words);
        assert_eq!(
            (has("Pancakes"), has("Mondays")),
            (pancakes, mondays),
            "{input}: {found}"
        );
    }
    let found = search(json!({"query": "milk", "kind": "recipe"}));
    assert!(
        found.contains("a1") && found.contains("2026-03-01") && found.contains('%'),
        "{found}"
    );
    let refused = search(json!({"query": "milk", "limit": 3}));
    assert!(refused.contains("limit"), "{refused}");
}

#[test]
fn a_file_that_cannot_be_read_ties_nobodys_hands_and_can_be_kept_under_its_name() {
    let house = House::new();
    let offered = house.telegram.offer_file(b"PK\x03\x04\xff\xfe\x00\x01");
    let copy = json!({"command": "cp inbox/1001/1-0-trip.zip kept.zip && wc -c < kept.zip"});
    house.model.push(Reply::Tool("exec".to_owned(), copy));
    house.telegram.inject(json!({"message": {
        "message_id": 1, "date": 1_800_000_000, "chat": {"id": OWNER, "type": "private", "first_name": "Ada"},
        "from": {"id": OWNER, "is_bot": false, "first_name": "Ada"}, "caption": "save this",
        "document": {"file_id": offered, "file_unique_id": "u", "file_name": "trip.zip"}}}));
    house
        .telegram
        .wait_sent(|sent| sent.reply_to == Some(1), SOON);
    assert!(
        house.sandbox.path("workspace/kept.zip").exists(),
        "it ran unasked"
    );
}

#[test]
fn what_an_earlier_turn_read_still_answers_a_question() {
    let pages = Pages::start();
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.config(&format!("[tools.web]\nallow = [\"{}\"]", pages.host()));
    let _daemon = sandbox.ready();
    for port in ["Kiel", "Lubmin", "Rostock"] {
        let filler: String = (0..110)
            .map(|day| {
                format!("<p>On day {day} it rained in {port} and nobody knew why it was so.</p>")
            })
            .collect();
        let page = format!(
            "<p>The ferry of {port} leaves at noon.</p>{filler}<p>The ferry of {port} costs nine euros.</p>"
        );
        pages.put(&format!("/{port}"), 200, "text/html", page);
        let url = pages.url(&format!("/{port}"));
        model.push(Reply::Tool("web_fetch".to_owned(), json!({"url": url})));
        let told = sandbox.send(&["--wait=60", &format!("read {url}")]);
        assert_eq!(told.code, 0, "{told:?}");
    }
    let asked = pages.asked().len();
    assert_eq!(
        sandbox
            .send(&["--wait=60", "what did the first one cost?"])
            .code,
        0
    );
    let request = model.requests().pop().expect("a request");
    let blocks = request["messages"].as_array().into_iter().flatten();
    let results: Vec<String> = blocks
        .flat_map(|message| message["content"].as_array().cloned().unwrap_or_default())
        .filter(|block| block["type"] == "tool_result")
        .map(|block| result_text(&block))
        .collect();
    let [first, _, last] = results.as_slice() else {
        panic!("{results:?}");
    };
    for said in [
        "leaves at noon",
        "costs nine euros",
        "⟦untrusted ",
        "⟦end of untrusted ",
    ] {
        assert!(
            first.contains(said) && last.contains(said),
            "{said}: {first}"
        );
    }
    assert!(
        first.chars().count() < 1_500 && last.chars().count() > 5_000,
        "{first}"
    );
    assert_eq!(pages.asked().len(), asked, "nothing was fetched again");
}

#[test]
fn what_is_offered_cut_shown_and_booked_is_what_the_settings_say() {
    let house = House::with(
        "[telegram]\ntyping = false\n[tools]\nmax_output = 1000\n[tools.policies]\nremember = \"off\"",
    );
    house.model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": "seq 1 2000; sleep 1"}),
    ));
    ask(&house, "count");
    let request = house.model.requests().pop().expect("a request");
    let tools = request["tools"].as_array().cloned().unwrap_or_default();
    assert!(
        tools.iter().any(|tool| tool["name"] == "memory_write"),
        "{tools:?}"
    );
    assert!(
        tools.iter().all(|tool| tool["name"] != "remember"),
        "{tools:?}"
    );
    let last = request["messages"]
        .as_array()
        .and_then(|all| all.last())
        .expect("messages");
    let result = result_text(&last["content"][0]);
    assert!(
        (500..1_200).contains(&result.chars().count()) && result.contains("2000"),
        "{result}"
    );
    assert!(house.telegram.calls_of("sendChatAction").is_empty());
    let columns = "timestamp, session_id, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd";
    let rows = house
        .sandbox
        .query("cost", &format!("SELECT {columns} FROM costs_usd"));
    assert_eq!(rows.len(), 2, "{rows:?}");
}

#[test]
fn a_sub_agent_of_the_owner_sees_the_list_of_skills() {
    let (model, sandbox) = Sandbox::with_model();
    let skill = "---\nname: backup\ndescription: Make a backup.\n---\nCopy.\n";
    sandbox.put("workspace/skills/backup/SKILL.md", skill.as_bytes());
    let _daemon = sandbox.ready();
    let errand = json!({"task": "look at the disk", "wait": true});
    model.push(Reply::Tool("sessions_spawn".to_owned(), errand));
    assert_eq!(sandbox.send(&["--wait=60", "go"]).code, 0);
    let requests = model.requests();
    let of_errand = requests.iter().find(|request| {
        let newest = request["messages"].as_array().and_then(|all| all.last());
        newest.is_some_and(|newest| newest.to_string().contains("look at the disk"))
            && !newest.is_some_and(|newest| newest.to_string().contains("tool_result"))
    });
    let system = of_errand.expect("its request")["system"].to_string();
    assert!(system.contains("<name>backup</name>"), "{system}");
}

#[test]
fn a_file_that_has_no_room_is_read_all_the_same_and_the_agent_knows_that_it_is_not_kept() {
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.config("[media]\ninbox_mb = 1");
    let _daemon = sandbox.ready();
    let file = sandbox.put("long.txt", "The tide is high.\n".repeat(90_000).as_bytes());
    let file = file.display().to_string();
    assert_eq!(
        sandbox
            .send(&["--wait=60", "--attach", &file, "keep this"])
            .code,
        0
    );
    let request = model.requests().pop().expect("a request").to_string();
    assert!(request.contains("The tide is high."), "{request}");
    assert!(
        request.contains("not saved for your tools") && request.contains("inbox_mb"),
        "{request}"
    );
}

#[test]
fn a_program_is_told_what_each_message_came_to() {
    let pages = Pages::start();
    let (_model, sandbox) = Sandbox::with_model();
    let settings = format!(
        "[callback]\nurl = \"{}\"\ntoken_env = \"CALLBACK_TOKEN\"",
        pages.url("/told")
    );
    let sandbox = sandbox
        .config(&settings)
        .env("CALLBACK_TOKEN", "a-token-of-forty-letters-and-some-more-1");
    let _daemon = sandbox.ready();
    // It is away at first: the first try finds nothing that answers well.
    pages.put("/told", 503, "text/plain", "later");
    assert_eq!(
        sandbox
            .send(&["--wait", "--id", "c1", "[[say Seven.]]"])
            .code,
        0
    );
    wait_for("the first try", SOON, || {
        (!pages.told().is_empty()).then_some(())
    });
    pages.put("/told", 204, "text/plain", "");
    assert_eq!(
        sandbox.send(&["--wait", "--id", "c0", "[[say Six.]]"]).code,
        0
    );
    let told = wait_for("both", SOON, || {
        let told: Vec<Value> = pages
            .told()
            .iter()
            .map(|body| serde_json::from_str(body).expect("JSON"))
            .collect();
        told.iter().any(|one| one["id"] == "c0").then_some(told)
    });
    let first: Vec<&Value> = told.iter().filter(|one| one["id"] == "c1").collect();
    assert!(first.len() >= 2, "tried again: {told:?}");
    assert_eq!(first[0], first[1]);
    assert_eq!(
        (&first[0]["reply"], &first[0]["source"]),
        (&json!("Seven."), &json!("cli"))
    );
    assert!(
        first[0]["run_id"].is_string() && first[0]["cost_usd"].is_number(),
        "{first:?}"
    );
    let asked = pages.asked();
    let token = "Bearer a-token-of-forty-letters-and-some-more-1";
    assert!(
        asked
            .iter()
            .all(|(_, headers)| headers["authorization"] == token)
    );
    // A command is no message, and who is told of one is told once.
    let before = pages.told().len();
    assert_eq!(sandbox.send(&["--wait", "/status"]).code, 0);
    assert_eq!(
        sandbox
            .send(&["--wait", "--id", "c2", "[[say Eight.]]"])
            .code,
        0
    );
    wait_for("the next", SOON, || {
        (pages.told().len() > before).then_some(())
    });
    let after = pages.told();
    assert!(
        after.len() == before + 1 && after[before].contains("Eight."),
        "{after:?}"
    );

    let house = House::with(&format!("[callback]\nurl = \"{}\"", pages.url("/event")));
    pages.put("/event", 200, "text/plain", "");
    let words = ["--notify", "--source", "ci", "--ref", "b7", "--data"];
    let words = [&words[..], &["{\"n\": 7}", "[[say It broke.]]"]].concat();
    assert_eq!(house.sandbox.send(&words).code, 0);
    let event = wait_for("the event", SOON, || {
        let told = pages.told();
        let last: Value = serde_json::from_str(told.last()?).ok()?;
        (last["source"] == "notify").then_some(last)
    });
    let notify = json!({"source": "ci", "ref": "b7", "data": {"n": 7}});
    assert_eq!(
        (&event["notify"], &event["reply"]),
        (&notify, &json!("It broke."))
    );

    for (settings, words) in [
        ("[callback]\nurl = \"http://example.com/x\"", "callback.url"),
        (
            "[callback]\nurl = \"https://example.com/x\"\ntoken_env = \"my token\"",
            "callback.token_env",
        ),
    ] {
        let checked = Sandbox::new()
            .config(settings)
            .run("agent-daemon", &["check"], "");
        assert!(
            checked.code == 78 && checked.stderr.contains(words),
            "{checked:?}"
        );
    }
}
