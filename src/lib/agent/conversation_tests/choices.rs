//! What a model may choose from untrusted text before the owner is asked, and what it does without that text.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::place::{Answer, Fake, Mind, Place, owner};
use super::week::texts;
use crate::agent::{Context, Question, Reach, Rights, Tool, ToolOutput};
use crate::message::{Block, Envelope, Message, Role, Sender, ToolCall, Trust};
use crate::provider::{BoxFuture, Request, ToolSpec};
use crate::session::Session;
use crate::trust::Provenance;

/// A tool with what a fake one has not.
struct Real {
    fake: Fake,
    looks: bool,
    rights: Rights,
    fails: Option<ToolOutput>,
}

impl Tool for Real {
    fn spec(&self) -> ToolSpec {
        self.fake.spec()
    }

    fn read_only(&self) -> bool {
        self.looks
    }

    fn rights(&self) -> Rights {
        self.rights
    }

    fn reach(&self, input: &Value, context: &Context) -> Reach {
        self.fake.reach(input, context)
    }

    fn brings_pages(&self) -> bool {
        self.fake.brings_pages
    }

    fn question(&self, input: &Value, _context: &Context) -> Question {
        Question::of(self.fake.name, input)
    }

    fn certain_failure(&self, _input: &Value, _context: &Context) -> Option<ToolOutput> {
        self.fails.clone()
    }

    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        self.fake.run(input, context)
    }
}

/// Returns the tools; what is looked at says `seen`, and `edit` fails for certain.
fn tools(ran: &Arc<Mutex<Vec<String>>>, seen: &ToolOutput) -> Vec<Arc<dyn Tool>> {
    let tool = |name: &'static str, reach: fn(&Value) -> Reach, output: ToolOutput| {
        let answer: Answer = Arc::new(move |_, _| output.clone());
        let fake = Fake {
            name,
            reach,
            brings_pages: name == "web_fetch",
            answer,
            ran: ran.clone(),
        };
        Arc::new(Real {
            fake,
            looks: name == "read",
            rights: match name {
                "remind" => Rights::Anybody,
                _ => Rights::Owner,
            },
            fails: (name == "edit").then(|| ToolOutput::error("it is not there")),
        }) as Arc<dyn Tool>
    };
    let page = ToolOutput::ok("a page").marked(Some(Provenance::of_host("e.example")));
    let done = || ToolOutput::ok("done");
    let acts: fn(&Value) -> Reach = |_| Reach::Acts;
    vec![
        tool(
            "web_fetch",
            |input| Reach::Carries(input["url"].as_str().unwrap_or_default().to_owned()),
            page,
        ),
        tool(
            "sessions_spawn",
            |input| Reach::Tells(input["text"].as_str().unwrap_or_default().to_owned()),
            done(),
        ),
        tool("read", |_| Reach::Free, seen.clone()),
        tool("exec", acts, done()),
        tool("edit", acts, done()),
        tool("remind", acts, done()),
    ]
}

fn place(seen: &ToolOutput) -> Place {
    Place::new(|ran| tools(ran, seen), BTreeMap::new(), false)
}

fn says(calls: Vec<(&str, Value)>) -> Message {
    let call = |(number, (name, input)): (usize, (&str, Value))| {
        Block::ToolCall(ToolCall {
            id: format!("c{number}-{name}-{input}"),
            name: name.to_owned(),
            input,
        })
    };
    let content: Vec<Block> = calls.into_iter().enumerate().map(call).collect();
    match content.is_empty() {
        true => Message::text(Role::Assistant, "done"),
        false => Message {
            role: Role::Assistant,
            content,
        },
    }
}

fn url(number: usize) -> String {
    format!("https://e.example/{number:02}")
}

