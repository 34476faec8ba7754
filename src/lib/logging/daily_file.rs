//! The file of the day.

use parking_lot::Mutex;
use std::fs::{File, Metadata, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use chrono::{Days, NaiveDate};
use chrono_tz::Tz;
use nix::fcntl::OFlag;

use crate::sys::clock_check::{self, Reading};
use crate::{clock, secret};

/// How often it is looked whether the file of the day is still there.
const LOOK_MS: i64 = 5_000;

/// `DIR/YYYY-MM-DD.jsonl`, another one after midnight; old ones are deleted then.
#[derive(Debug)]
pub(super) struct Daily {
    dir: PathBuf,
    zone: Mutex<Tz>,
    keep_days: u32,
    now_ms: fn() -> i64,
    today: Mutex<Today>,
}

#[derive(Debug, Default)]
struct Today {
    /// The day of `file`: from its first millisecond to the next day's.
    from_ms: i64,
    until_ms: i64,
    file: Option<File>,
    /// When it was looked whether the file is still there.
    looked_ms: i64,
    /// Lines lost since the last one that was written.
    lost: u64,
    /// A full disk took only a part of the last line.
    torn: bool,
}

impl Daily {
    /// Takes the directory and deletes old files. The file is opened by its first line.
    pub(super) fn open(dir: PathBuf, zone: Tz, keep_days: u32) -> Self {
        Self::with_clock(dir, zone, keep_days, clock::now_ms)
    }

    pub(super) fn with_clock(dir: PathBuf, zone: Tz, keep_days: u32, now_ms: fn() -> i64) -> Self {
        let now = now_ms();
        delete_old(&dir, now, clock::local_date(now, zone), keep_days);
        Self {
            dir,
            zone: Mutex::new(zone),
            keep_days,
            now_ms,
            today: Mutex::default(),
        }
    }

    /// Goes by the dates of `zone` from the next line on.
    pub(super) fn set_zone(&self, zone: Tz) {
        *self.zone.lock() = zone;
        // The next line opens the file of its day.
        self.lock().file = None;
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Today> {
        self.today.lock()
    }

    /// Appends one line by one `write(2)`. A failure is told once on stderr, then counted in
    /// silence until a line can be written again.
    fn append(&self, line: &str) {
        let mut today = self.lock();
        match self.try_append(&mut today, line) {
            Ok(()) if today.lost > 0 => {
                let lost = std::mem::take(&mut today.lost);
                let time = clock::rfc3339((self.now_ms)());
                let report = format!(
                    "{{\"timestamp\":\"{time}\",\"level\":\"WARN\",\"message\":\"{lost} log lines could not be written\"}}\n"
                );
                // Lost again: the next failure counts, this line is not a loss to anybody.
                let _ = self.try_append(&mut today, &report);
            }
            Ok(()) => {}
            Err(error) => {
                if today.lost == 0 {
                    let words = format!(
                        "log file in {} cannot be written: {error}; going on without it\n",
                        self.dir.display()
                    );
                    let _ = std::io::stderr().write_all(secret::redact(&words).as_bytes());
                }
                today.lost += 1;
            }
        }
    }

    fn try_append(&self, today: &mut Today, line: &str) -> std::io::Result<()> {
        let now = (self.now_ms)();
        if !(0..LOOK_MS).contains(&(now - today.looked_ms)) {
            today.looked_ms = now;
            // Somebody made room, or logrotate renamed it: a deleted file would take the lines until midnight, and the room.
            drop(today.file.take_if(|file| !is_there(file, &self.path(now))));
        }
        if today.file.is_none() || now < today.from_ms || now >= today.until_ms {
            self.turn_page(today, now)?;
        }
        let Some(file) = &mut today.file else {
            return Ok(());
        };
        // A line begun on a full disk is ended before the next one.
        let whole = if today.torn {
            format!("\n{line}")
        } else {
            line.to_owned()
        };
        let written = loop {
            match file.write(whole.as_bytes()) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                done => break done?,
            }
        };
        today.torn = written < whole.len() && (today.torn || written > 0);
        if written < whole.len() {
            Err(std::io::ErrorKind::StorageFull.into())
        } else {
            Ok(())
        }
    }

    /// Returns the file of the day of `now`.
    fn path(&self, now: i64) -> PathBuf {
        let date = clock::local_date(now, *self.zone.lock());
        self.dir.join(format!("{date}.jsonl"))
    }

    fn turn_page(&self, today: &mut Today, now: i64) -> std::io::Result<()> {
        let zone = *self.zone.lock();
        let date = clock::local_date(now, zone);
        let tomorrow = date.checked_add_days(Days::new(1)).unwrap_or(date);
        let path = self.path(now);
        let flags = (OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC).bits();
        today.file = None;
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(flags)
            .open(path)?;
        today.torn = !ends_with_newline(&file)?;
        today.file = Some(file);
        if today.until_ms != 0 {
            delete_old(&self.dir, now, date, self.keep_days);
        }
        (today.from_ms, today.until_ms) = (
            clock::start_of_day(date, zone),
            clock::start_of_day(tomorrow, zone),
        );
        Ok(())
    }
}

/// Returns whether `file` is what stands at `path`.
fn is_there(file: &File, path: &Path) -> bool {
    let id = |meta: Metadata| (meta.dev(), meta.ino());
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(own), Ok(there)) => id(own) == id(there),
        (Ok(_), Err(error)) => error.kind() != std::io::ErrorKind::NotFound,
        (Err(_), _) => true,
    }
}

fn ends_with_newline(file: &File) -> std::io::Result<bool> {
    let Some(last) = file.metadata()?.len().checked_sub(1) else {
        return Ok(true);
    };
    let mut byte = [0];
    file.read_exact_at(&mut byte, last)?;
    Ok(byte == *b"\n")
}

/// Deletes the files of days more than `keep_days` before `today`, the day of `now`. What cannot be listed or deleted
/// now is tried again tomorrow; other names are left alone. A clock that is doubted deletes nothing.
fn delete_old(dir: &Path, now: i64, today: NaiveDate, keep_days: u32) {
    if matches!(clock_check::read(now), Reading::Ahead { .. }) {
        return;
    }
    let Some(oldest) = today.checked_sub_days(Days::new(u64::from(keep_days))) else {
        return;
    };
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let date = name
            .to_str()
            .and_then(|name| name.strip_suffix(".jsonl")?.parse::<NaiveDate>().ok());
        if date.is_some_and(|date| date < oldest) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The layer holds an `Arc<Daily>` and hands over one event at a time, whole.
impl Write for &Daily {
    fn write(&mut self, event: &[u8]) -> std::io::Result<usize> {
        self.append(&secret::redact(&String::from_utf8_lossy(event)));
        Ok(event.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
