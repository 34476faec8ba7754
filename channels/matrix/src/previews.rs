//! Previews: a direct room shows the text written so far as one message, and the answer replaces it by an edit. They are
//! recorded in `previews.json`, so that none remains after a crash, and no answer is removed.

use std::collections::BTreeMap;
use std::time::Duration;

use agent_channel::{Message, now_ms};
use matrix_sdk::Room;
use matrix_sdk::ruma::{OwnedEventId, OwnedRoomId, RoomId};
use serde::{Deserialize, Serialize};

use crate::bot::Bot;
use crate::error::Error;
use crate::rooms::{self, Kind};
use crate::{outgoing, receive, send};

/// The file that knows them.
const FILE: &str = "previews.json";
/// Between two events of previews: Synapse grants an account one in five seconds (`rc_message`), and answers need some.
const PACE_MS: u64 = 6_000;
/// So long the answer may come after its preview has ended.
const ANSWER_MS: u64 = 30_000;
/// So long it is known which answer took a preview's place: nobody sends one again later.
const KNOWN_MS: u64 = 86_400_000;
/// So long a message waits for the word that the preview before it has ended.
const SETTLE: Duration = Duration::from_millis(300);
/// Between looks at what came too soon, and at previews whose answer has not come.
const SOON: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_secs(5);
/// So many are known.
const MOST: usize = 200;

/// A preview of the daemon's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Preview {
    /// The daemon's name for it.
    id: String,
    room: OwnedRoomId,
    thread: Option<String>,
    /// `None` while nobody knows whether it stands.
    event: Option<OwnedEventId>,
    stage: Stage,
    at_ms: u64,
}

/// What becomes of a preview.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Stage {
    /// It is changed while the answer is written.
    Shown,
    /// The answer should come now.
    Ended,
    /// The message with this key stands in its place.
    Taken(String),
    /// It is being removed.
    Gone,
}

/// What the daemon says of a preview: what is written so far, or nothing where it has ended.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Said {
    /// The daemon's name for it.
    id: String,
    chat: String,
    thread: Option<String>,
    text: Option<String>,
}

impl Said {
    /// Returns whether the preview has ended.
    pub fn is_end(&self) -> bool {
        self.text.is_none()
    }
}

/// Words that came too soon after others, by their preview.
pub type Later = BTreeMap<String, Said>;

/// Ends what an earlier process showed: the answer may come, or the daemon goes on with it.
///
/// # Errors
/// When the disk fails.
pub fn begin(bot: &Bot) -> Result<(), Error> {
    let mut all = read(bot)?;
    let shown = all.iter_mut().filter(|one| one.stage == Stage::Shown);
    let count = shown.map(|one| one.set(Stage::Ended)).count();
    if count == 0 {
        return Ok(());
    }
    Ok(bot.spool.remember(FILE, &all)?)
}

/// Shows what is written so far: now, or with [`look`] when that would be too often.
///
/// # Errors
/// When the disk fails, or the homeserver does not take it.
pub async fn show(bot: &Bot, said: Said) -> Result<(), Error> {
    bot.later.borrow_mut().remove(&said.id);
    let known = read(bot)?.into_iter().find(|one| one.id == said.id);
    let Some(text) = &said.text else {
        return match known {
            Some(one) if one.stage == Stage::Shown => set(bot, &said.id, Stage::Ended),
            _ => Ok(()),
        };
    };
    if !bot.settings.previews {
        return Ok(());
    }
    if now_ms() < bot.next_preview_ms.get() {
        let mut later = bot.later.borrow_mut();
        if later.len() < MOST {
            later.insert(said.id.clone(), said);
        }
        return Ok(());
    }
    let (one, room) = match known {
        Some(one) if matches!(one.stage, Stage::Taken(_) | Stage::Gone) => return Ok(()),
        Some(one) => {
            set(bot, &said.id, Stage::Shown)?;
            let room = bot.client.get_room(&one.room).filter(receive::is_in);
            (one, room)
        }
        None => match new(bot, &said).await? {
            Some((one, room)) => (one, Some(room)),
            None => return Ok(()),
        },
    };
    let Some(room) = room else {
        return Ok(());
    };
    bot.next_preview_ms.set(now_ms() + PACE_MS);
    let sent = match &one.event {
        None => first(bot, &room, &one, text).await.map(|_| ()),
        Some(event) => {
            let message = one.message(text, Some(event));
            let key = format!("preview-{}-{}", one.id, now_ms());
            match outgoing::words(&message) {
                Some(content) => send::send(&room, "m.room.message", content, &key)
                    .await
                    .map(|_| ()),
                None => Ok(()),
            }
        }
    };
    if let Err(Error::Limited(_, pause)) = &sent {
        let pause = u64::try_from(pause.as_millis()).unwrap_or(PACE_MS);
        bot.next_preview_ms.set(now_ms() + PACE_MS.max(pause));
    }
    sent
}

