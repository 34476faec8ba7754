//! Fetches the files of messages from Telegram's server.

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
use crate::channel::telegram::send::api::{Error, Request, reason};
use crate::channel::telegram::send::classify_error::says;
use crate::channel::telegram::send::upload::time_for;
use crate::message::Media;

/// The largest file that the Bot API hands out, bytes (core.telegram.org/bots/api#getfile).
const HANDED_OUT: u64 = 20 << 20;
const TIMEOUT: Duration = Duration::from_secs(30);

impl Telegram {
    /// Downloads a file into the new file `to`, which is removed when that fails; one that comes too
    /// slowly is given up.
    pub(crate) async fn download(
        &self,
        media: &Media,
        to: &Path,
        max: u64,
    ) -> Result<(), FetchError> {
        let failed = |error: Error| meaning(&error, max);
        let get_file = GetFile::new(FileId(media.handle.clone()));
        let get_file = Request::from(get_file).within(TIMEOUT);
        let answer = self.call(get_file).await.map_err(failed)?;
        let Some(path) = answer.get("file_path").and_then(Value::as_str) else {
            return Err(never("Telegram names no place of the file"));
        };
        let path = segments(path)?;
        let mut partial = Partial::create(to).await?;
        let begun = Instant::now();
        let too_slow = |_| FetchError::Again("the file came too slowly from Telegram".to_owned());
        let response = timeout_at(begun + time_for(0), self.api.file(&path)).await;
        let mut response = response.map_err(too_slow)?.map_err(failed)?;
        let mut got = 0;
        // What the server says about the size is not trusted: it is counted.
        loop {
            let chunk = timeout_at(begun + time_for(got), response.chunk()).await;
            let chunk = chunk.map_err(too_slow)?.map_err(|error| {
                FetchError::Again(format!("the file broke off: {}", reason(error)))
            })?;
            let Some(chunk) = chunk else {
                return partial.keep().await.map_err(not_stored);
            };
            got += chunk.len() as u64;
            if got > max {
                return Err(FetchError::TooLarge { max });
            }
            let written = partial.file.write_all(&chunk).await;
            written.map_err(not_stored)?;
        }
    }
}

/// A file that is not whole yet; dropped, it is removed.
struct Partial {
    path: PathBuf,
    file: File,
    whole: bool,
}

impl Partial {
    async fn create(path: &Path) -> Result<Self, FetchError> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        Ok(Self {
            path: path.to_owned(),
            file: options.open(path).await.map_err(not_stored)?,
            whole: false,
        })
    }

    async fn keep(mut self) -> std::io::Result<()> {
        self.file.flush().await?;
        self.file.sync_all().await?;
        self.whole = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.whole {
            // It was made a moment ago; if it cannot be removed, the next cleaning does it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// There may be room on disk another time.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn not_stored(error: std::io::Error) -> FetchError {
    FetchError::Again(format!("the file cannot be stored: {error}"))
}

fn never(reason: &str) -> FetchError {
    FetchError::Never(reason.to_owned())
}

/// Returns the steps of a path that stays below the server's files.
fn segments(path: &str) -> Result<Vec<&str>, FetchError> {
    if path.starts_with('/') || path.contains('\\') {
        return Err(never(
            "the Bot API server names a file on its own disk; run it without --local",
        ));
    }
    let is_bad = |segment: &&str| matches!(*segment, "" | "." | "..");
    if path.contains(char::is_control) || path.split('/').any(|segment| is_bad(&segment)) {
        return Err(never("Telegram names an invalid path"));
    }
    Ok(path.split('/').collect())
}

fn meaning(error: &Error, max: u64) -> FetchError {
    match error {
        _ if says(error, "file is too big") => FetchError::TooLarge {
            max: max.min(HANDED_OUT),
        },
        Error::Refused {
            status,
            retry_after: None,
            ..
        // A wrong token, a limit, a server in trouble: none of it is about the file.
        } if !matches!(status, 401 | 429 | 500..) => FetchError::Never(error.to_string()),
        _ => FetchError::Again(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::telegram::send::api::refused;

    #[test]
    fn a_path_stays_below_the_servers_files() {
        assert_eq!(
            segments("photos/file_1.jpg"),
            Ok(vec!["photos", "file_1.jpg"])
        );
        assert_eq!(
            segments("a b/%2e%2e/?x#y"),
            Ok(vec!["a b", "%2e%2e", "?x#y"])
        );
        for path in [
            "", "../x", "a/../b", "a//b", "./a", "a/", "a\nb", "/var/x", "C:\\x",
        ] {
            let refused = segments(path);
            assert!(matches!(refused, Err(FetchError::Never(_))), "{path:?}");
        }
    }

    #[test]
    fn a_file_that_did_not_come_may_come_later_unless_it_is_the_files_fault() {
        let again = FetchError::Again;
        for (error, expected) in [
            (refused(401, ""), again as fn(String) -> FetchError),
            (refused(429, ""), again),
            (refused(502, ""), again),
            (Error::Lost(String::new()), again),
            (refused(400, "wrong file_id"), FetchError::Never),
            (refused(404, ""), FetchError::Never),
            (refused(302, ""), FetchError::Never),
        ] {
            assert_eq!(meaning(&error, 5), expected(error.to_string()));
        }
        let too_big = refused(400, "Bad Request: file is too big");
        for (max, expected) in [(5, 5), (u64::MAX, 20 << 20)] {
            let too_large = FetchError::TooLarge { max: expected };
            assert_eq!(meaning(&too_big, max), too_large);
        }
    }
}
