//! The agent speaks: as voice messages by itself, by the tool `tts`, with a program or a server.

use std::time::Duration;

use rusqlite::types::Value as SqlValue;
use serde_json::json;

use crate::crash::{BETWEEN, DEATHS, GAVE_UP};
use crate::support::{FakeModel, FakeTelegram, Fault, FaultKind, House, Reply, Sandbox, wait_for};

const SOON: Duration = Duration::from_secs(30);
const OWNER: i64 = 1001;
/// Says the words by showing them after the beginning of an OGG page.
const PROGRAM: &str = r#"[media]
speak = ["sh", "-c", "printf OggS >\"$2\"; cat \"$1\" >>\"$2\"", "sh", "{text}", "{out}"]
"#;

fn voices(house: &House) -> Vec<Vec<u8>> {
    let sent = house.telegram.sent().into_iter();
    sent.filter(|sent| sent.method == "sendVoice")
        .map(|sent| sent.files[0].bytes.clone())
        .collect()
}

#[test]
fn answers_are_spoken_by_a_program_when_the_owner_wants_it() {
    let house = House::with(&format!("[agent]\nvoice = \"always\"\n{PROGRAM}"));
    house.telegram.say(OWNER, OWNER, "[[say **Hello** Ada.]]");
    house
        .telegram
        .wait_sent(|sent| sent.method == "sendVoice", SOON);
    assert_eq!(voices(&house), [b"OggSHello Ada.".to_vec()]);
}

#[test]
fn who_takes_no_voice_messages_gets_the_sound_as_a_file() {
    let house = House::with(&format!("[agent]\nvoice = \"always\"\n{PROGRAM}"));
    house.telegram.fault(Fault {
        method: "sendVoice",
        kind: FaultKind::Says(400, "VOICE_MESSAGES_FORBIDDEN"),
        count: 1,
    });
    house.telegram.say(OWNER, OWNER, "[[say Hello.]]");
    let sent = house
        .telegram
        .wait_sent(|sent| sent.method == "sendDocument", SOON);
    assert_eq!(sent.files[0].bytes, b"OggSHello.");
    let outbox = house.sandbox.path("workspace/outbox");
    assert_eq!(std::fs::read_dir(outbox).map_or(0, Iterator::count), 0);
}

#[test]
fn in_a_group_the_message_that_an_answer_is_for_is_replied_to_and_not_spoken() {
    let group = "[telegram.groups.\"-100500\"]\nrequire_mention = false\nallow_from = [1001]\n";
    let house = House::with(&format!("[agent]\nvoice = \"always\"\n{PROGRAM}{group}"));
    house.model.push(Reply::Text("[[reply_to:7]] Yes.".into()));
    house.telegram.say(-100_500, OWNER, "Is it done?");
    let sent = house
        .telegram
        .wait_sent(|sent| sent.method == "sendVoice", SOON);
    assert_eq!(sent.reply_to, Some(7));
    assert_eq!(voices(&house), [b"OggSYes.".to_vec()]);
}

#[test]
fn only_the_agents_own_words_are_spoken() {
    let house = House::with(&format!("[agent]\nvoice = \"always\"\n{PROGRAM}"));
    house.telegram.say(OWNER, OWNER, "/status");
    let sent = house.telegram.wait_sent(|sent| sent.chat == OWNER, SOON);
    assert_eq!(sent.method, "sendMessage", "{sent:?}");
}

#[test]
fn a_message_that_was_given_up_is_written_above_its_buttons() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let (sandbox, mut clock) = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .config(&format!("[agent]\nvoice = \"always\"\n{PROGRAM}"))
        .with_clock();
    for _ in 0..DEATHS {
        model.push(Reply::Hang);
    }
    telegram.say(OWNER, OWNER, "poison");
    for death in 1..=DEATHS {
        let daemon = sandbox.ready();
        model.wait_requests(death, SOON);
        daemon.kill9();
        clock.later(BETWEEN);
        if (3..DEATHS).contains(&death) {
            sandbox.ready().kill9();
            clock.later(Duration::from_secs(600));
        }
    }
    let _daemon = sandbox.ready();
    let told = telegram.wait_sent(|sent| sent.chat == OWNER, SOON);
    assert!(
        told.method == "sendMessage" && told.text.contains(GAVE_UP),
        "{told:?}"
    );
    assert!(!told.reply_markup.is_null(), "{told:?}");
}

