//! What the page reads: titles, the end of a conversation, the steps of an answer, memory, facts, jobs, dead letters,
//! settings and commands.

use serde_json::{Value, json};

use super::{Api, SOON};
use crate::support::{Reply, wait_for};

fn names(document: &Value, list: &str, field: &str) -> Vec<String> {
    let items = document[list].as_array().expect("a list");
    items
        .iter()
        .map(|item| item[field].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn a_conversation_is_read_from_its_end_and_called_by_its_first_words() {
    let api = Api::new();
    let long = "x".repeat(5000);
    for words in ["\n the first words \nmore", "second", &long] {
        api.chat(&json!({"message": words, "session": "http:web-1"}));
    }
    let sessions = api.get("/api/v1/sessions?titles=true").json();
    assert_eq!(names(&sessions, "sessions", "title"), ["the first words"]);
    assert!(api.get("/api/v1/sessions").json()["sessions"][0]["title"].is_null());
    let read = |query: &str| {
        api.get(&format!("/api/v1/sessions/http%3Aweb-1/history?{query}"))
            .json()
    };
    let numbers = |document: &Value| -> Vec<u64> {
        let events = document["events"].as_array().expect("events");
        events
            .iter()
            .map(|event| event["seq"].as_u64().expect("a number"))
            .collect()
    };
    let all = read("last=500");
    let shown = numbers(&all);
    assert_eq!((shown.len(), &all["more"]), (6, &json!(false)), "{all}");
    let end = read("last=2");
    assert_eq!(
        (numbers(&end), &end["more"]),
        (shown[4..].to_vec(), &json!(true))
    );
    let words = end["events"][0]["content"].as_array().expect("blocks");
    assert!(
        words.iter().any(|block| block["text"] == long.as_str()),
        "words are whole"
    );
    let before = read(&format!("last=3&before={}", shown[4]));
    assert_eq!(
        (numbers(&before), &before["more"]),
        (shown[1..4].to_vec(), &json!(true))
    );
    let first = read(&format!("last=3&before={}", shown[2]));
    assert_eq!(
        (numbers(&first), &first["more"]),
        (shown[..2].to_vec(), &json!(false))
    );
    let file = json!([{"data": "aGVsbG8=", "filename": "greeting.txt"}]);
    api.chat(&json!({"message": "read", "session": "http:web-1", "attachments": file}));
    let path = read("last=2")["events"][0]["files"][0].clone();
    assert!(
        path.as_str()
            .is_some_and(|path| path.ends_with("greeting.txt")),
        "{path}"
    );
    for wrong in [
        "last=0",
        "last=501",
        "last=-1",
        "before=3",
        "last=2&full=true",
        "last=x",
    ] {
        let path = format!("/api/v1/sessions/http%3Aweb-1/history?{wrong}");
        assert_eq!(api.get(&path).status, 400, "{wrong}");
    }
    assert_eq!(api.get("/api/v1/sessions?titles=perhaps").status, 400);
    let nothing = api
        .get("/api/v1/sessions/http%3Aweb-none/history?last=5")
        .json();
    assert_eq!(
        (&nothing["events"], &nothing["more"]),
        (&json!([]), &json!(false))
    );
}

#[test]
fn a_stream_tells_of_each_step_when_it_is_asked_to() {
    let api = Api::new();
    let call = || Reply::Tool("exec".to_owned(), json!({"command": "echo 42"}));
    let said = |steps: Value| {
        api.model.push(call());
        api.model.push(Reply::Text("It is 42.".to_owned()));
        let body = json!({"message": "look", "steps": steps});
        api.post("/api/v1/chat/stream", &body).text()
    };
    let told = said(json!(true));
    let steps: Vec<Value> = told
        .split("\n\n")
        .filter_map(|event| event.strip_prefix("event: step\ndata: "))
        .map(|data| serde_json::from_str(data).expect("JSON"))
        .collect();
    let states: Vec<&str> = steps
        .iter()
        .filter_map(|step| step["state"].as_str())
        .filter(|state| *state != "tool_output")
        .collect();
    assert_eq!(
        states,
        ["thinking", "tool_started", "tool_ended", "thinking"],
        "{told}"
    );
    let ended = steps
        .iter()
        .find(|step| step["state"] == "tool_ended")
        .expect("an end");
    assert_eq!(
        (&ended["tool"], &ended["is_error"]),
        (&json!("exec"), &json!(false))
    );
    assert!(!said(Value::Null).contains("event: step"));
}

#[test]
fn memory_and_facts_are_searched_shown_explained_and_forgotten() {
    let api = Api::new();
    let note = "# Notes\n\nThe spare key of the canary-boat hangs behind the door.\n";
    api.sandbox
        .put("workspace/memory/2026-05-04.md", note.as_bytes());
    assert_eq!(api.sandbox.run("agent-index", &[], "").code, 0);
    // Where the daemon was at it already, it is the daemon that ends it.
    let found = wait_for("the note to be indexed", SOON, || {
        let found = api.get("/api/v1/search?q=canary-boat&k=3").json();
        (!names(&found, "results", "path").is_empty()).then_some(found)
    });
    let shell = api.sandbox.run(
        "agent-index",
        &["search", "canary-boat", "-k", "3", "--json"],
        "",
    );
    assert_eq!(
        names(&found, "results", "path"),
        ["workspace/memory/2026-05-04.md"],
        "{found} {shell:?}"
    );
    let place = api
        .get("/api/v1/lines?path=workspace%2Fmemory%2F2026-05-04.md&line=3")
        .json();
    assert_eq!(
        (&place["start_line"], &place["lines"][2]),
        (
            &json!(1),
            &json!("The spare key of the canary-boat hangs behind the door.")
        ),
        "{place}"
    );
    for path in [
        "workspace%2F..%2Fagent.toml",
        "workspace%2F..%2F.env",
        "state%2Fqueue.db",
        "agent.toml",
        "%2Fetc%2Fpasswd",
        "workspace%2F%2Fetc%2Fpasswd",
        "workspace%2Fnone.md",
    ] {
        let answer = api.get(&format!("/api/v1/lines?path={path}"));
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
    }
    std::os::unix::fs::symlink("/etc/passwd", api.sandbox.path("workspace/link.md"))
        .expect("a link");
    assert_eq!(
        api.get("/api/v1/lines?path=workspace%2Flink.md").status,
        404
    );
    for wrong in ["", "q=", "q=%20"] {
        assert_eq!(
            api.get(&format!("/api/v1/search?{wrong}")).status,
            400,
            "{wrong}"
        );
    }
    // A fact from a note, by rules.
    api.sandbox
        .put("workspace/USER.md", b"# Me\n\nHello.\n- Birthday: 4 May\n");
    api.sandbox.run("agent-consolidate", &["run"], "");
    let facts = api.get("/api/v1/facts").json();
    let shell = api
        .sandbox
        .run("agent-consolidate", &["facts", "--json"], "");
    let shell: Value = serde_json::from_str(&shell.stdout).expect("JSON");
    assert_eq!(facts["facts"], shell["facts"], "as the shell has them");
    let id = facts["facts"][0]["id"].as_i64().expect("a fact");
    let why = api.get(&format!("/api/v1/facts/{id}")).json();
    assert_eq!(why["fact"]["id"], id, "{why}");
    let gone = api.post("/api/v1/forget", &json!({"target": id.to_string()}));
    assert_eq!(gone.status, 200, "{gone:?}");
    let left = api.get("/api/v1/facts").json();
    let left = left["facts"].as_array().expect("a list");
    assert!(left.iter().all(|fact| fact["id"] != id), "{left:?}");
    assert_eq!(api.get("/api/v1/facts/999999").status, 404);
    assert_eq!(api.get("/api/v1/facts/x").status, 404);
}

#[test]
fn jobs_dead_letters_settings_and_commands_are_shown_and_ordered() {
    let api = Api::new();
    let added = api.sandbox.send(&[
        "--job", "add", "--every", "1h", "--name", "look", "--text", "look",
    ]);
    assert_eq!(added.code, 0, "{added:?}");
    let job = || api.get("/api/v1/jobs").json()["jobs"][0].clone();
    let id = job()["id"].as_str().expect("an id").to_owned();
    let order = |op: &str| {
        api.post(&format!("/api/v1/jobs/{id}"), &json!({"op": op}))
            .status
    };
    assert_eq!((order("pause"), &job()["enabled"]), (200, &json!(false)));
    assert_eq!((order("resume"), &job()["enabled"]), (200, &json!(true)));
    assert_eq!(order("explode"), 400);
    assert_eq!((order("remove"), job()), (200, Value::Null));
    assert_ne!(order("run"), 200, "it is gone");

    api.post("/api/v1/notify", &json!({"message": "reaches nobody"}));
    let dead = || api.get("/api/v1/queue").json()["dead"].clone();
    wait_for("the dead letter", SOON, || {
        (dead().as_array().map(Vec::len) == Some(1)).then_some(())
    });
    let letter = dead()[0]["id"].as_str().expect("an id").to_owned();
    let settle = |action: &str| {
        let path = format!("/api/v1/queue/{letter}");
        api.post(&path, &json!({"action": action})).status
    };
    assert_eq!(settle("burn"), 400);
    assert_eq!((settle("drop"), dead()), (200, json!([])));

    let settings = api.get("/api/v1/settings");
    let text = settings.text();
    let listed = names(&settings.json(), "settings", "key");
    assert!(listed.contains(&"http.enabled".to_owned()), "{text}");
    assert!(!text.contains(super::TOKEN), "no secrets");
    let commands = names(&api.get("/api/v1/commands").json(), "commands", "name");
    for name in ["new", "stop", "status", "undo", "forget", "jobs", "cost"] {
        assert!(commands.contains(&name.to_owned()), "{name}: {commands:?}");
    }
}
