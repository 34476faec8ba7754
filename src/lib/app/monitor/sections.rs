//! The parts of a frame, from top to bottom: how the daemon is, what a person does about it, what is
//! wrong, what is well, who is worked for.

use super::View;
use super::frame::{Page, join};
use super::lane_table;
use super::lane_table::Wanted;
use super::liveness::Life;
use super::numbers::{dollars, list, some, span};
use super::styled_line::{Ink, Line, clean};
use crate::clock;
use crate::monitor_state::Lane;

const BAR: (usize, usize) = (60, 20);
const OLD_TROUBLE_MS: i64 = 3_600_000;

/// Returns the first line: how the daemon is, which process, since when.
pub(super) fn head(view: &View<'_>, columns: usize) -> Line {
    let dim = |words: String| (Ink::Dim, words);
    let state = view.state;
    let pid = view
        .status
        .pid
        .filter(|pid| *pid > 0)
        .map(|pid| dim(format!("  pid {pid}")));
    let started = state
        .filter(|_| view.status.running)
        .and_then(|state| clock::parse_rfc3339(&state.started_at));
    let up = started.map(|at| dim(format!("  up {}", span(view.now - at))));
    let version = state
        .filter(|state| !state.version.is_empty())
        .map(|state| dim(format!("  version {}", state.version)));
    let (ink, word, more) = match view.life {
        Life::Never => (
            Ink::Yellow,
            "not running",
            Some(dim("  it never ran here".to_owned())),
        ),
        Life::Starting { for_ms } => (
            Ink::Yellow,
            "starting",
            Some(dim(format!("  for {}", span(for_ms)))),
        ),
        Life::Up => match state.map(|state| state.state.as_str()) {
            Some("idle") => (Ink::Green, "idle", None),
            Some("retry_wait") => (Ink::Yellow, lane_table::state("retry_wait"), None),
            other => (
                Ink::Bold,
                lane_table::state(other.unwrap_or_default()),
                None,
            ),
        },
        Life::Stopping => (Ink::Yellow, "stopping", None),
        Life::Stale { silent_ms } => (
            Ink::Red,
            "stale",
            Some((
                Ink::Red,
                format!("  nothing written for {}", span(silent_ms)),
            )),
        ),
        Life::Stopped { ago_ms } => (
            Ink::Yellow,
            "stopped",
            Some((Ink::Plain, format!("  {} ago", span(ago_ms)))),
        ),
        Life::Dead { ago_ms, .. } => (
            Ink::Red,
            "dead",
            Some((Ink::Red, format!("  last seen {} ago", span(ago_ms)))),
        ),
    };
    let must: Vec<_> = std::iter::once((ink, word.to_owned()))
        .chain(more)
        .collect();
    let may: Vec<_> = [pid, up, version].into_iter().flatten().collect();
    join(Line::default(), &must, &may, columns)
}

/// What a person does now, when the daemon does nothing.
pub(super) fn next_step(page: &mut Page, view: &View<'_>) {
    let steps = match view.life {
        Life::Up | Life::Starting { .. } => return,
        Life::Stopping => {
            let when = if view.lanes().is_empty() {
                "in a moment"
            } else {
                "as soon as the turns below have"
            };
            return page.say(
                "it ends",
                Ink::Plain,
                &format!("{when}; what comes now waits for the next start"),
            );
        }
        Life::Stale { .. } => &view.advice.look_at,
        Life::Never | Life::Stopped { .. } | Life::Dead { .. } => &view.advice.start_it,
    };
    if let Life::Dead { rebooted, .. } = view.life {
        let how = if rebooted {
            "the machine was restarted since"
        } else {
            "it was killed or broke down"
        };
        page.say(
            "why",
            Ink::Plain,
            &format!("{how}; its log: {}", view.advice.logs),
        );
    }
    let name = if matches!(view.life, Life::Stale { .. }) {
        "look at"
    } else {
        "start it"
    };
    for (at, step) in steps.iter().enumerate() {
        page.say(if at == 0 { name } else { "" }, Ink::Plain, step);
    }
    if let Life::Dead { .. } = view.life {
        let one = |lane: &Lane| match lane_table::running(lane) {
            tools if tools.is_empty() => lane.contact.clone(),
            tools => format!("{} ({tools})", lane.contact),
        };
        let open: Vec<String> = view.lanes().iter().map(one).collect();
        if !open.is_empty() {
            page.say(
                "open",
                Ink::Plain,
                &format!("{}: answered after the start", open.join(", ")),
            );
        }
    }
}

