//! API keys: from the prompt or a pipe into auth.json, and out of it again.
#![allow(clippy::disallowed_methods, reason = "a test writes files plainly")]

use std::{os::unix::fs::PermissionsExt as _, process::Command};

use serde_json::{Value, json};

use super::{SOON, last_key, no_canary, no_secret_in_files};
use crate::support::{FakeIssuer, Sandbox, wait_for};
use crate::terminal::shell_on_terminal;

/// A home whose provider `mock` has the models of `issuer`, which knows keys that begin with `sk-`.
fn checked(issuer: &FakeIssuer) -> Sandbox {
    let file = format!(
        "type = \"anthropic\"\nbase_url = \"{}\"\napi_key_env = \"MOCK_KEY\"\n[models.primary]\nmodel = \"m\"\n",
        issuer.url()
    );
    Sandbox::new().provider_config("mock", &file)
}

fn login(sandbox: &Sandbox, arguments: &[&str], stdin: &str) -> crate::support::Output {
    let told = sandbox.run("agent-daemon", &[&["login"], arguments].concat(), stdin);
    no_canary("login", &told);
    told
}

fn stored(sandbox: &Sandbox, provider: &str) -> Value {
    sandbox.read_json("state/auth.json").unwrap_or_default()["providers"][provider]["api_key"]["key"].clone()
}

#[test]
fn a_key_is_checked_and_a_wrong_one_is_stored_only_when_asked() {
    let issuer = FakeIssuer::start();
    let sandbox = checked(&issuer);
    let told = login(&sandbox, &[], "wrong-canary-key\n");
    assert_eq!((told.code, told.stdout.as_str()), (1, ""), "{told:?}");
    assert!(
        told.stderr
            .contains("invalid x-api-key; nothing was stored\nhint: ")
            && told.stderr.contains("--no-check"),
        "{told:?}"
    );
    assert_eq!(sandbox.read("state/auth.json"), None);
    let told = login(&sandbox, &["mock", "--no-check"], "wrong-canary-key\n");
    assert_eq!(
        (told.code, stored(&sandbox, "mock")),
        (0, json!("wrong-canary-key")),
        "{told:?}"
    );
    let told = sandbox.run("agent-daemon", &["auth", "--check"], "");
    assert_eq!(told.code, 1, "{told:?}");
    let told = login(
        &sandbox,
        &["mock", "--api-key"],
        "  sk-canary-1111WXYZ  \r\nmore\n",
    );
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (
            0,
            "stored the key for mock that ends in WXYZ: it is good, 2 models\n"
        ),
        "{told:?}"
    );
    assert_eq!(stored(&sandbox, "mock"), json!("sk-canary-1111WXYZ"));
    let told = login(&sandbox, &["--json"], "sk-canary-2222WXYZ");
    assert_eq!(
        (&told.json()["stored"], &told.json()["checked"]),
        (&json!("api_key"), &json!("good")),
        "{told:?}"
    );
    for (input, words) in [
        ("", "there was no key"),
        ("\n", "there was no key"),
        ("two words\n", "that is no key"),
        ("kéy\n", "that is no key"),
    ] {
        let told = login(&sandbox, &[], input);
        assert_eq!(
            (told.code, told.stderr.contains(words)),
            (65, true),
            "{input:?}: {told:?}"
        );
    }
    assert_eq!(
        stored(&sandbox, "mock"),
        json!("sk-canary-2222WXYZ"),
        "what failed changed nothing"
    );
}

#[test]
fn a_key_never_stands_in_a_command_line() {
    let sandbox = Sandbox::new();
    for arguments in [
        ["login", "anthropic", "sk-canary-1"],
        ["login", "anthropic", "--api-key=sk-canary-1"],
    ] {
        assert_eq!(sandbox.run("agent-daemon", &arguments, "").code, 2);
    }
}

