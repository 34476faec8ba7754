//! Tables with aligned columns, for any script, that fit on a terminal.

use std::io::IsTerminal;

use super::columns::{cut, width};
use crate::text;

const GAP: usize = 2;

#[derive(Debug, Clone, Copy)]
pub(in crate::app) struct Column {
    title: &'static str,
    right: bool,
    least: usize,
}

impl Column {
    /// Returns a column of words, which are never cut.
    pub(in crate::app) const fn left(title: &'static str) -> Self {
        Self {
            title,
            right: false,
            least: usize::MAX,
        }
    }

    pub(in crate::app) const fn right(title: &'static str) -> Self {
        Self {
            title,
            right: true,
            least: usize::MAX,
        }
    }

    pub(in crate::app) fn title(&self) -> &'static str {
        self.title
    }

    /// Lets it be cut to `least` where there is no room.
    pub(in crate::app) const fn cut_to(self, least: usize) -> Self {
        Self { least, ..self }
    }
}

/// A table of a document, as every renderer draws it; its cells may be anybody's words.
#[derive(Debug)]
pub(in crate::app) struct Table {
    pub(in crate::app) columns: Vec<Column>,
    pub(in crate::app) rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns it as text, without characters that command a terminal.
    pub(in crate::app) fn lines(&self, room: usize) -> Vec<String> {
        let visible = |row: &Vec<String>| row.iter().map(|cell| text::visible(cell)).collect();
        let rows: Vec<Vec<String>> = self.rows.iter().map(visible).collect();
        lines(&self.columns, &rows, room)
    }
}

/// Returns the room that a table has: the terminal's width, without end in a pipe.
pub(in crate::app) fn room() -> usize {
    if !std::io::stdout().is_terminal() {
        return usize::MAX;
    }
    terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0))
}

/// Returns the lines of a table: the titles, if any column has one, then the rows. What is too wide for
/// `room` is cut where that is allowed, the last such column first.
pub(in crate::app) fn lines(columns: &[Column], rows: &[Vec<String>], room: usize) -> Vec<String> {
    let titles: Vec<String> = columns
        .iter()
        .map(|column| column.title.to_owned())
        .collect();
    let titled = columns.iter().any(|column| !column.title.is_empty());
    let all = || titled.then_some(&titles).into_iter().chain(rows);
    let widest = |at: usize| {
        all()
            .filter_map(|row| row.get(at))
            .map(|cell| width(cell))
            .max()
            .unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..columns.len()).map(widest).collect();
    let gaps = GAP * columns.len().saturating_sub(1);
    while widths.iter().sum::<usize>().saturating_add(gaps) > room {
        let may_be_cut = columns
            .iter()
            .zip(&mut widths)
            .rev()
            .find(|(column, width)| column.least < **width);
        let Some((_, width)) = may_be_cut else { break };
        *width -= 1;
    }
    all().map(|row| line(columns, &widths, row)).collect()
}

fn line(columns: &[Column], widths: &[usize], row: &[String]) -> String {
    let mut line = String::new();
    for ((column, room), cell) in columns.iter().zip(widths).zip(row) {
        let cell = cut(cell, *room);
        let space = " ".repeat(room.saturating_sub(width(&cell)));
        let (before, after) = if column.right {
            (space, String::new())
        } else {
            (String::new(), space)
        };
        line.push_str(&format!("{before}{cell}{after}{:GAP$}", ""));
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [
        Column::left("NAME").cut_to(4),
        Column::left("ID"),
        Column::right("N"),
    ];

    fn rows() -> Vec<Vec<String>> {
        [
            ["Ada Lovelace", "0123456789", "7"],
            ["本居宣長", "x", "1234"],
        ]
        .map(|row| row.map(str::to_owned).to_vec())
        .to_vec()
    }

    #[test]
    fn columns_stand_below_each_other_in_any_script() {
        assert_eq!(
            lines(&COLUMNS, &rows(), usize::MAX),
            [
                "NAME          ID             N",
                "Ada Lovelace  0123456789     7",
                "本居宣長      x           1234",
            ]
        );
    }

    #[test]
    fn only_what_may_be_cut_is_cut() {
        assert_eq!(
            lines(&COLUMNS, &rows(), 26),
            [
                "NAME      ID             N",
                "Ada Lov…  0123456789     7",
                "本居宣長  x           1234",
            ]
        );
        assert_eq!(
            [cut("本居宣長", 7), cut("本居宣長", 6)],
            ["本居宣…", "本居…"]
        );
        let narrow = lines(&COLUMNS, &rows(), 1);
        assert_eq!(narrow[1], "Ada…  0123456789     7");
    }

    #[test]
    fn a_table_without_titles_begins_with_its_rows() {
        let columns = [Column::left(""), Column::left("")];
        assert_eq!(
            lines(&columns, &[vec!["a".to_owned(), "b".to_owned()]], 80),
            ["a  b"]
        );
        assert_eq!(lines(&columns, &[], 80), [] as [&str; 0]);
    }
}
