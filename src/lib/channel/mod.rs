//! Channels: messages from people are [`Incoming`], messages to them go through a [`Channel`].

pub mod process;
pub mod telegram;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::control::Outcome;
use crate::message::{
    Attachment, Button, ChatRef, Command, Media, OutFile, Quoted, Sender, Sticker,
};
use crate::provider::BoxFuture;
pub(crate) use telegram::{split_markdown, split_plain};

/// A received message or button press, not yet accepted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Incoming {
    /// The idempotency key: `tg:<bot>:<update_id>`, `ch:<channel>:…`.
    pub key: String,
    /// What it says, in short, where a channel may use a key twice: the same key with another digest is refused.
    pub digest: Option<String>,
    /// Who wrote; `None` for what has no person behind it.
    pub sender: Option<Sender>,
    /// Where.
    pub chat: ChatRef,
    /// The title of the group; `None` when only the sender and we read that chat.
    pub group: Option<String>,
    /// Whether it is meant for us: always in private, in a group when it names us or answers us.
    pub addressed: bool,
    /// The channel's id of the message.
    pub message_id: String,
    /// The text; empty when there is none.
    pub text: String,
    /// A description of content other than text: `location 52.52, 13.405`, `sticker 😀` …
    pub kind: Option<String>,
    /// Files that came with the text and are still at the channel.
    pub media: Vec<Media>,
    /// Files that came with the text and are ours already.
    pub attachments: Vec<Attachment>,
    /// The album of its files: messages of one album are one message.
    pub album: Option<String>,
    /// The message that it answers.
    pub quoted: Option<Quoted>,
    /// Set when the text, or the button that was pressed, is a command of ours.
    pub command: Option<Command>,
    /// The channel's id of a press: it waits for [`Channel::answer_press`].
    pub press: Option<String>,
    /// True when the text is not the sender's own.
    pub forwarded: bool,
    /// Whose they are then, by the name they show; not always known.
    pub forwarded_from: Option<String>,
    /// Whether the sender is unverified; then the id belongs to no person.
    pub unverified: bool,
    /// Whether it is a new version of an earlier message.
    pub edited: bool,
    /// The new id of the group, when that is all it says.
    pub moved_to: Option<String>,
    /// When it was written by the channel's clock, milliseconds since 1970 UTC, where that is known.
    pub sent_at: Option<i64>,
}

/// A batch of received messages. It is acknowledged to the channel only after `done` was answered.
#[derive(Debug)]
pub struct Batch {
    /// The bot and where its next poll begins; `None` when nobody polls.
    pub offset: Option<(i64, i64)>,
    /// The messages, in order.
    pub items: Vec<Incoming>,
    /// To be answered when all of it is on disk.
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

/// What is sent: a text, files with a caption, or a reaction.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// What it is known by wherever it is sent again; a file name. Empty for what is sent only once.
    pub key: &'a str,
    /// Where.
    pub chat: &'a ChatRef,
    /// The message it answers.
    pub reply_to: Option<&'a str>,
    /// The channel's markup; without it `plain` is sent.
    pub markup: Option<&'a str>,
    /// The text, or the caption of the files.
    pub plain: &'a str,
    /// Files, with their paths; more than one go as an album.
    pub files: &'a [(OutFile, PathBuf)],
    /// An emoji put on the message `reply_to` instead of a message.
    pub reaction: Option<&'a str>,
    /// Buttons below the text, in rows; a message with files has none.
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
        /// How long the channel asks us to wait.
        retry_after: Option<Duration>,
    },
    /// The markup was refused: send the plain text.
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

/// The outcome of a call of a channel.
pub type SendFuture<'a, T = ()> = BoxFuture<'a, Result<T, SendError>>;

/// A way to talk to people. What a channel does not do is left to the defaults.
pub trait Channel: Send + Sync {
    /// Returns its name.
    fn name(&self) -> &str;

    /// Turns the agent's Markdown into messages; empty text into none.
    fn render(&self, markdown: &str) -> Vec<Rendered>;

    /// Turns a text into messages that show it as it is.
    fn plain(&self, text: &str) -> Vec<Rendered>;

    /// Turns a text into the caption of a file; `None` when it is too long.
    fn caption(&self, _text: &str) -> Option<Rendered> {
        None
    }

    /// Returns whether a message may have files.
    fn takes_files(&self) -> bool {
        true
    }

