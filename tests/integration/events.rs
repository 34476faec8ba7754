//! `--system`, `--notify` and `--raw`: events that the agent works on, and words that go to people as they
//! are.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    FakeModel, FakeTelegram, Fault, FaultKind, House, Output, Reply, Sandbox, wait_for,
};

/// Long against everything that happens here, short against the patience of a reader.
const SOON: Duration = Duration::from_secs(20);
const OWNER: i64 = 1001;
/// May write, owns nothing.
const GUEST: i64 = 1002;

impl House {
    /// Returns the texts that went to `chat`, in order.
    fn heard(&self, chat: i64) -> Vec<String> {
        self.telegram
            .sent()
            .into_iter()
            .filter(|sent| sent.chat == chat)
            .map(|sent| sent.text)
            .collect()
    }

    /// Writes as `person` in `chat` and waits for the answer.
    fn talk(&self, chat: i64, person: i64, text: &str) {
        let (_, id) = self.telegram.say(chat, person, text);
        self.telegram
            .wait_sent(|sent| (sent.chat, sent.reply_to) == (chat, Some(id)), SOON);
    }

    /// Sends a notification of `build` and returns what the sender was told.
    fn notify(&self, text: &str) -> Output {
        self.sandbox
            .send(&["--wait", "--notify", "--source", "build", text])
    }

    /// Waits until everything that was said has gone out, by way of a message that goes last.
    fn settle_in(&self, chat: i64) -> Vec<String> {
        let mark = format!("mark {}", self.telegram.sent().len());
        let told = self
            .sandbox
            .send(&["--wait", "--raw", "--to", &chat.to_string(), &mark]);
        assert_eq!(told.code, 0, "{told:?}");
        self.telegram
            .wait_sent(|sent| sent.chat == chat && sent.text == mark, SOON);
        self.heard(chat)
    }
}

fn newest(model: &FakeModel) -> Value {
    model.requests().pop().expect("a request")
}

/// Returns the head that the system put before the newest words.
fn head(model: &FakeModel) -> String {
    let request = newest(model);
    let message = request["messages"]
        .as_array()
        .and_then(|messages| messages.last())
        .cloned()
        .expect("a message");
    message["content"][0]["text"]
        .as_str()
        .expect("a text")
        .to_owned()
}

fn system(request: &Value) -> String {
    request["system"].to_string()
}

#[test]
fn an_event_of_the_system_is_worked_on_and_only_its_caller_hears_of_it() {
    let house = House::new();
    house.talk(OWNER, OWNER, "hello");
    house.sandbox.put("workspace/SOUL.md", b"canary-soul");
    house
        .sandbox
        .put("workspace/HEARTBEAT.md", b"canary-heartbeat");
    house.sandbox.put("workspace/USER.md", b"canary-user");
    house.sandbox.put("workspace/MEMORY.md", b"canary-memory");
    let told = house.sandbox.send(&[
        "--wait",
        "--system",
        "--source",
        "udev",
        "a disk was plugged in",
    ]);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "echo: a disk was plugged in\n"),
        "{told:?}"
    );
    let head = head(&house.model);
    assert!(
        head.contains("; udev, an event") && !head.contains("from the shell"),
        "{head}"
    );
    let words = system(&newest(&house.model));
    assert!(
        words.contains("canary-soul") && words.contains("canary-heartbeat"),
        "{words}"
    );
    assert!(
        !words.contains("canary-user") && !words.contains("canary-memory"),
        "operational is less: {words}"
    );
    assert_eq!(
        house
            .sandbox
            .send(&["--wait", "--system", "--tier", "full", "more"])
            .code,
        0
    );
    let words = system(&newest(&house.model));
    assert!(
        words.contains("canary-user") && words.contains("canary-memory"),
        "{words}"
    );

    // It is no conversation with anybody, and a slash is no command in it.
    assert_eq!(
        house.sandbox.send(&["--wait", "--system", "/new"]).stdout,
        "echo: /new\n"
    );
    assert_eq!(
        house
            .sandbox
            .send(&[
                "--wait",
                "--system",
                "NO_REPLY: [[say all is well NO_REPLY]]"
            ])
            .stdout,
        ""
    );
    assert_eq!(house.settle_in(OWNER).len(), 2, "{:?}", house.heard(OWNER));
    let requests = house.model.requests();
    assert!(
        !requests[0].to_string().contains("udev") && !requests[1].to_string().contains("hello"),
        "one session each"
    );
    house.model.push(Reply::Status(400, None));
    let told = house.sandbox.send(&["--wait", "--system", "fail"]);
    assert_eq!((told.code, told.stdout.as_str()), (1, ""), "{told:?}");
    assert_eq!(
        house.settle_in(OWNER).len(),
        3,
        "nobody is told of a failure either"
    );
    for usage in [
        &["--system", "--from", "x", "t"][..],
        &["--system", "--session", "x", "t"],
        &["--system", "--attach", "x", "t"],
    ] {
        assert_eq!(house.sandbox.send(usage).code, 2, "{usage:?}");
    }
}

