//! `silent`: end the turn and say nothing.

use serde_json::{Value, json};

use crate::agent::{Context, Effect, Reach, Rights, Tool, ToolOutput};
use crate::provider::{BoxFuture, ToolSpec};

pub(super) struct Silent;

impl Tool for Silent {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "silent".into(),
            description:
                "End this turn without sending anything to the user. Only when no answer is wanted."
                    .into(),
            schema: json!({"type": "object", "properties": {}}),
        }
    }

    fn read_only(&self) -> bool {
        false
    }

    fn rights(&self) -> Rights {
        Rights::Anybody
    }

    fn reach(&self, _input: &Value, _context: &Context) -> Reach {
        Reach::Free
    }

    fn receipt(&self, _input: &Value, _answer: &str) -> Option<String> {
        None
    }

    fn run<'a>(&'a self, _input: &'a Value, _context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async {
            ToolOutput {
                effect: Some(Effect::Silence),
                ..ToolOutput::ok("nothing will be sent")
            }
        })
    }
}
