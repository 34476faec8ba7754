//! Sends a message in addition to the answer: by a command in the spool, like `agent-send --raw`, so that the outbox delivers
//! it, also after a crash. The model receives the daemon's reply.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::config::Home;
use crate::control;
use crate::control::replies;
use crate::control::replies::{Reply, Status};
use crate::control::{Command, Id, attachments, spool};
use crate::queue;
use crate::queue::Fate;
use crate::sys::{blocking, fifo};

/// How long to wait for the daemon's reply, which comes in milliseconds, and how often to look.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
const REPLY_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How long to wait for the delivery, which takes less than a second, and how often to look.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(5);
const DELIVERY_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Leaves a command with `files` for the daemon, waits for the delivery and returns its result for the model.
pub(super) async fn post(
    home: &Home,
    command: Command,
    files: Vec<PathBuf>,
) -> Result<String, String> {
    let id = Id::new();
    match reply(home, &id, command, files).await? {
        Some(reply) if reply.status == Status::Done => delivered(home, &id).await,
        Some(reply) => Err(format!("not sent: {}", reply.error.unwrap_or_default())),
        None => Ok(format!(
            "left for delivery (id {id}); nothing is known of it yet"
        )),
    }
}

/// Leaves a command for the daemon and returns its reply for the model.
pub(super) async fn order(home: &Home, command: Command) -> Result<String, String> {
    let id = Id::new();
    match reply(home, &id, command, Vec::new()).await? {
        Some(reply) if reply.status == Status::Done => Ok(reply.reply.unwrap_or_default()),
        Some(reply) => Err(format!("not done: {}", reply.error.unwrap_or_default())),
        None => Ok(format!("ordered (id {id}); nothing is known of it yet")),
    }
}

/// Waits for the parts of what was posted and returns the ids under which they arrived.
async fn delivered(home: &Home, id: &Id) -> Result<String, String> {
    let until = Instant::now() + DELIVERY_TIMEOUT;
    loop {
        let (path, own) = (home.queue_db(), id.to_string());
        let fates = blocking(move || queue::fates(&path, &own)).await;
        let mut ids = Vec::new();
        let mut is_complete = true;
        for fate in fates.map_err(|error| error.to_string())? {
            match fate {
                Fate::Dead(reason) => return Err(format!("not delivered: {reason}")),
                Fate::OnItsWay => is_complete = false,
                Fate::Sent(id) => ids.push(id),
            }
        }
        if is_complete {
            ids.retain(|id| !id.is_empty());
            return Ok(match ids.is_empty() {
                true => "delivered".to_owned(),
                false => format!("delivered as message {}", ids.join(", ")),
            });
        }
        if Instant::now() >= until {
            return Ok(format!("accepted; it is on its way (id {id})"));
        }
        tokio::time::sleep(DELIVERY_POLL_INTERVAL).await;
    }
}

/// Leaves a command for the daemon and returns its last reply; `None` when that takes too long.
async fn reply(
    home: &Home,
    id: &Id,
    mut command: Command,
    files: Vec<PathBuf>,
) -> Result<Option<Reply>, String> {
    let (own, spooled) = (id.clone(), home.clone());
    let spool = move || {
        let (tmp, new) = (spooled.spool_tmp(), spooled.spool_new());
        if let Some(attachments) = command.attachments_mut() {
            *attachments =
                attachments::leave(&tmp, &new, &own, &files).map_err(|error| error.to_string())?;
        }
        let line = control::encode(&own, &command);
        spool::put(&tmp, &new, &own, &line).map_err(|error| error.to_string())?;
        // The daemon looks at the spool now and then anyway.
        let doorbell = control::encode(&own, &Command::Spool { id: own.clone() });
        let _ = fifo::ring(&spooled.fifo(), &doorbell);
        Ok::<(), String>(())
    };
    blocking(spool).await?;
    let until = Instant::now() + REPLY_TIMEOUT;
    while Instant::now() < until {
        let (dir, id) = (home.replies(), id.clone());
        let read = blocking(move || replies::read(&dir, &id)).await;
        if let Some(reply) = read.ok().flatten().filter(Reply::is_final) {
            return Ok(Some(reply));
        }
        tokio::time::sleep(REPLY_POLL_INTERVAL).await;
    }
    Ok(None)
}
