//! Shared by the channel programs: the directory that they share with the daemon, as agent-channel(7) describes it, their
//! paths and settings, pauses between attempts, and Markdown as HTML that loads nothing.

mod backoff;
mod clock;
mod error;
mod html;
mod password;
mod places;
mod spool;
mod watch;

pub use backoff::Backoff;
pub use clock::{now_ms, rfc3339};
pub use error::Error;
pub use html::html;
pub use password::{Password, password};
pub use places::{directory, settings_file, settings_text};
pub use spool::{Message, OutFile, Outcome, Spool};
pub use watch::watch;
