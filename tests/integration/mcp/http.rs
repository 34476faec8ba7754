//! Servers at an address: where the token goes, what a redirect is worth, and a session that is forgotten.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, Method, StatusCode},
    response::{IntoResponse as _, Response},
    routing::any,
};
use serde_json::{Value, json};

use super::{call, listed, trust};
use crate::support::Sandbox;

/// What the stand-in was sent: the way, the session, the token and the method of the message.
#[derive(Default)]
struct Heard {
    lines: Vec<String>,
    sessions: u32,
}

type Shared = Arc<Mutex<Heard>>;

async fn serve(
    State(heard): State<Shared>,
    way: Method,
    headers: HeaderMap,
    body: String,
) -> Response {
    let header = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or("-")
            .to_owned()
    };
    let message: Value = serde_json::from_str(&body).unwrap_or_default();
    let method = message["method"].as_str().unwrap_or("-").to_owned();
    let mut heard = heard.lock().expect("nobody panics");
    heard.lines.push(format!(
        "{way} {} {} {} {method}",
        header("mcp-session-id"),
        header("authorization"),
        header("mcp-protocol-version")
    ));
    if header("authorization") != "Bearer mcp-token-canary" {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let answer = |result: Value| {
        axum::Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
    };
    if method == "initialize" {
        heard.sessions += 1;
        let session = format!("s{}", heard.sessions);
        let told = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}});
        return ([("mcp-session-id", session)], answer(told)).into_response();
    }
    // Each session is forgotten after its list.
    let current = format!("s{}", heard.sessions);
    let is_first = current == "s1" && method == "tools/call";
    if is_first {
        // As the reference servers say it after a restart.
        let error = json!({"code": -32000, "message": "Bad Request: No valid session ID provided"});
        let answer = axum::Json(json!({"jsonrpc": "2.0", "id": null, "error": error}));
        return (StatusCode::BAD_REQUEST, answer).into_response();
    }
    if header("mcp-session-id") != current {
        return StatusCode::NOT_FOUND.into_response();
    }
    match method.as_str() {
        "tools/list" => {
            answer(json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}))
        }
        "tools/call" => {
            let ping = json!({"jsonrpc": "2.0", "id": "p", "method": "ping"});
            let result = json!({"jsonrpc": "2.0", "id": message["id"], "result": {"content": [{"type": "text", "text": "said over events"}]}});
            let events = format!(": hello\n\ndata: {ping}\n\nevent: message\ndata: {result}\n\n");
            ([("content-type", "text/event-stream")], events).into_response()
        }
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

/// Starts the stand-in; `/away` points elsewhere.
fn start(heard: Shared) -> (tokio::runtime::Runtime, u16) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    listener.set_nonblocking(true).expect("a socket");
    let away = move || async move {
        (
            StatusCode::TEMPORARY_REDIRECT,
            [("location", format!("http://127.0.0.1:{port}/mcp"))],
        )
    };
    let app = Router::new()
        .route("/mcp", any(serve))
        .route("/away", any(away))
        .with_state(heard);
    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        axum::serve(listener, app).await.expect("it serves");
    });
    (runtime, port)
}

#[test]
fn the_token_goes_to_the_written_address_and_a_forgotten_session_is_rebuilt() {
    let heard = Shared::default();
    let (_runtime, port) = start(heard.clone());
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.env("DESK_TOKEN", "mcp-token-canary").config(&format!(
        "[mcp.servers.desk]\nurl = \"http://127.0.0.1:{port}/mcp\"\ntoken_env = \"DESK_TOKEN\"\n\
         [mcp.servers.away]\nurl = \"http://127.0.0.1:{port}/away\"\ntoken_env = \"DESK_TOKEN\"\n\
         [mcp.servers.bare]\nurl = \"http://127.0.0.1:{port}/mcp\"\n"
    ));
    let daemon = sandbox.ready();
    let why = |name: &str| {
        listed(&sandbox, name, |server| server["broken"].is_string())["broken"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(
        why("away"),
        format!(
            "it points to http://127.0.0.1:{port}/mcp (HTTP 307); redirects are not followed, write the final address"
        )
    );
    assert_eq!(
        why("bare"),
        "it wants you to sign in: agent-send --mcp login bare, or set token_env (HTTP 401)"
    );
    trust(&sandbox, "desk");
    heard
        .lock()
        .expect("nobody panics")
        .lines
        .retain(|line| line.contains("canary"));
    let answer = call(&sandbox, &model, "desk_echo", &json!({}));
    assert!(answer.contains("said over events"), "{answer}");
    assert_eq!(daemon.term(), 0);
    let lines = heard.lock().expect("nobody panics").lines.clone();
    let lines: Vec<&str> = lines
        .iter()
        .map(String::as_str)
        .filter(|line| line.contains("canary"))
        .collect();
    // It is listened to beside the calls.
    let (listens, lines): (Vec<&str>, Vec<&str>) =
        lines.into_iter().partition(|line| line.starts_with("GET"));
    let listen = |session: &str| format!("GET {session} Bearer mcp-token-canary 2025-06-18 -");
    assert_eq!(listens, [listen("s1"), listen("s2")]);
    let expected = [
        "POST - Bearer mcp-token-canary 2025-11-25 initialize",
        "POST s1 Bearer mcp-token-canary 2025-06-18 notifications/initialized",
        "POST s1 Bearer mcp-token-canary 2025-06-18 tools/list",
        "POST s1 Bearer mcp-token-canary 2025-06-18 tools/call",
        "POST - Bearer mcp-token-canary 2025-11-25 initialize",
        "POST s2 Bearer mcp-token-canary 2025-06-18 notifications/initialized",
        "POST s2 Bearer mcp-token-canary 2025-06-18 tools/list",
        "POST s2 Bearer mcp-token-canary 2025-06-18 tools/call",
        "POST s2 Bearer mcp-token-canary 2025-06-18 -",
        "DELETE s2 Bearer mcp-token-canary 2025-06-18 -",
    ];
    assert_eq!(lines, expected);
    let log = sandbox
        .bash("cat state/logs/*.jsonl state/sessions/*.jsonl state/mcp.json")
        .stdout;
    assert!(!log.contains("mcp-token-canary"));
}