#[test]
fn a_new_home_has_a_model_after_two_commands() {
    let sandbox = Sandbox::new();
    std::fs::remove_file(sandbox.path("agent.toml")).expect("it is there");
    assert_eq!(sandbox.run("agent-daemon", &["init"], "").code, 0);
    let before = sandbox.read("agent.toml");
    let told = login(
        &sandbox,
        &["openrouter", "--no-check"],
        "sk-canary-1111WXYZ\n",
    );
    assert_eq!(told.code, 0, "{told:?}");
    let told = sandbox.run("agent-daemon", &["check", "--show-origin"], "");
    assert_eq!(told.code, 0, "{told:?}");
    assert!(
        told.stdout
            .contains("providers.load = [\"openrouter\"]  # agent-daemon login ("),
        "{told:?}"
    );
    assert_eq!(
        sandbox.read("agent.toml"),
        before,
        "agent.toml is never written"
    );
    // Drafts are no settings: not one that is broken, not one whose model has the same name.
    std::fs::write(sandbox.path("providers.d/draft.toml"), "no TOML").expect("write");
    // The first goes on answering; the second one's model can be named.
    let told = login(
        &sandbox,
        &["anthropic", "--no-check"],
        "sk-canary-2222WXYZ\n",
    );
    assert_eq!(told.code, 0, "{told:?}");
    let told = sandbox.run("agent-daemon", &["check", "--show-origin"], "");
    assert!(
        told.stdout
            .contains("providers.load = [\"openrouter\",\"anthropic\"]  #"),
        "{told:?}"
    );
    assert!(
        told.stderr
            .contains("answers: anthropic/claude-sonnet-4.5 of openrouter (model `primary`)"),
        "{told:?}"
    );
}

#[test]
fn a_daemon_uses_a_new_key_from_its_next_request_on_and_an_old_one_again_after_a_logout() {
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.env("MOCK_KEY", "sk-canary-environment");
    let daemon = sandbox.ready();
    let say = |text: &str| {
        let told = sandbox.send(&["--wait", text]);
        assert_eq!(told.stdout, format!("echo: {text}\n"), "{told:?}");
        last_key(&model)
    };
    assert_eq!(say("one"), "sk-canary-environment");
    let told = login(&sandbox, &["mock"], "sk-canary-stored\n");
    assert_eq!(
        told.stdout, "stored the key for mock that ends in ored: it is good, 1 model\n",
        "{told:?}"
    );
    assert!(
        told.stderr
            .contains("the running daemon uses mock from its next message on"),
        "{told:?}"
    );
    assert_eq!(say("two"), "sk-canary-stored");
    let told = sandbox.run("agent-daemon", &["auth"], "");
    no_canary("auth", &told);
    let expected = "mock  the key in state/auth.json, ends in ored\n        overrides: the variable MOCK_KEY, ends in ment\n";
    assert_eq!(told.stdout, expected);
    for expected in [
        "deleted the stored credentials of mock\n",
        "nothing was stored\n",
    ] {
        let told = sandbox.run("agent-daemon", &["logout", "mock"], "");
        assert_eq!((told.code, told.stdout.as_str()), (0, expected), "{told:?}");
    }
    assert_eq!(say("three"), "sk-canary-environment");
    assert!(!daemon.log().contains("canary"), "{}", daemon.log());
    assert_eq!(daemon.term(), 0);
    no_secret_in_files(&sandbox);
}

#[test]
fn logout_forgets_once_and_is_content_the_second_time() {
    let sandbox = Sandbox::new();
    for name in ["anthropic", "openai"] {
        assert_eq!(
            login(&sandbox, &[name, "--no-check"], "sk-canary-1\n").code,
            0
        );
    }
    let logout = |arguments: &[&str]| {
        sandbox.run(
            "agent-daemon",
            &[&["logout", "--json"], arguments].concat(),
            "",
        )
    };
    assert_eq!(logout(&[]).code, 2, "which one?");
    let unknown = logout(&["never"]);
    assert!(
        unknown.code == 1 && unknown.stdout.contains("no provider \\\"never\\\""),
        "{unknown:?}"
    );
    assert_eq!(logout(&["openai"]).json(), json!({"removed": ["openai"]}));
    assert_eq!(logout(&["openai"]).json(), json!({"removed": []}));
    assert_eq!(logout(&["--all"]).json(), json!({"removed": ["anthropic"]}));
    let told = logout(&["--all"]);
    assert_eq!((told.code, told.json()), (0, json!({"removed": []})));
    assert!(!super::holds_canary(&sandbox.path("state/auth.json")));
}

#[test]
fn a_file_that_makes_no_sense_configures_nothing_and_is_kept() {
    let (_model, sandbox) = Sandbox::with_model();
    let torn = b"{\"providers\": {\"mock\": {\"api_key\": {\"key\": \"sk-canary";
    sandbox.put("state/auth.json", torn);
    let told = sandbox.run("agent-daemon", &["auth", "--json"], "");
    assert_eq!(
        (told.code, &told.json()["file"]["state"]),
        (0, &json!("corrupt")),
        "{told:?}"
    );
    assert_eq!(
        told.json()["providers"][0]["in_force"]["source"],
        "environment"
    );
    let told = sandbox.run("agent-daemon", &["doctor", "--json"], "");
    assert!(told.stdout.contains("\"auth-unreadable\""), "{told:?}");
    no_canary("doctor", &told);
    let daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--wait", "hello"]).stdout, "echo: hello\n");
    assert_eq!(daemon.term(), 0);
    assert_eq!(
        std::fs::read(sandbox.path("state/auth.json")).expect("kept"),
        torn
    );
    let told = login(&sandbox, &["mock"], "sk-canary-new\n");
    assert!(
        told.stderr.contains("is kept as state/auth.json.corrupt-"),
        "{told:?}"
    );
}

