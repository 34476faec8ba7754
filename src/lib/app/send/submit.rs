//! Commands on their way to the daemon: into the spool, then a line into the FIFO, then its reply.

use std::time::Duration;

use super::wait;
use super::wait::Waiting;
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::app::render::Context;
use crate::app::systemd_unit::Unit;
use crate::config::{Environment, Home};
use crate::control::attachments;
use crate::control::replies::{Reply, Status};
use crate::control::{Command, Id, MAX_COMMAND, encode, spool};
use crate::message::{Address, Envelope, Source, Trust};
use crate::people::{Contact, People};
use crate::session::Index;
use crate::sys::fifo;
use crate::sys::fifo::Rung;
use crate::sys::lock;
use crate::{config, control, queue, standby, text};

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

/// Puts a command with an id of the caller's own into the spool, see [`post`].
///
/// # Errors
/// 65 when the id is that of a command which says something else: the first one counts.
pub(super) fn post_named(
    home: &Home,
    id: &Id,
    command: &Command,
    may_queue: bool,
) -> Result<Posted, Failure> {
    let posted = post(home, id, command, may_queue)?;
    // In this order: what leaves the spool is in the queue already. Who may not read the queue is told by the answer.
    let digest = control::digest(Source::Cli.as_str(), command);
    match queue::clash(&home.queue_db(), id.as_str(), &digest) {
        Ok(None) | Err(_) => Ok(posted),
        Ok(Some(first)) => {
            withdraw(home, id);
            let first = first.map(|first| Said {
                verb: first.source.as_str().to_owned(),
                text: first.text.clone(),
                files: first.attachments.len(),
                flags: flags_of_queue(&first),
            });
            Err(clash(id, first, &Said::by(command)))
        }
    }
}

/// What a command says, for a person who compares two.
struct Said {
    verb: String,
    text: String,
    files: usize,
    /// Those by which it is another command, beside its words and files.
    flags: Vec<String>,
}

impl Said {
    fn by(command: &Command) -> Self {
        let value = serde_json::to_value(command).unwrap_or_default();
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let verb = match command {
            // As the queue calls it, whose message may be next to it.
            Command::User { .. } => Source::Cli.as_str().to_owned(),
            _ => text("cmd"),
        };
        Self {
            verb,
            text: text("text"),
            files: value["attachments"].as_array().map_or(0, Vec::len),
            flags: flags(&value),
        }
    }

    fn show(&self) -> String {
        let words = text::shorten(&text::visible(&self.text), 200);
        let files = match self.files {
            0 => String::new(),
            count => format!(" and {}", text::counted(count, "file")),
        };
        format!("{} {words:?}{files}", self.verb)
    }
}

