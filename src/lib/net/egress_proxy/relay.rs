//! Bytes between a program and the host it was allowed, counted and bounded.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

use super::Bytes;
use super::tls_hello::{First, first};

/// A connection on which nothing moves for so long is closed.
const IDLE: Duration = Duration::from_secs(600);
/// The most bytes of one connection, both ways counted alone.
const MAX_BYTES: u64 = 4 << 30;
const BUFFER: usize = 16 << 10;
/// The alert of TLS that says `unrecognized_name` and ends the connection (RFC 8446 §6.2).
const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// How a connection ended before its time.
pub(super) enum Ended {
    /// One side was lost, or nothing moved for too long.
    Lost,
    /// The program began TLS with another host, this one.
    OtherName(String),
}

/// Carries bytes until both sides have ended. `initial` was read from the program already; with `name`, TLS
/// goes to that server only.
pub(super) async fn relay(
    client: &mut TcpStream,
    server: &mut TcpStream,
    initial: Vec<u8>,
    name: Option<&str>,
    bytes: &Bytes,
) -> Result<(), Ended> {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let moved = Mutex::new(Instant::now());
    let up = async {
        let initial = match name {
            Some(name) => begin(&mut from_client, initial, name).await?,
            None => initial,
        };
        to_server
            .write_all(&initial)
            .await
            .map_err(|_| Ended::Lost)?;
        bytes
            .sent
            .fetch_add(initial.len() as u64, Ordering::Relaxed);
        pump(&mut from_client, &mut to_server, &bytes.sent, &moved).await
    };
    let down = pump(&mut from_server, &mut to_client, &bytes.received, &moved);
    let idle = async {
        loop {
            let until = *moved.lock() + IDLE;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    };
    let ended = tokio::select! {
        both = async { tokio::try_join!(up, down) } => both.map(drop),
        () = idle => Err(Ended::Lost),
    };
    if matches!(ended, Err(Ended::OtherName(_))) {
        let _ = client.write_all(&ALERT).await;
    }
    ended
}

/// Reads until it is clear whether the program begins TLS, and with whom.
async fn begin(
    from: &mut (impl AsyncRead + Unpin),
    mut read: Vec<u8>,
    name: &str,
) -> Result<Vec<u8>, Ended> {
    loop {
        match first(&read) {
            First::NoName => return Ok(read),
            First::Name(asked) if asked == name => return Ok(read),
            First::Name(asked) => return Err(Ended::OtherName(asked)),
            First::Damaged => return Err(Ended::OtherName("something unreadable".to_owned())),
            First::Unfinished => match from.read_buf(&mut read).await {
                Ok(1..) => {}
                _ => return Ok(read),
            },
        }
    }
}

async fn pump(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    count: &AtomicU64,
    moved: &Mutex<Instant>,
) -> Result<(), Ended> {
    let mut buffer = vec![0; BUFFER];
    let mut total = 0;
    loop {
        let read = from.read(&mut buffer).await.map_err(|_| Ended::Lost)?;
        if read == 0 {
            let _ = to.shutdown().await;
            return Ok(());
        }
        total += read as u64;
        count.fetch_add(read as u64, Ordering::Relaxed);
        if total > MAX_BYTES {
            return Err(Ended::Lost);
        }
        to.write_all(&buffer[..read])
            .await
            .map_err(|_| Ended::Lost)?;
        *moved.lock() = Instant::now();
    }
}
