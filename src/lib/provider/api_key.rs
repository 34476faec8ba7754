//! Where a request's key comes from: it is fixed, or asked for before each request, because it may be
//! another one by then (a token that is renewed, a sign-in while the daemon runs).

use std::sync::Arc;

use super::{BoxFuture, Error};
use crate::secret::Secret;

/// Where the key of a server comes from.
#[derive(Debug, Clone, Default)]
pub enum Key {
    /// It wants none.
    #[default]
    Absent,
    /// It is always this one.
    Fixed(Secret),
    /// It is asked for.
    Asked(Arc<dyn Ask>),
}

/// A key for one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The key.
    pub secret: Secret,
    /// Whether it is an access token of OAuth: those go out as `Authorization: Bearer`, whatever
    /// header the vendor has for its keys (RFC 6750 §2.1).
    pub is_token: bool,
}

/// Who knows the key.
pub trait Ask: std::fmt::Debug + Send + Sync {
    /// Returns the key to use now; `None` when the server wants none.
    ///
    /// # Errors
    /// When there is none and must be one, or it cannot be renewed now.
    fn ask(&self) -> BoxFuture<'_, Result<Option<Given>, Error>>;

    /// Returns another key than `refused`, which the server did not take; `None` when there is no
    /// other.
    ///
    /// # Errors
    /// As [`Ask::ask`].
    fn ask_again<'a>(&'a self, refused: &'a Given) -> BoxFuture<'a, Result<Option<Given>, Error>>;
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

    impl Ask for Tokens {
        fn ask(&self) -> BoxFuture<'_, Result<Option<Given>, Error>> {
            let secret = Secret::new(format!("token-{}", self.0.load(Ordering::Relaxed)));
            Box::pin(async {
                Ok(Some(Given {
                    secret,
                    is_token: true,
                }))
            })
        }

        fn ask_again<'a>(
            &'a self,
            _refused: &'a Given,
        ) -> BoxFuture<'a, Result<Option<Given>, Error>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            self.ask()
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
            Key::Asked(Arc::new(Tokens::default())),
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
            Key::Asked(Arc::new(Tokens::default())),
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
