//! `agent-monitor`: one frame of what the daemon is doing, for `watch`.
//!
//! ```text
//! lock, monitor.json → life (alive, how?) ┐
//! queue.db, cost.db, settings → status    ┴→ frame (facts, lanes) → lines → paint
//! ```
//! Everything after the reading is pure: the same view in the same room is the same frame.

mod advice;
mod frame;
mod lanes;
mod life;
mod line;
mod parts;
#[cfg(test)]
mod tests;
mod words;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use self::advice::Advice;
use self::frame::Frame;
use self::life::{Life, Signs};
use super::cli::{self, Exit, Failure, Shared};
use super::paint::{Color, Paint};
use super::query::{self, Status};
use crate::config::Environment;
use crate::monitor::{self, Lane, State};
use crate::{clock, sys};

/// Lines that `watch` puts above what it runs.
const TITLE_OF_WATCH: usize = 2;

/// Show what the daemon is doing right now
///
/// Exit code: 0 idle or working, 1 stale (it lives, and wrote nothing for more than 60 s), 69 not running.
#[derive(Debug, Parser)]
#[command(name = "agent-monitor", version = cli::version(), after_help = "Example: watch -c -n1 agent-monitor --color=always")]
struct Arguments {
    #[command(flatten)]
    shared: Shared,
    /// Print monitor.json
    #[arg(long)]
    json: bool,
    /// Use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: Color,
}

/// What is drawn.
struct View<'a> {
    life: Life,
    status: &'a Status,
    /// monitor.json, if this daemon has written it.
    state: Option<&'a State>,
    now: i64,
    advice: Advice,
}

impl View<'_> {
    /// Returns the turns in monitor.json.
    fn lanes(&self) -> &[Lane] {
        self.state.map_or(&[], |state| &state.lanes)
    }

    /// Returns the time of which the lanes speak.
    fn seen_at(&self) -> i64 {
        match self.life {
            Life::Stale { silent_ms } => self.now - silent_ms,
            _ => self.now,
        }
    }
}

/// Returns the command line.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the program.
pub fn main() -> ExitCode {
    match cli::parse::<Arguments>() {
        Ok(arguments) => cli::end("agent-monitor", arguments.json, || show(&arguments.shared, arguments.json, arguments.color)),
        Err(code) => code,
    }
}

/// Prints the frame, or monitor.json, and returns what the daemon's life means as an exit code.
pub(super) fn show(shared: &Shared, json: bool, color: Color) -> Result<Exit, Failure> {
    let (env, home) = shared.home()?;
    let mut state = monitor::read(&home.monitor())?;
    let mut status = query::status_with(&home, &env, state.clone())?;
    let mut boot_id = String::new();
    if !status.running {
        // It may have ended between the two looks; now nobody writes any more.
        state = monitor::read(&home.monitor())?;
        boot_id = monitor::boot_id();
    }
    let now = clock::now_ms();
    let signs = Signs { pid: status.pid, locked_at: sys::modified_at(&home.lock()), state: state.as_ref(), boot_id: &boot_id };
    let life = Life::of(signs, now);
    if json {
        cli::json(&query::Monitor::of(state));
        return Ok(life.exit());
    }
    let own = state.as_ref().filter(|state| status.pid.is_none_or(|pid| life::is_of(pid, state)));
    if own.is_none() {
        // What the file says of these is the word of the daemon before.
        status = Status { channels: Vec::new(), providers: Vec::new(), sandbox: String::new(), last_error: None, ..status };
    }
    let advice = Advice::new(shared, &env, &home, status.pid);
    let view = View { life, status: &status, state: own, now, advice };
    cli::out(&frame::draw(&view, room(&env), Paint::new(color, &env)));
    Ok(life.exit())
}

/// Returns the room for a frame: that of the terminal but its last line, where the prompt will
/// stand; else what `watch` says, but its title; else 80 × 24.
fn room(env: &Environment) -> Frame {
    use terminal_size::{Height, Width, terminal_size_of};
    if let Some((Width(columns), Height(rows))) =
        terminal_size_of(std::io::stdout()).or_else(|| terminal_size_of(std::io::stderr()))
    {
        return Frame { columns: columns.into(), rows: usize::from(rows).saturating_sub(1).max(1) };
    }
    let said = |name| env.get(name).and_then(|value| value.to_str()?.parse::<usize>().ok()).filter(|n| (1..10_000).contains(n));
    Frame {
        columns: said("COLUMNS").unwrap_or(80),
        rows: said("LINES").map_or(24, |rows| rows.saturating_sub(TITLE_OF_WATCH).max(1)),
    }
}
