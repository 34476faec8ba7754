//! Draws the screen from the data and the selection. Pure: the same input gives the same screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as Words, Span};
use ratatui::widgets::{Block, Clear, Widget};

use super::dialog;
use super::dialog::Dialog;
use super::keymap::{Mode, Ui};
use super::layout::{Area, Pane, Plan, Wish};
use super::panes;
use super::panes::Content;
use super::snapshot::Snapshot;
use crate::app::monitor::frame::Frame;
use crate::app::monitor::styled_line::{Ink, Line};

/// Lines of the header at most; fewer on a small screen.
const HEADER: usize = 8;

/// With so many panes only those are left out that are empty.
const LARGE: usize = 3;

#[derive(Debug, Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) ui: &'a Ui,
    pub(super) color: bool,
}

/// Draws the scene on the whole of `frame`.
pub(super) fn draw(frame: &mut ratatui::Frame<'_>, scene: &Scene<'_>) {
    let area = frame.area();
    let size = Frame {
        columns: area.width.into(),
        rows: area.height.into(),
    };
    let buffer = frame.buffer_mut();
    let (plan, header) = plan(scene, size);
    let put =
        |buffer: &mut Buffer, area: Area, lines: &[Line]| put(buffer, area, lines, scene.color);
    put(buffer, plan.header, &header);
    for (at, (pane, area)) in plan.panes.iter().enumerate() {
        let has_names = plan.panes.len() < LARGE && at + 1 == plan.panes.len();
        let is_hidden = |one: &Pane| has_names && plan.panes.iter().all(|(shown, _)| shown != one);
        let hidden: Vec<Pane> = (1..Pane::ALL.len())
            .map(|steps| pane.further(steps))
            .filter(is_hidden)
            .collect();
        put(buffer, *area, &[title(scene, *pane, area.columns, &hidden)]);
        let below = inside(*area);
        let content = panes::content(scene, *pane, below.columns);
        put(
            buffer,
            below,
            &window(content, scene.ui.scroll(*pane), below.rows, *pane),
        );
    }
    if let Some(area) = plan.footer {
        put(buffer, area, &[footer(scene)]);
    }
    if let Some(dialog) = dialog::dialog(scene.ui, scene.snapshot, size) {
        lay(buffer, &dialog, scene.color);
    }
}

/// Returns how many lines of a pane are not to be snapshot: by so many it can be moved.
pub(super) fn hidden(ui: &Ui, snapshot: &Snapshot, size: Frame, pane: Pane) -> usize {
    let scene = Scene {
        snapshot,
        ui,
        color: false,
    };
    let (plan, _) = plan(&scene, size);
    let place = plan.panes.iter().find(|(one, _)| *one == pane);
    place.map_or(0, |(_, area)| {
        let below = inside(*area);
        panes::height(&scene, pane, below.columns).saturating_sub(below.rows)
    })
}

fn plan(scene: &Scene<'_>, size: Frame) -> (Plan, Vec<Line>) {
    let lines = |pane: Pane, columns: usize| panes::height(scene, pane, columns);
    let header = panes::header(scene, size.columns, (size.rows / 3).clamp(1, HEADER));
    let wish = Wish {
        size,
        focus: scene.ui.focus,
        below: scene.ui.below,
        header: header.len(),
        lines: &lines,
    };
    (Plan::of(&wish), header)
}

fn inside(area: Area) -> Area {
    Area {
        y: area.y + area.rows.min(1),
        rows: area.rows.saturating_sub(1),
        ..area
    }
}

fn window(content: Content, scroll: usize, rows: usize, pane: Pane) -> Vec<Line> {
    let Content {
        mut lines,
        head,
        chosen,
    } = content;
    let body = lines.split_off(head.min(lines.len()));
    // A head that leaves no room for what it heads is left out.
    let mut shown = if rows > head + 1 { lines } else { Vec::new() };
    let room = rows - shown.len();
    let most = body.len().saturating_sub(room);
    let offset = match chosen {
        // As little as possible is moved; of what is taller than the pane the first lines are snapshot.
        Some(chosen) => chosen
            .end
            .saturating_sub(head + room)
            .min(chosen.start.saturating_sub(head)),
        None if pane == Pane::Log => most - scroll.min(most),
        None => scroll.min(most),
    };
    shown.extend(body.into_iter().skip(offset).take(room));
    shown
}

