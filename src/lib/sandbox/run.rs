//! The daemon's side of a command: starts the launcher, collects the output, keeps the time.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::cgroup::Group;
use super::disk_room::DiskRoom;
use super::output_cap::HeadTailBuffer;
use super::read_only_guard::ReadOnlyGuard;
use super::{
    Error, LAUNCHER_ARG, Level, Outcome, Plan, Report, SandboxSetup, Spec, Status, Walls, detect,
    host_secrets, network_exit,
};

/// How long the launcher has to kill and reap everything.
pub(super) const KILL_GRACE: Duration = Duration::from_millis(700);

/// How long output is still taken after the end. Only at level `off` can a process be left that
/// holds the pipe open.
const DRAIN: Duration = Duration::from_millis(100);

/// More than a report ever has; a launcher that says more is broken.
pub(super) const MAX_REPORT: u64 = 16 * 1024;

static LAUNCHER: OnceLock<PathBuf> = OnceLock::new();

/// Takes another program as the launcher than the running one, for tests. The first call counts.
pub fn set_launcher(program: PathBuf) {
    let _ = LAUNCHER.set(program);
}

/// Returns the program to start: the running one, also after its file was replaced or removed.
pub(super) fn launcher() -> &'static Path {
    LAUNCHER
        .get()
        .map_or(Path::new("/proc/self/exe"), PathBuf::as_path)
}

/// Runs a command at the best level this machine has and returns when all of it is over.
/// `on_output` is given every piece of output as it comes, also what [`Outcome`] leaves out.
///
/// When the future is dropped, the command and everything it started is killed.
///
/// # Errors
/// When there is no sandbox ([`Error::Refused`]), or the command did not begin.
pub async fn run(
    spec: Spec,
    cancel: CancellationToken,
    on_output: &(dyn Fn(&[u8]) + Send + Sync),
) -> Result<Outcome, Error> {
    let level = level_for(&spec).await?;
    run_at(&level, spec, cancel, on_output).await
}

/// Runs a command at this level, whatever the machine has.
///
/// # Errors
/// As [`run`].
pub async fn run_at(
    level: &Level,
    spec: Spec,
    cancel: CancellationToken,
    on_output: &(dyn Fn(&[u8]) + Send + Sync),
) -> Result<Outcome, Error> {
    run_in(walls_of(level)?, None, spec, cancel, on_output).await
}

/// Returns the best level for a command.
pub(super) async fn level_for(spec: &Spec) -> Result<Level, Error> {
    if spec.off {
        return Ok(Level::Off);
    }
    match detect::known() {
        Some(level) => Ok(level.clone()),
        None => tokio::task::spawn_blocking(|| detect::level().clone())
            .await
            .map_err(|e| Error::Start(std::io::Error::other(e))),
    }
}

/// Returns the walls of a level.
pub(super) fn walls_of(level: &Level) -> Result<Walls, Error> {
    match level {
        Level::Namespaces => Ok(Walls::Namespaces),
        Level::Landlock(_) => Ok(Walls::Landlock),
        Level::Off => Ok(Walls::Off),
        Level::Refused(why) => Err(Error::Refused(why.clone())),
    }
}

/// Runs a command behind these walls, by a launcher that is ready for them, if there is one.
pub(super) async fn run_in(
    walls: Walls,
    ready: Option<Launcher>,
    spec: Spec,
    cancel: CancellationToken,
    on_output: &(dyn Fn(&[u8]) + Send + Sync),
) -> Result<Outcome, Error> {
    let (limit, max_output) = (spec.timeout, spec.max_output);
    let room = DiskRoom::new(&spec.workspace, spec.disk_reserve);
    let (mut guard, closed) = guard_of(walls, &spec).await;
    let launcher = match ready {
        Some(launcher) => launcher,
        None => Launcher::start(walls).await.map_err(Error::Start)?,
    };
    let (mut running, group) = launcher
        .send(spec.into_plan(walls, closed))
        .map_err(Error::Start)?;
    let mut replaced = None;
    let mut kept = HeadTailBuffer::new(max_output);
    let mut keep = |bytes: &[u8]| {
        kept.push(bytes);
        on_output(bytes);
    };
    let end = tokio::select! {
        report = running.follow(&mut keep) => End::Report(report.map_err(Error::Start)?),
        () = cancel.cancelled() => End::Killed(Status::Cancelled),
        () = sleep(limit) => End::Killed(Status::TimedOut),
        () = room.is_short() => End::Killed(Status::DiskFull),
        path = guard.replaced() => {
            replaced = Some(path);
            End::Killed(Status::Cancelled)
        }
    };
    if let (End::Killed(_), Some(group)) = (&end, &group) {
        group.kill();
    }
    running.finish(&mut keep).await;
    let restored = crate::sys::blocking(move || guard.restore()).await;
    let status = match end {
        End::Killed(status) => status,
        End::Report(line) => explained(status_of(&line)?, group.as_ref()),
    };
    let (output, cut) = kept.finish();
    Ok(Outcome {
        output,
        status,
        cut,
        replaced,
        restored,
    })
}

