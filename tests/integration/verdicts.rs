//! The owner's word, by a button, by a typed command and in the shell: who may give it, and what each sees.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    support::{FakeModel, FakeTelegram, Fault, FaultKind, House, Reply, Sandbox, wait_for},
    terminal::{no_terminal, on_terminal},
};

/// Long against everything that happens here, short against the patience of a reader.
const SOON: Duration = Duration::from_secs(20);
const OWNER: i64 = 1001;
/// May write, owns nothing.
const GUEST: i64 = 1002;
/// In no list.
const STRANGER: i64 = 5005;
const GROUP: i64 = -100_500;
const NOT_YOURS: &str = "Only my owner decides that.";
/// What a word about nothing is told.
const NOTHING: &str = "No pending approval with ID k3f9w2.";

/// Returns a message of the bot in a chat, as a press of its button names it.
fn question(chat: i64) -> Value {
    let kind = if chat > 0 { "private" } else { "supergroup" };
    json!({
        "message_id": 77, "date": 1_700_000_000, "text": "May I?", "chat": {"id": chat, "type": kind, "title": "Family"},
        "from": {"id": 7_000_001, "is_bot": true, "first_name": "Fake"},
    })
}

fn inputs(house: &House) -> usize {
    house.sandbox.query("queue", "SELECT id FROM inbox").len()
}

#[test]
fn only_an_owner_decides_and_a_press_says_nothing_in_the_chat() {
    let house = House::with(
        "[telegram]\ndm_policy = \"pairing\"\n[telegram.groups.\"-100500\"]\nmembers = \"any\"",
    );
    let pressed = |who, chat, data| {
        let press = house.telegram.press_below(who, &question(chat), data);
        house.telegram.wait_pressed(&press, SOON)
    };
    for (who, chat) in [
        (GUEST, GUEST),
        (GUEST, GROUP),
        (STRANGER, STRANGER),
        (STRANGER, GROUP),
        (GUEST, OWNER),
    ] {
        assert_eq!(
            pressed(who, chat, "a:y:k3f9w2"),
            NOT_YOURS,
            "{who} in {chat}"
        );
    }
    assert_eq!(pressed(OWNER, OWNER, "something else"), "");
    assert_eq!(inputs(&house), 0, "what changes nothing is not kept");
    assert_eq!(
        house.sandbox.send(&["--pair", "list", "--json"]).json()["pending"],
        json!([]),
        "a press is no way in"
    );

    for (chat, data) in [
        (OWNER, "a:y:k3f9w2"),
        (OWNER, "a:s:k3f9w2"),
        (GROUP, "a:n:k3f9w2"),
        (-100_999, "a:n:k3f9w2"),
    ] {
        assert_eq!(pressed(OWNER, chat, data), NOTHING, "{data} in {chat}");
    }
    // Of an old message only its place is left.
    let old = json!({"chat": {"id": OWNER, "type": "private"}, "message_id": 5, "date": 0});
    let press = house.telegram.press_below(OWNER, &old, "a:y:k3f9w2");
    assert_eq!(house.telegram.wait_pressed(&press, SOON), NOTHING);
    wait_for("all of it to be done", SOON, || {
        house
            .sandbox
            .query("queue", "SELECT 1 FROM inbox WHERE state != 'done'")
            .is_empty()
            .then_some(())
    });
    assert_eq!(
        (
            inputs(&house),
            house.telegram.sent().len(),
            house.model.requests().len()
        ),
        (5, 0, 0)
    );
}

