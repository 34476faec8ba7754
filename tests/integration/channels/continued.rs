//! A conversation that goes on in another place: between Telegram, a channel of its own, the shell and HTTP.

use std::time::Duration;

use serde_json::json;

use super::{SMS, SOON, Wire};
use crate::http::{Client, free_port};
use crate::support::{Daemon, FakeModel, FakeTelegram, Reply, Sandbox, wait_for};

const OWNER: i64 = 1001;
const GUEST: i64 = 1002;
const TOKEN: &str = "9f86d081884c7d659a2feaa0c55ad015";

struct Places {
    // First, so that it ends before its files go.
    daemon: Daemon,
    telegram: FakeTelegram,
    model: FakeModel,
    sandbox: Sandbox,
    client: Client,
}

impl Places {
    fn new() -> Self {
        let (telegram, model, port) = (FakeTelegram::start(), FakeModel::start(), free_port());
        let sandbox = Sandbox::new()
            .with_telegram(&telegram)
            .with_anthropic(&model)
            .env("AGENT_HTTP_TOKEN", TOKEN)
            .config(SMS)
            .config(&format!(
                "[telegram]\nallow_from = [{GUEST}]\n[channels.sms.groups.club]\nrequire_mention = false\n[tools.exec]\npolicy = \"ask\"\n[http]\nenabled = true\nlisten = \"127.0.0.1:{port}\""
            ));
        Self {
            daemon: sandbox.ready(),
            client: Client::tcp(port, Some(TOKEN)),
            telegram,
            model,
            sandbox,
        }
    }

    fn telegram_says(&self, who: i64, text: &str, answer: &str) {
        let before = self.sent_to(who);
        self.telegram.say(who, who, text);
        wait_for(answer, SOON, || {
            let new = self.sent_to(who).split_off(before.len());
            new.iter().any(|one| one.contains(answer)).then_some(())
        });
    }

    /// Waits until somebody was told `words` in Telegram.
    fn wait_sent(&self, who: i64, words: &str) {
        wait_for(words, SOON, || {
            let sent = self.sent_to(who);
            sent.iter().any(|one| one.contains(words)).then_some(())
        });
    }

    fn sent_to(&self, who: i64) -> Vec<String> {
        let sent = self.telegram.sent().into_iter();
        sent.filter(|one| one.chat == who)
            .map(|one| one.text)
            .collect()
    }

    fn shell_says(&self, text: &str) -> String {
        let told = self.sandbox.send(&["--wait", text]);
        assert_eq!(told.code, 0, "{told:?}");
        told.stdout.trim_end().to_owned()
    }

    /// What the model was last asked.
    fn read_by_model(&self) -> String {
        self.model.requests().pop().expect("a request").to_string()
    }

    fn keys(&self) -> Vec<String> {
        let sessions = self.sandbox.send(&["--sessions", "--json"]).json();
        let sessions = sessions["sessions"].as_array().expect("a list").clone();
        let mut keys: Vec<String> = sessions
            .iter()
            .map(|one| one["key"].as_str().expect("a key").to_owned())
            .collect();
        keys.sort();
        keys
    }
}

/// Has all of this arrive, in whichever order it comes.
fn hear(sms: &Wire<'_>, expected: &[&str]) {
    let mut left = expected.to_vec();
    while !left.is_empty() {
        let next = wait_for("a message", SOON, || {
            let texts = sms.offered().into_iter().map(|one| one["text"].to_string());
            let texts = texts.collect::<Vec<_>>().join("\n");
            left.iter().position(|&words| texts.contains(words))
        });
        sms.deliver(left.remove(next));
    }
}

