//! Room upgrades: the new room is joined when both rooms confirm it, and when the settings permit its readers.

use matrix_sdk::Room;
use matrix_sdk::ruma::api::client::membership::leave_room;
use matrix_sdk::ruma::api::client::state::get_state_event_for_key;
use matrix_sdk::ruma::events::StateEventType;
use matrix_sdk::ruma::{OwnedUserId, RoomId, UserId};
use serde_json::{Value, json};

use crate::bot::Bot;
use crate::error::Error;
use crate::rooms::{self, Kind};
use crate::{receive, send, undecrypted};

/// Follows a room that has moved, as its tombstone says, which nobody can write but who may move it.
///
/// # Errors
/// When the disk fails, or the homeserver is unreachable.
pub async fn follow(bot: &Bot, room: &Room, tombstone: &Value) -> Result<(), Error> {
    let id = |value: &Value| value.as_str().and_then(|id| RoomId::parse(id).ok());
    let sender = tombstone["sender"]
        .as_str()
        .and_then(|id| UserId::parse(id).ok());
    let (Some(new), Some(mover)) = (id(&tombstone["content"]["replacement_room"]), sender) else {
        return Ok(());
    };
    let known = bot.client.get_room(&new);
    if known.is_some_and(|room| receive::is_in(&room)) {
        return Ok(());
    }
    match enter(bot, room, &new, &mover).await {
        Err(Error::Refused(why)) => {
            tracing::warn!(old = %room.room_id(), new = %new, why, "a room was upgraded; the agent cannot join the new one until somebody invites it");
            Ok(())
        }
        done => done,
    }
}

/// Returns the room that moved to `new`, of those that the agent is in.
pub fn from(bot: &Bot, new: &RoomId) -> Option<Room> {
    let is_it = |room: &Room| {
        room.successor_room()
            .is_some_and(|next| next.room_id == new)
    };
    bot.client.joined_rooms().into_iter().find(is_it)
}

/// Enters the room `new` that `old` moved to, and leaves it again when it is another one than `old` was.
///
/// # Errors
/// When the homeserver says no, or is away.
pub async fn enter(bot: &Bot, old: &Room, new: &RoomId, mover: &OwnedUserId) -> Result<(), Error> {
    let servers = [mover.server_name().to_owned()];
    let entered = bot
        .client
        .join_room_by_id_or_alias(new.into(), &servers)
        .await
        .map_err(Error::of("entering the room that follows"))?;
    let before = rooms::kind(old).await?;
    let after = rooms::kind(&entered).await?;
    let why = if !is_from(bot, new, old.room_id()).await? {
        "it does not confirm that it replaces the old one"
    } else if before != after && matches!(before, Kind::Direct(_)) && !bot.settings.follows(mover) {
        "it has other readers, and invite_from does not name the user who upgraded it"
    } else {
        tracing::warn!(old = %old.room_id(), %new, "a room was upgraded: where agent.toml names the old one, name the new one");
        return match after {
            Kind::Direct(_) => Ok(()),
            Kind::Group(_) => tell(bot, old, &entered).await,
        };
    };
    tracing::warn!(old = %old.room_id(), %new, %mover, why, "a room was upgraded, and the agent leaves the new one");
    // The library's own way leaves all rooms that this one says to come from.
    let left = bot
        .client
        .send(leave_room::v3::Request::new(new.to_owned()))
        .await;
    left.map(|_| ())
        .map_err(|error| Error::http("leaving a room", &error))
}

/// Returns whether the room `new` says that it comes from `old`. What the library knows of it comes later.
async fn is_from(bot: &Bot, new: &RoomId, old: &RoomId) -> Result<bool, Error> {
    let asked = get_state_event_for_key::v3::Request::new(
        new.to_owned(),
        StateEventType::RoomCreate,
        String::new(),
    );
    let answer = bot.client.send(asked).await;
    let answer = answer.map_err(|error| Error::http("where a room comes from", &error))?;
    let content: Value = serde_json::from_str(answer.into_content().json().get())
        .map_err(|error| Error::Refused(format!("where a room comes from: {error}")))?;
    Ok(content["predecessor"]["room_id"] == old.as_str())
}

/// Tells a group that the agent hears it under its new id only when the settings name it.
async fn tell(bot: &Bot, old: &Room, new: &Room) -> Result<(), Error> {
    if !undecrypted::has_spoken(bot, old.room_id())? {
        return Ok(());
    }
    let words = format!(
        "I have followed the room here. I hear it when agent.toml names it: [channels.{}.groups.\"{}\"]",
        bot.spool.channel(),
        new.room_id()
    );
    let content = json!({"msgtype": "m.notice", "body": words, "m.mentions": {}});
    let sent = new
        .send_raw("m.room.message", content)
        .with_transaction_id(&send::transaction(&format!("moved-{}", new.room_id())))
        .await;
    if let Err(error) = sent.map_err(Error::of("a notice")) {
        tracing::warn!(%error, "the room could not be notified");
    }
    Ok(())
}
