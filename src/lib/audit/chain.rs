//! The file of the chain, open for appending: how it is taken up after a crash, and how lines are added.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

use super::Place;
use super::entry::{Entry, Event, Head};
use crate::sys::atomic;
use crate::sys::atomic::Durability;
use crate::{clock, sys, text::sha256_hex};

/// The end of the file in which the last whole entry is looked for. Ten thousand entries wait at most while
/// the disk is full, and the head is as old as they are.
const TAIL: u64 = 8 << 20;

/// The chain, open for appending.
#[derive(Debug)]
pub(super) struct Chain {
    place: Place,
    file: File,
    /// Where it ends, as far as we have written it.
    len: u64,
    /// The last entry.
    last: Head,
    /// Half a line of ours is at the end.
    is_torn: bool,
}

impl Chain {
    /// Opens the log, or begins one. What a crash left at its end is closed by an entry that says so; an end
    /// that is not what the head says is noted permanently.
    pub(super) fn open(place: &Place) -> Result<Self, sys::Error> {
        begin(place)?;
        let head = read_head(&place.head)?;
        let is_new = !place.log.exists();
        let file = open_file(&place.log).map_err(sys::Error::at("open", &place.log))?;
        if is_new {
            atomic::sync_parent(&place.log)
                .map_err(sys::Error::at("sync the directory of", &place.log))?;
        }
        let end = End::read(&file).map_err(sys::Error::at("read", &place.log))?;
        let mut chain = Self {
            place: place.clone(),
            len: end.len,
            file,
            last: end.last.clone(),
            is_torn: false,
        };
        let why = match &head {
            None if is_new => Some("gone"),
            None => Some("head_lost"),
            Some(head) if head.seq > end.last.seq => Some("cut"),
            Some(head) if end.hash_of(head.seq).is_some_and(|hash| hash != head.hash) => {
                Some("rewritten")
            }
            // A crash leaves no newline behind what it cut off.
            Some(_) if end.left.ends_with(b"\n") => Some("inserted"),
            Some(_) => None,
        };
        let left = end.left.strip_suffix(b"\n").unwrap_or(&end.left);
        let (bytes, digest) = (left.len() as u64, sha256_hex(left));
        let event = match why {
            Some(why) => Event::Damage {
                why,
                head,
                bytes,
                sha256: digest,
            },
            None if end.left.is_empty() => return chain.complete(&end),
            None => Event::Torn {
                bytes,
                sha256: digest,
            },
        };
        tracing::warn!(
            ?event,
            "the audit log was not as it should be; an entry says so"
        );
        let break_line = if end.left.is_empty() || end.left.ends_with(b"\n") {
            ""
        } else {
            "\n"
        };
        let mut last = chain.last.clone();
        let line = last.next(clock::now_ms(), &event);
        chain
            .put(format!("{break_line}{line}").as_bytes())
            .map_err(sys::Error::at("append to", &place.log))?;
        chain.last = last;
        Ok(chain)
    }

    /// The last entry may want nothing but its newline.
    fn complete(mut self, end: &End) -> Result<Self, sys::Error> {
        if end.wants_newline {
            self.put(b"\n")
                .map_err(sys::Error::at("append to", &self.place.log))?;
        }
        Ok(self)
    }

    /// Returns the last entry.
    pub(super) fn last(&self) -> &Head {
        &self.last
    }

