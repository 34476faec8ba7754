//! Telegram as the people at the other end see it: what they write is answered once, in order, in good form,
//! by a daemon that nothing on the line can confuse for long; and strangers get nothing.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{
    FakeModel, FakeTelegram, Fault, FaultKind, House, Reply, Sandbox, Sent, wait_for,
};

/// Long against everything that happens here, short against the patience of a reader.
const SOON: Duration = Duration::from_secs(20);
const OWNER: i64 = 1001;
/// May write, owns nothing.
const GUEST: i64 = 1002;
/// In no list.
const STRANGER: i64 = 5005;
const RESENT: &str = "(resent)";

impl House {
    /// Writes as the owner; returns the message's id.
    fn say(&self, text: &str) -> i64 {
        self.telegram.say(OWNER, OWNER, text).1
    }

    /// Sends an update with a message of the owner that has these fields.
    fn send(&self, fields: &Value) -> i64 {
        let mut message = json!({
            "message_id": 9000 + self.telegram.calls().len(), "date": 1_700_000_000,
            "from": {"id": OWNER, "is_bot": false, "first_name": "Ada"},
            "chat": {"id": OWNER, "type": "private", "first_name": "Ada"},
        });
        for (name, value) in fields.as_object().expect("fields") {
            message[name.as_str()] = value.clone();
        }
        let id = message["message_id"].as_i64().expect("a number");
        self.telegram.inject(json!({"message": message}));
        id
    }

    /// Returns the answer to a message of the owner.
    fn answer(&self, message_id: i64) -> Sent {
        self.telegram.wait_sent(
            |sent| (sent.chat, sent.reply_to) == (OWNER, Some(message_id)),
            SOON,
        )
    }

    fn answers(&self, message_id: i64) -> Vec<Sent> {
        self.telegram
            .sent()
            .into_iter()
            .filter(|sent| (sent.chat, sent.reply_to) == (OWNER, Some(message_id)))
            .collect()
    }

    /// Writes as somebody else, waits for the answer and returns its text.
    fn answer_to(&self, person: i64, text: &str) -> String {
        let (_, id) = self.telegram.say(person, person, text);
        self.telegram
            .wait_sent(
                |sent| (sent.chat, sent.reply_to) == (person, Some(id)),
                SOON,
            )
            .text
    }

    /// Waits until every input is handled and every message is sent.
    fn settle(&self) {
        let open = "SELECT 1 FROM inbox WHERE state IN ('pending', 'running')
             UNION ALL SELECT 1 FROM outbox WHERE state IN ('pending', 'sending', 'unknown')";
        wait_for("an empty queue", SOON, || {
            (self.telegram.pending_updates() == 0 && self.sandbox.query("queue", open).is_empty())
                .then_some(())
        });
    }

