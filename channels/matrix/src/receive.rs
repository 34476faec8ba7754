//! Events of the homeserver become lines for the daemon, in order. The sync position is saved after the lines are on disk; if
//! this program ends in between, the same lines are written again and the daemon drops them.

use std::collections::BTreeSet;
use std::time::Duration;

use agent_channel::{Backoff, Spool};
use matrix_sdk::config::{SyncSettings, SyncToken};
use matrix_sdk::deserialized_responses::TimelineEvent;
use matrix_sdk::room::MessagesOptions;
use matrix_sdk::ruma::api::client::filter::{FilterDefinition, LazyLoadOptions};
use matrix_sdk::ruma::api::client::sync::sync_events::v3::Filter;
use matrix_sdk::ruma::uint;
use matrix_sdk::sync::{JoinedRoomUpdate, SyncResponse};
use matrix_sdk::{Room, RoomState};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bot::Bot;
use crate::error::Error;
use crate::{capabilities, invitations, lines, undecrypted};

/// So long the homeserver waits for something to say.
const WAIT: Duration = Duration::from_secs(30);
/// While the daemon has so many lines to take, messages stay where they are.
const MAX_WAITING: usize = 200;
/// So many events of a room are caught up with at most, a hundred a request.
const MAX_BEHIND: usize = 5_000;
/// The file that knows how far was read.
const PLACE: &str = "place.json";

/// How far was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    /// The homeserver's word for it.
    since: Option<String>,
    /// Which device read: another one's messages cannot be sent again unseen.
    device: String,
}

/// Writes down that everything before `since` is history.
///
/// # Errors
/// When it cannot be written.
pub fn begin(spool: &Spool, since: &str, device: &str) -> Result<(), Error> {
    let place = Place {
        since: Some(since.to_owned()),
        device: device.to_owned(),
    };
    Ok(spool.remember(PLACE, &place)?)
}

/// Returns the device that read last.
///
/// # Errors
/// When the disk fails.
pub fn device(spool: &Spool) -> Result<Option<String>, Error> {
    Ok(spool.recall::<Place>(PLACE)?.map(|place| place.device))
}

/// Returns what is asked for: no presence, and of members those who speak.
pub fn filter() -> Filter {
    let mut filter = FilterDefinition::default();
    filter.presence.types = Some(Vec::new());
    filter.room.timeline.limit = Some(uint!(50));
    filter.room.state.lazy_load_options = LazyLoadOptions::Enabled {
        include_redundant_members: false,
    };
    Filter::FilterDefinition(filter)
}

