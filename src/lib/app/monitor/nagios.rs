//! `--check`: one line and an exit code for what watches many machines: Nagios, Icinga and their like
//! (the guidelines of the Monitoring Plugins Project: text, `|`, performance data; 0, 1, 2, 3).

use std::cell::Cell;
use std::process::ExitCode;

use super::liveness::Life;
use super::numbers::{dollars, some, span};
use super::styled_line::clean;
use crate::app::cli;
use crate::app::cli::{Exit, Failure, Shared};
use crate::app::documents::status::Status;
use crate::monitor_state::STALE_MS;
use crate::{clock, text};

/// Some read the first 4096 bytes, many show a line on a page: what is wrong is cut here.
const MAX_WORDS: usize = 300;
const NEAR: f64 = 0.8;

/// How bad it is; the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Level {
    Ok = 0,
    Warning = 1,
    Critical = 2,
    Unknown = 3,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::Unknown => "UNKNOWN",
        }
    }
}

pub(super) fn main(shared: &Shared) -> ExitCode {
    let level = Cell::new(None);
    let ended = cli::end("agent-monitor", false, || {
        let (worst, line) = match seen(shared) {
            Ok(found) => found,
            Err(failure) => (Level::Unknown, unknown(&failure)),
        };
        cli::out(&line);
        level.set(Some(worst));
        Ok(Exit::Ok)
    });
    // Without a level it broke down; that code is none of the four, which is read as unknown.
    level
        .get()
        .map_or(ended, |level| ExitCode::from(level as u8))
}

fn seen(shared: &Shared) -> Result<(Level, String), Failure> {
    let (env, home) = shared.home()?;
    let (pulse, status) = super::look(&home, &env)?;
    let now = clock::now_ms();
    let own = pulse.own();
    let age = own
        .and_then(|state| clock::parse_rfc3339(&state.updated_at))
        .map(|at| (now - at).max(0));
    let facts = Facts {
        life: pulse.life(now),
        status: &status,
        state: own.map_or("", |state| state.state.as_str()),
        age,
        now,
    };
    Ok(line(&facts, own.map_or(0, |state| state.lanes.len())))
}

fn unknown(failure: &Failure) -> String {
    let message = crate::secret::redact(&failure.message);
    format!("AGENT UNKNOWN - {}", words(&message))
}

struct Facts<'a> {
    life: Life,
    status: &'a Status,
    state: &'a str,
    age: Option<i64>,
    now: i64,
}

fn line(facts: &Facts<'_>, lanes: usize) -> (Level, String) {
    let mut found = vec![life(facts)];
    found.extend(troubles(facts));
    let worst = found
        .iter()
        .map(|(level, _)| *level)
        .max()
        .unwrap_or(Level::Unknown);
    // The worst first; what is well is not said beside it, but for how the daemon is.
    found.sort_by_key(|(level, _)| std::cmp::Reverse(*level));
    let said: Vec<String> = found.into_iter().map(|(_, words)| words).collect();
    let line = format!(
        "AGENT {} - {} | {}",
        worst.word(),
        words(&said.join("; ")),
        numbers(facts, lanes)
    );
    (worst, line)
}

fn life(facts: &Facts<'_>) -> (Level, String) {
    let up = |word: &str| match facts.status.uptime_secs {
        Some(secs) => format!("{word}, up {}", span(secs.saturating_mul(1000))),
        None => word.to_owned(),
    };
    match facts.life {
        Life::Up => (Level::Ok, up(super::lane_table::state(facts.state))),
        Life::Starting { for_ms } => (Level::Ok, format!("starting for {}", span(for_ms))),
        Life::Stopping => (Level::Warning, up("stopping")),
        Life::Stale { silent_ms } => (
            Level::Critical,
            format!("stale, nothing written for {}", span(silent_ms)),
        ),
        Life::Stopped { ago_ms } => (Level::Critical, format!("stopped {} ago", span(ago_ms))),
        Life::Dead { ago_ms, .. } => (
            Level::Critical,
            format!("dead, last seen {} ago", span(ago_ms)),
        ),
        Life::Never => (Level::Critical, "not running, it never ran here".to_owned()),
    }
}

