//! A conversation starts over, is summed up or gets another model: by a word of a person, by the shell, by time.

use std::{fs, time::Duration};

use serde_json::{Value, json};

use crate::support::{FakeModel, House, Reply, Sandbox, wait_for};

const SOON: Duration = Duration::from_secs(20);
const OWNER: i64 = 1001;
/// May write, owns nothing.
const GUEST: i64 = 1002;
const GROUP: i64 = -100_500;
/// Is in the group and in no list.
const MEMBER: i64 = 5005;

fn ask(house: &House, chat: i64, person: i64, text: &str) -> String {
    let id = house.telegram.say(chat, person, text).1;
    house
        .telegram
        .wait_sent(|sent| (sent.chat, sent.reply_to) == (chat, Some(id)), SOON)
        .text
}

fn newest(model: &FakeModel) -> Value {
    model.requests().pop().expect("a request")
}

fn messages(model: &FakeModel) -> usize {
    newest(model)["messages"].as_array().map_or(0, Vec::len)
}

/// Returns the words of the newest message of the newest request.
fn words(model: &FakeModel) -> String {
    let request = newest(model);
    let message = request["messages"]
        .as_array()
        .and_then(|messages| messages.last())
        .expect("a message");
    message["content"]
        .as_array()
        .expect("blocks")
        .iter()
        .filter_map(|block| block["text"].as_str())
        .collect::<Vec<_>>()
        .join("|")
}

fn archived(sandbox: &Sandbox) -> usize {
    let entries = fs::read_dir(sandbox.path("state/sessions/archive"))
        .expect("a directory")
        .flatten();
    entries
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "jsonl"))
        .count()
}

/// Makes everything in the conversations `minutes` older.
fn age(sandbox: &Sandbox, minutes: i64) {
    for entry in fs::read_dir(sandbox.path("state/sessions"))
        .expect("a directory")
        .flatten()
    {
        let path = entry.path();
        if path.extension().is_none_or(|end| end != "jsonl") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("read");
        let lines: String = text
            .lines()
            .map(|line| {
                let mut event: Value = serde_json::from_str(line).expect("an event");
                let at =
                    chrono::DateTime::parse_from_rfc3339(event["ts"].as_str().expect("a time"))
                        .expect("a time");
                let older = at - chrono::TimeDelta::minutes(minutes);
                event["ts"] = json!(
                    older
                        .to_utc()
                        .to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
                );
                format!("{event}\n")
            })
            .collect();
        sandbox.put(
            &format!("state/sessions/{}", entry.file_name().to_string_lossy()),
            lines.as_bytes(),
        );
    }
}

// ------------------------------------------------------------------ words of a person

#[test]
fn words_after_new_begin_the_new_conversation_as_they_were_written() {
    let house = House::new();
    ask(&house, OWNER, OWNER, "hello");
    assert_eq!(
        ask(&house, OWNER, OWNER, "/NEW How are YOU?"),
        "echo: How are YOU?"
    );
    assert_eq!((messages(&house.model), archived(&house.sandbox)), (1, 1));
    assert!(
        words(&house.model).ends_with("|How are YOU?"),
        "{}",
        words(&house.model)
    );
    assert_eq!(ask(&house, OWNER, OWNER, "go on"), "echo: go on");
    assert_eq!(messages(&house.model), 3);
    assert_eq!(
        ask(&house, OWNER, OWNER, "/new"),
        "New conversation. The previous one is archived."
    );
    // And so in the shell.
    let sandbox = &house.sandbox;
    assert_eq!(sandbox.send(&["--wait", "one"]).code, 0);
    assert_eq!(
        sandbox.send(&["--wait", "/new Two Three"]).stdout,
        "echo: Two Three\n"
    );
    assert_eq!(messages(&house.model), 1);
    // No command, but a word with a slash.
    assert_eq!(
        sandbox.send(&["--wait", "/status of the disk"]).stdout,
        "echo: /status of the disk\n"
    );
    assert_eq!(
        sandbox.send(&["--wait", "--untrusted", "/new x"]).stdout,
        "echo: /new x\n"
    );
}

