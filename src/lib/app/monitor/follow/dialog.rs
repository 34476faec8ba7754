//! Confirmation dialogs and the help on keys: a box over the screen.

use super::keymap::{Decision, Mode, Ui};
use super::layout::Area;
use super::snapshot;
use super::snapshot::Snapshot;
use crate::app::documents::queue::Waiting;
use crate::app::monitor::frame::Frame;
use crate::app::monitor::numbers::span;
use crate::app::monitor::styled_line::{Ink, Line, chop, clean, cut_front, wrap};
use crate::monitor_state::Lane;
use crate::{clock, text};

const WIDEST: usize = 100;
const SMALL: Frame = Frame {
    columns: 30,
    rows: 10,
};
const QUOTE: &str = "| ";
const FRAMEWORK: usize = 3;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Dialog {
    pub(super) title: &'static str,
    pub(super) area: Area,
    /// Whether it has a border, which is a part of its area.
    pub(super) border: bool,
    pub(super) lines: Vec<Line>,
}

/// Returns the box that is open, if one is.
pub(super) fn dialog(ui: &Ui, snapshot: &Snapshot, size: Frame) -> Option<Dialog> {
    let room = room(size);
    let (title, lines) = match &ui.mode {
        Mode::Look => return None,
        Mode::Help => ("keys", help()),
        Mode::Stop(lane) => ("stop", stop(lane, snapshot, room)),
        Mode::Decide(decision) => {
            let title = if decision.why.is_some() {
                "deny"
            } else {
                "approve"
            };
            (title, decide(decision, snapshot.view.now, room))
        }
    };
    let border = has_border(size);
    let area = if border {
        let (columns, rows) = (
            (room.columns + 4).min(size.columns),
            (lines.len() + 2).min(size.rows),
        );
        Area {
            x: (size.columns - columns) / 2,
            y: (size.rows - rows) / 2,
            columns,
            rows,
        }
    } else {
        Area {
            columns: size.columns,
            rows: size.rows,
            ..Area::default()
        }
    };
    Some(Dialog {
        title,
        area,
        border,
        lines,
    })
}

fn has_border(size: Frame) -> bool {
    size.columns >= SMALL.columns && size.rows >= SMALL.rows
}

fn room(size: Frame) -> Frame {
    if !has_border(size) {
        return size;
    }
    Frame {
        columns: (size.columns - 4).min(WIDEST),
        rows: size.rows - 4,
    }
}

fn help() -> Vec<Line> {
    let keys = [
        ("Tab ← →", "the next pane, or 1 to 6"),
        ("↑ ↓ j k", "move; also PgUp PgDn Home End"),
        ("s", "stop the selected run"),
        ("a", "show the selected question; then y approves"),
        ("d", "show it, then deny, with a reason"),
        ("Ctrl-L", "redraw everything"),
        ("Ctrl-Z", "suspend; fg resumes"),
        ("q", "quit"),
    ];
    let line = |(key, what): (&str, &str)| {
        let mut line = Line::of(Ink::Bold, key);
        line.pad_to(9);
        line.push(Ink::Plain, what);
        line
    };
    keys.into_iter().map(line).collect()
}

fn stop(asked: &Lane, snapshot: &Snapshot, room: Frame) -> Vec<Line> {
    let contact = clean(&asked.contact);
    let mut lanes = snapshot.lanes().iter();
    let Some(lane) = lanes.find(|lane| snapshot::id(lane) == snapshot::id(asked)) else {
        return vec![
            Line::of(Ink::Plain, &format!("The turn of {contact} has ended.")),
            Line::of(Ink::Bold, "Esc"),
        ];
    };
    let since = clock::parse_rfc3339(&lane.started_at).map_or_else(String::new, |at| {
        format!(", for {}", span(snapshot.view.now - at))
    });
    let session = clean(&lane.session);
    let also = match lane.children.len() {
        0 => String::new(),
        count => format!(", with {}", text::counted(count, "sub-agent")),
    };
    let what = match lane.run_id.as_str() {
        "" => format!("Stop what {contact} sent{also}? Session {session}"),
        _ => format!(
            "Stop the turn of {contact}{also}? It is at step {}{since}; session {session}",
            lane.turn
        ),
    };
    let rows = room.rows.saturating_sub(1).clamp(1, 4);
    let mut lines: Vec<Line> = wrap(&what, room.columns, rows)
        .iter()
        .map(|line| Line::of(Ink::Plain, line))
        .collect();
    lines.push(Line::of(Ink::Bold, "y stop   n do not"));
    lines
}

fn decide(decision: &Decision, now: i64, room: Frame) -> Vec<Line> {
    let Decision {
        request: ask,
        scroll,
        is_read,
        why,
    } = decision;
    let left =
        clock::parse_rfc3339(&ask.expires_at).map_or_else(String::new, |at| match at - now {
            left if left > 0 => format!(", denied in {}", span(left)),
            _ => ", its time is over".to_owned(),
        });
    let mut lines = vec![Line::of(
        Ink::Yellow,
        &format!("{} for {}{left}", clean(&ask.tool), clean(&ask.session)),
    )];
    if room.rows > FRAMEWORK + 2 {
        lines.push(Line::of(Ink::Dim, &ask.why));
    }
    let question = question(ask, room.columns);
    let rows = question_rows(room);
    let hidden = question.len().saturating_sub(rows);
    let scroll = *scroll.min(&hidden);
    let below = hidden - scroll;
    lines.extend(question.into_iter().skip(scroll).take(rows));
    let more = |line: &mut Line| {
        if below > 0 {
            line.push(
                Ink::Yellow,
                &format!("   ↓ {}", text::counted(below, "more line")),
            );
        }
    };
    match why {
        None if *is_read => {
            let mut line = Line::of(Ink::Bold, "y approve   n back");
            more(&mut line);
            lines.push(line);
        }
        None => {
            let mut line = Line::of(Ink::Bold, "n back");
            line.push(Ink::Yellow, "   read to the end, then y");
            more(&mut line);
            lines.push(line);
        }
        Some(why) => {
            let mut line = Line::of(Ink::Bold, "why: ");
            line.push(
                Ink::Plain,
                &format!(
                    "{}▏",
                    cut_front(&clean(why), room.columns.saturating_sub(6))
                ),
            );
            lines.push(line);
            if room.rows > FRAMEWORK + 2 {
                let mut keys = Line::of(Ink::Bold, "Enter deny   Esc back");
                more(&mut keys);
                lines.push(keys);
            }
        }
    }
    lines
}

/// Returns the question as it is shown: whole, and nothing in it can command a terminal, hide itself, or be
/// taken for our words.
fn question(ask: &Waiting, columns: usize) -> Vec<Line> {
    let room = columns.saturating_sub(QUOTE.len()).max(1);
    let quoted = |line: String| Line::of(Ink::Plain, &line).after(Ink::Dim, QUOTE);
    // Only a line feed begins a line; a return is shown.
    ask.text
        .split('\n')
        .flat_map(|line| chop(line, room))
        .map(quoted)
        .collect()
}

/// Returns how many lines of the question are there at once; as many in every mode, so that what was read
/// stays read.
fn question_rows(room: Frame) -> usize {
    let around = if room.rows > FRAMEWORK + 2 { 4 } else { 2 };
    room.rows.saturating_sub(around).max(1)
}

/// Returns how many lines of a question do not fit: by so many it can be moved.
pub(super) fn hidden(ask: &Waiting, size: Frame) -> usize {
    let room = room(size);
    question(ask, room.columns)
        .len()
        .saturating_sub(question_rows(room))
}
