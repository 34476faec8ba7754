//! The target of an address, before any request: parsed and normalized once, and checked against the rules. After that there
//! are no odd spellings of hosts (numbers, percent signs, other alphabets).

use std::net::IpAddr;

use reqwest::Url;

use super::error::Error;
use crate::text::HostPort;

/// The longest address that is looked at, bytes; longer ones than 2,000 many servers refuse.
const MAX_URL: usize = 8_000;
/// The longest name of a host (RFC 1035), with room for letters that become longer as ASCII.
const MAX_HOST: usize = 255;

/// What names of this machine and of local networks end in (RFC 6761, RFC 6762, RFC 8375, ICANN's
/// .internal).
const LOCAL: [&str; 5] = ["localhost", "localdomain", "local", "internal", "home.arpa"];

/// Scheme, host and port of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(String);

impl Origin {
    /// Returns the origin of an address that the owner wrote; `None` when it is not one of a server.
    pub fn of(url: &str) -> Option<Self> {
        let origin = Url::parse(url).ok()?.origin();
        origin
            .is_tuple()
            .then(|| Self(origin.ascii_serialization()))
    }
}

/// What may be fetched in addition to public addresses at the usual ports.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    ports: Vec<u16>,
    allow: Vec<(String, Option<u16>)>,
}

impl Rules {
    /// Returns rules from the settings: `ports` for everybody, and the hosts of `allow` (`HOST` or
    /// `HOST:PORT`, exactly as an address names them), which may be anywhere. Entries that are no hosts are
    /// logged and passed over.
    pub fn new(ports: &[u16], allow: &[String]) -> Self {
        let parsed = allow.iter().filter_map(|entry| {
            let parsed = allowed(entry);
            if parsed.is_none() {
                tracing::warn!(entry, "[tools.web] allow has an invalid host");
            }
            parsed
        });
        Self {
            ports: ports.to_vec(),
            allow: parsed.collect(),
        }
    }

    /// Returns true for a host that the owner allows by name.
    pub(crate) fn allows(&self, target: &Target) -> bool {
        self.allow
            .iter()
            .any(|(host, port)| *host == target.host && port.is_none_or(|port| port == target.port))
    }

    /// Checks what an address itself says: its port and its name.
    pub(crate) fn check(&self, target: &Target) -> Result<(), Error> {
        let (host, port) = (&target.host, target.port);
        if target.literal.is_none() && is_local_name(host) {
            return Err(Error::Name {
                host: host.clone(),
                port,
            });
        }
        if !self.ports.contains(&port) {
            return Err(Error::Port {
                host: host.clone(),
                port,
                allowed: self.ports.clone(),
            });
        }
        Ok(())
    }
}

/// Reads `nas.lan`, `127.0.0.1:8931` or `[::1]:80`.
fn allowed(entry: &str) -> Option<(String, Option<u16>)> {
    let HostPort { host, port } = HostPort::parse(entry)?;
    Some((self::host(host)?.0, port))
}

/// Reads a host as an address names it: how it is compared, and the address that is there instead of a name.
pub(crate) fn host(text: &str) -> Option<(String, Option<IpAddr>)> {
    if text.contains(['/', '?', '#', '@', '\\']) || text.len() > MAX_HOST {
        return None;
    }
    let target = parse(&format!("http://{text}/")).ok()?;
    // A port has no place there.
    let has_port = text.contains(':') && !text.ends_with(']');
    (!has_port && target.url.path() == "/").then_some((target.host, target.literal))
}

/// Returns whether only this machine or a local network has such a name.
pub(crate) fn is_local_name(host: &str) -> bool {
    let ends = |end: &str| {
        host.strip_suffix(end)
            .is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    LOCAL.into_iter().any(ends)
}

/// An address whose form is good.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) url: Url,
    /// As it is shown and compared: lower case, no dot at the end, IPv6 in brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The address that is there instead of a name.
    pub(crate) literal: Option<IpAddr>,
}

