//! A wall clock that a test sets ahead: `clock.c`, preloaded into the programs. Timers go on as they were.

use std::{
    fs,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use serde_json::Value;

use super::faults::build;

/// The clock of one home.
pub(crate) struct Clock {
    control: fs::File,
    path: PathBuf,
    ahead: Duration,
}

impl Clock {
    /// Makes the control file `path`; the clock shows the real time.
    pub(crate) fn new(path: &Path) -> Self {
        let mut options = fs::OpenOptions::new();
        let control = options
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .expect("the sandbox is writable");
        control.set_len(4096).expect("the sandbox is writable");
        Self {
            control,
            path: path.to_owned(),
            ahead: Duration::ZERO,
        }
    }

    /// Returns what programs need in their environment to go by this clock.
    pub(crate) fn environment(&self) -> [(&'static str, String); 2] {
        static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
        let library = LIBRARY.get_or_init(|| build("clock"));
        [
            ("LD_PRELOAD", library.display().to_string()),
            ("CLOCK", self.path.display().to_string()),
        ]
    }

    /// Returns how far it is ahead.
    pub(crate) fn ahead(&self) -> Duration {
        self.ahead
    }

    /// Sets it further ahead.
    pub(crate) fn later(&mut self, time: Duration) {
        self.set(self.ahead + time);
    }

    /// Sets it back, at most to the real time.
    pub(crate) fn earlier(&mut self, time: Duration) {
        self.set(self.ahead.saturating_sub(time));
    }

    fn set(&mut self, ahead: Duration) {
        self.ahead = ahead;
        let seconds = i64::try_from(self.ahead.as_secs()).expect("no test takes that long");
        self.control
            .write_all_at(&seconds.to_ne_bytes(), 0)
            .expect("the sandbox is writable");
    }

    /// Sets it to just after `time`, as documents write it.
    pub(crate) fn sleep_until(&mut self, time: &Value) {
        let time =
            chrono::DateTime::parse_from_rfc3339(time.as_str().expect("a time")).expect("RFC 3339");
        let left = time.with_timezone(&chrono::Utc) - self.now();
        let left = u64::try_from(left.num_milliseconds().max(0)).expect("positive");
        self.later(Duration::from_millis(left) + Duration::from_secs(1));
    }

    /// Returns what it shows.
    pub(crate) fn now(&self) -> chrono::DateTime<chrono::Utc> {
        chrono::Utc::now() + chrono::TimeDelta::from_std(self.ahead()).expect("not that far")
    }
}
