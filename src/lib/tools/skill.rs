//! `load_skill`: the text of a skill that the system text lists.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{blocking, text};
use crate::agent::{Context, Reach, Rights, Tool, ToolOutput};
use crate::provider::{BoxFuture, ToolSpec};
use crate::skills::Skills;

/// Names that are offered instead of a wrong one.
const MAX_NAMES: usize = 50;

pub(super) struct LoadSkill(pub Arc<Skills>);

impl Tool for LoadSkill {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "load_skill".into(),
            description: "Read one of the available skills.".into(),
            schema: json!({
                "type": "object",
                "properties": {"name": {"type": "string"}},
                "required": ["name"]
            }),
        }
    }

    fn read_only(&self) -> bool {
        true
    }

    /// As a file of the workspace: a skill may say what only its owner is to know.
    fn rights(&self) -> Rights {
        Rights::Owner
    }

    fn reach(&self, _input: &Value, _context: &Context) -> Reach {
        Reach::Shows
    }

    fn run<'a>(&'a self, input: &'a Value, _context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        let (skills, name) = (self.0.clone(), text(input, "name").to_owned());
        Box::pin(blocking(move || load(&skills, &name)))
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
