//! Channels that are processes of their own, played by the tests: what comes in through files, what goes out through them,
//! and what neither side's death loses or doubles.

mod attacks;
mod continued;
mod deaths;
mod kills;
mod linked;
mod many;
mod memories;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rusqlite::types::Value as Sql;
use serde_json::{Value, json};

use crate::support::{Daemon, FakeModel, Reply, Sandbox, Schema, wait_for};

/// Long against everything that happens here, short against the patience of a reader.
const SOON: Duration = Duration::from_secs(20);

/// Ada owns the agent, Bob may talk.
const SMS: &str = r#"
[channels.sms]
enabled = true
owner = ["ada"]
allow_from = ["bob"]
[channels.sms.groups."club"]
allow_from = ["ada", "bob"]
"#;

/// The process of a channel, in the hands of a test.
struct Wire<'a> {
    sandbox: &'a Sandbox,
    channel: &'static str,
    count: AtomicUsize,
    /// What was put, by id.
    lines: Mutex<BTreeMap<String, Value>>,
}

impl<'a> Wire<'a> {
    fn new(sandbox: &'a Sandbox, channel: &'static str) -> Self {
        Self {
            sandbox,
            channel,
            count: AtomicUsize::new(0),
            lines: Mutex::default(),
        }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.sandbox
            .path(&format!("state/channels/{}/{below}", self.channel))
    }

    /// Leaves a line in the channel's own spool, and returns its id.
    fn put(&self, fields: &Value) -> String {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let id = format!("l{number:06}-{}", uuid::Uuid::new_v4().simple());
        self.put_as(&id, fields);
        id
    }

    fn put_as(&self, id: &str, fields: &Value) {
        self.put_in(&self.path("spool"), id, fields);
    }

    fn put_in(&self, spool: &std::path::Path, id: &str, fields: &Value) {
        let mut line = json!({"v": 1, "id": id, "channel": self.channel});
        let all = line.as_object_mut().expect("an object");
        all.extend(fields.as_object().expect("fields").clone());
        let mut lines = self.lines.lock().expect("no panic");
        lines.insert(id.to_owned(), line.clone());
        let draft = spool.join(format!("tmp/{id}.json"));
        write(&draft, line.to_string());
        fs::rename(draft, spool.join(format!("new/{id}.json"))).expect("a line");
    }

    /// Says something in the direct chat with `sender`.
    fn say(&self, sender: &str, message_id: &str, text: &str) -> String {
        self.put(&said(sender, message_id, text))
    }

    /// Says something and waits until it is taken in.
    fn says(&self, sender: &str, message_id: &str, text: &str) {
        let id = self.say(sender, message_id, text);
        self.wait_taken(&id);
    }

    fn wait_taken(&self, id: &str) {
        let file = self.path(&format!("spool/new/{id}.json"));
        wait_for("a line to be taken in", SOON, || {
            (!file.exists()).then_some(())
        });
    }

    /// Returns why a line was refused.
    fn refusal(&self, id: &str) -> Option<String> {
        self.wait_taken(id);
        let Ok(reply) = fs::read(self.path(&format!("replies/{id}.json"))) else {
            // What the daemon takes, the schema takes.
            let lines = self.lines.lock().expect("no panic");
            let trouble = lines
                .get(id)
                .and_then(|line| Schema::read("channel/line").trouble(line));
            assert_eq!(trouble, None);
            return None;
        };
        let reply: Value = serde_json::from_slice(&reply).expect("json");
        assert_eq!(reply["status"], "error");
        Some(reply["error"].as_str().expect("why").to_owned())
    }

    /// Returns what is offered, the oldest first.
    fn offered(&self) -> Vec<Value> {
        self.messages("out")
    }