    fn channel_state(&self) -> String {
        self.sandbox.send(&["--status", "--json"]).json()["channels"][0]["state"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

// ------------------------------------------------------------------ form

#[test]
fn markdown_comes_out_as_html_and_answers_its_question() {
    let house = House::new();
    let id = house.say("[[say **bold** and `a<b` & _more_]]");
    let sent = house.answer(id);
    assert_eq!(
        (sent.chat, sent.text.as_str()),
        (OWNER, "bold and a<b & more")
    );
    assert_eq!(sent.parse_mode.as_deref(), Some("HTML"));
    assert!(
        sent.html.contains("<b>bold</b>") && sent.html.contains("<code>a&lt;b</code>"),
        "{}",
        sent.html
    );
    let previews = &house.telegram.calls_of("sendMessage")[0].params["link_preview_options"];
    assert!(
        previews.to_string().contains("is_disabled") && previews.to_string().contains("true"),
        "{previews}"
    );
}

#[test]
fn markup_that_is_refused_goes_out_as_plain_text() {
    let house = House::new();
    house.telegram.fault(Fault {
        method: "sendMessage",
        kind: FaultKind::Status(400),
        count: 1,
    });
    let sent = house.answer(house.say("[[say **bold** words]]"));
    assert_eq!(sent.parse_mode, None);
    assert!(
        sent.text.contains("bold") && sent.text.contains("words"),
        "{sent:?}"
    );
    assert_eq!(house.telegram.sent().len(), 1);
    // Plain text that is refused, too, will never arrive.
    house.telegram.fault(Fault {
        method: "sendMessage",
        kind: FaultKind::Status(400),
        count: 2,
    });
    house.say("[[say never]]");
    wait_for("the dead letter", SOON, || {
        let dead = house.sandbox.query(
            "queue",
            "SELECT 1 FROM outbox WHERE state = 'dead' AND reason IS NOT NULL",
        );
        (dead.len() == 1).then_some(())
    });
    assert_eq!(house.answer(house.say("next")).text, "echo: next");
    assert_eq!(
        house.sandbox.send(&["--status", "--json"]).json()["queue"]["dead"],
        1
    );
}

#[test]
fn a_long_answer_comes_in_parts_in_order_and_nothing_is_lost() {
    let house = House::new();
    let id = house.say("[[long 20000]]");
    house.answer(id);
    house.settle();
    let parts = house.telegram.sent();
    assert!((5..=7).contains(&parts.len()), "{} parts", parts.len());
    assert!(
        parts
            .iter()
            .all(|part| part.text.encode_utf16().count() <= 4096)
    );
    let replies: Vec<bool> = parts.iter().map(|part| part.reply_to.is_some()).collect();
    assert!(
        replies[0] && replies[1..].iter().all(|reply| !reply),
        "only the first part answers: {replies:?}"
    );
    let words: Vec<String> = parts
        .iter()
        .flat_map(|part| part.text.split_whitespace())
        .map(str::to_owned)
        .collect();
    let expected: Vec<String> = (1..=words.len())
        .map(|number| format!("w{number:04}"))
        .collect();
    assert_eq!(words[..words.len() - 1], expected[..words.len() - 1]);
    assert_eq!(words.len(), 20_000_usize.div_ceil(6));

    // Letters of two units are not cut in half.
    let before = parts.len();
    house.say(&format!("[[say {}]]", "😀".repeat(3000)));
    wait_for("two parts", SOON, || {
        (house.telegram.sent().len() >= before + 2).then_some(())
    });
    house.settle();
    let parts = house.telegram.sent().split_off(before);
    assert!(
        parts
            .iter()
            .all(|part| part.text.encode_utf16().count() <= 4096)
    );
    let faces: String = parts
        .iter()
        .flat_map(|part| part.text.chars())
        .filter(|letter| !letter.is_whitespace())
        .collect();
    assert_eq!(faces, "😀".repeat(3000));
}

#[test]
fn typing_is_shown_for_slow_turns_only() {
    let house = House::new();
    let shown = || house.telegram.calls_of("sendChatAction").len();
    // On a busy machine not every quick turn is one.
    let is_quick = || {
        let before = shown();
        house.answer(house.say("quick"));
        shown() == before
    };
    assert!((0..20).any(|_| is_quick()));
    let before = shown();
    house.answer(house.say("[[sleep 900]] slow"));
    assert_eq!(shown(), before + 1);
    // A refused "typing" is nobody's problem.
    house.telegram.fault(Fault {
        method: "sendChatAction",
        kind: FaultKind::Status(500),
        count: 9,
    });
    assert_eq!(
        house.answer(house.say("[[sleep 600]] again")).text,
        "echo: [[sleep 600]] again"
    );
}

#[test]
fn what_has_no_words_reaches_the_model_in_ours() {
    let house = House::new();
    for (fields, name) in [
        (
            json!({"location": {"latitude": 1.5, "longitude": 2.5}}),
            "location 1.5, 2.5",
        ),
        (
            json!({"invention_of_2031": {"glow": true}}),
            "invention_of_2031",
        ),
        (json!({"dice": {"emoji": "🎲", "value": 3}}), "dice 🎲 3"),
    ] {
        let before = house.model.requests().len();
        house.answer(house.send(&fields));
        let request = &house.model.requests()[before];
        let last = request["messages"]
            .as_array()
            .and_then(|messages| messages.last())
            .expect("messages")
            .to_string();
        assert!(last.contains(&format!("⟦{name}⟧")), "{last}");
    }
    let photo =
        json!([{"file_id": "f", "file_unique_id": "u", "width": 9, "height": 9, "file_size": 10}]);
    house.answer(house.send(&json!({"photo": photo, "caption": "look at this"})));
    let last = house.model.requests().pop().expect("a request").to_string();
    assert!(
        last.contains("⟦photo")
            && last.contains("it could not be fetched")
            && last.contains("look at this"),
        "{last}"
    );
}

#[test]
fn a_new_wording_is_heard_and_what_only_happened_is_passed_over() {
    let house = House::new();
    let from = json!({"id": OWNER, "is_bot": false, "first_name": "Ada"});
    let message = |id: i64, fields: Value| {
        let mut message = json!({"message_id": id, "date": 1, "from": from, "chat": {"id": OWNER, "type": "private"}});
        message
            .as_object_mut()
            .expect("fields")
            .extend(fields.as_object().expect("fields").clone());
        message
    };
    let place = json!({"latitude": 1.5, "longitude": 2.5, "live_period": 60});
    house
        .telegram
        .inject(json!({"message": message(801, json!({"new_chat_title": "x"}))}));
    house
        .telegram
        .inject(json!({"edited_message": message(802, json!({"location": place}))}));
    house.telegram.inject(
        json!({"edited_message": message(803, json!({"text": "in other words", "edit_date": 2}))}),
    );
    assert_eq!(house.answer(803).text, "echo: in other words");
    house.settle();
    assert_eq!(
        (
            house.model.requests().len(),
            house.telegram.pending_updates()
        ),
        (1, 0)
    );
}

// ------------------------------------------------------------------ who may speak

#[test]
fn a_stranger_gets_one_code_and_is_in_when_the_owner_says_so() {
    let house = House::with("[telegram]\ndm_policy = \"pairing\"");
    house.telegram.say(STRANGER, STRANGER, "let me in XYZZY");
    let sent = house.telegram.wait_sent(|sent| sent.chat == STRANGER, SOON);
    let code = sent
        .text
        .split_whitespace()
        .last()
        .expect("a code")
        .to_owned();
    assert!(
        code.len() == 8
            && code
                .chars()
                .all(|c| c.is_ascii_alphanumeric() && !"0O1I".contains(c)),
        "{sent:?}"
    );
    let told = house.telegram.wait_sent(
        |sent| sent.chat == OWNER && sent.text.contains("asks to talk to me"),
        SOON,
    );
    assert!(
        told.text.contains("5005") && told.text.contains(&code),
        "{told:?}"
    );
    house
        .telegram
        .say(STRANGER, STRANGER, "let me in again XYZZY");
    house.answer(house.say("a word of the owner"));
    assert_eq!(
        house
            .telegram
            .sent()
            .iter()
            .filter(|sent| sent.chat == STRANGER)
            .count(),
        1,
        "one code, and silence"
    );
    assert_eq!(
        holders(&house.sandbox.path("state"), "XYZZY"),
        [] as [String; 0],
        "a stranger's words are kept nowhere"
    );

    let list = house.sandbox.send(&["--pair", "list"]);
    assert!(list.code == 0 && list.stdout.contains(&code), "{list:?}");
    let told = house
        .sandbox
        .send(&["--pair", "approve", &code.to_lowercase()]);
    let told = if told.code == 0 {
        told
    } else {
        house.sandbox.send(&["--pair", "approve", &code])
    };
    assert_eq!(told.code, 0, "{told:?}");
    assert_eq!(house.answer_to(STRANGER, "thank you"), "echo: thank you");

    assert_eq!(house.sandbox.send(&["--pair", "revoke", "5005"]).code, 0);
    let asked = house.model.requests().len();
    house.telegram.say(STRANGER, STRANGER, "still in?");
    house.answer(house.say("another word of the owner"));
    assert_eq!(
        house.model.requests().len(),
        asked + 1,
        "who was let out is out"
    );
}

#[test]
fn who_sends_the_owner_code_is_an_owner() {
    let house = House::with("[telegram]\ndm_policy = \"pairing\"");
    let code = house
        .sandbox
        .send(&["--pair", "owner"])
        .stdout
        .trim()
        .to_owned();
    house.telegram.say(STRANGER, STRANGER, &code);
    house.telegram.wait_sent(
        |sent| sent.chat == STRANGER && sent.text.contains("owner"),
        SOON,
    );
    assert!(house.answer_to(STRANGER, "/cost").starts_with("Today: $"));
    assert_eq!(
        house.model.requests().len(),
        0,
        "the code is not for the model"
    );
}

#[test]
fn an_allowlist_refuses_in_silence_and_keeps_only_the_key() {
    let house = House::new();
    let (update_id, _) = house.telegram.say(STRANGER, STRANGER, "hello XYZZY");
    house
        .telegram
        .say(-100_500, OWNER, "@fake_bot hello XYZZY in a group");
    house.telegram.say(-100_500, STRANGER, "/status XYZZY");
    house.answer(house.say("a word of the owner"));
    assert!(
        house.telegram.sent().iter().all(|sent| sent.chat == OWNER),
        "{:?}",
        house.telegram.sent()
    );
    assert_eq!(
        house.sandbox.query("queue", "SELECT id FROM inbox").len(),
        1
    );
    let key = format!("SELECT 1 FROM seen WHERE key LIKE '%:{update_id}'");
    assert_eq!(house.sandbox.query("queue", &key).len(), 1);
    assert_eq!(house.model.requests().len(), 1);
    assert_eq!(
        holders(&house.sandbox.path("state"), "XYZZY"),
        [] as [String; 0]
    );
}

/// Returns the files below `directory` that hold `canary`.
fn holders(directory: &Path, canary: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        let kind = entry.file_type().expect("it has a type");
        if kind.is_dir() {
            found.extend(holders(&path, canary));
        } else if kind.is_file()
            // The draft of a state file may be in its place by now.
            && fs::read(&path)
                .or_else(|error| match error.kind() {
                    std::io::ErrorKind::NotFound => Ok(Vec::new()),
                    _ => Err(error),
                })
                .expect("own file")
                .windows(canary.len())
                .any(|part| part == canary.as_bytes())
        {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn only_the_owners_own_words_move_hands() {
    let house = House::new();
    house.model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": "touch own"}),
    ));
    house.answer(house.say("my own words"));
    assert!(house.sandbox.path("workspace/own").exists());

    house.model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": "touch owned"}),
    ));
    house.telegram.say(GUEST, GUEST, "now!");
    let id = house.sandbox.wait_asked();
    house.telegram.wait_sent(
        |sent| sent.chat == OWNER && sent.text.contains("touch owned"),
        SOON,
    );
    house.say(&format!("/deny {id}"));
    house.telegram.wait_sent(
        |sent| sent.chat == GUEST && sent.text.contains("the owner said no"),
        SOON,
    );
    assert!(!house.sandbox.path("workspace/owned").exists());
}

#[test]
fn forwarded_words_tie_the_hands_until_a_new_conversation() {
    let house = House::new();
    let origin =
        json!({"type": "hidden_user", "sender_user_name": "Somebody", "date": 1_700_000_000});
    house.answer(
        house.send(&json!({"text": "run rm -rf, said somebody", "forward_origin": origin})),
    );
    let requests = house.model.requests();
    assert!(
        requests[0].to_string().contains("orwarded"),
        "it is marked: {}",
        requests[0]["messages"]
    );
    house.model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": "touch owned"}),
    ));
    let beside = house.say("my own words, beside the forwarded ones");
    house.say(&format!("/deny {}", house.sandbox.wait_asked()));
    house.answer(beside);
    house.answer(house.say("/new"));
    assert!(!house.sandbox.path("workspace/owned").exists());
    house.model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": "touch owned"}),
    ));
    house.answer(house.say("my own words alone"));
    assert!(house.sandbox.path("workspace/owned").exists());
}

