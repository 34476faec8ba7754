//! The first minutes: a home is made, a key is enough, a typo is an error everywhere, and a wrong home is no home.

use std::{fs, time::Duration};

use nix::sys::signal::Signal;

use crate::support::{FakeModel, FakeTelegram, Running, Sandbox, wait_for};
use crate::terminal::shell_on_terminal;

/// Long against everything that happens here.
const SOON: Duration = Duration::from_secs(30);

/// A home that `init` made and nobody touched.
fn new_home() -> Sandbox {
    let sandbox = Sandbox::new();
    fs::remove_file(sandbox.path("agent.toml")).expect("it is there");
    let told = sandbox.run("agent-daemon", &["init"], "");
    assert_eq!(told.code, 0, "{told:?}");
    let again = sandbox.run("agent-daemon", &["init", "--json"], "").json();
    let names = |list: &str| again[list].as_array().map(Vec::len);
    assert_eq!(names("created"), Some(0), "{again}");
    assert!(names("kept") > Some(0), "{again}");
    for word in ["agent-daemon run", "agent-send", "agent-daemon login"] {
        assert!(told.stderr.contains(word), "{word}: {told:?}");
    }
    sandbox
}

#[test]
fn a_typo_is_an_error_for_check_doctor_start_and_reload() {
    let sandbox = new_home();
    let daemon = sandbox.ready();
    let good = sandbox.read("agent.toml").expect("it is there");
    sandbox.put("agent.toml", good.replace("day_usd", "day_usdd").as_bytes());
    let words = "unknown key `day_usdd` in [cost]; did you mean `day_usd`?";
    daemon.signal(Signal::SIGHUP);
    wait_for("the reload to be refused", SOON, || {
        let status = sandbox.send(&["--status", "--json"]).json();
        status["last_error"].as_str()?.contains(words).then_some(())
    });
    assert!(daemon.log().contains(words), "{}", daemon.log());
    assert_eq!(
        sandbox.send(&["--wait", "hello"]).code,
        0,
        "it goes on as it was"
    );
    assert_eq!(daemon.term(), 0);
    for arguments in [&["check"][..], &["run"]] {
        let told = sandbox.run("agent-daemon", arguments, "");
        assert_eq!(told.code, 78, "{told:?}");
        assert!(
            told.stderr.contains(words) && told.stderr.contains("agent.toml:"),
            "{told:?}"
        );
    }
    let told = sandbox.run("agent-daemon", &["doctor", "--json"], "");
    let findings = told.json()["findings"].clone();
    let finding = findings
        .as_array()
        .expect("a list")
        .iter()
        .find(|finding| finding["id"] == "config-unknown-key");
    let finding = finding.expect("the typo");
    assert!(
        finding["level"] == "error" && finding["evidence"].to_string().contains("day_usdd"),
        "{finding}"
    );
    sandbox.put("agent.toml", good.as_bytes());
    for name in ["AGENT_COST__DAY_USDD", "AGENT_COSTS__DAY_USD"] {
        let sandbox = Sandbox::new().env(name, "1");
        let told = sandbox.run("agent-daemon", &["check"], "");
        assert!(told.code == 78 && told.stderr.contains(name), "{told:?}");
    }
}

/// Who changes a token that others have seen must hear that the old one still works.
#[test]
fn a_reload_says_that_a_changed_token_waits_for_a_restart() {
    let port = crate::http::free_port();
    let sandbox = Sandbox::new().config(&format!(
        "[http]\nenabled = true\nlisten = \"127.0.0.1:{port}\""
    ));
    let old = "dGhpcyBpcyBhIGdvb2QgdG9rZW4gb2YgMzIgYnl0ZXM";
    sandbox.put(".env", format!("AGENT_HTTP_TOKEN={old}\n").as_bytes());
    let daemon = sandbox.ready();
    let new = old.replace("dGhp", "c2Vj");
    sandbox.put(".env", format!("AGENT_HTTP_TOKEN={new}\n").as_bytes());
    daemon.signal(Signal::SIGHUP);
    let words = "changes of [http] take effect at the next start: restart the daemon";
    wait_for("the reload to say so", SOON, || {
        let status = sandbox.send(&["--status", "--json"]).json();
        status["last_error"].as_str()?.contains(words).then_some(())
    });
    assert!(daemon.log().contains(words), "{}", daemon.log());
    assert_eq!(daemon.term(), 0);
}

