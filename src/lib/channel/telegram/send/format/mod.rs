//! Markdown, as models write it, to Telegram's HTML.
//!
//! The source is read as CommonMark with tables, strikethrough and task lists; `||spoiler||` and the
//! tags `<b> <strong> <i> <em> <u> <ins> <s> <strike> <del> <tg-spoiler> <code> <br>` are understood
//! too, where they are closed in the same paragraph. Everything else that looks like HTML is shown as
//! it stands. What Telegram cannot show becomes the nearest thing: headings are bold, tables are
//! aligned `<pre>`, nested quotes are one quote, images are links. Nothing the model wrote is dropped:
//! link targets Telegram would not open and titles of links are spelled out, unused `[label]: definitions` stay visible.

mod layout;
mod link;
mod source;
mod table;

use pulldown_cmark::{CodeBlockKind, Event, LinkType, Tag, TagEnd};

pub(crate) use super::split::Part;
use super::split::{Flow, Inline, Link, Origin, Style, is_blank, units};
use layout::Gap;
use link::OpenLink;
use source::{Events, Switch, clean, mask, parse, switches};
use table::Table;

use std::iter::Peekable;
use std::ops::Range;
use std::vec::IntoIter;

/// Splits Markdown into parts, each of at most `limit` UTF-16 units after entity parsing, which is
/// what Telegram counts, and each with a `plain` of at most `limit` units.
///
/// Returns no part for blank input and never a blank part. The parts show the whole text in order, cut
/// at white space where there is any (see `split`); a link in a part costs the length of its target
/// too, because the plain text must name it. `limit` is at most 4096 (Bot API, `sendMessage`), less
/// what the caller adds; below 64 a part may exceed it by one letter.
pub(crate) fn render(markdown: &str, limit: usize) -> Vec<Part> {
    let (source, flow) = flow(markdown, limit);
    flow.parts(&source, limit)
}

/// Returns the cleaned source and its text with styles; what would show nothing is shown as it is.
pub(crate) fn flow(markdown: &str, limit: usize) -> (String, Flow) {
    let source = clean(markdown);
    let masked = mask(&source);
    let flow = Writer::new(&masked, limit).write(parse(&masked));
    if is_blank(flow.text()) {
        return unstyled(markdown);
    }
    (source, flow)
}

/// Splits a text into parts of at most `limit` UTF-16 units that are sent as they are, without markup.
///
/// Returns no part for blank input and never a blank part.
pub(crate) fn plain(text: &str, limit: usize) -> Vec<String> {
    let (source, flow) = unstyled(text);
    let parts = flow.parts(&source, limit).into_iter();
    parts.map(|part| part.plain).collect()
}

fn unstyled(text: &str) -> (String, Flow) {
    let source = clean(text);
    let mut flow = Flow::default();
    flow.push(&source, Style::default(), Origin::Exact(0), 0);
    (source, flow)
}

/// Writes the events of the parser into a flow.
#[derive(Default)]
struct Writer<'a> {
    source: &'a str,
    max_url: usize,
    flow: Flow,
    /// How many times each `Inline` is open.
    depth: [usize; 6],
    quotes: usize,
    quote: Option<usize>,
    pre: Option<usize>,
    /// How long the text was when the `pre`, or its title, began.
    pre_start: usize,
    links: Vec<OpenLink>,
    table: Option<Table>,
    /// Numbers of the next items of the open lists, `None` for bullets.
    lists: Vec<Option<u64>>,
    indents: Vec<usize>,
    /// Markers of the items whose text has not come yet, and their indentation.
    marker: String,
    marker_indent: usize,
    gap: Gap,
    /// Where the markup before the next text begins.
    lead: Option<usize>,
    /// Where the source of the last text ends.
    last_end: usize,
}

impl<'a> Writer<'a> {
    fn new(source: &'a str, limit: usize) -> Self {
        Self {
            source,
            max_url: (limit / 2).saturating_sub(" ()".len()),
            ..Self::default()
        }
    }

