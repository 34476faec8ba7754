//! How files and directories are shown to the model.

use std::io::BufRead;

use crate::media::Kind;
use crate::sandbox::{Entry, Kind as EntryKind};
use crate::text::{count, counted, head, visible};

/// Characters of a line that are shown.
const MAX_LINE: usize = 2000;
/// Characters of lines that are shown at once: what more an answer has is cut out of its middle.
const MAX_SHOWN: usize = 28_000;
/// Names of a directory that are shown.
const MAX_NAMES: usize = 500;
/// Bytes of a line that are kept in memory: more than [`MAX_LINE`] characters have.
const MAX_LINE_BYTES: usize = 4 * MAX_LINE + 4;
/// Lines after which a large file is asked whether anybody still waits.
const CANCEL_CHECK_LINES: u64 = 4096;

/// The lines that are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    /// The first, from 1.
    pub(super) first: u64,
    /// How many.
    pub(super) lines: u64,
}

impl Window {
    fn last(self) -> u64 {
        self.first.saturating_add(self.lines - 1)
    }
}

/// Returns the lines of a text in the window, each as `N<TAB>line`, and how to go on.
pub(super) fn numbered(text: &str, window: Window) -> String {
    if text.is_empty() {
        return "(the file is empty)".to_owned();
    }
    let total = text.lines().count() as u64;
    if window.first > total {
        return format!("(the file has only {})", counted(total, "line"));
    }
    let mut page = Page::default();
    for (number, line) in (1..)
        .zip(text.lines())
        .skip_while(|(number, _)| *number < window.first)
    {
        if number > window.last() || !page.add(number, line, 0) {
            break;
        }
    }
    page.end(window.first, |last| {
        (last < total).then(|| format!("of {total}"))
    })
}

/// Returns the lines in the window of a file that is too large to be held, `size` bytes long.
pub(super) fn lines(
    mut file: impl BufRead,
    window: Window,
    size: u64,
    is_over: &dyn Fn() -> bool,
) -> std::io::Result<String> {
    let mut page = Page::default();
    let mut number = 0;
    let mut line = Vec::new();
    while let Some(left_out) = next_line(&mut file, &mut line)? {
        number += 1;
        if number % CANCEL_CHECK_LINES == 0 && is_over() {
            return Err(std::io::Error::other("the run was stopped"));
        }
        if number < window.first {
            continue;
        }
        let text = crate::media::text(&line, true)
            .unwrap_or_else(|| String::from_utf8_lossy(&line).into_owned());
        if number > window.last()
            || !page.add(number, text.strip_suffix('\r').unwrap_or(&text), left_out)
        {
            return Ok(page.end(window.first, |_| {
                Some(format!("of many, the file has {}B", count(size)))
            }));
        }
    }
    if number < window.first {
        return Ok(format!("(the file has only {number} lines)"));
    }
    Ok(page.end(window.first, |_| None))
}

/// Reads a line without its end into `line`, and returns how many bytes of it were left out; `None` at the
/// end of the file.
fn next_line(file: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<Option<u64>> {
    line.clear();
    let (mut left_out, mut any) = (0, false);
    loop {
        let block = file.fill_buf()?;
        if block.is_empty() {
            return Ok(any.then_some(left_out));
        }
        any = true;
        let end = block.iter().position(|byte| *byte == b'\n');
        let part = block.get(..end.unwrap_or(block.len())).unwrap_or_default();
        let room = MAX_LINE_BYTES - line.len();
        line.extend(part.iter().take(room));
        left_out += part.len().saturating_sub(room) as u64;
        let used = part.len() + usize::from(end.is_some());
        file.consume(used);
        if end.is_some() {
            return Ok(Some(left_out));
        }
    }
}

/// Lines that are shown together.
#[derive(Default)]
struct Page {
    text: String,
    chars: usize,
    last: u64,
}

impl Page {
    /// Adds a line, `left_out` bytes of which are missing already; false when there is no room for it.
    fn add(&mut self, number: u64, line: &str, left_out: u64) -> bool {
        let short = head(line, MAX_LINE);
        let rest = line.len() as u64 - short.len() as u64 + left_out;
        let mark = if rest > 0 {
            format!(" [… {rest} bytes of this line left out]")
        } else {
            String::new()
        };
        let shown = format!("{number}\t{short}{mark}\n");
        let chars = shown.chars().count();
        if self.chars + chars > MAX_SHOWN {
            return false;
        }
        self.chars += chars;
        self.text.push_str(&shown);
        self.last = number;
        true
    }

    /// Ends it with the way to what comes after; `rest` says of how many, when something does.
    fn end(mut self, first: u64, rest: impl FnOnce(u64) -> Option<String>) -> String {
        if let Some(of) = rest(self.last) {
            let last = self.last;
            self.text.push_str(&format!(
                "[lines {first} to {last} {of}; go on with offset {}]",
                last + 1
            ));
        }
        self.text
    }
}

/// Returns what a file is by its first bytes.
pub(super) fn kind(kind: Kind) -> String {
    match kind {
        Kind::Picture(mime) => format!("a picture ({mime})"),
        Kind::Pdf => "a PDF".to_owned(),
        Kind::Sound(mime) => format!("a recording ({mime})"),
        Kind::Film => "a film".to_owned(),
        Kind::Other(what) => what.to_owned(),
    }
}

/// Returns a line that names the encoding of a text that is not UTF-8.
pub(super) fn encoding(bytes: &[u8]) -> &'static str {
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "[the file is in UTF-16, not UTF-8]\n",
        bytes if std::str::from_utf8(bytes).is_err() => {
            "[the file is not in UTF-8; it is read as Windows-1252]\n"
        }
        _ => "",
    }
}

/// Returns what a directory holds, a line an entry.
pub(super) fn directory(shown: &str, entries: &[Entry], more: bool) -> String {
    let total = entries.len();
    let of = match (total, more) {
        (0, _) => return format!("{shown} is an empty directory"),
        (1, false) => "1 entry".to_owned(),
        (total, false) => format!("{total} entries"),
        (total, true) => format!("more than {total} entries"),
    };
    let line = |entry: &Entry| {
        let (name, size) = (visible(&entry.name), entry.size);
        match entry.kind {
            EntryKind::Directory => format!("{name}/"),
            EntryKind::File => format!("{name}  {size} bytes"),
            EntryKind::Symlink => format!("{name}  (a link)"),
            EntryKind::Other => format!("{name}  (a device, FIFO or socket)"),
        }
    };
    let lines: Vec<String> = entries.iter().take(MAX_NAMES).map(line).collect();
    let rest = if total > MAX_NAMES || more {
        format!("\n[{MAX_NAMES} of them are shown; exec has ls and find]")
    } else {
        String::new()
    };
    format!("{shown} is a directory, {of}:\n{}{rest}", lines.join("\n"))
}
