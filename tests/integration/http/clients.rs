//! Clients that people use with OpenAI's API, against the facade: LangChain and `llm` (Python), OpenAI's SDK and the AI SDK
//! (JavaScript). `.ci/run` installs them into `target/ci-tools`.

#![allow(clippy::print_stdout, reason = "a test that is skipped says why")]

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Api, TOKEN};

/// Returns a directory of the tools; `None`, with a word why, when `holds` is not in it.
fn tool(name: &str, holds: &str) -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?;
    let place = target.join("ci-tools").join(name);
    if place.join(holds).is_dir() {
        return Some(place);
    }
    println!("skipped: {holds} is not in {}", place.display());
    None
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/integration/http/clients")
        .join(name)
}

/// Runs a client against the API and returns its lines.
fn lines(api: &Api, client: &mut Command) -> Vec<String> {
    let told = client
        .env("OPENAI_API_KEY", TOKEN)
        .env(
            "OPENAI_BASE_URL",
            format!("http://127.0.0.1:{}/v1", api.port),
        )
        .env_remove("HTTP_PROXY")
        .env_remove("http_proxy")
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&told.stdout).into_owned();
    let trouble = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.status.success(), "{said}\n{trouble}");
    said.lines().map(str::to_owned).collect()
}

#[test]
fn langchain_talks_to_the_agent_and_is_told_what_it_cannot_have() {
    let Some(place) = tool("langchain", "langchain_openai") else {
        return;
    };
    let api = Api::new();
    let mut client = Command::new("python3");
    client
        .arg(script("langchain_client.py"))
        .env("PYTHONPATH", place);
    let expected = [
        "echo: one",
        "echo: two",
        "echo: four True",
        "echo: five",
        "echo: six",
        "['echo: seven', 'echo: eight']",
        "2 True",
        "refused: `response_format` is not supported",
        "refused: `tools` is not supported",
    ];
    assert_eq!(lines(&api, &mut client), expected);
}

#[test]
fn llm_talks_to_the_agent() {
    let Some(place) = tool("langchain", "llm") else {
        return;
    };
    let api = Api::new();
    let models = format!(
        "- model_id: agent\n  model_name: agent\n  api_key_name: agent\n  api_base: http://127.0.0.1:{}/v1\n",
        api.port
    );
    api.sandbox
        .put("llm/extra-openai-models.yaml", models.as_bytes());
    let ask = |arguments: &[&str]| {
        let mut client = Command::new("python3");
        client
            .args(["-m", "llm", "-m", "agent", "--key", TOKEN])
            .args(arguments)
            .env("LLM_USER_PATH", api.sandbox.path("llm"))
            .env("PYTHONPATH", &place);
        lines(&api, &mut client)
    };
    assert_eq!(ask(&["-s", "Be short.", "one"]), ["echo: one"]);
    assert!(api.model.requests()[0].to_string().contains("Be short."));
    assert_eq!(ask(&["-c", "--no-stream", "two"]), ["echo: two"]);
}

#[test]
fn the_sdks_for_javascript_talk_to_the_agent_and_are_told_what_they_cannot_have() {
    let Some(place) = tool("js-clients", "node_modules/ai") else {
        return;
    };
    let api = Api::new();
    let mut client = Command::new("node");
    client.arg(script("ai_sdk.mjs")).env("MODULES", place);
    let mut expected: Vec<String> = ["echo: one true", "echo: two", "echo: three", "2"]
        .map(str::to_owned)
        .to_vec();
    for (name, field) in [
        ("responses", "text.format"),
        ("chat", "response_format"),
        ("compatible", "response_format"),
    ] {
        expected.extend([
            format!("echo: {name} whole stop true"),
            format!("echo: {name} in parts stop"),
            format!("refused: 400 `{field}` is not supported"),
        ]);
    }
    expected.push("2 true".to_owned());
    assert_eq!(lines(&api, &mut client), expected);
}
