//! `agent-send`: talk to the daemon from a shell.
//!
//! A message is safe when this program ends: it is in the spool, whether a daemon is running or not. A message with the
//! same `--id` is the same message, so a retry never duplicates it.

mod approvals;
mod arguments;
mod chat;
mod complete;
mod help;
mod job;
pub(super) mod mcp;
mod mcp_add;
mod mcp_login;
mod message;
mod pair;
mod progress;
mod skill;
mod skill_learned;
mod steps;
mod stream;
pub(super) mod submit;
mod type_ahead;
mod wait;

use std::process::ExitCode;

use clap::CommandFactory;

use super::render::Context;
use arguments::{Arguments, parse_id};

use super::cli;
use super::cli::{Exit, Failure};
use super::{documents, render};
use crate::control::{Command, Id};
use crate::message::DeadLetters;
use crate::text;

/// Returns the command line.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the program.
pub fn main() -> ExitCode {
    let words = cli::arguments();
    if let Some(("--complete", before)) = words
        .split_first()
        .map(|(first, rest)| (first.as_str(), rest))
    {
        complete::after(before)
            .iter()
            .for_each(|word| cli::out(word));
        return ExitCode::SUCCESS;
    }
    if let Some(help) = help::asked(&words) {
        cli::out(help.trim_end());
        return ExitCode::SUCCESS;
    }
    match cli::parse::<Arguments>().map(Arguments::with_text) {
        Ok(arguments) => cli::end("agent-send", arguments.json, || run(&arguments)),
        Err(code) => code,
    }
}

fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let (env, home) = arguments.shared.home()?;
    let context = Context {
        program: "agent-send",
        shared: &arguments.shared,
        home: &home,
        env: &env,
        json: arguments.json,
        quiet: arguments.shared.quiet,
    };
    arguments.check()?;
    cli::named_settings_must_be_there(&home)?;
    cli::must_be_there(&home)?;
    if let Some(words) = &arguments.jobs.job {
        return job::job(&context, words, arguments);
    }
    if let Some(exit) = command_of(&context, arguments)? {
        return Ok(exit);
    }
    if let Some(exit) = query(&context, arguments)? {
        return Ok(exit);
    }
    if arguments.message.chat {
        return chat::chat(&context, &arguments.message);
    }
    message::send(&context, arguments)
}

