//! Files out: one with words below it, or several as an album.
//!
//! A picture that Telegram will not show as one (larger than 10 MB, of an odd shape, or of a format
//! it cannot read) goes out as a file; in an album all of it does, because files stand among files only.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::api::Error;
use super::classify_error;
use super::classify_error::classify;
use super::messages::{message_id, unsendable};
use super::split::units;
use super::transport::To;
use super::upload::{Upload, time_for};
use crate::channel::telegram::Telegram;
use crate::channel::{Outgoing, SendError};
use crate::message::{MediaKind, OutFile};

/// The longest words below a file, UTF-16 units after parsing (core.telegram.org/bots/api#sendphoto).
pub(crate) const CAPTION: usize = 1024;
/// The largest picture that is shown as one (the same page, "Sending files").
const PHOTO_MAX: u64 = 10 << 20;
/// The most files in an album (core.telegram.org/bots/api#sendmediagroup).
const ALBUM: usize = 10;

impl Telegram {
    pub(crate) async fn send_files(&self, message: Outgoing<'_>) -> Result<String, SendError> {
        let to = To::new(message.chat, message.reply_to)?;
        let caption = Caption::of(&message);
        let files = message.files;
        check(files, &caption)?;
        let marked_up = message.markup.is_some();
        let mut open = Vec::with_capacity(files.len());
        for (file, path) in files {
            open.push((file.kind, Upload::open(file, path).await?));
        }
        let photos = || open.iter().filter(|(kind, _)| *kind == MediaKind::Photo);
        let as_documents = photos().any(|(_, file)| file.bytes > PHOTO_MAX);
        let (caption, open) = (&caption, &open);
        let send =
            |as_documents| self.reach(to, move |to| self.upload(to, open, caption, as_documents));
        let mut sent = send(as_documents).await;
        if let Err(error) = &sent
            && !as_documents
            && classify_error::is_no_photo(error)
            && photos().next().is_some()
        {
            tracing::info!(%error, "a picture goes out as a file");
            sent = send(true).await;
        }
        let result = sent.map_err(|error| classify(&error, marked_up))?;
        message_id(result.get(0).unwrap_or(&result))
    }

    async fn upload(
        &self,
        to: To,
        files: &[(MediaKind, Upload)],
        caption: &Caption,
        as_documents: bool,
    ) -> Result<Value, Error> {
        let kind = |kind| {
            if as_documents {
                MediaKind::Document
            } else {
                kind
            }
        };
        let timeout = time_for(files.iter().map(|(_, file)| file.bytes).sum());
        let mut fields = vec![("chat_id", to.chat.to_string())];
        fields.extend(
            to.topic()
                .map(|topic| ("message_thread_id", topic.0.0.to_string())),
        );
        let reply = to
            .reply()
            .and_then(|reply| serde_json::to_string(&reply).ok());
        fields.extend(reply.map(|reply| ("reply_parameters", reply)));
        if let [(of, file)] = files {
            let (method, field) = method(kind(*of));
            fields.extend(caption.fields());
            if kind(*of) == MediaKind::Video {
                fields.push(("supports_streaming", "true".to_owned()));
            }
            return self
                .api
                .upload(
                    method,
                    fields,
                    vec![(field.to_owned(), file.again().await?)],
                    timeout,
                )
                .await;
        }
        let (mut media, mut parts) = (
            Vec::with_capacity(files.len()),
            Vec::with_capacity(files.len()),
        );
        for (number, (of, file)) in files.iter().enumerate() {
            let name = format!("file{number}");
            let mut item =
                json!({"type": method(kind(*of)).1, "media": format!("attach://{name}")});
            if number == 0 {
                caption
                    .fields()
                    .for_each(|(name, value)| item[name] = Value::String(value));
            }
            media.push(item);
            parts.push((name, file.again().await?));
        }
        fields.push(("media", Value::Array(media).to_string()));
        self.api
            .upload("sendMediaGroup", fields, parts, timeout)
            .await
    }
}

