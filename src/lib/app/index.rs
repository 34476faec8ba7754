//! `agent-index`: indexes memory files and searches them. In this build there is no memory yet, so there is nothing to do.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use super::cli::{self, Shared};

/// Index the memory files and search them (nothing to do yet in this build)
#[derive(Debug, Parser)]
#[command(name = "agent-index", version = cli::version())]
struct Arguments {
    #[command(flatten)]
    shared: Shared,
}

/// Returns the command line.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the program.
pub fn main() -> ExitCode {
    let arguments: Arguments = match cli::parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    if !arguments.shared.quiet {
        cli::err("agent-index: nothing to do yet: this build has no memory to work on");
    }
    ExitCode::SUCCESS
}
