//! A control group (version 2, cgroups(7)) for each command: the kernel limits the memory and the number of all its
//! processes together, and ends them at once.
//!
//! It needs a delegated part of the tree, which the daemon gets by `Delegate=memory pids` of its unit:
//!
//! ```text
//! /sys/fs/cgroup/…/agent-daemon.service/   hands its controllers down, and so may hold no process itself
//!   daemon/       the daemon and its launchers
//!   command-7/    one command; gone when it is over, or with the next one when a process was slow to die
//! ```
//!
//! Elsewhere (version 1, a terminal, most containers) there is none, and `memory` monitors the total.

use std::fs;
use std::fs::{File, OpenOptions};
use std::io;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::signal::Signal;
use parking_lot::Mutex;

use super::mount_root::MAX_PROCESSES;
use super::{Status, memory};

const MOUNTED_AT: &str = "/sys/fs/cgroup";
const DAEMON: &str = "daemon";
const COMMAND: &str = "command-";
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// What makes a group and what removes one. The files in it are the kernel's.
#[derive(Debug, Clone, Copy)]
struct Kernel {
    make: fn(&Path) -> io::Result<()>,
    remove: fn(&Path) -> io::Result<()>,
}

const REAL: Kernel = Kernel {
    make: |dir| fs::create_dir(dir),
    remove: |dir| fs::remove_dir(dir),
};

static TREE: OnceLock<Tree> = OnceLock::new();

/// Groups of which a process was not quite dead when they were to go.
static LEFT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Gives each command from now on a control group of its own, if this process has a part of the tree for itself, and
/// moves this process into a separate group there. Returns whether it did.
pub fn take_control_group() -> bool {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let tree = group_of(&own).and_then(|dir| Tree::take(&dir, std::process::id(), REAL));
    tree.is_some_and(|tree| TREE.set(tree).is_ok())
}

/// Returns whether the commands of the daemon with this id have control groups of their own.
pub fn has_control_groups(pid: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    group_of(&text).is_some_and(|dir| divided(&dir).is_some())
}

/// Returns the directory of the version 2 group in a `/proc/PID/cgroup`.
fn group_of(text: &str) -> Option<PathBuf> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(MOUNTED_AT).join(path))
}

/// Returns the part of the tree of which `dir` is the daemon's group.
fn divided(dir: &Path) -> Option<&Path> {
    let parent = dir.parent().filter(|_| dir.ends_with(DAEMON))?;
    lists(&parent.join("cgroup.subtree_control")).then_some(parent)
}

/// Returns whether a file names the controllers that are needed.
fn lists(file: &Path) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    let is_there = |name: &&str| text.split_whitespace().any(|word| word == *name);
    CONTROLLERS.iter().all(is_there)
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .open(file)?
        .write_all(text.as_bytes())
}

/// The part of the tree that is the daemon's.
#[derive(Debug)]
struct Tree {
    dir: PathBuf,
    kernel: Kernel,
}

impl Tree {
    /// Returns the part in which the process `pid`, this one, has the group `own`.
    fn take(own: &Path, pid: u32, kernel: Kernel) -> Option<Self> {
        // A daemon that was restarted in place finds what the last one made.
        let dir = divided(own).unwrap_or(own).to_owned();
        let tree = Self { dir, kernel };
        let is_again = tree.dir != own;
        if !is_again {
            // With others in it, it is a session's or a container's, and not ours to divide.
            let procs = fs::read_to_string(own.join("cgroup.procs")).ok()?;
            let is_alone = procs.trim() == pid.to_string();
            if !is_alone || !lists(&own.join("cgroup.controllers")) || tree.divide().is_err() {
                return None;
            }
        }
        tree.clear();
        // A group that cannot be made now cannot be made later.
        let first = Group::new(&tree);
        if first.is_none() && !is_again {
            tree.join();
        }
        first.map(|_| tree)
    }

