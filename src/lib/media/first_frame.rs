//! The first frame of a film or an animated sticker, extracted by ffmpeg if it is installed. ffmpeg reads bytes of strangers,
//! so it runs in the sandbox without network, and sees only this file.
//!
//! ```text
//! state/downloads/frame-ID/in        a copy of the film
//! state/downloads/frame-ID/out.png   what ffmpeg leaves; the directory goes when it ends
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::pictures::MAX_PICTURE;
use crate::sandbox;
use crate::sandbox::{Program, Root, Status};
use crate::sys::{ScratchDir, atomic};

/// How long ffmpeg may take; one picture is a matter of milliseconds.
const TIMEOUT: Duration = Duration::from_secs(10);
/// What is kept of what it says, bytes.
const MAX_OUTPUT: usize = 4 << 10;
/// What a shell answers when there is no such program (POSIX, 2.8.2).
const NOT_FOUND: i32 = 127;
/// At most 800 pixels wide: a model sees no more in a larger one.
const COMMAND: &str =
    "exec ffmpeg -nostdin -v error -y -i in -frames:v 1 -vf 'scale=min(800\\,iw):-2' out.png 2>&1";

/// Where ffmpeg runs.
#[derive(Debug, Clone)]
pub struct Films {
    /// Where it gets a directory for its work.
    pub scratch: PathBuf,
    /// The walls around ffmpeg.
    pub walls: Program,
}

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// It may be there another time: ffmpeg or the sandbox is missing, the disk is full.
    #[error("{0}")]
    Again(String),
    /// ffmpeg can do nothing with the file.
    #[error("ffmpeg cannot extract a picture from it: {0}")]
    Never(String),
}

impl Films {
    /// Writes the first picture of `film` to `to`, as PNG.
    ///
    /// # Errors
    /// See [`FrameError`].
    pub async fn first_frame(
        &self,
        film: &Path,
        to: &Path,
        cancel: &CancellationToken,
    ) -> Result<(), FrameError> {
        let again = |what: &str, error: &dyn std::fmt::Display| {
            FrameError::Again(format!("{what}: {error}"))
        };
        let (parent, film) = (self.scratch.clone(), film.to_owned());
        let made = crate::sys::blocking(move || {
            let scratch = ScratchDir::make(&parent, "frame")?;
            std::fs::copy(&film, scratch.path().join("in"))?;
            Ok::<_, std::io::Error>(scratch)
        });
        let scratch = made
            .await
            .map_err(|error| again("there is no place for a copy", &error))?;
        let spec = self
            .walls
            .spec(COMMAND.to_owned(), scratch.path(), TIMEOUT, MAX_OUTPUT);
        let ended = sandbox::run(spec, cancel.clone(), &|_| {}).await;
        let outcome = ended.map_err(|error| again("ffmpeg was not run", &error))?;
        match outcome.status {
            Status::Exited(0) => {}
            Status::Exited(NOT_FOUND) => {
                return Err(FrameError::Again("ffmpeg is not installed".to_owned()));
            }
            Status::Cancelled => return Err(FrameError::Again("it was stopped".to_owned())),
            _ => {
                let said = crate::text::shorten(outcome.output.trim(), 200);
                return Err(FrameError::Never(said));
            }
        }
        let to = to.to_owned();
        let kept = crate::sys::blocking(move || {
            let root = Root::open(scratch.path()).map_err(|error| error.to_string())?;
            let picture = root
                .read(Path::new("out.png"), MAX_PICTURE)
                .map_err(|error| error.to_string())?;
            drop(scratch);
            atomic::write(&to, &picture, atomic::Durability::Rename)
                .map_err(|error| error.to_string())
        });
        kept.await.map_err(FrameError::Never)
    }
}
