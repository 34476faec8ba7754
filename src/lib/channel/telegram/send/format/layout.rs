//! The layout of text: line ends, indentation, list markers and boxes between the blocks.

use super::source::{clean_char, unmask};
use super::{Origin, Style, Writer};

use std::ops::Range;

/// List items deeper than this are no longer indented: a phone has room for about 40 columns.
const MAX_INDENT: usize = 16;

/// What must come before the next text.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gap {
    #[default]
    None,
    Line,
    Paragraph,
    /// One line end, whatever else is asked for: a marker stands alone before a box.
    UnderMarker,
}

impl Writer<'_> {
    /// Writes the text of the event at `range`, wherever in it the text stands.
    pub(super) fn put_within(&mut self, text: &str, range: Range<usize>) {
        let source = self.source.get(range.clone()).unwrap_or("");
        let at = source.find(text).map(|at| range.start + at);
        if at.is_none() {
            self.lead.get_or_insert(range.start);
        }
        self.put(text, at, range.end);
    }

    /// Writes `text`, which is at `at` in the source if it is there byte for byte; `end` is where
    /// its source ends.
    pub(super) fn put(&mut self, text: &str, at: Option<usize>, end: usize) {
        if text.is_empty() {
            return;
        }
        let shown: String = text.chars().map(unmask).filter_map(clean_char).collect();
        if let Some(table) = &mut self.table {
            return table.cell.push_str(&shown.replace(['\n', '\t'], " "));
        }
        let lead = self.take_lead(at.unwrap_or(self.last_end));
        self.put_gap(lead);
        // Telegram makes one space of a tab; code deserves its indentation.
        let code = |text: &str| text.replace('\t', if self.pre.is_some() { "    " } else { "\t" });
        let style = self.style();
        match at.filter(|_| shown.len() == text.len()) {
            None => {
                let shown = code(&shown);
                self.flow.push(&shown, style, Origin::Rewritten, lead);
            }
            Some(mut at) => {
                let mut lead = lead;
                for line in shown.split_inclusive('\n') {
                    let rewritten = code(line);
                    let exact = Some(Origin::Exact(at)).filter(|_| rewritten == line);
                    let origin = exact.unwrap_or(Origin::Rewritten);
                    self.flow.push(&rewritten, style, origin, lead);
                    at += line.len();
                    lead = at;
                }
            }
        }
        self.last_end = end.max(self.last_end);
    }

    /// Returns where the source of a text at `at` begins: at the markup that opened since the last
    /// text, or at the beginning of its line where only quote and list markers are before it.
    fn take_lead(&mut self, at: usize) -> usize {
        let between = self.source.get(self.last_end..at).unwrap_or("");
        let line = between
            .rfind('\n')
            .map_or(at, |line| self.last_end + line + 1);
        self.lead.take().unwrap_or(at).min(line).max(self.last_end)
    }

    pub(super) fn new_line(&mut self, range: &Range<usize>) {
        if self.table.is_some() {
            return self.put(" ", None, range.end);
        }
        if self.gap != Gap::None || !self.marker.is_empty() {
            let lead = self.take_lead(range.start);
            self.put_gap(lead);
        }
        let indent = self.indents.last().copied().unwrap_or(0);
        let style = self.style();
        self.flow
            .push(&format!("\n{:indent$}", ""), style, Origin::Gap, range.end);
        self.last_end = range.start;
    }

    /// Writes the line ends, the indentation and the markers that are due.
    fn put_gap(&mut self, lead: usize) {
        let line_ends = match std::mem::take(&mut self.gap) {
            _ if self.flow.text().is_empty() => "",
            Gap::None => "",
            Gap::Line | Gap::UnderMarker => "\n",
            Gap::Paragraph => "\n\n",
        };
        let indent = match () {
            () if line_ends.is_empty() => 0,
            () if !self.marker.is_empty() => self.marker_indent,
            () if self.pre.is_some() => 0,
            () => self.indents.last().copied().unwrap_or(0),
        };
        let quoted = |quote| Style {
            quote,
            ..Style::default()
        };
        let same = self.flow.last_style().quote == self.quote;
        let gap = quoted(self.quote.filter(|_| same));
        self.flow.push(line_ends, gap, Origin::Gap, lead);
        let (style, indent) = (quoted(self.quote), " ".repeat(indent));
        self.flow.push(&indent, style, Origin::Gap, lead);
        let marker = std::mem::take(&mut self.marker);
        self.flow.push(&marker, style, Origin::Marker, lead);
    }

    pub(super) fn gap(&mut self, gap: Gap) {
        if self.marker.is_empty() {
            self.gap = self.gap.max(gap);
        }
    }

    /// A list inside of another begins and ends with a line, others with a paragraph.
    pub(super) fn list_gap(&mut self) {
        let is_inner = !self.lists.is_empty();
        self.gap(if is_inner { Gap::Line } else { Gap::Paragraph });
    }

    /// Writes the marker of an item that has no text of its own.
    pub(super) fn put_marker(&mut self) {
        if !self.marker.is_empty() {
            self.marker.truncate(self.marker.trim_end().len());
            let lead = self.lead.take().unwrap_or(self.last_end).max(self.last_end);
            self.put_gap(lead);
        }
    }

    /// Begins a block that Telegram draws as a box of its own.
    pub(super) fn open_block(&mut self) {
        if !self.marker.is_empty() {
            self.put_marker();
            return self.gap(Gap::UnderMarker);
        }
        self.gap(Gap::Paragraph);
    }

    pub(super) fn open_item(&mut self) {
        let outer = self.indents.last().copied().unwrap_or(0);
        if self.marker.is_empty() {
            self.gap(Gap::Line);
            self.marker_indent = outer;
        }
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            _ => "• ".to_owned(),
        };
        self.indents
            .push((outer + marker.chars().count()).min(MAX_INDENT));
        self.marker.push_str(&marker);
    }

    pub(super) fn open_pre(&mut self, language: &str) {
        (self.pre, self.pre_start) = (Some(self.flow.languages.len()), self.flow.text().len());
        self.flow.languages.push(language.to_owned());
    }

    /// Ends a block whose text ends with a line end.
    pub(super) fn close_lines(&mut self) {
        self.flow.trim_line_ends();
        self.pre = None;
        self.gap(Gap::Paragraph);
    }

    pub(super) fn close_table(&mut self, range: &Range<usize>) {
        let Some(table) = self.table.take() else {
            return;
        };
        self.open_pre("");
        for (row, line) in table.lines() {
            (self.lead, self.last_end) = (Some(row), row);
            self.put(&format!("{line}\n"), None, row);
        }
        self.last_end = range.end;
        self.close_lines();
    }

    /// Returns the text that is being written to: the cell of a table, or the flow.
    pub(super) fn shown(&self) -> &str {
        self.table
            .as_ref()
            .map_or(self.flow.text(), |table| &table.cell)
    }
}
