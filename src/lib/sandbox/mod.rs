//! Runs the agent's commands in a sandbox, and opens files that must stay inside one directory.
//!
//! [`run()`] starts our own executable again as a launcher ([`launcher_main`]), which builds the
//! sandbox and then becomes `/bin/sh -c`. Three pipes join the two; nothing goes through argv or the
//! environment, because a command may be long or secret:
//!
//! ```text
//! daemon                              launcher
//!   stdin   ── SandboxSetup, one JSON line ─→ what is the same for every command: its namespaces are made
//!           ── Plan, one JSON line ──→  kept open for the life of the command: when the daemon
//!                                       dies or lets go, everything inside is killed
//!   stdout  ←─ the command's stdout and stderr, in the order written
//!   stderr  ←─ Report, one JSON line: how the command ended, or which step of the set-up failed
//! ```
//!
//! Level `namespaces`, three processes: the launcher waits; its child is process 1 of a new pid
//! namespace, builds a new root (`mount_root`) and reaps; its grandchild gives up its rights
//! (`restrict`, `seccomp`) and becomes the shell. A fourth one stays outside (`host_secrets`): it says where the
//! plan's paths lead, and what is to be masked. Level `landlock`, two processes: the launcher
//! itself reaps, inside an outer Landlock domain that lets it kill all of the command's processes
//! and nothing else.
//!
//! A service ([`serve()`]) is a command that exchanges messages while it runs. Two of the pipes are sockets then:
//! stdout is its stdin and stdout, and what comes back on the launcher's stdin is its stderr.
//!
//! A command has a network of its own with nothing in it but a loopback. Where the plan has an [`NetworkExit`], the
//! launcher listens there before the command begins and sends the listener over its stderr, which is a socket:
//! what the command connects to is accepted by the daemon. No process of ours is inside, no path leads out, and
//! when the command ends its network is gone with the listener's last peer.
//!
//! The second line may come later: [`Ahead`] keeps one launcher that has read only the first line. It serves one command,
//! like any other.
//!
//! Where the daemon has control groups, each command enters its own (`cgroup`); its launcher does not.
//!
//! In addition to commands, [`compute()`] runs code of our own on hostile bytes, in a process that can do
//! nothing else (`pure`).

mod beneath;
mod cgroup;
mod compute;
mod detect;
mod disk_room;
mod host_secrets;
mod launcher;
mod memory;
mod mount_root;
mod network_exit;
mod output_cap;
mod prepared;
mod program;
mod read_only_guard;
mod restrict;
mod run;
mod seccomp;
mod service;
mod syscalls;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use beneath::{BeneathError, Entry, Existing, Found, Kind, Root, Target};
pub use cgroup::{has_control_groups, take_control_group};
pub use compute::{Limits, compute, compute_main, in_memory};
pub use detect::{level, probe};
pub use launcher::launcher_main;
pub use network_exit::{EXIT_PORT, NetworkExit};
pub use prepared::Ahead;
pub use program::Program;
pub use read_only_guard::will_write;
pub use run::{run, run_at, set_launcher};
pub use service::{Life, Service, serve, serve_at};

/// The hidden first argument with which a program of ours must call [`launcher_main`] before it
/// does anything else.
pub const LAUNCHER_ARG: &str = "__sandbox";

/// The oldest Landlock that is a sandbox by itself: ABI 6 (Linux 6.12) keeps signals and abstract
/// Unix sockets inside, see landlock(7).
const LANDLOCK_ALONE_ABI: u32 = 6;

/// What is between a command and the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Level {
    /// Own user, mount, pid, ipc, uts and network namespaces, with Landlock and seccomp inside.
    Namespaces,
    /// Landlock of this ABI and a stricter seccomp filter, where namespaces are forbidden.
    Landlock(u32),
    /// Neither is to be had: commands do not run. Carries why.
    Refused(String),
    /// The owner wrote `sandbox = "off"`.
    Off,
}

impl Level {
    /// Returns, in one sentence, what a hostile command could still do.
    pub fn remaining_risk(&self) -> &'static str {
        match self {
            Self::Namespaces => {
                "A command can read and change the workspace, read world-readable system files, use up CPU and memory within its limits, \
                 and attack the kernel through the system calls that are left; it reaches the hosts that the settings allow, and no others."
            }
            Self::Landlock(_) => {
                "A command can do what it could with namespaces, change the files that shape the agent and the modes of hidden files until it ends (then they are put back), and stat and touch hidden files without reading them; where the agent \
                 runs as root, it can so open other programs' files in /etc to a later command."
            }
            Self::Refused(_) => "None: commands do not run.",
            Self::Off => {
                "A command can do everything the agent's user can, including reading its secrets and memory."
            }
        }
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Namespaces => f.write_str("namespaces"),
            Self::Landlock(abi) => write!(f, "landlock {abi}"),
            Self::Refused(why) => write!(f, "refused: {why}"),
            Self::Off => f.write_str("off"),
        }
    }
}

