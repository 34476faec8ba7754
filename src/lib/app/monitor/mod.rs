//! `agent-monitor`: one frame of what the daemon is doing, for `watch`; one line for monitoring systems (`--check`); or
//! the whole screen (`--follow`).
//!
//! ```text
//! lock, monitor.json ─────────→ health ┐
//! queue.db, cost.db, settings → totals ┴→ view → frame (facts, lanes) → lines → paint
//! ```
//! Everything after the reading is pure: the same view in the same space gives the same frame.

mod advice;
mod follow;
mod frame;
mod health;
mod lane_table;
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
use crate::config::{Environment, Home};
use crate::monitor_state::{Lane, Queue};
use crate::{clock, jobs};
use advice::Advice;
use frame::Frame;
use health::{Health, Life};

/// Lines that `watch` puts above what it runs.
const TITLE_OF_WATCH: usize = 2;

/// Show what the daemon is doing right now
///
/// Exit code: 0 idle or working, 1 stale (running, but nothing written for more than 60 s) or disk full, 69 not
/// running.
/// With --check that of a Nagios plugin: 0 OK to 3 UNKNOWN.
#[derive(Debug, Parser)]
#[command(name = "agent-monitor", version = cli::version(), after_help = "Example: watch -c -n1 agent-monitor --color=always")]
struct Arguments {
    #[command(flatten)]
    shared: Shared,
    /// Print monitor.json
    #[arg(long)]
    json: bool,
    /// Use the whole screen and update it continuously; ? shows the keys, q quits
    #[arg(long, conflicts_with = "json")]
    follow: bool,
    /// Print one line for Nagios and similar systems
    #[arg(long, conflicts_with_all = ["json", "follow"])]
    check: bool,
    /// Use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: Color,
}

/// What is drawn.
#[derive(Debug, Clone, Default)]
struct View {
    now: i64,
    health: Health,
    totals: Totals,
    advice: Advice,
}

/// What the databases and the jobs say.
#[derive(Debug, Clone, Default)]
struct Totals {
    queue: Queue,
    today_usd: f64,
    /// The most it may become today, 0 = no cap.
    cap_usd: f64,
    unpriced_calls: i64,
    /// Questions that wait for the owner, and since when the oldest does, milliseconds since 1970 UTC.
    questions: (usize, i64),
    next_job: Option<NextJob>,
}

/// A job's name, and its next time in milliseconds since 1970 UTC.
type NextJob = (String, i64);

impl View {
    fn read(shared: &Shared, env: &Environment, home: &Home) -> Result<Self, Failure> {
        let health = Health::read(home)?;
        let status = documents::status::status_with(home, env, health.file.clone())?;
        let totals = Totals {
            queue: status.queue,
            today_usd: status.today_cost_usd,
            cap_usd: status.today_cap_usd,
            unpriced_calls: status.today_unpriced_calls,
            questions: (
                status.questions,
                status
                    .oldest_question_at
                    .as_deref()
                    .and_then(clock::parse_rfc3339)
                    .unwrap_or_default(),
            ),
            next_job: next_job(home),
        };
        Ok(Self {
            now: clock::now_ms(),
            advice: Advice::new(shared, env, home, health.pid),
            health,
            totals,
        })
    }

    fn life(&self) -> Life {
        self.health.life(self.now)
    }

    /// Returns the turns in monitor.json.
    fn lanes(&self) -> &[Lane] {
        self.health.own().map_or(&[], |state| &state.lanes)
    }

    /// Returns the time of which the lanes speak.
    fn seen_at(&self) -> i64 {
        match self.life() {
            Life::Stale { silent_ms } => self.now - silent_ms,
            _ => self.now,
        }
    }
}

/// Returns the job that comes next; none where the jobs cannot be read, which others say.
fn next_job(home: &Home) -> Option<NextJob> {
    let known = jobs::read(&home.jobs()).ok()?;
    let coming = known
        .iter()
        .filter(|job| job.enabled)
        .filter_map(|job| Some((job.name.clone(), job.next_at?.0)));
    coming.min_by_key(|(_, at)| *at)
}

/// Returns the command line.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the program.
pub fn main() -> ExitCode {
    if cli::arguments() == ["help"] {
        cli::out(&Arguments::command().render_long_help().to_string());
        return ExitCode::SUCCESS;
    }
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
    cli::named_settings_must_be_there(&home)?;
    cli::must_be_there(&home)?;
    if json {
        let health = Health::read(&home)?;
        let life = health.life(clock::now_ms());
        cli::json(&documents::monitor::Monitor::of(health.file));
        return Ok(life.exit());
    }
    let view = View::read(shared, &env, &home)?;
    cli::out(&frame::draw(&view, room(&env), Paint::new(color, &env)));
    Ok(view.life().exit())
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
    let number = |name| {
        let number: Option<usize> = env.get(name)?.to_str()?.parse().ok();
        number.filter(|n| (1..10_000).contains(n))
    };
    Frame {
        columns: number("COLUMNS").unwrap_or(80),
        rows: number("LINES").map_or(24, |rows| rows.saturating_sub(TITLE_OF_WATCH).max(1)),
    }
}

#[cfg(test)]
mod tests;