#[test]
fn a_conversation_goes_on_wherever_its_owner_is_and_each_answer_goes_where_it_was_asked() {
    let places = Places::new();
    let sms = Wire::new(&places.sandbox, "sms");
    places.telegram_says(OWNER, "the code is 4711", "echo: the code is 4711");
    places.telegram_says(GUEST, "the guest says 0815", "echo: the guest says 0815");

    // From Telegram into the shell: the shell's next words belong to it, and Telegram hears of that.
    let said = places.shell_says("/continue telegram");
    assert!(
        said.starts_with("Our conversation in telegram continues here."),
        "{said}"
    );
    wait_for("a word in the old place", SOON, || {
        let told = "Our conversation now continues in the terminal.";
        places
            .sent_to(OWNER)
            .iter()
            .any(|one| one.starts_with(told))
            .then_some(())
    });
    assert_eq!(places.shell_says("what was it"), "echo: what was it");
    let asked = places.read_by_model();
    assert!(asked.contains("4711") && !asked.contains("0815"), "{asked}");

    // From there on to a channel of its own; without a name it is the newest conversation.
    sms.says("ada", "m1", "/continue");
    sms.deliver("Our conversation in telegram continues here.");
    sms.says("ada", "m2", "and on the road");
    sms.deliver("echo: and on the road");
    let asked = places.read_by_model();
    assert!(
        asked.contains("4711") && asked.contains("what was it"),
        "{asked}"
    );

    // And over HTTP. All four are one conversation now, and each answer is where it was asked for.
    let http = |text: &str| {
        let answer = places
            .client
            .post("/api/v1/chat", &json!({"message": text, "session": "desk"}));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["reply"].as_str().expect("a reply").to_owned()
    };
    assert!(http("/continue sms").contains("in telegram continues here."));
    assert_eq!(http("at the desk"), "echo: at the desk");
    places.telegram_says(OWNER, "and back", "echo: and back");
    let asked = places.read_by_model();
    for words in ["4711", "what was it", "and on the road", "at the desk"] {
        assert!(asked.contains(words), "{words}: {asked}");
    }
    let own = format!("agent:agent:telegram:dm:{OWNER}");
    let guests = format!("agent:agent:telegram:dm:{GUEST}");
    assert_eq!(places.keys(), [own.clone(), guests]);
    let answers = |words: &str| {
        places
            .sent_to(OWNER)
            .iter()
            .filter(|one| one.contains(words))
            .count()
    };
    assert_eq!(
        (
            answers("on the road"),
            answers("at the desk"),
            answers("and back")
        ),
        (0, 0, 1)
    );

    // A new one is the place's own, and leaves the others where they are.
    assert!(places.shell_says("/new").contains("new conversation"));
    places.shell_says("a clean page");
    assert!(!places.read_by_model().contains("4711"));
    places.telegram_says(OWNER, "still there", "echo: still there");
    assert!(places.read_by_model().contains("4711"));
    assert_eq!(places.keys().len(), 3);
    assert_eq!(places.daemon.term(), 0);
}

#[test]
fn who_names_a_conversation_means_that_one_and_the_page_opens_its_own() {
    let places = Places::new();
    places.shell_says("the code is 4711");
    places.telegram_says(
        OWNER,
        "/continue terminal",
        "of the terminal (cli) continues here.",
    );
    places.telegram_says(OWNER, "what was it", "echo: what was it");
    assert!(places.read_by_model().contains("4711"));
    let named = format!("agent:agent:telegram:dm:{OWNER}");
    let told = places
        .sandbox
        .send(&["--wait", "--session", &named, "by its name"]);
    assert_eq!(told.stdout, "echo: by its name\n");
    assert!(!places.read_by_model().contains("4711"));
    let answer = places.client.post(
        "/api/v1/chat",
        &json!({"message": "/continue telegram", "session": "web-1"}),
    );
    let reply = answer.json()["reply"].to_string();
    assert!(
        reply.contains("open the conversation in the list"),
        "{reply}"
    );
}

#[test]
fn nobody_takes_up_what_is_not_theirs() {
    let places = Places::new();
    let sms = Wire::new(&places.sandbox, "sms");
    places.telegram_says(OWNER, "the code is 4711", "echo: the code is 4711");
    places.telegram_says(GUEST, "hello", "echo: hello");
    places.telegram_says(
        GUEST,
        "/continue",
        "You have no other conversation with me.",
    );
    let own = format!("agent:agent:telegram:dm:{OWNER}");
    places.telegram_says(
        GUEST,
        &format!("/continue {own}"),
        "You have no other conversation",
    );
    places.telegram_says(GUEST, "what is it", "echo: what is it");
    assert!(!places.read_by_model().contains("4711"));
    // In a group nobody does, and no conversation of a guest is taken up.
    let mut line = super::said("ada", "g1", "/continue telegram");
    line["chat"] = json!("club");
    line["group"] = json!("The Club");
    line["text"] = json!("/continue telegram");
    let id = sms.put(&line);
    sms.wait_taken(&id);
    sms.deliver("Ask me that in our own chat.");
    let said = places.shell_says(&format!("/continue agent:agent:telegram:dm:{GUEST}"));
    assert!(
        said.starts_with("I know no other conversation of yours"),
        "{said}"
    );
    // Words of others are no command.
    let told = places
        .sandbox
        .send(&["--wait", "--untrusted", "/continue telegram"]);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "echo: /continue telegram\n")
    );
}

#[test]
fn who_is_no_owner_any_more_has_their_own_conversation_again() {
    let places = Places::new();
    let sms = Wire::new(&places.sandbox, "sms");
    places.telegram_says(OWNER, "the code is 4711", "echo: the code is 4711");
    sms.says("ada", "m1", "/continue telegram");
    sms.deliver("Our conversation in telegram continues here.");
    let Places {
        daemon,
        telegram: _telegram,
        model,
        mut sandbox,
        client: _client,
    } = places;
    assert_eq!(daemon.term(), 0);
    sandbox.reconfigure("[channels.sms]\nowner = [\"eve\"]\nallow_from = [\"ada\"]");
    let _daemon = sandbox.ready();
    let sms = Wire::new(&sandbox, "sms");
    sms.says("ada", "m2", "what is it");
    sms.deliver("echo: what is it");
    let asked = model.requests().pop().expect("a request").to_string();
    assert!(!asked.contains("4711"), "{asked}");
}

