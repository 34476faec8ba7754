//! The source of a provider's key, for the commands that show it and for the requests that use it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::{Client, Url};

use super::refresh::Renewals;
use super::store::Store;
use super::{Error, oauth, refresh};
use crate::clock;
use crate::config;
use crate::config::{Environment, Home, Provider, SecretOrigin, Secrets};
use crate::provider;
use crate::provider::{BoxFuture, Credential, KeySource};
use crate::secret::Secret;

/// A token that the server refused is renewed once in so long.
const FORCED_INTERVAL: Duration = Duration::from_secs(30);

/// All sources of keys. `.env` has been read, auth.json is read on demand.
#[derive(Debug)]
pub struct Keys {
    secrets: Secrets,
    store: Arc<Store>,
}

/// Where a key came from, in the order in which they are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A file in systemd's credentials directory.
    Credential,
    /// A sign-in, in auth.json.
    SignIn,
    /// A key in auth.json.
    Stored,
    /// A variable.
    Environment,
    /// `.env`.
    EnvFile,
}

impl Origin {
    /// Returns its word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Credential => "credential",
            Self::SignIn => "oauth",
            Self::Stored => "api_key",
            Self::Environment => "environment",
            Self::EnvFile => "env_file",
        }
    }
}

/// A key that is set somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    pub origin: Origin,
    /// The key, or the access token; `None` for a sign-in that must be renewed first.
    pub secret: Option<Secret>,
    /// When it ends, milliseconds since 1970 UTC, if that is known.
    pub expires_at: Option<i64>,
    /// Its scope, in the issuer's words.
    pub scope: Option<String>,
}

impl Keys {
    /// Reads `.env`, if there is one.
    ///
    /// # Errors
    /// As [`Secrets::open`].
    pub fn open(home: &Home, env: &Environment) -> Result<Self, config::Error> {
        Self::sharing(home, env, Renewals::default())
    }

    /// Reads `.env`; renewals are those of this process, which outlast a reload.
    ///
    /// # Errors
    /// As [`Secrets::open`].
    pub fn sharing(
        home: &Home,
        env: &Environment,
        renewals: Renewals,
    ) -> Result<Self, config::Error> {
        let store = Store::new(&home.auth()).sharing(renewals);
        Ok(Self {
            secrets: Secrets::open(home, env)?,
            store: Arc::new(store),
        })
    }

    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns every key of `provider` that is set, the active one first. A sign-in that has ended is
    /// none.
    ///
    /// # Errors
    /// [`Error`] when a place cannot be looked at: what is in it might be the active key.
    pub fn sources(&self, provider: &Provider) -> Result<Vec<Source>, Error> {
        let entry = self.store.entry(&provider.name)?;
        let mut found = match &provider.api_key_env {
            Some(name) => self
                .secrets
                .find_all(name)?
                .into_iter()
                .map(|(secret, origin)| plain(origin.into(), secret))
                .collect(),
            None => Vec::new(),
        };
        let tokens = entry
            .tokens
            .filter(|tokens| tokens.ended(clock::now_ms()).is_none());
        found.extend(tokens.map(|tokens| Source {
            origin: Origin::SignIn,
            secret: tokens.access,
            expires_at: tokens.expires_at,
            scope: tokens.scope,
        }));
        found.extend(entry.key.map(|key| plain(Origin::Stored, key)));
        found.sort_by_key(|source| source.origin);
        Ok(found)
    }

    /// Returns whether `provider` wants a key: its file names one, or offers a sign-in.
    pub fn wanted(provider: &Provider) -> bool {
        provider.api_key_env.is_some() || provider.oauth.is_some()
    }

    /// Checks that `provider` has a key if it wants one. A sign-in is not tried.
    ///
    /// # Errors
    /// [`Error::SignedOut`] and [`Error::Absent`], and as [`Keys::sources`].
    pub fn check(&self, provider: &Provider) -> Result<(), Error> {
        if !self.sources(provider)?.is_empty() || !Self::wanted(provider) {
            return Ok(());
        }
        Err(self.missing(provider))
    }

    fn missing(&self, provider: &Provider) -> Error {
        let tokens = self
            .store
            .entry(&provider.name)
            .ok()
            .and_then(|entry| entry.tokens);
        let name = provider.name.clone();
        match tokens.and_then(|tokens| tokens.ended(clock::now_ms())) {
            Some(reason) => Error::SignedOut {
                provider: name,
                reason,
            },
            None => Error::Absent { provider: name },
        }
    }
}

fn plain(origin: Origin, secret: Secret) -> Source {
    Source {
        origin,
        secret: Some(secret),
        expires_at: None,
        scope: None,
    }
}