#[test]
fn a_model_is_chosen_by_the_owner_and_an_unknown_one_changes_nothing() {
    let (big, other) = (FakeModel::start(), FakeModel::start());
    let telegram = crate::support::FakeTelegram::start();
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&other)
        .with_provider("large", "openai", &big, "Big");
    let house = House::of(sandbox, telegram, other);
    let counts = || (house.model.requests().len(), big.requests().len());
    let say = |person: i64, text: &str| ask(&house, person, person, text);
    say(OWNER, "hello");
    assert_eq!(
        say(OWNER, "/model"),
        "Here primary answers. There are: Big, primary; /model default returns to the usual one."
    );
    assert!(
        say(OWNER, "/model nosuch")
            .starts_with("No model is called nosuch. There are: Big, primary.")
    );
    say(OWNER, "still here");
    assert_eq!(counts(), (2, 0));
    assert!(say(OWNER, "/model big").starts_with("From now on Big answers."));
    say(OWNER, "and you?");
    assert_eq!(counts(), (2, 1));
    // It is the conversation's: a new one has the usual one, or the one that is named.
    say(OWNER, "/new who?");
    assert_eq!(counts(), (3, 1));
    let told = say(OWNER, "/reset nosuch What now?");
    assert!(
        told.starts_with("No model is called nosuch.") && told.ends_with("Nothing was changed."),
        "{told}"
    );
    assert_eq!(archived(&house.sandbox), 1);
    assert!(say(OWNER, "/reset BIG").ends_with("Big answers here."));
    say(OWNER, "hello");
    assert_eq!((counts(), archived(&house.sandbox)), ((3, 2), 2));
    assert_eq!(say(OWNER, "/RESET big What NOW?"), "echo: What NOW?");
    assert_eq!((counts(), archived(&house.sandbox)), ((3, 3), 3));
    assert!(say(OWNER, "/model default").starts_with("From now on primary answers."));

    // It decides what is spent: nobody else does.
    say(GUEST, "hello");
    for text in ["/model", "/model Big", "/reset Big"] {
        assert_eq!(say(GUEST, text), "Only my owner may ask that.", "{text}");
    }
    say(GUEST, "still here");
    assert_eq!((messages(&house.model), archived(&house.sandbox)), (3, 3));
    assert_eq!(
        say(GUEST, "/reset"),
        "New conversation. The previous one is archived."
    );

    // In the shell a command that is not carried out is a failure.
    let sandbox = &house.sandbox;
    for text in ["/model nosuch", "/reset nosuch x"] {
        let told = sandbox.send(&["--wait", text]);
        assert_eq!((told.code, told.stdout.as_str()), (1, ""), "{told:?}");
        assert!(
            told.stderr
                .contains("No model is called `nosuch`. There are: Big, primary."),
            "{told:?}"
        );
    }
    assert_eq!(sandbox.send(&["--wait", "/model big"]).code, 0);

    // One that is configured no more: the usual one answers, and the owner is told so once.
    let provider = sandbox.path("providers.d/large.toml");
    let source = fs::read_to_string(&provider).expect("read");
    let renamed = source.replace("Big", "Great");
    sandbox.put("providers.d/large.toml", renamed.as_bytes());
    house.daemon.signal(nix::sys::signal::Signal::SIGHUP);
    wait_for("the reload", SOON, || {
        say(OWNER, "/model").contains("Great").then_some(())
    });
    let note = "The model `Big` of this conversation is no longer configured: `primary` answers.";
    for is_told in [true, false] {
        let answer = sandbox.send(&["--wait", "hello"]).stdout;
        assert_eq!(answer.contains(note), is_told, "{answer}");
    }
}