fn troubles(facts: &Facts<'_>) -> Vec<(Level, String)> {
    let status = facts.status;
    let mut found = Vec::new();
    for channel in status
        .channels
        .iter()
        .filter(|channel| !["ok", "connecting"].contains(&channel.state.as_str()))
    {
        let last = channel.last_ok_at.as_deref().and_then(clock::parse_rfc3339);
        let last = last.map_or_else(String::new, |at| {
            format!(", last ok {} ago", span(facts.now - at))
        });
        found.push((
            Level::Critical,
            format!("{}: {}{last}", channel.name, channel.state),
        ));
    }
    let down: Vec<&str> = status
        .providers
        .iter()
        .filter(|one| one.state != "ok")
        .map(|one| one.name.as_str())
        .collect();
    if !down.is_empty() {
        let level = if down.len() == status.providers.len() {
            Level::Critical
        } else {
            Level::Warning
        };
        found.push((level, format!("down: {}", down.join(", "))));
    }
    if status.queue.dead > 0 {
        found.push((Level::Warning, some(status.queue.dead, "dead letter")));
    }
    let (spent, cap) = (status.today_cost_usd, status.today_cap_usd);
    if cap > 0.0 && spent >= cap * NEAR {
        let level = if spent >= cap {
            Level::Critical
        } else {
            Level::Warning
        };
        found.push((
            level,
            format!("{} of {} spent today", dollars(spent), dollars(cap)),
        ));
    }
    if status.sandbox.starts_with("refused") {
        found.push((Level::Warning, "commands do not run: no sandbox".to_owned()));
    }
    found
}

/// Returns the performance data: `label=value;warning;critical;minimum`.
fn numbers(facts: &Facts<'_>, lanes: usize) -> String {
    let status = facts.status;
    let queue = status.queue;
    let limits = match status.today_cap_usd {
        cap if cap > 0.0 => format!("{:.6};{cap:.6}", cap * NEAR),
        _ => ";".to_owned(),
    };
    let mut numbers = vec![
        format!("lanes={lanes};;;0"),
        format!("inbox={};;;0", queue.inbox),
        format!("outbox={};;;0", queue.outbox),
        format!("dead={};0;;0", queue.dead),
        format!("today_usd={:.6};{limits};0", status.today_cost_usd),
    ];
    if let Some(age) = facts.age {
        numbers.push(format!("age={}s;;{};0", age / 1000, STALE_MS / 1000));
    }
    numbers.join(" ")
}

