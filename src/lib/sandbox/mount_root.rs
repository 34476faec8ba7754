//! Builds the file system that a command sees at level `namespaces`, out of nothing:
//!
//! ```text
//! /usr /bin /lib… /etc /opt   the host's, read-only; what others may not read is masked
//! /dev /proc                  harmless devices; only the processes inside
//! /tmp /dev/shm               empty, of bounded size
//! workspace, writable         the host's, read-write, at the same absolute path
//! hidden                      where it would be visible at all: a directory is empty, a file cannot be opened
//! /run, /var, …               nothing
//! ```
//!
//! Everything of the host is taken as detached copies of mounts before the root changes and put in
//! place after it, when the host's tree is gone: no symlink can lead a mount astray.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{chdir, pivot_root};
use serde::{Deserialize, Serialize};

use super::host_secrets::Secrets;
use super::syscalls;
use super::syscalls::{NO_DEVICES, NO_SUID, READ_ONLY};
use super::{At, Failure, Plan};

/// What of the host is shown, where it exists. Not `/nix` whole: its daemon's socket builds
/// packages, with network, for a client that connects.
pub(super) const SYSTEM: [&str; 11] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/gnu/store",
];

/// Devices that keep nothing and control nothing.
pub(super) const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// Files in `/proc` that tell root about the machine's memory and keys. `/proc` is read-only as a
/// whole: user 0 may write sysctls such as `core_pattern` without any capability.
const PROC_MASKED: [&str; 9] = [
    "kcore",
    "kmsg",
    "keys",
    "kpagecount",
    "kpageflags",
    "kpagecgroup",
    "timer_list",
    "vmallocinfo",
    "slabinfo",
];

const FORBIDDEN_WRITABLE: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Where a file is made that is put over a hidden one.
const COVER: &str = "/.cover";

/// Processes and threads of a command.
pub(super) const MAX_PROCESSES: u64 = 1024;

/// The Linux in which a pid namespace has a `pid_max` of its own.
const OWN_PID_MAX: (u32, u32) = (6, 14);

const TMP_OPTIONS: &str = "mode=1777,size=512m,nr_inodes=200k";
/// A file for each that is closed to a command.
const EMPTY_OPTIONS: &str = "mode=755,size=1m,nr_inodes=64k";

/// The paths of a [`super::Spec`] as the kernel sees them: absolute, without symlinks, existing.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Paths {
    /// The workspace first, then the writable paths outside it and each other.
    pub(super) writable: Vec<PathBuf>,
    pub(super) hidden: Vec<PathBuf>,
    pub(super) read_only: Vec<PathBuf>,
}

/// The paths of a [`super::Spec`] as they are written there.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Named {
    workspace: PathBuf,
    writable: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
    read_only: Vec<PathBuf>,
    /// See [`Plan::closed`].
    pub(super) closed: Vec<PathBuf>,
    /// See [`Plan::trial`].
    pub(super) trial: bool,
}

impl Named {
    pub(super) fn of(plan: &Plan) -> Self {
        let spec = &plan.spec;
        Self {
            closed: plan.closed.clone(),
            trial: plan.trial,
            workspace: spec.workspace.clone(),
            writable: spec.writable.clone(),
            hidden: spec.hidden.clone(),
            read_only: spec.read_only.clone(),
        }
    }
}

impl Paths {
    /// Resolves what is named.
    pub(super) fn resolve(named: &Named) -> Result<Self, Failure> {
        // The home of a user who has none may be "/"; hiding that would leave no shell.
        let hidden = named
            .hidden
            .iter()
            .filter_map(|path| path.canonicalize().ok())
            .filter(|path| path.parent().is_some());
        let hidden: Vec<PathBuf> = hidden.collect();
        let mut writable = vec![named.workspace.canonicalize().at("find the workspace")?];
        // A command may have put a symlink where a path of the configuration was, inside what it may
        // change: following it would grant what it points to.
        let bases: Vec<PathBuf> = named
            .writable
            .iter()
            .chain([&named.workspace])
            .filter_map(|path| path.canonicalize().ok())
            .collect();
        let is_in_base = |path: PathBuf| bases.iter().any(|base| path.starts_with(base));
        let could_be_planted = |path: &Path| {
            path.ancestors()
                .skip(1)
                .any(|above| above.canonicalize().is_ok_and(is_in_base))
        };
        let outside = named
            .writable
            .iter()
            .filter(|path| !could_be_planted(path))
            .filter_map(|path| path.canonicalize().ok());
        writable.extend(outside.filter(|path| !hidden.contains(path)));
        for path in &writable {
            if path.parent().is_none()
                || FORBIDDEN_WRITABLE.iter().any(|root| path.starts_with(root))
                || hidden.contains(path)
            {
                return Err(format!("{} cannot be made writable", path.display()))
                    .at("check the paths");
            }
        }
        let real = |path: &&PathBuf| path.symlink_metadata().is_ok_and(|meta| !meta.is_symlink());
        let read_only = named
            .read_only
            .iter()
            .filter(real)
            .filter_map(|path| path.canonicalize().ok())
            .collect();
        Ok(Self {
            writable,
            hidden,
            read_only,
        })
    }
}

