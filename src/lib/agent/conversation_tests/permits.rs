//! Calls outside of the loop, as the tasks of a plan make them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::ThreadId;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::place::{Fake, Place};
use super::sub_agents::calls;
use crate::agent::{Context, Question, Reach, Rights, Single, Tool, ToolOutput};
use crate::config::Policy;
use crate::memory::Viewer;
use crate::message::{Envelope, Sender, SessionKey, Source};
use crate::provider::{BoxFuture, ToolSpec};

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
    assert_eq!(threads.lock().len(), 2);
    let mut session = place.session("ada").await;
    place.think(calls(&[("reads", json!({"path": "plan"}))]));
    place.owner_says(&mut session, "1", "send the plan").await;
    assert_eq!(place.ran.lock().len(), 1);
    assert_eq!(threads.lock().len(), 5);
    // One thread runs all tasks of this test.
    let own = std::thread::current().id();
    assert!(!threads.lock().contains(&own));
}
