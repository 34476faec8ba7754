//! Converts a received event to a line for the daemon, or ignores it with a reason.

use matrix_sdk::Room;
use matrix_sdk::deserialized_responses::{
    AlgorithmInfo, EncryptionInfo, TimelineEvent, TimelineEventKind, VerificationLevel,
    VerificationState,
};
use matrix_sdk::ruma::{EventId, OwnedEventId, RoomId, UserId};
use serde_json::{Value, json};

use crate::bot::Bot;
use crate::error::Error;
use crate::incoming::{self, Heard};
use crate::rooms::{self, Kind};
use crate::{attachments, moves, receive, undecrypted};

/// Takes an event in.
///
/// # Errors
/// When the disk fails, or the homeserver is unreachable.
pub async fn event(bot: &Bot, room: &Room, event: &TimelineEvent) -> Result<(), Error> {
    let Some(json) = receive::json(event) else {
        return Ok(());
    };
    if json["sender"] == room.own_user_id().as_str() {
        return Ok(());
    }
    if event.kind.is_utd() {
        // Taken back: there is nothing to wait for.
        let is_gone = json["content"]
            .as_object()
            .is_some_and(serde_json::Map::is_empty);
        return if is_gone {
            Ok(())
        } else {
            undecrypted::keep(bot, room, &json)
        };
    }
    match json["type"].as_str() {
        Some("m.room.message" | "m.sticker") => {
            if let Err(why) = believed(bot, room, event).await? {
                tracing::warn!(room = %room.room_id(), sender = %json["sender"], why, "a message was dropped: its sender is not verified");
                return undecrypted::tell_of_doubt(bot, room, &json, why).await;
            }
            message(bot, room, &json).await
        }
        Some("m.reaction") if bot.settings.reactions => reaction(bot, room, &json).await,
        Some("m.room.tombstone") if json.get("state_key").is_some() => {
            moves::follow(bot, room, &json).await
        }
        _ => Ok(()),
    }
}

/// Returns whether a message is surely its sender's, as far as the room promises it.
async fn believed(
    bot: &Bot,
    room: &Room,
    event: &TimelineEvent,
) -> Result<Result<(), &'static str>, Error> {
    let info = match &event.kind {
        TimelineEventKind::Decrypted(decrypted) => &decrypted.encryption_info,
        TimelineEventKind::PlainText { .. } => {
            let state = room.latest_encryption_state().await;
            let state = state.map_err(Error::of("whether a room is encrypted"))?;
            return Ok(if state.is_encrypted() {
                Err("it is not encrypted, and the room is: the homeserver could have written it")
            } else if bot.settings.require_verified {
                Err("the room is not encrypted, and require_verified is set")
            } else {
                Ok(())
            });
        }
        TimelineEventKind::UnableToDecrypt { .. } => return Ok(Err("it is not decrypted")),
    };
    if event
        .kind
        .sender()
        .is_none_or(|sender| sender != info.sender)
    {
        return Ok(Err("the key is another person's than the message"));
    }
    Ok(match &info.verification_state {
        VerificationState::Verified => Ok(()),
        VerificationState::Unverified(VerificationLevel::MismatchedSender) => {
            Err("the key is another person's than the message")
        }
        VerificationState::Unverified(VerificationLevel::VerificationViolation) => Err(
            "the sender was verified, and has another identity now: agent-channel-matrix verify",
        ),
        // Not of a key that came from the backup: the homeserver could have put it there.
        VerificationState::Unverified(
            VerificationLevel::UnverifiedIdentity | VerificationLevel::UnsignedDevice,
        ) if is_verified_now(bot, info).await => Ok(()),
        VerificationState::Unverified(_) if bot.settings.require_verified => {
            Err("the sender's device is not verified, and require_verified is set")
        }
        VerificationState::Unverified(_) if is_known(bot, &info.sender).await => {
            Err("the sender is verified, and has not signed the device that wrote it")
        }
        VerificationState::Unverified(_) => Ok(()),
    })
}

/// Returns whether emoji were compared with somebody: which devices are theirs, the homeserver says no longer.
async fn is_known(bot: &Bot, who: &UserId) -> bool {
    let identity = bot.client.encryption().get_user_identity(who).await;
    identity.is_ok_and(|identity| {
        identity
            .is_some_and(|identity| identity.is_verified() || identity.was_previously_verified())
    })
}

/// Returns whether the device whose key this is belongs to somebody who was verified after the key came.
async fn is_verified_now(bot: &Bot, info: &EncryptionInfo) -> bool {
    let Some(id) = &info.sender_device else {
        return false;
    };
    let device = bot.client.encryption().get_device(&info.sender, id).await;
    let Some(device) = device.ok().flatten() else {
        return false;
    };
    let AlgorithmInfo::MegolmV1AesSha2 { curve25519_key, .. } = &info.algorithm_info else {
        return false;
    };
    // The very device, by its key: its name is the homeserver's to give.
    device.is_verified_with_cross_signing()
        && device
            .curve25519_key()
            .is_some_and(|key| key.to_base64() == *curve25519_key)
}