/// Whoever does as they are told comes to the agent that was made, and makes no second one.
#[test]
fn hints_lead_to_the_same_agent_again() {
    let sandbox = Sandbox::new();
    let run = |script: &str| {
        let mut shell = sandbox.shell();
        shell
            .current_dir(sandbox.home())
            .env_remove("AGENT_HOME")
            .args(["-c", script]);
        Running::start(&mut shell).end()
    };
    let there = sandbox.path("own");
    let absolute = format!("agent-send --home {} --chat", there.display());
    let told = run("agent-daemon --home=own init");
    for command in [
        "agent-daemon --home own login anthropic",
        "agent-daemon --home own check",
        "agent-daemon --home own run",
        &absolute,
    ] {
        assert!(told.stderr.contains(command), "{command}: {told:?}");
    }
    let told = run("agent-daemon --home own check");
    assert!(
        told.stderr
            .contains("agent-daemon --home own login anthropic"),
        "{told:?}"
    );
    let told = run("agent-send --home own --stop");
    assert!(
        told.code == 69 && told.stderr.contains("agent-daemon --home own run"),
        "{told:?}"
    );
    let told = run("agent-send --home nowhere hello");
    assert!(
        told.stderr
            .contains("agent-daemon --home nowhere init makes one"),
        "{told:?}"
    );
    // Another terminal knows nothing of this environment.
    let told = run("AGENT_HOME=own agent-daemon init");
    assert!(
        told.stderr.contains(&absolute) && told.stderr.contains(" agent-daemon run"),
        "{told:?}"
    );
    // As for a user of the system: the shell is somebody else's.
    sandbox.put("sudo", b"#!/bin/sh\n\"$@\"\nexit $?\n");
    let told = run("chmod +x sudo; ./sudo agent-daemon --home own init; id -un");
    let user = told.stdout.lines().last().expect("a name");
    let command = format!("sudo -u {user} agent-daemon --home own run");
    assert!(told.stderr.contains(&command), "{command}: {told:?}");
}

/// `sudo agent-daemon run` before the first start would leave files that the user's own daemon cannot read.
#[test]
fn a_home_that_somebody_else_made_is_theirs_before_the_first_start_too() {
    let sandbox = new_home();
    let nobody = |path: &str| {
        std::os::unix::fs::chown(sandbox.path(path), Some(65534), None)
            .map_err(|error| error.kind())
    };
    if nobody("state") == Err(std::io::ErrorKind::PermissionDenied) {
        println!("skipped: only root can give files away");
        return;
    }
    let before = fs::read_dir(sandbox.path("state")).expect("state").count();
    for (program, words) in [
        ("agent-daemon", &["run", "--once"][..]),
        ("agent-daemon", &["init"]),
        ("agent-daemon", &["login", "anthropic"]),
        ("agent-send", &["hello"]),
        ("agent-send", &["--pair", "owner"]),
        ("agent-index", &[]),
        ("agent-consolidate", &[]),
    ] {
        let told = sandbox.run(program, words, "sk-not-a-key\n");
        assert!(
            told.code == 77
                && told
                    .stderr
                    .contains("another user's\nhint: run it as that user: sudo -u nobody"),
            "{words:?}: {told:?}"
        );
    }
    let after = fs::read_dir(sandbox.path("state")).expect("state").count();
    assert_eq!(after, before, "nothing was left there");
    // And who finds their home so afterwards is told how to have it back.
    std::os::unix::fs::chown(sandbox.path("state"), Some(0), None).expect("root may");
    sandbox.put("state/daemon.lock", b"");
    nobody("state/daemon.lock").expect("root may");
    let told = sandbox.run("agent-daemon", &["run", "--once"], "");
    let back = format!(
        "take it back: sudo chown -R root: {} {}",
        sandbox.path("state").display(),
        sandbox.path("workspace").display()
    );
    assert!(told.code == 77 && told.stderr.contains(&back), "{told:?}");
}

#[test]
fn a_home_that_is_not_there_is_an_error_and_is_not_made() {
    let sandbox = Sandbox::new();
    let nowhere = sandbox.path("no/such/home").display().to_string();
    for (program, arguments) in [
        ("agent-daemon", &["check"][..]),
        ("agent-index", &[]),
        ("agent-index", &["search", "x"]),
        ("agent-consolidate", &[]),
    ] {
        let arguments = [&["--home", &nowhere], arguments].concat();
        let told = sandbox.run(program, &arguments, "");
        assert!(
            told.code == 78 && told.stderr.contains("there is no agent"),
            "{program}: {told:?}"
        );
    }
    let told = sandbox.run(
        "agent-daemon",
        &["--home", &nowhere, "doctor", "--json"],
        "",
    );
    assert_eq!(
        (told.code, &told.json()["findings"][0]["id"]),
        (1, &"home-missing".into())
    );
    assert!(!sandbox.path("no").exists());
}

