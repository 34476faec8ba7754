//! A server that takes connections on loopback and does wrong with each, in the way that is set.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use super::server::lock;

/// What it does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Nothing, for ever.
    Silent,
    /// Answers, a byte now and then.
    Dribble,
    /// Closes after the header.
    HeaderOnly,
    /// Resets the connection.
    Reset,
    /// An answer of 200 MB.
    Huge,
    /// An answer that is no JSON.
    NoJson,
    /// An answer that is not ok and has no code.
    NoCode,
    /// At once: nothing new.
    AtOnce,
    /// What it should, after a while.
    Well,
}

/// The server; dropping it closes the port.
pub(crate) struct Nasty {
    port: u16,
    inner: Arc<Inner>,
}

struct Inner {
    way: Mutex<Way>,
    requests: AtomicUsize,
    most: AtomicUsize,
    over: AtomicBool,
}

impl Nasty {
    /// Starts one on a free port.
    pub(crate) fn start(way: Way) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a loopback port is free");
        let port = listener
            .local_addr()
            .expect("a bound socket has an address")
            .port();
        let inner = Arc::new(Inner {
            way: Mutex::new(way),
            requests: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        });
        let shared = inner.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.over.load(Ordering::Relaxed) {
                    return;
                }
                let shared = shared.clone();
                // Whoever is treated so may go at any time.
                thread::spawn(move || drop(treat(stream, &shared)));
            }
        });
        Self { port, inner }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Behaves otherwise from the next request on.
    pub(crate) fn turn(&self, way: Way) {
        *lock(&self.inner.way) = way;
    }

    /// Returns how many polls came so far.
    pub(crate) fn polls(&self) -> usize {
        self.inner.requests.load(Ordering::Relaxed)
    }

    /// Returns how many bytes of one answer were taken at most.
    pub(crate) fn most(&self) -> usize {
        self.inner.most.load(Ordering::Relaxed)
    }
}

impl Drop for Nasty {
    fn drop(&mut self) {
        self.inner.over.store(true, Ordering::Relaxed);
        // It waits for a connection.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn treat(mut stream: TcpStream, shared: &Inner) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut part = [0; 4096];
    loop {
        let count = stream.read(&mut part)?;
        request.extend_from_slice(&part[..count]);
        let way = *lock(&shared.way);
        if count == 0 {
            return Ok(());
        }
        // One of TLS has no such end, and is treated all the same.
        if !(request.windows(4).any(|four| four == b"\r\n\r\n") || request[0] == 22) {
            continue;
        }
        let text = String::from_utf8_lossy(&request).into_owned();
        if text.contains("/getUpdates") || request[0] == 22 {
            shared.requests.fetch_add(1, Ordering::Relaxed);
        }
        let json = |body: &str| {
            format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        return match way {
            Way::Silent => nothing(shared),
            Way::Reset => Ok(()),
            Way::HeaderOnly => stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n"),
            Way::NoJson => stream.write_all(json("<html>It works!</html>").as_bytes()),
            Way::NoCode => stream.write_all(json(r#"{"ok":false}"#).as_bytes()),
            Way::AtOnce => stream.write_all(json(r#"{"ok":true,"result":[]}"#).as_bytes()),
            Way::Well => {
                if !text.contains(r#""timeout":0"#) {
                    thread::sleep(Duration::from_millis(600));
                }
                stream.write_all(json(r#"{"ok":true,"result":[]}"#).as_bytes())
            }
            Way::Dribble => {
                for byte in json(&" ".repeat(100_000)).as_bytes() {
                    stream.write_all(&[*byte])?;
                    thread::sleep(Duration::from_millis(20));
                }
                Ok(())
            }
            Way::Huge => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 209715200\r\n\r\n")?;
                let part = [b' '; 1 << 16];
                for sent in 0..3200 {
                    shared.most.fetch_max(sent << 16, Ordering::Relaxed);
                    stream.write_all(&part)?;
                }
                Ok(())
            }
        };
    }
}

fn nothing(shared: &Inner) -> std::io::Result<()> {
    while !shared.over.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
