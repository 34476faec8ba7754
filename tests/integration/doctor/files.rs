//! Modes, owners, settings and databases that are wrong.

use std::{fs, path::Path};

use rusqlite::Connection;
use serde_json::Value;

use super::*;
use crate::support::FakeModel;

// ------------------------------------------------------------------ modes and owners

#[test]
fn modes_that_are_too_open_are_named_and_mended() {
    let sandbox = healthy();
    chmod(&sandbox, ".env", 0o640);
    check_cured(&sandbox, "secrets-readable", "error", &[".env", "0640"], "");
    put(&sandbox, "state/auth.json", b"{}");
    chmod(&sandbox, "state/auth.json", 0o644);
    check_cured(
        &sandbox,
        "secrets-readable",
        "error",
        &["auth.json", "0644"],
        "",
    );

    chmod(&sandbox, "state", 0o711);
    check_cured(&sandbox, "state-modes", "warning", &["state", "0711"], "");
    put(&sandbox, "state/sessions/old.jsonl", b"");
    chmod(&sandbox, "state/sessions/old.jsonl", 0o664);
    chmod(&sandbox, "state/logs", 0o755);
    check_cured(
        &sandbox,
        "state-modes",
        "warning",
        &["(and 1 more)", "others may look"],
        "",
    );
    assert_eq!(
        (
            mode(&sandbox, "state/logs"),
            mode(&sandbox, "state/sessions/old.jsonl")
        ),
        (0o700, 0o600)
    );
    // What tool servers keep is theirs, and a program stays one.
    put(&sandbox, "state/mcp/notes/bin/run", b"");
    chmod(&sandbox, "state/mcp/notes/bin/run", 0o755);
    chmod(&sandbox, "state/mcp", 0o700);
    chmod(&sandbox, "state/mcp/notes", 0o700);
    put(&sandbox, "state/.ssh/id.pub", b"");
    chmod(&sandbox, "state/.ssh/id.pub", 0o644);
    put(&sandbox, "state/sessions/hook", b"");
    chmod(&sandbox, "state/sessions/hook", 0o755);
    check_cured(&sandbox, "state-modes", "warning", &["hook", "0755"], "");
    let modes = ["mcp/notes/bin/run", ".ssh/id.pub", "sessions/hook"]
        .map(|below| mode(&sandbox, &format!("state/{below}")));
    assert_eq!(modes, [0o755, 0o644, 0o700]);
    put(&sandbox, "state/people.json", b"{}");
    chmod(&sandbox, "state/people.json", 0o400);
    check_cured(
        &sandbox,
        "state-modes",
        "warning",
        &["people.json", "0400"],
        "",
    );

    put(&sandbox, "channels/mail.toml", b"");
    for below in [
        "agent.toml",
        "providers.d",
        "providers.d/openai.toml.example",
        "channels",
        "channels/mail.toml",
    ] {
        let before = mode(&sandbox, below);
        chmod(&sandbox, below, before | 0o022);
        check_cured(
            &sandbox,
            "config-writable",
            "error",
            &["anybody on this machine", below],
            "",
        );
        assert_eq!(mode(&sandbox, below), before);
    }
    // What doctor says of modes, it mends.
    put(
        &sandbox,
        "state/cron/jobs.json",
        b"{\"v\": 1, \"jobs\": []}",
    );
    let open = [
        ("agent.toml", 0o604),
        ("providers.d/openai.toml.example", 0o604),
        ("channels/mail.toml", 0o604),
        (".env", 0o600),
        ("state/cron/jobs.json", 0o600),
    ];
    for (below, _) in open {
        chmod(&sandbox, below, 0o606);
    }
    let mended = doctor(&sandbox, &["--fix", "-q"]);
    assert_eq!(mended.code, 0, "{mended:?}");
    for (below, proper) in open {
        assert_eq!(mode(&sandbox, below), proper, "{below}");
    }
    // In a shared group others are not anybody.
    chmod(&sandbox, "agent.toml", 0o664);
    assert_eq!(ids(&sandbox), [] as [&str; 0]);
}