    fn messages(&self, dir: &str) -> Vec<Value> {
        let Ok(entries) = fs::read_dir(self.path(dir)) else {
            return Vec::new();
        };
        let mut names: Vec<PathBuf> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "json"))
            .collect();
        names.sort();
        names
            .iter()
            .filter_map(|path| fs::read(path).ok())
            .map(|bytes| {
                let message = serde_json::from_slice(&bytes).expect("whole json");
                assert_eq!(Schema::read("channel/message").trouble(&message), None);
                message
            })
            .collect()
    }

    /// Waits for a message that says `words`, and claims it.
    fn claim(&self, words: &str) -> Value {
        let message = wait_for(words, SOON, || {
            let says = |one: &Value| {
                one["text"]
                    .as_str()
                    .is_some_and(|text| text.contains(words))
            };
            self.offered().into_iter().find(says)
        });
        let name = format!("{}.json", message["key"].as_str().expect("a key"));
        fs::rename(
            self.path(&format!("out/{name}")),
            self.path(&format!("sending/{name}")),
        )
        .expect("claimed");
        message
    }

    fn acknowledge(&self, message: &Value, message_id: &str) -> String {
        self.put(&json!({"cmd": "delivered", "key": message["key"], "message_id": message_id}))
    }

    /// Waits for a message that says `words`, and has it arrive.
    fn deliver(&self, words: &str) -> Value {
        let message = self.claim(words);
        let id = self.acknowledge(
            &message,
            &format!("m-{}", message["key"].as_str().expect("key")),
        );
        self.wait_taken(&id);
        message
    }
}

pub(super) fn write(path: impl AsRef<std::path::Path>, text: impl AsRef<[u8]>) {
    use std::io::Write;
    file(path.as_ref())
        .write_all(text.as_ref())
        .expect("written");
}

fn file(path: &std::path::Path) -> fs::File {
    let mut options = fs::OpenOptions::new();
    let open = options.write(true).create(true).truncate(true).open(path);
    open.expect("a file to write")
}

fn said(sender: &str, message_id: &str, text: &str) -> Value {
    json!({"cmd": "user", "chat": format!("dm-{sender}"), "message_id": message_id, "text": text,
        "sender": {"id": sender, "name": format!("{sender} of sms")}})
}

pub(super) fn count(sandbox: &Sandbox, sql: &str) -> i64 {
    match sandbox
        .query("queue", sql)
        .first()
        .and_then(|row| row.first())
    {
        Some(Sql::Integer(count)) => *count,
        other => panic!("{other:?}"),
    }
}

fn wait_sent(sandbox: &Sandbox, sent: i64) {
    let sql = "SELECT count(*) FROM outbox WHERE state = 'sent'";
    wait_for("what was sent to be on record", SOON, || {
        (count(sandbox, sql) == sent).then_some(())
    });
}

fn start() -> (FakeModel, Sandbox) {
    let (model, sandbox) = Sandbox::with_model();
    (model, sandbox.config(SMS))
}

#[test]
fn a_message_comes_in_and_its_answer_goes_out_through_files() {
    let (model, sandbox) = start();
    let _daemon = sandbox.ready();
    let wire = Wire::new(&sandbox, "sms");
    wire.says("ada", "1", "[[say The disk is **half** full.]]");
    let message = wire.claim("half");
    assert_eq!(
        (&message["chat"], &message["reply_to"], &message["resent"]),
        (&json!("dm-ada"), &json!("1"), &json!(false))
    );
    assert_eq!(message["text"], "The disk is **half** full.");
    for field in ["thread", "plain", "files", "reaction", "edit_of", "buttons"] {
        assert!(message.get(field).is_some(), "{field}");
    }
    assert_eq!(
        count(
            &sandbox,
            "SELECT count(*) FROM outbox WHERE state = 'sending'"
        ),
        1
    );
    let receipt = wire.acknowledge(&message, "m1");
    assert_eq!(wire.refusal(&receipt), None);
    wait_sent(&sandbox, 1);
    wait_for("its file to go", SOON, || {
        wire.messages("sending").is_empty().then_some(())
    });
    // The model was told who spoke and where, and the owner's words are the owner's.
    let request = model.requests().pop().expect("a request").to_string();
    assert!(
        request.contains("ada of sms on sms") && !request.contains("not the owner"),
        "{request}"
    );
    let keys = sandbox.query("queue", "SELECT session_key FROM inbox");
    assert_eq!(keys, [[Sql::Text("agent:agent:sms:dm:ada".into())]]);
    let status = sandbox.send(&["--status", "--json"]).json();
    let state = &status["channels"][0];
    assert_eq!(
        (&state["name"], &state["state"]),
        (&json!("sms"), &json!("ok"))
    );
}

#[test]
fn an_answer_is_written_where_no_voice_message_can_go() {
    let (_model, sandbox) = start();
    let spoken = "[agent]\nvoice = \"always\"\n[media]\nspeak = [\"sh\", \"-c\", \"printf OggS >$1\", \"sh\", \"{out}\"]\n";
    let sandbox = sandbox.config(spoken);
    let _daemon = sandbox.ready();
    let wire = Wire::new(&sandbox, "sms");
    wire.says("ada", "1", "[[say The disk is half full.]]");
    let message = wire.claim("half");
    assert_eq!(message["text"], "The disk is half full.");
    assert!(
        message["files"].as_array().is_none_or(Vec::is_empty),
        "{message}"
    );
}