/// Returns a model that makes these steps out of the list that it reads, and nothing without it.
fn moved(steps: Vec<Vec<(&'static str, Value)>>) -> Mind {
    let steps = Mutex::new(steps.into_iter());
    Arc::new(move |request: &Request| {
        let has_read = request
            .messages
            .iter()
            .any(|message| texts(message).contains(&url(63)));
        let next = has_read.then(|| steps.lock().next()).flatten();
        says(next.unwrap_or_default())
    })
}

/// Runs a turn about a document that lists 64 addresses.
async fn reads_a_list(place: &Place, session: &mut Session) {
    let envelope = owner("1", "what is in this file?");
    let list: Vec<String> = (0..64).map(url).collect();
    let text = format!("⟦file list.txt⟧\n{}", list.join("\n"));
    let document = (Block::Context { text }, Provenance::PassedOn);
    place.hear(session, &envelope, vec![document]).await;
    drop(place.run(session, &envelope).await);
}

fn fetches(numbers: std::ops::Range<usize>) -> Vec<(&'static str, Value)> {
    numbers
        .map(|number| ("web_fetch", json!({"url": url(number)})))
        .collect()
}

/// Returns how many pages were read, and how many questions were asked.
fn came_of(place: &Place) -> (usize, usize) {
    let ran = place.ran.lock();
    let read = ran.iter().filter(|ran| ran.starts_with("web_fetch"));
    (read.count(), place.owner.asked.lock().len())
}

#[tokio::test]
async fn twelve_addresses_are_followed_however_they_are_called() {
    let place_of = || place(&ToolOutput::ok("seen"));
    let in_steps = place_of();
    in_steps.think(moved(vec![fetches(0..8), fetches(8..16)]));
    let mut session = in_steps.session("steps").await;
    reads_a_list(&in_steps, &mut session).await;
    assert_eq!(came_of(&in_steps), (12, 4));

    let at_once = place_of();
    at_once.think(moved(vec![fetches(0..20)]));
    let mut session = at_once.session("once").await;
    reads_a_list(&at_once, &mut session).await;
    assert_eq!(came_of(&at_once), (12, 8));

    let through = place_of();
    let more = |(name, input): (&str, Value)| ("more_tools", json!({"name": name, "input": input}));
    let wrapped = |numbers| fetches(numbers).into_iter().map(more).collect();
    through.think(moved(vec![wrapped(0..10), wrapped(10..20)]));
    let mut session = through.session("more").await;
    reads_a_list(&through, &mut session).await;
    assert_eq!(came_of(&through), (12, 8));
}

#[tokio::test]
async fn a_run_and_its_sub_agents_have_one_count() {
    let place = place(&ToolOutput::ok("seen"));
    let task = |numbers: std::ops::Range<usize>| {
        let list: Vec<String> = numbers.map(url).collect();
        (
            "sessions_spawn",
            json!({"text": format!("read {}", list.join(" "))}),
        )
    };
    place.think(moved(vec![
        vec![task(0..13)],
        vec![task(0..8), task(8..16)],
        fetches(0..7),
    ]));
    let mut session = place.session("parent").await;
    reads_a_list(&place, &mut session).await;
    assert_eq!(
        came_of(&place),
        (7, 2),
        "too many in one task, and in two of one step"
    );
    // Here a turn is paid by the run named as its message: by the same one, as a sub-agent's is.
    place.think(moved(vec![fetches(20..28)]));
    let mut session = place.session("sub").await;
    reads_a_list(&place, &mut session).await;
    assert_eq!(came_of(&place), (12, 5));
}

/// Returns a model that looks and then acts, `times` times, whatever else it reads.
fn looks_then_acts(times: usize) -> Mind {
    Arc::new(move |request: &Request| {
        let is_said = |message: &Message| texts(message).contains("look and act");
        let Some(from) = request.messages.iter().rposition(is_said) else {
            return says(Vec::new());
        };
        let of_turn = request.messages.get(from..).unwrap_or_default();
        let made = |name: &str| {
            let calls = of_turn.iter().flat_map(Message::tool_calls);
            calls.filter(|call| call.name == name).count()
        };
        says(match (made("read"), made("exec")) {
            (0, 0) => vec![("read", json!({"path": "Makefile"}))],
            (_, done) if done < times => vec![("exec", json!({"id": done}))],
            _ => Vec::new(),
        })
    })
}

/// Returns how often the owner is asked in a conversation with a document, when what is looked at says `seen`.
async fn asked_after_a_look(seen: ToolOutput, times: usize) -> (usize, usize) {
    let place = place(&seen);
    place.think(looks_then_acts(times));
    let mut session = place.session("ada").await;
    reads_a_list(&place, &mut session).await;
    place
        .owner_says(&mut session, "2", "look and act, please")
        .await;
    let ran = place.ran.lock();
    let acted = ran.iter().filter(|ran| ran.starts_with("exec")).count();
    (acted, place.owner.asked.lock().len())
}

#[tokio::test]
async fn who_looks_first_and_then_acts_is_not_asked_however_often() {
    assert_eq!(asked_after_a_look(ToolOutput::ok("seen"), 1).await, (1, 0));
    assert_eq!(asked_after_a_look(ToolOutput::ok("seen"), 9).await, (9, 0));
}

#[tokio::test]
async fn after_a_look_at_untrusted_words_the_owner_is_asked() {
    let from = Some(Provenance::File("Makefile".into()));
    let marked = ToolOutput::ok("seen").marked(from);
    let (acted, asked) = asked_after_a_look(marked, 1).await;
    assert!(acted == 0 && asked > 0, "{acted} {asked}");
}

#[tokio::test]
async fn nobody_is_asked_about_an_edit_that_fails_but_about_a_guests() {
    let place = place(&ToolOutput::ok("seen"));
    place.think(moved(vec![vec![("edit", json!({"path": "a"}))]]));
    let mut session = place.session("ada").await;
    // The clean request says nothing: the owner would be asked.
    reads_a_list(&place, &mut session).await;
    assert_eq!(*place.owner.asked.lock(), [""; 0]);
    assert_eq!(*place.ran.lock(), [""; 0]);
    let last = session.state().messages();
    assert!(
        last.iter()
            .any(|message| texts(message).contains("it is not there"))
    );
    let asked = of_a_guest(&place, "edit").await;
    assert_eq!(asked.len(), 1, "{asked:?}");
}

/// Returns the questions about a call of `tool` in a guest's turn.
async fn of_a_guest(place: &Place, tool: &'static str) -> Vec<String> {
    let calls = Mutex::new(Some(vec![(tool, json!({"path": "a"}))]));
    place.think(Arc::new(move |_| {
        says(calls.lock().take().unwrap_or_default())
    }));
    let said = Envelope {
        trust: Trust::Other,
        from_owner: false,
        sender: Sender {
            id: "1002".into(),
            name: "Ana".into(),
            username: None,
        },
        ..owner("9", "remind me of it")
    };
    let mut session = place.session(tool).await;
    place.hear(&mut session, &said, Vec::new()).await;
    drop(place.run(&mut session, &said).await);
    std::mem::take(&mut *place.owner.asked.lock())
}

#[tokio::test]
async fn what_a_guest_wants_is_said_to_be_theirs() {
    let place = place(&ToolOutput::ok("seen"));
    let asked = of_a_guest(&place, "remind").await;
    assert_eq!(
        asked,
        ["remind\npath: a: requested by a guest, Ana"],
        "anybody may have it"
    );
}
