//! Pages that a persona reads for its partners: of the owner's network what the owner wrote down, at once, and nothing
//! else; whatever needs the owner's yes, the chat goes on. Our pages are on loopback, so inside: of those outside
//! `agent/conversation_tests/permits.rs` tells.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{House, Pages, Reply, wait_for};

const SOON: Duration = Duration::from_secs(20);
const OWNER: i64 = 1001;
const ANA: i64 = 1002;
const GROUP: i64 = -100_500;

fn house(more: &str) -> House {
    House::with(&format!(
        "[agent]\nmode = \"plan\"\nplan_pause_ms = 100\n[agent.typing]\nstart_delay_secs = 0.0\nchars_per_sec = 0.0\n{more}"
    ))
}

fn plan(tasks: &Value) -> Reply {
    Reply::Text(tasks.to_string())
}

fn with_page(more: &str) -> (House, Pages, String) {
    let pages = Pages::start();
    pages.put("/page", 200, "text/plain", "The answer is 4711.");
    let house = house(&format!(
        "[tools.web]\nallow = [\"{}\"]\n{more}",
        pages.host()
    ));
    let url = pages.url("/page");
    let tools = format!("Opening hours: {url}\n");
    house.sandbox.put("workspace/TOOLS.md", tools.as_bytes());
    (house, pages, url)
}

/// Has a chat answer with a plan that reads `url`, and the next plan say `then`.
fn reads(house: &House, url: &str, then: &str) {
    house
        .model
        .push(plan(&json!([{"kind": "retrieve", "urls": [url]}])));
    house
        .model
        .push(plan(&json!([{"kind": "send", "text": then}])));
}

fn nobody_is_asked(house: &House) {
    let asked = house.sandbox.query("queue", "SELECT 1 FROM approvals");
    assert!(asked.is_empty(), "the owner was asked");
    assert!(house.telegram.sent().iter().all(|sent| sent.chat != OWNER));
}

fn newest_request(house: &House) -> String {
    let newest = house.model.requests().pop().expect("a request");
    newest["messages"].to_string()
}

#[test]
fn what_the_owner_wrote_down_is_read_for_a_guest_at_once() {
    let (house, pages, url) = with_page("");
    reads(&house, &url, "It says 4711.");
    house.telegram.say(ANA, ANA, &format!("look at {url}!"));
    house
        .telegram
        .wait_sent(|sent| sent.text == "It says 4711.", SOON);
    assert!(newest_request(&house).contains("The answer is 4711."));
    assert_eq!(pages.asked().len(), 1);
    nobody_is_asked(&house);
}

#[test]
fn what_nobody_named_is_not_read_and_the_chat_goes_on() {
    let (house, pages, url) = with_page("");
    for (number, other) in [
        format!("{url}?secret=ruby"),
        pages.url("/"),
        "http://169.254.169.254/latest/meta-data".to_owned(),
        "file:///etc/passwd".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        let then = format!("Never mind {number}.");
        reads(&house, other, &then);
        house.telegram.say(ANA, ANA, &format!("look at {url}"));
        house.telegram.wait_sent(|sent| sent.text == then, SOON);
        let told = newest_request(&house);
        assert!(told.contains(&format!("not read: {other}: ")), "{told}");
    }
    assert!(pages.asked().is_empty(), "{:?}", pages.asked());
    nobody_is_asked(&house);
    house
        .model
        .push(plan(&json!([{"kind": "send", "text": "Hello."}])));
    house.telegram.say(ANA, ANA, "hi");
    house.telegram.wait_sent(|sent| sent.text == "Hello.", SOON);
}

#[test]
fn an_address_inside_is_refused_also_when_a_guest_names_it() {
    let pages = Pages::start();
    let allowed = pages.url("/reboot");
    // What the owner may have read is not a guest's to name.
    let house = house(&format!("[tools.web]\nallow = [\"{}\"]\n", pages.host()));
    for (number, url) in [
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.1:1/",
        "http://[::1]/x",
        "http://0x7f000001/x",
        &allowed,
    ]
    .into_iter()
    .enumerate()
    {
        let then = format!("No, not {number}.");
        reads(&house, url, &then);
        house.telegram.say(ANA, ANA, &format!("look at {url}"));
        house.telegram.wait_sent(|sent| sent.text == then, SOON);
        let told = newest_request(&house);
        assert!(told.contains(&format!("not read: {url}: ")), "{told}");
    }
    assert!(pages.asked().is_empty(), "{:?}", pages.asked());
    nobody_is_asked(&house);
}