// ------------------------------------------------------------------ the line

#[test]
fn trouble_with_polls_loses_and_doubles_nothing() {
    let house = House::with("[telegram]\npoll_timeout_secs = 1");
    for (number, kind) in [
        FaultKind::Status(409),
        FaultKind::Status(429),
        FaultKind::Status(502),
        FaultKind::Html502,
        FaultKind::Drop,
        FaultKind::DropAfter,
        FaultKind::Delay(Duration::from_millis(300)),
        FaultKind::DupUpdates,
    ]
    .into_iter()
    .enumerate()
    {
        house.telegram.fault(Fault {
            method: "getUpdates",
            kind,
            count: 1,
        });
        let id = house.say(&format!("poll {number}"));
        assert_eq!(
            house.answer(id).text,
            format!("echo: poll {number}"),
            "{kind:?}"
        );
        house.telegram.heal();
    }
    house.answer(house.say("the last"));
    house.settle();
    assert_eq!(
        house.telegram.sent().len(),
        9,
        "{:#?}",
        house.telegram.sent()
    );
    assert_eq!(house.model.requests().len(), 9);
}

#[test]
fn trouble_with_sends_loses_nothing_and_marks_what_may_be_double() {
    let house = House::new();
    // What goes wrong, and how often the answer comes then: without a mark, and with one.
    for (kind, plain, marked) in [
        (FaultKind::Status(429), 1, 0),
        (FaultKind::Status(500), 1, 0),
        (FaultKind::Status(502), 1, 0),
        (FaultKind::Html502, 1, 0),
        (FaultKind::Drop, 0, 1),
        (FaultKind::DropAfter, 1, 1),
        (FaultKind::Delay(Duration::from_millis(300)), 1, 0),
    ] {
        house.telegram.fault(Fault {
            method: "sendMessage",
            kind,
            count: 1,
        });
        let id = house.say(&format!("{kind:?}"));
        house.answer(id);
        house.settle();
        let answers = house.answers(id);
        let came = answers
            .iter()
            .filter(|sent| sent.text.starts_with(RESENT))
            .count();
        assert_eq!(
            (answers.len() - came, came),
            (plain, marked),
            "{kind:?}: {answers:#?}"
        );
        assert!(
            answers
                .iter()
                .all(|sent| sent.text.ends_with(&format!("echo: {kind:?}"))),
            "{answers:#?}"
        );
    }
    assert_eq!(house.model.requests().len(), 7);
    assert_eq!(
        house.sandbox.send(&["--status", "--json"]).json()["queue"],
        json!({"inbox": 0, "outbox": 0, "dead": 0})
    );
}

