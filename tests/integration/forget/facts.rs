//! A fact is erased wherever it is stated and was, and nobody else's with it.
#![allow(
    clippy::disallowed_methods,
    reason = "a test reads and removes files plainly"
)]

use std::fs;

use serde_json::json;

use super::{consolidate, standing};
use crate::support::Sandbox;

/// Returns the number of the fact that these words name.
fn number(sandbox: &Sandbox, words: &str) -> String {
    let facts = consolidate(sandbox, &["facts", "--all", "--json"]).json();
    let words: Vec<&str> = words.split(' ').collect();
    let said = |fact: &serde_json::Value| {
        format!("{} {} {}", fact["entity"], fact["attribute"], fact["value"])
    };
    let is_meant = |fact: &&serde_json::Value| words.iter().all(|word| said(fact).contains(word));
    let fact = facts["facts"]
        .as_array()
        .expect("a list")
        .iter()
        .find(is_meant)
        .unwrap_or_else(|| panic!("{words:?}: {facts}"));
    fact["id"].to_string()
}

/// Erases a fact and returns what the proof says.
fn forget(sandbox: &Sandbox, words: &str) -> String {
    let told = consolidate(sandbox, &["forget", words, "--hard", "--yes"]);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(told.stderr.contains("nothing left in "), "{told:?}");
    told.stderr
}

#[test]
fn what_is_said_of_others_in_the_same_words_stays() {
    let sandbox = Sandbox::new();
    let others =
        "- Ana's birthday: 3 May\n- Tom's birthday: 3 May 1990\n\n| Eve | Birthday: 3 May |\n";
    sandbox.put(
        "workspace/MEMORY.md",
        format!("- Birthday: 3 May\n{others}").as_bytes(),
    );
    for (name, value) in [("Ana", "Rome"), ("Bob", "Romeo"), ("Tom", "Rome")] {
        let item = format!(
            "---\ntype: fact\nentity: {name}\nattribute: city\nvalue: {value}\n---\n\nAs {name} wrote.\n"
        );
        sandbox.put(
            &format!("workspace/memory/items/{name}.md"),
            item.as_bytes(),
        );
    }
    assert_eq!(consolidate(&sandbox, &[]).code, 0);
    // Each stands now where another stood.
    sandbox.put(
        "workspace/MEMORY.md",
        format!("\n- Birthday: 3 May\n{others}").as_bytes(),
    );
    assert_eq!(consolidate(&sandbox, &[]).code, 0);
    let own = number(&sandbox, "user birthday");
    let looked = consolidate(&sandbox, &["forget", &own, "--hard", "--dry-run", "--json"]).json();
    assert_eq!(
        looked["notes"],
        serde_json::json!(["workspace/MEMORY.md: - Birthday: 3 May"]),
        "{looked}"
    );
    let told = forget(&sandbox, &own);
    assert!(told.contains("its value is still in 1 file"), "{told}");
    assert_eq!(
        sandbox.read("workspace/MEMORY.md"),
        Some(format!("\n{others}"))
    );
    forget(&sandbox, &number(&sandbox, "Ana city Rome"));
    let left = ["Ana", "Bob", "Tom"].map(|name| {
        sandbox
            .path(&format!("workspace/memory/items/{name}.md"))
            .exists()
    });
    assert_eq!(left, [false, true, true]);
    for kept in [
        "Ana birthday",
        "Tom birthday",
        "Bob city Romeo",
        "Tom city Rome",
    ] {
        number(&sandbox, kept);
    }
    let before = consolidate(&sandbox, &["facts", "--all"]).stdout;
    assert_eq!(consolidate(&sandbox, &["--backfill"]).code, 0);
    assert_eq!(consolidate(&sandbox, &["facts", "--all"]).stdout, before);
}

