//! The source of a request's key: it is fixed, or read before each request, because it may have
//! changed by then (a renewed token, a sign-in while the daemon runs).

use std::sync::Arc;

use super::{BoxFuture, Error};
use crate::secret::Secret;

/// The key of a server.
#[derive(Debug, Clone, Default)]
pub enum Key {
    #[default]
    Absent,
    Fixed(Secret),
    From(Arc<dyn KeySource>),
}

/// The key of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    pub secret: Secret,
    /// Whether it is an access token of OAuth: those are sent as `Authorization: Bearer`, whatever
    /// header the vendor has for its keys (RFC 6750 §2.1).
    pub is_token: bool,
}

pub trait KeySource: std::fmt::Debug + Send + Sync {
    /// Returns the key to use now; `None` when the server wants none.
    ///
    /// # Errors
    /// When a key is missing, or cannot be renewed now.
    fn key(&self) -> BoxFuture<'_, Result<Option<Credential>, Error>>;

    /// Returns another key than `refused`, which the server did not take; `None` when there is no
    /// other.
    ///
    /// # Errors
    /// As [`KeySource::key`].
    fn renew<'a>(
        &'a self,
        refused: &'a Credential,
    ) -> BoxFuture<'a, Result<Option<Credential>, Error>>;
}

impl From<Option<Secret>> for Key {
    fn from(key: Option<Secret>) -> Self {
        key.map_or(Self::Absent, Self::Fixed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;
    use crate::provider::anthropic::Anthropic;
    use crate::provider::test_server;
    use crate::provider::test_server::{Reply, Server, attempt, request, user};
    use crate::provider::transcription::{Recording, Transcriptions};

    /// Tokens `token-0`, `token-1` and so on: each refusal brings the next.
    #[derive(Debug, Default)]
    struct Tokens(AtomicUsize);

    impl KeySource for Tokens {
        fn key(&self) -> BoxFuture<'_, Result<Option<Credential>, Error>> {
            let secret = Secret::new(format!("token-{}", self.0.load(Ordering::Relaxed)));
            Box::pin(async {
                Ok(Some(Credential {
                    secret,
                    is_token: true,
                }))
            })
        }

        fn renew<'a>(
            &'a self,
            _refused: &'a Credential,
        ) -> BoxFuture<'a, Result<Option<Credential>, Error>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            self.key()
        }
    }

    fn no() -> Reply {
        Reply::json(401, &json!({"error": {"message": "expired"}}))
    }

    /// Returns the keys that went out, each with its header.
    fn keys(server: &Server) -> Vec<String> {
        let shown = |request: test_server::Recorded| {
            let header = |name: &str| {
                request
                    .headers
                    .get(name)
                    .map(|value| format!("{name}: {}", value.to_str().expect("text")))
            };
            header("authorization")
                .into_iter()
                .chain(header("x-api-key"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        server.requests().into_iter().map(shown).collect()
    }

    #[tokio::test]
    async fn a_token_goes_out_as_a_bearer_whatever_the_vendor_calls_its_keys_and_a_refused_one_is_renewed_once()
     {
        let server = Server::start([no(), no(), no()]).await;
        let provider = Anthropic::new(
            test_server::client(),
            &server.url,
            Key::From(Arc::new(Tokens::default())),
        );
        let (answer, _) = attempt(&provider, &request(vec![user("hello")])).await;
        assert!(
            matches!(answer, Err(Error::Auth { status: 401, .. })),
            "{answer:?}"
        );
        assert_eq!(
            keys(&server),
            [
                "authorization: Bearer token-0",
                "authorization: Bearer token-1"
            ]
        );
    }

    #[tokio::test]
    async fn a_recording_is_sent_again_whole() {
        let server = Server::start([no(), Reply::json(200, &json!({"text": "hello"}))]).await;
        let client = Transcriptions::new(
            test_server::client(),
            &server.url,
            Key::From(Arc::new(Tokens::default())),
        );
        let heard = client
            .transcribe(
                "whisper-1",
                Recording {
                    bytes: b"OggS123",
                    filename: "audio.ogg",
                },
            )
            .await;
        assert_eq!(heard.expect("heard"), "hello");
        assert_eq!(
            keys(&server),
            [
                "authorization: Bearer token-0",
                "authorization: Bearer token-1"
            ]
        );
        assert!(
            server
                .requests()
                .iter()
                .all(|request| request.body.contains("OggS123"))
        );
    }
}
