//! Calls outside of the loop, as the tasks of a plan make them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::place::{Fake, Place};
use crate::agent::{Reach, Single, Tool, ToolOutput};
use crate::config::Policy;
use crate::memory::Viewer;
use crate::message::{Envelope, Sender, SessionKey, Source};

type Reaching = fn(&Value) -> Reach;

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
    let single = |from_owner: bool| Single {
        run_id: "run".into(),
        conversation: key.clone(),
        person: "1002".into(),
        person_name: "Ana".into(),
        from_owner,
        viewer: Viewer::of(&said, &|_| from_owner),
        route: None,
        untrusted: true,
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
