//! Doors to people: what comes in as [`Incoming`], what goes out through a [`Channel`].

pub mod telegram;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock;
use crate::message::{ChatRef, Command, Sender};
use crate::provider::BoxFuture;

/// Something that came in, not yet accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Incoming {
    /// The key by which it is known: `tg:<bot>:<update_id>`.
    pub key: String,
    /// Who wrote; `None` for what has no person behind it.
    pub sender: Option<Sender>,
    /// Where.
    pub chat: ChatRef,
    /// Whether only the sender and we read that chat.
    pub private: bool,
    /// The channel's id of the message.
    pub message_id: String,
    /// The words.
    pub text: String,
    /// What came beside the words: `photo`, `location` …
    pub kind: Option<String>,
    /// Set when the text is a command of ours.
    pub command: Option<Command>,
    /// True when the words are somebody else's, passed on.
    pub forwarded: bool,
}

/// Things that came in together. The channel is told of their arrival only after `done` was
/// answered.
#[derive(Debug)]
pub struct Batch {
    /// The bot and where its next poll begins.
    pub offset: (i64, i64),
    /// What came, in order.
    pub items: Vec<Incoming>,
    /// To be answered when all of it is on the disk.
    pub done: tokio::sync::oneshot::Sender<()>,
}

/// One message ready to be stored and sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// In the channel's own markup.
    pub markup: Option<String>,
    /// Without markup.
    pub plain: String,
}

/// What is sent.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// Where.
    pub chat: &'a ChatRef,
    /// The message it answers.
    pub reply_to: Option<&'a str>,
    /// The channel's markup; without it `plain` is sent.
    pub markup: Option<&'a str>,
    /// The words.
    pub plain: &'a str,
    /// Whether an earlier try may have arrived: it is marked.
    pub resent: bool,
}

/// Why a message was not sent, by what is to be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// It surely did not arrive: try again, after this time if it is named.
    #[error("{reason}")]
    NotSent {
        /// Why.
        reason: String,
        /// When the channel wants to hear from us again.
        retry_after: Option<Duration>,
    },
    /// The markup was refused: send the plain words.
    #[error("{0}")]
    Markup(String),
    /// Nobody can say whether it arrived.
    #[error("{0}")]
    Unknown(String),
    /// It will never arrive.
    #[error("{reason}")]
    Never {
        /// Why.
        reason: String,
        /// Whether another message may still reach the chat.
        chat_is_there: bool,
    },
}

/// A door to people.
pub trait Channel: Send + Sync {
    /// Returns its name.
    fn name(&self) -> &'static str;

    /// Turns the agent's Markdown into messages; empty text into none.
    fn render(&self, markdown: &str) -> Vec<Rendered>;

    /// Turns words into messages that show them as they are.
    fn plain(&self, text: &str) -> Vec<Rendered>;

    /// Sends one message and returns the channel's id of it.
    fn send<'a>(&'a self, message: Outgoing<'a>) -> BoxFuture<'a, Result<String, SendError>>;

    /// Shows for some seconds that an answer is being written.
    fn typing<'a>(&'a self, chat: &'a ChatRef) -> BoxFuture<'a, Result<(), SendError>>;

    /// Returns how it is.
    fn health(&self) -> Health;
}

/// How a channel is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// `connecting`, `ok`, or what is wrong.
    pub state: String,
    /// The last success, milliseconds since 1970 UTC.
    pub last_ok_at: Option<i64>,
}

/// The health of a channel, shared by those who talk through it. Whoever shows it is told when it
/// changes.
#[derive(Debug)]
pub struct Pulse {
    health: Mutex<Health>,
    changed: Arc<Notify>,
}

impl Pulse {
    /// Begins as `connecting`.
    pub fn new(changed: Arc<Notify>) -> Self {
        Self { health: Mutex::new(Health { state: "connecting".to_owned(), last_ok_at: None }), changed }
    }

    /// Notes a success.
    pub fn ok(&self) {
        self.set("ok", Some(clock::now_ms()));
    }

    /// Notes what is wrong.
    pub fn wrong(&self, state: &str) {
        let last_ok_at = self.read().last_ok_at;
        self.set(state, last_ok_at);
    }

    /// Returns how it is.
    pub fn read(&self) -> Health {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, state: &str, last_ok_at: Option<i64>) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.last_ok_at = last_ok_at;
        if health.state != state {
            state.clone_into(&mut health.state);
            self.changed.notify_one();
        }
    }
}
