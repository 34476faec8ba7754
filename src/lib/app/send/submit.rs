//! Commands on their way to the daemon: into the spool, then a line into the FIFO, then its reply.

use std::time::Duration;

use super::wait;
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::app::render::Context;
use crate::config::Home;
use crate::control::attachments;
use crate::control::replies::{Reply, Status};
use crate::control::{Command, Id, MAX_COMMAND, encode, spool};
use crate::people::{Contact, People};
use crate::session::Index;
use crate::sys::fifo;
use crate::sys::fifo::Rung;
use crate::sys::lock;
use crate::text;

/// How long `--stop`, `--approve`, `--deny` and `--reset` wait to hear that it happened. A stop takes 2 s at most
/// (specification §5); a reset waits for the turn that runs.
pub(in crate::app) const COMMAND_WAIT: Duration = Duration::from_secs(10);

/// Where a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Posted {
    /// A daemon runs and reads it.
    Taken,
    /// In the spool, until a daemon starts.
    Queued,
}

/// Puts a command into the spool and tells the daemon. Where none runs it stays there, or nothing of it does
/// when it may not be queued.
pub(super) fn post(
    home: &Home,
    id: &Id,
    command: &Command,
    may_queue: bool,
) -> Result<Posted, Failure> {
    if !may_queue && !is_running(home)? {
        return Err(no_daemon(home));
    }
    let line = encode(id, command);
    if line.len() as u64 > MAX_COMMAND {
        let what = format!("the message is larger than {MAX_COMMAND} bytes");
        return Err(Failure::new(Exit::Data, what)
            .hint("send the part that matters, or the whole as a file: --attach FILE"));
    }
    make_spool(home)?;
    spool::put(&home.spool_tmp(), &home.spool_new(), id, &line)?;
    // The command is safe: a daemon that does not hear this (it starts just now, or somebody removed its
    // FIFO) looks at the spool without it.
    let notice = encode(id, &Command::Spool { id: id.clone() });
    if matches!(fifo::ring(&home.fifo(), &notice), Ok(Rung::Heard)) || is_running(home)? {
        return Ok(Posted::Taken);
    }
    if may_queue {
        return Ok(Posted::Queued);
    }
    if withdraw(home, id) {
        return Err(no_daemon(home));
    }
    Ok(Posted::Taken)
}

/// Sends a command, and prints its reply when that is waited for.
pub(super) fn send(
    context: &Context<'_>,
    id: &Id,
    command: &Command,
    may_queue: bool,
    wait: Option<Duration>,
) -> Result<Exit, Failure> {
    if post(context.home, id, command, may_queue)? == Posted::Queued {
        return Ok(queued(id, context.json));
    }
    if let Some(limit) = wait {
        let stream = matches!(command, Command::User { stream: true, .. });
        return wait::and_print(context, id, limit, stream);
    }
    if context.json {
        cli::json(&Reply::new(id.as_str(), Status::Accepted));
    }
    Ok(Exit::Ok)
}

/// Sends a command that is worth something only now, and returns its reply, which takes up to `limit`. Where no
/// daemon runs nothing of it is left; without a reply that is an error, which says `unknown`.
pub(in crate::app) fn call(
    home: &Home,
    command: &Command,
    unknown: &str,
    limit: Duration,
    quiet: bool,
) -> Result<Reply, Failure> {
    let id = Id::new();
    post(home, &id, command, false)?;
    wait::reply(home, &id, limit, quiet)?.ok_or_else(|| {
        // A command that was not taken now must not act on what there is at the next start.
        withdraw(home, &id);
        let secs = limit.as_secs();
        let what = format!("the daemon did not answer within {secs} s; {unknown}");
        Failure::new(Exit::TryAgain, what).hint("agent-monitor shows what it is doing")
    })
}

/// Stops runs: those of a session, or all.
pub(super) fn stop(home: &Home, session: Option<String>, json: bool) -> Result<Exit, Failure> {
    if !is_running(home)? {
        return Err(no_daemon(home));
    }
    if let Some(session) = &session {
        check_session(home, session)?;
    }
    let command = Command::Stop { session };
    let unknown = "nothing is known to be stopped";
    let reply = call(home, &command, unknown, COMMAND_WAIT, false)?;
    wait::print(&reply, json)
}

/// Names the command that shows the sessions, when one was not found.
pub(super) fn hint_at_sessions(failure: Failure) -> Failure {
    match failure.exit {
        Exit::Failed => failure.hint("agent-send --sessions shows what there is"),
        _ => failure,
    }
}

/// Refuses a name that may mean several sessions.
pub(super) fn check_session(home: &Home, target: &str) -> Result<(), Failure> {
    let people = People::read(&home.people())?;
    let index = Index::read(&home.sessions_index(), &home.sessions())?;
    match index.find(&people, target).as_slice() {
        [] | [_] => Ok(()),
        several => Err(ambiguous(target, &several.join("\n  "))),
    }
}

/// Refuses a name that means nobody, or several.
pub(super) fn check_contact(home: &Home, to: &str) -> Result<(), Failure> {
    match People::read(&home.people())?.find(to).as_slice() {
        [_] => Ok(()),
        [] => Err(Failure::new(
            Exit::Failed,
            format!("nobody is called {}", text::visible(to)),
        )
        .hint(
            "people are known by name once they wrote to the bot; a numeric chat id always works",
        )),
        several => {
            let line = |one: &Contact| format!("{}  {}", one.id, text::visible(&one.name));
            let lines: Vec<String> = several.iter().map(line).collect();
            Err(ambiguous(to, &lines.join("\n  ")))
        }
    }
}

fn ambiguous(target: &str, list: &str) -> Failure {
    let target = text::visible(target);
    Failure::new(Exit::Usage, format!("{target} may mean several:\n  {list}"))
        .hint("name one of these")
}

pub(super) fn make_spool(home: &Home) -> Result<(), Failure> {
    cli::may_write(home)?;
    if !home.spool_new().is_dir() || !home.spool_tmp().is_dir() {
        home.create()?;
    }
    Ok(())
}

/// Takes a command back that nobody read; false when a daemon that started just now has it.
fn withdraw(home: &Home, id: &Id) -> bool {
    let was_there = std::fs::remove_file(home.spool_new().join(format!("{id}.json"))).is_ok();
    if was_there {
        attachments::withdraw(&home.spool_new(), id);
    }
    was_there
}

/// Returns whether a daemon holds the lock.
pub(super) fn is_running(home: &Home) -> Result<bool, Failure> {
    Ok(lock::holder(&home.lock())?.is_some())
}

/// Returns the failure of what needs a daemon.
pub(super) fn no_daemon(home: &Home) -> Failure {
    let unit = if home.state().starts_with("/var/lib") {
        "sudo systemctl"
    } else {
        "systemctl --user"
    };
    let what = format!("no daemon is listening on {}", home.fifo().display());
    Failure::new(Exit::NoDaemon, what).hint(format!(
        "{unit} start agent-daemon, or: agent-daemon run; agent-monitor shows the exact command"
    ))
}

pub(super) fn queued(id: &Id, json: bool) -> Exit {
    if json {
        cli::json(&serde_json::json!({"v": 1, "id": id.as_str(), "status": "queued"}));
    } else {
        cli::out(id.as_str());
        cli::err("agent-send: queued: no daemon is listening; it will be handled when one starts");
    }
    Exit::TryAgain
}
