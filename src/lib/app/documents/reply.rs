//! `reply`: the result of a command, and its answer while it is written.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::app::cli::Failure;
use crate::config::Home;
use crate::control::Id;
use crate::control::replies;
use crate::control::replies::Reply;
use crate::queue;

/// Returns an answer, from its file or, when that is not the last word, from the queue, which is the record: a
/// file may be gone, or could not be written. `None` when nothing is known of the command.
pub(crate) fn reply(home: &Home, id: &Id) -> Result<Option<Reply>, Failure> {
    let file = replies::read(&home.replies(), id)?;
    if file.as_ref().is_some_and(Reply::is_final) {
        return Ok(file);
    }
    Ok(queue::result(&home.queue_db(), id.as_str())?.or(file))
}

pub(crate) struct Part {
    path: PathBuf,
    file: Option<File>,
    /// Bytes of a letter that is not whole yet.
    rest: Vec<u8>,
    read: String,
    again: bool,
}

impl Part {
    /// Waits for the file of command `id`.
    pub(crate) fn of(home: &Home, id: &Id) -> Self {
        let path = replies::part_path(&home.replies(), id.as_str());
        Self {
            path,
            file: None,
            rest: Vec::new(),
            read: String::new(),
            again: false,
        }
    }

    /// Returns what is new; nothing, most of the time.
    pub(crate) fn read(&mut self) -> String {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let mut new = self.read_file();
        if let Some(newer) = self.newer() {
            self.file = Some(newer);
            self.rest.clear();
            self.again = !(self.read.is_empty() && new.is_empty());
            new.push_str(&self.read_file());
        }
        self.read.push_str(&new);
        new
    }

    /// Returns what is missing of `reply` when nothing more will be written.
    pub(crate) fn end(&mut self, reply: &str) -> String {
        let mut new = self.read();
        if !says(&self.read, reply) {
            if !self.read.is_empty() {
                new.push_str("\n\n");
            }
            new.push_str(reply);
        }
        new
    }

    fn read_file(&mut self) -> String {
        let Some(file) = &mut self.file else {
            return String::new();
        };
        // What cannot be read comes with the reply itself.
        if file.read_to_end(&mut self.rest).is_err() {
            return String::new();
        }
        let words = whole(&mut self.rest);
        if !words.is_empty() && std::mem::take(&mut self.again) {
            return format!("\n\n{words}");
        }
        words
    }

    /// Returns the file that is in the place of ours now, if that is another.
    fn newer(&self) -> Option<File> {
        let ours = self.file.as_ref()?.metadata().ok()?;
        let there = File::open(&self.path).ok()?;
        let meta = there.metadata().ok()?;
        ((meta.dev(), meta.ino()) != (ours.dev(), ours.ino())).then_some(there)
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

/// Returns true when what was read ends with the words of `reply`, whatever the white space.
fn says(read: &str, reply: &str) -> bool {
    let bare = |text: &str| {
        text.chars()
            .filter(|c| !c.is_whitespace())
            .collect::<String>()
    };
    bare(read).ends_with(&bare(reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_read_whole() {
        let mut bytes = "aü".as_bytes().to_vec();
        let last = bytes.pop().expect("a byte");
        assert_eq!(whole(&mut bytes), "a");
        bytes.push(last);
        assert_eq!(whole(&mut bytes), "ü");
        assert_eq!(whole(&mut bytes), "");
    }

    #[test]
    fn a_reply_that_was_read_along_is_not_read_again() {
        assert!(says("Let me look.\n\nIt is 5.", "It is  5.\n"));
        assert!(says("anything", ""));
        assert!(!says("It is", "It is 5."));
    }
}
