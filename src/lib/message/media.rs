//! Media in messages: pictures, voice messages, files.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What a file is for its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaKind {
    /// A picture.
    Photo,
    /// Speech, recorded for this message.
    Voice,
    /// Music, or any other recording.
    Audio,
    /// A film.
    Video,
    /// A short round film of somebody speaking.
    VideoNote,
    /// A film without sound that plays repeatedly.
    Animation,
    /// A small picture from a set.
    Sticker,
    /// Any other file.
    Document,
}

impl MediaKind {
    /// Returns what a person calls it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Photo => "photo",
            Self::Voice => "voice message",
            Self::Audio => "audio",
            Self::Video => "video",
            Self::VideoNote => "video note",
            Self::Animation => "animation",
            Self::Sticker => "sticker",
            Self::Document => "file",
        }
    }
}

impl MediaKind {
    /// Returns whether words may be below it.
    pub fn takes_words(self) -> bool {
        !matches!(self, Self::Sticker | Self::VideoNote)
    }

    /// Returns how a file of this name is shown to its reader.
    pub fn of_name(name: &str) -> Self {
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        match ending.to_ascii_lowercase().as_str() {
            "jpg" | "jpeg" | "png" | "webp" => Self::Photo,
            "gif" => Self::Animation,
            "ogg" | "oga" | "opus" => Self::Voice,
            "mp3" | "m4a" | "aac" | "wav" | "flac" => Self::Audio,
            "mp4" | "mov" => Self::Video,
            "tgs" => Self::Sticker,
            _ => Self::Document,
        }
    }
}

/// A file that came with a message and is still on the channel's server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// What it is.
    pub kind: MediaKind,
    /// The channel's handle, to fetch it by.
    pub handle: String,
    /// What the sender calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// Its MIME type, as the sender says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Its size, as the channel says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// How long it plays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u32>,
    /// What it is known by wherever it is sent, when the channel says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<FileIdentity>,
}

/// What a file is known by wherever it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// The channel's id of it, the same in every message.
    pub unique_id: String,
    /// The handle of a small picture of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thumbnail: Option<String>,
    /// The set of a sticker, and its name there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sticker: Option<(String, String)>,
}

/// A sticker of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sticker {
    /// What it goes by in its set: its emoji, with its number where another one before it has the same.
    pub name: String,
    /// Its file.
    pub media: Media,
}

/// A file on its way out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutFile {
    /// How it is shown.
    pub kind: MediaKind,
    /// Where it lies, below `state/downloads`.
    pub path: String,
    /// What it is called.
    pub filename: String,
    /// The channel's handle of a file that it has already; then there is none here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
}

/// The message that a message answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quoted {
    /// Who wrote it, by the name they show.
    pub who: String,
    /// The channel's id of them, when it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The channel's id of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// Whether we did.
    pub own: bool,
    /// Whether that answer of ours rests on untrusted text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
    /// Its words or what it is, cut; see the channel.
    pub text: String,
}

/// A picture as a model is sent it: base64, shared and not copied.
pub type Picture = Arc<str>;
