//! What a server asks while a call runs: the owner, who answers with words or not at all, and a model, when the settings
//! allow it. Against the official Python SDK.
#![allow(clippy::disallowed_methods, reason = "a test writes files plainly")]

use std::{fs, net::TcpListener, time::Duration};

use serde_json::{Value, json};

use super::sdk::{Server, http_server, sdk};
use super::{section, trust};
use crate::support::{FakeModel, FakeTelegram, House, Reply, Sandbox, wait_for};

const SOON: Duration = Duration::from_secs(60);
const SERVER: &str = include_str!("questions_server.py");
const OWNER: i64 = 1001;

/// Lays the server over the settings, reached this way; `None` when the SDK is not there.
fn with_server(sandbox: Sandbox, way: &str, more: &str) -> Option<(Sandbox, Option<Server>)> {
    let dir = sdk()?;
    if way == "http" {
        let (port, server) = http_server(&sandbox, SERVER, way);
        let section =
            format!("[mcp.servers.desk]\nurl = \"http://127.0.0.1:{port}/mcp\"\n{more}\n");
        return Some((sandbox.config(&section), Some(server)));
    }
    let servers = sandbox.home().with_file_name("servers");
    fs::create_dir_all(&servers).expect("the sandbox is writable");
    let more = format!("env = [\"PYTHONPATH\"]\n{more}");
    let section = section("desk", &servers, SERVER, &["stdio"], &more);
    let section = section.replace("reads = [", &format!("reads = [{dir:?},"));
    let path = dir.display().to_string();
    Some((sandbox.env("PYTHONPATH", &path).config(&section), None))
}

/// Starts a house with the server at a pipe, which the owner trusts; `None` when the SDK is not there.
fn house_with_server() -> Option<House> {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model);
    let (sandbox, _) = with_server(sandbox, "stdio", "")?;
    let house = House::of(sandbox, telegram, model);
    trust(&house.sandbox, "desk");
    Some(house)
}

/// Waits for a question and returns it as `--queue` shows it.
fn asked(sandbox: &Sandbox) -> Value {
    wait_for("a question", SOON, || {
        let queue = sandbox.send(&["--queue", "--json"]).json();
        queue["approvals"].get(0).cloned()
    })
}

/// Has the model call a tool in a conversation of its own, while `meanwhile` is done, and returns the result.
fn call_while(
    (sandbox, model): (&Sandbox, &FakeModel),
    (tool, input): (&str, Value),
    meanwhile: impl FnOnce(),
) -> String {
    let session = format!("s{}", model.requests().len());
    let words = format!("[[tool {tool} {input}]]");
    let waiting = sandbox.sending(&["--wait=60", "--session", &session, &words]);
    meanwhile();
    let ended = waiting.end();
    assert_eq!(ended.code, 0, "{ended:?}");
    let request = model.requests().pop().expect("a request");
    let messages = request["messages"].as_array().expect("messages").clone();
    messages.last().expect("a message")["content"].to_string()
}

fn answer(sandbox: &Sandbox, id: &Value, words: &str) {
    let told = sandbox.send(&["--answer", id.as_str().expect("an id"), words]);
    assert!(
        told.code == 0 && told.stdout.starts_with("answered: "),
        "{told:?}"
    );
}