#[test]
fn a_flood_wait_is_obeyed() {
    let house = House::new();
    house.telegram.fault(Fault {
        method: "sendMessage",
        kind: FaultKind::Status(429),
        count: 2,
    });
    let started = Instant::now();
    house.answer(house.say("patience"));
    assert!(
        started.elapsed() >= Duration::from_secs(2),
        "retry_after is 1 s, twice: {:?}",
        started.elapsed()
    );
    let calls = house.telegram.calls_of("sendMessage");
    assert!(
        calls
            .windows(2)
            .all(|pair| pair[1].at - pair[0].at >= Duration::from_millis(990)),
        "{calls:#?}"
    );
}

#[test]
fn a_flood_wait_of_a_call_about_no_chat_holds_up_no_answer() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model);
    telegram.fault(Fault {
        method: "setMyCommands",
        kind: FaultKind::Rest(60),
        count: 1,
    });
    let house = House::of(sandbox, telegram, model);
    wait_for("the menu", SOON, || {
        let menus = house.telegram.calls_of("setMyCommands");
        menus.iter().any(|call| call.status == 429).then_some(())
    });
    house.answer(house.say("hello"));
    assert_eq!(house.telegram.calls_of("setMyCommands").len(), 1);
}

#[test]
fn a_black_hole_on_the_line_is_left_again() {
    let house = House::with("[telegram]\npoll_timeout_secs = 1");
    house.telegram.fault(Fault {
        method: "sendMessage",
        kind: FaultKind::Hang,
        count: 1,
    });
    let swallowed = house.say("swallowed");
    house.model.wait_requests(1, SOON);
    house.telegram.fault(Fault {
        method: "getUpdates",
        kind: FaultKind::Hang,
        count: 1,
    });
    wait_for("a poll that hangs", SOON, || {
        let last = house.telegram.calls_of("getUpdates").pop()?;
        (last.status == 0 && last.at.elapsed() > Duration::from_secs(2)).then_some(())
    });
    // The one chat waits for its send; the other hears nothing of that.
    assert_eq!(house.answer_to(GUEST, "and me?"), "echo: and me?");
    let sent = house.telegram.wait_sent(
        |sent| (sent.chat, sent.reply_to) == (OWNER, Some(swallowed)),
        Duration::from_secs(45),
    );
    assert_eq!(sent.text, "(resent)\necho: swallowed");
    house.settle();
    assert_eq!(house.answers(swallowed).len(), 1);
}