#[test]
fn a_stop_ends_the_speaking() {
    // Of this test alone: others may run it beside.
    let sleep = format!("sleep 61.{}", std::process::id());
    let program =
        format!(r#"grep -q One \"$1\" && {sleep}; printf OggS >\"$2\"; cat \"$1\" >>\"$2\""#);
    let house = House::with(&format!(
        "[agent]\nvoice = \"always\"\n[media]\nspeak = [\"sh\", \"-c\", \"{program}\", \"sh\", \"{{text}}\", \"{{out}}\"]\n"
    ));
    let speaks = || {
        let processes = std::fs::read_dir("/proc").expect("the processes").flatten();
        let mut lines = processes.filter_map(|one| std::fs::read(one.path().join("cmdline")).ok());
        let sleeps = sleep.replace(' ', "\0") + "\0";
        lines.any(|line| line == sleeps.as_bytes())
    };
    house.telegram.say(OWNER, OWNER, "[[say One.]]");
    wait_for("the speaking", SOON, || speaks().then_some(()));
    house.telegram.say(OWNER, OWNER, "/stop");
    house
        .telegram
        .wait_sent(|sent| sent.text.starts_with("Stopped"), SOON);
    wait_for("its end", Duration::from_secs(3), || {
        (!speaks()).then_some(())
    });
    house.telegram.say(OWNER, OWNER, "[[say Two.]]");
    house
        .telegram
        .wait_sent(|sent| sent.method == "sendVoice", SOON);
    assert_eq!(voices(&house), [b"OggSTwo.".to_vec()]);
    let said = house.telegram.sent();
    assert!(!said.iter().any(|sent| sent.text == "One."), "{said:?}");
}

#[test]
fn what_cannot_be_spoken_is_written() {
    let house = House::with("[agent]\nvoice = \"always\"\n[media]\nspeak = [\"false\"]\n");
    house.telegram.say(OWNER, OWNER, "[[say Hello.]]");
    house.telegram.wait_sent(|sent| sent.text == "Hello.", SOON);
}

#[test]
fn a_server_speaks_for_the_tool_and_is_paid_by_the_character() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_openai(&model)
        .provider_config(
            "mock",
            "[models.mouth]\nmodel = \"tts-1\"\nvoice = \"nova\"\ncost_per_mchar = 15.0",
        )
        .config("[routing]\ntext_to_speech = \"mouth\"");
    let house = House::of(sandbox, telegram, model);
    house
        .model
        .push(Reply::Tool("tts".into(), json!({"text": "Hi Ada."})));
    house.telegram.say(OWNER, OWNER, "speak to me");
    house
        .telegram
        .wait_sent(|sent| sent.method == "sendVoice", SOON);
    assert_eq!(voices(&house), [b"OggS tts-1 nova Hi Ada.".to_vec()]);
    let cost = house.sandbox.query(
        "cost",
        "SELECT model, cost_nano_usd FROM costs WHERE kind = 'tts'",
    );
    assert_eq!(
        cost,
        [[SqlValue::Text("mouth".into()), SqlValue::Integer(105_000)].to_vec()]
    );
}

/// With the line that the manual page shows, where Debian's espeak-ng and opus-tools are installed.
#[test]
fn a_real_engine_speaks() {
    let is_there = |program: &str| std::path::Path::new("/usr/bin").join(program).exists();
    if !is_there("espeak-ng") || !is_there("opusenc") {
        return eprintln!("skipped: espeak-ng and opusenc are not installed");
    }
    let house = House::with(
        r#"
        [agent]
        voice = "always"
        [media]
        speak = ["sh", "-c", "espeak-ng -f \"$1\" --stdout | opusenc --quiet - \"$2\"", "sh", "{text}", "{out}"]
        "#,
    );
    house
        .telegram
        .say(OWNER, OWNER, "[[say Hello Ada, how are you?]]");
    house
        .telegram
        .wait_sent(|sent| sent.method == "sendVoice", SOON);
    let sound = voices(&house).remove(0);
    let is_opus = sound.windows(8).any(|bytes| bytes == b"OpusHead");
    assert!(
        sound.starts_with(b"OggS") && is_opus && sound.len() > 3000,
        "{}",
        sound.len()
    );
}