/// The part of the machine that every command sees, taken before anything is known of one.
pub(super) struct Machine {
    system: Vec<Part>,
    devices: Vec<Part>,
}

impl Machine {
    /// Takes it, and cuts this mount namespace off from the machine's.
    pub(super) fn take() -> Result<Self, Failure> {
        mount(
            None::<&str>,
            "/",
            None::<&str>,
            MsFlags::MS_REC | MsFlags::MS_SLAVE,
            None::<&str>,
        )
        .at("detach the mounts")?;
        let devices = DEVICES
            .iter()
            .map(|path| Part::copy(Path::new(path), NO_SUID | READ_ONLY))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            system: system_parts()?,
            devices,
        })
    }
}

/// Replaces the root of this mount namespace, masking the `secrets`. Afterwards the working
/// directory is the new root.
pub(super) fn build(
    plan: &Plan,
    paths: &Paths,
    machine: Machine,
    secrets: Secrets,
) -> Result<(), Failure> {
    let writable = paths
        .writable
        .iter()
        .map(|path| Part::copy(path, NO_SUID | NO_DEVICES));
    let read_only = paths
        .read_only
        .iter()
        .map(|path| Part::copy(path, NO_SUID | NO_DEVICES | READ_ONLY));
    let shown = writable.chain(read_only).collect::<Result<Vec<_>, _>>()?;

    enter_empty_root()?;
    let Machine { system, devices } = machine;
    for part in system.into_iter().chain(devices) {
        part.place()?;
    }
    temporary_directories()?;
    links();
    mask_proc();
    let mut covers = Vec::new();
    for layer in layers(shown, paths, secrets.finish()?) {
        match layer {
            Layer::Show(part) => part.place()?,
            Layer::Hide(path) => covers.extend(hide(&path)?),
        }
    }
    // The workspace may be named by a path with symlinks in it.
    if fs::symlink_metadata(&plan.spec.workspace).is_err() {
        make_parent(&plan.spec.workspace)?;
        symlink(&paths.writable[0], &plan.spec.workspace).at("name the workspace")?;
    }
    for cover in &covers {
        syscalls::set_read_only(cover).at("close a hidden directory")?;
    }
    syscalls::set_read_only(Path::new("/")).at("close the root")
}

/// Something of the host and the place where it will be.
enum Part {
    Copy {
        mounts: OwnedFd,
        is_dir: bool,
        path: PathBuf,
    },
    Link {
        target: PathBuf,
        path: PathBuf,
    },
}

impl Part {
    fn copy(path: &Path, flags: u64) -> Result<Self, Failure> {
        let step = || format!("copy {}", path.display());
        let is_dir = fs::symlink_metadata(path).at(&step())?.is_dir();
        let mounts = syscalls::clone_mounts(path).at(&step())?;
        syscalls::set_mount_flags(&mounts, flags).at(&step())?;
        Ok(Self::Copy {
            mounts,
            is_dir,
            path: path.to_owned(),
        })
    }

    /// Puts it in its place, where it stays.
    fn place(self) -> Result<(), Failure> {
        match self {
            Self::Link { target, path } => {
                make_parent(&path)?;
                symlink(&target, &path).at(&format!("link {}", path.display()))
            }
            Self::Copy {
                mounts,
                is_dir,
                path,
            } => {
                let step = || format!("place {}", path.display());
                if is_dir {
                    fs::create_dir_all(&path).at(&step())?;
                } else if fs::symlink_metadata(&path).is_err() {
                    make_parent(&path)?;
                    fs::OpenOptions::new()
                        .write(true)
                        .create_new(true)
                        .open(&path)
                        .at(&step())?;
                }
                syscalls::attach_mounts(&mounts, &path).at(&step())
            }
        }
    }
}

/// A rule of the plan that lies over the system directories.
enum Layer {
    Show(Part),
    Hide(PathBuf),
}

fn system_parts() -> Result<Vec<Part>, Failure> {
    let mut parts = Vec::new();
    for path in SYSTEM.map(PathBuf::from) {
        let Ok(meta) = fs::symlink_metadata(&path) else {
            continue;
        };
        parts.push(if meta.is_symlink() {
            Part::Link {
                target: fs::read_link(&path).at("read a system link")?,
                path,
            }
        } else {
            Part::copy(&path, NO_SUID | NO_DEVICES | READ_ONLY)?
        });
    }
    Ok(parts)
}

