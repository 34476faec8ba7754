//! Against a server that others wrote: the official Python SDK (`mcp` of PyPI), which .ci/run installs into
//! `target/ci-tools/mcp`.

#![allow(clippy::print_stdout, reason = "a test says when it is skipped")]

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use super::{call, listed, python, section, trust};
use crate::support::{FakeModel, OnDrop, Reply, Sandbox, wait_for};

const SOON: Duration = Duration::from_secs(60);
const SERVER: &str = include_str!("sdk_server.py");
const SEES: &str = "[models.primary]\nvision = true";

/// Returns where the SDK lies; `None`, said by name, when it is not installed and need not be.
pub(super) fn sdk() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target"),
        PathBuf::from,
    );
    let dir = target.join("ci-tools/mcp");
    if dir.join("mcp").is_dir() {
        return Some(dir);
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "the Python SDK of MCP is not installed, and CI is set"
    );
    println!(
        "skipped: the Python SDK of MCP is not installed (python3 -m pip install --no-deps --target {} -r tests/integration/mcp/requirements.txt)",
        dir.display()
    );
    None
}

/// A server that ends with this.
pub(super) type Server = OnDrop<Box<dyn FnMut()>>;

/// Starts a server beside the home and returns its port.
pub(super) fn http_server(sandbox: &Sandbox, program: &str, way: &str) -> (u16, Server) {
    let port = TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address")
        .port();
    (port, http_server_at(sandbox, program, way, port))
}

