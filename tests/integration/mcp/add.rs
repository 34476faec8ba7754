//! `agent-send --mcp add`: from a command, or from the document of another program, to a tool that is used.
#![allow(clippy::disallowed_methods, reason = "a test writes files plainly")]

use std::fs;

use serde_json::{Value, json};

use super::{call, python, trust};
use crate::support::Sandbox;

#[test]
fn a_server_is_added_by_its_command_and_by_a_pasted_document() {
    let (model, sandbox) = Sandbox::with_model();
    let dir = sandbox.home().with_file_name("servers");
    fs::create_dir_all(&dir).expect("the sandbox is writable");
    let script = dir.join("server.py");
    fs::write(&script, include_str!("server.py")).expect("the sandbox is writable");
    let script = script.display().to_string();
    let (python, reads) = python();
    let reads: Vec<String> = reads.into_iter().chain([script.clone()]).collect();
    let reads = format!("reads={}", reads.join(","));
    let toml = || fs::read_to_string(sandbox.path("agent.toml")).expect("settings");
    let before = toml();

    // Without a daemon it is written down, and said.
    let early = sandbox.send(&["--mcp", "add", "early", &reads, "--", &python, &script]);
    assert_eq!(early.code, 0, "{early:?}");
    assert!(
        early.stderr.contains("started with the daemon"),
        "{early:?}"
    );
    assert!(toml().starts_with(before.trim_end()), "{}", toml());
    // A key of several lines, and what would be a comment: read back as they are, or a second server with the same
    // would find another value.
    let document = |name: &str, env: &Value| {
        json!({"mcpServers": {name: {"command": "x", "env": env}}}).to_string()
    };
    let lines = json!({"LINES": "-----BEGIN KEY-----\nAGENT_HOOK_A=known\n-----END KEY-----\n", "TAIL": "abc #tail"});
    for name in ["lines", "again"] {
        let given = sandbox.run(
            "agent-send",
            &["--mcp", "add", "-"],
            &document(name, &lines),
        );
        assert_eq!(given.code, 0, "{given:?}");
    }
    let env = sandbox.read(".env").expect("secrets");
    assert_eq!(
        env.lines().filter(|line| line.contains('=')).count(),
        2,
        "{env}"
    );
    // What lets people in is nobody else's to name.
    for (env, code) in [
        (json!({"X": "1", "AGENT_HTTP_TOKEN": "known"}), 65),
        (json!({"X": "1", "Y\nAGENT_HTTP_TOKEN": "known"}), 78),
    ] {
        let refused = sandbox.run("agent-send", &["--mcp", "add", "-"], &document("x", &env));
        assert_eq!(refused.code, code, "{refused:?}");
    }
    let two = json!({"mcpServers": {
        "x": {"command": "x", "env": {"K": "of-x"}}, "y": {"command": "y", "env": {"K": "of-y"}}
    }});
    let refused = sandbox.run("agent-send", &["--mcp", "add", "-"], &two.to_string());
    assert_eq!(refused.code, 65, "{refused:?}");
    assert_eq!(sandbox.read(".env").as_deref(), Some(&*env));
    let checked = sandbox.run("agent-daemon", &["check"], "");
    assert_eq!(checked.code, 0, "{checked:?}");
    let _daemon = sandbox.ready();

    let added = sandbox.send(&["--mcp", "add", "desk", &reads, "--", &python, &script]);
    assert_eq!(added.code, 0, "{added:?}");
    for words in [
        "[mcp.servers.desk]",
        "desk_echo: Say it back.",
        "agent-send --mcp trust desk@",
    ] {
        assert!(added.stdout.contains(words), "{words}: {added:?}");
    }
    trust(&sandbox, "desk");
    let said = call(&sandbox, &model, "desk_echo", &json!({"words": "hello"}));
    assert!(said.contains("hello"), "{said}");

    // The document of another program, with a secret.
    let document = json!({"mcpServers": {"my-notes": {
        "command": python, "args": [script], "env": {"NOTES_KEY": "k-1234567890abcdef"}
    }}});
    let given = sandbox.run(
        "agent-send",
        &["--json", "--mcp", "add", "-"],
        &document.to_string(),
    );
    assert!(
        given.code == 0 && !given.stdout.contains("k-1234567890"),
        "{given:?}"
    );
    let answer: Value = given.json();
    assert_eq!(answer["added"][0]["name"], "my_notes");
    // The wall hides the script, and the reason says which setting shows it.
    let broken = answer["added"][0]["broken"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert!(broken.contains("`reads`"), "{answer}");
    assert!(
        toml().contains("env = [\"NOTES_KEY\"]") && !toml().contains("k-1234567890"),
        "{}",
        toml()
    );
    let secrets = fs::read_to_string(sandbox.path(".env")).expect("secrets");
    assert!(secrets.contains("NOTES_KEY=k-1234567890abcdef"));
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(sandbox.path(".env"))
            .expect("a file")
            .permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);

    // What cannot be written changes nothing.
    let now = toml();
    let other =
        json!({"mcpServers": {"x": {"command": "x", "env": {"NOTES_KEY": "another"}}}}).to_string();
    for (words, input, code) in [
        (&["--mcp", "add", "desk", "--", "x"][..], "", 65),
        (&["--mcp", "add", "my-notes", "--", "x"], "", 2),
        (&["--mcp", "add", "x", "url=ftp://a"], "", 78),
        (&["--mcp", "add", "x"], "", 74),
        (&["--mcp", "add", "x", "network=a b", "--", "x"], "", 78),
        (&["--mcp", "add", "-"], "{", 2),
        (&["--mcp", "add", "-"], &other, 65),
    ] {
        let told = sandbox.run("agent-send", words, input);
        assert_eq!(told.code, code, "{words:?}: {told:?}");
        assert_eq!(toml(), now, "{words:?}");
    }
    // Words behind `--` are still words.
    let said = sandbox.send(&["--wait", "--", "-hello"]);
    assert_eq!(said.code, 0, "{said:?}");
}