pub(super) fn troubles(page: &mut Page, view: &View<'_>) {
    let status = view.status;
    for channel in status
        .channels
        .iter()
        .filter(|channel| channel.state != "ok")
    {
        let last = channel
            .last_ok_at
            .as_deref()
            .map_or_else(String::new, |at| {
                format!(" (last ok {} ago)", since(at, view.now))
            });
        let ink = if channel.state == "connecting" {
            Ink::Yellow
        } else {
            Ink::Red
        };
        page.say(&channel.name, ink, &format!("{}{last}", channel.state));
    }
    for provider in status
        .providers
        .iter()
        .filter(|provider| provider.state != "ok")
    {
        let error = provider.last_error.as_deref().unwrap_or_default();
        let down = provider
            .since
            .as_deref()
            .map_or_else(String::new, |at| format!(" for {}", since(at, view.now)));
        let left = provider
            .retry_at
            .as_deref()
            .and_then(clock::parse_rfc3339)
            .map_or(0, |at| at - view.now);
        let (ink, words) = match left > 0 {
            true => (
                Ink::Red,
                format!(
                    "{} is {}{down}, asked again in {}: {error}",
                    provider.name,
                    provider.state,
                    span(left)
                ),
            ),
            // Nobody knows until somebody asks.
            false => (
                Ink::Yellow,
                format!(
                    "{} was {} when last asked: {error}",
                    provider.name, provider.state
                ),
            ),
        };
        page.say("provider", ink, &words);
    }
    if status.queue.dead > 0 {
        let letters = some(status.queue.dead, "dead letter");
        page.say(
            "given up",
            Ink::Red,
            &format!("{letters}: agent-send --queue"),
        );
    }
    let sandbox = status.sandbox.as_str();
    match sandbox.split([' ', ':']).next().unwrap_or_default() {
        "" | "namespaces" => {}
        "off" => page.say(
            "sandbox",
            Ink::Red,
            &format!("off: {}", status.sandbox_risk),
        ),
        "refused" => page.say(
            "sandbox",
            Ink::Red,
            &format!("{sandbox}; commands do not run"),
        ),
        _ => page.say(
            "sandbox",
            Ink::Yellow,
            &format!("{sandbox}, weaker than namespaces: {}", status.sandbox_risk),
        ),
    }
    if let Some(trouble) = &status.last_error {
        let (at, text) = match trouble
            .split_once(' ')
            .and_then(|(at, text)| Some((clock::parse_rfc3339(at)?, text)))
        {
            Some((at, text)) => (Some(view.now - at), text),
            None => (None, trouble.as_str()),
        };
        let ink = if at.is_some_and(|age| age > OLD_TROUBLE_MS) {
            Ink::Plain
        } else {
            Ink::Red
        };
        let age = at.map_or_else(String::new, |age| format!("{} ago: ", span(age)));
        page.say("trouble", ink, &format!("{age}{text}"));
    }
}

pub(super) fn facts(page: &mut Page, view: &View<'_>) {
    if !page.detail.facts {
        return;
    }
    let status = view.status;
    channels(page, view);
    let (inbox, outbox) = (status.queue.inbox, status.queue.outbox);
    let parts = [(inbox, "to answer"), (outbox, "to send")]
        .into_iter()
        .filter(|(n, _)| *n > 0);
    let parts: Vec<String> = parts.map(|(n, what)| format!("{n} {what}")).collect();
    let queue = match (parts.is_empty(), status.running) {
        (true, _) => vec![(Ink::Plain, "empty".to_owned())],
        (false, true) => vec![(Ink::Plain, parts.join(", "))],
        (false, false) => vec![
            (Ink::Plain, parts.join(", ")),
            (Ink::Dim, ", safe on the disk".to_owned()),
        ],
    };
    page.fact("queue", &queue);
    page.fact("today", &budget(view, page.columns));
    next_job(page, view);
    if !page.detail.quiet || !is_fresh(view) {
        return;
    }
    if !status.models.is_empty() {
        page.fact(
            "models",
            &[(Ink::Plain, list(status.models.iter().map(String::as_str)))],
        );
    }
    if status.sandbox == "namespaces" {
        page.fact("sandbox", &[(Ink::Plain, status.sandbox.clone())]);
    }
}

pub(super) fn channels(page: &mut Page, view: &View<'_>) {
    for channel in view
        .status
        .channels
        .iter()
        .filter(|channel| is_fresh(view) && channel.state == "ok")
    {
        let last = channel
            .last_ok_at
            .as_deref()
            .map_or_else(String::new, |at| format!(", {} ago", since(at, view.now)));
        page.fact(
            &channel.name,
            &[(Ink::Green, "ok".to_owned()), (Ink::Plain, last)],
        );
    }
}

pub(super) fn next_job(page: &mut Page, view: &View<'_>) {
    if let Some((name, at)) = view.next_job.as_ref().filter(|_| is_fresh(view)) {
        let left = at - view.now;
        let when = if left > 0 {
            format!(" in {}", span(left))
        } else {
            " is due".to_owned()
        };
        page.fact("next job", &[(Ink::Plain, clean(name)), (Ink::Plain, when)]);
    }
}

/// Of a daemon that does not write nobody knows what is still well.
fn is_fresh(view: &View<'_>) -> bool {
    matches!(view.life, Life::Up | Life::Stopping)
}

fn budget(view: &View<'_>, columns: usize) -> Vec<(Ink, String)> {
    let mut pieces = share(
        view.status.today_cost_usd,
        view.status.today_cap_usd,
        columns,
    );
    pieces.extend(unpriced(view.status.today_unpriced_calls));
    pieces
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
            format!("  and {} without a price", some(calls, "call")),
        )
    })
}

/// The turns that run, or ran when a stale daemon last wrote.
pub(super) fn at_work(page: &mut Page, view: &View<'_>) {
    let (lanes, detail) = (view.lanes(), page.detail);
    if lanes.is_empty() || !matches!(view.life, Life::Up | Life::Stopping | Life::Stale { .. }) {
        return;
    }
    if detail.air && matches!(view.life, Life::Stale { .. }) {
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

fn since(at: &str, now: i64) -> String {
    clock::parse_rfc3339(at).map_or_else(|| "?".to_owned(), |at| span(now - at))
}
