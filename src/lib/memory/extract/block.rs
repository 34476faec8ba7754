//! Which lines of a text are its own prose: code, quotations, tables, comments, headings and
//! forwarded mail are left out before anything is read.

/// Lines that belong together: a paragraph or a list item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block<'a> {
    /// The line of the text where it begins, from 0.
    pub line: u32,
    /// Its lines, without the mark of a list item.
    pub lines: Vec<&'a str>,
    /// Whether it is a list item.
    pub item: bool,
    /// What stands above it, outermost first, with its level: headings, then a line that only names something, then
    /// the items of a list that it is below.
    pub headings: Vec<(usize, &'a str)>,
}

/// The level of a line that only names what comes, and, with its indentation added, that of a list item.
const LABEL: usize = 1_000;
const ITEM: usize = LABEL + 1;

/// Deeper lists are not told apart.
const MAX_INDENT: usize = 40;

/// What follows one of these is another person's text.
const FORWARDED: &[&str] = &[
    "---------- forwarded",
    "-----original message",
    "----- original message",
    "begin forwarded message",
    "-- forwarded",
];

/// The fields a pasted mail begins with.
const MAIL: &[&str] = &[
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
            // What stands on the line of a comment is left out with it.
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
        if trimmed.is_empty() || code || is_foreign(trimmed) {
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
    let is_capital = |word: &str| !word.starts_with(char::is_lowercase);
    let words: Vec<&str> = name.split_whitespace().collect();
    let is_mine = || {
        words.len() <= 3
            && words
                .first()
                .is_some_and(|word| ["My", "my", "Mein", "Meine", "Mi", "Mon", "Ma"].contains(word))
    };
    !line.contains(": ")
        && !line.ends_with(['.', '!', '?', '…'])
        && words.len() <= 5
        && (name != line || is_mine() || words.iter().all(|word| is_capital(word)))
}

/// Returns whether the line is a list item, and what it says.
fn list_item(line: &str) -> (bool, &str) {
    let mark = ["- ", "* ", "+ ", "• ", "– "]
        .into_iter()
        .find_map(|mark| line.strip_prefix(mark));
    let numbered = || {
        let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = line.len() - rest.len();
        rest.strip_prefix(". ")
            .or_else(|| rest.strip_prefix(") "))
            .filter(|rest| {
                // "3. May" is a date.
                (1..=2).contains(&digits)
                    && !crate::language::pack::is_month(
                        rest.split_whitespace().next().unwrap_or(""),
                    )
            })
    };
    match mark.or_else(numbered) {
        Some(rest) => (true, rest.trim()),
        None => (false, line),
    }
}

/// Quotations, tables, rules, boxes to tick and what was struck out.
fn is_foreign(line: &str) -> bool {
    let (_, own) = list_item(line);
    line.starts_with('>')
        || line.starts_with('|')
        || line.contains(" | ")
        || line.contains("~~")
        || ["[ ]", "[x]", "[X]", ">"]
            .iter()
            .any(|mark| own.starts_with(mark))
        || line.len() > 2
            && line
                .chars()
                .all(|c| matches!(c, '-' | '=' | '*' | '_' | ' '))
}

/// Returns true when what begins at line `at` is a mail somebody else wrote.
fn is_forwarded(lines: &[&str], at: usize) -> bool {
    let low = |at: usize| {
        lines.get(at).map_or_else(String::new, |line| {
            crate::text::head(line.trim(), 40).to_lowercase()
        })
    };
    let reply = lines
        .get(at)
        .is_some_and(|line| line.trim().starts_with("On ") && line.trim().ends_with("wrote:"));
    let line = low(at);
    let field = |line: &str| MAIL.iter().any(|field| line.starts_with(field));
    reply
        || FORWARDED.iter().any(|mark| line.starts_with(mark))
        || field(&line) && field(&low(at + 1))
}
