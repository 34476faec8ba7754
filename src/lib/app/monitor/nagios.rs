//! `--check`: one line and an exit code for monitoring systems such as Nagios and Icinga
//! (the guidelines of the Monitoring Plugins Project: text, `|`, performance data; 0, 1, 2, 3).

use std::cell::Cell;
use std::process::ExitCode;

use super::View;
use super::health::{Life, NotHere};
use super::lane_table;
use super::numbers::{dollars, span};
use super::styled_line::clean;
use crate::app::cli;
use crate::app::cli::{Exit, Failure, Shared};
use crate::monitor_state::{ProviderState, STALE_MS, State};
use crate::{clock, config, jobs, text};

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
    let view = View::read(shared, &env, &home)?;
    let settings = config::load(&home, &env, &[]).err();
    let faults = settings.map(|error| error.to_string()).into_iter();
    let faults = faults.chain(jobs::set_aside(&home.jobs())).collect();
    Ok(line(&view, faults))
}

fn unknown(failure: &Failure) -> String {
    let message = crate::secret::redact(&failure.message);
    format!("AGENT UNKNOWN - {}", words(&message))
}

/// Returns the line; `faults` are those of the files that the owner writes.
fn line(view: &View, faults: Vec<String>) -> (Level, String) {
    let mut found = vec![life(view)];
    found.extend(troubles(view));
    found.extend(faults.into_iter().map(|fault| (Level::Warning, fault)));
    // The worst first; with a problem, only the state of the daemon is added.
    found.sort_by_key(|(level, _)| std::cmp::Reverse(*level));
    let worst = found.first().map_or(Level::Unknown, |(level, _)| *level);
    let said: Vec<String> = found.into_iter().map(|(_, words)| words).collect();
    let (said, numbers) = (words(&said.join("; ")), numbers(view));
    (
        worst,
        format!("AGENT {} - {said} | {numbers}", worst.word()),
    )
}

fn life(view: &View) -> (Level, String) {
    match &view.health.not_here {
        // Its copies come in: all that is asked of it.
        Some(NotHere { why, alarm: None }) => return (Level::Ok, why.message.clone()),
        Some(NotHere {
            alarm: Some(alarm), ..
        }) => return (Level::Critical, alarm.clone()),
        None => {}
    }
    let live = view.health.live();
    let up = |word: &str| match live.and_then(|state| clock::parse_rfc3339(&state.started_at)) {
        Some(at) => format!("{word}, up {}", span(view.now - at)),
        None => word.to_owned(),
    };
    match view.life() {
        Life::Up => {
            let state = live.map_or("", State::activity);
            (Level::Ok, up(lane_table::state(state)))
        }
        Life::Full => (Level::Critical, up("cannot write, the disk is full")),
        Life::Starting { for_ms } => (Level::Ok, format!("starting for {}", span(for_ms))),
        Life::Stopping => (Level::Warning, up("stopping")),
        Life::Stale { silent_ms } => {
            let words = format!("stale, nothing written for {}", span(silent_ms));
            (Level::Critical, words)
        }
        Life::Stopped { ago_ms } => (Level::Critical, format!("stopped {} ago", span(ago_ms))),
        Life::Dead { ago_ms, .. } => (
            Level::Critical,
            format!("dead, last seen {} ago", span(ago_ms)),
        ),
        Life::Never => (Level::Critical, "not running, it never ran here".to_owned()),
    }
}

/// Returns what is wrong. Without anybody who answers it is critical, else somebody should know.
fn troubles(view: &View) -> Vec<(Level, String)> {
    let (live, totals) = (view.health.live(), &view.totals);
    let grave = |is_critical| {
        if is_critical {
            Level::Critical
        } else {
            Level::Warning
        }
    };
    let mut found = Vec::new();
    for channel in live.iter().flat_map(|state| &state.channels) {
        if !["ok", "connecting"].contains(&channel.state.as_str()) {
            let last = channel.last_ok_at.as_deref().and_then(clock::parse_rfc3339);
            let last = last.map_or_else(String::new, |at| {
                format!(", last ok {} ago", span(view.now - at))
            });
            let words = format!("{}: {}{last}", channel.name, channel.state);
            found.push((Level::Critical, words));
        }
    }
    let providers = live.map_or(&[][..], |state| &state.providers);
    let down = providers.iter().filter(|one| one.state != "ok");
    let down: Vec<&str> = down.map(|one| one.name.as_str()).collect();
    if !down.is_empty() {
        let words = format!("down: {}", down.join(", "));
        // `offline` is never down, and answers in nobody's place.
        let answers = |one: &ProviderState| one.state == "ok" && one.name != "offline";
        found.push((grave(!providers.iter().any(answers)), words));
    }
    if totals.queue.dead > 0 {
        found.push((
            Level::Warning,
            text::counted(totals.queue.dead, "dead letter"),
        ));
    }
    if let (count @ 1.., since) = totals.questions {
        let waiting = crate::text::counted(count, "question");
        let words = format!("{waiting} for you since {}", span(view.now - since));
        found.push((Level::Warning, words));
    }
    let (spent, cap) = (totals.today_usd, totals.cap_usd);
    if cap > 0.0 && spent >= cap * NEAR {
        let words = format!("{} of {} spent today", dollars(spent), dollars(cap));
        found.push((grave(spent >= cap), words));
    }
    if live.is_some_and(|state| state.sandbox.starts_with("refused")) {
        found.push((Level::Warning, "commands do not run: no sandbox".to_owned()));
    }
    found
}