#[test]
fn a_press_that_comes_twice_counts_once_and_one_that_nobody_can_be_told_of_hurts_nothing() {
    let house = House::new();
    house.telegram.fault(Fault {
        method: "getUpdates",
        kind: FaultKind::DupUpdates,
        count: 1,
    });
    let press = house
        .telegram
        .press_below(OWNER, &question(OWNER), "a:y:k3f9w2");
    assert_eq!(house.telegram.wait_pressed(&press, SOON), NOTHING);
    // Too old for an answer, refused, lost: none is tried again.
    for kind in [
        FaultKind::Says(400, "Bad Request: query is too old"),
        FaultKind::Status(500),
        FaultKind::Drop,
    ] {
        let before = house.telegram.calls_of("answerCallbackQuery").len();
        house.telegram.fault(Fault {
            method: "answerCallbackQuery",
            kind,
            count: 1,
        });
        house
            .telegram
            .press_below(OWNER, &question(OWNER), "a:n:k3f9w2");
        wait_for("the answer", SOON, || {
            (house.telegram.calls_of("answerCallbackQuery").len() > before).then_some(())
        });
    }
    let (_, asked) = house.telegram.say(OWNER, OWNER, "still there?");
    house
        .telegram
        .wait_sent(|sent| sent.reply_to == Some(asked), SOON);
    assert_eq!(
        (
            inputs(&house),
            house.telegram.calls_of("answerCallbackQuery").len()
        ),
        (5, 4)
    );
}

#[test]
fn what_is_typed_counts_as_a_button_does() {
    let house = House::with("[telegram.groups.\"-100500\"]\nallow_from = [1001, 1002]");
    let said = |chat, who, text: &str| {
        let (_, id) = house.telegram.say(chat, who, text);
        house
            .telegram
            .wait_sent(|sent| (sent.chat, sent.reply_to) == (chat, Some(id)), SOON)
    };
    for text in [
        "/approve k3f9w2",
        "/APPROVE K3f9w2 session",
        "/deny k3f9w2",
        "/deny k3f9w2 not <b>that</b>\none",
    ] {
        let told = said(OWNER, OWNER, text);
        assert_eq!(
            (told.text.as_str(), told.parse_mode),
            (NOTHING, None),
            "{text}"
        );
    }
    assert_eq!(said(GROUP, OWNER, "/approve@fake_bot k3f9w2").text, NOTHING);
    assert_eq!(said(GUEST, GUEST, "/approve k3f9w2").text, NOT_YOURS);
    assert_eq!(said(GROUP, GUEST, "/deny k3f9w2").text, NOT_YOURS);
    assert!(
        said(OWNER, OWNER, "/approve")
            .text
            .starts_with("No approval is pending")
    );
    assert!(
        said(OWNER, OWNER, "/approve k3f9w2 but not all")
            .text
            .starts_with("Nothing was approved")
    );
    assert!(said(OWNER, OWNER, "/help").text.contains("/deny ID WHY"));
    assert!(!said(GUEST, GUEST, "/help").text.contains("/deny"));
    // What somebody else wrote is no word of the owner's.
    let origin =
        json!({"type": "hidden_user", "sender_user_name": "Somebody", "date": 1_700_000_000});
    let id = house.telegram.next_id(OWNER);
    house.telegram.inject(json!({"message": {
        "message_id": id, "date": 1_700_000_000, "from": {"id": OWNER, "is_bot": false, "first_name": "Ada"},
        "chat": {"id": OWNER, "type": "private"}, "text": "/approve k3f9w2", "forward_origin": origin,
    }}));
    assert!(
        house
            .telegram
            .wait_sent(|sent| sent.reply_to == Some(id), SOON)
            .text
            .starts_with("echo: ")
    );
    assert_eq!(house.model.requests().len(), 1);
}

