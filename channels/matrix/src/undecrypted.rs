//! Messages whose keys are missing: tried again when keys arrive, and from time to time; the room is notified once.

use agent_channel::now_ms;
use matrix_sdk::Room;
use matrix_sdk::ruma::{OwnedEventId, OwnedRoomId, RoomId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::bot::Bot;
use crate::error::Error;
use crate::{lines, send};

/// The file that knows them.
const FILE: &str = "undecrypted.json";
/// The file that knows where the agent has spoken.
pub const SPOKEN: &str = "spoken.json";
/// So many are kept; of more, the oldest are given up.
const MOST: usize = 500;
/// After so long, somebody is told.
const LATE_MS: u64 = 30_000;
/// After so long it is given up.
const NEVER_MS: u64 = 14 * 86_400_000;
/// Between looks without any sign, at least; of a key that is in the backup alone there is none.
const LOOK_MS: u64 = 60_000;
/// So many are asked for at a time.
const AT_A_TIME: usize = 20;
/// What somebody is told whose message cannot be read.
const LATE: &str = "I cannot read your last message: its key has not come. I answer when it comes; otherwise please send it again.";

/// A message that cannot be read yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Waiting {
    room: OwnedRoomId,
    event: OwnedEventId,
    since_ms: u64,
    looked_ms: u64,
    is_told: bool,
}

/// Keeps an event whose key has not come.
///
/// # Errors
/// When it cannot be written down.
pub fn keep(bot: &Bot, room: &Room, event: &Value) -> Result<(), Error> {
    let Some(id) = event["event_id"].as_str().and_then(|id| id.try_into().ok()) else {
        return Ok(());
    };
    let mut all: Vec<Waiting> = bot.spool.recall(FILE)?.unwrap_or_default();
    if all.iter().any(|one| one.event == id) {
        return Ok(());
    }
    tracing::warn!(room = %room.room_id(), sender = %event["sender"], "the key of a message has not arrived");
    all.push(Waiting {
        room: room.room_id().to_owned(),
        event: id,
        since_ms: now_ms(),
        looked_ms: 0,
        is_told: false,
    });
    if all.len() > MOST {
        let spoken: Vec<OwnedRoomId> = bot.spool.recall(SPOKEN)?.unwrap_or_default();
        let first = all.iter().position(|one| !spoken.contains(&one.room));
        all.remove(first.unwrap_or_default());
    }
    Ok(bot.spool.remember(FILE, &all)?)
}

/// Looks at what waits: when keys came at what was looked at longest ago, otherwise at what was not looked at for a while.
///
/// # Errors
/// When the disk fails, or the homeserver is unreachable.
pub async fn look(bot: &Bot, keys_came: bool) -> Result<(), Error> {
    let Some(mut all) = bot
        .spool
        .recall::<Vec<Waiting>>(FILE)?
        .filter(|all| !all.is_empty())
    else {
        return Ok(());
    };
    let before = all.clone();
    let spoken: Vec<OwnedRoomId> = bot.spool.recall(SPOKEN)?.unwrap_or_default();
    let now = now_ms();
    for one in &mut all {
        // A time to come is the clock's mistake.
        one.since_ms = one.since_ms.min(now);
        one.looked_ms = if one.looked_ms > now {
            0
        } else {
            one.looked_ms
        };
    }
    all.retain(|one| now.saturating_sub(one.since_ms) <= NEVER_MS);
    // Whoever fills the list with what nobody can read holds up nobody else.
    let is_due = |one: &&Waiting| keys_came || now.saturating_sub(one.looked_ms) > LOOK_MS;
    let mut due: Vec<Waiting> = all.iter().filter(is_due).cloned().collect();
    due.sort_by_key(|one| (!spoken.contains(&one.room), one.looked_ms));
    for one in due.iter().take(AT_A_TIME) {
        let is_read = lines::late(bot, &one.room, &one.event).await?;
        all.retain(|other| !is_read || other.event != one.event);
        for other in all.iter_mut().filter(|other| other.event == one.event) {
            other.looked_ms = now;
        }
    }
    let mut told: Vec<OwnedRoomId> = all
        .iter()
        .filter(|one| one.is_told)
        .map(|one| one.room.clone())
        .collect();
    for one in &mut all {
        if !one.is_told && now.saturating_sub(one.since_ms) > LATE_MS {
            one.is_told = true;
            if !told.contains(&one.room) {
                told.push(one.room.clone());
                tell(bot, &one.room, one.event.as_str(), LATE).await?;
            }
        }
    }
    if all != before {
        bot.spool.remember(FILE, &all)?;
    }
    Ok(())
}

/// Tells a room why a message in it is not believed, where its sender can do something about it.
///
/// # Errors
/// When the disk fails.
pub async fn tell_of_doubt(bot: &Bot, room: &Room, event: &Value, why: &str) -> Result<(), Error> {
    let Some(id) = event["event_id"].as_str() else {
        return Ok(());
    };
    // Once an hour: whoever can write such messages can write many.
    if bot.is_first_this_hour(&format!("{} {why}", room.room_id())) {
        tell(
            bot,
            room.room_id(),
            id,
            &format!("I do not take this message in: {why}."),
        )
        .await?;
    }
    Ok(())
}

/// Returns whether the agent has spoken in a room.
///
/// # Errors
/// When the disk fails.
pub fn has_spoken(bot: &Bot, room: &RoomId) -> Result<bool, Error> {
    let spoken: Vec<OwnedRoomId> = bot.spool.recall(SPOKEN)?.unwrap_or_default();
    Ok(spoken.iter().any(|one| one == room))
}

/// Answers an event by a notice; only where the agent has spoken, so that a stranger learns nothing.
async fn tell(bot: &Bot, room: &RoomId, event: &str, words: &str) -> Result<(), Error> {
    let Some(room) = bot.client.get_room(room) else {
        return Ok(());
    };
    if !has_spoken(bot, room.room_id())? {
        return Ok(());
    }
    let content = json!({"msgtype": "m.notice", "body": words, "m.mentions": {},
        "m.relates_to": {"m.in_reply_to": {"event_id": event}}});
    let txn = send::transaction(&format!("told-{event}"));
    let sent = room
        .send_raw("m.room.message", content)
        .with_transaction_id(&txn)
        .await;
    if let Err(error) = sent.map_err(Error::of("a notice")) {
        tracing::warn!(%error, "the room could not be notified");
    }
    Ok(())
}
