//! Checks the write-ahead log of a database. SQLite reads it up to the first damaged frame and silently drops the rest
//! (sqlite.org/fileformat2.html, "The Write-Ahead Log"), so it is checked before the database is opened. Also the checkpoint
//! that empties it.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use super::{Error, beside};

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The first four bytes except for the last bit, which tells the order of bytes in checksums.
const MAGIC: u32 = 0x377f_0682;
/// Of the last transaction a power cut may have left anything. Only one can have been written without its sync.
const UNSYNCED: u64 = 1;

/// Returns how many transactions that were on disk are behind damage in the log of the database at `path` and are
/// lost; 0 when it is whole, ends in the middle of its last transaction, or is not there.
///
/// # Errors
/// When the log cannot be read.
pub fn lost_transactions(path: &Path) -> io::Result<u64> {
    let file = match File::open(beside(path, "-wal")) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let mut file = BufReader::with_capacity(1 << 16, file);
    let mut header = [0; HEADER];
    if !fill(&mut file, &mut header)? {
        return Ok(0);
    }
    let mut sum = Checksum::of(word(&header, 0));
    sum.add(&header[..HEADER - 8]);
    if word(&header, 0) & !1 != MAGIC || !sum.is(&header[HEADER - 8..]) {
        return behind_lost_header(&header, file);
    }
    let page = word(&header, 8) as usize;
    let salts = &header[16..24];
    let mut frame = vec![0; FRAME_HEADER + page];
    let (mut behind, mut rest) = (0, None::<Rest>);
    let mut after_commit = true;
    while fill(&mut file, &mut frame)? {
        let is_ours = frame[8..16] == *salts;
        sum.add(&frame[..8]);
        sum.add(&frame[FRAME_HEADER..]);
        let written = &frame[16..FRAME_HEADER];
        if !is_ours || !sum.is(written) {
            behind += rest.map_or(0, |rest| rest.lost());
            rest = Some(Rest {
                after_commit: after_commit && is_ours,
                commits: 0,
            });
            sum.sum = (word(written, 0), word(written, 4));
        }
        // The last frame of a transaction carries the size of the database.
        let commits = is_ours && word(&frame, 4) != 0;
        if let Some(rest) = rest.as_mut().filter(|_| commits) {
            rest.commits += 1;
        }
        after_commit = commits;
    }
    behind += rest.map_or(0, |rest| rest.lost());
    Ok(if behind > UNSYNCED { behind } else { 0 })
}

/// Frames behind damage, each of which continues the one before.
struct Rest {
    /// Whether the frame before the first was the last of a transaction.
    after_commit: bool,
    /// How many transactions end in it.
    commits: u64,
}

impl Rest {
    /// Returns how many transactions were lost. A commit whose sync failed stays in the log, and what is committed next is
    /// written over its beginning: its rest is one transaction, right behind another, and its caller knows that it failed.
    fn lost(&self) -> u64 {
        match self {
            Self {
                after_commit: true,
                commits: 1,
            } => 0,
            rest => rest.commits,
        }
    }
}

/// Moves what the log of the database at `path` holds into the database and empties it.
///
/// # Errors
/// See [`Error`].
pub fn empty_log(path: &Path) -> Result<(), Error> {
    rusqlite::Connection::open(path)
        .and_then(|connection| checkpoint(&connection))
        .map_err(|source| Error::of(path, source))
}

