//! Which addresses are on the public internet. All others belong to this machine, to its network, or to nobody, and are not
//! fetched because of a stranger's page.
//!
//! The ranges are those of the IANA registries of special-purpose addresses (RFC 6890 and its updates, read
//! 2026-11). Of IPv6 only 2000::/3 is handed out at all; every form that carries an IPv4 address in it
//! (mapped, compatible, NAT64, 6to4, Teredo, ISATAP) leads to machines that the check of that IPv4 address
//! would not see, and is refused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const THIS_MACHINE: &str = "an address of this machine";
pub(super) const OWN_NETWORK: &str = "an address of this machine's own network";
const CLOUD: &str = "an address where a cloud keeps its machines' secrets";
const NOBODY: &str = "no address of the public net";
const DISGUISED: &str = "an IPv4 address in the guise of IPv6";

const V4: [(Ipv4Addr, u32, &str); 17] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, THIS_MACHINE),
    (Ipv4Addr::new(10, 0, 0, 0), 8, OWN_NETWORK),
    (Ipv4Addr::new(100, 64, 0, 0), 10, OWN_NETWORK),
    (Ipv4Addr::new(127, 0, 0, 0), 8, THIS_MACHINE),
    // Azure's, in the middle of public addresses.
    (Ipv4Addr::new(168, 63, 129, 16), 32, CLOUD),
    (Ipv4Addr::new(169, 254, 169, 254), 32, CLOUD),
    (Ipv4Addr::new(169, 254, 0, 0), 16, OWN_NETWORK),
    (Ipv4Addr::new(172, 16, 0, 0), 12, OWN_NETWORK),
    (Ipv4Addr::new(192, 0, 0, 0), 24, NOBODY),
    (Ipv4Addr::new(192, 0, 2, 0), 24, NOBODY),
    (Ipv4Addr::new(192, 88, 99, 0), 24, NOBODY),
    (Ipv4Addr::new(192, 168, 0, 0), 16, OWN_NETWORK),
    (Ipv4Addr::new(198, 18, 0, 0), 15, NOBODY),
    (Ipv4Addr::new(198, 51, 100, 0), 24, NOBODY),
    (Ipv4Addr::new(203, 0, 113, 0), 24, NOBODY),
    (Ipv4Addr::new(224, 0, 0, 0), 4, NOBODY),
    // With 255.255.255.255.
    (Ipv4Addr::new(240, 0, 0, 0), 4, NOBODY),
];

const V6: [(Ipv6Addr, u32, &str); 14] = [
    (Ipv6Addr::UNSPECIFIED, 128, THIS_MACHINE),
    (Ipv6Addr::LOCALHOST, 128, THIS_MACHINE),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, DISGUISED),
    (Ipv6Addr::UNSPECIFIED, 96, DISGUISED),
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96, DISGUISED),
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48, DISGUISED),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, DISGUISED),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, NOBODY),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, NOBODY),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, DISGUISED),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, NOBODY),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, OWN_NETWORK),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, OWN_NETWORK),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, OWN_NETWORK),
];

/// Returns what is wrong with an address, as `127.0.0.1 is …` ends; `None` for one of the public net.
pub(super) fn refused(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => {
            let within = |net: Ipv4Addr, bits: u32| {
                (address.to_bits() ^ net.to_bits()).checked_shr(32 - bits) == Some(0)
            };
            V4.iter()
                .find(|(net, bits, _)| within(*net, *bits))
                .map(|(_, _, what)| *what)
        }
        IpAddr::V6(address) => {
            let within = |net: Ipv6Addr, bits: u32| {
                (address.to_bits() ^ net.to_bits()).checked_shr(128 - bits) == Some(0)
            };
            let isatap = matches!(address.segments(), [_, _, _, _, 0 | 0x200, 0x5efe, _, _])
                .then_some(DISGUISED);
            let known = V6
                .iter()
                .find(|(net, bits, _)| within(*net, *bits))
                .map(|(_, _, what)| *what);
            let handed_out = within(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
            known.or(isatap).or((!handed_out).then_some(NOBODY))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_address_of_each_range_are_refused_and_their_neighbours_are_not() {
        let check = |text: &str, expected: bool| {
            let address: IpAddr = text.parse().expect("an address");
            assert_eq!(refused(address).is_none(), expected, "{text}");
        };
        for public in [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "168.63.129.15",
            "168.63.129.17",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "191.255.255.255",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "198.51.99.255",
            "203.0.114.0",
            "223.255.255.255",
            "2001:200::",
            "2001:db7:ffff::",
            "2001:db9::",
            "2003::",
            "2606:4700:4700::1111",
            "2a00:1450:4001:82a::200e",
            "3ffe:ffff::",
        ] {
            check(public, true);
        }
        for refused in [
            "0.0.0.0",
            "0.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.0",
            "127.255.255.255",
            "168.63.129.16",
            "169.254.0.0",
            "169.254.255.255",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.255",
            "192.88.99.1",
            "192.168.0.0",
            "192.168.255.255",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.0",
            "203.0.113.255",
            "224.0.0.0",
            "239.255.255.255",
            "240.0.0.0",
            "255.255.255.255",
            "::",
            "::1",
            "::2",
            "::8.8.8.8",
            "::ffff:8.8.8.8",
            "::ffff:0:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "64:ff9b:1::1",
            "100::1",
            "1fff:ffff::",
            "2001::1",
            "2001:1ff:ffff::",
            "2001:db8::",
            "2002::",
            "2002:ffff::",
            "2a00::5efe:10.0.0.1",
            "2a00::200:5efe:10.0.0.1",
            "3fff::",
            "3fff:fff::",
            "4000::",
            "5f00::",
            "fc00::",
            "fd00:ec2::254",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
        ] {
            check(refused, false);
        }
    }
}
