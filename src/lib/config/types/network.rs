//! The hosts to which commands and tool servers may connect.

use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::HostPort;

/// `tools.exec.network` and `mcp.servers.NAME.network`: `false`, `true` or a table with `allow`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Network {
    /// Nowhere.
    #[default]
    Closed,
    /// Every host of the public net.
    Public,
    /// These hosts: `HOST`, `HOST:PORT`, `*.SUFFIX` or an address; default none.
    Hosts(Vec<String>),
}

const ALLOW: &str = "allow";

impl Network {
    /// Returns the hosts that are named.
    pub fn hosts(&self) -> &[String] {
        match self {
            Self::Hosts(hosts) => hosts,
            Self::Closed | Self::Public => &[],
        }
    }

    /// Returns the first entry that is not a host, and what is expected.
    pub(in crate::config) fn fault(&self) -> Option<String> {
        let entry = self.hosts().iter().find(|entry| !is_host(entry))?;
        Some(format!(
            "`{entry}` is no host: expected `example.com`, `example.com:443`, `*.example.com` or an address such as `127.0.0.1:8080`; \
             for every public host write `network = true`"
        ))
    }
}

fn is_host(entry: &str) -> bool {
    if entry.parse::<std::net::Ipv6Addr>().is_ok() {
        return true;
    }
    let Some(read) = HostPort::parse(entry).filter(|read| read.port != Some(0)) else {
        return false;
    };
    let is_name = |name: &str| {
        let is_label = |label: &str| {
            !label.is_empty()
                && label
                    .chars()
                    .all(|c| c.is_alphanumeric() || "-_".contains(c))
        };
        name.strip_suffix('.')
            .unwrap_or(name)
            .split('.')
            .all(is_label)
    };
    is_name(read.host.strip_prefix("*.").unwrap_or(read.host)) || read.is_bracketed()
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Closed => serializer.serialize_bool(false),
            Self::Public => serializer.serialize_bool(true),
            Self::Hosts(hosts) => {
                let mut table = serializer.serialize_map(Some(1))?;
                table.serialize_entry(ALLOW, hosts)?;
                table.end()
            }
        }
    }
}

struct BoolOrTable;

impl<'de> Visitor<'de> for BoolOrTable {
    type Value = Network;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false or a table with `allow = [\"host:port\"]`")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Network, E> {
        Ok(if value {
            Network::Public
        } else {
            Network::Closed
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Network, A::Error> {
        let mut hosts = Vec::new();
        while let Some(key) = table.next_key::<String>()? {
            if key != ALLOW {
                return Err(A::Error::unknown_field(&key, &[ALLOW]));
            }
            hosts = table.next_value()?;
        }
        Ok(Network::Hosts(hosts))
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BoolOrTable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Table {
        network: Network,
    }

    #[test]
    fn it_is_a_boolean_or_a_list_of_hosts() {
        let check = |text: &str, expected: Network| {
            let read: Table = toml::from_str(text).expect("good");
            assert_eq!(read.network, expected, "{text}");
            let again = toml::to_string(&read).expect("TOML");
            assert_eq!(toml::from_str::<Table>(&again).expect("good"), read);
        };
        check("network = true", Network::Public);
        check("network = false", Network::Closed);
        check("[network]", Network::Hosts(vec![]));
        check(
            "[network]\nallow = [\"a.example:443\"]",
            Network::Hosts(vec!["a.example:443".to_owned()]),
        );
        for bad in [
            "network = 1",
            "network = \"on\"",
            "[network]\nalow = []",
            "network.allow = \"a\"",
        ] {
            assert!(toml::from_str::<Table>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_entry_that_is_no_host_is_a_fault() {
        for good in [
            "a.example",
            "nas",
            "bücher.example:443",
            "*.example.com:443",
            "10.0.0.1",
            "127.0.0.1:8080",
            "::1",
            "[::1]:80",
            "localhost:3000",
        ] {
            assert_eq!(
                Network::Hosts(vec![good.to_owned()]).fault(),
                None,
                "{good}"
            );
        }
        for bad in [
            "",
            "*",
            "*.",
            "a.*.b",
            "http://a.example",
            "a.example/x",
            "a b",
            "a:",
            "a:0",
            "a:99999",
            "a:http",
            "10.0.0.0/8",
            "u@a",
            "..",
        ] {
            assert!(
                Network::Hosts(vec![bad.to_owned()]).fault().is_some(),
                "{bad}"
            );
        }
    }
}