impl From<SecretOrigin> for Origin {
    fn from(origin: SecretOrigin) -> Self {
        match origin {
            SecretOrigin::Credential => Self::Credential,
            SecretOrigin::Environment => Self::Environment,
            SecretOrigin::EnvFile => Self::EnvFile,
        }
    }
}

/// The key of one provider, looked up before each request: a sign-in or sign-out while the daemon runs
/// counts from the next request on.
#[derive(Debug)]
pub struct ProviderKey {
    keys: Arc<Keys>,
    provider: Arc<Provider>,
    http: Client,
    /// One turn of this process renews, the others wait here; when a token was last renewed because
    /// the server refused it.
    renewing: tokio::sync::Mutex<Option<Instant>>,
}

impl ProviderKey {
    /// Returns the key of `provider`; `http` reaches the issuer.
    pub fn new(keys: Arc<Keys>, provider: Arc<Provider>, http: Client) -> Self {
        Self {
            keys,
            provider,
            http,
            renewing: tokio::sync::Mutex::default(),
        }
    }

    async fn find(&self, refused: Option<&Secret>) -> Result<Option<Credential>, Error> {
        let Some(source) = self.keys.sources(&self.provider)?.into_iter().next() else {
            return if Keys::wanted(&self.provider) {
                Err(self.keys.missing(&self.provider))
            } else {
                Ok(None)
            };
        };
        let api_key = |secret| Credential {
            secret,
            is_token: false,
        };
        if source.origin != Origin::SignIn {
            return Ok(source.secret.map(api_key));
        }
        let mut forced = self.renewing.lock().await;
        if refused.is_some()
            && refresh::tokens(&self.keys.store, &self.provider.name)?
                .access
                .as_ref()
                == refused
        {
            // A server that takes no token at all must not cost a renewal a message.
            if forced.is_some_and(|last| last.elapsed() < FORCED_INTERVAL) {
                return Ok(None);
            }
            *forced = Some(Instant::now());
        }
        match refresh::fresh(&self.keys.store, &self.http, &self.provider.name, refused).await {
            Ok(secret) => Ok(Some(Credential {
                secret,
                is_token: true,
            })),
            // The next place, if there is one, counts from now on.
            Err(error @ Error::SignedOut { .. }) => {
                let mut others = self
                    .keys
                    .sources(&self.provider)?
                    .into_iter()
                    .filter(|source| source.origin != Origin::SignIn);
                match others.next() {
                    Some(Source {
                        origin,
                        secret: Some(secret),
                        ..
                    }) => {
                        tracing::warn!(%error, instead = origin.as_str(), "signed out");
                        Ok(Some(api_key(secret)))
                    }
                    _ => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Returns it as an error of the provider, with the next step.
    fn provider_error(&self, error: Error) -> provider::Error {
        let name = &self.provider.name;
        let host = || {
            Url::parse(&self.provider.base_url)
                .map_or_else(|_| name.clone(), |url| oauth::host(&url))
        };
        let how = if self.provider.oauth.is_some() {
            " --oauth"
        } else {
            ""
        };
        let refused = |message: String| provider::Error::Auth {
            host: host(),
            status: 401,
            message,
        };
        match error {
            Error::Trouble { host, reason } => provider::Error::Unreachable { host, reason },
            // The key may be right; it could not be looked at just now.
            Error::File(error) if error.is_retryable() => provider::Error::Unreachable {
                host: host(),
                reason: error.to_string(),
            },
            Error::Absent { .. } => refused(format!(
                "there is no key for it; run: agent-daemon login {name}{how}"
            )),
            Error::SignedOut { reason, .. } => refused(format!(
                "the sign-in has ended ({reason}); run: agent-daemon login {name}{how}"
            )),
            Error::Mode { ref path, .. } => {
                refused(format!("{error}; run: chmod 600 {}", path.display()))
            }
            Error::Newer { .. } | Error::File(_) | Error::Config(_) | Error::Refused { .. } => {
                refused(format!("{error}; run: agent-daemon auth"))
            }
        }
    }
}

impl KeySource for ProviderKey {
    fn key(&self) -> BoxFuture<'_, Result<Option<Credential>, provider::Error>> {
        Box::pin(async {
            self.find(None)
                .await
                .map_err(|error| self.provider_error(error))
        })
    }

    fn renew<'a>(
        &'a self,
        refused: &'a Credential,
    ) -> BoxFuture<'a, Result<Option<Credential>, provider::Error>> {
        Box::pin(async {
            self.find(Some(&refused.secret))
                .await
                .map_err(|error| self.provider_error(error))
        })
    }
}

#[cfg(test)]
mod tests;
