//! A word to systemd (`sd_notify(3)`): one datagram to the socket it named, nothing without one.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends `state` (`READY=1`, `STOPPING=1`, `STATUS=…`) to `socket`, the value of
/// `$NOTIFY_SOCKET`. Failing to be heard is no error: the daemon works without systemd.
pub fn notify(socket: Option<&str>, state: &str) {
    let Some(name) = socket else { return };
    let address = match name.strip_prefix('@') {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name),
        None => SocketAddr::from_pathname(name),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = sent {
        tracing::warn!(%error, "systemd could not be told");
    }
}
