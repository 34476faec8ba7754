//! What can be asked with or without a daemon: read from files, answered as the documents of the
//! specification's Appendix B.

use serde::Serialize;

use super::cli::Failure;
use crate::config::{self, Environment, Home};
use crate::sys::lock;
use crate::{clock, cost, monitor, queue};

/// `status`.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// Whether a daemon holds the lock.
    pub running: bool,
    /// Its process id.
    pub pid: Option<i32>,
    /// Its version.
    pub version: Option<String>,
    /// How long it has run.
    pub uptime_secs: Option<i64>,
    /// Its channels.
    pub channels: Vec<monitor::ChannelState>,
    /// Its models.
    pub models: Vec<String>,
    /// Conversations there are.
    pub active_sessions: usize,
    /// Open and dead rows.
    pub queue: monitor::Queue,
    /// US dollars since the local midnight.
    pub today_cost_usd: f64,
    /// The wall around `exec`.
    pub sandbox: String,
    /// What a hostile command could still do behind it.
    pub sandbox_risk: String,
    /// The newest trouble.
    pub last_error: Option<String>,
}

/// Returns the status document; a daemon need not run.
///
/// # Errors
/// When state files exist and cannot be read.
pub fn status(home: &Home, env: &Environment) -> Result<Status, Failure> {
    let pid = lock::holder(&home.lock())?;
    let last = monitor::read(&home.monitor())?.unwrap_or_default();
    let live = if pid.is_some() { last.clone() } else { monitor::State::default() };
    let started = clock::parse_rfc3339(&live.started_at);
    let counts = queue::counts(&home.queue_db())?;
    Ok(Status {
        running: pid.is_some(),
        pid,
        version: pid.map(|_| live.version.clone()).filter(|version| !version.is_empty()),
        uptime_secs: pid.and(started).map(|started| (clock::now_ms() - started) / 1000),
        channels: live.channels,
        models: live.models,
        active_sessions: last.active_sessions,
        queue: monitor::Queue { inbox: counts.inbox, outbox: counts.outbox, dead: counts.dead },
        today_cost_usd: today(home, env)?,
        sandbox: live.sandbox,
        sandbox_risk: live.sandbox_risk,
        last_error: last.last_error,
    })
}

/// `queue`.
#[derive(Debug, Clone, Serialize)]
pub struct Queue {
    /// Inputs not yet answered, oldest first.
    pub inbox: Vec<Open>,
    /// Parts not yet sent, oldest first.
    pub outbox: Vec<Open>,
    /// What was given up, oldest first.
    pub dead: Vec<Dead>,
}

/// A row that is on its way.
#[derive(Debug, Clone, Serialize)]
pub struct Open {
    /// The input's id, or `out-<n>`.
    pub id: String,
    /// The session or the chat.
    pub place: String,
    /// Its state.
    pub state: String,
    /// How often it was tried.
    pub attempts: i64,
    /// Since when, RFC 3339 UTC.
    pub created_at: String,
}

/// A dead letter.
#[derive(Debug, Clone, Serialize)]
pub struct Dead {
    /// The input's id, or `out-<n>`.
    pub id: String,
    /// `inbox` or `outbox`.
    pub kind: String,
    /// Since when, RFC 3339 UTC.
    pub created_at: String,
    /// How often it was tried.
    pub attempts: i64,
    /// Why it was given up.
    pub reason: String,
}

/// Returns the queue document; a daemon need not run.
///
/// # Errors
/// When `queue.db` exists and cannot be read.
pub fn queue(home: &Home) -> Result<Queue, Failure> {
    let listing = queue::listing(&home.queue_db())?;
    let open = |row: queue::Open| Open {
        id: row.id,
        place: row.place,
        state: row.state,
        attempts: row.attempts,
        created_at: clock::rfc3339(row.created_at),
    };
    let dead = |row: queue::Dead| Dead {
        id: row.id,
        kind: row.kind,
        created_at: clock::rfc3339(row.created_at),
        attempts: row.attempts,
        reason: row.reason,
    };
    Ok(Queue {
        inbox: listing.inbox.into_iter().map(open).collect(),
        outbox: listing.outbox.into_iter().map(open).collect(),
        dead: listing.dead.into_iter().map(dead).collect(),
    })
}

/// Returns US dollars spent since the local midnight.
fn today(home: &Home, env: &Environment) -> Result<f64, Failure> {
    let zone = config::load_config(home, env).map(|config| config.agent.timezone.0).unwrap_or(chrono_tz::UTC);
    let lines = cost::by_model(&home.cost_db(), cost::start_of_day(clock::now_ms(), zone))?;
    Ok(cost::total_usd(&lines))
}