#[test]
fn a_link_to_a_file_that_is_not_there_is_named() {
    let sandbox = healthy();
    let away = sandbox.home().with_file_name("away");
    for below in [
        "agent.toml",
        ".env",
        "providers.d/mine.toml",
        "state/people.json",
        "state/queue.db",
        "state/cron/jobs.json",
        "state/sessions/a.jsonl",
    ] {
        let path = sandbox.path(below);
        let before = fs::read(&path).ok();
        if before.is_some() {
            fs::remove_file(&path).expect("own file");
        }
        std::os::unix::fs::symlink(&away, &path).expect("a link");
        let found = findings(&sandbox);
        let named = |finding: &&Value| {
            let evidence = finding["evidence"].as_str().expect("text");
            finding["id"] == "wrong-kind"
                && evidence.contains(&format!("leads to {}, which is not there", away.display()))
        };
        assert_eq!(found.iter().filter(named).count(), 1, "{below}: {found:#?}");
        fs::remove_file(&path).expect("own link");
        if let Some(bytes) = before {
            put(&sandbox, below, &bytes);
        }
    }
    assert_eq!(ids(&sandbox), [] as [&str; 0]);
}

#[test]
fn notes_behind_a_link_are_named() {
    let sandbox = healthy();
    let (vault, memory) = (
        sandbox.home().with_file_name("vault"),
        sandbox.path("workspace/memory"),
    );
    fs::create_dir_all(vault.join("boats")).expect("the sandbox is writable");
    fs::write(vault.join("boats/ana.md"), "- the boat lies in Lisbon\n").expect("writable");
    let check = |to: &Path, from: &str| {
        let path = sandbox.path(from);
        std::os::unix::fs::symlink(to, &path).expect("a link");
        let finding = only(&sandbox, "memory-link", "warning");
        let evidence = finding["evidence"].as_str().expect("text");
        let words = format!("{from} is a link to {}: ", to.display());
        assert!(
            evidence.starts_with(&words) && evidence.contains("mount --bind"),
            "{evidence}"
        );
        paste(&sandbox, &command(&finding), "");
        fs::remove_file(path).expect("own link");
    };
    check(&vault, "workspace/memory");
    fs::create_dir_all(memory.join("a")).expect("own directory");
    check(&vault.join("boats"), "workspace/memory/a/boats");
    check(&vault.join("boats/ana.md"), "workspace/memory/a/ana.md");
    check(&vault.join("away"), "workspace/memory/away.md");
    // What is no note is nobody's business.
    let other = memory.join("a/ana.txt");
    std::os::unix::fs::symlink(vault.join("boats/ana.md"), other).expect("a link");
    assert_eq!(ids(&sandbox), [] as [&str; 0]);
}

#[test]
fn the_fifo_is_a_fifo_of_ours_alone() {
    let fifo = |sandbox: &Sandbox, mode: u32| {
        nix::unistd::mkfifo(
            &sandbox.path("state/control.fifo"),
            nix::sys::stat::Mode::S_IRUSR,
        )
        .expect("a FIFO");
        chmod(sandbox, "state/control.fifo", mode);
    };
    let sandbox = healthy();
    fifo(&sandbox, 0o600);
    assert_eq!(ids(&sandbox), [] as [&str; 0]);
    chmod(&sandbox, "state/control.fifo", 0o622);
    check_cured(&sandbox, "fifo-wrong", "warning", &["0622", "0600"], "");
    chmod(&sandbox, "state/control.fifo", 0o622);
    assert_eq!(
        (
            doctor(&sandbox, &["--fix", "-q"]).code,
            mode(&sandbox, "state/control.fifo")
        ),
        (0, 0o600)
    );

    let sandbox = healthy();
    put(&sandbox, "state/control.fifo", b"echoed by a script\n");
    check_cured(
        &sandbox,
        "fifo-wrong",
        "error",
        &["is a file", "must be a FIFO"],
        "",
    );
    assert_eq!(
        sandbox.read("state/control.fifo.aside").as_deref(),
        Some("echoed by a script\n")
    );

    if nix::unistd::geteuid().is_root() {
        let sandbox = healthy();
        fifo(&sandbox, 0o600);
        std::os::unix::fs::chown(sandbox.path("state/control.fifo"), Some(NOBODY), None)
            .expect("root may");
        check_cured(&sandbox, "fifo-wrong", "error", &["belongs to nobody"], "");
    }
}

