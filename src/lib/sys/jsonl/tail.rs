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
