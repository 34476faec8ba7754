//! Sends messages of the agent: claimed when the homeserver answers, acknowledged when it has accepted them. Each event has a
//! transaction id derived from the key of its message, so the homeserver accepts a repeated event only once.

use std::time::Duration;

use agent_channel::{Message, OutFile, Outcome};
use matrix_sdk::Room;
use matrix_sdk::ruma::{OwnedRoomId, OwnedTransactionId};
use serde_json::{Value, json};

use crate::bot::Bot;
use crate::error::Error;
use crate::undecrypted::SPOKEN;
use crate::{outgoing, previews, receive, rooms};

/// Between looks where the kernel does not say that something came.
const LOOK: Duration = Duration::from_secs(30);
/// What one message may take, with its files; the daemon waits ten minutes.
const PATIENCE: Duration = Duration::from_secs(540);
/// After a line that broke.
const SOON: u64 = 5;
/// After trouble with the disk.
const LATER: u64 = 60;
/// While a room moves: whoever moves it invites the agent, and that may take them a minute.
const MOVING: Duration = Duration::from_secs(30);
/// The largest file, bytes: what homeservers commonly take.
const MAX_FILE: u64 = 50_000_000;
/// So many rooms are known as ones where the agent has spoken.
const MOST_SPOKEN: usize = 1_000;

