//! What happens while the screen is up, as one stream of news: keys, signals, files that change. Each has a
//! thread of its own, so that a database that is busy keeps nobody waiting.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use chrono_tz::Tz;
use nix::poll::PollFlags;
use nix::sys::signal::{SigSet, Signal};
use ratatui::crossterm::event;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::commands::Outcome;
use super::databases::Reader;
use super::snapshot::{Databases, log_line};
use crate::app::cli;
use crate::app::cli::Failure;
use crate::app::documents;
use crate::app::monitor::health::Health;
use crate::app::monitor::styled_line::Line;
use crate::config::{Environment, Home};
use crate::sys;
use crate::sys::Version;

/// monitor.json is read when it changes, and this often in any case.
const HEALTH_INTERVAL: Duration = Duration::from_secs(1);
/// It is written at most ten times a second, and read no more often.
const DEBOUNCE: Duration = Duration::from_millis(100);
const DATABASES_INTERVAL: Duration = Duration::from_secs(2);
const LOG_LINES: usize = 500;

#[derive(Debug)]
pub(super) enum Update {
    Key(KeyEvent),
    /// Nobody typed this: it is never a command.
    Paste(String),
    Resized,
    Suspend,
    Continued,
    End,
    /// Something without which it cannot continue.
    Broken(Failure),
    Health(Result<Box<Health>, String>),
    /// The newest lines of the log.
    Log(Vec<Line>),
    Databases(Box<Databases>),
    /// The result of a command.
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

pub(super) fn begin(home: &Home, env: &Environment, zone: Tz, tell: &Sender<Update>) -> Sender<()> {
    let (nudge, nudged) = mpsc::channel();
    let (place, variables) = (home.clone(), env.clone());
    spawn("the reader of the databases", tell, move |tell| {
        tell_databases(Reader::new(place, variables), tell, &nudged)
    });
    let place = home.clone();
    spawn("the reader of monitor.json", tell, move |tell| {
        tell_health(&place, zone, tell)
    });
    spawn("the reader of signals", tell, tell_signals);
    spawn("the reader of keys", tell, tell_keys);
    nudge
}

/// Starts a thread; one that breaks down says so, before anybody waits for it in vain.
pub(super) fn spawn(
    what: &'static str,
    tell: &Sender<Update>,
    work: impl FnOnce(&Sender<Update>) + Send + 'static,
) -> JoinHandle<()> {
    struct Watch(&'static str, Sender<Update>);
    impl Drop for Watch {
        fn drop(&mut self) {
            if thread::panicking() {
                let failure =
                    Failure::bug(format!("{} broke down; the lines above say where", self.0));
                let _ = self.1.send(Update::Broken(
                    failure.hint("report it with those lines; the daemon does not mind"),
                ));
            }
        }
    }
    let watch = Watch(what, tell.clone());
    thread::spawn(move || work(&watch.1))
}

fn tell_keys(tell: &Sender<Update>) {
    loop {
        let news = match event::read() {
            Ok(event::Event::Key(key)) if is_pressed(key) => Some(Update::Key(key)),
            Ok(event::Event::Paste(text)) => Some(Update::Paste(text)),
            Ok(event::Event::Resize(..)) => Some(Update::Resized),
            Ok(_) => None,
            Err(error) => {
                let failure = Failure::io(format!("the keyboard cannot be read: {error}"));
                let _ = tell.send(Update::Broken(
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

/// A key that is let go means nothing, nor does a letter with Alt.
fn is_pressed(key: KeyEvent) -> bool {
    let is_alt = key.modifiers.contains(KeyModifiers::ALT);
    key.kind != KeyEventKind::Release && !(is_alt && matches!(key.code, KeyCode::Char(_)))
}

/// Returns true when the terminal is gone: who then waits for keys waits forever.
pub(super) fn is_hung_up() -> bool {
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    cli::stdin_events().intersects(gone)
}

fn tell_signals(tell: &Sender<Update>) {
    while let Ok(signal) = signals().wait() {
        let news = match signal {
            Signal::SIGWINCH => Update::Resized,
            Signal::SIGTSTP => Update::Suspend,
            Signal::SIGCONT => Update::Continued,
            _ => Update::End,
        };
        if tell.send(news).is_err() {
            return;
        }
    }
}

fn tell_health(home: &Home, zone: Tz, tell: &Sender<Update>) {
    let (wake, woken) = mpsc::channel();
    let (mut watcher, mut last, mut log_stamp) = (None, None, None);
    loop {
        // A home that has no state yet may get one.
        if watcher.is_none() {
            watcher = watch(home, wake.clone()).ok();
        }
        let health = Health::read(home)
            .map(Box::new)
            .map_err(|error| error.to_string());
        if last.as_ref() != Some(&health) {
            last = Some(health.clone());
            if tell.send(Update::Health(health)).is_err() {
                return;
            }
        }
        let stamp = newest_log(home);
        if stamp != log_stamp {
            log_stamp = stamp;
            // What cannot be read is not shown; the screen is of the daemon, not of its log.
            let log = documents::log(home, LOG_LINES).unwrap_or_default();
            let lines = log.entries.iter().map(|entry| log_line(entry, zone));
            if tell.send(Update::Log(lines.collect())).is_err() {
                return;
            }
        }
        match woken.recv_timeout(HEALTH_INTERVAL) {
            Ok(()) => {
                thread::sleep(DEBOUNCE);
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
    let ours = move |path: &Path| path.file_name() == name.as_deref();
    sys::watch_changes(&[home.state()], ours, move || {
        // The receiver is gone when the program ends.
        let _ = wake.send(());
    })
}

/// Returns the version of the newest file of the log, whose name is its day.
fn newest_log(home: &Home) -> Option<Version> {
    let names = std::fs::read_dir(home.logs())
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    let newest = names.filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    Version::at(&newest.max()?)
}

fn tell_databases(mut reader: Reader, tell: &Sender<Update>, nudged: &Receiver<()>) {
    loop {
        if reader.look()
            && tell
                .send(Update::Databases(Box::new(reader.databases().clone())))
                .is_err()
        {
            return;
        }
        match nudged.recv_timeout(DATABASES_INTERVAL) {
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