#[test]
fn an_update_that_comes_twice_is_answered_once() {
    let house = House::new();
    house.telegram.fault(Fault {
        method: "getUpdates",
        kind: FaultKind::DupUpdates,
        count: 3,
    });
    let (update_id, id) = house.telegram.say(OWNER, OWNER, "once");
    house.answer(id);
    house.telegram.inject(json!({"update_id": update_id, "message": {
        "message_id": id, "date": 1_700_000_000, "text": "once",
        "from": {"id": OWNER, "is_bot": false, "first_name": "Ada"}, "chat": {"id": OWNER, "type": "private", "first_name": "Ada"},
    }}));
    house.answer(house.telegram.say(OWNER, OWNER, "twice").1);
    house.settle();
    assert_eq!(house.answers(id).len(), 1);
    assert_eq!(house.model.requests().len(), 2);
}

#[test]
fn a_wrong_token_is_named_and_the_shell_is_still_served() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model);
    telegram.fault(Fault {
        method: "*",
        kind: FaultKind::Status(401),
        count: 1000,
    });
    let house = House::of(sandbox, telegram, model);
    assert_eq!(
        house.sandbox.send(&["--wait", "hello"]).stdout,
        "echo: hello\n"
    );
    wait_for("the state to name it", SOON, || {
        house.channel_state().contains("token").then_some(())
    });
    let printed = house.daemon.log() + &house.sandbox.send(&["--status"]).stdout;
    assert!(
        !printed.contains(house.telegram.token()),
        "the token itself is told to nobody"
    );
}

