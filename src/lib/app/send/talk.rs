//! Saying something, and getting the answer.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use notify::{RecursiveMode, Watcher};

use super::super::cli::{self, Exit, Failure};
use super::arguments::Message;
use crate::config::Home;
use crate::control::replies::{self, Reply, Status};
use crate::control::{Command, Id, MAX_COMMAND, encode, spool};
use crate::queue;
use crate::sys::fifo::{self, Rung};
use crate::sys::lock;

/// How long `--stop` waits to hear that it happened (specification §5: within 2 s).
const STOP_WAIT: Duration = Duration::from_secs(10);

/// Sends a message.
pub(super) fn say(home: &Home, message: &Message) -> Result<Exit, Failure> {
    let command = Command::User {
        text: message.text.clone(),
        sender: message.from.clone(),
        session: None,
        model: None,
        untrusted: message.untrusted,
    };
    if !message.queue && !listens(home)? {
        return Err(no_daemon(home));
    }
    let heard = leave(home, &message.id, &command)?;
    match (heard, message.wait) {
        (Rung::NoReader, _) if message.queue => queued(&message.id, message.json),
        (Rung::NoReader, _) => {
            withdraw(home, &message.id);
            Err(no_daemon(home))
        }
        (Rung::Heard | Rung::Full, Some(limit)) => wait_and_print(home, &message.id, limit, message.json),
        (Rung::Heard | Rung::Full, None) => {
            if message.json {
                cli::json(&Reply::new(message.id.as_str(), Status::Accepted));
            }
            Ok(Exit::Ok)
        }
    }
}

/// Prints the reply to an earlier message.
pub(super) fn result(home: &Home, id: &Id, wait: Option<Duration>, json: bool) -> Result<Exit, Failure> {
    if let Some(limit) = wait {
        return wait_and_print(home, id, limit, json);
    }
    match find(home, id)? {
        Some(reply) if reply.is_final() => print(&reply, json),
        Some(reply) => {
            if json {
                cli::json(&reply);
                return Ok(Exit::TryAgain);
            }
            Err(Failure::new(Exit::TryAgain, format!("{id} is not answered yet"))
                .hint(format!("agent-send --result {id} --wait")))
        }
        None if home.spool_new().join(format!("{id}.json")).exists() => {
            Err(Failure::new(Exit::TryAgain, format!("{id} waits in the spool for the daemon")).hint("agent-daemon run"))
        }
        None => {
            Err(Failure::new(Exit::Failed, format!("no message has the id {id}")).hint("replies are kept 24 hours, ids 14 days"))
        }
    }
}

/// Stops runs.
pub(super) fn stop(home: &Home, session: Option<String>, json: bool) -> Result<Exit, Failure> {
    if !listens(home)? {
        return Err(no_daemon(home));
    }
    let id = Id::new();
    if leave(home, &id, &Command::Stop { session })? == Rung::NoReader {
        withdraw(home, &id);
        return Err(no_daemon(home));
    }
    let exit = wait_and_print(home, &id, STOP_WAIT, json)?;
    if exit == Exit::TryAgain {
        // A stop that was not heard now must not fall on what runs at the next start.
        withdraw(home, &id);
    }
    Ok(exit)
}

