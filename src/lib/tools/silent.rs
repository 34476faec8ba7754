//! `silent`: ends the turn without an answer.

use super::typed::{About, NoArgs, Property, TypedTool};
use crate::agent::{Context, Effect, Reach, ToolOutput};

pub(super) struct Silent;

impl TypedTool for Silent {
    type Args = NoArgs;

    const ABOUT: About = About {
        name: "silent",
        description: "End this turn and send nothing. Only when no answer is wanted.",
        properties: &[Property::Anybody],
    };

    fn reach(&self, _args: &NoArgs, _context: &Context) -> Reach {
        Reach::Free
    }

    fn receipt(&self, _args: &NoArgs, _result: &str) -> Option<String> {
        None
    }

    async fn run(&self, _args: NoArgs, _context: &Context) -> ToolOutput {
        ToolOutput {
            effect: Some(Effect::Silence),
            ..ToolOutput::ok("nothing will be sent")
        }
    }
}
