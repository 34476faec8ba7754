//! `--follow`: the whole screen, kept up to date, with keys.
//!
//! ```text
//! keys, signals ──────────────┐
//! monitor.json, log (1 s) ────┼→ feed → snapshot ┐
//! databases (2 s, if changed) ┘               ├→ draw (plan → panes → dialog) → screen
//!                   keys → ui (what is chosen) ┘
//!                           └→ requests → spool, FIFO → daemon
//! ```
//! Neither reading nor commands delay the screen; drawing and keys are pure.

mod commands;
mod databases;
mod dialog;
mod draw;
mod events;
mod keymap;
mod layout;
mod panes;
mod snapshot;
mod terminal;

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use super::View;
use super::advice::Advice;
use super::health::Health;
use crate::app::cli;
use crate::app::cli::{Exit, Failure, Shared};
use crate::app::color::{Color, Paint};
use crate::app::documents;
use crate::clock;
use crate::config::{Environment, Home};
use commands::Outcome;
use draw::Scene;
use events::Update;
use keymap::{Act, Ui};
use snapshot::Snapshot;
use terminal::Screen;

/// Shows the screen until it is told to end.
pub(super) fn follow(shared: &Shared, color: Color) -> Result<Exit, Failure> {
    let (env, home) = shared.home()?;
    must_be_a_screen(&env)?;
    // Who may not look is told so as by one frame.
    let health = Health::read(&home)?;
    let (tell, news) = mpsc::channel();
    events::hold_signals();
    let screen = Screen::open().map_err(|error| terminal(&error))?;
    let (zone, _) = documents::zone(&home, &env);
    let nudge = events::begin(&home, &env, zone, &tell);
    let view = View {
        now: clock::now_ms(),
        advice: Advice::new(shared, &env, &home, health.pid),
        health,
        ..View::default()
    };
    let snapshot = Snapshot {
        view,
        zone,
        ..Snapshot::default()
    };
    let color = Paint::new(color, &env) != Paint::PLAIN;
    let mut following = Following {
        shared,
        env: &env,
        home: &home,
        screen,
        snapshot,
        ui: Ui::default(),
        color,
        tell,
        nudge,
        requests: Vec::new(),
        is_broken: None,
    };
    let ended = following.run(&news);
    let Following {
        screen,
        requests,
        is_broken,
        ..
    } = following;
    drop(screen);
    wait_for_requests(requests, &news);
    match (ended, is_broken) {
        (Err(error), _) if !events::is_hung_up() => Err(terminal(&error)),
        (_, Some(failure)) => Err(failure),
        // A terminal that was closed is an end like any other.
        (Ok(()) | Err(_), None) => Ok(Exit::Ok),
    }
}

fn must_be_a_screen(env: &Environment) -> Result<(), Failure> {
    let dumb = env
        .get("TERM")
        .is_none_or(|term| term.is_empty() || term == "dumb");
    let why = if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        "--follow needs a terminal as standard input and output"
    } else if dumb {
        "--follow does not work on this terminal (TERM)"
    } else {
        return Ok(());
    };
    Err(Failure::usage(why)
        .hint("agent-monitor prints one frame anywhere, --json a document, --check a line"))
}

fn terminal(error: &io::Error) -> Failure {
    Failure::io(format!("the terminal cannot be used: {error}")).hint(
        "agent-monitor prints one frame; watch -c -n1 agent-monitor --color=always repeats it",
    )
}

/// What was sent last is not left half-way: the daemon answers, or the command is taken back.
fn wait_for_requests(requests: Vec<JoinHandle<()>>, news: &mpsc::Receiver<Update>) {
    let open: Vec<_> = requests
        .into_iter()
        .filter(|order| !order.is_finished())
        .collect();
    if open.is_empty() {
        return;
    }
    cli::err("agent-monitor: waiting for the daemon's answer");
    for order in open {
        // A panic of it has said so already.
        let _ = order.join();
    }
    for outcome in news.try_iter() {
        if let Update::Outcome(Outcome { words, .. }) = outcome {
            cli::err(&format!("agent-monitor: {words}"));
        }
    }
}

struct Following<'a> {
    shared: &'a Shared,
    env: &'a Environment,
    home: &'a Home,
    screen: Screen,
    snapshot: Snapshot,
    ui: Ui,
    color: bool,
    tell: Sender<Update>,
    nudge: Sender<()>,
    requests: Vec<JoinHandle<()>>,
    is_broken: Option<Failure>,
}

impl Following<'_> {
    fn run(&mut self, news: &mpsc::Receiver<Update>) -> io::Result<()> {
        loop {
            self.snapshot.view.now = clock::now_ms();
            self.screen.draw(&Scene {
                snapshot: &self.snapshot,
                ui: &self.ui,
                color: self.color,
            })?;
            let first = match news.recv_timeout(until_next_second(self.snapshot.view.now)) {
                Ok(first) => first,
                Err(RecvTimeoutError::Timeout) if events::is_hung_up() => return Ok(()),
                Err(RecvTimeoutError::Timeout) => continue,
                // We hold an end ourselves.
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            // What came together is drawn together.
            for update in std::iter::once(first).chain(news.try_iter()) {
                if self.take(update)?.is_break() {
                    return Ok(());
                }
            }
        }
    }

    /// Takes in what came; breaks at the end.
    fn take(&mut self, news: Update) -> io::Result<ControlFlow<()>> {
        match news {
            Update::Key(key) => {
                let size = self.screen.size();
                if let Some(act) = self.ui.press(key, &self.snapshot, size) {
                    return self.act(act);
                }
            }
            Update::Paste(text) => self.ui.paste(&text),
            // It is drawn in its new size with the next scene.
            Update::Resized => {}
            Update::Suspend => self.screen.sleep()?,
            Update::Continued => self.screen.again()?,
            Update::End => return Ok(ControlFlow::Break(())),
            Update::Broken(failure) => {
                self.is_broken = Some(failure);
                return Ok(ControlFlow::Break(()));
            }
            Update::Health(Ok(health)) => {
                let view = &mut self.snapshot.view;
                if health.pid != view.health.pid {
                    view.advice = Advice::new(self.shared, self.env, self.home, health.pid);
                }
                view.health = *health;
                self.snapshot.blind = None;
                self.snapshot.count();
            }
            Update::Health(Err(why)) => self.snapshot.blind = Some(why),
            Update::Log(lines) => self.snapshot.log = lines,
            Update::Databases(databases) => {
                self.snapshot.databases = *databases;
                self.snapshot.count();
            }
            Update::Outcome(outcome) => {
                self.ui.note = Some(outcome);
                // It ends with the program.
                let _ = self.nudge.send(());
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn act(&mut self, act: Act) -> io::Result<ControlFlow<()>> {
        match act {
            Act::Quit => return Ok(ControlFlow::Break(())),
            Act::Suspend => suspend_all(),
            Act::Redraw => self.screen.again()?,
            Act::Send(request) => {
                self.ui.say(true, request.begun.clone());
                self.requests.retain(|request| !request.is_finished());
                self.requests.push(request.send(self.home, &self.tell));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Tells everybody who was started with us to sleep, as the terminal does on Ctrl-Z where it is not raw; we
/// learn of it as of any signal.
fn suspend_all() {
    // It fails when nobody is there, and we are.
    let _ = nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(0),
        nix::sys::signal::Signal::SIGTSTP,
    );
}

fn until_next_second(now: i64) -> Duration {
    Duration::from_millis(u64::try_from(1000 - now.rem_euclid(1000)).unwrap_or(1000))
}

#[cfg(test)]
mod tests;
