//! `skill_propose`: proposes a skill. It only writes a draft; the owner is asked when the turn is over.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::typed::{About, Property, TypedTool};
use super::{Needs, blocking};
use crate::agent::{Context, Reach, ToolOutput};
use crate::clock;
use crate::memory::Scope;
use crate::skills::{Draft, Example};

/// What is said where others have a part in the conversation.
const OTHERS: &str = "a skill is made of the owner's words alone, and words of others are in this conversation; the owner can ask for it after /new";
const NOT_HERE: &str = "a skill is proposed only to the owner, in a conversation of their own";

/// Where it is used: an owner talks, and nobody else does.
pub(super) struct SkillPropose(pub(super) Arc<Needs>);

#[derive(Deserialize, JsonSchema)]
pub(super) struct Args {
    /// a-z, 0-9 and -
    name: String,
    /// when to use it
    description: String,
    /// the steps that worked, in Markdown, shorter than what they save; all of it, also of a skill that is changed
    text: String,
    /// 1 to 3
    #[serde(default)]
    examples: Vec<ExampleArgs>,
}

#[derive(Deserialize, JsonSchema)]
struct ExampleArgs {
    /// a message
    ask: String,
    /// words of its answer
    expect: String,
}

impl TypedTool for SkillPropose {
    type Args = Args;

    const ABOUT: About = About {
        name: "skill_propose",
        description: "Propose to keep how something is done as a skill, or a change of one: after a task that took many \
                      steps and may come again, or when the owner corrected how you do it. The owner is asked.",
        properties: &[Property::Rare],
    };

    fn reach(&self, _args: &Args, context: &Context) -> Reach {
        if !context.viewer.may_see(&Scope::Owner) {
            return Reach::Refused(NOT_HERE.to_owned());
        }
        if context.untrusted {
            return Reach::Refused(OTHERS.to_owned());
        }
        Reach::Free
    }

    async fn run(&self, args: Args, context: &Context) -> ToolOutput {
        // Nobody is there: a job, an event, a sub-agent.
        if !context.ask_owner.is_possible() {
            return ToolOutput::error(NOT_HERE);
        }
        if context.untrusted {
            return ToolOutput::error(OTHERS);
        }
        let (needs, run) = (self.0.clone(), context.run_id.clone());
        let example = |one: ExampleArgs| Example {
            ask: one.ask,
            expect: one.expect,
        };
        let draft = Draft {
            name: args.name,
            description: args.description,
            body: args.text,
            examples: args.examples.into_iter().map(example).collect(),
        };
        blocking(move || {
            let proposed = needs.skills.propose(&draft, &run, clock::now_ms());
            let proposal = proposed.map_err(|why| format!("it was not proposed: {why}"))?;
            let what = match proposal.before {
                Some(_) => "a change of the skill",
                None => "the skill",
            };
            Ok::<String, String>(format!(
                "proposed {what} {}; the owner is asked when you have answered, and it is in force only with their yes",
                proposal.name
            ))
        })
        .await
    }
}