/// Reads for ever.
///
/// # Errors
/// When the disk fails, or the session has ended.
pub async fn run(bot: &Bot) -> Result<(), Error> {
    let mut backoff = Backoff::default();
    let mut is_refused = false;
    let mut place: Place = bot.spool.recall(PLACE)?.unwrap_or_default();
    if place.since.is_none() {
        tracing::warn!("the sync position is unknown: earlier messages are not read");
    }
    loop {
        while bot.spool.waiting() > MAX_WAITING {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let response = match Box::pin(news(bot, &place)).await {
            Ok(response) => response,
            Err(error) => {
                if let Error::Refused(why) = &error {
                    // Whoever looks at the channel sees it: it does not pass by itself.
                    bot.spool.announce(&capabilities(Some(why)))?;
                    is_refused = true;
                }
                let pause = pause(bot, &mut backoff, error)?;
                tokio::time::sleep(pause).await;
                continue;
            }
        };
        if std::mem::take(&mut is_refused) {
            bot.spool.announce(&capabilities(None))?;
        }
        // Taken in whole before more is asked for: the library passes over what it was told once.
        while let Err(error) = Box::pin(take_in(bot, &place, &response)).await {
            let pause = pause(bot, &mut backoff, error)?;
            tokio::time::sleep(pause).await;
        }
        backoff.reset();
        if place.since.as_ref() != Some(&response.next_batch) {
            place.since = Some(response.next_batch);
            place.device = bot
                .client
                .device_id()
                .map(ToString::to_string)
                .unwrap_or_default();
            bot.spool.remember(PLACE, &place)?;
        }
    }
}

/// Returns how long to wait after an error that passes.
fn pause(bot: &Bot, backoff: &mut Backoff, error: Error) -> Result<Duration, Error> {
    match error {
        Error::Server(why) | Error::Away(why) => {
            let pause = backoff.next_pause();
            bot.set_reachable(false);
            tracing::warn!(%why, pause_secs = pause.as_secs(), "the homeserver is unreachable");
            Ok(pause)
        }
        Error::Refused(why) => {
            let pause = backoff.next_pause();
            tracing::error!(%why, pause_secs = pause.as_secs(), "the homeserver refuses");
            Ok(pause)
        }
        Error::Limited(why, pause) => {
            tracing::warn!(%why, pause_secs = pause.as_secs(), "the homeserver asks for a pause");
            Ok(pause)
        }
        error => Err(error),
    }
}

/// Asks what is new.
async fn news(bot: &Bot, place: &Place) -> Result<SyncResponse, Error> {
    let (token, wait) = match &place.since {
        Some(since) if bot.is_reachable() => (SyncToken::Specific(since.clone()), WAIT),
        Some(since) => (SyncToken::Specific(since.clone()), Duration::ZERO),
        None => (SyncToken::NoToken, Duration::ZERO),
    };
    let settings = SyncSettings::new()
        .token(token)
        .timeout(wait)
        .filter(filter());
    let response = bot.client.sync_once(settings).await;
    let response = response.map_err(|error| match error {
        matrix_sdk::Error::Http(_) => Error::of("what is new")(error),
        // It may have been taken in by half; another process begins with all of it.
        error => Error::Store(format!("what is new: {error}")),
    })?;
    bot.set_reachable(true);
    Ok(response)
}

async fn take_in(bot: &Bot, place: &Place, response: &SyncResponse) -> Result<(), Error> {
    if let Some(since) = &place.since {
        for (id, update) in &response.rooms.joined {
            if let Some(room) = bot.client.get_room(id) {
                room_read(bot, &room, update, since).await?;
            }
        }
    }
    // Keys come to devices, beside the rooms.
    undecrypted::look(bot, !response.to_device.is_empty()).await?;
    let mut renewed: BTreeSet<_> = response.rooms.invited.keys().cloned().collect();
    if !bot.has_looked.replace(true) {
        renewed.extend(
            bot.client
                .invited_rooms()
                .iter()
                .map(|room| room.room_id().to_owned()),
        );
    }
    invitations::answer(bot, &renewed).await?;
    for (id, why) in bot.spool.refusals() {
        tracing::warn!(id, why, "the daemon refused a line");
    }
    Ok(())
}

async fn room_read(
    bot: &Bot,
    room: &Room,
    update: &JoinedRoomUpdate,
    since: &str,
) -> Result<(), Error> {
    let timeline = &update.timeline;
    let mut events = Vec::new();
    if timeline.limited
        && let Some(from) = &timeline.prev_batch
    {
        events = behind(room, from, since).await?;
    }
    events.extend(timeline.events.iter().cloned());
    let me = room.own_user_id().as_str();
    let first = since_invitation(&events, me);
    for event in events.get(first..).unwrap_or_default() {
        match lines::event(bot, room, event).await {
            // What belongs to one event is not to be had: it must not hold up all that comes after it, in all rooms.
            Err(Error::Refused(why)) if bot.gives_up(&of(event)) => {
                tracing::error!(room = %room.room_id(), event = of(event), why, "a message was not accepted");
            }
            done => done?,
        }
    }
    Ok(())
}

fn of(event: &TimelineEvent) -> String {
    event
        .event_id()
        .map(|id| id.to_string())
        .unwrap_or_default()
}

/// Returns what happened between `since` and `from`, the oldest first: of much, the homeserver sends only the newest.
async fn behind(room: &Room, from: &str, since: &str) -> Result<Vec<TimelineEvent>, Error> {
    let mut found: Vec<TimelineEvent> = Vec::new();
    let mut from = Some(from.to_owned());
    while let Some(token) = from {
        let mut options = MessagesOptions::backward().from(token.as_str());
        options.to = Some(since.to_owned());
        options.limit = uint!(100);
        let part = match room
            .messages(options)
            .await
            .map_err(Error::of("what was missed"))
        {
            Ok(part) => part,
            Err(Error::Refused(why)) => {
                tracing::warn!(%why, room = %room.room_id(), "missed messages of a room cannot be fetched");
                break;
            }
            Err(error) => return Err(error),
        };
        let is_end = part.chunk.is_empty();
        found.extend(part.chunk);
        let me = room.own_user_id().as_str();
        if is_end || found.iter().any(|event| is_invitation(event, me)) {
            break;
        }
        if found.len() >= MAX_BEHIND {
            tracing::error!(room = %room.room_id(), "more than {MAX_BEHIND} events were missed: the older ones are not read");
            break;
        }
        from = part.end;
    }
    found.reverse();
    Ok(found)
}

/// Returns where what is meant for the agent begins: nothing that was said before it was invited.
fn since_invitation(events: &[TimelineEvent], me: &str) -> usize {
    let last = |wanted: &dyn Fn(&Value) -> bool| {
        events
            .iter()
            .rposition(|event| json(event).is_some_and(|json| wanted(&json)))
    };
    let membership = |event: &Value, is: &str| {
        event["type"] == "m.room.member" && event["state_key"] == me && event["content"]["membership"] == is
            // A new name is told by such an event, too.
            && event["unsigned"]["prev_content"]["membership"] != is
    };
    last(&|event| membership(event, "invite"))
        .or_else(|| last(&|event| membership(event, "join")))
        .map_or(0, |at| at + 1)
}

fn is_invitation(event: &TimelineEvent, me: &str) -> bool {
    json(event).is_some_and(|event| {
        event["type"] == "m.room.member"
            && event["state_key"] == me
            && event["content"]["membership"] == "invite"
    })
}

/// Returns the JSON of an event, as far as it is JSON.
pub fn json(event: &TimelineEvent) -> Option<Value> {
    serde_json::from_str(event.raw().json().get()).ok()
}

/// Returns whether the agent is in a room.
pub fn is_in(room: &Room) -> bool {
    room.state() == RoomState::Joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use matrix_sdk::ruma::serde::Raw;
    use serde_json::json;

    fn event(json: &Value) -> TimelineEvent {
        TimelineEvent::from_plaintext(Raw::from_json_string(json.to_string()).expect("json"))
    }

    #[test]
    fn what_was_said_before_the_invitation_is_not_for_the_agent() {
        let me = "@agent:example.org";
        let said = event(&json!({"type": "m.room.message", "content": {"body": "x"}}));
        let member = |is: &str, before: Option<&str>| {
            event(
                &json!({"type": "m.room.member", "state_key": me, "content": {"membership": is},
                "unsigned": {"prev_content": {"membership": before}}}),
            )
        };
        let first = |events: &[TimelineEvent]| since_invitation(events, me);
        assert_eq!(first(&[said.clone(), said.clone()]), 0);
        // A direct room begins with the invitation, and words may follow it before the agent is there.
        let direct = [
            said.clone(),
            member("invite", None),
            said.clone(),
            member("join", Some("invite")),
            said.clone(),
        ];
        assert_eq!(first(&direct), 2);
        assert_eq!(
            first(&[said.clone(), member("join", None), said.clone()]),
            2
        );
        // A new name is no new beginning.
        assert_eq!(
            first(&[said.clone(), member("join", Some("join")), said]),
            0
        );
    }
}
