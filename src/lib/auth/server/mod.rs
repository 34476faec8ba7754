//! Sign-ins at tool servers (OAuth 2.1): `state/mcp-auth.json` has the form of `auth.json`, its entries are called
//! `mcp.NAME`. A token is used only for the address for which it was issued.

mod discovery;

pub use discovery::{Client, Issuer, discover, register};

use std::path::Path;
use std::sync::Arc;

use reqwest::{Method, RequestBuilder, Url};
use serde_json::Value;

use super::refresh::{Renewals, fresh, is_fresh, tokens};
use super::store::{Store, Tokens};
use super::{Error, oauth};
use crate::clock;
use crate::net::{Guard, Origin, Request, Rules};
use crate::secret::Secret;

/// A tool server, and where one may go because of it: what its owner wrote may lie anywhere, all else on the public net,
/// reached by https.
pub struct Place {
    /// Its address.
    pub url: String,
    origins: Vec<Origin>,
    guard: Guard,
}

impl Place {
    /// Returns the place of the server at `url`; `issuer` is what the owner wrote, or empty.
    pub fn new(url: &str, issuer: &str) -> Self {
        let origins = [url, issuer].into_iter().filter_map(Origin::of);
        Self {
            url: url.to_owned(),
            origins: origins.collect(),
            guard: Guard::new(Rules::new(&[443], &[])),
        }
    }

    fn may_ask(&self, url: &str) -> Result<(), Error> {
        let is_named = Origin::of(url).is_some_and(|origin| self.origins.contains(&origin));
        if is_named || url.starts_with("https://") {
            return Ok(());
        }
        Err(Error::trouble(
            crate::net::server_text(url),
            "it is not reached by https, and you did not write it (issuer)",
        ))
    }

    /// Returns a request to what others named, at an address that was checked.
    async fn request(&self, method: Method, url: &str) -> Result<RequestBuilder, Error> {
        self.may_ask(url)?;
        let (client, url) = self
            .guard
            .client(url, &self.origins)
            .await
            .map_err(|error| refused(url, &error))?;
        Ok(client.request(method, url))
    }

    /// Returns the client that reaches `url` and the addresses that were checked for it only.
    ///
    /// # Errors
    /// [`Error::Trouble`] when it may not be asked.
    pub async fn client(&self, url: &str) -> Result<reqwest::Client, Error> {
        self.may_ask(url)?;
        let found = self.guard.client(url, &self.origins).await;
        found
            .map(|(client, _)| client)
            .map_err(|error| refused(url, &error))
    }

    /// Fetches a JSON object; `None` when there is none at this address.
    async fn json(&self, url: &str) -> Result<Option<Value>, Error> {
        self.may_ask(url)?;
        let request = Request {
            url,
            accept: "application/json",
            origins: &self.origins,
            ..Request::default()
        };
        let answer = self
            .guard
            .get(request)
            .await
            .map_err(|error| refused(url, &error))?;
        let found = crate::text::json::parse::<Value>(&answer.body).ok();
        Ok(found.filter(|found| answer.status == 200 && found.is_object()))
    }
}

fn refused(url: &str, error: &crate::net::Error) -> Error {
    let host = Url::parse(url).map_or_else(|_| "the issuer".to_owned(), |url| oauth::host(&url));
    Error::trouble(host, error.to_string())
}

/// The sign-ins of one home.
#[derive(Debug, Clone)]
pub struct ServerSignIns {
    store: Arc<Store>,
}

impl ServerSignIns {
    /// Returns those in the file at `path`, renewed by `renewals`.
    pub fn new(path: &Path, renewals: Renewals) -> Self {
        Self {
            store: Arc::new(Store::new(path).sharing(renewals)),
        }
    }

    /// Returns when one signed in at `name` for the server at `url`, milliseconds since 1970 UTC.
    pub fn since(&self, name: &str, url: &str) -> Option<i64> {
        let tokens = self.store.entry(&entry(name)).ok()?.tokens?;
        (tokens.server_url.as_deref() == Some(url))
            .then_some(tokens.signed_in_at.unwrap_or_default())
    }

    /// Stores a sign-in for the server at `url`.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn put(&self, name: &str, url: &str, tokens: Tokens) -> Result<(), Error> {
        let tokens = Tokens {
            server_url: Some(url.to_owned()),
            signed_in_at: Some(clock::now_ms()),
            ..tokens
        };
        self.store.put_tokens(&entry(name), &tokens).map(drop)
    }

    /// Forgets a sign-in; returns whether there was one.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn remove(&self, name: &str) -> Result<bool, Error> {
        let removed = self.store.remove(Some(&entry(name)))?;
        Ok(!removed.is_empty())
    }

    /// Returns a token for the server `name` at `place` that is fresh and is not `refused`, renewed if need be; `None`
    /// when nobody signed in there.
    ///
    /// # Errors
    /// [`Error::SignedOut`], [`Error::Trouble`] when the issuer cannot be asked, [`Error::File`].
    pub async fn token(
        &self,
        (name, place): (&str, &Place),
        refused: Option<&Secret>,
    ) -> Result<Option<Secret>, Error> {
        let entry = entry(name);
        let known = match tokens(&self.store, &entry) {
            Ok(known) => known,
            Err(Error::Absent { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        if known.server_url.as_deref() != Some(place.url.as_str()) {
            return Ok(None);
        }
        if is_fresh(&known, clock::now_ms()) && known.access.as_ref() != refused {
            return Ok(known.access);
        }
        let http = place.client(&known.token_url).await?;
        fresh(&self.store, &http, &entry, refused).await.map(Some)
    }
}

fn entry(name: &str) -> String {
    format!("mcp.{name}")
}