/// Returns the flags of a message in the spool that the queue keeps, too.
fn flags(command: &serde_json::Value) -> Vec<String> {
    let text = |flag: &str, name: &str| Some(format!("{flag} {}", command[name].as_str()?));
    let is_set = |flag: &str, name: &str| (command[name] == true).then(|| flag.to_owned());
    [
        text("--from", "sender"),
        text("--model", "model"),
        text("--tier", "tier"),
        is_set("--untrusted", "untrusted"),
        is_set("--trusted", "trusted"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the same of a message in the queue.
fn flags_of_queue(first: &Envelope) -> Vec<String> {
    flags(&serde_json::json!({
        "sender": (first.source == Source::Cli).then_some(&first.sender.id),
        "model": first.model,
        "tier": first.tier,
        "untrusted": first.trust == Trust::Other && first.source != Source::Notify,
        "trusted": first.trusted,
    }))
}

/// Returns both as a person sees the difference: what the lines lack, and a sentence where they still say the same.
fn shown(first: &Said, now: &Said) -> (String, String, &'static str) {
    let (mut one, mut other) = (first.show(), now.show());
    if one != other {
        return (one, other, "");
    }
    let only = |of: &Said, not: &Said| -> String {
        let flags = of.flags.iter().filter(|flag| !not.flags.contains(flag));
        flags.map(|flag| format!(" {flag}")).collect()
    };
    one.push_str(&only(first, now));
    other.push_str(&only(now, first));
    let rest = match one == other {
        true => {
            "\n  they differ in another flag, such as --session, or in the content of their files"
        }
        false => "",
    };
    (one, other, rest)
}

/// Returns the failure of a command whose id another one has.
fn clash(id: &Id, first: Option<Said>, now: &Said) -> Failure {
    let (first, now, rest) = match first {
        Some(first) => shown(&first, now),
        None => ("(no longer kept)".to_owned(), now.show(), ""),
    };
    let what = format!(
        "id {id} belongs to another message; nothing was sent\n  first: {first}\n  now:   {now}{rest}"
    );
    let result = cli::command("agent-send", &format!("--result {id}"));
    Failure::data(what).hint(format!(
        "choose another --id; {result} shows the answer to the first"
    ))
}

/// Puts a command into the spool and tells the daemon. Where none runs it stays there, or nothing of it does
/// when it may not be queued.
///
/// # Errors
/// 65 when another command with this id waits there.
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
        return Err(Failure::data(what)
            .hint("send the part that matters, or the whole as a file: --attach FILE"));
    }
    make_spool(home)?;
    let mut is_ours = spool::put(&home.spool_tmp(), &home.spool_new(), id, &line)?;
    while !is_ours {
        if let Some(waiting) = spool::waiting(&home.spool_new(), id)? {
            check_same(home, id, &waiting, command)?;
            break;
        }
        // The daemon took it between these two looks.
        is_ours = spool::put(&home.spool_tmp(), &home.spool_new(), id, &line)?;
    }
    // The command is safe: a daemon that does not hear this (it starts just now, or somebody removed its
    // FIFO) looks at the spool without it.
    let notice = encode(id, &Command::Spool { id: id.clone() });
    if matches!(fifo::ring(&home.fifo(), &notice), Ok(Rung::Heard)) || is_running(home)? {
        return Ok(Posted::Taken);
    }
    if may_queue {
        return Ok(Posted::Queued);
    }
    if !is_ours || withdraw(home, id) {
        return Err(no_daemon(home));
    }
    Ok(Posted::Taken)
}

/// Refuses a command whose id one has that waits in the spool and says something else.
fn check_same(home: &Home, id: &Id, waiting: &[u8], command: &Command) -> Result<(), Failure> {
    let of = |command: &Command| control::digest(Source::Cli.as_str(), command);
    let first = control::decode(waiting).ok().map(|order| order.command);
    let mut own = command.clone();
    if let Some(files) = own.attachments_mut() {
        attachments::withdraw_own(&home.spool_new(), id, files);
    }
    if first.as_ref().map(of) == Some(of(command)) {
        return Ok(());
    }
    Err(clash(id, first.as_ref().map(Said::by), &Said::by(command)))
}

/// Sends a command, and prints its reply when that is waited for.
pub(super) fn send(
    context: &Context<'_>,
    id: &Id,
    command: &Command,
    may_queue: bool,
    wait: Option<Duration>,
) -> Result<Exit, Failure> {
    let waiting = wait.map(Waiting::begin);
    let posted = post(context.home, id, command, may_queue)?;
    finish(context, id, command, posted, waiting)
}

/// Says where a command is, or prints its reply when that is waited for.
pub(super) fn finish(
    context: &Context<'_>,
    id: &Id,
    command: &Command,
    posted: Posted,
    waiting: Option<Waiting>,
) -> Result<Exit, Failure> {
    if posted == Posted::Queued {
        return Ok(queued(context, id));
    }
    if let Some(waiting) = waiting {
        let stream = matches!(command, Command::User { stream: true, .. });
        return waiting.and_print(context, id, stream);
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
        Failure::try_again(what).hint("agent-monitor shows what it is doing")
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
    let unknown = "the stop may not have happened";
    let reply = call(home, &command, unknown, COMMAND_WAIT, false)?;
    wait::print(&reply, json)
}

/// Names the command that shows the sessions, when one was not found.
pub(super) fn hint_at_sessions(failure: Failure) -> Failure {
    match failure.exit {
        Exit::Failed => failure.hint("agent-send --sessions lists them"),
        _ => failure,
    }
}

/// Returns whether no daemon runs and nothing waits for one: what the files do not know does not exist.
pub(super) fn nothing_waits(home: &Home) -> Result<bool, Failure> {
    Ok(!is_running(home)? && spool::scan(&home.spool_new())?.is_empty())
}

/// Returns whether the session is known; refuses a name that may mean several.
pub(super) fn check_session(home: &Home, target: &str) -> Result<bool, Failure> {
    let people = People::read(&home.people())?;
    let index = Index::read(&home.sessions_index(), &home.sessions())?;
    match index.find(&people, target).as_slice() {
        [] => Ok(false),
        [_] => Ok(true),
        several => Err(ambiguous(target, &several.join("\n  "))),
    }
}

/// Refuses a recipient whom nothing could reach: a name that means nobody, or several, and an address on a channel
/// that the settings do not know.
pub(super) fn check_recipient(context: &Context<'_>, to: &str) -> Result<(), Failure> {
    let Some(address) = Address::parse(to) else {
        return match to {
            "owner" => Ok(()),
            name => check_contact(context.home, name),
        };
    };
    // Settings that are broken now may not be those of the daemon that runs.
    let Ok(config) = config::load_config(context.home, context.env) else {
        return Ok(());
    };
    let channel = address.channel();
    // A contact's name may look like an address.
    if config.knows_channel(channel) || check_contact(context.home, to).is_ok() {
        return Ok(());
    }
    let names: Vec<&str> = config.open_channels().collect();
    let known = match names.is_empty() {
        true => "every channel is off (`enabled` in agent.toml)".to_owned(),
        false => format!("there are: {}", names.join(", ")),
    };
    let what = format!("no channel {channel:?} (--to {})", text::visible(to));
    Err(Failure::failed(what).hint(format!(
        "{known}; --to takes owner, the number of a chat, CHANNEL:ID or the name of a contact"
    )))
}

/// Refuses a name that means nobody, or several.
pub(super) fn check_contact(home: &Home, to: &str) -> Result<(), Failure> {
    match People::read(&home.people())?.find(to).as_slice() {
        [_] => Ok(()),
        [] => Err(Failure::failed(format!("no contact {:?}", text::visible(to)),
        )
        .hint(
            "a contact is known by name once they wrote to the agent; a numeric chat id, or CHANNEL:ID, always works",
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
    Failure::usage(format!("{target} is ambiguous:\n  {list}")).hint("use one of these")
}

pub(super) fn make_spool(home: &Home) -> Result<(), Failure> {
    cli::may_write(home)?;
    // Where the agent is on another machine no daemon starts that would take it.
    standby::may_run(home)?;
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

/// Has the daemon read its settings again; false when none runs.
pub(super) fn reload(home: &Home) -> Result<bool, Failure> {
    let is_running = is_running(home)?;
    if is_running {
        let _ = fifo::ring(&home.fifo(), &encode(&Id::new(), &Command::Reload))?;
    }
    Ok(is_running)
}

/// Returns the failure of what needs a daemon.
pub(super) fn no_daemon(home: &Home) -> Failure {
    let unit = Unit::of(&Environment::of_process(), home).and_then(|unit| unit.start());
    let or = unit.map_or_else(String::new, |start| format!("{start}, or: "));
    let what = format!("no daemon is listening on {}", home.fifo().display());
    Failure::no_daemon(what).hint(format!("{or}{}", cli::command("agent-daemon", "run")))
}

pub(super) fn queued(context: &Context<'_>, id: &Id) -> Exit {
    if context.json {
        cli::json(&serde_json::json!({"v": 1, "id": id.as_str(), "status": "queued"}));
    } else {
        cli::out(id.as_str());
        let start = no_daemon(context.home).hint.unwrap_or_default();
        cli::err(&format!(
            "agent-send: queued: no daemon is listening; it will be handled when one starts: {start}"
        ));
    }
    Exit::TryAgain
}