#[test]
fn files_of_another_user_are_named() {
    if !nix::unistd::geteuid().is_root() {
        return println!("skipped: only root can give files away");
    }
    let sandbox = healthy();
    put(&sandbox, "state/people.json", b"{}");
    std::os::unix::fs::chown(sandbox.path("state/people.json"), Some(NOBODY), None)
        .expect("root may");
    check_cured(
        &sandbox,
        "state-owner",
        "error",
        &["state/people.json", "nobody", "root"],
        "",
    );
}

#[test]
fn somebody_elses_home_is_looked_at_as_its_owner() {
    let Some(nobody) = Nobody::new() else { return };
    // Root looks, leaves nothing behind, and is told to act as the owner.
    let home = nobody.path("house/home");
    let sandbox = settings_only().env("AGENT_HOME", &home.display().to_string());
    fs::set_permissions(home.join(".env"), fs::Permissions::from_mode(0o644)).expect("root may");
    let finding = only(&sandbox, "secrets-readable", "error");
    assert_eq!(
        command(&finding),
        format!("sudo -u nobody chmod 600 {}", home.join(".env").display())
    );
    let told = doctor(&sandbox, &["--fix", "--json"]);
    assert_eq!((told.code, &told.json()["fixed"]), (1, &json!([])));
    let hint = format!(
        "sudo -u nobody agent-daemon --home {} doctor --fix",
        home.display()
    );
    assert!(told.stderr.contains(&hint), "{told:?}");
    fs::set_permissions(home.join(".env"), fs::Permissions::from_mode(0o600)).expect("root may");
    assert_eq!(ids(&sandbox), [] as [&str; 0]);
    // A stranger sees only that the state is another's.
    nobody.give(&home.join("state"), 1);
    let line = nobody.check("state-owner", false);
    assert_eq!(
        line,
        format!(
            "sudo -u daemon agent-daemon --home {} doctor",
            home.display()
        )
    );
}

#[test]
fn a_closed_door_is_named_and_nothing_behind_it() {
    let Some(nobody) = Nobody::new() else { return };
    for below in ["house", "house/home"] {
        nobody.chmod(below, 0);
        assert!(
            nobody
                .check("home-unreadable", true)
                .starts_with("chmod u+rwx ")
        );
    }
    nobody.chmod("house/home/state", 0);
    nobody.check("state-modes", true);
    nobody.chmod("house/home/state", 0);
    assert_eq!(nobody.run(&["doctor", "--fix", "-q"]).code, 0);
    nobody.chmod("house/home/workspace", 0o500);
    nobody.check("workspace-unwritable", true);
    nobody.make("house/home/workspace/memory");
    nobody.chmod("house/home/workspace/memory", 0o500);
    nobody.check("workspace-unwritable", true);
    // The door of another: root's directory above.
    nobody.give(&nobody.path("house"), 0);
    nobody.chmod("house", 0o700);
    let line = nobody.check("home-unreadable", false);
    assert!(line.starts_with("sudo -u root agent-daemon"), "{line}");
}

