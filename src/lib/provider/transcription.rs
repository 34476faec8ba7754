//! Speech to text by OpenAI's audio transcriptions, and every server that speaks them: Groq,
//! whisper.cpp's server, speaches, LocalAI.
//!
//! Written after <https://platform.openai.com/docs/api-reference/audio/createTranscription> (read
//! 2026-11).

use reqwest::multipart::{Form, Part};
use serde::Deserialize;

use super::Error;
use super::api_key::Key;
use super::http::Endpoint;

/// The largest recording the vendor takes, bytes (its guide "Speech to text", read 2026-11).
pub const MAX_BYTES: u64 = 25 << 20;

#[derive(Deserialize)]
struct Transcript {
    text: String,
}

/// The transcriptions of one server.
#[derive(Debug, Clone)]
pub struct Transcriptions {
    endpoint: Endpoint,
}

/// A recording in memory.
#[derive(Debug, Clone, Copy)]
pub struct Recording<'a> {
    pub bytes: &'a [u8],
    /// What it is called there. Servers tell the format by the ending of this name and refuse those
    /// they do not know, `.oga` and `.opus` among them.
    pub filename: &'a str,
}

impl Transcriptions {
    /// Returns a client that posts to `{base_url}/audio/transcriptions`; of `base_url`, `key` and
    /// `client` the same holds as for [`super::openai::OpenAi::new`].
    pub fn new(client: reqwest::Client, base_url: &str, key: impl Into<Key>) -> Self {
        Self {
            endpoint: super::openai::endpoint(client, base_url, "audio/transcriptions", key.into()),
        }
    }

    /// Makes one attempt and returns what was said, without space around it; empty when nothing
    /// was. Cancelled by dropping the future.
    ///
    /// # Errors
    /// See [`Error`]; its methods say whether to try again and what it may have cost.
    pub async fn transcribe(&self, model: &str, recording: Recording<'_>) -> Result<String, Error> {
        let form = || {
            let file =
                Part::bytes(recording.bytes.to_vec()).file_name(recording.filename.to_owned());
            Form::new()
                .text("model", model.to_owned())
                .text("response_format", "json")
                .part("file", file)
        };
        let answer: Transcript = self
            .endpoint
            .fetch(|request| request.multipart(form()))
            .await?;
        Ok(answer.text.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::provider::test_server::{Reply, Server};
    use crate::secret::Secret;

    async fn answered(
        reply: Reply,
    ) -> (
        Result<String, Error>,
        crate::provider::test_server::Recorded,
    ) {
        let server = Server::start([reply]).await;
        let key = Some(Secret::new("sk-1".to_owned()));
        let client = Transcriptions::new(crate::provider::test_server::client(), &server.url, key);
        let answer = client
            .transcribe(
                "whisper-1",
                Recording {
                    bytes: b"OggS123",
                    filename: "audio.ogg",
                },
            )
            .await;
        (answer, server.requests().remove(0))
    }

    #[tokio::test]
    async fn the_form_is_as_the_vendor_describes_it() {
        let (answer, request) = answered(Reply::json(200, &json!({"text": " Buy milk. "}))).await;
        assert_eq!(answer.expect("words"), "Buy milk.");
        assert_eq!(request.path, "/v1/audio/transcriptions");
        assert_eq!(request.headers["authorization"], "Bearer sk-1");
        let kind = request.headers["content-type"].to_str().expect("text");
        let boundary = kind
            .strip_prefix("multipart/form-data; boundary=")
            .expect("a form");
        let field = |head: &str, body: &str| {
            format!("--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n{body}\r\n")
        };
        let expected = [
            field("name=\"model\"", "whisper-1"),
            field("name=\"response_format\"", "json"),
            field("name=\"file\"; filename=\"audio.ogg\"", "OggS123"),
            format!("--{boundary}--\r\n"),
        ];
        assert_eq!(request.body, expected.concat());
        // Some servers refuse a body whose length they are not told.
        assert_eq!(
            request.headers["content-length"],
            request.body.len().to_string().as_str()
        );
    }

    #[tokio::test]
    async fn failures_are_told_apart_as_those_of_a_chat() {
        let refused = |status: u16| Reply::json(status, &json!({"error": {"message": "no"}}));
        for (reply, retryable, charged, says) in [
            (refused(401), false, false, "refused the key (401): no"),
            (refused(429), true, false, "answered 429: no"),
            (refused(400), false, false, "rejected the request (400): no"),
            (refused(200), false, false, "rejected the request (400): no"),
            (
                Reply::json(200, &json!({"words": 1})),
                false,
                true,
                "cannot be used: missing field `text`",
            ),
            (
                Reply::raw(200, "application/json", "oops"),
                true,
                true,
                "cannot be used: malformed JSON",
            ),
            (
                Reply::raw(200, "text/html", "<html>"),
                false,
                false,
                "a web page came instead of an answer",
            ),
        ] {
            let (answer, _) = answered(reply).await;
            let error = answer.expect_err(says);
            assert!(error.to_string().contains(says), "{error}");
            assert_eq!(
                (error.retryable(), error.may_be_charged()),
                (retryable, charged),
                "{error}"
            );
        }
    }
}
