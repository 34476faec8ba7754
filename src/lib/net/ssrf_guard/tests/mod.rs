//! Tests of the SSRF guard with hostile addresses, redirects and names.

mod tricks;

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// Stands for the public net in tests: another loopback address than the one that means this machine.
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const INSIDE: Ipv4Addr = Ipv4Addr::LOCALHOST;

fn refused_but_outside(address: IpAddr) -> Option<&'static str> {
    (address != IpAddr::V4(OUTSIDE))
        .then(|| public_address::refused(address))
        .flatten()
}

/// Answers names from a list, each question with the next answer.
#[derive(Default)]
struct Names {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    asked: AtomicUsize,
}

impl Names {
    fn of(names: &[(&str, &[&str])]) -> Arc<Self> {
        let parsed = |addresses: &[&str]| {
            addresses
                .iter()
                .map(|text| text.parse().expect("an address"))
                .collect()
        };
        let answers = names
            .iter()
            .map(|(name, addresses)| ((*name).to_owned(), vec![parsed(addresses)]))
            .collect();
        Arc::new(Self {
            answers: Mutex::new(answers),
            asked: AtomicUsize::new(0),
        })
    }
}

impl Resolve for Names {
    fn resolve<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> BoxFuture<'a, std::io::Result<Vec<SocketAddr>>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock();
        let answer = answers.get_mut(host).map(|list| {
            if list.len() > 1 {
                list.remove(0)
            } else {
                list[0].clone()
            }
        });
        let found = answer.ok_or_else(|| std::io::Error::other("no such name"));
        Box::pin(async move {
            Ok(found?
                .into_iter()
                .map(|ip| SocketAddr::new(ip, port))
                .collect())
        })
    }
}

const LIMITS: Limits = Limits {
    time: Duration::from_secs(20),
    bytes: 100_000,
};

fn guard(names: Arc<Names>, ports: &[u16], allow: &[&str]) -> Guard {
    let allow: Vec<String> = allow.iter().map(|entry| (*entry).to_owned()).collect();
    Guard {
        rules: Rules::new(ports, &allow),
        limits: LIMITS,
        resolver: names,
        refused: refused_but_outside,
    }
}

/// What a server answers to a request; it may continue writing.
type Script = fn(String, TcpStream) -> BoxFuture<'static, ()>;

/// A server on `address` that reads a request's head and lets `script` answer its path. Returns its port
/// and how many connections there were.
async fn server(address: Ipv4Addr, script: Script) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((address, 0)).await.expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let mut head = Vec::new();
                let mut byte = [0; 1];
                while !head.ends_with(b"\r\n\r\n")
                    && stream.read(&mut byte).await.is_ok_and(|count| count == 1)
                {
                    head.push(byte[0]);
                }
                script(String::from_utf8_lossy(&head).into_owned(), stream).await;
            });
        }
    });
    (port, count)
}

async fn write(stream: &mut TcpStream, bytes: impl AsRef<[u8]>) -> bool {
    stream.write_all(bytes.as_ref()).await.is_ok()
}

/// Returns an answer with a body.
fn page(headers: &str, body: &[u8]) -> Vec<u8> {
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n{headers}\r\n",
        body.len()
    )
    .into_bytes();
    answer.extend_from_slice(body);
    answer
}

fn found(to: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n")
}