async fn message(bot: &Bot, room: &Room, event: &Value) -> Result<(), Error> {
    let me = rooms::me(room).await;
    let Some(mut heard) = incoming::message(event, &me) else {
        return Ok(());
    };
    let id = incoming::line_id(&heard.id);
    if let Some(original) = heard.edit_of.clone() {
        // Anybody may say that they edit anything: only the author's word counts.
        let Some(before) = original_of(bot, room, &original, &heard).await? else {
            tracing::warn!(room = %room.room_id(), original, "ignored an edit of a message that its sender did not write, or that no longer exists");
            return Ok(());
        };
        heard.thread = before["content"]["m.relates_to"]["event_id"]
            .as_str()
            .filter(|_| before["content"]["m.relates_to"]["rel_type"] == "m.thread")
            .map(str::to_owned);
        heard.id = original;
    }
    let mut files = Vec::new();
    let mut attachments = Vec::new();
    if let Some(file) = &heard.file {
        match attachments::fetch(bot, &heard.id, file).await? {
            Ok(bytes) => {
                attachments.push(
                    json!({"path": "0", "filename": file.name, "content_type": file.content_type}),
                );
                files.push(("0".to_owned(), bytes));
            }
            Err(why) => heard.kind = Some(format!("file {} ({why})", file.name)),
        }
    }
    put(bot, room, &id, &heard, attachments, &files).await
}

async fn reaction(bot: &Bot, room: &Room, event: &Value) -> Result<(), Error> {
    let me = rooms::me(room).await;
    let Some(reaction) = incoming::reaction(event, &me) else {
        return Ok(());
    };
    let Some(to) = fetched(bot, room, &reaction.to).await? else {
        return Ok(());
    };
    // What people think of each other's words is not for the agent.
    if to["sender"] != me.id.as_str() {
        return Ok(());
    }
    let heard = Heard {
        id: reaction.id.clone(),
        sender: reaction.sender,
        kind: Some(format!("reaction {}", reaction.emoji)),
        reply_to: Some(reaction.to),
        sent_at: reaction.sent_at,
        is_mentioning: true,
        ..Heard::default()
    };
    put(
        bot,
        room,
        &incoming::line_id(&reaction.id),
        &heard,
        Vec::new(),
        &[],
    )
    .await
}

async fn put(
    bot: &Bot,
    room: &Room,
    id: &str,
    heard: &Heard,
    attachments: Vec<Value>,
    files: &[(String, Vec<u8>)],
) -> Result<(), Error> {
    let Ok(sender) = UserId::parse(&heard.sender) else {
        return Ok(());
    };
    let mut line = json!({"cmd": "user", "chat": room.room_id(), "message_id": heard.id,
        "sender": {"id": sender, "name": rooms::name(room, &sender).await}, "text": heard.text});
    let mut set = |name: &str, value: Value| {
        if let Some(fields) = line.as_object_mut() {
            fields.insert(name.to_owned(), value);
        }
    };
    // Who is direct may be told what others may not: the room is looked at when the message is taken in.
    if let Kind::Group(name) = rooms::kind(room).await? {
        set("group", json!(name));
        set("mentioned", json!(heard.is_mentioning));
    }
    for (name, value) in [
        ("thread", &heard.thread),
        ("kind", &heard.kind),
        ("reply_to", &heard.reply_to),
        ("sent_at", &heard.sent_at),
    ] {
        if let Some(value) = value {
            set(name, json!(value));
        }
    }
    if !attachments.is_empty() {
        set("attachments", json!(attachments));
    }
    if heard.edit_of.is_some() {
        set("edited", json!(true));
    }
    Ok(bot.spool.put(id, line, files)?)
}

/// Returns the message that an edit is of, when its author is the same.
async fn original_of(
    bot: &Bot,
    room: &Room,
    id: &str,
    edit: &Heard,
) -> Result<Option<Value>, Error> {
    let original = fetched(bot, room, id).await?;
    Ok(original.filter(|event| {
        event["sender"] == edit.sender.as_str()
            && event["event_id"] == id
            && event.get("state_key").is_none()
            // An edit of an edit, or of itself, is none (Matrix specification, event replacements).
            && event["content"]["m.relates_to"]["rel_type"] != "m.replace"
    }))
}

async fn fetched(bot: &Bot, room: &Room, id: &str) -> Result<Option<Value>, Error> {
    let Ok(id) = EventId::parse(id) else {
        return Ok(None);
    };
    match room.event(&id, None).await.map_err(Error::of("a message")) {
        Ok(event) => Ok(receive::json(&event)),
        Err(Error::Refused(_)) => Ok(None),
        Err(error) if !error.is_of_all() && bot.gives_up(id.as_str()) => {
            tracing::error!(%error, event = %id, "a message cannot be fetched");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Takes an event in that could not be read before; false while it still cannot.
///
/// # Errors
/// When the disk fails, or the homeserver is unreachable.
pub async fn late(bot: &Bot, room_id: &RoomId, id: &OwnedEventId) -> Result<bool, Error> {
    let Some(room) = bot.client.get_room(room_id).filter(receive::is_in) else {
        return Ok(true);
    };
    let found = match room.event(id, None).await.map_err(Error::of("a message")) {
        Ok(found) => found,
        Err(Error::Refused(_)) => return Ok(true),
        Err(error) => return Err(error),
    };
    if found.kind.is_utd() {
        return Ok(false);
    }
    match event(bot, &room, &found).await {
        Err(Error::Refused(why)) => {
            tracing::error!(room = %room_id, event = %id, why, "a message was not accepted");
            Ok(true)
        }
        done => done.map(|()| true),
    }
}
