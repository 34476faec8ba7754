//! Telegram through the Bot API: long polling or a webhook in, HTML messages out.
//!
//! Types and methods are teloxide's; the transport is ours ([`api`]), because what became of a
//! request that failed (never written, refused, or nobody knows) decides whether a message may be
//! sent again, and teloxide's own sending hides it (and sleeps 10 s inside a call on a 5xx).

mod health;
pub mod receive;
pub mod send;
mod single_poller;

pub use send::messages::Telegram;

/// Returns the id of an update and what it brings to the bot 42, `@our_bot` or Robo, as the poller reads it. For
/// `fuzz/`, which sees no more than what is public.
#[cfg(fuzzing)]
pub fn read_update(raw: &serde_json::Value) -> (Option<i64>, Option<super::Incoming>) {
    let us = receive::update::Identity {
        bot: 42,
        username: Some("our_bot".to_owned()),
        aliases: vec!["Robo".to_owned()],
    };
    (
        receive::update::update_id(raw),
        receive::update::incoming(raw, &us),
    )
}
