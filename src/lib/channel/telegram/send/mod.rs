//! To Telegram: messages, files, edits, reactions and buttons go out, paced and with every failure classified.

pub(crate) mod api;
pub(crate) mod buttons;
pub(crate) mod calls;
pub(crate) mod classify_error;
pub mod format;
pub(crate) mod media;
pub(crate) mod messages;
pub(crate) mod pacing;
pub(crate) mod preview;
pub mod split;
pub(crate) mod transport;
pub(crate) mod upload;
