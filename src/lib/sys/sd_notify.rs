//! Notifications to systemd (`sd_notify(3)`): a datagram each to the socket that it names; nothing without one.

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// No watchdog is fed more often than this, whatever was asked.
const SHORTEST_BEAT: Duration = Duration::from_millis(10);

/// Where systemd listens, and how often it wants to hear that this process lives.
#[derive(Debug, Clone, Default)]
pub struct Systemd {
    socket: Option<OsString>,
    beat: Option<Duration>,
}

impl Systemd {
    /// Returns what `$NOTIFY_SOCKET`, `$WATCHDOG_USEC` and `$WATCHDOG_PID` of `env` ask of the
    /// process `pid`. A watchdog that is meant for another process is none (sd_watchdog_enabled(3)).
    pub fn of(env: &dyn Fn(&str) -> Option<OsString>, pid: u32) -> Self {
        let number = |name| env(name).and_then(|text| text.to_str()?.parse::<u64>().ok());
        let for_another =
            env("WATCHDOG_PID").is_some() && number("WATCHDOG_PID") != Some(u64::from(pid));
        let patience = number("WATCHDOG_USEC")
            .filter(|usec| *usec > 0 && !for_another)
            .map(Duration::from_micros);
        Self {
            socket: env("NOTIFY_SOCKET"),
            beat: patience.map(|patience| (patience / 2).max(SHORTEST_BEAT)),
        }
    }

    /// Returns how often `WATCHDOG=1` is to be said: twice in the time after which systemd kills.
    pub fn beat(&self) -> Option<Duration> {
        self.beat.filter(|_| self.socket.is_some())
    }

    /// Returns whether systemd waits for what this process says.
    pub fn listens(&self) -> bool {
        self.socket.is_some()
    }

    /// Sends `state`: `READY=1`, `WATCHDOG=1`, several with newlines between them. Failing to be
    /// heard is not an error: the daemon works without systemd.
    pub fn say(&self, state: &str) {
        let Some(name) = &self.socket else { return };
        let address = match name.as_bytes().strip_prefix(b"@") {
            Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name),
            None => SocketAddr::from_pathname(name),
        };
        let sent = address
            .and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
        if let Err(error) = sent {
            tracing::warn!(%error, "cannot notify systemd");
        }
    }

    /// Sets the line that `systemctl status` shows.
    pub fn status(&self, line: &str) {
        self.say(&format!("STATUS={}", line.replace('\n', " ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], beat: Option<Duration>) {
        let env = |name: &str| {
            variables
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, value)| OsString::from(value))
        };
        assert_eq!(Systemd::of(&env, 42).beat(), beat, "{variables:?}");
    }

    #[test]
    fn the_watchdog_is_fed_twice_as_often_as_it_bites() {
        let socket = ("NOTIFY_SOCKET", "/run/systemd/notify");
        check(
            &[socket, ("WATCHDOG_USEC", "3000000")],
            Some(Duration::from_millis(1500)),
        );
        check(
            &[socket, ("WATCHDOG_USEC", "3000000"), ("WATCHDOG_PID", "42")],
            Some(Duration::from_millis(1500)),
        );
        check(&[socket, ("WATCHDOG_USEC", "1")], Some(SHORTEST_BEAT));
    }

    #[test]
    fn a_watchdog_that_is_none_or_anothers_is_not_fed() {
        let socket = ("NOTIFY_SOCKET", "/run/systemd/notify");
        check(&[socket], None);
        check(&[("WATCHDOG_USEC", "3000000")], None);
        for usec in ["0", "-1", "soon"] {
            check(&[socket, ("WATCHDOG_USEC", usec)], None);
        }
        for pid in ["43", "me"] {
            check(
                &[socket, ("WATCHDOG_USEC", "3000000"), ("WATCHDOG_PID", pid)],
                None,
            );
        }
    }

    #[test]
    fn what_is_said_arrives_and_a_status_is_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let systemd = Systemd {
            socket: Some(path.into()),
            beat: None,
        };
        systemd.say("READY=1\nSTATUS=x");
        systemd.status("two\nlines");
        let heard = || {
            let mut bytes = [0; 100];
            let count = socket.recv(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes[..count]).into_owned()
        };
        assert_eq!(
            [heard(), heard()],
            ["READY=1\nSTATUS=x", "STATUS=two lines"]
        );
        drop(socket);
        systemd.say("STOPPING=1");
    }
}