/// Sends for ever what appears in `out/`.
///
/// # Errors
/// When the disk fails, so that nothing can be acknowledged, or the session has ended.
pub async fn run(bot: &Bot) -> Result<(), Error> {
    let mut again = left_behind(bot)?;
    while !bot.is_ending.get() {
        let next = if bot.is_reachable() {
            again
                .pop()
                .or_else(|| bot.spool.offered().into_iter().next())
        } else {
            None
        };
        let Some(key) = next else {
            tokio::select! {
                () = bot.changed.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
            continue;
        };
        bot.is_sending.set(true);
        one(bot, &key).await?;
        bot.is_sending.set(false);
    }
    Ok(())
}

/// Returns what an earlier process claimed, and said nothing of, the oldest last. It is sent again under the same
/// transactions, unless another device did it: its transactions are its own.
fn left_behind(bot: &Bot) -> Result<Vec<String>, Error> {
    let mut keys = bot.spool.left_behind();
    keys.reverse();
    let device = bot.client.device_id().map(ToString::to_string);
    if receive::device(&bot.spool)? == device {
        return Ok(keys);
    }
    for key in keys {
        let why = "the process ended while it was sending, and another device is signed in now";
        bot.spool.tell(&key, &Outcome::Unknown(why.to_owned()))?;
    }
    Ok(Vec::new())
}

async fn one(bot: &Bot, key: &str) -> Result<(), Error> {
    let claimed = match bot.spool.claim(key) {
        Ok(None) => bot.spool.claimed(key),
        claimed => claimed,
    };
    let message = match claimed {
        Ok(Some(message)) => message,
        Ok(None) => return Ok(()),
        Err(agent_channel::Error::NotUnderstood(_, why)) => {
            return Ok(bot.spool.tell_surely(key, &Outcome::Never(why)).await?);
        }
        Err(error) => return Err(error.into()),
    };
    let delivered = tokio::time::timeout(PATIENCE, Box::pin(deliver(bot, &message))).await;
    let delivered = delivered
        .unwrap_or_else(|_| Err(Error::Server("the homeserver does not answer".to_owned())));
    let mut ended = None;
    let outcome = match delivered {
        Ok(id) => Outcome::Taken(id),
        Err(Error::Server(why) | Error::Away(why)) => {
            bot.set_reachable(false);
            Outcome::Again(why, SOON)
        }
        Err(Error::Limited(why, pause)) => Outcome::Again(
            why,
            pause
                .as_millis()
                .div_ceil(1_000)
                .max(1)
                .try_into()
                .unwrap_or(SOON),
        ),
        Err(Error::Refused(why)) => Outcome::Never(why),
        Err(error) => {
            let outcome = Outcome::Again(error.to_string(), LATER);
            if matches!(error, Error::SignedOut(_)) {
                ended = Some(error);
            }
            outcome
        }
    };
    tracing::info!(key, ?outcome, "attempt to send a message");
    bot.spool.tell_surely(key, &outcome).await?;
    ended.map_or(Ok(()), Err)
}

/// Sends a message, and returns the id of its first event.
async fn deliver(bot: &Bot, message: &Message) -> Result<String, Error> {
    let room = rooms::find_or_make(&bot.client, &message.chat).await?;
    if rooms::has_moved(&room) {
        let why = "the room has moved, and the agent is not in the new one".to_owned();
        return Err(if bot.gives_up(&message.key) {
            Error::Refused(why)
        } else {
            Error::Limited(why, MOVING)
        });
    }
    if let Some(content) = outgoing::reaction(message) {
        return send(&room, "m.reaction", content, &message.key).await;
    }
    let preview = previews::take(bot, &room, message).await?;
    let edit = preview.as_ref().map(|event| Message {
        edit_of: Some(event.to_string()),
        ..message.clone()
    });
    let mut first = None;
    if let Some(content) = outgoing::words(edit.as_ref().unwrap_or(message)) {
        let id = send(&room, "m.room.message", content, &message.key).await?;
        // Later edits are of the first event, not of an edit.
        first = Some(preview.map_or(id, String::from));
    }
    for (number, file) in message.files.iter().enumerate() {
        let content = upload(bot, &room, message, file).await?;
        let id = send(
            &room,
            "m.room.message",
            content,
            &format!("{}.{number}", message.key),
        )
        .await?;
        first.get_or_insert(id);
    }
    let id = first.ok_or_else(|| Error::Refused("it says nothing".to_owned()))?;
    spoken(bot, &room)?;
    // Whoever sees the answer need not be told that it is being written.
    if let Err(error) = room.typing_notice(false).await {
        tracing::debug!(%error, "typing");
    }
    Ok(id)
}

/// Sends an event, and returns its id.
///
/// # Errors
/// When the homeserver does not take it.
pub async fn send(room: &Room, kind: &str, content: Value, key: &str) -> Result<String, Error> {
    let sent = room
        .send_raw(kind, content)
        .with_transaction_id(&transaction(key))
        .await;
    let sent = sent.map_err(Error::of("sending"))?;
    Ok(sent.response.event_id.to_string())
}

/// Returns the transaction id that belongs to a key: always the same, so that the homeserver knows what it has.
pub fn transaction(key: &str) -> OwnedTransactionId {
    OwnedTransactionId::from(format!("agent-{key}"))
}

/// Brings a file to the homeserver, encrypted where the room is, and returns the content of its event.
async fn upload(bot: &Bot, room: &Room, message: &Message, file: &OutFile) -> Result<Value, Error> {
    let cannot = |error: std::io::Error| {
        Error::Refused(format!("cannot read {}: {error}", file.path.display()))
    };
    let size = std::fs::metadata(&file.path).map_err(cannot)?.len();
    if size > MAX_FILE {
        return Err(Error::Refused(format!(
            "{} is larger than {} MB",
            file.filename,
            MAX_FILE / 1_000_000
        )));
    }
    let bytes = tokio::fs::read(&file.path).await.map_err(cannot)?;
    let length = bytes.len();
    let is_encrypted = room.latest_encryption_state().await;
    let source = if is_encrypted
        .map_err(Error::of("whether a room is encrypted"))?
        .is_encrypted()
    {
        let mut bytes = std::io::Cursor::new(bytes);
        let sealed = bot.client.upload_encrypted_file(&mut bytes).await;
        json!({"file": sealed.map_err(Error::of("a file"))?})
    } else {
        let kind = outgoing::kind(&file.filename)
            .parse()
            .map_err(|_| Error::Refused("a file without a type".to_owned()))?;
        let uploaded = bot.client.media().upload(&kind, bytes, None).await;
        json!({"url": uploaded.map_err(Error::of("a file"))?.content_uri})
    };
    Ok(outgoing::file(message, &file.filename, length, &source))
}

/// Remembers that the agent has spoken in a room.
fn spoken(bot: &Bot, room: &Room) -> Result<(), Error> {
    let mut all: Vec<OwnedRoomId> = bot.spool.recall(SPOKEN)?.unwrap_or_default();
    if all.iter().any(|one| one == room.room_id()) {
        return Ok(());
    }
    all.push(room.room_id().to_owned());
    let excess = all.len().saturating_sub(MOST_SPOKEN);
    all.drain(..excess);
    Ok(bot.spool.remember(SPOKEN, &all)?)
}
