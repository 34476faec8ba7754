//! One person in two channels: an account is linked from another one by a code.

use serde_json::json;

use super::{SMS, SOON, Wire, said};
use crate::support::{FakeModel, FakeTelegram, Sandbox, wait_for};

const OWNER: i64 = 1001;
const GUEST: i64 = 1002;

fn told(telegram: &FakeTelegram, who: i64, words: &str) -> String {
    wait_for(words, SOON, || {
        let mut sent = telegram.sent().into_iter();
        sent.find(|one| one.chat == who && one.text.contains(words))
            .map(|one| one.text)
    })
}

/// Asks for a code in Telegram.
fn code(telegram: &FakeTelegram, who: i64) -> String {
    let before = telegram.sent().len();
    telegram.say(who, who, "/pair");
    let text = wait_for("a code", SOON, || {
        let sent = telegram.sent().split_off(before);
        sent.into_iter()
            .find(|one| one.chat == who && one.text.contains("show it to nobody"))
    })
    .text;
    let is_code = |word: &&str| word.len() == 16 && !word.contains(char::is_lowercase);
    text.lines().find(is_code).expect("a code").to_owned()
}

fn places() -> (FakeTelegram, FakeModel, Sandbox) {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .config(SMS)
        .config(&format!("[telegram]\nallow_from = [{GUEST}]\n[channels.sms.groups.club]\nrequire_mention = false"));
    (telegram, model, sandbox)
}

#[test]
fn an_account_is_linked_by_a_code_and_goes_on_with_the_conversation_as_the_same_person() {
    let (telegram, model, sandbox) = places();
    let daemon = sandbox.ready();
    let sms = Wire::new(&sandbox, "sms");
    telegram.say(OWNER, OWNER, "the code is 4711");
    told(&telegram, OWNER, "echo: the code is 4711");

    // A stranger is told a code of the other kind, until they send the one of the first account.
    sms.says("ada-phone", "1", "hi");
    sms.deliver("agent-send --pair approve");
    let code = code(&telegram, OWNER);
    // Somebody else's account, in a batch with what is said right after it.
    sms.say("ada-phone", "2", &code);
    sms.say("ada-phone", "3", "what was it");
    sms.deliver("linked with yours in telegram (1001)");
    sms.deliver("echo: what was it");
    let asked = model.requests().pop().expect("a request").to_string();
    assert!(asked.contains("4711"), "{asked}");
    assert!(!asked.contains(&code), "the model never reads the code");
    told(&telegram, OWNER, "sms:ada-phone");
    let keys = sandbox.send(&["--sessions", "--json"]).json();
    assert_eq!(keys["sessions"].as_array().map(Vec::len), Some(1), "{keys}");

    // They are the owner, there as here.
    sms.says("ada-phone", "4", "/cost");
    sms.deliver("Today: $");
    let list = sandbox.send(&["--pair", "list"]).stdout;
    assert!(
        list.contains("linked   sms:ada-phone  ada-phone of sms  with 1001"),
        "{list}"
    );
    let json = sandbox.send(&["--pair", "list", "--json"]).stdout;
    assert!(
        json.contains("ada-phone") && !json.contains("link_codes"),
        "{json}"
    );
    // By either name it is one conversation.
    let answer = sandbox.send(&["--wait", "--session", "sms:ada-phone", "by name"]);
    assert_eq!(answer.stdout, "echo: by name\n");
    let asked = model.requests().pop().expect("a request").to_string();
    assert!(asked.contains("4711"), "{asked}");

    // It holds over a restart, and until it is taken back.
    assert_eq!(daemon.term(), 0);
    let _daemon = sandbox.ready();
    sms.says("ada-phone", "5", "still me");
    sms.deliver("echo: still me");
    let revoked = sandbox.send(&["--pair", "revoke", "sms:ada-phone"]);
    assert_eq!(revoked.code, 0, "{revoked:?}");
    sms.says("ada-phone", "6", "and now");
    sms.deliver("agent-send --pair approve");
}

#[test]
fn a_code_links_nobody_it_should_not() {
    let (telegram, model, sandbox) = places();
    let _daemon = sandbox.ready();
    let sms = Wire::new(&sandbox, "sms");
    // A guest's code does not take over an owner or another guest, whoever talks them into sending it.
    let guests = code(&telegram, GUEST);
    for who in ["ada", "bob"] {
        sms.says(who, "1", &guests);
        sms.deliver("I know this account under its own name");
    }
    telegram.say(GUEST, GUEST, &guests);
    told(&telegram, GUEST, "yours already");
    // A stranger's account counts as the guest's then, and is no owner's.
    sms.says("gran", "1", &guests);
    sms.deliver("linked with yours in telegram (1002)");
    sms.says("gran", "2", "/cost");
    sms.deliver("Only my owner may ask that.");
    // Used up; and in a group, in the shell and by a stranger there is none.
    sms.says("eve", "1", &guests);
    sms.deliver("I do not know you yet");
    let shell = sandbox.send(&["--wait", "/pair"]);
    assert!(
        shell.stdout.contains("agent-send --pair owner"),
        "{shell:?}"
    );
    let mut line = said("ada", "9", "/pair");
    line["chat"] = json!("club");
    line["group"] = json!("The Club");
    sms.put(&line);
    sms.deliver("Ask me that in our own chat.");
    assert!(model.requests().is_empty(), "no code was read by a model");
}

#[test]
fn a_code_that_cannot_be_written_down_is_asked_for_again_and_still_holds() {
    let (telegram, _model, sandbox) = places();
    let _daemon = sandbox.ready();
    let sms = Wire::new(&sandbox, "sms");
    let code = code(&telegram, OWNER);
    let lock = sandbox.path("state/people.lock");
    std::fs::remove_file(&lock).expect("the lock is a file");
    std::fs::create_dir(&lock).expect("a directory in its place");
    sms.says("ada-phone", "1", &code);
    sms.deliver("Send me the code again");
    std::fs::remove_dir(&lock).expect("our directory");
    sms.says("ada-phone", "2", &code);
    sms.deliver("linked with yours in telegram (1001)");
}
