//! Rooms: the readers of a room, and the direct room with a person.

use matrix_sdk::ruma::events::room::history_visibility::HistoryVisibility;
use matrix_sdk::ruma::{OwnedUserId, RoomId, UserId};
use matrix_sdk::{Client, Room, RoomMemberships, RoomState};

use crate::error::Error;
use crate::incoming::Me;

/// So often a room is followed that has moved.
const MOST_MOVES: usize = 10;

/// Who reads along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// One person and the agent.
    Direct(OwnedUserId),
    /// Others, too; its name.
    Group(String),
}

/// Returns who reads along in a room: whoever is in it, or invited, and in a room that the world may read, the world.
///
/// # Errors
/// When the server does not say who is in it.
pub async fn kind(room: &Room) -> Result<Kind, Error> {
    let is_open = room.history_visibility_or_default() == HistoryVisibility::WorldReadable;
    // The sum is the server's; the names are looked at, because who counts two must know both.
    if !is_open && room.active_members_count() <= 2 {
        let members = room.members(RoomMemberships::ACTIVE).await;
        let members = members.map_err(Error::of("the members of a room"))?;
        let mut others = members
            .iter()
            .filter(|member| member.user_id() != room.own_user_id());
        if let (Some(other), None) = (others.next(), others.next()) {
            return Ok(Kind::Direct(other.user_id().to_owned()));
        }
    }
    let name = room.display_name().await.ok().map(|name| name.to_string());
    Ok(Kind::Group(
        name.unwrap_or_else(|| room.room_id().to_string()),
    ))
}

/// Returns who the agent is in a room.
pub async fn me(room: &Room) -> Me {
    let id = room.own_user_id();
    Me {
        id: id.to_string(),
        name: name(room, id).await,
    }
}

/// Returns the name of a member.
pub async fn name(room: &Room, id: &UserId) -> String {
    let member = room.get_member_no_sync(id).await.ok().flatten();
    let name = member.and_then(|member| member.display_name().map(str::to_owned));
    name.filter(|name| !name.trim().is_empty())
        .unwrap_or_else(|| id.localpart().to_owned())
}

/// Returns the room that a message is for: one by its id, or the direct one with somebody, which is made when there is none.
///
/// # Errors
/// When there is no such room.
pub async fn find_or_make(client: &Client, chat: &str) -> Result<Room, Error> {
    if let Some(room) = find(client, chat).await? {
        return Ok(room);
    }
    let who = UserId::parse(chat)
        .map_err(|_| Error::Refused(format!("the agent is not in the room {chat}")))?;
    if Some(&*who) == client.user_id() {
        return Err(Error::Refused("it is the agent's own account".to_owned()));
    }
    // One that was made before this process ended is found: who is invited counts.
    let made = client.create_dm(&who).await;
    made.map_err(Error::of("a direct room"))
}

/// Returns the room that a message is for, when there is one.
///
/// # Errors
/// When the homeserver is unreachable.
pub async fn find(client: &Client, chat: &str) -> Result<Option<Room>, Error> {
    if let Ok(id) = RoomId::parse(chat) {
        return latest(client, &id).await;
    }
    let Ok(who) = UserId::parse(chat) else {
        return Ok(None);
    };
    let mut found = None;
    for room in client.joined_rooms() {
        if has_moved(&room) || room.active_members_count() > 2 {
            continue;
        }
        if kind(&room).await? == Kind::Direct(who.clone()) {
            // Where it was spoken last; and rather in a room that is encrypted.
            let is_encrypted = room.encryption_state().is_encrypted();
            let rank = (is_encrypted, room.recency_stamp().map(u64::from));
            if found.as_ref().is_none_or(|(best, _)| rank > *best) {
                found = Some((rank, room));
            }
        }
    }
    Ok(found.map(|(_, room)| room))
}

/// Returns the room, or the one that it moved to, when the agent is in it.
async fn latest(client: &Client, id: &RoomId) -> Result<Option<Room>, Error> {
    let Some(mut room) = client.get_room(id) else {
        return Ok(None);
    };
    for _ in 0..MOST_MOVES {
        let Some(next) = successor(client, &room) else {
            break;
        };
        // What was for one person is not for those whom the new room has besides.
        if let Kind::Direct(who) = kind(&room).await?
            && kind(&next).await? != Kind::Direct(who)
        {
            return Err(Error::Refused(
                "the room has moved, and others read along in the new one".to_owned(),
            ));
        }
        room = next;
    }
    Ok((room.state() == RoomState::Joined).then_some(room))
}

/// Returns whether a room has moved: nobody looks into it any more.
pub fn has_moved(room: &Room) -> bool {
    room.successor_room().is_some()
}

/// Returns the room that another one moved to, when the agent is in it: where both say so.
fn successor(client: &Client, room: &Room) -> Option<Room> {
    let next = client.get_room(&room.successor_room()?.room_id)?;
    let is_from_here = next.predecessor_room()?.room_id == room.room_id();
    (is_from_here && next.state() == RoomState::Joined).then_some(next)
}
