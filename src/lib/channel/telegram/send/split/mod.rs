//! Cuts a styled text into messages that Telegram takes, and writes each as HTML with balanced tags.
//!
//! A cut prefers a paragraph, then a line, a sentence, a space, and at last the edge of a letter; the
//! first of them that leaves the message at least a quarter full wins. Styles live on the text, not in
//! the HTML, so a fence or a bold passage that is cut is simply open in both messages.

mod html;

use unicode_segmentation::UnicodeSegmentation;

pub(crate) use html::Style;

use std::ops::Range;

/// One outgoing message: HTML, and the plain source text to send when Telegram refuses the HTML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// What to send with `parse_mode = "HTML"`.
    pub(crate) html: String,
    /// What to send without a parse mode: this part's slice of the Markdown. Where no slice covers
    /// exactly what the part shows (a cut inside a table row or a decoded passage), or the slice is
    /// over the limit, it is the visible text with ` (url)` after each link.
    pub(crate) plain: String,
}

/// Where the text of a span comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The same bytes as the source at this offset.
    Exact(usize),
    /// The source, rewritten: a place inside it has no place in the source.
    Rewritten,
    /// Line ends and indentation of ours.
    Gap,
    /// The bullet or number of a list item with its space, which stay with the item.
    Marker,
}

/// A stretch of the text with one style; it ends where the next begins.
#[derive(Debug)]
struct Span {
    start: usize,
    style: Style,
    origin: Origin,
    /// Where its source begins, markup included.
    lead: usize,
}

/// Target of a link; `spelled` when the plain text must name it because the link's text does not.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) url: String,
    pub(crate) spelled: bool,
}

impl Link {
    /// Returns the units of ` (url)`, or 0 when the text says it.
    fn spelled_units(&self) -> usize {
        if self.spelled {
            units(&self.url) + " ()".len()
        } else {
            0
        }
    }
}

/// The whole visible text with its styles, in order.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    text: String,
    spans: Vec<Span>,
    pub(crate) links: Vec<Link>,
    pub(crate) languages: Vec<String>,
}

impl Flow {
    /// Returns the text so far.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the style of the last span.
    pub(crate) fn last_style(&self) -> Style {
        self.spans
            .last()
            .map_or_else(Style::default, |span| span.style)
    }

    /// Appends `text`; `lead` is where its source begins, markup included.
    pub(crate) fn push(&mut self, text: &str, style: Style, origin: Origin, lead: usize) {
        if text.is_empty() {
            return;
        }
        let start = self.text.len();
        let continues = self.spans.last().is_some_and(|last| {
            let next = match last.origin {
                Origin::Exact(at) => Some(Origin::Exact(at + start - last.start)),
                Origin::Rewritten | Origin::Gap | Origin::Marker => None,
            };
            last.style == style && next == Some(origin) && origin == Origin::Exact(lead)
        });
        if !continues {
            let lead = lead.max(self.spans.last().map_or(0, |last| last.lead));
            self.spans.push(Span {
                start,
                style,
                origin,
                lead,
            });
        }
        self.text.push_str(text);
    }

    /// Removes the line ends that close the text.
    pub(crate) fn trim_line_ends(&mut self) {
        let kept = self.text.trim_end_matches('\n').len();
        self.text.truncate(kept);
        while self.spans.last().is_some_and(|span| span.start >= kept) {
            self.spans.pop();
        }
    }

    /// Returns the parts in order, each of at most `limit` UTF-16 units; `source` is what the leads
    /// and origins point into.
    pub(crate) fn parts(&self, source: &str, limit: usize) -> Vec<Part> {
        let pieces = self.pieces(limit);
        let starts = pieces
            .iter()
            .skip(1)
            .map(|next| self.source_of(next.start))
            .chain([Some(source.len())]);
        let mut from = Some(0);
        let mut parts = Vec::with_capacity(pieces.len());
        for (piece, to) in pieces.iter().zip(starts) {
            let slice = from
                .zip(to)
                .and_then(|(from, to)| source.get(from..to))
                .map(|slice| slice.trim_matches('\n').trim_end());
            let slice = slice.filter(|slice| !is_blank(slice) && units(slice) <= limit);
            let plain = slice.map_or_else(|| self.spelled(piece), str::to_owned);
            parts.push(Part {
                html: self.html(piece),
                plain,
            });
            from = to;
        }
        parts
    }

