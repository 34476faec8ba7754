//! One way out for every address that somebody else may have chosen: a model, a page, a redirect.
//!
//! ```text
//! address → parsed once → rules: scheme, port, name → resolved once → every address checked
//!         → connected to exactly those → redirect? the same again, five times at most → body, up to a limit
//! ```
//!
//! Whatever a name resolves to later does not matter: the connection is given the checked addresses and
//! cannot ask. There is no proxy, no cookie, and no connection is used twice.

pub(crate) mod refusal;
pub(crate) mod target;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::Response;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION,
};

use super::{decompress, public_address};
use crate::secret::Secret;
use refusal::Error;
use target::{Origin, Place, Rules};

/// Redirects that are followed for one address.
const MAX_REDIRECTS: usize = 5;

/// The most bytes of headers; browsers and servers take 8 to 64 KiB.
const MAX_HEADERS: usize = 64 << 10;

/// What one fetch may cost.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Time for all of it, redirects included.
    pub time: Duration,
    /// Bytes of the body, as they come and unpacked.
    pub bytes: usize,
}

impl Default for Limits {
    /// 15 seconds (specification §14), 10 MB.
    fn default() -> Self {
        Self {
            time: Duration::from_secs(15),
            bytes: 10_000_000,
        }
    }
}

/// Finds the addresses of a host.
pub trait Resolve: Send + Sync {
    /// Returns every address of `host`, each with `port`.
    fn resolve<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> BoxFuture<'a, std::io::Result<Vec<SocketAddr>>>;
}

/// The system's resolver.
struct System;

impl Resolve for System {
    fn resolve<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> BoxFuture<'a, std::io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }
}

/// What is fetched.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// The address.
    pub url: &'a str,
    /// What the answer may be, as the header `accept` says it.
    pub accept: &'a str,
    /// A header with a secret in it; no other origin is told.
    pub key: Option<(&'static str, &'a Secret)>,
    /// Servers that the owner wrote into the settings for this very purpose: they may be anywhere, and a
    /// redirect to another server is not followed.
    pub origins: &'a [Origin],
}

/// What came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Where it came from, after redirects.
    pub url: String,
    /// The HTTP status.
    pub status: u16,
    /// The header `content-type`.
    pub content_type: Option<String>,
    /// The body, unpacked.
    pub body: Vec<u8>,
}

/// Why a place may be fetched from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is on the public net.
    Public,
    /// The owner allows the host.
    Allowed,
    /// The owner named the server to this caller.
    Named,
}

/// The way out.
pub struct Guard {
    rules: Rules,
    limits: Limits,
    resolver: Arc<dyn Resolve>,
    /// What is wrong with an address.
    refused: fn(IpAddr) -> Option<&'static str>,
}

