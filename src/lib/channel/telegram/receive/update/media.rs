//! The files of a message.

use super::json_fields::Fields;
use super::message_text;
use crate::message::{Media, MediaKind};
use crate::text;

/// The longest file name that is kept; file systems take no longer one.
const FILENAME_MAX: usize = 255;

/// Fields that hold one file each. An animation stands under `document`, too, for old programs.
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
pub(super) fn files(message: Fields<'_>) -> Vec<Media> {
    let rich = message
        .object("rich_message")
        .map(message_text::blocks)
        .unwrap_or_default();
    std::iter::once(message).chain(rich).flat_map(own).collect()
}

fn own(message: Fields<'_>) -> Vec<Media> {
    let mut found: Vec<Media> = photo(message).into_iter().collect();
    for (field, kind) in FILES {
        let again =
            *field == "document" && found.iter().any(|media| media.kind == MediaKind::Animation);
        let file = message.object(field).filter(|_| !again);
        found.extend(
            file.filter(|file| *kind != MediaKind::Sticker || is_picture(*file))
                .and_then(|file| media(file, *kind)),
        );
    }
    found
}

/// Returns true for a sticker that stands still: it is a picture, the others are small programs and
/// films.
fn is_picture(sticker: Fields<'_>) -> bool {
    !sticker.yes("is_animated") && !sticker.yes("is_video")
}

/// Returns the largest of the sizes a picture comes in.
fn photo(message: Fields<'_>) -> Option<Media> {
    let side = |size: Fields<'_>, name| size.number(name).unwrap_or_default().clamp(0, 1 << 30);
    let sizes = message
        .objects("photo")
        .filter(|size| size.text("file_id").is_some());
    let largest = sizes.max_by_key(|size| side(*size, "width") * side(*size, "height"))?;
    media(largest, MediaKind::Photo)
}

fn media(file: Fields<'_>, kind: MediaKind) -> Option<Media> {
    let line = |text: &str| text::shorten(&text::visible(text), FILENAME_MAX);
    Some(Media {
        kind,
        handle: file.text("file_id")?.to_owned(),
        filename: file
            .text("file_name")
            .or_else(|| file.text("title"))
            .map(line),
        content_type: file.text("mime_type").map(line),
        bytes: file
            .number("file_size")
            .and_then(|bytes| u64::try_from(bytes).ok()),
        seconds: file
            .number("duration")
            .and_then(|seconds| u32::try_from(seconds).ok()),
    })
}