#[test]
fn a_home_directory_that_is_no_directory_is_named() {
    let sandbox = Sandbox::new();
    for (home, words) in [
        (
            "/nonexistent",
            "the home directory /nonexistent does not exist ($HOME)",
        ),
        ("", "$HOME: it is empty"),
        ("relative", "$HOME: `relative` is not an absolute path"),
    ] {
        let mut command = sandbox.command("agent-daemon");
        command
            .env_remove("AGENT_HOME")
            .env("HOME", home)
            .arg("init");
        let told = Running::start(&mut command).end();
        assert!(
            told.code == 78 && told.stderr.contains(words),
            "{home:?}: {told:?}"
        );
        assert!(told.stderr.contains("hint: set HOME"), "{told:?}");
    }
    assert!(!sandbox.home().join("relative").exists());
}

#[test]
fn settings_that_are_no_toml_stop_the_programs_of_cron_too() {
    let sandbox = Sandbox::new();
    sandbox.put("agent.toml", b"[agent\n");
    for (program, arguments) in [("agent-index", &["sync"]), ("agent-consolidate", &["run"])] {
        let told = sandbox.run(program, arguments, "");
        assert!(
            told.code == 78 && told.stderr.contains("agent.toml:1"),
            "{program}: {told:?}"
        );
    }
}

#[test]
fn a_run_without_init_makes_the_whole_home() {
    let sandbox = Sandbox::new();
    let home = sandbox.path("fresh");
    let mut command = sandbox.command("agent-daemon");
    command.args(["--home", &home.display().to_string(), "run", "--once"]);
    let told = Running::start(&mut command).end();
    assert_eq!(told.code, 0, "{told:?}");
    let soul = fs::read_to_string(home.join("workspace/SOUL.md")).expect("a template");
    assert!(!soul.is_empty());
    assert!(
        home.join("agent.toml").exists() && home.join("providers.d/openai.toml.example").exists()
    );
}

#[test]
fn a_key_alone_gives_the_agent_a_model_and_check_says_why() {
    let model = FakeModel::start();
    let sandbox = new_home();
    let said = |sandbox: &Sandbox| {
        let told = sandbox.run("agent-daemon", &["check"], "");
        assert_eq!(told.code, 0, "{told:?}");
        told.stderr
    };
    assert!(said(&sandbox).contains("no provider is set up: agent-daemon login anthropic"));
    let told = sandbox.run("agent-daemon", &["login", "openai", "sk-not-a-key"], "");
    let tip = "a key is never an argument: it is asked for, or comes through a pipe";
    assert!(told.code == 2 && told.stderr.contains(tip), "{told:?}");
    let local = b"type = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\n[models.primary]\nmodel = \"m\"\ncost_per_mtok = [0, 0, 0, 0]\n";
    sandbox.put("providers.d/local.toml", local);
    let told = said(&sandbox);
    assert!(
        told.contains(
            "providers.d/local.toml is not loaded; write `load = [\"local\"]` below [providers] in"
        ),
        "{told}"
    );
    let far = b"type = \"openai\"\nbase_url = \"https://example.org/v1\"\napi_key_env = \"FAR_KEY\"\n[models.primary]\nmodel = \"m\"\ncost_per_mtok = [0, 0, 0, 0]\n";
    sandbox.put("providers.d/far.toml", far);
    assert!(
        said(&sandbox).contains("providers.d/local.toml is not loaded"),
        "one that lacks nothing comes first"
    );
    fs::remove_file(sandbox.path("providers.d/local.toml")).expect("own file");
    let told = said(&sandbox);
    assert!(
        told.contains(
            "providers.d/far.toml is not loaded; set FAR_KEY, and write `load = [\"far\"]`"
        ),
        "{told}"
    );
    sandbox.put(".env", b"FAR_KEY=sk-not-a-key\n");
    let told = said(&sandbox);
    assert!(
        told.contains("providers.d/far.toml is not loaded; write `load = [\"far\"]`"),
        "{told}"
    );
    fs::remove_file(sandbox.path("providers.d/far.toml")).expect("own file");
    sandbox.put(".env", b"GEMINI_API_KEY=sk-not-a-key\n");
    let told = said(&sandbox);
    assert!(
        told.contains("answers: gemini-2.5-flash of gemini")
            && told.contains("GEMINI_API_KEY is set (.env)"),
        "{told}"
    );
    let sandbox = sandbox.env("OPENAI_API_KEY", "sk-not-a-key");
    let told = said(&sandbox);
    assert!(
        told.contains("of openai") && told.contains("listens to recordings: whisper-1 of openai"),
        "{told}"
    );
    assert!(
        told.contains("GEMINI_API_KEY is set (.env) and not used"),
        "{told}"
    );
    // The same, to its end: the vendor's own file only says where it is.
    let text = sandbox
        .read("providers.d/openai.toml.example")
        .expect("an example");
    let here = text.replace(
        "#base_url = \"https://api.openai.com/v1\"",
        &format!("base_url = \"{}/v1\"", model.url()),
    );
    sandbox.put("providers.d/openai.toml", here.as_bytes());
    let daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--wait", "hello"]).stdout, "echo: hello\n");
    assert_eq!(daemon.term(), 0);
}

