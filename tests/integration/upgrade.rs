//! Homes of older versions and of other programs.
#![allow(
    clippy::disallowed_methods,
    reason = "a test writes and reads files plainly"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rusqlite::Connection;

use crate::support::{Sandbox, wait_for};

/// Writes the database `name` as the version with `schema` migrations of the room `room` left it.
fn old_database(sandbox: &Sandbox, room: &str, name: &str, schema: usize) {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("src/lib/{room}/migrations"));
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .expect("migrations")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    fs::create_dir_all(sandbox.path("state")).expect("the sandbox is writable");
    let old = Connection::open(sandbox.path(&format!("state/{name}"))).expect("a database");
    old.pragma_update(None, "journal_mode", "WAL").expect("WAL");
    for file in files.iter().take(schema) {
        let sql = fs::read_to_string(file).expect("a migration");
        old.execute_batch(&sql).expect("it worked then");
    }
    old.pragma_update(None, "user_version", schema as i64)
        .expect("a number");
}

#[test]
fn a_home_of_every_older_schema_is_migrated_kept_and_works() {
    for (queue, cost, memory) in [
        (1, 1, 1),
        (2, 1, 1),
        (3, 2, 1),
        (4, 2, 2),
        (5, 2, 2),
        (11, 2, 2),
        (12, 2, 2),
        (12, 2, 3),
    ] {
        let sandbox = Sandbox::new();
        old_database(&sandbox, "queue", "queue.db", queue);
        old_database(&sandbox, "cost", "cost.db", cost);
        old_database(&sandbox, "memory/facts", "memory.db", memory);
        let migrated = sandbox.run("agent-daemon", &["migrate"], "");
        assert_eq!(migrated.code, 0, "{migrated:?}");
        assert!(
            migrated
                .stdout
                .contains(&format!("state/queue.db: migrated from schema {queue} to")),
            "{migrated:?}"
        );
        let kept = sandbox.path(&format!("state/queue.db.schema-{queue}"));
        let schema: i64 = Connection::open(&kept)
            .expect("the copy")
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .expect("a number");
        assert_eq!(usize::try_from(schema), Ok(queue));
        let answered = sandbox.run(
            "agent-daemon",
            &["--channel", "cli"],
            "remember that the boat lies in Lisbon\n",
        );
        assert!(
            answered.code == 0 && answered.stdout.contains("Lisbon"),
            "{answered:?}"
        );
        let again = sandbox.run("agent-daemon", &["migrate"], "");
        assert!(again.stdout.contains("nothing to do"), "{again:?}");
        let to = |version: &str| sandbox.run("agent-daemon", &["migrate", "--to", version], "");
        let back = to("0.0.1");
        assert!(
            back.code == 1
                && back
                    .stderr
                    .contains(&format!("state/queue.db.schema-{queue}")),
            "{back:?}"
        );
        // What an earlier migration kept lacks all that came since.
        let copy = sandbox.path(&format!("state/cost.db.schema-{cost}"));
        assert!(back.stderr.contains("state/cost.db.schema-"), "{back:?}");
        let month = Duration::from_secs(30 * 24 * 3600);
        fs::File::options()
            .write(true)
            .open(copy)
            .and_then(|file| file.set_modified(SystemTime::now() - month))
            .expect("own file");
        let back = to("0.0.1");
        assert!(
            back.stderr.contains("state/queue.db.schema-")
                && !back.stderr.contains("state/cost.db.schema-"),
            "{back:?}"
        );
        let newer = to("99.0.0");
        assert!(
            newer.code == 1 && newer.stderr.contains("install 99.0.0"),
            "{newer:?}"
        );
        assert_eq!(to("banana").code, 2);
    }
}