#[test]
fn what_held_once_and_what_nobody_has_read_yet_is_erased_too() {
    let sandbox = Sandbox::new();
    let daemon = sandbox.ready();
    let kept = sandbox.send(&["--wait=40", "remember that I live in Zorbograd"]);
    let item = kept.stdout.split('`').nth(1).expect("a path").to_owned();
    assert_eq!(consolidate(&sandbox, &[]).code, 0);
    number(&sandbox, "lives Zorbograd");
    fs::remove_file(sandbox.path(&item)).expect("it is there");
    sandbox.put("workspace/MEMORY.md", b"- I work at Krumbolia.\n");
    assert_eq!(consolidate(&sandbox, &[]).code, 0);
    // Not read, or read in other words, when it is to be forgotten.
    sandbox.put(
        "workspace/MEMORY.md",
        b"- I work at Krumbolia now, near the river.\n- Dog: Rex\n",
    );
    sandbox.put(
        "workspace/memory/more.md",
        b"I work at Krumbolia since 2020.\n",
    );
    assert_eq!(
        sandbox
            .send(&["--wait=40", "By the way, I work at Krumbolia."])
            .code,
        0
    );
    assert_eq!(daemon.term(), 0);
    for word in ["zorbograd", "krumbolia"] {
        forget(&sandbox, word);
        assert_eq!(standing(&sandbox, word), [] as [&str; 0]);
    }
    assert_eq!(
        sandbox.read("workspace/MEMORY.md").as_deref(),
        Some("- Dog: Rex\n")
    );
    assert!(
        consolidate(&sandbox, &["--verbose"])
            .stderr
            .contains("0 new")
    );
}

#[test]
fn what_else_was_said_in_the_same_words_stays_for_good() {
    let sandbox = Sandbox::new();
    let said = [
        "I live in Zorbograd and work at Krumbolia. I have a dog called Rex.",
        "I live in Zorbograd. Remind me to pay the rent tomorrow.",
        "Good morning!",
    ];
    let spoken = |role: &str, run: usize, words: &str| {
        let content = json!([{"type": "text", "text": words}]);
        json!({"type": "message", "role": role, "trust": "owner", "run_id": format!("r{run}"), "content": content})
    };
    let head = json!({"type": "session", "session_id": "s1", "key": "cli:ada", "contact": "Ada", "created_at": "x"});
    let turns = said.iter().enumerate();
    let events = turns.flat_map(|(run, words)| {
        let answer = format!("I heard: {words}");
        [
            spoken("user", run, words),
            spoken("assistant", run, &answer),
        ]
    });
    let lines = (1..).zip(std::iter::once(head).chain(events));
    let lines = lines.map(|(seq, mut event)| {
        (event["v"], event["seq"]) = (json!(1), json!(seq));
        event["ts"] = json!("2026-05-04T10:00:00.000Z");
        format!("{event}\n")
    });
    let text: String = lines.collect();
    sandbox.put("state/sessions/s1.2026-05-04.jsonl", text.as_bytes());
    assert_eq!(consolidate(&sandbox, &[]).code, 0);
    let known = || {
        let facts = consolidate(&sandbox, &["facts", "--json"]).json();
        let facts = facts["facts"].as_array().expect("a list").clone();
        let mut values: Vec<String> = facts.iter().map(|fact| fact["value"].to_string()).collect();
        values.sort();
        let promised = sandbox.query(
            "memory",
            "SELECT what FROM commitments WHERE status = 'open'",
        );
        (values, format!("{promised:?}"))
    };
    let before = known();
    assert!(before.1.contains("rent"), "{before:?}");
    assert_eq!(before.0, ["\"Krumbolia\"", "\"Rex\"", "\"Zorbograd\""]);
    forget(&sandbox, &number(&sandbox, "lives Zorbograd"));
    assert_eq!(standing(&sandbox, "zorbograd"), [] as [&str; 0]);
    let left = (before.0[..2].to_vec(), before.1);
    assert_eq!(known(), left);
    let why = consolidate(&sandbox, &["why", "Krumbolia"]).stdout;
    assert!(why.contains("[forgotten]"), "{why}");
    assert_eq!(consolidate(&sandbox, &["--backfill"]).code, 0);
    assert_eq!(known(), left, "with everything read again");
}