/// The words below a file.
struct Caption {
    words: String,
    marked_up: bool,
}

impl Caption {
    /// Returns the words of a message, marked when it may have arrived already and the mark fits.
    fn of(message: &Outgoing<'_>) -> Self {
        let words = message.markup.unwrap_or(message.plain);
        let mark = if words.is_empty() {
            super::messages::MARK.trim_end()
        } else {
            super::messages::MARK
        };
        let takes_words = message
            .files
            .iter()
            .all(|(file, _)| file.kind.takes_words());
        let marked = message.resent && takes_words && units(message.plain) + units(mark) <= CAPTION;
        let words = if marked {
            format!("{mark}{words}")
        } else {
            words.to_owned()
        };
        Self {
            marked_up: message.markup.is_some() && !words.is_empty(),
            words,
        }
    }

    fn fields(&self) -> impl Iterator<Item = (&'static str, String)> {
        let words = (!self.words.is_empty()).then(|| ("caption", self.words.clone()));
        words
            .into_iter()
            .chain(self.marked_up.then(|| ("parse_mode", "HTML".to_owned())))
    }
}

/// Sorts files into messages: neighbours of one sort are an album.
pub(crate) fn albums(files: Vec<OutFile>) -> Vec<Vec<OutFile>> {
    // Files of one sort may stand in one album; the rest stand alone.
    let sort = |file: &OutFile| match file.kind {
        MediaKind::Photo | MediaKind::Video => Some(MediaKind::Photo),
        MediaKind::Audio | MediaKind::Document => Some(file.kind),
        MediaKind::Voice | MediaKind::VideoNote | MediaKind::Animation | MediaKind::Sticker => None,
    };
    let mut albums: Vec<Vec<OutFile>> = Vec::new();
    for file in files {
        let joins = |album: &Vec<OutFile>| {
            album.len() < ALBUM
                && sort(&file).is_some()
                && album.last().is_some_and(|last| sort(last) == sort(&file))
        };
        match albums.last_mut().filter(|album| joins(album)) {
            Some(album) => album.push(file),
            None => albums.push(vec![file]),
        }
    }
    albums
}

/// Refuses what no call can carry: the caller should not have asked.
fn check(files: &[(OutFile, PathBuf)], caption: &Caption) -> Result<(), SendError> {
    if let Some((file, _)) = files
        .iter()
        .find(|(file, _)| !file.kind.takes_words() && !caption.words.is_empty())
    {
        return Err(unsendable(&format!(
            "a {} takes no words",
            file.kind.as_str()
        )));
    }
    if files.len() > ALBUM {
        return Err(unsendable("an album has at most 10 files"));
    }
    let of = |kinds: &[MediaKind]| files.iter().all(|(file, _)| kinds.contains(&file.kind));
    let fit = files.len() == 1
        || of(&[MediaKind::Photo, MediaKind::Video])
        || of(&[MediaKind::Audio])
        || of(&[MediaKind::Document]);
    if fit {
        Ok(())
    } else {
        Err(unsendable(
            "in an album are pictures and videos, or music, or other files",
        ))
    }
}

/// Returns the method that sends a file alone and the name of the file in it.
fn method(kind: MediaKind) -> (&'static str, &'static str) {
    match kind {
        MediaKind::Photo => ("sendPhoto", "photo"),
        MediaKind::Voice => ("sendVoice", "voice"),
        MediaKind::Audio => ("sendAudio", "audio"),
        MediaKind::Video => ("sendVideo", "video"),
        MediaKind::VideoNote => ("sendVideoNote", "video_note"),
        MediaKind::Animation => ("sendAnimation", "animation"),
        MediaKind::Sticker => ("sendSticker", "sticker"),
        MediaKind::Document => ("sendDocument", "document"),
    }
}