#[test]
fn the_same_message_is_one_and_other_words_under_its_id_are_an_edit_or_refused() {
    let (model, sandbox) = start();
    let _daemon = sandbox.ready();
    let wire = Wire::new(&sandbox, "sms");
    wire.says("ada", "1", "[[say one]]");
    wire.deliver("one");
    let again = wire.say("ada", "1", "[[say one]]");
    assert_eq!(wire.refusal(&again), None);
    let other = wire.say("ada", "1", "[[say other]]");
    let why = wire.refusal(&other).expect("refused");
    assert!(
        why.contains("was sent before with a different text"),
        "{why}"
    );
    assert_eq!(model.requests().len(), 1);
    let edit = || {
        let mut edit = said("ada", "1", "[[say two]]");
        edit["edited"] = json!(true);
        edit
    };
    for _ in 0..2 {
        let id = wire.put(&edit());
        assert_eq!(wire.refusal(&id), None);
    }
    wire.deliver("two");
    wait_sent(&sandbox, 2);
    assert_eq!(model.requests().len(), 2);
    assert!(
        model.requests()[1]
            .to_string()
            .contains("it replaces what they wrote before")
    );
    // The same id in another chat is another message.
    wire.says("bob", "1", "[[say three]]");
    wire.deliver("three");
}

#[test]
fn the_common_spool_and_the_fifo_take_lines_of_channels_too() {
    let (_model, sandbox) = start();
    let _daemon = sandbox.ready();
    let wire = Wire::new(&sandbox, "sms");
    wire.put_in(
        &sandbox.path("state/spool"),
        "c1",
        &said("ada", "1", "[[say one]]"),
    );
    let message = wire.claim("one");
    let receipt = json!({"cmd": "delivered", "key": message["key"], "message_id": "x"});
    wire.put_in(&sandbox.path("state/spool"), "c2", &receipt);
    wait_sent(&sandbox, 1);
    let line = json!({"cmd": "user", "channel": "sms", "chat": "c", "message_id": 2, "text": "[[say two]]", "sender": {"id": "bob"}});
    write(sandbox.path("state/control.fifo"), format!("{line}\n"));
    wire.deliver("two");
    // A channel that nobody switched on is told so.
    let mut elsewhere = said("ada", "1", "hi");
    elsewhere["channel"] = json!("matrix");
    wire.put_in(&sandbox.path("state/spool"), "c3", &elsewhere);
    let reply = wait_for("a refusal", SOON, || {
        sandbox.read_json("state/replies/c3.json")
    });
    assert!(
        reply["error"]
            .as_str()
            .is_some_and(|why| why.contains("[channels.matrix]")),
        "{reply}"
    );
    wait_for("the line to go", SOON, || {
        sandbox.spooled().is_empty().then_some(())
    });
}

#[test]
fn a_stranger_is_let_in_by_a_code_and_whoever_sends_the_owner_code_owns() {
    let (model, sandbox) = start();
    let sandbox = sandbox.config("[channels.irc]\nenabled = true");
    let _daemon = sandbox.ready();
    let wire = Wire::new(&sandbox, "sms");
    wire.says("eve", "1", "let me in");
    // The owner is told, too, though they were never heard: their id is the chat.
    let notice = wire.deliver("eve of sms (id sms:eve) asks");
    assert_eq!(notice["chat"], "ada");
    let told = wire.deliver("agent-send --pair approve");
    assert_eq!(told["chat"], "dm-eve");
    let code = told["text"]
        .as_str()
        .expect("text")
        .lines()
        .last()
        .expect("a line")
        .trim();
    let code = code.rsplit(' ').next().expect("a code");
    assert_eq!(model.requests().len(), 0);
    let listed = sandbox.send(&["--pair", "list"]).stdout;
    assert!(listed.contains("asks     sms:eve"), "{listed}");
    let approved = sandbox.send(&["--pair", "approve", code, "--json"]).json();
    assert_eq!(approved["approved"], "sms:eve");
    wire.says("eve", "2", "[[say Welcome.]]");
    wire.deliver("Welcome.");
    assert!(model.requests()[0].to_string().contains("not the owner"));
    assert_eq!(sandbox.send(&["--pair", "revoke", "sms:eve"]).code, 0);
    wire.says("eve", "3", "[[say still?]]");
    // Without an owner on it a channel has one when the code comes.
    let code = sandbox.send(&["--pair", "owner"]).stdout.trim().to_owned();
    let irc = Wire::new(&sandbox, "irc");
    irc.says("root", "1", &code);
    irc.deliver("you are my owner now");
    irc.says("root", "2", "/status");
    irc.deliver("I am not working");
    assert_eq!(model.requests().len(), 1);
    // That number on another channel is nobody.
    irc.says("ada", "3", "[[say leak]]");
    irc.deliver("agent-send --pair approve");
    assert_eq!(model.requests().len(), 1);
}

