//! `agent-index watch`: what changes is indexed a moment later, wherever it lies.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use serde_json::json;

use super::{index, put, put_bytes, transcript};
use crate::support::{Running, Sandbox, wait_for};

/// Long against a pause for quiet and a run, short against the patience of a reader.
const SOON: Duration = Duration::from_secs(20);
/// The pause for quiet after a change (specification §2).
const QUIET: Duration = Duration::from_millis(1500);

/// A watcher that has done its first run.
fn watched(sandbox: &Sandbox) -> Running {
    put(
        sandbox,
        "workspace/MEMORY.md",
        "The heron stands by the pond.\n",
    );
    let watcher = sandbox.starting("agent-index", &["watch"]);
    found(sandbox, "heron");
    watcher
}

fn hits(sandbox: &Sandbox, query: &str) -> usize {
    index(sandbox, &["search", "--strategy", "fts", "--json", query]).json()["results"]
        .as_array()
        .map_or(0, Vec::len)
}

fn found(sandbox: &Sandbox, query: &str) {
    wait_for(query, SOON, || (hits(sandbox, query) > 0).then_some(()));
}

/// Ends it as systemd does; it has said nothing.
fn term(watcher: Running) {
    let asked = Instant::now();
    kill(watcher.pid(), Signal::SIGTERM).expect("it runs");
    let told = watcher.end();
    assert_eq!(
        (told.code, told.stdout.as_str(), told.stderr.as_str()),
        (-(Signal::SIGTERM as i32), "", "")
    );
    assert!(
        asked.elapsed() < Duration::from_secs(2),
        "{:?}",
        asked.elapsed()
    );
}

#[test]
fn a_watcher_indexes_what_changes() {
    let sandbox = Sandbox::new();
    // Of what this states it is told by memory.db alone.
    put(&sandbox, "workspace/USER.md", "My sister is Ana.\n");
    let watcher = watched(&sandbox);
    put(
        &sandbox,
        "workspace/memory/2026-02-02.md",
        "A bittern was heard.\n",
    );
    found(&sandbox, "bittern");
    put(
        &sandbox,
        "workspace/memory/2026-02-03.md",
        "A curlew was seen.\n",
    );
    found(&sandbox, "curlew");
    put(
        &sandbox,
        "workspace/memory/deep/er/notes.md",
        "A dunlin was ringed.\n",
    );
    found(&sandbox, "dunlin");
    put(
        &sandbox,
        "workspace/memory/deep/er/more.md",
        "A plover was counted.\n",
    );
    found(&sandbox, "plover");
    assert_eq!(sandbox.run("agent-consolidate", &[], "").code, 0);
    found(&sandbox, "sister");
    fs::remove_file(sandbox.path("workspace/memory/2026-02-03.md")).expect("it is there");
    wait_for("the curlew to be forgotten", SOON, || {
        (hits(&sandbox, "curlew") == 0).then_some(())
    });
    term(watcher);
}

#[test]
fn a_watcher_waits_for_quiet() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("workspace/memory")).expect("the sandbox is writable");
    let watcher = watched(&sandbox);
    // As an editor does that saves all the time.
    let begun = Instant::now();
    let mut last = begun;
    while last.duration_since(begun) < Duration::from_secs(3) {
        put(
            &sandbox,
            "workspace/memory/draft.md",
            &format!("A bittern was heard, {:?}.\n", begun.elapsed()),
        );
        last = Instant::now();
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(hits(&sandbox, "bittern"), 0, "it did not wait for quiet");
    found(&sandbox, "bittern");
    assert!(
        last.elapsed() >= QUIET - Duration::from_millis(50),
        "{:?}",
        last.elapsed()
    );
    term(watcher);
}

#[test]
fn a_watcher_survives_the_memory_that_goes_and_comes() {
    let sandbox = Sandbox::new();
    put(
        &sandbox,
        "workspace/memory/deep/notes.md",
        "A dunlin was ringed.\n",
    );
    let watcher = watched(&sandbox);
    found(&sandbox, "dunlin");
    let memory = sandbox.path("workspace/memory");
    fs::remove_dir_all(&memory).expect("it is there");
    wait_for("the dunlin to be forgotten", SOON, || {
        (hits(&sandbox, "dunlin") == 0).then_some(())
    });
    put(
        &sandbox,
        "workspace/memory/deep/notes.md",
        "A plover was counted.\n",
    );
    found(&sandbox, "plover");
    // Of what is stated it has been told by the database alone.
    put(&sandbox, "workspace/USER.md", "My sister is Ana.\n");
    assert_eq!(sandbox.run("agent-consolidate", &[], "").code, 0);
    found(&sandbox, "sister");
    // Another directory in its place, at once.
    fs::rename(&memory, sandbox.path("workspace/aside")).expect("it is there");
    put(
        &sandbox,
        "workspace/memory/other.md",
        "A bittern was heard.\n",
    );
    found(&sandbox, "bittern");
    put(
        &sandbox,
        "workspace/memory/later.md",
        "A curlew was seen.\n",
    );
    found(&sandbox, "curlew");
    assert_eq!(hits(&sandbox, "plover"), 0);
    term(watcher);
}

#[test]
fn a_watcher_indexes_what_a_running_conversation_no_longer_sends() {
    let sandbox = Sandbox::new();
    let said = [
        ("user", "my violin is old"),
        ("assistant", "A Stradivari?"),
        ("user", "my trumpet is new"),
    ];
    let text = transcript("cli:ada", &said);
    let live = sandbox.path("state/sessions/s1.2026-05-04.jsonl");
    let watcher = watched(&sandbox);
    put_bytes(&live, text.as_bytes());
    let compaction = json!({"v": 1, "ts": "2026-05-04T10:00:00.000Z", "seq": 5, "type": "compaction", "run_id": "r", "kept_from": 4,
        "question": null, "summary": "They spoke of a xylophone.", "by": "model", "tokens": [9, 5]});
    put_bytes(&live, format!("{text}{compaction}\n").as_bytes());
    found(&sandbox, "violin");
    assert_eq!(hits(&sandbox, "trumpet"), 0, "it is still sent");
    // It ends: the archive may be new, too.
    let archive = sandbox.path("state/sessions/archive");
    fs::create_dir_all(&archive).expect("the sandbox is writable");
    fs::rename(&live, archive.join("s1.2026-05-04.jsonl")).expect("it is there");
    found(&sandbox, "trumpet");
    term(watcher);
}
