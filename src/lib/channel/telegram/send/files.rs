//! Sends files: one with a caption, or several as an album.
//!
//! A picture that Telegram does not show as one (larger than 10 MB, of an extreme shape, or in a format that it cannot
//! read) is sent as a file; in an album then all pictures are, because an album of files may contain nothing else.

use serde_json::{Value, json};

use super::api::{Error, Request};
use super::call::{Target, Turn};
use super::classify_error::{classify, may_go_as_file};
use super::split::units;
use super::upload::Upload;
use super::{MARK, message_id, unsendable};
use crate::channel::telegram::Telegram;
use crate::channel::{Outgoing, SendError};
use crate::message::{MediaKind, OutFile};

/// The longest caption, UTF-16 units after parsing (core.telegram.org/bots/api#sendphoto).
pub(crate) const CAPTION: usize = 1024;
/// The largest picture that is shown as one (the same page, "Sending files").
const PHOTO_MAX: u64 = 10 << 20;
/// The most files in an album (core.telegram.org/bots/api#sendmediagroup).
const ALBUM: usize = 10;

impl Telegram {
    pub(crate) async fn send_files(&self, message: Outgoing<'_>) -> Result<String, SendError> {
        if let [
            (
                OutFile {
                    kind,
                    handle: Some(handle),
                    ..
                },
                _,
            ),
        ] = message.files
        {
            let (method, field) = method(*kind);
            return self.send_handle(message, (method, field, handle)).await;
        }
        let target = Target::new(message.chat, message.reply_to)?;
        let caption = caption(&message)?;
        let all = message.files.iter().map(|(file, _)| file.clone());
        if albums(all.collect()).len() > 1 {
            return Err(unsendable(
                "in an album are pictures and videos, or music, or other files, at most 10",
            ));
        }
        let mut files = Vec::with_capacity(message.files.len());
        for (file, path) in message.files {
            files.push((file.kind, Upload::open(file, path).await?));
        }
        let as_documents = files
            .iter()
            .any(|(kind, file)| *kind == MediaKind::Photo && file.bytes > PHOTO_MAX);
        let (files, caption) = (&files, &caption);
        let send = |as_documents| {
            let request = move |target| request(target, files, caption, as_documents);
            self.call_in_chat(target, Turn::Wait, request)
        };
        let mut sent = send(as_documents).await;
        if let Err(error) = &sent
            && !as_documents
            && files.iter().any(|(kind, _)| may_go_as_file(error, *kind))
        {
            tracing::info!(%error, "a picture or a voice message is sent as a file");
            sent = send(true).await;
        }
        let result = sent.map_err(|error| classify(&error, message.markup.is_some()))?;
        message_id(result.get(0).unwrap_or(&result))
    }
}

/// Returns the request that sends these files.
fn request(
    target: Target,
    files: &[(MediaKind, Upload)],
    caption: &Value,
    as_documents: bool,
) -> Result<Request, Error> {
    let kind = |kind| {
        if as_documents {
            MediaKind::Document
        } else {
            kind
        }
    };
    let mut parameters = json!({
        "chat_id": target.chat,
        "message_thread_id": target.topic(),
        "reply_parameters": target.reply(),
    });
    if let [(of, file)] = files {
        let (method, field) = method(kind(*of));
        add(&mut parameters, caption);
        if field == "video" {
            parameters["supports_streaming"] = json!(true);
        }
        let files = vec![(field.to_owned(), file.again()?)];
        return Ok(Request::new(method, parameters).with_files(files));
    }
    let mut media = Vec::with_capacity(files.len());
    let mut parts = Vec::with_capacity(files.len());
    for (number, (of, file)) in files.iter().enumerate() {
        let name = format!("file{number}");
        let mut item = json!({"type": method(kind(*of)).1, "media": format!("attach://{name}")});
        if number == 0 {
            add(&mut item, caption);
        }
        media.push(item);
        parts.push((name, file.again()?));
    }
    parameters["media"] = Value::Array(media);
    Ok(Request::new("sendMediaGroup", parameters).with_files(parts))
}

/// Adds the fields of one object to another.
fn add(to: &mut Value, fields: &Value) {
    for (name, value) in fields.as_object().into_iter().flatten() {
        to[name] = value.clone();
    }
}

/// Returns the parameters of the caption, marked when the message may have arrived already and the
/// mark fits.
///
/// # Errors
/// When one of the files takes no caption, which would be lost.
fn caption(message: &Outgoing<'_>) -> Result<Value, SendError> {
    let text = message.markup.unwrap_or(message.plain);
    let mut files = message.files.iter();
    if let Some((file, _)) = files.find(|(file, _)| !file.kind.takes_words()) {
        return match text {
            "" => Ok(Value::Null),
            _ => Err(unsendable(&format!(
                "a {} takes no words",
                file.kind.as_str()
            ))),
        };
    }
    let mark = if text.is_empty() {
        MARK.trim_end()
    } else {
        MARK
    };
    let marked = message.resent && units(message.plain) + units(mark) <= CAPTION;
    let text = format!("{}{text}", if marked { mark } else { "" });
    let mut caption = json!({});
    if !text.is_empty() {
        caption["caption"] = json!(text);
        if message.markup.is_some() {
            caption["parse_mode"] = json!("HTML");
        }
    }
    Ok(caption)
}

/// Returns the sort of files that may share an album with this kind; `None` when it goes alone.
fn album_kind(kind: MediaKind) -> Option<MediaKind> {
    match kind {
        MediaKind::Photo | MediaKind::Video => Some(MediaKind::Photo),
        MediaKind::Audio | MediaKind::Document => Some(kind),
        MediaKind::Voice | MediaKind::VideoNote | MediaKind::Animation | MediaKind::Sticker => None,
    }
}

/// Sorts files into messages: neighbours of one sort are an album.
pub(crate) fn albums(files: Vec<OutFile>) -> Vec<Vec<OutFile>> {
    let mut albums: Vec<Vec<OutFile>> = Vec::new();
    for file in files {
        let sort = album_kind(file.kind);
        let joins = |album: &&mut Vec<OutFile>| {
            let last = album.last().and_then(|last| album_kind(last.kind));
            album.len() < ALBUM && sort.is_some() && last == sort
        };
        match albums.last_mut().filter(joins) {
            Some(album) => album.push(file),
            None => albums.push(vec![file]),
        }
    }
    albums
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