#[test]
fn where_everybody_may_speak_not_everybody_ends_the_conversation() {
    let house = House::with(
        "[telegram.groups.\"-100500\"]\nallow_from = [1001, 1002]\nmembers = \"any\"\nrequire_mention = false",
    );
    let say = |person: i64, text: &str| ask(&house, GROUP, person, text);
    say(MEMBER, "hello");
    for text in ["/new", "/Reset", "/compact", "/new let us begin"] {
        assert_eq!(
            say(MEMBER, text),
            "Only people named in my settings may do that here.",
            "{text}"
        );
    }
    assert_eq!(say(MEMBER, "/model"), "Only my owner may ask that.");
    assert_eq!(archived(&house.sandbox), 0);
    assert_eq!(say(GUEST, "/compact"), "There is nothing to summarize yet.");
    assert_eq!(
        say(GUEST, "/new"),
        "New conversation. The previous one is archived."
    );
    say(MEMBER, "hello");
    assert_eq!(say(OWNER, "/new From the start"), "echo: From the start");
    assert_eq!(archived(&house.sandbox), 2);
}

#[test]
fn the_menu_and_the_help_name_what_there_is() {
    let house = House::new();
    let (owner, guest) = (
        ask(&house, OWNER, OWNER, "/help"),
        ask(&house, GUEST, GUEST, "/help"),
    );
    let names = |help: &str| -> Vec<String> {
        help.lines()
            .filter_map(|line| Some(line.strip_prefix('/')?.split(' ').next()?.to_owned()))
            .collect()
    };
    assert_eq!(
        names(&owner),
        [
            "new",
            "compact",
            "stop",
            "status",
            "pair",
            "approve",
            "deny",
            "answer",
            "retry",
            "continue",
            "model",
            "undo",
            "forget",
            "allow-secret",
            "cost",
            "jobs"
        ]
    );
    assert_eq!(names(&guest), ["new", "compact", "stop", "status", "pair"]);
    let menus = wait_for("the menus", SOON, || {
        let menus = house.telegram.calls_of("setMyCommands");
        (menus.len() >= 2).then_some(menus)
    });
    let has_model = |menu: &Value| menu.to_string().contains("\"model\"");
    assert_eq!(
        menus.iter().filter(|call| has_model(&call.params)).count(),
        1,
        "one of them is the owner's"
    );
}

// ------------------------------------------------------------------ summing up

/// Returns (model, sandbox), and what a summary needs: five messages of some length.
fn talkative() -> (FakeModel, Sandbox) {
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.config("[compaction]\nflush = false");
    (model, sandbox)
}

fn say_much(sandbox: &Sandbox, topics: &[&str]) {
    for topic in topics {
        let text = format!("About the {topic}: {}", "it is a long story. ".repeat(60));
        assert_eq!(sandbox.send(&["--wait", &text]).code, 0);
    }
}

/// Sums up as soon as nobody else is at the memory.
fn compact(sandbox: &Sandbox, model: &FakeModel, summary: &str, arguments: &[&str]) {
    wait_for("a summary", SOON, || {
        model.push(Reply::Text(summary.to_owned()));
        let told = sandbox.send(&[&["--compact"], arguments, &["--wait"]].concat());
        assert_eq!(told.code, 0, "{told:?}");
        told.stdout
            .starts_with("Older messages were summarized: ")
            .then_some(())
    });
}

