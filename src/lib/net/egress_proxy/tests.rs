//! Tests of the proxy with servers on this machine: what it carries, what it refuses, and its messages.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::tls_hello::tests::hello;
use super::*;
use crate::config::Network;

/// Returns a session with these hosts, and where it listens.
fn session(network: &Network) -> (Session, std::net::SocketAddr) {
    let session = Session::new(Rules::new(network, "tools.exec.network"), None);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    session.server()(listener);
    (session, address)
}

fn hosts(hosts: &[String]) -> Network {
    Network::Hosts(hosts.to_vec())
}

/// Starts a server that says `greeting`, then what it read.
async fn server(greeting: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut peer, _)) = listener.accept().await {
            tokio::spawn(async move {
                peer.write_all(greeting).await.unwrap();
                let mut read = vec![0; 65536];
                while let Ok(count @ 1..) = peer.read(&mut read).await {
                    if peer.write_all(&read[..count]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

/// Sends bytes, ends, and returns all that comes.
async fn exchange(proxy: std::net::SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(proxy).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    tokio::time::timeout(Duration::from_secs(10), read)
        .await
        .unwrap()
        .unwrap();
    answer
}

async fn text(proxy: std::net::SocketAddr, bytes: &str) -> String {
    String::from_utf8_lossy(&exchange(proxy, bytes.as_bytes()).await).into_owned()
}

#[tokio::test]
async fn a_tunnel_a_plain_request_and_socks_lead_to_a_host_that_is_allowed() {
    let port = server(b"hi ").await;
    let (session, proxy) = session(&hosts(&[format!("127.0.0.1:{port}")]));
    let answer = text(
        proxy,
        &format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\nhello"),
    )
    .await;
    assert_eq!(
        answer,
        "HTTP/1.1 200 Connection established\r\n\r\nhi hello"
    );
    let answer = text(
        proxy,
        &format!("GET http://localhost:{port}/x HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
    )
    .await;
    assert_eq!(
        answer,
        format!("hi GET /x HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n")
    );
    let socks = [
        &[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1][..],
        &port.to_be_bytes(),
        b"hello",
    ]
    .concat();
    let answer = exchange(proxy, &socks).await;
    let granted = [5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    assert_eq!(answer, [&granted[..], b"hi hello"].concat());
    let visits = session.take_visits();
    let of: Vec<_> = visits
        .iter()
        .map(|visit| {
            (
                visit.destination.to_string(),
                visit.connections,
                visit.received,
            )
        })
        .collect();
    assert_eq!(of[0], (format!("127.0.0.1:{port}"), 2, 16));
    assert_eq!(of.len(), 2);
}

#[tokio::test]
async fn everything_else_is_refused_with_a_sentence() {
    let port = server(b"hi").await;
    for network in [
        Network::Closed,
        Network::Public,
        hosts(&["a.example".to_owned()]),
    ] {
        let (session, proxy) = session(&network);
        let answer = text(
            proxy,
            &format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\nhello"),
        )
        .await;
        let said = format!("allow = [\"127.0.0.1:{port}\"]");
        assert!(
            answer.starts_with("HTTP/1.1 403 ") && answer.lines().next().unwrap().contains(&said),
            "{network:?}: {answer}"
        );
        let answer = text(
            proxy,
            &format!("POST http://127.0.0.1:{port}/ HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"),
        )
        .await;
        assert!(
            answer.starts_with("HTTP/1.1 403 ") && answer.ends_with("in agent.toml\n"),
            "{answer}"
        );
        let socks = [
            &[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1][..],
            &port.to_be_bytes(),
        ]
        .concat();
        assert_eq!(exchange(proxy, &socks).await[2..4], [5, 2], "{network:?}");
        assert!(
            session
                .take_visits()
                .iter()
                .all(|visit| visit.refused.is_some())
        );
    }
}

#[tokio::test]
async fn what_is_no_request_is_told_and_costs_little() {
    let (_session, proxy) = session(&Network::Public);
    assert!(
        text(proxy, "GET / HTTP/1.1\r\n\r\n")
            .await
            .contains("this is a proxy")
    );
    assert!(
        text(proxy, &"x".repeat(200_000))
            .await
            .starts_with("HTTP/1.1 431 ")
    );
    for bytes in [
        &[5, 1, 2][..],                            // no method that is ours
        &[5, 1, 0, 5, 2, 0, 1, 1, 1, 1, 1, 0, 80], // BIND
        &[5, 1, 0, 5, 3, 0, 1, 1, 1, 1, 1, 0, 80], // UDP
        &[5, 1, 0, 5, 1, 0, 9, 1, 1, 1, 1, 0, 80], // no kind of address
        &[4, 1, 0, 80, 1, 1, 1, 1, 0],             // SOCKS4
        &[0; 50],
    ] {
        let answer = exchange(proxy, bytes).await;
        assert_ne!(answer.get(2..4), Some(&[5, 0][..]), "{bytes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_say_what_they_want_is_left() {
    let (_session, proxy) = session(&Network::Public);
    for begun in [
        "",
        "CONNECT a.exa",
        "GET http://a.example/ HTTP/1.1\r\nX: y\r\n",
        "\u{5}\u{1}",
    ] {
        let mut stream = TcpStream::connect(proxy).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert_eq!(answer, b"", "{begun:?}");
    }
}

#[tokio::test]
async fn tls_goes_to_the_host_that_was_allowed_and_to_no_other() {
    let port = server(b"").await;
    // A name in the settings that is one of this machine's.
    let (session, proxy) = session(&hosts(&[format!("localhost:{port}")]));
    let begin = async |name: &str| {
        let connect = format!("CONNECT localhost:{port} HTTP/1.1\r\n\r\n");
        let bytes = [connect.as_bytes(), &hello(name)].concat();
        exchange(proxy, &bytes).await.split_off(39)
    };
    assert_eq!(begin("localhost").await, hello("localhost"));
    assert_eq!(begin("other.example").await, [21, 3, 3, 0, 2, 2, 112]);
    let refused = session.take_visits()[0]
        .refused
        .clone()
        .unwrap()
        .to_string();
    assert!(
        refused.contains("asks for other.example there"),
        "{refused}"
    );
}

#[tokio::test]
async fn when_the_session_ends_its_connections_do() {
    let port = server(b"hi").await;
    let (session, proxy) = session(&hosts(&[format!("127.0.0.1:{port}")]));
    let mut stream = TcpStream::connect(proxy).await.unwrap();
    let connect = format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n");
    stream.write_all(connect.as_bytes()).await.unwrap();
    let mut begun = [0; 41];
    stream.read_exact(&mut begun).await.unwrap();
    drop(session);
    assert_eq!(stream.read(&mut begun).await.unwrap_or(0), 0);
    let refused = async {
        while TcpStream::connect(proxy).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), refused)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_host_that_is_not_named_is_asked_for() {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = asked.clone();
    let ask: Ask = Arc::new(move |destination| {
        log.lock().push(destination.to_string());
        Box::pin(async { Answer::No("the owner said no".to_owned()) })
    });
    let session = Session::new(Rules::new(&hosts(&[]), "x"), Some(ask));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = listener.local_addr().unwrap();
    session.server()(listener);
    for (host, expected) in [
        (
            "a.example:443",
            "a.example:443 is not allowed: the owner said no",
        ),
        (
            "1.1.1.1:443",
            "1.1.1.1:443 is not allowed: the owner said no",
        ),
        ("127.0.0.1:443", "127.0.0.1 is an address of this machine"),
        ("nas.local:443", "nas.local:443 is not allowed; the owner"),
    ] {
        let answer = text(proxy, &format!("CONNECT {host} HTTP/1.1\r\n\r\n")).await;
        assert!(answer.contains(expected), "{host}: {answer}");
    }
    assert_eq!(*asked.lock(), ["a.example:443", "1.1.1.1:443"]);
}

#[tokio::test]
async fn who_ends_before_the_answer_is_told_so() {
    let ask: Ask = Arc::new(|destination| {
        Box::pin(async move {
            if destination.host == "slow.example" {
                std::future::pending::<()>().await;
            }
            Answer::Yes
        })
    });
    let session = Session::new(Rules::new(&hosts(&[]), "x"), Some(ask));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = listener.local_addr().unwrap();
    session.server()(listener);
    let mut waits = TcpStream::connect(proxy).await.unwrap();
    let connect = b"CONNECT slow.example:443 HTTP/1.1\r\n\r\n";
    waits.write_all(connect).await.unwrap();
    // Nobody has this name.
    text(proxy, "CONNECT a.invalid:443 HTTP/1.1\r\n\r\n").await;
    let mut told = Vec::new();
    let both = async {
        while told.len() < 2 {
            told.extend(
                session
                    .take_visits()
                    .into_iter()
                    .filter_map(|visit| visit.refused),
            );
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), both)
        .await
        .unwrap();
    let told: Vec<String> = told.iter().map(ToString::to_string).collect();
    assert!(
        told.iter()
            .any(|told| told.contains("slow.example:443 was not reached: the owner was asked")),
        "{told:?}"
    );
    assert!(
        told.iter()
            .any(|told| told.contains("a.invalid:443 cannot be found")),
        "{told:?}"
    );
}

#[tokio::test]
async fn beyond_those_remembered_by_name_a_host_still_counts() {
    let (session, _proxy) = session(&Network::Public);
    let to = |host: String| Destination { host, port: 443 };
    for number in 0..MAX_VISITS + 3 {
        let bytes = session.shared.bytes(&to(format!("h{number}.example")));
        bytes
            .received
            .fetch_add(5, std::sync::atomic::Ordering::Relaxed);
    }
    let visits = session.take_visits();
    let further = visits
        .iter()
        .find(|visit| visit.destination == to(FURTHER.to_owned()));
    let further = further.expect("the further ones");
    assert_eq!(
        (visits.len(), further.connections, further.received),
        (MAX_VISITS + 1, 3, 15)
    );
}

#[tokio::test]
async fn programs_look_for_no_newer_version_of_themselves_unless_the_owner_says_so() {
    let (session, _) = session(&hosts(&[]));
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let own = pair("npm_config_update_notifier", "true");
    let mut env = vec![own.clone(), pair("http_proxy", "http://elsewhere")];
    session.set_environment(&mut env, 3128);
    let of = |name: &str| -> Vec<&str> {
        let named = env.iter().filter(|(known, _)| known == name);
        named.map(|(_, value)| value.as_str()).collect()
    };
    assert!(env.contains(&own));
    assert_eq!(of("NPM_CONFIG_UPDATE_NOTIFIER"), [""; 0]);
    assert_eq!(of("NO_UPDATE_NOTIFIER"), ["1"]);
    assert_eq!(of("PIP_DISABLE_PIP_VERSION_CHECK"), ["1"]);
    assert_eq!(of("http_proxy"), ["http://127.0.0.1:3128"]);
}