#[test]
fn the_settings_open_and_close_all_pages() {
    let (house, pages, url) = with_page("[tools.policies]\nweb_fetch = \"allow\"\n");
    reads(&house, &url, "It says 4711.");
    house.telegram.say(ANA, ANA, "what is the answer?");
    house
        .telegram
        .wait_sent(|sent| sent.text == "It says 4711.", SOON);
    assert_eq!(pages.asked().len(), 1);
    nobody_is_asked(&house);

    for policy in ["deny", "off", "ask"] {
        let (house, pages, url) =
            with_page(&format!("[tools.policies]\nweb_fetch = \"{policy}\"\n"));
        reads(&house, &url, "I cannot.");
        house.telegram.say(ANA, ANA, &format!("look at {url}"));
        house
            .telegram
            .wait_sent(|sent| sent.text == "I cannot.", SOON);
        assert!(newest_request(&house).contains("not read: "), "{policy}");
        assert!(pages.asked().is_empty(), "{policy}");
        nobody_is_asked(&house);
    }
}

#[test]
fn what_was_heard_in_a_group_was_named() {
    let (house, pages, url) =
        with_page("[telegram.groups.\"-100500\"]\nallow_from = [1001, 1002]\n");
    house.telegram.say(GROUP, OWNER, &format!("I found {url}"));
    let noted = "SELECT 1 FROM notes";
    wait_for("the chatter", SOON, || {
        (!house.sandbox.query("queue", noted).is_empty()).then_some(())
    });
    reads(&house, &url, "It says 4711.");
    let bot = format!("@{}", house.telegram.username());
    house
        .telegram
        .say(GROUP, ANA, &format!("{bot} what is behind that?"));
    house
        .telegram
        .wait_sent(|sent| sent.text == "It says 4711.", SOON);
    assert_eq!(pages.asked().len(), 1);
    nobody_is_asked(&house);
}

#[test]
fn a_tool_that_needs_the_owner_does_not_silence_the_chat_of_a_guest() {
    let house = house("[tools.exec]\npolicy = \"ask\"\n");
    house.model.push(Reply::Tool(
        "exec".into(),
        json!({"command": "touch canary"}),
    ));
    house
        .model
        .push(plan(&json!([{"kind": "send", "text": "I may not."}])));
    house.telegram.say(ANA, ANA, "make me a file");
    house
        .telegram
        .wait_sent(|sent| sent.text == "I may not.", SOON);
    let told = newest_request(&house);
    assert!(told.contains("it needs the owner's yes"), "{told}");
    nobody_is_asked(&house);
    assert!(house.sandbox.read("workspace/canary").is_none());
    // The owner's own chat waits for its owner.
    house.model.push(Reply::Tool(
        "exec".into(),
        json!({"command": "touch canary"}),
    ));
    house.telegram.say(OWNER, OWNER, "make me a file");
    house.telegram.wait_sent(
        |sent| sent.chat == OWNER && sent.text.contains("touch canary"),
        SOON,
    );
}

#[test]
fn pages_are_read_three_times_for_a_message_and_then_the_persona_answers() {
    let (house, pages, url) = with_page("");
    for _ in 0..4 {
        let again = json!([{"kind": "retrieve", "urls": [url, url]}]);
        house.model.push(plan(&again));
    }
    house
        .model
        .push(plan(&json!([{"kind": "send", "text": "It says 4711."}])));
    house.telegram.say(ANA, ANA, &format!("look at {url}"));
    house
        .telegram
        .wait_sent(|sent| sent.text == "It says 4711.", SOON);
    assert_eq!(pages.asked().len(), 3, "an address once each time");
    assert!(newest_request(&house).contains("no more are"));
    assert_eq!(
        house.telegram.sent().len(),
        1,
        "{:?}",
        house.telegram.sent()
    );
}
