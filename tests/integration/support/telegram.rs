//! A Telegram Bot API on loopback: a test speaks as the user, reads what the bot sent, and breaks the line
//! between them. One bot is served whatever its token; message ids count up from 1001 in each chat.

mod api;
mod buttons;
mod html;
mod media;
mod methods;
mod multipart;
mod params;
mod reactions;
mod serve;
mod state;

use std::{
    io::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

pub(crate) use self::multipart::Upload;
pub(super) use self::state::Polls;
use self::state::{Shared, State};
use super::{
    server::{Server, lock},
    wait::look_until,
};

/// A token of the shape the service gives out.
const TOKEN: &str = "7000001:local-stand-in-for-a-token-000";
/// The bot's name, for mentions.
const USERNAME: &str = "fake_bot";

/// The fake; dropping it closes the port and every connection.
pub(crate) struct FakeTelegram {
    server: Server,
    shared: Arc<Shared>,
}

/// One message the bot sent, as the service accepted it.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// The method that sent it.
    pub(crate) method: String,
    /// The chat it went to.
    pub(crate) chat: i64,
    /// What the reader sees: entities parsed, ends trimmed.
    pub(crate) text: String,
    /// The `text` parameter itself; HTML only when `parse_mode` says so.
    pub(crate) html: String,
    /// The `parse_mode` parameter.
    pub(crate) parse_mode: Option<String>,
    /// The message it answers.
    pub(crate) reply_to: Option<i64>,
    /// The buttons, or `Null`.
    pub(crate) reply_markup: Value,
    /// The file in it; its words are then the caption. Each message of an album has one.
    pub(crate) files: Vec<Upload>,
    /// The id the service gave it.
    pub(crate) message_id: i64,
    /// When it was accepted.
    pub(crate) at: Instant,
}

/// One request, getUpdates included, in order of arrival.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The method in the documentation's spelling, such as `sendMessage`.
    pub(crate) method: String,
    /// The parameters as received; `Null` when the body did not parse.
    pub(crate) params: Value,
    /// The HTTP status answered; 0 when no answer was given (yet).
    pub(crate) status: u16,
    /// When it arrived.
    pub(crate) at: Instant,
}

/// Something that goes wrong with the next `count` calls of `method` (`"*"` is any).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    /// The method, in any case.
    pub(crate) method: &'static str,
    /// What goes wrong.
    pub(crate) kind: FaultKind,
    /// How many calls it hits.
    pub(crate) count: u32,
}

/// What goes wrong. Only `DropAfter` and `Delay` let the call take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// Refused with this status and the usual JSON; 429 says `retry_after` 1.
    Status(u16),
    /// Refused with 429 and this `retry_after`, seconds.
    Rest(u64),
    /// Refused with this status and these words.
    Says(u16, &'static str),
    /// Refused because the group has this id now.
    MovedTo(i64),
    /// A proxy's HTML page with status 502.
    Html502,
    /// The connection closes before the call is processed.
    Drop,
    /// The call is processed, then the connection closes without an answer.
    DropAfter,
    /// Processed after this time, unless the client gives up first.
    Delay(Duration),
    /// Updates that getUpdates confirms are delivered once more.
    DupUpdates,
    /// What getUpdates delivers comes in the opposite order.
    Backwards,
    /// Never answered, not processed; the connection stays open.
    Hang,
}

impl FakeTelegram {
    /// Starts one on a free port.
    pub(crate) fn start() -> Self {
        let shared = Arc::new(Shared::default());
        lock(&shared.state).last_update_id = 700_000_000;
        Self {
            server: Server::start("fake-telegram", serve::routes(Arc::clone(&shared))),
            shared,
        }
    }

    /// Returns the `api_url` for the configuration.
    pub(crate) fn url(&self) -> &str {
        self.server.url()
    }

