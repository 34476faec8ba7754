//! What a tool sends now, beside the answer: a command in the spool, like `agent-send --raw`, so that the
//! promise to deliver is the outbox's and survives a crash. What the model is told is what the daemon
//! answered.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::config::Home;
use crate::control;
use crate::control::replies;
use crate::control::replies::{Reply, Status};
use crate::control::{Command, Id, attachments, spool};
use crate::queue;
use crate::queue::Fate;
use crate::sys::fifo;

/// How long the daemon's answer is waited for; it comes in milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long its arrival is waited for: a person's chat answers in less than a second.
const ARRIVAL: Duration = Duration::from_secs(5);

/// Waits for what was posted to arrive and returns the ids under which it did.
async fn arrived(home: &Home, id: &Id) -> Result<String, String> {
    let until = Instant::now() + ARRIVAL;
    loop {
        let (path, own) = (home.queue_db(), id.to_string());
        let fates = super::blocking_work(move || {
            queue::fates(&path, &own).map_err(|error| error.to_string())
        })
        .await?;
        let lost = fates.iter().find_map(|fate| match fate {
            Fate::Dead(reason) => Some(reason),
            Fate::OnItsWay | Fate::Sent(_) => None,
        });
        if let Some(reason) = lost {
            return Err(format!("not delivered: {reason}"));
        }
        let sent: Option<Vec<&str>> = fates
            .iter()
            .map(|fate| {
                if let Fate::Sent(id) = fate {
                    Some(id.as_str())
                } else {
                    None
                }
            })
            .collect();
        if let Some(ids) = sent {
            let ids: Vec<&str> = ids.into_iter().filter(|id| !id.is_empty()).collect();
            return Ok(if ids.is_empty() {
                "delivered".to_owned()
            } else {
                format!("delivered as message {}", ids.join(", "))
            });
        }
        if Instant::now() >= until {
            return Ok(format!("accepted; it is on its way (id {id})"));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Leaves a command with `files` for the daemon and returns what became of it, for the model.
pub(super) async fn post(
    home: &Home,
    command: Command,
    files: Vec<PathBuf>,
) -> Result<String, String> {
    let id = Id::new();
    match answer(home, &id, command, files).await? {
        Some(Reply {
            status: Status::Done,
            ..
        }) => arrived(home, &id).await,
        Some(reply) => Err(format!("not sent: {}", reply.error.unwrap_or_default())),
        None => Ok(format!(
            "left for delivery (id {id}); nothing is known of it yet"
        )),
    }
}

/// Leaves an order for the daemon and returns what it answered, for the model.
pub(super) async fn order(home: &Home, command: Command) -> Result<String, String> {
    let id = Id::new();
    match answer(home, &id, command, Vec::new()).await? {
        Some(Reply {
            status: Status::Done,
            reply,
            ..
        }) => Ok(reply.unwrap_or_default()),
        Some(reply) => Err(format!("not done: {}", reply.error.unwrap_or_default())),
        None => Ok(format!("ordered (id {id}); nothing is known of it yet")),
    }
}

/// Leaves a command for the daemon and returns its last word; `None` when that takes too long.
async fn answer(
    home: &Home,
    id: &Id,
    mut command: Command,
    files: Vec<PathBuf>,
) -> Result<Option<Reply>, String> {
    let (own, place) = (id.clone(), home.clone());
    super::blocking_work(move || {
        if let Some(attachments) = command.attachments_mut() {
            let left = attachments::leave(&place.spool_tmp(), &place.spool_new(), &own, &files);
            *attachments = left.map_err(|error| error.to_string())?;
        }
        let (line, bell) = (
            control::encode(&own, &command),
            control::encode(&own, &Command::Spool { id: own.clone() }),
        );
        spool::put(&place.spool_tmp(), &place.spool_new(), &own, &line)
            .map_err(|error| error.to_string())?;
        // The spool is looked at now and then anyway.
        let _ = fifo::ring(&place.fifo(), &bell);
        Ok(())
    })
    .await?;
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(reply) = replies::read(&home.replies(), id)
            .ok()
            .flatten()
            .filter(Reply::is_final)
        {
            return Ok(Some(reply));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(None)
}