/// Returns the guard of a command's read-only files, and which of the machine's are closed to it.
pub(super) async fn guard_of(walls: Walls, spec: &Spec) -> (ReadOnlyGuard, Vec<PathBuf>) {
    let mut writable = spec.writable.clone();
    writable.push(spec.workspace.clone());
    let (read_only, hidden) = (spec.read_only.clone(), spec.hidden.clone());
    let guard = move || ReadOnlyGuard::new(walls, &read_only, &writable, &hidden);
    match walls {
        Walls::Landlock | Walls::Namespaces => {
            crate::sys::blocking(move || (guard(), host_secrets::closed())).await
        }
        Walls::Off => (guard(), Vec::new()),
    }
}

enum End {
    Report(Vec<u8>),
    Killed(Status),
}

/// Returns what the launcher reported. When it could not, somebody killed it: most likely the
/// kernel, short of memory.
pub(super) fn status_of(report: &[u8]) -> Result<Status, Error> {
    let first = report
        .split(|byte| *byte == b'\n')
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    match serde_json::from_slice(first) {
        Ok(Report::Exited(code)) => Ok(Status::Exited(code)),
        Ok(Report::Signaled(signal)) => Ok(Status::Signaled(signal)),
        Ok(Report::OutOfMemory) => Ok(Status::OutOfMemory),
        Ok(Report::Setup { step, reason }) => Err(Error::Setup { step, reason }),
        Err(_) if first.is_empty() => Ok(Status::Signaled(Signal::SIGKILL as i32)),
        Err(_) => Err(Error::Setup {
            step: "launch".to_owned(),
            reason: String::from_utf8_lossy(report).trim().to_owned(),
        }),
    }
}

/// Returns a status with what the command's control group knows of it.
pub(super) fn explained(status: Status, group: Option<&Group>) -> Status {
    group.map_or(status, |group| group.explain(status))
}

impl Spec {
    /// Returns the plan of a command to which `closed` is closed, of this machine's files.
    pub(super) fn into_plan(self, walls: Walls, closed: Vec<PathBuf>) -> Plan {
        let seconds = self.timeout.as_secs().saturating_mul(cores());
        Plan {
            walls,
            closed,
            cpu_secs: seconds.saturating_add(10),
            service: false,
            trial: false,
            exit: self.exit.is_some(),
            spec: self,
        }
    }
}

/// Returns how many CPU seconds may pass in a second. The limit is a second net under the timeout:
/// threads count together, so every core may be full all the time.
fn cores() -> u64 {
    static CORES: OnceLock<u64> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, |n| n.get() as u64))
}

/// Starts a launcher in a process group of its own; what it says on its stderr is read from the status.
pub(super) fn spawn_launcher(
    stdin: Stdio,
    stdout: Stdio,
) -> std::io::Result<(Child, network_exit::Status)> {
    let (status, stderr) = network_exit::Status::new()?;
    let child = Command::new(launcher())
        .arg(LAUNCHER_ARG)
        .env_clear()
        .current_dir("/")
        .process_group(0)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr)
        .spawn()?;
    Ok((child, status))
}

/// Returns a setup or a plan as the launcher reads it: one line of JSON.
pub(super) fn line_of(sent: &impl Serialize) -> std::io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(sent)?;
    line.push(b'\n');
    Ok(line)
}

/// Returns the first line for a launcher, whose command enters this group.
pub(super) fn setup_of(walls: Walls, group: Option<&Group>) -> std::io::Result<Vec<u8>> {
    let group = group.map(|group| group.dir().to_owned());
    line_of(&SandboxSetup { walls, group })
}