    fn write(mut self, events: Events<'_>) -> Flow {
        let mut switches = switches(self.source, &events).into_iter().peekable();
        for (event, range) in events {
            match event {
                Event::Start(tag) => {
                    self.lead = Some(self.lead.unwrap_or(range.start).min(range.start));
                    self.start(tag);
                }
                Event::End(tag) => self.end(tag, &range),
                Event::Text(text) => self.text(&text, range, &mut switches),
                Event::Code(text) => {
                    self.depth[Inline::Code as usize] += 1;
                    self.put_within(&text, range);
                    self.depth[Inline::Code as usize] -= 1;
                }
                Event::InlineHtml(tag) => {
                    match switches.next_if(|switch| switch.range.start == range.start) {
                        Some(switch) => self.switch(&switch),
                        None if is_line_break(&tag) => self.new_line(&range),
                        None => self.put_within(&tag, range),
                    }
                }
                Event::SoftBreak | Event::HardBreak => self.new_line(&range),
                Event::Rule => {
                    self.open_block();
                    self.put("———", None, range.end);
                    self.gap(Gap::Paragraph);
                }
                Event::TaskListMarker(done) => {
                    let outer = self.marker.strip_suffix("• ").unwrap_or(&self.marker);
                    self.marker = format!("{outer}{} ", if done { '☑' } else { '☐' });
                }
                Event::Html(text)
                | Event::InlineMath(text)
                | Event::DisplayMath(text)
                | Event::FootnoteReference(text) => {
                    self.put_within(&text, range);
                }
            }
        }
        self.flow
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::Heading { .. } => {
                self.gap(Gap::Paragraph);
                self.depth[Inline::Bold as usize] += usize::from(tag != Tag::Paragraph);
            }
            Tag::BlockQuote(_) => {
                self.open_block();
                if self.quotes == 0 {
                    self.quote = Some(self.flow.text().len());
                }
                self.quotes += 1;
                self.indents.push(0);
            }
            Tag::CodeBlock(kind) => {
                self.open_block();
                let (language, title) = match &kind {
                    CodeBlockKind::Fenced(info) => language(info),
                    CodeBlockKind::Indented => ("", ""),
                };
                let start = self.flow.text().len();
                if !title.is_empty() {
                    self.put(title, None, self.last_end.max(self.lead.unwrap_or(0)));
                    self.gap(Gap::UnderMarker);
                }
                self.open_pre(language);
                self.pre_start = start;
            }
            Tag::List(first) => {
                self.list_gap();
                self.lists.push(first);
            }
            Tag::Item => self.open_item(),
            Tag::Table(alignments) => {
                self.open_block();
                self.table = Some(Table::new(alignments));
            }
            Tag::TableHead | Tag::TableRow => {
                let row = self.lead.take().unwrap_or(self.last_end);
                self.table.iter_mut().for_each(|table| table.open_row(row));
            }
            Tag::Emphasis => self.depth[Inline::Italic as usize] += 1,
            Tag::Strong => self.depth[Inline::Bold as usize] += 1,
            Tag::Strikethrough => self.depth[Inline::Strike as usize] += 1,
            Tag::Link {
                link_type: LinkType::Email,
                dest_url,
                ..
            } => self.open_link(&format!("mailto:{dest_url}"), ""),
            Tag::Link {
                dest_url, title, ..
            }
            | Tag::Image {
                dest_url, title, ..
            } => self.open_link(&dest_url, &title),
            Tag::HtmlBlock => self.gap(Gap::Paragraph),
            // Not enabled in the parser, or without a look of its own.
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd, range: &Range<usize>) {
        match tag {
            TagEnd::Paragraph => self.gap(Gap::Paragraph),
            TagEnd::Heading(_) => {
                self.depth[Inline::Bold as usize] -= 1;
                self.gap(Gap::Paragraph);
            }
            TagEnd::BlockQuote(_) => {
                self.indents.pop();
                self.quotes -= 1;
                if self.quotes == 0 {
                    self.quote = None;
                }
                self.gap(Gap::Paragraph);
            }
            TagEnd::CodeBlock => self.close_fence(range),
            TagEnd::HtmlBlock => self.close_lines(),
            TagEnd::List(_) => {
                self.lists.pop();
                self.list_gap();
            }
            TagEnd::Item => {
                self.put_marker();
                self.indents.pop();
                self.gap(Gap::Line);
            }
            TagEnd::TableCell => {
                self.table.iter_mut().for_each(Table::close_cell);
                self.last_end = range.end;
            }
            TagEnd::TableHead | TagEnd::TableRow => self.put_excess_cells(range),
            TagEnd::Table => self.close_table(range),
            TagEnd::Emphasis => self.depth[Inline::Italic as usize] -= 1,
            TagEnd::Strong => self.depth[Inline::Bold as usize] -= 1,
            TagEnd::Strikethrough => self.depth[Inline::Strike as usize] -= 1,
            TagEnd::Link | TagEnd::Image => self.close_link(range),
            _ => {}
        }
    }

