//! The parts of a frame, from top to bottom: the state of the daemon, advice, problems, facts, and the running turns.

use super::View;
use super::frame::{Page, join};
use super::health::{Life, NotHere};
use super::lane_table;
use super::lane_table::Wanted;
use super::numbers::{dollars, list, since, span};
use super::styled_line::{Ink, Line, clean};
use crate::monitor_state::{Lane, ProviderState, State};
use crate::{clock, text};

const BAR: (usize, usize) = (60, 20);
const OLD_TROUBLE_MS: i64 = 3_600_000;

/// Returns the first line: how the daemon is, which process, since when.
pub(super) fn head(view: &View, columns: usize) -> Line {
    let state = view.health.own();
    let pid = view.health.pid.filter(|pid| *pid > 0);
    let started = view.health.live();
    let started = started.and_then(|state| clock::parse_rfc3339(&state.started_at));
    let version = state.filter(|state| !state.version.is_empty());
    let may = [
        pid.map(|pid| format!("  pid {pid}")),
        started.map(|at| format!("  up {}", span(view.now - at))),
        version.map(|state| format!("  version {}", state.version)),
    ];
    let (ink, word, more) = match view.life() {
        Life::Never => (
            Ink::Yellow,
            "not running",
            (Ink::Dim, "  it never ran here".to_owned()),
        ),
        Life::Starting { for_ms } => (
            Ink::Yellow,
            "starting",
            (Ink::Dim, format!("  for {}", span(for_ms))),
        ),
        Life::Up => {
            let state = state.map_or("", State::activity);
            let ink = match state {
                "idle" => Ink::Green,
                "retry_wait" | "asking" => Ink::Yellow,
                _ => Ink::Bold,
            };
            (ink, lane_table::state(state), (Ink::Plain, String::new()))
        }
        Life::Full => (
            Ink::Red,
            "cannot write",
            (Ink::Red, "  the disk is full".to_owned()),
        ),
        Life::Stopping => (Ink::Yellow, "stopping", (Ink::Plain, String::new())),
        Life::Stale { silent_ms } => {
            let more = format!("  nothing written for {}", span(silent_ms));
            (Ink::Red, "stale", (Ink::Red, more))
        }
        Life::Stopped { ago_ms } => (
            Ink::Yellow,
            "stopped",
            (Ink::Plain, format!("  {} ago", span(ago_ms))),
        ),
        Life::Dead { ago_ms, .. } => (
            Ink::Red,
            "dead",
            (Ink::Red, format!("  last seen {} ago", span(ago_ms))),
        ),
    };
    let may: Vec<_> = may
        .into_iter()
        .flatten()
        .map(|words| (Ink::Dim, words))
        .collect();
    join(
        Line::default(),
        &[(ink, word.to_owned()), more],
        &may,
        columns,
    )
}

/// What a person does now, when the daemon does nothing.
pub(super) fn next_step(page: &mut Page, view: &View) {
    let mut say = |name: &str, words: &str| page.say(name, Ink::Plain, words);
    if let Some(NotHere { why, .. }) = &view.health.not_here {
        say("not here", &why.message);
        return say("", why.hint.as_deref().unwrap_or_default());
    }
    let (name, steps) = match view.life() {
        Life::Up | Life::Starting { .. } => return,
        Life::Full => {
            let words = "new messages are not stored until there is space again";
            say("make room", words);
            return say("", &view.advice.disk);
        }
        Life::Stopping => {
            let when = if view.lanes().is_empty() {
                "in a moment"
            } else {
                "as soon as the turns below have"
            };
            let words = format!("{when}; new messages wait for the next start");
            return say("it ends", &words);
        }
        Life::Stale { .. } => ("look at", &view.advice.look_at),
        Life::Never | Life::Stopped { .. } | Life::Dead { .. } => {
            ("start it", &view.advice.start_it)
        }
    };
    let dead = match view.life() {
        Life::Dead { rebooted: true, .. } => Some("the machine was restarted since"),
        Life::Dead { .. } => Some("it was killed or crashed"),
        _ => None,
    };
    if let Some(how) = dead {
        say("why", &format!("{how}; its log: {}", view.advice.logs));
    }
    for (at, step) in steps.iter().enumerate() {
        say(if at == 0 { name } else { "" }, step);
    }
    let one = |lane: &Lane| match lane_table::running(lane) {
        tools if tools.is_empty() => lane.contact.clone(),
        tools => format!("{} ({tools})", lane.contact),
    };
    let open: Vec<String> = view.lanes().iter().map(one).collect();
    if dead.is_some() && !open.is_empty() {
        say(
            "open",
            &format!("{}: answered after the start", open.join(", ")),
        );
    }
}

