//! The lines of an mdoc(7) page that are compared: list items, flags and literal blocks.

use std::path::Path;

/// A page.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// Its file, such as `agent-send.1`.
    pub(super) file: String,
    pub(super) items: Vec<Item>,
    /// Every flag that is named anywhere, with its line.
    pub(super) flags: Vec<(String, usize)>,
    pub(super) blocks: Vec<Block>,
}

/// An item of a list.
#[derive(Debug, Default)]
pub(super) struct Item {
    pub(super) line: usize,
    pub(super) section: String,
    pub(super) subsection: String,
    /// Lists it is in: 1 for an outermost one.
    pub(super) depth: usize,
    /// What follows `.It`, with its macros.
    pub(super) head: String,
    /// The lines up to the next item of this depth, with their macros.
    pub(super) text: String,
}

/// Literal text of a display (`.Bd -literal`).
#[derive(Debug)]
pub(super) struct Block {
    pub(super) line: usize,
    pub(super) section: String,
    pub(super) text: String,
}

impl Item {
    /// Returns the flags at the margin: `-c`, `--config`.
    pub(super) fn flags(&self) -> Vec<String> {
        flags(&format!("It {}", self.head)).collect()
    }

    /// Returns the word of an item that begins with `.Cm`.
    pub(super) fn command(&self) -> Option<String> {
        let mut words = self.head.strip_prefix("Cm ")?.split(' ');
        words.next().map(str::to_owned)
    }
}

/// Returns the flags on a line of macros.
fn flags(line: &str) -> impl Iterator<Item = String> {
    let words = line.split(' ').zip(line.split(' ').skip(1));
    words
        .filter(|(mark, _)| *mark == "Fl")
        .map(|(_, flag)| format!("-{flag}"))
}

fn plain(text: &str) -> String {
    text.replace("\\(dq", "\"")
        .replace("\\(aq", "'")
        .replace("\\ ", " ")
        .replace("\\&", "")
        .replace("\\-", "-")
        .replace("\\e", "\\")
}

impl Page {
    /// Reads `man/FILE`.
    pub(super) fn read(file: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("man").join(file);
        let text = std::fs::read_to_string(path).unwrap_or_else(|why| panic!("man/{file}: {why}"));
        let mut page = Self {
            file: file.to_owned(),
            ..Self::default()
        };
        let (mut section, mut subsection, mut depth) = (String::new(), String::new(), 0);
        let mut lines = text.lines().zip(1..);
        while let Some((line, number)) = lines.next() {
            let found = flags(line.trim_start_matches('.'));
            page.flags.extend(found.map(|flag| (flag, number)));
            if let Some(title) = line.strip_prefix(".Sh ") {
                (section, subsection) = (title.to_owned(), String::new());
            } else if let Some(title) = line.strip_prefix(".Ss ") {
                subsection = plain(title);
            } else if line.starts_with(".Bl ") {
                depth += 1;
            } else if line == ".El" {
                depth -= 1;
            } else if let Some(head) = line.strip_prefix(".It ") {
                page.items.push(Item {
                    line: number,
                    section: section.clone(),
                    subsection: subsection.clone(),
                    depth,
                    head: plain(head),
                    text: String::new(),
                });
            } else if line.starts_with(".Bd -literal") {
                let block = lines.by_ref().take_while(|(line, _)| *line != ".Ed");
                let text: Vec<String> = block.map(|(line, _)| plain(line)).collect();
                page.blocks.push(Block {
                    line: number,
                    section: section.clone(),
                    text: text.join("\n"),
                });
            }
            // An item has the lines of the items in it, too.
            let mut below = depth + 1;
            for item in page.items.iter_mut().rev() {
                if item.section != section || below == 1 {
                    break;
                }
                if item.depth < below {
                    item.text.push_str(&plain(line));
                    item.text.push('\n');
                    below = item.depth;
                }
            }
        }
        page
    }
}