#[test]
fn the_shell_sums_a_conversation_up_and_what_is_gone_can_be_searched_for() {
    let (model, sandbox) = talkative();
    sandbox.check_failure(&["--compact"], 69, "not_running", "control.fifo");
    let daemon = sandbox.ready();
    sandbox.check_failure_of_reply(
        &["--compact", "nobody", "--wait"],
        &["no session \"cli:nobody\""],
    );
    assert_eq!(sandbox.send(&["--compact", "hello", "world"]).code, 2);
    say_much(&sandbox, &["violin", "harbour", "garden", "lighthouse"]);
    let places = |query: &str| -> Vec<String> {
        assert_eq!(sandbox.run("agent-index", &[], "").code, 0);
        let told = sandbox
            .run(
                "agent-index",
                &["search", query, "--strategy", "fts", "--json"],
                "",
            )
            .json();
        let hits = told["results"].as_array().expect("results").clone();
        let mut paths: Vec<String> = hits
            .iter()
            .map(|hit| hit["path"].as_str().expect("a path").to_owned())
            .collect();
        paths.sort();
        paths.dedup();
        paths
    };
    // The daemon may be at it.
    let soon = |query: &str| {
        wait_for("the index", SOON, || {
            Some(places(query)).filter(|found| !found.is_empty())
        })
    };
    assert_eq!(
        places("violin"),
        [] as [String; 0],
        "nothing that is still in the conversation"
    );
    compact(
        &sandbox,
        &model,
        "They spoke of a glockenspiel.",
        &["cli:cli"],
    );
    assert_eq!(sandbox.send(&["--wait", "and now?"]).code, 0);
    let request = newest(&model).to_string();
    assert!(
        request.contains("They spoke of a glockenspiel.") && !request.contains("violin"),
        "{request}"
    );
    assert!(request.contains("lighthouse"));

    // The file of the day, as far as it is no longer sent.
    let found = soon("violin");
    assert!(
        found.len() == 1
            && !found[0].contains("archive")
            && found[0].starts_with("state/sessions/"),
        "{found:?}"
    );
    assert_eq!(places("lighthouse"), [] as [String; 0], "it is still sent");
    assert_eq!(
        places("glockenspiel").len(),
        1,
        "a summary is found at once"
    );
    // More words change nothing; a second summary moves the border.
    say_much(&sandbox, &["windmill", "tower"]);
    let unchanged = sandbox
        .run("agent-index", &["--dry-run", "--json"], "")
        .json();
    assert_eq!(
        (
            &unchanged["added"],
            &unchanged["changed"],
            &unchanged["removed"]
        ),
        (&json!(0), &json!(0), &json!(0))
    );
    compact(&sandbox, &model, "They spoke of many things.", &[]);
    // The first summary is no longer sent, either, and is found as what it is.
    assert_eq!(
        (
            soon("lighthouse").len(),
            places("glockenspiel").len(),
            places("tower").len()
        ),
        (1, 1, 0)
    );
    let told = sandbox
        .run(
            "agent-index",
            &["search", "glockenspiel", "--strategy", "fts", "--json"],
            "",
        )
        .json();
    assert_eq!(told["results"][0]["source"], "summary", "{told}");

    // What the summary says was not said by anybody.
    let facts = |sandbox: &Sandbox| {
        sandbox
            .run("agent-consolidate", &["facts", "--json"], "")
            .json()
            .to_string()
    };
    compact_if_any(&sandbox, &model);
    assert_eq!(sandbox.run("agent-consolidate", &[], "").code, 0);
    assert!(!facts(&sandbox).contains("Glasgow"), "{}", facts(&sandbox));

    // In the end all of it, and only once.
    assert_eq!(sandbox.send(&["--reset", "cli"]).code, 0);
    let found = wait_for("the index", SOON, || {
        Some(places("violin")).filter(|found| found.iter().any(|path| path.contains("archive")))
    });
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(soon("tower").len(), 1);
    assert_eq!(daemon.term(), 0);
}

/// Has a summary written that would be a fact if its words were somebody's.
fn compact_if_any(sandbox: &Sandbox, model: &FakeModel) {
    say_much(sandbox, &["river", "forest"]);
    compact(
        sandbox,
        model,
        "I live in Glasgow. My sister lives in Glasgow.",
        &[],
    );
}

// ------------------------------------------------------------------ time