/// Writes a preview down before it stands; `None` where there is none: others read along, and an answer there names whom
/// it answers, which an edit cannot.
async fn new(bot: &Bot, said: &Said) -> Result<Option<(Preview, Room)>, Error> {
    let Some(room) = rooms::find(&bot.client, &said.chat).await? else {
        return Ok(None);
    };
    if rooms::has_moved(&room) || !matches!(rooms::kind(&room).await?, Kind::Direct(_)) {
        return Ok(None);
    }
    let one = Preview {
        id: said.id.clone(),
        room: room.room_id().to_owned(),
        thread: said.thread.clone(),
        event: None,
        stage: Stage::Shown,
        at_ms: now_ms(),
    };
    let mut all = read(bot)?;
    if all.len() >= MOST {
        // Its answer has most likely gone out long ago.
        let oldest = all
            .iter()
            .position(|one| matches!(one.stage, Stage::Taken(_)));
        match oldest {
            Some(at) => drop(all.remove(at)),
            None => return Ok(None),
        }
    }
    all.push(one.clone());
    bot.spool.remember(FILE, &all)?;
    Ok(Some((one, room)))
}

/// Sends the first event of a preview, or learns its id where it was sent before.
async fn first(bot: &Bot, room: &Room, one: &Preview, text: &str) -> Result<OwnedEventId, Error> {
    let content = outgoing::words(&one.message(text, None))
        .ok_or_else(|| Error::Refused("it says nothing".to_owned()))?;
    let key = format!("preview-{}", one.id);
    let id = send::send(room, "m.room.message", content, &key).await?;
    let id = OwnedEventId::try_from(id).map_err(|error| Error::Refused(error.to_string()))?;
    change(bot, &one.id, |one| one.event = Some(id.clone()))?;
    Ok(id)
}

/// Shows what came too soon, and removes previews whose answer has not come.
///
/// # Errors
/// When the disk fails, or the homeserver is unreachable.
pub async fn look(bot: &Bot) -> Result<(), Error> {
    let now = now_ms();
    let late = if now < bot.next_preview_ms.get() {
        None
    } else {
        bot.later.borrow_mut().pop_first()
    };
    if let Some((_, said)) = late {
        show(bot, said).await?;
    }
    let all = read(bot)?;
    for one in all.iter().filter(|one| one.is_over(now)) {
        if !matches!(one.stage, Stage::Taken(_)) {
            // From here on no answer takes its place.
            set(bot, &one.id, Stage::Gone)?;
            remove(bot, one).await?;
        }
        let mut left = read(bot)?;
        left.retain(|other| other.id != one.id);
        bot.spool.remember(FILE, &left)?;
    }
    Ok(())
}

/// Returns when [`look`] has something to do; `None` where nothing is shown.
pub fn next_look(bot: &Bot) -> Option<Duration> {
    if !bot.later.borrow().is_empty() {
        return Some(SOON);
    }
    let is_open = |one: &Preview| matches!(one.stage, Stage::Ended | Stage::Gone);
    let all = read(bot).unwrap_or_default();
    all.iter().any(is_open).then_some(LOOK)
}

async fn remove(bot: &Bot, one: &Preview) -> Result<(), Error> {
    let Some(room) = bot.client.get_room(&one.room).filter(receive::is_in) else {
        return Ok(());
    };
    let event = match &one.event {
        Some(event) => event.clone(),
        None => first(bot, &room, one, "…").await?,
    };
    let txn = send::transaction(&format!("removed-{}", one.id));
    match room.redact(&event, None, Some(txn)).await {
        Ok(_) => Ok(()),
        Err(error) => match Error::http("a preview", &error) {
            Error::Refused(why) => {
                tracing::warn!(room = %one.room, why, "a preview stays in the room");
                Ok(())
            }
            error => Err(error),
        },
    }
}

