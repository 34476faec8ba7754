//! What happens while the screen is up, as one stream of news: keys, signals, files that change. Each has a
//! thread of its own, so that a database that is busy keeps nobody waiting.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use notify::{RecursiveMode, Watcher};
use ratatui::crossterm::event;

use super::commands::Outcome;
use super::databases::Reader;
use super::key_codes::Key;
use super::snapshot::{Books, Entry};
use crate::app::cli::{Exit, Failure};
use crate::app::documents;
use crate::app::monitor::health::Pulse;
use crate::config::{Environment, Home};

/// monitor.json is read when it changes, and this often in any case.
const PULSE: Duration = Duration::from_secs(1);
/// It is written at most ten times a second, and read no more often.
const CALM: Duration = Duration::from_millis(100);
const BOOKS: Duration = Duration::from_secs(2);
const LOG_LINES: usize = 500;

#[derive(Debug)]
pub(super) enum News {
    Key(Key),
    Resized,
    Suspend,
    Continued,
    End,
    /// Something without which it cannot go on.
    Broken(Failure),
    Pulse(Result<Box<Pulse>, String>),
    /// The newest lines of the log.
    Log(Vec<Entry>),
    Books(Box<Books>),
    /// What came of an order.
    Outcome(Outcome),
}

/// Keeps the signals for [`begin`] from the whole process; called before any other thread is there.
pub(super) fn hold_signals() {
    // It fails for numbers that are no signals only.
    let _ = signals().thread_block();
}

/// The end, in all its ways; a new size; the sleep of job control and its end.
fn signals() -> SigSet {
    use Signal::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
    [SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT]
        .into_iter()
        .collect()
}

pub(super) fn begin(home: &Home, env: &Environment, tell: &Sender<News>) -> Sender<()> {
    let (nudge, nudged) = mpsc::channel();
    let (place, variables) = (home.clone(), env.clone());
    spawn("what reads the databases", tell, move |tell| {
        tell_books(Reader::new(place, variables), tell, &nudged)
    });
    let place = home.clone();
    spawn("what looks at the daemon", tell, move |tell| {
        tell_pulses(&place, tell)
    });
    spawn("what hears signals", tell, tell_signals);
    spawn("what hears keys", tell, tell_keys);
    nudge
}

/// Starts a thread; one that breaks down says so, before anybody waits for it in vain.
pub(super) fn spawn(
    what: &'static str,
    tell: &Sender<News>,
    work: impl FnOnce(&Sender<News>) + Send + 'static,
) -> JoinHandle<()> {
    struct Watch(&'static str, Sender<News>);
    impl Drop for Watch {
        fn drop(&mut self) {
            if thread::panicking() {
                let failure = Failure::new(
                    Exit::Bug,
                    format!("{} broke down; the lines above say where", self.0),
                );
                let _ = self.1.send(News::Broken(
                    failure.hint("report it with those lines; the daemon does not mind"),
                ));
            }
        }
    }
    let watch = Watch(what, tell.clone());
    thread::spawn(move || work(&watch.1))
}

fn tell_keys(tell: &Sender<News>) {
    loop {
        let news = match event::read() {
            Ok(event::Event::Key(key)) => Key::of(key).map(News::Key),
            Ok(event::Event::Paste(text)) => Some(News::Key(Key::Paste(text))),
            Ok(event::Event::Resize(..)) => Some(News::Resized),
            Ok(_) => None,
            Err(error) => {
                let failure =
                    Failure::new(Exit::Io, format!("the keyboard cannot be read: {error}"));
                let _ = tell.send(News::Broken(
                    failure.hint("agent-monitor without --follow needs none"),
                ));
                return;
            }
        };
        if news.is_some_and(|news| tell.send(news).is_err()) {
            return;
        }
    }
}

/// Returns true when the terminal is gone: who then waits for keys waits for ever.
pub(super) fn is_hung_up() -> bool {
    let stdin = std::io::stdin();
    let mut ends = [PollFd::new(stdin.as_fd(), PollFlags::empty())];
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    poll(&mut ends, PollTimeout::ZERO).is_ok()
        && ends
            .iter()
            .any(|end| end.revents().is_some_and(|seen| seen.intersects(gone)))
}

fn tell_signals(tell: &Sender<News>) {
    while let Ok(signal) = signals().wait() {
        let news = match signal {
            Signal::SIGWINCH => News::Resized,
            Signal::SIGTSTP => News::Suspend,
            Signal::SIGCONT => News::Continued,
            _ => News::End,
        };
        if tell.send(news).is_err() {
            return;
        }
    }
}

fn tell_pulses(home: &Home, tell: &Sender<News>) {
    let (wake, woken) = mpsc::channel();
    let (mut watcher, mut last, mut log_stamp) = (None, None, None);
    loop {
        // A home that has no state yet may get one.
        if watcher.is_none() {
            watcher = watch(home, wake.clone()).ok();
        }
        let pulse = Pulse::take(home)
            .map(Box::new)
            .map_err(|error| error.to_string());
        if last.as_ref() != Some(&pulse) {
            last = Some(pulse.clone());
            if tell.send(News::Pulse(pulse)).is_err() {
                return;
            }
        }
        let stamp = newest_log(home);
        if stamp != log_stamp {
            log_stamp = stamp;
            // What cannot be read is not shown; the screen is of the daemon, not of its log.
            let entries = documents::log(home, LOG_LINES)
                .map(|log| log.entries)
                .unwrap_or_default();
            if tell
                .send(News::Log(entries.iter().map(Entry::of).collect()))
                .is_err()
            {
                return;
            }
        }
        match woken.recv_timeout(PULSE) {
            Ok(()) => {
                thread::sleep(CALM);
                while woken.try_recv().is_ok() {}
            }
            Err(RecvTimeoutError::Timeout) => {}
            // Its other end is ours.
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Rings when monitor.json is written.
fn watch(home: &Home, wake: Sender<()>) -> notify::Result<notify::RecommendedWatcher> {
    let name = home.monitor().file_name().map(std::ffi::OsStr::to_owned);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Our own looking makes events too.
        let is_ours = |event: notify::Event| {
            (event.kind.is_create() || event.kind.is_modify())
                && event
                    .paths
                    .iter()
                    .any(|path| path.file_name() == name.as_deref())
        };
        if event.is_ok_and(is_ours) {
            // The receiver is gone when the program ends.
            let _ = wake.send(());
        }
    })?;
    watcher.watch(home.state(), RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

/// When a file was changed last, and its bytes: what is the same need not be read again.
pub(super) type Stamp = Option<(SystemTime, u64)>;

/// Returns the stamp of a file; `None` when there is none.
pub(super) fn stamp(path: &Path) -> Stamp {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

/// Returns the stamp of the newest file of the log, whose name is its day.
fn newest_log(home: &Home) -> Stamp {
    let names = std::fs::read_dir(home.logs())
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    stamp(
        &names
            .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
            .max()?,
    )
}

fn tell_books(mut reader: Reader, tell: &Sender<News>, nudged: &Receiver<()>) {
    loop {
        if reader.look()
            && tell
                .send(News::Books(Box::new(reader.books().clone())))
                .is_err()
        {
            return;
        }
        match nudged.recv_timeout(BOOKS) {
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