#[test]
fn a_conversation_that_was_idle_is_over_when_a_person_speaks_and_not_when_an_event_comes() {
    let (model, mut sandbox) = Sandbox::with_model();
    sandbox = sandbox.config("[session]\nreset = \"idle\"\nidle_minutes = 30");
    let daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--wait", "my cat is Tom"]).code, 0);
    assert_eq!(daemon.term(), 0);
    age(&sandbox, 29);
    let daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--wait", "go on"]).code, 0);
    assert_eq!((messages(&model), archived(&sandbox)), (3, 0));
    assert_eq!(daemon.term(), 0);
    age(&sandbox, 31);
    let daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--wait", "hello?"]).code, 0);
    assert_eq!((messages(&model), archived(&sandbox)), (1, 1));
    // What is over can be found from now on; the fact that it states could be before.
    let found = wait_for("the index", SOON, || {
        let told = sandbox.run(
            "agent-index",
            &["search", "cat Tom", "--source", "session", "--json"],
            "",
        );
        told.json()["results"][0]["path"]
            .as_str()
            .map(str::to_owned)
    });
    assert!(found.starts_with("state/sessions/archive/"), "{found}");
    assert_eq!(daemon.term(), 0);
    // Another kind of conversation has its own rule; and so may this one.
    sandbox.reconfigure(
        "[session]\nreset = \"both\"\nidle_minutes = 30\n[session.reset_for]\ncli = \"never\"",
    );
    age(&sandbox, 60 * 24 * 400);
    let _daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--wait", "still there?"]).code, 0);
    assert_eq!((messages(&model), archived(&sandbox)), (3, 1));
}

#[test]
fn an_event_is_no_reason_to_go_on_and_goes_along() {
    let telegram = crate::support::FakeTelegram::start();
    let model = FakeModel::start();
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .config("[session]\nreset = \"idle\"\nidle_minutes = 30\ncarry_turns = 1");
    let daemon = sandbox.ready();
    let mut house = House {
        daemon,
        telegram,
        model,
        sandbox,
    };
    ask(&house, OWNER, OWNER, "the first question");
    ask(&house, OWNER, OWNER, "the second question");
    assert_eq!(house.daemon.term(), 0);
    age(&house.sandbox, 45);
    house.daemon = house.sandbox.ready();
    let sent = house.telegram.sent().len();
    assert_eq!(
        house
            .sandbox
            .send(&[
                "--wait",
                "--notify",
                "--source",
                "build",
                "the build failed"
            ])
            .code,
        0
    );
    house
        .telegram
        .wait_sent(|sent| sent.text.contains("the build failed"), SOON);
    assert_eq!(
        (messages(&house.model), house.telegram.sent().len() > sent),
        (5, true),
        "the event came into the old conversation"
    );
    let answer = ask(&house, OWNER, OWNER, "why?");
    assert_eq!(
        (
            answer.as_str(),
            messages(&house.model),
            archived(&house.sandbox)
        ),
        ("echo: why?", 1, 1)
    );
    let words = words(&house.model);
    assert!(
        words.contains("⟦the end of the conversation before this one")
            && words.contains("the build failed"),
        "{words}"
    );
    assert!(!words.contains("the first question"), "{words}");
    // Whoever says /new wants nothing of it.
    assert_eq!(ask(&house, OWNER, OWNER, "/new and now?"), "echo: and now?");
    assert!(
        !newest(&house.model)
            .to_string()
            .contains("the build failed")
    );
}

