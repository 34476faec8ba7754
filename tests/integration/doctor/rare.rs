//! Faults that take more to make than a file: a ledger, a unit, a server, a program of another machine.

use std::time::Duration;

use rusqlite::Connection;

use super::*;
use crate::support::{Running, wait_for};
use agent_toolkit::clock;

/// A home where systemd would look for it, so that a unit can be its own.
fn home_of_a_unit(program: &str) -> Sandbox {
    let sandbox = settings_only();
    let of_user = sandbox.home().with_file_name("user");
    let unit = of_user.join("config/systemd/user/agent-daemon.service");
    fs::create_dir_all(unit.parent().expect("it has one")).expect("the sandbox is writable");
    fs::write(&unit, format!("[Service]\nExecStart={program} run\n")).expect("own directory");
    let at = |below: &str| of_user.join(below).display().to_string();
    sandbox
        .env("XDG_CONFIG_HOME", &at("config"))
        .env("XDG_STATE_HOME", &at("state"))
        .env("XDG_DATA_HOME", &at("data"))
}

/// Runs a program as the user whose home it is: nothing names another one.
fn as_user(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    let mut command = sandbox.command("agent-daemon");
    command.env_remove("AGENT_HOME").args(arguments);
    Running::start(&mut command).end()
}

fn finding(told: &Output, id: &str) -> Value {
    let findings = listed(told);
    let found = findings.iter().find(|finding| finding["id"] == id);
    found
        .unwrap_or_else(|| panic!("no {id}: {findings:#?}"))
        .clone()
}

#[test]
fn a_unit_that_starts_nothing_is_named() {
    let own = bin("agent-daemon").display().to_string();
    for (program, is_wrong) in [("/opt/gone/agent-daemon", true), (own.as_str(), false)] {
        let sandbox = home_of_a_unit(program);
        assert_eq!(as_user(&sandbox, &["init", "-q"]).code, 0);
        let told = as_user(&sandbox, &["doctor", "--json"]);
        assert_eq!(
            told.stdout.contains("unit-program-missing"),
            is_wrong,
            "{told:?}"
        );
        if is_wrong {
            let found = finding(&told, "unit-program-missing");
            assert!(found.to_string().contains(program), "{found}");
            assert!(command(&found).starts_with("grep -n ^ExecStart"), "{found}");
        }
    }
}

#[test]
fn a_key_that_only_the_shell_has_is_named_where_systemd_starts_the_daemon() {
    let own = bin("agent-daemon").display().to_string();
    let sandbox = home_of_a_unit(&own).env("ANTHROPIC_API_KEY", "sk-not-a-key");
    assert_eq!(as_user(&sandbox, &["init", "-q"]).code, 0);
    let found = finding(&as_user(&sandbox, &["doctor", "--json"]), "key-shell-only");
    assert!(found.to_string().contains("ANTHROPIC_API_KEY"), "{found}");
    assert!(command(&found).ends_with("login anthropic"), "{found}");
}

