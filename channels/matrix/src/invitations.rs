//! Invitations: a direct room is entered whoever asks, since the daemon has a stranger told a code and nothing else; a room
//! of several only when the settings name who asks. And rooms that moved.

use agent_channel::now_ms;
use matrix_sdk::Room;
use matrix_sdk::deserialized_responses::RawAnySyncOrStrippedState;
use matrix_sdk::ruma::events::StateEventType;
use matrix_sdk::ruma::{OwnedRoomId, OwnedUserId, RoomId, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bot::Bot;
use crate::error::Error;
use crate::receive;

/// The file that knows which were answered.
const FILE: &str = "invitations.json";
/// So many direct rooms of people whom the settings do not name are entered in an hour.
const STRANGERS_AN_HOUR: usize = 20;
/// So often a room that cannot be entered is tried.
const TRIES: u32 = 5;
/// So many are remembered.
const MOST: usize = 1_000;

/// What became of an invitation.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Answered {
    room: OwnedRoomId,
    at_ms: u64,
    tries: u32,
    is_stranger: bool,
    is_left: bool,
}

/// Who invites, and to what.
struct Invitation {
    inviter: OwnedUserId,
    is_direct: bool,
}

/// Answers the invitations that are open.
///
/// # Errors
/// When the disk fails, or the homeserver is away.
pub async fn answer(bot: &Bot) -> Result<(), Error> {
    let open = bot.client.invited_rooms();
    if open.is_empty() {
        return Ok(());
    }
    let mut known: Vec<Answered> = bot.spool.recall(FILE)?.unwrap_or_default();
    let before = known.len();
    let mut has_changed = false;
    for room in open {
        has_changed |= one(bot, &room, &mut known).await?;
    }
    if has_changed || known.len() != before {
        let excess = known.len().saturating_sub(MOST);
        known.drain(..excess);
        bot.spool.remember(FILE, &known)?;
    }
    Ok(())
}

async fn one(bot: &Bot, room: &Room, known: &mut Vec<Answered>) -> Result<bool, Error> {
    let id = room.room_id();
    let now = now_ms();
    let at = known.iter().position(|one| one.room == id);
    if let Some(one) = at.and_then(|at| known.get(at)) {
        // Each try waits longer.
        let pause = 10_000_u64 << one.tries.min(10);
        if one.is_left || one.tries >= TRIES || now.saturating_sub(one.at_ms) < pause {
            return Ok(false);
        }
    }
    let Some(invitation) = invitation(room).await else {
        return Ok(false);
    };
    let is_named = bot.settings.follows(&invitation.inviter);
    let an_hour_ago = now.saturating_sub(3_600_000);
    let strangers = known
        .iter()
        .filter(|one| one.is_stranger && !one.is_left && one.at_ms > an_hour_ago)
        .count();
    let tries = at.and_then(|at| known.get(at)).map_or(0, |one| one.tries);
    if let Some(at) = at {
        known.remove(at);
    }
    let mut answered = Answered {
        room: id.to_owned(),
        at_ms: now,
        tries: tries + 1,
        is_stranger: !is_named,
        is_left: false,
    };
    let inviter = &invitation.inviter;
    if !is_named && !invitation.is_direct {
        tracing::warn!(room = %id, %inviter, "an invitation into a room of several is left alone: invite_from does not name who sent it");
        answered.is_left = true;
    } else if !is_named && strangers >= STRANGERS_AN_HOUR {
        tracing::warn!(room = %id, %inviter, "an invitation waits: {STRANGERS_AN_HOUR} of strangers were followed within an hour");
        answered.tries = tries;
        answered.is_stranger = false;
    } else {
        match bot
            .client
            .join_room_by_id(id)
            .await
            .map_err(Error::of("entering a room"))
        {
            Ok(_) => tracing::info!(room = %id, %inviter, "an invitation was followed"),
            // Whatever it is, messages of others go on.
            Err(Error::Refused(why) | Error::Server(why) | Error::Limited(why, _)) => {
                tracing::warn!(room = %id, %inviter, why, "a room could not be entered");
            }
            Err(error) => return Err(error),
        }
    }
    known.push(answered);
    Ok(true)
}

/// Returns who invited the agent into a room, and whether it is a direct one: they say so, and nobody else is in it.
async fn invitation(room: &Room) -> Option<Invitation> {
    let me = room.own_user_id();
    let state = room
        .get_state_event(StateEventType::RoomMember, me.as_str())
        .await
        .ok()??;
    let json: Value = match &state {
        RawAnySyncOrStrippedState::Sync(raw) => serde_json::from_str(raw.json().get()).ok()?,
        RawAnySyncOrStrippedState::Stripped(raw) => serde_json::from_str(raw.json().get()).ok()?,
    };
    let inviter = UserId::parse(json["sender"].as_str()?).ok()?;
    Some(Invitation {
        inviter,
        is_direct: json["content"]["is_direct"] == true && room.active_members_count() <= 2,
    })
}

/// Follows a room that has moved; the new one must say that it comes from the old one.
///
/// # Errors
/// When the homeserver is away.
pub async fn follow(bot: &Bot, room: &Room, tombstone: &Value) -> Result<(), Error> {
    let Some(new) = tombstone["content"]["replacement_room"]
        .as_str()
        .and_then(|id| RoomId::parse(id).ok())
    else {
        return Ok(());
    };
    if bot
        .client
        .get_room(&new)
        .is_some_and(|room| receive::is_in(&room))
    {
        return Ok(());
    }
    let via = tombstone["sender"]
        .as_str()
        .and_then(|id| UserId::parse(id).ok());
    let servers: Vec<_> = via.iter().map(|id| id.server_name().to_owned()).collect();
    let joined = bot
        .client
        .join_room_by_id_or_alias((&*new).into(), &servers)
        .await;
    match joined.map_err(Error::of("entering the room that follows")) {
        Ok(_) => {
            tracing::warn!(old = %room.room_id(), new = %new, "a room has moved: where agent.toml names the old one, name the new one");
            Ok(())
        }
        Err(Error::Refused(why)) => {
            tracing::warn!(old = %room.room_id(), new = %new, why, "a room has moved, and the new one cannot be entered");
            Ok(())
        }
        Err(error) => Err(error),
    }
}
