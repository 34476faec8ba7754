//! What a tool server writes after its call: it is trusted no more than what it writes within it.

use super::*;
use crate::support::Reply;

#[test]
fn what_a_server_writes_after_an_untrusted_call_runs_only_with_a_yes() {
    let (model, sandbox) = Sandbox::with_model();
    let dir = sandbox.home().with_file_name("servers");
    fs::create_dir_all(&dir).expect("the sandbox is writable");
    let workspace = sandbox.path("workspace").display().to_string();
    let server = section(
        "t",
        &dir,
        include_str!("server.py"),
        &["late", &workspace],
        &format!("writes = [{workspace:?}]"),
    );
    let sandbox = sandbox.config(&server);
    let _daemon = sandbox.ready();
    sandbox.put("workspace/own.sh", b"echo own\n");
    trust(&sandbox, "t");
    let exec = |command: &str| {
        model.push(Reply::Tool("exec".to_owned(), json!({"command": command})));
    };
    let call = |tool: &str, more: &[&str]| {
        model.push(Reply::Tool(tool.to_owned(), json!({})));
        let told = sandbox.send(&[&["--wait=60"], more].concat());
        assert_eq!(told.code, 0, "{told:?}");
    };
    call("t_later", &["--untrusted", "--session", "page", "look"]);
    wait_for("what it writes later", SOON, || {
        sandbox.path("workspace/late.sh").exists().then_some(())
    });
    let canary = sandbox.path("workspace/canary");
    for (session, file, part) in [
        ("one", "late.sh", "lat"),
        ("two", "own.sh", "ow"),
        ("three", "dir/moved.sh", "mov"),
    ] {
        exec(&format!("sh {file}"));
        let asking = sandbox.sending(&["--wait=60", "--session", session, "run it"]);
        let asked = sandbox.wait_asked();
        assert_eq!(sandbox.send(&["--deny", &asked]).code, 0);
        assert_eq!(asking.end().code, 0);
        assert!(!canary.exists(), "{file}");
        // Nor by a name that the command does not say.
        exec(&format!("cat $(find . -type f | grep {part}) | sh"));
        let told = sandbox.send(&["--wait=60", "--session", session, "run it"]);
        assert_eq!(told.code, 0, "{told:?}");
        assert!(!canary.exists(), "{file}");
    }
    // What it writes in a call of the owner's, and what they have made there, asks nothing.
    call("t_now", &["--session", "four", "write it"]);
    exec("printf 'touch made # by a command\\n' > made.sh");
    let told = sandbox.send(&["--wait=60", "--session", "five", "make it"]);
    assert_eq!(told.code, 0, "{told:?}");
    for (session, file, made) in [("six", "now.sh", "wanted"), ("seven", "made.sh", "made")] {
        exec(&format!("sh {file}"));
        let told = sandbox.send(&["--wait=60", "--session", session, "run it"]);
        assert_eq!(told.code, 0, "{told:?}");
        assert!(
            sandbox.path(&format!("workspace/{made}")).exists(),
            "{told:?}"
        );
    }
}
