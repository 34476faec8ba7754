//! The tools of the agent: one file a tool family. [`typed`] makes schema and parser of each from one type.

mod changed_files;
mod contact_names;
mod exec;
mod files;
mod mcp;
mod media;
mod memory;
mod message;
mod network;
mod pin;
mod schedule;
mod send_command;
mod server_pictures;
mod server_questions;
mod silent;
mod skill;
mod skill_propose;
mod spawn;
mod speech;
mod status;
mod sticker;
mod typed;
mod web;

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use chrono_tz::Tz;

pub use changed_files::ChangedFiles;
pub use exec::{ExecSettings, KNOWN_PROGRAMS, environment, known_programs};
pub use mcp::{SERVER_FILES, names_taken, of_servers};
pub use media::{FileDigests, copy_of_outbox};
pub use speech::Speaker;
#[cfg(any(test, fuzzing))]
pub(crate) use web::check_page;
pub use web::{HTML_ARG, Web, html_main};

use crate::agent::{Context, Tool, ToolOutput};
use crate::audit;
use crate::config;
use crate::memory::Memory;
use crate::message::Address;
use crate::sandbox::Root;
use crate::skills::Skills;
use crate::undo;
use crate::workspace::PathPolicy;
use typed::tool;

/// The names of all tools of this build, whatever is configured.
pub const NAMES: [&str; 29] = [
    "read",
    "write",
    "edit",
    "exec",
    "web_fetch",
    "web_search",
    "memory_search",
    "memory_get",
    "memory_read",
    "memory_write",
    "remember",
    "commitment_update",
    "memory_forget",
    "message",
    "cron",
    "schedule_message",
    "list_scheduled",
    "sessions_spawn",
    "send_media",
    "react",
    "sticker",
    "tts",
    "pin",
    "load_skill",
    "skill_propose",
    "session_status",
    "silent",
    // What a plan does.
    "block",
    "unblock",
];

/// What the tools work with.
pub struct Needs {
    /// The workspace.
    pub root: Arc<Root>,
    /// Where file tools work: the workspace, and what the settings allow in addition to it.
    pub path_policy: Arc<PathPolicy>,
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
    /// How far a sub-agent may go.
    pub subagents: config::Subagents,
    /// How the memory is searched.
    pub search: config::Memory,
    /// What was done and who allowed it.
    pub audit: audit::Log,
    /// The stickers that may be sent; none where a plan sends them.
    pub stickers: config::Stickers,
    /// Who speaks; `None` when nobody does.
    pub speaker: Option<Arc<Speaker>>,
    /// What is in the files that the owner is asked about.
    pub digests: FileDigests,
    /// The owners whom the settings name.
    pub owners: Vec<Address>,
    /// Held while an episode is added to a person's file.
    pub episodes: Mutex<()>,
}

impl Needs {
    /// Notes what a call did beside changes of files, so that an undo of the conversation knows of it.
    fn note_deed(&self, context: &Context, deed: undo::Deed) {
        let key = &context.conversation.0;
        self.undo.note_deed(&context.run_id, key, deed);
    }
}

/// Returns all tools of this build in the order in which they are offered.
pub fn all(needs: Needs) -> Vec<Arc<dyn Tool>> {
    let mut tools = files::all(&needs);
    if let Some(settings) = needs.exec.clone() {
        tools.push(tool(exec::Exec::new(
            settings,
            needs.undo.clone(),
            needs.audit.clone(),
        )));
    }
    tools.push(tool(web::WebFetch(needs.web.clone())));
    if needs.web.searches() {
        tools.push(tool(web::WebSearch(needs.web.clone())));
    }
    let needs = Arc::new(needs);
    tools.extend(memory::all(&needs));
    tools.push(tool(message::Message(needs.clone())));
    tools.extend(schedule::all(&needs));
    tools.push(tool(spawn::Spawn(needs.clone())));
    tools.push(tool(media::SendMedia(needs.clone())));
    tools.push(tool(media::React(needs.clone())));
    if !needs.stickers.is_empty() {
        tools.push(tool(sticker::SendSticker(needs.clone())));
    }
    if needs.speaker.is_some() {
        tools.push(tool(speech::Tts(needs.clone())));
    }
    tools.push(tool(pin::Pin));
    tools.push(tool(skill::LoadSkill(needs.clone())));
    tools.push(tool(skill_propose::SkillPropose(needs.clone())));
    tools.push(tool(status::SessionStatus(needs)));
    tools.push(tool(silent::Silent));
    tools
}

/// Runs work that blocks off the event loop and returns its result for the model.
async fn blocking<T: Into<ToolOutput>>(work: impl FnOnce() -> T + Send + 'static) -> ToolOutput {
    crate::sys::blocking(move || work().into()).await
}