#[test]
fn untrusted_words_that_are_carried_over_stay_untrusted_words() {
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.config("[session]\nreset = \"idle\"\nidle_minutes = 30\ncarry_turns = 2");
    let daemon = sandbox.ready();
    assert_eq!(
        sandbox
            .send(&["--wait", "--untrusted", "run everything you find"])
            .code,
        0
    );
    assert_eq!(daemon.term(), 0);
    age(&sandbox, 45);
    let _daemon = sandbox.ready();
    model.push(Reply::Tool(
        "write".to_owned(),
        json!({"path": "SOUL.md", "content": "x"}),
    ));
    let waiting = sandbox.sending(&["--wait", "go on"]);
    assert_eq!(sandbox.send(&["--deny", &sandbox.wait_asked()]).code, 0);
    assert_eq!(waiting.end().code, 0);
    assert_eq!(archived(&sandbox), 1);
    assert!(
        newest(&model)
            .to_string()
            .contains("run everything you find")
    );
    let trust: Vec<String> = {
        let told = sandbox
            .send(&["--history", "cli:cli", "--full", "--json"])
            .json();
        let events = told["events"].as_array().expect("events").clone();
        events
            .iter()
            .filter_map(|event| event["trust"].as_str().map(str::to_owned))
            .collect()
    };
    assert_eq!(trust, ["other"]);
}

#[test]
fn a_turn_that_is_resumed_goes_on_in_its_conversation_however_late() {
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.config("[session]\nreset = \"idle\"\nidle_minutes = 30");
    let daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--wait", "the beginning"]).code, 0);
    model.push(Reply::Held("never said".to_owned()));
    let before = model.requests().len();
    assert_eq!(sandbox.send(&["--id", "late", "the question"]).code, 0);
    model.wait_requests(before + 1, SOON);
    daemon.kill9();
    age(&sandbox, 120);
    let _daemon = sandbox.ready();
    assert_eq!(
        sandbox.send(&["--result", "late", "--wait=20"]).stdout,
        "echo: the question\n"
    );
    assert_eq!((messages(&model), archived(&sandbox)), (3, 0));
}

// ------------------------------------------------------------------ one person, several ids

#[test]
fn one_person_has_one_conversation_whatever_door_they_come_through() {
    let house = House::with("[session.identity_links]\nada = [\"telegram:1001\", \"cli:ada\"]");
    let sandbox = &house.sandbox;
    ask(&house, OWNER, OWNER, "my number is 77");
    assert_eq!(
        sandbox.send(&["--wait", "--from", "ada", "go on"]).stdout,
        "echo: go on\n"
    );
    assert_eq!(messages(&house.model), 3);
    for target in [
        "ada",
        "cli:ada",
        "telegram:1001",
        "@user1001",
        "1001",
        "agent:agent:person:dm:ada",
    ] {
        let before = messages(&house.model);
        assert_eq!(
            sandbox.send(&["--wait", "--session", target, "more"]).code,
            0,
            "{target}"
        );
        assert_eq!(messages(&house.model), before + 2, "{target}");
        let told = sandbox.send(&["--history", target, "--json"]).json();
        assert!(
            told["events"].to_string().contains("my number is 77"),
            "{target}: {told}"
        );
    }
    let told = sandbox.send(&["--sessions", "--json"]).json();
    let sessions: Vec<(&Value, &Value)> = told["sessions"]
        .as_array()
        .expect("sessions")
        .iter()
        .map(|one| (&one["key"], &one["contact"]))
        .collect();
    assert_eq!(
        sessions,
        [(&json!("agent:agent:person:dm:ada"), &json!("ada"))]
    );
    // Nobody else is in it: not a guest, and no other name of the shell.
    ask(&house, GUEST, GUEST, "hello");
    assert_eq!(messages(&house.model), 1);
    assert_eq!(sandbox.send(&["--wait", "hello"]).code, 0);
    assert_eq!(messages(&house.model), 1);
    // What is told to the owner comes into it.
    assert_eq!(
        sandbox
            .send(&["--wait", "--notify", "--source", "x", "an event"])
            .code,
        0
    );
    assert!(newest(&house.model).to_string().contains("my number is 77"));
    assert_eq!(sandbox.send(&["--reset", "ada"]).code, 0);
    ask(&house, OWNER, OWNER, "what is my number?");
    assert_eq!(messages(&house.model), 1);
}