/// One command and what it may touch.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Spec {
    /// What `/bin/sh -c` runs; at most 128 KiB (the kernel's limit of one argument).
    pub command: String,
    /// Where it starts; inside the workspace or a writable path.
    pub cwd: PathBuf,
    /// Read-write, at the same absolute path as outside.
    pub workspace: PathBuf,
    /// Further read-write paths from the configuration; missing ones, and those inside another or
    /// the workspace, are passed over.
    pub writable: Vec<PathBuf>,
    /// Paths that must not be visible, such as the user's home and the agent's. Of nested paths
    /// the deeper one decides: the workspace may lie in a hidden home, and `memory/` may be hidden
    /// in the workspace.
    pub hidden: Vec<PathBuf>,
    /// Files and directories that a command sees and cannot change, in the workspace or elsewhere.
    /// Missing ones and symlinks are passed over. At level `landlock` it can change those in the workspace:
    /// they are put back when it has ended.
    pub read_only: Vec<PathBuf>,
    /// Who serves [`EXIT_PORT`] of the private loopback, all there is of a network. Level `landlock` has
    /// neither; at level `off` the network is the machine's.
    #[serde(skip)]
    pub exit: Option<NetworkExit>,
    /// The whole environment; `TMPDIR` is set by the sandbox, and `HOME` where it is not among it.
    pub env: Vec<(String, String)>,
    /// Wall-clock time, set-up included.
    pub timeout: Duration,
    /// Bytes of output that are kept: the first 70 % and the last 30 %.
    pub max_output: usize,
    /// `sandbox = "off"` in the configuration: no walls, the limits remain.
    pub off: bool,
    /// Bytes that a command leaves free on the disk of its workspace, or it is killed; on a disk with less it may still
    /// write 64 MiB.
    #[serde(skip)]
    pub disk_reserve: u64,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It exited with this code, 0 to 255.
    Exited(i32),
    /// This signal ended it.
    Signaled(i32),
    /// Its processes together held too much memory and were killed.
    OutOfMemory,
    /// Less than [`Spec::disk_reserve`] was left on disk and it was killed.
    DiskFull,
    /// It ran longer than [`Spec::timeout`] and was killed.
    TimedOut,
    /// The caller's token was cancelled and it was killed.
    Cancelled,
}

/// What a command left behind. None of its processes is alive any more (level `off`: those that
/// stayed in its session).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// stdout and stderr in the order written, invalid UTF-8 replaced, with a marker between head
    /// and tail when something was left out.
    pub output: String,
    /// How it ended.
    pub status: Status,
    /// How many bytes were left out of `output`, if any.
    pub cut: Option<usize>,
    /// The path of [`Spec::read_only`] at which somebody put another file meanwhile: the command was ended.
    pub replaced: Option<PathBuf>,
    /// What it changed of [`Spec::read_only`], which is as before again.
    pub restored: Vec<PathBuf>,
}

/// Why a command did not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This machine offers no sandbox and the configuration does not waive it.
    #[error("exec is refused, no sandbox is available: {0}")]
    Refused(String),
    /// The launcher could not be started or spoken to.
    #[error("cannot start the sandbox launcher")]
    Start(#[source] std::io::Error),
    /// The launcher gave up before the command began.
    #[error("the sandbox could not be set up ({step}): {reason}")]
    Setup {
        /// What it was doing.
        step: String,
        /// What the kernel said.
        reason: String,
    },
    /// Somebody put another file where one is that a service must not change. It is to be ended.
    #[error("{} was replaced while it ran, and it could change the new file", .0.display())]
    Uncovered(PathBuf),
}

/// What the launcher is sent first: nothing of it is about the command.
#[derive(Debug, Serialize, Deserialize)]
struct SandboxSetup {
    walls: Walls,
    /// The control group that the command enters; without one the sum of its memory is watched.
    group: Option<PathBuf>,
}

/// What the launcher is sent then.
#[derive(Debug, Serialize, Deserialize)]
struct Plan {
    /// Those of the setup.
    walls: Walls,
    spec: Spec,
    /// What others may not read in the system directories that are shown.
    closed: Vec<PathBuf>,
    cpu_secs: u64,
    /// Whether it is talked to while it runs.
    service: bool,
    /// Whether the daemon is sent a listener of the command's network.
    exit: bool,
    /// Whether it only shows that the walls can be built: nobody looks through what it may write.
    trial: bool,
}

/// [`Level`] without `Refused`: what the launcher builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Walls {
    Namespaces,
    Landlock,
    Off,
}

/// What the launcher answers; the first one counts.
#[derive(Debug, Serialize, Deserialize)]
enum Report {
    Exited(i32),
    Signaled(i32),
    /// Its processes together held too much.
    OutOfMemory,
    Setup {
        step: String,
        reason: String,
    },
}

/// A step of the set-up that failed.
#[derive(Debug, Serialize, Deserialize)]
struct Failure {
    step: String,
    reason: String,
}

/// Names the step in which an error happened.
trait At<T> {
    fn at(self, step: &str) -> Result<T, Failure>;
}

impl<T, E: std::fmt::Display> At<T> for Result<T, E> {
    fn at(self, step: &str) -> Result<T, Failure> {
        self.map_err(|e| Failure {
            step: step.to_owned(),
            reason: e.to_string(),
        })
    }
}
