//! The five programs. Only here is anything printed and an exit code chosen.

mod bar;
pub mod cli;
mod client;
pub mod consolidate;
pub mod daemon;
mod erase;
pub mod index;
pub mod monitor;
pub mod paint;
pub mod query;
mod reminders;
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
