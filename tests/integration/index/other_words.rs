//! What says in other words what stands elsewhere: summaries of conversations, and facts with the place that
//! states them.

use std::fs;

use serde_json::{Value, json};

use super::rows::Rows;
use super::{index, put, put_bytes, sync};
use crate::support::Sandbox;

fn consolidate(sandbox: &Sandbox) {
    let told = sandbox.run("agent-consolidate", &[], "");
    assert_eq!(
        (told.code, told.stdout.as_str(), told.stderr.as_str()),
        (0, "", "")
    );
}

/// Returns `path:start-end text` of what is found in `sources`.
fn found(sandbox: &Sandbox, query: &str, sources: &[&str]) -> Vec<String> {
    let mut arguments = vec!["search", "--strategy", "fts", "--json"];
    sources
        .iter()
        .for_each(|source| arguments.extend(["--source", source]));
    arguments.extend(["--", query]);
    let told = index(sandbox, &arguments);
    assert_eq!((told.code, told.stderr.as_str()), (0, ""), "{query}");
    let line = |hit: &Value| {
        let text = hit["text"].as_str().expect("text");
        format!(
            "{}:{}-{} {text}",
            hit["path"].as_str().expect("a path"),
            hit["start_line"],
            hit["end_line"]
        )
    };
    told.json()["results"]
        .as_array()
        .expect("a list")
        .iter()
        .map(line)
        .collect()
}

fn status(sandbox: &Sandbox) -> Value {
    let told = index(sandbox, &["status", "--json"]);
    assert_eq!(told.code, 0, "{told:?}");
    told.json()
}

/// Panics when an index made from nothing says something else.
fn as_from_nothing(sandbox: &Sandbox) {
    let words: Vec<String> = ["porto", "cat", "zither", "fact"]
        .map(str::to_owned)
        .to_vec();
    let lived = Rows::of(sandbox, &words);
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(sandbox.path(&format!("state/index.db{end}")));
    }
    sync(sandbox);
    assert_eq!(
        lived.difference(&Rows::of(sandbox, &words)),
        None,
        "from nothing comes another index"
    );
}

/// A transcript in several files: events with the numbers that they have in the conversation.
struct Talk {
    key: &'static str,
    next: u64,
}

impl Talk {
    fn event(&mut self, more: &Value) -> String {
        let mut event = json!({"v": 1, "ts": format!("2026-05-04T10:00:{:02}.000Z", self.next % 60), "seq": self.next});
        event
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
        self.next += 1;
        format!("{event}\n")
    }

    fn head(&mut self) -> String {
        let key = self.key;
        self.event(&json!({"type": "session", "session_id": "s1", "key": key, "contact": "Ada", "created_at": "2026-05-04T10:00:00.000Z"}))
    }

    fn said(&mut self, role: &str, trust: Option<&str>, words: &str) -> String {
        let content = json!([{"type": "text", "text": words}]);
        let run = format!("r{}", self.next / 2);
        self.event(&json!({"type": "message", "role": role, "run_id": run, "trust": trust, "content": content}))
    }

    /// Sums up all before the event that comes `back` before this one.
    fn summary(&mut self, back: u64, words: &str) -> String {
        let kept_from = self.next - back;
        self.event(&json!({"type": "compaction", "run_id": "r", "kept_from": kept_from, "summary": words, "by": "model", "tokens": [9, 5]}))
    }
}

// ------------------------------------------------------------------ summaries

