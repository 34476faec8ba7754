//! Known tricks to reach internal hosts through an address or a name, each refused for its own reason; and addresses that look
//! like tricks but are not.

use super::*;

/// What becomes of an address.
enum Fate {
    /// It may be connected to, at these addresses.
    Good(&'static [&'static str]),
    /// It may not: the message has these words in it.
    Bad(&'static str),
}
use Fate::{Bad, Good};

const WEB: &[&str] = &["93.184.215.14"];
const MACHINE: &str = "is an address of this machine, ";
const NETWORK: &str = "is an address of this machine's own network";
const NAME: &str = "is a name of this machine or its network";
const GUISE: &str = "in the guise of IPv6";
const NOBODY: &str = "is no address of the public net";
const FORM: &str = "this address cannot be fetched";
const USER: &str = "a name or a password";
const PORT: &str = "is not fetched from, only 80, 443, 8080, 8443";
const UNKNOWN: &str = "cannot be found";

#[rustfmt::skip]
const TABLE: &[(&str, &str, Fate)] = &[
    // Plain ways in.
    ("loopback", "http://127.0.0.1/", Bad(MACHINE)),
    ("the unspecified address, which Linux connects to itself", "http://0.0.0.0/", Bad(MACHINE)),
    ("the rest of 0/8", "http://0.1.2.3/", Bad(MACHINE)),
    ("private 10/8", "http://10.0.0.1/", Bad(NETWORK)),
    ("private 172.16/12", "http://172.16.0.1/", Bad(NETWORK)),
    ("private 192.168/16", "http://192.168.1.1/", Bad(NETWORK)),
    ("the shared space of carriers", "http://100.64.0.1/", Bad(NETWORK)),
    ("link-local", "http://169.254.1.1/", Bad(NETWORK)),
    ("metadata of clouds", "http://169.254.169.254/latest/meta-data/", Bad("keeps its machines' secrets")),
    ("metadata of Azure, a public address", "http://168.63.129.16/", Bad("keeps its machines' secrets")),
    ("metadata of Oracle, among protocol assignments", "http://192.0.0.192/", Bad(NOBODY)),
    ("multicast", "http://224.0.0.1/", Bad(NOBODY)),
    ("broadcast", "http://255.255.255.255/", Bad(NOBODY)),
    ("reserved 240/4", "http://240.0.0.1/", Bad(NOBODY)),
    ("documentation", "http://192.0.2.1/", Bad(NOBODY)),
    ("benchmarks, and what fake-IP proxies answer", "http://198.18.0.1/", Bad(NOBODY)),
    ("the relay of 6to4", "http://192.88.99.1/", Bad(NOBODY)),
    // IPv6.
    ("loopback of IPv6", "http://[::1]/", Bad(MACHINE)),
    ("unspecified of IPv6", "http://[::]/", Bad(MACHINE)),
    ("loopback of IPv6 written in full", "http://[0000:0000:0000:0000:0000:0000:0000:0001]/", Bad(MACHINE)),
    ("v4-mapped", "http://[::ffff:127.0.0.1]/", Bad(GUISE)),
    ("v4-compatible", "http://[::127.0.0.1]/", Bad(GUISE)),
    ("v4-translated", "http://[::ffff:0:127.0.0.1]/", Bad(NOBODY)),
    ("NAT64", "http://[64:ff9b::7f00:1]/", Bad(GUISE)),
    ("NAT64 of a local network", "http://[64:ff9b:1::a00:1]/", Bad(GUISE)),
    ("6to4", "http://[2002:7f00:1::]/", Bad(GUISE)),
    ("Teredo", "http://[2001:0:a00:1::]/", Bad(GUISE)),
    ("ISATAP", "http://[2a00::5efe:7f00:1]/", Bad(GUISE)),
    ("unique local, and metadata of AWS by IPv6", "http://[fd00:ec2::254]/", Bad(NETWORK)),
    ("link-local of IPv6", "http://[fe80::1]/", Bad(NETWORK)),
    ("site-local", "http://[fec0::1]/", Bad(NETWORK)),
    ("multicast of IPv6", "http://[ff02::1]/", Bad(NOBODY)),
    ("documentation of IPv6", "http://[2001:db8::1]/", Bad(NOBODY)),
    ("discard prefix", "http://[100::1]/", Bad(NOBODY)),
    ("segment routing, outside of what is handed out", "http://[5f00::1]/", Bad(NOBODY)),
    ("zone id", "http://[fe80::1%25eth0]/", Bad(FORM)),
    ("zone id without escape", "http://[fe80::1%eth0]/", Bad(FORM)),
    ("future form of IP literals", "http://[v1.x]/", Bad(FORM)),
    // Numbers that are IPv4 addresses to a parser and names to a filter.
    ("decimal", "http://2130706433/", Bad("127.0.0.1 is an address of this machine")),
    ("hexadecimal", "http://0x7f000001/", Bad("127.0.0.1 is an address of this machine")),
    ("octal", "http://017700000001/", Bad("127.0.0.1 is an address of this machine")),
    ("short, two parts", "http://127.1/", Bad("127.0.0.1 is an address of this machine")),
    ("short, three parts", "http://10.0.1/", Bad("10.0.0.1 is an address of this machine's own network")),
    ("parts in octal", "http://0177.0.0.01/", Bad("127.0.0.1 is an address of this machine")),
    ("parts in mixed bases", "http://0x7f.0.0.1/", Bad("127.0.0.1 is an address of this machine")),
    ("zero alone", "http://0/", Bad("0.0.0.0 is an address of this machine")),
    ("a part beyond 255", "http://127.0.0.256/", Bad(FORM)),
    ("a number beyond 32 bits", "http://4294967297/", Bad(FORM)),
    ("five parts", "http://127.0.0.0.1/", Bad(FORM)),
    ("address with a dot at its end", "http://127.0.0.1./", Bad(MACHINE)),
    ("percent signs for dots", "http://127%2e0%2e0%2e1/", Bad(MACHINE)),
    ("percent signs for digits", "http://%31%32%37.0.0.1/", Bad(MACHINE)),
    ("digits of full width", "http://１２７.０.０.１/", Bad(MACHINE)),
    ("ideographic full stops", "http://127。0。0。1/", Bad(MACHINE)),
    ("digits in circles", "http://①②⑦.⓪.⓪.①/", Bad(MACHINE)),
    // Names.
    ("localhost", "http://localhost/", Bad(NAME)),
    ("localhost in capitals", "http://LOCALHOST/", Bad(NAME)),
    ("localhost with a dot", "http://localhost./", Bad(NAME)),
    ("below localhost", "http://app.localhost/", Bad(NAME)),
    ("localhost of old systems", "http://localhost.localdomain/", Bad(NAME)),
    ("multicast DNS", "http://printer.local/", Bad(NAME)),
    ("internal names of clouds", "http://metadata.google.internal/", Bad(NAME)),
    ("home networks", "http://router.home.arpa/", Bad(NAME)),
    ("localhost in circles", "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/", Bad(NAME)),
    ("localhost with a long s", "http://localhoſt/", Bad(NAME)),
    ("localhost with a soft hyphen", "http://local\u{ad}host/", Bad(NAME)),
    ("localhost with percent signs", "http://%6c%6f%63alhost/", Bad(NAME)),
    ("localhost with a Cyrillic o is a name like others, and nobody's", "http://lоcalhost/", Bad(UNKNOWN)),
    ("a name that resolves to loopback", "http://loop.test/", Bad("(loop.test leads there)")),
    ("a name that resolves to the local network", "http://lan.test/", Bad("192.168.0.9 is an address of this machine's own network")),
    ("a name with a public and a private address", "http://mixed.test/", Bad("10.0.0.5 is an address of this machine's own network")),
    ("a name with a public IPv4 and a private IPv6 address", "http://mixed6.test/", Bad("fd12::1 is an address of this machine's own network")),
    ("a name whose IPv6 address is mapped", "http://mapped.test/", Bad(GUISE)),
    ("a name that resolves to nothing", "http://empty.test/", Bad("it has no address")),
    ("a name that nobody knows", "http://unknown.test/", Bad(UNKNOWN)),
    ("a single word of the search list", "http://router/", Bad("192.168.0.1 is an address of this machine's own network")),
    // Where the host is not where it seems to be.
    ("userinfo that looks like the host", "http://example.com@127.0.0.1/", Bad(USER)),
    ("userinfo with a password", "http://a:b@example.com/", Bad(USER)),
    ("an empty name with a password", "http://:b@example.com/", Bad(USER)),
    ("a password that looks like a port", "http://example.com:80@127.0.0.1/", Bad(USER)),
    ("two @", "http://a@b@127.0.0.1/", Bad(USER)),
    ("@ after a fragment's sign in the name", "http://127.0.0.1#@example.com/", Bad(MACHINE)),
    ("@ after a question mark", "http://127.0.0.1?@example.com/", Bad(MACHINE)),
    ("backslash before @", "http://127.0.0.1\\@example.com/", Bad(MACHINE)),
    ("backslashes for slashes", "http:\\\\127.0.0.1\\", Bad(FORM)),
    ("one slash", "http:/127.0.0.1/", Bad(FORM)),
    ("no slash", "http:127.0.0.1/", Bad(FORM)),
    ("many slashes", "http://///127.0.0.1/", Bad(FORM)),
    ("no slash, and another host behind it", "https:evil.example/?d=x://example.com/", Bad(FORM)),
    ("one slash to a public name", "https:/example.com/", Bad(FORM)),
    ("three slashes to a public name", "https:///example.com/", Bad(FORM)),
    ("a backslash after the slashes", "https://\\example.com/", Bad(FORM)),
    ("no scheme", "//127.0.0.1/", Bad(FORM)),
    ("a line break in the host", "http://127.0.0\n.1/", Bad(FORM)),
    ("a header after the path", "http://example.com/\r\nhost: 127.0.0.1", Bad(FORM)),
    ("a tab in the scheme", "ht\ttp://127.0.0.1/", Bad(FORM)),
    ("a space in the host", "http://127.0.0.1 .example.com/", Bad(FORM)),
    ("a zero byte in the host", "http://127.0.0.1\0.example.com/", Bad(FORM)),
    ("an escaped zero byte in the host", "http://127.0.0.1%00.example.com/", Bad(FORM)),
    ("an escaped line break in the host", "http://example.com%0d%0a.test/", Bad(FORM)),
    ("an escaped slash in the host", "http://127.0.0.1%2f.example.com/", Bad(FORM)),
    ("an escaped @ in the host", "http://example.com%40127.0.0.1/", Bad(FORM)),
    ("no host", "http://", Bad(FORM)),
    ("dots for a host", "http://../", Bad(FORM)),
    // Schemes and ports.
    ("file", "file:///etc/passwd", Bad("not file:")),
    ("gopher", "gopher://127.0.0.1:6379/_x", Bad("not gopher:")),
    ("data", "data:text/html,x", Bad("not data:")),
    ("WebSocket", "ws://example.com/", Bad("not ws:")),
    ("source of a view", "view-source:http://example.com/", Bad("not view-source:")),
    ("a host and a port that look like a scheme", "localhost:8080/", Bad("not localhost:")),
    ("SSH's port", "http://example.com:22/", Bad(PORT)),
    ("port 0", "http://example.com:0/", Bad(PORT)),
    ("a port beyond 65535", "http://example.com:65616/", Bad(FORM)),
    ("a port with zeros before it", "http://example.com:000022/", Bad(PORT)),
    ("a port that is no number", "http://example.com:80x/", Bad(FORM)),
    ("an address that never ends", "LONG", Bad("too long")),
    // What must continue working.
    ("a page", "https://example.com/a/b?c=d#e", Good(WEB)),
    ("in capitals", "HTTPS://EXAMPLE.COM/", Good(WEB)),
    ("a dot at the end of a name", "https://example.com./", Good(WEB)),
    ("a usual port, said", "http://example.com:80/", Good(WEB)),
    ("a port with zeros that is usual", "http://example.com:0080/", Good(WEB)),
    ("port 8080", "http://example.com:8080/", Good(WEB)),
    ("port 8443", "https://example.com:8443/", Good(WEB)),
    ("a public address", "http://93.184.215.14/", Good(WEB)),
    ("a public address of IPv6", "http://[2606:4700:4700::1111]/", Good(&["2606:4700:4700::1111"])),
    ("a name with both kinds of addresses", "https://dual.test/", Good(&["93.184.215.14", "2606:4700:4700::1111"])),
    ("a name with letters of its own", "https://bücher.test/", Good(WEB)),
    ("@ in the path", "https://example.com/@user/127.0.0.1", Good(WEB)),
    ("an inner address in the query", "https://example.com/?u=http://127.0.0.1/", Good(WEB)),
    ("a name that begins like an address", "https://127.0.0.1.example.com/", Good(WEB)),
    ("a name that ends like localhost", "https://notlocalhost/", Good(WEB)),
    ("local as a part of a name", "https://local.example.com/", Good(WEB)),
    ("spaces around it", "  https://example.com/ \n", Good(WEB)),
    ("a host named with a backslash after it", "https://example.com\\@127.0.0.1/", Good(WEB)),
];

