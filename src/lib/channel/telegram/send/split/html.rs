//! A piece of the flow as the HTML of the Bot API (core.telegram.org/bots/api#html-style).

use super::Flow;

use std::ops::Range;

/// What is in force at one place of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Style {
    /// Number of the quote; two quotes side by side differ.
    pub(crate) quote: Option<usize>,
    /// Index into `Flow::languages`.
    pub(crate) pre: Option<usize>,
    /// Index into `Flow::links`.
    pub(crate) link: Option<usize>,
    pub(crate) code: bool,
    pub(crate) spoiler: bool,
    pub(crate) bold: bool,
    pub(crate) italic: bool,
    pub(crate) underline: bool,
    pub(crate) strike: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tag {
    Quote(usize),
    Pre(usize),
    Link(usize),
    Simple(&'static str),
}

impl Style {
    /// Returns the tags from the outermost in. Always in this order, so that two styles differ in a tail.
    fn tags(self) -> impl Iterator<Item = Tag> {
        let simple = |on: bool, name| on.then_some(Tag::Simple(name));
        let nested = [
            self.quote.map(Tag::Quote),
            self.pre.map(Tag::Pre),
            self.link.map(Tag::Link),
            simple(self.code, "code"),
            simple(self.spoiler, "tg-spoiler"),
            simple(self.bold, "b"),
            simple(self.italic, "i"),
            simple(self.underline, "u"),
            simple(self.strike, "s"),
        ];
        nested.into_iter().flatten()
    }
}

impl Flow {
    /// Returns `piece` as Telegram HTML.
    pub(super) fn html(&self, piece: &Range<usize>) -> String {
        let mut out = String::with_capacity(piece.len() + piece.len() / 8);
        let mut open: Vec<Tag> = Vec::new();
        for (style, text) in self.runs(piece).chain([(Style::default(), "")]) {
            let wanted: Vec<Tag> = style.tags().collect();
            let kept = open
                .iter()
                .zip(&wanted)
                .take_while(|(have, want)| have == want)
                .count();
            open.drain(kept..)
                .rev()
                .for_each(|tag| self.close(tag, &mut out));
            wanted
                .iter()
                .skip(kept)
                .for_each(|tag| self.open(*tag, &mut out));
            open = wanted;
            escape(text, &mut out);
        }
        out
    }

    fn open(&self, tag: Tag, out: &mut String) {
        match tag {
            Tag::Simple(name) => out.extend(["<", name, ">"]),
            Tag::Quote(_) => out.push_str("<blockquote>"),
            Tag::Pre(language) => match self
                .languages
                .get(language)
                .filter(|language| !language.is_empty())
            {
                Some(language) => {
                    out.push_str("<pre><code class=\"language-");
                    escape_attribute(language, out);
                    out.push_str("\">");
                }
                None => out.push_str("<pre>"),
            },
            Tag::Link(link) => {
                out.push_str("<a href=\"");
                escape_attribute(
                    self.links.get(link).map_or("", |link| link.url.as_str()),
                    out,
                );
                out.push_str("\">");
            }
        }
    }

    fn close(&self, tag: Tag, out: &mut String) {
        match tag {
            Tag::Simple(name) => out.extend(["</", name, ">"]),
            Tag::Quote(_) => out.push_str("</blockquote>"),
            Tag::Pre(language) if self.languages.get(language).is_none_or(String::is_empty) => {
                out.push_str("</pre>")
            }
            Tag::Pre(_) => out.push_str("</code></pre>"),
            Tag::Link(_) => out.push_str("</a>"),
        }
    }
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            _ => out.push(c),
        }
    }
}

fn escape_attribute(value: &str, out: &mut String) {
    for (index, piece) in value.split('"').enumerate() {
        out.push_str(if index > 0 { "&quot;" } else { "" });
        escape(piece, out);
    }
}
