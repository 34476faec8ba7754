//! The permitted destinations of a command: the hosts of the settings, and for each the addresses to which its
//! name may resolve.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::config::Network;
use crate::net::public_address;
use crate::net::ssrf_guard::target;
use crate::text::HostPort;

/// A name server that takes longer is not waited for.
const LOOKUP: Duration = Duration::from_secs(10);
/// Lookups of all commands at a time: each holds a thread.
static LOOKUPS: Semaphore = Semaphore::const_new(16);
/// Addresses of one name that are tried.
const MAX_ADDRESSES: usize = 8;

/// A host as it is compared and shown (lower case, no dot at the end, IPv6 in brackets), and a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destination {
    pub host: String,
    pub port: u16,
}

impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Destination {
    /// Reads `HOST:PORT`, or `HOST` when there is a usual port.
    pub(super) fn parse(text: &str, usual_port: Option<u16>) -> Option<Self> {
        let HostPort { host, port } = HostPort::parse(text)?;
        Self::new(host, port.or(usual_port)?)
    }

    pub(super) fn new(host: &str, port: u16) -> Option<Self> {
        let (host, _) = target::host(host)?;
        (port != 0).then_some(Self { host, port })
    }

    /// Returns the address that is there instead of a name.
    pub(super) fn literal(&self) -> Option<IpAddr> {
        self.host.trim_matches(['[', ']']).parse().ok()
    }

    /// Returns whether its name is this machine's, whatever a name server says (RFC 6761).
    fn is_localhost(&self) -> bool {
        self.host == "localhost" || self.host.ends_with(".localhost")
    }
}

/// Why a destination was not connected to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(
        "{0} is not reached: the network is closed ({1} = false); the owner can allow it with [{1}] allow = [\"{0}\"] in agent.toml"
    )]
    Closed(Destination, String),
    #[error(
        "{0} is not allowed; the owner can allow it with [{1}] allow = [\"{0}\"] in agent.toml"
    )]
    NotListed(Destination, String),
    /// Somebody was asked. Carries what they said.
    #[error("{0} is not allowed: {1}")]
    Denied(Destination, String),
    /// Somebody was asked, and has not answered.
    #[error(
        "{0} was not reached: the owner was asked about it, and this ended before they answered; run it again when they are there"
    )]
    Unanswered(Destination),
    #[error(
        "{destination} is not reached: {address} is {what}; the owner can allow it with [{setting}] allow = [\"{}\"] in agent.toml",
        SocketAddr::new(*.address, .destination.port)
    )]
    Address {
        destination: Destination,
        address: IpAddr,
        /// As `127.0.0.1 is …` ends.
        what: &'static str,
        setting: String,
    },
    #[error("{0} is not reached: the program asks for {1} there, which is another host")]
    OtherName(Destination, String),
    #[error("{0} cannot be found: {1}")]
    Unknown(Destination, String),
    #[error("{0} cannot be reached: {1}")]
    Unreachable(Destination, String),
}

impl Refusal {
    /// Returns whether the owner's settings decided it, not the net.
    pub fn is_by_rule(&self) -> bool {
        !matches!(self, Self::Unknown(..) | Self::Unreachable(..))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    Name(String),
    /// `.example.com`: every name that ends so.
    Suffix(String),
    Address(IpAddr),
}

/// What may be connected to.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    network: Network,
    hosts: Vec<(Host, Option<u16>)>,
    /// The table of the settings that decides, as a refusal names it.
    setting: String,
}

impl Rules {
    /// Returns the rules of `network`, which is at `setting` (`tools.exec.network`). Entries that are no
    /// hosts are logged and passed over.
    pub fn new(network: &Network, setting: &str) -> Self {
        let mut rules = Self {
            network: network.clone(),
            hosts: Vec::new(),
            setting: setting.to_owned(),
        };
        rules.allow(network.hosts());
        rules
    }

    /// Allows further hosts, written as in the settings.
    pub fn allow(&mut self, entries: &[String]) {
        for entry in entries {
            match read(entry) {
                Some(hosts) => self.hosts.extend(hosts),
                None => tracing::warn!(
                    entry,
                    "[{}] allow has something that is no host",
                    self.setting
                ),
            }
        }
    }

    /// Returns whether an address of this machine is among what is allowed.
    pub fn reach_this_machine(&self) -> bool {
        let is_local =
            |(host, _): &(Host, _)| matches!(host, Host::Address(address) if address.is_loopback());
        self.hosts.iter().any(is_local)
    }

    /// Returns whether a host, with its port or on the port of HTTPS, is allowed by name.
    pub fn names(&self, host: &str) -> bool {
        let destination = Destination::parse(host, Some(443));
        destination.is_some_and(|destination| self.check(&destination).is_ok())
    }

