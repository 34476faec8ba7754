//! The daemon's side of a service: a command in the sandbox that exchanges messages while it runs, and that ends, with
//! everything it started, when the daemon drops it or dies.

use std::os::fd::OwnedFd;
use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Child;
use tokio::time::timeout;

use super::cgroup::Group;
use super::disk_room::DiskRoom;
use super::read_only_guard::ReadOnlyGuard;
use super::run::{
    KILL_GRACE, MAX_REPORT, explained, guard_of, kill_group, level_for, line_of, setup_of,
    spawn_launcher, status_of, walls_of,
};
use super::{Error, Level, Plan, Spec, Status, Walls, network_exit};

/// A command that runs.
pub struct Service {
    /// Its standard input; dropped, the command reads its end.
    pub input: OwnedWriteHalf,
    /// Its standard output.
    pub output: OwnedReadHalf,
    /// Its standard error; somebody must read it, or the command may wait forever.
    pub complaints: OwnedReadHalf,
    /// What keeps it alive.
    pub life: Life,
}

/// Keeps a service alive. When it is dropped, everything the service started is killed.
pub struct Life {
    lifeline: OwnedWriteHalf,
    child: Child,
    status: network_exit::Status,
    guard: ReadOnlyGuard,
    room: DiskRoom,
    group: Option<Group>,
    report: Vec<u8>,
    /// Whether nothing survives when its process group is killed.
    kill_is_complete: bool,
}

/// Starts a command at the best level this machine has. It runs as long as it likes:
/// [`Spec::timeout`] and [`Spec::max_output`] say nothing here.
///
/// # Errors
/// When there is no sandbox ([`Error::Refused`]), or the launcher cannot be started. A wall that cannot
/// be built is told by [`Life::ended`].
pub async fn serve(spec: Spec) -> Result<Service, Error> {
    let level = level_for(&spec).await?;
    serve_at(&level, spec).await
}

/// Starts a command at this level, whatever the machine has.
///
/// # Errors
/// As [`serve`].
pub async fn serve_at(level: &Level, spec: Spec) -> Result<Service, Error> {
    let walls = walls_of(level)?;
    let (guard, closed) = guard_of(walls, &spec).await;
    let group = Group::of_command().await;
    let plan = Plan {
        service: true,
        cpu_secs: u64::MAX,
        ..spec.into_plan(walls, closed)
    };
    start(plan, guard, group).await.map_err(Error::Start)
}

async fn start(plan: Plan, guard: ReadOnlyGuard, group: Option<Group>) -> std::io::Result<Service> {
    let mut lines = setup_of(plan.walls, group.as_ref())?;
    lines.extend(line_of(&plan)?);
    let ((ours, theirs), (talk, heard)) = (pair()?, pair()?);
    let (child, mut status) = spawn_launcher(Stdio::from(theirs), Stdio::from(heard))?;
    status.serve(plan.spec.exit);
    let room = DiskRoom::new(&plan.spec.workspace, plan.spec.disk_reserve);
    let (complaints, mut lifeline) = ours.into_split();
    // A launcher that did not listen has said why.
    let _ = lifeline.write_all(&lines).await;
    let (output, input) = talk.into_split();
    let kill_is_complete = plan.walls == Walls::Namespaces;
    Ok(Service {
        input,
        output,
        complaints,
        life: Life {
            lifeline,
            child,
            status,
            guard,
            room,
            group,
            report: Vec::new(),
            kill_is_complete,
        },
    })
}

/// Returns our end of a new socket and the other one.
fn pair() -> std::io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((UnixStream::from_std(ours)?, theirs.into()))
}

impl Life {
    /// Waits until the command has ended by itself, or has left too little of the disk free. May be dropped and called again.
    ///
    /// # Errors
    /// When it never began.
    pub async fn ended(&mut self) -> Result<Status, Error> {
        tokio::select! {
            _ = self.status.read(&mut self.report, MAX_REPORT) => {}
            () = self.room.is_short() => return Ok(Status::DiskFull),
            path = self.guard.replaced() => return Err(Error::Uncovered(path)),
        }
        status_of(&self.report).map(|status| explained(status, self.group.as_ref()))
    }

    /// Kills what is left of the service and waits until it is gone. A launcher that takes too long continues
    /// by itself.
    pub async fn end(self) {
        let Self {
            lifeline,
            mut child,
            guard,
            kill_is_complete,
            ..
        } = self;
        drop(lifeline);
        if timeout(KILL_GRACE, child.wait()).await.is_err() && kill_is_complete {
            kill_group(&mut child).await;
        }
        let restored = crate::sys::blocking(move || guard.restore()).await;
        if !restored.is_empty() {
            tracing::warn!(files = ?restored, "a tool server changed files that shape the agent; they were restored");
        }
    }
}
