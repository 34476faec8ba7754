//! What is remembered of people and groups whose ids are no numbers: theirs, and nobody else's.

use serde_json::json;

use super::{Wire, said};
use crate::support::{FakeModel, Reply, Sandbox};

const BOB: &str = "@bob:example.org";
const EVE: &str = "@eve:example.org";
const ROOM: &str = "!room:example.org";
const MATRIX: &str = r#"
[channels.matrix]
enabled = true
owner = ["@ada:example.org"]
allow_from = ["@bob:example.org", "@eve:example.org"]
[channels.matrix.groups."!room:example.org"]
require_mention = false
allow_from = ["@bob:example.org", "@eve:example.org"]
"#;

fn remember(model: &FakeModel, words: &str) {
    model.push(Reply::Tool("remember".into(), json!({"text": words})));
    model.push(Reply::Text("Noted.".into()));
}

/// Returns what the model was told when it said `answer`.
fn told(model: &FakeModel, wire: &Wire<'_>, answer: &str) -> String {
    wire.deliver(answer);
    model.requests().pop().expect("a request").to_string()
}

#[test]
fn a_guest_of_any_channel_is_remembered_and_nobody_else_is_told() {
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.config(MATRIX);
    let _daemon = sandbox.ready();
    let wire = Wire::new(&sandbox, "matrix");
    remember(&model, "Plays the cello.");
    wire.says(BOB, "1", "I play the cello, remember that");
    wire.deliver("Noted.");
    let file = "workspace/memory/people/matrix%3A%40bob%3Aexample%2Eorg.episodes.md";
    let noted = sandbox.read(file);
    assert!(noted.is_some_and(|text| text.contains("cello")), "{file}");
    wire.says(BOB, "2", "[[say Hello Bob.]]");
    let request = told(&model, &wire, "Hello Bob.");
    assert!(request.contains("# Memory from"), "{request}");
    // By a search, too, once it is indexed.
    let search = |who: &str, id: &str| {
        let index = sandbox.run("agent-index", &["sync"], "");
        assert_eq!(index.code, 0, "{index:?}");
        model.push(Reply::Tool(
            "memory_search".into(),
            json!({"query": "plays the cello"}),
        ));
        model.push(Reply::Text("Looked.".into()));
        wire.says(who, id, "who makes music?");
        told(&model, &wire, "Looked.")
    };
    assert!(search(BOB, "3").contains("example%2Eorg.episodes.md"));
    wire.says(EVE, "4", "[[say Hello Eve.]]");
    let request = told(&model, &wire, "Hello Eve.");
    assert!(!request.contains("cello"), "{request}");
    let found = search(EVE, "5");
    assert!(!found.contains("Plays the cello"), "{found}");
    let forget = ["forget", "matrix:@bob:example.org", "--hard", "--yes"];
    let told = sandbox.run("agent-consolidate", &forget, "");
    assert_eq!(told.code, 0, "{told:?}");
    assert_eq!(sandbox.read(file), None);
}

#[test]
fn a_group_of_any_channel_remembers_for_itself() {
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.config(MATRIX);
    let _daemon = sandbox.ready();
    let wire = Wire::new(&sandbox, "matrix");
    let group = |id: &str, text: &str| {
        let mut line = said(BOB, id, text);
        line["chat"] = json!(ROOM);
        line["group"] = json!("The Band");
        let id = wire.put(&line);
        assert_eq!(wire.refusal(&id), None);
    };
    remember(&model, "Practice is on Fridays.");
    group("1", "practice is on Fridays");
    wire.deliver("Noted.");
    let file = "workspace/memory/groups/agent.agent.matrix.group.%21room%253Aexample%2Eorg.md";
    let noted = sandbox.read(file);
    assert!(noted.is_some_and(|text| text.contains("Fridays")), "{file}");
    group("2", "[[say Hello all.]]");
    let request = told(&model, &wire, "Hello all.");
    assert!(
        request.contains("and of this group") && request.contains("# Memory from"),
        "{request}"
    );
}