/// Runs the flag that asks the daemon, or the files it reads, for something to happen; `None` without one.
fn command_of(context: &Context<'_>, arguments: &Arguments) -> Result<Option<Exit>, Failure> {
    let (verbs, wait) = (&arguments.verbs, arguments.wait());
    let home = context.home;
    let exit = if let Some(id) = &verbs.result {
        wait::result(context, &parse_id(id)?, wait)
    } else if let Some(session) = &verbs.stop {
        submit::stop(home, session.clone(), context.json)
    } else if let Some(target) = &verbs.reset {
        if target != "all" && !submit::check_session(home, target)? && submit::nothing_waits(home)?
        {
            let what = format!("no session {:?}", text::visible(target));
            return Err(submit::hint_at_sessions(Failure::failed(what)));
        }
        let command = Command::Reset {
            target: target.clone(),
        };
        let wait = wait.or(Some(submit::COMMAND_WAIT));
        submit::send(context, &Id::new(), &command, !arguments.no_queue, wait)
            .map_err(submit::hint_at_sessions)
    } else if let Some(session) = verbs.compact.clone() {
        let known = match &session {
            Some(session) => submit::check_session(home, session)?,
            None => true,
        };
        // Nobody has to wait for a model to be told that there is no such session.
        let wait = wait.or_else(|| (!known).then_some(submit::COMMAND_WAIT));
        submit::send(
            context,
            &Id::new(),
            &Command::Compact { session },
            false,
            wait,
        )
        .map_err(submit::hint_at_sessions)
    } else if let Some(run) = verbs.undo.clone() {
        let wait = wait.or(Some(submit::COMMAND_WAIT));
        submit::send(context, &Id::new(), &Command::Undo { run }, false, wait)
    } else if let Some([action, letters @ ..]) = verbs.queue.as_deref() {
        let command = dead_letters(action, letters)?;
        let wait = wait.or(Some(submit::COMMAND_WAIT));
        submit::send(context, &Id::new(), &command, !arguments.no_queue, wait)
    } else if let Some(id) = &verbs.approve {
        let verdict = match (arguments.for_session, arguments.always) {
            (true, _) => crate::message::Approval::Session,
            (_, true) => crate::message::Approval::Always,
            _ => crate::message::Approval::Approve,
        };
        approvals::approve(context, id.as_deref(), verdict)
    } else if let Some(words) = &verbs.answer {
        approvals::answer(context, words)
    } else if let Some(words) = &verbs.deny {
        approvals::deny(context, words)
    } else if verbs.heartbeat && !arguments.dry_run {
        let (command, unknown) = (Command::Heartbeat, "the heartbeat may not have run");
        submit::call(home, &command, unknown, submit::COMMAND_WAIT, false)
            .and_then(|reply| wait::print(&reply, context.json))
    } else if let Some(words) = &verbs.pair {
        pair::pair(context, words)
    } else if let Some(words) = &verbs.skill {
        skill::skill(context, words)
    } else if let Some(words) = &verbs.mcp {
        match words.split_first() {
            Some((verb, words)) if verb == "login" => mcp_login::login(context, words),
            Some((verb, words)) if verb == "logout" => mcp_login::logout(context, words),
            Some((verb, words)) if verb == "add" => {
                mcp_add::add(context, words, &arguments.program)
            }
            _ => mcp::mcp(context, words),
        }
    } else {
        return Ok(None);
    };
    exit.map(Some)
}

/// Reads `--queue retry ID|all` and `--queue drop ID|all`.
fn dead_letters(action: &str, letters: &[String]) -> Result<Command, Failure> {
    let action = match action {
        "retry" => DeadLetters::Retry,
        "drop" => DeadLetters::Drop,
        other => {
            let what = format!("--queue takes retry or drop, not {other:?}");
            return Err(Failure::usage(what)
                .hint("agent-send --queue shows what there is; agent-send --queue retry all"));
        }
    };
    let [letter] = letters else {
        return Err(Failure::usage("which dead letter is missing")
            .hint("an id that agent-send --queue shows, or all"));
    };
    let letter = letter.clone();
    Ok(Command::DeadLetters { action, letter })
}

/// Answers the flag that asks for a document; `None` without one.
fn query(context: &Context<'_>, arguments: &Arguments) -> Result<Option<Exit>, Failure> {
    let verbs = &arguments.verbs;
    let (home, env) = (context.home, context.env);
    let exit = if verbs.heartbeat {
        render::wake(context, &documents::wake(home, env)?)
    } else if verbs.status {
        render::status(context, &documents::status(home, env)?)
    } else if verbs.monitor {
        render::monitor(context)?
    } else if let Some(period) = verbs.cost {
        render::cost(context, &documents::cost(home, env, period, arguments.by)?)
    } else if verbs.sessions {
        render::sessions(context, &documents::sessions(home, env)?)
    } else if let Some(target) = &verbs.history {
        render::history(
            context,
            &documents::history(home, env, target, arguments.full)?,
        )?
    } else if let Some(id) = &verbs.explain {
        render::explain(context, &documents::explain(home, id)?)
    } else if verbs.queue.is_some() {
        render::queue(context, &documents::queue(home)?)
    } else if let Some(lines) = verbs.log {
        match arguments.audit {
            _ if arguments.verify => render::verify(context, &documents::verify(home)?),
            Some(entries) => {
                render::audit(context, &documents::audit(home, entries.unwrap_or(lines))?)
            }
            None => render::log(context, &documents::log(home, lines)?),
        }
    } else {
        return Ok(None);
    };
    Ok(Some(exit))
}
