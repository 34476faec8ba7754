//! What tells whether the daemon lives: its lock and its file, read together.

use super::liveness;
use super::liveness::{Life, Signs};
use crate::config::Home;
use crate::monitor_state;
use crate::monitor_state::State;
use crate::sys;
use crate::sys::lock;

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Pulse {
    /// The process that holds the lock, 0 when it says none; `None` when nobody holds it.
    pub(super) pid: Option<i32>,
    /// monitor.json, whoever wrote it; `None` when there is none that can be read.
    pub(super) file: Option<State>,
    /// When the lock was taken, or a file that cannot be read was written, whichever is later.
    touched_at: Option<i64>,
    boot_id: String,
}

impl Pulse {
    pub(super) fn take(home: &Home) -> Result<Self, sys::Error> {
        let mut file = monitor_state::read(&home.monitor())?;
        let pid = lock::holder(&home.lock())?;
        let mut boot_id = String::new();
        if pid.is_none() {
            // It may have ended between the two looks; now nobody writes any more.
            file = monitor_state::read(&home.monitor())?;
            boot_id = monitor_state::boot_id();
        }
        let written_at = if file.is_none() {
            sys::modified_at(&home.monitor())
        } else {
            None
        };
        Ok(Self {
            pid,
            file,
            touched_at: sys::modified_at(&home.lock()).max(written_at),
            boot_id,
        })
    }

    #[cfg(test)]
    pub(super) fn of(pid: Option<i32>, file: Option<State>) -> Self {
        Self {
            pid,
            file,
            touched_at: None,
            boot_id: String::new(),
        }
    }

    pub(super) fn life(&self, now: i64) -> Life {
        let signs = Signs {
            pid: self.pid,
            locked_at: self.touched_at,
            state: self.file.as_ref(),
            boot_id: &self.boot_id,
        };
        Life::of(signs, now)
    }

    /// Returns monitor.json when it is of the daemon that holds the lock, or of the last one.
    pub(super) fn own(&self) -> Option<&State> {
        self.file
            .as_ref()
            .filter(|state| self.pid.is_none_or(|pid| liveness::is_of(pid, state)))
    }
}