#[test]
fn a_notification_reaches_the_owner_where_they_were_last_heard_in_that_conversation() {
    let house = House::new();
    // Nobody wrote yet: the configuration says who the owner is.
    let told = house.notify("the disk is full");
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "echo: the disk is full\n"),
        "{told:?}"
    );
    house.telegram.wait_sent(
        |sent| sent.chat == OWNER && sent.text == "echo: the disk is full",
        SOON,
    );
    // A guest who wrote last is not the owner.
    house.talk(OWNER, OWNER, "remember the number 77");
    house.talk(GUEST, GUEST, "hello");
    assert_eq!(house.notify("the build is red").code, 0);
    house.telegram.wait_sent(
        |sent| sent.chat == OWNER && sent.text == "echo: the build is red",
        SOON,
    );
    let request = newest(&house.model).to_string();
    assert!(
        request.contains("the number 77") && request.contains("the disk is full"),
        "it is in the owner's conversation"
    );
    assert_eq!(house.settle_in(GUEST).len(), 2, "{:?}", house.heard(GUEST));
    assert!(
        house
            .model
            .requests()
            .iter()
            .all(|request| !request.to_string().contains("hello")
                || !request.to_string().contains("number 77"))
    );
    // The owner's next words follow on it.
    house.talk(OWNER, OWNER, "what was that?");
    assert!(
        newest(&house.model)
            .to_string()
            .contains("the build is red")
    );
}

#[test]
fn the_way_to_the_owner_follows_the_owner_and_leaves_who_is_none_any_more() {
    let mut house =
        House::with("[telegram]\nowner = [1001, 1003]\nallow_from = [1001, 1002, 1003]");
    house.talk(OWNER, OWNER, "here I am");
    assert_eq!(house.notify("one").code, 0);
    house
        .telegram
        .wait_sent(|sent| sent.chat == OWNER && sent.text == "echo: one", SOON);
    // Another owner writes: they are the last one heard.
    house.talk(1003, 1003, "now I am");
    assert_eq!(house.notify("two").code, 0);
    house
        .telegram
        .wait_sent(|sent| sent.chat == 1003 && sent.text == "echo: two", SOON);
    // That one is no owner any more, though still the last one heard.
    house
        .sandbox
        .reconfigure("[telegram]\nowner = [1001]\nallow_from = [1001, 1002, 1003]");
    house.daemon.signal(nix::sys::signal::Signal::SIGHUP);
    wait_for("the configuration to be read", SOON, || {
        house
            .daemon
            .log()
            .contains("configuration reloaded")
            .then_some(())
    });
    assert_eq!(house.notify("three").code, 0);
    house.telegram.wait_sent(
        |sent| sent.chat == OWNER && sent.text == "echo: three",
        SOON,
    );
    assert!(
        house
            .settle_in(1003)
            .iter()
            .all(|text| !text.contains("three")),
        "{:?}",
        house.heard(1003)
    );
    // It is on the disk: a restart changes nothing.
    house.talk(OWNER, OWNER, "still here");
    let house = house.killed();
    assert_eq!(house.notify("four").code, 0);
    house
        .telegram
        .wait_sent(|sent| sent.chat == OWNER && sent.text == "echo: four", SOON);
}