#[test]
fn a_group_is_heard_when_it_is_listed_and_answered_when_it_speaks_to_the_agent() {
    let (model, sandbox) = start();
    let sandbox = sandbox.config("[channels.sms]\naliases = [\"Robo\"]");
    let _daemon = sandbox.ready();
    let wire = Wire::new(&sandbox, "sms");
    let group = |sender: &str, id: &str, text: &str, chat: &str| {
        let mut line = said(sender, id, text);
        line["chat"] = json!(chat);
        line["group"] = json!("The Club");
        line
    };
    wire.put(&group("bob", "1", "pizza on friday?", "club"));
    wire.put(&group("eve", "2", "robo, tell me everything", "club"));
    wire.put(&group("ada", "3", "robo, hello", "elsewhere"));
    let mut last = group("bob", "4", "well?", "club");
    // Whoever does not say that it is a group is not believed where the settings know better.
    last.as_object_mut().expect("fields").remove("group");
    let id = wire.put(&last);
    wire.wait_taken(&id);
    assert_eq!(model.requests().len(), 0);
    wire.put(&group("ada", "5", "robo: [[say Friday it is.]]", "club"));
    let message = wire.deliver("Friday it is.");
    assert_eq!(
        (&message["chat"], &message["reply_to"]),
        (&json!("club"), &json!("5"))
    );
    let request = model.requests()[0].to_string();
    assert!(
        request.contains("pizza on friday?") && !request.contains("everything"),
        "{request}"
    );
    // An answer to the agent's own words speaks to it.
    let mut reply = group("bob", "6", "[[say Good.]]", "club");
    reply["reply_to"] =
        json!({"message_id": format!("m-{}", message["key"].as_str().expect("key"))});
    wire.put(&reply);
    wire.deliver("Good.");
    let request = model.requests()[1].to_string();
    assert!(request.contains("Friday it is."), "{request}");
    let keys = sandbox.query("queue", "SELECT DISTINCT session_key FROM inbox");
    assert_eq!(keys, [[Sql::Text("agent:agent:sms:group:club".into())]]);
}

#[test]
fn the_words_of_a_quote_are_the_owners_only_where_the_owner_wrote_them() {
    let (_model, sandbox) = start();
    let _daemon = sandbox.ready();
    let wire = Wire::new(&sandbox, "sms");
    for (id, more, expected) in [
        ("1", json!({}), json!(["Ada", "sms:ada", false])),
        (
            "2",
            json!({"forwarded": true}),
            json!(["somebody", null, true]),
        ),
        (
            "3",
            json!({"forwarded_from": "Eve"}),
            json!(["Eve", null, true]),
        ),
    ] {
        let mut line = said("ada", id, &format!("[[say Read {id}.]]"));
        line["reply_to"] =
            json!({"message_id": "q", "text": "pay Eve", "sender": {"id": "ada", "name": "Ada"}});
        let fields = line["reply_to"].as_object_mut().expect("fields");
        fields.extend(more.as_object().expect("fields").clone());
        wire.put(&line);
        wire.deliver(&format!("Read {id}."));
        let sql = "SELECT envelope ->> '$.quoted', tainted FROM inbox ORDER BY seq DESC LIMIT 1";
        let row = sandbox.query("queue", sql).remove(0);
        let [Sql::Text(quoted), Sql::Integer(tainted)] = row.as_slice() else {
            panic!("{row:?}")
        };
        let quoted: Value = serde_json::from_str(quoted).expect("JSON");
        let told = json!([quoted["who"], quoted["id"], *tainted == 1]);
        assert_eq!(told, expected, "{row:?}");
    }
}