#[test]
fn decisions_and_prompts_that_nobody_can_read_are_named() {
    let sandbox = healthy();
    for name in [
        "learned.json",
        "mcp-trust.json",
        "rules.json",
        "skills.json",
    ] {
        let file = format!("state/{name}");
        put(&sandbox, &file, b"{\"v\":1");
        let told = ids(&sandbox);
        assert!(
            told.contains(&"state-unreadable".to_owned()),
            "{name}: {told:?}"
        );
        fs::remove_file(sandbox.path(&file)).expect("own file");
    }
    // Nothing waits for whoever would write into it.
    nix::unistd::mkfifo(
        &sandbox.path("state/rules.json"),
        nix::sys::stat::Mode::S_IRWXU,
    )
    .expect("a FIFO");
    let _ = ids(&sandbox);
    fs::remove_file(sandbox.path("state/rules.json")).expect("own file");

    let Some(nobody) = Nobody::new() else { return };
    let file = "house/home/workspace/AGENTS.md";
    nobody.chmod(file, 0);
    nobody.check("prompt-unreadable", true);
}

#[test]
fn what_was_set_aside_is_not_forgotten() {
    let sandbox = healthy();
    put(&sandbox, "state/queue.db.corrupt-1700000000000", b"bytes");
    put(
        &sandbox,
        "state/queue.db.corrupt-1700000000000-wal",
        b"bytes",
    );
    let finding = only(&sandbox, "set-aside", "warning");
    let evidence = finding["evidence"].as_str().expect("text");
    assert!(
        evidence.contains("state/queue.db.corrupt-1700000000000 ") && evidence.contains("5 bytes"),
        "{evidence}"
    );
    paste(&sandbox, &command(&finding), "");
    paste(&sandbox, &command(&finding).replace("ls -l", "rm"), "");
    assert_eq!(ids(&sandbox), [] as [&str; 0]);
}

// ------------------------------------------------------------------ settings

#[test]
fn settings_that_cannot_be_are_opened_at_their_line() {
    let good = "echo '[agent]' > $file";
    for (source, says) in [
        (
            "[agent]\nname = \"a\"\n[telegram\n",
            &["agent.toml:3:", "[telegram"][..],
        ),
        (
            "[agent]\nmax_turns = \"many\"\n",
            &["agent.toml:2", "max_turns"],
        ),
        ("[routing]\ncli = \"nobody\"\n", &["nobody"]),
    ] {
        let sandbox = healthy();
        put(&sandbox, "agent.toml", source.as_bytes());
        let finding = only(&sandbox, "config-invalid", "error");
        if command(&finding).contains("EDITOR") {
            check_cured(&sandbox, "config-invalid", "error", says, good);
        } else {
            assert_eq!(command(&finding), "agent-daemon check");
        }
    }
    let sandbox = healthy();
    put(&sandbox, "agent.toml", b"[agent]\n\nnmae = \"a\"\n");
    let finding = only(&sandbox, "config-unknown-key", "error");
    assert_eq!(
        command(&finding),
        format!(
            "${{EDITOR:-vi}} +3 {}",
            sandbox.path("agent.toml").display()
        )
    );
    check_cured(
        &sandbox,
        "config-unknown-key",
        "error",
        &["nmae", "`name`", ":3"],
        good,
    );
    put(&sandbox, ".env", b"AGENT_LOG__LEVEL=debug\n");
    only(&sandbox, "config-doubtful", "warning");
    put(&sandbox, ".env", b"# a key\nsk-canary-without-a-name\n");
    let told = doctor(&sandbox, &[]);
    assert!(
        told.stdout.contains("+2 ") && !told.stdout.contains("canary"),
        "{told:?}"
    );
    check_cured(
        &sandbox,
        "config-invalid",
        "error",
        &[".env:2"],
        "echo > $file",
    );
}

