//! Which conversation words belong to: `--session`, `--tier`, `--model`, `--reset`.

use std::{fs, time::Duration};

use serde_json::{Value, json};

use crate::support::{Daemon, FakeModel, FakeTelegram, Reply, Sandbox, wait_for};

/// Long against everything that happens here, short against the patience of a reader.
const SOON: Duration = Duration::from_secs(20);
const OWNER: i64 = 1001;
/// May write, owns nothing.
const GUEST: i64 = 1002;

/// Returns (telegram, model, sandbox, daemon).
fn with_telegram() -> (FakeTelegram, FakeModel, Sandbox, Daemon) {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model);
    let daemon = sandbox.ready();
    (telegram, model, sandbox, daemon)
}

fn talk(telegram: &FakeTelegram, person: i64, text: &str) {
    let (_, id) = telegram.say(person, person, text);
    telegram.wait_sent(
        |sent| (sent.chat, sent.reply_to) == (person, Some(id)),
        SOON,
    );
}

/// Returns the id of a session as soon as the index on the disk has it.
fn session_id(sandbox: &Sandbox, key: &str) -> String {
    wait_for("the session to be in the index", SOON, || {
        let index = sandbox.read_json("state/sessions/sessions.json")?;
        index["sessions"][key]["session_id"]
            .as_str()
            .map(str::to_owned)
    })
}

fn newest(model: &FakeModel) -> Value {
    model.requests().pop().expect("a request")
}

fn messages(model: &FakeModel) -> usize {
    newest(model)["messages"].as_array().map_or(0, Vec::len)
}

// ------------------------------------------------------------------ which conversation

#[test]
fn a_conversation_is_found_by_key_id_contact_and_username_and_only_the_caller_is_answered() {
    let (telegram, model, sandbox, _daemon) = with_telegram();
    talk(&telegram, OWNER, "remember 77");
    talk(&telegram, GUEST, "I am the guest");
    let key = "agent:agent:telegram:dm:1001";
    let id = session_id(&sandbox, key);
    session_id(&sandbox, "agent:agent:telegram:dm:1002");
    let sent = telegram.sent().len();
    for (number, target) in [key, &id, "@user1001", "@USER1001", "1001"]
        .into_iter()
        .enumerate()
    {
        let told = sandbox.send(&["--wait", "--json", "--session", target, "go on"]);
        assert_eq!(
            (told.code, &told.json()["session_id"], &told.json()["reply"]),
            (0, &json!(id), &json!("echo: go on")),
            "{target}"
        );
        assert_eq!(messages(&model), 3 + 2 * number, "{target}");
        let request = newest(&model).to_string();
        assert!(
            request.contains("remember 77") && !request.contains("the guest"),
            "{target}"
        );
    }
    assert_eq!(telegram.sent().len(), sent, "Telegram heard nothing of it");
    // But it is the same conversation.
    talk(&telegram, OWNER, "what did I say?");
    assert_eq!(messages(&model), 3 + 2 * 5);
    // Whoever has a shell is the owner, in somebody else's conversation too.
    assert_eq!(
        sandbox
            .send(&["--wait", "--session", "@user1002", "hello"])
            .code,
        0
    );
    assert!(newest(&model).to_string().contains("the guest"));
    // What people call themselves is no name for a conversation of ours.
    let told = sandbox.send(&["--wait", "--json", "--session", "User1002", "a secret"]);
    assert_eq!((told.code, messages(&model)), (0, 1), "{told:?}");
    assert_eq!(
        session_id(&sandbox, "cli:User1002"),
        told.json()["session_id"]
    );
}