#[test]
fn the_owner_answers_a_server_with_words() {
    for way in ["stdio", "http"] {
        let (model, sandbox) = Sandbox::with_model();
        let Some((sandbox, _server)) = with_server(sandbox, way, "timeout_secs = 2") else {
            return;
        };
        let _daemon = sandbox.ready();
        trust(&sandbox, "desk");
        let result = call_while((&sandbox, &model), ("desk_order", json!({})), || {
            let first = asked(&sandbox);
            let text = first["text"].as_str().expect("a text");
            // The server's words are behind a line of ours.
            assert!(
                text.starts_with("the tool server desk asks you:\nWhat shall it be?\n"),
                "{text}"
            );
            assert!(
                text.contains("\n- cups (whole number): Cups. How many cups"),
                "{text}"
            );
            let why = first["why"].as_str().expect("why");
            assert!(
                !why.contains("CAREFUL") && why.contains("your answer goes to it"),
                "{why}"
            );
            // Neither a yes of an approval with words nor words that do not fit go to the server.
            answer(&sandbox, &first["id"], "name: Ada; cups: 12");
            let again = wait_for("the next question", SOON, || {
                Some(asked(&sandbox)).filter(|next| next["id"] != first["id"])
            });
            let text = again["text"].as_str().expect("a text");
            assert!(
                text.starts_with("that did not fit: cups is from 1 to 9\n"),
                "{text}"
            );
            // Longer than a call may take: the owner's time is not the server's.
            std::thread::sleep(Duration::from_millis(2500));
            answer(&sandbox, &again["id"], "name: Ada King; cups: 2");
        });
        assert!(
            result.contains("accept: name='Ada King' cups=2 hot=True"),
            "{way}: {result}"
        );
        let kept = sandbox.query(
            "queue",
            "SELECT answer FROM approvals WHERE answer LIKE '%Ada%'",
        );
        assert!(kept.is_empty(), "{kept:?}");
        let result = call_while((&sandbox, &model), ("desk_order", json!({})), || {
            let id = asked(&sandbox)["id"].as_str().expect("an id").to_owned();
            assert_eq!(sandbox.send(&["--deny", &id, "not now"]).code, 0);
        });
        assert!(result.contains("decline: -"), "{way}: {result}");
        // The same question once more in one call is another question.
        let result = call_while((&sandbox, &model), ("desk_twice", json!({})), || {
            let first = asked(&sandbox);
            answer(&sandbox, &first["id"], "tea");
            let next = wait_for("the second question", SOON, || {
                Some(asked(&sandbox)).filter(|next| next["id"] != first["id"])
            });
            answer(&sandbox, &next["id"], "cake");
        });
        assert!(result.contains("tea, then cake"), "{way}: {result}");
        let result = call_while((&sandbox, &model), ("desk_login", json!({})), || {
            let login = asked(&sandbox);
            let why = login["why"].as_str().expect("why");
            assert!(
                why.starts_with(
                    "CAREFUL: the tool server desk seems to ask for a secret (password)"
                ),
                "{why}"
            );
            assert_eq!(sandbox.send(&["--deny"]).code, 0);
        });
        assert!(result.contains("decline"), "{way}: {result}");
    }
}

#[test]
fn an_address_is_shown_whole_opened_by_nobody_else_and_the_call_goes_on() {
    for way in ["stdio", "http"] {
        let (model, sandbox) = Sandbox::with_model();
        let Some((sandbox, _server)) = with_server(sandbox, way, "timeout_secs = 5") else {
            return;
        };
        let _daemon = sandbox.ready();
        trust(&sandbox, "desk");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("own socket");
        let port = listener.local_addr().expect("own").port();
        let url = format!("https://localhost:{port}/in?state=abc&next=%2F");
        let call = |url: &str| ("desk_connect", json!({"url": url}));
        let said = |verdict: &str| {
            call_while((&sandbox, &model), call(&url), || {
                let question = asked(&sandbox);
                let text = question["text"].as_str().expect("a text");
                let expected = format!(
                    "the tool server desk wants you to open an address at localhost:{port}:\n{url}\nIt says:\nSign in at the bank\nhost: bank.example"
                );
                assert_eq!(text, expected);
                let why = question["why"].as_str().expect("why");
                assert!(
                    why.contains("the tool server desk") && why.contains("open it yourself"),
                    "{why}"
                );
                let id = question["id"].as_str().expect("an id");
                assert_eq!(sandbox.send(&[verdict, id]).code, 0);
            })
        };
        let accepted = said("--approve");
        assert!(accepted.contains("accept"), "{way}: {accepted}");
        let declined = said("--deny");
        assert!(declined.contains("decline"), "{way}: {declined}");
        assert!(listener.accept().is_err(), "nobody of ours opens it");
        // What nobody should open is not even shown.
        for bad in [
            "http://bank.example/",
            "https://bank.example@evil.example/",
            "file:///etc/passwd",
        ] {
            let refused = call_while((&sandbox, &model), call(bad), || {});
            assert!(refused.contains("failed: "), "{way}: {refused}");
        }
        // A call that wants an address opened first goes on with the yes, and does nothing without.
        let statement = |verdict: &str| {
            call_while((&sandbox, &model), ("desk_statement", json!({})), || {
                let question = asked(&sandbox);
                let text = question["text"].as_str().expect("a text");
                assert!(
                    text.contains("\nhttps://bank.example/in?x=1\nIt says:\nFirst sign in"),
                    "{text}"
                );
                let id = question["id"].as_str().expect("an id");
                assert_eq!(sandbox.send(&[verdict, id]).code, 0);
            })
        };
        let done = statement("--approve");
        assert!(done.contains("balance 12"), "{way}: {done}");
        let undone = statement("--deny");
        assert!(undone.contains("did not open it"), "{way}: {undone}");
        let rules = sandbox.query("queue", "SELECT count(*) FROM approvals WHERE repeatable");
        assert_eq!(format!("{rules:?}"), "[[Integer(0)]]");
    }
}

