//! What the daemon says to systemd, heard on a socket as systemd would open it.

use std::{
    io::ErrorKind,
    os::unix::net::UnixDatagram,
    path::PathBuf,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use crate::support::{Daemon, FakeTelegram, Fault, FaultKind, Sandbox};

/// What `WATCHDOG_USEC` says; the daemon is heard twice in it.
const PATIENCE: Duration = Duration::from_millis(400);
const SOON: Duration = Duration::from_secs(20);

struct Systemd {
    socket: UnixDatagram,
    _dir: tempfile::TempDir,
}

impl Systemd {
    fn listen() -> (Self, PathBuf) {
        let dir = tempfile::tempdir().expect("the temporary directory is writable");
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("own directory");
        (Self { socket, _dir: dir }, path)
    }

    /// Returns the next message, `None` when there is silence for so long.
    fn hear(&self, within: Duration) -> Option<String> {
        self.socket
            .set_read_timeout(Some(within))
            .expect("not zero");
        let mut bytes = [0; 4096];
        loop {
            match self.socket.recv(&mut bytes) {
                Ok(count) => return Some(String::from_utf8_lossy(&bytes[..count]).into_owned()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                // signal(7): with a timeout it is not taken up again after a stop or a trace.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    /// Returns everything that is said until a message begins like this, that message last.
    fn hear_until(&self, begin: &str) -> Vec<String> {
        let until = Instant::now() + SOON;
        let mut heard = Vec::new();
        while Instant::now() < until {
            heard.extend(self.hear(SOON));
            if heard
                .last()
                .is_some_and(|message| message.starts_with(begin))
            {
                return heard;
            }
        }
        panic!("{begin} was not said, but: {heard:?}");
    }
}

fn start(variables: &[(&str, &str)]) -> (Systemd, Sandbox, Daemon) {
    let (systemd, path) = Systemd::listen();
    let sandbox = Sandbox::new().env("NOTIFY_SOCKET", &path.display().to_string());
    let sandbox = variables
        .iter()
        .fold(sandbox, |sandbox, (name, value)| sandbox.env(name, value));
    let daemon = sandbox.daemon();
    (systemd, sandbox, daemon)
}

#[test]
fn systemd_hears_when_the_doors_are_open_that_the_daemon_lives_and_when_it_ends() {
    let began = Instant::now();
    let (systemd, sandbox, daemon) = start(&[("WATCHDOG_USEC", &PATIENCE.as_micros().to_string())]);
    assert_eq!(
        systemd.hear_until("READY"),
        ["READY=1\nSTATUS=open"],
        "nothing is said before"
    );
    let told = sandbox.send(&["--wait=20", "are you open?"]);
    assert_eq!(told.code, 0, "{told:?}");

    let mut beats = 0;
    while beats < 5 {
        match systemd.hear(SOON).expect("it lives").as_str() {
            "WATCHDOG=1" => beats += 1,
            status => assert!(
                status.starts_with("STATUS=open; sandbox of exec: "),
                "{status}"
            ),
        }
    }
    assert!(
        began.elapsed() > PATIENCE,
        "five beats in {:?} are too many",
        began.elapsed()
    );

    daemon.signal(Signal::SIGSTOP);
    while systemd.hear(PATIENCE).is_some() {}
    assert_eq!(systemd.hear(PATIENCE * 2), None, "who hangs is silent");
    daemon.signal(Signal::SIGCONT);
    systemd.hear_until("WATCHDOG=1");

    daemon.signal(Signal::SIGTERM);
    let last = systemd.hear_until("STOPPING");
    assert_eq!(
        last.last().map(String::as_str),
        Some("STOPPING=1\nSTATUS=ending: running turns may finish")
    );
    assert_eq!(daemon.wait_exit(SOON), 0);
}

#[test]
fn a_watchdog_for_another_process_is_not_fed() {
    let (systemd, _sandbox, daemon) = start(&[("WATCHDOG_USEC", "100000"), ("WATCHDOG_PID", "1")]);
    systemd.hear_until("READY");
    let status = systemd.hear(SOON).expect("the sandbox is named");
    assert!(
        status.starts_with("STATUS=open; sandbox of exec: "),
        "{status}"
    );
    assert_eq!(systemd.hear(Duration::from_millis(500)), None);
    assert_eq!(daemon.term(), 0);
}

#[test]
fn systemctl_status_says_that_a_reload_failed() {
    let (systemd, mut sandbox, daemon) = start(&[]);
    systemd.hear_until("STATUS=open; sandbox");
    sandbox.reconfigure("[agent]\nmax_turns = \"many\"");
    daemon.signal(Signal::SIGHUP);
    let status = systemd.hear(SOON).expect("it says so");
    assert!(
        status.starts_with("STATUS=open; the configuration stays as it was: "),
        "{status}"
    );
    assert!(
        status.contains("max_turns") && !status.contains('\n'),
        "{status}"
    );
    sandbox.reconfigure("[agent]\nmax_turns = 3");
    daemon.signal(Signal::SIGHUP);
    systemd.hear_until("STATUS=open; sandbox of exec: ");
    assert_eq!(daemon.term(), 0);
}

#[test]
fn what_is_wrong_with_telegram_shows_in_the_status() {
    let telegram = FakeTelegram::start();
    telegram.fault(Fault {
        method: "getUpdates",
        kind: FaultKind::Status(409),
        count: 1,
    });
    let (systemd, path) = Systemd::listen();
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .config("[telegram]\npoll_timeout_secs = 1")
        .env("NOTIFY_SOCKET", &path.display().to_string());
    let _daemon = sandbox.daemon();
    systemd
        .hear_until("STATUS=open; telegram: conflict: another program polls with the same token");
    systemd.hear_until("STATUS=open; sandbox of exec: ");
}
