//! Invitations: a direct room is joined whoever invites, since a stranger gets only a code from the daemon; a group room only
//! when the settings name the inviting user, or when a room of the agent was upgraded to it.

use std::collections::{BTreeMap, BTreeSet};

use agent_channel::now_ms;
use matrix_sdk::Room;
use matrix_sdk::deserialized_responses::RawAnySyncOrStrippedState;
use matrix_sdk::ruma::events::StateEventType;
use matrix_sdk::ruma::{OwnedRoomId, OwnedUserId, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bot::Bot;
use crate::error::Error;
use crate::moves;

/// The file that knows which were answered.
const FILE: &str = "invitations.json";
/// So many direct rooms of people whom the settings do not name are entered in an hour,
const STRANGERS_AN_HOUR: usize = 20;
/// and so many of one of them: who sends a thousand does not shut the door for others.
const OF_ONE_AN_HOUR: usize = 3;
/// So often a day a room is tried whose server says no.
const TRIES: u32 = 5;
/// So many are remembered beside those that are open.
const MOST: usize = 1_000;

/// What became of an invitation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Answered {
    room: OwnedRoomId,
    at_ms: u64,
    tries: u32,
    is_stranger: bool,
    is_left: bool,
    #[serde(default)]
    inviter: Option<OwnedUserId>,
}

/// Who invites, and to what.
struct Invitation {
    inviter: OwnedUserId,
    is_direct: bool,
}

/// Answers the invitations that are open; `renewed` are those that came or changed now.
///
/// # Errors
/// When the disk fails, or the homeserver is unreachable.
pub async fn answer(bot: &Bot, renewed: &BTreeSet<OwnedRoomId>) -> Result<(), Error> {
    let open = bot.client.invited_rooms();
    if open.is_empty() {
        return Ok(());
    }
    let read: Vec<Answered> = bot.spool.recall(FILE)?.unwrap_or_default();
    let mut known: BTreeMap<OwnedRoomId, Answered> = read
        .into_iter()
        .map(|one| (one.room.clone(), one))
        .collect();
    let before = known.clone();
    for room in &open {
        let is_new = renewed.contains(room.room_id());
        if is_due(known.get(room.room_id()), is_new, now_ms()) {
            one(bot, room, &mut known).await?;
        }
    }
    if known != before {
        let open: BTreeSet<_> = open.iter().map(|room| room.room_id().to_owned()).collect();
        let mut kept: Vec<Answered> = known.into_values().collect();
        kept.sort_by_key(|one| (open.contains(&one.room), one.at_ms));
        let excess = kept.len().saturating_sub(MOST + open.len());
        kept.drain(..excess);
        bot.spool.remember(FILE, &kept)?;
    }
    Ok(())
}

/// Returns whether an invitation is looked at, of which `known` was written down. A time to come is the clock's mistake.
fn is_due(known: Option<&Answered>, is_new: bool, now: u64) -> bool {
    let Some(known) = known else {
        return true;
    };
    // The settings may have changed since: whoever starts the program, or invites again, has it looked at again.
    if known.is_left {
        return is_new;
    }
    // Each try waits longer.
    let pause = 10_000_u64 << known.tries.min(10);
    let is_over = |pause: u64| now < known.at_ms || now - known.at_ms >= pause;
    is_over(86_400_000) || (known.tries < TRIES && is_over(pause))
}

