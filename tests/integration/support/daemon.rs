//! A running `agent-daemon` that ends with its test, gently or not.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use nix::{
    fcntl::{FcntlArg, fcntl},
    libc,
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use super::{program, telegram::Polls, wait::look_until};

/// The longest start on a busy machine; the promise is 30 ms on an idle one.
const READY_MAX: Duration = Duration::from_secs(20);
/// The daemon drains for 30 s at most after SIGTERM.
const TERM_MAX: Duration = Duration::from_secs(35);

/// The guard; dropping it kills its own child and nothing else.
pub(crate) struct Daemon {
    child: Child,
    home: PathBuf,
    log: PathBuf,
    /// The fake it polls, and how often that was polled before this daemon.
    telegram: Option<(Polls, u64)>,
}

impl Daemon {
    /// Starts `command`; what it prints is added to the file `log`.
    pub(super) fn start(
        command: &mut Command,
        home: &Path,
        log: &Path,
        telegram: Option<Polls>,
    ) -> Self {
        let file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .expect("the sandbox is writable");
        let telegram = telegram.map(|polls| (polls.clone(), polls.count()));
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a file descriptor is free"))
            .stderr(file)
            .spawn()
            .unwrap_or_else(|why| panic!("cannot start {command:?}: {why}"));
        Self {
            child,
            home: home.to_owned(),
            log: log.to_owned(),
            telegram,
        }
    }

    /// Waits until it serves: it polls Telegram, or it holds the lock, has its FIFO and writes `monitor.json`
    /// under its own pid. Panics with its log when it ends or stays silent.
    pub(crate) fn wait_ready(&mut self) -> &mut Self {
        let ended = look_until(READY_MAX, || {
            match self.child.try_wait().expect("a child can be waited for") {
                Some(status) => Some(Some(status)),
                None => self.is_ready().then_some(None),
            }
        });
        match ended {
            Some(None) => self,
            Some(Some(status)) => panic!(
                "the daemon ended with {status} before it was ready:\n{}",
                self.log()
            ),
            None => panic!(
                "the daemon was not ready within {READY_MAX:?}:\n{}",
                self.log()
            ),
        }
    }

    /// Returns its process id.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("a pid is an i32"))
    }

    /// Sends a signal, such as SIGHUP or SIGSTOP.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("an own child takes signals");
    }

    /// Returns what this daemon and its predecessors in the sandbox printed.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns true when it has ended, however.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("a child can be waited for")
            .is_some()
    }

    /// Kills it as a power cut would.
    pub(crate) fn kill9(mut self) {
        self.end();
    }

    /// Asks it to end and returns its exit code (negative: the signal that ended it).
    pub(crate) fn term(self) -> i32 {
        self.signal(Signal::SIGTERM);
        self.wait_exit(TERM_MAX)
    }

    /// Returns its exit code when it ends by itself within `timeout`; panics with its log when it does not.
    pub(crate) fn wait_exit(mut self, timeout: Duration) -> i32 {
        match look_until(timeout, || {
            self.child.try_wait().expect("a child can be waited for")
        }) {
            Some(status) => program::code(status),
            None => panic!("the daemon still ran after {timeout:?}:\n{}", self.log()),
        }
    }

    fn is_ready(&self) -> bool {
        if self
            .telegram
            .as_ref()
            .is_some_and(|(polls, before)| polls.count() > *before)
        {
            return true;
        }
        let state = self.home.join("state");
        let monitor = fs::read(state.join("monitor.json")).ok();
        let monitor = monitor
            .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok())
            .unwrap_or_default();
        monitor["pid"] == self.child.id()
            && state.join("control.fifo").exists()
            && is_locked(&state.join("daemon.lock"))
    }

    fn end(&mut self) {
        // Both fail only when it has ended and been waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns whether somebody holds the open-file-description lock; takes nothing itself (fcntl(2), F_OFD_GETLK).
fn is_locked(path: &Path) -> bool {
    let small = |constant: i32| i16::try_from(constant).expect("lock constants fit their field");
    let Ok(file) = fs::File::open(path) else {
        return false;
    };
    let mut probe = libc::flock {
        l_type: small(libc::F_WRLCK),
        l_whence: small(libc::SEEK_SET),
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    fcntl(&file, FcntlArg::F_OFD_GETLK(&mut probe)).is_ok() && probe.l_type != small(libc::F_UNLCK)
}
