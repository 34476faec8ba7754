//! Reading along: what grows in `replies/<id>.part` goes to stdout as it comes.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::super::cli;
use crate::control::{Id, replies};

/// A reply being written, as far as it is printed.
pub(super) struct Tail {
    path: PathBuf,
    file: Option<File>,
    /// Bytes of a letter that is not whole yet.
    rest: Vec<u8>,
    printed: String,
    /// What comes next was begun anew, by a daemon that was started again.
    again: bool,
}

impl Tail {
    /// Waits for the file of command `id`.
    pub(super) fn of(replies: &Path, id: &Id) -> Self {
        let path = replies::part_path(replies, id.as_str());
        Self { path, file: None, rest: Vec::new(), printed: String::new(), again: false }
    }

    /// Prints what is new, if anything, calling `before` first.
    pub(super) fn read(&mut self, mut before: impl FnMut()) {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        self.read_file(&mut before);
        if let Some(newer) = self.newer() {
            self.file = Some(newer);
            self.rest.clear();
            self.again = !self.printed.is_empty();
            self.read_file(&mut before);
        }
    }

    fn read_file(&mut self, before: &mut impl FnMut()) {
        let Some(file) = &mut self.file else { return };
        // What cannot be read comes with the reply itself.
        if file.read_to_end(&mut self.rest).is_err() {
            return;
        }
        let words = whole(&mut self.rest);
        if !words.is_empty() {
            before();
            if std::mem::take(&mut self.again) {
                self.print("\n\n");
            }
            self.print(&words);
        }
    }

    /// Returns the file that stands in the place of ours now, if that is another.
    fn newer(&self) -> Option<File> {
        let ours = self.file.as_ref()?.metadata().ok()?;
        let there = File::open(&self.path).ok()?;
        let meta = there.metadata().ok()?;
        ((meta.dev(), meta.ino()) != (ours.dev(), ours.ino())).then_some(there)
    }

    fn print(&mut self, words: &str) {
        cli::words(words);
        self.printed.push_str(words);
    }

    /// Prints what is missing of `reply`.
    pub(super) fn end(mut self, reply: &str) {
        self.read(|| {});
        if !says(&self.printed, reply) {
            if !self.printed.is_empty() {
                self.print("\n\n");
            }
            self.print(reply);
        }
        self.end_line();
    }

    /// Ends without a reply.
    pub(super) fn break_off(mut self) {
        self.read(|| {});
        self.end_line();
    }

    /// Begins a line of its own for what is said beside the reply.
    pub(super) fn end_line(&mut self) {
        if !self.printed.is_empty() && !self.printed.ends_with('\n') {
            self.print("\n");
        }
    }
}

/// Takes the whole letters out of `bytes`.
fn whole(bytes: &mut Vec<u8>) -> String {
    let end = match std::str::from_utf8(bytes) {
        Ok(_) => bytes.len(),
        Err(error) => error.valid_up_to(),
    };
    let rest = bytes.split_off(end);
    String::from_utf8_lossy(&std::mem::replace(bytes, rest)).into_owned()
}

/// Returns true when what was printed ends with the words of `reply`, whatever the white space.
fn says(printed: &str, reply: &str) -> bool {
    let bare = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    bare(printed).ends_with(&bare(reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_printed_whole() {
        let mut bytes = "aü".as_bytes().to_vec();
        let last = bytes.pop().expect("a byte");
        assert_eq!(whole(&mut bytes), "a");
        bytes.push(last);
        assert_eq!(whole(&mut bytes), "ü");
        assert_eq!(whole(&mut bytes), "");
    }

    #[test]
    fn a_reply_that_was_read_along_is_not_printed_again() {
        assert!(says("Let me look.\n\nIt is 5.", "It is  5.\n"));
        assert!(says("anything", ""));
        assert!(!says("It is", "It is 5."));
    }
}
