//! The files of a message.

use serde_json::Value;

use super::fields::Fields;
use super::text::rich_blocks;
use crate::message::{FileIdentity, Media, MediaKind};
use crate::text;

/// The longest file name that is kept; file systems take no longer one.
const FILENAME_MAX: usize = 255;

/// Fields that hold one file each.
const FILES: &[(&str, MediaKind)] = &[
    ("animation", MediaKind::Animation),
    ("video", MediaKind::Video),
    ("video_note", MediaKind::VideoNote),
    ("voice", MediaKind::Voice),
    ("voice_note", MediaKind::Voice),
    ("audio", MediaKind::Audio),
    ("sticker", MediaKind::Sticker),
    ("document", MediaKind::Document),
];

/// Returns the files of a message: its own, and those in the blocks of a rich one.
pub(super) fn files(message: &Value) -> Vec<Media> {
    let rich = message.object("rich_message");
    let blocks = rich.map(rich_blocks).unwrap_or_default();
    let all = std::iter::once(message).chain(blocks);
    all.flat_map(own).collect()
}

fn own(message: &Value) -> Vec<Media> {
    let mut found: Vec<Media> = photo(message).into_iter().collect();
    for (field, kind) in FILES {
        // For old clients an animation is under `document`, too.
        let animated = |media: &Media| media.kind == MediaKind::Animation;
        let repeated = *field == "document" && found.iter().any(animated);
        let file = message.object(field).filter(|_| !repeated);
        found.extend(file.and_then(|file| media(file, *kind)));
    }
    found
}

/// Returns the largest of the sizes a picture comes in.
fn photo(message: &Value) -> Option<Media> {
    let side = |size: &Value, name| size.number(name).unwrap_or_default().clamp(0, 1 << 30);
    let sizes = message.list("photo").iter();
    let largest = sizes
        .filter(|size| size.text("file_id").is_some())
        .max_by_key(|size| side(size, "width") * side(size, "height"))?;
    media(largest, MediaKind::Photo)
}

/// Returns what a file is known by.
fn identity(file: &Value) -> Option<FileIdentity> {
    let thumbnail = file
        .object("thumbnail")
        .and_then(|small| small.text("file_id"));
    Some(FileIdentity {
        unique_id: file.text("file_unique_id")?.to_owned(),
        thumbnail: thumbnail.map(str::to_owned),
        sticker: file
            .text("set_name")
            .zip(file.text("emoji"))
            .map(|(set, name)| (set.to_owned(), name.to_owned())),
    })
}

/// Returns a file of a message.
pub(super) fn media(file: &Value, kind: MediaKind) -> Option<Media> {
    let line = |text: &str| text::shorten(&text::visible(text), FILENAME_MAX);
    let filename = file.text("file_name").or_else(|| file.text("title"));
    // A sticker that moves is a program or a film, and no picture.
    let moving = [("is_animated", "sticker.tgs"), ("is_video", "sticker.webm")];
    let moving = moving
        .into_iter()
        .find(|(field, _)| kind == MediaKind::Sticker && file.is_true(field));
    let filename = filename.or(moving.map(|(_, name)| name));
    let number = |name| file.number(name);
    Some(Media {
        kind,
        handle: file.text("file_id")?.to_owned(),
        filename: filename.map(line),
        content_type: file.text("mime_type").map(line),
        bytes: number("file_size").and_then(|bytes| bytes.try_into().ok()),
        seconds: number("duration").and_then(|seconds| seconds.try_into().ok()),
        identity: identity(file),
    })
}
