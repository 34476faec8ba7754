//! One frame: the state of the daemon on the lines of the terminal.
//!
//! The facts are above the lanes, each always in the same place, so that the frame does not jump. If the lines do not fit,
//! the frame is rebuilt with less detail until they do.

use super::View;
use super::sections;
use super::styled_line::{Ink, Line, clean, cut, width, wrap};
use crate::app::color::Paint;

const TEXT: usize = 10;
const MAX_NAME: usize = 16;
const FEW_LANES: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Detail {
    /// Lines a long text may take; with one, a lane does not say why it waits.
    pub(super) text_rows: usize,
    pub(super) quiet: bool,
    pub(super) air: bool,
    pub(super) facts: bool,
    pub(super) lanes: usize,
}

const FULL: Detail = Detail {
    text_rows: 6,
    quiet: true,
    air: true,
    facts: true,
    lanes: usize::MAX,
};
/// Tried in this order.
const DETAILS: [Detail; 5] = [
    FULL,
    Detail {
        text_rows: 2,
        ..FULL
    },
    Detail {
        text_rows: 2,
        quiet: false,
        ..FULL
    },
    Detail {
        text_rows: 2,
        quiet: false,
        air: false,
        ..FULL
    },
    Detail {
        text_rows: 1,
        quiet: false,
        air: false,
        ..FULL
    },
];

/// Returns the frame: at most `rows` lines of at most `columns`, without the last line's end.
pub(super) fn draw(view: &View, frame: Frame, paint: Paint) -> String {
    let lines = fit(view, frame);
    let lines: Vec<String> = lines
        .into_iter()
        .map(|line| line.cut(frame.columns).print(paint))
        .collect();
    lines.join("\n")
}

fn fit(view: &View, frame: Frame) -> Vec<Line> {
    let make = |detail| compose(view, frame.columns, detail);
    let fits = |lines: &Vec<Line>| lines.len() <= frame.rows;
    if let Some(lines) = DETAILS.into_iter().map(make).find(fits) {
        return lines;
    }
    let [.., least] = DETAILS;
    let bare = Detail {
        facts: false,
        ..least
    };
    // The lanes that are left out are named in one line, which is there when none is shown.
    let cut = |detail: Detail, few: usize| {
        let room = frame
            .rows
            .saturating_sub(make(Detail { lanes: 0, ..detail }).len());
        (room >= few).then(|| {
            make(Detail {
                lanes: room,
                ..detail
            })
        })
    };
    if let Some(lines) = cut(least, FEW_LANES)
        .or_else(|| Some(make(bare)).filter(fits))
        .or_else(|| cut(bare, 1))
    {
        return lines;
    }
    let mut lines = make(Detail { lanes: 0, ..bare });
    let kept = frame.rows.saturating_sub(1);
    let rest = lines.len().saturating_sub(kept);
    if rest > 1 {
        lines.truncate(kept);
        lines.push(Line::of(Ink::Dim, &format!("… {rest} more lines")));
    }
    lines.truncate(frame.rows);
    lines
}

fn compose(view: &View, columns: usize, detail: Detail) -> Vec<Line> {
    let mut page = Page {
        columns,
        detail,
        lines: vec![sections::head(view, columns)],
    };
    for part in [
        sections::next_step,
        sections::troubles,
        sections::facts,
        sections::at_work,
    ] {
        let before = page.lines.len();
        part(&mut page, view);
        if detail.air && page.lines.len() > before {
            page.lines.insert(before, Line::default());
        }
    }
    page.lines
}

pub(super) struct Page {
    pub(super) columns: usize,
    pub(super) detail: Detail,
    pub(super) lines: Vec<Line>,
}

impl Page {
    /// Adds `name  text`, the text on as many lines as it may take.
    pub(super) fn say(&mut self, name: &str, ink: Ink, text: &str) {
        let name = cut(&clean(name), MAX_NAME);
        let indent = TEXT.max(width(&name) + 2);
        for (at, words) in wrap(
            text,
            self.columns.saturating_sub(indent),
            self.detail.text_rows,
        )
        .iter()
        .enumerate()
        {
            let mut line = Line::default();
            if at == 0 {
                line.push(Ink::Dim, &name);
            }
            line.pad_to(indent);
            line.push(ink, words);
            self.lines.push(line);
        }
    }

    /// Adds `name  text` on one line; its later pieces are left out when they do not fit.
    pub(super) fn fact(&mut self, name: &str, pieces: &[(Ink, String)]) {
        let mut line = Line::of(Ink::Dim, &cut(&clean(name), MAX_NAME));
        line.pad_to(TEXT.max(line.width() + 2));
        let (must, may) = pieces.split_at(1);
        self.lines.push(join(line, must, may, self.columns));
    }
}

pub(super) fn join(
    mut line: Line,
    must: &[(Ink, String)],
    may: &[(Ink, String)],
    columns: usize,
) -> Line {
    for (ink, words) in must {
        line.push(*ink, words);
    }
    for (ink, words) in may {
        if line.width() + width(&clean(words)) > columns {
            break;
        }
        line.push(*ink, words);
    }
    line
}
