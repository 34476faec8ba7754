//! `HOST` and `HOST:PORT`, as settings and requests write them.

use std::net::IpAddr;

/// A host as it is written, IPv6 in brackets, and the port behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostPort<'a> {
    /// A name or an address.
    pub host: &'a str,
    /// `None` when there is none.
    pub port: Option<u16>,
}

impl<'a> HostPort<'a> {
    /// Reads `nas.lan`, `127.0.0.1:8931` or `[::1]:80`; `None` when the port is no number. The host may still be none.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (text, None),
        };
        let is_number = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        let port = match port {
            Some(port) => Some(port.parse().ok().filter(|_| is_number(port))?),
            None => None,
        };
        Some(Self { host, port })
    }

    /// Returns the host of `text`: all of it when its port is no number.
    pub fn host_of(text: &'a str) -> &'a str {
        Self::parse(text).map_or(text, |read| read.host)
    }

    /// Returns the address that is there instead of a name, with or without brackets.
    pub fn address(&self) -> Option<IpAddr> {
        self.host.trim_matches(['[', ']']).parse().ok()
    }

    /// Returns whether it is an IPv6 address in brackets.
    pub fn is_bracketed(&self) -> bool {
        self.host.starts_with('[')
            && self.host.ends_with(']')
            && self.address().is_some_and(|address| address.is_ipv6())
    }

    /// Returns whether only this machine answers there.
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.address().is_some_and(|address| address.is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_may_have_a_port_and_an_address_in_brackets_has_colons_of_its_own() {
        let check = |text: &str, expected: Option<(&str, Option<u16>)>| {
            let read = HostPort::parse(text).map(|read| (read.host, read.port));
            assert_eq!(read, expected, "{text}");
        };
        check("nas.lan", Some(("nas.lan", None)));
        check("127.0.0.1:8931", Some(("127.0.0.1", Some(8931))));
        check("[::1]:0", Some(("[::1]", Some(0))));
        check("[::1]", Some(("[::1]", None)));
        for bad in ["a:", "a:+80", "a:65536", "a:b", "localhost:x@elsewhere"] {
            check(bad, None);
        }
    }

    #[test]
    fn only_this_machine_is_local() {
        let check = |text: &str, expected: bool| {
            let read = HostPort::parse(text).expect("a host");
            assert_eq!(read.is_loopback(), expected, "{text}");
        };
        for text in [
            "localhost",
            "localhost:1",
            "127.9.9.9:1",
            "[::1]:1",
            "[::1]",
        ] {
            check(text, true);
        }
        for text in ["localhost.example.org", "10.0.0.1:1", "[::2]", "::1"] {
            check(text, false);
        }
    }
}
