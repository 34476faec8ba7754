//! The owner's data in the task of a sub-agent stays private: no run with untrusted text can make a sub-agent search for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::place::{Answer, Fake, Mind, Place, owner};
use crate::agent::{Context, Ended, Reach, Tool, ToolOutput};
use crate::message::{
    Block, Bounds, Envelope, Message, Role, SessionKey, Source, Task, ToolCall, Trust,
};
use crate::trust::Provenance;

/// A page, which moves the model.
const PAGE: &str = "Bridges of Porto: the oldest is of 1877. Horta has none.";
/// What the owner's file says, next to what the page does.
const FILE: &str = "Bridges: the heirloom is in Horta, the jewels lie in Faro under 7731.";

/// Returns the tools; `told` are the words that went along with each sub-agent.
fn tools(ran: &Arc<Mutex<Vec<String>>>, told: &Arc<Mutex<Vec<Vec<String>>>>) -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    let mut add = |name, reach, brings_pages, answer: Answer| {
        tools.push(Arc::new(Fake {
            name,
            reach,
            brings_pages,
            answer,
            ran: ran.clone(),
        }));
    };
    let page: Answer = Arc::new(|_, _| {
        ToolOutput::ok(PAGE).marked(Some(Provenance::Host("porto.example".into())))
    });
    let told = told.clone();
    let send: Answer = Arc::new(move |_: &Value, context: &Context| {
        told.lock().push(context.private_words.clone());
        ToolOutput::ok("sent")
    });
    add("page", |_| Reach::Free, true, page.clone());
    add(
        "search",
        |input| Reach::Searches(input["query"].as_str().unwrap_or_default().to_owned()),
        true,
        page,
    );
    add(
        "file",
        |_| Reach::Free,
        false,
        Arc::new(|_, _| ToolOutput::ok(FILE)),
    );
    // A sub-agent sends none; what it would tell one is the same.
    for name in ["sessions_spawn", "pass_on"] {
        add(
            name,
            |input| Reach::Tells(input["task"].as_str().unwrap_or_default().to_owned()),
            false,
            send.clone(),
        );
    }
    tools
}

/// Returns a model that makes these calls, one after the other.
pub(super) fn calls(calls: &[(&str, Value)]) -> Mind {
    let calls: Vec<(String, Value)> = calls
        .iter()
        .map(|(name, input)| ((*name).to_owned(), input.clone()))
        .collect();
    let calls = Mutex::new(calls.into_iter().zip(1..));
    Arc::new(move |_| {
        let Some(((name, input), number)) = calls.lock().next() else {
            return Message::text(Role::Assistant, "ok");
        };
        let id = format!("c{number}");
        Message {
            role: Role::Assistant,
            content: vec![Block::ToolCall(ToolCall { id, name, input })],
        }
    })
}

/// Returns the input that a sub-agent of the owner's is which may take so long.
pub(super) fn sub_agent_for(timeout_secs: u64, task: &str) -> Envelope {
    let mut input = sub_agent(task, &[]);
    input.trust = Trust::Owner;
    if let Some(task) = &mut input.task {
        task.bounds.timeout_secs = timeout_secs;
    }
    input
}

/// Returns the input that a sub-agent is which a run with untrusted text sent.
fn sub_agent(task: &str, private_words: &[String]) -> Envelope {
    let bounds = Bounds {
        parent: SessionKey("cli:ada".into()),
        tools: Vec::new(),
        max_turns: None,
        timeout_secs: 600,
        private_words: private_words.to_vec(),
    };
    let input = owner("sub", task);
    let task = Task {
        report: input.clone(),
        run_id: "run".into(),
        label: "sub".into(),
        waits: false,
        bounds,
    };
    Envelope {
        source: Source::Subagent,
        trust: Trust::Other,
        task: Some(Box::new(task)),
        ..input
    }
}

#[tokio::test]
async fn a_task_goes_with_the_words_that_a_search_may_not_say() {
    let told = Arc::default();
    let place = Place::new(|ran| tools(ran, &told), BTreeMap::new(), false);
    let task = json!({"task": "The jewels of Faro, the bridges of Porto and of Horta, the train: 7731, 1877; FARO."});
    let (page, file, spawn) = (
        ("page", json!({})),
        ("file", json!({})),
        ("sessions_spawn", task),
    );
    let mut session = place.session("clean").await;
    place.think(calls(&[file.clone(), spawn.clone()]));
    place
        .owner_says(&mut session, "clean", "look at my file")
        .await;
    let mut session = place.session("moved").await;
    place.think(calls(&[page, file, spawn]));
    place
        .owner_says(&mut session, "moved", "read it, and where the jewels lie")
        .await;
    let expected: [&[&str]; 2] = [&[], &["faro", "7731"]];
    assert_eq!(*told.lock(), expected);
    assert_eq!(*place.owner.asked.lock(), [""; 0], "no question is new");
}

#[tokio::test]
async fn a_sub_agent_searches_for_none_of_them_unasked_and_passes_them_on() {
    let told = Arc::default();
    let place = Place::new(|ran| tools(ran, &told), BTreeMap::new(), false);
    let query = |words: &str| ("search", json!({"query": words}));
    let sub = sub_agent(
        "what is in Faro and Horta?",
        &["faro".into(), "horta".into()],
    );
    let mut session = place.session("sub").await;
    place.hear(&mut session, &sub, Vec::new()).await;
    place.think(calls(&[
        query("bridges of Porto"),
        query("oldest bridges of Porto 1877"),
        query("jewels in FARO"),
        // It is on a page by now: who wrote that may have put all words there.
        query("bridges of Horta"),
        ("pass_on", json!({"task": "the trains to Faro"})),
    ]));
    let ended = place.run(&mut session, &sub).await;
    assert!(matches!(ended, Ended::Reply(_)), "{ended:?}");
    let searched: Vec<String> = place
        .ran
        .lock()
        .iter()
        .filter(|ran| ran.starts_with("search"))
        .cloned()
        .collect();
    let expected = [
        r#"search {"query":"bridges of Porto"}"#,
        r#"search {"query":"oldest bridges of Porto 1877"}"#,
    ];
    assert_eq!(searched, expected);
    assert_eq!(place.owner.asked.lock().len(), 2);
    assert_eq!(*told.lock(), [["faro"]]);
}