/// Returns what is shown and hidden, shallow before deep, so that the deeper rule is on top.
fn layers(shown: Vec<Part>, paths: &Paths, secrets: Vec<PathBuf>) -> Vec<Layer> {
    let hidden = secrets
        .into_iter()
        .chain(paths.hidden.iter().cloned())
        .map(Layer::Hide);
    let mut layers: Vec<Layer> = shown.into_iter().map(Layer::Show).chain(hidden).collect();
    layers.sort_by_key(|layer| match layer {
        Layer::Hide(path) | Layer::Show(Part::Copy { path, .. } | Part::Link { path, .. }) => {
            path.components().count()
        }
    });
    layers
}

/// Makes an empty file system, with `/proc`, the root and forgets the host's.
fn enter_empty_root() -> Result<(), Failure> {
    const STAGE: &str = "/tmp";
    mount_tmpfs(STAGE, EMPTY_OPTIONS)?;
    chdir(STAGE).at("enter the new root")?;
    fs::create_dir("proc").at("make /proc")?;
    // Before the host's tree goes: the kernel gives a new /proc only to who sees a whole one. Where
    // it does not (in a container that masks parts of its own), the command has an empty /proc,
    // for the host's would show the host's processes.
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    match mount(Some("proc"), "proc", Some("proc"), flags, None::<&str>) {
        Ok(()) => {
            bound_processes();
            syscalls::set_read_only(Path::new("proc")).at("close /proc")?;
        }
        Err(e) => tracing::debug!(error = %e, "no /proc in the sandbox"),
    }
    pivot_root(".", ".").at("change the root")?;
    // Both roots are at "/" now; the host's is on top (pivot_root(2), NOTES).
    umount2(".", MntFlags::MNT_DETACH).at("forget the host's root")?;
    chdir("/").at("enter the new root")
}

/// Bounds how many processes and threads the command may have at once: RLIMIT_NPROC does not bind user 0.
/// Where the kernel cannot, that limit is all there is.
fn bound_processes() {
    // Before, there was one for the whole machine, and user 0 could have written it from here.
    let release = fs::read_to_string("proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse::<u32>().unwrap_or(0));
    if (numbers.next(), numbers.next()) >= (Some(OWN_PID_MAX.0), Some(OWN_PID_MAX.1)) {
        let file = fs::OpenOptions::new()
            .write(true)
            .open("proc/sys/kernel/pid_max");
        let _ = file.and_then(|mut file| {
            std::io::Write::write_all(&mut file, MAX_PROCESSES.to_string().as_bytes())
        });
    }
}

fn temporary_directories() -> Result<(), Failure> {
    for path in ["/tmp", "/dev/shm"] {
        fs::create_dir_all(path).at(&format!("make {path}"))?;
        mount_tmpfs(path, TMP_OPTIONS)?;
    }
    for path in ["/run", "/var", "/home"] {
        fs::create_dir_all(path).at(&format!("make {path}"))?;
    }
    Ok(())
}

fn links() {
    for (path, target) in [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
        ("/var/tmp", "/tmp"),
        ("/var/run", "/run"),
    ] {
        // Nothing of the host can be there; a missing convenience would stop nothing.
        let _ = symlink(target, path);
    }
}

fn mask_proc() {
    for name in PROC_MASKED {
        let path = Path::new("/proc").join(name);
        if path.exists() {
            let _ = cover_file(&path);
        }
    }
}

/// Hides what is at `path`, if anything is. Returns the path when it is now an empty directory,
/// writable until all mounts are in place.
fn hide(path: &Path) -> Result<Option<PathBuf>, Failure> {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return Ok(None);
    };
    if meta.is_dir() {
        mount_tmpfs(path, EMPTY_OPTIONS)?;
        return Ok(Some(path.to_owned()));
    }
    match cover_file(path) {
        // Gone since.
        Err(_) if fs::symlink_metadata(path).is_err() => {}
        covered => covered.at(&format!("hide {}", path.display()))?,
    }
    Ok(None)
}

/// Puts a file over `path` that nobody may open, of the same length: a program gets an error instead of an empty file.
fn cover_file(path: &Path) -> std::io::Result<()> {
    let length = fs::symlink_metadata(path).map_or(0, |meta| meta.len());
    let mut options = fs::OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o000);
    // A file of holes takes no memory; what is longer than one can be is as long as it may.
    let _ = options.open(COVER)?.set_len(length);
    let covered = syscalls::clone_mounts(Path::new(COVER)).and_then(|mounts| {
        syscalls::set_mount_flags(&mounts, NO_SUID | NO_DEVICES | READ_ONLY)?;
        syscalls::attach_mounts(&mounts, path)
    });
    fs::remove_file(COVER)?;
    Ok(covered?)
}

fn mount_tmpfs(path: impl AsRef<Path>, options: &str) -> Result<(), Failure> {
    let path = path.as_ref();
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), path, Some("tmpfs"), flags, Some(options))
        .at(&format!("mount an empty {}", path.display()))
}

fn make_parent(path: &Path) -> Result<(), Failure> {
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .at(&format!("make room for {}", path.display()))
}