/// Returns words that stay on one line and end no field: `|` begins the performance data.
fn words(words: &str) -> String {
    text::shorten(&clean(words).replace('|', "/"), MAX_WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor_state::{ChannelState, ProviderState, Queue};

    const NOW: i64 = 1_700_000_000_000;

    fn status() -> Status {
        Status {
            alerts: Vec::new(),
            running: true,
            pid: Some(7),
            version: None,
            uptime_secs: Some(125),
            channels: Vec::new(),
            providers: Vec::new(),
            models: Vec::new(),
            active_sessions: 0,
            queue: Queue::default(),
            today_cost_usd: 0.25,
            today_cap_usd: 5.0,
            today_unpriced_calls: 0,
            sandbox: "namespaces".into(),
            sandbox_risk: String::new(),
            last_error: None,
        }
    }

    fn check(life: Life, status: &Status, level: Level, says: &str) {
        let facts = Facts {
            life,
            status,
            state: "idle",
            age: Some(1_500),
            now: NOW,
        };
        let (found, line) = line(&facts, 0);
        let (said, _) = line.split_once(" | ").expect("performance data");
        assert_eq!((found, said), (level, says), "{line}");
    }

    #[test]
    fn a_living_daemon_is_one_line_with_its_numbers() {
        let facts = Facts {
            life: Life::Up,
            status: &status(),
            state: "tools",
            age: Some(1_500),
            now: NOW,
        };
        let expected = "AGENT OK - running tools, up 2m 5s | lanes=2;;;0 inbox=0;;;0 outbox=0;;;0 dead=0;0;;0 \
                        today_usd=0.250000;4.000000;5.000000;0 age=1s;;60;0";
        assert_eq!(line(&facts, 2), (Level::Ok, expected.to_owned()));
        let free = Status {
            today_cap_usd: 0.0,
            ..status()
        };
        let facts = Facts {
            status: &free,
            age: None,
            ..facts
        };
        assert!(line(&facts, 2).1.ends_with("today_usd=0.250000;;;0"));
    }

    #[test]
    fn a_daemon_that_answers_nobody_is_critical() {
        check(
            Life::Never,
            &status(),
            Level::Critical,
            "AGENT CRITICAL - not running, it never ran here",
        );
        check(
            Life::Stopped { ago_ms: 90_000 },
            &status(),
            Level::Critical,
            "AGENT CRITICAL - stopped 1m 30s ago",
        );
        let dead = Life::Dead {
            ago_ms: 302_000,
            rebooted: false,
        };
        check(
            dead,
            &status(),
            Level::Critical,
            "AGENT CRITICAL - dead, last seen 5m 2s ago",
        );
        let stale = Life::Stale { silent_ms: 61_000 };
        check(
            stale,
            &status(),
            Level::Critical,
            "AGENT CRITICAL - stale, nothing written for 1m 1s",
        );
        check(
            Life::Starting { for_ms: 900 },
            &status(),
            Level::Ok,
            "AGENT OK - starting for 0s",
        );
        check(
            Life::Stopping,
            &status(),
            Level::Warning,
            "AGENT WARNING - stopping, up 2m 5s",
        );
    }

    #[test]
    fn what_is_wrong_comes_first_and_ends_no_field() {
        let channel = |name: &str, state: &str, at: Option<i64>| ChannelState {
            name: name.into(),
            state: state.into(),
            last_ok_at: at.map(clock::rfc3339),
            ..ChannelState::default()
        };
        let bad = Status {
            channels: vec![
                channel("telegram", "401 | go\naway", Some(NOW - 65_000)),
                channel("cli", "connecting", None),
            ],
            queue: Queue {
                dead: 2,
                ..Queue::default()
            },
            ..status()
        };
        let says = "AGENT CRITICAL - telegram: 401 / go away, last ok 1m 5s ago; 2 dead letters; idle, up 2m 5s";
        check(Life::Up, &bad, Level::Critical, says);
        let provider = |name: &str, state: &str| ProviderState {
            name: name.into(),
            state: state.into(),
            ..ProviderState::default()
        };
        let half = Status {
            providers: vec![provider("a", "down"), provider("b", "ok")],
            ..status()
        };
        check(
            Life::Up,
            &half,
            Level::Warning,
            "AGENT WARNING - down: a; idle, up 2m 5s",
        );
        let all = Status {
            providers: vec![provider("a", "down"), provider("b", "down")],
            ..status()
        };
        check(
            Life::Up,
            &all,
            Level::Critical,
            "AGENT CRITICAL - down: a, b; idle, up 2m 5s",
        );
        let near = Status {
            today_cost_usd: 4.0,
            ..status()
        };
        check(
            Life::Up,
            &near,
            Level::Warning,
            "AGENT WARNING - $4.00 of $5.00 spent today; idle, up 2m 5s",
        );
        let over = Status {
            today_cost_usd: 5.0,
            sandbox: "refused: no user namespaces".into(),
            ..status()
        };
        let says = "AGENT CRITICAL - $5.00 of $5.00 spent today; commands do not run: no sandbox; idle, up 2m 5s";
        check(Life::Up, &over, Level::Critical, says);
    }

    #[test]
    fn what_cannot_be_told_is_unknown() {
        let failure = Failure::new(Exit::Data, "queue.db is damaged\n| x").hint("none");
        assert_eq!(unknown(&failure), "AGENT UNKNOWN - queue.db is damaged / x");
        let long = unknown(&Failure::new(Exit::Io, "y".repeat(9_000)));
        assert!(long.chars().count() < 400 && long.ends_with('…'));
    }
}
