//! Homes of older versions and of other programs.
#![allow(
    clippy::disallowed_methods,
    reason = "a test writes and reads files plainly"
)]

use std::{fs, path::PathBuf};

use rusqlite::Connection;

use crate::support::Sandbox;

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
    for (queue, cost, memory) in [(1, 1, 1), (2, 1, 1), (3, 2, 1), (4, 2, 2), (5, 2, 2)] {
        let sandbox = Sandbox::new();
        old_database(&sandbox, "queue", "queue.db", queue);
        old_database(&sandbox, "cost", "cost.db", cost);
        old_database(&sandbox, "memory/facts", "memory.db", memory);
        let migrated = sandbox.run("agent-daemon", &["migrate"], "");
        assert_eq!(migrated.code, 0, "{migrated:?}");
        assert!(
            migrated
                .stdout
                .contains(&format!("state/queue.db: schema {queue} is now")),
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
        let back = sandbox.run("agent-daemon", &["migrate", "--to", "0.0.1"], "");
        assert!(
            back.code == 1
                && back
                    .stderr
                    .contains(&format!("state/queue.db.schema-{queue}")),
            "{back:?}"
        );
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
    let none = sandbox.run("agent-daemon", &["import", "hermes", "/nonexistent"], "");
    assert_eq!(none.code, 74, "{none:?}");
}