/// Returns the preview whose place a message takes; it is never removed from then on.
///
/// # Errors
/// When the disk fails, or the homeserver is unreachable.
pub async fn take(
    bot: &Bot,
    room: &Room,
    message: &Message,
) -> Result<Option<OwnedEventId>, Error> {
    if message.edit_of.is_some() || message.text.trim().is_empty() {
        return Ok(None);
    }
    let mut all = read(bot)?;
    let is_shown = |one: &Preview| one.stage == Stage::Shown && one.room == room.room_id();
    if all.iter().any(is_shown) {
        // That it has ended may stand in the FIFO, unread.
        tokio::time::sleep(SETTLE).await;
        all = read(bot)?;
    }
    let Some((id, event)) = place(&all, room.room_id(), message) else {
        return Ok(None);
    };
    set(bot, id, Stage::Taken(message.key.clone()))?;
    // Where somebody removed it, an edit of it shows nothing.
    match room
        .event(event, None)
        .await
        .map_err(Error::of("a preview"))
    {
        Ok(found) => {
            let is_there = receive::json(&found)
                .is_some_and(|json| json["unsigned"].get("redacted_because").is_none());
            Ok(is_there.then(|| event.clone()))
        }
        Err(Error::Refused(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns which preview's place a message takes, or took when it was sent before.
fn place<'a>(
    all: &'a [Preview],
    room: &RoomId,
    message: &Message,
) -> Option<(&'a str, &'a OwnedEventId)> {
    let is_taken = |one: &&Preview| one.stage == Stage::Taken(message.key.clone());
    let is_free = |one: &&Preview| {
        one.stage == Stage::Ended
            && one.room == room
            && one.thread == message.thread
            && one.event.is_some()
    };
    let found = all.iter().find(is_taken);
    let found = found.or_else(|| all.iter().find(is_free))?;
    Some((&found.id, found.event.as_ref()?))
}

impl Preview {
    fn set(&mut self, stage: Stage) {
        self.stage = stage;
        self.at_ms = now_ms();
    }

    /// Returns whether it is to be removed, or forgotten. A time to come is the clock's mistake.
    fn is_over(&self, now: u64) -> bool {
        let is_past = |time: u64| now.abs_diff(self.at_ms) >= time;
        match self.stage {
            Stage::Ended => is_past(ANSWER_MS),
            Stage::Shown | Stage::Taken(_) => is_past(KNOWN_MS),
            Stage::Gone => true,
        }
    }

    fn message(&self, text: &str, edit_of: Option<&OwnedEventId>) -> Message {
        Message {
            text: text.to_owned(),
            thread: self.thread.clone(),
            edit_of: edit_of.map(ToString::to_string),
            ..Message::default()
        }
    }
}

fn read(bot: &Bot) -> Result<Vec<Preview>, Error> {
    Ok(bot.spool.recall(FILE)?.unwrap_or_default())
}

fn set(bot: &Bot, id: &str, stage: Stage) -> Result<(), Error> {
    change(bot, id, |one| {
        if one.stage != stage {
            one.set(stage);
        }
    })
}

/// Changes what is known of one, on the disk when this returns. Between two waits nobody else writes the file.
fn change(bot: &Bot, id: &str, change: impl FnOnce(&mut Preview)) -> Result<(), Error> {
    let mut all = read(bot)?;
    let before = all.clone();
    if let Some(one) = all.iter_mut().find(|one| one.id == id) {
        change(one);
    }
    if all == before {
        return Ok(());
    }
    Ok(bot.spool.remember(FILE, &all)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preview(id: &str, room: &str, thread: Option<&str>, stage: Stage) -> Preview {
        Preview {
            id: id.to_owned(),
            room: room.try_into().expect("an id"),
            thread: thread.map(str::to_owned),
            event: Some(format!("${id}").try_into().expect("an id")),
            stage,
            at_ms: 1_800_000_000_000,
        }
    }

    #[test]
    fn an_answer_takes_the_place_of_the_preview_that_has_ended_in_its_conversation_and_keeps_it() {
        let taken = Stage::Taken("1-9".to_owned());
        let mut unborn = preview("p0", "!r:a.org", None, Stage::Ended);
        unborn.event = None;
        let all = [
            unborn,
            preview("p1", "!r:a.org", None, Stage::Shown),
            preview("p2", "!r:a.org", None, Stage::Gone),
            preview("p3", "!other:a.org", None, Stage::Ended),
            preview("p4", "!r:a.org", Some("$root"), Stage::Ended),
            preview("p5", "!r:a.org", None, taken),
            preview("p6", "!r:a.org", None, Stage::Ended),
        ];
        let place = |key: &str, thread: Option<&str>| {
            let message = Message {
                key: key.to_owned(),
                thread: thread.map(str::to_owned),
                ..Message::default()
            };
            let room = RoomId::parse("!r:a.org").expect("an id");
            place(&all, &room, &message).map(|(id, _)| id.to_owned())
        };
        assert_eq!(place("1-2", None).as_deref(), Some("p6"));
        assert_eq!(place("1-2", Some("$root")).as_deref(), Some("p4"));
        assert_eq!(place("1-2", Some("$elsewhere")), None);
        // What is sent again after a kill is the same edit.
        assert_eq!(place("1-9", None).as_deref(), Some("p5"));
    }

    #[test]
    fn a_preview_without_an_answer_is_removed_and_an_answer_never() {
        let over = |stage: Stage, after: u64| {
            let one = preview("p", "!r:a.org", None, stage);
            one.is_over(one.at_ms + after)
        };
        assert!(!over(Stage::Ended, ANSWER_MS - 1) && over(Stage::Ended, ANSWER_MS));
        assert!(!over(Stage::Shown, 3_600_000) && over(Stage::Gone, 0));
        let taken = Stage::Taken("1-2".to_owned());
        assert!(!over(taken.clone(), KNOWN_MS - 1) && over(taken, KNOWN_MS));
    }
}