/// Returns the performance data: `label=value;warning;critical;minimum`.
fn numbers(view: &View) -> String {
    let (totals, queue) = (&view.totals, view.totals.queue);
    let limits = match totals.cap_usd {
        cap if cap > 0.0 => format!("{:.6};{cap:.6}", cap * NEAR),
        _ => ";".to_owned(),
    };
    let mut numbers = vec![
        format!("lanes={};;;0", view.lanes().len()),
        format!("inbox={};;;0", queue.inbox),
        format!("outbox={};;;0", queue.outbox),
        format!("dead={};0;;0", queue.dead),
        format!("today_usd={:.6};{limits};0", totals.today_usd),
    ];
    let written = view.health.own().map(|state| &state.updated_at);
    if let Some(at) = written.and_then(|at| clock::parse_rfc3339(at)) {
        let age = (view.now - at).max(0) / 1000;
        numbers.push(format!("age={age}s;;{};0", STALE_MS / 1000));
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
    use crate::app::monitor::Totals;
    use crate::app::monitor::health::Health;
    use crate::monitor_state::{ChannelState, Queue};

    const NOW: i64 = 1_700_000_000_000;

    fn check(state: State, queue: Queue, usd: (f64, f64), level: Level, expected: &str) {
        let state = State {
            state: "idle".into(),
            started_at: clock::rfc3339(NOW - 125_000),
            updated_at: clock::rfc3339(NOW - 1_500),
            ..state
        };
        let view = View {
            now: NOW,
            health: Health::of(Some(7), Some(state)),
            totals: Totals {
                queue,
                today_usd: usd.0,
                cap_usd: usd.1,
                ..Totals::default()
            },
            ..View::default()
        };
        let (found, line) = line(&view, Vec::new());
        assert_eq!(found, level, "{line}");
        assert!(line.starts_with(expected), "{line}");
    }

    #[test]
    fn a_daemon_is_one_line_with_its_numbers() {
        let (state, queue) = (State::default, Queue::default);
        let whole = "AGENT OK - idle, up 2m 5s | lanes=0;;;0 inbox=0;;;0 outbox=0;;;0 dead=0;0;;0 \
                     today_usd=0.250000;4.000000;5.000000;0 age=1s;;60;0";
        check(state(), queue(), (0.25, 5.0), Level::Ok, whole);
        let free = "AGENT OK - idle, up 2m 5s | lanes=0;;;0 inbox=0;;;0 outbox=0;;;0 dead=0;0;;0 today_usd=0.250000;;;0 age";
        check(state(), queue(), (0.25, 0.0), Level::Ok, free);
        let near = "AGENT WARNING - $4.00 of $5.00 spent today; idle, up 2m 5s | ";
        check(state(), queue(), (4.0, 5.0), Level::Warning, near);
        let (level, line) = line(&View::default(), Vec::new());
        let never = "AGENT CRITICAL - not running, it never ran here | ";
        assert!(
            level == Level::Critical && line.starts_with(never),
            "{line}"
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
        let provider = |name: &str, state: &str| ProviderState {
            name: name.into(),
            state: state.into(),
            ..ProviderState::default()
        };
        let channels = vec![
            channel("telegram", "401 | go\naway", Some(NOW - 65_000)),
            channel("cli", "connecting", None),
        ];
        let bad = State {
            channels,
            sandbox: "refused: no user namespaces".into(),
            ..State::default()
        };
        let dead = Queue {
            dead: 2,
            ..Queue::default()
        };
        let says = "AGENT CRITICAL - telegram: 401 / go away, last ok 1m 5s ago; $5.00 of $5.00 spent today; \
                    2 dead letters; commands do not run: no sandbox; idle, up 2m 5s | ";
        check(bad, dead, (5.0, 5.0), Level::Critical, says);
        let providers = |other| State {
            providers: vec![provider("a", "down"), provider("b", other)],
            ..State::default()
        };
        let half = "AGENT WARNING - down: a; idle, up 2m 5s | ";
        check(
            providers("ok"),
            Queue::default(),
            (0.0, 0.0),
            Level::Warning,
            half,
        );
        let all = "AGENT CRITICAL - down: a, b; idle, up 2m 5s | ";
        check(
            providers("down"),
            Queue::default(),
            (0.0, 0.0),
            Level::Critical,
            all,
        );
        let local = State {
            providers: vec![provider("local", "down"), provider("offline", "ok")],
            ..State::default()
        };
        let none = "AGENT CRITICAL - down: local; idle, up 2m 5s | ";
        check(local, Queue::default(), (0.0, 0.0), Level::Critical, none);
    }

    #[test]
    fn what_cannot_be_told_is_unknown() {
        let failure = Failure::data("queue.db is damaged\n| x").hint("none");
        assert_eq!(unknown(&failure), "AGENT UNKNOWN - queue.db is damaged / x");
        let long = unknown(&Failure::io("y".repeat(9_000)));
        assert!(long.chars().count() < 400 && long.ends_with('…'));
    }
}
