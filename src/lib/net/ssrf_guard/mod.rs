//! SSRF guard: fetches addresses that somebody else may have chosen (a model, a page, a redirect).
//!
//! ```text
//! address → parsed once → rules: scheme, port, name → resolved once → every address checked
//!         → connected to exactly those → redirect? the same again, five times at most → body, up to a limit
//! ```
//!
//! It does not matter what a name resolves to later: the connection uses the checked addresses and resolves nothing. There is
//! no proxy, no cookie, and no connection is used twice.

pub(crate) mod error;
pub(crate) mod target;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, LOCATION,
};
use reqwest::{Response, Url};

use super::{BodyError, Timeouts, decompress, public_address};
use crate::secret::Secret;
use error::Error;
use target::{Origin, Rules, Target};

/// Redirects that are followed for one address.
const MAX_REDIRECTS: usize = 5;

/// The most bytes of headers; browsers and servers take 8 to 64 KiB.
const MAX_HEADERS: usize = 64 << 10;

/// What one fetch may cost.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Time for all of it, redirects included.
    time: Duration,
    /// Bytes of the body, as they come and unpacked.
    bytes: usize,
}

/// 15 seconds (specification §14), 10 MB.
const LIMITS: Limits = Limits {
    time: Duration::from_secs(15),
    bytes: 10_000_000,
};

/// Finds the addresses of a host.
trait Resolve: Send + Sync {
    /// Returns every address of `host`, each with `port`.
    fn resolve<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> BoxFuture<'a, std::io::Result<Vec<SocketAddr>>>;
}

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

#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    pub url: &'a str,
    pub accept: &'a str,
    /// A header with a secret in it; no other origin receives it.
    pub key: Option<(&'static str, &'a Secret)>,
    /// Servers that the owner wrote into the settings for this very purpose: they may be anywhere, and a
    /// redirect to another server is not followed.
    pub origins: &'a [Origin],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Where it came from, after redirects.
    pub url: String,
    pub status: u16,
    pub content_type: Option<String>,
    /// The body, unpacked.
    pub body: Vec<u8>,
}

