//! What a daemon takes of the machine, seen from outside.

use std::{fmt, fs, path::Path};

use super::{Daemon, Sandbox};

/// What the daemon takes of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) resident_kb: u64,
    pub(crate) descriptors: usize,
    pub(crate) threads: u64,
    pub(crate) disk_kb: u64,
}

impl Figures {
    /// Takes them now.
    pub(crate) fn of(daemon: &Daemon, sandbox: &Sandbox) -> Self {
        let proc = format!("/proc/{}", daemon.pid());
        let status = fs::read_to_string(format!("{proc}/status")).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            number.unwrap_or(0)
        };
        Self {
            resident_kb: field("VmRSS:"),
            descriptors: fs::read_dir(format!("{proc}/fd")).map_or(0, Iterator::count),
            threads: field("Threads:"),
            disk_kb: size(&sandbox.home()) >> 10,
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            resident_kb,
            descriptors,
            threads,
            disk_kb,
        } = self;
        write!(
            f,
            "{resident_kb} kB resident, {descriptors} descriptors, {threads} threads, {disk_kb} kB of disk"
        )
    }
}

fn size(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(is) if is.is_dir() => size(&entry.path()),
            Ok(is) => is.len(),
            Err(_) => 0,
        })
        .sum()
}