/// The path says what the server does: `/to/URL` redirects there.
fn by_path(head: String, mut stream: TcpStream) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        if let Some(to) = path.strip_prefix("/to/") {
            write(&mut stream, found(to)).await;
            return;
        }
        let steps = path
            .strip_prefix("/steps/")
            .and_then(|steps| steps.parse::<usize>().ok());
        match (path.as_str(), steps) {
            (_, Some(0)) => write(&mut stream, page("", b"arrived")).await,
            (_, Some(steps)) => write(&mut stream, found(&format!("/steps/{}", steps - 1))).await,
            ("/loop", _) => write(&mut stream, found("/loop")).await,
            ("/echo", _) => {
                write(
                    &mut stream,
                    page("content-type: text/plain\r\n", head.as_bytes()),
                )
                .await
            }
            ("/missing", _) => {
                write(
                    &mut stream,
                    "HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\ngone",
                )
                .await
            }
            ("/bomb", _) => {
                let mut encoder =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
                let zeros = vec![0; 1 << 20];
                (0..20)
                    .for_each(|_| std::io::Write::write_all(&mut encoder, &zeros).expect("memory"));
                let packed = encoder.finish().expect("memory");
                assert!(packed.len() < LIMITS.bytes, "the bomb is small on the wire");
                write(&mut stream, page("content-encoding: gzip\r\n", &packed)).await
            }
            ("/twice", _) => {
                write(
                    &mut stream,
                    page("content-encoding: gzip\r\ncontent-encoding: gzip\r\n", b"x"),
                )
                .await
            }
            ("/brotli", _) => write(&mut stream, page("content-encoding: br\r\n", b"x")).await,
            ("/drip", _) => {
                write(
                    &mut stream,
                    "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n",
                )
                .await;
                while write(&mut stream, "x").await {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                true
            }
            ("/drip-head", _) => {
                write(&mut stream, "HTTP/1.1 200 OK\r\n").await;
                while write(&mut stream, "x-a: b\r\n").await {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                true
            }
            ("/silent", _) => std::future::pending().await,
            ("/endless", _) => {
                write(&mut stream, "HTTP/1.1 200 OK\r\n\r\n").await;
                while write(&mut stream, vec![b'x'; 8192]).await {}
                true
            }
            ("/endless-chunks", _) => {
                write(
                    &mut stream,
                    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
                )
                .await;
                while write(
                    &mut stream,
                    "1000\r\n".to_owned() + &"x".repeat(4096) + "\r\n",
                )
                .await
                {}
                true
            }
            ("/headers", _) => {
                let many: String = (0..90)
                    .map(|n| format!("x-{n}: {}\r\n", "y".repeat(1000)))
                    .collect();
                write(&mut stream, page(&many, b"x")).await
            }
            ("/endless-headers", _) => {
                write(&mut stream, "HTTP/1.1 200 OK\r\n").await;
                while write(&mut stream, format!("x-a: {}\r\n", "y".repeat(4096))).await {}
                true
            }
            ("/long-claim", _) => {
                write(
                    &mut stream,
                    "HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nshort",
                )
                .await
            }
            ("/huge-claim", _) => {
                write(
                    &mut stream,
                    "HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\nx",
                )
                .await
            }
            ("/short-claim", _) => {
                write(
                    &mut stream,
                    "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfirstHTTP/1.1 200 OK\r\n\r\n",
                )
                .await
            }
            ("/two-claims", _) => {
                write(
                    &mut stream,
                    "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nfirst!",
                )
                .await
            }
            ("/no-http", _) => write(&mut stream, "SSH-2.0-OpenSSH_9.9\r\n").await,
            _ => {
                write(
                    &mut stream,
                    page("content-type: text/html\r\n", b"<p>hello</p>"),
                )
                .await
            }
        };
    })
}

/// Returns a guard that knows `outside.test` (which the server's port is allowed on) and `inside.test`.
async fn outside() -> (Guard, u16) {
    let (port, _) = server(OUTSIDE, by_path).await;
    let names = Names::of(&[
        ("outside.test", &["127.0.0.2"]),
        ("other.test", &["127.0.0.2"]),
        ("inside.test", &["127.0.0.1"]),
    ]);
    (guard(names, &[port, 80, 443], &[]), port)
}

async fn get(guard: &Guard, url: &str) -> Result<Answer, Error> {
    guard
        .get(Request {
            url,
            accept: "*/*",
            ..Request::default()
        })
        .await
}