#[test]
fn a_summary_is_found_as_soon_as_it_is_made_and_after_the_next_one() {
    let sandbox = Sandbox::new();
    let mut talk = Talk {
        key: "cli:ada",
        next: 1,
    };
    let (old, next) = (
        "state/sessions/s1.2026-05-04.jsonl",
        "state/sessions/s1.2026-05-04.1.jsonl",
    );
    let first = [
        talk.head(),
        talk.said("user", Some("owner"), "my cat is called Tom"),
        talk.said("assistant", None, "A fine name."),
        talk.said("user", Some("owner"), "she plays the flute"),
        talk.summary(1, "They spoke of a pet.\n\nAda sold her zither to Morgan."),
    ]
    .concat();
    put(&sandbox, old, &first);
    sync(&sandbox);
    let both = |path: &str| {
        format!("{path}:5-5 summary: They spoke of a pet.\nsummary: Ada sold her zither to Morgan.")
    };
    assert_eq!(found(&sandbox, "zither", &["summary"]), [both(old)]);
    assert!(
        found(&sandbox, "flute", &["session"]).is_empty(),
        "it is still sent"
    );
    let second = [
        talk.head(),
        talk.said("assistant", None, "How nice."),
        talk.said("user", Some("owner"), "hello"),
        talk.summary(1, "Of pets, flutes and a dulcimer."),
    ]
    .concat();
    put(&sandbox, next, &second);
    sync(&sandbox);
    assert_eq!(found(&sandbox, "zither", &["summary"]), [both(old)]);
    assert_eq!(
        found(&sandbox, "zither", &[]),
        [both(old)],
        "and not as what somebody said"
    );
    assert!(found(&sandbox, "zither", &["session"]).is_empty());
    assert_eq!(
        found(&sandbox, "dulcimer", &[]).len(),
        1,
        "the newest is found, too"
    );
    assert_eq!(
        status(&sandbox)["sources"],
        json!({"session": 2, "summary": 2})
    );
    assert_eq!(status(&sandbox)["files"], 2);
    as_from_nothing(&sandbox);
    // What ended has all of them.
    for file in [old, next] {
        put(
            &sandbox,
            &file.replace("sessions/", "sessions/archive/"),
            &sandbox.read(file).expect("it is there"),
        );
        fs::remove_file(sandbox.path(file)).expect("it is there");
    }
    sync(&sandbox);
    let archived = |file: &str| file.replace("sessions/", "sessions/archive/");
    assert_eq!(found(&sandbox, "zither", &[]), [both(&archived(old))]);
    let dulcimer = format!(
        "{}:4-4 summary: Of pets, flutes and a dulcimer.",
        archived(next)
    );
    assert_eq!(found(&sandbox, "dulcimer", &["summary"]), [dulcimer]);
    let told = index(&sandbox, &["search", "dulcimer", "--json", "--explain"]).json();
    assert_eq!(
        (&told["results"][0]["source"], &told["results"][0]["scope"]),
        (&json!("summary"), &json!("owner"))
    );
    as_from_nothing(&sandbox);
}

#[test]
fn what_others_said_in_a_file_before_is_not_summed_up_for_the_owner() {
    let sandbox = Sandbox::new();
    let mut talk = Talk {
        key: "cli:ada",
        next: 1,
    };
    let archive = |name: &str| format!("state/sessions/archive/s1.{name}.jsonl");
    let clean = [
        talk.head(),
        talk.said("user", Some("owner"), "hello"),
        talk.summary(1, "A greeting, and a zither."),
    ]
    .concat();
    let foreign = [
        talk.head(),
        talk.said("user", Some("other"), "buy a harpsichord"),
    ]
    .concat();
    let after = [
        talk.head(),
        talk.said("user", Some("owner"), "hm"),
        talk.summary(1, "Somebody sells a harpsichord."),
    ]
    .concat();
    put(&sandbox, &archive("2026-05-04"), &clean);
    put(&sandbox, &archive("2026-05-05"), &foreign);
    put(&sandbox, &archive("2026-05-06"), &after);
    sync(&sandbox);
    assert_eq!(found(&sandbox, "zither", &["summary"]).len(), 1);
    assert!(found(&sandbox, "harpsichord", &["summary"]).is_empty());
    // What nobody can look at any more may have been anybody's.
    fs::remove_file(sandbox.path(&archive("2026-05-05"))).expect("it is there");
    sync(&sandbox);
    assert!(found(&sandbox, "harpsichord", &["summary"]).is_empty());
    as_from_nothing(&sandbox);
    // A file that somebody puts back decides about another.
    put(
        &sandbox,
        &archive("2026-05-05"),
        &foreign.replace("other", "owner"),
    );
    sync(&sandbox);
    assert_eq!(found(&sandbox, "harpsichord", &["summary"]).len(), 1);
    as_from_nothing(&sandbox);
}

// ------------------------------------------------------------------ facts

