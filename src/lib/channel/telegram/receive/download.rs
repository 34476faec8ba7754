//! Files in: what came with a message is fetched from Telegram's server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use teloxide::payloads::GetFile;
use teloxide::types::FileId;
use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout_at};

use crate::channel::FetchError;
use crate::channel::telegram::Telegram;
use crate::channel::telegram::send::api::{Error, reason};
use crate::channel::telegram::send::classify_error::says;
use crate::channel::telegram::send::upload::time_for;
use crate::message::Media;

/// The largest file that the Bot API hands out, bytes (core.telegram.org/bots/api#getfile).
const HANDED_OUT: u64 = 20 << 20;
const TIMEOUT: Duration = Duration::from_secs(30);

impl Telegram {
    /// Fetches a file into the new file `to`, which is gone again when it fails.
    pub(crate) async fn fetch_file(
        &self,
        media: &Media,
        to: &Path,
        max: u64,
    ) -> Result<(), FetchError> {
        let payload = GetFile::new(FileId(media.handle.clone()));
        let answer = self
            .in_turn(&payload, TIMEOUT)
            .await
            .map_err(|error| meaning(&error, max))?;
        let Some(path) = answer.get("file_path").and_then(Value::as_str) else {
            return Err(FetchError::Never(
                "Telegram names no place of the file".to_owned(),
            ));
        };
        let partial = Partial::create(to).await?;
        self.load(&segments(path)?, partial, max).await
    }

    /// Loads a file; one that comes too slowly is given up.
    async fn load(&self, path: &[&str], mut partial: Partial, max: u64) -> Result<(), FetchError> {
        let begun = Instant::now();
        let too_slow = |_| FetchError::Again("the file came too slowly from Telegram".to_owned());
        let begin = timeout_at(begun + time_for(0), self.api.file(path))
            .await
            .map_err(too_slow)?;
        let mut response = begin.map_err(|error| meaning(&error, max))?;
        let mut got = 0;
        // What the server says about the size is not believed: it is counted.
        while let Some(piece) = timeout_at(begun + time_for(got), response.chunk())
            .await
            .map_err(too_slow)?
            .map_err(|error| {
                FetchError::Again(format!(
                    "the file broke off: {}",
                    reason(&error.without_url())
                ))
            })?
        {
            got += piece.len() as u64;
            if got > max {
                return Err(FetchError::TooLarge { max });
            }
            partial.write(&piece).await?;
        }
        partial.keep().await
    }
}

/// A file that is not whole yet; dropped, it is gone.
struct Partial {
    path: PathBuf,
    file: File,
    whole: bool,
}

impl Partial {
    async fn create(path: &Path) -> Result<Self, FetchError> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .await
            .map_err(|error| ours(&error))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            whole: false,
        })
    }

    async fn write(&mut self, piece: &[u8]) -> Result<(), FetchError> {
        self.file
            .write_all(piece)
            .await
            .map_err(|error| ours(&error))
    }

    async fn keep(mut self) -> Result<(), FetchError> {
        self.file.flush().await.map_err(|error| ours(&error))?;
        self.file.sync_all().await.map_err(|error| ours(&error))?;
        self.whole = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.whole {
            // It was made by us a moment ago; if it cannot be removed, the next cleaning does it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A failure on our side: there may be room on the disk another time.
fn ours(error: &std::io::Error) -> FetchError {
    FetchError::Again(format!("the file cannot be stored: {error}"))
}

/// Returns the steps of a path that stays below the server's files.
fn segments(path: &str) -> Result<Vec<&str>, FetchError> {
    if path.starts_with('/') || path.contains('\\') {
        let reason = "the Bot API server names a file on its own disk; run it without --local";
        return Err(FetchError::Never(reason.to_owned()));
    }
    let segments: Vec<&str> = path.split('/').collect();
    if segments
        .iter()
        .any(|segment| matches!(*segment, "" | "." | "..") || segment.contains(char::is_control))
    {
        return Err(FetchError::Never(
            "Telegram names a place that is none".to_owned(),
        ));
    }
    Ok(segments)
}

fn meaning(error: &Error, max: u64) -> FetchError {
    match error {
        _ if says(error, "file is too big") => FetchError::TooLarge {
            max: max.min(HANDED_OUT),
        },
        // A wrong token, a limit, a server in trouble: none of it is about the file.
        Error::Refused {
            status: 401 | 429 | 500..,
            ..
        }
        | Error::Refused {
            retry_after: Some(_),
            ..
        } => FetchError::Again(error.to_string()),
        Error::Refused { .. } => FetchError::Never(error.to_string()),
        Error::Unreachable(_) | Error::Lost(_) => FetchError::Again(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_below_the_servers_files() {
        assert_eq!(
            segments("photos/file_1.jpg").unwrap(),
            ["photos", "file_1.jpg"]
        );
        assert_eq!(
            segments("a b/%2e%2e/?x#y").unwrap(),
            ["a b", "%2e%2e", "?x#y"]
        );
        for path in [
            "",
            "../x",
            "a/../b",
            "a//b",
            "./a",
            "a/",
            "a\nb",
            "/var/lib/telegram-bot-api/x",
            "C:\\x",
        ] {
            assert!(
                matches!(segments(path), Err(FetchError::Never(_))),
                "{path:?}"
            );
        }
    }

    #[test]
    fn a_file_that_did_not_come_may_come_later_unless_it_is_the_files_fault() {
        let refused = |status, description: &str| Error::Refused {
            status,
            description: description.to_owned(),
            retry_after: None,
            moved_to: None,
        };
        let again = [
            refused(401, ""),
            refused(429, ""),
            refused(502, ""),
            Error::Lost(String::new()),
        ];
        assert!(
            again
                .iter()
                .all(|error| matches!(meaning(error, 5), FetchError::Again(_)))
        );
        let never = [
            refused(
                400,
                "Bad Request: wrong file_id or the file is temporarily unavailable",
            ),
            refused(404, ""),
            refused(302, ""),
        ];
        assert!(
            never
                .iter()
                .all(|error| matches!(meaning(error, 5), FetchError::Never(_)))
        );
        assert_eq!(
            meaning(&refused(400, "Bad Request: file is too big"), 5),
            FetchError::TooLarge { max: 5 }
        );
        assert_eq!(
            meaning(&refused(400, "Bad Request: file is too big"), u64::MAX),
            FetchError::TooLarge { max: 20 << 20 }
        );
    }
}