#[test]
fn a_key_that_nobody_uses_is_named_by_doctor_and_check() {
    let sandbox = healthy().env("OPENAI_API_KEY", "sk-not-a-key");
    put(
        &sandbox,
        "agent.toml",
        b"[providers]\nload = [\"offline\"]\n",
    );
    let finding = only(&sandbox, "key-unused", "warning");
    let evidence = finding["evidence"].as_str().expect("text").to_owned();
    assert!(
        evidence.contains("OPENAI_API_KEY is set (environment) and not used"),
        "{evidence}"
    );
    let told = sandbox.run("agent-daemon", &["check"], "");
    assert!(
        told.code == 0 && told.stderr.contains(&evidence),
        "{told:?}"
    );
    put(
        &sandbox,
        "agent.toml",
        b"[providers]\nload = [\"no-such\"]\n",
    );
    let finding = only(&sandbox, "config-invalid", "error");
    assert!(command(&finding).contains("agent.toml"), "{finding:#}");
}

#[test]
fn keys_that_are_missing_are_named_before_the_daemon_is_started_and_not_while_it_runs() {
    let model = FakeModel::start();
    let sandbox = settings_only()
        .with_anthropic(&model)
        .provider_config("mock", "api_key_env = \"OTHER_KEY\"");
    init(&sandbox);
    let finding = only(&sandbox, "provider-key-missing", "error");
    for word in ["OTHER_KEY", "mock.toml", "state/auth.json", ".env"] {
        assert!(
            finding["evidence"]
                .as_str()
                .is_some_and(|text| text.contains(word)),
            "{word:?}: {finding:#}"
        );
    }
    assert!(
        command(&finding).ends_with("agent-daemon login mock"),
        "{finding:#}"
    );
    assert_eq!(
        sandbox
            .run("agent-daemon", &["login", "mock"], "sk-not-a-key\n")
            .code,
        0
    );
    assert_eq!(ids(&sandbox), [] as [&str; 0]);
    assert_eq!(sandbox.run("agent-daemon", &["logout", "mock"], "").code, 0);
    put(&sandbox, ".env", b"OTHER_KEY=sk-not-a-key\n");
    // A service manager may give a secret to the daemon alone.
    let mut daemon = sandbox.daemon();
    daemon.wait_ready();
    put(&sandbox, ".env", b"");
    assert_eq!(ids(&sandbox), ["settings-unread"]);
    drop(daemon);

    let sandbox = healthy();
    put(
        &sandbox,
        "agent.toml",
        b"[telegram]\nenabled = true\nowner = [1001]\n",
    );
    let token = "echo TELEGRAM_BOT_TOKEN=123456789:AAF-aaaaaaaaaaaaaaaaaaaaaaaa > $file";
    check_cured(
        &sandbox,
        "bot-token-missing",
        "error",
        &["TELEGRAM_BOT_TOKEN", ".env"],
        token,
    );
    put(&sandbox, ".env", b"TELEGRAM_BOT_TOKEN=sk-canary-canary\n");
    assert!(!doctor(&sandbox, &["--json"]).stdout.contains("canary"));
    check_cured(
        &sandbox,
        "bot-token-malformed",
        "error",
        &["TELEGRAM_BOT_TOKEN", "123456789:"],
        token,
    );
}

#[test]
fn a_wall_that_is_down_and_a_tool_that_never_comes_are_named() {
    let sandbox = healthy();
    put(&sandbox, "agent.toml", b"[tools.exec]\nsandbox = \"off\"\n");
    let finding = only(&sandbox, "sandbox-off", "warning");
    assert!(
        finding["evidence"]
            .as_str()
            .expect("text")
            .contains("agent.toml:2"),
        "{finding}"
    );
    check_cured(
        &sandbox,
        "sandbox-off",
        "warning",
        &["everything the agent's user can"],
        "echo > $file",
    );
    put(
        &sandbox,
        "agent.toml",
        b"[tools]\nenabled = [\"read\", \"exce\", \"exec\"]\nexec.policy = \"off\"\n",
    );
    check_cured(
        &sandbox,
        "tool-unknown",
        "warning",
        &["exce, exec", "agent.toml:2", "write"],
        "echo > $file",
    );
}

// ------------------------------------------------------------------ databases and money

/// A home in which a daemon ran.
fn used(sandbox: &Sandbox) {
    let mut daemon = sandbox.daemon();
    daemon.wait_ready();
    assert_eq!(daemon.term(), 0);
    assert_eq!(ids(sandbox), ["daemon-not-running"]);
}