#[tokio::test]
async fn a_page_outside_is_fetched_with_its_status_and_type() {
    let (guard, port) = outside().await;
    let url = format!("http://outside.test:{port}/x#part");
    let expected = Answer {
        url: format!("http://outside.test:{port}/x"),
        status: 200,
        content_type: Some("text/html".to_owned()),
        body: b"<p>hello</p>".to_vec(),
    };
    assert_eq!(get(&guard, &url).await, Ok(expected));
    let missing = get(&guard, &format!("http://outside.test:{port}/missing"))
        .await
        .expect("an answer");
    assert_eq!(
        (missing.status, missing.body.as_slice()),
        (404, &b"gone"[..])
    );
    let steps = get(&guard, &format!("http://outside.test:{port}/steps/5"))
        .await
        .expect("five redirects");
    assert_eq!(
        (steps.url, steps.body),
        (
            format!("http://outside.test:{port}/steps/0"),
            b"arrived".to_vec()
        )
    );
}

#[tokio::test]
async fn what_a_server_answers_is_bounded_in_every_direction() {
    let (mut guard, port) = outside().await;
    for (path, expected) in [
        ("/steps/6", "more than 5 redirects"),
        ("/loop", "more than 5 redirects"),
        ("/bomb", "sends more than"),
        ("/twice", "cannot be decompressed"),
        ("/brotli", "cannot be decompressed"),
        ("/endless", "sends more than"),
        ("/endless-chunks", "sends more than"),
        ("/huge-claim", "sends more than"),
        ("/headers", "headers are too large"),
        ("/endless-headers", "cannot be reached"),
        ("/long-claim", "was interrupted"),
        ("/two-claims", "cannot be reached"),
        ("/no-http", "cannot be reached"),
    ] {
        let error = get(&guard, &format!("http://outside.test:{port}{path}"))
            .await
            .expect_err(path)
            .to_string();
        assert!(
            error.contains(expected) && error.contains("outside.test"),
            "{path}: {error}"
        );
    }
    let short = get(&guard, &format!("http://outside.test:{port}/short-claim"))
        .await
        .expect("what was claimed");
    assert_eq!(short.body, b"first");
    guard.limits.time = Duration::from_millis(400);
    for path in ["/drip", "/drip-head", "/silent"] {
        let began = Instant::now();
        let error = get(&guard, &format!("http://outside.test:{port}{path}"))
            .await
            .expect_err(path);
        assert_eq!(
            error,
            Error::TooSlow {
                host: "outside.test".to_owned(),
                secs: 0
            },
            "{path}"
        );
        assert!(began.elapsed() < Duration::from_secs(5), "{path}");
    }
}

#[tokio::test]
async fn every_redirect_is_checked_like_the_address_itself() {
    let (guard, port) = outside().await;
    let (inside, visits) = server(INSIDE, by_path).await;
    for (to, expected) in [
        (format!("http://127.0.0.1:{inside}/"), "port"),
        (
            "http://127.0.0.1/".to_owned(),
            "127.0.0.1 is an address of this machine",
        ),
        (
            "//127.0.0.1/".to_owned(),
            "127.0.0.1 is an address of this machine",
        ),
        (
            "http://2130706433/".to_owned(),
            "127.0.0.1 is an address of this machine",
        ),
        (
            "http://inside.test/".to_owned(),
            "127.0.0.1 is an address of this machine",
        ),
        (
            "http://169.254.169.254/latest/meta-data/".to_owned(),
            "secrets",
        ),
        ("http://[::ffff:127.0.0.1]/".to_owned(), "guise"),
        ("http://localhost/".to_owned(), "name of this machine"),
        ("file:///etc/passwd".to_owned(), "not file:"),
        ("gopher://outside.test/".to_owned(), "not gopher:"),
        ("data:text/plain,x".to_owned(), "not data:"),
        ("ftp://outside.test/".to_owned(), "not ftp:"),
        ("javascript:alert(1)".to_owned(), "not javascript:"),
        (
            format!("http://me:secret@outside.test:{port}/"),
            "name or a password",
        ),
        ("http://outside.test:22/".to_owned(), "port 22"),
        ("http://[".to_owned(), "invalid IPv6 address"),
    ] {
        let error = get(&guard, &format!("http://outside.test:{port}/to/{to}"))
            .await
            .expect_err(&to)
            .to_string();
        assert!(
            error.contains(expected) && error.contains("redirects to something"),
            "{to}: {error}"
        );
    }
    assert_eq!(visits.load(Ordering::SeqCst), 0, "nobody came inside");
    let other = get(
        &guard,
        &format!("http://outside.test:{port}/to/http://other.test:{port}/steps/1"),
    )
    .await;
    assert_eq!(
        other.expect("another public host").url,
        format!("http://other.test:{port}/steps/0")
    );
}