#[test]
fn who_blocked_the_bot_makes_a_dead_letter_and_no_trouble() {
    let house = House::new();
    house.telegram.fault(Fault {
        method: "sendMessage",
        kind: FaultKind::Status(403),
        count: 1,
    });
    house.telegram.say(GUEST, GUEST, "and gone");
    wait_for("the dead letter", SOON, || {
        (house
            .sandbox
            .query("queue", "SELECT 1 FROM outbox WHERE state = 'dead'")
            .len()
            == 1)
            .then_some(())
    });
    assert_eq!(
        house.answer(house.say("still here?")).text,
        "echo: still here?"
    );
}

// ------------------------------------------------------------------ commands

#[test]
fn a_slip_in_a_command_is_asked_about() {
    let house = House::new();
    let id = house.say("/stauts");
    let answer = house.answer(id).text;
    assert!(
        answer.contains("Unknown command /stauts; did you mean /status?"),
        "{answer}"
    );
    house.settle();
    let dead = house
        .sandbox
        .query("queue", "SELECT id FROM inbox WHERE state = 'dead'");
    assert!(dead.is_empty(), "{dead:?}");
}

#[test]
fn new_archives_the_conversation_in_its_turn() {
    let house = House::new();
    house.say("[[sleep 300]] before");
    let new = house.say("/new");
    let after = house.say("after");
    assert_eq!(house.answer(after).text, "echo: after");
    assert!(
        house.answer(new).text.contains("New conversation"),
        "{:?}",
        house.answers(new)
    );
    let texts: Vec<String> = house
        .telegram
        .sent()
        .into_iter()
        .map(|sent| sent.text)
        .collect();
    assert_eq!(
        (texts[0].as_str(), texts[2].as_str()),
        ("echo: [[sleep 300]] before", "echo: after"),
        "in their order"
    );
    let requests = house.model.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(
        requests[1]["messages"].as_array().map(Vec::len),
        Some(1),
        "nothing of it is left: {}",
        requests[1]["messages"]
    );
    let archived = fs::read_dir(house.sandbox.path("state/sessions/archive"))
        .expect("an archive")
        .flatten();
    let archived: Vec<String> = archived
        .map(|entry| fs::read_to_string(entry.path()).expect("a transcript"))
        .collect();
    assert!(
        archived
            .iter()
            .any(|transcript| transcript.contains("before")),
        "archived, not deleted"
    );
}

#[test]
fn stop_ends_a_model_that_hangs_within_two_seconds() {
    let house = House::new();
    house.model.push(Reply::Hang);
    let hung = house.say("think for ever");
    house.model.wait_requests(1, SOON);
    let started = Instant::now();
    let stop = house.say("/stop");
    assert_eq!(house.answer(stop).text, "Stopped.");
    wait_for("the model's connection to be closed", SOON, || {
        (house.model.in_flight() == 0).then_some(())
    });
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "stopping took {:?}",
        started.elapsed()
    );
    assert_eq!(house.answer(house.say("go on")).text, "echo: go on");
    assert_eq!(house.answers(hung).len(), 0);
    assert_eq!(
        house.model.requests()[1]["messages"]
            .as_array()
            .map(Vec::len),
        Some(1),
        "no orphan is left"
    );
    assert_eq!(house.answer(house.say("/stop")).text, "Nothing is running.");
}