#[test]
fn nothing_to_tell_is_not_told() {
    let house = House::new();
    let limit = "x".repeat(300);
    let silent = [
        "NO_REPLY".to_owned(),
        "HEARTBEAT_OK".to_owned(),
        "**NO_REPLY**".to_owned(),
        "NO_REPLY - a cron job, nothing new".to_owned(),
        "Nothing new.\n\nHEARTBEAT_OK".to_owned(),
        format!("NO_REPLY {limit}"),
        format!("{limit} NO_REPLY"),
    ];
    for text in silent {
        house.model.push(Reply::Text(text.clone()));
        let told = house
            .sandbox
            .send(&["--wait", "--json", "--notify", "--source", "cron", "ran"]);
        let document = told.json();
        assert_eq!(
            (told.code, &document["silent"], &document["reply"]),
            (0, &json!(true), &json!("")),
            "{text}: {document}"
        );
    }
    assert_eq!(house.settle_in(OWNER), ["mark 0"], "nothing went out");
    let spoken = [
        (format!("NO_REPLY\n{limit}x"), format!("{limit}x")),
        (format!("{limit}x NO_REPLY"), format!("{limit}x")),
        (
            "the word NO_REPLY stands inside".to_owned(),
            "the word NO_REPLY stands inside".to_owned(),
        ),
        ("NO_REPLYS".to_owned(), "NO_REPLYS".to_owned()),
    ];
    for (text, said) in spoken {
        house.model.push(Reply::Text(text.clone()));
        assert_eq!(house.notify("ran").stdout, format!("{said}\n"), "{text}");
        house
            .telegram
            .wait_sent(|sent| sent.chat == OWNER && sent.text == said, SOON);
    }
    // A person who is answered so reads what was written.
    house
        .model
        .push(Reply::Text("all is well NO_REPLY".to_owned()));
    assert_eq!(
        house.sandbox.send(&["--wait", "hello"]).stdout,
        "all is well NO_REPLY\n"
    );
}

#[test]
fn when_the_model_is_down_the_words_go_out_as_they_are() {
    let house = House::new();
    house.model.push(Reply::Status(401, None));
    let told = house.sandbox.send(&[
        "--wait",
        "--notify",
        "--source",
        "backup",
        "--ref",
        "job-7",
        "*disk* <full> & _more_",
    ]);
    let raw = "backup (job-7): *disk* <full> & _more_";
    assert_eq!(
        (told.code, told.stdout, told.stderr.as_str()),
        (0, format!("{raw}\n"), "")
    );
    house
        .telegram
        .wait_sent(|sent| sent.chat == OWNER && sent.text == raw, SOON);
    wait_for("the status to say so", SOON, || {
        house
            .sandbox
            .send(&["--status"])
            .stdout
            .contains("trouble:")
            .then_some(())
    });
    assert_eq!(house.settle_in(OWNER).len(), 2);
}

#[test]
fn source_and_ref_reach_the_model_and_data_only_the_transcript() {
    let house = House::new();
    let told = house.sandbox.send(&[
        "--wait",
        "--json",
        "--notify",
        "--source",
        "ci ⟦x⟧",
        "--ref",
        "https://ci.example/7",
        "--data",
        "{\"secret\": [1, null, \"canary\"]}",
        "red",
    ]);
    assert_eq!(told.code, 0, "{told:?}");
    let head = head(&house.model);
    assert!(
        head.contains("; ci x (https://ci.example/7), an event"),
        "{head}"
    );
    assert!(
        house
            .model
            .requests()
            .iter()
            .all(|request| !request.to_string().contains("canary"))
    );
    let session = told.json()["session_id"]
        .as_str()
        .expect("a session")
        .to_owned();
    let dir = std::fs::read_dir(house.sandbox.path("state/sessions"))
        .expect("sessions")
        .flatten();
    let transcripts = dir.filter(|entry| entry.file_name().to_string_lossy().starts_with(&session));
    let lines: String = transcripts
        .filter_map(|entry| std::fs::read_to_string(entry.path()).ok())
        .collect();
    let about = json!({"source": "ci ⟦x⟧", "ref": "https://ci.example/7", "data": {"secret": [1, null, "canary"]}});
    let event = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap_or_default())
        .find(|event| event["about"] == about);
    assert!(event.is_some(), "{lines}");

    let notify = |data: &'static str| ["--notify", "--source", "ci", "--data", data, "x"];
    house
        .sandbox
        .check_failure(&notify("{not json"), 2, "usage", "--data is not JSON");
    house
        .sandbox
        .check_failure(&notify(""), 2, "usage", "--data is not JSON");
    for usage in [
        &["--notify", "x"][..],
        &["--ref", "x", "y"],
        &["--data", "1", "y"],
        &["--notify", "--source", "x", "--raw", "--to", "1", "y"],
    ] {
        let told = house.sandbox.send(usage);
        assert_eq!((told.code, told.stdout.as_str()), (2, ""), "{usage:?}");
    }
    house
        .sandbox
        .check_failure(&["--source", "x", "y"], 2, "usage", "--source goes with");
    assert_eq!(house.model.requests().len(), 1);
}

