//! Saying something: the command goes into the spool, the doorbell rings, the answer is waited for.

use std::time::Duration;

use super::arguments::{Kind, Message};
use super::wait;
use super::wait::Show;
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::config::Home;
use crate::control::attachments;
use crate::control::replies::{Reply, Status};
use crate::control::{Command, Id, MAX_COMMAND, Words, encode, spool};
use crate::people::{Contact, People};
use crate::session::Index;
use crate::sys::fifo;
use crate::sys::fifo::Rung;
use crate::sys::lock;
use crate::text;

/// How long `--stop`, `--approve`, `--deny` and `--reset` wait to hear that it happened. A stop takes 2 s at most
/// (specification §5); a reset waits for the turn that runs.
pub(super) const ORDER_WAIT: Duration = Duration::from_secs(10);

/// Sends a message.
pub(super) fn say(
    home: &Home,
    message: &Message,
    json: bool,
    quiet: bool,
) -> Result<Exit, Failure> {
    check_target(home, &message.kind)?;
    if !message.queue && !listens(home)? {
        return Err(no_daemon(home));
    }
    let command = command(home, message)?;
    // Files without their command would lie there for a day.
    let mut heard = leave(home, &message.id, &command).inspect_err(|_| {
        if !message.attach.is_empty()
            && !home
                .spool_new()
                .join(format!("{}.json", message.id))
                .exists()
        {
            attachments::withdraw(&home.spool_new(), &message.id);
        }
    })?;
    if heard == Rung::NoReader && !message.queue {
        if withdraw(home, &message.id) {
            return Err(no_daemon(home));
        }
        heard = Rung::Heard;
    }
    match (heard, message.wait) {
        (Rung::NoReader, _) => queued(&message.id, json),
        (Rung::Heard | Rung::Full, Some(limit)) => wait::and_print(
            home,
            &message.id,
            limit,
            json,
            Show {
                stream: message.stream,
                quiet,
                person: false,
            },
        ),
        (Rung::Heard | Rung::Full, None) => {
            if json {
                cli::json(&Reply::new(message.id.as_str(), Status::Accepted));
            }
            Ok(Exit::Ok)
        }
    }
}

/// Stops runs.
pub(super) fn stop(home: &Home, session: Option<String>, json: bool) -> Result<Exit, Failure> {
    if !listens(home)? {
        return Err(no_daemon(home));
    }
    if let Some(session) = &session {
        check_session(home, session)?;
    }
    wait::print(
        &order(
            home,
            &Command::Stop { session },
            "nothing is known to be stopped",
        )?,
        json,
    )
}

/// Gives an order that is worth something only now, and returns what came of it. Where no daemon listens
/// nothing of it is left; without an answer that is an error, which says `unknown`.
pub(super) fn order(home: &Home, command: &Command, unknown: &str) -> Result<Reply, Failure> {
    order_with(home, command, unknown, (ORDER_WAIT, Show::default()))
}

/// As [`order`], for a program that has the whole screen: nothing is shown.
pub(in crate::app) fn silent_order(
    home: &Home,
    command: &Command,
    unknown: &str,
) -> Result<Reply, Failure> {
    slow_order(home, command, unknown, ORDER_WAIT)
}

/// As [`silent_order`], for what may take up to `limit`.
pub(in crate::app) fn slow_order(
    home: &Home,
    command: &Command,
    unknown: &str,
    limit: Duration,
) -> Result<Reply, Failure> {
    order_with(
        home,
        command,
        unknown,
        (
            limit,
            Show {
                quiet: true,
                ..Show::default()
            },
        ),
    )
}

fn order_with(
    home: &Home,
    command: &Command,
    unknown: &str,
    (limit, show): (Duration, Show),
) -> Result<Reply, Failure> {
    if !listens(home)? {
        return Err(no_daemon(home));
    }
    let id = Id::new();
    if leave(home, &id, command)? == Rung::NoReader && withdraw(home, &id) {
        return Err(no_daemon(home));
    }
    let (tell, news) = std::sync::mpsc::channel();
    match wait::wait(home, &id, Some(limit), show, &tell, &news)? {
        wait::Ended::Answered(reply, _) => Ok(*reply),
        wait::Ended::TimedOut | wait::Ended::Interrupted => {
            // What was not heard now must not fall on what there is at the next start.
            withdraw(home, &id);
            let secs = limit.as_secs();
            Err(Failure::new(
                Exit::TryAgain,
                format!("the daemon did not answer within {secs} s; {unknown}"),
            )
            .hint("agent-monitor shows what it is doing"))
        }
    }
}