    /// Decides about a destination by what is written there.
    pub(super) fn check(&self, destination: &Destination) -> Result<(), Refusal> {
        let Destination { host, port } = destination;
        let literal = destination.literal();
        let names = |(rule, of): &(Host, Option<u16>)| {
            of.is_none_or(|of| of == *port)
                && match rule {
                    Host::Name(name) => name == host,
                    Host::Suffix(suffix) => literal.is_none() && host.ends_with(suffix.as_str()),
                    Host::Address(address) => {
                        literal == Some(*address)
                            || destination.is_localhost() && address.is_loopback()
                    }
                }
        };
        if self.network == Network::Public || self.hosts.iter().any(names) {
            return Ok(());
        }
        let (destination, setting) = (destination.clone(), self.setting.clone());
        Err(match (literal.and_then(public_address::refused), literal) {
            (Some(what), Some(address)) => Refusal::Address {
                destination,
                address,
                what,
                setting,
            },
            _ if self.network == Network::Closed => Refusal::Closed(destination, setting),
            _ => Refusal::NotListed(destination, setting),
        })
    }

    /// Returns whether the owner could say yes to a destination that the rules do not name: only to a host of
    /// the public net, by its name or address.
    pub(super) fn may_be_asked(&self, destination: &Destination, why: &Refusal) -> bool {
        matches!(why, Refusal::NotListed(..)) && !target::is_local_name(&destination.host)
    }

    /// Returns the only server that TLS may be begun with there: behind one allowed name other tenants of the
    /// same server may answer. Where every public host is allowed it does not matter.
    pub(super) fn name_in_tls<'a>(&self, destination: &'a Destination) -> Option<&'a str> {
        let is_named = self.network != Network::Public && destination.literal().is_none();
        is_named.then_some(destination.host.as_str())
    }

    /// Resolves a destination that is allowed, once, and returns the addresses that may be connected to.
    pub(super) async fn addresses(
        &self,
        destination: &Destination,
    ) -> Result<Vec<SocketAddr>, Refusal> {
        let port = destination.port;
        let unknown =
            |why: &str| Refusal::Unknown(destination.clone(), crate::net::server_text(why));
        let found = match destination.literal() {
            Some(address) => vec![SocketAddr::new(address, port)],
            None if destination.is_localhost() => self.local_addresses(port),
            None => {
                let _turn = LOOKUPS.acquire().await;
                let lookup = tokio::net::lookup_host((destination.host.as_str(), port));
                match tokio::time::timeout(LOOKUP, lookup).await {
                    Ok(found) => found
                        .map_err(|error| unknown(&error.to_string()))?
                        .take(MAX_ADDRESSES)
                        .collect(),
                    Err(_) => return Err(unknown("no name server answered in time")),
                }
            }
        };
        if found.is_empty() {
            return Err(unknown("it has no address"));
        }
        match found
            .iter()
            .find_map(|address| Some((address.ip(), self.refused(destination, address.ip())?)))
        {
            None => Ok(found),
            Some((address, what)) => Err(Refusal::Address {
                destination: destination.clone(),
                address,
                what,
                setting: self.setting.clone(),
            }),
        }
    }

    fn local_addresses(&self, port: u16) -> Vec<SocketAddr> {
        let both = [
            IpAddr::from(Ipv4Addr::LOCALHOST),
            Ipv6Addr::LOCALHOST.into(),
        ];
        let written: Vec<SocketAddr> = both
            .into_iter()
            .filter(|address| self.writes_out(*address, port))
            .map(|address| SocketAddr::new(address, port))
            .collect();
        if written.is_empty() {
            vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)]
        } else {
            written
        }
    }

    fn writes_out(&self, address: IpAddr, port: u16) -> bool {
        let is_it = |(host, of): &(Host, Option<u16>)| {
            *host == Host::Address(address) && of.is_none_or(|of| of == port)
        };
        self.hosts.iter().any(is_it)
    }

    /// Returns what is wrong with an address that a destination leads to. A public name that leads inward is
    /// not what the owner allowed; a name that only the own network has (`nas.local`) can lead nowhere else.
    fn refused(&self, destination: &Destination, address: IpAddr) -> Option<&'static str> {
        let what = public_address::refused(address)?;
        let names_own_network = what == public_address::OWN_NETWORK
            && target::is_local_name(&destination.host)
            && self
                .hosts
                .iter()
                .any(|(host, _)| *host == Host::Name(destination.host.clone()));
        let is_written = self.writes_out(address, destination.port) || names_own_network;
        (!is_written).then_some(what)
    }
}