#[test]
fn a_call_that_nobody_waits_for_is_cancelled_at_the_server() {
    for way in ["stdio", "http"] {
        let (model, sandbox) = Sandbox::with_model();
        let Some((sandbox, _server)) = with_server(sandbox, way, "timeout_secs = 1") else {
            return;
        };
        let _daemon = sandbox.ready();
        trust(&sandbox, "desk");
        let ask = |tool: &str| call_while((&sandbox, &model), (tool, json!({})), || ());
        assert!(ask("desk_cancelled").contains("none"));
        let answer = ask("desk_patient");
        assert!(
            answer.contains("did not answer within 1 s"),
            "{way}: {answer}"
        );
        wait_for("the cancellation", SOON, || {
            let answer = ask("desk_cancelled");
            (!answer.contains("none") && answer.contains("cancelled")).then_some(())
        });
    }
}

#[test]
fn a_choice_is_a_button_and_another_message_cancels() {
    let Some(house) = house_with_server() else {
        return;
    };
    house.telegram.say(OWNER, OWNER, "[[tool desk_color {}]]");
    let sent = house
        .telegram
        .wait_sent(|sent| sent.text.contains("Which color?"), SOON);
    assert!(
        sent.text.starts_with("I am asked to ask you."),
        "{}",
        sent.text
    );
    let buttons = house.telegram.buttons(OWNER, sent.message_id);
    let labels: Vec<&str> = buttons.iter().map(|(label, _)| label.as_str()).collect();
    assert_eq!(labels, ["Red", "Green", "❌ No"]);
    // A guest's tap counts for nothing.
    house
        .telegram
        .press(OWNER, 1002, sent.message_id, &buttons[0].1);
    house
        .telegram
        .press(OWNER, OWNER, sent.message_id, &buttons[1].1);
    let result = |words: &str| {
        wait_for(words, SOON, || {
            let requests = house.model.requests();
            requests.last()?.to_string().contains(words).then_some(())
        });
    };
    result("accept: {'color': 'g'}");
    house.telegram.say(OWNER, OWNER, "/new");
    house.telegram.say(OWNER, OWNER, "[[tool desk_color {}]]");
    wait_for("the second question", SOON, || {
        let sent = house.telegram.sent();
        (sent
            .iter()
            .filter(|sent| sent.text.contains("Which color?"))
            .count()
            == 2)
            .then_some(())
    });
    house.telegram.say(OWNER, OWNER, "something else");
    result("something else");
    let said = house
        .model
        .requests()
        .iter()
        .map(Value::to_string)
        .collect::<String>();
    assert!(
        said.contains("decline: None") || said.contains("cancel: None"),
        "{said}"
    );
}

#[test]
fn a_server_that_asks_without_end_is_stopped() {
    let (model, sandbox) = Sandbox::with_model();
    let Some((sandbox, _server)) = with_server(sandbox, "stdio", "") else {
        return;
    };
    let _daemon = sandbox.ready();
    trust(&sandbox, "desk");
    let result = call_while((&sandbox, &model), ("desk_nag", json!({})), || {
        let mut last = Value::Null;
        for _ in 0..10 {
            let next = wait_for("the next question", SOON, || {
                Some(asked(&sandbox)).filter(|next| next["id"] != last)
            });
            last = next["id"].clone();
            assert_eq!(sandbox.send(&["--deny"]).code, 0);
        }
    });
    assert_eq!(result.matches("decline").count(), 10, "{result}");
    assert!(result.contains("it asks too often in one call"), "{result}");
}