    /// Returns a token it takes.
    pub(crate) fn token(&self) -> &'static str {
        TOKEN
    }

    /// Returns the bot's name without `@`.
    pub(crate) fn username(&self) -> &'static str {
        USERNAME
    }

    /// Writes `text` as a user; a negative chat is a group. Returns (update id, message id).
    pub(crate) fn say(&self, chat_id: i64, user_id: i64, text: &str) -> (i64, i64) {
        let message_id = lock(&self.shared.state).new_message_id(chat_id);
        let mut message = json!({
            "message_id": message_id, "date": api::now(), "from": user(user_id), "chat": api::chat(chat_id),
            "text": text,
        });
        let entities = entities(text);
        if !entities.is_empty() {
            message["entities"] = Value::Array(entities);
        }
        (self.inject(json!({"message": message})), message_id)
    }

    /// Offers a file to be fetched and returns its file id.
    pub(crate) fn offer_file(&self, bytes: &[u8]) -> String {
        let number = lock(&self.shared.state).offered.len() + 1;
        self.offer_file_at(&format!("documents/file_{number}"), bytes)
    }

    /// Offers a set of stickers, each with its emoji; the id of the N-th sticker's file is `SET-N`.
    pub(crate) fn offer_stickers(&self, set: &str, emojis: &[&str]) {
        let emojis = emojis.iter().map(|emoji| (*emoji).to_owned()).collect();
        lock(&self.shared.state)
            .sticker_sets
            .push((set.to_owned(), emojis));
    }

    /// Offers a file that getFile says lies at `path`, and returns its file id.
    pub(crate) fn offer_file_at(&self, path: &str, bytes: &[u8]) -> String {
        let mut state = lock(&self.shared.state);
        let id = format!("offered-{}", state.offered.len() + 1);
        state.offered.push(media::Offered {
            id: id.clone(),
            path: path.to_owned(),
            bytes: bytes.to_vec(),
        });
        id
    }

    /// Offers the file of the N-th sticker of a set.
    pub(crate) fn offer_sticker_file(&self, set: &str, number: usize, bytes: &[u8]) {
        let id = format!("{set}-{number}");
        let path = format!("stickers/{id}");
        let bytes = bytes.to_vec();
        lock(&self.shared.state)
            .offered
            .push(media::Offered { id, path, bytes });
    }

    /// Returns the emoji that the bot put on a message.
    pub(crate) fn reaction(&self, chat_id: i64, message_id: i64) -> Option<String> {
        lock(&self.shared.state)
            .reactions
            .get(&(chat_id, message_id))
            .cloned()
    }

    /// Presses the button with `data` under a message the bot sent, as somebody's program may without
    /// its being there. Returns the id of the press.
    pub(crate) fn press(&self, chat_id: i64, user_id: i64, message_id: i64, data: &str) -> String {
        let message = lock(&self.shared.state)
            .messages
            .get(&(chat_id, message_id))
            .map(|shown| shown.message.clone());
        let message = message.expect("only a message that is shown has buttons");
        self.press_below(user_id, &message, data)
    }

    /// The same below any message. Returns the id of the press.
    pub(crate) fn press_below(&self, user_id: i64, message: &Value, data: &str) -> String {
        let id = format!(
            "{}",
            4_300_000_000_000_000_i64 + lock(&self.shared.state).last_update_id
        );
        self.inject(json!({"callback_query": {
            "id": id, "from": user(user_id), "message": message, "chat_instance": "1", "data": data,
        }}));
        id
    }

    /// Returns what was said to a press, empty when it was only heard, waiting for it.
    pub(crate) fn wait_pressed(&self, press: &str, timeout: Duration) -> String {
        let answered = look_until(timeout, || {
            lock(&self.shared.state)
                .presses
                .get(press)
                .cloned()
                .flatten()
        });
        answered.unwrap_or_else(|| panic!("the press {press} was not answered within {timeout:?}"))
    }

    /// Returns the buttons that stand below a message now, as (label, data) in order.
    pub(crate) fn buttons(&self, chat_id: i64, message_id: i64) -> Vec<(String, String)> {
        let state = lock(&self.shared.state);
        let shown = state
            .messages
            .get(&(chat_id, message_id))
            .expect("a message that is shown");
        buttons::of(&shown.message["reply_markup"])
    }

    /// Returns the id of the next message of a chat, for an update that the test makes itself.
    pub(crate) fn next_id(&self, chat_id: i64) -> i64 {
        lock(&self.shared.state).new_message_id(chat_id)
    }

    /// Queues an update as given; an `update_id` is added when it has none. Returns the update id.
    pub(crate) fn inject(&self, mut update: Value) -> i64 {
        let update_id = {
            let mut state = lock(&self.shared.state);
            let update_id = update["update_id"]
                .as_i64()
                .unwrap_or(state.last_update_id + 1);
            state.last_update_id = update_id;
            update["update_id"] = json!(update_id);
            if let Some(press) = update["callback_query"]["id"].as_str() {
                state.presses.entry(press.to_owned()).or_default();
            }
            let message = &update["message"];
            if let (Some(chat), Some(id)) = (
                message["chat"]["id"].as_i64(),
                message["message_id"].as_i64(),
            ) {
                state
                    .messages
                    .insert((chat, id), api::Shown::received(message.clone()));
            }
            state.updates.push_back(update);
            update_id
        };
        self.shared.wake();
        update_id
    }

    /// Returns every message the bot sent, in order; edits and deletions do not change it.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        lock(&self.shared.state).sent.clone()
    }

    /// Forgets the requests and messages so far, as somebody must who stands in for years.
    pub(crate) fn forget(&self) {
        let mut state = lock(&self.shared.state);
        state.calls.clear();
        state.sent.clear();
        state.messages.clear();
    }

    /// Returns the texts that stand in a chat now, oldest first, the user's too: edited, without the deleted.
    pub(crate) fn shown(&self, chat_id: i64) -> Vec<String> {
        let state = lock(&self.shared.state);
        let chat = state
            .messages
            .range((chat_id, i64::MIN)..=(chat_id, i64::MAX));
        let words = |message: &Value| {
            message["text"]
                .as_str()
                .or(message["caption"].as_str())
                .unwrap_or_default()
                .to_owned()
        };
        chat.map(|(_, shown)| words(&shown.message)).collect()
    }

    /// Returns every request, in order of arrival.
    pub(crate) fn calls(&self) -> Vec<Call> {
        lock(&self.shared.state).calls.clone()
    }

    /// Returns the requests for one method.
    pub(crate) fn calls_of(&self, method: &str) -> Vec<Call> {
        self.calls()
            .into_iter()
            .filter(|call| call.method.eq_ignore_ascii_case(method))
            .collect()
    }

    /// Returns the first message for which `wanted` holds, waiting for it; panics with what was sent instead.
    pub(crate) fn wait_sent(&self, wanted: impl Fn(&Sent) -> bool, timeout: Duration) -> Sent {
        match look_until(timeout, || self.sent().into_iter().find(&wanted)) {
            Some(sent) => sent,
            None => panic!(
                "no such message within {timeout:?}; sent were {:#?}",
                self.sent()
            ),
        }
    }

    /// Sets a webhook, as another program with the token could; empty removes it.
    pub(crate) fn set_webhook(&self, url: &str) {
        url.clone_into(&mut lock(&self.shared.state).webhook);
    }

    /// Returns the webhook; empty is none.
    pub(crate) fn webhook(&self) -> String {
        lock(&self.shared.state).webhook.clone()
    }

    /// Returns how many updates the bot has not confirmed.
    pub(crate) fn pending_updates(&self) -> usize {
        lock(&self.shared.state).updates.len()
    }

    /// Breaks coming calls; faults of one method are used up in the order they were set.
    pub(crate) fn fault(&self, fault: Fault) {
        lock(&self.shared.state).faults.push(fault);
    }

    /// Asks `plan` at each call, before the faults that were set, what goes wrong with it; it sees the method and
    /// the parameters.
    pub(crate) fn fault_by(
        &self,
        plan: impl FnMut(&str, &Value) -> Option<FaultKind> + Send + 'static,
    ) {
        lock(&self.shared.state).plan = Some(Box::new(plan));
    }

    /// Forgets every fault not used up. What hangs already goes on hanging.
    pub(crate) fn heal(&self) {
        let mut state = lock(&self.shared.state);
        state.faults.clear();
        state.plan = None;
    }

    /// Returns the poll count as a handle that outlives this borrow.
    pub(super) fn polls(&self) -> Polls {
        Polls(Arc::clone(&self.shared))
    }
}

