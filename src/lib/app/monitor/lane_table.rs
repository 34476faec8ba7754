//! The running turns as a table: who, doing what, for how long. A wide frame shows more about each; a narrow one omits the
//! least important columns.

use super::numbers::{list, since, took};
use super::styled_line::{Ink, Line, clean, cut, cut_front, width};
use crate::monitor_state::{Lane, TurnLine};
use crate::text;

const GAP: usize = 2;
const ROOMY: usize = 60;
const WIDE: usize = 120;
const VERY_WIDE: usize = 180;
/// The last column is left out when it would be narrower.
const MIN_LAST: usize = 12;
/// Spans and what is done change all the time; with room for the longest of every day they do not
/// move what is next to them: `59m 59s`, `waiting to retry`.
const STEADY: (usize, usize) = (7, 16);
const TIGHT: usize = 36;

#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) columns: usize,
    /// Lanes; those beyond are named in one line.
    pub(super) lanes: usize,
    pub(super) head: bool,
    pub(super) reasons: bool,
}

struct Column {
    head: &'static str,
    right: bool,
    cells: Vec<(Ink, String)>,
    width: usize,
}

impl Column {
    /// A column is as wide as its widest cell, at least as `limits.0`, at most as `limits.1`.
    fn new(
        head: &'static str,
        right: bool,
        limits: (usize, usize),
        cells: Vec<(Ink, String)>,
    ) -> Self {
        let widest = cells
            .iter()
            .map(|(_, words)| width(words))
            .max()
            .unwrap_or(0);
        Self {
            head,
            right,
            cells,
            width: widest.max(limits.0).min(limits.1),
        }
    }
}

/// Returns the table of `lanes` as of `now`, oldest turn first; no line for no lane.
pub(super) fn table(lanes: &[Lane], now: i64, wanted: Wanted) -> Vec<Line> {
    let shown = lanes.get(..wanted.lanes).unwrap_or(lanes);
    let mut lines: Vec<Line> = rows(shown, now, wanted)
        .into_iter()
        .map(|(_, line)| line)
        .collect();
    let rest = lanes.get(shown.len()..).unwrap_or_default();
    if !rest.is_empty() {
        let names = list(rest.iter().map(|lane| lane.contact.as_str()));
        lines.push(Line::of(
            Ink::Dim,
            &format!("… {}: {names}", text::counted(rest.len(), "more lane")),
        ));
    }
    lines
}

/// Returns the lines of all `lanes`, each with the number of the lane it is about; the head is about none.
pub(super) fn rows(lanes: &[Lane], now: i64, wanted: Wanted) -> Vec<(Option<usize>, Line)> {
    let family = family(lanes, wanted.reasons);
    let all: Vec<Lane> = family.iter().map(|(_, lane)| lane.clone()).collect();
    let columns = choose(&all, now, wanted.columns);
    let mut lines = Vec::new();
    if wanted.head && wanted.columns >= ROOMY && !lanes.is_empty() {
        lines.push((
            None,
            row(columns
                .iter()
                .map(|column| (column, Ink::Dim, column.head.to_owned()))),
        ));
    }
    for (line, (at, lane)) in family.iter().enumerate() {
        let at = *at;
        let cells = columns.iter().filter_map(|column| {
            column
                .cells
                .get(line)
                .map(|(ink, words)| (column, *ink, words.clone()))
        });
        lines.push((Some(at), row(cells)));
        if let Some(reason) = lane.retry_reason.as_deref().filter(|_| wanted.reasons) {
            lines.push((
                Some(at),
                Line::of(Ink::Yellow, &format!("  because: {reason}")),
            ));
        }
        if let Some(words) = lane.tool_tail.as_deref().filter(|_| wanted.reasons) {
            let words = cut(&format!("  says: {}", clean(words)), wanted.columns);
            lines.push((Some(at), Line::of(Ink::Dim, &words)));
        }
    }
    lines
}

/// Returns the lanes, each with its number and followed by the sub-agents it sent; without room for these it says
/// how many there are.
fn family(lanes: &[Lane], has_room: bool) -> Vec<(usize, Lane)> {
    let mut family = Vec::new();
    for (at, lane) in lanes.iter().enumerate() {
        let mut parent = lane.clone();
        let children = std::mem::take(&mut parent.children);
        if !has_room && !children.is_empty() {
            parent.contact = format!("{} +{}", parent.contact, children.len());
        }
        family.push((at, parent));
        if has_room {
            let below = |child: Lane| {
                (
                    at,
                    Lane {
                        contact: format!("└ {}", child.contact),
                        ..child
                    },
                )
            };
            family.extend(children.into_iter().map(below));
        }
    }
    family
}

