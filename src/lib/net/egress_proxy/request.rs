//! Requests of programs to the proxy: the head of an HTTP request, or a SOCKS5 greeting and request (RFC 1928).
//! All sizes are limited, and input is read in one pass.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::rules::Destination;

/// The longest head; curl and browsers stay below 8 KiB except for cookies.
const MAX_HEAD: usize = 32 << 10;
/// How long a program may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(30);

/// Headers that are between the program and the proxy, or that the proxy writes itself.
const DROPPED: [&str; 7] = [
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "connection",
    "keep-alive",
    "host",
    "upgrade",
];

/// What is done with a connection once it is there.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// HTTP CONNECT: bytes.
    Tunnel,
    /// SOCKS5: bytes.
    Socks,
    /// A plain HTTP request; this head goes to the server.
    Forward(Vec<u8>),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) destination: Destination,
    pub(super) way: Way,
    /// What came after the request.
    pub(super) rest: Vec<u8>,
}

/// Reads what a program wants; nothing when it said nothing, or was told what is wrong.
pub(super) async fn read(client: &mut TcpStream) -> Option<Asked> {
    let mut first = [0];
    let asked = async {
        match client.peek(&mut first).await {
            Ok(1) if first[0] == 5 => socks(client).await,
            Ok(1) => http(client).await,
            _ => None,
        }
    };
    timeout(PATIENCE, asked).await.ok().flatten()
}

async fn http(client: &mut TcpStream) -> Option<Asked> {
    let mut buffer = Vec::new();
    let end = loop {
        let seen = buffer.len().saturating_sub(3);
        if client.read_buf(&mut buffer).await.ok()? == 0 {
            return None;
        }
        let found = buffer[seen..]
            .windows(4)
            .position(|window| window == b"\r\n\r\n");
        if let Some(at) = found {
            break seen + at + 4;
        }
        if buffer.len() > MAX_HEAD {
            reject(client, "431", "the head of the request is too large").await;
            return None;
        }
    };
    let rest = buffer.split_off(end);
    match parse_head(&buffer) {
        Ok((destination, way)) => Some(Asked {
            destination,
            way,
            rest,
        }),
        Err(why) => {
            reject(client, "400", why).await;
            None
        }
    }
}

fn parse_head(head: &[u8]) -> Result<(Destination, Way), &'static str> {
    let head = std::str::from_utf8(head).map_err(|_| "the head of the request is not UTF-8")?;
    let mut lines = head.trim_end_matches("\r\n").split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err("this is no HTTP request");
    };
    if !["HTTP/1.1", "HTTP/1.0"].contains(&version) {
        return Err("this is no HTTP/1 request");
    }
    if method == "CONNECT" {
        let destination =
            Destination::parse(target, None).ok_or("CONNECT names no host and port")?;
        return Ok((destination, Way::Tunnel));
    }
    let Some(address) = strip_scheme(target) else {
        return Err("this is a proxy: it takes CONNECT, SOCKS5 and requests for http:// addresses");
    };
    let at = address.find(['/', '?']).unwrap_or(address.len());
    let (authority, path) = address.split_at(at);
    let destination = Destination::parse(authority, Some(80)).ok_or("the address names no host")?;
    // A server that takes a lone line feed for the end of a line would read another request there.
    if !is_token(method) || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("the request has a character that is none of HTTP's");
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    let host = match destination.port {
        80 => destination.host.clone(),
        _ => destination.to_string(),
    };
    // The server is the one that was allowed, whatever the program wrote.
    let mut forward =
        format!("{method} {slash}{path} {version}\r\nHost: {host}\r\nConnection: close\r\n");
    for line in lines {
        let (name, _) = line
            .split_once(':')
            .filter(|(name, _)| is_token(name))
            .ok_or("a header has no name")?;
        if line.contains(|c: char| c.is_control() && c != '\t') {
            return Err("a header has a control character in it");
        }
        if !DROPPED.iter().any(|known| name.eq_ignore_ascii_case(known)) {
            forward.push_str(line);
            forward.push_str("\r\n");
        }
    }
    forward.push_str("\r\n");
    Ok((destination, Way::Forward(forward.into_bytes())))
}

fn strip_scheme(target: &str) -> Option<&str> {
    let (scheme, address) = target.split_once("://")?;
    scheme.eq_ignore_ascii_case("http").then_some(address)
}

fn is_token(name: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_good)
}

/// Answers with a status whose reason is the sentence: most programs show that one.
pub(super) async fn reject(client: &mut TcpStream, status: &str, why: &str) {
    let why: String = why.chars().filter(|c| !c.is_control()).collect();
    let head = format!(
        "HTTP/1.1 {status} {why}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{why}\n",
        why.len() + 1
    );
    let _ = client.write_all(head.as_bytes()).await;
    linger(client).await;
}

/// Closes our side and takes what still comes, a little: a reset would take the answer with it.
async fn linger(client: &mut TcpStream) {
    let _ = client.shutdown().await;
    let mut rest = vec![0; 16 << 10];
    let drain = async {
        for _ in 0..64 {
            if !matches!(client.read(&mut rest).await, Ok(1..)) {
                return;
            }
        }
    };
    let _ = timeout(Duration::from_secs(1), drain).await;
}