    /// Returns the stretches of text of the parts: none blank, nothing but blanks between them.
    fn pieces(&self, limit: usize) -> Vec<Range<usize>> {
        let end = self.text.trim_end().len();
        let mut pieces = Vec::new();
        let mut start = self.after_seam(0, end);
        while start < end {
            let cut = self.cut(start, end, limit);
            let shown = self.text.get(start..cut).unwrap_or("");
            if !is_blank(shown) {
                pieces.push(start..start + shown.trim_end().len());
            }
            start = self.after_seam(cut, end);
        }
        pieces
    }

    /// Returns where text goes on after a cut at `at`: behind the blank lines, or behind the spaces;
    /// the indentation of a line stays.
    fn after_seam(&self, at: usize, end: usize) -> usize {
        let rest = self.text.get(at..end).unwrap_or("");
        let blanks = rest.len() - rest.trim_start_matches([' ', '\n', '\t']).len();
        let line = rest.get(..blanks).and_then(|blanks| blanks.rfind('\n'));
        at + line.map_or(if at > 0 { blanks } else { 0 }, |line| line + 1)
    }

    /// Returns where the piece that begins at `start` ends: always behind `start`.
    fn cut(&self, start: usize, end: usize, limit: usize) -> usize {
        let Some(window) = self.window(start, end, limit) else {
            return end;
        };
        let mut cuts = Cuts::default();
        let mut cost = Cost::at(self, start);
        let mut visible = false;
        let mut before = ' ';
        for (offset, letter) in window.grapheme_indices(true) {
            let (at, next) = (start + offset, start + offset + letter.len());
            let used = cost.units;
            let span = cost.add(letter, next);
            if visible
                && letter.trim_start().is_empty()
                && letter != "\u{a0}"
                && span.origin != Origin::Marker
            {
                let paragraph = span.style.pre.is_none()
                    && self
                        .text
                        .get(next..)
                        .is_some_and(|rest| rest.starts_with('\n'));
                match letter {
                    "\n" if paragraph => cuts.paragraph.at(at, used, limit),
                    "\n" => cuts.line.at(at, used, limit),
                    _ if ends_sentence(before) => cuts.sentence.at(at, used, limit),
                    _ => cuts.space.at(at, used, limit),
                }
            }
            if cost.units > limit {
                break;
            }
            visible = visible || !is_blank(letter);
            before = letter.chars().next_back().unwrap_or(' ');
            if visible && matches!(before, '。' | '！' | '？') {
                cuts.sentence.at(next, cost.units, limit);
            }
            cuts.letter = next;
        }
        cuts.best()
            .unwrap_or_else(|| self.cut_inside_letter(start, window, limit))
    }

    /// Returns the text from `start` that is one character over `limit`, or `None` when the rest fits.
    fn window(&self, start: usize, end: usize, limit: usize) -> Option<&str> {
        let rest = self.text.get(start..end)?;
        let mut cost = Cost::at(self, start);
        for (offset, c) in rest.char_indices() {
            let next = offset + c.len_utf8();
            cost.add(rest.get(offset..next)?, start + next);
            if cost.units > limit {
                return rest.get(..next);
            }
        }
        None
    }

    /// Cuts a single letter that is over the limit (a pile of combining marks) between characters.
    fn cut_inside_letter(&self, start: usize, window: &str, limit: usize) -> usize {
        let mut cost = Cost::at(self, start);
        let mut fits = 0;
        for (offset, c) in window.char_indices() {
            let next = offset + c.len_utf8();
            cost.add(window.get(offset..next).unwrap_or(""), start + next);
            if cost.units > limit && fits > 0 {
                break;
            }
            fits = next;
        }
        start + fits
    }

    /// Returns the span that holds the byte at `at`.
    fn span_index(&self, at: usize) -> usize {
        self.spans
            .partition_point(|span| span.start <= at)
            .saturating_sub(1)
    }

    /// Returns where the source of the text at `at` begins, if that is one place.
    fn source_of(&self, at: usize) -> Option<usize> {
        let span = self.spans.get(self.span_index(at))?;
        match span.origin {
            _ if span.start == at => Some(span.lead),
            Origin::Exact(source) => Some(source + at - span.start),
            Origin::Gap | Origin::Marker => Some(span.lead),
            Origin::Rewritten => None,
        }
    }