/// Why a target may be fetched from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Permission {
    /// It is on the public net.
    Public,
    /// The owner allows the host.
    Allowed,
    /// The owner named the server to this caller.
    Named,
}

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
            limits: LIMITS,
            resolver: Arc::new(System),
            refused: public_address::refused,
        }
    }

    /// Returns whether the settings name the host of this address, wherever it is.
    pub fn is_allowed_by_name(&self, url: &str) -> bool {
        target::parse(url).is_ok_and(|target| self.rules.allows(&target))
    }

    /// Fetches with GET. An answer with an error status is an answer.
    ///
    /// # Errors
    /// When it may not be fetched, or did not come whole.
    pub async fn get(&self, request: Request<'_>) -> Result<Answer, Error> {
        let target = target::parse(request.url)?;
        let slow = Error::TooSlow {
            host: target.host.clone(),
            secs: self.limits.time.as_secs(),
        };
        tokio::time::timeout(self.limits.time, self.follow(target, request))
            .await
            .unwrap_or(Err(slow))
    }

    /// Returns a client that reaches `url` at the addresses that were checked now, and the address as it was read. It
    /// follows no redirect.
    ///
    /// # Errors
    /// When it may not be asked.
    pub async fn client(
        &self,
        url: &str,
        origins: &[Origin],
    ) -> Result<(reqwest::Client, Url), Error> {
        let target = target::parse(url)?;
        let permission = self.permission(&target, origins);
        let addresses = self.addresses(&target, permission).await?;
        let client = super::builder()
            .dns_resolver(Arc::new(Pinned(addresses)))
            .referer(false)
            .pool_max_idle_per_host(0)
            .build()
            .map_err(|error| Error::Unreachable {
                host: target.host.clone(),
                reason: super::innermost(&error.without_url()),
            })?;
        Ok((client, target.url))
    }

    /// Returns why an address that nobody led to may be fetched.
    fn permission(&self, target: &Target, origins: &[Origin]) -> Permission {
        if origins.contains(&target.origin()) {
            Permission::Named
        } else if self.rules.allows(target) {
            Permission::Allowed
        } else {
            Permission::Public
        }
    }

    async fn follow(&self, first: Target, request: Request<'_>) -> Result<Answer, Error> {
        let mut permission = self.permission(&first, request.origins);
        let (home, first_host) = (first.origin(), first.host.clone());
        let mut target = first;
        let mut addresses = self.addresses(&target, permission).await?;
        for _ in 0..=MAX_REDIRECTS {
            let key = request.key.filter(|_| target.origin() == home);
            let response = ask(&target, addresses, request.accept, key).await;
            let response =
                response.map_err(|error| error.of_redirect(target.host != first_host))?;
            let Some(to) = redirect(&response) else {
                return self.read(&target, response).await;
            };
            let wrong = |reason| Error::Redirect {
                host: target.host.clone(),
                reason: Box::new(reason),
            };
            let next = self.next(&target, to, &mut permission).map_err(wrong)?;
            addresses = self.addresses(&next, permission).await.map_err(wrong)?;
            target = next;
        }
        Err(Error::Redirects(MAX_REDIRECTS, target.host))
    }

    /// Returns where a redirect leads, if it may be followed.
    fn next(&self, from: &Target, to: &[u8], permission: &mut Permission) -> Result<Target, Error> {
        let next = target::redirected(from, to)?;
        if from.is_encrypted() && !next.is_encrypted() {
            return Err(Error::Downgrade(from.host.clone()));
        }
        if *permission == Permission::Named && next.origin() != from.origin() {
            return Err(Error::Elsewhere {
                from: from.host.clone(),
                to: next.host,
            });
        }
        match (*permission, self.rules.allows(&next)) {
            // Who asks for a page outside did not ask for what the owner has inside.
            (Permission::Public, true) => return Err(Error::Inward(next.host)),
            (Permission::Allowed, false) => *permission = Permission::Public,
            _ => {}
        }
        Ok(next)
    }

    /// Resolves a target, once, and returns the addresses that may be connected to.
    async fn addresses(
        &self,
        target: &Target,
        permission: Permission,
    ) -> Result<Vec<SocketAddr>, Error> {
        let (host, port) = (&target.host, target.port);
        if permission == Permission::Public {
            self.rules.check(target)?;
        }
        let unknown = |reason: &str| Error::Unknown {
            host: host.clone(),
            reason: super::server_text(reason),
        };
        let mut found = match target.literal {
            Some(address) => vec![SocketAddr::new(address, port)],
            None => self
                .resolver
                .resolve(host, port)
                .await
                .map_err(|error| unknown(&error.to_string()))?,
        };
        if found.is_empty() {
            return Err(unknown("it has no address"));
        }
        for address in &mut found {
            address.set_port(port);
            if permission == Permission::Public
                && let Some(what) = (self.refused)(address.ip())
            {
                return Err(Error::Address {
                    host: host.clone(),
                    port,
                    address: address.ip(),
                    what,
                });
            }
        }
        Ok(found)
    }

    async fn read(&self, target: &Target, response: Response) -> Result<Answer, Error> {
        let host = || target.host.clone();
        let limit = self.limits.bytes;
        let large = || Error::TooLarge {
            host: host(),
            limit,
        };
        let broken = |reason: String| Error::Broken {
            host: host(),
            reason,
        };
        let headers = response.headers();
        let sizes = headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len());
        if sizes.sum::<usize>() > MAX_HEADERS {
            return Err(broken("its headers are too large".to_owned()));
        }
        if response.content_length() > u64::try_from(limit).ok() {
            return Err(large());
        }
        let lossy = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let status = response.status().as_u16();
        let content_type = headers.get(CONTENT_TYPE).map(lossy);
        let codings: Vec<String> = headers
            .get_all(CONTENT_ENCODING)
            .iter()
            .map(lossy)
            .collect();
        let mut body = Vec::new();
        super::read_body(response, &mut body, limit, Timeouts::all(self.limits.time))
            .await
            .map_err(|error| match error {
                BodyError::TooLarge(_) => large(),
                error => broken(error.to_string()),
            })?;
        let unpack = move || decompress::unpack(body, &codings.join(", "), limit);
        let body = crate::sys::blocking(unpack)
            .await
            .map_err(|failed| match failed {
                decompress::Failed::TooLarge => large(),
                decompress::Failed::Damaged(reason) => Error::Packed {
                    host: host(),
                    reason,
                },
            })?;
        Ok(Answer {
            url: target.url.to_string(),
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
    target: &Target,
    addresses: Vec<SocketAddr>,
    accept: &str,
    key: Option<(&'static str, &Secret)>,
) -> Result<Response, Error> {
    let unreachable = |error: reqwest::Error| {
        let (host, error) = (target.host.clone(), error.without_url());
        let reason = super::innermost(&error);
        match error.is_connect() && is_of_the_kernel(&error) {
            true => Error::Unconnected { host, reason },
            false => Error::Unreachable { host, reason },
        }
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
        .get(target.url.clone())
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

/// Returns whether a connection was refused, timed out or found no way: no word of a server is in the error then, as there
/// is in one of TLS.
fn is_of_the_kernel(error: &dyn std::error::Error) -> bool {
    use std::io::ErrorKind;
    let causes = std::iter::successors(error.source(), |error| error.source());
    let innermost = causes.last();
    let kind = innermost.and_then(|error| error.downcast_ref::<std::io::Error>());
    kind.is_some_and(|error| {
        error.raw_os_error().is_some()
            && matches!(
                error.kind(),
                ErrorKind::ConnectionRefused
                    | ErrorKind::TimedOut
                    | ErrorKind::HostUnreachable
                    | ErrorKind::NetworkUnreachable
            )
    })
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

#[cfg(test)]
mod tests;