/// Answers of SOCKS5.
pub(super) const SOCKS_GRANTED: u8 = 0;
pub(super) const SOCKS_REFUSED: u8 = 2;
pub(super) const SOCKS_UNREACHABLE: u8 = 4;
const SOCKS_COMMAND: u8 = 7;
const SOCKS_ADDRESS: u8 = 8;

async fn socks(client: &mut TcpStream) -> Option<Asked> {
    let [_, methods] = read_array::<2>(client).await?;
    let mut offered = vec![0; usize::from(methods)];
    client.read_exact(&mut offered).await.ok()?;
    if !offered.contains(&0) {
        let _ = client.write_all(&[5, 0xff]).await;
        return None;
    }
    client.write_all(&[5, 0]).await.ok()?;
    let [version, command, _, kind] = read_array::<4>(client).await?;
    if version != 5 {
        return None;
    }
    if command != 1 {
        answer_socks(client, SOCKS_COMMAND).await;
        return None;
    }
    let host = match kind {
        1 => std::net::Ipv4Addr::from(read_array::<4>(client).await?).to_string(),
        4 => format!(
            "[{}]",
            std::net::Ipv6Addr::from(read_array::<16>(client).await?)
        ),
        3 => {
            let [length] = read_array::<1>(client).await?;
            let mut name = vec![0; usize::from(length)];
            client.read_exact(&mut name).await.ok()?;
            String::from_utf8(name).ok()?
        }
        _ => {
            answer_socks(client, SOCKS_ADDRESS).await;
            return None;
        }
    };
    let port = u16::from_be_bytes(read_array::<2>(client).await?);
    let Some(destination) = Destination::new(&host, port) else {
        answer_socks(client, SOCKS_UNREACHABLE).await;
        return None;
    };
    Some(Asked {
        destination,
        way: Way::Socks,
        rest: Vec::new(),
    })
}

pub(super) async fn answer_socks(client: &mut TcpStream, answer: u8) {
    let _ = client.write_all(&[5, answer, 0, 1, 0, 0, 0, 0, 0, 0]).await;
    if answer != SOCKS_GRANTED {
        linger(client).await;
    }
}

async fn read_array<const N: usize>(client: &mut TcpStream) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes).await.ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(text: &str) -> Result<(String, Option<String>), &'static str> {
        parse_head(text.as_bytes()).map(|(destination, way)| {
            let forwarded = match way {
                Way::Forward(head) => Some(String::from_utf8(head).expect("UTF-8")),
                Way::Tunnel | Way::Socks => None,
            };
            (destination.to_string(), forwarded)
        })
    }

    #[test]
    fn a_tunnel_names_host_and_port() {
        let tunnel = |target: &str| head(&format!("CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert_eq!(
            tunnel("A.example:443"),
            Ok(("a.example:443".to_owned(), None))
        );
        assert_eq!(tunnel("[::1]:80"), Ok(("[::1]:80".to_owned(), None)));
        for bad in ["a.example", "a.example:", "", "http://a.example/"] {
            assert!(tunnel(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_forwarded_request_goes_to_the_host_of_its_address() {
        assert_eq!(
            head(
                "GET http://A.example?q HTTP/1.1\r\nhost: evil.example\r\nProxy-Authorization: x\r\nAccept: */*\r\nCookie: a\r\n\r\n"
            ),
            Ok((
                "a.example:80".to_owned(),
                Some("GET /?q HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nAccept: */*\r\nCookie: a\r\n\r\n".to_owned())
            ))
        );
        assert_eq!(
            head("POST HTTP://a.example:8080/p HTTP/1.0\r\n\r\n")
                .expect("good")
                .1
                .expect("a head"),
            "POST /p HTTP/1.0\r\nHost: a.example:8080\r\nConnection: close\r\n\r\n"
        );
        for bad in [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET https://a.example/ HTTP/1.1\r\n\r\n",
            "GET http://u@a.example/ HTTP/1.1\r\n\r\n",
            "GET http://a.example/ HTTP/1.1\r\n folded: x\r\n\r\n",
            "GET http://a.example/ HTTP/1.1\r\nHost : x\r\n\r\n",
            "GET http://a.example/ HTTP/1.1\r\nA: b\nHost: x\r\n\r\n",
            "GET http://a.example/ HTTP/2\r\n\r\n",
            "GET  http://a.example/ HTTP/1.1\r\n\r\n",
            "GET\t/\tHTTP/1.1\nHost:evil.example\n\nGET http://a.example/ HTTP/1.1\r\n\r\n",
            "GET http://a.example/\nHost:evil.example\n\n HTTP/1.1\r\n\r\n",
            "GET http://a.example/\u{e9} HTTP/1.1\r\n\r\n",
            "GET http://a.example/ HTTP/1.1\r\nA: b\0\r\n\r\n",
            "GET http://a.example\t/ HTTP/1.1\r\n\r\n",
            "GET http://a.example:0/ HTTP/1.1\r\n\r\n",
            "GET http://a.example:80:80/ HTTP/1.1\r\n\r\n",
            "GET http://a.example\\@evil.example/ HTTP/1.1\r\n\r\n",
            "GET http:///x HTTP/1.1\r\n\r\n",
        ] {
            assert!(head(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_head_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_head(&bytes);
        }
    }
}
