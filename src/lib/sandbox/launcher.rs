//! The launcher's side: from the plan on stdin to the shell, and its supervision.

use std::convert::Infallible;
use std::ffi::CString;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::{Mode, umask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{
    Pid, chdir, dup2_stderr, dup2_stdin, execve, getegid, geteuid, getpid, mkdtemp, sethostname,
    setsid,
};
use serde::de::DeserializeOwned;

use super::cgroup;
use super::host_secrets::Search;
use super::memory;
use super::mount_root;
use super::network_exit;
use super::restrict;
use super::restrict::Access;
use super::{At, Failure, Plan, Report, SandboxSetup, Walls, seccomp, syscalls};

/// The exit code of a launcher that reported a failed step. Nobody reads it.
const SETUP_FAILED: u8 = 125;

/// Becomes the command that the plan on stdin describes, behind its walls. Must be called before
/// any thread exists.
pub fn launcher_main() -> ExitCode {
    let mut pipes = match Pipes::take() {
        Ok(pipes) => pipes,
        Err(_) => return ExitCode::from(SETUP_FAILED),
    };
    match launch(&mut pipes) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { step, reason }) => {
            pipes.report(&Report::Setup { step, reason });
            ExitCode::from(SETUP_FAILED)
        }
    }
}

/// The two pipes that the command must not inherit; its own stdin, stdout and stderr are in place.
struct Pipes {
    /// The setup and the plan; then nothing until it closes.
    daemon: BufReader<File>,
    status: File,
    /// Where the command enters its control group.
    group: Option<File>,
}

impl Pipes {
    fn take() -> Result<Self, Failure> {
        syscalls::close_from(3).at("close descriptors")?;
        let step = "arrange the pipes";
        let daemon = BufReader::new(File::from(
            std::io::stdin().as_fd().try_clone_to_owned().at(step)?,
        ));
        let status = File::from(std::io::stderr().as_fd().try_clone_to_owned().at(step)?);
        let null = OpenOptions::new().read(true).open("/dev/null").at(step)?;
        dup2_stdin(null).at(step)?;
        dup2_stderr(std::io::stdout()).at(step)?;
        Ok(Self {
            daemon,
            status,
            group: None,
        })
    }

    fn line<T: DeserializeOwned>(&mut self) -> Result<T, Failure> {
        let mut line = String::new();
        self.daemon.read_line(&mut line).at("read the plan")?;
        serde_json::from_str(&line).at("read the plan")
    }

    fn setup(&mut self) -> Result<Walls, Failure> {
        let setup: SandboxSetup = self.line()?;
        self.group = setup.group.as_deref().and_then(cgroup::door);
        Ok(setup.walls)
    }

    /// Waits for the plan; when the daemon lets go before, that is a failure of which nobody hears.
    fn plan(&mut self, walls: Walls) -> Result<Plan, Failure> {
        let plan: Plan = self.line()?;
        if plan.walls != walls {
            return Err("not for these walls").at("read the plan");
        }
        if plan.service {
            // Both are sockets. A command that shuts the second one down ends only itself.
            let step = "arrange the sockets";
            dup2_stdin(std::io::stdout()).at(step)?;
            dup2_stderr(self.daemon.get_ref()).at(step)?;
        }
        Ok(plan)
    }

    fn report(&mut self, report: &Report) {
        // When nobody listens any more, nobody needs to know.
        if let Ok(mut line) = serde_json::to_vec(report) {
            line.push(b'\n');
            let _ = self.status.write_all(&line);
        }
    }
}

fn launch(pipes: &mut Pipes) -> Result<(), Failure> {
    let walls = pipes.setup()?;
    prefer_for_oom_kill();
    if walls == Walls::Off {
        let plan = pipes.plan(walls)?;
        return supervise(&plan, None, pipes);
    }
    // Before the namespaces: it sees the machine as the daemon does.
    let Some(search) = Search::begin()? else {
        return Ok(());
    };
    if walls == Walls::Namespaces {
        behind_namespaces(search, pipes)
    } else {
        let plan = pipes.plan(walls)?;
        let (paths, secrets) = search.look(&plan)?;
        prctl::set_dumpable(false).at("close the launcher's memory")?;
        let tmp = TemporaryDir::make()?;
        let access = Access::in_host_root(&paths, secrets, tmp.0.clone())?;
        restrict::keep_signals_inside()?;
        supervise(&plan, Some(&access), pipes)
    }
}