#[tokio::test]
async fn a_name_is_resolved_once_and_its_second_answer_is_never_asked_for() {
    let (port, _) = server(OUTSIDE, by_path).await;
    let names = Names::of(&[("rebind.test", &["127.0.0.2"])]);
    names
        .answers
        .lock()
        .get_mut("rebind.test")
        .expect("it")
        .push(vec![IpAddr::V4(INSIDE)]);
    let guard = guard(names.clone(), &[port], &[]);
    assert_eq!(
        get(&guard, &format!("http://rebind.test:{port}/"))
            .await
            .expect("the first answer")
            .status,
        200
    );
    assert_eq!(names.asked.load(Ordering::SeqCst), 1);
    // A redirect to itself is a new question, and its answer is checked again.
    names.answers.lock().insert(
        "rebind.test".to_owned(),
        vec![vec![OUTSIDE.into()], vec![INSIDE.into()]],
    );
    let error = get(&guard, &format!("http://rebind.test:{port}/steps/1"))
        .await
        .expect_err("it turned")
        .to_string();
    assert!(
        error.contains("127.0.0.1 is an address of this machine"),
        "{error}"
    );
}

#[tokio::test]
async fn a_host_that_the_owner_allows_is_fetched_and_leads_out_but_nobody_leads_in() {
    let (inside, visits) = server(INSIDE, by_path).await;
    let (port, _) = server(OUTSIDE, by_path).await;
    let names = Names::of(&[
        ("outside.test", &["127.0.0.2"]),
        ("nas.lan", &["127.0.0.1"]),
    ]);
    let guard = guard(names, &[port], &["nas.lan", &format!("127.0.0.1:{inside}")]);
    for url in [
        format!("http://nas.lan:{inside}/"),
        format!("http://127.0.0.1:{inside}/"),
        format!("http://NAS.lan.:{inside}/"),
    ] {
        assert_eq!(get(&guard, &url).await.expect(&url).status, 200);
    }
    let seen = visits.load(Ordering::SeqCst);
    let led = get(
        &guard,
        &format!("http://outside.test:{port}/to/http://nas.lan:{inside}/"),
    )
    .await
    .expect_err("led in");
    assert!(
        led.to_string().contains("only when it is asked for itself"),
        "{led}"
    );
    assert_eq!(visits.load(Ordering::SeqCst), seen, "nobody came inside");
    let out = get(
        &guard,
        &format!("http://nas.lan:{inside}/to/http://outside.test:{port}/"),
    )
    .await;
    assert_eq!(
        out.expect("out").url,
        format!("http://outside.test:{port}/")
    );
    let back = format!(
        "http://nas.lan:{inside}/to/http://outside.test:{port}/to/http://nas.lan:{inside}/"
    );
    assert!(
        get(&guard, &back).await.is_err(),
        "once outside, nobody leads in again"
    );
    for url in [
        "http://127.0.0.1:1/",
        "http://127.0.0.3/",
        "http://x.nas.lan/",
    ] {
        assert!(get(&guard, url).await.is_err(), "{url}");
    }
}