#[test]
fn nothing_goes_on_in_a_conversation_of_somebody_who_is_no_owner_any_more() {
    let places = Places::new();
    places.telegram_says(OWNER, "hello", "echo: hello");
    let sms = Wire::new(&places.sandbox, "sms");
    sms.says("ada", "m1", "hello from ada");
    sms.deliver("echo: hello from ada");
    places.shell_says("/continue sms");
    sms.deliver("Our conversation now continues in the terminal.");
    assert_eq!(places.shell_says("still alone"), "echo: still alone");
    assert!(places.read_by_model().contains("hello from ada"));
    drop(sms);
    let Places {
        daemon,
        telegram: _telegram,
        model,
        mut sandbox,
        client: _client,
    } = places;
    // Also while the daemon runs: Ada is a guest now, and hears no more of what is said in the shell.
    sandbox.reconfigure("[channels.sms]\nowner = [\"eve\"]\nallow_from = [\"ada\"]");
    daemon.signal(nix::sys::signal::Signal::SIGHUP);
    wait_for("the reload", SOON, || {
        daemon
            .log()
            .contains("configuration reloaded")
            .then_some(())
    });
    let told = sandbox.send(&["--wait", "the code is 4711"]);
    assert_eq!(told.stdout, "echo: the code is 4711\n");
    let asked = model.requests().pop().expect("a request").to_string();
    assert!(!asked.contains("hello from ada"), "{asked}");
    let sms = Wire::new(&sandbox, "sms");
    sms.says("ada", "m2", "what is it");
    sms.deliver("echo: what is it");
    let asked = model.requests().pop().expect("a request").to_string();
    assert!(!asked.contains("4711"), "{asked}");
    assert_eq!(daemon.term(), 0);
}

#[test]
fn what_is_unfinished_there_is_told_and_a_kill_keeps_the_place() {
    let places = Places::new();
    let sms = Wire::new(&places.sandbox, "sms");
    let call = json!({"command": "echo done > made"});
    places.model.push(Reply::Tool("exec".to_owned(), call));
    places.telegram.say(OWNER, OWNER, "make it");
    let id = places.sandbox.wait_asked();
    sms.says("ada", "m1", "/continue telegram");
    let told = sms.deliver("Our conversation in telegram continues here.");
    let told = told["text"].as_str().expect("text");
    assert!(
        told.contains("I am still working on what you wrote there"),
        "{told}"
    );
    assert!(told.contains(&format!("/approve {id}")), "{told}");
    sms.says("ada", "m2", &format!("/approve {id}"));
    sms.deliver("approved: ");
    // The answer to what was asked in Telegram goes there.
    places.wait_sent(OWNER, "result: ");
    // What comes right behind the command is in the right conversation already, and back again.
    sms.say("ada", "m3", "/continue sms");
    sms.say("ada", "m4", "apart");
    hear(
        &sms,
        &["Our conversation in sms continues here.", "echo: apart"],
    );
    assert!(!places.read_by_model().contains("make it"));
    sms.say("ada", "m5", "/continue telegram");
    sms.say("ada", "m6", "and then");
    hear(
        &sms,
        &[
            "Our conversation in telegram continues here.",
            "echo: and then",
        ],
    );
    let asked = places.read_by_model();
    assert!(
        asked.contains("make it") && asked.contains("and then"),
        "{asked}"
    );
    assert_eq!(
        places.sandbox.read("workspace/made").as_deref(),
        Some("done\n")
    );
    let Places {
        daemon,
        model,
        sandbox,
        telegram: _telegram,
        client: _client,
    } = places;
    daemon.kill9();
    let _daemon = sandbox.ready();
    let sms = Wire::new(&sandbox, "sms");
    sms.says("ada", "m7", "after the kill");
    sms.deliver("echo: after the kill");
    assert!(
        model
            .requests()
            .pop()
            .expect("a request")
            .to_string()
            .contains("make it")
    );
}

#[test]
fn two_places_that_write_at_once_are_answered_in_order() {
    let places = Places::new();
    let sms = Wire::new(&places.sandbox, "sms");
    places.telegram_says(OWNER, "first", "echo: first");
    sms.says("ada", "m0", "/continue telegram");
    sms.deliver("continues here");
    places.model.push(Reply::Held("the long answer".to_owned()));
    places.telegram.say(OWNER, OWNER, "a long question");
    places.model.wait_requests(2, SOON);
    sms.says("ada", "m1", "and a short one");
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(places.model.most_in_flight(), 1, "one lane");
    places.model.go_on();
    sms.deliver("echo: and a short one");
    places.wait_sent(OWNER, "the long answer");
    let asked = places.read_by_model();
    let at = |words: &str| {
        asked
            .find(words)
            .unwrap_or_else(|| panic!("{words}: {asked}"))
    };
    assert!(at("a long question") < at("the long answer"));
    assert!(at("the long answer") < at("and a short one"));
}
