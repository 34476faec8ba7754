//! Where the words of a persona stand in the requests to each vendor: in the place that the vendor documents for them, and
//! nowhere among what was said.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{FakeGemini, FakeModel, FakeTelegram, House, Reply, Sandbox};

const SOON: Duration = Duration::from_secs(20);
const ANA: i64 = 1002;
const PLAN: &str = r#"[{"kind": "send", "text": "Hello."}]"#;
/// What a persona is told: who it is, how it answers.
const TOLD: [&str; 2] = ["You are Mira", "# How you answer"];

fn persona() -> Sandbox {
    let personas = concat!(env!("CARGO_MANIFEST_DIR"), "/share/personas");
    Sandbox::new().config(&format!(
        "[agent]\nname = \"mira\"\nmode = \"plan\"\nplan_pause_ms = 50\nconfig_path = [\"{personas}\"]\n\
         [agent.typing]\nstart_delay_secs = 0.0\nchars_per_sec = 0.0"
    ))
}

/// Has Ana write twice, so that the second request has turns of both.
fn two_turns(house: &House) {
    for count in 1..=2 {
        house.telegram.say(ANA, ANA, &format!("hi number {count}"));
        crate::support::wait_for("the answer", SOON, || {
            (house.telegram.calls_of("sendMessage").len() == count).then_some(())
        });
    }
}

/// Checks that all of what it is told stands in `place`, and none of it in what was said.
fn check(place: &Value, said: &Value) {
    let (place, said) = (place.to_string(), said.to_string());
    for words in TOLD {
        assert!(place.contains(words), "{words}: {place}");
        assert!(!said.contains(words), "{words}: {said}");
    }
    for words in ["hi number 1", "Hello.", "hi number 2"] {
        assert!(said.contains(words), "{words}: {said}");
        assert!(!place.contains(words), "{words}: {place}");
    }
}

fn roles(messages: &Value) -> Vec<&str> {
    let messages = messages.as_array().expect("messages");
    messages
        .iter()
        .map(|message| message["role"].as_str().expect("a role"))
        .collect()
}

#[test]
fn gemini_is_told_in_system_instruction_alone() {
    let (telegram, gemini) = (FakeTelegram::start(), FakeGemini::saying(PLAN));
    let sandbox = persona()
        .with_telegram(&telegram)
        .env("MOCK_KEY", "key-mock-not-a-key")
        .provider_config(
            "mock",
            &format!(
                "type = \"gemini\"\nbase_url = \"{}\"\napi_key_env = \"MOCK_KEY\"\n[models.primary]\n\
                 model = \"gemini-3-flash\"\nmax_tokens = 8192\ncontext_window = 200000\n\
                 cost_per_mtok = [3.0, 15.0, 0.3, 3.75]",
                gemini.url()
            ),
        );
    // Its daemon talks to Gemini alone.
    let house = House::of(sandbox, telegram, FakeModel::start());
    two_turns(&house);
    let request = gemini.requests().pop().expect("a request");
    assert_eq!(roles(&request["contents"]), ["user", "model", "user"]);
    assert!(request["system_instruction"].get("role").is_none());
    check(&request["system_instruction"], &request["contents"]);
    let config = &request["generationConfig"];
    assert_eq!(config["responseMimeType"], "application/json", "{config}");
}

#[test]
fn anthropic_is_told_in_system_alone() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = persona().with_telegram(&telegram).with_anthropic(&model);
    let house = House::of(sandbox, telegram, model);
    (0..2).for_each(|_| house.model.push(Reply::Text(PLAN.into())));
    two_turns(&house);
    let request = house.model.requests().pop().expect("a request");
    assert_eq!(roles(&request["messages"]), ["user", "assistant", "user"]);
    check(&request["system"], &request["messages"]);
}

#[test]
fn openai_is_told_in_the_first_message_alone() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = persona().with_telegram(&telegram).with_openai(&model);
    let house = House::of(sandbox, telegram, model);
    (0..2).for_each(|_| house.model.push(Reply::Text(PLAN.into())));
    two_turns(&house);
    let request = house.model.requests().pop().expect("a request");
    let roles = roles(&request["messages"]);
    assert!(["system", "developer"].contains(&roles[0]), "{roles:?}");
    assert_eq!(roles[1..], ["user", "assistant", "user"]);
    let messages = request["messages"].as_array().expect("messages");
    check(&messages[0], &json!(messages[1..]));
    assert_eq!(request["response_format"]["type"], "json_schema");
}