#[test]
fn a_new_name_is_a_new_conversation_and_a_known_person_is_none() {
    let (telegram, model, sandbox, _daemon) = with_telegram();
    for text in ["one", "two"] {
        assert_eq!(
            sandbox
                .send(&["--wait", "--session", "project x", text])
                .code,
            0
        );
    }
    assert_eq!(messages(&model), 3);
    assert_eq!(
        sandbox
            .send(&["--wait", "--session", "cli:project x", "three"])
            .code,
        0
    );
    assert_eq!(messages(&model), 5, "the name and the key are one");
    assert_eq!(
        sandbox
            .send(&["--wait", "--from", "project x", "four"])
            .code,
        0
    );
    assert_eq!(messages(&model), 7, "and so is the sender's own");
    assert_eq!(
        sandbox
            .send(&["--wait", "--session", "my:own:key", "five"])
            .code,
        0
    );
    assert_eq!(messages(&model), 1);
    session_id(&sandbox, "my:own:key");

    // Somebody who wrote and whose conversation started over is still that person.
    talk(&telegram, OWNER, "hello");
    session_id(&sandbox, "agent:agent:telegram:dm:1001");
    assert_eq!(sandbox.send(&["--reset", "@user1001"]).code, 0);
    assert_eq!(
        sandbox
            .send(&["--wait", "--session", "@user1001", "from the shell"])
            .code,
        0
    );
    talk(&telegram, OWNER, "and here");
    assert!(newest(&model).to_string().contains("from the shell"));

    let long = "x".repeat(201);
    for bad in ["", "a\nb", &long, "@nobody"] {
        let told = sandbox.send(&["--wait", "--session", bad, "x"]);
        assert_eq!(
            (told.code, told.stdout.as_str()),
            (if bad.starts_with('@') { 1 } else { 2 }, ""),
            "{bad:?}: {told:?}"
        );
        assert!(told.stderr.contains("\nhint: "), "{bad:?}: {told:?}");
    }
}

#[test]
fn a_name_that_may_mean_several_is_refused_with_the_list_before_anything_is_sent() {
    let (telegram, model, sandbox, daemon) = with_telegram();
    talk(&telegram, OWNER, "hello");
    let ids = [session_id(&sandbox, "agent:agent:telegram:dm:1001")];
    assert_eq!(
        sandbox
            .send(&["--wait", "--from", "User1001", "hello"])
            .code,
        0
    );
    session_id(&sandbox, "cli:User1001");
    let requests = model.requests().len();
    let check = || {
        for arguments in [&["--stop", "user1001"][..], &["--reset", "user1001"]] {
            sandbox.check_failure(
                arguments,
                2,
                "usage",
                "  agent:agent:telegram:dm:1001\n  cli:User1001\n",
            );
        }
    };
    // Without a daemon --stop has nobody to ask.
    check();
    assert_eq!(
        (sandbox.spooled(), model.requests().len()),
        (vec![], requests)
    );
    // A script that asks the daemon itself is told, too.
    let line = r#"{"cmd":"reset","id":"amb","target":"user1001"}"#;
    assert_eq!(
        sandbox
            .bash(&format!("echo '{line}' > state/control.fifo"))
            .code,
        0
    );
    let told = sandbox.send(&["--result", "amb", "--wait=20"]);
    assert_eq!(told.code, 1, "{told:?}");
    assert!(
        told.stderr
            .contains("agent:agent:telegram:dm:1001 or cli:User1001"),
        "{told:?}"
    );
    assert_eq!(daemon.term(), 0);
    sandbox.check_failure(&["--reset", "user1001"], 2, "usage", "cli:User1001");
    // The id and the key are never ambiguous.
    assert_eq!(sandbox.send(&["--session", &ids[0], "x"]).code, 75);
}

// ------------------------------------------------------------------ what the model is told, and which it is

#[test]
fn the_tier_decides_what_the_model_is_told() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    for name in [
        "SOUL",
        "IDENTITY",
        "AGENTS",
        "USER",
        "TOOLS",
        "MEMORY",
        "HEARTBEAT",
    ] {
        sandbox.put(
            &format!("workspace/{name}.md"),
            format!("canary-{name}").as_bytes(),
        );
    }
    for (tier, told) in [
        (
            None,
            &["SOUL", "IDENTITY", "AGENTS", "USER", "TOOLS", "MEMORY"][..],
        ),
        (
            Some("full"),
            &["SOUL", "IDENTITY", "AGENTS", "USER", "TOOLS", "MEMORY"],
        ),
        (Some("operational"), &["SOUL", "AGENTS", "HEARTBEAT"]),
    ] {
        let arguments: Vec<&str> = ["--wait", "hello"]
            .into_iter()
            .chain(tier.into_iter().flat_map(|tier| ["--tier", tier]))
            .collect();
        assert_eq!(sandbox.send(&arguments).code, 0, "{tier:?}");
        let system = newest(&model)["system"].to_string();
        assert!(system.contains("You are agent"), "{tier:?}: {system}");
        let canaries: Vec<&str> = [
            "SOUL",
            "IDENTITY",
            "AGENTS",
            "USER",
            "TOOLS",
            "MEMORY",
            "HEARTBEAT",
        ]
        .into_iter()
        .filter(|name| system.contains(&format!("canary-{name}")))
        .collect();
        assert_eq!(canaries, told, "{tier:?}");
    }
}