#[tokio::test]
async fn no_address_leads_inside_however_it_is_written() {
    let names = Names::of(&[
        ("example.com", WEB),
        ("127.0.0.1.example.com", WEB),
        ("local.example.com", WEB),
        ("notlocalhost", WEB),
        ("xn--bcher-kva.test", WEB),
        ("dual.test", &["93.184.215.14", "2606:4700:4700::1111"]),
        ("loop.test", &["127.0.0.1"]),
        ("lan.test", &["192.168.0.9"]),
        ("mixed.test", &["93.184.215.14", "10.0.0.5"]),
        ("mixed6.test", &["93.184.215.14", "fd12::1"]),
        ("mapped.test", &["::ffff:93.184.215.14"]),
        ("empty.test", &[]),
        ("router", &["192.168.0.1"]),
    ]);
    let mut guard = guard(names, &[80, 443, 8080, 8443], &[]);
    guard.refused = public_address::refused;
    let long = format!("https://example.com/{}", "x".repeat(9000));
    let mut wrong = Vec::new();
    for (cause, url, fate) in TABLE {
        let url = if *url == "LONG" { long.as_str() } else { url };
        target::check_url(url);
        let found = match target::parse(url) {
            Ok(target) => guard.addresses(&target, Permission::Public).await,
            Err(error) => Err(error),
        };
        match (fate, found) {
            (Good(expected), Ok(found)) => {
                let found: Vec<String> = found.iter().map(|found| found.ip().to_string()).collect();
                if found != *expected {
                    wrong.push(format!("{cause}: {url} leads to {found:?}"));
                }
            }
            (Bad(expected), Err(error)) if error.to_string().contains(expected) => {}
            (_, found) => wrong.push(format!("{cause}: {url}: {found:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let (tricks, good): (Vec<_>, Vec<_>) = TABLE
        .iter()
        .partition(|(_, _, fate)| matches!(fate, Bad(_)));
    assert!(
        tricks.len() >= 80 && good.len() >= 15,
        "{} and {}",
        tricks.len(),
        good.len()
    );
}

#[tokio::test]
async fn a_refusal_says_what_to_do_about_it() {
    let guard = Guard::new(Rules::new(&[80, 443], &[]));
    let error = get(&guard, "http://127.0.0.1:80/status")
        .await
        .expect_err("this machine")
        .to_string();
    assert_eq!(
        error,
        "127.0.0.1 is an address of this machine, which is not fetched from; the owner can allow it with \
         [tools.web] allow = [\"127.0.0.1:80\"] in agent.toml"
    );
}
