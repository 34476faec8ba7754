//! Doors to people: what comes in as [`Incoming`], what goes out through a [`Channel`].

pub mod telegram;

use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock;
use crate::message::{Button, ChatRef, Command, Media, OutFile, Quoted, Sender};
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
    /// The name of the group; `None` when only the sender and we read that chat.
    pub group: Option<String>,
    /// Whether it is meant for us: always in private, in a group when it names us or answers us.
    pub addressed: bool,
    /// The channel's id of the message.
    pub message_id: String,
    /// The words.
    pub text: String,
    /// What came beside the words, in words: `location 52.52, 13.405`, `sticker 😀` …
    pub kind: Option<String>,
    /// Files that came with the words.
    pub media: Vec<Media>,
    /// What its files belong to: messages of one album are one message.
    pub album: Option<String>,
    /// The message that it answers.
    pub quoted: Option<Quoted>,
    /// Set when the text, or the button that was pressed, is a command of ours.
    pub command: Option<Command>,
    /// The channel's id of the press, when it is one: it waits for [`Channel::answer_press`].
    pub press: Option<String>,
    /// True when the words are not the sender's own.
    pub forwarded: bool,
    /// Whose they are then, by the name they show; not always known.
    pub forwarded_from: Option<String>,
    /// Whether it is a new wording of a message that came before.
    pub edited: bool,
}

/// Things that came in together. The channel is told of their arrival only after `done` was
/// answered.
#[derive(Debug)]
pub struct Batch {
    /// The bot and where its next poll begins; `None` when nobody polls.
    pub offset: Option<(i64, i64)>,
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

/// What is sent: words, files with words below them, or a reaction.
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
    /// Files, with where each lies; more than one go as an album.
    pub files: &'a [(OutFile, PathBuf)],
    /// An emoji put on the message `reply_to` instead of a message.
    pub reaction: Option<&'a str>,
    /// Buttons below the words, in rows; a message with files has none.
    pub buttons: &'a [Vec<Button>],
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

/// Why a file was not fetched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// It is larger than was allowed, or than the channel hands out.
    #[error("it is too large (at most {} MB)", max >> 20)]
    TooLarge {
        /// The most it may have, bytes.
        max: u64,
    },
    /// It may come another time.
    #[error("{0}")]
    Again(String),
    /// It will never come.
    #[error("{0}")]
    Never(String),
}

/// A door to people.
pub trait Channel: Send + Sync {
    /// Returns its name.
    fn name(&self) -> &'static str;

    /// Turns the agent's Markdown into messages; empty text into none.
    fn render(&self, markdown: &str) -> Vec<Rendered>;

    /// Turns words into messages that show them as they are.
    fn plain(&self, text: &str) -> Vec<Rendered>;

    /// Turns words into what stands below a file; `None` when they are too many.
    fn caption(&self, text: &str) -> Option<Rendered> {
        let _ = text;
        None
    }

    /// Sorts files into messages of one or more, in order.
    fn albums(&self, files: Vec<OutFile>) -> Vec<Vec<OutFile>> {
        files.into_iter().map(|file| vec![file]).collect()
    }

    /// Waits until a message to `chat` need not wait, so that what is sent then leaves at once.
    fn ready<'a>(&'a self, chat: &'a ChatRef) -> BoxFuture<'a, ()> {
        let _ = chat;
        Box::pin(async {})
    }

    /// Sends one message and returns the channel's id of it.
    fn send<'a>(&'a self, message: Outgoing<'a>) -> BoxFuture<'a, Result<String, SendError>>;

