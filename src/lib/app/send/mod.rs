//! `agent-send`: talk to the daemon from a shell.
//!
//! A message is safe when this program ends: it lies in the spool, whether a daemon listens or
//! not. The same `--id` is the same message, so a retry never doubles.

mod approvals;
mod arguments;
mod chat;
mod job;
mod mcp;
mod pair;
mod progress;
mod skill;
mod stream;
pub(super) mod submit;
mod wait;

use std::process::ExitCode;

use clap::CommandFactory;

use super::render::Asker;
use arguments::{Arguments, Verb};

use super::cli;
use super::cli::{Exit, Failure};
use super::documents;

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
        Verb::Say(message) => submit::say(&home, &message, json, quiet),
        Verb::Chat(chat) => chat::chat(&home, &chat, quiet),
        Verb::Result { id, wait } => wait::result(&home, &id, wait, json, quiet),
        Verb::Stop { session } => submit::stop(&home, session, json),
        Verb::Reset {
            target,
            wait,
            queue,
        } => submit::reset(&home, &target, wait, queue, json),
        Verb::Compact { session, wait } => submit::compact(&home, session, wait, json, quiet),
        Verb::Decide {
            request,
            verdict,
            why,
        } => approvals::decide(&home, request, verdict, why, json),
        Verb::Undo { run, wait } => submit::undo(&home, run, wait, json),
        Verb::Job(ordered) => job::job(&asker, *ordered),
        Verb::Heartbeat { dry_run: true } => {
            Ok(super::render::wake(&asker, &documents::wake(&home, &env)?))
        }
        Verb::Heartbeat { dry_run: false } => submit::heartbeat(&home, json),
        Verb::Pair(words) => pair::pair(&home, &words, json),
        Verb::Skill(words) => skill::skill(&home, &env, &words, json),
        Verb::Mcp(words) => mcp::mcp(&home, &env, &words, json),
        Verb::Status => Ok(super::render::status(
            &asker,
            &documents::status(&home, &env)?,
        )),
        Verb::Monitor => super::render::monitor(&asker),
        Verb::Cost { period, by } => Ok(super::render::cost(
            &asker,
            &documents::cost(&home, &env, period, by)?,
        )),
        Verb::Sessions => Ok(super::render::sessions(
            &asker,
            &documents::sessions(&home, &env)?,
        )),
        Verb::History { target, full } => {
            super::render::history(&asker, &documents::history(&home, &env, &target, full)?)
        }
        Verb::Explain { id } => Ok(super::render::explain(
            &asker,
            &documents::explain(&home, &id)?,
        )),
        Verb::Queue => Ok(super::render::queue(&asker, &documents::queue(&home)?)),
        Verb::Audit { entries } => Ok(super::render::audit(
            &asker,
            &documents::audit(&home, entries)?,
        )),
        Verb::Verify => Ok(super::render::verify(&asker, &documents::verify(&home)?)),
        Verb::Log { lines } => Ok(super::render::log(&asker, &documents::log(&home, lines)?)),
    }
}