impl Target {
    pub(crate) fn origin(&self) -> Origin {
        Origin(self.url.origin().ascii_serialization())
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.url.scheme() == "https"
    }
}

pub(crate) fn parse(url: &str) -> Result<Target, Error> {
    let url = url.trim();
    let wrong = |why: &str| Error::Url(why.to_owned());
    if url.len() > MAX_URL {
        return Err(wrong("it is too long"));
    }
    // The parser would drop them silently, and what was shown would not be what is fetched.
    if url.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Err(wrong(
            "it has spaces or control characters in it; write them as %20 and the like",
        ));
    }
    let parsed = Url::parse(url).map_err(|error| match error.to_string().as_str() {
        "relative URL without a base" => wrong("it does not begin with https:// or http://"),
        said => wrong(said),
    })?;
    // `https:host` and `https:\\host` lead there, too, but who reads the address may see another host in it.
    let rest = url.get(parsed.scheme().len()..).unwrap_or_default();
    let is_plain = rest
        .strip_prefix("://")
        .is_some_and(|rest| !rest.starts_with(['/', '\\']));
    if ["http", "https"].contains(&parsed.scheme()) && !is_plain {
        return Err(wrong("it does not begin with https:// or http://"));
    }
    normalized(parsed)
}

/// Returns the host that an address leads to, with its port unless that is the usual one; `None` where it cannot be fetched.
pub fn host_of(url: &str) -> Option<String> {
    let Target { url, host, .. } = parse(url).ok()?;
    Some(match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host,
    })
}

/// Reads where a redirect leads.
pub(crate) fn redirected(from: &Target, to: &[u8]) -> Result<Target, Error> {
    let wrong = |why: &str| Error::Url(why.to_owned());
    let to = std::str::from_utf8(to).map_err(|_| wrong("it is not UTF-8"))?;
    if to.len() > MAX_URL || to.contains(char::is_control) {
        return Err(wrong("it is too long, or has control characters in it"));
    }
    normalized(
        from.url
            .join(to)
            .map_err(|error| wrong(&error.to_string()))?,
    )
}

fn normalized(mut url: Url) -> Result<Target, Error> {
    if !["http", "https"].contains(&url.scheme()) {
        return Err(Error::Scheme(url.scheme().to_owned()));
    }
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err(Error::Url("it names no host".to_owned()));
    };
    let host = host.strip_suffix('.').unwrap_or(host).to_owned();
    if host.is_empty() || host.ends_with('.') {
        return Err(Error::Url("it names no host".to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::Userinfo(format!("…@{host}")));
    }
    let literal = host.trim_matches(['[', ']']).parse().ok();
    // It stays with the reader.
    url.set_fragment(None);
    Ok(Target {
        url,
        host,
        port,
        literal,
    })
}

/// Returns `base` with `path` after its own and these parameters.
///
/// # Errors
/// When `base` is not an address of a server.
pub fn with_query(base: &str, path: &str, parameters: &[(&str, &str)]) -> Result<String, Error> {
    let base = parse(base)?.url;
    let below = format!("{}{path}", base.path().trim_end_matches('/'));
    let mut url = base;
    url.set_path(&below);
    url.query_pairs_mut().clear().extend_pairs(parameters);
    Ok(url.into())
}

/// Returns where `link` leads on the page `base`; `None` where that cannot be fetched.
pub fn join(base: &str, link: &str) -> Option<String> {
    let url = Url::parse(base).ok()?.join(link.trim()).ok()?;
    ["http", "https"]
        .contains(&url.scheme())
        .then(|| url.into())
}

/// Returns the value of a parameter of a query, unescaped; `None` when it is not there.
pub fn parameter(query: &str, name: &str) -> Option<String> {
    let mut all = parameters(query).into_iter();
    all.find(|(key, _)| key == name).map(|(_, value)| value)
}

