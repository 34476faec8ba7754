//! The Host and Origin checks, against DNS rebinding and requests of other sites' pages. They apply
//! with a valid token, too.

use hyper::header::{HOST, HeaderMap, ORIGIN};
use hyper::{Request, Version};

use super::error::ApiError;
use crate::config::{Http, Listen};
use crate::text::HostPort;

/// The host names that are accepted.
#[derive(Debug)]
pub(super) enum Hosts {
    /// Any: no browser can reach a Unix socket.
    Any,
    /// Those of this machine, the one of `[http] listen`, and those of `[http] hosts`.
    Named {
        /// As `[http] listen` says it.
        listen: String,
        /// Every address of this machine is listened on.
        wildcard: bool,
        /// As `[http] hosts` says them, in lower case.
        more: Vec<String>,
    },
}

impl Hosts {
    pub(super) fn of(http: &Http) -> Self {
        match http.address() {
            Some(Listen::Tcp(address)) => {
                let listen = host(&address).unwrap_or_default();
                let wildcard = listen
                    .parse::<std::net::IpAddr>()
                    .is_ok_and(|address| address.is_unspecified());
                let more = http.hosts.iter().map(|host| host.to_ascii_lowercase());
                Self::Named {
                    listen,
                    wildcard,
                    more: more.collect(),
                }
            }
            Some(Listen::Unix(_)) | None => Self::Any,
        }
    }

    /// Checks Host and Origin of a request.
    ///
    /// # Errors
    /// [`ApiError`] for another name, or a page of another site.
    pub(super) fn check<B>(
        &self,
        request: &Request<B>,
        origins: &[String],
    ) -> Result<(), ApiError> {
        let headers = request.headers();
        let named = one(headers, &HOST)?;
        let asked = [
            named,
            request
                .uri()
                .authority()
                .map(|authority| authority.as_str()),
        ];
        if let Self::Named { .. } = self {
            if asked == [None, None] && request.version() > Version::HTTP_10 {
                return Err(ApiError::bad("the header Host is missing"));
            }
            if asked
                .iter()
                .flatten()
                .any(|authority| !self.is_ours(authority))
            {
                return Err(ApiError::forbidden("the header Host names another server")
                    .hint("add the name to [http] hosts in agent.toml; a reverse proxy may also send Host: localhost"));
            }
        }
        let Some(origin) = one(headers, &ORIGIN)? else {
            return Ok(());
        };
        let site = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"));
        let is_same = |site: &str| {
            named.is_some_and(|named| site.eq_ignore_ascii_case(named)) && self.is_ours(site)
        };
        if site.is_some_and(is_same) || is_listed(origins, origin) {
            return Ok(());
        }
        Err(
            ApiError::forbidden("requests from pages of other sites are refused")
                .hint("add the site to [http] origins in agent.toml, such as https://chat.example"),
        )
    }

    fn is_ours(&self, authority: &str) -> bool {
        let Some(host) = host(authority) else {
            return false;
        };
        let address = host.parse::<std::net::IpAddr>().ok();
        let local = host == "localhost" || address.is_some_and(|address| address.is_loopback());
        match self {
            // The Origin of a page is still checked.
            Self::Any => local,
            // An address cannot be rebound to another server.
            Self::Named {
                listen,
                wildcard,
                more,
            } => {
                local || host == *listen || more.contains(&host) || (*wildcard && address.is_some())
            }
        }
    }
}

/// Returns true for the origin of a page that `[http] origins` lets in.
pub(super) fn is_listed(origins: &[String], origin: &str) -> bool {
    origins.iter().any(|one| one.eq_ignore_ascii_case(origin))
}

/// Returns the only value of a header.
fn one<'a>(
    headers: &'a HeaderMap,
    name: &hyper::header::HeaderName,
) -> Result<Option<&'a str>, ApiError> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(ApiError::bad(format!("the header {name} is repeated")));
    }
    first
        .map(|value| {
            value
                .to_str()
                .map_err(|_| ApiError::bad(format!("the header {name} is not text")))
        })
        .transpose()
}

