//! The facade, as programs use it that speak OpenAI's responses and embeddings, and OpenAI's own SDK.

#![allow(clippy::print_stdout, reason = "a test that is skipped says why")]

use std::{
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use serde_json::{Value, json};

use super::{Api, SOON, TOKEN};
use crate::support::{Reply, wait_for};

fn text(document: &Value) -> &str {
    let last = document["output"].as_array().and_then(|items| items.last());
    last.and_then(|item| item["content"][0]["text"].as_str())
        .unwrap_or_default()
}

#[test]
fn a_response_is_a_turn_and_the_next_one_follows_it() {
    let api = Api::new();
    let ask = |body: Value| api.post("/v1/responses", &body);
    let first =
        ask(json!({"model": "agent", "instructions": "Be short.", "input": "hello"})).json();
    assert_eq!(
        (&first["object"], &first["status"], text(&first)),
        (&json!("response"), &json!("completed"), "echo: hello")
    );
    let id = first["id"].as_str().expect("an id");
    assert!(id.starts_with("resp_"), "{first}");
    let usage = &first["usage"];
    let number = |name: &str| usage[name].as_u64().unwrap_or_default();
    assert!(number("output_tokens") > 0, "{usage}");
    assert_eq!(
        number("total_tokens"),
        number("input_tokens") + number("output_tokens")
    );
    assert!(api.model.requests()[0].to_string().contains("Be short."));

    let parts = json!([
        {"type": "input_text", "text": "and this?"},
        {"type": "input_image", "image_url": "data:image/png;base64,aGk="},
    ]);
    let items = json!([{"type": "reasoning", "summary": []}, {"role": "user", "content": parts}]);
    let second = ask(
        json!({"model": "primary", "input": items, "previous_response_id": id, "store": false}),
    );
    let second = second.json();
    assert_eq!(second["previous_response_id"], id);
    let read = api.model.requests().pop().expect("a request").to_string();
    assert!(
        read.contains("and this?") && read.contains("echo: hello"),
        "the conversation goes on: {read}"
    );
    // Another without it is another conversation.
    ask(json!({"model": "agent", "input": "who am I?"}));
    let read = api.model.requests().pop().expect("a request").to_string();
    assert!(!read.contains("echo: hello"), "{read}");

    let again = api.get(&format!("/v1/responses/{id}")).json();
    assert_eq!((&again["id"], text(&again)), (&first["id"], text(&first)));
}

#[test]
fn a_response_that_is_not_there_yet_is_in_progress() {
    let api = Api::new();
    api.model.push(Reply::Held("late".to_owned()));
    let client = api.client.clone();
    let asked = thread::spawn(move || {
        let headers = [
            ("content-type", "application/json"),
            ("idempotency-key", "late-1"),
        ];
        let body = json!({"model": "agent", "input": "hello"}).to_string();
        client.request("POST", "/v1/responses", &headers, body.as_bytes())
    });
    wait_for("the model to be asked", SOON, || {
        (api.model.in_flight() > 0).then_some(())
    });
    let look = || api.get("/v1/responses/resp_late-1").json();
    let early = look();
    assert_eq!(
        (&early["status"], &early["output"]),
        (&json!("in_progress"), &json!([]))
    );
    api.model.go_on();
    let answer = asked.join().expect("a client").json();
    let late = look();
    assert_eq!(
        (&late["status"], text(&late)),
        (&json!("completed"), "late")
    );
    assert_eq!(answer["id"], late["id"]);
}

#[test]
fn no_other_conversation_is_continued_and_what_cannot_be_done_is_refused_by_name() {
    let api = Api::new();
    // A message of the shell is none of the API's.
    let told = api.sandbox.send(&["--wait=20", "--id", "mine", "a secret"]);
    assert_eq!(told.code, 0, "{told:?}");
    for id in ["resp_mine", "resp_nobody", "mine", "resp_", "resp_../x"] {
        let body = json!({"model": "agent", "input": "go on", "previous_response_id": id});
        let refused = api.post("/v1/responses", &body);
        assert_eq!(refused.status, 404, "{id}: {refused:?}");
        assert_eq!(api.get(&format!("/v1/responses/{id}")).status, 404, "{id}");
    }
    let asked = api.model.requests().len();
    for (field, value) in [
        ("tools", json!([{"type": "web_search"}])),
        ("tool_choice", json!("required")),
        ("text", json!({"format": {"type": "json_schema"}})),
        ("conversation", json!("conv_1")),
        ("background", json!(true)),
        ("input", json!(5)),
        (
            "input",
            json!([{"type": "function_call_output", "output": "5"}]),
        ),
        (
            "input",
            json!([{"role": "user", "content": [{"type": "input_image", "image_url": "http://127.0.0.1/x"}]}]),
        ),
    ] {
        let mut body = json!({"model": "agent", "input": "hello"});
        body[field] = value;
        let refused = api.post("/v1/responses", &body);
        assert_eq!(refused.status, 400, "{body}: {refused:?}");
    }
    assert_eq!(api.model.requests().len(), asked);
}

#[test]
fn a_stream_of_events_has_the_answer_in_order() {
    let api = Api::new();
    let body = json!({"model": "agent", "stream": true, "input": "hello"});
    let events = api.post("/v1/responses", &body).events();
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    let mut kinds = names.clone();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed"
        ]
    );
    for (number, (name, event)) in events.iter().enumerate() {
        assert_eq!(
            (&event["type"], &event["sequence_number"]),
            (&json!(name), &json!(number))
        );
    }
    let words: String = events
        .iter()
        .filter_map(|(_, event)| event["delta"].as_str())
        .collect();
    assert_eq!(words, "echo: hello");
    assert_eq!(text(&events.last().expect("an end").1["response"]), words);
    api.model.push(Reply::Status(400, None));
    let failed = api.post("/v1/responses", &body).events();
    let ends: Vec<&str> = failed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        ends.last_chunk(),
        Some(&["error", "response.failed"]),
        "{failed:?}"
    );
}