/// Wakes the agent, if there is a reason to.
pub(super) fn heartbeat(home: &Home, json: bool) -> Result<Exit, Failure> {
    wait::print(
        &order(home, &Command::Heartbeat, "nothing is known of a heartbeat")?,
        json,
    )
}

/// Archives sessions.
pub(super) fn reset(
    home: &Home,
    target: &str,
    wait: Option<Duration>,
    queue: bool,
    json: bool,
) -> Result<Exit, Failure> {
    if target != "all" {
        check_session(home, target)?;
    }
    if !queue && !listens(home)? {
        return Err(no_daemon(home));
    }
    let id = Id::new();
    match leave(
        home,
        &id,
        &Command::Reset {
            target: target.to_owned(),
        },
    )? {
        Rung::NoReader if queue => queued(&id, json),
        Rung::NoReader if withdraw(home, &id) => Err(no_daemon(home)),
        Rung::NoReader | Rung::Heard | Rung::Full => {
            wait::and_print(home, &id, wait.unwrap_or(ORDER_WAIT), json, Show::default())
                .map_err(|failure| failure.hint("agent-send --sessions shows what there is"))
        }
    }
}

/// Takes back what a run changed in files.
pub(super) fn undo(
    home: &Home,
    run: Option<String>,
    wait: Option<Duration>,
    json: bool,
) -> Result<Exit, Failure> {
    if !listens(home)? {
        return Err(no_daemon(home));
    }
    let id = Id::new();
    if leave(home, &id, &Command::Undo { run })? == Rung::NoReader && withdraw(home, &id) {
        return Err(no_daemon(home));
    }
    wait::and_print(home, &id, wait.unwrap_or(ORDER_WAIT), json, Show::default())
}

/// Sums the older part of a conversation up.
pub(super) fn compact(
    home: &Home,
    session: Option<String>,
    wait: Option<Duration>,
    json: bool,
    quiet: bool,
) -> Result<Exit, Failure> {
    if !listens(home)? {
        return Err(no_daemon(home));
    }
    if let Some(session) = &session {
        check_session(home, session)?;
    }
    let id = Id::new();
    if leave(home, &id, &Command::Compact { session })? == Rung::NoReader && withdraw(home, &id) {
        return Err(no_daemon(home));
    }
    match wait {
        Some(limit) => wait::and_print(
            home,
            &id,
            limit,
            json,
            Show {
                quiet,
                ..Show::default()
            },
        )
        .map_err(|failure| failure.hint("agent-send --sessions shows what there is")),
        None => {
            if json {
                cli::json(&Reply::new(id.as_str(), Status::Accepted));
            }
            Ok(Exit::Ok)
        }
    }
}

fn command(home: &Home, message: &Message) -> Result<Command, Failure> {
    let words = Words {
        text: message.text.clone(),
        context: None,
        tier: message.tier.clone(),
        model: message.model.clone(),
        untrusted: message.untrusted,
    };
    Ok(match &message.kind {
        Kind::User { from, session } => Command::User {
            words,
            sender: from.clone(),
            session: session.clone(),
            stream: message.stream,
            attachments: attach(home, message)?,
        },
        Kind::System { source } => Command::System {
            words,
            source: source.clone(),
        },
        Kind::Notify {
            source,
            reference,
            data,
        } => {
            let (source, reference, data) = (source.clone(), reference.clone(), data.clone());
            Command::Notify {
                words,
                source,
                reference,
                data,
                attachments: Vec::new(),
            }
        }
        Kind::Raw { to } => Command::Raw {
            to: to.clone(),
            text: words.text,
            attachments: attach(home, message)?,
            topic: None,
            reply_to: None,
            emoji: None,
        },
    })
}

fn attach(home: &Home, message: &Message) -> Result<Vec<crate::control::Attachment>, Failure> {
    if message.attach.is_empty() {
        return Ok(Vec::new());
    }
    make_spool(home)?;
    attachments::leave(
        &home.spool_tmp(),
        &home.spool_new(),
        &message.id,
        &message.attach,
    )
    .map_err(|error| match error {
        attachments::Error::Io(error) => error.into(),
        error @ attachments::Error::Unfit { .. } => Failure::new(Exit::Usage, error.to_string())
            .hint("nothing was sent; --attach takes regular files of at most 20 MB"),
    })
}

