//! Verifies the log from its first line to its last, while the daemon may be writing.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::time::Duration;

use ring::digest::{Context, SHA256};
use serde::Serialize;

use super::Place;
use super::chain::read_head;
use super::entry::{Entry, Head, Unfit};
use crate::{sys, text::hex};

/// A line that is being written is looked at again after this long, so often.
const AGAIN: (Duration, u32) = (Duration::from_millis(50), 20);
/// A longer line is not one of ours.
const LONGEST: u64 = 1 << 20;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether every entry is there as it was written.
    pub whole: bool,
    /// Entries that fit, from the first on.
    pub entries: u64,
    /// When the first of them was made, RFC 3339.
    pub from: Option<String>,
    /// When the last of them was made.
    pub to: Option<String>,
    /// The hash of the last of them: noted down elsewhere it proves the entries up to it.
    pub hash: Option<String>,
    /// What is not damage and good to know.
    pub notes: Vec<Note>,
    /// The first line that does not fit.
    pub damage: Option<Damage>,
}

/// Something that happened to the record and is not damage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The line, from 1.
    pub line: u64,
    /// What it means.
    pub meaning: String,
}

/// A line that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The line, from 1; one after the last when the end is missing.
    pub line: u64,
    /// What was done to it.
    pub kind: Kind,
    /// The same for a person.
    pub meaning: String,
}

/// What was done to the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A line has other words than it was written with.
    Changed,
    /// Lines are missing before this one.
    Removed,
    /// A line is there that does not belong there.
    Inserted,
    /// Lines are in another order.
    Reordered,
    /// The end is missing, or another.
    Cut,
    /// `audit.head` is missing.
    Head,
}

/// Reads the record through. `is_alive` says whether its writer runs: then a line without an end may be one
/// that is being written.
///
/// # Errors
/// When a file cannot be read.
pub fn verify(place: &Place, is_alive: &dyn Fn() -> bool) -> Result<Report, sys::Error> {
    // The head first: the log only grows after it.
    let head = read_head(&place.head)?;
    let file = match File::open(&place.log) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(without_log(place, head.as_ref()));
        }
        Err(error) => return Err(sys::Error::at("open", &place.log)(error)),
    };
    let mut reading = Reading {
        lines: Lines {
            file: BufReader::new(file),
            at: 0,
        },
        head,
        line: 0,
        last: Head::none(),
        skipped: None,
        report: Report::default(),
    };
    let damage = reading
        .through(is_alive)
        .map_err(sys::Error::at("read", &place.log))?;
    let mut report = reading.report;
    report.whole = damage.is_none();
    report.damage = damage;
    Ok(report)
}

fn without_log(place: &Place, head: Option<&Head>) -> Report {
    let meaning = match head {
        Some(head) if head.seq == 0 => {
            return Report {
                whole: true,
                ..Report::default()
            };
        }
        Some(head) => format!("the log is gone; it had {} entries at least", head.seq),
        None if place.key.exists() => "the log and its head are gone, and there was one".to_owned(),
        None => {
            return Report {
                whole: true,
                ..Report::default()
            };
        }
    };
    Report {
        damage: Some(Damage {
            line: 1,
            kind: Kind::Cut,
            meaning,
        }),
        ..Report::default()
    }
}

struct Reading {
    lines: Lines,
    head: Option<Head>,
    /// The line that is looked at.
    line: u64,
    last: Head,
    skipped: Option<Skipped>,
    report: Report,
}

/// Lines that are no entries: a crash left them, if the next entry says so.
struct Skipped {
    line: u64,
    why: Unfit,
    bytes: u64,
    digest: Context,
}

impl Reading {
    fn through(&mut self, is_alive: &dyn Fn() -> bool) -> std::io::Result<Option<Damage>> {
        let mut tries = 0;
        let left = loop {
            match self.lines.next()? {
                Next::Line(line) => {
                    self.line += 1;
                    tries = 0;
                    if let Some(damage) = self.take(&line)? {
                        return Ok(Some(damage));
                    }
                }
                Next::Part(_) if tries < AGAIN.1 && is_alive() => {
                    tries += 1;
                    std::thread::sleep(AGAIN.0);
                }
                Next::Part(part) => break part,
                Next::End => break Vec::new(),
            }
        };
        Ok(self.end(&left))
    }

