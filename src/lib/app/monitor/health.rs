//! The health of the daemon: determined by its lock first, by monitor.json second.

use crate::app::cli::{Exit, Failure};
use crate::clock;
use crate::config::Home;
use crate::monitor_state;
use crate::monitor_state::{STALE_MS, State};
use crate::standby;
use crate::sys;
use crate::sys::lock;

/// The lock and monitor.json, read together.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Health {
    /// The process that holds the lock, 0 when it says none; `None` when nobody holds it.
    pub(super) pid: Option<i32>,
    /// monitor.json, no matter which process wrote it; `None` when there is none that can be read.
    pub(super) file: Option<State>,
    /// When the lock was taken, or a file that cannot be read was written, whichever is later.
    touched_at: Option<i64>,
    /// This boot of the machine, where a dead daemon makes it worth to know.
    boot_id: String,
    /// Whether the disk of the state is full: then the daemon cannot say so itself.
    is_full: bool,
    /// That settings files are not as the daemon has read them.
    unread_settings: Option<String>,
    /// Why no daemon may run here.
    pub(super) not_here: Option<NotHere>,
}

/// That the agent may not run in this home: it was handed over or replaced, or waits as a standby.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NotHere {
    /// That, and what to do.
    pub(super) why: Failure,
    /// What is wrong with it; `None` for a standby that has a fresh copy.
    pub(super) alarm: Option<String>,
}

impl NotHere {
    /// Returns it for `home`; `None` where the agent may run.
    fn read(home: &Home) -> Option<Self> {
        let why = Failure::from(standby::may_run(home).err()?);
        let alarm = match standby::read(home) {
            Ok(record) => record.and_then(|record| record.alarm(clock::now_ms())),
            Err(_) => Some(why.message.clone()),
        };
        Some(Self { why, alarm })
    }
}

/// How the daemon is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// It left no file and no lock.
    Never,
    /// It holds the lock and has not written yet; a file there is another's.
    Starting {
        for_ms: i64,
    },
    Up,
    /// It runs, and nothing can be stored: the disk is full.
    Full,
    /// It lets running turns finish and ends.
    Stopping,
    /// It holds the lock and writes nothing.
    Stale {
        silent_ms: i64,
    },
    /// It ended by itself.
    Stopped {
        ago_ms: i64,
    },
    /// It was killed or broke down; perhaps the machine was restarted since.
    Dead {
        ago_ms: i64,
        rebooted: bool,
    },
}

impl Health {
    pub(super) fn read(home: &Home) -> Result<Self, sys::Error> {
        let mut file = monitor_state::read(&home.monitor())?;
        let pid = lock::holder(&home.lock())?;
        let mut boot_id = String::new();
        let mut not_here = None;
        if pid.is_none() {
            // It may have ended between the two looks; now nobody writes any more.
            file = monitor_state::read(&home.monitor())?;
            boot_id = monitor_state::boot_id();
            not_here = NotHere::read(home);
        }
        let unreadable = file.is_none().then(|| sys::modified_at(&home.monitor()));
        let mut health = Self {
            pid,
            file,
            touched_at: sys::modified_at(&home.lock()).max(unreadable.flatten()),
            boot_id,
            is_full: sys::is_full(home.state()),
            unread_settings: None,
            not_here,
        };
        let unread = health.live().and_then(|state| state.unread_settings(home));
        health.unread_settings = unread;
        Ok(health)
    }

    #[cfg(test)]
    pub(super) fn of(pid: Option<i32>, file: Option<State>) -> Self {
        Self {
            pid,
            file,
            ..Self::default()
        }
    }

    /// Returns how the daemon is.
    pub(super) fn life(&self, now: i64) -> Life {
        let since = |at: &str| clock::parse_rfc3339(at).map_or(0, |at| (now - at).max(0));
        let touched = self.touched_at.map(|at| (now - at).max(0));
        match (self.pid, &self.file) {
            // Without a file the lock says that there was one, which perhaps never got so far as to write.
            (None, None) => touched.map_or(Life::Never, |ago_ms| Life::Dead {
                ago_ms,
                rebooted: false,
            }),
            (None, Some(state)) => match &state.ended_at {
                Some(ended_at) => Life::Stopped {
                    ago_ms: since(ended_at),
                },
                None => {
                    let boots = [state.boot_id.as_str(), &self.boot_id];
                    Life::Dead {
                        ago_ms: since(&state.updated_at),
                        rebooted: !boots.contains(&"") && boots[0] != boots[1],
                    }
                }
            },
            (Some(pid), Some(state)) if state.is_of(pid) => match since(&state.updated_at) {
                // The file tells no more where nothing can be written.
                _ if self.is_full && !state.stopping => Life::Full,
                silent_ms if silent_ms > STALE_MS => Life::Stale { silent_ms },
                _ if state.stopping => Life::Stopping,
                _ => Life::Up,
            },
            // One that could not write at all.
            (Some(_), _) if self.is_full => Life::Full,
            (Some(_), _) => match touched.unwrap_or(0) {
                silent_ms if silent_ms > STALE_MS => Life::Stale { silent_ms },
                for_ms => Life::Starting { for_ms },
            },
        }
    }