/// What is wrong, and what to do about it.
pub(super) fn troubles(page: &mut Page, view: &View) {
    let (now, live) = (view.now, view.health.live());
    for channel in live.iter().flat_map(|state| &state.channels) {
        let last = channel.last_ok_at.as_deref();
        let last = last.map_or_else(String::new, |at| {
            format!(" (last ok {} ago)", since(at, now))
        });
        let ink = match channel.state.as_str() {
            "ok" => continue,
            "connecting" => Ink::Yellow,
            _ => Ink::Red,
        };
        page.say(&channel.name, ink, &format!("{}{last}", channel.state));
    }
    for provider in live.iter().flat_map(|state| &state.providers) {
        if provider.state != "ok" {
            let (ink, words) = provider_trouble(provider, now);
            page.say("provider", ink, &words);
        }
    }
    if view.totals.queue.dead > 0 {
        let letters = text::counted(view.totals.queue.dead, "dead letter");
        page.say(
            "given up",
            Ink::Red,
            &format!("{letters}: agent-send --queue"),
        );
    }
    if let (count @ 1.., at) = view.totals.questions {
        let (waiting, so_long) = (text::counted(count, "question"), span(now - at));
        let words = format!("{waiting} for you, for {so_long}: agent-send --queue");
        page.say("asks", Ink::Yellow, &words);
    }
    if let Some(state) = live {
        let (sandbox, risk) = (state.sandbox.as_str(), &state.sandbox_risk);
        let (ink, words) = match sandbox.split([' ', ':']).next().unwrap_or_default() {
            "" | "namespaces" => (Ink::Plain, String::new()),
            "off" => (Ink::Red, format!("off: {risk}")),
            "refused" => (Ink::Red, format!("{sandbox}; commands do not run")),
            _ => (
                Ink::Yellow,
                format!("{sandbox}, weaker than namespaces: {risk}"),
            ),
        };
        page.say("sandbox", ink, &words);
    }
    if let Some(unread) = view.health.unread_settings() {
        page.say("settings", Ink::Yellow, unread);
    }
    let own = view.health.own();
    let troubles = own.and_then(|state| state.last_error.as_deref());
    for error in troubles.iter().flat_map(|troubles| troubles.lines()) {
        let dated = error.split_once(' ');
        let dated = dated.and_then(|(at, text)| Some((clock::parse_rfc3339(at)?, text)));
        let age = dated.map(|(at, _)| now - at);
        let words = dated.map_or(error, |(_, words)| words);
        let is_old = age.is_some_and(|age| age > OLD_TROUBLE_MS);
        let ink = if is_old { Ink::Plain } else { Ink::Red };
        let age = age.map_or_else(String::new, |age| format!("{} ago: ", span(age)));
        page.say("trouble", ink, &format!("{age}{words}"));
    }
}

fn provider_trouble(provider: &ProviderState, now: i64) -> (Ink, String) {
    let (name, state) = (&provider.name, &provider.state);
    let error = provider.last_error.as_deref().unwrap_or_default();
    let retry_at = provider.retry_at.as_deref().and_then(clock::parse_rfc3339);
    match retry_at.map(|at| at - now).filter(|left| *left > 0) {
        Some(left) => {
            let down = provider.since.as_deref();
            let down = down.map_or_else(String::new, |at| format!(" for {}", since(at, now)));
            let left = span(left);
            (
                Ink::Red,
                format!("{name} is {state}{down}, asked again in {left}: {error}"),
            )
        }
        // Nobody knows until somebody asks.
        None => (
            Ink::Yellow,
            format!("{name} was {state} when last asked: {error}"),
        ),
    }
}

