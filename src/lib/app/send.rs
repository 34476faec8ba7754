//! `agent-send`: talk to the daemon from a shell.
//!
//! A message is safe when this program ends: it lies in the spool, whether a daemon listens or
//! not. The same `--id` is the same message, so a retry never doubles.

mod arguments;
mod pair;
mod talk;

use std::process::ExitCode;

use arguments::{Arguments, Verb};

use super::cli::{self, Exit, Failure};
use super::query;
use crate::text;

/// Runs the program.
pub fn main() -> ExitCode {
    match cli::parse::<Arguments>() {
        Ok(arguments) => {
            let json = arguments.json;
            cli::end("agent-send", json, run(arguments))
        }
        Err(code) => code,
    }
}

fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let (env, home) = arguments.shared.home()?;
    match arguments.verb()? {
        Verb::Say(message) => talk::say(&home, &message),
        Verb::Result { id, wait, json } => talk::result(&home, &id, wait, json),
        Verb::Stop { session, json } => talk::stop(&home, session, json),
        Verb::Pair { words, json } => pair::pair(&home, &words, json),
        Verb::Queue { json } => queue(&query::queue(&home)?, json),
        Verb::Status { json } => status(&query::status(&home, &env)?, json),
    }
}

fn queue(queue: &query::Queue, json: bool) -> Result<Exit, Failure> {
    if json {
        cli::json(queue);
        return Ok(Exit::Ok);
    }
    for row in queue.inbox.iter().chain(&queue.outbox) {
        cli::out(&format!(
            "{:<8} {}  {}  {}  {} tries",
            row.state,
            row.created_at,
            row.id,
            text::visible(&row.place),
            row.attempts
        ));
    }
    for row in &queue.dead {
        cli::out(&format!("dead     {}  {}  {} tries: {}", row.created_at, row.id, row.attempts, text::visible(&row.reason)));
    }
    Ok(Exit::Ok)
}

fn status(status: &query::Status, json: bool) -> Result<Exit, Failure> {
    if json {
        cli::json(status);
    } else {
        let pid = status.pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
        cli::out(&format!("{}{pid}", if status.running { "running" } else { "not running" }));
        if status.running {
            cli::out(&format!("version:  {}", status.version.as_deref().unwrap_or("?")));
            cli::out(&format!("up:       {} s", status.uptime_secs.unwrap_or(0)));
            cli::out(&format!("models:   {}", status.models.join(", ")));
            cli::out(&format!("sandbox:  {}", status.sandbox));
            cli::out(&format!("          {}", status.sandbox_risk));
        }
        for channel in &status.channels {
            cli::out(&format!("{}: {}", channel.name, channel.state));
        }
        let queue = status.queue;
        cli::out(&format!("queue:    {} in, {} out, {} dead", queue.inbox, queue.outbox, queue.dead));
        cli::out(&format!("today:    ${:.4}", status.today_cost_usd));
        if let Some(error) = &status.last_error {
            cli::out(&format!("trouble:  {error}"));
        }
    }
    Ok(if status.running { Exit::Ok } else { Exit::NoDaemon })
}