    fn take(&mut self, line: &[u8]) -> std::io::Result<Option<Damage>> {
        let entry = match Entry::parse(line) {
            Ok(entry) => entry,
            Err(why) => {
                self.skip(line, why);
                return Ok(None);
            }
        };
        let skipped = self.skipped.take();
        let follows = entry.follows(&self.last);
        if let Some(skipped) = skipped {
            let is_told = follows && skipped.is_told_by(&entry);
            if is_told && entry.kind == "damage" {
                return Ok(Some(Damage {
                    line: skipped.line,
                    ..self.told(&entry)
                }));
            }
            if !is_told || entry.kind != "torn" {
                return Ok(Some(skipped.damage()));
            }
            self.note(
                skipped.line,
                format!("was cut off by a crash ({} bytes)", skipped.bytes),
            );
        } else if follows && entry.kind == "torn" {
            let meaning =
                "a line that a crash had cut off stood before this one and is gone".to_owned();
            return Ok(Some(self.damage(Kind::Removed, meaning)));
        }
        if !follows {
            return self.misfit(&entry).map(Some);
        }
        if let Some(head) = self
            .head
            .as_ref()
            .filter(|head| head.seq == entry.seq && head.hash != entry.hash)
        {
            let meaning = format!(
                "entry {} is not the one that audit.head names: the log was rebuilt up to here",
                head.seq
            );
            return Ok(Some(self.damage(Kind::Cut, meaning)));
        }
        if entry.kind == "damage" {
            return Ok(Some(self.told(&entry)));
        }
        if entry.kind == "gap" {
            self.note(
                self.line,
                format!(
                    "{} entries before it could not be written (was the disk full?)",
                    entry.missing
                ),
            );
        }
        self.last = entry.as_head();
        self.report.entries = entry.seq;
        self.report.from.get_or_insert_with(|| entry.ts.clone());
        (self.report.to, self.report.hash) = (Some(entry.ts), Some(entry.hash));
        Ok(None)
    }

    fn skip(&mut self, line: &[u8], why: Unfit) {
        let first = Skipped {
            line: self.line,
            why,
            bytes: 0,
            digest: Context::new(&SHA256),
        };
        let is_first = self.skipped.is_none();
        let skipped = self.skipped.get_or_insert(first);
        if !is_first {
            skipped.bytes += 1;
            skipped.digest.update(b"\n");
        }
        skipped.bytes += line.len() as u64;
        skipped.digest.update(line);
    }

    /// What follows the last newline, and what the head says of the end.
    fn end(&mut self, left: &[u8]) -> Option<Damage> {
        let known = self.report.entries;
        // A second crash, while the line that the first one cut off was being closed, leaves both.
        let is_crash = !left.is_empty() && self.head.as_ref().is_some_and(|head| head.seq <= known);
        if let Some(skipped) = self.skipped.take().filter(|_| !is_crash) {
            return Some(skipped.damage());
        }
        self.line += 1;
        match &self.head {
            Some(head) if head.seq > known => {
                let meaning = format!(
                    "the log ends after entry {known}, and it had {} at least: its end was cut off",
                    head.seq
                );
                return Some(self.damage(Kind::Cut, meaning));
            }
            None => {
                let meaning =
                    "audit.head is missing or invalid: whether the end was cut off is unknown"
                        .to_owned();
                return Some(self.damage(Kind::Head, meaning));
            }
            Some(_) => {}
        }
        if !left.is_empty() {
            self.note(
                self.line,
                format!(
                    "has no end yet ({} bytes): a crash cut it off, or it is being written",
                    left.len()
                ),
            );
        }
        None
    }