#[test]
fn what_cannot_be_delivered_fails_at_once_and_a_script_that_writes_the_fifo_finds_it_in_the_status()
{
    let (model, sandbox) = Sandbox::with_model();
    for with_daemon in [false, true] {
        let _daemon = with_daemon.then(|| sandbox.ready());
        for wait in [&[][..], &["--wait"]] {
            for flags in [
                &["--notify", "--source", "backup"][..],
                &["--raw", "--to", "owner"],
                &["--raw", "--to", "1001"],
            ] {
                let told = sandbox.send(&[wait, flags, &["it failed"]].concat());
                assert_eq!((told.code, told.stdout.as_str()), (1, ""), "{told:?}");
                assert!(
                    told.stderr.contains("not delivered: Telegram is off"),
                    "{told:?}"
                );
            }
        }
        assert_eq!(sandbox.spooled(), [] as [String; 0]);
    }
    let _daemon = sandbox.ready();
    let line = r#"{"cmd":"notify","source":"backup","text":"it failed"}"#;
    assert_eq!(
        sandbox
            .bash(&format!("echo '{line}' >$AGENT_HOME/state/control.fifo"))
            .code,
        0
    );
    let reaches = "a notification of backup is not delivered: no Telegram owner";
    wait_for("the status to say so", SOON, || {
        sandbox
            .send(&["--status"])
            .stdout
            .contains(reaches)
            .then_some(())
    });
    // The status may say so before the model is asked.
    assert_eq!(model.wait_requests(1, SOON).len(), 1);
    let told = sandbox.send(&["--job", "add", "tidy up", "--every", "1h", "--deliver"]);
    let unheard = "\nNobody would hear it now: every channel is off (`enabled` in agent.toml).\n";
    assert!(told.code == 0 && told.stdout.ends_with(unheard), "{told:?}");
}

#[test]
fn people_go_before_events_which_never_take_the_last_free_place() {
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.config("[agent]\nmax_concurrent_runs = 2");
    let _daemon = sandbox.ready();
    model.push(Reply::Held("first event".to_owned()));
    assert_eq!(
        sandbox
            .send(&["--id", "e1", "--system", "[[say event]]"])
            .code,
        0
    );
    model.wait_requests(1, SOON);
    // One place is left, and another event is no reason to take it: it is in another lane than the first.
    let line = json!({"cmd": "notify", "id": "e2", "source": "x", "text": "second event"});
    let written = sandbox.put("state/spool/tmp/e2.json", line.to_string().as_bytes());
    std::fs::rename(written, sandbox.path("state/spool/new/e2.json"))
        .expect("the sandbox is writable");
    assert_eq!(
        sandbox
            .send(&["--wait", "--from", "ada", "a person"])
            .stdout,
        "echo: a person\n"
    );
    assert_eq!(model.requests().len(), 2, "the second event waits");
    model.go_on();
    for id in ["e1", "e2"] {
        assert_eq!(sandbox.send(&["--result", id, "--wait=20"]).code, 0, "{id}");
    }
}

#[test]
fn one_place_is_not_kept_free_for_ever() {
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.config("[agent]\nmax_concurrent_runs = 1");
    let _daemon = sandbox.ready();
    model.push(Reply::Held("busy".to_owned()));
    assert_eq!(sandbox.send(&["--from", "zoe", "first"]).code, 0);
    model.wait_requests(1, SOON);
    assert_eq!(
        sandbox.send(&["--id", "e1", "--system", "an event"]).code,
        0
    );
    assert_eq!(
        sandbox
            .send(&["--id", "p1", "--from", "ada", "a person"])
            .code,
        0
    );
    wait_for("both to wait", SOON, || {
        (sandbox.query("queue", "SELECT id FROM inbox").len() == 3).then_some(())
    });
    model.go_on();
    assert_eq!(sandbox.send(&["--result", "e1", "--wait=20"]).code, 0);
    let order: Vec<String> = model
        .requests()
        .iter()
        .map(|request| request["messages"][0].to_string())
        .collect();
    assert!(
        order[1].contains("a person") && order[2].contains("an event"),
        "{order:?}"
    );
}