fn first(sandbox: &Sandbox) -> Value {
    findings(sandbox)[0].clone()
}

#[test]
fn an_audit_log_that_was_changed_is_named() {
    let sandbox = healthy();
    used(&sandbox);
    let whole = sandbox.read("state/audit.jsonl").expect("the audit log");
    put(
        &sandbox,
        "state/audit.jsonl",
        whole.replace("\"stop\"", "\"stip\"").as_bytes(),
    );
    let finding = findings(&sandbox)
        .into_iter()
        .find(|finding| finding["id"] == "audit-damaged")
        .expect("a finding");
    assert_eq!(
        (&finding["level"], command(&finding).as_str()),
        (&json!("error"), "agent-send --log --verify")
    );
    assert_eq!(sandbox.send(&["--log", "--verify"]).code, 65);
    put(&sandbox, "state/audit.jsonl", whole.as_bytes());
    assert_eq!(ids(&sandbox), ["daemon-not-running"]);
}

#[test]
fn a_damaged_index_and_damaged_facts_are_made_again() {
    let sandbox = healthy();
    put(&sandbox, "state/index.db", &[7; 5000]);
    check_cured(
        &sandbox,
        "index-damaged",
        "warning",
        &["state/index.db", "no memory is lost"],
        "",
    );
    put(&sandbox, "state/memory.db", &[7; 5000]);
    let finding = only(&sandbox, "memory-damaged", "error");
    assert_eq!(command(&finding), "agent-consolidate --backfill");
    paste(&sandbox, "agent-consolidate --backfill", "");
    assert_eq!(
        ids(&sandbox),
        ["set-aside"],
        "what could not be read is kept for who wants to look"
    );
}

#[test]
fn a_damaged_database_is_named_and_left_alone() {
    for (name, fate) in [("queue", "set it aside"), ("cost", "does not start")] {
        let sandbox = healthy();
        if name == "cost" {
            put(&sandbox, "agent.toml", b"[cost]\nday_usd = 1.0\n");
        }
        used(&sandbox);
        let garbage = [7; 20_000];
        // With a log that was not emptied SQLite has every page twice, and nothing is lost.
        let _ = fs::remove_file(sandbox.path(&format!("state/{name}.db-wal")));
        put(&sandbox, &format!("state/{name}.db"), &garbage);
        let finding = first(&sandbox);
        assert_eq!(finding["id"], "database-damaged");
        let evidence = finding["evidence"].as_str().expect("text");
        assert!(
            evidence.contains(&format!("state/{name}.db")) && evidence.contains(fate),
            "{evidence}"
        );
        assert_eq!(
            fs::read(sandbox.path(&format!("state/{name}.db"))).expect("it is there"),
            garbage
        );
        let recover = format!(
            "sqlite3 {} .recover > {name}.sql",
            sandbox.path(&format!("state/{name}.db")).display()
        );
        assert!(command(&finding).starts_with(&recover), "{finding}");
    }
}

#[test]
fn a_page_that_rotted_is_found() {
    let sandbox = healthy();
    used(&sandbox);
    let path = sandbox.path("state/queue.db");
    {
        let connection = Connection::open(&path).expect("a database");
        let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
                    INSERT INTO seen(key, at) SELECT 'a key that is long enough ' || i, i FROM n";
        connection.execute(fill, []).expect("rows");
    }
    sandbox.empty_log("queue");
    let mut bytes = fs::read(&path).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4096].fill(0x5a);
    put(&sandbox, "state/queue.db", &bytes);
    assert_eq!(first(&sandbox)["id"], "database-damaged");
    assert_eq!(fs::read(&path).expect("it is there"), bytes);
}