/// Leaves a command in the spool and rings.
fn leave(home: &Home, id: &Id, command: &Command) -> Result<Rung, Failure> {
    let line = encode(id, command);
    if line.len() as u64 > MAX_COMMAND {
        return Err(Failure::new(Exit::Data, format!("the message is larger than {MAX_COMMAND} bytes"))
            .hint("send the part that matters"));
    }
    if !home.spool_new().is_dir() || !home.spool_tmp().is_dir() {
        home.create()?;
    }
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

/// Takes a command back that nobody heard of. If a daemon came up just now it may have it already;
/// then there is nothing to take back.
fn withdraw(home: &Home, id: &Id) {
    let _ = std::fs::remove_file(home.spool_new().join(format!("{id}.json")));
}

fn listens(home: &Home) -> Result<bool, Failure> {
    Ok(lock::holder(&home.lock())?.is_some())
}

fn no_daemon(home: &Home) -> Failure {
    let fifo = home.fifo();
    Failure::new(Exit::NoDaemon, format!("no daemon is listening on {}", fifo.display()))
        .hint("systemctl --user start agent-daemon, or: agent-daemon run")
}

fn queued(id: &Id, json: bool) -> Result<Exit, Failure> {
    if json {
        cli::json(&serde_json::json!({"v": 1, "id": id.as_str(), "status": "queued"}));
    } else {
        cli::out(id.as_str());
        cli::err("agent-send: queued: no daemon is listening; it will be handled when one starts");
    }
    Ok(Exit::TryAgain)
}

fn wait_and_print(home: &Home, id: &Id, limit: Duration, json: bool) -> Result<Exit, Failure> {
    match wait(home, id, limit)? {
        Some(reply) => print(&reply, json),
        None => {
            if json {
                cli::json(&serde_json::json!({"v": 1, "id": id.as_str(), "status": "running", "error": "timed out"}));
            } else {
                cli::out(id.as_str());
                cli::err(&format!(
                    "agent-send: no reply within {} s; ask again: agent-send --result {id} --wait",
                    limit.as_secs()
                ));
            }
            Ok(Exit::TryAgain)
        }
    }
}

/// Waits until the answer is final.
fn wait(home: &Home, id: &Id, limit: Duration) -> Result<Option<Reply>, Failure> {
    let dir = home.replies();
    let deadline = Instant::now() + limit;
    let (tell, changed) = mpsc::channel();
    let watch = |dir: &Path| -> notify::Result<notify::RecommendedWatcher> {
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Our own looking makes events too.
            if event.is_ok_and(|event| event.kind.is_create() || event.kind.is_modify()) {
                // The receiver is gone when the answer came: nothing to tell.
                let _ = tell.send(());
            }
        })?;
        watcher.watch(dir, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    };
    // Without a watcher (no inotify left) looking once a second does too.
    let watcher = watch(&dir);
    let mut answer = find(home, id)?;
    let mut told = false;
    loop {
        if let Some(reply) = answer.filter(Reply::is_final) {
            return Ok(Some(reply));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let nap = left.min(Duration::from_secs(1));
        let news = match &watcher {
            Ok(_) => changed.recv_timeout(nap).is_ok(),
            Err(_) => {
                std::thread::sleep(nap);
                false
            }
        };
        if !news && !told && !listens(home)? {
            told = true;
            cli::err(&format!("agent-send: the daemon is not running; waiting for it to come back (id {id})"));
        }
        // News may be another's; the queue is asked only when there was none for a second.
        answer = if news { replies::read(&home.replies(), id)? } else { find(home, id)? };
    }
}

/// Finds an answer in its file or, when that is not the last word, in the queue, which is the
/// record: a file may be gone, or could not be written.
fn find(home: &Home, id: &Id) -> Result<Option<Reply>, Failure> {
    let file = replies::read(&home.replies(), id)?;
    if file.as_ref().is_some_and(Reply::is_final) {
        return Ok(file);
    }
    Ok(queue::result(&home.queue_db(), id.as_str())?.or(file))
}

fn print(reply: &Reply, json: bool) -> Result<Exit, Failure> {
    if json {
        cli::json(reply);
        return Ok(if reply.status == Status::Error { Exit::Failed } else { Exit::Ok });
    }
    if let Some(error) = &reply.error {
        return Err(Failure::new(Exit::Failed, error.clone()).hint("agent-send --status shows the last trouble"));
    }
    if let Some(text) = reply.reply.as_deref().filter(|text| !text.is_empty()) {
        cli::speech(text);
    }
    Ok(Exit::Ok)
}