#[test]
fn check_and_doctor_name_the_same_faults() {
    let faults = [
        (
            "[cost]\nday_usd = 1.0\n[providers]\nload = [\"a\"]\n",
            "model-unpriced",
            "has no price",
            78,
        ),
        (
            "[http]\nenabled = true\nlisten = \"0.0.0.0:8100\"\n",
            "config-doubtful",
            "over plain HTTP",
            0,
        ),
    ];
    for (settings, id, words, code) in faults {
        let sandbox = Sandbox::new().env(
            "AGENT_HTTP_TOKEN",
            "dGhpcyBpcyBhIGdvb2QgdG9rZW4gb2YgMzIgYnl0ZXM",
        );
        sandbox.put("providers.d/a.toml", b"type = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\n[models.primary]\nmodel = \"m\"\n");
        sandbox.put("agent.toml", settings.as_bytes());
        let told = sandbox.run("agent-daemon", &["check"], "");
        assert!(
            told.code == code && told.stderr.contains(words),
            "{id}: {told:?}"
        );
        let told = sandbox.run("agent-daemon", &["doctor", "--json"], "");
        let findings = told.json()["findings"].clone();
        let found =
            findings.as_array().expect("a list").iter().any(|finding| {
                finding["id"] == id && finding["evidence"].to_string().contains(words)
            });
        assert!(found, "{id}: {findings:#}");
    }
    let sandbox = Sandbox::new();
    let socket = sandbox.path("workspace/http.sock").display().to_string();
    fs::create_dir_all(sandbox.path("workspace")).expect("writable");
    sandbox.put(
        "agent.toml",
        format!("[http]\nenabled = true\nlisten = \"unix:{socket}\"\n").as_bytes(),
    );
    let told = sandbox.run("agent-daemon", &["check"], "");
    assert!(
        told.code == 78
            && told
                .stderr
                .contains("where commands of the agent can connect to it"),
        "{told:?}"
    );
    let sandbox = Sandbox::new().env("AGENT_SHARE", "/no/such/share");
    let told = sandbox.run("agent-daemon", &["check"], "");
    assert!(
        told.code == 78 && told.stderr.contains("semantic search is off"),
        "{told:?}"
    );
}

#[test]
fn check_names_all_that_is_missing_at_once_and_a_name_that_was_misspelt() {
    let sandbox = Sandbox::new();
    for name in ["a", "b"] {
        let text = format!(
            "type = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\napi_key_env = \"KEY_OF_{name}\"\n\
             [models.{name}]\nmodel = \"m\"\ncost_per_mtok = [0, 0, 0]\n"
        );
        let text = text.replace("models.a", "models.primary");
        sandbox.put(&format!("providers.d/{name}.toml"), text.as_bytes());
    }
    sandbox.put(
        "agent.toml",
        b"[providers]\nload = [\"a\", \"b\"]\n[telegram]\nenabled = true\nowner = [1]\n[http]\nenabled = true\n\
          [http.hooks.one]\n[http.hooks.two]\n",
    );
    sandbox.put(".env", b"TELEGRAM_BOT_TOKNE=x\n");
    let told = sandbox.run("agent-daemon", &["check"], "");
    assert_eq!(told.code, 78, "{told:?}");
    let json = sandbox.run("agent-daemon", &["check", "--json"], "");
    for name in [
        "KEY_OF_a",
        "KEY_OF_b",
        "TELEGRAM_BOT_TOKEN",
        "AGENT_HTTP_TOKEN",
        "[http.hooks.one]",
        "[http.hooks.two]",
    ] {
        assert!(told.stderr.contains(name), "{name}: {told:?}");
        assert!(json.stdout.contains(name), "{name}: {json:?}");
    }
    let misspelt = "TELEGRAM_BOT_TOKNE` is read by nothing; did you mean `TELEGRAM_BOT_TOKEN`";
    assert!(told.stderr.contains(misspelt), "{told:?}");
    let quiet = sandbox.run("agent-daemon", &["check", "-q"], "");
    assert!(
        quiet.stderr.contains("KEY_OF_a") && !quiet.stderr.contains("warning:"),
        "{quiet:?}"
    );
    let told = sandbox.run("agent-daemon", &["doctor", "--json"], "");
    assert!(told.stdout.contains(misspelt), "{told:?}");
}

