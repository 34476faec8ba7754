//! `load_skill`: the text of a skill that the system prompt lists.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::typed::{About, Property, TypedTool};
use super::{Needs, blocking};
use crate::agent::{Context, Reach, ToolOutput};
use crate::clock;
use crate::config::Network;
use crate::skills::Surroundings;

/// Names that are offered instead of a wrong one.
const MAX_NAMES: usize = 50;

/// Only the owner's, as a file of the workspace: a skill may say what nobody else is to know.
pub(super) struct LoadSkill(pub(super) Arc<Needs>);

#[derive(Deserialize, JsonSchema)]
pub(super) struct Args {
    name: String,
}

impl TypedTool for LoadSkill {
    type Args = Args;

    const ABOUT: About = About {
        name: "load_skill",
        description: "Read a skill.",
        properties: &[Property::ReadOnly],
    };

    fn reach(&self, _args: &Args, _context: &Context) -> Reach {
        Reach::Shows
    }

    fn is_public(&self, args: &Args) -> bool {
        let catalog = self.0.skills.catalog();
        catalog.get(&args.name).is_some_and(|skill| skill.ships)
    }

    async fn run(&self, args: Args, context: &Context) -> ToolOutput {
        let (needs, run) = (self.0.clone(), context.run_id.clone());
        blocking(move || {
            let loaded = load(&needs, &args.name)?;
            let learned = needs.skills.learned();
            learned.used(&args.name, &run, clock::now_ms());
            Ok::<String, String>(loaded)
        })
        .await
    }
}

fn load(needs: &Needs, name: &str) -> Result<String, String> {
    let catalog = needs.skills.catalog();
    if let Some(skill) = catalog.get(name) {
        let dir = skill.location.trim_end_matches("SKILL.md");
        let lacking = match skill.needs.is_empty() {
            true => Vec::new(),
            false => skill.needs.lacking(&surroundings(needs)),
        };
        let lacking = match lacking.is_empty() {
            true => String::new(),
            false => format!("\n[it lacks: {}]", lacking.join("; ")),
        };
        return Ok(format!(
            "{}\n\n[the files it names lie in {dir}]{lacking}",
            skill.body
        ));
    }
    let name = crate::text::shorten(&crate::text::visible(name), 80);
    if let Some(off) = catalog.off.iter().find(|off| off.name == name) {
        return Err(format!(
            "the skill {name} is off: {}; the owner can see more with: agent-send --skill list",
            off.why.kind()
        ));
    }
    let names: Vec<&str> = catalog
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

/// Returns what the agent's commands have of what skills need; nothing where no command runs.
fn surroundings(needs: &Needs) -> Surroundings {
    let workspace = needs.memory.home().workspace();
    let Some(exec) = &needs.exec else {
        return Surroundings::of("", &Network::Closed, workspace);
    };
    let path = exec.env.iter().find(|(name, _)| name == "PATH");
    let path = path.map_or("", |(_, path)| path.as_str());
    Surroundings::of(path, &exec.rules.network, workspace)
}
