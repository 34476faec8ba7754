//! Which lines of a text are its own prose: code, quotations, tables, comments, headings and
//! forwarded mail are left out before anything is read.

use crate::language::pack::{any_has, is_month};

/// Lines that belong together: a paragraph or a list item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block<'a> {
    /// The line of the text where it begins, from 0.
    pub line: u32,
    /// Its lines, without the mark of a list item.
    pub lines: Vec<&'a str>,
    /// Whether it is a list item.
    pub item: bool,
    /// What is above it, outermost first, with its level: headings, then a line that only names something, then
    /// the items of a list that it is below.
    pub headings: Vec<(usize, &'a str)>,
}

impl<'a> Block<'a> {
    /// Returns lines that stand alone as a block.
    pub(super) fn of(line: u32, lines: Vec<&'a str>) -> Self {
        Self {
            line,
            lines,
            item: false,
            headings: Vec::new(),
        }
    }
}

/// The level of a line that only names what comes, and, with its indentation added, that of a list item.
const LABEL: usize = 1_000;
const ITEM: usize = LABEL + 1;

/// Deeper lists are not told apart.
const MAX_INDENT: usize = 40;

/// What follows one of these is another person's text.
const FORWARDED: [&str; 5] = [
    "---------- forwarded",
    "-----original message",
    "----- original message",
    "begin forwarded message",
    "-- forwarded",
];

/// The fields a pasted mail begins with.
const MAIL: [&str; 8] = [
    "from:",
    "to:",
    "cc:",
    "bcc:",
    "sent:",
    "subject:",
    "date:",
    "reply-to:",
];

/// Returns the blocks of `text` in order. Linear in its length.
pub(super) fn blocks(text: &str) -> Vec<Block<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut reader = Reader::default();
    for (at, line) in lines.iter().enumerate() {
        if is_forwarded(&lines, at) {
            break;
        }
        reader.take(u32::try_from(at).unwrap_or(u32::MAX), line);
    }
    reader.end();
    reader.blocks
}

#[derive(Default)]
struct Reader<'a> {
    blocks: Vec<Block<'a>>,
    open: Option<Block<'a>>,
    headings: Vec<(usize, &'a str)>,
    /// The fence that ends the code we are in.
    fence: Option<&'static str>,
    comment: bool,
    blank: bool,
}

impl<'a> Reader<'a> {
    fn take(&mut self, number: u32, line: &'a str) {
        let trimmed = line.trim();
        let blank_before = std::mem::replace(&mut self.blank, trimmed.is_empty());
        if let Some(fence) = self.fence {
            if trimmed.starts_with(fence) {
                self.fence = None;
            }
            return;
        }
        if self.comment || trimmed.contains("<!--") {
            // What is on the line of a comment is left out with it.
            self.comment = trimmed.rfind("-->") < trimmed.rfind("<!--") || !trimmed.contains("-->");
            return self.end();
        }
        if let Some(fence) = ["```", "~~~"]
            .into_iter()
            .find(|fence| trimmed.starts_with(fence))
        {
            self.fence = Some(fence);
            return self.end();
        }
        let level = trimmed.chars().take_while(|c| *c == '#').count();
        if level > 0 {
            self.end();
            self.headings.retain(|(above, _)| *above < level);
            return self.headings.push((
                level,
                trimmed.trim_matches(|c: char| c == '#' || c.is_whitespace()),
            ));
        }
        let (item, own) = list_item(trimmed);
        let code = !item
            && (blank_before || self.open.is_none())
            && (line.starts_with("    ") || line.starts_with('\t'));
        if trimmed.is_empty() || code || is_not_prose(trimmed) {
            return self.end();
        }
        if item {
            self.end();
        }
        if let Some(block) = &mut self.open {
            return block.lines.push(own);
        }
        let indent: usize = line
            .chars()
            .map_while(|c| matches!(c, ' ' | '\t').then_some(if c == ' ' { 1 } else { 4 }))
            .sum();
        let level = if item || indent > 0 || own.contains(": ") {
            ITEM + indent.min(MAX_INDENT)
        } else {
            LABEL
        };
        self.headings.retain(|(above, _)| *above < level);
        self.open = Some(Block {
            line: number,
            lines: vec![own],
            item,
            headings: self.headings.clone(),
        });
        if item {
            self.headings.push((level, own));
        }
    }

    fn end(&mut self) {
        let Some(block) = self.open.take() else {
            return;
        };
        if let [line] = block.lines[..]
            && !block.item
            && is_label(line)
        {
            self.headings.retain(|(above, _)| *above < LABEL);
            self.headings.push((LABEL, line));
        }
        self.blocks.push(block);
    }
}

/// Returns true for a line that says nothing, but names what comes: "Anna Berger", "**work**", "My sister Ana".
pub(super) fn is_label(line: &str) -> bool {
    let name = line.trim_matches(['*', '_', ':']);
    let words: Vec<&str> = name.split_whitespace().collect();
    let is_capital = |word: &&str| !word.starts_with(char::is_lowercase);
    let first = words
        .first()
        .map_or(String::new(), |word| word.to_lowercase());
    let is_mine = words.len() <= 3 && any_has(|pack| &pack.facts.my, &first);
    let is_name = name != line || is_mine || words.iter().all(is_capital);
    let is_sentence = line.contains(": ") || line.ends_with(['.', '!', '?', '…']);
    words.len() <= 5 && is_name && !is_sentence
}

/// Returns whether the line is a list item, and what it says.
fn list_item(line: &str) -> (bool, &str) {
    let mut marks = ["- ", "* ", "+ ", "• ", "– "].into_iter();
    let numbered = || {
        let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_number = (1..=2).contains(&(line.len() - rest.len()));
        let rest = rest
            .strip_prefix(". ")
            .or_else(|| rest.strip_prefix(") "))?;
        // "3. May" is a date.
        let is_date = is_month(rest.split_whitespace().next().unwrap_or(""));
        (is_number && !is_date).then_some(rest)
    };
    match marks
        .find_map(|mark| line.strip_prefix(mark))
        .or_else(numbered)
    {
        Some(rest) => (true, rest.trim()),
        None => (false, line),
    }
}

/// Quotations, tables, rules, boxes to tick and what was struck out.
fn is_not_prose(line: &str) -> bool {
    let (_, own) = list_item(line);
    let is_rule = line.len() > 2 && line.chars().all(|c| "-=*_ ".contains(c));
    let is_marked = ["[ ]", "[x]", "[X]", ">"]
        .iter()
        .any(|mark| own.starts_with(mark));
    is_rule
        || is_marked
        || line.starts_with(['>', '|'])
        || line.contains(" | ")
        || line.contains("~~")
}

/// Returns true when what begins at line `at` is a mail somebody else wrote.
fn is_forwarded(lines: &[&str], at: usize) -> bool {
    let line = |at: usize| lines.get(at).map_or("", |line| line.trim());
    let low = |at: usize| crate::text::head(line(at), 40).to_lowercase();
    let is_field = |line: &str| MAIL.iter().any(|field| line.starts_with(field));
    let is_reply = line(at).starts_with("On ") && line(at).ends_with("wrote:");
    let is_marked = FORWARDED.iter().any(|mark| low(at).starts_with(mark));
    is_reply || is_marked || is_field(&low(at)) && is_field(&low(at + 1))
}
