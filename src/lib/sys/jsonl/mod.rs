//! Append-only JSON lines: a line is there completely or not at all.
//!
//! A crash can leave a torn last line; it is cut before the next append, and readers stop at it.
//! A failed append (full disk) is taken back, so that the next line never joins a half one.

mod newest_lines;

use std::convert::Infallible;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub use newest_lines::{line_before, newest_lines};

use super::Error;

/// A JSONL file open for appending.
#[derive(Debug)]
pub struct Appender {
    file: File,
    path: PathBuf,
    len: u64,
    /// When we last wrote.
    written: (i64, i64),
}

impl Appender {
    /// Opens or creates `path` (0600), cutting a torn last line. A new file's directory entry is
    /// synced.
    ///
    /// # Errors
    /// When the file cannot be opened, read or cut.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let fresh = !path.exists();
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
            .map_err(Error::at("open", path))?;
        if fresh {
            super::atomic::sync_parent(path).map_err(Error::at("sync the directory of", path))?;
        }
        let len = whole_lines(&file).map_err(Error::at("read", path))?;
        let look = || file.metadata().map_err(Error::at("read", path));
        let mut meta = look()?;
        if meta.len() > len {
            file.set_len(len)
                .map_err(Error::at("cut the torn end of", path))?;
            meta = look()?;
        }
        let written = written(&meta);
        Ok(Self {
            file,
            path: path.to_owned(),
            len,
            written,
        })
    }

    /// Appends `lines` (each ends with a newline) as one write and, if `durable`, waits for the
    /// disk. Returns the file's new length.
    ///
    /// # Errors
    /// When the write or the sync failed; the file then ends where it ended before.
    pub fn append(&mut self, lines: &[u8], durable: bool) -> Result<u64, Error> {
        let result = self.file.write_all(lines).and_then(|()| {
            if durable {
                self.file.sync_data()
            } else {
                Ok(())
            }
        });
        match result {
            Ok(()) => {
                self.len += lines.len() as u64;
                // A file that cannot be looked at any more counts as touched.
                self.written = self.file.metadata().map_or((0, 0), |meta| written(&meta));
                Ok(self.len)
            }
            Err(error) => {
                if let Err(second) = self.file.set_len(self.len) {
                    tracing::error!(file = %self.path.display(), error = %second, "cannot remove an incomplete line");
                }
                Err(Error::at("append to", &self.path)(error))
            }
        }
    }

    /// Returns true when the file is still the one we have open and ends where we left it: nobody
    /// replaced it or wrote into it.
    pub fn is_untouched(&self) -> bool {
        let ours = self.file.metadata().map(|meta| (meta.dev(), meta.ino()));
        let there = std::fs::metadata(&self.path);
        matches!((ours, there), (Ok(ours), Ok(there))
            if (there.dev(), there.ino()) == ours && there.len() == self.len && written(&there) == self.written)
    }

    /// Returns where the last whole line ends.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true when nothing was ever appended.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns the first line of `path`; `None` when the file is missing or its first line is torn.
///
/// # Errors
/// When the file cannot be read.
pub fn first_line(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let Some(file) = open(path)? else {
        return Ok(None);
    };
    let mut line = Vec::new();
    BufReader::new(file)
        .read_until(b'\n', &mut line)
        .map_err(Error::at("read", path))?;
    Ok((line.pop() == Some(b'\n')).then_some(line))
}

/// Calls `each` with every whole line of `path` from byte `start` on and the offset where it
/// ends. A torn last line is left out. A missing file has no lines.
///
/// # Errors
/// When the file cannot be read.
pub fn for_each_line(
    path: &Path,
    start: u64,
    mut each: impl FnMut(&[u8], u64),
) -> Result<(), Error> {
    let all = try_for_each_line(path, start, |line, end| {
        each(line, end);
        ControlFlow::<Infallible>::Continue(())
    });
    all.map(|_| ())
}

/// Does what [`for_each_line`] does until `each` breaks off, and returns with what.
///
/// # Errors
/// When the file cannot be read.
pub fn try_for_each_line<B>(
    path: &Path,
    start: u64,
    mut each: impl FnMut(&[u8], u64) -> ControlFlow<B>,
) -> Result<ControlFlow<B>, Error> {
    let Some(file) = open(path)? else {
        return Ok(ControlFlow::Continue(()));
    };
    let mut reader = BufReader::with_capacity(1 << 16, file);
    reader
        .seek(SeekFrom::Start(start))
        .map_err(Error::at("read", path))?;
    let mut offset = start;
    let mut line = Vec::new();
    loop {
        line.clear();
        let count = reader
            .read_until(b'\n', &mut line)
            .map_err(Error::at("read", path))?;
        if count == 0 || line.last() != Some(&b'\n') {
            return Ok(ControlFlow::Continue(()));
        }
        offset += count as u64;
        line.pop();
        if let ControlFlow::Break(with) = each(&line, offset) {
            return Ok(ControlFlow::Break(with));
        }
    }
}

/// Opens a file for reading; `None` when it is missing.
fn open(path: &Path) -> Result<Option<File>, Error> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::at("open", path)(error)),
    }
}

/// Returns when a file was last written.
fn written(meta: &std::fs::Metadata) -> (i64, i64) {
    (meta.mtime(), meta.mtime_nsec())
}

/// Returns the length of the file up to and including its last newline.
fn whole_lines(file: &File) -> std::io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut block = [0_u8; 4096];
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        let size = usize::try_from(end - start).unwrap_or(block.len());
        let Some(part) = block.get_mut(..size) else {
            return Ok(end);
        };
        file.read_exact_at(part, start)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(path: &Path) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for_each_line(path, 0, |line, _| all.push(line.to_vec())).expect("read");
        all
    }

    proptest! {
        #[test]
        fn a_file_cut_anywhere_keeps_its_whole_lines_and_takes_new_ones(
            texts in proptest::collection::vec("[a-z]{0,40}", 1..20), cut in 0usize..900
        ) {
            let dir = tempfile::tempdir().expect("dir");
            let path = dir.path().join("log.jsonl");
            let mut log = Appender::open(&path).expect("open");
            for text in &texts {
                log.append(format!("{text}\n").as_bytes(), false).expect("append");
            }
            let all: String = texts.iter().map(|text| format!("{text}\n")).collect();
            let cut = cut.min(all.len());
            OpenOptions::new().write(true).open(&path).expect("open").set_len(cut as u64).expect("cut");
            let whole: Vec<Vec<u8>> = {
                let kept = all.get(..cut).expect("ascii");
                let end = kept.rfind('\n').map_or(0, |at| at + 1);
                kept.get(..end).expect("ascii").lines().map(|line| line.as_bytes().to_vec()).collect()
            };
            prop_assert_eq!(&lines(&path), &whole);
            Appender::open(&path).expect("reopen").append(b"next\n", true).expect("append");
            let mut expected = whole;
            expected.push(b"next".to_vec());
            prop_assert_eq!(lines(&path), expected);
        }
    }
}