#[test]
fn the_verb_of_another_daemon_is_told_with_what_does_that_here() {
    let sandbox = Sandbox::new();
    for (verb, says) in [
        ("stop", "Ctrl-C ends it"),
        ("status", "agent-send --status"),
    ] {
        let told = sandbox.run("agent-daemon", &[verb], "");
        assert!(
            told.code == 2 && told.stderr.contains(says) && !told.stderr.contains("restore"),
            "{told:?}"
        );
    }
}

#[test]
fn a_quiet_check_says_nothing_of_what_is_good() {
    let sandbox = Sandbox::new();
    sandbox.put(".env", b"TELEGRAM_TOKEN=x\n");
    let told = sandbox.run("agent-daemon", &["check"], "");
    let meant = "TELEGRAM_TOKEN` is read by nothing; did you mean `TELEGRAM_BOT_TOKEN`";
    assert!(told.code == 0 && told.stderr.contains(meant), "{told:?}");
    let quiet = sandbox.run("agent-daemon", &["check", "-q"], "");
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""), "{quiet:?}");
}

#[test]
fn a_key_that_cannot_be_verified_leaves_the_agent_as_it_is_until_it_can() {
    let model = FakeModel::start();
    let sandbox = new_home();
    let file = |url: &str| {
        let text = format!(
            "type = \"anthropic\"\nbase_url = \"{url}\"\n[models.primary]\nmodel = \"m\"\ncost_per_mtok = [1, 1, 1]\n"
        );
        sandbox.put(
            "providers.d/mine.toml",
            text.replace("base_url", "api_key_env = \"MINE\"\nbase_url")
                .as_bytes(),
        );
    };
    file("http://127.0.0.1:9");
    let told = sandbox.run("agent-daemon", &["login", "mine"], "sk-not-a-key\n");
    assert_eq!(told.code, 0, "{told:?}");
    assert!(
        told.stdout
            .starts_with("Key saved but not verified: cannot reach 127.0.0.1:9"),
        "{told:?}"
    );
    let answers = || sandbox.run("agent-daemon", &["check"], "").stderr;
    let next = "the key of mine is stored and not verified; with a network, agent-daemon auth --check verifies it";
    assert!(answers().contains(next), "{}", answers());
    let told = sandbox.run("agent-daemon", &["doctor", "--json"], "");
    assert!(told.stdout.contains("\"key-unverified\""), "{told:?}");
    file(model.url());
    let told = sandbox.run("agent-daemon", &["auth", "--check"], "");
    assert!(told.code == 0 && told.stdout.contains("good"), "{told:?}");
    assert!(answers().contains("answers: m of mine"), "{}", answers());
}

/// Starts init on a terminal and gives it a key for the provider at `model`; `None` where there is no terminal.
fn given_a_key(sandbox: &Sandbox, model: &FakeModel) -> Option<Running> {
    let here = format!(
        "type = \"anthropic\"\nbase_url = \"{}\"\napi_key_env = \"ANTHROPIC_API_KEY\"\n[models.primary]\nmodel = \"m\"\ncost_per_mtok = [1, 1, 1]\n",
        model.url()
    );
    sandbox.put("providers.d/anthropic.toml", here.as_bytes());
    let running = shell_on_terminal(sandbox, "agent-daemon init; echo code=$?")?;
    running.wait_said("Which [1]: ");
    running.write("anthropic\r");
    running.wait_said("API key (it is not shown, Enter skips): ");
    running.write("sk-not-a-key\r");
    Some(running)
}

