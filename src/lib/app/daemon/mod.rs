//! `agent-daemon`: the long-running process, and the commands that prepare a home for it.

mod auth;
pub(super) mod backup;
pub(super) mod build;
mod channel_backlog;
mod channel_spools;
mod check;
pub(super) mod command_intake;
mod completions;
mod full_disk;
mod import;
mod init;
mod job_timer;
mod login;
mod logout;
mod lost_writes;
mod maintenance;
mod mcp_servers;
mod migrate;
mod publish_state;
mod reload;
mod replaced_databases;
mod run;
mod run_options;
mod run_until_done;
mod single_instance;
mod standby;
mod startup;
mod stdio;
mod telegram;
mod watchdog;

pub(crate) use init::{append, write_settings};
pub(crate) use login::code_of;

use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use run::End;
use run_options::RunOptions;

use super::cli;
use super::cli::{Exit, Failure, Shared};
use crate::config::Home;
use crate::sys::fifo;
use crate::{media, sandbox, tools};

/// The agent's daemon: channels, queue, agent loop
///
/// Never forks; run it from systemd, or from a shell. Exit code: 0 stopped normally, 75 another
/// daemon uses this home, 78 configuration.
#[derive(Debug, Parser)]
#[command(name = "agent-daemon", version = cli::version(), after_help = "Examples:\n  agent-daemon init && agent-daemon check && agent-daemon run")]
struct Arguments {
    #[command(flatten)]
    shared: Shared,
    /// Print one JSON document (check, doctor, login, logout, auth, backup, restore, standby, import)
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    channels: RunOptions,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run until SIGTERM (the default); SIGHUP reads the configuration again
    Run(#[command(flatten)] RunOptions),
    /// Create the home: directories, templates, configuration; overwrites nothing
    Init {
        /// Ask nothing
        #[arg(long)]
        yes: bool,
    },
    /// Check the configuration; exit code 78 when the daemon would not start
    Check {
        /// Show every setting and where its value came from
        #[arg(long)]
        show_origin: bool,
    },
    /// Report problems and the commands that repair them; exit code 1 if there are any
    Doctor {
        /// First repair modes and create missing directories
        #[arg(long)]
        fix: bool,
        /// List the ids of all possible findings; check nothing
        #[arg(long, conflicts_with = "fix")]
        list: bool,
    },
    /// Store the key of a provider, or sign in to it
    Login(#[command(flatten)] login::Login),
    /// Delete credentials that login stored
    Logout {
        /// Whose
        provider: Option<String>,
        /// Everything
        #[arg(long, conflicts_with = "provider")]
        all: bool,
    },
    /// Show for each provider which key is active and where it came from
    Auth {
        /// Verify the keys of loaded providers, and stored ones that were not verified; exit code 1 if one is
        /// refused
        #[arg(long)]
        check: bool,
    },
    /// Write all data of the agent into one file, while it runs
    Backup(#[command(flatten)] backup::Backup),
    /// Restore a backup into an empty home
    Restore(#[command(flatten)] backup::Restore),
    /// Copy this home to another machine on every change, or wait as that machine to take over
    Standby(#[command(flatten)] standby::Arguments),
    /// Import from another program: workspace, memory, jobs, conversations, skills
    Import(#[command(flatten)] import::Import),
    /// Migrate the databases of the home to this version, as the daemon does at its start
    Migrate {
        /// The target version; an older one is refused, with the copies that can be restored instead
        #[arg(long, value_name = "VERSION")]
        to: Option<String>,
    },
    /// Print a script that completes the command lines of the five programs
    #[command(after_help = completions::HELP)]
    Completions {
        /// The shell
        shell: completions::Shell,
    },
}

/// Returns the command line, without the launcher's hidden argument.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the program.
pub fn main() -> ExitCode {
    // Before anything else, above all before any thread: we may be the launcher of a command, or
    // the reader of a PDF or of a page.
    let first = std::env::args_os().nth(1).unwrap_or_default();
    match first.to_str() {
        Some(sandbox::LAUNCHER_ARG) => return sandbox::launcher_main(),
        Some(media::PDF_ARG) => return media::pdf_main(),
        Some(tools::HTML_ARG) => return tools::html_main(),
        _ => {}
    }
    let words = cli::arguments();
    if let Some((first, before)) = words.split_first()
        && first == "--complete"
    {
        completions::after(before)
            .iter()
            .for_each(|word| cli::out(word));
        return ExitCode::SUCCESS;
    }
    let arguments: Arguments = match cli::parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let json = arguments.json;
    cli::end("agent-daemon", json, || run_verb(arguments))
}

fn run_verb(arguments: Arguments) -> Result<Exit, Failure> {
    let Arguments {
        shared,
        json,
        channels: before,
        verb,
    } = arguments;
    match verb.unwrap_or(Verb::Run(RunOptions::default())) {
        Verb::Run(after) => match run::run(&shared, before.or(after)) {
            Ok(End::Exit(exit)) => Ok(exit),
            Ok(End::Restart) => Err(restart()),
            Err(failure) if full_disk::wait_for_room(&shared, &failure) => Err(restart()),
            Err(failure) => Err(failure),
        },
        _ if before != RunOptions::default() => {
            Err(Failure::usage("--channel and --once go with run").hint("agent-daemon run --help"))
        }
        Verb::Init { yes } => init::init(&shared, yes, json),
        Verb::Check { show_origin } => check::check(&shared, show_origin, json),
        Verb::Doctor { list: true, .. } => Ok(super::doctor::list(json)),
        Verb::Doctor { fix, .. } => super::doctor::doctor(&shared, fix, json),
        Verb::Login(arguments) => login::login(&shared, &arguments, json),
        Verb::Logout { provider, all } => logout::logout(&shared, provider.as_deref(), all, json),
        Verb::Auth { check } => auth::auth(&shared, check, json),
        Verb::Backup(wanted) => backup::backup(&shared, &wanted, json),
        Verb::Restore(wanted) => backup::restore(&shared, &wanted, json),
        Verb::Standby(wanted) => match standby::standby(&shared, &wanted, json)? {
            End::Exit(exit) => Ok(exit),
            End::Restart => Err(restart()),
        },
        Verb::Import(wanted) => import::import(&shared, &wanted, json),
        Verb::Migrate { to } => migrate::migrate(&shared, to.as_deref()),
        Verb::Completions { shell } => completions::completions(shell),
    }
}

/// Has a running daemon read its settings again; returns whether it heard.
fn tell_to_reload(home: &Home, daemon: Option<i32>) -> bool {
    let rung = daemon.map(|_| fifo::ring(&home.fifo(), r#"{"v":1,"cmd":"reload"}"#));
    matches!(rung, Some(Ok(fifo::Rung::Heard | fifo::Rung::Full)))
}

/// Becomes the same program with the same arguments, in the same process: its supervisor notices nothing. Returns
/// why it could not.
fn restart() -> Failure {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let error = std::process::Command::new("/proc/self/exe")
        .arg0(name)
        .args(arguments)
        .exec();
    Failure::io(format!("the daemon could not restart: {error}")).hint("agent-daemon run")
}

#[cfg(test)]
mod tests;