/// With `TELEGRAM_CALLS=FILE` every request is added there, a JSON line each, for a checker to read.
impl Drop for FakeTelegram {
    fn drop(&mut self) {
        let Some(path) = std::env::var_os("TELEGRAM_CALLS") else {
            return;
        };
        let line = |call: &Call| {
            format!(
                "{}\n",
                json!({"method": call.method, "params": call.params})
            )
        };
        let lines: String = self
            .calls()
            .iter()
            .filter(|call| call.method != "file")
            .map(line)
            .collect();
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path);
        file.and_then(|mut file| file.write_all(lines.as_bytes()))
            .expect("$TELEGRAM_CALLS can be written");
    }
}

fn user(id: i64) -> Value {
    json!({
        "id": id, "is_bot": false, "first_name": format!("User{id}"), "username": format!("user{id}"),
        "language_code": "en",
    })
}

/// Returns the entities the service marks itself: commands and mentions, in UTF-16 units.
fn entities(text: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut offset = 0;
    for word in text.split_inclusive(char::is_whitespace) {
        let name = word.trim_end().trim_end_matches([',', '.', '!', '?', ':']);
        let kind = match name.chars().next() {
            Some('/') => "bot_command",
            Some('@') => "mention",
            _ => "",
        };
        let length = name.encode_utf16().count();
        if !kind.is_empty() && length > 1 {
            found.push(json!({"type": kind, "offset": offset, "length": length}));
        }
        offset += word.encode_utf16().count();
    }
    found
}