#[test]
fn texts_become_the_vectors_by_which_memory_is_searched() {
    let api = Api::new();
    let ask = |body: Value| api.post("/v1/embeddings", &body);
    let texts = [
        "a dog in the garden",
        "a puppy on the lawn",
        "the interest rate of the bank",
    ];
    let answer = ask(json!({"model": "agent", "input": texts})).json();
    let vectors: Vec<Vec<f64>> = (0..3)
        .map(|index| {
            assert_eq!(answer["data"][index]["index"], index);
            serde_json::from_value(answer["data"][index]["embedding"].clone()).expect("numbers")
        })
        .collect();
    let near = |a: usize, b: usize| -> f64 {
        vectors[a].iter().zip(&vectors[b]).map(|(a, b)| a * b).sum()
    };
    assert!((near(0, 0) - 1.0).abs() < 1e-3, "of length 1");
    assert!(near(0, 1) > near(0, 2), "{} {}", near(0, 1), near(0, 2));

    let name = answer["model"].as_str().expect("a name");
    let one = ask(json!({"model": name, "input": texts[0], "encoding_format": "base64"})).json();
    let bytes = one["data"][0]["embedding"].as_str().expect("base64");
    let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, bytes);
    let first = f32::from_le_bytes(bytes.expect("base64")[..4].try_into().expect("four"));
    assert!((f64::from(first) - vectors[0][0]).abs() < 1e-6);

    for (body, status) in [
        (
            json!({"model": "agent", "input": "x", "dimensions": 8}),
            400,
        ),
        (
            json!({"model": "agent", "input": "x", "encoding_format": "int8"}),
            400,
        ),
        (json!({"model": "agent", "input": [1, 2]}), 400),
        (json!({"model": "agent", "input": []}), 400),
        (json!({"model": "agent", "input": ["x", " "]}), 400),
        (
            json!({"model": "text-embedding-3-small", "input": "x"}),
            404,
        ),
    ] {
        assert_eq!(ask(body.clone()).status, status, "{body}");
    }
}

/// Where `.ci/run` puts the SDK; `None`, with a word why, when it is not there.
fn sdk() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?;
    let place = target.join("ci-tools/openai");
    if !place.join("openai").is_dir() {
        println!("skipped: the OpenAI SDK is not in {}", place.display());
        return None;
    }
    Some(place)
}

#[test]
fn the_sdk_of_openai_talks_to_the_agent() {
    let Some(place) = sdk() else { return };
    let api = Api::new();
    let script = r#"
import openai
agent = openai.OpenAI(max_retries=0)
chat = agent.chat.completions.create(model="agent", messages=[{"role": "user", "content": "one"}])
print(chat.choices[0].message.content, chat.usage.total_tokens > 0)
parts = agent.chat.completions.create(model="agent", messages=[{"role": "user", "content": "two"}], stream=True)
print("".join(part.choices[0].delta.content or "" for part in parts if part.choices))
first = agent.responses.create(model="agent", input="three", instructions="Be short.")
print(first.output_text, first.status)
second = agent.responses.create(model="agent", input=[{"role": "user", "content": "four"}], previous_response_id=first.id)
print(second.output_text, agent.responses.retrieve(first.id).output_text)
with agent.responses.stream(model="agent", input="five") as events:
    kinds = [event.type for event in events]
    print(events.get_final_response().output_text, kinds[0], kinds[-1])
vectors = agent.embeddings.create(model="agent", input=["dog", "cat"]).data
print(len(vectors), len(vectors[0].embedding) == len(vectors[1].embedding) > 8)
print([model.id for model in agent.models.list()])
try:
    agent.responses.create(model="agent", input="six", tools=[{"type": "web_search"}])
except openai.BadRequestError as error:
    print("refused", "tools" in str(error))
"#;
    let told = Command::new("python3")
        .args(["-c", script])
        .env("PYTHONPATH", place)
        .env("OPENAI_API_KEY", TOKEN)
        .env(
            "OPENAI_BASE_URL",
            format!("http://127.0.0.1:{}/v1", api.port),
        )
        .env_remove("HTTP_PROXY")
        .env_remove("http_proxy")
        .output()
        .expect("python3 starts");
    let (said, trouble) = (
        String::from_utf8_lossy(&told.stdout).into_owned(),
        String::from_utf8_lossy(&told.stderr).into_owned(),
    );
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines,
        [
            "echo: one True",
            "echo: two",
            "echo: three completed",
            "echo: four echo: three",
            "echo: five response.created response.completed",
            "2 True",
            "['agent', 'primary']",
            "refused True"
        ],
        "{trouble}"
    );
}