/// Refuses a name that may mean several, before anything is sent.
fn check_target(home: &Home, kind: &Kind) -> Result<(), Failure> {
    match kind {
        // Other names mean conversations of our own, there or new.
        Kind::User {
            session: Some(session),
            ..
        } if session.starts_with('@') => check_session(home, session),
        Kind::Raw { to } if to != "owner" && to.parse::<i64>().is_err() => check_contact(home, to),
        _ => Ok(()),
    }
}

fn check_session(home: &Home, target: &str) -> Result<(), Failure> {
    let people = People::read(&home.people())?;
    let index = Index::read(&home.sessions_index(), &home.sessions())?;
    match index.find(&people, target).as_slice() {
        [] | [_] => Ok(()),
        several => Err(ambiguous(target, &several.join("\n  "))),
    }
}

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
            Err(ambiguous(
                to,
                &several
                    .iter()
                    .map(line)
                    .collect::<Vec<String>>()
                    .join("\n  "),
            ))
        }
    }
}

/// Returns the failure of a name that may mean each of `list`.
pub(super) fn ambiguous(target: &str, list: &str) -> Failure {
    Failure::new(
        Exit::Usage,
        format!("{} may mean several:\n  {list}", text::visible(target)),
    )
    .hint("name one of these")
}

fn make_spool(home: &Home) -> Result<(), Failure> {
    cli::may_write(home)?;
    if !home.spool_new().is_dir() || !home.spool_tmp().is_dir() {
        home.create()?;
    }
    Ok(())
}

/// Leaves a command in the spool and rings.
pub(super) fn leave(home: &Home, id: &Id, command: &Command) -> Result<Rung, Failure> {
    let line = encode(id, command);
    if line.len() as u64 > MAX_COMMAND {
        return Err(Failure::new(
            Exit::Data,
            format!("the message is larger than {MAX_COMMAND} bytes"),
        )
        .hint("send the part that matters, or the whole as a file: --attach FILE"));
    }
    make_spool(home)?;
    spool::put(&home.spool_tmp(), &home.spool_new(), id, &line)?;
    // The command is safe; a bell that cannot be rung only makes it wait for the next look.
    let bell = encode(id, &Command::Spool { id: id.clone() });
    match fifo::ring(&home.fifo(), &bell) {
        Ok(Rung::Heard) => Ok(Rung::Heard),
        // A daemon that lives looks at the spool without a bell, too: one that is just starting,
        // or whose FIFO somebody removed.
        _ if listens(home)? => Ok(Rung::Full),
        _ => Ok(Rung::NoReader),
    }
}

/// Takes a command back that nobody heard of; false when a daemon that came up just now has it.
pub(super) fn withdraw(home: &Home, id: &Id) -> bool {
    let taken_back = std::fs::remove_file(home.spool_new().join(format!("{id}.json"))).is_ok();
    if taken_back {
        attachments::withdraw(&home.spool_new(), id);
    }
    taken_back
}

/// Returns whether a daemon holds the lock.
pub(super) fn listens(home: &Home) -> Result<bool, Failure> {
    Ok(lock::holder(&home.lock())?.is_some())
}

/// Returns the failure of what needs a daemon.
pub(super) fn no_daemon(home: &Home) -> Failure {
    let fifo = home.fifo();
    let unit = if home.state().starts_with("/var/lib") {
        "sudo systemctl"
    } else {
        "systemctl --user"
    };
    Failure::new(
        Exit::NoDaemon,
        format!("no daemon is listening on {}", fifo.display()),
    )
    .hint(format!(
        "{unit} start agent-daemon, or: agent-daemon run; agent-monitor shows the exact command"
    ))
}

pub(super) fn queued(id: &Id, json: bool) -> Result<Exit, Failure> {
    if json {
        cli::json(&serde_json::json!({"v": 1, "id": id.as_str(), "status": "queued"}));
    } else {
        cli::out(id.as_str());
        cli::err("agent-send: queued: no daemon is listening; it will be handled when one starts");
    }
    Ok(Exit::TryAgain)
}