    /// Returns monitor.json when it is of the daemon that holds the lock, or of the last one.
    pub(super) fn own(&self) -> Option<&State> {
        let is_own = |state: &&State| self.pid.is_none_or(|pid| state.is_of(pid));
        self.file.as_ref().filter(is_own)
    }

    /// Returns that settings files are not as the daemon has read them.
    pub(super) fn unread_settings(&self) -> Option<&str> {
        self.unread_settings.as_deref()
    }

    /// Returns monitor.json of the daemon that runs.
    pub(super) fn live(&self) -> Option<&State> {
        self.own().filter(|_| self.pid.is_some())
    }
}

impl Life {
    /// Returns what a script is told.
    pub(super) fn exit(self) -> Exit {
        match self {
            Self::Up | Self::Starting { .. } | Self::Stopping => Exit::Ok,
            Self::Stale { .. } | Self::Full => Exit::Failed,
            Self::Never | Self::Stopped { .. } | Self::Dead { .. } => Exit::NoDaemon,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000;

    #[test]
    fn the_lock_says_whether_it_lives_and_the_file_how() {
        let file = |pid: u32, age_ms: i64| State {
            pid,
            boot_id: "this".into(),
            updated_at: clock::rfc3339(NOW - age_ms),
            ..State::default()
        };
        let stopping = State {
            stopping: true,
            ..file(7, 9)
        };
        let ended = State {
            ended_at: Some(clock::rfc3339(NOW - 4)),
            ..stopping.clone()
        };
        let other_boot = State {
            boot_id: "other".into(),
            ..file(7, 9)
        };
        let stale = |silent_ms| Life::Stale { silent_ms };
        let dead = |ago_ms, rebooted| Life::Dead { ago_ms, rebooted };
        let starting = Life::Starting { for_ms: 5 };
        let cases = [
            (Some(7), Some(file(7, -3_000)), Life::Up, Exit::Ok),
            (Some(7), Some(file(7, 60_000)), Life::Up, Exit::Ok),
            (Some(7), Some(file(7, 60_001)), stale(60_001), Exit::Failed),
            (Some(7), Some(stopping.clone()), Life::Stopping, Exit::Ok),
            (Some(7), Some(ended.clone()), Life::Stopping, Exit::Ok),
            // A file of the daemon before is not a sign of this one.
            (Some(7), None, starting, Exit::Ok),
            (Some(7), Some(file(6, 3_600_000)), starting, Exit::Ok),
            (Some(0), Some(file(6, 61_000)), stale(61_000), Exit::Failed),
            (Some(7), Some(file(0, 61_000)), stale(61_000), Exit::Failed),
            (None, None, dead(5, false), Exit::NoDaemon),
            (None, Some(file(7, 9)), dead(9, false), Exit::NoDaemon),
            (None, Some(other_boot), dead(9, true), Exit::NoDaemon),
            (None, Some(stopping), dead(9, false), Exit::NoDaemon),
            (
                None,
                Some(ended),
                Life::Stopped { ago_ms: 4 },
                Exit::NoDaemon,
            ),
        ];
        for (pid, file, life, exit) in cases {
            let health = Health {
                pid,
                file,
                touched_at: Some(NOW - 5),
                boot_id: "this".into(),
                ..Health::default()
            };
            let found = health.life(NOW);
            assert_eq!((found, found.exit()), (life, exit), "{health:?}");
        }
        let hung = Health {
            touched_at: Some(NOW - 61_000),
            ..Health::of(Some(7), None)
        };
        assert_eq!(hung.life(NOW), stale(61_000));
        let full = |pid, age_ms| {
            let health = Health {
                is_full: true,
                ..Health::of(pid, Some(file(7, age_ms)))
            };
            health.life(NOW)
        };
        for age_ms in [9, 3_600_000] {
            assert_eq!(full(Some(7), age_ms), Life::Full, "{age_ms}");
        }
        assert_eq!(full(Some(8), 9), Life::Full, "it could not write at all");
        assert_eq!(Life::Full.exit(), Exit::Failed);
        assert_eq!(full(None, 9), dead(9, false));
        assert_eq!(Health::default().life(NOW), Life::Never);
    }
}