fn choose(lanes: &[Lane], now: i64, room: usize) -> Vec<Column> {
    let column = |head: &'static str, right, limits, cell: &dyn Fn(&Lane) -> (Ink, String)| {
        Column::new(head, right, limits, lanes.iter().map(cell).collect())
    };
    let roomy = room >= ROOMY;
    let steady = if room < TIGHT { (2, 4) } else { STEADY };
    let mut who = column("who", false, (3, if roomy { 24 } else { 12 }), &|lane| {
        (Ink::Bold, clean(&lane.contact))
    });
    let span = |head, at: fn(&Lane) -> &str| {
        column(head, true, (steady.0, 10), &|lane| {
            (Ink::Plain, since(at(lane), now))
        })
    };
    let (for_, total) = (
        span("for", |lane| &lane.state_since),
        span("total", |lane| &lane.started_at),
    );
    let step = column("step", true, (4, 5), &|lane| {
        (Ink::Plain, lane.turn.to_string())
    });
    let tokens = column("tokens", true, (6, 6), &|lane| {
        (Ink::Plain, text::count(lane.tokens))
    });
    let model = column("model", false, (5, 20), &|lane| {
        (Ink::Plain, clean(&lane.model))
    });
    let session = column("session", false, (7, 32), &|lane| {
        (Ink::Dim, clean(&lane.session))
    });
    let max_doing = if roomy {
        32
    } else {
        room.saturating_sub(who.width + for_.width + 2 * GAP).max(4)
    };
    let doing = column("doing", false, (steady.1.min(max_doing), max_doing), &doing);

    let must = doing.width + for_.width + 2 * GAP;
    who.width = who.width.min(room.saturating_sub(must).max(2));
    let mut left = room.saturating_sub(who.width + must);
    let mut if_it_fits = |column: Column| {
        let fits = column.width + GAP <= left;
        if fits {
            left -= column.width + GAP;
        }
        fits.then_some(column)
    };
    // In the order in which they are worth their room.
    let total = if_it_fits(total);
    let [step, tokens, model] =
        [step, tokens, model].map(|column| if roomy { if_it_fits(column) } else { None });
    let session = if room >= VERY_WIDE {
        if_it_fits(session)
    } else {
        None
    };
    let last = left.saturating_sub(GAP);
    let calls = (roomy && last >= MIN_LAST)
        .then(|| {
            column("so far", false, (0, last), &|lane| {
                (Ink::Dim, cut_front(&so_far(lane, room >= WIDE), last))
            })
        })
        .filter(|column| column.width > 0);
    [
        Some(who),
        Some(doing),
        Some(for_),
        step,
        total,
        tokens,
        model,
        session,
        calls,
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn row<'a>(cells: impl Iterator<Item = (&'a Column, Ink, String)>) -> Line {
    let mut line = Line::default();
    let mut start = 0;
    for (column, ink, words) in cells {
        let words = cut(&words, column.width);
        line.pad_to(if column.right {
            start + column.width - width(&words)
        } else {
            start
        });
        line.push(ink, &words);
        start += column.width + GAP;
    }
    line
}

fn doing(lane: &Lane) -> (Ink, String) {
    let ink = match lane.state.as_str() {
        "retry_wait" | "asking" => Ink::Yellow,
        _ => Ink::Plain,
    };
    match lane.state.as_str() {
        "tools" if !lane.tools_in_flight.is_empty() => (ink, format!("running {}", running(lane))),
        other => (ink, clean(state(other))),
    }
}

pub(super) fn running(lane: &Lane) -> String {
    clean(&list(lane.tools_in_flight.iter().map(String::as_str)))
}

pub(super) fn state(state: &str) -> &str {
    match state {
        "tools" => "running tools",
        "asking" => "waiting for your answer",
        "retry_wait" => "waiting to retry",
        "compacting" => "summing up",
        "" => "unknown",
        other => other,
    }
}

/// Returns what the turn did so far, the newest last: its tools that ended, or when `wide` its model
/// calls with what they asked for.
fn so_far(lane: &Lane, wide: bool) -> String {
    if !wide {
        let asked: Vec<&str> = lane
            .turns
            .iter()
            .flat_map(|turn| &turn.tools)
            .map(String::as_str)
            .collect();
        let ended = asked.len().saturating_sub(lane.tools_in_flight.len());
        return clean(&list(asked.into_iter().take(ended)));
    }
    let call = |turn: &TurnLine| {
        let what = if turn.tools.is_empty() {
            turn.stop_reason.clone()
        } else {
            list(turn.tools.iter().map(String::as_str))
        };
        format!(
            "{} {} tokens → {what}",
            took(turn.duration_ms),
            text::count(turn.tokens)
        )
    };
    clean(&lane.turns.iter().map(call).collect::<Vec<_>>().join(" · "))
}