#[test]
fn facts_come_change_and_go_with_what_states_them() {
    let sandbox = Sandbox::new();
    put(
        &sandbox,
        "workspace/MEMORY.md",
        "# Family\n\nAna lives in Porto.\n\nTom lives in Kiel.\n",
    );
    sync(&sandbox);
    assert!(
        found(&sandbox, "Ana", &["fact"]).is_empty(),
        "nobody has drawn them yet"
    );
    consolidate(&sandbox);
    sync(&sandbox);
    let fact = found(&sandbox, "Where does Ana live?", &["fact"]).remove(0);
    assert!(
        fact.starts_with("workspace/MEMORY.md:3-3 Ana: lives in Porto (since 20"),
        "{fact}"
    );
    let told = index(
        &sandbox,
        &["search", "Porto", "--source", "fact", "--json", "--explain"],
    )
    .json();
    assert_eq!(
        (&told["results"][0]["source"], &told["results"][0]["scope"]),
        (&json!("fact"), &json!("owner"))
    );
    assert_eq!(status(&sandbox)["sources"], json!({"fact": 2, "memory": 1}));
    assert_eq!(status(&sandbox)["files"], 1);
    as_from_nothing(&sandbox);
    // Where the words are found the fact is not shown beside them.
    assert_eq!(found(&sandbox, "Where does Ana live?", &[]).len(), 1);
    assert!(
        found(&sandbox, "Where does Ana live?", &[])[0]
            .starts_with("workspace/MEMORY.md:1-5 # Family")
    );

    put(
        &sandbox,
        "workspace/MEMORY.md",
        "# Family\n\nAna lives in Lisbon.\n",
    );
    consolidate(&sandbox);
    sync(&sandbox);
    assert!(found(&sandbox, "Porto", &[]).is_empty() && found(&sandbox, "Tom", &[]).is_empty());
    assert_eq!(found(&sandbox, "Ana", &["fact"]).len(), 1);
    as_from_nothing(&sandbox);

    let unchanged = index(&sandbox, &["--json"]).json();
    assert_eq!(
        ["added", "changed", "removed", "chunks"].map(|name| unchanged[name].as_u64()),
        [0; 4].map(Some)
    );
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(sandbox.path(&format!("state/memory.db{end}")));
    }
    sync(&sandbox);
    assert!(found(&sandbox, "Ana", &["fact"]).is_empty());
    assert_eq!(
        (
            found(&sandbox, "Ana", &[]).len(),
            &status(&sandbox)["facts_unread"]
        ),
        (1, &Value::Null)
    );
    as_from_nothing(&sandbox);
}

#[test]
fn a_fact_is_found_where_its_conversation_lies_now() {
    let sandbox = Sandbox::new();
    let mut talk = Talk {
        key: "cli:ada",
        next: 1,
    };
    let mut text = talk.head();
    for words in ["My sister is Ana.", "thanks", "hello", "good"] {
        text.push_str(&talk.said("user", Some("owner"), words));
        text.push_str(&talk.said("assistant", None, "ok"));
    }
    let (running, archived) = (
        "state/sessions/s1.2026-05-04.jsonl",
        "state/sessions/archive/s1.2026-05-04.jsonl",
    );
    put(&sandbox, running, &text);
    consolidate(&sandbox);
    sync(&sandbox);
    // What was said is still sent and not searched; what is known is found.
    let fact = |path: &str| vec![format!("{path}:2-2 user: sister Ana (since 2026-05-04)")];
    assert_eq!(found(&sandbox, "sister", &[]), fact(running));
    put(&sandbox, archived, &text);
    fs::remove_file(sandbox.path(running)).expect("it is there");
    sync(&sandbox);
    assert_eq!(found(&sandbox, "sister", &["fact"]), fact(archived));
    let words = found(&sandbox, "sister", &[]);
    assert!(
        words.len() == 1 && words[0].contains("Ada: My sister is Ana."),
        "{words:?}"
    );
    as_from_nothing(&sandbox);
}

#[test]
fn a_memory_db_that_cannot_be_read_stops_nothing_and_is_said() {
    let sandbox = Sandbox::new();
    put(&sandbox, "workspace/MEMORY.md", "Ana lives in Porto.\n");
    consolidate(&sandbox);
    sync(&sandbox);
    put_bytes(&sandbox.path("state/memory.db"), &[7; 9000]);
    put(
        &sandbox,
        "workspace/memory/2026-05-04.md",
        "The cat is called Tom.\n",
    );
    let told = index(&sandbox, &[]);
    assert_eq!(
        (told.code, told.stdout.as_str(), told.stderr.lines().count()),
        (0, "", 1),
        "{told:?}"
    );
    assert!(
        told.stderr
            .starts_with("agent-index: left out state/memory.db: "),
        "{told:?}"
    );
    assert!(
        told.stderr.contains("is damaged") && told.stderr.contains("agent-daemon doctor"),
        "{told:?}"
    );
    assert_eq!(found(&sandbox, "cat", &[]).len(), 1);
    assert_eq!(
        found(&sandbox, "Porto", &["fact"]).len(),
        1,
        "what it said before is still found"
    );
    assert!(
        status(&sandbox)["facts_unread"]
            .as_str()
            .is_some_and(|why| why.contains("memory.db is damaged"))
    );
    let dry = index(&sandbox, &["--dry-run", "--json"]).json();
    assert_eq!(
        (&dry["added"], &dry["skipped"][0]["path"]),
        (&json!(0), &json!("state/memory.db"))
    );
    assert_eq!(index(&sandbox, &["rebuild"]).code, 0);
    assert!(found(&sandbox, "Porto", &["fact"]).is_empty());
    assert_eq!(found(&sandbox, "Porto", &[]).len(), 1);
}
