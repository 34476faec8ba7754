//! Exchanges as the vendors' documentation describes them, each a file below `tests/exchanges`: what is
//! asked, the exact body that must be sent, the answer that comes, and what becomes of it.
//!
//! A file's `request` is neutral, with `tools` and `system` as switches for those of `loopback`; its
//! `answer` has `events` (a stream) or `status` and `json`. A call's id `made` stands for one that we
//! make, and tokens `estimated` for any number.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::test_server::{Reply, Server, attempt, client, system, tools};
use crate::message::{Block, Message};
use crate::provider::{Error, Provider, Request, Response, anthropic, gemini, openai};
use crate::secret::Secret;

fn files(vendor: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/exchanges")
        .join(vendor);
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .expect("the folder")
        .map(|file| file.expect("a file").path())
        .collect();
    files.sort();
    files
}

fn asked(file: &Value) -> Request {
    let request = &file["request"];
    let mut messages: Vec<Message> =
        serde_json::from_value(request["messages"].clone()).expect("messages");
    for block in messages.iter_mut().flat_map(|message| &mut message.content) {
        if let Block::Image { data, .. } = block {
            *data = Some("iVBORw0KGgo=".into());
        }
    }
    let is = |key: &str| request[key] == true;
    Request {
        model: request["model"].as_str().expect("a model").to_owned(),
        max_tokens: serde_json::from_value(request["max_tokens"].clone()).expect("max_tokens"),
        system: if is("system") { system() } else { Vec::new() },
        tools: if is("tools") { tools() } else { [].into() },
        may_call: request["may_call"] != false,
        messages: messages.into(),
        cache: is("cache"),
        cache_ttl: Default::default(),
        thinking: is("thinking"),
        begin_within: Some(Duration::from_secs(5)),
        schema: None,
    }
}

fn reply(answer: &Value) -> Reply {
    let Some(events) = answer["events"].as_array() else {
        let status = serde_json::from_value(answer["status"].clone()).expect("a status");
        return Reply::json(status, &answer["json"]);
    };
    let event = |event: &Value| {
        let name = event["type"].as_str().filter(|_| answer["bare"] != true);
        let name = name.map_or_else(String::new, |name| format!("event: {name}\n"));
        let data = event
            .as_str()
            .map_or_else(|| event.to_string(), str::to_owned);
        format!("{name}data: {data}\n\n")
    };
    Reply::events(&events.iter().map(event).collect::<String>())
}

/// Returns the response as the files write it.
fn plain(response: &Response, expected: &Value) -> Value {
    let mut content = serde_json::to_value(&response.message.content).expect("blocks");
    for (at, block) in content
        .as_array_mut()
        .expect("a list")
        .iter_mut()
        .enumerate()
    {
        if expected["content"][at]["id"] == "made" {
            let id = block["id"].as_str().unwrap_or_default();
            assert!(crate::provider::partial_message::is_made_id(id), "{id}");
            block["id"] = json!("made");
        }
        // The files write it always.
        if block["type"] == "tool_result" {
            block["is_error"] = json!(block["is_error"] == true);
        }
    }
    let mut usage = serde_json::to_value(response.usage).expect("usage");
    if response.usage.estimated {
        usage["input_tokens"] = json!("estimated");
        usage["output_tokens"] = json!("estimated");
        usage
            .as_object_mut()
            .expect("an object")
            .remove("estimated");
    }
    json!({"content": content, "stop": response.stop, "usage": usage})
}

fn kind(error: &Error) -> &'static str {
    match error {
        Error::ContextOverflow { .. } => "overflow",
        Error::Interrupted { again: true, .. } => "interrupted",
        Error::Interrupted { .. } => "interrupted for good",
        Error::Unreachable { .. } => "unreachable",
        Error::Busy { .. } => "busy",
        Error::Auth { .. } => "auth",
        Error::Exhausted { .. } => "exhausted",
        Error::Missing { .. } => "missing",
        Error::WebPage { .. } => "page",
        Error::Rejected { .. } => "rejected",
    }
}

async fn play(vendor: &str, provider: impl Fn(&str, Option<Secret>) -> Box<dyn Provider>) {
    for path in files(vendor) {
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let file: Value = serde_json::from_slice(&std::fs::read(&path).expect("read"))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let server = Server::start([reply(&file["answer"])]).await;
        let provider = provider(&server.url, Some(Secret::new("key-0123456789")));
        let (answer, streamed) = attempt(&*provider, &asked(&file)).await;

        let sent = server.request();
        assert_eq!(
            sent.path,
            file["path"].as_str().expect("a path"),
            "{vendor}/{name}"
        );
        assert!(
            !sent.path.contains("key-"),
            "{vendor}/{name}: the key is in the URL"
        );
        let body: Value = serde_json::from_str(&sent.body).expect("JSON");
        assert_eq!(
            body, file["sent"],
            "{vendor}/{name}: what was sent\n{body:#}"
        );

        match answer {
            Ok(response) => {
                let expected = &file["response"];
                assert_eq!(
                    &plain(&response, expected),
                    expected,
                    "{vendor}/{name}: what became of the answer"
                );
                let texts = response
                    .message
                    .content
                    .iter()
                    .filter_map(|block| match block {
                        Block::Text { text } => Some(text.as_str()),
                        _ => None,
                    });
                assert_eq!(
                    streamed,
                    texts.collect::<String>(),
                    "{vendor}/{name}: what was streamed is what was said"
                );
            }
            Err(error) => assert_eq!(
                Some(kind(&error)),
                file["error"].as_str(),
                "{vendor}/{name}: {error}"
            ),
        }
    }
}

#[tokio::test]
async fn exchanges_with_anthropic_are_as_documented() {
    play("anthropic", |url, key| {
        Box::new(anthropic::Anthropic::new(client(), url, key))
    })
    .await;
}

#[tokio::test]
async fn exchanges_with_openai_are_as_documented() {
    play("openai", |url, key| {
        Box::new(openai::OpenAi::new(client(), url, key))
    })
    .await;
}

#[tokio::test]
async fn exchanges_with_gemini_are_as_documented() {
    play("gemini", |url, key| {
        Box::new(gemini::Gemini::new(client(), url, key))
    })
    .await;
}
