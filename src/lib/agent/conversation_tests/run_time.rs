//! The time limit of a run, and what does not count: the owner's time, and a sub-agent's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::place::Place;
use super::sub_agents::{calls, sub_agent_for};
use crate::agent::{Asked, Context, Ended, Question, Reach, Rights, Tool, ToolOutput};
use crate::provider::{BoxFuture, ToolSpec};

/// Longer than the run may take.
const LONG: Duration = Duration::from_millis(1300);

/// Takes [`LONG`], in the way that its name says.
struct Slow(&'static str);

impl Tool for Slow {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.0.into(),
            description: "Takes long.".into(),
            schema: json!({"type": "object", "properties": {}}).into(),
        }
    }

    fn read_only(&self) -> bool {
        true
    }

    fn rights(&self) -> Rights {
        Rights::Owner
    }

    fn reach(&self, _input: &Value, _context: &Context) -> Reach {
        Reach::Free
    }

    fn run<'a>(&'a self, _input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let asked = Asked {
                call_id: context.call_id.clone(),
                tool: self.0.to_owned(),
                question: Question {
                    text: "may I?".to_owned(),
                    bound_to: Value::Null,
                    rule: None,
                },
                why: "it asks".to_owned(),
                wanted: None,
            };
            let _lasting = (self.0 == "waits").then(|| context.others_time.begin());
            match self.0 {
                // It gives up by itself before the owner has answered.
                "asks" => drop(tokio::time::timeout(LONG, context.ask_owner.ask(asked)).await),
                _ => tokio::time::sleep(LONG).await,
            }
            ToolOutput::ok("done")
        })
    }
}

#[tokio::test]
async fn what_others_take_is_not_the_time_of_a_run() {
    let slow = ["asks", "waits", "works"].map(|name| Arc::new(Slow(name)) as Arc<dyn Tool>);
    let mut place = Place::new(|_| slow.to_vec(), BTreeMap::new(), true);
    place.owner.hangs = true;
    for (name, is_over) in [("asks", false), ("waits", false), ("works", true)] {
        let sub = sub_agent_for(1, "take your time");
        let mut session = place.session(name).await;
        place.hear(&mut session, &sub, Vec::new()).await;
        place.think(calls(&[(name, json!({}))]));
        let ended = place.run(&mut session, &sub).await;
        let timed_out = matches!(
            ended,
            Ended::Failed {
                timed_out: true,
                ..
            }
        );
        assert_eq!(timed_out, is_over, "{name}: {ended:?}");
    }
}