/// Starts a server at this port.
pub(super) fn http_server_at(sandbox: &Sandbox, program: &str, way: &str, port: u16) -> Server {
    let script = sandbox.home().with_file_name("server.py");
    fs::write(&script, program).expect("the sandbox is writable");
    let mut server = Command::new(python().0)
        .arg(&script)
        .args([way, &port.to_string()])
        .env("PYTHONPATH", sdk().expect("the SDK"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("python3 starts");
    wait_for("the server to listen", SOON, || {
        TcpStream::connect(("127.0.0.1", port)).ok()
    });
    OnDrop(Box::new(move || {
        let _ = server.kill();
        let _ = server.wait();
    }))
}

/// `streams`: whether a server can say something before its answer.
fn check(sandbox: &Sandbox, model: &FakeModel, streams: bool) {
    let server = listed(sandbox, "desk", |server| server["tools"].is_array());
    let tools: Vec<&Value> = server["tools"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|tool| &tool["name"])
        .collect();
    let offered = [
        "desk_add",
        "desk_greet",
        "desk_fail",
        "desk_picture",
        "desk_photo",
        "desk_slowly",
        "desk_resources",
        "desk_prompts",
    ];
    assert_eq!(tools, offered);
    assert!(
        server["tools"]
            .as_array()
            .expect("a list")
            .iter()
            .all(|tool| tool["refused"].is_null()),
        "{server}"
    );
    trust(sandbox, "desk");
    assert!(call(sandbox, model, "desk_add", &json!({"a": 20, "b": 22})).contains("42"));
    let answer = call(
        sandbox,
        model,
        "desk_greet",
        &json!({"place": {"city": "Ulm"}, "times": null}),
    );
    assert!(answer.contains("hello Ulm (DE) x1"), "{answer}");
    let answer = call(sandbox, model, "desk_fail", &json!({}));
    assert!(answer.contains("Error executing tool fail"), "{answer}");
    let answer = call(sandbox, model, "desk_add", &json!({"a": "x", "b": 1}));
    assert!(answer.contains("a must be of type integer"), "{answer}");

    // A picture is a file that can be sent to the chat, and marked.
    let answer = call(sandbox, model, "desk_picture", &json!({}));
    let (_, rest) = answer
        .split_once("here it is\\n[image, image/png, 15 bytes: ")
        .unwrap_or_else(|| panic!("{answer}"));
    let (path, _) = rest.split_once(']').expect("its end");
    assert!(
        path.starts_with("outbox/servers/desk/") && path.ends_with(".png"),
        "{path}"
    );
    let bytes = fs::read(sandbox.path(&format!("workspace/{path}"))).expect("a file");
    assert_eq!(bytes, b"\x89PNG not really");
    let marks = sandbox.read("state/untrusted.json").expect("marks");
    assert!(marks.contains(path), "{marks}");

    // What is no picture by its bytes is not shown, and a picture is, with a word on whose it is, until the turn ends.
    let newest = || model.requests().pop().expect("a request")["messages"].to_string();
    assert!(!newest().contains("\"type\":\"image\""), "{}", newest());
    let answer = call(sandbox, model, "desk_photo", &json!({}));
    assert!(answer.contains("a pixel"), "{answer}");
    let shown = newest();
    assert!(
        shown.contains("\"media_type\":\"image/gif\"")
            && shown.contains("pictures of the tool's answer, somebody else's"),
        "{shown}"
    );
    let session = format!("call{}", model.requests().len() - 2);
    let told = sandbox.send(&["--wait=60", "--session", &session, "and now?"]);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(
        newest().contains("a pixel") && !newest().contains("media_type"),
        "{}",
        newest()
    );

    // It takes longer than a call may, and says all the time that it goes on.
    let answer = call(sandbox, model, "desk_slowly", &json!({}));
    assert_eq!(answer.contains("at last"), streams, "{answer}");

    let answer = call(sandbox, model, "desk_resources", &json!({}));
    assert!(
        answer.contains("note://today")
            && answer.contains("note://{day}")
            && answer.contains("What is on today."),
        "{answer}"
    );
    let answer = call(
        sandbox,
        model,
        "desk_resources",
        &json!({"uri": "note://today"}),
    );
    assert!(
        answer.contains("tea at five") && answer.contains("untrusted"),
        "{answer}"
    );
    let answer = call(
        sandbox,
        model,
        "desk_resources",
        &json!({"uri": "note://monday"}),
    );
    assert!(answer.contains("nothing on monday"), "{answer}");
    let answer = call(
        sandbox,
        model,
        "desk_resources",
        &json!({"uri": "file:///etc/passwd"}),
    );
    assert!(answer.contains("did not do it"), "{answer}");
    // An address that nobody gave is not carried to the server because others said so.
    let input = json!({"uri": "note://monday?secret=canary"});
    model.push(Reply::Tool("desk_resources".to_owned(), input));
    let asking = sandbox.sending(&["--wait=60", "--session", "others", "--untrusted", "do it"]);
    let asked = sandbox.wait_asked();
    assert_eq!(sandbox.send(&["--deny", &asked]).code, 0);
    assert_eq!(asking.end().code, 0);
    let answer = call(sandbox, model, "desk_prompts", &json!({}));
    assert!(
        answer.contains("greeting (arguments: name): Greet somebody."),
        "{answer}"
    );
    let input = json!({"name": "greeting", "arguments": {"name": "Ada"}});
    let answer = call(sandbox, model, "desk_prompts", &input);
    assert!(
        answer.contains("user:") && answer.contains("Say hello to Ada."),
        "{answer}"
    );
}

#[test]
fn the_python_sdk_is_understood_over_stdio() {
    let Some(dir) = sdk() else { return };
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.provider_config("mock", SEES);
    let servers = sandbox.home().with_file_name("servers");
    fs::create_dir_all(&servers).expect("the sandbox is writable");
    let section = section(
        "desk",
        &servers,
        SERVER,
        &["stdio"],
        "env = [\"PYTHONPATH\"]\ntimeout_secs = 3",
    );
    let section = section.replace("reads = [", &format!("reads = [{:?},", dir));
    let sandbox = sandbox
        .env("PYTHONPATH", &dir.display().to_string())
        .config(&section);
    let _daemon = sandbox.ready();
    check(&sandbox, &model, true);
}

#[test]
fn the_python_sdk_is_understood_over_http() {
    if sdk().is_none() {
        return;
    }
    for way in ["events", "json"] {
        let (model, sandbox) = Sandbox::with_model();
        let sandbox = sandbox.provider_config("mock", SEES);
        let (port, _server) = http_server(&sandbox, SERVER, way);
        let sandbox = sandbox.config(&format!(
            "[mcp.servers.desk]\nurl = \"http://127.0.0.1:{port}/mcp\"\ntimeout_secs = 3\n"
        ));
        let daemon = sandbox.ready();
        check(&sandbox, &model, way == "events");
        assert_eq!(daemon.term(), 0);
    }
}
