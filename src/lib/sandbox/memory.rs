//! The memory of all processes of a command together, where there are no control groups (`cgroup`): other limits of the
//! kernel apply to each process alone.
//!
//! Private memory is added up. Shared memory (`memfd_create`, shared mappings, System V) belongs to no process: all that was
//! created on the machine since the command began counts as the command's.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::kill;
use nix::unistd::{Pid, SysconfVar, getpid, sysconf};

use super::restrict::GIB;

/// The most that all processes of a command may hold, and the part of the machine's memory.
const MOST: u64 = 8 * GIB;
const PART: u64 = 2;

/// How often it is looked at: seldom while there is much room. A core fills a few GiB a second.
const SELDOM: Duration = Duration::from_secs(1);
const OFTEN: Duration = Duration::from_millis(100);

/// Returns the bytes that all processes of a command may hold.
pub(super) fn limit() -> u64 {
    of_machine("MemTotal:").map_or(MOST, |all| (all / PART).min(MOST))
}

/// Watches what the command's processes hold.
pub(super) struct Watch {
    limit: u64,
    page: u64,
    /// Shared memory of the machine when the command began, bytes.
    shared: u64,
    /// When it is looked at next.
    next: Instant,
}

impl Watch {
    pub(super) fn new() -> Self {
        let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
        Self {
            limit: limit(),
            shared: of_machine("Shmem:").unwrap_or(u64::MAX),
            page: page.and_then(|page| page.try_into().ok()).unwrap_or(4096),
            next: Instant::now() + OFTEN,
        }
    }

    /// Looks when it is time, and returns how long until then next; `None` when they hold too much.
    pub(super) fn look(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if now >= self.next {
            let shared = of_machine("Shmem:").unwrap_or_default();
            let held = self.held() + shared.saturating_sub(self.shared);
            if held > self.limit {
                return None;
            }
            let has_room = held < self.limit / 4;
            self.next = now + if has_room { SELDOM } else { OFTEN };
        }
        Some(self.next.saturating_duration_since(now) + Duration::from_millis(1))
    }

    /// Returns the bytes that the processes hold for themselves, of those that this one may kill: the command's,
    /// and no others.
    fn held(&self) -> u64 {
        let own = getpid();
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.map(Pid::from_raw)
            .filter(|pid| *pid != own && kill(*pid, None).is_ok())
            .filter_map(|pid| self.held_by(pid))
            .sum()
    }

    fn held_by(&self, pid: Pid) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
        let mut pages = text.split(' ').skip(1).map(str::parse::<u64>);
        let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
        Some(resident.saturating_sub(shared) * self.page)
    }
}

/// Returns a number of `/proc/meminfo`, bytes.
fn of_machine(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib * 1024)
}
