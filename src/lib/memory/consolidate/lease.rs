//! The lease of a span: it is claimed before a model is asked about it, so that no second run does the same.
//!
//! A lease ends with its process, which is identified by its id and start time (ids are reused) on this boot of the machine;
//! if that is not possible, after 15 minutes.

use rusqlite::Row;

use crate::monitor_state;

/// How long the lease of a process that lives is respected (specification §13).
pub(super) const LEASE_MS: i64 = 15 * 60 * 1000;

/// A run of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub run: String,
    pub pid: i64,
    /// When the process started, in ticks since the machine did; 0 where that is not told.
    pub started: i64,
    pub boot_id: String,
}

impl Owner {
    /// Returns a new run of this process.
    pub(super) fn new() -> Self {
        let pid = i64::from(std::process::id());
        Self {
            run: uuid::Uuid::now_v7().to_string(),
            pid,
            started: started(pid).unwrap_or(0),
            boot_id: monitor_state::boot_id(),
        }
    }
}

/// What a row says of who holds the lease.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Holder {
    pub run: Option<String>,
    lease_until: i64,
    pid: i64,
    started: i64,
    boot_id: String,
}

/// The columns of a [`Holder`].
pub(super) const COLUMNS: &str = "run, lease_until, pid, started, boot_id";

impl Holder {
    /// Reads [`COLUMNS`], the first of which is column `from`.
    pub(super) fn of(row: &Row<'_>, from: usize) -> rusqlite::Result<Self> {
        Ok(Self {
            run: row.get(from)?,
            lease_until: row.get::<_, Option<i64>>(from + 1)?.unwrap_or(0),
            pid: row.get::<_, Option<i64>>(from + 2)?.unwrap_or(0),
            started: row.get::<_, Option<i64>>(from + 3)?.unwrap_or(0),
            boot_id: row.get::<_, Option<String>>(from + 4)?.unwrap_or_default(),
        })
    }

    /// Returns true when `owner` may take it at `now`.
    pub(super) fn is_free_for(&self, owner: &Owner, now: i64) -> bool {
        self.run.as_ref().is_none_or(|run| *run == owner.run)
            // A lease that ends too late was written before the clock was set back.
            || !(now..=now + LEASE_MS).contains(&self.lease_until)
            || self.is_of_another_boot(owner)
            || !self.lives()
    }

    fn is_of_another_boot(&self, owner: &Owner) -> bool {
        !self.boot_id.is_empty() && !owner.boot_id.is_empty() && self.boot_id != owner.boot_id
    }

    fn lives(&self) -> bool {
        if self.started != 0 {
            return started(self.pid) == Some(self.started);
        }
        let Ok(pid) = i32::try_from(self.pid) else {
            return false;
        };
        // EPERM is somebody else's process, and alive.
        pid > 0
            && nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None)
                != Err(nix::errno::Errno::ESRCH)
    }
}

/// Returns when process `pid` started (proc_pid_stat(5), field 22); `None` when there is none.
fn started(pid: i64) -> Option<i64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in parentheses, may have anything in it.
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(19)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_ends_with_its_process_its_boot_or_its_lease() {
        let me = Owner::new();
        let other = Owner {
            run: "other".to_owned(),
            ..me.clone()
        };
        let held = |change: &dyn Fn(&mut Holder)| {
            let mut holder = Holder {
                run: Some(other.run.clone()),
                lease_until: 1000 + LEASE_MS,
                pid: other.pid,
                started: other.started,
                boot_id: other.boot_id.clone(),
            };
            change(&mut holder);
            !holder.is_free_for(&me, 1000)
        };
        assert!(held(&|_| {}), "it lives");
        assert!(!held(&|holder| holder.run = None));
        assert!(!held(&|holder| holder.run = Some(me.run.clone())));
        assert!(!held(&|holder| holder.lease_until = 999));
        assert!(!held(&|holder| holder.lease_until = 1001 + LEASE_MS));
        assert!(
            !held(&|holder| holder.started -= 1),
            "the number was used again"
        );
        assert!(!held(&|holder| holder.boot_id = "another".to_owned()));
        // Linux numbers processes up to 2²².
        assert!(!held(&|holder| (holder.pid, holder.started) = (1 << 23, 0)));
        assert!(held(&|holder| holder.started = 0));
    }
}
