//! [`Line`]: coloured text with its width on a terminal.
//!
//! All text passes [`clean`] first, so that no name and no error can control the terminal or break the frame.

use unicode_segmentation::UnicodeSegmentation;

use crate::app::color::Paint;
pub(super) use crate::app::columns::{cut, cut_front, fitting, width};
use crate::text;

const MAX_CHARS: usize = 4000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Plain,
    Bold,
    /// What is there when it is looked for.
    Dim,
    Green,
    Yellow,
    Red,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line {
    pieces: Vec<(Ink, String)>,
    width: usize,
}

impl Line {
    pub(super) fn of(ink: Ink, words: &str) -> Self {
        let mut line = Self::default();
        line.push(ink, words);
        line
    }

    pub(super) fn push(&mut self, ink: Ink, words: &str) {
        let words = clean(words);
        if !words.is_empty() {
            self.width += width(&words);
            self.pieces.push((ink, words));
        }
    }

    /// Adds spaces until the next piece begins at `column`, counted from 0.
    pub(super) fn pad_to(&mut self, column: usize) {
        let missing = column.saturating_sub(self.width);
        if missing > 0 {
            self.width += missing;
            self.pieces.push((Ink::Plain, " ".repeat(missing)));
        }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn pieces(&self) -> &[(Ink, String)] {
        &self.pieces
    }

    /// Returns the line behind `mark`.
    pub(super) fn after(self, ink: Ink, mark: &str) -> Self {
        let mut line = Self::of(ink, mark);
        line.width += self.width;
        line.pieces.extend(self.pieces);
        line
    }

    /// Returns the line, or as much of it as fits with `…` at its end.
    pub(super) fn cut(self, columns: usize) -> Self {
        if self.width <= columns {
            return self;
        }
        let mut short = Self::default();
        for (ink, words) in self.pieces {
            let room = columns - short.width;
            let fits = width(&words) < room;
            let words = if fits {
                words
            } else {
                cut(&format!("{words}…"), room)
            };
            short.width += width(&words);
            short.pieces.push((ink, words));
            if !fits {
                break;
            }
        }
        short
    }

    /// Returns the line as it is printed, without the spaces at its end.
    pub(super) fn print(&self, paint: Paint) -> String {
        let mut pieces: Vec<(Ink, &str)> = self
            .pieces
            .iter()
            .map(|(ink, words)| (*ink, words.as_str()))
            .collect();
        while let Some((ink, words)) = pieces.pop() {
            let trimmed = words.trim_end_matches(' ');
            if !trimmed.is_empty() {
                pieces.push((ink, trimmed));
                break;
            }
        }
        let print = |(ink, words): (Ink, &str)| match ink {
            Ink::Plain => words.to_owned(),
            Ink::Bold => paint.sgr("1", words),
            Ink::Dim => paint.dim(words),
            Ink::Green => paint.sgr("32", words),
            Ink::Yellow => paint.sgr("33", words),
            Ink::Red => paint.sgr("31", words),
        };
        pieces.into_iter().map(print).collect()
    }
}

/// Returns `words` on one line, with what is not to be seen escaped.
pub(super) fn clean(words: &str) -> String {
    let words = text::shorten(words, MAX_CHARS);
    if words
        .chars()
        .all(|c| c == ' ' || !(c.is_whitespace() || c.is_control()))
    {
        return text::visible(&words);
    }
    text::visible(&text::one_line(&words))
}

/// Returns `words` on lines of `columns` with every space where it was, broken anywhere; what is not to be
/// seen is escaped. An empty text is one empty line.
pub(super) fn chop(words: &str, columns: usize) -> Vec<String> {
    let words = text::visible(words);
    let mut lines = Vec::new();
    let mut rest = words.as_str();
    loop {
        let mut head = fitting(rest, columns);
        if head.is_empty() {
            // A letter wider than the line is on one of its own, before this would turn in circles.
            head = rest.graphemes(true).next().unwrap_or_default();
        }
        lines.push(head.to_owned());
        rest = rest.get(head.len()..).unwrap_or_default();
        if rest.is_empty() {
            return lines;
        }
    }
}

/// Returns `words` on at most `rows` lines of `columns`, broken between words where that is
/// possible; the last ends with `…` when more would follow.
pub(super) fn wrap(words: &str, columns: usize, rows: usize) -> Vec<String> {
    let words = clean(words);
    let mut lines: Vec<String> = Vec::new();
    let mut rest = words.trim();
    while !rest.is_empty() && lines.len() < rows {
        if lines.len() + 1 == rows {
            lines.push(cut(rest, columns));
            break;
        }
        let head = fitting(rest, columns);
        let whole = head.len() == rest.len()
            || rest
                .get(head.len()..)
                .is_some_and(|after| after.starts_with(' '));
        let end = match head.rfind(' ') {
            Some(space) if !whole => space,
            _ => head.len(),
        };
        // A letter wider than the line ends here, before it would turn in circles.
        let (Some(line), Some(after)) = (
            rest.get(..end).filter(|line| !line.is_empty()),
            rest.get(end..),
        ) else {
            break;
        };
        lines.push(line.trim_end().to_owned());
        rest = after.trim_start();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_anybody_stay_on_the_line_and_command_nothing() {
        assert_eq!(
            clean("two\nlines\tand \u{1b}[31mred\u{202e}"),
            "two lines and \\u{1b}[31mred\\u{202e}"
        );
        assert_eq!(clean("two  spaces stay"), "two  spaces stay");
    }

    #[test]
    fn wide_letters_take_two_columns_and_are_never_cut_in_half() {
        assert_eq!(
            ["ab", "李明", "👍🏽", "❤\u{fe0f}", "e\u{301}", "a\u{ad}b"].map(width),
            [2, 4, 4, 2, 1, 3]
        );
        assert_eq!(
            (cut("李明李明", 5), cut("李明李明", 4), cut("李明", 4)),
            ("李明…".into(), "李…".into(), "李明".into())
        );
        assert_eq!(
            (cut("abc", 1), cut("abc", 0), cut("", 0)),
            ("…".into(), String::new(), String::new())
        );
        assert_eq!(cut_front("exec, read, exec", 8), "…d, exec");
    }

    #[test]
    fn words_are_wrapped_between_words_and_long_ones_anywhere() {
        let check = |words: &str, columns, rows, lines: &[&str]| {
            assert_eq!(wrap(words, columns, rows), lines, "{words}")
        };
        check("the disk is full", 8, 9, &["the disk", "is full"]);
        check("the disk is full", 9, 2, &["the disk", "is full"]);
        check("the disk is full", 8, 1, &["the dis…"]);
        check("abcdefghij k", 4, 9, &["abcd", "efgh", "ij k"]);
        check("李明", 1, 9, &[]);
        check("", 8, 2, &[]);
    }

    #[test]
    fn what_is_chopped_keeps_every_space() {
        let check = |words: &str, columns, lines: &[&str]| {
            assert_eq!(chop(words, columns), lines, "{words}")
        };
        check("", 8, &[""]);
        check("  rm  -r", 4, &["  rm", "  -r"]);
        check("a\tb\u{200b}", 40, &["a\\u{9}b\\u{200b}"]);
        check("李明x", 1, &["李", "明", "x"]);
        check("李明x", 3, &["李", "明x"]);
    }

    proptest! {
        #[test]
        fn nothing_is_wider_than_its_room(words in "(\\PC|[ \\n\\x1b\u{ad}李👍🏽\u{fe0f}\u{200d}e\u{301}]){0,60}", columns in 0usize..30) {
            let clean = clean(&words);
            prop_assert!(width(&cut(&clean, columns)) <= columns);
            prop_assert!(width(&cut_front(&clean, columns)) <= columns);
            for line in wrap(&words, columns, 5) {
                prop_assert!(width(&line) <= columns && unicode_width::UnicodeWidthStr::width(line.as_str()) <= columns);
            }
            let mut line = Line::of(Ink::Red, &words);
            line.push(Ink::Dim, &words);
            let line = line.cut(columns);
            prop_assert!(line.width() <= columns && width(&line.print(Paint::PLAIN)) <= columns);
        }

        #[test]
        fn wrapping_loses_no_letter(words in "[a-z李 ]{0,80}", columns in 2usize..20) {
            let letters = |text: &str| text.chars().filter(|c| *c != ' ').collect::<String>();
            prop_assert_eq!(letters(&wrap(&words, columns, usize::MAX).concat()), letters(&words));
        }
    }
}