    /// Returns whether a failed write could not be taken back: the log is to be reopened, which closes it.
    pub(super) fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// Appends entries as whole lines in one write.
    pub(super) fn append<'a>(
        &mut self,
        events: impl Iterator<Item = &'a (i64, Event)>,
    ) -> std::io::Result<()> {
        let mut last = self.last.clone();
        let mut lines = String::new();
        if self.is_touched()? {
            lines.push('\n');
        }
        for (at_ms, event) in events {
            lines.push_str(&last.next(*at_ms, event));
        }
        self.put(lines.as_bytes())?;
        self.last = last;
        Ok(())
    }

    /// Waits for the disk, then moves the head: it is never ahead of what a power cut leaves.
    pub(super) fn sync(&mut self) -> Result<(), sys::Error> {
        self.file
            .sync_data()
            .map_err(sys::Error::at("sync", &self.place.log))?;
        write_head(&self.place, &self.last)
    }

    /// Somebody may have replaced the file, or written into it: the chain continues in the file that has the
    /// name, and shows what was done to it. Returns whether a line that is not ours wants its end.
    fn is_touched(&mut self) -> std::io::Result<bool> {
        let ours = self.file.metadata()?;
        let is_ours = std::fs::metadata(&self.place.log)
            .is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino()));
        let mut len = ours.len();
        if !is_ours {
            self.file = open_file(&self.place.log)?;
            len = self.file.metadata()?.len();
        }
        if is_ours && len == self.len {
            return Ok(false);
        }
        tracing::error!(file = %self.place.log.display(), "another process has changed the audit log");
        self.len = len;
        let mut byte = [b'\n'];
        if let Some(at) = len.checked_sub(1) {
            self.file.read_exact_at(&mut byte, at)?;
        }
        Ok(byte != [b'\n'])
    }

    /// A failed write is taken back: the next one must not join a half line.
    fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if let Err(error) = self.file.write_all(bytes) {
            if let Err(second) = self.file.set_len(self.len) {
                self.is_torn = true;
                tracing::error!(error = %second, "cannot remove an incomplete entry of the audit log");
            }
            return Err(error);
        }
        self.len += bytes.len() as u64;
        Ok(())
    }
}

/// Begins a record where there is none: with a head, so that one that is missing later was removed.
pub(super) fn begin(place: &Place) -> Result<(), sys::Error> {
    let is_there = [&place.log, &place.head, &place.key]
        .into_iter()
        .any(|path| path.symlink_metadata().is_ok());
    if is_there {
        Ok(())
    } else {
        write_head(place, &Head::none())
    }
}

/// The end of the file.
struct End {
    len: u64,
    /// The last entry.
    last: Head,
    /// Whether it has no newline yet.
    wants_newline: bool,
    /// What follows it and is not an entry.
    left: Vec<u8>,
    /// The lines that were looked at.
    tail: Vec<u8>,
}

impl End {
    fn read(file: &File) -> std::io::Result<Self> {
        let len = file.metadata()?.len();
        let start = len.saturating_sub(TAIL);
        let mut tail = vec![0; usize::try_from(len - start).unwrap_or_default()];
        file.read_exact_at(&mut tail, start)?;
        let mut end = Self {
            len,
            last: Head::none(),
            wants_newline: false,
            left: Vec::new(),
            tail,
        };
        // From the back: the first line that is an entry is the last one.
        let mut to = end.tail.len();
        loop {
            let from = end
                .tail
                .get(..to)
                .and_then(|part| part.iter().rposition(|byte| *byte == b'\n'))
                .map_or(0, |at| at + 1);
            let line = end.tail.get(from..to).unwrap_or_default();
            if let Ok(entry) = Entry::parse(line) {
                end.last = entry.as_head();
                end.wants_newline = to == end.tail.len();
                end.left = end.tail.get(to + 1..).unwrap_or_default().to_vec();
                return Ok(end);
            }
            match from.checked_sub(1) {
                Some(before) => to = before,
                None => break,
            }
        }
        end.left = end.tail.clone();
        Ok(end)
    }

    /// Returns the hash of the entry `seq`, when it is among the last.
    fn hash_of(&self, seq: u64) -> Option<String> {
        let entries = self
            .tail
            .rsplit(|byte| *byte == b'\n')
            .filter_map(|line| Entry::parse(line).ok());
        let found = entries
            .take_while(|entry| entry.seq >= seq)
            .find(|entry| entry.seq == seq)?;
        Some(found.hash)
    }
}

fn open_file(path: &Path) -> std::io::Result<File> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC).bits();
    OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)
}

/// Returns the head; `None` when there is none that can be read as one.
pub(super) fn read_head(path: &Path) -> Result<Option<Head>, sys::Error> {
    atomic::read_valid_json(path)
}

/// A power cut must not leave it empty: a verifier would take that for a hand at work.
fn write_head(place: &Place, head: &Head) -> Result<(), sys::Error> {
    let mut bytes = serde_json::to_vec(head).unwrap_or_default();
    bytes.push(b'\n');
    atomic::write(&place.head, &bytes, Durability::Full)
}