async fn one(
    bot: &Bot,
    room: &Room,
    known: &mut BTreeMap<OwnedRoomId, Answered>,
) -> Result<(), Error> {
    let (id, now) = (room.room_id(), now_ms());
    let Some(invitation) = invitation(room).await else {
        return Ok(());
    };
    let inviter = &invitation.inviter;
    let is_named = bot.settings.follows(inviter);
    let moved_from = moves::from(bot, id);
    let before = known.get(id);
    let tries = before
        .filter(|one| now.abs_diff(one.at_ms) < 86_400_000)
        .map_or(0, |one| one.tries);
    let mut answered = Answered {
        room: id.to_owned(),
        at_ms: now,
        tries,
        is_stranger: !is_named,
        is_left: false,
        inviter: Some(inviter.clone()),
    };
    if !is_named && !invitation.is_direct && moved_from.is_none() {
        if before.is_none_or(|one| !one.is_left) {
            tracing::warn!(room = %id, %inviter, "an invitation to a group room was ignored: invite_from does not name its sender");
        }
        answered.is_left = true;
    } else if !is_named && is_flooded(known, inviter, now) {
        // A thousand of them are not a thousand lines, nor looked at every few seconds.
        if bot.is_first_this_hour("an invitation waits") {
            tracing::warn!(room = %id, %inviter, "an invitation waits: {STRANGERS_AN_HOUR} of strangers, or {OF_ONE_AN_HOUR} of this user, were accepted within an hour");
        }
        answered.tries = TRIES - 1;
        answered.is_stranger = false;
    } else {
        let entered = match &moved_from {
            Some(old) => moves::enter(bot, old, id, inviter).await,
            None => {
                let joined = bot.client.join_room_by_id(id).await;
                joined.map(|_| ()).map_err(Error::of("entering a room"))
            }
        };
        match entered {
            Ok(()) => {
                tracing::info!(room = %id, %inviter, "an invitation was accepted");
                answered.tries = 0;
            }
            // Whatever it is, messages of others go on. A server that is away says nothing of the room.
            Err(Error::Server(why) | Error::Away(why) | Error::Limited(why, _)) => {
                tracing::warn!(room = %id, %inviter, why, "a room could not be joined");
            }
            Err(Error::Refused(why)) => {
                tracing::warn!(room = %id, %inviter, why, "a room could not be joined");
                answered.tries += 1;
            }
            Err(error) => return Err(error),
        }
    }
    known.insert(id.to_owned(), answered);
    Ok(())
}

/// Returns whether enough invitations of people whom the settings do not name were followed within an hour.
fn is_flooded(known: &BTreeMap<OwnedRoomId, Answered>, inviter: &OwnedUserId, now: u64) -> bool {
    let is_recent =
        |one: &&Answered| one.is_stranger && !one.is_left && now.abs_diff(one.at_ms) < 3_600_000;
    let recent: Vec<&Answered> = known.values().filter(is_recent).collect();
    let of_one = recent
        .iter()
        .filter(|one| one.inviter.as_ref() == Some(inviter));
    recent.len() >= STRANGERS_AN_HOUR || of_one.count() >= OF_ONE_AN_HOUR
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

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(number: usize, inviter: &str, at_ms: u64) -> (OwnedRoomId, Answered) {
        let room: OwnedRoomId = format!("!r{number}:a.org").try_into().expect("an id");
        let one = Answered {
            room: room.clone(),
            at_ms,
            tries: 0,
            is_stranger: true,
            is_left: false,
            inviter: Some(inviter.try_into().expect("an id")),
        };
        (room, one)
    }

    #[test]
    fn who_sends_a_thousand_invitations_does_not_shut_the_door_for_others() {
        let now = 1_800_000_000_000;
        let mut known: BTreeMap<_, _> = (0..3).map(|n| answered(n, "@eve:a.org", now)).collect();
        let is_flooded = |known: &BTreeMap<_, _>, who: &str, now| {
            super::is_flooded(known, &who.try_into().expect("an id"), now)
        };
        assert!(is_flooded(&known, "@eve:a.org", now + 3_500_000));
        assert!(
            !is_flooded(&known, "@ada:a.org", now)
                && !is_flooded(&known, "@eve:a.org", now + 3_600_000)
        );
        known.extend((3..20).map(|n| answered(n, &format!("@bot{n}:a.org"), now)));
        assert!(is_flooded(&known, "@ada:a.org", now));
    }

    #[test]
    fn an_invitation_is_looked_at_again_when_the_settings_changed_and_whatever_the_clock_said() {
        let now = 1_800_000_000_000;
        let (_, mut one) = answered(1, "@ada:a.org", now);
        assert!(is_due(None, false, now) && !is_due(Some(&one), false, now + 9_000));
        assert!(is_due(Some(&one), false, now + 10_000));
        // The clock was wrong by years when it was written down.
        assert!(is_due(Some(&one), false, now - 300_000_000_000));
        one.tries = TRIES;
        assert!(
            !is_due(Some(&one), true, now + 80_000_000)
                && is_due(Some(&one), false, now + 86_400_000)
        );
        one.is_left = true;
        assert!(is_due(Some(&one), true, now) && !is_due(Some(&one), false, now + 86_400_000));
    }
}
