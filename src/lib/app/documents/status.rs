//! `status`: whether a daemon is running, its state, and open work.

use serde::Serialize;

use crate::app::cli::Failure;
use crate::config;
use crate::config::{Config, Environment, Home};
use crate::control::spool;
use crate::sys::lock;
use crate::{clock, cost, monitor_state, queue, sys};

/// `status`.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Status {
    pub running: bool,
    pub pid: Option<i32>,
    pub version: Option<String>,
    pub uptime_secs: Option<i64>,
    pub channels: Vec<monitor_state::ChannelState>,
    pub providers: Vec<monitor_state::ProviderState>,
    pub(crate) models: Vec<String>,
    pub active_sessions: usize,
    pub queue: monitor_state::Queue,
    /// What messages wait for that were accepted and cannot be answered now.
    pub waits: Vec<Waits>,
    /// Questions that wait for the owner, and since when the oldest does.
    pub questions: usize,
    pub oldest_question_at: Option<String>,
    pub today_cost_usd: f64,
    /// The most they may become today, 0 = no cap.
    pub today_cap_usd: f64,
    /// Calls since then that have no price and are not in the sum.
    pub today_unpriced_calls: i64,
    pub alerts: Vec<Alert>,
    /// Whether settings files differ from those that the daemon has read; the caps here are those of the files.
    pub unread_settings: Option<String>,
    /// The wall around `exec`.
    pub sandbox: String,
    pub sandbox_risk: String,
    /// The newest troubles, a line each.
    pub last_error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Alert {
    /// The limit: `day_usd` or `month_usd`.
    pub setting: &'static str,
    pub limit_usd: f64,
    /// 50, 80, or 100: all of it, or a call was refused.
    pub percent: i64,
    pub spent_usd: f64,
    /// When.
    pub at: String,
}

/// What some messages wait for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Waits {
    /// In plain words.
    pub waits_for: String,
    /// How many.
    pub count: usize,
    /// Since when, RFC 3339 UTC.
    pub since: String,
}

/// Returns what messages wait for, each thing once.
fn waits(home: &Home) -> Result<Vec<Waits>, Failure> {
    let mut waits: Vec<Waits> = Vec::new();
    let open = queue::listing(&home.queue_db())?.inbox;
    for suspended in open.into_iter().filter_map(|row| row.suspended) {
        let since = clock::rfc3339(suspended.since);
        match waits
            .iter_mut()
            .find(|one| one.waits_for == suspended.waits_for)
        {
            Some(one) => {
                one.count += 1;
                one.since = since.min(std::mem::take(&mut one.since));
            }
            None => waits.push(Waits {
                waits_for: suspended.waits_for,
                count: 1,
                since,
            }),
        }
    }
    Ok(waits)
}

/// Returns how many commands are in the spool that no daemon has taken in.
fn spooled(home: &Home) -> Result<i64, Failure> {
    let files = spool::scan(&home.spool_new())?.len();
    Ok(i64::try_from(files).unwrap_or(i64::MAX))
}

impl From<&cost::Alert> for Alert {
    fn from(alert: &cost::Alert) -> Self {
        Self {
            setting: alert.setting(),
            limit_usd: alert.limit_usd,
            percent: alert.percent,
            spent_usd: alert.spent_usd,
            at: clock::rfc3339(alert.at),
        }
    }
}

/// Returns the status document; a daemon need not run.
pub(crate) fn status(home: &Home, env: &Environment) -> Result<Status, Failure> {
    status_with(home, env, monitor_state::read(&home.monitor())?)
}

pub(crate) fn status_with(
    home: &Home,
    env: &Environment,
    last: Option<monitor_state::State>,
) -> Result<Status, Failure> {
    let pid = lock::holder(&home.lock())?;
    let last = last.unwrap_or_default();
    let own = pid.is_some_and(|pid| last.is_of(pid));
    let live = if own {
        last.clone()
    } else {
        monitor_state::State::default()
    };
    let unread_settings = live.unread_settings(home);
    let started = clock::parse_rfc3339(&live.started_at);
    let counts = queue::counts(&home.queue_db())?;
    let asked = queue::approvals(&home.queue_db(), clock::now_ms())?;
    let (config, spent) = today(home, env)?;
    let alerts = cost::alerts(
        &home.cost_db(),
        clock::now_ms(),
        config.agent.timezone.0,
        &config.cost,
    )?;
    Ok(Status {
        running: pid.is_some(),
        pid,
        version: pid
            .map(|_| live.version.clone())
            .filter(|version| !version.is_empty()),
        uptime_secs: pid
            .and(started)
            .map(|started| (clock::now_ms() - started).max(0) / 1000),
        channels: live.channels,
        providers: live.providers,
        models: live.models,
        active_sessions: last.active_sessions,
        queue: monitor_state::Queue {
            inbox: counts.inbox + spooled(home)?,
            outbox: counts.outbox,
            dead: counts.dead,
        },
        waits: waits(home)?,
        questions: asked.len(),
        oldest_question_at: asked.first().map(|one| clock::rfc3339(one.created_at)),
        today_cost_usd: cost::total_usd(&spent),
        today_cap_usd: config.cost.day_usd,
        alerts: alerts.iter().map(Alert::from).collect(),
        today_unpriced_calls: spent.iter().map(|line| line.unpriced_calls).sum(),
        unread_settings,
        sandbox: live.sandbox,
        sandbox_risk: live.sandbox_risk,
        last_error: silence(home, (pid.is_some(), own), &last).or(last.last_error),
    })
}

/// Returns that settings files are not as the running daemon has read them.
pub(super) fn unread_settings(home: &Home) -> Result<Option<String>, Failure> {
    let (pid, last) = (
        lock::holder(&home.lock())?,
        monitor_state::read(&home.monitor())?,
    );
    let own = last.filter(|last| pid.is_some_and(|pid| last.is_of(pid)));
    Ok(own.and_then(|own| own.unread_settings(home)))
}

/// Returns the trouble that the daemon cannot tell itself: its disk is full, or it has not written for too long. It may run,
/// and the state may be its `own`.
fn silence(home: &Home, (runs, own): (bool, bool), last: &monitor_state::State) -> Option<String> {
    let now = clock::now_ms();
    if runs && sys::is_full(home.state()) {
        let (at, state) = (clock::rfc3339(now), home.state().display());
        return Some(format!(
            "{at} the disk of {state} is full: nothing can be stored; make room"
        ));
    }
    let written = clock::parse_rfc3339(&last.updated_at)?;
    (own && now - written > monitor_state::STALE_MS).then(|| {
        let (at, seconds) = (clock::rfc3339(now), (now - written) / 1000);
        format!("{at} state/monitor.json is {seconds} s old: the daemon hangs, or cannot write to its disk")
    })
}

fn today(home: &Home, env: &Environment) -> Result<(Config, Vec<cost::Line>), Failure> {
    let config = config::load_config(home, env).unwrap_or_default();
    let now = clock::now_ms();
    let day = cost::start_of_day(now, config.agent.timezone.0);
    let lines = cost::by_model(&home.cost_db(), day, now)?;
    Ok((config, lines))
}