impl Guard {
    /// Returns a guard with the system's resolver and the usual limits.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            limits: Limits::default(),
            resolver: Arc::new(System),
            refused: public_address::refused,
        }
    }

    /// Fetches with GET. An answer with an error status is an answer.
    ///
    /// # Errors
    /// When it may not be fetched, or did not come whole.
    pub async fn get(&self, request: Request<'_>) -> Result<Answer, Error> {
        let place = target::parse(request.url)?;
        let slow = Error::TooSlow {
            host: place.host.clone(),
            secs: self.limits.time.as_secs(),
        };
        tokio::time::timeout(self.limits.time, self.follow(place, request))
            .await
            .unwrap_or(Err(slow))
    }

    async fn follow(&self, first: Place, request: Request<'_>) -> Result<Answer, Error> {
        let mut standing = if request.origins.contains(&first.origin()) {
            Standing::Named
        } else if self.rules.allows(&first) {
            Standing::Allowed
        } else {
            Standing::Public
        };
        let home = first.origin();
        let mut place = first;
        let mut addresses = self.addresses(&place, standing).await?;
        for _ in 0..=MAX_REDIRECTS {
            let key = request.key.filter(|_| place.origin() == home);
            let response = ask(&place, addresses, request.accept, key).await?;
            let Some(to) = redirect(&response) else {
                return self.read(&place, response).await;
            };
            let wrong = |reason| Error::Redirect {
                host: place.host.clone(),
                reason: Box::new(reason),
            };
            let next = self.next(&place, to, &mut standing).map_err(wrong)?;
            addresses = self.addresses(&next, standing).await.map_err(wrong)?;
            place = next;
        }
        Err(Error::Redirects(MAX_REDIRECTS, place.host))
    }

    /// Returns where a redirect leads, if it may be followed.
    fn next(&self, from: &Place, to: &[u8], standing: &mut Standing) -> Result<Place, Error> {
        let next = target::redirected(from, to)?;
        if from.is_encrypted() && !next.is_encrypted() {
            return Err(Error::Downgrade(from.host.clone()));
        }
        if *standing == Standing::Named && next.origin() != from.origin() {
            return Err(Error::Elsewhere {
                from: from.host.clone(),
                to: next.host,
            });
        }
        match (*standing, self.rules.allows(&next)) {
            // Who asks for a page outside did not ask for what the owner has inside.
            (Standing::Public, true) => return Err(Error::Inward(next.host)),
            (Standing::Allowed, false) => *standing = Standing::Public,
            _ => {}
        }
        Ok(next)
    }

    /// Resolves a place, once, and returns the addresses that may be connected to.
    async fn addresses(&self, place: &Place, standing: Standing) -> Result<Vec<SocketAddr>, Error> {
        let Place {
            host,
            port,
            literal,
            ..
        } = place;
        if standing == Standing::Public {
            self.rules.check(place)?;
        }
        let found = match literal {
            Some(address) => vec![SocketAddr::new(*address, *port)],
            None => self
                .resolver
                .resolve(host, *port)
                .await
                .map_err(|error| Error::Unknown {
                    host: host.clone(),
                    reason: super::words(&error.to_string()),
                })?,
        };
        if found.is_empty() {
            return Err(Error::Unknown {
                host: host.clone(),
                reason: "it has no address".to_owned(),
            });
        }
        if standing == Standing::Public {
            let wrong = found
                .iter()
                .find_map(|found| Some((found.ip(), (self.refused)(found.ip())?)));
            if let Some((address, what)) = wrong {
                return Err(Error::Address {
                    host: host.clone(),
                    port: *port,
                    address,
                    what,
                });
            }
        }
        Ok(found
            .into_iter()
            .map(|found| SocketAddr::new(found.ip(), *port))
            .collect())
    }

    /// Reads the body.
    async fn read(&self, place: &Place, mut response: Response) -> Result<Answer, Error> {
        let host = || place.host.clone();
        let large = || Error::TooLarge {
            host: host(),
            limit: self.limits.bytes,
        };
        let size: usize = response
            .headers()
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len())
            .sum();
        if size > MAX_HEADERS {
            return Err(Error::Broken {
                host: host(),
                reason: "its headers are too large".to_owned(),
            });
        }
        if response.content_length().is_some_and(|length| {
            usize::try_from(length).is_ok_and(|length| length > self.limits.bytes)
        }) {
            return Err(large());
        }
        let status = response.status().as_u16();
        let content_type = header(response.headers(), CONTENT_TYPE.as_str());
        let codings: Vec<String> = response
            .headers()
            .get_all(CONTENT_ENCODING)
            .iter()
            .map(lossy)
            .collect();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| Error::Broken {
            host: host(),
            reason: reason(error),
        })? {
            body.extend_from_slice(&chunk);
            if body.len() > self.limits.bytes {
                return Err(large());
            }
        }
        let limit = self.limits.bytes;
        let work = move || decompress::unpack(body, &codings.join(", "), limit);
        let unpacked = crate::sys::blocking(work).await;
        let body = unpacked.map_err(|failed| match failed {
            decompress::Failed::TooLarge => large(),
            decompress::Failed::Damaged(reason) => Error::Packed {
                host: host(),
                reason,
            },
        })?;
        Ok(Answer {
            url: place.url.to_string(),
            status,
            content_type,
            body,
        })
    }
}

/// Answers every question about a name with the addresses that were checked.
struct Pinned(Vec<SocketAddr>);

impl reqwest::dns::Resolve for Pinned {
    fn resolve(&self, _name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let addresses: reqwest::dns::Addrs = Box::new(self.0.clone().into_iter());
        Box::pin(std::future::ready(Ok(addresses)))
    }
}

/// Asks with a client of its own: nothing of one fetch is left for the next.
async fn ask(
    place: &Place,
    addresses: Vec<SocketAddr>,
    accept: &str,
    key: Option<(&'static str, &Secret)>,
) -> Result<Response, Error> {
    let unreachable = |error: reqwest::Error| Error::Unreachable {
        host: place.host.clone(),
        reason: reason(error),
    };
    let client = super::builder()
        .dns_resolver(Arc::new(Pinned(addresses)))
        .no_gzip()
        .http1_only()
        .referer(false)
        .pool_max_idle_per_host(0)
        .build()
        .map_err(unreachable)?;
    let mut request = client
        .get(place.url.clone())
        .header(ACCEPT, accept)
        .header(ACCEPT_ENCODING, decompress::ACCEPTED);
    if let Some((name, secret)) = key {
        let mut value = HeaderValue::from_str(secret.expose()).map_err(|_| {
            Error::Url(format!(
                "the secret for the header {name} has characters that no header has"
            ))
        })?;
        value.set_sensitive(true);
        request = request.header(name, value);
    }
    request.send().await.map_err(unreachable)
}

/// Returns where an answer sends us.
fn redirect(response: &Response) -> Option<&[u8]> {
    let follows = [301, 302, 303, 307, 308].contains(&response.status().as_u16());
    response
        .headers()
        .get(LOCATION)
        .filter(|_| follows)
        .map(HeaderValue::as_bytes)
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(lossy)
}

fn lossy(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// Returns the innermost reason: the outer ones say that something failed.
fn reason(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut innermost: &dyn std::error::Error = &error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    super::words(&innermost.to_string())
}

#[cfg(test)]
mod tests;