    /// Returns the styled stretches of `piece`.
    fn runs(&self, piece: &Range<usize>) -> impl Iterator<Item = (Style, &str)> {
        let (first, piece) = (self.span_index(piece.start), piece.clone());
        (first..self.spans.len()).map_while(move |index| {
            let span = self
                .spans
                .get(index)
                .filter(|span| span.start < piece.end)?;
            let end = self
                .spans
                .get(index + 1)
                .map_or(self.text.len(), |next| next.start);
            Some((
                span.style,
                self.text
                    .get(span.start.max(piece.start)..end.min(piece.end))?,
            ))
        })
    }

    /// Returns `piece` as plain text with the targets of its links.
    fn spelled(&self, piece: &Range<usize>) -> String {
        let mut out = String::new();
        let mut open: Option<usize> = None;
        for (style, text) in self.runs(piece).chain([(Style::default(), "")]) {
            if let Some(link) = open
                .filter(|_| style.link != open)
                .and_then(|link| self.links.get(link))
                .filter(|link| link.spelled)
            {
                out.extend([" (", &link.url, ")"]);
            }
            open = style.link;
            out.push_str(text);
        }
        out
    }
}

/// What a piece costs so far: its letters, and once for each link the target its plain text names.
struct Cost<'a> {
    flow: &'a Flow,
    span: usize,
    charged: Option<usize>,
    units: usize,
}

impl<'a> Cost<'a> {
    fn at(flow: &'a Flow, start: usize) -> Self {
        let mut cost = Self {
            flow,
            span: flow.span_index(start),
            charged: None,
            units: 0,
        };
        cost.charge();
        cost
    }

    /// Counts `text`, which ends at `end`, and returns the span it ends in.
    fn add(&mut self, text: &str, end: usize) -> &'a Span {
        self.units += units(text);
        while self
            .flow
            .spans
            .get(self.span + 1)
            .is_some_and(|next| next.start < end)
        {
            self.span += 1;
            self.charge();
        }
        &self.flow.spans[self.span]
    }

    fn charge(&mut self) {
        let link = self
            .flow
            .spans
            .get(self.span)
            .and_then(|span| span.style.link);
        if link.is_some() && link != self.charged {
            self.charged = link;
            self.units += link
                .and_then(|link| self.flow.links.get(link))
                .map_or(0, Link::spelled_units);
        }
    }
}

/// The last place of one kind, and whether the piece is then at least a quarter full.
#[derive(Default)]
struct Place {
    at: Option<usize>,
    full: bool,
}

impl Place {
    fn at(&mut self, at: usize, used: usize, limit: usize) {
        if used <= limit {
            *self = Self {
                at: Some(at),
                full: used >= limit / 4,
            };
        }
    }
}

/// The last place of each kind.
#[derive(Default)]
struct Cuts {
    paragraph: Place,
    line: Place,
    sentence: Place,
    space: Place,
    letter: usize,
}

impl Cuts {
    fn best(&self) -> Option<usize> {
        let places = [&self.paragraph, &self.line, &self.sentence, &self.space];
        let full = places
            .iter()
            .find(|place| place.full)
            .and_then(|place| place.at);
        full.or_else(|| places.iter().find_map(|place| place.at))
            .or(Some(self.letter).filter(|at| *at > 0))
    }
}

/// Returns the length of `text` as Telegram counts: UTF-16 code units.
pub(crate) fn units(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// Returns whether Telegram would call `text` empty: white space and characters without a picture
/// (`strip_empty_characters` and `clean_input_string` in tdlib's misc.cpp, read 2026, and the
/// default-ignorable characters of Unicode).
pub(crate) fn is_blank(text: &str) -> bool {
    text.chars().all(|c| {
        c.is_whitespace()
            || c.is_control()
            || matches!(c, '\u{ad}' | '\u{30a}' | '\u{333}' | '\u{33f}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}'
                | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fffc}' | '\u{e0000}'..='\u{e0fff}')
    })
}

fn ends_sentence(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '…' | '。' | '！' | '？')
}

#[cfg(test)]
mod tests;
