//! Restrictions of a command before it starts: files by Landlock, resources by limits, and the
//! signals it could send.

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::host_secrets::{Secrets, open_parts};
use super::mount_root::{DEVICES, MAX_PROCESSES, Paths, SYSTEM};
use super::{At, Failure, Plan, Walls};

/// The newest ABI whose rights we ask for; an older kernel gives what it has.
const ASKED: ABI = ABI::V9;

/// Files in `/proc` that programs read to size themselves; the rest, at level `landlock`, would
/// show the host's processes.
const PROC_READ: [&str; 9] = [
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/kernel",
    "/proc/sys/vm",
    "/proc/uptime",
    "/proc/version",
];

/// Root's secrets by name, for level `landlock`: there a command may chmod what its user owns, so
/// the next one cannot trust the mode.
const ALWAYS_CLOSED: [&str; 9] = [
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/security/opasswd",
];

/// Puts the launcher of level `landlock` into an outer domain: `kill(-1)` from here reaches the
/// command's processes, which will be in an inner one, and nobody else.
pub(super) fn keep_signals_inside() -> Result<(), Failure> {
    let step = "keep signals inside";
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::Signal)
        .at(step)?;
    let status = ruleset.create().at(step)?.restrict_self().at(step)?;
    // Unscoped, that kill(-1) would reach the whole machine.
    if status.ruleset == RulesetStatus::FullyEnforced {
        Ok(())
    } else {
        Err("Landlock is not in force").at(step)
    }
}

/// What a command may touch.
pub(super) struct Access {
    readable: Vec<PathBuf>,
    writable: Vec<PathBuf>,
    /// Its TMPDIR.
    pub(super) tmp: PathBuf,
}

impl Access {
    /// Returns the rights in a root of the command's own: its mounts left out already what is hidden.
    pub(super) fn in_new_root(paths: Paths) -> Self {
        let tmp = PathBuf::from("/tmp");
        let mut writable = paths.writable;
        writable.extend([tmp.clone(), "/dev/shm".into()]);
        Self {
            readable: vec!["/".into()],
            writable,
            tmp,
        }
    }

    /// Returns the rights in the machine's root, with `tmp` for the command alone.
    pub(super) fn in_host_root(
        paths: &Paths,
        secrets: Secrets,
        tmp: PathBuf,
    ) -> Result<Self, Failure> {
        let mut closed = secrets.finish()?;
        closed.extend(paths.hidden.iter().cloned());
        closed.extend(ALWAYS_CLOSED.map(PathBuf::from));
        let mut readable: Vec<PathBuf> = SYSTEM
            .iter()
            .flat_map(|dir| open_parts(Path::new(dir), &closed))
            .collect();
        readable.extend(
            paths
                .read_only
                .iter()
                .flat_map(|path| open_parts(path, &closed)),
        );
        readable.extend(PROC_READ.map(PathBuf::from));
        let mut writable: Vec<PathBuf> = paths
            .writable
            .iter()
            .flat_map(|dir| open_parts(dir, &paths.hidden))
            .collect();
        writable.push(tmp.clone());
        Ok(Self {
            readable,
            writable,
            tmp,
        })
    }
}

/// Restricts files, and where Landlock can, sockets and signals, to what `access` says.
pub(super) fn landlock(plan: &Plan, access: &Access) -> Result<(), Failure> {
    let step = "restrict files";
    let all = AccessFs::from_all(ASKED);
    let mut ruleset = Ruleset::default().handle_access(all).at(step)?;
    ruleset = ruleset.scope(Scope::from_all(ASKED)).at(step)?;
    // With namespaces the private loopback stays usable.
    if plan.walls == Walls::Landlock {
        ruleset = ruleset.handle_access(AccessNet::from_all(ASKED)).at(step)?;
    }
    let mut ruleset = ruleset.create().at(step)?;
    for path in &access.readable {
        ruleset = allow(ruleset, path, AccessFs::from_read(ASKED))?;
    }
    // Sockets of the command's own are in reach without it.
    let written = all & !AccessFs::ResolveUnix;
    for path in &access.writable {
        ruleset = allow(ruleset, path, written)?;
    }
    for path in DEVICES {
        let access = AccessFs::from_file(ASKED) & written;
        ruleset = allow(ruleset, Path::new(path), access)?;
    }
    ruleset.restrict_self().at(step).map(drop)
}

fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, Failure> {
    // What is not there needs no right.
    let Ok(fd) = PathFd::new(path) else {
        return Ok(ruleset);
    };
    let access = if path.is_dir() {
        access
    } else {
        access & AccessFs::from_file(ASKED)
    };
    ruleset
        .add_rule(PathBeneath::new(fd, access))
        .at(&format!("allow {}", path.display()))
}

pub(super) const GIB: u64 = 1 << 30;

/// Bounds what one process may use.
pub(super) fn limits(plan: &Plan) -> Result<(), Failure> {
    lower(Resource::RLIMIT_CORE, 0)?;
    lower(Resource::RLIMIT_NOFILE, 1024)?;
    lower(Resource::RLIMIT_FSIZE, GIB)?;
    // Not RLIMIT_AS: JITs reserve tens of GiB that they never touch (one WebAssembly memory of node: 10).
    lower(Resource::RLIMIT_DATA, 8 * GIB)?;
    lower(Resource::RLIMIT_CPU, plan.cpu_secs)?;
    // Without namespaces it counts all processes of the user on this machine, the agent's among them.
    let others = if plan.walls == Walls::Namespaces {
        0
    } else {
        users_threads()
    };
    lower(Resource::RLIMIT_NPROC, MAX_PROCESSES + others)
}

/// Returns how many threads the user has on this machine.
fn users_threads() -> u64 {
    let own = nix::unistd::geteuid().as_raw();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let threads = entries.filter_map(|entry| {
        let tasks = entry.path().join("task").metadata().ok()?;
        // The directory's links: one of each thread, `.` and `..`.
        (tasks.uid() == own).then(|| tasks.nlink().saturating_sub(2))
    });
    threads.sum()
}

fn lower(resource: Resource, limit: u64) -> Result<(), Failure> {
    let step = "set the limits";
    let (_, hard) = getrlimit(resource).at(step)?;
    setrlimit(resource, limit.min(hard), limit.min(hard)).at(step)
}
