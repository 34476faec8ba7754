//! `agent-index watch`: indexes changes shortly after they occur, for machines without cron and for frequent changes.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use notify::{ErrorKind, RecursiveMode, Watcher};

use super::{Context, PROGRAM, sync as once};
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::memory::index::{Mode, Outcome};
use crate::sys;

/// Quiet after a change before it is indexed (specification §2), and the longest wait for it.
const QUIET: Duration = Duration::from_millis(1500);
const PATIENCE: Duration = Duration::from_secs(15);
/// Looked at anyway, in case a change was missed.
const RESCAN: Duration = Duration::from_secs(600);

pub(super) fn run(context: &Context<'_>) -> Result<Exit, Failure> {
    cli::prepare(&context.home)?;
    let (sender, changes) = mpsc::channel();
    let (state, watched) = (
        context.home.state().to_owned(),
        directories(context).map(|(dir, _)| dir),
    );
    let is_nothing = move |path: &PathBuf| {
        // What readers of it share comes and goes with them.
        let is_facts = path
            .file_name()
            .is_some_and(|name| name == "memory.db" || name == "memory.db-wal");
        path.parent() == Some(&state) && !watched.contains(path) && !is_facts
    };
    let handler = move |event: notify::Result<notify::Event>| {
        // Reading is not a change, and neither is what is next to the facts; an error may hide one.
        if event
            .as_ref()
            .is_ok_and(|event| event.kind.is_access() || event.paths.iter().all(&is_nothing))
        {
            return;
        }
        // The receiver lives as long as the program.
        let _ = sender.send(());
    };
    let settings = notify::Config::default().with_follow_symlinks(false);
    let mut watcher = sys::file_watcher(handler, settings).map_err(|error| refused(&error))?;
    loop {
        // Again each time: a directory may have come, or another one in its place.
        for (dir, depth) in directories(context) {
            match watcher.watch(&dir, depth) {
                Err(error) if !is_gone(&error) => return Err(refused(&error)),
                _ => {}
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
    let outcome = crate::memory::index::sync(&context.place, Mode::default(), &mut |_| {})?;
    if let Outcome::Done(report) = &outcome {
        once::tell(context, Mode::default(), report);
    }
    Ok(outcome)
}

/// Those of conversations that continue are among them: what one sums up is no longer sent, so it is indexed. That of
/// the state is, for the facts.
fn directories(context: &Context<'_>) -> [(PathBuf, RecursiveMode); 5] {
    let home = &context.home;
    [
        (home.state().to_owned(), RecursiveMode::NonRecursive),
        (home.workspace().to_owned(), RecursiveMode::NonRecursive),
        (home.workspace().join("memory"), RecursiveMode::Recursive),
        (home.sessions(), RecursiveMode::NonRecursive),
        (home.archive(), RecursiveMode::NonRecursive),
    ]
}

/// Returns true for a directory that is not there, or went away while it was looked at: its parent is
/// watched and will say when there is one.
fn is_gone(error: &notify::Error) -> bool {
    match &error.kind {
        ErrorKind::PathNotFound => true,
        ErrorKind::Io(error) => matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        ),
        ErrorKind::Generic(_)
        | ErrorKind::WatchNotFound
        | ErrorKind::InvalidConfig(_)
        | ErrorKind::MaxFilesWatch => false,
    }
}

fn refused(error: &notify::Error) -> Failure {
    cli::err(&format!("{PROGRAM}: {error}"));
    let hint = "sysctl fs.inotify.max_user_watches and max_user_instances say how many are allowed; cron needs none: agent-index";
    Failure::io("the directories cannot be watched").hint(hint)
}
