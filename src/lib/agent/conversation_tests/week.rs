//! A week of ordinary work in one conversation, with a model that does what it is asked and nothing else: how often
//! the owner is asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::place::{Answer, Fake, Place, owner};
use crate::agent::{Reach, Tool, ToolOutput};
use crate::message::{Block, Message, Role, ToolCall};
use crate::provider::Request;
use crate::trust::Provenance;

/// A call of a task.
pub(super) struct Step {
    pub(super) tool: &'static str,
    pub(super) input: Value,
    /// Words that it rests on: without them in its request the model cannot make the call.
    pub(super) rests_on: &'static str,
}

/// What the owner says, with a document or without, and what a good model then does.
pub(super) struct Task {
    pub(super) says: &'static str,
    pub(super) document: Option<&'static str>,
    pub(super) steps: Vec<Step>,
}

fn step(tool: &'static str, input: Value) -> Step {
    let rests_on = "";
    Step {
        tool,
        input,
        rests_on,
    }
}

fn task(says: &'static str, steps: Vec<Step>) -> Task {
    let document = None;
    Task {
        says,
        document,
        steps,
    }
}

fn day() -> Vec<Task> {
    let from_mail = Step {
        tool: "calendar_create",
        input: json!({"title": "Dentist, Dr Sousa", "at": "2026-12-01T15:30"}),
        rests_on: "Dr Sousa",
    };
    vec![
        task("sum up my new mail", vec![step("mail_list", json!({}))]),
        task(
            "remind me at six to call Ana",
            vec![step(
                "remind",
                json!({"at": "2026-11-24T18:00", "text": "Call Ana"}),
            )],
        ),
        task(
            "run make test",
            vec![step("exec", json!({"command": "make test"}))],
        ),
        Task {
            document: Some("The notice period is three months."),
            ..task("what does this contract say?", Vec::new())
        },
        task("and the notice period?", Vec::new()),
        task(
            "from now on I like trains better than planes",
            vec![step("keep", json!({"content": "The user prefers trains"}))],
        ),
        task(
            "look for walks near Porto and write a note about the best",
            vec![
                step("web_search", json!({"query": "walks near Porto"})),
                Step {
                    rests_on: "walks.example",
                    ..step("web_fetch", json!({"url": "https://walks.example/douro"}))
                },
                Step {
                    rests_on: "14 km",
                    ..step(
                        "write_new",
                        json!({"path": "walks.md", "content": "Douro, 14 km"}),
                    )
                },
            ],
        ),
        task("how long was it?", Vec::new()),
        task(
            "we need milk",
            vec![step(
                "edit",
                json!({"path": "shopping.md", "new_string": "- milk"}),
            )],
        ),
        task(
            "what is in my calendar?",
            vec![step("calendar_list", json!({}))],
        ),
        task(
            "clean the build directory, please",
            vec![step("exec", json!({"command": "make clean"}))],
        ),
        task(
            "put the appointment from the mail into the calendar",
            vec![step("mail_list", json!({"again": true})), from_mail],
        ),
        task("thanks", Vec::new()),
    ]
}