/// Returns the parameters of a query, or the fields of a form, of any length, unescaped.
pub fn parameters(query: &str) -> Vec<(String, String)> {
    // The form's decoder belongs to addresses.
    let Ok(mut url) = Url::parse("http://query/") else {
        return Vec::new();
    };
    url.set_query(Some(query));
    url.query_pairs().into_owned().collect()
}

/// Reads a text as an address that somebody wants to fetch.
#[cfg(any(test, fuzzing))]
pub(crate) fn check_url(text: &str) {
    use crate::text;
    use crate::trust::Provenance;
    let Ok(target) = parse(text) else { return };
    assert!(["http", "https"].contains(&target.url.scheme()));
    assert!(target.url.username().is_empty() && target.url.password().is_none());
    assert_eq!(target.host, target.host.to_lowercase());
    let again = parse(target.url.as_str()).expect("what is fetched is what was checked");
    assert_eq!(
        (again.host, again.port, again.literal),
        (target.host.clone(), target.port, target.literal)
    );
    // Who is named as the source of a page is its host, also by the reader that stands below this room.
    if text::visible(text) == text && text.len() <= 80 {
        let Provenance::Host(named) = Provenance::of_url(text.trim()) else {
            panic!("{text} has a host");
        };
        let named = parse(&format!("http://{named}/")).expect("the host of an address");
        assert_eq!(named.host, target.host, "{text}");
    }
    let rules = Rules::new(&[80, 443], &[]);
    if rules.check(&target).is_ok() && target.literal.is_none() {
        assert!(!is_local_name(&target.host));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowed_host_is_compared_as_addresses_are_read() {
        let rules = Rules::new(
            &[],
            &["NAS.lan.", "127.0.0.1:8931", "[::1]:80", "bücher.example"].map(str::to_owned),
        );
        let check = |url: &str, expected: bool| {
            assert_eq!(
                rules.allows(&parse(url).expect("an address")),
                expected,
                "{url}"
            )
        };
        for url in [
            "http://nas.lan/",
            "https://nas.lan:5001/x",
            "http://nas.lan./",
            "http://127.1:8931/",
            "http://[0:0::1]/",
            "http://xn--bcher-kva.example/",
        ] {
            check(url, true);
        }
        for url in [
            "http://a.nas.lan/",
            "http://nas.lan.example/",
            "http://127.0.0.1/",
            "http://127.0.0.2:8931/",
            "https://[::1]/",
        ] {
            check(url, false);
        }
        for entry in [
            "",
            "http://nas.lan",
            "nas.lan/x",
            "a b",
            "u@nas.lan",
            "nas.lan:",
            "nas.lan:99999",
            "*",
            "10.0.0.0/8",
        ] {
            let rules = Rules::new(&[], &[entry.to_owned()]);
            let any = ["http://nas.lan/", "http://10.0.0.0/", "http://example.com/"];
            assert!(
                !any.iter()
                    .any(|url| rules.allows(&parse(url).expect("an address"))),
                "{entry}: {rules:?}"
            );
        }
    }

    #[test]
    fn addresses_are_put_together_without_a_slip() {
        let made = with_query(
            "https://s.example/searx/",
            "/search",
            &[("q", "a&b=c #d"), ("format", "json")],
        );
        assert_eq!(
            made.expect("a URL"),
            "https://s.example/searx/search?q=a%26b%3Dc+%23d&format=json"
        );
        assert_eq!(
            join("https://a.example/b/c", "../d").as_deref(),
            Some("https://a.example/d")
        );
        assert_eq!(
            (
                join("https://a.example/", "javascript:alert(1)"),
                join("https://a.example/", "data:,x")
            ),
            (None, None)
        );
        assert_eq!(
            Origin::of("HTTPS://A.example:443/x"),
            Origin::of("https://a.example")
        );
        assert_ne!(
            Origin::of("http://a.example"),
            Origin::of("https://a.example")
        );
        assert_eq!((Origin::of("data:,x"), Origin::of("nas")), (None, None));
    }
}
