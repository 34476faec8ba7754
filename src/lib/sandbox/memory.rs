//! Memory of all processes of a command together: limits of the kernel bind each process alone.

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

/// Watches what the command's processes hold.
pub(super) struct Watch {
    limit: u64,
    page: u64,
    /// When it is looked at next.
    next: Instant,
}

impl Watch {
    pub(super) fn new() -> Self {
        let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
        Self {
            limit: machine().map_or(MOST, |all| (all / PART).min(MOST)),
            page: page.and_then(|page| page.try_into().ok()).unwrap_or(4096),
            next: Instant::now() + OFTEN,
        }
    }

    /// Looks when it is time, and returns how long until then next; `None` when they hold too much.
    pub(super) fn look(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if now >= self.next {
            let held = self.held();
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

fn machine() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib * 1024)
}