    /// Moves this process one level down and lets the groups next to it be bounded.
    fn divide(&self) -> io::Result<()> {
        let daemon = self.dir.join(DAEMON);
        match (self.kernel.make)(&daemon) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => write(&daemon.join("cgroup.procs"), "0")?,
        }
        let divided = write(&self.dir.join("cgroup.subtree_control"), "+memory +pids");
        if divided.is_err() {
            self.join();
        }
        divided
    }

    /// Undoes [`Self::divide`].
    fn join(&self) {
        let _ = write(&self.dir.join("cgroup.subtree_control"), "-memory -pids");
        let _ = write(&self.dir.join("cgroup.procs"), "0");
        let _ = (self.kernel.remove)(&self.dir.join(DAEMON));
    }

    /// Ends what a daemon that died left in its commands' groups.
    fn clear(&self) {
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(COMMAND) {
                drop(Group {
                    dir: entry.path(),
                    kernel: self.kernel,
                });
            }
        }
    }
}

/// The group of one command. When it is dropped, everything in it is killed and the group goes.
#[derive(Debug)]
pub(super) struct Group {
    dir: PathBuf,
    kernel: Kernel,
}

impl Group {
    /// Returns a new one with its bounds, where there are control groups.
    pub(super) async fn of_command() -> Option<Self> {
        let tree = TREE.get()?;
        crate::sys::blocking(|| Self::new(tree)).await
    }

    fn new(tree: &Tree) -> Option<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // A restart in place has the process id of before: the number of a group that is still there is passed over.
        let name = format!("{COMMAND}{}-{number}", std::process::id());
        let dir = tree.dir.join(name);
        (tree.kernel.make)(&dir).ok()?;
        let kernel = tree.kernel;
        let group = Self { dir, kernel };
        let set = |name: &str, value: &str| write(&group.dir.join(name), value);
        // Without swap in the kernel there is no such file.
        let _ = set("memory.swap.max", "0");
        let bounds = set("memory.max", &memory::limit().to_string())
            .and_then(|()| set("memory.oom.group", "1"))
            .and_then(|()| set("pids.max", &MAX_PROCESSES.to_string()));
        bounds.is_ok().then_some(group)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Kills everything in it, whatever session or process group it has put itself into.
    pub(super) fn kill(&self) {
        let _ = write(&self.dir.join("cgroup.kill"), "1");
    }