/// Returns the first line of a pane. Where others have no place they are named behind it, in the order of Tab.
fn title(scene: &Scene<'_>, pane: Pane, columns: usize, hidden: &[Pane]) -> Line {
    let is_chosen = scene.ui.focus == pane;
    let rule = if is_chosen { "━" } else { "─" };
    let (ink, words) = panes::title(scene, pane);
    let mut line = Line::of(Ink::Dim, &format!("{rule} "));
    line.push(
        if is_chosen && ink == Ink::Plain {
            Ink::Bold
        } else {
            ink
        },
        &words,
    );
    for other in hidden {
        let (ink, words) = panes::title(scene, *other);
        line.push(Ink::Dim, " · ");
        line.push(if ink == Ink::Plain { Ink::Dim } else { ink }, &words);
    }
    line.push(Ink::Plain, " ");
    let rest = columns.saturating_sub(line.width());
    line.push(Ink::Dim, &rule.repeat(rest));
    line
}

fn footer(scene: &Scene<'_>) -> Line {
    let (ui, snapshot) = (scene.ui, scene.snapshot);
    if let Some(note) = &ui.note {
        return Line::of(
            if note.done { Ink::Green } else { Ink::Yellow },
            &note.words,
        );
    }
    let mut line = Line::default();
    let mut key = |ink, key: &str, what: &str| {
        line.push(ink, key);
        line.push(Ink::Plain, " ");
        line.push(Ink::Dim, what);
        line.push(Ink::Plain, "   ");
    };
    if !matches!(ui.mode, Mode::Look) {
        return line;
    }
    if !snapshot.requests().is_empty() {
        key(Ink::Yellow, "a", "approve");
        key(Ink::Yellow, "d", "deny");
    }
    if !snapshot.lanes().is_empty() {
        key(Ink::Bold, "s", "stop");
    }
    key(Ink::Bold, "q", "quit");
    key(Ink::Bold, "?", "keys");
    key(Ink::Bold, "Tab", "next");
    line
}

fn lay(buffer: &mut Buffer, dialog: &Dialog, color: bool) {
    let rect = rect(dialog.area, buffer.area);
    Clear.render(rect, buffer);
    let mut inner = dialog.area;
    if dialog.border {
        let block = Block::bordered()
            .title(format!(" {} ", dialog.title))
            .border_style(style(Ink::Bold, color));
        block.render(rect, buffer);
        inner = Area {
            x: inner.x + 2,
            y: inner.y + 1,
            columns: inner.columns - 4,
            rows: inner.rows - 2,
        };
    }
    put(buffer, inner, &dialog.lines, color);
}

fn put(buffer: &mut Buffer, area: Area, lines: &[Line], color: bool) {
    for (at, line) in lines.iter().take(area.rows).enumerate() {
        let place = rect(
            Area {
                y: area.y + at,
                rows: 1,
                ..area
            },
            buffer.area,
        );
        if place.is_empty() {
            continue;
        }
        // Our widths are those of the terminals that make letters widest.
        let line = if line.width() > area.columns {
            line.clone().cut(area.columns)
        } else {
            line.clone()
        };
        let spans: Vec<Span<'_>> = line
            .pieces()
            .iter()
            .map(|(ink, words)| Span::styled(words.as_str(), style(*ink, color)))
            .collect();
        buffer.set_line(place.x, place.y, &Words::from(spans), place.width);
    }
}

fn rect(area: Area, screen: Rect) -> Rect {
    let small = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let rect = Rect {
        x: small(area.x),
        y: small(area.y),
        width: small(area.columns),
        height: small(area.rows),
    };
    rect.intersection(screen)
}

fn style(ink: Ink, color: bool) -> Style {
    let tone = |tone| {
        if color {
            Style::new().fg(tone)
        } else {
            Style::new()
        }
    };
    match ink {
        Ink::Plain => Style::new(),
        Ink::Bold => Style::new().add_modifier(Modifier::BOLD),
        Ink::Dim => Style::new().add_modifier(if color {
            Modifier::DIM
        } else {
            Modifier::empty()
        }),
        Ink::Green => tone(Color::Green),
        Ink::Yellow => tone(Color::Yellow),
        Ink::Red => tone(Color::Red),
    }
}