#[test]
fn the_model_is_the_one_that_was_named_or_the_one_of_the_source() {
    let (first, second, third) = (FakeModel::start(), FakeModel::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_anthropic(&first)
        .with_provider("other", "openai", &second, "big")
        .with_provider("third", "anthropic", &third, "events")
        .config("[routing]\nsystem = \"events\"");
    let _daemon = sandbox.ready();
    let counts = || {
        (
            first.requests().len(),
            second.requests().len(),
            third.requests().len(),
        )
    };
    assert_eq!(sandbox.send(&["--wait", "hello"]).code, 0);
    assert_eq!(counts(), (1, 0, 0));
    assert_eq!(sandbox.send(&["--wait", "--model", "big", "hello"]).code, 0);
    assert_eq!(counts(), (1, 1, 0), "in the same conversation");
    assert_eq!(sandbox.send(&["--wait", "--system", "an event"]).code, 0);
    assert_eq!(
        sandbox
            .send(&["--wait", "--system", "--source", "x", "another"])
            .code,
        0
    );
    assert_eq!(counts(), (1, 1, 2));
    assert_eq!(
        sandbox
            .send(&["--wait", "--system", "--model", "primary", "an event"])
            .code,
        0
    );
    assert_eq!(counts(), (2, 1, 2));
    for arguments in [
        &["--model", "nobody", "x"][..],
        &["--model", "", "x"],
        &["--model", "nobody", "--system", "x"],
    ] {
        let told = sandbox.send(&[&["--wait"], arguments].concat());
        assert_eq!(
            (told.code, told.stdout.as_str()),
            (1, ""),
            "{arguments:?}: {told:?}"
        );
        assert!(
            told.stderr.contains(&format!("{:?}", arguments[1]))
                || told.stderr.contains(arguments[1]),
            "{told:?}"
        );
    }
    assert_eq!(counts(), (2, 1, 2), "nothing was asked");
}

// ------------------------------------------------------------------ starting over

#[test]
fn a_reset_archives_what_was_and_the_next_message_is_fresh() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    for (target, name) in [("cli:ada", "ada"), ("bob", "bob"), ("", "eve")] {
        assert_eq!(
            sandbox
                .send(&["--wait", "--from", name, &format!("I am {name}")])
                .code,
            0
        );
        let id = session_id(&sandbox, &format!("cli:{name}"));
        let told = sandbox.send(&["--reset", if target.is_empty() { &id } else { target }]);
        assert_eq!(
            (told.code, told.stdout.as_str()),
            (0, "New conversation. The previous one is archived.\n"),
            "{told:?}"
        );
        let archived = |dir: &str| {
            let entries = fs::read_dir(sandbox.path(dir))
                .expect("a directory")
                .flatten();
            entries
                .filter(|entry| {
                    entry
                        .file_name()
                        .to_string_lossy()
                        .starts_with(&format!("{id}.2"))
                })
                .count()
        };
        assert_eq!(
            (
                archived("state/sessions"),
                archived("state/sessions/archive")
            ),
            (0, 1),
            "{name}"
        );
        let answer = sandbox
            .send(&["--wait", "--json", "--from", name, "who am I?"])
            .json();
        assert_eq!(
            (&answer["status"], messages(&model)),
            (&json!("done"), 1),
            "{name}"
        );
        assert_ne!(answer["session_id"], id);
        // The id of what was archived means nobody any more.
        assert_eq!(sandbox.send(&["--reset", &id]).code, 1);
    }
    for unknown in [
        "nobody",
        "@nobody",
        "cli:nobody",
        "01890000-0000-7000-8000-000000000000",
    ] {
        sandbox.check_failure_of_reply(&["--reset", unknown], &["no session \"", "no contact \""]);
    }
    assert_eq!(sandbox.send(&["--reset"]).code, 2);
    assert_eq!(sandbox.send(&["--reset", "ada", "hello"]).code, 2);
    let told = sandbox.send(&["--reset", "all"]);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "3 conversations archived.\n"),
        "{told:?}"
    );
    for name in ["ada", "bob", "eve"] {
        assert_eq!(sandbox.send(&["--wait", "--from", name, "again"]).code, 0);
        assert_eq!(messages(&model), 1, "{name}");
    }
}

