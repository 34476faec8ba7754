//! `load_skill`: the text of a skill that the system prompt lists.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::blocking;
use super::typed::{About, Property, TypedTool};
use crate::agent::{Context, Reach, ToolOutput};
use crate::skills::Skills;

/// Names that are offered instead of a wrong one.
const MAX_NAMES: usize = 50;

/// Only the owner's, as a file of the workspace: a skill may say what nobody else is to know.
pub(super) struct LoadSkill(pub(super) Arc<Skills>);

#[derive(Deserialize, JsonSchema)]
pub(super) struct Args {
    name: String,
}

impl TypedTool for LoadSkill {
    type Args = Args;

    const ABOUT: About = About {
        name: "load_skill",
        description: "Read one of the available skills.",
        properties: &[Property::ReadOnly],
    };

    fn reach(&self, _args: &Args, _context: &Context) -> Reach {
        Reach::Shows
    }

    async fn run(&self, args: Args, _context: &Context) -> ToolOutput {
        let skills = self.0.clone();
        blocking(move || load(&skills, &args.name)).await
    }
}

fn load(skills: &Skills, name: &str) -> Result<String, String> {
    let shelf = skills.shelf();
    if let Some(skill) = shelf.get(name) {
        let dir = skill.location.trim_end_matches("SKILL.md");
        return Ok(format!(
            "{}\n\n[the files it names lie in {dir}]",
            skill.body
        ));
    }
    let name = crate::text::shorten(&crate::text::visible(name), 80);
    if let Some(off) = shelf.off.iter().find(|off| off.name == name) {
        return Err(format!(
            "the skill {name} is off: {}; the owner can see more with: agent-send --skill list",
            off.why.kind()
        ));
    }
    let names: Vec<&str> = shelf
        .skills
        .iter()
        .take(MAX_NAMES)
        .map(|skill| skill.name.as_str())
        .collect();
    Err(match names.is_empty() {
        true => format!("no skill is called {name}: there are none"),
        false => format!("no skill is called {name}; there are: {}", names.join(", ")),
    })
}