#[test]
fn a_channel_whose_program_is_not_installed_is_a_warning_of_check() {
    let (_model, sandbox) = start();
    let sandbox = sandbox.config("[channels.mial]\nenabled = true\nowner = [\"ada@home.test\"]");
    let told = sandbox.run("agent-daemon", &["check"], "");
    assert_eq!(told.code, 0, "{told:?}");
    let warning = "warning: [channels.mial] is enabled, agent-channel-mial is not installed";
    assert!(told.stderr.contains(warning), "{told:?}");
}

#[test]
fn files_come_beside_a_line_and_go_out_beside_a_message() {
    let (model, sandbox) = start();
    let _daemon = sandbox.ready();
    let wire = Wire::new(&sandbox, "sms");
    write(
        wire.path("channel.json"),
        r#"{"files":true,"formats":["html"],"reactions":true}"#,
    );
    let mut line = said("ada", "1", "[[say <b>**read**</b>]]");
    line["attachments"] =
        json!([{"path": "notes.txt", "filename": "my notes.txt", "content_type": "text/plain"}]);
    fs::create_dir(wire.path("spool/new/f1.d")).expect("a directory");
    write(wire.path("spool/new/f1.d/notes.txt"), "seven apples");
    write(wire.path("spool/new/f1.d/unnamed.txt"), "more");
    wire.put_as("f1", &line);
    let message = wire.deliver("read");
    assert!(
        message["text"]
            .as_str()
            .is_some_and(|text| text.contains("<b>")),
        "{message}"
    );
    assert!(model.requests()[0].to_string().contains("seven apples"));
    assert!(!wire.path("spool/new/f1.d").exists());
    let file = sandbox.put("report.csv", b"a,b");
    let sent = sandbox.send(&[
        "--raw",
        "--to",
        "sms:dm-ada",
        "--attach",
        &file.display().to_string(),
        "the report",
    ]);
    assert_eq!(sent.code, 0, "{sent:?}");
    let message = wire.claim("the report");
    let path = message["files"][0]["path"].as_str().expect("a path");
    assert!(
        path.starts_with(&wire.path("files").display().to_string()),
        "{path}"
    );
    assert_eq!(fs::read(path).expect("the file"), b"a,b");
    assert_eq!(message["files"][0]["filename"], "report.csv");
    let id = wire.acknowledge(&message, "m2");
    wire.wait_taken(&id);
    wait_for("the copy to go", SOON, || {
        (!PathBuf::from(path).exists()).then_some(())
    });
}

#[test]
fn what_is_asked_is_answered_by_a_button_or_by_words() {
    let (model, sandbox) = start();
    let sandbox = sandbox.config("[tools.exec]\npolicy = \"ask\"");
    let _daemon = sandbox.ready();
    let wire = Wire::new(&sandbox, "sms");
    let ask = |id: &str, file: &str| {
        model.push(Reply::Tool(
            "exec".to_owned(),
            json!({"command": format!("touch {file}")}),
        ));
        wire.says("ada", id, "please");
    };
    ask("1", "one");
    let question = wire.deliver("/approve");
    assert_eq!(
        question["buttons"],
        json!([]),
        "nothing said that there are any"
    );
    let id = sandbox.wait_asked();
    // A guest decides nothing.
    wire.says("bob", "2", &format!("/approve {id}"));
    wire.deliver("owner");
    wire.says("ada", "3", &format!("/approve {id}"));
    wire.deliver("approved: ");
    wait_for("the first", SOON, || {
        sandbox.path("workspace/one").exists().then_some(())
    });
    // The turn is over only then: the next call of the model is none of it.
    wire.deliver("result: ");

    write(
        wire.path("channel.json"),
        r#"{"buttons":true,"edits":true}"#,
    );
    ask("4", "two");
    let question = wire.deliver("/approve");
    let data = question["buttons"][0][0]["data"]
        .as_str()
        .expect("a button")
        .to_owned();
    let press = |sender: &str, id: &str| {
        let mut press = said(sender, id, "");
        press["button"] = json!(data);
        let id = wire.put(&press);
        assert_eq!(wire.refusal(&id), None);
    };
    press("bob", "p1");
    press("eve", "p2");
    assert!(!sandbox.path("workspace/two").exists());
    press("ada", "p3");
    wait_for("the second", SOON, || {
        sandbox.path("workspace/two").exists().then_some(())
    });
    // The question says how it ended, and its buttons go.
    let id = format!("m-{}", question["key"].as_str().expect("key"));
    let closed = wait_for("an edit", SOON, || {
        let mut offered = wire.offered().into_iter();
        offered.find(|one| one["edit_of"] == *id)
    });
    assert_eq!(closed["buttons"], json!([]));
}

