//! Fetches files from a channel's server into `state/downloads/<id>/`.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use crate::channel::{Channel, FetchError};
use crate::message::{Media, MediaKind};
use crate::{net, text};

/// The largest file that is fetched: what Telegram's Bot API hands out.
pub(crate) const MAX_FETCH: u64 = 20 << 20;
/// Tries next to the first, and the waiting between them.
const REPEATS: u32 = 2;
const BACKOFF: (Duration, Duration) = if cfg!(test) {
    (Duration::ZERO, Duration::ZERO)
} else {
    (Duration::from_secs(1), Duration::from_secs(10))
};
/// One try; a server that stands still holds no lane up forever.
const PATIENCE: Duration = Duration::from_secs(120);
/// Signs that ids and names of files keep.
const SIGNS: &str = "._:-";

/// Returns where a file lies, below `downloads`, having fetched it unless an earlier run of the turn
/// did. `id` is the message's and `number` the file's place in it.
///
/// # Errors
/// Why it is not there, in a person's words.
pub(crate) async fn fetch(
    channel: &dyn Channel,
    downloads: &Path,
    id: &str,
    number: usize,
    media: &Media,
) -> Result<String, String> {
    let own = text::file_name(id, SIGNS);
    let name = format!(
        "{number}-{}",
        text::tail(&text::file_name(name(media), SIGNS), 60)
    );
    let there = downloads.join(&own).join(&name);
    let path = format!("{own}/{name}");
    if there.is_file() {
        return Ok(path);
    }
    let trouble = |error: std::io::Error| format!("it cannot be kept: {error}");
    let dir = downloads.join(&own);
    let create = move || DirBuilder::new().mode(0o700).recursive(true).create(dir);
    crate::sys::blocking(create).await.map_err(trouble)?;
    let draft = there.with_file_name(format!(".{name}.part"));
    let fetched = tries(channel, media, &draft).await;
    // A sync of 20 MB takes seconds on a slow disk.
    let work = move || {
        let kept = fetched.and_then(|()| keep(&draft, &there).map_err(trouble));
        if kept.is_err() {
            // What a failed try left; nothing, when it left nothing.
            let _ = std::fs::remove_file(&draft);
        }
        kept
    };
    crate::sys::blocking(work).await.map(|()| path)
}

async fn tries(channel: &dyn Channel, media: &Media, draft: &Path) -> Result<(), String> {
    let mut attempt = 0;
    loop {
        // What an earlier try, or a crash, left: the channel writes a new file.
        let _ = std::fs::remove_file(draft);
        let fetched = tokio::time::timeout(PATIENCE, channel.fetch(media, draft, MAX_FETCH)).await;
        let why = match fetched {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(FetchError::Again(why))) => why,
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => format!("no data for {} s", PATIENCE.as_secs()),
        };
        if attempt == REPEATS {
            return Err(why);
        }
        tracing::warn!(
            why,
            attempt,
            "cannot record a fetched file; it is fetched again"
        );
        tokio::time::sleep(net::backoff(attempt, BACKOFF.0, BACKOFF.1)).await;
        attempt += 1;
    }
}

/// Gives a whole file its name.
fn keep(draft: &Path, there: &Path) -> std::io::Result<()> {
    let file = OpenOptions::new().read(true).open(draft)?;
    if file.metadata()?.len() > MAX_FETCH {
        return Err(std::io::Error::other(format!(
            "it is larger than {} MB",
            MAX_FETCH >> 20
        )));
    }
    file.set_permissions(Permissions::from_mode(0o600))?;
    // Or a power cut could leave the name of a file without its content, which would be taken for it.
    file.sync_all()?;
    std::fs::rename(draft, there)
}

/// Returns what it is called, or would be.
pub(crate) fn name(media: &Media) -> &str {
    media
        .filename
        .as_deref()
        .filter(|name| !name.is_empty())
        .unwrap_or(match media.kind {
            MediaKind::Photo => "photo.jpg",
            MediaKind::Voice => "voice.ogg",
            MediaKind::Audio => "audio.mp3",
            MediaKind::Video | MediaKind::Animation => "video.mp4",
            MediaKind::VideoNote => "video_note.mp4",
            MediaKind::Sticker => "sticker.webp",
            MediaKind::Document => "file",
        })
}

#[cfg(test)]
mod tests;