/// Does so through `connection`, as far as nobody else reads the log.
pub(super) fn checkpoint(connection: &rusqlite::Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

/// Of a log whose header tells nothing one transaction at least is lost, if there was any.
fn behind_lost_header(header: &[u8], mut file: impl Read) -> io::Result<u64> {
    // All zeros: it was made, and the machine ended before anything was on disk.
    let was_made_only = header.iter().all(|byte| *byte == 0);
    let has_frames = io::copy(&mut file, &mut io::sink())? > 0;
    Ok(u64::from(has_frames && !was_made_only))
}

/// Fills `buffer`; false when the file ends before.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// The four bytes at `at`, the highest first.
fn word(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(four)
}

/// The running checksum of a log.
struct Checksum {
    read: fn([u8; 4]) -> u32,
    sum: (u32, u32),
}

impl Checksum {
    fn of(magic: u32) -> Self {
        let read = if magic & 1 == 1 {
            u32::from_be_bytes
        } else {
            u32::from_le_bytes
        };
        Self { read, sum: (0, 0) }
    }

    /// Adds `bytes`, whose number is a multiple of eight.
    fn add(&mut self, bytes: &[u8]) {
        let (pairs, _) = bytes.as_chunks::<8>();
        for [a, b, c, d, e, f, g, h] in pairs {
            let (first, second) = self.sum;
            let first = first
                .wrapping_add((self.read)([*a, *b, *c, *d]))
                .wrapping_add(second);
            let second = second
                .wrapping_add((self.read)([*e, *f, *g, *h]))
                .wrapping_add(first);
            self.sum = (first, second);
        }
    }

    fn is(&self, written: &[u8]) -> bool {
        (word(written, 0), word(written, 4)) == self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::open;
    use crate::sys::atomic;

    const SCHEMA: &[&str] = &["CREATE TABLE t(a INTEGER, b BLOB) STRICT;"];
    const FRAME: usize = FRAME_HEADER + 4096;

    /// A database that was killed after `transactions`, and the length of its log.
    fn killed(dir: &Path, transactions: i64) -> (std::path::PathBuf, usize) {
        let path = dir.join("queue.db");
        let copy = dir.join("copy.db");
        let connection = open(&path, SCHEMA).expect("open");
        for n in 0..transactions {
            connection
                .execute("INSERT INTO t VALUES (?1, zeroblob(3000))", [n])
                .expect("insert");
        }
        for end in ["", "-wal"] {
            std::fs::copy(beside(&path, end), beside(&copy, end)).expect("copy");
        }
        let length = std::fs::read(beside(&copy, "-wal")).expect("log").len();
        (copy, length)
    }

    fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let log = beside(path, "-wal");
        let mut bytes = std::fs::read(&log).expect("log");
        change(&mut bytes);
        write(&log, &bytes);
    }

    fn write(path: &Path, bytes: &[u8]) {
        atomic::write(path, bytes, atomic::Durability::Rename).expect("write");
    }

    fn rows(path: &Path) -> i64 {
        let connection = rusqlite::Connection::open(path).expect("open");
        connection
            .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
            .expect("count")
    }

    #[test]
    fn a_whole_log_and_a_torn_end_are_no_damage() {
        let dir = tempfile::tempdir().expect("dir");
        let (path, length) = killed(dir.path(), 20);
        assert_eq!(lost_transactions(&path).expect("read"), 0);
        assert_eq!(
            lost_transactions(&dir.path().join("none.db")).expect("read"),
            0
        );
        // What a power cut leaves: the last transaction half written, or not at all.
        for left in [length - FRAME, length - 100, HEADER, 10, 0] {
            change(&path, |log| log.truncate(left));
            assert_eq!(lost_transactions(&path).expect("read"), 0, "{left} bytes");
        }
        let again = tempfile::tempdir().expect("dir");
        let (path, length) = killed(again.path(), 20);
        change(&path, |log| log[length - 2000] ^= 1);
        assert_eq!(lost_transactions(&path).expect("read"), 0);
        change(&path, |log| log.fill(0));
        assert_eq!(lost_transactions(&path).expect("read"), 0);
    }

    #[test]
    fn a_flipped_bit_anywhere_before_the_last_transaction_is_told_when_sqlite_drops_what_follows() {
        let dir = tempfile::tempdir().expect("dir");
        let (whole, length) = killed(dir.path(), 12);
        let log = std::fs::read(beside(&whole, "-wal")).expect("log");
        let database = std::fs::read(&whole).expect("database");
        for at in (0..length - 5 * FRAME).step_by(611) {
            let path = dir.path().join(format!("{at}.db"));
            write(&path, &database);
            let mut damaged = log.clone();
            damaged[at] ^= 0x10;
            write(&beside(&path, "-wal"), &damaged);
            let lost = lost_transactions(&path).expect("read");
            assert!(lost > 0, "byte {at}");
            let kept = rusqlite::Connection::open(&path)
                .and_then(|c| c.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)))
                .unwrap_or(0);
            assert!(kept < 12, "byte {at}: SQLite lost nothing");
        }
        assert_eq!(rows(&whole), 12);
    }

    /// Returns the log of the database at `path` after one more transaction of so many rows.
    fn after_another(path: &Path, rows: i64) -> Vec<u8> {
        let dir = tempfile::tempdir().expect("dir");
        let copy = dir.path().join("another.db");
        for end in ["", "-wal"] {
            std::fs::copy(beside(path, end), beside(&copy, end)).expect("copy");
        }
        let mut connection = rusqlite::Connection::open(&copy).expect("open");
        let transaction = connection.transaction().expect("begun");
        for n in 0..rows {
            transaction
                .execute("INSERT INTO t VALUES (?1, zeroblob(3000))", [n])
                .expect("insert");
        }
        transaction.commit().expect("committed");
        std::fs::read(beside(&copy, "-wal")).expect("log")
    }

    #[test]
    fn what_commits_that_failed_leave_behind_a_later_one_is_no_loss() {
        let dir = tempfile::tempdir().expect("dir");
        let (path, length) = killed(dir.path(), 3);
        let [first, second, last] = [12, 6, 1].map(|rows| after_another(&path, rows));
        assert!(length < last.len() && last.len() < second.len() && second.len() < first.len());
        let mut log = last.clone();
        log.extend(&second[last.len()..]);
        log.extend(&first[second.len()..]);
        write(&beside(&path, "-wal"), &log);
        assert_eq!(lost_transactions(&path).expect("read"), 0);
        // And damage before them is damage.
        change(&path, |log| log[length - 2 * FRAME] ^= 1);
        assert!(lost_transactions(&path).expect("read") > 0);
        write(&beside(&path, "-wal"), &log);
        assert_eq!(rows(&path), 4);
    }

    #[test]
    fn frames_of_an_earlier_turn_of_the_log_are_no_loss() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("queue.db");
        let copy = dir.path().join("copy.db");
        let connection = open(&path, SCHEMA).expect("open");
        for n in 0..30 {
            connection
                .execute("INSERT INTO t VALUES (?1, zeroblob(3000))", [n])
                .expect("insert");
        }
        // The log begins again from its start, over what it held.
        connection
            .execute_batch("PRAGMA wal_checkpoint(RESTART); INSERT INTO t VALUES (99, x'00');")
            .expect("written over");
        for end in ["", "-wal"] {
            std::fs::copy(beside(&path, end), beside(&copy, end)).expect("copy");
        }
        assert_eq!(lost_transactions(&copy).expect("read"), 0);
        assert_eq!(rows(&copy), 31);
    }
}