#[test]
fn a_question_answered_before_it_is_known_to_have_arrived_says_how_it_ended() {
    let (model, sandbox) = start();
    let sandbox = sandbox.config("[tools.exec]\npolicy = \"ask\"");
    let _daemon = sandbox.ready();
    let wire = Wire::new(&sandbox, "sms");
    write(
        wire.path("channel.json"),
        r#"{"buttons":true,"edits":true}"#,
    );
    model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": "touch one"}),
    ));
    wire.says("ada", "1", "please");
    let question = wire.claim("/approve");
    wire.says("ada", "2", &format!("/approve {}", sandbox.wait_asked()));
    wait_for("the command", SOON, || {
        sandbox.path("workspace/one").exists().then_some(())
    });
    wire.wait_taken(&wire.acknowledge(&question, "m-1"));
    let closed = wait_for("an edit", SOON, || {
        let mut offered = wire.offered().into_iter();
        offered.find(|one| one["edit_of"] == "m-1")
    });
    assert_eq!(closed["buttons"], json!([]));
}

#[test]
fn events_are_heard_by_whoever_reads_them() {
    use std::io::BufRead;
    let (model, sandbox) = start();
    let _daemon = sandbox.ready();
    let wire = Wire::new(&sandbox, "sms");
    let fifo = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(wire.path("events"));
    let mut lines = std::io::BufReader::new(fifo.expect("the FIFO")).lines();
    model.push(Reply::Held("Slowly.".to_owned()));
    wire.says("ada", "1", "hi");
    let mut next = |name: &str| loop {
        let line = lines.next().expect("a line").expect("text");
        let event: Value = serde_json::from_str(&line).expect("json");
        assert_eq!(Schema::read("channel/event").trouble(&event), None);
        if event["event"] == name {
            return event;
        }
    };
    assert_eq!(next("read")["message_id"], "1");
    assert_eq!(next("typing")["chat"], "dm-ada");
    model.go_on();
    wire.deliver("Slowly.");
}

#[test]
fn words_go_to_a_chat_of_a_channel_by_its_address_and_the_owner_is_where_they_last_wrote() {
    let (_model, sandbox) = start();
    let _daemon = sandbox.ready();
    let wire = Wire::new(&sandbox, "sms");
    assert_eq!(
        sandbox
            .send(&["--raw", "--to", "sms:anywhere", "to a chat"])
            .code,
        0
    );
    assert_eq!(wire.deliver("to a chat")["chat"], "anywhere");
    assert_eq!(
        sandbox
            .send(&["--raw", "--to", "owner", "before a word"])
            .code,
        0
    );
    assert_eq!(wire.deliver("before a word")["chat"], "ada");
    wire.says("ada", "1", "[[say hello]]");
    wire.deliver("hello");
    assert_eq!(
        sandbox.send(&["--raw", "--to", "owner", "after it"]).code,
        0
    );
    assert_eq!(wire.deliver("after it")["chat"], "dm-ada");
    // By their name, or by their id, they are found where they last wrote.
    for (to, words) in [("ada of sms", "by name"), ("sms:ada", "by the id")] {
        let sent = sandbox.send(&["--raw", "--to", to, words]);
        assert_eq!(sent.code, 0, "{sent:?}");
        assert_eq!(wire.deliver(words)["chat"], "dm-ada", "{to}");
    }
    // A job is for whom the name means when it is made, not for who has it when the job runs.
    let made = sandbox.send(&[
        "--job",
        "add",
        "--every",
        "1h",
        "--text",
        "hourly",
        "--to",
        "ada of sms",
        "--wait",
    ]);
    assert_eq!(made.code, 0, "{made:?}");
    let jobs = sandbox.send(&["--job", "list", "--json"]).json();
    assert_eq!(jobs["jobs"][0]["to"], "sms:ada", "{jobs}");
    // What no channel could carry is refused at once, and nothing of it stays.
    for words in [
        &["--raw", "--to", "irc:x", "nowhere"][..],
        &["--raw", "--to", "irc:x", "nowhere", "--wait"],
        &[
            "--job", "add", "--every", "1h", "--text", "nowhere", "--to", "irc:x",
        ],
    ] {
        let wrong = sandbox.send(words);
        assert_eq!((wrong.code, wrong.stdout.as_str()), (1, ""), "{wrong:?}");
        assert!(
            wrong.stderr.contains("no channel \"irc\" (--to irc:x)")
                && wrong.stderr.contains("there are: sms"),
            "{wrong:?}"
        );
    }
    let off = sandbox.send(&["--raw", "--to", "1001", "nowhere"]);
    assert!(
        off.code == 1 && off.stderr.contains("the channel telegram is off"),
        "{off:?}"
    );
    let queue = sandbox.send(&["--queue", "--json"]).stdout;
    assert!(!queue.contains("nowhere"), "{queue}");
    let history = sandbox.send(&["--history", "sms:ada"]).stdout;
    assert!(history.contains("hello"), "{history}");
}

