//! The five programs. Only this room prints and chooses exit codes.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

pub mod cli;
pub(crate) mod color;
mod columns;
mod commitment_reminders;
pub mod consolidate;
pub mod daemon;
pub(crate) mod doctor;
pub(crate) mod documents;
mod failure;
pub(crate) mod http;
pub mod index;
#[cfg(test)]
mod linear_tests;
mod llm_client;
pub mod monitor;
mod progress_bar;
pub(crate) mod render;
pub mod send;
mod systemd_unit;
mod table;

/// Runs the program by whose name this process was started: an installed copy is one file under five names.
pub fn main() -> ExitCode {
    let called = std::env::args_os().next().unwrap_or_default();
    match Path::new(&called).file_name().and_then(OsStr::to_str) {
        Some("agent-send") => send::main(),
        Some("agent-monitor") => monitor::main(),
        Some("agent-index") => index::main(),
        Some("agent-consolidate") => consolidate::main(),
        _ => daemon::main(),
    }
}

/// Returns the names of the five programs.
fn names() -> impl Iterator<Item = String> {
    let name = |command: clap::Command| command.get_name().to_owned();
    commands().into_iter().map(name)
}

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
