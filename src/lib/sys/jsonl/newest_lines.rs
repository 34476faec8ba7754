//! Reading a file of lines from its end: the newest lines of a large log cost no more than those of
//! a small one.

use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::sys::Error;

/// Bytes that are read at once.
const BLOCK: usize = 1 << 16;
/// A longer line is nobody's we know; it is left out instead of being held in memory.
const LONGEST: usize = 1 << 20;
/// Bytes that [`line_before`] reads first.
const FIRST: u64 = 1 << 12;
/// The longest line that it reads.
const MONSTER: usize = 1 << 26;

/// Calls `each` with every whole line of `path`, the newest first, until it breaks off. A torn last
/// line and lines of more than a megabyte are left out. A missing file has no lines; what is appended
/// meanwhile is not seen.
///
/// # Errors
/// When the file cannot be read.
pub fn newest_lines<B>(
    path: &Path,
    mut each: impl FnMut(&[u8]) -> ControlFlow<B>,
) -> Result<ControlFlow<B>, Error> {
    let Some(file) = super::open(path)? else {
        return Ok(ControlFlow::Continue(()));
    };
    let mut end = file.metadata().map_err(Error::at("read", path))?.len();
    let mut block = vec![0; BLOCK];
    // What follows the last newline is torn: a line begins to count with the newline at its end.
    let mut line = Line {
        rest: Vec::new(),
        whole: false,
    };
    while end > 0 {
        let start = end.saturating_sub(BLOCK as u64);
        let size = usize::try_from(end - start).unwrap_or(BLOCK);
        let Some(part) = block.get_mut(..size) else {
            break;
        };
        file.read_exact_at(part, start)
            .map_err(Error::at("read", path))?;
        let mut pieces = part.rsplit(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            line.put_before(piece);
            if pieces.peek().is_none() {
                break;
            }
            if let Some(broken) = line.end(&mut each) {
                return Ok(ControlFlow::Break(broken));
            }
        }
        end = start;
    }
    Ok(line
        .end(&mut each)
        .map_or(ControlFlow::Continue(()), ControlFlow::Break))
}

/// Returns the whole line of `path` that ends at byte `end`, its newline among what ends there; `None` when no line does,
/// or one that nobody writes: of more than 64 megabytes.
///
/// # Errors
/// When the file cannot be read.
pub fn line_before(path: &Path, end: u64) -> Result<Option<Vec<u8>>, Error> {
    let Some(file) = super::open(path)? else {
        return Ok(None);
    };
    let failed = Error::at("read", path);
    let length = file.metadata().map(|meta| meta.len());
    // Most lines are short; each block is as long as all that was read before.
    let (mut start, mut line, mut size) = (end, Vec::new(), FIRST);
    let read = length.and_then(|length| {
        while start > 0 && end <= length && line.len() < MONSTER {
            let from = start.saturating_sub(size);
            let mut block = vec![0; usize::try_from(start - from).unwrap_or(BLOCK)];
            file.read_exact_at(&mut block, from)?;
            block.append(&mut line);
            (line, start, size) = (block, from, size * 2);
            let Some((b'\n', before)) = line.split_last() else {
                return Ok(None);
            };
            match before.iter().rposition(|byte| *byte == b'\n') {
                Some(at) => return Ok(before.get(at + 1..).map(<[u8]>::to_vec)),
                None if start == 0 => return Ok(Some(before.to_vec())),
                None => {}
            }
        }
        Ok(None)
    });
    read.map_err(failed)
}

/// The end of a line whose beginning was not read yet.
struct Line {
    rest: Vec<u8>,
    whole: bool,
}

impl Line {
    fn put_before(&mut self, piece: &[u8]) {
        self.whole &= self.rest.len() + piece.len() <= LONGEST;
        if self.whole {
            self.rest.splice(..0, piece.iter().copied());
        }
    }

    /// Hands the line over, if it is whole, and begins the one before it.
    fn end<B>(&mut self, each: &mut impl FnMut(&[u8]) -> ControlFlow<B>) -> Option<B> {
        let broken = if self.whole {
            each(&self.rest).break_value()
        } else {
            None
        };
        self.rest.clear();
        self.whole = true;
        broken
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sys::atomic;

    fn newest(text: &[u8], most: usize) -> Vec<Vec<u8>> {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("log.jsonl");
        atomic::write(&path, text, atomic::Durability::Rename).expect("write");
        let mut lines = Vec::new();
        let flow = newest_lines(&path, |line| {
            lines.push(line.to_vec());
            if lines.len() == most {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        assert_eq!(flow.expect("read").is_break(), lines.len() == most);
        lines
    }

    #[test]
    fn a_line_may_be_longer_than_a_block_and_not_longer_than_a_megabyte() {
        let long = "x".repeat(3 * BLOCK + 7);
        let monster = "y".repeat(LONGEST + 1);
        let text = format!("first\n{long}\n{monster}\n\nlast\n{long}");
        assert_eq!(
            newest(text.as_bytes(), 9),
            [
                b"last".to_vec(),
                Vec::new(),
                long.into_bytes(),
                b"first".to_vec()
            ]
        );
        assert_eq!(newest(monster.as_bytes(), 9), [] as [Vec<u8>; 0]);
        assert_eq!(
            newest(format!("{monster}\n").as_bytes(), 9),
            [] as [Vec<u8>; 0]
        );
    }

    #[test]
    fn the_line_that_ends_at_a_place_is_read_from_there() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("log.jsonl");
        let long = "x".repeat(3 * BLOCK + 7);
        let text = format!("first\n{long}\n\nlast\ntorn");
        atomic::write(&path, text.as_bytes(), atomic::Durability::Rename).expect("write");
        let mut ends = 0;
        for line in ["first", &long, "", "last"] {
            ends += line.len() as u64 + 1;
            let read = |end| line_before(&path, end).expect("read");
            assert_eq!(read(ends), Some(line.as_bytes().to_vec()));
            assert!(line.is_empty() || read(ends - 1).is_none());
        }
        for end in [0, ends + 4, ends + 5] {
            assert_eq!(line_before(&path, end).expect("read"), None, "{end}");
        }
        let missing = line_before(&dir.path().join("missing"), 3);
        assert_eq!(missing.expect("no error"), None);
    }

    #[test]
    fn a_missing_and_an_empty_file_have_no_lines() {
        let dir = tempfile::tempdir().expect("dir");
        let flow = newest_lines(&dir.path().join("missing"), |_| ControlFlow::Break(()));
        assert!(flow.expect("read").is_continue());
        assert_eq!(
            (newest(b"", 1), newest(b"torn", 1), newest(b"\n", 2)),
            (vec![], vec![], vec![vec![]])
        );
    }

    proptest! {
        #[test]
        fn they_are_the_lines_that_reading_forwards_finds(text in "[a-c\n]{0,200}", blocks in 0usize..3, most in 1usize..40) {
            // A piece in front moves the lines across the blocks.
            let text = format!("{}{text}", "z".repeat(blocks * BLOCK - blocks.min(1) * 100));
            let whole = text.rfind('\n').map_or(String::new(), |at| text.chars().take(at).collect());
            let mut expected: Vec<Vec<u8>> = if text.contains('\n') {
                whole.split('\n').map(|line| line.as_bytes().to_vec()).collect()
            } else {
                Vec::new()
            };
            expected.reverse();
            expected.truncate(most);
            prop_assert_eq!(newest(text.as_bytes(), most), expected);
        }
    }
}