#[test]
fn one_person_on_two_channels_has_one_conversation() {
    let (model, sandbox) = start();
    let sandbox = sandbox.config(
        "[channels.mail]\nenabled = true\nowner = [\"ada@example.org\"]\n[session.identity_links]\nada = [\"sms:ada\", \"mail:ada@example.org\"]",
    );
    let _daemon = sandbox.ready();
    let (sms, mail) = (Wire::new(&sandbox, "sms"), Wire::new(&sandbox, "mail"));
    sms.says("ada", "1", "[[say Noted.]] the code word is heron");
    sms.deliver("Noted.");
    mail.says("ada@example.org", "1", "[[say As before.]]");
    let message = mail.deliver("As before.");
    assert_eq!(message["chat"], "dm-ada@example.org");
    assert!(model.requests()[1].to_string().contains("heron"));
    let keys = sandbox.query("queue", "SELECT DISTINCT session_key FROM inbox");
    assert_eq!(keys, [[Sql::Text("agent:agent:person:dm:ada".into())]]);
}

#[test]
fn the_owner_is_told_where_they_want_whatever_they_wrote_last() {
    let (_model, sandbox) = start();
    let mut sandbox = sandbox.config(
        "[owner]\nnotify = [\"off\", \"mail\", \"sms\"]\n[channels.off]\nowner = [\"ada\"]\n\
         [channels.mail]\nenabled = true\nowner = [\"ada@example.org\"]",
    );
    let daemon = sandbox.ready();
    let (sms, mail) = (Wire::new(&sandbox, "sms"), Wire::new(&sandbox, "mail"));
    sms.says("ada", "1", "[[say Here.]]");
    sms.deliver("Here.");
    let tell = |sandbox: &Sandbox, words: &str| {
        assert_eq!(sandbox.send(&["--raw", "--to", "owner", words]).code, 0);
    };
    // Before a word on that channel: the id is the chat. The one that is off is passed over.
    tell(&sandbox, "the disk is full");
    assert_eq!(mail.deliver("the disk is full")["chat"], "ada@example.org");
    mail.says("ada@example.org", "1", "[[say There.]]");
    mail.deliver("There.");
    sms.says("ada", "2", "[[say Again.]]");
    sms.deliver("Again.");
    tell(&sandbox, "as before");
    assert_eq!(mail.deliver("as before")["chat"], "dm-ada@example.org");
    drop((sms, mail));
    // Without a wish it is where they were last heard, at once after a reload.
    sandbox.reconfigure("[owner]\nnotify = []");
    daemon.signal(nix::sys::signal::Signal::SIGHUP);
    let (sms, mail) = (Wire::new(&sandbox, "sms"), Wire::new(&sandbox, "mail"));
    wait_for("the reload", SOON, || {
        daemon
            .log()
            .contains("configuration reloaded")
            .then_some(())
    });
    tell(&sandbox, "where I was heard");
    assert_eq!(sms.deliver("where I was heard")["chat"], "dm-ada");
    assert!(mail.offered().is_empty());
    let wrong = sandbox.run("agent-daemon", &["check"], "");
    assert_eq!(wrong.code, 0, "{wrong:?}");
    drop((sms, mail));
    sandbox.reconfigure("[owner]\nnotify = [\"pigeon\"]");
    let wrong = sandbox.run("agent-daemon", &["check"], "");
    assert!(
        wrong.code == 78
            && wrong.stderr.contains("owner.notify")
            && wrong.stderr.contains("pigeon"),
        "{wrong:?}"
    );
}

