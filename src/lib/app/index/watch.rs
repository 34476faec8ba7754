//! `agent-index watch`: indexes what changes, a moment after it did. For machines without cron, and
//! for those who write much.

use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use notify::{RecursiveMode, Watcher};

use super::{Context, PROGRAM, sync as once};
use crate::app::cli::{self, Exit, Failure};
use crate::memory::index::{Mode, Outcome, sync};

/// Quiet after a change before it is indexed (specification §2), and the longest wait for it.
const QUIET: Duration = Duration::from_millis(1500);
const PATIENCE: Duration = Duration::from_secs(15);
/// Looked at anyway, in case a change was missed.
const RESCAN: Duration = Duration::from_secs(600);

pub(super) fn run(context: &Context<'_>) -> Result<Exit, Failure> {
    cli::prepare(&context.home)?;
    let (sender, changes) = mpsc::channel();
    let handler = move |event: notify::Result<notify::Event>| {
        // Reading is no change; an error may hide one.
        if event.as_ref().is_ok_and(|event| event.kind.is_access()) {
            return;
        }
        // The receiver lives as long as the program.
        let _ = sender.send(());
    };
    let settings = notify::Config::default().with_follow_symlinks(false);
    let mut watcher = notify::RecommendedWatcher::new(handler, settings).map_err(|error| refused(&error))?;
    loop {
        // Again each time: a directory may have come, or another one in its place.
        for (dir, depth) in directories(context) {
            if dir.is_dir() {
                watcher.watch(&dir, depth).map_err(|error| refused(&error))?;
            }
        }
        while let Outcome::Busy(_) = index(context)? {
            std::thread::sleep(QUIET);
        }
        match changes.recv_timeout(RESCAN) {
            Ok(()) => settle(&changes),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(Exit::Ok),
        }
    }
}

/// Waits until nothing changes any more.
fn settle(changes: &mpsc::Receiver<()>) {
    let begun = Instant::now();
    while changes.recv_timeout(QUIET).is_ok() && begun.elapsed() < PATIENCE {}
}

fn index(context: &Context<'_>) -> Result<Outcome, Failure> {
    let outcome = sync(&context.place, Mode::default(), &mut |_| {})?;
    if let Outcome::Done(report) = &outcome {
        once::tell(context, Mode::default(), report);
    }
    Ok(outcome)
}

fn directories(context: &Context<'_>) -> [(PathBuf, RecursiveMode); 3] {
    let home = &context.home;
    [
        (home.workspace().to_owned(), RecursiveMode::NonRecursive),
        (home.workspace().join("memory"), RecursiveMode::Recursive),
        (home.archive(), RecursiveMode::NonRecursive),
    ]
}

fn refused(error: &notify::Error) -> Failure {
    cli::err(&format!("{PROGRAM}: {error}"));
    let hint = "sysctl fs.inotify.max_user_watches and max_user_instances say how many are allowed; cron needs none: agent-index";
    Failure::new(Exit::Io, "the directories cannot be watched").hint(hint)
}
