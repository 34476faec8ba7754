//! Against the reference server that uses all of the protocol: `@modelcontextprotocol/server-everything` of npm, which .ci/run
//! installs into `target/ci-tools/everything` where there is node.

#![allow(clippy::print_stdout, reason = "a test says when it is skipped")]

use std::path::PathBuf;

use serde_json::json;

use super::{call, listed, trust};
use crate::support::Sandbox;

const SERVER: &str = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";

/// Returns node and where the server lies.
fn server() -> Option<(String, PathBuf)> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target"),
        PathBuf::from,
    );
    let dir = target.join("ci-tools/everything");
    let node = std::process::Command::new("sh")
        .args(["-c", "command -v node"])
        .output();
    let node = String::from_utf8(node.ok()?.stdout).ok()?;
    let is_there = dir.join(SERVER).is_file() && !node.trim().is_empty();
    is_there.then(|| (node.trim().to_owned(), dir))
}

#[test]
fn the_reference_server_that_uses_everything_is_understood() {
    let Some((node, dir)) = server() else {
        println!(
            "skipped: node or the reference server is not installed (npm install --prefix target/ci-tools/everything @modelcontextprotocol/server-everything)"
        );
        return;
    };
    let (model, sandbox) = Sandbox::with_model();
    let notes = sandbox.home().with_file_name("my notes");
    std::fs::create_dir_all(&notes).expect("the sandbox is writable");
    let command = json!([node, dir.join(SERVER), "stdio"]);
    let sandbox = sandbox.config(&format!(
        "[mcp.servers.all]\ncommand = {command}\nreads = {}\nwrites = {}\ntimeout_secs = 5\n",
        json!([dir]),
        json!([notes])
    ));
    let _daemon = sandbox.ready();
    let server = listed(&sandbox, "all", |server| server["tools"].is_array());
    let tools = server["tools"].as_array().expect("a list");
    let refused = tools.iter().map(|tool| &tool["refused"]);
    let mut refused = refused.filter(|why| !why.is_null());
    let as_task = "it runs only as a task, which is not supported";
    assert!(
        tools.len() > 10 && refused.all(|why| why == as_task),
        "{server}"
    );
    trust(&sandbox, "all");
    let ask = |tool: &str, input| call(&sandbox, &model, tool, &input);
    // Its tools are in the request itself, with all that they say.
    let answer = ask("all_echo", json!({"message": "hello"}));
    assert!(answer.contains("Echo: hello"), "{answer}");
    let request = model.requests().pop().expect("a request");
    let shown = request["tools"].as_array().expect("tools").clone();
    let echo = shown
        .iter()
        .find(|tool| tool["name"] == "all_echo")
        .expect("it is shown");
    assert_eq!(
        echo["input_schema"]["properties"]["message"]["type"],
        "string"
    );
    let answer = ask("all_get_tiny_image", json!({}));
    assert!(
        answer.contains("[image, image/png, ") && answer.contains("outbox/servers/all/"),
        "{answer}"
    );
    let answer = ask(
        "all_get_structured_content",
        json!({"location": "New York"}),
    );
    assert!(answer.contains("temperature"), "{answer}");
    // Longer than a call may take: it says that it goes on.
    let answer = ask(
        "all_trigger_long_running_operation",
        json!({"duration": 8, "steps": 8}),
    );
    assert!(answer.contains("completed"), "{answer}");
    let answer = ask("all_get_roots_list", json!({}));
    assert!(
        answer.contains("my%20notes") || answer.contains("my notes"),
        "{answer}"
    );
    let answer = ask(
        "all_get_resource_reference",
        json!({"resourceType": "Text", "resourceId": 1}),
    );
    assert!(
        answer.contains("[resource ") || answer.contains("resource"),
        "{answer}"
    );
    let answer = ask("all_resources", json!({}));
    assert!(answer.contains("demo://"), "{answer}");
    let answer = ask("all_prompts", json!({}));
    assert!(answer.contains("simple-prompt"), "{answer}");
}
