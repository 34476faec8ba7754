//! Text to speech: by OpenAI's audio speech and every server that speaks it, and by ElevenLabs.
//!
//! Written after <https://platform.openai.com/docs/api-reference/audio/createSpeech> and
//! <https://elevenlabs.io/docs/api-reference/text-to-speech/convert> (both read 2026-11). Both are asked for Opus in
//! OGG, which is what a voice message is.

use serde_json::json;

use super::Error;
use super::api_key::Key;
use super::http::Endpoint;

/// The longest text in one request, characters: OpenAI's limit; ElevenLabs takes more.
pub const MAX_CHARS: usize = 4096;
/// The voice of a model that names none (OpenAI's first).
const VOICE: &str = "alloy";

/// The voices of one server.
#[derive(Debug, Clone)]
pub struct Voices {
    endpoint: Endpoint,
    dialect: Dialect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    OpenAi,
    ElevenLabs,
}

impl Voices {
    /// Returns a client that posts to `{base_url}/audio/speech`; of `base_url`, `key` and `client` the same holds as for
    /// [`super::openai::OpenAi::new`].
    pub fn openai(client: reqwest::Client, base_url: &str, key: impl Into<Key>) -> Self {
        Self {
            endpoint: super::openai::endpoint(client, base_url, "audio/speech", key.into()),
            dialect: Dialect::OpenAi,
        }
    }

    /// Returns a client that posts to `{base_url}/v1/text-to-speech/VOICE`.
    pub fn elevenlabs(client: reqwest::Client, base_url: &str, key: impl Into<Key>) -> Self {
        let endpoint = Endpoint::new(client, base_url, "text-to-speech", |path| {
            path.ends_with("/v1")
        })
        .with_key("xi-api-key", "", key.into());
        Self {
            endpoint,
            dialect: Dialect::ElevenLabs,
        }
    }

    /// Makes one attempt and returns the recording. Cancelled by dropping the future.
    ///
    /// # Errors
    /// See [`Error`]; its methods say whether to try again and what it may have cost.
    pub async fn speak(
        &self,
        model: &str,
        voice: Option<&str>,
        text: &str,
    ) -> Result<Vec<u8>, Error> {
        let voice = voice.unwrap_or(VOICE);
        match self.dialect {
            Dialect::OpenAi => {
                let body = json!({"model": model, "voice": voice, "input": text, "response_format": "opus"});
                self.endpoint
                    .fetch_bytes(|request| request.json(&body))
                    .await
            }
            Dialect::ElevenLabs => {
                let body = json!({"model_id": model, "text": text});
                let endpoint = self
                    .endpoint
                    .below(voice, Some("output_format=opus_48000_64"));
                endpoint.fetch_bytes(|request| request.json(&body)).await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::test_server::{Reply, Server, client};
    use crate::secret::Secret;

    async fn check(
        make: impl Fn(&str, Option<Secret>) -> Voices,
        path: &str,
        key: (&str, &str),
        body: serde_json::Value,
    ) {
        let server = Server::start([Reply::raw(200, "audio/ogg", "OggS123")]).await;
        let voices = make(&server.url, Some(Secret::new("sk-1".to_owned())));
        let spoken = voices.speak("tts-1", Some("nova"), "Hi").await;
        assert_eq!(spoken.expect("sound"), b"OggS123");
        let request = server.requests().remove(0);
        assert_eq!(request.path, path);
        assert_eq!(request.headers[key.0], key.1);
        let sent: serde_json::Value = serde_json::from_str(&request.body).expect("json");
        assert_eq!(sent, body);
    }

    #[tokio::test]
    async fn each_vendor_is_asked_in_its_own_words() {
        check(
            |url, key| Voices::openai(client(), url, key),
            "/v1/audio/speech",
            ("authorization", "Bearer sk-1"),
            json!({"model": "tts-1", "voice": "nova", "input": "Hi", "response_format": "opus"}),
        )
        .await;
        check(
            |url, key| Voices::elevenlabs(client(), url, key),
            "/v1/text-to-speech/nova?output_format=opus_48000_64",
            ("xi-api-key", "sk-1"),
            json!({"model_id": "tts-1", "text": "Hi"}),
        )
        .await;
    }
}