/// Kills the process group of a launcher that takes too long, and waits for it.
pub(super) async fn kill_group(child: &mut Child) {
    if let Some(Ok(pid)) = child.id().map(i32::try_from) {
        let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
    }
    let _ = child.wait().await;
}

/// A launcher that knows its setup, and nothing of a command. It ends when it is dropped.
pub(super) struct Launcher {
    child: Child,
    status: network_exit::Status,
    output: ChildStdout,
    group: Option<Group>,
}

impl Launcher {
    pub(super) async fn start(walls: Walls) -> std::io::Result<Self> {
        let group = Group::of_command().await;
        let setup = setup_of(walls, group.as_ref())?;
        let (mut child, status) = spawn_launcher(Stdio::piped(), Stdio::piped())?;
        if let Some(to) = &mut child.stdin {
            // One that does not listen says why, or is found dead.
            let _ = to.write_all(&setup).await;
        }
        let output = child.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
        Ok(Self {
            child,
            status,
            output,
            group,
        })
    }

    /// Returns its process id while it lives.
    pub(super) fn id(&mut self) -> Option<u32> {
        let is_alive = matches!(self.child.try_wait(), Ok(None));
        self.child.id().filter(|_| is_alive)
    }

    /// Returns what runs this plan, and the group in which it does.
    fn send(self, plan: Plan) -> std::io::Result<(Running, Option<Group>)> {
        let line = line_of(&plan)?;
        let mut status = self.status;
        status.serve(plan.spec.exit);
        let running = Running {
            child: self.child,
            status,
            plan: line,
            output: self.output,
            kill_is_complete: plan.walls == Walls::Namespaces,
        };
        Ok((running, self.group))
    }
}

/// A launcher at work. It is not killed on drop: that closes its stdin, whereupon it kills the
/// command's whole tree, which its own death would not.
struct Running {
    child: Child,
    status: network_exit::Status,
    /// The plan that is still to be sent.
    plan: Vec<u8>,
    output: ChildStdout,
    /// Whether nothing survives when its process group is killed.
    kill_is_complete: bool,
}

impl Running {
    /// Sends the plan and takes output until the launcher has closed its end of the status, which it and
    /// its children do by ending. Returns what it reported.
    async fn follow(&mut self, keep: &mut impl FnMut(&[u8])) -> std::io::Result<Vec<u8>> {
        let Self {
            child,
            status,
            plan,
            output,
            ..
        } = self;
        let Some(to) = &mut child.stdin else {
            return Ok(Vec::new());
        };
        let talk = async {
            // A launcher that did not listen has said why.
            let _ = to.write_all(plan).await;
            let mut report = Vec::new();
            status.read(&mut report, MAX_REPORT).await?;
            Ok(report)
        };
        tokio::pin!(talk);
        let mut buffer = vec![0; 64 * 1024];
        let mut open = true;
        loop {
            tokio::select! {
                report = &mut talk => return report,
                read = output.read(&mut buffer), if open => match read {
                    Ok(n) if n > 0 => keep(&buffer[..n]),
                    _ => open = false,
                },
            }
        }
    }

    /// Lets go of the launcher, which kills what is left and ends, and takes the last output. A
    /// launcher that takes too long is left running: at level `landlock` it alone knows which processes to kill.
    async fn finish(mut self, keep: &mut impl FnMut(&[u8])) {
        drop(self.child.stdin.take());
        let ended = timeout(
            KILL_GRACE,
            drained_while(&mut self.output, keep, self.child.wait()),
        )
        .await;
        if ended.is_err() && self.kill_is_complete {
            kill_group(&mut self.child).await;
        }
        let _ = timeout(DRAIN, drain(&mut self.output, keep)).await;
    }
}

/// Waits for `until`, taking output so that nobody is stuck writing.
async fn drained_while<T>(
    output: &mut ChildStdout,
    keep: &mut impl FnMut(&[u8]),
    until: impl Future<Output = T>,
) {
    tokio::select! {
        _ = until => {}
        () = async { drain(output, keep).await; std::future::pending().await } => {}
    }
}

async fn drain(output: &mut ChildStdout, keep: &mut impl FnMut(&[u8])) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(n @ 1..) = output.read(&mut buffer).await {
        keep(&buffer[..n]);
    }
}