    /// Fetches a file that came with a message, of at most `max` bytes, into the new file `to`.
    fn fetch<'a>(
        &'a self,
        media: &'a Media,
        to: &'a Path,
        max: u64,
    ) -> BoxFuture<'a, Result<(), FetchError>> {
        let _ = (media, to, max);
        Box::pin(async { Err(FetchError::Never("this channel brings no files".to_owned())) })
    }

    /// Puts an emoji on a message as a sign that it was heard, or leaves it when there is much to say.
    fn mark<'a>(
        &'a self,
        chat: &'a ChatRef,
        message: &'a str,
        emoji: &'a str,
    ) -> BoxFuture<'a, Result<(), SendError>> {
        let _ = (chat, message, emoji);
        Box::pin(async { Err(unable()) })
    }

    /// Shows words that will be changed and removed again, quietly, and returns the channel's id of
    /// them.
    fn show<'a>(
        &'a self,
        chat: &'a ChatRef,
        text: &'a str,
    ) -> BoxFuture<'a, Result<String, SendError>> {
        let _ = (chat, text);
        Box::pin(async { Err(unable()) })
    }

    /// Changes words that are shown.
    fn change<'a>(
        &'a self,
        chat: &'a ChatRef,
        id: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), SendError>> {
        let _ = (chat, id, text);
        Box::pin(async { Err(unable()) })
    }

    /// Removes words that are shown.
    fn remove<'a>(
        &'a self,
        chat: &'a ChatRef,
        id: &'a str,
    ) -> BoxFuture<'a, Result<(), SendError>> {
        let _ = (chat, id);
        Box::pin(async { Err(unable()) })
    }

    /// Makes a message that was sent say `text` from now on, as it is and without a link in it, and takes
    /// its buttons away. May be done twice.
    fn close<'a>(
        &'a self,
        chat: &'a ChatRef,
        message: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), SendError>> {
        let _ = (chat, message, text);
        Box::pin(async { Err(unable()) })
    }

    /// Answers the press of a button with some words, at most 200 characters of them, that only who
    /// pressed it sees; empty ones only tell that it was heard. A failure is nobody's problem: what came
    /// of it is seen elsewhere.
    fn answer_press<'a>(&'a self, press: &'a str, text: &'a str) -> BoxFuture<'a, ()> {
        let _ = (press, text);
        Box::pin(async {})
    }

    /// Shows words as the draft `number` of an answer, which the answer replaces by itself.
    fn draft<'a>(
        &'a self,
        chat: &'a ChatRef,
        number: i64,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), SendError>> {
        let _ = (chat, number, text);
        Box::pin(async { Err(unable()) })
    }

    /// Shows for some seconds that an answer is being written.
    fn typing<'a>(&'a self, chat: &'a ChatRef) -> BoxFuture<'a, Result<(), SendError>>;

    /// Returns how it is.
    fn health(&self) -> Health;
}

/// What a channel answers that shows nothing but whole messages.
fn unable() -> SendError {
    SendError::Never {
        reason: "this channel shows nothing but messages".to_owned(),
        chat_is_there: true,
    }
}

/// How a channel is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// `connecting`, `ok`, or what is wrong.
    pub state: String,
    /// How messages come in: `polling`, `webhook`; empty where there is only one way.
    pub mode: &'static str,
    /// The last success, milliseconds since 1970 UTC.
    pub last_ok_at: Option<i64>,
    /// When something came in last, milliseconds since 1970 UTC.
    pub last_update_at: Option<i64>,
}

/// The health of a channel, shared by those who talk through it. Whoever shows it is told when it
/// changes.
#[derive(Debug)]
pub struct Pulse {
    health: Mutex<Health>,
    changed: Arc<Notify>,
}

impl Pulse {
    /// Begins as `connecting`, for messages that come in by `mode`.
    pub fn new(mode: &'static str, changed: Arc<Notify>) -> Self {
        let health = Health {
            state: "connecting".to_owned(),
            mode,
            last_ok_at: None,
            last_update_at: None,
        };
        Self {
            health: Mutex::new(health),
            changed,
        }
    }

    /// Notes a success.
    pub fn ok(&self) {
        self.set("ok", Some(clock::now_ms()));
    }

    /// Notes that something came in.
    pub fn update(&self) {
        self.health.lock().last_update_at = Some(clock::now_ms());
    }

    /// Notes what is wrong.
    pub fn wrong(&self, state: &str) {
        let last_ok_at = self.read().last_ok_at;
        self.set(state, last_ok_at);
    }

    /// Returns how it is.
    pub fn read(&self) -> Health {
        self.health.lock().clone()
    }

    fn set(&self, state: &str, last_ok_at: Option<i64>) {
        let mut health = self.health.lock();
        health.last_ok_at = last_ok_at;
        if health.state != state {
            state.clone_into(&mut health.state);
            self.changed.notify_one();
        }
    }
}
