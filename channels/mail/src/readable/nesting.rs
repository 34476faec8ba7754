//! An upper bound of the work for a tree of HTML, computed before it is parsed.

/// HTML that is nested deeper makes a tree that is not walked by recursion.
const MAX_DEPTH: usize = 300;
/// The most work: for each tag, what is open then may be looked at.
const MAX_WORK: usize = 2_000_000;
/// What one open formatting element costs more: each paragraph gets one of its own.
const REBUILT: usize = 8;

/// What is opened again in the next paragraph, where it was not ended before.
const FORMATTING: [&str; 14] = [
    "a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u",
];
/// What nothing is nested in, or only once.
const FLAT: [&str; 28] = [
    "area", "base", "basefont", "bgsound", "body", "br", "col", "colgroup", "embed", "head", "hr",
    "html", "img", "input", "link", "meta", "option", "p", "param", "source", "tbody", "td",
    "tfoot", "th", "thead", "tr", "track", "wbr",
];
/// What ends the one before of its kind, but not one of the other kind.
const ITEMS: [&str; 3] = ["dd", "dt", "li"];
/// An end tag closes nothing beyond these.
const BOUNDARIES: [&str; 17] = [
    "annotation-xml",
    "applet",
    "caption",
    "desc",
    "foreignobject",
    "marquee",
    "math",
    "mi",
    "mn",
    "mo",
    "ms",
    "mtext",
    "object",
    "svg",
    "table",
    "template",
    "title",
];
/// The end tag of what is no block closes nothing beyond a block.
const BLOCKS: [&str; 41] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "button",
    "center",
    "dd",
    "details",
    "dialog",
    "dir",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hgroup",
    "li",
    "listing",
    "main",
    "menu",
    "nav",
    "object",
    "ol",
    "pre",
    "search",
    "section",
    "select",
    "summary",
    "table",
    "template",
    "ul",
];
/// What holds text where tags are none.
const RAW: [&str; 8] = [
    "iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp",
];
/// After these, or in them, tags mean something else.
const ODD: [&str; 3] = ["frameset", "noscript", "plaintext"];

/// Returns whether a tree of the HTML is made and walked soon.
pub fn is_bounded(html: &str) -> bool {
    let small = html.to_ascii_lowercase();
    let mut open = Open::default();
    let mut rest = small.as_str();
    while let Some((_, after)) = rest.split_once('<') {
        let next = match after.as_bytes() {
            [b'!', b'-', b'-', ..] => comment(after),
            [b'!' | b'?', ..] => {
                if open.is_foreign() && after.starts_with("![cdata[") {
                    return false;
                }
                Some(after.split_once('>').map_or("", |(_, next)| next))
            }
            [b'/', letter, ..] if letter.is_ascii_alphabetic() => {
                let (name, next) = tag(after.trim_start_matches('/'));
                open.end(name);
                Some(next)
            }
            [b'/', ..] => Some(after.split_once('>').map_or("", |(_, next)| next)),
            [letter, ..] if letter.is_ascii_alphabetic() => {
                let (name, next) = tag(after);
                if RAW.contains(&name) {
                    open.raw(name, next)
                } else {
                    open.start(name);
                    (!ODD.contains(&name)).then_some(next)
                }
            }
            _ => Some(after),
        };
        match next {
            Some(next) if open.is_bounded() => rest = next,
            _ => return false,
        }
    }
    true
}

/// Returns what follows a comment; `None` when its end is not a usual one.
fn comment(after: &str) -> Option<&str> {
    let text = after.strip_prefix('!').unwrap_or(after);
    let (text, next) = text.split_once("-->").unwrap_or((text, ""));
    (!text.contains("--!>")).then_some(next)
}

/// Returns the name of a tag, and what follows it.
fn tag(text: &str) -> (&str, &str) {
    let is_end = |c: char| c.is_ascii_whitespace() || c == '/' || c == '>';
    let (name, rest) = text.split_at(text.find(is_end).unwrap_or(text.len()));
    // Quotes are such around a value only.
    let (mut has_name, mut is_value, mut is_bare) = (false, false, false);
    let mut quote = None;
    for (at, c) in rest.char_indices() {
        if quote.is_some() {
            if quote == Some(c) {
                quote = None;
            }
            continue;
        }
        match c {
            '>' => return (name, rest.get(at + 1..).unwrap_or_default()),
            '"' | '\'' if is_value => (quote, is_value, has_name) = (Some(c), false, false),
            '=' if has_name && !is_value && !is_bare => is_value = true,
            // A blank may stand around `=`.
            c if c.is_ascii_whitespace() => {
                if is_bare {
                    (is_bare, has_name) = (false, false);
                }
            }
            '/' if !is_value && !is_bare => has_name = false,
            _ if is_value => (is_value, is_bare) = (false, true),
            _ => has_name = true,
        }
    }
    (name, "")
}

/// What is open.
#[derive(Default)]
struct Open<'a> {
    names: Vec<&'a str>,
    work: usize,
}

impl<'a> Open<'a> {
    fn is_bounded(&self) -> bool {
        self.names.len() <= MAX_DEPTH && self.work <= MAX_WORK
    }

    /// Returns whether names may mean something else: those of pictures and formulas.
    fn is_foreign(&self) -> bool {
        self.names.iter().any(|name| ["svg", "math"].contains(name))
    }

    fn start(&mut self, name: &'a str) {
        self.count();
        let is_foreign = self.is_foreign();
        if !is_foreign && FLAT.contains(&name) {
            return;
        }
        let last = self.names.iter().rfind(|name| ITEMS.contains(name));
        let is_next = last.is_some_and(|last| (*last == "li") == (name == "li"));
        if !is_foreign && ITEMS.contains(&name) && is_next {
            return;
        }
        if !is_foreign && ["a", "nobr"].contains(&name) {
            self.close(name);
        }
        self.names.push(name);
    }

    fn end(&mut self, name: &str) {
        self.count();
        self.close(name);
    }

    fn count(&mut self) {
        let open = &self.names;
        let formatting = open.iter().filter(|name| FORMATTING.contains(name)).count();
        self.work += 1 + open.len() + REBUILT * formatting;
    }

    fn close(&mut self, name: &str) {
        // What stands in a form stays open.
        if name == "form" {
            return;
        }
        let is_formatting = FORMATTING.contains(&name);
        let is_block = BLOCKS.contains(&name);
        for at in (0..self.names.len()).rev() {
            let one = self.names.get(at).copied().unwrap_or_default();
            if one == name {
                // What is above it may stay: what is nested wrongly is not always ended with it.
                self.names.remove(at);
                return;
            }
            let ends_here = !is_formatting && !is_block && BLOCKS.contains(&one);
            let is_list = name == "li" && ["ol", "ul"].contains(&one);
            if ends_here || is_list || BOUNDARIES.contains(&one) {
                return;
            }
        }
    }

    /// Returns what follows the text in an element that has no tags; `None` where it may have some.
    fn raw(&mut self, name: &str, text: &'a str) -> Option<&'a str> {
        self.count();
        if self.is_foreign() || self.names.contains(&"select") {
            return None;
        }
        let end = format!("</{name}");
        let is_end = |at: &usize| {
            let then = text.get(at + end.len()..).unwrap_or_default();
            then.starts_with(|c: char| c.is_ascii_whitespace() || c == '/' || c == '>')
        };
        let at = text.match_indices(&end).map(|(at, _)| at).find(is_end);
        let (text, next) = text.split_at(at.unwrap_or(text.len()));
        // Then a script may go on beyond its end.
        (name != "script" || !text.contains("<!--")).then_some(next)
    }
}