#[tokio::test]
async fn a_server_that_the_owner_named_may_be_anywhere_and_its_secret_goes_nowhere_else() {
    let (inside, _) = server(INSIDE, by_path).await;
    let (port, _) = server(OUTSIDE, by_path).await;
    let guard = guard(Names::of(&[("outside.test", &["127.0.0.2"])]), &[port], &[]);
    let secret = Secret::new("k-0123456789-canary");
    let origins = [Origin::of(&format!("http://127.0.0.1:{inside}")).expect("an origin")];
    let request = |url: &'static str, origins| Request {
        url,
        accept: "*/*",
        key: Some(("x-key", &secret)),
        origins,
    };
    let url = |path: String| -> &'static str { Box::leak(path.into_boxed_str()) };
    let told = guard
        .get(request(
            url(format!("http://127.0.0.1:{inside}/echo")),
            &origins,
        ))
        .await
        .expect("named");
    let told = String::from_utf8(told.body).expect("a head");
    assert!(
        told.contains("x-key: k-0123456789-canary")
            && !told.contains("cookie")
            && !told.contains("referer"),
        "{told}"
    );
    let near = guard
        .get(request(
            url(format!("http://127.0.0.1:{inside}/to//echo")),
            &origins,
        ))
        .await
        .expect("the same server");
    assert!(
        String::from_utf8_lossy(&near.body).contains("canary"),
        "the same origin"
    );
    let away = url(format!(
        "http://127.0.0.1:{inside}/to/http://outside.test:{port}/echo"
    ));
    let error = guard
        .get(request(away, &origins))
        .await
        .expect_err("another server")
        .to_string();
    assert!(
        error.contains("another server than the one that is configured"),
        "{error}"
    );
    // Without the owner's word it is a public request, and the secret stays with the first origin.
    assert!(
        guard
            .get(request(url(format!("http://127.0.0.1:{inside}/echo")), &[]))
            .await
            .is_err()
    );
    let away = url(format!(
        "http://outside.test:{port}/to/http://127.0.0.2:{port}/echo"
    ));
    let told = guard.get(request(away, &[])).await.expect("public");
    assert!(
        !String::from_utf8_lossy(&told.body).contains("canary"),
        "{told:?}"
    );
}

#[tokio::test]
async fn nothing_falls_back_from_https_to_http() {
    let (guard, port) = outside().await;
    let from = target::parse("https://outside.test/").expect("an address");
    let to = format!("http://outside.test:{port}/");
    let mut permission = Permission::Public;
    let next = guard.next(&from, to.as_bytes(), &mut permission);
    assert_eq!(
        next.expect_err("down"),
        Error::Downgrade("outside.test".to_owned())
    );
    assert!(
        guard
            .next(&from, b"https://outside.test/x", &mut permission)
            .is_ok()
    );
    for bad in [
        &b"https://a.test/\r\nx: y"[..],
        b"https://a.test/\0",
        b"\xff\xfe",
    ] {
        assert!(guard.next(&from, bad, &mut permission).is_err(), "{bad:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_reached_said_nothing() {
    let free = TcpListener::bind((OUTSIDE, 0)).await.expect("a free port");
    let port = free.local_addr().expect("it is bound").port();
    drop(free);
    let names = Names::of(&[("a.example", &["127.0.0.2"])]);
    let guard = guard(names, &[port], &[]);
    for (host, expected) in [
        ("a.example", "cannot be reached"),
        ("b.example", "cannot be found"),
    ] {
        let url = format!("http://{host}:{port}/");
        let error = get(&guard, &url).await.expect_err("nobody is there");
        let text = error.to_string();
        assert!(text.contains(expected) && !error.is_untrusted(), "{text}");
        let other = error.of_redirect(true);
        let is_wrapped = host == "b.example";
        assert_eq!(other.is_untrusted(), !is_wrapped, "{other}");
    }
}
