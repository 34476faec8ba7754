//! Prepares the source for the parser: removes what the parser must not see, and handles the markup that it does not know.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use std::ops::Range;

use super::Inline;

const OPTIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS);
/// A marker of a quote or list item beyond this column is text: the parser's time grows with depth.
const MAX_CONTAINER_COLUMN: usize = 128;

/// Returns `text` without the characters Telegram drops or blanks out (`clean_input_string` in tdlib's
/// misc.cpp): control characters other than tab and line feed, and the bidirectional overrides.
pub(super) fn clean(text: &str) -> String {
    text.replace("\r\n", "\n")
        .chars()
        .filter_map(clean_char)
        .collect()
}

pub(super) fn clean_char(c: char) -> Option<char> {
    match c {
        '\n' | '\t' => Some(c),
        '\r' | '\u{2028}' | '\u{2029}' => Some('\n'),
        '\u{202a}'..='\u{202e}' => None,
        _ => Some(c).filter(|c| !c.is_control()),
    }
}

/// Markup the parser must not see is replaced by control characters, which `clean` has removed from
/// the source, so that no offset moves; `unmask` puts it back.
const MASKED: &str = ":>-*+0123456789";
const FIRST_MASK: u8 = 0x0e;

fn masked_byte(byte: u8) -> u8 {
    let mut masks = MASKED.bytes().zip(FIRST_MASK..);
    let found = masks.find(|(plain, _)| *plain == byte);
    found.map_or(byte, |(_, mask)| mask)
}

pub(super) fn unmask(c: char) -> char {
    let mut masks = MASKED.chars().zip(char::from(FIRST_MASK)..);
    let found = masks.find(|(_, mask)| *mask == c);
    found.map_or(c, |(plain, _)| plain)
}

/// Returns `source` with the quote and list markers beyond `MAX_CONTAINER_COLUMN` and the colons of
/// unused link definitions masked.
pub(super) fn mask(source: &str) -> String {
    let mut bytes = source.as_bytes().to_vec();
    for line in bytes.split_mut(|byte| *byte == b'\n') {
        let containers = line
            .iter()
            .take_while(|byte| b" \t>-*+.)0123456789".contains(byte))
            .count();
        if let Some(byte) = line
            .get_mut(MAX_CONTAINER_COLUMN..containers)
            .and_then(|deep| deep.iter_mut().find(|byte| **byte > b' '))
        {
            *byte = masked_byte(*byte);
        }
    }
    let used = used_definitions(&text_of(bytes.clone()));
    let mut used = used.iter().peekable();
    for (at, _) in source.match_indices("]:") {
        while used.next_if(|definition| definition.end <= at).is_some() {}
        if used.peek().is_none_or(|definition| at < definition.start) {
            bytes[at + 1] = masked_byte(b':');
        }
    }
    text_of(bytes)
}

fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("one ASCII byte was replaced by another")
}

/// Returns where the link definitions are that a link uses, in order. CommonMark shows no definition:
/// a line like `[INFO]: done` would be lost.
fn used_definitions(source: &str) -> Vec<Range<usize>> {
    if !source.contains("]:") {
        return Vec::new();
    }
    let mut parser = Parser::new_ext(source, OPTIONS);
    let mut used = Vec::new();
    while let Some(event) = parser.next() {
        if let Event::Start(Tag::Link { id, .. } | Tag::Image { id, .. }) = event {
            let definition = parser.reference_definitions().get(&id);
            used.extend(definition.map(|definition| definition.span.clone()));
        }
    }
    used.sort_by_key(|definition| definition.start);
    used
}

pub(super) type Events<'a> = Vec<(Event<'a>, Range<usize>)>;

pub(super) fn parse(source: &str) -> Events<'_> {
    Parser::new_ext(source, OPTIONS)
        .into_offset_iter()
        .collect()
}

/// A piece of the source that turns a style on or off instead of being shown.
pub(super) struct Switch {
    pub(super) range: Range<usize>,
    pub(super) style: Inline,
    pub(super) on: bool,
}

/// Returns the tags and `||` that have a partner in the same block, in order; the rest is text.
pub(super) fn switches(source: &str, events: &Events<'_>) -> Vec<Switch> {
    let mut found = Vec::new();
    let mut open: [Vec<Range<usize>>; 6] = Default::default();
    let mut code_block = false;
    for (event, range) in events {
        match event {
            Event::InlineHtml(tag) => {
                if let Some((style, on)) = inline_tag(tag) {
                    pair(&mut found, &mut open, style, range.clone(), on, !on);
                }
            }
            Event::Text(text) if !code_block && source.get(range.clone()) == Some(text) => {
                for (at, _) in text.match_indices("||") {
                    let range = range.start + at..range.start + at + 2;
                    let before = source.get(..range.start).unwrap_or("");
                    let before = before.chars().next_back().unwrap_or(' ');
                    let after = source.get(range.end..).unwrap_or("");
                    let after = after.chars().next().unwrap_or(' ');
                    let free = !"|\\".contains(before);
                    let opens = free && !after.is_whitespace() && after != '|';
                    let closes = free && !before.is_whitespace();
                    pair(&mut found, &mut open, Inline::Spoiler, range, opens, closes);
                }
            }
            Event::Start(
                Tag::Emphasis
                | Tag::Strong
                | Tag::Strikethrough
                | Tag::Link { .. }
                | Tag::Image { .. },
            )
            | Event::End(
                TagEnd::Emphasis
                | TagEnd::Strong
                | TagEnd::Strikethrough
                | TagEnd::Link
                | TagEnd::Image,
            ) => {}
            Event::Start(tag) => {
                code_block = matches!(tag, Tag::CodeBlock(_));
                open = Default::default();
            }
            Event::End(_) => {
                code_block = false;
                open = Default::default();
            }
            _ => {}
        }
    }
    found.sort_by_key(|switch: &Switch| switch.range.start);
    found
}

/// Closes the innermost open switch of the style if there is one and `closes`, else opens one if
/// `opens`.
fn pair(
    found: &mut Vec<Switch>,
    open: &mut [Vec<Range<usize>>; 6],
    style: Inline,
    range: Range<usize>,
    opens: bool,
    closes: bool,
) {
    let open = &mut open[style as usize];
    let switch = |range, on| Switch { range, style, on };
    if closes && let Some(start) = open.pop() {
        found.extend([switch(start, true), switch(range, false)]);
    } else if opens {
        open.push(range);
    }
}

/// Returns the style of a supported tag, and whether it opens.
fn inline_tag(tag: &str) -> Option<(Inline, bool)> {
    let name = tag.strip_prefix('<')?.strip_suffix('>')?.trim_end();
    let (name, on) = name
        .strip_prefix('/')
        .map_or((name, true), |name| (name, false));
    let style = match name.to_ascii_lowercase().as_str() {
        "b" | "strong" => Inline::Bold,
        "i" | "em" => Inline::Italic,
        "u" | "ins" => Inline::Underline,
        "s" | "strike" | "del" => Inline::Strike,
        "tg-spoiler" => Inline::Spoiler,
        "code" => Inline::Code,
        _ => return None,
    };
    Some((style, on))
}
