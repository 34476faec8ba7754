//! Streams over HTTP: an answer whose stream broke off, what a server says by itself, a server that was restarted. Against
//! the official Python SDK, and against one that breaks the rules.

use std::{
    io::{Read, Write},
    net::TcpListener,
    thread,
    time::Duration,
};

use serde_json::json;

use super::sdk::{http_server, http_server_at, sdk};
use super::{call, listed, trust};
use crate::support::{Sandbox, wait_for};

const SERVER: &str = include_str!("streams_server.py");
const SOON: Duration = Duration::from_secs(60);

#[test]
fn a_stream_that_broke_off_is_taken_up_again_and_a_restart_is_noticed() {
    if sdk().is_none() {
        return;
    }
    let (model, sandbox) = Sandbox::with_model();
    let (port, server) = http_server(&sandbox, SERVER, "events");
    let sandbox = sandbox.config(&format!(
        "[mcp.servers.desk]\nurl = \"http://127.0.0.1:{port}/mcp\"\ntimeout_secs = 10\n"
    ));
    let daemon = sandbox.ready();
    trust(&sandbox, "desk");
    let answer = call(&sandbox, &model, "desk_broken", &json!({}));
    assert!(answer.contains("whole again"), "{answer}");

    // It says by itself that its tools changed; they are off until they were looked at.
    let first = listed(&sandbox, "desk", |server| server["on"] == true)["sha256"].clone();
    assert!(call(&sandbox, &model, "desk_grow", &json!({})).contains("grown"));
    let grown = listed(&sandbox, "desk", |server| server["on"] == false);
    assert!(grown["tools"].to_string().contains("desk_fresh"), "{grown}");
    trust(&sandbox, "desk");
    assert!(call(&sandbox, &model, "desk_fresh", &json!({})).contains("fresh"));

    // Restarted with the tools of before: noticed without a call, and usable at once.
    drop(server);
    let _server = http_server_at(&sandbox, SERVER, "events", port);
    let again = listed(&sandbox, "desk", |server| server["sha256"] == first);
    assert_eq!(again["on"], false, "{again}");
    trust(&sandbox, "desk");
    let answer = call(&sandbox, &model, "desk_broken", &json!({}));
    assert!(answer.contains("whole again"), "{answer}");
    assert_eq!(daemon.term(), 0);
}

/// Serves until the listener is closed: greets, lists one tool, and floods on the other stream.
fn flooder(listener: &TcpListener) {
    while let Ok((mut stream, _)) = listener.accept() {
        thread::spawn(move || {
            let mut bytes = vec![0; 65536];
            let read = stream.read(&mut bytes).unwrap_or(0);
            let request =
                String::from_utf8_lossy(bytes.get(..read).unwrap_or_default()).into_owned();
            if request.starts_with("GET") {
                let _ =
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n");
                let notice = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";
                while stream.write_all(notice.as_bytes()).is_ok() {}
                return;
            }
            let body = request.split("\r\n\r\n").nth(1).unwrap_or_default();
            let message: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
            let result = match message["method"].as_str() {
                Some("initialize") => {
                    json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "f", "version": "1"}})
                }
                Some("tools/list") => {
                    json!({"tools": [{"name": "a", "inputSchema": {"type": "object"}}]})
                }
                _ => json!({}),
            };
            let answer =
                json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
            let _ = stream.write_all(
                format!("HTTP/1.1 200 OK\r\nmcp-session-id: f\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{answer}", answer.len()).as_bytes(),
            );
        });
    }
}

#[test]
fn a_server_that_floods_the_other_stream_is_named() {
    let (_model, sandbox) = Sandbox::with_model();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || flooder(&listener));
    let sandbox = sandbox.config(&format!(
        "[mcp.servers.flood]\nurl = \"http://127.0.0.1:{port}/mcp\"\n"
    ));
    let daemon = sandbox.ready();
    let broken = wait_for("the flood to be named", SOON, || {
        let server = listed(&sandbox, "flood", |_| true);
        server["broken"].as_str().map(str::to_owned)
    });
    assert_eq!(
        broken,
        "it floods the agent with messages that nobody requested"
    );
    assert_eq!(daemon.term(), 0);
}