    /// An entry that is not the next one.
    fn misfit(&mut self, entry: &Entry) -> std::io::Result<Damage> {
        let expected = self.last.seq + 1;
        let comes_later =
            entry.seq != expected && self.lines.any(|later| later.follows(&self.last))?;
        Ok(match entry.seq {
            seq if seq > expected && comes_later => self.damage(
                Kind::Reordered,
                format!("entry {seq} is before entry {expected}"),
            ),
            seq if seq > expected => {
                let missing = if seq == expected + 1 {
                    format!("entry {expected} is")
                } else {
                    format!("entries {expected} to {} are", seq - 1)
                };
                self.damage(Kind::Removed, format!("{missing} missing before it"))
            }
            seq if seq == expected => self.damage(
                Kind::Changed,
                format!(
                    "entry {seq} was written after another entry {} than the one before it",
                    self.last.seq
                ),
            ),
            seq => self.damage(
                Kind::Inserted,
                format!("entry {seq} is here a second time, or in the wrong place"),
            ),
        })
    }

    /// What the daemon found at a start.
    fn told(&self, entry: &Entry) -> Damage {
        let at = &entry.ts;
        let least = entry.head.as_ref().map_or(0, |head| head.seq);
        let meaning = match entry.why.as_str() {
            "gone" => {
                format!("the log was gone when the daemon started at {at}; it began a new one")
            }
            "head_lost" => {
                format!(
                    "audit.head was missing when the daemon started at {at}: whether entries before it were removed is unknown"
                )
            }
            "rewritten" => format!(
                "when the daemon started at {at}, entry {least} was not the one that audit.head named"
            ),
            "inserted" => {
                format!("when the daemon started at {at}, a line that is no entry stood at the end")
            }
            _ => format!(
                "when the daemon started at {at}, the log ended after entry {}, and it had had {least} at least",
                self.last.seq
            ),
        };
        let kind = match entry.why.as_str() {
            "head_lost" => Kind::Head,
            "inserted" => Kind::Inserted,
            _ => Kind::Cut,
        };
        self.damage(kind, meaning)
    }

    fn note(&mut self, line: u64, meaning: String) {
        self.report.notes.push(Note { line, meaning });
    }

    fn damage(&self, kind: Kind, meaning: String) -> Damage {
        Damage {
            line: self.line,
            kind,
            meaning,
        }
    }
}

impl Skipped {
    /// Returns whether an entry is about exactly these bytes.
    fn is_told_by(&self, entry: &Entry) -> bool {
        entry.bytes == self.bytes && entry.sha256 == hex(self.digest.clone().finish().as_ref())
    }

    fn damage(&self) -> Damage {
        let (kind, meaning) = match self.why {
            Unfit::Changed => (Kind::Changed, "its content is not what it was written with"),
            Unfit::Alien => (
                Kind::Changed,
                "this is no entry: it was changed, or somebody wrote it by hand",
            ),
        };
        Damage {
            line: self.line,
            kind,
            meaning: meaning.to_owned(),
        }
    }
}

/// The lines of a file that may grow.
struct Lines {
    file: BufReader<File>,
    /// Where the next one begins.
    at: u64,
}

enum Next {
    /// A line, without its newline.
    Line(Vec<u8>),
    /// Bytes without a newline after them; the next look begins with them again.
    Part(Vec<u8>),
    End,
}

impl Lines {
    fn next(&mut self) -> std::io::Result<Next> {
        let mut line = Vec::new();
        let read = self
            .file
            .by_ref()
            .take(LONGEST)
            .read_until(b'\n', &mut line)? as u64;
        if line.last() == Some(&b'\n') {
            line.pop();
            self.at += read;
            return Ok(Next::Line(line));
        }
        if read == LONGEST {
            // Nobody's; what follows is taken for the next line, and neither is an entry.
            self.at += read;
            return Ok(Next::Line(line));
        }
        if line.is_empty() {
            return Ok(Next::End);
        }
        self.file.seek(SeekFrom::Start(self.at))?;
        Ok(Next::Part(line))
    }

    /// Returns whether any of the lines that follow is such an entry.
    fn any(&mut self, is_it: impl Fn(&Entry) -> bool) -> std::io::Result<bool> {
        while let Next::Line(line) = self.next()? {
            if Entry::parse(&line).is_ok_and(|entry| is_it(&entry)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
