//! One launcher that is ready for the next command, so that a command does not wait for its namespaces.
//!
//! It has read the first of its two lines, which is the same for every command, and has done what any launcher does before it
//! reads the second one: created namespaces, copies of the machine's mounts and an empty network. Permissions, path
//! resolution and masks are determined when there is a command. It serves one command; the next gets a new one, or starts its
//! own. Without commands none is kept, because it holds some memory, and mounts.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::run::{Launcher, level_for, run_in, walls_of};
use super::{Error, Level, Outcome, Spec, Walls};

/// How long after a command the next launcher is started: what the command led to goes first.
const PAUSE: Duration = Duration::from_millis(30);

/// How long one is kept: a model thinks for some seconds between two commands, and an idle daemon is to be small.
const KEPT: Duration = Duration::from_secs(15);

/// Runs commands as [`super::run()`] does, and keeps a launcher ready after each. When it is dropped, that one ends.
#[derive(Clone, Default)]
pub struct Ahead(Arc<Mutex<Slot>>);

#[derive(Default)]
struct Slot {
    ready: Option<Ready>,
    /// The number of commands so far; a task that waited compares it to see whether it is still current.
    commands: u64,
}

/// A launcher, and the mounts of this machine as they were when it was started.
struct Ready {
    launcher: Launcher,
    mounts: Mounts,
}

impl Ahead {
    /// Runs a command at the best level this machine has, as [`super::run()`].
    ///
    /// # Errors
    /// As [`super::run()`].
    pub async fn run(
        &self,
        spec: Spec,
        cancel: CancellationToken,
        on_output: &(dyn Fn(&[u8]) + Send + Sync),
    ) -> Result<Outcome, Error> {
        let level = level_for(&spec).await?;
        self.run_at(&level, spec, cancel, on_output).await
    }

    /// Runs a command at this level, whatever the machine has.
    ///
    /// # Errors
    /// As [`super::run()`].
    pub async fn run_at(
        &self,
        level: &Level,
        spec: Spec,
        cancel: CancellationToken,
        on_output: &(dyn Fn(&[u8]) + Send + Sync),
    ) -> Result<Outcome, Error> {
        let walls = walls_of(level)?;
        if walls != Walls::Namespaces {
            return run_in(walls, None, spec, cancel, on_output).await;
        }
        let ready = self.take();
        let outcome = run_in(walls, ready, spec, cancel, on_output).await;
        if outcome.is_ok() {
            self.prepare_soon();
        }
        outcome
    }

    /// Returns the process that is ready, if there is one.
    pub fn process(&self) -> Option<u32> {
        let mut slot = self.0.lock();
        slot.ready.as_mut().and_then(|ready| ready.launcher.id())
    }

    /// Returns the launcher that is ready, if it still lives and what it took of the machine is still so.
    fn take(&self) -> Option<Launcher> {
        let mut ready = self.0.lock().ready.take()?;
        let is_fit = ready.mounts.are_unchanged() && ready.launcher.id().is_some();
        is_fit.then_some(ready.launcher)
    }

    /// Starts the next launcher in a moment, and lets it go when no command comes.
    fn prepare_soon(&self) {
        let mut slot = self.0.lock();
        slot.commands += 1;
        let (turn, weak) = (slot.commands, Arc::downgrade(&self.0));
        drop(slot);
        let is_over = move || {
            let ahead = weak.upgrade().map(Ahead)?;
            let is_turn = ahead.0.lock().commands == turn;
            is_turn.then_some(ahead)
        };
        tokio::spawn(async move {
            tokio::time::sleep(PAUSE).await;
            if is_over().is_none() {
                return;
            }
            let ready = Ready::new().await;
            match is_over() {
                Some(ahead) => ahead.0.lock().ready = ready,
                None => return,
            }
            tokio::time::sleep(KEPT).await;
            let unused = is_over().and_then(|ahead| ahead.0.lock().ready.take());
            drop(unused);
        });
    }
}

impl Ready {
    /// Starts a launcher. One that cannot be had is not a loss: the command will say why.
    async fn new() -> Option<Self> {
        let mounts = Mounts::now()?;
        let launcher = Launcher::start(Walls::Namespaces).await.ok()?;
        Some(Self { launcher, mounts })
    }
}

/// Tells whether this process' mounts have changed: proc_pid_mounts(5), where poll(2) marks it.
struct Mounts(File);

impl Mounts {
    fn now() -> Option<Self> {
        File::open("/proc/self/mounts").ok().map(Self)
    }

    fn are_unchanged(&self) -> bool {
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLPRI)];
        let changed = PollFlags::POLLPRI | PollFlags::POLLERR;
        let polled = poll(&mut fds, PollTimeout::ZERO);
        let events = fds[0].revents().unwrap_or(PollFlags::all());
        polled.is_ok() && !events.intersects(changed)
    }
}
