//! Vectors that a server makes, and models that read notes: what a message waits for, what is asked twice, what is told before
//! it is paid.

use serde_json::Value;

use crate::support::{FakeModel, Sandbox};

/// A home with notes of ferries and of one bike, whose vectors `model` makes.
fn house(model: &FakeModel, settings: &str) -> Sandbox {
    let vectors = "[models.vectors]\nmodel = \"embed-1\"\ncost_per_mtok = [1.0, 0, 0]";
    let sandbox = Sandbox::new()
        .with_openai(model)
        .provider_config("mock", vectors)
        .config("[memory.embeddings]\nprovider = \"mock\"\nmodel = \"embed-1\"")
        .config(settings);
    for (number, port) in ["Kiel", "Lubmin", "Rostock", "Wismar"].iter().enumerate() {
        let note = format!("The ferry of {port} leaves at {number}.\n");
        sandbox.put(&format!("workspace/memory/{port}.md"), note.as_bytes());
    }
    sandbox.put("workspace/memory/bike.md", b"My bike stands in the shed.\n");
    let made = sandbox.run("agent-index", &[], "");
    assert_eq!(made.code, 0, "{made:?}");
    sandbox
}

/// How often a vector of exactly these words was asked for.
fn asked_for(model: &FakeModel, words: &str) -> usize {
    let is_it = |request: &&Value| {
        let texts = request["input"].as_array();
        texts.is_some_and(|texts| texts.iter().any(|text| text == words))
    };
    model.requests().iter().filter(is_it).count()
}

fn say(sandbox: &Sandbox, session: &str, words: &str) {
    let told = sandbox.send(&["--wait=60", "--session", session, words]);
    assert_eq!(told.code, 0, "{told:?}");
}

#[test]
fn no_message_waits_for_the_vectors_of_a_server_where_words_suffice() {
    for (settings, of_ferries) in [("", 0), ("[memory]\nstrategy = \"hybrid\"", 1)] {
        let model = FakeModel::start();
        let sandbox = house(&model, settings);
        let _daemon = sandbox.ready();
        let question = "When does the ferry leave?";
        say(&sandbox, "one", question);
        let request = model.requests().pop().expect("a request").to_string();
        assert!(request.contains("The ferry of Rostock"), "{request}");
        assert_eq!(asked_for(&model, question), of_ferries, "{settings:?}");
        // Where they find little, what means the same is sought.
        say(&sandbox, "two", "bicycle");
        let request = model.requests().pop().expect("a request").to_string();
        assert!(request.contains("My bike stands in the shed."), "{request}");
        assert_eq!(asked_for(&model, "bicycle"), 1, "{settings:?}");
    }
}

#[test]
fn the_vector_of_a_question_is_asked_for_once_also_over_a_restart() {
    let model = FakeModel::start();
    let sandbox = house(&model, "");
    let daemon = sandbox.ready();
    say(&sandbox, "one", "bicycle");
    say(&sandbox, "two", "bicycle");
    assert_eq!(asked_for(&model, "bicycle"), 1);
    // Found from outside, too.
    let found = sandbox.run("agent-index", &["search", "bicycle", "--json"], "");
    assert!(found.json()["results"][0].is_object(), "{found:?}");
    drop(daemon);
    let _daemon = sandbox.ready();
    say(&sandbox, "three", "bicycle");
    let request = model.requests().pop().expect("a request").to_string();
    assert!(request.contains("My bike stands in the shed."), "{request}");
    assert_eq!(asked_for(&model, "bicycle"), 1, "it lies in index.db");
}

#[test]
fn what_a_model_would_cost_that_reads_notes_is_told_before_it_reads_any() {
    for notes_by_model in [false, true] {
        let model = FakeModel::start();
        let sandbox = Sandbox::new().with_openai(&model).config(&format!(
            "[memory]\nnotes_by_model = {notes_by_model}\n[memory.embeddings]\nprovider = \"none\""
        ));
        let note = "On Sunday we met Oskar, whose bakery in Wismar will close next spring.\n";
        sandbox.put("workspace/memory/2026-05-03.md", note.as_bytes());
        let told = sandbox.run("agent-consolidate", &["--dry-run", "--json"], "");
        assert_eq!(told.code, 0, "{told:?}");
        let cost = told.json()["cost_usd"].as_f64().unwrap_or(0.0);
        assert_eq!(cost > 0.0, notes_by_model, "{told:?}");
        let told = sandbox.run("agent-consolidate", &["--dry-run"], "");
        let is_told = told.stderr.contains("a model would read 1 of");
        assert_eq!(is_told, notes_by_model, "{told:?}");
        assert_eq!(model.readings().len(), 0, "nothing is paid before");
        let done = sandbox.run("agent-consolidate", &[], "");
        assert_eq!(done.code, 0, "{done:?}");
        let read = model.readings();
        let of_note = read.iter().any(|one| one.to_string().contains("Oskar"));
        assert_eq!(of_note, notes_by_model, "{read:?}");
    }
}