    /// Ends a code block; a blank one shows its language.
    fn close_fence(&mut self, range: &Range<usize>) {
        let code = self.flow.text().get(self.pre_start..).unwrap_or("");
        if !is_blank(code) {
            return self.close_lines();
        }
        let pre = self.pre.take();
        let language = pre.and_then(|pre| self.flow.languages.get_mut(pre));
        let language = language.map(std::mem::take).unwrap_or_default();
        self.put(&language, None, range.end);
        self.gap(Gap::Paragraph);
    }

    /// Writes what is in a row behind its last column. CommonMark drops it: `a|b` in a cell is two.
    fn put_excess_cells(&mut self, row: &Range<usize>) {
        let rest = self.source.get(self.last_end..row.end).unwrap_or("");
        let excess = rest.trim_matches(['|', ' ', '\t', '\n', '>']);
        if !excess.is_empty() {
            self.put(excess, None, row.end);
            self.table.iter_mut().for_each(Table::close_cell);
        }
        self.lead = None;
    }

    /// Writes a text event; the switches in it turn styles on and off.
    fn text(&mut self, text: &str, range: Range<usize>, switches: &mut Peekable<IntoIter<Switch>>) {
        let (source, end) = (self.source, range.end);
        let mut from = range.start;
        while let Some(switch) = switches.next_if(|switch| switch.range.end <= end) {
            let to = switch.range.start;
            self.put(source.get(from..to).unwrap_or(""), Some(from), to);
            self.switch(&switch);
            from = switch.range.end;
        }
        if from == range.start {
            return self.put_within(text, range);
        }
        self.put(source.get(from..end).unwrap_or(""), Some(from), end);
    }

    fn switch(&mut self, switch: &Switch) {
        let depth = &mut self.depth[switch.style as usize];
        if switch.on {
            self.lead.get_or_insert(switch.range.start);
            *depth += 1;
        } else {
            *depth = depth.saturating_sub(1);
        }
    }

    /// Returns the active style. Telegram allows no other style with code and none inside `pre`, so
    /// code gives way to a spoiler or a link, and everything else gives way to code.
    fn style(&self) -> Style {
        let mut style = Style {
            quote: self.quote,
            pre: self.pre,
            ..Style::default()
        };
        if self.pre.is_some() {
            return style;
        }
        style.link = self.links.first().and_then(|link| link.index);
        style.inline = self.depth.map(|depth| depth > 0);
        let code = Inline::Code as usize;
        if style.inline[Inline::Spoiler as usize] || style.link.is_some() {
            style.inline[code] = false;
        } else if style.inline[code] {
            style.inline = [false; 6];
            style.inline[code] = true;
        }
        style
    }
}

/// Returns the language of a fence's info string, if it begins with a plain word, and the whole of it
/// as a title when there is more.
fn language(info: &str) -> (&str, &str) {
    let info = info.trim();
    let word = info.split([' ', '\t', ',', '{']).next().unwrap_or("");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "+-#._".contains(c);
    match word.len() <= 32 && word.chars().all(is_plain) {
        true if word == info => (word, ""),
        true => (word, info),
        false => ("", info),
    }
}

fn is_line_break(tag: &str) -> bool {
    let name = tag
        .trim_start_matches('<')
        .trim_end_matches(['>', '/', ' ']);
    name.eq_ignore_ascii_case("br")
}

#[cfg(test)]
mod tests;
