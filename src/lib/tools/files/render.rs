//! Output of files and directories for the model.

use std::io::BufRead;

use crate::media::Kind;
use crate::sandbox::{Entry, Kind as EntryKind};
use crate::text::{counted, head, visible};

/// Characters of a line that are shown.
const MAX_LINE: usize = 2000;
/// Characters of lines that are shown at once: what more an answer has is cut out of its middle.
const MAX_SHOWN: usize = 28_000;
/// Names of a directory that are shown.
const MAX_NAMES: usize = 500;
/// Bytes of a line that are kept in memory: more than [`MAX_LINE`] characters have.
const MAX_LINE_BYTES: usize = 4 * MAX_LINE + 4;

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

/// Returns the lines of a file in the window, each as `N<TAB>line`, and how to continue when something follows:
/// `rest` says of how much. A file of any length takes the memory of one page.
pub(super) fn lines(
    mut file: impl BufRead,
    window: Window,
    rest: &str,
    is_over: &dyn Fn() -> bool,
) -> std::io::Result<String> {
    let mut page = Page::default();
    let mut number = 0;
    let mut line = Vec::new();
    while let Some(left_out) = next_line(&mut file, &mut line, is_over)? {
        number += 1;
        if number < window.first {
            continue;
        }
        let text = crate::media::text(&line, true)
            .unwrap_or_else(|| String::from_utf8_lossy(&line).into_owned());
        let text = text.strip_suffix('\r').unwrap_or(&text);
        if number > window.last() || !page.add(number, text, left_out) {
            let (first, last) = (window.first, page.last);
            let next = last + 1;
            let end = format!("[lines {first} to {last} {rest}; go on with offset {next}]");
            return Ok(page.text + &end);
        }
    }
    if number < window.first {
        return Ok(format!("(the file has only {})", counted(number, "line")));
    }
    Ok(page.text)
}

/// Reads a line without its end into `line`, and returns how many bytes of it were left out; `None` at the
/// end of the file. Each block is asked for only while somebody waits: a line may have no end.
fn next_line(
    file: &mut impl BufRead,
    line: &mut Vec<u8>,
    is_over: &dyn Fn() -> bool,
) -> std::io::Result<Option<u64>> {
    line.clear();
    let (mut left_out, mut any) = (0, false);
    loop {
        if is_over() {
            return Err(std::io::Error::other("the run was stopped"));
        }
        let block = file.fill_buf()?;
        if block.is_empty() && !any {
            return Ok(None);
        }
        if block.is_empty() {
            break;
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
            break;
        }
    }
    // A letter that the bound went through is left out whole: the rest is still UTF-8.
    if left_out > 0
        && let Err(torn) = std::str::from_utf8(line)
        && torn.error_len().is_none()
    {
        left_out += (line.len() - torn.valid_up_to()) as u64;
        line.truncate(torn.valid_up_to());
    }
    Ok(Some(left_out))
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::BufReader;

    use super::*;

    #[test]
    fn a_line_without_an_end_is_read_while_somebody_waits() {
        let asked = Cell::new(0);
        let is_over = || {
            asked.set(asked.get() + 1);
            asked.get() > 100
        };
        let window = Window {
            first: 1,
            lines: 10,
        };
        let endless = BufReader::new(std::io::repeat(b'x'));
        assert!(lines(endless, window, "of it", &is_over).is_err());
        assert_eq!(asked.get(), 101);
    }
}
