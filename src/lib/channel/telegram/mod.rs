//! Telegram through the Bot API: long polling in, HTML messages out.
//!
//! Types and methods are teloxide's; the transport is ours ([`api`]), because what became of a
//! request that failed (never written, refused, or nobody knows) decides whether a message may be
//! sent again, and teloxide's own sending hides it (and sleeps 10 s inside a call on a 5xx).

mod api;
mod commands;
pub mod format;
mod incoming;
mod poll;
mod send;
pub mod split;

pub use send::Telegram;