    /// Returns what ended the command, which the kernel's kill alone does not say.
    pub(super) fn explain(&self, status: Status) -> Status {
        if status != Status::Signaled(Signal::SIGKILL as i32) {
            return status;
        }
        let events = fs::read_to_string(self.dir.join("memory.events")).unwrap_or_default();
        let killed = events
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill "));
        let killed = killed.and_then(|count| count.trim().parse::<u64>().ok());
        if killed.is_some_and(|count| count > 0) {
            Status::OutOfMemory
        } else {
            status
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        let mut left = LEFT.lock();
        left.push(std::mem::take(&mut self.dir));
        left.retain(|dir| {
            (self.kernel.remove)(dir).is_err_and(|error| error.kind() != io::ErrorKind::NotFound)
        });
    }
}

/// Returns the door of a group, through which only [`enter`] leads: it can be opened where the new root has no such path.
pub(super) fn door(dir: &Path) -> Option<File> {
    let file = dir.join("cgroup.procs");
    OpenOptions::new().write(true).open(file).ok()
}

/// Puts this process into a group.
pub(super) fn enter(mut door: &File) -> io::Result<()> {
    door.write_all(b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a group as the kernel does, with its files.
    fn make(dir: &Path) -> io::Result<()> {
        fs::create_dir(dir)?;
        for name in [
            "cgroup.procs",
            "cgroup.kill",
            "memory.max",
            "memory.swap.max",
            "memory.oom.group",
            "pids.max",
        ] {
            File::create_new(dir.join(name))?;
        }
        Ok(())
    }

    fn make_without_bounds(dir: &Path) -> io::Result<()> {
        make(dir)?;
        fs::remove_file(dir.join("pids.max"))
    }

    const FAKE: Kernel = Kernel {
        make,
        remove: |dir| fs::remove_dir_all(dir),
    };

    /// Returns a group with these controllers and processes.
    fn delegated(controllers: &str, procs: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in [
            ("cgroup.controllers", controllers),
            ("cgroup.procs", procs),
            ("cgroup.subtree_control", ""),
        ] {
            let mut file = File::create_new(dir.path().join(name)).expect("a file");
            file.write_all(text.as_bytes()).expect("written");
        }
        dir
    }

    fn read(dir: &Path, name: &str) -> String {
        fs::read_to_string(dir.join(name)).expect(name)
    }

    /// Returns the groups below one.
    fn below(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).expect("a group").flatten();
        entries
            .filter(|entry| entry.path().is_dir())
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn a_delegated_group_is_divided_and_each_command_gets_a_bounded_one() {
        let dir = delegated("cpu memory pids\n", "77\n");
        make(&dir.path().join("command-5-0")).expect("what a daemon that died left");
        let tree = Tree::take(dir.path(), 77, FAKE).expect("it is ours");
        assert_eq!(below(dir.path()), [DAEMON]);
        assert_eq!(read(dir.path(), "daemon/cgroup.procs"), "0");
        assert_eq!(read(dir.path(), "cgroup.subtree_control"), "+memory +pids");

        let group = Group::new(&tree).expect("a group");
        assert_eq!(read(group.dir(), "memory.max"), memory::limit().to_string());
        assert_eq!(read(group.dir(), "memory.swap.max"), "0");
        assert_eq!(read(group.dir(), "memory.oom.group"), "1");
        assert_eq!(read(group.dir(), "pids.max"), "1024");
        enter(&door(group.dir()).expect("a door")).expect("entered");
        assert_eq!(read(group.dir(), "cgroup.procs"), "0");
        group.kill();
        assert_eq!(read(group.dir(), "cgroup.kill"), "1");
        drop(group);
        assert_eq!(below(dir.path()), [DAEMON]);
    }

    #[test]
    fn what_the_kernel_killed_for_memory_is_told_as_that_and_nothing_else_is() {
        let dir = delegated("memory pids", "77");
        let tree = Tree::take(dir.path(), 77, FAKE).expect("it is ours");
        let group = Group::new(&tree).expect("a group");
        let events = |text: &str| {
            let file = group.dir().join("memory.events");
            let _ = fs::remove_file(&file);
            let mut file = File::create_new(file).expect("a file");
            file.write_all(text.as_bytes()).expect("written");
        };
        let killed = Status::Signaled(9);
        assert_eq!(group.explain(killed), killed);
        events("low 0\nmax 12\noom 1\noom_kill 0\noom_group_kill 0\n");
        assert_eq!(group.explain(killed), killed);
        events("low 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 1\n");
        assert_eq!(group.explain(killed), Status::OutOfMemory);
        assert_eq!(group.explain(Status::Exited(1)), Status::Exited(1));
        assert_eq!(group.explain(Status::TimedOut), Status::TimedOut);
    }

    #[test]
    fn a_restart_in_place_finds_the_groups_of_before() {
        let dir = delegated("memory pids", "");
        make(&dir.path().join(DAEMON)).expect("a group");
        write(&dir.path().join("cgroup.subtree_control"), "memory pids").expect("written");
        let own = dir.path().join(DAEMON);
        let tree = Tree::take(&own, 77, FAKE).expect("it is ours");
        assert_eq!(tree.dir, dir.path());
        assert_eq!(below(dir.path()), [DAEMON]);
    }

    #[test]
    fn what_is_not_ours_alone_or_has_no_bounds_is_left_as_it_was() {
        let check = |what: &str, controllers: &str, procs: &str, kernel: Kernel| {
            let dir = delegated(controllers, procs);
            assert!(Tree::take(dir.path(), 77, kernel).is_none(), "{what}");
            assert_eq!(below(dir.path()), [] as [&str; 0], "{what}");
            dir
        };
        check("others are in it", "memory pids", "12\n77\n", FAKE);
        check("somebody else's", "memory pids", "12\n", FAKE);
        check("no memory", "cpu pids", "77\n", FAKE);
        check("version 1 has the controllers", "", "77\n", FAKE);
        let refuses = Kernel {
            make: |_| Err(io::ErrorKind::PermissionDenied.into()),
            ..FAKE
        };
        check("not writable", "memory pids", "77\n", refuses);
        let old = Kernel {
            make: make_without_bounds,
            ..FAKE
        };
        let dir = check("no such bound", "memory pids", "77\n", old);
        assert!(read(dir.path(), "cgroup.procs").starts_with('0'), "back");
    }

    #[test]
    fn the_group_is_the_one_of_version_2() {
        let both = "3:memory:/a\n0::/system.slice/agent-daemon.service\n";
        let expected = Path::new("/sys/fs/cgroup/system.slice/agent-daemon.service");
        assert_eq!(group_of(both).as_deref(), Some(expected));
        assert_eq!(group_of("3:memory:/a\n"), None);
    }
}