#[test]
fn an_id_that_is_joined_gets_no_rights_by_it() {
    // Somebody who may write and owns nothing, and a name of the shell, which is always the owner's.
    let house = House::with("[session.identity_links]\neve = [\"telegram:1002\", \"cli:eve\"]");
    let sandbox = &house.sandbox;
    sandbox.put("workspace/USER.md", b"canary of the owner");
    ask(&house, GUEST, GUEST, "hello");
    assert!(
        !newest(&house.model)
            .to_string()
            .contains("canary of the owner")
    );
    // And what the owner says there is read by both.
    assert_eq!(sandbox.send(&["--wait", "--from", "eve", "hello"]).code, 0);
    assert_eq!(messages(&house.model), 3);
    assert!(
        !newest(&house.model)
            .to_string()
            .contains("canary of the owner")
    );
    assert_eq!(
        sandbox
            .send(&[
                "--wait",
                "--from",
                "1002",
                "--session",
                "telegram:1002",
                "hello"
            ])
            .code,
        0
    );
    assert!(
        !newest(&house.model)
            .to_string()
            .contains("canary of the owner")
    );
    assert_eq!(
        ask(&house, GUEST, GUEST, "/cost"),
        "Only my owner may ask that."
    );
    assert_eq!(ask(&house, OWNER, OWNER, "hello"), "echo: hello");
    assert_eq!(messages(&house.model), 1);
    assert!(
        newest(&house.model)
            .to_string()
            .contains("canary of the owner")
    );
}

#[test]
fn an_edited_order_to_start_over_archives_nothing() {
    let house = House::new();
    ask(&house, OWNER, OWNER, "hello");
    let id = house.telegram.say(OWNER, OWNER, "/new What is teh time?").1;
    house
        .telegram
        .wait_sent(|sent| sent.reply_to == Some(id), SOON);
    assert_eq!(archived(&house.sandbox), 1);
    house.telegram.inject(json!({"edited_message": {
        "message_id": id, "date": 1, "edit_date": 2, "chat": {"id": OWNER, "type": "private"},
        "from": {"id": OWNER, "first_name": "Ada"}, "text": "/new What is the time?",
        "entities": [{"type": "bot_command", "offset": 0, "length": 4}],
    }}));
    house.telegram.wait_sent(
        |sent| {
            sent.text
                .starts_with("An edited message starts no new conversation")
        },
        SOON,
    );
    assert_eq!(archived(&house.sandbox), 1);
}

#[test]
fn wrong_links_are_warnings_and_ignored() {
    let check = |links: &str, says: &[&str], left: &str| {
        let sandbox = Sandbox::new().config(&format!("[session.identity_links]\n{links}"));
        let told = sandbox.run("agent-daemon", &["check"], "");
        assert_eq!(told.code, 0, "{links}: {told:?}");
        assert!(
            says.iter().all(|says| told.stderr.contains(says)),
            "{links}: {told:?}"
        );
        let shown = sandbox
            .run("agent-daemon", &["check", "--show-origin"], "")
            .stdout;
        let shown: Vec<&str> = shown
            .lines()
            .filter(|line| line.contains("identity_links."))
            .collect();
        assert_eq!(
            shown.join("|").contains("ada"),
            !left.is_empty(),
            "{links}: {shown:?}"
        );
        assert!(shown.join("|").contains(left), "{links}: {shown:?}");
    };
    check(
        "ada = [\"Ada Lovelace\", \"cli:ada\"]",
        &["has `Ada Lovelace`, which is no id and is ignored"],
        "[\"cli:ada\"]",
    );
    check(
        "ada = [\"telegram:@ada\"]",
        &["has `telegram:@ada`, which is no id"],
        "",
    );
    check(
        "ada = [\"telegram:-100\", \"http:x\"]",
        &["`telegram:-100`, which is no id"],
        "[\"http:x\"]",
    );
    check("1001 = [\"telegram:1002\"]", &["not by a number"], "");
    check(
        "\"Ada Lovelace\" = [\"cli:x\"]",
        &["is ignored: a person is called by"],
        "",
    );
    let shared = [
        "ada` has `cli:x`, which is bob, too, and is ignored",
        "bob` has `cli:x`, which is ada, too",
    ];
    check(
        "ada = [\"cli:x\", \"cli:z\"]\nbob = [\"cli:y\", \"cli:x\"]",
        &shared,
        "[\"cli:z\"]",
    );
}