// ------------------------------------------------------------------ words as they are

#[test]
fn raw_words_arrive_exactly_and_no_model_is_asked() {
    let house = House::new();
    house.talk(OWNER, OWNER, "hello");
    house.talk(GUEST, GUEST, "hello");
    let texts = [
        "*bold* _not_ `code` [link](http://x)",
        "<b>&amp; \"quotes\" 'too'",
        "# no heading\n- no list\n> no quote",
        "ünïcödé 👨‍👩‍👧 \\n",
    ];
    for (to, chat) in [
        ("1001", OWNER),
        ("1002", GUEST),
        ("User1002", GUEST),
        ("@user1002", GUEST),
        ("@USER1002", GUEST),
        ("owner", OWNER),
    ] {
        for text in texts {
            let count = house
                .heard(chat)
                .iter()
                .filter(|heard| *heard == text)
                .count();
            let told = house.sandbox.send(&["--raw", "--to", to, text]);
            assert_eq!(
                (told.code, told.stdout.as_str(), told.stderr.as_str()),
                (0, "", ""),
                "{to}"
            );
            wait_for("it to arrive", SOON, || {
                (house
                    .heard(chat)
                    .iter()
                    .filter(|heard| *heard == text)
                    .count()
                    > count)
                    .then_some(())
            });
        }
    }
    // A message of 10,000 characters comes in parts, in order and whole.
    let long: String = (0..2500).map(|number| format!("{number:03} ")).collect();
    let before = house.heard(GUEST).len();
    assert_eq!(
        house.sandbox.send(&["--raw", "--to", "1002", &long]).code,
        0
    );
    let all = house.settle_in(GUEST);
    let parts = all[before..all.len() - 1].to_vec();
    assert!(
        parts.len() >= 3 && parts.iter().all(|part| part.encode_utf16().count() <= 4096),
        "{}",
        parts.len()
    );
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<String>>()
    };
    assert_eq!(words(&parts.join(" ")), words(&long));

    house.sandbox.check_failure(
        &["--raw", "--to", "nobody", "x"],
        1,
        "failed",
        "no contact \"nobody\"",
    );
    house.sandbox.check_failure(
        &["--raw", "--to", "@nobody", "x"],
        1,
        "failed",
        "no contact \"@nobody\"",
    );
    assert_eq!(house.sandbox.send(&["--raw", "x"]).code, 2);
    assert_eq!(house.sandbox.send(&["--to", "1001", "x"]).code, 2);
    assert_eq!(house.model.requests().len(), 2, "no model was asked");
}

#[test]
fn raw_words_arrive_in_the_order_they_were_sent() {
    let house = House::new();
    let House {
        daemon,
        telegram,
        model,
        sandbox,
    } = house;
    assert_eq!(daemon.term(), 0);
    for number in 0..40 {
        let told = sandbox.send(&[
            "--id",
            &format!("r{number:02}"),
            "--raw",
            "--to",
            "1002",
            &format!("word {number:02}"),
        ]);
        assert_eq!(
            (told.code, told.stdout),
            (75, format!("r{number:02}\n")),
            "no daemon: they wait"
        );
    }
    let house = House::of(sandbox, telegram, model);
    let expected: Vec<String> = (0..40).map(|number| format!("word {number:02}")).collect();
    let heard = wait_for("all of them", SOON, || {
        Some(house.heard(GUEST)).filter(|heard| heard.len() == 40)
    });
    assert_eq!(heard, expected);
    assert_eq!(house.model.requests().len(), 0);
}

