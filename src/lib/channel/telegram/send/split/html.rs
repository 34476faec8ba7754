//! A piece of the flow as the HTML of the Bot API (core.telegram.org/bots/api#html-style).

use std::ops::Range;

use teloxide::utils::html::escape;

use super::Flow;

/// The inline styles, from the outermost in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inline {
    Code,
    Spoiler,
    Bold,
    Italic,
    Underline,
    Strike,
}

/// The tag of each [`Inline`].
const INLINE: [&str; 6] = ["code", "tg-spoiler", "b", "i", "u", "s"];

/// What is active at one place of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Style {
    /// Number of the quote; two quotes side by side differ.
    pub(crate) quote: Option<usize>,
    /// Index into `Flow::languages`.
    pub(crate) pre: Option<usize>,
    /// Index into `Flow::links`.
    pub(crate) link: Option<usize>,
    /// Whether each [`Inline`] is on.
    pub(crate) inline: [bool; 6],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tag {
    Quote(usize),
    Pre(usize),
    Link(usize),
    Inline(&'static str),
}

impl Style {
    /// Returns the tags from the outermost in. Always in this order, so that two styles differ in a tail.
    fn tags(self) -> impl Iterator<Item = Tag> {
        let blocks = [
            self.quote.map(Tag::Quote),
            self.pre.map(Tag::Pre),
            self.link.map(Tag::Link),
        ];
        let inline = INLINE.into_iter().zip(self.inline);
        let inline = inline
            .filter(|(_, on)| *on)
            .map(|(tag, _)| Tag::Inline(tag));
        blocks.into_iter().flatten().chain(inline)
    }
}

impl Flow {
    /// Returns `piece` as Telegram HTML.
    pub(super) fn html(&self, piece: &Range<usize>) -> String {
        let mut out = String::with_capacity(piece.len() + piece.len() / 8);
        let mut open: Vec<Tag> = Vec::new();
        for (style, text) in self.runs(piece).chain([(Style::default(), "")]) {
            let wanted: Vec<Tag> = style.tags().collect();
            let same = open.iter().zip(&wanted);
            let kept = same.take_while(|(have, want)| have == want).count();
            let closing = open.iter().skip(kept).rev();
            out.extend(closing.map(|tag| self.tag(*tag).1));
            let opening = wanted.iter().skip(kept);
            out.extend(opening.map(|tag| self.tag(*tag).0));
            open = wanted;
            out.push_str(&escape(text));
        }
        out
    }

    /// Returns what opens a tag and what closes it.
    fn tag(&self, tag: Tag) -> (String, String) {
        let attribute = |value: &str| escape(value).replace('"', "&quot;");
        match tag {
            Tag::Inline(name) => (format!("<{name}>"), format!("</{name}>")),
            Tag::Quote(_) => ("<blockquote>".into(), "</blockquote>".into()),
            Tag::Pre(at) => match self.languages.get(at).map_or("", String::as_str) {
                "" => ("<pre>".into(), "</pre>".into()),
                language => (
                    format!("<pre><code class=\"language-{}\">", attribute(language)),
                    "</code></pre>".into(),
                ),
            },
            Tag::Link(at) => {
                let url = self.links.get(at).map_or("", |link| link.url.as_str());
                (format!("<a href=\"{}\">", attribute(url)), "</a>".into())
            }
        }
    }
}
