//! The bodies as sent.

use serde_json::{Value, json};

use super::*;
use crate::message::Message;
use crate::provider::test_server::{
    call, client, message, request, result, round_trip, system, thought, tools, user,
};

#[test]
fn the_address_may_end_in_v1_or_a_slash() {
    for (base, expected) in [
        (
            "https://api.anthropic.com",
            "https://api.anthropic.com/v1/messages",
        ),
        (
            "https://api.anthropic.com/",
            "https://api.anthropic.com/v1/messages",
        ),
        (
            "https://api.anthropic.com/v1",
            "https://api.anthropic.com/v1/messages",
        ),
        (
            " http://127.0.0.1:8082/v1/\n",
            "http://127.0.0.1:8082/v1/messages",
        ),
        (
            "http://127.0.0.1:8082/anthropic/",
            "http://127.0.0.1:8082/anthropic/v1/messages",
        ),
    ] {
        assert_eq!(
            Anthropic::new(client(), base, None).endpoint.url(),
            expected,
            "{base}"
        );
    }
}

#[test]
fn withdrawn_tools_are_named_and_forbidden() {
    let sent = body(&request(round_trip())).to_value();
    let tool = |name: &str| json!({"name": name, "description": "Not available now.", "input_schema": {"type": "object"}});
    assert_eq!(sent["tools"], json!([tool("exec"), tool("read")]));
    assert_eq!(sent["tool_choice"], json!({"type": "none"}));
}

#[test]
fn names_and_ids_of_other_vendors_are_made_to_fit() {
    let odd = message(
        Role::Assistant,
        [call("functions.exec:0", "shell run!", json!("ls"))],
    );
    let sent = body(&request(vec![user("hi"), odd])).to_value();
    let expected = json!({"type": "tool_use", "id": "functions_x2e_exec_x3a_0", "name": "shell_x20_run_x21_", "input": {"_raw": "ls"}});
    assert_eq!(sent["messages"][1]["content"][0], expected);
}

/// Takes the cache marks away, which move and are no part of the cached prefix.
fn unmarked(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.shift_remove("cache_control");
            object.values_mut().for_each(unmarked);
        }
        Value::Array(values) => values.iter_mut().for_each(unmarked),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn what_is_appended_leaves_the_bytes_before_it_unchanged() {
    let mut asked = request(Vec::new());
    asked.system = system();
    asked.tools = tools();
    asked.cache = true;
    let mut before: Option<String> = None;
    for end in 1..=round_trip().len() {
        asked.messages = round_trip().into_iter().take(end).collect();
        assert_eq!(
            body(&asked).to_value().to_string(),
            body(&asked.clone()).to_value().to_string(),
            "the same request gives the same bytes"
        );
        let mut sent = body(&asked).to_value();
        let marks = sent.to_string().matches("cache_control").count();
        assert_eq!(marks, 4);
        unmarked(&mut sent);
        let text = sent.to_string();
        if let Some(before) = before {
            // A turn may still grow, so compare up to the brackets that close it.
            assert!(
                text.starts_with(before.trim_end_matches([']', '}'])),
                "{before}\n{text}"
            );
        }
        before = Some(text);
    }
}

#[test]
fn after_a_step_of_many_calls_the_end_of_the_last_call_is_marked_for_the_cache_to_find() {
    for (calls, marked_before) in [(9, false), (10, true), (40, true)] {
        let ids: Vec<String> = (0..calls).map(|n| format!("t{n}")).collect();
        let mut asked = request(vec![
            user("go"),
            message(
                Role::Assistant,
                ids.iter()
                    .map(|id| call(id, "exec", json!({})))
                    .collect::<Vec<_>>(),
            ),
            message(
                Role::User,
                ids.iter()
                    .map(|id| result(id, "ok", false))
                    .collect::<Vec<_>>(),
            ),
        ]);
        asked.cache = true;
        asked.system = system();
        asked.tools = tools();
        let sent = body(&asked).to_value();
        let is_marked = |value: &Value| value.get("cache_control").is_some();
        assert_eq!(
            sent.to_string().matches("cache_control").count(),
            4,
            "{calls}"
        );
        assert_eq!(
            (
                is_marked(&sent["messages"][0]["content"][0]),
                is_marked(&sent["tools"][1])
            ),
            (marked_before, !marked_before)
        );
    }
}

#[test]
fn a_running_loop_without_its_own_thinking_is_not_asked_to_think() {
    let thinking = || {
        thought(
            "anthropic:test-model",
            json!({"type": "thinking", "thinking": "hm", "signature": "s"}),
        )
    };
    let foreign = || thought("openai:test-model", json!({"reasoning_content": "hm"}));
    let step = |id: &str, first: Option<Block>| {
        let answer: Vec<Block> = first
            .into_iter()
            .chain([call(id, "exec", json!({}))])
            .collect();
        [
            message(Role::Assistant, answer),
            message(Role::User, [result(id, "ok", false)]),
        ]
    };
    let sent = |steps: Vec<[Message; 2]>, more: Option<&str>| {
        let mut messages = vec![user("go")];
        messages.extend(steps.into_iter().flatten());
        messages.extend(more.map(user));
        let asked = Request {
            thinking: true,
            max_tokens: 4096,
            ..request(messages)
        };
        let body = body(&asked).to_value();
        (
            body.get("thinking").is_some(),
            body.to_string().matches("signature").count(),
        )
    };
    assert_eq!(sent(vec![], None), (true, 0));
    assert_eq!(sent(vec![step("1", Some(thinking()))], None), (true, 1));
    // Within a loop a model need not think again.
    assert_eq!(
        sent(vec![step("1", Some(thinking())), step("2", None)], None),
        (true, 1)
    );
    assert_eq!(
        sent(vec![step("1", None), step("2", Some(thinking()))], None),
        (false, 0)
    );
    assert_eq!(sent(vec![step("1", Some(foreign()))], None), (false, 0));
    // The person's next words come with the results: still the same loop.
    assert_eq!(sent(vec![step("1", None)], Some("and?")), (false, 0));
}

#[test]
fn each_tier_is_kept_as_long_as_the_settings_say() {
    let mut asked = request(vec![message(
        Role::User,
        vec![Block::Text { text: "hi".into() }],
    )]);
    asked.cache = true;
    asked.cache_ttl = [Ttl::Hour, Ttl::Hour, Ttl::Minutes5];
    asked.system = system();
    asked.tools = tools();
    let sent = body(&asked).to_value();
    let ttl = |value: &Value| value["cache_control"]["ttl"].as_str().map(str::to_owned);
    let kept: Vec<Option<String>> = sent["system"]
        .as_array()
        .expect("a list")
        .iter()
        .map(ttl)
        .collect();
    assert_eq!(kept.last(), Some(&Some("1h".to_owned())), "{sent}");
    assert_eq!(ttl(&sent["tools"][1]), Some("1h".to_owned()));
    assert_eq!(
        sent["messages"][0]["content"][0]["cache_control"],
        json!({"type": "ephemeral"})
    );
}