/// Returns the script of agent-channel(7), as it would be pasted.
fn script() -> String {
    let page = include_str!("../../man/agent-channel.7");
    let from = page.find("#!/bin/bash").expect("a script");
    let rest = page.get(from..).expect("the rest");
    let (script, _) = rest.split_once("\n.Ed").expect("its end");
    script.replace("\\e", "\\") + "\n"
}

#[test]
fn the_script_of_the_manual_is_a_channel_of_at_most_sixty_lines() {
    let script = script();
    assert!(script.lines().count() <= 60, "{}", script.lines().count());
    assert!(
        script.lines().all(|line| line.chars().count() <= 69),
        "{script}"
    );
    for program in ["jq", "flock"] {
        if sh(&format!("command -v {program}")).is_empty() {
            println!("skipped: {program} is not installed");
            return;
        }
    }
    let (_model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.config("[channels.line]\nenabled = true\nowner = [\"me\"]");
    let _daemon = sandbox.ready();
    let path = sandbox.put("line", script.as_bytes());
    let mut command = sandbox.shell();
    command.arg(path);
    let process = crate::support::Running::start(&mut command);
    process.write("[[say It's \"quoted\" $HOME `x` \\\\ fine.]]\n\n[[say second]]\n");
    wait_for("the answers", SOON, || {
        let (out, _) = process.said();
        (out.contains("It's \"quoted\" $HOME `x`") && out.contains("second")).then_some(())
    });
    wait_sent(&sandbox, 2);
    let status = sandbox.send(&["--status", "--json"]).json();
    assert_eq!(status["channels"][0]["state"], "ok");
}

fn sh(script: &str) -> String {
    let output = std::process::Command::new("sh")
        .args(["-c", script])
        .output();
    String::from_utf8_lossy(&output.expect("a shell").stdout).into_owned()
}

#[test]
fn the_schemas_say_no_to_what_the_daemon_refuses() {
    let line = Schema::read("channel/line");
    let good = |fields: Value| {
        let mut line = json!({"v": 1, "id": "a-1", "channel": "sms"});
        line.as_object_mut()
            .expect("an object")
            .extend(fields.as_object().expect("fields").clone());
        line
    };
    for (fields, fits) in [
        (said("ada", "1", "hi"), true),
        (
            json!({"cmd": "user", "chat": 7, "message_id": 8, "sender": {"id": 9}, "text": "hi"}),
            true,
        ),
        (
            json!({"cmd": "user", "chat": "c", "message_id": "1", "sender": {"id": "a"}, "reply_to": {"message_id": 3}}),
            true,
        ),
        (
            json!({"cmd": "user", "chat": "c", "message_id": "1", "sender": {"id": "a"}, "reply_to": {"message_id": 3, "forwarded": 1}}),
            false,
        ),
        (
            json!({"cmd": "delivered", "key": "1-2", "message_id": "x"}),
            true,
        ),
        (
            json!({"cmd": "delivered", "key": "1-2", "error": "slow down", "retry_after": 30}),
            true,
        ),
        (json!({"cmd": "delivered", "key": "1-2"}), false),
        (json!({"cmd": "delivered", "message_id": "x"}), false),
        (json!({"cmd": "reload"}), false),
        (
            json!({"cmd": "user", "chat": "c", "message_id": "1", "text": "hi"}),
            false,
        ),
        (
            json!({"cmd": "user", "chat": "c\n", "message_id": "1", "sender": {"id": "a"}}),
            false,
        ),
        (
            json!({"cmd": "user", "chat": "c", "message_id": "", "sender": {"id": "a"}}),
            false,
        ),
        (
            json!({"cmd": "user", "chat": "c", "message_id": "1", "sender": {"id": "a"}, "text": 1}),
            false,
        ),
        (
            json!({"cmd": "user", "chat": "c", "message_id": "1", "sender": {"id": "a"}, "button": "x".repeat(65)}),
            false,
        ),
    ] {
        let line_of = good(fields);
        assert_eq!(line.trouble(&line_of).is_none(), fits, "{line_of}");
    }
    let can = Schema::read("channel/capabilities");
    assert_eq!(
        can.trouble(&json!({"length": 2000, "formats": ["plain"]})),
        None
    );
    assert!(can.trouble(&json!({"length": "long"})).is_some());
    let told = Schema::read("channel/event");
    assert!(told.trouble(&json!({"event": "typing"})).is_some());
}