/// What is well.
pub(super) fn facts(page: &mut Page, view: &View) {
    if !page.detail.facts {
        return;
    }
    channels(page, view);
    let queue = view.totals.queue;
    let parts = [(queue.inbox, "to answer"), (queue.outbox, "to send")];
    let parts = parts.into_iter().filter(|(n, _)| *n > 0);
    let parts: Vec<String> = parts.map(|(n, what)| format!("{n} {what}")).collect();
    let mut pieces = vec![(Ink::Plain, parts.join(", "))];
    if parts.is_empty() {
        pieces = vec![(Ink::Plain, "empty".to_owned())];
    } else if view.health.pid.is_none() {
        pieces.push((Ink::Dim, ", safe on the disk".to_owned()));
    }
    page.fact("queue", &pieces);
    let mut today = share(view.totals.today_usd, view.totals.cap_usd, page.columns);
    today.extend(unpriced(view.totals.unpriced_calls));
    page.fact("today", &today);
    next_job(page, view);
    let Some(state) = view
        .health
        .live()
        .filter(|_| page.detail.quiet && is_fresh(view))
    else {
        return;
    };
    if !state.models.is_empty() {
        let models = list(state.models.iter().map(String::as_str));
        page.fact("models", &[(Ink::Plain, models)]);
    }
    if state.sandbox == "namespaces" {
        page.fact("sandbox", &[(Ink::Plain, state.sandbox.clone())]);
    }
}

/// The channels that are well.
pub(super) fn channels(page: &mut Page, view: &View) {
    let live = view.health.live().filter(|_| is_fresh(view));
    for channel in live.iter().flat_map(|state| &state.channels) {
        if channel.state == "ok" {
            let last = channel.last_ok_at.as_deref();
            let last = last.map_or_else(String::new, |at| format!(", {} ago", since(at, view.now)));
            let pieces = [(Ink::Green, "ok".to_owned()), (Ink::Plain, last)];
            page.fact(&channel.name, &pieces);
        }
    }
}

/// The job that comes next. Where no daemon runs nothing comes.
pub(super) fn next_job(page: &mut Page, view: &View) {
    if let Some((name, at)) = view.totals.next_job.as_ref().filter(|_| is_fresh(view)) {
        let when = match at - view.now {
            left @ 1.. => format!(" in {}", span(left)),
            _ => " is due".to_owned(),
        };
        page.fact("next job", &[(Ink::Plain, clean(name)), (Ink::Plain, when)]);
    }
}

/// Of a daemon that does not write nobody knows what is still well.
fn is_fresh(view: &View) -> bool {
    matches!(view.life(), Life::Up | Life::Stopping)
}

/// Returns what was spent, of which limit, 0 being none.
pub(super) fn share(spent: f64, cap: f64, columns: usize) -> Vec<(Ink, String)> {
    if cap <= 0.0 {
        return vec![(Ink::Plain, dollars(spent))];
    }
    let share = (spent / cap).max(0.0);
    let ink = match share {
        1.0.. => Ink::Red,
        0.8.. => Ink::Yellow,
        _ => Ink::Plain,
    };
    // Rounded down: what is not reached does not look so.
    let mut pieces = vec![(
        ink,
        format!(
            "{} of {}, {:.0} %",
            dollars(spent),
            dollars(cap),
            (share * 100.0).floor()
        ),
    )];
    if columns >= BAR.0 {
        let full = (1..=BAR.1)
            .filter(|part| *part as f64 <= share * BAR.1 as f64)
            .count();
        pieces.push((ink, format!("  {}", "█".repeat(full))));
        pieces.push((Ink::Dim, "░".repeat(BAR.1 - full)));
    }
    pieces
}

pub(super) fn unpriced(calls: i64) -> Option<(Ink, String)> {
    (calls > 0).then(|| {
        (
            Ink::Yellow,
            format!("  and {} without a price", text::counted(calls, "call")),
        )
    })
}

/// The turns that run, or ran when a stale daemon last wrote.
pub(super) fn at_work(page: &mut Page, view: &View) {
    let (lanes, detail, life) = (view.lanes(), page.detail, view.life());
    let is_stale = matches!(life, Life::Stale { .. });
    if lanes.is_empty() || !(is_stale || matches!(life, Life::Up | Life::Full | Life::Stopping)) {
        return;
    }
    if detail.air && is_stale {
        page.lines.push(Line::of(Ink::Dim, "when it last wrote:"));
    }
    let wanted = Wanted {
        columns: page.columns,
        lanes: detail.lanes,
        head: detail.air,
        reasons: detail.text_rows > 1,
    };
    page.lines
        .extend(lane_table::table(lanes, view.seen_at(), wanted));
}
