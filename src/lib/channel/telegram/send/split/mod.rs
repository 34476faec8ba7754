//! Cuts a styled text into messages that Telegram accepts, and writes each as HTML with balanced tags.
//!
//! A cut is at the end of a paragraph, else of a line, a sentence, a word, else of a character: the first of these that
//! leaves the message at least a quarter full. Styles belong to the text, not to the HTML, so a code fence or a bold passage
//! that is cut is open in both messages.

mod html;

use unicode_segmentation::UnicodeSegmentation;

pub(crate) use html::{Inline, Style};

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
        let last = self.spans.last();
        last.map(|span| span.style).unwrap_or_default()
    }

    /// Appends `text`; `lead` is where its source begins, markup included.
    pub(crate) fn push(&mut self, text: &str, style: Style, origin: Origin, lead: usize) {
        if text.is_empty() {
            return;
        }
        let start = self.text.len();
        let continues = self.spans.last().is_some_and(|last| {
            let next = |at| Origin::Exact(at + start - last.start);
            let follows = matches!(last.origin, Origin::Exact(at) if next(at) == origin);
            last.style == style && follows && origin == Origin::Exact(lead)
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
        let next = pieces.iter().skip(1);
        let ends = next
            .map(|next| self.source_of(next.start))
            .chain([Some(source.len())]);
        let mut from = Some(0);
        let mut parts = Vec::with_capacity(pieces.len());
        for (piece, to) in pieces.iter().zip(ends) {
            let slice = from.zip(to).and_then(|(from, to)| source.get(from..to));
            let slice = slice.map(|slice| slice.trim_matches('\n').trim_end());
            let slice = slice.filter(|slice| !is_blank(slice) && units(slice) <= limit);
            parts.push(Part {
                html: self.html(piece),
                plain: slice.map_or_else(|| self.spelled(piece), str::to_owned),
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

    /// Returns where text continues after a cut at `at`: behind the blank lines, or behind the spaces;
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
            let is_space = letter.trim_start().is_empty() && letter != "\u{a0}";
            if visible && is_space && span.origin != Origin::Marker && used <= limit {
                let rest = self.text.get(next..).unwrap_or("");
                let place = match letter {
                    "\n" if span.style.pre.is_none() && rest.starts_with('\n') => Place::Paragraph,
                    "\n" => Place::Line,
                    _ if ends_sentence(before) => Place::Sentence,
                    _ => Place::Space,
                };
                cuts.note(place, at, used >= limit / 4);
            }
            if cost.units > limit {
                break;
            }
            visible = visible || !is_blank(letter);
            before = letter.chars().next_back().unwrap_or(' ');
            if visible && matches!(before, '。' | '！' | '？') {
                cuts.note(Place::Sentence, next, cost.units >= limit / 4);
            }
            cuts.letter = next;
        }
        // A single letter over the limit (a pile of combining marks) is cut between characters.
        cuts.best().unwrap_or_else(|| {
            let last = window.chars().next_back().map_or(0, char::len_utf8);
            let fits = window.len() - last;
            start + if fits > 0 { fits } else { last }
        })
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
            let span = self.spans.get(index)?;
            let next = self.spans.get(index + 1);
            let end = next.map_or(self.text.len(), |next| next.start);
            let range = span.start.max(piece.start)..end.min(piece.end);
            let starts_before_end = span.start < piece.end;
            let text = self.text.get(range).filter(|_| starts_before_end)?;
            Some((span.style, text))
        })
    }

    /// Returns `piece` as plain text with the targets of its links.
    fn spelled(&self, piece: &Range<usize>) -> String {
        let mut out = String::new();
        let mut open: Option<usize> = None;
        for (style, text) in self.runs(piece).chain([(Style::default(), "")]) {
            let closed = open.filter(|_| style.link != open);
            if let Some(link) = closed.and_then(|link| self.links.get(link))
                && link.spelled
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
        let spans = &self.flow.spans;
        while spans
            .get(self.span + 1)
            .is_some_and(|next| next.start < end)
        {
            self.span += 1;
            self.charge();
        }
        &spans[self.span]
    }

    fn charge(&mut self) {
        let span = self.flow.spans.get(self.span);
        let link = span.and_then(|span| span.style.link);
        if link.is_some() && link != self.charged {
            self.charged = link;
            let link = link.and_then(|link| self.flow.links.get(link));
            let spelled = link.filter(|link| link.spelled);
            self.units += spelled.map_or(0, |link| units(&link.url) + " ()".len());
        }
    }
}

/// Where a piece may end, best first.
#[derive(Clone, Copy)]
enum Place {
    Paragraph,
    Line,
    Sentence,
    Space,
}

/// The last place of each sort, and whether the piece is then at least a quarter full.
#[derive(Default)]
struct Cuts {
    places: [Option<(usize, bool)>; 4],
    letter: usize,
}

impl Cuts {
    fn note(&mut self, place: Place, at: usize, full: bool) {
        self.places[place as usize] = Some((at, full));
    }

    fn best(&self) -> Option<usize> {
        let mut places = self.places.iter().flatten();
        let full = places.clone().find(|(_, full)| *full);
        let place = full.or_else(|| places.next()).map(|(at, _)| *at);
        place.or(Some(self.letter).filter(|at| *at > 0))
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