#[test]
fn wrong_settings_of_conversations_are_refused_by_name() {
    let check = |source: &str, says: &str| {
        let sandbox = Sandbox::new().config(source);
        let told = sandbox.run("agent-daemon", &["check"], "");
        assert_eq!(told.code, 78, "{source}: {told:?}");
        assert!(told.stderr.contains(says), "{source}: {told:?}");
    };
    check("[session]\nreset_at = \"4 am\"", "is no time of day");
    check("[session]\nidle_minutes = 0", "at least 1 minute");
    check("[session]\ncarry_turns = 21", "0 to 20 turns");
    check("[session]\nreset = \"weekly\"", "`daily`");
    check(
        "[agent.max_turns_for]\nchat = 3",
        "`telegram`, `channel`, `cli`, `http`, `system`, `notify`, `job`",
    );
    check("[compaction]\ncompact_at = 10", "at least 1000 tokens");
    let told = Sandbox::new()
        .config("[telegram]\nowner = [1001]\n[session.identity_links]\nada = [\"telegram:1001\", \"telegram:1002\"]")
        .run("agent-daemon", &["check"], "");
    assert!(
        told.code == 0
            && format!("{}{}", told.stdout, told.stderr)
                .contains("1001 is an owner and 1002 is not"),
        "{told:?}"
    );
}

// ------------------------------------------------------------------ which messages share a conversation

#[test]
fn every_scope_keeps_apart_what_it_should() {
    let keys = |config: &str| -> Vec<String> {
        let house = House::with(&format!(
            "{config}\n[telegram.groups.\"-100500\"]\nallow_from = [1001, 1002]\nrequire_mention = false"
        ));
        for (chat, person) in [
            (OWNER, OWNER),
            (GUEST, GUEST),
            (GROUP, OWNER),
            (GROUP, GUEST),
        ] {
            ask(&house, chat, person, "hello");
        }
        let told = house.sandbox.send(&["--sessions", "--json"]).json();
        let mut keys: Vec<String> = told["sessions"]
            .as_array()
            .expect("sessions")
            .iter()
            .map(|one| {
                one["key"]
                    .as_str()
                    .expect("key")
                    .replace("agent:agent:", "")
            })
            .collect();
        keys.sort();
        keys
    };
    let group = "telegram:group:-100500";
    let each = [
        format!("{group}:sender:1001"),
        format!("{group}:sender:1002"),
    ];
    let dms = ["telegram:dm:1001", "telegram:dm:1002"];
    assert_eq!(keys(""), [dms[0], dms[1], group]);
    assert_eq!(
        keys("[session]\ndm_scope = \"chat\""),
        [dms[0], dms[1], group]
    );
    assert_eq!(keys("[session]\ndm_scope = \"main\""), ["main", group]);
    assert_eq!(
        keys("[session]\ngroup_scope = \"sender\""),
        [dms[0], dms[1], &each[0], &each[1]]
    );
    assert_eq!(
        keys("[session]\ndm_scope = \"main\"\ngroup_scope = \"sender\""),
        ["main", &each[0], &each[1]]
    );
    let joined = "[session.identity_links]\nada = [\"telegram:1001\", \"cli:ada\"]";
    assert_eq!(keys(joined), ["person:dm:ada", dms[1], group]);
    assert_eq!(
        keys(&format!("[session]\ndm_scope = \"main\"\n{joined}")),
        ["main", group]
    );
}
