//! `agent-monitor`: one frame of what the daemon is doing, for `watch`; one line for what watches many
//! machines (`--check`); or the whole screen (`--follow`).
//!
//! ```text
//! lock, monitor.json → pulse → life (alive, how?) ┐
//! queue.db, cost.db, settings → status            ┴→ frame (facts, lanes) → lines → paint
//! ```
//! Everything after the reading is pure: the same view in the same room is the same frame.

mod advice;
mod follow;
mod frame;
mod health;
mod lane_table;
mod liveness;
mod nagios;
mod numbers;
mod sections;
mod styled_line;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use super::cli;
use super::cli::{Exit, Failure, Shared};
use super::color::{Color, Paint};
use super::documents;
use super::documents::status::Status;
use crate::config::{Environment, Home};
use crate::monitor_state::{Lane, State};
use crate::{clock, jobs};
use advice::Advice;
use frame::Frame;
use health::Pulse;
use liveness::Life;

/// Lines that `watch` puts above what it runs.
const TITLE_OF_WATCH: usize = 2;

/// Show what the daemon is doing right now
///
/// Exit code: 0 idle or working, 1 stale (it lives, and wrote nothing for more than 60 s), 69 not running.
/// With --check that of a Nagios plugin: 0 OK to 3 UNKNOWN.
#[derive(Debug, Parser)]
#[command(name = "agent-monitor", version = cli::version(), after_help = "Example: watch -c -n1 agent-monitor --color=always")]
struct Arguments {
    #[command(flatten)]
    shared: Shared,
    /// Print monitor.json
    #[arg(long)]
    json: bool,
    /// Fill the screen and keep it up to date; ? shows the keys, q quits
    #[arg(long, conflicts_with = "json")]
    follow: bool,
    /// Print one line for Nagios and its like
    #[arg(long, conflicts_with_all = ["json", "follow"])]
    check: bool,
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
    /// The job that comes next, and when.
    next_job: Option<NextJob>,
}

/// A job's name, and its next time in milliseconds since 1970 UTC.
type NextJob = (String, i64);

/// Returns the job that comes next; none where the jobs cannot be read, which others say.
fn next_job(home: &Home) -> Option<NextJob> {
    let known = jobs::read(&home.jobs()).ok()?;
    let coming = known
        .iter()
        .filter(|job| job.enabled)
        .filter_map(|job| Some((job.name.clone(), job.next_at?.0)));
    coming.min_by_key(|(_, at)| *at)
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
        Ok(arguments) if arguments.check => nagios::main(&arguments.shared),
        Ok(arguments) => cli::end("agent-monitor", arguments.json, || {
            if arguments.follow {
                return follow::follow(&arguments.shared, arguments.color);
            }
            show(&arguments.shared, arguments.json, arguments.color)
        }),
        Err(code) => code,
    }
}

/// Prints the frame, or monitor.json, and returns what the daemon's life means as an exit code.
pub(super) fn show(shared: &Shared, json: bool, color: Color) -> Result<Exit, Failure> {
    let (env, home) = shared.home()?;
    if json {
        let pulse = Pulse::take(&home)?;
        let life = pulse.life(clock::now_ms());
        cli::json(&documents::monitor::Monitor::of(pulse.file));
        return Ok(life.exit());
    }
    let (pulse, status) = look(&home, &env)?;
    let now = clock::now_ms();
    let advice = Advice::new(shared, &env, &home, status.pid);
    let next_job = next_job(&home);
    let view = View {
        life: pulse.life(now),
        status: &status,
        state: pulse.own(),
        now,
        advice,
        next_job,
    };
    cli::out(&frame::draw(&view, room(&env), Paint::new(color, &env)));
    Ok(view.life.exit())
}

/// Reads what is known of the daemon.
fn look(home: &Home, env: &Environment) -> Result<(Pulse, Status), Failure> {
    let pulse = Pulse::take(home)?;
    let mut status = documents::status::status_with(home, env, pulse.file.clone())?;
    // It may have come or gone between the two looks.
    (status.pid, status.running) = (pulse.pid, pulse.pid.is_some());
    if pulse.own().is_none() {
        // What the file says of these is the word of the daemon before.
        status = Status {
            channels: Vec::new(),
            providers: Vec::new(),
            sandbox: String::new(),
            last_error: None,
            ..status
        };
    }
    Ok((pulse, status))
}

/// Returns the room for a frame: that of the terminal but its last line, where the prompt will
/// stand; else what `watch` says, but its title; else 80 × 24.
fn room(env: &Environment) -> Frame {
    use terminal_size::{Height, Width, terminal_size_of};
    if let Some((Width(columns), Height(rows))) =
        terminal_size_of(std::io::stdout()).or_else(|| terminal_size_of(std::io::stderr()))
    {
        return Frame {
            columns: columns.into(),
            rows: usize::from(rows).saturating_sub(1).max(1),
        };
    }
    let said = |name| {
        env.get(name)
            .and_then(|value| value.to_str()?.parse::<usize>().ok())
            .filter(|n| (1..10_000).contains(n))
    };
    Frame {
        columns: said("COLUMNS").unwrap_or(80),
        rows: said("LINES").map_or(24, |rows| rows.saturating_sub(TITLE_OF_WATCH).max(1)),
    }
}

#[cfg(test)]
mod tests;