#[test]
fn a_reset_waits_for_the_turn_that_runs_the_first_one_too() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    for target in ["cli:ada", "ada", "all"] {
        model.push(Reply::Held("the last word".to_owned()));
        let before = model.requests().len();
        let talking = sandbox.sending(&["--wait", "--from", "ada", "hello"]);
        model.wait_requests(before + 1, SOON);
        let resetting = sandbox.sending(&["--reset", target]);
        // What comes after the reset is behind it.
        wait_for("the reset to wait", SOON, || {
            let waiting =
                "SELECT id FROM inbox WHERE state = 'pending' AND session_key = 'cli:ada'";
            (sandbox.query("queue", waiting).len() == 1).then_some(())
        });
        let next = sandbox.sending(&["--wait", "--from", "ada", "next"]);
        wait_for("the next message to wait", SOON, || {
            let waiting =
                "SELECT id FROM inbox WHERE state = 'pending' AND session_key = 'cli:ada'";
            (sandbox.query("queue", waiting).len() == 2).then_some(())
        });
        model.go_on();
        assert_eq!(talking.end().stdout, "the last word\n", "{target}");
        let told = resetting.end();
        assert_eq!(told.code, 0, "{target}: {told:?}");
        assert_eq!(next.end().stdout, "echo: next\n");
        assert_eq!(messages(&model), 1, "{target}: it is fresh");
    }
}

#[test]
fn a_reset_of_all_counts_conversations_whose_first_message_waits() {
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.config("[agent]\nmax_concurrent_runs = 1");
    let _daemon = sandbox.ready();
    model.push(Reply::Held("the last word".to_owned()));
    let talking = sandbox.sending(&["--wait", "--from", "ada", "hello"]);
    model.wait_requests(1, SOON);
    let waiting = sandbox.sending(&["--wait", "--from", "bob", "hello"]);
    let waiting_of_bob = |count: usize| {
        wait_for("bob's inputs to wait", SOON, || {
            let waiting =
                "SELECT id FROM inbox WHERE state = 'pending' AND session_key = 'cli:bob'";
            (sandbox.query("queue", waiting).len() == count).then_some(())
        });
    };
    waiting_of_bob(1);
    let resetting = sandbox.sending(&["--reset", "all"]);
    waiting_of_bob(2);
    model.go_on();
    assert_eq!(resetting.end().stdout, "2 conversations archived.\n");
    assert_eq!(talking.end().stdout, "the last word\n");
    assert_eq!(waiting.end().code, 0);
    for name in ["ada", "bob"] {
        assert_eq!(sandbox.send(&["--wait", "--from", name, "again"]).code, 0);
        assert_eq!(messages(&model), 1, "{name}: it is fresh");
    }
}

#[test]
fn a_reset_without_a_daemon_waits_its_turn_in_the_spool() {
    let (model, sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--wait", "first"]).code, 0);
    assert_eq!(daemon.term(), 0);
    for arguments in [
        &["--id", "00-more", "more"][..],
        &["--reset", "cli"],
        &["--id", "zz-fresh", "fresh"],
    ] {
        let told = sandbox.send(arguments);
        assert_eq!(
            (told.code, told.stdout.lines().count()),
            (75, 1),
            "{told:?}"
        );
    }
    sandbox.check_failure(
        &["--reset", "cli", "--no-queue"],
        69,
        "not_running",
        "control.fifo",
    );
    assert_eq!(sandbox.spooled().len(), 3);
    let _daemon = sandbox.ready();
    assert_eq!(
        sandbox.send(&["--result", "zz-fresh", "--wait=20"]).stdout,
        "echo: fresh\n"
    );
    let counts: Vec<usize> = model
        .requests()
        .iter()
        .map(|request| request["messages"].as_array().map_or(0, Vec::len))
        .collect();
    assert_eq!(counts, [1, 3, 1]);
    // A message and its reset that both wait for the first start.
    let (model, sandbox) = Sandbox::with_model();
    assert_eq!(
        sandbox
            .send(&["--id", "00", "--from", "new", "first ever"])
            .code,
        75
    );
    let reset = sandbox.send(&["--reset", "new"]).stdout.trim().to_owned();
    assert_eq!(
        sandbox
            .send(&["--id", "zz", "--from", "new", "second"])
            .code,
        75
    );
    let _daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--result", "zz", "--wait=20"]).code, 0);
    assert_eq!(sandbox.send(&["--result", &reset]).code, 0);
    assert_eq!(messages(&model), 1);
}