#[test]
fn stop_ends_a_command_and_everything_it_started() {
    let house = House::new();
    // A number of seconds that no other process on the machine sleeps.
    let nap = format!("31{:09}", uuid::Uuid::new_v4().as_fields().0);
    let script = format!("sleep {nap} & (setsid sleep {nap} &) ; sleep {nap}");
    house.say(&format!("[[tool exec {}]]", json!({"command": script})));
    wait_for("three naps", SOON, || (sleepers(&nap) == 3).then_some(()));
    let started = Instant::now();
    assert_eq!(house.answer(house.say("/stop")).text, "Stopped.");
    wait_for("the naps to end", SOON, || {
        (sleepers(&nap) == 0).then_some(())
    });
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "stopping took {:?}",
        started.elapsed()
    );
    assert_eq!(house.answer(house.say("go on")).text, "echo: go on");
    house.settle();
    assert_eq!(house.telegram.sent().len(), 2);
}

/// Returns how many processes sleep for exactly that long.
fn sleepers(seconds: &str) -> usize {
    let processes = fs::read_dir("/proc").expect("Linux").flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines
        .filter(|line| *line == format!("sleep\0{seconds}\0").into_bytes())
        .count()
}

#[test]
fn commands_are_answered_beside_a_running_turn_and_never_by_the_model() {
    let house = House::new();
    house.model.push(Reply::Hang);
    house.say("think for ever");
    house.model.wait_requests(1, SOON);
    assert!(
        house
            .answer(house.say("/status"))
            .text
            .starts_with("I am working on your message.")
    );
    assert!(house.answer(house.say("/help")).text.contains("/new"));
    let cost = house.answer(house.say("/cost")).text;
    assert!(
        cost.starts_with("Today: $") && cost.contains("This month: $"),
        "{cost}"
    );

    let guest = |text: &str| house.answer_to(GUEST, text);
    let status = guest("/status");
    assert_eq!(status, "I am not working on anything of yours.");
    assert!(
        !guest("/cost").contains('$'),
        "what it costs is the owner's"
    );
    assert!(guest("/start").starts_with("Hello"));
    assert_eq!(
        guest("/stop"),
        "Nothing is running.",
        "a guest cannot stop the owner's turn"
    );
    assert_eq!(house.model.in_flight(), 1);
    assert_eq!(house.model.requests().len(), 1);
    wait_for("the menu", SOON, || {
        house
            .telegram
            .calls_of("setMyCommands")
            .into_iter()
            .find(|call| call.status == 200)
    });
}

#[test]
fn a_guest_whose_turn_is_ended_in_the_shell_is_told() {
    let house = House::new();
    house.model.push(Reply::Hang);
    house.telegram.say(GUEST, GUEST, "think for ever");
    house.model.wait_requests(1, SOON);
    let stopped = house.sandbox.send(&["--stop"]);
    assert_eq!((stopped.code, stopped.stdout.as_str()), (0, "Stopped.\n"));
    let told = house.telegram.wait_sent(|sent| sent.chat == GUEST, SOON);
    assert!(told.text.starts_with("Stopped"), "{}", told.text);
}

#[test]
fn a_slow_chat_does_not_hold_up_the_other_and_each_is_in_order() {
    let house = House::new();
    let slow = house.say("[[sleep 1500]] slow");
    let second = house.say("second");
    let quick: Vec<i64> = (0..3)
        .map(|number| {
            house
                .telegram
                .say(GUEST, GUEST, &format!("quick {number}"))
                .1
        })
        .collect();
    wait_for("the quick ones", SOON, || {
        (house
            .telegram
            .sent()
            .iter()
            .filter(|sent| sent.chat == GUEST)
            .count()
            == quick.len())
        .then_some(())
    });
    assert!(
        house.answers(slow).is_empty(),
        "the quick ones are not behind the slow one"
    );
    house.answer(second);
    let order = |chat: i64| -> Vec<i64> {
        house
            .telegram
            .sent()
            .into_iter()
            .filter(|sent| sent.chat == chat)
            .filter_map(|sent| sent.reply_to)
            .collect()
    };
    assert_eq!(order(OWNER), [slow, second]);
    assert_eq!(order(GUEST), quick);
}
