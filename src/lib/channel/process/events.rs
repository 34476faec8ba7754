//! Events for the process of a channel, through a FIFO: best effort, without waiting, and nothing depends on them.

use std::path::Path;

use nix::errno::Errno;
use nix::sys::stat::Mode;
use serde_json::Value;

use super::Told;
use crate::channel::SendError;
use crate::sys::Error;
use crate::sys::fifo;
use crate::text;

/// What of a preview is shown, characters: with its escapes it fits into one line of the FIFO.
const PREVIEW: usize = 500;

/// Makes the FIFO; it is not an error when it is there.
pub(super) fn make(path: &Path) -> Result<(), Error> {
    match nix::unistd::mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR) {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(error) => Err(Error::at("create", path)(error)),
    }
}

/// Returns as much of a text as is shown while it is written: its end.
pub(super) fn fit(text: &str) -> &str {
    text::tail(text, PREVIEW)
}

/// Writes an event; true when somebody reads.
pub(super) fn write(path: &Path, event: &Value) -> Result<bool, Error> {
    // A link would lead elsewhere.
    if std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink()) {
        return Ok(false);
    }
    let rung = fifo::ring(path, &event.to_string())?;
    Ok(rung != fifo::Rung::NoReader)
}

/// Writes an event for the reader; an error is only that nothing is shown.
pub(super) fn tell<'a>(path: &Path, event: &Value) -> Told<'a> {
    let told = match write(path, event) {
        Ok(true) => Ok(()),
        Ok(false) => Err("nobody reads the events of the channel".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    let told = told.map_err(|reason| SendError::Never {
        reason,
        chat_is_there: true,
    });
    Box::pin(std::future::ready(told))
}
