//! A table as lines of text in columns.

use pulldown_cmark::Alignment;
use unicode_width::UnicodeWidthStr;

/// Columns of a table beyond which it is not aligned: it wraps anyway, and padding would only add messages.
const MAX_TABLE_WIDTH: usize = 80;

/// Padding of a whole table beyond which it is not aligned: a thousand near-empty rows under one wide head.
const MAX_TABLE_SIZE: usize = 65_536;

/// A table that is being read.
pub(super) struct Table {
    alignments: Vec<Alignment>,
    /// The rows, the head first, with where each begins in the source.
    rows: Vec<(usize, Vec<String>)>,
    /// The cell that is being read.
    pub(super) cell: String,
}

impl Table {
    pub(super) fn new(alignments: Vec<Alignment>) -> Self {
        Self {
            alignments,
            rows: Vec::new(),
            cell: String::new(),
        }
    }

    pub(super) fn open_row(&mut self, source: usize) {
        self.rows.push((source, Vec::new()));
    }

    pub(super) fn close_cell(&mut self) {
        let cell = std::mem::take(&mut self.cell).trim().to_owned();
        if let Some((_, cells)) = self.rows.last_mut() {
            cells.push(cell);
        }
    }

    /// Returns the lines with where the row of each begins in the source; the head's has a
    /// rule under it.
    pub(super) fn lines(&self) -> Vec<(usize, String)> {
        let widths = self.widths();
        let mut lines = Vec::with_capacity(self.rows.len());
        for (index, (source, cells)) in self.rows.iter().enumerate() {
            let mut line = self.line(cells, &widths);
            if index == 0 {
                let dashes = widths.iter().map(|width| "-".repeat((*width).max(1)));
                let rule: Vec<String> = dashes.collect();
                line.extend(["\n", &rule.join("-+-")]);
            }
            lines.push((*source, line));
        }
        lines
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let padded = cells.iter().zip(widths).enumerate();
        let padded = padded.map(|(column, (cell, width))| {
            let room = width.saturating_sub(cell.width());
            let left = match self.alignments.get(column) {
                Some(Alignment::Right) => room,
                Some(Alignment::Center) => room / 2,
                Some(Alignment::None | Alignment::Left) | None => 0,
            };
            format!("{}{cell}{}", " ".repeat(left), " ".repeat(room - left))
        });
        padded.collect::<Vec<_>>().join(" | ").trim_end().to_owned()
    }

    /// Returns the width of each column, all 0 when the table is too wide to align.
    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(|(_, cells)| cells.len());
        let columns = columns.max().unwrap_or(0);
        let mut widths = vec![0; columns];
        for (_, cells) in &self.rows {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = cell.width().max(*width);
            }
        }
        let width: usize = widths.iter().sum();
        let aligned = width <= MAX_TABLE_WIDTH && width * self.rows.len() <= MAX_TABLE_SIZE;
        if aligned { widths } else { vec![0; columns] }
    }
}
