//! Telegram through the Bot API: long polling or a webhook in, HTML messages out.
//!
//! Types and methods are teloxide's; the transport is ours ([`api`]), because what became of a
//! request that failed (never written, refused, or nobody knows) decides whether a message may be
//! sent again, and teloxide's own sending hides it (and sleeps 10 s inside a call on a 5xx).

mod api;
mod calls;
mod commands;
mod fetch;
mod files;
pub mod format;
mod incoming;
mod mend;
mod pace;
mod poll;
mod press;
mod preview;
mod reach;
mod refusal;
mod send;
mod sole;
pub mod split;
mod trouble;
mod upload;
mod webhook;

pub use send::Telegram;

/// Returns the id of an update and what it brings to the bot 42, `@our_bot` or Robo, as the poller reads it. For
/// `fuzz/`, which sees no more than what is public.
#[cfg(fuzzing)]
pub fn read_update(raw: &serde_json::Value) -> (Option<i64>, Option<super::Incoming>) {
    let us = incoming::Identity {
        bot: 42,
        username: Some("our_bot".to_owned()),
        aliases: vec!["Robo".to_owned()],
    };
    (incoming::update_id(raw), incoming::incoming(raw, &us))
}