/// Makes what is the same for every command, waits for the plan, and becomes it.
fn behind_namespaces(search: Search, pipes: &mut Pipes) -> Result<(), Failure> {
    enter_namespaces()?;
    if let Some(init) = syscalls::fork().at("fork")? {
        drop(search);
        return wait_for(init);
    }
    prctl::set_pdeathsig(Signal::SIGKILL).at("tie to the launcher")?;
    if getpid() != Pid::from_raw(1) {
        // Or the kill(-1) of the end would reach the whole machine.
        return Err("not process 1").at("make namespaces");
    }
    let machine = mount_root::Machine::take()?;
    let plan = pipes.plan(Walls::Namespaces)?;
    let (paths, secrets) = search.look(&plan)?;
    if plan.exit {
        network_exit::send_listener(&pipes.status)?;
    }
    mount_root::build(&plan, &paths, machine, secrets)?;
    syscalls::drop_capabilities().at("drop capabilities")?;
    supervise(&plan, Some(&Access::in_new_root(paths)), pipes)
}

fn enter_namespaces() -> Result<(), Failure> {
    let (uid, gid) = (geteuid(), getegid());
    let flags = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWNET;
    unshare(flags).at("make namespaces")?;
    // The same ids as outside, so that files in the workspace keep their owner.
    write("/proc/self/setgroups", "deny").at("deny setgroups")?;
    write("/proc/self/uid_map", &format!("{uid} {uid} 1")).at("map the user")?;
    write("/proc/self/gid_map", &format!("{gid} {gid} 1")).at("map the group")?;
    // After the maps: a process that is not dumpable may not write its own.
    prctl::set_dumpable(false).at("close the launcher's memory")?;
    sethostname("sandbox").at("name the host")?;
    // Programs that talk to themselves want it, and the proxy is reached there.
    let _ = syscalls::loopback_up();
    Ok(())
}

/// When memory runs out the command goes, not the daemon.
fn prefer_for_oom_kill() {
    let _ = write("/proc/self/oom_score_adj", "500");
}

fn write(path: &str, text: &str) -> std::io::Result<()> {
    OpenOptions::new()
        .write(true)
        .open(path)?
        .write_all(text.as_bytes())
}

fn wait_for(child: Pid) -> Result<(), Failure> {
    loop {
        match waitpid(child, None) {
            Err(Errno::EINTR) => {}
            result => return result.map(drop).at("wait"),
        }
    }
}

/// Starts the command with no more than this access, reaps until it ends or the daemon lets go, reports, and kills what is left.
fn supervise(plan: &Plan, access: Option<&Access>, pipes: &mut Pipes) -> Result<(), Failure> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGCHLD);
    signals.thread_block().at("block signals")?;
    let children = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC).at("watch children")?;
    let Some(command) = syscalls::fork().at("fork")? else {
        let Err(failure) = become_command(plan, access, pipes.group.as_ref());
        return Err(failure);
    };
    // Without walls it may signal, and would count, everything of the user.
    let is_watched = pipes.group.is_none() && plan.walls != Walls::Off;
    let memory = is_watched.then(memory::Watch::new);
    let report = watch(command, &children, pipes, memory);
    match plan.walls {
        // Only what is inside is in reach: as process 1 of the namespace, as the outer domain.
        Walls::Namespaces | Walls::Landlock => drop(kill(Pid::from_raw(-1), Signal::SIGKILL)),
        Walls::Off => drop(kill(Pid::from_raw(-command.as_raw()), Signal::SIGKILL)),
    }
    while waitpid(None, None).is_ok_and(|_| true) {}
    if let Some(report) = report {
        pipes.report(&report);
    }
    Ok(())
}