#[test]
fn another_program_moves_in_while_no_daemon_runs() {
    let sandbox = Sandbox::new();
    sandbox.put("old/workspace/SOUL.md", b"Be kind.\n");
    sandbox.put(
        "old/workspace/memory/2026-01-02.md",
        b"- the boat lies in Lisbon\n",
    );
    let dir = sandbox.path("old");
    let dir = dir.to_str().expect("UTF-8");
    let dry = sandbox
        .run(
            "agent-daemon",
            &["import", "--dry-run", "--json", "openclaw", dir],
            "",
        )
        .json();
    assert_eq!(
        dry["taken"],
        serde_json::json!(["workspace/SOUL.md", "workspace/memory/2026-01-02.md"])
    );
    assert!(!sandbox.path("workspace/memory/2026-01-02.md").exists());
    let daemon = sandbox.ready();
    let refused = sandbox.run("agent-daemon", &["import", "openclaw", dir], "");
    assert_eq!(refused.code, 75, "{refused:?}");
    assert_eq!(daemon.term(), 0);
    let taken = sandbox.run("agent-daemon", &["import", "openclaw", dir], "");
    assert_eq!(taken.code, 0, "{taken:?}");
    assert_eq!(sandbox.run("agent-index", &[], "").code, 0);
    let found = sandbox.run("agent-index", &["search", "where is the boat"], "");
    assert!(found.stdout.contains("Lisbon"), "{found:?}");
    // A slip: the workspace in its place.
    let slip = format!("{dir}/workspace");
    let told = sandbox.run("agent-daemon", &["import", "openclaw", &slip], "");
    assert!(told.stderr.contains("nothing to import in"), "{told:?}");
    let none = sandbox.run("agent-daemon", &["import", "hermes", "/nonexistent"], "");
    assert_eq!(none.code, 74, "{none:?}");
}