#[test]
fn a_database_of_a_newer_version_or_none_at_all_is_named() {
    let sandbox = healthy();
    used(&sandbox);
    let path = sandbox.path("state/cost.db");
    Connection::open(&path)
        .and_then(|db| db.pragma_update(None, "user_version", 99))
        .expect("a database");
    let finding = first(&sandbox);
    assert_eq!(finding["id"], "database-newer");
    assert!(
        finding["evidence"]
            .as_str()
            .expect("text")
            .contains("schema 99"),
        "{finding}"
    );
    paste(&sandbox, &command(&finding), "");
    fs::remove_file(&path).expect("own file");
    fs::create_dir(&path).expect("own directory");
    chmod(&sandbox, "state/cost.db", 0o700);
    assert_eq!(first(&sandbox)["id"], "database-unreadable");
    fs::remove_dir(&path).expect("own directory");
    // One that a crash left empty is filled by the next daemon.
    put(&sandbox, "state/cost.db", b"");
    assert_eq!(ids(&sandbox), ["daemon-not-running"]);
}

#[test]
fn a_list_of_people_that_cannot_be_read_is_opened_at_its_line() {
    let sandbox = healthy();
    put(&sandbox, "state/people.json", b"{\n \"allowed\": [,]\n}");
    let says = ["state/people.json", "pairing", "line 2"];
    check_cured(
        &sandbox,
        "people-damaged",
        "error",
        &says,
        "[[ $1 == +2 ]] && echo '{}' > $file",
    );
    assert!(
        Path::new(&sandbox.path("state/people.json")).exists(),
        "it is not set aside by looking"
    );
}

#[test]
fn a_limit_that_is_reached_and_a_model_without_a_price_are_named() {
    let model = FakeModel::start();
    let sandbox = settings_only()
        .with_anthropic(&model)
        .config("[cost]\nday_usd = 0.5\nmonth_usd = 100.0");
    init(&sandbox);
    used(&sandbox);
    let ledger = Connection::open(sandbox.path("state/cost.db")).expect("a database");
    let spend = |cents: i64, ago_ms: i64| {
        let sql = "INSERT INTO costs(ts, call_id, source, provider, model, kind, cost_nano_usd)
                   VALUES (CAST(unixepoch('subsec') * 1000 AS INTEGER) - ?1, hex(randomblob(8)), 'cli', 'mock', 'primary', 'chat', ?2)";
        ledger
            .execute(sql, (ago_ms, cents * 10_000_000))
            .expect("a row");
    };
    spend(900, 2 * 86_400_000);
    spend(39, 0);
    assert_eq!(
        ids(&sandbox),
        ["daemon-not-running"],
        "yesterday's money is not today's"
    );
    spend(3, 0);
    assert_eq!(ids(&sandbox), ["cap-near", "daemon-not-running"]);
    spend(9, 0);
    let finding = first(&sandbox);
    assert_eq!(
        (&finding["id"], &finding["level"]),
        (&json!("cap-reached"), &json!("warning"))
    );
    let evidence = finding["evidence"].as_str().expect("text");
    assert!(
        evidence.contains("$0.51")
            && evidence.contains("day_usd = 0.50")
            && evidence.contains("midnight"),
        "{evidence}"
    );
    paste(
        &sandbox,
        &command(&finding),
        "sed -i 's/day_usd = 0.5/day_usd = 9.0/' $file",
    );
    assert_eq!(ids(&sandbox), ["daemon-not-running"]);

    let sandbox = healthy();
    let provider =
        b"type = \"openai\"\nbase_url = \"http://127.0.0.1:1\"\n[models.primary]\nmodel = \"m\"\n";
    put(&sandbox, "providers.d/mine.toml", provider);
    put(
        &sandbox,
        "agent.toml",
        b"[providers]\nload = [\"mine\"]\n[cost]\nday_usd = 1.0\n",
    );
    let price = "sed -i '/^model/a cost_per_mtok = [0, 0, 0, 0]' $file";
    check_cured(
        &sandbox,
        "model-unpriced",
        "error",
        &["`primary`", "cost_per_mtok = [0, 0, 0, 0]"],
        price,
    );
}
