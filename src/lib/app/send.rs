//! `agent-send`: talk to the daemon from a shell.
//!
//! A message is safe when this program ends: it lies in the spool, whether a daemon listens or
//! not. The same `--id` is the same message, so a retry never doubles.

mod arguments;
mod asks;
mod chat;
mod job;
mod mcp;
mod pair;
mod progress;
mod show;
mod skill;
mod tail;
pub(super) mod talk;
mod wait;

use std::process::ExitCode;

use clap::CommandFactory;

use arguments::{Arguments, Verb};
use show::Asker;

use super::cli::{self, Exit, Failure};
use super::query;

/// Returns the command line.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the program.
pub fn main() -> ExitCode {
    match cli::parse::<Arguments>() {
        Ok(arguments) => {
            let json = arguments.json;
            cli::end("agent-send", json, || run(arguments))
        }
        Err(code) => code,
    }
}

fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let (env, home) = arguments.shared.home()?;
    let (json, quiet) = (arguments.json, arguments.shared.quiet);
    let shared = arguments.shared.clone();
    let asker = Asker {
        shared: &shared,
        home: &home,
        env: &env,
        json,
        quiet,
    };
    match arguments.verb()? {
        Verb::Say(message) => talk::say(&home, &message, json, quiet),
        Verb::Chat(chat) => chat::chat(&home, &chat, quiet),
        Verb::Result { id, wait } => wait::result(&home, &id, wait, json, quiet),
        Verb::Stop { session } => talk::stop(&home, session, json),
        Verb::Reset {
            target,
            wait,
            queue,
        } => talk::reset(&home, &target, wait, queue, json),
        Verb::Compact { session, wait } => talk::compact(&home, session, wait, json, quiet),
        Verb::Decide {
            request,
            verdict,
            why,
        } => asks::decide(&home, request, verdict, why, json),
        Verb::Undo { run, wait } => talk::undo(&home, run, wait, json),
        Verb::Job(ordered) => job::job(&asker, *ordered),
        Verb::Heartbeat { dry_run: true } => Ok(show::wake(&asker, &query::wake(&home, &env)?)),
        Verb::Heartbeat { dry_run: false } => talk::heartbeat(&home, json),
        Verb::Pair(words) => pair::pair(&home, &words, json),
        Verb::Skill(words) => skill::skill(&home, &env, &words, json),
        Verb::Mcp(words) => mcp::mcp(&home, &env, &words, json),
        Verb::Status => Ok(show::status(&asker, &query::status(&home, &env)?)),
        Verb::Monitor => show::monitor(&asker),
        Verb::Cost { period, by } => Ok(show::cost(&asker, &query::cost(&home, &env, period, by)?)),
        Verb::Sessions => Ok(show::sessions(&asker, &query::sessions(&home, &env)?)),
        Verb::History { target, full } => {
            show::history(&asker, &query::history(&home, &env, &target, full)?)
        }
        Verb::Explain { id } => Ok(show::explain(&asker, &query::explain(&home, &id)?)),
        Verb::Queue => Ok(show::queue(&asker, &query::queue(&home)?)),
        Verb::Audit { entries } => Ok(show::audit(&asker, &query::audit(&home, entries)?)),
        Verb::Verify => Ok(show::verify(&asker, &query::verify(&home)?)),
        Verb::Log { lines } => Ok(show::log(&asker, &query::log(&home, lines)?)),
    }
}
