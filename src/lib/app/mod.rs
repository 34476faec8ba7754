//! The five programs. Only here is anything printed and an exit code chosen.

pub mod cli;
pub(crate) mod color;
mod commitment_reminders;
pub mod consolidate;
pub mod daemon;
pub(crate) mod doctor;
pub(crate) mod documents;
pub(crate) mod http;
pub mod index;
mod llm_client;
pub mod monitor;
mod progress_bar;
pub(crate) mod render;
pub mod send;
mod table;

/// Returns the command lines of the five programs.
pub fn commands() -> Vec<clap::Command> {
    vec![
        daemon::command(),
        send::command(),
        monitor::command(),
        index::command(),
        consolidate::command(),
    ]
}
