//! The hands: one file a tool family.

mod commitment;
mod exec;
mod files;
mod mcp;
mod media;
mod memory;
mod memory_forget;
mod message;
mod pin;
mod schedule;
mod send_command;
mod silent;
mod skill;
mod spawn;
mod status;
mod web;

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use chrono_tz::Tz;

pub use exec::ExecSettings;
pub use mcp::{names_taken, of_servers};
pub use web::{HTML_ARG, Web, html_main};

use crate::agent::{Tool, ToolOutput};
use crate::memory::Memory;
use crate::sandbox::Root;
use crate::skills::Skills;
use crate::undo;
use crate::workspace::Grounds;

/// What the tools work with.
pub struct Needs {
    /// The workspace.
    pub root: Arc<Root>,
    /// Where file tools work: the workspace, and what the settings allow beside it.
    pub grounds: Arc<Grounds>,
    /// What runs changed in files.
    pub undo: Arc<undo::Store>,
    /// The memory.
    pub memory: Arc<Memory>,
    /// The skills.
    pub skills: Arc<Skills>,
    /// The agent's time zone.
    pub zone: Tz,
    /// How much each model reads, tokens, by its configured name.
    pub windows: HashMap<String, u64>,
    /// How commands run; `None` when they do not.
    pub exec: Option<ExecSettings>,
    /// The web.
    pub web: Arc<Web>,
    /// Held while an episode is added to a person's file.
    pub episodes: Mutex<()>,
}

/// Returns all tools of this build in the order in which they are offered.
pub fn all(needs: Needs) -> Vec<Arc<dyn Tool>> {
    let mut tools = files::all(&needs);
    if let Some(settings) = needs.exec.clone() {
        tools.push(Arc::new(exec::Exec::new(
            settings,
            Some(needs.undo.clone()),
        )));
    }
    tools.push(Arc::new(web::WebFetch(needs.web.clone())));
    if needs.web.searches() {
        tools.push(Arc::new(web::WebSearch(needs.web.clone())));
    }
    let needs = Arc::new(needs);
    tools.extend(memory::all(&needs));
    tools.push(Arc::new(commitment::CommitmentUpdate(needs.clone())));
    tools.push(Arc::new(memory_forget::Forget(needs.clone())));
    tools.push(Arc::new(message::Message(needs.clone())));
    tools.extend(schedule::all(&needs));
    tools.push(Arc::new(spawn::Spawn));
    tools.push(Arc::new(media::SendMedia(needs.clone())));
    tools.push(Arc::new(media::React(needs.clone())));
    tools.push(Arc::new(pin::Pin));
    tools.push(Arc::new(skill::LoadSkill(needs.skills.clone())));
    tools.push(Arc::new(status::SessionStatus(needs)));
    tools.push(Arc::new(silent::Silent));
    tools
}

/// Runs work that blocks on a thread of its own.
async fn blocking(work: impl FnOnce() -> Result<String, String> + Send + 'static) -> ToolOutput {
    output(blocking_work(work).await)
}

/// Turns what came of some work into what the model reads.
fn output(result: Result<String, String>) -> ToolOutput {
    match result {
        Ok(text) => ToolOutput::ok(text),
        Err(reason) => ToolOutput::error(reason),
    }
}

async fn blocking_work<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    crate::sys::blocking(work).await
}

/// Reads a required string argument; the schema has been checked before.
fn text<'a>(input: &'a serde_json::Value, name: &str) -> &'a str {
    input
        .get(name)
        .and_then(serde_json::Value::as_str)
        .unwrap_or_default()
}

/// Reads an optional whole number argument.
fn number(input: &serde_json::Value, name: &str) -> Option<u64> {
    input.get(name).and_then(serde_json::Value::as_u64)
}