#[test]
fn init_on_a_terminal_leads_from_a_key_to_an_answer() {
    let (model, telegram) = (FakeModel::start(), FakeTelegram::start());
    let sandbox = Sandbox::new().env("AGENT_TELEGRAM__API_URL", telegram.url());
    fs::remove_file(sandbox.path("agent.toml")).expect("it is there");
    let Some(running) = given_a_key(&sandbox, &model) else {
        return;
    };
    running.wait_said("the key is good");
    running.wait_said("Model [m]: ");
    running.write("\r");
    running.wait_said("Token (it is not shown, Enter skips): ");
    running.write(&format!("{}\r", telegram.token()));
    running.wait_said(&format!("the token is good: @{}", telegram.username()));
    running.wait_said("send this code");
    running.wait_said("Say something to the agent");
    running.write("well met\r");
    running.wait_said("echo: well met");
    running.wait_said("code=0");
    let told = running.end();
    assert!(told.stdout.contains("agent-send --chat"), "{told:?}");
    assert!(
        !told.stdout.contains("sk-not-a-key"),
        "what is typed is not shown"
    );
    let settings = sandbox.read("agent.toml").expect("written");
    assert!(settings.contains("\nenabled = true\n"), "{settings}");
    assert!(
        sandbox
            .read(".env")
            .expect("written")
            .contains("TELEGRAM_BOT_TOKEN=")
    );
    let told = sandbox.run("agent-daemon", &["check"], "");
    assert_eq!(told.code, 0, "{told:?}");
}

#[test]
fn every_step_of_init_can_be_skipped_and_input_may_end() {
    let sandbox = Sandbox::new();
    let Some(running) = shell_on_terminal(&sandbox, "agent-daemon init; echo code=$?") else {
        return;
    };
    running.wait_said("Which [1]: ");
    running.write("s\r");
    running.wait_said("Token (it is not shown, Enter skips): ");
    running.write("\r");
    running.wait_said("Say something to the agent");
    running.write("\u{4}");
    running.wait_said("code=0");
    running.end();
    let told = sandbox.run("agent-daemon", &["init", "--yes"], "");
    assert!(told.code == 0 && told.stdout.contains("kept"), "{told:?}");
}

#[test]
fn input_that_ends_at_the_model_or_its_price_ends_init_and_the_key_stays() {
    let model = FakeModel::start();
    for answers in [&["\u{4}"][..], &["mock-model\r", "\u{4}"]] {
        let sandbox = Sandbox::new();
        let Some(running) = given_a_key(&sandbox, &model) else {
            return;
        };
        for (question, answer) in ["Model [m]: ", "for example 3 15): "].iter().zip(answers) {
            running.wait_said(question);
            running.write(answer);
        }
        running.wait_said("What is wrong: ");
        running.wait_said("code=0");
        let told = running.end().stdout;
        assert!(!told.contains("2 of 4"), "it ends there: {told}");
        assert!(told.contains("m of anthropic answers"), "{told}");
        let stored = sandbox.read("state/auth.json").expect("the key");
        assert!(stored.contains("sk-not-a-key"));
    }
}

#[test]
fn a_hidden_question_of_init_is_skipped_and_interrupted_as_any_other() {
    let model = FakeModel::start();
    let sandbox = Sandbox::new();
    let here = format!(
        "type = \"anthropic\"\nbase_url = \"{}\"\napi_key_env = \"ANTHROPIC_API_KEY\"\n[models.primary]\nmodel = \"m\"\ncost_per_mtok = [1, 1, 1]\n",
        model.url()
    );
    sandbox.put("providers.d/anthropic.toml", here.as_bytes());
    let line = "agent-daemon init; echo code=$?; stty -a | grep -ow -e '-*echo' -e '-*isig'";
    let Some(running) = shell_on_terminal(&sandbox, line) else {
        return;
    };
    running.wait_said("Which [1]: ");
    running.write("anthropic (API key)\r");
    running.wait_said("API key (it is not shown, Enter skips): ");
    running.write("s\r");
    running.wait_said("skipped");
    running.wait_said("Token (it is not shown, Enter skips): ");
    running.write("\u{3}");
    running.wait_said("code=0");
    let told = running.end().stdout;
    assert!(!told.contains("3 of 4"), "it ends there: {told}");
    let (_, terminal) = told.split_once("code=0").expect("it was said");
    let mut modes: Vec<&str> = terminal.split_whitespace().collect();
    modes.sort_unstable();
    assert_eq!(modes, ["echo", "isig"], "the terminal is as before");
    assert_eq!(model.requests().len(), 0);
    assert_eq!(sandbox.read("state/auth.json"), None, "nothing was stored");
}
