//! `agent-daemon`: the long-running process, and what prepares a home for it.

mod build;
mod check;
mod ingress;
mod init;
mod run;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::cli::{self, Shared};
use crate::sandbox;

/// The agent's daemon: channels, queue, agent loop
///
/// Never forks; run it from systemd, or from a shell. Exit code: 0 drained and ended, 75 another
/// daemon has this home, 78 configuration.
#[derive(Debug, Parser)]
#[command(name = "agent-daemon", version = cli::version(), after_help = "Examples:\n  agent-daemon init && agent-daemon check && agent-daemon run")]
struct Arguments {
    #[command(flatten)]
    shared: Shared,
    /// Print one JSON document (check)
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run until SIGTERM (the default); SIGHUP reads the configuration again
    Run,
    /// Make the home: directories, templates, configuration; overwrites nothing
    Init {
        /// Ask nothing (nothing is asked in this build)
        #[arg(long)]
        yes: bool,
    },
    /// Check the configuration; exit code 78 when the daemon would not start
    Check {
        /// Show every setting and where its value came from
        #[arg(long)]
        show_origin: bool,
    },
}

/// Runs the program.
pub fn main() -> ExitCode {
    // Before anything else, above all before any thread: we may be the launcher of a command.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == sandbox::LAUNCHER_ARG) {
        return sandbox::launcher_main();
    }
    let arguments: Arguments = match cli::parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let shared = &arguments.shared;
    let result = match arguments.verb.unwrap_or(Verb::Run) {
        Verb::Run => run::run(shared),
        Verb::Init { yes: _ } => init::init(shared),
        Verb::Check { show_origin } => check::check(shared, show_origin, arguments.json),
    };
    cli::end("agent-daemon", arguments.json, result)
}
