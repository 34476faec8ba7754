//! A small HTTP client that sends what it is told, right or wrong, and reads what comes back.

use std::{
    io::{Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;

/// A hung server must fail its test, not the whole suite.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where requests go, and with which token.
#[derive(Clone)]
pub(crate) struct Client {
    place: Place,
    token: Option<String>,
}

#[derive(Clone)]
enum Place {
    Tcp(u16),
    Unix(PathBuf),
}

/// A connection.
pub(crate) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// What came back.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// 0 when nothing came.
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) fn tcp(port: u16, token: Option<&str>) -> Self {
        Self {
            place: Place::Tcp(port),
            token: token.map(str::to_owned),
        }
    }

    pub(crate) fn unix(path: &Path, token: Option<&str>) -> Self {
        Self {
            place: Place::Unix(path.to_owned()),
            token: token.map(str::to_owned),
        }
    }

    pub(crate) fn connect(&self) -> Box<dyn Stream> {
        match &self.place {
            Place::Tcp(port) => {
                let stream = TcpStream::connect(("127.0.0.1", *port)).expect("the API listens");
                stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
                Box::new(stream)
            }
            Place::Unix(path) => {
                let stream = UnixStream::connect(path).expect("the API listens");
                stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
                Box::new(stream)
            }
        }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], b"")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.request(
            "POST",
            path,
            &[("content-type", "application/json")],
            body.to_string().as_bytes(),
        )
    }

    /// Sends one request on a connection of its own. The token is sent when no header of that name is given.
    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        self.send(&self.head(method, path, headers, body.len()), body)
    }

    /// Returns the head of a request.
    pub(crate) fn head(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        length: usize,
    ) -> String {
        let has = |name: &str| headers.iter().any(|(other, _)| *other == name);
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !has("host") {
            head.push_str(&match &self.place {
                Place::Tcp(port) => format!("host: 127.0.0.1:{port}\r\n"),
                Place::Unix(_) => "host: localhost\r\n".to_owned(),
            });
        }
        if let Some(token) = self.token.as_ref().filter(|_| !has("authorization")) {
            head.push_str(&format!("authorization: Bearer {token}\r\n"));
        }
        if length > 0 && !has("content-length") && !has("transfer-encoding") {
            head.push_str(&format!("content-length: {length}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head + "\r\n"
    }

    /// Sends bytes and reads the answer to the end.
    pub(crate) fn send(&self, head: &str, body: &[u8]) -> Answer {
        let mut stream = self.connect();
        // Who is refused at the door need not be heard to the end.
        let _ = stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.write_all(body));
        Answer::read(&mut stream)
    }
}

impl Answer {
    /// Reads until the connection ends.
    pub(crate) fn read(stream: &mut Box<dyn Stream>) -> Self {
        let mut bytes = Vec::new();
        // A connection that is reset has said what it had to say.
        let _ = stream.read_to_end(&mut bytes);
        Self::parse(&bytes)
    }

    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let end = bytes
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
            .unwrap_or(bytes.len());
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.lines();
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1)?.parse().ok())
            .unwrap_or(0);
        let pair = |line: &str| {
            line.split_once(':')
                .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        };
        let headers: Vec<(String, String)> = lines.filter_map(pair).collect();
        let rest = bytes.get(end + 4..).unwrap_or_default();
        let chunked = headers
            .iter()
            .any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let body = if chunked { joined(rest) } else { rest.to_vec() };
        Self {
            status,
            headers,
            body,
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(document) => document,
            Err(why) => panic!(
                "not one JSON document ({why}): {} {:?} {}",
                self.status,
                self.headers,
                self.text()
            ),
        }
    }

    /// Returns the events of a stream: their names and their data.
    pub(crate) fn events(&self) -> Vec<(String, Value)> {
        let text = self.text();
        let blocks = text
            .split("\n\n")
            .filter(|block| !block.is_empty() && !block.starts_with(':'));
        let one = |block: &str| {
            let field = |name: &str| {
                block
                    .lines()
                    .find_map(|line| line.strip_prefix(name).map(str::to_owned))
            };
            let data = field("data: ").unwrap_or_else(|| panic!("no data in {block:?}"));
            (
                field("event: ").unwrap_or_default(),
                serde_json::from_str(&data).unwrap_or(Value::String(data)),
            )
        };
        blocks.map(one).collect()
    }
}

/// Puts chunks together.
fn joined(mut bytes: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = bytes.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(&String::from_utf8_lossy(&bytes[..end]), 16)
            .expect("a chunk's size");
        let Some(chunk) = bytes.get(end + 2..end + 2 + size).filter(|_| size > 0) else {
            break;
        };
        whole.extend_from_slice(chunk);
        bytes = bytes.get(end + 4 + size..).unwrap_or_default();
    }
    whole
}
