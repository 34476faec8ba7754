//! A file on its way to Telegram: opened before anything is sent, read from the disk while it is.

use std::fs::File;
use std::io::{ErrorKind, Seek};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt;
use reqwest::Body;
use reqwest::multipart::Part;
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

use super::api::Error;
use super::unsendable;
use crate::channel::SendError;
use crate::message::OutFile;

/// The largest file that the Bot API takes, bytes (core.telegram.org/bots/api#sending-files).
const MAX: u64 = 50 << 20;
/// Bytes read at once.
const CHUNK: usize = 64 << 10;
/// A call may take this long, and as much longer as its files need at 100 kB a second.
const TIMEOUT: Duration = Duration::from_secs(30);
const BYTES_PER_SEC: u64 = 100_000;

/// An open file.
pub(crate) struct Upload {
    file: File,
    name: String,
    /// How much of it is sent: its size when it was opened.
    pub(crate) bytes: u64,
}

impl Upload {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// When it cannot be read, now or ever, is empty or larger than Telegram takes.
    pub(crate) async fn open(file: &OutFile, path: &Path) -> Result<Self, SendError> {
        let unfit = |reason: &str| unsendable(&format!("{} {reason}", file.filename));
        let unreadable = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::NotADirectory => {
                unfit(&format!("cannot be read: {error}"))
            }
            _ => SendError::NotSent {
                reason: format!("{} cannot be read: {error}", file.filename),
                retry_after: None,
            },
        };
        let open = tokio::fs::File::open(path).await.map_err(unreadable)?;
        let meta = open.metadata().await.map_err(unreadable)?;
        match meta.len() {
            _ if !meta.is_file() => Err(unfit("is no file")),
            0 => Err(unfit("is empty")),
            bytes if bytes > MAX => Err(unfit("is larger than 50 MB")),
            bytes => Ok(Self {
                file: open.into_std().await,
                name: file.filename.clone(),
                bytes,
            }),
        }
    }

    /// Returns the same open file, to be read from its beginning. One of them is read at a time.
    pub(crate) fn again(&self) -> Result<Self, Error> {
        let rewound = self.file.try_clone().and_then(|mut file| {
            file.rewind()?;
            Ok(file)
        });
        let unreadable =
            |error| Error::Unreachable(format!("{} cannot be read: {error}", self.name));
        Ok(Self {
            file: rewound.map_err(unreadable)?,
            name: self.name.clone(),
            bytes: self.bytes,
        })
    }

    /// Returns it as a part of a form; what was read is noted in `progress`.
    pub(crate) fn into_part(self, progress: &Progress) -> Part {
        let read = progress.read.clone();
        // No more than was promised, should somebody be writing to it.
        let file = tokio::fs::File::from_std(self.file).take(self.bytes);
        let stream = ReaderStream::with_capacity(file, CHUNK)
            .inspect_ok(move |chunk| _ = read.fetch_add(chunk.len() as u64, Ordering::Relaxed));
        Part::stream_with_length(Body::wrap_stream(stream), self.bytes).file_name(self.name)
    }
}

/// How much of the files of one call was read.
pub(crate) struct Progress {
    read: Arc<AtomicU64>,
    total: u64,
}

impl Progress {
    pub(crate) fn of(files: &[(String, Upload)]) -> Self {
        Self {
            read: Arc::default(),
            total: files.iter().map(|(_, file)| file.bytes).sum(),
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns whether all was read, so that all may have been sent.
    pub(crate) fn finished(&self) -> bool {
        self.read.load(Ordering::Relaxed) >= self.total
    }
}

/// Returns how long moving so many bytes may take.
pub(crate) fn time_for(bytes: u64) -> Duration {
    TIMEOUT + Duration::from_secs(bytes.div_ceil(BYTES_PER_SEC))
}
