//! The agent: the loop of model and tools, the interface of tools, and the guards around them.

mod argument_schema;
mod ask_owner;
mod compaction;
mod consolidation;
mod followed;
mod interrupted_turn;
mod loop_detector;
mod model_answer;
mod more_tools;
mod others_time;
mod owner_words;
mod permission;
mod retry_without_untrusted;
mod run_time;
mod show_pictures;
mod single_call;
mod skill_hint;
mod subagents;
pub(crate) mod tool;
mod tool_calls;
mod tool_registry;
mod turn_loop;
mod turn_request;

pub use ask_owner::Always;
pub use compaction::Room;
pub use interrupted_turn::break_off;
pub use model_answer::UNREADABLE;
pub use permission::{Asked, NAMED, Owner, Question, Reach, Rule, Verdict};
pub use single_call::Single;
pub use subagents::{Sent, SubagentRequest, SubagentSpawner};
pub use tool::{Context, Effect, Rights, Shown, Tool, ToolOutput};
pub use tool_registry::{Registry, Rules};
pub use turn_loop::Agent;
pub use turn_request::{Ended, Form, Formed, Limits, Order, Reply, Written};

#[cfg(test)]
mod conversation_tests;
