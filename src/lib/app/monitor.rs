//! `agent-monitor`: one frame of what the daemon is doing, for `watch`.

use std::process::ExitCode;

use clap::Parser;

use super::cli::{self, Exit, Failure, Shared};
use super::query::{self, Status};
use crate::monitor::{self, Lane, State};
use crate::{clock, text};

/// A working daemon writes at least every 15 s; after four times that something is wrong.
const STALE_MS: i64 = 60_000;

/// Show what the daemon is doing right now
///
/// Exit code: 0 idle or working, 1 stale for more than 60 s, 69 not running.
#[derive(Debug, Parser)]
#[command(name = "agent-monitor", version = cli::version(), after_help = "Example: watch -n1 agent-monitor")]
struct Arguments {
    #[command(flatten)]
    shared: Shared,
    /// Print monitor.json
    #[arg(long)]
    json: bool,
}

/// Runs the program.
pub fn main() -> ExitCode {
    match cli::parse::<Arguments>() {
        Ok(arguments) => cli::end("agent-monitor", arguments.json, frame(&arguments)),
        Err(code) => code,
    }
}

fn frame(arguments: &Arguments) -> Result<Exit, Failure> {
    let (env, home) = arguments.shared.home()?;
    let status = query::status(&home, &env)?;
    let state = monitor::read(&home.monitor())?;
    let now = clock::now_ms();
    if arguments.json {
        match &state {
            Some(state) => cli::json(state),
            None => cli::json(&serde_json::json!({"state": "unknown"})),
        }
    } else {
        cli::out(draw(&status, state.as_ref(), now).trim_end());
    }
    let age = state.as_ref().and_then(|state| clock::parse_rfc3339(&state.updated_at)).map(|updated| now - updated);
    Ok(match (status.running, age) {
        (false, _) => Exit::NoDaemon,
        (true, Some(age)) if age > STALE_MS => Exit::Failed,
        (true, _) => Exit::Ok,
    })
}

fn draw(status: &Status, state: Option<&State>, now: i64) -> String {
    let Some(state) = state else {
        return if status.running { "the daemon is starting" } else { "the daemon is not running and never was" }.to_owned();
    };
    let since = |at: &str| clock::parse_rfc3339(at).map_or_else(|| "?".to_owned(), |at| span(now - at));
    let mut frame = if status.running {
        format!("{}  pid {}  up {}  {}\n", state.state, state.pid, since(&state.started_at), state.version)
    } else {
        format!("NOT RUNNING  last seen {} ago\n", since(&state.updated_at))
    };
    let age = clock::parse_rfc3339(&state.updated_at).map_or(0, |at| now - at);
    if status.running && age > STALE_MS {
        frame.push_str(&format!("STALE  nothing was written for {}\n", span(age)));
    }
    for channel in &status.channels {
        let last = channel.last_ok_at.as_deref().map_or_else(String::new, |at| format!("  last {} ago", since(at)));
        frame.push_str(&format!("{:<9} {}{last}\n", channel.name, text::shorten(&channel.state, 60)));
    }
    let queue = status.queue;
    frame.push_str(&format!("queue     {} in  {} out  {} dead\n", queue.inbox, queue.outbox, queue.dead));
    frame.push_str(&format!("today     ${:.4}\n", status.today_cost_usd));
    if status.running {
        frame.push_str(&format!("sandbox   {}\n", state.sandbox));
        for lane in &state.lanes {
            frame.push_str(&draw_lane(lane, now));
        }
    }
    if let Some(error) = &status.last_error {
        frame.push_str(&format!("trouble   {}\n", text::shorten(&text::visible(error), 200)));
    }
    frame
}

fn draw_lane(lane: &Lane, now: i64) -> String {
    let since = clock::parse_rfc3339(&lane.started_at).map_or(0, |at| now - at);
    let contact = text::shorten(&text::visible(&lane.contact), 24);
    let mut out = format!("\n{contact}  {} step {}  {}  {}\n", lane.state, lane.turn, span(since), lane.model);
    for turn in &lane.turns {
        let tools = if turn.tools.is_empty() { String::new() } else { format!(" → {}", turn.tools.join(", ")) };
        let millis = i64::try_from(turn.duration_ms).unwrap_or(i64::MAX);
        out.push_str(&format!("  {:>7}  {:>7} tokens  {}{tools}\n", span(millis), turn.tokens, turn.stop_reason));
    }
    if !lane.tools_in_flight.is_empty() {
        out.push_str(&format!("  running  {}\n", lane.tools_in_flight.join(", ")));
    }
    out
}

/// Returns a span of milliseconds in two units at most.
fn span(millis: i64) -> String {
    let secs = millis.max(0) / 1000;
    match secs {
        0..10 => format!("{}.{}s", secs, millis.max(0) % 1000 / 100),
        10..60 => format!("{secs}s"),
        60..3600 => format!("{}m {}s", secs / 60, secs % 60),
        3600..86400 => format!("{}h {}m", secs / 3600, secs % 3600 / 60),
        _ => format!("{}d {}h", secs / 86400, secs % 86400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_two_units() {
        let spans =
            [(1_500, "1.5s"), (42_000, "42s"), (61_000, "1m 1s"), (3_660_000, "1h 1m"), (90_000_000, "1d 1h"), (-5, "0.0s")];
        for (millis, text) in spans {
            assert_eq!(span(millis), text);
        }
    }
}
