//! The one way out of a command's network: a listener on its private loopback that the daemon serves.

use std::io::IoSlice;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::Arc;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use tokio::io::Interest;

use super::{At, Failure, syscalls};

/// The port of the listener, on 127.0.0.1 inside: the usual one of an HTTP proxy.
pub const EXIT_PORT: u16 = 3128;

/// Who serves the listener; called once, when the command's network is there.
#[derive(Clone)]
pub struct NetworkExit(Arc<dyn Fn(TcpListener) + Send + Sync>);

impl NetworkExit {
    /// Returns an exit that hands the listener to `serve`.
    pub fn new(serve: impl Fn(TcpListener) + Send + Sync + 'static) -> Self {
        Self(Arc::new(serve))
    }
}

impl std::fmt::Debug for NetworkExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NetworkExit")
    }
}

/// The launcher's side: listens in the network it is in, and sends the listener over `status`.
pub(super) fn send_listener(status: &impl AsFd) -> Result<(), Failure> {
    let step = "listen for the proxy";
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, EXIT_PORT)).at(step)?;
    let rights = [listener.as_raw_fd()];
    sendmsg::<()>(
        status.as_fd().as_raw_fd(),
        &[IoSlice::new(b"\n")],
        &[ControlMessage::ScmRights(&rights)],
        MsgFlags::empty(),
        None,
    )
    .at(step)
    .map(drop)
}

/// The daemon's end of a launcher's stderr: its report, and the listener before it.
pub(super) struct Status {
    socket: tokio::net::UnixStream,
    exit: Option<NetworkExit>,
}

impl Status {
    /// Returns it, and what the launcher gets as its stderr.
    pub(super) fn new() -> std::io::Result<(Self, Stdio)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let socket = tokio::net::UnixStream::from_std(ours)?;
        let exit = None;
        Ok((Self { socket, exit }, Stdio::from(OwnedFd::from(theirs))))
    }

    /// Says who serves the listener that will come.
    pub(super) fn serve(&mut self, exit: Option<NetworkExit>) {
        self.exit = exit;
    }

    /// Reads on into `report`, at most to `max` bytes, until the launcher and its children have ended. May be
    /// dropped and called again.
    pub(super) async fn read(&mut self, report: &mut Vec<u8>, max: u64) -> std::io::Result<()> {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let mut buffer = [0; 1024];
        loop {
            let received = self
                .socket
                .async_io(Interest::READABLE, || {
                    Ok(syscalls::receive(self.socket.as_fd(), &mut buffer)?)
                })
                .await;
            let (count, listener) = match received {
                // What it had to say was read before.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return Ok(()),
                received => received?,
            };
            if let (Some(listener), Some(NetworkExit(serve))) = (listener, self.exit.take()) {
                serve(TcpListener::from(listener));
            }
            if count == 0 {
                return Ok(());
            }
            let room = max.saturating_sub(report.len());
            report.extend_from_slice(&buffer[..count.min(room)]);
        }
    }
}