/// Reads an entry of the settings: `host`, `host:port`, `*.suffix`, an address; `localhost` is two addresses.
fn read(entry: &str) -> Option<Vec<(Host, Option<u16>)>> {
    if let Ok(address) = entry.parse::<Ipv6Addr>() {
        return Some(vec![(Host::Address(address.into()), None)]);
    }
    let HostPort { host, port } = HostPort::parse(entry)?;
    if let Some(suffix) = host.strip_prefix("*.") {
        let (suffix, literal) = target::host(suffix)?;
        return literal
            .is_none()
            .then(|| vec![(Host::Suffix(format!(".{suffix}")), port)]);
    }
    let (host, literal) = target::host(host)?;
    Some(match literal {
        Some(address) => vec![(Host::Address(address), port)],
        None if host == "localhost" => vec![
            (Host::Address(Ipv4Addr::LOCALHOST.into()), port),
            (Host::Address(Ipv6Addr::LOCALHOST.into()), port),
        ],
        None => vec![(Host::Name(host), port)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(entries: &[&str]) -> Rules {
        let entries = entries.iter().map(|entry| (*entry).to_owned()).collect();
        Rules::new(&Network::Hosts(entries), "tools.exec.network")
    }

    fn check(rules: &Rules, destination: &str) -> bool {
        let destination = Destination::parse(destination, None).expect("a destination");
        rules.check(&destination).is_ok()
    }

    #[test]
    fn a_host_is_allowed_by_name_suffix_or_address() {
        let rules = rules(&[
            "GitHub.com:443",
            "*.example.org",
            "10.0.0.7",
            "127.0.0.1:8080",
            "bücher.example",
            "[::1]:9",
        ]);
        for good in [
            "github.com:443",
            "GITHUB.COM.:443",
            "a.example.org:1",
            "a.b.example.org:22",
            "10.0.0.7:22",
            "127.0.0.1:8080",
            "127.1:8080",
            "0x7f000001:8080",
            "localhost:8080",
            "xn--bcher-kva.example:80",
            "[0:0::1]:9",
        ] {
            assert!(check(&rules, good), "{good}");
        }
        for bad in [
            "github.com:80",
            "api.github.com:443",
            "github.com.evil.example:443",
            "example.org:443",
            "notexample.org:443",
            "10.0.0.8:22",
            "127.0.0.1:8081",
            "127.0.0.2:8080",
            "[::ffff:127.0.0.1]:8080",
            "[::1]:8080",
        ] {
            assert!(!check(&rules, bad), "{bad}");
        }
    }

    #[test]
    fn what_is_no_destination_is_none() {
        for text in [
            "",
            "a",
            ":80",
            "a:",
            "a:0",
            "a:65536",
            "a:+80",
            "a b:80",
            "a/b:80",
            "u@a:80",
            "a?b:80",
            "a#b:80",
            "a\\b:80",
            "[::1:80",
            "a\0b:80",
            &format!("{}:80", "a".repeat(300)),
        ] {
            assert_eq!(Destination::parse(text, None), None, "{text}");
        }
    }

    #[test]
    fn a_refusal_names_the_host_and_the_setting() {
        let said = |rules: &Rules, destination: &str| {
            let destination = Destination::parse(destination, None).expect("a destination");
            rules
                .check(&destination)
                .expect_err("it is refused")
                .to_string()
        };
        assert_eq!(
            said(&rules(&[]), "a.example:443"),
            "a.example:443 is not allowed; the owner can allow it with [tools.exec.network] allow = [\"a.example:443\"] in agent.toml"
        );
        let closed = Rules::new(&Network::Closed, "tools.exec.network");
        assert!(said(&closed, "a.example:443").contains("(tools.exec.network = false)"));
        assert!(
            said(&closed, "127.0.0.1:80")
                .ends_with("[tools.exec.network] allow = [\"127.0.0.1:80\"] in agent.toml")
        );
    }

    #[tokio::test]
    async fn an_address_inside_is_reached_only_when_it_is_written_out() {
        let reach = async |rules: &Rules, destination: &str| {
            let destination = Destination::parse(destination, None).expect("a destination");
            rules.addresses(&destination).await.is_ok()
        };
        let public = Rules::new(&Network::Public, "x");
        for inside in [
            "127.0.0.1:80",
            "localhost:80",
            "a.localhost:80",
            "10.1.2.3:80",
            "169.254.169.254:80",
            "[::1]:80",
            "[fd00::1]:80",
            "[::ffff:10.0.0.1]:80",
            "0.0.0.0:80",
        ] {
            assert!(!reach(&public, inside).await, "{inside}");
            assert!(
                public
                    .check(&Destination::parse(inside, None).unwrap())
                    .is_ok()
            );
        }
        assert!(reach(&public, "1.1.1.1:53").await);
        let written = rules(&["localhost:80", "10.1.2.3"]);
        for inside in ["127.0.0.1:80", "localhost:80", "10.1.2.3:5"] {
            assert!(reach(&written, inside).await, "{inside}");
        }
    }

    #[test]
    fn a_name_that_leads_inward_is_refused_unless_only_the_own_network_has_it() {
        let rules = rules(&["evil.example", "nas.local", "*.internal"]);
        let own: IpAddr = "192.168.1.5".parse().unwrap();
        let refused = |host: &str, address: IpAddr| {
            let destination = Destination::new(host, 80).expect("a destination");
            rules.refused(&destination, address).is_some()
        };
        assert!(refused("evil.example", own) && refused("a.internal", own));
        assert!(!refused("nas.local", own));
        assert!(refused("nas.local", "127.0.0.1".parse().unwrap()));
        assert!(refused("nas.local", "169.254.169.254".parse().unwrap()));
    }
}