#[test]
fn conversations_that_another_program_keeps_in_a_database_move_in() {
    let sandbox = Sandbox::new();
    let put = |path: &str, sql: &str| {
        let path = sandbox.path(path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("directories");
        let database = Connection::open(path).expect("a database");
        database.execute_batch(sql).expect("tables");
    };
    put(
        "hermes/state.db",
        "CREATE TABLE sessions(id TEXT PRIMARY KEY, source TEXT, started_at REAL);
         CREATE TABLE messages(id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, timestamp REAL);
         INSERT INTO messages(session_id, role, content, timestamp) VALUES
           ('20260401_101500_ab12', 'system', 'Be brief.', 1775038500.0),
           ('20260401_101500_ab12', 'user', 'Where does the boat lie?', 1775038500.5),
           ('20260401_101500_ab12', 'tool', '{}', 1775038501.0),
           ('20260401_101500_ab12', 'assistant', char(0) || 'json:[{\"type\":\"text\",\"text\":\"In Lisbon.\"}]', 1775038502.0);",
    );
    put(
        "openclaw/agents/main/agent/openclaw-agent.sqlite",
        r#"CREATE TABLE transcript_events(session_id TEXT NOT NULL, seq INTEGER NOT NULL, event_json TEXT NOT NULL, created_at INTEGER NOT NULL, PRIMARY KEY (session_id, seq));
         INSERT INTO transcript_events VALUES
           ('4f0c', 2, '{"type":"message","timestamp":"2026-04-08T01:03:44Z","message":{"role":"assistant","content":[{"type":"text","text":"It rains in Oslo."}]}}', 0),
           ('4f0c', 1, '{"type":"message","timestamp":"2026-04-08T01:03:43Z","message":{"role":"user","content":"What is the weather?"}}', 0);"#,
    );
    fs::create_dir_all(sandbox.path("openclaw/workspace-work")).expect("directories");
    for (program, question, answer) in [
        ("hermes", "where does the boat lie", "Lisbon"),
        ("openclaw", "what is the weather", "Oslo"),
    ] {
        let dir = sandbox.path(program).display().to_string();
        let taken = sandbox.run("agent-daemon", &["import", "--json", program, &dir], "");
        assert!(
            taken.code == 0 && taken.stdout.contains("conversation "),
            "{taken:?}"
        );
        assert_eq!(
            taken.stdout.contains("workspace-work"),
            program == "openclaw",
            "{taken:?}"
        );
        assert_eq!(sandbox.run("agent-index", &[], "").code, 0);
        let found = sandbox.run("agent-index", &["search", question], "");
        assert!(found.stdout.contains(answer), "{found:?}");
    }
    assert!(!sandbox.path("state/import.tmp").exists());
}

/// Copies a home of tests/homes; a database is there as the statements that write it.
fn written_by(sandbox: &Sandbox, from: &Path, below: &Path) {
    for entry in fs::read_dir(from).expect("a directory").flatten() {
        let (path, to) = (entry.path(), below.join(entry.file_name()));
        if path.is_dir() {
            written_by(sandbox, &path, &to);
        } else if path.extension().is_some_and(|end| end == "sql") {
            let to = sandbox.path(to.with_extension("db").to_str().expect("UTF-8"));
            let database = Connection::open(to).expect("a database");
            let sql = fs::read_to_string(path).expect("its statements");
            // Rows stand before the table that they refer to.
            database
                .pragma_update(None, "foreign_keys", false)
                .and_then(|()| database.execute_batch(&sql))
                .expect("they worked then");
        } else {
            let bytes = fs::read(path).expect("a file");
            sandbox.put(to.to_str().expect("UTF-8"), &bytes);
        }
    }
}

/// Homes that earlier versions wrote, as they left them: one of every schema but those that stood for hours only.
#[test]
fn the_home_of_an_earlier_version_goes_on_where_it_was() {
    let birthday = ("When is my sister Ana's birthday?", "3 May");
    for (name, question, answer) in [
        ("queue-1", birthday.0, birthday.1),
        ("queue-2", birthday.0, birthday.1),
        ("queue-4", birthday.0, birthday.1),
        ("queue-5", birthday.0, birthday.1),
        ("queue-6", "When is my sister Ana's birthday?", "3 May"),
        ("queue-7", "Where did my sister Ana move?", "Porto"),
        ("queue-8", "What is Berta's dog called?", "Rex"),
        ("queue-11", "What is Berta's dog called?", "Rex"),
    ] {
        let sandbox = Sandbox::new();
        fs::create_dir_all(sandbox.path("state")).expect("the sandbox is writable");
        let from = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/homes");
        written_by(&sandbox, &from.join(name), Path::new(""));
        let checked = sandbox.run("agent-daemon", &["check"], "");
        assert_eq!(checked.code, 0, "{name}: {checked:?}");
        // Accepted before the new version ran.
        assert_eq!(sandbox.send(&["--id", "waited", "hello"]).code, 75);
        let daemon = sandbox.ready();
        let waited = sandbox.send(&["--result", "waited", "--wait=60"]);
        assert_eq!(waited.code, 0, "{name}: {waited:?}");
        let history = sandbox.send(&["--history", "cli"]);
        assert!(
            history.stdout.contains(answer) && history.stdout.contains("hello"),
            "{name}: {history:?}"
        );
        assert_eq!(sandbox.send(&["--wait=60", "/new"]).code, 0);
        let answered = sandbox.send(&["--wait=60", question]);
        assert!(answered.stdout.contains(answer), "{name}: {answered:?}");
        let costs = sandbox.send(&["--cost", "all", "--json"]);
        assert_eq!(costs.code, 0, "{name}: {costs:?}");
        // The end of a daemon does not wait for what is to be gathered.
        wait_for("the facts", Duration::from_secs(60), || {
            let facts = sandbox.run("agent-consolidate", &["facts"], "");
            facts.stdout.contains(answer).then_some(())
        });
        assert_eq!(daemon.term(), 0);
        let told = sandbox.run("agent-daemon", &["doctor", "--json"], "");
        for fault in ["set-aside", "damaged", "unreadable"] {
            assert!(!told.stdout.contains(fault), "{name}: {told:?}");
        }
        let (_, schema) = name.split_once('-').expect("a number");
        assert!(
            sandbox
                .path(&format!("state/queue.db.schema-{schema}"))
                .exists()
        );
    }
}