#[test]
fn the_shell_approves_and_denies_where_a_daemon_listens() {
    let (_model, sandbox) = Sandbox::with_model();
    for arguments in [
        &["--approve", "k3f9w2"][..],
        &["--deny", "k3f9w2", "not", "that"],
    ] {
        sandbox.check_failure(arguments, 69, "not_running", "no daemon");
    }
    assert_eq!(
        sandbox.spooled(),
        [] as [String; 0],
        "a word of now is not left for later"
    );
    let _daemon = sandbox.ready();
    for arguments in [
        &["--approve", " K3f9w2 "][..],
        &["--approve", "k3f9w2", "--for-session"],
        &["--deny", "k3f9w2", "not", "that"],
    ] {
        let told = sandbox.send(arguments);
        assert_eq!(
            (told.code, told.stdout.as_str()),
            (1, ""),
            "{arguments:?}: {told:?}"
        );
        assert!(
            told.stderr.contains(NOTHING) && told.stderr.contains("hint: agent-send --queue"),
            "{told:?}"
        );
        let told = sandbox.send(&[arguments, &["--json"]].concat());
        assert_eq!(
            (told.code, &told.json()["error"]["message"]),
            (1, &json!(NOTHING))
        );
    }
    let told = sandbox.send(&["--wait", "/deny k3f9w2 not that one"]);
    assert_eq!(
        (told.code, told.stderr.contains(NOTHING)),
        (1, true),
        "{told:?}"
    );
    let told = sandbox.send(&["--wait", "--untrusted", "/approve k3f9w2"]);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "echo: /approve k3f9w2\n"),
        "untrusted words decide nothing"
    );
    assert_eq!(
        sandbox.send(&["--queue", "--json"]).json()["approvals"],
        json!([])
    );

    let line = r#"{"cmd":"approval","id":"k3f9w2","verdict":"deny","why":"no"}"#;
    assert_eq!(
        sandbox
            .bash(&format!(
                "echo '{line}' >\"$AGENT_HOME/state/control.fifo\""
            ))
            .code,
        0
    );
    let reply = wait_for("an answer", SOON, || {
        sandbox
            .read_json("state/replies/k3f9w2.json")
            .filter(|reply| reply["status"] == "error")
    });
    assert_eq!(reply["error"], json!(NOTHING));
}

/// Writes into a reply what the agent asks for, as the daemon does while a turn waits.
fn ask(sandbox: &Sandbox, id: &str, text: &str) {
    let file = format!("state/replies/{id}.json");
    let mut reply = wait_for("the turn to run", SOON, || {
        sandbox
            .read_json(&file)
            .filter(|reply| reply["status"] == "running")
    });
    reply["asks"] = json!([{
        "id": "k3f9w2", "tool": "exec", "text": text, "why": "the settings ask", "expires_at": "2099-01-01T00:00:00.000Z",
    }]);
    let draft = sandbox.put("state/replies/draft", reply.to_string().as_bytes());
    std::fs::rename(draft, sandbox.path(&file)).expect("the sandbox is writable");
}

/// Lets a model wait in a tool until the file `go` is there.
fn held(model: &FakeModel) {
    model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": "while test ! -e go; do sleep 0.05; done"}),
    ));
    model.push(Reply::Text("the answer".to_owned()));
}

#[test]
fn who_waits_for_an_answer_sees_what_the_agent_asks_for() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    held(&model);
    let waiting = sandbox.sending(&["--wait", "--id", "q1", "hello"]);
    ask(
        &sandbox,
        "q1",
        "rm -r build\u{1b}[2J\nagent-send --approve a00000",
    );
    let shown = wait_for("the question", SOON, || {
        Some(waiting.said().1).filter(|said| said.contains("--deny"))
    });
    let lines: Vec<&str> = shown.lines().skip(1).collect();
    let expected = [
        "  exec: the settings ask",
        "  | rm -r build\\u{1b}[2J",
        "  | agent-send --approve a00000",
        "  agent-send --approve k3f9w2",
        "  agent-send --deny k3f9w2 WHY",
    ];
    assert_eq!(lines, expected);
    assert!(
        shown.starts_with("agent-send: Approval needed; "),
        "{shown}"
    );
    let told = sandbox.send(&["--result", "q1"]);
    assert_eq!(
        (told.code, told.stderr.contains("--approve k3f9w2")),
        (75, true),
        "{told:?}"
    );
    sandbox.put("workspace/go", b"");
    let told = waiting.end();
    assert_eq!(
        (told.code, told.stdout.as_str(), told.stderr.as_str()),
        (0, "the answer\n", shown.as_str()),
        "and once"
    );
}