/// Returns how `command` ended, or nothing when the daemon was first to go.
fn watch(
    command: Pid,
    children: &SignalFd,
    pipes: &Pipes,
    mut memory: Option<memory::Watch>,
) -> Option<Report> {
    loop {
        let pause = match &mut memory {
            None => PollTimeout::NONE,
            Some(memory) => match memory.look() {
                None => return Some(Report::OutOfMemory),
                Some(pause) => PollTimeout::try_from(pause).unwrap_or(PollTimeout::MAX),
            },
        };
        let mut fds = [
            PollFd::new(children.as_fd(), PollFlags::POLLIN),
            PollFd::new(pipes.daemon.get_ref().as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut fds, pause) {
            Ok(0) | Err(Errno::EINTR) => continue,
            Err(_) => return None,
            Ok(_) => {}
        }
        // The daemon writes nothing after the plan: whatever happens there is its end.
        if fds[1].any().unwrap_or(true) {
            return None;
        }
        let _ = children.read_signal();
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            match status {
                WaitStatus::Exited(pid, code) if pid == command => {
                    return Some(Report::Exited(code));
                }
                WaitStatus::Signaled(pid, signal, _) if pid == command => {
                    return Some(Report::Signaled(signal as i32));
                }
                WaitStatus::StillAlive => break,
                _ => {}
            }
        }
    }
}

/// Gives up every right that is not the command's and executes the shell.
fn become_command(
    plan: &Plan,
    access: Option<&Access>,
    group: Option<&File>,
) -> Result<Infallible, Failure> {
    group
        .map_or(Ok(()), cgroup::enter)
        .at("enter the control group")?;
    // No terminal, and a process group that level `off` can kill.
    setsid().at("start a session")?;
    prctl::set_pdeathsig(Signal::SIGKILL).at("tie to the launcher")?;
    syscalls::default_signals();
    SigSet::empty().thread_set_mask().at("unblock signals")?;
    umask(Mode::from_bits_truncate(0o022));
    chdir(&plan.spec.cwd).at(&format!("enter {}", plan.spec.cwd.display()))?;
    restrict::limits(plan)?;
    let (shell, arguments, environment) = (
        c"/bin/sh",
        [c"sh".into(), c"-c".into(), c_string(&plan.spec.command)?],
        environment(plan, access)?,
    );
    if let Some(access) = access {
        prctl::set_no_new_privs().at("give up new privileges")?;
        restrict::landlock(plan, access)?;
        syscalls::drop_capabilities().at("drop capabilities")?;
    }
    syscalls::close_on_exec_from(3).at("close descriptors")?;
    seccomp::apply(plan)?;
    execve(shell, &arguments, &environment).at("start /bin/sh")
}

fn environment(plan: &Plan, access: Option<&Access>) -> Result<Vec<CString>, Failure> {
    let tmp = access
        .map_or(Path::new("/tmp"), |access| &access.tmp)
        .to_string_lossy();
    let given = plan
        .spec
        .env
        .iter()
        .filter(|(name, _)| name != "TMPDIR")
        .map(|(name, value)| c_string(&format!("{name}={value}")));
    // Programs without a home look for the user's, which is not there, and many give up (npm). It ends with the
    // command: nothing that a page planted in a dot file is read by the next one.
    let has_home = plan.spec.env.iter().any(|(name, _)| name == "HOME");
    let home = (!has_home).then(|| c_string(&format!("HOME={tmp}")));
    given
        .chain([c_string(&format!("TMPDIR={tmp}"))])
        .chain(home)
        .collect()
}

fn c_string(text: &str) -> Result<CString, Failure> {
    CString::new(text).at("read the plan")
}

/// The TMPDIR of level `landlock`; removed with everything in it.
struct TemporaryDir(PathBuf);

impl TemporaryDir {
    fn make() -> Result<Self, Failure> {
        mkdtemp("/tmp/agent-exec-XXXXXX")
            .at("make a TMPDIR")
            .map(Self)
    }
}

impl Drop for TemporaryDir {
    fn drop(&mut self) {
        if std::fs::remove_dir_all(&self.0).is_err() {
            // A command can close its directories to itself, and so to us.
            open_up(&self.0);
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// Gives the user every directory at and below `dir`. Nobody else is at work there any more.
fn open_up(dir: &Path) {
    let _ = std::fs::set_permissions(dir, Permissions::from_mode(0o700));
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}
