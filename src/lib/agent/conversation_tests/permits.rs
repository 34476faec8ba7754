//! Calls outside of the loop, as the tasks of a plan make them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::ThreadId;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::place::{Fake, Place};
use super::sub_agents::calls;
use crate::agent::{Context, Form, Formed, Question, Reach, Rights, Single, Tool, ToolOutput};
use crate::config::Policy;
use crate::memory::Viewer;
use crate::message::{Block, Envelope, Sender, SessionKey, Source};
use crate::provider::{BoxFuture, ToolSpec};
use crate::session::Entry;
use crate::trust::Provenance;

type Reaching = fn(&Value) -> Reach;

/// Returns what a call of Ana's is made for.
fn single(from_owner: bool) -> Single {
    let (sender, key) = (
        Sender {
            id: "1002".into(),
            name: "Ana".into(),
            username: None,
        },
        SessionKey("cli:ana".into()),
    );
    let said = Envelope::new(
        "1".into(),
        Source::Cli,
        sender,
        key.clone(),
        String::new(),
        0,
    );
    Single {
        run_id: "run".into(),
        conversation: key,
        person: "1002".into(),
        person_name: "Ana".into(),
        from_owner,
        viewer: Viewer::of(&said, &|_| from_owner),
        route: None,
        untrusted: true,
    }
}

#[tokio::test]
async fn what_is_asked_in_any_case_is_asked_whatever_the_settings_allow() {
    let tools: [(&str, Reaching); 3] = [
        ("acts", |_| Reach::Acts),
        ("asks", |_| Reach::Asks("is it the person you mean?".into())),
        ("refused", |_| Reach::Refused("it is a link".into())),
    ];
    let allow = tools.map(|(name, _)| (name.to_owned(), Policy::Allow));
    let place = |policies: BTreeMap<String, Policy>| {
        let fakes = move |ran: &Arc<_>| {
            let fake = |(name, reach)| {
                Arc::new(Fake {
                    name,
                    reach,
                    brings_pages: false,
                    answer: Arc::new(|_, _| ToolOutput::ok("done")),
                    ran: Arc::clone(ran),
                }) as Arc<dyn Tool>
            };
            tools.map(fake).into()
        };
        Place::new(fakes, policies, false)
    };
    let allowing = place(allow.into());
    for from_owner in [true, false] {
        let of = single(from_owner);
        assert_eq!(allowing.permit(&of, "acts").await, Ok(()));
        assert_eq!(allowing.permit(&of, "asks").await, Err("no".to_owned()));
        let refused = allowing.permit(&of, "refused").await;
        assert_eq!(refused, Err("it is a link".to_owned()));
    }
    // The owner says yes to it once: no rule says it for them.
    assert_eq!(*allowing.owner.rules.lock(), [false, false]);
    let strict = place(BTreeMap::new());
    assert!(strict.permit(&single(false), "acts").await.is_err());
    assert_eq!(*strict.owner.rules.lock(), [true]);
}

/// A tool that notes the threads on which it says what the owner is asked.
struct Reads(Fake, Arc<Mutex<Vec<ThreadId>>>);

impl Tool for Reads {
    fn spec(&self) -> ToolSpec {
        self.0.spec()
    }

    fn read_only(&self) -> bool {
        self.0.read_only()
    }

    fn rights(&self) -> Rights {
        self.0.rights()
    }

    fn reach(&self, input: &Value, context: &Context) -> Reach {
        self.0.reach(input, context)
    }

    fn question(&self, input: &Value, _context: &Context) -> Question {
        self.1.lock().push(std::thread::current().id());
        Question::of(self.0.name, input)
    }

    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        self.0.run(input, context)
    }
}

#[tokio::test]
async fn what_a_question_is_about_is_read_beside_the_event_loop() {
    let threads = Arc::default();
    let tool = |ran: &Arc<_>| {
        let fake = Fake {
            name: "reads",
            reach: |_| Reach::Shows,
            brings_pages: false,
            answer: Arc::new(|_, _| ToolOutput::ok("done")),
            ran: Arc::clone(ran),
        };
        vec![Arc::new(Reads(fake, Arc::clone(&threads))) as Arc<dyn Tool>]
    };
    let policies = BTreeMap::from([("reads".to_owned(), Policy::Ask)]);
    let place = Place::new(tool, policies, true);
    assert_eq!(place.permit(&single(true), "reads").await, Ok(()));
    assert_eq!(threads.lock().len(), 1);
    let mut session = place.session("ada").await;
    place.think(calls(&[("reads", json!({"path": "plan"}))]));
    place.owner_says(&mut session, "1", "send the plan").await;
    assert_eq!(place.ran.lock().len(), 1);
    assert_eq!(threads.lock().len(), 4);
    // One thread runs all tasks of this test.
    let own = std::thread::current().id();
    assert!(!threads.lock().contains(&own));
}

/// Returns the addresses that a persona reads which plans to read `url` after the words of a guest, and what it had heard.
async fn read_for_a_guest(heard: &str, words: &str, url: &str) -> Vec<String> {
    let tools = |ran: &Arc<_>| {
        let fetch = Fake {
            name: "web_fetch",
            reach: |input| {
                let url = input["url"].as_str().unwrap_or_default().to_owned();
                match url.contains(".lan") {
                    true => Reach::CarriesInside(url),
                    false => Reach::Carries(url),
                }
            },
            brings_pages: true,
            answer: Arc::new(|_, _| ToolOutput::ok("a page")),
            ran: Arc::clone(ran),
        };
        vec![Arc::new(fetch) as Arc<dyn Tool>]
    };
    let place = Place::new(tools, BTreeMap::new(), false);
    place.think(calls(&[("web_fetch", json!({"url": url}))]));
    let ana = Sender {
        id: "1002".into(),
        name: "Ana".into(),
        username: None,
    };
    let key = SessionKey("cli:ana".into());
    let said = Envelope::new("1".into(), Source::Cli, ana, key, words.into(), 0);
    let mut session = place.session("ana").await;
    let heard = Block::Context {
        text: heard.to_owned(),
    };
    place
        .hear(&mut session, &said, vec![(heard, Provenance::Person)])
        .await;
    let form = Form {
        history: &|entries: &[Entry]| entries.iter().map(|entry| entry.message.clone()).collect(),
        next: &|_| Formed::Final,
        may_wait: &|_| false,
        failed: &|_, why| why.to_owned(),
        schema: &Arc::new(json!({})),
    };
    place.run_in_form(&mut session, &said, Some(form)).await;
    assert!(place.owner.asked.lock().is_empty(), "nobody is asked");
    place.ran.lock().clone()
}

#[tokio::test]
async fn a_persona_reads_what_a_guest_names_outside_and_nothing_that_they_name_inside() {
    let (page, inside) = ("http://a.example/page", "http://nas.lan/page");
    for (heard, words, url, is_read) in [
        ("", "look at http://a.example/page!", page, true),
        (
            "Bob: I found a.example/page.",
            "what is behind it?",
            page,
            true,
        ),
        ("", "look at http://a.example/page?q=7", page, false),
        ("", "look at http://nas.lan/page!", inside, false),
        ("Bob: I found http://nas.lan/page", "open it", inside, false),
    ] {
        let read = read_for_a_guest(heard, words, url).await;
        assert_eq!(
            read.len(),
            usize::from(is_read),
            "{heard} {words}: {read:?}"
        );
    }
}