#[test]
fn a_name_that_two_people_bear_is_refused_with_the_list() {
    let house = House::new();
    for (id, username) in [(OWNER, "ada_one"), (GUEST, "ada_two")] {
        house.telegram.inject(json!({"message": {
            "message_id": 5, "date": 1_700_000_000, "text": "hello",
            "from": {"id": id, "is_bot": false, "first_name": "Ada", "username": username},
            "chat": {"id": id, "type": "private", "first_name": "Ada"},
        }}));
        house.telegram.wait_sent(|sent| sent.chat == id, SOON);
    }
    let known = || {
        house
            .sandbox
            .read("state/people.json")
            .is_some_and(|text| text.contains("ada_two"))
    };
    wait_for("both to be known", SOON, || known().then_some(()));
    let before = house.telegram.sent().len();
    house
        .sandbox
        .check_failure(&["--raw", "--to", "ada", "x"], 2, "usage", "1001  Ada");
    let told = house.sandbox.send(&["--raw", "--to", "Ada", "x"]);
    assert!(
        told.stderr.contains("1001  Ada") && told.stderr.contains("1002  Ada"),
        "{told:?}"
    );
    assert_eq!(
        house
            .sandbox
            .send(&["--raw", "--to", "@ada_two", "just you"])
            .code,
        0
    );
    house
        .telegram
        .wait_sent(|sent| sent.chat == GUEST && sent.text == "just you", SOON);
    assert_eq!(
        house.telegram.sent().len(),
        before + 1,
        "nothing else was sent"
    );
}

#[test]
fn a_chat_that_cannot_be_reached_is_a_dead_letter_and_the_next_one_goes_out() {
    let house = House::new();
    house.telegram.fault(Fault {
        method: "sendMessage",
        kind: FaultKind::Status(403),
        count: 1,
    });
    assert_eq!(
        house.sandbox.send(&["--raw", "--to", "4004", "never"]).code,
        0
    );
    wait_for("the dead letter", SOON, || {
        (house.sandbox.send(&["--queue", "--json"]).json()["dead"]
            .as_array()
            .map(Vec::len)
            == Some(1))
        .then_some(())
    });
    assert_eq!(house.settle_in(OWNER).len(), 1);
}

#[test]
fn who_waits_for_raw_words_is_told_what_became_of_them() {
    let house = House::new();
    let fails = |count, kind| {
        let method = "sendMessage";
        house.telegram.fault(Fault {
            method,
            kind,
            count,
        });
    };
    fails(1, FaultKind::Status(403));
    let raw = |id: &'static str, wait: &'static str| {
        house
            .sandbox
            .send(&["--raw", "--to", "4004", "--id", id, "never", wait])
    };
    let told = raw("r1", "--wait");
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.stderr.contains("is a dead letter: "), "{told:?}");
    // Whoever asks for it later, too.
    for wait in [
        &["--result", "r1"][..],
        &["--result", "r1", "--wait", "--json"],
    ] {
        assert_eq!(house.sandbox.send(wait).code, 1, "{wait:?}");
    }
    // What has not arrived yet is no success either.
    fails(1_000, FaultKind::Status(500));
    let told = raw("r2", "--wait=1");
    assert_eq!(told.code, 75, "{told:?}");
    assert!(told.stderr.contains("not delivered within 1 s"), "{told:?}");
    assert_eq!(house.sandbox.send(&["--result", "r2"]).code, 75);
}

#[test]
fn an_event_that_nobody_hears_is_delivered_when_there_is_an_owner() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let mut sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .config("[telegram]\nowner = []\nallow_from = []");
    let daemon = sandbox.ready();
    for (id, untrusted) in [("e1", false), ("e2", true)] {
        let mut line =
            json!({"v": 1, "cmd": "notify", "id": id, "source": "build", "text": "it failed"});
        line["untrusted"] = untrusted.into();
        let name = format!("state/spool/new/{id}.json");
        sandbox.put(&name, line.to_string().as_bytes());
    }
    sandbox.send(&["--status"]);
    let dead = "SELECT id FROM inbox WHERE state = 'dead'";
    wait_for("both to be given up", SOON, || {
        (sandbox.query("queue", dead).len() == 2).then_some(())
    });
    daemon.term();
    sandbox.reconfigure(&format!("[telegram]\nowner = [{OWNER}]"));
    let _daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--queue", "retry", "all"]).code, 0);
    wait_for("both to be delivered", SOON, || {
        (telegram.sent().len() == 2 && sandbox.is_idle(&telegram)).then_some(())
    });
    let sent = telegram.sent();
    assert!(sent.iter().all(|sent| sent.chat == OWNER), "{sent:?}");
    assert_eq!(sandbox.query("queue", dead).len(), 0);
}