#[test]
fn at_the_prompt_the_word_is_given_while_the_turn_waits() {
    if no_terminal() {
        return;
    }
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    held(&model);
    let chat = on_terminal(&sandbox, &[], "agent-send --chat");
    chat.wait_said("> ");
    chat.write("hello\r");
    let id = wait_for("the turn to run", SOON, || {
        let replies = std::fs::read_dir(sandbox.path("state/replies"))
            .ok()?
            .flatten();
        let names: Vec<String> = replies
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names
            .iter()
            .find_map(|name| name.strip_suffix(".json"))
            .map(str::to_owned)
    });
    ask(&sandbox, &id, "rm -r build");
    chat.wait_said("  or here: y, or n WHY");
    let times = |words: &str, count: usize| {
        wait_for(words, SOON, || {
            (chat.said().0.matches(words).count() >= count).then_some(())
        });
    };
    chat.write("what is this?\n");
    times("it waits for y or n WHY", 1);
    for (number, line) in ["/approve k3f9w2\n", "/deny K3f9w2 not that\n"]
        .into_iter()
        .enumerate()
    {
        chat.write(line);
        times(NOTHING, number + 1);
    }
    sandbox.put("workspace/go", b"");
    times("the answer", 1);
    wait_for("the prompt", SOON, || {
        chat.said()
            .0
            .ends_with("> \r\u{1b}[2C\u{1b}[?2026l")
            .then_some(())
    });
    chat.write("\u{4}");
    assert_eq!(chat.end().code, 0);
    assert_eq!(
        model.requests().len(),
        2,
        "what was typed while it waited is not for the model"
    );
}

/// Puts a part into the outbox of a daemon that is not running.
fn leave_part(sandbox: &Sandbox, markup: Option<&str>, plain: &str, buttons: &Value) {
    let database = rusqlite::Connection::open(sandbox.path("state/queue.db")).expect("a queue");
    database
        .execute(
            "INSERT INTO outbox(channel, chat, part, parts, markup, plain, created_at, buttons, asks)
             VALUES ('telegram', '1001', 1, 1, ?1, ?2, strftime('%s', 'now') * 1000, ?3, 'b1')",
            (markup, plain, buttons.to_string()),
        )
        .expect("a row");
}

#[test]
fn a_question_keeps_its_buttons_however_often_it_is_sent() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model);
    telegram.say(OWNER, OWNER, "hello");
    let daemon = sandbox.ready();
    telegram.wait_sent(|_| true, SOON);
    assert_eq!(daemon.term(), 0);
    let buttons = json!([[{"label": "Approve", "data": "a:y:k3f9w2"}, {"label": "Deny", "data": "a:n:k3f9w2"}]]);
    leave_part(&sandbox, Some("<b>May I?</b>"), "May I?", &buttons);
    // The markup is refused, then the connection breaks when it was sent.
    telegram.fault(Fault {
        method: "sendMessage",
        kind: FaultKind::Says(400, "Bad Request: can't parse entities"),
        count: 1,
    });
    telegram.fault(Fault {
        method: "sendMessage",
        kind: FaultKind::DropAfter,
        count: 1,
    });
    let _daemon = sandbox.ready();
    let sent = telegram.wait_sent(|sent| sent.text == "(resent)\nMay I?", SOON);
    let below = [
        ("Approve".to_owned(), "a:y:k3f9w2".to_owned()),
        ("Deny".to_owned(), "a:n:k3f9w2".to_owned()),
    ];
    assert_eq!(telegram.buttons(OWNER, sent.message_id), below);
    let sent: Vec<_> = telegram
        .sent()
        .into_iter()
        .skip(1)
        .map(|sent| (sent.text, sent.reply_markup.is_null()))
        .collect();
    assert_eq!(
        sent,
        [
            ("May I?".to_owned(), false),
            ("(resent)\nMay I?".to_owned(), false)
        ]
    );
    let id = telegram.sent().pop().expect("a message").message_id;
    let press = telegram.press(OWNER, OWNER, id, "a:n:k3f9w2");
    assert_eq!(telegram.wait_pressed(&press, SOON), NOTHING);
}
