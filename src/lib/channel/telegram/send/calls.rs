//! Calls whose parameters teloxide types too narrowly: an update id is a whole number of 64 bits, and a
//! webhook is plain JSON.

use serde::Serialize;
use serde_json::Value;
use teloxide::requests::Payload;

/// What we want to hear of, and only that.
const WANTED: [&str; 3] = ["message", "edited_message", "callback_query"];

/// Asks for updates (core.telegram.org/bots/api#getupdates).
#[derive(Debug, Clone, Serialize)]
pub(crate) struct GetUpdates {
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<i64>,
    timeout: u64,
    allowed_updates: [&'static str; 3],
}

impl GetUpdates {
    pub(crate) fn new(offset: Option<i64>, timeout_secs: u64) -> Self {
        Self {
            offset,
            timeout: timeout_secs,
            allowed_updates: WANTED,
        }
    }
}

impl Payload for GetUpdates {
    type Output = Value;
    const NAME: &'static str = "getUpdates";
}

/// Asks for updates to be brought (core.telegram.org/bots/api#setwebhook).
#[derive(Clone, Serialize)]
pub(crate) struct SetWebhook<'a> {
    url: &'a str,
    secret_token: &'a str,
    allowed_updates: [&'static str; 3],
    max_connections: u8,
}

impl<'a> SetWebhook<'a> {
    pub(crate) fn new(url: &'a str, secret_token: &'a str) -> Self {
        // One at a time: what is brought side by side has no order.
        Self {
            url,
            secret_token,
            allowed_updates: WANTED,
            max_connections: 1,
        }
    }
}

impl Payload for SetWebhook<'_> {
    type Output = Value;
    const NAME: &'static str = "setWebhook";
}