    /// Sorts files into messages of one or more, in order.
    fn albums(&self, files: Vec<OutFile>) -> Vec<Vec<OutFile>> {
        files.into_iter().map(|file| vec![file]).collect()
    }

    /// Waits until a message to `chat` need not wait, so that what is sent then leaves at once.
    fn ready<'a>(&'a self, _chat: &'a ChatRef) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    /// Sends one message and returns the channel's id of it.
    fn send<'a>(&'a self, message: Outgoing<'a>) -> SendFuture<'a, String>;

    /// Downloads a file that came with a message, of at most `max` bytes, into the new file `to`.
    fn fetch<'a>(
        &'a self,
        _media: &'a Media,
        _to: &'a Path,
        _max: u64,
    ) -> BoxFuture<'a, Result<(), FetchError>> {
        Box::pin(async { Err(FetchError::Never("this channel brings no files".to_owned())) })
    }

    /// Returns a sticker; `None` when its set has none of that name.
    fn sticker<'a>(
        &'a self,
        _set: &'a str,
        _name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Sticker>, FetchError>> {
        Box::pin(async { Err(FetchError::Never("this channel has no stickers".to_owned())) })
    }

    /// Returns the stickers of a set, in its order.
    fn stickers<'a>(&'a self, _set: &'a str) -> BoxFuture<'a, Result<Vec<Sticker>, FetchError>> {
        Box::pin(async { Err(FetchError::Never("this channel has no stickers".to_owned())) })
    }

    /// Puts an emoji on a message as a sign that it arrived; leaves it out when the chat is busy.
    fn mark<'a>(
        &'a self,
        _chat: &'a ChatRef,
        _message: &'a str,
        _emoji: &'a str,
    ) -> SendFuture<'a> {
        unable()
    }

    /// Shows a preview, a message without a notification that is changed and removed again, and returns
    /// the channel's id of it.
    fn show<'a>(&'a self, _chat: &'a ChatRef, _text: &'a str) -> SendFuture<'a, String> {
        unable()
    }

    /// Changes a preview.
    fn change<'a>(&'a self, _chat: &'a ChatRef, _id: &'a str, _text: &'a str) -> SendFuture<'a> {
        unable()
    }

    /// Removes a preview.
    fn remove<'a>(&'a self, _chat: &'a ChatRef, _id: &'a str) -> SendFuture<'a> {
        unable()
    }

    /// Makes a message that was sent say `text` from now on, as it is and without a link in it, and takes
    /// its buttons away. May be done twice.
    fn close<'a>(
        &'a self,
        _chat: &'a ChatRef,
        _message: &'a str,
        _text: &'a str,
    ) -> SendFuture<'a> {
        unable()
    }

    /// Answers the press of a button with a text of at most 200 characters that only who pressed it
    /// sees; an empty one only confirms it. A failure is ignored: the effect is seen elsewhere.
    fn answer_press<'a>(&'a self, _press: &'a str, _text: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    /// Shows a text as the draft `number` of an answer, which the answer replaces by itself.
    fn draft<'a>(&'a self, _chat: &'a ChatRef, _number: i64, _text: &'a str) -> SendFuture<'a> {
        unable()
    }

    /// Shows for some seconds that an answer is being written.
    fn typing<'a>(&'a self, chat: &'a ChatRef) -> SendFuture<'a>;

    /// Returns how it is.
    fn health(&self) -> Health;

    /// Returns true when what it was given to send is sent also while the daemon is not there: what became of it is
    /// learnt later, and nobody needs to wait for it at the end.
    fn outlives_us(&self) -> bool {
        false
    }

    /// Returns the keys of messages that it was given before the daemon last ended, and of which it can still say what
    /// becomes of them. To be asked once, before anything is sent.
    fn in_hand(&self) -> Vec<String> {
        Vec::new()
    }

    /// Takes word of what became of the message `key`.
    fn acknowledge(&self, _key: &str, _outcome: Outcome) {}

    /// Notes that its process brought something.
    fn heard(&self) {}

    /// Shows who wrote a message that it was read. A failure is ignored.
    fn read(&self, _chat: &ChatRef, _message: &str) {}
}

/// What a channel answers that sends nothing but whole messages.
fn unable<T: Send + 'static>() -> SendFuture<'static, T> {
    let reason = "this channel shows nothing but messages".to_owned();
    Box::pin(std::future::ready(Err(SendError::Never {
        reason,
        chat_is_there: true,
    })))
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
    /// The time of the last received message, milliseconds since 1970 UTC.
    pub last_update_at: Option<i64>,
}