#[test]
fn a_model_is_asked_for_a_server_when_the_settings_say_so() {
    let run = |more: &str, check: &dyn Fn(&Sandbox, &FakeModel)| {
        let (model, sandbox) = Sandbox::with_model();
        let Some((sandbox, _server)) = with_server(sandbox, "stdio", more) else {
            return;
        };
        let _daemon = sandbox.ready();
        trust(&sandbox, "desk");
        check(&sandbox, &model);
    };
    run("", &|sandbox, model| {
        let result = call_while((sandbox, model), ("desk_haiku", json!({})), || ());
        assert!(result.contains("failed: "), "{result}");
        assert_eq!(model.requests().len(), 2);
    });
    run(
        "sampling = \"ask\"\nsampling_tokens = 300",
        &|sandbox, model| {
            let result = call_while((sandbox, model), ("desk_haiku", json!({})), || {
                let question = asked(sandbox);
                let text = question["text"].as_str().expect("a text");
                assert!(
                    text.contains("at most 300 tokens")
                        && text.contains("Write a haiku about tea."),
                    "{text}"
                );
                // A yes takes no words.
                let id = question["id"].as_str().expect("an id");
                let told = sandbox.send(&["--answer", id, "yes but"]);
                assert!(
                    told.code == 1 && told.stderr.contains("takes no words"),
                    "{told:?}"
                );
                model.push(Reply::Text("old pond".to_owned()));
                assert_eq!(sandbox.send(&["--approve", id]).code, 0);
            });
            assert!(result.contains("primary wrote: old pond"), "{result}");
            let sampled = &model.requests()[1];
            assert_eq!(sampled["max_tokens"], 300);
            assert!(
                sampled["tools"].as_array().is_none_or(Vec::is_empty),
                "{sampled}"
            );
            assert!(
                sampled["system"].to_string().contains("You are a poet."),
                "{sampled}"
            );
            assert_eq!(sampled["messages"].as_array().map(Vec::len), Some(1));
            let cost = sandbox.query(
                "cost",
                "SELECT count(*) FROM costs WHERE source = 'sampling'",
            );
            assert_eq!(format!("{cost:?}"), "[[Integer(1)]]");
        },
    );
    // What all of its requests may cost in one message ends a loop.
    run(
        "sampling = \"allow\"\nsampling_tokens = 100\nsampling_usd = 0.004",
        &|sandbox, model| {
            model.push(Reply::Tool("desk_haiku".to_owned(), json!({"times": 8})));
            (0..8).for_each(|_| model.push(Reply::Text("old pond".to_owned())));
            let told = sandbox.send(&["--wait=60", "go"]);
            assert_eq!(told.code, 0, "{told:?}");
            model.forget();
            let request = model.requests().pop().expect("a request").to_string();
            let written = request.matches("wrote: old pond").count();
            assert!(
                (1..8).contains(&written)
                    && request.contains("the owner's limit for it is reached"),
                "{request}"
            );
            let spent = sandbox.query(
                "cost",
                "SELECT sum(cost_nano_usd) <= 4000000 FROM costs WHERE source = 'sampling'",
            );
            assert_eq!(format!("{spent:?}"), "[[Integer(1)]]");
        },
    );
}

#[test]
fn nobody_is_asked_where_nobody_is() {
    let Some(house) = house_with_server() else {
        return;
    };
    house
        .model
        .push(Reply::Tool("desk_order".to_owned(), json!({})));
    let words = ["--source", "test", "--system", "--trusted", "go"];
    let told = house.sandbox.send(&words);
    assert_eq!(told.code, 0, "{told:?}");
    let request = wait_for("the result", SOON, || {
        let mut requests = house.model.requests().into_iter();
        requests.find(|request| request.to_string().contains("tool_result"))
    });
    assert!(request.to_string().contains("cancel: -"), "{request}");
}