#[test]
fn a_program_of_another_kind_of_machine_is_named() {
    let sandbox = healthy().env("PATH", "/usr/bin:/bin");
    let dir = tempfile::tempdir().expect("the temporary directory is writable");
    for name in ["agent-daemon", "agent-send"] {
        fs::copy(bin("agent-daemon"), dir.path().join(name)).expect("a copy");
    }
    // `e_machine` of an ELF file (elf(5)): 8 is MIPS, which these tests do not run on.
    let foreign = dir.path().join("agent-send");
    let mut bytes = fs::read(&foreign).expect("a program");
    (bytes[18], bytes[19]) = (8, 0);
    fs::write(&foreign, bytes).expect("own file");
    let like = sandbox.command("agent-daemon");
    let mut command = Command::new(dir.path().join("agent-daemon"));
    command
        .args(["doctor", "--json"])
        .env_clear()
        .env("AGENT_SHARE", concat!(env!("CARGO_MANIFEST_DIR"), "/share"))
        .envs(
            like.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
    let told = Running::start(&mut command).end();
    let found = finding(&told, "program-foreign");
    assert!(
        found["evidence"]
            .as_str()
            .expect("text")
            .starts_with("agent-send in "),
        "{found}"
    );
}

#[test]
fn a_skill_that_others_could_have_written_is_named_until_it_is_trusted() {
    let sandbox = healthy();
    let skill = b"---\nname: greet\ndescription: Greets people\n---\nSay hello.\n";
    put(&sandbox, "workspace/skills/greet/SKILL.md", skill);
    assert_eq!(ids(&sandbox), [] as [&str; 0], "an own file needs no trust");
    for (dir, mode) in [
        ("workspace", 0o755),
        ("workspace/skills", 0o755),
        ("workspace/skills/greet", 0o777),
    ] {
        chmod(&sandbox, dir, mode);
    }
    let found = finding(&doctor(&sandbox, &["--json", "-q"]), "skill-untrusted");
    assert!(found.to_string().contains("greet"), "{found}");
    paste(&sandbox, &command(&found), "");
    let trusted = sandbox.send(&["--skill", "trust", "greet"]);
    assert_eq!(trusted.code, 0, "{trusted:?}");
    let told = doctor(&sandbox, &["--json", "-q"]).stdout;
    assert!(!told.contains("skill-untrusted"), "{told}");
}

#[test]
fn a_tool_server_that_does_not_start_is_named() {
    let sandbox = healthy();
    let settings = "[mcp.servers.absent]\ncommand = [\"/no/such/program\"]\n";
    put(&sandbox, "agent.toml", settings.as_bytes());
    let mut daemon = sandbox.daemon();
    daemon.wait_ready();
    let found = wait_for("the server to be tried", Duration::from_secs(30), || {
        let found = findings(&sandbox);
        found
            .into_iter()
            .find(|finding| finding["id"] == "mcp-broken")
    });
    assert!(found.to_string().contains("absent"), "{found}");
    assert_eq!(daemon.term(), 0);
}

#[test]
fn a_tool_server_without_a_wall_is_named_where_no_commands_run_too() {
    let sandbox = healthy();
    let settings = "[tools.exec]\npolicy = \"off\"\nsandbox = \"off\"\n[mcp.servers.mail]\ncommand = [\"/bin/cat\"]\n";
    put(&sandbox, "agent.toml", settings.as_bytes());
    let found = finding(&doctor(&sandbox, &["--json", "-q"]), "sandbox-off");
    let evidence = found["evidence"].as_str().expect("text");
    assert!(
        evidence.contains("tool servers (mail)") && evidence.contains("reach every host"),
        "{found}"
    );
}

#[test]
fn a_name_that_cannot_be_resolved_and_a_proxy_that_is_not_used_are_named() {
    let sandbox = settings_only().env("HTTPS_PROXY", "http://127.0.0.1:9");
    init(&sandbox);
    // The name is reserved for this (RFC 6761).
    let provider = "type = \"openai\"\nbase_url = \"http://agent.invalid/v1\"\n[models.primary]\nmodel = \"m\"\ncost_per_mtok = [1, 1, 1]\n";
    put(&sandbox, "providers.d/away.toml", provider.as_bytes());
    put(
        &sandbox,
        "agent.toml",
        b"[agent]\ntimezone = \"UTC\"\n[providers]\nload = [\"away\"]\n",
    );
    let mut daemon = sandbox.daemon();
    daemon.wait_ready();
    assert_eq!(sandbox.send(&["hello"]).code, 0);
    let told = wait_for("the model to be missed", Duration::from_secs(30), || {
        let told = doctor(&sandbox, &["--json", "-q"]);
        told.stdout.contains("dns-failing").then_some(told)
    });
    let found = finding(&told, "dns-failing");
    assert_eq!(command(&found), "getent hosts agent.invalid");
    let found = finding(&told, "proxy-ignored");
    assert!(found.to_string().contains("HTTPS_PROXY"), "{found}");
    assert_eq!(daemon.term(), 0);
}

#[test]
fn too_few_open_files_are_named() {
    let sandbox = healthy();
    let like = sandbox.command("agent-daemon");
    let mut command = Command::new("bash");
    command
        .args(["-c", "ulimit -n 100 && exec agent-daemon doctor --json -q"])
        .env_clear()
        .envs(
            like.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
    let found = finding(&Running::start(&mut command).end(), "open-files-limit");
    assert!(found.to_string().contains("only 100 files"), "{found}");
}

/// Opens a database of a home in which a daemon ran once.
fn database_of(sandbox: &Sandbox, name: &str) -> Connection {
    let told = sandbox.run("agent-daemon", &["run", "--once"], "");
    assert_eq!(told.code, 0, "{told:?}");
    Connection::open(sandbox.path(name)).expect("a database")
}

#[test]
fn words_that_no_model_could_read_are_named() {
    let sandbox = healthy();
    let told = sandbox.run("agent-consolidate", &["run"], "");
    assert_eq!(told.code, 0, "{told:?}");
    let memory = database_of(&sandbox, "state/memory.db");
    memory
        .execute(
            "INSERT INTO parked(session_id, first, last, why, at) VALUES ('s-1', 1, 9, 'it spoke no JSON', 1)",
            [],
        )
        .expect("a row");
    let told = doctor(&sandbox, &["--json", "-q"]);
    let found = finding(&told, "consolidation-parked");
    assert!(
        found.to_string().contains("it spoke no JSON") && found.to_string().contains("s-1"),
        "{found}"
    );
}

#[test]
fn a_cache_that_is_read_much_less_than_before_is_named() {
    let sandbox = healthy();
    let ledger = database_of(&sandbox, "state/cost.db");
    let call = |days_ago: i64, read: i64| {
        let at = clock::now_ms() - days_ago * 86_400_000;
        let sql = "INSERT INTO costs(ts, call_id, source, provider, model, kind, input_tokens, cache_read_tokens, cost_nano_usd, ok)
                   VALUES (?1, hex(randomblob(8)), 'cli', 'mock', 'primary', 'chat', ?2, ?3, 1, 1)";
        ledger
            .execute(sql, (at, 10_000 - read, read))
            .expect("a row");
    };
    for days_ago in 1..6 {
        (0..3).for_each(|_| call(days_ago, 8_000));
    }
    (0..12).for_each(|_| call(0, 8_000));
    let drop = |sandbox: &Sandbox| {
        doctor(sandbox, &["--json", "-q"])
            .stdout
            .contains("cache-drop")
    };
    assert!(!drop(&sandbox), "as much as before");
    ledger
        .execute(
            "DELETE FROM costs WHERE ts > ?1",
            [clock::now_ms() - 43_200_000],
        )
        .expect("rows");
    (0..12).for_each(|_| call(0, 500));
    let told = doctor(&sandbox, &["--json", "-q"]);
    let found = finding(&told, "cache-drop");
    assert!(
        found.to_string().contains("today 5 %") && found.to_string().contains("80 %"),
        "{found}"
    );
}

/// Each id stands in a test that breaks something and looks for it, here or beside the check itself.
#[test]
fn every_id_has_a_test_that_provokes_it() {
    let told = Sandbox::new().run("agent-daemon", &["doctor", "--list", "--json"], "");
    let document = told.json();
    let ids = document["ids"].as_array().expect("a list");
    assert!(ids.len() >= 99, "{}", ids.len());
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut tests = sources(&root.join("tests/integration"));
    let checks = sources(&root.join("src/lib/app/doctor"));
    tests.extend(
        checks
            .into_iter()
            .filter(|(path, _)| !path.ends_with("ids.rs"))
            .filter_map(|(path, text)| {
                let (_, tests) = text.split_once("#[cfg(test)]\nmod tests")?;
                Some((path, tests.to_owned()))
            }),
    );
    let untested: Vec<&str> = ids
        .iter()
        .map(|entry| entry["id"].as_str().expect("text"))
        .filter(|id| {
            let (plain, escaped) = (format!("\"{id}\""), format!("\\\"{id}\\\""));
            !tests
                .iter()
                .any(|(_, text)| text.contains(&plain) || text.contains(&escaped))
        })
        .collect();
    assert!(untested.is_empty(), "no test provokes {untested:?}");
}

/// Returns the Rust files below `dir`, with their text.
fn sources(dir: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("the sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).expect("text");
            found.push((path, text));
        }
    }
    found
}