#[test]
fn a_file_that_others_can_read_is_refused_and_a_start_of_the_daemon_repairs_it() {
    let (_model, sandbox) = Sandbox::with_model();
    let path = sandbox.put("state/auth.json", b"{}");
    let mode = || {
        std::fs::metadata(&path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777
    };
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("own file");
    for verb in ["auth", "check"] {
        let told = sandbox.run("agent-daemon", &[verb], "");
        assert_eq!(
            (told.code, told.stderr.contains("hint: chmod 600 ")),
            (78, true),
            "{told:?}"
        );
    }
    assert_eq!(mode(), 0o640, "looking changes nothing");
    assert_eq!(sandbox.ready().term(), 0);
    assert_eq!(mode(), 0o600);
}

#[test]
fn the_file_is_private_from_its_first_moment_on() {
    let sandbox = Sandbox::new();
    let trace = sandbox.home().join("trace");
    let script = format!(
        "umask 0; echo sk-canary-1111 | strace -f -o {} -e trace=open,openat,creat,chmod,fchmod,fchmodat,rename,renameat2 \
         agent-daemon login anthropic --no-check",
        trace.display()
    );
    let told = sandbox.bash(&script);
    if Command::new("strace")
        .arg("true")
        .output()
        .is_ok_and(|output| output.status.success())
    {
        assert_eq!(told.code, 0, "{told:?}");
        let trace = std::fs::read_to_string(&trace).expect("strace wrote it");
        let made: Vec<&str> = trace
            .lines()
            .filter(|line| line.contains("auth.") && line.contains("O_CREAT"))
            .collect();
        assert!(
            made.iter().any(|line| line.contains("auth.json.tmp-")),
            "{trace}"
        );
        // Another thread may speak before the call returns.
        let is_private =
            |line: &&str| line.contains(", 0600)") || line.contains(", 0600 <unfinished ...>");
        assert!(made.iter().all(is_private), "{made:#?}");
        assert!(
            !trace
                .lines()
                .any(|line| line.contains("chmod") && line.contains("auth.json")),
            "made so, not changed to it"
        );
    }
}

#[test]
fn what_is_typed_is_not_shown_and_the_terminal_is_as_before_whatever_ends_it() {
    let sandbox = Sandbox::new();
    for (typed, code) in [
        ("sk-canary-typed\r", 0),
        ("sk-canary\u{3}", 1),
        ("\u{4}", 1),
    ] {
        let line = "agent-daemon login anthropic --no-check; echo code=$?; stty -a";
        let Some(running) = shell_on_terminal(&sandbox, line) else {
            return;
        };
        running.wait_said("it is not shown): ");
        running.write(typed);
        running.wait_said(&format!("code={code}"));
        let told = running.end();
        assert!(
            told.stdout.contains(" echo ")
                && told.stdout.contains(" icanon ")
                && told.stdout.contains("isig"),
            "{told:?}"
        );
        no_canary("the terminal", &told);
    }
    assert_eq!(stored(&sandbox, "anthropic"), json!("sk-canary-typed"));
}

#[test]
fn a_signal_at_the_prompt_puts_the_terminal_back() {
    let sandbox = Sandbox::new();
    let Some(running) = shell_on_terminal(
        &sandbox,
        "agent-daemon login anthropic; echo code=$?; stty -a",
    ) else {
        return;
    };
    running.wait_said("it is not shown): ");
    let prompt = wait_for("the prompt's process", SOON, || {
        let pids = std::fs::read_dir("/proc")
            .ok()?
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let file = |pid: i32, name: &str| {
            std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default()
        };
        let home = sandbox.home().display().to_string();
        let mut found =
            pids.filter(|pid| file(*pid, "cmdline") == "agent-daemon\0login\0anthropic\0");
        found.find(|pid| file(*pid, "environ").contains(&home))
    });
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(prompt),
        nix::sys::signal::Signal::SIGTERM,
    )
    .expect("own process");
    let told = running.end();
    assert!(
        ["code=1", " echo ", " icanon "]
            .iter()
            .all(|words| told.stdout.contains(words)),
        "{told:?}"
    );
}
