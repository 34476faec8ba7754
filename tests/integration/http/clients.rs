//! Clients that people use with OpenAI's API, against the facade: LangChain and `llm` (Python), OpenAI's SDK and the AI SDK
//! (JavaScript). `.ci/run` installs them into `target/ci-tools`. Open WebUI, which takes 1.7 GB, is tried where it is.

#![allow(clippy::print_stdout, reason = "a test that is skipped says why")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use super::{Api, TOKEN, free_port};

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

#[test]
fn a_client_may_offer_tools_where_the_owner_said_that_they_are_never_called() {
    let body = json!({"model": "agent", "messages": [{"role": "user", "content": "one"}], "tool_choice": "auto",
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]});
    let strict = Api::new();
    let refused = strict.post("/v1/chat/completions", &body);
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(
        refused.text().contains("ignore_tools = true"),
        "{refused:?}"
    );
    let api = Api::with("[http]\nignore_tools = true");
    let answer = api.post("/v1/chat/completions", &body).json();
    assert_eq!(answer["choices"][0]["message"]["content"], "echo: one");
    let response = api.post(
        "/v1/responses",
        &json!({"model": "agent", "input": "two", "tools": [{"type": "function", "name": "f"}]}),
    );
    assert!(response.text().contains("echo: two"), "{response:?}");
    // What it must call it cannot have either way.
    let mut forced = body;
    forced["tool_choice"] = json!("required");
    assert_eq!(api.post("/v1/chat/completions", &forced).status, 400);
}

/// `uv venv target/ci-tools/open-webui` and `uv pip install open-webui` into it.
#[test]
fn open_webui_talks_to_the_agent() {
    let (Some(place), Some(browser)) = (
        tool("open-webui", "lib"),
        tool("browser", "node_modules/puppeteer-core"),
    ) else {
        return;
    };
    let api = Api::with("[http]\nignore_tools = true");
    let (port, data) = (free_port(), api.sandbox.path("webui"));
    std::fs::create_dir(&data).expect("a directory");
    let own = format!("http://127.0.0.1:{}/v1", api.port);
    let mut serve = Command::new(place.join("bin/open-webui"));
    serve
        .args(["serve", "--host", "127.0.0.1", "--port", &port.to_string()])
        .current_dir(&data)
        .env("DATA_DIR", &data)
        .env("OPENAI_API_BASE_URL", &own)
        .env("OPENAI_API_KEY", TOKEN)
        .env("RAG_OPENAI_API_BASE_URL", &own)
        .env("RAG_OPENAI_API_KEY", TOKEN)
        .env("RAG_EMBEDDING_ENGINE", "openai")
        .env("WEBUI_SECRET_KEY", TOKEN)
        .env("WEBUI_AUTH", "False")
        .envs(
            [
                "ENABLE_OLLAMA_API",
                "ENABLE_TITLE_GENERATION",
                "ENABLE_TAGS_GENERATION",
                "ENABLE_FOLLOW_UP_GENERATION",
                "ENABLE_AUTOCOMPLETE_GENERATION",
                "ENABLE_VERSION_UPDATE_CHECK",
                "ANONYMIZED_TELEMETRY",
            ]
            .map(|name| (name, "False")),
        )
        .envs([("OFFLINE_MODE", "True"), ("HF_HUB_OFFLINE", "1")])
        .env_remove("HTTP_PROXY")
        .env_remove("http_proxy")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut server = serve.spawn().expect("it starts");
    let mut client = Command::new("node");
    client
        .arg(script("open_webui.mjs"))
        .env("MODULES", browser)
        .env("WEBUI", format!("http://127.0.0.1:{port}"));
    let told = catch_unwind(AssertUnwindSafe(|| lines(&api, &mut client)));
    server.kill().expect("it runs");
    server.wait().expect("it ends");
    let told = told.unwrap_or_else(|trouble| std::panic::resume_unwind(trouble));
    assert_eq!(told, ["echo: one", "echo: two"]);
    // One conversation, and nothing on the side.
    assert_eq!(api.model.requests().len(), 2);
    assert!(api.model.requests()[1].to_string().contains("echo: one"));
}