/// Returns the host of `HOST`, `HOST:PORT`, `[ADDRESS]:PORT`, in lower case and without brackets.
fn host(authority: &str) -> Option<String> {
    let host = HostPort::parse(authority)?.host;
    let (host, signs) = match host.strip_prefix('[') {
        Some(rest) => (rest.strip_suffix(']')?, ".-_:"),
        None => (host, ".-_"),
    };
    let is_letter = |c: char| c.is_ascii_alphanumeric() || signs.contains(c);
    let is_good = !host.is_empty() && host.chars().all(is_letter);
    is_good.then(|| host.trim_end_matches('.').to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(listen: &str) -> Hosts {
        Hosts::of(&Http {
            listen: listen.to_owned(),
            ..Http::default()
        })
    }

    fn status(hosts: &Hosts, uri: &str, headers: &[(&str, &str)]) -> Option<String> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let origins = ["https://chat.example".to_owned()];
        let request = request.body(()).expect("request");
        let refusal = hosts.check(&request, &origins).err()?;
        Some(
            refusal.document()["error"]["code"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    }

    #[test]
    fn only_names_of_this_machine_are_ours() {
        let check = |listen: &str, host: &str, ours: bool| {
            assert_eq!(
                status(&hosts(listen), "/", &[("host", host)]).is_none(),
                ours,
                "{listen} {host}"
            );
        };
        for host in [
            "127.0.0.1:8100",
            "localhost",
            "LOCALHOST:9",
            "localhost.:80",
            "[::1]:8100",
            "127.1.2.3",
        ] {
            check("127.0.0.1:8100", host, true);
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:8100",
            "192.168.0.7",
            "localhost@evil.example",
            "",
            "localhost:99999",
            "[::1",
            "[::1]x",
            "local\u{e4}host",
        ] {
            check("127.0.0.1:8100", host, false);
        }
        check("192.168.0.7:8100", "192.168.0.7:8100", true);
        check("192.168.0.7:8100", "192.168.0.8:8100", false);
        check("agent.lan:8100", "Agent.LAN:8100", true);
        check("0.0.0.0:8100", "192.168.0.8:8100", true);
        check("0.0.0.0:8100", "evil.example:8100", false);
        check("unix:/run/x", "whatever%2Fit", true);
        let ours = hosts("127.0.0.1:8100");
        assert_eq!(status(&ours, "/", &[]).as_deref(), Some("bad_request"));
        assert_eq!(
            status(
                &ours,
                "/",
                &[("host", "localhost"), ("host", "evil.example")]
            )
            .as_deref(),
            Some("bad_request")
        );
        assert_eq!(
            status(&ours, "http://evil.example/", &[("host", "localhost")]).as_deref(),
            Some("forbidden")
        );
    }

    #[test]
    fn names_and_sites_of_the_settings_are_let_in_and_no_others() {
        let hosts = Hosts::of(&Http {
            hosts: vec!["Host.docker.internal".to_owned()],
            ..Http::default()
        });
        let check = |host: &str, origin: &str, passes: bool| {
            let said = status(&hosts, "/", &[("host", host), ("origin", origin)]);
            assert_eq!(said.is_none(), passes, "{host} {origin}");
        };
        check(
            "host.docker.internal:8100",
            "http://host.docker.internal:8100",
            true,
        );
        check("host.docker.internal:8100", "https://chat.example", true);
        check("docker.internal", "https://chat.example", false);
        check("localhost:8100", "https://evil.example", false);
        check("localhost:8100", "http://chat.example", false);
        check("localhost:8100", "https://chat.example.evil.example", false);
    }

    #[test]
    fn a_page_of_another_site_is_refused() {
        let ours = hosts("127.0.0.1:8100");
        let check = |origin: &str, ours_too: bool| {
            let said = status(
                &ours,
                "/",
                &[("host", "127.0.0.1:8100"), ("origin", origin)],
            );
            assert_eq!(
                said,
                (!ours_too).then(|| "forbidden".to_owned()),
                "{origin}"
            );
        };
        check("http://127.0.0.1:8100", true);
        for origin in [
            "http://127.0.0.1:3000",
            "http://localhost:8100",
            "null",
            "https://evil.example",
            "",
            "file://",
            "http://127.0.0.1:8100/x",
        ] {
            check(origin, false);
        }
    }
}