pub(super) fn texts(message: &Message) -> String {
    let text = |block: &Block| match block {
        Block::Text { text } | Block::Context { text } => text.clone(),
        Block::ToolResult(result) => result.text.clone(),
        _ => String::new(),
    };
    message
        .content
        .iter()
        .map(text)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Does the next step of the task that the owner's newest words name.
pub(super) fn think(tasks: &[Task], request: &Request) -> Message {
    let is_said = |message: &Message| {
        let is_result = |block: &Block| matches!(block, Block::ToolResult(_));
        message.role == Role::User && !message.content.iter().all(is_result)
    };
    let from = request.messages.iter().rposition(is_said).unwrap_or(0);
    let of_turn = request.messages.get(from..).unwrap_or_default();
    let said = of_turn.first().map(texts).unwrap_or_default();
    let made = of_turn.iter().flat_map(Message::tool_calls).count();
    let task = tasks.iter().find(|task| said.contains(task.says));
    let Some(step) = task.and_then(|task| task.steps.get(made)) else {
        return Message::text(Role::Assistant, "Here you are.");
    };
    let is_there = request
        .messages
        .iter()
        .any(|message| texts(message).contains(step.rests_on));
    if !is_there {
        return Message::text(Role::Assistant, "I cannot see it.");
    }
    let call = ToolCall {
        id: format!("w{from}-{made}"),
        name: step.tool.to_owned(),
        input: step.input.clone(),
    };
    Message {
        role: Role::Assistant,
        content: vec![Block::ToolCall(call)],
    }
}

/// A tool: its name, what it reaches, what it answers.
type Row = (&'static str, fn(&Value) -> Reach, Answer);

fn tools(ran: &Arc<Mutex<Vec<String>>>) -> Vec<Arc<dyn Tool>> {
    let says = |words: &'static str, from: Option<Provenance>| -> Answer {
        Arc::new(move |_, _| ToolOutput::ok(words).marked(from.clone()))
    };
    let server = |name: &str| Some(Provenance::Server(name.to_owned()));
    let acts: fn(&Value) -> Reach = |_| Reach::Acts;
    let shows: fn(&Value) -> Reach = |_| Reach::Shows;
    let all: [Row; 11] = [
        (
            "mail_list",
            shows,
            says(
                "Dr Sousa: see you on 1 December, 15:30. SHOP: buy now!",
                server("mail"),
            ),
        ),
        (
            "calendar_list",
            shows,
            says("Monday: nothing", server("calendar")),
        ),
        ("calendar_create", acts, says("created", server("calendar"))),
        (
            "web_search",
            |input| Reach::Searches(input["query"].as_str().unwrap_or_default().to_owned()),
            says(
                "[1] Douro https://walks.example/douro",
                Some(Provenance::of_host("search.example")),
            ),
        ),
        (
            "web_fetch",
            |input| Reach::Carries(input["url"].as_str().unwrap_or_default().to_owned()),
            says(
                "The walk has 14 km.",
                Some(Provenance::of_host("walks.example")),
            ),
        ),
        ("write_new", |_| Reach::Free, says("wrote it", None)),
        ("edit", acts, says("edited it", None)),
        ("exec", acts, says("ok", None)),
        ("remind", acts, says("kept", None)),
        ("keep", acts, says("kept", None)),
        ("message", acts, says("sent", None)),
    ];
    let tool = |(name, reach, answer): Row| {
        let brings_pages = matches!(name, "web_search" | "web_fetch");
        let ran = ran.clone();
        let fake = Fake {
            name,
            reach,
            brings_pages,
            answer,
            ran,
        };
        Arc::new(fake) as Arc<dyn Tool>
    };
    all.into_iter().map(tool).collect()
}

#[tokio::test]
async fn a_week_of_ordinary_work_asks_at_most_once_a_day() {
    let place = Place::new(tools, BTreeMap::new(), true);
    place.think(Arc::new(|request| think(&day(), request)));
    let mut session = place.session("week").await;
    let mut done = 0;
    for number in 0..7 {
        for (at, task) in day().iter().enumerate() {
            let envelope = owner(&format!("d{number}-{at}"), task.says);
            let document = task.document.map(|words| {
                let text = format!("⟦file contract.pdf⟧\n{words}");
                (Block::Context { text }, envelope.provenance_of_files())
            });
            place
                .hear(&mut session, &envelope, Vec::from_iter(document))
                .await;
            drop(place.run(&mut session, &envelope).await);
            done += task.steps.len();
        }
    }
    let asked = place.owner.asked.lock().clone();
    assert_eq!(
        place.ran.lock().len(),
        done,
        "every task is done: {asked:#?}"
    );
    assert!(asked.len() <= 7, "{} questions: {asked:#?}", asked.len());
}
